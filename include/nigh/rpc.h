/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls: a service has a name and answers requests; any client calls it by name on a node of the
 * cluster, its own included. Requests and replies are bytes, at most NIGH_CALL_BYTES each;
 * nigh/typed.h makes structs of them.
 *
 * A call ends exactly once: with the service's answer, at its deadline, by nigh_cancel, or when the
 * node that serves it is lost (NIGH_PEER_LOST, at once). Unless it says that it may be, none is
 * carried out twice: one that ended without an answer may or may not have been, unless
 * nigh_client_error says that it was not. A node whose link has not come yet is waited for, for ten
 * seconds at most.
 *
 * Any client may serve: it registers a name, and receives requests one after the other. A client of
 * an embedded node (nigh/node.h) may register a handler instead, which runs on the thread that
 * drives the node at that moment.
 */
#ifndef NIGH_RPC_H
#define NIGH_RPC_H

#include "nigh/object.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NIGH_CALL_BYTES 8192 /* most bytes of a request, and of a reply */

/* ---- memory that calls bring ---------------------------------------------- */

/*
 * A call may bring memory of its process, which the service pulls bytes from or pushes bytes into,
 * as many and whatever size, while the call is under way: they go straight from one process's
 * memory to the other's. Both sides name memory by handles: any client allocates memory for that,
 * and a client of an embedded node (nigh/node.h) also opens what its process has.
 */
struct nigh_bulk;
typedef struct nigh_bulk nigh_bulk;

#define NIGH_CALL_BULKS 8 /* most that one call brings */

#define NIGH_BULK_READ  1u /* bytes go out of the memory: pulled of a caller, pushed of a server */
#define NIGH_BULK_WRITE 2u /* bytes come into it */

/*
 * Allocates memory, zeroed, at *memory, and a handle of it, for any number of calls of this client:
 * for its services' moves as well. nigh_bulk_close frees it; a child process does not have it. It
 * costs a registration with the network's device, at the first use.
 *
 * Of a client of nighd it is memory of the node, which both have mapped, within the node's
 * --call-memory; gigabytes take seconds. It goes with the connection: if the node began anew since,
 * calls that bring it end with NIGH_CLOSED, what is in it is not promised, and it stays mapped
 * until it is closed.
 *
 * NIGH_OUT_OF_MEMORY: the node, or its machine, has no more; NIGH_QUOTA: the session or the uid has
 * its share; NIGH_LIMIT: the client has 256 handles, or the node 1024; NIGH_DENIED: the client was
 * opened read-only; NIGH_UNSUPPORTED: the node is of before there was this; NIGH_CLOSED: the
 * connection ended meanwhile, twice. Not from a handler.
 */
NIGH_API nigh_status nigh_bulk_alloc(nigh_client *client, size_t size, uint32_t access,
                                     void **memory, nigh_bulk **bulk);

/*
 * Makes a handle of memory of an embedded node's process, for any number of calls of this client.
 * The memory stays where it is until nigh_bulk_close. NIGH_UNSUPPORTED: not a client of an embedded
 * node; NIGH_LIMIT, as above.
 */
NIGH_API nigh_status nigh_bulk_open(nigh_client *client, void *memory, size_t size, uint32_t access,
                                    nigh_bulk **bulk);

/*
 * Waits until nobody touches the memory of a handle: no call that brings it is under way, nor what
 * a call that ended without an answer has left. NIGH_TIMEOUT; NIGH_CLOSED: it went with the
 * connection. Not from a handler.
 *
 * A call that brings memory ends with an answer only when nobody touches that any more. One that
 * ends at its deadline, or is cancelled, leaves it to whoever was at it: mostly for a moment, for
 * 10 s and the end of a link at most.
 */
NIGH_API nigh_status nigh_bulk_wait(nigh_bulk *bulk, uint64_t timeout_us);

/* The same, and the handle is gone, and what was allocated; NIGH_TIMEOUT (NIGH_BUSY: the client
 * waits for too many), or any other status: it is not. nigh_client_close closes them all: in an
 * embedded node it waits two seconds, and then ends the links over which they are used still. NULL
 * is allowed. */
NIGH_API nigh_status nigh_bulk_close(nigh_bulk *bulk, uint64_t timeout_us);

/* What of it a call brings. Zero-fill, then set. */
typedef struct nigh_bulk_part {
    nigh_bulk *bulk;
    uint64_t offset; /* in its memory */
    uint64_t size;
    uint32_t access; /* NIGH_BULK_*, of those of the handle; 0: all of them */
    uint32_t reserved;
} nigh_bulk_part;

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

/* nigh_call_spec.rank: the same, but of the nodes that serve the name the one that holds most bytes
 * of the objects near_ids goes before others (nigh_locate): what the call is about need not travel.
 * Those are asked for first, which is a round trip, and a quarter of the call's time or 0.2 s at
 * most: what nobody says by then counts for nobody. */
