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
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cluster/directory.h"
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

/* An object as other nodes see it: a glance, true until the next call of the store. */
struct store_sight {
    uint32_t pool;
    uint32_t entry;
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t hash;
    struct birth birth;
    uint64_t offset; /* in the arena; 0 when it is not in memory */
    uint64_t data_size;
    uint32_t meta_size;
    uint32_t name_size;
    uint64_t bytes; /* data, metadata and name as they lie: index_object_bytes */
    uint32_t data_crc;
    bool has_crc;
    bool is_copy;  /* pulled from another node: goes before anything is spilled, */
    bool is_given; /* unless it was handed over by a node that left (store_give) */
    bool in_memory;
    bool is_claim;     /* not sealed: created exclusively, and what its birth will be; */
    uint32_t replicas; /* nodes that are to hold it; 0: nobody has said */
    bool is_granted;   /* its id's home has said that this is the only one to come */
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
    /* Forgets a spilled object's file. again: the object lives, and may be written once more. */
    void (*disk_forget)(void *context, uint32_t pool, uint64_t generation, uint32_t incarnation,
                        bool again);
    /* What of the disk's free bytes is this lane's. NULL: only the bound counts. */
    uint64_t (*disk_free)(void *context);
    /* Ends a session that broke the protocol or pins beyond its limit; the node later calls
     * store_session_close. */
    void (*expel)(void *context, uint32_t session, const char *why);
};

/* The other nodes, as the store speaks to them (object/exchange.h). Calls are made from inside
 * store calls; they must not call back. */
struct store_remote {
    void *context;
    /* Somebody waits for an id of which there is no sealed object here; called again whenever it is
     * asked for anew. Until deadline_us (UINT64_MAX: no end). keep: a copy may stay here. */
    void (*want)(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                 uint64_t deadline_us, bool keep);
    /* Nobody waits for it any more: they left, or it was sealed here. */
    void (*unwant)(void *context, uint32_t pool, const uint8_t *id, uint64_t hash);
    /* An object was born here. */
    void (*sealed)(void *context, const struct store_sight *sight);
    /* A birth is no longer here, or no longer to be had: evicted without a file, or deleted (its
     * last readers may still hold it), or claimed and given up. */
    void (*gone)(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                 const struct birth *birth);
    /* The id's home is to say that nobody else has an object of it, nor will have one but this
     * (is_claim). NIGH_OK: there is nobody to ask; or it was granted before, and nothing has come
     * between. NIGH_PENDING: store_claimed follows. NIGH_PEER_LOST: the same, when the home is
     * back; NIGH_UNREACHABLE: it is dead. May be called again: the home is told only if it has
     * answered the last time (tell). */
    nigh_status (*claim)(void *context, const struct store_sight *sight, bool tell);
    /* A client deletes an id. local: NIGH_OK (what was here is deleted), NIGH_IN_USE (at its last
     * release), NIGH_NOT_FOUND. True: store_erased follows, once; false: there is nobody to ask.
     * One of an id at a time: others wait for its end, and share the next. */
    bool (*erase)(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                  nigh_status local);
    /* How many more of these may be under way: a delete for which there is no room does not begin.
     */
    uint32_t (*erase_room)(void *context);
};

struct store_config {
    struct extent_set *extents;
    uint32_t lane;
    uint32_t lanes;
    uint32_t rank; /* of this node in its cluster; 0 where there is none */
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
    uint64_t quota_bytes;  /* this lane's share; 0: none */
    uint64_t cluster_pool; /* what the cluster calls it (object/exchange.h) */
    struct index index;
};

/* Adds a pool whose index is empty. NIGH_EXISTS, NIGH_NO_RESOURCES. */
nigh_status store_pool_add(struct store *store, const struct store_pool_config *config);

/*
 * Adds a pool whose index a former node left, and rebuilds the lane's books from it: entries that
 * fail their check are dropped, slots are made anew under the version, memory of sealed objects, of
 * leases and of unsealed objects is claimed again. Sessions that own leases or unsealed objects and
 * are not announced by store_session_open before store_adopt_finish lose them.
 */
nigh_status store_pool_adopt(struct store *store, const struct store_pool_config *config);

/*
 * All sessions that came back are announced: what was theirs is theirs again, and counts in their
 * quotas. The first store_tick, a call of the exchange's or the end of a session does it too; but
 * what a session has in one lane must count before another lane serves it, so a node does it in all
 * lanes before it starts any. Nothing happens where nothing was adopted.
 */
void store_adopt_finish(struct store *store);
/* Whether something was adopted and that is still to be done. */
bool store_is_adopting(const struct store *store);

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

/* Whether a session asked to be told of regions that it has open. */
bool store_hears_regions(const struct store *store, uint32_t slot);

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

/* Bytes of a session's lease that it has not sealed; NULL: it has none there. */
uint8_t *store_leased_bytes(struct store *store, uint32_t session, uint64_t offset, uint64_t bytes);

/* Whether the store would use an idle turn (evicting ahead, looking for released pins). */
bool store_wants_turn(const struct store *store);

