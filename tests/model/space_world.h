/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world around one home: up to three nodes that cache its blocks, channels between all of
 * them, frames, and the clients of each. What can happen in it, one event at a time, over the
 * production steps of src/space. For space_explore.c, space_state.c and space_world.c only.
 *
 * The network is the fabric's: messages of a pair stay in order; bytes are a WRITE before their
 * message on the same channel, that lands at any time until the message is taken: also before
 * messages that came earlier, and are not taken yet. What it reads it reads as it lands.
 *
 * Of bytes it is known only whether they are the last that were written: that is all that a read
 * has to be.
 */
#ifndef TESTS_MODEL_SPACE_WORLD_H
#define TESTS_MODEL_SPACE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "space/log_rules.h"
#include "space/log_state.h"
#include "space/term.h"

#define CACHES  3u
#define NODES   (CACHES + 1u) /* the home is node 0, and seat 0 */
#define HOME    0u
#define BLOCKS  2u
#define CLIENTS 2u
#define DEPTH   10u /* of a channel: a bound that is looked at */

/* What is in a world. */
#define WITH_READS      1u
#define WITH_WRITES     2u
#define WITH_EVICTIONS  4u
#define WITH_ATOMICS    8u
#define WITH_LOCKS      16u
#define WITH_HOME       32u  /* clients of the home read and write */
#define WITH_HOME_LOCKS 64u  /* and hold blocks */
#define WITH_FREES      128u /* and free blocks, and use them again */
/* WRITEs land also long before their messages are taken. Without it they land then; that they may
 * at any time is looked at in every state, so it matters only to who waits for his own to land. */
#define WITH_LANDINGS 256u
/* Who holds a block alone writes nothing, so that no log has what it was given. */
#define WITH_IDLE_LOCKS 512u

struct rules {
    uint8_t caches, blocks, frames; /* frames: of each cache; 1, or as many as blocks */
    uint16_t with;
    uint8_t clients;                       /* of each node, that wait at once */
    uint8_t crashes, home_crashes, breaks; /* how often each may happen */
    uint8_t restarts;                      /* of nodes that crashed */
    bool logs;    /* nodes and the home have one, and are started on it; a node may lose it */
    bool forgets; /* that a copy is not needed any more is durable; else it never is */
};

enum bytes_state {
    BYTES_NONE,
    BYTES_UNDER_WAY,
    BYTES_LANDED
};

#define NO_FRAME UINT8_MAX /* where they come from is gone: whether they are the last is kept */

/* A message in a channel. */
struct note {
    uint8_t is_term; /* of a term, not of a block: `event` is of enum space_term_event */
    uint8_t event, whom, why, block, term;
    uint8_t epoch_term, count;
    uint8_t frame;      /* of who asked */
    uint8_t bytes;      /* enum bytes_state */
    uint8_t from_frame; /* at who sent it; of the home: the block */
    uint8_t is_last;    /* from_frame is NO_FRAME */
};

struct channel {
    uint8_t count;
    struct note notes[DEPTH];
};

struct frame {
    uint8_t used;    /* by a block, plus one */
    uint8_t is_last; /* the bytes in it are the last that were written */
};

/* What a log says of a block, at a node that had it and at its home; and whether the bytes there
 * are the last that were written. What a step says leaves once its records are durable: so they are
 * at once, and a message that is lost stands for those that were not. */
struct copy_log {
    uint8_t is_here, is_last, handed_to, term, count; /* handed_to: plus one */
    uint8_t is_logged;                                /* as the node knows */
};

struct home_log {
    uint8_t state; /* enum space_log_block_state */
    uint8_t is_last, owner, is_ours, term, count;
};

/* Clients, as the world knows them: who has what, told apart from what the steps believe. */
struct clients {
    uint8_t wishes[CLIENTS]; /* events that wait, plus one, in the order in which they came */
    uint8_t readers;
    uint8_t is_alone;
    uint8_t is_done; /* of a node: its atomic was done at the home, and it does not know yet */
};

struct world {
    struct space_term term;
    struct space_member members[CACHES];
    struct space_entry entries[BLOCKS];
    struct space_work works[BLOCKS];
    struct space_line lines[CACHES][BLOCKS];
    struct frame frames[CACHES][BLOCKS];
    uint8_t home_last[BLOCKS]; /* the home's bytes are the last */
    struct clients clients[NODES][BLOCKS];
    struct channel channels[NODES][NODES];
    uint8_t dead;    /* bits of nodes, */
    uint8_t unseen;  /* and of those, who is a member by the home's view */
    uint8_t down[2]; /* two nodes whose link broke, until the home's next term; the same: none */
    uint8_t crashes, home_crashes, breaks, restarts; /* left */
    struct copy_log copy_logs[CACHES][BLOCKS];
    struct home_log home_logs[BLOCKS];
    uint8_t is_reset;       /* what the home said before it was started anew may be lost */
    uint8_t is_lossy;       /* a node lost its log */
    uint8_t since[NODES];   /* the term in which a node was started: nothing of an earlier one goes
                               there */
    uint32_t opened[NODES]; /* struct space_home's `since` */
    uint8_t opening;        /* blocks that the term is not open for yet, and 1; 0: none opens */
};

enum event_kind {
    EVENT_WISH,          /* node, block, what: a client wants something */
    EVENT_UNLOCK,        /* node, block */
    EVENT_EVICT,         /* node, block */
    EVENT_EVICT_AT_ONCE, /* node, block */
    EVENT_ALLOC,         /* -, block */
    EVENT_CRASH,         /* node */
    EVENT_CRASH_HOME,
    EVENT_BREAK,   /* node, node: a link, and all that is on its way there is lost */
    EVENT_RESTART, /* node, -, with its log: one that crashed */
    /* From here on what comes by itself. */
    EVENT_DELIVER, /* from, to */
    EVENT_LAND,    /* from, to: the first that has not landed */
    EVENT_VIEW,    /* the home learns who is gone */
    EVENT_OPEN,    /* it opens its term for one more block, or says that it is open */
    EVENT_RESET,   /* -, to: what the home said before it was started anew is lost */
    EVENT_CLAIMED, /* node */
    EVENT_KINDS
};

struct event {
    uint8_t kind, a, b, c;
};

#define EVENTS_MAX 256u

extern struct world now;
extern struct rules rules;

/* Which cells of the tables were stepped into, and what came of it: bits of states. */
extern uint32_t world_cache_rows[SPACE_CACHE_STATES][SPACE_CACHE_EVENTS];
extern uint32_t world_home_rows[SPACE_HOME_STATES][SPACE_HOME_EVENTS];
extern uint32_t world_deepest; /* notes in a channel */

/* What does not hold: says so, with what led to it, and fails the test. space_explore.c. */
void world_claim(bool holds, const char *what);

void world_begin(void);
/* All events that can happen now; those that come by themselves are last, from *progress on. */
uint32_t world_list(struct event *events, uint32_t *progress);
void world_do(const struct event *event);
void world_check(void);

/* Nothing is under way, nobody waits, nothing is held. */
bool world_is_quiet(void);

/* As words, for a trace. */
void world_print(const struct event *event);

/* ---- space_state.c -------------------------------------------------------- */

#define STATE_BYTES 1024u

/* Equal for states that differ by names of nodes and blocks, and by how far epochs have come. */
uint64_t world_hash(void);
uint32_t world_save(uint8_t bytes[STATE_BYTES]);
void world_load(const uint8_t *bytes);

#endif
