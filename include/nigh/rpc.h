/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls: a service has a name and answers requests; any client calls it by name on a node of the
 * cluster, its own included. Requests and replies are bytes, at most NIGH_CALL_BYTES each.
 *
 * A call ends exactly once: with the service's answer, at its deadline, by nigh_cancel, or when the
 * node that serves it is lost (NIGH_PEER_LOST, at once). Nothing is sent twice: a call that ended
 * without an answer may or may not have been carried out.
 *
 * Services are served by clients of an embedded node (nigh/node.h) so far: their handlers run on
 * the thread that drives the node at that moment.
 */
#ifndef NIGH_RPC_H
#define NIGH_RPC_H

#include "nigh/client.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NIGH_CALL_BYTES 8192 /* most bytes of a request, and of a reply */

/* ---- call ----------------------------------------------------------------- */

/* Flags of nigh_call_spec. */
#define NIGH_CALL_ONE_WAY 1u /* wants no reply: ends when the message is on its way */

/* A call. Zero-fill, then set; struct_size lets the struct grow. It and what it names stay as they
 * are until the call has ended. */
typedef struct nigh_call_spec {
    size_t struct_size;
    const char *service; /* its name, 1 to 255 bytes */
    uint32_t rank;       /* of the node that serves it (nigh_nodes) */
    uint32_t flags;      /* NIGH_CALL_* */
    const void *request;
    size_t request_bytes;
    void *reply; /* where the reply goes */
    size_t reply_room;
    size_t reply_bytes; /* out: what it has; with NIGH_LIMIT, what it would have had */
} nigh_call_spec;

/*
 * Calls, and waits for the end. NIGH_OK, or the status with which the service answered; or
 * NIGH_NOT_FOUND: the node has no such service; NIGH_PEER_LOST: it died or cannot be reached;
 * NIGH_TIMEOUT; NIGH_BUSY: too much is under way, here or there; NIGH_CLOSED: the service ended
 * before it answered; NIGH_LIMIT: the reply is longer than reply_room; NIGH_INVALID: no such rank,
 * a request above NIGH_CALL_BYTES, ...; NIGH_DENIED: the client was opened read-only.
 */
NIGH_API nigh_status nigh_call(nigh_client *client, nigh_call_spec *spec, uint64_t timeout_us);

/* The same without waiting. */
NIGH_API nigh_status nigh_call_start(nigh_client *client, nigh_call_spec *spec, uint64_t timeout_us,
                                     nigh_op *op);

/* ---- serve ---------------------------------------------------------------- */

struct nigh_service;
typedef struct nigh_service nigh_service;

/* A request. It may be copied, and answered by the copy; bytes are good until the handler returns.
 */
typedef struct nigh_request {
    nigh_service *service;
    const void *bytes;
    size_t size;
    uint32_t rank;       /* of the caller's node */
    uint32_t uid;        /* of the caller's process, as that node says */
    uint32_t is_one_way; /* 1: wants no answer */
    uint32_t reserved;
    uint64_t timeout_us; /* what is left of the caller's deadline; NIGH_FOREVER */
    uint64_t opaque[2];
} nigh_request;

/*
 * How to serve. Zero-fill, then set. The handler is called for each request, by any thread that
 * drives the node, several at once when it has several lanes. It must not wait, nor call anything
 * of nigh but nigh_call_reply: what takes long it leaves to a thread of its own, which answers
 * later.
 */
typedef struct nigh_service_options {
    size_t struct_size;
    void (*handler)(void *context, const nigh_request *request);
    void *context;
} nigh_service_options;

/*
 * Serves a name at this node, until nigh_service_unregister or nigh_client_close. NIGH_EXISTS: it
 * is served there already; NIGH_UNSUPPORTED: the client is not of an embedded node; NIGH_LIMIT.
 */
NIGH_API nigh_status nigh_service_register(nigh_client *client, const char *name,
                                           const nigh_service_options *options,
                                           nigh_service **service);

/* Ends a service: when it returns, no handler of it runs, nor will; what it has not answered ends
 * with NIGH_CLOSED, and its requests are good for nothing: not to be answered during the call, nor
 * after it. Not from a handler, nor with a lock that one waits for. NULL is allowed. */
NIGH_API void nigh_service_unregister(nigh_service *service);

/*
 * Answers a request, once, with NIGH_OK or another status and `size` bytes: from a handler of its
 * service, or later from any thread that is in no handler. NIGH_NOT_FOUND: nobody waits for it (it
 * is answered, or its caller gave up or is gone), or it was one-way; NIGH_INVALID: above
 * NIGH_CALL_BYTES, or no status.
 */
NIGH_API nigh_status nigh_call_reply(const nigh_request *request, nigh_status status,
                                     const void *bytes, size_t size);

#ifdef __cplusplus
}
#endif
#endif
