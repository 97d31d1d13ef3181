/* SPDX-License-Identifier: Apache-2.0 */
/* What link.c (one link), the files of its parts and links*.c (all of a lane) share. For no one
 * else. */
#ifndef CLUSTER_LINK_INTERNAL_H
#define CLUSTER_LINK_INTERNAL_H

#include "base/random.h"
#include "cluster/bulk.h"
#include "cluster/link.h"
#include "cluster/sends.h"
#include "rpc/rpc_ring.h"
#include "rpc/rpc_way.h"

#define LINK_ENDPOINTS    (LINK_SPACES + 1u) /* at most */
#define LINK_SIGNAL_EVERY 16u                /* unsignalled sends between two signalled ones */
#define LINK_INLINE_TAG   UINT64_MAX
#define LINK_NO_OP        UINT32_MAX
#define LINK_NO_RECEIVE   UINT32_MAX
#define LINK_HEAD_BYTES   64u  /* of a bulk message, taken during the call */
#define LINK_CHAIN        16u  /* posts, or receives, handed to the fabric at once, at most */
#define LINK_FRAMES       32u  /* frames of calls, the same */
#define LINK_FRAME_BYTES  256u /* of a frame that waits for others to go with it, at most */
#define LINK_OFFER_BYTES  15u  /* of a ring, in private data */
#define LINK_METHOD_PROBE 8u   /* on the endpoint for calls: answered with what it brings */

#define LINK_BACKOFF_MIN_US UINT64_C(10000)
#define LINK_BACKOFF_MAX_US UINT64_C(1000000)
#define LINK_OWED_US        UINT64_C(1000000) /* between tries to make links without memory */
#define LINK_TICK_US        UINT64_C(1000)    /* between looks at the deadlines of calls */
#define LINK_UP_US          UINT64_C(5000000) /* both endpoints must be there by then */
#define LINK_STEADY_US      UINT64_C(1000000) /* up for so long: its dials are not in vain */

/* A frame that came, before the link was up perhaps. */
struct link_early {
    uint32_t number; /* of its receive */
    uint32_t bytes;
    uint32_t imm;
    bool is_written; /* into the ring, with `imm`; else it lies in the receive */
};

struct link_side {
    struct link *link;
    enum link_endpoint kind;
    struct fabric_endpoint *endpoint;
    bool established;
    uint32_t serial; /* the last token's: of this session */
    uint32_t *over;  /* numbers of receives that are done with, and not posted again yet */
    uint32_t over_count;
    struct list_node place; /* links.returning, while there are such */

    /* Of an endpoint that fails without its link (link_is_own). */
    bool failed; /* goes down at the end of the turn, for `reason` */
    nigh_status reason;
    uint32_t attempts;   /* dials since it was last there for long */
    uint64_t dial_us;    /* while it has no endpoint: not before this */
    uint64_t up_us;      /* when it was established last */
    uint64_t back_by_us; /* it went down, and is there again by then, or the link goes, too */

    /* Under way over it, of an endpoint for regions; LINK_BULK: over all that are not. */
    uint32_t op_count;
    uint32_t read_count;  /* of them */
    uint32_t write_count; /* of them: WRITEs and atomics */

    /* Of an endpoint with a channel. */
    struct rpc *rpc;     /* from the link's first endpoint until down; NULL: no channel */
    struct list sends;   /* of links.sends, under way */
    struct list waiting; /* likewise, frames in order that the peer's ring has no room for */
    uint32_t send_count; /* of both */
    uint32_t unsignalled;
    struct link_early *early; /* in order */
    uint32_t early_count;
};

/* Of the endpoint for calls: frames that are written instead of sent. */
struct link_rings {
    uint8_t *memory; /* that the peer writes to; NULL: it may not */
    struct fabric_memory *registration;
    struct rpc_ring_reader reader; /* of that */
    struct rpc_ring_writer writer; /* of the peer's */
    struct fabric_remote remote;   /* likewise */
    bool is_only;                  /* the peer's receives have no buffers: all is written */
    enum rpc_way_kind way;         /* of frames that leave, where both ways are open */
    enum rpc_way_kind came;        /* of the frame in hand */
    bool measures, asks;           /* more calls are wanted to measure with; one is under way */
    uint64_t asked_us;
    uint64_t sent_us, written_us; /* what was measured last; 0: nothing */
    struct rpc_way measured;
};

