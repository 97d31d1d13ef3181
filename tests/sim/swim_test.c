/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The membership protocol among many, by seed: what docs/membership.md promises, and what it costs.
 * NIGH_SWIM_NODES and NIGH_SWIM_HOURS make the long run longer (1000 and 24 were run once by hand).
 */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/swim_internal.h"
#include "swim_world.h"

static uint32_t number_of(const char *name, uint32_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? (uint32_t)strtoul(text, NULL, 0) : otherwise;
}

static struct swim_world world;

static void begin(uint32_t count, uint32_t loss_permille, uint64_t seed)
{
    swim_world_init(&world, &(struct swim_world_config){
                                .count = count, .loss_permille = loss_permille, .seed = seed});
    swim_world_start_all(&world);
}

/* ---- deaths --------------------------------------------------------------- */

static void deaths_within_the_bound(uint32_t count, uint32_t loss_permille, uint32_t deaths)
{
    uint64_t bound_us = swim_bound_periods(count, loss_permille) * SECOND;
    uint64_t longest_us = 0, sum_us = 0;

    begin(count, loss_permille, support_seed());
    swim_world_run(&world, (60 + count) * SECOND); /* a round: all have answered everybody */
    for (uint32_t n = 0; n < deaths; n++) {
        uint32_t rank = 1 + n * (count / (deaths + 1));
        uint64_t from_us = world.now_us;

        swim_world_kill(&world, rank);
        assert_true(swim_world_run_until_known(&world, rank, from_us + bound_us));
        longest_us = max_u64(longest_us, world.nodes[rank].known_us - from_us);
        sum_us += world.nodes[rank].known_us - from_us;
    }
    printf("# %u nodes, loss %u/1000: %u deaths known everywhere after %.1f s, at most %.1f s; "
           "bound %.0f s; live ones declared dead: %llu\n",
           count, loss_permille, deaths, (double)sum_us / deaths / 1e6, (double)longest_us / 1e6,
           (double)bound_us / 1e6, (unsigned long long)world.false_deaths);
    assert_int_equal(world.false_deaths, 0);
    swim_world_fini(&world);
}

static void a_death_is_known_everywhere_within_the_bound(void **state)
{
    (void)state;
    deaths_within_the_bound(number_of("NIGH_SWIM_CROWD", 1000), 100, 5);
    deaths_within_the_bound(100, 10, 10);
    deaths_within_the_bound(5, 10, 2);
}

/* SWIM's analysis (its section 3.1): whoever is probed by each of n members once a period, at a
 * random one each, is first probed after e / (e - 1) periods, whatever n is. Here the members'
 * periods do not begin together, and a probe is over when its period is. */
static void the_first_notices_as_soon_with_many(void **state)
{
    double means[2];

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        uint32_t count = n == 0 ? 20 : 200, deaths = count / 2;
        uint64_t sum_us = 0;

        begin(count, 0, support_seed());
        swim_world_run(&world, (60 + count) * SECOND);
        for (uint32_t rank = 0; rank < deaths; rank++) {
            uint64_t from_us = world.now_us;

            swim_world_kill(&world, rank);
            swim_world_run(&world, from_us + 40 * SECOND + rank * SECOND / deaths);
            assert_true(world.nodes[rank].first_us > from_us);
            sum_us += world.nodes[rank].first_us - from_us;
        }
        means[n] = (double)sum_us / deaths / SECOND;
        swim_world_fini(&world);
    }
    printf(
        "# a death is first noticed after %.2f periods among 20, %.2f among 200 (means of 10 and "
        "100 deaths); SWIM's expectation: 1.58\n",
        means[0], means[1]);
    assert_true(means[1] < 3);
}

static void half_of_all_die_at_once(void **state)
{
    uint32_t count = 100;

    (void)state;
    begin(count, 10, support_seed());
    swim_world_run(&world, 160 * SECOND);
    for (uint32_t rank = 0; rank < count / 2; rank++) {
        swim_world_kill(&world, rank);
    }
    swim_world_run(&world, world.now_us + 300 * SECOND);
    for (uint32_t rank = 0; rank < count; rank++) {
        assert_int_equal(swim_world_seen(&world, rank, SWIM_DEAD),
                         rank < count / 2 ? count / 2 : 0);
    }
    swim_world_fini(&world);
}