#define NIGH_NEAREST   (UINT32_MAX - 1)
#define NIGH_NEAR_MOST 4096 /* most objects that such a call names */

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
    size_t reply_bytes;  /* out: what it has; with NIGH_LIMIT, what it would have had */
    uint32_t served_by;  /* out: the rank that answered, or was asked last; NIGH_ANY_RANK: none */
    uint32_t bulk_count; /* memory that it brings, NIGH_CALL_BULKS at most: each takes 32 bytes of
                            what a request may have. Neither one-way nor idempotent */
    const nigh_id *near_ids; /* NIGH_NEAREST: near_count of them, in the client's pool. This, and
                                what follows, came later: a smaller struct_size goes without */
    size_t near_count;
    uint64_t opaque[3]; /* the library's */
    const nigh_bulk_part *bulks;
    uint32_t answered; /* out: 1: the status is what the service answered; 0: it is nigh's. This
                          came later still */
    uint32_t reserved;
} nigh_call_spec;

/*
 * Calls, and waits for the end. NIGH_OK, or the status with which the service answered (`answered`
 * tells that from one of these); or NIGH_NOT_FOUND: the node has no such service, or none has;
 * NIGH_PEER_LOST: it died or cannot be reached; NIGH_TIMEOUT; NIGH_OVERLOADED: too many calls wait
 * already, here or there, and it was not carried out; NIGH_CLOSED: the service ended before it
 * answered, or memory that it brings is gone; NIGH_LIMIT: the reply is longer than reply_room;
 * NIGH_INVALID: no such rank, a request above NIGH_CALL_BYTES, ...; NIGH_DENIED: the client was
 * opened read-only.
 */
NIGH_API nigh_status nigh_call(nigh_client *client, nigh_call_spec *spec, uint64_t timeout_us);

/* The same without waiting, but for the memory that the node grants a client for its first calls
 * and receives: a moment, a second at most. The call is then on its way, whether or not the client
 * is polled. */
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
    uint32_t bulk_count; /* memory that its caller brings: nigh_request_bulk */
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
 * service ended, or the node began anew: unregister it, and register it again; NIGH_NODE_LOST: the
 * node died while it waited; the next is NIGH_CLOSED where another took up its memory; NIGH_BUSY:
 * too many receives wait, or receives and calls of this client have all places until the deadline.
 */
NIGH_API nigh_status nigh_receive(nigh_service *service, nigh_request *request, void *buffer,
                                  uint64_t timeout_us);

/* The same without waiting (as nigh_call_start): `request` and `buffer` stay as they are until it
 * has ended. A request that comes as it is cancelled is answered NIGH_BUSY. */
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

/* ---- memory that a request brings ------------------------------------------ */

typedef struct nigh_bulk_info {
    uint64_t size;
    uint32_t access; /* NIGH_BULK_READ: may be pulled; NIGH_BULK_WRITE: pushed into */
    uint32_t reserved;
} nigh_bulk_info;

/* What a request's memory is like; as long as its bytes are good. NIGH_INVALID: it brings less. */
NIGH_API nigh_status nigh_request_bulk(const nigh_request *request, uint32_t number,
                                       nigh_bulk_info *info);

/* Bytes between a caller's memory and this process's. Zero-fill, then set. */
typedef struct nigh_bulk_move {
    size_t struct_size;
    const nigh_request *request; /* of a service of this client, not answered; copied */
    uint32_t number;             /* of its memory, from 0 */
    uint32_t reserved;
    uint64_t offset;  /* there */
    nigh_bulk *local; /* of the service's client */
    uint64_t local_offset;
    uint64_t size;
} nigh_bulk_move;

/*
 * Pulls bytes out of the caller's memory (which allows NIGH_BULK_READ, and `local` _WRITE), or
 * pushes bytes into it (the other way round), and waits until they are there: NIGH_OK. Else
 * NIGH_NOT_FOUND: the request is answered, or its caller gave up; NIGH_PEER_LOST; NIGH_INVALID: not
 * within the memory; NIGH_DENIED: it is not for that; NIGH_CLOSED: `local` is gone; NIGH_BUSY: 16
 * moves of one request, or too many in all. From any thread that is in no handler; while they last
 * the request must not be answered, which ends them. Bytes are not summed.
 */
NIGH_API nigh_status nigh_bulk_pull(const nigh_bulk_move *move);
NIGH_API nigh_status nigh_bulk_push(const nigh_bulk_move *move);

/* The same without waiting. One that is cancelled leaves the local memory to nigh_bulk_wait. */
NIGH_API nigh_status nigh_bulk_pull_start(const nigh_bulk_move *move, nigh_op *op);
NIGH_API nigh_status nigh_bulk_push_start(const nigh_bulk_move *move, nigh_op *op);

