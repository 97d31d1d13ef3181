/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole node in one thread, for a fuzz target: lanes that a caller turns by hand, a clock that
 * the caller moves, a keeper that takes what it is sent, and peers who are who the caller says.
 *
 * The node is made once: populating memory takes longer than all the rest. Beside whoever a caller
 * connects, each pool has a guard: a client that behaves, which must be served whatever the others
 * do, and which deletes what they leave. Knows nothing of what hostile clients do: node_fuzz.c.
 */
#ifndef TESTS_FUZZ_NODE_WORLD_H
#define TESTS_FUZZ_NODE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORLD_LANES        2u
#define WORLD_EXTENT_BYTES (UINT64_C(2) << 20)

/* Two users who are not the node's. */
#define WORLD_UID_A 71001u
#define WORLD_UID_B 71002u

/* Declared pools: everybody's, everybody's and strict, and one that only user A may write. */
#define WORLD_POOL_OPEN   "open"
#define WORLD_POOL_STRICT "strict"
#define WORLD_POOL_READ   "readable"

/* Who connects. */
struct world_peer {
    uint32_t uid;
    int32_t pid;
    int life_fd; /* readable once the process is dead; -1: the node's own process */
};

struct world;

/* Makes the node, or a new one in its place when its extents have been used up. Before each input.
 */
struct world *world_get(void);

/*
 * A connected socket that does not block, over the listening socket or over the embedded node's own
 * door; -1: the queue is full. The caller's.
 */
int world_connect(struct world *world, const struct world_peer *peer, bool through_door);

/* One look of a lane at its descriptors, and one turn. True: it found something to do. */
bool world_turn(struct world *world, uint32_t lane);

/* Moves the clock. */
void world_pass(struct world *world, uint64_t time_us);

/* Whether an extent may have been granted to a user's session in a pool. An extent that has changed
 * hands since is nobody's. */
bool world_may_grant(const struct world *world, uint32_t extent, const char *pool, uint32_t uid,
                     bool writable);

/* Whether a file that was brought as a space's memory may be read by a user. Of a space that is
 * gone: whoever had it keeps it. */
bool world_may_read_space(const struct world *world, int fd, uint32_t uid);

/*
 * After the caller has closed everything and ended every process: turns until the node has seen it,
 * deletes what is left, and asserts that the node is as it was: no session but the guards', no
 * space, no descriptor more, no byte in use, books that agree, guards that are answered. life_fds
 * are those of all processes: the node may ask for them until it has seen everybody; then they are
 * closed.
 */
void world_settle(struct world *world, int *life_fds, size_t n);

#endif
