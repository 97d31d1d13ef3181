/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks of a home are given to whom: runs of blocks side by side, of any length. Pure but
 * for its memory, which is taken once; one lane.
 *
 * What is free is kept by powers of two of its length, and joined with what is free beside it.
 */
#ifndef SPACE_ALLOCATOR_H
#define SPACE_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

#define SPACE_NO_BLOCK          UINT64_MAX
#define SPACE_ALLOCATOR_CLASSES 31u

struct space_allocator {
    uint32_t *runs;          /* of the first block of a run: its length and what it is; else 0 */
    uint32_t *ends;          /* of the last block of a free run: its length; else 0 */
    uint32_t *next, *before; /* of free runs of one class, by their first blocks and 1 */
    uint32_t heads[SPACE_ALLOCATOR_CLASSES];
    uint64_t count, used;
};

/* All blocks are given, one by one: of a home that does not know who has them. NIGH_INVALID: none,
 * or more than LIMIT_SPACE_BLOCKS; NIGH_OUT_OF_MEMORY. */
nigh_status space_allocator_init(struct space_allocator *allocator, uint64_t count);
void space_allocator_fini(struct space_allocator *allocator);

/* So many that were given one by one, from `first` on, were given as one: nobody frees part of it.
 */
void space_allocator_join(struct space_allocator *allocator, uint64_t first, uint64_t blocks);

/* The first of so many blocks, or SPACE_NO_BLOCK. */
uint64_t space_allocator_take(struct space_allocator *allocator, uint64_t blocks);

/* The same, of which the first is a multiple of `align`, a power of two. */
uint64_t space_allocator_take_aligned(struct space_allocator *allocator, uint64_t blocks,
                                      uint64_t align);

/* How many blocks were given with that one as the first, and are not being freed; 0: none. */
uint64_t space_allocator_length(const struct space_allocator *allocator, uint64_t first);

/* They are being freed: nobody frees them once more. */
void space_allocator_leave(struct space_allocator *allocator, uint64_t first);

/* They are not, after all. */
void space_allocator_keep(struct space_allocator *allocator, uint64_t first);

/* ... and are free. */
void space_allocator_give(struct space_allocator *allocator, uint64_t first);

bool space_allocator_is_valid(const struct space_allocator *allocator);

#endif
