/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that begin, and members that come back with an empty directory: who kept nothing says
 * nothing in votes before it is known what that means (docs/views.md). */
#include "votes_steps.h"

/* And all of these have heard of it, and keep it. */
static void await_kept_voters(uint64_t wanted, uint64_t within_us)
{
    await_voters(wanted, within_us);
    run(SECOND);
}

static bool is_bare(uint32_t rank)
{
    struct agree_look look;

    agree_look(world.nodes[rank].agree, world.now_us, &look);
    assert_true(!look.bare || !look.votes);
    return look.bare;
}

static bool three_vote_and_kept_it(void)
{
    for (uint32_t rank = 0; rank < world.count; rank++) {
        if ((voters() >> rank & 1) != 0 && is_bare(rank)) {
            return false;
        }
    }
    return __builtin_popcountll(voters()) == 3;
}

/* Whichever: who lost its directory may be replaced before it may vote again. */
static void await_three_voters(uint64_t within_us)
{
    uint64_t until_us = world.now_us + within_us;

    while (!three_vote_and_kept_it()) {
        assert_true(world.now_us < until_us);
        run(SECOND / 100);
    }
}

/* Its directory is lost. */
static void lose(uint32_t rank)
{
    views_kill(&world, rank);
    world.nodes[rank].stored_bytes = 0;
}

/* Until then it says nothing of Raft, and then nobody counts on its vote. */
static void await_freed(uint32_t rank)
{
    uint64_t until_us = world.now_us + 20 * SECOND;

    while (is_bare(rank)) {
        assert_false(world.nodes[rank].agree->running);
        if (world.now_us >= until_us) {
            views_print(&world);
            fail_msg("who kept nothing is not let in");
        }
        run(SECOND / 1000);
    }
    assert_true((voters() >> rank & 1) == 0);
}

/* Nobody of these has a lease, for so long. */
static void nobody_decides(uint64_t ranks, uint64_t us)
{
    for (uint64_t until_us = world.now_us + us; world.now_us < until_us;) {
        for (uint32_t rank = 0; rank < world.count; rank++) {
            assert_true((ranks >> rank & 1) == 0 || !lives(rank) || !views_has_lease(&world, rank));
        }
        run(SECOND / 100);
    }
}

/* ---- a list that begins --------------------------------------------------- */

/* All that vote at first have to say that they kept nothing; what they said of it outlives them. */
static void a_list_begins_when_all_that_vote_are_there(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 3; late++) {
        init(4, 4, support_seed() + late);
        for (uint32_t rank = 0; rank < 3; rank++) {
            if (rank != late) {
                views_start(&world, rank);
            }
        }
        nobody_decides(7, 20 * SECOND);
        views_kill(&world, (late + 1) % 3);
        views_start(&world, (late + 1) % 3);
        run(SECOND);
        views_start(&world, late);
        settle(10 * SECOND);
        assert_int_equal(voters(), 7);
        views_start(&world, 3);
        settle(10 * SECOND);
        views_fini(&world);
    }
}

/* One has begun when the others die: they come back as those with whom it began. */
static void who_was_counted_begins_in_its_next_life(void **state)
{
    uint64_t seed = support_seed();
    uint32_t seen = 0;

    (void)state;
    for (uint32_t n = 0; n < 20; n++) {
        init(3, 3, seed + n);
        world.delay_us = 100000;
        views_start(&world, 0);
        views_start(&world, 1);
        run(BEGIN_WAIT_US); /* so that the last one is all that they wait for */
        views_start(&world, 2);
        for (uint32_t tries = 0; is_bare(0) && is_bare(1) && is_bare(2); tries++) {
            assert_true(tries < 10000);
            run(SECOND / 1000);
        }
        for (uint32_t rank = 0; rank < 3; rank++) {
            seen += is_bare(rank) ? 1 : 0;
            views_kill(&world, rank);
        }
        for (uint32_t rank = 0; rank < 3; rank++) {
            views_start(&world, rank);
        }
        settle(10 * SECOND);
        views_fini(&world);
    }
    assert_true(seen > 20);
}

