/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange of one lane: how its objects reach other nodes, and theirs reach it.
 *
 * It joins the lane's store, its links and its directory (docs/transfer.md):
 *  - as a home it answers who has what, and tells those who wait;
 *  - as an owner it announces what is sealed here, and again when a link comes up;
 *  - as a holder it lends: a small object travels in the reply, or in messages; a large one is read
 *    in place by its puller, under a loan that ends with DONE, or with the link; where the puller
 * is configured for it, the messages are written into windows that it grants;
 *  - as a puller it merges all who want an object on this node into one pull, admits pulls by
 *    memory, checks the CRC32C, tries another holder when one fails, and never lets memory go while
 *    something may still land in it.
 *
 * No I/O of its own, no clock: driven by the lane (or by a simulation) like the store.
 */
#ifndef OBJECT_EXCHANGE_H
#define OBJECT_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/agreed.h"
#include "cluster/directory.h"
#include "cluster/replicas.h"
#include "cluster/link.h"
#include "cluster/members.h"
#include "cluster/outside.h"
#include "fabric/fabric.h"
#include "object/store.h"

struct exchange;

/* Which way an object's bytes take. */
enum exchange_path {
    EXCHANGE_AUTO = 0,      /* by size: from a link's crossover on lent, below sent */
    EXCHANGE_TWO_SIDED = 1, /* sent */
    EXCHANGE_ONE_SIDED = 2, /* lent, and read by the puller */
    EXCHANGE_PUSH = 3,      /* written by the holder into windows that the puller grants; sent where
                               the fabric has no immediate data */
    EXCHANGE_REGISTER = 4   /* as ONE_SIDED; as a holder, each loan has a registration of its own,
                               made for it: for measurements */
};

/* Who takes the calls of users that other nodes send (rpc/calls.h). */
struct exchange_calls {
    void *context;
    void (*called)(void *context, struct link *link, const struct rpc_request *request,
                   uint64_t now_us);
    void (*withdrawn)(void *context, struct link *link, uint64_t call);
    void (*up)(void *context, struct link *link);
    void (*down)(void *context, struct link *link, uint64_t now_us); /* its calls have ended */
    uint32_t payload_bytes;
    uint32_t places; /* of a channel; 0: exchange_users_places. The same at all nodes */
};

/* Who serves spaces: what comes of them (links_shell). */
struct exchange_spaces {
    void *context;
    void (*spaced)(void *context, struct link *link, const uint8_t *bytes, uint32_t count);
};

struct exchange_config {
    const struct members *members; /* outlives it */
    struct fabric *fabric;         /* of the lane; listens; not owned */
    struct store *store; /* of the lane; bound to the exchange by exchange_create; not owned */
    struct extent_set *extents;
    uint32_t lane;
    uint32_t lanes;
    uint32_t incarnation;
    uint32_t max_keys;                              /* of the directory */
    uint32_t requests, calls, queue, payload_bytes; /* of a channel; 0: defaults */
    uint32_t waits;                                 /* of all channels together; 0: default */
    uint32_t announcements; /* news for one home, LIMIT_ANNOUNCE_QUEUE at most; 0: default, and as
                               many as that for this node's own directory */
    uint32_t bulk_receives, bulk_bytes; /* 0: defaults */
    uint32_t shared_bulk; /* receives for the bulk messages of all links together; 0: the default,
                             which is that each link has its own up to LIMIT_UNSHARED_MEMBERS */
    uint32_t
        window_bytes;     /* of a window of EXCHANGE_PUSH: more than a wire_chunk has; 0: default */
    uint64_t chunk_bytes; /* of one READ, a power of two; 0: 1 MiB */
    uint32_t fanout;      /* pullers of one large object that are served here at once; more are sent
                             to these; 0: 2 */
    uint64_t tree_bytes;  /* objects from here on are large; 0: 4 MiB */
    uint64_t probe_bytes; /* of the smallest that is asked for to measure with; 0: 16 KiB */
    uint64_t pull_bytes;  /* of pulls under way at once; 0: a quarter of the lane's memory */
    enum exchange_path path;
    enum link_way calls_way; /* of what `users` call; LINK_AUTO only where the wire does it all */
    uint32_t ring_bytes;     /* for that; 0: exchange_users_ring */
    uint64_t loan_us; /* a loan whose puller was not heard of for so long is overdue: its link is
                         broken; 0: 10 s */
    uint64_t seed;
    const struct outside *outside;        /* copied; NULL: nodes keep the directory themselves */
    const struct exchange_calls *users;   /* copied; NULL: links have no endpoint for calls */
    const struct exchange_spaces *spaces; /* copied; NULL: links have no endpoint for them */
    bool views; /* the cluster agrees on views: no quorum until exchange_quorum says so */
};

