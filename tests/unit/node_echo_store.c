/* SPDX-License-Identifier: Apache-2.0 */
/* See node_echo_store.h. */
#include "node_echo_store.h"

#include <stdlib.h>

#include "base/check.h"
#include "object/exchange.h"

nigh_status store_create(const struct store_config *config, struct store **store)
{
    *store = calloc(1, sizeof(**store));
    (*store)->config = *config;
    (*store)->due_us = UINT64_MAX;
    return NIGH_OK;
}

void store_destroy(struct store *store)
{
    free(store);
}

nigh_status store_pool_add(struct store *store, const struct store_pool_config *config)
{
    if (store->pools_to_fail > 0) {
        store->pools_to_fail--;
        return NIGH_NO_RESOURCES;
    }
    store->pools |= UINT64_C(1) << config->pool;
    return NIGH_OK;
}

nigh_status store_session_open(struct store *store, const struct store_session_config *config)
{
    store->submitted[config->session] = 0;
    return (store->pools >> config->pool & 1) != 0 ? NIGH_OK : NIGH_NOT_FOUND;
}

void store_session_close(struct store *store, uint32_t session)
{
    (void)store;
    (void)session;
}

void store_session_reset(struct store *store, uint32_t session)
{
    (void)store;
    (void)session;
}

void store_submit(struct store *store, uint32_t session, const struct session_sqe *sqe,
                  uint64_t now_us)
{
    struct session_cqe cqe = {.cookie = sqe->cookie, .data_size = sqe->argument};

    store->now_us = now_us;
    store->submitted[session]++;
    store->last = *sqe;
    if (!store->hold)
        store->config.shell.complete(store->config.shell.context, session, &cqe);
}

uint64_t store_tick(struct store *store, uint64_t now_us)
{
    (void)now_us;
    store->ticks++;
    return store->due_us;
}

struct echo_leased echo_leased;
uint64_t echo_hears_regions;
struct rpc *echo_channel;
uint32_t echo_places;
struct links *echo_links;

uint8_t *store_leased_bytes(struct store *store, uint32_t session, uint64_t offset, uint64_t bytes)
{
    (void)store;
    (void)session;
    if (bytes > echo_leased.bytes || offset < echo_leased.offset ||
        offset - echo_leased.offset > echo_leased.bytes - bytes)
        return NULL;
    return echo_leased.at + (offset - echo_leased.offset);
}

bool store_hears_regions(const struct store *store, uint32_t slot)
{
    (void)store;
    return (echo_hears_regions >> slot & 1) != 0;
}

bool store_wants_turn(const struct store *store)
{
    (void)store;
    return false;
}

void store_disk_done(struct store *store, const struct store_disk_job *job, nigh_status status,
                     uint32_t data_crc, uint64_t now)
{
    (void)store;
    (void)job;
    (void)status;
    (void)data_crc;
    (void)now;
}

void store_stats(const struct store *store, nigh_node_stats *stats)
{
    (void)store;
    stats->objects = 12345;
}

uint32_t store_show_pools(const struct store *store, struct session_show_pool *pools)
{
    (void)store;
    pools[0] = (struct session_show_pool){.pool = 5, .bytes = 77};
    return 1;
}

nigh_status store_show_hottest(struct store *store, uint64_t now_us,
                               struct session_show_object *objects, uint32_t *count, uint64_t *seen)
{
    (void)store;
    (void)now_us;
    for (uint32_t n = 0; n < SESSION_SHOW_OBJECTS; n++)
        objects[n] = (struct session_show_object){.uses = 100 - n};
    *count = SESSION_SHOW_OBJECTS;
    *seen = 1000;
    return NIGH_OK;
}

/* ---- no other nodes: lanes are made without a fabric ---- */

nigh_status exchange_create(const struct exchange_config *config, struct exchange **exchange)
{
    (void)config;
    (void)exchange;
    return NIGH_UNSUPPORTED;
}

void exchange_destroy(struct exchange *exchange)
{
    NIGH_ASSERT(exchange == NULL);
}

nigh_status exchange_pool_add(struct exchange *exchange, uint32_t pool, uint64_t cluster_pool)
{
    (void)exchange;
    (void)pool;
    (void)cluster_pool;
    return NIGH_UNSUPPORTED;
}

nigh_status exchange_peer_up(struct exchange *exchange, const struct link_peer *peer,
                             uint64_t now_us)
{
    (void)exchange;
    (void)peer;
    (void)now_us;
    return NIGH_UNSUPPORTED;
}

uint32_t exchange_links(const struct exchange *exchange, struct exchange_link_cost *costs,
                        uint32_t capacity)
{
    (void)exchange;
    (void)costs;
    (void)capacity;
    return 0;
}

