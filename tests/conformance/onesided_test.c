/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: READ, WRITE, WRITE_IMM, fences, and what is visible when. Numbers F1, F2, ... are
 * those of docs/fabric.md. */
#include "conformance/world.h"

#include <string.h>

#include "base/check.h"

static const uint64_t sizes[] = {
    1, 3, 8, 64, LIMIT_FABRIC_INLINE + 1, 4 * KIB, 4 * KIB + 5, 64 * KIB - 1, MIB};

/* F38 F28 F39: every size, at odd addresses of both sides; the target is told nothing. */
static void test_writes_of_every_size_land(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, MIB + 64, 0);
    struct world_area *there =
        world_area(world, BOB, MIB + 64, FABRIC_LOCAL_WRITE | FABRIC_REMOTE_WRITE);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint64_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        uint64_t from = i % 8, to = (i * 3 + 1) % 8;

        memset(there->bytes, 0xee, there->size);
        area_fill(here, from, sizes[i], i);
        end_write(alice, i, here, from, area_remote(there, to), sizes[i]);
        assert_int_equal(end_wait(alice, i), NIGH_OK);
        assert_int_equal(end_find(alice, i)->op, FABRIC_WRITE);
        assert_int_equal(end_find(alice, i)->bytes, sizes[i]);
        /* Completed: it lies there, and nothing beside it. */
        assert_true(area_holds(there, to, sizes[i], i));
        assert_true(area_is(there, 0, to, 0xee));
        assert_true(area_is(there, to + sizes[i], there->size - to - sizes[i], 0xee));
    }
    world_pass(world, 10000);
    assert_int_equal(bob->logged, 0);
}

/* F38 F28 F39 */
static void test_reads_of_every_size_land(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, MIB + 64, FABRIC_LOCAL_WRITE);
    struct world_area *there = world_area(world, BOB, MIB + 64, FABRIC_REMOTE_READ);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint64_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        uint64_t from = i % 8, to = (i * 3 + 1) % 8;

        memset(here->bytes, 0xee, here->size);
        area_fill(there, from, sizes[i], i);
        end_read(alice, i, here, to, area_remote(there, from), sizes[i]);
        assert_int_equal(end_wait(alice, i), NIGH_OK);
        assert_int_equal(end_find(alice, i)->op, FABRIC_READ);
        assert_int_equal(end_find(alice, i)->bytes, sizes[i]);
        assert_true(area_holds(here, to, sizes[i], i));
        assert_true(area_is(here, 0, to, 0xee));
        assert_true(area_is(here, to + sizes[i], here->size - to - sizes[i], 0xee));
    }
    world_pass(world, 10000);
    assert_int_equal(bob->logged, 0);
}

/* F34 F38: a READ is scattered over its slices, a WRITE gathered from them. */
static void test_slices_of_reads_and_writes(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64 * KIB, FABRIC_LOCAL_WRITE);
    struct world_area *there = world_area(world, BOB, 64 * KIB, ALL_RIGHTS);
    uint32_t count = world->fabrics[ALICE]->caps.slices;
    struct fabric_slice slices[LIMIT_FABRIC_SLICES];
    struct fabric_work work = {.flags = FABRIC_SIGNALLED, .slices = slices, .slice_count = count};
    struct world_end *alice, *bob;
    uint64_t bytes = 0;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint32_t i = 0; i < count; i++) {
        slices[i] = area_slice(here, 60000 - 6001 * (uint64_t)i, 17 + 555 * (uint64_t)i);
        bytes += slices[i].bytes;
    }
    area_fill(there, 0, there->size, 1);
    work.op = FABRIC_READ;
    work.tag = 1;
    work.remote = area_remote(there, 3);
    assert_int_equal(end_post(alice, &work), NIGH_OK);
    assert_int_equal(end_wait(alice, 1), NIGH_OK);
    work.op = FABRIC_WRITE;
    work.tag = 2;
    work.remote = area_remote(there, 32 * KIB + 1);
    assert_int_equal(end_post(alice, &work), NIGH_OK);
    assert_int_equal(end_wait(alice, 2), NIGH_OK);
    assert_int_equal(end_find(alice, 2)->bytes, bytes);
    for (uint64_t at = 3, i = 0; i < count; at += slices[i++].bytes)
        assert_memory_equal(there->bytes + at, slices[i].address, slices[i].bytes);
    assert_memory_equal(there->bytes + 3, there->bytes + 32 * KIB + 1, bytes);
}