/* ---- lives ---------------------------------------------------------------- */

static void nobody_alive_is_declared_dead(void **state)
{
    uint32_t count = number_of("NIGH_SWIM_NODES", 200), hours = number_of("NIGH_SWIM_HOURS", 1);

    (void)state;
    begin(count, 10, support_seed());
    for (uint32_t hour = 1; hour <= hours; hour++) {
        swim_world_run(&world, hour * 3600 * SECOND);
        if (hours > 1) {
            fprintf(stderr, "# hour %u: %llu steps, %llu suspicions, %llu refuted, %llu deaths\n",
                    hour, (unsigned long long)world.steps, (unsigned long long)world.suspicions,
                    (unsigned long long)world.refutations, (unsigned long long)world.false_deaths);
        }
    }
    printf("# %u nodes, 1 %% loss, %u h: %llu steps, %llu refuted, declared dead: %llu\n", count,
           hours, (unsigned long long)world.steps, (unsigned long long)world.refutations,
           (unsigned long long)world.false_deaths);
    assert_int_equal(world.false_deaths, 0);
    swim_world_fini(&world);
}

/* A message is sent by one and received by one: so many of each, by a node and a period. */
static double load_of(uint32_t count, uint32_t loss_permille)
{
    uint64_t before = 0, after = 0;
    uint32_t periods = 300;

    begin(count, loss_permille, support_seed());
    swim_world_run(&world, (120 + (loss_permille > 0 ? count : 0)) * SECOND);
    for (uint32_t rank = 0; rank < count; rank++) {
        before += world.nodes[rank].sent;
    }
    swim_world_run(&world, world.now_us + periods * SECOND);
    for (uint32_t rank = 0; rank < count; rank++) {
        after += world.nodes[rank].sent;
    }
    swim_world_fini(&world);
    return (double)(after - before) / count / periods;
}

/* A ping and its answer; and where either is lost, another, and SWIM_INDIRECT requests with what
 * each makes of it: a ping, the answer to that, and one to whom asked. See docs/membership.md. */
static double most_load(double loss)
{
    double comes = 1 - loss, fails = 1 - comes * comes;

    return 1 + comes + fails * (1 + comes + SWIM_INDIRECT * (1 + comes * (2 + comes)));
}

static void the_load_of_a_node_is_constant(void **state)
{
    uint32_t crowd = number_of("NIGH_SWIM_CROWD", 1000);
    double few = load_of(10, 0), more = load_of(100, 0), many = load_of(crowd, 0);
    double few_lossy = load_of(10, 100), more_lossy = load_of(100, 100);
    double many_lossy = load_of(crowd, 100);

    (void)state;
    printf("# sent by a node in a period: %.3f of 10, %.3f of 100, %.3f of %u nodes; bound %.3f; "
           "SWIM's paper: 2, of up to 56\n",
           few, more, many, crowd, most_load(0));
    printf("# ... at 10 %% loss: %.3f of 10, %.3f of 100, %.3f of %u nodes; bound %.3f\n",
           few_lossy, more_lossy, many_lossy, crowd, most_load(0.1));
    assert_true(few < 2.01 && more < 2.01 && many < 2.01);
    /* The fewer they are, the more chance makes of it: 3,000 periods of ten. */
    assert_true(few_lossy < most_load(0.1) + 0.25 && more_lossy < most_load(0.1) + 0.1);
    assert_true(many_lossy < most_load(0.1) + 0.03);
}

/* ---- slow ones ------------------------------------------------------------ */

/* All that it receives it looks at seconds late, while its own clock runs. */
static void a_slow_node_hardly_suspects_others(void **state)
{
    const struct swim_node *slow;
    uint32_t minutes = 20;

    (void)state;
    begin(20, 10, support_seed());
    swim_world_run(&world, 120 * SECOND);
    world.nodes[3].slow_min_us = SECOND * 6 / 5;
    world.nodes[3].slow_more_us = SECOND / 2;
    slow = &world.nodes[3];
    swim_world_run(&world, world.now_us + minutes * 60 * SECOND);
    printf("# a slow node of 20 suspected others %llu times in %u minutes\n",
           (unsigned long long)slow->suspected, minutes);
    assert_int_equal(world.false_deaths, 0);
    assert_true(slow->suspected < minutes * 12);
    swim_world_fini(&world);
}

