/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions mapped into their users: embedded nodes of one process, and clients of each. What is
 * mapped is what others read and write; what may not be mapped is refused; a chunk that is mapped
 * stays; and what leaves its region stays with who has it mapped, as it was, until it lets go.
 * (Between uids: tests/uid.)
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "region_world.h"

#define CHUNK (64 * KIB)
#define BOTH  (NIGH_REGION_READ | NIGH_REGION_WRITE)

static nigh_region *create_mappable(nigh_client *client, const char *name, uint64_t size)
{
    return create(client, &(nigh_region_spec){.name = name,
                                              .size = size,
                                              .chunk_size = CHUNK,
                                              .flags = NIGH_REGION_MAPPABLE});
}

static nigh_status try_map(nigh_region *region, uint64_t offset, uint64_t size, uint32_t access,
                           uint8_t **at)
{
    void *address = NULL;
    nigh_status status = AGREED(nigh_region_map(region, offset, size, access, WAIT_US, &address));

    *at = address;
    return status;
}

static uint8_t *map(nigh_region *region, uint64_t offset, uint64_t size, uint32_t access)
{
    uint8_t *at;

    assert_int_equal(try_map(region, offset, size, access, &at), NIGH_OK);
    return at;
}

static void assert_no_map(nigh_region *region, uint64_t offset, uint64_t size, uint32_t access,
                          nigh_status status)
{
    uint8_t *at;

    assert_int_equal(try_map(region, offset, size, access, &at), status);
}

static uint64_t word_of(nigh_region *region, uint64_t offset)
{
    uint64_t word = 0;

    assert_int_equal(AGREED(nigh_region_read(region, offset, &word, sizeof word, WAIT_US)),
                     NIGH_OK);
    return word;
}

static void put_word(nigh_region *region, uint64_t offset, uint64_t word)
{
    assert_int_equal(AGREED(nigh_region_write(region, offset, &word, sizeof word, WAIT_US)),
                     NIGH_OK);
}

static uint64_t peek(const uint8_t *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof word);
    return word;
}

static void poke(uint8_t *at, uint64_t word)
{
    memcpy(at, &word, sizeof word);
    atomic_thread_fence(memory_order_seq_cst);
}

static nigh_node_stats stats_of(nigh_client *client)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    assert_int_equal(nigh_stats(client, &stats), NIGH_OK);
    return stats;
}

static bool has_region_memory(nigh_client *client, uint64_t bytes)
{
    return stats_of(client).region_memory_bytes == bytes;
}

/* ---- bytes ---------------------------------------------------------------- */

static void what_is_mapped_is_what_others_read_and_write(void **state)
{
    struct world world;
    nigh_region *here, *there;
    uint8_t *at, *part;
    uint64_t old = 0;

    (void)state;
    begin_world(&world, 2);
    here = create_mappable(world.client[0], "r", 5 * CHUNK - 100);
    there = open_region(world.client[1], "r", NIGH_REGION_ALL);
    at = map(here, 0, 0, BOTH);
    part = map(here, CHUNK + 9, 2 * CHUNK, NIGH_REGION_READ); /* from within a chunk into another */
    for (uint64_t n = 0; n < 5 * CHUNK - 108; n += CHUNK / 2 + 8) {
        put_word(there, n, n + 1);
        assert_int_equal(peek(at + n), n + 1);
        poke(at + n + 8, ~n);
        assert_int_equal(word_of(there, n + 8), ~n);
        assert_int_equal(word_of(here, n + 8), ~n);
    }
    put_word(here, 3 * CHUNK - 3, 77); /* over a border */
    assert_int_equal(peek(at + 3 * CHUNK - 3), 77);
    assert_int_equal(peek(part + 2 * CHUNK - 12), 77);
    assert_int_equal(AGREED(nigh_region_fetch_add(there, 8, 1, WAIT_US, &old)), NIGH_OK);
    assert_int_equal(old + 1, peek(at + 8));
    assert_int_equal(AGREED(nigh_region_memset(there, 16, 0xa5, CHUNK, WAIT_US)), NIGH_OK);
    assert_int_equal(at[16], 0xa5);
    assert_int_equal(at[15 + CHUNK], 0xa5);
    assert_int_equal(part[0], 0xa5);
    assert_int_equal(stats_of(world.client[0]).region_maps, 5 + 3);
    assert_int_equal(nigh_region_unmap(here, at), NIGH_OK);
    assert_int_equal(nigh_region_unmap(here, at), NIGH_INVALID);
    assert_int_equal(nigh_region_unmap(here, part), NIGH_OK);
    assert_int_equal(stats_of(world.client[0]).region_maps, 0);
    end_world(&world);
}

