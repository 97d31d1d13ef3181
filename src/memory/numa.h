/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which parts of the machine are near each other: its NUMA nodes, their processors and distances,
 * the node of an RDMA device, and the nodes of memory.
 *
 * Facts are read below a root, "" for the machine's own, so that a test can have another machine.
 * A machine without NUMA, or one that does not say, has one node. Decides nothing. Any thread.
 */
#ifndef MEMORY_NUMA_H
#define MEMORY_NUMA_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

#define NUMA_NODES 64   /* those of higher numbers are not seen */
#define NUMA_NONE  (-1) /* of a device or of memory: nobody says */

struct numa {
    uint64_t present; /* a bit for each node */
    cpu_set_t cpus[NUMA_NODES];
    uint8_t distances[NUMA_NODES][NUMA_NODES]; /* as the firmware says: 10 is itself; 0: not said */
};

void numa_read(const char *root, struct numa *numa);

/* Nodes; at least one. */
uint32_t numa_count(const struct numa *numa);

bool numa_has(const struct numa *numa, int node);

/* Unknown ones are farther than any that is known. */
uint32_t numa_distance(const struct numa *numa, int from, int to);

/* The node of an RDMA device by its name, as "mlx5_0"; NUMA_NONE. */
int numa_of_device(const char *root, const char *device);

/* The node of the device that has an IPv4 address of ours, an RDMA device or a network card;
 * NUMA_NONE. Opens neither. */
int numa_of_address(const char *root, const char *address);

/* Whether somebody has said already where this process takes its memory from (numactl --membind,
 * say). */
bool numa_is_chosen(void);

/* Pages of a memory file that are yet to be allocated come from a node (below NUMA_NODES) as long
 * as it has some, else from others. NIGH_UNSUPPORTED: the system does not take it; errno says why.
 */
nigh_status numa_prefer(int fd, uint64_t bytes, int node);

/* The node where a page that is there lies; NUMA_NONE. */
int numa_of_page(const void *address);

#endif
