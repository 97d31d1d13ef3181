/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the exchange share. For no one else; the contract is exchange.h, the promises
 * are in docs/transfer.md. */
#ifndef OBJECT_EXCHANGE_INTERNAL_H
#define OBJECT_EXCHANGE_INTERNAL_H

#include "base/check.h"
#include "base/clock.h"
#include "base/heap_timer.h"
#include "base/list.h"
#include "base/random.h"
#include "cluster/share.h"
#include "object/crossover.h"
#include "object/exchange.h"
#include "object/exchange_wire.h"
#include "object/tree.h"

/* ---- figures -------------------------------------------------------------- */

#define EXCHANGE_QUEUE      8u    /* places of a link for calls that wait for a credit */
#define EXCHANGE_WAITS      512u  /* such places that all links of the lane share */
#define EXCHANGE_PAYLOAD    8448u /* an object of 8 KiB comes inline */
#define EXCHANGE_BULK_BYTES (32768u + (uint32_t)sizeof(struct wire_chunk))
#define EXCHANGE_WINDOW_BYTES \
    ((UINT32_C(1) << 18) + (uint32_t)sizeof(struct wire_chunk)) /* that a holder writes into */
#define EXCHANGE_CROSSOVER CROSSOVER_FIRST_BYTES
#define EXCHANGE_CHUNK     (UINT64_C(1) << 20) /* of one READ */
#define EXCHANGE_WINDOW    8u                  /* READs of one pull under way */
#define EXCHANGE_READS     64u                 /* of one link */
#define EXCHANGE_STREAM    8u                  /* messages granted to one pull at once */
#define EXCHANGE_OFFER     4u /* messages granted with a LOCATE, which may bring none */
#define EXCHANGE_KEYS      (1u << 20)
#define EXCHANGE_LENT      4096u /* chains of serves by object; a power of two */
#define EXCHANGE_DECLINES  64u   /* of a link, not said yet; more than it has calls under way */
#define EXCHANGE_PIECES    64u   /* of a loan that one reply tells; the rest is asked for again */
#define EXCHANGE_RUNS      64u   /* of such pieces that a lane keeps for the next loans */
/* Calls of a link that wait for no delete: a home may not answer those before it was told what is
 * news here, which takes a call. */
#define EXCHANGE_UNERASED 2u
#define EXCHANGE_SLICES   3u /* of a message: its head, and bytes that lie in two extents */

#define EXCHANGE_CALL_US     UINT64_C(2000000) /* deadline of a call to another exchange */
#define EXCHANGE_ERASE_US    UINT64_C(5000000) /* a delete waits for other nodes at most */
#define EXCHANGE_PAUSE_US    UINT64_C(1000)    /* before a pull tries again; doubled each time */
#define EXCHANGE_PAUSE_MAX   UINT64_C(100000)
#define EXCHANGE_ASK_US      UINT64_C(500000)  /* a waiting pull asks its home again */
#define EXCHANGE_AGAIN_US    UINT64_C(1000000) /* before a full home is told again; doubled */
#define EXCHANGE_AGAIN_MAX   UINT64_C(60000000)
#define EXCHANGE_CONFLICT_US UINT64_C(1000000) /* between lines of the log of what was dropped */
#define EXCHANGE_RENEW_US    UINT64_C(1000000) /* a puller says that it still reads */
#define EXCHANGE_LOAN_US     UINT64_C(10000000)
#define EXCHANGE_SUM_BYTES   (UINT64_C(1) << 18) /* summed for one loan in one turn */
#define EXCHANGE_TURN_PULLS  64u                 /* steps of pulls in one turn */
#define EXCHANGE_SPOILT \
    3u /* answers of other bytes, or of what cannot be read, before a pull gives up */
#define EXCHANGE_LOOKS   10u /* looks for such holders while a loan lasts */
#define EXCHANGE_CROWDED 4u  /* this part of a loan's time it has while other pulls wait for it */
#define EXCHANGE_SILENCE \
    3u /* times as long as loans last, a holder may do nothing for a transfer */

/* What a link keeps receives for, and how much news, by the number of members, which is the same at
 * all of them: with many peers each says less. */
struct exchange_window {
    uint32_t members; /* up to so many */
    uint32_t requests, calls, bulk_receives, announcements;
    uint32_t users; /* calls of everybody that the channel for calls has under way */
};

const struct exchange_window *exchange_window_of(const struct members *members);

/* ---- pools and links ------------------------------------------------------ */

struct exchange_pool {
    bool used;
    uint64_t cluster_pool;
};

/* What is to be announced to one home: a queue, and a walk through all that is here. */
struct announcer {
    struct wire_announce *queue; /* a ring */
    uint32_t size;
    uint32_t head;
    uint32_t count;
    uint32_t under_way; /* the first of the queue, in a call */
    uint64_t told;      /* of all that were in the queue, those that left it */
    bool walking;
    bool walk_again; /* the queue overflowed: from the start, when this walk is over */
    bool repeat;     /* the first walk after the link came up, or after ANNOUNCING: ends with
                        ANNOUNCED */
    bool lost;       /* news of what is gone were: the next walk begins with ANNOUNCING */
    bool begins;     /* it has to say that before it looks at anything */
    uint32_t pool;
    uint32_t cursor;
    uint64_t retry_us; /* the channel had no room: not before this */
    /* The home had no room: it is told of all that was born here once more. */
    bool again;             /* by the walk under way, up to the first that is refused */
    uint64_t again_us;      /* when that begins; 0: nothing was refused since the last */
    uint64_t again_wait_us; /* how long was waited for the last; 0: that had no refusal */
};

enum push_state {
    PUSH_FREE = 0,
    PUSH_GRANTED, /* its holder may write there */
    PUSH_FILLED   /* it has said that it did; what came is not copied yet */
};

/* A place in a link's staging memory that a holder may write one message to (exchange_push.c). */
struct push_window {
    enum push_state state;
    uint32_t serial; /* of its grants: an immediate is of the last one, or of none */
    uint64_t tag;    /* of the pull that it was granted for */
};

/* Where the peer of a link may write: memory of its own, under a key of its own. */
struct push_staging {
    struct fabric_memory *memory;
    uint8_t *bytes;
    uint32_t stride;
    uint32_t next;                /* after the one that was granted last */
    struct push_window windows[]; /* config.bulk_receives */
};

