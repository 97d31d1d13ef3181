/* SPDX-License-Identifier: Apache-2.0 */
/* What windows.c (their turns), windows_holds.c (what they hold) and windows_records.c (what is
 * under way) share. */
#ifndef SPACE_WINDOWS_INTERNAL_H
#define SPACE_WINDOWS_INTERNAL_H

#include "base/check.h"
#include "base/list.h"
#include "memory/space_record.h"
#include "space/windows.h"

/* Of a window's the n-th has the n-th word of its memory (space_consumer_grant). */
struct hold {
    struct space_engine *engine; /* NULL: none */
    uint64_t block;
    struct window *window;
    struct engine_holds *of;
    struct list_node node;  /* in the bucket of its block */
    struct list_node state; /* in one of the engine's lists, or none: it is held, and wanted */
    uint8_t next;           /* in the window's bucket, and 1 */
    uint8_t how;            /* enum space_op_holds */
    bool is_wanted;         /* its client does not keep it */
    bool is_leaving;        /* it was kept, and is let go when all before this is carried out: */
    uint64_t until;
};

/* All that windows hold of one engine. */
struct engine_holds {
    const struct space_engine *engine;
    uint32_t count; /* 0: none of it */
    struct list unasked, leaving;
    uint32_t looked; /* in that turn all that leave were looked at, and none could */
};

/* A record that is not done. */
struct record {
    struct space_op op;
    struct space_record record;
    struct space_engine *engine; /* NULL: FENCE and FLUSH, which are of all */
    struct window *window;
    struct list_node node; /* in the order of the ring; not linked: free */
    nigh_status why;       /* of NULL otherwise: how it ends */
    bool runs;             /* the engine has it */
    bool is_again;         /* a lock that the window kept, and has */
};

/* What this window wrote is durable once that record of the engine's log is. */
struct mark {
    struct space_engine *engine; /* NULL: none */
    uint64_t record;
};

struct window {
    struct space_windows *windows;
    bool is_used, is_broken;
    bool flushes;  /* a FLUSH waits for logs */
    bool rereads;  /* what was asked for while nothing may be told is looked at once more */
    bool is_dirty; /* something ended: what waits for it is looked at, and who sleeps woken */
    uint32_t session;
    struct space_consumer consumer;
    struct list order;
    struct list kept; /* what is done and not told */
    uint32_t count;   /* of both */
    struct record records[LIMIT_SPACE_RECORDS];
    uint32_t held, leaving; /* of these: */
    struct hold holds[LIMIT_SPACE_HOLDS];
    uint8_t hold_of[LIMIT_SPACE_HOLDS]; /* the first of a bucket of blocks, and 1 */
    struct mark marks[LIMIT_SPACES];
    nigh_status lost; /* what failed of logs that have no mark any more: the next FLUSH says so */
};

struct space_windows {
    struct space_windows_shell shell;
    uint32_t count, next;
    uint32_t used; /* behind these there are none */
    struct window **windows;
    uint64_t spread; /* of blocks over buckets: none knows by which addresses it would be uneven */
    uint32_t bucket_bits;
    struct list *buckets; /* holds of all windows */
    struct engine_holds engines[LIMIT_SPACES];
    /* What a READ took, from the bytes of an op until its end, which is next. */
    uint64_t read[LIMIT_SPACE_BLOCK_BYTES / 8];
};

static inline uint64_t window_block_of(const struct space_engine *engine, uint64_t address)
{
    return address & ~(uint64_t)(space_engine_block_bytes(engine) - 1);
}

/* It is of that block. */
static inline bool record_touches(const struct record *record, const struct space_engine *engine,
                                  uint64_t block)
{
    return record->engine == engine && window_block_of(engine, record->record.address) == block &&
           record->record.kind != SPACE_RECORD_ALLOC;
}

/* ---- windows_holds.c ------------------------------------------------------ */

/* NULL: it does not. Looks at no other window's. */
struct hold *hold_find(struct window *window, const struct space_engine *engine, uint64_t block);
/* Of `made` what is of one that is not in any list; there is room: window_make_room. */
struct hold *hold_add(struct window *window, const struct hold *made);
/* The engine has let it go, or will. */
void hold_forget(struct window *window, struct hold *hold);
void hold_let_go(struct window *window, struct hold *hold, uint64_t now_us);
/* Which of its window's it is. */
uint32_t hold_number(const struct hold *hold);
/* It is let go: soon, if its client only keeps it, or by the client's UNLOCK. */
void hold_want(struct hold *hold);
/* It was kept, and what its client had said before that is carried out. */
bool hold_may_leave(const struct window *window, const struct hold *hold);
/* What may leave is let go. */
void window_let_leave(struct window *window, uint64_t now_us);
/* For one more hold; false: there is none. */
bool window_make_room(struct window *window, uint64_t now_us);

/* ---- windows_records.c ---------------------------------------------------- */

/* As the shell's `find`, for this window's session. */
struct space_engine *window_find_engine(const struct window *window, uint32_t space,
                                        bool *may_write, nigh_status *why);
/* The next of the ring. NULL: nothing more is there, or fits. */
struct record *record_take(struct window *window, uint64_t now_us);
void record_begin(struct window *window, struct record *record, uint64_t now_us);
/* It is done, or not to be. Its client is told at once, or once what it says may be told. */
void record_end(struct record *record, nigh_status status);
/* All that may begin does. */
void window_advance(struct window *window, uint64_t now_us);
/* What was done and not told is, if it may be. */
void window_tell_kept(struct window *window);
/* No flush waits for its log any more; whether that has failed the next one says. */
void window_forget_engine(struct window *window, const struct space_engine *engine);

static inline bool record_is_try(const struct record *record)
{
    return record->record.kind == SPACE_RECORD_TRY_LOCK_READ ||
           record->record.kind == SPACE_RECORD_TRY_LOCK_WRITE;
}

#endif
