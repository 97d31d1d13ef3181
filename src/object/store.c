/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of one lane: its making, its pools, how a submission comes to its operation, and the
 * parts of a turn. What each operation does is in the file of its noun.
 */
#include "object/store.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "object/store_claim.h"
#include "object/store_delete.h"
#include "object/store_evict.h"
#include "object/store_figures.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_reserve.h"
#include "object/store_seal.h"
#include "object/store_session.h"
#include "object/store_spill.h"
#include "object/store_wait.h"

#define LOG_MODULE "store"
#include "base/log.h"

/* ---- making ---- */

static uint64_t lane_memory(const struct store_config *config)
{
    const struct extent_set *set = config->extents;
    uint32_t first = extent_lane_first(set, config->lane);
    uint64_t bytes = 0;

    for (uint32_t i = first; i < first + set->lane[config->lane].used; i++) {
        bytes += set->extents[i].present ? set->extent_bytes : 0;
    }
    return bytes;
}

static bool config_is_valid(const struct store_config *config)
{
    return config->extents != NULL && is_pow2(config->lanes) && config->lanes <= LIMIT_LANES &&
           config->lane < config->lanes && config->max_lane_pins <= LIMIT_LANE_PINS &&
           config->wall_ns != NULL && config->shell.complete != NULL &&
           config->shell.event != NULL && config->max_blocks > 0 &&
           (config->shell.disk == NULL || config->shell.disk_forget != NULL);
}

nigh_status store_create(const struct store_config *config, struct store **store)
{
    struct heaps_config heaps = {
        .extents = config->extents, .lane = config->lane, .max_blocks = config->max_blocks};
    struct store *made;
    nigh_status status = NIGH_NO_RESOURCES;

    if (!config_is_valid(config)) {
        return NIGH_INVALID;
    }
    made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return NIGH_NO_RESOURCES;
    }
    made->config = *config;
    made->extents = calloc(LIMIT_EXTENTS, sizeof(*made->extents));
    made->held = calloc(STORE_SESSION_PINS, sizeof(*made->held));
    if (made->extents == NULL || made->held == NULL) {
        goto free_arrays;
    }
    status = store_wait_init(made);
    if (status != NIGH_OK) {
        goto free_arrays;
    }
    status = pin_scan_init(&made->scan, LIMIT_TURN_GRAVES);
    if (status != NIGH_OK) {
        goto fini_wait;
    }
    status = heaps_create(&heaps, &made->heaps);
    if (status != NIGH_OK) {
        goto fini_scan;
    }
    made->memory_bytes = lane_memory(config);
    made->scattered_heap = STORE_NONE;
    made->disk_bytes = UINT64_MAX;
    made->low_bytes = made->memory_bytes / STORE_LOW_SHARE;
    made->high_bytes = made->memory_bytes / STORE_HIGH_SHARE;
    *store = made;
    return NIGH_OK;

fini_scan:
    pin_scan_fini(&made->scan);
fini_wait:
    store_wait_fini(made);
free_arrays:
    free(made->held);
    free(made->extents);
    free(made);
    return status;
}

static void pool_free(struct store_pool *pool)
{
    index_writer_fini(&pool->writer);
    free(pool->tables);
    free(pool->evict_storage);
    free(pool->records);
    free(pool);
}

void store_destroy(struct store *store)
{
    if (store == NULL) {
        return;
    }
    for (uint32_t i = 0; i < LIMIT_SESSIONS; i++) {
        free(store->sessions[i]);
    }
    for (uint32_t i = 0; i < LIMIT_POOLS; i++) {
        if (store->pools[i] != NULL) {
            pool_free(store->pools[i]);
        }
    }
    heaps_destroy(store->heaps);
    pin_scan_fini(&store->scan);
    store_wait_fini(store);
    free(store->held);
    free(store->heat);
    free(store->extents);
    free(store);
}

/* ---- pools ---- */

