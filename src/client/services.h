/* SPDX-License-Identifier: Apache-2.0 */
/* Services of this client: what serve.c (those with a handler, and the registration of all) and
 * receives.c (requests that are received, and answers) share with what brings requests. For libnigh
 * alone. */
#ifndef CLIENT_SERVICES_H
#define CLIENT_SERVICES_H

#include "client/calls.h"
#include "client/client_internal.h"
#include "client/op.h"

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

/* For services that receive, when nothing is under way any more. Locked. */
void calls_reset_services(nigh_client *client);

/* A RECEIVE that was kept has ended; *was: its place, which is free again. Locked. */
void calls_kept_ended(nigh_client *client, uint32_t lane, uint16_t number,
                      const struct client_pending *was, const struct session_cqe *cqe);

/* The client ends: so do its services. Not locked. */
void serve_end(nigh_client *client);

/* Of the service that has it. */
nigh_client *calls_client_of(const nigh_request *request);

/* Answers a request through the rings; waits until the lane has taken it. */
nigh_status calls_reply_later(nigh_client *client, const nigh_request *request, nigh_status answer,
                              const void *bytes, uint32_t count);

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
