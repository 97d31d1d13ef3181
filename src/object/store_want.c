/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those who wait for other nodes: gets of an id that is not here, and deletes, which end when the
 * other nodes have answered too. What is asked there, and how, is the exchange's.
 */
#include "base/check.h"
#include "object/store_internal.h"
#include "object/store_pool.h"
#include "object/store_remote.h"
#include "object/store_session.h"
#include "object/store_wait.h"

/* ---- wants ---- */

static bool wants_copy(const struct store_waiter *waiter)
{
    return (waiter->sqe.flags & SESSION_FLAG_NO_COPY) == 0;
}

void store_want(struct store *store, const struct store_waiter *waiter)
{
    if (store->has_remote && waiter->wants) {
        store->remote.want(store->remote.context,
                           store->sessions[waiter->session]->pool->config.pool, waiter->sqe.id,
                           waiter->hash, waiter->deadline_us, wants_copy(waiter));
    }
}

/* Somebody other than `but` who waits for an id to come from other nodes. */
static const struct store_waiter *find_wanting(struct store *store, const struct store_pool *pool,
                                               const uint8_t *id, uint64_t hash,
                                               const struct store_waiter *but)
{
    LIST_FOREACH(node, store_bucket_of(store, hash))
    {
        const struct store_waiter *waiter = container_of(node, struct store_waiter, place);

        if (waiter->wants && waiter != but && store_waits_for(store, waiter, pool, id, hash)) {
            return waiter;
        }
    }
    return NULL;
}

bool store_is_wanted(struct store *store, const struct store_pool *pool, const uint8_t *id,
                     uint64_t hash)
{
    return store->has_remote && find_wanting(store, pool, id, hash, NULL) != NULL;
}

bool store_is_wanted_how(struct store *store, const struct store_pool *pool, const uint8_t *id,
                         uint64_t hash, bool *keep)
{
    bool wanted = false;

    *keep = false;
    LIST_FOREACH(node, store_bucket_of(store, hash))
    {
        const struct store_waiter *waiter = container_of(node, struct store_waiter, place);

        if (waiter->wants && store_waits_for(store, waiter, pool, id, hash)) {
            wanted = true;
            *keep = *keep || wants_copy(waiter);
        }
    }
    return wanted;
}

void store_want_id(struct store *store, struct store_pool *pool, const uint8_t *id, uint64_t hash)
{
    if (!store->has_remote || store->waiting_for_id == 0) {
        return;
    }
    LIST_FOREACH(node, store_bucket_of(store, hash))
    {
        const struct store_waiter *waiter = container_of(node, struct store_waiter, place);

        if (waiter->wants && store_waits_for(store, waiter, pool, id, hash)) {
            store_want(store, waiter);
        }
    }
}

void store_unwant_id(struct store *store, const struct store_pool *pool, const uint8_t *id,
                     uint64_t hash)
{
    if (!store_is_wanted(store, pool, id, hash)) {
        store->remote.unwant(store->remote.context, pool->config.pool, id, hash);
    }
}

void store_unwant(struct store *store, const struct store_waiter *waiter)
{
    const struct store_pool *pool = store->sessions[waiter->session]->pool;

    if (store->has_remote && waiter->wants &&
        find_wanting(store, pool, waiter->sqe.id, waiter->hash, waiter) == NULL) {
        store->remote.unwant(store->remote.context, pool->config.pool, waiter->sqe.id,
                             waiter->hash);
    }
}

void store_note_wanted(struct store *store, uint32_t number, const uint8_t *id, uint64_t hash,
                       nigh_status late)
{
    const struct store_pool *pool = store->pools[number];

    LIST_FOREACH(node, store_bucket_of(store, hash))
    {
        struct store_waiter *waiter = container_of(node, struct store_waiter, place);

        if (pool != NULL && waiter->wants && store_waits_for(store, waiter, pool, id, hash)) {
            waiter->late = late;
        }
    }
}

void store_fail_wanted(struct store *store, uint32_t number, const uint8_t *id, uint64_t hash,
                       nigh_status status, uint64_t now_us)
{
    const struct store_pool *pool = store->pools[number];

    store->now_us = now_us;
    if (pool == NULL) {
        return;
    }
    LIST_FOREACH_SAFE(node, store_bucket_of(store, hash))
    {
        struct store_waiter *waiter = container_of(node, struct store_waiter, place);

        if (waiter->wants && store_waits_for(store, waiter, pool, id, hash)) {
            store_end_wait(store, waiter, status, NULL);
        }
    }
}

