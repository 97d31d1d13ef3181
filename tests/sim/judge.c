/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole run: the load under faults, then everything healed, then what must hold
 * (docs/simulation.md names each promise).
 */
#include "world.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "fabric/sim/sim_internal.h"
#include "object/store_internal.h"
#include "object/store_pool.h"

#define ACTIVE_US UINT64_C(20000000) /* the load ends by itself long before */
#define SETTLE_US UINT64_C(60000000)
#define QUIET_US  UINT64_C(10000)
#define ASK_US    UINT64_C(10000000)

/* ---- letting time pass ---------------------------------------------------- */

static bool all_links_up(struct world *world)
{
    for (uint32_t a = 0; a < world->node_count; a++) {
        for (uint32_t n = 0; n < world->nodes[a].lanes; n++) {
            uint32_t lanes = world->nodes[a].lanes, wanted = 0;
            struct exchange_stats stats;

            for (uint32_t b = 0; b < world->node_count; b++) {
                uint32_t there = world->nodes[b].lanes;

                wanted += a == b ? 0 : (there > lanes ? there / lanes : 1);
            }
            if (!world->nodes[a].alive) {
                return false;
            }
            exchange_stats(world->nodes[a].lane[n].exchange, &stats);
            if (stats.links_up != wanted) {
                return false;
            }
        }
    }
    return true;
}

static bool all_told(struct world *world)
{
    for (uint32_t a = 0; a < world->node_count; a++) {
        for (uint32_t n = 0; n < world->nodes[a].lanes; n++) {
            struct exchange *exchange = world->nodes[a].lane[n].exchange;
            uint64_t shards = 0;

            for (uint32_t s = n; s < LIMIT_SHARDS; s += world->nodes[a].lanes) {
                shards |= UINT64_C(1) << s;
            }
            if (!directory_is_complete(exchange->directory, shards)) {
                return false;
            }
        }
    }
    return true;
}

static void print_pulls(struct world *world, const struct exchange *exchange)
{
    for (uint32_t n = 0; n < exchange->pulls_used; n++) {
        const struct pull *pull = &exchange->pulls[n];

        if (pull->state != PULL_FREE) {
            printf("# node %u: a pull of key %u (in its pool) in state %d, wanted %d, attempts %u, "
                   "memory %d, "
                   "known %d, holders %u, home %u\n",
                   exchange->config.members->self, bytes_key(world, 0, pull->key.id),
                   (int)pull->state, (int)pull->wanted, pull->attempts, (int)pull->has_memory,
                   (int)pull->known, pull->answer.holder_count, pull->home);
        }
    }
}

static void why_not_idle(struct world *world)
{
    caller_why_not_idle(world);
    for (uint32_t n = 0; n < WORLD_OPS; n++) {
        const struct world_op *op = &world->ops[n];

        if (op->kind != 0) {
            world_fail(world, "node %u: an operation (%d) of key %u never ends", op->node,
                       (int)op->kind, op->key);
        }
    }
    for (uint32_t a = 0; a < world->node_count; a++) {
        for (uint32_t n = 0; n < world->nodes[a].lanes; n++) {
            struct exchange_stats stats;
            nigh_node_stats store = {0};

            exchange_stats(world->nodes[a].lane[n].exchange, &stats);
            store_stats(world->nodes[a].lane[n].store, &store);
            print_pulls(world, world->nodes[a].lane[n].exchange);
            if (!exchange_is_idle(world->nodes[a].lane[n].exchange) || store.waiting > 0 ||
                store.objects_deleting > 0) {
                world_fail(
                    world,
                    "node %u is never idle: %llu pulls, %llu loans, %llu bytes of pulls, "
                    "%llu waiting, %llu deleting",
                    a, (unsigned long long)stats.pulls_now, (unsigned long long)stats.loans_now,
                    (unsigned long long)stats.pull_bytes_now, (unsigned long long)store.waiting,
                    (unsigned long long)store.objects_deleting);
            }
        }
    }
    for (uint32_t a = 0; a < world->node_count; a++) {
        for (uint32_t n = 0; n < world->nodes[a].lanes; n++) {
            struct exchange *exchange = world->nodes[a].lane[n].exchange;
            struct exchange_stats stats;

            exchange_stats(exchange, &stats);
            printf("# node %u lane %u: %llu links up, complete %d\n", a, n,
                   (unsigned long long)stats.links_up,
                   (int)directory_is_complete(exchange->directory, UINT64_MAX));
            LIST_FOREACH(node, &exchange->live)
            {
                struct exchange_link *link = container_of(node, struct exchange_link, place);

                printf("#   to %u: count %u walking %d repeat %d under way %u\n", link->rank,
                       link->announcer.count, link->announcer.walking, link->announcer.repeat,
                       link->announcer.under_way);
            }
        }
    }
    world_fail(world, "the links do not all come up, or not all was announced");
}

