/* SPDX-License-Identifier: Apache-2.0 */
/* The hash table: its bound, every key and value, and random runs against a plain array. */
#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/table.h"
#include "support/support.h"

static void any_key_and_value_is_stored(void **state)
{
    (void)state;
    static const uint64_t keys[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63};
    static const uint64_t values[] = {0, UINT64_MAX, 7, 0};
    struct table table;
    assert_int_equal(table_init(&table, 4, 0), NIGH_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_null(table_find(&table, keys[i]));
        assert_int_equal(table_insert(&table, keys[i], values[i]), NIGH_OK);
    }
    for (size_t i = 0; i < 4; i++)
        assert_true(*table_find(&table, keys[i]) == values[i]);
    for (size_t i = 0; i < 4; i++) {
        uint64_t value = 9;
        assert_true(table_remove(&table, keys[i], &value));
        assert_true(value == values[i]);
        assert_null(table_find(&table, keys[i]));
    }
    assert_int_equal(table.count, 0);
    table_fini(&table);
}

static void present_key_keeps_its_value(void **state)
{
    (void)state;
    struct table table;
    assert_int_equal(table_init(&table, 2, 0), NIGH_OK);
    for (uint64_t key = 0; key < 2; key++) {
        assert_int_equal(table_insert(&table, key, 5), NIGH_OK);
        assert_int_equal(table_insert(&table, key, 6), NIGH_EXISTS);
        assert_true(*table_find(&table, key) == 5);
        *table_find(&table, key) = 6;
        assert_true(*table_find(&table, key) == 6);
    }
    table_fini(&table);
}

static void full_table_is_a_status(void **state)
{
    (void)state;
    for (size_t capacity = 1; capacity < 100; capacity++) {
        struct table table;
        assert_int_equal(table_init(&table, capacity, capacity), NIGH_OK);
        for (uint64_t key = 1; key <= capacity; key++)
            assert_int_equal(table_insert(&table, key, key), NIGH_OK);
        assert_int_equal(table_insert(&table, 0, 0), NIGH_LIMIT);
        assert_int_equal(table_insert(&table, capacity + 1, 0), NIGH_LIMIT);
        assert_int_equal(table_insert(&table, 1, 0), NIGH_EXISTS);
        assert_true(table.capacity * 4 <= (table.mask + 1) * 3);
        assert_true(table_is_valid(&table));
        assert_true(table_remove(&table, 1, NULL));
        assert_int_equal(table_insert(&table, 0, 0), NIGH_OK);
        table_fini(&table);
    }
}

static void absent_key_is_not_removed(void **state)
{
    (void)state;
    struct table table;
    uint64_t value = 9;
    assert_int_equal(table_init(&table, 2, 0), NIGH_OK);
    assert_false(table_remove(&table, 0, &value));
    assert_false(table_remove(&table, 3, &value));
    assert_true(value == 9);
    table_fini(&table);
}

static void pointers_are_values(void **state)
{
    (void)state;
    struct table table;
    int target;
    assert_int_equal(table_init(&table, 2, 0), NIGH_OK);
    assert_null(table_find_pointer(&table, 5));
    assert_int_equal(table_insert_pointer(&table, 5, &target), NIGH_OK);
    assert_ptr_equal(table_find_pointer(&table, 5), &target);
    table_fini(&table);
}

static void each_key_is_visited_once(void **state)
{
    (void)state;
    struct table table;
    bool seen[60] = {0};
    size_t cursor = 0, count = 0;
    uint64_t key, value;
    assert_int_equal(table_init(&table, 100, 1), NIGH_OK);
    assert_false(table_next(&table, &cursor, &key, &value));
    for (uint64_t i = 0; i < 60; i++)
        assert_int_equal(table_insert(&table, i, i * 3), NIGH_OK);
    for (cursor = 0; table_next(&table, &cursor, &key, &value); count++) {
        assert_true(key < 60 && value == key * 3);
        assert_false(seen[key]);
        seen[key] = true;
    }
    assert_int_equal(count, 60);
    assert_false(table_next(&table, &cursor, &key, &value));
    table_fini(&table);
}

