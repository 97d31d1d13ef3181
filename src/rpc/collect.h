/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of one lane: a request goes to many nodes over a tree, and what their services said
 * comes back in one answer (docs/collectives.md).
 *
 * A node that is asked begins a collective of its own: it asks its service and the children that
 * ranks_split finds in the set that it was handed, waits for all of them, and answers. Every edge
 * is one call of calls.h, which bring deadlines, cancels and the ends of links; what is kept here
 * is what the answers add up to. What it promises:
 *  - each collective ends once, by `answer`, unless who began it gave up: then nothing is said;
 *  - nobody asks a rank that it may have asked before: a child that has certainly not heard of it
 *    is passed over, and the rest of its run goes to the next; any other child ends with its run;
 *  - each rank of the set is counted once: answered, failed, unknown or unasked;
 *  - a node of another version of the group than the set was reckoned with refuses (NIGH_STALE);
 *  - every table has a bound; reaching it is NIGH_OVERLOADED, never growth.
 *
 * Pure: no socket, clock, thread or random source; time is an argument. One owner thread. Calls are
 * begun, forgotten and answered from collects_turn and the functions that give up, never from
 * inside collect_ended.
 */
#ifndef RPC_COLLECT_H
#define RPC_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"
#include "rpc/calls.h"
#include "rpc/ranks.h"

struct collects;

/* ---- the wire ------------------------------------------------------------- */

/* What is made of the replies. */
enum collect_reduce {
    COLLECT_NONE = 0, /* only how many said what */
    COLLECT_SUM_U64 = 1,
    COLLECT_MIN_U64 = 2,
    COLLECT_MAX_U64 = 3,
    COLLECT_SUM_F64 = 4,
    COLLECT_MIN_F64 = 5,
    COLLECT_MAX_F64 = 6,
    COLLECT_CONCAT = 7, /* a struct collect_entry and the bytes of each, by rank */
    COLLECT_REDUCES = 8
};

/* Behind the calls_wire of a request of CALLS_METHOD_COLLECT, and before its bytes; little endian.
 */
struct collect_wire {
    uint64_t version;    /* of the group that `ranks` are of */
    struct ranks ranks;  /* the receiver, and whom it is to ask */
    uint32_t origin;     /* the rank of who began it all; not among them */
    uint32_t value_room; /* for what the replies are reduced to */
    uint8_t reduce;      /* enum collect_reduce */
    uint8_t fan;         /* 2 .. LIMIT_COLLECT_FAN */
    uint8_t depth;       /* edges up to the origin */
    uint8_t reserved[5];
};

_Static_assert(sizeof(struct collect_wire) == 56, "it is on the wire");

/* What went wrong in one place of the tree. */
struct collect_error {
    uint32_t rank; /* of a node, or of the root of a run that ended with it */
    int32_t status;
    uint32_t count; /* of ranks that it speaks of, that one included */
    uint32_t taken; /* 1: services may have carried it out */
};

/* What is answered, before the value. The first four are as many as the request had ranks. */
struct collect_said {
    uint32_t answered; /* services that said NIGH_OK, and whose replies count in the value */
    uint32_t failed;   /* that said something else, or whose reply is not as the value needs it */
    uint32_t unknown;  /* may have been asked, and did not answer */
    uint32_t unasked;  /* certainly not */
    uint32_t value_bytes;
    uint32_t errors; /* of the first */
    struct collect_error first[LIMIT_COLLECT_ERRORS];
};

_Static_assert(sizeof(struct collect_said) == 152, "it is on the wire");

/* COLLECT_CONCAT: before each reply, which is not padded. */
struct collect_entry {
    uint32_t rank;
    uint32_t bytes;
};

_Static_assert(sizeof(struct collect_wire) <= BULKS_HEAD, "it has room where memory is told");
_Static_assert(sizeof(struct collect_said) + LIMIT_COLLECT_BYTES <= LIMIT_CALL_BYTES,
               "an answer is one of a call, at its caller's place");

/* ---- what the lane is asked ----------------------------------------------- */

/* Who began a collective here: another node, or a session. The lane's own words. */
struct collect_from {
    struct rpc *channel; /* NULL: a session */
    uint64_t call;       /* of the channel */
    uint32_t rank;       /* at its other end */
    struct calls_caller caller;
};

