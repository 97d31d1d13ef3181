/* SPDX-License-Identifier: Apache-2.0 */
/* See heap.h. Blocks: allocating, freeing, carving, claiming. Extents come and go in heap_grow.c.
 */
#include "memory/heap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memory/heap_internal.h"

/* ---- making ---- */

/* Zeroed memory that costs nothing until it is touched. */
static void *heap_table(uint64_t bytes)
{
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return table == MAP_FAILED ? NULL : table;
}

static uint64_t heap_near_bytes(const struct heaps *heaps)
{
    return (((uint64_t)heaps->extents_max << heaps->shift) >> HEAP_REGION_SHIFT) * sizeof(uint32_t);
}

nigh_status heaps_create(const struct heaps_config *config, struct heaps **heaps)
{
    struct heaps *made;
    uint32_t extents_max = LIMIT_EXTENTS / config->extents->lanes;

    if (config->max_blocks == 0 || config->max_blocks == HEAP_NO_BLOCK ||
        config->lane >= config->extents->lanes)
        return NIGH_INVALID;
    made = calloc(1, sizeof(*made));
    if (made == NULL)
        return NIGH_NO_RESOURCES;
    made->set = config->extents;
    made->lane = config->lane;
    made->first_extent = extent_lane_first(config->extents, config->lane);
    made->extents_max = extents_max;
    made->shift = config->extents->extent_shift;
    made->extent_mask = config->extents->extent_bytes - 1;
    made->max_blocks = config->max_blocks;
    made->spare = HEAP_NO_BLOCK;
    made->extents = calloc(extents_max, sizeof(*made->extents));
    if (made->extents == NULL)
        goto free_heaps;
    made->blocks = heap_table((uint64_t)config->max_blocks * sizeof(*made->blocks));
    if (made->blocks == NULL)
        goto free_extents;
    made->near = heap_table(heap_near_bytes(made));
    if (made->near == NULL)
        goto unmap_blocks;
    /* Blocks are touched at random: fewer, larger pages save misses. It may fail. */
    (void)madvise(made->blocks, (uint64_t)config->max_blocks * sizeof(*made->blocks),
                  MADV_HUGEPAGE);
    *heaps = made;
    return NIGH_OK;

unmap_blocks:
    munmap(made->blocks, (uint64_t)config->max_blocks * sizeof(*made->blocks));
free_extents:
    free(made->extents);
free_heaps:
    free(made);
    return NIGH_NO_RESOURCES;
}

void heaps_destroy(struct heaps *heaps)
{
    if (heaps == NULL)
        return;
    for (uint32_t i = 0; i < heaps->heap_count; i++)
        free(heaps->heaps[i]);
    munmap(heaps->near, heap_near_bytes(heaps));
    munmap(heaps->blocks, (uint64_t)heaps->max_blocks * sizeof(*heaps->blocks));
    free(heaps->extents);
    free(heaps);
}

nigh_status heaps_open(struct heaps *heaps, uint64_t owner, uint32_t *heap)
{
    struct heap *made;

    NIGH_ASSERT(owner != EXTENT_NO_OWNER);
    for (uint32_t i = 0; i < heaps->heap_count; i++) {
        if (heaps->heaps[i]->owner == owner) {
            *heap = i;
            return NIGH_OK;
        }
    }
    if (heaps->heap_count == LIMIT_HEAPS_A_LANE)
        return NIGH_LIMIT;
    made = calloc(1, sizeof(*made));
    if (made == NULL)
        return NIGH_NO_RESOURCES;
    made->owner = owner;
    memset(made->head, 0xff, sizeof(made->head)); /* HEAP_NO_BLOCK */
    *heap = heaps->heap_count;
    heaps->heaps[heaps->heap_count++] = made;
    return NIGH_OK;
}

/* ---- blocks and their neighbours ---- */

