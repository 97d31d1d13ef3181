/* SPDX-License-Identifier: Apache-2.0 */
/* Who joins: seats as commands and as bytes, and what a node that joins is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/welcome.h"
#include "support/support.h"

static struct agreed_command command_of(const char *address, uint64_t before)
{
    struct agreed_command command = {.kind = AGREED_SEAT, .epoch = before};

    snprintf(command.address, sizeof(command.address), "%s", address);
    return command;
}

static nigh_status seat(struct agreed_roster *seats, const char *address, uint64_t before)
{
    struct agreed_command command = command_of(address, before);

    return agreed_seat(seats, 2, &command);
}

static void a_seat_is_given_once(void **state)
{
    struct agreed_roster seats = {0};
    struct agreed_command command = command_of("a:1", 0);

    (void)state;
    assert_int_equal(seat(&seats, "a:1", 1), NIGH_BUSY);
    assert_int_equal(seat(&seats, "a:1", 0), NIGH_OK);
    assert_int_equal(seat(&seats, "b:1", 0), NIGH_BUSY); /* another was faster */
    assert_int_equal(seat(&seats, "a:1", 1), NIGH_BUSY); /* it has one */
    assert_int_equal(seat(&seats, "b:1", 1), NIGH_OK);
    assert_int_equal(seat(&seats, "c:1", 2), NIGH_NO_RESOURCES);
    assert_int_equal(agreed_seat_of(&seats, "b:1"), 1);
    assert_int_equal(agreed_seat_of(&seats, "c:1"), AGREED_SEATS);
    memset(command.address, 'x', sizeof(command.address));
    assert_int_equal(agreed_seat(&seats, 9, &command), NIGH_INVALID);
    command = command_of("a:1", 2);
    command.address[20] = 1; /* behind its end */
    assert_int_equal(agreed_seat(&seats, 9, &command), NIGH_INVALID);
    assert_int_equal(seat(&seats, "", 2), NIGH_INVALID);
    assert_int_equal(seat(&seats, "a b:1", 2), NIGH_INVALID);
    assert_int_equal(seats.count, 2);
}

static void seats_come_as_they_went(void **state)
{
    struct agreed_roster seats = {0}, read;
    static uint8_t bytes[AGREED_ROSTER_BYTES];
    size_t count;

    (void)state;
    assert_int_equal(seat(&seats, "a:1", 0), NIGH_OK);
    assert_int_equal(seat(&seats, "b:1", 1), NIGH_OK);
    count = agreed_roster_bytes(&seats);
    agreed_roster_write(&seats, bytes);
    assert_true(agreed_roster_read(bytes, count, 3, 2, &read));
    assert_memory_equal(&read, &seats, sizeof(seats));
    assert_false(agreed_roster_read(bytes, count - 1, 3, 2, &read));
    assert_false(agreed_roster_read(bytes, count, 3, 1, &read)); /* more than there are */
    assert_false(agreed_roster_read(bytes, 23, 3, 2, &read));
    memcpy(bytes + 24 + AGREED_ADDRESS_BYTES, bytes + 24, AGREED_ADDRESS_BYTES); /* one twice */
    assert_false(agreed_roster_read(bytes, count, 3, 2, &read));
}

static nigh_status call(struct agreed_roster *roster, uint64_t rank, const char *name)
{
    struct agreed_command command = {.kind = AGREED_NAME, .epoch = rank};

    snprintf(command.address, sizeof(command.address), "%s", name);
    return agreed_name(roster, 3, &command);
}

