/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: after fabric_endpoint_destroy nothing is touched, and the peer is told. Numbers F1,
 * F2, ... are those of docs/fabric.md. */
#include "conformance/world.h"

#include <string.h>

#include "base/check.h"

#define OPS   8u
#define SIZE  (UINT64_C(128) * 1024)
#define CLEAN 0x11
#define OURS  0x22

static const uint32_t moments[] = {0, 1, 2, 3, 5, 8, 13, 21, 60};

/* Everything that could touch the memory of `near` at once: its own READs, WRITEs, SENDs and
 * receives, and the peer's READs, WRITEs and SENDs. Three parts of each area: near's posts, near's
 * receives and what the peer writes, what the peer reads. */
static void load(struct world_end *near, struct world_end *far, struct world_area *near_area,
                 struct world_area *far_area)
{
    struct world_end *ends[2] = {near, far};
    struct world_area *areas[2] = {near_area, far_area};

    for (uint32_t side = 0; side < 2; side++) {
        for (uint64_t i = 0; i < OPS; i++)
            end_receive(ends[side], i, areas[side], (OPS + i) * SIZE, SIZE);
    }
    for (uint32_t side = 0; side < 2; side++) {
        for (uint64_t i = 0; i < OPS; i++) {
            struct world_area *mine = areas[side], *theirs = areas[1 - side];

            if (i % 4 == 0)
                end_send(ends[side], i, mine, i * SIZE, SIZE);
            else if (i % 4 == 1)
                end_write(ends[side], i, mine, i * SIZE, area_remote(theirs, (OPS + i) * SIZE),
                          SIZE);
            else
                end_read(ends[side], i, mine, i * SIZE, area_remote(theirs, (2 * OPS + i) * SIZE),
                         SIZE);
        }
    }
}

/* F31 F51: what destroy returned from is over: nothing of ours is written, and what the peer still
 * reads successfully it had read before. */
static void test_nothing_is_touched_after_destroy(void **state)
{
    struct world *world = *state;
    struct world_area *area[2] = {world_area(world, ALICE, 3 * OPS * SIZE, ALL_RIGHTS),
                                  world_area(world, BOB, 3 * OPS * SIZE, ALL_RIGHTS)};

    for (uint32_t i = 0; i < ARRAY_LENGTH(moments); i++) {
        uint32_t near = i % 2, far = 1 - near;
        struct world_end *end[2];

        memset(area[0]->bytes, CLEAN, area[0]->size);
        memset(area[1]->bytes, CLEAN, area[1]->size);
        world_join(world, ALICE, BOB, &end[0], &end[1]);
        load(end[near], end[far], area[near], area[far]);
        world_steps(world, moments[i]);
        end_destroy(end[near]);
        memset(area[near]->bytes, OURS, area[near]->size);
        assert_comes(world, end[far]->disconnected > 0 && end[far]->logged == 2 * OPS);
        world_pass(world, 100000);
        assert_true(area_is(area[near], 0, area[near]->size, OURS));
        assert_int_equal(end[far]->disconnected, 1);
        assert_int_equal(end[far]->logged, 2 * OPS);
        for (uint64_t j = 0; j < OPS; j++) {
            const struct fabric_completion *post = end_find(end[far], j);
            const struct fabric_completion *receive = end_find_receive(end[far], j);

            assert_true(post->status == NIGH_OK || post->status == NIGH_PEER_LOST);
            assert_true(receive->status == NIGH_OK || receive->status == NIGH_PEER_LOST);
            if (post->op == FABRIC_READ && post->status == NIGH_OK)
                assert_true(area_is(area[far], j * SIZE, SIZE, CLEAN));
            if (receive->status == NIGH_OK && receive->bytes == SIZE)
                assert_true(area_is(area[far], (OPS + j) * SIZE, SIZE, CLEAN));
        }
        end_destroy(end[far]);
    }
}

/* F31: disconnected first, destroyed then: the same. */
static void test_nothing_is_touched_after_disconnect_and_destroy(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 3 * OPS * SIZE, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 3 * OPS * SIZE, ALL_RIGHTS);

    for (uint32_t i = 0; i < ARRAY_LENGTH(moments); i++) {
        struct world_end *alice, *bob;

        world_join(world, ALICE, BOB, &alice, &bob);
        load(alice, bob, here, there);
        world_steps(world, moments[i]);
        end_disconnect(alice);
        world_steps(world, i);
        end_destroy(alice);
        memset(here->bytes, OURS, here->size);
        assert_comes(world, bob->disconnected > 0);
        world_pass(world, 100000);
        assert_true(area_is(here, 0, here->size, OURS));
        end_destroy(bob);
    }
}

