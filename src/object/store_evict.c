/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letting objects leave memory: batches of victims under one fence and one scan, emptying extents,
 * evicting ahead of need, EVICT. Which objects go first is evict.c's; where memory is wanted is
 * store_memory.c's.
 */
#include "base/check.h"
#include "object/store_create.h"
#include "object/store_evict.h"
#include "object/store_figures.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_remote.h"
#include "object/store_reserve.h"
#include "object/store_session.h"
#include "object/store_spill.h"
#include "object/store_wait.h"

/* ---- one object ---- */

/* What listings say of an object that is on disk only. */
static void keep_name(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash)
{
    const struct index_entry *at = store_entry(pool, entry);
    uint64_t name = at->offset + index_meta_offset(at->data_size) + at->meta_size;

    if (at->name_size > 0) {
        index_keep_name(&pool->writer, hash, extent_bytes_at(store->config.extents, name),
                        at->name_size);
    }
}

/* A copy is somewhere else too, and never goes to disk. */
static bool goes_to_disk(const struct store *store, const struct store_pool *pool, uint32_t entry)
{
    return store_spills(store) && !store_is_mere_copy(pool, entry);
}

/* A MARKED entry that nobody pins: dropped, or spilled where the node spills. Returns its bytes. */
static uint64_t let_go(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash)
{
    struct store_record *record = &pool->records[entry];
    struct store_session *session = store_maker(store, record);
    uint64_t bytes = store_memory_bytes(store, pool, entry);

    store_list_remove(pool, store_list_of(store, pool, entry), entry);
    if (session != NULL) {
        store_discharge(session, bytes);
    }
    evict_evicted(&pool->evict, entry);
    pool->objects--;
    if (goes_to_disk(store, pool, entry)) {
        NIGH_ASSERT((record->flags & RECORD_ON_DISK) != 0);
        keep_name(store, pool, entry, hash);
        index_to_spilled(&pool->writer, entry);
        store_say(store, pool, entry, NIGH_EVENT_SPILLED);
        pool->objects_spilled++;
        store_memory_unbind(store, pool, entry);
    } else {
        store_say(store, pool, entry, NIGH_EVENT_EVICTED);
        store_tell_gone(store, pool, entry, hash);
        index_remove(&pool->writer, hash, entry);
        store->counts.evictions++;
        store->counts.evicted_bytes += bytes;
        store_memory_unbind(store, pool, entry);
        store_release(pool, entry);
    }
    if (store_spills(store)) {
        store_evict_credit(store, pool, bytes);
    }
    return bytes;
}

/* ---- batches ---- */

/*
 * The books of a victim lie in half a dozen large tables, at places without order. Fetched for a
 * whole batch at once they cost a fraction of what they cost one by one.
 */
static void expect_victims(struct store_pool *pool, const uint32_t *entries, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        __builtin_prefetch(store_entry(pool, entries[i]), 1);
        __builtin_prefetch(&pool->records[entries[i]], 1);
    }
}

static void expect_removal(struct store_pool *pool, const uint32_t *entries, uint32_t count,
                           uint64_t *hashes)
{
    for (uint32_t i = 0; i < count; i++) {
        hashes[i] = store_hash(pool, entries[i]);
        index_expect(&pool->writer, hashes[i]);
        evict_expect(&pool->evict, hashes[i]);
    }
}

void store_evict_these(struct store *store, struct store_pool *pool, uint32_t *entries,
                       uint32_t count, uint64_t owner, struct store_evicted *evicted)
{
    const struct extent_set *set = store->config.extents;
    uint64_t hashes[LIMIT_EVICT_BATCH];
    uint32_t unpinned;

    if (count == 0) {
        return;
    }
    NIGH_ASSERT(count <= LIMIT_EVICT_BATCH);
    expect_victims(pool, entries, count);
    unpinned = pin_scan_victims(&store->scan, &pool->writer, pool->tables, pool->table_count,
                                entries, count);
    expect_removal(pool, entries, unpinned, hashes);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t extent = store_entry(pool, entries[i])->offset >> set->extent_shift;

        if (i < unpinned) {
            uint64_t bytes = let_go(store, pool, entries[i], hashes[i]);

            evicted->bytes += bytes;
            if (atomic_load_explicit(&set->extents[extent].owner, memory_order_relaxed) == owner) {
                evicted->here_bytes += bytes;
            }
            continue;
        }
        if (evict_where(&pool->evict, entries[i]) == EVICT_OFFERED) {
            evict_kept(&pool->evict, entries[i]);
        }
        store->extents[extent].shun_us = store->now_us + LIMIT_RETRY_US;
    }
    evicted->pinned += count - unpinned;
    store->counts.victims_kept += count - unpinned;
}

