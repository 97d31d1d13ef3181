/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node is asked when bytes of a chunk that it has are to go to a chunk of another node, or
 * of its own (PUSH), and what it then says to that node (PUT), as bytes: little-endian, without
 * gaps, read strictly, one way to write each. Pure; any thread.
 */
#ifndef REGION_PUSH_WIRE_H
#define REGION_PUSH_WIRE_H

#include "region/descriptor.h"

/* A place in a chunk, and the handle by which whoever asks may have it. */
struct region_spot {
    struct region_window handle;
    uint64_t offset_bytes; /* in the chunk */
    uint32_t chunk;
    uint8_t name_bytes; /* of its region, never 0 */
    char name[LIMIT_REGION_NAME_BYTES];
};

struct region_push {
    struct region_spot from, to;
    uint64_t bytes;       /* to LIMIT_REGION_COPY_BYTES, never 0 */
    uint32_t node;        /* that has `to`, */
    uint32_t incarnation; /* and which of it */
};

#define REGION_SPOT_BYTES      32u /* before names */
#define REGION_PUSH_HEAD_BYTES (16u + 2 * REGION_SPOT_BYTES)
#define REGION_PUSH_BYTES      (REGION_PUSH_HEAD_BYTES + 2 * LIMIT_REGION_NAME_BYTES)
#define REGION_PUT_HEAD_BYTES  (REGION_SPOT_BYTES + LIMIT_REGION_NAME_BYTES) /* at most */
/* How many bytes have landed: of an answer to PUSH. */
#define REGION_PUSHED_BYTES 8u
/* What one PUT brings, at most: whole words. */
#define REGION_PUT_BYTES ((LIMIT_CALL_BYTES - REGION_PUT_HEAD_BYTES) / 8 * 8)

_Static_assert(REGION_PUSH_BYTES <= LIMIT_CALL_BYTES, "a PUSH is one call");

/* How many bytes, at most REGION_PUSH_BYTES. */
size_t region_push_encode(const struct region_push *push, uint8_t *out);
/* NIGH_PROTOCOL: it is none. */
nigh_status region_push_decode(const uint8_t *bytes, size_t size_bytes, struct region_push *push);

/* What is before the bytes of a PUT, at most REGION_PUT_HEAD_BYTES. */
size_t region_put_encode(const struct region_spot *to, uint8_t *out);
/* *head_bytes: behind these are the bytes, 1 to REGION_PUT_BYTES. NIGH_PROTOCOL: it is none. */
nigh_status region_put_decode(const uint8_t *bytes, size_t size_bytes, struct region_spot *to,
                              size_t *head_bytes);

/* Of what is left of a PUSH that one PUT brings: aligned words of `to` are never parted. */
uint64_t region_put_cut(uint64_t to_offset_bytes, uint64_t left_bytes);

#endif
