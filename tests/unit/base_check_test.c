/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions reach the hook, arithmetic refuses what does not fit. Not tested: the abort itself. */
#include "base/check.h"
#include "support/support.h"

#include <stdio.h>
#include <string.h>

static jmp_buf check_test_escape;
static char check_test_file[256], check_test_expression[256];
static int check_test_line;

static void check_test_hook(const char *file, int line, const char *expression)
{
    snprintf(check_test_file, sizeof(check_test_file), "%s", file);
    snprintf(check_test_expression, sizeof(check_test_expression), "%s", expression);
    check_test_line = line;
    longjmp(check_test_escape, 1);
}

/* Whether `statement` fails an assertion. */
#define FAILS(statement)                                      \
    ({                                                        \
        check_hook *before = check_set_hook(check_test_hook); \
        volatile bool failed = true;                          \
        if (setjmp(check_test_escape) == 0) {                 \
            statement;                                        \
            failed = false;                                   \
        }                                                     \
        check_set_hook(before);                               \
        failed;                                               \
    })

static void assertion_that_holds_is_silent(void **state)
{
    (void)state;
    volatile int evaluated = 0;
    assert_false(FAILS(NIGH_ASSERT(++evaluated == 1)));
    assert_int_equal(evaluated, 1);
}

static void assertion_that_fails_tells_where_and_what(void **state)
{
    (void)state;
    volatile int two = 2;
    int line = __LINE__ + 1;
    assert_true(FAILS(NIGH_ASSERT(two == 3)));
    assert_string_equal(check_test_expression, "two == 3");
    assert_int_equal(check_test_line, line);
    assert_non_null(strstr(check_test_file, "base_check_test.c"));
}

static void slow_assertion_costs_nothing_unless_asked_for(void **state)
{
    (void)state;
    int evaluated = 0;
    NIGH_ASSERT_SLOW(++evaluated == 1);
#ifdef NIGH_CHECK_SLOW
    assert_int_equal(evaluated, 1);
#else
    assert_int_equal(evaluated, 0);
#endif
}

/* Ends by the default hook: exit status is minus SIGABRT. */
static int fail_in_child(void *unused)
{
    (void)unused;
    NIGH_ASSERT(false);
    return 0;
}

static void assertion_without_hook_aborts(void **state)
{
    (void)state;
    assert_int_equal(support_join(support_fork(fail_in_child, NULL), 20000), -6);
}

static void container_is_found_from_its_member(void **state)
{
    (void)state;
    struct {
        long before;
        int member;
    } outer;
    assert_ptr_equal(container_of(&outer.member, __typeof__(outer), member), &outer);
    assert_int_equal(ARRAY_LENGTH(check_test_file), 256);
}

static void sums_and_products_are_checked(void **state)
{
    (void)state;
    uint64_t out = 7;
    assert_true(checked_add_u64(UINT64_MAX - 1, 1, &out));
    assert_true(out == UINT64_MAX);
    out = 7;
    assert_false(checked_add_u64(UINT64_MAX, 1, &out));
    assert_false(checked_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_true(out == 7);
    assert_true(checked_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 31, &out));
    assert_true(out == UINT64_C(1) << 63);

    size_t size = 7;
    assert_false(checked_add_size(SIZE_MAX, 1, &size));
    assert_false(checked_mul_size(SIZE_MAX, 2, &size));
    assert_true(size == 7);
    assert_true(checked_add_size(3, 4, &size) && size == 7);
    assert_true(checked_mul_size(3, 4, &size) && size == 12);
}

static void alignment_goes_both_ways(void **state)
{
    (void)state;
    assert_true(align_up_u64(0, 64) == 0);
    assert_true(align_up_u64(1, 64) == 64);
    assert_true(align_up_u64(64, 64) == 64);
    assert_true(align_up_u64(UINT64_MAX - 63, 64) == UINT64_MAX - 63);
    assert_true(align_down_u64(127, 64) == 64);
    assert_true(align_down_u64(UINT64_MAX, 1) == UINT64_MAX);
    assert_true(FAILS(align_up_u64(UINT64_MAX - 62, 64)));
    assert_true(FAILS(align_up_u64(1, 3)));
    assert_true(FAILS(align_down_u64(1, 0)));

    uint64_t out = 7;
    assert_false(checked_align_up_u64(UINT64_MAX - 62, 64, &out));
    assert_true(out == 7);
    assert_true(checked_align_up_u64(65, 64, &out) && out == 128);
}

static void powers_of_two_are_known(void **state)
{
    (void)state;
    assert_false(is_pow2(0));
    assert_true(is_pow2(1));
    assert_false(is_pow2(3));
    assert_true(is_pow2(UINT64_C(1) << 63));
    assert_true(round_up_pow2_u64(0) == 1);
    assert_true(round_up_pow2_u64(1) == 1);
    assert_true(round_up_pow2_u64(2) == 2);
    assert_true(round_up_pow2_u64(3) == 4);
    assert_true(round_up_pow2_u64((UINT64_C(1) << 62) + 1) == UINT64_C(1) << 63);
    assert_true(round_up_pow2_u64(UINT64_C(1) << 63) == UINT64_C(1) << 63);
    assert_true(FAILS(round_up_pow2_u64((UINT64_C(1) << 63) + 1)));
}

static void smaller_and_larger(void **state)
{
    (void)state;
    assert_true(min_u32(1, UINT32_MAX) == 1 && max_u32(1, UINT32_MAX) == UINT32_MAX);
    assert_true(min_u64(2, UINT64_MAX) == 2 && max_u64(2, UINT64_MAX) == UINT64_MAX);
    assert_true(min_size(3, SIZE_MAX) == 3 && max_size(3, SIZE_MAX) == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assertion_that_holds_is_silent),
        cmocka_unit_test(assertion_that_fails_tells_where_and_what),
        cmocka_unit_test(slow_assertion_costs_nothing_unless_asked_for),
        cmocka_unit_test(assertion_without_hook_aborts),
        cmocka_unit_test(container_is_found_from_its_member),
        cmocka_unit_test(sums_and_products_are_checked),
        cmocka_unit_test(alignment_goes_both_ways),
        cmocka_unit_test(powers_of_two_are_known),
        cmocka_unit_test(smaller_and_larger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
