/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls between two lanes of two nodes: one channel, over one connected endpoint.
 *
 * Pure: no socket, no clock, no thread, no random source. Frames come in by rpc_receive, go out
 * through struct rpc_shell; time is an argument. What it promises (docs/rpc.md):
 *  - every call ends exactly once: reply, deadline, cancel, or the channel's end with its reason;
 *  - a channel never sends a frame that the peer has no receive for (credits), and keeps receives
 *    for replies apart from those for requests, so that neither starves the other;
 *  - every table has a bound; reaching it is NIGH_BUSY at the call, never growth;
 *  - whatever a peer sends, it can at worst end its own channel (NIGH_PROTOCOL).
 *
 * A channel lives as long as its endpoint. The caller reconnects with a new one.
 */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"

struct rpc;
struct rpc_pool;

/* ---- the wire ------------------------------------------------------------- */

#define RPC_MAGIC 0x4eu /* 'N': first byte of every frame */

enum rpc_frame_kind {
    RPC_REQUEST = 1, /* wants a reply */
    RPC_REPLY = 2,
    RPC_ONE_WAY = 3,
    RPC_CANCEL = 4, /* call: the caller does not wait any more */
    RPC_CREDIT = 5  /* only returns credits */
};

/* Before every payload; little endian. */
struct rpc_header {
    uint8_t magic;
    uint8_t kind;
    uint16_t method;  /* REQUEST, ONE_WAY; 0 else */
    int32_t status;   /* REPLY */
    uint64_t call;    /* REQUEST, REPLY, CANCEL: the caller's number; 0 else */
    uint32_t bytes;   /* of the payload, <= the channel's payload_bytes */
    uint32_t left_ms; /* REQUEST: what is left of the deadline; UINT32_MAX: none */
    uint32_t epoch;   /* of the members' list, its lower half: another ends the channel */
    uint16_t credits; /* receives for requests that the peer may use again */
    uint16_t reserved;
};

_Static_assert(sizeof(struct rpc_header) == 32, "the header is on the wire");

/* ---- a channel ------------------------------------------------------------ */

/* A piece of a payload. */
struct rpc_piece {
    const void *data;
    uint32_t bytes;
};

#define RPC_PIECES 4 /* most of one payload */

/* A request as it arrives. The payload is good until the handler returns. */
struct rpc_request {
    uint16_t method;
    uint64_t call; /* for rpc_reply; 0: one-way, wants none */
    const uint8_t *payload;
    uint32_t bytes;
    uint64_t deadline_us; /* UINT64_MAX: none */
};

struct rpc_shell {
    void *context;
    /* Sends a frame: header, then the pieces. Always taken: the shell's send depth is at least
     * rpc_max_sends(). The pieces are free on return. Must not call back. */
    void (*send)(void *context, const struct rpc_header *header, const struct rpc_piece *pieces,
                 uint32_t count);
    /* A request or one-way message came. It may call rpc_reply at once or later (within the life of
     * the channel); not replying is allowed only for one-way ones. May call rpc_call. */
    void (*request)(void *context, const struct rpc_request *request, uint64_t now_us);
    /* The caller of an unanswered request gave up (cancel, or its deadline): the channel has
     * answered it with NIGH_CANCELED. rpc_reply for it is allowed still, once, and does nothing.
     * NULL: no interest. */
    void (*canceled)(void *context, uint64_t call);
};

struct rpc_config {
    uint32_t requests; /* receives each side keeps for requests and one-way messages */
    uint32_t calls;    /* calls under way, each with a receive kept for its reply */
    uint32_t queue;    /* places for requests that wait for a credit, payload copied; may be 0 */
    struct rpc_pool *pool;  /* more places, shared with other channels; NULL: none */
    uint32_t payload_bytes; /* most of one payload; the same on both sides, as requests and calls */
    uint64_t epoch;
    struct rpc_shell shell;
};

/* How a call ended; once. NIGH_OK and the peer's reply, whose payload is good until the return; or
 * the peer's status with its payload; or NIGH_TIMEOUT, NIGH_CANCELED, NIGH_PEER_LOST (or the reason
 * given to rpc_end), without payload. May call rpc_call; must not destroy the channel. */
typedef void rpc_done(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                      uint64_t now_us);

/*
 * Places that the channels of one owner thread share, on top of what each has to itself. A channel
 * gets one while it has fewer of them than are left, so one whose peer stands still leaves half of
 * them to the others, two leave a third, and so on. payload_bytes: as the channels'. Outlives them.
 * Touched as it is used. NIGH_INVALID: bounds of LIMIT_RPC_* broken; NIGH_NO_RESOURCES.
 */