/* Few slots, six keys: over a hundred seeds, every slot is the last one visited. */
static void every_slot_is_visited(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct table table;
        size_t cursor = 0;
        uint64_t sum = 0, key, value;
        assert_int_equal(table_init(&table, 6, seed), NIGH_OK);
        for (uint64_t i = 1; i <= 6; i++)
            assert_int_equal(table_insert(&table, i, 0), NIGH_OK);
        while (table_next(&table, &cursor, &key, &value))
            sum += key;
        assert_int_equal(sum, 21);
        table_fini(&table);
    }
}

/* Keys whose ideal slots are the last few of 64: runs that wrap around the end of the slots. */
static uint64_t colliding_key(uint64_t from)
{
    while ((hash_u64(from) & 63) < 60)
        from++;
    return from;
}

static void removal_keeps_runs_whole_across_the_end(void **state)
{
    (void)state;
    struct table table;
    uint64_t keys[40];
    assert_int_equal(table_init(&table, 40, 0), NIGH_OK);
    assert_int_equal(table.mask, 63);
    for (size_t i = 0; i < 40; i++) {
        keys[i] = colliding_key(i == 0 ? 1 : keys[i - 1] + 1);
        assert_int_equal(table_insert(&table, keys[i], i), NIGH_OK);
    }
    for (size_t i = 0; i < 40; i++) {
        size_t gone = i * 17 % 40;
        assert_true(table_remove(&table, keys[gone], NULL));
        assert_true(table_is_valid(&table));
        for (size_t j = i + 1; j < 40; j++)
            assert_true(*table_find(&table, keys[j * 17 % 40]) == j * 17 % 40);
    }
    table_fini(&table);
}

static void random_runs_agree_with_an_array(void **state)
{
    (void)state;
    enum {
        KEYS = 300,
        CAPACITY = 200
    };
    struct table table;
    struct random random;
    bool present[KEYS] = {0};
    uint64_t values[KEYS];
    size_t count = 0;
    random_init(&random, support_seed());
    assert_int_equal(table_init(&table, CAPACITY, random_u64(&random)), NIGH_OK);
    for (int step = 0; step < 50000; step++) {
        uint64_t key = random_below(&random, KEYS), value = random_u64(&random), old = 1;
        if (random_below(&random, 5) < 3) {
            nigh_status expected = present[key]        ? NIGH_EXISTS
                                   : count == CAPACITY ? NIGH_LIMIT
                                                       : NIGH_OK;
            assert_int_equal(table_insert(&table, key, value), expected);
            if (expected == NIGH_OK) {
                present[key] = true;
                values[key] = value;
                count++;
            }
        } else {
            assert_int_equal(table_remove(&table, key, &old), present[key]);
            assert_true(!present[key] || old == values[key]);
            count -= present[key];
            present[key] = false;
        }
        assert_int_equal(table.count, count);
        if (step % 100 == 0) {
            assert_true(table_is_valid(&table));
            for (uint64_t i = 0; i < KEYS; i++) {
                uint64_t *found = table_find(&table, i);
                assert_true(present[i] ? found != NULL && *found == values[i] : found == NULL);
            }
        }
    }
    table_fini(&table);
}

static void fini_of_nothing_is_allowed(void **state)
{
    (void)state;
    struct table table = {0};
    table_fini(&table);
    assert_null(table.slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_key_and_value_is_stored),
        cmocka_unit_test(present_key_keeps_its_value),
        cmocka_unit_test(full_table_is_a_status),
        cmocka_unit_test(absent_key_is_not_removed),
        cmocka_unit_test(pointers_are_values),
        cmocka_unit_test(each_key_is_visited_once),
        cmocka_unit_test(every_slot_is_visited),
        cmocka_unit_test(removal_keeps_runs_whole_across_the_end),
        cmocka_unit_test(random_runs_agree_with_an_array),
        cmocka_unit_test(fini_of_nothing_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