static void what_is_mapped_to_be_read_is_not_written(void **state)
{
    struct world world;
    nigh_region *region, *reader;
    uint8_t *at;

    (void)state;
    begin_world(&world, 1);
    region = create_mappable(world.client[0], "r", 2 * CHUNK);
    put_word(region, 0, 5);
    reader = open_region(world.client[0], "r", NIGH_REGION_READ);
    assert_no_map(reader, 0, 0, BOTH, NIGH_DENIED);
    at = map(reader, 0, 0, NIGH_REGION_READ);
    assert_int_equal(peek(at), 5);
    errno = 0;
    assert_int_equal(mprotect(at, CHUNK, PROT_READ | PROT_WRITE), -1);
    assert_int_equal(errno, EACCES);
    assert_int_equal(madvise(at, CHUNK, MADV_REMOVE), -1);
    assert_int_equal(peek(at), 5);
    nigh_region_close(region);
    region = open_region(world.client[0], "r", NIGH_REGION_WRITE);
    assert_no_map(region, 0, 0, BOTH, NIGH_DENIED); /* who writes it reads it */
    end_world(&world);
}

static void what_cannot_be_mapped_is_refused(void **state)
{
    struct world world;
    nigh_region *region, *plain, *held = NULL;
    nigh_region_info info = {.struct_size = sizeof info};
    uint8_t byte = 0;

    (void)state;
    begin_world(&world, 1);
    plain = create(world.client[0], &(nigh_region_spec){.name = "plain", .size = CHUNK});
    region = create_mappable(world.client[0], "r", 2 * CHUNK - 1);
    assert_int_equal(AGREED(nigh_region_stat(region, WAIT_US, &info)), NIGH_OK);
    assert_int_equal(info.flags, NIGH_REGION_MAPPABLE);
    assert_int_equal(AGREED(nigh_region_stat(plain, WAIT_US, &info)), NIGH_OK);
    assert_int_equal(info.flags, 0);
    assert_no_map(plain, 0, 0, NIGH_REGION_READ, NIGH_UNSUPPORTED);
    assert_no_map(region, 0, 2 * CHUNK, NIGH_REGION_READ, NIGH_INVALID);
    assert_no_map(region, 2 * CHUNK - 1, 0, NIGH_REGION_READ, NIGH_INVALID);
    assert_no_map(region, UINT64_MAX, 1, NIGH_REGION_READ, NIGH_INVALID);
    assert_no_map(region, 1, UINT64_MAX, NIGH_REGION_READ, NIGH_INVALID);
    assert_no_map(region, 0, 0, NIGH_REGION_WRITE, NIGH_INVALID);
    assert_no_map(region, 0, 0, NIGH_REGION_ALL, NIGH_INVALID);
    assert_int_equal(nigh_region_map(region, 0, 0, BOTH, WAIT_US, NULL), NIGH_INVALID);
    assert_int_equal(nigh_region_unmap(region, &byte), NIGH_INVALID);
    assert_int_equal(nigh_region_unmap(region, NULL), NIGH_INVALID);
    assert_int_equal(AGREED(nigh_region_lock(region, 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held)),
                     NIGH_OK);
    assert_no_map(held, 0, 0, BOTH, NIGH_INVALID);
    assert_int_equal(nigh_region_unlock(held), NIGH_OK);
    assert_int_equal(AGREED(nigh_region_free(region, WAIT_US)), NIGH_OK);
    assert_no_map(region, 0, 0, NIGH_REGION_READ, NIGH_NOT_FOUND);
    assert_int_equal(stats_of(world.client[0]).region_maps, 0);
    end_world(&world);
}

