/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window: memory of one thread of a client and its node's lane, through which the thread says
 * what is to be done to spaces (docs/spaces.md, "Windows"). A ring of records, which is the
 * thread's store buffer: what it has written and the lane has not yet carried out lies there, and
 * its own reads look there first. Beside it a place for one answer, and hints.
 *
 * The client can write all of it. The lane copies a record's head out before it looks at it, keeps
 * its own places, and reads back nothing that it wrote: `space_consumer` is private. So is
 * `space_producer`, the client's; it believes its node.
 *
 * Pure but for the wake of a thread that sleeps. One thread a side.
 */
#ifndef MEMORY_SPACE_WINDOW_H
#define MEMORY_SPACE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "memory/shared.h"
#include "memory/space_view.h"
#include "nigh/status.h"

/* ---- records -------------------------------------------------------------- */

/*
 * A record is whole granules of 16 bytes: a head, and what its kind has behind it. No record is of
 * more than one block. Of one block, all is carried out in the order of the ring; of several, in
 * any, but for what FENCE and the kinds behind it say.
 */
enum space_record_kind {
    SPACE_RECORD_WRITE = 1, /* length bytes follow */
    SPACE_RECORD_FENCE, /* what writes, behind it, is not carried out before what does, before it */
    SPACE_RECORD_UNLOCK, /* after all that is before it */
    /* These are answered, and a space_ask follows their heads; a thread has one at a time. */
    SPACE_RECORD_READ, /* length bytes */
    SPACE_RECORD_ADD,  /* operand: what to add; the value: what was there; so of the next two */
    SPACE_RECORD_EXCHANGE,
    SPACE_RECORD_SWAP,      /* operands: what is to be there, and what to put there then */
    SPACE_RECORD_LOCK_READ, /* these four after all that is before them */
    SPACE_RECORD_LOCK_WRITE,
    SPACE_RECORD_TRY_LOCK_READ,
    SPACE_RECORD_TRY_LOCK_WRITE,
    SPACE_RECORD_FLUSH, /* when all that is before it is carried out */
    SPACE_RECORD_ALLOC, /* operands: bytes, and a power of two that the address is a multiple of (0:
                           a block's bytes); near the address, unless that is 0; the value: where */
    SPACE_RECORD_FREE,  /* likewise after all that is before it */
    SPACE_RECORD_FETCH, /* its block will be read soon; not answered. Came later: it is said where
                           the welcome has SESSION_FETCHES */
    SPACE_RECORD_KINDS
};

#define SPACE_GRANULE 16u

/* Of the first word: kind (8 bits; the top one the lane's: done), note (8: the client's own),
 * length (16), space (32). The second is the address. */
#define SPACE_RECORD_DONE UINT64_C(0x80)

/* The third and fourth word of what is answered: a timeout, and its sequence number (32 bits).
 * Operands are the fifth and sixth. */
#define SPACE_ASK_BYTES 16u

/* A record as the lane has it: its own. */
struct space_record {
    uint64_t at;      /* its place in the ring */
    uint32_t number;  /* for space_consumer_done */
    uint8_t kind;     /* enum space_record_kind */
    uint16_t length;  /* WRITE, READ: 1 to LIMIT_SPACE_BLOCK_BYTES; atomics: 8; else 0 */
    uint32_t space;   /* not checked */
    uint64_t address; /* not checked: see space_record_fits */
    uint64_t timeout_us;
    uint32_t sequence;
    uint64_t operands[2];
};

/* Whether it is inside one block of such a size, and aligned as an atomic must be. */
bool space_record_fits(const struct space_record *record, uint32_t block_bytes);

/* ---- the memory ----------------------------------------------------------- */

/* A word alone on two cache lines, which processors fetch together. */
struct space_place {
    _Atomic uint64_t value;
    uint64_t reserved[15];
};

struct space_flag {
    _Atomic uint32_t value;
    uint32_t reserved[31];
};

struct space_reply {
    _Atomic uint32_t sequence; /* of the ask that is answered; last */
    _Atomic uint32_t status;   /* a nigh_status */
    _Atomic uint64_t value;
    uint64_t reserved[14];
};

