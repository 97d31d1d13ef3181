/* SPDX-License-Identifier: Apache-2.0 */
/* See windows.h: records, from when they are taken to their ends, and what may begin. */
#include "space/windows_internal.h"

#include <string.h>

/* ---- kinds ---------------------------------------------------------------- */

static bool is_lock(uint8_t kind)
{
    return kind >= SPACE_RECORD_LOCK_READ && kind <= SPACE_RECORD_TRY_LOCK_WRITE;
}

static bool is_of_all(uint8_t kind)
{
    return kind == SPACE_RECORD_FENCE || kind == SPACE_RECORD_FLUSH;
}

static bool only_reads(uint8_t kind)
{
    return kind == SPACE_RECORD_READ || kind == SPACE_RECORD_FETCH;
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
        [SPACE_RECORD_FETCH] = SPACE_OP_READ,
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

struct space_engine *window_find_engine(const struct window *window, uint32_t space,
                                        bool *may_write, nigh_status *why)
{
    const struct space_windows_shell *shell = &window->windows->shell;

    return shell->find(shell->context, window->session, space, may_write, why);
}

static void note_hold(struct window *window, struct record *record)
{
    uint64_t block = window_block_of(record->engine, record->record.address);
    struct hold made = {.engine = record->engine,
                        .block = block,
                        .how = record->op.kind == SPACE_OP_LOCK_READ ? SPACE_HOLDS_TO_READ
                                                                     : SPACE_HOLDS_ALONE};
    struct hold *hold;

    if (record->is_again) {
        hold = hold_find(window, record->engine, block);
    } else {
        made.is_wanted = space_engine_is_wanted(record->engine, block);
        hold = hold_add(window, &made);
    }
    NIGH_ASSERT(hold != NULL);
    space_consumer_grant(&window->consumer, hold_number(hold), hold->is_wanted);
    record->op.value = hold->is_wanted ? 0 : hold_number(hold) + 1;
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

/* NIGH_OK: all that this window wrote is; NIGH_BUSY: not yet; else it will never be, which is told
 * once. */
static nigh_status look_at_marks(struct window *window)
{
    nigh_status status;

    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        struct mark *mark = &window->marks[n];
        nigh_status one =
            mark->engine == NULL ? NIGH_OK : space_engine_durable(mark->engine, mark->record);

        if (one == NIGH_BUSY) {
            return NIGH_BUSY;
        }
        if (one != NIGH_OK && (window->lost == NIGH_OK || one != NIGH_CLOSED)) {
            window->lost = one;
        }
        *mark = (struct mark){0};
    }
    status = window->lost;
    window->lost = NIGH_OK;
    return status;
}

void window_forget_engine(struct window *window, const struct space_engine *engine)
{
    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        struct mark *mark = &window->marks[n];

        if (mark->engine == engine) {
            nigh_status status = space_engine_durable(engine, mark->record);

            if (status == NIGH_DISK || status == NIGH_CORRUPT) {
                window->lost = status;
            }
            *mark = (struct mark){0};
        }
    }
}

/* What a client is told. Who asks by a window is told NIGH_NODE_LOST of its own node alone; that
 * others took that one for dead, as that its handle is good no more. */
