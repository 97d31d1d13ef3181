/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of a region's home as bytes: little-endian, without gaps, read strictly, one way to
 * write each. Whether it can be is the home's matter (home.h).
 *
 * Pure; any thread.
 */
#ifndef REGION_ASK_WIRE_H
#define REGION_ASK_WIRE_H

#include "region/home.h"

#define REGION_ASK_HEAD_BYTES 76u /* before the name */
#define REGION_ASK_BYTES \
    (REGION_ASK_HEAD_BYTES + LIMIT_REGION_NAME_BYTES + 4u * LIMIT_REGION_CHUNKS)

_Static_assert(REGION_ASK_BYTES <= LIMIT_CALL_BYTES, "an ask fits one call");

/* One that was read, and what it points to. */
struct region_asking {
    struct region_ask ask;
    char name[LIMIT_REGION_NAME_BYTES];
    uint32_t nodes[LIMIT_REGION_CHUNKS];
};

/* What does not belong to its kind is not written. How many bytes, at most REGION_ASK_BYTES. */
size_t region_ask_encode(const struct region_ask *ask, uint8_t *out);

/* NIGH_PROTOCOL: it is none. */
nigh_status region_ask_decode(const uint8_t *bytes, size_t size_bytes,
                              struct region_asking *asking);

#endif