/* ---- one that lost its directory ------------------------------------------ */

/* It is taken out, and let in again; it says nothing of Raft before. */
static void who_lost_its_directory_is_let_in_anew(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0; n < 12; n++) {
        uint32_t listed = n % 2 == 0 ? 3 : 5, rank = n % listed;
        uint64_t all = (UINT64_C(1) << listed) - 1;

        begin(listed, 6, seed + n);
        lose(rank);
        if (n % 4 < 2) { /* another leads already, or does not yet */
            settle(20 * SECOND);
        }
        views_start(&world, rank);
        await_freed(rank);
        assert_false(agree_is_voter(&world.nodes[rank].agree->own, rank));
        assert_int_equal(world.nodes[rank].agree->log.count, 0);
        await_kept_voters(all, 20 * SECOND);
        settle(20 * SECOND);
        views_fini(&world);
    }
}

/* What two of three have decided the third does not know: who has lost it must not elect that. */
static void who_lost_its_directory_elects_nobody(void **state)
{
    (void)state;
    begin(3, 4, support_seed());
    cut_off(4, true);
    run(10 * SECOND);
    views_join(&world, 0, 0);
    views_join(&world, 0, 1);
    run(5 * SECOND);
    assert_int_equal(world.joiners[0].rank, 3);
    lose(0);
    views_kill(&world, 1);
    views_kill(&world, 3);
    cut_off(0, false);
    views_start(&world, 0);
    nobody_decides(5, 30 * SECOND);
    assert_true(is_bare(0));
    views_start(&world, 1);
    views_start(&world, 3);
    settle(30 * SECOND);
    await_three_voters(20 * SECOND);
    views_fini(&world);
}

/* It began the cluster, which lives without it now. */
static void the_only_one_of_its_list_begins_no_second_cluster(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0; n < 4; n++) {
        begin(1, 4, seed + n);
        join(0);
        join(1);
        await_kept_voters(7, 10 * SECOND);
        lose(0);
        if (n % 2 == 0) {
            settle(20 * SECOND);
        }
        views_start(&world, 0);
        await_freed(0);
        settle(20 * SECOND);
        await_kept_voters(7, 20 * SECOND);
        views_fini(&world);
    }
}

/* It has kept no votes, since it has none, but that it was let in: when all are started again, and
 * it is the first, there is a cluster all the same. */
static void who_was_let_in_and_does_not_vote_begins_no_second_cluster(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0; n < 4; n++) {
        begin(1, 4, seed + n);
        join(0);
        join(1);
        join(2);
        await_voters(7, 10 * SECOND);
        lose(0);
        await_voters(14, 60 * SECOND);
        views_start(&world, 0);
        await_freed(0);
        settle(20 * SECOND);
        await_voters(14, SECOND);
        for (uint32_t rank = 0; rank < 4; rank++) {
            views_kill(&world, rank);
        }
        views_start(&world, 0);
        nobody_decides(1, 60 * SECOND);
        assert_true(is_bare(0));
        for (uint32_t rank = 1; rank < 4; rank++) {
            views_start(&world, rank);
        }
        settle(30 * SECOND);
        await_voters(14, SECOND);
        views_fini(&world);
    }
}

/* It was told its rank by one that is gone by now: so there is a cluster, whoever can be heard. */
static void who_was_told_its_rank_does_not_begin_alone(void **state)
{
    (void)state;
    begin(1, 4, support_seed());
    join(0);
    join(1);
    await_kept_voters(7, 10 * SECOND);
    lose(0);
    views_kill(&world, 1);
    views_kill(&world, 2);
    world.nodes[0].joins = true;
    views_start(&world, 0);
    nobody_decides(1, 60 * SECOND);
    assert_true(is_bare(0));
    views_start(&world, 1);
    views_start(&world, 2);
    settle(20 * SECOND);
    await_kept_voters(7, 20 * SECOND);
    views_fini(&world);
}

