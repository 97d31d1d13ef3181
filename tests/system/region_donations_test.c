/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of memory that processes have already: embedded nodes of one process, and clients of
 * each. What the donor has in memory is what others read and write; what may not be donated is
 * refused; it stays where it is; and what is over is the donor's alone, as it was.
 * (Clients of nighd, that die meanwhile, and hostile ones: region-donors.)
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "region_world.h"

#define BOTH   (NIGH_REGION_READ | NIGH_REGION_WRITE)
#define SEALED (F_SEAL_SHRINK | F_SEAL_GROW)

/* A memfd, mapped. */
struct own {
    int fd;
    uint8_t *at;
    uint64_t bytes;
};

static struct own make_own(uint64_t bytes, int seals, unsigned flags)
{
    struct own own = {.bytes = bytes};
    void *at;

    own.fd = memfd_create("own", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    assert_true(own.fd >= 0);
    assert_int_equal(ftruncate(own.fd, (off_t)bytes), 0);
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, own.fd, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    own.at = at;
    assert_int_equal(fcntl(own.fd, F_ADD_SEALS, seals), 0);
    return own;
}

static void drop_own(struct own *own)
{
    assert_int_equal(munmap(own->at, own->bytes), 0);
    assert_int_equal(close(own->fd), 0);
}

static uint64_t region_memory(nigh_client *client)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    assert_int_equal(nigh_stats(client, &stats), NIGH_OK);
    return stats.region_memory_bytes;
}

/* Where the members have just changed, or the machine stood still for a second, it may be there, or
 * not: then what was offered is given back, and it is asked again. */
static bool try_donate(nigh_client *client, const nigh_region_spec *spec, int fd, void *at,
                       uint64_t before, nigh_region **region, nigh_status *status)
{
    if (region_memory(client) != before) {
        *status = nigh_region_open(client, spec->name, NIGH_REGION_ALL, WAIT_US, region);
        return *status == NIGH_OK;
    }
    *status = at == NULL ? nigh_region_donate(client, spec, fd, WAIT_US, region)
                         : nigh_region_donate_memory(client, spec, at, WAIT_US, region);
    return *status != NIGH_NO_QUORUM && *status != NIGH_BUSY && *status != NIGH_TIMEOUT;
}

static nigh_status donate(nigh_client *client, const char *name, uint64_t bytes, int fd, void *at,
                          nigh_region **region)
{
    nigh_region_spec spec = {.struct_size = sizeof spec, .name = name, .size = bytes};
    uint64_t before = region_memory(client);
    nigh_status status = NIGH_BUSY;

    *region = NULL;
    assert_true(SUPPORT_WAIT(try_donate(client, &spec, fd, at, before, region, &status), 20000));
    return status;
}

static nigh_region *donated(nigh_client *client, const char *name, const struct own *own)
{
    nigh_region *region;

    assert_int_equal(donate(client, name, own->bytes, own->fd, NULL, &region), NIGH_OK);
    return region;
}

