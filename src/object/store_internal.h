/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store itself, and one submission to it, which its files share; each noun of it has a header
 * of its own. Not for anyone else; the contract is store.h, the promises are in docs/objects.md.
 */
#ifndef OBJECT_STORE_INTERNAL_H
#define OBJECT_STORE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap_timer.h"
#include "base/limits.h"
#include "base/list.h"
#include "memory/heap.h"
#include "object/pin_scan.h"
#include "object/store.h"
#include "object/store_remote.h"
#include "object/store_reserve.h"
#include "object/store_wait.h"

struct heaps;
struct heat;
struct store_extent;
struct store_pool;
struct store_session;

struct store {
    struct store_config config;
    struct heaps *heaps;
    struct store_pool *pools[LIMIT_POOLS];
    struct store_session *sessions[LIMIT_SESSIONS];
    uint32_t pool_count;
    uint32_t session_count;
    uint32_t next_serial;
    bool adopting; /* pools were adopted, and sessions may still be announced */
    bool has_remote;
    struct store_remote remote;
    struct store_lost_read lost[STORE_LOST_READS];
    uint32_t lost_next;
    struct store_spent spent[STORE_SPENT_PULLS]; /* by the hash of the id */

    struct store_waiter *waiters;
    struct list *buckets;
    struct list free_waiters;
    struct list memory_queue;
    struct list deletes;
    struct list claims; /* those that wait for homes */
    uint64_t claim_us;  /* when they are asked for again */
    uint32_t claimed;   /* entries that are created and claimed */
    struct list works;
    struct timers timers;
    struct timer **timer_storage;
    uint32_t waiters_used; /* records from here on were never used */
    uint32_t waiting;
    uint32_t waiting_for_id;
    uint32_t
        erases_due; /* deletes that wait, and are yet to begin at other nodes: they have room */
    /* Of the memory queue, a heap: how many wait, and the least that one wants. */
    uint32_t heap_waiting[LIMIT_HEAPS_A_LANE];
    uint64_t heap_least[LIMIT_HEAPS_A_LANE];

    uint64_t memory_bytes; /* of the lane's extents */
    uint64_t used_bytes;   /* in blocks that are not free */
    uint64_t leased_bytes;
    uint64_t unsealed_bytes;
    uint64_t spilled_bytes;        /* of files */
    uint64_t writing_bytes;        /* of files under way */
    uint32_t writing;              /* how many */
    bool reading_back;             /* the call under way wants memory to read back to */
    bool reserve_open;             /* and may write into the reserve for it */
    uint32_t sizes[STORE_CLASSES]; /* objects in memory or on disk, by the class of their size */
    uint64_t low_bytes;            /* free memory below this: begin to evict ahead */
    uint64_t high_bytes;
    bool leaves;       /* takes nothing new, */
    uint64_t left_us;  /* since then */
    bool ahead;        /* evicting ahead of need */
    bool memory_freed; /* since the memory queue was last tried */
    bool pins_changed; /* a session ended: its pins are gone */
    /* Nothing could be evicted for this heap: do not try again before this. */
    uint64_t heap_barren_us[LIMIT_HEAPS_A_LANE];
    uint64_t unmoved_us; /* until then no memory is moved: the machine gave none for it */
    /* The last look found no place for so much in this heap: do not look again before this. */
    uint64_t unfit_bytes;
    uint64_t unfit_us;
    uint32_t unfit_heap;
    uint32_t ahead_barren;
    /* The heap that last needed a whole extent for something small, and its owner. */
    uint32_t scattered_heap; /* STORE_NONE: none */
    uint64_t scattered_owner;
    bool gathering;    /* the next extent is being emptied ahead of need */
    uint64_t ahead_us; /* nor ahead of need before this */
    uint64_t retry_us; /* when the memory queue is tried again at the latest */
    uint64_t grave_us;
    uint64_t disk_look_us; /* nobody asks the disk what it has free before this */
    uint64_t disk_bytes;   /* what files might take of it, when it was last asked */
    uint64_t disk_rest_us; /* the disk failed: no writes before this */
    uint64_t replay_us;
    uint64_t index_told_us; /* nothing is said of a full index before this */
    uint64_t judge_us;      /* no looking for who holds too much before this */
    uint32_t rounds;        /* batches that the call under way may still evict */
    uint32_t graves;        /* in all pools */
    uint32_t replays;       /* sessions that are being replayed to */

