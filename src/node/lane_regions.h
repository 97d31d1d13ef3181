/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions, as lane 0 serves them: what the files of lane_regions*.c share. It joins the machines of
 * region/regions.h with memory (chunks), links (pieces of operations), and sessions. For no one
 * else; all of it is the lane's driver's.
 *
 * Nothing that is called by the machines calls them: what has ended is put into lists here, and
 * told from outside of them (lane_regions_tell).
 */
#ifndef NODE_LANE_REGIONS_H
#define NODE_LANE_REGIONS_H

#include "base/heap_timer.h"
#include "cluster/share.h"
#include "node/lane_internal.h"
#include "node/region_memories.h"
#include "node/session_shares.h"
#include "region/ask_wire.h"
#include "region/handles.h"
#include "region/push_wire.h"
#include "region/qos.h"
#include "region/regions.h"
#include "region/turns.h"

/* What sessions share. */
enum region_table {
    REGION_TABLE_IOS,
    REGION_TABLE_HOLDS,
    REGION_TABLE_ASKED,
    REGION_TABLE_LISTS,
    REGION_TABLE_MAPS,
    REGION_TABLE_COPIES,
    REGION_TABLE_BUFFERS, /* of copies */
    REGION_TABLES
};

_Static_assert(REGION_TABLES <= SESSION_SHARES_TABLES, "there is room for all");

/* What has a deadline. */
enum region_wait_kind {
    REGION_WAIT_IO,
    REGION_WAIT_ASK,
    REGION_WAIT_COPY,
    REGION_WAIT_LIST,
    REGION_WAIT_TERM /* of a lock that others wait for */
};

struct region_wait {
    struct timer timer;
    enum region_wait_kind kind;
    struct list_node held; /* in lane_region_session.held: its session has had its share */
};

/* What a handle of a session is of. */
struct region_use {
    struct list_node link;    /* in lane_regions.closing */
    struct list_node changed; /* in lane_regions.changed: a change of it has ended */
    struct region *region;
    struct region_guard *guard; /* the lock that it is good under; NULL: none */
    uint32_t slot;              /* of its session */
    uint64_t number;            /* of the handle, once there is one */
    uint32_t ios;               /* under way */
    uint32_t maps, stale_maps;  /* of chunks; of these, of memory that is none any more */
    bool is_closed;
    bool is_abandoned; /* with its session, and not by it */
    bool is_low;       /* of low priority, as its handle or its session is */
    /* lane_region_news.c: what its session was told of, or knew from the beginning */
    struct list_node hears; /* in its region's hearers */
    uint64_t said_bytes;
    uint32_t said_rights;
    bool is_said_freed;
    /* lane_region_barriers.c */
    struct regions_party party;
    struct region_io *arriving; /* that waits at a barrier; NULL: none does */
    struct list_node arrival;   /* in lane_regions.arriving or .passed */
    nigh_status arrived;        /* how that ended */
};

/* A lock that a session waits for, or holds: what a handle is good under. */
struct region_guard {
    struct region_wait term;
    struct list_node link; /* in lane_regions.locking, .locked or .unsure */
    struct regions_hold hold;
    struct session_place counts;
    struct lane_regions *at;
    struct region_use *use;
    struct region_io *io; /* that waits for it; NULL: none does (any more) */
    struct region_version birth;
    uint64_t number, term_us;
    uint32_t rights;        /* that a handle under it has at most */
    uint32_t cookie, begun; /* of the submission that lets it go, while it `is_leaving` */
    enum region_lock_mode mode;
    nigh_status status; /* as it was said last: how the wait ended, or why it is lost */
    bool is_asked;      /* `hold` is the region's */
    bool is_lost;       /* it was held, and is not any more */
    bool is_dirty;      /* what was written under it may land yet */
    bool is_leaving;    /* its handle is closed, and who closed it was not told yet */
};

/* An operation of a session; it goes on when that is gone. */
struct region_io {
    struct region_wait wait;
    struct regions_op op;
    struct lane_regions *at;
    struct list_node link; /* in lane_regions.ios, of its slot */
    struct session_place counts;
    struct list_node failed; /* in lane_regions.failed: there was no memory for pieces of these: */
    struct region_chunks failed_chunks;
    struct list landed; /* parts that were refused behind their first pieces, and go on */
    struct region_use *use;
    struct region_use *from_use; /* of what is pushed: its source's, which it is under way of, too;
                                    NULL: it is not */
    uint32_t slot, begun, cookie;
    enum session_region_what what;
    bool is_told;    /* the session was told how it ended */
    bool is_left;    /* its session is over: its buffer counts for its node alone */
    bool was_away;   /* MAP: the chunk was at another node, by what was known */
    uint64_t number; /* of the handle */
    uint32_t rights; /* that it takes; of OPEN that are asked for */
    uint64_t place;  /* in leased memory, where its bytes are, or come to */
    uint32_t place_bytes;
    uint64_t operand, compare, old;
    struct region_copy_piece *piece; /* of a copy, not of a session; NULL: it is a session's */
    bool pushes;                     /* of that: its bytes go from their node to their node, */
    uint64_t pushed_bytes;           /* of which so many have, from the first one on */
    uint8_t *buffer;                 /* of that */
    bool has_memory;                 /* its bytes are in: */
    struct bulks_memory memory;
    uint8_t *staging;               /* NULL: none yet */
    struct region_peer *staged_for; /* the node that it counts for: that of its first piece */
};

