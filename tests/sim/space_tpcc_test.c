/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A database on a space, and nodes that are killed at any moment, whose disks lose, tear and
 * reorder what was not synced, by seed: docs/spaces.md, "A database whose nodes are
 * killed".
 */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "space_tpcc.h"

#define LEAST_KILLS 350u   /* of nodes, in each test */
#define ROUNDS      6u     /* of kills and a check, in a seed */
#define ROUND_KILLS 8u     /* in each, at most */
#define ROUND_MOST  40000u /* events of one */

static struct world world;
static struct tpcc tpcc;

struct sums {
    uint64_t seeds, checks, kills, blackouts, relapses, clients, fails, breaks, backs;
    uint64_t committed, rolled_back, aborted, killed, in_doubt, found, redone, undone, failed;
    uint64_t commits, images, events;
};

static struct sums all;

/* A sanitizer makes all slow. */
static uint64_t least(void)
{
    return getenv("NIGH_SIM_SEEDS") != NULL ? LEAST_KILLS / 10 : LEAST_KILLS;
}

static void look(bool is_so, uint64_t seed)
{
    if (!is_so || world.broken != NULL) {
        world_print(&world);
        fail_msg("%s: seed %llu, event %llu", world.broken, (unsigned long long)seed,
                 (unsigned long long)world.event);
    }
}

static void round_of_kills(uint64_t seed)
{
    uint64_t until = world.crashes + 1 + random_below(&tpcc.random, ROUND_KILLS);
    uint64_t end = world.event + ROUND_MOST;
    uint32_t node;

    world.is_calm = false;
    while (world.crashes < until && world.event < end) {
        look(world_run(&world, 1 + random_below(&tpcc.random, 32)), seed);
        if (random_below(&tpcc.random, 400) == 0 && tpcc_is_busy(&tpcc, &node)) {
            world_kill(&world, node);
        }
    }
    look(tpcc_check(&tpcc), seed);
}

static void add(struct sums *sums)
{
    sums->seeds++;
    sums->checks += ROUNDS;
    sums->kills += world.crashes;
    sums->blackouts += world.blackouts;
    sums->relapses += world.relapses;
    sums->clients += world.kills;
    sums->fails += world.fails;
    sums->breaks += world.breaks;
    sums->backs += world.backs;
    sums->committed += tpcc.committed;
    sums->rolled_back += tpcc.rolled_back;
    sums->aborted += tpcc.aborted;
    sums->killed += tpcc.killed;
    sums->in_doubt += tpcc.in_doubt;
    sums->found += tpcc.found_committed;
    sums->redone += tpcc.redone;
    sums->undone += tpcc.undone;
    sums->failed += tpcc.failed;
    sums->commits += world.commits;
    sums->images += world.images;
    sums->events += world.event;
}

static void print(const char *name, const struct sums *sums)
{
    printf("# %s: %llu seeds, %llu checks; %llu kills of nodes (%llu times all at once, %llu more "
           "as a log was recovered), %llu of clients, %llu breaks, %llu disks that fail; "
           "%llu commits; %llu transactions killed, %llu of them in doubt, of which %llu were "
           "committed; %llu aborted, %llu rolled back, %llu failed; %llu rows redone, %llu undone; "
           "%llu batches, %llu images, %llu "
           "events\n",
           name, (unsigned long long)sums->seeds, (unsigned long long)sums->checks,
           (unsigned long long)sums->kills, (unsigned long long)sums->blackouts,
           (unsigned long long)sums->relapses, (unsigned long long)sums->clients,
           (unsigned long long)sums->breaks, (unsigned long long)sums->fails,
           (unsigned long long)sums->committed, (unsigned long long)sums->killed,
           (unsigned long long)sums->in_doubt, (unsigned long long)sums->found,
           (unsigned long long)sums->aborted, (unsigned long long)sums->rolled_back,
           (unsigned long long)sums->failed, (unsigned long long)sums->redone,
           (unsigned long long)sums->undone, (unsigned long long)sums->commits,
           (unsigned long long)sums->images, (unsigned long long)sums->events);
}

static void run_all(struct world_rules rules, const char *name)
{
    uint64_t seed = support_seed(), end_us = support_now_us() + support_budget_ms(0) * 1000 / 3;
    struct sums sums = {0};

    rules.logs = rules.sync = rules.crashes = rules.kills = rules.breaks = true;
    for (; sums.kills < least() || support_now_us() < end_us; seed++) {
        struct world_rules now = rules;

        now.nodes = 3 + (uint32_t)(seed % 3);
        now.clients = 1 + (uint32_t)(seed / 3 % WORLD_CLIENTS);
        now.slow = UINT32_C(1) << 2 * (seed / 2 % 3);
        now.sets = 1 + (uint32_t)(seed / 9 % 2);
        look(tpcc_init(&tpcc, &world, &now, seed), seed);
        for (uint32_t n = 0; n < ROUNDS; n++) {
            round_of_kills(seed);
        }
        world_fini(&world);
        add(&sums);
        add(&all);
    }
    print(name, &sums);
}

static void nodes_are_killed(void **state)
{
    (void)state;
    run_all((struct world_rules){.restarts = true}, "nodes");
}

static void all_are_killed_at_once(void **state)
{
    (void)state;
    run_all((struct world_rules){.restarts = true, .blackouts = true}, "all at once");
}

static void disks_fail_too(void **state)
{
    (void)state;
    run_all((struct world_rules){.restarts = true, .blackouts = true, .fails = true}, "disks");
}

static int print_all(void **state)
{
    (void)state;
    print("in all", &all);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_killed),
        cmocka_unit_test(all_are_killed_at_once),
        cmocka_unit_test(disks_fail_too),
    };

    return cmocka_run_group_tests(tests, NULL, print_all);
}
