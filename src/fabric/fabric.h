/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fabric: how a lane reaches the memory of other nodes, with the semantics of RDMA verbs.
 *
 * One contract, several providers (tcp/, verbs/, sim/), one set of tests over all of them
 * (tests/conformance/). docs/fabric.md states each promise and each thing that is *not*
 * promised; this header is the same in short, at the place where one needs it.
 *
 * A struct fabric belongs to one lane: every call on it, its endpoints and its registrations is
 * made by the thread that drives the lane. Nothing here blocks, save where a comment says so.
 *
 * Promised: posts of one endpoint start in order; a SEND or WRITE_IMM that arrived means that what
 * was written before it on the same endpoint is visible. Not promised: that a READ or an atomic has
 * acted before later posts do, unless they carry FABRIC_FENCE or its completion was polled.
 */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"

struct fabric;
struct fabric_endpoint;
struct fabric_memory;
struct fabric_stock;

/* ---- what a provider can -------------------------------------------------- */

/* Bits of fabric_caps.ops: what the wire itself does. The rest is emulated above, in one place. */
#define FABRIC_CAN_WRITE_IMM 1u
#define FABRIC_CAN_ATOMICS   2u
/* Objects can be read into memory that is not open to remote writes (not so on iWARP). */
#define FABRIC_CAN_READ_PRIVATE 4u
/* One-sided operations act without a thread of the target. */
#define FABRIC_CAN_OFFLOAD 8u
/* Endpoints can take their receives from a stock (fabric_stock_create). */
#define FABRIC_CAN_SHARE 16u
/* Aligned words of 8 bytes move whole: a WRITE stores each that lies in it at once, and a READ of
 * one finds all of it as it was at some moment. Without it a word is whole to atomics only. */
#define FABRIC_CAN_WORDS 32u
/* Atomics are atomic with those of the target's own processors, and of its other fabrics. Without
 * it words that peers change by atomics are changed, and read, through one fabric alone. */
#define FABRIC_CAN_ATOMICS_HERE 64u
/* There are endpoints that lead back to the own fabric (fabric_loop). */
#define FABRIC_CAN_LOOP 128u

struct fabric_caps {
    const char *name;      /* "tcp", "verbs", "sim" */
    uint32_t ops;          /* FABRIC_CAN_* */
    uint32_t inline_bytes; /* most bytes of a post with FABRIC_INLINE */
    uint32_t slices;       /* most slices of one post */
    uint32_t reads; /* READs and atomics of one endpoint that act at once; more wait in order */
    uint64_t message_bytes; /* most bytes of one post */
    uint32_t
        memories; /* most registrations at once; a device that others use, too, may have less */
};

/* ---- memory --------------------------------------------------------------- */

/* What kind of memory a registration is. Device memory comes later without changing callers. */
enum fabric_kind {
    FABRIC_HOST = 0
};

/* What may be done to registered memory, and by whom. Local reading always may. */
#define FABRIC_LOCAL_WRITE   1u
#define FABRIC_REMOTE_READ   2u
#define FABRIC_REMOTE_WRITE  4u
#define FABRIC_REMOTE_ATOMIC 8u

/* Where a remote operation goes: an address in the target's registration, and its key. Two keys of
 * one fabric are never equal while both are registered, and a key is not used again soon. */
struct fabric_remote {
    uint64_t address;
    uint32_t key;
};

/* A piece of local memory. memory may be NULL in a post with FABRIC_INLINE. */
struct fabric_slice {
    void *address;
    uint64_t bytes;
    struct fabric_memory *memory;
};

/* ---- posts ---------------------------------------------------------------- */

enum fabric_op {
    FABRIC_SEND = 0,  /* into the receive that the peer posted first */
    FABRIC_RECV,      /* only in completions */
    FABRIC_READ,      /* remote -> slices */
    FABRIC_WRITE,     /* slices -> remote */
    FABRIC_WRITE_IMM, /* the same; consumes a receive of the peer, which completes with imm; with no
                         bytes it needs no remote */
    FABRIC_FETCH_ADD, /* 8 aligned bytes; the old value lands in the slice (8 bytes) */
    FABRIC_COMPARE_SWAP,
    FABRIC_OPS
};

