/* SPDX-License-Identifier: Apache-2.0 */
/* What bulks.c (loans, requests, messages) and bulks_flow.c (what moves) share. For no one else. */
#ifndef RPC_BULKS_INTERNAL_H
#define RPC_BULKS_INTERNAL_H

#include "base/check.h"
#include "base/list.h"
#include "rpc/bulks.h"

#define BULKS_FLOWS     (LIMIT_BULK_FLOWS + LIMIT_BULK_LANDINGS)
#define BULKS_AGAIN_US  UINT64_C(1000)    /* what found no room is tried again */
#define BULKS_LOOK_US   UINT64_C(1000000) /* between looks for loans that are overdue */
#define BULKS_SLOT_BITS 16

enum flow_kind {
    FLOW_PULL, /* from another node's memory to here, for a service */
    FLOW_PUSH, /* the other way: the other node reads */
    FLOW_COPY, /* on this node, either way */
    FLOW_LAND  /* what another node pushes, into memory of a loan */
};

struct bulks_read {
    struct flow *flow;
    uint64_t bytes; /* 0: free */
};

struct flow {
    struct list_node place; /* of its request, or of its loan; LAND that is over: in no list */
    struct list_node turn;  /* bulks.turns: something to try, or to copy */
    struct bulks *bulks;
    struct bulks_serve *serve; /* NULL: LAND */
    struct bulks_loan *loan;   /* LAND; NULL: nothing lands any more */
    struct rpc *channel;       /* NULL: COPY */
    enum flow_kind kind;
    bool used;
    bool stopped; /* goes no further: ends with `status` when nothing is under way */
    bool told;    /* PUSH: the other node knows, and says when it is over */
    uint32_t generation;
    nigh_status status;
    struct bulks_memory memory; /* here */
    struct bulks_memory other;  /* COPY: of the caller */
    bool outward;               /* COPY: from `memory` */
    uint32_t part;              /* PUSH: where to, there */
    uint64_t offset;
    struct fabric_remote remote; /* PULL, LAND */
    uint64_t token;              /* LAND: the server's number */
    uint64_t asked, landed;      /* of memory.bytes */
    uint32_t reads;              /* under way */
    struct bulks_read read[LIMIT_BULK_WINDOW];
    struct bulks_mover mover;
};

struct bulks_loan {
    struct bulks *bulks;
    struct rpc *channel; /* lent to its other end; NULL: to a service here */
    uint64_t number;     /* of this time that it is lent */
    uint32_t slot;
    bool lent;
    bool said; /* the server's node touches nothing any more */
    bool closed;
    uint64_t closed_us;
    void *tag;
    struct list landings;
    uint32_t landing_count;
    uint32_t count;
    struct bulks_part parts[LIMIT_CALL_BULKS];
};

struct bulks_serve {
    struct list_node place; /* bulks.serves */
    struct bulks *bulks;
    struct rpc *channel;     /* NULL: of this node, */
    struct bulks_loan *loan; /* this */
    uint64_t number;         /* of the loan there */
    bool ended;
    uint64_t ended_us;
    struct list flows;
    uint32_t flow_count;
    uint32_t count;
    struct bulks_key keys[LIMIT_CALL_BULKS];
    struct bulks_info infos[LIMIT_CALL_BULKS];
};

/* A channel for whose other end something lands. */
struct bulks_lander {
    const struct rpc *channel;
    uint32_t landings; /* one at least */
};

struct bulks {
    struct bulks_shell shell;
    struct bulks_loan *loans[LIMIT_BULK_LOANS];
    uint32_t loan_count;
    uint64_t serial;
    struct list serves;
    struct flow *flows; /* BULKS_FLOWS */
    uint32_t flows_used;
    struct list free_flows;
    uint32_t move_count, landing_count;
    struct bulks_lander landers[LIMIT_BULK_LANDINGS]; /* in no order */
    uint32_t lander_count;
    struct list turns;
    uint32_t copying; /* COPY among them: they go on at once */
    uint32_t unsaid;  /* requests that are over, whose callers' lanes are to hear it */
    uint64_t again_us;
    uint64_t look_us; /* UINT64_MAX: nothing can be overdue */
    struct bulks_counts counts;
};

/* ---- bulks_flow.c ---- */

/* NULL: all are in use. */
struct flow *flow_take(struct bulks *bulks, enum flow_kind kind);
/* One that lands for a channel's other end. NULL: that has no fewer than are free. */
struct flow *flow_take_landing(struct bulks *bulks, struct rpc *channel);
/* Goes on as far as it can; it may be gone on return. */
void flow_step(struct flow *flow, uint64_t now_us);
void flow_stop(struct flow *flow, nigh_status status, uint64_t now_us);
/* Nothing of it is under way: it ends. */
void flow_finish(struct flow *flow, nigh_status status, uint64_t now_us);
struct flow *flow_find(struct bulks *bulks, uint64_t number);
bool flow_turn(struct bulks *bulks, uint64_t now_us);

/* ---- bulks.c ---- */

/* A flow of it has gone. */
void serve_settle(struct bulks_serve *serve, uint64_t now_us);
void loan_settle(struct bulks_loan *loan, uint64_t now_us);

#endif