/* F38: nothing is moved, and it completes. */
static void test_empty_reads_and_writes_complete(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    end_write(alice, 1, here, 0, area_remote(there, 8), 0);
    end_read(alice, 2, here, 0, area_remote(there, 8), 0);
    assert_int_equal(end_wait(alice, 1), NIGH_OK);
    assert_int_equal(end_wait(alice, 2), NIGH_OK);
}

#define SLOTS 16u
#define ROOM  UINT64_C(70000)

/* F37: WRITEs of several sizes, then a SEND: at its arrival all of them are visible. */
static void test_a_message_tells_of_the_writes_before_it(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, SLOTS * ROOM, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, SLOTS * ROOM, ALL_RIGHTS);
    struct world_end *alice, *bob;
    uint32_t seen = 0;
    struct world_bound bound = world_bound_start();

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint64_t i = 0; i < SLOTS; i++)
        end_receive(bob, i, there, 0, 0);
    for (uint64_t i = 0; i < SLOTS; i++) {
        uint64_t size = i % 4 == 0 ? 8 : i * 4099 + 1;
        struct fabric_slice slice = area_slice(here, i * ROOM, size);
        const struct fabric_work send = {.op = FABRIC_SEND, .flags = FABRIC_SIGNALLED, .tag = i};
        const struct fabric_work write = {.next = &send,
                                          .op = FABRIC_WRITE,
                                          .slices = &slice,
                                          .slice_count = 1,
                                          .remote = area_remote(there, i * ROOM)};

        area_fill(here, i * ROOM, size, i);
        assert_int_equal(end_post(alice, &write), NIGH_OK);
    }
    while (seen < SLOTS) {
        assert_true(world_step(world, &bound));
        for (; seen < bob->logged; seen++) {
            uint64_t i = bob->log[seen].tag, size = i % 4 == 0 ? 8 : i * 4099 + 1;

            assert_int_equal(i, seen);
            assert_int_equal(bob->log[seen].status, NIGH_OK);
            assert_true(area_holds(there, i * ROOM, size, i));
        }
    }
}

/* F40 F37 F33: WRITE_IMM consumes a receive, writes nothing into it, tells what was written;
 * receives of SENDs and WRITE_IMMs come in one order. */
static void test_write_imm_lands_and_tells(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 2 * MIB, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 2 * MIB, ALL_RIGHTS);
    struct world_area *inbox = world_area(world, BOB, 4096, FABRIC_LOCAL_WRITE);
    struct world_end *alice, *bob;

    if (!world_can(world, FABRIC_CAN_WRITE_IMM))
        return;
    world_join(world, ALICE, BOB, &alice, &bob);
    memset(inbox->bytes, 0xee, inbox->size);
    for (uint64_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        struct fabric_slice slice = area_slice(here, i, sizes[i]);
        const struct fabric_work work = {.op = FABRIC_WRITE_IMM,
                                         .flags = FABRIC_SIGNALLED,
                                         .tag = i,
                                         .slices = &slice,
                                         .slice_count = 1,
                                         .imm = 0xdead0000u + (uint32_t)i,
                                         .remote = area_remote(there, 5 - i % 5)};
        const struct fabric_completion *got;

        area_fill(here, i, sizes[i], i);
        end_receive(bob, 100 + i, inbox, 0, i % 2 == 0 ? 64 : 0);
        end_receive(bob, 200 + i, inbox, 1000, 64);
        assert_int_equal(end_post(alice, &work), NIGH_OK);
        end_send(alice, 300 + i, here, 0, 1);
        assert_int_equal(end_wait_receive(bob, 100 + i), NIGH_OK);
        got = end_find_receive(bob, 100 + i);
        assert_true(got->has_imm);
        assert_int_equal(got->imm, 0xdead0000u + (uint32_t)i);
        assert_int_equal(got->bytes, sizes[i]);
        assert_true(area_holds(there, 5 - i % 5, sizes[i], i));
        assert_true(area_is(inbox, 0, 1000, 0xee));
        assert_int_equal(end_wait_receive(bob, 200 + i), NIGH_OK);
        assert_false(end_find_receive(bob, 200 + i)->has_imm);
        assert_int_equal(end_find_receive(bob, 200 + i)->bytes, 1);
        assert_int_equal(end_wait(alice, i), NIGH_OK);
        assert_int_equal(end_find(alice, i)->op, FABRIC_WRITE_IMM);
    }
}