uint32_t heap_block_make(struct heaps *heaps, uint32_t heap, uint64_t offset, uint64_t bytes,
                         uint32_t prev, uint32_t next)
{
    uint32_t block = heap_number_take(heaps);
    struct heap_block *at = &heaps->blocks[block];

    at->tag = 0;
    at->heap = (uint16_t)heap;
    at->prev = prev;
    at->next = next;
    if (prev != HEAP_NO_BLOCK)
        heaps->blocks[prev].next = block;
    if (next != HEAP_NO_BLOCK)
        heaps->blocks[next].prev = block;
    heap_block_place(heaps, block, offset, bytes);
    return block;
}

/* Cuts a block that is in no list in two: it keeps its first `bytes`, the rest is a new block. */
static uint32_t heap_block_split(struct heaps *heaps, uint32_t block, uint64_t bytes)
{
    struct heap_block *at = &heaps->blocks[block];
    uint64_t offset = at->offset, all = at->bytes;

    heap_block_place(heaps, block, offset, bytes);
    return heap_block_make(heaps, at->heap, offset + bytes, all - bytes, block, at->next);
}

/* Joins a block with the one behind it; both are in no list. */
static void heap_block_join(struct heaps *heaps, uint32_t block, uint32_t behind)
{
    struct heap_block *at = &heaps->blocks[block], *gone = &heaps->blocks[behind];

    at->next = gone->next;
    if (gone->next != HEAP_NO_BLOCK)
        heaps->blocks[gone->next].prev = block;
    heap_block_place(heaps, block, at->offset, at->bytes + gone->bytes);
    heap_number_give(heaps, behind);
}

void heap_release(struct heaps *heaps, uint32_t block)
{
    uint32_t prev = heaps->blocks[block].prev, next = heaps->blocks[block].next;

    if (next != HEAP_NO_BLOCK && heaps->blocks[next].state == HEAP_BLOCK_FREE) {
        heap_list_remove(heaps, next);
        heap_block_join(heaps, block, next);
    }
    if (prev != HEAP_NO_BLOCK && heaps->blocks[prev].state == HEAP_BLOCK_FREE) {
        heap_list_remove(heaps, prev);
        heap_block_join(heaps, prev, block);
        block = prev;
    }
    heap_list_add(heaps, block);
}

/* ---- allocating ---- */

/* A free block of at least `bytes`: of the very class if one of its first is large enough, else
 * the latest of the next class that has any. */
static uint32_t heap_find(const struct heaps *heaps, const struct heap *heap, uint64_t bytes)
{
    uint32_t second, first = heap_class(bytes, &second);
    uint32_t block = heap->head[first][second];
    uint32_t seconds;
    uint64_t firsts;

    for (uint32_t i = 0; i < HEAP_CLASS_TRIES && block != HEAP_NO_BLOCK; i++) {
        if (heaps->blocks[block].bytes >= bytes)
            return block;
        block = heaps->blocks[block].list_next;
    }
    seconds = heap->second_map[first] & (uint32_t)(UINT64_MAX << (second + 1));
    if (seconds == 0) {
        firsts = heap->first_map & (UINT64_MAX << (first + 1));
        if (firsts == 0)
            return HEAP_NO_BLOCK;
        first = (uint32_t)__builtin_ctzll(firsts);
        seconds = heap->second_map[first];
    }
    return heap->head[first][(uint32_t)__builtin_ctz(seconds)];
}

nigh_status heap_alloc(struct heaps *heaps, uint32_t heap, uint64_t bytes, uint32_t *block)
{
    uint64_t wanted = max_u64(bytes, 1);
    uint32_t found;
    nigh_status status;

    NIGH_ASSERT(heap < heaps->heap_count);
    /* More than the lane's range of the arena never is, and would have no class. */
    if (wanted > (uint64_t)heaps->extents_max << heaps->shift)
        return NIGH_OUT_OF_MEMORY;
    wanted = align_up_u64(wanted, LIMIT_GRANULE_BYTES);
    found = heap_find(heaps, heaps->heaps[heap], wanted);
    if (unlikely(found == HEAP_NO_BLOCK)) {
        status = heap_grow(heaps, heap, wanted);
        if (status != NIGH_OK)
            return status;
        found = heap_find(heaps, heaps->heaps[heap], wanted);
        NIGH_ASSERT(found != HEAP_NO_BLOCK);
    }
    if (heaps->blocks[found].bytes > wanted && heap_numbers_left(heaps) == 0)
        return NIGH_LIMIT;
    heap_list_remove(heaps, found);
    if (heaps->blocks[found].bytes > wanted)
        heap_list_add(heaps, heap_block_split(heaps, found, wanted));
    heaps->blocks[found].state = HEAP_BLOCK_USED;
    *block = found;
    return NIGH_OK;
}

