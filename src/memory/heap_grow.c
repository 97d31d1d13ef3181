/* SPDX-License-Identifier: Apache-2.0 */
/* See heap.h. How extents come to heaps. How they leave is heap_reclaim.c's. */
#include "memory/heap.h"

#include "memory/heap_internal.h"

/* ---- extents that come ---- */

void heap_add_extents(struct heaps *heaps, uint32_t heap, uint32_t first, uint32_t n)
{
    uint32_t prev = HEAP_NO_BLOCK, next = HEAP_NO_BLOCK;

    if (first > 0 && heaps->extents[first - 1].heap == heap + 1)
        prev = heap_end(heaps, first - 1);
    if (first + n < heaps->extents_max && heaps->extents[first + n].heap == heap + 1)
        next = heap_start(heaps, first + n);
    for (uint32_t i = first; i < first + n; i++) {
        NIGH_ASSERT(heaps->extents[i].heap == 0);
        heaps->extents[i].heap = heap + 1;
    }
    heap_release(heaps, heap_block_make(heaps, heap, heap_extent_offset(heaps, first),
                                        (uint64_t)n << heaps->shift, prev, next));
}

nigh_status heap_adopt_extent(struct heaps *heaps, uint32_t heap, uint32_t extent)
{
    const struct extent *at = &heaps->set->extents[extent];
    uint32_t own = extent - heaps->first_extent;

    NIGH_ASSERT(heap < heaps->heap_count);
    if (own >= heaps->extents_max || !at->present || heaps->extents[own].heap != 0 ||
        atomic_load_explicit(&at->owner, memory_order_relaxed) != heaps->heaps[heap]->owner)
        return NIGH_INVALID;
    if (heap_numbers_left(heaps) == 0)
        return NIGH_LIMIT;
    heap_add_extents(heaps, heap, own, 1);
    return NIGH_OK;
}

/* ---- growing ---- */

/* All of the window is one free block: it goes before the others of its class. */
static void heap_put_first(struct heaps *heaps, uint32_t heap, const struct heap_window *window)
{
    uint32_t block = heap_whole_at(heaps, heap, window->first);

    heap_list_remove(heaps, block);
    heap_list_add(heaps, block);
}

/* Makes all of a window the heap's, which some of it may be. */
static void heap_take_window(struct heaps *heaps, uint32_t heap, const struct heap_window *window)
{
    uint32_t first = window->first, end = first + window->n, n;
    bool taken = false;

    for (; first < end; first += max_u32(n, 1)) {
        for (n = 0; first + n < end && extent_is_free(heaps->set, heaps->first_extent + first + n);)
            n++;
        if (n == 0)
            continue; /* the heap's */
        extent_take_at(heaps->set, heaps->lane, heaps->heaps[heap]->owner,
                       heaps->first_extent + first, n);
        heap_add_extents(heaps, heap, first, n);
        taken = true;
    }
    if (!taken)
        heap_put_first(heaps, heap, window);
}

nigh_status heap_grow(struct heaps *heaps, uint32_t heap, uint64_t bytes)
{
    struct heap_window window;
    uint64_t wanted = heap_extents_for(heaps, bytes, 0);
    struct heap_map map;
    uint32_t first;
    nigh_status status;

    /* One for the new block, one for what the caller will leave of it. */
    if (heap_numbers_left(heaps) < 2)
        return extent_free_count(heaps->set, heaps->lane) > 0 ? NIGH_LIMIT : NIGH_OUT_OF_MEMORY;
    heap_map_make(heaps, heap, false, &map);
    if (heap_find_window(heaps, &map, bytes, UINT32_MAX, &window)) {
        heap_take_window(heaps, heap, &window);
        return NIGH_OK;
    }
    if (wanted > heaps->extents_max)
        return NIGH_OUT_OF_MEMORY;
    status =
        extent_take(heaps->set, heaps->lane, heaps->heaps[heap]->owner, (uint32_t)wanted, &first);
    if (status == NIGH_OK)
        heap_add_extents(heaps, heap, first - heaps->first_extent, (uint32_t)wanted);
    return status;
}

/* The largest of the blocks that heap_alloc would look at. */
static uint64_t heap_largest_free(const struct heaps *heaps, const struct heap *heap)
{
    uint32_t first, second, block;
    uint64_t largest = 0;

    if (heap->first_map == 0)
        return 0;
    first = 63 - (uint32_t)__builtin_clzll(heap->first_map);
    second = 31 - (uint32_t)__builtin_clz(heap->second_map[first]);
    block = heap->head[first][second];
    for (uint32_t i = 0; i < HEAP_CLASS_TRIES && block != HEAP_NO_BLOCK; i++) {
        largest = max_u64(largest, heaps->blocks[block].bytes);
        block = heaps->blocks[block].list_next;
    }
    return largest;
}

uint64_t heap_largest_bytes(const struct heaps *heaps, uint32_t heap)
{
    struct heap_map map;
    uint64_t largest;

    NIGH_ASSERT(heap < heaps->heap_count);
    largest = heap_largest_free(heaps, heaps->heaps[heap]);
    if (extent_free_count(heaps->set, heaps->lane) == 0)
        return largest;
    heap_map_make(heaps, heap, false, &map);
    return max_u64(largest, heap_map_largest(heaps, &map));
}