static bool is_over(struct world *world)
{
    return client_pending(world) == 0 && world_is_idle(world) && all_links_up(world) &&
           all_told(world) && view_is_settled(world) && caller_is_idle(world);
}

/* Until everything is over, everybody is connected, and everything was announced: for long enough
 * that nothing is on its way either, since the step in which the last came to its end. */
static void settle(struct world *world)
{
    uint64_t end_us = world->now_us + SETTLE_US, over_us = UINT64_MAX;

    for (;;) {
        over_us = is_over(world) ? min_u64(over_us, world->now_us) : UINT64_MAX;
        if (over_us != UINT64_MAX &&
            world->now_us >= max_u64(over_us + QUIET_US, world->stalls_until_us)) {
            return;
        }
        if (world->now_us >= end_us) {
            why_not_idle(world);
        }
        world_step(world, end_us);
    }
}

static nigh_status wait_for(struct world *world, const nigh_status *result)
{
    uint64_t end_us = world->now_us + SETTLE_US;

    while (*result == NIGH_PENDING) {
        WORLD_CHECK(world, world->now_us < end_us, "a question of the judge is never answered");
        world_step(world, end_us);
    }
    return *result;
}

static nigh_status get(struct world *world, uint32_t node, uint32_t key, uint64_t timeout_us,
                       uint8_t flags, uint32_t *serial)
{
    nigh_status result = NIGH_PENDING;
    uint32_t found = 0;
    struct world_op *op =
        client_get(world, node, client_for(world, node, key), key, timeout_us, flags);

    NIGH_ASSERT(op != NULL);
    op->result = &result;
    op->found = &found;
    wait_for(world, &result);
    client_release_all(world);
    *serial = found;
    return result;
}

static nigh_status erase(struct world *world, uint32_t node, uint32_t key)
{
    nigh_status result = NIGH_PENDING;
    struct world_op *op = client_delete(world, node, client_for(world, node, key), key);

    NIGH_ASSERT(op != NULL);
    op->result = &result;
    return wait_for(world, &result);
}

/* ---- what is there -------------------------------------------------------- */

struct lane_sum {
    uint64_t bytes;        /* of objects in memory */
    uint32_t objects;      /* in memory */
    uint32_t spilled;      /* on disk only */
    uint64_t spilled_size; /* of those */
};

/* Goes over all sealed objects of a pool in a lane; each is whole. */
static void read_pool(struct world *world, struct world_lane *lane, uint32_t which,
                      uint32_t *serials, struct lane_sum *sum)
{
    struct store_sight sight;
    uint32_t cursor = 0;

    while (store_next(lane->store, world->nodes[lane->node].pool_number[which], &cursor, &sight)) {
        uint32_t key, serial;

        if (sight.entry == UINT32_MAX || sight.is_claim) {
            continue;
        }
        key = bytes_key(world, which, sight.id);
        serial = client_serial_here(world, lane->node, key);
        WORLD_CHECK(world, serials[key] == 0 || serials[key] == serial,
                    "key %u: put %u and put %u are both there, though all was announced", key,
                    serials[key], serial);
        serials[key] = serial;
        if (sight.in_memory) {
            sum->bytes += sight.bytes;
            sum->objects++;
        } else {
            sum->spilled_size += sight.bytes;
            sum->spilled++;
        }
    }
}

