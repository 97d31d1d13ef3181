/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the store share: its books, and the functions by which one file calls another.
 * Not for anyone else; the contract is store.h, the promises are in docs/objects.md.
 *
 * Every object has an index entry (shared memory, read by clients) and a record of the same number
 * (the lane's own). What the entry says is what a restart finds; what the record says is made again
 * from the entries.
 */
#ifndef OBJECT_STORE_INTERNAL_H
#define OBJECT_STORE_INTERNAL_H

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/heap_timer.h"
#include "base/limits.h"
#include "base/list.h"
#include "memory/heap.h"
#include "object/evict.h"
#include "object/index_writer.h"
#include "object/pin_scan.h"
#include "object/store.h"

/* No entry, in the lists of records: entry 0 is one. */
#define STORE_NONE UINT32_MAX

/* ---- records ---- */

/* Bits of store_record.flags. */
#define RECORD_WRITING 1u  /* a disk job reads its memory */
#define RECORD_READING 2u  /* a disk job reads the file into its memory; the entry is SPILLED */
#define RECORD_ON_DISK 4u  /* its file is written, whether its memory is still there or not */
#define RECORD_WRITTEN 8u  /* stands in store.written */
#define RECORD_COPYING 32u /* CREATED, and being copied to be sealed */
#define RECORD_SECOND  32u /* SPILLED and DOOMED: another birth of its id was admitted */
#define RECORD_ASKED                                                                          \
    16u /* DELETING, and its DELETE waits for the answer; CREATED, and its SEAL waits for the \
           home; SPILLED and being read, and another node has asked for it */
#define RECORD_DOOMED                                                                           \
    64u /* SPILLED and being read: dropped as soon as that has ended; CREATED, and another node \
           has the id now: its seal is refused */
#define RECORD_TRANSIENT \
    128u /* DELETING, because all who wanted it want no copy: others may be served with it */

/* The lane's books of one entry. All zero: nothing is known, the entry is FREE. */
struct store_record {
    uint32_t block; /* of the heap, and one; 0: no memory */
    uint32_t next;  /* entry, and one, in the list it is in: see store_list */
    uint32_t prev;
    uint32_t chain;     /* entry, and one: the next shadow of the bucket */
    uint32_t near_next; /* entry, and one: others whose memory begins in the same extent */
    uint32_t near_prev;
    uint32_t serial; /* of the session that made it; 0: nobody */
    uint16_t maker;  /* its slot */
    uint8_t readers; /* checksums under way, and loans */
    uint8_t flags;   /* RECORD_* */
};

_Static_assert(sizeof(struct store_record) == 32, "docs/objects.md promises this");

/*
 * A list through records: what a session has created, what it made that is in memory, copies, the
 * graveyard, what was written. A record is in one at most. Ends hold entry and one.
 */
struct store_list {
    uint32_t first;
    uint32_t last;
    uint32_t count;
};

/* ---- pools ---- */

#define STORE_SHADOW_BUCKETS 4096u /* of created and deleting objects, which no slot names */

struct store_pool {
    struct store_pool_config config;
    struct index_writer writer;
    struct store_record *records;
    struct evict evict;
    void *evict_storage;
    uint64_t policy_bytes;                  /* the memory that the policy was last told it has */
    uint32_t shadows[STORE_SHADOW_BUCKETS]; /* entry and one */
    struct list sessions;
    struct list subscribers;
    struct pin_table *tables; /* LIMIT_SESSIONS; those of the sessions, without gaps */
    uint32_t table_count;
    struct store_list graveyard; /* DELETING, until nobody pins or reads it */
    struct store_list copies;    /* sealed, in memory, oldest first */
    uint64_t copies_shun_us;     /* none of them could be evicted: not before this */
    uint32_t node_heap;          /* STORE_NONE until first used */
    uint64_t bytes;              /* in objects in memory, created ones included */
    uint64_t kept_bytes;         /* of sealed objects in memory that KEEP holds there */
    uint64_t writing_bytes;      /* of disk jobs under way */
    uint64_t passing_bytes;      /* in objects that the lane itself holds: see store_passing */
    uint64_t objects, objects_unsealed, objects_spilled, objects_deleting;
    bool adopted; /* from a former node, and not yet known what is whose */
};

/* ---- sessions ---- */

struct store_lease {
    uint32_t entry; /* STORE_NONE: this lease is not in use */
    uint32_t pieces;
    uint32_t blocks[LIMIT_LEASE_PIECES];
    uint32_t rest; /* block, and one: the first of a chain, through the blocks' tags, of what was
                      refused, and what a former node left of it in more pieces than it can have */
    uint64_t offset;
    uint64_t bytes;
    uint64_t left; /* bytes of the pieces and of the rest */
};

struct store_session {
    struct store_session_config config;
    struct store_pool *pool;
    struct list_node pool_place;
    struct list_node subscriber_place;
    struct list waiters;
    uint32_t serial;
    uint32_t heap;  /* STORE_NONE until first used */
    uint32_t table; /* of pool->tables */
    struct store_list unsealed;
    struct store_list made; /* sealed, in memory, oldest first */
    struct store_lease leases[LIMIT_LEASES_A_SESSION];
    uint32_t last_lease; /* in which bytes were found: more of it are likely wanted next */
    uint64_t quota_bytes;
    _Atomic uint64_t own_used; /* stands in where the node gives no word to count in */
    uint64_t counted_bytes;    /* this lane's part of *config.quota_used */
    uint64_t leased_bytes;
    uint32_t pin_cursor; /* where to look for a free lane pin */
    uint32_t replay;     /* next entry to replay */
    bool replaying;
    bool hears_conflicts; /* NIGH_EVENT_CONFLICT */
    bool judged;          /* the shell was asked to end it */
    uint32_t hints_seen[LIMIT_PIN_CHUNKS];
};

/* ---- waiters ---- */

enum store_wait {
    STORE_WAIT_NONE = 0,
    STORE_WAIT_ID,     /* for a seal of the id */
    STORE_WAIT_MEMORY, /* for memory, an entry or quota */
    STORE_WAIT_PINS,   /* a delete, for the next look at the pins */
    STORE_WAIT_WORK,   /* a long operation that goes on a piece a turn */
    STORE_WAIT_ERASE,  /* a delete, for the other nodes */
    STORE_WAIT_CLAIM,  /* an exclusive create, or its seal, for the home of its id */
};

struct store_waiter {
    struct list_node place; /* bucket, memory queue, deletes, works or free list */
    struct list_node session_place;
    struct timer timer;
    struct session_sqe sqe;
    uint64_t hash;
    uint64_t deadline_us;
    uint64_t bytes;      /* MEMORY: wanted */
    uint64_t spent;      /* MEMORY: evicted for it in vain */
    uint64_t done_bytes; /* WORK: so far */
    uint32_t session;
    uint32_t heap;  /* MEMORY: of which; STORE_NONE: of none */
    uint32_t entry; /* PINS, CLAIM, and a checksum: of which */
    uint32_t block; /* WORK, a copy: where to */
    uint32_t crc;
    uint32_t barren;   /* WORK: turns without success */
    nigh_status late;  /* what it is told at its deadline */
    nigh_status local; /* ERASE: what came of it here */
    enum store_wait wait;
    bool wants;  /* ID: there is no sealed object here, so other nodes are asked */
    bool busy;   /* CLAIM: the home did not know when it was asked last */
    bool behind; /* ERASE: it came while another of the id was under way, and is yet to begin */
};

#define STORE_WAIT_BUCKETS 16384u

/* A queue for memory up to this long is looked through whenever someone leaves it. */
#define STORE_SHORT_QUEUE 64u

/* Leases together take no more than this share of a lane's memory: idle ones help nobody. */
#define STORE_LEASED_SHARE 4u

/* Shares of a lane's memory: less free than the first, and it evicts ahead until the second is. */
#define STORE_LOW_SHARE  32u
#define STORE_HIGH_SHARE 16u

/* Ahead of need no object goes that takes more than this share of the second of them. */
#define STORE_AHEAD_EACH_SHARE 4u

/* Files that may be under way when more are begun ahead of need: the rest of the disk's queue is
 * for who waits. */
#define STORE_AHEAD_WRITING (LIMIT_SPILL_QUEUE / 2 - LIMIT_EVICT_BATCH)

/* Where nothing may be evicted ahead of need it is tried again less and less often, at last after
 * LIMIT_RETRY_US times two to this power, halved; and when somebody does need room. */
#define STORE_AHEAD_BARREN 10u

/* Room that is kept in one piece where memory is in pieces: for the next lease or two. */
#define STORE_GATHER_BYTES (2 * LIMIT_LEASE_BYTES_MIN)

/* Who is above a quota loses at least this share of it, if so much is unused. */
#define STORE_QUOTA_SHARE 64u

/* So much of an extent is evicted here and there, in vain, before a whole one is emptied. */
#define STORE_SCATTER_SHARE 8u

/* What emptying one run costs more than emptying extents here and there, in this share of an extent
 * for each, is what moving their memory is worth. */
#define STORE_MOVING_SHARE 8u

/* From this size on, and half an extent, it is asked first whether an object could fit at all. */
#define STORE_FIT_BYTES LIMIT_LEASE_BYTES_MAX

/* Objects that a look for what stays in memory reads at most, where no pin tells. */
#define STORE_FIT_RECORDS 4096u

/* A large object costs others at most so many times its size if it does not fit after all. */
#define STORE_SPENT_SHARE 4u

/* Long operations that get on in one turn. */
#define STORE_TURN_WORKS 8u

/* The policy is told of another size when it is off by more than this share of it. */
#define STORE_POLICY_SHARE 16u

/* How long a reading of the wall clock serves. */
#define STORE_WALL_US 1000000u

/* Waiting claims are looked at so often, and asked for again if their home did not know yet. */
#define STORE_CLAIM_US 20000u

/* ---- other nodes ---- */

/* Failures of reads that a holder remembers until it is asked for the object again. */
#define STORE_LOST_READS 16u
#define STORE_LOST_US    LIMIT_UNSPILL_US /* who asks later asks for a new attempt */

struct store_lost_read {
    uint64_t generation; /* 0: none */
    uint64_t at_us;
    uint32_t pool;
    nigh_status status;
};

/* Pulls that did not fit yet, of which it is known what was evicted for them in vain. */
#define STORE_SPENT_PULLS 8u
#define STORE_SPENT_US    1000000u /* and that is forgotten when nobody asks for so long */

struct store_spent {
    uint64_t hash;
    uint64_t bytes;
    uint64_t asked_us;
};

/* ---- extents ---- */

/* What lies in an extent, as far as emptying it goes. */
struct store_extent {
    uint64_t live_bytes;   /* in blocks that are not free */
    uint64_t shun_us;      /* somebody pinned something in it: not before this */
    uint64_t backed_bytes; /* of them, of objects whose file is there as well */
    uint32_t obstacles;    /* blocks, and leases, in it that cannot be evicted: unsealed, kept,
                              deleting, read by a job */
    uint32_t first;        /* record whose memory begins here, and one */
    /* What the last look (store_fit.c) found that stays: the first and the last of it. */
    uint64_t fixed_begin;
    uint64_t fixed_end; /* 0: nothing */
};

/* Classes of the sizes of objects: so many for each doubling. */
#define STORE_CLASS_SHIFT 2u
#define STORE_CLASS_SPLIT (1u << STORE_CLASS_SHIFT)
#define STORE_CLASSES     (64u << STORE_CLASS_SHIFT)

/* ---- the store ---- */

/* Most pins one session can hold in this lane. */
#define STORE_SESSION_PINS (LIMIT_PIN_CHUNKS * LIMIT_PINS_A_CHUNK + LIMIT_LANE_PINS)

struct store {
    struct store_config config;
    struct heaps *heaps;
    struct store_pool *pools[LIMIT_POOLS];
    struct store_session *sessions[LIMIT_SESSIONS];
    uint32_t pool_count;
    uint32_t session_count;
    uint32_t next_serial;
    bool adopting; /* pools were adopted, and sessions may still be announced */
    bool has_remote;
    struct store_remote remote;
    struct store_lost_read lost[STORE_LOST_READS];
    uint32_t lost_next;
    struct store_spent spent[STORE_SPENT_PULLS]; /* by the hash of the id */

    struct store_waiter *waiters;
    struct list *buckets;
    struct list free_waiters;
    struct list memory_queue;
    struct list deletes;
    struct list claims; /* those that wait for homes */
    uint64_t claim_us;  /* when they are asked for again */
    uint32_t claimed;   /* entries that are created and claimed */
    struct list works;
    struct timers timers;
    struct timer **timer_storage;
    uint32_t waiters_used; /* records from here on were never used */
    uint32_t waiting;
    uint32_t waiting_for_id;
    uint32_t
        erases_due; /* deletes that wait, and are yet to begin at other nodes: they have room */
    /* Of the memory queue, a heap: how many wait, and the least that one wants. */
    uint32_t heap_waiting[LIMIT_HEAPS_A_LANE];
    uint64_t heap_least[LIMIT_HEAPS_A_LANE];

    uint64_t memory_bytes; /* of the lane's extents */
    uint64_t used_bytes;   /* in blocks that are not free */
    uint64_t leased_bytes;
    uint64_t unsealed_bytes;
    uint64_t spilled_bytes;        /* of files */
    uint64_t writing_bytes;        /* of files under way */
    uint32_t writing;              /* how many */
    bool reading_back;             /* the call under way wants memory to read back to */
    bool reserve_open;             /* and may write into the reserve for it */
    uint32_t sizes[STORE_CLASSES]; /* objects in memory or on disk, by the class of their size */
    uint64_t low_bytes;            /* free memory below this: begin to evict ahead */
    uint64_t high_bytes;
    bool leaves;       /* takes nothing new, */
    uint64_t left_us;  /* since then */
    bool ahead;        /* evicting ahead of need */
    bool memory_freed; /* since the memory queue was last tried */
    bool pins_changed; /* a session ended: its pins are gone */
    /* Nothing could be evicted for this heap: do not try again before this. */
    uint64_t heap_barren_us[LIMIT_HEAPS_A_LANE];
    uint64_t unmoved_us; /* until then no memory is moved: the machine gave none for it */
    /* The last look found no place for so much in this heap: do not look again before this. */
    uint64_t unfit_bytes;
    uint64_t unfit_us;
    uint32_t unfit_heap;
    uint32_t ahead_barren;
    /* The heap that last needed a whole extent for something small, and its owner. */
    uint32_t scattered_heap; /* STORE_NONE: none */
    uint64_t scattered_owner;
    bool gathering;    /* the next extent is being emptied ahead of need */
    uint64_t ahead_us; /* nor ahead of need before this */
    uint64_t retry_us; /* when the memory queue is tried again at the latest */
    uint64_t grave_us;
    uint64_t disk_look_us; /* nobody asks the disk what it has free before this */
    uint64_t disk_bytes;   /* what files might take of it, when it was last asked */
    uint64_t disk_rest_us; /* the disk failed: no writes before this */
    uint64_t replay_us;
    uint64_t index_told_us; /* nothing is said of a full index before this */
    uint64_t judge_us;      /* no looking for who holds too much before this */
    uint32_t rounds;        /* batches that the call under way may still evict */
    uint32_t graves;        /* in all pools */
    uint32_t replays;       /* sessions that are being replayed to */

    uint64_t now_us;     /* of the call under way */
    uint64_t wall_at_us; /* wall_ns was read at this time */
    uint64_t wall_ns;

    nigh_node_stats counts; /* only what counts up */
    struct store_extent *extents;
    struct pin_scan scan;
    uint32_t victims[LIMIT_EVICT_BATCH];
    uint32_t written[LIMIT_SPILL_QUEUE]; /* entries whose file is there: to leave memory next */
    uint32_t written_pool[LIMIT_SPILL_QUEUE];
    uint32_t written_count;
    uint32_t *held; /* STORE_SESSION_PINS entries, for who and holders */
};

/* ---- one submission ---- */

/* A submission as it is carried out, now or again later. */
struct store_call {
    struct store *store;
    struct store_session *session;
    struct store_pool *pool;
    const struct session_sqe *sqe;
    struct store_waiter *waiter; /* NULL the first time */
    uint64_t hash;               /* of the id, where the operation has one */
    uint64_t deadline_us;
    struct session_cqe cqe;
    /* For NIGH_PENDING: */
    enum store_wait wait;
    uint32_t heap;
    uint64_t bytes;
    uint64_t spent; /* evicted in vain so far */
    uint32_t entry;
    uint32_t block; /* of a copy under way */
    nigh_status late;
    nigh_status local; /* with STORE_WAIT_ERASE */
    bool wants;
    bool behind;
};

/* NIGH_PENDING: it waits as the call says; anything else is its end. */
typedef nigh_status store_operation(struct store_call *call);

/* store_create.c, store_seal.c */
store_operation store_lease, store_lease_close, store_reserve, store_create_object, store_abort;
store_operation store_seal;
/* store_get.c */
store_operation store_get, store_contains, store_stat, store_refresh, store_keep, store_unkeep;
/* store_delete.c, store_evict.c, store_spill.c, store_who.c, store_session.c */
store_operation store_delete, store_evict, store_checksum, store_who, store_holders;
store_operation store_stats_reply, store_subscribe, store_unsubscribe, store_quota;

/* ---- entries ---- */

static inline struct index_entry *store_entry(const struct store_pool *pool, uint32_t entry)
{
    return &pool->writer.index.entries[entry];
}

static inline enum index_state store_state(const struct store_pool *pool, uint32_t entry)
{
    return index_word_state(index_word_at(&pool->writer, entry));
}

static inline uint64_t store_generation(const struct store_pool *pool, uint32_t entry)
{
    return index_word_generation(index_word_at(&pool->writer, entry));
}

static inline bool store_has_flag(const struct store_pool *pool, uint32_t entry, uint16_t flag)
{
    return (shared_load_relaxed(&store_entry(pool, entry)->flags) & flag) != 0;
}

/* Whether it is somewhere else, too: pulled from there, and not handed over. */
static inline bool store_is_mere_copy(const struct store_pool *pool, uint32_t entry)
{
    return (shared_load_relaxed(&store_entry(pool, entry)->flags) &
            (INDEX_FLAG_COPY | INDEX_FLAG_GIVEN)) == INDEX_FLAG_COPY;
}

/* Bytes that an entry's object takes in memory, or in a file. */
static inline uint64_t store_object_bytes(const struct store_pool *pool, uint32_t entry)
{
    const struct index_entry *at = store_entry(pool, entry);

    return index_object_bytes(at->data_size, at->meta_size, at->name_size);
}

static inline uint64_t store_hash(const struct store_pool *pool, uint32_t entry)
{
    return hash_id20(store_entry(pool, entry)->id);
}

/* Whether something of the lane itself reads the entry's memory. */
static inline bool store_is_read(const struct store_record *record)
{
    return record->readers > 0 || (record->flags & (RECORD_WRITING | RECORD_READING)) != 0;
}

static inline bool store_spills(const struct store *store)
{
    return store->config.shell.disk != NULL;
}

static inline uint64_t store_free_bytes(const struct store *store)
{
    return store->memory_bytes - store->used_bytes;
}

/* The numbers of the lane's extents: from the first up to, not including, the end. */
static inline uint32_t store_extents_first(const struct store *store)
{
    return extent_lane_first(store->config.extents, store->config.lane);
}

static inline uint32_t store_extents_end(const struct store *store)
{
    return store_extents_first(store) + store->config.extents->lane[store->config.lane].used;
}

/* ---- store_record.c ---- */

void store_list_push(struct store_pool *pool, struct store_list *list, uint32_t entry);
/* list NULL: its owner is gone, and the list goes on without ends. */
void store_list_remove(struct store_pool *pool, struct store_list *list, uint32_t entry);

/* The session that made an entry, if it is still there. */
struct store_session *store_maker(const struct store *store, const struct store_record *record);

/* Shadows: created objects that claim nothing, and deleting ones. */
void store_shadow_add(struct store_pool *pool, uint64_t hash, uint32_t entry);
void store_shadow_remove(struct store_pool *pool, uint64_t hash, uint32_t entry);
bool store_shadow_find(struct store_pool *pool, const uint8_t *id, uint64_t hash, uint32_t *entry);
/* The first of a hash's bucket, and one; the rest by their chain. Others' may be among them. */
uint32_t store_shadow_first(const struct store_pool *pool, uint64_t hash);

/* Counts bytes of the arena as live, or no more. */
void store_live(struct store *store, uint64_t offset, uint64_t bytes, bool live);
/* Counts (1) or discounts (-1) something that keeps extents from being emptied. */
void store_obstacle(struct store *store, uint64_t offset, uint64_t bytes, int change);
void store_object_obstacle(struct store *store, struct store_pool *pool, uint32_t entry,
                           int change);
/*
 * The lane itself begins (1) or ends (-1) to hold an object where it is: pulled or read back to be
 * sealed, read for another node or a checksum. That ends without anybody's doing. Its memory is
 * bound all the while.
 */
void store_passing(struct store *store, struct store_pool *pool, uint32_t entry, int change);

/* Counts what is in memory and on disk as well, and so may leave memory without a write; it has
 * both when this is called. */
void store_backed(struct store *store, const struct store_pool *pool, uint32_t entry, bool backed);

/* Blocks: what store_block_take gives counts as live; give is its end. */
nigh_status store_block_take(struct store *store, uint32_t heap, uint64_t bytes, uint32_t *block);
void store_block_give(struct store *store, uint32_t block);

/* The memory of an entry, from when it has one until it is given back (returns its bytes). */
void store_memory_bind(struct store *store, struct store_pool *pool, uint32_t entry,
                       uint32_t block);
uint64_t store_memory_unbind(struct store *store, struct store_pool *pool, uint32_t entry);
uint64_t store_memory_bytes(const struct store *store, const struct store_pool *pool,
                            uint32_t entry);

/* The list of what is sealed and in memory that an entry is in; NULL: of none with ends. */
struct store_list *store_list_of(struct store *store, struct store_pool *pool, uint32_t entry);

/* Checksums and loans, which need an entry's memory to stay where it is. False: too many. */
bool store_reader_enter(struct store *store, struct store_pool *pool, uint32_t entry);
void store_reader_leave(struct store *store, struct store_pool *pool, uint32_t entry);

/* What a session's quota counts. */
void store_charge(struct store_session *session, uint64_t bytes);
void store_discharge(struct store_session *session, uint64_t bytes);

/* Wall clock, within a microsecond or so a second. */
uint64_t store_wall_ns(struct store *store);

/* Tells the pool's subscribers. Before the entry is released. */
void store_say(struct store *store, struct store_pool *pool, uint32_t entry, nigh_event_kind kind);

/* ---- store_wait.c ---- */

nigh_status store_wait_init(struct store *store);
void store_wait_fini(struct store *store);

/* Whether one more operation may wait. */
bool store_may_wait(const struct store *store);

/* Makes a call wait as it says: NIGH_PENDING, or how it ends at once instead. */
nigh_status store_park(struct store_call *call);

/* Carries out again, from the start, what waits; it ends or waits on. */
void store_try_again(struct store *store, struct store_waiter *waiter);

/* Ends what waits. `cqe` may be NULL. */
void store_end_wait(struct store *store, struct store_waiter *waiter, nigh_status status,
                    const struct session_cqe *cqe);

/* Those who wait for an id: tries them again, or ends the gets among them. */
void store_wake_id(struct store *store, struct store_pool *pool, const uint8_t *id, uint64_t hash);
void store_fail_id(struct store *store, struct store_pool *pool, const uint8_t *id, uint64_t hash,
                   nigh_status status);

/* The bucket of those who wait for an id (ID, ERASE), and of others; whether one does. */
struct list *store_bucket_of(struct store *store, uint64_t hash);
bool store_waits_for(const struct store *store, const struct store_waiter *waiter,
                     const struct store_pool *pool, const uint8_t *id, uint64_t hash);
/* A delete that is decided here waits for the other nodes from now on. */
void store_wait_erase(struct store *store, struct store_waiter *waiter, nigh_status local,
                      bool behind);

nigh_status store_cancel(struct store_call *call);
void store_forget_waits(struct store *store, struct store_session *session);

/* Whether a newcomer would pass someone of the same heap who wants as little or less. */
bool store_must_queue(const struct store *store, uint32_t heap, uint64_t bytes);

/* Parts of a turn. */
void store_expire_waits(struct store *store);
void store_serve_queue(struct store *store);

/* ---- store.c ---- */

/* A pool with empty books, known to the store. */
nigh_status store_pool_begin(struct store *store, const struct store_pool_config *config,
                             struct store_pool **pool);

void store_complete(struct store *store, const struct store_session *session,
                    struct session_cqe *cqe, nigh_status status);
void store_pool_end(struct store *store, struct store_pool *pool);

/* Hashes the id of a call's submission; false: it is another lane's. */
bool store_take_id(struct store_call *call);
/* Carries out a call whose store, session, sqe, waiter and deadline are set. */
nigh_status store_carry_out(struct store_call *call);

/* ---- store_memory.c ---- */

/*
 * A block for the call, made room for if `evict` and need be; else NIGH_PENDING, with the call set
 * to wait for it (NIGH_OUT_OF_MEMORY when no wait could help, NIGH_LIMIT for a heap too many).
 */
nigh_status store_obtain(struct store_call *call, uint64_t owner, uint64_t bytes, bool evict,
                         uint32_t *block);
/* The same without waiting and without the queue. *spent: bytes evicted for it so far. */
nigh_status store_obtain_now(struct store *store, struct store_pool *pool, uint64_t owner,
                             uint32_t heap, uint64_t bytes, bool evict, uint64_t *spent,
                             uint32_t *block);

/*
 * A block of the node's heap of the pool for what no session asks for: NIGH_PENDING when there is
 * none yet (to be asked again, with the same *spent), NIGH_OUT_OF_MEMORY when it can never be.
 */
nigh_status store_obtain_unasked(struct store *store, struct store_pool *pool, uint64_t bytes,
                                 uint64_t *spent, uint32_t *block);
/* Makes room in the pool's quota for bytes that no session pays for: NIGH_PENDING, NIGH_QUOTA. */
nigh_status store_fit_pool(struct store *store, struct store_pool *pool, uint64_t bytes);
/* A block that was not needed after all: no reason for others to try again at once. */
void store_block_return(struct store *store, uint32_t block);

/* Where memory is in pieces: empties the next extent, one batch a turn, before it is needed. */
void store_gather(struct store *store);

/* An entry of the pool's index, evicting if need be; else NIGH_LIMIT. */
nigh_status store_obtain_entry(struct store *store, struct store_pool *pool, bool evict,
                               uint32_t *entry);

/*
 * Counts bytes against the quotas of the call's session and pool; makes room there if need be.
 * NIGH_QUOTA: nothing is counted; NIGH_PENDING: room is being made on disk, the call is set to
 * wait. What was counted is the object's (store_memory_bind) or goes back (store_discharge).
 */
nigh_status store_obtain_quota(struct store_call *call, uint64_t bytes, bool evict);

/* The heap of the session, or of the node in the pool, opened at first use. */
nigh_status store_session_heap(struct store *store, struct store_session *session, uint32_t *heap);
nigh_status store_node_heap(struct store *store, struct store_pool *pool, uint32_t *heap);

/* ---- store_fit.c ---- */

/* Whether so much could be had in a heap if all that may leave did. Looks at all pins. */
bool store_may_fit(struct store *store, uint32_t heap, uint64_t owner, uint64_t bytes);
/* How much; *between: and perhaps so much within one extent. */
uint64_t store_most_bytes(struct store *store, uint64_t owner, uint64_t *between);

/* ---- store_evict.c ---- */

/* What an attempt to evict came to. */
struct store_evicted {
    uint64_t bytes;      /* freed */
    uint64_t here_bytes; /* of them, of the owner asked about */
    uint32_t pinned;     /* or read by the lane: others may be free */
    uint32_t started;    /* disk writes */
    uint64_t started_bytes;
};

/* One batch of the policy's victims, up to wanted bytes. Needs, and uses up, one of store->rounds.
 */
void store_evict_round(struct store *store, struct store_pool *pool, uint64_t wanted,
                       uint64_t owner, struct store_evicted *evicted);
/* What a pool's objects could take of the lane's memory as things are: what others leave, within
 * its quota. */
uint64_t store_policy_bytes(const struct store *store, const struct store_pool *pool);
/* What evicting from a pool should yield beyond what is wanted: to have memory free again, but no
 * more than such a share of what is the pool's. */
uint64_t store_reserve_bytes(const struct store *store, const struct store_pool *pool);
/* Evicts these SEALED entries, none of them kept or read, all different; at most a batch. */
void store_evict_these(struct store *store, struct store_pool *pool, uint32_t *entries,
                       uint32_t count, uint64_t owner, struct store_evicted *evicted);
/* One batch of copies, oldest first: false when none could go. */
bool store_evict_copies(struct store *store, struct store_pool *pool, uint64_t wanted,
                        uint64_t owner, struct store_evicted *evicted);
/* One batch of what was read back and has a file still: false when none could go. */
bool store_evict_backed(struct store *store, struct store_pool *pool, uint64_t wanted,
                        uint64_t owner, struct store_evicted *evicted);
/* One batch of what a session made, oldest first. */
void store_evict_made(struct store *store, struct store_session *session, uint64_t wanted,
                      struct store_evicted *evicted);
/* Empties one extent as far as one batch goes. True: nothing lives in it. */
bool store_empty_extent(struct store *store, uint32_t extent, struct store_evicted *evicted);
/* Whether the next batch of emptying it (it has no obstacle) takes nothing that is new or large. */
bool store_is_spare_extent(const struct store *store, uint32_t extent);
/* Whom to take memory from when `pool` wants some. */
struct store_pool *store_victim_pool(struct store *store, struct store_pool *pool);
/* Evicting ahead of need, and whether that is due; a piece of a long EVICT. */
void store_evict_ahead(struct store *store);
bool store_evict_is_due(const struct store *store);
void store_evict_more(struct store *store, struct store_waiter *waiter);
/* Bytes that left a pool's memory where it spills: what EVICTs waited for. */
void store_evict_credit(struct store *store, const struct store_pool *pool, uint64_t bytes);

/* ---- store_spill.c ---- */

/* Whether writes may start: the disk is not resting after a failure. */
bool store_spill_may_start(const struct store *store);
/* Starts to write a sealed object out; false: not now. */
bool store_spill_start(struct store *store, struct store_pool *pool, uint32_t entry);
/* Starts to read a spilled one back, if nobody did: NIGH_PENDING with the call set to wait, or why
 * not. */
nigh_status store_unspill_start(struct store_call *call, uint32_t entry);
/* Reads a spilled one, which nobody does yet, into a block; false: not now. */
bool store_unspill_into(struct store *store, struct store_pool *pool, uint32_t entry,
                        uint32_t block);
/* Takes what is written out of memory. */
void store_spill_settle(struct store *store);
/* The file of an entry is not needed any more. again: the object lives, and may be written once
 * more. */
void store_spill_forget(struct store *store, struct store_pool *pool, uint32_t entry, bool again);
/* A piece of a long CHECKSUM. */
void store_checksum_more(struct store *store, struct store_waiter *waiter);

/* ---- store_claim.c ---- */

bool store_is_claim(const struct store_pool *pool, uint32_t entry);
/* Before an exclusive create takes anything: whether its claim has room. */
nigh_status store_may_claim(const struct store_call *call);
/* Asks for a claim; before a seal, whether it stands. NIGH_OK, or the call is set to wait. */
nigh_status store_claim(struct store_call *call, uint32_t entry);
nigh_status store_confirm_claim(struct store_call *call, uint32_t entry);
/* A created object as its client is told of it. */
void store_created_reply(const struct store_pool *pool, uint32_t entry, struct session_cqe *cqe);
/* Ends what waits for a home without one's grant, and its object. */
void store_end_claim(struct store *store, struct store_waiter *waiter, nigh_status status);
/* Part of a turn: asks again. */
void store_ask_again(struct store *store);

/* ---- store_reserve.c ---- */

uint32_t store_reserve_class(uint64_t bytes);
/* An object has memory or a file now (1), or neither any more (-1). */
void store_reserve_count(struct store *store, const struct store_pool *pool, uint32_t entry,
                         int change);
/* Whether an object of so many bytes may ever go to disk. */
bool store_reserve_takes(const struct store *store, uint64_t bytes);
/* What may be written still, by the bound and by what the disk has. */
uint64_t store_disk_room(struct store *store);
/* Whether puts left as much room on disk as reading back the largest object may need. */
bool store_reserve_is_whole(struct store *store);
void store_reserve_stats(const struct store *store, nigh_node_stats *stats);
/* Whether there is so much more that any object may still be written. */
bool store_reserve_has_more(struct store *store);
/* Whether the call under way may write so much out; may take so much memory. */
bool store_reserve_lets_write(struct store *store, uint64_t bytes);
bool store_reserve_lets_take(struct store *store, uint64_t bytes);

/* ---- store_create.c ---- */

/* Checks the sizes of a submission: the bytes its object takes, or 0. */
uint64_t store_sizes(const struct session_sqe *sqe);
/* Whose memory it becomes: what a session's writes go to, what only the node writes. */
uint64_t store_session_owner(const struct store_session *session);
uint64_t store_node_owner(const struct store_pool *pool);
/* Frees a CREATED entry. */
void store_discard(struct store *store, struct store_pool *pool, uint32_t entry);
/* Gives the entry, whose memory and lists are gone already, and its record back. */
void store_release(struct store_pool *pool, uint32_t entry);
void store_lease_end(struct store *store, struct store_session *session, struct store_lease *lease);
/* The books of a created object, from when its entry says so until before that changes. */
void store_created(struct store *store, struct store_pool *pool, struct store_session *session,
                   uint32_t entry, uint64_t hash);
void store_no_longer_created(struct store *store, struct store_pool *pool, uint32_t entry,
                             uint64_t hash);
/* The books of a lease: it begins without pieces. */
void store_lease_begin(struct store *store, struct store_lease *lease, uint32_t entry,
                       uint64_t offset, uint64_t bytes);
void store_lease_add_piece(struct store *store, struct store_session *session,
                           struct store_lease *lease, uint32_t block);
/* One that nothing is sealed from: it only stays the lease's until that ends. */
void store_lease_add_rest(struct store *store, struct store_session *session,
                          struct store_lease *lease, uint32_t block);
/* A lease of about `wanted` bytes, into the call's completion. */
nigh_status store_lease_grant(struct store_call *call, uint64_t wanted, bool evict);
/* What was just sealed: counts it, tells those who wait and those who watch. */
/* Whether what took so long to build may be sealed: all, but what was begun by a node that leaves.
 */
bool store_takes_sealed(const struct store *store, uint64_t build_ns);
/* What was given is a copy like others again. Nothing, if there is a file of it. */
void store_take_back(struct store_pool *pool, uint32_t entry);
void store_now_sealed(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash);

/* ---- store_get.c ---- */

/* The sealed or spilled object of a call's id; else NIGH_NOT_SEALED or NIGH_NOT_FOUND. */
nigh_status store_find_sealed(struct store_call *call, uint32_t *entry);
/* Ends the gets that wait for an entry's id to come from other nodes with views of it. */
void store_hand_out(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash);
/* The same, or a created or deleting one. */
bool store_find_any(struct store_call *call, uint32_t *entry);

/* ---- store_seal.c ---- */

/* Whether `ref` is an object that the call's session may seal or give up. */
bool store_is_unsealed(const struct store_call *call, uint64_t ref);
/* Gives up what a submission was to seal, if that is a created object: it ends without. */
void store_seal_failed(struct store_call *call);
/* A piece of a large copy; the end of one, whose block is still the waiter's. */
void store_copy_more(struct store *store, struct store_waiter *waiter);
void store_copy_stop(struct store *store, struct store_waiter *waiter);

/* ---- store_delete.c ---- */

/* The books of a deleting object; when it becomes another again. */
void store_deleting(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash);
void store_no_longer_deleting(struct store *store, struct store_pool *pool, uint32_t entry,
                              uint64_t hash);
/* Takes a sealed object in memory from all who come now; why: what those who watch are told. */
void store_bury(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash,
                nigh_event_kind why);
/* What becomes of it at once: NIGH_OK (gone), NIGH_IN_USE (at its last release). */
nigh_status store_end_buried(struct store *store, struct store_pool *pool, uint32_t entry);
/* The end of a spilled object that is not in memory. */
void store_end_spilled(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash,
                       nigh_event_kind why);
/* Frees what nobody holds any more of a pool's graveyard, for one of store->rounds. Whether any was
 * freed. */
bool store_empty_graves(struct store *store, struct store_pool *pool);
/* Looks at the pins of the graveyards, ends the deletes that wait for that. */
void store_visit_graves(struct store *store);

/* ---- store_remote.c ---- */

/* What a call of the other nodes that may free something begins with. */
void store_begin(struct store *store, uint64_t now_us);
/* An object as other nodes see it, and whether it is of a birth. */
struct store_sight store_sight_of(const struct store *store, const struct store_pool *pool,
                                  uint32_t entry, uint64_t hash);
bool store_is_birth(const struct store *store, const struct store_pool *pool, uint32_t entry,
                    const struct birth *birth);
/* What the other nodes hear of an object: that it was born; that it is no longer here (said while
 * it still is). */
void store_tell_sealed(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash);
void store_tell_gone(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash);
/* A spilled object could not be read back: its next borrower is told. */
void store_note_lost(struct store *store, const struct store_pool *pool, uint32_t entry,
                     nigh_status status);

/* ---- store_want.c ---- */

/* Asks other nodes for what somebody waits for; for what those wait for who wait for an id. */
void store_want(struct store *store, const struct store_waiter *waiter);
void store_want_id(struct store *store, struct store_pool *pool, const uint8_t *id, uint64_t hash);
/* Whether somebody waits for an id to come from other nodes. */
bool store_is_wanted(struct store *store, const struct store_pool *pool, const uint8_t *id,
                     uint64_t hash);
/* Sets and clears flags of a sealed object in memory or on disk, of which some keep it in memory.
 */
void store_set_stays(struct store *store, struct store_pool *pool, uint32_t entry, uint16_t set,
                     uint16_t clear);
/* The same; *keep: by somebody who wants a copy. */
bool store_is_wanted_how(struct store *store, const struct store_pool *pool, const uint8_t *id,
                         uint64_t hash, bool *keep);
/* Nobody does any more; the same if `waiter`, which is about to leave, is the last. */
void store_unwant_id(struct store *store, const struct store_pool *pool, const uint8_t *id,
                     uint64_t hash);
void store_unwant(struct store *store, const struct store_waiter *waiter);
/* Begins a delete at other nodes, or lets it stand behind one of the same id. False: there is
 * nobody to ask, and what came of it here is its end. */
/* Whether one more delete may begin: it has room at the other nodes when it comes to them. */
bool store_may_erase(const struct store *store);
bool store_erase(struct store *store, const struct store_pool *pool, const uint8_t *id,
                 uint64_t hash, nigh_status local, bool *behind);
/* A delete is forgotten before the other nodes were asked: they are, for nobody. */
void store_unerase(struct store *store, const struct store_waiter *waiter);

/* ---- store_pull.c ---- */

/* Nobody is served with the transient copies of a call's id any more. Whether some are held. */
bool store_end_transients(struct store_call *call);

/* ---- store_session.c ---- */

/* What no session of a pool can have mapped any more may be mapped for others. */
void store_forget_extents(struct store *store, const struct store_pool *pool);

/* A pin of the lane for the session: NIGH_LIMIT when none is free. */
nigh_status store_pin(struct store *store, struct store_session *session, uint32_t entry,
                      uint32_t *pin);
void store_drain_hints(struct store *store, struct store_pool *pool);
void store_replay(struct store *store);

/* ---- store_who.c ---- */

/* Somebody went without memory: looks for sessions that pin too much. */
void store_judge(struct store *store, struct store_pool *pool);

#endif
