/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions, end to end: embedded nodes of one process, that are each other's peers, and clients of
 * each. What is written through one node is read through another; chunks lie here and there, move,
 * and are lost; rights are revoked; words are added to from everywhere. Where there are hosts with
 * RDMA devices (RDMA_GUEST_HOSTS, of tools/rdma-guest) each node has one.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region_world.h"

static void fill(uint8_t *bytes, size_t count, uint64_t seed)
{
    for (size_t n = 0; n < count; n++) {
        bytes[n] = (uint8_t)(support_random(&seed) >> 24);
    }
}

/* Of a machine that is so busy that nodes do not hear each other for two seconds their links break:
 * a write whose end is not known then is done again. */
static void write_all(nigh_region *region, uint64_t offset, const void *bytes, size_t count)
{
    nigh_status status;

    assert_true(SUPPORT_WAIT((status = AGREED(nigh_region_write(region, offset, bytes, count,
                                                                WAIT_US))) != NIGH_PEER_LOST,
                             20000));
    assert_int_equal(status, NIGH_OK);
}

static void assert_reads(nigh_region *region, uint64_t offset, const void *bytes, size_t count)
{
    uint8_t *read = malloc(count);

    assert_non_null(read);
    assert_int_equal(AGREED(nigh_region_read(region, offset, read, count, WAIT_US)), NIGH_OK);
    assert_memory_equal(read, bytes, count);
    free(read);
}

/* ---- bytes ---------------------------------------------------------------- */

static void one_node_alone_has_regions(void **state)
{
    struct world world;
    nigh_region *region, *again = NULL;
    uint8_t bytes[20000];
    uint8_t zeros[64] = {0};

    (void)state;
    begin_world(&world, 1);
    region = create(world.client[0], &(nigh_region_spec){.name = "alone", .size = 3 * MIB + 17});
    assert_reads(region, 3 * MIB, zeros, 17);
    fill(bytes, sizeof bytes, 1);
    write_all(region, 12345, bytes, sizeof bytes);
    assert_reads(region, 12345, bytes, sizeof bytes);
    assert_int_equal(AGREED(nigh_region_read(region, 3 * MIB, bytes, 18, WAIT_US)), NIGH_INVALID);
    assert_int_equal(
        AGREED(nigh_region_open(world.client[0], "nobody's", NIGH_REGION_READ, WAIT_US, &again)),
        NIGH_NOT_FOUND);
    again = open_region(world.client[0], "alone", NIGH_REGION_READ);
    assert_int_equal(AGREED(nigh_region_write(again, 0, bytes, 1, WAIT_US)), NIGH_DENIED);
    assert_reads(again, 12345, bytes, 64);
    nigh_region_close(again);
    assert_int_equal(AGREED(nigh_region_free(region, WAIT_US)), NIGH_OK);
    assert_int_equal(AGREED(nigh_region_read(region, 0, bytes, 1, WAIT_US)), NIGH_NOT_FOUND);
    nigh_region_close(region);
    end_world(&world);
}

static void what_one_node_writes_another_reads(void **state)
{
    struct world world;
    nigh_region *regions[NODES];
    uint8_t *bytes = malloc(MIB);

    (void)state;
    assert_non_null(bytes);
    begin_world(&world, NODES);
    regions[0] = create(world.client[0], &(nigh_region_spec){.name = "spread",
                                                             .size = 12 * MIB,
                                                             .chunk_size = MIB,
                                                             .where = NIGH_REGION_SPREAD});
    for (uint32_t n = 1; n < NODES; n++) {
        regions[n] = open_region(world.client[n], "spread", NIGH_REGION_ALL);
    }
    for (uint32_t n = 0; n < NODES; n++) {
        uint64_t offset = n * 4 * MIB + MIB / 2 + n;

        fill(bytes, MIB, n + 1);
        write_all(regions[n], offset, bytes, MIB); /* over two nodes */
        for (uint32_t other = 0; other < NODES; other++) {
            assert_reads(regions[other], offset, bytes, MIB);
        }
    }
    end_world(&world);
    free(bytes);
}

static void memory_for_calls_is_read_into_and_written_from(void **state)
{
    struct world world;
    nigh_region *region;
    nigh_bulk *bulk;
    void *memory;
    uint8_t *bytes = malloc(6 * MIB);

    (void)state;
    assert_non_null(bytes);
    begin_world(&world, 2);
    region = create(world.client[0], &(nigh_region_spec){.name = "far",
                                                         .size = 8 * MIB,
                                                         .chunk_size = 4 * MIB,
                                                         .where = NIGH_REGION_SPREAD});
    assert_int_equal(
        nigh_bulk_alloc(world.client[0], 8 * MIB, NIGH_BULK_READ | NIGH_BULK_WRITE, &memory, &bulk),
        NIGH_OK);
    fill(memory, 8 * MIB, 7);
    memcpy(bytes, (uint8_t *)memory + 5, 6 * MIB);
    assert_int_equal(AGREED(nigh_region_write_from(
                         region, MIB + 3,
                         &(nigh_bulk_part){.bulk = bulk, .offset = 5, .size = 6 * MIB}, WAIT_US)),
                     NIGH_OK);
    assert_reads(region, MIB + 3, bytes, 6 * MIB);
    memset(memory, 0, 8 * MIB);
    assert_int_equal(AGREED(nigh_region_read_into(
                         region, MIB + 3,
                         &(nigh_bulk_part){.bulk = bulk, .offset = MIB, .size = 6 * MIB}, WAIT_US)),
                     NIGH_OK);
    assert_memory_equal((uint8_t *)memory + MIB, bytes, 6 * MIB);
    assert_int_equal(
        AGREED(nigh_region_read_into(region, 7 * MIB,
                                     &(nigh_bulk_part){.bulk = bulk, .size = 2 * MIB}, WAIT_US)),
        NIGH_INVALID);
    assert_int_equal(nigh_bulk_close(bulk, WAIT_US), NIGH_OK);
    end_world(&world);
    free(bytes);
}

/* ---- filled, copied ------------------------------------------------------- */

#define MODEL_BYTES (3 * MIB + 4321)
#define MODEL_CHUNK (256 * KIB)

/* A region over all nodes, and what is to be in it. */
struct modelled {
    nigh_region *region;
    uint8_t *bytes;
};

static struct modelled model_of(nigh_client *client, const char *name, uint64_t seed)
{
    struct modelled of = {.region =
                              create(client, &(nigh_region_spec){.name = name,
                                                                 .size = MODEL_BYTES,
                                                                 .chunk_size = MODEL_CHUNK,
                                                                 .where = NIGH_REGION_SPREAD}),
                          .bytes = malloc(MODEL_BYTES)};

    assert_non_null(of.bytes);
    fill(of.bytes, MODEL_BYTES, seed);
    write_all(of.region, 0, of.bytes, MODEL_BYTES);
    return of;
}

/* An emulated machine stands still too late when a chunk moves: what it posts is refused, which
 * over RDMA ends a connection, and nobody knows of what else was under way over it whether it
 * landed. Its links break for being late, too. */
static bool is_in_doubt(nigh_status status)
{
    return uses_rdma() && status == NIGH_PEER_LOST;
}

static bool try_write(nigh_region *region, uint64_t offset, const void *bytes, uint64_t size,
                      nigh_status *status)
{
    *status = AGREED(nigh_region_write(region, offset, bytes, size, WAIT_US));
    return !is_in_doubt(*status);
}

/* Bytes that nobody else writes are written until it is known that they are. */
static nigh_status write_surely(nigh_region *region, uint64_t offset, const void *bytes,
                                uint64_t size)
{
    nigh_status status = NIGH_PEER_LOST;

    (void)SUPPORT_WAIT(try_write(region, offset, bytes, size, &status), 60000);
    return status;
}

static nigh_node_stats stats_of(const struct world *world, uint32_t n)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    assert_int_equal(nigh_stats(world->client[n], &stats), NIGH_OK);
    return stats;
}

static bool try_copy(const struct modelled *to, uint64_t to_offset, const struct modelled *from,
                     uint64_t from_offset, uint64_t size, nigh_status *status)
{
    *status =
        AGREED(nigh_region_copy(to->region, to_offset, from->region, from_offset, size, WAIT_US));
    if (!is_in_doubt(*status))
        return true;
    assert_int_equal(write_surely(to->region, 0, to->bytes, MODEL_BYTES), NIGH_OK);
    return false;
}

static void copy_checked(const struct modelled *to, uint64_t to_offset, const struct modelled *from,
                         uint64_t from_offset, uint64_t size)
{
    nigh_status status;

    assert_true(SUPPORT_WAIT(try_copy(to, to_offset, from, from_offset, size, &status), 60000));
    assert_int_equal(status, NIGH_OK);
    memmove(to->bytes + to_offset, from->bytes + from_offset, size);
    assert_reads(to->region, 0, to->bytes, MODEL_BYTES);
}

static bool try_fill(const struct modelled *of, uint64_t offset, uint8_t byte, uint64_t size,
                     nigh_status *status)
{
    *status = AGREED(nigh_region_memset(of->region, offset, byte, size, WAIT_US));
    return !is_in_doubt(*status);
}

static void fill_checked(const struct modelled *of, uint64_t offset, uint8_t byte, uint64_t size)
{
    nigh_status status;

    assert_true(SUPPORT_WAIT(try_fill(of, offset, byte, size, &status), 60000));
    assert_int_equal(status, NIGH_OK);
    memset(of->bytes + offset, byte, size);
    assert_reads(of->region, 0, of->bytes, MODEL_BYTES);
}

#define FILLS 4u

/* Several of a client's are under way; the first status that is not OK. */
static nigh_status fill_at_once(nigh_client *client, const struct modelled *of)
{
    const uint64_t each = MODEL_BYTES / FILLS;
    nigh_op ops[FILLS];
    nigh_status status = NIGH_OK, ended;

    for (uint32_t n = 0; n < FILLS; n++) {
        assert_int_equal(nigh_region_memset_start(of->region, n * each, (uint8_t)(n + 1), each,
                                                  WAIT_US, &ops[n]),
                         NIGH_OK);
    }
    for (uint32_t n = 0; n < FILLS; n++) {
        ended = nigh_wait(client, &ops[n], WAIT_US);
        status = status == NIGH_OK ? ended : status;
    }
    return status;
}

