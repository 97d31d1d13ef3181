/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: SEND and its receives. Numbers F1, F2, ... are those of docs/fabric.md. */
#include "conformance/world.h"

#include <string.h>

#include "base/check.h"

static const uint64_t sizes[] = {0, 1, 7, 64, LIMIT_FABRIC_INLINE, 4 * KIB, 4 * KIB + 1, MIB};

/* F32 F26 F28: every size arrives, in both directions, and nothing beside it is written. */
static void test_messages_of_every_size_arrive(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, MIB + 64, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, MIB + 64, FABRIC_LOCAL_WRITE);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint64_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        const struct fabric_completion *got;

        memset(there->bytes, 0xee, there->size);
        area_fill(here, i % 5, sizes[i], i);
        end_receive(bob, i, there, i % 3, MIB + 32);
        end_send(alice, i, here, i % 5, sizes[i]);
        assert_int_equal(end_wait_receive(bob, i), NIGH_OK);
        got = end_find_receive(bob, i);
        assert_int_equal(got->bytes, sizes[i]);
        assert_false(got->has_imm);
        assert_ptr_equal(got->endpoint, bob->endpoint);
        assert_true(area_holds(there, i % 3, sizes[i], i));
        assert_true(area_is(there, 0, i % 3, 0xee));
        assert_true(area_is(there, i % 3 + sizes[i], there->size - i % 3 - sizes[i], 0xee));
        assert_int_equal(end_wait(alice, i), NIGH_OK);
        assert_int_equal(end_find(alice, i)->op, FABRIC_SEND);
        assert_int_equal(end_find(alice, i)->bytes, sizes[i]);
    }
}

/* F32: a receive as long as the message suffices. */
static void test_a_receive_may_be_filled_to_its_end(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 4096, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 4096, FABRIC_LOCAL_WRITE);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    area_fill(here, 0, 4096, 1);
    end_receive(bob, 1, there, 0, 4096);
    end_send(alice, 1, here, 0, 4096);
    assert_int_equal(end_wait_receive(bob, 1), NIGH_OK);
    assert_true(area_holds(there, 0, 4096, 1));
}

/* F32: empty messages need no slice, and consume a receive, of no bytes if one likes. */
static void test_empty_messages_consume_receives(void **state)
{
    struct world *world = *state;
    struct world_area *there = world_area(world, BOB, 64, FABRIC_LOCAL_WRITE);
    const struct fabric_work work = {.op = FABRIC_SEND, .flags = FABRIC_SIGNALLED, .tag = 1};
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    end_receive(bob, 1, there, 0, 0);
    end_receive(bob, 2, there, 0, 64);
    assert_int_equal(end_post(alice, &work), NIGH_OK);
    assert_int_equal(end_post(alice, &work), NIGH_OK);
    assert_int_equal(end_wait_receive(bob, 2), NIGH_OK);
    assert_int_equal(end_wait_receive(bob, 1), NIGH_OK);
    assert_int_equal(end_find_receive(bob, 2)->bytes, 0);
    assert_true(area_is(there, 0, 64, 0));
    assert_comes(world, alice->logged == 2);
}

