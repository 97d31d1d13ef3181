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
 */
#ifndef MEMORY_SESSION_H
#define MEMORY_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "memory/pin.h"
#include "memory/shared.h"

#define SESSION_MAGIC       UINT32_C(0x4847494e) /* "NIGH", little endian */
#define SESSION_VERSION_MIN 1u
#define SESSION_VERSION_MAX 2u
#define SESSION_VERSION_OVERLOADED \
    2u /* the first whose clients know NIGH_OVERLOADED; others are told NIGH_BUSY */
#define SESSION_PAGE 4096u

/* ---- messages on the socket ----------------------------------------------- */

enum session_message_kind {
    SESSION_HELLO = 1,   /* client: open or resume a session */
    SESSION_WELCOME = 2, /* node: it is open (with descriptors), or refused (with a sentence) */
    SESSION_EXTENT = 3,  /* client: I need this extent */
    SESSION_GRANT = 4,   /* node: here it is (one descriptor), or a status */
    SESSION_POKE = 5,    /* node: look at your rings; carries nothing */
    SESSION_BYE =
        6,                 /* node: the session has ended; a session_welcome says why; end of file
                             follows.       Client: the header alone: it has ended; without, it may come back */
    SESSION_PAIR_ASK = 7,  /* client: I call this service; sent to a node that SESSION_HAS_PAIRS */
    SESSION_PAIR = 8,      /* node: a pair (two descriptors), to who calls and to who serves; or to
                              who asked, a status */
    SESSION_PAIR_DROP = 9, /* client: this pair has ended here, and nothing of it is mapped */
    SESSION_BULK_ASK = 10, /* client: I need this memory, which was made for my calls */
    SESSION_BULK = 11,     /* node: here it is (one descriptor), or a status */
    SESSION_MAP_ASK = 12,  /* client: I need the memory of this map (SESSION_REGION_MAP) */
    SESSION_MAP = 13,      /* node: here it is (one descriptor), or a status */
    SESSION_DONATE = 14, /* client: this memory (one descriptor) is to be a region's; sent to a node
                            that SESSION_HAS_DONATIONS */
    SESSION_DONATED = 15,     /* node: by this number (SESSION_REGION_DONATED), or a status */
    SESSION_DONATE_DROP = 16, /* client: nobody will ask for what has this number; sent to a node
                                 that SESSION_DROPS_DONATIONS */
};

struct session_message_header {
    uint32_t magic;
    uint16_t kind;
    uint16_t reserved;
};

#define SESSION_HELLO_READ_ONLY 1u
#define SESSION_HELLO_RESUME    2u
#define SESSION_HELLO_LOW       4u /* of regions. Came later: refused by a node without it */

struct session_hello {
    struct session_message_header header;
    uint16_t version_min;
    uint16_t version_max;
    uint32_t flags;
    uint64_t quota_bytes;                   /* 0: the node's default */
    uint64_t session;                       /* to resume */
    uint8_t token[16];                      /* to resume: what the welcome gave */
    char pool[LIMIT_POOL_NAME_BYTES + 1];   /* terminated; "" is the caller's own */
    char name[LIMIT_CLIENT_NAME_BYTES + 1]; /* terminated */
};

_Static_assert(sizeof(struct session_hello) == 112, "hello is on the wire");

/*
 * Descriptors that come with a welcome, in this order: the node page (read-only), the session's
 * memory (writable), then for each lane its index of the pool (read-only) and the session's
 * doorbell for it (an eventfd).
 */
#define SESSION_WELCOME_FDS(lanes) (2u + 2u * (lanes))

/* Bits of session_welcome.rights. */
#define SESSION_MAY_WRITE       1u
#define SESSION_HAS_PAIRS       2u /* the node makes pairs. Came later */
#define SESSION_HAS_DONATIONS   4u /* and takes memory that is donated. Came later still */
#define SESSION_DROPS_DONATIONS 8u /* and lets go of it again when it is told to. After that */

struct session_welcome {
    struct session_message_header header;
    int32_t status;
    uint16_t version;
    uint16_t rights;
    uint32_t lanes;
    uint32_t slot; /* of the session in the node: colours its ready words */
    uint64_t session;
    uint8_t token[16];
    uint64_t extent_bytes;
    uint64_t arena_bytes;   /* LIMIT_EXTENTS * extent_bytes: what a client reserves to map extents
                               side by side */
    uint64_t session_bytes; /* of the session's memory */
    uint32_t spin_us;
    uint32_t incarnation;
    char pool[LIMIT_POOL_NAME_BYTES + 1];
    char sentence[192]; /* why it was refused, with a remedy */
};

