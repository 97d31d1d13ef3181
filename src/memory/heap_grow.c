/* SPDX-License-Identifier: Apache-2.0 */
/* See heap.h. How extents come to heaps and leave them. */
#include "memory/heap.h"

#include "memory/heap_internal.h"

/* ---- extents that come ---- */

/* Makes [first, first + n), by the lane's own numbering, a free part of the heap. A number is left.
 */
static void heap_add_extents(struct heaps *heaps, uint32_t heap, uint32_t first, uint32_t n)
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

/* ---- runs of free extents ---- */

/* A run of the lane's extents that nobody owns, by the lane's own numbering, with the free bytes
 * of a heap right before and right behind it. */
struct heap_run {
    uint32_t first;
    uint32_t n;
    bool has_left, has_right; /* the extent there is the heap's */
    uint64_t left_bytes, right_bytes;
};

static uint64_t heap_free_size(const struct heaps *heaps, uint32_t block)
{
    return block != HEAP_NO_BLOCK && heaps->blocks[block].state == HEAP_BLOCK_FREE
               ? heaps->blocks[block].bytes
               : 0;
}

/* The next run at or after *at, which then is where to go on. */
static bool heap_next_run(const struct heaps *heaps, uint32_t heap, uint32_t *at,
                          struct heap_run *run)
{
    uint32_t used = heaps->set->lane[heaps->lane].used;
    uint32_t first = *at;
    uint32_t end;

    while (first < used && !extent_is_free(heaps->set, heaps->first_extent + first))
        first++;
    if (first == used)
        return false;
    for (end = first; end < used && extent_is_free(heaps->set, heaps->first_extent + end);)
        end++;
    *run = (struct heap_run){.first = first, .n = end - first};
    if (first > 0 && heaps->extents[first - 1].heap == heap + 1) {
        run->has_left = true;
        run->left_bytes = heap_free_size(heaps, heap_end(heaps, first - 1));
    }
    if (end < heaps->extents_max && heaps->extents[end].heap == heap + 1) {
        run->has_right = true;
        run->right_bytes = heap_free_size(heaps, heap_start(heaps, end));
    }
    *at = end;
    return true;
}

/* Extents that make, with `there` bytes, `bytes`; one at least. */
static uint64_t heap_extents_for(const struct heaps *heaps, uint64_t bytes, uint64_t there)
{
    uint64_t missing = bytes > there ? bytes - there : 1;

    return ((missing - 1) >> heaps->shift) + 1;
}

/* Which end of a run beside the heap's own extents gives it `bytes` for the fewest extents; false:
 * none. */
static bool heap_run_fits(const struct heaps *heaps, const struct heap_run *run, uint64_t bytes,
                          uint32_t *first, uint32_t *n)
{
    uint64_t left = heap_extents_for(heaps, bytes, run->left_bytes);
    uint64_t right = heap_extents_for(heaps, bytes, run->right_bytes);

    if (run->has_left && left <= run->n && (!run->has_right || left <= right)) {
        *first = run->first;
        *n = (uint32_t)left;
    } else if (run->has_right && right <= run->n) {
        *first = run->first + run->n - (uint32_t)right;
        *n = (uint32_t)right;
    } else if (heap_extents_for(heaps, bytes, run->left_bytes + run->right_bytes) <= run->n) {
        *first = run->first; /* all of it, from bound to bound */
        *n = run->n;
    } else {
        return false;
    }
    return run->has_left || run->has_right;
}

nigh_status heap_grow(struct heaps *heaps, uint32_t heap, uint64_t bytes)
{
    uint64_t owner = heaps->heaps[heap]->owner;
    uint32_t best_first = 0, best_n = UINT32_MAX, at = 0, first, n;
    struct heap_run run;

    /* One for the new block, one for what the caller will leave of it. */
    if (heap_numbers_left(heaps) < 2)
        return extent_free_count(heaps->set, heaps->lane) > 0 ? NIGH_LIMIT : NIGH_OUT_OF_MEMORY;
    while (heap_next_run(heaps, heap, &at, &run)) {
        if (!heap_run_fits(heaps, &run, bytes, &first, &n))
            continue;
        /* Rather upwards, if it costs the same: what is before may want to grow this way. */
        if (n < best_n || (n == best_n && first == run.first && run.has_left)) {
            best_first = first;
            best_n = n;
        }
    }
    if (best_n != UINT32_MAX) {
        extent_take_at(heaps->set, heaps->lane, owner, heaps->first_extent + best_first, best_n);
    } else {
        uint32_t taken;
        uint64_t wanted = heap_extents_for(heaps, bytes, 0);
        nigh_status status =
            wanted > heaps->extents_max
                ? NIGH_OUT_OF_MEMORY
                : extent_take(heaps->set, heaps->lane, owner, (uint32_t)wanted, &taken);

        if (status != NIGH_OK)
            return status;
        best_first = taken - heaps->first_extent;
        best_n = (uint32_t)wanted;
    }
    heap_add_extents(heaps, heap, best_first, best_n);
    return NIGH_OK;
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
    struct heap_run run;
    uint32_t at = 0;
    uint64_t largest;

    NIGH_ASSERT(heap < heaps->heap_count);
    largest = heap_largest_free(heaps, heaps->heaps[heap]);
    if (extent_free_count(heaps->set, heaps->lane) == 0)
        return largest;
    while (heap_next_run(heaps, heap, &at, &run))
        largest =
            max_u64(largest, run.left_bytes + ((uint64_t)run.n << heaps->shift) + run.right_bytes);
    return largest;
}

