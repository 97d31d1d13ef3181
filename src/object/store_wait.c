/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submissions that wait: for a seal, for memory, for a look at the pins, for other nodes, or
 * because their work takes several turns. One record of a bounded pool each; what waits is carried
 * out again from its submission, so it trusts nothing that it saw before.
 */
#include "base/check.h"
#include "object/store_claim.h"
#include "object/store_create.h"
#include "object/store_figures.h"
#include "object/store_internal.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_remote.h"
#include "object/store_seal.h"
#include "object/store_session.h"
#include "object/store_wait.h"

#include <stdlib.h>

nigh_status store_wait_init(struct store *store)
{
    store->waiters = calloc(LIMIT_WAITS_A_LANE, sizeof(*store->waiters));
    store->buckets = calloc(STORE_WAIT_BUCKETS, sizeof(*store->buckets));
    store->timer_storage = calloc(LIMIT_WAITS_A_LANE, sizeof(struct timer *));
    if (store->waiters == NULL || store->buckets == NULL || store->timer_storage == NULL) {
        store_wait_fini(store);
        return NIGH_NO_RESOURCES;
    }
    for (uint32_t i = 0; i < STORE_WAIT_BUCKETS; i++) {
        list_init(&store->buckets[i]);
    }
    list_init(&store->free_waiters);
    list_init(&store->memory_queue);
    list_init(&store->deletes);
    list_init(&store->claims);
    list_init(&store->works);
    timers_init(&store->timers, store->timer_storage, LIMIT_WAITS_A_LANE);
    return NIGH_OK;
}

void store_wait_fini(struct store *store)
{
    free(store->waiters);
    free(store->buckets);
    free(store->timer_storage);
    store->waiters = NULL;
    store->buckets = NULL;
    store->timer_storage = NULL;
}

bool store_may_wait(const struct store *store)
{
    return store->waiting < LIMIT_WAITS_A_LANE;
}

/* Records come from those used before, else from the part of the pool that was never touched. */
static struct store_waiter *waiter_take(struct store *store)
{
    struct list_node *node = list_pop_front(&store->free_waiters);

    store->waiting++;
    if (node != NULL) {
        return container_of(node, struct store_waiter, place);
    }
    NIGH_ASSERT(store->waiters_used < LIMIT_WAITS_A_LANE);
    return &store->waiters[store->waiters_used++];
}

static void waiter_give(struct store *store, struct store_waiter *waiter)
{
    timers_cancel(&store->timers, &waiter->timer);
    list_remove(&waiter->session_place);
    list_push_front(&store->free_waiters, &waiter->place);
    store->waiting--;
}

struct list *store_bucket_of(struct store *store, uint64_t hash)
{
    return &store->buckets[(hash >> 20) % STORE_WAIT_BUCKETS];
}

/*
 * The least that anyone wants of a heap, after someone left the queue. In a long queue it is left
 * as it was, which only makes newcomers wait for the next turn of the queue, where it is found.
 */
static void find_least(struct store *store, uint32_t heap)
{
    uint64_t least = UINT64_MAX;

    if (store->heap_waiting[heap] > STORE_SHORT_QUEUE) {
        return;
    }
    if (store->heap_waiting[heap] > 0) {
        uint32_t looks = 0;

        LIST_FOREACH(node, &store->memory_queue)
        {
            struct store_waiter *waiter = container_of(node, struct store_waiter, place);

            if (looks++ > STORE_SHORT_QUEUE) {
                return;
            }
            if (waiter->heap == heap && waiter->bytes < least) {
                least = waiter->bytes;
            }
        }
    }
    store->heap_least[heap] = least;
}

