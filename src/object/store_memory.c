/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding memory, entries and quota for a submission, and making room when there is none: first by
 * what the policy offers, then by emptying whole extents (docs/objects.md, Memory). Whether and how
 * an object may leave is store_evict.c's.
 */
#include "base/check.h"
#include "object/store_create.h"
#include "object/store_delete.h"
#include "object/store_evict.h"
#include "object/store_figures.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_reserve.h"
#include "object/store_session.h"
#include "object/store_wait.h"

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
    bool last;      /* to read back with the reserve: what is on disk as well goes first */
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

/* Numbers that memory left, of pools that have no session: they are anybody's. */
static void forget_left(struct store *store)
{
    uint32_t lane = store->config.lane;

    for (uint32_t i = 0; i < LIMIT_POOLS && store->config.extents->lane[lane].dormant > 0; i++) {
        if (store->pools[i] != NULL && !store->adopting) {
            store_forget_extents(store, store->pools[i]);
        }
    }
}

/* Moves what is wholly free to where the heap can use it as one piece. After the machine did not
 * give pages for that, nobody asks it for a while: each time might cost another extent. */
static bool bring_together(struct store *store, uint32_t heap, uint64_t bytes)
{
    nigh_status status;

    if (store->now_us < store->unmoved_us) {
        return false;
    }
    forget_left(store);
    status = heaps_reclaim(store->heaps, heap, bytes);
    forget_left(store);
    if (status == NIGH_NO_RESOURCES) {
        store->unmoved_us = store->now_us + LIMIT_RETRY_US;
    }
    return status == NIGH_OK;
}

/* Whether an extent of the lane could be emptied, as far as is known. */
static bool may_empty(const struct store *store, uint32_t extent)
{
    const struct extent *at = &store->config.extents->extents[extent];

    if (store->reserve_open && store->writing > 0 &&
        store->extents[extent].live_bytes > store->extents[extent].backed_bytes) {
        return false; /* what is being written comes first */
    }
    return at->present && !at->lost && store->extents[extent].obstacles == 0 &&
           store->extents[extent].shun_us <= store->now_us;
}

/* What emptying an extent costs: with the reserve in use, what must be written. */
static uint64_t cost_of(const struct room *room, uint32_t extent)
{
    const struct store_extent *at = &room->store->extents[extent];

    return at->live_bytes - (room->last ? at->backed_bytes : 0);
}