/* F40: the imm alone, with an address and without. */
static void test_write_imm_without_bytes(void **state)
{
    struct world *world = *state;
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct fabric_work work = {
        .op = FABRIC_WRITE_IMM, .flags = FABRIC_SIGNALLED, .tag = 1, .imm = UINT32_MAX};
    struct world_end *alice, *bob;

    if (!world_can(world, FABRIC_CAN_WRITE_IMM))
        return;
    world_join(world, ALICE, BOB, &alice, &bob);
    work.remote = area_remote(there, 0);
    end_receive(bob, 1, there, 0, 0);
    assert_int_equal(end_post(alice, &work), NIGH_OK);
    assert_int_equal(end_wait_receive(bob, 1), NIGH_OK);
    assert_true(end_find_receive(bob, 1)->has_imm);
    assert_int_equal(end_find_receive(bob, 1)->imm, UINT32_MAX);
    assert_int_equal(end_find_receive(bob, 1)->bytes, 0);
    work.remote = (struct fabric_remote){0};
    work.tag = 2;
    end_receive(bob, 2, there, 0, 0);
    assert_int_equal(end_post(alice, &work), NIGH_OK);
    assert_int_equal(end_wait_receive(bob, 2), NIGH_OK);
    assert_true(end_find_receive(bob, 2)->has_imm);
    assert_int_equal(end_find_receive(bob, 2)->bytes, 0);
}

/* F40 F36 */
static void test_write_imm_needs_a_receive(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct fabric_slice slice = area_slice(here, 0, 64);
    struct fabric_work work = {.op = FABRIC_WRITE_IMM,
                               .flags = FABRIC_SIGNALLED,
                               .tag = 1,
                               .slices = &slice,
                               .slice_count = 1};
    struct world_end *alice, *bob;

    if (!world_can(world, FABRIC_CAN_WRITE_IMM))
        return;
    world_join(world, ALICE, BOB, &alice, &bob);
    work.remote = area_remote(there, 0);
    assert_int_equal(end_post(alice, &work), NIGH_OK);
    end_wait_refused(alice, bob, 1, NIGH_PROTOCOL);
}

/* F42: a fenced WRITE of the bytes that READs before it take: they have the old ones. */
static void test_a_fenced_write_waits_for_reads(void **state)
{
    enum {
        READS = 6,
        ROUNDS = 10
    };
    struct world *world = *state;
    uint64_t size = 128 * KIB;
    struct world_area *here = world_area(world, ALICE, (READS + 1) * size, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, size, ALL_RIGHTS);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct fabric_slice slice = area_slice(here, READS * size, size);
        const struct fabric_work write = {.op = FABRIC_WRITE,
                                          .flags = FABRIC_SIGNALLED | FABRIC_FENCE,
                                          .tag = round * 100 + 99,
                                          .slices = &slice,
                                          .slice_count = 1,
                                          .remote = area_remote(there, 0)};

        area_fill(there, 0, size, round);
        area_fill(here, READS * size, size, round + 1000);
        for (uint64_t i = 0; i < READS; i++)
            end_read(alice, round * 100 + i, here, i * size, area_remote(there, 0), size);
        assert_int_equal(end_post(alice, &write), NIGH_OK);
        assert_int_equal(end_wait(alice, round * 100 + 99), NIGH_OK);
        for (uint64_t i = 0; i < READS; i++) {
            assert_int_equal(end_wait(alice, round * 100 + i), NIGH_OK);
            assert_true(area_holds(here, i * size, size, round));
        }
        assert_true(area_holds(there, 0, size, round + 1000));
    }
}

/* F42 F30: a fenced SEND says "I have read": the peer may write then. */
static void test_a_fenced_message_waits_for_reads(void **state)
{
    enum {
        ROUNDS = 20
    };
    struct world *world = *state;
    uint64_t size = 256 * KIB;
    struct world_area *here = world_area(world, ALICE, size, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, size, ALL_RIGHTS);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const struct fabric_work done = {
            .op = FABRIC_SEND, .flags = FABRIC_SIGNALLED | FABRIC_FENCE, .tag = 1000 + round};

        area_fill(there, 0, size, round);
        end_receive(bob, round, there, 0, 0);
        end_read(alice, round, here, 0, area_remote(there, 0), size);
        assert_int_equal(end_post(alice, &done), NIGH_OK);
        assert_int_equal(end_wait_receive(bob, round), NIGH_OK);
        memset(there->bytes, 0xdd, size);
        assert_int_equal(end_wait(alice, round), NIGH_OK);
        assert_true(area_holds(here, 0, size, round));
        assert_int_equal(end_wait(alice, 1000 + round), NIGH_OK);
    }
}

