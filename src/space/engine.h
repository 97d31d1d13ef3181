/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of a space at one node: it carries out the steps of the protocol (home.h, cache.h,
 * term.h) for all blocks, of which this node is the home or which it caches, and what clients want
 * of them (docs/spaces.md, "The engine").
 *
 * Pure: no I/O, and no clock: who calls it says what time it is. Memory is taken when it is made.
 * What it wants said or done it asks of its shell. One lane; nothing of it is called from inside
 * its shell's functions or an op's end.
 *
 * Who calls what, of a node:
 *
 *   create          the space's memory is there, registered, and open to the members' WRITEs
 *   members         once it knows who takes part, and at each change
 *   up, down        links that carry spaces' messages; down when nothing of the peer's lands any
 *                   more, and after `sent` for all that was under way there
 *   message         link's `spaced`, of this space's id and birth
 *   sent            ends of what wants_end
 *   room            a link takes more messages, after send has said that it does not
 *   begin, give_up  what clients want: windows.h does
 *   turn            behind each of a lane's turns, and when space_engine_deadline is past
 *   logged          the job that `log` of its shell was given has ended
 *   end, destroy    the space is deleted, or the node stops
 */
#ifndef SPACE_ENGINE_H
#define SPACE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap_timer.h"
#include "base/list.h"
#include "memory/space_view.h"
#include "nigh/status.h"
#include "space/wire.h"

struct space_engine;
struct space_log;
struct space_log_job;
struct space_log_state;

/* ---- addresses ------------------------------------------------------------ */

/*
 * An address is its home's seat (16 bits), and 48 bits: a number of the home's life, and below it
 * where in that home's memory. A home that was started anew does not know who has addresses of its
 * memory: it gives none of them again, but others for the same blocks, of its new life; those that
 * somebody yet has copies of it goes on with. The first block of seat 0 is nobody's, so that 0 is
 * no address.
 */
#define SPACE_SEAT_SHIFT 48u

static inline uint64_t space_address_first(uint8_t seat)
{
    return (uint64_t)seat << SPACE_SEAT_SHIFT;
}

/* Bits of where in a home's memory, of so many bytes. */
static inline uint32_t space_place_bits(uint64_t span)
{
    return span <= 1 ? 0 : 64u - (uint32_t)__builtin_clzll(span - 1);
}

/* Where the memory of a home begins in its n-th life, which all others come before: as
 * space_view_make_home is told. Of lives that are more than there are bits for it begins anew. */
static inline uint64_t space_address_of_life(uint8_t seat, uint64_t life, uint64_t span)
{
    uint32_t bits = space_place_bits(span);
    uint64_t lives = (UINT64_C(1) << (SPACE_SEAT_SHIFT - bits)) - 1;

    return space_address_first(seat) | (life & lives & UINT32_MAX) << bits;
}

static inline uint64_t space_address_seat(uint64_t address)
{
    return address >> SPACE_SEAT_SHIFT;
}

/* ---- its shell ------------------------------------------------------------ */

enum space_memory {
    SPACE_MEMORY_HOME,
    SPACE_MEMORY_CACHE
};

/* A message, and before it `count` bytes out of this node's memory into the seat's. Offsets are
 * from the beginning of a memory, its first page. All nodes' have the same geometry. */
struct space_send {
    struct space_wire wire;
    uint8_t seat;
    bool wants_end;  /* space_engine_sent, with `cookie`, once, however it ends */
    uint32_t cookie; /* below SPACE_SEATS */
    uint32_t count;  /* 0: no bytes */
    enum space_memory from, to;
    uint64_t from_offset, to_offset;
};