/* What of an operation is in one chunk, from when it is posted until that has ended. */
struct region_part {
    struct list_node link;   /* in lane_regions.ended, then .free_parts or region_io.landed */
    struct turns_entry turn; /* of its session, while it waits for one */
    struct region_io *io;
    struct region_post post;
    struct region_peer *peer;     /* where its chunk is */
    struct region_peer *asked_of; /* that pushes its bytes there */
    enum qos_class class;
    uint32_t under_way;     /* pieces */
    uint64_t piece_bytes;   /* of each but the last */
    uint64_t begun_bytes;   /* of its bytes */
    uint64_t landed_bytes;  /* of these, from the first on: they are posted once, wherever the rest
                               goes */
    uint64_t charged_bytes; /* of the window, for what is under way */
    uint64_t begun_us;      /* its last piece */
    nigh_status status;
};

/* A node that parts go to, this one's own words where its device changes them, or what this lane
 * moves: the window of that is what a turn of the lane may move. */
struct region_peer {
    struct list_node link; /* in lane_regions.peers_waiting */
    struct turns turns[QOS_CLASSES];
    struct qos_window windows[QOS_CLASSES]; /* that of low priority where it is apart alone */
    uint32_t staged;                        /* buffers of operations that go there */
    uint32_t pushes;                        /* that it was asked for, and has not answered */
    uint32_t puts;                          /* calls that bring others' bytes there */
};

/* What of a copy is under way: it is read into its buffer, and written from there. */
struct region_copy_piece {
    struct region_copy *copy;
    struct region_io *io;        /* NULL: nothing of it is under way */
    uint8_t *buffer;             /* NULL: it is not in use */
    struct region_buffers *slab; /* that is of this */
    struct session_place counts; /* the buffer */
    uint64_t from;               /* of the copy's bytes */
    uint64_t bytes;
    bool is_read;
    bool is_loose;  /* it began as a push: its turn among the others' writes is over */
    bool is_wanted; /* it is loose, and is yet to be read into a buffer */
};

/* A side of a copy. */
struct region_copy_side {
    uint64_t number; /* of the session's handle */
    uint64_t offset;
};

/* A copy between regions, or within one (lane_region_copies.c). */
struct region_copy {
    struct region_wait wait;
    struct lane_regions *at;
    struct list_node link;   /* in lane_regions.copies */
    struct list_node due;    /* in lane_regions.copies_due or .copies_short; else not linked */
    struct turns_entry turn; /* of its session, while it wants a buffer */
    struct session_place counts;
    struct region_copy_side from, to;
    uint64_t bytes;
    uint64_t reads, writes; /* begun */
    uint64_t begun_bytes;   /* of the pieces that are */
    uint32_t slot, begun, cookie;
    uint32_t under_way; /* operations */
    uint32_t checks;    /* begun, of both sides */
    uint32_t elsewhere; /* pieces in a row that could not be pushed */
    bool is_checking;   /* these have not ended */
    bool is_within;     /* ranges overlap: the order in which pieces are written is not free */
    bool is_backward;
    bool is_whole;       /* it is one piece */
    bool is_next_pushed; /* what is to be begun next needs no buffer */
    bool is_told;
    nigh_status status;
    struct region_copy_piece piece[LIMIT_REGION_COPY_POSTS]; /* the n-th is n % so many */
};

/* Where bytes of a copy are. */
struct region_source {
    const struct region *region;
    struct region_place place;
    uint32_t chunk;
    uint64_t offset_bytes, left_bytes; /* in the chunk */
};

/* What a member asks, until it is answered (lane_region_pushes.c). */
struct region_pushing {
    struct list_node link; /* in lane_regions.pushes */
    struct lane_regions *at;
    struct link *from; /* NULL: there is nobody to tell */
    uint64_t call;     /* theirs */
    uint32_t rank;     /* for whom it counts */
    uint32_t under_way;
    uint64_t begun_bytes, landed_bytes;
    nigh_status status;
    bool has_failed; /* something that went: nothing behind it has landed */
    struct region_push push;
};

/* Buffers of copies that were made together: LIMIT_REGION_BUFFERS. */
struct region_buffers {
    uint8_t *bytes; /* NULL: they are not made */
    struct fabric_memory *at;
    uint8_t *free; /* the first word of each is the next */
    uint32_t free_count;
};

#define REGION_BUFFERS_MOST (LIMIT_REGION_BUFFERS + 2u * LIMIT_REGION_BUFFERS_OWN * LIMIT_SESSIONS)
#define REGION_SLABS        (REGION_BUFFERS_MOST / LIMIT_REGION_BUFFERS + 1u)

/* LIMIT_REGION_COPY_BYTES full of a byte. */
struct region_fill {
    uint8_t *bytes; /* NULL: nobody has filled anything with it yet */
    struct fabric_memory *at;
};

