/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: what a post is: chains, depths, signals, what is nonsense. Numbers F1, F2, ... are
 * those of docs/fabric.md. */
#include "conformance/world.h"

#include <string.h>
#include <sys/mman.h>

#include "base/check.h"

#define MOST 8u

/* A chain of SENDs of one byte each, all signalled, tags from 0. */
struct chain {
    struct fabric_slice slice;
    struct fabric_work work[MOST];
};

static void chain_make(struct chain *chain, const struct world_area *here, uint32_t count)
{
    memset(chain, 0, sizeof(*chain));
    chain->slice = area_slice(here, 0, 1);
    for (uint32_t i = 0; i < count; i++) {
        chain->work[i] = (struct fabric_work){.next = i + 1 < count ? &chain->work[i + 1] : NULL,
                                              .op = FABRIC_SEND,
                                              .flags = FABRIC_SIGNALLED,
                                              .tag = i,
                                              .slices = &chain->slice,
                                              .slice_count = 1};
    }
}

/* F20 F21 F27: all of a chain, in its order; structs and slice arrays are free on return. */
static void test_a_chain_is_posted_whole(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct world_end *alice, *bob;
    const struct fabric_work *bad = NULL;
    struct chain chain;

    world_join(world, ALICE, BOB, &alice, &bob);
    chain_make(&chain, here, MOST);
    for (uint32_t i = 0; i < MOST; i++)
        end_receive(bob, i, there, i, 1);
    assert_int_equal(fabric_post(world->fabrics[ALICE], alice->endpoint, chain.work, &bad),
                     NIGH_OK);
    memset(&chain, 0xff, sizeof(chain));
    assert_comes(world, alice->logged == MOST && bob->logged == MOST);
    for (uint32_t i = 0; i < MOST; i++) {
        assert_int_equal(alice->log[i].tag, i);
        assert_int_equal(bob->log[i].tag, i);
        assert_int_equal(alice->log[i].status, NIGH_OK);
        assert_int_equal(bob->log[i].status, NIGH_OK);
    }
}

/* F21 F4: what stands before the bad one was taken, the rest was not; the endpoint lives on. */
static void test_a_bad_one_in_the_middle_of_a_chain(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct world_end *alice, *bob;
    const struct fabric_work *bad = NULL;
    struct chain chain;

    world_join(world, ALICE, BOB, &alice, &bob);
    chain_make(&chain, here, 5);
    chain.work[2].slice_count = world->fabrics[ALICE]->caps.slices + 1;
    for (uint32_t i = 0; i < 5; i++)
        end_receive(bob, i, there, i, 1);
    assert_int_equal(fabric_post(world->fabrics[ALICE], alice->endpoint, chain.work, &bad),
                     NIGH_INVALID);
    assert_ptr_equal(bad, &chain.work[2]);
    assert_comes(world, alice->logged == 2 && bob->logged == 2);
    world_pass(world, 10000);
    assert_int_equal(alice->logged, 2);
    assert_int_equal(bob->logged, 2);
    assert_int_equal(end_wait(alice, 0), NIGH_OK);
    assert_int_equal(end_wait(alice, 1), NIGH_OK);
    end_send(alice, 9, here, 0, 1);
    assert_int_equal(end_wait(alice, 9), NIGH_OK);
    assert_int_equal(end_wait_receive(bob, 2), NIGH_OK);
}

/* F22 F21: a place is taken until the completion was polled. */
static void test_depth_of_posts_is_a_bound(void **state)
{
    enum {
        DEPTH = 4
    };
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct world_end *alice, *bob;
    const struct fabric_work *bad = NULL;
    struct chain chain;

    world_join_deep(world, ALICE, BOB, DEPTH, &alice, &bob);
    for (uint32_t round = 0; round < 3; round++) {
        chain_make(&chain, here, MOST);
        for (uint32_t i = 0; i < DEPTH; i++)
            end_receive(bob, i, there, i, 1);
        assert_int_equal(fabric_post(world->fabrics[ALICE], alice->endpoint, chain.work, &bad),
                         NIGH_BUSY);
        assert_ptr_equal(bad, &chain.work[DEPTH]);
        assert_int_equal(end_post(alice, &chain.work[MOST - 1]), NIGH_BUSY);
        assert_comes(world,
                     alice->logged == (round + 1) * DEPTH && bob->logged == (round + 1) * DEPTH);
    }
    for (uint32_t i = 0; i < alice->logged; i++) {
        assert_int_equal(alice->log[i].tag, i % DEPTH);
        assert_int_equal(alice->log[i].status, NIGH_OK);
    }
}