/* A message as it came: in a receive, or in a window. */
struct bulk_message {
    const uint8_t *bytes; /* the peer may still write there, if there is a window */
    uint32_t count;
    struct push_window *window; /* NULL: it was sent */
};

/* A transfer that is not wanted, and whose holder was not told yet. */
struct declined {
    uint64_t serve;
    enum wire_method method;
};

/* What a peer asked to be sent, to measure with. */
struct probed {
    uint64_t tag;
    uint32_t bytes;
    uint32_t part; /* of each message */
    uint32_t sent;
};

/* Views that differ from the one for which everybody was heard, with it. */
#define EXCHANGE_VIEWS 8u

/* Which view an exchange goes by (exchange_view.c). */
struct exchange_views {
    uint64_t epoch;
    struct agreed_set in;
    bool is_active;
    bool is_settled; /* everybody was heard in it */
    bool quorum;
    /* The last view whose keys are all heard of, and those since: what a node was the home of in
     * each of them it never stopped to be. 0: it has to hear of everything. */
    struct agreed_set since[EXCHANGE_VIEWS];
    uint32_t count;
    uint64_t own_shards;
    uint64_t told;                   /* shards that all who count have announced in this view */
    uint64_t announced[LIMIT_NODES]; /* ... that each has */
    /* By epoch, for what the directory has yet to forget. */
    struct {
        uint64_t epoch;
        struct agreed_set in;
    } past[EXCHANGE_VIEWS];
};

/* A link that is up. */
struct exchange_link {
    struct exchange *exchange;
    struct link *link;
    uint32_t rank;
    uint64_t shards;    /* that it serves */
    uint64_t epoch;     /* that its peer goes by */
    bool owes_view;     /* its peer has yet to be told ours */
    bool in_view;       /* both go by the same, and may: homes are asked over it */
    bool is_introduced; /* it was, since it came up */
    bool is_met;        /* the directory knows that its peer is up */
    bool was_early;     /* its peer announced what it was too early for, in this walk of its */
    struct announcer announcer;
    struct list pulls;         /* that talk over it */
    struct list serves;        /* for its peer */
    struct list asked;         /* deletes of its peer that wait */
    struct list crowded;       /* erases for which there was no place among its calls */
    uint32_t erases;           /* its peer is asked for */
    uint32_t granted;          /* receives for bulk messages that pulls were given */
    uint32_t adrift;           /* of them, those of pulls that went on without them, */
    uint32_t adrift_windows;   /* and of such pulls that were pushed */
    struct bulk_message *held; /* config.bulk_receives, in order: came before the answer that says
                                  what they are a part of */
    uint32_t held_count;
    struct declined declined[EXCHANGE_DECLINES];
    uint32_t declined_count;
    struct push_staging *staging; /* NULL: nothing is pushed here */
    bool push_refused;            /* the peer cannot */
    uint64_t hear_call;           /* the peer waits for news that are under way; 0: it does not */
    uint64_t hear_mark;           /* until so many are told */
    struct list_node place;
    /* Of pulls that begin with a PULL, and of those that begin with a LOCATE. */
    struct crossover crossovers[2];
    uint32_t probe;          /* the next of them, */
    uint32_t probes;         /* of so many: these are over when they are equal */
    uint64_t probe_again_us; /* not before this */
    uint64_t probe_owed_tag; /* of a probe that was given up: */
    uint32_t probe_owed;     /* messages that may still come */
    bool probe_reads;        /* a READ that is not over, of this probe or of one given up */
    uint64_t probe_pause_us; /* and how long after that */
    struct probed probed;
    struct held_teller *replicas; /* exchange_replicas.h */
};

/* ---- pulls ---------------------------------------------------------------- */

enum pull_state {
    PULL_FREE = 0,
    PULL_READY,     /* in exchange.ready: something can be done */
    PULL_PAUSED,    /* until its timer */
    PULL_LOCATING,  /* a LOCATE is under way */
    PULL_WAITING,   /* the home will tell; its timer asks again */
    PULL_MEMORY,    /* waits for memory; in exchange.ready or a line of exchange.admission */
    PULL_ASKING,    /* a PULL is under way */
    PULL_STREAMING, /* messages come */
    PULL_READING,   /* READs are under way */
    PULL_SUMMING,   /* a DONE is under way: its reply has the sums */
    PULL_DRAINING,  /* given up, or to be tried elsewhere, once its READs are over */
    PULL_STATES
};

/* Where a loan lies; or one that is kept for the next. */
union piece_run {
    struct wire_piece pieces[EXCHANGE_PIECES];
    union piece_run *next;
};

struct pull {
    struct list_node bucket; /* of exchange.buckets; free list */
    struct list_node
        place; /* ready, a line of admission, a link's pulls; PAUSED, WAITING: resting, roused */
    struct timer timer;
    struct exchange *exchange;
    uint32_t generation;
    enum pull_state state;
    uint32_t pool;
    struct directory_key key;
    uint64_t hash;     /* of the id */
    uint64_t key_hash; /* of the key */
    uint32_t home;
    bool wanted;
    bool keep; /* by somebody who wants a copy */
    uint64_t deadline_us;
    uint32_t attempts;

    bool known; /* answer says where */
    struct directory_answer answer;
    uint32_t tried; /* bits of answer.holders */
    uint32_t holder;

    struct exchange_link *link; /* of the call, stream or reads under way */
    uint32_t asked_home;        /* by the last LOCATE */
    bool cut_off;               /* there is no quorum: the store knows, as it does of memory */

    bool has_memory;
    struct directory_object begun; /* whose bytes lie there */
    bool short_of;    /* memory: the store knows, and tells those who wait at their deadlines */
    bool is_next;     /* it was the first to wait for admission, and has its turn */
    bool in_line;     /* it waits for admission */
    uint64_t number;  /* of those that did: the lesser came first */
    bool admitted;    /* counted in exchange.pull_bytes */
    uint32_t charged; /* the rank of the holder whose share it is in */
    uint32_t entry;
    uint64_t offset;
    uint64_t bytes;   /* of memory */
    uint64_t content; /* of the object as it travels: data, metadata, name */

