/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine_*.c share; see engine.h. */
#ifndef SPACE_ENGINE_INTERNAL_H
#define SPACE_ENGINE_INTERNAL_H

#include "base/check.h"
#include "memory/space_window.h"
#include "space/allocator.h"
#include "space/engine.h"
#include "space/frames.h"
#include "space/log.h"
#include "space/term.h"

/* ---- ops and places ------------------------------------------------------- */

enum engine_op_state {
    OP_IDLE,
    OP_WAITS,   /* for its block, at a place */
    OP_STARVES, /* for a frame, for others' asks to end, or for this home to begin */
    OP_FAR,     /* asked of another node: ALLOC, FREE */
    OP_JOB,     /* of this home: the same */
    OP_WRITTEN  /* done, and not durable yet */
};

/* FREE of one block, which a job wants. */
#define OP_FREE_BLOCK SPACE_OP_KINDS

/* What came of trying. */
enum engine_tried {
    TRIED_ENDED,
    TRIED_WAITS,
    TRIED_STARVES,
    TRIED_WRITTEN
};

/* A block that somebody waits for here, of which an atomic is under way at its home, or whose home
 * has not heard yet that it was given up. */
struct space_spot {
    uint64_t address;
    struct list ops;        /* in the order in which they came */
    struct space_line line; /* of one that has no frame here */
    struct space_op *asked; /* the atomic that is under way */
    uint32_t next;          /* in its bucket, or free; and 1 */
    bool is_busy;           /* what waits there is being tried */
    struct list_node tries; /* in engine_try.waits */
};

/* ---- try-locks that wait -------------------------------------------------- */

/* What this node asks about a block: whether a client of any node holds it. */
struct engine_try {
    uint64_t block;
    uint64_t number;   /* 0: nothing is asked */
    struct list waits; /* places: of other blocks, or of the same once more */
};

/* It asks when there is room, if it waits for anybody else. */
#define ENGINE_ASKS_LATER UINT64_C(1)

/* What a seat, or this one, has asked about a block of this home. */
struct engine_asked {
    uint64_t block, number;
    uint64_t round;  /* of what is under way there: when it is something else, */
    uint64_t looked; /* seats that were asked in it, who said that they do not hold it; */
    uint64_t sent;   /* and the number of the last that was */
    struct list_node due;
    uint32_t next; /* in its bucket; and 1 */
    uint8_t seat;
    uint8_t at; /* whose answer it waits for, or SPACE_NOBODY */
    bool is_used;
};

#define ENGINE_ASKED         (SPACE_SEATS * LIMIT_SPACE_TRIES)
#define ENGINE_ASKED_BUCKETS 256u

/* ---- messages that wait for room ------------------------------------------ */

struct engine_letter {
    struct space_send send;
    uint64_t after; /* the record that it waits for */
    uint32_t next;  /* and 1 */
};

/* ---- an atomic that a node asked for, of a block of this home ------------- */

struct engine_atomic {
    uint64_t address; /* of the word */
    uint64_t operands[2];
    uint64_t result; /* once it is done */
    uint8_t seat, kind;
    uint32_t next; /* in its bucket, or free; and 1 */
};

/* ---- mallocs and frees of this home --------------------------------------- */

struct engine_job {
    struct space_engine *engine;
    struct space_op *op; /* a client's of this node; NULL: of a seat, or nobody's any more */
    uint8_t kind;        /* SPACE_OP_ALLOC, SPACE_OP_FREE */
    uint8_t seat;        /* whom to answer; SPACE_NOBODY: nobody */
    bool is_used;
    uint64_t ticket;
    uint64_t first, count, at; /* blocks */
    uint64_t record;           /* the last that it logged */
    uint32_t steps;            /* FREE: blocks before `at` that are not freed yet; */
    uint32_t again;            /* those that had no room to wait, to be tried again; and 1 */
};