/* ---- where it lies -------------------------------------------------------- */

static void only_what_lies_here_is_mapped_and_what_is_mapped_stays(void **state)
{
    struct world world;
    nigh_region *here, *there;
    uint8_t *at;

    (void)state;
    begin_world(&world, 2);
    here = create_mappable(world.client[0], "r", 2 * CHUNK);
    there = open_region(world.client[1], "r", NIGH_REGION_ALL);
    assert_no_map(there, 0, 0, BOTH, NIGH_ELSEWHERE);
    at = map(here, CHUNK, CHUNK, BOTH);
    poke(at + 8, 42);
    assert_int_equal(AGREED(nigh_region_move(here, 1, 1, WAIT_US)), NIGH_BUSY);
    poke(at + 16, 43);
    assert_int_equal(word_of(there, CHUNK + 8), 42);
    assert_int_equal(word_of(there, CHUNK + 16), 43);
    put_word(there, CHUNK + 24, 44);
    assert_int_equal(peek(at + 24), 44); /* it is where it was */
    assert_int_equal(AGREED(nigh_region_move(here, 0, 1, WAIT_US)), NIGH_OK);
    assert_int_equal(nigh_region_unmap(here, at), NIGH_OK);
    assert_int_equal(AGREED(nigh_region_move(here, 1, 1, WAIT_US)), NIGH_OK);
    assert_no_map(here, 0, 0, BOTH, NIGH_ELSEWHERE);
    at = map(there, 0, 0, BOTH);
    assert_int_equal(peek(at + CHUNK + 8), 42);
    assert_int_equal(peek(at + CHUNK + 24), 44);
    poke(at, 45);
    assert_int_equal(word_of(here, 0), 45);
    end_world(&world);
}

/* ---- what leaves its region ----------------------------------------------- */

static void what_is_freed_stays_with_who_has_it_mapped(void **state)
{
    struct world world;
    nigh_client *client;
    nigh_region *region, *again;
    uint8_t *at;

    (void)state;
    begin_world(&world, 1);
    client = world.client[0];
    region = create_mappable(client, "r", 2 * CHUNK);
    at = map(region, 0, 0, BOTH);
    poke(at + CHUNK, 7);
    assert_int_equal(AGREED(nigh_region_free(region, WAIT_US)), NIGH_OK);
    assert_int_equal(stats_of(client).region_kept_bytes, 2 * CHUNK);
    again = create_mappable(client, "r", CHUNK);
    assert_int_equal(peek(at + CHUNK), 7);
    poke(at, 8);
    assert_int_equal(word_of(again, 0), 0);
    put_word(again, 0, 9);
    assert_int_equal(peek(at), 8);
    assert_true(has_region_memory(client, 3 * CHUNK)); /* as long as it is mapped it counts */
    assert_int_equal(nigh_region_unmap(region, at), NIGH_STALE);
    assert_int_equal(stats_of(client).region_kept_bytes, 0);
    assert_true(SUPPORT_WAIT(has_region_memory(client, CHUNK), 20000));
    assert_int_equal(stats_of(client).region_maps, 0);
    end_world(&world);
}

static void what_is_cut_off_is_told_until_it_is_unmapped(void **state)
{
    struct world world;
    nigh_client *client;
    nigh_region *region, *other;
    uint8_t *at, *first;
    uint64_t word = 0;

    (void)state;
    begin_world(&world, 1);
    client = world.client[0];
    region = create_mappable(client, "r", 3 * CHUNK);
    other = open_region(client, "r", NIGH_REGION_ALL);
    first = map(region, 0, CHUNK, BOTH);
    at = map(region, CHUNK, 0, BOTH);
    poke(at + CHUNK, 7);
    assert_int_equal(AGREED(nigh_region_resize(other, 2 * CHUNK, NIGH_REGION_LOCAL, 0, WAIT_US)),
                     NIGH_OK);
    assert_int_equal(peek(at + CHUNK), 7);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(AGREED(nigh_region_read(region, 0, &word, sizeof word, WAIT_US)),
                         NIGH_STALE);
        assert_int_equal(AGREED(nigh_region_write(region, 0, &word, sizeof word, WAIT_US)),
                         NIGH_STALE);
    }
    assert_no_map(region, 0, CHUNK, BOTH, NIGH_STALE);
    assert_int_equal(word_of(other, 0), 0); /* who has none of it is not concerned */
    assert_int_equal(nigh_region_unmap(region, at), NIGH_STALE);
    assert_int_equal(word_of(region, 0), 0);
    poke(first, 3);
    assert_int_equal(word_of(region, 0), 3);
    assert_int_equal(AGREED(nigh_region_resize(other, 3 * CHUNK, NIGH_REGION_LOCAL, 0, WAIT_US)),
                     NIGH_OK);
    assert_int_equal(word_of(region, 2 * CHUNK), 0); /* other memory */
    end_world(&world);
}