nigh_status rpc_pool_create(uint32_t places, uint32_t payload_bytes, struct rpc_pool **pool);
void rpc_pool_destroy(struct rpc_pool *pool);
uint32_t rpc_pool_used(const struct rpc_pool *pool);

/* NIGH_INVALID: bounds of LIMIT_RPC_* broken; NIGH_NO_RESOURCES. */
nigh_status rpc_create(const struct rpc_config *config, struct rpc **rpc);

/* Not from inside a shell call or rpc_done. Pending calls must have ended (rpc_end). */
void rpc_destroy(struct rpc *rpc);

/*
 * Receives that the shell must keep posted for this configuration, each of sizeof(struct
 * rpc_header) + payload_bytes: requests + calls, one for CREDIT, and one for the frame that
 * rpc_receive looks at.
 *
 * Most frames sent that the peer has not received. A shell whose sends complete later than their
 * arrival shows (an answer may be here before) polls send completions first, and keeps more.
 */
uint32_t rpc_receives(const struct rpc_config *config);
/* What a channel takes of memory: all of it its own. */
uint64_t rpc_memory_bytes(const struct rpc_config *config);
uint32_t rpc_max_sends(const struct rpc_config *config);

/*
 * Calls. NIGH_OK: `done` will be called once, later, never from inside this call; *call (may be
 * NULL) names it for rpc_cancel. NIGH_BUSY: too many under way or waiting; NIGH_INVALID: the
 * payload is too long or has too many pieces; NIGH_CLOSED: rpc_end was called. deadline_us
 * UINT64_MAX: none; one that has passed: never sent, ended by the next rpc_tick. A call that timed
 * out or was cancelled after it was sent takes up its place until the peer's answer came, which the
 * peer's channel sends as soon as it hears of it.
 */
nigh_status rpc_call(struct rpc *rpc, uint16_t method, const struct rpc_piece *pieces,
                     uint32_t count, uint64_t deadline_us, uint64_t now_us, rpc_done *done,
                     void *context, uint64_t *call);

/* A message without a reply. Errors as rpc_call. */
nigh_status rpc_one_way(struct rpc *rpc, uint16_t method, const struct rpc_piece *pieces,
                        uint32_t count, uint64_t now_us);

/* Ends a call with NIGH_CANCELED, before the return; false: it has ended already. */
bool rpc_cancel(struct rpc *rpc, uint64_t call, uint64_t now_us);

/* Whether the caller of a request still waits for its answer, as far as this side has heard. */
bool rpc_is_awaited(const struct rpc *rpc, uint64_t call);

/* Answers a request: once each. Never refused: its receive is kept at the caller. The payload fits
 * payload_bytes. Does nothing after rpc_end, or when the caller gave up. */
void rpc_reply(struct rpc *rpc, uint64_t call, nigh_status status, const struct rpc_piece *pieces,
               uint32_t count);

/*
 * A frame arrived in one receive; on return its bytes are free and the receive must be posted again
 * by the caller (that is what makes its credit true) soon, and before shell.send lets another frame
 * leave; so several can be posted at once. Not from inside a shell call or rpc_done. NIGH_PROTOCOL:
 * the peer broke the rules, nothing was done; the caller ends the channel and the endpoint.
 * NIGH_VERSION: the same, but the peer did not lie: it speaks for another list of members.
 * NIGH_CLOSED: after rpc_end.
 */
nigh_status rpc_receive(struct rpc *rpc, const void *frame, uint32_t bytes, uint64_t now_us);

/* Deadlines; bounded work. Returns when it must be called next (UINT64_MAX: need not). */
uint64_t rpc_tick(struct rpc *rpc, uint64_t now_us);

/* The same without doing anything: rpc_call may have brought it nearer. */
uint64_t rpc_due_us(const struct rpc *rpc);

/* The endpoint failed or is given up: every pending call ends with `reason` before the return, what
 * waits for credits too; nothing is sent any more. */
void rpc_end(struct rpc *rpc, nigh_status reason, uint64_t now_us);

/* Counters, for stats and tests. */
struct rpc_counters {
    /* calls == replies + timeouts + canceled + lost + pending */
    uint64_t calls, replies, one_ways, timeouts, canceled, lost;
    uint64_t requests;      /* that came, and one-way messages */
    uint64_t late_replies;  /* of calls that had ended */
    uint64_t queued;        /* requests and one-way messages that waited for a credit */
    uint64_t credit_frames; /* sent only for credits */
};

const struct rpc_counters *rpc_counters(const struct rpc *rpc);

/* Of its shell. */
void *rpc_context(const struct rpc *rpc);

/* Calls under way. */
uint32_t rpc_pending(const struct rpc *rpc);

bool rpc_is_valid(const struct rpc *rpc);

#endif
