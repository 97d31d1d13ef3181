/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: FETCH_ADD and COMPARE_SWAP. Numbers F1, F2, ... are those of docs/fabric.md. */
#include "conformance/world.h"

#include <string.h>

#include "base/check.h"

#define PEERS 3u

/* F44 F26 F39 */
static void test_one_atomic_after_the_other(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, FABRIC_LOCAL_WRITE);
    struct world_area *there =
        world_area(world, BOB, 64, FABRIC_LOCAL_WRITE | FABRIC_REMOTE_ATOMIC);
    uint64_t start = UINT64_MAX - 1;
    struct world_end *alice, *bob;

    if (!world_can(world, FABRIC_CAN_ATOMICS))
        return;
    world_join(world, ALICE, BOB, &alice, &bob);
    memcpy(there->bytes + 16, &start, sizeof(start));
    memset(there->bytes + 24, 0x77, 8);
    assert_int_equal(
        end_post_atomic(alice, FABRIC_FETCH_ADD, 1, here, 0, area_remote(there, 16), 5, 0),
        NIGH_OK);
    assert_int_equal(end_wait(alice, 1), NIGH_OK);
    assert_int_equal(end_find(alice, 1)->op, FABRIC_FETCH_ADD);
    assert_int_equal(end_find(alice, 1)->bytes, 8);
    assert_int_equal(area_u64(here, 0), start);
    assert_int_equal(area_u64(there, 16), 3); /* it wraps */
    assert_int_equal(
        end_post_atomic(alice, FABRIC_COMPARE_SWAP, 2, here, 8, area_remote(there, 16), 77, 4),
        NIGH_OK);
    assert_int_equal(end_wait(alice, 2), NIGH_OK);
    assert_int_equal(area_u64(here, 8), 3);
    assert_int_equal(area_u64(there, 16), 3);
    assert_int_equal(
        end_post_atomic(alice, FABRIC_COMPARE_SWAP, 3, here, 9, area_remote(there, 16), 77, 3),
        NIGH_OK); /* where the old value lands may be odd */
    assert_int_equal(end_wait(alice, 3), NIGH_OK);
    assert_int_equal(area_u64(here, 9), 3);
    assert_int_equal(area_u64(there, 16), 77);
    assert_true(area_is(there, 0, 16, 0));
    assert_true(area_is(there, 24, 8, 0x77));
    assert_true(area_is(here, 17, 47, 0));
    assert_int_equal(bob->logged, 0);
}

struct crowd {
    struct world *world;
    struct world_area *there;
    struct world_area *here[PEERS];
    struct world_end *end[PEERS], *peer[PEERS];
};

static void crowd_gather(struct crowd *crowd, struct world *world)
{
    crowd->world = world;
    crowd->there = world_area(world, BOB, 64, FABRIC_LOCAL_WRITE | FABRIC_REMOTE_ATOMIC);
    for (uint32_t i = 0; i < PEERS; i++) {
        uint32_t from = i == 0 ? ALICE : world_add(world, 10 + i, 0);

        crowd->here[i] = world_area(world, from, 64 * KIB, FABRIC_LOCAL_WRITE);
        world_join(world, from, BOB, &crowd->end[i], &crowd->peer[i]);
    }
}

/* F44: the sum is right and no two got the same old value. */
static void test_fetch_add_under_contention(void **state)
{
    enum {
        EACH = 300,
        WINDOW = 60
    };
    static bool given[PEERS * EACH];
    struct world *world = *state;
    struct crowd crowd;
    uint32_t posted[PEERS] = {0};
    struct world_bound bound = world_bound_start();
    bool more = true;

    if (!world_can(world, FABRIC_CAN_ATOMICS))
        return;
    crowd_gather(&crowd, world);
    while (more) {
        more = false;
        for (uint32_t i = 0; i < PEERS; i++) {
            for (; posted[i] < EACH && posted[i] - crowd.end[i]->logged < WINDOW; posted[i]++)
                assert_int_equal(end_post_atomic(crowd.end[i], FABRIC_FETCH_ADD, posted[i],
                                                 crowd.here[i], 8 * (uint64_t)posted[i],
                                                 area_remote(crowd.there, 32), 1, 0),
                                 NIGH_OK);
            more = more || crowd.end[i]->logged < EACH;
        }
        assert_true(!more || world_step(world, &bound));
    }
    assert_int_equal(area_u64(crowd.there, 32), PEERS * EACH);
    memset(given, 0, sizeof(given));
    for (uint32_t i = 0; i < PEERS; i++) {
        for (uint32_t j = 0; j < EACH; j++) {
            uint64_t old = area_u64(crowd.here[i], 8 * (uint64_t)j);

            assert_int_equal(crowd.end[i]->log[j].status, NIGH_OK);
            assert_true(old < PEERS * EACH);
            assert_false(given[old]);
            given[old] = true;
        }
    }
}

