/* SPDX-License-Identifier: Apache-2.0 */
/* Small scenarios of a simulated cluster, each told from its begin to its end: what is asserted is
 * the whole trace of what the scenario is about (trace.h). */
#include "support/support.h"

#include <stdio.h>

#include "base/hash.h"
#include "world.h"

#define NODES  3u
#define BYTES  1000u
#define SECOND UINT64_C(1000000)

static struct world_totals totals;

/* All know each other, and agree on who is there. */
static struct world *begin(struct trace *trace)
{
    struct world_options options = {
        .seed = 1,
        .nodes = NODES,
        .lanes = 1,
        .extents = 2,
        .entries = 256,
        .max_keys = 512,
        .max_puts = 64,
        .quantum_us = 50,
        .dead_after_us = SECOND,
        .views = true,
        .heard = trace,
    };
    struct world *world = world_create(&options, &totals);

    view_all(world);
    world_run(world, SECOND);
    trace->length = 0;
    trace->text[0] = '\0';
    return world;
}

/* A key whose home is a node. */
static uint32_t key_at(struct world *world, uint32_t home)
{
    for (uint32_t key = 0;; key++) {
        struct directory_key name = {0};
        uint8_t id[LIMIT_ID_BYTES];
        struct world_lane *lane;
        uint64_t hash;
        uint32_t rank;

        bytes_id(world, key, id);
        lane = world_lane_of(world, 0, hash_id20(id));
        exchange_key(lane->exchange, world->nodes[0].pool_number[0], id, &name, &hash, &rank);
        if (rank == home)
            return key;
    }
}

static void run_out(struct world *world)
{
    uint64_t end_us = world->now_us + 30 * SECOND;

    while (client_pending(world) > 0) {
        WORLD_CHECK(world, world->now_us < end_us, "something never ends");
        world_step(world, end_us);
    }
}

static void a_get_outlives_the_home(void **state)
{
    static const char *const words[] = {" put", " get", "crashes", "view", NULL};
    struct trace trace = {.words = words};
    struct world *world = begin(&trace);
    uint32_t key = key_at(world, 2);

    (void)state;
    client_put(world, 0, 0, key, BYTES, 0);
    run_out(world);
    node_crash(world, 2, false);
    (void)client_get(world, 1, 0, key, 10 * SECOND, 0);
    world_run(world, 3 * SECOND);
    view_without(world, 2, false);
    run_out(world);
    trace_assert(&trace,
                 "node 0: client 0 puts key %u, 1000 bytes: put 1\n"
                 "node 0: put 1 of key %u, 1000 bytes: NIGH_OK\n"
                 "node 2 crashes\n"
                 "node 1: client 0 gets key %u, within 10000.000 ms\n"
                 "view 3 is agreed on: nodes 0 1\n"
                 "view 3 is active\n"
                 "node 1: get of key %u: NIGH_OK, put 1\n",
                 key, key, key, key);
    client_release_all(world);
    world_destroy(world);
}

static void a_delete_reaches_who_pulled_it(void **state)
{
    static const char *const words[] = {" put", " get", " delete", NULL};
    struct trace trace = {.words = words};
    struct world *world = begin(&trace);
    uint32_t key = key_at(world, 2);

    (void)state;
    client_put(world, 0, 0, key, BYTES, 0);
    run_out(world);
    (void)client_get(world, 1, 0, key, SECOND, 0);
    run_out(world);
    client_release_all(world);
    world_run(world, SECOND / 10);
    (void)client_delete(world, 0, 0, key);
    run_out(world);
    (void)client_get(world, 1, 0, key, SECOND / 10, 0);
    run_out(world);
    trace_assert(&trace,
                 "node 0: client 0 puts key %u, 1000 bytes: put 1\n"
                 "node 0: put 1 of key %u, 1000 bytes: NIGH_OK\n"
                 "node 1: client 0 gets key %u, within 1000.000 ms\n"
                 "node 1: get of key %u: NIGH_OK, put 1\n"
                 "node 0: client 0 deletes key %u\n"
                 "node 0: delete of key %u (put 1 here): NIGH_OK\n"
                 "node 1: client 0 gets key %u, within 100.000 ms\n"
                 "node 1: get of key %u: NIGH_TIMEOUT, put 0\n",
                 key, key, key, key, key, key, key, key);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_get_outlives_the_home),
        cmocka_unit_test(a_delete_reaches_who_pulled_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