/* Every lane's books fit what it holds. */
static void read_lane(struct world *world, struct world_lane *lane, uint32_t *serials)
{
    nigh_node_stats stats = {0};
    struct lane_sum sum = {0};
    uint32_t n = lane->node;

    for (uint32_t which = 0; which < world->kind.pools; which++) {
        if (world->nodes[n].pool_number[which] != WORLD_NO_POOL) {
            read_pool(world, lane, which, serials, &sum);
        }
    }
    store_stats(lane->store, &stats);
    WORLD_CHECK(world, stats.used_bytes == sum.bytes && stats.objects == sum.objects,
                "node %u: %llu bytes used, but its %u objects have %llu", n,
                (unsigned long long)stats.used_bytes, sum.objects, (unsigned long long)sum.bytes);
    WORLD_CHECK(world,
                stats.objects_spilled == sum.spilled && stats.spilled_bytes >= sum.spilled_size,
                "node %u: %llu objects spilled, but %u are on disk", n,
                (unsigned long long)stats.objects_spilled, sum.spilled);
    WORLD_CHECK(world, stats.spilled_bytes == disk_bytes(lane->disk),
                "node %u: %llu bytes spilled, but its files have %llu", n,
                (unsigned long long)stats.spilled_bytes,
                (unsigned long long)disk_bytes(lane->disk));
}

/* Which put each key has, over the whole cluster. */
static void read_all(struct world *world, uint32_t *serials)
{
    memset(serials, 0, WORLD_KEYS * sizeof(*serials));
    for (uint32_t n = 0; n < world->node_count; n++) {
        for (uint32_t i = 0; i < world->nodes[n].lanes; i++) {
            read_lane(world, &world->nodes[n].lane[i], serials);
        }
    }
}

/* All is deleted, all sessions live: nothing counts for anybody. */
static void nothing_is_counted(struct world *world)
{
    for (uint32_t n = 0; n < world->node_count; n++) {
        struct world_node *node = &world->nodes[n];

        for (uint32_t s = 0; s < WORLD_SESSIONS; s++) {
            WORLD_CHECK(world, atomic_load(&node->sessions[s].quota_used) == 0,
                        "node %u: %llu bytes count for session %u, which has none", n,
                        (unsigned long long)atomic_load(&node->sessions[s].quota_used), s);
        }
        for (uint32_t i = 0; i < node->lanes * LIMIT_POOLS; i++) {
            const struct store_pool *pool =
                node->lane[i % node->lanes].store->pools[i / node->lanes];

            WORLD_CHECK(world, pool == NULL || pool->bytes == 0,
                        "node %u: a pool counts %llu bytes, and is empty", n,
                        (unsigned long long)pool->bytes);
        }
    }
}

/* ---- promises ------------------------------------------------------------- */

/* What is known of a key that a node cannot get. */
static void explain(struct world *world, uint32_t node, uint32_t key)
{
    struct directory_key wanted;
    struct directory_answer answer;
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t key_hash, hash;
    uint32_t home;
    struct exchange *exchange;

    bytes_id(world, key, id);
    hash = hash_id20(id);
    exchange = world_lane_of(world, node, hash)->exchange;
    exchange_key(exchange, world->nodes[node].pool_number[world_pool_of(world, key)], id, &wanted,
                 &key_hash, &home);
    print_pulls(world, exchange);
    if (directory_locate(world_lane_of(world, home, hash)->exchange->directory, node, &wanted,
                         false, &answer) == NIGH_OK) {
        printf("# its home %u says: state %d, %u holders, first %u\n", home, (int)answer.state,
               answer.holder_count, answer.holders[0]);
    }
}

static uint32_t held_now_but(struct world *world, uint32_t key, uint32_t gone)
{
    for (uint32_t n = 0; n < world->node_count; n++) {
        uint32_t serial = n == gone ? 0 : client_glance_here(world, n, key);

        if (serial != 0) {
            return serial;
        }
    }
    return 0;
}

/* The put of a key that some node has now; 0: none. Full nodes evict what others have not. */
static uint32_t held_now(struct world *world, uint32_t key)
{
    return held_now_but(world, key, UINT32_MAX);
}

/* Memory, or a disk, may be too small to read back what is there. */
static bool may_miss(const struct world *world, uint32_t held, nigh_status status)
{
    const struct world_kind *kind = &world->kind;

    switch (status) {
    case NIGH_CORRUPT: return world->puts[held].damaged;
    case NIGH_TIMEOUT: return world->puts[held].damaged || kind->spill_bytes != UINT64_MAX;
    case NIGH_OUT_OF_MEMORY: return kind->spills && kind->spill_bytes != UINT64_MAX;
    case NIGH_QUOTA: return kind->pool_quota[0] > 0 || kind->pool_quota[1] > 0;
    default: return false;
    }
}