#define REGION_FILLS (UINT8_MAX + 1u)

struct region_chunk_here;

/* A user that memory was given to. */
struct region_taker {
    uint32_t uid, gid;
    uint32_t rights;
};

/* Memory of a chunk that clients map, or did (lane_region_maps.c). */
struct region_share {
    struct region_memory *memory;
    struct region_chunk_here *chunk; /* NULL: it is none's any more, and kept for its maps */
    struct list maps;
    struct region_taker takers[LIMIT_REGION_TAKERS]; /* ever */
    uint32_t taker_count;
    bool is_anybodys; /* there were more */
};

/* A client's map of a chunk. */
struct region_map {
    struct list_node link;      /* in share.maps, or lane_regions.free_maps */
    struct region_share *share; /* NULL: it is free */
    struct region_use *use;
    uint32_t slot, begun;
    uint32_t uses; /* of the place */
    bool writes;
    struct session_place counts;
};

/* A chunk's memory here. */
struct region_chunk_here {
    struct list_node link; /* in lane_regions.did or .opening */
    struct region *region;
    uint32_t number;
    struct region_memory *memory; /* NULL: being made */
    struct fabric_memory *at;     /* its registration; with peers' rights while it has a handle */
    struct region_window handle;  /* that opens it now, */
    bool writes;                  /* to write, too */
    nigh_status did;              /* how the act under way ended, */
    struct region_window did_handle;
    struct region_place source; /* of a copy */
    uint64_t copy_bytes, copied_bytes;
    uint32_t copies; /* READs of it under way */
    bool is_copied;
    struct region_share *share; /* NULL: no client was given its memory */
    bool must_renew;            /* before it is opened: who was is to have it no more */
    bool is_renewing;           /* other memory is being made, */
    bool is_left;               /* and is not needed any more: it is closed when that has come */
    uint64_t renew_us;          /* it is tried again then */
};

/* A region's, as region_data has it. */
struct region_here {
    struct list_node link; /* in lane_regions.here */
    struct region *region;
    uint32_t count, room;
    struct region_chunk_here *
        *chunks; /* room of them: what a region of one chunk needs is little */
};

/* A MAKE that there was no memory for. */
struct region_unmade {
    struct region *region;
    uint32_t chunk;
    nigh_status status;
};

#define REGION_UNMADES (256u * LIMIT_REGION_CHUNKS) /* of the letters of one turn */

/* A change that a session here, or a peer's lane, has asked for. */
struct region_asked {
    struct region_wait wait; /* a session's */
    struct lane_regions *owner;
    struct list_node link;       /* in lane_regions.asked */
    struct session_place counts; /* a session's; a peer's is in lane_regions.peers_asked */
    struct region_asking asking;
    enum region_asked_at {
        REGION_ASKED_NOWHERE, /* it is asked for again, in a moment */
        REGION_ASKED_HELD,    /* its session has had its share */
        REGION_ASKED_HERE,    /* its home is here, and has it */
        REGION_ASKED_THERE    /* of another node */
    } at;
    uint64_t deadline_us;
    bool is_told;      /* whoever asked knows how it ended, or is gone */
    struct link *from; /* a peer's: where its answer goes; NULL: a session's */
    uint64_t call;     /* theirs */
    uint32_t slot;     /* of a peer's: its rank */
    uint32_t begun, cookie;
    struct region_use *use; /* NULL: of a CREATE */
};

/* What a list has of a member. */
struct region_list_side {
    struct region_list *list;
    enum region_list_at {
        REGION_LIST_TO_ASK,
        REGION_LIST_ASKED,  /* its answer comes, of this view, */
        REGION_LIST_OTHERS, /* or of one before, and is not looked at */
        REGION_LIST_LATER,  /* it cannot tell now, and is asked again in a moment */
        REGION_LIST_TOLD,
        REGION_LIST_NONE /* it is no member, or dead */
    } at;
    bool is_silent;             /* of NONE: it was to tell */
    struct region_list_ask ask; /* up to where it has told */
};

/* A page of regions that a session asked for (lane_region_lists.c). */
struct region_list {
    struct region_wait wait;
    struct list_node link; /* in lane_regions.lists */
    struct list_node due;  /* in lane_regions.lists_due: some are to be asked */
    struct session_place counts;
    struct lane_regions *at;
    uint32_t slot, begun, cookie;
    uint64_t place; /* in leased memory */
    uint64_t deadline_us;
    uint64_t epoch; /* by which it asks */
    uint32_t calls; /* under way */
    bool is_told;
    struct region_list_ask ask;
    uint32_t uid, gid;               /* of the session, who may be told more than it may do */
    bool is_cut;                     /* the page was full, and nothing behind its last one counts */
    struct session_region_page page; /* all there is of those that have told, as far as it goes */
    uint32_t last_bytes;             /* the name of the last one in it */
    char last[LIMIT_REGION_NAME_BYTES];
    uint32_t ranks;
    struct region_list_side sides[];
};

/* Memory that a session offers, until it is a chunk's (lane_region_donations.c). */
struct region_donation {
    uint64_t number;
    struct region_memory *memory; /* NULL: it is none */
    struct region_asked *asked;   /* that is to make a region of it; NULL: nobody has asked yet */
};