static nigh_status pool_make(const struct store *store, const struct store_pool_config *config,
                             struct store_pool **pool)
{
    uint32_t entries = config->index.entry_count;
    size_t policy_bytes = align_up_u64(evict_storage_bytes(entries), CACHE_LINE);
    struct store_pool *made = calloc(1, sizeof(*made));
    nigh_status status = NIGH_NO_RESOURCES;

    if (made == NULL) {
        return status;
    }
    made->config = *config;
    made->node_heap = STORE_NONE;
    list_init(&made->sessions);
    list_init(&made->subscribers);
    made->records = calloc(entries, sizeof(*made->records));
    made->evict_storage = aligned_alloc(CACHE_LINE, policy_bytes);
    made->tables = calloc(LIMIT_SESSIONS, sizeof(*made->tables));
    if (made->records == NULL || made->evict_storage == NULL || made->tables == NULL) {
        goto free_pool;
    }
    made->policy_bytes = store_policy_bytes(store, made);
    status = evict_init(&made->evict, entries, made->policy_bytes, made->evict_storage);
    if (status != NIGH_OK) {
        goto free_pool;
    }
    status = index_writer_init(&made->writer, &config->index);
    if (status != NIGH_OK) {
        goto free_pool;
    }
    *pool = made;
    return NIGH_OK;

free_pool:
    pool_free(made);
    return status;
}

nigh_status store_pool_begin(struct store *store, const struct store_pool_config *config,
                             struct store_pool **pool)
{
    nigh_status status;

    if (config->pool >= LIMIT_POOLS || config->index.header == NULL ||
        config->index.lane != store->config.lane) {
        return NIGH_INVALID;
    }
    if (store->pools[config->pool] != NULL) {
        return NIGH_EXISTS;
    }
    status = pool_make(store, config, pool);
    if (status == NIGH_OK) {
        store->pools[config->pool] = *pool;
        store->pool_count++;
    }
    return status;
}

void store_pool_end(struct store *store, struct store_pool *pool)
{
    store->pools[pool->config.pool] = NULL;
    store->pool_count--;
    pool_free(pool);
}

nigh_status store_pool_add(struct store *store, const struct store_pool_config *config)
{
    struct store_pool *pool;

    return store_pool_begin(store, config, &pool);
}

/* ---- submissions ---- */

/* What a submission may hold, and what it needs, before its operation looks at it. */
struct operation_rule {
    store_operation *run;
    uint8_t flags; /* SESSION_FLAG_* allowed */
    bool id;       /* it has an id, of a shard of this lane */
    bool write;    /* the session must be allowed to write */
};

static nigh_status store_nop(struct store_call *call)
{
    (void)call;
    return NIGH_OK;
}

/* The lane's own, who knows of other nodes. */
static nigh_status store_not_mine(struct store_call *call)
{
    (void)call;
    return NIGH_UNSUPPORTED;
}

#define CREATE_FLAGS (SESSION_FLAG_EXCLUSIVE | SESSION_FLAG_NO_EVICT)
#define SEAL_FLAGS   (SESSION_FLAG_LEASED | SESSION_FLAG_NO_EVICT | SESSION_FLAG_RENEW)
#define CALL_FLAGS   (SESSION_FLAG_ONE_WAY | SESSION_FLAG_IDEMPOTENT | SESSION_FLAG_URGENT)

