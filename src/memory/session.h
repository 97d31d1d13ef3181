/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session protocol: what a client and its node say to each other, shared by libnigh and nighd.
 *
 * A Unix SEQPACKET socket carries hello, welcome, extents (descriptors) and pokes; everything else
 * goes through the session's shared memory: per lane a submission and a completion ring, an event
 * ring, a reply area and the pin words that the lane holds for the session, and behind them the pin
 * chunks of the client's threads. docs/session.md tells the whole of it: who writes which word, and
 * what a death between any two stores leaves.
 *
 * The node trusts no word a client can write: it copies submissions out before it checks them,
 * keeps its own copies of indices and sizes, and expels a session that breaks the rules.
 *
 * Here are the rings, their entries and the session's memory; what else is said is in the headers
 * that this one has for whoever includes it: messages, questions of regions, records, the driver.
 */
#ifndef MEMORY_SESSION_H
#define MEMORY_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "memory/pin.h"
#include "memory/session_driver.h"
#include "memory/session_message.h"
#include "memory/session_record.h"
#include "memory/session_region.h"
#include "memory/session_show.h"
#include "memory/session_space.h"
#include "memory/shared.h"

#define SESSION_PAGE 4096u

/* ---- the node page: written by the node, read-only for clients ------------ */

/* How a lane that sleeps does so. A client that may drive the lane need not ring while another
 * thread of its process does: the lane's own looks soon. */
#define SESSION_ASLEEP           1u
#define SESSION_ASLEEP_HAS_GUEST 2u

#define SESSION_LIFE_ENDED UINT32_C(0x40000000) /* the kernel's FUTEX_OWNER_DIED */

struct session_lane_state {
    _Atomic uint32_t asleep; /* SESSION_ASLEEP_*; not 0: ring the doorbell after submitting */
    uint32_t reserved[15];
};

struct session_node_page {
    uint32_t magic;
    uint32_t lanes;
    _Atomic uint32_t incarnation;
    _Atomic uint32_t stopping; /* 1: it stops in good order, and what it has goes with it */
    /* A robust futex: the thread that holds it, and SESSION_LIFE_ENDED from its end on, which the
     * kernel sees to. 0: this node does not say. */
    _Atomic uint32_t life;
    _Atomic uint32_t life_of; /* the incarnation that `life` speaks of */
    _Atomic uint32_t kept;    /* 1: memory and sessions outlive the node, for the next one */
    uint8_t reserved[4];
    /* Until then (CLOCK_MONOTONIC, microseconds) nobody goes on without this node, so what it shows
     * of spaces is so. UINT64_MAX: for ever, as it is alone; 0: it does not know. */
    _Atomic uint64_t spaces_until_us;
    uint8_t reserved_too[24];
    struct session_lane_state lane[LIMIT_LANES];
};

_Static_assert(sizeof(struct session_node_page) == 64 + 64 * LIMIT_LANES, "node page is shared");

/* Whether the page says that its node has ended. A node that took the page over and does not know
 * of `life` leaves there what another left. */
static inline bool session_node_ended(const struct session_node_page *page)
{
    return (shared_load_acquire(&page->life) & SESSION_LIFE_ENDED) != 0 &&
           shared_load_acquire(&page->life_of) == shared_load_relaxed(&page->incarnation);
}

/* ---- submissions and completions ------------------------------------------ */