struct space_shell {
    void *context;
    /* In order of the calls, a seat. The message is taken during the call. false: not now; the
     * engine keeps it, and those behind it, until space_engine_room or the next turn. Only of a
     * seat that is up. */
    bool (*send)(void *context, const struct space_send *send);
    /* The link is to be broken, and space_engine_down called: the peer is no member any more, says
     * what nobody says (NIGH_PROTOCOL), or takes no messages (NIGH_BUSY). Not from inside this
     * call. */
    void (*cut)(void *context, uint8_t seat, nigh_status why);
    /* Something is to be done in space_engine_turn soon, though nothing comes from outside. NULL:
     * it is called all the time. */
    void (*wake)(void *context);
    /* Somebody wants a block that clients here hold (docs/spaces.md, "Kept locks"); 0: each that
     * they hold. true: none of them has the lock any more, and the block is let go soon whatever
     * else waits, by ops: not from inside this call. NULL: never. */
    bool (*wanted)(void *context, uint64_t block);
    /* Of an engine that has a log: a job of it (space_log_run), one at a time. Whoever runs it sets
     * its status; then space_engine_logged, not from inside this call. */
    void (*log)(void *context, struct space_log_job *job);
    /* The log failed: the engine has ended as by space_engine_end, and this node leaves the space,
     * until it comes back by another engine. NIGH_CORRUPT: a member knows that this home had
     * another log since that one: it is not to be begun from once more. */
    void (*failed)(void *context, nigh_status why);
};

/* ---- making one ----------------------------------------------------------- */

struct space_engine_config {
    uint64_t space, birth;
    uint64_t life; /* random, not 0: another each time that a node makes the engine of a space */
    uint8_t self;  /* its seat */
    /* As space_view_make_home and _make_cache have made them; home.first is space_address_of_life
     * of a life that is not 0 and another than all before of this seat. Where lives have no numbers
     * it is space_address_first: then a home that was started anew gives nothing of its memory to
     * anybody, if somebody knows of a life before. They stay the caller's. */
    struct space_view home, cache;
    const void *home_memory, *cache_memory; /* where these begin */
    uint32_t asks;                          /* of one home under way at once; 0: LIMIT_SPACE_ASKS */
    uint32_t letters; /* messages that wait for room in links; 0: LIMIT_SPACE_LETTERS */
    uint32_t opening; /* bytes that a home which opens asks for at once; 0: LIMIT_SPACE_OPENING */
    /*
     * Its log, of the views' geometry, in a file that takes four times what one event may need
     * (LIMIT_SPACE_LOG_STEP); all members have one, and lives have numbers. It stays the caller's.
     * NULL: none. `is_sync`: clients are told what is done once it is durable.
     */
    struct space_log *log;
    bool is_sync;
    /* What it was begun from, its home bytes the view's; where it knows a life of this seat, that
     * is the engine's, and config.life is not looked at. Not used behind create. NULL: nothing. */
    const struct space_log_state *recovered;
    struct space_shell shell;
};

/* NIGH_OUT_OF_MEMORY; NIGH_INVALID: a bound does not hold; there are fewer frames than copies. */
nigh_status space_engine_create(const struct space_engine_config *config,
                                struct space_engine **engine);

/* All that clients want ends with `status`, and nothing is readable any more: before destroy. */
void space_engine_end(struct space_engine *engine, nigh_status status);

/* Nothing that was sent is under way any more, nor is a job of its log. */
void space_engine_destroy(struct space_engine *engine);

/* ---- from the node -------------------------------------------------------- */

/*
 * Who takes part, bits of seats: nodes that are there, linked or not. Nothing is served before this
 * was said once; by then it names all who may know of an earlier life of this seat. Without the own
 * seat: this node is no part any more, serves nobody, and comes back by another engine.
 */
void space_engine_members(struct space_engine *engine, uint64_t seats, uint64_t now_us);

void space_engine_up(struct space_engine *engine, uint8_t seat, uint64_t now_us);
void space_engine_down(struct space_engine *engine, uint8_t seat, uint64_t now_us);

/* What came, of whatever number of bytes, from a seat that is up; what it was sent with is there.
 */
