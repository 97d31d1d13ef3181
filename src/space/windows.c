/* SPDX-License-Identifier: Apache-2.0 */
/* See windows.h. */
#include "space/windows_internal.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- rows ----------------------------------------------------------------- */

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
    *row =
        (struct row){.engine = window_find_engine(window, space, &may_write, &why), .space = space};
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
        if (hold_find(window, row->engine, block) != NULL ||
            !space_engine_owns(row->engine, write->address, &row->owned)) {
            row->owned.block = 0;
            return false;
        }
    }
    space_consumer_peek_bytes(&window->consumer, write, bytes);
    space_engine_write(row->engine, &row->owned, offset, bytes, write->length);
    return true;
}

/* ---- turns ---------------------------------------------------------------- */

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
        struct record *record = record_take(window, now_us);

        if (record == NULL) {
            return;
        }
        if (window->count == 1) {
            record_begin(window, record, now_us);
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
            engine = window_find_engine(window, (uint32_t)last, &may_write, &why);
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
            record_end(record, record_is_try(record) ? NIGH_BUSY : NIGH_TIMEOUT);
        }
    }
}

static bool serve(struct window *window, uint64_t now_us)
{
    bool had = space_consumer_has_work(&window->consumer);

    if (window->is_broken) {
        return false;
    }
    window_tell_kept(window);
    window->is_dirty |= window->rereads;
    window->rereads = false;
    if (had) {
        take_hints(window);
    }
    window_let_leave(window, now_us);
    take_some(window, now_us);
    expire(window, now_us);
    window->is_dirty |= window->flushes;
    window->flushes = false;
    while (window->is_dirty) {
        window->is_dirty = false;
        window_advance(window, now_us);
        window_let_leave(window, now_us);
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

            window_let_leave(window, now_us);
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
            hold_let_go(window, &window->holds[n], now_us);
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
        record_end(record, why);
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
            hold_let_go(window, &window->holds[n], now_us);
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
                window_forget_engine(window, engine);
            }
        }
    }
}
