/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: keys, bounds and rights at the target. Numbers F1, F2, ... are those of
 * docs/fabric.md. */
#include "conformance/world.h"

#include <string.h>

#include "base/check.h"

#define SIZE UINT64_C(4096)

struct scene {
    struct world *world;
    struct world_area *here, *there;
    struct world_end *alice, *bob;
    uint64_t tag;
};

/* A target that holds 0x33 everywhere and gives `rights`. */
static void scene_make(struct scene *scene, struct world *world, uint32_t rights)
{
    memset(scene, 0, sizeof(*scene));
    scene->world = world;
    scene->here = world_area(world, ALICE, 2 * SIZE, ALL_RIGHTS);
    scene->there = world_area(world, BOB, SIZE, rights);
    memset(scene->here->bytes, 0x44, 2 * SIZE);
    memset(scene->there->bytes, 0x33, SIZE);
    world_join(world, ALICE, BOB, &scene->alice, &scene->bob);
}

static bool is_atomic(enum fabric_op op)
{
    return op == FABRIC_FETCH_ADD || op == FABRIC_COMPARE_SWAP;
}

static bool may_test(struct world *world, enum fabric_op op)
{
    return !(is_atomic(op) && !world_can(world, FABRIC_CAN_ATOMICS)) &&
           !(op == FABRIC_WRITE_IMM && !world_can(world, FABRIC_CAN_WRITE_IMM));
}

static void scene_post(struct scene *scene, enum fabric_op op, struct fabric_remote remote,
                       uint64_t bytes)
{
    struct fabric_slice slice = area_slice(scene->here, 0, bytes);
    const struct fabric_work work = {.op = op,
                                     .flags = FABRIC_SIGNALLED,
                                     .tag = ++scene->tag,
                                     .slices = &slice,
                                     .slice_count = 1,
                                     .imm = 1,
                                     .remote = remote,
                                     .operand = 1,
                                     .compare = UINT64_C(0x3333333333333333)};

    if (op == FABRIC_WRITE_IMM)
        end_receive(scene->bob, scene->tag, scene->there, 0, 0);
    assert_int_equal(end_post(scene->alice, &work), NIGH_OK);
}

/* Both ends fail, nothing was touched on either side; new ends for the next attempt. */
static void scene_expect_denied(struct scene *scene)
{
    end_wait_refused(scene->alice, scene->bob, scene->tag, NIGH_DENIED);
    assert_true(area_is(scene->there, 0, SIZE, 0x33));
    assert_true(area_is(scene->here, 0, 2 * SIZE, 0x44));
    for (uint32_t i = 0; i < scene->bob->logged; i++)
        assert_int_not_equal(scene->bob->log[i].status, NIGH_OK);
    end_destroy(scene->alice);
    end_destroy(scene->bob);
    world_join(scene->world, ALICE, BOB, &scene->alice, &scene->bob);
}

static const enum fabric_op all_ops[] = {FABRIC_READ, FABRIC_WRITE, FABRIC_WRITE_IMM,
                                         FABRIC_FETCH_ADD, FABRIC_COMPARE_SWAP};

/* Where READs need memory that is open to remote writes, all that is written here is (F45). */
static uint32_t rights_of(const struct world *world, enum fabric_op op)
{
    if (op == FABRIC_READ)
        return FABRIC_REMOTE_READ;
    if (is_atomic(op))
        return FABRIC_REMOTE_ATOMIC;
    return (world->fabrics[BOB]->caps.ops & FABRIC_CAN_READ_PRIVATE) != 0
               ? FABRIC_REMOTE_WRITE
               : FABRIC_REMOTE_WRITE | FABRIC_LOCAL_WRITE;
}

/* F45 F46: each operation with every right but its own. */
static void test_each_operation_needs_its_right(void **state)
{
    struct world *world = *state;

    for (size_t i = 0; i < ARRAY_LENGTH(all_ops); i++) {
        struct scene scene;

        if (!may_test(world, all_ops[i]))
            continue;
        scene_make(&scene, world, ALL_RIGHTS & ~rights_of(world, all_ops[i]));
        scene_post(&scene, all_ops[i], area_remote(scene.there, 8), 8);
        scene_expect_denied(&scene);
    }
}