/* An allocated block; everything else is the caller's mistake. */
static struct heap_block *heap_used(const struct heaps *heaps, uint32_t block)
{
    NIGH_ASSERT(block < heaps->fresh && heaps->blocks[block].state == HEAP_BLOCK_USED);
    return &heaps->blocks[block];
}

void heap_free(struct heaps *heaps, uint32_t block)
{
    heap_used(heaps, block)->tag = 0;
    heap_release(heaps, block);
}

nigh_status heap_carve(struct heaps *heaps, uint32_t block, uint64_t offset, uint64_t bytes,
                       uint32_t *cut, uint32_t *rest)
{
    const struct heap_block *at = heap_used(heaps, block);
    uint64_t before = offset - at->offset;
    uint64_t tag = at->tag;
    uint32_t piece = block, behind = HEAP_NO_BLOCK;

    NIGH_ASSERT(offset >= at->offset && bytes > 0 && before <= at->bytes &&
                bytes <= at->bytes - before);
    NIGH_ASSERT(offset % LIMIT_GRANULE_BYTES == 0 && bytes % LIMIT_GRANULE_BYTES == 0);
    if (heap_numbers_left(heaps) < (uint32_t)(before > 0) + (uint32_t)(at->bytes - before > bytes))
        return NIGH_LIMIT;
    if (before > 0) {
        piece = heap_block_split(heaps, block, before);
        heaps->blocks[piece].state = HEAP_BLOCK_USED;
        heaps->blocks[piece].tag = tag;
    }
    if (heaps->blocks[piece].bytes > bytes) {
        behind = heap_block_split(heaps, piece, bytes);
        heaps->blocks[behind].state = HEAP_BLOCK_USED;
        heaps->blocks[behind].tag = tag;
    }
    *cut = piece;
    *rest = behind;
    return NIGH_OK;
}

/* ---- claiming ---- */

/* The hint of a region, if it is still a block that begins there: one of the extent's only heap. */
static uint32_t heap_near(const struct heaps *heaps, uint64_t region)
{
    uint64_t base = (uint64_t)heaps->first_extent << heaps->shift >> HEAP_REGION_SHIFT;
    uint32_t block = heaps->near[region - base] - 1;
    const struct heap_block *at;

    if (block == HEAP_NO_BLOCK)
        return HEAP_NO_BLOCK;
    at = &heaps->blocks[block];
    return at->state != HEAP_BLOCK_NONE && at->offset >> HEAP_REGION_SHIFT == region
               ? block
               : HEAP_NO_BLOCK;
}

static void heap_set_near(struct heaps *heaps, uint32_t block)
{
    uint64_t base = (uint64_t)heaps->first_extent << heaps->shift >> HEAP_REGION_SHIFT;

    heaps->near[(heaps->blocks[block].offset >> HEAP_REGION_SHIFT) - base] = block + 1;
}

/*
 * The block that an offset in an extent of the heap lies in: from the nearest block that is known
 * to begin in the same region or before it, by neighbours.
 */
static uint32_t heap_block_at(const struct heaps *heaps, uint64_t offset)
{
    uint64_t region = offset >> HEAP_REGION_SHIFT;
    uint32_t block;

    for (;; region--) {
        uint64_t start = region << HEAP_REGION_SHIFT;

        block = heap_near(heaps, region);
        if (block == HEAP_NO_BLOCK && (start & heaps->extent_mask) == 0)
            block = heap_start(heaps, heap_extent_of(heaps, start));
        if (block != HEAP_NO_BLOCK)
            break;
        /* Some block begins with the first extent of every space. */
        NIGH_ASSERT(start >> heaps->shift > heaps->first_extent ||
                    (start & heaps->extent_mask) != 0);
    }
    while (heaps->blocks[block].offset > offset)
        block = heaps->blocks[block].prev;
    while (offset - heaps->blocks[block].offset >= heaps->blocks[block].bytes)
        block = heaps->blocks[block].next;
    return block;
}