/*
 * Of sealed entries, leaves in entries[] those that may leave memory at once, and returns how many;
 * the others it begins to write out, or leaves to the policy.
 */
static uint32_t select_ready(struct store *store, struct store_pool *pool, uint32_t *entries,
                             uint32_t count, struct store_evicted *evicted)
{
    uint32_t ready = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct store_record *record = &pool->records[entries[i]];
        bool stays = store_is_read(record);

        if (!stays && goes_to_disk(store, pool, entries[i]) &&
            (record->flags & RECORD_ON_DISK) == 0) {
            if (store_spill_start(store, pool, entries[i])) {
                evicted->started++;
                evicted->started_bytes += store_memory_bytes(store, pool, entries[i]);
                continue;
            }
            stays = true;
        }
        evicted->pinned += record->readers > 0;
        if (!stays) {
            entries[ready++] = entries[i];
        } else if (evict_where(&pool->evict, entries[i]) == EVICT_OFFERED) {
            evict_kept(&pool->evict, entries[i]);
        }
    }
    return ready;
}

uint64_t store_policy_bytes(const struct store *store, const struct store_pool *pool)
{
    uint64_t bytes = store->memory_bytes;

    for (uint32_t i = 0; i < LIMIT_POOLS; i++) {
        const struct store_pool *other = store->pools[i];

        if (other != NULL && other != pool) {
            bytes -= min_u64(bytes, other->bytes);
        }
    }
    if (pool->config.quota_bytes != 0) {
        bytes = min_u64(bytes, pool->config.quota_bytes);
    }
    return max_u64(max_u64(bytes, pool->bytes), LIMIT_GRANULE_BYTES);
}

uint64_t store_reserve_bytes(const struct store *store, const struct store_pool *pool)
{
    uint64_t free_bytes = store_free_bytes(store);
    uint64_t reserve = store->high_bytes > free_bytes ? store->high_bytes - free_bytes : 0;

    return min_u64(reserve, pool->policy_bytes / STORE_HIGH_SHARE);
}

/* Pools share a lane's memory: what one may count on changes with what the others have. The policy
 * hears of it when it has changed by a good part. */
static void size_policy(struct store *store, struct store_pool *pool)
{
    uint64_t bytes = store_policy_bytes(store, pool);
    uint64_t apart = pool->policy_bytes / STORE_POLICY_SHARE;

    if (bytes < pool->policy_bytes - apart || bytes > pool->policy_bytes + apart) {
        pool->policy_bytes = bytes;
        evict_resize(&pool->evict, bytes);
    }
}

/* Whether to ask for less than `wanted`: what is under way counts, since a slow disk must not make
 * the whole memory leave. False: nothing. */
static bool still_wanted(const struct store *store, const struct store_pool *pool, uint64_t *wanted)
{
    if (store_spills(store) && pool->writing_bytes >= *wanted) {
        return false;
    }
    *wanted -= store_spills(store) ? pool->writing_bytes : 0;
    return true;
}

void store_evict_round(struct store *store, struct store_pool *pool, uint64_t wanted,
                       uint64_t owner, struct store_evicted *evicted)
{
    uint32_t count;

    NIGH_ASSERT(store->rounds > 0);
    store->rounds--;
    if (!still_wanted(store, pool, &wanted)) {
        evicted->started++;
        return;
    }
    if (store_spills(store) && (store_evict_copies(store, pool, wanted, owner, evicted) ||
                                store_evict_backed(store, pool, wanted, owner, evicted) ||
                                !store_spill_may_start(store))) {
        return;
    }
    store_drain_hints(store, pool);
    size_policy(store, pool);
    count = evict_victims(&pool->evict, LIMIT_EVICT_BATCH, wanted, store->victims);
    count = select_ready(store, pool, store->victims, count, evicted);
    store_evict_these(store, pool, store->victims, count, owner, evicted);
}