/* F45 F46: a key that was never given. */
static void test_a_made_up_key_is_denied(void **state)
{
    struct world *world = *state;
    struct scene scene;

    scene_make(&scene, world, ALL_RIGHTS);
    for (size_t i = 0; i < ARRAY_LENGTH(all_ops); i++) {
        struct fabric_remote remote = area_remote(scene.there, 8);

        if (!may_test(world, all_ops[i]))
            continue;
        remote.key += 1 + (uint32_t)i;
        scene_post(&scene, all_ops[i], remote, 8);
        scene_expect_denied(&scene);
        remote.key = i % 2 == 0 ? 0 : UINT32_MAX;
        scene_post(&scene, all_ops[i], remote, 8);
        scene_expect_denied(&scene);
    }
}

/* F18 F45 F17: from the return of deregister on, also when other memory took the place. */
static void test_a_stale_key_is_denied(void **state)
{
    struct world *world = *state;
    struct scene scene;

    scene_make(&scene, world, ALL_RIGHTS);
    for (size_t i = 0; i < ARRAY_LENGTH(all_ops); i++) {
        struct fabric_remote stale = area_remote(scene.there, 8);

        if (!may_test(world, all_ops[i]))
            continue;
        area_deregister(scene.there);
        scene_post(&scene, all_ops[i] == FABRIC_WRITE_IMM ? FABRIC_WRITE : all_ops[i], stale, 8);
        end_wait_refused(scene.alice, scene.bob, scene.tag, NIGH_DENIED);
        assert_int_equal(fabric_memory_register(world->fabrics[BOB], scene.there->bytes, SIZE,
                                                FABRIC_HOST, ALL_RIGHTS, &scene.there->memory),
                         NIGH_OK);
        scene_expect_denied(&scene);
        assert_int_not_equal(area_remote(scene.there, 8).key, stale.key);
        scene_post(&scene, all_ops[i], stale, 8);
        scene_expect_denied(&scene);
    }
}

/* Whether it is known at the target what a WRITE that is refused has written: not by a device. */
static bool can_tell(const struct world *world)
{
    return (world->fabrics[BOB]->caps.ops & FABRIC_CAN_WORDS) != 0;
}

/* Reads and writes at once, and deregisters after so many steps. */
static void deregister_under_way(struct world *world, struct world_area *here,
                                 struct world_area *there, uint64_t size, uint32_t steps)
{
    struct world_end *alice, *bob;
    bool has_written;

    memset(here->bytes, 0x44, here->size);
    memset(there->bytes, 0x33, there->size);
    world_join(world, ALICE, BOB, &alice, &bob);
    end_write(alice, 1, here, 0, area_remote(there, 0), size);
    end_read(alice, 2, here, 4 * MIB, area_remote(there, 4 * MIB), size);
    world_steps(world, steps);
    area_deregister(there);
    has_written = !area_is(there, 0, size, 0x33);
    memset(there->bytes, 0x55, there->size);
    assert_comes(world, alice->logged == 2);
    world_pass(world, 100000);
    assert_true(area_is(there, 0, there->size, 0x55));
    if (end_wait(alice, 2) == NIGH_OK)
        assert_true(area_is(here, 4 * MIB, size, 0x33));
    else
        assert_int_equal(alice->disconnected, 1);
    if (end_wait(alice, 1) != NIGH_OK)
        assert_int_equal(alice->disconnected, 1);
    if (has_written && can_tell(world))
        assert_int_not_equal(end_wait(alice, 1), NIGH_DENIED);
    end_destroy(alice);
    end_destroy(bob);
    assert_int_equal(fabric_memory_register(world->fabrics[BOB], there->bytes, there->size,
                                            FABRIC_HOST, ALL_RIGHTS, &there->memory),
                     NIGH_OK);
}

/* F18 F46: also for what is under way: from the return on nothing is written, and what is read was
 * read before; what was written in part is not said to be refused. */
