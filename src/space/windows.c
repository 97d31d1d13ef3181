/* SPDX-License-Identifier: Apache-2.0 */
/* See windows.h. */
#include "space/windows.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "memory/space_record.h"

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

/* ---- making them ---------------------------------------------------------- */

static void free_windows(struct space_windows *windows)
{
    free(windows->buckets);
    free(windows->windows);
    free(windows);
}

/* So many that even where each window holds all it may few are in one. */
static uint32_t bucket_bits_for(uint32_t count)
{
    uint32_t bits = 6;

    while (bits < 20 && 1u << bits < 2 * (uint64_t)count) {
        bits++;
    }
    return bits;
}

nigh_status space_windows_create(uint32_t count, const struct space_windows_shell *shell,
                                 struct space_windows **out)
{
    struct space_windows *windows = calloc(1, sizeof(*windows));

    if (windows == NULL) {
        return NIGH_OUT_OF_MEMORY;
    }
    windows->bucket_bits = bucket_bits_for(count);
    windows->windows = calloc(count, sizeof(struct window *));
    windows->buckets = calloc(UINT64_C(1) << windows->bucket_bits, sizeof(struct list));
    if (windows->windows == NULL || windows->buckets == NULL) {
        free_windows(windows);
        return NIGH_OUT_OF_MEMORY;
    }
    for (uint32_t n = 0; n < 1u << windows->bucket_bits; n++) {
        list_init(&windows->buckets[n]);
    }
    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        list_init(&windows->engines[n].unasked);
        list_init(&windows->engines[n].leaving);
    }
    windows->spread = shell->seed != 0 ? shell->seed | 1 : SPACE_SPREAD;
    windows->shell = *shell;
    windows->count = count;
    *out = windows;
    return NIGH_OK;
}

void space_windows_destroy(struct space_windows *windows)
{
    if (windows == NULL) {
        return;
    }
    for (uint32_t n = 0; n < windows->count; n++) {
        NIGH_ASSERT(windows->windows[n] == NULL);
    }
    free_windows(windows);
}

nigh_status space_windows_add(struct space_windows *windows, uint32_t session,
                              struct space_window *memory, uint32_t *out)
{
    for (uint32_t n = 0; n < windows->count; n++) {
        if (windows->windows[n] == NULL) {
            struct window *window = calloc(1, sizeof(*window));

            if (window == NULL) {
                return NIGH_OUT_OF_MEMORY;
            }
            window->windows = windows;
            window->session = session;
            space_consumer_init(&window->consumer, memory);
            list_init(&window->order);
            list_init(&window->kept);
            windows->windows[n] = window;
            windows->used = max_u32(windows->used, n + 1);
            *out = n;
            return NIGH_OK;
        }
    }
    return NIGH_LIMIT;
}

/* ---- what a window holds -------------------------------------------------- */

static uint64_t block_of(const struct space_engine *engine, uint64_t address)
{
    return address & ~(uint64_t)(space_engine_block_bytes(engine) - 1);
}

/* By a factor that none knows any two blocks are in one bucket as seldom as any others. */
static uint64_t hash_of(const struct space_windows *windows, uint64_t block)
{
    return block * windows->spread;
}

static struct list *bucket_of(struct space_windows *windows, uint64_t block)
{
    return &windows->buckets[hash_of(windows, block) >> (64 - windows->bucket_bits)];
}

static uint8_t *own_bucket_of(struct window *window, uint64_t block)
{
    return &window->hold_of[(hash_of(window->windows, block) >> 32) % LIMIT_SPACE_HOLDS];
}

/* NULL: it does not. Looks at no other window's. */
static struct hold *find_hold(struct window *window, const struct space_engine *engine,
                              uint64_t block)
{
    struct hold *hold;

    if (window->held == 0) {
        return NULL;
    }
    for (uint8_t n = *own_bucket_of(window, block); n != 0; n = hold->next) {
        hold = &window->holds[n - 1];
        if (hold->engine == engine && hold->block == block) {
            return hold;
        }
    }
    return NULL;
}

/* There is room: make_room. */
static struct hold *free_hold(struct window *window)
{
    uint32_t n = 0;

    while (window->holds[n].engine != NULL) {
        n++;
        NIGH_ASSERT(n < LIMIT_SPACE_HOLDS);
    }
    return &window->holds[n];
}

static uint32_t number_of(const struct hold *hold)
{
    return (uint32_t)(hold - hold->window->holds);
}

/* NULL: nothing of it is held. */
static struct engine_holds *find_holds_of(struct space_windows *windows,
                                          const struct space_engine *engine)
{
    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        if (windows->engines[n].engine == engine && windows->engines[n].count > 0) {
            return &windows->engines[n];
        }
    }
    return NULL;
}