static void fill_at_once_checked(nigh_client *client, const struct modelled *of)
{
    const uint64_t each = MODEL_BYTES / FILLS;
    nigh_status status;

    assert_true(SUPPORT_WAIT(!is_in_doubt(status = AGREED(fill_at_once(client, of))), 60000));
    assert_int_equal(status, NIGH_OK);
    for (uint32_t n = 0; n < FILLS; n++) {
        memset(of->bytes + n * each, (int)n + 1, each);
    }
    assert_reads(of->region, 0, of->bytes, MODEL_BYTES);
}

static void bytes_are_filled_and_copied_wherever_they_lie(void **state)
{
    struct world world;
    struct modelled a, b;
    uint64_t random = support_seed();

    (void)state;
    begin_world(&world, NODES);
    a = model_of(world.client[0], "a", 1);
    b = model_of(world.client[0], "b", 2);
    fill_checked(&a, 3, 0xa5, 2 * MODEL_CHUNK + 11);
    fill_checked(&a, MODEL_BYTES - 1, 1, 1);
    fill_checked(&a, MODEL_BYTES, 1, 0);
    fill_at_once_checked(world.client[0], &a);
    copy_checked(&b, 5, &a, MODEL_CHUNK - 3, MIB + 7);
    copy_checked(&b, 0, &a, 0, MODEL_BYTES);
    for (uint64_t by = 1; by < MIB; by = by * 7 + 1) { /* both ways */
        fill(b.bytes, MODEL_BYTES, by);
        write_all(b.region, 0, b.bytes, MODEL_BYTES);
        copy_checked(&b, by, &b, 0, MODEL_BYTES - by);
        copy_checked(&b, 0, &b, by, MODEL_BYTES - by);
    }
    for (uint32_t n = 0; n < 24; n++) {
        uint64_t at = (support_random(&random) >> 20) % MODEL_BYTES;
        uint64_t size = (support_random(&random) >> 20) % (MODEL_BYTES - at);

        copy_checked(n % 3 == 0 ? &a : &b, (support_random(&random) >> 20) % (MODEL_BYTES - size),
                     &b, at, size);
    }
    assert_int_equal(AGREED(nigh_region_copy(a.region, 1, b.region, 0, MODEL_BYTES, WAIT_US)),
                     NIGH_INVALID);
    assert_int_equal(AGREED(nigh_region_memset(a.region, 1, 0, MODEL_BYTES, WAIT_US)),
                     NIGH_INVALID);
    assert_int_equal(nigh_region_memset(a.region, 2, 0, UINT64_MAX - 1, WAIT_US), NIGH_INVALID);
    assert_reads(a.region, 0, a.bytes, MODEL_BYTES);
    end_world(&world);
    free(a.bytes);
    free(b.bytes);
}

/* Chunks go round, as another fills and copies. */
struct mover {
    nigh_region *region;
    _Atomic bool ends;
    nigh_status status;
    uint64_t moves;
};

static void *move_round(void *context)
{
    struct mover *mover = context;

    while (mover->status == NIGH_OK && !atomic_load(&mover->ends)) {
        mover->status = AGREED(nigh_region_move(mover->region, (uint32_t)(mover->moves % 13),
                                                (uint32_t)(mover->moves % NODES), WAIT_US));
        if (mover->status == NIGH_EXISTS || is_in_doubt(mover->status))
            mover->status = NIGH_OK;
        mover->moves++;
    }
    return NULL;
}