/* ---- extents that leave ---- */

/* The wholly free extents within a free block: [*first, *first + result). */
static uint32_t heap_whole_extents(const struct heaps *heaps, uint32_t block, uint32_t *first)
{
    const struct heap_block *at = &heaps->blocks[block];
    uint64_t start = (at->offset + heaps->extent_mask) >> heaps->shift;
    uint64_t end = (at->offset + at->bytes) >> heaps->shift;

    *first = (uint32_t)start - heaps->first_extent;
    return end > start ? (uint32_t)(end - start) : 0;
}

/*
 * Some block of the heap with a wholly free extent in it: among those at least an extent large, the
 * smallest class first, so that large blocks stay whole. Counts them all when `count` is asked for.
 */
static uint32_t heap_find_whole(const struct heaps *heaps, const struct heap *heap, uint32_t *count)
{
    uint32_t second, first = heap_class(heaps->extent_mask + 1, &second);
    uint32_t found = HEAP_NO_BLOCK, ignored;

    for (; first < HEAP_FIRSTS; first++, second = 0) {
        uint32_t seconds = heap->second_map[first] & (UINT32_MAX << second);

        for (; seconds != 0; seconds &= seconds - 1) {
            uint32_t block = heap->head[first][(uint32_t)__builtin_ctz(seconds)];

            for (; block != HEAP_NO_BLOCK; block = heaps->blocks[block].list_next) {
                uint32_t whole = heap_whole_extents(heaps, block, &ignored);

                if (whole == 0)
                    continue;
                if (count == NULL)
                    return block;
                found = block;
                *count += whole;
            }
        }
    }
    return found;
}

/* Takes the last wholly free extent of a free block away from its heap; the block falls apart into
 * what is before and what is behind. */
static uint32_t heap_cut_extent(struct heaps *heaps, uint32_t block)
{
    struct heap_block *at = &heaps->blocks[block];
    uint32_t next = at->next, heap = at->heap;
    uint64_t start, end = at->offset + at->bytes;
    uint32_t first, extent = heap_whole_extents(heaps, block, &first);

    extent += first - 1;
    start = heap_extent_offset(heaps, extent);
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
    return extent;
}

/* Retires a wholly free extent of the heap; false: it has none, or the machine does not give it
 * back. */
static bool heap_retire_one(struct heaps *heaps, uint32_t heap)
{
    uint32_t block = heap_find_whole(heaps, heaps->heaps[heap], NULL);
    uint32_t extent, number;
    nigh_status status;

    if (block == HEAP_NO_BLOCK || heap_numbers_left(heaps) < 2)
        return false;
    extent = heap_cut_extent(heaps, block);
    status = extent_retire(heaps->set, heaps->first_extent + extent, &number);
    if (status != NIGH_OK && !heaps->set->extents[heaps->first_extent + extent].lost)
        heap_add_extents(heaps, heap, extent, 1); /* as it was */
    return status == NIGH_OK;
}

/* Free extents at the end of the lane's numbers: fresh ones join them. */
static uint32_t heap_tail_run(const struct heaps *heaps)
{
    uint32_t used = heaps->set->lane[heaps->lane].used;
    uint32_t n = 0;

    while (n < used && extent_is_free(heaps->set, heaps->first_extent + used - 1 - n))
        n++;
    return n;
}

nigh_status heaps_reclaim(struct heaps *heaps, uint32_t heap, uint32_t extents)
{
    const struct extent_lane *lane = &heaps->set->lane[heaps->lane];
    uint32_t whole = 0, tail = heap_tail_run(heaps);

    NIGH_ASSERT(heap < heaps->heap_count);
    if (lane->longest_run >= extents)
        return NIGH_OK;
    for (uint32_t i = 0; i < heaps->heap_count; i++)
        heap_find_whole(heaps, heaps->heaps[i], &whole);
    if (whole < extents - tail || heaps->extents_max - lane->used < extents - tail)
        return NIGH_OUT_OF_MEMORY;

    for (uint32_t i = 0; i < heaps->heap_count; i++) {
        while (i != heap && lane->longest_run < extents && heap_retire_one(heaps, i))
            continue;
    }
    while (lane->longest_run < extents && heap_retire_one(heaps, heap))
        continue;
    return lane->longest_run >= extents ? NIGH_OK : NIGH_OUT_OF_MEMORY;
}