enum session_op {
    SESSION_OP_NOP = 0,
    SESSION_OP_LEASE = 1,       /* argument: bytes wanted -> lease_offset, lease_bytes */
    SESSION_OP_LEASE_CLOSE = 2, /* offset: of the lease; what was not sealed of it goes back */
    SESSION_OP_CREATE = 3,      /* sizes, argument: timeout_us -> offset, ref */
    SESSION_OP_SEAL = 4, /* with FLAG_LEASED: offset and sizes name bytes of a lease; else ref names
                            a created object */
    SESSION_OP_ABORT = 5, /* ref */
    SESSION_OP_GET = 6,   /* id, argument: timeout_us -> offset, sizes, ref, generation, pin */
    SESSION_OP_CANCEL =
        7, /* argument: the cookie of a waiting submission, which then ends NIGH_CANCELED */
    SESSION_OP_DELETE = 8,    /* id -> NIGH_OK, NIGH_IN_USE, NIGH_NOT_FOUND, NIGH_NOT_SEALED */
    SESSION_OP_EVICT = 9,     /* argument: bytes -> data_size: bytes freed */
    SESSION_OP_REFRESH = 10,  /* id */
    SESSION_OP_KEEP = 11,     /* id (nigh_pin) */
    SESSION_OP_UNKEEP = 12,   /* id */
    SESSION_OP_CHECKSUM = 13, /* id -> data_size: the CRC32C */
    SESSION_OP_STAT = 14,     /* id -> ref, generation, flags: state, data_size: holders,
                                 lease_offset: NIGH_USE_* (an older node: 0) */
    SESSION_OP_WHO =
        15, /* id -> reply area: session_holder records; data_size: how many there are */
    SESSION_OP_HOLDERS = 16,   /* -> reply area, largest first; data_size: how many; generation: the
                                  largest that could be had here now (0: an older node) */
    SESSION_OP_STATS = 17,     /* -> reply area: the numbers of nigh_node_stats, of this lane;
                                  data_size:     their bytes */
    SESSION_OP_SUBSCRIBE = 18, /* argument: NIGH_SUBSCRIBE_* */
    SESSION_OP_UNSUBSCRIBE = 19,
    SESSION_OP_QUOTA = 20,    /* argument: bytes */
    SESSION_OP_CONTAINS = 21, /* id -> NIGH_OK, NIGH_NOT_SEALED, NIGH_NOT_FOUND */
    SESSION_OP_RESERVE =
        22, /* argument: bytes of write memory the session's uid wants to have; data_size: it has */
    SESSION_OP_NODES = 23, /* lane 0 -> reply area: session_node records; data_size: how many. With
                              SESSION_FLAG_NAMES session_name records, of those that have one */
    SESSION_OP_WHERE =
        24, /* id, argument: timeout_us, two seconds at most, and with 0 (an older
               node: in any case) -> data_size: how many nodes hold it (at most
               SESSION_PLACES are told); offset, generation: their ranks, a byte each, see
               session_place; lease_offset: the bytes of its data; ref: the rank of
               the node that answers, and one (an older node: 0, and no bytes) */
    SESSION_OP_CALL_LEASE = 25, /* as LEASE: of memory that calls lie in */
    SESSION_OP_CALL =
        26, /* id: the hash of the service's name in its first 8 bytes, see session_near for
               the others; meta_size: the rank;
               offset: of the request in leased memory, data_size: its bytes; ref: room for the
               reply at the same place; argument: timeout_us -> data_size: bytes of the reply.
               name_size: so many session_bulk lie at `offset`, and the request behind them */
    SESSION_OP_REPLY = 27, /* argument: the request's id; ref: a status; offset, data_size: of the
                              reply in leased memory -> NIGH_OK, NIGH_NOT_FOUND */
    SESSION_OP_SERVICE_OPEN = 28,  /* id: the hash of a name in its first 8 bytes, to its lane */
    SESSION_OP_SERVICE_CLOSE = 29, /* likewise */
    SESSION_OP_RECEIVE =
        30, /* id: see session_receive_id; offset: of a place of LIMIT_CALL_BYTES in leased memory;
               argument: timeout_us; with SESSION_FLAG_ANSWER data_size: bytes of a reply that lies
               there -> what session_received says */
    SESSION_OP_LINKS = 31, /* -> reply area: session_link records of the lane's links; data_size:
                              how many. With SESSION_FLAG_MEASURE they are measured anew, and
                              nothing is told; argument: those to one rank, SESSION_ALL_RANKS */
    SESSION_OP_REPLICATE = 32, /* id, ref: nodes that are to hold it; argument: timeout_us ->
                                  data_size: how many do, also of what failed */
    SESSION_OP_BULK = 33, /* argument: a request's id; meta_size: the number of its memory, ref: the
                             offset there; id: in its first 8 bytes the number of this session's
                             memory, offset: there; data_size: bytes, to here, with
                             SESSION_FLAG_PUSH from here */
    SESSION_OP_COLLECT =
        34, /* id: the hash of the service's name in its first 8 bytes; offset: of a session_collect
               in leased memory, and the request behind it, whose bytes data_size says; ref: room
               for what replies are reduced to; argument: timeout_us -> at the same place, data_size
               bytes: a session_collected and that value; generation: the group's version */
    SESSION_OP_BULK_MAKE =
        35, /* lane 0; data_size: bytes of memory that calls may bring, meta_size:
               SESSION_MEMORY_* -> generation: its number, with which SESSION_BULK_ASK gets it.
               Came later, with the next: a node that does not know them says NIGH_UNSUPPORTED */
    SESSION_OP_BULK_WAIT = 36, /* id: in its first 8 bytes the number of such memory; argument:
                                  timeout_us -> NIGH_OK: nobody touches it now; NIGH_TIMEOUT;
                                  NIGH_NOT_FOUND. With SESSION_FLAG_END, in lane 0, it goes then */
    SESSION_OP_LEAVE =
        37, /* argument: NIGH_LEAVE_* -> reply area: a session_leaving of this lane. Came later */
    SESSION_OP_FORGET = 38, /* lane 0; argument: a rank, to be struck off -> data_size: 1: that is
                               decided, or refused; 0: ask again. Came later */
    SESSION_OP_REGION = 39, /* lane 0; name_size: what, as session_region_what says; id: a
                               session_region_id; offset: of a place of LIMIT_CALL_BYTES in leased
                               memory, where data_size bytes of the question lie, and those of the
                               answer come; argument: timeout_us -> data_size: bytes of the answer,
                               offset: of the place. Came later */
    SESSION_OP_SPACE = 40, /* the same of spaces: name_size: what, as session_space_what says; id: a
                              session_space_id. Came later */
    SESSION_OP_SHOW = 41,  /* argument: SESSION_SHOW_*, ref: where to go on, 0 at first -> reply
                              area: records of it; data_size: how many; generation: where to go on,
                              0: nowhere; lease_offset: see session_show.h. For root and the uid of
                              the node. Came later */
    SESSION_OPS = 42
};