/* ---- deletes ---- */

/* The other nodes hear what was here, not why nothing was. */
static bool erase(struct store *store, const struct store_pool *pool, const uint8_t *id,
                  uint64_t hash, nigh_status local)
{
    nigh_status said = local == NIGH_OK || local == NIGH_IN_USE ? local : NIGH_NOT_FOUND;

    return store->remote.erase(store->remote.context, pool->config.pool, id, hash, said);
}

bool store_may_erase(const struct store *store)
{
    return !store->has_remote ||
           store->remote.erase_room(store->remote.context) > store->erases_due;
}

bool store_erase(struct store *store, const struct store_pool *pool, const uint8_t *id,
                 uint64_t hash, nigh_status local, bool *behind)
{
    if (!store->has_remote) {
        return false;
    }
    /* One that is under way may have passed where this one's object came to be only later. */
    LIST_FOREACH(node, store_bucket_of(store, hash))
    {
        const struct store_waiter *waiter = container_of(node, struct store_waiter, place);

        if (waiter->wait == STORE_WAIT_ERASE && store_waits_for(store, waiter, pool, id, hash)) {
            *behind = true;
            return true;
        }
    }
    *behind = false;
    return erase(store, pool, id, hash, local);
}

void store_unerase(struct store *store, const struct store_waiter *waiter)
{
    if (store->has_remote &&
        (waiter->wait == STORE_WAIT_PINS || (waiter->wait == STORE_WAIT_ERASE && waiter->behind))) {
        (void)erase(store, store->sessions[waiter->session]->pool, waiter->sqe.id, waiter->hash,
                    waiter->wait == STORE_WAIT_PINS ? NIGH_OK : waiter->local);
    }
}

/* What a delete ends with, of what came of it here and elsewhere. */
static nigh_status merge(nigh_status local, nigh_status remote)
{
    /* Nobody knows what is left elsewhere: that is not a success, whatever was deleted here. */
    if (remote != NIGH_OK && remote != NIGH_IN_USE && remote != NIGH_NOT_FOUND) {
        return remote;
    }
    if (local == NIGH_IN_USE || remote == NIGH_IN_USE) {
        return NIGH_IN_USE;
    }
    if (local == NIGH_OK || remote == NIGH_OK) {
        return NIGH_OK;
    }
    return local;
}

/* Begins what stood behind a delete that has ended; true if there is such. */
static bool erase_next(struct store *store, const struct store_pool *pool, const uint8_t *id,
                       uint64_t hash)
{
    bool begun = false;

    LIST_FOREACH(node, store_bucket_of(store, hash))
    {
        struct store_waiter *waiter = container_of(node, struct store_waiter, place);

        if (waiter->wait != STORE_WAIT_ERASE || !store_waits_for(store, waiter, pool, id, hash)) {
            continue;
        }
        begun = begun || erase(store, pool, id, hash, waiter->local);
        if (!begun) {
            return false;
        }
        store->erases_due -= waiter->behind ? 1 : 0;
        waiter->behind = false;
    }
    return begun;
}

/* Ends those that waited for it, or all; with `status`, or as it was here. */
static void end_erases(struct store *store, const struct store_pool *pool, const uint8_t *id,
                       uint64_t hash, bool all, nigh_status status)
{
    LIST_FOREACH_SAFE(node, store_bucket_of(store, hash))
    {
        struct store_waiter *waiter = container_of(node, struct store_waiter, place);

        if (waiter->wait == STORE_WAIT_ERASE && (all || !waiter->behind) &&
            store_waits_for(store, waiter, pool, id, hash)) {
            store_end_wait(store, waiter, merge(waiter->local, status), NULL);
        }
    }
}

void store_erased(struct store *store, uint32_t number, const uint8_t *id, uint64_t hash,
                  nigh_status status, uint64_t now_us)
{
    const struct store_pool *pool = store->pools[number];

    store->now_us = now_us;
    if (pool == NULL) {
        return;
    }
    end_erases(store, pool, id, hash, false, status);
    if (!erase_next(store, pool, id, hash)) {
        end_erases(store, pool, id, hash, true, NIGH_NOT_FOUND);
    }
}
