/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nodes say to each other of a space, as it is on the wire (docs/spaces.md, "The engine"): 64
 * bytes, in the byte order of nodes that are little-endian, as all of a cluster are. Bytes of a
 * block go before a message, by a WRITE of the same channel.
 *
 * Who takes one believes nothing: space_wire_check first, and what it means by the steps.
 */
#ifndef SPACE_WIRE_H
#define SPACE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"
#include "space/message.h"

enum space_wire_kind {
    SPACE_WIRE_HELLO = 1, /* the first over a link: who I am, and what I know of you */
    SPACE_WIRE_LINKS,     /* whom I am linked with */
    SPACE_WIRE_TERM,      /* `event` of enum space_term_event */
    SPACE_WIRE_TO_HOME,   /* of a block whose home the receiver is: enum space_home_event */
    SPACE_WIRE_TO_CACHE,  /* of one that the receiver caches: enum space_cache_event */
    SPACE_WIRE_ALLOC,     /* operands: bytes, ticket; home memory is wanted */
    SPACE_WIRE_FREE,      /* operands: as of an op, ticket; what lies at the address is freed */
    SPACE_WIRE_ANSWER, /* of these two, as `event` says. operands: a status, ticket; the address */
    /* operands: -, number. To the home: who asked for the block waits, and some of that would lock
     * it only if nobody holds it. From the home: it waits for the receiver's answer. */
    SPACE_WIRE_IS_HELD,
    SPACE_WIRE_HELD, /* the answer; `event`: 1: a client holds it; 0: none, as far as is known */
    SPACE_WIRE_KINDS,
    /* From here on they are the node's own, not an engine's: of what spaces there are. Only `kind`,
     * and that they have 64 bytes, is as here. */
    SPACE_WIRE_OF_NODES = 128
};

/* HELLO: the sender answers one, and wants none. */
#define SPACE_WIRE_IS_ANSWER 1u

/* TERM: what the receiver had of this home is nothing any more: terms were open without it. */
#define SPACE_WIRE_ANEW 1u

/* A home that begins has a term above all that members know: there are as many again. */
#define SPACE_WIRE_TERMS (UINT32_C(1) << 31)

struct space_wire {
    uint8_t kind;  /* enum space_wire_kind */
    uint8_t event; /* else 0 */
    uint8_t whom;  /* of a block: space_message; else 0 */
    uint8_t why;   /* the same; of HELLO and TERM: a flag of above; of ALLOC: 2 to the power of that
                      the address is a multiple of, or a block is more; else 0 */
    uint32_t term; /* of the home it is about; HELLO: of the receiver's, as the sender knows it */
    uint64_t space, birth; /* which space, and which of those that had that name */
    uint64_t address;      /* of a block; ASK_ATOMIC: of the word; else of ALLOC, FREE and ANSWER */
    struct space_epoch epoch;
    uint32_t frame;
    uint32_t atomic; /* ASK_ATOMIC: enum space_record_kind; else 0 */
    /* HELLO: the sender's life, whom it is linked with; LINKS: -, the same; TERM of TERM: who is a
     * member; ASK_ATOMIC: as a record's; ATOMIC_DONE: what was there; SHARE, OWN, RESTORE,
     * CLAIM_SHARED, CLAIM_DIRTY: how many blocks of the same malloc are before it, -. Else 0. */
    uint64_t operands[2];
};

_Static_assert(sizeof(struct space_wire) == LIMIT_SPACE_MESSAGE, "a message of the channel");
_Static_assert(offsetof(struct space_wire, space) == 8, "it is shared");
_Static_assert(offsetof(struct space_wire, address) == 24, "it is shared");
_Static_assert(offsetof(struct space_wire, epoch) == 32, "it is shared");
_Static_assert(offsetof(struct space_wire, frame) == 40, "it is shared");
_Static_assert(offsetof(struct space_wire, operands) == 48, "it is shared");

/* A block's message, as it goes. */
void space_wire_of(const struct space_message *message, enum space_wire_kind kind, uint64_t address,
                   struct space_wire *wire);

/* ... and as it came from that seat. */
void space_wire_read(const struct space_wire *wire, uint8_t seat, struct space_message *message);

/* It says how many blocks of the same malloc are before its block. */
bool space_wire_has_place(const struct space_wire *wire);

/* Whether its parts are what its kind may have; of one of an engine. NIGH_PROTOCOL: they are not.
 */
nigh_status space_wire_check(const struct space_wire *wire);

#endif
