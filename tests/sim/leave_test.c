/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that leave, in whole clusters, by seed (docs/leaving.md): afterwards all that was sealed is
 * read without them; they, who is handed something, or the home may die at any moment, and what was
 * said to be safe is. NIGH_SIM_SEEDS changes how many worlds there are.
 */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "object/exchange_internal.h"
#include "object/exchange_replicas.h"
#include "world.h"

#define NODES  5u
#define KEYS   20u
#define LEAVER 1u
#define DEAD   UINT64_C(900000)
#define SECOND UINT64_C(1000000)

static uint32_t seeds(uint32_t otherwise)
{
    const char *text = getenv("NIGH_SIM_SEEDS");

    return text != NULL && *text != '\0' ? (uint32_t)strtoul(text, NULL, 0) / 10 + 1 : otherwise;
}

static struct world_totals totals;

static struct world *begin(uint64_t seed, uint32_t nodes)
{
    struct world_options options = {
        .seed = seed,
        .nodes = nodes,
        .lanes = 1u << seed % 2,
        .extents = 2,
        .entries = 256,
        .max_keys = 512,
        .max_puts = 256,
        .quantum_us = 50,
        .dead_after_us = DEAD,
    };
    struct world *world = world_create(&options, &totals);

    world_run(world, SECOND);
    return world;
}

static void finish(struct world *world)
{
    for (uint32_t n = 0; n < world->node_count; n++) {
        for (uint32_t i = 0; world->nodes[n].alive && i < world->nodes[n].lanes; i++) {
            WORLD_CHECK(world, exchange_is_valid(world->nodes[n].lane[i].exchange),
                        "the books of node %u are wrong", n);
            WORLD_CHECK(world, store_is_valid(world->nodes[n].lane[i].store),
                        "the store of node %u is wrong", n);
        }
    }
    world_destroy(world);
}

static void wait_clients(struct world *world)
{
    uint64_t end_us = world->now_us + 30 * SECOND;

    while (client_pending(world) > 0) {
        WORLD_CHECK(world, world->now_us < end_us, "an operation never ends");
        world_step(world, end_us);
    }
}

static void put(struct world *world, uint32_t node, uint32_t key, uint64_t bytes)
{
    client_put(world, node, 0, key, bytes, key % 32);
    wait_clients(world);
    WORLD_CHECK(world, world->puts[world->put_count].sealed, "a put failed");
}

static struct exchange *exchange_of(struct world *world, uint32_t node, uint32_t key)
{
    uint8_t id[LIMIT_ID_BYTES];

    bytes_id(world, key, id);
    return world_lane_of(world, node, hash_id20(id))->exchange;
}

static void on_copies(void *context, uint64_t token, nigh_status status, uint32_t copies)
{
    (void)token;
    (void)copies;
    *(nigh_status *)context = status;
}

static void replicate(struct world *world, uint32_t node, uint32_t key, uint32_t copies)
{
    static nigh_status ended;
    uint64_t end_us = world->now_us + 20 * SECOND;
    struct exchange_copies asked = {
        .wanted = copies, .deadline_us = end_us, .done = on_copies, .context = &ended};
    uint8_t id[LIMIT_ID_BYTES];

    ended = NIGH_PENDING;
    bytes_id(world, key, id);
    assert_int_equal(exchange_replicate(exchange_of(world, node, key),
                                        world->nodes[node].pool_number[0], id, &asked,
                                        world->now_us),
                     NIGH_PENDING);
    while (ended == NIGH_PENDING) {
        world_step(world, end_us);
    }
    assert_int_equal(ended, NIGH_OK);
}

static void leave(struct world *world, uint32_t node, bool leaves)
{
    for (uint32_t lane = 0; lane < world->nodes[node].lanes; lane++) {
        exchange_leave(world->nodes[node].lane[lane].exchange, leaves, world->now_us);
        world->nodes[node].lane[lane].quiet_until_us = 0;
    }
    world->nodes[node].due_us = world->now_us;
}

static struct exchange_leaving leaving(struct world *world, uint32_t node)
{
    struct exchange_leaving sum = {0};