/* So many see it, at the latest within a minute: what was lost has somebody suspected now and then,
 * until that one says that it is there. */
static void await_alive(uint32_t rank, uint32_t count)
{
    uint64_t until_us = world.now_us + 60 * SECOND;

    while (swim_world_seen(&world, rank, SWIM_ALIVE) != count && world.now_us < until_us) {
        swim_world_run(&world, world.now_us + SECOND);
    }
    assert_int_equal(swim_world_seen(&world, rank, SWIM_ALIVE), count);
}

/* It suspects somebody, stands still, and finds when it goes on that the suspicion is overdue, and
 * behind it what refutes it. */
static void a_paused_node_declares_nobody_dead(void **state)
{
    (void)state;
    for (uint32_t turn = 0; turn < 20; turn++) {
        begin(20, 10, support_seed() + turn);
        swim_world_run(&world, 60 * SECOND);
        world.nodes[5].side = 1; /* cut off for a moment, so that it is suspected */
        while (swim_world_seen(&world, 5, SWIM_SUSPECT) < 10) {
            swim_world_run(&world, world.now_us + SECOND / 10);
        }
        world.nodes[5].side = 0;
        for (uint32_t rank = 0; rank < 5; rank++) {
            swim_world_pause(&world, rank, (10 + 13 * turn) * SECOND);
        }
        swim_world_run(&world, world.nodes[0].paused_us + 120 * SECOND);
        for (uint32_t rank = 5; rank < 20; rank++) {
            await_alive(rank, 19);
        }
        for (uint32_t rank = 0; rank < 5; rank++) { /* and they are back themselves */
            assert_int_equal(world.nodes[rank].declared, 0);
            await_alive(rank, 19);
        }
        swim_world_fini(&world);
    }
}

/* ---- cuts, leaves, lives -------------------------------------------------- */

static void both_sides_of_a_cut_find_each_other_again(void **state)
{
    (void)state;
    begin(30, 10, support_seed());
    swim_world_run(&world, 60 * SECOND);
    for (uint32_t rank = 0; rank < 10; rank++) {
        world.nodes[rank].side = 1;
    }
    swim_world_run(&world, world.now_us + 300 * SECOND);
    for (uint32_t rank = 0; rank < 30; rank++) {
        assert_int_equal(swim_world_seen(&world, rank, SWIM_DEAD), rank < 10 ? 20 : 10);
    }
    for (uint32_t rank = 0; rank < 10; rank++) {
        world.nodes[rank].side = 0;
    }
    swim_world_run(&world, world.now_us + 120 * SECOND);
    for (uint32_t rank = 0; rank < 30; rank++) {
        await_alive(rank, 29);
    }
    swim_world_fini(&world);
}

static void who_leaves_has_left_and_comes_back_as_another(void **state)
{
    (void)state;
    begin(30, 10, support_seed());
    swim_world_run(&world, 60 * SECOND);
    swim_world_leave(&world, 7);
    swim_world_run(&world, world.now_us + 15 * SECOND);
    assert_int_equal(swim_world_seen(&world, 7, SWIM_LEFT), 29);
    swim_world_kill(&world, 8);
    swim_world_run(&world, world.now_us + 60 * SECOND);
    assert_int_equal(swim_world_seen(&world, 8, SWIM_DEAD), 28);
    swim_world_start(&world, 7);
    swim_world_start(&world, 8);
    swim_world_run(&world, world.now_us + 15 * SECOND);
    await_alive(7, 29);
    await_alive(8, 29);
    swim_world_fini(&world);
}