/* The largest object that is evicted ahead of need. */
static uint64_t ahead_each(const struct store *store)
{
    return store->high_bytes / STORE_AHEAD_EACH_SHARE;
}

/* One batch of what is in a list, in its order; returns how many it looked at. `spare`: that nobody
 * needs the room of yet. */
static uint32_t evict_list(struct store *store, struct store_pool *pool, struct store_list *list,
                           uint64_t wanted, bool spare, uint64_t owner,
                           struct store_evicted *evicted)
{
    uint32_t looks = min_u32(list->count, LIMIT_EVICT_BATCH);
    uint64_t bytes = 0;
    uint32_t count = 0, n = 0;

    /* What was looked at goes to the back, so that what is in use does not hide the rest. */
    for (; n < looks && bytes < wanted; n++) {
        uint32_t entry = list->first - 1;
        uint64_t each = store_memory_bytes(store, pool, entry);

        if (spare && evict_where(&pool->evict, entry) == EVICT_YOUNG) {
            break;
        }
        if (!store_has_flag(pool, entry, INDEX_STAYS) && (!spare || each <= ahead_each(store))) {
            bytes += each;
            store->victims[count++] = entry;
        }
        store_list_remove(pool, list, entry);
        store_list_push(pool, list, entry);
    }
    /* All of them kept: there may be others behind. */
    evicted->pinned += count == 0 && looks < list->count;
    count = select_ready(store, pool, store->victims, count, evicted);
    store_evict_these(store, pool, store->victims, count, owner, evicted);
    return n;
}

void store_evict_made(struct store *store, struct store_session *session, uint64_t wanted,
                      struct store_evicted *evicted)
{
    (void)evict_list(store, session->pool, &session->made, wanted, false, EXTENT_NO_OWNER, evicted);
}

bool store_evict_copies(struct store *store, struct store_pool *pool, uint64_t wanted,
                        uint64_t owner, struct store_evicted *evicted)
{
    uint64_t before = evicted->bytes;
    uint32_t left = pool->copies.count;

    if (pool->copies.count == 0 || store->now_us < pool->copies_shun_us) {
        return false;
    }
    /* Those that are in use must not send others to disk. */
    for (uint32_t n = 0; n < LIMIT_BARREN_ROUNDS && evicted->bytes == before && left > 0; n++) {
        uint32_t looked = evict_list(store, pool, &pool->copies, wanted, false, owner, evicted);

        left -= min_u32(looked, left);
    }
    if (evicted->bytes == before) {
        pool->copies_shun_us = store->now_us + LIMIT_RETRY_US;
    }
    return evicted->bytes > before;
}

bool store_evict_backed(struct store *store, struct store_pool *pool, uint64_t wanted,
                        uint64_t owner, struct store_evicted *evicted)
{
    uint64_t before = evicted->bytes, bytes = 0;
    uint32_t count = 0;

    if (store_reserve_is_whole(store)) {
        return false; /* there is no other way to have left a file */
    }
    for (uint32_t e = store_extents_first(store); e < store_extents_end(store); e++) {
        const struct store_extent *at = &store->extents[e];

        if (at->backed_bytes == 0 || at->shun_us > store->now_us ||
            atomic_load_explicit(&store->config.extents->extents[e].owner, memory_order_relaxed) !=
                store_node_owner(pool)) {
            continue;
        }
        for (uint32_t n = at->first; n != 0 && count < LIMIT_EVICT_BATCH && bytes < wanted;
             n = pool->records[n - 1].near_next) {
            if ((pool->records[n - 1].flags & RECORD_ON_DISK) != 0 &&
                store_state(pool, n - 1) == INDEX_SEALED &&
                !store_has_flag(pool, n - 1, INDEX_STAYS)) {
                store->victims[count++] = n - 1;
                bytes += store_memory_bytes(store, pool, n - 1);
            }
        }
    }
    count = select_ready(store, pool, store->victims, count, evicted);
    store_evict_these(store, pool, store->victims, count, owner, evicted);
    return evicted->bytes > before;
}