static void a_name_is_one_members(void **state)
{
    struct agreed_roster roster = {0};
    struct agreed_command command = {.kind = AGREED_NAME, .address = "a"};

    (void)state;
    assert_int_equal(call(&roster, 1, "a"), NIGH_OK);
    assert_int_equal(call(&roster, 1, "a"), NIGH_BUSY);
    assert_int_equal(call(&roster, 2, "a"), NIGH_EXISTS);
    assert_int_equal(call(&roster, 2, "b"), NIGH_OK);
    assert_int_equal(call(&roster, 1, "b"), NIGH_EXISTS);
    assert_int_equal(call(&roster, 1, ""), NIGH_OK); /* it wants none any more */
    assert_int_equal(call(&roster, 1, ""), NIGH_BUSY);
    assert_int_equal(call(&roster, 0, "a"), NIGH_OK);
    assert_int_equal(call(&roster, 3, "c"), NIGH_INVALID); /* nobody has that rank */
    assert_int_equal(call(&roster, UINT64_MAX, "c"), NIGH_INVALID);
    assert_int_equal(seat(&roster, "d:1", 0), NIGH_OK);
    assert_int_equal(call(&roster, 3, "c"), NIGH_OK);
    assert_int_equal(agreed_rank_of(&roster, "c"), 3);
    assert_int_equal(agreed_rank_of(&roster, ""), LIMIT_NODES);
    assert_int_equal(roster.changes, 6);
    command.epoch = 1;
    command.address[40] = 'x'; /* behind its end */
    assert_int_equal(agreed_name(&roster, 3, &command), NIGH_INVALID);
}

static void names_are_no_ranks_and_no_lists(void **state)
{
    static const char *good[] = {"a", "Db-1", "x.y_z", "abcdefghijklmnopqrstuvwxyz01234"};
    static const char *bad[] = {
        "", "1", "1a", "-a", "a,b", "a b", "\xc3\xa4", "a\n", "abcdefghijklmnopqrstuvwxyz012345"};

    (void)state;
    for (uint32_t n = 0; n < sizeof(good) / sizeof(good[0]); n++) {
        assert_true(agreed_is_name(good[n]));
    }
    for (uint32_t n = 0; n < sizeof(bad) / sizeof(bad[0]); n++) {
        assert_false(agreed_is_name(bad[n]));
    }
}

static void a_roster_comes_as_it_went(void **state)
{
    struct agreed_roster roster = {0}, read;
    static uint8_t bytes[AGREED_ROSTER_BYTES];
    size_t count;

    (void)state;
    assert_int_equal(seat(&roster, "d:1", 0), NIGH_OK);
    assert_int_equal(call(&roster, 0, "a"), NIGH_OK);
    assert_int_equal(call(&roster, 3, "b"), NIGH_OK);
    count = agreed_roster_bytes(&roster);
    agreed_roster_write(&roster, bytes);
    assert_true(agreed_roster_read(bytes, count, 3, 2, &read));
    assert_memory_equal(&read, &roster, sizeof(roster));
    assert_false(agreed_roster_read(bytes, count - 1, 3, 2, &read));
    assert_false(agreed_roster_read(bytes, count, 2, 2, &read)); /* of a rank that is nobody's */
    for (size_t at = count - 2 * sizeof(struct agreed_name_record); at < count; at++) {
        uint8_t was = bytes[at];

        bytes[at] = at % 36 == 0 ? 9 : '!';
        (void)agreed_roster_read(bytes, count, 3, 2, &read); /* nothing is read beyond it */
        bytes[at] = was;
    }
    memcpy(bytes + count - AGREED_NAME_BYTES, "a", 2); /* one name twice */
    assert_false(agreed_roster_read(bytes, count, 3, 2, &read));
}

/* ---- seats that are struck off -------------------------------------------- */

static nigh_status forget(struct agreed_roster *roster, const struct agreed *agreed, uint64_t rank,
                          const char *address)
{
    struct agreed_command command = {.kind = AGREED_FORGET, .epoch = rank};

    snprintf(command.address, sizeof(command.address), "%s", address);
    return agreed_forget(roster, agreed, 3, &command);
}

/* Two seats behind a list of three, the first of which may go. */
static struct agreed_roster two_seats(struct agreed *agreed)
{
    struct agreed_roster roster = {0};

    agreed_init(agreed, 3);
    assert_int_equal(seat(&roster, "d:1", 0), NIGH_OK);
    assert_int_equal(seat(&roster, "e:1", 1), NIGH_OK);
    assert_int_equal(call(&roster, 3, "db"), NIGH_OK);
    return roster;
}