static struct engine_holds *holds_of(struct space_windows *windows,
                                     const struct space_engine *engine)
{
    struct engine_holds *of = find_holds_of(windows, engine);
    uint32_t n = 0;

    if (of != NULL) {
        return of;
    }
    while (windows->engines[n].count > 0) {
        n++;
        NIGH_ASSERT(n < LIMIT_SPACES);
    }
    windows->engines[n].engine = engine;
    windows->engines[n].looked = windows->next - 1;
    return &windows->engines[n];
}

static struct hold *add_hold(struct window *window, const struct hold *made)
{
    uint8_t *bucket = own_bucket_of(window, made->block);
    struct hold *hold = free_hold(window);

    *hold = *made;
    hold->window = window;
    hold->of = holds_of(window->windows, made->engine);
    hold->of->count++;
    hold->next = *bucket;
    *bucket = (uint8_t)(number_of(hold) + 1);
    list_push_back(bucket_of(window->windows, hold->block), &hold->node);
    if (!hold->is_wanted) {
        list_push_back(&hold->of->unasked, &hold->state);
    }
    window->held++;
    return hold;
}

static void forget_hold(struct window *window, struct hold *hold)
{
    uint8_t *place = own_bucket_of(window, hold->block);

    space_consumer_drop(&window->consumer, number_of(hold));
    while (*place != number_of(hold) + 1) {
        place = &window->holds[*place - 1].next;
    }
    *place = hold->next;
    list_remove(&hold->node);
    if (list_is_linked(&hold->state)) {
        list_remove(&hold->state);
    }
    hold->of->count--;
    window->leaving -= hold->is_leaving;
    hold->engine = NULL;
    window->held--;
}

/* It is of that block. */
static bool touches(const struct record *record, const struct space_engine *engine, uint64_t block)
{
    return record->engine == engine && block_of(engine, record->record.address) == block &&
           record->record.kind != SPACE_RECORD_ALLOC;
}

/* What was begun under it, and waits yet, is under nothing from here on: neither does it fail, nor
 * is it done inside another's lock. */
static void bare_records(struct window *window, const struct hold *hold)
{
    LIST_FOREACH(node, &window->order)
    {
        struct record *record = container_of(node, struct record, node);

        if (record->runs && touches(record, hold->engine, hold->block)) {
            record->op.holds = SPACE_HOLDS_NOTHING;
        }
    }
}

static void let_go(struct window *window, struct hold *hold, uint64_t now_us)
{
    struct space_op unlock = {.kind = SPACE_OP_UNLOCK,
                              .holds = hold->how,
                              .address = hold->block,
                              .deadline_us = UINT64_MAX};
    bool has_ended;

    bare_records(window, hold); /* first: they may be tried from inside this */
    has_ended = space_engine_begin(hold->engine, &unlock, now_us);
    NIGH_ASSERT(has_ended);
    forget_hold(window, hold);
}

/* ---- what a window keeps -------------------------------------------------- */

/* As an UNLOCK would that stood in the ring where its client gave it back. */
static bool may_leave(const struct window *window, const struct hold *hold)
{
    return hold->is_leaving && window->consumer.head >= hold->until;
}

/* It is let go: soon, if its client only keeps it, or by the client's UNLOCK. */
static void want(struct hold *hold)
{
    struct window *window = hold->window;

    if (hold->is_wanted) {
        return;
    }
    hold->is_wanted = true;
    list_remove(&hold->state);
    hold->is_leaving = space_consumer_want(&window->consumer, number_of(hold), &hold->until);
    if (may_leave(window, hold)) {
        list_push_front(&hold->of->leaving, &hold->state);
    } else if (hold->is_leaving) {
        list_push_back(&hold->of->leaving, &hold->state);
    }
    window->leaving += hold->is_leaving;
    window->is_dirty |= hold->is_leaving;
}

/* Whether something of it is let go by the next turn. Not what others say before decides how long
 * that takes: those that can leave are in front, and all are looked at once a turn. */
static bool any_may_leave(struct space_windows *windows, struct engine_holds *of)
{
    struct list_node *first = list_first(&of->leaving);
    const struct hold *hold;

    if (first == NULL) {
        return false;
    }
    hold = container_of(first, struct hold, state);
    if (may_leave(hold->window, hold) || of->looked == windows->next) {
        return may_leave(hold->window, hold);
    }
    of->looked = windows->next;
    LIST_FOREACH(node, &of->leaving)
    {
        hold = container_of(node, struct hold, state);
        if (may_leave(hold->window, hold)) {
            list_remove(node);
            list_push_front(&of->leaving, node);
            return true;
        }
    }
    return false;
}