static const struct operation_rule operation_rules[SESSION_OPS] = {
    [SESSION_OP_NOP] = {store_nop, 0, false, false},
    [SESSION_OP_LEASE] = {store_lease, SESSION_FLAG_NO_EVICT, false, true},
    [SESSION_OP_LEASE_CLOSE] = {store_lease_close, 0, false, false},
    [SESSION_OP_CREATE] = {store_create_object, CREATE_FLAGS, true, true},
    [SESSION_OP_SEAL] = {store_seal, SEAL_FLAGS, false, true},
    [SESSION_OP_ABORT] = {store_abort, 0, false, false},
    [SESSION_OP_GET] = {store_get, SESSION_FLAG_NO_COPY, true, false},
    [SESSION_OP_CANCEL] = {store_cancel, 0, false, false},
    [SESSION_OP_DELETE] = {store_delete, 0, true, true},
    [SESSION_OP_EVICT] = {store_evict, 0, false, true},
    [SESSION_OP_REFRESH] = {store_refresh, 0, true, false},
    [SESSION_OP_KEEP] = {store_keep, 0, true, true},
    [SESSION_OP_UNKEEP] = {store_unkeep, 0, true, true},
    [SESSION_OP_CHECKSUM] = {store_checksum, 0, true, false},
    [SESSION_OP_STAT] = {store_stat, 0, true, false},
    [SESSION_OP_WHO] = {store_who, 0, true, false},
    [SESSION_OP_HOLDERS] = {store_holders, 0, false, false},
    [SESSION_OP_STATS] = {store_stats_reply, 0, false, false},
    [SESSION_OP_SUBSCRIBE] = {store_subscribe, 0, false, false},
    [SESSION_OP_UNSUBSCRIBE] = {store_unsubscribe, 0, false, false},
    [SESSION_OP_QUOTA] = {store_quota, 0, false, false},
    [SESSION_OP_CONTAINS] = {store_contains, 0, true, false},
    [SESSION_OP_RESERVE] = {store_reserve, 0, false, true},
    [SESSION_OP_NODES] = {store_not_mine, 0, false, false},
    [SESSION_OP_WHERE] = {store_not_mine, 0, true, false},
    [SESSION_OP_REPLICATE] = {store_not_mine, 0, true, true},
    [SESSION_OP_CALL_LEASE] = {store_lease, SESSION_FLAG_NO_EVICT, false, true},
    [SESSION_OP_CALL] = {store_not_mine, CALL_FLAGS, false, false},
    [SESSION_OP_REPLY] = {store_not_mine, 0, false, false},
    [SESSION_OP_SERVICE_OPEN] = {store_not_mine, 0, false, false},
    [SESSION_OP_SERVICE_CLOSE] = {store_not_mine, 0, false, false},
    [SESSION_OP_RECEIVE] = {store_not_mine, SESSION_FLAG_ANSWER, false, false},
    [SESSION_OP_LINKS] = {store_not_mine, SESSION_FLAG_MEASURE, false, false},
    [SESSION_OP_BULK] = {store_not_mine, SESSION_FLAG_PUSH, false, false},
    [SESSION_OP_COLLECT] = {store_not_mine, 0, false, false},
    [SESSION_OP_BULK_MAKE] = {store_not_mine, 0, false, false},
    [SESSION_OP_BULK_WAIT] = {store_not_mine, SESSION_FLAG_END, false, false},
    [SESSION_OP_LEAVE] = {store_not_mine, 0, false, false},
    [SESSION_OP_FORGET] = {store_not_mine, 0, false, false},
    [SESSION_OP_REGION] = {store_not_mine, 0, false, false},
    [SESSION_OP_SPACE] = {store_not_mine, 0, false, false},
    [SESSION_OP_SHOW] = {store_not_mine, 0, false, false},
};

/* Told at most once a while: what is full stays so for everybody who comes. */
static void index_was_full(struct store *store, const struct store_pool *pool)
{
    store->counts.index_full++;
    if (store->now_us >= store->index_told_us) {
        store->index_told_us = store->now_us + LIMIT_FULL_TOLD_US;
        LOG_WARN("an index is full; objects on disk count",
                 "pool=%u entries=%u spilled=%llu do=\"raise --max-objects, or delete some\"",
                 pool->config.pool, pool->writer.index.entry_count,
                 (unsigned long long)pool->objects_spilled);
    }
}

