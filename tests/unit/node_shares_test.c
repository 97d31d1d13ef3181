/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of sessions and users in a table: one may have much, nobody what others need. */
#include "node/session_shares.h"

#include "support/support.h"

#include "base/check.h"

#define PLACES 6144u
#define OWN    2u
#define HELD   8192u

static struct session_shares shares;
static struct session_place held[HELD];
static uint32_t held_count;

static void begin(uint32_t sessions, uint32_t places, uint32_t own)
{
    session_shares_init(&shares, sessions);
    session_shares_table(&shares, 0, places, own);
    held_count = 0;
}

static bool take(uint32_t slot, uint32_t uid)
{
    bool may = session_shares_take(&shares, 0, slot, uid, &held[held_count]);

    held_count += may ? 1 : 0;
    return may;
}

static uint32_t take_all(uint32_t slot, uint32_t uid)
{
    uint32_t count = 0;

    while (take(slot, uid)) {
        count++;
    }
    assert_true(session_shares_are_valid(&shares));
    return count;
}

/* By turns, as long as one of them gets something. */
static void take_by_turns(uint32_t first, uint32_t count, uint32_t uid)
{
    bool any;

    do {
        any = false;
        for (uint32_t n = first; n < first + count; n++) {
            any = take(n, uid) || any;
        }
    } while (any);
    assert_true(session_shares_are_valid(&shares));
}

static void give_all(void)
{
    while (held_count > 0) {
        session_shares_give(&shares, 0, &held[--held_count]);
    }
    assert_true(session_shares_are_valid(&shares));
}

static uint32_t used(uint32_t slot)
{
    return shares.tables[0].slot_used[slot];
}

static void one_alone_may_have_much(void **state)
{
    (void)state;
    begin(LIMIT_SESSIONS, PLACES, OWN);
    assert_in_range(take_all(0, 70), 2048 / 3, 2048 / 3 + OWN + 1);
    begin(4, PLACES, OWN);
    assert_in_range(take_all(0, 70), PLACES / 3 - 4 * OWN, PLACES / 3 + OWN);
}

/* Of a user all sessions have alike, and together as much as they leave to other users. */
static void a_user_leaves_half(void **state)
{
    const uint32_t sessions = 768, common = PLACES - 2 * OWN * LIMIT_SESSIONS;
    uint32_t least = UINT32_MAX, most = 0, all = 0;

    (void)state;
    begin(LIMIT_SESSIONS, PLACES, OWN);
    take_by_turns(0, sessions, 70);
    for (uint32_t n = 0; n < sessions; n++) {
        least = min_u32(least, used(n));
        most = most > used(n) ? most : used(n);
        all += used(n);
    }
    assert_in_range(least, OWN, most);
    assert_in_range(most, least, least + 1);
    assert_true(all <= sessions * OWN + common / 2);
    assert_in_range(take_all(sessions, 71), common / 8, common / 2 + OWN); /* another user */
    assert_true(take_all(sessions + 1, 70) >= OWN);                        /* a neighbour */
}

/* One after the other, and none gives anything back. */
static void users_have_alike(void **state)
{
    uint32_t all[3] = {0};
    bool any;

    (void)state;
    begin(64, PLACES, 0);
    do {
        any = false;
        for (uint32_t n = 0; n < 30; n++) {
            bool may = take(n, 70 + n % 3);

            all[n % 3] += may ? 1 : 0;
            any = any || may;
        }
    } while (any);
    for (uint32_t n = 0; n < 3; n++) {
        assert_in_range(all[n], PLACES / 4 - 64, PLACES / 4 + 16);
    }
}

/* Whatever all others do together, users without end too. */
static void nobody_takes_what_is_anothers_own(void **state)
{
    (void)state;
    begin(LIMIT_SESSIONS, PLACES, OWN);
    for (uint32_t n = 0; n + 1 < LIMIT_SESSIONS; n++) {
        assert_true(take_all(n, 70 + n) >= OWN);
    }
    assert_true(take_all(LIMIT_SESSIONS - 1, 70) >= OWN);
    give_all();
    assert_int_equal(shares.tables[0].used, 0);
    assert_in_range(take_all(5, 75), 2048 / 3, 2048 / 3 + OWN + 1);
}

/* What a session leaves behind counts for its user, and not for who comes to its slot. */
static void what_is_left_behind_is_the_users(void **state)
{
    struct session_place *left;
    uint32_t count;

    (void)state;
    begin(4, 64, 4);
    count = take_all(0, 70);
    session_shares_leave(&shares, 0);
    assert_true(session_shares_are_valid(&shares));
    assert_int_equal(used(0), 0);
    assert_true(take(0, 71));
    left = &held[0];
    session_shares_give(&shares, 0, left);
    assert_int_equal(used(0), 1);
    session_shares_give(&shares, 0, left); /* is nobody's by now */
    assert_true(session_shares_are_valid(&shares));
    assert_int_equal(shares.tables[0].used, count);
    session_shares_leave(&shares, 0);
    give_all();
    assert_int_equal(shares.tables[0].common_used, 0);
    for (uint32_t n = 0; n < SESSION_SHARES_USERS; n++) {
        assert_int_equal(shares.users[n].uses, 0);
    }
}

/* As many sessions as a user may have, which leave all they got behind, and come again. */
static void come_and_leave(uint32_t times, uint32_t sessions, uint32_t uid)
{
    for (uint32_t n = 0; n < times; n++) {
        take_by_turns(0, sessions, uid);
        for (uint32_t slot = 0; slot < sessions; slot++) {
            session_shares_leave(&shares, slot);
        }
        assert_true(session_shares_are_valid(&shares));
    }
}