    uint64_t serve;       /* the holder's number; 0: none */
    union piece_run *run; /* READING: where it lies; NULL: no loan was read yet */
    uint32_t piece_count;
    uint32_t piece;    /* that the next READ is of */
    uint64_t piece_at; /* the offset that it begins at */
    uint64_t posted;   /* bytes asked for */
    uint64_t received; /* contiguous, and summed as far as they are data */
    uint32_t reads;    /* under way */
    uint32_t in_order; /* ... and those that were over before one that was posted first */
    uint32_t first_read, last_read; /* of these, while there are any */
    uint64_t renew_us;
    uint64_t heard_us; /* the holder did something for this transfer */
    uint32_t credits;  /* messages that the holder may still send */
    bool streams;      /* ASKING, LOCATING: for messages */
    bool pushes;       /* they are written into windows, one for each credit */
    uint32_t held;     /* LOCATING: messages that wait for its answer */
    bool last;         /* of them has come */
    uint32_t crc;
    struct wire_sums sums;
    uint32_t spoilt;

    uint64_t asked_us;  /* the first message to who serves it: its transfer is timed; 0: not */
    uint64_t crossover; /* what was said then; 0: nothing */
    bool located;       /* that message was a LOCATE */
    enum wire_way way;

    struct tree_climb climb;
    uint32_t children; /* serves of what lies here so far */
    bool sent;         /* the holders of the answer are those that a holder sent it to, */
    struct directory_answer told; /* and these are those that its home had told of */
    bool partial;                 /* READING: its loan may cover more when it asks */
    bool mixed;                   /* bytes came from who had not seen their sums agree */

    bool noted;   /* the home counts this node as a holder already */
    bool doubted; /* it may not any more, whatever it answered: it is told of a copy */
};

/* What pulls are admitted with (exchange_admission.c). */
struct admission {
    uint32_t others;                /* members but this one that are not dead */
    bool is_dead[LIMIT_NODES];      /* nobody has that rank, or it is dead */
    uint64_t bytes[LIMIT_NODES];    /* admitted, by the holder's rank */
    struct list lines[LIMIT_NODES]; /* pulls that wait, by the same, in order */
    uint32_t count;                 /* of those */
    uint64_t last_number;
};

/* A READ under way. */
struct pull_read {
    struct pull *pull; /* stays this one's until it has ended */
    uint64_t offset;
    uint64_t bytes;
    uint32_t next; /* free list, or posted after it by the same pull */
    bool is_over;  /* its bytes wait for those before them */
};

/* ---- serves --------------------------------------------------------------- */

struct serve {
    struct list_node place; /* of its link, or the free list */
    struct list_node work;  /* exchange.serving: something to send or to sum */
    struct list_node twin;  /* of exchange.lent: with others of its object */
    uint32_t generation;    /* 0: free and never used */
    struct exchange *exchange;
    struct exchange_link *link;
    bool used;
    uint32_t pool;
    uint32_t entry;
    uint64_t offset;
    uint64_t content; /* bytes that travel */
    uint64_t data_size;
    enum wire_way way;
    uint64_t tag;
    uint64_t sent;
    uint32_t credits;
    struct wire_window
        *windows;    /* PUSH: a ring of config.bulk_receives, `credits` of them granted */
    uint32_t window; /* the first */
    struct fabric_memory *memory; /* LOAN, with EXCHANGE_REGISTER: registered for it */
    uint32_t sends;               /* under way */
    uint64_t summed;
    uint32_t crc;
    struct wire_sums sums;
    uint64_t done_call; /* a DONE waits for the sums; 0: none */
    struct directory_object object;
    uint64_t ready;          /* LOAN: bytes that are there */
    uint64_t relay;          /* tag of the pull that these come with; 0: all are there */
    nigh_status cut;         /* why no more come; NIGH_OK: not so */
    struct list_node parked; /* of exchange.parked, with a call that waits for more or for sums */
    uint64_t parked_call;    /* wants to go on; 0: none */
    uint64_t parked_us;
    uint64_t from;     /* and from here */
    uint32_t guests;   /* pullers that were sent to its peer */
    bool stopped;      /* its puller wants no more messages */
    bool last;         /* the last message is sent */
    uint64_t heard_us; /* of a loan: its puller said something */
};

/* ---- deletes -------------------------------------------------------------- */

enum erase_state {
    ERASE_FREE = 0,
    ERASE_READY,
    ERASE_PAUSED,
    ERASE_ASKED
};

/* A delete of what this home does not know, until everybody was heard. */
struct unheard {
    struct list_node place; /* a hearing's `now` or `next` */
    struct directory_key key;
    uint64_t ticket;
};

/* What a home asks of all members before it says that there is no such object. */
struct hearing {
    struct list now;  /* deletes that wait for the answers under way */
    struct list next; /* and those that came since these were asked for */
    uint32_t awaited;
    bool is_unsure;    /* somebody cannot say, or was not asked */
    uint64_t own_mark; /* this node's own news are told when so many are */
};

/* A delete that a client of this node asked for. */
struct erase {
    struct list_node place; /* ready list, free list, or `crowded` of a link */
    struct timer timer;
    struct exchange *exchange;
    uint32_t generation; /* grows with every use of the record */
    enum erase_state state;
    uint32_t pool;
    struct directory_key key;
    uint64_t hash;
    uint32_t home;
    bool had;                   /* an object of the id was here, and is deleted */
    bool is_heard;              /* all members were, since the directory outside knew of none */
    bool is_unsure;             /* and one of them could not say */
    struct exchange_link *link; /* ASKED, of another node */
    struct unheard unheard;
    uint64_t deadline_us;
};

/* A DELETE of a peer that waits for holders. */
struct asked_delete {
    struct list_node place;     /* of its link; free list */
    struct exchange_link *link; /* NULL: gone; its answer goes nowhere */
    uint64_t call;
    uint32_t rank;
    struct unheard unheard;
};

/* A DROP under way, or one for this node itself that waits for its turn. */
struct drop {
    struct list_node place; /* local_drops; free list */
    struct exchange *exchange;
    uint32_t rank;
    struct directory_key key;
    struct birth birth;
};

#define EXCHANGE_PROBE_NUMBER UINT32_MAX /* low half of the tags of probes: no pull's */