static void chunks_move_as_they_are_filled_and_copied(void **state)
{
    struct world world;
    struct modelled a;
    static struct mover mover; /* its thread outlives a test that failed */
    pthread_t thread;

    (void)state;
    memset(&mover, 0, sizeof mover);
    begin_world(&world, NODES);
    a = model_of(world.client[0], "a", 3);
    mover.region = open_region(world.client[1], "a", NIGH_REGION_ALL);
    assert_int_equal(pthread_create(&thread, NULL, move_round, &mover), 0);
    for (uint32_t n = 0; n < 12; n++) {
        fill_checked(&a, n * 1000 + 1, (uint8_t)n, MIB);
        copy_checked(&a, n * 100, &a, 77777, 2 * MIB);
        copy_checked(&a, 99999, &a, n * 100, 2 * MIB);
    }
    atomic_store(&mover.ends, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    print_message("# %llu moves\n", (unsigned long long)mover.moves);
    assert_int_equal(mover.status, NIGH_OK);
    end_world(&world);
    free(a.bytes);
}

/* ---- copied between other nodes ------------------------------------------- */

/* Of what a copy, asked for at node 0, moved. */
struct passed {
    uint64_t posted[NODES]; /* bytes of READs and WRITEs of a node */
    uint64_t pushed[NODES]; /* that it brought elsewhere for others */
};

static struct passed count_passed(const struct world *world)
{
    struct passed passed;

    for (uint32_t n = 0; n < NODES; n++) {
        nigh_node_stats stats = stats_of(world, n);

        passed.posted[n] = stats.region_post_bytes;
        passed.pushed[n] = stats.region_bytes_pushed;
    }
    return passed;
}

static struct modelled model_on(nigh_client *client, const char *name, uint32_t rank, uint64_t seed)
{
    struct modelled of = {.region = create(client, &(nigh_region_spec){.name = name,
                                                                       .size = MODEL_BYTES,
                                                                       .chunk_size = MODEL_CHUNK,
                                                                       .where = NIGH_REGION_ON,
                                                                       .rank = rank}),
                          .bytes = malloc(MODEL_BYTES)};

    assert_non_null(of.bytes);
    fill(of.bytes, MODEL_BYTES, seed);
    write_all(of.region, 0, of.bytes, MODEL_BYTES);
    return of;
}

/* Where a link is not up for a moment bytes come here; then it is done again. */
static bool passes_by(const struct world *world, const struct modelled *to, uint64_t to_offset,
                      const struct modelled *from, uint64_t from_offset, uint64_t size)
{
    struct passed before = count_passed(world), after;

    if (AGREED(nigh_region_copy(to->region, to_offset, from->region, from_offset, size, WAIT_US)) !=
        NIGH_OK)
        return false;
    after = count_passed(world);
    memcpy(to->bytes + to_offset, from->bytes + from_offset, size);
    assert_reads(to->region, 0, to->bytes, MODEL_BYTES);
    return after.pushed[1] - before.pushed[1] == size && after.pushed[0] == before.pushed[0] &&
           after.pushed[2] == before.pushed[2] && after.posted[0] - before.posted[0] <= 2 &&
           after.posted[1] == before.posted[1] && after.posted[2] == before.posted[2];
}

/* Whatever their places in their chunks are. Of several pieces the last byte of both sides is
 * looked at from here, and that is all that comes. */
static void copies_between_others_do_not_come_here(void **state)
{
    struct world world;
    struct modelled a, b, c;

    (void)state;
    begin_world(&world, NODES);
    a = model_on(world.client[0], "a", 1, 11);
    b = model_on(world.client[0], "b", 2, 12);
    c = model_on(world.client[0], "c", 1, 13);
    assert_true(SUPPORT_WAIT(passes_by(&world, &b, 0, &a, 0, MODEL_BYTES), 60000));
    assert_true(SUPPORT_WAIT(passes_by(&world, &b, 13, &a, 3 * MODEL_CHUNK - 5, 2 * MIB), 60000));
    assert_true(SUPPORT_WAIT(passes_by(&world, &b, 8, &a, 16, 8), 60000));
    assert_true(SUPPORT_WAIT(passes_by(&world, &b, 1, &a, 2, 30000), 60000));
    assert_true(SUPPORT_WAIT(passes_by(&world, &c, 7, &a, 100, 2 * MIB), 60000)); /* one node */
    assert_true(SUPPORT_WAIT(passes_by(&world, &a, 2 * MIB, &a, 9, MIB), 60000)); /* one region */
    end_world(&world);
    free(a.bytes);
    free(b.bytes);
    free(c.bytes);
}

/* What is refused has written nothing, though the node of the source would bring it. */
static void copies_between_others_stay_within(void **state)
{
    struct world world;
    struct modelled a, b;
    nigh_region *reads, *writes;

    (void)state;
    begin_world(&world, NODES);
    a = model_on(world.client[0], "a", 1, 14);
    b = model_on(world.client[0], "b", 2, 15);
    reads = open_region(world.client[0], "a", NIGH_REGION_READ);
    writes = open_region(world.client[0], "a", NIGH_REGION_WRITE);
    for (uint64_t size = 4096; size <= MIB; size *= 16) {
        assert_int_equal(
            AGREED(nigh_region_copy(b.region, 0, a.region, MODEL_BYTES - size + 1, size, WAIT_US)),
            NIGH_INVALID);
        assert_int_equal(
            AGREED(nigh_region_copy(b.region, MODEL_BYTES - size + 1, a.region, 0, size, WAIT_US)),
            NIGH_INVALID);
        assert_int_equal(AGREED(nigh_region_copy(b.region, 0, writes, 0, size, WAIT_US)),
                         NIGH_DENIED);
        assert_int_equal(AGREED(nigh_region_copy(reads, 0, b.region, 0, size, WAIT_US)),
                         NIGH_DENIED);
    }
    assert_reads(a.region, 0, a.bytes, MODEL_BYTES);
    assert_reads(b.region, 0, b.bytes, MODEL_BYTES);
    end_world(&world);
    free(a.bytes);
    free(b.bytes);
}

static void chunks_of_both_sides_move_as_they_are_copied(void **state)
{
    struct world world;
    struct modelled a, b;
    static struct mover movers[2]; /* their threads outlive a test that failed */
    pthread_t threads[2];
    uint64_t pushed;

    (void)state;
    memset(movers, 0, sizeof movers);
    begin_world(&world, NODES);
    a = model_of(world.client[0], "a", 16);
    b = model_of(world.client[0], "b", 17);
    movers[0].region = open_region(world.client[1], "a", NIGH_REGION_ALL);
    movers[1].region = open_region(world.client[2], "b", NIGH_REGION_ALL);
    movers[1].moves = 1;
    for (uint32_t n = 0; n < 2; n++)
        assert_int_equal(pthread_create(&threads[n], NULL, move_round, &movers[n]), 0);
    for (uint32_t n = 0; n < 16; n++)
        copy_checked(n % 2 == 0 ? &b : &a, n * 100 + 1, n % 2 == 0 ? &a : &b, 77777, 2 * MIB);
    for (uint32_t n = 0; n < 2; n++) {
        atomic_store(&movers[n].ends, true);
        assert_int_equal(pthread_join(threads[n], NULL), 0);
        assert_int_equal(movers[n].status, NIGH_OK);
    }
    pushed = stats_of(&world, 1).region_bytes_pushed + stats_of(&world, 2).region_bytes_pushed;
    print_message("# %llu moves, %llu bytes pushed\n",
                  (unsigned long long)(movers[0].moves + movers[1].moves),
                  (unsigned long long)pushed);
    assert_true(pushed > MIB);
    end_world(&world);
    free(a.bytes);
    free(b.bytes);
}

#define MANY_COPIES 8u

/* The node that has the source, which is asked, and the one that it brings it to. */
static void copies_between_others_end_with_either(void **state)
{
    (void)state;
    for (uint32_t dies = 1; dies < NODES; dies++) {
        struct world world;
        struct modelled a, b;
        nigh_op ops[MANY_COPIES];

        begin_world(&world, NODES);
        a = model_on(world.client[0], "a", 1, 18);
        b = model_on(world.client[0], "b", 2, 19);
        for (uint32_t n = 0; n < MANY_COPIES; n++)
            assert_int_equal(
                nigh_region_copy_start(b.region, 0, a.region, 0, MODEL_BYTES, WAIT_US, &ops[n]),
                NIGH_OK);
        stop_node(&world, dies);
        for (uint32_t n = 0; n < MANY_COPIES; n++) {
            nigh_status status = nigh_wait(world.client[0], &ops[n], 2 * WAIT_US);

            assert_true(status == NIGH_OK || status == NIGH_PEER_LOST || status == NIGH_TIMEOUT ||
                        status == NIGH_NO_QUORUM);
        }
        end_world(&world);
        free(a.bytes);
        free(b.bytes);
    }
}

/* Each ends once, and soon, whatever becomes of what it copies from. */
static void a_source_that_is_freed_ends_its_copies(void **state)
{
    struct world world;
    struct modelled a, b;
    nigh_op ops[8];
    nigh_status status;

    (void)state;
    begin_world(&world, NODES);
    b = model_of(world.client[0], "b", 4);
    for (uint32_t round = 0; round < 5; round++) {
        a = model_of(world.client[0], "a", 5);
        for (uint32_t n = 0; n < 8; n++) {
            assert_int_equal(
                nigh_region_copy_start(b.region, 0, a.region, 0, MODEL_BYTES, WAIT_US, &ops[n]),
                NIGH_OK);
        }
        assert_int_equal(AGREED(nigh_region_free(a.region, WAIT_US)), NIGH_OK);
        for (uint32_t n = 0; n < 8; n++) {
            status = nigh_wait(world.client[0], &ops[n], WAIT_US);
            /* What is refused takes along what is written to the same node meanwhile. */
            assert_true(status == NIGH_OK || status == NIGH_NOT_FOUND || status == NIGH_PEER_LOST);
        }
        nigh_region_close(a.region);
        free(a.bytes);
    }
    fill_checked(&b, 0, 9, MODEL_BYTES);
    end_world(&world);
    free(b.bytes);
}

static nigh_status write_parts(nigh_client *client, nigh_region *region,
                               const nigh_region_part *parts)
{
    nigh_op op;

    assert_int_equal(nigh_region_writev_start(region, parts, NIGH_REGION_PARTS, WAIT_US, &op),
                     NIGH_OK);
    return nigh_wait(client, &op, WAIT_US);
}

static void parts_are_read_and_written_at_once(void **state)
{
    struct world world;
    struct modelled a;
    nigh_region_part parts[NIGH_REGION_PARTS + 1] = {0};
    uint8_t *bytes = malloc(NIGH_REGION_PARTS * 20000);
    nigh_op op;

    (void)state;
    assert_non_null(bytes);
    begin_world(&world, NODES);
    a = model_of(world.client[0], "a", 6);
    fill(bytes, NIGH_REGION_PARTS * 20000, 7);
    for (uint32_t n = 0; n < NIGH_REGION_PARTS; n++) {
        parts[n] = (nigh_region_part){.offset = (NIGH_REGION_PARTS - 1 - n) * 40001,
                                      .bytes = bytes + n * 20000,
                                      .size = n % 5 == 0   ? 0
                                              : n % 3 == 0 ? 20000
                                                           : 8 + n};
        memcpy(a.bytes + parts[n].offset, parts[n].bytes, parts[n].size);
    }
    assert_int_equal(AGREED(nigh_region_writev(a.region, parts, NIGH_REGION_PARTS, WAIT_US)),
                     NIGH_OK);
    assert_reads(a.region, 0, a.bytes, MODEL_BYTES);
    memset(bytes, 0, NIGH_REGION_PARTS * 20000);
    assert_int_equal(nigh_region_readv_start(a.region, parts, NIGH_REGION_PARTS, WAIT_US, &op),
                     NIGH_OK);
    assert_int_equal(nigh_wait(world.client[0], &op, WAIT_US), NIGH_OK);
    for (uint32_t n = 0; n < NIGH_REGION_PARTS; n++) {
        assert_memory_equal(parts[n].bytes, a.bytes + parts[n].offset, parts[n].size);
        memset(parts[n].bytes, (int)n, parts[n].size);
        memset(a.bytes + parts[n].offset, (int)n, parts[n].size);
    }
    assert_int_equal(AGREED(write_parts(world.client[0], a.region, parts)), NIGH_OK);
    assert_reads(a.region, 0, a.bytes, MODEL_BYTES);
    assert_int_equal(nigh_region_readv(a.region, parts, 0, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_region_readv(a.region, parts, NIGH_REGION_PARTS + 1, WAIT_US),
                     NIGH_INVALID);
    parts[4].offset = MODEL_BYTES;
    assert_int_equal(AGREED(nigh_region_readv(a.region, parts, 8, WAIT_US)), NIGH_INVALID);
    parts[4].offset = UINT64_MAX;
    assert_int_equal(nigh_region_writev(a.region, parts, 8, WAIT_US), NIGH_INVALID);
    end_world(&world);
    free(a.bytes);
    free(bytes);
}

/* ---- words ---------------------------------------------------------------- */

#define ADDS 500

struct adder {
    nigh_client *client;
    nigh_status status;
    uint64_t sum; /* of what was there before each */
};

static void *add(void *context)
{
    struct adder *adder = context;
    nigh_region *region = NULL;

    adder->status = AGREED(nigh_region_open(
        adder->client, "words", NIGH_REGION_READ | NIGH_REGION_WRITE, WAIT_US, &region));
    for (uint32_t n = 0; n < ADDS && adder->status == NIGH_OK; n++) {
        uint64_t old;

        adder->status = nigh_region_fetch_add(region, 8, 1, WAIT_US, &old); /* once */
        adder->sum += old;
    }
    nigh_region_close(region);
    return NULL;
}

static void words_are_added_to_from_everywhere(void **state)
{
    const uint64_t all = (uint64_t)NODES * ADDS;
    struct world world;
    struct adder adders[NODES] = {0};
    pthread_t threads[NODES];
    nigh_region *region;
    uint64_t old, sum = 0;

    (void)state;
    begin_world(&world, NODES);
    region = create(
        world.client[0],
        &(nigh_region_spec){.name = "words", .size = 4 * KIB, .where = NIGH_REGION_ON, .rank = 1});
    for (uint32_t n = 0; n < NODES; n++) {
        adders[n].client = world.client[n];
        assert_int_equal(pthread_create(&threads[n], NULL, add, &adders[n]), 0);
    }
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(pthread_join(threads[n], NULL), 0);
        assert_int_equal(adders[n].status, NIGH_OK);
        sum += adders[n].sum;
    }
    assert_int_equal(sum, all * (all - 1) / 2); /* each was there once */
    assert_int_equal(AGREED(nigh_region_compare_swap(region, 8, all, 7, WAIT_US, &old)), NIGH_OK);
    assert_int_equal(old, all);
    assert_int_equal(AGREED(nigh_region_compare_swap(region, 8, all, 9, WAIT_US, &old)), NIGH_OK);
    assert_int_equal(old, 7);
    assert_int_equal(AGREED(nigh_region_fetch_add(region, 4, 1, WAIT_US, &old)), NIGH_INVALID);
    end_world(&world);
}

/* ---- by one thread -------------------------------------------------------- */

#define FLOWS      4u
#define FLOW_BYTES (MIB + 4321) /* over two nodes or three */

/* Much that is under way, between a region and memory of its own. */
struct flow {
    nigh_region *region;
    uint64_t offset;
    nigh_bulk *bulk;
    uint8_t *memory;
    nigh_op op;
};

static void make_flow(struct flow *flow, nigh_client *client, nigh_region *region, uint32_t n)
{
    void *memory;

    *flow = (struct flow){.region = region, .offset = 5 + n * FLOW_BYTES};
    assert_int_equal(nigh_bulk_alloc(client, FLOW_BYTES + 8, NIGH_BULK_READ | NIGH_BULK_WRITE,
                                     &memory, &flow->bulk),
                     NIGH_OK);
    flow->memory = memory;
}

static void begin_flow(struct flow *flow, bool reads)
{
    nigh_bulk_part part = {.bulk = flow->bulk, .offset = 8, .size = FLOW_BYTES};

    assert_int_equal(
        reads ? nigh_region_read_into_start(flow->region, flow->offset, &part, WAIT_US, &flow->op)
              : nigh_region_write_from_start(flow->region, flow->offset, &part, WAIT_US, &flow->op),
        NIGH_OK);
    memset(&part, 0xee, sizeof part);
}

static void end_flow(struct flow *flow, nigh_client *client, bool reads)
{
    uint64_t until_us = support_now_us() + WAIT_US;
    nigh_status status;

    while ((status = nigh_wait(client, &flow->op, WAIT_US)) == NIGH_NO_QUORUM &&
           support_now_us() < until_us) {
        support_breathe();
        begin_flow(flow, reads);
    }
    assert_int_equal(status, NIGH_OK);
}

static void one_thread_moves_much_at_once(void **state)
{
    struct flow out[FLOWS], in[FLOWS];
    struct world world;
    nigh_region *region;

    (void)state;
    begin_world(&world, NODES);
    region = create(world.client[0], &(nigh_region_spec){.name = "much",
                                                         .size = 8 * MIB,
                                                         .chunk_size = 512 * KIB,
                                                         .where = NIGH_REGION_SPREAD});
    for (uint32_t n = 0; n < FLOWS; n++) {
        make_flow(&out[n], world.client[0], region, n);
        make_flow(&in[n], world.client[0], region, n);
        fill(out[n].memory + 8, FLOW_BYTES, n + 1);
    }
    for (uint32_t n = 0; n < FLOWS; n++) {
        begin_flow(&out[n], false);
    }
    for (uint32_t n = FLOWS; n-- > 0;) {
        end_flow(&out[n], world.client[0], false);
    }
    for (uint32_t n = 0; n < FLOWS; n++) {
        begin_flow(&in[n], true);
    }
    for (uint32_t n = 0; n < FLOWS; n++) {
        end_flow(&in[n], world.client[0], true);
        assert_memory_equal(in[n].memory + 8, out[n].memory + 8, FLOW_BYTES);
        assert_int_equal(nigh_bulk_close(in[n].bulk, WAIT_US), NIGH_OK);
        assert_int_equal(nigh_bulk_close(out[n].bulk, WAIT_US), NIGH_OK);
    }
    end_world(&world);
}

#define WORDS 48u

/* What was done to the word at 8. */
struct word {
    bool swaps;
    uint64_t value;
};

/* Where there was no lease for a moment nothing was done. */
static nigh_status end_word(nigh_client *client, nigh_region *region, const struct word *word,
                            uint64_t *old, nigh_op *op)
{
    nigh_status status = nigh_wait(client, op, WAIT_US);

    if (status != NIGH_NO_QUORUM) {
        return status;
    }
    return word->swaps
               ? AGREED(nigh_region_compare_swap(region, 8, WORDS, word->value, WAIT_US, old))
               : AGREED(nigh_region_fetch_add(region, 8, word->value, WAIT_US, old));
}

static void one_thread_changes_a_word_at_once(void **state)
{
    const struct word add = {.value = 1};
    nigh_op ops[WORDS];
    uint64_t olds[WORDS];
    struct world world;
    nigh_region *region;
    uint64_t sum = 0, old, winners = 0, value = 0;

    (void)state;
    begin_world(&world, NODES);
    region = create(
        world.client[0],
        &(nigh_region_spec){.name = "words", .size = 4 * KIB, .where = NIGH_REGION_ON, .rank = 1});
    assert_int_equal(AGREED(nigh_region_fetch_add(region, 8, 0, WAIT_US, NULL)), NIGH_OK);
    for (uint32_t n = 0; n < WORDS; n++) {
        assert_int_equal(nigh_region_fetch_add_start(region, 8, 1, WAIT_US, &olds[n], &ops[n]),
                         NIGH_OK);
    }
    for (uint32_t n = 0; n < WORDS; n++) {
        assert_int_equal(end_word(world.client[0], region, &add, &olds[n], &ops[n]), NIGH_OK);
        sum += olds[n];
    }
    assert_int_equal(sum, WORDS * (WORDS - 1) / 2); /* each was there once */
    for (uint64_t n = 0; n < WORDS; n++) {
        assert_int_equal(
            nigh_region_compare_swap_start(region, 8, WORDS, 1000 + n, WAIT_US, &olds[n], &ops[n]),
            NIGH_OK);
    }
    for (uint64_t n = 0; n < WORDS; n++) {
        struct word swap = {.swaps = true, .value = 1000 + n};

        assert_int_equal(end_word(world.client[0], region, &swap, &olds[n], &ops[n]), NIGH_OK);
        winners += olds[n] == WORDS;
        value = olds[n] == WORDS ? 1000 + n : value;
    }
    assert_int_equal(winners, 1);
    for (uint64_t n = 0; n < WORDS; n++) {
        assert_true(olds[n] == WORDS || olds[n] == value);
    }
    old = 5;
    assert_int_equal(nigh_region_fetch_add_start(region, 8, 1, 0, &old, &ops[0]), NIGH_OK);
    assert_int_equal(nigh_op_status(&ops[0]), NIGH_TIMEOUT); /* it was not asked for */
    assert_int_equal(old, 5);
    assert_int_equal(nigh_region_fetch_add_start(region, 4, 1, WAIT_US, &old, &ops[0]),
                     NIGH_INVALID);
    assert_int_equal(nigh_region_fetch_add_start(region, 8, 1, WAIT_US, &old, NULL), NIGH_INVALID);
    assert_int_equal(AGREED(nigh_region_fetch_add(region, 8, 0, WAIT_US, &old)), NIGH_OK);
    assert_int_equal(old, value);
    end_world(&world);
}

/* Of one that was given up the memory comes back when the node is at it no more; and what is under
 * way when the client is closed has ended then. */
static void what_one_thread_began_it_may_leave(void **state)
{
    struct flow flows[FLOWS];
    struct world world;
    nigh_client *client;
    nigh_region *region, *own;
    nigh_op ops[WORDS];
    uint64_t olds[WORDS], word = 1;
    nigh_status status;

    (void)state;
    begin_world(&world, 2);
    region = create(world.client[1], &(nigh_region_spec){.name = "left",
                                                         .size = 8 * MIB,
                                                         .chunk_size = 512 * KIB,
                                                         .where = NIGH_REGION_SPREAD});
    client = attach(world.node[0]);
    own = open_region(client, "left", NIGH_REGION_ALL);
    for (uint32_t n = 0; n < FLOWS; n++) {
        make_flow(&flows[n], client, own, n);
        begin_flow(&flows[n], n % 2 == 0);
    }
    status = nigh_cancel(client, &flows[0].op);
    assert_true(status == NIGH_OK || status == NIGH_CANCELED || status == NIGH_NO_QUORUM);
    assert_int_equal(nigh_bulk_wait(flows[0].bulk, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_bulk_close(flows[0].bulk, WAIT_US), NIGH_OK);
    for (uint32_t n = 0; n < WORDS; n++) {
        olds[n] = UINT64_MAX;
        assert_int_equal(nigh_region_fetch_add_start(own, 4 * MIB, 1, WAIT_US, &olds[n], &ops[n]),
                         NIGH_OK);
    }
    nigh_client_close(client);
    for (uint32_t n = 0; n < WORDS; n++) {
        status = nigh_op_status(&ops[n]);
        assert_int_not_equal(status, NIGH_PENDING);
        assert_true((status == NIGH_OK) == (olds[n] != UINT64_MAX));
    }
    for (uint32_t n = 1; n < FLOWS; n++) {
        assert_int_not_equal(nigh_op_status(&flows[n].op), NIGH_PENDING);
    }
    write_all(region, 0, &word, sizeof word);
    assert_reads(region, 0, &word, sizeof word);
    end_world(&world);
}

/* Keeps the lane that calls it. */
struct keeper {
    _Atomic bool has, lets_go;
};

static void keep_lane(void *context, const nigh_request *request)
{
    struct keeper *keeper = context;

    (void)request;
    atomic_store(&keeper->has, true);
    while (!atomic_load(&keeper->lets_go)) {
        support_breathe();
    }
}

/* A lane that comes to what was given up only later takes nothing of the memory then. */
static void memory_that_came_back_is_not_written(void **state)
{
    enum {
        SIZE = 64 * KIB
    };
    static uint8_t zeros[SIZE];
    struct keeper keeper = {0};
    nigh_service_options options = {
        .struct_size = sizeof options, .handler = keep_lane, .context = &keeper};
    nigh_call_spec spec = {.struct_size = sizeof spec, .service = "keeper", .rank = NIGH_ANY_RANK};
    nigh_bulk_part part = {.size = SIZE};
    struct world world;
    nigh_client *others;
    nigh_service *service;
    nigh_region *region;
    nigh_status status;
    nigh_op call, op;
    void *memory;

    (void)state;
    begin_world(&world, 1);
    others = attach(world.node[0]);
    region = create(world.client[0], &(nigh_region_spec){.name = "back", .size = SIZE});
    assert_int_equal(nigh_bulk_alloc(world.client[0], SIZE, NIGH_BULK_WRITE, &memory, &part.bulk),
                     NIGH_OK);
    assert_reads(region, 0, zeros, SIZE);
    assert_int_equal(nigh_service_register(others, "keeper", &options, &service), NIGH_OK);
    assert_int_equal(nigh_call_start(others, &spec, WAIT_US, &call), NIGH_OK);
    assert_true(SUPPORT_WAIT(atomic_load(&keeper.has), 20000));
    assert_int_equal(nigh_region_read_into_start(region, 0, &part, WAIT_US, &op), NIGH_OK);
    assert_int_equal(nigh_cancel(world.client[0], &op), NIGH_CANCELED);
    status = nigh_bulk_wait(part.bulk, 0);
    assert_true(status == NIGH_OK || status == NIGH_TIMEOUT);
    if (status == NIGH_TIMEOUT) {
        atomic_store(&keeper.lets_go, true);
        assert_int_equal(nigh_bulk_wait(part.bulk, WAIT_US), NIGH_OK);
    }
    memset(memory, 0xab, SIZE);
    atomic_store(&keeper.lets_go, true);
    assert_reads(region, 0, zeros, SIZE); /* behind all that the lane was given */
    for (size_t n = 0; n < SIZE; n++) {
        assert_int_equal(((uint8_t *)memory)[n], 0xab);
    }
    assert_int_equal(nigh_cancel(others, &call), NIGH_CANCELED);
    nigh_client_close(others);
    end_world(&world);
}

/* ---- changes -------------------------------------------------------------- */

static void assert_is_at(nigh_region *region, uint32_t chunk, uint32_t rank)
{
    nigh_region_info info = {.struct_size = sizeof info};

    assert_int_equal(AGREED(nigh_region_stat(region, WAIT_US, &info)), NIGH_OK);
    assert_int_equal(info.ranks[chunk], rank);
}

static void a_chunk_moves_with_what_is_in_it(void **state)
{
    struct world world;
    nigh_region *region, *other;
    uint8_t *bytes = malloc(3 * MIB);

    (void)state;
    assert_non_null(bytes);
    begin_world(&world, NODES);
    region = create(world.client[0],
                    &(nigh_region_spec){.name = "moving", .size = 5 * MIB, .chunk_size = 4 * MIB});
    other = open_region(world.client[2], "moving", NIGH_REGION_READ | NIGH_REGION_WRITE);
    fill(bytes, 3 * MIB, 3);
    write_all(other, MIB, bytes, 3 * MIB);
    assert_is_at(region, 0, 0);
    for (uint32_t n = 1; n <= 4; n++) {
        assert_int_equal(AGREED(nigh_region_move(region, 0, n % NODES, WAIT_US)), NIGH_OK);
        assert_is_at(region, 0, n % NODES);
        assert_reads(region, MIB, bytes, 3 * MIB);
        assert_reads(other, MIB, bytes, 3 * MIB);
        bytes[n] ^= 0xff;
        write_all(other, MIB + n, bytes + n, 1);
    }
    assert_reads(region, MIB, bytes, 3 * MIB);
    assert_int_equal(AGREED(nigh_region_move(other, 0, 1, WAIT_US)), NIGH_DENIED);
    assert_int_equal(AGREED(nigh_region_move(region, 9, 1, WAIT_US)), NIGH_INVALID);
    end_world(&world);
    free(bytes);
}

static void a_region_grows_and_shrinks(void **state)
{
    struct world world;
    nigh_region *region, *other;
    nigh_region_info info = {.struct_size = sizeof info};
    uint8_t bytes[3000], zeros[3000] = {0};

    (void)state;
    begin_world(&world, 2);
    region = create(world.client[0],
                    &(nigh_region_spec){.name = "size", .size = 6000, .chunk_size = 4096});
    other = open_region(world.client[1], "size", NIGH_REGION_READ | NIGH_REGION_WRITE);
    fill(bytes, sizeof bytes, 4);
    write_all(other, 3000, bytes, 3000);
    assert_int_equal(AGREED(nigh_region_resize(region, 20000, NIGH_REGION_ON, 1, WAIT_US)),
                     NIGH_OK);
    assert_int_equal(AGREED(nigh_region_stat(region, WAIT_US, &info)), NIGH_OK);
    assert_int_equal(info.size, 20000);
    assert_int_equal(info.chunk_count, 5);
    assert_int_equal(info.ranks[4], 1);
    write_all(other, 17000, bytes, 3000);
    assert_reads(region, 17000, bytes, 3000);
    assert_int_equal(AGREED(nigh_region_resize(region, 4000, NIGH_REGION_LOCAL, 0, WAIT_US)),
                     NIGH_OK);
    assert_int_equal(AGREED(nigh_region_read(other, 3000, bytes, 3000, WAIT_US)), NIGH_INVALID);
    assert_int_equal(AGREED(nigh_region_resize(region, 8000, NIGH_REGION_LOCAL, 0, WAIT_US)),
                     NIGH_OK);
    assert_reads(other, 4000, zeros, 3000);
    end_world(&world);
}

static void rights_are_given_and_taken(void **state)
{
    struct world world;
    nigh_region *region, *other;
    nigh_region_info info = {.struct_size = sizeof info};
    uint32_t uid = geteuid();

    (void)state;
    begin_world(&world, 2);
    region = create(
        world.client[0],
        &(nigh_region_spec){.name = "rights", .size = 4096, .other_access = NIGH_REGION_READ});
    assert_int_equal(
        AGREED(nigh_region_grant(region, NIGH_REGION_USER, 12345, NIGH_REGION_ALL, 0, WAIT_US)),
        NIGH_OK);
    assert_int_equal(
        AGREED(nigh_region_grant(region, NIGH_REGION_USER, 12345, 0, NIGH_REGION_MASTER, WAIT_US)),
        NIGH_OK);
    assert_int_equal(
        AGREED(nigh_region_grant(region, NIGH_REGION_OTHERS, 0, 0, NIGH_REGION_READ, WAIT_US)),
        NIGH_OK);
    assert_int_equal(
        AGREED(nigh_region_grant(region, NIGH_REGION_USER, uid, 0, NIGH_REGION_READ, WAIT_US)),
        NIGH_INVALID);
    other = open_region(world.client[1], "rights", NIGH_REGION_READ);
    assert_int_equal(AGREED(nigh_region_stat(other, WAIT_US, &info)), NIGH_OK);
    assert_int_equal(info.uid, uid);
    assert_int_equal(info.other_access, 0);
    assert_int_equal(info.user_count, 1);
    assert_int_equal(info.users[0].uid, 12345);
    assert_int_equal(info.users[0].access, NIGH_REGION_READ | NIGH_REGION_WRITE);
    end_world(&world);
}

/* ---- told ----------------------------------------------------------------- */

/* Of another uid than the nodes', in a process of its own, which does nothing but listen. It says
 * on `to` that it has the region open, then each kind of event that it hears. */
static int listen_as_another(const char *socket, int to)
{
    nigh_client_options options = {.struct_size = sizeof options, .socket_path = socket};
    nigh_client *client = NULL;
    nigh_region *region = NULL;
    nigh_event event = {0};
    uint8_t said = 0;

    if (setgid(54321) != 0 || setuid(54321) != 0 ||
        nigh_client_open(&options, &client) != NIGH_OK ||
        nigh_subscribe(client, NIGH_SUBSCRIBE_REGIONS) != NIGH_OK ||
        AGREED(nigh_region_open(client, "told", NIGH_REGION_READ | NIGH_REGION_WRITE, WAIT_US,
                                &region)) != NIGH_OK)
        return 1;
    while (write(to, &said, 1) == 1 && said != NIGH_EVENT_REGION_FREED) {
        do {
            if (nigh_next_event(client, 3 * WAIT_US, &event) != NIGH_OK)
                return 1;
        } while (event.kind < NIGH_EVENT_REGION_FREED ||
                 event.data_size != nigh_region_number(region));
        said = (uint8_t)event.kind;
    }
    return 0;
}

static uint8_t heard(int from)
{
    uint8_t said = UINT8_MAX;

    return read(from, &said, 1) == 1 ? said : UINT8_MAX;
}

/* At another node than its master's and its home's, or whichever they are; it asks nothing. */
static void who_has_a_region_open_hears_of_its_end(void **state)
{
    struct world world;
    nigh_region *region;
    char socket[108];
    int pipes[2], ended;
    pid_t child;

    (void)state;
    if (geteuid() != 0) {
        print_message("# not root: no other uid\n");
        return;
    }
    assert_int_equal(pipe(pipes), 0);
    support_path(socket, sizeof socket, ".");
    assert_int_equal(chmod(socket, 0711), 0);
    support_path(socket, sizeof socket, "told.sock");
    memset(&world, 0, sizeof world);
    world.socket = socket;
    begin_world_of(&world, NODES);
    region = create(world.client[0], &(nigh_region_spec){.name = "told",
                                                         .size = 3 * MIB,
                                                         .chunk_size = MIB,
                                                         .where = NIGH_REGION_SPREAD});
    assert_int_equal(AGREED(nigh_region_grant(region, NIGH_REGION_USER, 54321,
                                              NIGH_REGION_READ | NIGH_REGION_WRITE, 0, WAIT_US)),
                     NIGH_OK);
    child = fork();
    if (child == 0)
        _exit(listen_as_another(socket, pipes[1]));
    assert_true(child > 0);
    close(pipes[1]);
    assert_int_equal(heard(pipes[0]), 0);
    assert_int_equal(
        AGREED(nigh_region_grant(region, NIGH_REGION_USER, 54321, 0, NIGH_REGION_WRITE, WAIT_US)),
        NIGH_OK);
    assert_int_equal(heard(pipes[0]), NIGH_EVENT_REGION_REVOKED);
    assert_int_equal(AGREED(nigh_region_resize(region, MIB, NIGH_REGION_LOCAL, 0, WAIT_US)),
                     NIGH_OK);
    assert_int_equal(heard(pipes[0]), NIGH_EVENT_REGION_RESIZED);
    assert_int_equal(AGREED(nigh_region_free(region, WAIT_US)), NIGH_OK);
    assert_int_equal(heard(pipes[0]), NIGH_EVENT_REGION_FREED);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    close(pipes[0]);
    end_world(&world);
}

static void what_cannot_be_is_refused(void **state)
{
    const struct {
        nigh_region_spec spec;
        nigh_status status;
    } cases[] = {
        {{.name = "there", .size = 1}, NIGH_EXISTS},
        {{.name = "", .size = 1}, NIGH_INVALID},
        {{.name = "none"}, NIGH_INVALID},
        {{.name = "odd", .size = 1, .chunk_size = 5}, NIGH_INVALID},
        {{.name = "many", .size = MIB, .chunk_size = 4096}, NIGH_LIMIT},
        {{.name = "rank", .size = 1, .where = NIGH_REGION_ON, .rank = 77}, NIGH_INVALID},
        {{.name = "rights", .size = 1, .group_access = 8}, NIGH_INVALID},
        {{.name = "large", .size = 100 * MIB}, NIGH_OUT_OF_MEMORY},
        {{.name = "where", .size = 1, .where = 4}, NIGH_INVALID},
        {{.name = "where", .size = 1, .where = 65536}, NIGH_INVALID},
        {{.name = "near", .size = 1, .where = NIGH_REGION_NEAR, .near = "nobody's"},
         NIGH_NOT_FOUND},
        {{.name = "near", .size = 1, .where = NIGH_REGION_NEAR}, NIGH_INVALID},
    };
    struct world world;
    nigh_region *region, *none = NULL;
    static uint8_t bytes[16 * 1024 * KIB]; /* what is written may be read until one is refused */

    (void)state;
    begin_world(&world, 1);
    region = create(world.client[0], &(nigh_region_spec){.name = "there", .size = 1});
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        nigh_region_spec spec = cases[n].spec;

        spec.struct_size = sizeof spec;
        assert_int_equal(AGREED(nigh_region_create(world.client[0], &spec, WAIT_US, &none)),
                         cases[n].status);
        assert_null(none);
    }
    /* Of so many steps as such a size has no more are taken than are under way as one is refused.
     */
    assert_int_equal(AGREED(nigh_region_read(region, 0, bytes, SIZE_MAX, WAIT_US)), NIGH_INVALID);
    assert_int_equal(AGREED(nigh_region_write(region, 0, bytes, SIZE_MAX / 2, WAIT_US)),
                     NIGH_INVALID);
    assert_int_equal(AGREED(nigh_region_resize(region, 2, 65536, 0, WAIT_US)), NIGH_INVALID);
    nigh_region_close(region);
    end_world(&world);
}

/* ---- moves under fire ----------------------------------------------------- */

#define FIRE_CLIENTS 4
#define FIRE_SLOTS   64u /* of each client */
#define FIRE_WORDS   16u /* of each slot */
#define FIRE_BYTES   (FIRE_WORDS * 8)
#define FIRE_CHUNK   (256 * KIB)

/* Every word says whose it is and of which write. */
static uint64_t word_of(uint32_t client, uint32_t slot, uint64_t write)
{
    return (uint64_t)(client + 1) << 56 | (uint64_t)slot << 40 | write;
}

static uint64_t place_of(uint32_t client, uint32_t slot)
{
    return ((uint64_t)slot * FIRE_CLIENTS + client) * (4 * FIRE_CHUNK / FIRE_SLOTS / FIRE_CLIENTS) +
           client * 8;
}

struct shooter {
    struct world *world;
    uint32_t number;
    _Atomic bool *ends;
    nigh_status status;
    uint64_t wrong, writes, reads, longest_us;
    uint64_t written[FIRE_SLOTS];
};

/* Its own slot has what it wrote last; another's words are each of one of its writes. */
static void check_slot(struct shooter *shooter, nigh_region *region, uint32_t client, uint32_t slot)
{
    uint64_t words[FIRE_WORDS];

    shooter->status =
        AGREED(nigh_region_read(region, place_of(client, slot), words, FIRE_BYTES, WAIT_US));
    shooter->reads++;
    for (uint32_t n = 0; n < FIRE_WORDS && shooter->status == NIGH_OK; n++) {
        bool is_own = client == shooter->number;
        uint64_t wanted =
            shooter->written[slot] == 0 ? 0 : word_of(client, slot, shooter->written[slot]);

        shooter->wrong += is_own
                              ? words[n] != wanted
                              : words[n] != 0 && words[n] >> 40 != word_of(client, slot, 0) >> 40;
    }
}

static void write_slot(struct shooter *shooter, nigh_region *region, uint32_t slot)
{
    uint64_t words[FIRE_WORDS], began_us = support_now_us();
    uint64_t write = shooter->written[slot] + 1;

    for (uint32_t n = 0; n < FIRE_WORDS; n++) {
        words[n] = word_of(shooter->number, slot, write);
    }
    shooter->status = write_surely(region, place_of(shooter->number, slot), words, FIRE_BYTES);
    shooter->written[slot] = write;
    shooter->writes++;
    if (support_now_us() - began_us > shooter->longest_us) {
        shooter->longest_us = support_now_us() - began_us;
    }
}

static void *shoot(void *context)
{
    struct shooter *shooter = context;
    nigh_region *region = NULL;
    uint64_t random = shooter->number + 1;

    shooter->status =
        AGREED(nigh_region_open(shooter->world->client[shooter->number % NODES], "fire",
                                NIGH_REGION_READ | NIGH_REGION_WRITE, WAIT_US, &region));
    while (shooter->status == NIGH_OK && !atomic_load(shooter->ends)) {
        uint32_t slot = (uint32_t)(support_random(&random) >> 20) % FIRE_SLOTS;
        uint32_t client = (uint32_t)(support_random(&random) >> 20) % FIRE_CLIENTS;

        write_slot(shooter, region, slot);
        if (shooter->status == NIGH_OK) {
            check_slot(shooter, region, shooter->number, slot);
        }
        if (shooter->status == NIGH_OK) {
            check_slot(shooter, region, client, slot);
        }
    }
    for (uint32_t slot = 0; slot < FIRE_SLOTS && shooter->status == NIGH_OK; slot++) {
        check_slot(shooter, region, shooter->number, slot);
    }
    nigh_region_close(region);
    return NULL;
}

static void chunks_move_under_fire(void **state)
{
    struct world world;
    struct shooter shooters[FIRE_CLIENTS] = {0};
    pthread_t threads[FIRE_CLIENTS];
    _Atomic bool ends = false;
    nigh_region *region;
    uint64_t random = support_seed(), moves = 0, end_us;

    (void)state;
    begin_world(&world, NODES);
    region = create(world.client[0], &(nigh_region_spec){.name = "fire",
                                                         .size = 4 * FIRE_CHUNK + 4096,
                                                         .chunk_size = FIRE_CHUNK,
                                                         .where = NIGH_REGION_SPREAD});
    for (uint32_t n = 0; n < FIRE_CLIENTS; n++) {
        shooters[n].world = &world;
        shooters[n].number = n;
        shooters[n].ends = &ends;
        assert_int_equal(pthread_create(&threads[n], NULL, shoot, &shooters[n]), 0);
    }
    end_us = support_now_us() + support_budget_ms(2500) * 1000;
    for (; support_now_us() < end_us || moves < 20; moves++) {
        uint32_t chunk = (uint32_t)(support_random(&random) >> 20) % 4;
        uint32_t rank = (uint32_t)(support_random(&random) >> 20) % NODES;
        nigh_status status = AGREED(nigh_region_move(region, chunk, rank, WAIT_US));

        assert_true(status == NIGH_OK || status == NIGH_EXISTS || status == NIGH_INVALID ||
                    is_in_doubt(status));
    }
    atomic_store(&ends, true);
    for (uint32_t n = 0; n < FIRE_CLIENTS; n++) {
        assert_int_equal(pthread_join(threads[n], NULL), 0);
        print_message(
            "# client %u: %s, %llu writes, %llu reads, %llu wrong words, longest %llu us\n", n,
            nigh_status_name(shooters[n].status), (unsigned long long)shooters[n].writes,
            (unsigned long long)shooters[n].reads, (unsigned long long)shooters[n].wrong,
            (unsigned long long)shooters[n].longest_us);
    }
    print_message("# %llu moves\n", (unsigned long long)moves);
    for (uint32_t n = 0; n < FIRE_CLIENTS; n++) {
        assert_int_equal(shooters[n].status, NIGH_OK);
        assert_int_equal(shooters[n].wrong, 0);
    }
    end_world(&world);
}

/* ---- many ----------------------------------------------------------------- */

#define MANY 6000u

#define MAPPINGS 4096u

/* What is resident of each of this process's mappings, in the order of their addresses. */
struct resident {
    uint32_t count;
    unsigned long long at[MAPPINGS], kib[MAPPINGS];
};

static void look_what_is_resident(struct resident *to)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    unsigned long long at = 0, end;
    char line[512];

    assert_non_null(file);
    to->count = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "Rss: %llu", &to->kib[to->count]) == 1) {
            to->at[to->count++] = at;
            assert_true(to->count < MAPPINGS);
        } else {
            (void)sscanf(line, "%llx-%llx ", &at, &end);
        }
    }
    (void)fclose(file);
}

