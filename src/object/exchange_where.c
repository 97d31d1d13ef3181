/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an object is: asks the home of an id, for a client that only wants to know. Nothing is
 * pulled, nobody waits for a seal, and an answer that does not come is not asked for again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "object/exchange_internal.h"

/* A question under way. */
struct where {
    struct exchange *exchange;
    uint32_t home;
    exchange_where_done *done;
    void *context;
    uint64_t token;
};

/* The ranks that an answer names, as far as they are ranks. */
static nigh_status take_answer(const struct exchange *exchange,
                               const struct directory_answer *answer, struct exchange_places *out)
{
    struct exchange_places places = {0};

    if (answer->state == DIRECTORY_NOT_YET) {
        return NIGH_BUSY;
    }
    for (uint32_t n = 0; answer->state == DIRECTORY_KNOWN && n < answer->holder_count; n++) {
        if (answer->holders[n] < exchange->config.members->count) {
            places.ranks[places.count++] = answer->holders[n];
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
    return take_answer(where->exchange, &answer, places);
}

static void on_where(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                     uint64_t now_us)
{
    struct where *where = context;
    struct exchange_places places = {0};

    (void)now_us;
    if (status == NIGH_OK) {
        status = take_reply(where, payload, bytes, &places);
    }
    where->exchange->wheres--;
    where->done(where->context, where->token, status, &places);
    free(where);
}

static nigh_status ask(struct exchange *exchange, struct where *where,
                       const struct directory_key *key, uint64_t hash, uint64_t now_us)
{
    struct exchange_link *link = exchange_link_to(exchange, where->home, hash);
    struct wire_locate locate = {.key = *key, .crossover_bytes = UINT64_MAX, .only = 1};
    struct rpc_piece piece = {.data = &locate, .bytes = sizeof(locate)};

    if (link == NULL) {
        return NIGH_PEER_LOST;
    }
    return rpc_call(link_rpc(link->link), WIRE_LOCATE, &piece, 1,
                    clock_deadline_us(now_us, EXCHANGE_CALL_US), now_us, on_where, where, NULL);
}

nigh_status exchange_where(struct exchange *exchange, uint32_t pool, const uint8_t *id,
                           uint64_t now_us, struct exchange_places *places,
                           exchange_where_done *done, void *context, uint64_t token)
{
    struct directory_key key;
    struct directory_answer answer;
    struct where *where;
    uint64_t key_hash;
    uint32_t home;
    nigh_status status;

    if (pool >= LIMIT_POOLS || !exchange->pools[pool].used) {
        *places = (struct exchange_places){0};
        return NIGH_OK;
    }
    exchange_key(exchange, pool, id, &key, &key_hash, &home);
    if (home == exchange_self(exchange)) {
        status = directory_locate(exchange->directory, home, &key, false, &answer);
        return status == NIGH_OK ? take_answer(exchange, &answer, places) : status;
    }
    if (exchange->wheres == LIMIT_WHERES) {
        return NIGH_BUSY;
    }
    where = malloc(sizeof(*where));
    if (where == NULL) {
        return NIGH_NO_RESOURCES;
    }
    *where = (struct where){
        .exchange = exchange, .home = home, .done = done, .context = context, .token = token};
    status = ask(exchange, where, &key, hash_id20(id), now_us);
    if (status != NIGH_OK) {
        free(where);
        return status;
    }
    exchange->wheres++;
    return NIGH_PENDING;
}
