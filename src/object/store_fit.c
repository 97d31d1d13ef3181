/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether memory for something large could be had at all, if all that may leave did. Asked before
 * anything is evicted for it: what cannot be served must not cost others their objects.
 *
 * What may not leave is pinned, kept, unsealed, leased or read by the lane. Extents without any of
 * that can be brought together (heaps_reclaim). Of each of the others the look notes where that
 * begins and where it ends; what is free between two such places of one extent is taken to be all
 * of it. So the answer may be yes where it is no, never the other way round, save for a pin that
 * goes while the look is taken.
 */
#include "base/check.h"
#include "object/store_figures.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_session.h"

/* One look. */
struct look {
    struct store *store;
    struct store_pool *pool; /* whose pins are visited */
    uint32_t records;        /* that may still be read */
};

static void forget_fixed(struct store *store)
{
    for (uint32_t e = store_extents_first(store); e < store_extents_end(store); e++) {
        store->extents[e].fixed_begin = UINT64_MAX;
        store->extents[e].fixed_end = 0;
    }
}

static void note_fixed(struct store *store, uint64_t offset, uint64_t bytes)
{
    const struct extent_set *set = store->config.extents;

    while (bytes > 0) {
        uint64_t part = min_u64(bytes, set->extent_bytes - (offset & (set->extent_bytes - 1)));
        struct store_extent *extent = &store->extents[offset >> set->extent_shift];

        extent->fixed_begin = min_u64(extent->fixed_begin, offset);
        extent->fixed_end = max_u64(extent->fixed_end, offset + part);
        offset += part;
        bytes -= part;
    }
}

static void note_object(struct store *store, const struct store_pool *pool, uint32_t entry)
{
    uint32_t block = pool->records[entry].block;

    if (block != 0) {
        note_fixed(store, heap_block_offset(store->heaps, block - 1),
                   heap_block_bytes(store->heaps, block - 1));
    }
}

static void note_pin(void *context, uint32_t entry)
{
    struct look *look = context;

    note_object(look->store, look->pool, entry);
}

static void note_leases(struct store *store, const struct store_session *session)
{
    for (uint32_t i = 0; i < LIMIT_LEASES_A_SESSION; i++) {
        const struct store_lease *lease = &session->leases[i];
        uint32_t rest = lease->entry != STORE_NONE ? lease->rest : 0;

        for (uint32_t p = 0; lease->entry != STORE_NONE && p < lease->pieces; p++) {
            note_fixed(store, heap_block_offset(store->heaps, lease->blocks[p]),
                       heap_block_bytes(store->heaps, lease->blocks[p]));
        }
        for (; rest != 0; rest = (uint32_t)heap_block_tag(store->heaps, rest - 1)) {
            note_fixed(store, heap_block_offset(store->heaps, rest - 1),
                       heap_block_bytes(store->heaps, rest - 1));
        }
    }
}

/* Whether an object stays where it is for reasons that no pin tells. */
static bool stays(const struct store_pool *pool, uint32_t entry)
{
    const struct store_record *record = &pool->records[entry];

    return store_state(pool, entry) == INDEX_CREATED || record->readers > 0 ||
           (record->flags & RECORD_READING) != 0 || store_has_flag(pool, entry, INDEX_STAYS);
}

static uint64_t owner_of(const struct store *store, uint32_t extent)
{
    return atomic_load_explicit(&store->config.extents->extents[extent].owner,
                                memory_order_relaxed);
}

/* Only where something stands in the way, and so many at most: the rest counts as free. */
static void note_obstacles(struct look *look)
{
    struct store *store = look->store;

    for (uint32_t e = store_extents_first(store); e < store_extents_end(store); e++) {
        uint64_t owner = owner_of(store, e);
        const struct store_pool *pool;

        if (store->extents[e].obstacles == 0 || owner == EXTENT_NO_OWNER) {
            continue;
        }
        pool = store->pools[extent_owner_pool(owner)];
        for (uint32_t at = store->extents[e].first; at != 0 && look->records > 0;
             at = pool->records[at - 1].near_next) {
            look->records--;
            if (stays(pool, at - 1)) {
                note_object(store, pool, at - 1);
            }
        }
    }
}

static void take_look(struct store *store)
{
    struct look look = {.store = store, .records = STORE_FIT_RECORDS};

    forget_fixed(store);
    for (uint32_t i = 0; i < LIMIT_SESSIONS; i++) {
        const struct store_session *session = store->sessions[i];

        if (session != NULL) {
            look.pool = session->pool;
            pin_table_visit(&session->pool->tables[session->table], store->config.lane,
                            session->pool->writer.index.entry_count, note_pin, &look);
            note_leases(store, session);
        }
    }
    note_obstacles(&look);
}

/* All that may go, and what nobody has: it can be brought together. */
static uint64_t movable_bytes(const struct store *store)
{
    const struct extent_set *set = store->config.extents;
    uint64_t bytes = 0;

    for (uint32_t e = store_extents_first(store); e < store_extents_end(store); e++) {
        bytes +=
            set->extents[e].present && !set->extents[e].lost && store->extents[e].fixed_end == 0
                ? set->extent_bytes
                : 0;
    }
    return bytes;
}

/* Whether what is movable may lie there for `owner`. Another's extent that is emptied may not. */
static bool may_hold(const struct store *store, uint32_t extent, uint64_t owner)
{
    const struct extent_set *set = store->config.extents;
    uint64_t whose = owner_of(store, extent);

    if (!set->extents[extent].present) {
        return extent_is_unused(set, extent) || extent_is_dormant(set, extent, owner);
    }
    return !set->extents[extent].lost && store->extents[extent].fixed_end == 0 &&
           (whose == EXTENT_NO_OWNER || whose == owner);
}

uint64_t store_most_bytes(struct store *store, uint64_t owner, uint64_t *between)
{
    const struct extent_set *set = store->config.extents;
    uint32_t end = store_extents_first(store) + LIMIT_EXTENTS / set->lanes;
    uint64_t before = 0, run = 0, most = 0, movable;

    take_look(store);
    movable = movable_bytes(store);
    *between = 0;
    for (uint32_t e = store_extents_first(store); e < end; e++) {
        const struct store_extent *extent = &store->extents[e];
        uint64_t begin = (uint64_t)e << set->extent_shift;
        bool own = set->extents[e].present && !set->extents[e].lost && owner_of(store, e) == owner;

        if (may_hold(store, e, owner)) {
            run = min_u64(run + set->extent_bytes, movable);
            most = max_u64(most, before + run);
            continue;
        }
        /* What stays there may leave a free end beside the run. */
        most = max_u64(most, before + run + (own ? extent->fixed_begin - begin : 0));
        *between = max_u64(*between, own ? extent->fixed_end - extent->fixed_begin : 0);
        before = own ? begin + set->extent_bytes - extent->fixed_end : 0;
        most = max_u64(most, before);
        run = 0;
    }
    return most;
}

bool store_may_fit(struct store *store, uint32_t heap, uint64_t owner, uint64_t bytes)
{
    uint64_t between, most;

    if (heap == store->unfit_heap && bytes >= store->unfit_bytes && !store->pins_changed &&
        store->now_us < store->unfit_us) {
        return false;
    }
    most = store_most_bytes(store, owner, &between);
    if (bytes <= most || bytes <= between) {
        return true;
    }
    store->unfit_heap = heap;
    store->unfit_bytes = max_u64(most, between) + 1;
    store->unfit_us = store->now_us + LIMIT_RETRY_US;
    return false;
}
