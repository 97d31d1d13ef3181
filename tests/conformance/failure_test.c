/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: what an endpoint that fails does with its work. Numbers F1, F2, ... are those of
 * docs/fabric.md. */
#include "conformance/world.h"

#include <string.h>

#include "base/check.h"

#define POSTS    24u
#define RECEIVES 10u
#define SIZE     (UINT64_C(8) * 1024)

struct scene {
    struct world *world;
    struct world_area *area[2];
    struct world_end *end[2];
};

static void scene_make(struct scene *scene, struct world *world)
{
    scene->world = world;
    for (uint32_t i = 0; i < 2; i++)
        scene->area[i] = world_area(world, i, 2 * POSTS * SIZE, ALL_RIGHTS);
    world_join(world, ALICE, BOB, &scene->end[0], &scene->end[1]);
}

/* On both sides posts of every kind, each third unsignalled, tags from 0, and receives. */
static void scene_load(struct scene *scene)
{
    static const enum fabric_op ops[] = {FABRIC_READ, FABRIC_WRITE, FABRIC_SEND, FABRIC_READ};

    for (uint32_t side = 0; side < 2; side++) {
        for (uint64_t i = 0; i < RECEIVES; i++)
            end_receive(scene->end[side], i, scene->area[side], (POSTS + i) * SIZE, SIZE);
    }
    for (uint32_t side = 0; side < 2; side++) {
        for (uint64_t i = 0; i < POSTS; i++) {
            struct fabric_slice slice = area_slice(scene->area[side], i * SIZE, SIZE);
            const struct fabric_work work = {
                .op = ops[i % 4],
                .flags = i % 3 == 0 ? 0 : FABRIC_SIGNALLED,
                .tag = i,
                .slices = &slice,
                .slice_count = 1,
                .remote = area_remote(scene->area[1 - side], (POSTS + RECEIVES) * SIZE)};

            assert_int_equal(end_post(scene->end[side], &work), NIGH_OK);
        }
    }
}

/* Each signalled post and each receive completed. */
static bool end_has_completed(const struct world_end *end)
{
    for (uint32_t i = 0; i < POSTS; i++) {
        if (i % 3 != 0 && end_count(end, i) == 0)
            return false;
    }
    for (uint32_t i = 0; i < RECEIVES; i++) {
        if (end_count_receives(end, i) == 0)
            return false;
    }
    return true;
}

static bool end_is_settled(const struct world_end *end)
{
    return end_has_completed(end) && end->disconnected > 0;
}

/* Nothing twice; nothing unknown. */

static void end_check_settled(const struct world_end *end)
{
    uint32_t counted = 0;

    assert_int_equal(end->disconnected, 1);
    for (uint32_t i = 0; i < POSTS; i++) {
        uint32_t count = end_count(end, i);

        assert_true(count == 1 || (count == 0 && i % 3 == 0));
        counted += count;
        if (count == 1)
            assert_true(end_find(end, i)->status == NIGH_PEER_LOST ||
                        (end_find(end, i)->status == NIGH_OK && i % 3 != 0));
    }
    for (uint32_t i = 0; i < RECEIVES; i++) {
        assert_int_equal(end_count_receives(end, i), 1);
        counted++;
    }
    assert_int_equal(end->logged, counted);
}

/* F47 F48 F49: at any moment, by either side. */
static void test_failure_completes_each_once(void **state)
{
    static const uint32_t moments[] = {0, 1, 2, 3, 5, 8, 13, 40};
    struct world *world = *state;

    for (size_t i = 0; i < ARRAY_LENGTH(moments); i++) {
        struct scene scene;

        scene_make(&scene, world);
        scene_load(&scene);
        world_steps(world, moments[i]);
        end_disconnect(scene.end[i % 2]);
        assert_comes(world, end_is_settled(scene.end[0]) && end_is_settled(scene.end[1]));
        world_pass(world, 100000);
        end_check_settled(scene.end[0]);
        end_check_settled(scene.end[1]);
        end_destroy(scene.end[0]);
        end_destroy(scene.end[1]);
    }
}

/* F47: nothing of it can have acted, so every post completes, signalled or not. */
static void test_failure_completes_unsignalled_posts(void **state)
{
    struct world *world = *state;
    struct scene scene;

    if (world_acts_by_itself(world)) { /* some may have acted */
        print_message("# the provider acts by itself\n");
        return;
    }
    scene_make(&scene, world);
    scene_load(&scene);
    end_disconnect(scene.end[0]);
    assert_comes(world, scene.end[0]->logged >= POSTS + RECEIVES);
    world_pass(world, 100000);
    assert_int_equal(scene.end[0]->logged, POSTS + RECEIVES);
    for (uint32_t i = 0; i < POSTS; i++) {
        assert_int_equal(end_count(scene.end[0], i), 1);
        assert_int_equal(end_find(scene.end[0], i)->status, NIGH_PEER_LOST);
    }
    for (uint32_t i = 0; i < RECEIVES; i++)
        assert_int_equal(end_find_receive(scene.end[0], i)->status, NIGH_PEER_LOST);
}

/* F48: a caller that takes completions one by one has been told by the last of them. */
static void test_the_event_does_not_come_after_the_last_completion(void **state)
{
    struct world *world = *state;
    struct scene scene;

    scene_make(&scene, world);
    world->poll_count = 1;
    scene_load(&scene);
    end_disconnect(scene.end[1]);
    if (world_acts_by_itself(world))
        assert_comes(world, end_has_completed(scene.end[1]));
    else
        assert_comes(world, scene.end[1]->logged == POSTS + RECEIVES);
    assert_int_equal(scene.end[1]->disconnected, 1);
    assert_comes(world, end_is_settled(scene.end[0]));
}

