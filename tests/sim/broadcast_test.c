/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One large object that many nodes pull at once, over links whose rate is limited: they form a
 * tree. How long that takes does not grow with them as it does without; no node serves more of
 * them at once than it may; and whoever dies, lets go or lies on the way down, all others end with
 * the right bytes, or by their deadlines.
 */
#include "support/support.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "world.h"

#define MIB        (UINT64_C(1) << 20)
#define DATA_BYTES (8 * MIB) /* in chunks of 128 KiB: as 64 MiB are in those of 1 MiB */
#define RATE       100u      /* bytes a microsecond: so an object passes in 84 ms */
#define WAIT_US    UINT64_C(60000000)
#define MANY       32u
#define CROWD      64u
#define FEW        8u
#define FANOUT     2u
#define NO_TREES   255u
#define KEY        0u

static struct world *open_world(uint32_t pullers, uint32_t fanout, struct world_totals *totals)
{
    struct world_options options = {
        .seed = 7,
        .nodes = pullers + 1,
        .lanes = 1,
        .extents = 12,
        .entries = 128,
        .max_keys = 64,
        .max_puts = 64,
        .quantum_us = 20,
        .fanout = fanout,
        .tree_bytes = MIB,
        .chunk_bytes = MIB / 8,
        .pull_bytes = 2 * DATA_BYTES,
        .bytes_a_us = RATE,
    };

    memset(totals, 0, sizeof(*totals));
    return world_create(&options, totals);
}

static bool all_links_are_up(const struct world *world)
{
    uint64_t links = 0;

    for (uint32_t n = 0; n < world->node_count; n++) {
        struct exchange_stats stats;

        exchange_stats(world->nodes[n].lane[0].exchange, &stats);
        links += stats.links_up;
    }
    return links == (uint64_t)world->node_count * (world->node_count - 1);
}

/* The object lies at node 0, and all know each other. */
static void put_object(struct world *world)
{
    uint64_t end_us = world->now_us + WAIT_US;

    while (!all_links_are_up(world) || !world_is_idle(world)) {
        WORLD_CHECK(world, world->now_us < end_us, "links do not come up");
        world_run(world, 2000);
    }
    client_put(world, 0, 0, KEY, DATA_BYTES, 8);
    while (client_pending(world) > 0 || !world_is_idle(world)) {
        WORLD_CHECK(world, world->now_us < end_us, "it is not put");
        world_run(world, 500);
    }
    WORLD_CHECK(world, world->puts[1].sealed, "it is not sealed");
}

static void ask_everywhere(struct world *world, uint64_t timeout_us)
{
    for (uint32_t n = 1; n < world->node_count; n++) {
        (void)client_get(world, n, 0, KEY, timeout_us, 0);
    }
}

/* Pullers that a node serves now. */
static uint32_t served_by(const struct world *world, uint32_t rank)
{
    struct exchange_stats stats = {0};

    if (world->nodes[rank].alive) {
        exchange_stats(world->nodes[rank].lane[0].exchange, &stats);
    }
    return (uint32_t)stats.loans_now;
}

static uint64_t received_by(const struct world *world, uint32_t rank)
{
    const struct exchange *exchange = world->nodes[rank].lane[0].exchange;

    return exchange->pulls_used > 0 && exchange->pulls[0].state != PULL_FREE &&
                   exchange->pulls[0].wanted
               ? exchange->pulls[0].received
               : 0;
}

static void step(struct world *world, uint32_t most)
{
    world_step(world, world->now_us + 10000);
    for (uint32_t n = 0; n < world->node_count; n++) {
        WORLD_CHECK(world, served_by(world, n) <= most, "node %u serves %u at once", n,
                    served_by(world, n));
    }
}

/* Until every get has ended; how long that took. */
static uint64_t run_out(struct world *world, uint32_t most)
{
    uint64_t begin_us = world->now_us, took_us;

    while (client_pending(world) > 0) {
        WORLD_CHECK(world, world->now_us < begin_us + 2 * WAIT_US, "%u gets never end",
                    client_pending(world));
        step(world, most);
    }
    took_us = world->now_us - begin_us;
    client_release_all(world);
    world_run(world, 200000);
    WORLD_CHECK(world, world_is_idle(world), "something is left");
    world_check_all(world);
    return took_us;
}

static uint64_t time_of(uint32_t pullers, uint32_t fanout)
{
    struct world_totals totals;
    struct world *world = open_world(pullers, fanout, &totals);
    uint64_t took_us;

    put_object(world);
    ask_everywhere(world, WAIT_US);
    took_us = run_out(world, fanout);
    world_destroy(world);
    printf("# %u pullers, %u served at once: %.1f ms, %llu of %llu loans partial, %llu sent on\n",
           pullers, fanout, (double)took_us / 1000, (unsigned long long)totals.partial,
           (unsigned long long)totals.loans, (unsigned long long)totals.sent_on);
    assert_int_equal(totals.gets_ok, pullers);
    return took_us;
}

