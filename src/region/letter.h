/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message between the homes, holders and mappers of a region as bytes, with the name of the
 * region that it is of; read strictly: what no machine would say is not read, and there is one way
 * to write each. So the machines see messages whose numbers can be; whether what they say is so is
 * the machines' matter (docs/regions.md).
 *
 * Pure; any thread.
 */
#ifndef REGION_LETTER_H
#define REGION_LETTER_H

#include "region/message.h"

/* Kind, what a DONE is of, flags, the name's length; a status; the version. */
#define REGION_LETTER_HEAD_BYTES 32u
/* At most: with a base, chunks, a geometry, a donation, a source, a lock or a barrier, ranks,
 * handles, the name and a descriptor.
 */
#define REGION_LETTER_BYTES                                                               \
    (REGION_LETTER_HEAD_BYTES + 24u + 8u * REGION_CHUNK_WORDS + 24u + 20u + 41u +         \
     8u * REGION_SET_WORDS + (2u + 12u * LIMIT_REGION_CHUNKS) + LIMIT_REGION_NAME_BYTES + \
     REGION_WIRE_BYTES)

_Static_assert(REGION_LETTER_BYTES <= LIMIT_CALL_BYTES, "a letter fits one call");

/* One that was read, and what its message points to. */
struct region_letter {
    struct region_message message; /* but for the peer */
    uint8_t name_bytes;
    char name[LIMIT_REGION_NAME_BYTES]; /* zeros behind its end */
    struct region_window handles[LIMIT_REGION_CHUNKS];
    union {
        struct region_descriptor descriptor;
        uint8_t room[sizeof(struct region_descriptor) +
                     LIMIT_REGION_CHUNKS * sizeof(struct region_chunk)];
    };
};

/* Of a message that a machine sends, of the region of this name: how many bytes were written, at
 * most REGION_LETTER_BYTES. */
size_t region_letter_encode(const struct region_message *message, const char *name,
                            uint8_t name_bytes, uint8_t *out);

/* NIGH_PROTOCOL: it is none. */
nigh_status region_letter_decode(const uint8_t *bytes, size_t size_bytes,
                                 struct region_letter *letter);

/* How many chunks a machine has to have room for before it is given the message. */
uint32_t region_letter_room(const struct region_letter *letter);

#endif
