/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random lives of a store with hostile sessions. The fuzz target runs the same driver with the
 * fuzzer's bytes; this one sees to it that every build does some of it.
 */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>

#include "object_store_hostile.h"

#define LIFE_BYTES 12000u
#define LIVES_MIN  8u /* however slow the machine is */

static void random_lives_leave_the_books_right(void **state)
{
    struct hostile *hostile = hostile_create();
    struct hostile_counts counts = {0};
    uint64_t seed = support_seed(), end_us = support_now_us() + support_budget_ms(3000) * 1000;
    uint8_t *bytes = malloc(LIFE_BYTES);
    uint64_t lives = 0;

    (void)state;
    assert_non_null(bytes);
    for (; lives < LIVES_MIN || support_now_us() < end_us; lives++) {
        uint64_t random = seed + lives * UINT64_C(0x9e3779b97f4a7c15) + 1;

        for (uint32_t i = 0; i < LIFE_BYTES; i++) {
            bytes[i] = (uint8_t)(support_random(&random) >> 24);
        }
        hostile_run(hostile, bytes, LIFE_BYTES, &counts);
    }
    free(bytes);
    hostile_destroy(hostile);
    printf("# %llu lives: %llu submissions, %llu ended well, %llu seals, %llu pins, "
           "%llu evictions, %llu spills, %llu restarts, %llu claims, %llu copies, %llu read back\n",
           (unsigned long long)lives, (unsigned long long)counts.submissions,
           (unsigned long long)counts.ended_well, (unsigned long long)counts.seals,
           (unsigned long long)counts.pins, (unsigned long long)counts.evictions,
           (unsigned long long)counts.spills, (unsigned long long)counts.restarts,
           (unsigned long long)counts.claims, (unsigned long long)counts.copies,
           (unsigned long long)counts.read_back);
    /* A driver that only sends rubbish proves little: so much must come of it. */
    assert_true(counts.ended_well > counts.submissions / 10);
    assert_true(counts.seals > lives && counts.pins > lives && counts.restarts > 0);
    assert_true(counts.evictions > 0 && counts.spills > 0);
    assert_true(counts.claims > 0 && counts.copies > 0 && counts.read_back > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lives_leave_the_books_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
