/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the simulated fabric share: its records, and who may call what of whom.
 *
 *   sim.c           the world: clock, nodes, links, faults
 *   sim_fabric.c    a lane's fabric: the provider's table, polling
 *   sim_memory.c    registrations
 *   sim_endpoint.c  connections: from the dial to the end
 *   sim_post.c      posts and receives, until they are on their way
 *   sim_stock.c     receives that endpoints share
 *   sim_act.c       what a post does at its target, and how that ends
 *   sim_queue.c     events in order, pools
 *
 * A connection is a `wire` with two ends. An end (struct fabric_endpoint) is its caller's until it
 * is destroyed; the wire lives until both ends are gone and no event names it. Nothing here decides
 * by an address: ids are counted.
 */
#ifndef FABRIC_SIM_SIM_INTERNAL_H
#define FABRIC_SIM_SIM_INTERNAL_H

#include "base/list.h"
#include "base/random.h"
#include "fabric/sim/sim.h"
#include "fabric/sim/sim_queue.h"

#define SIM_PPM           1000000u
#define SIM_PIECES        4u       /* most pieces that one post's bytes move in */
#define SIM_PIECE_STEP    8u       /* pieces begin at multiples of this, a word, at the target */
#define SIM_SMALL_BYTES   16384u   /* goes between the pieces of what is larger */
#define SIM_FACTOR_MOST   1000000u /* of a slow link */
#define SIM_INLINE_BYTES  LIMIT_FABRIC_INLINE
#define SIM_ADDRESS_FIRST (UINT64_C(1) << 40) /* where remote addresses begin */
#define SIM_ADDRESS_GAP   (UINT64_C(1) << 20) /* between registrations */

/* ---- the world ------------------------------------------------------------ */

struct sim_node {
    uint32_t number;
    bool paused;
    bool frozen; /* paused, and its memory is not served either */
    uint32_t message_us;
    uint32_t bytes_a_us;  /* of its own link, each way; 0: no limit */
    uint64_t out_free_ns; /* when that has sent all that it was given, */
    uint64_t in_free_ns;  /* and taken in */
    struct sim_fabric *fabrics[LIMIT_LANES];
    struct list links;       /* struct sim_node_link, in the order in which they were made */
    struct sim_link **peers; /* by the other node's number, of those not below this one's */
    uint32_t peer_count;
};

struct sim_node_link {
    struct list_node node;
    struct sim_link *link;
};

/* All that two nodes say to each other goes through one link (a node's to itself, too). */
struct sim_link {
    struct sim_node *nodes[2]; /* the lower number first */
    struct sim_node_link in_node[2];
    struct list wires;
    uint32_t factor;
    bool cut[2]; /* what the first node says, and the second: the other does not hear it */
};

struct sim {
    struct sim_options options;
    struct random random;      /* the run's own */
    struct random test_random; /* sim_random's: what a test draws does not depend on what we draw */
    struct sim_queue queue;
    struct sim_pool events, works, receives, wires, ends, notices, inlines;
    struct sim_node **nodes;
    uint32_t node_count;
    uint32_t fabric_count;
    uint64_t now_us;
    uint64_t digest;
    uint64_t carried_out;
    uint64_t next_id; /* of wires, ends, works */
};

struct sim_fabric {
    struct fabric fabric; /* first */
    struct sim *sim;
    struct sim_node *node;
    uint32_t lane;
    bool listening;
    bool crashed;
    struct list ends;
    uint32_t end_count;
    uint32_t half_open;
    struct list completions; /* struct sim_ending */
    struct list notices;     /* struct sim_notice */
    struct list stocks;      /* struct fabric_stock */
    uint32_t stock_count;
    struct fabric_memory **memories;
    uint32_t memory_slots; /* ever used */
    uint32_t memory_count;
    uint32_t *free_slots; /* a ring: the longest free is used first */
    uint32_t free_head;
    uint32_t generation;
    uint64_t next_address;
};

static inline struct sim_fabric *sim_fabric_of(struct fabric *fabric)
{
    return container_of(fabric, struct sim_fabric, fabric);
}