void store_complete(struct store *store, const struct store_session *session,
                    struct session_cqe *cqe, nigh_status status)
{
    NIGH_ASSERT(status <= NIGH_OK && status >= NIGH_STATUS_LOWEST && status != NIGH_PENDING);
    if (status != NIGH_OK) {
        *cqe = (struct session_cqe){.cookie = cqe->cookie, .pin = SESSION_NO_PIN};
    }
    if (status == NIGH_LIMIT &&
        session->pool->writer.taken == session->pool->writer.index.entry_count) {
        index_was_full(store, session->pool);
        cqe->flags = SESSION_CQE_INDEX_FULL;
    }
    cqe->status = status;
    store->config.shell.complete(store->config.shell.context, session->config.session, cqe);
}

bool store_take_id(struct store_call *call)
{
    call->hash = hash_id20(call->sqe->id);
    /* An id in a foreign lane would be an object that nobody's look-up finds. */
    return index_hash_lane(call->hash, call->store->config.lanes) == call->store->config.lane;
}

nigh_status store_carry_out(struct store_call *call)
{
    const struct session_sqe *sqe = call->sqe;
    const struct operation_rule *rule;

    call->cqe = (struct session_cqe){.cookie = sqe->cookie, .pin = SESSION_NO_PIN};
    call->heap = STORE_NONE;
    call->entry = STORE_NONE;
    call->local = NIGH_OK;
    call->wants = false;
    call->behind = false;
    if (sqe->op >= SESSION_OPS) {
        return NIGH_UNSUPPORTED;
    }
    rule = &operation_rules[sqe->op];
    if ((sqe->flags & ~rule->flags) != 0) {
        return NIGH_INVALID;
    }
    if (rule->write && !call->session->config.may_write) {
        return NIGH_DENIED;
    }
    if (rule->id && !store_take_id(call)) {
        return NIGH_INVALID;
    }
    return rule->run(call);
}

/* How long a submission may wait: some operations say, the others end by themselves. */
static uint64_t submission_deadline(const struct session_sqe *sqe, uint64_t now_us)
{
    switch (sqe->op) {
    case SESSION_OP_CREATE:
    case SESSION_OP_GET: return clock_deadline_us(now_us, sqe->argument);
    case SESSION_OP_SEAL:
        return clock_deadline_us(now_us, (sqe->flags & SESSION_FLAG_RENEW) != 0
                                             ? session_renew_timeout_us(sqe->argument)
                                             : sqe->argument);
    default: return UINT64_MAX;
    }
}

void store_submit(struct store *store, uint32_t session, const struct session_sqe *sqe,
                  uint64_t now_us)
{
    struct store_call call;
    nigh_status status;

    NIGH_ASSERT(session < LIMIT_SESSIONS && store->sessions[session] != NULL);
    store->now_us = now_us;
    store->rounds = LIMIT_EVICT_ROUNDS;
    if (unlikely(store->adopting)) {
        store_adopt_finish(store);
    }
    call.store = store;
    call.session = store->sessions[session];
    call.pool = call.session->pool;
    call.sqe = sqe;
    call.waiter = NULL;
    call.hash = 0;
    call.deadline_us = submission_deadline(sqe, now_us);
    call.wait = STORE_WAIT_NONE;
    call.bytes = 0;
    call.block = HEAP_NO_BLOCK;
    call.spent = 0;
    call.late = NIGH_TIMEOUT;
    status = store_carry_out(&call);
    if (unlikely(status == NIGH_PENDING)) {
        status = store_park(&call);
        if (status != NIGH_PENDING) {
            store_seal_failed(&call);
        }
    }
    if (status != NIGH_PENDING) {
        store_complete(store, call.session, &call.cqe, status);
    }
}

/* ---- turns ---- */

