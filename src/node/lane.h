/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane: one thread with a share of the shards, the store of those shards, and its end of every
 * session's rings.
 *
 * A turn of the lane looks at the ready word of every session, copies submissions out and hands
 * them to the store, takes its mail, lets the store's time pass, and wakes clients that sleep. A
 * lane that has nothing to do spins for a while and then sleeps in epoll. At each moment one thread
 * drives it, named by its owner word: its own, or (in an embedded node) a thread that waits for an
 * answer and runs one bounded turn itself.
 *
 * It does not know who a session is, accepts nobody and closes nothing by itself: what must be
 * decided about sessions goes to the front door (node/front.h), which is lane 0's guest, through
 * struct lane_front or, from the other lanes, by mail.
 *
 * Unless a comment says otherwise, functions are for the thread that drives the lane, or for the
 * start-up thread before lane_start and after lane_stop.
 */
#ifndef NODE_LANE_H
#define NODE_LANE_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "memory/session.h"
#include "cluster/link.h"
#include "node/mailbox.h"
#include "node/bulk_memories.h"
#include "node/services.h"
#include "node/views.h"
#include "object/exchange.h"
#include "object/store.h"

#define LANE_WHY_BYTES 128 /* why a session is expelled: a sentence for its client */

/*
 * Mail. From lane 0 to another: POOL_ADD, OPEN, CLOSE, RESET, REST, each answered once. To lane 0
 * besides: EXPEL, at most one for each OPEN. A pool is added once, a session is opened, closed and
 * expelled once: at most LIMIT_POOLS + 3 * LIMIT_SESSIONS messages wait in one direction.
 */
enum lane_mail {
    LANE_POOL_ADD = 1,   /* pointer: struct store_pool_config of this lane */
    LANE_POOL_ADDED,     /* number: the pool; status */
    LANE_SESSION_OPEN,   /* pointer: struct lane_seat */
    LANE_SESSION_OPENED, /* number: the slot; status */
    LANE_SESSION_CLOSE,  /* number: the slot */
    LANE_SESSION_CLOSED, /* number: the slot */
    LANE_SESSION_RESET,  /* number: the slot; pointer: struct lane_seat */
    LANE_SESSION_RESET_DONE,
    LANE_SESSION_REST,   /* number: the slot */
    LANE_SESSION_RESTED, /* number: the slot */
    LANE_EXPEL, /* number: the slot; pointer: the sentence, good until the session is closed here */
    LANE_PEER_UP, /* number: the rank; pointer: a struct link_peer of malloc, the lane's to free */
    LANE_PEER_LOST, /* number: the rank */
    LANE_PEER_DEAD  /* number: the rank */
};

/* News of peers are not answered, and wait where they come from when the mailbox is full but for
 * the rest. */
#define LANE_MAIL_SESSIONS (LIMIT_POOLS + 3 * LIMIT_SESSIONS)

_Static_assert(LANE_MAIL_SESSIONS < LIMIT_MAILBOX, "a mailbox never fills");

/* What lanes know of a session. Lies with the front door and stays as it is until every lane has
 * answered CLOSE. */
struct lane_seat {
    uint32_t slot;
    uint64_t session_id;
    uint32_t pool;
    uint32_t uid;
    uint32_t gid; /* of its connection; of a session kept over a restart 0, until it comes back */
    int32_t pid;
    char name[LIMIT_CLIENT_NAME_BYTES + 1];
    bool may_write;
    bool is_low;                  /* what it does with regions has low priority */
    uint16_t version;             /* of the session: what its client understands */
    uint64_t quota_bytes;         /* 0: none */
    uint64_t quota_max_bytes;     /* what the client may ask for; 0: anything */
    _Atomic uint64_t *quota_used; /* shared by the lanes */
    void *memory;                 /* the session's shared memory, mapped writable */
    bool has_places;              /* it ends with places of its own */
    int socket_fd; /* pokes go there; -1: nobody is there (a session kept over a restart) */
    const int *doorbell_fds; /* one a lane; -1 as above */
};

/* What the front door wants of lane 0. Called by the thread that drives it, never from inside a
 * store call. NULL for the other lanes. */
struct lane_front {
    void *context;
    /* A descriptor that the front door added to the lane's epoll is ready. */
    void (*ready)(void *context, uint64_t data, uint32_t events);
    /* Mail for it, of this lane or another. */
    void (*mail)(void *context, const struct mailbox_message *message);
    /* Deadlines; returns when it wants to be called next (UINT64_MAX: need not). */
    uint64_t (*tick)(void *context, uint64_t now_us);
};