/* Wants a completion of its own. Without it only a failure completes; the slices are free again
 * once a later signalled post of the endpoint completed, and so is the post's place among
 * fabric_endpoint_options.sends, at the latest: at least one in `sends` must be signalled. */
#define FABRIC_SIGNALLED 1u
/* The bytes are taken during the call: the slices are free on return. SEND, WRITE, WRITE_IMM. */
#define FABRIC_INLINE 2u
/* Starts after every earlier READ and atomic of the endpoint has acted. */
#define FABRIC_FENCE 4u
/* Wakes a peer that sleeps; without it the peer may find it only when something else wakes it.
 * SEND, WRITE_IMM. (tcp wakes always.) */
#define FABRIC_SOLICITED 8u

/*
 * A post. The struct and its slices array are free on return; the memory that the slices name is
 * the provider's (a loan) until the completion, see FABRIC_SIGNALLED, or until
 * fabric_endpoint_destroy has returned.
 */
struct fabric_work {
    const struct fabric_work *next; /* a chain is posted under one doorbell */
    enum fabric_op op;
    uint32_t flags;
    uint64_t tag; /* comes back in the completion */
    const struct fabric_slice *slices;
    uint32_t slice_count;
    uint32_t imm;
    struct fabric_remote remote;
    uint64_t operand; /* FETCH_ADD: what is added; COMPARE_SWAP: the new value */
    uint64_t compare; /* COMPARE_SWAP */
};

struct fabric_receive {
    const struct fabric_receive *next;
    uint64_t tag;
    struct fabric_slice slice; /* written until the completion: a loan */
};

/*
 * A stock of receives that endpoints share: what a lane keeps for messages then need not grow with
 * its peers. A message takes one that is posted, whichever endpoint it comes on and whichever was
 * posted first; its completion says both. Messages of one endpoint still complete in their order.
 * An endpoint that fails leaves alone what it has not taken, and completes what one of its messages
 * was filling, if any; one that is destroyed gives back what was completed on it and not polled:
 * that is posted again. Whoever posts to endpoints of a stock has credits from all of it: without a
 * receive a message fails, as elsewhere.
 */

/*
 * How a post ended. NIGH_OK; NIGH_DENIED: key, bounds or rights were wrong at the target (which
 * wrote nothing; the endpoint fails on both sides); NIGH_LIMIT: the message is longer than the
 * receive; NIGH_PROTOCOL: no receive was posted, or the peer spoke nonsense; NIGH_PEER_LOST: the
 * endpoint failed or was disconnected first. A failed endpoint completes every outstanding post and
 * receive of its own, signalled or not, each once.
 */
struct fabric_completion {
    struct fabric_endpoint *endpoint;
    void *context; /* of the endpoint */
    uint64_t tag;
    enum fabric_op op; /* RECV for receives, also those that a WRITE_IMM consumed */
    nigh_status status;
    bool has_imm;
    uint32_t imm;
    uint64_t bytes; /* RECV: received; else of the post. WRITE_IMM at the target: written */
};

/* ---- connections ---------------------------------------------------------- */

#define FABRIC_PRIVATE_BYTES 55 /* rdma_cm carries 56 and not how many: one says that */
#define FABRIC_ADDRESS_BYTES 80 /* "[ipv6%scope]:port" and its terminator */

enum fabric_event_kind {
    FABRIC_REQUEST = 0,  /* someone wants to connect: fabric_accept or fabric_reject, once */
    FABRIC_ESTABLISHED,  /* posts may be made (receives could be before) */
    FABRIC_DISCONNECTED, /* failed, refused, or ended by the peer: `status` says why. Once, and
                            before the completions it causes are all polled; destroy it */
};

