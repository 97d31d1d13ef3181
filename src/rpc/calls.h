/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of services, as one lane sees them: those of this node's clients, to other nodes or to this
 * one, and the requests that this node's services have not answered yet (docs/calls.md).
 *
 * Pure: no socket, clock, thread or random source; time is an argument. Channels to other nodes are
 * rpc.h's, which bound what is under way on each; calls beyond that wait here, without a copy:
 * those of a service in the order in which they were begun, services in turn, and one that does not
 * answer leaves places to the others. What it promises:
 *  - each call ends exactly once, by `ended`: reply, deadline, cancel, or the end of its channel;
 *  - each request is answered at most once; whatever a service says later hits no other request;
 *  - a request whose service goes away is answered NIGH_CLOSED; one whose caller gives up is
 *    forgotten, whether it is ever answered or not;
 *  - every table has a bound; reaching it is NIGH_OVERLOADED, never growth.
 * Memory that a call brings is bulks.h's: an answer is held back until nobody touches it any more,
 * or the call's deadline.
 */
#ifndef RPC_CALLS_H
#define RPC_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "rpc/bulks.h"
#include "rpc/rpc.h"

struct calls;

/* ---- the wire ------------------------------------------------------------- */

/* rpc_header.method */
#define CALLS_METHOD         1u /* a call of a service */
#define CALLS_METHOD_OFFERS  2u /* hashes of the services that the sender has, 8 bytes each */
#define CALLS_METHOD_VIEWS   3u /* between two nodes' parts in deciding views (cluster/agree.h) */
#define CALLS_METHOD_COLLECT 7u /* a call of many nodes (collect.h); 4 to 6 are bulks.h's */
/* Of regions (docs/regions.md): one-way, what their lanes say to each other; an ask, a list,
 * copies. */
#define CALLS_METHOD_REGION_VIEW   8u
#define CALLS_METHOD_REGION_LETTER 9u
#define CALLS_METHOD_REGION_TOLD   10u
#define CALLS_METHOD_REGION_ASK    11u
#define CALLS_METHOD_REGION_LIST   12u
#define CALLS_METHOD_REGION_PUSH   13u /* bytes of a chunk are to go to another node's, */
#define CALLS_METHOD_REGION_PUT    14u /* and go there */

/* Before the bytes of each request; little endian. */
struct calls_wire {
    uint64_t service; /* the hash of its name */
    uint32_t uid;     /* of the caller's process, as its node knows it */
    uint32_t bulks;   /* the pieces of memory that it brings: told behind this, see bulks.h */
};

_Static_assert(sizeof(struct calls_wire) == 16, "it is on the wire");

/* What a node answers, with NIGH_PENDING, in place of a service: no service answers so. */
struct calls_refusal {
    int32_t status;
    uint32_t taken; /* 1: its service had it, and may have carried it out */
};

_Static_assert(sizeof(struct calls_refusal) == 8, "it is on the wire");

#define CALLS_PAYLOAD \
    (LIMIT_CALL_BYTES + (uint32_t)sizeof(struct calls_wire) + (uint32_t)BULKS_HEAD)

/* ---- what the lane is asked ----------------------------------------------- */

/* Who calls. The lane's own words: here they are kept and given back. */
struct calls_caller {
    uint32_t owner; /* the session: calls_forget, calls_cancel */
    uint32_t begun;
    uint32_t cookie; /* tells the calls of one owner apart */
    uint32_t uid;
    uint64_t offset; /* of the request's bytes, and of the reply's */
    uint32_t skip;   /* the request's begin so much later */
    uint32_t bytes;  /* of the request */
    uint32_t room;   /* for the reply */
};

#define CALLS_ANY  UINT32_MAX /* rank: any node that serves it */
#define CALLS_NEAR 11u        /* most nodes that such a call names as those to be asked first */