enum link_op_kind {
    LINK_OP_NONE = 0, /* free */
    LINK_OP_MESSAGE,  /* link_send, link_push */
    LINK_OP_READ,
    LINK_OP_WRITE,
    LINK_OP_WORD /* an atomic */
};

/* Of spaces, on the wire: what each SEND begins with, and its message behind it. Little endian. */
struct link_space_head {
    uint8_t magic;
    uint8_t kind;     /* enum link_space_kind */
    uint16_t credits; /* receives that are there again */
    uint32_t bytes;   /* MESSAGE: behind the head */
};

struct link_space_word {
    struct link_space_head head;
    _Alignas(8) uint8_t bytes[LIMIT_SPACE_MESSAGE];
};

_Static_assert(sizeof(struct link_space_word) == 72, "a message of spaces is on the wire");

/* A message of spaces, from the call until its slices are the caller's again. */
struct link_space_send {
    link_done *done; /* NULL: nobody asks */
    void *context;
    struct fabric_slice slices[LINK_SPACE_SLICES];
    struct fabric_remote remote;
    uint8_t slice_count;
    uint8_t bytes; /* of the message: it lies in the word of the same place */
};

/*
 * The endpoint for spaces, of a link that has one. Those that were asked for are numbered from the
 * link's begin on; a number's place is that modulo LIMIT_SPACE_SENDS.
 */
struct link_space {
    struct link_space_word *words; /* of receives, then of sends, then of credits alone */
    struct fabric_memory *registration;
    struct link_space_send *sends;
    struct link_early *early; /* of the side, as `over` */
    uint32_t *over;
    uint64_t ended, posted, asked; /* numbers: of those before, which have, or were */
    uint32_t credits;              /* receives of the peer that nothing is on its way to */
    uint32_t owed;                 /* receives here that it is not told of yet */
    bool telling;                  /* credits alone are under way */
};

/* What is under way over the bulk endpoints, and those for regions. */
struct link_op {
    enum link_op_kind kind;
    union {
        link_done *done;
        link_word_done *word_done; /* LINK_OP_WORD */
    };
    void *context;
    enum link_endpoint over; /* an endpoint for regions, or LINK_BULK: any other */
    nigh_status status;      /* of a failed one, until its memory is free */
    uint32_t next;           /* free list */
};

struct link {
    struct links *links; /* NULL: not in use */
    uint32_t rank;
    uint32_t rail;
    struct link_side sides[LINK_ENDPOINTS];
    void *data;
    bool up;
    bool failed; /* goes down at the end of the turn, for `reason` */
    nigh_status reason;

    uint32_t attempts; /* dials in vain */
    uint32_t host;     /* which of the peer's is dialled, when it offered several */
    uint64_t dial_us;  /* not before this */
    uint64_t up_us;    /* when it came up last */
    uint64_t up_by_us; /* one endpoint is there, and the other must be by then */

    uint8_t *memory;
    struct fabric_memory *registration;
    struct link_early *early; /* of all sides */
    uint32_t *over;           /* likewise */

    bool kept; /* the bulk message that is being told of is kept */

    struct link_rings rings;
    struct link_space *space; /* NULL: it has no endpoint for spaces */

    struct link_op *ops;
    uint32_t ops_used;
    uint32_t free_op;
    uint32_t reader; /* the bulk endpoint that the last READs went over: from 0 */

    uint32_t place; /* among links.live, while it is up */
};

/* Posts of one endpoint, of bulk or for regions, that go to the fabric together, in their order. */
struct link_chain {
    struct link_side *side;
    uint32_t count; /* 0: there is none */
    struct fabric_work works[LINK_CHAIN];
    struct fabric_slice slices[LINK_CHAIN][LIMIT_FABRIC_SLICES];
};