static void who_may_serve_is_not_struck_off(void **state)
{
    struct agreed agreed;
    struct agreed_roster roster = two_seats(&agreed);
    struct agreed_command command = {.kind = AGREED_FORGET, .epoch = 3, .address = "d:1"};

    (void)state;
    agreed_put(&agreed.in, 3, true);
    assert_int_equal(forget(&roster, &agreed, 3, "d:1"), NIGH_BUSY);
    agreed_put(&agreed.in, 3, false);
    agreed_put(&agreed.wary, 3, true);
    assert_int_equal(forget(&roster, &agreed, 3, "d:1"), NIGH_BUSY);
    agreed_put(&agreed.wary, 3, false);
    assert_int_equal(forget(&roster, &agreed, 3, "e:1"), NIGH_INVALID); /* another's */
    assert_int_equal(forget(&roster, &agreed, 3, ""), NIGH_INVALID);
    assert_int_equal(forget(&roster, &agreed, 2, "d:1"), NIGH_INVALID); /* the list's */
    assert_int_equal(forget(&roster, &agreed, 5, "d:1"), NIGH_INVALID);
    assert_int_equal(forget(&roster, &agreed, UINT64_MAX, "d:1"), NIGH_INVALID);
    command.address[20] = 1; /* behind its end */
    assert_int_equal(agreed_forget(&roster, &agreed, 3, &command), NIGH_INVALID);
    assert_int_equal(roster.changes, 3);
    assert_int_equal(forget(&roster, &agreed, 3, "d:1"), NIGH_OK);
    assert_int_equal(forget(&roster, &agreed, 3, "d:1"), NIGH_INVALID); /* nobody's, for ever */
    assert_int_equal(roster.changes, 4);
}

static void what_was_struck_off_had_is_free_but_the_rank(void **state)
{
    struct agreed agreed;
    struct agreed_roster roster = two_seats(&agreed);
    struct agreed_command command = command_of("d:1", 2);
    struct agreed_set struck;

    (void)state;
    assert_int_equal(forget(&roster, &agreed, 3, "d:1"), NIGH_OK);
    assert_true(agreed_is_struck(&roster, 3, 3));
    assert_false(agreed_is_struck(&roster, 3, 2));
    assert_false(agreed_is_struck(&roster, 3, 4));
    assert_false(agreed_is_struck(&roster, 3, 5)); /* not given yet */
    struck = agreed_struck(&roster, 3);
    assert_true(agreed_size(&struck) == 1 && agreed_has(&struck, 3));
    agreed_put(&agreed.in, 4, true);
    assert_false(agreed_meets(&agreed.in, &struck));
    agreed_put(&agreed.in, 3, true);
    assert_true(agreed_meets(&agreed.in, &struck));
    assert_int_equal(agreed_seat_of(&roster, "d:1"), AGREED_SEATS);
    assert_int_equal(agreed_seat_of(&roster, ""), AGREED_SEATS);
    assert_int_equal(agreed_rank_of(&roster, "db"), LIMIT_NODES);
    assert_int_equal(call(&roster, 3, "db"), NIGH_INVALID);
    assert_int_equal(seat(&roster, "d:1", 2), NIGH_NO_RESOURCES); /* of two ranks none is left */
    assert_int_equal(agreed_seat(&roster, 3, &command), NIGH_OK);
    assert_int_equal(agreed_seat_of(&roster, "d:1"), 2);
    assert_int_equal(call(&roster, 5, "db"), NIGH_OK);
}

static void a_roster_with_gaps_comes_as_it_went(void **state)
{
    struct agreed agreed;
    struct agreed_roster roster = two_seats(&agreed), read;
    static uint8_t bytes[AGREED_ROSTER_BYTES];
    struct agreed_command command = command_of("f:1", 2);
    struct agreed_name_record record = {.rank = 3, .name = "x"};
    size_t count;

    (void)state;
    assert_int_equal(agreed_seat(&roster, 3, &command), NIGH_OK);
    assert_int_equal(call(&roster, 5, "later"), NIGH_OK);
    assert_int_equal(forget(&roster, &agreed, 3, "d:1"), NIGH_OK);
    assert_int_equal(forget(&roster, &agreed, 4, "e:1"), NIGH_OK);
    count = agreed_roster_bytes(&roster);
    agreed_roster_write(&roster, bytes);
    assert_true(agreed_roster_read(bytes, count, 3, 3, &read));
    assert_memory_equal(&read, &roster, sizeof(roster));
    bytes[24 + 7] = 'x'; /* behind what is no address */
    assert_false(agreed_roster_read(bytes, count, 3, 3, &read));
    bytes[24 + 7] = 0;
    memcpy(bytes + count - sizeof(record), &record, sizeof(record)); /* who is nobody has no name */
    assert_false(agreed_roster_read(bytes, count, 3, 3, &read));
}

