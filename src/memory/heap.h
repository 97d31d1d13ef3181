/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of one lane: heaps over extents, one heap a (pool, writer uid).
 *
 * Two-level segregated fit (Masmano et al., ECRTS 2004) with every bit of its bookkeeping outside
 * the memory it hands out, since clients may write that. A block is named by a number; blocks know
 * their neighbours by address, so that a free one merges with both sides in constant time. Extents
 * with adjacent numbers of one heap form one space: a block may span them. An allocated block may
 * be carved: that is how a leased slab turns into objects. Granule: LIMIT_GRANULE_BYTES. What was
 * freed last is used first: its bytes are likely still in a cache.
 *
 * A heap takes extents from the set as it needs them and keeps them; heaps_reclaim moves the memory
 * of wholly free ones to where a heap of the lane that is starved can use it. Thread: the lane's
 * only. Time: constant, save where the lane's extents are looked through (at most LIMIT_EXTENTS of
 * them): when a heap grows by extents, in heap_largest_bytes while there are extents to grow by,
 * and in heaps_reclaim; heap_claim walks a few blocks.
 */
#ifndef MEMORY_HEAP_H
#define MEMORY_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/extent.h"
#include "nigh/status.h"

struct heaps;

#define HEAP_NO_BLOCK UINT32_MAX

struct heaps_config {
    struct extent_set *extents; /* outlives the heaps */
    uint32_t lane;
    uint32_t max_blocks; /* bound on blocks, free ones included; bookkeeping is reserved for it (48
                            bytes each) and gets memory as it is used */
};

/* NIGH_NO_RESOURCES: no memory or address space. NIGH_INVALID: no blocks at all, or more than a
 * number can tell apart. */
nigh_status heaps_create(const struct heaps_config *config, struct heaps **heaps);

/* NULL is no heaps. Extents stay with their owners. */
void heaps_destroy(struct heaps *heaps);

/* The heap of an owner word (extent_owner), made when first asked for. NIGH_LIMIT above
 * LIMIT_HEAPS_A_LANE, NIGH_NO_RESOURCES without memory for it. A heap is never unmade: its number
 * stays good. */
nigh_status heaps_open(struct heaps *heaps, uint64_t owner, uint32_t *heap);

/*
 * Allocates bytes (rounded up to a granule; 0 is one). NIGH_OUT_OF_MEMORY: no block and no extents
 * large enough; NIGH_LIMIT: no block number left. The arena offset is heap_block_offset(*block).
 * What is at most heap_largest_bytes is had. What was in the bytes before is still there.
 */
nigh_status heap_alloc(struct heaps *heaps, uint32_t heap, uint64_t bytes, uint32_t *block);

/* Frees a block, merging it with free neighbours. */
void heap_free(struct heaps *heaps, uint32_t block);

/*
 * Cuts [offset, offset + bytes) out of an allocated block that contains it. The range becomes block
 * *cut; what lies before stays `block` (if there is nothing before, `block` itself is *cut); what
 * lies behind becomes *rest (HEAP_NO_BLOCK if nothing). All are allocated. offset and bytes are
 * multiples of a granule, bytes above 0. NIGH_LIMIT: no block number left (nothing changed).
 */
nigh_status heap_carve(struct heaps *heaps, uint32_t block, uint64_t offset, uint64_t bytes,
                       uint32_t *cut, uint32_t *rest);

/*
 * Allocates exactly [offset, offset + bytes), bytes rounded up to a granule (used at restart, when
 * the index says what is in use; in any order). NIGH_EXISTS: some of it is in use. NIGH_INVALID: no
 * bytes, not on a granule, or not all of it in extents of the heap. NIGH_LIMIT: no block number
 * left.
 */
nigh_status heap_claim(struct heaps *heaps, uint32_t heap, uint64_t offset, uint64_t bytes,
                       uint32_t *block);

/*
 * Makes an extent that the heap's owner has already (after extent_set_adopt) part of the heap, all
 * of it free. NIGH_INVALID: it is not this lane's, not this owner's, or in the heap already.
 * NIGH_LIMIT: no block number left.
 */
nigh_status heap_adopt_extent(struct heaps *heaps, uint32_t heap, uint32_t extent);

uint64_t heap_block_offset(const struct heaps *heaps, uint32_t block);
uint64_t heap_block_bytes(const struct heaps *heaps, uint32_t block);

/* The user's word of a block: 0 until set; carving copies it to the parts; freeing forgets it. */
void heap_block_set_tag(struct heaps *heaps, uint32_t block, uint64_t tag);
uint64_t heap_block_tag(const struct heaps *heaps, uint32_t block);

/* The next block by address in the same heap and space, or HEAP_NO_BLOCK; whether a block is free.
 */
uint32_t heap_block_next(const struct heaps *heaps, uint32_t block);
bool heap_block_is_free(const struct heaps *heaps, uint32_t block);

/* Free bytes inside a heap's extents; bytes of the lane's extents that no heap owns; the largest
 * block `heap` could get now. */
uint64_t heap_free_bytes(const struct heaps *heaps, uint32_t heap);
uint64_t heaps_unowned_bytes(const struct heaps *heaps);
uint64_t heap_largest_bytes(const struct heaps *heaps, uint32_t heap);

/* Extents that nobody owns, and wholly free ones of all heaps: what heaps_reclaim could bring
 * together.
 */
uint32_t heaps_spare_extents(const struct heaps *heaps);

/*
 * Makes it so that `heap` gets a block of `bytes`, by moving wholly free memory to where it lies
 * side by side: what nobody owns, then other heaps', at last its own that lies elsewhere
 * (extent_move). Call it when heap_alloc has failed. NIGH_OUT_OF_MEMORY: there is not enough, or no
 * row of numbers for it, and nothing is moved; or the block numbers ran out on the way.
 * NIGH_NO_RESOURCES: the machine gave no pages on the way. Takes as long as the kernel needs to
 * clear as much memory, and no more of it is moved than is missing.
 */
nigh_status heaps_reclaim(struct heaps *heaps, uint32_t heap, uint64_t bytes);

/* Checks every invariant (sums, neighbours, lists); for tests and slow assertions. */
bool heaps_are_valid(const struct heaps *heaps);

#endif
