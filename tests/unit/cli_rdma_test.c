/* SPDX-License-Identifier: Apache-2.0 */
/* What nigh doctor says of RDMA devices' places and packets, on machines that are folders here. */
#include "cli/rdma.h"

#include <stdio.h>
#include <string.h>

#include <dlfcn.h>
#include <unistd.h>

#include "base/check.h"
#include "support/machine.h"

#define LIMIT_LOW  (UINT64_C(8) << 20)
#define LIMIT_HIGH (UINT64_C(1) << 30)

/* Some library, under this name. */
static void put_library(const char *name)
{
    char path[2 * PATH_BYTES];
    Dl_info info;

    assert_true(dladdr((void *)(uintptr_t)_cmocka_run_group_tests, &info) != 0);
    (void)snprintf(path, sizeof(path), "/lib/%s", name);
    put(path, "");
    (void)snprintf(path, sizeof(path), "%s/lib/%s", root, name);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(info.dli_fname, path), 0);
}

/* That with so much memory that may be locked there is no RDMA, for this reason. */
static void expect_missing(uint64_t limit_bytes, const char *why, const char *remedy)
{
    struct rdma_finding found;

    rdma_look(root, limit_bytes, &found);
    assert_true(found.is_missing);
    assert_non_null(strstr(found.text, "no RDMA here, so tcp: "));
    assert_non_null(strstr(found.text, why));
    assert_non_null(strstr(found.remedy, remedy));
}

/* One after the other is there; what is missing next is said. */
static void what_is_missing_is_said(void **state)
{
    struct rdma_finding found;

    (void)state;
    expect_missing(LIMIT_HIGH, "no device", "");
    put(DEVICES "/mlx5_0/node_type", "1: CA\n");
    expect_missing(LIMIT_HIGH, "port 1 of mlx5_0 is not there", "subnet manager");
    put(DEVICES "/mlx5_0/ports/1/state", "2: INIT\n");
    expect_missing(LIMIT_HIGH, "port 1 of mlx5_0 is INIT", "bring its link up");
    put(DEVICES "/mlx5_0/ports/2/state", "4: ACTIVE\n");
    expect_missing(LIMIT_HIGH, "mlx5_0 is there, but libibverbs.so.1 is not", "libibverbs1");
    put_library("libibverbs.so.1");
    expect_missing(LIMIT_HIGH, "mlx5_0 is there, but librdmacm.so.1 is not", "librdmacm1");
    put_library("librdmacm.so.1");
    expect_missing(LIMIT_HIGH, "/dev/infiniband/rdma_cm cannot be used", "modprobe rdma_ucm");
    put("/dev/infiniband/rdma_cm", "");
    expect_missing(LIMIT_LOW, "8.0 MiB may be locked", "ulimit -l");
    rdma_look(root, LIMIT_HIGH, &found);
    assert_false(found.is_missing);
    assert_true(found.has_device);
    assert_non_null(strstr(found.text, "RDMA can be used: port 2 of mlx5_0 is active"));
}

static void packets_that_are_small_are_said(void **state)
{
    static const struct {
        const char *mtu, *text;
    } cases[] = {
        {"1500\n", "mlx5_0 carries 1024 bytes, and could 4096: the MTU of eth7 is 1500"},
        {"4191\n", "carries 2048 bytes"},
        {"300\n", "carries 256 bytes"},
        {"4192\n", NULL},
        {"9000\n", NULL},
    };
    struct rdma_finding found;

    (void)state;
    assert_false(rdma_look_mtu(root, &found));
    put(DEVICES "/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth7\n");
    for (uint32_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        put("/sys/class/net/eth7/mtu", cases[i].mtu);
        put(DEVICES "/mlx5_0/ports/1/gid_attrs/types/0", "RoCE v2\n");
        assert_int_equal(rdma_look_mtu(root, &found), cases[i].text != NULL);
        assert_true(cases[i].text == NULL || strstr(found.text, cases[i].text) != NULL);
        put(DEVICES "/mlx5_0/ports/1/gid_attrs/types/0", "IB/RoCE v1\n");
        assert_int_equal(rdma_look_mtu(root, &found), cases[i].text != NULL);
        put(DEVICES "/mlx5_0/ports/1/gid_attrs/types/0", "IB\n"); /* its MTU is not there */
        assert_false(rdma_look_mtu(root, &found));
    }
}