/* The probe that is under way, of all links (exchange_probe.c). */
struct prober {
    uint8_t *memory;  /* that peers are sent and read; NULL: this node measures nothing */
    uint8_t *landing; /* where their bytes come to */
    struct fabric_memory *lent, *landing_memory;
    struct exchange_link *link; /* NULL: none is under way */
    uint32_t generation;
    enum wire_way way;
    uint64_t bytes;
    uint64_t received;
    uint32_t credits; /* messages that may still come */
    uint32_t crc;
    bool is_answered;
    uint64_t asked_us;
    uint64_t pulls;    /* ever, when it began */
    uint32_t wanting;  /* links that are not measured yet */
    uint32_t sending;  /* links whose peers are owed messages */
    uint64_t send_us;  /* when these are tried again */
    uint64_t again_us; /* when there is one that may be begun */
};

/* ---- a directory outside --------------------------------------------------- */

#define OUTSIDE_BATCH 64u /* news of what is here that are told at once */

/* What this lane has to do with it (exchange_outside.c). Every key's home is then this node. */
struct outside_side {
    struct outside with;
    bool used;
    uint32_t life;  /* that this lane knows; 0: it is not reached */
    uint32_t round; /* of its BEGINs */
    bool is_ending;
    bool owes; /* drops that it has to be asked for */
    bool is_sweeping;
    uint32_t answers; /* of a batch under way */
    nigh_status statuses[OUTSIDE_BATCH];
    uint32_t incarnations[LIMIT_NODES]; /* of the members, as far as they were heard of */
    uint32_t graves[LIMIT_NODES];       /* up to these they are dead, which is to be told; 0: no */
    uint32_t swept;                     /* the rank that is */
};

/* ---- the exchange --------------------------------------------------------- */

#define EXCHANGE_BUCKETS 16384u

struct exchange {
    struct exchange_config config;
    struct links *links;
    struct exchange_calls users; /* with config.users */
    struct exchange_views views;
    struct directory *directory;
    struct outside_side outside;
    struct fabric_memory **memories; /* of the lane's extents, by their number in it; or NULL */
    struct extent_watch watch;
    uint8_t *arena;
    struct random random;
    struct exchange_pool pools[LIMIT_POOLS];
    struct list live;     /* links that are up */
    uint32_t granted;     /* receives that pulls were given, on all of them */
    bool is_short;        /* a pull was given less, since others have what is shared */
    struct announcer own; /* what this node's own directory is told */

    struct pull *pulls;
    uint32_t pulls_used;
    struct list free_pulls;
    struct list *buckets;
    struct list ready;
    struct admission admission;
    struct list resting[LIMIT_NODES]; /* pulls that are paused, or wait for their home; by home */
    struct list roused;               /* of those, whose home's link came up: ready soon */
    uint32_t short_pulls;             /* that found no memory, and try again */
    struct timers timers;
    struct timer **timer_storage;
    struct pull_read *reads;
    uint32_t reads_used;
    uint32_t free_read;
    union piece_run *free_runs; /* EXCHANGE_RUNS at most; more are allocated when they are needed */
    uint32_t free_run_count;
    uint32_t unwanted;   /* transfers that nobody waits for since the last turn */
    uint32_t declines;   /* struct declined, of all links */
    uint64_t decline_us; /* when they are tried again */
    uint64_t silent_us;  /* next look at transfers whose holder does nothing */

    struct serve *serves;
    uint32_t serves_used;
    struct list free_serves;
    struct share serve_shares;
    struct list serving;
    struct list lent[EXCHANGE_LENT]; /* by object */
    struct list parked;              /* serves that have something to wait for */
    uint64_t tree_us;                /* when these are looked at */
    uint64_t overdue_us;             /* next look at the loans' age */

    struct erase *erases;
    uint32_t erases_used;
    uint32_t erases_now;
    struct list free_erases;
    struct list erases_ready;
    struct timers erase_timers;
    struct timer **erase_storage;
    struct asked_delete *asked;
    uint32_t asked_used;
    struct list free_asked;
    struct share asked_shares;
    struct drop *drops;
    uint32_t drops_used;
    struct list free_drops;
    struct share drop_shares;
    struct list local_drops;
    struct hearing hearing;
    struct prober prober;
    uint64_t drop_us;      /* when what the directory owes is tried again */
    uint64_t drop_wait_us; /* and how long after that */

    uint64_t conflict_us;      /* when objects that were dropped are next in the log */
    uint32_t conflicts_unsaid; /* since they last were */
    uint64_t now_us;           /* of the call under way */
    uint32_t wheres;           /* questions of exchange_where.c under way */
    uint64_t inline_bytes;     /* largest object that fits a reply */
    struct replication *replication;
    struct exchange_stats counts;
};

/* ---- exchange.c ----------------------------------------------------------- */

/* The key of an id in a pool, its hash and home. */
void exchange_key(const struct exchange *exchange, uint32_t pool, const uint8_t *id,
                  struct directory_key *key, uint64_t *key_hash, uint32_t *home);
/* The pool of a key; false: this node has none such. */
bool exchange_pool_of(const struct exchange *exchange, const struct directory_key *key,
                      uint32_t *pool);
/* Whether a peer may speak to this node as the key's home, over this link: NIGH_OK; NIGH_BUSY: not
 * now, one of both goes by another view; NIGH_DENIED: no, and it is counted. */
nigh_status exchange_is_home(struct exchange_link *link, const struct directory_key *key);
/* The link to a rank that serves an id; NULL: none is up. */
struct exchange_link *exchange_link_to(struct exchange *exchange, uint32_t rank, uint64_t hash);
uint32_t exchange_self(const struct exchange *exchange);
uint32_t exchange_crc(uint32_t crc, const void *bytes, uint64_t count);
uint64_t exchange_tail_bytes(const struct directory_object *object);

/* ---- exchange_view.c ------------------------------------------------------ */

void views_init(struct exchange *exchange);
/* A link is up: its peer is told our view before anything else. */
void views_link_up(struct exchange_link *link);
/* Its peer tells its own. */
void views_on_request(struct exchange_link *link, const struct rpc_request *request);
/* Says what is owed; true if it did something. */
bool views_turn(struct exchange *exchange);
/* The home of a key in the present view. */
uint32_t views_home(const struct exchange *exchange, uint64_t key_hash);
/* Whether this node became the home of a key since everybody was heard, and may not admit anything
 * of it yet, as the view is not active. */