/* ---- how it ends ---------------------------------------------------------- */

static void maps_end_with_their_handle_and_with_their_client(void **state)
{
    struct world world;
    nigh_client *second;
    nigh_region *region, *handle;

    (void)state;
    begin_world(&world, 1);
    region = create_mappable(world.client[0], "r", 2 * CHUNK);
    handle = open_region(world.client[0], "r", NIGH_REGION_ALL);
    (void)map(handle, 0, 0, BOTH);
    (void)map(region, 0, CHUNK, BOTH);
    assert_int_equal(stats_of(world.client[0]).region_maps, 3);
    nigh_region_close(handle);
    assert_int_equal(stats_of(world.client[0]).region_maps, 1);
    second = attach(world.node[0]);
    handle = open_region(second, "r", NIGH_REGION_ALL);
    (void)map(handle, 0, 0, NIGH_REGION_READ);
    assert_int_equal(stats_of(world.client[0]).region_maps, 3);
    nigh_client_close(second);
    assert_true(SUPPORT_WAIT(stats_of(world.client[0]).region_maps == 1, 20000));
    assert_int_equal(AGREED(nigh_region_free(region, WAIT_US)), NIGH_OK);
    assert_int_equal(stats_of(world.client[0]).region_kept_bytes, CHUNK);
    nigh_region_close(region);
    assert_int_equal(stats_of(world.client[0]).region_kept_bytes, 0);
    assert_true(SUPPORT_WAIT(has_region_memory(world.client[0], 0), 20000));
    end_world(&world);
}

static void maps_of_a_client_have_a_bound(void **state)
{
    enum {
        MOST = 1024
    };
    static uint8_t *at[MOST];
    struct world world;
    nigh_client *second;
    nigh_region *region, *handle;

    (void)state;
    begin_world(&world, 1);
    region = create_mappable(world.client[0], "r", CHUNK);
    for (uint32_t n = 0; n < MOST; n++) {
        at[n] = map(region, 0, 0, BOTH);
    }
    assert_no_map(region, 0, 0, BOTH, NIGH_LIMIT);
    second = attach(world.node[0]); /* of another there are others */
    handle = open_region(second, "r", NIGH_REGION_ALL);
    (void)map(handle, 0, 0, BOTH);
    poke(at[MOST - 1], 1);
    assert_int_equal(peek(at[0]), 1);
    assert_int_equal(nigh_region_unmap(region, at[5]), NIGH_OK);
    at[5] = map(region, 0, 0, BOTH);
    assert_no_map(region, 0, 0, BOTH, NIGH_LIMIT);
    nigh_client_close(second);
    end_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_mapped_is_what_others_read_and_write),
        cmocka_unit_test(what_is_mapped_to_be_read_is_not_written),
        cmocka_unit_test(what_cannot_be_mapped_is_refused),
        cmocka_unit_test(only_what_lies_here_is_mapped_and_what_is_mapped_stays),
        cmocka_unit_test(what_is_freed_stays_with_who_has_it_mapped),
        cmocka_unit_test(what_is_cut_off_is_told_until_it_is_unmapped),
        cmocka_unit_test(maps_end_with_their_handle_and_with_their_client),
        cmocka_unit_test(maps_of_a_client_have_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
