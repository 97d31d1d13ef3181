/* SPDX-License-Identifier: Apache-2.0 */
/* See home.h: the table, a step, and the queue. */
#include "space/home_internal.h"

/* ---- the table ------------------------------------------------------------ */

#define CELL(name, becomes, what) name,
enum cell {
    SPACE_HOME_TABLE(SPACE_NONE_OF, CELL, SPACE_NONE_OF) CELLS
};
#undef CELL

#define TO(state)                (1u << SPACE_HOME_##state)
#define STAY                     (1u << SPACE_HOME_STATES)
#define ROW(name, becomes, what) [name] = {#name, what, becomes},
static const struct space_row rows[CELLS] = {SPACE_HOME_TABLE(SPACE_NONE_OF, ROW, SPACE_NONE_OF)};
#undef ROW

#define HANDLER(name, becomes, what) [name] = home_##name,
static enum space_result (*const handlers[CELLS])(struct home_step *step) = {
    SPACE_HOME_TABLE(SPACE_NONE_OF, HANDLER, SPACE_NONE_OF)};
#undef HANDLER

#define LINE(name, what, ...) [SPACE_HOME_##name] = {__VA_ARGS__},
static const uint8_t cells[SPACE_HOME_STATES][SPACE_HOME_EVENTS] = {
    SPACE_HOME_TABLE(SPACE_NONE_OF, SPACE_NONE_OF, LINE)};
#undef LINE

