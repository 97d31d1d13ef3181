/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: receives that endpoints share. Numbers F1, F2, ... are those of docs/fabric.md. */
#include "conformance/world.h"

#include <string.h>

#include "base/check.h"

#define DEPTH 16u
#define SIZE  (UINT64_C(4) * 1024)
#define ENDS  4u
/* More than any provider moves in one step. */
#define MESSAGE (UINT64_C(600) * 1024)
#define SOURCE  0u /* where ALICE sends from, in her area */

/* BOB's stock, and what the test knows of its receives: tag n is for the n-th place of the area. */
struct scene {
    struct world *world;
    struct fabric_stock *stock;
    struct world_area *here, *there;
    uint64_t size; /* of a receive */
    uint32_t count;
    bool is_posted[64];
    uint32_t looked[WORLD_ENDS]; /* how far each end's log was read */
};

static void scene_post(struct scene *scene, uint32_t tag)
{
    const struct fabric_receive receive = {
        .tag = tag, .slice = area_slice(scene->there, tag * scene->size, scene->size)};

    assert_false(scene->is_posted[tag]);
    assert_int_equal(fabric_stock_post(scene->world->fabrics[BOB], scene->stock, &receive, NULL),
                     NIGH_OK);
    scene->is_posted[tag] = true;
}

/* False: there is no such thing here. */
static bool scene_make(struct scene *scene, struct world *world, uint32_t count, uint64_t size)
{
    memset(scene, 0, sizeof(*scene));
    scene->world = world;
    scene->count = count;
    scene->size = size;
    if (!world_can(world, FABRIC_CAN_SHARE))
        return false;
    scene->here = world_area(world, ALICE, 64 * KIB + size, ALL_RIGHTS);
    scene->there = world_area(world, BOB, count * size, ALL_RIGHTS);
    assert_int_equal(fabric_stock_create(world->fabrics[BOB], count, &scene->stock), NIGH_OK);
    for (uint32_t tag = 0; tag < count; tag++)
        scene_post(scene, tag);
    return true;
}

/* ALICE and BOB are joined, and his end takes its receives from the stock; `dials`: he dials. */
static void scene_join(struct scene *scene, bool dials, struct world_end **alice,
                       struct world_end **bob)
{
    struct world *world = scene->world;
    struct world_end *ends[2] = {world_end(world, dials ? BOB : ALICE),
                                 world_end(world, dials ? ALICE : BOB)};
    struct fabric_endpoint_options options[2];
    struct world_request *request;

    for (uint32_t i = 0; i < 2; i++) {
        options[i] = end_options(ends[i], 64, 64);
        options[i].stock = ends[i]->fabric == BOB ? scene->stock : NULL;
    }
    assert_int_equal(fabric_connect(world->fabrics[ends[0]->fabric],
                                    world->addresses[ends[1]->fabric], &options[0], NULL, 0,
                                    &ends[0]->endpoint),
                     NIGH_OK);
    request = world_next_request(world, ends[1]->fabric);
    request->taken = true;
    ends[1]->endpoint = request->endpoint;
    assert_int_equal(
        fabric_accept(world->fabrics[ends[1]->fabric], request->endpoint, &options[1], NULL, 0),
        NIGH_OK);
    assert_comes(world, ends[0]->established == 1 && ends[1]->established == 1);
    *alice = ends[dials ? 1 : 0];
    *bob = ends[dials ? 0 : 1];
}

/* The next receive that completed on an end, which was posted and is not now; NULL: there is none.
 */
static const struct fabric_completion *scene_next(struct scene *scene, const struct world_end *end)
{
    uint32_t *looked = NULL;

    for (uint32_t i = 0; i < scene->world->end_count; i++) {
        if (scene->world->ends[i] == end)
            looked = &scene->looked[i];
    }
    while (*looked < end->logged) {
        const struct fabric_completion *done = &end->log[(*looked)++];

        if (done->op != FABRIC_RECV)
            continue;
        assert_true(done->tag < scene->count && scene->is_posted[done->tag]);
        scene->is_posted[done->tag] = false;
        return done;
    }
    return NULL;
}

static void scene_give_back(struct scene *scene)
{
    for (uint32_t tag = 0; tag < scene->count; tag++) {
        if (!scene->is_posted[tag])
            scene_post(scene, tag);
    }
}

