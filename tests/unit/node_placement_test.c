/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device, memory and processors a lane gets on machines of several NUMA nodes: such machines
 * are folders here, with the kernel's files in them.
 */
#include "node/placement.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fd.h"
#include "memory/memfd.h"
#include "support/machine.h"

/* ---- machines ---- */

/* Two nodes of eight processors, and mlx5_0 at the second, mlx5_1 at the first. */
static void two_nodes(void)
{
    put(NODES "/online", "0-1\n");
    put(NODES "/node0/cpulist", "0-3,8-11\n");
    put(NODES "/node1/cpulist", "4-7,12-15\n");
    put(NODES "/node0/distance", "10 21\n");
    put(NODES "/node1/distance", "21 10\n");
    put(DEVICES "/mlx5_0/device/numa_node", "1\n");
    put(DEVICES "/mlx5_1/device/numa_node", "0\n");
}

static void allow(struct placement_facts *facts, int from, int to)
{
    CPU_ZERO(&facts->allowed);
    for (int cpu = from; cpu <= to; cpu++)
        CPU_SET((size_t)cpu, &facts->allowed);
}

/* ---- what the kernel shows ---- */

static void a_machine_is_read(void **state)
{
    static struct numa numa;

    (void)state;
    two_nodes();
    numa_read(root, &numa);
    assert_int_equal(numa_count(&numa), 2);
    assert_int_equal(CPU_COUNT(&numa.cpus[0]), 8);
    assert_true(CPU_ISSET(11, &numa.cpus[0]) && !CPU_ISSET(4, &numa.cpus[0]));
    assert_true(CPU_ISSET(4, &numa.cpus[1]) && CPU_ISSET(15, &numa.cpus[1]));
    assert_int_equal(numa_distance(&numa, 0, 1), 21);
    assert_int_equal(numa_distance(&numa, 1, 1), 10);
    assert_true(numa_distance(&numa, 0, 7) > 255);
    assert_int_equal(numa_of_device(root, "mlx5_0"), 1);
    assert_int_equal(numa_of_device(root, "mlx5_1"), 0);
}

/* Numbers with gaps; distances come for those that are there. */
static void nodes_have_gaps(void **state)
{
    static struct numa numa;

    (void)state;
    put(NODES "/online", "0,8\n");
    put(NODES "/node0/cpulist", "0-1\n");
    put(NODES "/node8/cpulist", "\n");
    put(NODES "/node0/distance", "10 40\n");
    put(NODES "/node8/distance", "40 10\n");
    numa_read(root, &numa);
    assert_int_equal(numa_count(&numa), 2);
    assert_true(numa_has(&numa, 8) && !numa_has(&numa, 1));
    assert_int_equal(numa_distance(&numa, 0, 8), 40);
    assert_int_equal(CPU_COUNT(&numa.cpus[8]), 0);
}

static void rubbish_is_one_node(void **state)
{
    static const char *const lists[] = {"", "\n", "-3", "x", "9999999999999999999", "64-70"};
    static struct numa numa;

    (void)state;
    numa_read(root, &numa); /* there is nothing */
    assert_int_equal(numa_count(&numa), 1);
    for (size_t i = 0; i < ARRAY_LENGTH(lists); i++) {
        put(NODES "/online", lists[i]);
        put(NODES "/node0/cpulist", lists[i]);
        put(NODES "/node0/distance", lists[i]);
        numa_read(root, &numa);
        assert_int_equal(numa_count(&numa), 1);
        assert_true(numa_has(&numa, 0));
    }
    put(DEVICES "/mlx5_0/device/numa_node", "-1\n");
    put(DEVICES "/mlx5_1/device/numa_node", "");
    put(DEVICES "/mlx5_2/device/numa_node", "64\n");
    assert_int_equal(numa_of_device(root, "mlx5_0"), NUMA_NONE);
    assert_int_equal(numa_of_device(root, "mlx5_1"), NUMA_NONE);
    assert_int_equal(numa_of_device(root, "mlx5_2"), NUMA_NONE);
    assert_int_equal(numa_of_device(root, "rxe1"), NUMA_NONE);
    assert_int_equal(numa_of_device(root, ""), NUMA_NONE);
    assert_int_equal(numa_of_device(root, "../infiniband/mlx5_0"), NUMA_NONE);
}

