/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicas that are made here: the keeper of a key asks for one, and again how far it is; the
 * object is pulled like any other, and then held. Only the member that this node, too, takes for
 * the key's keeper is heard, and all of them together get a part of the memory.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_pull.h"
#include "object/exchange_replicas.h"
#include "object/exchange_wire.h"

nigh_status make_init(struct replication *replication)
{
    replication->making = calloc(LIMIT_REPLICA_MAKING, sizeof(*replication->making));
    replication->making_us = UINT64_MAX;
    share_init(&replication->making_shares, LIMIT_REPLICA_MAKING,
               replication->exchange->config.members->count);
    return replication->making == NULL ? NIGH_NO_RESOURCES : NIGH_OK;
}

static struct making *find(struct replication *replication, const struct directory_key *key)
{
    for (uint32_t n = 0; replication->making_count > 0 && n < LIMIT_REPLICA_MAKING; n++) {
        struct making *making = &replication->making[n];

        if (making->used && memcmp(&making->key, key, sizeof(*key)) == 0) {
            return making;
        }
    }
    return NULL;
}

/* What they count in. */
static uint64_t *bytes_under_way(struct replication *replication, const struct making *making)
{
    return making->wanted == 1 ? &replication->given_bytes : &replication->making_bytes;
}

static void end(struct replication *replication, struct making *making)
{
    share_give(&replication->making_shares, making->asker);
    *bytes_under_way(replication, making) -= making->bytes;
    replication->making_count--;
    making->used = false;
}

/* Until somebody gives it up: who asks for it, when it is asked no more, or its end. */
static void pull(struct exchange *exchange, const struct making *making)
{
    pull_want(exchange, making->pool, making->key.id, making->hash, UINT64_MAX, true);
}

/* Nobody asks for it any more: its pull ends, unless a client here waits for it too. */
static void give_up(struct exchange *exchange, struct making *making)
{
    if (!store_waits_for_id(exchange->config.store, making->pool, making->key.id, making->hash)) {
        pull_unwant(exchange, making->pool, making->key.id, making->hash);
    }
    end(exchange->replication, making);
}

/* The same of what one node is to hold, of which this one is to be that. */
static bool take_given(struct exchange *exchange, uint32_t pool, const struct directory_key *key,
                       const struct birth *birth, uint64_t now_us)
{
    struct store_sight sight;

    if (store_give(exchange->config.store, pool, key->id, hash_id20(key->id), birth, now_us,
                   &sight) != NIGH_OK) {
        return false;
    }
    if (replication_hold(exchange, &sight) == NULL) {
        store_unreplicate(exchange->config.store, pool, key->id, sight.hash, birth, now_us);
        return false;
    }
    return true;
}

/* It is here, of this birth: it is a replica from now on. False: it is not. */
static bool take(struct exchange *exchange, uint32_t pool, const struct directory_key *key,
                 const struct birth *birth, uint32_t wanted, uint64_t now_us)
{
    struct store_sight sight;

    if (wanted == 1) {
        return take_given(exchange, pool, key, birth, now_us);
    }
    if (store_replicate(exchange->config.store, pool, key->id, hash_id20(key->id), birth, wanted,
                        now_us, &sight) != NIGH_OK) {
        return false;
    }
    if (replication_hold(exchange, &sight) == NULL) {
        store_unreplicate(exchange->config.store, pool, key->id, sight.hash, birth, now_us);
        return false;
    }
    return true;
}

/* Whether the lane has room for one more that cannot be evicted. */
static bool has_room(const struct replication *replication, uint64_t bytes)
{
    const struct exchange_config *config = &replication->exchange->config;
    uint64_t most = config->extents->memory_bytes / config->lanes / LIMIT_REPLICA_SHARE;
    uint64_t taken = replication->copy_bytes + replication->making_bytes;

    return bytes > 0 && taken <= most && bytes <= most - taken;
}

/* Bytes of handed-over objects that may be on their way here at a time. */
static bool is_crowded(const struct replication *replication, uint64_t bytes)
{
    const struct exchange_config *config = &replication->exchange->config;
    uint64_t most = config->extents->memory_bytes / config->lanes / LIMIT_LEAVE_SHARE;

    return replication->given_bytes > 0 && replication->given_bytes + bytes > most;
}

/* Whether one more can be made here, and if not, why. */
static nigh_status may_begin(struct exchange *exchange, uint32_t pool, uint32_t wanted,
                             uint64_t bytes, uint64_t now_us)
{
    struct replication *replication = exchange->replication;
    struct store *store = exchange->config.store;
    nigh_status status;

    if (replication->leave.leaves) {
        return NIGH_LEAVING;
    }
    if (wanted > 1) {
        return has_room(replication, bytes) ? NIGH_OK : NIGH_OUT_OF_MEMORY;
    }
    if (is_crowded(replication, bytes)) {
        return NIGH_BUSY;
    }
    status = store_give_room(store, pool, bytes + replication->given_bytes, now_us);
    if (status != NIGH_OK && replication->given_bytes > 0 &&
        store_give_room(store, pool, bytes, now_us) == NIGH_OK) {
        return NIGH_BUSY; /* when those on their way are here it is known */
    }
    return status;
}