bool views_is_early(const struct exchange *exchange, const struct directory_key *key);
/* A member (or this node) has announced these shards to the end. */
void views_announced(struct exchange *exchange, uint32_t rank, uint64_t shards);
/* Something that a peer announced was refused: it comes again, with all that it has. */
void views_refused_early(struct exchange_link *link);
/* The directory hears that its peer is up, once. */
void views_meet(struct exchange_link *link);
/* Who counts has changed. */
void views_find_told(struct exchange *exchange);
/* For the directory. */
bool views_untold(void *context, uint32_t from, const struct directory_key *key);
bool views_keeps(void *context, uint64_t epoch, const struct directory_key *key);

/* ---- exchange_memory.c ---------------------------------------------------- */

nigh_status memory_init(struct exchange *exchange);
void memory_fini(struct exchange *exchange);
/* The registration that an offset of the arena lies in, and how much of it is left there. */
struct fabric_memory *memory_at(const struct exchange *exchange, uint64_t offset, uint64_t *left);
/* Bytes of the arena as slices, cut where extents end; how many they are. */
uint32_t memory_slices(const struct exchange *exchange, uint64_t offset, uint64_t bytes,
                       struct fabric_slice *slices, uint32_t most);
/* The same as peers name them; what does not fit into `most` is left out. */
uint32_t memory_pieces(const struct exchange *exchange, uint64_t offset, uint64_t bytes,
                       struct wire_piece *pieces, uint32_t most);

/* A registration for one loan, and the piece that it is to peers. */
nigh_status memory_lend(const struct exchange *exchange, uint64_t offset, uint64_t bytes,
                        struct fabric_memory **memory, struct wire_piece *piece);

/* ---- exchange_push.c: windows --------------------------------------------- */

/* Staging memory for a link that has come up. NIGH_UNSUPPORTED: the fabric has no immediate data.
 */
nigh_status push_init(struct exchange_link *link);
/* Its endpoints are destroyed: nothing lands there any more. */
void push_fini(struct exchange_link *link);
/* Whether what is pulled over the link is to be pushed. */
bool push_is_chosen(const struct exchange_link *link);
uint32_t push_free(const struct exchange_link *link);
/* Bytes of an object that a window takes. */
uint32_t push_room(const struct exchange *exchange);
/* Grants so many, which are free, for the pull of a tag; `windows` is how the peer names them. */
void push_grant(struct exchange_link *link, uint64_t tag, uint32_t count,
                struct wire_window *windows);
/* Nothing will be written there: the peer was not told of them, */
void push_take_back(struct exchange_link *link, const struct wire_window *windows, uint32_t count);
/* or says that it writes no more of that pull. */
void push_release(struct exchange_link *link, uint64_t tag);
/* How many of a pull the peer may still write to, or has written to. */
uint32_t push_count(const struct exchange_link *link, uint64_t tag);
/* The peer says that it has written `count` bytes. False: to no window that it was granted, or
 * said so before, or more than goes in. */
bool push_arrived(struct exchange_link *link, uint32_t imm, uint32_t count,
                  struct bulk_message *message);
/* What came there was taken: it may be granted again. */
void push_taken(struct push_window *window);

/* Windows that a puller grants to a serve. False: they are none, or no room for them. */
bool push_accept(struct serve *serve, const struct wire_window *windows, uint32_t count);
/* The one that the next message goes to. */
const struct wire_window *push_next(const struct serve *serve);

/* ---- exchange_announce.c -------------------------------------------------- */

nigh_status announcer_init(struct announcer *announcer, uint32_t size);
void announcer_fini(struct announcer *announcer);
/* Walks through all that is here; `repeat`: the link just came up. */
void announcer_walk(struct announcer *announcer, bool repeat);
/* There is a new view: copies that only an earlier home was to hear of go. */
void announce_homes_moved(struct exchange *exchange);
/* Sends, or carries out, what there is; true if it did something. */
bool announce_turn(struct exchange *exchange, uint64_t now_us);
uint64_t announce_due_us(const struct exchange *exchange);
/* Something is held, or no longer: to its home. */
void announce_object(struct exchange *exchange, uint32_t pool, const uint8_t *id, uint64_t hash,
                     const struct directory_object *object, uint32_t flags);
void announce_sealed(void *context, const struct store_sight *sight);
void announce_gone(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                   const struct birth *birth);
nigh_status announce_claim(void *context, const struct store_sight *sight, bool tell);
/* Requests of peers. */
void announce_on_request(struct exchange_link *link, const struct rpc_request *request,
                         uint64_t now_us);

/* ---- replicas: exchange_replicas.h has the rest ---------------------------- */

nigh_status replication_init(struct exchange *exchange);
void replication_fini(struct exchange *exchange);
void replication_pool_add(struct exchange *exchange, uint32_t pool);
struct held_teller *replication_make_teller(void);
void replication_link_up(struct exchange_link *link);
void replication_link_down(struct exchange_link *link);
void replication_member_dead(struct exchange *exchange, uint32_t rank);
/* Homes have moved, or a member counts again: others keep account of replicas. */
void replication_moved(struct exchange *exchange);
/* For replicas.h: whether a member keeps account of none. */
bool replication_is_out(void *context, uint32_t rank);
/* Something was sealed here. */
void replication_sealed(struct exchange *exchange, const struct store_sight *sight);
/* A birth is deleted here, or was dropped. */
void replication_gone(struct exchange *exchange, uint32_t pool, const uint8_t *id,
                      const struct birth *birth);
void replication_on_request(struct exchange_link *link, const struct rpc_request *request,
                            uint64_t now_us);
/* Whom to ask where a key is: its home, or while that is dead who keeps account of replicas. */
uint32_t replication_home(const struct exchange *exchange, uint64_t key_hash);
/* Whether this node is asked in a dead home's place; what it says then; and to a peer. */
bool replication_stands_in(const struct exchange *exchange, const struct directory_key *key);
void replication_locate(struct exchange *exchange, uint32_t asker, const struct directory_key *key,
                        struct directory_answer *answer);
bool replication_on_locate(struct exchange_link *link, const struct rpc_request *request,
                           const struct wire_locate *locate);
/* Whether a holder is to be pulled from before another: less is on its way from it, or its link is
 * the quicker by what was measured. */
bool replication_is_nearer(const struct exchange *exchange, const struct exchange_link *link,
                           const struct exchange_link *than);