struct fabric_memory {
    struct sim_fabric *fabric;
    char *address;
    uint64_t bytes;
    uint64_t remote; /* the address by which peers name the first byte: the same in equal runs */
    uint32_t key;
    uint32_t rights;
    uint32_t uses; /* slices of posts and receives that have not ended */
};

struct fabric_stock {
    struct list_node node; /* in the fabric */
    struct sim_fabric *fabric;
    struct list receives; /* struct sim_receive: posted, and no message has come for them */
    uint32_t posted;      /* of them */
    uint32_t taken;       /* places in use, until polled */
    uint32_t depth;
    uint32_t users; /* endpoints */
};

/* ---- connections ---------------------------------------------------------- */

enum sim_end_state {
    SIM_DIALLING = 1,
    SIM_ASKED,    /* a request; not accepted yet */
    SIM_SAID_YES, /* accepted; the dialler's last word has not come */
    SIM_CONNECTED,
    SIM_FAILED, /* the caller must destroy it; what is late may still touch memory */
    SIM_CRASHED /* with its node: off the wire; the caller must destroy it */
};

struct fabric_endpoint {
    struct list_node node; /* in the fabric */
    struct sim_fabric *fabric;
    struct sim_wire *wire; /* NULL: crashed */
    uint8_t side;
    uint8_t state;
    bool half_open; /* a request that was not answered */
    bool is_loop;   /* its wire leads back to its fabric: fabric_loop */
    bool is_hidden; /* the other end of such a wire, which only answers: nobody's, in no list */
    uint64_t id;
    struct fabric_endpoint_options options;
    struct sim_event *handshake; /* its timers, or NULL */
    struct sim_event *silence;
    struct list posts;          /* struct sim_work, in order, until they completed */
    struct sim_work *unstarted; /* the first post not started, or NULL */
    struct list receives;       /* struct sim_receive */
    uint32_t posts_taken;       /* places in use, until polled */
    uint32_t receives_taken;
    uint32_t silent; /* posts that ended without a completion since the last one */
    uint32_t reads;  /* READs and atomics at work */
};

struct sim_wire {
    struct list_node node; /* in the link */
    struct sim *sim;
    struct sim_link *link;
    struct sim_node *nodes[2]; /* of the dialler [0] and the acceptor [1] */
    uint32_t lanes[2];
    struct fabric_endpoint *ends[2]; /* NULL: not there yet, or gone */
    struct list flight[2];           /* posts of each side that still act, as they started */
    uint64_t free_ns[2];             /* when each side has sent all that it was given */
    uint64_t arrival_us[2];          /* when the last ordered post of each side acts */
    struct list held;                /* events that a cut or a frozen node holds back, in order */
    uint64_t id;
    uint32_t events; /* that name this wire */
    bool broken;     /* it is known that both ends will fail */
    uint32_t private_bytes[2];
    uint8_t private_data[2][FABRIC_PRIVATE_BYTES];
};

/* What a poll returns, first in a work and in a receive. */
struct sim_ending {
    struct list_node node; /* in the end's list, then in the fabric's */
    struct fabric_endpoint *end;
    uint64_t tag;
    uint64_t bytes;
    nigh_status status;
    uint32_t released; /* places that its poll gives back */
    uint32_t imm;
    uint8_t op;
    bool has_imm;
};

struct sim_receive {
    struct sim_ending ending;
    struct fabric_slice slice;
    struct fabric_stock *stock; /* NULL: of its endpoint alone */
};

struct sim_work {
    struct sim_ending ending;
    struct list_node flight;
    struct sim_wire *wire;
    uint64_t id;
    struct fabric_remote remote;
    uint64_t operand, compare;
    uint32_t imm;  /* what the target is told, also when the post has ended long since */
    uint64_t old;  /* an atomic's result, until it lands */
    uint8_t *kept; /* its bytes, where they are not taken from (or given to) the slices */
    uint32_t events;
    uint8_t side;
    uint8_t flags;
    uint8_t slice_count;
    uint8_t pieces_left;
    bool owned; /* in a list of its end or fabric */
    bool started;
    bool acted;       /* all of it, at the target */
    bool has_written; /* some of it there */
    bool ended;       /* its status is final; it completes when all before it have */
    bool dead;        /* it does nothing any more */
    bool borrows;     /* the slices' memory */
    bool late_here;   /* may go on although its own end failed */
    bool late_there;  /* may go on although the target's end failed */
    struct fabric_slice slices[LIMIT_FABRIC_SLICES];
};

