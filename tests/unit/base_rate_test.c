/* SPDX-License-Identifier: Apache-2.0 */
/* The token bucket: what may be had in any time is its rate, and one bucket more. */
#include "base/rate.h"

#include "support/support.h"

static void nothing_is_limited_without_a_rate(void **state)
{
    struct rate rate;

    (void)state;
    rate_init(&rate, 0, 1000);
    for (uint32_t n = 0; n < 10; n++) {
        assert_true(rate_may(&rate, 5));
        rate_take(&rate, UINT64_MAX, 5);
    }
    assert_int_equal(rate_due_us(&rate), 0);
}

static void as_much_comes_as_the_rate_says(void **state)
{
    struct rate rate;
    uint64_t had = 0;

    (void)state;
    rate_init(&rate, 1000, 10000); /* 1 a ms, 10 at once */
    for (uint64_t now_us = 1000000; now_us < 2000000; now_us += 50) {
        while (rate_may(&rate, now_us)) {
            rate_take(&rate, 1, now_us);
            had++;
        }
    }
    assert_in_range(had, 1000, 1011);
}

/* One that had nothing for long has one bucket at once, and no more. */
static void what_was_not_used_is_kept_to_a_bound(void **state)
{
    struct rate rate;
    uint32_t had = 0;

    (void)state;
    rate_init(&rate, 1000, 10000);
    rate_take(&rate, 1, 1000);
    for (; rate_may(&rate, UINT64_C(1) << 40); had++) {
        rate_take(&rate, 1, UINT64_C(1) << 40);
    }
    assert_in_range(had, 10, 11);
}

/* What is larger than the bucket goes, and is waited for by what follows. */
static void much_at_once_is_paid_for_later(void **state)
{
    struct rate rate;

    (void)state;
    rate_init(&rate, 1000, 10000);
    assert_true(rate_may(&rate, 1000000));
    rate_take(&rate, 5000, 1000000);
    assert_false(rate_may(&rate, 1000000));
    assert_int_equal(rate_due_us(&rate), 1000000 + 5000000 - 10000);
    assert_false(rate_may(&rate, rate_due_us(&rate) - 1));
    assert_true(rate_may(&rate, rate_due_us(&rate)));
}

static void nothing_overflows(void **state)
{
    struct rate rate;

    (void)state;
    rate_init(&rate, 1, 0);
    for (uint32_t n = 0; n < 8; n++) {
        rate_take(&rate, UINT64_MAX, 1);
        assert_false(rate_may(&rate, UINT64_C(1) << 40));
    }
    rate_init(&rate, UINT64_MAX, 1);
    rate_take(&rate, UINT64_MAX, 1);
    assert_true(rate_may(&rate, 2000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_limited_without_a_rate),
        cmocka_unit_test(as_much_comes_as_the_rate_says),
        cmocka_unit_test(what_was_not_used_is_kept_to_a_bound),
        cmocka_unit_test(much_at_once_is_paid_for_later),
        cmocka_unit_test(nothing_overflows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