/* What is said at the end. The bytes are good until the return. */
struct collect_end {
    nigh_status status; /* NIGH_OK: `said` is what came of it; else nobody was asked */
    const struct collect_said *said;
    const uint8_t *value;
};

/* An edge of the tree: a call to this node's own service or to another node. */
struct collect_ask {
    uint32_t place; /* with `number` for collect_ended */
    uint32_t number;
    uint32_t generation;
    uint32_t rank;
    uint64_t service;
    uint64_t deadline_us;
    uint32_t uid;
    uint32_t origin;
    uint32_t request_bytes;
    const struct collect_wire *wire; /* good until it has ended; NULL: of this node's service */
};

struct collects_shell {
    void *context;
    /* Begins a call; collect_ended follows once, perhaps before the return. */
    void (*ask)(void *context, const struct collect_ask *ask, uint64_t now_us);
    /* Gives up all calls of a place that are under way. */
    void (*forget)(void *context, uint32_t place, uint64_t now_us);
    void (*answer)(void *context, const struct collect_from *from, const struct collect_end *end);
};

struct collects_config {
    uint32_t rank;
    uint32_t nodes;
    struct collects_shell shell;
};

nigh_status collects_create(const struct collects_config *config, struct collects **collects);
/* Nothing that is under way is heard of again. */
void collects_destroy(struct collects *collects);

/* The group of now: its version, and who is in it. */
void collects_group(struct collects *collects, uint64_t version, const struct ranks *in);
uint64_t collects_version(const struct collects *collects);

/* ---- beginning ------------------------------------------------------------ */

/* What a client wants. */
struct collect_task {
    uint64_t service;
    uint64_t version; /* 0: that of now */
    struct ranks ranks;
    bool all; /* of the group; `ranks` is not looked at */
    uint32_t fan;
    uint32_t reduce;
    uint32_t value_room;
    uint32_t uid;
    uint64_t deadline_us;
    const uint8_t *request; /* copied */
    uint32_t request_bytes;
};

/* NIGH_OK: `answer` follows, from collects_turn. NIGH_STALE; NIGH_INVALID: ranks that are not of
 * the group, bounds; NIGH_OVERLOADED; NIGH_NO_RESOURCES; NIGH_NO_QUORUM: no group is agreed on yet.
 */
nigh_status collect_begin(struct collects *collects, const struct collect_from *from,
                          const struct collect_task *task, uint64_t now_us);

/* Another node asks (CALLS_METHOD_COLLECT): likewise; other errors are told to it as a refusal. */
nigh_status collect_take(struct collects *collects, const struct collect_from *from,
                         const struct rpc_request *came, uint64_t now_us);

/* ---- on the way ----------------------------------------------------------- */

/* A call of an edge ended. */
void collect_ended(struct collects *collects, uint32_t place, uint32_t number, uint32_t generation,
                   const struct calls_end *end);

/* The request's bytes of a place; NULL: it is another's. */
const uint8_t *collect_bytes(const struct collects *collects, uint32_t place, uint32_t generation);

/* Asks whom it is time to ask, and answers what has ended. True: there was some. */
bool collects_turn(struct collects *collects, uint64_t now_us);
/* Whether a turn has something to do. */
bool collects_are_due(const struct collects *collects);

/* ---- giving up: nothing more is said --------------------------------------- */

/* True: there was one. */
bool collect_cancel(struct collects *collects, uint32_t owner, uint32_t cookie, uint64_t now_us);
void collects_forget(struct collects *collects, uint32_t owner, uint64_t now_us);
/* The node that asked does not wait any more. */
void collect_withdrawn(struct collects *collects, const struct rpc *channel, uint64_t call,
                       uint64_t now_us);
void collects_channel_down(struct collects *collects, const struct rpc *channel, uint64_t now_us);

/* Since the beginning. */
struct collects_counts {
    uint64_t begun;    /* for sessions */
    uint64_t taken;    /* for other nodes */
    uint64_t stale;    /* of both, refused as of another version */
    uint64_t refused;  /* of both, for another reason */
    uint64_t answered; /* ranks, of those begun for sessions that ended */
    uint64_t failed;   /* the other ranks of them, whatever became of these */
};

const struct collects_counts *collects_counts(const struct collects *collects);
uint32_t collects_under_way(const struct collects *collects);
bool collects_is_valid(const struct collects *collects);

#endif