struct lane_config {
    uint32_t number;
    uint32_t lanes;
    uint32_t max_sessions;
    uint32_t spin_us;
    struct session_node_page *page;
    struct life *life;         /* lane 0: its thread holds it; NULL: nobody's */
    struct mailbox *from_zero; /* NULL for lane 0 */
    struct mailbox *to_zero;   /* NULL for lane 0 */
    struct mailbox *inboxes;   /* lane 0: the other lanes' to_zero boxes, lanes - 1 of them */
    const struct lane_front *front;
    void (*zero_wake)(void *context); /* rings lane 0; any thread */
    void *zero_context;
    struct store_config store; /* without shell */
    const char *spill_dir;     /* NULL: this node does not spill */
    const cpu_set_t *cpus;     /* of its thread; NULL: any. For lane_start */
    struct fabric *fabric; /* NULL: there are no other nodes; else it listens, and is the lane's */
    struct exchange_config exchange; /* with a fabric: without store, fabric, extents and numbers */
    /* Adds the node's own numbers to a STATS reply. */
    void (*node_stats)(void *context, nigh_node_stats *stats);
    /* The n-th node of the cluster; false: there are no more. Lane 0 only. NULL: nobody knows. */
    bool (*node_list)(void *context, uint32_t n, struct session_node *node);
    /* What the nth of these is called, if anything. */
    bool (*node_name)(void *context, uint32_t n, struct session_name *name);
    /* The rules of a pool, into its record. Lane 0 only. NULL: nobody knows. */
    void (*node_pool)(void *context, uint32_t number, struct session_show_pool *pool);
    void *node_context;
    /* Has a rank struck off; true: *status says how that ended, else it is to be asked again. Lane
     * 0 alone; NULL: there are no other nodes. */
    bool (*forget)(void *context, uint32_t rank, nigh_status *status);
    uint32_t own_uid;             /* of the node: who may have it leave, beside root */
    struct services *services;    /* of this node; NULL: none can be */
    struct views *views;          /* of this node; NULL: its cluster agrees on none */
    struct bulk_memories *bulks;  /* of this node; NULL: there is none */
    uint64_t region_memory_bytes; /* most that chunks of regions take here */
    uint64_t space_memory_bytes;  /* most that spaces take here; 0: this lane serves none */
    const struct space_log_folder *space_logs; /* NULL: this node keeps none */
    uint32_t region_qos;                       /* enum qos_policy */
    uint64_t session_rate_bytes; /* of regions, that one session has a second; 0: without end */
    uint64_t session_rate_ops;   /* operations of regions, likewise */
};

struct lane;

nigh_status lane_create(const struct lane_config *config, struct lane **lane);

/* The memory of a session's map of a region's chunk (SESSION_REGION_MAP): *fd, the caller's. Lane
 * 0. NIGH_NOT_FOUND: it has none such; NIGH_STALE: it is not the chunk's any more;
 * NIGH_NO_RESOURCES. */
nigh_status lane_region_map_open(const struct lane *lane, uint32_t slot, uint64_t number, int *fd);

/* Takes a memory file over, on success: of so many bytes, which are to be a region's that the
 * session creates of it, by this number (SESSION_REGION_DONATED). Waits for nobody. Lane 0.
 * NIGH_INVALID: it is none that can be (memfd_check_given), or of no whole pages; NIGH_OVERLOADED:
 * LIMIT_SESSION_DONATIONS wait; NIGH_OUT_OF_MEMORY, NIGH_LIMIT: the node has so much of regions;
 * NIGH_DENIED: the session may not write; NIGH_UNSUPPORTED; NIGH_NO_RESOURCES. */
nigh_status lane_region_donate(struct lane *lane, uint32_t slot, int fd, uint64_t bytes,
                               uint64_t *number);

/* A file of a space that the session has open, or of a window of its own (SESSION_SPACE_ASK): *fd,
 * the caller's. Lane 0. NIGH_NOT_FOUND: it has none such; NIGH_NO_RESOURCES. */
nigh_status lane_space_file_open(const struct lane *lane, uint32_t slot, uint64_t number, int *fd);

/* The session will not ask for a region of it: it is gone, if it is the session's and nobody has
 * asked yet. Lane 0. */
void lane_region_donation_drop(struct lane *lane, uint32_t slot, uint64_t number);