bool replication_turn(struct exchange *exchange, uint64_t now_us);
uint64_t replication_due_us(const struct exchange *exchange);
bool replication_is_idle(const struct exchange *exchange);
bool replication_is_valid(const struct exchange *exchange);
void replication_stats(const struct exchange *exchange, struct exchange_stats *stats);

/* ---- exchange_hear.c ------------------------------------------------------ */

void hearing_init(struct hearing *hearing);
/* A delete at this home: as directory_delete, but NIGH_NOT_FOUND only once everybody was heard, by
 * erase_deleted; NIGH_BUSY if somebody could not be. `unheard` is the hearing's until then. */
nigh_status hear_delete(struct exchange *exchange, struct unheard *unheard,
                        const struct wire_delete *said, uint32_t asker, uint64_t ticket,
                        uint64_t now_us);
/* The delete is over before that; whether it waited. */
bool hear_forget(struct unheard *unheard);
bool hear_turn(struct exchange *exchange, uint64_t now_us);
uint64_t hear_due_us(const struct exchange *exchange);
/* A home asks. */
void hear_on_request(struct exchange_link *link, const struct rpc_request *request);
/* News were told: answers the home that waits for these. */
void hear_answer(struct exchange_link *link);

/* ---- exchange_probe.c ----------------------------------------------------- */

nigh_status probe_init(struct exchange *exchange);
void probe_fini(struct exchange *exchange);
void probe_link_up(struct exchange_link *link);
void probe_link_down(struct exchange_link *link);
bool probe_turn(struct exchange *exchange, uint64_t now_us);
uint64_t probe_due_us(const struct exchange *exchange);
/* A peer measures. */
void probe_on_request(struct exchange_link *link, const struct rpc_request *request,
                      uint64_t now_us);
/* A message with a tag of probes. False: it is none that was asked for. */
bool probe_on_message(struct exchange_link *link, const struct wire_chunk *chunk,
                      const uint8_t *bytes, uint64_t now_us);

/* ---- exchange_home.c ------------------------------------------------------ */

void home_on_locate(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us);
void home_on_unwait(struct exchange_link *link, const struct rpc_request *request);
void home_on_delete(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us);
void home_link_down(struct exchange_link *link);
nigh_status home_init(struct exchange *exchange);
void home_fini(struct exchange *exchange);
/* Drops of this node's own that its directory asked for. */
bool home_turn(struct exchange *exchange, uint64_t now_us);

/* ---- exchange_pull.c ------------------------------------------------------ */

nigh_status pulls_init(struct exchange *exchange);
void pulls_fini(struct exchange *exchange);
void pull_want(void *context, uint32_t pool, const uint8_t *id, uint64_t hash, uint64_t deadline_us,
               bool keep);
void pull_unwant(void *context, uint32_t pool, const uint8_t *id, uint64_t hash);
/* Its home (anybody else is not believed) says where an object is. */
void pull_found(struct exchange *exchange, uint32_t from, const struct directory_key *key,
                const struct directory_answer *answer);
void pull_link_down(struct exchange_link *link, uint64_t now_us);
/* The link to a home is up: who waits there asks again. */
void pull_home_up(struct exchange *exchange, uint32_t rank);
/* Homes have moved: those that wait for one ask the new one. */
void pull_homes_moved(struct exchange *exchange);
/* Whether there is a pull of a key. */
bool pull_is_under_way(struct exchange *exchange, const struct directory_key *key);
bool pull_turn(struct exchange *exchange, uint64_t now_us);
uint64_t pull_due_us(const struct exchange *exchange);
bool pulls_are_valid(const struct exchange *exchange);

struct directory_answer wire_to_answer(const struct wire_located *located);
struct wire_located wire_from_answer(const struct directory_answer *answer);

/* Shared by the two files of pulls. */
struct pull *pull_of_tag(struct exchange *exchange, uint64_t tag);
struct pull *pull_of_key(struct exchange *exchange, const struct directory_key *key);
/* It begins again, with other memory. */
void pull_drop_memory(struct exchange *exchange, struct pull *pull);
uint64_t pull_tag(const struct exchange *exchange, const struct pull *pull);
void pull_ready(struct exchange *exchange, struct pull *pull);
void pull_pause(struct exchange *exchange, struct pull *pull);
void pull_leave(struct exchange *exchange, struct pull *pull);
void pull_set_link(struct pull *pull, struct exchange_link *link, enum pull_state state);
void pull_set_timer(struct exchange *exchange, struct pull *pull, uint64_t after_us);
/* Memory for the object that the answer tells of, if not there yet: see store_pull_begin. */
nigh_status pull_take_memory(struct exchange *exchange, struct pull *pull);
/* The same with admission. False: the pull waits for it, or has ended. */
bool pull_get_memory(struct exchange *exchange, struct pull *pull);
/* Memory with bytes of another birth than the answer tells of goes. */
void pull_forget_memory(struct exchange *exchange, struct pull *pull);
/* The size from which on an object is to be lent rather than sent over a link, this time;
 * `located`: by a home that is asked where it is. */
uint64_t exchange_crossover(const struct exchange *exchange, struct exchange_link *link,
                            bool located);
/* This holder did not do: the next. */
void pull_next_holder(struct exchange *exchange, struct pull *pull);
/* There is no copy here, though its home was right to expect one: says so. Nothing if not noted. */
void pull_unnote(struct exchange *exchange, struct pull *pull);
/* There is a copy here now: says so, unless its home has noted it. */
void pull_announce(struct exchange *exchange, struct pull *pull);
/* This node says of a key that it does not hold it: what its home noted before is not true any
 * more. */
void pull_doubt(struct exchange *exchange, const struct directory_key *key);
/* Or will say so of all that it does not name again. */
void pull_doubt_all(struct exchange_link *link);
/* Ends a pull that has nothing under way. */
void pull_end(struct exchange *exchange, struct pull *pull);

/* ---- exchange_admission.c ------------------------------------------------- */