/* ---- extents ---- */

/* The object that begins before the extent and reaches into it, if there is one. */
static bool find_reaching(const struct store *store, const struct store_pool *pool, uint32_t extent,
                          uint32_t *entry)
{
    uint64_t begin = (uint64_t)extent << store->config.extents->extent_shift;

    for (uint32_t e = extent; e-- > 0 && store->extents[e].live_bytes > 0;) {
        for (uint32_t at = store->extents[e].first; at != 0; at = pool->records[at - 1].near_next) {
            uint64_t offset = store_entry(pool, at - 1)->offset;

            if (offset + store_memory_bytes(store, pool, at - 1) > begin) {
                *entry = at - 1;
                return true;
            }
        }
        if (store->extents[e].live_bytes < store->config.extents->extent_bytes) {
            return false;
        }
    }
    return false;
}

bool store_empty_extent(struct store *store, uint32_t extent, struct store_evicted *evicted)
{
    struct store_extent *at = &store->extents[extent];
    uint64_t owner =
        atomic_load_explicit(&store->config.extents->extents[extent].owner, memory_order_relaxed);
    struct store_pool *pool;
    uint32_t count = 0, reaching;

    if (at->live_bytes == 0) {
        return true;
    }
    NIGH_ASSERT(at->obstacles == 0 && owner != EXTENT_NO_OWNER);
    pool = store->pools[extent_owner_pool(owner)];
    for (uint32_t n = at->first; n != 0 && count < LIMIT_EVICT_BATCH;
         n = pool->records[n - 1].near_next) {
        if ((pool->records[n - 1].flags & RECORD_WRITING) == 0) {
            store->victims[count++] = n - 1;
        }
    }
    if (at->first == 0 && find_reaching(store, pool, extent, &reaching) &&
        !store_is_read(&pool->records[reaching])) {
        store->victims[count++] = reaching;
    }
    count = select_ready(store, pool, store->victims, count, evicted);
    store_evict_these(store, pool, store->victims, count, EXTENT_NO_OWNER, evicted);
    /* With the reserve open, what was begun here is gone on with, and nothing begun elsewhere. */
    if (at->live_bytes > 0 && evicted->bytes == 0 &&
        (evicted->started == 0 || !store->reserve_open)) {
        at->shun_us = store->now_us + LIMIT_RETRY_US;
    }
    return at->live_bytes == 0;
}

bool store_is_spare_extent(const struct store *store, uint32_t extent)
{
    uint64_t owner =
        atomic_load_explicit(&store->config.extents->extents[extent].owner, memory_order_relaxed);
    const struct store_pool *pool;
    uint32_t looks = 0;

    if (owner == EXTENT_NO_OWNER || store->extents[extent].first == 0) {
        return owner == EXTENT_NO_OWNER; /* only what reaches into it from before */
    }
    pool = store->pools[extent_owner_pool(owner)];
    for (uint32_t at = store->extents[extent].first; at != 0 && looks < LIMIT_EVICT_BATCH;
         at = pool->records[at - 1].near_next, looks++) {
        if (evict_where(&pool->evict, at - 1) == EVICT_YOUNG ||
            store_memory_bytes(store, pool, at - 1) > ahead_each(store)) {
            return false;
        }
    }
    return true;
}

/* ---- whose ---- */

struct store_pool *store_victim_pool(struct store *store, struct store_pool *pool)
{
    struct store_pool *largest = pool;
    uint32_t active = 0;

    for (uint32_t i = 0; i < LIMIT_POOLS; i++) {
        struct store_pool *other = store->pools[i];

        if (other == NULL || (other != pool && other->bytes == 0)) {
            continue;
        }
        active++;
        if (other->bytes > largest->bytes) {
            largest = other;
        }
    }
    return pool->bytes >= store->memory_bytes / active ? pool : largest;
}

/* ---- ahead of need ---- */

/*
 * A batch for which nobody waits. What leaves is small beside what is wanted and not new: a put
 * whose object this took would have been told OK for nothing. Copies go by the same rule.
 */