/* With the only voter's directory the cluster is lost: no second one takes its place unnoticed. */
static void the_only_voter_that_lost_its_directory_decides_nothing(void **state)
{
    (void)state;
    begin(1, 3, support_seed());
    join(0);
    lose(0);
    views_start(&world, 0);
    run(5 * SECOND);
    nobody_decides(3, 60 * SECOND);
    assert_true(is_bare(0));
    lose(1); /* what is to be done then: the directories of all are emptied */
    world.joiners[0] = (struct views_joiner){.rank = AGREE_NOBODY};
    world.seated[1] = 0;
    memset(world.views, 0, sizeof(world.views));
    memset(world.rosters, 0, sizeof(world.rosters));
    memset(world.leaders, 0, sizeof(world.leaders));
    memset(world.confs, 0, sizeof(world.confs));
    world.decided = 0;
    lose(0);
    views_start(&world, 0);
    settle(10 * SECOND);
    views_fini(&world);
}

/* ---- by seed -------------------------------------------------------------- */

/* Those that vote, and have what they said, decide without it. */
static bool can_be_lost(uint32_t rank)
{
    uint64_t vote = voters();
    int left = 0;

    for (uint32_t other = 0; other < world.count; other++) {
        left += other != rank && (vote >> other & 1) != 0 && !is_bare(other) ? 1 : 0;
    }
    return 2 * left > __builtin_popcountll(vote);
}

/* Lists that begin while their members die, and are cut off; then one after the other loses what it
 * kept, also before the one before it is in again. */
static void they_begin_once_through_all_of_it(void **state)
{
    uint64_t seed = support_seed(), events = 0, lost = 0;

    (void)state;
    for (uint32_t n = 0; n < 60; n++) {
        uint32_t listed = 3 + n % 5;

        init(listed, listed, seed + n);
        world.loss_permille = n % 3 * 100;
        world.delay_us = 1 + random_below(&world.random, 200000);
        for (uint32_t rank = 0; rank < listed; rank++) {
            views_start(&world, rank);
        }
        for (uint32_t rounds = 0; rounds < 40; rounds++) {
            uint32_t rank = (uint32_t)random_below(&world.random, listed);

            if (lives(rank)) {
                views_kill(&world, rank);
            } else {
                views_start(&world, rank);
            }
            cut_off(random_below(&world.random, 1u << listed), random_below(&world.random, 4) == 0);
            run(random_below(&world.random, SECOND / 2));
        }
        cut_off(0, false);
        world.loss_permille = 0;
        for (uint32_t rank = 0; rank < listed; rank++) {
            if (!lives(rank)) {
                views_start(&world, rank);
            }
        }
        settle(60 * SECOND);
        world.delay_us = 2000;
        for (uint32_t rounds = 0; rounds < 10; rounds++) {
            uint32_t rank = (uint32_t)random_below(&world.random, listed);

            if (can_be_lost(rank)) {
                lost++;
                lose(rank);
                run(random_below(&world.random, 5 * SECOND));
                views_start(&world, rank);
                run(random_below(&world.random, 5 * SECOND));
            }
            settle(60 * SECOND);
        }
        events += world.events;
        views_fini(&world);
    }
    printf("# 60 seeds: %llu events, %llu directories were lost\n", (unsigned long long)events,
           (unsigned long long)lost);
    assert_true(lost > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_begins_when_all_that_vote_are_there),
        cmocka_unit_test(who_was_counted_begins_in_its_next_life),
        cmocka_unit_test(who_lost_its_directory_is_let_in_anew),
        cmocka_unit_test(who_lost_its_directory_elects_nobody),
        cmocka_unit_test(the_only_one_of_its_list_begins_no_second_cluster),
        cmocka_unit_test(who_was_let_in_and_does_not_vote_begins_no_second_cluster),
        cmocka_unit_test(who_was_told_its_rank_does_not_begin_alone),
        cmocka_unit_test(the_only_voter_that_lost_its_directory_decides_nothing),
        cmocka_unit_test(they_begin_once_through_all_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