/* FREE of one block, as a client's. */
struct engine_step {
    struct engine_job *job;
    struct space_op op;
    uint32_t next; /* free, or of those that are tried again; and 1 */
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
    uint64_t torn;    /* whose link broke since its last TERM came: it will begin another */
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

/* ---- the log -------------------------------------------------------------- */

/* Bytes of a block that this node may write: of the home, or in a frame. */
struct engine_bytes {
    uint64_t block;
    uint32_t frame; /* SPACE_NO_FRAME: of the home */
    _Atomic uint64_t *word, *bytes;
};

/* Of a block of the home, or of a frame: numbers of records. */
struct engine_mark {
    uint64_t last;  /* of all: what leaves of it waits for that */
    uint64_t write; /* of what was written: sync shows it once that is durable */
};

/* What the log has of the block that has a frame, or had. */
struct engine_copy {
    struct space_log_copy copy; /* address 0: nothing */
    bool is_dead;               /* it is not needed, and the log does not know that yet */
};

struct engine_wait {
    uint64_t number, block;
};

struct engine_held {
    uint8_t seat; /* SPACE_NOBODY: its link is down */
    struct space_wire wire;
};

struct engine_unlock {
    uint64_t address;
    uint8_t holds;
};

/* A step of the home, for log_rules.h. */
struct engine_home_step {
    struct space_entry entry_before;
    struct space_work work_before;
    const struct space_entry *entry;
    const struct space_work *work;
    const struct space_message *message;
};

struct engine_log {
    struct space_log *log; /* NULL: none, and nothing else of this is used */
    bool is_sync;
    nigh_status status; /* why nothing is durable any more: then the space is left */
    bool has_job;
    struct space_log_job job;
    struct engine_mark *blocks, *frames;
    struct space_log_block *home; /* what the log says of this home's blocks */
    struct engine_copy *copies;   /* by frame */
    uint64_t lives[SPACE_SEATS], members;
    uint32_t since[SPACE_SEATS]; /* as the engine's, of these lives */
    uint64_t image_at;           /* seats, blocks and frames, in this order */
    /* Rings: writes that are not durable, in order; what came, and what is let go, while there was
     * no room. */
    struct engine_wait *waits;
    struct engine_held *held;
    struct engine_unlock *unlocks;
    uint32_t holds; /* locks of clients here: all may be let go while there is no room */
    uint32_t waits_first, waits_count, held_first, held_count, unlocks_first, unlocks_count;
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
    uint32_t since[SPACE_SEATS]; /* struct space_home's */
    bool has_begun;              /* one was opened to its end in this life */
    bool is_recovered;           /* it knows what its log has of an earlier one */
    bool is_opening;             /* REBUILT is said to blocks, as far as log and links have room */
    uint64_t open_at;            /* seats that are no members, blocks, and members */
    uint32_t asking[LIMIT_SPACE_OPENING]; /* blocks whose bytes that asked for */
    uint32_t asking_count;
    uint64_t told;   /* seats that were sent TERM over the link that is up */
    bool needs_term; /* one is to begin */
    bool was_known;  /* somebody knows of a former life of this home */
    struct space_entry *entries;
    uint32_t *lives;   /* of each block: which life its address is of */
    uint32_t *before;  /* of each that is given: how many of the same malloc are before it */
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
    struct engine_step *steps;
    uint32_t steps_free, steps_new, steps_used; /* of those as of atomics */
    /* What frees that did not come to their end have left, as the log says, is freed: blocks from
     * here up to there have not been looked at. */
    uint64_t leftover_at, leftover_end;

    /* The cache. */
    struct space_line *lines; /* by frame */
    uint32_t *places_in;      /* by frame: as `before` of the block's home, who says so */

    struct space_spot *places;
    uint32_t *place_heads, places_free, places_new; /* likewise */
    struct list starving, far;
    bool is_paused; /* nobody here is served, and nothing shown */
    bool is_hungry; /* what starves may be tried again */
    uint32_t ticket;
    struct engine_try *tries;
    uint64_t tries_count; /* that were ever asked; so of the next */
    struct engine_asked *asked;
    uint64_t asked_count;
    uint32_t asked_heads[ENGINE_ASKED_BUCKETS], asked_used;
    struct list asked_due; /* something may have changed for them */
    struct timers timers;
    struct timer **timer_heap;

    struct engine_letter *letters;
    uint32_t letters_free, letters_count, letters_used;

