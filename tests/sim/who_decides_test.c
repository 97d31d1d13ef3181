/* SPDX-License-Identifier: Apache-2.0 */
/* A change of who votes: it is begun when those live that are to decide it, is taken back where
 * they do not, and counts once it is decided, over stops at any moment (docs/views.md). */
#include "votes_steps.h"

/* What it said is lost, where that is under way. */
static void forget_messages(uint32_t rank)
{
    for (uint32_t n = 0; n < VIEWS_MESSAGES; n++) {
        struct views_message *message = &world.messages[n];

        message->at_us = message->from == rank ? 0 : message->at_us;
    }
}

/* A stop, and so is that. */
static void stop(uint32_t rank)
{
    views_kill(&world, rank);
    forget_messages(rank);
}

/* Until one answers who leads, in this moment. */
static void await_ack(const struct agree *agree, uint32_t rank)
{
    uint64_t acked_us = agree->members[rank].acked_us;

    for (uint32_t tries = 0; agree->members[rank].acked_us == acked_us; tries++) {
        assert_true(tries < 100000);
        run(SECOND / 10000);
    }
}

/* Who says that its vote is handed on may be stopped in that moment: the other decides. */
static void a_vote_counts_until_it_is_handed_on(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0; n < 10; n++) {
        struct agree_look look = {.votes = true};

        begin(1, 4, seed + n);
        join(0);
        leave(0, true);
        for (uint32_t tries = 0; look.votes; tries++) {
            assert_true(tries < 200000);
            run(SECOND / 20000);
            agree_look(world.nodes[0].agree, world.now_us, &look);
        }
        stop(0);
        settle(20 * SECOND);
        views_fini(&world);
    }
}

/* ---- who is to decide it -------------------------------------------------- */

/* Its disk is full, or it dies: `gone` of three. Nobody may have noticed when another leaves. */
static void lose(uint32_t gone, bool by_disk)
{
    if (by_disk) {
        world.nodes[gone].disk_fails = true;
    } else {
        views_kill(&world, gone);
    }
}

static void get_back(uint32_t gone)
{
    world.nodes[gone].disk_fails = false;
    views_kill(&world, gone);
    views_start(&world, gone);
}

/* Those that are left decide, without a pause: no other led. */
static void of_three_one_is_lost_as_another_leaves(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0; n < 8; n++) {
        uint32_t lead, gone, leaver;
        uint64_t elections;
        struct agree_look look;

        begin(3, 3, seed + n);
        lead = leader();
        gone = (lead + 1) % 3;
        leaver = n % 2 == 0 ? (lead + 2) % 3 : lead;
        elections = world.nodes[lead].agree->elections;
        lose(gone, n % 4 < 2);
        leave(leaver, true);
        settle(20 * SECOND);
        run(REPLACE_US / 2);
        settle(SECOND / 100);
        assert_int_equal(voters(), 7); /* it waits for the third, or until that is lost for good */
        assert_int_equal(leader(), lead);
        assert_int_equal(world.nodes[lead].agree->elections, elections);
        agree_look(world.nodes[leaver].agree, world.now_us, &look);
        assert_true(look.votes);
        if (n % 8 < 4) { /* and stays */
            leave(leaver, false);
            get_back(gone);
            settle(20 * SECOND);
            run(5 * SECOND);
            assert_int_equal(voters(), 7);
        } else { /* ... and one is left that decides */
            await_voters(UINT64_C(1) << (3 - gone - leaver), REPLACE_US);
        }
        views_fini(&world);
    }
}

/* The fourth could vote, and with it three of four would be needed: but it would give nobody its
 * vote before it has heard that it has one. It comes once who is lost is taken out. */
static void of_four_one_is_lost_as_another_leaves(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0; n < 4; n++) {
        uint32_t lead, gone, leaver;

        begin(4, 4, seed + n);
        run(SECOND);
        lead = leader();
        gone = (lead + 1) % 3;
        leaver = n % 2 == 0 ? 3 - lead - gone : lead;
        lose(gone, n < 2);
        leave(leaver, true);
        run(REPLACE_US / 2);
        settle(SECOND);
        assert_int_equal(voters(), 7);
        await_voters(UINT64_C(1) << (3 - gone - leaver), 2 * REPLACE_US);
        settle(20 * SECOND);
        views_fini(&world);
    }
}