/* An atomic of a word of the own memory, under way. */
struct link_loop_op {
    link_word_done *done; /* NULL: it is free */
    void *context;
    nigh_status status; /* of a failed one, until its place is free */
    uint32_t next;      /* free list */
    bool ends;          /* with the endpoint that it is of */
};

/* The endpoint that leads back to the own fabric. */
struct link_loop {
    struct fabric_endpoint *endpoint; /* NULL: not used yet, or it failed */
    uint64_t *words;                  /* that atomics found, by number; config.writes */
    struct fabric_memory *registration;
    struct link_loop_op *ops;
    uint32_t used, count; /* numbers that were ever taken; under way */
    uint32_t free_op;
    bool failed; /* goes at the end of the turn, for `reason` */
    nigh_status reason;
    bool has_served;   /* something was done over this one */
    uint32_t attempts; /* in vain, since one was */
    uint64_t again_us; /* not made anew before this */
};

/* What the endpoints of one kind have in common whose frames are a channel's. */
struct link_channel {
    struct rpc_config rpc;
    uint32_t receives; /* 0: there are no such endpoints */
    uint32_t buffers;  /* as many, or 0: what comes is written into rings */
    uint32_t sends;    /* buffers of one link at most, for frames that are not inline */
    uint32_t depth;    /* posts that have not completed */
    uint32_t stride;   /* of a frame's receive */
};

/* Small frames of calls of one endpoint that go to the fabric together, in their order. */
struct link_frames {
    struct link_side *side;
    uint32_t count; /* 0: there are none */
    struct fabric_work works[LINK_FRAMES];
    struct fabric_slice slices[LINK_FRAMES];
    uint8_t bytes[LINK_FRAMES][LINK_FRAME_BYTES];
};

/* A peer, by rank. */
struct links_peer {
    bool up;
    struct link_peer info;
    uint32_t rails;     /* of both nodes */
    uint32_t count;     /* links of this lane: rails lane, lane + lanes, ... */
    struct link *links; /* NULL: never up */
    uint32_t serial;    /* of the last token that we made in this session */
    bool owed;          /* it would be up, but there was no memory for its links: tried again */
    uint64_t owed_us;   /* then */
};

struct links {
    struct links_config config;
    struct links_peer *peers; /* config.nodes */
    struct link **live;       /* that are up, in no order; room for all that there are */
    uint32_t live_count;
    uint32_t link_count; /* of all peers */
    struct random random;
    struct link_channel control, calls;
    uint32_t bulk_stride;
    uint32_t max_ops;
    struct sends sends;
    struct bulk bulk;       /* receives that all links share */
    uint32_t told;          /* of them, whose message is being told of and not kept */
    struct rpc_pool *waits; /* calls of all links that wait for a credit; NULL: none */
    struct link_chain chain;
    struct link_frames frames;
    struct link_loop loop;
    enum link_way way;     /* config.calls_way, as far as the fabric can */
    uint8_t *frame;        /* one that came through a ring, copied; NULL: none does */
    struct list returning; /* sides with receives to post again */
    bool any_failed;
    uint64_t tick_us;
    uint64_t dial_us; /* the next dial of any link */
    struct links_counters counters;
};

nigh_status link_init(struct link *link, struct links *links, uint32_t rank, uint32_t rail);
void link_fini(struct link *link);

/* Receives of bulk that each link has for itself. */
uint32_t links_own_bulk(const struct links *links);

/* Whether what is of regions goes over one of these links to a peer: that of rail 0, where all of
 * it goes. */
bool links_carry_regions(const struct links *links);

/* Whether messages of spaces go over one of these links to a peer, that of rail 0. */
bool links_carry_spaces(const struct links *links);

/* Posts that have room in an endpoint without a channel. */
uint32_t links_posts(const struct links *links, enum link_endpoint kind);

/* All receives that it has. */
uint32_t links_own_receives(const struct links *links);

/* One of the further bulk endpoints. */
static inline bool link_is_reader(enum link_endpoint kind)
{
    return kind >= LINK_READS && kind < LINK_SPACES;
}

/* Whether a link to this peer has such an endpoint. */
bool link_has(const struct link *link, enum link_endpoint kind);