    for (uint32_t n = 0; n < world->nodes[node].lanes; n++) {
        struct exchange_leaving lane;

        exchange_leaving(world->nodes[node].lane[n].exchange, &lane);
        sum.looks = sum.looks || lane.looks;
        sum.waiting.objects += lane.waiting.objects;
        sum.safe.objects += lane.safe.objects;
        sum.stuck.objects += lane.stuck.objects;
        sum.alone.objects += lane.alone.objects;
        for (uint32_t why = 0; why < EXCHANGE_LEAVE_WHYS; why++) {
            sum.why[why] += lane.why[why];
        }
    }
    return sum;
}

/* Whether the node says of a key that others have it. */
static bool is_safe(struct world *world, uint32_t node, uint32_t key)
{
    struct directory_key name;
    uint8_t id[LIMIT_ID_BYTES];
    struct held *held;
    uint64_t hash;
    uint32_t home;

    bytes_id(world, key, id);
    exchange_key(exchange_of(world, node, key), world->nodes[node].pool_number[0], id, &name, &hash,
                 &home);
    held = replication_find(exchange_of(world, node, key)->replication, &name);
    return held != NULL && held->leave == LEAVE_SAFE;
}

static struct exchange_leaving wait_left(struct world *world, uint32_t node)
{
    uint64_t end_us = world->now_us + 60 * SECOND;
    struct exchange_leaving now = leaving(world, node);

    while (now.looks || now.waiting.objects > 0) {
        WORLD_CHECK(world, world->now_us < end_us, "a leave never ends: %llu wait",
                    (unsigned long long)now.waiting.objects);
        world_run(world, 5000);
        now = leaving(world, node);
    }
    return now;
}

/* Until every node that lives takes these for dead, and no other. */
static void wait_known(struct world *world)
{
    uint64_t end_us = world->now_us + 30 * SECOND;
    bool known = false;

    while (!known) {
        world_run(world, 5000);
        known = true;
        for (uint32_t n = 0; n < world->node_count; n++) {
            const struct exchange *exchange = world->nodes[n].lane[0].exchange;

            for (uint32_t other = 0; world->nodes[n].alive && other < world->node_count; other++) {
                known =
                    known && (n == other || directory_member_is_dead(exchange->directory, other) !=
                                                world->nodes[other].alive);
            }
        }
        WORLD_CHECK(world, world->now_us < end_us, "who lives is not known everywhere");
    }
}

/* Without views no home moves: what was put elsewhere is not found while its home is dead. */
static bool is_homeless(struct world *world, uint32_t key)
{
    struct directory_key name;
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t hash;
    uint32_t home;

    bytes_id(world, key, id);
    exchange_key(exchange_of(world, LEAVER + 1, key), world->nodes[LEAVER + 1].pool_number[0], id,
                 &name, &hash, &home);
    return home == LEAVER;
}

/* Every node that lives reads a key. */
static void read_key(struct world *world, uint32_t key)
{
    uint64_t ok = totals.gets_ok, gets = totals.gets;

    for (uint32_t n = 0; n < world->node_count; n++) {
        if (world->nodes[n].alive) {
            (void)client_get(world, n, 0, key, 20 * SECOND, SESSION_FLAG_NO_COPY);
        }
    }
    wait_clients(world);
    client_release_all(world);
    WORLD_CHECK(world, totals.gets_ok - ok == totals.gets - gets,
                "key %u: of %llu gets %llu are well", key, (unsigned long long)(totals.gets - gets),
                (unsigned long long)(totals.gets_ok - ok));
}

static uint32_t given_to(struct world *world, uint32_t key)
{
    struct store_sight sight;
    uint32_t count = 0;

    for (uint32_t n = 0; n < world->node_count; n++) {
        count += world->nodes[n].alive && client_see(world, n, key, &sight) && sight.is_given;
    }
    return count;
}

/* ---- the tests ------------------------------------------------------------ */

/* Every fourth key has replicas; every fourth was put elsewhere, and is only a copy at who leaves.
 */
static void put_all(struct world *world)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        uint32_t node = key % 4 == 3 ? LEAVER + 1 : LEAVER;

        put(world, node, key, 100 + 700 * key);
        if (key % 4 == 2) {
            replicate(world, node, key, 2 + key % 2);
        } else if (node != LEAVER) {
            (void)client_get(world, LEAVER, 0, key, 20 * SECOND, 0);
            wait_clients(world);
            client_release_all(world);
        }
    }
}

