/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole run: the load under faults, then everything healed, then what must hold
 * (docs/simulation.md names each promise).
 */
#include "world.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "fabric/sim/sim_internal.h"

#define ACTIVE_US UINT64_C(20000000) /* the load ends by itself long before */
#define SETTLE_US UINT64_C(60000000)
#define QUIET_US  UINT64_C(10000)
#define ASK_US    UINT64_C(10000000)
#define POISON    0xa5

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

static void print_pulls(const struct exchange *exchange)
{
    for (uint32_t n = 0; n < exchange->pulls_used; n++) {
        const struct pull *pull = &exchange->pulls[n];

        if (pull->state != PULL_FREE) {
            printf("# node %u: a pull of key %u in state %d, wanted %d, attempts %u, memory %d, "
                   "known %d, holders %u, home %u\n",
                   exchange->config.members->self, pull->key.id[8], (int)pull->state,
                   (int)pull->wanted, pull->attempts, (int)pull->has_memory, (int)pull->known,
                   pull->answer.holder_count, pull->home);
        }
    }
}

static void why_not_idle(struct world *world)
{
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
            print_pulls(world->nodes[a].lane[n].exchange);
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
           all_told(world);
}

/* Until everything is over, everybody is connected, and everything was announced: for long enough
 * that nothing is on its way either. */