/* F22 F21 */
static void test_depth_of_receives_is_a_bound(void **state)
{
    enum {
        DEPTH = 4
    };
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct fabric_receive chain[DEPTH + 2] = {{.tag = 0}};
    const struct fabric_receive *bad = NULL;
    struct world_end *alice, *bob;

    world_join_deep(world, ALICE, BOB, DEPTH, &alice, &bob);
    for (uint32_t i = 0; i < ARRAY_LENGTH(chain); i++) {
        chain[i].next = i + 1 < ARRAY_LENGTH(chain) ? &chain[i + 1] : NULL;
        chain[i].tag = i;
        chain[i].slice = area_slice(there, i, 1);
    }
    assert_int_equal(fabric_post_receive(world->fabrics[BOB], bob->endpoint, chain, &bad),
                     NIGH_BUSY);
    assert_ptr_equal(bad, &chain[DEPTH]);
    end_send(alice, 1, here, 0, 1);
    assert_int_equal(end_wait_receive(bob, 0), NIGH_OK);
    end_receive(bob, DEPTH, there, 0, 1);
    assert_int_equal(end_post_receive(bob, 99, area_slice(there, 0, 1)), NIGH_BUSY);
}

static void assert_nonsense(struct world_end *end, const struct fabric_work *work)
{
    const struct fabric_work *bad = NULL;

    assert_int_equal(fabric_post(end->world->fabrics[end->fabric], end->endpoint, work, &bad),
                     NIGH_INVALID);
    assert_ptr_equal(bad, work);
}

/* F23 F19: refused at once; nothing leaves, nothing completes, the endpoint lives on. */
static void test_nonsense_is_refused_at_once(void **state)
{
    struct world *world = *state;
    const struct fabric_caps *caps = &world->fabrics[ALICE]->caps;
    struct world_area *here = world_area(world, ALICE, 4 * KIB, FABRIC_LOCAL_WRITE);
    struct world_area *there = world_area(world, BOB, 4 * KIB, ALL_RIGHTS);
    struct fabric_slice slices[LIMIT_FABRIC_SLICES + 1];
    struct world_end *alice, *bob;
    struct fabric_work work;
    const struct fabric_work good = {
        .op = FABRIC_SEND, .flags = FABRIC_SIGNALLED, .tag = 1, .slices = slices, .slice_count = 1};

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint32_t i = 0; i < ARRAY_LENGTH(slices); i++)
        slices[i] = area_slice(here, 0, 8);
    work = good;
    work.slice_count = caps->slices + 1;
    assert_nonsense(alice, &work);
    work = good;
    work.op = FABRIC_RECV;
    assert_nonsense(alice, &work);
    work.op = FABRIC_OPS;
    assert_nonsense(alice, &work);
    work = good;
    work.flags |= FABRIC_INLINE;
    slices[0].bytes = caps->inline_bytes + 1;
    assert_nonsense(alice, &work);
    work.op = FABRIC_READ;
    work.remote = area_remote(there, 0);
    slices[0].bytes = 8;
    assert_nonsense(alice, &work);
    /* Local memory: without a registration, of no registration, one byte too far on each side. */
    work = good;
    slices[0].memory = NULL;
    assert_nonsense(alice, &work);
    slices[0] = area_slice(here, 0, 4 * KIB);
    slices[0].address = here->bytes + 1;
    assert_nonsense(alice, &work);
    slices[0].address = here->bytes - 1;
    assert_nonsense(alice, &work);
    slices[0].bytes = UINT64_MAX;
    assert_nonsense(alice, &work);
    world_pass(world, 10000);
    assert_int_equal(alice->logged, 0);
    slices[0] = area_slice(here, 0, 8);
    end_receive(bob, 1, there, 0, 64);
    assert_int_equal(end_post(alice, &good), NIGH_OK);
    assert_int_equal(end_wait(alice, 1), NIGH_OK);
}