static void read_all(struct world *world)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        if (key % 4 != 3 || !is_homeless(world, key)) {
            read_key(world, key);
        }
    }
}

static void all_is_read_without_who_left(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= seeds(16); seed++) {
        struct world *world = begin(seed, NODES);
        struct exchange_leaving left;

        put_all(world);
        leave(world, LEAVER, true);
        left = wait_left(world, LEAVER);
        WORLD_CHECK(world, left.stuck.objects == 0 && left.safe.objects == KEYS - KEYS / 4,
                    "%llu are stuck, %llu safe", (unsigned long long)left.stuck.objects,
                    (unsigned long long)left.safe.objects);
        for (uint32_t key = 0; key < KEYS; key += 4) {
            WORLD_CHECK(world, given_to(world, key) == 1, "key %u was given to %u", key,
                        given_to(world, key));
        }
        node_crash(world, LEAVER, false);
        wait_known(world);
        read_all(world);
        /* It counts as what was born there: a restart that keeps memory keeps it, and its birth. */
        for (uint32_t n = 0; n < NODES; n++) {
            if (n != LEAVER) {
                node_crash(world, n, true);
                wait_known(world);
                node_start(world, n);
                wait_known(world);
                world_run(world, LIMIT_REPAIR_US);
            }
        }
        world_run(world, 2 * SECOND);
        read_all(world);
        /* And goes on with the next that leaves. */
        leave(world, LEAVER + 1, true);
        left = wait_left(world, LEAVER + 1);
        WORLD_CHECK(world, left.stuck.objects == 0, "%llu are stuck",
                    (unsigned long long)left.stuck.objects);
        node_crash(world, LEAVER + 1, false);
        wait_known(world);
        for (uint32_t key = 0; key < KEYS; key++) {
            read_key(world, key);
        }
        finish(world);
    }
}

/* Who leaves dies a little later each time, and before that, in every other world, another: what
 * was said to be safe is. */
static void what_was_said_to_be_safe_is(void **state)
{
    uint32_t safe = 0, lost = 0;

    (void)state;
    for (uint64_t seed = 100; seed < 100 + seeds(40); seed++) {
        struct world *world = begin(seed, NODES);
        uint64_t step_us = world_below(world, 40000);
        bool safely[KEYS];

        for (uint32_t key = 0; key < KEYS; key++) {
            put(world, LEAVER, key, 100 + 2500 * key);
        }
        leave(world, LEAVER, true);
        world_run(world, step_us);
        if (seed % 2 == 1) {
            node_crash(world, (LEAVER + 1 + (uint32_t)world_below(world, NODES - 1)) % NODES,
                       false);
            wait_known(world);
            world_run(world, world_below(world, 2 * SECOND));
        }
        for (uint32_t key = 0; key < KEYS; key++) {
            safely[key] = is_safe(world, LEAVER, key);
            safe += safely[key];
            lost += !safely[key];
        }
        node_crash(world, LEAVER, false);
        wait_known(world);
        for (uint32_t key = 0; key < KEYS; key++) {
            if (safely[key]) {
                read_key(world, key);
            }
        }
        finish(world);
    }
    printf("# %u were safe when their node died, %u not yet\n", safe, lost);
    assert_true(safe > 0 && lost > 0);
}

/* One after the other dies while a node leaves: as long as it lives it goes on, and in the end all
 * is safe. */
static void it_goes_on_while_others_die(void **state)
{
    (void)state;
    for (uint64_t seed = 200; seed < 200 + seeds(16); seed++) {
        struct world *world = begin(seed, NODES);

        for (uint32_t key = 0; key < KEYS; key++) {
            put(world, LEAVER, key, 100 + 700 * key);
        }
        leave(world, LEAVER, true);
        for (uint32_t deaths = 0; deaths < NODES - 2; deaths++) {
            uint32_t victim = (LEAVER + 1 + (uint32_t)world_below(world, NODES - 1)) % NODES;

            while (!world->nodes[victim].alive || victim == LEAVER) {
                victim = (victim + 1) % NODES;
            }
            world_run(world, world_below(world, 300000));
            node_crash(world, victim, false);
        }
        wait_known(world);
        world_run(world, LIMIT_REPAIR_US);
        WORLD_CHECK(world, wait_left(world, LEAVER).safe.objects == KEYS, "not all is safe");
        node_crash(world, LEAVER, false);
        wait_known(world);
        for (uint32_t key = 0; key < KEYS; key++) {
            read_key(world, key);
        }
        finish(world);
    }
}

