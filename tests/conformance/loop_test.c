/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: endpoints that lead back to their fabric. Numbers F1, F2, ... are those of
 * docs/fabric.md. */
#include "conformance/world.h"

#include <string.h>

#include "base/check.h"

#define DEPTH 64

/* An end that leads back; NULL: the fabric has none, and says so. */
static struct world_end *loop(struct world *world, uint32_t fabric)
{
    struct world_end *end = world_end(world, fabric);
    struct fabric_endpoint_options options = end_options(end, DEPTH, 0);
    bool can = world_can(world, FABRIC_CAN_LOOP);
    nigh_status status = fabric_loop(world->fabrics[fabric], &options, &end->endpoint);

    assert_int_equal(status, can ? NIGH_OK : NIGH_UNSUPPORTED);
    return can ? end : NULL;
}

/* F70: bytes, and words, of the own fabric, by keys. */
static void test_a_loop_reaches_its_own_fabric(void **state)
{
    struct world *world = *state;
    struct world_area *from = world_area(world, ALICE, 64 * KIB, FABRIC_LOCAL_WRITE);
    struct world_area *to = world_area(world, ALICE, 64 * KIB, ALL_RIGHTS);
    struct world_end *end = loop(world, ALICE);

    if (end == NULL)
        return;
    area_fill(from, 0, 20 * KIB, 7);
    end_write(end, 1, from, 3, area_remote(to, 101), 20 * KIB - 3);
    end_read(end, 2, from, 32 * KIB, area_remote(to, 101), 20 * KIB - 3);
    assert_int_equal(end_wait(end, 1), NIGH_OK);
    assert_int_equal(end_wait(end, 2), NIGH_OK);
    assert_memory_equal(to->bytes + 101, from->bytes + 3, 20 * KIB - 3);
    assert_memory_equal(from->bytes + 32 * KIB, from->bytes + 3, 20 * KIB - 3);
    assert_true(area_is(to, 0, 101, 0));
    assert_int_equal(end->established, 0); /* it was there on return */
    if (!world_can(world, FABRIC_CAN_ATOMICS))
        return;
    memset(to->bytes + 48 * KIB, 0, 8);
    assert_int_equal(
        end_post_atomic(end, FABRIC_FETCH_ADD, 3, from, 8 * 3, area_remote(to, 48 * KIB), 5, 0),
        NIGH_OK);
    assert_int_equal(end_wait(end, 3), NIGH_OK);
    assert_int_equal(
        end_post_atomic(end, FABRIC_COMPARE_SWAP, 4, from, 8 * 4, area_remote(to, 48 * KIB), 9, 5),
        NIGH_OK);
    assert_int_equal(end_wait(end, 4), NIGH_OK);
    assert_int_equal(area_u64(from, 24), 0);
    assert_int_equal(area_u64(from, 32), 5);
    assert_int_equal(area_u64(to, 48 * KIB), 9);
    assert_int_equal(end->disconnected, 0);
}

/* F70 F44: where a word lies and elsewhere the same atomics are meant: none is lost. */
static void test_a_loop_is_one_of_the_peers(void **state)
{
    enum {
        EACH = 300,
        WINDOW = 40
    };
    static bool given[2 * EACH];
    struct world *world = *state;
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct world_area *here[2] = {world_area(world, ALICE, 4 * KIB, FABRIC_LOCAL_WRITE),
                                  world_area(world, BOB, 4 * KIB, FABRIC_LOCAL_WRITE)};
    struct world_bound bound = world_bound_start();
    struct world_end *end[2] = {NULL, loop(world, BOB)}, *bob;
    uint32_t posted[2] = {0};
    bool more = true;

    if (end[1] == NULL || !world_can(world, FABRIC_CAN_ATOMICS))
        return;
    world_join(world, ALICE, BOB, &end[0], &bob);
    while (more) {
        more = false;
        for (uint32_t i = 0; i < 2; i++) {
            for (; posted[i] < EACH && posted[i] - end[i]->logged < WINDOW; posted[i]++)
                assert_int_equal(end_post_atomic(end[i], FABRIC_FETCH_ADD, posted[i], here[i],
                                                 8 * posted[i], area_remote(there, 8), 1, 0),
                                 NIGH_OK);
            more = more || end[i]->logged < EACH;
        }
        assert_true(!more || world_step(world, &bound));
    }
    assert_int_equal(area_u64(there, 8), 2 * EACH);
    memset(given, 0, sizeof(given));
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t j = 0; j < EACH; j++) {
            uint64_t old = area_u64(here[i], 8 * (uint64_t)j);

            assert_int_equal(end[i]->log[j].status, NIGH_OK);
            assert_true(old < 2 * EACH);
            assert_false(given[old]);
            given[old] = true;
        }
    }
}