/* F51: the peer learns it, with its reason. */
static void test_peers_of_the_destroyed_are_told(void **state)
{
    struct world *world = *state;
    struct world_area *there = world_area(world, BOB, 256, ALL_RIGHTS);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    end_receive(bob, 1, there, 0, 64);
    end_receive(bob, 2, there, 64, 64);
    end_destroy(alice);
    assert_comes(world, bob->disconnected > 0 && bob->logged == 2);
    assert_int_equal(bob->disconnected, 1);
    assert_int_equal(bob->status, NIGH_PEER_LOST);
    assert_int_equal(bob->log[0].status, NIGH_PEER_LOST);
    assert_int_equal(bob->log[1].status, NIGH_PEER_LOST);
    assert_int_equal(bob->log[0].tag, 1);
    assert_int_equal(bob->log[1].tag, 2);
}

/* F31: completions and events that nobody took are dropped with it (strays fail the teardown). */
static void test_what_was_not_polled_is_dropped(void **state)
{
    enum {
        MESSAGES = 10
    };
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct fabric_completion one;
    struct world_bound bound = world_bound_start();
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint64_t i = 0; i < MESSAGES; i++)
        end_receive(bob, i, there, 0, 8);
    for (uint64_t i = 0; i < MESSAGES; i++)
        end_send(alice, i, here, 0, 8);
    world->asleep[BOB] = true;
    end_disconnect(bob);
    /* One is taken, the others lie there. */
    while (fabric_poll(world->fabrics[BOB], &one, 1, world_provider.now_us(world)) == 0)
        assert_true(world_step(world, &bound));
    end_destroy(bob);
    world->asleep[BOB] = false;
    assert_comes(world, alice->disconnected == 1);
    world_pass(world, 100000);
    assert_int_equal(bob->logged, 0);
    assert_int_equal(bob->disconnected, 0);
}

/* F52 F50: a fabric that ends takes its endpoints along; others live on. */
static void test_a_fabric_ends_with_everything(void **state)
{
    struct world *world = *state;
    uint32_t carol = world_add(world, 3, 0);
    struct world_area *here = world_area(world, ALICE, 3 * OPS * SIZE, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 3 * OPS * SIZE, ALL_RIGHTS);
    struct world_area *hers = world_area(world, carol, 4096, ALL_RIGHTS);
    struct world_end *alice, *bob, *alice2, *carol_end;

    world_join(world, ALICE, BOB, &alice, &bob);
    world_join(world, ALICE, carol, &alice2, &carol_end);
    load(alice, bob, here, there);
    world_steps(world, 5);
    world_drop(world, BOB);
    memset(there->bytes, OURS, there->size);
    assert_comes(world, alice->disconnected > 0 && alice->logged == 2 * OPS);
    assert_int_equal(alice->status, NIGH_PEER_LOST);
    assert_true(area_is(there, 0, there->size, OURS));
    end_read(alice2, 1, here, 0, area_remote(hers, 0), 4096);
    assert_int_equal(end_wait(alice2, 1), NIGH_OK);
}

/* F53: endpoints come and go for long; none is kept. */
static void test_endpoints_come_and_go(void **state)
{
    enum {
        ROUNDS = 25
    };
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 4096, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 4096, ALL_RIGHTS);

    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct world_end *alice, *bob;

        world_join(world, i % 2 == 0 ? ALICE : BOB, i % 2 == 0 ? BOB : ALICE,
                   i % 2 == 0 ? &alice : &bob, i % 2 == 0 ? &bob : &alice);
        end_receive(bob, 1, there, 0, 64);
        end_send(alice, 1, here, 0, 64);
        assert_int_equal(end_wait_receive(bob, 1), NIGH_OK);
        if (i % 3 != 0)
            end_destroy(alice);
        end_destroy(bob);
        if (i % 3 == 0)
            end_destroy(alice);
    }
}

static const struct CMUnitTest tests[] = {
    WORLD_TEST(test_nothing_is_touched_after_destroy),
    WORLD_TEST(test_nothing_is_touched_after_disconnect_and_destroy),
    WORLD_TEST(test_peers_of_the_destroyed_are_told),
    WORLD_TEST(test_what_was_not_polled_is_dropped),
    WORLD_TEST(test_a_fabric_ends_with_everything),
    WORLD_TEST(test_endpoints_come_and_go),
};

const struct world_tests destroy_tests = {tests, ARRAY_LENGTH(tests)};
