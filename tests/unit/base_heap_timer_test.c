/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines: the order of expiry, the bound, and random runs against a search through all timers.
 */
#include "base/check.h"
#include "base/heap_timer.h"
#include "base/random.h"
#include "support/support.h"

static void empty_heap_never_expires(void **state)
{
    (void)state;
    struct timers timers;
    struct timer *storage[1];
    timers_init(&timers, storage, 1);
    assert_true(timers_first_deadline(&timers) == TIMERS_NEVER);
    assert_null(timers_pop_expired(&timers, UINT64_MAX));
    timers_init(&timers, NULL, 0);
    struct timer timer = {0};
    assert_int_equal(timers_add(&timers, &timer, 1), NIGH_LIMIT);
}

static void timer_expires_at_its_deadline_and_not_before(void **state)
{
    (void)state;
    struct timers timers;
    struct timer *storage[2], timer = {0};
    timers_init(&timers, storage, 2);
    assert_false(timer_is_armed(&timer));
    assert_int_equal(timers_add(&timers, &timer, 100), NIGH_OK);
    assert_true(timer_is_armed(&timer));
    assert_true(timers_first_deadline(&timers) == 100);
    assert_null(timers_pop_expired(&timers, 99));
    assert_ptr_equal(timers_pop_expired(&timers, 100), &timer);
    assert_false(timer_is_armed(&timer));
    assert_null(timers_pop_expired(&timers, 101));
}

static void equal_deadlines_expire_in_order_of_adding(void **state)
{
    (void)state;
    struct timers timers;
    struct timer *storage[50], all[50] = {0};
    timers_init(&timers, storage, 50);
    for (size_t i = 0; i < 50; i++)
        assert_int_equal(timers_add(&timers, &all[i], i % 2), NIGH_OK);
    for (size_t i = 0; i < 50; i++)
        assert_ptr_equal(timers_pop_expired(&timers, 9), &all[i < 25 ? 2 * i : 2 * (i - 25) + 1]);
}

static void full_heap_refuses_and_stays_whole(void **state)
{
    (void)state;
    struct timers timers;
    struct timer *storage[2], all[3] = {0};
    timers_init(&timers, storage, 2);
    assert_int_equal(timers_add(&timers, &all[0], 3), NIGH_OK);
    assert_int_equal(timers_add(&timers, &all[1], 2), NIGH_OK);
    assert_int_equal(timers_add(&timers, &all[2], 1), NIGH_LIMIT);
    assert_false(timer_is_armed(&all[2]));
    assert_true(timers_first_deadline(&timers) == 2);
    timers_cancel(&timers, &all[1]);
    timers_cancel(&timers, &all[1]);
    assert_int_equal(timers_add(&timers, &all[2], 1), NIGH_OK);
    assert_true(timers_first_deadline(&timers) == 1);
}

/* The armed timer that must expire first, found by looking at all; NULL when none is armed. */
static struct timer *search_first(struct timer *all, size_t count)
{
    struct timer *first = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!timer_is_armed(&all[i]))
            continue;
        if (first == NULL || all[i].deadline_us < first->deadline_us ||
            (all[i].deadline_us == first->deadline_us && all[i].sequence < first->sequence))
            first = &all[i];
    }
    return first;
}

static void random_runs_agree_with_a_search(void **state)
{
    (void)state;
    enum {
        COUNT = 40,
        CAPACITY = 30
    };
    struct timers timers;
    struct timer *storage[CAPACITY], all[COUNT] = {0};
    struct random random;
    random_init(&random, support_seed());
    timers_init(&timers, storage, CAPACITY);
    uint32_t armed = 0;
    for (int step = 0; step < 20000; step++) {
        struct timer *timer = &all[random_below(&random, COUNT)];
        if (random_below(&random, 10) == 0) {
            uint64_t now_us = random_below(&random, 1000);
            struct timer *first = search_first(all, COUNT);
            if (first != NULL && first->deadline_us > now_us)
                first = NULL;
            assert_ptr_equal(timers_pop_expired(&timers, now_us), first);
            armed -= first != NULL;
        } else if (timer_is_armed(timer)) {
            timers_cancel(&timers, timer);
            assert_false(timer_is_armed(timer));
            armed--;
        } else if (armed == CAPACITY) {
            assert_int_equal(timers_add(&timers, timer, 0), NIGH_LIMIT);
        } else {
            assert_int_equal(timers_add(&timers, timer, random_below(&random, 1000)), NIGH_OK);
            armed++;
        }
        assert_true(timers_is_valid(&timers));
        assert_int_equal(timers.count, armed);
        struct timer *first = search_first(all, COUNT);
        assert_true(timers_first_deadline(&timers) ==
                    (first == NULL ? TIMERS_NEVER : first->deadline_us));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_heap_never_expires),
        cmocka_unit_test(timer_expires_at_its_deadline_and_not_before),
        cmocka_unit_test(equal_deadlines_expire_in_order_of_adding),
        cmocka_unit_test(full_heap_refuses_and_stays_whole),
        cmocka_unit_test(random_runs_agree_with_a_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