/* Whoever has it has it in a file. */
static bool is_only_on_disk(struct world *world, uint32_t key)
{
    struct store_sight sight;

    for (uint32_t n = 0; n < world->node_count; n++) {
        if (client_see(world, n, key, &sight) && sight.in_memory) {
            return false;
        }
    }
    return true;
}

static void everybody_gets(struct world *world, uint32_t key)
{
    for (uint32_t n = 0; n < world->node_count; n++) {
        uint32_t held = held_now(world, key), serial;
        bool from_disk = is_only_on_disk(world, key) && client_glance_here(world, n, key) == 0;
        nigh_status status;

        if (held == 0) {
            break;
        }
        if (client_for(world, n, key) == WORLD_SESSIONS) {
            continue; /* it has not the pool */
        }
        status = get(world, n, key, ASK_US, 0, &serial);
        if (status != NIGH_OK && held_now(world, key) == 0) {
            break;
        }
        if (status != NIGH_OK && world->kind.spills && may_miss(world, held, status)) {
            continue;
        }
        if (status != NIGH_OK) {
            explain(world, n, key);
        }
        WORLD_CHECK(world, status == NIGH_OK,
                    "node %u cannot get key %u, which is there (put %u): %d", n, key, held,
                    (int)status);
        world->totals->spilled_served += from_disk ? 1 : 0;
        WORLD_CHECK(world, serial == held, "node %u gets put %u of key %u, and not put %u", n,
                    serial, key, held);
    }
}

/* Whether the home of a key counts a node as one that has it. */
static bool is_counted(struct world *world, uint32_t node, uint32_t key)
{
    struct directory_key wanted;
    struct directory_answer answer;
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t key_hash, hash;
    uint32_t home, asker = (node + 1) % world->node_count; /* one is not told of itself */
    bool counted = false;

    if (client_for(world, node, key) == WORLD_SESSIONS) {
        return false;
    }
    bytes_id(world, key, id);
    hash = hash_id20(id);
    exchange_key(world_lane_of(world, node, hash)->exchange,
                 world->nodes[node].pool_number[world_pool_of(world, key)], id, &wanted, &key_hash,
                 &home);
    if (directory_locate(world_lane_of(world, home, hash)->exchange->directory, asker, &wanted,
                         false, &answer) == NIGH_OK &&
        answer.state == DIRECTORY_KNOWN) {
        for (uint32_t n = 0; n < answer.holder_count; n++) {
            counted = counted || answer.holders[n] == node;
        }
    }
    return counted;
}

/* By gets that leave no copy. */
static void everybody_looks_at_what_is_there(struct world *world)
{
    for (uint32_t key = 0; key < world->keys; key++) {
        for (uint32_t n = 0; n < world->node_count; n++) {
            uint32_t held = held_now(world, key), serial;
            nigh_status status;

            if (held == 0) {
                break;
            }
            if (client_for(world, n, key) == WORLD_SESSIONS ||
                client_glance_here(world, n, key) != 0) {
                continue;
            }
            status = get(world, n, key, ASK_US, SESSION_FLAG_NO_COPY, &serial);
            if (status != NIGH_OK && held_now(world, key) == 0) {
                break;
            }
            if (status != NIGH_OK && world->kind.spills && may_miss(world, held, status)) {
                continue;
            }
            WORLD_CHECK(world, status == NIGH_OK && serial == held,
                        "node %u looks at key %u, of which put %u is there: %d, put %u", n, key,
                        held, (int)status, serial);
            WORLD_CHECK(world, client_glance_here(world, n, key) == 0,
                        "node %u has a copy of key %u, and was to have none", n, key);
        }
    }
}

/* Who counts as one that has a key has it. */
static void homes_name_holders(struct world *world)
{
    for (uint32_t key = 0; key < world->keys; key++) {
        for (uint32_t n = 0; n < world->node_count; n++) {
            WORLD_CHECK(world, client_glance_here(world, n, key) != 0 || !is_counted(world, n, key),
                        "node %u counts as one that has key %u, and has it not", n, key);
        }
    }
}

/* Gets that leave no copy get what is there, leave none, and no place that is stale. */
static void looks_leave_nothing(struct world *world)
{
    uint32_t serials[WORLD_KEYS];

    everybody_looks_at_what_is_there(world);
    settle(world);
    read_all(world, serials);
    homes_name_holders(world);
}

