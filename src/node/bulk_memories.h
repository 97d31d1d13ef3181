/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of an embedded node's process that calls may bring (rpc/bulks.h), for all of its lanes.
 *
 * Any thread of the process adds and removes a piece; a lane that uses one registers it with its
 * fabric, once, and drops that when the piece goes. Removing waits until no lane uses it or has it
 * registered. A lane looks once a turn whether some are to go, with one load.
 */
#ifndef NODE_BULK_MEMORIES_H
#define NODE_BULK_MEMORIES_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "memory/session.h"
#include "nigh/status.h"

struct bulk_memories;

/* A piece. All but `at` stays as it is while anybody uses it. */
struct bulk_memory {
    struct session_memory memory;
    uint64_t number; /* 0: free */
    bool going, forced;
    uint32_t uses, registered;
    uint32_t waiting;                      /* threads, for its last use to end */
    struct fabric_memory *at[LIMIT_LANES]; /* each by its lane */
};

/* kick: makes a lane turn soon; any thread. NIGH_NO_RESOURCES. */
nigh_status bulk_memories_create(uint32_t lanes, void (*kick)(void *context, uint32_t lane),
                                 void *context, struct bulk_memories **memories);

/* No thread is in it, and no lane runs. NULL is allowed. */
void bulk_memories_destroy(struct bulk_memories *memories);

/* Any thread. NIGH_LIMIT: there are LIMIT_BULKS. */
nigh_status bulk_memories_add(struct bulk_memories *memories, const struct session_memory *memory,
                              uint64_t *number);

/* Any thread but one that drives a lane. NIGH_OK: nobody touches the memory any more; NIGH_TIMEOUT:
 * it stays. `force`: what it is lent over is broken, so that it is over soon. */
nigh_status bulk_memories_remove(struct bulk_memories *memories, uint64_t number,
                                 uint64_t timeout_us, bool force);

/* The same without removing it: nobody touches it now. */
nigh_status bulk_memories_wait(struct bulk_memories *memories, uint64_t number,
                               uint64_t timeout_us);

/* ---- by a lane's driver ---- */

/* To use it; NULL: there is none such of this session, or it goes. */
struct bulk_memory *bulk_memories_take(struct bulk_memories *memories, uint64_t number,
                                       uint64_t session);
void bulk_memories_give(struct bulk_memories *memories, struct bulk_memory *memory);

/* Registered with the lane's fabric, from here on. */
nigh_status bulk_memories_register(struct bulk_memories *memories, struct bulk_memory *memory,
                                   uint32_t lane, struct fabric *fabric);

bool bulk_memories_have_news(const struct bulk_memories *memories, uint32_t lane);

/* Drops registrations of what goes and nobody uses. `breaks` is called for each whose uses are to
 * end; it may give some back. */
void bulk_memories_turn(struct bulk_memories *memories, uint32_t lane, struct fabric *fabric,
                        void (*breaks)(void *context, const struct bulk_memory *memory),
                        void *context);

#endif