/* Of WRITEs, which have no answer: how many failed, and the last of them. */
struct space_failure {
    _Atomic uint32_t count; /* last */
    _Atomic uint32_t status;
    _Atomic uint64_t address;
    uint64_t reserved[14];
};

/* What a thread counts of a space, ever; its reads are of a block each. */
enum space_count {
    SPACE_COUNT_HITS,   /* reads of what lay where it is read, */
    SPACE_COUNT_MISSES, /* and those for which the lane was asked */
    SPACE_COUNT_KEPT,   /* locks that it had kept, */
    SPACE_COUNT_LOCKS,  /* and those that the lane gave */
    SPACE_COUNTS
};

struct space_window {
    struct space_place tail;  /* client: bytes of records, ever */
    struct space_flag asleep; /* client: the news it sleeps on, or is about to, and 1; 0: none */
    struct space_place hint_count; /* client: hints, ever */
    struct space_place head;  /* lane: bytes of records carried out, and all before them, ever */
    struct space_flag news;   /* lane: even; another when it wakes who sleeps */
    struct space_reply reply; /* lane */
    struct space_failure failure;             /* lane */
    _Atomic uint64_t kept[LIMIT_SPACE_HOLDS]; /* both: see enum space_kept_state */
    /* client, by the space's place (space_place_of): nobody's but who looks at numbers */
    _Atomic uint64_t counts[LIMIT_SPACES][SPACE_COUNTS];
    uint8_t reserved[4096 - 7 * 128 - 8 * LIMIT_SPACE_HOLDS - 8 * LIMIT_SPACES * SPACE_COUNTS -
                     8 * LIMIT_SPACE_HINTS];
    _Atomic uint64_t hints[LIMIT_SPACE_HINTS];                 /* client: space << 32 | frame */
    _Atomic uint64_t reply_bytes[LIMIT_SPACE_BLOCK_BYTES / 8]; /* lane */
    _Atomic uint64_t ring[LIMIT_SPACE_RING_BYTES / 8];         /* client; DONE: lane */
};

_Static_assert(sizeof(struct space_window) == 8192 + LIMIT_SPACE_RING_BYTES, "whole pages");
_Static_assert((LIMIT_SPACE_RING_BYTES & (LIMIT_SPACE_RING_BYTES - 1)) == 0, "a ring wraps");
_Static_assert((LIMIT_SPACE_TAKEN & (LIMIT_SPACE_TAKEN - 1)) == 0, "what is taken wraps");
_Static_assert((LIMIT_SPACE_HINTS & (LIMIT_SPACE_HINTS - 1)) == 0, "hints wrap");

_Static_assert(offsetof(struct space_window, kept) == 896, "kept locks behind what is told");
_Static_assert(offsetof(struct space_window, counts) == 1408 &&
                   offsetof(struct space_window, hints) == 3584,
               "they are shared");
_Static_assert(256 % LIMIT_SPACES == 0, "a number's low bits are a place");

/* A number that a session has for a space has in its low 8 bits a place and 1: which no two have
 * that it has open at once. */
static inline uint32_t space_place_of(uint32_t number)
{
    return (number - 1) % LIMIT_SPACES;
}

/* ---- kept locks ----------------------------------------------------------- */

/*
 * Of a word of `kept`: the low bits; above them, KEPT, the tail at the unlock. docs/spaces.md,
 * "Kept locks". The client swaps HELD for KEPT, and the KEPT that it put there for HELD; the lane
 * does all else.
 */
enum space_kept_state {
    SPACE_KEPT_FREE,
    SPACE_KEPT_HELD,
    SPACE_KEPT_KEPT,
    SPACE_KEPT_WANTED
};

#define SPACE_KEPT_STATE UINT64_C(15) /* below a granule */

/* ---- the client's side ---------------------------------------------------- */

/* What a client has of one space, or zeroes for a home that is not here. `number` is what it calls
 * it, and one for one space: by it a thread knows its own writes. */
struct space_mapped {
    struct space_view cache, home;
    uint32_t number;
};

#define SPACE_NOTES 256u

#define SPACE_NO_KEPT UINT32_MAX