static void settle(struct world *world)
{
    uint64_t end_us = world->now_us + SETTLE_US, quiet_us = world->now_us;

    while (!is_over(world) || world->now_us < quiet_us + QUIET_US) {
        if (world->now_us >= end_us) {
            why_not_idle(world);
        }
        quiet_us = is_over(world) ? quiet_us : world->now_us;
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
    struct world_op *op = client_get(world, node, 0, key, timeout_us, flags);

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
    struct world_op *op = client_delete(world, node, 0, key);

    NIGH_ASSERT(op != NULL);
    op->result = &result;
    return wait_for(world, &result);
}

/* ---- what is there -------------------------------------------------------- */

/* Goes over all sealed objects of a lane; each is whole. Returns their bytes. */
static uint64_t read_lane(struct world *world, struct world_lane *lane, uint32_t *serials,
                          uint32_t *objects)
{
    struct store_sight sight;
    uint32_t cursor = 0;
    uint64_t bytes = 0;

    while (store_next(lane->store, WORLD_POOL, &cursor, &sight)) {
        uint32_t key, serial;

        if (sight.entry == UINT32_MAX) {
            continue;
        }
        memcpy(&key, sight.id + 8, sizeof(key));
        serial = client_serial_at(world, lane->node, key, sight.offset, sight.data_size,
                                  sight.meta_size);
        WORLD_CHECK(world, serials[key] == 0 || serials[key] == serial,
                    "key %u: put %u and put %u are both there, though all was announced", key,
                    serials[key], serial);
        serials[key] = serial;
        bytes += sight.bytes;
        ++*objects;
    }
    return bytes;
}

/* Which put each key has, over the whole cluster; and every lane's books fit what it holds. */
static void read_all(struct world *world, uint32_t *serials)
{
    memset(serials, 0, WORLD_KEYS * sizeof(*serials));
    for (uint32_t n = 0; n < world->node_count; n++) {
        for (uint32_t i = 0; i < world->nodes[n].lanes; i++) {
            struct world_lane *lane = &world->nodes[n].lane[i];
            nigh_node_stats stats = {0};
            uint32_t objects = 0;
            uint64_t bytes = read_lane(world, lane, serials, &objects);

            store_stats(lane->store, &stats);
            WORLD_CHECK(world, stats.used_bytes == bytes && stats.objects == objects,
                        "node %u: %llu bytes used, but its %u objects have %llu", n,
                        (unsigned long long)stats.used_bytes, objects, (unsigned long long)bytes);
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

    client_id(key, id);
    hash = hash_id20(id);
    exchange = world_lane_of(world, node, hash)->exchange;
    exchange_key(exchange, WORLD_POOL, id, &wanted, &key_hash, &home);
    print_pulls(exchange);
    if (directory_locate(world_lane_of(world, home, hash)->exchange->directory, node, &wanted,
                         false, &answer) == NIGH_OK) {
        printf("# its home %u says: state %d, %u holders, first %u\n", home, (int)answer.state,
               answer.holder_count, answer.holders[0]);
    }
}

/* The put of a key that some node has now; 0: none. Full nodes evict what others have not. */
static uint32_t held_now(struct world *world, uint32_t key)
{
    for (uint32_t n = 0; n < world->node_count; n++) {
        uint32_t serial = client_serial_here(world, n, key);

        if (serial != 0) {
            return serial;
        }
    }
    return 0;
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

    client_id(key, id);
    hash = hash_id20(id);
    exchange_key(world_lane_of(world, node, hash)->exchange, WORLD_POOL, id, &wanted, &key_hash,
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
            if (client_serial_here(world, n, key) != 0) {
                continue;
            }
            status = get(world, n, key, ASK_US, SESSION_FLAG_NO_COPY, &serial);
            if (status != NIGH_OK && held_now(world, key) == 0) {
                break;
            }
            WORLD_CHECK(world, status == NIGH_OK && serial == held,
                        "node %u looks at key %u, of which put %u is there: %d, put %u", n, key,
                        held, (int)status, serial);
            WORLD_CHECK(world, client_serial_here(world, n, key) == 0,
                        "node %u has a copy of key %u, and was to have none", n, key);
        }
    }
}

/* Which nodes count as ones that have a key, and have it not: places may be stale. A bit each. */
static void read_stale(struct world *world, uint64_t *stale)
{
    for (uint32_t key = 0; key < world->keys; key++) {
        stale[key] = 0;
        for (uint32_t n = 0; n < world->node_count; n++) {
            bool is_stale = client_serial_here(world, n, key) == 0 && is_counted(world, n, key);

            stale[key] |= (uint64_t)is_stale << n;
        }
    }
}

/* Gets that leave no copy get what is there, leave none, and no place that is stale. */
static void looks_leave_nothing(struct world *world)
{
    uint64_t before[WORLD_KEYS], after[WORLD_KEYS];
    uint32_t serials[WORLD_KEYS];

    read_stale(world, before);
    everybody_looks_at_what_is_there(world);
    settle(world);
    read_all(world, serials);
    read_stale(world, after);
    for (uint32_t key = 0; key < world->keys; key++) {
        WORLD_CHECK(world, (after[key] & ~before[key]) == 0,
                    "a node counts as one that has key %u, and has it not: %llx", key,
                    (unsigned long long)(after[key] & ~before[key]));
    }
}

static void everybody_gets_what_is_there(struct world *world)
{
    for (uint32_t key = 0; key < world->keys; key++) {
        for (uint32_t n = 0; n < world->node_count; n++) {
            uint32_t held = held_now(world, key), serial;
            nigh_status status;

            if (held == 0) {
                break;
            }
            status = get(world, n, key, ASK_US, 0, &serial);
            if (status != NIGH_OK && held_now(world, key) == 0) {
                break;
            }
            if (status != NIGH_OK) {
                explain(world, n, key);
            }
            WORLD_CHECK(world, status == NIGH_OK,
                        "node %u cannot get key %u, which is there (put %u): %d", n, key, held,
                        (int)status);
            WORLD_CHECK(world, serial == held, "node %u gets put %u of key %u, and not put %u", n,
                        serial, key, held);
        }
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

static void nobody_gets_what_is_deleted(struct world *world)
{
    for (uint32_t key = 0; key < world->keys; key++) {
        uint32_t held = held_now(world, key);
        nigh_status status = erase(world, (uint32_t)world_below(world, world->node_count), key);

        WORLD_CHECK(world, status == NIGH_OK || (held == 0 && status == NIGH_NOT_FOUND),
                    "in calm, a delete of key %u (put %u) ends with %d", key, held, (int)status);
        for (uint32_t n = 0; n < world->node_count; n++) {
            uint32_t serial;

            status = get(world, n, key, 0, 0, &serial);
            WORLD_CHECK(world, status == NIGH_TIMEOUT,
                        "node %u still gets put %u of key %u, which is deleted: %d", n, serial, key,
                        (int)status);
        }
    }
}

/* All is deleted: nothing is used, and nothing late lands in free memory. */
static void nothing_lands_late(struct world *world)
{
    uint64_t end_us = world->now_us + 500000;

    for (uint32_t n = 0; n < world->node_count; n++) {
        const struct extent_set *set = world->nodes[n].set;

        for (uint32_t i = 0; i < LIMIT_EXTENTS; i++) {
            if (set->extents[i].present) {
                memset(set->arena + i * set->extent_bytes, POISON, set->extent_bytes);
            }
        }
    }
    while (world->now_us < end_us) {
        world_step(world, end_us);
    }
    for (uint32_t n = 0; n < world->node_count; n++) {
        const struct extent_set *set = world->nodes[n].set;

        for (uint32_t i = 0; i < LIMIT_EXTENTS; i++) {
            const uint8_t *bytes = set->arena + i * set->extent_bytes;

            WORLD_CHECK(
                world,
                !set->extents[i].present ||
                    (bytes[0] == POISON && memcmp(bytes, bytes + 1, set->extent_bytes - 1) == 0),
                "node %u: something landed in free memory", n);
        }
    }
}

/* ---- a seed --------------------------------------------------------------- */

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
    fault_heal_all(world);
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
    deleted_is_gone(world, serials);
    if (world->passing_percent > 0) {
        looks_leave_nothing(world);
    }
    everybody_gets_what_is_there(world);
    settle(world);
    read_all(world, serials);
    nobody_gets_what_is_deleted(world);
    settle(world);
    read_all(world, serials);
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