/* A node lets all go that may, at once: more news than a narrow queue holds. */
static void somebody_evicts(struct world *world)
{
    uint32_t node = (uint32_t)kind_below(world, world->node_count);
    uint32_t serials[WORLD_KEYS];

    for (uint32_t lane = 0; lane < world->nodes[node].lanes; lane++) {
        client_evict(world, node, lane, 2 * world->keys * world->size_max);
    }
    settle(world);
    read_all(world, serials);
    homes_name_holders(world);
}

static void everybody_gets_what_is_there(struct world *world)
{
    for (uint32_t key = 0; key < world->keys; key++) {
        everybody_gets(world, key);
    }
}

/* Where everybody spills and no memory was lost, an id that was sealed and not deleted since is
 * there, of one birth or another; but for what came second, and was told so, to a claim that was
 * given up then, or to what only a copy was left of, or came back though it had been deleted. */
static void nothing_is_lost(struct world *world)
{
    if (!world->kind.spills || world->was_lossy || world->kind.spill_bytes != UINT64_MAX) {
        return;
    }
    for (uint32_t serial = 1; serial <= world->put_count; serial++) {
        const struct world_put *put = &world->puts[serial];

        WORLD_CHECK(world,
                    !put->sealed || put->sealing_us <= world->deleted_us[put->key] ||
                        (put->second &&
                         (world->given_up[put->key] || world->copies_went || put->to_revived)) ||
                        held_now(world, put->key) != 0,
                    "put %u of key %u was sealed, nobody deleted it, and it is gone", serial,
                    put->key);
    }
}

/* What a delete that returned OK took, is gone; unless soft state was lost on the way. */
static void deleted_is_gone(struct world *world, const uint32_t *serials)
{
    for (uint32_t key = 0; key < world->keys; key++) {
        if (serials[key] == 0 || !world->puts[serials[key]].doomed) {
            continue;
        }
        WORLD_CHECK(world, world->was_forgetful, "key %u: put %u was deleted, and is there", key,
                    serials[key]);
        world->totals->resurrected++;
    }
}

/* A node that may delete a key. */
static uint32_t some_node_for(struct world *world, uint32_t key)
{
    uint32_t node = (uint32_t)world_below(world, world->node_count);

    while (client_for(world, node, key) == WORLD_SESSIONS) {
        node = (node + 1) % world->node_count;
    }
    return node;
}

/* The same id in another pool is another object. */
static void stranger_is_there(struct world *world, uint32_t key, uint32_t before)
{
    uint32_t other = (key + world->keys_a_pool) % world->keys;

    if (world->kind.pools > 1) {
        WORLD_CHECK(world, held_now(world, other) == before,
                    "a delete of key %u took put %u of the same id in another pool", key, before);
        world->totals->strangers += before != 0 ? 1 : 0;
    }
}

static void nobody_gets_what_is_deleted(struct world *world)
{
    for (uint32_t key = 0; key < world->keys; key++) {
        uint32_t held = held_now(world, key), serial;
        uint32_t stranger = held_now(world, (key + world->keys_a_pool) % world->keys);
        nigh_status status = erase(world, some_node_for(world, key), key);

        WORLD_CHECK(world, status == NIGH_OK || (held == 0 && status == NIGH_NOT_FOUND),
                    "in calm, a delete of key %u (put %u) ends with %d", key, held, (int)status);
        stranger_is_there(world, key, stranger);
        for (uint32_t n = 0; n < world->node_count; n++) {
            if (client_for(world, n, key) == WORLD_SESSIONS) {
                continue;
            }
            status = get(world, n, key, 0, 0, &serial);
            WORLD_CHECK(world, status == NIGH_TIMEOUT,
                        "node %u still gets put %u of key %u, which is deleted: %d", n, serial, key,
                        (int)status);
        }
    }
}

/* A node other than that of a put; the same where nobody else may delete the key. */
static uint32_t another_node_for(struct world *world, uint32_t node, uint32_t key)
{
    uint32_t other = node;

    do {
        other = (other + 1) % world->node_count;
    } while (other != node && client_for(world, other, key) == WORLD_SESSIONS);
    return other;
}