struct calls_call {
    uint64_t service;
    uint64_t deadline_us; /* UINT64_MAX: none */
    uint32_t rank;
    bool one_way;
    bool idempotent;         /* may be carried out more than once: tried again until its deadline */
    bool urgent;             /* goes before those that wait for the same node */
    struct bulks_loan *loan; /* of the memory that it brings, the call's from calls_begin on; NULL.
                                Not of one that is idempotent or one-way */
    uint8_t near_count;
    uint8_t near[CALLS_NEAR]; /* CALLS_ANY: ranks, best first: before the own node and others */
    const void *collect; /* a struct collect_wire: CALLS_METHOD_COLLECT, of one other node; good
                            until the call has ended. NULL: a call of a service */
    bool is_of_another;  /* its service is told `origin`, not this node, as who asks */
    uint32_t origin;
    struct calls_caller caller;
};

/* How a call ended: a status of ours, or the service's. */
struct calls_end {
    nigh_status status;
    const uint8_t *bytes;
    uint32_t count;
    uint32_t rank; /* that it went to last; CALLS_ANY: to none */
    bool taken;    /* a service may have had it */
    bool answered; /* the status is the service's */
};

/* A request as its service sees it; bytes are good until the return. */
struct calls_request {
    uint64_t id; /* for calls_reply; 0: one-way, wants no answer */
    uint64_t deadline_us;
    const uint8_t *bytes; /* first a struct bulks_info for each of `bulks` */
    uint32_t count;
    uint32_t rank; /* of the caller's node */
    uint32_t uid;
    uint32_t bulks;
};

struct calls_service {
    uint64_t hash; /* of its name; no two are equal */
    void *tag;     /* whose it is, for the shell */
};

struct calls_shell {
    void *context;
    /* The channel to another node that serves a hash; NULL: it is not up. */
    struct rpc *(*channel)(void *context, uint32_t rank, uint64_t hash);
    /* The bytes of a caller's request, good until the next call of the shell; NULL: they are not
     * its own any more. */
    const uint8_t *(*bytes)(void *context, const struct calls_caller *caller);
    /* A call has ended. Also from inside calls_begin. May not call back. */
    void (*ended)(void *context, const struct calls_caller *caller, const struct calls_end *end);
    /* A request for a service. May call calls_reply. */
    void (*request)(void *context, void *tag, const struct calls_request *request);
    struct bulks_shell bulks; /* but `over`; all NULL where no call brings memory */
};

struct calls_config {
    uint32_t rank;          /* of this node */
    uint32_t nodes;         /* members */
    uint32_t owners;        /* numbers below are sessions' */
    uint32_t calls;         /* under way, LIMIT_CALLS at most */
    uint32_t requests;      /* not answered, LIMIT_CALL_REQUESTS at most */
    uint32_t channel_calls; /* places of a channel; it has LIMIT_URGENT_SHARE more. 0: no shares */
    uint32_t number;        /* of the lane: in the ids of its requests, below LIMIT_LANES */
    struct calls_shell shell;
};

/* NIGH_INVALID: bounds broken; NIGH_NO_RESOURCES. */
nigh_status calls_create(const struct calls_config *config, struct calls **calls);

/* Nothing that is under way is heard of again. The channels are gone. */
void calls_destroy(struct calls *calls);

/* ---- the caller's side ---------------------------------------------------- */

/* Begins a call: `ended` follows, once, perhaps before the return. A one-way message has ended when
 * it is on its way. NIGH_NOT_FOUND: no such service; NIGH_INVALID: no such rank; NIGH_PEER_LOST;
 * NIGH_OVERLOADED: too many under way here, of this owner (LIMIT_CALL_PLACES) or of all, or there.
 * One of CALLS_ANY goes on to the next node that serves it as long as nobody has carried it out;
 * an idempotent one also when somebody may have, and after a rest begins again with the first. */
void calls_begin(struct calls *calls, const struct calls_call *call, uint64_t now_us);

/* Ends a call with NIGH_CANCELED, before the return; false: it has ended. */
bool calls_cancel(struct calls *calls, uint32_t owner, uint32_t cookie, uint64_t now_us);

/* Ends all calls of an owner with NIGH_CANCELED. */
void calls_forget(struct calls *calls, uint32_t owner, uint64_t now_us);

