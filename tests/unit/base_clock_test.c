/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks, and deadlines that do not wrap. */
#include "base/clock.h"
#include "support/support.h"

#include <time.h>

static void monotonic_clock_never_goes_back(void **state)
{
    (void)state;
    uint64_t before_us = clock_now_us(&clock_monotonic);
    for (int i = 0; i < 1000; i++) {
        uint64_t now_us = clock_now_us(&clock_monotonic);
        assert_true(now_us >= before_us);
        before_us = now_us;
    }
}

static void monotonic_clock_counts_microseconds(void **state)
{
    (void)state;
    struct timespec now;
    uint64_t before_us = clock_now_us(&clock_monotonic);
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t after_us = clock_now_us(&clock_monotonic);
    uint64_t between_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    assert_in_range(between_us, before_us, after_us);
}

static void wall_clock_counts_nanoseconds(void **state)
{
    (void)state;
    uint64_t now_ns = clock_wall_ns();
    time_t seconds = time(NULL);
    assert_in_range(now_ns / 1000000000, (uint64_t)seconds - 1, (uint64_t)seconds + 1);
}

static void manual_clock_stands_until_moved(void **state)
{
    (void)state;
    struct clock_manual manual;
    clock_manual_init(&manual, 500);
    assert_int_equal(clock_now_us(&manual.clock), 500);
    assert_int_equal(clock_now_us(&manual.clock), 500);
    clock_manual_advance(&manual, 250);
    assert_int_equal(clock_now_us(&manual.clock), 750);
}

static void deadline_does_not_wrap(void **state)
{
    (void)state;
    assert_true(clock_deadline_us(5, 10) == 15);
    assert_true(clock_deadline_us(5, UINT64_MAX) == UINT64_MAX);
    assert_true(clock_deadline_us(5, UINT64_MAX - 4) == UINT64_MAX);
    assert_true(clock_deadline_us(5, UINT64_MAX - 5) == UINT64_MAX);
    assert_true(clock_deadline_us(5, UINT64_MAX - 6) == UINT64_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(monotonic_clock_never_goes_back),
        cmocka_unit_test(monotonic_clock_counts_microseconds),
        cmocka_unit_test(wall_clock_counts_nanoseconds),
        cmocka_unit_test(manual_clock_stands_until_moved),
        cmocka_unit_test(deadline_does_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
