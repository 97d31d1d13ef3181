/* SPDX-License-Identifier: Apache-2.0 */
/* See heap.h. The checker: walks everything, changes nothing. For tests and slow assertions. */
#include "memory/heap.h"

#include "memory/heap_internal.h"

/* What the walk through the spaces found of one heap. */
struct heap_sums {
    uint64_t free_bytes;
    uint32_t free_blocks;
};

/* One block of a space, which begins where the one before it ended. */
static bool heap_check_block(const struct heaps *heaps, uint32_t heap, uint32_t block,
                             uint32_t prev, uint64_t offset, uint64_t end)
{
    const struct heap_block *at;

    if (block >= heaps->fresh)
        return false;
    at = &heaps->blocks[block];
    if (at->heap != heap || at->prev != prev || at->offset != offset || at->bytes == 0 ||
        at->bytes % LIMIT_GRANULE_BYTES != 0 || at->bytes > end - offset)
        return false;
    if (at->state == HEAP_BLOCK_USED)
        return true;
    return at->state == HEAP_BLOCK_FREE && at->tag == 0 &&
           (prev == HEAP_NO_BLOCK || heaps->blocks[prev].state != HEAP_BLOCK_FREE);
}

/* One space: extents [first, end) of one heap, wholly covered by blocks. */
static bool heap_check_space(const struct heaps *heaps, uint32_t first, uint32_t end,
                             struct heap_sums *sums, uint64_t *blocks)
{
    uint32_t heap = heaps->extents[first].heap - 1;
    uint64_t offset = heap_extent_offset(heaps, first), bound = heap_extent_offset(heaps, end);
    uint32_t block = heap_start(heaps, first), prev = HEAP_NO_BLOCK;

    while (offset < bound) {
        const struct heap_block *at;

        if (!heap_check_block(heaps, heap, block, prev, offset, bound))
            return false;
        at = &heaps->blocks[block];
        if (at->state == HEAP_BLOCK_FREE) {
            sums->free_bytes += at->bytes;
            sums->free_blocks++;
        }
        ++*blocks;
        offset += at->bytes;
        prev = block;
        block = at->next;
    }
    return block == HEAP_NO_BLOCK && heap_end(heaps, end - 1) == prev;
}

/* Whether none of a row's lists has a block: most rows, at once. */
static bool heap_row_is_empty(const uint32_t *head)
{
    uint32_t all = HEAP_NO_BLOCK; /* all bits are set */

    for (uint32_t second = 0; second < HEAP_SECONDS; second++)
        all &= head[second];
    return all == HEAP_NO_BLOCK;
}

/* The lists of one heap: every free block in the class of its size, and the maps say so. */
static bool heap_check_lists(const struct heaps *heaps, uint32_t number,
                             const struct heap_sums *sums)
{
    const struct heap *heap = heaps->heaps[number];
    uint32_t blocks = 0;

    for (uint32_t first = 0; first < HEAP_FIRSTS; first++) {
        if (((heap->first_map >> first) & 1) != (heap->second_map[first] != 0))
            return false;
        if (heap->second_map[first] == 0) {
            if (!heap_row_is_empty(heap->head[first]))
                return false;
            continue;
        }
        for (uint32_t second = 0; second < HEAP_SECONDS; second++) {
            uint32_t block = heap->head[first][second], prev = HEAP_NO_BLOCK;

            if (((heap->second_map[first] >> second) & 1) != (block != HEAP_NO_BLOCK))
                return false;
            for (; block != HEAP_NO_BLOCK; block = heaps->blocks[block].list_next) {
                const struct heap_block *at = &heaps->blocks[block];
                uint32_t at_second;

                if (at->state != HEAP_BLOCK_FREE || at->heap != number || at->list_prev != prev ||
                    heap_class(at->bytes, &at_second) != first || at_second != second ||
                    ++blocks > sums->free_blocks)
                    return false;
                prev = block;
            }
        }
    }
    return blocks == sums->free_blocks && heap->free_bytes == sums->free_bytes;
}

