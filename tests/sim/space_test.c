/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines of spaces, by seed: what docs/spaces.md promises of who serves ("The engine").
 *
 * NIGH_SIM_FIRST=n with NIGH_SIM_SEEDS=m: those m seeds from n on, of each part;
 * NIGH_BUDGET_SECONDS: as many as there is time for. What a part prints is of so many seeds: it can
 * be added up.
 */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "space_rows.h"
#include "space_world.h"
#include "tables.h"

#define LEAST_SEEDS 20u

/* Of what these seeds step into, wherever they begin. */
#define LEAST_HOME_ROWS  132u
#define LEAST_CACHE_ROWS 95u

static struct world world;
static uint64_t events; /* of all worlds */

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

/* Of a part: those that were asked for, or a few. */
static uint64_t seeds(void)
{
    uint64_t wanted = number_of("NIGH_SIM_SEEDS", LEAST_SEEDS);

    return getenv("NIGH_SIM_FIRST") != NULL ? wanted : min_u64(wanted, LEAST_SEEDS);
}

static uint64_t first_seed(void)
{
    return getenv("NIGH_SIM_FIRST") != NULL ? number_of("NIGH_SIM_FIRST", 0) : support_seed();
}

static void run(const struct world_rules *rules, uint64_t seed)
{
    tables_keep(seed % TABLES_ANEW != 0);
    world_init(&world, rules, seed);
    if (!world_run(&world, rules->events) || !world_calm(&world) || !world_judge(&world)) {
        world_print(&world);
        fail_msg("%s: seed %llu, event %llu", world.broken, (unsigned long long)seed,
                 (unsigned long long)world.event);
    }
    events += world.event;
    world_fini(&world);
}

static void run_all(struct world_rules rules, const char *name)
{
    uint64_t first = first_seed(), end_us = support_now_us() + support_budget_ms(0) * 1000 / 10;
    uint64_t count = seeds(), done = 0;
    static struct world sums;

    memset(&sums, 0, sizeof(sums));

    for (; done < count || support_now_us() < end_us; done++) {
        rules.nodes = 1 + (uint32_t)((first + done) % WORLD_NODES);
        run(&rules, first + done);
        sums.event += world.event;
        sums.answers += world.answers;
        sums.hits += world.hits;
        sums.writes += world.writes;
        sums.atomics += world.atomics;
        sums.locks += world.locks;
        sums.kept += world.kept;
        sums.busy += world.busy;
        sums.terms += world.terms;
        sums.evictions += world.evictions;
        sums.messages += world.messages;
        sums.breaks += world.breaks;
        sums.crashes += world.crashes;
        sums.backs += world.backs;
        sums.commits += world.commits;
        sums.images += world.images;
        sums.fails += world.fails;
        sums.judged += world.judged;
    }
    printf("# %s: %llu seeds from %llu on; %llu events, %llu answers, %llu reads that hit, %llu "
           "writes, %llu atomics, %llu locks, %llu of them kept, %llu tries refused; %llu "
           "messages, %llu terms, %llu "
           "evictions, %llu breaks, %llu crashes; %llu on their logs, %llu commits, %llu images, "
           "%llu disks that fail; histories of %llu operations\n",
           name, (unsigned long long)done, (unsigned long long)first,
           (unsigned long long)sums.event, (unsigned long long)sums.answers,
           (unsigned long long)sums.hits, (unsigned long long)sums.writes,
           (unsigned long long)sums.atomics, (unsigned long long)sums.locks,
           (unsigned long long)sums.kept, (unsigned long long)sums.busy,
           (unsigned long long)sums.messages, (unsigned long long)sums.terms,
           (unsigned long long)sums.evictions, (unsigned long long)sums.breaks,
           (unsigned long long)sums.crashes, (unsigned long long)sums.backs,
           (unsigned long long)sums.commits, (unsigned long long)sums.images,
           (unsigned long long)sums.fails, (unsigned long long)sums.judged);
    assert_true(!rules.locks || sums.kept * 100 >= sums.locks);
}

static void nodes_share_a_space(void **state)
{
    (void)state;
    run_all((struct world_rules){.clients = 2, .events = 20000}, "calm");
}