    struct engine_log log;

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

/* Whether so many blocks of its home may be before that one in what one malloc gave. */
static inline bool engine_is_place(const struct space_engine *engine, uint64_t address,
                                   uint64_t before)
{
    uint64_t first = space_address_seat(address) == 0; /* of seat 0 the first is nobody's */

    return first + before <= engine_number(engine, address);
}

/* It is in some seat's home memory, and may be somebody's. */
bool engine_is_address(const struct space_engine *engine, uint64_t address);

static inline struct space_message engine_here(const struct space_engine *engine, uint8_t event)
{
    return (struct space_message){
        .event = event, .seat = engine->config.self, .whom = SPACE_NOBODY};
}

/* This home knows what it did in a term before. */
static inline bool engine_remembers(const struct space_engine *engine)
{
    return engine->opened != 0 || engine->is_recovered;
}

/* A message that was looked at. */
void engine_dispatch(struct space_engine *engine, uint8_t seat, const struct space_wire *wire);

/* A peer says what nobody says. */
void engine_refuse(struct space_engine *engine, uint8_t seat);
void engine_cut(struct space_engine *engine, uint8_t seat, nigh_status why);
void engine_wake(struct space_engine *engine);

/* ---- engine_letters.c ----------------------------------------------------- */

/* Says it, once that record is durable, or keeps it, in order. Of a home's blocks with bytes from
 * the cache: counted as the member's. */
void engine_say(struct space_engine *engine, struct space_send *send, uint64_t after);
void engine_say_alone(struct space_engine *engine, uint8_t seat, struct space_wire *wire,
                      uint64_t after);
void engine_say_waiting(struct space_engine *engine, uint8_t seat);
/* What is said of one more block, to all seats at most, and could wait, has room. */
bool engine_has_letters(const struct space_engine *engine);
void engine_drop_letters(struct space_engine *engine, uint8_t seat);

/* Somebody wants a block that is held here, or any (0): as the shell's `wanted`. */
bool engine_want(struct space_engine *engine, uint64_t block);

/* ---- engine_ops.c --------------------------------------------------------- */

struct space_spot *engine_find_place(struct space_engine *engine, uint64_t block);
bool engine_has_place(const struct space_engine *engine);
struct space_spot *engine_make_place(struct space_engine *engine, uint64_t block); /* NULL: none */
/* Nobody's any more, unless somebody waits there. */
void engine_release_place(struct space_engine *engine, struct space_spot *place);
/* What waits for the block is tried again. */
void engine_try_again(struct space_engine *engine, uint64_t block);
/* All that waits for it ends. */
void engine_end_all(struct space_engine *engine, uint64_t block, nigh_status status);
/* Tries of it about which that was asked end: NIGH_BUSY. */
void engine_end_tries(struct space_engine *engine, uint64_t block, uint64_t number);
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
/* Does it to bytes that this node may read, or write: a client's op. */
enum engine_tried engine_perform(struct space_engine *engine, struct space_op *op,
                                 const struct engine_bytes *at);
/* What was there. NIGH_OK, or why it cannot be logged. */
nigh_status engine_do_atomic(struct space_engine *engine, uint8_t kind, const uint64_t operands[2],
                             uint32_t offset, const struct engine_bytes *at, uint64_t *value);
/* Ops of that block that are done, and durable, end. */
void engine_end_written(struct space_engine *engine, uint64_t block);
/* Shows or hides it. true: it was hidden by this. */
void engine_show_home(struct space_engine *engine);
void engine_show_cache(struct space_engine *engine);
bool engine_show(_Atomic uint64_t *word, bool is_shown);

/* ---- engine_tries.c ------------------------------------------------------- */

/* One that waits at a place asks whether somebody holds its block. */
void engine_ask_if_held(struct space_engine *engine, struct space_op *op);
/* A term of this home is open: what was asked about its blocks is lost, or waited for that. */
void engine_ask_again(struct space_engine *engine);
void engine_leave_tries(struct space_spot *place);
void engine_try_message(struct space_engine *engine, uint8_t seat, const struct space_wire *wire);
/* A step of that block of this home. */
void engine_note_asked(struct space_engine *engine, uint64_t number);
/* What may be known now is answered. */
void engine_look_at_asked(struct space_engine *engine);
/* That seat's home hears, or answers, nothing more of what was asked; no seat of this home does;
 * that seat asks, and answers, nothing more here. */
void engine_forget_tries(struct space_engine *engine, uint8_t home);
void engine_forget_asked(struct space_engine *engine);
void engine_forget_asked_of(struct space_engine *engine, uint8_t seat);
bool engine_tries_are_valid(const struct space_engine *engine);

/* ---- engine_cache.c ------------------------------------------------------- */

enum engine_tried engine_try_cache(struct space_engine *engine, struct space_op *op);
/* Whether a WRITE of owned->block is carried out without a step: then where it is. */
bool engine_owns_cached(struct space_engine *engine, struct space_owned *owned);
void engine_cache_message(struct space_engine *engine, uint8_t seat, const struct space_wire *wire);
void engine_adopt(struct space_engine *engine, uint8_t home);
/* Goes on with it; true: there is more. */
bool engine_adopt_more(struct space_engine *engine, uint8_t home);
/* A line of a home whose term is being adopted has, before anything is said of it. */
void engine_settle(struct space_engine *engine, uint32_t frame);
void engine_open_cache(struct space_engine *engine, uint8_t home);
/* A line that has no frame. */
void engine_step_place(struct space_engine *engine, struct space_spot *place, uint8_t event);

/* Whether its home was asked for it, and has not answered. */
bool engine_cache_is_asking(struct space_engine *engine, uint64_t block);
/* Whether a client here holds what its home wants, and does not merely keep it. */
bool engine_cache_is_held(struct space_engine *engine, uint64_t block);

/* Whether its home wants something of what is held here, or it is not to be kept. */
bool engine_cache_is_wanted(struct space_engine *engine, uint64_t block);
/* What is held of those homes, which are no members, is not kept. */
void engine_want_of_seats(struct space_engine *engine, uint64_t seats);

/* What was written to it is durable: it may be shown. */
void engine_show_again(struct space_engine *engine, uint64_t block);

/* ---- engine_home.c -------------------------------------------------------- */

/* Whether a node waits for what is held at this home. */
bool engine_home_is_wanted(struct space_engine *engine, uint64_t number);
enum engine_tried engine_try_home(struct space_engine *engine, struct space_op *op);
/* As engine_owns_cached. */
bool engine_owns_home(struct space_engine *engine, uint64_t address, struct space_owned *owned);
void engine_home_message(struct space_engine *engine, uint8_t seat, const struct space_wire *wire);
enum space_result engine_home_here(struct space_engine *engine, uint64_t number, uint8_t event);
void engine_begin_term(struct space_engine *engine);
void engine_tell_term(struct space_engine *engine, uint8_t seat);
void engine_claimed(struct space_engine *engine, uint8_t seat, uint32_t number);
void engine_try_open(struct space_engine *engine);

/* Atomics that a step says are done. */
void engine_do_atomics(struct space_engine *engine, uint64_t number, struct space_out *out);
void engine_show_number(struct space_engine *engine, uint64_t number);

/* ---- engine_log.c --------------------------------------------------------- */

/* What one event may need at most, of blocks of 1 << shift bytes: nothing begins with less. What
 * lets go of a block serves who waits for it, and that may be an atomic of every seat. */
static inline uint32_t engine_log_step(uint32_t shift)
{
    return LIMIT_SPACE_LOG_STEP * (SPACE_LOG_RECORD_BYTES + (UINT32_C(1) << shift)) +
           SPACE_SEATS * (SPACE_LOG_RECORD_BYTES + (uint32_t)sizeof(uint64_t));
}

bool engine_has_log(const struct space_engine *engine);
uint32_t engine_log_reserve(const struct space_engine *engine);
/* For whatever one event may need. */
bool engine_log_has_room(const struct space_engine *engine);
uint64_t engine_log_last(const struct space_engine *engine);
bool engine_is_durable(const struct space_engine *engine, uint64_t number);

/* A log that ends before this is over has nothing of it that a start believes (engine_recover.c):
 * until then nobody may be told to let go of what it asked for. */
static inline bool engine_holds_answers(const struct space_engine *engine)
{
    return engine_has_log(engine) && engine->is_opening && !engine->has_begun &&
           !engine->is_recovered;
}

/* The space is left, in the next turn. */
void engine_log_fail(struct space_engine *engine, nigh_status status);
/* What clients are told of a log that is of no use any more: NIGH_CORRUPT: it is an old one; else
 * NIGH_DISK. NIGH_OK: it has not failed. */
nigh_status engine_log_told(const struct space_engine *engine);
/* NULL: there is none. */
struct engine_mark *engine_mark_of(struct space_engine *engine, uint64_t block);
/* sync: what was written last is not durable yet. */
bool engine_is_fresh(const struct space_engine *engine, const struct engine_mark *mark);
/* Before anything of the step is said; its atomics are done here. */
void engine_log_home(struct space_engine *engine, uint64_t number,
                     const struct engine_home_step *step, struct space_out *out);
/* Of a malloc, of which so many blocks were logged before. */
uint64_t engine_log_alloc(struct space_engine *engine, uint64_t first, uint32_t blocks,
                          uint64_t before);
void engine_log_claim(struct space_engine *engine, uint64_t number, uint8_t seat,
                      struct space_epoch epoch);
void engine_log_free(struct space_engine *engine, uint64_t number);
/* Of a home that began anew: as a block of a malloc of so many, of which so many are before it. */
void engine_log_place(struct space_engine *engine, uint64_t number, uint64_t before,
                      uint64_t blocks);
void engine_log_term(struct space_engine *engine);
void engine_log_member(struct space_engine *engine, uint8_t seat);
/* A block takes a frame. */
void engine_log_frame(struct space_engine *engine, uint32_t frame);
bool engine_is_logged(const struct space_engine *engine, uint32_t frame);
void engine_log_line(struct space_engine *engine, uint64_t block, uint32_t frame,
                     const struct space_cache *cache, const struct space_line *before,
                     const struct space_line *line, const struct space_message *message);
bool engine_log_keeps(struct space_engine *engine, uint32_t frame, struct space_line *line);
struct space_line engine_line_of_copy(const struct space_log_copy *copy, uint32_t frame);
/* Before it is applied. */
nigh_status engine_log_write(struct space_engine *engine, const struct engine_bytes *at,
                             uint32_t offset, const void *from, uint32_t length);
/* Images, and the next job. true: there is more to do at once. */
bool engine_log_turn(struct space_engine *engine);
/* Messages wait, in order, while there is no room. */
bool engine_must_hold(const struct space_engine *engine);
void engine_hold(struct space_engine *engine, uint8_t seat, const struct space_wire *wire);
void engine_drop_held(struct space_engine *engine, uint8_t seat);
void engine_take_held(struct space_engine *engine);
/* true: it is let go when there is room. */
bool engine_defer_unlock(struct space_engine *engine, const struct space_op *op);
void engine_unlock_deferred(struct space_engine *engine);

/* ---- engine_recover.c ----------------------------------------------------- */

nigh_status engine_recover(struct space_engine *engine, const struct space_log_state *state);
/* That seat knows this term of this home: then its log is not the last one that it had. */
bool engine_is_log_old(const struct space_engine *engine, uint8_t seat, uint32_t known);
/* Nobody who may know that is yet to be met. */
bool engine_is_log_known(const struct space_engine *engine);

/* ---- engine_jobs.c -------------------------------------------------------- */

enum engine_tried engine_begin_job(struct space_engine *engine, struct space_op *op);
void engine_job_message(struct space_engine *engine, uint8_t seat, const struct space_wire *wire);
void engine_job_answer(struct space_engine *engine, uint8_t seat, const struct space_wire *wire);
bool engine_jobs_turn(struct space_engine *engine);
/* Whoever waits for its end does no more. */
void engine_leave_job(struct space_engine *engine, struct space_op *op);
/* A seat is down: its asks are nobody's, and its next ones another's. */
void engine_forget_asker(struct space_engine *engine, uint8_t seat);
void engine_end_jobs(struct space_engine *engine, nigh_status status);
bool engine_jobs_are_valid(const struct space_engine *engine);

/* ---- engine_seats.c ------------------------------------------------------- */

void engine_seat_message(struct space_engine *engine, uint8_t seat, const struct space_wire *wire);
void engine_try_adopt(struct space_engine *engine, uint8_t home);
void engine_say_links(struct space_engine *engine);
void engine_seat_up(struct space_engine *engine, uint8_t seat);
void engine_seat_down(struct space_engine *engine, uint8_t seat);

#endif