/* Bits of session_sqe.flags. */
#define SESSION_FLAG_LEASED    1u /* SEAL: from a lease: create and seal in one */
#define SESSION_FLAG_EXCLUSIVE 2u /* CREATE: claim the id now */
#define SESSION_FLAG_NO_EVICT  4u /* CREATE, LEASE, SEAL: make no room */
#define SESSION_FLAG_RENEW \
    8u /* SEAL: also grant a lease if there is room for one: session_renew_argument */
#define SESSION_FLAG_NO_COPY                                                                   \
    16u /* GET: what has to come from another node goes with its last view. Came later: a node \
           that does not know it says NIGH_INVALID */

#define SESSION_FLAG_INTO   1u /* REGION: the bytes are a session_bulk's */
#define SESSION_FLAG_WRITES 1u /* REGION, of MAP: to write it, too */
#define SESSION_FLAG_PUSH   1u /* BULK: from here to the caller's memory */
#define SESSION_FLAG_END    1u /* BULK_WAIT: and it goes */

#define SESSION_FLAG_IDEMPOTENT 1u /* CALL: may be carried out twice */
#define SESSION_FLAG_URGENT     2u /* CALL: goes before others */

#define SESSION_FLAG_ONE_WAY 32u  /* CALL: wants no reply */
#define SESSION_FLAG_ANSWER  64u  /* RECEIVE: answers a request first */
#define SESSION_FLAG_MEASURE 128u /* LINKS: measures */
#define SESSION_FLAG_NAMES                                                                        \
    1u /* NODES: what they are called. Came later: a node that does not know it says NIGH_INVALID \
        */

