/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives that endpoints share, over a device that errs: what docs/verbs.md promises of them (V16)
 * beyond the fabric's contract.
 */
#include "conformance/world.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "fabric/fake_verbs.h"
#include "fabric/verbs/verbs.h"

#define SIZE  UINT64_C(4096)
#define DEPTH 16u
/* More than the stand-in moves in one step. */
#define MESSAGE (UINT64_C(600) * 1024)

struct scene {
    struct world *world;
    struct fabric_stock *stock;
    struct world_area *here, *there;
    struct world_end *alice, *bob;
    uint64_t size;
    uint32_t looked; /* in bob's log */
};

static void post(struct scene *scene, uint64_t tag)
{
    const struct fabric_receive receive = {
        .tag = tag, .slice = area_slice(scene->there, tag * scene->size, scene->size)};

    assert_int_equal(fabric_stock_post(scene->world->fabrics[BOB], scene->stock, &receive, NULL),
                     NIGH_OK);
}

static void join(struct scene *scene)
{
    struct world *world = scene->world;
    struct fabric_endpoint_options options;
    struct world_request *request;

    scene->looked = 0;
    scene->alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
    request = world_next_request(world, BOB);
    request->taken = true;
    scene->bob = world_end(world, BOB);
    scene->bob->endpoint = request->endpoint;
    options = end_options(scene->bob, 16, 0);
    options.stock = scene->stock;
    assert_int_equal(fabric_accept(world->fabrics[BOB], request->endpoint, &options, NULL, 0),
                     NIGH_OK);
    assert_comes(world, scene->alice->established == 1 && scene->bob->established == 1);
}

static void scene_make(struct scene *scene, struct world *world, uint64_t size)
{
    *scene = (struct scene){.world = world, .size = size};
    scene->here = world_area(world, ALICE, MESSAGE, ALL_RIGHTS);
    scene->there = world_area(world, BOB, DEPTH * size, ALL_RIGHTS);
    assert_int_equal(fabric_stock_create(world->fabrics[BOB], DEPTH, &scene->stock), NIGH_OK);
    for (uint64_t tag = 0; tag < DEPTH; tag++)
        post(scene, tag);
    join(scene);
}

/* So many messages come, each in a receive of its own; those of `keep` are not posted again. */
static void exchange(struct scene *scene, uint32_t count, bool keep)
{
    bool came[DEPTH] = {false};

    for (uint32_t i = 0; i < count; i++)
        end_send(scene->alice, i, scene->here, 0, 64);
    assert_comes(scene->world, scene->bob->logged == scene->looked + count);
    for (; scene->looked < scene->bob->logged; scene->looked++) {
        const struct fabric_completion *done = &scene->bob->log[scene->looked];

        assert_int_equal(done->status, NIGH_OK);
        assert_true(done->tag < DEPTH && !came[done->tag]);
        came[done->tag] = true;
        if (!keep)
            post(scene, done->tag);
    }
}

static uint64_t lows(const struct scene *scene)
{
    return scene->world->fabrics[BOB]->counts.stock_lows;
}

/* The device says once that there are few, and again only when there were enough between. */
static void test_a_low_stock_is_counted(void **state)
{
    struct scene scene;

    scene_make(&scene, *state, SIZE);
    assert_int_equal(fake_verbs_counts().limits, 1);
    exchange(&scene, DEPTH - 2, true); /* two left: an eighth */
    world_steps(scene.world, 200);
    assert_int_equal(lows(&scene), 0);
    exchange(&scene, 1, true);
    assert_comes(scene.world, ({
                     (void)fabric_arm(scene.world->fabrics[BOB]);
                     lows(&scene) == 1;
                 }));
    exchange(&scene, 1, true);
    post(&scene, 0);
    post(&scene, 1);
    post(&scene, 2);
    assert_int_equal(fake_verbs_counts().limits, 1);
    post(&scene, 3);
    assert_int_equal(fake_verbs_counts().limits, 2);
    assert_int_equal(lows(&scene), 1);
}

/* Many go to the device by few calls. */
static void test_receives_are_posted_in_batches(void **state)
{
    enum {
        MANY = 40
    };
    struct world *world = *state;
    struct world_area *there = world_area(world, BOB, SIZE, ALL_RIGHTS);
    struct fabric_receive chain[MANY];
    struct fabric_stock *stock;
    uint64_t before;

    assert_int_equal(fabric_stock_create(world->fabrics[BOB], MANY, &stock), NIGH_OK);
    before = world->fabrics[BOB]->counts.receive_doorbells;
    for (uint32_t i = 0; i < MANY; i++)
        chain[i] = (struct fabric_receive){.next = i + 1 < MANY ? &chain[i + 1] : NULL,
                                           .tag = i,
                                           .slice = area_slice(there, 0, 64)};
    assert_int_equal(fabric_stock_post(world->fabrics[BOB], stock, chain, NULL), NIGH_OK);
    assert_int_equal(world->fabrics[BOB]->counts.receive_doorbells - before, 3);
    assert_int_equal(fake_verbs_sum(1).posted_shared, MANY);
    fabric_stock_destroy(world->fabrics[BOB], stock);
    assert_int_equal(fake_verbs_sum(1).shared_queues, 0);
}

