/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hundred nodes with 100,000 objects: nothing is lost, nobody pulls an object twice, and what it
 * costs in memory. NIGH_SIM_NODES and NIGH_SIM_OBJECTS change the numbers.
 */
#include "support/support.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "world.h"

#define NODES     100u
#define OBJECTS   100000u
#define SAMPLE    4000u
#define TOGETHER  200u /* puts or gets under way at once */
#define WAIT_US   UINT64_C(20000000)
#define PUT_BYTES 480u

/* What a node may cost besides its extents. It is 13.0 MiB, of which index and
 * directory are less than half a MiB: most grows with its 99 links. */
#define NODE_BYTES (UINT64_C(16) << 20)
/* Of directory for an object, at its home. It is 200. */
#define KEY_BYTES 256u

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file != NULL) {
        if (fscanf(file, "%llu %llu", &pages, &resident) != 2) {
            resident = 0;
        }
        fclose(file);
    }
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint32_t number_of(const char *name, uint32_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? (uint32_t)strtoul(text, NULL, 0) : otherwise;
}

static void drain(struct world *world, uint32_t left)
{
    uint64_t end_us = world->now_us + WAIT_US;

    while (client_pending(world) > left) {
        WORLD_CHECK(world, world->now_us < end_us, "%u operations never end",
                    client_pending(world));
        world_step(world, end_us);
    }
    client_release_all(world);
}

/* Until all links are up and all that is held is told. */
static void wait_idle(struct world *world)
{
    uint64_t end_us = world->now_us + WAIT_US;

    for (;;) {
        uint64_t links = 0, keys = 0;

        for (uint32_t n = 0; n < world->node_count; n++) {
            struct exchange_stats stats;

            exchange_stats(world->nodes[n].lane[0].exchange, &stats);
            links += stats.links_up;
            keys += stats.directory.keys;
        }
        if (links == (uint64_t)world->node_count * (world->node_count - 1) &&
            keys == world->put_count && world_is_idle(world)) {
            return;
        }
        WORLD_CHECK(world, world->now_us < end_us, "%llu links are up, %llu keys are known",
                    (unsigned long long)links, (unsigned long long)keys);
        world_run(world, 2000);
    }
}

static void put_all(struct world *world, uint32_t objects)
{
    for (uint32_t key = 0; key < objects; key++) {
        client_put(world, key % world->node_count, 0, key, 8 + key % PUT_BYTES, key % 32);
        if (client_pending(world) >= TOGETHER) {
            drain(world, 0);
        }
    }
    drain(world, 0);
    for (uint32_t serial = 1; serial <= world->put_count; serial++) {
        WORLD_CHECK(world, world->puts[serial].sealed, "put %u failed", serial);
    }
}

/* Gets by random nodes, each by two clients at once, and again; every one succeeds. How many pairs
 * of node and key there were that were not there before. */
static uint32_t get_sample(struct world *world, uint32_t objects)
{
    uint32_t pulls = 0;

    for (uint32_t n = 0; n < SAMPLE; n++) {
        uint32_t key = (uint32_t)world_below(world, objects);
        uint32_t node = (uint32_t)world_below(world, world->node_count);

        pulls += client_serial_here(world, node, key) == 0;
        (void)client_get(world, node, 0, key, WAIT_US, 0);
        (void)client_get(world, node, 1, key, WAIT_US, 0);
        (void)client_get(world, node, 1, key, WAIT_US, 0);
        if (client_pending(world) >= TOGETHER || n + 1 == SAMPLE) {
            drain(world, 0);
        }
    }
    return pulls;
}

/* `grown`: what the process has more than before. `bounded`: it is looked at, too. */
static void look_at_memory(const struct world *world, uint64_t grown, bool bounded)
{
    uint64_t extents = 0, index = 0, directory = 0, keys = 0;

    for (uint32_t n = 0; n < world->node_count; n++) {
        struct exchange_stats stats;

        exchange_stats(world->nodes[n].lane[0].exchange, &stats);
        extents += world->nodes[n].set->memory_bytes;
        index += index_size_bytes(world->entries);
        directory += stats.directory.bytes;
        keys += stats.directory.keys;
    }
    printf(
        "# a node: %llu KiB besides its extents (%llu KiB), of these %llu KiB of index, %llu KiB "
        "of directory\n",
        (unsigned long long)((grown - extents) / world->node_count >> 10),
        (unsigned long long)(extents / world->node_count >> 10),
        (unsigned long long)(index / world->node_count >> 10),
        (unsigned long long)(directory / world->node_count >> 10));
    printf("# an object: %llu bytes of directory at its home\n",
           (unsigned long long)(directory / keys));
    if (bounded) {
        assert_true(grown <= extents + NODE_BYTES * world->node_count);
        assert_true(directory <= KEY_BYTES * keys);
    }
}

static void a_hundred_nodes_lose_nothing(void **state)
{
    uint32_t nodes = number_of("NIGH_SIM_NODES", NODES);
    uint32_t objects = number_of("NIGH_SIM_OBJECTS", OBJECTS);
    struct world_options options = {
        .seed = 100,
        .nodes = nodes,
        .lanes = 1,
        .extents = 2,
        .entries = objects / nodes * 2 + 512,
        .max_keys = objects / nodes * 2 + 512,
        .max_puts = objects,
        .quantum_us = 200,
    };
    struct world_totals totals = {0};
    uint64_t before = resident_bytes(), begin_us = support_now_us(), pulls = 0;
    struct world *world = world_create(&options, &totals);
    uint32_t wanted;

    (void)state;
    wait_idle(world);
    printf("# %u nodes, all links up after %llu ms (%.1f s of this machine)\n", nodes,
           (unsigned long long)(world->now_us - world->begin_us) / 1000,
           (double)(support_now_us() - begin_us) / 1e6);
    put_all(world, objects);
    wait_idle(world);
    printf("# %u objects, all known to their homes (%.1f s)\n", objects,
           (double)(support_now_us() - begin_us) / 1e6);
    wanted = get_sample(world, objects);
    wait_idle(world);
    world_check_all(world);
    for (uint32_t n = 0; n < nodes; n++) {
        struct exchange_stats stats;

        exchange_stats(world->nodes[n].lane[0].exchange, &stats);
        pulls += stats.pulls_done;
        totals.evictions += stats.conflicts;
    }
    /* With other numbers it costs something else. */
    look_at_memory(world, resident_bytes() - before, nodes == NODES && objects == OBJECTS);
    world_destroy(world);
    printf("# %llu gets, %llu well; %u pulls wanted, %llu done; %llu events, %llu steps, %.1f s\n",
           (unsigned long long)totals.gets, (unsigned long long)totals.gets_ok, wanted,
           (unsigned long long)pulls, (unsigned long long)totals.events,
           (unsigned long long)totals.steps, (double)(support_now_us() - begin_us) / 1e6);
    assert_int_equal(totals.gets_ok, totals.gets);
    assert_int_equal(totals.evictions, 0);
    /* A key may be asked for twice in one batch before it is here. */
    assert_true(pulls <= wanted);
    assert_true(pulls + SAMPLE / 100 >= wanted);
    node_forget_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_nodes_lose_nothing),
    };

    mallopt(M_MMAP_THRESHOLD, 65536);
    mallopt(M_PERTURB, 0); /* meson has it fill, and so touch, all that is allocated */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