/* Not while its thread runs. Sessions still open are forgotten. */
void lane_destroy(struct lane *lane);

/* Starts and stops the lane's thread. lane_stop returns when it has ended. Start-up thread. */
nigh_status lane_start(struct lane *lane);
void lane_stop(struct lane *lane);

/* The lane's store and exchange (NULL: none), for what start-up does with them. */
struct store *lane_store(struct lane *lane);
struct exchange *lane_exchange(struct lane *lane);
struct fabric *lane_fabric(struct lane *lane); /* NULL: none */

/* Gives the lane a pool, made anew or of a former node. Errors of store_pool_add and
 * store_pool_adopt. Before the lane runs. */
nigh_status lane_pool_add(struct lane *lane, const struct store_pool_config *config, bool adopted);

/* Adds a session: its rings are served from now on. NIGH_LIMIT, NIGH_NO_RESOURCES, NIGH_NOT_FOUND
 * (its pool failed here). */
nigh_status lane_session_open(struct lane *lane, const struct lane_seat *seat);

/* Adds a session of a former node: what it holds counts, its rings are not looked at before
 * lane_session_reset. Errors as above. Before the lane runs. */
nigh_status lane_session_keep(struct lane *lane, const struct lane_seat *seat);

/* The client of a session is gone and may come back: what it holds stays, what it waits for is
 * forgotten, its rings are not looked at before lane_session_reset. */
void lane_session_rest(struct lane *lane, uint32_t slot);

/* Drops a session; one that is not open here is passed over. Its memory is not touched afterwards.
 */
void lane_session_close(struct lane *lane, uint32_t slot);

/* The client of a kept session came back: its rings begin at zero and are served. */
nigh_status lane_session_reset(struct lane *lane, const struct lane_seat *seat);

/* Asks lane 0's epoll for a descriptor on behalf of the front door. `data` must not be 0. */
nigh_status lane_watch(struct lane *lane, int fd, uint32_t events, uint64_t data);
void lane_unwatch(struct lane *lane, int fd);

/* Posts mail from lane 0 to this lane and rings it if it sleeps. Lane 0's driver only. */
void lane_post(struct lane *lane, const struct mailbox_message *message);

/* Tells the lane of a peer: LANE_PEER_UP (info is the lane's, on success), _LOST, _DEAD. False: not
 * now, its mailbox is full. Lane 0's driver only. */
bool lane_tell_peer(struct lane *lane, enum lane_mail kind, uint32_t rank, struct link_peer *info);

/* Whether the node leaves, as this lane was told (docs/leaving.md). Its driver only. */
bool lane_leaves(const struct lane *lane);

/* Makes the lane look at everything soon. Any thread. */
void lane_kick(struct lane *lane);

/* One turn; true if it found something to do. For the thread that drives the lane. */
bool lane_turn(struct lane *lane, uint64_t now_us);

/* Looks at its descriptors, without waiting. For the thread that drives the lane. */
void lane_poll(struct lane *lane);

/*
 * Runs a bounded turn on behalf of the lane's thread; false when another thread is at it. Any
 * thread. `stays`: the caller is a guest that comes again at once. While it does, other nodes'
 * messages do not wake the lane's thread, which would only be in the way; it takes over again
 * when it next looks, LANE_GUEST_US and LANE_DOZE_US after the guest's last turn at the latest. One
 * that spins when such a guest comes goes to sleep as soon as it has nothing to do.
 */
bool lane_drive(struct lane *lane, uint64_t now_us, bool stays);

/* Answers a request from inside a handler that this lane has called: NIGH_OK, NIGH_NOT_FOUND (it is
 * answered, or not any more); NIGH_PENDING: this thread is in none. Any thread. */
nigh_status lane_reply_now(struct lane *lane, uint64_t id, nigh_status status, const void *bytes,
                           uint32_t count);

/* See session_driver: a guest that sleeps on the fabric's descriptor itself, so that a message of
 * another node wakes one thread and not two. Any thread. */
int lane_rest(struct lane *lane, uint64_t now_us);
uint64_t lane_rise(struct lane *lane);

/* Counters, read by any thread. */
struct lane_counters {
    _Atomic uint64_t turns;
    _Atomic uint64_t sleeps;
    _Atomic uint64_t wakes;
    _Atomic uint64_t events_lost;
};

const struct lane_counters *lane_counters(const struct lane *lane);

#endif
