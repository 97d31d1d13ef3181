/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node's side of a session, and the table of them: who it is, its memory and descriptors, where
 * it stands in its life (docs/session.md, "The states of a session").
 *
 * It makes and frees what a session owns. Messages, and the order in which lanes learn of a
 * session, are the front door's (node/front.h). Thread: lane 0's driver.
 */
#ifndef NODE_SESSION_H
#define NODE_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "node/lane.h"
#include "node/pool.h"

enum node_session_state {
    NODE_SESSION_FREE = 0,
    NODE_SESSION_OPENING, /* lanes are being told */
    NODE_SESSION_OPEN,
    NODE_SESSION_RESTING,  /* the client is gone, its process lives: lanes are being told */
    NODE_SESSION_KEPT,     /* it may come back: lanes hold what it holds, and look at nothing */
    NODE_SESSION_RESUMING, /* it came: lanes begin its rings anew */
    NODE_SESSION_CLOSING   /* lanes are being told */
};

/* Who is at the other end of a socket, as the kernel says. */
struct node_peer {
    int32_t pid; /* 0: in a pid namespace that is not seen from here */
    uint32_t uid;
    uint32_t gid;
    uint32_t *groups; /* heap */
    size_t group_count;
    uint64_t start_time; /* of the process, in clock ticks since boot; 0: not known */
    int pidfd;           /* -1: none */
};

struct node_session {
    enum node_session_state state;
    struct lane_seat seat;
    uint8_t token[16];
    uint32_t rights;
    uint64_t start_time; /* of the process: with the pid it names it for ever */
    struct pool *pool;
    int socket_fd;
    int pidfd;
    int memory_fd;
    uint64_t memory_bytes;
    int doorbell_fds[LIMIT_LANES];
    _Atomic uint64_t quota_used;
    uint64_t pair_us;        /* when a pair was last made that it asked for */
    uint32_t lanes_pending;  /* answers that are still due */
    nigh_status lane_status; /* the first bad one */
};

struct sessions {
    uint32_t capacity;
    uint32_t lanes;
    uint32_t count;   /* not free */
    uint64_t next_id; /* session numbers are never used twice */
    struct node_session *slots;
};

/* Asks the kernel who is at the other end. NIGH_NO_RESOURCES. The peer ends with node_peer_fini. */
nigh_status node_peer_of(int socket_fd, struct node_peer *peer);
void node_peer_fini(struct node_peer *peer);

/* When a process began, in clock ticks since boot: what tells two processes of one pid apart. 0: no
 * such process. */
uint64_t node_process_start_time(int32_t pid);

/* Whether the process behind a pidfd has ended. */
bool node_pidfd_is_dead(int pidfd);

nigh_status sessions_init(struct sessions *sessions, uint32_t capacity, uint32_t lanes);

/* Frees every session. No lane may be running. */
void sessions_fini(struct sessions *sessions);

/* Sessions of a uid that are not free. */
uint32_t sessions_of_uid(const struct sessions *sessions, uint32_t uid);

/* The session of this number, whatever its state; NULL when there is none. */
struct node_session *sessions_find(struct sessions *sessions, uint64_t session_id);

/*
 * Takes a free slot and makes what the session owns: memory, token, number, doorbells. State
 * OPENING; the socket and the pidfd are not set. NIGH_LIMIT: no slot. NIGH_OUT_OF_MEMORY,
 * NIGH_NO_RESOURCES.
 */
nigh_status sessions_take(struct sessions *sessions, struct node_session **session);

/*
 * Takes a certain slot for a session that a former node served: state KEPT. memory_fd is taken over
 * on success. NIGH_PROTOCOL: it is not a session's memory. NIGH_NO_RESOURCES.
 */
nigh_status sessions_keep(struct sessions *sessions, uint32_t slot, uint64_t session_id,
                          int memory_fd, struct node_session **session);

/* Tells the client what bounds its objects: once pool and seat are set. */
void sessions_tell_quotas(const struct sessions *sessions, const struct node_session *session);

/* Closes the socket and the doorbells of a session that waits for its client to come back. */
void sessions_disconnect(struct node_session *session);

/* New doorbells for a session that comes back. NIGH_NO_RESOURCES. */
nigh_status sessions_make_doorbells(struct sessions *sessions, struct node_session *session);

/* Unmaps, closes, frees the slot. Every lane has dropped the session. */
void sessions_free(struct sessions *sessions, struct node_session *session);

#endif