static void test_deregistering_stops_what_is_under_way(void **state)
{
    static const uint32_t moments[] = {1, 2, 3, 4, 5, 6, 8, 10, 13, 20, 30, 100};
    static const uint64_t sizes[] = {4 * MIB, 50 * KIB};
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 8 * MIB, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 8 * MIB, ALL_RIGHTS);

    for (size_t i = 0; i < ARRAY_LENGTH(sizes) * ARRAY_LENGTH(moments); i++)
        deregister_under_way(world, here, there, sizes[i % 2], moments[i / 2]);
}

/* F45 F46: one byte before, one byte behind, and round the end of the address space. */
static void test_bounds_are_exact(void **state)
{
    struct world *world = *state;
    struct scene scene;
    struct fabric_remote remote;

    scene_make(&scene, world, ALL_RIGHTS);
    for (size_t i = 0; i < ARRAY_LENGTH(all_ops); i++) {
        bool atomic = is_atomic(all_ops[i]);
        uint64_t step = atomic ? 8 : 1, bytes = atomic ? 8 : 100;

        if (!may_test(world, all_ops[i]))
            continue;
        remote = area_remote(scene.there, 0);
        remote.address -= step;
        scene_post(&scene, all_ops[i], remote, bytes);
        scene_expect_denied(&scene);
        remote = area_remote(scene.there, 0);
        remote.address += SIZE - bytes + step;
        scene_post(&scene, all_ops[i], remote, bytes);
        scene_expect_denied(&scene);
        remote.address = UINT64_MAX - 7;
        scene_post(&scene, all_ops[i], remote, bytes);
        scene_expect_denied(&scene);
        if (!atomic) {
            scene_post(&scene, all_ops[i], area_remote(scene.there, 0), SIZE + 1);
            scene_expect_denied(&scene);
        }
    }
    /* And all of it is allowed. */
    scene_post(&scene, FABRIC_WRITE, area_remote(scene.there, 0), SIZE);
    assert_int_equal(end_wait(scene.alice, scene.tag), NIGH_OK);
    assert_true(area_is(scene.there, 0, SIZE, 0x44));
}

/* F46: a large WRITE that ends one byte too far writes nothing at all. */
static void test_a_denied_write_writes_nothing(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, MIB, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, MIB, ALL_RIGHTS);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    memset(here->bytes, 0x44, MIB);
    end_write(alice, 1, here, 0, area_remote(there, 1), MIB);
    end_wait_refused(alice, bob, 1, NIGH_DENIED);
    world_pass(world, 10000);
    assert_true(area_is(there, 0, MIB, 0));
}

/* F46 F47: a denied post that was not signalled completes too; those behind it are lost. */
static void test_a_denied_post_takes_the_rest_along(void **state)
{
    struct world *world = *state;
    struct scene scene;
    struct fabric_slice slice;
    struct fabric_work work = {.op = FABRIC_WRITE, .tag = 50, .slices = &slice, .slice_count = 1};

    scene_make(&scene, world, ALL_RIGHTS);
    slice = area_slice(scene.here, 0, 8);
    scene_post(&scene, FABRIC_WRITE, area_remote(scene.there, 0), 8);
    work.remote = area_remote(scene.there, SIZE - 8);
    work.remote.address += 1;
    assert_int_equal(end_post(scene.alice, &work), NIGH_OK);
    scene_post(&scene, FABRIC_WRITE, area_remote(scene.there, 64), 8);
    end_wait_refused(scene.alice, scene.bob, 50, NIGH_DENIED);
    assert_int_equal(end_wait(scene.alice, 1), NIGH_OK);
    assert_int_equal(end_wait(scene.alice, 2), NIGH_PEER_LOST);
    assert_true(area_is(scene.there, 0, 8, 0x44));
    assert_true(area_is(scene.there, 8, SIZE - 8, 0x33));
}