nigh_status exchange_create(const struct exchange_config *config, struct exchange **exchange);
void exchange_destroy(struct exchange *exchange);

/* A pool of the store, and what the cluster calls it: equal for pools of the same name and rules.
 */
nigh_status exchange_pool_add(struct exchange *exchange, uint32_t pool, uint64_t cluster_pool);

/* What the node's control connections say. */
nigh_status exchange_peer_up(struct exchange *exchange, const struct link_peer *peer,
                             uint64_t now_us);
void exchange_peer_lost(struct exchange *exchange, uint32_t rank, uint64_t now_us);
void exchange_peer_dead(struct exchange *exchange, uint32_t rank, uint64_t now_us);

/*
 * Homes follow views (docs/views.md, docs/directory.md). An exchange begins with all members as
 * homes, which is all there is to it where nothing is agreed (epoch 0); with `views` set it begins
 * without quorum.
 *
 * exchange_view: what is agreed now, a later epoch or the same one that is active by now. From the
 * return on nothing is asked or answered as of an earlier view. Transfers go on. What this node was
 * the home of before, and is, it goes on to answer; what it became the home of when the view is
 * active, and when all members have announced what they hold.
 *
 * exchange_quorum: whether this node may ask and answer at all. Without, what waits for a home
 * waits, and ends NIGH_NO_QUORUM at its deadline; what is here is served.
 */
void exchange_view(struct exchange *exchange, const struct agreed *agreed, uint64_t now_us);
void exchange_quorum(struct exchange *exchange, bool quorum, uint64_t now_us);

/* Nodes other than this one that hold an object: some of them, where there are many. */
struct exchange_places {
    uint64_t data_size; /* of the object; 0 where nobody says */
    uint32_t count;
    uint32_t ranks[DIRECTORY_HOLDERS];
};

/* The end of a question; not from inside exchange_where, once. `places` is good until the return,
 * and empty unless the status is NIGH_OK. */
typedef void exchange_where_done(void *context, uint64_t token, nigh_status status,
                                 const struct exchange_places *places);

/*
 * Asks the home of an id where its object is. NIGH_OK: *places says it; NIGH_PENDING: `done`
 * follows, within `within_us`, and two seconds (0: those; on a server's word, always); NIGH_BUSY:
 * not known yet (members have yet to announce), or too many questions; NIGH_PEER_LOST: the home is
 * not to be reached; NIGH_TIMEOUT: nor does it answer. places->data_size is what this node knows by
 * itself, and stays so unless the home knows better.
 */
nigh_status exchange_where(struct exchange *exchange, uint32_t pool, const uint8_t *id,
                           uint64_t within_us, uint64_t now_us, struct exchange_places *places,
                           exchange_where_done *done, void *context, uint64_t token);

/* The end of a wait for replicas: how many nodes hold one, as far as is known. Not from inside
 * exchange_replicate, once. */
typedef void exchange_copies_done(void *context, uint64_t token, nigh_status status,
                                  uint32_t copies);

