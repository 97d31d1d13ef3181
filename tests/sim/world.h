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
#include "object/store.h"

#define WORLD_SESSIONS     2u
#define WORLD_LANES        4u /* most of a node */
#define WORLD_OPS          512u
#define WORLD_PINS         512u
#define WORLD_KEYS         32u
#define WORLD_PUTS         8192u /* unless the options say so */
#define WORLD_META_BYTES   48u
#define WORLD_POOL         0u
#define WORLD_CLUSTER_POOL UINT64_C(0x706f6f6c)
#define WORLD_UID          1000u
#define WORLD_NEVER        UINT64_MAX

/* ---- what is counted ------------------------------------------------------ */

enum world_fault {
    FAULT_CRASH = 0,
    FAULT_PAUSE,
    FAULT_CUT,
    FAULT_SLOW,
    FAULT_RESET, /* a control connection breaks, the fabric does not */
    FAULT_CLIENT,
    FAULT_EVICT,
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
    MOMENTS
};

struct world_totals {
    uint64_t seeds, steps, events, puts, gets, deletes, cancels;
    uint64_t gets_ok, gets_timeout, gets_other, gets_many, gets_passing;
    uint64_t deletes_ok, deletes_in_use, deletes_late, deletes_other;
    uint64_t pulls_done, pulls_retried, pulls_reused, inlines, streams, loans, overdue, conflicts,
        evictions;
    uint64_t returns, checked_bytes, resurrected, dead_alive;
    uint64_t faults[FAULTS];
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
    bool doomed; /* a delete by a node that held it returned OK */
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
    uint32_t node, session, lane, key;
    uint32_t serial; /* of a put; of a delete: what was here when it began, 0: nothing */
    uint32_t incarnation;
    uint64_t begun_us, deadline_us;
    struct session_cqe cqe;
    nigh_status *result; /* of a question by the judge, or NULL */
    uint32_t *found;     /* the serial that a get found */
};

struct world_pin {
    bool used;
    uint32_t node, session, lane, pin, serial;
    uint64_t offset;
    uint64_t until_us;
};

struct world_session {
    void *memory; /* NULL: not attached */
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
    void *index_memory;
    struct index index;
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
    uint32_t incarnation;
    uint32_t lanes;
    uint64_t awake_us; /* it was paused until then */
    uint64_t due_us;
    struct members members;
    struct extent_set *set;
    struct world_lane lane[WORLD_LANES];
    struct world_session sessions[WORLD_SESSIONS];
    struct world_side *sides; /* by rank */
    uint64_t evictions;       /* of lives that are over */
};

/* ---- things to come ------------------------------------------------------- */

enum world_event_kind {
    EVENT_CONNECT = 1, /* a: dialler, b: the other; value: unused */
    EVENT_RESET,       /* a's side of its connection to b ends; value: the connection */
    EVENT_FAULT,
    EVENT_RESTART, /* a */
    EVENT_RESUME,  /* a */
    EVENT_HEAL,    /* a, b: the cut */
    EVENT_QUICKEN  /* a, b: the slow link */
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

struct world_options {
    uint64_t seed;
    bool trace;
    uint32_t nodes; /* 0: as the seed says, with everything else */
    uint32_t lanes, extents, entries, max_keys, max_puts;
    uint64_t quantum_us;
};

struct world {
    struct world_options options;
    struct world_totals *totals;
    struct random random;
    struct sim *sim;
    uint64_t now_us;
    uint64_t digest;
    uint64_t begin_us;
    uint64_t steps;

    uint32_t node_count;
    struct world_node *nodes;
    bool *cut; /* node_count squared */
    uint64_t dead_after_us, silence_us, quantum_us;
    uint64_t next_connection, next_session;
    struct exchange_config exchange; /* what is the same at all nodes */
    uint32_t entries, extents;