/* The run of `count` adjacent extents of an owner in which the least lives. */
static bool find_run(const struct room *room, uint32_t count, uint32_t *first, uint64_t *cost)
{
    const struct store *store = room->store;
    uint64_t sum = 0, least = UINT64_MAX;
    uint32_t length = 0;

    for (uint32_t e = store_extents_first(store); e < store_extents_end(store); e++) {
        if (owner_of(store, e) != room->owner || !may_empty(store, e)) {
            length = 0;
            sum = 0;
            continue;
        }
        sum += cost_of(room, e);
        if (++length > count) {
            sum -= cost_of(room, e - count);
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

/* The extent of the pool's other heaps in which the least lives, but something does. */
static bool find_other(const struct store *store, const struct room *room, uint32_t *extent,
                       uint64_t *cost)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t e = store_extents_first(store); e < store_extents_end(store); e++) {
        uint64_t owner = owner_of(store, e);

        if ((room->last ? owner != EXTENT_NO_OWNER
                        : owner >> 32 == (uint64_t)room->from->config.pool + 1) &&
            owner != room->owner && may_empty(store, e) && store->extents[e].live_bytes > 0 &&
            cost_of(room, e) < least) {
            least = cost_of(room, e);
            *extent = e;
        }
    }
    *cost = least;
    return least != UINT64_MAX;
}

/* The same among the heap's own. */
static bool find_own(const struct store *store, const struct room *room, uint32_t *extent,
                     uint64_t *cost)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t e = store_extents_first(store); e < store_extents_end(store); e++) {
        if (owner_of(store, e) == room->owner && may_empty(store, e) &&
            store->extents[e].live_bytes > 0 && cost_of(room, e) < least) {
            least = cost_of(room, e);
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

static uint64_t extent_share(const struct store *store, uint32_t share)
{
    return store->config.extents->extent_bytes / share;
}

/* Empties a run of the heap's own, and takes what comes of it. */
static void empty_run(struct room *room, uint32_t first, uint32_t count, uint32_t *block,
                      nigh_status *status)
{
    struct store *store = room->store;

    for (uint32_t e = first; e < first + count && empty_extent(room, e); e++) {
    }
    /* Even if something pinned stayed, a hole around it may do. */
    *status = store_block_take(store, room->heap, room->bytes, block);
    if (*status != NIGH_OK) {
        store->extents[first].shun_us = max_u64(store->extents[first].shun_us, store->now_us + 1);
    }
}

/*
 * One attempt. Memory that is free, or in wholly free extents, whoever has them, is brought
 * together. If that is not enough, what is missing of it is emptied, an extent at a time, where the
 * least lives: so no more than that has to go. A run of the heap's own may cost a little more: no
 * memory has to move then. False: there is nothing to try.
 */
static bool empty_cheapest(struct room *room, uint32_t count, uint32_t *block, nigh_status *status)
{
    struct store *store = room->store;
    uint32_t spare = heaps_spare_extents(store->heaps);
    uint32_t missing = spare < count ? count - spare : 0;
    uint64_t moving = room->from == room->pool ? extent_share(store, STORE_MOVING_SHARE) : 0;
    uint64_t run_cost, other_cost, own_cost;
    uint32_t first = 0, least = 0, own_least = 0;
    bool run, others, own;

    *status = NIGH_OUT_OF_MEMORY;
    if (bring_together(store, room->heap, room->bytes)) {
        *status = store_block_take(store, room->heap, room->bytes, block);
        return *status == NIGH_OK;
    }
    /* With enough of it, emptying more would not help either: it is numbers that are missing. */
    others = missing > 0 && find_other(store, room, &least, &other_cost);
    /* Who is to take from another pool, and finds none to empty, asks the policy before it empties
     * what is its own. */
    own = others || room->from == room->pool;
    run = own && find_run(room, count, &first, &run_cost);
    own = own && missing > 0 && find_own(store, room, &own_least, &own_cost);
    if (own && (!others || own_cost < other_cost)) {
        least = own_least;
        other_cost = own_cost;
    }
    others |= own;
    if (run && (!others || run_cost <= (other_cost + moving) * missing)) {
        empty_run(room, first, count, block, status);
        return true;
    }
    if (others) {
        (void)empty_extent(room, least);
    }
    return others;
}

static nigh_status room_by_extents(struct room *room, uint32_t *block)
{
    struct store *store = room->store;
    uint64_t extent_bytes = store->config.extents->extent_bytes;
    uint32_t count = (uint32_t)((room->bytes + extent_bytes - 1) / extent_bytes);
    nigh_status status = NIGH_OUT_OF_MEMORY;

    for (uint32_t tries = 0; tries < LIMIT_CLEAR_TRIES + count && store->rounds > 0; tries++) {
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
    if (find_run(&room, 1, &extent, &cost) && cost > 0 && store_is_spare_extent(store, extent)) {
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
    uint64_t goal = max_u64(2 * room->bytes, extent_share(room->store, STORE_SCATTER_SHARE));
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

/*
 * For a read back that finds no other way: what has a file goes first; what has none is written to
 * the room that puts have left, no more of it at a time than one extent's.
 */
static nigh_status room_by_reserve(struct room *room, uint32_t *block)
{
    struct store *store = room->store;
    nigh_status status;

    room->last = true;
    store->reserve_open = true;
    status = room_by_extents(room, block);
    store->reserve_open = false;
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
    bool may_take;

    store->ahead_us = 0;
    may_take = store_reserve_lets_take(store, bytes);
    if (!may_take && pool->copies.count == 0) {
        return NIGH_OUT_OF_MEMORY; /* what is on disk as well would leave in vain */
    }
    /* While there is memory, nobody's objects go for want of it here. What is small and finds
     * little evicts its like rather than have an extent change hands each time. */
    if (may_take && (large || store_free_bytes(store) > store->high_bytes) &&
        bring_together(store, heap, bytes)) {
        return store_block_take(store, heap, bytes, block);
    }
    if (store->now_us < store->heap_barren_us[heap]) {
        return NIGH_OUT_OF_MEMORY;
    }
    if ((large || bytes >= STORE_FIT_BYTES) && !store_may_fit(store, heap, owner, bytes)) {
        return NIGH_OUT_OF_MEMORY; /* smaller ones of this heap may have better luck */
    }
    if (store->reading_back && !store_reserve_has_more(store)) {
        status = room_by_reserve(&room, block);
    } else {
        status = large ? room_for_large(&room, block) : room_for_small(&room, block);
    }
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
        store->reserve_open = store->reading_back;
        store_evict_round(
            store, pool, store->reading_back ? bytes : quota_batch(bytes, pool->config.quota_bytes),
            EXTENT_NO_OWNER, &evicted);
        store->reserve_open = false;
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
