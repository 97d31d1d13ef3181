/* SPDX-License-Identifier: Apache-2.0 */
/* Who votes: more as others join, others in place of those that are lost or leave (docs/views.md).
 */
#include "votes_steps.h"

/* ---- growth --------------------------------------------------------------- */

static void who_joins_comes_to_vote(void **state)
{
    (void)state;
    begin(1, 7, support_seed());
    join(0);
    run(20 * SECOND);
    assert_int_equal(voters(), 1); /* of two the first decides */
    join(1);
    await_voters(7, 10 * SECOND);
    join(2);
    run(20 * SECOND);
    assert_int_equal(voters(), 7);
    join(3);
    await_voters(31, 10 * SECOND);
    join(4);
    join(5);
    run(20 * SECOND);
    assert_int_equal(voters(), 31);
    views_fini(&world);
}

/* The cluster began with one node, and does not need it any more. */
static void the_first_may_go_for_good(void **state)
{
    (void)state;
    begin(1, 4, support_seed());
    join(0);
    join(1);
    await_voters(7, 10 * SECOND);
    views_kill(&world, 0);
    settle(20 * SECOND);
    run(5 * REPLACE_US);
    settle(SECOND / 100);
    assert_int_equal(voters(), 7); /* nobody is there to vote in its place */
    join(2);
    await_voters(14, REPLACE_US);
    views_kill(&world, 1);
    settle(20 * SECOND);
    views_fini(&world);
}

/* ---- replacement ---------------------------------------------------------- */

static void who_is_lost_is_replaced(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t lost = 0; lost < 5; lost++) {
        uint64_t stores;

        begin(7, 7, seed + lost);
        views_kill(&world, lost);
        settle(20 * SECOND);
        run(REPLACE_US / 2);
        assert_int_equal(voters(), 31); /* it may only be started again */
        await_voters((31 & ~(UINT64_C(1) << lost)) | 32, REPLACE_US);
        /* Back, with what it kept. It has no vote, and knows it soon. */
        views_start(&world, lost);
        settle(20 * SECOND);
        run(10 * SECOND);
        assert_int_equal(voters(), (31 & ~(UINT64_C(1) << lost)) | 32);
        assert_true(agree_is_voter(&world.nodes[lost].agree->own, lost));
        assert_false(agree_votes(world.nodes[lost].agree));
        stores = world.nodes[lost].stores;
        run(30 * SECOND);
        assert_int_equal(world.nodes[lost].stores, stores);
        views_fini(&world);
    }
}

/* Time between is all that it takes: two of nine are left in the end. */
static void a_majority_is_lost_one_by_one(void **state)
{
    (void)state;
    begin(9, 9, support_seed());
    for (uint32_t n = 0; n < 7; n++) {
        views_kill(&world, (n * 4 + 1) % 9);
        settle(20 * SECOND);
        run(REPLACE_US + 10 * SECOND);
    }
    settle(SECOND / 100);
    assert_int_equal(__builtin_popcountll(voters()), 3);
    views_fini(&world);
}

/* All of those that voted when it went are gone: it asks who is there, and is told. */
static void who_was_away_finds_who_votes_now(void **state)
{
    (void)state;
    begin(4, 9, support_seed());
    await_voters(7, SECOND);
    views_kill(&world, 3);
    for (uint32_t n = 0; n < 5; n++) {
        join(n);
    }
    await_voters(7 | 16 | 32, 20 * SECOND);
    for (uint32_t rank = 0; rank < 3; rank++) {
        views_kill(&world, rank);
        settle(20 * SECOND);
        run(REPLACE_US + 10 * SECOND);
    }
    assert_int_equal(voters() & 7, 0);
    views_start(&world, 3);
    settle(40 * SECOND);
    views_start(&world, 0); /* and one that voted */
    settle(40 * SECOND);
    views_fini(&world);
}