/* ---- calls of many nodes --------------------------------------------------- */

#define NIGH_MULTICAST_BYTES    7680 /* most of a request, and of a value */
#define NIGH_MULTICAST_FAN      4    /* nodes that one asks, unless the spec says otherwise */
#define NIGH_MULTICAST_FAN_MOST 16
#define NIGH_MULTICAST_ERRORS   8

/* What is made of the replies, on their way back. Vectors are of 8-byte numbers, in the machine's
 * order: each reply has as many bytes as the value has room, and they are taken number by number.
 * Sums of integers wrap; sums of doubles are taken in no certain order. */
typedef enum nigh_reduce {
    NIGH_REDUCE_NONE = 0, /* nothing: only how many answered */
    NIGH_REDUCE_SUM_U64 = 1,
    NIGH_REDUCE_MIN_U64 = 2,
    NIGH_REDUCE_MAX_U64 = 3,
    NIGH_REDUCE_SUM_F64 = 4,
    NIGH_REDUCE_MIN_F64 = 5,
    NIGH_REDUCE_MAX_F64 = 6,
    NIGH_REDUCE_CONCAT = 7 /* nigh_multicast_reply and its bytes, one behind the other, by rank; a
                              reply that has no room counts as failed, with NIGH_LIMIT */
} nigh_reduce;

/* In front of each reply of NIGH_REDUCE_CONCAT, not aligned. */
typedef struct nigh_multicast_reply {
    uint32_t rank;
    uint32_t bytes;
} nigh_multicast_reply;

/* What went wrong in one place. */
typedef struct nigh_multicast_error {
    uint32_t rank;   /* of a node; where `count` is more, others were to be asked by it */
    int32_t status;  /* nigh_status */
    uint32_t count;  /* nodes that this is about, `rank` included */
    uint32_t is_had; /* 1: services may have carried it out; 0: certainly none of them */
} nigh_multicast_error;

/* A call of many nodes. Zero-fill, then set; struct_size lets the struct grow. It and what it names
 * stay as they are until the call has ended. */
typedef struct nigh_multicast_spec {
    size_t struct_size;
    const char *service;   /* its name, 1 to 255 bytes: every node that is asked has it */
    const uint32_t *ranks; /* of the nodes, each once; NULL: all of the group */
    size_t rank_count;
    uint64_t version; /* of the group that `ranks` was reckoned with; 0: whatever it is. Out: what
                         the client's node says that it is; 0: it said nothing */
    uint32_t fan;     /* nodes that one asks, 2 to NIGH_MULTICAST_FAN_MOST; 0: NIGH_MULTICAST_FAN */
    uint32_t reduce;  /* nigh_reduce */
    const void *request;
    size_t request_bytes;
    void *value;          /* what the replies are reduced to */
    size_t value_room;    /* a vector has just as much; NIGH_REDUCE_NONE: 0 */
    size_t value_bytes;   /* out */
    uint32_t answered;    /* out: nodes whose service said NIGH_OK, and whose reply counts */
    uint32_t failed;      /* out: whose service said something else, or a reply that does not fit */
    uint32_t unknown;     /* out: that may have carried it out */
    uint32_t unasked;     /* out: that certainly have not */
    uint32_t error_count; /* out: of the first errors; more may have been */
    nigh_multicast_error errors[NIGH_MULTICAST_ERRORS];
    uint64_t opaque[2]; /* the library's */
} nigh_multicast_spec;

/*
 * Calls a service at many nodes, over a tree of them: a node asks `fan` others, each of which asks
 * some of the rest, and what they say is added up on the way back. None is asked twice. Waits for
 * the end: NIGH_OK: all answered. Otherwise the first error's status; `answered` and the three
 * others then add up to the nodes that were wanted, and the value is of those that answered; or
 * they are all 0, and nothing is known but the status: NIGH_STALE: the group has another version
 * by now, and nobody was asked (ask again, with ranks of the present one); NIGH_TIMEOUT,
 * NIGH_CANCELED: whoever had it already has; NIGH_INVALID: a rank twice, or not of the group, ...;
 * NIGH_OVERLOADED: too many are under way; NIGH_NO_QUORUM: no group is agreed on yet; NIGH_DENIED.
 *
 * The group is the nodes that are in the present view where nodes agree on one (nighd --state), and
 * its version the view's epoch; else it is all that are listed. A node that is of another version
 * than the client's answers NIGH_STALE for itself and for those behind it.
 */
NIGH_API nigh_status nigh_multicast(nigh_client *client, nigh_multicast_spec *spec,
                                    uint64_t timeout_us);

/* The same without waiting. */
NIGH_API nigh_status nigh_multicast_start(nigh_client *client, nigh_multicast_spec *spec,
                                          uint64_t timeout_us, nigh_op *op);

#ifdef __cplusplus
}
#endif
#endif
