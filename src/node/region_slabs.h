/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of small chunks: pieces of one size share a mapping, a slab, as a process has some ten
 * thousands of these at most. A slab takes addresses only; pages are there while a piece has them:
 * what is given back is the system's at once, and a piece that has its place next is zero, as the
 * pages are new.
 *
 * One thread at a time.
 */
#ifndef NODE_REGION_SLABS_H
#define NODE_REGION_SLABS_H

#include <stdint.h>

#include "base/limits.h"
#include "base/list.h"
#include "nigh/status.h"

#define REGION_SLAB_SIZES (LIMIT_REGION_SLAB_PIECE / LIMIT_REGION_UNIT_BYTES)

struct region_slab;

struct region_slabs {
    struct list with_room[REGION_SLAB_SIZES]; /* slabs, by the size of their pieces */
    uint64_t page_bytes;
    uint32_t count; /* mappings */
};

struct region_slab_piece {
    uint8_t *address;
    struct region_slab *slab;
};

void region_slabs_init(struct region_slabs *slabs);

/* All pieces were given back. */
void region_slabs_fini(struct region_slabs *slabs);

/* Bytes, LIMIT_REGION_SLAB_PIECE at most, not 0: there, and zero. NIGH_OUT_OF_MEMORY,
 * NIGH_NO_RESOURCES. */
nigh_status region_slabs_take(struct region_slabs *slabs, uint64_t bytes,
                              struct region_slab_piece *piece);

/* A mapping goes with the last piece of it. */
void region_slabs_give(struct region_slabs *slabs, struct region_slab_piece piece);

#endif
