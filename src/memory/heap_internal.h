/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the allocator share: its tables, and the lists of free blocks. Internal to
 * heap.c (blocks), heap_grow.c and heap_reclaim.c (extents that come and leave), heap_window.c
 * (where there is room) and heap_check.c (the checker).
 *
 * Classes are those of TLSF: a block of g granules is of class (first, second), where first is the
 * power of two below g and second one of 32 equal steps above it; sizes below 32 granules have a
 * class each. Two levels of bit maps find the next class that has a block in a few instructions.
 */
#ifndef MEMORY_HEAP_INTERNAL_H
#define MEMORY_HEAP_INTERNAL_H

#include "base/check.h"
#include "memory/heap.h"

#define HEAP_SECOND_BITS 5
#define HEAP_SECONDS     (1u << HEAP_SECOND_BITS)

/* 2^40 granules are all that an arena of LIMIT_EXTENTS extents has. */
#define HEAP_FIRSTS 37u

_Static_assert((LIMIT_EXTENTS * LIMIT_EXTENT_BYTES_MAX) / LIMIT_GRANULE_BYTES <=
                   UINT64_C(1) << (HEAP_FIRSTS + HEAP_SECOND_BITS - 2),
               "the largest block has a class");

/* Blocks of the very class of a wish that are looked at: its sizes differ by a 32nd. Without this
 * a block just freed would not serve the next wish of the same size. */
#define HEAP_CLASS_TRIES 4

/* Regions by which heap_claim finds its way, see heaps.near. */
#define HEAP_REGION_SHIFT 15

enum heap_block_state {
    HEAP_BLOCK_NONE = 0,
    HEAP_BLOCK_FREE = 1,
    HEAP_BLOCK_USED = 2
};

struct heap_block {
    uint64_t offset;
    uint64_t bytes;
    uint64_t tag;  /* 0 while the block is not USED */
    uint32_t next; /* by address, in the same space; HEAP_NO_BLOCK at its ends */
    uint32_t prev;
    uint32_t list_next; /* FREE: in the class; NONE: in the list of numbers to use again */
    uint32_t list_prev;
    uint16_t heap;
    uint8_t state;
};

_Static_assert(sizeof(struct heap_block) == 48, "heap.h promises this");

struct heap {
    uint64_t owner;
    uint64_t free_bytes;
    uint64_t first_map; /* bit f: second_map[f] is not 0 */
    uint32_t second_map[HEAP_FIRSTS];
    uint32_t head[HEAP_FIRSTS][HEAP_SECONDS]; /* latest first */
};

/*
 * What the allocator knows of an extent of the lane, by its number less the lane's first. `start`
 * is the block that begins with the extent and `end` the one that ends with it; each is right as
 * long as there is such a block, and is checked before it is believed (heap_start, heap_end).
 */
struct heap_extent {
    uint32_t start;
    uint32_t end;
    uint32_t heap; /* and one; 0: of no heap */
};

struct heaps {
    struct extent_set *set;
    uint32_t lane;
    uint32_t first_extent; /* the lane's first number */
    uint32_t extents_max;  /* numbers of the lane */
    uint32_t shift;        /* of an extent */
    uint64_t extent_mask;  /* extent_bytes - 1 */
    struct heap_block *blocks;
    uint32_t max_blocks;
    uint32_t fresh;      /* numbers from here on were never used */
    uint32_t spare;      /* the first number to use again, or HEAP_NO_BLOCK */
    uint32_t block_used; /* numbers in use */
    uint32_t heap_count;
    struct heap *heaps[LIMIT_HEAPS_A_LANE];
    struct heap_extent *extents;
    /* Some block that began in a region when it was claimed, and one. Hints: checked before use. */
    uint32_t *near;
};

static inline uint32_t heap_class(uint64_t bytes, uint32_t *second)
{
    uint64_t granules = bytes / LIMIT_GRANULE_BYTES;
    uint32_t log;

    if (granules < HEAP_SECONDS) {
        *second = (uint32_t)granules;
        return 0;
    }
    log = 63 - (uint32_t)__builtin_clzll(granules);
    *second = (uint32_t)(granules >> (log - HEAP_SECOND_BITS)) & (HEAP_SECONDS - 1);
    return log - HEAP_SECOND_BITS + 1;
}