/* A lock that the lane lets this thread keep, held or given back. */
struct space_kept {
    uint64_t block; /* 0: none */
    uint64_t word;  /* KEPT, as it was put there; 0: it is held, or not to be had */
    uint32_t space;
    bool is_alone;
};

struct space_producer {
    struct space_window *window;
    uint64_t tail; /* bytes of records written, ever */
    uint64_t head; /* of them carried out, as was last seen */
    uint64_t hints;
    uint64_t last_hint;
    uint32_t sequence; /* of the last ask */
    uint32_t failures; /* seen */
    /* WRITEs from head to tail, by a few bits of their block. */
    uint16_t pending[SPACE_NOTES];
    struct space_kept kept[LIMIT_SPACE_HOLDS];
    uint8_t kept_at[SPACE_NOTES]; /* which of these may be of a block with such bits */
};

/* Of a window that is all zero, or a producer's that is gone and whose lane begins it anew. */
void space_producer_init(struct space_producer *producer, struct space_window *window);

/*
 * Says that bytes are to be written, all of one block. False: there is no room now. *ticket: for
 * space_producer_is_done. Who has written asks space_producer_must_ring.
 */
bool space_producer_write(struct space_producer *producer, const struct space_mapped *space,
                          uint64_t address, const void *bytes, uint32_t length, uint64_t *ticket);

/* The same of FENCE, UNLOCK and FETCH. */
bool space_producer_say(struct space_producer *producer, enum space_record_kind kind,
                        const struct space_mapped *space, uint64_t address);

/* The same of what is answered. None other is under way. The answer is that of producer->sequence.
 */
bool space_producer_ask(struct space_producer *producer, enum space_record_kind kind,
                        const struct space_mapped *space, uint64_t address, uint32_t length,
                        const uint64_t operands[2], uint64_t timeout_us);

/* Whether the last ask is answered; then what it came to. READ: bytes, of `length`. */
bool space_producer_is_answered(const struct space_producer *producer);
nigh_status space_producer_answer(const struct space_producer *producer, uint64_t *value,
                                  void *bytes, uint32_t length);

/* Whether the lane sleeps, as that word says, and is to be woken. The fence stands between what was
 * said and the look: the lane's stands the other way round. */
static inline bool space_producer_must_ring(const _Atomic uint32_t *asleep)
{
    shared_fence();
    return shared_load_relaxed(asleep) != 0;
}

/* Looks at what was carried out. False: the node says what cannot be. */
bool space_producer_look(struct space_producer *producer);

/* Whether all that it said is carried out, so that nothing it does next comes before that: a full
 * fence, when it is true. */
static inline bool space_producer_is_empty(struct space_producer *producer)
{
    return producer->head == producer->tail ||
           shared_load_acquire(&producer->window->head.value) == producer->tail;
}

/* Whether that WRITE is carried out: all others see it. */
bool space_producer_is_done(const struct space_producer *producer, uint64_t ticket);

/*
 * Locks that are kept. A lock that was given is noted by the answer's value: which one it is, or
 * SPACE_NO_KEPT: it is given back by an UNLOCK alone.
 */
uint32_t space_producer_note_lock(struct space_producer *producer, const struct space_mapped *space,
                                  uint64_t block, bool is_alone, uint64_t value);

/* Whether the word is yet of that lock, as far as was noted: the lane lets go of what is of a space
 * that was deleted, or left, and tells nobody; the word is another lock's then. */
bool space_producer_is_of(const struct space_producer *producer, uint32_t kept, uint32_t space,
                          uint64_t block);

/* Gives it back, and keeps it: true. false: an UNLOCK is to be said, somebody wants it. Only of
 * what it is of (is_of). */
bool space_producer_keep(struct space_producer *producer, uint32_t kept);

/* Which kept lock is of that block, or SPACE_NO_KEPT; it may have been revoked. */
uint32_t space_producer_find_kept(const struct space_producer *producer,
                                  const struct space_mapped *space, uint64_t block, bool is_alone);

/* Has it again: true. All that was said is to be carried out first: space_producer_is_empty. */
bool space_producer_take_kept(struct space_producer *producer, uint32_t kept);

/* How many WRITEs failed since this was called last, and the last of them: behind an answer to
 * FLUSH. While the lane may say more, its status and address may be of two. */
