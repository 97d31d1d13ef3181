/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding memory, entries and quota for a submission, and making room when there is none: first by
 * what the policy offers, then by emptying whole extents (docs/objects.md, Memory). Whether and how
 * an object may leave is store_evict.c's.
 */
#include "object/store_internal.h"

nigh_status store_session_heap(struct store *store, struct store_session *session, uint32_t *heap)
{
    nigh_status status = NIGH_OK;

    if (session->heap == STORE_NONE) {
        status = heaps_open(store->heaps, store_session_owner(session), &session->heap);
    }
    if (status == NIGH_OK) {
        *heap = session->heap;
    }
    return status;
}

nigh_status store_node_heap(struct store *store, struct store_pool *pool, uint32_t *heap)
{
    nigh_status status = NIGH_OK;

    if (pool->node_heap == STORE_NONE) {
        status = heaps_open(store->heaps, store_node_owner(pool), &pool->node_heap);
    }
    if (status == NIGH_OK) {
        *heap = pool->node_heap;
    }
    return status;
}

/* ---- room by the policy ---- */

/* What one attempt to make room is about. */
struct room {
    struct store *store;
    struct store_pool *pool; /* that wants it */
    struct store_pool *from;
    uint64_t owner;
    uint32_t heap;
    uint64_t bytes;
    uint64_t spent; /* bytes that the policy's victims took with them */
    bool progress;  /* something was freed, or is being written */
};

/*
 * Evicts what the policy offers until the block is there. Gives up when victims lie in other heaps,
 * when `goal` bytes were freed in vain (they lie scattered), when all are pinned.
 */
static nigh_status room_by_policy(struct room *room, uint64_t goal, uint32_t *block)
{
    struct store *store = room->store;
    uint64_t here = 0;
    uint32_t barren = 0, elsewhere = 0;

    while (store->rounds > 0 && here < goal && barren < LIMIT_BARREN_ROUNDS && elsewhere < 2) {
        struct store_evicted evicted = {0};

        store_evict_round(store, room->from,
                          max_u64(room->bytes, store_reserve_bytes(store, room->from)), room->owner,
                          &evicted);
        here += evicted.here_bytes;
        room->spent += evicted.bytes + evicted.started_bytes;
        room->progress |= evicted.bytes > 0 || evicted.started > 0;
        if (evicted.bytes > 0 &&
            store_block_take(store, room->heap, room->bytes, block) == NIGH_OK) {
            return NIGH_OK;
        }
        if (evicted.bytes == 0 && evicted.pinned == 0) {
            break;
        }
        barren = evicted.bytes == 0 ? barren + 1 : 0;
        elsewhere += evicted.bytes > 0 && evicted.here_bytes == 0;
    }
    return NIGH_OUT_OF_MEMORY;
}

/* ---- room by extents ---- */

static uint64_t owner_of(const struct store *store, uint32_t extent)
{
    return atomic_load_explicit(&store->config.extents->extents[extent].owner,
                                memory_order_relaxed);
}

/* Whether an extent of the lane could be emptied, as far as is known. */
static bool may_empty(const struct store *store, uint32_t extent)
{
    const struct extent *at = &store->config.extents->extents[extent];

    return at->present && store->extents[extent].obstacles == 0 &&
           store->extents[extent].shun_us <= store->now_us;
}

/* The run of `count` adjacent extents of an owner in which the least lives. */
static bool find_run(const struct store *store, uint64_t owner, uint32_t count, uint32_t *first,
                     uint64_t *cost)
{
    uint64_t sum = 0, least = UINT64_MAX;
    uint32_t length = 0;

    for (uint32_t e = store_extents_first(store); e < store_extents_end(store); e++) {
        if (owner_of(store, e) != owner || !may_empty(store, e)) {
            length = 0;
            sum = 0;
            continue;
        }
        sum += store->extents[e].live_bytes;
        if (++length > count) {
            sum -= store->extents[e - count].live_bytes;
            length = count;
        }
        if (length == count && sum < least) {
            least = sum;
            *first = e + 1 - count;
        }
    }
    *cost = least;
    return least != UINT64_MAX;
}

/* The extent of the pool's other heaps in which the least lives; *empty: how many hold nothing. */
static bool find_other(const struct store *store, const struct room *room, uint32_t *extent,
                       uint64_t *cost, uint32_t *empty)
{
    uint64_t least = UINT64_MAX;

    *empty = 0;
    for (uint32_t e = store_extents_first(store); e < store_extents_end(store); e++) {
        uint64_t owner = owner_of(store, e);

        if (owner == EXTENT_NO_OWNER || owner == room->owner || !may_empty(store, e)) {
            continue;
        }
        if (store->extents[e].live_bytes == 0) {
            (*empty)++;
        } else if (owner >> 32 == (uint64_t)room->from->config.pool + 1 &&
                   store->extents[e].live_bytes < least) {
            least = store->extents[e].live_bytes;
            *extent = e;
        }
    }
    *cost = least;
    return least != UINT64_MAX;
}