/* What mappings have less than before. What others have more does not count: rings of messages are
 * touched one place after the other, and the frees are messages. */
static uint64_t gone_bytes(const struct resident *before)
{
    static struct resident now;
    uint64_t gone_kib = 0;

    look_what_is_resident(&now);
    for (uint32_t n = 0, m = 0; n < before->count; n++) {
        while (m < now.count && now.at[m] < before->at[n]) {
            m++;
        }
        if (m == now.count || now.at[m] != before->at[n]) {
            gone_kib += before->kib[n];
        } else if (now.kib[m] < before->kib[n]) {
            gone_kib += before->kib[n] - now.kib[m];
        }
    }
    return gone_kib * KIB;
}

static bool has_no_chunks(nigh_client *client)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    return nigh_stats(client, &stats) == NIGH_OK && stats.region_chunks == 0 &&
           stats.region_memory_bytes == 0;
}

/* Small regions of one node, used from the other: each has bytes of its own, and when they are
 * freed their pages are the system's. What a sanitizer keeps of freed memory would hide that. */
static void many_regions_come_and_go(void **state)
{
    static nigh_region *regions[MANY];
    static struct resident before;
    struct world world;

    (void)state;
    begin_world(&world, 2);
    for (uint32_t n = 0; n < MANY; n++) {
        char name[16];

        snprintf(name, sizeof name, "many-%u", n);
        regions[n] = create(world.client[1], &(nigh_region_spec){.name = name,
                                                                 .size = 4 * KIB,
                                                                 .chunk_size = 4 * KIB,
                                                                 .where = NIGH_REGION_ON,
                                                                 .rank = 0});
        write_all(regions[n], 4 * KIB - sizeof n, &n, sizeof n);
    }
    look_what_is_resident(&before);
    for (uint32_t n = 0; n < MANY; n++) {
        assert_reads(regions[n], 4 * KIB - sizeof n, &n, sizeof n);
    }
    for (uint32_t n = 0; n < MANY; n++) {
        assert_int_equal(AGREED(nigh_region_free(regions[n], WAIT_US)), NIGH_OK);
        nigh_region_close(regions[n]);
    }
    assert_true(SUPPORT_WAIT(has_no_chunks(world.client[0]), 20000));
    if (getenv("NIGH_SANITIZED") == NULL)
        assert_true(SUPPORT_WAIT(gone_bytes(&before) > MANY * 3 * KIB, 20000));
    end_world(&world);
}