    uint64_t now_us;     /* of the call under way */
    uint64_t wall_at_us; /* wall_ns was read at this time */
    uint64_t wall_ns;

    nigh_node_stats counts; /* only what counts up */
    struct store_extent *extents;
    struct pin_scan scan;
    uint32_t victims[LIMIT_EVICT_BATCH];
    uint32_t written[LIMIT_SPILL_QUEUE]; /* entries whose file is there: to leave memory next */
    uint32_t written_pool[LIMIT_SPILL_QUEUE];
    uint32_t written_count;
    uint32_t *held;     /* STORE_SESSION_PINS entries, for who and holders */
    struct heat *heat;  /* NULL: nobody has looked */
    uint32_t show_next; /* the session whose hints are read next for it */
};

/* ---- one submission ---- */

/* A submission as it is carried out, now or again later. */
struct store_call {
    struct store *store;
    struct store_session *session;
    struct store_pool *pool;
    const struct session_sqe *sqe;
    struct store_waiter *waiter; /* NULL the first time */
    uint64_t hash;               /* of the id, where the operation has one */
    uint64_t deadline_us;
    struct session_cqe cqe;
    /* For NIGH_PENDING: */
    enum store_wait wait;
    uint32_t heap;
    uint64_t bytes;
    uint64_t spent; /* evicted in vain so far */
    uint32_t entry;
    uint32_t block; /* of a copy under way */
    nigh_status late;
    nigh_status local; /* with STORE_WAIT_ERASE */
    bool wants;
    bool behind;
};

/* NIGH_PENDING: it waits as the call says; anything else is its end. */
typedef nigh_status store_operation(struct store_call *call);

/* store_create.c, store_seal.c */
store_operation store_lease, store_lease_close, store_reserve, store_create_object, store_abort;
store_operation store_seal;
/* store_get.c */
store_operation store_get, store_contains, store_stat, store_refresh, store_keep, store_unkeep;
/* store_delete.c, store_evict.c, store_spill.c, store_who.c, store_session.c */
store_operation store_delete, store_evict, store_checksum, store_who, store_holders;
store_operation store_stats_reply, store_subscribe, store_unsubscribe, store_quota;

static inline bool store_spills(const struct store *store)
{
    return store->config.shell.disk != NULL;
}

static inline uint64_t store_free_bytes(const struct store *store)
{
    return store->memory_bytes - store->used_bytes;
}

/* The numbers of the lane's extents: from the first up to, not including, the end. */
static inline uint32_t store_extents_first(const struct store *store)
{
    return extent_lane_first(store->config.extents, store->config.lane);
}

static inline uint32_t store_extents_end(const struct store *store)
{
    return store_extents_first(store) + store->config.extents->lane[store->config.lane].used;
}

/* ---- store.c ---- */

void store_complete(struct store *store, const struct store_session *session,
                    struct session_cqe *cqe, nigh_status status);
/* Hashes the id of a call's submission; false: it is another lane's. */
bool store_take_id(struct store_call *call);
/* Carries out a call whose store, session, sqe, waiter and deadline are set. */
nigh_status store_carry_out(struct store_call *call);

/* ---- store_show.c ---- */

/* An object was used, for who looks on. */
void store_note_use(struct store *store, const struct store_pool *pool, uint32_t entry);
/* A session ends: what it has used of late goes with its memory. */
void store_note_uses(struct store *store, struct store_session *session);

#endif
