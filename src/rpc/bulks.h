/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that calls bring, as one lane sees it (docs/calls.md): as a caller's it lends the memory
 * to the node that serves, as a server's it moves bytes from there or to there.
 *
 * Bytes move by READs alone: a pull reads the caller's memory from the server's lane; of a push the
 * server's lane says where its bytes lie, and the caller's lane reads them, into memory that nobody
 * may write to from afar. On the same node they are copied, some a turn.
 *
 * Pure: no socket, clock, thread or memory of others; time is an argument. What it promises:
 *  - a loan ends when the server's node has said so and nothing lands there any more, or with the
 *    channel, whose endpoints are gone then: not with the call, and by no deadline. One that is not
 *    over LIMIT_BULK_LOAN_US after its call breaks the channel;
 *  - each move ends once, by `moved`, when nothing touches its memory here any more;
 *  - a move goes on only while its request is not answered, and its caller has not given up;
 *  - the bounds of what is moved are checked here and, for a push, by the caller's lane as well;
 *  - every table has a bound; reaching it is NIGH_OVERLOADED for a call, and NIGH_BUSY for a
 *    move.
 */
#ifndef RPC_BULKS_H
#define RPC_BULKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "fabric/fabric.h"
#include "nigh/status.h"
#include "rpc/rpc.h"

struct bulks;
struct bulks_loan;
struct bulks_serve;
struct bulks_read;

/* ---- the wire: little endian ---------------------------------------------- */

/* rpc_header.method, one-way all of them: none takes a place that a call may be waiting for */
#define BULKS_METHOD_PUSH   4u /* server's lane: read this into that */
#define BULKS_METHOD_LANDED 5u /* caller's lane: it is there, or will not be */
#define BULKS_METHOD_OVER   6u /* server's lane: it touches nothing of the loan any more */

/* Before the bytes of a request that brings memory: this, then for each a key, then for each what
 * the server sees of it. */
struct bulks_wire {
    uint64_t loan;
};

struct bulks_key {
    uint64_t address;
    uint32_t key;
    uint32_t reserved;
};

struct bulks_info {
    uint64_t bytes;
    uint32_t access; /* BULKS_* */
    uint32_t reserved;
};

struct bulks_push {
    uint64_t loan;
    uint64_t move; /* the server's number for it */
    uint64_t offset;
    uint64_t bytes;
    uint64_t address; /* of the server's memory */
    uint32_t key;
    uint32_t part;
};

struct bulks_landed {
    uint64_t move;
    int32_t status;
    uint32_t reserved;
};

_Static_assert(sizeof(struct bulks_key) == 16 && sizeof(struct bulks_info) == 16 &&
                   sizeof(struct bulks_push) == 48 && sizeof(struct bulks_landed) == 16,
               "they are on the wire");

#define BULKS_READ  1u /* the server may pull */
#define BULKS_WRITE 2u /* the server may push */

/* What memory of a call adds to its request, at most. */
#define BULKS_HEAD               \
    (sizeof(struct bulks_wire) + \
     LIMIT_CALL_BULKS * (sizeof(struct bulks_key) + sizeof(struct bulks_info)))

/* ---- the shell ------------------------------------------------------------ */

/* Memory of this machine, as the shell knows it. */
struct bulks_memory {
    void *tag;
    uint64_t offset;
    uint64_t bytes;
};

struct bulks_part {
    struct bulks_memory memory;
    uint32_t access;
};

/* Whose a move is: the lane's own words. */
struct bulks_mover {
    uint32_t owner;
    uint32_t begun;
    uint32_t cookie;
};

struct bulks_shell {
    void *context;
    uint8_t *(*address)(void *context, const struct bulks_memory *memory);
    struct fabric_remote (*remote)(void *context, const struct bulks_memory *memory);
    /* Reads into `to` from the channel's other end; bulks_read_done follows, once, not from inside.
     * NIGH_BUSY: not now. */
    nigh_status (*read)(void *context, struct rpc *channel, const struct bulks_memory *to,
                        struct fabric_remote from, struct bulks_read *read);
    /* Nothing touches this memory for that loan or move any more. */
    void (*release)(void *context, const struct bulks_memory *memory);
    /* A move has ended. May not call back. */
    void (*moved)(void *context, const struct bulks_mover *mover, nigh_status status);
    /* A loan is over that was not closed. */
    void (*over)(void *context, void *tag, uint64_t now_us);
    /* The channel's endpoints are to go: soon, not from inside. */
    void (*breaks)(void *context, struct rpc *channel);
};

/* NIGH_NO_RESOURCES. The shell is copied. */
nigh_status bulks_create(const struct bulks_shell *shell, struct bulks **bulks);

