/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an object is: asks the home of an id, for a client that only wants to know. Nothing is
 * pulled, nobody waits for a seal, and an answer that does not come is not asked for again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "object/crossover.h"
#include "object/exchange_figures.h"
#include "object/exchange_home.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_outside.h"
#include "object/exchange_replicas.h"
#include "object/exchange_replication.h"
#include "object/exchange_wire.h"

/* A question under way. */
struct where {
    struct exchange *exchange;
    uint32_t home;
    bool stands_in; /* it is asked in the place of a dead home */
    struct directory_key key;
    uint64_t data_size; /* as this node knows it */
    exchange_where_done *done;
    void *context;
    uint64_t token;
};

/* Of an answer for the home's stand-in, that knows of no other, or does not yet. It knows of
 * replicas alone, and of what has none it never will; one that is here only its asker need not be
 * told of. */
static nigh_status nobody_else(const struct exchange *exchange, const struct directory_key *key,
                               nigh_status why)
{
    const struct held *held = replication_find(exchange->replication, key);

    return held != NULL && !held->gone ? NIGH_OK : why;
}

/* The ranks that an answer names, as far as they are ranks. A home that does not know yet will. */
static nigh_status take_answer(const struct exchange *exchange,
                               const struct directory_answer *answer,
                               const struct directory_key *key, bool stands_in,
                               struct exchange_places *out)
{
    struct exchange_places places = {.data_size = out->data_size};

    if (answer->state == DIRECTORY_NOT_YET) {
        return stands_in ? nobody_else(exchange, key, NIGH_PEER_LOST) : NIGH_BUSY;
    }
    for (uint32_t n = 0; answer->state == DIRECTORY_KNOWN && n < answer->holder_count; n++) {
        if (answer->holders[n] < exchange->config.members->count) {
            places.ranks[places.count++] = answer->holders[n];
            places.data_size = answer->object.data_size;
        }
    }
    *out = places;
    return NIGH_OK;
}

static nigh_status take_reply(const struct where *where, const uint8_t *payload, uint32_t bytes,
                              struct exchange_places *places)
{
    struct wire_located located;
    struct directory_answer answer;

    if (bytes != sizeof(located)) {
        return NIGH_PROTOCOL;
    }
    memcpy(&located, payload, sizeof(located));
    answer = wire_to_answer(&located);
    return take_answer(where->exchange, &answer, &where->key, where->stands_in, places);
}

static void on_where(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                     uint64_t now_us)
{
    struct where *where = context;
    struct exchange_places places = {.data_size = where->data_size};

    (void)now_us;
    if (status == NIGH_OK) {
        status = take_reply(where, payload, bytes, &places);
    } else if (status == NIGH_BUSY && where->stands_in) {
        status = nobody_else(where->exchange, &where->key, NIGH_BUSY);
    }
    where->exchange->wheres--;
    where->done(where->context, where->token, status, &places);
    free(where);
}

static nigh_status ask(struct exchange *exchange, struct where *where,
                       const struct directory_key *key, uint64_t hash, uint64_t within_us,
                       uint64_t now_us)
{
    struct exchange_link *link = exchange_link_to(exchange, where->home, hash);
    struct wire_locate locate = {.key = *key, .crossover_bytes = UINT64_MAX, .only = 1};
    struct rpc_piece piece = {.data = &locate, .bytes = sizeof(locate)};

    if (link == NULL) {
        return NIGH_PEER_LOST;
    }
    if (!link->in_view) {
        return NIGH_BUSY;
    }
    return rpc_call(link_rpc(link->link), WIRE_LOCATE, &piece, 1,
                    clock_deadline_us(now_us, within_us), now_us, on_where, where, NULL);
}

static nigh_status ask_outside(struct exchange *exchange, struct where *where,
                               const struct directory_key *key)
{
    struct outside_ask question = {.op = OUTSIDE_LOCATE,
                                   .use = OUTSIDE_FOR_WHERE,
                                   .token = (uint64_t)(uintptr_t)where,
                                   .key = *key};

    return outside_ask(exchange, &question) ? NIGH_OK : NIGH_PEER_LOST;
}

/* To each question one answer comes, if only that the directory is lost. */
void where_told(struct exchange *exchange, const struct outside_news *news)
{
    struct where *where = (struct where *)(uintptr_t)news->token;
    struct exchange_places places = {.data_size = where->data_size};
    nigh_status status = news->status;

    if (status == NIGH_OK) {
        status = take_answer(exchange, &news->answer, &where->key, false, &places);
    }
    exchange->wheres--;
    where->done(where->context, where->token, status, &places);
    free(where);
}

nigh_status exchange_where(struct exchange *exchange, uint32_t pool, const uint8_t *id,
                           uint64_t within_us, uint64_t now_us, struct exchange_places *places,
                           exchange_where_done *done, void *context, uint64_t token)
{
    struct directory_key key;
    struct directory_answer answer;
    struct where *where;
    uint64_t key_hash;
    uint32_t home;
    nigh_status status;

    if (pool >= LIMIT_POOLS || !exchange->pools[pool].used) {
        places->count = 0;
        return NIGH_OK;
    }
    if (!exchange->views.quorum) {
        return NIGH_NO_QUORUM;
    }
    exchange_key(exchange, pool, id, &key, &key_hash, &home);
    if (!exchange->outside.used) {
        home = replication_home(exchange, key_hash);
    }
    if (!exchange->outside.used && replication_stands_in(exchange, &key)) {
        exchange->now_us = now_us;
        status = replication_locate(exchange, home, &key, &answer);
        return status == NIGH_OK ? take_answer(exchange, &answer, &key, true, places)
                                 : nobody_else(exchange, &key, status);
    }
    if (home == exchange_self(exchange) && !exchange->outside.used) {
        status = directory_locate(exchange->directory, home, &key, false, &answer);
        return status == NIGH_OK ? take_answer(exchange, &answer, &key, false, places) : status;
    }
    if (exchange->wheres == LIMIT_WHERES) {
        return NIGH_BUSY;
    }
    where = malloc(sizeof(*where));
    if (where == NULL) {
        return NIGH_NO_RESOURCES;
    }
    *where = (struct where){.exchange = exchange,
                            .home = home,
                            .key = key,
                            .stands_in = home != views_home(exchange, key_hash),
                            .data_size = places->data_size,
                            .done = done,
                            .context = context,
                            .token = token};
    status =
        exchange->outside.used
            ? ask_outside(exchange, where, &key)
            : ask(exchange, where, &key, hash_id20(id),
                  within_us != 0 ? min_u64(within_us, EXCHANGE_CALL_US) : EXCHANGE_CALL_US, now_us);
    if (status != NIGH_OK) {
        free(where);
        return status;
    }
    exchange->wheres++;
    return NIGH_PENDING;
}