/* An address is a device's by its GIDs, or else by the card that has it. */
static void an_address_has_a_device(void **state)
{
    (void)state;
    two_nodes();
    put(DEVICES "/mlx5_0/ports/1/gids/0", "fe80:0000:0000:0000:0202:c9ff:fe00:0001\n");
    put(DEVICES "/mlx5_0/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a63:0001\n");
    put(DEVICES "/mlx5_1/ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:0a63:0101\n");
    assert_int_equal(numa_of_address(root, "10.99.0.1"), 1);
    assert_int_equal(numa_of_address(root, "10.99.1.1"), 0);
    assert_int_equal(numa_of_address(root, "10.99.1.2"), NUMA_NONE);
    assert_int_equal(numa_of_address(root, "rubbish"), NUMA_NONE);
    assert_int_equal(numa_of_address(root, "127.0.0.1"), NUMA_NONE);
    put("/sys/class/net/lo/device/numa_node", "1\n");
    assert_int_equal(numa_of_address(root, "127.0.0.1"), 1);
}

/* What stands for a link of the kernel's: `to` is below the root. */
static void put_link(const char *path, const char *to)
{
    char at[2 * PATH_BYTES], target[2 * PATH_BYTES];

    put(path, "");
    (void)snprintf(at, sizeof(at), "%s%s", root, path);
    (void)snprintf(target, sizeof(target), "%s%s", root, to);
    assert_int_equal(unlink(at), 0);
    assert_int_equal(symlink(target, at), 0);
}

/* A virtual machine's card is one above the device of the interface; what is software is where the
 * interface is that it names. */
static void a_device_is_where_its_card_is(void **state)
{
    (void)state;
    two_nodes();
    put("/sys/devices/pci0/0000:41:00.0/numa_node", "1\n");
    put("/sys/devices/pci0/0000:41:00.0/virtio3/status", "0x0000000f\n");
    put_link("/sys/class/net/nigh7/device", "/sys/devices/pci0/0000:41:00.0/virtio3");
    put(DEVICES "/rxe1/parent", "nigh7\n");
    put(DEVICES "/rxe2/parent", "nigh8\n"); /* of which nobody knows */
    put(DEVICES "/rxe3/parent", "../nigh7\n");
    put(DEVICES "/rxe4/parent", "\n");
    assert_int_equal(numa_of_device(root, "rxe1"), 1);
    assert_int_equal(numa_of_device(root, "rxe2"), NUMA_NONE);
    assert_int_equal(numa_of_device(root, "rxe3"), NUMA_NONE);
    assert_int_equal(numa_of_device(root, "rxe4"), NUMA_NONE);
    put(DEVICES "/rxe1/ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:0a63:0001\n");
    assert_int_equal(numa_of_address(root, "10.99.0.1"), 1);
}

/* ---- where lanes belong ---- */

struct scene {
    struct numa numa;
    struct placement_facts facts;
    struct placement lanes[LIMIT_LANES];
};

static void make(struct scene *scene, uint32_t lanes, uint32_t devices)
{
    memset(scene, 0, sizeof(*scene));
    numa_read(root, &scene->numa);
    scene->facts =
        (struct placement_facts){.numa = &scene->numa, .lanes = lanes, .device_count = devices};
    allow(&scene->facts, 0, 15);
    for (uint32_t i = 0; i < devices; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "mlx5_%u", i);
        scene->facts.devices[i] = numa_of_device(root, name);
    }
    memset(scene->lanes, 0xff, sizeof(scene->lanes));
}

/* Memory and thread follow the device. */
static void lanes_are_near_their_devices(void **state)
{
    static struct scene scene;

    (void)state;
    two_nodes();
    make(&scene, 4, 2);
    placement_make(&scene.facts, scene.lanes);
    for (uint32_t i = 0; i < 4; i++) {
        const struct placement *lane = &scene.lanes[i];
        int node = i % 2 == 0 ? 1 : 0;

        assert_int_equal(lane->devices[0], i % 2);
        assert_int_equal(lane->devices[1], (i + 1) % 2);
        assert_int_equal(lane->numa_node, node);
        assert_true(lane->is_bound && CPU_EQUAL(&lane->cpus, &scene.numa.cpus[node]));
    }
}

