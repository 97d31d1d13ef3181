/* SPDX-License-Identifier: Apache-2.0 */
/* Two embedded nodes over TCP, each beside one core, a region on each, and what one does to them.
 */
#ifndef BENCH_REGION_NODES_H
#define BENCH_REGION_NODES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "nigh/node.h"
#include "nigh/region.h"

#define NODES_BYTES   64 /* of a call, and back */
#define NODES_MOST    (UINT64_C(16) << 20)
#define NODES_SPIN_US 2000
#define NODES_MEMORY  (UINT64_C(256) << 20) /* of a node */

struct pair {
    bool spins, other_spins; /* its clients and lanes */
    nigh_region_qos qos;     /* of both; set before it is opened */
    pid_t pid;
    nigh_node *node;
    nigh_client *client;
    nigh_region *near, *far; /* NODES_MOST bytes each */
    nigh_bulk *bulk;
    uint8_t *memory;            /* of the bulk, as much */
    _Atomic uint32_t *computes; /* bench_word_set: a thread of the other node does */
    char state[2][64];
};

/* Whether this side spins, and whether the other does. */
void pair_open(struct pair *pair, bool spins, bool other_spins, int other_core);
void pair_close(struct pair *pair);

/* One operation each, of so many bytes where they have any. */
void pair_call(struct pair *pair);
void pair_read(struct pair *pair, uint64_t bytes);
void pair_write(struct pair *pair, uint64_t bytes);
void pair_add(struct pair *pair);
void pair_read_near(struct pair *pair, uint64_t bytes);
/* Into and from memory for calls. */
void pair_read_into(struct pair *pair, uint64_t bytes);
void pair_write_from(struct pair *pair, uint64_t bytes);

#endif