struct exchange_copies {
    uint32_t wanted; /* nodes that are to hold it, this one among them: 2 to LIMIT_REPLICAS */
    uint64_t deadline_us;
    exchange_copies_done *done;
    void *context;
    uint64_t token;
};

/*
 * Has other nodes hold an object that is here (docs/replicas.md), from now on. NIGH_PENDING: `done`
 * follows, with NIGH_OK, NIGH_TOO_FEW, NIGH_TIMEOUT, NIGH_NOT_FOUND (deleted meanwhile) or
 * NIGH_LIMIT; NIGH_NOT_FOUND: it is not here; NIGH_LIMIT: too many are, or wait.
 */
nigh_status exchange_replicate(struct exchange *exchange, uint32_t pool, const uint8_t *id,
                               const struct exchange_copies *asked, uint64_t now_us);

/* Why something cannot be handed over now. */
enum exchange_leave_why {
    EXCHANGE_LEAVE_NOBODY = 0, /* no other member is up that stays */
    EXCHANGE_LEAVE_NO_ROOM,
    EXCHANGE_LEAVE_QUOTA,
    EXCHANGE_LEAVE_NO_POOL, /* no member that is up has it */
    EXCHANGE_LEAVE_LIMIT,   /* of the tables of those who keep account */
    EXCHANGE_LEAVE_FAILED,  /* it could not be read here, or copied there, or not in time */
    EXCHANGE_LEAVE_WHYS
};

struct exchange_leave_count {
    uint64_t objects, bytes;
};

/* How a leave stands: of what is here and would be gone, or be on fewer nodes than was asked for.
 */
struct exchange_leaving {
    bool leaves;
    bool looks; /* not all was looked at yet */
    struct exchange_leave_count waiting, safe, stuck;
    struct exchange_leave_count alone; /* of waiting and stuck: no node that stays has it */
    uint64_t why[EXCHANGE_LEAVE_WHYS]; /* of stuck: objects */
};

/*
 * The node leaves (docs/leaving.md), or does not any more: its store takes nothing new, and what
 * only it holds is handed over. Again: all is looked at once more. It leaves as long as nobody says
 * otherwise.
 */
void exchange_leave(struct exchange *exchange, bool leaves, uint64_t now_us);
void exchange_leaving(const struct exchange *exchange, struct exchange_leaving *leaving);

/* The channel for calls to another node's lane that serves a hash; NULL: it is not up. */
struct rpc *exchange_users_channel(struct exchange *exchange, uint32_t rank, uint64_t hash);

/* Calls that such a channel has under way at most, urgent or not; and of all that it may have, with
 * its places for urgent ones alone. */
uint32_t exchange_users_places(const struct members *members);
uint32_t exchange_users_slots(uint32_t places);

/* Bytes of the ring that the peer of such a channel writes to, where one does: room for half of
 * those calls, of the longest. */
uint32_t exchange_users_ring(const struct members *members);

/* All of the lane's: for what it does to its own memory beside peers (links_fetch_add). */
struct links *exchange_lane_links(const struct exchange *exchange);

/* Posts what was begun on links outside of a turn. */
void exchange_flush(struct exchange *exchange);

/* Sends what was begun on such channels outside of a turn. */
void exchange_users_flush(struct exchange *exchange);

/* One turn, bounded; true if it found something to do. After the store's submissions. */
bool exchange_turn(struct exchange *exchange, uint64_t now_us);

/* The same for whom a turn found nothing to do and who has called nothing since, before
 * exchange_due_us is over, who might sleep as well: only looks at what other nodes send, and is
 * done when that is nothing. */
bool exchange_look(struct exchange *exchange, uint64_t now_us);

/* When it must be called next at the latest. */
uint64_t exchange_due_us(const struct exchange *exchange);

