/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces, end to end: nighds that are each other's peers, over TCP, and clients of each. What one
 * writes all see; words that all add to are exact; locks exclude; a node that is killed costs what
 * it had, and nobody else anything; a client that dies or stands still, while it holds a lock,
 * costs the others no more than that.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nigh/space.h"
#include "support/node_fixture.h"

#define SECOND_US UINT64_C(1000000)
#define WAIT_US   (20 * SECOND_US)
#define NODES     3u
#define MIB       (UINT64_C(1) << 20)
#define DEAD_MS   "2000"

struct world {
    uint32_t count;
    struct node_fixture node[NODES];
    nigh_client *client[NODES];
    char members[128], key[108], state[NODES][108], rank[NODES][12];
};

static nigh_client *attach(const struct world *world, uint32_t n)
{
    nigh_client_options options = {.struct_size = sizeof options,
                                   .socket_path = world->node[n].socket};
    nigh_client *client = NULL;

    assert_int_equal(nigh_client_open(&options, &client), NIGH_OK);
    return client;
}

static void start_node(struct world *world, uint32_t n, bool again)
{
    const char *alone[] = {"--lanes", "1", "--space-memory", "16M", NULL};
    const char *flags[] = {"--lanes",       "1",         "--space-memory", "16M",
                           "--join",        world->members, "--member",    world->rank[n],
                           "--cluster-key", world->key,  "--state",        world->state[n],
                           "--dead-ms",     DEAD_MS,     NULL};

    if (again) {
        node_fixture_start_again(&world->node[n], "32M", world->count > 1 ? flags : alone);
    } else {
        node_fixture_start(&world->node[n], "32M", world->count > 1 ? flags : alone);
    }
}

static void begin_world(struct world *world, uint32_t count)
{
    size_t length = 0;

    memset(world, 0, sizeof *world);
    world->count = count;
    support_path(world->key, sizeof world->key, "key");
    support_put_file(support_dir(), "/key",
                     "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n");
    assert_int_equal(chmod(world->key, 0600), 0);
    for (uint32_t n = 0; n < count; n++) {
        char name[32];

        length += (size_t)snprintf(world->members + length, sizeof world->members - length,
                                   "%s127.0.0.1:%d", n > 0 ? "," : "", support_port());
        snprintf(name, sizeof name, "state-%d", support_port());
        support_path(world->state[n], sizeof world->state[n], name);
        snprintf(world->rank[n], sizeof world->rank[n], "%u", n);
    }
    for (uint32_t n = 0; n < count; n++) {
        start_node(world, n, false);
    }
    for (uint32_t n = 0; n < count; n++) {
        world->client[n] = attach(world, n);
    }
}

static void end_world(struct world *world)
{
    for (uint32_t n = 0; n < world->count; n++) {
        nigh_client_close(world->client[n]);
    }
    for (uint32_t n = 0; n < world->count; n++) {
        node_fixture_stop(&world->node[n]);
    }
}

/* What a test does is to go well; else its client says why it did not. */
static void claim(nigh_client *client, nigh_status status)
{
    if (status != NIGH_OK) {
        char why[256];

        nigh_client_error(client, why, sizeof why);
        fail_msg("%s: %s", nigh_status_name(status), why);
    }
}

static nigh_space *create(nigh_client *client, const char *name)
{
    nigh_space_spec spec = {.struct_size = sizeof spec, .name = name, .home_size = MIB};
    nigh_space *space = NULL;

    claim(client, nigh_space_create(client, &spec, WAIT_US, &space));
    return space;
}

static nigh_space *open_space(nigh_client *client, const char *name, uint32_t access)
{
    nigh_space *space = NULL;

    claim(client, nigh_space_open(client, name, access, WAIT_US, &space));
    return space;
}

static void open_all(struct world *world, const char *name, nigh_space *spaces[NODES])
{
    spaces[0] = create(world->client[0], name);
    for (uint32_t n = 1; n < world->count; n++) {
        spaces[n] = open_space(world->client[n], name, NIGH_SPACE_ALL);
    }
}

static nigh_space_address alloc_at(const struct world *world, uint32_t n, nigh_space *space,
                                   uint64_t size, uint32_t rank)
{
    nigh_space_address address = 0;

    claim(world->client[n],
          nigh_space_alloc(space, size, NIGH_SPACE_ON(rank), WAIT_US, &address));
    assert_int_equal(address >> 48, rank);
    return address;
}

static void write_all(const struct world *world, uint32_t n, nigh_space *space,
                      nigh_space_address address, const void *bytes, uint64_t size)
{
    nigh_space_address failed = 0;

    claim(world->client[n], nigh_space_write(space, address, bytes, size, WAIT_US));
    claim(world->client[n], nigh_space_flush(space, WAIT_US, &failed));
}

static uint64_t get(const struct world *world, uint32_t n, nigh_space *space,
                    nigh_space_address address)
{
    uint64_t value = 0;

    claim(world->client[n], nigh_space_read(space, address, &value, sizeof value, WAIT_US));
    return value;
}

/* ---- one node ------------------------------------------------------------- */

static void one_node_alone_has_spaces(void **state)
{
    struct world world;
    nigh_space *space;
    nigh_space_address address = 0;
    uint8_t bytes[3000], read[3000];
    uint64_t old = 0, seed = 1;

    (void)state;
    begin_world(&world, 1);
    space = create(world.client[0], "alone");
    claim(world.client[0], nigh_space_alloc(space, sizeof bytes, 0, WAIT_US, &address));
    for (size_t n = 0; n < sizeof bytes; n++) {
        bytes[n] = (uint8_t)support_random(&seed);
    }
    memset(read, 1, sizeof read);
    claim(world.client[0], nigh_space_read(space, address, read, sizeof read, WAIT_US));
    for (size_t n = 0; n < sizeof read; n++) {
        assert_int_equal(read[n], 0);
    }
    claim(world.client[0], nigh_space_write(space, address + 5, bytes, 2900, WAIT_US));
    claim(world.client[0], nigh_space_read(space, address + 5, read, 2900, WAIT_US));
    assert_memory_equal(read, bytes, 2900);
    claim(world.client[0], nigh_space_flush(space, WAIT_US, NULL));
    claim(world.client[0], nigh_space_read(space, address + 5, read, 2900, WAIT_US));
    assert_memory_equal(read, bytes, 2900);
    claim(world.client[0], nigh_space_fetch_add(space, address + 2992, 5, WAIT_US, &old));
    assert_int_equal(old, 0);
    assert_int_equal(get(&world, 0, space, address + 2992), 5);
    claim(world.client[0], nigh_space_free(space, address, WAIT_US));
    assert_int_equal(nigh_space_read(space, address, read, 1, WAIT_US), NIGH_NOT_FOUND);
    nigh_space_close(space);
    end_world(&world);
}

/* ---- three ---------------------------------------------------------------- */

static void what_one_writes_all_see(void **state)
{
    struct world world;
    nigh_space *spaces[NODES];

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "seen", spaces);
    for (uint32_t home = 0; home < NODES; home++) {
        nigh_space_address address = alloc_at(&world, 0, spaces[0], 4096, home);

        for (uint32_t round = 0; round < 20; round++) {
            uint32_t writer = round % NODES;
            uint64_t value = 1000 * home + round + 1;

            write_all(&world, writer, spaces[writer], address + 8 * (round % 512), &value, 8);
            for (uint32_t n = 0; n < NODES; n++) {
                assert_int_equal(get(&world, n, spaces[n], address + 8 * (round % 512)), value);
            }
        }
    }
    end_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_node_alone_has_spaces),
        cmocka_unit_test(what_one_writes_all_see),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