/* Of a kind of endpoints; NULL: they carry no frames. */
const struct link_channel *links_channel(const struct links *links, enum link_endpoint kind);

/* Of the buffers of one link. */
uint64_t link_memory_bytes(const struct links *links);

struct fabric_endpoint_options link_endpoint_options(struct link *link, enum link_endpoint kind);

/* The link gets an endpoint that was just made (dialled or accepted); receives are posted. */
nigh_status link_take_endpoint(struct link *link, enum link_endpoint kind,
                               struct fabric_endpoint *endpoint);
void link_established(struct link *link, enum link_endpoint kind, uint64_t now_us);

/* It has no endpoint. */
bool link_is_idle(const struct link *link);

/* Marks it to go down at the end of the turn. */
void link_fail(struct link *link, nigh_status reason);
/* How late the dial comes that follows so many in vain: twice as late each time, half of it at
 * random. */
uint64_t links_back_off_us(struct links *links, uint32_t attempts);
/* Dials one endpoint of a link. What fails says so, and nothing else. */
nigh_status links_dial(struct link *link, enum link_endpoint kind);
/* When to dial a link again that went down, and which of the peer's hosts. */
void links_back_off(struct link *link, uint64_t now_us);
/* Makes what is owed, dials what is due, gives up what does not come up; links->dial_us: when to
 * look again. True if there was something to do. */
bool links_serve_dials(struct links *links, uint64_t now_us);
/* Of a fabric: a connection that comes in, is up, or has ended. */
void links_on_event(struct links *links, const struct fabric_event *event, uint64_t now_us);
/* A peer's links are made, to be dialled or waited for; or tried to be later. */
nigh_status links_begin_peer(struct links *links, uint32_t rank, uint64_t now_us);
/* The link of a rail to a peer that is up; NULL: there is none at this lane. */
struct link *links_find_rail(struct links *links, uint32_t rank, uint32_t rail);
/* Takes it down now; nothing if it is. Not from inside its callbacks. */
void link_down(struct link *link, nigh_status reason, uint64_t now_us);

/* What is in this receive is not needed any more: it is posted again soon. */
void link_receive_is_over(struct link_side *side, uint32_t number);
/* Posts the receives of all sides that are done with, of one side. */
void links_give_back(struct links *links);
void link_post_receives(struct link_side *side);

/* Of the longest frame, with its header. */
uint32_t link_frame_bytes(const struct link_channel *channel);

/* What an operation may have of its own: the head of a message, bytes that were taken during the
 * call, what an atomic found. LINK_HEAD_BYTES, aligned to as many, in link->registration. */
uint8_t *link_op_head(const struct link *link, uint32_t op);

/* ---- link_ops.c ----------------------------------------------------------- */

/* One more post of an endpoint without a channel; room for `count` of them in one chain. */
void link_add_to_chain(struct link_side *side, const struct fabric_work *work);
void link_chain_room(struct link_side *side, uint32_t count);
/* What is not posted yet ends with its link, or its endpoint, as what was. */
void link_forget_chain(const struct link *link);
void link_forget_side_chain(const struct link_side *side);
/* All that is under way ends: nothing touches its memory any more. */
void link_end_ops(struct link *link, nigh_status reason, uint64_t now_us);
/* The same of what went over an endpoint for regions; the link goes on. */
void link_end_side_ops(struct link_side *side, nigh_status reason, uint64_t now_us);
/* A post of an endpoint without a channel has ended. */
void link_on_op(struct link_side *side, const struct fabric_completion *completion,
                uint64_t now_us);

/* ---- link_own.c ----------------------------------------------------------- */

/* Whether an endpoint fails alone, and not its link with it. */
static inline bool link_is_own(enum link_endpoint kind)
{
    return kind == LINK_REGIONS || kind == LINK_REGIONS_LOW;
}

/* An endpoint failed: it goes down at the end of the turn, or its link does. */
void link_side_fail(struct link_side *side, nigh_status reason);
/* Takes such an endpoint down now, and says when it is dialled again. Not from inside the callbacks
 * of its link. */
