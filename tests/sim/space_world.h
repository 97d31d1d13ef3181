/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that serve one space, and their clients, in one process, by seed: real engines, windows and
 * views; links are channels in order, in which bytes land at any time before their message. What
 * can happen happens at random, one thing at a time. For space_world.c and space_test.c only.
 *
 * After each event all is looked at: who may read a block has the same bytes as all others who may;
 * what changed is what somebody wants to write and has not written yet; so nobody ever reads what
 * was there before the last write.
 *
 * And what clients were told is a history (support/linear.h): of words, and of who held blocks. It
 * is kept where all that a client is told stays.
 */
#ifndef TESTS_SIM_SPACE_WORLD_H
#define TESTS_SIM_SPACE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "space/engine_internal.h"
#include "space/windows.h"
#include "support/linear.h"
#include "unit/space_log_disk.h"

#define WORLD_NODES   5u
#define WORLD_CLIENTS 3u /* a node */
#define WORLD_BLOCKS  48u
#define WORLD_MANY    36u /* of these are in use soon: more than a cache has frames */
#define WORLD_WORDS   3u  /* of a block: two that are written, and one that is counted in */
#define WORLD_BYTES   64u
#define WORLD_HOME    16u /* blocks of a home */
#define WORLD_FRAMES  SPACE_WAYS
#define WORLD_DEPTH   1024u
#define WORLD_ASKED   2048u /* values that may come to be, of a word */
#define WORLD_PASTS   256u  /* of a word: what it was, of which a crash may leave any */

struct world;

/* Who uses the space in the place of the world's own clients, and looks at what is there. */
struct world_users {
    void *context;
    /* A client is there, and has done nothing yet; it is gone, at whatever it was. */
    void (*started)(void *context, uint32_t node, uint32_t client);
    void (*stopped)(void *context, uint32_t node, uint32_t client);
    /* It is its turn. */
    void (*event)(void *context, uint32_t node, uint32_t client);
    /* Nobody of them has anything to do any more. */
    bool (*is_quiet)(void *context);
};

/* Where a node may be killed: before and after each of these that it does, or that comes to it. */
enum world_boundary {
    BOUNDARY_LOG_MADE, /* of its disk: files of its log, */
    BOUNDARY_LOG_WRITE,
    BOUNDARY_LOG_SYNC,
    BOUNDARY_IMAGE_MADE, /* an image, */
    BOUNDARY_IMAGE_WRITE,
    BOUNDARY_IMAGE_SYNC,
    BOUNDARY_RENAME, /* names */
    BOUNDARY_NAMES_SYNC,
    BOUNDARY_ASK_OUT, /* messages: what a right is asked for by, */
    BOUNDARY_ASK_IN,
    BOUNDARY_GRANT_OUT, /* what gives one, */
    BOUNDARY_GRANT_IN,
    BOUNDARY_RECALL_OUT, /* wants it back, or says that it is not needed any more, */
    BOUNDARY_RECALL_IN,
    BOUNDARY_GIVEN_UP_OUT, /* gives it up, or says that it came, */
    BOUNDARY_GIVEN_UP_IN,
    BOUNDARY_TERM_OUT, /* is of a new term, */
    BOUNDARY_TERM_IN,
    BOUNDARY_OTHER_OUT, /* greets, says who is linked; gives and frees home memory */
    BOUNDARY_OTHER_IN,
    BOUNDARIES
};

struct world_rules {
    uint32_t nodes, clients, events;
    uint32_t home, sets; /* blocks of a home; of a cache; 0: WORLD_HOME, and one */
    uint32_t slow;       /* of how many turns disks do something in one; 0: as the seed says */
    const struct world_users *users;
    bool restarts, blackouts; /* who is down comes back soon; all are killed at once, too */
    bool breaks, crashes, kills, frees, locks, timeouts, busy;
    bool rows; /* of several blocks are given at once; with logs, that no node loses */
    /* Nodes have logs on disks that lose what was not synced; told once it is durable; some come
     * back without theirs; disks fail. */
    bool logs, sync, lossy, fails;
    uint32_t asks, letters, opening; /* of engines; 0: as they are */
    /* Boundaries of one node are counted, and at one of them, from 1 on, it is killed; 0: at none.
     */
    bool has_boundaries;
    uint32_t killed;
    uint64_t killed_at;
};

/* It is as if from `is_due` on nothing of the node left it: then it is killed before anything else
 * comes to pass, and there again on its log after a while. */
struct world_kill {
    uint64_t passed, counts[BOUNDARIES][2]; /* before, after */
    bool is_due, is_done, is_after;
    enum world_boundary what;
    uint64_t back_at; /* event; 0: none */
};

/* What is on its way from one node to another. */
struct world_item {
    struct space_send send;
    bool has_landed;
};

struct world_channel {
    uint32_t first, count;
    struct world_item *items;
    uint32_t ends[SPACE_SEATS];    /* of wants_end, by cookie: not told yet, */
    uint32_t arrived[SPACE_SEATS]; /* and of these those that may be */
    bool is_up;                    /* as the one at this end knows */
    bool is_cut;
};

enum client_state {
    CLIENT_GONE,
    CLIENT_IDLE,
    CLIENT_ASKS
};

