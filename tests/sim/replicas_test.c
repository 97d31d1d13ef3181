/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicas in whole clusters, by seed: holders die, and what they held is made again within the
 * bound; the home of a key dies at every step of a put; the cluster falls in two, and heals.
 * NIGH_SIM_SEEDS changes how many worlds there are.
 */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_replicas.h"
#include "object/exchange_replication.h"
#include "world.h"

#define NODES  6u
#define KEYS   12u
#define DEAD   UINT64_C(900000)
#define SECOND UINT64_C(1000000)

static uint32_t seeds(uint32_t otherwise)
{
    const char *text = getenv("NIGH_SIM_SEEDS");

    return text != NULL && *text != '\0' ? (uint32_t)strtoul(text, NULL, 0) / 10 + 1 : otherwise;
}

static struct world_totals totals;

static struct world *begin(uint64_t seed)
{
    struct world_options options = {
        .seed = seed,
        .nodes = NODES,
        .lanes = 1u << seed % 2,
        .extents = 2,
        .entries = 256,
        .max_keys = 512,
        .max_puts = 64,
        .quantum_us = 50,
        .dead_after_us = DEAD,
    };
    struct world *world = world_create(&options, &totals);

    world_run(world, SECOND);
    return world;
}

/* ---- asking --------------------------------------------------------------- */

/* How the wait for one key's replicas ended. */
struct wanted {
    bool ended;
    nigh_status status;
    uint32_t copies;
};

static struct wanted waits[KEYS];

static void on_copies(void *context, uint64_t token, nigh_status status, uint32_t copies)
{
    struct wanted *wait = context;

    (void)token;
    assert_false(wait->ended);
    *wait = (struct wanted){.ended = true, .status = status, .copies = copies};
}

static void put_of(struct world *world, uint32_t node, uint32_t key, uint64_t bytes)
{
    uint64_t end_us = world->now_us + 5 * SECOND;

    client_put(world, node, 0, key, bytes, key % 32);
    while (client_pending(world) > 0) {
        WORLD_CHECK(world, world->now_us < end_us, "a put never ends");
        world_step(world, end_us);
    }
    WORLD_CHECK(world, world->puts[world->put_count].sealed, "a put failed");
}

static void put(struct world *world, uint32_t node, uint32_t key)
{
    put_of(world, node, key, 100 + 700 * key);
}

static void replicate(struct world *world, uint32_t node, uint32_t key, uint32_t copies)
{
    uint8_t id[LIMIT_ID_BYTES];
    struct world_lane *lane;
    struct exchange_copies asked = {.wanted = copies,
                                    .deadline_us = world->now_us + 20 * SECOND,
                                    .done = on_copies,
                                    .context = &waits[key]};

    bytes_id(world, key, id);
    lane = world_lane_of(world, node, hash_id20(id));
    waits[key] = (struct wanted){0};
    assert_int_equal(exchange_replicate(lane->exchange, world->nodes[node].pool_number[0], id,
                                        &asked, world->now_us),
                     NIGH_PENDING);
    lane->quiet_until_us = 0;
    world->nodes[node].due_us = world->now_us;
}

static void wait_copies(struct world *world, uint32_t key, nigh_status status, uint32_t copies)
{
    uint64_t end_us = world->now_us + 30 * SECOND;

    while (!waits[key].ended) {
        WORLD_CHECK(world, world->now_us < end_us, "a wait for replicas never ends");
        world_step(world, end_us);
    }
    WORLD_CHECK(world, waits[key].status == status && waits[key].copies == copies,
                "key %u: %s, %u copies", key, nigh_status_name(waits[key].status),
                waits[key].copies);
}

/* Nodes that live and hold a key as a replica. */
static uint32_t held_by(struct world *world, uint32_t key)
{
    struct store_sight sight;
    uint32_t count = 0;

    for (uint32_t n = 0; n < world->node_count; n++) {
        count += world->nodes[n].alive && client_see(world, n, key, &sight) && sight.replicas > 0;
    }
    return count;
}

