/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster in one process: nodes with real stores, exchanges, links and directories over the
 * simulated fabric, clients that put, get and delete, and faults, all by one seed.
 *
 * No thread, no socket, no clock of the machine: the same seed gives the same run, byte for byte.
 * docs/simulation.md says what a run does and what must hold at its end.
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "base/random.h"
#include "cluster/members.h"
#include "cluster/peer.h"
#include "fabric/sim/sim.h"
#include "memory/extent.h"
#include "memory/index.h"
#include "object/exchange_internal.h"
#include "object/exchange_pull.h"
#include "object/store.h"
#include "rpc/collect_edges.h"
#include "trace.h"

#define WORLD_SESSIONS   2u
#define WORLD_LANES      4u /* most of a node */
#define WORLD_OPS        512u
#define WORLD_PINS       512u
#define WORLD_KEYS       32u
#define WORLD_PUTS       8192u  /* unless the options say so */
#define WORLD_EVENTS     16384u /* to come, besides two of each node for each other: connections */
#define WORLD_META_BYTES 48u
#define WORLD_POOLS      2u
#define WORLD_NO_POOL    UINT32_MAX
#define WORLD_UID        1000u /* of the first pool; the second has the next */
#define WORLD_NEVER      UINT64_MAX

/* ---- what is counted ------------------------------------------------------ */

enum world_fault {
    FAULT_CRASH = 0,
    FAULT_PAUSE,
    FAULT_CUT,
    FAULT_SLOW,
    FAULT_RESET, /* a control connection breaks, the fabric does not */
    FAULT_CLIENT,
    FAULT_EVICT,
    FAULT_STOP,      /* a node says goodbye */
    FAULT_ONE_WAY,   /* one node does not hear another, which hears it */
    FAULT_PARTITION, /* some nodes and the others do not hear each other */
    FAULT_SLUGGISH,  /* a node's lanes have few turns */
    FAULTS
};

/* What happens to a node while its pulls are in one state or another. */
enum world_moment {
    MOMENT_WANT = 0,
    MOMENT_CANCEL,
    MOMENT_DELETE,
    MOMENT_CLIENT_DIES,
    MOMENT_EVICT,
    MOMENT_PEER_LOST,
    MOMENT_PEER_DEAD,
    MOMENT_PEER_UP,
    MOMENT_CRASH,
    MOMENT_PAUSE,
    MOMENT_PEER_CRASH,
    MOMENT_STOP,
    MOMENT_PEER_STOP,
    MOMENTS
};

struct world_totals {
    uint64_t seeds, steps, events, puts, gets, deletes, cancels;
    uint64_t claims, claims_ok, claims_taken, claims_late, claims_lost;
    uint64_t gets_ok, gets_timeout, gets_other, gets_many, gets_passing;
    uint64_t deletes_ok, deletes_in_use, deletes_late, deletes_other;
    uint64_t pulls_done, pulls_retried, pulls_reused, inlines, streams, loans, partial, sent_on,
        pushes, overdue, conflicts, evictions;
    uint64_t checked_bytes, resurrected, dead_alive, news_lost, deletes_at_once;
    /* Of worlds with more in them than one pool in memory. */
    uint64_t kinds, spills, unspills, disk_failures, spilled_served, warm, readers_kept, resumed;
    uint64_t views, cut_off;
    uint64_t quotas, denied, named, strict, strangers, farewells;
    uint64_t faults[FAULTS];
    /* Of worlds with calls. */
    uint64_t call_worlds, calls, calls_any, calls_idempotent, calls_urgent, calls_one_way;
    uint64_t calls_ok, calls_no, calls_late, calls_canceled, calls_lost, calls_closed,
        calls_not_found, calls_busy;
    uint64_t ring_worlds, frames_sent, frames_written, rings_full;
    uint64_t calls_carried_out, calls_again, calls_in_calm, services;
    /* Of their collectives. */
    uint64_t many, many_reduces, many_refused_stale, many_busy, many_canceled, many_edges;
    uint64_t many_whole, many_answered, many_failed, many_unknown, many_unasked, many_passed_over,
        many_stale, many_carried_out, many_in_calm;
    /* Of worlds whose calls bring memory. */
    uint64_t memory_worlds, loans_of_calls, moves_of_calls, moves_pushed, moves_here, moves_refused;
    uint64_t moves_ok, moves_over, moves_canceled, moves_lost, moved_bytes;
    /* Of worlds whose members find out by datagrams who lives. */
    uint64_t swim_worlds, swim_datagrams, swim_deaths, swim_wrong, swim_refuted;
    /* Of worlds whose members agree on views by libraft. */
    uint64_t agree_worlds, agree_messages, agree_views, agree_out, agree_elections, agree_deposed,
        agree_leaders_ended, agree_lapses, agree_joins, agree_leaves, agree_lost, agree_calms;
    uint64_t seen[PULL_STATES][MOMENTS];
};