#define WHOLE(name, what, ...)                                            \
    _Static_assert(sizeof((uint8_t[]){__VA_ARGS__}) == SPACE_HOME_EVENTS, \
                   "state " #name " says of each event what happens");
SPACE_HOME_TABLE(SPACE_NONE_OF, SPACE_NONE_OF, WHOLE)
#undef WHOLE
_Static_assert(SPACE_HOME_STATES < 32, "a set of states is a word");

#define EVENT(name, from, has_bytes, what) [SPACE_HOME_##name] = {#name, what, from, has_bytes},
static const struct {
    const char *name, *what;
    enum space_from from;
    bool has_bytes;
} events[SPACE_HOME_EVENTS] = {SPACE_HOME_TABLE(EVENT, SPACE_NONE_OF, SPACE_NONE_OF)};
#undef EVENT

#define STATE(name, what, ...) [SPACE_HOME_##name] = {#name, what},
static const struct {
    const char *name, *what;
} states[SPACE_HOME_STATES] = {SPACE_HOME_TABLE(SPACE_NONE_OF, SPACE_NONE_OF, STATE)};
#undef STATE

enum space_result home_no(struct home_step *step)
{
    (void)step;
    return SPACE_REFUSED;
}

enum space_result home_stay(struct home_step *step)
{
    (void)step;
    return SPACE_DONE;
}

/* ---- what is said --------------------------------------------------------- */

void home_say(struct home_step *step, uint8_t event, uint8_t seat)
{
    struct space_out *out = step->out;

    NIGH_ASSERT(out->count < SPACE_SENDS_MAX);
    out->sends[out->count++] = (struct space_message){
        .event = event,
        .seat = seat,
        .whom = SPACE_NOBODY,
        .term = step->home->term,
        .epoch = {.term = step->home->term, .count = step->entry->count},
    };
}

void home_say_grant(struct home_step *step, uint8_t event, uint8_t seat, uint32_t frame)
{
    home_say(step, event, seat);
    step->out->sends[step->out->count - 1].frame = frame;
}

void home_say_all(struct home_step *step, uint8_t event, uint64_t seats)
{
    for (; seats != 0; seats &= seats - 1) {
        home_say(step, event, space_set_first(seats));
    }
}

/* ---- the queue ------------------------------------------------------------ */

static bool is_busy(uint8_t state)
{
    return state > SPACE_HOME_FREED;
}

bool home_is_queued(const struct space_work *work, uint8_t seat)
{
    for (uint32_t n = 0; n < work->queued; n++) {
        if (work->queue[n] == seat) {
            return true;
        }
    }
    return false;
}

/* What is under way is for it, and it does not have it yet. */
static bool is_served(const struct space_entry *entry, const struct space_work *work, uint8_t seat)
{
    return is_busy(entry->state) && work->asker == seat &&
           (entry->state != SPACE_HOME_SHARING || space_set_has(work->waits, seat));
}

bool space_home_waits(const struct space_entry *entry, const struct space_work *work, uint8_t seat)
{
    return home_is_queued(work, seat) || is_served(entry, work, seat);
}

uint64_t space_home_awaited(const struct space_entry *entry, const struct space_work *work)
{
    if (!is_busy(entry->state)) {
        return 0;
    }
    if (entry->state == SPACE_HOME_PASSING) {
        return entry->seats;
    }
    return work->asker < SPACE_SEATS ? work->waits & ~space_bit(work->asker) : work->waits;
}

enum space_result home_queue(struct home_step *step)
{
    struct space_work *work = step->work;
    uint8_t seat = step->event->seat;

    if (space_home_waits(step->entry, work, seat)) {
        return SPACE_REFUSED;
    }
    NIGH_ASSERT(work->queued < SPACE_SEATS);
    work->queue[work->queued++] = seat;
    work->asks[seat] = step->event->event;
    work->frames[seat] = step->event->frame;
    return SPACE_DONE;
}

bool home_is_held_against(const struct space_entry *entry, uint8_t ask)
{
    bool is_read = ask == SPACE_HOME_READ || ask == SPACE_HOME_ASK_READ;

    return is_read ? entry->holds == SPACE_HELD_ALONE : entry->holds != 0;
}

bool home_must_wait(const struct home_step *step)
{
    if (step->is_next) {
        return false;
    }
    return step->work->queued > 0 || step->work->is_turn ||
           home_is_held_against(step->entry, step->event->event);
}

void home_begin(struct home_step *step, uint8_t state, uint64_t waits)
{
    struct space_work *work = step->work;

    work->asker = step->event->seat;
    work->ask = step->event->event;
    work->frame = step->event->frame;
    work->waits = waits;
    home_become(step, state);
}

void home_end(struct home_step *step, uint8_t state)
{
    struct space_work *work = step->work;

    work->waits = work->leaving = work->left = 0;
    work->frame = 0;
    work->asker = work->ask = work->owner = work->leaver = work->left_to = 0;
    work->owned = work->left_by = (struct space_epoch){0};
    work->is_ours = false;
    home_become(step, state);
}

void home_wake(struct home_step *step)
{
    step->work->is_turn = true;
    step->out->wakes = true;
}

/* Takes the next one out. False: it waits for those who hold the block. */
static bool pop(struct home_step *step, struct space_message *next)
{
    struct space_work *work = step->work;
    uint8_t seat = work->queue[0];

    if (home_is_held_against(step->entry, work->asks[seat])) {
        return false;
    }
    *next = (struct space_message){.event = work->asks[seat],
                                   .seat = seat,
                                   .whom = SPACE_NOBODY,
                                   .term = step->home->term,
                                   .frame = work->frames[seat]};
    work->queued--;
    for (uint32_t n = 0; n < work->queued; n++) {
        work->queue[n] = work->queue[n + 1];
    }
    work->queue[work->queued] = work->asks[seat] = 0;
    work->frames[seat] = 0;
    return true;
}

static bool has_what_it_wants(const struct space_entry *entry, uint8_t ask)
{
    return entry->state == SPACE_HOME_LOST || entry->state == SPACE_HOME_AWAY ||
           entry->state == SPACE_HOME_FREED || entry->state == SPACE_HOME_UNSHARED ||
           (ask == SPACE_HOME_READ && entry->state == SPACE_HOME_SHARED);
}

static enum space_result dispatch(struct home_step *step)
{
    uint8_t before = step->entry->state, after;
    uint8_t cell = cells[before][step->event->event];
    enum space_result result = handlers[cell](step);

    after = step->entry->state;
    NIGH_ASSERT(result == SPACE_REFUSED ||
                (rows[cell].becomes & (after == before ? STAY | 1u << before : 1u << after)) != 0);
    return result;
}

static void serve(struct home_step *step)
{
    while (step->work->queued > 0 && !step->work->is_turn && !is_busy(step->entry->state)) {
        struct space_message event;
        struct home_step next = {.home = step->home,
                                 .entry = step->entry,
                                 .work = step->work,
                                 .event = &event,
                                 .out = step->out,
                                 .is_next = true};

        if (!pop(step, &event)) {
            return;
        }
        if (event.seat == step->home->self && has_what_it_wants(step->entry, event.event)) {
            home_wake(step);
        } else {
            (void)dispatch(&next);
        }
    }
}

/* ---- a step --------------------------------------------------------------- */

/* Who it is from, and of which term. */
static enum space_result look_at(const struct space_home *home, const struct space_message *event)
{
    if (event->event >= SPACE_HOME_EVENTS) {
        return SPACE_REFUSED;
    }
    if (events[event->event].from == SPACE_HERE) {
        return event->seat == home->self ? SPACE_DONE : SPACE_REFUSED;
    }
    if (event->seat == home->self || !space_set_has(home->members, event->seat)) {
        return SPACE_REFUSED;
    }
    if (event->term != home->term) {
        return event->term < home->term ? SPACE_STALE : SPACE_REFUSED;
    }
    return SPACE_DONE;
}

enum space_result space_home_step(const struct space_home *home, struct space_entry *entry,
                                  struct space_work *work, const struct space_message *event,
                                  struct space_out *out)
{
    struct home_step step = {
        .home = home, .entry = entry, .work = work, .event = event, .out = out};
    enum space_result result = look_at(home, event);

    space_out_init(out);
    if (result != SPACE_DONE) {
        return result;
    }
    NIGH_ASSERT(entry->state < SPACE_HOME_STATES);
    result = dispatch(&step);
    if (result != SPACE_REFUSED) {
        serve(&step);
    }
    return result;
}

bool space_work_is_idle(const struct space_entry *entry, const struct space_work *work)
{
    return !is_busy(entry->state) && entry->state != SPACE_HOME_AWAY && work->queued == 0 &&
           !work->is_turn;
}

/* ---- looked at ------------------------------------------------------------ */

const char *space_home_state_name(uint8_t state)
{
    return state < SPACE_HOME_STATES ? states[state].name : "?";
}

const char *space_home_state_what(uint8_t state)
{
    return state < SPACE_HOME_STATES ? states[state].what : "?";
}

const char *space_home_event_name(uint8_t event)
{
    return event < SPACE_HOME_EVENTS ? events[event].name : "?";
}

const char *space_home_event_what(uint8_t event)
{
    return event < SPACE_HOME_EVENTS ? events[event].what : "?";
}

enum space_from space_home_event_from(uint8_t event)
{
    return event < SPACE_HOME_EVENTS ? events[event].from : SPACE_HERE;
}

bool space_home_event_has_bytes(uint8_t event)
{
    return event < SPACE_HOME_EVENTS && events[event].has_bytes;
}

const struct space_row *space_home_row(uint8_t state, uint8_t event)
{
    if (state >= SPACE_HOME_STATES || event >= SPACE_HOME_EVENTS || cells[state][event] == no) {
        return NULL;
    }
    return &rows[cells[state][event]];
}

static bool is_one(uint64_t set)
{
    return set != 0 && (set & (set - 1)) == 0;
}

static bool is_state_valid(const struct space_entry *entry, const struct space_work *work)
{
    switch ((enum space_home_state)entry->state) {
    case SPACE_HOME_UNSHARED:
    case SPACE_HOME_FREED:
    case SPACE_HOME_AWAY:
    case SPACE_HOME_LOST: return entry->seats == 0;
    case SPACE_HOME_SHARED: return entry->seats != 0;
    case SPACE_HOME_DIRTY: return is_one(entry->seats);
    case SPACE_HOME_CLEARING: return work->waits != 0 && work->waits == entry->seats;
    case SPACE_HOME_GRANTING:
        return work->waits != 0 && (entry->seats & ~space_bit(work->asker)) == work->waits;
    case SPACE_HOME_RECALLING: return is_one(entry->seats) && work->waits == entry->seats;
    case SPACE_HOME_DEMOTING: return is_one(work->waits) && (work->waits & ~entry->seats) == 0;
    case SPACE_HOME_PASSING: return is_one(entry->seats) && work->waits == space_bit(work->asker);
    case SPACE_HOME_SHARING: return work->waits != 0;
    case SPACE_HOME_CLAIMED: return is_one(entry->seats);
    default: return true;
    }
}

bool space_entry_is_valid(const struct space_home *home, const struct space_entry *entry,
                          const struct space_work *work)
{
    bool may_be_held = entry->state == SPACE_HOME_UNSHARED || entry->state == SPACE_HOME_SHARED ||
                       entry->state == SPACE_HOME_REBUILDING;

    if (entry->state >= SPACE_HOME_STATES || (entry->seats & ~home->members) != 0 ||
        space_set_has(entry->seats, home->self) || (entry->holds != 0 && !may_be_held)) {
        return false;
    }
    if (entry->holds == SPACE_HELD_ALONE && entry->seats != 0) {
        return false;
    }
    for (uint32_t n = 0; n < work->queued; n++) {
        if (!space_set_has(home->members, work->queue[n])) {
            return false;
        }
    }
    return is_state_valid(entry, work);
}