/* ---- large ---------------------------------------------------------------- */

#define LARGE_CHUNK  (2 * MIB)
#define LARGE_CHUNKS UINT64_C(96) /* all that there is room for at each node: 64 MiB */

static bool have_no_chunks(const struct world *world)
{
    return has_no_chunks(world->client[0]) && has_no_chunks(world->client[1]) &&
           has_no_chunks(world->client[2]);
}

/* How it ends, when the members and their links are there. */
static nigh_status try_to_create(nigh_client *client, const nigh_region_spec *given)
{
    nigh_region_spec spec = *given;
    nigh_region *region = NULL;
    nigh_status status;

    spec.struct_size = sizeof spec;
    assert_true(
        SUPPORT_WAIT((status = nigh_region_create(client, &spec, WAIT_US, &region),
                      status != NIGH_NO_QUORUM && status != NIGH_BUSY && status != NIGH_PEER_LOST),
                     20000));
    nigh_region_close(region);
    return status;
}

/* The first and the last word of each chunk, and what lies over two of them. */
static void check_ends_of_chunks(nigh_region *writer, nigh_region *reader)
{
    uint64_t words[2];

    for (uint64_t n = 0; n < LARGE_CHUNKS; n++) {
        words[0] = 2 * n;
        words[1] = 2 * n + 1;
        write_all(writer, n * LARGE_CHUNK, &words[1], sizeof words[1]);
        if (n > 0)
            write_all(writer, n * LARGE_CHUNK - sizeof words[0], words, sizeof words);
    }
    write_all(writer, LARGE_CHUNKS * LARGE_CHUNK - sizeof words[0], words, sizeof words[0]);
    for (uint64_t n = 0; n < LARGE_CHUNKS; n++) {
        words[0] = 2 * n + 1;
        words[1] = n + 1 < LARGE_CHUNKS ? 2 * (n + 1) : 2 * n;
        assert_reads(reader, n * LARGE_CHUNK, &words[0], sizeof words[0]);
        assert_reads(reader, (n + 1) * LARGE_CHUNK - sizeof words[1], &words[1], sizeof words[1]);
    }
}