/* Bits of session_cqe.flags of what failed. */
#define SESSION_CQE_INDEX_FULL 1u /* NIGH_LIMIT: the limit is the pool's index in this lane */
#define SESSION_CQE_UNTAKEN    2u /* CALL: no service can have carried it out */
#define SESSION_CQE_OPENED \
    8u /* REGION, SPACE, that went well: generation is a handle, or a space, that it opened */
#define SESSION_CQE_MAPPED \
    16u /* REGION, SPACE, that went well: generation is a map, or a window, that it made */
#define SESSION_CQE_ANSWERED 4u /* CALL, not only failed ones: the status is the service's own */

/*
 * The argument of a SEAL is its timeout in microseconds (a strict pool copies at seal, and may wait
 * for memory). With SESSION_FLAG_RENEW it is both: the bytes wanted below, the timeout in
 * milliseconds, rounded up, above.
 */
static inline uint64_t session_renew_argument(uint64_t lease_bytes, uint64_t timeout_us)
{
    uint64_t timeout_ms = timeout_us / 1000 + (timeout_us % 1000 != 0);

    lease_bytes = lease_bytes < UINT32_MAX ? lease_bytes : UINT32_MAX;
    timeout_ms = timeout_ms < UINT32_MAX ? timeout_ms : UINT32_MAX;
    return timeout_ms << 32 | lease_bytes;
}

static inline uint64_t session_renew_bytes(uint64_t argument)
{
    return argument & UINT32_MAX;
}

/* UINT64_MAX: without end. */
static inline uint64_t session_renew_timeout_us(uint64_t argument)
{
    return argument >> 32 == UINT32_MAX ? UINT64_MAX : (argument >> 32) * 1000;
}

/* A submission. One cache line; the client writes it, the lane copies it out. */
struct session_sqe {
    uint8_t op;
    uint8_t flags;
    uint16_t name_size;
    uint32_t cookie; /* the client's; comes back in the completion */
    uint8_t id[LIMIT_ID_BYTES];
    uint32_t meta_size;
    uint64_t offset; /* SEAL: of leased bytes */
    uint64_t data_size;
    uint64_t argument;
    uint64_t ref; /* SEAL, ABORT: entry of a created object; SEAL with FLAG_LEASED: nanoseconds
                     since create */
};

_Static_assert(sizeof(struct session_sqe) == 64, "a submission is one cache line");

#define SESSION_NO_PIN UINT32_MAX

/* A completion. One cache line; the lane writes it. Every submission has exactly one. */
struct session_cqe {
    uint32_t cookie;
    int32_t status;
    uint64_t offset;
    uint64_t data_size;
    uint32_t meta_size;
    uint16_t name_size;
    uint16_t flags;
    uint32_t ref; /* entry number */
    uint32_t pin; /* GET: the lane pin that holds the object, else SESSION_NO_PIN */
    uint64_t generation;
    uint64_t lease_offset;
    uint64_t lease_bytes; /* 0: no lease came with it */
};

_Static_assert(sizeof(struct session_cqe) == 64, "a completion is one cache line");

/* A subscription event. kind in the low 8 bits, metadata size in the 24 above. */
struct session_event {
    uint8_t id[LIMIT_ID_BYTES];
    uint32_t kind_meta;
    uint64_t data_size;
};

_Static_assert(sizeof(struct session_event) == 32, "an event is shared");