/* ---- clients -------------------------------------------------------------- */

/* A put that was begun, for ever: what its bytes must be. The number is its serial. */
struct world_put {
    uint32_t key;
    uint32_t node;
    uint64_t data_size;
    uint32_t meta_size;
    bool sealed;
    bool birth_known;
    bool exclusive;      /* and its seal, if that was OK, the only one till it was deleted */
    bool doomed;         /* a delete by a node that held it returned OK */
    bool second;         /* it was dropped, and its node was told that another's was first */
    bool to_revived;     /* ... and that had been deleted where it was not heard of */
    bool damaged;        /* a file of it was, on a disk */
    uint64_t epoch;      /* of the view that its node went by when it was created */
    uint64_t sealing_us; /* when its seal was asked for: a delete that ends later may take it */
    struct birth birth;
};

enum world_op_kind {
    OP_CREATE = 1,
    OP_SEAL,
    OP_GET,
    OP_DELETE,
    OP_OTHER
};

struct world_op {
    enum world_op_kind kind; /* 0: free */
    bool ended;
    bool submitted; /* a SEAL */
    bool resumes;   /* a SEAL that its node did not live to answer, or to get */
    bool exclusive; /* a CREATE */
    uint32_t node, session, lane, key;
    uint32_t serial; /* of a put; of a delete: what was here when it began, 0: nothing */
    uint32_t incarnation;
    uint64_t begun_us, deadline_us;
    uint64_t offset; /* of what it created */
    uint64_t ref;
    struct session_cqe cqe;
    nigh_status *result; /* of a question by the judge, or NULL */
    uint32_t *found;     /* the serial that a get found */
};

struct world_pin {
    bool used;
    uint32_t node, session, lane, pin, serial, key;
    uint64_t offset;
    uint64_t until_us;
};

struct world_session {
    void *memory; /* NULL: not attached */
    uint32_t pool;
    bool may_write;
    struct session_front *front;
    struct session_lane *lane[WORLD_LANES];
    struct pin_chunk *chunks;
    _Atomic uint64_t quota_used;
    uint64_t id;
    uint64_t next_us; /* its next step; NEVER: it has none */
    uint32_t steps;
};

/* ---- nodes ---------------------------------------------------------------- */

struct world_lane {
    struct world *world;
    uint32_t node, number;
    struct store *store;
    struct fabric *fabric;
    struct exchange *exchange;
    struct calls *calls;             /* NULL: a world without */
    struct collect_edges collect;    /* where there are calls */
    struct mover_memory *memory;     /* NULL: calls bring none */
    void *index_memory[WORLD_POOLS]; /* by the store's numbers */
    struct disk *disk;               /* NULL: the node does not spill */
    uint64_t quiet_until_us;         /* as a lane's; whoever calls its store or exchange ends it */
};

/* One side of a control connection. */
struct world_side {
    struct peer peer;
    uint64_t connection; /* 0: none */
    uint64_t tick_us;
};