_Static_assert(sizeof(struct session_welcome) <= LIMIT_SESSION_MESSAGE_BYTES,
               "a message is bounded");

struct session_extent {
    struct session_message_header header;
    uint32_t extent;
    uint32_t writable;
};

struct session_grant {
    struct session_message_header header;
    int32_t status;
    uint32_t extent;
};

/* BULK_ASK, where `status` is 0, and BULK: memory by number (SESSION_OP_BULK_MAKE); MAP_ASK and MAP
 * likewise. */
struct session_bulk_file {
    struct session_message_header header;
    int32_t status;
    uint32_t reserved;
    uint64_t number;
};

_Static_assert(sizeof(struct session_bulk_file) == 24, "it is on the wire");

/* DONATE, where `status` is 0: so many bytes of a memory file, which comes with it; DONATED: the
 * number by which a region is made of it, `serial` as it was said. DONATE_DROP: the number alone.
 */
struct session_donation {
    struct session_message_header header;
    int32_t status;
    uint32_t serial;
    uint64_t bytes;  /* DONATED, DONATE_DROP: 0 */
    uint64_t number; /* DONATE: 0 */
};

_Static_assert(sizeof(struct session_donation) == 32, "it is on the wire");

/* PAIR_ASK: the service, and the node that served it; PAIR_DROP: place and serial. */
struct session_pair_ask {
    struct session_message_header header;
    uint64_t hash;
    uint32_t rank;
    uint32_t place;
    uint32_t serial;
    uint32_t reserved;
};

_Static_assert(sizeof(struct session_pair_ask) == 32, "a question for a pair is on the wire");

#define SESSION_PAIR_SERVES 1u /* bit of session_pair.flags: the reader of the requests */

/* Its descriptors: the pair's memory (writable), and this side's end of the bell (a socket). */
struct session_pair {
    struct session_message_header header;
    int32_t status;
    uint32_t flags;
    uint64_t hash;
    uint32_t place;  /* in this session: of its word in session_front.pair_ended */
    uint32_t serial; /* never 0, nor used again by this node */
    uint32_t uid;    /* of the other process */
    uint32_t rank;   /* of this node */
};

_Static_assert(sizeof(struct session_pair) == 40, "a pair is on the wire");

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
    uint8_t reserved[36];
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
    SESSION_OPS = 40
};

/* What is asked of a region: -> what the answer is. */
enum session_region_what {
    SESSION_REGION_CREATE = 1, /* a session_region_make, its ranks, and the name */
    SESSION_REGION_OPEN,       /* the name; id.offset: the rights, and SESSION_REGION_LOW ->
                                  generation: its number */
    SESSION_REGION_CLOSE,
    SESSION_REGION_READ,  /* ref: bytes -> these. With SESSION_FLAG_INTO a session_bulk, that they
                             go to */
    SESSION_REGION_WRITE, /* the bytes; with SESSION_FLAG_INTO a session_bulk that they come from */
    SESSION_REGION_ADD,   /* ref: what is added -> generation: what was there */
    SESSION_REGION_SWAP,  /* ref: the new word; the question: the old one -> likewise */
    SESSION_REGION_GRANT, /* a session_region_grant */
    SESSION_REGION_RESIZE, /* a session_region_make */
    SESSION_REGION_MOVE,   /* id.offset: a chunk; ref: the rank that it goes to */
    SESSION_REGION_FREE,
    SESSION_REGION_STAT, /* -> a session_region_stat */
    SESSION_REGION_LOCK, /* a session_region_lock -> generation: the number of a handle that is good
                            as long as the lock is held. CLOSE of it lets go */
    SESSION_REGION_BARRIER, /* id.offset: its number; ref: how many are to arrive, to UINT32_MAX */
    SESSION_REGION_FILL,    /* ref: how many bytes; the question: the one byte that they become */
    SESSION_REGION_COPY,    /* ref: how many bytes; the question: a session_region_source */
    SESSION_REGION_MAP,     /* ref: how many bytes, of one chunk; with SESSION_FLAG_WRITES to write
                               them, too -> generation: the map's number, with which
                               SESSION_MAP_ASK gets the memory of the whole chunk */
    SESSION_REGION_UNMAP,   /* id.number: a map's. NIGH_STALE: it was of another memory than the
                               chunk's; it has ended all the same */
    SESSION_REGION_LIST,    /* the name behind which, of no length: all -> a session_region_page */
    SESSION_REGION_WHATS
};

struct session_region_id {
    uint64_t number; /* of the session's handle */
    uint64_t offset; /* in the region */
    uint32_t zero;
    uint32_t unsaid; /* not sent */
};