/* F34 */
static void test_slices_are_gathered_in_order(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64 * KIB, ALL_RIGHTS);
    struct world_area *more = world_area(world, ALICE, 64 * KIB, 0);
    struct world_area *there = world_area(world, BOB, 64 * KIB, FABRIC_LOCAL_WRITE);
    uint32_t count = min_u32(world->fabrics[ALICE]->caps.slices, LIMIT_FABRIC_SLICES);
    struct fabric_slice slices[LIMIT_FABRIC_SLICES];
    struct fabric_work work = {.op = FABRIC_SEND, .flags = FABRIC_SIGNALLED, .tag = 1};
    struct world_end *alice, *bob;
    uint64_t bytes = 0;

    world_join(world, ALICE, BOB, &alice, &bob);
    area_fill(here, 0, here->size, 1);
    area_fill(more, 0, more->size, 2);
    for (uint32_t i = 0; i < count; i++) {
        /* Backwards, overlapping, one of them empty, from two registrations. */
        uint64_t size = i == 1 ? 0 : 1000 + 77 * (uint64_t)i;

        slices[i] = area_slice(i % 2 == 0 ? here : more, 5000 - 333 * (uint64_t)i, size);
        bytes += size;
    }
    work.slices = slices;
    work.slice_count = count;
    end_receive(bob, 1, there, 3, 32 * KIB);
    assert_int_equal(end_post(alice, &work), NIGH_OK);
    assert_int_equal(end_wait_receive(bob, 1), NIGH_OK);
    assert_int_equal(end_find_receive(bob, 1)->bytes, bytes);
    for (uint64_t at = 3, i = 0; i < count; at += slices[i++].bytes)
        assert_memory_equal(there->bytes + at, slices[i].address, slices[i].bytes);
}

#define BURST 100u

/* F33 F27: messages fill the receives in the order of both. */
static void test_messages_arrive_in_order(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, BURST * 512, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, BURST * 512, FABRIC_LOCAL_WRITE);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint64_t i = 0; i < BURST; i++)
        end_receive(bob, 1000 + i, there, i * 512, 512);
    for (uint64_t i = 0; i < BURST; i++) {
        area_fill(here, i * 512, 512, i);
        end_send(alice, i, here, i * 512, (i * 37) % 513);
    }
    assert_comes(world, bob->logged == BURST && alice->logged == BURST);
    for (uint64_t i = 0; i < BURST; i++) {
        assert_int_equal(bob->log[i].tag, 1000 + i);
        assert_int_equal(bob->log[i].status, NIGH_OK);
        assert_int_equal(bob->log[i].bytes, (i * 37) % 513);
        assert_true(area_holds(there, i * 512, (i * 37) % 513, i));
        assert_int_equal(alice->log[i].tag, i);
        assert_int_equal(alice->log[i].status, NIGH_OK);
    }
}

/* F33 F20: a chain of receives is posted in its order. */
static void test_receives_may_be_chained(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 256, FABRIC_LOCAL_WRITE);
    struct fabric_receive chain[3] = {{.tag = 0}};
    const struct fabric_receive *bad = NULL;
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint32_t i = 0; i < 3; i++) {
        chain[i].next = i < 2 ? &chain[i + 1] : NULL;
        chain[i].tag = i;
        chain[i].slice = area_slice(there, i * 64, 64);
    }
    assert_int_equal(fabric_post_receive(world->fabrics[BOB], bob->endpoint, chain, &bad), NIGH_OK);
    memset(chain, 0xff, sizeof(chain)); /* the structs are free again */
    for (uint32_t i = 0; i < 3; i++)
        end_send(alice, i, here, 0, i + 1);
    assert_comes(world, bob->logged == 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(bob->log[i].tag, i);
        assert_int_equal(bob->log[i].bytes, i + 1);
    }
}

/* F24 F20 */
static void test_inline_bytes_are_taken_at_once(void **state)
{
    struct world *world = *state;
    uint32_t most = world->fabrics[ALICE]->caps.inline_bytes;
    struct world_area *there = world_area(world, BOB, 16 * KIB, ALL_RIGHTS);
    uint8_t loose[LIMIT_FABRIC_INLINE];
    struct fabric_slice slices[2] = {{loose, most / 2, NULL},
                                     {loose + most / 2, most - most / 2, NULL}};
    struct fabric_work work = {.op = FABRIC_SEND,
                               .flags = FABRIC_SIGNALLED | FABRIC_INLINE,
                               .tag = 1,
                               .slices = slices,
                               .slice_count = 2};
    struct world_end *alice, *bob;
    uint8_t kept[LIMIT_FABRIC_INLINE];

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint32_t i = 0; i < most; i++)
        kept[i] = (uint8_t)(i * 7);
    end_receive(bob, 1, there, 0, 1024);
    memcpy(loose, kept, most);
    assert_int_equal(end_post(alice, &work), NIGH_OK);
    memset(loose, 0, sizeof(loose));
    memcpy(loose, kept, most);
    work.op = FABRIC_WRITE;
    work.tag = 2;
    work.remote = area_remote(there, 4001);
    assert_int_equal(end_post(alice, &work), NIGH_OK);
    memset(loose, 0, sizeof(loose));
    memset(slices, 0, sizeof(slices));
    assert_int_equal(end_wait(alice, 2), NIGH_OK);
    assert_int_equal(end_wait_receive(bob, 1), NIGH_OK);
    assert_memory_equal(there->bytes, kept, most);
    assert_memory_equal(there->bytes + 4001, kept, most);
}