/* A put has ended well, and the news of it are under way: another node's delete finds it. */
static void deletes_follow_puts(struct world *world)
{
    for (uint32_t key = 0; key < world->keys; key++) {
        uint32_t node = some_node_for(world, key), before = world->put_count;
        uint64_t end_us = world->now_us + SETTLE_US;
        const struct world_put *put = &world->puts[before + 1];
        nigh_status status;

        client_put(world, node, client_for(world, node, key), key, 64, 0);
        if (world->put_count == before) {
            return; /* there is room for no more puts */
        }
        while (!put->sealed && client_pending(world) > 0 && world->now_us < end_us) {
            world_step(world, end_us);
        }
        if (!put->sealed) {
            continue;
        }
        status = erase(world, another_node_for(world, node, key), key);
        WORLD_CHECK(world, status == NIGH_OK || status == NIGH_IN_USE,
                    "a delete of key %u right after its put at node %u ends with %d", key, node,
                    (int)status);
        world->totals->deletes_at_once++;
    }
}

/* ---- a goodbye in calm ---------------------------------------------------- */

#define FAREWELL_US UINT64_C(500000) /* what waited for who is gone has ended by then */

static uint32_t home_of(struct world *world, uint32_t node, uint32_t key)
{
    struct directory_key wanted;
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t key_hash;
    uint32_t home;

    bytes_id(world, key, id);
    exchange_key(world->nodes[node].lane[0].exchange,
                 world->nodes[node].pool_number[world_pool_of(world, key)], id, &wanted, &key_hash,
                 &home);
    return home;
}

/* A put of a key that lies at a node other than two; 0: none. */
static uint32_t held_by_others(struct world *world, uint32_t key, uint32_t a, uint32_t b)
{
    for (uint32_t n = 0; n < world->node_count; n++) {
        uint32_t serial = n == a || n == b ? 0 : client_glance_here(world, n, key);

        if (serial != 0) {
            return serial;
        }
    }
    return 0;
}

static void wait_all(struct world *world, const nigh_status *results, uint64_t until_us,
                     const char *what)
{
    for (uint32_t key = 0; key < world->keys; key++) {
        while (results[key] == NIGH_PENDING) {
            WORLD_CHECK(world, world->now_us < until_us,
                        "after a goodbye, a %s of key %u does not end", what, key);
            world_step(world, until_us);
        }
    }
}

/* What others hold is to be had, whoever leaves in the midst of it. */
static void gets_outlive(struct world *world, uint32_t leaver, uint32_t asker)
{
    nigh_status results[WORLD_KEYS] = {NIGH_OK};
    uint32_t held[WORLD_KEYS] = {0};

    for (uint32_t key = 0; key < world->keys; key++) {
        uint32_t session = client_for(world, asker, key);
        struct world_op *op;

        results[key] = NIGH_OK;
        if (session == WORLD_SESSIONS || home_of(world, asker, key) == leaver) {
            continue;
        }
        held[key] = held_by_others(world, key, leaver, asker);
        if (held[key] == 0 || (op = client_get(world, asker, session, key, ASK_US, 0)) == NULL) {
            held[key] = 0;
            continue;
        }
        results[key] = NIGH_PENDING;
        op->result = &results[key];
    }
    world_run(world, 1 + kind_below(world, 300));
    node_stop(world, leaver, kind_dice(world, world->kind.warm_percent));
    wait_all(world, results, world->now_us + ASK_US + SETTLE_US, "get");
    for (uint32_t key = 0; key < world->keys; key++) {
        WORLD_CHECK(world,
                    held[key] == 0 || results[key] == NIGH_OK ||
                        /* Asked for all at once, what came first may be pinned yet. */
                        ((world->kind.spills || results[key] == NIGH_QUOTA) &&
                         may_miss(world, held[key], results[key])) ||
                        held_now_but(world, key, leaver) == 0,
                    "node %u left, and node %u cannot get key %u, which others hold (put %u): %d",
                    leaver, asker, key, held[key], (int)results[key]);
    }
}