struct lane_region_session {
    struct region_handles handles;
    struct region_donation donations[LIMIT_SESSION_DONATIONS];
    /* lane_region_limits.c */
    struct list_node link; /* in lane_regions.limited, while something is held */
    struct list held;      /* operations, changes and lists that are not begun */
    struct rate bytes, operations;
    uint32_t maps;
};

/* Ever. */
struct lane_region_counts {
    uint64_t operations, parts_here, parts_there, parts_refused, bytes_read, bytes_written;
    uint64_t parts_waited, operations_held;
    uint64_t bytes_pushed; /* for other nodes */
};

struct lane_regions {
    struct lane *lane;
    struct lane_region_counts counts;
    struct regions *regions;
    struct region_memories *memories;
    struct agreed_set in;   /* members, by the view that this lane goes by */
    struct agreed_set dead; /* of whom it was said that they are */
    bool is_ending;         /* there are no links any more */
    bool has_said;          /* something to a session or a member, since the turn began */
    uint64_t again_us;      /* when what waits is tried again; UINT64_MAX: nothing does */
    uint64_t held_us;       /* when homes have waited for mappers for long enough */
    struct timers timers;
    struct timer **heap;
    struct session_shares shares; /* by enum region_table */
    /* lane_region_chunks.c */
    struct list here, did, opening;
    uint32_t here_count;
    uint32_t windows; /* given, where there is no fabric */
    struct region_unmade *unmade;
    uint32_t unmade_count;
    uint32_t donation_uses; /* ever */
    /* lane_region_maps.c */
    struct region_map *maps; /* LIMIT_REGION_MAPS; NULL: there was none yet */
    uint32_t maps_used, map_count;
    struct list free_maps;
    uint64_t kept_bytes; /* of memory that is no chunk's any more */
    /* lane_region_ops.c */
    struct list *ios; /* by slot */
    struct list failed, ended, closing;
    struct list_node *free_ios, *free_parts; /* chained by next */
    /* lane_region_posts.c */
    uint32_t ranks;
    bool posts_due;            /* something of what waits may go */
    struct region_peer *peers; /* by rank; the last is what is here, and the lane moves itself */
    struct list peers_waiting; /* for which something waits */
    struct turns_seat *seats;  /* by slot, peer and class */
    struct qos qos;
    /* lane_region_limits.c */
    bool has_limits;
    struct list limited; /* sessions of which something is held */
    /* lane_region_bytes.c */
    uint32_t *staged; /* buffers that a slot's operations have */
    uint8_t *staging;
    struct fabric_memory *staging_at;
    uint8_t *free_staging; /* the first word of each is the next */
    uint32_t free_staging_count;
    /* lane_region_copies.c */
    struct list copies, copies_due;
    struct list copies_short;   /* nothing of them could be begun */
    struct turns copy_turns;    /* of those that want a buffer, */
    struct turns_seat *copiers; /* by slot */
    /* lane_region_buffers.c */
    struct region_buffers buffers[REGION_SLABS];
    uint32_t free_buffer_count;
    struct region_fill fills[REGION_FILLS];
    /* lane_region_news.c */
    struct list news; /* regions whose hearers are yet to be told */
    /* lane_region_pushes.c */
    uint32_t *asked_pushes; /* by slot and rank: of region_peer.pushes, a session's */
    struct list pushes;
    uint32_t push_count;
    bool pushes_due; /* some may go on */
    struct share peers_pushing;
    /* lane_region_lists.c */
    struct list lists, lists_due;
    uint32_t list_count;
    struct agreed_set list_silent; /* who did not answer one in time, and has not since */
    /* lane_region_locks.c */
    struct list locking; /* to be asked for */
    struct list locked;  /* there is something to tell of */
    struct list unsure;  /* given, or let go, without a lease: told with the next, or if lost */
    /* lane_region_barriers.c */
    struct list arriving; /* to be said to the barrier */
    struct list passed;   /* to be told */
    /* lane_region_asks.c */
    struct list asked, changed;
    uint32_t asked_count;
    struct share peers_asked;
    /* lane_region_sessions.c */
    struct lane_region_session **sessions; /* by slot; NULL: it has opened nothing */
};

/* ---- lane_regions.c ------------------------------------------------------- */

uint32_t lane_regions_home(const struct lane_regions *at, uint64_t hash);
/* The link to a member, whose lane 0 it joins with this; NULL: it is not up. */
struct link *lane_regions_link(const struct lane_regions *at, uint32_t rank);
/* To the incarnation of a node that has a chunk there; NULL: it is not up, or is another's. */
struct link *lane_regions_link_to(const struct lane_regions *at, const struct region_place *place);
/* Something waits: it is tried again in a moment. */
void lane_regions_again(struct lane_regions *at);
/* Tells the machines what has ended since. */
void lane_regions_tell(struct lane_regions *at);
/* A post that was neither done nor refused ends with what its link broke for, a silent holder of an
 * object it may be: to a region that is a link that broke, and no more. */