struct world_node {
    bool alive;
    bool paused;
    bool ending;
    bool kept; /* dead, and the next life finds its memory again */
    uint32_t incarnation;
    uint32_t lanes;
    uint32_t pool_number[WORLD_POOLS]; /* what its stores call a pool; WORLD_NO_POOL: it has none */
    uint64_t awake_us;                 /* it was paused, or slow, until then */
    uint32_t slow_us;                  /* its lanes have a turn so seldom; 0: whenever they want */
    uint64_t turn_us;                  /* and none before this */
    uint64_t due_us;
    struct members members;
    struct extent_set *set;
    struct world_lane lane[WORLD_LANES];
    struct world_session sessions[WORLD_SESSIONS];
    struct world_side *sides; /* by rank */
    struct agreed adopted;
    bool has_lease;
    uint64_t evictions; /* of lives that are over */
};

/* ---- things to come ------------------------------------------------------- */

enum world_event_kind {
    EVENT_CONNECT = 1, /* a: dialler, b: the other; value: unused */
    EVENT_RESET,       /* a's side of its connection to b ends; value: the connection */
    EVENT_FAULT,
    EVENT_RESTART,        /* a */
    EVENT_RESUME,         /* a */
    EVENT_HEAL,           /* a, b: the cut */
    EVENT_QUICKEN,        /* a, b: the slow link */
    EVENT_SEAL,           /* a: an operation, value: the serial of its put */
    EVENT_GOODBYE,        /* a: who hears it, b: whose; value: the connection */
    EVENT_VIEW,           /* another view, or a node loses its lease */
    EVENT_DATAGRAM,       /* a: which flight of detect.c */
    EVENT_VIEW_HEARD,     /* a: who hears of the present one, and has a lease */
    EVENT_AGREE,          /* a member is to leave, or is not */
    EVENT_AGREE_MESSAGE,  /* a: which flight of agreeing.c */
    EVENT_HEAL_WAY,       /* a: who is heard again, b: by whom */
    EVENT_SPEED_UP,       /* a: is slow no more */
    EVENT_CALLS,          /* a: what a node does with calls and services */
    EVENT_ANSWER,         /* a: a request, value: its number: the service answers */
    EVENT_MOVE,           /* a: an order of mover.c, value: its number: a service moves memory */
    EVENT_COLLECTS,       /* a: what a node does with collectives */
    EVENT_COLLECT_ANSWER, /* a: a request of one, value: its number */
    EVENT_DISK            /* a: node, b: lane, value: its incarnation: a job ends */
};

struct world_event {
    uint64_t at_us;
    uint64_t sequence;
    enum world_event_kind kind;
    uint32_t a, b;
    uint64_t value;
};

/* ---- the world ------------------------------------------------------------ */

enum world_sizes {
    SIZES_MIXED = 0,
    SIZES_SAME, /* so that births are told apart by nothing else */
    SIZES_EDGE  /* about where lending begins */
};

/* What is in a world besides one pool in memory; chosen apart from everything else, so that a world
 * with nothing of it is the same with it. */
struct world_kind {
    bool plain; /* nothing */
    uint32_t pools;
    bool strict[WORLD_POOLS];
    uint64_t pool_quota[WORLD_POOLS];
    uint64_t session_quota;
    bool named;     /* every other key is a name's */
    bool has_guest; /* the last session of a node may not write */
    bool spills;
    uint64_t spill_bytes; /* of a lane */
    uint64_t disk_us;     /* a job takes up to so long */
    uint32_t disk_depth;
    uint32_t disk_fails_percent, disk_damages_percent;
    uint32_t warm_percent; /* of lives that end: memory outlives them */
};

/* What the members agree on, in worlds where they do. */
struct world_views {
    bool some;
    struct agreed agreed;
    uint64_t left; /* changes to come */
    uint32_t deaf; /* a node that hears of none, + 1 */
    struct random random;
};