static void evict_spare_round(struct store *store, struct store_pool *pool, uint64_t wanted,
                              struct store_evicted *evicted)
{
    uint32_t count;

    store->rounds--;
    if (!still_wanted(store, pool, &wanted)) {
        return;
    }
    if (store_spills(store) && pool->copies.count > 0 && store->now_us >= pool->copies_shun_us) {
        (void)evict_list(store, pool, &pool->copies, wanted, true, EXTENT_NO_OWNER, evicted);
    }
    /* What a disk at rest, or a full queue, does not take would count as kept. */
    if (evicted->bytes > 0 || (store_spills(store) && (!store_spill_may_start(store) ||
                                                       store->writing > STORE_AHEAD_WRITING))) {
        return;
    }
    store_drain_hints(store, pool);
    size_policy(store, pool);
    count = evict_spare(&pool->evict, LIMIT_EVICT_BATCH, wanted, ahead_each(store), store->victims);
    count = select_ready(store, pool, store->victims, count, evicted);
    store_evict_these(store, pool, store->victims, count, EXTENT_NO_OWNER, evicted);
}

bool store_evict_is_due(const struct store *store)
{
    return store->pool_count > 0 &&
           store_free_bytes(store) < (store->ahead ? store->high_bytes : store->low_bytes);
}

void store_evict_ahead(struct store *store)
{
    struct store_evicted evicted = {0};
    struct store_pool *largest = NULL;

    store->ahead = store_evict_is_due(store);
    if (!store->ahead || store->now_us < store->ahead_us || store->rounds == 0) {
        return;
    }
    for (uint32_t i = 0; i < LIMIT_POOLS; i++) {
        struct store_pool *pool = store->pools[i];

        if (pool != NULL && (largest == NULL || pool->bytes > largest->bytes)) {
            largest = pool;
        }
    }
    evict_spare_round(store, largest, store_reserve_bytes(store, largest), &evicted);
    /* Nothing to be had: all is pinned, large or new, or the disk has enough to do. Ask less and
     * less often. */
    store->ahead_barren = evicted.bytes > 0 || evicted.started > 0
                              ? 0
                              : min_u32(store->ahead_barren + 1, STORE_AHEAD_BARREN);
    if (store->ahead_barren > 0) {
        store->ahead_us = store->now_us + ((uint64_t)LIMIT_RETRY_US << (store->ahead_barren - 1));
    }
    store->ahead = store_evict_is_due(store);
}

/* ---- EVICT ---- */

nigh_status store_evict(struct store_call *call)
{
    if (call->sqe->argument == 0) {
        return NIGH_OK;
    }
    call->wait = STORE_WAIT_WORK;
    return NIGH_PENDING;
}

void store_evict_credit(struct store *store, const struct store_pool *pool, uint64_t bytes)
{
    LIST_FOREACH(node, &store->works)
    {
        struct store_waiter *waiter = container_of(node, struct store_waiter, place);

        if (waiter->sqe.op == SESSION_OP_EVICT && store->sessions[waiter->session]->pool == pool) {
            waiter->done_bytes += bytes;
        }
    }
}

void store_evict_more(struct store *store, struct store_waiter *waiter)
{
    struct store_pool *pool = store->sessions[waiter->session]->pool;
    struct session_cqe cqe = {.pin = SESSION_NO_PIN};
    uint64_t wanted = waiter->sqe.argument;
    struct store_evicted evicted = {0};

    if (waiter->done_bytes < wanted && store->rounds > 0) {
        store_evict_round(store, pool, wanted - waiter->done_bytes, EXTENT_NO_OWNER, &evicted);
        if (!store_spills(store)) {
            waiter->done_bytes += evicted.bytes;
        }
        waiter->barren = evicted.bytes + evicted.started > 0 ? 0 : waiter->barren + 1;
        if (evicted.pinned == 0 && waiter->barren > 0 && pool->writing_bytes == 0) {
            waiter->barren = LIMIT_BARREN_ROUNDS;
        }
    }
    if (waiter->done_bytes >= wanted || waiter->barren >= LIMIT_BARREN_ROUNDS) {
        cqe.data_size = waiter->done_bytes;
        store_end_wait(store, waiter, NIGH_OK, &cqe);
    }
}
