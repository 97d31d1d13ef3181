/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of Plasma's calls and of its defects share: clients of a private node, ids,
 * recognisable bytes, puts by another process. On the public API alone.
 */
#ifndef TESTS_PLASMA_WORLD_H
#define TESTS_PLASMA_WORLD_H

#include "nigh/nigh.h"
#include "support/node_fixture.h"
#include "support/support.h"

/* Opens a client of a node, named; fails the test when it cannot. quota_bytes: 0 for none. */
nigh_client *plasma_open(const struct node_fixture *node, const char *name, uint64_t quota_bytes);

/* The same for a child process, which must not assert: NULL when it cannot. */
nigh_client *plasma_try_open(const struct node_fixture *node, const char *name);

/* Ids that differ in their number and lie in different shards. */
nigh_id plasma_id(uint32_t number);

/* Bytes that follow from a number, so that a wrong one shows. */
void plasma_fill(void *data, size_t size, uint32_t number);
bool plasma_is_filled(const void *data, size_t size, uint32_t number);

/* Puts an object of such bytes; the status. */
nigh_status plasma_put(nigh_client *client, uint32_t number, size_t size);

/* Gets it, checks every byte, releases it; fails the test when something is wrong. */
void plasma_check(nigh_client *client, uint32_t number, size_t size);

/* Forks a process that puts `count` objects from `first` on once the node counts `waiting`
 * operations that wait; it exits with 0. */
struct plasma_putter {
    const struct node_fixture *node;
    uint32_t first, count;
    size_t size;
    uint64_t waiting;
};
pid_t plasma_fork_putter(struct plasma_putter *putter);

/* The node's numbers; fails the test when they cannot be had. */
nigh_node_stats plasma_stats(nigh_client *client);

/* Whether the pool's listing has an object of this id; *state (may be NULL) as it is listed. */
bool plasma_is_listed(nigh_client *client, uint32_t number, nigh_object_state *state);

#endif