/* Numbers that are left. */
static inline uint32_t heap_numbers_left(const struct heaps *heaps)
{
    return heaps->max_blocks - heaps->block_used;
}

/* A number for a new block; the caller knows that one is left. */
static inline uint32_t heap_number_take(struct heaps *heaps)
{
    uint32_t block = heaps->spare;

    NIGH_ASSERT(heaps->block_used < heaps->max_blocks);
    heaps->block_used++;
    if (block == HEAP_NO_BLOCK)
        return heaps->fresh++;
    heaps->spare = heaps->blocks[block].list_next;
    return block;
}

static inline void heap_number_give(struct heaps *heaps, uint32_t block)
{
    heaps->blocks[block].state = HEAP_BLOCK_NONE;
    heaps->blocks[block].list_next = heaps->spare;
    heaps->spare = block;
    heaps->block_used--;
}

/* Which of the lane's extents an offset is in. */
static inline uint32_t heap_extent_of(const struct heaps *heaps, uint64_t offset)
{
    return (uint32_t)(offset >> heaps->shift) - heaps->first_extent;
}

static inline uint64_t heap_extent_offset(const struct heaps *heaps, uint32_t extent)
{
    return (uint64_t)(heaps->first_extent + extent) << heaps->shift;
}

/* Where a block lies; its extents learn when it begins or ends with one of them. */
static inline void heap_block_place(struct heaps *heaps, uint32_t block, uint64_t offset,
                                    uint64_t bytes)
{
    struct heap_block *at = &heaps->blocks[block];
    uint64_t end = offset + bytes;

    at->offset = offset;
    at->bytes = bytes;
    if (unlikely((offset & heaps->extent_mask) == 0))
        heaps->extents[heap_extent_of(heaps, offset)].start = block;
    if (unlikely((end & heaps->extent_mask) == 0))
        heaps->extents[heap_extent_of(heaps, end - 1)].end = block;
}

/* Puts a FREE block into the list of its class, and out of it. */
static inline void heap_list_add(struct heaps *heaps, uint32_t block)
{
    struct heap_block *at = &heaps->blocks[block];
    struct heap *heap = heaps->heaps[at->heap];
    uint32_t second, first = heap_class(at->bytes, &second);
    uint32_t head = heap->head[first][second];

    at->state = HEAP_BLOCK_FREE;
    at->list_prev = HEAP_NO_BLOCK;
    at->list_next = head;
    if (head != HEAP_NO_BLOCK)
        heaps->blocks[head].list_prev = block;
    heap->head[first][second] = block;
    heap->second_map[first] |= 1u << second;
    heap->first_map |= UINT64_C(1) << first;
    heap->free_bytes += at->bytes;
}

static inline void heap_list_remove(struct heaps *heaps, uint32_t block)
{
    struct heap_block *at = &heaps->blocks[block];
    struct heap *heap = heaps->heaps[at->heap];

    NIGH_ASSERT(at->state == HEAP_BLOCK_FREE);
    heap->free_bytes -= at->bytes;
    if (at->list_next != HEAP_NO_BLOCK)
        heaps->blocks[at->list_next].list_prev = at->list_prev;
    if (at->list_prev != HEAP_NO_BLOCK) {
        heaps->blocks[at->list_prev].list_next = at->list_next;
    } else {
        uint32_t second, first = heap_class(at->bytes, &second);

        heap->head[first][second] = at->list_next;
        if (at->list_next == HEAP_NO_BLOCK) {
            heap->second_map[first] &= ~(1u << second);
            if (heap->second_map[first] == 0)
                heap->first_map &= ~(UINT64_C(1) << first);
        }
    }
}

/* The block that begins with an extent, and the one that ends with it, of the extent's heap;
 * HEAP_NO_BLOCK: it is of no heap, or a block spans its bound. */
static inline uint32_t heap_start(const struct heaps *heaps, uint32_t extent)
{
    const struct heap_extent *at = &heaps->extents[extent];
    const struct heap_block *block = &heaps->blocks[at->start];

    return at->heap != 0 && block->state != HEAP_BLOCK_NONE && block->heap == at->heap - 1 &&
                   block->offset == heap_extent_offset(heaps, extent)
               ? at->start
               : HEAP_NO_BLOCK;
}

