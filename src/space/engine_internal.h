/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine_*.c share; see engine.h. */
#ifndef SPACE_ENGINE_INTERNAL_H
#define SPACE_ENGINE_INTERNAL_H

#include "base/check.h"
#include "memory/space_window.h"
#include "space/allocator.h"
#include "space/engine.h"
#include "space/frames.h"
#include "space/term.h"

/* ---- ops and places ------------------------------------------------------- */

enum engine_op_state {
    OP_IDLE,
    OP_WAITS,   /* for its block, at a place */
    OP_STARVES, /* for a frame, for others' asks to end, or for this home to begin */
    OP_FAR,     /* asked of another node: ALLOC, FREE */
    OP_JOB      /* of this home: the same */
};

/* FREE of one block, which a job wants. */
#define OP_FREE_BLOCK SPACE_OP_KINDS

/* What came of trying. */
enum engine_tried {
    TRIED_ENDED,
    TRIED_WAITS,
    TRIED_STARVES
};

/* A block that somebody waits for here, or of which an atomic is under way at its home. */
struct space_spot {
    uint64_t address;
    struct list ops;        /* in the order in which they came */
    struct space_line line; /* of one that has no frame here */
    struct space_op *asked; /* the atomic that is under way */
    uint32_t next;          /* in its bucket, or free; and 1 */
    bool is_busy;           /* what waits there is being tried */
};

/* ---- messages that wait for room ------------------------------------------ */

struct engine_letter {
    struct space_send send;
    uint32_t next; /* and 1 */
};

/* ---- an atomic that a node asked for, of a block of this home ------------- */

struct engine_atomic {
    uint64_t address; /* of the word */
    uint64_t operands[2];
    uint8_t seat, kind;
    uint32_t next; /* in its bucket, or free; and 1 */
};

/* ---- mallocs and frees of this home --------------------------------------- */

struct engine_job {
    struct space_engine *engine;
    struct space_op *op; /* a client's of this node; NULL: of a seat, or nobody's any more */
    uint8_t kind;        /* SPACE_OP_ALLOC, SPACE_OP_FREE */
    uint8_t seat;        /* whom to answer; SPACE_NOBODY: nobody */
    bool is_used, is_waiting;
    uint64_t ticket;
    uint64_t first, count, at; /* blocks */
    struct space_op step;      /* FREE: of one block, as a client's */
};

/* ---- a seat --------------------------------------------------------------- */

struct engine_seat {
    bool is_up, is_met, is_cut;
    uint64_t life;  /* the last that was met; 0: none was */
    uint32_t known; /* the last term of this home that it knows */
    uint64_t links; /* whom it says that it is linked with */
    /* Of its home, here. */
    struct space_member member;
    uint64_t members; /* of that term */
    uint64_t whole;   /* to whom this node may say anything of that home's blocks: linked since */
    uint32_t asks;
    bool is_adopting; /* its lines are being told, in order of frames: */
    uint32_t cursor;  /* those before have been */
    bool has_term;    /* one is to be adopted, when who is no member is no more linked: */
    bool is_anew;
    uint32_t number;
    uint64_t next_members;
    /* Messages that wait. */
    uint32_t first, last; /* and 1 */
    uint32_t letters;
};

struct space_engine {
    struct space_engine_config config;
    struct space_frames frames;
    uint32_t place_bits; /* of an address: where in its home's memory */
    uint32_t life;       /* the number of this one, of addresses */
    uint64_t members;    /* as the node says */
    bool has_members, has_ended;
    uint64_t now_us;
    uint64_t up, met; /* seats, as each says */
    struct engine_seat seats[SPACE_SEATS];

