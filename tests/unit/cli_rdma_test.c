/* SPDX-License-Identifier: Apache-2.0 */
/* What nigh doctor says of RDMA devices' places and packets, on machines that are folders here. */
#include "cli/rdma.h"

#include <stdio.h>
#include <string.h>

#include "support/machine.h"

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

#define MACHINE_TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MACHINE_TEST(memory_that_is_far_is_said),
        MACHINE_TEST(many_devices_are_cut),
        MACHINE_TEST(packets_that_are_lost_are_said),
    };

    return cmocka_run_group_tests_name("cli-rdma", tests, NULL, NULL);
}