struct world_options {
    uint64_t seed;
    bool trace;
    bool no_collectives; /* though there are calls */
    bool no_memory;      /* calls bring none */
    bool keeps_lines;    /* the last of the trace, for a failure: instead of `trace` */
    struct trace *heard; /* what is said, for a test; NULL: for none */
    uint32_t nodes;      /* 0: as the seed says, with everything else */
    uint32_t lanes, extents, entries, max_keys, max_puts;
    uint64_t quantum_us;
    uint64_t dead_after_us; /* of many nodes; 0: a minute */
    /* With `nodes`: */
    uint32_t fanout;
    uint64_t tree_bytes, chunk_bytes, pull_bytes;
    uint32_t bytes_a_us; /* of a node's own link; 0: no limit */
    bool views;          /* which the caller makes: view_without, view_all */
    bool agrees;         /* on views, by libraft: also without `nodes` */
};

struct world {
    struct world_options options;
    struct world_totals *totals;
    struct random random;
    struct random more; /* for what a plain world has not */
    struct world_kind kind;
    struct world_views views;
    struct caller_world *calls;   /* NULL: none */
    struct collector_world *many; /* where there are calls */
    struct mover_world *moves;    /* NULL: calls bring no memory */
    struct sim *sim;
    uint64_t now_us;
    uint64_t digest;
    uint64_t begin_us;
    uint64_t steps;

    uint32_t node_count;
    uint32_t bulk_endpoints;   /* of a link */
    uint32_t region_endpoints; /* likewise */
    struct world_node *nodes;
    bool *cut; /* node_count squared: what the first says, the second does not hear */
    uint64_t dead_after_us, silence_us, quantum_us;
    struct agreeing *agreeing; /* NULL: a stand-in agrees on views, or there are none */
    struct detect *detect;     /* NULL: connections alone tell who is dead */
    uint64_t next_connection, next_session;
    struct exchange_config exchange; /* what is the same at all nodes */
    uint32_t entries, extents;

    /* The load. */
    uint32_t keys;        /* of all pools: those of one after those of the other */
    uint32_t keys_a_pool; /* and ids: the pools share them. 0: one pool, any number */
    char names[WORLD_KEYS][LIMIT_NAME_BYTES + 1];
    uint8_t ids[WORLD_KEYS][LIMIT_ID_BYTES];
    uint64_t deleted_us[WORLD_KEYS]; /* when a delete last ended; NEVER: who knows */
    bool given_up[WORLD_KEYS];       /* a claim that may have been granted, and was never sealed */
    uint64_t size_max;
    enum world_sizes sizes;
    bool storm;
    bool exclusive;           /* every second put is */
    uint32_t passing_percent; /* of gets, that leave no copy */
    uint32_t steps_of_session;
    uint64_t gap_us;
    uint64_t hold_us;
    uint64_t faults_left, fault_gap_us;
    uint32_t fault_weight[FAULTS];
    bool checks_all;          /* every invariant after every step, not some */
    bool is_judged;           /* judge_seed's: the seed alone gives the same run again */
    bool calm;                /* no new work, no new faults */
    uint64_t stalls_until_us; /* in calm: the last message that was held up comes by then */
    bool was_forgetful;       /* a node crashed, or was thought dead: soft state was lost */
    bool copies_went;         /* a life ended, whose copies the next one has not */
    bool was_lossy;           /* memory went with a node, or a file was damaged */
    bool is_spoiling;         /* bytes are damaged on purpose: wrong checksums are seen */

    struct world_op ops[WORLD_OPS];
    uint32_t ops_used;             /* those behind it were never taken */
    uint32_t ended[8 * WORLD_OPS]; /* in order */
    uint32_t ended_count;
    struct world_pin pins[WORLD_PINS];
    uint32_t pins_used;
    struct world_put *puts;
    uint32_t max_puts;
    uint32_t put_count; /* serials are from 1 */

    struct world_event *events; /* a heap by time */
    uint32_t event_count, most_events;
    uint64_t next_sequence;
};

/* ---- world.c: making, time ------------------------------------------------ */

struct world *world_create(const struct world_options *options, struct world_totals *totals);
void world_destroy(struct world *world);

/* One step: time moves to the next thing that happens, and everybody gets turns. Not beyond
 * `until_us`. */
void world_step(struct world *world, uint64_t until_us);
void world_run(struct world *world, uint64_t us);