/* The same, and who is lost is struck off: those that are left decide that, too. */
static void who_is_lost_as_another_leaves_is_struck_off(void **state)
{
    uint32_t lead, gone;

    (void)state;
    begin(1, 5, support_seed());
    join(0);
    join(1);
    await_voters(7, 10 * SECOND);
    lead = leader();
    gone = lead == 2 ? 1 : 2;
    views_kill(&world, gone);
    leave(3 - lead - gone, true);
    run(AGREE_LEASE_US + SECOND / 2);
    views_forget(&world, gone, lead);
    for (uint32_t tries = 0; world.answers[gone] == 0; tries++) {
        assert_true(tries < 1200);
        run(SECOND / 100);
    }
    assert_int_equal(world.forgotten[gone], NIGH_OK);
    settle(20 * SECOND);
    views_fini(&world);
}

/* What cannot be kept is said: it counts for nothing, though its link stands. */
static void who_cannot_write_says_so(void **state)
{
    uint32_t lead, mute;

    (void)state;
    begin(4, 4, support_seed());
    lead = leader();
    mute = (lead + 1) % 3;
    run(SECOND); /* all follow */
    world.nodes[mute].disk_fails = true;
    add_entry(world.nodes[lead].agree);
    for (uint32_t tries = 0; !world.nodes[lead].agree->members[mute].is_mute; tries++) {
        assert_true(tries < 100);
        run(SECOND / 100);
    }
    settle(20 * SECOND);
    await_voters(15 & ~(UINT64_C(1) << mute), REPLACE_US + 10 * SECOND);
    get_back(mute);
    settle(20 * SECOND);
    assert_false(world.nodes[lead].agree->members[mute].is_mute);
    views_fini(&world);
}

/* ---- changes that are not decided ----------------------------------------- */

/* One of those that vote, in this moment, by who leads. */
static void let_go(struct agree *agree, uint32_t rank)
{
    static struct raft_change change;

    assert_int_equal(raft_remove(&agree->raft, &change, agree_id(rank), on_change), 0);
    agree_run_later(agree);
}

/* Of three one is lost just when another is let go: who leads lets it stay. */
static void a_change_that_nobody_answers_for_is_taken_back(void **state)
{
    uint64_t seed = support_seed();
    uint32_t began = 0;

    (void)state;
    for (uint32_t n = 0; n < 8; n++) {
        uint32_t lead, gone;
        struct agree *agree;

        begin(3, 3, seed + n);
        lead = leader();
        gone = (lead + 1) % 3;
        lose(gone, n % 2 == 0);
        agree = world.nodes[lead].agree;
        let_go(agree, 3 - lead - gone);
        world.nodes[lead].due_us = world.now_us;
        run(SECOND / 100);
        /* Or who leads has just noticed that it reaches no majority: then it is nobody's change. */
        began += agree_conf_voters(&agree->own) == 2;
        assert_true(agree_conf_voters(&agree->own) == 2 || leader() != lead);
        run(AGREE_GRACE_US); /* no lease is left that was granted before */
        settle(20 * SECOND);
        await_voters(7, SECOND);
        get_back(gone);
        settle(20 * SECOND);
        await_voters(7, SECOND);
        views_fini(&world);
    }
    assert_true(began > 0);
}

/* One that comes back without what it kept answers nobody for a change: it is taken back at once,
 * though the answers of the life before are not old. */
static void who_kept_nothing_does_not_answer(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0; n < 8; n++) {
        uint32_t lead, bare;
        struct agree *agree;

        begin(3, 3, seed + n);
        run(SECOND);
        lead = leader();
        bare = (lead + 1 + n % 2) % 3;
        agree = world.nodes[lead].agree;
        await_ack(agree, bare);
        let_go(agree, 3 - lead - bare);
        stop(bare);
        forget_messages(lead);
        world.nodes[bare].stored_bytes = 0;
        views_start(&world, bare);
        run(SECOND / 20);
        assert_int_equal(agree_conf_voters(&agree->own), 3);
        settle(20 * SECOND);
        await_voters(7, 20 * SECOND);
        views_fini(&world);
    }
}