/* Each is asked for once: it is no work for who is one too many again and again. */
static bool want_all(struct space_windows *windows, const struct space_engine *engine)
{
    struct engine_holds *of = find_holds_of(windows, engine);

    if (of == NULL) {
        return false;
    }
    while (!list_empty(&of->unasked)) {
        want(container_of(list_first(&of->unasked), struct hold, state));
    }
    return any_may_leave(windows, of);
}

bool space_windows_wanted(struct space_windows *windows, const struct space_engine *engine,
                          uint64_t block)
{
    uint32_t held = 0, leaving = 0;

    if (block == 0) {
        return want_all(windows, engine);
    }
    LIST_FOREACH(node, bucket_of(windows, block))
    {
        struct hold *hold = container_of(node, struct hold, node);

        if (hold->engine == engine && hold->block == block) {
            want(hold);
            held++;
            leaving += may_leave(hold->window, hold);
        }
    }
    return held > 0 && leaving == held;
}

static void let_leave(struct window *window, uint64_t now_us)
{
    for (uint32_t n = 0; n < LIMIT_SPACE_HOLDS && window->leaving > 0; n++) {
        if (window->holds[n].engine != NULL && may_leave(window, &window->holds[n])) {
            let_go(window, &window->holds[n], now_us);
        }
    }
}

/* Room for one more: what is only kept gives way, behind all that was said before. */
static bool make_room(struct window *window, uint64_t now_us)
{
    for (uint32_t n = 0; n < LIMIT_SPACE_HOLDS && window->held == LIMIT_SPACE_HOLDS; n++) {
        struct hold *hold = &window->holds[n];

        if (space_consumer_is_kept(&window->consumer, n, window->consumer.head)) {
            want(hold);
        }
        if (may_leave(window, hold)) {
            let_go(window, hold, now_us);
        }
    }
    return window->held < LIMIT_SPACE_HOLDS;
}

/* ---- kinds ---------------------------------------------------------------- */

static bool is_lock(uint8_t kind)
{
    return kind >= SPACE_RECORD_LOCK_READ && kind <= SPACE_RECORD_TRY_LOCK_WRITE;
}

static bool is_of_all(uint8_t kind)
{
    return kind == SPACE_RECORD_FENCE || kind == SPACE_RECORD_FLUSH;
}

static bool writes(uint8_t kind)
{
    return kind == SPACE_RECORD_WRITE || space_kind_is_atomic(kind);
}

/* Not before all that is before it. */
static bool is_last(uint8_t kind)
{
    return kind == SPACE_RECORD_UNLOCK || kind == SPACE_RECORD_FLUSH || is_lock(kind) ||
           kind == SPACE_RECORD_FREE;
}

static uint8_t op_kind(uint8_t kind)
{
    static const uint8_t kinds[SPACE_RECORD_KINDS] = {
        [SPACE_RECORD_WRITE] = SPACE_OP_WRITE,
        [SPACE_RECORD_UNLOCK] = SPACE_OP_UNLOCK,
        [SPACE_RECORD_READ] = SPACE_OP_READ,
        [SPACE_RECORD_ADD] = SPACE_OP_ADD,
        [SPACE_RECORD_EXCHANGE] = SPACE_OP_EXCHANGE,
        [SPACE_RECORD_SWAP] = SPACE_OP_SWAP,
        [SPACE_RECORD_LOCK_READ] = SPACE_OP_LOCK_READ,
        [SPACE_RECORD_LOCK_WRITE] = SPACE_OP_LOCK_WRITE,
        [SPACE_RECORD_TRY_LOCK_READ] = SPACE_OP_LOCK_READ,
        [SPACE_RECORD_TRY_LOCK_WRITE] = SPACE_OP_LOCK_WRITE,
        [SPACE_RECORD_ALLOC] = SPACE_OP_ALLOC,
        [SPACE_RECORD_FREE] = SPACE_OP_FREE,
    };

    return kinds[kind];
}

/* ---- ends ----------------------------------------------------------------- */

static struct space_engine *find(const struct window *window, uint32_t space, bool *may_write,
                                 nigh_status *why)
{
    const struct space_windows_shell *shell = &window->windows->shell;

    return shell->find(shell->context, window->session, space, may_write, why);
}