/* F41: a READ sees what WRITEs before it on its endpoint wrote. */
static void test_a_read_sees_the_writes_before_it(void **state)
{
    enum {
        ROUNDS = 20
    };
    struct world *world = *state;
    uint64_t size = 50001;
    struct world_area *here = world_area(world, ALICE, 2 * size, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, size, ALL_RIGHTS);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        area_fill(here, 0, size, round);
        end_write(alice, round, here, 0, area_remote(there, 0), size);
        end_read(alice, 1000 + round, here, size, area_remote(there, 0), size);
        assert_int_equal(end_wait(alice, 1000 + round), NIGH_OK);
        assert_true(area_holds(here, size, size, round));
        assert_int_equal(end_wait(alice, round), NIGH_OK);
    }
}

/* F43 F27: more READs than act at once wait their turn; none is lost or refused. */
static void test_many_reads_wait_their_turn(void **state)
{
    enum {
        READS = 120
    };
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, READS * KIB, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, READS * KIB, ALL_RIGHTS);
    struct world_end *alice, *bob;

    assert_true(READS > world->fabrics[ALICE]->caps.reads);
    world_join(world, ALICE, BOB, &alice, &bob);
    area_fill(there, 0, there->size, 1);
    for (uint64_t i = 0; i < READS; i++)
        end_read(alice, i, here, i * KIB, area_remote(there, i * KIB), KIB);
    assert_comes(world, alice->logged == READS);
    for (uint64_t i = 0; i < READS; i++) {
        assert_int_equal(alice->log[i].status, NIGH_OK);
        assert_int_equal(alice->log[i].tag, i);
    }
    assert_true(area_holds(here, 0, here->size, 1));
}

/* F38: both sides read and write each other at once. */
static void test_both_sides_at_once(void **state)
{
    enum {
        OPS = 40
    };
    struct world *world = *state;
    uint64_t size = 40 * KIB;
    struct world_area *area[2] = {world_area(world, ALICE, 2 * OPS * size, ALL_RIGHTS),
                                  world_area(world, BOB, 2 * OPS * size, ALL_RIGHTS)};
    struct world_end *end[2];

    world_join(world, ALICE, BOB, &end[0], &end[1]);
    for (uint64_t side = 0; side < 2; side++) {
        for (uint64_t i = 0; i < OPS; i += 2) {
            area_fill(area[side], i * size, size, 100 * side + i);
            area_fill(area[side], (i + 1) * size, size, 100 * side + i + 1);
        }
    }
    for (uint64_t i = 0; i < OPS; i += 2) {
        for (uint64_t side = 0; side < 2; side++) {
            end_write(end[side], i, area[side], i * size,
                      area_remote(area[1 - side], (OPS + i) * size), size);
            end_read(end[side], i + 1, area[side], (OPS + i + 1) * size,
                     area_remote(area[1 - side], (i + 1) * size), size);
        }
    }
    assert_comes(world, end[0]->logged == OPS && end[1]->logged == OPS);
    for (uint64_t side = 0; side < 2; side++) {
        for (uint64_t i = 0; i < OPS; i++) {
            assert_int_equal(end[side]->log[i].status, NIGH_OK);
            assert_true(area_holds(area[side], (OPS + i) * size, size, 100 * (1 - side) + i));
        }
    }
}

static const struct CMUnitTest tests[] = {
    WORLD_TEST(test_writes_of_every_size_land),
    WORLD_TEST(test_reads_of_every_size_land),
    WORLD_TEST(test_slices_of_reads_and_writes),
    WORLD_TEST(test_empty_reads_and_writes_complete),
    WORLD_TEST(test_a_message_tells_of_the_writes_before_it),
    WORLD_TEST(test_write_imm_lands_and_tells),
    WORLD_TEST(test_write_imm_without_bytes),
    WORLD_TEST(test_write_imm_needs_a_receive),
    WORLD_TEST(test_a_fenced_write_waits_for_reads),
    WORLD_TEST(test_a_fenced_message_waits_for_reads),
    WORLD_TEST(test_a_read_sees_the_writes_before_it),
    WORLD_TEST(test_many_reads_wait_their_turn),
    WORLD_TEST(test_both_sides_at_once),
};

const struct world_tests onesided_tests = {tests, ARRAY_LENGTH(tests)};
