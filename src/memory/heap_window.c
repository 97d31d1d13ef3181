/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a heap has, or could have, room in one piece: the lane's numbers as this heap sees them,
 * and the cheapest row of them that holds so many bytes. Changes nothing.
 */
#include <string.h>

#include "memory/heap_internal.h"

/* ---- wholly free extents ---- */

uint32_t heap_whole_extents(const struct heaps *heaps, uint32_t block, uint32_t *first)
{
    const struct heap_block *at = &heaps->blocks[block];
    uint64_t start = (at->offset + heaps->extent_mask) >> heaps->shift;
    uint64_t end = (at->offset + at->bytes) >> heaps->shift;

    *first = (uint32_t)start - heaps->first_extent;
    return end > start ? (uint32_t)(end - start) : 0;
}

/* The first block of the classes from (first, second) on. */
static uint32_t heap_first_of_class(const struct heap *heap, uint32_t first, uint32_t second)
{
    for (; first < HEAP_FIRSTS; first++, second = 0) {
        uint32_t seconds =
            second < HEAP_SECONDS ? heap->second_map[first] & (UINT32_MAX << second) : 0;

        if (seconds != 0)
            return heap->head[first][(uint32_t)__builtin_ctz(seconds)];
    }
    return HEAP_NO_BLOCK;
}

/* The block behind one, in its list or in the classes above. */
static uint32_t heap_behind(const struct heaps *heaps, uint32_t block)
{
    const struct heap_block *at = &heaps->blocks[block];
    uint32_t second, first;

    if (at->list_next != HEAP_NO_BLOCK)
        return at->list_next;
    first = heap_class(at->bytes, &second);
    return heap_first_of_class(heaps->heaps[at->heap], first, second + 1);
}

static uint32_t heap_skip_to_whole(const struct heaps *heaps, uint32_t block, uint32_t *first)
{
    while (block != HEAP_NO_BLOCK && heap_whole_extents(heaps, block, first) == 0)
        block = heap_behind(heaps, block);
    return block;
}

uint32_t heap_first_whole(const struct heaps *heaps, uint32_t heap, uint32_t *first)
{
    uint32_t second, from = heap_class(heaps->extent_mask + 1, &second);

    return heap_skip_to_whole(heaps, heap_first_of_class(heaps->heaps[heap], from, second), first);
}

uint32_t heap_next_whole(const struct heaps *heaps, uint32_t block, uint32_t *first)
{
    return heap_skip_to_whole(heaps, heap_behind(heaps, block), first);
}

uint32_t heap_whole_count(const struct heaps *heaps, uint32_t heap)
{
    uint32_t count = 0, first;

    for (uint32_t block = heap_first_whole(heaps, heap, &first); block != HEAP_NO_BLOCK;
         block = heap_next_whole(heaps, block, &first))
        count += heap_whole_extents(heaps, block, &first);
    return count;
}

uint32_t heap_whole_at(const struct heaps *heaps, uint32_t heap, uint32_t extent)
{
    uint32_t block, first;

    for (block = heap_first_whole(heaps, heap, &first); block != HEAP_NO_BLOCK;
         block = heap_next_whole(heaps, block, &first)) {
        uint32_t count = heap_whole_extents(heaps, block, &first);

        if (extent >= first && extent - first < count)
            return block;
    }
    NIGH_ASSERT(!"a wholly free extent is in a free block");
    return HEAP_NO_BLOCK;
}

/* ---- the map ---- */

/* What a number that is not free is to the heap, but for its own. */
static enum heap_place heap_place_absent(const struct heaps *heaps, uint32_t heap, uint32_t extent)
{
    uint32_t number = heaps->first_extent + extent;

    const struct extent_set *set = heaps->set;

    if (extent_is_unused(set, number))
        return HEAP_PLACE_UNUSED;
    /* Where only some of the memory is of huge pages, what comes may be of others than what went.
     */
    return extent_is_dormant(set, number, heaps->heaps[heap]->owner) &&
                   (set->all_huge || !set->any_huge) && set->extents[number].huge == set->all_huge
               ? HEAP_PLACE_DORMANT
               : HEAP_PLACE_WALL;
}

void heap_map_make(const struct heaps *heaps, uint32_t heap, bool moves, struct heap_map *map)
{
    uint32_t block, first;

    map->heap = heap;
    map->moves = moves;
    map->end = moves ? heaps->extents_max : heaps->set->lane[heaps->lane].used;
    for (uint32_t i = 0; i < map->end; i++) {
        enum heap_place place = HEAP_PLACE_WALL;

        if (extent_is_free(heaps->set, heaps->first_extent + i))
            place = HEAP_PLACE_FREE;
        else if (moves)
            place = heap_place_absent(heaps, heap, i);
        map->place[i] = (uint8_t)place;
    }
    for (block = heap_first_whole(heaps, heap, &first); block != HEAP_NO_BLOCK;
         block = heap_next_whole(heaps, block, &first))
        memset(&map->place[first], HEAP_PLACE_OWN, heap_whole_extents(heaps, block, &first));
}

/* ---- rows ---- */

/* A row of places without a wall, with the free bytes of the heap right before and behind it. */
struct heap_row {
    uint32_t first, end;
    bool has_left, has_right; /* the extent there is the heap's */
    uint64_t left_bytes, right_bytes;
};

static uint64_t heap_free_size(const struct heaps *heaps, uint32_t block)
{
    return block != HEAP_NO_BLOCK && heaps->blocks[block].state == HEAP_BLOCK_FREE
               ? heaps->blocks[block].bytes
               : 0;
}