/* F17 F45: each registration of the same memory has its own key, rights and bounds. */
static void test_registrations_may_overlap(void **state)
{
    struct world *world = *state;
    struct scene scene;
    struct fabric_memory *part;
    struct fabric_remote remote;

    scene_make(&scene, world, FABRIC_REMOTE_READ);
    assert_int_equal(fabric_memory_register(world->fabrics[BOB], scene.there->bytes + 100, 50,
                                            FABRIC_HOST, FABRIC_LOCAL_WRITE | FABRIC_REMOTE_WRITE,
                                            &part),
                     NIGH_OK);
    remote = fabric_memory_remote(world->fabrics[BOB], part, scene.there->bytes + 100);
    assert_int_not_equal(remote.key, area_remote(scene.there, 0).key);
    scene_post(&scene, FABRIC_WRITE, remote, 51);
    scene_expect_denied(&scene);
    scene_post(&scene, FABRIC_READ, remote, 50);
    scene_expect_denied(&scene);
    scene_post(&scene, FABRIC_WRITE, area_remote(scene.there, 100), 50);
    scene_expect_denied(&scene);
    scene_post(&scene, FABRIC_WRITE, remote, 50);
    assert_int_equal(end_wait(scene.alice, scene.tag), NIGH_OK);
    assert_true(area_is(scene.there, 100, 50, 0x44));
    fabric_memory_deregister(world->fabrics[BOB], part);
    scene_post(&scene, FABRIC_WRITE, remote, 8);
    end_wait_refused(scene.alice, scene.bob, scene.tag, NIGH_DENIED);
}

/* F17: keys do not come back soon, and live ones differ. */
static void test_keys_are_not_used_again_soon(void **state)
{
    enum {
        LIVE = 32,
        ROUNDS = 256
    };
    static uint32_t keys[LIVE + ROUNDS];
    static uint8_t bytes[64];
    struct world *world = *state;
    struct fabric_memory *memory;

    for (uint32_t i = 0; i < LIVE + ROUNDS; i++) {
        assert_int_equal(fabric_memory_register(world->fabrics[ALICE], bytes, sizeof(bytes),
                                                FABRIC_HOST, FABRIC_REMOTE_READ, &memory),
                         NIGH_OK);
        keys[i] = fabric_memory_remote(world->fabrics[ALICE], memory, bytes).key;
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(keys[i], keys[j]);
        if (i >= LIVE)
            fabric_memory_deregister(world->fabrics[ALICE], memory);
    }
}

/* F16: at their limit registrations are refused, and possible again after one has gone. */
static void test_registrations_have_a_limit(void **state)
{
    enum {
        FEW = 8192
    };
    static struct fabric_memory *memories[LIMIT_FABRIC_MEMORIES + 1];
    static uint8_t bytes[64];
    struct world *world = *state;
    struct fabric *fabric = world->fabrics[ALICE];
    uint32_t most = min_u32(fabric->caps.memories, FEW), count = 0;
    nigh_status status = NIGH_OK;

    fabric->caps.memories = most; /* a device may have more than it gives in a test's time */
    while (count <= LIMIT_FABRIC_MEMORIES) {
        status = fabric_memory_register(fabric, bytes, sizeof(bytes), FABRIC_HOST,
                                        FABRIC_REMOTE_READ, &memories[count]);
        if (status != NIGH_OK)
            break;
        count++;
    }
    assert_int_equal(status, NIGH_LIMIT);
    assert_true(count == most || count == LIMIT_FABRIC_MEMORIES);
    fabric_memory_deregister(fabric, memories[0]);
    assert_int_equal(fabric_memory_register(fabric, bytes, sizeof(bytes), FABRIC_HOST,
                                            FABRIC_REMOTE_READ, &memories[0]),
                     NIGH_OK);
    for (uint32_t i = 0; i < count; i++)
        fabric_memory_deregister(fabric, memories[i]);
}

static const struct CMUnitTest tests[] = {
    WORLD_TEST(test_each_operation_needs_its_right),
    WORLD_TEST(test_a_made_up_key_is_denied),
    WORLD_TEST(test_a_stale_key_is_denied),
    WORLD_TEST(test_deregistering_stops_what_is_under_way),
    WORLD_TEST(test_bounds_are_exact),
    WORLD_TEST(test_a_denied_write_writes_nothing),
    WORLD_TEST(test_a_denied_post_takes_the_rest_along),
    WORLD_TEST(test_registrations_may_overlap),
    WORLD_TEST(test_keys_are_not_used_again_soon),
    WORLD_TEST(test_registrations_have_a_limit),
};

const struct world_tests refusal_tests = {tests, ARRAY_LENGTH(tests)};