uint32_t space_producer_failures(struct space_producer *producer, nigh_status *status,
                                 uint64_t *address);

/*
 * To sleep: begin, look whether what it waits for is there, sleep, end, and look again. `news` is
 * what begin returned. NIGH_OK: something may be; NIGH_TIMEOUT.
 */
uint32_t space_producer_begin_sleep(struct space_producer *producer);
nigh_status space_producer_sleep(struct space_producer *producer, uint32_t news,
                                 uint64_t timeout_us);
void space_producer_end_sleep(struct space_producer *producer);

/* Reads where own writes of the same few bits are pending. */
enum space_answer space_producer_read_own(struct space_producer *producer,
                                          const struct space_mapped *space, uint64_t hash,
                                          uint64_t address, void *out, uint32_t length);

static inline uint32_t space_note_of(const struct space_mapped *space, uint64_t hash)
{
    return (uint32_t)(hash >> 24 ^ space->number) % SPACE_NOTES;
}

/* Says that a frame was of use. Lossy: what was not looked at is overwritten. */
static inline void space_producer_hint(struct space_producer *producer, uint32_t space,
                                       uint32_t frame)
{
    uint64_t hint = (uint64_t)space << 32 | frame;

    if (hint != producer->last_hint) {
        struct space_window *window = producer->window;
        uint64_t count = producer->hints++;

        producer->last_hint = hint;
        shared_store_relaxed(&window->hints[count % LIMIT_SPACE_HINTS], hint);
        shared_store_relaxed(&window->hint_count.value, count + 1);
    }
}

/* What is in the space, as of one moment since the call. */
static inline enum space_answer space_mapped_read(struct space_producer *producer,
                                                  const struct space_mapped *space, uint64_t hash,
                                                  uint64_t address, void *out, uint32_t length)
{
    enum space_answer answer;
    uint32_t frame;

    if (address - space->home.first < space->home.span) {
        return space_home_read(&space->home, address, out, length);
    }
    answer = space_cache_read(&space->cache, hash, address, out, length, &frame);
    if (likely(answer == SPACE_READ)) {
        space_producer_hint(producer, space->number, frame);
    }
    return answer;
}

/* One more: by a plain load and store, as the word is the thread's own. */
static inline void space_producer_count(struct space_producer *producer, uint32_t space,
                                        enum space_count what)
{
    _Atomic uint64_t *count = &producer->window->counts[space_place_of(space)][what];

    shared_store_relaxed(count, shared_load_relaxed(count) + 1);
}

/*
 * Reads bytes of one block: as of one moment since the call what is in the space, and over it what
 * this thread has written and is not carried out. ASK: with SPACE_RECORD_READ.
 */
static inline enum space_answer space_producer_read(struct space_producer *producer,
                                                    const struct space_mapped *space,
                                                    uint64_t address, void *out, uint32_t length)
{
    uint64_t hash = space_hash(address, space->cache.shift);

    if (unlikely(producer->pending[space_note_of(space, hash)] != 0)) {
        return space_producer_read_own(producer, space, hash, address, out, length);
    }
    return space_mapped_read(producer, space, hash, address, out, length);
}

/* ---- the lane's side ------------------------------------------------------ */

struct space_taken {
    uint64_t at, end;
    uint64_t word; /* the first, as it was when it was taken */
    bool is_done;
};

struct space_consumer {
    struct space_window *window;
    uint64_t taken;    /* bytes of records taken, ever */
    uint64_t tail;     /* of those that are there, as was last looked at */
    uint64_t head;     /* of those taken carried out, and all before them */
    uint64_t told;     /* of that the client was told */
    uint64_t hints;    /* looked at, ever */
    uint32_t first;    /* number of the oldest record that is not carried out */
    uint32_t next;     /* of the next one */
    uint32_t failures; /* told */
    uint32_t news;
    struct space_taken records[LIMIT_SPACE_TAKEN];
};

enum space_window_answer {
    SPACE_WINDOW_NONE,  /* nothing is there */
    SPACE_WINDOW_TAKEN, /* here is one */
    SPACE_WINDOW_FULL,  /* as many wait as may */
    SPACE_WINDOW_BROKEN /* the client wrote what cannot be: its session is at its end */
};