/* What the completion of a RECEIVE says; data_size: the request's bytes, at the place. */
static inline void session_set_received(struct session_cqe *cqe, uint64_t request, uint32_t rank,
                                        uint32_t uid, uint64_t left_us, uint32_t bulks)
{
    cqe->name_size = (uint16_t)bulks; /* so many session_bulk_info are the first of the bytes */
    cqe->generation = request;        /* 0: one-way */
    cqe->ref = rank;
    cqe->meta_size = uid;
    cqe->offset = left_us; /* of the caller's deadline; UINT64_MAX: none */
}

#define SESSION_PLACES 16u /* most that one answer to WHERE names */

_Static_assert(LIMIT_NODES <= 256, "a rank is a byte");

/* The n-th rank of an answer to WHERE. */
static inline uint32_t session_place(const struct session_cqe *cqe, uint32_t n)
{
    return (uint32_t)((n < 8 ? cqe->offset : cqe->generation) >> n % 8 * 8) & 0xff;
}

static inline void session_set_place(struct session_cqe *cqe, uint32_t n, uint32_t rank)
{
    uint64_t *word = n < 8 ? &cqe->offset : &cqe->generation;

    *word |= (uint64_t)(rank & 0xff) << n % 8 * 8;
}

/* ---- the session's memory ------------------------------------------------- */

/* An index alone on its cache line: `value` counts up for ever (mod 2^32). */
struct session_index {
    _Atomic uint32_t value;
    uint32_t reserved[15];
};

/* First page. */
struct session_front {
    uint32_t magic;
    uint32_t lanes;
    uint64_t session;
    _Atomic int32_t ended; /* node: not 0 (a status) when the session is over for good: its pins no
                              longer count, so no get without IPC may succeed any more */
    uint8_t reserved0[4];
    /* Node: the most bytes that any one object may have. For the client, which asks for a larger
     * one instead of cutting it from a lease; the node reads neither. 0: no bound, or an older
     * node. */
    _Atomic uint64_t session_quota_bytes; /* the most that a session's quota may be */
    _Atomic uint64_t pool_quota_bytes;    /* a lane's share of the pool's */
    uint8_t reserved4[24];
    _Atomic uint32_t chunks_used; /* client: pin chunks ever used; the lane scans no further */
    uint32_t reserved1[15];
    _Atomic uint32_t waiting; /* client: threads that sleep, or are about to, on `wake` */
    _Atomic uint32_t
        poke_wanted; /* client: 1 asks for one SESSION_POKE at the next completion or event */
    uint32_t reserved2[14];
    _Atomic uint32_t wake; /* the futex: whoever makes progress while `waiting` is not 0 counts it
                              up and wakes all */
    uint32_t reserved3[15];
    _Atomic uint32_t pair_news; /* node: counts up when it has sent a SESSION_PAIR, or ended one */
    _Atomic uint32_t takes_pairs; /* client: 1: it serves, and knows what SESSION_PAIR is */
    uint32_t reserved5[14];
    _Atomic uint32_t pair_ended[LIMIT_SESSION_PAIRS]; /* node: the serial of what ended last at
                                                         each place */
};

_Static_assert(sizeof(struct session_front) <= SESSION_PAGE, "the front is one page");

/* What one lane and the client share. `ready` stands in a page of its own at a line that depends on
 * the session's slot. */
struct session_lane {
    uint8_t ready_page[SESSION_PAGE]; /* client: session_ready() */
    struct session_index sq_tail;     /* client */
    struct session_index sq_head;     /* lane */
    struct session_index cq_tail;     /* lane */
    struct session_index cq_head;     /* client */
    struct session_index event_tail;  /* lane */
    struct session_index event_head;  /* client */
    struct session_index events_lost; /* lane: ever */
    uint8_t reserved[SESSION_PAGE - 7 * 64];
    struct session_sqe sq[LIMIT_RING_ENTRIES];
    struct session_cqe cq[LIMIT_RING_ENTRIES];
    struct session_event events[LIMIT_EVENT_ENTRIES];
    uint8_t reply[LIMIT_REPLY_BYTES];
    _Atomic uint64_t pin_entry[LIMIT_LANE_PINS];      /* lane sets (from 0), client clears */
    _Atomic uint64_t pin_generation[LIMIT_LANE_PINS]; /* lane */
};