/* No node could have it alone. One that has no room for its share leaves nothing of it anywhere. */
static void a_region_is_larger_than_one_nodes_memory(void **state)
{
    const nigh_region_spec large = {.name = "large",
                                    .size = LARGE_CHUNKS * LARGE_CHUNK,
                                    .chunk_size = LARGE_CHUNK,
                                    .where = NIGH_REGION_SPREAD};
    nigh_region_spec more = large;
    struct world world;
    nigh_region *region, *other;

    (void)state;
    begin_world(&world, NODES);
    more.size = 3 * 64 * MIB + LARGE_CHUNK;
    assert_int_equal(try_to_create(world.client[0], &more), NIGH_OUT_OF_MEMORY);
    assert_true(SUPPORT_WAIT(have_no_chunks(&world), 20000));
    other = create(
        world.client[1],
        &(nigh_region_spec){.name = "there", .size = 30 * MIB, .where = NIGH_REGION_ON, .rank = 2});
    assert_int_equal(try_to_create(world.client[0], &large), NIGH_OUT_OF_MEMORY);
    assert_true(SUPPORT_WAIT(has_no_chunks(world.client[0]), 20000));
    assert_true(SUPPORT_WAIT(has_no_chunks(world.client[1]), 20000));
    assert_int_equal(AGREED(nigh_region_free(other, WAIT_US)), NIGH_OK);
    nigh_region_close(other);
    assert_true(SUPPORT_WAIT(have_no_chunks(&world), 20000));

    /* A node whose link is down for a moment gets none, and the others have no room for its share.
     */
    assert_true(SUPPORT_WAIT(try_to_create(world.client[0], &large) == NIGH_OK, 20000));
    region = open_region(world.client[0], "large", NIGH_REGION_ALL);
    other = open_region(world.client[1], "large", NIGH_REGION_ALL);
    check_ends_of_chunks(region, other);
    assert_int_equal(AGREED(nigh_region_free(other, WAIT_US)), NIGH_OK);
    assert_true(SUPPORT_WAIT(have_no_chunks(&world), 20000));
    nigh_region_close(region);
    nigh_region_close(other);
    end_world(&world);
}

