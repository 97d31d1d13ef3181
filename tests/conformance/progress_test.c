/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: several endpoints and fabrics, fairness, targets that only poll or do not poll,
 * time. Numbers F1, F2, ... are those of docs/fabric.md. */
#include "conformance/world.h"

#include <string.h>

#include "base/check.h"

/* F14 F33: several endpoints between the same two fabrics; each keeps its own order. */
static void test_each_endpoint_keeps_its_order(void **state)
{
    enum {
        ENDS = 5,
        MESSAGES = 40
    };
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, ENDS * MESSAGES * KIB, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, ENDS * MESSAGES * KIB, ALL_RIGHTS);
    struct world_end *alice[ENDS], *bob[ENDS];

    for (uint32_t i = 0; i < ENDS; i++)
        world_join(world, i % 2 == 0 ? ALICE : BOB, i % 2 == 0 ? BOB : ALICE,
                   i % 2 == 0 ? &alice[i] : &bob[i], i % 2 == 0 ? &bob[i] : &alice[i]);
    for (uint64_t j = 0; j < MESSAGES; j++) {
        for (uint64_t i = 0; i < ENDS; i++)
            end_receive(bob[i], j, there, (i * MESSAGES + j) * KIB, KIB);
    }
    for (uint64_t j = 0; j < MESSAGES; j++) {
        for (uint64_t i = 0; i < ENDS; i++) {
            area_fill(here, (i * MESSAGES + j) * KIB, KIB, i * 1000 + j);
            end_send(alice[i], j, here, (i * MESSAGES + j) * KIB, KIB);
        }
    }
    for (uint64_t i = 0; i < ENDS; i++) {
        assert_comes(world, bob[i]->logged == MESSAGES);
        for (uint64_t j = 0; j < MESSAGES; j++) {
            assert_int_equal(bob[i]->log[j].tag, j);
            assert_ptr_equal(bob[i]->log[j].endpoint, bob[i]->endpoint);
            assert_true(area_holds(there, (i * MESSAGES + j) * KIB, KIB, i * 1000 + j));
        }
    }
}

/* F14: a node of one lane with a node of four; every lane reaches every other's memory. */
static void test_one_lane_with_four(void **state)
{
    enum {
        LANES = 4,
        ROUNDS = 10
    };
    struct world *world = *state;
    uint32_t lanes[LANES] = {BOB};
    struct world_area *here = world_area(world, ALICE, 256 * KIB, ALL_RIGHTS);
    struct world_area *there[LANES];
    struct world_end *near[LANES], *far[LANES];

    for (uint32_t i = 0; i < LANES; i++) {
        lanes[i] = i == 0 ? BOB : world_add(world, 2, i);
        there[i] = world_area(world, lanes[i], 64 * KIB, ALL_RIGHTS);
        area_fill(there[i], 0, 32 * KIB, i);
        /* Whoever has more lanes dials, or the other: both work. */
        if (i % 2 == 0)
            world_join(world, ALICE, lanes[i], &near[i], &far[i]);
        else
            world_join(world, lanes[i], ALICE, &far[i], &near[i]);
    }
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (uint64_t i = 0; i < LANES; i++) {
            end_receive(far[i], round, there[i], 40 * KIB, 64);
            end_read(near[i], 2 * round, here, i * 64 * KIB, area_remote(there[i], 0), 32 * KIB);
            end_send(near[i], 2 * round + 1, here, 250 * KIB, 64);
            end_write(far[i], round, there[i], 0, area_remote(here, i * 64 * KIB + 32 * KIB),
                      16 * KIB);
        }
        for (uint64_t i = 0; i < LANES; i++) {
            assert_int_equal(end_wait(near[i], 2 * round), NIGH_OK);
            assert_int_equal(end_wait(near[i], 2 * round + 1), NIGH_OK);
            assert_int_equal(end_wait(far[i], round), NIGH_OK);
            assert_int_equal(end_wait_receive(far[i], round), NIGH_OK);
            assert_true(area_holds(here, i * 64 * KIB, 32 * KIB, i));
            assert_true(area_holds(here, i * 64 * KIB + 32 * KIB, 16 * KIB, i));
        }
    }
}

