/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a channel is made of; for the files of this folder, and for tests that look inside. The
 * states and the counting are told in docs/rpc.md.
 *
 * A channel is one block of memory that points only into itself and to the configuration's shell:
 * an explorer saves and restores it by copying.
 */
#ifndef RPC_RPC_INTERNAL_H
#define RPC_RPC_INTERNAL_H

#include "base/heap_timer.h"
#include "base/list.h"
#include "rpc/rpc.h"

/* Receives beyond those for requests and replies: */
#define RPC_CREDIT_RECEIVES 1 /* a CREDIT frame; two are never on their way at once */
#define RPC_IN_HAND         1 /* the one that rpc_receive looks at, which is not posted meanwhile */

/* ---- the caller's side ---- */

enum rpc_slot_state {
    RPC_SLOT_FREE = 0,
    RPC_SLOT_WAITING, /* not sent: in the queue, or its deadline came before a credit did */
    RPC_SLOT_SENT,
    RPC_SLOT_HELD /* ended, but its reply is still to come: the receive stays the slot's own */
};

/* A call under way. Its number is the slot's place and, above it, the slot's generation. */
struct rpc_slot {
    struct list_node link; /* FREE: in `free_slots`; HELD: in `cancels` while its CANCEL waits */
    struct timer timer;    /* WAITING, SENT: armed, if the call has a deadline */
    rpc_done *done;
    void *context;
    struct rpc_waiter *waiter; /* WAITING: its place in the queue; NULL: it has none */
    uint64_t generation;       /* from 1 */
    enum rpc_slot_state state;
};

/* A request or one-way message that waits for a credit. */
struct rpc_waiter {
    struct list_node link; /* in `queue`, or in `free_waiters`, or in the pool's `free` */
    uint8_t *payload;      /* payload_bytes of the channel's own, or of the pool's */
    uint32_t bytes;
    bool is_shared; /* it is the pool's */
    uint64_t call;  /* 0: one-way */
    uint16_t method;
};

/* Like a channel one block that points into itself, and to channels by what waits in their queues.
 */
struct rpc_pool {
    uint32_t places;
    uint32_t payload_bytes;
    uint32_t free_count;
    struct list free; /* the last used first: what is not needed is not touched */
    struct rpc_waiter *waiters;
    size_t block_bytes;
};

/* ---- the server's side ---- */

enum rpc_answer_state {
    RPC_ANSWER_NONE = 0,
    RPC_ANSWER_OPEN,     /* the handler owes a reply */
    RPC_ANSWER_CANCELED, /* answered by us; the handler's reply, if any, goes nowhere */
    RPC_ANSWER_SENT
};

/* The last request that came in a slot of the peer. */
struct rpc_answer {
    uint64_t call;
    enum rpc_answer_state state;
};

/* ---- a channel ---- */

struct rpc {
    struct rpc_config config;
    uint32_t slot_bits; /* of a call's number */
    uint32_t credits;   /* receives at the peer that we may still use */
    uint32_t owed;      /* receives here that the peer used and was not told of again */
    uint32_t pending;   /* slots WAITING and SENT */
    uint32_t shared;    /* places of the pool in the queue */
    uint32_t depth;     /* calls into the shell or an rpc_done that have not returned */
    bool receiving;
    bool ended;
    struct list free_slots; /* first the one that is free for longest: numbers come back late */
    struct list cancels;
    struct list queue;
    struct list free_waiters;
    struct timers timers;
    struct rpc_counters counters;
    struct rpc_slot *slots;     /* config.calls */
    struct rpc_answer *answers; /* config.calls */
    struct rpc_waiter *waiters; /* config.queue */
    size_t block_bytes;         /* of all this */
};

/* Sends a frame of kind, method, call, status and left_ms as given, in the machine's order; adds
 * the rest, and what we owe. */
void rpc_send(struct rpc *rpc, struct rpc_header header, const struct rpc_piece *pieces,
              uint32_t count);

/* Bytes of all pieces; UINT64_MAX: too many pieces. */
uint64_t rpc_pieces_bytes(const struct rpc_piece *pieces, uint32_t count);

/* The slot that a number names in this or an earlier life; NULL: no slot has such a number. */
struct rpc_slot *rpc_slot_named(const struct rpc *rpc, uint64_t call);

uint64_t rpc_slot_call(const struct rpc *rpc, const struct rpc_slot *slot);

/* Uses credits for what waits: cancels first, then the queue. */
void rpc_drain(struct rpc *rpc, uint64_t now_us);

/* Of a call that has ended, and whose reply came or cannot come any more. */
void rpc_slot_free(struct rpc *rpc, struct rpc_slot *slot);

/* A reply to a slot that is SENT or HELD: frees it, ends the call. */
void rpc_slot_replied(struct rpc *rpc, struct rpc_slot *slot, nigh_status status,
                      const uint8_t *payload, uint32_t bytes, uint64_t now_us);

/* Ends a call that is WAITING or SENT without a reply, and that was counted as ended. */
void rpc_slot_end(struct rpc *rpc, struct rpc_slot *slot, nigh_status reason, uint64_t now_us);

/* Whether one more may wait for a credit. */
bool rpc_has_place(const struct rpc *rpc);

bool rpc_pool_is_valid(const struct rpc_pool *pool);

/* Takes a waiter out of the queue. */
void rpc_waiter_free(struct rpc *rpc, struct rpc_waiter *waiter);

#endif