void space_engine_message(struct space_engine *engine, uint8_t seat, const void *bytes,
                          uint32_t count, uint64_t now_us);

void space_engine_sent(struct space_engine *engine, uint32_t cookie, uint64_t now_us);
void space_engine_room(struct space_engine *engine, uint8_t seat, uint64_t now_us);

/* The job has ended; also of an engine that has. */
void space_engine_logged(struct space_engine *engine, uint64_t now_us);

/* The number of the last record of its log; 0: none. */
uint64_t space_engine_last(const struct space_engine *engine);
/* NIGH_OK: it is durable, or there is no log; NIGH_BUSY: not yet; NIGH_DISK, NIGH_CORRUPT,
 * NIGH_CLOSED: never. */
nigh_status space_engine_durable(const struct space_engine *engine, uint64_t number);

/* true: there is more to do at once. */
bool space_engine_turn(struct space_engine *engine, uint64_t now_us);

/* When the next turn is due, if nothing comes; UINT64_MAX: never. */
uint64_t space_engine_deadline(const struct space_engine *engine);

/*
 * This node cannot tell whether it is a member any more: until it can nobody here is served, and
 * nothing is readable; what clients want waits. To other nodes it is what it was: they grant
 * nothing against it as long as it is one.
 */
void space_engine_pause(struct space_engine *engine, bool is_paused, uint64_t now_us);

/* A client's hint: a frame was read; any number. */
void space_engine_hint(struct space_engine *engine, uint32_t frame);

/* ---- what clients want ---------------------------------------------------- */

enum space_op_kind {
    SPACE_OP_READ, /* into `bytes` */
    SPACE_OP_WRITE,
    SPACE_OP_ADD, /* the value: what was there; so of the next two */
    SPACE_OP_EXCHANGE,
    SPACE_OP_SWAP,
    SPACE_OP_LOCK_READ,
    SPACE_OP_LOCK_WRITE,
    SPACE_OP_UNLOCK,
    SPACE_OP_ALLOC, /* operands: bytes, and a power of two that the address is a multiple of (0: a
                       block's bytes); near the address, unless that is 0; the value: where */
    SPACE_OP_FREE,  /* operands: the nearest block behind its first that who frees it holds, or 0 */
    SPACE_OP_KINDS
};

/* How the client that wants it holds the block: what it has nothing to wait for. */
enum space_op_holds {
    SPACE_HOLDS_NOTHING,
    SPACE_HOLDS_TO_READ,
    SPACE_HOLDS_ALONE
};

/*
 * One thing that a client wants, of one block. In the caller's memory from begin until its end; it
 * changes nothing of it meanwhile, but for `holds`: who lets go of a block, as a lock that was kept
 * is, makes it NOTHING first in what was begun under that, and waits.
 */
struct space_op {
    uint8_t kind;  /* enum space_op_kind */
    uint8_t holds; /* enum space_op_holds; of UNLOCK: what it lets go */
    bool is_try;   /* a lock that is not had at once, or within its time, is NIGH_BUSY */
    uint16_t length;
    uint64_t address;
    uint64_t operands[2];
    uint64_t deadline_us; /* UINT64_MAX: none */
    /* WRITE: copies the bytes out, `length` rounded up to 8; READ: takes them. */
    void (*bytes)(struct space_op *op, void *bytes);
    /* Once, unless begin says that it has ended. */
    void (*ended)(struct space_op *op, uint64_t now_us);
    /* At its end: */
    nigh_status status;
    uint64_t value;
    /* The engine's own from here on. */
    struct list_node node;
    struct timer timer;
    struct space_spot *place;
    uint64_t written; /* the record that its end waits for */
    uint64_t asked;   /* of a try: the number of what was asked about its block since; 0: nothing */
    uint32_t ticket;
    uint8_t state;
};