/* ---- the services' side --------------------------------------------------- */

/* The services that there are from now on; at most LIMIT_SERVICES. Requests of others are answered
 * NIGH_CLOSED. Not from inside a call of the shell. */
void calls_set_services(struct calls *calls, const struct calls_service *services, uint32_t count,
                        uint64_t now_us);

/* A channel to another node, which is told what is served here, and again when that changes. */
void calls_channel_up(struct calls *calls, struct rpc *channel, uint32_t rank);

/* A request or one-way message on a channel. */
void calls_take(struct calls *calls, struct rpc *channel, uint32_t rank,
                const struct rpc_request *request, uint64_t now_us);

/* The caller of a request on a channel gave up: what is said to it is for nobody. */
void calls_withdrawn(struct calls *calls, const struct rpc *channel, uint64_t call,
                     uint64_t now_us);

/* What is heard of a node, beside its channels: lost, no call waits for a channel to it; else they
 * do, for LIMIT_CALL_LINK_US at most. At first none is lost; with its channel one is. */
void calls_peer(struct calls *calls, uint32_t rank, bool is_lost, uint64_t now_us);

/* A channel has ended (after rpc_end). */
void calls_channel_down(struct calls *calls, const struct rpc *channel, uint32_t rank,
                        uint64_t now_us);

/* Whose request this is; NULL: it is answered, or its caller's node is gone. */
void *calls_request_tag(const struct calls *calls, uint64_t id);

/* Says that its service has not seen it, and will not: another may be asked. False as below. */
bool calls_refuse(struct calls *calls, uint64_t id, nigh_status status, uint64_t now_us);

/* Tells another node that its call, of whatever method, was not taken here. */
void calls_refuse_call(struct rpc *channel, uint64_t call, nigh_status status);

/* Answers a request, count <= LIMIT_CALL_BYTES; not with NIGH_PENDING. False: it is none, or not
 * any more. */
bool calls_reply(struct calls *calls, uint64_t id, nigh_status status, const uint8_t *bytes,
                 uint32_t count, uint64_t now_us);

/* The memory that its caller brought; NULL: none, or it is answered. */
struct bulks_serve *calls_request_bulks(const struct calls *calls, uint64_t id);

/* What moves, and is lent. */
struct bulks *calls_bulks(const struct calls *calls);

/* The lane's number in a request's id. */
uint32_t calls_lane_of(uint64_t id);

/* ---- time ----------------------------------------------------------------- */

/* Deadlines of what waits here (bounded), and what may be sent meanwhile. True: there was some. */
bool calls_tick(struct calls *calls, uint64_t now_us);
uint64_t calls_due_us(const struct calls *calls);

/* ---- numbers -------------------------------------------------------------- */

/* How long something took, by powers of two: the n-th counts what took up to 1 << n microseconds
 * and more than the one before, the last all that took longer. */
#define CALLS_TIMES 26u

struct calls_times {
    uint64_t buckets[CALLS_TIMES];
    uint64_t sum_us;
};

void calls_note_time(struct calls_times *times, uint64_t took_us);

/* Since the beginning; statuses that services answered with are none of the last three. */
struct calls_counts {
    uint64_t begun;     /* calls of here, whatever became of them */
    uint64_t taken;     /* requests that came for services of here */
    uint64_t timed_out; /* calls that ended with NIGH_TIMEOUT, */
    uint64_t busy;      /* with NIGH_OVERLOADED, */
    uint64_t lost;      /* with NIGH_PEER_LOST */
    uint64_t retried;   /* times that an idempotent one went to a node again, or to another */
    /* Of calls of one service that it answered: to those of this node and of others, from
     * calls_begin to the end; and from a request to its answer, by services of here. */
    struct calls_times here, there, served;
};

const struct calls_counts *calls_counts(const struct calls *calls);
uint32_t calls_under_way(const struct calls *calls);
uint32_t calls_unanswered(const struct calls *calls);
bool calls_is_valid(const struct calls *calls);

#endif