/* The end of a disk job: NIGH_OK, NIGH_DISK, NIGH_CORRUPT; data_crc as computed or verified by the
 * job. */
void store_disk_done(struct store *store, const struct store_disk_job *job, nigh_status status,
                     uint32_t data_crc, uint64_t now_us);

/* ---- the remote half: loans, copies, claims (store_remote.c, _pull.c, _want.c, _claim.c) ------
 */

/* There are other nodes. Once, before the first session; `remote` is copied. */
void store_set_remote(struct store *store, const struct store_remote *remote);

/* The sealed object of an id, in memory or on disk; false: there is none. */
bool store_see(struct store *store, uint32_t pool, const uint8_t *id, uint64_t hash,
               struct store_sight *sight);

/*
 * Lends an object's memory: it stays where it is, whatever else happens to the object, until
 * store_lend_end (one each). birth NULL: whichever is there. NIGH_OK; NIGH_NOT_FOUND (also another
 * birth); NIGH_PENDING: it is on disk and is being read back, ask again in a turn or two;
 * NIGH_BUSY: lent too often at once; NIGH_DISK, NIGH_CORRUPT, NIGH_OUT_OF_MEMORY: it cannot be read
 * back.
 */
nigh_status store_lend(struct store *store, uint32_t pool, const uint8_t *id, uint64_t hash,
                       const struct birth *birth, uint64_t now_us, struct store_sight *sight);
void store_lend_end(struct store *store, uint32_t pool, uint32_t entry);
/* The same for a copy that is being pulled, by the entry of store_pull_begin. Its memory stays
 * where it is whatever becomes of the pull: store_pull_abort leaves it to the last store_lend_end.
 * False: lent too often at once. */
bool store_lend_pulled(struct store *store, uint32_t pool, uint32_t entry);

/* Notes the CRC32C of a lent object's data, computed by the caller. */
void store_note_crc(struct store *store, uint32_t pool, uint32_t entry, uint32_t crc);

/*
 * Memory for a copy that is about to be pulled: in an entry that no client sees until
 * store_pull_seal. NIGH_OK: *entry, *offset (of bytes as index_object_bytes says). NIGH_EXISTS: an
 * object of this id is here by now, or claimed: if the claim is given up and somebody still waits,
 * store_remote.want says so anew. NIGH_PENDING: no memory or quota now, ask again;
 * NIGH_OUT_OF_MEMORY: there is not as much; NIGH_QUOTA, NIGH_LIMIT: as for a create; NIGH_INVALID:
 * sizes that no object has; NIGH_NO_RESOURCES.
 */
struct store_pull {
    uint32_t pool;
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t hash;
    struct birth birth;
    uint64_t data_size;
    uint32_t meta_size;
    uint32_t name_size;
};

nigh_status store_pull_begin(struct store *store, const struct store_pull *pull, uint64_t now_us,
                             uint32_t *entry, uint64_t *offset);
/*
 * The bytes are there and right: those who wait are served. NIGH_OK: it is a copy now, which stays.
 * NIGH_IN_USE: all who wait want none: it is transient, in nobody's sight, and goes with its last
 * view. NIGH_NOT_FOUND: nobody waits any more, and `keep` is false (nobody did who wants a copy):
 * it is dropped. NIGH_EXISTS: an object was born here meanwhile; the copy is dropped. The entry is
 * no longer the caller's.
 */
nigh_status store_pull_seal(struct store *store, uint32_t pool, uint32_t entry, uint32_t data_crc,
                            bool keep, uint64_t now_us);
/*
 * Serves those who wait with a transient copy of this birth, which the home of the id has just said
 * to be the one: there may be such while somebody holds it. NIGH_OK: somebody wants a copy, and it
 * is one now; NIGH_IN_USE: it stays transient; NIGH_NOT_FOUND: there is none, or nobody waits.
 */
nigh_status store_pull_reuse(struct store *store, const struct store_pull *pull, uint64_t now_us);
/* Whether there is one of an id, of whichever birth. */
bool store_has_transient(const struct store *store, uint32_t pool, const uint8_t *id,
                         uint64_t hash);
/* Gives the memory back, or buries it while it is lent. Nothing may write to it any more. */
void store_pull_abort(struct store *store, uint32_t pool, uint32_t entry, uint64_t now_us);

/* Why those who wait for an id go on waiting: what their gets end with at their deadlines.
 * NIGH_TIMEOUT: for no reason that is this node's. */
void store_note_wanted(struct store *store, uint32_t pool, const uint8_t *id, uint64_t hash,
                       nigh_status late);

/* Ends those who wait for an id with a status (the node that had it is lost, out of memory...). */
void store_fail_wanted(struct store *store, uint32_t pool, const uint8_t *id, uint64_t hash,
                       nigh_status status, uint64_t now_us);

/* Deletes a birth for another node's sake: it was deleted there, or (came_second) the home admitted
 * another's. NIGH_OK; NIGH_IN_USE: gone at its last release; NIGH_NOT_FOUND. */
nigh_status store_drop(struct store *store, uint32_t pool, const uint8_t *id, uint64_t hash,
                       const struct birth *birth, bool came_second, uint64_t now_us);