static void note_hold(struct window *window, struct record *record)
{
    uint64_t block = block_of(record->engine, record->record.address);
    struct hold made = {.engine = record->engine,
                        .block = block,
                        .how = record->op.kind == SPACE_OP_LOCK_READ ? SPACE_HOLDS_TO_READ
                                                                     : SPACE_HOLDS_ALONE};
    struct hold *hold;

    if (record->is_again) {
        hold = find_hold(window, record->engine, block);
    } else {
        made.is_wanted = space_engine_is_wanted(record->engine, block);
        hold = add_hold(window, &made);
    }
    NIGH_ASSERT(hold != NULL);
    space_consumer_grant(&window->consumer, number_of(hold), hold->is_wanted);
    record->op.value = hold->is_wanted ? 0 : number_of(hold) + 1;
}

/* ---- what is durable ------------------------------------------------------ */

static void note_written(struct window *window, struct space_engine *engine)
{
    uint64_t record = space_engine_last(engine);
    struct mark *mark = NULL;

    if (space_engine_durable(engine, record) == NIGH_OK) {
        return;
    }
    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        if (window->marks[n].engine == engine ||
            (window->marks[n].engine == NULL && mark == NULL)) {
            mark = &window->marks[n];
        }
    }
    NIGH_ASSERT(mark != NULL);
    *mark = (struct mark){engine, record};
}

/* NIGH_OK: all that this window wrote is; NIGH_BUSY: not yet; else it will never be. */
static nigh_status look_at_marks(struct window *window)
{
    nigh_status status = NIGH_OK;

    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        struct mark *mark = &window->marks[n];
        nigh_status one =
            mark->engine == NULL ? NIGH_OK : space_engine_durable(mark->engine, mark->record);

        if (one == NIGH_BUSY) {
            return NIGH_BUSY;
        }
        if (one == NIGH_OK) {
            *mark = (struct mark){0};
        }
        status = one == NIGH_OK ? status : one;
    }
    return status;
}

static void forget_engine(struct window *window, const struct space_engine *engine)
{
    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        if (window->marks[n].engine == engine) {
            window->marks[n] = (struct mark){0};
        }
    }
}

/* What a client is told. Who asks by a window is told NIGH_NODE_LOST of its own node alone. */
static nigh_status told(nigh_status status)
{
    return status == NIGH_NODE_LOST     ? NIGH_PEER_LOST
           : status == NIGH_UNREACHABLE ? NIGH_BUSY
                                        : status;
}

static bool is_current(const struct window *window)
{
    const struct space_windows_shell *shell = &window->windows->shell;

    return shell->is_current == NULL || shell->is_current(shell->context);
}

/* Whether the answer says what is in the space. That nothing was done it may say at any time; and
 * of writes, which a FLUSH is for, a node that is left out is as one that died behind them: who
 * reads what it had hears that it is lost. */
static bool tells_of_the_space(const struct space_record *asked, nigh_status status)
{
    return status == NIGH_OK && space_kind_is_asked(asked->kind) &&
           asked->kind != SPACE_RECORD_FLUSH;
}

static void tell(struct record *record, nigh_status status)
{
    struct window *window = record->window;
    const struct space_record *asked = &record->record;
    bool has_bytes = asked->kind == SPACE_RECORD_READ && status == NIGH_OK;

    list_remove(&record->node);
    window->count--;
    if (space_kind_is_asked(asked->kind)) {
        space_consumer_reply(&window->consumer, asked, status, record->op.value,
                             has_bytes ? window->windows->read : NULL,
                             has_bytes ? asked->length : 0);
        return;
    }
    if (status != NIGH_OK) {
        space_consumer_fail(&window->consumer, asked, status);
    }
    space_consumer_done(&window->consumer, asked->number);
}

/* What was done stays so, and is told when the shell says that it may be. */
static void keep(struct record *record)
{
    list_remove(&record->node);
    list_push_back(&record->window->kept, &record->node);
}

/* It is done, and the client told so before anything else that this may be for. */
static void end_record(struct record *record, nigh_status status)
{
    struct window *window = record->window;
    const struct space_record *asked = &record->record;
    bool is_kept;

    record->runs = false;
    status = told(status);
    is_kept = tells_of_the_space(asked, status) && !is_current(window);
    if (is_kept && asked->kind == SPACE_RECORD_READ) {
        window->rereads = true; /* as nothing was done it waits where it was */
        return;
    }
    window->is_dirty = true;
    if (is_lock(asked->kind) && status == NIGH_OK) {
        note_hold(window, record);
    }
    if (status == NIGH_OK && record->engine != NULL &&
        (writes(asked->kind) || asked->kind == SPACE_RECORD_ALLOC ||
         asked->kind == SPACE_RECORD_FREE)) {
        note_written(window, record->engine);
    }
    if (is_kept) {
        keep(record);
    } else {
        tell(record, status);
    }
}