/* A process that is kept at one node uses its device; the other is for when that is lost. */
static void a_process_at_one_node_takes_the_device_there(void **state)
{
    static struct scene scene;

    (void)state;
    two_nodes();
    make(&scene, 2, 2);
    allow(&scene.facts, 0, 3); /* of node 0, where mlx5_1 is */
    placement_make(&scene.facts, scene.lanes);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(scene.lanes[i].devices[0], 1);
        assert_int_equal(scene.lanes[i].devices[1], 0);
        assert_int_equal(scene.lanes[i].numa_node, 0);
        assert_true(scene.lanes[i].is_bound);
        assert_int_equal(CPU_COUNT(&scene.lanes[i].cpus), 4);
    }
}

/* No processor is near any: all are used, the memory is near them, and threads stay free. */
static void a_process_far_from_all_devices_uses_all(void **state)
{
    static struct scene scene;

    (void)state;
    two_nodes();
    put(NODES "/online", "0-2\n");
    put(NODES "/node2/cpulist", "16-19\n");
    put(NODES "/node2/distance", "21 21 10\n");
    make(&scene, 2, 2);
    allow(&scene.facts, 16, 19);
    placement_make(&scene.facts, scene.lanes);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(scene.lanes[i].devices[0], i);
        assert_int_equal(scene.lanes[i].numa_node, 1 - (int)i);
        assert_false(scene.lanes[i].is_bound);
    }
}

/* Four devices at three nodes: who loses one goes to the nearest of the others. */
static void the_next_device_is_the_nearest(void **state)
{
    static struct scene scene;

    (void)state;
    put(NODES "/online", "0-2\n");
    put(NODES "/node0/cpulist", "0-3\n");
    put(NODES "/node1/cpulist", "4-7\n");
    put(NODES "/node2/cpulist", "8-11\n");
    put(NODES "/node0/distance", "10 30 20\n");
    put(NODES "/node1/distance", "30 10 20\n");
    put(NODES "/node2/distance", "20 20 10\n");
    put(DEVICES "/mlx5_0/device/numa_node", "0\n");
    put(DEVICES "/mlx5_1/device/numa_node", "1\n");
    put(DEVICES "/mlx5_2/device/numa_node", "2\n");
    put(DEVICES "/mlx5_3/device/numa_node", "0\n");
    make(&scene, 4, 4);
    placement_make(&scene.facts, scene.lanes);
    {
        static const uint32_t wanted[4][4] = {
            {0, 3, 2, 1}, {1, 2, 3, 0}, {2, 3, 0, 1}, {3, 0, 2, 1}};

        for (uint32_t i = 0; i < 4; i++)
            assert_memory_equal(scene.lanes[i].devices, wanted[i], sizeof(wanted[i]));
    }
}

/* All lanes at the only device would take every processor there: they stay where the system has
 * them, and so they do with one lane more than half. */
static void a_node_is_not_filled_with_lanes(void **state)
{
    static struct scene scene;

    (void)state;
    two_nodes();
    make(&scene, 8, 1);
    placement_make(&scene.facts, scene.lanes);
    assert_int_equal(scene.lanes[7].numa_node, 1);
    assert_false(scene.lanes[0].is_bound || scene.lanes[7].is_bound);
    make(&scene, 4, 1); /* half of eight */
    placement_make(&scene.facts, scene.lanes);
    assert_true(scene.lanes[0].is_bound && scene.lanes[3].is_bound);
}

/* One node, or devices of which nobody says where they are: the lanes are spread, and that is all.
 */