/* Pieces of long operations, by turns: a few that evict, or one that reads or copies bytes. */
static void work_on(struct store *store)
{
    struct list_node *first = NULL;

    for (uint32_t n = 0; n < STORE_TURN_WORKS && list_first(&store->works) != first; n++) {
        struct store_waiter *waiter =
            container_of(list_first(&store->works), struct store_waiter, place);
        uint32_t waiting = store->waiting;
        bool heavy = waiter->sqe.op != SESSION_OP_EVICT;

        if (waiter->sqe.op == SESSION_OP_CHECKSUM) {
            store_checksum_more(store, waiter);
        } else if (waiter->sqe.op == SESSION_OP_SEAL) {
            store_copy_more(store, waiter);
        } else {
            store_evict_more(store, waiter);
        }
        if (store->waiting == waiting) {
            first = first != NULL ? first : &waiter->place;
            list_remove(&waiter->place);
            list_push_back(&store->works, &waiter->place);
        }
        if (heavy) {
            return;
        }
    }
}

uint64_t store_tick(struct store *store, uint64_t now_us)
{
    uint64_t next;

    store->now_us = now_us;
    store->rounds = LIMIT_EVICT_ROUNDS;
    if (store->adopting) {
        store_adopt_finish(store);
    }
    store_expire_waits(store);
    store_spill_settle(store);
    store_visit_graves(store);
    store_ask_again(store); /* a seal whose claim stands may wait for memory next */
    store_serve_queue(store);
    store->pins_changed = false;
    work_on(store);
    store_evict_ahead(store);
    store_gather(store);
    store_replay(store);

    next = timers_first_deadline(&store->timers);
    if (!list_empty(&store->memory_queue)) {
        next = min_u64(next, store->memory_freed ? now_us : store->retry_us);
    }
    if (!list_empty(&store->claims)) {
        next = min_u64(next, store->claim_us);
    }
    if (store->graves > 0) {
        next = min_u64(next, store->grave_us);
    }
    if (!list_empty(&store->deletes) || !list_empty(&store->works) || store->gathering) {
        next = now_us;
    }
    if (store_evict_is_due(store)) {
        next = min_u64(next, max_u64(store->ahead_us, now_us));
    }
    if (store->replays > 0) {
        next = min_u64(next, store->replay_us);
    }
    return next;
}

bool store_wants_turn(const struct store *store)
{
    return !list_empty(&store->deletes) || !list_empty(&store->works) || store->written_count > 0 ||
           ((store->memory_freed || store->pins_changed) && !list_empty(&store->memory_queue)) ||
           (store->pins_changed && store->graves > 0) ||
           (store_evict_is_due(store) && store->now_us >= store->ahead_us);
}

/* ---- numbers ---- */

static void add_pools(const struct store *store, nigh_node_stats *stats)
{
    for (uint32_t i = 0; i < LIMIT_POOLS; i++) {
        const struct store_pool *pool = store->pools[i];

        if (pool == NULL) {
            continue;
        }
        stats->objects += pool->objects;
        stats->objects_unsealed += pool->objects_unsealed;
        stats->objects_spilled += pool->objects_spilled;
        stats->objects_deleting += pool->objects_deleting;
        stats->pinned_bytes += pool->kept_bytes;
        stats->index_entries += pool->writer.index.entry_count;
        stats->index_used += pool->writer.taken;
        stats->index_bytes += pool->writer.index.header->size_bytes;
    }
}

void store_stats(const struct store *store, nigh_node_stats *stats)
{
#define ADD_COUNT(name, text) stats->name += store->counts.name;
    NIGH_NODE_STATS_TABLE(ADD_COUNT)
#undef ADD_COUNT
    add_pools(store, stats);
    stats->memory_bytes += store->memory_bytes;
    stats->used_bytes += store->used_bytes;
    stats->leased_bytes += store->leased_bytes;
    stats->unsealed_bytes += store->unsealed_bytes;
    stats->spilled_bytes += store->spilled_bytes;
    store_reserve_stats(store, stats);
    stats->waiting += store->waiting;
}