static void tell_kept(struct window *window)
{
    if (list_empty(&window->kept) || !is_current(window)) {
        return;
    }
    while (!list_empty(&window->kept)) {
        tell(container_of(list_first(&window->kept), struct record, node), NIGH_OK);
    }
}

static void op_ended(struct space_op *op, uint64_t now_us)
{
    (void)now_us;
    end_record(container_of(op, struct record, op), op->status);
}

static void op_bytes(struct space_op *op, void *bytes)
{
    struct record *record = container_of(op, struct record, op);

    if (op->kind == SPACE_OP_READ) {
        memcpy(record->window->windows->read, bytes, op->length);
    } else {
        space_consumer_bytes(&record->window->consumer, &record->record, bytes);
    }
}

/* ---- what may begin ------------------------------------------------------- */

/* What is before a record, and not done. */
struct before {
    bool any, writes, fence;
    bool closed; /* nothing passes it */
};

/* Something of its block is before it. */
static bool is_behind_its_block(struct window *window, const struct record *record)
{
    uint64_t block = block_of(record->engine, record->record.address);

    for (struct list_node *node = window->order.head.next; node != &record->node;
         node = node->next) {
        if (touches(container_of(node, struct record, node), record->engine, block)) {
            return true;
        }
    }
    return false;
}

static bool may_begin(struct window *window, const struct record *record,
                      const struct before *before)
{
    uint8_t kind = record->record.kind;

    if (before->closed || (is_last(kind) && before->any)) {
        return false;
    }
    if (kind == SPACE_RECORD_FENCE) {
        return !before->writes;
    }
    if (record->engine == NULL || kind == SPACE_RECORD_ALLOC) {
        return true;
    }
    return !(writes(kind) && before->fence) && !is_behind_its_block(window, record);
}

static uint64_t deadline_of(const struct space_record *record, uint64_t now_us)
{
    if (!space_kind_is_asked(record->kind) || record->timeout_us > UINT64_MAX - now_us) {
        return UINT64_MAX;
    }
    return now_us + record->timeout_us;
}

/* Whether the window has what it asks for, and kept it. */
static bool is_again(const struct window *window, const struct record *record,
                     const struct hold *hold)
{
    return hold != NULL && is_lock(record->record.kind) && !hold->is_wanted &&
           (hold->how == SPACE_HOLDS_TO_READ) == (record->op.kind == SPACE_OP_LOCK_READ) &&
           space_consumer_is_kept(&window->consumer, number_of(hold), record->record.at);
}

/* Whether it does no harm that the block is kept, by the same window. */
static bool may_be_under(const struct hold *hold, uint8_t kind)
{
    return hold->how == SPACE_HOLDS_ALONE ? writes(kind) : kind == SPACE_RECORD_READ;
}

/* The hold that a record is under, or NULL. One that was given back before it is let go, unless it
 * may stay. */
static struct hold *hold_over(struct window *window, const struct record *record, uint64_t now_us)
{
    uint64_t at = record->record.at;
    struct hold *hold =
        find_hold(window, record->engine, block_of(record->engine, record->record.address));

    if (hold == NULL || is_again(window, record, hold)) {
        return hold;
    }
    if (!may_be_under(hold, record->record.kind) &&
        space_consumer_is_kept(&window->consumer, number_of(hold), at)) {
        want(hold);
    }
    if (!hold->is_leaving || at < hold->until) {
        return hold;
    }
    if (may_leave(window, hold)) {
        let_go(window, hold, now_us);
    }
    return NULL;
}

/* Whether it may be asked for at all, with what the window holds. */
static nigh_status prepare(struct window *window, struct record *record, bool may_write,
                           uint64_t now_us)
{
    const struct space_record *asked = &record->record;
    struct space_op *op = &record->op;
    struct hold *hold;
    bool reads = asked->kind == SPACE_RECORD_READ || asked->kind == SPACE_RECORD_LOCK_READ ||
                 asked->kind == SPACE_RECORD_TRY_LOCK_READ || asked->kind == SPACE_RECORD_UNLOCK;

    if (!space_record_fits(asked, space_engine_block_bytes(record->engine))) {
        return NIGH_INVALID;
    }
    if (!may_write && !reads) {
        return NIGH_DENIED;
    }
    hold = hold_over(window, record, now_us);
    record->is_again = is_again(window, record, hold);
    if (record->is_again) {
        return NIGH_OK;
    }
    op->holds = hold == NULL ? SPACE_HOLDS_NOTHING : hold->how;
    if (asked->kind == SPACE_RECORD_UNLOCK && hold == NULL) {
        return NIGH_INVALID;
    }
    if (is_lock(asked->kind) && !make_room(window, now_us)) {
        return NIGH_LIMIT;
    }
    if (asked->kind == SPACE_RECORD_UNLOCK) {
        forget_hold(window, hold);
    }
    return asked->kind == SPACE_RECORD_FREE && hold != NULL ? NIGH_INVALID : NIGH_OK;
}