void admission_init(struct exchange *exchange);
/* A member is dead, or is there (again). */
void admission_member(struct exchange *exchange, uint32_t rank, bool is_dead);
/* Admits the bytes of a pull, whose holder is chosen. False: it has to wait. */
bool admission_take(struct exchange *exchange, struct pull *pull);
void admission_give(struct exchange *exchange, struct pull *pull);
/* The pull has another holder, perhaps: its bytes are in that one's share now. */
void admission_move(struct exchange *exchange, struct pull *pull);
/* It stands in line from here on, in no other list; and no more. */
void admission_wait(struct exchange *exchange, struct pull *pull);
void admission_leave(struct exchange *exchange, struct pull *pull);
/* The first of those that wait, if it would be admitted now. */
struct pull *admission_next(const struct exchange *exchange);
bool admission_is_valid(const struct exchange *exchange);

/* ---- exchange_transfer.c: the bytes of a pull ----------------------------- */

uint8_t *transfer_place(const struct exchange *exchange, const struct pull *pull, uint64_t offset);
/* Sums data among the bytes that have just come, in order. */
void transfer_sum(struct exchange *exchange, struct pull *pull, uint64_t offset, uint64_t bytes);
/* All bytes are there, nothing is under way, and the holder's sums are known. */
void transfer_finish(struct exchange *exchange, struct pull *pull);
/* Says that a transfer is over: no more messages of a stream are wanted (what was granted for it is
 * adrift), or a loan is. False: the channel is full. */
bool transfer_say_over(struct exchange_link *link, enum wire_method method, uint64_t serve,
                       uint64_t now_us);
/* What the channel has no room for is said in a while; or its link ends, and takes the pull on. */
void transfer_later(struct exchange *exchange, struct pull *pull);
/* Memory is there, a holder is chosen: asks it. False: cannot now. */
bool transfer_ask(struct exchange *exchange, struct pull *pull, uint64_t now_us);
/* The answer of a holder, to a PULL or to a LOCATE. */
void transfer_pulled(struct exchange *exchange, struct pull *pull, const uint8_t *payload,
                     uint32_t bytes, uint64_t now_us);
/* The timer of a transfer, which could not go on when it would have. */
void transfer_look_again(struct exchange *exchange, struct pull *pull, uint64_t now_us);
/* Tells holders of what is not wanted, for which their channels had no room. */
void transfer_say_declined(struct exchange *exchange, uint64_t now_us);
/* Gives a transfer up: at once, or when its READs have ended and the holder can be told. */
void transfer_stop(struct exchange *exchange, struct pull *pull);

/* Now, or in a while: the pull goes on without what a holder lends or sends it. */
void transfer_decline(struct exchange_link *link, enum wire_method method, uint64_t serve,
                      uint64_t now_us);
/* Asks for what there is of a partial loan by now. False: the channel is full. */
bool transfer_ask_more(struct exchange *exchange, struct pull *pull, uint64_t now_us);

/* ---- exchange_reads.c: what is lent --------------------------------------- */

/* Copies the pieces of an answer. NIGH_PROTOCOL: they are not what they should be;
 * NIGH_NO_RESOURCES. */
nigh_status reads_take_pieces(struct pull *pull, const struct wire_pulled *pulled,
                              const uint8_t *pieces, uint32_t bytes);
/* The pieces are there, and right. */
void reads_begin(struct exchange *exchange, struct pull *pull, struct exchange_link *link,
                 const struct wire_pulled *pulled, uint64_t now_us);
/* More READs of a pull, as far as its window goes. */
void reads_go_on(struct exchange *exchange, struct pull *pull, uint64_t now_us);
/* A pull that was given up, or whose loan covers no more of it, and whose READs are over. */
void reads_drained(struct exchange *exchange, struct pull *pull, uint64_t now_us);
/* Where its loan lay is not needed any more. */
void reads_give_run(struct exchange *exchange, struct pull *pull);
void reads_free_runs(struct exchange *exchange);

/* ---- exchange_messages.c: what is sent, or written into windows ----------- */

/* How many messages a pull may be sent on top: as its bytes need, and as receives are free; where
 * it is pushed, to which windows. */
uint32_t messages_grant(struct exchange_link *link, struct pull *pull, struct wire_window *windows);
/* Grants messages for an object of which no more is known than its id, as far as receives are free:
 * the home that holds it may send them at once. Those that are pushed go to `windows`. */
void messages_offer(struct exchange_link *link, struct pull *pull, struct wire_window *windows);
/* The question with the offer was not asked. */
void messages_unoffer(struct exchange_link *link, struct pull *pull);
/* What a LOCATE or PULL granted, and its answer, which is none, has not used. */
void messages_unspent(struct pull *pull, nigh_status status, uint64_t now_us);
/* Receives for a probe: of the half that is not kept for pulls of what is known. False: so many are
 * not free. */
bool messages_take(struct exchange_link *link, uint32_t count);
/* Receives that were granted are free. */
void messages_drop(struct exchange_link *link, uint32_t count);
/* How many a link may ever have granted. */
uint32_t messages_most(const struct exchange *exchange);
/* Wants more messages of a stream. One that may send none looks again in a while: its channel is
 * full, or all receives are granted to others, who perhaps give them back unused. */
void messages_ask_more(struct exchange_link *link, struct pull *pull, uint64_t now_us);
/* Messages are under way; some, or all, are here already. */
void messages_begin(struct exchange *exchange, struct pull *pull, struct exchange_link *link,
                    const struct wire_pulled *pulled, uint64_t now_us);
void messages_on_bulk(struct exchange_link *link, const uint8_t *bytes, uint32_t count,
                      uint64_t now_us);
/* The peer wrote a message into a window, and names that. */
void messages_on_push(struct exchange_link *link, uint32_t imm, uint64_t count, uint64_t now_us);
/* Messages that waited for the answer to a LOCATE, which has come. */
void messages_take_held(struct exchange_link *link, uint64_t now_us);
/* What of a link's receives pulls left behind that went on: of those that are pushed, and others.
 */
uint32_t *messages_adrift(struct exchange_link *link, bool pushed);

/* ---- exchange_serve.c ----------------------------------------------------- */

nigh_status serves_init(struct exchange *exchange);
void serves_fini(struct exchange *exchange);
/* Serves an object to a peer, in a reply to its call, to a LOCATE or to a PULL. windows: what a
 * WIRE_PUSH goes to at first, `credits` of them. notes: this is the home, and may count the peer as
 * a holder. NIGH_OK: replied; else nothing was said. */
nigh_status serve_reply(struct exchange_link *link, uint64_t call, const struct wire_pull *wanted,
                        const struct wire_window *windows, bool notes, uint64_t now_us);