_Static_assert(sizeof(struct session_lane) % SESSION_PAGE == 0, "lanes start on pages");

#define SESSION_CHUNKS_BYTES \
    ((sizeof(struct pin_chunk) * LIMIT_PIN_CHUNKS + SESSION_PAGE - 1) / SESSION_PAGE * SESSION_PAGE)

/* What a welcome says: front page, then each lane, then the pin chunks. */
static inline uint64_t session_memory_bytes(uint32_t lanes)
{
    return SESSION_PAGE + (uint64_t)lanes * sizeof(struct session_lane) + SESSION_CHUNKS_BYTES;
}

/*
 * Behind that, of each lane: places of LIMIT_CALL_BYTES in which the bytes of calls and of
 * questions about regions lie, which a session has whatever others do, with their pages, as all of
 * its memory. They came later: they are there where the welcome says SESSION_HAS_PLACES, which does
 * not count them in session_bytes.
 */
#define SESSION_PLACES_BYTES ((uint64_t)LIMIT_OWN_PLACES * LIMIT_CALL_BYTES)

_Static_assert(SESSION_PLACES_BYTES % SESSION_PAGE == 0, "places of lanes start on pages");

/* In an offset of a CALL, REPLY, RECEIVE, COLLECT, REGION or SPACE: it is one in these places of
 * the lane, else in leased memory. */
#define SESSION_OWN_PLACE (UINT64_C(1) << 63)

/* The whole file. */
static inline uint64_t session_file_bytes(uint32_t lanes)
{
    return session_memory_bytes(lanes) + (uint64_t)lanes * SESSION_PLACES_BYTES;
}

static inline struct session_front *session_front_of(void *memory)
{
    return (struct session_front *)memory;
}

static inline struct session_lane *session_lane_of(void *memory, uint32_t lane)
{
    return (struct session_lane *)((uint8_t *)memory + SESSION_PAGE) + lane;
}

static inline struct pin_chunk *session_chunks_of(void *memory, uint32_t lanes)
{
    return (struct pin_chunk *)(void *)((uint8_t *)memory + SESSION_PAGE +
                                        (size_t)lanes * sizeof(struct session_lane));
}

static inline uint8_t *session_places_of(void *memory, uint32_t lanes, uint32_t lane)
{
    return (uint8_t *)memory + session_memory_bytes(lanes) + lane * SESSION_PLACES_BYTES;
}

/* Bytes of a lane's own places; NULL: not all of them are there. */
static inline uint8_t *session_place_at(uint8_t *places, uint64_t offset, uint64_t bytes)
{
    uint64_t at = offset & ~SESSION_OWN_PLACE;

    return (offset & SESSION_OWN_PLACE) != 0 && bytes <= SESSION_PLACES_BYTES &&
                   at <= SESSION_PLACES_BYTES - bytes
               ? places + at
               : NULL;
}

/* The ready word: the client sets it to 1 after submitting; the lane clears it before it looks at
 * the ring. */
static inline _Atomic uint32_t *session_ready(struct session_lane *lane, uint32_t slot)
{
    return (_Atomic uint32_t *)(void *)&lane->ready_page[(size_t)(slot % (SESSION_PAGE / 64)) * 64];
}

/*
 * Entries between a head and a tail that the other side may have forged: UINT32_MAX when they
 * cannot be (a protocol breach), else 0 .. capacity.
 */
static inline uint32_t session_ring_used(uint32_t tail, uint32_t head, uint32_t capacity)
{
    uint32_t used = tail - head;

    return used <= capacity ? used : UINT32_MAX;
}

#endif