static void begin_op(struct window *window, struct record *record, uint64_t now_us)
{
    const struct space_record *asked = &record->record;
    bool may_write = false;
    nigh_status status, why;

    record->is_again = false;
    /* What it has open may have changed since it was taken. */
    record->op = (struct space_op){
        .kind = op_kind(asked->kind),
        .is_try =
            asked->kind == SPACE_RECORD_TRY_LOCK_READ || asked->kind == SPACE_RECORD_TRY_LOCK_WRITE,
        .length = asked->length,
        .address = asked->address,
        .operands = {asked->operands[0], asked->operands[1]},
        .deadline_us = record->op.deadline_us,
        .bytes = op_bytes,
        .ended = op_ended,
    };
    if (find(window, asked->space, &may_write, &why) != record->engine) {
        end_record(record, NIGH_CLOSED);
        return;
    }
    status = prepare(window, record, may_write, now_us);
    if (record->is_again && !is_current(window)) {
        window->rereads = true; /* it stays kept, and has its time */
        return;
    }
    if (status != NIGH_OK || record->is_again) {
        end_record(record, status);
        return;
    }
    record->runs = true;
    if (space_engine_begin(record->engine, &record->op, now_us)) {
        end_record(record, record->op.status);
    }
}

static void begin(struct window *window, struct record *record, uint64_t now_us)
{
    if (record->record.kind == SPACE_RECORD_FLUSH) {
        nigh_status status = look_at_marks(window);

        window->flushes = status == NIGH_BUSY;
        if (!window->flushes) {
            end_record(record, status);
        }
    } else if (is_of_all(record->record.kind)) {
        end_record(record, NIGH_OK);
    } else if (record->engine == NULL) {
        end_record(record, record->why);
    } else {
        begin_op(window, record, now_us);
    }
}

static void pass(struct before *before, const struct record *record)
{
    uint8_t kind = record->record.kind;

    before->any = true;
    before->writes |= writes(kind);
    before->fence |= kind == SPACE_RECORD_FENCE;
    before->closed |= is_lock(kind) || kind == SPACE_RECORD_FLUSH;
}

/* Whatever may begin does, the oldest first. */
static void advance(struct window *window, uint64_t now_us)
{
    struct before before = {0};
    struct list_node *next;

    for (struct list_node *node = window->order.head.next; node != &window->order.head;
         node = next) {
        struct record *record = container_of(node, struct record, node);

        next = node->next;
        if (!record->runs && may_begin(window, record, &before)) {
            begin(window, record, now_us);
        }
        if (list_is_linked(node)) {
            pass(&before, record);
        }
    }
}

/* ---- records -------------------------------------------------------------- */

static struct record *free_record(struct window *window)
{
    for (uint32_t n = 0; n < LIMIT_SPACE_RECORDS; n++) {
        if (!list_is_linked(&window->records[n].node)) {
            return &window->records[n];
        }
    }
    return NULL;
}

/* NULL: nothing more is there, or fits. */
static struct record *take(struct window *window, uint64_t now_us)
{
    struct space_windows_shell *shell = &window->windows->shell;
    struct record *record = free_record(window);
    bool may_write;

    if (record == NULL) {
        return NULL;
    }
    switch (space_consumer_take(&window->consumer, &record->record)) {
    case SPACE_WINDOW_TAKEN: break;
    case SPACE_WINDOW_BROKEN:
        window->is_broken = true;
        shell->broken(shell->context, window->session);
        return NULL;
    default: return NULL;
    }
    record->window = window;
    record->runs = false;
    record->op.deadline_us = deadline_of(&record->record, now_us);
    record->engine = is_of_all(record->record.kind)
                         ? NULL
                         : find(window, record->record.space, &may_write, &record->why);
    list_push_back(&window->order, &record->node);
    window->count++;
    return record;
}

/* What is known of a row's last write holds for the next one, as nothing else happens in between.
 */
struct row {
    struct space_engine *engine; /* NULL: nothing is known */
    uint32_t space;
    struct space_owned owned; /* block 0: none */
};

/* A space that it may write. */
static bool knows_space(struct window *window, struct row *row, uint32_t space)
{
    bool may_write = false;
    nigh_status why;

    if (row->engine != NULL && row->space == space) {
        return true;
    }
    *row = (struct row){.engine = find(window, space, &may_write, &why), .space = space};
    if (!may_write) {
        row->engine = NULL;
    }
    return row->engine != NULL;
}