static uint32_t home_of(struct world *world, uint32_t key)
{
    struct directory_key name = {0};
    struct world_lane *lane;
    uint64_t hash;
    uint32_t home;
    uint8_t id[LIMIT_ID_BYTES];

    bytes_id(world, key, id);
    for (uint32_t n = 0; n < world->node_count; n++) {
        if (world->nodes[n].alive) {
            lane = world_lane_of(world, n, hash_id20(id));
            exchange_key(lane->exchange, world->nodes[n].pool_number[0], id, &name, &hash, &home);
            return home;
        }
    }
    return 0;
}

/* Until every node that lives takes these for dead, and no other. */
static void wait_known(struct world *world)
{
    uint64_t end_us = world->now_us + 30 * SECOND;

    for (;;) {
        bool known = true;

        for (uint32_t n = 0; n < world->node_count; n++) {
            for (uint32_t other = 0; world->nodes[n].alive && other < world->node_count; other++) {
                const struct exchange *exchange = world->nodes[n].lane[0].exchange;
                struct exchange_stats stats;

                known =
                    known && (n == other || directory_member_is_dead(exchange->directory, other) !=
                                                world->nodes[other].alive);
                exchange_stats(exchange, &stats);
                known = known && stats.links_up > 0;
            }
        }
        if (known) {
            return;
        }
        WORLD_CHECK(world, world->now_us < end_us, "who lives is not known everywhere");
        world_run(world, 5000);
    }
}

/* All keys have as many replicas as are wanted, within the bound. */
static uint64_t wait_whole(struct world *world, uint32_t keys, uint32_t copies)
{
    uint64_t begun_us = world->now_us;

    for (;;) {
        bool whole = true;

        for (uint32_t key = 0; key < keys; key++) {
            whole = whole && held_by(world, key) >= copies;
        }
        if (whole) {
            return world->now_us - begun_us;
        }
        WORLD_CHECK(world, world->now_us - begun_us <= LIMIT_REPAIR_US,
                    "replicas are missing beyond the bound");
        world_run(world, 2000);
    }
}

static void wait_one(struct world *world, uint32_t key, uint32_t copies)
{
    uint64_t end_us = world->now_us + LIMIT_REPAIR_US;

    while (held_by(world, key) < copies) {
        WORLD_CHECK(world, world->now_us < end_us, "key %u is held by %u beyond the bound", key,
                    held_by(world, key));
        world_run(world, 2000);
    }
}

/* Every node that lives reads every key. */
static void read_all(struct world *world, uint32_t keys)
{
    uint64_t ok = totals.gets_ok, gets = totals.gets, end_us = world->now_us + 30 * SECOND;

    for (uint32_t n = 0; n < world->node_count; n++) {
        for (uint32_t key = 0; world->nodes[n].alive && key < keys; key++) {
            (void)client_get(world, n, 0, key, 20 * SECOND, SESSION_FLAG_NO_COPY);
        }
    }
    while (client_pending(world) > 0) {
        WORLD_CHECK(world, world->now_us < end_us, "gets never end");
        world_step(world, end_us);
    }
    client_release_all(world);
    WORLD_CHECK(world, totals.gets_ok - ok == totals.gets - gets, "of %llu gets %llu are well",
                (unsigned long long)(totals.gets - gets),
                (unsigned long long)(totals.gets_ok - ok));
}

static void read_at(struct world *world, uint32_t node, uint32_t key, uint8_t flags)
{
    uint64_t ok = totals.gets_ok, end_us = world->now_us + 30 * SECOND;

    (void)client_get(world, node, 0, key, 20 * SECOND, flags);
    while (client_pending(world) > 0) {
        WORLD_CHECK(world, world->now_us < end_us, "a get never ends");
        world_step(world, end_us);
    }
    client_release_all(world);
    WORLD_CHECK(world, totals.gets_ok == ok + 1, "key %u is not read by node %u", key, node);
}