    /* The load. */
    uint32_t keys;
    uint64_t size_max;
    enum world_sizes sizes;
    bool storm;
    uint32_t passing_percent; /* of gets, that leave no copy */
    uint32_t steps_of_session;
    uint64_t gap_us;
    uint64_t hold_us;
    uint64_t faults_left, fault_gap_us;
    uint32_t fault_weight[FAULTS];
    bool calm;          /* no new work, no new faults */
    bool was_forgetful; /* a node crashed, or was thought dead: soft state was lost */

    struct world_op ops[WORLD_OPS];
    uint32_t ended[8 * WORLD_OPS]; /* in order */
    uint32_t ended_count;
    struct world_pin pins[WORLD_PINS];
    struct world_put *puts;
    uint32_t max_puts;
    uint32_t put_count; /* serials are from 1 */

    struct world_event events[16384]; /* a heap by time */
    uint32_t event_count;
    uint64_t next_sequence;
};

/* ---- world.c: making, nodes, time ----------------------------------------- */

struct world *world_create(const struct world_options *options, struct world_totals *totals);
void world_destroy(struct world *world);
/* What is kept between worlds. */
void world_forget_memory(void);

void world_start_node(struct world *world, uint32_t node);
void world_crash_node(struct world *world, uint32_t node);

/* One step: time moves to the next thing that happens, and everybody gets turns. Not beyond
 * `until_us`. */
void world_step(struct world *world, uint64_t until_us);
void world_run(struct world *world, uint64_t us);

struct world_lane *world_lane_of(struct world *world, uint32_t node, uint64_t hash);
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
/* The run has failed: says what, and how to see it again. Does not return. */
_Noreturn void world_fail(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define WORLD_CHECK(world, condition, ...) \
    ((condition) ? (void)0 : world_fail((world), __VA_ARGS__))

/* ---- control.c: control connections --------------------------------------- */

void control_start(struct world *world, uint32_t node);
void control_crash(struct world *world, uint32_t node);
void control_tick(struct world *world, uint32_t node);
uint64_t control_due_us(const struct world *world, uint32_t node);
void control_connect(struct world *world, uint32_t dialler, uint32_t other);
void control_reset(struct world *world, uint32_t node, uint32_t other, uint64_t connection);
/* Ends the connection of two nodes, at both. */
void control_break(struct world *world, uint32_t a, uint32_t b);
bool control_reaches(const struct world *world, uint32_t a, uint32_t b);

/* ---- client.c: sessions and their operations ------------------------------ */

void client_attach(struct world *world, uint32_t node, uint32_t session);
void client_detach(struct world *world, uint32_t node, uint32_t session, bool node_too);
void client_step(struct world *world, uint32_t node, uint32_t session);
/* Looks at what has ended. */
void client_settle(struct world *world);
void client_release_due(struct world *world);
uint64_t client_due_us(const struct world *world);
/* Operations that have not ended. */
uint32_t client_pending(const struct world *world);
void client_release_all(struct world *world);
void client_id(uint32_t key, uint8_t id[LIMIT_ID_BYTES]);
/* The serial whose bytes lie there; fails unless they are exactly those of one put of the key. */
uint32_t client_serial_at(struct world *world, uint32_t node, uint32_t key, uint64_t offset,
                          uint64_t data_size, uint32_t meta_size);

/* The serial of what a node has of a key; 0: nothing. */
uint32_t client_serial_here(struct world *world, uint32_t node, uint32_t key);

void client_put(struct world *world, uint32_t node, uint32_t session, uint32_t key,
                uint64_t data_size, uint32_t meta_size);
struct world_op *client_get(struct world *world, uint32_t node, uint32_t session, uint32_t key,
                            uint64_t timeout_us, uint8_t flags);
struct world_op *client_delete(struct world *world, uint32_t node, uint32_t session, uint32_t key);
void client_evict(struct world *world, uint32_t node, uint32_t lane, uint64_t bytes);

/* ---- fault.c -------------------------------------------------------------- */

void fault_happen(struct world *world);
void fault_heal_all(struct world *world);

/* ---- judge.c -------------------------------------------------------------- */

/* A whole run of a seed, and what must hold at its end. Returns its digest. */
uint64_t judge_seed(const struct world_options *options, struct world_totals *totals);

#endif
