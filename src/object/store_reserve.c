/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room that puts leave, so that a read back from disk always finds a way (docs/objects.md,
 * Spill): memory that can be had without the disk, or room on disk to make some.
 */
#include "base/check.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_reserve.h"

/* ---- the largest object ---- */

/* Four classes for each doubling: a bound at most a quarter above the object. */
uint32_t store_reserve_class(uint64_t bytes)
{
    uint32_t log;

    bytes = max_u64(bytes, STORE_CLASS_SPLIT);
    log = 63 - (uint32_t)__builtin_clzll(bytes);
    return (log << STORE_CLASS_SHIFT) + (uint32_t)(bytes >> (log - STORE_CLASS_SHIFT)) -
           STORE_CLASS_SPLIT;
}

/* One byte less than where the next class begins would do; a round number is as good. */
static uint64_t class_end(uint32_t class)
{
    uint64_t split = (class & (STORE_CLASS_SPLIT - 1)) + STORE_CLASS_SPLIT + 1;

    return split << ((class >> STORE_CLASS_SHIFT) - STORE_CLASS_SHIFT);
}

void store_reserve_count(struct store *store, const struct store_pool *pool, uint32_t entry,
                         int change)
{
    uint32_t class = store_reserve_class(store_object_bytes(pool, entry));

    NIGH_ASSERT(change > 0 || store->sizes[class] > 0);
    store->sizes[class] += (uint32_t)change;
}

static uint64_t room_for(const struct store *store, uint64_t largest)
{
    return 3 * largest + 2 * store->config.extents->extent_bytes;
}

bool store_reserve_takes(const struct store *store, uint64_t bytes)
{
    uint64_t bound = class_end(store_reserve_class(bytes));

    return bound + room_for(store, bound) <= store->config.spill_bytes;
}

/* Of those that may go to disk: the others stay in memory, and are nothing to make room with. */
static uint64_t largest_object(const struct store *store)
{
    for (uint32_t class = STORE_CLASSES; class -- > STORE_CLASS_SPLIT;) {
        if (store->sizes[class] > 0 && store_reserve_takes(store, class_end(class) - 1)) {
            return class_end(class);
        }
    }
    return 0;
}

/* ---- room ---- */

/* The most that files may take: the bound, or what the disk has. To ask it for each put would cost
 * more than some puts. */
static uint64_t disk_bytes(struct store *store)
{
    uint64_t free_bytes;

    if (store->config.shell.disk_free != NULL && store->now_us >= store->disk_look_us) {
        free_bytes = store->config.shell.disk_free(store->config.shell.context);
        store->disk_look_us = store->now_us + LIMIT_DISK_LOOK_US;
        store->disk_bytes = free_bytes > UINT64_MAX - store->spilled_bytes
                                ? UINT64_MAX
                                : free_bytes + store->spilled_bytes;
    }
    return min_u64(store->config.spill_bytes, store->disk_bytes);
}

uint64_t store_disk_room(struct store *store)
{
    uint64_t taken = store->spilled_bytes + store->writing_bytes;
    uint64_t bytes = disk_bytes(store);

    return bytes - min_u64(bytes, taken);
}

bool store_reserve_is_whole(struct store *store)
{
    return !store_spills(store) || store->spilled_bytes + store->writing_bytes == 0 ||
           store_disk_room(store) >= room_for(store, largest_object(store));
}

bool store_reserve_has_more(struct store *store)
{
    uint64_t largest = largest_object(store);

    return store_disk_room(store) >= room_for(store, largest) + largest;
}

bool store_reserve_lets_write(struct store *store, uint64_t bytes)
{
    uint64_t room = store_disk_room(store);
    uint64_t kept = store->reserve_open ? 0 : room_for(store, largest_object(store));

    return store_reserve_takes(store, bytes) && room >= bytes && room - bytes >= kept;
}

/* What can be had without the disk: free extents, and those in which all is on disk as well. */
static uint64_t at_hand(const struct store *store)
{
    const struct extent_set *set = store->config.extents;
    uint64_t extents = heaps_spare_extents(store->heaps);

    for (uint32_t e = store_extents_first(store); e < store_extents_end(store); e++) {
        const struct store_extent *at = &store->extents[e];

        extents += set->extents[e].present && at->obstacles == 0 && at->live_bytes > 0 &&
                   at->live_bytes == at->backed_bytes;
    }
    return extents << set->extent_shift;
}

bool store_reserve_lets_take(struct store *store, uint64_t bytes)
{
    uint64_t largest, reserve, room;

    if (!store_spills(store) || store->reading_back ||
        store->spilled_bytes + store->writing_bytes == 0) {
        return true;
    }
    largest = largest_object(store);
    if (store_reserve_takes(store, bytes)) {
        largest = max_u64(largest, bytes);
    }
    reserve = room_for(store, largest);
    room = store_disk_room(store);
    return room >= reserve || room + at_hand(store) >= reserve + bytes;
}

void store_reserve_stats(const struct store *store, nigh_node_stats *stats)
{
    uint64_t bytes = min_u64(store->config.spill_bytes, store->disk_bytes);
    uint64_t taken = store->spilled_bytes + store->writing_bytes;

    if (!store_spills(store) || bytes == UINT64_MAX) {
        return;
    }
    taken += room_for(store, largest_object(store));
    stats->spill_bytes += max_u64(bytes, 1); /* 0 is said of no bound, not of a full disk */
    stats->spill_free_bytes += bytes - min_u64(bytes, taken);
}
