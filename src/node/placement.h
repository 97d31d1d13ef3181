/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which RDMA device a lane begins at, and where its memory and its thread belong: near that device.
 * Looks at nothing but its arguments.
 *
 * Lanes are spread over the devices that are near processors of this process, in their order; all
 * of them, where none is or nobody says where they are. A lane's memory is to come from the NUMA
 * node of its device. Its thread stays there, too, while the lanes that do are no more than half of
 * the processors there that this process may use: clients want some, and other lanes.
 */
#ifndef NODE_PLACEMENT_H
#define NODE_PLACEMENT_H

#include "memory/numa.h"
#include "node/settings.h"

struct placement_facts {
    const struct numa *numa;
    cpu_set_t allowed; /* processors of this process */
    uint32_t lanes;
    uint32_t device_count;         /* 0: as one that nobody knows the place of */
    int devices[SETTINGS_DEVICES]; /* their NUMA nodes, or NUMA_NONE */
};

struct placement {
    int numa_node;                      /* of memory; NUMA_NONE: anywhere */
    bool is_bound;                      /* the thread, to `cpus` */
    cpu_set_t cpus;                     /* of that node, of those allowed */
    uint32_t devices[SETTINGS_DEVICES]; /* to begin at, and to move to, by their places */
};

/* One for each lane. */
void placement_make(const struct placement_facts *facts, struct placement *lanes);

#endif
