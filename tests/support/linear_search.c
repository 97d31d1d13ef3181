/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See linear_search.h. Operations are put in an order one by one. Next can be any that began before
 * the first end of those that are not yet put, and that is possible as the word is then. What ended
 * has to be put; what never ended may be. Where nothing is possible the last one is taken back.
 *
 * Three things keep that short. A set of operations that was put, and the state that it left, are
 * tried once. One that ended, is possible and only looks is put at once, and nothing else is tried
 * in its place: whatever order there is holds as well with it put first. And what never ended is
 * tried last.
 */
#include "support/linear_search.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* A beginning or an end of one that ended, in a ring; the first is nobody's. */
struct event {
    uint64_t time;
    uint32_t op, prev, next;
    bool is_end;
};

struct frame {
    uint64_t state; /* before it */
    uint32_t op;
    bool is_forced;
};

struct tried {
    uint64_t set[2], state;
    bool is_used;
};

struct search {
    const struct linear_op **ops;
    uint32_t count;
    linear_model model;
    uint64_t state, set[2];
    size_t left, least; /* that ended and are not put; ever */
    uint32_t stuck;

    struct event *events;
    uint32_t *begins; /* of which event each operation is; NONE: it never ended */
    uint32_t *ends;
    uint32_t *open; /* that never ended */
    uint32_t open_count;
    bool *is_put;
    struct frame *frames;
    size_t depth;

    /* What is tried next: an event, then a place in open. */
    uint32_t at_event, at_open;
    bool may_look;

    struct tried *tried;
    size_t tried_count, tried_room;
    bool lacks_memory;
};

/* ---- what was tried ------------------------------------------------------- */

static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

/* A set is the sum of its members' numbers, twice 64 bits: that two sets are one is not seen. */
static void flip(struct search *search, uint32_t op)
{
    search->set[0] ^= mix(op * 2 + 1);
    search->set[1] ^= mix((op * 2 + 2) * UINT64_C(0x9e3779b97f4a7c15));
}

static struct tried *place_of(struct tried *tried, size_t room, const struct tried *what)
{
    size_t at = (size_t)mix(what->set[0] ^ mix(what->state)) & (room - 1);

    while (tried[at].is_used &&
           (tried[at].set[0] != what->set[0] || tried[at].set[1] != what->set[1] ||
            tried[at].state != what->state)) {
        at = (at + 1) & (room - 1);
    }
    return &tried[at];
}

static bool grow(struct search *search)
{
    size_t room = search->tried_room == 0 ? 1024 : search->tried_room * 2;
    struct tried *tried = calloc(room, sizeof *tried);

    if (tried == NULL) {
        return false;
    }
    for (size_t n = 0; n < search->tried_room; n++) {
        if (search->tried[n].is_used) {
            *place_of(tried, room, &search->tried[n]) = search->tried[n];
        }
    }
    free(search->tried);
    search->tried = tried;
    search->tried_room = room;
    return true;
}

/* Whether this set with this state is new; from now on it is not. */
static bool is_new(struct search *search, uint64_t state)
{
    struct tried what = {.set = {search->set[0], search->set[1]}, .state = state, .is_used = true};
    struct tried *place;

    if (search->tried_count * 2 >= search->tried_room && !grow(search)) {
        search->lacks_memory = true;
        return false;
    }
    place = place_of(search->tried, search->tried_room, &what);
    if (place->is_used) {
        return false;
    }
    *place = what;
    search->tried_count++;
    return true;
}

/* ---- put, taken back ------------------------------------------------------ */

static void unlink_event(struct search *search, uint32_t event)
{
    search->events[search->events[event].prev].next = search->events[event].next;
    search->events[search->events[event].next].prev = search->events[event].prev;
}

static void relink_event(struct search *search, uint32_t event)
{
    search->events[search->events[event].prev].next = event;
    search->events[search->events[event].next].prev = event;
}

static void start(struct search *search)
{
    search->at_event = search->events[0].next;
    search->at_open = 0;
    search->may_look = true;
}