static void memory_that_is_far_is_said(void **state)
{
    struct rdma_finding found;

    (void)state;
    assert_false(rdma_look_where(root, 0, &found));
    put(NODES "/online", "0-1\n");
    assert_false(rdma_look_where(root, 0, &found)); /* there is no device */
    put(DEVICES "/mlx5_0/device/numa_node", "1\n");
    put(DEVICES "/rxe0/ports/1/state", "4: ACTIVE\n"); /* at no node */
    assert_true(rdma_look_where(root, 0, &found));
    assert_false(found.is_missing);
    assert_non_null(strstr(found.text, "2 NUMA nodes, mlx5_0 at node 1: no memory"));
    assert_true(rdma_look_where(root, UINT64_C(3) << 30, &found));
    assert_true(found.is_missing);
    assert_non_null(strstr(found.text, "3.0 GiB of the node's memory is on another"));
    assert_non_null(strstr(found.remedy, "numactl"));
    put(NODES "/online", "0\n");
    assert_false(rdma_look_where(root, 0, &found));
}

/* More devices than a line has room for: it is cut, not overrun. */
static void many_devices_are_cut(void **state)
{
    struct rdma_finding found;

    (void)state;
    put(NODES "/online", "0-1\n");
    for (uint32_t i = 0; i < 20; i++) {
        char path[PATH_BYTES];

        (void)snprintf(path, sizeof(path), DEVICES "/mlx5_%020u/device/numa_node", i);
        put(path, "0\n");
    }
    assert_true(rdma_look_where(root, 1, &found));
    assert_non_null(strstr(found.text, "mlx5_0"));
}

static void packets_that_are_lost_are_said(void **state)
{
    struct rdma_finding found;

    (void)state;
    assert_false(rdma_look_lost(root, &found));
    put(DEVICES "/mlx5_0/ports/1/hw_counters/out_of_sequence", "0\n");
    put(DEVICES "/mlx5_0/ports/1/hw_counters/np_cnp_sent", "77\n");
    assert_false(rdma_look_lost(root, &found));
    put(DEVICES "/mlx5_0/ports/1/hw_counters/local_ack_timeout_err", "12\n");
    put(DEVICES "/mlx5_0/ports/1/hw_counters/out_of_sequence", "3\n");
    assert_true(rdma_look_lost(root, &found));
    assert_non_null(strstr(found.text, "mlx5_0"));
    assert_non_null(strstr(found.text, "out_of_sequence 3, local_ack_timeout_err 12"));
    assert_non_null(strstr(found.remedy, "--fabric-tos"));
}

static void devices_without_an_address_are_said(void **state)
{
    struct rdma_finding found;

    (void)state;
    assert_false(rdma_look_gid(root, &found));
    put(DEVICES "/mlx5_0/ports/1/gid_attrs/types/0", "IB/RoCE v1\n");
    put(DEVICES "/mlx5_0/ports/1/gids/0", "fe80:0000:0000:0000:0202:c9ff:fe00:0001\n");
    assert_true(rdma_look_gid(root, &found));
    assert_non_null(strstr(found.text, "mlx5_0 has no RoCE v2 address (GID)"));
    assert_non_null(strstr(found.remedy, "ip addr add"));
    put(DEVICES "/mlx5_0/ports/1/gid_attrs/types/1", "RoCE v2\n");
    put(DEVICES "/mlx5_0/ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n");
    assert_true(rdma_look_gid(root, &found));
    put(DEVICES "/mlx5_0/ports/1/gid_attrs/types/2", "IB/RoCE v1\n");
    put(DEVICES "/mlx5_0/ports/1/gids/2", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
    assert_true(rdma_look_gid(root, &found)); /* nodes dial by RoCE v2 */
    put(DEVICES "/mlx5_0/ports/1/gid_attrs/types/3", "RoCE v2\n");
    put(DEVICES "/mlx5_0/ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
    assert_false(rdma_look_gid(root, &found));
    put(DEVICES "/mlx5_0/ports/1/gid_attrs/types/0", "IB\n"); /* has no addresses of that kind */
    put(DEVICES "/mlx5_0/ports/1/gid_attrs/types/3", "IB\n");
    assert_false(rdma_look_gid(root, &found));
}

#define MACHINE_TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MACHINE_TEST(what_is_missing_is_said),
        MACHINE_TEST(memory_that_is_far_is_said),
        MACHINE_TEST(many_devices_are_cut),
        MACHINE_TEST(packets_that_are_lost_are_said),
        MACHINE_TEST(packets_that_are_small_are_said),
        MACHINE_TEST(devices_without_an_address_are_said),
    };

    return cmocka_run_group_tests_name("cli-rdma", tests, NULL, NULL);
}