static void wait_begin(struct store *store, struct store_waiter *waiter)
{
    switch (waiter->wait) {
    case STORE_WAIT_ID:
        list_push_back(store_bucket_of(store, waiter->hash), &waiter->place);
        store->waiting_for_id++;
        break;
    case STORE_WAIT_ERASE:
        list_push_back(store_bucket_of(store, waiter->hash), &waiter->place);
        store->erases_due += waiter->behind ? 1 : 0;
        break;
    case STORE_WAIT_MEMORY:
        list_push_back(&store->memory_queue, &waiter->place);
        if (waiter->heap != STORE_NONE) {
            store->heap_waiting[waiter->heap]++;
            if (store->heap_waiting[waiter->heap] == 1 ||
                waiter->bytes < store->heap_least[waiter->heap]) {
                store->heap_least[waiter->heap] = waiter->bytes;
            }
        }
        break;
    case STORE_WAIT_PINS:
        list_push_back(&store->deletes, &waiter->place);
        store->erases_due++;
        break;
    case STORE_WAIT_WORK: list_push_back(&store->works, &waiter->place); break;
    case STORE_WAIT_CLAIM: list_push_back(&store->claims, &waiter->place); break;
    case STORE_WAIT_NONE: NIGH_ASSERT(waiter->wait != STORE_WAIT_NONE); break;
    }
}

static void wait_leave(struct store *store, struct store_waiter *waiter)
{
    list_remove(&waiter->place);
    if (waiter->wait == STORE_WAIT_ID) {
        store->waiting_for_id--;
    } else if (waiter->wait == STORE_WAIT_PINS ||
               (waiter->wait == STORE_WAIT_ERASE && waiter->behind)) {
        store->erases_due--;
    } else if (waiter->wait == STORE_WAIT_MEMORY && waiter->heap != STORE_NONE) {
        store->heap_waiting[waiter->heap]--;
        if (waiter->bytes <= store->heap_least[waiter->heap]) {
            find_least(store, waiter->heap);
        }
    }
}

static void waiter_set(struct store_waiter *waiter, const struct store_call *call)
{
    waiter->wait = call->wait;
    waiter->hash = call->hash;
    waiter->heap = call->heap;
    waiter->bytes = call->bytes;
    waiter->entry = call->entry;
    waiter->block = call->block;
    waiter->late = call->late;
    waiter->local = call->local;
    waiter->behind = call->behind;
    waiter->busy = false;
}

/* Waits that a deadline ends. */
static bool has_deadline(const struct store_waiter *waiter)
{
    return waiter->deadline_us != UINT64_MAX &&
           (waiter->wait == STORE_WAIT_ID || waiter->wait == STORE_WAIT_MEMORY ||
            waiter->wait == STORE_WAIT_CLAIM);
}

static void set_timer(struct store *store, struct store_waiter *waiter)
{
    timers_cancel(&store->timers, &waiter->timer);
    if (has_deadline(waiter)) {
        nigh_status status = timers_add(&store->timers, &waiter->timer, waiter->deadline_us);

        NIGH_ASSERT(status == NIGH_OK); /* there is room for a timer for each of the pool */
    }
}

nigh_status store_park(struct store_call *call)
{
    struct store *store = call->store;
    struct store_waiter *waiter;

    if (call->deadline_us <= store->now_us &&
        (call->wait == STORE_WAIT_ID || call->wait == STORE_WAIT_MEMORY)) {
        if (call->late == NIGH_OUT_OF_MEMORY) {
            store_judge(store, call->pool);
        }
        return call->late;
    }
    if (!store_may_wait(store)) {
        return NIGH_LIMIT;
    }
    waiter = waiter_take(store);
    waiter_set(waiter, call);
    waiter->session = call->session->config.session;
    waiter->sqe = *call->sqe;
    waiter->deadline_us = call->deadline_us;
    waiter->done_bytes = 0;
    waiter->crc = 0;
    waiter->barren = 0;
    waiter->spent = call->spent;
    waiter->wants = call->wants;
    list_push_back(&call->session->waiters, &waiter->session_place);
    wait_begin(store, waiter);
    store_want(store, waiter);
    set_timer(store, waiter);
    return NIGH_PENDING;
}

void store_end_wait(struct store *store, struct store_waiter *waiter, nigh_status status,
                    const struct session_cqe *cqe)
{
    struct session_cqe end = {.pin = SESSION_NO_PIN};
    uint32_t session = waiter->session;

    if (cqe != NULL) {
        end = *cqe;
    }
    end.cookie = waiter->sqe.cookie;
    wait_leave(store, waiter);
    waiter_give(store, waiter);
    store_complete(store, store->sessions[session], &end, status);
}