struct fabric_event {
    enum fabric_event_kind kind;
    struct fabric_endpoint *endpoint; /* REQUEST: of the request, so far without receives */
    void *context;
    nigh_status status; /* NIGH_UNREACHABLE, NIGH_DENIED (rejected), NIGH_PEER_LOST, NIGH_PROTOCOL,
                           NIGH_TIMEOUT (keep-alive, handshake); after an operation was refused, on
                           either side one of: that operation's own (NIGH_DENIED, NIGH_LIMIT),
                           NIGH_PROTOCOL, NIGH_PEER_LOST */
    uint32_t private_bytes;
    uint8_t private_data[FABRIC_PRIVATE_BYTES]; /* REQUEST: the dialler's; ESTABLISHED at the
                                                   dialler: the acceptor's */
};

/* Depths are bounds: a post beyond them is NIGH_BUSY. */
struct fabric_endpoint_options {
    uint32_t sends;    /* outstanding posts */
    uint32_t receives; /* outstanding receives; none may be posted where there is a stock */
    struct fabric_stock *stock; /* whose receives its messages take; NULL: it has its own */
    void *context;              /* the caller's; in completions and events */
    uint32_t inline_bytes; /* of a post with FABRIC_INLINE, at most: each place has room for them;
                              0, or more than the fabric's: the fabric's */
};

/* ---- the provider's table ------------------------------------------------- */

/* What the calls below dispatch to. A provider embeds struct fabric as its first member. */
struct fabric_provider {
    void (*destroy)(struct fabric *fabric);
    nigh_status (*listen)(struct fabric *fabric, const char *address);
    void (*address)(const struct fabric *fabric, char address[FABRIC_ADDRESS_BYTES]);
    nigh_status (*memory_register)(struct fabric *fabric, void *address, uint64_t bytes,
                                   enum fabric_kind kind, uint32_t rights,
                                   struct fabric_memory **memory);
    struct fabric_remote (*memory_remote)(const struct fabric_memory *memory, const void *address);
    void (*memory_deregister)(struct fabric *fabric, struct fabric_memory *memory);
    nigh_status (*connect)(struct fabric *fabric, const char *address,
                           const struct fabric_endpoint_options *options, const void *private_data,
                           uint32_t private_bytes, struct fabric_endpoint **endpoint);
    nigh_status (*accept)(struct fabric_endpoint *endpoint,
                          const struct fabric_endpoint_options *options, const void *private_data,
                          uint32_t private_bytes);
    void (*reject)(struct fabric_endpoint *endpoint);
    /* NULL: not FABRIC_CAN_LOOP. */
    nigh_status (*loop)(struct fabric *fabric, const struct fabric_endpoint_options *options,
                        struct fabric_endpoint **endpoint);
    nigh_status (*post)(struct fabric_endpoint *endpoint, const struct fabric_work *work,
                        const struct fabric_work **bad);
    nigh_status (*post_receive)(struct fabric_endpoint *endpoint,
                                const struct fabric_receive *receive,
                                const struct fabric_receive **bad);
    nigh_status (*stock_create)(struct fabric *fabric, uint32_t depth, struct fabric_stock **stock);
    void (*stock_destroy)(struct fabric_stock *stock);
    nigh_status (*stock_post)(struct fabric_stock *stock, const struct fabric_receive *receive,
                              const struct fabric_receive **bad);
    void (*disconnect)(struct fabric_endpoint *endpoint);
    void (*endpoint_destroy)(struct fabric_endpoint *endpoint);
    uint32_t (*poll)(struct fabric *fabric, struct fabric_completion *completions, uint32_t count,
                     uint64_t now_us);
    bool (*next_event)(struct fabric *fabric, struct fabric_event *event);
    int (*fd)(const struct fabric *fabric);
    bool (*arm)(struct fabric *fabric);
    uint64_t (*due_us)(const struct fabric *fabric);
};