/* Empties an extent as far as the rounds go. */
static bool empty_extent(struct room *room, uint32_t extent)
{
    struct store *store = room->store;
    bool empty = store->extents[extent].live_bytes == 0;

    while (!empty && store->rounds > 0) {
        struct store_evicted evicted = {0};

        store->rounds--;
        empty = store_empty_extent(store, extent, &evicted);
        room->progress |= evicted.bytes > 0 || evicted.started > 0;
        if (evicted.bytes == 0) {
            break;
        }
    }
    return empty;
}

/* One attempt: the cheaper of a run of the heap's own and of an extent of another. False: none. */
static bool empty_cheapest(struct room *room, uint32_t count, uint32_t *block, nigh_status *status)
{
    struct store *store = room->store;
    uint64_t run_cost, other_cost;
    uint32_t first = 0, other = 0, empty, e;
    bool own = find_run(store, room->owner, count, &first, &run_cost);
    bool others = find_other(store, room, &other, &other_cost, &empty);

    *status = NIGH_OUT_OF_MEMORY;
    if (empty >= count) {
        if (heaps_reclaim(store->heaps, room->heap, count) == NIGH_OK) {
            *status = store_block_take(store, room->heap, room->bytes, block);
            return *status == NIGH_OK;
        }
        others = false; /* emptying more would not help either */
    }
    /* Who is to take from another pool, and finds none to empty, asks the policy before it empties
     * what is its own. */
    own = own && (others || room->from == room->pool);
    if (own && (!others || run_cost <= other_cost * count)) {
        for (e = first; e < first + count && empty_extent(room, e); e++) {
        }
        /* Even if something pinned stayed, a hole around it may do. */
        *status = store_block_take(store, room->heap, room->bytes, block);
        if (*status != NIGH_OK) {
            store->extents[first].shun_us =
                max_u64(store->extents[first].shun_us, store->now_us + 1);
        }
        return true;
    }
    if (others) {
        (void)empty_extent(room, other);
    }
    return others;
}

static nigh_status room_by_extents(struct room *room, uint32_t *block)
{
    struct store *store = room->store;
    uint64_t extent_bytes = store->config.extents->extent_bytes;
    uint32_t count = (uint32_t)((room->bytes + extent_bytes - 1) / extent_bytes);
    nigh_status status = NIGH_OUT_OF_MEMORY;

    for (uint32_t tries = 0; tries < LIMIT_CLEAR_TRIES && store->rounds > 0; tries++) {
        uint64_t used = store->used_bytes, writing = store->writing_bytes;

        if (!empty_cheapest(room, count, block, &status) || status == NIGH_OK) {
            return status;
        }
        /* What is being written comes back to us when it is. */
        if (store->used_bytes == used && store->writing_bytes > 0 &&
            store->writing_bytes >= writing) {
            return NIGH_OUT_OF_MEMORY;
        }
    }
    return status;
}

/*
 * Emptying a whole extent takes milliseconds, and whoever needs room has to wait for it. Who needed
 * it once will need it again: so it goes on in small steps while there is still room.
 */
void store_gather(struct store *store)
{
    struct room room = {.store = store, .owner = store->scattered_owner};
    uint32_t extent = 0, rounds = store->rounds;
    uint64_t cost;

    store->gathering = false;
    if (store->scattered_heap == STORE_NONE || rounds == 0 ||
        heap_largest_bytes(store->heaps, store->scattered_heap) >= STORE_GATHER_BYTES) {
        return;
    }
    if (find_run(store, room.owner, 1, &extent, &cost) && cost > 0 &&
        store_is_spare_extent(store, extent)) {
        store->rounds = 1;
        (void)empty_extent(&room, extent);
        store->rounds = rounds - 1;
    }
    store->gathering = room.progress;
    if (!room.progress) {
        store->scattered_heap = STORE_NONE; /* until someone needs it again */
    }
}

/* ---- memory ---- */

/*
 * An object that takes a good part of an extent is best placed by emptying what lies in its way;
 * freeing as much in little pieces seldom helps it, so that is tried last, and not for ever: one
 * that will never fit must not cost everybody the cache.
 */
static nigh_status room_for_large(struct room *room, uint32_t *block)
{
    uint64_t most = STORE_SPENT_SHARE * room->bytes;
    nigh_status status = room_by_extents(room, block);

    if (status != NIGH_OK && room->from != room->pool) {
        room->from = room->pool;
        status = room_by_extents(room, block);
    }
    if (status != NIGH_OK && room->spent < most) {
        status = room_by_policy(room, most - room->spent, block);
    }
    return status;
}