void link_side_down(struct link_side *side, nigh_status reason, uint64_t now_us);
/* It is there. */
void link_side_established(struct link_side *side, uint64_t now_us);
/* Its link begins anew, and has forgotten it. */
void link_side_reset(struct link_side *side);
/* Those that failed go down. */
void link_settle_own(struct link *link, uint64_t now_us);
/* Dials those that are gone, and gives the link up that does not get them back. When to look again.
 * Of a link that has an endpoint. */
uint64_t link_serve_own(struct link *link, bool *worked, uint64_t now_us);

/* ---- link_loop.c ---------------------------------------------------------- */

void link_loop_complete(struct links *links, const struct fabric_completion *completion,
                        uint64_t now_us);
/* It failed: it goes at the end of the turn. */
void link_loop_fail(struct links *links, nigh_status reason);
void link_loop_settle(struct links *links, uint64_t now_us);
/* What is under way ends (NIGH_CANCELED), and nothing more begins. */
void link_loop_fini(struct links *links);
bool link_loop_is_valid(const struct link_loop *loop);

/* ---- link_frames.c -------------------------------------------------------- */

/* A frame leaves, or waits until it can; what it tells the peer of is there. */
void link_send_frame(struct link_side *side, const struct fabric_slice *slices, uint32_t count,
                     uint64_t bytes);
/* Those that there is room for, in order. */
void link_send_waiting(struct link_side *side);
/* What the own ring owes, without a frame. */
void link_send_news(struct link_side *side);
void link_give_send(struct link_side *side, struct send *send);

/* ---- link_space.c --------------------------------------------------------- */

/* Makes what a link to this peer needs of it, or gives that back; it has no endpoint now.
 * NIGH_NO_RESOURCES, or what the fabric says of the memory. */
nigh_status link_space_prepare(struct link *link);
void link_space_fini(struct link *link);
/* Of its memory. */
uint64_t link_space_bytes(void);
struct fabric_endpoint_options link_space_options(struct link_side *side);
uint32_t link_space_receives(void);
struct fabric_receive link_space_receive(const struct link_side *side, uint32_t number);
/* A connection begins. */
void link_space_begin(struct link *link);
void link_space_complete(struct link_side *side, const struct fabric_completion *completion,
                         uint64_t now_us);
/* What came before the link was up. */
void link_space_take_early(struct link_side *side, uint64_t now_us);
/* All that was asked for ends: nothing touches its memory any more. */
void link_space_end(struct link *link, nigh_status reason, uint64_t now_us);
bool link_space_is_valid(const struct link *link);

/* ---- link_ring.c ---------------------------------------------------------- */

bool links_give_rings(const struct links *links);
nigh_status link_ring_init(struct link *link);
void link_ring_fini(struct link *link);

/* A connection begins: nothing is in the ring, and none of the peer's is known. */
void link_ring_begin(struct link *link);
/* What is said of the own ring; 0: there is none. */
uint32_t link_ring_offer(const struct link *link, uint8_t offer[LINK_OFFER_BYTES]);
/* What the peer said; NIGH_PROTOCOL, NIGH_UNSUPPORTED: the link cannot be. */
nigh_status link_ring_take_offer(struct link *link, const uint8_t *offer, uint32_t bytes);

/* Makes `work` a frame's that is sent, or written to its place; false: it waits for room. */
bool link_ring_aim(struct link *link, uint32_t bytes, struct fabric_work *work);
/* The same of the first that waits. */
bool link_ring_aim_waiting(struct link *link, uint32_t bytes, struct fabric_work *work);

/* An immediate came: *frame is a copy of what it brought, good until the next one; NULL: nothing.
 * NIGH_PROTOCOL: the peer broke the rules. */
nigh_status link_ring_came(struct link *link, uint32_t imm, uint32_t bytes, const void **frame);
/* Behind it: tells the peer what it must know, and sends what waited. */
void link_ring_settle(struct link_side *side);

/* The next call of a measurement, if it is its turn. */
void link_measure(struct link *link, uint64_t now_us);
void link_on_probe(struct link_side *side, const struct rpc_request *request);

void link_complete(struct link_side *side, const struct fabric_completion *completion,
                   uint64_t now_us);

#endif