/* One of two that vote, on the way to three, falls silent: the other decides alone again. */
static void between_two_numbers_one_falls_silent(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0; n < 20; n++) {
        begin(1, 4, seed + n);
        join(0);
        join(1);
        for (uint32_t tries = 0; voters() != 3 && voters() != 7; tries++) {
            assert_true(tries < 200000);
            run(SECOND / 20000);
        }
        if (voters() == 7) { /* it went by in less than a step */
            views_fini(&world);
            continue;
        }
        views_kill(&world, 1);
        settle(30 * SECOND);
        views_start(&world, 1);
        await_voters(7, 30 * SECOND);
        views_fini(&world);
    }
}

/* Who asks anew for the seat that it has comes without what it said as a voter: it is none then. */
static void who_comes_back_without_its_votes_has_none(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0; n < 8; n++) {
        begin(1, 5, seed + n);
        join(0);
        join(1);
        await_voters(7, 10 * SECOND);
        views_kill(&world, 2);
        world.nodes[2].stored_bytes = 0;
        if (n % 2 == 0) { /* it is replaced meanwhile, or is not */
            settle(20 * SECOND);
        }
        views_join(&world, 1, 1);
        for (uint32_t tries = 0; world.joiners[1].told < 2; tries++) {
            assert_true(tries < 1000);
            run(SECOND / 100);
            if (tries % 100 == 99) {
                views_join(&world, 1, 1);
            }
        }
        assert_int_equal(voters() & 4, 0);
        views_start(&world, 2);
        settle(20 * SECOND);
        await_voters(7, 20 * SECOND);
        views_fini(&world);
    }
}

/* ---- leaving -------------------------------------------------------------- */

static void await_no_vote(uint32_t rank)
{
    struct agree_look look;
    uint32_t n = 0;

    do {
        assert_true(n++ < 1500);
        run(SECOND / 100);
        agree_look(world.nodes[rank].agree, world.now_us, &look);
    } while (look.votes);
}

/* It was to be struck off, and so lost its vote; but it lives, and is as any other. */
static void who_is_not_struck_off_votes_again(void **state)
{
    (void)state;
    begin(3, 6, support_seed());
    join(0);
    join(1);
    await_voters(31, 10 * SECOND);
    views_kill(&world, 4);
    run(AGREE_LEASE_US + SECOND / 2);
    views_forget(&world, 4, 0);
    for (uint32_t tries = 0; (voters() & 16) != 0; tries++) {
        assert_true(tries < 100);
        run(SECOND / 100);
    }
    views_start(&world, 4);
    settle(20 * SECOND);
    assert_int_equal(world.forgotten[4], NIGH_BUSY);
    await_voters(31, 20 * SECOND);
    run(5 * SECOND);
    assert_int_equal(voters(), 31);
    views_fini(&world);
}

static void who_leaves_hands_its_vote_on(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++) { /* one of them leads */
        begin(4, 4, seed);
        leave(rank, true);
        await_no_vote(rank);
        await_voters(15 & ~(UINT64_C(1) << rank), 10 * SECOND);
        views_kill(&world, rank);
        settle(20 * SECOND);
        views_fini(&world);
    }
}

/* With two the first decides; where it leaves, the second. */
static void of_two_the_one_that_stays_decides(void **state)
{
    (void)state;
    begin(1, 4, support_seed());
    join(0);
    leave(0, true);
    await_no_vote(0);
    await_voters(2, 10 * SECOND);
    views_kill(&world, 0);
    settle(20 * SECOND);
    views_start(&world, 0);
    settle(20 * SECOND);
    assert_int_equal(voters(), 2);
    views_fini(&world);
}

/* Three, and nobody else: one decides when one has left, as of two. */
static void of_three_one_leaves(void **state)
{
    (void)state;
    begin(3, 3, support_seed());
    leave(2, true);
    await_no_vote(2);
    for (uint32_t n = 0; __builtin_popcountll(voters()) != 1; n++) {
        assert_true(n < 1000);
        run(SECOND / 100);
    }
    leave(2, false);
    await_voters(7, 10 * SECOND);
    views_fini(&world);
}

/* ---- what libraft gets wrong ---------------------------------------------- */