/*
 * Small ones fit where some victim was. If not, memory is in pieces (what is used stays where it
 * is, between what went), or what is free lies in other heaps: then the emptiest extent is emptied,
 * which yields room for many.
 */
static nigh_status room_for_small(struct room *room, uint32_t *block)
{
    uint64_t extent_bytes = room->store->config.extents->extent_bytes;
    uint64_t goal = max_u64(2 * room->bytes, extent_bytes / STORE_SCATTER_SHARE);
    nigh_status status = NIGH_OUT_OF_MEMORY;

    if (room->from != room->pool) {
        status = room_by_extents(room, block);
        room->from = room->pool;
    }
    if (status != NIGH_OK) {
        status = room_by_policy(room, goal, block);
    }
    if (status != NIGH_OK) {
        status = room_by_extents(room, block);
        if (status == NIGH_OK) {
            room->store->scattered_heap = room->heap;
            room->store->scattered_owner = room->owner;
        }
    }
    return status;
}

/* *spent: what earlier attempts for the same request evicted. */
static nigh_status make_room(struct store *store, struct store_pool *pool, uint64_t owner,
                             uint32_t heap, uint64_t bytes, uint64_t *spent, uint32_t *block)
{
    struct room room = {.store = store,
                        .pool = pool,
                        .from = store_victim_pool(store, pool),
                        .owner = owner,
                        .heap = heap,
                        .bytes = bytes,
                        .spent = *spent};
    bool large = 2 * bytes >= store->config.extents->extent_bytes;
    nigh_status status;

    store->ahead_us = 0;
    if (store->now_us < store->heap_barren_us[heap]) {
        return NIGH_OUT_OF_MEMORY;
    }
    if ((large || bytes >= STORE_FIT_BYTES) && !store_may_fit(store, heap, owner, bytes)) {
        return NIGH_OUT_OF_MEMORY; /* smaller ones of this heap may have better luck */
    }
    status = large ? room_for_large(&room, block) : room_for_small(&room, block);
    *spent = room.spent;
    if (status != NIGH_OK && !room.progress) {
        store->heap_barren_us[heap] = store->now_us + LIMIT_RETRY_US;
    }
    return status;
}

nigh_status store_obtain_now(struct store *store, struct store_pool *pool, uint64_t owner,
                             uint32_t heap, uint64_t bytes, bool evict, uint64_t *spent,
                             uint32_t *block)
{
    if (store_block_take(store, heap, bytes, block) == NIGH_OK) {
        return NIGH_OK;
    }
    return evict ? make_room(store, pool, owner, heap, bytes, spent, block) : NIGH_OUT_OF_MEMORY;
}

nigh_status store_obtain(struct store_call *call, uint64_t owner, uint64_t bytes, bool evict,
                         uint32_t *block)
{
    struct store *store = call->store;
    bool node = owner == store_node_owner(call->pool);
    uint32_t heap;
    nigh_status status = node ? store_node_heap(store, call->pool, &heap)
                              : store_session_heap(store, call->session, &heap);

    if (status != NIGH_OK) {
        return status;
    }
    if (bytes > store->memory_bytes) {
        return NIGH_OUT_OF_MEMORY;
    }
    /* Who waits already was let through by the queue; a newcomer stands behind its like. */
    if (call->waiter != NULL || !store_must_queue(store, heap, bytes)) {
        status =
            store_obtain_now(store, call->pool, owner, heap, bytes, evict, &call->spent, block);
        if (status == NIGH_OK) {
            return status;
        }
    }
    call->wait = STORE_WAIT_MEMORY;
    call->heap = heap;
    call->bytes = bytes;
    call->late = NIGH_OUT_OF_MEMORY;
    return NIGH_PENDING;
}

nigh_status store_obtain_unasked(struct store *store, struct store_pool *pool, uint64_t bytes,
                                 uint64_t *spent, uint32_t *block)
{
    uint32_t heap;
    nigh_status status = store_node_heap(store, pool, &heap);

    if (status != NIGH_OK) {
        return status;
    }
    if (bytes > store->memory_bytes) {
        return NIGH_OUT_OF_MEMORY;
    }
    if (store_must_queue(store, heap, bytes) ||
        store_obtain_now(store, pool, store_node_owner(pool), heap, bytes, true, spent, block) !=
            NIGH_OK) {
        return NIGH_PENDING;
    }
    return NIGH_OK;
}

void store_block_return(struct store *store, uint32_t block)
{
    bool freed = store->memory_freed;

    store_block_give(store, block);
    store->memory_freed = freed;
}

/* ---- entries ---- */