/*
 * true: it has ended, and `ended` is not called. `status` then:
 *
 *   NIGH_INVALID     no such address; over a block's end; not aligned; FREE: of what ALLOC did
 *                    not give, or its client holds some of; to write or hold once more what it
 *                    holds to read
 *   NIGH_NOT_FOUND   the block is not in use: it was freed, or never given
 *   NIGH_NODE_LOST   its last bytes were a node's that is gone
 *   NIGH_PEER_LOST   its home is no member; an atomic: the same, or its link broke: it may be done
 *   NIGH_UNREACHABLE it is away: who has its last bytes may come back
 *   NIGH_TIMEOUT     it may yet be done, if it is an atomic, ALLOC or FREE; else it was not
 *   NIGH_BUSY        of a try; too much is under way
 *   NIGH_LIMIT       of the frames that it might have all, or of a lock all but a few, are held
 *                    here, or kept for homes or nodes that are gone
 *   NIGH_OUT_OF_MEMORY ALLOC: there is no room at that home
 *   NIGH_CLOSED      the space ends here
 *   NIGH_DISK        the log failed: it may be done, or not
 *   NIGH_CORRUPT     so, and the log is an old one
 */
bool space_engine_begin(struct space_engine *engine, struct space_op *op, uint64_t now_us);

/* Whether there is so much room for what waits that some of it may be had by what nobody waits for
 * yet. */
bool space_engine_may_fetch(const struct space_engine *engine);

/*
 * A row of writes. A block that this node may write, and clients here may read, nobody holds and
 * nobody has to hear of: what a WRITE of it comes to is a change of its bytes, now. What was found
 * stays so until the engine is called for anything else.
 */
struct space_owned {
    uint64_t block;
    _Atomic uint64_t *word, *bytes;
};

/* false: it is not so, or not for sure; space_engine_begin says what it comes to. */
bool space_engine_owns(struct space_engine *engine, uint64_t address, struct space_owned *owned);

/* As a WRITE that NIGH_OK came of; `length` bytes of that block alone. */
void space_engine_write(struct space_engine *engine, const struct space_owned *owned,
                        uint32_t offset, const void *bytes, uint32_t length);

/* What an ALLOC gave that its client was not told of: nobody else would ever free it. */
void space_engine_give_back(struct space_engine *engine, uint64_t address, uint64_t now_us);

/* Its client is gone: it ends without `ended`. What was done of it stays. */
void space_engine_give_up(struct space_engine *engine, struct space_op *op);

/* Whether somebody waits, here or elsewhere, for a block that a client here holds, or it is not to
 * be kept for another cause: asked as a lock is given. From then on `wanted` of the shell is. */
bool space_engine_is_wanted(struct space_engine *engine, uint64_t block);

/* ---- looked at ------------------------------------------------------------ */

struct space_engine_stats {
    uint64_t reads, writes, atomics, locks; /* that ended well here */
    uint64_t messages, bytes;               /* said */
    uint64_t terms;                         /* begun */
    uint64_t asks;                          /* of homes for a block of theirs */
    uint64_t invalidations;                 /* copies that were taken away from here, */
    uint64_t evictions;                     /* and those that gave way to others */
    uint64_t refused;                       /* messages that nobody says */
    uint64_t stale;                         /* of earlier terms */
    uint64_t dropped;                       /* not said, as a term ended before */
    uint64_t waiting;                       /* ops */
    uint64_t frames, frames_used;
    uint64_t home_blocks, home_used;
    uint64_t lost; /* blocks of this home whose bytes nobody has */
};

void space_engine_stats(const struct space_engine *engine, struct space_engine_stats *stats);

uint32_t space_engine_block_bytes(const struct space_engine *engine);

/* This home serves: all members have said what they have. */
bool space_engine_is_open(const struct space_engine *engine);

/* Whether all that is kept twice says the same; walks everything. */
bool space_engine_is_valid(const struct space_engine *engine);

#endif