static void clients_hold_and_die(void **state)
{
    (void)state;
    run_all((struct world_rules){.clients = 3,
                                 .events = 20000,
                                 .locks = true,
                                 .kills = true,
                                 .timeouts = true,
                                 .busy = true},
            "locks");
}

static void links_break(void **state)
{
    (void)state;
    run_all((struct world_rules){.clients = 2,
                                 .events = 20000,
                                 .locks = true,
                                 .breaks = true,
                                 .timeouts = true,
                                 .busy = true},
            "breaks");
}

static void nodes_crash(void **state)
{
    (void)state;
    run_all((struct world_rules){.clients = 2,
                                 .events = 30000,
                                 .locks = true,
                                 .breaks = true,
                                 .crashes = true,
                                 .kills = true},
            "crashes");
}

static void blocks_are_freed(void **state)
{
    (void)state;
    run_all((struct world_rules){.clients = 3,
                                 .events = 20000,
                                 .locks = true,
                                 .frees = true,
                                 .breaks = true,
                                 .kills = true,
                                 .asks = 2},
            "frees");
}

static void all_at_once(void **state)
{
    (void)state;
    run_all((struct world_rules){.clients = 3,
                                 .events = 30000,
                                 .locks = true,
                                 .frees = true,
                                 .rows = true,
                                 .breaks = true,
                                 .crashes = true,
                                 .kills = true,
                                 .timeouts = true,
                                 .busy = true,
                                 .asks = 3,
                                 .letters = 24,
                                 .opening = 3},
            "all");
}

/* What leaves a node is durable; what was flushed, too. */
static void nodes_come_back_on_their_logs(void **state)
{
    (void)state;
    run_all((struct world_rules){.clients = 2,
                                 .events = 30000,
                                 .locks = true,
                                 .breaks = true,
                                 .crashes = true,
                                 .kills = true,
                                 .logs = true},
            "async");
}

static void what_was_told_is_there(void **state)
{
    (void)state;
    run_all((struct world_rules){.clients = 2,
                                 .events = 30000,
                                 .locks = true,
                                 .breaks = true,
                                 .crashes = true,
                                 .kills = true,
                                 .logs = true,
                                 .sync = true},
            "sync");
}

static void logs_and_all_at_once(void **state)
{
    (void)state;
    run_all((struct world_rules){.clients = 3,
                                 .events = 30000,
                                 .locks = true,
                                 .frees = true,
                                 .rows = true,
                                 .breaks = true,
                                 .crashes = true,
                                 .kills = true,
                                 .timeouts = true,
                                 .busy = true,
                                 .asks = 3,
                                 .logs = true,
                                 .sync = true,
                                 .fails = true,
                                 .opening = 3},
            "logs, all");
}

static void some_logs_are_gone(void **state)
{
    (void)state;
    run_all((struct world_rules){.clients = 2,
                                 .events = 30000,
                                 .frees = true,
                                 .rows = true,
                                 .breaks = true,
                                 .crashes = true,
                                 .logs = true,
                                 .sync = true,
                                 .lossy = true,
                                 .fails = true,
                                 .opening = 1},
            "lossy");
}

/* Of all that ran before: a world in which little comes to pass shows little. */
static void much_comes_to_pass(void **state)
{
    struct space_rows home, cache;

    (void)state;
    space_rows_count(&home, &cache);
    space_rows_print();
    printf("# %u of %u rows at homes, %u of %u at caches; %llu events\n", home.seen, home.rows,
           cache.seen, cache.rows, (unsigned long long)events);
    if (getenv("NIGH_TEST") == NULL && seeds() >= LEAST_SEEDS) {
        assert_true(home.seen >= LEAST_HOME_ROWS);
        assert_true(cache.seen >= LEAST_CACHE_ROWS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_share_a_space),
        cmocka_unit_test(clients_hold_and_die),
        cmocka_unit_test(links_break),
        cmocka_unit_test(nodes_crash),
        cmocka_unit_test(blocks_are_freed),
        cmocka_unit_test(all_at_once),
        cmocka_unit_test(nodes_come_back_on_their_logs),
        cmocka_unit_test(what_was_told_is_there),
        cmocka_unit_test(logs_and_all_at_once),
        cmocka_unit_test(some_logs_are_gone),
        cmocka_unit_test(much_comes_to_pass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
