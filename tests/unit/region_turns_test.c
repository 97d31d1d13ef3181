/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of sessions: each has its share of the bytes, whatever its pieces are like. */
#include "region/turns.h"

#include <string.h>

#include "support/support.h"

#define QUANTUM UINT64_C(100)
#define SEATS   5u
#define ENTRIES 8u

static struct turns turns;
static struct turns_seat seats[SEATS];
static struct turns_entry entries[SEATS][ENTRIES];

static int set_up(void **state)
{
    (void)state;
    memset(seats, 0, sizeof seats);
    memset(entries, 0, sizeof entries);
    turns_init(&turns, QUANTUM);
    return 0;
}

static uint32_t seat_of(const struct turns_entry *entry)
{
    return (uint32_t)(entry->seat - seats);
}

static void who_asked_first_is_first(void **state)
{
    (void)state;
    assert_null(turns_first(&turns));
    for (uint32_t n = 0; n < 3; n++) {
        turns_add(&turns, &seats[0], &entries[0][n], 10);
    }
    for (uint32_t n = 0; n < 3; n++) {
        assert_ptr_equal(turns_first(&turns), &entries[0][n]);
        turns_took(&turns, &entries[0][n], 0);
        assert_false(turns_has(&entries[0][n]));
    }
    assert_true(turns_are_empty(&turns));
    assert_null(turns_first(&turns));
}

/* Pieces of 1 and of 250 bytes: either session has as many bytes, to a piece and a turn. */
static void sessions_have_equal_shares(void **state)
{
    const uint64_t costs[SEATS] = {1, 7, 64, 100, 250};
    uint64_t had[SEATS] = {0};

    (void)state;
    for (uint32_t n = 0; n < SEATS; n++) {
        turns_add(&turns, &seats[n], &entries[n][0], costs[n]);
    }
    for (uint32_t step = 0; step < 20000; step++) {
        struct turns_entry *entry = turns_first(&turns);

        had[seat_of(entry)] += entry->cost;
        turns_took(&turns, entry, entry->cost);
        assert_true(turns_are_valid(&turns));
        for (uint32_t n = 1; n < SEATS; n++) {
            assert_in_range(had[n], had[0] > 500 ? had[0] - 500 : 0, had[0] + 500);
        }
    }
}

/* Who wants little waits for one turn of each other, however much these want. */
static void who_wants_little_waits_for_a_turn_of_each(void **state)
{
    uint64_t bytes = 0;

    (void)state;
    for (uint32_t n = 0; n < SEATS - 1; n++) {
        for (uint32_t k = 0; k < ENTRIES; k++) {
            turns_add(&turns, &seats[n], &entries[n][k], 20);
        }
    }
    for (uint32_t round = 0; round < 50; round++) {
        turns_add(&turns, &seats[SEATS - 1], &entries[SEATS - 1][0], 20);
        for (bytes = 0; seat_of(turns_first(&turns)) != SEATS - 1; bytes += 20) {
            turns_took(&turns, turns_first(&turns), 20);
        }
        assert_true(bytes <= (SEATS - 1) * QUANTUM);
        turns_took(&turns, turns_first(&turns), 0);
    }
}

/* Coming and going gains nothing: credit ends with the last that is wanted. */
static void nobody_saves_up(void **state)
{
    uint64_t had[2] = {0};

    (void)state;
    turns_add(&turns, &seats[0], &entries[0][0], 10);
    turns_add(&turns, &seats[1], &entries[1][0], 10);
    for (uint32_t step = 0; step < 5000; step++) {
        struct turns_entry *entry = turns_first(&turns);
        uint32_t n = seat_of(entry);

        had[n] += entry->cost;
        turns_took(&turns, entry, n == 0 ? 10 : 0);
        if (n == 1) {
            turns_add(&turns, &seats[1], entry, 10);
        }
    }
    assert_true(had[1] <= had[0]);
    assert_true(seats[1].credit <= QUANTUM);
}

static void who_cannot_is_passed_and_loses_nothing(void **state)
{
    struct turns_entry *entry;

    (void)state;
    turns_add(&turns, &seats[0], &entries[0][0], 30);
    turns_add(&turns, &seats[1], &entries[1][0], 30);
    turns_pass(&turns, turns_first(&turns));
    for (uint32_t n = 0; n < 3; n++) {
        entry = turns_first(&turns);
        assert_ptr_equal(entry, &entries[1][0]);
        turns_took(&turns, entry, 30);
    }
    entry = turns_first(&turns);
    assert_ptr_equal(entry, &entries[0][0]);
    assert_int_equal(seats[0].credit, QUANTUM);
}

static void what_is_given_up_is_gone(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 3; n++) {
        turns_add(&turns, &seats[n], &entries[n][0], 30);
        turns_add(&turns, &seats[n], &entries[n][1], 30);
    }
    turns_remove(&turns, &entries[0][0]);
    turns_remove(&turns, &entries[1][0]);
    turns_remove(&turns, &entries[1][1]);
    assert_int_equal(turns.count, 2);
    assert_true(turns_are_valid(&turns));
    assert_ptr_equal(turns_first(&turns), &entries[0][1]);
    turns_took(&turns, &entries[0][1], 0);
    assert_ptr_equal(turns_first(&turns), &entries[2][0]);
}

static void random_lives_keep_it_whole(void **state)
{
    uint64_t random = support_seed();

    (void)state;
    for (uint32_t step = 0; step < 20000; step++) {
        uint64_t dice = support_random(&random) >> 20;
        struct turns_entry *entry = &entries[dice % SEATS][dice / SEATS % ENTRIES];
        uint64_t cost = 1 + dice / 64 % 300;

        switch (dice / 4096 % 4) {
        case 0:
            if (turns_has(entry)) {
                turns_remove(&turns, entry);
            }
            break;
        case 1:
            entry = turns_first(&turns);
            if (entry != NULL) {
                turns_took(&turns, entry, dice / 65536 % 2 == 0 ? 0 : cost);
            }
            break;
        case 2:
            entry = turns_first(&turns);
            if (entry != NULL) {
                turns_pass(&turns, entry);
            }
            break;
        default:
            if (!turns_has(entry)) {
                turns_add(&turns, &seats[dice % SEATS], entry, cost);
            }
        }
        assert_true(turns_are_valid(&turns));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_asked_first_is_first, set_up),
        cmocka_unit_test_setup(sessions_have_equal_shares, set_up),
        cmocka_unit_test_setup(who_wants_little_waits_for_a_turn_of_each, set_up),
        cmocka_unit_test_setup(nobody_saves_up, set_up),
        cmocka_unit_test_setup(who_cannot_is_passed_and_loses_nothing, set_up),
        cmocka_unit_test_setup(what_is_given_up_is_gone, set_up),
        cmocka_unit_test_setup(random_lives_keep_it_whole, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