/* ---- near another --------------------------------------------------------- */

static void assert_places(nigh_region *region, const char *places)
{
    nigh_region_info info = {.struct_size = sizeof info};

    assert_int_equal(AGREED(nigh_region_stat(region, WAIT_US, &info)), NIGH_OK);
    assert_int_equal(info.chunk_count, strlen(places));
    for (uint32_t n = 0; n < info.chunk_count; n++) {
        assert_int_equal(info.ranks[n], places[n] - '0');
    }
}

static void chunks_lie_near_another_regions(void **state)
{
    struct world world;
    nigh_region *of;

    (void)state;
    begin_world(&world, NODES);
    of = create(world.client[1], &(nigh_region_spec){.name = "of",
                                                     .size = 4 * 8 * KIB,
                                                     .chunk_size = 8 * KIB,
                                                     .where = NIGH_REGION_ON,
                                                     .rank = 2});
    assert_int_equal(AGREED(nigh_region_move(of, 1, 0, WAIT_US)), NIGH_OK);
    assert_int_equal(AGREED(nigh_region_move(of, 2, 1, WAIT_US)), NIGH_OK);
    assert_places(of, "2012");
    assert_places(create(world.client[0], &(nigh_region_spec){.name = "same",
                                                              .size = 6 * 8 * KIB,
                                                              .where = NIGH_REGION_NEAR,
                                                              .near = "of"}),
                  "201220");
    assert_places(create(world.client[1], &(nigh_region_spec){.name = "finer",
                                                              .size = 5 * 4 * KIB,
                                                              .chunk_size = 4 * KIB,
                                                              .where = NIGH_REGION_NEAR,
                                                              .near = "of"}),
                  "22001");
    assert_places(create(world.client[2], &(nigh_region_spec){.name = "coarser",
                                                              .size = 5 * 16 * KIB,
                                                              .chunk_size = 16 * KIB,
                                                              .where = NIGH_REGION_NEAR,
                                                              .near = "of"}),
                  "21212");
    assert_int_equal(AGREED(nigh_region_resize(of, 6 * 8 * KIB, NIGH_REGION_NEAR, 0, WAIT_US)),
                     NIGH_INVALID);
    end_world(&world);
}

/* ---- lists ---------------------------------------------------------------- */

#define LISTED 250u

/* How many a client is told of, each once and in order; of how many homes. UINT32_MAX: it is in
 * part. */
static uint32_t count_listed(nigh_client *client, size_t capacity, uint32_t *homes)
{
    static nigh_region_entry entries[128];
    char last[NIGH_REGION_NAME_BYTES + 1] = "";
    uint32_t count = 0, seen = 0, more = 0;
    size_t got = 0;

    do {
        nigh_status status;

        entries[0].info.struct_size = sizeof entries[0].info;
        status = AGREED(nigh_region_list(client, last, entries, capacity, WAIT_US, &got, &more));
        if (status == NIGH_PEER_LOST || status == NIGH_TIMEOUT) {
            return UINT32_MAX;
        }
        assert_int_equal(status, NIGH_OK);
        assert_true(got <= capacity);
        for (size_t n = 0; n < got; n++) {
            assert_true(strcmp(entries[n].name, last) > 0);
            assert_int_equal(entries[n].access, NIGH_REGION_ALL);
            assert_int_equal(entries[n].info.chunk_count, 2);
            assert_true(entries[n].home < NODES);
            seen |= 1u << entries[n].home;
            memcpy(last, entries[n].name, sizeof last);
        }
        count += (uint32_t)got;
    } while (more != 0);
    *homes = (uint32_t)__builtin_popcount(seen);
    return count;
}

/* Whoever's home they have, and whichever node is asked; and again, when the homes of one that
 * stopped are others. */
static void regions_of_all_homes_are_listed(void **state)
{
    struct world world;
    nigh_region_entry entry = {.info.struct_size = sizeof entry.info};
    uint32_t homes = 0, more;
    size_t got;

    (void)state;
    begin_world(&world, NODES);
    for (uint32_t n = 0; n < LISTED; n++) {
        char name[32];

        snprintf(name, sizeof name, "listed-%u", n * 7919 % LISTED);
        nigh_region_close(
            create(world.client[n % 2],
                   &(nigh_region_spec){.name = name, .size = 5000, .chunk_size = 4096}));
    }
    for (uint32_t n = 0; n < NODES; n++) {
        assert_true(
            SUPPORT_WAIT(count_listed(world.client[n], 1 + n * 63, &homes) == LISTED, 60000));
        assert_int_equal(homes, NODES);
    }
    assert_int_equal(
        AGREED(nigh_region_list(world.client[2], "listed-98", &entry, 1, WAIT_US, &got, &more)),
        NIGH_OK);
    assert_int_equal(got, 1);
    assert_int_equal(more, 0); /* there is no name behind that */
    assert_string_equal(entry.name, "listed-99");
    assert_int_equal(entry.info.size, 5000);
    assert_int_equal(entry.info.uid, geteuid());
    assert_int_equal(entry.info.ranks[1], 1);
    assert_int_equal(
        AGREED(nigh_region_list(world.client[2], NULL, &entry, 0, WAIT_US, &got, &more)),
        NIGH_INVALID);
    stop_node(&world, 2);
    assert_true(SUPPORT_WAIT(count_listed(world.client[0], 128, &homes) == LISTED, 60000));
    assert_int_equal(homes, NODES - 1);
    end_world(&world);
}