struct sim_notice {
    struct list_node node;
    struct fabric_endpoint *end;
    enum fabric_event_kind kind;
    nigh_status status;
};

static inline bool sim_is_read(const struct sim_work *work)
{
    return work->ending.op == FABRIC_READ || work->ending.op == FABRIC_FETCH_ADD ||
           work->ending.op == FABRIC_COMPARE_SWAP;
}

static inline bool sim_is_atomic(const struct sim_work *work)
{
    return work->ending.op == FABRIC_FETCH_ADD || work->ending.op == FABRIC_COMPARE_SWAP;
}

static inline bool sim_end_is_open(const struct fabric_endpoint *end)
{
    return end != NULL && (end->state == SIM_CONNECTED || end->state == SIM_SAID_YES);
}

static inline struct fabric_endpoint *sim_peer(const struct fabric_endpoint *end)
{
    return end->wire->ends[1 - end->side];
}

/* Nothing that a side says goes on: cut, or one of the nodes serves nothing. */
static inline bool sim_way_is_blocked(const struct sim_wire *wire, uint32_t from)
{
    return wire->link->cut[wire->nodes[from] == wire->link->nodes[0] ? 0 : 1] ||
           wire->nodes[0]->frozen || wire->nodes[1]->frozen;
}

/* ---- sim.c ---- */

/* Chance in parts of a million; none draws nothing. */
static inline bool sim_dice(struct sim *sim, uint32_t ppm)
{
    return ppm != 0 && random_below(&sim->random, SIM_PPM) < ppm;
}

/* One number into the digest. Never an address, never a tag (which may be one). */
void sim_fold(struct sim *sim, uint64_t value);

struct sim_node *sim_find_node(const struct sim *sim, uint32_t number);
nigh_status sim_make_node(struct sim *sim, uint32_t number, struct sim_node **node);
nigh_status sim_make_link(struct sim *sim, struct sim_node *a, struct sim_node *b,
                          struct sim_link **link);

/* One way over the wire, without its bytes. */
uint64_t sim_latency_us(struct sim_wire *wire);

/* When a message of `side` that is given to the link now has arrived. */
uint64_t sim_travel_us(struct sim_wire *wire, uint32_t side, uint64_t bytes);

struct sim_event *sim_schedule(struct sim_wire *wire, enum sim_event_kind kind, uint32_t side,
                               uint64_t time_us);
void sim_schedule_work(struct sim_work *work, enum sim_event_kind kind, uint64_t time_us,
                       uint64_t offset, uint64_t bytes);

/* Takes a timer back; *event is NULL afterwards, and may be before. */
void sim_cancel(struct sim *sim, struct sim_event **event);

/* What is over for an event that will not be carried out (any more). */
void sim_event_free(struct sim *sim, struct sim_event *event);

/* ---- sim_fabric.c ---- */

void sim_notify(struct fabric_endpoint *end, enum fabric_event_kind kind, nigh_status status);
void sim_complete(struct sim_ending *ending);

/* The fabric of a node that dies: its ends leave their wires, it gives nothing any more. */
void sim_fabric_crash(struct sim_fabric *fabric);

/* ---- sim_memory.c ---- */

nigh_status sim_memory_register(struct fabric *fabric, void *address, uint64_t bytes,
                                enum fabric_kind kind, uint32_t rights,
                                struct fabric_memory **memory);
struct fabric_remote sim_memory_remote(const struct fabric_memory *memory, const void *address);
void sim_memory_deregister(struct fabric *fabric, struct fabric_memory *memory);
void sim_memory_fini(struct sim_fabric *fabric);

/* What a remote operation means, or NULL when key, bounds or rights are wrong. */
char *sim_memory_find(const struct sim_fabric *fabric, struct fabric_remote remote, uint64_t bytes,
                      uint32_t right);