/* F19: what is received or read is written here: the registration must allow it. */
static void test_local_writes_need_the_right(void **state)
{
    struct world *world = *state;
    struct world_area *here =
        world_area(world, ALICE, 64, FABRIC_REMOTE_READ); /* local reading always may */
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct fabric_slice slice = area_slice(here, 0, 8);
    struct fabric_work work = {
        .op = FABRIC_READ, .flags = FABRIC_SIGNALLED, .tag = 1, .slices = &slice, .slice_count = 1};
    const struct fabric_receive receive = {.tag = 1, .slice = slice};
    const struct fabric_receive *bad = NULL;
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    memset(there->bytes, 0x33, 64);
    work.remote = area_remote(there, 0);
    assert_nonsense(alice, &work);
    if (world_can(world, FABRIC_CAN_ATOMICS)) {
        work.op = FABRIC_FETCH_ADD;
        assert_nonsense(alice, &work);
        work.op = FABRIC_COMPARE_SWAP;
        assert_nonsense(alice, &work);
    }
    assert_int_equal(fabric_post_receive(world->fabrics[ALICE], alice->endpoint, &receive, &bad),
                     NIGH_INVALID);
    assert_ptr_equal(bad, &receive);
    world_pass(world, 10000);
    assert_int_equal(alice->logged, 0);
    assert_true(area_is(here, 0, 64, 0));
    end_receive(bob, 1, there, 0, 8);
    end_send(alice, 2, here, 0, 8);
    assert_int_equal(end_wait(alice, 2), NIGH_OK);
    assert_int_equal(end_wait_receive(bob, 1), NIGH_OK);
}

/* F23: longer than one post may be. */
static void test_too_long_a_post_is_refused(void **state)
{
    struct world *world = *state;
    uint64_t most = world->fabrics[ALICE]->caps.message_bytes;
    void *wide = mmap(NULL, most + 1, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct fabric_memory *memory = NULL;
    struct fabric_slice slice = {wide, most + 1, NULL};
    struct fabric_work work = {
        .op = FABRIC_SEND, .flags = FABRIC_SIGNALLED, .tag = 1, .slices = &slice, .slice_count = 1};
    struct world_end *alice, *bob;

    assert_ptr_not_equal(wide, MAP_FAILED);
    world_join(world, ALICE, BOB, &alice, &bob);
    if (fabric_memory_register(world->fabrics[ALICE], wide, most + 1, FABRIC_HOST, ALL_RIGHTS,
                               &memory) == NIGH_OK) {
        slice.memory = memory;
        assert_nonsense(alice, &work);
        fabric_memory_deregister(world->fabrics[ALICE], memory);
    }
    (void)munmap(wide, most + 1);
}

/* F25 F29: they do not complete; the loan of all of them is over with the next signalled one. */
static void test_unsignalled_posts_do_not_complete(void **state)
{
    enum {
        POSTS = 20,
        SIZE = 3000
    };
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, (uint64_t)2 * POSTS * SIZE, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, (uint64_t)3 * POSTS * SIZE, ALL_RIGHTS);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    area_fill(there, (uint64_t)2 * POSTS * SIZE, (uint64_t)POSTS * SIZE, 7);
    for (uint64_t i = 0; i < POSTS; i++) {
        static const enum fabric_op ops[] = {FABRIC_SEND, FABRIC_WRITE, FABRIC_READ};
        uint64_t mine = (ops[i % 3] == FABRIC_READ ? POSTS + i : i) * SIZE;
        uint64_t theirs = (ops[i % 3] == FABRIC_READ ? 2 * POSTS : POSTS) * (uint64_t)SIZE;
        struct fabric_slice slice = area_slice(here, mine, SIZE);
        const struct fabric_work work = {.op = ops[i % 3],
                                         .tag = i,
                                         .slices = &slice,
                                         .slice_count = 1,
                                         .remote = area_remote(there, theirs + i * SIZE)};

        area_fill(here, i * SIZE, SIZE, i);
        end_receive(bob, i, there, i * SIZE, SIZE);
        assert_int_equal(end_post(alice, &work), NIGH_OK);
    }
    end_receive(bob, POSTS, there, 0, 0);
    end_send(alice, 99, here, 0, 0); /* no fence */
    assert_int_equal(end_wait(alice, 99), NIGH_OK);
    memset(here->bytes, 0xcc, (uint64_t)POSTS * SIZE); /* ours again */
    for (uint64_t i = 2; i < POSTS; i += 3)
        assert_memory_equal(here->bytes + (POSTS + i) * SIZE, there->bytes + (2 * POSTS + i) * SIZE,
                            SIZE);
    memset(here->bytes + (uint64_t)POSTS * SIZE, 0xcc, (uint64_t)POSTS * SIZE);
    assert_int_equal(end_wait_receive(bob, (POSTS + 2) / 3), NIGH_OK); /* the empty one */
    world_pass(world, 20000);
    assert_int_equal(alice->logged, 1);
    for (uint64_t i = 0, sends = 0; i < POSTS; i++) {
        if (i % 3 == 0)
            assert_true(area_holds(there, sends++ * SIZE, SIZE, i));
        else if (i % 3 == 1)
            assert_true(area_holds(there, (POSTS + i) * SIZE, SIZE, i));
    }
    assert_true(area_is(here, 0, here->size, 0xcc));
}