void store_try_again(struct store *store, struct store_waiter *waiter)
{
    struct session_sqe sqe = waiter->sqe;
    struct store_call call = {
        .store = store,
        .session = store->sessions[waiter->session],
        .pool = store->sessions[waiter->session]->pool,
        .sqe = &sqe,
        .waiter = waiter,
        .deadline_us = waiter->deadline_us,
        .spent = waiter->spent,
    };
    nigh_status status = store_carry_out(&call);

    if (status != NIGH_PENDING) {
        store_end_wait(store, waiter, status, &call.cqe);
        return;
    }
    /* Who goes on waiting for the same keeps the place in the queue. */
    if (call.wait != waiter->wait || call.heap != waiter->heap || call.bytes != waiter->bytes) {
        wait_leave(store, waiter);
        waiter_set(waiter, &call);
        wait_begin(store, waiter);
        if (waiter->wait == STORE_WAIT_CLAIM) {
            waiter->deadline_us = call.deadline_us; /* it has time to be answered */
        }
        set_timer(store, waiter); /* or it ends by itself */
    }
    waiter->late = call.late;
    waiter->spent = call.spent;
    waiter->wants = call.wants;
    store_want(store, waiter);
}

void store_wait_erase(struct store *store, struct store_waiter *waiter, nigh_status local,
                      bool behind)
{
    wait_leave(store, waiter);
    waiter->wait = STORE_WAIT_ERASE;
    waiter->local = local;
    waiter->behind = behind;
    wait_begin(store, waiter);
}

/* ---- by id ---- */

bool store_waits_for(const struct store *store, const struct store_waiter *waiter,
                     const struct store_pool *pool, const uint8_t *id, uint64_t hash)
{
    return waiter->hash == hash && store->sessions[waiter->session]->pool == pool &&
           memcmp(waiter->sqe.id, id, LIMIT_ID_BYTES) == 0;
}

void store_wake_id(struct store *store, struct store_pool *pool, const uint8_t *id, uint64_t hash)
{
    if (store->waiting_for_id == 0) {
        return;
    }
    LIST_FOREACH_SAFE(node, store_bucket_of(store, hash))
    {
        struct store_waiter *waiter = container_of(node, struct store_waiter, place);

        if (waiter->wait == STORE_WAIT_ID && store_waits_for(store, waiter, pool, id, hash)) {
            store_try_again(store, waiter);
        }
    }
}

void store_fail_id(struct store *store, struct store_pool *pool, const uint8_t *id, uint64_t hash,
                   nigh_status status)
{
    LIST_FOREACH_SAFE(node, store_bucket_of(store, hash))
    {
        struct store_waiter *waiter = container_of(node, struct store_waiter, place);

        if (waiter->sqe.op == SESSION_OP_GET && store_waits_for(store, waiter, pool, id, hash)) {
            store_end_wait(store, waiter, status, NULL);
        }
    }
}

/* ---- the end of waits ---- */

/* A seal that waited in vain leaves nothing: its client has used the writer up, and could not end
 * the object, nor its claim. */
static void fail_seal(struct store *store, struct store_waiter *waiter)
{
    struct store_session *session = store->sessions[waiter->session];

    store_seal_failed(&(struct store_call){
        .store = store, .session = session, .pool = session->pool, .sqe = &waiter->sqe});
}

/* What a waiter holds on to besides its place. */
static void release_work(struct store *store, struct store_waiter *waiter)
{
    struct store_pool *pool = store->sessions[waiter->session]->pool;

    if (waiter->wait == STORE_WAIT_WORK && waiter->sqe.op == SESSION_OP_CHECKSUM) {
        store_reader_leave(store, pool, waiter->entry);
    } else if (waiter->wait == STORE_WAIT_WORK && waiter->sqe.op == SESSION_OP_SEAL) {
        store_copy_stop(store, waiter);
        store_block_give(store, waiter->block);
    } else if (waiter->wait == STORE_WAIT_CLAIM && waiter->sqe.op == SESSION_OP_CREATE) {
        store_discard(store, pool, waiter->entry);
    } else if (waiter->wait == STORE_WAIT_PINS || waiter->wait == STORE_WAIT_CLAIM) {
        pool->records[waiter->entry].flags &= (uint8_t)~RECORD_ASKED;
    }
    store_unerase(store, waiter);
    store_unwant(store, waiter);
}