/* The channels are gone. What is lent or moved still is released, and nobody hears of it. */
void bulks_destroy(struct bulks *bulks);

/* ---- the caller's side ---------------------------------------------------- */

/* Memory for one call: `parts`, 1 to LIMIT_CALL_BULKS, are the loan's until they are released.
 * NIGH_OVERLOADED: LIMIT_BULK_LOANS; NIGH_NO_RESOURCES. */
nigh_status bulks_open(struct bulks *bulks, const struct bulks_part *parts, uint32_t count,
                       struct bulks_loan **loan);

/* Who is told when it is over. */
void bulks_set_tag(struct bulks_loan *loan, void *tag);

/* It is lent from here on to a channel's other end; `head` is what its request begins with, of
 * which the number of bytes is returned. */
uint32_t bulks_lend(struct bulks_loan *loan, struct rpc *channel, uint8_t head[BULKS_HEAD]);

/* The request did not leave, or nobody there has taken it: the loan is over, and may be lent again,
 * unless something lands for it all the same. */
void bulks_unlend(struct bulks_loan *loan, uint64_t now_us);

uint32_t bulks_parts(const struct bulks_loan *loan);
bool bulks_is_lent(const struct bulks_loan *loan);

/* The call has ended: nothing new lands. The loan is gone, at once or when it is over. */
void bulks_close(struct bulks_loan *loan, uint64_t now_us);

/* ---- the server's side ---------------------------------------------------- */

/* What a request begins with, from a channel's other end. How many bytes that are; 0: nonsense.
 * *serve NULL: no memory for it. */
uint32_t bulks_serve(struct bulks *bulks, struct rpc *channel, uint32_t count, const uint8_t *bytes,
                     uint32_t size, struct bulks_serve **serve);

/* A call of this node: the loan is its own. NULL: no memory. */
struct bulks_serve *bulks_serve_here(struct bulks_loan *loan);

uint32_t bulks_count(const struct bulks_serve *serve);
void bulks_infos(const struct bulks_serve *serve, struct bulks_info infos[LIMIT_CALL_BULKS]);

/* Its request is answered, or given up: moves under way stop, and then its caller's lane hears that
 * the loan is over. `serve` is gone. */
void bulks_serve_end(struct bulks_serve *serve, uint64_t now_us);

struct bulks_move {
    bool push; /* from `memory` to the caller's; else the other way */
    uint32_t part;
    uint64_t offset;            /* in the part */
    struct bulks_memory memory; /* of this node; its bytes are moved */
    struct bulks_mover mover;
};

/* NIGH_OK: `moved` follows, once, perhaps before the return, and `memory` is released before.
 * NIGH_INVALID: no such part, or bytes of it; NIGH_DENIED: the part is not for that; NIGH_BUSY. */
nigh_status bulks_begin(struct bulks_serve *serve, const struct bulks_move *move, uint64_t now_us);

/* It ends with NIGH_CANCELED, soon, unless all is there by then. False: there is none. */
bool bulks_cancel(struct bulks *bulks, uint32_t owner, uint32_t cookie, uint64_t now_us);
/* All of one owner. */
void bulks_forget(struct bulks *bulks, uint32_t owner, uint64_t now_us);

/* ---- what comes ----------------------------------------------------------- */

void bulks_read_done(struct bulks_read *read, nigh_status status, uint64_t now_us);

/* A one-way message with a method of bulks. */
void bulks_take(struct bulks *bulks, struct rpc *channel, const struct rpc_request *message,
                uint64_t now_us);

/* A channel has ended, and its endpoints are gone; READs over it have ended. */
void bulks_channel_down(struct bulks *bulks, const struct rpc *channel, uint64_t now_us);

/* Breaks the channels that memory with a tag is lent to, or moved over. */
void bulks_break(struct bulks *bulks, const void *tag, uint64_t now_us);

/* What waits for a turn. True: there was something to do. */
bool bulks_tick(struct bulks *bulks, uint64_t now_us);
uint64_t bulks_due_us(const struct bulks *bulks);

/* ---- numbers -------------------------------------------------------------- */

/* Of moves for services here, since the beginning; bytes of those that ended well. */
struct bulks_counts {
    uint64_t moves, failed;
    uint64_t pulled_bytes, pushed_bytes;
};

const struct bulks_counts *bulks_counts(const struct bulks *bulks);
uint32_t bulks_loans(const struct bulks *bulks);
uint32_t bulks_moves(const struct bulks *bulks); /* those that land here as well */
bool bulks_is_valid(const struct bulks *bulks);

#endif