_Static_assert(offsetof(struct session_region_id, unsaid) == LIMIT_ID_BYTES, "it fits an id");

#define SESSION_REGION_LOW 8u /* beside the rights of OPEN: of low priority. Came later */

#define SESSION_REGION_LOCAL  0u /* where new chunks go */
#define SESSION_REGION_ON     1u
#define SESSION_REGION_SPREAD 2u
#define SESSION_REGION_AT \
    3u /* CREATE: `rank` says of how many chunks, in turn, a rank of 16 bits lies behind this */

/* A bit beside that: clients may map the chunks. Came later. */
#define SESSION_REGION_MAPPABLE 65536u
/* Others, of CREATE at the node itself: `chunk_bytes` is the number of what was donated
 * (SESSION_DONATED), of this size; or, of a session of the node's own process, an address there. It
 * is the region's one chunk. Came later, with SESSION_HAS_DONATIONS. */
#define SESSION_REGION_DONATED 131072u
#define SESSION_REGION_OWN     262144u

struct session_region_make {
    uint64_t size_bytes;
    uint64_t chunk_bytes;                /* 0: as the node has it. Of RESIZE 0 */
    uint32_t where, rank;                /* of CREATE with these bits, or without */
    uint32_t group_rights, other_rights; /* of RESIZE 0 */
};

struct session_region_grant {
    uint32_t whose; /* 0: of a user, 1: of the group, 2: of all others */
    uint32_t user, give, take;
};

#define SESSION_REGION_SHARED    1u /* beside others that have it so */
#define SESSION_REGION_EXCLUSIVE 2u

struct session_region_lock {
    uint64_t number;  /* of the region's locks */
    uint64_t term_us; /* so long it is held at least, when others wait; 0: until it is let go */
    uint32_t mode, zero;
};

struct session_region_source {
    uint64_t number; /* of a handle of the same session */
    uint64_t offset;
};

struct session_region_stat {
    uint64_t size_bytes, chunk_bytes;
    uint32_t chunk_count;
    uint32_t uid, gid;
    uint32_t group_rights, other_rights;
    uint32_t user_count;
    struct {
        uint32_t uid, rights;
    } users[LIMIT_REGION_GRANTS];
    uint32_t ranks[LIMIT_REGION_CHUNKS]; /* UINT32_MAX: it is lost */
    uint32_t flags;                      /* SESSION_REGION_MAPPABLE, SESSION_REGION_DONATED */
    uint32_t zero;
};

/* One of a page; behind it `user_count` of session_region_user, `chunk_count` ranks of 16 bits
 * (SESSION_REGION_LOST), and the name; then zeros, up to a multiple of 8 bytes. */
struct session_region_entry {
    uint32_t bytes; /* with all of that */
    uint32_t home;  /* the rank of the node that keeps what is known of it */
    uint64_t size_bytes, chunk_bytes;
    uint32_t uid, gid;
    uint8_t rights; /* of who asks */
    uint8_t group_rights, other_rights;
    uint8_t name_bytes;
    uint16_t chunk_count;
    uint8_t user_count;
    uint8_t flags; /* SESSION_ENTRY_* */
};

#define SESSION_ENTRY_MAPPABLE 1u
#define SESSION_ENTRY_DONATED  2u

#define SESSION_REGION_LOST UINT16_MAX /* of _AT: the node that is asked */

struct session_region_user {
    uint32_t uid, rights;
};

/* What LIST is answered with, whole: regions in the order of their names' bytes. */
struct session_region_page {
    uint32_t count;
    uint32_t bytes;  /* of the entries */
    uint32_t silent; /* members that were asked, and have not told all: it is in part */
    uint32_t more;   /* 1: there are others behind the last one */
    _Alignas(uint64_t) uint8_t entries[LIMIT_CALL_BYTES - 16];
};

_Static_assert(sizeof(struct session_region_make) == 32 &&
                   sizeof(struct session_region_grant) == 16 &&
                   sizeof(struct session_region_lock) == 24 &&
                   sizeof(struct session_region_stat) ==
                       48 + 8 * LIMIT_REGION_GRANTS + 4 * LIMIT_REGION_CHUNKS &&
                   sizeof(struct session_region_stat) <= LIMIT_CALL_BYTES &&
                   sizeof(struct session_region_entry) == 40 &&
                   sizeof(struct session_region_page) == LIMIT_CALL_BYTES,
               "they lie in places");

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
#define SESSION_CQE_OPENED     8u /* REGION, that went well: generation is a handle that it opened */
#define SESSION_CQE_MAPPED     16u /* REGION, that went well: generation is a map that it made */
#define SESSION_CQE_ANSWERED   4u  /* CALL, not only failed ones: the status is the service's own */

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

