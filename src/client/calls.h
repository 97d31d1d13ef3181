/* SPDX-License-Identifier: Apache-2.0 */
/* What calls.c (calls, answers) and serve.c (services) share. For no one else. */
#ifndef CLIENT_CALLS_H
#define CLIENT_CALLS_H

#include "client/client_internal.h"

/* What a service's name is called by. NIGH_INVALID: it is none. */
nigh_status calls_hash(const char *name, uint64_t *hash);

/* Whether the node is the one that had this number. Locked where it matters. */
bool calls_is_now(const nigh_client *client, uint32_t incarnation);

/* A request's second word: its lane, and above it the node that has it. */
uint64_t calls_where(const nigh_client *client, uint32_t lane);

/* Answers a request through the rings; waits until the lane has taken it. */
nigh_status calls_reply_later(nigh_client *client, const nigh_request *request, nigh_status answer,
                              const void *bytes, uint32_t count);

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
