/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of a table: one may use much, nobody the last part that others need. */
#include "cluster/share.h"

#include "support/support.h"

static uint32_t take_all(struct share *share, uint32_t member)
{
    uint32_t count = 0;

    while (share_take(share, member)) {
        count++;
        assert_true(share_is_valid(share));
    }
    return count;
}

static void one_of_few_may_use_much(void **state)
{
    struct share share;

    (void)state;
    share_init(&share, 16384, 2);
    assert_in_range(take_all(&share, 0), 16384 / 2, 16384 * 3 / 4);
    assert_in_range(take_all(&share, 1), 16384 / 4, 16384 / 2); /* the rest */
    share_init(&share, 4096, 1);
    assert_int_equal(take_all(&share, 0), 4096); /* nobody else is there */
}

/* Whatever all others do together, a member gets its own part. */
static void nobody_takes_the_own_part_of_another(void **state)
{
    struct share share;
    uint32_t sum = 0;

    (void)state;
    share_init(&share, 16384, LIMIT_NODES);
    for (uint32_t member = 0; member + 1 < LIMIT_NODES; member++) {
        sum += take_all(&share, member);
    }
    assert_int_equal(take_all(&share, LIMIT_NODES - 1), 16384 / LIMIT_SHARE_OWN / LIMIT_NODES);
    assert_int_equal(sum + 16384 / LIMIT_SHARE_OWN / LIMIT_NODES, 16384); /* and all is used */
}

static void the_last_of_the_common_part_is_left_to_others(void **state)
{
    struct share share;
    uint32_t first;

    (void)state;
    share_init(&share, 4096, 100);
    first = take_all(&share, 7);
    assert_true(first < 4096 - 4096 / 8);
    assert_true(take_all(&share, 8) > 4096 / 8);
    assert_true(first > 4096 / 2);
}

static void what_is_given_can_be_taken(void **state)
{
    uint64_t random = support_seed();
    struct share share;
    uint32_t held[5] = {0};

    (void)state;
    share_init(&share, 40, 5);
    for (uint32_t step = 0; step < 100000; step++) {
        uint32_t member = (uint32_t)(support_random(&random) >> 33) % 5;

        if ((support_random(&random) >> 40 & 1) != 0) {
            held[member] += share_take(&share, member) ? 1 : 0;
        } else if (held[member] > 0) {
            share_give(&share, member);
            held[member]--;
        }
        assert_true(share_is_valid(&share));
        assert_int_equal(share.used[member], held[member]);
    }
    for (uint32_t member = 0; member < 5; member++) {
        while (held[member]-- > 0) {
            share_give(&share, member);
        }
    }
    assert_int_equal(share.common_used, 0);
    assert_int_equal(take_all(&share, 0), share.own + share.most);
}

/* However small the table, somebody may use it. */
static void a_table_of_one_place_has_a_place(void **state)
{
    struct share share;

    (void)state;
    share_init(&share, 1, 3);
    assert_int_equal(take_all(&share, 2), 1);
    assert_int_equal(take_all(&share, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_few_may_use_much),
        cmocka_unit_test(nobody_takes_the_own_part_of_another),
        cmocka_unit_test(the_last_of_the_common_part_is_left_to_others),
        cmocka_unit_test(what_is_given_can_be_taken),
        cmocka_unit_test(a_table_of_one_place_has_a_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