/* The dialler may post so many bytes inline; the acceptor asks for more than there are. */
static void join_inline(struct world *world, uint32_t bytes, struct world_end **alice,
                        struct world_end **bob)
{
    struct fabric_endpoint_options options;
    struct world_request *request;

    *alice = world_end(world, ALICE);
    options = end_options(*alice, 4, 4);
    options.inline_bytes = bytes;
    assert_int_equal(fabric_connect(world->fabrics[ALICE], world->addresses[BOB], &options, NULL, 0,
                                    &(*alice)->endpoint),
                     NIGH_OK);
    request = world_next_request(world, BOB);
    request->taken = true;
    *bob = world_end(world, BOB);
    (*bob)->endpoint = request->endpoint;
    options = end_options(*bob, 4, 4);
    options.inline_bytes = UINT32_MAX;
    assert_int_equal(fabric_accept(world->fabrics[BOB], request->endpoint, &options, NULL, 0),
                     NIGH_OK);
    assert_comes(world, (*alice)->established == 1 && (*bob)->established == 1);
}

/* F23 F24 */
static void test_inline_bytes_are_as_asked_for(void **state)
{
    enum {
        FEW = 16
    };
    struct world *world = *state;
    uint32_t most = world->fabrics[ALICE]->caps.inline_bytes;
    struct world_area *there = world_area(world, BOB, 4 * KIB, ALL_RIGHTS);
    uint8_t loose[LIMIT_FABRIC_INLINE] = {7};
    struct fabric_slice slice = {loose, FEW, NULL};
    struct fabric_work work = {.op = FABRIC_SEND,
                               .flags = FABRIC_SIGNALLED | FABRIC_INLINE,
                               .tag = 1,
                               .slices = &slice,
                               .slice_count = 1};
    const struct fabric_work *bad = NULL;
    struct world_end *alice, *bob;

    assert_true(most >= FEW);
    join_inline(world, FEW, &alice, &bob);
    end_receive(bob, 1, there, 0, 1024);
    assert_int_equal(end_post(alice, &work), NIGH_OK);
    assert_int_equal(end_wait(alice, 1), NIGH_OK);
    assert_int_equal(end_wait_receive(bob, 1), NIGH_OK);
    assert_int_equal(there->bytes[0], 7);
    work.tag = 2;
    slice.bytes = FEW + 1;
    assert_int_equal(fabric_post(world->fabrics[ALICE], alice->endpoint, &work, &bad),
                     NIGH_INVALID);
    assert_ptr_equal(bad, &work);
    end_receive(alice, 3, world_area(world, ALICE, 4 * KIB, ALL_RIGHTS), 0, 1024);
    slice.bytes = most;
    assert_int_equal(end_post(bob, &work), NIGH_OK);
    assert_int_equal(end_wait(bob, 2), NIGH_OK);
    assert_int_equal(end_wait_receive(alice, 3), NIGH_OK);
}

/* F35 F47 */
static void test_too_long_a_message_is_a_limit(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 4096, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 4096, FABRIC_LOCAL_WRITE);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    area_fill(here, 0, 4096, 1);
    end_receive(bob, 1, there, 0, 999);
    end_send(alice, 2, here, 0, 1000);
    end_wait_refused(alice, bob, 2, NIGH_LIMIT);
    assert_int_equal(end_wait_receive(bob, 1), NIGH_LIMIT);
    assert_true(area_is(there, 999, 4096 - 999, 0));
}