struct world_client {
    enum client_state state;
    uint32_t window;
    struct space_window *memory;
    struct space_producer producer;
    struct space_mapped mapped;
    /* What it asks. */
    uint8_t kind;
    uint32_t block, word;
    uint32_t bytes;   /* that are to be given */
    uint64_t address; /* of that block, then */
    uint64_t value;   /* what it wants to write */
    uint64_t since;   /* event */
    uint64_t life;    /* of that block's place here, when it asked */
    size_t op;        /* of its history; SIZE_MAX: of none */
    bool is_timed;    /* it is given up in its time */
    bool was_held;    /* of a try: somebody held the block, or waited for it, while it went on */
    /* What it holds. */
    bool holds, is_alone;
    uint32_t held;
    uint64_t held_life; /* of that block */
    uint32_t kept;      /* of the producer's, or SPACE_NO_KEPT */
    size_t unlock;      /* that is under way; SIZE_MAX: none */
    uint32_t fences;
    uint32_t failures; /* as its window says */
    /* Writes that are not done: word, value, behind how many fences; of those that are done what no
     * flush was for yet. */
    uint32_t pending, unflushed;
    struct world_write {
        uint64_t ticket, value, address; /* of the block */
        uint32_t block, word, fence;
        size_t op;
    } writes[LIMIT_SPACE_TAKEN * 4], flush[64];
};

struct world_word {
    uint64_t value;
    uint64_t changed; /* event */
    uint32_t olds;
    uint32_t pasts, firm, origin;
    uint64_t crashes; /* how many there were when it was looked at last */
    uint32_t gones;   /* in `gone` */
    uint32_t asked;
    /* From here on only as much of it as is said above. What it was in recent events; */
    struct {
        uint64_t value, until;
    } old[64];
    /* ... what it was, in order, the last what it is: where nodes have logs it may be one of those
     * again that are not before `firm`; */
    uint64_t past[WORLD_PASTS];
    /* ... what of that it may have been between a crash and the look behind it, at that event the
     * last time, each value once; */
    struct {
        uint64_t value, until;
    } gone[WORLD_PASTS];
    uint64_t wants[WORLD_ASKED]; /* values that may come to be; of a counter: their number */
};

struct world_block {
    bool is_used, is_freed;
    bool is_firm;   /* that it was given is durable */
    bool has_doubt; /* of an atomic nobody knows whether it was done, or will be: it is not freed */
    uint64_t address, life;
    uint64_t first; /* of what was given with it: it alone is used */
    struct world_word *words;
};

/* What was there of a frame, or of a block at its home, when it was last looked at: `state` is 0
 * where nobody reads a frame. */
struct world_seen {
    uint64_t address;
    uint8_t state;
    uint8_t bytes[WORLD_BYTES];
};

struct world_node {
    bool is_alive;
    struct space_engine *engine;
    struct space_windows *windows;
    void *home, *cache;
    uint64_t home_bytes, cache_bytes;
    uint64_t members; /* as it was told */
    uint64_t lives;
    struct disk disk;
    struct space_log log;
    struct space_log_job *job;
    bool is_job_late; /* the node was killed before it: nothing of it is done */
    bool has_failed;
    uint8_t seen; /* whether it was there, and served, */
    struct world_seen frames[WORLD_FRAMES], blocks[WORLD_HOME];
    struct world_client clients[WORLD_CLIENTS];
};

struct world {
    struct world_rules rules;
    struct random random;
    uint64_t seed, event, now_us, values;
    bool is_calm; /* nothing bad happens any more, and nobody wants anything new */
    struct world_node nodes[WORLD_NODES];
    struct world_channel channels[WORLD_NODES][WORLD_NODES]; /* from, to */
    struct world_block blocks[WORLD_BLOCKS];
    uint64_t touched;   /* seats of those that this event may have changed */
    uint64_t stale;     /* blocks that are to be looked at, bits */
    const char *broken; /* what does not hold */
    struct world_kill kill;
    bool has_history;
    struct linear_history history, holders; /* by events; of words, of who has blocks */
    uint64_t judged;                        /* operations of both */
    /* What was seen. */
    uint64_t busy; /* tries that were refused before their time */
    uint64_t answers, failures, reads, hits, writes, atomics, locks, kept, breaks, crashes, losses;
    uint64_t backs, commits, images, fails;
    uint64_t kills, blackouts, relapses; /* of clients; of all nodes; while a log is recovered */
    uint64_t statuses[40];
    uint64_t evictions, terms, refused, dropped, messages;
    /* What is not cleared for each world. */
    struct world_word words[WORLD_BLOCKS][WORLD_WORDS];
    struct world_item items[WORLD_NODES][WORLD_NODES][WORLD_DEPTH];
};

void world_init(struct world *world, const struct world_rules *rules, uint64_t seed);
void world_fini(struct world *world);

/* One of what uses the space is at its end: another is there in its time. */
void world_end_client(struct world *world, uint32_t node, uint32_t client);

/* A node is killed now, if it is alive. */
void world_kill(struct world *world, uint32_t node);

const char *world_boundary_name(enum world_boundary what);

/* What does not hold, if nothing was found before. */
bool world_claim(struct world *world, bool holds, const char *what);

/* Some events; false: something does not hold, see `broken`. */
bool world_run(struct world *world, uint64_t events);

/* All that was begun ends, and all links are up; false: it does not. */
bool world_calm(struct world *world);

/* Whether what clients were told can have been; false: it cannot. */
bool world_judge(struct world *world);

/* What is there, for who looks why. */
void world_print(const struct world *world);

#endif
