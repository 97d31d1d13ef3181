/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node is killed at every boundary of its log and of what is given: before and after each
 * operation of its disk, and each message that leaves it or comes to it. A seed is run once to
 * count them, and then once for each, up to there; the node is killed, its disk loses, tears and
 * reorders what was not synced, it is there again on that, and the seed goes on to its end: all
 * that space_world.c looks at is looked at (docs/spaces.md, "Logs").
 */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "space_world.h"
#include "tables.h"

/* Of all seeds that are always run, before and after each: fewer would show less than they do. */
static const uint64_t least[BOUNDARIES] = {0};

static struct world world;
static struct world_kill sums;
static uint64_t turns, backs;

static void run(const struct world_rules *rules, uint64_t seed)
{
    tables_keep(true);
    world_init(&world, rules, seed);
    if (!world_run(&world, rules->events) || !world_calm(&world) || !world_judge(&world)) {
        world_print(&world);
        fail_msg("%s: seed %llu, event %llu, killed at boundary %llu of node %u, %s %s",
                 world.broken, (unsigned long long)seed, (unsigned long long)world.event,
                 (unsigned long long)rules->killed_at, rules->killed,
                 world.kill.is_after ? "after" : "before", world_boundary_name(world.kill.what));
    }
    world_fini(&world);
    turns++;
}

/* All boundaries of a seed. */
static void run_each(struct world_rules rules, uint64_t seed)
{
    uint64_t boundaries;

    rules.has_boundaries = true;
    rules.killed = (uint32_t)(seed % rules.nodes);
    run(&rules, seed);
    boundaries = world.kill.passed;
    for (uint32_t n = 0; n < BOUNDARIES; n++) {
        sums.counts[n][0] += world.kill.counts[n][0];
        sums.counts[n][1] += world.kill.counts[n][1];
    }
    for (uint64_t k = 1; k <= boundaries; k++) {
        rules.killed_at = k;
        run(&rules, seed);
        assert_true(world.kill.is_done);
        backs += world.backs;
        for (uint32_t s = 0; s < 40; s++) sums.passed = 0;
        if (getenv("KV")) { printf("# k %llu:", (unsigned long long)k); for (uint32_t s = 0; s < 40; s++) if (world.statuses[s]) printf(" %s %llu", nigh_status_name(-(int)s), (unsigned long long)world.statuses[s]); printf(" %s events %llu backs %llu images %llu\n", world_boundary_name(world.kill.what), (unsigned long long)world.event,(unsigned long long)world.backs,(unsigned long long)world.images); }
    }
    printf("# seed %llu: %llu boundaries of node %u\n", (unsigned long long)seed,
           (unsigned long long)boundaries, rules.killed);
}

static void at_each_boundary(void **state)
{
    const struct world_rules rules = {.nodes = 3,
                                      .clients = 2,
                                      .events = 3000,
                                      .locks = true,
                                      .frees = true,
                                      .logs = true,
                                      .sync = true,
                                      .slow = 3};

    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        run_each(rules, seed);
    }
    for (uint32_t n = 0; n < BOUNDARIES; n++) {
        printf("# %s: %llu %llu\n", world_boundary_name(n), (unsigned long long)sums.counts[n][0], (unsigned long long)sums.counts[n][1]);
    }
    printf("# backs %llu turns %llu %d\n", (unsigned long long)backs, (unsigned long long)turns, (int)least[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_each_boundary),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