static nigh_status told(nigh_status status)
{
    switch (status) {
    case NIGH_NODE_LOST: return NIGH_PEER_LOST;
    case NIGH_UNREACHABLE: return NIGH_BUSY;
    case NIGH_NO_QUORUM: return NIGH_CLOSED;
    default: return status;
    }
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
    if (status != NIGH_OK && asked->kind != SPACE_RECORD_FETCH) {
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
void record_end(struct record *record, nigh_status status)
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

void window_tell_kept(struct window *window)
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
    record_end(container_of(op, struct record, op), op->status);
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
    uint64_t block = window_block_of(record->engine, record->record.address);

    for (struct list_node *node = window->order.head.next; node != &record->node;
         node = node->next) {
        if (record_touches(container_of(node, struct record, node), record->engine, block)) {
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

/* A fetch whose block does not come stands before what waits for all before it, for a while. */
static uint64_t deadline_of(const struct space_record *record, uint64_t now_us)
{
    if (record->kind == SPACE_RECORD_FETCH) {
        return now_us + LIMIT_SPACE_FETCH_US;
    }
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
           space_consumer_is_kept(&window->consumer, hold_number(hold), record->record.at);
}

/* Whether it does no harm that the block is kept, by the same window. */
static bool may_be_under(const struct hold *hold, uint8_t kind)
{
    return hold->how == SPACE_HOLDS_ALONE ? writes(kind) : only_reads(kind);
}

/* The hold that a record is under, or NULL. One that was given back before it is let go, unless it
 * may stay. */
static struct hold *hold_over(struct window *window, const struct record *record, uint64_t now_us)
{
    uint64_t at = record->record.at;
    struct hold *hold =
        hold_find(window, record->engine, window_block_of(record->engine, record->record.address));

    if (hold == NULL || is_again(window, record, hold)) {
        return hold;
    }
    if (!may_be_under(hold, record->record.kind) &&
        space_consumer_is_kept(&window->consumer, hold_number(hold), at)) {
        hold_want(hold);
    }
    if (!hold->is_leaving || at < hold->until) {
        return hold;
    }
    if (hold_may_leave(window, hold)) {
        hold_let_go(window, hold, now_us);
    }
    return NULL;
}

/* What its thread holds behind a block that it frees, nearest to that: of a block that it had given
 * back by then a FREE has only to wait. 0: nothing. */
static uint64_t held_behind(const struct window *window, const struct record *record)
{
    uint64_t at = record->record.at, first = 0;

    for (uint32_t n = 0; n < LIMIT_SPACE_HOLDS && window->held > 0; n++) {
        const struct hold *hold = &window->holds[n];

        if (hold->engine != record->engine || hold->block <= record->record.address ||
            (first != 0 && hold->block >= first)) {
            continue;
        }
        if (hold->is_leaving ? at < hold->until
                             : !space_consumer_is_kept(&window->consumer, n, at)) {
            first = hold->block;
        }
    }
    return first;
}

/* Whether it may be asked for at all, with what the window holds. */
static nigh_status prepare(struct window *window, struct record *record, bool may_write,
                           uint64_t now_us)
{
    const struct space_record *asked = &record->record;
    struct space_op *op = &record->op;
    struct hold *hold;
    bool reads = only_reads(asked->kind) || asked->kind == SPACE_RECORD_LOCK_READ ||
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
    if (is_lock(asked->kind) && !window_make_room(window, now_us)) {
        return NIGH_LIMIT;
    }
    if (asked->kind == SPACE_RECORD_UNLOCK) {
        hold_forget(window, hold);
    }
    if (asked->kind == SPACE_RECORD_FREE) {
        op->operands[0] = held_behind(window, record);
        return hold != NULL ? NIGH_INVALID : NIGH_OK;
    }
    return NIGH_OK;
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
        .is_try = record_is_try(record),
        .length = asked->kind == SPACE_RECORD_FETCH ? 1 : asked->length,
        .address = asked->address,
        .operands = {asked->operands[0], asked->operands[1]},
        .deadline_us = record->op.deadline_us,
        .bytes = op_bytes,
        .ended = op_ended,
    };
    if (window_find_engine(window, asked->space, &may_write, &why) != record->engine) {
        record_end(record, NIGH_CLOSED);
        return;
    }
    if (asked->kind == SPACE_RECORD_FETCH && !space_engine_may_fetch(record->engine)) {
        record_end(record, NIGH_BUSY); /* who reads asks, in its turn */
        return;
    }
    status = prepare(window, record, may_write, now_us);
    if (record->is_again && !is_current(window)) {
        window->rereads = true; /* it stays kept, and has its time */
        return;
    }
    if (status != NIGH_OK || record->is_again) {
        record_end(record, status);
        return;
    }
    record->runs = true;
    if (space_engine_begin(record->engine, &record->op, now_us)) {
        record_end(record, record->op.status);
    }
}

void record_begin(struct window *window, struct record *record, uint64_t now_us)
{
    if (record->record.kind == SPACE_RECORD_FLUSH) {
        nigh_status status = look_at_marks(window);

        window->flushes = status == NIGH_BUSY;
        if (!window->flushes) {
            record_end(record, status);
        }
    } else if (is_of_all(record->record.kind)) {
        record_end(record, NIGH_OK);
    } else if (record->engine == NULL) {
        record_end(record, record->why);
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
void window_advance(struct window *window, uint64_t now_us)
{
    struct before before = {0};
    struct list_node *next;

    for (struct list_node *node = window->order.head.next; node != &window->order.head;
         node = next) {
        struct record *record = container_of(node, struct record, node);

        next = node->next;
        if (!record->runs && may_begin(window, record, &before)) {
            record_begin(window, record, now_us);
        }
        if (list_is_linked(node)) {
            pass(&before, record);
        }
    }
}

/* ---- taken ---------------------------------------------------------------- */

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
struct record *record_take(struct window *window, uint64_t now_us)
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
    record->engine =
        is_of_all(record->record.kind)
            ? NULL
            : window_find_engine(window, record->record.space, &may_write, &record->why);
    list_push_back(&window->order, &record->node);
    window->count++;
    return record;
}