/* F14: two that dial each other at the same time get two endpoints. */
static void test_two_dial_each_other(void **state)
{
    struct world *world = *state;
    struct world_end *dialled[2], *accepted[2];
    struct world_area *area = world_area(world, ALICE, 64, ALL_RIGHTS);

    dialled[0] = world_dial(world, ALICE, world->addresses[BOB], "from alice", 10);
    dialled[1] = world_dial(world, BOB, world->addresses[ALICE], "from bob", 8);
    accepted[0] = world_accept(world, world_next_request(world, ALICE), NULL, 0);
    accepted[1] = world_accept(world, world_next_request(world, BOB), NULL, 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_comes(world, dialled[i]->established == 1 && accepted[i]->established == 1);
    end_receive(accepted[0], 1, area, 0, 64);
    {
        const struct fabric_work work = {.op = FABRIC_SEND, .flags = FABRIC_SIGNALLED, .tag = 1};

        assert_int_equal(end_post(dialled[1], &work), NIGH_OK);
    }
    assert_int_equal(end_wait_receive(accepted[0], 1), NIGH_OK);
}

/* F55: while a READ of 64 MiB is under way, messages go to and fro on another endpoint. Rounds of
 * polls are counted, not time. */
static void test_a_big_read_holds_nobody_up(void **state)
{
    enum {
        PINGS = 4
    };
    struct world *world = *state;
    uint64_t size = 64 * MIB;
    struct world_area *here = world_area(world, ALICE, size, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, size, ALL_RIGHTS);
    struct world_end *alice, *bob, *alice2, *bob2;

    world_join(world, ALICE, BOB, &alice, &bob);
    world_join(world, ALICE, BOB, &alice2, &bob2);
    area_fill(there, 0, size, 1);
    for (uint64_t i = 0; i < PINGS; i++) {
        end_receive(bob2, i, there, 0, 0);
        end_receive(alice2, i, here, 0, 0);
    }
    end_read(alice, 1, here, 0, area_remote(there, 0), size);
    for (uint64_t i = 0; i < PINGS; i++) {
        end_send(alice2, i, here, 0, 0);
        assert_int_equal(end_wait_receive(bob2, i), NIGH_OK);
        end_send(bob2, i, there, 0, 0);
        assert_int_equal(end_wait_receive(alice2, i), NIGH_OK);
    }
    assert_int_equal(alice->logged, 0);
    assert_int_equal(end_wait(alice, 1), NIGH_OK);
    assert_true(area_holds(here, 0, size, 1));
}

/* F39 F54: the target calls nothing but fabric_poll, and takes no completion. */
static void test_targets_need_only_poll(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 4 * MIB, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 4 * MIB, ALL_RIGHTS);
    struct world_bound bound = world_bound_start();
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    area_fill(there, 0, MIB, 1);
    area_fill(here, 0, MIB, 2);
    world->asleep[BOB] = true;
    end_read(alice, 1, here, 2 * MIB, area_remote(there, 0), MIB);
    end_write(alice, 2, here, 0, area_remote(there, 2 * MIB), MIB);
    while (alice->logged < 2) {
        assert_true(world_step(world, &bound));
        assert_int_equal(fabric_poll(world->fabrics[BOB], NULL, 0, world_provider.now_us(world)),
                         0);
    }
    assert_int_equal(end_wait(alice, 1), NIGH_OK);
    assert_int_equal(end_wait(alice, 2), NIGH_OK);
    assert_true(area_holds(here, 2 * MIB, MIB, 1));
    assert_true(area_holds(there, 2 * MIB, MIB, 2));
}

/* F56: nobody drives the target for a while: all is late, nothing is lost. */
static void test_a_target_that_sleeps_loses_nothing(void **state)
{
    enum {
        EACH = 30
    };
    struct world *world = *state;
    uint64_t size = 32 * KIB;
    struct world_area *here = world_area(world, ALICE, 3 * EACH * size, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 3 * EACH * size, ALL_RIGHTS);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    world->asleep[BOB] = true;
    area_fill(there, 0, size, 99);
    for (uint64_t i = 0; i < EACH; i++) {
        end_receive(bob, i, there, (EACH + i) * size, size);
        area_fill(here, i * size, size, i);
        end_send(alice, 3 * i, here, i * size, size);
        end_write(alice, 3 * i + 1, here, i * size, area_remote(there, (2 * EACH + i) * size),
                  size);
        end_read(alice, 3 * i + 2, here, (EACH + i) * size, area_remote(there, 0), size);
    }
    world_pass(world, 500000);
    assert_int_equal(alice->disconnected, 0);
    assert_int_equal(bob->logged, 0);
    world->asleep[BOB] = false;
    assert_comes(world, alice->logged == 3 * EACH && bob->logged == EACH);
    for (uint64_t i = 0; i < EACH; i++) {
        for (uint64_t j = 0; j < 3; j++)
            assert_int_equal(alice->log[3 * i + j].status, NIGH_OK);
        assert_true(area_holds(there, (EACH + i) * size, size, i));
        assert_true(area_holds(there, (2 * EACH + i) * size, size, i));
        assert_true(area_holds(here, (EACH + i) * size, size, 99));
    }
    assert_int_equal(alice->disconnected + bob->disconnected, 0);
}

