/* SPDX-License-Identifier: Apache-2.0 */
/* Which objects are used most (object/heat.h): those are found that are, among many that are not.
 */
#include "object/heat.h"

#include <stdlib.h>

#include "base/random.h"
#include "support/support.h"

#define SECOND UINT64_C(1000000)

static void note(struct heat *heat, uint32_t entry, uint32_t times)
{
    struct heat_key key = {.pool = 3, .entry = entry, .generation = entry + 7};

    while (times-- > 0) {
        heat_note(heat, &key);
    }
}

static void what_is_used_much_is_found(void **state)
{
    struct heat *heat = calloc(1, sizeof(*heat));
    struct heat_place top[4];
    struct random random;

    (void)state;
    random_init(&random, support_seed());
    heat_look(heat, 5 * SECOND);
    for (uint32_t n = 0; n < 20000; n++) {
        note(heat, 1, n % 4 == 0 ? 1 : 0);
        note(heat, 2, n % 8 == 0 ? 1 : 0);
        note(heat, 1000 + (uint32_t)random_below(&random, 100000), 1);
    }
    assert_int_equal(heat->seen, 20000 + 5000 + 2500);
    assert_int_equal(heat_top(heat, top, 4), 4);
    assert_true(top[0].key.entry == 1 && top[0].key.pool == 3 && top[0].key.generation == 8);
    assert_int_equal(top[1].key.entry, 2);
    assert_true(top[0].uses > 4500 && top[0].uses <= 5000);
    assert_true(top[0].uses >= top[1].uses && top[1].uses >= top[2].uses);
    assert_true(top[2].uses >= top[3].uses);
    free(heat);
}

static void what_was_used_long_ago_goes(void **state)
{
    struct heat *heat = calloc(1, sizeof(*heat));
    struct heat_place top[1];

    (void)state;
    assert_false(heat_is_watched(heat, SECOND));
    heat_look(heat, SECOND);
    assert_true(heat_is_watched(heat, 2 * SECOND));
    note(heat, 1, 100);
    heat_look(heat, 12 * SECOND);
    assert_true(heat_top(heat, top, 1) == 1 && top[0].uses == 50 && heat->seen == 50);
    for (uint64_t at = 12; at < 100; at += 8) {
        heat_look(heat, at * SECOND);
    }
    assert_int_equal(heat_top(heat, top, 1), 0);
    /* Nobody looked for a while: what was counted before is no news. */
    note(heat, 1, 100);
    assert_false(heat_is_watched(heat, 200 * SECOND));
    heat_look(heat, 200 * SECOND);
    assert_int_equal(heat_top(heat, top, 1), 0);
    free(heat);
}

/* The next object of an entry is another. */
static void lives_are_told_apart(void **state)
{
    struct heat *heat = calloc(1, sizeof(*heat));
    struct heat_key next = {.pool = 3, .entry = 1, .generation = 9};
    struct heat_place top[1];

    (void)state;
    heat_look(heat, SECOND);
    note(heat, 1, 3);
    for (uint32_t n = 0; n < 5; n++) {
        heat_note(heat, &next);
    }
    assert_int_equal(heat_top(heat, top, 1), 1);
    assert_true(top[0].key.generation == 9 && top[0].uses == 2);
    free(heat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_used_much_is_found),
        cmocka_unit_test(what_was_used_long_ago_goes),
        cmocka_unit_test(lives_are_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