/* ---- deaths --------------------------------------------------------------- */

static nigh_status read_soon(nigh_region *region, uint64_t offset, nigh_status unlike)
{
    uint8_t byte;
    nigh_status status;

    (void)SUPPORT_WAIT((status = nigh_region_read(region, offset, &byte, 1, SECOND_US)) != unlike,
                       30000);
    return status;
}

static void a_node_that_dies_takes_its_chunks_alone(void **state)
{
    struct world world;
    nigh_region *region, *more;
    uint8_t bytes[64];

    (void)state;
    begin_world(&world, NODES);
    region = create(world.client[0], &(nigh_region_spec){.name = "dies",
                                                         .size = 12 * KIB,
                                                         .chunk_size = 4 * KIB,
                                                         .where = NIGH_REGION_SPREAD});
    fill(bytes, sizeof bytes, 5);
    for (uint32_t n = 0; n < NODES; n++) {
        write_all(region, n * 4 * KIB, bytes, sizeof bytes);
    }
    assert_is_at(region, 2, 2);
    stop_node(&world, 2);
    assert_int_equal(read_soon(region, 2 * 4 * KIB, NIGH_TIMEOUT), NIGH_PEER_LOST);
    assert_reads(region, 0, bytes, sizeof bytes);
    assert_reads(region, 4 * KIB, bytes, sizeof bytes);
    more = create(world.client[1], &(nigh_region_spec){.name = "more", .size = 1});
    start_node(&world, 2);
    (void)open_region(world.client[2], "dies", NIGH_REGION_READ);
    assert_int_equal(read_soon(region, 0, NIGH_NO_QUORUM), NIGH_OK);
    assert_int_equal(AGREED(nigh_region_free(more, WAIT_US)), NIGH_OK);
    end_world(&world);
}

/* ---- neighbours ----------------------------------------------------------- */

enum {
    NEIGHBOUR_READS = 16, /* under way */
    FEW_READS = 100,
    /* While one does a small read: what is under way to a node is bounded, 2 MiB, and of what waits
     * it is next. Behind all that waits it would be 12 to 16. How many more end before the reader
     * is awake again is the machine's affair: so it is the quickest quarter that is looked at. */
    MOST_MEANWHILE = 7
};

/* Who keeps reads of 1 MiB under way, and counts how many have ended. */
struct reader {
    nigh_client *client;
    uint32_t access; /* beside NIGH_REGION_READ */
    nigh_bulk *bulk[NEIGHBOUR_READS];
    pthread_t threads[NEIGHBOUR_READS];
    _Atomic bool stop;
    _Atomic uint32_t ended;
    _Atomic uint32_t failed;
};

struct reads {
    struct reader *reader;
    uint32_t number;
};

static void *read_much(void *context)
{
    struct reads *reads = context;
    struct reader *reader = reads->reader;
    nigh_bulk_part part = {.bulk = reader->bulk[reads->number], .size = MIB};
    nigh_region *region = NULL;

    if (nigh_region_open(reader->client, "shared", NIGH_REGION_READ | reader->access, WAIT_US,
                         &region) != NIGH_OK) {
        atomic_fetch_add(&reader->failed, 1);
        return NULL;
    }
    while (!atomic_load(&reader->stop)) {
        if (nigh_region_read_into(region, 0, &part, WAIT_US) != NIGH_OK) {
            atomic_fetch_add(&reader->failed, 1);
            break;
        }
        atomic_fetch_add(&reader->ended, 1);
    }
    nigh_region_close(region);
    return NULL;
}

static int compare_counts(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

    return (one > other) - (one < other);
}

/* Reads of few bytes by a client of node 0, while one of `access` besides reads much: how many of
 * these end meanwhile. */
static void read_beside(struct world *world, uint32_t access, uint32_t meanwhile[FEW_READS])
{
    struct reader reader = {.access = access};
    struct reads reads[NEIGHBOUR_READS];
    nigh_region *region;
    nigh_client *other;
    uint8_t bytes[64];
    void *memory;

    region = create(
        world->client[0],
        &(nigh_region_spec){.name = "shared", .size = 4 * MIB, .where = NIGH_REGION_ON, .rank = 1});
    other = reader.client = attach(world->node[0]);
    for (uint32_t n = 0; n < NEIGHBOUR_READS; n++) {
        reads[n] = (struct reads){.reader = &reader, .number = n};
        assert_int_equal(nigh_bulk_alloc(other, MIB, NIGH_BULK_WRITE, &memory, &reader.bulk[n]),
                         NIGH_OK);
        assert_int_equal(pthread_create(&reader.threads[n], NULL, read_much, &reads[n]), 0);
    }
    assert_true(SUPPORT_WAIT(atomic_load(&reader.ended) >= 2 * NEIGHBOUR_READS, 20000));
    for (uint32_t n = 0; n < FEW_READS; n++) {
        meanwhile[n] = atomic_load(&reader.ended);
        assert_int_equal(nigh_region_read(region, n * 64, bytes, sizeof bytes, WAIT_US), NIGH_OK);
        meanwhile[n] = atomic_load(&reader.ended) - meanwhile[n];
    }
    atomic_store(&reader.stop, true);
    for (uint32_t n = 0; n < NEIGHBOUR_READS; n++) {
        (void)pthread_join(reader.threads[n], NULL);
    }
    nigh_client_close(other);
    qsort(meanwhile, FEW_READS, sizeof *meanwhile, compare_counts);
    print_message("# reads of 1 MiB while another did one of 64 bytes: %u, %u, %u, %u, %u\n",
                  meanwhile[0], meanwhile[FEW_READS / 4], meanwhile[FEW_READS / 2],
                  meanwhile[3 * FEW_READS / 4], meanwhile[FEW_READS - 1]);
    assert_int_equal(atomic_load(&reader.failed), 0);
}

static void who_reads_little_passes_who_reads_much(void **state)
{
    struct world world;
    uint32_t meanwhile[FEW_READS];

    (void)state;
    begin_world(&world, 2);
    read_beside(&world, 0, meanwhile);
    assert_in_range(meanwhile[FEW_READS / 4], 0, MOST_MEANWHILE);
    end_world(&world);
}

/* Where a node says so, what its clients want with low priority goes over connections of its own;
 * the other node has these too, and does not use them. What is of high priority neither waits
 * behind it nor goes there. */
static void separate_priorities_go_apart(void **state)
{
    struct world world;
    nigh_region *low;
    nigh_node_stats before, after;
    uint32_t meanwhile[FEW_READS];
    uint8_t bytes[64] = {1};

    (void)state;
    begin_world_by(&world, 2, NIGH_REGION_QOS_SEPARATE);
    (void)create(
        world.client[1],
        &(nigh_region_spec){.name = "there", .size = MIB, .where = NIGH_REGION_ON, .rank = 0});
    before = stats_of(&world, 0);
    read_beside(&world, NIGH_REGION_LOW, meanwhile);
    after = stats_of(&world, 0);
    assert_in_range(meanwhile[FEW_READS / 4], 0, MOST_MEANWHILE);
    assert_true(after.region_posts_low - before.region_posts_low >=
                2 * NEIGHBOUR_READS * MIB / (256 * KIB));
    assert_in_range(after.region_posts - before.region_posts -
                        (after.region_posts_low - before.region_posts_low),
                    FEW_READS, FEW_READS + 8); /* beside those that began anew */
    assert_int_equal(after.region_low_limit_bytes, 0);

    low = open_region(world.client[1], "there",
                      NIGH_REGION_READ | NIGH_REGION_WRITE | NIGH_REGION_LOW);
    write_all(low, 0, bytes, sizeof bytes);
    assert_reads(low, 0, bytes, sizeof bytes);
    assert_true(stats_of(&world, 1).region_posts >= 2);
    assert_int_equal(stats_of(&world, 1).region_posts_low, 0);
    end_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_node_alone_has_regions),
        cmocka_unit_test(what_one_node_writes_another_reads),
        cmocka_unit_test(memory_for_calls_is_read_into_and_written_from),
        cmocka_unit_test(bytes_are_filled_and_copied_wherever_they_lie),
        cmocka_unit_test(chunks_move_as_they_are_filled_and_copied),
        cmocka_unit_test(copies_between_others_do_not_come_here),
        cmocka_unit_test(copies_between_others_stay_within),
        cmocka_unit_test(chunks_of_both_sides_move_as_they_are_copied),
        cmocka_unit_test(copies_between_others_end_with_either),
        cmocka_unit_test(a_source_that_is_freed_ends_its_copies),
        cmocka_unit_test(parts_are_read_and_written_at_once),
        cmocka_unit_test(words_are_added_to_from_everywhere),
        cmocka_unit_test(one_thread_moves_much_at_once),
        cmocka_unit_test(one_thread_changes_a_word_at_once),
        cmocka_unit_test(what_one_thread_began_it_may_leave),
        cmocka_unit_test(memory_that_came_back_is_not_written),
        cmocka_unit_test(a_chunk_moves_with_what_is_in_it),
        cmocka_unit_test(a_region_grows_and_shrinks),
        cmocka_unit_test(rights_are_given_and_taken),
        cmocka_unit_test(who_has_a_region_open_hears_of_its_end),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(chunks_move_under_fire),
        cmocka_unit_test(many_regions_come_and_go),
        cmocka_unit_test(a_region_is_larger_than_one_nodes_memory),
        cmocka_unit_test(chunks_lie_near_another_regions),
        cmocka_unit_test(regions_of_all_homes_are_listed),
        cmocka_unit_test(a_node_that_dies_takes_its_chunks_alone),
        cmocka_unit_test(who_reads_little_passes_who_reads_much),
        cmocka_unit_test(separate_priorities_go_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
