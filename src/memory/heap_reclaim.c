/* SPDX-License-Identifier: Apache-2.0 */
/* See heap.h. How wholly free extents leave their heaps, for one that has none large enough. */
#include "memory/heap.h"

#include "memory/heap_internal.h"

/* Takes a wholly free extent of a free block away from its heap; the block falls apart into what is
 * before and what is behind. */
static void heap_cut_extent(struct heaps *heaps, uint32_t block, uint32_t extent)
{
    struct heap_block *at = &heaps->blocks[block];
    uint32_t next = at->next, heap = at->heap;
    uint64_t start = heap_extent_offset(heaps, extent), end = at->offset + at->bytes;

    heap_list_remove(heaps, block);
    if (next != HEAP_NO_BLOCK)
        heaps->blocks[next].prev = HEAP_NO_BLOCK;
    if (end > start + heaps->extent_mask + 1)
        heap_list_add(heaps,
                      heap_block_make(heaps, heap, start + heaps->extent_mask + 1,
                                      end - start - heaps->extent_mask - 1, HEAP_NO_BLOCK, next));
    if (start > at->offset) {
        at->next = HEAP_NO_BLOCK;
        heap_block_place(heaps, block, at->offset, start - at->offset);
        heap_list_add(heaps, block);
    } else {
        if (at->prev != HEAP_NO_BLOCK)
            heaps->blocks[at->prev].next = HEAP_NO_BLOCK;
        heap_number_give(heaps, block);
    }
    heaps->extents[extent].heap = 0;
}

/* ---- where memory comes from ---- */

static bool heap_is_in(const struct heap_window *window, uint32_t extent)
{
    return extent >= window->first && extent - window->first < window->n;
}

/* Memory that nobody owns, out of the window. */
static bool heap_find_free(const struct heaps *heaps, const struct heap_window *window,
                           uint32_t *extent)
{
    uint32_t used = heaps->set->lane[heaps->lane].used;

    for (uint32_t i = 0; i < used && extent_free_count(heaps->set, heaps->lane) > 0; i++) {
        if (extent_is_free(heaps->set, heaps->first_extent + i) && !heap_is_in(window, i)) {
            *extent = i;
            return true;
        }
    }
    return false;
}

/* A wholly free extent of a heap out of the window: among the blocks that have one, of the smallest
 * class, so that large blocks stay whole, and at their ends. */
static bool heap_find_whole(const struct heaps *heaps, uint32_t heap,
                            const struct heap_window *window, uint32_t *block, uint32_t *extent)
{
    uint32_t at, first;

    for (at = heap_first_whole(heaps, heap, &first); at != HEAP_NO_BLOCK;
         at = heap_next_whole(heaps, at, &first)) {
        uint32_t last = first + heap_whole_extents(heaps, at, &first) - 1;

        if (heap_is_in(window, first) && heap_is_in(window, last))
            continue;
        *block = at;
        *extent = heap_is_in(window, last) ? first : last;
        return true;
    }
    return false;
}

/* Moves a wholly free extent of the heap to a number; false: the machine does not give it. */
static bool heap_move_whole(struct heaps *heaps, uint32_t heap, uint32_t block, uint32_t extent,
                            uint32_t to)
{
    nigh_status status;

    heap_cut_extent(heaps, block, extent);
    status = extent_move(heaps->set, heaps->first_extent + extent, heaps->first_extent + to);
    if (status != NIGH_OK && !heaps->set->extents[heaps->first_extent + extent].lost)
        heap_add_extents(heaps, heap, extent, 1); /* as it was */
    return status == NIGH_OK;
}

/* What nobody owns goes first, then what others have, at last what the heap has elsewhere. One is
 * tried: a machine that does not give its pages again gives no other's. */
static bool heap_fill(struct heaps *heaps, uint32_t heap, const struct heap_window *window,
                      uint32_t to)
{
    uint32_t block, extent;

    if (heap_find_free(heaps, window, &extent))
        return extent_move(heaps->set, heaps->first_extent + extent, heaps->first_extent + to) ==
               NIGH_OK;
    for (uint32_t i = 0; i < heaps->heap_count; i++) {
        if (i != heap && heap_find_whole(heaps, i, window, &block, &extent))
            return heap_move_whole(heaps, i, block, extent, to);
    }
    return heap_find_whole(heaps, heap, window, &block, &extent) &&
           heap_move_whole(heaps, heap, block, extent, to);
}

/* ---- reclaiming ---- */

uint32_t heaps_spare_extents(const struct heaps *heaps)
{
    uint32_t count = extent_free_count(heaps->set, heaps->lane);

    for (uint32_t i = 0; i < heaps->heap_count; i++)
        count += heap_whole_count(heaps, i);
    return count;
}

nigh_status heaps_reclaim(struct heaps *heaps, uint32_t heap, uint64_t bytes)
{
    uint64_t owner = heaps->heaps[heap]->owner;
    uint32_t spare = heaps_spare_extents(heaps);
    struct heap_window window;
    struct heap_map map;

    NIGH_ASSERT(heap < heaps->heap_count);
    /* With the free ends of two extents that are in use it may be so much and no more. */
    if (spare == 0 || heap_extents_for(heaps, bytes, 0) > (uint64_t)spare + 2)
        return NIGH_OUT_OF_MEMORY;
    heap_map_make(heaps, heap, true, &map);
    if (!heap_find_window(heaps, &map, bytes, spare, &window))
        return NIGH_OUT_OF_MEMORY;
    for (uint32_t i = window.first; i < window.first + window.n; i++) {
        uint32_t number = heaps->first_extent + i;

        if (map.place[i] == HEAP_PLACE_OWN)
            continue;
        /* One for a piece that is cut off, one for what is added. */
        if (heap_numbers_left(heaps) < 2)
            return NIGH_OUT_OF_MEMORY;
        if (map.place[i] != HEAP_PLACE_FREE && !heap_fill(heaps, heap, &window, i))
            return NIGH_NO_RESOURCES;
        if (map.place[i] != HEAP_PLACE_DORMANT)
            extent_take_at(heaps->set, heaps->lane, owner, number, 1);
        heap_add_extents(heaps, heap, i, 1);
    }
    return NIGH_OK;
}