/* Numbers for stats, tests and metrics. */
struct exchange_stats {
    uint64_t links_up;
    uint64_t pulls, pulls_done, pulls_failed, pulls_merged, pulls_retried; /* ever */
    uint64_t pulls_reused; /* ended by what was held here already; ever */
    uint64_t pulls_now, pull_bytes_now;
    uint64_t pulled_bytes_two_sided, pulled_bytes_one_sided, pulled_bytes_pushed;
    uint64_t loans_now, loans_ever, loans_overdue;
    uint64_t served_bytes;
    uint64_t served_inline, served_streams, served_loans, served_pushes; /* by way; ever */
    uint64_t served_partial; /* of the loans, those of what was still being pulled; ever */
    uint64_t sent_on;        /* pullers, to others that pull; ever */
    uint64_t crc_failures;
    uint64_t calls_sent, calls_written; /* frames of calls of users; ever */
    uint64_t rings_full;                /* frames that a ring had no room for at once; ever */
    uint64_t region_posts;              /* READs, WRITEs, atomics of regions; ever */
    uint64_t region_post_bytes;         /* of them, but of atomics */
    uint64_t region_posts_low;          /* of them, over endpoints for low priority alone; ever */
    uint64_t region_ends;    /* endpoints for regions that ended without their link; ever */
    uint64_t links_writing;  /* links that are up over which they are written */
    uint64_t probes;         /* of what links cost; ever */
    uint64_t conflicts;      /* births that were not admitted */
    uint64_t shares_refused; /* requests beyond a node's share of loans, deletes or keys; ever */
    uint64_t claims_refused; /* announcements and the like that are not their sender's to make */
    uint64_t announcements_refused; /* for want of room at a home: told again later */
    uint64_t news_lost;     /* of what is gone, for want of room in a queue: all is told again */
    uint64_t registrations; /* of memory with the lane's fabric: one an extent, a link, ...; with
                               EXCHANGE_REGISTER one a loan, too; ever */
    struct replicas_stats replicas;
    uint64_t replicas_made; /* here, for others; ever */
    uint64_t replica_bytes; /* of copies that are held as such */
    struct directory_stats directory;
};

void exchange_stats(const struct exchange *exchange, struct exchange_stats *stats);

/* What a link costs. */
struct exchange_link_cost {
    uint32_t rank, rail;
    uint64_t crossover_bytes;                 /* CROSSOVER_NONE: it has none; 0: not known */
    uint32_t measured;                        /* probes of it that are over, */
    uint32_t to_measure;                      /* of so many */
    enum link_way calls_way;                  /* LINK_SEND or LINK_WRITE: how calls leave */
    uint64_t calls_sent_us, calls_written_us; /* what one took; both 0: not measured */
};

/* Those of the links that are up, `capacity` at most; how many. */
uint32_t exchange_links(const struct exchange *exchange, struct exchange_link_cost *costs,
                        uint32_t capacity);

/* What the exchange shows (docs/page.md), into memory of the lane's own. Transfers under way,
 * SESSION_SHOW_TRANSFERS_NOW at most, and *left more; then the last that ended, latest first: how
 * many records. */
uint32_t exchange_show_transfers(struct exchange *exchange, uint64_t now_us,
                                 struct session_show_transfer *records, uint64_t *left);
/* What links cost, from the nth on, SESSION_SHOW_LINKS at most; how many. *next: where to go on; 0:
 * those were the last. */
uint32_t exchange_show_curves(const struct exchange *exchange, uint64_t from,
                              struct session_show_curve *curves, uint64_t *next);

/* Measures links to a rank anew (UINT64_MAX: all), when nothing else goes over them.
 * NIGH_UNSUPPORTED: this node does not measure. */
nigh_status exchange_measure(struct exchange *exchange, uint64_t rank);

/* Nothing is under way: no pull, no loan, no call; for tests. */
bool exchange_is_idle(const struct exchange *exchange);
bool exchange_is_valid(const struct exchange *exchange);

#endif