/* Whatever completed is posted again; then so many messages fill each of the receives once. */
static void scene_check_whole(struct scene *scene)
{
    struct world_end *alice, *bob;
    uint32_t came = 0;

    for (uint32_t i = 0; i < scene->world->end_count; i++) {
        while (scene_next(scene, scene->world->ends[i]) != NULL)
            ;
    }
    scene_give_back(scene);
    scene_join(scene, false, &alice, &bob);
    for (uint32_t i = 0; i < scene->count; i++)
        end_send(alice, i, scene->here, SOURCE, 8);
    assert_comes(scene->world, alice->logged == scene->count && bob->logged == scene->count);
    for (const struct fabric_completion *done; (done = scene_next(scene, bob)) != NULL; came++)
        assert_int_equal(done->status, NIGH_OK);
    assert_int_equal(came, scene->count);
    scene_give_back(scene);
    end_destroy(alice);
    end_destroy(bob);
}

static void scene_end(struct scene *scene)
{
    for (uint32_t i = 0; i < scene->world->end_count; i++) {
        if (scene->world->ends[i]->endpoint != NULL)
            end_destroy(scene->world->ends[i]);
    }
    fabric_stock_destroy(scene->world->fabrics[BOB], scene->stock);
}

/* ---- messages ------------------------------------------------------------- */

/* F62: those of one endpoint arrive in their order, whole, in the receives that they say. */
static void test_a_stock_feeds_many_endpoints(void **state)
{
    enum {
        ROUNDS = 300
    };
    struct scene scene;
    struct world_end *alice[ENDS], *bob[ENDS];
    uint32_t sent[ENDS] = {0}, got[ENDS] = {0}, free = DEPTH, left = ENDS;
    struct world_bound bound = world_bound_start();

    if (!scene_make(&scene, *state, DEPTH, SIZE))
        return;
    for (uint32_t i = 0; i < ENDS; i++)
        scene_join(&scene, i % 2 == 1, &alice[i], &bob[i]);
    while (left > 0) {
        for (uint32_t i = 0; i < ENDS; i++) {
            for (; free > 0 && sent[i] < ROUNDS && alice[i]->logged + 4 > sent[i];
                 free--, sent[i]++) {
                uint64_t at = (i * 4 + sent[i] % 4) * SIZE;

                area_fill(scene.here, at, SIZE, (uint64_t)i * ROUNDS + sent[i]);
                end_send(alice[i], sent[i], scene.here, at, (sent[i] * 37) % (SIZE + 1));
            }
        }
        assert_true(world_step(scene.world, &bound));
        left = 0;
        for (uint32_t i = 0; i < ENDS; i++) {
            const struct fabric_completion *done;

            for (; (done = scene_next(&scene, bob[i])) != NULL; got[i]++, free++) {
                assert_int_equal(done->status, NIGH_OK);
                assert_ptr_equal(done->endpoint, bob[i]->endpoint);
                assert_int_equal(done->bytes, (got[i] * 37) % (SIZE + 1));
                assert_true(area_holds(scene.there, done->tag * SIZE, done->bytes,
                                       (uint64_t)i * ROUNDS + got[i]));
                scene_post(&scene, (uint32_t)done->tag);
            }
            left += got[i] < ROUNDS;
        }
    }
    scene_check_whole(&scene);
    scene_end(&scene);
}

/* F62 F40 */
static void test_write_imm_takes_of_a_stock(void **state)
{
    struct scene scene;
    struct world_end *alice, *bob;
    const struct fabric_completion *done;
    struct fabric_slice slice;
    struct fabric_work work = {.op = FABRIC_WRITE_IMM,
                               .flags = FABRIC_SIGNALLED,
                               .tag = 1,
                               .imm = 77,
                               .slices = &slice,
                               .slice_count = 1};

    if (!world_can(*state, FABRIC_CAN_WRITE_IMM) || !scene_make(&scene, *state, 2, SIZE))
        return;
    scene_join(&scene, false, &alice, &bob);
    slice = area_slice(scene.here, SOURCE, 100);
    work.remote = area_remote(world_area(*state, BOB, SIZE, ALL_RIGHTS), 0);
    assert_int_equal(end_post(alice, &work), NIGH_OK);
    assert_int_equal(end_wait(alice, 1), NIGH_OK);
    assert_comes(*state, bob->logged == 1);
    done = scene_next(&scene, bob);
    assert_int_equal(done->status, NIGH_OK);
    assert_true(done->has_imm && done->imm == 77 && done->bytes == 100);
    scene_check_whole(&scene);
    scene_end(&scene);
}

