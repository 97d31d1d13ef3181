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

/* locked_limit_bytes: RLIMIT_MEMLOCK of this process. */
void rdma_look(uint64_t locked_limit_bytes, struct rdma_finding *found);

#endif