/* The numbers that no block has. */
static bool heap_check_numbers(const struct heaps *heaps, uint64_t blocks)
{
    uint64_t spare = 0;

    for (uint32_t at = heaps->spare; at != HEAP_NO_BLOCK; at = heaps->blocks[at].list_next) {
        if (at >= heaps->fresh || heaps->blocks[at].state != HEAP_BLOCK_NONE ||
            ++spare > heaps->fresh)
            return false;
    }
    return blocks == heaps->block_used && blocks + spare == heaps->fresh &&
           heaps->fresh <= heaps->max_blocks;
}

/* An extent of a heap is present and the heap's owner's. */
static bool heap_check_extent(const struct heaps *heaps, uint32_t extent)
{
    const struct extent *at = &heaps->set->extents[heaps->first_extent + extent];
    uint32_t heap = heaps->extents[extent].heap;

    return heap == 0 || (heap <= heaps->heap_count && at->present && !at->lost &&
                         atomic_load_explicit(&at->owner, memory_order_relaxed) ==
                             heaps->heaps[heap - 1]->owner);
}

/* Of the numbers that nobody ever had, those that a mistake would reach first: they are had in
 * order.
 */
#define HEAP_CHECK_AHEAD 64u

static bool heap_check_rest_of_lane(const struct heaps *heaps, uint32_t from)
{
    const struct extent *all = &heaps->set->extents[heaps->first_extent];
    uint32_t end = min_u32(heaps->extents_max, from + HEAP_CHECK_AHEAD);
    uint64_t wrong = 0;

    for (uint32_t i = from; i < end; i++) {
        const struct extent *at = &all[i];

        wrong |= (at->lane ^ heaps->lane) | at->present | (at->absence ^ EXTENT_UNUSED) |
                 ~(uint32_t)(at->fd >> 31) | heaps->extents[i].heap;
        wrong |= atomic_load_explicit(&at->owner, memory_order_relaxed) ^ EXTENT_NO_OWNER;
    }
    return wrong == 0;
}

/* The lane's numbers: what is said of each, and what is counted. */
static bool heap_check_numbers_of_lane(const struct heaps *heaps)
{
    const struct extent_lane *lane = &heaps->set->lane[heaps->lane];
    uint32_t free = 0, dormant = 0, run = 0, longest = 0;

    for (uint32_t i = 0; i < lane->used; i++) {
        uint32_t number = heaps->first_extent + i;
        const struct extent *at = &heaps->set->extents[number];
        bool is_dormant = !at->present && at->absence == EXTENT_DORMANT;

        if (at->lane != heaps->lane ||
            (!at->present &&
             (heaps->extents[i].heap != 0 || (at->fd >= 0) != is_dormant ||
              atomic_load_explicit(&at->owner, memory_order_relaxed) != EXTENT_NO_OWNER)))
            return false;
        run = extent_is_free(heaps->set, number) ? run + 1 : 0;
        free += run > 0;
        longest = max_u32(longest, run);
        dormant += is_dormant;
    }
    return free == lane->free && longest == lane->longest_run && dormant == lane->dormant &&
           heap_check_rest_of_lane(heaps, lane->used);
}

bool heaps_are_valid(const struct heaps *heaps)
{
    struct heap_sums sums[LIMIT_HEAPS_A_LANE] = {{0}};
    uint32_t used = heaps->set->lane[heaps->lane].used; /* those behind it nobody ever had */
    uint64_t blocks = 0;
    uint32_t end;

    for (uint32_t first = 0; first < used; first = end) {
        uint32_t heap = heaps->extents[first].heap;

        for (end = first; end < used && heaps->extents[end].heap == heap; end++) {
            if (!heap_check_extent(heaps, end))
                return false;
        }
        if (heap != 0 && !heap_check_space(heaps, first, end, &sums[heap - 1], &blocks))
            return false;
    }
    for (uint32_t i = 0; i < heaps->heap_count; i++) {
        if (!heap_check_lists(heaps, i, &sums[i]))
            return false;
    }
    return heap_check_numbers(heaps, blocks) && heap_check_numbers_of_lane(heaps);
}