/* F44: each value is replaced by one of those who tried. */
static void test_compare_swap_under_contention(void **state)
{
    enum {
        WINS = 150
    };
    struct world *world = *state;
    struct crowd crowd;
    uint64_t known[PEERS] = {0}, tag[PEERS] = {0}, seen[PEERS] = {0};
    uint32_t wins[PEERS] = {0};
    struct world_bound bound = world_bound_start();

    if (!world_can(world, FABRIC_CAN_ATOMICS))
        return;
    crowd_gather(&crowd, world);
    for (uint32_t done = 0; done < PEERS;) {
        done = 0;
        for (uint32_t i = 0; i < PEERS; i++) {
            if (crowd.end[i]->logged == tag[i] && seen[i] < tag[i]) {
                seen[i] = tag[i];
                uint64_t old = area_u64(crowd.here[i], 0);

                assert_int_equal(crowd.end[i]->log[tag[i] - 1].status, NIGH_OK);
                wins[i] += old == known[i];
                known[i] = old == known[i] ? old + 1 : old;
            }
            if (wins[i] == WINS || tag[i] == WORLD_LOG - 1)
                done++;
            else if (crowd.end[i]->logged == tag[i])
                assert_int_equal(end_post_atomic(crowd.end[i], FABRIC_COMPARE_SWAP, ++tag[i],
                                                 crowd.here[i], 0, area_remote(crowd.there, 8),
                                                 known[i] + 1, known[i]),
                                 NIGH_OK);
        }
        assert_true(done == PEERS || world_step(world, &bound));
    }
    assert_int_equal(area_u64(crowd.there, 8), wins[0] + wins[1] + wins[2]);
    assert_true(wins[0] == WINS || wins[1] == WINS || wins[2] == WINS);
}

/* F42 F41: an atomic acts after the WRITEs before it; what is fenced comes after the atomic. */
static void test_a_fence_waits_for_atomics(void **state)
{
    enum {
        ROUNDS = 30
    };
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, FABRIC_LOCAL_WRITE);
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct world_end *alice, *bob;

    if (!world_can(world, FABRIC_CAN_ATOMICS))
        return;
    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct fabric_slice slice = area_slice(here, 8, 8);
        uint64_t value = (i + 1) * 1000;
        const struct fabric_work write = {.op = FABRIC_WRITE,
                                          .flags = FABRIC_SIGNALLED | FABRIC_FENCE,
                                          .tag = 100 + i,
                                          .slices = &slice,
                                          .slice_count = 1,
                                          .remote = area_remote(there, 0)};

        memcpy(here->bytes + 8, &value, sizeof(value));
        assert_int_equal(
            end_post_atomic(alice, FABRIC_FETCH_ADD, i, here, 0, area_remote(there, 0), 1, 0),
            NIGH_OK);
        assert_int_equal(end_post(alice, &write), NIGH_OK);
        assert_int_equal(end_wait(alice, 100 + i), NIGH_OK);
        assert_int_equal(end_wait(alice, i), NIGH_OK);
        assert_int_equal(area_u64(here, 0), i * 1000);
        assert_int_equal(area_u64(there, 0), value);
    }
}

/* F23 F45: eight bytes here, eight aligned ones there, nothing else. */
static void test_atomics_are_eight_aligned_bytes(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, FABRIC_LOCAL_WRITE);
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct fabric_slice slice = area_slice(here, 0, 4);
    struct fabric_work work = {.op = FABRIC_FETCH_ADD,
                               .flags = FABRIC_SIGNALLED,
                               .tag = 1,
                               .slices = &slice,
                               .slice_count = 1,
                               .operand = UINT64_MAX};
    struct world_end *alice, *bob;

    if (!world_can(world, FABRIC_CAN_ATOMICS))
        return;
    world_join(world, ALICE, BOB, &alice, &bob);
    work.remote = area_remote(there, 0);
    assert_int_equal(end_post(alice, &work), NIGH_INVALID);
    slice.bytes = 16;
    assert_int_equal(end_post(alice, &work), NIGH_INVALID);
    work.slice_count = 0;
    assert_int_equal(end_post(alice, &work), NIGH_INVALID);
    world_pass(world, 10000);
    assert_int_equal(alice->logged, 0);
    assert_int_equal(
        end_post_atomic(alice, FABRIC_FETCH_ADD, 2, here, 0, area_remote(there, 4), UINT64_MAX, 0),
        NIGH_OK);
    end_wait_refused(alice, bob, 2, NIGH_DENIED);
    assert_true(area_is(there, 0, 64, 0));
}

static const struct CMUnitTest tests[] = {
    WORLD_TEST(test_one_atomic_after_the_other),      WORLD_TEST(test_fetch_add_under_contention),
    WORLD_TEST(test_compare_swap_under_contention),   WORLD_TEST(test_a_fence_waits_for_atomics),
    WORLD_TEST(test_atomics_are_eight_aligned_bytes),
};

const struct world_tests atomic_tests = {tests, ARRAY_LENGTH(tests)};