    /* The home. */
    struct space_term term;
    uint32_t opened; /* the last term that was open; 0: none of this life */
    uint64_t opened_members;
    uint64_t told;   /* seats that were sent TERM over the link that is up */
    bool needs_term; /* one is to begin */
    bool was_known;  /* somebody knows of a former life of this home */
    struct space_entry *entries;
    uint32_t *lives;   /* of each block: which life its address is of */
    uint32_t *work_of; /* of each block; and 1 */
    struct space_work *works;
    uint32_t *works_free;
    uint32_t works_left; /* of works_free; the rest are new from here up */
    uint32_t works_new;
    struct space_allocator allocator;
    struct engine_atomic *atomics;
    uint32_t *atomic_heads, atomics_free, atomics_new; /* from there on they were nobody's yet */
    struct engine_job jobs[LIMIT_SPACE_JOBS];
    uint32_t job_next, jobs_used;

    /* The cache. */
    struct space_line *lines; /* by frame */

    struct space_spot *places;
    uint32_t *place_heads, places_free, places_new; /* likewise */
    struct list starving, far;
    bool is_paused; /* nobody here is served, and nothing shown */
    bool is_hungry; /* what starves may be tried again */
    uint32_t ticket;
    struct timers timers;
    struct timer **timer_heap;

    struct engine_letter *letters;
    uint32_t letters_free, letters_count;

    struct space_engine_stats stats;
};

/* ---- engine.c ------------------------------------------------------------- */

static inline uint64_t engine_block(const struct space_engine *engine, uint64_t address)
{
    return address & ~engine->config.home.mask;
}

static inline bool engine_is_ours(const struct space_engine *engine, uint64_t address)
{
    return space_address_seat(address) == engine->config.self;
}

/* Of a block of this home. */
static inline uint64_t engine_number(const struct space_engine *engine, uint64_t address)
{
    uint64_t places = (UINT64_C(1) << engine->place_bits) - 1;

    return (address & places) >> engine->config.home.shift;
}

static inline uint64_t engine_address(const struct space_engine *engine, uint64_t number)
{
    return space_address_first(engine->config.self) |
           (uint64_t)engine->lives[number] << engine->place_bits |
           number << engine->config.home.shift;
}

/* Which life an address is of. */
static inline uint32_t engine_life(const struct space_engine *engine, uint64_t address)
{
    uint64_t rest = address & ((UINT64_C(1) << SPACE_SEAT_SHIFT) - 1);

    return (uint32_t)(rest >> engine->place_bits);
}

/* Of this home: what that block is now. */
static inline bool engine_is_current(const struct space_engine *engine, uint64_t address)
{
    return engine_life(engine, address) == engine->lives[engine_number(engine, address)];
}

/* It is in some seat's home memory, and may be somebody's. */
bool engine_is_address(const struct space_engine *engine, uint64_t address);

static inline struct space_message engine_here(const struct space_engine *engine, uint8_t event)
{
    return (struct space_message){
        .event = event, .seat = engine->config.self, .whom = SPACE_NOBODY};
}

/* A peer says what nobody says. */
void engine_refuse(struct space_engine *engine, uint8_t seat);
void engine_cut(struct space_engine *engine, uint8_t seat, nigh_status why);
void engine_wake(struct space_engine *engine);

/* ---- engine_letters.c ----------------------------------------------------- */

/* Says it, or keeps it, in order. Of a home's blocks with bytes from the cache: counted as the
 * member's. */
void engine_say(struct space_engine *engine, struct space_send *send);
void engine_say_alone(struct space_engine *engine, uint8_t seat, struct space_wire *wire);
void engine_say_waiting(struct space_engine *engine, uint8_t seat);
void engine_drop_letters(struct space_engine *engine, uint8_t seat);

/* ---- engine_ops.c --------------------------------------------------------- */