static bool carry_at_once(struct window *window, struct row *row, const struct space_write *write)
{
    uint64_t bytes[LIMIT_SPACE_BLOCK_BYTES / 8];
    uint32_t size, offset;
    uint64_t block;

    if (!knows_space(window, row, write->space)) {
        return false;
    }
    size = space_engine_block_bytes(row->engine);
    offset = (uint32_t)write->address & (size - 1);
    block = write->address - offset;
    if (write->length > size - offset) {
        return false;
    }
    if (row->owned.block != block || block == 0) {
        row->owned.block = 0;
        if (find_hold(window, row->engine, block) != NULL ||
            !space_engine_owns(row->engine, write->address, &row->owned)) {
            row->owned.block = 0;
            return false;
        }
    }
    space_consumer_peek_bytes(&window->consumer, write, bytes);
    space_engine_write(row->engine, &row->owned, offset, bytes, write->length);
    return true;
}

/* What is left of a window's turn: others want theirs. */
struct share {
    uint32_t writes; /* of rows */
    uint64_t end;    /* bytes of its ring: as many as that has, however often it is filled */
};

static bool has_more(const struct window *window, const struct share *share)
{
    return share->writes > 0 && window->consumer.taken < share->end;
}

/* Writes of what is here to be written, one behind the other, until one is something else, or no
 * more are the window's in this turn. The client is told now and then, so that it has room, and
 * before anything else is done. */
static void carry_row(struct window *window, struct share *share)
{
    struct space_consumer *consumer = &window->consumer;
    struct row row = {0};
    struct space_write write;

    while (has_more(window, share) && space_consumer_peek(consumer, &write) &&
           carry_at_once(window, &row, &write)) {
        space_consumer_pass(consumer, &write);
        if (--share->writes % LIMIT_SPACE_RECORDS == 0) {
            space_consumer_tell(consumer);
        }
    }
    space_consumer_tell(consumer);
}

/* What nothing is before begins as it is taken. A bounded number, as of writes of rows. */
static void take_some(struct window *window, uint64_t now_us)
{
    struct share share = {LIMIT_SPACE_ROW, window->consumer.taken + LIMIT_SPACE_RING_BYTES};

    carry_row(window, &share);
    for (uint32_t n = 0; n < LIMIT_SPACE_RECORDS && has_more(window, &share);
         n++, carry_row(window, &share)) {
        struct record *record = take(window, now_us);

        if (record == NULL) {
            return;
        }
        if (window->count == 1) {
            begin(window, record, now_us);
        } else {
            window->is_dirty = true;
        }
    }
}

static void take_hints(struct window *window)
{
    uint64_t hints[LIMIT_SPACE_HINTS];
    uint32_t count = space_consumer_hints(&window->consumer, hints);
    struct space_engine *engine = NULL;
    uint64_t last = UINT64_MAX;
    bool may_write;
    nigh_status why;

    for (uint32_t n = 0; n < count; n++) {
        if (hints[n] >> 32 != last) {
            last = hints[n] >> 32;
            engine = find(window, (uint32_t)last, &may_write, &why);
        }
        if (engine != NULL) {
            space_engine_hint(engine, (uint32_t)hints[n]);
        }
    }
}

/* Held back until its time: nobody else would end it. */
static void expire(struct window *window, uint64_t now_us)
{
    struct list_node *next;

    for (struct list_node *node = window->order.head.next; node != &window->order.head;
         node = next) {
        struct record *record = container_of(node, struct record, node);

        next = node->next;
        if (!record->runs && record->op.deadline_us <= now_us) {
            record->op.value = 0;
            end_record(record, NIGH_TIMEOUT);
        }
    }
}

static bool serve(struct window *window, uint64_t now_us)
{
    bool had = space_consumer_has_work(&window->consumer);

    if (window->is_broken) {
        return false;
    }
    tell_kept(window);
    window->is_dirty |= window->rereads;
    window->rereads = false;
    if (had) {
        take_hints(window);
    }
    let_leave(window, now_us);
    take_some(window, now_us);
    expire(window, now_us);
    window->is_dirty |= window->flushes;
    window->flushes = false;
    while (window->is_dirty) {
        window->is_dirty = false;
        advance(window, now_us);
        let_leave(window, now_us);
    }
    space_consumer_wake(&window->consumer);
    return !window->is_broken && window->count < LIMIT_SPACE_RECORDS &&
           space_consumer_has_work(&window->consumer);
}

