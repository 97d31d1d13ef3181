/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links of one lane: its connections to the lanes of other nodes that share shards with it.
 *
 * Two nodes of K1 and K2 lanes have max(K1, K2) rails; rail r joins lane r mod K1 here with lane r
 * mod K2 there, so each lane serves its own rails and no lane locks against another. A link is one
 * rail: a control endpoint, which carries what nodes ask of each other (rpc/rpc.h), a bulk
 * endpoint, which carries READs of objects and messages with their bytes, an endpoint for the
 * calls of users, with a channel of its own: a service that is slow takes no credit from the
 * directory; and, where either node asks for more bulk endpoints, those, over which READs go by
 * turns. When one fails, the link goes down as a whole, and the side that dials brings it up
 * again, with back-off, for as long as the peer is said to be up.
 *
 * READs, WRITEs and atomics of regions have an endpoint of their own, or two, by priority, at rail
 * 0, which joins the lanes that serve them: no other rail carries any. A key that a peer withdrew
 * is refused there as a matter of course, which ends the endpoint: when one of these fails, what
 * was under way over it ends, and nothing else; the side that dials dials it again. A link comes up
 * with them, and goes down when one of them stays away.
 *
 * Messages of spaces, and the bytes that precede them, have one endpoint at rail 0 where both nodes
 * serve spaces. It fails with its link: what comes over it comes in order, or not at all.
 *
 * A link that is down has no endpoint: nothing of it touches memory any more. Completions that tell
 * of its end are delivered after its endpoints were destroyed, so that whoever gets one may reuse
 * the memory (the loans' rule c).
 *
 * Time is an argument; all I/O goes through the fabric, which may be a simulated one. Owned by the
 * lane's driver.
 */
#ifndef CLUSTER_LINK_H
#define CLUSTER_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "cluster/auth.h"
#include "fabric/fabric.h"
#include "rpc/rpc.h"

struct links;
struct link;

/* Of bytes that go with a message of spaces. */
#define LINK_SPACE_SLICES 2u

enum link_endpoint {
    LINK_CONTROL = 0,
    LINK_BULK = 1,
    LINK_CALLS = 2,
    LINK_REGIONS = 3,     /* one-sided operations of regions */
    LINK_REGIONS_LOW = 4, /* those of low priority, where they have an endpoint of their own */
    LINK_READS = 5,       /* the first of the further bulk endpoints, which carry READs alone */
    LINK_SPACES = 8       /* messages of spaces with the bytes before them */
};

/* How frames of calls travel (docs/verbs.md): sent to receives, or written into a ring of the peer.
 * Where the fabric has no writes with immediate data all are sent. */
enum link_way {
    LINK_SEND = 0, /* sent where the peer takes that; it gets no ring */
    LINK_AUTO,     /* both give a ring; each link measures, and takes the quicker way */
    LINK_WRITE     /* written where the peer gave a ring; peers must: receives have no buffers */
};

/* A peer as a control connection found it. */
struct link_peer {
    uint32_t rank;
    uint32_t incarnation;
    bool dials; /* we dial its fabrics */
    uint32_t lanes;
    uint32_t bulk_endpoints; /* of a link to it, to LIMIT_BULK_ENDPOINTS: the same there; 0 is 1 */
    uint32_t region_endpoints;       /* likewise, of rail 0, to LIMIT_REGION_ENDPOINTS */
    uint32_t space_endpoints;        /* likewise: 1 where both nodes serve spaces, else 0 */
    uint32_t version;                /* of the session's handshake: tokens name it */
    uint8_t session[AUTH_KEY_BYTES]; /* signs and checks tokens */
    /* "host:port" of each lane; "host,host:port": it is at one of them */
    char addresses[LIMIT_LANES][FABRIC_ADDRESS_BYTES];
};

/* Callbacks, and link_done and rpc_done, may call anything but links_turn, links_destroy,
 * links_peer_up, links_peer_down and links_peer_dead. */
struct links_shell {
    void *context;
    void (*up)(void *context, struct link *link, uint64_t now_us);
    /* After its pending calls, reads and sends have ended, with `reason`. */
    void (*down)(void *context, struct link *link, nigh_status reason, uint64_t now_us);
    /* A request or one-way message of the peer; see rpc_shell.request. */
    void (*request)(void *context, struct link *link, const struct rpc_request *request,
                    uint64_t now_us);
    /* A message on the bulk endpoint; its bytes are good until the return, or as long as link_keep
     * says. */
    void (*bulk)(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                 uint64_t now_us);
    /* A WRITE of the peer over the bulk endpoint has landed, and says `imm`. NULL: none may. */
    void (*pushed)(void *context, struct link *link, uint32_t imm, uint64_t count, uint64_t now_us);
    /* As request, on the endpoint for calls. NULL where there is none. */
    void (*called)(void *context, struct link *link, const struct rpc_request *request,
                   uint64_t now_us);
    /* What was called so has been given up by the peer: rpc_shell.canceled. NULL: nobody minds. */
    void (*withdrawn)(void *context, struct link *link, uint64_t call);
    /* A message of spaces, of 1 to LIMIT_SPACE_MESSAGE bytes, aligned to eight and good until the
     * return: what it was sent with is there. In the order in which the peer sent them. Who finds
     * that one is nonsense breaks the link. */
    void (*spaced)(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                   uint64_t now_us);
};

struct links_config {
    struct fabric *fabric; /* listens already; not owned */
    uint32_t rank;
    uint32_t incarnation;
    uint32_t lane;
    uint32_t lanes;
    uint32_t nodes;
    struct rpc_config rpc; /* without shell and pool; the same at all nodes, but for queue */
    uint32_t waits; /* calls that wait for a credit, of all links, beyond rpc.queue of each */
    struct rpc_config calls; /* likewise, of the channel for calls; payload_bytes 0: links have no
                                endpoint for them, and the peers' neither */
    enum link_way calls_way;
    uint32_t ring_bytes;    /* of the ring that a peer gets; a multiple of RPC_RING_UNIT */
    uint32_t bulk_receives; /* receives kept on each bulk endpoint, or the most of one link */
    uint32_t shared_bulk;   /* receives for the bulk endpoints of all links together: whoever grants
                               them to peers grants no more; 0: each has its own */
    uint32_t bulk_bytes;    /* of each */
    uint32_t reads;         /* READs under way at once over the bulk endpoints of a link together,
                               and over each for regions; more are NIGH_BUSY */
    uint32_t writes;    /* the same of WRITEs and atomics together, to LIMIT_LINK_WRITES, over each
                           endpoint for regions; 0, at all lanes and nodes: there are none, nor such
                           endpoints: links_rights */
    bool serves_spaces; /* links have an endpoint for spaces where the peers' nodes do, too; needs
                           shell.spaced. false: no memory is kept for any */
    uint64_t seed;      /* of the back-off's jitter */
    struct links_shell shell;
};

/* NIGH_INVALID: bounds broken (base/limits.h), or more frames under way than an endpoint holds.
 * NIGH_UNSUPPORTED, NIGH_LIMIT: the fabric does not share receives, or not so many. */
nigh_status links_create(const struct links_config *config, struct links **links);

/* What peers may do to memory of this node that is registered for them: READ it and, with `writes`,
 * WRITE to it and do atomics. For fabric_memory_register, of what is lent in both ways; what is
 * only to be read is registered with less. */
uint32_t links_rights(const struct links_config *config);

/* Everything pending ends first (NIGH_CANCELED), through its callbacks; shell.down is not called.
 */
void links_destroy(struct links *links);

/* A peer is up: its rails of this lane are dialled, or waited for. Unless all is as it was said
 * before, the links of before go down first. `peer` is copied. NIGH_INVALID: no such rank or number
 * of lanes; anything else: there is no memory for its links now, or none that may be registered;
 * that is tried again, with the dials, as long as nothing else is heard of the peer. */
nigh_status links_peer_up(struct links *links, const struct link_peer *peer, uint64_t now_us);

/* The peer is lost or dead: its links go down before the return, with `reason`. */
void links_peer_down(struct links *links, uint32_t rank, nigh_status reason, uint64_t now_us);

/* The same of one that is dead, who may never come back: the memory of its links goes with them. */
void links_peer_dead(struct links *links, uint32_t rank, uint64_t now_us);

/* One turn: polls the fabric, runs callbacks, dials. True if it found something to do. */
bool links_turn(struct links *links, uint64_t now_us);

/* The same before links_due_us is over, after a turn that found nothing: if nothing came, that was
 * all. */
bool links_look(struct links *links, uint64_t now_us);

/* When it must be called next at the latest. */
uint64_t links_due_us(const struct links *links);

/* The link of this lane to a rank that serves a key (by the shard of its hash); NULL: not up. */
struct link *links_find(struct links *links, uint32_t rank, uint64_t hash);

/* Calls visit for each link that is up. */
void links_each(struct links *links, void (*visit)(void *context, struct link *link),
                void *context);

uint32_t link_rank(const struct link *link);
uint32_t link_rail(const struct link *link);
uint32_t link_rails(const struct link *link); /* of both nodes together */
uint32_t link_peer_incarnation(const struct link *link);

/* A place for the user of the links to hang its own state on; NULL at up. */
void *link_data(const struct link *link);
void link_set_data(struct link *link, void *data);

/* The channel of a link that is up: for rpc_call, rpc_one_way, rpc_reply, rpc_cancel. */
struct rpc *link_rpc(struct link *link);

/* The same of the endpoint for calls; NULL: there is none. */
struct rpc *link_calls(struct link *link);

/* The link whose channel for calls it is. */
struct link *link_of_calls(const struct rpc *channel);

/* How a read or send of a link ended: NIGH_OK; NIGH_DENIED (key or bounds), NIGH_PEER_LOST, ...
 * Once. The memory is the caller's again. */
typedef void link_done(void *context, nigh_status status, uint64_t now_us);

/*
 * READs remote bytes into slices over a bulk endpoint. NIGH_OK: `done` follows, once, not from
 * inside this call; what the fabric then does not take ends with the link. READs end in the order
 * of the calls where there is one bulk endpoint, and in any order where there are several.
 * NIGH_BUSY: too many under way; NIGH_PEER_LOST.
 *
 * READs and messages of one link that follow each other are posted in chains, under one doorbell:
 * by links_flush, and at the end of links_turn. Their memory is the link's from the call on.
 */
nigh_status link_read(struct link *link, const struct fabric_slice *slices, uint32_t count,
                      struct fabric_remote remote, link_done *done, void *context);

/* The endpoint for one-sided operations of regions: of low priority that of their own, where this
 * link has one. */
enum link_endpoint link_regions(const struct link *link, bool is_low);

/* Whether operations may be asked for over such an endpoint: it is there, and so is the link. */
bool link_carries(const struct link *link, enum link_endpoint over);

/* As link_read, over an endpoint for regions, in the order that link_write tells of. */
nigh_status link_region_read(struct link *link, enum link_endpoint over,
                             const struct fabric_slice *slices, uint32_t count,
                             struct fabric_remote remote, link_done *done, void *context);

/*
 * WRITEs slices to remote memory over an endpoint for regions. The first slice may be inline
 * (memory NULL, at most 64 bytes, taken during the call); aligned words move whole where the fabric
 * is FABRIC_CAN_WORDS. As link_read, and: NIGH_BUSY: with link_fetch_add and link_compare_swap, too
 * many under way over this endpoint; NIGH_INVALID: more slices or bytes than the fabric takes;
 * NIGH_UNSUPPORTED: links_config.writes is 0; NIGH_PEER_LOST: link_carries would say no.
 *
 * Order, over one endpoint: WRITEs, READs and atomics start as they were asked for. So what was
 * WRITTEN is there when an atomic that follows it acts, and is what a READ that follows it brings.
 * What follows an atomic may act before it: who minds waits for its end. Between two endpoints, and
 * with messages and frames of the channels, there is no order.
 *
 * Ends: once. NIGH_OK: it has acted at the peer. NIGH_DENIED: the peer's memory is not there (any
 * more) or not open to it, which costs the endpoint, and whatever is under way over it;
 * NIGH_PEER_LOST where the peer was quicker in ending it. NIGH_PEER_LOST, the reason that the link
 * was broken with, NIGH_CANCELED at links_destroy: it has acted or not, or a WRITE in part; and
 * what is on its way yet may still act, once at most, as long as the peer has not seen its own end
 * of the connection go. When link_carries says yes again it has, and nothing of before acts any
 * more. It is not taken back, and has no deadline: until its end the memory is in use.
 */
nigh_status link_write(struct link *link, enum link_endpoint over,
                       const struct fabric_slice *slices, uint32_t count,
                       struct fabric_remote remote, link_done *done, void *context);

/* How an atomic ended: as link_done; `old` is what was there before it, with NIGH_OK. */
typedef void link_word_done(void *context, nigh_status status, uint64_t old, uint64_t now_us);

/*
 * Adds to a word of 8 bytes in remote memory (it wraps), or makes it `swap` if it is `compare`: it
 * was if `old` is that. Ends and order as link_write. Atomic with all atomics over the peer's same
 * fabric, and with its processors where that is FABRIC_CAN_ATOMICS_HERE. NIGH_INVALID: the address
 * is not a multiple of 8; NIGH_UNSUPPORTED: links_config.writes is 0, or the fabric not
 * FABRIC_CAN_ATOMICS.
 */
nigh_status link_fetch_add(struct link *link, enum link_endpoint over, struct fabric_remote remote,
                           uint64_t added, link_word_done *done, void *context);
nigh_status link_compare_swap(struct link *link, enum link_endpoint over,
                              struct fabric_remote remote, uint64_t compare, uint64_t swap,
                              link_word_done *done, void *context);

/*
 * The same of a word of this lane's own memory, `own` being what a peer would name it by: over an
 * endpoint of the lane's fabric that leads back to it (fabric_loop), so that it is atomic with what
 * peers do to the word where the processor is not. The endpoint is made at first use, and when it
 * has failed, made anew. Ends as link_fetch_add's, and costs this endpoint alone where the key is
 * good for nothing any more. NIGH_BUSY: links_config.writes are under way, or there is no endpoint
 * now: it may be asked for again soon. NIGH_UNSUPPORTED besides: not FABRIC_CAN_LOOP.
 */
nigh_status links_fetch_add(struct links *links, struct fabric_remote own, uint64_t added,
                            link_word_done *done, void *context, uint64_t now_us);
nigh_status links_compare_swap(struct links *links, struct fabric_remote own, uint64_t compare,
                               uint64_t swap, link_word_done *done, void *context, uint64_t now_us);

/*
 * Sends one message of at most bulk_bytes on the bulk endpoint: slices, the first of which may be
 * inline (memory NULL, at most 64 bytes, taken during the call). The peer must have granted a
 * receive for it: who asks for messages says how many. Otherwise as link_read.
 */
nigh_status link_send(struct link *link, const struct fabric_slice *slices, uint32_t count,
                      link_done *done, void *context);

/*
 * Writes one message to where the peer said, over the bulk endpoint, and tells it `imm`: what is
 * there when it hears of that is all of it. The peer must have granted a receive for it; slices as
 * for link_send. Otherwise as link_read.
 */
nigh_status link_push(struct link *link, const struct fabric_slice *slices, uint32_t count,
                      struct fabric_remote remote, uint32_t imm, link_done *done, void *context);

/* A message to the peer's spaces, and bytes that go before it. */
struct link_message {
    const void *bytes; /* taken during the call */
    uint32_t count;    /* of them, 1 to LIMIT_SPACE_MESSAGE */
    /* Registered, of the caller's until the end; none: a message alone. LINK_SPACE_SLICES at most.
     */
    const struct fabric_slice *slices;
    uint32_t slice_count;
    struct fabric_remote remote; /* where they are written, in the peer's memory */
};

/*
 * Sends a message over the endpoint for spaces, with its slices WRITTEN to `remote` before it: the
 * peer's shell.spaced finds them there. Both are one chain, under one doorbell with what else is
 * said in this turn (links_flush).
 *
 * NIGH_OK: `done` follows, once, not from inside this call, unless it is NULL: then nobody hears
 * when the slices are free. With NIGH_OK it says that all of it is at the peer, else why the link
 * is down: then it is there or not, or in part. Messages leave in
 * the order of the calls, when the peer has a receive for them; until then they wait.
 *
 * NIGH_BUSY: LIMIT_SPACE_SENDS have not ended; link_space_room says how many more are taken, in
 * every turn. NIGH_INVALID: too many slices or bytes, or memory that is not registered;
 * NIGH_UNSUPPORTED: the link has no such endpoint: not of rail 0, or a node that serves no spaces;
 * NIGH_PEER_LOST. Where the peer's memory is not there, or not open to it, the link goes down, as
 * with any failure.
 */
nigh_status link_space_send(struct link *link, const struct link_message *message, link_done *done,
                            void *context);

/* How many more a link takes now; 0: it has no endpoint for them, too. */
uint32_t link_space_room(const struct link *link);

/* Posts what was asked for and is not posted yet. Whoever begins something that takes long calls it
 * first, and whoever asked for something outside of a turn, last. */
void links_flush(struct links *links);

/* The same of small frames of calls, which go together as well: after those that are begun outside
 * of a turn. */
void links_flush_calls(struct links *links);

/*
 * The message whose shell.bulk is under way stays where it is, and the receive that it fills is the
 * caller's until link_give_back names its bytes, or the link is down. From inside shell.bulk.
 *
 * Receives are posted again together: before the next frame of the link's channel leaves, which may
 * tell the peer of them, and at the end of the turn. One whose message is still being told of is
 * not there yet: who grants it to the peer from inside shell.bulk gives it back first.
 */
void link_keep(struct link *link);
void link_give_back(struct link *link, const uint8_t *bytes);

/* How frames of calls leave over a link that is up: LINK_SEND or LINK_WRITE. What a call took
 * either way, in the middle, where that was measured; 0 else. */
enum link_way link_calls_way(const struct link *link, uint64_t *sent_us, uint64_t *written_us);

/* Measures that anew, if it is measured at all: a few calls, one after the other. */
void link_measure_calls(struct link *link, uint64_t now_us);

/* Whether it goes down at the end of the turn: no more is heard of its peer. */
bool link_is_failing(const struct link *link);

/* Takes the link down at the end of the turn (this one or the next) and lets it come up again: what
 * a loan that is overdue ends with. */
void link_break(struct link *link, nigh_status reason, uint64_t now_us);

struct links_counters {
    uint64_t ups, downs, dials, refused; /* refused: tokens that did not fit */
    uint64_t reads, read_bytes, bulk_messages, pushes;
    uint64_t writes, write_bytes, atomics;
    uint64_t region_posts[LIMIT_REGION_ENDPOINTS]; /* READs, WRITEs, atomics of each endpoint */
    uint64_t region_bytes;                         /* of these READs and WRITEs */
    uint64_t region_ends;    /* of endpoints for regions, without their link's, and to own words */
    uint64_t space_messages; /* that left, of spaces */
    uint64_t space_write_bytes;         /* of them, written before a message */
    uint64_t space_credits;             /* told of alone */
    uint64_t calls_sent, calls_written; /* frames of calls */
    uint64_t ring_full;    /* of them, that were to be written and found no room: sent, or late */
    uint64_t ring_news;    /* sent only to tell of room */
    uint64_t other_epochs; /* frames of another list of members: each ended its link */
};

const struct links_counters *links_counters(const struct links *links);

/* What links take of the node's own memory: of one, kept while its peer may come back; of the lane,
 * for all of them, now. */
uint64_t links_link_bytes(const struct links *links);
uint64_t links_shared_bytes(const struct links *links);

bool links_is_valid(const struct links *links);

#endif