static void refused(nigh_client *client, uint64_t bytes, int fd, nigh_status status)
{
    nigh_region *region;

    assert_int_equal(donate(client, "r", bytes, fd, NULL, &region), status);
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

/* ---- bytes ---------------------------------------------------------------- */

/* What it has in memory before is there, and then each sees what the other writes. */
static void both_see_the_same(nigh_client *other, nigh_region *here, const char *name, uint8_t *at,
                              uint64_t bytes)
{
    nigh_region *there = open_region(other, name, NIGH_REGION_ALL);
    uint64_t old = 0, step = bytes / 7 / 8 * 8;

    assert_int_equal(word_of(there, 0), 0x1111);
    assert_int_equal(word_of(there, bytes - 8), 0x2222);
    for (uint64_t n = 0; n + 16 <= bytes; n += step) {
        put_word(there, n, n + 1);
        assert_int_equal(peek(at + n), n + 1);
        poke(at + n + 8, ~n);
        assert_int_equal(word_of(there, n + 8), ~n);
        assert_int_equal(word_of(here, n + 8), ~n);
    }
    assert_int_equal(AGREED(nigh_region_fetch_add(there, 8, 1, WAIT_US, &old)), NIGH_OK);
    assert_int_equal(old + 1, peek(at + 8));
    assert_int_equal(AGREED(nigh_region_memset(there, 16, 0xa5, bytes - 16, WAIT_US)), NIGH_OK);
    assert_int_equal(at[16], 0xa5);
    assert_int_equal(at[bytes - 1], 0xa5);
    nigh_region_close(there);
}

static void what_the_donor_has_is_what_others_read_and_write(void **state)
{
    const uint64_t bytes = 40 * MIB + 4096; /* in steps */
    nigh_region_info info = {.struct_size = sizeof info};
    nigh_region_entry entry = {.info = {.struct_size = sizeof entry.info}};
    struct own own = make_own(bytes, SEALED, 0);
    struct world world;
    nigh_region *region;
    size_t got;
    uint32_t more;

    (void)state;
    begin_world(&world, 2);
    poke(own.at, 0x1111);
    poke(own.at + bytes - 8, 0x2222);
    region = donated(world.client[0], "r", &own);
    assert_int_equal(region_memory(world.client[0]), bytes);
    assert_int_equal(region_memory(world.client[1]), 0);
    both_see_the_same(world.client[1], region, "r", own.at, bytes);
    assert_int_equal(AGREED(nigh_region_stat(region, WAIT_US, &info)), NIGH_OK);
    assert_int_equal(info.flags, NIGH_REGION_DONATED);
    assert_int_equal(info.chunk_count, 1);
    assert_int_equal(info.ranks[0], 0);
    assert_int_equal(
        AGREED(nigh_region_list(world.client[1], NULL, &entry, 1, WAIT_US, &got, &more)), NIGH_OK);
    assert_int_equal(entry.info.flags, NIGH_REGION_DONATED);
    end_world(&world);
    assert_int_equal(own.at[bytes - 1], 0xa5); /* the node's end takes nothing of it */
    drop_own(&own);
}

/* At whichever node its home is. */
static void each_of_the_nodes_takes_some(void **state)
{
    struct world world;
    char name[16];

    (void)state;
    begin_world(&world, 3);
    for (uint64_t n = 0; n < 12; n++) {
        struct own own = make_own(8192, SEALED, 0);
        nigh_region *region, *there;
        nigh_status freed;

        (void)snprintf(name, sizeof name, "r%d", (int)n);
        poke(own.at + 4096, n + 7);
        region = donated(world.client[n % 3], name, &own);
        there = open_region(world.client[(n + 1) % 3], name, NIGH_REGION_ALL);
        assert_int_equal(word_of(there, 4096), n + 7);
        put_word(there, 0, n);
        assert_int_equal(peek(own.at), n);
        freed = AGREED(nigh_region_free(there, WAIT_US));
        assert_true(freed == NIGH_OK || freed == NIGH_NOT_FOUND); /* it was asked twice, perhaps */
        nigh_region_close(there);
        nigh_region_close(region);
        drop_own(&own);
    }
    for (uint32_t n = 0; n < 3; n++)
        assert_true(SUPPORT_WAIT(region_memory(world.client[n]) == 0, 20000));
    end_world(&world);
}

static void an_embedded_node_takes_any_memory(void **state)
{
    struct world world;
    nigh_region *region, *there;
    const uint64_t bytes = 17 * MIB + 1234 * 8; /* no whole pages, and none begins there */
    uint8_t *memory = malloc(bytes + 64);
    uint8_t *at = memory + 24;

    (void)state;
    assert_non_null(memory);
    memset(memory, 0x77, bytes + 64);
    poke(at, 0x1111);
    poke(at + bytes - 8, 0x2222);
    begin_world(&world, 2);
    assert_int_equal(donate(world.client[0], "own", bytes, -1, at, &region), NIGH_OK);
    assert_int_equal(region_memory(world.client[0]), bytes);
    both_see_the_same(world.client[1], region, "own", at, bytes);
    assert_int_equal(memory[23], 0x77);
    assert_int_equal(at[bytes], 0x77); /* what is around it is not of it */
    there = open_region(world.client[1], "own", NIGH_REGION_ALL);
    assert_int_equal(AGREED(nigh_region_write(there, bytes, memory, 1, WAIT_US)), NIGH_INVALID);
    assert_int_equal(AGREED(nigh_region_free(region, WAIT_US)), NIGH_OK);
    free(memory); /* it is over: nobody touches it */
    assert_int_equal(AGREED(nigh_region_write(there, 0, &world, 8, WAIT_US)), NIGH_NOT_FOUND);
    assert_true(SUPPORT_WAIT(region_memory(world.client[0]) == 0, 20000));
    end_world(&world);
}

/* ---- what may not be ------------------------------------------------------ */

/* It is said what is wrong with it, and nothing that is not. */
static void refused_for(nigh_client *client, uint64_t bytes, int fd, const char *why)
{
    char text[512];

    refused(client, bytes, fd, NIGH_INVALID);
    nigh_client_error(client, text, sizeof text);
    assert_string_equal(text, why);
}

#define CALL "nigh_region_donate: "

static void each_lack_of_a_descriptor_is_said(void **state)
{
    struct own own = make_own(8192, SEALED, 0), bare = make_own(8192, 0, 0);
    struct own shrinks = make_own(8192, F_SEAL_GROW, 0), grows = make_own(8192, F_SEAL_SHRINK, 0);
    struct own last = make_own(8192, F_SEAL_SEAL, 0);
    struct world world;
    char path[64];
    int fd, pipes[2];

    (void)state;
    begin_world(&world, 1);
    refused_for(world.client[0], 8192, bare.fd,
                CALL "the memfd is not sealed against shrinking and growing: it lacks "
                     "F_SEAL_SHRINK and F_SEAL_GROW (fcntl F_ADD_SEALS)");
    refused_for(world.client[0], 8192, shrinks.fd,
                CALL "the memfd is not sealed against shrinking: it lacks F_SEAL_SHRINK (fcntl "
                     "F_ADD_SEALS)");
    refused_for(world.client[0], 8192, grows.fd,
                CALL "the memfd is not sealed against growing: it lacks F_SEAL_GROW (fcntl "
                     "F_ADD_SEALS)");
    refused_for(world.client[0], 8192, last.fd,
                CALL "the memfd is not sealed against shrinking and growing: it lacks "
                     "F_SEAL_SHRINK and F_SEAL_GROW, and takes no more seals (memfd_create with "
                     "MFD_ALLOW_SEALING)");
    refused_for(world.client[0], 0, own.fd,
                CALL "the size is a multiple of 4096, and at most a TiB; not 0");
    refused_for(world.client[0], 8191, own.fd,
                CALL "the size is a multiple of 4096, and at most a TiB; not 8191");
    refused_for(world.client[0], 4096, own.fd,
                CALL "the memfd has 8192 bytes, and the region 4096");
    refused_for(world.client[0], 8192, -1, CALL "-1 is no open descriptor");
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    refused_for(world.client[0], 8192, pipes[0],
                CALL "the descriptor is not one of a memfd (memfd_create)");
    assert_int_equal(close(pipes[0]), 0);
    assert_int_equal(close(pipes[1]), 0);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", own.fd);
    fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    refused_for(world.client[0], 8192, fd,
                CALL "the descriptor is not open to read and write (O_RDWR)");
    assert_int_equal(close(fd), 0);
    assert_int_equal(fcntl(own.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
    refused_for(world.client[0], 8192, own.fd,
                CALL "the memfd is sealed against writing (F_SEAL_WRITE, F_SEAL_FUTURE_WRITE), and "
                     "regions are written");
    assert_int_equal(region_memory(world.client[0]), 0);
    end_world(&world);
    drop_own(&own);
    drop_own(&bare);
    drop_own(&shrinks);
    drop_own(&grows);
    drop_own(&last);
}

static void a_spec_that_says_more_is_refused(void **state)
{
    struct own own = make_own(8192, SEALED, 0);
    struct world world;
    nigh_region *region = NULL;
    nigh_region_spec spec = {.struct_size = sizeof spec, .name = "r", .size = 8192};

    (void)state;
    begin_world(&world, 1);
    assert_int_equal(donate(world.client[0], "r", 8192, -1, own.at + 4, &region), NIGH_INVALID);
    spec.chunk_size = 4096;
    assert_int_equal(nigh_region_donate(world.client[0], &spec, own.fd, WAIT_US, &region),
                     NIGH_INVALID);
    spec.chunk_size = 0;
    spec.flags = NIGH_REGION_MAPPABLE;
    assert_int_equal(nigh_region_donate(world.client[0], &spec, own.fd, WAIT_US, &region),
                     NIGH_INVALID);
    spec.flags = 0;
    spec.group_access = NIGH_REGION_ALL + 1;
    assert_int_equal(nigh_region_donate(world.client[0], &spec, own.fd, WAIT_US, &region),
                     NIGH_INVALID);
    spec.group_access = 0;
    spec.flags = NIGH_REGION_DONATED;
    assert_int_equal(nigh_region_create(world.client[0], &spec, WAIT_US, &region), NIGH_INVALID);
    assert_int_equal(region_memory(world.client[0]), 0);
    end_world(&world);
    drop_own(&own);
}

static void memory_that_is_not_there_or_not_to_be_written_is_refused(void **state)
{
    const uint64_t bytes = 64 * KIB;
    struct world world;
    nigh_region *region;
    void *memory;

    (void)state;
    begin_world(&world, 1);
    memory = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(donate(world.client[0], "r", bytes, -1, memory, &region), NIGH_INVALID);
    assert_true(SUPPORT_WAIT(region_memory(world.client[0]) == 0, 20000));
    assert_int_equal(mprotect(memory, bytes, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(munmap((uint8_t *)memory + bytes / 2, bytes / 4), 0);
    assert_int_equal(donate(world.client[0], "r", bytes, -1, memory, &region), NIGH_INVALID);
    assert_true(SUPPORT_WAIT(region_memory(world.client[0]) == 0, 20000));
    assert_int_equal(donate(world.client[0], "r", bytes / 2, -1, memory, &region), NIGH_OK);
    assert_true(SUPPORT_WAIT(region_memory(world.client[0]) == bytes / 2, 20000));
    end_world(&world);
    assert_int_equal(munmap(memory, bytes), 0);
}

static void it_counts_as_the_nodes_memory_of_regions(void **state)
{
    struct own large = make_own(65 * MIB, SEALED, 0), own = make_own(40 * MIB, SEALED, 0);
    struct world world;
    nigh_region *region, *other;

    (void)state;
    begin_world(&world, 1); /* of which regions have 64 MiB */
    refused(world.client[0], large.bytes, large.fd, NIGH_OUT_OF_MEMORY);
    region = donated(world.client[0], "r", &own);
    assert_int_equal(donate(world.client[0], "s", own.bytes, own.fd, NULL, &other),
                     NIGH_OUT_OF_MEMORY);
    assert_int_equal(donate(world.client[0], "r", 4096, -1, large.at, &other), NIGH_EXISTS);
    assert_true(SUPPORT_WAIT(region_memory(world.client[0]) == own.bytes, 20000));
    assert_int_equal(AGREED(nigh_region_free(region, WAIT_US)), NIGH_OK);
    assert_true(SUPPORT_WAIT(region_memory(world.client[0]) == 0, 20000));
    (void)donated(world.client[0], "s", &own);
    end_world(&world);
    drop_own(&large);
    drop_own(&own);
}

/* Nobody comes to ask for it: so the node has not kept it either. */
static void what_is_offered_in_vain_is_given_back(void **state)
{
    struct own own = make_own(8192, SEALED, 0);
    struct world world;
    nigh_region_spec spec = {.struct_size = sizeof spec, .name = "r", .size = own.bytes};
    nigh_region *region;

    (void)state;
    begin_world(&world, 1);
    for (uint32_t n = 0; n < 20; n++) {
        nigh_status status = nigh_region_donate(world.client[0], &spec, own.fd, 0, &region);

        /* Of a node that stands still for seconds as many may be under way as there may be. */
        assert_true(status == NIGH_TIMEOUT || status == NIGH_OVERLOADED);
    }
    assert_true(SUPPORT_WAIT(region_memory(world.client[0]) == 0, 20000));
    (void)donated(world.client[0], "r", &own);
    assert_int_equal(region_memory(world.client[0]), own.bytes);
    end_world(&world);
    drop_own(&own);
}

/* ---- it stays ------------------------------------------------------------- */

static void it_is_neither_moved_resized_nor_mapped(void **state)
{
    struct own own = make_own(64 * KIB, SEALED, 0);
    struct world world;
    nigh_region *region, *there;
    void *address;

    (void)state;
    begin_world(&world, 2);
    poke(own.at + 8192, 5);
    region = donated(world.client[0], "r", &own);
    there = open_region(world.client[1], "r", NIGH_REGION_ALL);
    assert_int_equal(AGREED(nigh_region_move(region, 0, 1, WAIT_US)), NIGH_INVALID);
    assert_int_equal(AGREED(nigh_region_resize(there, 4096, NIGH_REGION_LOCAL, 0, WAIT_US)),
                     NIGH_INVALID);
    assert_int_equal(AGREED(nigh_region_resize(there, MIB, NIGH_REGION_LOCAL, 0, WAIT_US)),
                     NIGH_INVALID);
    assert_int_equal(AGREED(nigh_region_map(region, 0, 0, BOTH, WAIT_US, &address)),
                     NIGH_UNSUPPORTED);
    assert_int_equal(peek(own.at + 8192), 5);
    put_word(there, 0, 6);
    assert_int_equal(peek(own.at), 6);
    end_world(&world);
    drop_own(&own);
}

/* A revoke gives the chunk another handle; its memory is what it was. */
static void rights_are_of_who_goes_through_nodes(void **state)
{
    struct own own = make_own(8192, SEALED, 0);
    struct world world;
    nigh_region *region, *there, *held = NULL;

    (void)state;
    begin_world(&world, 2);
    region = donated(world.client[0], "r", &own);
    there = open_region(world.client[1], "r", BOTH);
    put_word(there, 0, 1);
    assert_int_equal(
        AGREED(nigh_region_grant(region, NIGH_REGION_OTHERS, 0, NIGH_REGION_READ, 0, WAIT_US)),
        NIGH_OK);
    assert_int_equal(
        AGREED(nigh_region_grant(region, NIGH_REGION_OTHERS, 0, 0, NIGH_REGION_READ, WAIT_US)),
        NIGH_OK);
    poke(own.at + 8, 2);
    assert_int_equal(word_of(there, 8), 2);
    put_word(there, 16, 3);
    assert_int_equal(peek(own.at + 16), 3);
    assert_int_equal(peek(own.at), 1);
    assert_int_equal(AGREED(nigh_region_lock(there, 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held)),
                     NIGH_OK);
    put_word(held, 24, 4);
    poke(own.at + 32, 5); /* no lock holds that back */
    assert_int_equal(word_of(held, 32), 5);
    assert_int_equal(nigh_region_unlock(held), NIGH_OK);
    assert_int_equal(peek(own.at + 24), 4);
    end_world(&world);
    drop_own(&own);
}

/* ---- how it ends ---------------------------------------------------------- */

static void what_is_over_is_the_donors_as_it_was(void **state)
{
    struct own own = make_own(MIB, SEALED, 0);
    struct world world;
    nigh_region *region, *again, *there;

    (void)state;
    begin_world(&world, 2);
    region = donated(world.client[0], "r", &own);
    there = open_region(world.client[1], "r", NIGH_REGION_ALL);
    put_word(there, MIB - 8, 9);
    assert_int_equal(AGREED(nigh_region_free(there, WAIT_US)), NIGH_OK);
    assert_true(SUPPORT_WAIT(region_memory(world.client[0]) == 0, 20000));
    assert_int_equal(peek(own.at + MIB - 8), 9);
    nigh_region_close(region);
    nigh_region_close(there);
    again = donated(world.client[0], "r", &own); /* and may be donated again */
    assert_int_equal(word_of(again, MIB - 8), 9);
    end_world(&world);
    assert_int_equal(peek(own.at + MIB - 8), 9);
    drop_own(&own);
}

/* The node has it mapped: neither the descriptor nor the client is needed. */
static void it_outlives_its_client_and_its_descriptor(void **state)
{
    struct own own = make_own(8192, SEALED, 0);
    struct world world;
    nigh_client *second;
    nigh_region *there;

    (void)state;
    begin_world(&world, 1);
    second = attach(world.node[0]);
    poke(own.at + 4096, 11);
    (void)donated(second, "r", &own);
    nigh_client_close(second);
    drop_own(&own);
    there = open_region(world.client[0], "r", NIGH_REGION_ALL);
    assert_int_equal(word_of(there, 4096), 11);
    put_word(there, 0, 12);
    assert_int_equal(word_of(there, 0), 12);
    end_world(&world);
}

/* What is not there any more is zero, for all, and the node goes on. */
static void who_tears_pages_out_has_zeros(void **state)
{
    struct own own = make_own(MIB, SEALED, 0);
    struct world world;
    nigh_region *region;

    (void)state;
    begin_world(&world, 1);
    poke(own.at + 8192, 1);
    region = donated(world.client[0], "r", &own);
    assert_int_equal(fcntl(own.fd, F_ADD_SEALS, F_SEAL_WRITE), -1); /* the node has it mapped */
    assert_int_equal(errno, EBUSY);
    assert_int_equal(ftruncate(own.fd, 0), -1);
    assert_int_equal(fallocate(own.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, MIB), 0);
    assert_int_equal(word_of(region, 8192), 0);
    put_word(region, 8192, 2);
    assert_int_equal(peek(own.at + 8192), 2);
    assert_int_equal(fcntl(own.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL), 0);
    put_word(region, 8192, 3);
    assert_int_equal(peek(own.at + 8192), 3);
    end_world(&world);
    drop_own(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_donor_has_is_what_others_read_and_write),
        cmocka_unit_test(each_of_the_nodes_takes_some),
        cmocka_unit_test(an_embedded_node_takes_any_memory),
        cmocka_unit_test(each_lack_of_a_descriptor_is_said),
        cmocka_unit_test(a_spec_that_says_more_is_refused),
        cmocka_unit_test(memory_that_is_not_there_or_not_to_be_written_is_refused),
        cmocka_unit_test(it_counts_as_the_nodes_memory_of_regions),
        cmocka_unit_test(what_is_offered_in_vain_is_given_back),
        cmocka_unit_test(it_is_neither_moved_resized_nor_mapped),
        cmocka_unit_test(rights_are_of_who_goes_through_nodes),
        cmocka_unit_test(what_is_over_is_the_donors_as_it_was),
        cmocka_unit_test(it_outlives_its_client_and_its_descriptor),
        cmocka_unit_test(who_tears_pages_out_has_zeros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
