/* SPDX-License-Identifier: Apache-2.0 */
/* Created objects, and leases that objects are made of (store_create.c). For the store alone. */
#ifndef OBJECT_STORE_CREATE_H
#define OBJECT_STORE_CREATE_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/session.h"
#include "nigh/status.h"

struct store;
struct store_call;
struct store_lease;
struct store_pool;
struct store_session;

/* Checks the sizes of a submission: the bytes its object takes, or 0. */
uint64_t store_sizes(const struct session_sqe *sqe);
/* Whose memory it becomes: what a session's writes go to, what only the node writes. */
uint64_t store_session_owner(const struct store_session *session);
uint64_t store_node_owner(const struct store_pool *pool);
/* Frees a CREATED entry. */
void store_discard(struct store *store, struct store_pool *pool, uint32_t entry);
/* Gives the entry, whose memory and lists are gone already, and its record back. */
void store_release(struct store_pool *pool, uint32_t entry);
void store_lease_end(struct store *store, struct store_session *session, struct store_lease *lease);
/* The books of a created object, from when its entry says so until before that changes. */
void store_created(struct store *store, struct store_pool *pool, struct store_session *session,
                   uint32_t entry, uint64_t hash);
void store_no_longer_created(struct store *store, struct store_pool *pool, uint32_t entry,
                             uint64_t hash);
/* The books of a lease: it begins without pieces. */
void store_lease_begin(struct store *store, struct store_lease *lease, uint32_t entry,
                       uint64_t offset, uint64_t bytes);
void store_lease_add_piece(struct store *store, struct store_session *session,
                           struct store_lease *lease, uint32_t block);
/* One that nothing is sealed from: it only stays the lease's until that ends. */
void store_lease_add_rest(struct store *store, struct store_session *session,
                          struct store_lease *lease, uint32_t block);
/* A lease of about `wanted` bytes, into the call's completion. */
nigh_status store_lease_grant(struct store_call *call, uint64_t wanted, bool evict);
/* Whether what took so long to build may be sealed: all, but what was begun by a node that leaves.
 */
bool store_takes_sealed(const struct store *store, uint64_t build_ns);
/* What was given is a copy like others again. Nothing, if there is a file of it. */
void store_take_back(struct store_pool *pool, uint32_t entry);
/* What was just sealed: counts it, tells those who wait and those who watch. */
void store_now_sealed(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash);

#endif