/* Copies the windows out that follow `head_bytes` of a request. False: they are not as many. */
bool serve_windows(const struct rpc_request *request, uint32_t head_bytes, uint32_t count,
                   struct wire_window windows[WIRE_WINDOWS]);
void serve_on_pull(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us);
void serve_on_more(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us);
void serve_on_done(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us);
void serve_link_down(struct exchange_link *link);
bool serve_turn(struct exchange *exchange, uint64_t now_us);
uint64_t serve_due_us(const struct exchange *exchange);

/* Serves of one object, among others. */
struct list *serve_lent(struct exchange *exchange, uint32_t pool, uint32_t entry);
struct serve *serve_of_number(struct exchange_link *link, uint64_t number);
/* A serve of what a pull has so far, which is lent already. NULL: the peer has enough. */
struct serve *serve_of_pulled(struct exchange_link *link, const struct wire_pull *wanted,
                              const struct pull *pull, uint64_t now_us);
/* What is there of a loan from an offset on. */
void serve_reply_loan(struct serve *serve, uint64_t call, struct wire_pulled *pulled,
                      uint64_t from);
/* Answers the DONE that waits; the serve ends. */
void serve_answer_done(struct exchange *exchange, struct serve *serve);
void serve_over(struct exchange *exchange, struct serve *serve);

/* ---- exchange_tree.c: large objects that many pull ------------------------- */

/* Whether a whole object has as many pullers, besides who asks, as it may have at once. */
bool tree_is_full(struct exchange_link *asker, const struct directory_key *key,
                  const struct directory_object *object);
/* Sends who asks for it on, if so. */
bool tree_send_on(struct exchange_link *asker, uint64_t call, const struct wire_pull *wanted,
                  const struct store_sight *sight, const struct directory_object *object);
/* Whether others may be lent what a pull has so far. */
bool tree_is_lendable(const struct exchange *exchange, const struct pull *pull);
/* Serves what is being pulled here, as far as it has come. NIGH_OK: replied. */
nigh_status tree_serve(struct exchange_link *link, uint64_t call, const struct wire_pull *wanted,
                       uint64_t now_us);
/* More of a loan. NIGH_OK: replied, or will be. */
nigh_status tree_extend(struct exchange_link *link, uint64_t call, const struct wire_pull *wanted,
                        uint64_t now_us);
/* A DONE waits until the sums have agreed here. */
void tree_park_done(struct serve *serve, uint64_t now_us);
/* A serve ends: nothing of it waits any more. */
void tree_serve_ended(struct exchange *exchange, struct serve *serve);
/* A pull has come further; is whole, and right; or lets its memory go, and why. */
void tree_advanced(struct exchange *exchange, struct pull *pull);
void tree_whole(struct exchange *exchange, struct pull *pull);
void tree_cut(struct exchange *exchange, struct pull *pull, nigh_status why);
/* What came is not what was sealed: it begins again. */
void tree_spoil(struct exchange *exchange, struct pull *pull);
bool tree_turn(struct exchange *exchange, uint64_t now_us);
/* A holder sends the pull on to others. */
void tree_sent_on(struct exchange *exchange, struct pull *pull, const uint8_t *payload,
                  uint32_t bytes, uint64_t now_us);
/* None of those that it was sent to serves it: it goes back to who sent it. False: it was not. */
bool tree_back(struct exchange *exchange, struct pull *pull);
/* All that a partial loan covers has come: asks for more, or leaves. */
void tree_go_on(struct exchange *exchange, struct pull *pull, uint64_t now_us);
/* Its holder gives no more. */
void tree_seat_lost(struct exchange *exchange, struct pull *pull, nigh_status status,
                    uint64_t now_us);

/* ---- exchange_erase.c ----------------------------------------------------- */

nigh_status erases_init(struct exchange *exchange);
void erases_fini(struct exchange *exchange);
bool erase_begin(void *context, uint32_t pool, const uint8_t *id, uint64_t hash, nigh_status local);
uint32_t erase_room(void *context);
void erase_deleted(struct exchange *exchange, uint64_t ticket, nigh_status status);
void erase_link_down(struct exchange_link *link);
void erase_on_drop(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us);
bool erase_turn(struct exchange *exchange, uint64_t now_us);
uint64_t erase_due_us(const struct exchange *exchange);
bool erases_are_idle(const struct exchange *exchange);

/* Tickets of directory_delete: whose delete it is. */
#define EXCHANGE_TICKET_PEER (UINT64_C(1) << 63) /* asked_delete; else erase */

/* ---- exchange_outside.c --------------------------------------------------- */

void outside_init(struct exchange *exchange);
bool outside_turn(struct exchange *exchange);
uint64_t outside_due_us(const struct exchange *exchange);

/* False: it is not reached, or has enough to do. */
bool outside_ask(struct exchange *exchange, struct outside_ask *ask);

static inline bool outside_is_up(const struct exchange *exchange)
{
    return exchange->outside.life != 0;
}

void outside_peer_up(struct exchange *exchange, const struct link_peer *peer);
void outside_peer_dead(struct exchange *exchange, uint32_t rank);

/* Whose an answer is. */
enum outside_use {
    OUTSIDE_FOR_NEWS = 1, /* token: the place in the batch */
    OUTSIDE_FOR_END,
    OUTSIDE_FOR_PULL,  /* its tag */
    OUTSIDE_FOR_WHERE, /* its address */
    OUTSIDE_FOR_ERASE, /* its ticket */
    OUTSIDE_FOR_SWEEP, /* the rank */
    OUTSIDE_FOR_OWED,
    OUTSIDE_FOR_NOBODY
};

/* exchange_announce.c */
void announce_outside_begins(struct exchange *exchange);
void announce_outside_told(struct exchange *exchange, uint64_t now_us);
void announce_outside_ended(struct exchange *exchange, const struct outside_news *news);

/* exchange_pull.c */
void pull_told(struct exchange *exchange, const struct outside_news *news);
void pull_rouse(struct exchange *exchange, const struct directory_key *key);

/* exchange_where.c */
void where_told(struct exchange *exchange, const struct outside_news *news);

/* exchange_erase.c */
void erase_told(struct exchange *exchange, const struct outside_news *news);
void erase_heard(struct exchange *exchange, uint64_t ticket, bool is_unsure, uint64_t now_us);

#endif
