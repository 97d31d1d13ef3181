/* SPDX-License-Identifier: Apache-2.0 */
/* A session in one lane: its leases, its waiters, its pins (store_session.c, store_who.c). For the
 * store alone. */
#ifndef OBJECT_STORE_SESSION_H
#define OBJECT_STORE_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdatomic.h>

#include "base/limits.h"
#include "base/list.h"
#include "object/store.h"
#include "object/store_record.h"

struct store;
struct store_pool;

struct store_lease {
    uint32_t entry; /* STORE_NONE: this lease is not in use */
    uint32_t pieces;
    uint32_t blocks[LIMIT_LEASE_PIECES];
    uint32_t rest; /* block, and one: the first of a chain, through the blocks' tags, of what was
                      refused, and what a former node left of it in more pieces than it can have */
    uint64_t offset;
    uint64_t bytes;
    uint64_t left; /* bytes of the pieces and of the rest */
};

struct store_session {
    struct store_session_config config;
    struct store_pool *pool;
    struct list_node pool_place;
    struct list_node subscriber_place;
    struct list waiters;
    uint32_t serial;
    uint32_t heap;  /* STORE_NONE until first used */
    uint32_t table; /* of pool->tables */
    struct store_list unsealed;
    struct store_list made; /* sealed, in memory, oldest first */
    struct store_lease leases[LIMIT_LEASES_A_SESSION];
    uint32_t last_lease; /* in which bytes were found: more of it are likely wanted next */
    uint64_t quota_bytes;
    _Atomic uint64_t own_used; /* stands in where the node gives no word to count in */
    uint64_t counted_bytes;    /* this lane's part of *config.quota_used */
    uint64_t leased_bytes;
    uint32_t pin_cursor; /* where to look for a free lane pin */
    uint32_t replay;     /* next entry to replay */
    bool replaying;
    bool hears_conflicts; /* NIGH_EVENT_CONFLICT */
    bool hears_regions;   /* NIGH_EVENT_REGION_*, which are not the store's */
    bool judged;          /* the shell was asked to end it */
    uint32_t hints_seen[LIMIT_PIN_CHUNKS];
    uint32_t hints_shown[LIMIT_PIN_CHUNKS]; /* the same of store_show.c */
};

/* Most pins one session can hold in this lane. */
#define STORE_SESSION_PINS (LIMIT_PIN_CHUNKS * LIMIT_PINS_A_CHUNK + LIMIT_LANE_PINS)

/* What no session of a pool can have mapped any more may be mapped for others. */
void store_forget_extents(struct store *store, const struct store_pool *pool);

/* A pin of the lane for the session: NIGH_LIMIT when none is free. */
nigh_status store_pin(struct store *store, struct store_session *session, uint32_t entry,
                      uint32_t *pin);
void store_drain_hints(struct store *store, struct store_pool *pool);
void store_replay(struct store *store);

/* ---- store_who.c ---------------------------------------------------------- */

/* Somebody went without memory: looks for sessions that pin too much. */
void store_judge(struct store *store, struct store_pool *pool);

#endif