static inline nigh_status lane_region_end_of_post(nigh_status status)
{
    return status == NIGH_OK || status == NIGH_DENIED ? status : NIGH_PEER_LOST;
}

static inline bool lane_regions_is_member(const struct lane_regions *at, uint32_t rank)
{
    return agreed_has(&at->in, rank) && !agreed_has(&at->dead, rank);
}

/* ---- lane_region_chunks.c ------------------------------------------------- */

void lane_region_act(void *context, struct region *region, const struct region_holder_act *act);
/* Memory that was made, and chunks that wait to be opened. True: something has happened. */
bool lane_region_chunks_turn(struct lane_regions *at);
void lane_region_chunks_retry(struct lane_regions *at);
void lane_region_chunks_tell(struct lane_regions *at);
bool lane_region_chunks_are_over(const struct lane_regions *at);
void lane_region_chunks_fini(struct lane_regions *at);
/* The bytes of a piece of a chunk here, if this handle opens it, and it has them; NULL. */
uint8_t *lane_region_bytes(const struct region *region, const struct region_post *post);

/* The chunk of a piece, if it is here and this handle opens it; NULL. */
struct region_chunk_here *lane_region_opened(const struct region *region,
                                             const struct region_post *post);

/* Of a cluster whose nodes agree on nothing there are none. */
static inline bool lane_regions_are_served(const struct lane *lane)
{
    return lane->config.fabric == NULL || lane->config.views != NULL;
}

/* This node's rank, and how many ranks there are, of a node alone too. */
static inline uint32_t lane_regions_self(const struct lane *lane)
{
    return lane->config.fabric != NULL ? lane->config.exchange.members->self : 0;
}

static inline uint32_t lane_regions_ranks(const struct lane *lane)
{
    return lane->config.fabric != NULL ? lane->config.exchange.members->count : 1;
}

/* ---- lane_region_maps.c --------------------------------------------------- */

/* A chunk that is open, for an operation of a session that may: its number in io->old. NIGH_LIMIT;
 * NIGH_UNSUPPORTED: its memory is none that clients map. */
nigh_status lane_region_map(struct lane_regions *at, struct region_io *io,
                            struct region_chunk_here *chunk);
/* NIGH_STALE: it was of another memory than the chunk's; NIGH_INVALID: it is none of the session's.
 */
nigh_status lane_region_unmap(struct lane_regions *at, uint32_t slot, uint64_t number);
/* All of a handle. */
void lane_region_maps_close(struct lane_regions *at, const struct region_use *use);
/* Whether a client has the chunk mapped now. */
bool lane_region_is_shared(const struct region_chunk_here *chunk);
/* Whether its memory was given to somebody who may not have it by this descriptor. */
bool lane_region_must_renew(const struct region_chunk_here *chunk,
                            const struct region_descriptor *kept);
/* The chunk has no memory any more: what it had goes, with the last map of it. */
void lane_region_leave_memory(struct lane_regions *at, struct region_chunk_here *chunk);

/* ---- lane_region_donations.c ---------------------------------------------- */

/* What a session has offered becomes a region's by this: it goes with the question, however that
 * ends, unless it is a chunk's by then. NIGH_CLOSED: there is none of this number;  NIGH_INVALID:
 * it is not of this size. */
nigh_status lane_region_donation_ask(struct lane_regions *at, uint32_t slot, uint64_t number,
                                     uint64_t bytes, struct region_asked *asked);
/* The same of memory of this process. NIGH_DENIED: the session is another's; NIGH_OVERLOADED;
 * NIGH_OUT_OF_MEMORY, NIGH_LIMIT, NIGH_NO_RESOURCES as region_memories_offer. */
nigh_status lane_region_donation_own(struct lane_regions *at, uint32_t slot, uint64_t address,
                                     uint64_t bytes, struct region_asked *asked);
/* Who asked was told that it came to nothing, or the question is over. */
void lane_region_donation_end(struct lane_regions *at, const struct region_asked *asked);
/* A session's have nobody to ask for them any more. */
void lane_region_donations_forget(struct lane_regions *at, uint32_t slot);
/* For the one chunk of the region that it was asked for; NULL: it is there no more. */
struct region_memory *lane_region_donation_take(struct lane_regions *at,
                                                const struct region *region, uint64_t number,
                                                uint64_t chunk_bytes);

/* ---- lane_region_ops.c ---------------------------------------------------- */

/* A place of a table for who has the slot. False: it has its share. */
static inline bool lane_region_share(struct lane_regions *at, enum region_table table,
                                     uint32_t slot, struct session_place *place)
{
    return session_shares_take(&at->shares, table, slot, at->lane->sessions[slot].seat->uid, place);
}

/* Of a session that is there. NULL: it has its share, or there is no memory. */
struct region_io *lane_region_io_take(struct lane_regions *at, uint32_t slot);
/* Begins what was filled in; it is over, perhaps, at the return. */
void lane_region_io_begin(struct lane_regions *at, struct region_io *io, uint64_t deadline_us);
/* It was not begun, and is not. */
void lane_region_io_drop(struct lane_regions *at, struct region_io *io, nigh_status status);
/* Its session hears how it ended, if it did not before. */
void lane_region_io_say(struct lane_regions *at, struct region_io *io, nigh_status status,
                        uint64_t bytes);