/* F70: no messages. */
static void test_a_loop_carries_no_messages(void **state)
{
    struct world *world = *state;
    struct world_area *area = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_end *end = loop(world, ALICE);
    struct fabric_slice slice = area_slice(area, 0, 8);
    struct fabric_work work = {.op = FABRIC_SEND, .slices = &slice, .slice_count = 1};
    struct fabric_endpoint_options options;
    struct fabric_endpoint *none = NULL;

    if (end == NULL)
        return;
    assert_int_equal(end_post(end, &work), NIGH_UNSUPPORTED);
    work.op = FABRIC_WRITE_IMM;
    work.remote = area_remote(area, 8);
    assert_int_equal(end_post(end, &work), NIGH_UNSUPPORTED);
    assert_int_equal(end_post_receive(end, 1, slice), NIGH_BUSY);
    options = end_options(end, DEPTH, 1);
    assert_int_equal(fabric_loop(world->fabrics[ALICE], &options, &none), NIGH_INVALID);
    options = end_options(end, LIMIT_FABRIC_DEPTH + 1, 0);
    assert_int_equal(fabric_loop(world->fabrics[ALICE], &options, &none), NIGH_INVALID);
    assert_null(none);
    end_write(end, 1, area, 0, area_remote(area, 8), 8); /* it is still there */
    assert_int_equal(end_wait(end, 1), NIGH_OK);
}

/* F70 F46 F47 F50: a refusal costs this endpoint, and no other; there may be another at once. */
static void test_a_loop_is_refused_as_a_peer_is(void **state)
{
    struct world *world = *state;
    struct world_area *area = world_area(world, ALICE, 4 * KIB, ALL_RIGHTS);
    struct world_area *closed = world_area(world, ALICE, 64, FABRIC_LOCAL_WRITE);
    struct world_end *end = loop(world, ALICE), *other, *alice, *bob;

    if (end == NULL)
        return;
    world_join(world, ALICE, BOB, &alice, &bob);
    other = loop(world, ALICE);
    area_fill(area, 0, 64, 3);
    end_write(end, 1, area, 0, area_remote(area, KIB), 64);
    end_write(end, 2, area, 0, area_remote(closed, 0), 64);
    end_write(end, 3, area, 0, area_remote(area, 2 * KIB), 64);
    assert_int_equal(end_wait(end, 1), NIGH_OK);
    assert_int_equal(end_wait(end, 2), NIGH_DENIED);
    assert_int_equal(end_wait(end, 3), NIGH_PEER_LOST);
    assert_comes(world, end->disconnected == 1);
    assert_true(area_is(closed, 0, 64, 0));
    assert_true(area_is(area, 2 * KIB, 64, 0));
    assert_memory_equal(area->bytes + KIB, area->bytes, 64);
    end_destroy(end);
    end = loop(world, ALICE);
    for (uint32_t n = 0; n < 2; n++) {
        struct world_end *now = n == 0 ? end : other;

        end_write(now, 4, area, 0, area_remote(area, 3 * KIB), 64);
        assert_int_equal(end_wait(now, 4), NIGH_OK);
    }
    assert_int_equal(alice->disconnected + bob->disconnected + other->disconnected, 0);
}

/* F70 F31 F53: they come and go, with what is under way. */
static void test_loops_come_and_go(void **state)
{
    struct world *world = *state;
    struct world_area *area = world_area(world, ALICE, 64 * KIB, ALL_RIGHTS);

    for (uint32_t n = 0; n < 30; n++) {
        struct world_end *end = loop(world, ALICE);

        if (end == NULL)
            return;
        end_write(end, 1, area, 0, area_remote(area, 32 * KIB), 16 * KIB);
        end_read(end, 2, area, 0, area_remote(area, 32 * KIB), 16 * KIB);
        if (n % 3 == 0)
            assert_int_equal(end_wait(end, 2), NIGH_OK);
        if (n % 3 == 1) {
            end_disconnect(end);
            assert_comes(world, end->disconnected == 1 && end->logged == 2);
        }
        end_destroy(end);
        memset(area->bytes, (int)n, 64 * KIB);
        world_steps(world, 3);
        assert_true(area_is(area, 0, 64 * KIB, (uint8_t)n));
    }
}

static const struct CMUnitTest tests[] = {
    WORLD_TEST(test_a_loop_reaches_its_own_fabric),
    WORLD_TEST(test_a_loop_is_one_of_the_peers),
    WORLD_TEST(test_a_loop_carries_no_messages),
    WORLD_TEST(test_a_loop_is_refused_as_a_peer_is),
    WORLD_TEST(test_loops_come_and_go),
};

const struct world_tests loop_tests = {tests, ARRAY_LENGTH(tests)};