/* So many entries that what all began with is cut off. */
static void fill_logs(void)
{
    for (uint32_t n = 0; n < 60; n++) {
        uint32_t rank = world.count - 1; /* it does not vote; its first ask takes a round */

        views_kill(&world, rank);
        views_start(&world, rank);
        run(3 * SECOND);
    }
    settle(20 * SECOND);
    assert_true(world.nodes[await_leader()].agree->log.first > 1);
}

/* A leader that is cut off, with one that follows it, takes out one of five that vote: the rest
 * elects another, which has not heard of it. The leader takes it back itself; what the other had is
 * taken back, though what was before that has been cut off the log. */
static void what_was_not_decided_is_taken_back(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t again = 0; again < 2; again++) {
        static struct raft_change change;
        uint32_t lead, other, gone;
        struct agree *agree;

        begin(6, 6, seed + again);
        fill_logs();
        lead = leader();
        other = (lead + 1) % 5;
        gone = (lead + 2) % 5;
        cut_off(UINT64_C(1) << lead | UINT64_C(1) << other, true);
        agree = world.nodes[lead].agree;
        assert_int_equal(raft_remove(&agree->raft, &change, agree_id(gone), on_change), 0);
        world.nodes[lead].due_us = world.now_us;
        run(SECOND / 2);
        assert_int_equal(agree_conf_voters(&world.nodes[other].agree->own), 4);
        run(10 * SECOND);
        if (again == 1) { /* what is in effect comes from what was kept */
            views_kill(&world, lead);
            views_kill(&world, other);
            views_start(&world, lead);
            views_start(&world, other);
        }
        assert_int_equal(agree_conf_voters(&world.nodes[lead].agree->own), 5);
        assert_int_equal(agree_conf_voters(&world.nodes[other].agree->own), 4);
        cut_off(0, false);
        settle(30 * SECOND);
        run(5 * SECOND);
        assert_int_equal(agree_conf_voters(&world.nodes[lead].agree->own), 5);
        assert_int_equal(agree_conf_voters(&world.nodes[other].agree->own), 5);
        assert_int_equal(voters(), 31);
        views_fini(&world);
    }
}

/* A follower hears of a change together with a decision by which it cuts its log. */
static void a_snapshot_has_what_was_decided(void **state)
{
    static struct raft_change change;
    uint32_t lead, other, gone;
    struct agree *agree, *follower;

    (void)state;
    begin(6, 6, support_seed());
    lead = leader();
    other = (lead + 1) % 5;
    gone = (lead + 2) % 5;
    agree = world.nodes[lead].agree;
    follower = world.nodes[other].agree;
    while (follower->raft.last_applied + 1 < follower->log.snapshot_index + AGREE_SNAPSHOT) {
        add_entry(agree);
        run(SECOND); /* the others hear that it is decided */
    }
    add_entry(agree);
    cut_off(UINT64_C(1) << lead | UINT64_C(1) << other, true);
    assert_int_equal(raft_remove(&agree->raft, &change, agree_id(gone), on_change), 0);
    world.nodes[lead].due_us = world.now_us;
    /* What is lost on its way is sent again. */
    for (uint32_t n = 0; n < 20 && agree_conf_voters(&follower->own) != 4; n++) {
        run(SECOND / 10);
    }
    assert_int_equal(agree_conf_voters(&follower->own), 4);
    assert_int_equal(follower->log.snapshot_index, follower->raft.last_applied);
    assert_int_equal(agree_conf_voters(&follower->log.snapshot_conf), 5);
    cut_off(0, false);
    settle(30 * SECOND);
    views_fini(&world);
}

/* ---- by seed -------------------------------------------------------------- */

static uint32_t some_living(void)
{
    uint32_t rank;

    do {
        rank = (uint32_t)random_below(&world.random, world.count);
    } while (!lives(rank));
    return rank;
}