/* Its session waits no longer; what is under way goes on. No other operation ends within. */
void lane_region_io_end(struct lane_regions *at, struct region_io *io, nigh_status status);
/* Ends what is under way of a handle. */
void lane_region_use_end(struct lane_regions *at, struct region_use *use, nigh_status status);
void lane_region_ended(void *context, struct regions_op *op, nigh_status status);
void lane_region_ops_tell(struct lane_regions *at);
bool lane_region_ops_are_over(const struct lane_regions *at);
void lane_region_ops_fini(struct lane_regions *at);
/* It was told, and nothing of it is under way. */
void lane_region_io_finish(struct lane_regions *at, struct region_io *io, bool is_open);
/* Closes what is closed, and has nothing under way; lets go of a lock that is lost. */
void lane_region_use_put(struct lane_regions *at, struct region_use *use);

/* ---- lane_region_posts.c -------------------------------------------------- */

nigh_status lane_region_posts_init(struct lane_regions *at);
void lane_region_posts_fini(struct lane_regions *at);
void lane_region_post(void *context, struct regions_op *op, const struct region_post *post);
/* What waits for other nodes goes as far as it may. */
void lane_region_posts_go(struct lane_regions *at);
/* A turn's share of what the lane moves itself. True: there was some. */
bool lane_region_posts_turn(struct lane_regions *at);
void lane_region_posts_retry(struct lane_regions *at);
/* What waits for a node's link waits for another process by now. */
void lane_region_posts_dead(struct lane_regions *at, uint32_t rank);
/* A part was refused, or has ended: what has landed of it is not posted again. */
void lane_region_part_put(struct lane_regions *at, struct region_part *part);
/* An operation's, which has ended. */
void lane_region_parts_forget(struct lane_regions *at, struct region_io *io);
/* Nothing more of an operation goes. */
void lane_region_posts_end(struct lane_regions *at, const struct region_io *io, nigh_status status);
/* Of a part's next piece. */
uint64_t lane_region_next_bytes(const struct region_part *part);
/* Whether the lane itself has something to move. */
static inline bool lane_region_posts_wait_here(const struct lane_regions *at)
{
    return list_is_linked(&at->peers[at->ranks].link);
}

/* So much more of what another node was asked for has landed; how that ended. */
void lane_region_part_pushed(struct lane_regions *at, struct region_part *part,
                             uint64_t landed_bytes, nigh_status status);

/* What is free, chained by next. */
static inline void region_chain(struct list_node **first, struct list_node *node)
{
    node->prev = NULL;
    node->next = *first;
    *first = node;
}

static inline struct list_node *region_unchain(struct list_node **first)
{
    struct list_node *node = *first;

    if (node != NULL) {
        *first = node->next;
        node->next = NULL;
    }
    return node;
}

/* ---- lane_region_bytes.c -------------------------------------------------- */

/* Where a part's next piece is, from the lane's side. NIGH_BUSY: its session, or its node, has as
 * many buffers as it may. */
nigh_status lane_region_slice(struct lane_regions *at, struct region_part *part,
                              struct fabric_slice *slice);
/* What was read through a buffer comes to its place. */
nigh_status lane_region_take_read(struct lane_regions *at, const struct region_part *part);
/* Bytes of a chunk, written or read. One aligned word moves whole, beside peers that the fabric
 * lets at it. */
void lane_region_move(uint8_t *to, const uint8_t *from, uint64_t count, bool writes);
/* Moves the next piece of a part whose chunk is here. What is looked at is looked at in each: the
 * chunk may have been closed since the last. */
nigh_status lane_region_carry_out(struct lane_regions *at, struct region_part *part);
/* Whether the lane itself may do atomics of words here: else they go to the own fabric, as peers'
 * do. */
bool lane_region_has_atomics(const struct lane_regions *at);
static inline bool lane_region_is_word(const struct region_io *io)
{
    return io->what == SESSION_REGION_ADD || io->what == SESSION_REGION_SWAP;
}
void lane_region_staging_give(struct lane_regions *at, struct region_io *io);
/* The session is over: what it has is not of who has the slot next. */
void lane_region_staging_leave(struct lane_regions *at, uint32_t slot);
void lane_region_bytes_fini(struct lane_regions *at);

/* ---- lane_region_limits.c ------------------------------------------------- */

void lane_region_limits_init(struct lane_regions *at);
void lane_region_limits_session(const struct lane_regions *at, struct lane_region_session *session);
/* Of an operation, a change or a list, of a session that has handles, or none yet. True: it is not
 * begun yet, as its session has had its share; it is later, or ends. */
bool lane_region_limit(struct lane_regions *at, struct region_wait *wait);
/* One that is not begun yet is not begun; false: it is none of these. */
bool lane_region_limit_end(struct lane_regions *at, struct region_wait *wait);
/* Begins what may be by now. True: there was some. */
bool lane_region_limits_turn(struct lane_regions *at);
uint64_t lane_region_limits_due_us(const struct lane_regions *at);