static inline uint32_t heap_end(const struct heaps *heaps, uint32_t extent)
{
    const struct heap_extent *at = &heaps->extents[extent];
    const struct heap_block *block = &heaps->blocks[at->end];

    return at->heap != 0 && block->state != HEAP_BLOCK_NONE && block->heap == at->heap - 1 &&
                   block->offset + block->bytes == heap_extent_offset(heaps, extent + 1)
               ? at->end
               : HEAP_NO_BLOCK;
}

/* ---- heap.c ---- */

/* Frees a block that is in no list: merges it with free neighbours and lists it. */
void heap_release(struct heaps *heaps, uint32_t block);

/*
 * Makes a new block of the heap at [offset, offset + bytes), between two neighbours or at an end
 * of a space; in no list, FREE neither USED yet. A number is left.
 */
uint32_t heap_block_make(struct heaps *heaps, uint32_t heap, uint64_t offset, uint64_t bytes,
                         uint32_t prev, uint32_t next);

/* ---- heap_window.c ---- */

/* The wholly free extents within a free block: [*first, *first + result). */
uint32_t heap_whole_extents(const struct heaps *heaps, uint32_t block, uint32_t *first);

/* The free blocks of a heap that have some, from the smallest class up, and the first of each
 * one's; HEAP_NO_BLOCK: there are no more. Nothing is allocated or freed meanwhile. */
uint32_t heap_first_whole(const struct heaps *heaps, uint32_t heap, uint32_t *first);
uint32_t heap_next_whole(const struct heaps *heaps, uint32_t block, uint32_t *first);

/* How many there are in a heap, and the free block that one of them is in. */
uint32_t heap_whole_count(const struct heaps *heaps, uint32_t heap);
uint32_t heap_whole_at(const struct heaps *heaps, uint32_t heap, uint32_t extent);

/* What a number of the lane is to a heap that needs room. */
enum heap_place {
    HEAP_PLACE_WALL = 0,    /* in use, another's, or a number that cannot be used */
    HEAP_PLACE_OWN = 1,     /* wholly free, and the heap's */
    HEAP_PLACE_FREE = 2,    /* with memory, and nobody's */
    HEAP_PLACE_DORMANT = 3, /* was the heap's, and is when memory comes there */
    HEAP_PLACE_UNUSED = 4   /* may be anybody's when memory comes there */
};

/* The lane's numbers, less its first, as one heap sees them. Without `moves` memory stays where it
 * is, and what has none is a wall. */
struct heap_map {
    uint32_t heap;
    bool moves;
    uint32_t end;
    uint8_t place[LIMIT_EXTENTS]; /* enum heap_place */
};

void heap_map_make(const struct heaps *heaps, uint32_t heap, bool moves, struct heap_map *map);

/* The most bytes that lie between two walls, free ends of the heap's extents there included. */
uint64_t heap_map_largest(const struct heaps *heaps, const struct heap_map *map);

/* Extents without a wall between them. */
struct heap_window {
    uint32_t first;
    uint32_t n;
    uint64_t cost;
};

/* The cheapest window of `most` extents at most in which, once all of it is the heap's, it has a
 * free block of `bytes`; false: there is none. */
bool heap_find_window(const struct heaps *heaps, const struct heap_map *map, uint64_t bytes,
                      uint32_t most, struct heap_window *window);

/* Extents that make, with `there` bytes, `bytes`; one at least. */
uint64_t heap_extents_for(const struct heaps *heaps, uint64_t bytes, uint64_t there);

/* ---- heap_grow.c ---- */

/* Makes [first, first + n), by the lane's own numbering, a free part of the heap. A number is left.
 */
void heap_add_extents(struct heaps *heaps, uint32_t heap, uint32_t first, uint32_t n);

/*
 * Takes extents so that the heap has a free block of `bytes`, which then is first in its class.
 * NIGH_OUT_OF_MEMORY, NIGH_LIMIT (block numbers): nothing is taken.
 */
nigh_status heap_grow(struct heaps *heaps, uint32_t heap, uint64_t bytes);

#endif