/* It stands still for longer than the others may be silent, and finds their answers then. */
static void stand_still(uint32_t rank)
{
    world.nodes[rank].paused = true;
    run(SECOND * 7 / 10);
    world.nodes[rank].paused = false;
    world.nodes[rank].due_us = 0; /* it looks at its clock before it hears anything */
}

/* A disk that is slow to write the change itself: those that answered it are not silent. */
static void a_change_stays_over_a_stop_of_who_leads(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0; n < 8; n++) {
        uint32_t lead, other;
        struct agree *agree;

        begin(3, 3, seed + n);
        run(SECOND);
        lead = leader();
        other = (lead + 1 + n % 2) % 3;
        agree = world.nodes[lead].agree;
        await_ack(agree, 3 - lead - other);
        let_go(agree, other);
        assert_int_not_equal(agree->log.begun, 0);
        stand_still(lead);
        run(SECOND / 20);
        assert_int_equal(agree->log.begun, 0);
        assert_int_equal(agree_conf_voters(&agree->own), 2);
        settle(20 * SECOND);
        await_voters(7, 20 * SECOND);
        views_fini(&world);
    }
}

/* Of two that vote, on the way to three: the other is there, and is not let go. Worlds that are on
 * their way when both have joined. */
static void of_two_none_goes_for_a_stop_of_who_leads(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0, worlds = 0; worlds < 8; n++) {
        struct agree *agree;
        uint32_t second, third;

        assert_true(n < 80);
        begin(1, 4, seed + n);
        agree = world.nodes[0].agree;
        for (uint32_t entries = 0; entries <= AGREE_TRAILING; entries++) {
            add_entry(agree);
        }
        join(0);
        join(1);
        for (uint32_t tries = 0; agree_conf_voters(&agree->own) == 1; tries++) {
            assert_true(tries < 2000000);
            run(10);
        }
        if (agree_conf_voters(&agree->own) != 2 || agree->log.begun == 0) {
            views_fini(&world);
            continue;
        }
        worlds++;
        second = agree_is_voter(&agree->own, 1) ? 1 : 2;
        third = 3 - second;
        agree->members[third].stored = 0; /* it is not ready */
        world.cut[third][0] = true;
        forget_messages(third);
        for (uint32_t tries = 0; agree->log.begun != 0; tries++) {
            assert_true(tries < 100000);
            run(10);
        }
        assert_int_equal(agree_conf_voters(&agree->own), 2);
        stand_still(0);
        world.cut[third][0] = false;
        for (uint32_t tries = 0; tries < 1000; tries++) {
            run(SECOND / 1000);
            assert_true(agree_is_voter(&agree->own, second));
        }
        await_voters(7, 20 * SECOND);
        views_fini(&world);
    }
}

/* ... and so it is at the next start, if it was stopped before that. */
static void a_change_that_was_not_decided_ends_with_who_began_it(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0; n < 8; n++) {
        uint32_t lead, gone;
        struct agree *agree;

        begin(3, 3, seed + n);
        lead = leader();
        gone = (lead + 1) % 3;
        views_kill(&world, gone);
        agree = world.nodes[lead].agree;
        let_go(agree, 3 - lead - gone);
        views_kill(&world, lead);
        views_start(&world, lead);
        run(AGREE_GRACE_US);
        settle(20 * SECOND);
        views_start(&world, gone);
        settle(20 * SECOND);
        await_voters(7, 10 * SECOND);
        views_fini(&world);
    }
}

/* One that decides alone is stopped in the moment in which it has another vote, too. */
static void who_decides_alone_goes_on_over_a_stop(void **state)
{
    uint64_t seed = support_seed();
    uint32_t undecided = 0;

    (void)state;
    for (uint32_t n = 0; n < 20; n++) {
        begin(1, 4, seed + n);
        join(0);
        join(1);
        for (uint32_t tries = 0; agree_conf_voters(&world.nodes[0].agree->own) == 1; tries++) {
            assert_true(tries < 2000000);
            run(1 + n * 20);
        }
        undecided += world.nodes[0].agree->log.begun != 0 ? 1 : 0;
        stop(0);
        views_start(&world, 0);
        settle(20 * SECOND);
        await_voters(7, 20 * SECOND);
        views_fini(&world);
    }
    assert_true(undecided > 5);
}