/* ---- lane_region_copies.c ------------------------------------------------- */

/* What a session asked; it is told, perhaps within. The status: it was not begun, and is not;
 * NIGH_OVERLOADED: it has as many under way as may be begun yet. */
nigh_status lane_region_copy_begin(struct lane_regions *at, const struct region_copy *asked,
                                   uint64_t deadline_us);
/* Its session waits no longer; what is under way goes on. */
void lane_region_copy_end(struct lane_regions *at, struct region_copy *copy, nigh_status status);
/* An operation of it has ended. Calls no machine. */
void lane_region_copy_went_on(struct lane_regions *at, struct region_io *io, nigh_status status);
/* True: some went on. */
bool lane_region_copies_turn(struct lane_regions *at);
void lane_region_copies_retry(struct lane_regions *at);
/* A session's have nobody to be told any more. */
void lane_region_copies_forget(struct lane_regions *at, uint32_t slot);
/* A CANCEL of one; false: it is not. */
bool lane_region_copies_cancel(struct lane_regions *at, uint32_t slot, uint32_t cookie);
void lane_region_copies_fini(struct lane_regions *at);

/* ---- lane_region_pushes.c ------------------------------------------------- */

/* Where a byte of a copy is. False: not known, not at another node, or not to be had. */
bool lane_region_push_source(struct lane_regions *at, uint32_t slot,
                             const struct region_copy_side *from, uint64_t offset_bytes,
                             struct region_source *source);
/* Whether a session may ask one more of a node. */
bool lane_region_may_push(const struct lane_regions *at, uint32_t slot, uint32_t rank);
/* Asks the node of a part's source to write it; lane_region_part_pushed follows. NIGH_ELSEWHERE: it
 * cannot be, or not now. */
nigh_status lane_region_push(struct lane_regions *at, struct region_part *part);
/* Calls of each sort to one node under way, at most. */
static inline uint32_t lane_region_puts(const struct lane_regions *at)
{
    return min_u32(LIMIT_REGION_PUTS, exchange_users_places(at->lane->config.exchange.members) / 4);
}
/* True: some went on. */
bool lane_region_pushes_turn(struct lane_regions *at);
void lane_region_pushes_retry(struct lane_regions *at);
/* The session is over: what it has asked for is not of who has the slot next. */
void lane_region_pushes_leave(struct lane_regions *at, uint32_t slot);
void lane_region_pushes_link_down(struct lane_regions *at, const struct link *link);
void lane_region_pushes_fini(struct lane_regions *at);
/* Where both sides of what a member asks are here. NIGH_ELSEWHERE: the source is not, by this
 * handle; NIGH_STALE: the other side is not. */
nigh_status lane_region_push_here(struct lane_regions *at, const struct region_push *push);
/* What a member brings. NIGH_STALE: its chunk is not here, by this handle; NIGH_PROTOCOL. */
nigh_status lane_region_put_here(struct lane_regions *at, const uint8_t *bytes, size_t size_bytes);
/* A member asks, and says. */
void lane_region_hear_push(struct lane_regions *at, struct link *link,
                           const struct rpc_request *request);
void lane_region_hear_put(struct lane_regions *at, struct link *link,
                          const struct rpc_request *request);

/* ---- lane_region_buffers.c ------------------------------------------------ */

/* Of LIMIT_REGION_COPY_BYTES, for a piece of a copy of a session that is there, as piece->buffer.
 * False: it has its share, or there is no memory for more. */
bool lane_region_buffer_take(struct lane_regions *at, struct region_copy_piece *piece);
/* One that has none is allowed. */
void lane_region_buffer_give(struct lane_regions *at, struct region_copy_piece *piece);
/* Stays as it is. NULL: there is no memory for it. */
const struct region_fill *lane_region_fill(struct lane_regions *at, uint8_t byte);
nigh_status lane_region_buffers_init(struct lane_regions *at);
void lane_region_buffers_fini(struct lane_regions *at);

/* ---- lane_region_lists.c -------------------------------------------------- */

/* A page of regions, for a session; it is told. The status: it was not begun, and is not. */
nigh_status lane_region_list_begin(struct lane_regions *at, uint32_t slot, uint32_t cookie,
                                   uint64_t place, const struct region_list_ask *ask,
                                   uint64_t deadline_us);
/* Its session waits no longer, and is told this, or, where its time is over, what there is. */
void lane_region_list_end(struct lane_regions *at, struct region_list *list, nigh_status status);
/* It was held, and is begun. */
void lane_region_list_go(struct lane_regions *at, struct region_list *list);
/* True: some went on. */
bool lane_region_lists_turn(struct lane_regions *at);
void lane_region_lists_retry(struct lane_regions *at);
/* The view is another: all are asked by that. */
void lane_region_lists_view(struct lane_regions *at);
/* A session's have nobody to be told any more. */
void lane_region_lists_forget(struct lane_regions *at, uint32_t slot);
/* A CANCEL of one; false: it is not. */
bool lane_region_lists_cancel(struct lane_regions *at, uint32_t slot, uint32_t cookie);
/* A member asks. */
void lane_region_hear_list(struct lane_regions *at, struct link *link,
                           const struct rpc_request *request);
