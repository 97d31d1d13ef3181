/* SPDX-License-Identifier: Apache-2.0 */
/* What waits: for an id, for memory, for its turn (store_wait.c). For the store alone. */
#ifndef OBJECT_STORE_WAIT_H
#define OBJECT_STORE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap_timer.h"
#include "base/list.h"
#include "memory/session.h"
#include "nigh/status.h"

struct store;
struct store_call;
struct store_pool;
struct store_session;

enum store_wait {
    STORE_WAIT_NONE = 0,
    STORE_WAIT_ID,     /* for a seal of the id */
    STORE_WAIT_MEMORY, /* for memory, an entry or quota */
    STORE_WAIT_PINS,   /* a delete, for the next look at the pins */
    STORE_WAIT_WORK,   /* a long operation that goes on a piece a turn */
    STORE_WAIT_ERASE,  /* a delete, for the other nodes */
    STORE_WAIT_CLAIM,  /* an exclusive create, or its seal, for the home of its id */
};

struct store_waiter {
    struct list_node place; /* bucket, memory queue, deletes, works or free list */
    struct list_node session_place;
    struct timer timer;
    struct session_sqe sqe;
    uint64_t hash;
    uint64_t deadline_us;
    uint64_t bytes;      /* MEMORY: wanted */
    uint64_t spent;      /* MEMORY: evicted for it in vain */
    uint64_t done_bytes; /* WORK: so far */
    uint32_t session;
    uint32_t heap;  /* MEMORY: of which; STORE_NONE: of none */
    uint32_t entry; /* PINS, CLAIM, and a checksum: of which */
    uint32_t block; /* WORK, a copy: where to */
    uint32_t crc;
    uint32_t barren;   /* WORK: turns without success */
    nigh_status late;  /* what it is told at its deadline */
    nigh_status local; /* ERASE: what came of it here */
    enum store_wait wait;
    bool wants;  /* ID: there is no sealed object here, so other nodes are asked */
    bool busy;   /* CLAIM: the home did not know when it was asked last */
    bool behind; /* ERASE: it came while another of the id was under way, and is yet to begin */
};

#define STORE_WAIT_BUCKETS 16384u

nigh_status store_wait_init(struct store *store);
void store_wait_fini(struct store *store);

/* Whether one more operation may wait. */
bool store_may_wait(const struct store *store);

/* Makes a call wait as it says: NIGH_PENDING, or how it ends at once instead. */
nigh_status store_park(struct store_call *call);

/* Carries out again, from the start, what waits; it ends or waits on. */
void store_try_again(struct store *store, struct store_waiter *waiter);

/* Ends what waits. `cqe` may be NULL. */
void store_end_wait(struct store *store, struct store_waiter *waiter, nigh_status status,
                    const struct session_cqe *cqe);

/* Those who wait for an id: tries them again, or ends the gets among them. */
void store_wake_id(struct store *store, struct store_pool *pool, const uint8_t *id, uint64_t hash);
void store_fail_id(struct store *store, struct store_pool *pool, const uint8_t *id, uint64_t hash,
                   nigh_status status);

/* The bucket of those who wait for an id (ID, ERASE), and of others; whether one does. */
struct list *store_bucket_of(struct store *store, uint64_t hash);
bool store_waits_for(const struct store *store, const struct store_waiter *waiter,
                     const struct store_pool *pool, const uint8_t *id, uint64_t hash);
/* A delete that is decided here waits for the other nodes from now on. */
void store_wait_erase(struct store *store, struct store_waiter *waiter, nigh_status local,
                      bool behind);

nigh_status store_cancel(struct store_call *call);
void store_forget_waits(struct store *store, struct store_session *session);

/* Whether a newcomer would pass someone of the same heap who wants as little or less. */
bool store_must_queue(const struct store *store, uint32_t heap, uint64_t bytes);

/* Parts of a turn. */
void store_expire_waits(struct store *store);
void store_serve_queue(struct store *store);

#endif