/* F36 */
static void test_a_message_without_a_receive_is_nonsense(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 4096, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 4096, FABRIC_LOCAL_WRITE);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    end_receive(bob, 1, there, 0, 64);
    end_send(alice, 1, here, 0, 64);
    assert_int_equal(end_wait_receive(bob, 1), NIGH_OK);
    assert_int_equal(end_wait(alice, 1), NIGH_OK);
    end_send(alice, 2, here, 0, 64);
    end_wait_refused(alice, bob, 2, NIGH_PROTOCOL);
    assert_int_equal(bob->logged, 1);
}

/* F33 F22: both directions at once, for a long time, through few receives. */
static void test_messages_go_both_ways_for_long(void **state)
{
    enum {
        ROUNDS = 1000,
        WINDOW = 8,
        SIZE = 700
    };
    struct world *world = *state;
    struct world_area *area[2] = {world_area(world, ALICE, (uint64_t)4 * WINDOW * SIZE, ALL_RIGHTS),
                                  world_area(world, BOB, (uint64_t)4 * WINDOW * SIZE, ALL_RIGHTS)};
    struct world_end *end[2];
    uint32_t sent[2] = {0}, done_sends[2] = {0}, got[2] = {0}, seen[2] = {0};
    struct world_bound bound = world_bound_start();

    world_join(world, ALICE, BOB, &end[0], &end[1]);
    for (uint32_t side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < WINDOW; i++)
            end_receive(end[side], i, area[side], (uint64_t)i * SIZE, SIZE);
    }
    while (got[0] < ROUNDS || got[1] < ROUNDS) {
        for (uint32_t side = 0; side < 2; side++) {
            /* What the peer got back is what may be under way: no more than its receives. */
            while (sent[side] < ROUNDS && sent[side] < got[1 - side] + WINDOW &&
                   sent[side] < done_sends[side] + 2 * WINDOW) {
                uint64_t offset = (uint64_t)(2 * WINDOW + sent[side] % (2 * WINDOW)) * SIZE;

                area_fill(area[side], offset, SIZE, sent[side]);
                end_send(end[side], 100000 + sent[side], area[side], offset, SIZE);
                sent[side]++;
            }
        }
        assert_true(world_step(world, &bound));
        for (uint32_t side = 0; side < 2; side++) {
            for (; seen[side] < end[side]->logged; seen[side]++) {
                const struct fabric_completion *done = &end[side]->log[seen[side]];

                assert_int_equal(done->status, NIGH_OK);
                if (done->op != FABRIC_RECV) {
                    done_sends[side]++;
                    continue;
                }
                assert_int_equal(done->tag, got[side] % WINDOW);
                assert_true(area_holds(area[side], done->tag * SIZE, SIZE, got[side]));
                end_receive(end[side], done->tag, area[side], done->tag * SIZE, SIZE);
                got[side]++;
            }
        }
    }
}

static const struct CMUnitTest tests[] = {
    WORLD_TEST(test_messages_of_every_size_arrive),
    WORLD_TEST(test_a_receive_may_be_filled_to_its_end),
    WORLD_TEST(test_empty_messages_consume_receives),
    WORLD_TEST(test_slices_are_gathered_in_order),
    WORLD_TEST(test_messages_arrive_in_order),
    WORLD_TEST(test_receives_may_be_chained),
    WORLD_TEST(test_inline_bytes_are_taken_at_once),
    WORLD_TEST(test_inline_bytes_are_as_asked_for),
    WORLD_TEST(test_too_long_a_message_is_a_limit),
    WORLD_TEST(test_a_message_without_a_receive_is_nonsense),
    WORLD_TEST(test_messages_go_both_ways_for_long),
};

const struct world_tests message_tests = {tests, ARRAY_LENGTH(tests)};