void space_consumer_init(struct space_consumer *consumer, struct space_window *window);

/* Whether there is something to take, and room for it: while as many wait as may a lane has no
 * cause to look again before one of them is done. */
static inline bool space_consumer_has_work(const struct space_consumer *consumer)
{
    return consumer->next - consumer->first != LIMIT_SPACE_TAKEN &&
           shared_load_acquire(&consumer->window->tail.value) != consumer->taken;
}

/* Takes the next record. Its bytes stay where they are until it is done. */
enum space_window_answer space_consumer_take(struct space_consumer *consumer,
                                             struct space_record *record);

/* A WRITE that is looked at before it is taken: a copy of its head, checked as take does. */
struct space_write {
    uint64_t at; /* its place in the ring */
    uint64_t address;
    uint32_t space, bytes; /* bytes: of the record */
    uint16_t length;
};

/*
 * A row: where nothing that was taken waits, looks at the next record. true: it is a WRITE; who
 * carries it out at once says so by space_consumer_pass, and it was never taken. Else, and where
 * it cannot be carried out at once, space_consumer_take has it, and looks at all of it anew.
 */
bool space_consumer_peek(struct space_consumer *consumer, struct space_write *write);

/* The bytes of that one, as space_consumer_bytes has them. */
void space_consumer_peek_bytes(const struct space_consumer *consumer,
                               const struct space_write *write, void *out);

/* It is carried out. Told later, as space_consumer_done_in_a_row has it. */
static inline void space_consumer_pass(struct space_consumer *consumer,
                                       const struct space_write *write)
{
    consumer->taken += write->bytes;
    consumer->head = consumer->taken;
}

/* The bytes of a WRITE that is not done, as they are now: what was checked was their number. `out`
 * has room for them rounded up to 8. */
void space_consumer_bytes(const struct space_consumer *consumer, const struct space_record *record,
                          void *out);

/*
 * A record is carried out: what it wrote can be read, by whoever may. Each once, in any order. The
 * client is told at once.
 *
 * In a row of records of one window it may be told later, by space_consumer_tell, but **before the
 * lane does anything else that others can see**: another window's records, a message, a block that
 * is hidden. Otherwise the thread would still see its own write where another's came after it, when
 * it has seen already what that other wrote next.
 */
void space_consumer_done(struct space_consumer *consumer, uint32_t number);
void space_consumer_done_in_a_row(struct space_consumer *consumer, uint32_t number);
void space_consumer_tell(struct space_consumer *consumer);

/*
 * Answers an ask, which is done by that: all that is done is told before the answer, so that what
 * the thread reads next is not under an own write that was before it. bytes, length: of a READ;
 * else NULL, 0.
 */
void space_consumer_reply(struct space_consumer *consumer, const struct space_record *record,
                          nigh_status status, uint64_t value, const void *bytes, uint32_t length);

/* A WRITE, or an UNLOCK, was not carried out. Before done is said of it. */
void space_consumer_fail(struct space_consumer *consumer, const struct space_record *record,
                         nigh_status status);

/*
 * Kept locks, by their number below LIMIT_SPACE_HOLDS. grant: the client has it, and may keep it
 * unless it is wanted already; before the answer. want: true: it was given back and is revoked, and
 * is let go once all before *until is carried out; false: an UNLOCK will come. drop: it is
 * nobody's.
 */
void space_consumer_grant(struct space_consumer *consumer, uint32_t kept, bool is_wanted);
bool space_consumer_want(struct space_consumer *consumer, uint32_t kept, uint64_t *until);
void space_consumer_drop(struct space_consumer *consumer, uint32_t kept);

/* Whether it was given back, as its word says now, before that place of the ring. */
bool space_consumer_is_kept(const struct space_consumer *consumer, uint32_t kept, uint64_t at);

/* Wakes the thread if it sleeps, once a sleep: after any number of done and reply. */
void space_consumer_wake(struct space_consumer *consumer);

/* Copies out the hints that were left since the last call and are not overwritten; returns how
 * many. Anything may be in them: space << 32 | frame. */
uint32_t space_consumer_hints(struct space_consumer *consumer, uint64_t hints[LIMIT_SPACE_HINTS]);

#endif
