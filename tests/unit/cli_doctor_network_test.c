/* SPDX-License-Identifier: Apache-2.0 */
/* What nigh doctor says of the system's settings for TCP, on machines that are folders, and of
 * members that are not up, which are sockets of this test. */
#include "cli/doctor.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/doctor.h"

#define IPV4 "/proc/sys/net/ipv4/"

static void look_at_tcp(void)
{
    struct doctor doctor = begun();

    doctor_look_at_tcp(&doctor);
}

/* ---- settings ------------------------------------------------------------- */

static void buffers_too_small_for_the_network_are_said(void **state)
{
    (void)state;
    look_at_tcp(); /* where nothing can be read nothing is said */
    assert_int_equal(kept_count, 0);
    put("/sys/class/net/lo/speed", ""); /* none, as of one that is down */
    put("/sys/class/net/eth0/speed", "10000\n");
    put("/sys/class/net/eth1/speed", "100000\n");
    put("/sys/class/net/veth0/speed", "-1\n");
    put(IPV4 "tcp_rmem", "4096\t131072\t6291456\n");
    put(IPV4 "tcp_wmem", "4096\t16384\t12500000\n");
    look_at_tcp();
    expect(DOCTOR_NOTE, "tcp_rmem", "lets 6.0 MiB be under way; eth1 has 100000 Mbit/s",
           "third number");
    assert_int_equal(kept_count, 1);
    put(IPV4 "tcp_wmem", "4096\t16384\t4194304\n");
    look_at_tcp();
    expect(DOCTOR_NOTE, "tcp_wmem", "lets 4.0 MiB be under way", "third number");
    put("/sys/class/net/eth1/speed", "10000\n");
    look_at_tcp();
    assert_int_equal(kept_count, 0);
}

static void a_congestion_control_that_paces_is_said(void **state)
{
    (void)state;
    put(IPV4 "tcp_congestion_control", "bbr\n");
    put(IPV4 "tcp_allowed_congestion_control", "reno bbr\n");
    look_at_tcp();
    expect(DOCTOR_NOTE, "congestion", "tcp_congestion_control is bbr", "reno cubic");
    put(IPV4 "tcp_allowed_congestion_control", "reno cubic\n");
    look_at_tcp();
    assert_int_equal(kept_count, 0);
    put(IPV4 "tcp_congestion_control", "reno\n");
    put(IPV4 "tcp_allowed_congestion_control", "reno\n");
    look_at_tcp();
    assert_int_equal(kept_count, 0);
}

static void packets_that_the_system_dropped_are_said(void **state)
{
    (void)state;
    put("/proc/sys/net/core/netdev_max_backlog", "1000\n");
    put("/proc/net/softnet_stat", "00000010 00000000 00000001 00000000\n"
                                  "00000010 00000000 00000001 00000000\n");
    look_at_tcp();
    assert_int_equal(kept_count, 0);
    put("/proc/net/softnet_stat", "00000010 00000001 00000001 00000000\n"
                                  "00000010 0000000a 00000001 00000000\n");
    look_at_tcp();
    expect(DOCTOR_NOTE, "backlog", "(net.core.netdev_max_backlog is 1000): 11", "=10000");
    put("/proc/net/softnet_stat", "00010000 00000001 00000001 00000000\n"
                                  "00010000 0000000a 00000001 00000000\n");
    look_at_tcp();
    expect_none("backlog"); /* 13 of them would be one of ten thousand */
    put("/proc/net/softnet_stat", "00010000 00000001 00000001 00000000\n"
                                  "00010000 0000000d 00000001 00000000\n");
    look_at_tcp();
    expect(DOCTOR_NOTE, "backlog", "is 1000): 14", "=10000");
    put("/proc/sys/net/core/netdev_max_backlog", "10000\n"); /* it was, before */
    look_at_tcp();
    assert_int_equal(kept_count, 0);
}

/* ---- members -------------------------------------------------------------- */

/* A socket of the loopback, and where. */
static int bound(char address[80])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    (void)snprintf(address, 80, "127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

/* Connections that nobody takes, as many as the system keeps for it and more. */
static void fill(int listener, int waiting[2])
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof(at);

    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
    for (int i = 0; i < 2; i++) {
        waiting[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_true(waiting[i] >= 0);
        (void)connect(waiting[i], (const struct sockaddr *)&at, sizeof(at));
    }
}

static void look_at_reach(const nigh_node_info *nodes, size_t count)
{
    struct doctor doctor = begun();

    doctor_look_at_reach(&doctor, nodes, count);
}

static void members_that_are_not_reached_are_told_apart(void **state)
{
    nigh_node_info node = {.rank = 3, .state = NIGH_NODE_IS_LOST};
    int fd = bound(node.address), waiting[2];

    (void)state;
    look_at_reach(&node, 1);
    expect(DOCTOR_NOTE, "reach", "nobody listens at the port of node 3 (127.0.0.1:", "start nighd");
    assert_int_equal(listen(fd, 8), 0);
    look_at_reach(&node, 1);
    expect(DOCTOR_NOTE, "reach", "node 3 (127.0.0.1:", "nigh doctor there");
    expect(DOCTOR_NOTE, "reach", "takes connections", "ss -ltnp");
    expect(DOCTOR_NOTE, "reach", "takes connections", "kill -CONT");
    expect(DOCTOR_NOTE, "reach", "takes connections", "same order, each its own --member");
    assert_int_equal(close(fd), 0);
    fd = bound(node.address);
    assert_int_equal(listen(fd, 0), 0);
    fill(fd, waiting);
    look_at_reach(&node, 1);
    expect(DOCTOR_NOTE, "reach", "is not reached from here: Connection timed out", "firewall");
    assert_int_equal(close(waiting[0]) | close(waiting[1]) | close(fd), 0);
    (void)snprintf(node.address, sizeof(node.address), "nameless");
    look_at_reach(&node, 1);
    expect(DOCTOR_NOTE, "reach", "node 3 (nameless) has no address here", "/etc/hosts");
}

/* Who is up, is this node, or was refused and said why is left alone, and so is all above four. */
static void only_some_members_are_dialled(void **state)
{
    nigh_node_info nodes[8];
    int fd;

    (void)state;
    for (size_t i = 0; i < 8; i++) {
        nodes[i] = (nigh_node_info){.rank = (uint32_t)i, .state = NIGH_NODE_IS_AWAY};
    }
    fd = bound(nodes[0].address);
    for (size_t i = 1; i < 8; i++) {
        memcpy(nodes[i].address, nodes[0].address, sizeof(nodes[i].address));
    }
    nodes[0].is_self = 1;
    nodes[1].state = NIGH_NODE_IS_UP;
    nodes[2].refused = NIGH_DENIED;
    look_at_reach(nodes, 3);
    assert_int_equal(kept_count, 0);
    look_at_reach(nodes, 8);
    assert_int_equal(kept_count, 4);
    expect(DOCTOR_NOTE, "reach", "port of node 6", NULL);
    assert_int_equal(close(fd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(buffers_too_small_for_the_network_are_said, begin),
        cmocka_unit_test_setup(a_congestion_control_that_paces_is_said, begin),
        cmocka_unit_test_setup(packets_that_the_system_dropped_are_said, begin),
        cmocka_unit_test_setup(members_that_are_not_reached_are_told_apart, begin),
        cmocka_unit_test_setup(only_some_members_are_dialled, begin),
    };

    return cmocka_run_group_tests_name("cli-doctor-network", tests, NULL, NULL);
}
