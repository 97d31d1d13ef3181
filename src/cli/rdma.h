/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this machine has RDMA that a node could use, and if not, what is missing; for doctor. */
#ifndef CLI_RDMA_H
#define CLI_RDMA_H

#include <stdbool.h>
#include <stdint.h>

struct rdma_finding {
    bool is_missing; /* something is: a node here uses TCP */
    bool has_device;
    char text[256];
    const char *remedy; /* "": nothing to do */
};

/* locked_limit_bytes: what this process may lock. root: "", or a test's machine, which has its
 * libraries in /lib. */
void rdma_look(const char *root, uint64_t locked_limit_bytes, struct rdma_finding *found);

/* Whether memory of the node, far_bytes of it, lies on another NUMA node than the RDMA device of
 * its lane; and where the machine's devices are. False: there is nothing to say, the machine has
 * one node, or no device. */
bool rdma_look_where(const char *root, uint64_t far_bytes, struct rdma_finding *found);

/* Whether a device's counters tell of packets that were lost. False: none does. */
bool rdma_look_lost(const char *root, struct rdma_finding *found);

/* Whether packets of a RoCE device are smaller than they could be, as its interface's MTU is.
 * False: none is known to be. */
bool rdma_look_mtu(const char *root, struct rdma_finding *found);

/* Whether a RoCE device has no address by which it could be reached (a GID of an IP address).
 * False: each has one, or there is none. */
bool rdma_look_gid(const char *root, struct rdma_finding *found);

#endif