static void who_never_was_there_is_not_suspected(void **state)
{
    (void)state;
    swim_world_init(&world, &(struct swim_world_config){.count = 10, .seed = support_seed()});
    for (uint32_t rank = 0; rank < 7; rank++) {
        swim_world_start(&world, rank);
    }
    swim_world_run(&world, 600 * SECOND);
    assert_int_equal(world.suspicions, 0);
    for (uint32_t rank = 7; rank < 10; rank++) {
        assert_false(swim_is_reached(world.nodes[0].swim, rank));
    }
    swim_world_fini(&world);
}

/* They are in nobody's list, and nobody asks them: who hears of one tells the others. */
static void who_joins_is_known_to_all_and_so_is_its_death(void **state)
{
    uint64_t bound_us = swim_bound_periods(12, 0) * SECOND;

    (void)state;
    swim_world_init(&world,
                    &(struct swim_world_config){.count = 12, .listed = 3, .seed = support_seed()});
    for (uint32_t rank = 0; rank < 3; rank++) {
        swim_world_start(&world, rank);
    }
    swim_world_run(&world, 60 * SECOND);
    for (uint32_t rank = 3; rank < 12; rank++) {
        assert_int_equal(swim_world_seen(&world, rank, SWIM_LEFT), rank);
        swim_world_start(&world, rank);
        swim_world_run(&world, world.now_us + bound_us);
        assert_int_equal(swim_world_seen(&world, rank, SWIM_ALIVE), rank);
    }
    for (uint32_t rank = 0; rank < 12; rank++) { /* those that joined know of each other, too */
        for (uint32_t other = 0; other < 12; other++) {
            assert_int_equal(swim_state_of(world.nodes[rank].swim, other), SWIM_ALIVE);
        }
    }
    swim_world_run(&world, world.now_us + 60 * SECOND);
    swim_world_kill(&world, 7);
    assert_true(swim_world_run_until_known(&world, 7, world.now_us + bound_us));
    assert_int_equal(world.false_deaths, 0);
    swim_world_fini(&world);
}

/* ---- the same again ------------------------------------------------------- */

static char *trace_of(uint64_t seed, size_t *size_bytes)
{
    char *text = NULL;
    FILE *trace = open_memstream(&text, size_bytes);

    assert_non_null(trace);
    swim_world_init(
        &world,
        &(struct swim_world_config){
            .count = 20, .loss_permille = 50, .seed = seed, .encodes = true, .trace = trace});
    swim_world_start_all(&world);
    swim_world_run(&world, 30 * SECOND);
    swim_world_kill(&world, 4);
    swim_world_pause(&world, 5, 20 * SECOND);
    swim_world_run(&world, 90 * SECOND);
    swim_world_start(&world, 4);
    swim_world_run(&world, 120 * SECOND);
    swim_world_fini(&world);
    fclose(trace);
    return text;
}

static void the_same_seed_is_the_same_run(void **state)
{
    uint64_t seed = support_seed();
    size_t first_bytes, second_bytes, other_bytes;
    char *first = trace_of(seed, &first_bytes), *second = trace_of(seed, &second_bytes);
    char *other = trace_of(seed + 1, &other_bytes);

    (void)state;
    assert_true(first_bytes > 10000 && first_bytes == second_bytes);
    assert_memory_equal(first, second, first_bytes);
    assert_false(first_bytes == other_bytes && memcmp(first, other, first_bytes) == 0);
    free(first);
    free(second);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_is_known_everywhere_within_the_bound),
        cmocka_unit_test(the_first_notices_as_soon_with_many),
        cmocka_unit_test(half_of_all_die_at_once),
        cmocka_unit_test(nobody_alive_is_declared_dead),
        cmocka_unit_test(the_load_of_a_node_is_constant),
        cmocka_unit_test(a_slow_node_hardly_suspects_others),
        cmocka_unit_test(a_paused_node_declares_nobody_dead),
        cmocka_unit_test(both_sides_of_a_cut_find_each_other_again),
        cmocka_unit_test(who_leaves_has_left_and_comes_back_as_another),
        cmocka_unit_test(who_never_was_there_is_not_suspected),
        cmocka_unit_test(who_joins_is_known_to_all_and_so_is_its_death),
        cmocka_unit_test(the_same_seed_is_the_same_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