/* Short ones, that no majority is lost by: they end before another. */
static void trouble(void)
{
    uint32_t rank = some_living();

    switch (random_below(&world.random, 5)) {
    case 0: world.nodes[rank].paused = true; break;
    case 1: cut_off(UINT64_C(1) << rank, true); break;
    case 2: world.cut[rank][some_living()] = true; break;
    case 3:
        world.loss_permille = (uint32_t)random_below(&world.random, 300);
        world.delay_us = 1 + random_below(&world.random, 300000);
        break;
    default: cut_off(random_below(&world.random, 1u << world.count), true); break;
    }
    run(random_below(&world.random, 12 * SECOND));
    cut_off(0, false);
    world.loss_permille = 0;
    world.delay_us = 2000;
    for (uint32_t n = 0; n < world.count; n++) {
        world.nodes[n].paused = false;
    }
}

/* Nobody is about to vote, or not to: in between as many may be needed as there are. */
static void await_quiet(void)
{
    for (uint32_t n = 0, quiet = 0; quiet < 30; n++) {
        uint32_t lead = await_leader();
        const struct agree *agree = world.nodes[lead].agree;

        quiet = agree->change_pending || agree->raft.configuration_uncommitted_index != 0 ||
                        __builtin_popcountll(voters()) % 2 == 0
                    ? 0
                    : quiet + 1;
        if (n == 1000) {
            views_print(&world);
            fail_msg("who votes is changed without end");
        }
        run(SECOND / 10);
    }
}

/* Those that vote decide without it. */
static bool can_die(uint32_t rank)
{
    uint64_t vote = voters(), left = vote & the_living().words[0] & ~(UINT64_C(1) << rank);

    return 2 * __builtin_popcountll(left) > __builtin_popcountll(vote);
}

/* One dies for good, or comes back after it was replaced, or before, or joins. */
static void churn(uint32_t *joined)
{
    struct agreed_set everybody = views_everybody(&world);
    uint32_t rank = (uint32_t)random_below(&world.random, world.count);

    await_quiet();
    if (!agreed_has(&everybody, rank)) {
        if (world.listed + *joined < world.count) {
            join((*joined)++);
        }
    } else if (!lives(rank)) {
        views_start(&world, rank);
    } else if (can_die(rank) && random_below(&world.random, 2) == 0) {
        views_kill(&world, rank);
        settle(60 * SECOND);
        run(random_below(&world.random, 2) == 0 ? REPLACE_US + 10 * SECOND : SECOND);
        if (world.now_us % 2 == 0) {
            views_start(&world, rank);
        } else {
            run(REPLACE_US + 10 * SECOND);
        }
    } else {
        leave(rank, random_below(&world.random, 2) == 0);
    }
}

static void they_decide_through_all_of_it(void **state)
{
    uint64_t seed = support_seed(), events = 0, changes = 0;

    (void)state;
    for (uint32_t n = 0; n < 40; n++) {
        uint32_t joined = 0, listed = 1 + n % 5;

        begin(listed, 5 + n % 5, seed + n);
        for (uint32_t rounds = 0; rounds < 25; rounds++) {
            trouble();
            settle(60 * SECOND);
            churn(&joined);
            settle(60 * SECOND);
        }
        events += world.events;
        for (uint32_t index = 0; index < VIEWS_INDEXES; index++) {
            changes += world.confs[index] != 0 ? 1 : 0;
        }
        views_fini(&world);
    }
    printf("# 40 seeds: %llu events, who votes was changed %llu times\n",
           (unsigned long long)events, (unsigned long long)changes);
    assert_true(changes > 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_joins_comes_to_vote),
        cmocka_unit_test(the_first_may_go_for_good),
        cmocka_unit_test(who_is_lost_is_replaced),
        cmocka_unit_test(a_majority_is_lost_one_by_one),
        cmocka_unit_test(who_was_away_finds_who_votes_now),
        cmocka_unit_test(between_two_numbers_one_falls_silent),
        cmocka_unit_test(who_comes_back_without_its_votes_has_none),
        cmocka_unit_test(who_is_not_struck_off_votes_again),
        cmocka_unit_test(who_leaves_hands_its_vote_on),
        cmocka_unit_test(of_two_the_one_that_stays_decides),
        cmocka_unit_test(of_three_one_leaves),
        cmocka_unit_test(what_was_not_decided_is_taken_back),
        cmocka_unit_test(a_snapshot_has_what_was_decided),
        cmocka_unit_test(they_decide_through_all_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