static void finish(struct world *world)
{
    for (uint32_t n = 0; n < world->node_count; n++) {
        for (uint32_t i = 0; world->nodes[n].alive && i < world->nodes[n].lanes; i++) {
            WORLD_CHECK(world, exchange_is_valid(world->nodes[n].lane[i].exchange),
                        "the books of node %u are wrong", n);
        }
    }
    world_destroy(world);
}

/* ---- the tests ------------------------------------------------------------ */

static void put_all(struct world *world, uint32_t copies)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        put(world, key % NODES, key);
        replicate(world, key % NODES, key, copies);
    }
    for (uint32_t key = 0; key < KEYS; key++) {
        wait_copies(world, key, NIGH_OK, copies);
        WORLD_CHECK(world, held_by(world, key) == copies, "key %u is held by %u", key,
                    held_by(world, key));
    }
}

static void a_replica_that_is_lost_is_made_again(void **state)
{
    uint64_t longest_us = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= seeds(12); seed++) {
        struct world *world = begin(seed);

        put_all(world, 3);
        /* Down to three nodes: the last that is made again has no other place. */
        for (uint32_t dead = 0; dead < NODES - 3; dead++) {
            uint32_t victim = (uint32_t)world_below(world, NODES);

            while (!world->nodes[victim].alive) {
                victim = (victim + 1) % NODES;
            }
            node_crash(world, victim, false);
            wait_known(world);
            longest_us = max_u64(longest_us, wait_whole(world, KEYS, 3));
            read_all(world, KEYS);
        }
        /* With two there are two; who comes back has one again. */
        for (uint32_t n = 0; n < NODES; n++) {
            if (world->nodes[n].alive) {
                node_crash(world, n, false);
                wait_known(world);
                wait_whole(world, KEYS, 2);
                read_all(world, KEYS);
                node_start(world, n);
                break;
            }
        }
        wait_known(world);
        longest_us = max_u64(longest_us, wait_whole(world, KEYS, 3));
        finish(world);
    }
    printf("# after a death was known all were whole again after %llu ms at most\n",
           (unsigned long long)longest_us / 1000);
}

/* The home, which keeps account, dies a little later each time: while it is told, while others are
 * asked, while they pull, when it is over. What was said to be held by three is, afterwards. */
static void the_home_dies_at_every_step(void **state)
{
    uint32_t acknowledged = 0, rounds = 0;

    (void)state;
    for (uint64_t step = 0; step < 60; step += 60 / seeds(30) + 1) {
        struct world *world = begin(100 + step);
        uint32_t key = 0, node;

        while (home_of(world, key) == 1) {
            key++; /* the client's own node is another */
        }
        node = home_of(world, key);
        for (uint32_t other = 0; other < key; other++) {
            put(world, 1, other); /* serials are in the order of keys */
        }
        put(world, 1, key);
        replicate(world, 1, key, 3);
        world_run(world, step * 25);
        acknowledged += waits[key].ended ? 1 : 0;
        node_crash(world, node, false);
        wait_known(world);
        wait_copies(world, key, NIGH_OK, 3);
        wait_one(world, key, 3);
        read_all(world, key + 1);
        rounds++;
        /* Its first node, too: two are left, and a third is made. */
        node_crash(world, 1, false);
        wait_known(world);
        wait_one(world, key, 3);
        finish(world);
    }
    printf("# %u rounds, %u of them after the end of the put\n", rounds, acknowledged);
    assert_in_range(acknowledged, 1, rounds - 1);
}

static void cut(struct world *world, uint32_t side, bool is_cut)
{
    for (uint32_t a = 0; a < side; a++) {
        for (uint32_t b = side; b < NODES; b++) {
            world->cut[a * NODES + b] = world->cut[b * NODES + a] = is_cut;
            sim_cut(world->sim, a, b, is_cut);
            if (is_cut) {
                control_break(world, a, b);
            }
        }
    }
}

/* Both sides keep what they have, and make it whole as far as they can; together again they have
 * neither too few nor, after a while, too many. */
