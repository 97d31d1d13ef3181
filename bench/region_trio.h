/* SPDX-License-Identifier: Apache-2.0 */
/* Three embedded nodes over TCP that sleep while they wait, on all cores, a region at each; and how
 * bytes get from one of these to another by a client of the first node. */
#ifndef BENCH_REGION_TRIO_H
#define BENCH_REGION_TRIO_H

#include <stdint.h>
#include <sys/types.h>

#include "nigh/node.h"
#include "nigh/region.h"

#define TRIO_NODES  3
#define TRIO_MOST   (UINT64_C(16) << 20)
#define TRIO_CHUNKS 3
#define TRIO_FEW    (UINT64_C(64) << 10) /* as much is read and written without memory for calls */

struct trio {
    pid_t pids[TRIO_NODES]; /* of nodes 1 and 2 */
    nigh_node *node;
    nigh_client *client;
    nigh_region *own, *from, *to; /* TRIO_MOST bytes each, on nodes 0, 1 and 2 */
    nigh_region *both;            /* TRIO_CHUNKS of half as much, on nodes 1, 2 and 1 */
    nigh_bulk *bulk;              /* TRIO_MOST bytes */
    char state[TRIO_NODES][64];
};

void trio_open(struct trio *trio);
void trio_close(struct trio *trio);

/* nigh_region_copy, of `from` and of `own` into `to`. */
void trio_copy(struct trio *trio, uint64_t bytes);
void trio_copy_own(struct trio *trio, uint64_t bytes);
/* All that there is, one chunk on, within `both`: between the nodes that trio_copy has. */
void trio_copy_overlapping(struct trio *trio, uint64_t bytes);
/* The same bytes as trio_copy and trio_copy_own by a read and a write: of more than TRIO_FEW of
 * them, into memory for calls, and from there. */
void trio_read_and_write(struct trio *trio, uint64_t bytes);
void trio_read_and_write_own(struct trio *trio, uint64_t bytes);

#endif
