/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front door: the socket where clients come in, hellos, grants of extents, and the end of
 * sessions (docs/session.md).
 *
 * It is a guest of lane 0: everything here runs on the thread that drives that lane, and nothing
 * here waits for a client. Other lanes learn of sessions by mail and answer by mail; a session's
 * slot is used again only when all have answered.
 */
#ifndef NODE_FRONT_H
#define NODE_FRONT_H

#include <stdint.h>

#include "memory/extent.h"
#include "node/keeper.h"
#include "node/lane.h"
#include "node/pool.h"
#include "node/session.h"
#include "node/state.h"

struct front_config {
    uint32_t lanes;
    uint32_t spin_us;
    uint32_t incarnation;
    uint32_t own_uid;             /* of the node: not subject to a uid's share */
    uint64_t session_quota_bytes; /* default and most; 0: none */
    int page_read_fd;             /* of the node page, kept by the node */
    struct extent_set *extents;
    struct sessions *sessions;
    struct pools *pools;
    struct keeper *keeper; /* where what must survive is stored */
    struct state *state;   /* NULL: nothing survives this node */
    uint32_t rank;         /* of this node */
};

/* A connection that has not said hello. */
struct front_half {
    int fd; /* -1: free */
    uint32_t uid;
    uint64_t deadline_us;
};

/* One of a pair's two sessions. */
struct front_pair_side {
    bool has; /* and has not let go */
    uint32_t slot;
    uint32_t place; /* of its word in the session */
    uint32_t uid;
};

/* A pair, until both have let go; side 0 calls, 1 serves. */
struct front_pair {
    uint32_t serial; /* 0: free */
    int memory_fd;   /* its pages are taken back at the end, whoever keeps it mapped */
    uint64_t hash;
    struct front_pair_side side[2];
};

struct peers;
struct services;

struct front {
    struct front_config config;
    struct peers *peers; /* who shares lane 0 with the front door; NULL: there are no other nodes */
    struct lane **lanes;
    struct lane_front guest; /* what lane 0 calls */
    int listen_fd;           /* -1: none */
    int attach_fd;           /* lane 0's end of the embedded node's own door; -1: none */
    int spare_fd;            /* given up to refuse a connection when descriptors are used up */
    bool is_shut;            /* the door, and its descriptors are not looked at */
    struct front_half halves[LIMIT_FRONT_HALF_OPEN];
    struct services *services;   /* NULL: nobody serves, and there are no pairs */
    struct bulk_memories *bulks; /* NULL: there is none */
    struct disposals *disposals; /* of descriptors that clients sent, and that nobody takes */
    struct closings *closings;   /* of connections that such are left in */
    struct front_pair pairs[LIMIT_PAIRS];
    uint32_t pair_serial; /* of the newest */
    uint64_t pair_us;     /* when that was made */
    /* Statistics. */
    uint64_t expelled;
    uint64_t died;
    uint64_t pairs_made, pairs_dropped; /* that both had; that one of them has let go of */
};

/* Starts with no descriptors; the guest may then be named to lane 0. */
void front_init(struct front *front, const struct front_config *config);

/*
 * Opens the door: lanes[] are there, none is running, and kept sessions are known to them.
 * listen_fd (-1: none) is taken over, on success only.
 */
nigh_status front_open(struct front *front, struct lane **lanes, int listen_fd);

/* Tells every client that its session is over. No lane is running. */
void front_say_bye(struct front *front, nigh_status status, const char *sentence);

/* Pairs that both sessions have. Lane 0's driver. */
uint32_t front_pairs_count(const struct front *front);

/* Closes what is open. No lane is running. */
void front_fini(struct front *front);

/*
 * Hands a connected socket to the front door as if it had been accepted; taken over on success.
 * NIGH_BUSY: too many at once. Any thread.
 */
nigh_status front_attach(int door_fd, int socket_fd);

/* The other end of the embedded node's door, for front_attach; the caller's. */
nigh_status front_open_door(struct front *front, int *door_fd);

/* Stores what a restart needs of a pool; a pool of which that fails does not survive. Lane 0's
 * driver, or start-up. */
void front_remember_pool(struct front *front, const struct pool *pool);

/* Tells lanes of a pool that was just made. On lane 0's driver. */
void front_announce_pool(struct front *front, struct pool *pool);

/* Tells those lanes again that could not serve the pool when they were told. */
void front_announce_again(struct front *front, struct pool *pool);

#endif
