/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks of a home are whose. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/random.h"
#include "space/allocator.h"

#define BLOCKS 200u

/* All from that one on, as a home does that nobody has anything of. */
static void free_from(struct space_allocator *allocator, uint64_t first)
{
    for (uint64_t n = first; n < allocator->count; n++) {
        space_allocator_leave(allocator, n);
        space_allocator_give(allocator, n);
    }
}

static void nobody_has_more_or_less_than_is_there(void **state)
{
    struct space_allocator allocator;

    (void)state;
    assert_int_equal(space_allocator_init(&allocator, 0), NIGH_INVALID);
    assert_int_equal(space_allocator_init(&allocator, LIMIT_SPACE_BLOCKS + 1), NIGH_INVALID);
    assert_int_equal(space_allocator_init(&allocator, 8), NIGH_OK);
    assert_true(space_allocator_is_valid(&allocator));
    assert_true(space_allocator_take(&allocator, 1) == SPACE_NO_BLOCK);
    assert_int_equal(space_allocator_length(&allocator, 7), 1);
    free_from(&allocator, 1);
    assert_true(space_allocator_is_valid(&allocator));
    assert_int_equal(allocator.used, 1);
    assert_true(space_allocator_take(&allocator, 0) == SPACE_NO_BLOCK);
    assert_true(space_allocator_take(&allocator, 8) == SPACE_NO_BLOCK);
    assert_int_equal(space_allocator_take(&allocator, 7), 1);
    assert_true(space_allocator_take(&allocator, 1) == SPACE_NO_BLOCK);
    space_allocator_fini(&allocator);
}

static void only_what_was_given_is_freed_and_once(void **state)
{
    struct space_allocator allocator;

    (void)state;
    assert_int_equal(space_allocator_init(&allocator, 8), NIGH_OK);
    free_from(&allocator, 0);
    assert_int_equal(space_allocator_take(&allocator, 3), 0);
    assert_int_equal(space_allocator_length(&allocator, 0), 3);
    assert_int_equal(space_allocator_length(&allocator, 1), 0);
    assert_int_equal(space_allocator_length(&allocator, 3), 0);
    assert_int_equal(space_allocator_length(&allocator, 8), 0);
    space_allocator_leave(&allocator, 0);
    assert_int_equal(space_allocator_length(&allocator, 0), 0);
    assert_true(space_allocator_take(&allocator, 6) == SPACE_NO_BLOCK);
    space_allocator_give(&allocator, 0);
    assert_int_equal(space_allocator_take(&allocator, 8), 0);
    space_allocator_fini(&allocator);
}

/* Where so many blocks that nobody has begin at a multiple, or SPACE_NO_BLOCK. */
static uint64_t look_for(const uint8_t taken[BLOCKS], uint64_t blocks, uint64_t align)
{
    for (uint64_t first = 0; first + blocks <= BLOCKS; first += align) {
        uint64_t count = 0;

        while (count < blocks && !taken[first + count]) {
            count++;
        }
        if (count == blocks) {
            return first;
        }
    }
    return SPACE_NO_BLOCK;
}

/* However the home is cut up: of so few runs each is looked at. */
static void what_begins_at_a_multiple_is_found(void **state)
{
    struct space_allocator allocator;
    uint8_t taken[BLOCKS] = {0};
    uint32_t lengths[BLOCKS] = {0}, found = 0, none = 0;
    struct random random;

    (void)state;
    random_init(&random, support_seed());
    assert_int_equal(space_allocator_init(&allocator, BLOCKS), NIGH_OK);
    free_from(&allocator, 0);
    for (uint32_t n = 0; n < 20000; n++) {
        uint64_t first = random_below(&random, BLOCKS);

        if (lengths[first] != 0) {
            space_allocator_leave(&allocator, first);
            space_allocator_give(&allocator, first);
            memset(taken + first, 0, lengths[first]);
            lengths[first] = 0;
        } else {
            uint64_t align = UINT64_C(1) << random_below(&random, 9);
            uint32_t length = 1 + (uint32_t)random_below(&random, 12);
            bool is_there = look_for(taken, length, align) != SPACE_NO_BLOCK;

            first = space_allocator_take_aligned(&allocator, length, align);
            assert_int_equal(first != SPACE_NO_BLOCK, is_there);
            found += is_there;
            none += !is_there;
            if (is_there) {
                assert_int_equal(first % align, 0);
                assert_null(memchr(taken + first, 1, length));
                memset(taken + first, 1, length);
                lengths[first] = length;
            }
        }
        assert_true(space_allocator_is_valid(&allocator));
    }
    assert_true(found > 1000 && none > 100);
    space_allocator_fini(&allocator);
}

static void no_multiple_is_beyond_all_blocks(void **state)
{
    struct space_allocator allocator;

    (void)state;
    assert_int_equal(space_allocator_init(&allocator, 8), NIGH_OK);
    free_from(&allocator, 1);
    for (uint32_t bit = 3; bit < 64; bit++) {
        assert_true(space_allocator_take_aligned(&allocator, 1, UINT64_C(1) << bit) ==
                    SPACE_NO_BLOCK);
    }
    assert_true(space_allocator_take_aligned(&allocator, 5, 4) == SPACE_NO_BLOCK);
    assert_int_equal(space_allocator_take_aligned(&allocator, 4, 4), 4);
    assert_int_equal(space_allocator_take_aligned(&allocator, 1, 2), 2);
    assert_true(space_allocator_take_aligned(&allocator, 1, 2) == SPACE_NO_BLOCK);
    assert_int_equal(allocator.used, 6);
    assert_true(space_allocator_is_valid(&allocator));
    space_allocator_fini(&allocator);
}

static void what_is_free_is_joined(void **state)
{
    struct space_allocator allocator;
    uint8_t taken[BLOCKS] = {0};
    uint32_t lengths[BLOCKS] = {0};
    struct random random;

    (void)state;
    random_init(&random, support_seed());
    assert_int_equal(space_allocator_init(&allocator, BLOCKS), NIGH_OK);
    free_from(&allocator, 0);
    for (uint32_t n = 0; n < 20000; n++) {
        uint32_t length = 1 + (uint32_t)random_below(&random, random_below(&random, 4) ? 4 : 60);
        uint64_t first = random_below(&random, BLOCKS);

        if (lengths[first] != 0) {
            assert_int_equal(space_allocator_length(&allocator, first), lengths[first]);
            space_allocator_leave(&allocator, first);
            space_allocator_give(&allocator, first);
            for (uint32_t at = 0; at < lengths[first]; at++) {
                taken[first + at] = 0;
            }
            lengths[first] = 0;
        } else {
            first = space_allocator_take(&allocator, length);
            for (uint32_t at = 0; first != SPACE_NO_BLOCK && at < length; at++) {
                assert_int_equal(taken[first + at]++, 0);
            }
            if (first != SPACE_NO_BLOCK) {
                lengths[first] = length;
            }
        }
        assert_true(space_allocator_is_valid(&allocator));
    }
    for (uint32_t n = 0; n < BLOCKS; n++) {
        if (lengths[n] != 0) {
            space_allocator_leave(&allocator, n);
            space_allocator_give(&allocator, n);
        }
    }
    assert_int_equal(space_allocator_take(&allocator, BLOCKS), 0);
    space_allocator_fini(&allocator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_has_more_or_less_than_is_there),
        cmocka_unit_test(only_what_was_given_is_freed_and_once),
        cmocka_unit_test(what_is_free_is_joined),
        cmocka_unit_test(what_begins_at_a_multiple_is_found),
        cmocka_unit_test(no_multiple_is_beyond_all_blocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
