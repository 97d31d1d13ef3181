/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims among nodes: who creates an object exclusively has its id to itself when the id's home has
 * granted it. Until then the create waits, with an entry that holds the id on this node already and
 * that its client cannot seal. A seal whose claim may be over, since the home was away, waits until
 * the home has said that it stands.
 */
#include "base/check.h"
#include "base/clock.h"
#include "object/store_claim.h"
#include "object/store_create.h"
#include "object/store_figures.h"
#include "object/store_internal.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_remote.h"
#include "object/store_session.h"
#include "object/store_wait.h"

bool store_is_claim(const struct store_pool *pool, uint32_t entry)
{
    return store_state(pool, entry) == INDEX_CREATED &&
           store_has_flag(pool, entry, INDEX_FLAG_CLAIMED);
}

nigh_status store_may_claim(const struct store_call *call)
{
    const struct store *store = call->store;
    bool full = call->waiter == NULL && !store_may_wait(store);

    return store->has_remote && (full || store->claimed >= LIMIT_CLAIMS) ? NIGH_LIMIT : NIGH_OK;
}

void store_created_reply(const struct store_pool *pool, uint32_t entry, struct session_cqe *cqe)
{
    const struct index_entry *at = store_entry(pool, entry);

    cqe->ref = entry;
    cqe->generation = store_generation(pool, entry);
    cqe->offset = at->offset;
    cqe->data_size = at->data_size;
    cqe->meta_size = at->meta_size;
    cqe->name_size = at->name_size;
}

/* ---- asking --------------------------------------------------------------- */

/* NIGH_OK: it stands; NIGH_PENDING, NIGH_PEER_LOST, NIGH_UNREACHABLE: store_claimed says, when the
 * home does. Who was told and has not answered is not told again: the queue to a home that stalls
 * would overflow. */
static nigh_status ask(struct store *store, const struct store_pool *pool, uint32_t entry,
                       bool tell)
{
    struct store_sight sight = store_sight_of(store, pool, entry, store_hash(pool, entry));

    return store->remote.claim(store->remote.context, &sight, tell);
}

/* What it is told at its deadline. */
static nigh_status late_of(nigh_status asked)
{
    return asked == NIGH_PENDING     ? NIGH_TIMEOUT
           : asked == NIGH_NO_QUORUM ? NIGH_NO_QUORUM
                                     : NIGH_PEER_LOST;
}

static nigh_status wait_for_home(struct store_call *call, uint32_t entry, nigh_status asked)
{
    struct store *store = call->store;

    if (list_empty(&store->claims)) {
        store->claim_us = clock_deadline_us(store->now_us, STORE_CLAIM_US);
    }
    call->wait = STORE_WAIT_CLAIM;
    call->entry = entry;
    call->late = late_of(asked);
    call->deadline_us =
        max_u64(call->deadline_us, clock_deadline_us(store->now_us, LIMIT_CLAIM_US));
    return NIGH_PENDING;
}

nigh_status store_claim(struct store_call *call, uint32_t entry)
{
    nigh_status status = NIGH_OK;

    if (call->store->has_remote) {
        status = ask(call->store, call->pool, entry, true);
    }
    if (status == NIGH_UNREACHABLE) {
        /* It may be long in coming back: nobody waits for a node that is dead. */
        store_discard(call->store, call->pool, entry);
        return NIGH_PEER_LOST;
    }
    if (status != NIGH_OK) {
        return wait_for_home(call, entry, status);
    }
    index_set_flags(&call->pool->writer, entry, 0, INDEX_FLAG_ASKED);
    return NIGH_OK;
}

nigh_status store_confirm_claim(struct store_call *call, uint32_t entry)
{
    bool said = call->waiter != NULL && call->waiter->wait == STORE_WAIT_CLAIM;
    nigh_status status = NIGH_OK;

    if (call->store->has_remote && store_is_claim(call->pool, entry) && !said) {
        status = ask(call->store, call->pool, entry, true);
    }
    if (status == NIGH_OK) {
        return NIGH_OK;
    }
    if (call->waiter == NULL && !store_may_wait(call->store)) {
        return NIGH_LIMIT;
    }
    call->pool->records[entry].flags |= RECORD_ASKED;
    return wait_for_home(call, entry, status);
}

/* ---- the answer ----------------------------------------------------------- */