/* ---- bounds --------------------------------------------------------------- */

/* F61 F63 */
static void test_a_stock_has_bounds(void **state)
{
    struct world *world = *state;
    struct fabric *fabric = world->fabrics[BOB];
    struct fabric_stock *more[LIMIT_FABRIC_STOCKS];
    struct fabric_receive chain[2] = {{.tag = 60}, {.tag = 61}};
    const struct fabric_receive *bad = NULL;
    struct scene scene;
    struct world_end *alice, *bob;

    if (!scene_make(&scene, world, 3, SIZE))
        return;
    assert_int_equal(fabric_stock_create(fabric, 0, &more[0]), NIGH_INVALID);
    assert_int_equal(fabric_stock_create(fabric, LIMIT_FABRIC_STOCK + 1, &more[0]), NIGH_INVALID);
    for (uint32_t i = 1; i < LIMIT_FABRIC_STOCKS; i++)
        assert_int_equal(fabric_stock_create(fabric, 2, &more[i]), NIGH_OK);
    assert_int_equal(fabric_stock_create(fabric, 2, &more[0]), NIGH_LIMIT);
    for (uint32_t i = 1; i < LIMIT_FABRIC_STOCKS; i++)
        fabric_stock_destroy(fabric, more[i]);
    scene_join(&scene, false, &alice, &bob);
    /* The place of what came is free when it was polled. */
    assert_int_equal(end_post_receive(bob, 9, area_slice(scene.there, 0, SIZE)), NIGH_BUSY);
    end_send(alice, 1, scene.here, SOURCE, 8);
    assert_comes(world, bob->logged == 1 && alice->logged == 1);
    chain[0] = (struct fabric_receive){
        .next = &chain[1], .tag = scene_next(&scene, bob)->tag, .slice.bytes = SIZE};
    chain[0].slice = area_slice(scene.there, chain[0].tag * SIZE, SIZE);
    chain[1].slice = area_slice(scene.there, 0, 3 * SIZE + 1);
    assert_int_equal(fabric_stock_post(fabric, scene.stock, &chain[1], &bad), NIGH_INVALID);
    assert_ptr_equal(bad, &chain[1]);
    chain[1].slice = area_slice(scene.there, 0, SIZE);
    assert_int_equal(fabric_stock_post(fabric, scene.stock, chain, &bad), NIGH_BUSY);
    assert_ptr_equal(bad, &chain[1]);
    scene.is_posted[chain[0].tag] = true;
    scene_check_whole(&scene);
    scene_end(&scene);
}

/* F64 F36: whoever finds none fails, and nobody else. */
static void test_an_empty_stock_fails_who_sends(void **state)
{
    struct world *world = *state;
    struct scene scene;
    struct world_end *alice[2], *bob[2];

    if (!scene_make(&scene, world, 2, SIZE))
        return;
    for (uint32_t i = 0; i < 2; i++)
        scene_join(&scene, false, &alice[i], &bob[i]);
    end_send(alice[0], 1, scene.here, SOURCE, 64);
    end_send(alice[1], 2, scene.here, SOURCE, 64);
    assert_comes(world, bob[0]->logged == 1 && bob[1]->logged == 1);
    assert_int_equal(end_wait(alice[0], 1), NIGH_OK);
    end_send(alice[0], 3, scene.here, SOURCE, 64);
    end_wait_refused(alice[0], bob[0], 3, NIGH_PROTOCOL);
    assert_int_equal(bob[0]->logged, 1);
    assert_non_null(scene_next(&scene, bob[0]));
    scene_give_back(&scene);
    end_send(alice[1], 4, scene.here, SOURCE, 64);
    assert_int_equal(end_wait(alice[1], 4), NIGH_OK);
    assert_comes(world, bob[1]->logged == 2);
    scene_check_whole(&scene);
    scene_end(&scene);
}

/* F64 F35 */
static void test_too_long_for_a_stock_is_a_limit(void **state)
{
    struct scene scene;
    struct world_end *alice, *bob;
    const struct fabric_completion *done;

    if (!scene_make(&scene, *state, 1, 999))
        return;
    scene_join(&scene, false, &alice, &bob);
    area_fill(scene.here, 0, 1000, 1);
    end_send(alice, 2, scene.here, SOURCE, 1000);
    end_wait_refused(alice, bob, 2, NIGH_LIMIT);
    assert_comes(*state, bob->logged == 1);
    done = scene_next(&scene, bob);
    assert_int_equal(done->status, NIGH_LIMIT);
    scene_check_whole(&scene);
    scene_end(&scene);
}