/* Who comes again and again, and leaves its own behind each time, does not get others'. */
static void who_comes_again_does_not_get_all(void **state)
{
    (void)state;
    begin(8, 96, 4);
    come_and_leave(100, 6, 70);
    assert_false(take(0, 70));
    assert_true(take_all(7, 71) >= 4 + 32 / 8); /* and of what is common */
    while (held_count > 8) {
        session_shares_give(&shares, 0, &held[--held_count]);
    }
    assert_true(take(0, 70));
}

/* Of a table that has little in common: whatever it does, all others have their own, in its slots
 * too, and users that left something behind as well; and there is something in common. */
static void what_is_left_behind_takes_nobodys_own(void **state)
{
    const uint32_t sessions = LIMIT_SESSIONS - LIMIT_SESSIONS / 4;

    (void)state;
    begin(LIMIT_SESSIONS, LIMIT_REGION_ASKED, LIMIT_REGION_ASKED_OWN);
    assert_true(take(sessions, 71));
    session_shares_leave(&shares, sessions);
    come_and_leave(20, sessions, 70);
    assert_in_range(take_all(LIMIT_SESSIONS - 1, 72), LIMIT_REGION_ASKED_OWN + LIMIT_SESSIONS / 8,
                    LIMIT_SESSIONS / 2);
    assert_true(take(sessions, 71) && take(sessions, 71)); /* its own, and a common one */
    for (uint32_t slot = 0; slot < LIMIT_SESSIONS; slot++) {
        uint32_t uid = slot <= sessions ? 71 : 72;

        assert_true(used(slot) >= LIMIT_REGION_ASKED_OWN || take(slot, uid));
    }
    assert_true(session_shares_are_valid(&shares));
}

/* Nor does it keep one out that left a little behind: it has its share of what is common. */
static void who_left_its_own_behind_has_what_is_common(void **state)
{
    (void)state;
    begin(4, 64, 2);
    for (uint32_t n = 0; n < 2; n++) {
        assert_true(take(0, 70));
    }
    session_shares_leave(&shares, 0);
    assert_in_range(take_all(0, 70), 48 / 3 - 1, 48 / 3 + 1);
    assert_int_equal(shares.tables[0].slot_own[0], 0);
    session_shares_give(&shares, 0, &held[0]);
    assert_true(take(0, 70)); /* its own */
    assert_int_equal(shares.tables[0].slot_own[0], 1);
    assert_true(session_shares_are_valid(&shares));
}

/* Several that do their utmost together have what is common, and then others' own: of that no more
 * than there is. */
static void what_many_leave_behind_is_bounded(void **state)
{
    (void)state;
    begin(8, 96, 4);
    for (uint32_t uid = 70; uid < 90; uid++) {
        come_and_leave(3, 6, uid);
    }
    assert_int_equal(shares.tables[0].used, 96);
    assert_false(take(7, 90));
    give_all();
    assert_true(take_all(7, 90) > 4);
}

static void tables_are_apart(void **state)
{
    struct session_place place = {.is_taken = false};

    (void)state;
    begin(4, 64, 4);
    session_shares_table(&shares, 1, 8, 1);
    (void)take_all(0, 70);
    assert_true(session_shares_take(&shares, 1, 0, 70, &place));
    assert_int_equal(shares.tables[1].slot_used[0], 1);
    session_shares_give(&shares, 1, &place);
    assert_int_equal(shares.tables[1].used, 0);
    assert_true(session_shares_are_valid(&shares));
}

/* However small the table, somebody may use it. */
static void a_table_of_one_place_has_a_place(void **state)
{
    (void)state;
    begin(3, 1, 5);
    assert_int_equal(take_all(2, 70), 1);
    assert_int_equal(take_all(1, 71), 0);
    give_all();
    assert_int_equal(take_all(1, 71), 1);
}

static void what_is_given_can_be_taken(void **state)
{
    uint64_t random = support_seed();

    (void)state;
    begin(6, 60, 3);
    for (uint32_t step = 0; step < 100000; step++) {
        uint32_t slot = (uint32_t)(support_random(&random) >> 33) % 6;
        uint32_t what = (uint32_t)(support_random(&random) >> 40) % 32;

        if (what == 0) {
            session_shares_leave(&shares, slot);
        } else if (what < 16) {
            bool has_own = used(slot) < 3, is_clean = true;
            bool may = take(slot, 70 + slot / 2);

            for (uint32_t n = 0; n < held_count; n++) {
                is_clean = is_clean && (held[n].life == shares.slots[held[n].slot].life ||
                                        held[n].slot / 2 != slot / 2);
            }
            assert_true(may || !has_own || !is_clean || shares.tables[0].used == 60);
        } else if (held_count > 0) {
            uint32_t which = (uint32_t)(support_random(&random) >> 33) % held_count;

            session_shares_give(&shares, 0, &held[which]);
            held[which] = held[--held_count];
        }
        assert_true(session_shares_are_valid(&shares));
        assert_int_equal(shares.tables[0].used, held_count);
    }
    give_all();
    assert_int_equal(shares.tables[0].common_used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_alone_may_have_much),
        cmocka_unit_test(a_user_leaves_half),
        cmocka_unit_test(users_have_alike),
        cmocka_unit_test(nobody_takes_what_is_anothers_own),
        cmocka_unit_test(what_is_left_behind_is_the_users),
        cmocka_unit_test(who_comes_again_does_not_get_all),
        cmocka_unit_test(what_is_left_behind_takes_nobodys_own),
        cmocka_unit_test(who_left_its_own_behind_has_what_is_common),
        cmocka_unit_test(what_many_leave_behind_is_bounded),
        cmocka_unit_test(tables_are_apart),
        cmocka_unit_test(a_table_of_one_place_has_a_place),
        cmocka_unit_test(what_is_given_can_be_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
