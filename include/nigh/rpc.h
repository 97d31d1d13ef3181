/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls: a service has a name and answers requests; any client calls it by name on a node of the
 * cluster, its own included. Requests and replies are bytes, at most NIGH_CALL_BYTES each.
 *
 * A call ends exactly once: with the service's answer, at its deadline, by nigh_cancel, or when the
 * node that serves it is lost (NIGH_PEER_LOST, at once). Unless it says that it may be, none is
 * carried out twice: one that ended without an answer may or may not have been.
 *
 * Any client may serve: it registers a name, and receives requests one after the other. A client of
 * an embedded node (nigh/node.h) may register a handler instead, which runs on the thread that
 * drives the node at that moment.
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
#define NIGH_CALL_IDEMPOTENT                                                                  \
    2u                      /* may be carried out more than once: where the node is lost, the \
                               service ends or too much is under way, it is tried again, with \
                               longer and longer rests, until its deadline */
#define NIGH_CALL_URGENT 4u /* goes before those of other calls that wait for the same node */

/* nigh_call_spec.rank: any node that serves the name: the client's own, or the one with the fewest
 * calls of this node under way. Goes on to another as long as no service has taken it. */
#define NIGH_ANY_RANK UINT32_MAX

/* A call. Zero-fill, then set; struct_size lets the struct grow. It and what it names stay as they
 * are until the call has ended. */
typedef struct nigh_call_spec {
    size_t struct_size;
    const char *service; /* its name, 1 to 255 bytes */
    uint32_t rank;       /* of the node that serves it (nigh_nodes), or NIGH_ANY_RANK */
    uint32_t flags;      /* NIGH_CALL_* */
    const void *request;
    size_t request_bytes;
    void *reply; /* where the reply goes */
    size_t reply_room;
    size_t reply_bytes; /* out: what it has; with NIGH_LIMIT, what it would have had */
    uint32_t served_by; /* out: the rank that answered, or was asked last; NIGH_ANY_RANK: none */
    uint32_t reserved;
} nigh_call_spec;

/*
 * Calls, and waits for the end. NIGH_OK, or the status with which the service answered; or
 * NIGH_NOT_FOUND: the node has no such service, or none has; NIGH_PEER_LOST: it died or cannot be
 * reached; NIGH_TIMEOUT; NIGH_BUSY: too much is under way, here or there; NIGH_CLOSED: the service
 * ended before it answered; NIGH_LIMIT: the reply is longer than reply_room; NIGH_INVALID: no such
 * rank, a request above NIGH_CALL_BYTES, ...; NIGH_DENIED: the client was opened read-only.
 */
NIGH_API nigh_status nigh_call(nigh_client *client, nigh_call_spec *spec, uint64_t timeout_us);

/* The same without waiting. */
NIGH_API nigh_status nigh_call_start(nigh_client *client, nigh_call_spec *spec, uint64_t timeout_us,
                                     nigh_op *op);

/* ---- serve ---------------------------------------------------------------- */

struct nigh_service;
typedef struct nigh_service nigh_service;

/* A request. It may be copied, and answered by the copy. Bytes are good until the handler returns;
 * what nigh_receive gives lies in the caller's buffer, and is the caller's. */
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
 * How to serve. Zero-fill, then set. Without a handler (or without options) nigh_receive gives the
 * requests. With one, which takes a client of an embedded node, the handler is called for each
 * request, by any thread that drives the node, several at once when it has several lanes. It must
 * not wait, nor call anything of nigh but nigh_call_reply: what takes long it leaves to a thread of
 * its own, which answers later.
 */
typedef struct nigh_service_options {
    size_t struct_size;
    void (*handler)(void *context, const nigh_request *request);
    void *context;
} nigh_service_options;

/*
 * Serves a name at this node, until nigh_service_unregister or nigh_client_close, the end of the
 * process, or of the node: what began anew knows no services. NIGH_EXISTS: it is served there
 * already; NIGH_UNSUPPORTED: a handler, and no embedded node; NIGH_DENIED: no handler, and the
 * client was opened read-only; NIGH_LIMIT: too many services, of the client or of the node.
 */
NIGH_API nigh_status nigh_service_register(nigh_client *client, const char *name,
                                           const nigh_service_options *options,
                                           nigh_service **service);

/* Ends a service: when it returns, no handler of it runs, nor will; what it has not answered ends
 * with NIGH_CLOSED, and so do receives that were started; its requests are good for nothing: not to
 * be answered, nor received for, during the call, nor after it. Not from a handler, nor with a lock
 * that one waits for. NULL is allowed. */
NIGH_API void nigh_service_unregister(nigh_service *service);

/*
 * Answers a request, once, with NIGH_OK or another status and `size` bytes: from a handler of its
 * service, or later from any thread that is in no handler. NIGH_NOT_FOUND: nobody waits for it (it
 * is answered, or its caller gave up or is gone), or it was one-way; NIGH_INVALID: above
 * NIGH_CALL_BYTES, or no status.
 */
NIGH_API nigh_status nigh_call_reply(const nigh_request *request, nigh_status status,
                                     const void *bytes, size_t size);

/*
 * Waits for the next request of a service without a handler. Its bytes go to `buffer`, which has
 * room for NIGH_CALL_BYTES, and request->bytes points there. Several threads may receive, and
 * several requests be unanswered. NIGH_TIMEOUT: none came; with 0, none is there; NIGH_CLOSED: the
 * service ended, or the node began anew: unregister it, and register it again; NIGH_BUSY: too many
 * receives wait, or receives and calls of this client have all places until the deadline.
 */
NIGH_API nigh_status nigh_receive(nigh_service *service, nigh_request *request, void *buffer,
                                  uint64_t timeout_us);

/* The same without waiting: `request` and `buffer` stay as they are until it has ended. A request
 * that comes as it is cancelled is answered NIGH_BUSY. */
NIGH_API nigh_status nigh_receive_start(nigh_service *service, nigh_request *request, void *buffer,
                                        uint64_t timeout_us, nigh_op *op);

/*
 * Answers *request as nigh_call_reply does, and receives the next one into it, in one step: the
 * loop of a server. `bytes` may lie in `buffer`. It ends as the receive does; whether anybody
 * waited for the answer is not told.
 */
NIGH_API nigh_status nigh_reply_receive(nigh_request *request, nigh_status status,
                                        const void *bytes, size_t size, void *buffer,
                                        uint64_t timeout_us);

#ifdef __cplusplus
}
#endif
#endif