/* F29: a completion ends its loan, also one that failed: nothing lands behind it. */
static void test_a_failed_completion_ends_the_loan(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 8 * MIB, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 8 * MIB, ALL_RIGHTS);

    memset(there->bytes, 0x11, there->size);
    for (uint64_t round = 0; round < 4; round++) {
        struct world_end *alice, *bob;

        memset(here->bytes, 0x22, here->size);
        world_join(world, ALICE, BOB, &alice, &bob);
        for (uint64_t i = 0; i < 8; i++)
            end_read(alice, i, here, i * MIB, area_remote(there, i * MIB), MIB);
        world_steps(world, (uint32_t)round * 4);
        end_disconnect(round % 2 == 0 ? alice : bob);
        assert_comes(world, alice->logged == 8);
        for (uint64_t i = 0; i < 8; i++) {
            if (end_find(alice, i)->status == NIGH_OK)
                assert_true(area_is(here, i * MIB, MIB, 0x11));
            else
                assert_int_equal(end_find(alice, i)->status, NIGH_PEER_LOST);
        }
        memset(here->bytes, 0x22, here->size);
        world_pass(world, 100000);
        assert_true(area_is(here, 0, here->size, 0x22));
        end_destroy(alice);
        end_destroy(bob);
    }
}

/* F50 */
static void test_a_failure_stays_with_its_endpoint(void **state)
{
    enum {
        OTHERS = 4
    };
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64 * KIB, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 64 * KIB, ALL_RIGHTS);
    struct world_end *alice[OTHERS], *bob[OTHERS];
    struct fabric_remote wrong = area_remote(there, 0);

    wrong.key ^= 0x5555;
    area_fill(here, 0, 1024, 1);
    for (uint32_t i = 0; i < OTHERS; i++) {
        world_join(world, ALICE, BOB, &alice[i], &bob[i]);
        end_receive(bob[i], 1, there, (uint64_t)i * 1024, 1024);
        end_send(alice[i], 1, here, 0, 1024);
    }
    end_write(alice[0], 2, here, 0, wrong, 8);
    end_disconnect(bob[1]);
    end_wait_refused(alice[0], bob[0], 2, NIGH_DENIED);
    assert_comes(world, alice[1]->disconnected == 1);
    for (uint32_t i = 2; i < OTHERS; i++) {
        end_read(alice[i], 3, here, 2048, area_remote(there, 0), 1024);
        assert_int_equal(end_wait(alice[i], 3), NIGH_OK);
        assert_int_equal(end_wait(alice[i], 1), NIGH_OK);
        assert_int_equal(end_wait_receive(bob[i], 1), NIGH_OK);
        assert_true(area_holds(there, (uint64_t)i * 1024, 1024, 1));
        assert_int_equal(alice[i]->disconnected + bob[i]->disconnected, 0);
    }
}

/* F49 F48: either side, with nothing under way; again is no harm. */
static void test_disconnect_by_either_side(void **state)
{
    struct world *world = *state;

    for (uint32_t side = 0; side < 2; side++) {
        struct world_end *end[2];

        world_join(world, ALICE, BOB, &end[0], &end[1]);
        end_disconnect(end[side]);
        end_disconnect(end[side]);
        assert_comes(world, end[0]->disconnected > 0 && end[1]->disconnected > 0);
        end_disconnect(end[1 - side]);
        world_pass(world, 100000);
        assert_int_equal(end[0]->disconnected, 1);
        assert_int_equal(end[1]->disconnected, 1);
        assert_int_equal(end[1 - side]->status, NIGH_PEER_LOST);
        assert_int_equal(end[0]->logged + end[1]->logged, 0);
        end_destroy(end[0]);
        end_destroy(end[1]);
    }
}

/* F49 F47: what the peer had completed before stays completed. */
static void test_what_completed_stays_completed(void **state)
{
    enum {
        MESSAGES = 20
    };
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64 * KIB, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 64 * KIB, ALL_RIGHTS);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint64_t i = 0; i < MESSAGES; i++)
        end_receive(bob, i, there, i * 1024, 1024);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        area_fill(here, i * 1024, 1024, i);
        end_send(alice, i, here, i * 1024, 1024);
    }
    assert_int_equal(end_wait(alice, MESSAGES - 1), NIGH_OK);
    end_disconnect(alice);
    assert_comes(world, bob->logged == MESSAGES && bob->disconnected == 1);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        assert_int_equal(bob->log[i].status, NIGH_OK);
        assert_true(area_holds(there, i * 1024, 1024, i));
    }
}

static const struct CMUnitTest tests[] = {
    WORLD_TEST(test_failure_completes_each_once),
    WORLD_TEST(test_failure_completes_unsignalled_posts),
    WORLD_TEST(test_the_event_does_not_come_after_the_last_completion),
    WORLD_TEST(test_a_failed_completion_ends_the_loan),
    WORLD_TEST(test_a_failure_stays_with_its_endpoint),
    WORLD_TEST(test_disconnect_by_either_side),
    WORLD_TEST(test_what_completed_stays_completed),
};

const struct world_tests failure_tests = {tests, ARRAY_LENGTH(tests)};
