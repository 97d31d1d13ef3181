/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Embedded nodes with spaces, over TCP where main names no addresses of RDMA devices, each in a
 * process of its own: the first in this one, the others in children, which do what they are ordered
 * to.
 */
#ifndef BENCH_SPACE_NODES_H
#define BENCH_SPACE_NODES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "nigh/node.h"
#include "nigh/object.h"
#include "nigh/space.h"

#define SPACE_NODES_MOST  4u
#define SPACE_NODES_SPACE 2u /* spaces that all have open */
#define SPACE_NODES_WAIT  UINT64_C(30000000)
#define SPACE_NODES_CALL  64u /* bytes of a call, and back */
#define SPACE_NODES_MORE  16u /* words of an order */

struct space_nodes;

/* What a node is to do; what it has to say is in `told`. */
struct space_order {
    void (*carry)(struct space_nodes *nodes, const struct space_order *order);
    uint32_t space; /* its number */
    nigh_space_address address;
    uint64_t stride;
    uint32_t count;
    uint64_t more[SPACE_NODES_MORE];
};

struct space_nodes_one {
    _Atomic uint32_t wanted, done; /* numbers of orders */
    struct space_order order;
    _Atomic uint64_t told;
};

/* Shared by all of them. */
struct space_nodes_shared {
    _Atomic uint32_t ends; /* what goes on until told otherwise */
    _Atomic uint32_t turn; /* whose it is, of two that take turns */
    struct space_nodes_one one[SPACE_NODES_MOST];
};

struct space_nodes {
    uint32_t count, rank; /* rank: of this process */
    bool spins;           /* clients and lanes, and the first two are beside a core each */
    pid_t pids[SPACE_NODES_MOST];
    nigh_node *node;
    nigh_client *client;
    nigh_space *spaces[SPACE_NODES_SPACE];
    struct space_nodes_shared *shared;
    char state[SPACE_NODES_MOST][64];
};

/* Of RDMA devices, by rank; NULL: all are the loopback's, over TCP. */
extern const char *space_nodes_addresses[SPACE_NODES_MOST];

/* `specs`: of SPACE_NODES_SPACE spaces. */
void space_nodes_open(struct space_nodes *nodes, uint32_t count, bool spins,
                      const nigh_space_spec *specs);
void space_nodes_close(struct space_nodes *nodes);

/* Has one carry it out; and waits until it has. */
void space_nodes_begin(struct space_nodes *nodes, uint32_t rank, const struct space_order *order);
void space_nodes_wait(struct space_nodes *nodes, uint32_t rank);
void space_nodes_do(struct space_nodes *nodes, uint32_t rank, const struct space_order *order);

/* What lasts goes on from here on, or ends. */
void space_nodes_last(struct space_nodes *nodes, bool lasts);
static inline bool space_nodes_lasts(const struct space_nodes *nodes)
{
    return atomic_load_explicit(&nodes->shared->ends, memory_order_relaxed) == 0;
}

/* The own node's: so many bytes at the home of a rank. */
nigh_space_address space_nodes_alloc(struct space_nodes *nodes, uint32_t space, uint32_t rank,
                                     uint64_t bytes);

/* A call of SPACE_NODES_CALL bytes to node 1, which sends them back. */
void space_nodes_call(struct space_nodes *nodes);

/* Of the own node. */
nigh_node_stats space_nodes_stats(struct space_nodes *nodes);

#endif