/* LEAVE: what a lane says; pairs are objects and bytes. */
#define SESSION_LEAVE_WHYS 6u

struct session_leaving {
    uint32_t leaves;
    uint32_t looks;
    uint64_t waiting[2];
    uint64_t safe[2];
    uint64_t stuck[2];
    uint64_t alone[2];
    uint64_t why[SESSION_LEAVE_WHYS]; /* by NIGH_LEAVE_* of nigh_leave_why */
    uint64_t unsealed;
};

_Static_assert(sizeof(struct session_leaving) == 128, "an answer is shared");

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

/* What the id of a RECEIVE is made of. */
struct session_receive_id {
    uint64_t hash;    /* of the service's name */
    uint64_t request; /* with SESSION_FLAG_ANSWER: whose answer it is, and its status */
    int32_t status;
    uint32_t unsaid; /* not sent */
};

_Static_assert(offsetof(struct session_receive_id, unsaid) == LIMIT_ID_BYTES, "it fits an id");

/* Memory that a call brings: of its session's, which the node knows by number. */
struct session_bulk {
    uint64_t number;
    uint64_t offset;
    uint64_t bytes;
    uint32_t access; /* SESSION_MEMORY_* */
    uint32_t reserved;
};

#define SESSION_MEMORY_READ  1u
#define SESSION_MEMORY_WRITE 2u

/* What a request says of it, in front of its bytes. */
struct session_bulk_info {
    uint64_t bytes;
    uint32_t access;
    uint32_t reserved;
};

_Static_assert(sizeof(struct session_bulk) == 32 && sizeof(struct session_bulk_info) == 16,
               "they lie beside requests");

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

/* One record of WHO and HOLDERS. */
struct session_holder {
    uint64_t session;
    int32_t pid;
    uint32_t uid;
    uint64_t views;
    uint64_t size_bytes;
    char name[LIMIT_CLIENT_NAME_BYTES + 1];
};

_Static_assert(sizeof(struct session_holder) == 64, "a holder record is shared");

/* One record of NODES. */
struct session_node {
    uint32_t rank;
    uint8_t state;   /* nigh_node_state */
    uint8_t life;    /* nigh_node_life; above it nigh_node_view; SESSION_NODE_LEAVES. Came later, of
                        state; the last of them later still: an older client knows no view then */
    int16_t refused; /* nigh_status. Came later: an older node says 0 here */
    uint32_t incarnation;
    uint32_t is_self;
    char address[79];
    uint8_t votes; /* 1: on views. Came later: of older nodes it is the end of the address, 0 */
};

#define SESSION_NODE_LIFE   0x0fu /* bits of `life` that are the life */
#define SESSION_NODE_VIEW   4     /* bits of `life` below the view */
#define SESSION_NODE_LEAVES 0x80u /* of `life`: it leaves */

_Static_assert(sizeof(struct session_node) == 96, "a node's record is shared");
_Static_assert(sizeof(struct session_node) * LIMIT_NODES <= LIMIT_REPLY_BYTES,
               "the reply area holds all nodes");

/* One record of NODES with SESSION_FLAG_NAMES. */
struct session_name {
    uint32_t rank;
    int32_t refused; /* nigh_status: NIGH_EXISTS: the name that it wants is another's; no name */
    char name[32];
};

_Static_assert(sizeof(struct session_name) == 40, "a node's name is shared");

/* One record of LINKS. */
struct session_link {
    uint32_t rank;
    uint32_t rail;
    uint64_t crossover_bytes; /* as nigh_link_info has it */
    uint32_t measured;
    uint32_t to_measure;
};

_Static_assert(sizeof(struct session_link) == 24, "a link's record is shared");

#define SESSION_ALL_RANKS UINT64_MAX
/* Of the same link as the record of that number: they stand behind the last of those where the
 * answer's meta_size is the size of one. An older node's is 0. */
struct session_link_calls {
    uint32_t way; /* as nigh_link_info has it */
    uint32_t sent_us;
    uint32_t written_us;
    uint32_t zero;
};

_Static_assert(sizeof(struct session_link_calls) == 16, "a link's record is shared");

#define SESSION_LINKS    \
    (LIMIT_REPLY_BYTES / \
     (uint32_t)(sizeof(struct session_link) + sizeof(struct session_link_calls))) /* most told */

/* Behind the hash in the id of a CALL of any server: the nodes that are asked first, best first. A
 * rank is a byte. An older node does not look. */
struct session_near {
    uint64_t hash; /* of the service's name */
    uint8_t count;
    uint8_t ranks[11];
    uint32_t unsaid; /* not sent */
};