/* What was asked of a device, ever; all but the last are 0 where there is none (tcp, sim). */
struct fabric_counts {
    uint64_t requests;  /* work requests of posts that it took */
    uint64_t doorbells; /* calls that handed it some */
    uint64_t signalled; /* of the requests: those that complete with a word of their own */
    uint64_t receive_doorbells;
    uint64_t messages;     /* of peers, that took a receive */
    uint64_t immediates;   /* of the messages: those with immediate data */
    uint64_t wakes;        /* what woke who slept on the descriptor */
    uint64_t stock_lows;   /* a stock of receives had less than an eighth left */
    uint64_t copied_bytes; /* by our processor, on the way to a post: by providers and by links */
};

struct fabric {
    const struct fabric_provider *provider;
    struct fabric_caps caps;
    uint64_t registrations; /* ever made; they cost a device's time: none on a data path */
    /* The last fabric_arm was true, and what it made readable was not taken since. The provider
     * says when it was. */
    bool is_armed;
    struct fabric_counts counts;
};

/* For providers: whether what the wire can do includes this. */
static inline bool fabric_can(const struct fabric *fabric, enum fabric_op op)
{
    switch (op) {
    case FABRIC_WRITE_IMM: return (fabric->caps.ops & FABRIC_CAN_WRITE_IMM) != 0;
    case FABRIC_FETCH_ADD:
    case FABRIC_COMPARE_SWAP: return (fabric->caps.ops & FABRIC_CAN_ATOMICS) != 0;
    default: return true;
    }
}

/* For providers: the same of an endpoint that leads back to its fabric. */
static inline bool fabric_loop_can(const struct fabric *fabric, enum fabric_op op)
{
    return op != FABRIC_SEND && op != FABRIC_WRITE_IMM && fabric_can(fabric, op);
}

/* For providers: what an endpoint may post inline. */
static inline uint32_t fabric_inline_bytes(const struct fabric *fabric,
                                           const struct fabric_endpoint_options *options)
{
    uint32_t most = fabric->caps.inline_bytes;

    return options->inline_bytes == 0 || options->inline_bytes > most ? most
                                                                      : options->inline_bytes;
}

/* ---- calls ---------------------------------------------------------------- */

/* Ends everything: endpoints and stocks are destroyed, registrations dropped. */
static inline void fabric_destroy(struct fabric *fabric)
{
    if (fabric != NULL) {
        fabric->provider->destroy(fabric);
    }
}

/*
 * Begins to accept on "host:port", "[ipv6]:port", "*:port"; port 0 lets the system choose. At most
 * one a fabric; may ask the system's resolver for a host name, which may block: start-up only.
 * NIGH_INVALID: not an address; NIGH_BUSY: taken; NIGH_NO_RESOURCES.
 */
static inline nigh_status fabric_listen(struct fabric *fabric, const char *address)
{
    return fabric->provider->listen(fabric, address);
}

/* Where it listens, the port filled in; "" when it does not. */
static inline void fabric_address(const struct fabric *fabric, char address[FABRIC_ADDRESS_BYTES])
{
    fabric->provider->address(fabric, address);
}

/*
 * Opens memory to the fabric. The memory stays the caller's and must stay mapped until
 * deregistered. NIGH_LIMIT (caps.memories), NIGH_NO_RESOURCES, NIGH_UNSUPPORTED (the kind).
 * May take long for large memory: not on a data path.
 */
static inline nigh_status fabric_memory_register(struct fabric *fabric, void *address,
                                                 uint64_t bytes, enum fabric_kind kind,
                                                 uint32_t rights, struct fabric_memory **memory)
{
    nigh_status status =
        fabric->provider->memory_register(fabric, address, bytes, kind, rights, memory);

    fabric->registrations += status == NIGH_OK ? 1 : 0;
    return status;
}

/* How a peer names an address within the registration. */
static inline struct fabric_remote fabric_memory_remote(const struct fabric *fabric,
                                                        const struct fabric_memory *memory,
                                                        const void *address)
{
    return fabric->provider->memory_remote(memory, address);
}