/* F22 F25: their places are free again after the next signalled one. */
static void test_unsignalled_posts_give_their_places_back(void **state)
{
    enum {
        DEPTH = 8,
        ROUNDS = 30
    };
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct fabric_slice slice = area_slice(here, 0, 8);
    struct fabric_work work = {.op = FABRIC_WRITE, .slices = &slice, .slice_count = 1};
    struct world_end *alice, *bob;

    world_join_deep(world, ALICE, BOB, DEPTH, &alice, &bob);
    work.remote = area_remote(there, 0);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        work.flags = 0;
        for (uint32_t i = 0; i + 1 < DEPTH; i++)
            assert_int_equal(end_post(alice, &work), NIGH_OK);
        work.flags = FABRIC_SIGNALLED;
        work.tag = round;
        assert_int_equal(end_post(alice, &work), NIGH_OK);
        assert_int_equal(end_post(alice, &work), NIGH_BUSY);
        assert_int_equal(end_wait(alice, round), NIGH_OK);
    }
    assert_int_equal(alice->logged, ROUNDS);
}

/* F27 F25: in the order of the posts, whatever they are. */
static void test_completions_come_in_order(void **state)
{
    enum {
        POSTS = 90,
        SIZE = 2000
    };
    static const enum fabric_op ops[] = {FABRIC_READ, FABRIC_SEND, FABRIC_WRITE};
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, (uint64_t)POSTS * SIZE, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, (uint64_t)2 * POSTS * SIZE, ALL_RIGHTS);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint64_t i = 0; i < POSTS; i++) {
        struct fabric_slice slice = area_slice(here, i * SIZE, i % 5 == 0 ? SIZE : 8);
        const struct fabric_work work = {.op = ops[i % 3],
                                         .flags = FABRIC_SIGNALLED,
                                         .tag = i,
                                         .slices = &slice,
                                         .slice_count = 1,
                                         .remote = area_remote(there, (POSTS + i) * SIZE)};

        end_receive(bob, i, there, i * SIZE, SIZE);
        assert_int_equal(end_post(alice, &work), NIGH_OK);
    }
    assert_comes(world, alice->logged == POSTS);
    for (uint64_t i = 0; i < POSTS; i++) {
        assert_int_equal(alice->log[i].tag, i);
        assert_int_equal(alice->log[i].op, ops[i % 3]);
        assert_int_equal(alice->log[i].status, NIGH_OK);
    }
}

static const struct CMUnitTest tests[] = {
    WORLD_TEST(test_a_chain_is_posted_whole),
    WORLD_TEST(test_a_bad_one_in_the_middle_of_a_chain),
    WORLD_TEST(test_depth_of_posts_is_a_bound),
    WORLD_TEST(test_depth_of_receives_is_a_bound),
    WORLD_TEST(test_nonsense_is_refused_at_once),
    WORLD_TEST(test_local_writes_need_the_right),
    WORLD_TEST(test_too_long_a_post_is_refused),
    WORLD_TEST(test_unsignalled_posts_do_not_complete),
    WORLD_TEST(test_unsignalled_posts_give_their_places_back),
    WORLD_TEST(test_completions_come_in_order),
};

const struct world_tests post_tests = {tests, ARRAY_LENGTH(tests)};