static nigh_status begin(struct exchange *exchange, uint32_t from, uint32_t pool,
                         const struct wire_replicate *asked, uint64_t now_us)
{
    struct replication *replication = exchange->replication;
    const struct directory_object *object = &asked->object;
    uint64_t bytes = index_object_bytes(object->data_size, object->meta_size, object->name_size);
    struct making *making = replication->making;
    nigh_status status;

    if (object->meta_size > LIMIT_META_BYTES || object->name_size > LIMIT_NAME_BYTES) {
        return NIGH_OUT_OF_MEMORY;
    }
    status = may_begin(exchange, pool, asked->wanted, bytes, now_us);
    if (status != NIGH_OK) {
        return status;
    }
    if (!share_take(&replication->making_shares, from)) {
        exchange->counts.shares_refused++;
        return NIGH_BUSY;
    }
    while (making->used) {
        making++; /* the shares are all of them: one is free */
    }
    *making = (struct making){.used = true,
                              .pool = pool,
                              .asker = from,
                              .key = asked->key,
                              .object = *object,
                              .hash = hash_id20(asked->key.id),
                              .bytes = bytes,
                              .wanted = asked->wanted,
                              .asked_us = now_us};
    replication->making_count++;
    *bytes_under_way(replication, making) += bytes;
    replication->making_us =
        min_u64(replication->making_us, clock_deadline_us(now_us, REPLICAS_QUIET_US));
    pull(exchange, making);
    return NIGH_PENDING;
}

/* It is being made, or was about to be. */
static nigh_status go_on(struct exchange *exchange, struct making *making,
                         const struct wire_replicate *asked, uint64_t now_us)
{
    if (!birth_equal(&making->object.birth, &asked->object.birth)) {
        give_up(exchange, making);
        return NIGH_BUSY;
    }
    making->asked_us = now_us;
    if (pull_is_under_way(exchange, &making->key)) {
        return NIGH_PENDING;
    }
    if (++making->tries == REPLICAS_TRIES) {
        give_up(exchange, making);
        return NIGH_NO_RESOURCES;
    }
    pull(exchange, making);
    return NIGH_PENDING;
}

/* There are more than are wanted: what is here is a copy like others again. */
static nigh_status release(struct exchange *exchange, uint32_t pool,
                           const struct wire_replicate *asked, uint64_t now_us)
{
    struct held *held = replication_find(exchange->replication, &asked->key);

    if (held != NULL && !held->gone && (held->is_copy || held->is_given) &&
        list_empty(&held->waits) && birth_equal(&held->object.birth, &asked->object.birth)) {
        store_unreplicate(exchange->config.store, pool, asked->key.id, held->hash,
                          &asked->object.birth, now_us);
        replication_forget(exchange->replication, held);
    }
    return NIGH_OK;
}

nigh_status make_asked(struct exchange *exchange, uint32_t from, const struct wire_replicate *asked,
                       uint64_t now_us)
{
    struct making *making;
    struct store_sight sight;
    uint32_t pool;

    if (asked->wanted < 1 || asked->wanted > LIMIT_REPLICAS) {
        return NIGH_INVALID;
    }
    if (replication_keeper(exchange, directory_key_hash(&asked->key)) != from) {
        exchange->counts.claims_refused++;
        return NIGH_BUSY; /* who lives may be seen differently for a while */
    }
    if (!exchange_pool_of(exchange, &asked->key, &pool)) {
        return NIGH_NOT_FOUND;
    }
    if ((asked->flags & WIRE_REPLICATE_RELEASE) != 0) {
        return release(exchange, pool, asked, now_us);
    }
    making = find(exchange->replication, &asked->key);
    if (take(exchange, pool, &asked->key, &asked->object.birth, asked->wanted, now_us)) {
        if (making != NULL) {
            end(exchange->replication, making);
        }
        return NIGH_OK;
    }
    if (making != NULL) {
        return go_on(exchange, making, asked, now_us);
    }
    if (store_see(exchange->config.store, pool, asked->key.id, hash_id20(asked->key.id), &sight)) {
        return NIGH_EXISTS; /* another birth */
    }
    return begin(exchange, from, pool, asked, now_us);
}

void make_on_request(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us)
{
    struct wire_replicate asked;
    nigh_status status = NIGH_PROTOCOL;

    if (request->call == 0) {
        return;
    }
    if (request->bytes == sizeof(asked)) {
        memcpy(&asked, request->payload, sizeof(asked));
        status = (link->shards >> (hash_id20(asked.key.id) >> 58) & 1) == 0
                     ? NIGH_DENIED
                     : make_asked(link->exchange, link->rank, &asked, now_us);
    }
    rpc_reply(link_rpc(link->link), request->call, status, NULL, 0);
}

/* ---- turns ---------------------------------------------------------------- */

static void look(struct exchange *exchange, struct making *making, uint64_t now_us)
{
    struct replication *replication = exchange->replication;
    uint64_t quiet_us = clock_deadline_us(making->asked_us, REPLICAS_QUIET_US);

    if (take(exchange, making->pool, &making->key, &making->object.birth, making->wanted, now_us)) {
        replication->made++;
        end(replication, making);
    } else if (now_us >= quiet_us) {
        give_up(exchange, making);
    } else {
        replication->making_us = min_u64(replication->making_us, quiet_us);
    }
}

bool make_turn(struct exchange *exchange, uint64_t now_us)
{
    struct replication *replication = exchange->replication;
    uint64_t ended = exchange->counts.pulls_done + exchange->counts.pulls_reused;

    if (replication->making_count == 0 ||
        (ended == replication->making_seen && now_us < replication->making_us)) {
        replication->making_seen = ended;
        return false;
    }
    replication->making_seen = ended;
    replication->making_us = UINT64_MAX;
    for (uint32_t n = 0; n < LIMIT_REPLICA_MAKING; n++) {
        if (replication->making[n].used) {
            look(exchange, &replication->making[n], now_us);
        }
    }
    return true;
}

uint64_t make_due_us(const struct replication *replication)
{
    return replication->making_count == 0 ? UINT64_MAX : replication->making_us;
}