static struct store_waiter *waiter_of(const struct store *store, const struct store_pool *pool,
                                      uint32_t entry)
{
    struct store_session *session = store_maker(store, &pool->records[entry]);

    if (session == NULL) {
        return NULL;
    }
    LIST_FOREACH(node, &session->waiters)
    {
        struct store_waiter *waiter = container_of(node, struct store_waiter, session_place);

        if (waiter->wait == STORE_WAIT_CLAIM && waiter->entry == entry) {
            return waiter;
        }
    }
    return NULL;
}

static void granted(struct store *store, struct store_pool *pool, struct store_waiter *waiter)
{
    struct session_cqe cqe = {.pin = SESSION_NO_PIN};
    uint32_t entry = waiter->entry;

    if (waiter->sqe.op == SESSION_OP_SEAL) {
        pool->records[entry].flags &= (uint8_t)~RECORD_ASKED;
        store_try_again(store, waiter);
        return;
    }
    index_set_flags(&pool->writer, entry, 0, INDEX_FLAG_ASKED);
    store_created_reply(pool, entry, &cqe);
    store_end_wait(store, waiter, NIGH_OK, &cqe);
}

void store_end_claim(struct store *store, struct store_waiter *waiter, nigh_status status)
{
    struct store_pool *pool = store->sessions[waiter->session]->pool;

    store_discard(store, pool, waiter->entry);
    store_end_wait(store, waiter, status, NULL);
}

/* Granted before, and another's now, or a home that forgot it has no room for it: its seal will
 * hear of that, and the id is for others here. */
static void lose(struct store *store, struct store_pool *pool, uint32_t entry, const uint8_t *id,
                 uint64_t hash)
{
    index_remove(&pool->writer, hash, entry);
    index_set_flags(&pool->writer, entry, 0, INDEX_FLAG_CLAIMED);
    store->claimed--;
    store_shadow_add(pool, hash, entry);
    pool->records[entry].flags |= RECORD_DOOMED;
    store_want_id(store, pool, id, hash);
}

void store_claimed(struct store *store, uint32_t number, const uint8_t *id, uint64_t hash,
                   const struct birth *birth, nigh_status status, uint64_t now_us)
{
    struct store_pool *pool = store->pools[number];
    struct store_waiter *waiter;
    uint32_t entry;

    store_begin(store, now_us);
    if (pool == NULL || !index_find(&pool->writer, id, hash, &entry) ||
        !store_is_claim(pool, entry) || !store_is_birth(store, pool, entry, birth)) {
        return; /* it was given up, or sealed */
    }
    waiter = waiter_of(store, pool, entry);
    if ((status == NIGH_EXISTS || status == NIGH_LIMIT) && waiter == NULL) {
        lose(store, pool, entry, id, hash);
    } else if (waiter == NULL) {
        return;
    } else if (status == NIGH_BUSY) {
        waiter->busy = true; /* it is asked again */
    } else if (status == NIGH_OK) {
        granted(store, pool, waiter);
    } else {
        store_end_claim(store, waiter, status);
    }
}

/* Whether a claim of this birth is held here, or asked for. */
bool store_see_claim(const struct store *store, uint32_t number, const uint8_t *id, uint64_t hash,
                     const struct birth *birth, bool *is_granted)
{
    const struct store_pool *pool = store->pools[number];
    uint32_t entry;

    if (pool == NULL || !index_find(&pool->writer, id, hash, &entry) ||
        !store_is_claim(pool, entry) || !store_is_birth(store, pool, entry, birth)) {
        return false;
    }
    *is_granted = !store_has_flag(pool, entry, INDEX_FLAG_ASKED);
    return true;
}

/* ---- time ----------------------------------------------------------------- */

void store_ask_again(struct store *store)
{
    struct list_node *last = list_last(&store->claims);
    struct list_node *node = NULL;

    if (last == NULL || store->now_us < store->claim_us) {
        return;
    }
    store->claim_us = clock_deadline_us(store->now_us, STORE_CLAIM_US);
    for (uint32_t n = 0; n < LIMIT_TURN_CLAIMS && node != last; n++) {
        struct store_waiter *waiter;
        nigh_status status;

        node = list_pop_front(&store->claims);
        if (node == NULL) {
            return;
        }
        list_push_back(&store->claims, node);
        waiter = container_of(node, struct store_waiter, place);
        status = ask(store, store->sessions[waiter->session]->pool, waiter->entry, waiter->busy);
        waiter->busy = false;
        waiter->late = late_of(status);
        if (status == NIGH_OK) {
            granted(store, store->sessions[waiter->session]->pool, waiter);
        } else if (status == NIGH_UNREACHABLE && waiter->sqe.op == SESSION_OP_CREATE) {
            store_end_claim(store, waiter, NIGH_PEER_LOST);
        }
    }
}