/* From the return on, remote operations with its key are refused. Local posts that use it must have
 * ended. */
static inline void fabric_memory_deregister(struct fabric *fabric, struct fabric_memory *memory)
{
    if (memory != NULL) {
        fabric->provider->memory_deregister(fabric, memory);
    }
}

/*
 * Begins to connect; ESTABLISHED or DISCONNECTED follows. Numeric addresses only (NIGH_INVALID).
 * Receives may be posted at once. NIGH_NO_RESOURCES, NIGH_LIMIT (LIMIT_FABRIC_ENDPOINTS).
 */
static inline nigh_status fabric_connect(struct fabric *fabric, const char *address,
                                         const struct fabric_endpoint_options *options,
                                         const void *private_data, uint32_t private_bytes,
                                         struct fabric_endpoint **endpoint)
{
    return fabric->provider->connect(fabric, address, options, private_data, private_bytes,
                                     endpoint);
}

/* Answers a REQUEST. NIGH_OK also when the dialler has gone meanwhile: DISCONNECTED follows then,
 * not ESTABLISHED. Receives may be posted between the call and ESTABLISHED, and should be: the peer
 * may send as soon as it knows. An endpoint neither accepted nor rejected within
 * LIMIT_FABRIC_HANDSHAKE_US is disconnected. */
static inline nigh_status fabric_accept(struct fabric *fabric, struct fabric_endpoint *endpoint,
                                        const struct fabric_endpoint_options *options,
                                        const void *private_data, uint32_t private_bytes)
{
    return fabric->provider->accept(endpoint, options, private_data, private_bytes);
}

/* Refuses a REQUEST; the endpoint is gone on return. */
static inline void fabric_reject(struct fabric *fabric, struct fabric_endpoint *endpoint)
{
    fabric->provider->reject(endpoint);
}

/*
 * An endpoint that leads back to this fabric: its READs, WRITEs and atomics act on what is
 * registered here, by keys, with the rights, the order, the refusals and the completions of any
 * peer's. So this node, too, changes words that peers change by atomics, where the fabric is not
 * FABRIC_CAN_ATOMICS_HERE. It is connected on return: there is no ESTABLISHED, and none but its own
 * DISCONNECTED when it fails, which ends nothing but this endpoint. It carries no messages: it has
 * no receives and no stock (NIGH_INVALID), and SEND and WRITE_IMM are NIGH_UNSUPPORTED.
 *
 * NIGH_UNSUPPORTED: not FABRIC_CAN_LOOP (tcp: a lane has no wire to itself, and its atomics are its
 * processor's; iWARP: connections are the kernel's, and there are no atomics); NIGH_UNREACHABLE:
 * the device is lost, or does not take it; NIGH_LIMIT, NIGH_NO_RESOURCES as fabric_connect. May
 * take some calls of the system: once, not for each post.
 */
static inline nigh_status fabric_loop(struct fabric *fabric,
                                      const struct fabric_endpoint_options *options,
                                      struct fabric_endpoint **endpoint)
{
    if ((fabric->caps.ops & FABRIC_CAN_LOOP) == 0)
        return NIGH_UNSUPPORTED;
    if (options->receives > 0 || options->stock != NULL || options->sends > LIMIT_FABRIC_DEPTH)
        return NIGH_INVALID;
    return fabric->provider->loop(fabric, options, endpoint);
}

/*
 * Posts a chain. NIGH_OK: all of it was taken. NIGH_BUSY: no room from *bad on; NIGH_INVALID: *bad
 * is nonsense (too many slices, lengths, a READ into memory without LOCAL_WRITE); NIGH_UNSUPPORTED:
 * caps.ops does not name it; NIGH_CLOSED: the endpoint is not connected. What stands before *bad
 * was taken. bad may be NULL for a chain of one.
 */