/* F59: who is polled keeps its connections, however long nothing is said. */
static void test_an_idle_connection_lives(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    world_pass(world, 60000000);
    assert_int_equal(alice->disconnected + bob->disconnected, 0);
    end_receive(bob, 1, there, 0, 64);
    end_send(alice, 1, here, 0, 64);
    assert_int_equal(end_wait_receive(bob, 1), NIGH_OK);
}

/* F59: a peer of whom nothing is heard is given up. */
static void test_a_silent_peer_times_out(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    end_receive(alice, 1, here, 0, 64);
    world_provider.cut(world);
    world_pass(world, 60000000);
    assert_int_equal(alice->disconnected, 1);
    assert_int_equal(bob->disconnected, 1);
    assert_int_equal(alice->status, NIGH_TIMEOUT);
    assert_int_equal(bob->status, NIGH_TIMEOUT);
    assert_int_equal(end_wait_receive(alice, 1), NIGH_PEER_LOST);
}

/* F60 F10: a fabric that is polled at its due time, and only then, keeps its promises. */
static void test_due_times_suffice(void **state)
{
    struct world *world = *state;
    struct world_end *alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
    struct world_request *request = world_next_request(world, BOB);
    uint64_t start_us = world_provider.now_us(world);
    uint32_t polls = 0;

    while (!request->disconnected) {
        uint64_t due_us = fabric_due_us(world->fabrics[BOB]);

        assert_true(polls++ < 10000);
        if (due_us == UINT64_MAX)
            assert_true(world_provider.ends && world_provider.go_on(world));
        else
            world_provider.go_to(world, due_us);
        world_poll(world, BOB);
    }
    assert_true(world_provider.now_us(world) <=
                start_us + LIMIT_FABRIC_HANDSHAKE_US + 2 * UINT64_C(1000000));
    fabric_endpoint_destroy(world->fabrics[BOB], request->endpoint);
    assert_comes(world, alice->disconnected == 1);
}

/* F60: nothing to wait for, nothing due; and what is due is not in the past after a poll, or its
 * lane would never sleep. */
static void test_due_times_are_ahead(void **state)
{
    struct world *world = *state;
    struct world_end *alice, *bob;

    world_pass(world, 10000);
    world_join(world, ALICE, BOB, &alice, &bob);
    world_pass(world, 100000);
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t now_us = world_provider.now_us(world);

        (void)fabric_poll(world->fabrics[i], NULL, 0, now_us);
        assert_true(fabric_due_us(world->fabrics[i]) > now_us);
    }
    assert_int_equal(alice->disconnected + bob->disconnected, 0);
}

/* F57 */
static void test_only_a_simulation_has_no_descriptor(void **state)
{
    struct world *world = *state;

    if (world_provider.sleeps)
        assert_true(fabric_fd(world->fabrics[ALICE]) >= 0);
    else
        assert_int_equal(fabric_fd(world->fabrics[ALICE]), -1);
}

static const struct CMUnitTest tests[] = {
    WORLD_TEST(test_each_endpoint_keeps_its_order),
    WORLD_TEST(test_one_lane_with_four),
    WORLD_TEST(test_two_dial_each_other),
    WORLD_TEST(test_a_big_read_holds_nobody_up),
    WORLD_TEST(test_targets_need_only_poll),
    WORLD_TEST(test_a_target_that_sleeps_loses_nothing),
    WORLD_TEST(test_an_idle_connection_lives),
    WORLD_TEST(test_due_times_suffice),
    WORLD_TEST(test_due_times_are_ahead),
    WORLD_TEST(test_only_a_simulation_has_no_descriptor),
};

const struct world_tests progress_tests = {tests, ARRAY_LENGTH(tests)};

static const struct CMUnitTest cuts[] = {
    WORLD_TEST(test_a_silent_peer_times_out),
};

const struct world_tests cut_tests = {cuts, ARRAY_LENGTH(cuts)};
