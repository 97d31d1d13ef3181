/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows and priorities of regions: so much is under way, and no more; and LITE's three policies,
 * in virtual time: low priority is limited when the load of high priority is high; not when there
 * is as good as none; and when answers to high priority take longer than at best.
 */
#include "region/qos.h"

#include "support/support.h"

#define MS    UINT64_C(1000)
#define PIECE LIMIT_QOS_PIECE

static struct qos qos;
static struct qos_window window;
static uint64_t now_us;

static int set_up(void **state)
{
    (void)state;
    now_us = 1000000;
    qos_init(&qos, QOS_SOFTWARE, now_us);
    qos_window_init(&window, LIMIT_QOS_WINDOW);
    return 0;
}

static void post(enum qos_class class, uint64_t charge)
{
    qos_posted(&qos, &window, class, charge, now_us);
}

static void end(enum qos_class class, uint64_t charge)
{
    qos_ended(&qos, &window, class, charge, now_us);
}

/* For so long: `high` posts of high priority under way, each answered after `took_us`; of low
 * priority as many pieces as may go, one each 100 us at most. Returns the bytes of these. */
static uint64_t pass(uint64_t for_us, uint32_t high, uint64_t took_us)
{
    uint64_t low_bytes = 0;

    for (uint32_t n = 0; n < high; n++) {
        post(QOS_HIGH, LIMIT_QOS_LEAST);
    }
    for (uint64_t end_us = now_us + for_us; now_us < end_us; now_us += 100) {
        if (high > 0) {
            qos_answered(&qos, &window, took_us, now_us);
        }
        if (qos_may_low(&qos, now_us)) {
            post(QOS_LOW, PIECE);
            end(QOS_LOW, PIECE);
            low_bytes += PIECE;
        }
    }
    for (uint32_t n = 0; n < high; n++) {
        end(QOS_HIGH, LIMIT_QOS_LEAST);
    }
    return low_bytes;
}

static void so_much_is_under_way_and_no_more(void **state)
{
    uint64_t pieces = 0;

    (void)state;
    for (; qos_has_room(&window, PIECE); pieces++) {
        post(QOS_HIGH, PIECE);
    }
    assert_int_equal(pieces * PIECE, LIMIT_QOS_WINDOW);
    end(QOS_HIGH, PIECE);
    assert_true(qos_has_room(&window, PIECE));
    assert_int_equal(qos_charge(1), LIMIT_QOS_LEAST);
    assert_int_equal(qos_charge(PIECE), PIECE);
}

/* The high one is next, but low priority has a piece now and then, though nothing limit it. */
static void low_priority_is_last_and_not_never(void **state)
{
    uint64_t high_bytes = 0, low_bytes = 0;

    (void)state;
    assert_int_equal(qos_next(&qos, &window, false, false, now_us), QOS_CLASSES);
    assert_int_equal(qos_next(&qos, &window, false, true, now_us), QOS_LOW);
    assert_int_equal(qos_next(&qos, &window, true, false, now_us), QOS_HIGH);
    for (uint32_t n = 0; n < 1000; n++) {
        enum qos_class class = qos_next(&qos, &window, true, true, now_us);

        post(class, PIECE);
        end(class, PIECE);
        *(class == QOS_HIGH ? &high_bytes : &low_bytes) += PIECE;
    }
    assert_true(low_bytes > 0);
    assert_in_range(high_bytes / low_bytes, LIMIT_QOS_RUN / PIECE - 1, LIMIT_QOS_RUN / PIECE + 1);
}

/* Policy 1. */
static void a_high_load_limits_low_priority(void **state)
{
    uint64_t alone, beside;

    (void)state;
    alone = pass(20 * MS, 0, 0);
    assert_int_equal(qos_low_limit(&qos), 0);
    (void)pass(20 * MS, 4, 10); /* however quick they are answered */
    beside = pass(20 * MS, 4, 10);
    assert_int_not_equal(qos_low_limit(&qos), 0);
    assert_true(beside * 10 < alone);
}

/* Policy 2. */
static void without_a_load_nothing_is_limited(void **state)
{
    (void)state;
    (void)pass(40 * MS, 4, 10);
    assert_int_not_equal(qos_low_limit(&qos), 0);
    (void)pass(3 * LIMIT_QOS_PERIOD_US, 0, 0);
    assert_int_equal(qos_low_limit(&qos), 0);
    assert_int_equal(pass(20 * MS, 0, 0), 200 * PIECE);
    /* One is under way for a hundredth of the time, and late at that: as good as none. */
    for (uint32_t n = 0; n < 20; n++) {
        (void)pass(100, 1, n == 0 ? 10 : 10000);
        (void)pass(10 * MS, 0, 0);
        assert_int_equal(qos_low_limit(&qos), 0);
    }
}

/* Policy 3: one at a time is no high load, but it is to be as quick as it was. */
static void late_answers_limit_low_priority(void **state)
{
    uint64_t alone, beside;

    (void)state;
    alone = pass(20 * MS, 1, 100);
    assert_int_equal(qos_low_limit(&qos), 0);
    (void)pass(20 * MS, 1, 400);
    beside = pass(20 * MS, 1, 400);
    assert_int_not_equal(qos_low_limit(&qos), 0);
    assert_true(beside * 10 < alone);
    (void)pass(200 * MS, 1, 100); /* quick again: the limit goes up, and away */
    assert_int_equal(qos_low_limit(&qos), 0);
}

/* A way that has become longer for good is at its best in a while. */
static void what_was_best_is_forgotten(void **state)
{
    (void)state;
    (void)pass(20 * MS, 1, 100);
    (void)pass(20 * MS, 1, 1000);
    assert_int_not_equal(qos_low_limit(&qos), 0);
    (void)pass(2 * LIMIT_QOS_BEST_US + 20 * MS, 1, 1000);
    (void)pass(400 * MS, 1, 1000);
    assert_int_equal(qos_low_limit(&qos), 0);
}

/* However high the load: low priority has its least. */
static void low_priority_has_its_least(void **state)
{
    uint64_t bytes;

    (void)state;
    (void)pass(100 * MS, 8, 1000);
    bytes = pass(4000 * MS, 8, 1000);
    assert_int_equal(qos_low_limit(&qos), LIMIT_QOS_LOW_LEAST);
    assert_in_range(bytes, 4 * LIMIT_QOS_LOW_LEAST - 2 * PIECE,
                    4 * LIMIT_QOS_LOW_LEAST + 2 * PIECE);
}

static void without_priorities_nothing_is_limited(void **state)
{
    (void)state;
    qos_init(&qos, QOS_NONE, now_us);
    assert_int_equal(pass(100 * MS, 8, 1000), 1000 * PIECE);
    assert_int_equal(qos_low_limit(&qos), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(so_much_is_under_way_and_no_more, set_up),
        cmocka_unit_test_setup(low_priority_is_last_and_not_never, set_up),
        cmocka_unit_test_setup(a_high_load_limits_low_priority, set_up),
        cmocka_unit_test_setup(without_a_load_nothing_is_limited, set_up),
        cmocka_unit_test_setup(late_answers_limit_low_priority, set_up),
        cmocka_unit_test_setup(what_was_best_is_forgotten, set_up),
        cmocka_unit_test_setup(low_priority_has_its_least, set_up),
        cmocka_unit_test_setup(without_priorities_nothing_is_limited, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