struct world_lane *world_lane_of(struct world *world, uint32_t node, uint64_t hash);
uint32_t world_pool_of(const struct world *world, uint32_t key);
uint64_t world_between(struct world *world, uint64_t least, uint64_t most);
uint64_t world_below(struct world *world, uint64_t bound);
bool world_dice(struct world *world, uint32_t percent);
void world_fold(struct world *world, uint64_t value);
void world_at(struct world *world, uint64_t after_us, enum world_event_kind kind, uint32_t a,
              uint32_t b, uint64_t value);
/* Notes in which states the pulls of a node are when something happens to it. */
void world_moment(struct world *world, uint32_t node, enum world_moment moment);
/* Nothing is under way anywhere. */
bool world_is_idle(struct world *world);
void world_check_all(struct world *world);

/* A line of the trace. */
void world_say(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The run has failed: says what, what led to it, and how to see it again. Does not return. */
_Noreturn void world_fail(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define WORLD_CHECK(world, condition, ...) \
    ((condition) ? (void)0 : world_fail((world), __VA_ARGS__))

/* ---- node.c: nodes -------------------------------------------------------- */

/* A kept node goes on with what its last life left. */
void node_start(struct world *world, uint32_t node);
/* `kept`: its memory and its clients outlive it. */
void node_crash(struct world *world, uint32_t node, bool kept);
/* A stop in order, with a goodbye. */
void node_stop(struct world *world, uint32_t node, bool kept);
void node_fini(struct world *world, uint32_t node);
/* Whoever writes to a node's memory from now on faults, or no longer. */
void node_guard(struct world *world, uint32_t node, bool guarded);
bool node_is_guarded(void);
/* What is kept between worlds. */
void node_forget_memory(void);

/* ---- view.c: what the members agree on ------------------------------------ */

void view_choose(struct world *world);
void view_node_starts(struct world *world, uint32_t node);
void view_happen(struct world *world);
void view_heard(struct world *world, uint32_t node);
/* All are in again. */
void view_end(struct world *world);
/* The next view: a node is out, which hears of none any more, and has no lease. */
void view_without(struct world *world, uint32_t node, bool is_deaf);
void view_all(struct world *world);
/* A node has a lease, or none, in the view that it knows. */
void view_lease(struct world *world, uint32_t node, bool lease);
bool view_is_settled(const struct world *world);
/* No key has two homes that serve it. */
void view_check(struct world *world);
/* Its lanes take a view. */
void view_adopt(struct world *world, uint32_t node, const struct agreed *agreed);

/* ---- agreeing.c: members that agree by libraft ---------------------------- */

void agreeing_choose(struct world *world);
void agreeing_fini(struct world *world);
void agreeing_node_starts(struct world *world, uint32_t node);
void agreeing_node_ends(struct world *world, uint32_t node, bool in_order);
/* Whether it has its rank; if not, it asks for it, and its start comes again. */
bool agreeing_may_start(struct world *world, uint32_t node);
void agreeing_tick(struct world *world, uint32_t node);
uint64_t agreeing_due_us(const struct world *world, uint32_t node);
void agreeing_arrive(struct world *world, uint32_t flight);
void agreeing_happen(struct world *world);
/* A node takes another for dead, or heard its goodbye. */
void agreeing_dead(struct world *world, uint32_t node, uint32_t other);
/* Nobody is to leave any more. */
void agreeing_end(struct world *world);
bool agreeing_has_lease(const struct world *world, uint32_t node);
bool agreeing_is_settled(const struct world *world);

/* ---- kind.c: what is in a world ------------------------------------------- */

void kind_choose(struct world *world);
/* Names and ids of the keys. */
void kind_make_keys(struct world *world);
uint64_t kind_below(struct world *world, uint64_t bound);
bool kind_dice(struct world *world, uint32_t percent);

/* ---- disk.c: a lane's spill files ----------------------------------------- */

struct disk *disk_create(struct world_lane *lane);
void disk_destroy(struct disk *disk);
bool disk_submit(struct disk *disk, const struct store_disk_job *job);
void disk_forget(struct disk *disk, uint32_t pool, uint64_t generation, uint32_t incarnation);
/* The next job, or file to forget, is done. */
void disk_step(struct disk *disk, uint32_t incarnation);
/* Its node is dead: what was queued is not done, but perhaps the first. */
void disk_drop_queue(struct disk *disk);
/* A new life: files that no index names go, as far as `all` says so, all. */
void disk_clean(struct disk *disk, bool all);
bool disk_is_idle(const struct disk *disk);
/* The serial of the object in a file; fails unless it is there and whole. */
uint32_t disk_serial_of(struct disk *disk, const struct store_sight *sight, uint32_t key);
uint64_t disk_bytes(const struct disk *disk);
bool disk_has_damage(const struct disk *disk);

/* ---- bytes.c: what objects are -------------------------------------------- */

struct bytes_shape {
    uint64_t data_size;
    uint32_t meta_size;
    uint32_t name_size;
};

void bytes_fill(struct world *world, uint8_t *to, uint32_t serial);
bool bytes_hold(const struct world *world, const uint8_t *from, uint32_t serial);
/* The serial whose bytes lie there; fails unless they are exactly those of one put of the key. */
uint32_t bytes_serial(struct world *world, uint32_t node, uint32_t key, const uint8_t *bytes,
                      const struct bytes_shape *shape);
/* By the first word and the sizes only. */
uint32_t bytes_glance(struct world *world, uint32_t node, uint32_t key, const uint8_t *bytes,
                      const struct bytes_shape *shape);
uint32_t bytes_name_size(const struct world *world, uint32_t key);
void bytes_id(const struct world *world, uint32_t key, uint8_t id[LIMIT_ID_BYTES]);
/* The key of an id in a pool; fails if it is none's. */
uint32_t bytes_key(struct world *world, uint32_t pool, const uint8_t id[LIMIT_ID_BYTES]);

/* ---- control.c: control connections --------------------------------------- */

void control_start(struct world *world, uint32_t node);
void control_crash(struct world *world, uint32_t node);
void control_tick(struct world *world, uint32_t node);
uint64_t control_due_us(const struct world *world, uint32_t node);
void control_connect(struct world *world, uint32_t dialler, uint32_t other);
void control_reset(struct world *world, uint32_t node, uint32_t other, uint64_t connection);
/* Ends the connection of two nodes, at both. */
void control_break(struct world *world, uint32_t a, uint32_t b);
/* A node says goodbye to all; and what comes of it. */
void control_goodbye(struct world *world, uint32_t node);
void control_hear_goodbye(struct world *world, uint32_t node, uint32_t other, uint64_t connection);
bool control_reaches(const struct world *world, uint32_t a, uint32_t b);
/* The members have found this life of another dead. */
void control_condemn(struct world *world, uint32_t node, uint32_t other, uint32_t incarnation,
                     uint32_t jitter);

/* ---- detect.c: who lives, by datagrams ------------------------------------ */

void detect_choose(struct world *world);
void detect_node_starts(struct world *world, uint32_t node);
void detect_node_ends(struct world *world, uint32_t node, bool in_order);
void detect_tick(struct world *world, uint32_t node);
uint64_t detect_due_us(const struct world *world, uint32_t node);
void detect_arrive(struct world *world, uint32_t flight);
/* Everything has healed: from a while after this on nobody who lives is declared dead. */
void detect_calm(struct world *world);
/* From when on no verdict is wrong. */
uint64_t detect_calm_us(const struct world *world);

/* ---- client.c: sessions and their operations ------------------------------ */

void client_attach(struct world *world, uint32_t node, uint32_t session);
void client_detach(struct world *world, uint32_t node, uint32_t session);
/* Its node died: it waits for the next life, with its pins and what it creates; and goes on. */
void client_wait(struct world *world, uint32_t node, uint32_t session);
void client_resume(struct world *world, uint32_t node, uint32_t session);
/* Once all have. */
void client_seal_again(struct world *world, uint32_t node);
/* It died with its node, or while that was away. */
void client_forget(struct world *world, uint32_t node, uint32_t session);
/* A session of a node that may do anything with a key; WORLD_SESSIONS: the node has not its pool.
 */
uint32_t client_for(const struct world *world, uint32_t node, uint32_t key);
void client_step(struct world *world, uint32_t node, uint32_t session);
/* A client has filled what it created. */
void client_seal(struct world *world, uint32_t op, uint32_t serial);
/* Looks at what has ended. */
void client_settle(struct world *world);
void client_release_due(struct world *world);
uint64_t client_due_us(const struct world *world);
/* Operations that have not ended. */
uint32_t client_pending(const struct world *world);
void client_release_all(struct world *world);
/* The serial of what a node has of a key; 0: nothing. */
uint32_t client_serial_here(struct world *world, uint32_t node, uint32_t key);
/* The same without a look at all bytes: for the judge, who reads everything again and again. */
uint32_t client_glance_here(struct world *world, uint32_t node, uint32_t key);
/* What a node sealed is dropped: another's was first. */
void client_lost(struct world *world, uint32_t node, uint32_t key);

/* What a node has of a key; false: nothing. */
bool client_see(struct world *world, uint32_t node, uint32_t key, struct store_sight *sight);

void client_put(struct world *world, uint32_t node, uint32_t session, uint32_t key,
                uint64_t data_size, uint32_t meta_size);
struct world_op *client_get(struct world *world, uint32_t node, uint32_t session, uint32_t key,
                            uint64_t timeout_us, uint8_t flags);
struct world_op *client_delete(struct world *world, uint32_t node, uint32_t session, uint32_t key);
void client_evict(struct world *world, uint32_t node, uint32_t lane, uint64_t bytes);
/* No session has more than its quota, and a pool not more than its own. */
void client_check_quotas(struct world *world);

/* ---- caller.c: calls of services (caller.h) ------------------------------- */

void caller_choose(struct world *world);
/* Before the lane's exchange, which is told of it; and after that. */
void caller_lane_starts(struct world_lane *lane, struct exchange_calls *users,
                        struct exchange_config *exchange);
void caller_lane_ends(struct world_lane *lane);
void caller_node_starts(struct world *world, uint32_t node);
void caller_node_ends(struct world *world, uint32_t node);
void caller_forget(struct world *world, uint32_t node, uint32_t session);
/* What is heard of another node: before its links are told. */
void caller_peer(struct world_lane *lane, uint32_t rank, bool is_lost);
bool caller_turn(struct world_lane *lane);
uint64_t caller_due_us(const struct world_lane *lane);
/* A node's next call, or what it does with a service. */
void caller_step(struct world *world, uint32_t node);
/* Everything heals: what has no end otherwise is cancelled. */
void caller_calm(struct world *world);
/* After each step; and, of a lane, every few. */
void caller_check(struct world *world);
void caller_check_lane(struct world_lane *lane);
bool caller_is_idle(const struct world *world);
void caller_why_not_idle(struct world *world);
/* In calm: calls of everybody, by everybody. */
void caller_judge(struct world *world);
void server_answer(struct world *world, uint32_t place, uint64_t number);

/* ---- mover.c: memory that calls bring (mover.h) --------------------------- */

/* A service moves some of it. */
void mover_step(struct world *world, uint32_t order, uint64_t number);

/* ---- collector.c: calls of many (collector.h) ----------------------------- */

/* A node's next collective. */
void collector_step(struct world *world, uint32_t node);
void collector_answer(struct world *world, uint32_t place, uint64_t number);
/* Its lane has adopted another view. */
void collector_group(struct world_lane *lane);

/* ---- fault.c -------------------------------------------------------------- */

void fault_happen(struct world *world);
void fault_heal_all(struct world *world);

/* ---- judge.c -------------------------------------------------------------- */

/* A whole run of a seed, and what must hold at its end. Returns its digest. */
uint64_t judge_seed(const struct world_options *options, struct world_totals *totals);

#endif