/* What was asked for by a window that had its turn behind those that keep it. true: some of it was
 * let go: who waited for that is told by the next turn. */
static bool let_all_leave(struct space_windows *windows, uint64_t now_us)
{
    bool any = false;

    for (uint32_t n = 0; n < windows->used; n++) {
        struct window *window = windows->windows[n];

        if (window != NULL && window->leaving > 0 && !window->is_broken) {
            uint32_t before = window->leaving;

            let_leave(window, now_us);
            any |= window->leaving != before;
        }
    }
    return any;
}

bool space_windows_turn(struct space_windows *windows, uint64_t now_us)
{
    bool more = false;

    windows->next++;
    for (uint32_t n = 0; n < windows->used; n++) {
        struct window *window = windows->windows[(windows->next + n) % windows->used];

        if (window != NULL) {
            more |= serve(window, now_us);
        }
    }
    return let_all_leave(windows, now_us) || more;
}

bool space_windows_has_work(const struct space_windows *windows)
{
    for (uint32_t n = 0; n < windows->used; n++) {
        const struct window *window = windows->windows[n];

        if (window != NULL && !window->is_broken &&
            (window->is_dirty ||
             (window->count < LIMIT_SPACE_RECORDS && space_consumer_has_work(&window->consumer)))) {
            return true;
        }
    }
    return false;
}

uint64_t space_windows_deadline(const struct space_windows *windows)
{
    uint64_t first = UINT64_MAX;

    for (uint32_t n = 0; n < windows->used; n++) {
        const struct window *window = windows->windows[n];

        for (const struct list_node *node = window == NULL ? NULL : window->order.head.next;
             node != NULL && node != &window->order.head; node = node->next) {
            const struct record *record =
                container_of((struct list_node *)(uintptr_t)node, struct record, node);

            if (!record->runs && record->op.deadline_us < first) {
                first = record->op.deadline_us;
            }
        }
    }
    return first;
}

/* ---- ends of others ------------------------------------------------------- */

/* What was allocated is not told of any more. engine NULL: in all spaces. */
static void give_back(struct window *window, const struct space_engine *engine, uint64_t now_us)
{
    LIST_FOREACH(node, &window->kept)
    {
        const struct record *record = container_of(node, struct record, node);

        if (record->record.kind == SPACE_RECORD_ALLOC &&
            (engine == NULL || record->engine == engine)) {
            space_engine_give_back(record->engine, record->op.value, now_us);
        }
    }
}

void space_windows_remove(struct space_windows *windows, uint32_t number, uint64_t now_us)
{
    struct window *window = windows->windows[number];

    for (struct list_node *node = window->order.head.next; node != &window->order.head;
         node = node->next) {
        struct record *record = container_of(node, struct record, node);

        if (record->runs) {
            space_engine_give_up(record->engine, &record->op);
        }
    }
    give_back(window, NULL, now_us);
    for (uint32_t n = 0; n < LIMIT_SPACE_HOLDS; n++) {
        if (window->holds[n].engine != NULL) {
            let_go(window, &window->holds[n], now_us);
        }
    }
    windows->windows[number] = NULL;
    while (windows->used > 0 && windows->windows[windows->used - 1] == NULL) {
        windows->used--;
    }
    free(window);
}

static void leave_records(struct list *list, struct space_engine *engine, nigh_status why)
{
    struct list_node *next;

    for (struct list_node *node = list->head.next; node != &list->head; node = next) {
        struct record *record = container_of(node, struct record, node);

        next = node->next;
        if (record->engine != engine) {
            continue;
        }
        if (record->runs) {
            space_engine_give_up(engine, &record->op);
        }
        record->op.value = 0;
        end_record(record, why);
    }
}

/* What was written stays, and a flush waits for it, as long as the engine does. */
static void leave_space(struct window *window, struct space_engine *engine, nigh_status why,
                        uint64_t now_us)
{
    leave_records(&window->order, engine, why);
    give_back(window, engine, now_us);
    leave_records(&window->kept, engine, why);
    for (uint32_t n = 0; n < LIMIT_SPACE_HOLDS; n++) {
        if (window->holds[n].engine == engine) {
            let_go(window, &window->holds[n], now_us);
        }
    }
}

void space_windows_let_go(struct space_windows *windows, uint32_t session,
                          struct space_engine *engine, nigh_status why, uint64_t now_us)
{
    for (uint32_t n = 0; n < windows->used; n++) {
        struct window *window = windows->windows[n];

        if (window != NULL && (session == UINT32_MAX || window->session == session)) {
            leave_space(window, engine, why, now_us);
            if (session == UINT32_MAX) {
                forget_engine(window, engine);
            }
        }
    }
}