uint32_t exchange_show_transfers(struct exchange *exchange, uint64_t now_us,
                                 struct session_show_transfer *records, uint64_t *left)
{
    (void)exchange;
    (void)now_us;
    for (uint32_t n = 0; n < SESSION_SHOW_TRANSFERS_NOW + SESSION_SHOW_TRANSFERS_PAST; n++)
        records[n] = (struct session_show_transfer){.bytes = n};
    *left = 9;
    return SESSION_SHOW_TRANSFERS_NOW + SESSION_SHOW_TRANSFERS_PAST;
}

uint32_t exchange_show_curves(const struct exchange *exchange, uint64_t from,
                              struct session_show_curve *curves, uint64_t *next)
{
    (void)exchange;
    curves[0] = (struct session_show_curve){.rank = (uint32_t)from};
    *next = from + 1;
    return 1;
}

nigh_status exchange_measure(struct exchange *exchange, uint64_t rank)
{
    (void)exchange;
    (void)rank;
    return NIGH_UNSUPPORTED;
}

void exchange_peer_lost(struct exchange *exchange, uint32_t rank, uint64_t now_us)
{
    (void)exchange;
    (void)rank;
    (void)now_us;
}

void exchange_peer_dead(struct exchange *exchange, uint32_t rank, uint64_t now_us)
{
    (void)exchange;
    (void)rank;
    (void)now_us;
}

void exchange_stats(const struct exchange *exchange, struct exchange_stats *stats)
{
    (void)exchange;
    *stats = (struct exchange_stats){0};
}

struct echo_where echo_where;

nigh_status exchange_where(struct exchange *exchange, uint32_t pool, const uint8_t *id,
                           uint64_t within_us, uint64_t now_us, struct exchange_places *places,
                           exchange_where_done *done, void *context, uint64_t token)
{
    (void)exchange;
    (void)id;
    (void)now_us;
    echo_where.pool = pool;
    echo_where.within_us = within_us;
    echo_where.done = done;
    echo_where.context = context;
    echo_where.token = token;
    *places = echo_where.places;
    return echo_where.status;
}

void exchange_leave(struct exchange *exchange, bool leaves, uint64_t now_us)
{
    (void)exchange;
    (void)leaves;
    (void)now_us;
}

void exchange_leaving(const struct exchange *exchange, struct exchange_leaving *leaving)
{
    (void)exchange;
    *leaving = (struct exchange_leaving){0};
}

uint64_t store_unsealed(const struct store *store)
{
    (void)store;
    return 0;
}

nigh_status exchange_replicate(struct exchange *exchange, uint32_t pool, const uint8_t *id,
                               const struct exchange_copies *asked, uint64_t now_us)
{
    (void)exchange;
    (void)id;
    (void)now_us;
    echo_copies.pool = pool;
    echo_copies.asked = *asked;
    return echo_copies.status;
}

struct echo_copies echo_copies;

bool store_see(struct store *echo, uint32_t pool, const uint8_t *id, uint64_t hash,
               struct store_sight *sight)
{
    (void)echo;
    (void)pool;
    (void)id;
    (void)hash;
    (void)sight;
    return echo_where.here;
}

struct rpc *exchange_users_channel(struct exchange *exchange, uint32_t rank, uint64_t hash)
{
    (void)exchange;
    (void)rank;
    (void)hash;
    return echo_channel;
}

struct links *exchange_lane_links(const struct exchange *exchange)
{
    (void)exchange;
    return echo_links;
}

uint32_t exchange_users_places(const struct members *members)
{
    (void)members;
    return echo_places;
}

void exchange_flush(struct exchange *exchange)
{
    (void)exchange;
}

void exchange_users_flush(struct exchange *exchange)
{
    (void)exchange;
}

struct echo_turns echo_turns;

bool exchange_turn(struct exchange *exchange, uint64_t now_us)
{
    (void)exchange;
    (void)now_us;
    echo_turns.turns++;
    return false;
}

bool exchange_look(struct exchange *exchange, uint64_t now_us)
{
    (void)exchange;
    (void)now_us;
    echo_turns.looks++;
    return echo_turns.comes;
}

uint64_t exchange_due_us(const struct exchange *exchange)
{
    (void)exchange;
    return echo_turns.due_us == 0 ? UINT64_MAX : echo_turns.due_us;
}

nigh_status store_pool_adopt(struct store *store, const struct store_pool_config *config)
{
    return store_pool_add(store, config);
}

void exchange_view(struct exchange *exchange, const struct agreed *agreed, uint64_t now_us)
{
    (void)exchange;
    (void)agreed;
    (void)now_us;
}

void exchange_quorum(struct exchange *exchange, bool quorum, uint64_t now_us)
{
    (void)exchange;
    (void)quorum;
    (void)now_us;
}
