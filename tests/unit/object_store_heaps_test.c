/* SPDX-License-Identifier: Apache-2.0 */
/* A store whose memory several pools and uids use: it passes from one to another as needed. */
#include "support/support.h"

#include "base/random.h"
#include "object_store_fixture.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

#define A     1u
#define B     2u
#define OTHER 3u /* of pool 1 */
#define S     4u /* of pool 2, which is strict */

#define assert_valid(fixture) assert_true(store_is_valid((fixture)->store))

#define LATER     6u /* of one pool after another */
#define OTHER_UID 5u /* a session of A's pool, with a heap of its own */

static void another_pool_gets_its_share(void **state)
{
    struct fixture *fx = *state;

    (void)fixture_fill_up(fx, A, 0, 30 * KIB);
    for (uint64_t key = 0; key < 200; key++) {
        assert_int_equal(fixture_put(fx, OTHER, key, 30 * KIB), NIGH_OK);
    }
    assert_int_equal(fixture_status(fx, OTHER, SESSION_OP_CONTAINS, 0), NIGH_OK);
    assert_true(fixture_stats(fx).objects > 300); /* extents changed hands, no more than needed */
    assert_valid(fx);
    /* Beyond its share it evicts its own. */
    for (uint64_t key = 0; key < 2000; key++) {
        assert_int_equal(fixture_put(fx, OTHER, 1000 + key, 30 * KIB), NIGH_OK);
    }
    assert_valid(fx);
    assert_true(fx->set->lane[0].used >
                8); /* an extent that changes hands is never the same number */
}

static void another_uid_of_the_pool_finds_room(void **state)
{
    struct fixture *fx = *state;
    uint32_t entry;

    fixture_open(fx, 9, 0, 1009, true);
    (void)fixture_fill_up(fx, A, 0, 30 * KIB);
    assert_int_equal(fixture_acquire(fx, B, 7, 0, &entry), INDEX_HIT);
    for (uint64_t key = 0; key < 100; key++) {
        assert_int_equal(fixture_put(fx, 9, 5000 + key, 30 * KIB), NIGH_OK);
    }
    assert_int_equal(fixture_acquire(fx, B, 7, 1, &entry), INDEX_HIT);
    assert_valid(fx);
}

/* Whoever has used it, and in whatever pieces: what is empty takes one object of nearly all of it.
 */
static void an_empty_lane_takes_again_what_it_took(void **state)
{
    static const uint32_t who[] = {A, OTHER, S, OTHER_UID}, last[] = {A, OTHER, OTHER_UID};
    struct fixture *fx = *state;
    struct random random;

    random_init(&random, 7);
    fixture_open(fx, OTHER_UID, 0, 1005, true);
    for (uint64_t turn = 0; turn < 12; turn++) {
        uint64_t most = turn % 3 == 0 ? 3 * MIB : 300 * KIB;

        for (uint64_t key = 1; key < 60; key++) {
            (void)fixture_put(fx, who[random_below(&random, 4)], key,
                              1 + random_below(&random, most));
        }
        for (uint64_t key = 1; key < 60; key++) {
            for (uint32_t i = 0; i < 3; i++) {
                (void)fixture_status(fx, who[i], SESSION_OP_DELETE, key);
            }
        }
        fixture_pass(fx, 3000);
        assert_int_equal(fixture_stats(fx).objects, 0);
        /* Not the strict pool, which needs it twice. */
        assert_int_equal(fixture_put(fx, last[turn % 3], 99, 16 * MIB - KIB), NIGH_OK);
        assert_int_equal(fixture_status(fx, last[turn % 3], SESSION_OP_DELETE, 99), NIGH_OK);
        assert_valid(fx);
    }
}

/* Nobody's objects go as long as there is memory, though another heap has it. */
static void memory_of_others_that_is_free_comes_first(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fixture_fill_up(fx, A, 0, 30 * KIB), evictions;

    for (uint64_t key = 1; key < n; key++) {
        (void)fixture_status(fx, A, SESSION_OP_DELETE, key);
    }
    evictions = fixture_stats(fx).evictions;
    for (uint64_t key = 0; key < n * 3 / 4; key++) {
        assert_int_equal(fixture_put(fx, OTHER, key, 30 * KIB), NIGH_OK);
    }
    assert_int_equal(fixture_stats(fx).evictions, evictions);
    assert_valid(fx);
}

/* The memory is two uids', half and half: an object that takes more than either has costs what it
 * takes. */
static void a_large_put_costs_its_size(void **state)
{
    struct fixture *fx = *state;

    fixture_open(fx, OTHER_UID, 0, 1005, true);
    for (uint64_t key = 0; key < 8; key++) {
        assert_int_equal(fixture_put(fx, key % 2 ? OTHER_UID : A, key, 2 * MIB - KIB), NIGH_OK);
    }
    assert_int_equal(fixture_put(fx, A, 99, 10 * MIB - KIB), NIGH_OK);
    assert_in_range(fixture_stats(fx).evicted_bytes, 10 * MIB - 5 * KIB, 10 * MIB);
    assert_valid(fx);
}

/* Memory that goes to and fro between two pools uses up no numbers, and who went leaves his. */
static void hand_overs_use_up_no_numbers(void **state)
{
    struct fixture *fx = *state;

    for (uint64_t key = 0; key < 7; key++) {
        assert_int_equal(fixture_put(fx, A, key, 2 * MIB - KIB), NIGH_OK);
        assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, key), NIGH_OK);
    }
    for (uint32_t turn = 0; turn < 40; turn++) {
        assert_int_equal(fixture_put(fx, turn % 2 ? A : OTHER, 99, MIB), NIGH_OK);
        assert_int_equal(fixture_status(fx, turn % 2 ? A : OTHER, SESSION_OP_DELETE, 99), NIGH_OK);
    }
    assert_int_equal(fx->set->lane[0].used, 9);
    assert_int_equal(fx->set->lane[0].dormant, 1);
    assert_valid(fx);
    /* As long as anybody of the pool may have it mapped it is nobody else's. */
    fixture_open(fx, OTHER_UID, 1, 1005, true);
    fixture_close(fx, OTHER);
    assert_int_equal(fx->set->lane[0].dormant, 1);
    fixture_close(fx, OTHER_UID);
    assert_int_equal(fx->set->lane[0].dormant, 0);
}

/* Pools whose sessions are gone and whose objects are still there: what memory leaves of them is
 * nobody's at once. */
static void numbers_of_those_that_left_are_anybodys(void **state)
{
    struct fixture *fx = *state;

    fixture_pool(fx, 3, false, 0);
    fixture_close(fx, OTHER);
    fixture_close(fx, S);
    for (uint64_t turn = 0; turn < 12; turn++) {
        fixture_open(fx, LATER, 1 + turn % 3, 1000 + turn % 3, true);
        for (uint64_t key = 0; key < 8; key++) {
            assert_int_equal(fixture_put(fx, LATER, 100 * turn + key, 3 * MIB), NIGH_OK);
        }
        assert_int_equal(fx->set->lane[0].dormant, 0);
        fixture_close(fx, LATER);
        assert_valid(fx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(another_pool_gets_its_share, fixture_setup_pools,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(another_uid_of_the_pool_finds_room, fixture_setup_pools,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(an_empty_lane_takes_again_what_it_took, fixture_setup_pools,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(memory_of_others_that_is_free_comes_first,
                                        fixture_setup_pools, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_large_put_costs_its_size, fixture_setup_pools,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(hand_overs_use_up_no_numbers, fixture_setup_pools,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(numbers_of_those_that_left_are_anybodys,
                                        fixture_setup_pools, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