static void put(struct search *search, uint32_t op, uint64_t state, bool is_forced)
{
    search->frames[search->depth++] =
        (struct frame){.state = search->state, .op = op, .is_forced = is_forced};
    search->state = state;
    search->is_put[op] = true;
    if (search->begins[op] != NONE) {
        unlink_event(search, search->begins[op]);
        unlink_event(search, search->ends[op]);
        search->left--;
    }
    if (search->left < search->least) {
        search->least = search->left;
        search->stuck = NONE;
    }
    start(search);
}

/* Takes back the last in whose place another may be tried; false: there is none. */
static bool take_back(struct search *search)
{
    while (search->depth > 0) {
        struct frame *frame = &search->frames[--search->depth];
        uint32_t op = frame->op;

        search->state = frame->state;
        search->is_put[op] = false;
        flip(search, op);
        if (search->begins[op] != NONE) {
            relink_event(search, search->ends[op]);
            relink_event(search, search->begins[op]);
            search->left++;
        }
        if (!frame->is_forced) {
            search->may_look = false;
            return true;
        }
    }
    return false;
}

/* ---- what is next --------------------------------------------------------- */

static bool try_op(struct search *search, uint32_t op, enum linear_step wanted)
{
    uint64_t state = search->state;

    if (search->model(search->ops[op], &state) != wanted) {
        return false;
    }
    flip(search, op);
    if (!is_new(search, state)) {
        flip(search, op);
        return false;
    }
    put(search, op, state, wanted == LINEAR_LOOKS);
    return true;
}

/* One that ended and only looks: a set that was tried with it ends this branch as well. */
static bool look(struct search *search, bool *is_over)
{
    for (uint32_t at = search->events[0].next; !search->events[at].is_end;
         at = search->events[at].next) {
        uint64_t state = search->state;

        if (search->model(search->ops[search->events[at].op], &state) == LINEAR_LOOKS) {
            *is_over = !try_op(search, search->events[at].op, LINEAR_LOOKS);
            return !*is_over;
        }
    }
    return false;
}

/* Puts the next one; false: nothing (more) is possible here. */
static bool put_next(struct search *search)
{
    bool is_over = false;
    uint64_t first_end;

    if (search->may_look && look(search, &is_over)) {
        return true;
    }
    search->may_look = false;
    while (!is_over && !search->events[search->at_event].is_end) {
        uint32_t op = search->events[search->at_event].op;

        search->at_event = search->events[search->at_event].next;
        if (try_op(search, op, LINEAR_CHANGES)) {
            return true;
        }
    }
    if (is_over) {
        return false;
    }
    first_end = search->events[search->at_event].time;
    if (search->left == search->least && search->stuck == NONE) {
        search->stuck = search->events[search->at_event].op;
    }
    while (search->at_open < search->open_count) {
        uint32_t op = search->open[search->at_open++];

        if (search->ops[op]->begun > first_end) {
            break;
        }
        if (!search->is_put[op] && try_op(search, op, LINEAR_CHANGES)) {
            return true;
        }
    }
    return false;
}

/* Where it goes on behind the one that was taken back. */
static void go_on_behind(struct search *search, uint32_t op)
{
    search->at_open = 0;
    if (search->begins[op] != NONE) {
        search->at_event = search->events[search->begins[op]].next;
        return;
    }
    for (search->at_event = search->events[0].next; !search->events[search->at_event].is_end;
         search->at_event = search->events[search->at_event].next) {
    }
    while (search->open[search->at_open++] != op) {
    }
}

static enum linear_verdict run(struct search *search, uint64_t budget_steps, uint64_t *steps)
{
    start(search);
    for (*steps = 0; search->left > 0; ++*steps) {
        if (*steps == budget_steps || search->lacks_memory) {
            return LINEAR_UNDECIDED;
        }
        if (put_next(search)) {
            continue;
        }
        if (search->lacks_memory) {
            return LINEAR_UNDECIDED;
        }
        if (!take_back(search)) {
            return LINEAR_NO;
        }
        go_on_behind(search, search->frames[search->depth].op);
    }
    return LINEAR_YES;
}