/* ---- the welcome ---------------------------------------------------------- */

static struct members *agreeing(const char *list, uint32_t ranks)
{
    struct members *members = calloc(1, sizeof(*members));
    char why[256] = "";

    assert_int_equal(members_parse(list, "0", members, why, sizeof(why)), NIGH_OK);
    assert_int_equal(members_agree(members, ranks, why, sizeof(why)), NIGH_OK);
    return members;
}

static void who_joins_is_one_of_them(void **state)
{
    static struct auth teller, hearer;
    static uint8_t bytes[WELCOME_BYTES_MAX];
    struct members *members = agreeing("a:1,b:1,c:1", 8), *told = calloc(1, sizeof(*told));
    struct agreed_roster seats = {0};
    nigh_status said;
    uint32_t count;

    (void)state;
    memset(teller.session, 7, sizeof(teller.session));
    memset(hearer.session, 7, sizeof(hearer.session));
    assert_int_equal(seat(&seats, "d:1", 0), NIGH_OK);
    assert_int_equal(seat(&seats, "e:1", 1), NIGH_OK);
    count = welcome_write(&teller, NIGH_OK, 4, members, &seats, bytes);
    assert_int_equal(welcome_bytes(bytes), count);
    assert_int_equal(welcome_read(&hearer, bytes, count, &said, told), NIGH_OK);
    assert_int_equal(said, NIGH_OK);
    assert_int_equal(told->self, 4);
    assert_int_equal(told->listed, 3);
    assert_int_equal(told->count, 8);
    assert_true(told->epoch == members->epoch); /* it is of the same cluster */
    assert_string_equal(told->addresses[3], "d:1");
    assert_string_equal(told->addresses[4], "e:1");
    assert_string_equal(told->addresses[5], "");
    for (uint32_t at = 0; at < count * 8; at += 5) {
        bytes[at / 8] ^= (uint8_t)(1u << at % 8);
        assert_int_equal(welcome_read(&hearer, bytes, count, &said, told), NIGH_PROTOCOL);
        bytes[at / 8] ^= (uint8_t)(1u << at % 8);
    }
    hearer.session[0] ^= 1;
    assert_int_equal(welcome_read(&hearer, bytes, count, &said, told), NIGH_PROTOCOL);
    free(members);
    free(told);
}

static void who_joins_is_told_of_gaps(void **state)
{
    static struct auth auth;
    static uint8_t bytes[WELCOME_BYTES_MAX];
    struct members *members = agreeing("a:1,b:1,c:1", 8), *told = calloc(1, sizeof(*told));
    struct agreed agreed;
    struct agreed_roster seats = two_seats(&agreed);
    nigh_status said;
    uint32_t count;

    (void)state;
    assert_int_equal(forget(&seats, &agreed, 3, "d:1"), NIGH_OK);
    count = welcome_write(&auth, NIGH_OK, 4, members, &seats, bytes);
    assert_int_equal(welcome_read(&auth, bytes, count, &said, told), NIGH_OK);
    assert_int_equal(told->self, 4);
    assert_string_equal(told->addresses[3], "");
    assert_string_equal(told->addresses[4], "e:1");
    assert_true(told->epoch == members->epoch);
    count = welcome_write(&auth, NIGH_OK, 3, members, &seats, bytes); /* nobody's */
    assert_int_equal(welcome_read(&auth, bytes, count, &said, told), NIGH_INVALID);
    free(members);
    free(told);
}

static void a_refusal_says_why(void **state)
{
    static struct auth auth;
    static uint8_t bytes[WELCOME_BYTES_MAX];
    struct members *told = calloc(1, sizeof(*told));
    nigh_status said;
    uint32_t count = welcome_write(&auth, NIGH_NO_RESOURCES, 0, NULL, NULL, bytes);

    (void)state;
    assert_int_equal(welcome_read(&auth, bytes, count, &said, told), NIGH_OK);
    assert_int_equal(said, NIGH_NO_RESOURCES);
    assert_int_equal(told->count, 0);
    free(told);
}

