/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: how it is had and made room for (store_memory.c), what could be had (store_fit.c). For
 * the store alone. */
#ifndef OBJECT_STORE_MEMORY_H
#define OBJECT_STORE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

struct store;
struct store_call;
struct store_pool;
struct store_session;

/* What lies in an extent, as far as emptying it goes. */
struct store_extent {
    uint64_t live_bytes;   /* in blocks that are not free */
    uint64_t shun_us;      /* somebody pinned something in it: not before this */
    uint64_t backed_bytes; /* of them, of objects whose file is there as well */
    uint32_t obstacles;    /* blocks, and leases, in it that cannot be evicted: unsealed, kept,
                              deleting, read by a job */
    uint32_t first;        /* record whose memory begins here, and one */
    /* What the last look (store_fit.c) found that stays: the first and the last of it. */
    uint64_t fixed_begin;
    uint64_t fixed_end; /* 0: nothing */
};

/*
 * A block for the call, made room for if `evict` and need be; else NIGH_PENDING, with the call set
 * to wait for it (NIGH_OUT_OF_MEMORY when no wait could help, NIGH_LIMIT for a heap too many).
 */
nigh_status store_obtain(struct store_call *call, uint64_t owner, uint64_t bytes, bool evict,
                         uint32_t *block);
/* The same without waiting and without the queue. *spent: bytes evicted for it so far. */
nigh_status store_obtain_now(struct store *store, struct store_pool *pool, uint64_t owner,
                             uint32_t heap, uint64_t bytes, bool evict, uint64_t *spent,
                             uint32_t *block);

/*
 * A block of the node's heap of the pool for what no session asks for: NIGH_PENDING when there is
 * none yet (to be asked again, with the same *spent), NIGH_OUT_OF_MEMORY when it can never be.
 */
nigh_status store_obtain_unasked(struct store *store, struct store_pool *pool, uint64_t bytes,
                                 uint64_t *spent, uint32_t *block);
/* Makes room in the pool's quota for bytes that no session pays for: NIGH_PENDING, NIGH_QUOTA. */
nigh_status store_fit_pool(struct store *store, struct store_pool *pool, uint64_t bytes);
/* A block that was not needed after all: no reason for others to try again at once. */
void store_block_return(struct store *store, uint32_t block);

/* Where memory is in pieces: empties the next extent, one batch a turn, before it is needed. */
void store_gather(struct store *store);

/* An entry of the pool's index, evicting if need be; else NIGH_LIMIT. */
nigh_status store_obtain_entry(struct store *store, struct store_pool *pool, bool evict,
                               uint32_t *entry);

/*
 * Counts bytes against the quotas of the call's session and pool; makes room there if need be.
 * NIGH_QUOTA: nothing is counted; NIGH_PENDING: room is being made on disk, the call is set to
 * wait. What was counted is the object's (store_memory_bind) or goes back (store_discharge).
 */
nigh_status store_obtain_quota(struct store_call *call, uint64_t bytes, bool evict);

/* The heap of the session, or of the node in the pool, opened at first use. */
nigh_status store_session_heap(struct store *store, struct store_session *session, uint32_t *heap);
nigh_status store_node_heap(struct store *store, struct store_pool *pool, uint32_t *heap);

/* ---- store_fit.c ---- */

/* Whether so much could be had in a heap if all that may leave did. Looks at all pins. */
bool store_may_fit(struct store *store, uint32_t heap, uint64_t owner, uint64_t bytes);
/* How much; *between: and perhaps so much within one extent. */
uint64_t store_most_bytes(struct store *store, uint64_t owner, uint64_t *between);

#endif