/* ---- made ready ----------------------------------------------------------- */

static int compare_events(const void *a, const void *b)
{
    const struct event *one = a, *other = b;

    if (one->time != other->time) {
        return one->time < other->time ? -1 : 1;
    }
    return (int)one->is_end - (int)other->is_end; /* beside each other */
}

static void string_events(struct search *search)
{
    uint32_t count = (uint32_t)search->left * 2;

    qsort(search->events + 1, count, sizeof *search->events, compare_events);
    for (uint32_t n = 0; n <= count; n++) {
        search->events[n].prev = n == 0 ? count : n - 1;
        search->events[n].next = n == count ? 0 : n + 1;
        if (n > 0) {
            (search->events[n].is_end ? search->ends : search->begins)[search->events[n].op] = n;
        }
    }
}

/* Whether a write that never ended can be told from none: where nothing is added to the word, only
 * if what it wrote is found, or compared with, by anybody. */
static bool matters(const struct search *search, const struct linear_op *op)
{
    bool matters =
        op->kind != LINEAR_WRITE && op->kind != LINEAR_SWAP && op->kind != LINEAR_EXCHANGE;

    for (uint32_t n = 0; n < search->count && !matters; n++) {
        const struct linear_op *other = search->ops[n];

        matters = other->kind == LINEAR_ADD ||
                  (other->ended != LINEAR_NEVER && other->found == op->given &&
                   other->kind != LINEAR_WRITE) ||
                  (other->kind == LINEAR_SWAP && other->ended == LINEAR_NEVER &&
                   other->compare == op->given);
    }
    return matters;
}

static void take_ops(struct search *search)
{
    for (uint32_t n = 0; n < search->count; n++) {
        const struct linear_op *op = search->ops[n];

        search->begins[n] = search->ends[n] = NONE;
        if (op->ended != LINEAR_NEVER) {
            search->events[1 + search->left * 2] = (struct event){.time = op->begun, .op = n};
            search->events[2 + search->left * 2] =
                (struct event){.time = op->ended, .op = n, .is_end = true};
            search->left++;
        } else if (op->kind != LINEAR_READ && matters(search, op)) {
            search->open[search->open_count++] = n;
        }
    }
    string_events(search);
}

static void free_all(struct search *search)
{
    free(search->events);
    free(search->begins);
    free(search->ends);
    free(search->open);
    free(search->is_put);
    free(search->frames);
    free(search->tried);
}

struct linear_result linear_search(const struct linear_op **ops, size_t count, linear_model model,
                                   uint64_t initial, uint64_t budget_steps,
                                   const struct linear_op **stuck)
{
    struct search search = {.ops = ops, .count = (uint32_t)count, .model = model, .state = initial};
    struct linear_result result = {.verdict = LINEAR_UNDECIDED};

    search.events = calloc(count * 2 + 1, sizeof *search.events);
    search.begins = calloc(count + 1, sizeof *search.begins);
    search.ends = calloc(count + 1, sizeof *search.ends);
    search.open = calloc(count + 1, sizeof *search.open);
    search.is_put = calloc(count + 1, sizeof *search.is_put);
    search.frames = calloc(count + 1, sizeof *search.frames);
    *stuck = NULL;
    if (count < NONE / 2 && search.events != NULL && search.begins != NULL && search.ends != NULL &&
        search.open != NULL && search.is_put != NULL && search.frames != NULL) {
        size_t all;

        take_ops(&search);
        all = search.least = search.left;
        search.stuck = NONE;
        result.verdict = run(&search, budget_steps, &result.steps);
        result.passed = all - search.least;
        if (result.verdict != LINEAR_YES && search.stuck != NONE) {
            *stuck = ops[search.stuck];
        }
    }
    free_all(&search);
    return result;
}