static inline nigh_status fabric_post(struct fabric *fabric, struct fabric_endpoint *endpoint,
                                      const struct fabric_work *work,
                                      const struct fabric_work **bad)
{
    return fabric->provider->post(endpoint, work, bad);
}

/* Posts receives, in the order in which they will be filled. Errors as fabric_post. */
static inline nigh_status fabric_post_receive(struct fabric *fabric,
                                              struct fabric_endpoint *endpoint,
                                              const struct fabric_receive *receive,
                                              const struct fabric_receive **bad)
{
    return fabric->provider->post_receive(endpoint, receive, bad);
}

/*
 * A stock for at most `depth` receives, from the post to the poll of the completion. NIGH_INVALID:
 * none, or more than LIMIT_FABRIC_STOCK; NIGH_LIMIT: LIMIT_FABRIC_STOCKS of this fabric, or more
 * than its device takes; NIGH_UNSUPPORTED: not FABRIC_CAN_SHARE; NIGH_NO_RESOURCES.
 */
static inline nigh_status fabric_stock_create(struct fabric *fabric, uint32_t depth,
                                              struct fabric_stock **stock)
{
    return fabric->provider->stock_create(fabric, depth, stock);
}

/* Its endpoints are destroyed already. From the return on nothing writes to its receives. */
static inline void fabric_stock_destroy(struct fabric *fabric, struct fabric_stock *stock)
{
    if (stock != NULL) {
        fabric->provider->stock_destroy(stock);
    }
}

/* Posts receives, for any of its endpoints. NIGH_BUSY, NIGH_INVALID as fabric_post. */
static inline nigh_status fabric_stock_post(struct fabric *fabric, struct fabric_stock *stock,
                                            const struct fabric_receive *receive,
                                            const struct fabric_receive **bad)
{
    return fabric->provider->stock_post(stock, receive, bad);
}

/* Fails the endpoint: DISCONNECTED and the completions follow, here and at the peer. Loans are not
 * over by this. */
static inline void fabric_disconnect(struct fabric *fabric, struct fabric_endpoint *endpoint)
{
    fabric->provider->disconnect(endpoint);
}

/*
 * Ends an endpoint, connected or not. When it has returned, nothing of it reads or writes memory
 * any more, here: every loan of this side of it is over. Completions and events of it that were not
 * polled are dropped; receives of a stock among them are posted again.
 */
static inline void fabric_endpoint_destroy(struct fabric *fabric, struct fabric_endpoint *endpoint)
{
    if (endpoint != NULL) {
        fabric->provider->endpoint_destroy(endpoint);
    }
}

/*
 * Makes bounded progress (serves peers' one-sided operations too, where the wire does not) and
 * takes up to count completions. 0: nothing now.
 */
static inline uint32_t fabric_poll(struct fabric *fabric, struct fabric_completion *completions,
                                   uint32_t count, uint64_t now_us)
{
    return fabric->provider->poll(fabric, completions, count, now_us);
}

/* Takes one connection event; false: there is none. After fabric_poll, which makes the progress. */
static inline bool fabric_next_event(struct fabric *fabric, struct fabric_event *event)
{
    return fabric->provider->next_event(fabric, event);
}

/* A descriptor that becomes readable after fabric_arm when there is something to poll; -1 in
 * simulation. It is watched by level, never EPOLLET, and never read by the caller. */
static inline int fabric_fd(const struct fabric *fabric)
{
    return fabric->provider->fd(fabric);
}

/* Before sleeping on the descriptor. False: there is something already; poll instead. */
static inline bool fabric_arm(struct fabric *fabric)
{
    fabric->is_armed = fabric->provider->arm(fabric);
    return fabric->is_armed;
}

/* When fabric_poll must be called next at the latest (keep-alive, handshakes); UINT64_MAX: need
 * not. */
static inline uint64_t fabric_due_us(const struct fabric *fabric)
{
    return fabric->provider->due_us(fabric);
}

#endif