/* Whether all of a range lies in extents of the heap. */
static bool heap_has_range(const struct heaps *heaps, uint32_t heap, uint64_t offset,
                           uint64_t bytes)
{
    uint64_t start = (uint64_t)heaps->first_extent << heaps->shift;
    uint64_t all = (uint64_t)heaps->extents_max << heaps->shift;

    if (offset < start || offset - start >= all || bytes > all - (offset - start))
        return false;
    for (uint32_t i = heap_extent_of(heaps, offset); i <= heap_extent_of(heaps, offset + bytes - 1);
         i++) {
        if (heaps->extents[i].heap != heap + 1)
            return false;
    }
    return true;
}

nigh_status heap_claim(struct heaps *heaps, uint32_t heap, uint64_t offset, uint64_t bytes,
                       uint32_t *block)
{
    uint32_t found;
    uint64_t before, rounded;

    NIGH_ASSERT(heap < heaps->heap_count);
    if (bytes == 0 || offset % LIMIT_GRANULE_BYTES != 0 ||
        !checked_align_up_u64(bytes, LIMIT_GRANULE_BYTES, &rounded) ||
        !heap_has_range(heaps, heap, offset, rounded))
        return NIGH_INVALID;
    found = heap_block_at(heaps, offset);
    before = offset - heaps->blocks[found].offset;
    if (heaps->blocks[found].state != HEAP_BLOCK_FREE ||
        heaps->blocks[found].bytes - before < rounded)
        return NIGH_EXISTS;
    if (heap_numbers_left(heaps) <
        (uint32_t)(before > 0) + (uint32_t)(heaps->blocks[found].bytes - before > rounded))
        return NIGH_LIMIT;

    heap_list_remove(heaps, found);
    if (before > 0) {
        uint32_t left = found;

        found = heap_block_split(heaps, left, before);
        heap_list_add(heaps, left);
    }
    if (heaps->blocks[found].bytes > rounded) {
        uint32_t right = heap_block_split(heaps, found, rounded);

        heap_list_add(heaps, right);
        heap_set_near(heaps, right);
    }
    heaps->blocks[found].state = HEAP_BLOCK_USED;
    heap_set_near(heaps, found);
    *block = found;
    return NIGH_OK;
}

/* ---- asking ---- */

/* Any block, free or allocated. */
static const struct heap_block *heap_block(const struct heaps *heaps, uint32_t block)
{
    NIGH_ASSERT(block < heaps->fresh && heaps->blocks[block].state != HEAP_BLOCK_NONE);
    return &heaps->blocks[block];
}

uint64_t heap_block_offset(const struct heaps *heaps, uint32_t block)
{
    return heap_block(heaps, block)->offset;
}

uint64_t heap_block_bytes(const struct heaps *heaps, uint32_t block)
{
    return heap_block(heaps, block)->bytes;
}

void heap_block_set_tag(struct heaps *heaps, uint32_t block, uint64_t tag)
{
    heap_used(heaps, block)->tag = tag;
}

uint64_t heap_block_tag(const struct heaps *heaps, uint32_t block)
{
    return heap_block(heaps, block)->tag;
}

uint32_t heap_block_next(const struct heaps *heaps, uint32_t block)
{
    return heap_block(heaps, block)->next;
}

bool heap_block_is_free(const struct heaps *heaps, uint32_t block)
{
    return heap_block(heaps, block)->state == HEAP_BLOCK_FREE;
}

uint64_t heap_free_bytes(const struct heaps *heaps, uint32_t heap)
{
    NIGH_ASSERT(heap < heaps->heap_count);
    return heaps->heaps[heap]->free_bytes;
}

uint64_t heaps_unowned_bytes(const struct heaps *heaps)
{
    return (uint64_t)extent_free_count(heaps->set, heaps->lane) << heaps->shift;
}
