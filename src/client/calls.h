/* SPDX-License-Identifier: Apache-2.0 */
/* What calls.c (calls, answers) and serve.c (services) share. For no one else. */
#ifndef CLIENT_CALLS_H
#define CLIENT_CALLS_H

#include "client/client_internal.h"

/* A request that came for a receive which nobody waited for any more. */
struct service_request {
    struct list_node place;
    uint64_t deadline_us;
    nigh_request request;
    uint8_t bytes[];
};

struct nigh_service {
    nigh_client *client;
    struct list_node place; /* in client->services */
    struct session_service session;
    uint32_t incarnation; /* without a handler: of the node that knows it; written locked */
    void (*handler)(void *context, const nigh_request *request);
    void *context;
    /* Of one without a handler. Receives of which the lane knows, oldest first; RECEIVEs that are
     * there for the next receive, because a pair had what the last one waited for, by their places
     * of pending; and what came for such a one meanwhile. Locked. */
    struct client_op *waiting[LIMIT_RECEIVES];
    uint32_t waiting_count;
    uint16_t kept[LIMIT_RECEIVES];
    uint32_t kept_count;
    struct list came;
    _Atomic uint64_t pair_mask; /* its pairs' places */
    uint32_t turns;             /* receives that needed no lane, in a row */
};

/* Takes a receive's RECEIVE from it, and keeps it for the next. Locked. */
void calls_release_receive(struct client_op *op);

/* A request that waits in the client. False: none does. Locked. */
bool calls_take_came(nigh_service *service, nigh_request *request, void *buffer);

/* A service ends, or its node does: nothing is kept for it, and what waits to be submitted is
 * NIGH_CLOSED. Locked. */
void calls_forget_service(nigh_service *service);

/* What a service's name is called by. NIGH_INVALID: it is none. */
nigh_status calls_hash(const char *name, uint64_t *hash);

/* Whether the node is the one that had this number. Locked where it matters. */
bool calls_is_now(const nigh_client *client, uint32_t incarnation);

/* Of the service that has it. */
nigh_client *calls_client_of(const nigh_request *request);

/* A request's second word: its lane, and above it the node that has it. */
uint64_t calls_where(const nigh_client *client, uint32_t lane);

/*
 * Starts a call or a receive. The client's first in its lane waits until the lane has granted
 * memory for it: its submission is made from here, for what is left to the next poll is not begun
 * as long as nobody polls.
 */
nigh_status calls_start(struct client_op *op);

/* Answers a request through the rings; waits until the lane has taken it. */
nigh_status calls_reply_later(nigh_client *client, const nigh_request *request, nigh_status answer,
                              const void *bytes, uint32_t count);

/* What a spec has had, as it grew: to with bulks, and to with answered. */
#define CALL_SPEC_BULKS    offsetof(nigh_call_spec, answered)
#define CALL_SPEC_ANSWERED (offsetof(nigh_call_spec, answered) + sizeof(uint32_t))

/* How many pieces of memory a call brings; none where its struct is of before there were any. */
uint32_t calls_bulk_count(const nigh_call_spec *spec);
/* Writes what a call brings in front of its request; how many bytes that takes. */
uint32_t calls_fill_bulks(const nigh_call_spec *spec, uint8_t *to);
/* Its end is what the service said. */
void calls_answered(struct client_op *op);
/* Whether a call may bring that. */
nigh_status calls_check_bulks(nigh_client *client, const nigh_call_spec *spec);

/* A call of many nodes. */
void calls_many(struct client_op *op, nigh_client *client, nigh_multicast_spec *spec, uint64_t hash,
                uint64_t timeout_us);
/* Writes what it wants in front of its request; how many bytes that takes. */
uint32_t multicast_fill(const struct client_op *op, struct session_sqe *sqe, uint8_t *to);
/* Reads what came of it. */
void multicast_take(struct client_op *op, const struct session_cqe *cqe);
nigh_status multicast_tell(const struct client_op *op, nigh_status status);

/* Splits what came: first what its memory is like, then the request's own bytes. */
void calls_split(nigh_request *request, uint32_t bulks);

/* A receive, perhaps after an answer. */
struct calls_receive {
    nigh_service *service;
    uint64_t hash;
    uint32_t incarnation; /* of the node that it is registered at */
    nigh_request *into;
    void *buffer;                /* NIGH_CALL_BYTES */
    const nigh_request *answers; /* NULL: none */
    nigh_status status;
    const void *bytes;
    uint32_t count;
    uint64_t timeout_us;
};

void calls_receive(struct client_op *op, nigh_client *client, const struct calls_receive *receive);

/* Of one that has ended: whether it did nothing, and the answer is to go before the receive. */
bool calls_receive_apart(const struct client_op *op);

/* How it ended, and why for nigh_client_error. */
nigh_status calls_receive_told(const struct client_op *op, nigh_status status);

#endif
