/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers for frames that are on their way out, of all links of one lane together: taken in slabs
 * of registered memory as they are needed, given back when nothing in them is needed any more.
 *
 * There is no bound here that a link could wait at: each link bounds what it takes (its channel
 * counts frames that have not arrived), so what one peer does not receive is never what another
 * lacks. Owned by the lane's driver.
 */
#ifndef CLUSTER_SENDS_H
#define CLUSTER_SENDS_H

#include <stdint.h>

#include "base/list.h"
#include "fabric/fabric.h"

struct sends_slab;

/* One buffer, of the bytes that sends_init said. */
struct send {
    struct list_node link; /* free in its slab; else of whoever took it */
    struct sends_slab *slab;
    uint8_t *bytes;
    uint32_t count; /* of them, that are to go */
    struct fabric_memory *memory;
};

struct sends {
    struct fabric *fabric;
    uint32_t stride;
    struct list slabs; /* with free buffers in front, without behind */
    uint32_t slab_count;
    uint32_t used;
};

void sends_init(struct sends *sends, struct fabric *fabric, uint32_t frame_bytes);
/* All have been given back. */
void sends_fini(struct sends *sends);

/* NULL: the system has no memory. */
struct send *sends_take(struct sends *sends);
void sends_give(struct sends *sends, struct send *send);

/* What it has of the system now. */
uint64_t sends_memory_bytes(const struct sends *sends);

#endif