/* ---- ends ----------------------------------------------------------------- */

/* Two that are joined, with messages under way for so many steps. */
static void join_and_send(struct scene *scene, uint32_t messages, uint32_t steps,
                          struct world_end **alice, struct world_end **bob)
{
    scene_join(scene, false, alice, bob);
    for (uint32_t n = 0; n < messages; n++)
        end_send(*alice, n, scene->here, SOURCE, MESSAGE);
    world_steps(scene->world, steps);
}

/* F64: at any moment, by either side, also in the middle of a message; no receive is lost, none
 * comes twice, and what nobody took stays. */
static void test_a_failure_leaves_the_stock_whole(void **state)
{
    static const uint32_t moments[] = {0, 1, 2, 3, 5, 8, 13, 40};
    struct world *world = *state;
    struct scene scene;

    if (!scene_make(&scene, world, 4, MESSAGE))
        return;
    for (size_t i = 0; i < ARRAY_LENGTH(moments); i++) {
        struct world_end *alice, *bob;

        join_and_send(&scene, 3, moments[i], &alice, &bob);
        end_disconnect(i % 2 == 0 ? alice : bob);
        assert_comes(world, alice->disconnected == 1 && bob->disconnected == 1);
        assert_comes(world, alice->logged == 3);
        world_pass(world, 300000);
        assert_true(bob->logged <= 3); /* the fourth was nobody's */
        scene_check_whole(&scene);
        end_destroy(alice);
        end_destroy(bob);
    }
    scene_end(&scene);
}

/* F65: the same, destroyed at once. */
static void test_a_destroyed_endpoint_gives_back(void **state)
{
    static const uint32_t moments[] = {0, 1, 2, 3, 4, 5, 8, 13};
    struct world *world = *state;
    struct scene scene;

    if (!scene_make(&scene, world, 4, MESSAGE))
        return;
    for (size_t i = 0; i < ARRAY_LENGTH(moments); i++) {
        struct world_end *alice, *bob;

        join_and_send(&scene, 4, moments[i], &alice, &bob);
        end_destroy(bob);
        scene_check_whole(&scene);
        end_destroy(alice);
    }
    scene_end(&scene);
}

/* F65: what came and was not polled is in the stock again. */
static void test_what_was_not_polled_goes_back(void **state)
{
    struct world *world = *state;
    struct scene scene;
    struct world_end *alice, *bob;
    struct world_bound bound = world_bound_start();

    if (!scene_make(&scene, world, 4, SIZE))
        return;
    scene_join(&scene, false, &alice, &bob);
    world->asleep[BOB] = true;
    for (uint32_t n = 0; n < 3; n++)
        end_send(alice, n, scene.here, SOURCE, SIZE);
    while (alice->logged < 3) {
        assert_true(world_step(world, &bound));
        (void)fabric_poll(world->fabrics[BOB], NULL, 0, world_provider.now_us(world));
    }
    end_destroy(bob);
    world->asleep[BOB] = false;
    scene_check_whole(&scene);
    scene_end(&scene);
}

/* F52: a fabric ends with what it has of them. */
static void test_a_fabric_ends_with_its_stock(void **state)
{
    struct world *world = *state;
    struct scene scene;
    struct world_end *alice, *bob;

    if (!scene_make(&scene, world, DEPTH, SIZE))
        return;
    scene_join(&scene, true, &alice, &bob);
    end_send(alice, 1, scene.here, SOURCE, 64);
    assert_comes(world, bob->logged == 1);
    world_drop(world, BOB);
    assert_comes(world, alice->disconnected == 1);
}

static const struct CMUnitTest tests[] = {
    WORLD_TEST(test_a_stock_feeds_many_endpoints),
    WORLD_TEST(test_write_imm_takes_of_a_stock),
    WORLD_TEST(test_a_stock_has_bounds),
    WORLD_TEST(test_an_empty_stock_fails_who_sends),
    WORLD_TEST(test_too_long_for_a_stock_is_a_limit),
    WORLD_TEST(test_a_failure_leaves_the_stock_whole),
    WORLD_TEST(test_a_destroyed_endpoint_gives_back),
    WORLD_TEST(test_what_was_not_polled_goes_back),
    WORLD_TEST(test_a_fabric_ends_with_its_stock),
};

const struct world_tests stock_tests = {tests, ARRAY_LENGTH(tests)};