static void what_is_deleted_meanwhile_stays_deleted(void **state)
{
    (void)state;
    for (uint64_t seed = 300; seed < 300 + seeds(16); seed++) {
        struct world *world = begin(seed, NODES);
        struct store_sight sight;

        for (uint32_t key = 0; key < KEYS; key++) {
            put(world, LEAVER, key, 100 + 2500 * key);
        }
        leave(world, LEAVER, true);
        for (uint32_t key = 0; key < KEYS; key++) {
            world_run(world, world_below(world, 3000));
            (void)client_delete(world, (uint32_t)world_below(world, NODES), 0, key);
        }
        wait_clients(world);
        (void)wait_left(world, LEAVER);
        node_crash(world, LEAVER, false);
        wait_known(world);
        world_run(world, 10 * SECOND);
        for (uint32_t key = 0; key < KEYS; key++) {
            for (uint32_t n = 0; n < NODES; n++) {
                WORLD_CHECK(world, !world->nodes[n].alive || !client_see(world, n, key, &sight),
                            "key %u is at %u", key, n);
            }
        }
        finish(world);
    }
}

/* Undone: it takes puts again, what it handed over is a copy there, and nobody keeps account. */
static void a_leave_that_is_undone(void **state)
{
    (void)state;
    for (uint64_t seed = 400; seed < 400 + seeds(8); seed++) {
        struct world *world = begin(seed, NODES);
        uint64_t end_us;
        uint32_t keys = 1;

        for (uint32_t key = 0; key < KEYS; key++) {
            put(world, LEAVER, key, 100 + 700 * key);
        }
        leave(world, LEAVER, true);
        (void)wait_left(world, LEAVER);
        leave(world, LEAVER, false);
        put(world, LEAVER, KEYS, 100);
        end_us = world->now_us + 90 * SECOND;
        while (keys > 0) {
            WORLD_CHECK(world, world->now_us < end_us, "there is account of %u keys still", keys);
            world_run(world, 100000);
            keys = 0;
            for (uint32_t n = 0; n < NODES; n++) {
                for (uint32_t lane = 0; lane < world->nodes[n].lanes; lane++) {
                    struct exchange_stats stats;

                    exchange_stats(world->nodes[n].lane[lane].exchange, &stats);
                    keys += (uint32_t)stats.replicas.keys;
                }
            }
        }
        for (uint32_t key = 0; key < KEYS; key++) {
            WORLD_CHECK(world, given_to(world, key) == 0, "key %u is given still", key);
        }
        assert_int_equal(leaving(world, LEAVER).safe.objects, 0);
        finish(world);
    }
}

/* All but one leave: nothing is handed to who leaves, too. */
static void all_but_one_leave(void **state)
{
    (void)state;
    for (uint64_t seed = 500; seed < 500 + seeds(8); seed++) {
        struct world *world = begin(seed, NODES);

        for (uint32_t key = 0; key < KEYS; key++) {
            put(world, key % NODES, key, 100 + 700 * key);
        }
        for (uint32_t n = 1; n < NODES; n++) {
            leave(world, n, true);
        }
        for (uint32_t n = 1; n < NODES; n++) {
            uint64_t end_us = world->now_us + 30 * SECOND;

            while (wait_left(world, n).stuck.objects > 0) {
                WORLD_CHECK(world, world->now_us < end_us, "some of %u stay stuck", n);
                world_run(world, 100000);
            }
        }
        for (uint32_t n = 1; n < NODES; n++) {
            node_crash(world, n, false);
        }
        wait_known(world);
        for (uint32_t key = 0; key < KEYS; key++) {
            read_key(world, key);
        }
        finish(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_read_without_who_left),
        cmocka_unit_test(what_was_said_to_be_safe_is),
        cmocka_unit_test(it_goes_on_while_others_die),
        cmocka_unit_test(what_is_deleted_meanwhile_stays_deleted),
        cmocka_unit_test(a_leave_that_is_undone),
        cmocka_unit_test(all_but_one_leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
