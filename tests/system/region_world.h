/* SPDX-License-Identifier: Apache-2.0 */
/* Embedded nodes of one process that are each other's peers, with a client each, for tests of
 * regions. */
#ifndef TESTS_REGION_WORLD_H
#define TESTS_REGION_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nigh/node.h"
#include "nigh/region.h"
#include "support/support.h"

#define SECOND_US UINT64_C(1000000)
#define WAIT_US   (20 * SECOND_US)
#define NODES     3
#define KIB       UINT64_C(1024)
#define MIB       (KIB * KIB)

static const uint8_t region_world_key[32] = "of regions in one process";

struct world {
    nigh_node *node[NODES];
    nigh_client *client[NODES];
    uint32_t count;
    uint32_t qos[NODES]; /* NIGH_REGION_QOS_* */
    const char *socket;  /* that the last node listens on for clients; NULL: none does */
    char members[NODES * 24];
    char state[NODES][108];
};

static inline bool uses_rdma(void)
{
    return getenv("RDMA_GUEST_HOSTS") != NULL;
}

/* Of a node: a host each, where there are any. */
static inline void address_of(uint32_t n, char *address, size_t size)
{
    const char *hosts = uses_rdma() ? getenv("RDMA_GUEST_HOSTS") : "127.0.0.1 127.0.0.1 127.0.0.1";

    for (uint32_t at = 0; at < n; at++) {
        hosts = strchr(hosts, ' ');
        assert_non_null(hosts);
        hosts++;
    }
    (void)snprintf(address, size, "%.*s:%d", (int)strcspn(hosts, " "), hosts, support_port());
}

static inline nigh_client *attach(nigh_node *node)
{
    nigh_client_options options = {.struct_size = sizeof options};
    nigh_client *client = NULL;

    assert_int_equal(nigh_node_client(node, &options, &client), NIGH_OK);
    return client;
}

static inline void start_node(struct world *world, uint32_t n)
{
    char rank[4];
    nigh_node_options options = {.struct_size = sizeof options,
                                 .memory_bytes = 32 * MIB,
                                 .lanes = 1,
                                 .region_qos = world->qos[n],
                                 .region_memory_bytes = 64 * MIB};

    if (n + 1 == world->count) {
        options.socket_path = world->socket;
    }
    snprintf(rank, sizeof rank, "%u", n);
    if (world->count > 1) {
        options.members = world->members;
        options.member = rank;
        options.cluster_key = region_world_key;
        options.state_dir = world->state[n];
        options.fabric = uses_rdma() ? NIGH_FABRIC_VERBS : NIGH_FABRIC_TCP;
    }
    assert_int_equal(nigh_node_start(&options, &world->node[n]), NIGH_OK);
    world->client[n] = attach(world->node[n]);
}

/* Of which nothing is set but what is to be other than usual. */
static inline void begin_world_of(struct world *world, uint32_t count)
{
    size_t length = 0;

    world->count = count;
    for (uint32_t n = 0; n < count; n++) {
        char name[32], address[24];

        address_of(n, address, sizeof address);
        length += (size_t)snprintf(world->members + length, sizeof world->members - length, "%s%s",
                                   n > 0 ? "," : "", address);
        snprintf(name, sizeof name, "state-%d", support_port());
        support_path(world->state[n], sizeof world->state[n], name);
    }
    for (uint32_t n = 0; n < count; n++) {
        start_node(world, n);
    }
}

/* Node 0 by a policy, the others by the one of who says nothing. */
static inline void begin_world_by(struct world *world, uint32_t count, nigh_region_qos qos)
{
    memset(world, 0, sizeof *world);
    world->qos[0] = qos;
    begin_world_of(world, count);
}

static inline void begin_world(struct world *world, uint32_t count)
{
    begin_world_by(world, count, NIGH_REGION_QOS_SOFTWARE);
}

static inline void stop_node(struct world *world, uint32_t n)
{
    nigh_client_close(world->client[n]);
    nigh_node_stop(world->node[n]);
    world->node[n] = NULL;
}

static inline void end_world(struct world *world)
{
    for (uint32_t n = 0; n < world->count; n++) {
        if (world->node[n] != NULL) {
            stop_node(world, n);
        }
    }
}

/* A member that has no lease, as one that has just begun, or one of a busy machine for a moment,
 * says so at once: it is asked again. */
#define AGREED(call)                                                                        \
    ({                                                                                      \
        uint64_t agreed_until_us = support_now_us() + WAIT_US;                              \
        nigh_status agreed;                                                                 \
        while ((agreed = (call)) == NIGH_NO_QUORUM && support_now_us() < agreed_until_us) { \
            support_breathe();                                                              \
        }                                                                                   \
        agreed;                                                                             \
    })

static inline nigh_region *open_region(nigh_client *client, const char *name, uint32_t access)
{
    nigh_region *region = NULL;

    assert_int_equal(AGREED(nigh_region_open(client, name, access, WAIT_US, &region)), NIGH_OK);
    return region;
}

/* Where the members, or their links, have just changed it may be there, or not. */
static inline nigh_region *create(nigh_client *client, const nigh_region_spec *given)
{
    nigh_region_spec spec = *given;
    nigh_region *region = NULL;
    nigh_status status;

    spec.struct_size = sizeof spec;
    assert_true(
        SUPPORT_WAIT((status = nigh_region_create(client, &spec, WAIT_US, &region),
                      status != NIGH_NO_QUORUM && status != NIGH_BUSY && status != NIGH_PEER_LOST),
                     20000));
    if (status == NIGH_EXISTS) {
        return open_region(client, spec.name, NIGH_REGION_ALL);
    }
    if (status != NIGH_OK) {
        char why[256];

        nigh_client_error(client, why, sizeof why);
        print_message("create: %s: %s\n", nigh_status_name(status), why);
    }
    assert_int_equal(status, NIGH_OK);
    return region;
}

#endif