/* Whether a slice may be used by a post of this fabric. */
bool sim_slice_is_valid(const struct sim_fabric *fabric, const struct fabric_slice *slice,
                        bool written);

/* ---- sim_endpoint.c ---- */

bool sim_parse_address(const char *address, uint32_t *node, uint32_t *lane);
nigh_status sim_connect(struct fabric *fabric, const char *address,
                        const struct fabric_endpoint_options *options, const void *private_data,
                        uint32_t private_bytes, struct fabric_endpoint **endpoint);
nigh_status sim_accept(struct fabric_endpoint *end, const struct fabric_endpoint_options *options,
                       const void *private_data, uint32_t private_bytes);
void sim_reject(struct fabric_endpoint *end);
nigh_status sim_loop(struct fabric *fabric, const struct fabric_endpoint_options *options,
                     struct fabric_endpoint **endpoint);
void sim_disconnect(struct fabric_endpoint *end);
void sim_endpoint_destroy(struct fabric_endpoint *end);

/* Events of the handshake. */
void sim_on_request(struct sim_wire *wire);
void sim_on_accepted(struct sim_wire *wire);
void sim_on_confirmed(struct sim_wire *wire);

/* The end fails, for a reason that its event gives. The peer is told over the wire when `tell`. */
void sim_end_fail(struct fabric_endpoint *end, nigh_status status, bool tell);

/* Off the wire at once, with everything of it that touched memory. */
void sim_end_crash(struct fabric_endpoint *end);

/* Both ends of the wire will fail, each at a moment of its own. */
void sim_wire_break(struct sim_wire *wire);

/* The keep-alive of a side starts; a blocked wire that goes on again stops it. */
void sim_silence(struct sim_wire *wire, uint32_t side, bool for_ever);
void sim_wire_unblock(struct sim_wire *wire);

/* Frees the wire if nobody needs it. */
void sim_wire_release(struct sim_wire *wire);

/* ---- sim_post.c ---- */

nigh_status sim_post(struct fabric_endpoint *end, const struct fabric_work *work,
                     const struct fabric_work **bad);
nigh_status sim_post_receive(struct fabric_endpoint *end, const struct fabric_receive *receive,
                             const struct fabric_receive **bad);

/* A receive, if its slice makes sense; in no list. */
nigh_status sim_receive_make(struct sim_fabric *fabric, const struct fabric_receive *from,
                             struct sim_receive **receive);

/* Starts what may start. */
void sim_start(struct fabric_endpoint *end);

/* ---- sim_stock.c ---- */

nigh_status sim_stock_create(struct fabric *fabric, uint32_t depth, struct fabric_stock **stock);
void sim_stock_destroy(struct fabric_stock *stock);
nigh_status sim_stock_post(struct fabric_stock *stock, const struct fabric_receive *receive,
                           const struct fabric_receive **bad);

/* An endpoint takes its receives from there, or does so no more. */
void sim_stock_join(struct fabric_endpoint *end);
void sim_stock_leave(struct fabric_endpoint *end);

/* The receive that the next message of the endpoint fills; NULL: there is none. */
struct sim_receive *sim_stock_next(struct fabric_endpoint *end);

/* Completed, and nobody will poll it: it is posted again. */
void sim_stock_put_back(struct sim_receive *receive);

/* ---- sim_act.c ---- */

void sim_on_piece(struct sim_event *event);
void sim_on_done(struct sim_work *work);
void sim_on_refused(struct sim_work *work, nigh_status status);

/* The work is over for its poster: completes in its turn (sim_reap). */
void sim_work_end(struct sim_work *work, nigh_status status);

/* It does nothing any more. */
void sim_work_kill(struct sim_work *work);

/* Takes its bytes out of the memory that they lie in, so that this may be gone. False: it cannot
 * (any more). */
bool sim_work_keep(struct sim_work *work);

/* Its list has let go of it. */
void sim_work_release(struct sim_work *work);

/* Completes what ended, in order. */
void sim_reap(struct fabric_endpoint *end);

void sim_receive_end(struct sim_receive *receive, nigh_status status);
void sim_receive_free(struct sim *sim, struct sim_receive *receive);

#endif