static void a_cluster_falls_in_two_and_heals(void **state)
{
    (void)state;
    for (uint64_t seed = 200; seed < 200 + seeds(8); seed++) {
        struct world *world = begin(seed);
        uint64_t end_us;

        put_all(world, 3);
        cut(world, 3, true);
        world_run(world, 3 * DEAD + LIMIT_REPAIR_US);
        for (uint32_t key = 0; key < KEYS; key++) {
            uint32_t held = held_by(world, key);

            WORLD_CHECK(world, held == 3 || held == 6, "key %u is held by %u", key, held);
        }
        cut(world, 3, false);
        wait_known(world);
        end_us = world->now_us + 30 * SECOND;
        for (uint32_t key = 0; key < KEYS; key++) {
            while (held_by(world, key) != 3) {
                WORLD_CHECK(world, world->now_us < end_us, "key %u is held by %u", key,
                            held_by(world, key));
                world_run(world, 10000);
            }
        }
        read_all(world, KEYS);
        finish(world);
    }
}

/* A delete takes all, and nothing is made again of what it took. */
static void a_delete_takes_all(void **state)
{
    (void)state;
    for (uint64_t seed = 300; seed < 300 + seeds(8); seed++) {
        struct world *world = begin(seed);
        struct exchange_stats stats;

        put_all(world, 4);
        for (uint32_t key = 0; key < KEYS; key++) {
            (void)client_delete(world, (uint32_t)world_below(world, NODES), 0, key);
        }
        world_run(world, 10 * SECOND);
        for (uint32_t key = 0; key < KEYS; key++) {
            struct store_sight sight;

            for (uint32_t n = 0; n < NODES; n++) {
                WORLD_CHECK(world, !client_see(world, n, key, &sight), "key %u is at %u", key, n);
            }
        }
        for (uint32_t n = 0; n < NODES; n++) {
            for (uint32_t lane = 0; lane < world->nodes[n].lanes; lane++) {
                exchange_stats(world->nodes[n].lane[lane].exchange, &stats);
                assert_int_equal(stats.replicas.keys, 0);
                assert_int_equal(stats.replica_bytes, 0);
            }
        }
        finish(world);
    }
}

/* Whether the keeper of a key knows that a node holds it. */
static bool is_known_by(struct world *world, uint32_t keeper, uint32_t key, uint32_t node)
{
    struct directory_answer answer;
    struct directory_key name;
    uint8_t id[LIMIT_ID_BYTES];
    struct exchange *exchange;
    uint64_t hash;
    uint32_t home;

    bytes_id(world, key, id);
    exchange = world_lane_of(world, keeper, hash_id20(id))->exchange;
    exchange_key(exchange, world->nodes[keeper].pool_number[0], id, &name, &hash, &home);
    if (replicas_locate(exchange->replication->keeper, keeper, &name, exchange->now_us, &answer) !=
        NIGH_OK) {
        return false;
    }
    for (uint32_t n = 0; n < answer.holder_count; n++) {
        if (answer.holders[n] == node) {
            return true;
        }
    }
    return false;
}

/* A keeper that takes another for the keeper, for a moment in which nobody else does, forgets; it
 * hears again. */
static void a_keeper_that_forgot_hears_again(void **state)
{
    struct world *world = begin(500);
    uint32_t home = home_of(world, 0), node = (home + 1) % NODES, keeper = 0;
    uint8_t id[LIMIT_ID_BYTES];
    struct world_lane *lane;

    (void)state;
    bytes_id(world, 0, id);
    put(world, node, 0);
    replicate(world, node, 0, 2);
    wait_copies(world, 0, NIGH_OK, 2);
    node_crash(world, home, false);
    wait_known(world);
    wait_one(world, 0, 2);
    while (keeper < NODES && (keeper == home || !is_known_by(world, keeper, 0, node))) {
        keeper++;
    }
    assert_in_range(keeper, 0, NODES - 1);
    lane = world_lane_of(world, keeper, hash_id20(id));
    directory_member_up(lane->exchange->directory, home, UINT64_MAX);
    replication_moved(lane->exchange);
    lane->quiet_until_us = 0;
    world->nodes[keeper].due_us = world->now_us;
    world_run(world, SECOND);
    assert_false(is_known_by(world, keeper, 0, node));
    exchange_peer_dead(lane->exchange, home, world->now_us);
    world_run(world, REPLICAS_REFRESH_US + SECOND);
    assert_true(is_known_by(world, keeper, 0, node));
    finish(world);
    node_forget_memory();
}