static void nothing_is_made_of_what_is_not_known(void **state)
{
    static struct scene scene;

    (void)state;
    make(&scene, 4, 3);
    placement_make(&scene.facts, scene.lanes);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t n = 0; n < 3; n++)
            assert_int_equal(scene.lanes[i].devices[n], (i + n) % 3);
        assert_int_equal(scene.lanes[i].numa_node, NUMA_NONE);
        assert_false(scene.lanes[i].is_bound);
    }
    two_nodes();
    make(&scene, 2, 3); /* mlx5_2 is not in the machine */
    scene.facts.devices[0] = scene.facts.devices[1] = NUMA_NONE;
    placement_make(&scene.facts, scene.lanes);
    assert_int_equal(scene.lanes[1].devices[0], 1);
    assert_int_equal(scene.lanes[1].devices[2], 0);
    assert_int_equal(scene.lanes[1].numa_node, NUMA_NONE);
    make(&scene, 2, 0);
    placement_make(&scene.facts, scene.lanes);
    assert_int_equal(scene.lanes[1].numa_node, NUMA_NONE);
    assert_false(scene.lanes[1].is_bound);
}

/* ---- memory ---- */

/* What this machine's kernel says of a file's mapping: "prefer:0", as numactl shows it. */
static bool maps_say(const char *name, const char *policy)
{
    FILE *file = fopen("/proc/self/numa_maps", "re");
    char line[1024];
    bool found = false;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        found |= strstr(line, name) != NULL && strstr(line, policy) != NULL;
    if (file != NULL)
        (void)fclose(file);
    return found;
}

/* Each node of this machine, if only one: the file is told, and its pages come from there. */
static void memory_is_asked_of_a_node(void **state)
{
    const uint64_t bytes = UINT64_C(1) << 20;
    static struct numa numa;

    (void)state;
    if (access("/proc/self/numa_maps", R_OK) != 0)
        SUPPORT_SKIP("a kernel that knows no NUMA nodes");
    numa_read("", &numa);
    for (int node = 0; node < NUMA_NODES; node++) {
        char policy[32];
        void *memory;
        int fd;

        if (!numa_has(&numa, node))
            continue;
        (void)snprintf(policy, sizeof(policy), "prefer:%d", node);
        assert_int_equal(memfd_create_sealed("nigh-numa-test", bytes, MEMFD_BARE, &fd), NIGH_OK);
        assert_int_equal(numa_prefer(fd, bytes, node), NIGH_OK);
        assert_int_equal(memfd_populate(fd, bytes), NIGH_OK);
        assert_int_equal(memfd_map(fd, bytes, MEMFD_WRITABLE | MEMFD_PREFAULT, &memory), NIGH_OK);
        assert_true(maps_say("nigh-numa-test", policy) ||
                    maps_say("nigh-numa-test", "prefer=relative"));
        assert_int_equal(numa_of_page(memory), node);
        assert_int_equal(numa_of_page((uint8_t *)memory + bytes - 1), node);
        memfd_unmap(memory, bytes);
        fd_close(&fd);
    }
}

static void a_node_that_is_not_there_is_refused(void **state)
{
    int fd;

    (void)state;
    assert_int_equal(memfd_create_sealed("nigh-numa-test", 4096, MEMFD_BARE, &fd), NIGH_OK);
    assert_int_equal(numa_prefer(fd, 4096, NUMA_NODES - 1), NIGH_UNSUPPORTED);
    fd_close(&fd);
    assert_int_equal(numa_of_page(NULL), NUMA_NONE);
}

#define MACHINE_TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MACHINE_TEST(a_machine_is_read),
        MACHINE_TEST(nodes_have_gaps),
        MACHINE_TEST(rubbish_is_one_node),
        MACHINE_TEST(an_address_has_a_device),
        MACHINE_TEST(a_device_is_where_its_card_is),
        MACHINE_TEST(lanes_are_near_their_devices),
        MACHINE_TEST(a_process_at_one_node_takes_the_device_there),
        MACHINE_TEST(a_process_far_from_all_devices_uses_all),
        MACHINE_TEST(the_next_device_is_the_nearest),
        MACHINE_TEST(a_node_is_not_filled_with_lanes),
        MACHINE_TEST(nothing_is_made_of_what_is_not_known),
        cmocka_unit_test(memory_is_asked_of_a_node),
        cmocka_unit_test(a_node_that_is_not_there_is_refused),
    };

    return cmocka_run_group_tests_name("node-placement", tests, NULL, NULL);
}