/* A delete that waited for who is gone ends at once. */
static void deletes_end(struct world *world, uint32_t leaver, uint32_t asker)
{
    nigh_status results[WORLD_KEYS] = {NIGH_OK};

    for (uint32_t key = 0; key < world->keys; key++) {
        uint32_t session = client_for(world, asker, key);
        struct world_op *op;

        results[key] = NIGH_OK;
        if (session == WORLD_SESSIONS || home_of(world, asker, key) == leaver || key % 3 == 0 ||
            (op = client_delete(world, asker, session, key)) == NULL) {
            continue;
        }
        results[key] = NIGH_PENDING;
        op->result = &results[key];
    }
    world_run(world, 1 + kind_below(world, 1000));
    node_stop(world, leaver, kind_dice(world, world->kind.warm_percent));
    /* Where its going is agreed on, homes move: what waits for one asks again, while it may. */
    wait_all(world, results,
             world->now_us + FAREWELL_US + (world->agreeing != NULL ? EXCHANGE_ERASE_US : 0),
             "delete");
}

static void somebody_leaves(struct world *world,
                            void (*meanwhile)(struct world *world, uint32_t leaver, uint32_t asker))
{
    uint32_t leaver = (uint32_t)kind_below(world, world->node_count);
    uint32_t asker =
        (leaver + 1 + (uint32_t)kind_below(world, world->node_count - 1)) % world->node_count;

    meanwhile(world, leaver, asker);
    client_release_all(world);
    world_at(world, 1 + kind_below(world, 100000), EVENT_RESTART, leaver, 0, 0);
    settle(world);
    client_release_all(world);
    settle(world);
}

/* All is deleted: nothing is used, and nothing late lands in free memory. What does, faults. */
static void nothing_lands_late(struct world *world)
{
    uint64_t end_us = world->now_us + 500000;

    for (uint32_t n = 0; n < world->node_count; n++) {
        node_guard(world, n, true);
    }
    while (world->now_us < end_us) {
        world_step(world, end_us);
    }
    for (uint32_t n = 0; n < world->node_count; n++) {
        node_guard(world, n, false);
    }
}

/* ---- a seed --------------------------------------------------------------- */

static void calls_are_answered(struct world *world)
{
    if (world->calls != NULL) {
        caller_judge(world);
        settle(world);
    }
}

static bool is_active(const struct world *world)
{
    for (uint32_t n = 0; n < world->node_count; n++) {
        for (uint32_t s = 0; s < WORLD_SESSIONS; s++) {
            if (world->nodes[n].alive && world->nodes[n].sessions[s].next_us != WORLD_NEVER) {
                return true;
            }
        }
    }
    return world->faults_left > 0;
}

static void heal(struct world *world)
{
    struct sim_options *options = &world->sim->options;

    world_say(world, "everything heals");
    world->calm = true;
    world->stalls_until_us = options->stall_ppm > 0 ? world->now_us + options->stall_us : 0;
    fault_heal_all(world);
    view_end(world);
    caller_calm(world);
    detect_calm(world);
    /* The network is as it should be from now on. */
    options->break_ppm = 0;
    options->refuse_ppm = 0;
    options->stall_ppm = 0;
}

uint64_t judge_seed(const struct world_options *options, struct world_totals *totals)
{
    struct world *world = world_create(options, totals);
    uint32_t serials[WORLD_KEYS];
    uint64_t end_us = world->now_us + ACTIVE_US, digest;

    world->is_judged = true;
    while (is_active(world) && world->now_us < end_us) {
        world_step(world, end_us);
    }
    heal(world);
    world_run(world, 10);
    client_release_all(world);
    settle(world);
    world_say(world, "all is quiet");
    world_check_all(world);
    read_all(world, serials);
    homes_name_holders(world);
    deleted_is_gone(world, serials);
    nothing_is_lost(world);
    calls_are_answered(world);
    if (world->passing_percent > 0) {
        looks_leave_nothing(world);
    }
    everybody_gets_what_is_there(world);
    settle(world);
    read_all(world, serials);
    homes_name_holders(world);
    somebody_evicts(world);
    if (!world->kind.plain && kind_dice(world, 25)) {
        somebody_leaves(world, gets_outlive);
        nothing_is_lost(world);
        somebody_leaves(world, deletes_end);
        read_all(world, serials);
    }
    nobody_gets_what_is_deleted(world);
    settle(world);
    read_all(world, serials);
    nothing_is_counted(world);
    deletes_follow_puts(world);
    calls_are_answered(world);
    settle(world);
    if (options->seed % 8 == 0) {
        nothing_lands_late(world);
    }
    world_check_all(world);
    world_fold(world, sim_digest(world->sim));
    digest = world->digest;
    totals->seeds++;
    world_destroy(world);
    return digest;
}