/* More than there are members: what can be is made, and the number is said. */
/* ---- reading -------------------------------------------------------------- */

/* What node `of` has measured of its link to a holder of a key. */
static void measured(struct world *world, uint32_t of, uint32_t holder, uint32_t key, uint32_t us)
{
    uint8_t id[LIMIT_ID_BYTES];
    struct exchange_link *link;

    bytes_id(world, key, id);
    link =
        exchange_link_to(world_lane_of(world, of, hash_id20(id))->exchange, holder, hash_id20(id));
    assert_non_null(link);
    memset(&link->crossovers[false].classes, 0, sizeof(link->crossovers[false].classes));
    link->crossovers[false].classes[0][0] = (struct crossover_class){.took_us = {us}, .count = 1};
}

static uint64_t served_of(struct world *world, uint32_t rank)
{
    uint64_t bytes = 0;

    for (uint32_t n = 0; n < world->nodes[rank].lanes; n++) {
        struct exchange_stats stats;

        exchange_stats(world->nodes[rank].lane[n].exchange, &stats);
        bytes += stats.served_bytes;
    }
    return bytes;
}

/* Of three nodes that hold a key, and none of which is its home, which would serve it with its
 * answer, one is three times as near as the others: that one serves; when it is dead, another. */
static void the_nearest_that_lives_serves(void **state)
{
    (void)state;
    for (uint64_t seed = 400; seed < 400 + seeds(8); seed++) {
        struct world *world = begin(seed);

        for (uint32_t key = 0; key < KEYS; key++) {
            uint32_t first = home_of(world, key) + 1, reader = (first + 3) % NODES;
            uint32_t near = (first + (uint32_t)world_below(world, 3)) % NODES;
            uint64_t before;

            put_of(world, first % NODES, key, 20000 + key);
            for (uint32_t n = 1; n < 3; n++) {
                read_at(world, (first + n) % NODES, key, 0);
            }
            world_run(world, SECOND / 10); /* their home hears of these */
            for (uint32_t n = 0; n < 3; n++) {
                uint32_t holder = (first + n) % NODES;

                measured(world, reader, holder, key, holder == near ? 100 : 300);
            }
            before = served_of(world, near);
            read_at(world, reader, key, SESSION_FLAG_NO_COPY);
            WORLD_CHECK(world, served_of(world, near) > before, "node %u did not serve key %u",
                        near, key);
            if (key == KEYS - 1) {
                node_crash(world, near, false);
                wait_known(world);
                read_at(world, reader, key, SESSION_FLAG_NO_COPY);
            }
        }
        finish(world);
    }
}

static void too_few_members_are_said(void **state)
{
    struct world *world = begin(400);

    (void)state;
    put(world, 2, 0);
    replicate(world, 2, 0, 8);
    wait_copies(world, 0, NIGH_TOO_FEW, NODES);
    assert_int_equal(held_by(world, 0), NODES);
    finish(world);
    node_forget_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replica_that_is_lost_is_made_again),
        cmocka_unit_test(the_home_dies_at_every_step),
        cmocka_unit_test(a_cluster_falls_in_two_and_heals),
        cmocka_unit_test(a_delete_takes_all),
        cmocka_unit_test(a_keeper_that_forgot_hears_again),
        cmocka_unit_test(the_nearest_that_lives_serves),
        cmocka_unit_test(too_few_members_are_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