nigh_status store_cancel(struct store_call *call)
{
    LIST_FOREACH(node, &call->session->waiters)
    {
        struct store_waiter *waiter = container_of(node, struct store_waiter, session_place);

        /* A delete has happened already; only its answer is under way. */
        if (waiter->sqe.cookie == (uint32_t)call->sqe->argument &&
            waiter->wait != STORE_WAIT_PINS && waiter->wait != STORE_WAIT_ERASE) {
            release_work(call->store, waiter);
            fail_seal(call->store, waiter);
            store_end_wait(call->store, waiter, NIGH_CANCELED, NULL);
            return NIGH_OK;
        }
    }
    return NIGH_NOT_FOUND;
}

void store_forget_waits(struct store *store, struct store_session *session)
{
    struct list_node *node;

    while ((node = list_first(&session->waiters)) != NULL) {
        struct store_waiter *waiter = container_of(node, struct store_waiter, session_place);

        release_work(store, waiter);
        wait_leave(store, waiter);
        waiter_give(store, waiter);
    }
}

void store_expire_waits(struct store *store)
{
    for (uint32_t n = 0; n < LIMIT_TURN_TIMERS; n++) {
        struct timer *timer = timers_pop_expired(&store->timers, store->now_us);
        struct store_waiter *waiter;

        if (timer == NULL) {
            return;
        }
        waiter = container_of(timer, struct store_waiter, timer);
        if (waiter->late == NIGH_OUT_OF_MEMORY) {
            store_judge(store, store->sessions[waiter->session]->pool);
        }
        if (waiter->wait == STORE_WAIT_CLAIM) {
            store_end_claim(store, waiter, waiter->late);
            continue;
        }
        fail_seal(store, waiter);
        store_unwant(store, waiter);
        store_end_wait(store, waiter, waiter->late, NULL);
    }
}

/* ---- the memory queue ---- */

bool store_must_queue(const struct store *store, uint32_t heap, uint64_t bytes)
{
    return store->heap_waiting[heap] > 0 && bytes >= store->heap_least[heap];
}

/*
 * First come, first served within a heap: who wants as much as someone before who just went empty
 * is not tried. Across heaps nobody waits for another's luck.
 */
void store_serve_queue(struct store *store)
{
    uint64_t least[LIMIT_HEAPS_A_LANE];
    uint8_t failures[LIMIT_HEAPS_A_LANE] = {0};
    uint32_t visits = 0;

    if (list_empty(&store->memory_queue) ||
        (!store->memory_freed && !store->pins_changed && store->now_us < store->retry_us)) {
        return;
    }
    store->memory_freed = false;
    store->retry_us = store->now_us + LIMIT_RETRY_US;
    store->rounds = LIMIT_EVICT_ROUNDS;
    memset(least, 0xff, sizeof(least));
    LIST_FOREACH_SAFE(node, &store->memory_queue)
    {
        struct store_waiter *waiter = container_of(node, struct store_waiter, place);
        uint32_t heap = waiter->heap;
        uint64_t bytes = waiter->bytes;
        uint32_t waiting = store->waiting;

        if (visits++ >= LIMIT_TURN_QUEUE) {
            return;
        }
        if (heap != STORE_NONE && (bytes >= least[heap] || failures[heap] >= LIMIT_TURN_RETRIES)) {
            least[heap] = min_u64(least[heap], bytes);
            continue;
        }
        store_try_again(store, waiter);
        heap = waiter->heap; /* it may have come to wait for another */
        if (store->waiting == waiting && waiter->wait == STORE_WAIT_MEMORY && heap != STORE_NONE) {
            least[heap] = min_u64(least[heap], waiter->bytes);
            failures[heap]++;
        }
    }
    /* All were looked at: what is left of each heap is known. */
    memcpy(store->heap_least, least, sizeof(least));
}