/* What the home says of a claim. NIGH_OK: granted; NIGH_EXISTS: another is sealed, or claimed;
 * NIGH_BUSY: it does not know yet, store_remote.claim comes again; NIGH_LIMIT. Nothing if there is
 * no such claim any more. */
void store_claimed(struct store *store, uint32_t pool, const uint8_t *id, uint64_t hash,
                   const struct birth *birth, nigh_status status, uint64_t now_us);
/* Whether this birth is claimed here and not sealed yet; and granted. */
bool store_see_claim(const struct store *store, uint32_t pool, const uint8_t *id, uint64_t hash,
                     const struct birth *birth, bool *is_granted);

/* The end of what store_remote.erase began: every delete of the id that waits for it ends, with
 * NIGH_IN_USE if either half says so, NIGH_OK if either deleted something, what was found here if
 * neither; but with `status`, whatever was deleted here, if that is none of NIGH_OK, NIGH_IN_USE,
 * NIGH_NOT_FOUND: the other half failed. May begin another, for deletes of the id that came
 * meanwhile.
 */
void store_erased(struct store *store, uint32_t pool, const uint8_t *id, uint64_t hash,
                  nigh_status status, uint64_t now_us);

/*
 * So many nodes are to hold this birth, of which this one is (2 to LIMIT_REPLICAS; the number never
 * becomes less): what is held in memory alone (a copy, or anything where the node does not spill)
 * is not evicted any more. NIGH_NOT_FOUND: it is not here. birth NULL: whichever is.
 */
nigh_status store_replicate(struct store *store, uint32_t pool, const uint8_t *id, uint64_t hash,
                            const struct birth *birth, uint32_t replicas, uint64_t now_us,
                            struct store_sight *sight);
/* It is a copy like others again. */
void store_unreplicate(struct store *store, uint32_t pool, const uint8_t *id, uint64_t hash,
                       const struct birth *birth, uint64_t now_us);

/*
 * This node leaves (docs/leaving.md), or does not any more: CREATE, LEASE, and SEAL of what was not
 * begun before end with NIGH_LEAVING. Nothing else changes.
 */
void store_leave(struct store *store, bool leaves, uint64_t now_us);
bool store_leaves(const struct store *store);

/* Objects that clients created and have yet to seal. */
uint64_t store_unsealed(const struct store *store);

/* Whether so many bytes may be handed over to a pool without costing an object that is nowhere
 * else; copies of others' objects may go for it, LIMIT_LEAVE_COPIES a call. NIGH_OK;
 * NIGH_OUT_OF_MEMORY, NIGH_QUOTA, NIGH_LIMIT (of the index). */
nigh_status store_give_room(struct store *store, uint32_t pool, uint64_t bytes, uint64_t now_us);
/* What is here of this birth was handed over: it counts as what was born here from now on, is
 * evicted or spilled as that is, and kept by a restart. NIGH_NOT_FOUND. store_unreplicate makes it
 * a copy again, if it is in memory alone. */
nigh_status store_give(struct store *store, uint32_t pool, const uint8_t *id, uint64_t hash,
                       const struct birth *birth, uint64_t now_us, struct store_sight *sight);

/* Whether some get here waits for an id. */
bool store_waits_for_id(struct store *store, uint32_t pool, const uint8_t *id, uint64_t hash);

/* Visits the sealed objects of a pool, and what is claimed (is_claim): *cursor begins at 0; false:
 * that was the last. At most LIMIT_EVICT_SCAN entries are looked at in a call: sight->entry is
 * UINT32_MAX when none was found among them. */
bool store_next(struct store *store, uint32_t pool, uint32_t *cursor, struct store_sight *sight);

/* Adds this lane's numbers to *stats (those that the store knows). */
void store_stats(const struct store *store, nigh_node_stats *stats);

/* What the store shows (docs/page.md), into memory of the lane's own. All its pools, LIMIT_POOLS at
 * most; how many. */
uint32_t store_show_pools(const struct store *store, struct session_show_pool *pools);
/* The objects used most of late, most first, SESSION_SHOW_OBJECTS at most, and of how many uses
 * that were seen. Counting begins with the first question. NIGH_NO_RESOURCES. */
nigh_status store_show_hottest(struct store *store, uint64_t now_us,
                               struct session_show_object *objects, uint32_t *count,
                               uint64_t *seen);
/* The id of an entry that is lent. */
void store_copy_id(const struct store *store, uint32_t pool, uint32_t entry, uint8_t *id);

#define STORE_STATS_BYTES (sizeof(nigh_node_stats) - offsetof(nigh_node_stats, memory_bytes))

/* What an answer to STATS has of them: the numbers alone. Returns their bytes. */
static inline uint64_t store_write_stats(const nigh_node_stats *stats, uint8_t *reply)
{
    memcpy(reply, (const uint8_t *)stats + offsetof(nigh_node_stats, memory_bytes),
           STORE_STATS_BYTES);
    return STORE_STATS_BYTES;
}

/* Checks every invariant between index, heaps, policy and sessions; for tests. */
bool store_is_valid(const struct store *store);

#endif