/* Whoever has the key may say what cannot be. */
static void what_cannot_be_is_no_welcome(void **state)
{
    static const char three[3][MEMBERS_ADDRESS_BYTES] = {"a:1", "b:1", "a:1"};
    static const char gap[3][MEMBERS_ADDRESS_BYTES] = {"a:1", "", "b:1"};
    static const char dirty[3][MEMBERS_ADDRESS_BYTES] = {"a:1", "\0x", "b:1"};
    static const char nonsense[1][MEMBERS_ADDRESS_BYTES] = {"nonsense"};
    struct members *told = calloc(1, sizeof(*told));

    (void)state;
    assert_int_equal(members_make(three, 1, 2, 8, 1, told), NIGH_OK);
    assert_int_equal(members_make(three, 1, 3, 8, 1, told), NIGH_INVALID); /* one twice */
    assert_int_equal(members_make(three, 3, 3, 8, 1, told), NIGH_INVALID);
    assert_int_equal(members_make(three, 0, 2, 8, 1, told), NIGH_INVALID);
    assert_int_equal(members_make(three, 2, 1, 8, 0, told), NIGH_INVALID);
    assert_int_equal(members_make(three, 1, 2, 1, 1, told), NIGH_INVALID);
    assert_int_equal(members_make(three, 1, 2, 8, 2, told), NIGH_INVALID); /* it has none */
    assert_int_equal(members_make(three, 1, 2, LIMIT_NODES + 1, 1, told), NIGH_INVALID);
    assert_int_equal(members_make(nonsense, 1, 1, 8, 0, told), NIGH_INVALID);
    assert_int_equal(members_make(gap, 2, 3, 8, 2, told), NIGH_INVALID); /* of the list all are */
    assert_int_equal(members_make(gap, 1, 3, 8, 2, told), NIGH_OK);
    assert_int_equal(members_make(dirty, 1, 3, 8, 2, told), NIGH_INVALID);
    free(told);
}

static void ranks_have_a_default_and_bounds(void **state)
{
    struct members *one = agreeing("a:1", 0), *five = agreeing("a:1,b:1,c:1,d:1,e:1", 0);
    char why[256] = "";

    (void)state;
    assert_int_equal(one->count, 8);
    assert_int_equal(five->count, 10);
    assert_int_equal(five->listed, 5);
    assert_int_equal(members_ranks(200), LIMIT_NODES);
    assert_int_equal(members_ranks(100), 200);
    assert_int_equal(members_agree(five, 4, why, sizeof(why)), NIGH_INVALID);
    assert_non_null(strstr(why, "--ranks"));
    assert_int_equal(members_agree(five, LIMIT_NODES + 1, why, sizeof(why)), NIGH_INVALID);
    assert_int_equal(members_agree(five, LIMIT_NODES, why, sizeof(why)), NIGH_OK);
    assert_true(members_names("a:1, b:1,\nc:1", "c:1"));
    assert_true(members_names("a:1", "a:1"));
    assert_false(members_names("a:12,ba:1", "a:1"));
    assert_false(members_names("a:1", ""));
    free(one);
    free(five);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seat_is_given_once),
        cmocka_unit_test(seats_come_as_they_went),
        cmocka_unit_test(a_name_is_one_members),
        cmocka_unit_test(names_are_no_ranks_and_no_lists),
        cmocka_unit_test(a_roster_comes_as_it_went),
        cmocka_unit_test(who_may_serve_is_not_struck_off),
        cmocka_unit_test(what_was_struck_off_had_is_free_but_the_rank),
        cmocka_unit_test(a_roster_with_gaps_comes_as_it_went),
        cmocka_unit_test(who_joins_is_one_of_them),
        cmocka_unit_test(who_joins_is_told_of_gaps),
        cmocka_unit_test(a_refusal_says_why),
        cmocka_unit_test(what_cannot_be_is_no_welcome),
        cmocka_unit_test(ranks_have_a_default_and_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