/* Stopped at any moment of it: what was told of a decision stands. */
static void what_was_told_is_decided_over_a_stop(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0; n < 40; n++) {
        uint64_t applied;

        begin(1, 4, seed + n);
        join(0);
        join(1);
        for (uint32_t tries = 0; agree_conf_voters(&world.nodes[0].agree->own) == 1; tries++) {
            assert_true(tries < 2000000);
            run(10);
        }
        run(n * 100);
        applied = world.nodes[0].agree->raft.last_applied;
        views_kill(&world, 0);
        views_start(&world, 0);
        assert_true(world.nodes[0].agree->log.first + world.nodes[0].agree->log.count > applied);
        settle(20 * SECOND);
        await_voters(7, 20 * SECOND);
        views_fini(&world);
    }
}

/* A snapshot is due with the change itself: what is kept of the one says that of the other. */
static void a_snapshot_and_what_it_decides_are_kept_as_one(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0; n < 8; n++) {
        uint32_t lead, other;
        struct agree *agree;
        uint64_t index;

        begin(3, 3, seed + n);
        lead = leader();
        other = (lead + 1 + n % 2) % 3;
        agree = world.nodes[lead].agree;
        while (agree->raft.last_applied + 1 != agree->log.snapshot_index + AGREE_SNAPSHOT) {
            add_entry(agree);
        }
        let_go(agree, other);
        index = agree->log.begun;
        for (uint32_t tries = 0; agree->raft.last_applied < index; tries++) {
            assert_true(tries < 100);
            run(SECOND / 100);
        }
        assert_int_equal(agree->log.snapshot_index, index);
        stop(lead);
        views_start(&world, lead);
        settle(20 * SECOND);
        await_voters(7, 20 * SECOND);
        views_fini(&world);
    }
}

/* Another leads in a later term, has what this one has begun, and is told that it is here: it may
 * count that, and so it stays, over a stop. */
static void what_another_leader_was_told_stays(void **state)
{
    uint32_t lead, other;
    struct agree *agree;
    struct agree_head append;
    uint64_t index;

    (void)state;
    begin(6, 6, support_seed());
    lead = leader();
    other = (lead + 1) % 5;
    agree = world.nodes[lead].agree;
    let_go(agree, (lead + 2) % 5);
    index = agree->log.begun;
    assert_int_equal(index, agree->log.first + agree->log.count - 1);
    append = (struct agree_head){
        .kind = RAFT_IO_APPEND_ENTRIES,
        .numbers = {agree->log.term + 1, index, agree->log.term, agree->raft.commit_index}};
    agree_hear(agree, other, &append, sizeof(append), world.now_us);
    assert_int_equal(agree->log.term, append.numbers[0]);
    assert_true(agree->log.first + agree->log.count > index);
    views_kill(&world, lead);
    views_start(&world, lead);
    agree = world.nodes[lead].agree;
    assert_true(agree->log.first + agree->log.count > index);
    views_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vote_counts_until_it_is_handed_on),
        cmocka_unit_test(of_three_one_is_lost_as_another_leaves),
        cmocka_unit_test(of_four_one_is_lost_as_another_leaves),
        cmocka_unit_test(who_is_lost_as_another_leaves_is_struck_off),
        cmocka_unit_test(who_cannot_write_says_so),
        cmocka_unit_test(a_change_that_nobody_answers_for_is_taken_back),
        cmocka_unit_test(who_kept_nothing_does_not_answer),
        cmocka_unit_test(a_change_stays_over_a_stop_of_who_leads),
        cmocka_unit_test(of_two_none_goes_for_a_stop_of_who_leads),
        cmocka_unit_test(a_change_that_was_not_decided_ends_with_who_began_it),
        cmocka_unit_test(who_decides_alone_goes_on_over_a_stop),
        cmocka_unit_test(what_was_told_is_decided_over_a_stop),
        cmocka_unit_test(a_snapshot_and_what_it_decides_are_kept_as_one),
        cmocka_unit_test(what_another_leader_was_told_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