/* A device that does not say its last word has done all the same, and gives back what it took. */
static void test_an_end_without_a_last_word(void **state)
{
    struct scene scene;

    fake_verbs_no_last_word(true);
    scene_make(&scene, *state, MESSAGE);
    for (uint32_t i = 0; i < 12; i++) {
        end_send(scene.alice, 1, scene.here, 0, MESSAGE);
        end_send(scene.alice, 2, scene.here, 0, MESSAGE);
        world_steps(scene.world, i % 6);
        if (i % 3 == 0) {
            end_disconnect(scene.bob);
            world_pass(scene.world, 300000);
            for (; scene.looked < scene.bob->logged; scene.looked++)
                post(&scene, scene.bob->log[scene.looked].tag);
        }
        for (; scene.looked < scene.bob->logged; scene.looked++)
            post(&scene, scene.bob->log[scene.looked].tag);
        end_destroy(scene.bob);
        end_destroy(scene.alice);
        join(&scene);
    }
    exchange(&scene, DEPTH, false);
    assert_int_equal(fake_verbs_counts().lost_receives, 0);
}

/* All of a stock may complete in any completion queue of its endpoints: none runs over. */
static void test_completion_queues_have_room_for_stocks(void **state)
{
    struct world *world = *state;
    struct fabric_endpoint_options options;
    struct fabric_stock *stock;
    struct world_end *ends[4];

    assert_int_equal(fabric_stock_create(world->fabrics[ALICE], LIMIT_FABRIC_STOCK, &stock),
                     NIGH_OK);
    for (uint32_t i = 0; i < ARRAY_LENGTH(ends); i++) {
        ends[i] = world_end(world, ALICE);
        options = end_options(ends[i], 4000, 0);
        options.stock = stock;
        assert_int_equal(fabric_connect(world->fabrics[ALICE], world->addresses[BOB], &options,
                                        NULL, 0, &ends[i]->endpoint),
                         NIGH_OK);
        /* 8192 and twice 4002 fill one of 16384. */
        assert_int_equal(fake_verbs_sum(0).completion_queues, i / 2 + 1);
    }
    for (uint32_t i = 0; i < ARRAY_LENGTH(ends); i++)
        end_destroy(ends[i]);
    fabric_stock_destroy(world->fabrics[ALICE], stock);
    /* The room is there again. */
    for (uint32_t i = 0; i < 4; i++) {
        ends[i] = world_end(world, ALICE);
        options = end_options(ends[i], 4000, 4000);
        assert_int_equal(fabric_connect(world->fabrics[ALICE], world->addresses[BOB], &options,
                                        NULL, 0, &ends[i]->endpoint),
                         NIGH_OK);
    }
    assert_int_equal(fake_verbs_sum(0).completion_queues, 2);
}

/* V14: the device goes and comes again, and has the receives again, those too that nobody polled.
 */
static void test_a_stock_outlives_its_device(void **state)
{
    struct scene scene;
    struct world_bound bound = world_bound_start();

    scene_make(&scene, *state, SIZE);
    scene.world->asleep[BOB] = true;
    end_send(scene.alice, 1, scene.here, 0, 64);
    while (scene.alice->logged < 1) {
        assert_true(world_step(scene.world, &bound));
        (void)fabric_poll(scene.world->fabrics[BOB], NULL, 0, support_now_us());
    }
    fake_verbs_remove(0);
    assert_comes(scene.world, ({
                     (void)fabric_poll(scene.world->fabrics[BOB], NULL, 0, support_now_us());
                     fake_verbs_held(0) == 0;
                 }));
    assert_null(strstr(fake_verbs_left(), "shared receive queues 1"));
    end_destroy(scene.bob);
    scene.world->asleep[BOB] = false;
    fake_verbs_plug(0);
    world_pass(scene.world, UINT64_C(1500000));
    join(&scene);
    exchange(&scene, DEPTH, false);
}

/* The system took it without a word: what is ended is told EIO. */
static void test_a_stock_of_a_device_that_was_taken(void **state)
{
    struct scene scene;

    scene_make(&scene, *state, SIZE);
    fake_verbs_take(true);
    fake_verbs_async(IBV_EVENT_DEVICE_FATAL);
    end_destroy(scene.bob);
    world_steps(scene.world, 200);
    fake_verbs_take(false);
    world_pass(scene.world, UINT64_C(1500000));
    join(&scene);
    exchange(&scene, DEPTH, false);
    exchange(&scene, DEPTH, false);
}

/* A device that has none says so by the fabric's caps. */
static void test_a_device_without_shared_queues(void **state)
{
    const struct verbs_options options = {.library = fake_verbs_library(),
                                          .address = FAKE_VERBS_ADDRESS};
    struct fabric_stock *stock = NULL;
    char why[VERBS_WHY_BYTES];
    struct fabric *fabric;

    (void)state;
    fake_verbs_no_srq(true);
    assert_int_equal(verbs_create(&options, why, &fabric), NIGH_OK);
    assert_int_equal(fabric->caps.ops & FABRIC_CAN_SHARE, 0);
    assert_int_equal(fabric_stock_create(fabric, 2, &stock), NIGH_UNSUPPORTED);
    assert_null(stock);
    fabric_destroy(fabric);
}

int main(void)
{
    static uint32_t variant;
    struct CMUnitTest tests[] = {
        WORLD_TEST(test_a_low_stock_is_counted),
        WORLD_TEST(test_receives_are_posted_in_batches),
        WORLD_TEST(test_an_end_without_a_last_word),
        WORLD_TEST(test_completion_queues_have_room_for_stocks),
        WORLD_TEST(test_a_stock_outlives_its_device),
        WORLD_TEST(test_a_stock_of_a_device_that_was_taken),
        WORLD_TEST(test_a_device_without_shared_queues),
    };

    if (world_provider.missing() != NULL)
        return 1;
    for (size_t i = 0; i < ARRAY_LENGTH(tests); i++)
        tests[i].initial_state = &variant;
    return cmocka_run_group_tests_name("fabric-verbs-stock", tests, NULL, NULL);
}
