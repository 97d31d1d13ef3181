/* SPDX-License-Identifier: Apache-2.0 */
/* What leaves memory when there is none (store_evict.c). For the store alone. */
#ifndef OBJECT_STORE_EVICT_H
#define OBJECT_STORE_EVICT_H

#include <stdbool.h>
#include <stdint.h>

struct store;
struct store_pool;
struct store_session;
struct store_waiter;

/* What an attempt to evict came to. */
struct store_evicted {
    uint64_t bytes;      /* freed */
    uint64_t here_bytes; /* of them, of the owner asked about */
    uint32_t pinned;     /* or read by the lane: others may be free */
    uint32_t started;    /* disk writes */
    uint64_t started_bytes;
};

/* One batch of the policy's victims, up to wanted bytes. Needs, and uses up, one of store->rounds.
 */
void store_evict_round(struct store *store, struct store_pool *pool, uint64_t wanted,
                       uint64_t owner, struct store_evicted *evicted);
/* What a pool's objects could take of the lane's memory as things are: what others leave, within
 * its quota. */
uint64_t store_policy_bytes(const struct store *store, const struct store_pool *pool);
/* What evicting from a pool should yield beyond what is wanted: to have memory free again, but no
 * more than such a share of what is the pool's. */
uint64_t store_reserve_bytes(const struct store *store, const struct store_pool *pool);
/* Evicts these SEALED entries, none of them kept or read, all different; at most a batch. */
void store_evict_these(struct store *store, struct store_pool *pool, uint32_t *entries,
                       uint32_t count, uint64_t owner, struct store_evicted *evicted);
/* One batch of copies, oldest first: false when none could go. */
bool store_evict_copies(struct store *store, struct store_pool *pool, uint64_t wanted,
                        uint64_t owner, struct store_evicted *evicted);
/* One batch of what was read back and has a file still: false when none could go. */
bool store_evict_backed(struct store *store, struct store_pool *pool, uint64_t wanted,
                        uint64_t owner, struct store_evicted *evicted);
/* One batch of what a session made, oldest first. */
void store_evict_made(struct store *store, struct store_session *session, uint64_t wanted,
                      struct store_evicted *evicted);
/* Empties one extent as far as one batch goes. True: nothing lives in it. */
bool store_empty_extent(struct store *store, uint32_t extent, struct store_evicted *evicted);
/* Whether the next batch of emptying it (it has no obstacle) takes nothing that is new or large. */
bool store_is_spare_extent(const struct store *store, uint32_t extent);
/* Whom to take memory from when `pool` wants some. */
struct store_pool *store_victim_pool(struct store *store, struct store_pool *pool);
/* Evicting ahead of need, and whether that is due; a piece of a long EVICT. */
void store_evict_ahead(struct store *store);
bool store_evict_is_due(const struct store *store);
void store_evict_more(struct store *store, struct store_waiter *waiter);
/* Bytes that left a pool's memory where it spills: what EVICTs waited for. */
void store_evict_credit(struct store *store, const struct store_pool *pool, uint64_t bytes);

#endif