nigh_status store_obtain_entry(struct store *store, struct store_pool *pool, bool evict,
                               uint32_t *entry)
{
    uint32_t barren = 0;

    while (index_take(&pool->writer, entry) != NIGH_OK) {
        struct store_evicted evicted = {0};

        if (!evict || store->rounds == 0 || barren == LIMIT_BARREN_ROUNDS) {
            return NIGH_LIMIT;
        }
        if (!store_spills(store)) {
            store_evict_round(store, pool, UINT64_MAX, EXTENT_NO_OWNER, &evicted);
        } else if (!store_evict_copies(store, pool, UINT64_MAX, EXTENT_NO_OWNER, &evicted)) {
            return NIGH_LIMIT; /* spilled objects keep their entries: spilling frees none */
        }
        if (evicted.bytes == 0 && evicted.pinned == 0) {
            return NIGH_LIMIT;
        }
        barren = evicted.bytes == 0 ? barren + 1 : 0;
    }
    return NIGH_OK;
}

/* ---- quotas ---- */

static bool session_over(const struct store_session *session)
{
    return session->quota_bytes != 0 &&
           atomic_load_explicit(session->config.quota_used, memory_order_relaxed) >
               session->quota_bytes;
}

static bool pool_over(const struct store_pool *pool, uint64_t bytes)
{
    return pool->config.quota_bytes != 0 && pool->bytes + bytes > pool->config.quota_bytes;
}

/* Who lives at the quota would look at all pins for each put: a little more at a time is cheaper.
 */
static uint64_t quota_batch(uint64_t bytes, uint64_t quota_bytes)
{
    return max_u64(bytes, quota_bytes / STORE_QUOTA_SHARE);
}

/* Whether to give up after so many rounds without a free victim: not while there are graves to
 * empty, which count as what is in memory. */
static bool is_in_vain(struct store *store, struct store_pool *pool,
                       const struct store_evicted *evicted, uint32_t *barren)
{
    *barren = evicted->bytes == 0 ? *barren + 1 : 0;
    if (*barren == 0 || (*barren < LIMIT_BARREN_ROUNDS && evicted->pinned > 0)) {
        return false;
    }
    *barren = 0;
    return !store_empty_graves(store, pool);
}

/* Evicts until neither quota is exceeded. */
static nigh_status fit_quotas(struct store_call *call, uint64_t bytes, bool evict)
{
    struct store *store = call->store;
    uint32_t barren = 0;
    bool writing = false;

    while (session_over(call->session) || pool_over(call->pool, bytes)) {
        struct store_evicted evicted = {0};

        if (!evict || store->rounds == 0) {
            return NIGH_QUOTA;
        }
        if (session_over(call->session)) {
            store->rounds--;
            store_evict_made(store, call->session, quota_batch(bytes, call->session->quota_bytes),
                             &evicted);
        } else {
            store_evict_round(store, call->pool, quota_batch(bytes, call->pool->config.quota_bytes),
                              EXTENT_NO_OWNER, &evicted);
        }
        writing |= evicted.started > 0;
        if (is_in_vain(store, call->pool, &evicted, &barren)) {
            return writing || call->waiter != NULL ? NIGH_PENDING : NIGH_QUOTA;
        }
    }
    return NIGH_OK;
}

nigh_status store_fit_pool(struct store *store, struct store_pool *pool, uint64_t bytes)
{
    uint32_t barren = 0;

    if (pool->config.quota_bytes != 0 && bytes > pool->config.quota_bytes) {
        return NIGH_QUOTA;
    }
    while (pool_over(pool, bytes)) {
        struct store_evicted evicted = {0};

        if (store->rounds == 0) {
            return NIGH_PENDING;
        }
        store_evict_round(store, pool, quota_batch(bytes, pool->config.quota_bytes),
                          EXTENT_NO_OWNER, &evicted);
        if (is_in_vain(store, pool, &evicted, &barren)) {
            return pool->writing_bytes > 0 ? NIGH_PENDING : NIGH_QUOTA;
        }
    }
    return NIGH_OK;
}

nigh_status store_obtain_quota(struct store_call *call, uint64_t bytes, bool evict)
{
    nigh_status status;

    if ((call->session->quota_bytes != 0 && bytes > call->session->quota_bytes) ||
        (call->pool->config.quota_bytes != 0 && bytes > call->pool->config.quota_bytes)) {
        return NIGH_QUOTA;
    }
    /* Counted first: two lanes that look at the same moment see each other. */
    store_charge(call->session, bytes);
    if (likely(!session_over(call->session) && !pool_over(call->pool, bytes))) {
        return NIGH_OK;
    }
    status = fit_quotas(call, bytes, evict);
    if (status == NIGH_OK) {
        return NIGH_OK;
    }
    store_discharge(call->session, bytes);
    call->wait = STORE_WAIT_MEMORY;
    call->late = NIGH_QUOTA;
    return status;
}
