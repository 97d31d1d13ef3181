/* SPDX-License-Identifier: Apache-2.0 */
/* The generator against published numbers, its bounds, and the kernel's source. */
#include "base/check.h"
#include "base/random.h"
#include "support/support.h"

#include <string.h>

/* From the authors' reference program with state 1, 2, 3, 4. */
static void generator_is_xoshiro256_plus_plus(void **state)
{
    (void)state;
    static const uint64_t expected[] = {
        UINT64_C(41943041),
        UINT64_C(58720359),
        UINT64_C(3588806011781223),
        UINT64_C(3591011842654386),
        UINT64_C(9228616714210784205),
        UINT64_C(9973669472204895162),
        UINT64_C(14011001112246962877),
        UINT64_C(12406186145184390807),
        UINT64_C(15849039046786891736),
        UINT64_C(10450023813501588000),
    };
    struct random random = {{1, 2, 3, 4}};
    for (size_t i = 0; i < ARRAY_LENGTH(expected); i++)
        assert_true(random_u64(&random) == expected[i]);
}

/* From the reference program of SplitMix64 with seed 0. */
static void seed_is_spread_by_splitmix64(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 0);
    assert_true(random.state[0] == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(random.state[1] == UINT64_C(0x6e789e6aa1b965f4));
    assert_true(random.state[2] == UINT64_C(0x06c45d188009454f));
    assert_true(random.state[3] == UINT64_C(0xf88bb8a8724c81ec));
}

static void run_follows_from_its_seed(void **state)
{
    (void)state;
    struct random a, b, c;
    random_init(&a, 7);
    random_init(&b, 7);
    random_init(&c, 8);
    for (int i = 0; i < 100; i++) {
        uint64_t number = random_u64(&a);
        assert_true(number == random_u64(&b));
        assert_true(number != random_u64(&c));
    }
}

static void numbers_below_a_bound_are_even(void **state)
{
    (void)state;
    struct random random;
    unsigned counts[7] = {0};
    random_init(&random, 1);
    for (int i = 0; i < 70000; i++) {
        uint64_t number = random_below(&random, 7);
        assert_true(number < 7);
        counts[number]++;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(counts[i], 9600, 10400);
    assert_int_equal(random_below(&random, 1), 0);
    uint64_t high = 0;
    for (int i = 0; i < 100; i++)
        high |= random_below(&random, UINT64_MAX);
    assert_true(high >> 63 == 1);
}

static void fill_writes_every_byte_and_no_other(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 3);
    for (size_t size = 0; size < 40; size++) {
        unsigned char bytes[42] = {0}, seen[40] = {0};
        for (int round = 0; round < 10; round++) {
            random_fill(&random, bytes + 1, size);
            for (size_t i = 0; i < size; i++)
                seen[i] |= bytes[1 + i];
        }
        assert_int_equal(bytes[0], 0);
        assert_int_equal(bytes[1 + size], 0);
        for (size_t i = 0; i < size; i++)
            assert_int_not_equal(seen[i], 0);
    }
}

static void kernel_gives_different_bytes(void **state)
{
    (void)state;
    static unsigned char bytes[2][1000];
    uint64_t seeds[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(random_system_fill(bytes[i], sizeof(bytes[i])), NIGH_OK);
        assert_int_equal(random_system_seed(&seeds[i]), NIGH_OK);
    }
    assert_true(seeds[0] != seeds[1]);
    for (size_t at = 0; at < sizeof(bytes[0]); at += 20)
        assert_memory_not_equal(bytes[0] + at, bytes[1] + at, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generator_is_xoshiro256_plus_plus),
        cmocka_unit_test(seed_is_spread_by_splitmix64),
        cmocka_unit_test(run_follows_from_its_seed),
        cmocka_unit_test(numbers_below_a_bound_are_even),
        cmocka_unit_test(fill_writes_every_byte_and_no_other),
        cmocka_unit_test(kernel_gives_different_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
