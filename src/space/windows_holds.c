/* SPDX-License-Identifier: Apache-2.0 */
/* See windows.h: what windows hold, and what they keep of it. */
#include "space/windows_internal.h"

/* ---- what a window holds -------------------------------------------------- */

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
struct hold *hold_find(struct window *window, const struct space_engine *engine, uint64_t block)
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

/* There is room: window_make_room. */
static struct hold *free_hold(struct window *window)
{
    uint32_t n = 0;

    while (window->holds[n].engine != NULL) {
        n++;
        NIGH_ASSERT(n < LIMIT_SPACE_HOLDS);
    }
    return &window->holds[n];
}

uint32_t hold_number(const struct hold *hold)
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

struct hold *hold_add(struct window *window, const struct hold *made)
{
    uint8_t *bucket = own_bucket_of(window, made->block);
    struct hold *hold = free_hold(window);

    *hold = *made;
    hold->window = window;
    hold->of = holds_of(window->windows, made->engine);
    hold->of->count++;
    hold->next = *bucket;
    *bucket = (uint8_t)(hold_number(hold) + 1);
    list_push_back(bucket_of(window->windows, hold->block), &hold->node);
    if (!hold->is_wanted) {
        list_push_back(&hold->of->unasked, &hold->state);
    }
    window->held++;
    return hold;
}

void hold_forget(struct window *window, struct hold *hold)
{
    uint8_t *place = own_bucket_of(window, hold->block);

    space_consumer_drop(&window->consumer, hold_number(hold));
    while (*place != hold_number(hold) + 1) {
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

/* What was begun under it, and waits yet, is under nothing from here on: neither does it fail, nor
 * is it done inside another's lock. */
static void bare_records(struct window *window, const struct hold *hold)
{
    LIST_FOREACH(node, &window->order)
    {
        struct record *record = container_of(node, struct record, node);

        if (record->runs && record_touches(record, hold->engine, hold->block)) {
            record->op.holds = SPACE_HOLDS_NOTHING;
        }
    }
}

void hold_let_go(struct window *window, struct hold *hold, uint64_t now_us)
{
    struct space_op unlock = {.kind = SPACE_OP_UNLOCK,
                              .holds = hold->how,
                              .address = hold->block,
                              .deadline_us = UINT64_MAX};
    bool has_ended;

    bare_records(window, hold); /* first: they may be tried from inside this */
    has_ended = space_engine_begin(hold->engine, &unlock, now_us);
    NIGH_ASSERT(has_ended);
    hold_forget(window, hold);
}

/* ---- what a window keeps -------------------------------------------------- */

/* As an UNLOCK would that stood in the ring where its client gave it back. */
bool hold_may_leave(const struct window *window, const struct hold *hold)
{
    return hold->is_leaving && window->consumer.head >= hold->until;
}

/* It is let go: soon, if its client only keeps it, or by the client's UNLOCK. */
void hold_want(struct hold *hold)
{
    struct window *window = hold->window;

    if (hold->is_wanted) {
        return;
    }
    hold->is_wanted = true;
    list_remove(&hold->state);
    hold->is_leaving = space_consumer_want(&window->consumer, hold_number(hold), &hold->until);
    if (hold_may_leave(window, hold)) {
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
    if (hold_may_leave(hold->window, hold) || of->looked == windows->next) {
        return hold_may_leave(hold->window, hold);
    }
    of->looked = windows->next;
    LIST_FOREACH(node, &of->leaving)
    {
        hold = container_of(node, struct hold, state);
        if (hold_may_leave(hold->window, hold)) {
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
        hold_want(container_of(list_first(&of->unasked), struct hold, state));
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
            hold_want(hold);
            held++;
            leaving += hold_may_leave(hold->window, hold);
        }
    }
    return held > 0 && leaving == held;
}

void window_let_leave(struct window *window, uint64_t now_us)
{
    for (uint32_t n = 0; n < LIMIT_SPACE_HOLDS && window->leaving > 0; n++) {
        if (window->holds[n].engine != NULL && hold_may_leave(window, &window->holds[n])) {
            hold_let_go(window, &window->holds[n], now_us);
        }
    }
}

/* Room for one more: what is only kept gives way, behind all that was said before. */
bool window_make_room(struct window *window, uint64_t now_us)
{
    for (uint32_t n = 0; n < LIMIT_SPACE_HOLDS && window->held == LIMIT_SPACE_HOLDS; n++) {
        struct hold *hold = &window->holds[n];

        if (space_consumer_is_kept(&window->consumer, n, window->consumer.head)) {
            hold_want(hold);
        }
        if (hold_may_leave(window, hold)) {
            hold_let_go(window, hold, now_us);
        }
    }
    return window->held < LIMIT_SPACE_HOLDS;
}