#define SESSION_NEAR 11u

/* In front of the request of a COLLECT. */
struct session_collect {
    uint64_t version;                 /* of the group that `ranks` are of; 0: the present one */
    uint64_t ranks[LIMIT_NODES / 64]; /* a bit each */
    uint8_t all;                      /* 1: of the group; `ranks` are none */
    uint8_t fan;
    uint8_t reduce; /* NIGH_REDUCE_* */
    uint8_t reserved[5];
};

/* And what is answered, in front of the value: as the nodes tell each other. */
struct session_collected {
    uint32_t answered, failed, unknown, unasked;
    uint32_t value_bytes;
    uint32_t errors;
    struct {
        uint32_t rank;
        int32_t status;
        uint32_t count;
        uint32_t taken;
    } first[LIMIT_COLLECT_ERRORS];
};

_Static_assert(sizeof(struct session_collect) == 48 && sizeof(struct session_collected) == 152,
               "they lie beside requests");

_Static_assert(offsetof(struct session_near, unsaid) == LIMIT_ID_BYTES, "it fits an id");

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

/* The whole: front page, then each lane, then the pin chunks. */
static inline uint64_t session_memory_bytes(uint32_t lanes)
{
    return SESSION_PAGE + (uint64_t)lanes * sizeof(struct session_lane) + SESSION_CHUNKS_BYTES;
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

/* ---- how an embedded node attaches clients of its own process ------------- */

/* A request as the handler of an embedded node sees it. */
struct session_request {
    uint64_t id; /* 0: one-way */
    const void *bytes;
    uint32_t count;
    uint32_t lane;
    uint32_t rank;    /* of the caller's node */
    uint32_t uid;     /* of the caller's process */
    uint64_t left_us; /* of its deadline; UINT64_MAX: none */
    uint32_t bulks;   /* so many session_bulk_info are the first of the bytes */
};

/* Memory of the process that calls may bring, and that services may move bytes to and from. */
struct session_memory {
    uint8_t *address;
    uint64_t bytes;
    uint64_t session; /* whose it is */
    uint32_t access;  /* SESSION_MEMORY_*: what others may do, by that process's word */
};

struct session_service {
    uint64_t hash; /* of its name */
    uint32_t slot; /* of the session that answers later */
    void (*handler)(void *context, const struct session_request *request);
    void *context;
};

/* Lets a waiting thread drive a lane: runs a bounded turn unless another thread is at it. True if
 * it ran. `stays`: it means to come again at once, and need not be replaced meanwhile. */
struct session_driver {
    void *context;
    bool (*drive)(void *context, uint32_t lane, uint64_t now_us, bool stays);
    /* A thread that drove the lane wants to sleep: the descriptor that other nodes' messages make
     * readable, which it watches until it calls `rise`; or one of the below. */
    int (*rest)(void *context, uint32_t lane, uint64_t now_us);
    uint64_t (*rise)(void *context, uint32_t lane); /* the time */
    /* A service of this process: its handler is called from the return on, by whoever drives a
     * lane, until unserve has returned. NIGH_EXISTS: its name is taken; NIGH_LIMIT. Not by a
     * handler. */
    int (*serve)(void *context, const struct session_service *service);
    void (*unserve)(void *context, const struct session_service *service);
    /* Answers a request from inside a handler; SESSION_REPLY_ELSEWHERE: this thread is in none of
     * the request's lane. */
    int (*reply)(void *context, uint32_t lane, uint64_t id, int status, const void *bytes,
                 uint32_t count);
    /* Memory of this process. NIGH_LIMIT. Removing waits until nobody touches it, at most so long
     * (NIGH_TIMEOUT: it stays); `force`: whoever does loses the link. Not by a handler. */
    int (*memory_add)(void *context, const struct session_memory *memory, uint64_t *number);
    int (*memory_remove)(void *context, uint64_t number, uint64_t timeout_us, bool force);
    int (*memory_wait)(void *context, uint64_t number, uint64_t timeout_us);
};

#define SESSION_REPLY_ELSEWHERE 1

#define SESSION_REST_LOOK_AGAIN (-1) /* there is something to do already */
#define SESSION_REST_ELSEWHERE  (-2) /* another thread has the lane, or there are no other nodes */

struct nigh_client;
struct nigh_client_options;

/*
 * Opens a client over a socket that is connected already (taken over, on failure closed). `driver`
 * may be NULL; it must outlive the client. Defined in client/, called by the embedded node.
 */
int session_attach(int socket_fd, const struct nigh_client_options *options,
                   const struct session_driver *driver, struct nigh_client **client);

#endif
