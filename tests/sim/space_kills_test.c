/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node is killed at every boundary of its log and of what is given: before and after each
 * operation of its disk, and each message that leaves it or comes to it. A seed is run once to
 * count them, and then once for each, up to there: the node is killed, its disk loses, tears and
 * reorders what was not synced, it is there again on that, and the seed goes on to its end; all
 * that is looked at in any of these worlds is (docs/spaces.md, "What of that is shown").
 *
 * NIGH_BUDGET_SECONDS: other seeds follow for so long, from NIGH_SEED on. NIGH_SIM_SEEDS, if it is
 * small, as where there is a sanitizer: of those that are always run only some boundaries.
 */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "space_world.h"
#include "tables.h"

#define EVENTS    6000u
#define FEW_SEEDS 100u /* where fewer are wanted only each so many-th boundary is run: */
#define STRIDE    20u

/* Of the seeds that are always run: whoever makes them see less has to say so here. */
static const uint64_t least[BOUNDARIES] = {
    [BOUNDARY_LOG_MADE] = 8,     [BOUNDARY_LOG_WRITE] = 100,  [BOUNDARY_LOG_SYNC] = 100,
    [BOUNDARY_IMAGE_MADE] = 12,  [BOUNDARY_IMAGE_WRITE] = 12, [BOUNDARY_IMAGE_SYNC] = 12,
    [BOUNDARY_RENAME] = 12,      [BOUNDARY_NAMES_SYNC] = 12,  [BOUNDARY_ASK_OUT] = 30,
    [BOUNDARY_ASK_IN] = 30,      [BOUNDARY_GRANT_OUT] = 30,   [BOUNDARY_GRANT_IN] = 30,
    [BOUNDARY_RECALL_OUT] = 20,  [BOUNDARY_RECALL_IN] = 20,   [BOUNDARY_GIVEN_UP_OUT] = 15,
    [BOUNDARY_GIVEN_UP_IN] = 15, [BOUNDARY_TERM_OUT] = 80,    [BOUNDARY_TERM_IN] = 80,
    [BOUNDARY_OTHER_OUT] = 80,   [BOUNDARY_OTHER_IN] = 80,
};

static struct world world;
static struct world_kill sums; /* of all seeds */
static uint64_t turns, backs, relapses, judged;

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
    /* All logs are there: what was durable is, and nobody is told that it is lost. */
    assert_int_equal(world.statuses[-NIGH_NODE_LOST], 0);
    world_fini(&world);
    judged += world.judged;
    relapses += world.relapses;
}

/* All boundaries of a seed, or every so many of them. */
static void run_each(struct world_rules rules, uint64_t seed, uint64_t stride)
{
    uint64_t boundaries, last;

    rules.nodes = 3;
    rules.clients = 2;
    rules.events = EVENTS;
    rules.locks = rules.logs = true;
    rules.has_boundaries = true;
    rules.killed = (uint32_t)(seed % rules.nodes);
    run(&rules, seed);
    boundaries = world.kill.passed;
    for (uint32_t n = 0; n < BOUNDARIES; n++) {
        sums.counts[n][0] += world.kill.counts[n][0];
        sums.counts[n][1] += world.kill.counts[n][1];
    }
    last = turns;
    for (uint64_t k = 1; k <= boundaries; k += stride) {
        rules.killed_at = k;
        run(&rules, seed);
        assert_true(world.kill.is_done && world.nodes[rules.killed].lives > 1);
        backs += world.backs;
        turns++;
    }
    sums.passed += boundaries;
    printf("# seed %llu, node %u%s%s: killed at %llu of %llu boundaries\n",
           (unsigned long long)seed, rules.killed, rules.sync ? ", sync" : ", async",
           rules.breaks ? ", links break" : "", (unsigned long long)(turns - last),
           (unsigned long long)boundaries);
}

static void print_sums(void)
{
    printf("# %llu boundaries", (unsigned long long)sums.passed);
    for (uint32_t n = 0; n < BOUNDARIES; n++) {
        printf("%s %s %llu", n == 0 ? ":" : ",", world_boundary_name((enum world_boundary)n),
               (unsigned long long)(sums.counts[n][0] + sums.counts[n][1]));
    }
    printf("\n# %llu kills, %llu on their logs, %llu stopped again while they read it; histories "
           "of %llu operations\n",
           (unsigned long long)turns, (unsigned long long)backs, (unsigned long long)relapses,
           (unsigned long long)judged);
}

static void a_node_is_killed_at_each_boundary(void **state)
{
    const char *text = getenv("NIGH_SIM_SEEDS");
    uint64_t stride = text != NULL && strtoull(text, NULL, 10) < FEW_SEEDS ? STRIDE : 1;

    (void)state;
    run_each((struct world_rules){.sync = true, .frees = true, .slow = 3}, 45, stride);
    run_each((struct world_rules){.sync = true, .frees = true, .rows = true, .slow = 12}, 45,
             stride);
    run_each((struct world_rules){.sync = true, .slow = 3, .breaks = true, .opening = 1}, 2,
             stride);
    run_each((struct world_rules){.sync = true, .slow = 12, .busy = true}, 21, stride);
    /* What is async, freed and given again may be what it was before that: no world looks at it. */
    run_each((struct world_rules){.slow = 12}, 55, stride);
    print_sums();
    for (uint32_t n = 0; n < BOUNDARIES; n++) {
        if (sums.counts[n][0] < least[n] || sums.counts[n][1] < least[n]) {
            fail_msg("too seldom: %s", world_boundary_name((enum world_boundary)n));
        }
    }
}

static void and_of_any_seed(void **state)
{
    uint64_t end_us = support_now_us() + support_budget_ms(0) * 1000;
    uint64_t first;

    (void)state;
    if (support_budget_ms(0) == 0) {
        return;
    }
    first = support_seed();
    for (uint64_t n = 0; support_now_us() < end_us; n++) {
        uint64_t seed = first + n;

        run_each((struct world_rules){.sync = seed % 4 != 0,
                                      .frees = seed % 2 != 0,
                                      .rows = seed % 4 == 1,
                                      .breaks = seed % 3 == 0,
                                      .busy = seed % 5 == 0,
                                      .opening = seed % 7 == 0 ? 1 : 0},
                 seed, 1);
    }
    print_sums();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_killed_at_each_boundary),
        cmocka_unit_test(and_of_any_seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