static void many_pull_about_as_fast_as_few(void **state)
{
    uint64_t few_us = time_of(FEW, FANOUT), many_us = time_of(MANY, FANOUT);
    uint64_t apart_us = time_of(MANY, NO_TREES);

    (void)state;
    assert_true(2 * many_us <= 3 * few_us);
    assert_true(apart_us >= 3 * many_us);
}

/* What grows is how deep the tree is. NIGH_SIM_NODES: as many. */
static void a_crowd_pulls_not_much_slower(void **state)
{
    const char *text = getenv("NIGH_SIM_NODES");
    uint32_t crowd = text != NULL && *text != '\0' ? (uint32_t)strtoul(text, NULL, 0) : CROWD;
    uint64_t few_us = time_of(FEW, FANOUT), crowd_us = time_of(crowd, FANOUT);

    (void)state;
    assert_true(2 * crowd_us <= 3 * few_us);
}

/* A node that pulls and serves others. */
static uint32_t find_relay(struct world *world)
{
    uint64_t end_us = world->now_us + WAIT_US;

    for (;;) {
        WORLD_CHECK(world, world->now_us < end_us && client_pending(world) > 0, "nobody relays");
        for (uint32_t n = 1; n < world->node_count; n++) {
            if (world->nodes[n].alive && served_by(world, n) > 0 &&
                received_by(world, n) > DATA_BYTES / 4) {
                return n;
            }
        }
        step(world, NO_TREES);
    }
}

static void relays_that_die_cost_nobody_else_anything(void **state)
{
    struct world_totals totals;
    struct world *world = open_world(MANY, FANOUT, &totals);

    (void)state;
    put_object(world);
    ask_everywhere(world, WAIT_US);
    for (uint32_t n = 0; n < 5; n++) {
        node_crash(world, find_relay(world), false);
    }
    (void)run_out(world, NO_TREES);
    world_destroy(world);
    assert_int_equal(totals.gets_ok, MANY - 5);
}

/* Who waits for it there does so no more. */
static void let_go(struct world *world, uint32_t rank)
{
    client_detach(world, rank, 0);
    client_attach(world, rank, 0);
}

static void relays_that_let_go_cost_nobody_else_anything(void **state)
{
    struct world_totals totals;
    struct world *world = open_world(MANY, FANOUT, &totals);

    (void)state;
    put_object(world);
    ask_everywhere(world, WAIT_US);
    for (uint32_t n = 0; n < 5; n++) {
        uint32_t rank = find_relay(world);

        let_go(world, rank);
    }
    (void)run_out(world, NO_TREES);
    world_destroy(world);
    assert_int_equal(totals.gets_ok, MANY - 5);
}

/* Nobody has all of it then, or who has it gives it to the others. */
static void the_end_of_the_source_is_the_end_of_nothing_else(void **state)
{
    struct world_totals totals;
    struct world *world = open_world(MANY, FANOUT, &totals);

    (void)state;
    put_object(world);
    ask_everywhere(world, WAIT_US / 10);
    (void)find_relay(world);
    node_crash(world, 0, false);
    (void)run_out(world, NO_TREES);
    world_destroy(world);
    assert_int_equal(totals.gets_ok + totals.gets_timeout, MANY);
    assert_int_equal(totals.gets_ok, 0);
}

static uint64_t wrong_sums(const struct world *world)
{
    uint64_t count = 0;

    for (uint32_t n = 0; n < world->node_count; n++) {
        struct exchange_stats stats;

        exchange_stats(world->nodes[n].lane[0].exchange, &stats);
        count += stats.crc_failures;
    }
    return count;
}

/* What a relay lends is not what it was lent: who read that finds out, and who was served by those
 * too. */
static void bytes_that_a_relay_damaged_reach_nobody(void **state)
{
    struct world_totals totals;
    struct world *world = open_world(FEW, FANOUT, &totals);
    const struct exchange *exchange;
    uint64_t received;
    uint32_t rank;

    (void)state;
    world->is_spoiling = true;
    put_object(world);
    ask_everywhere(world, WAIT_US);
    rank = find_relay(world);
    exchange = world->nodes[rank].lane[0].exchange;
    received = received_by(world, rank);
    exchange->arena[exchange->pulls[0].offset + received - 8] ^= 1; /* it has summed that */
    while (received_by(world, rank) < received + DATA_BYTES / 4) {
        step(world, NO_TREES);
    }
    let_go(world, rank); /* its own reader would see it, as memory that is damaged later is */
    (void)run_out(world, NO_TREES);
    assert_true(wrong_sums(world) > 0);
    world_destroy(world);
    assert_int_equal(totals.gets_ok, FEW - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_pull_about_as_fast_as_few),
        cmocka_unit_test(a_crowd_pulls_not_much_slower),
        cmocka_unit_test(relays_that_die_cost_nobody_else_anything),
        cmocka_unit_test(relays_that_let_go_cost_nobody_else_anything),
        cmocka_unit_test(the_end_of_the_source_is_the_end_of_nothing_else),
        cmocka_unit_test(bytes_that_a_relay_damaged_reach_nobody),
    };

    mallopt(M_MMAP_THRESHOLD, 65536);
    mallopt(M_PERTURB, 0); /* meson has it fill, and so touch, all that is allocated */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
