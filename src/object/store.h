/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object store of one lane: what every submission does to the objects of the lane's shards.
 *
 * It decides and keeps books, and has no I/O: no socket, no clock, no thread, no disk. Time comes
 * in as an argument; what must be said or done outside goes out through struct store_shell. The
 * node calls it from the lane's thread only.
 *
 * States of an object: absent -> created -> sealed -> (evicted | spilled | deleting) -> absent
 * (docs/objects.md).
 */
#ifndef OBJECT_STORE_H
#define OBJECT_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/extent.h"
#include "memory/index.h"
#include "memory/session.h"
#include "nigh/object.h"

struct store;

/* A read or write of one object's bytes on disk, carried out by the shell on another thread. */
struct store_disk_job {
    bool write;
    uint32_t pool;
    uint32_t entry; /* of the lane's index of the pool; with the generation it names the job */
    uint64_t generation;
    uint32_t incarnation;
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t offset; /* in the arena: bytes to write out, or memory to read into */
    uint64_t data_size;
    uint32_t meta_size;
    uint32_t name_size;
};

/* What the store asks of the outside. Calls are made from inside store calls; they must not call
 * back. */
struct store_shell {
    void *context;
    /* One completion for a submission of a session. There is always room: the node admits no more
     * than the ring holds. */
    void (*complete)(void *context, uint32_t session, const struct session_cqe *cqe);
    /* One event for a subscribed session; the shell keeps the queue and counts what it loses. */
    void (*event)(void *context, uint32_t session, const struct session_event *event);
    /* Starts a disk job; false: the queue is full. It ends with store_disk_done. NULL: this node
     * does not spill. */
    bool (*disk)(void *context, const struct store_disk_job *job);
    /* Forgets a spilled object's file. */
    void (*disk_forget)(void *context, uint32_t pool, uint64_t generation, uint32_t incarnation);
    /* Ends a session that broke the protocol or pins beyond its limit; the node later calls
     * store_session_close. */
    void (*expel)(void *context, uint32_t session, const char *why);
};

struct store_config {
    struct extent_set *extents;
    uint32_t lane;
    uint32_t lanes;
    uint32_t incarnation;
    uint32_t max_blocks;                /* bound on blocks of memory in the lane */
    uint64_t spill_bytes;               /* this lane's share of the disk bound; UINT64_MAX: none */
    uint32_t max_lane_pins;             /* of one session: at most LIMIT_LANE_PINS */
    uint64_t (*wall_ns)(void *context); /* for created_ns only */
    struct store_shell shell;
};

nigh_status store_create(const struct store_config *config, struct store **store);
void store_destroy(struct store *store);

/* A pool as the lane sees it; `index` is mapped writable by the node and formatted (index_format).
 */
struct store_pool_config {
    uint32_t pool;
    uint32_t owner_uid;
    bool strict;
    uint64_t quota_bytes; /* this lane's share; 0: none */
    struct index index;
};

/* Adds a pool whose index is empty. NIGH_EXISTS, NIGH_NO_RESOURCES. */
nigh_status store_pool_add(struct store *store, const struct store_pool_config *config);

/*
 * Adds a pool whose index a former node left, and rebuilds the lane's books from it: entries that
 * fail their check are dropped, slots are made anew under the version, memory of sealed objects, of
 * leases and of unsealed objects is claimed again. Sessions that own leases or unsealed objects and
 * are not announced by store_session_open before the first store_tick lose them.
 */
nigh_status store_pool_adopt(struct store *store, const struct store_pool_config *config);

/* A session as the lane sees it. All pointers are into the session's shared memory, which the
 * client may write. */
struct store_session_config {
    uint32_t session; /* slot number in the node, < LIMIT_SESSIONS */
    uint64_t session_id;
    uint32_t pool;
    uint32_t uid;
    int32_t pid;
    char name[LIMIT_CLIENT_NAME_BYTES + 1];
    bool may_write;
    uint64_t quota_bytes;         /* 0: none */
    _Atomic uint64_t *quota_used; /* shared by the lanes of the node; node-private memory */
    struct session_front *front;
    struct session_lane *lane;
    struct pin_chunk *chunks;
};

nigh_status store_session_open(struct store *store, const struct store_session_config *config);

/*
 * Ends a session in this lane: its waiting operations vanish without completion, its leases and
 * unsealed objects are reclaimed at once, its pins no longer count (the caller unmaps its memory
 * afterwards).
 */
void store_session_close(struct store *store, uint32_t session);

/*
 * A session whose client came back after a restart or died in between: forgets waiting operations
 * only. Its pins, leases and unsealed objects stay.
 */
void store_session_reset(struct store *store, uint32_t session);

/*
 * Carries out one submission, copied out of the ring and otherwise unchecked. It completes now or
 * later through shell.complete, once.
 */
void store_submit(struct store *store, uint32_t session, const struct session_sqe *sqe,
                  uint64_t now_us);

/*
 * Deadlines, evicting ahead of need, memory of deleted objects whose last pin went, retries of what
 * waits for memory. Bounded work. Returns when it must be called next at the latest (UINT64_MAX:
 * not before something happens).
 */
uint64_t store_tick(struct store *store, uint64_t now_us);

/* Whether the store would use an idle turn (evicting ahead, looking for released pins). */
bool store_wants_turn(const struct store *store);

/* The end of a disk job: NIGH_OK, NIGH_DISK, NIGH_CORRUPT; data_crc as computed or verified by the
 * job. */
void store_disk_done(struct store *store, const struct store_disk_job *job, nigh_status status,
                     uint32_t data_crc, uint64_t now_us);

/* Adds this lane's numbers to *stats (those that the store knows). */
void store_stats(const struct store *store, nigh_node_stats *stats);

/* Checks every invariant between index, heaps, policy and sessions; for tests. */
bool store_is_valid(const struct store *store);

#endif