void lane_region_lists_fini(struct lane_regions *at);

/* ---- lane_region_news.c --------------------------------------------------- */

/* It has a handle, by this descriptor: its session is told what becomes of the region. */
void lane_region_hear(struct region_use *use, const struct region_descriptor *descriptor,
                      uint64_t number, uint32_t rights);
/* It is closed. */
void lane_region_hear_no_more(struct region_use *use);
void lane_region_told(void *context, struct region *region);
/* A turn's share of those who are to be told. True: there was one. */
bool lane_region_news_turn(struct lane_regions *at);

/* ---- lane_region_locks.c -------------------------------------------------- */

/* What a session is to have under a lock, as it said. NULL: why not, in *status. */
struct region_use *lane_region_guard_create(struct lane_regions *at, uint32_t slot,
                                            const struct region_handle *handle,
                                            const struct session_region_lock *said,
                                            nigh_status *status);
/* Its right was judged: it waits for the lock. */
void lane_region_guard_begin(struct lane_regions *at, struct region_io *io);
/* False: the operation does not wait for a lock. True: it has ended. */
bool lane_region_guard_end(struct lane_regions *at, struct region_io *io);
/* Its term is over: others wait. */
void lane_region_guard_expire(struct lane_regions *at, struct region_guard *guard);
/* Its handle is closed by the submission of that cookie. True: others may have the lock already,
 * for all that is known without a lease; it is let go, and that told, with the next, when it is
 * lost, or after LIMIT_NODE_GRACE_US, as TIMEOUT. */
bool lane_region_guard_leave(struct lane_regions *at, struct region_guard *guard, uint32_t cookie);
/* Nobody of the session is told any more. */
void lane_region_guards_forget(struct lane_regions *at, uint32_t slot);
/* Nothing is under way of what is closed, or lost: lets go. */
void lane_region_guard_let_go(struct lane_regions *at, struct region_guard *guard);
void lane_region_guard_free(struct lane_regions *at, struct region_guard *guard);
void lane_region_locked(void *context, struct regions_hold *hold, nigh_status status);
void lane_region_wanted(void *context, struct regions_hold *hold);
void lane_region_locks_tell(struct lane_regions *at);
static inline bool lane_region_locks_are_over(const struct lane_regions *at)
{
    return list_empty(&at->locking) && list_empty(&at->locked);
}

/* ---- lane_region_barriers.c ----------------------------------------------- */

/* Its right was judged: it arrives. */
void lane_region_arrive(struct lane_regions *at, struct region_io *io);
/* False: the operation does not wait at a barrier. True: it has ended. */
bool lane_region_withdraw(struct lane_regions *at, struct region_io *io);
/* A handle is closed. */
void lane_region_leave(struct region_use *use);
void lane_region_passed(void *context, struct regions_party *party, nigh_status status);
void lane_region_barriers_tell(struct lane_regions *at);
static inline bool lane_region_barriers_are_over(const struct lane_regions *at)
{
    return list_empty(&at->arriving) && list_empty(&at->passed);
}

/* ---- lane_region_asks.c --------------------------------------------------- */

/* For a session, or for a peer's lane, where `from` is its link. NULL: that has its share, or there
 * is no memory. */
struct region_asked *lane_region_asked_take(struct lane_regions *at, uint32_t slot,
                                            struct link *from);
/* It was not begun, and is not. */
void lane_region_asked_drop(struct lane_regions *at, struct region_asked *asked);
void lane_region_ask_begin(struct lane_regions *at, struct region_asked *asked);
/* It was held, and is begun. */
void lane_region_ask_go(struct lane_regions *at, struct region_asked *asked);
/* Whoever asked waits no longer. */
void lane_region_ask_end(struct lane_regions *at, struct region_asked *asked, nigh_status status);
void lane_region_answered(void *context, struct region_ask *ask, nigh_status status);
void lane_region_asks_retry(struct lane_regions *at);
void lane_region_asks_link_down(struct lane_regions *at, const struct link *link);
/* A session's have nobody to be told any more. */
void lane_region_asks_forget(struct lane_regions *at, uint32_t slot);
/* A CANCEL of one; false: it is not. */
bool lane_region_asks_cancel(struct lane_regions *at, uint32_t slot, uint32_t cookie);
void lane_region_hear_ask(struct lane_regions *at, struct link *link,
                          const struct rpc_request *request);
void lane_region_asks_fini(struct lane_regions *at);

/* ---- lane_region_sessions.c ----------------------------------------------- */

/* Whether an operation may go on, by what is known of its region now. */
nigh_status lane_region_judge(void *context, struct regions_op *op,
                              const struct region_descriptor *descriptor);
/* What a handle is of, if it may read that now by all that is known; NULL. */
const struct region *lane_region_readable(const struct lane_regions *at, uint32_t slot,
                                          uint64_t number);
/* Of a session that has one. */
struct region_handles *lane_region_handles(const struct lane_regions *at, uint32_t slot);
/* And of one that has none yet. NULL: there is no memory. */
struct region_handles *lane_region_need_handles(struct lane_regions *at, uint32_t slot);

#endif