struct space_spot *engine_find_place(struct space_engine *engine, uint64_t block);
struct space_spot *engine_make_place(struct space_engine *engine, uint64_t block); /* NULL: none */
/* Nobody's any more, unless somebody waits there. */
void engine_release_place(struct space_engine *engine, struct space_spot *place);
/* What waits for the block is tried again. */
void engine_try_again(struct space_engine *engine, uint64_t block);
/* All that waits for it ends. */
void engine_end_all(struct space_engine *engine, uint64_t block, nigh_status status);
void engine_end_op(struct space_engine *engine, struct space_op *op, nigh_status status);
void engine_feed(struct space_engine *engine);
void engine_expire(struct space_engine *engine);
/* Of the seats whose homes are not to be had any more. */
void engine_end_of_seats(struct space_engine *engine, uint64_t seats, nigh_status status);
void engine_end_far(struct space_engine *engine, uint8_t seat);
/* Each place whose block is of that home is told ADOPT or OPEN. */
void engine_tell_places(struct space_engine *engine, uint8_t home, uint8_t event);
/* Which seat's home it is for. */
uint8_t engine_seat_of(const struct space_engine *engine, const struct space_op *op);
enum engine_tried engine_wait(struct space_engine *engine, struct space_op *op,
                              enum engine_tried tried);
nigh_status engine_gone_status(uint8_t why);
/* Does it to bytes that this node may read, or write: a client's op. `word`: of the view. */
void engine_perform(struct space_engine *engine, struct space_op *op, _Atomic uint64_t *word,
                    _Atomic uint64_t *bytes);
/* What was there. */
uint64_t engine_do_atomic(uint8_t kind, const uint64_t operands[2], uint32_t offset,
                          _Atomic uint64_t *word, _Atomic uint64_t *bytes);
/* Shows or hides it. true: it was hidden by this. */
void engine_show_home(struct space_engine *engine);
void engine_show_cache(struct space_engine *engine);
bool engine_show(_Atomic uint64_t *word, bool is_shown);

/* ---- engine_cache.c ------------------------------------------------------- */

enum engine_tried engine_try_cache(struct space_engine *engine, struct space_op *op);
void engine_cache_message(struct space_engine *engine, uint8_t seat, const struct space_wire *wire);
void engine_adopt(struct space_engine *engine, uint8_t home);
/* Goes on with it; true: there is more. */
bool engine_adopt_more(struct space_engine *engine, uint8_t home);
/* A line of a home whose term is being adopted has, before anything is said of it. */
void engine_settle(struct space_engine *engine, uint32_t frame);
void engine_open_cache(struct space_engine *engine, uint8_t home);
/* A line that has no frame. */
void engine_step_place(struct space_engine *engine, struct space_spot *place, uint8_t event);

/* ---- engine_home.c -------------------------------------------------------- */

enum engine_tried engine_try_home(struct space_engine *engine, struct space_op *op);
void engine_home_message(struct space_engine *engine, uint8_t seat, const struct space_wire *wire);
enum space_result engine_home_here(struct space_engine *engine, uint64_t number, uint8_t event);
void engine_begin_term(struct space_engine *engine);
void engine_tell_term(struct space_engine *engine, uint8_t seat);
void engine_claimed(struct space_engine *engine, uint8_t seat, uint32_t number);
void engine_try_open(struct space_engine *engine);

/* ---- engine_jobs.c -------------------------------------------------------- */

enum engine_tried engine_begin_job(struct space_engine *engine, struct space_op *op);
void engine_job_message(struct space_engine *engine, uint8_t seat, const struct space_wire *wire);
void engine_job_answer(struct space_engine *engine, uint8_t seat, const struct space_wire *wire);
bool engine_jobs_turn(struct space_engine *engine);
/* Whoever waits for its end does no more. */
void engine_leave_job(struct space_engine *engine, struct space_op *op);
void engine_end_jobs(struct space_engine *engine, nigh_status status);

/* ---- engine_seats.c ------------------------------------------------------- */

void engine_seat_message(struct space_engine *engine, uint8_t seat, const struct space_wire *wire);
void engine_try_adopt(struct space_engine *engine, uint8_t home);
void engine_say_links(struct space_engine *engine);
void engine_seat_up(struct space_engine *engine, uint8_t seat);
void engine_seat_down(struct space_engine *engine, uint8_t seat);

#endif