/* What a block that begins before a wholly free extent, or ends behind one, has there: less than an
 * extent, since the extents beside are walls. */
static uint64_t heap_before(const struct heaps *heaps, uint32_t heap, uint32_t extent)
{
    return heap_extent_offset(heaps, extent) -
           heaps->blocks[heap_whole_at(heaps, heap, extent)].offset;
}

static uint64_t heap_behind_of(const struct heaps *heaps, uint32_t heap, uint32_t end)
{
    const struct heap_block *at = &heaps->blocks[heap_whole_at(heaps, heap, end - 1)];

    return at->offset + at->bytes - heap_extent_offset(heaps, end);
}

/* The next row at or after *at, which then is where to go on. */
static bool heap_next_row(const struct heaps *heaps, const struct heap_map *map, uint32_t *at,
                          struct heap_row *row)
{
    uint32_t first = *at, end;

    while (first < map->end && map->place[first] == HEAP_PLACE_WALL)
        first++;
    if (first == map->end)
        return false;
    for (end = first; end < map->end && map->place[end] != HEAP_PLACE_WALL;)
        end++;
    *row = (struct heap_row){.first = first, .end = end};
    if (first > 0 && heaps->extents[first - 1].heap == map->heap + 1) {
        row->has_left = true;
        row->left_bytes = map->place[first] == HEAP_PLACE_OWN
                              ? heap_before(heaps, map->heap, first)
                              : heap_free_size(heaps, heap_end(heaps, first - 1));
    }
    if (end < heaps->extents_max && heaps->extents[end].heap == map->heap + 1) {
        row->has_right = true;
        row->right_bytes = map->place[end - 1] == HEAP_PLACE_OWN
                               ? heap_behind_of(heaps, map->heap, end)
                               : heap_free_size(heaps, heap_start(heaps, end));
    }
    *at = end;
    return true;
}

uint64_t heap_map_largest(const struct heaps *heaps, const struct heap_map *map)
{
    struct heap_row row;
    uint64_t largest = 0;
    uint32_t at = 0;

    while (heap_next_row(heaps, map, &at, &row))
        largest =
            max_u64(largest, row.left_bytes + ((uint64_t)(row.end - row.first) << heaps->shift) +
                                 row.right_bytes);
    return largest;
}

/* ---- windows ---- */

uint64_t heap_extents_for(const struct heaps *heaps, uint64_t bytes, uint64_t there)
{
    uint64_t missing = bytes > there ? bytes - there : 1;

    return ((missing - 1) >> heaps->shift) + 1;
}

/* What a place costs. Growing: an extent. Moving: the memory of one, and among those a number that
 * nobody had before. */
static uint32_t heap_place_cost(const struct heap_map *map, uint32_t at)
{
    switch ((enum heap_place)map->place[at]) {
    case HEAP_PLACE_FREE: return map->moves ? 0 : 1;
    case HEAP_PLACE_DORMANT: return LIMIT_EXTENTS;
    case HEAP_PLACE_UNUSED: return LIMIT_EXTENTS + 1;
    default: return 0;
    }
}

/* The extents from `first` on that have `bytes` with what is beside the row; 0: it is too short. */
static uint32_t heap_row_needs(const struct heaps *heaps, const struct heap_row *row,
                               uint32_t first, uint64_t bytes)
{
    uint32_t left = row->end - first;
    uint64_t there = first == row->first ? row->left_bytes : 0;
    uint64_t n = heap_extents_for(heaps, bytes, there);

    if (n <= left)
        return (uint32_t)n;
    return there + ((uint64_t)left << heaps->shift) + row->right_bytes >= bytes ? left : 0;
}

/*
 * The cheapest window of a row, if it is cheaper than *best. Who grows does so beside or around
 * what it has (extent_take knows better where to begin anew), and rather upwards, if it costs the
 * same: what is before may want to grow this way.
 */
static void heap_search_row(const struct heaps *heaps, const struct heap_map *map,
                            const struct heap_row *row, uint64_t bytes, uint32_t most,
                            struct heap_window *best)
{
    uint64_t cost = 0;
    uint32_t end = row->first, own = 0; /* of [first, end) */

    for (uint32_t first = row->first; first < row->end; first++) {
        uint32_t n = heap_row_needs(heaps, row, first, bytes);
        bool upwards =
            (first == row->first && row->has_left) || map->place[first] == HEAP_PLACE_OWN;

        for (; n > 0 && end < first + n; end++) {
            cost += heap_place_cost(map, end);
            own += map->place[end] == HEAP_PLACE_OWN;
        }
        for (; n > 0 && end > first + n; end--) {
            cost -= heap_place_cost(map, end - 1);
            own -= map->place[end - 1] == HEAP_PLACE_OWN;
        }
        if (n > 0 && n <= most &&
            (map->moves || upwards || own > 0 || (row->has_right && end == row->end)) &&
            (cost < best->cost || (cost == best->cost && upwards && !map->moves)))
            *best = (struct heap_window){.first = first, .n = n, .cost = cost};
        if (end == first)
            end++; /* too short from here on: nothing was counted */
        else {
            cost -= heap_place_cost(map, first);
            own -= map->place[first] == HEAP_PLACE_OWN;
        }
    }
}

bool heap_find_window(const struct heaps *heaps, const struct heap_map *map, uint64_t bytes,
                      uint32_t most, struct heap_window *window)
{
    struct heap_window best = {.cost = UINT64_MAX};
    struct heap_row row;
    uint32_t at = 0;

    while (heap_next_row(heaps, map, &at, &row))
        heap_search_row(heaps, map, &row, bytes, most, &best);
    if (best.n == 0)
        return false;
    *window = best;
    return true;
}
