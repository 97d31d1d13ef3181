/* SPDX-License-Identifier: Apache-2.0 */
/* See cache.h. */
#include "space/cache.h"

#include "base/check.h"
#include "space/home.h"

struct step {
    const struct space_cache *cache;
    struct space_line *line;
    const struct space_message *event;
    struct space_out *out;
};

/* ---- the table ------------------------------------------------------------ */

typedef enum space_result handler(struct step *step);

#define HANDLER(name, becomes, what) static handler cache_##name;
SPACE_CACHE_TABLE(SPACE_NONE_OF, HANDLER, SPACE_NONE_OF)
#undef HANDLER

#define CELL(name, becomes, what) name,
enum cell {
    SPACE_CACHE_TABLE(SPACE_NONE_OF, CELL, SPACE_NONE_OF) CELLS
};
#undef CELL

#define TO(state)                (1u << SPACE_CACHE_##state)
#define STAY                     (1u << SPACE_CACHE_STATES)
#define ROW(name, becomes, what) [name] = {#name, what, becomes},
static const struct space_row rows[CELLS] = {SPACE_CACHE_TABLE(SPACE_NONE_OF, ROW, SPACE_NONE_OF)};
#undef ROW

#define HANDLER(name, becomes, what) [name] = cache_##name,
static handler *const handlers[CELLS] = {SPACE_CACHE_TABLE(SPACE_NONE_OF, HANDLER, SPACE_NONE_OF)};
#undef HANDLER

#define LINE(name, what, ...) [SPACE_CACHE_##name] = {__VA_ARGS__},
static const uint8_t cells[SPACE_CACHE_STATES][SPACE_CACHE_EVENTS] = {
    SPACE_CACHE_TABLE(SPACE_NONE_OF, SPACE_NONE_OF, LINE)};
#undef LINE

#define WHOLE(name, what, ...)                                             \
    _Static_assert(sizeof((uint8_t[]){__VA_ARGS__}) == SPACE_CACHE_EVENTS, \
                   "state " #name " says of each event what happens");
SPACE_CACHE_TABLE(SPACE_NONE_OF, SPACE_NONE_OF, WHOLE)
#undef WHOLE
_Static_assert(SPACE_CACHE_STATES < 32, "a set of states is a word");

#define EVENT(name, from, has_bytes, what) [SPACE_CACHE_##name] = {#name, what, from, has_bytes},
static const struct {
    const char *name, *what;
    enum space_from from;
    bool has_bytes;
} events[SPACE_CACHE_EVENTS] = {SPACE_CACHE_TABLE(EVENT, SPACE_NONE_OF, SPACE_NONE_OF)};
#undef EVENT

#define STATE(name, what, ...) [SPACE_CACHE_##name] = {#name, what},
static const struct {
    const char *name, *what;
} states[SPACE_CACHE_STATES] = {SPACE_CACHE_TABLE(SPACE_NONE_OF, SPACE_NONE_OF, STATE)};
#undef STATE

/* ---- what is said --------------------------------------------------------- */

static void say(struct step *step, uint8_t event, struct space_epoch epoch, uint8_t seat)
{
    NIGH_ASSERT(step->out->count < SPACE_SENDS_MAX);
    step->out->sends[step->out->count++] = (struct space_message){
        .event = event,
        .seat = seat,
        .whom = SPACE_NOBODY,
        .term = step->cache->term,
        .epoch = epoch,
    };
}

/* Of the right that this node has, or gave up. */
static void say_home(struct step *step, uint8_t event)
{
    say(step, event, step->line->epoch, step->cache->home);
}

static void say_ask(struct step *step, uint8_t event)
{
    say(step, event, (struct space_epoch){.term = step->cache->term}, step->cache->home);
    step->out->sends[step->out->count - 1].frame = step->line->frame;
}

static void say_grant(struct step *step, uint8_t event, struct space_epoch epoch)
{
    say(step, event, epoch, step->event->whom);
    step->out->sends[step->out->count - 1].frame = step->event->frame;
}

/* ---- what waits ----------------------------------------------------------- */

static enum space_result cache_wait(struct step *step)
{
    uint8_t event = step->event->event;

    if (step->line->is_away) {
        return SPACE_GONE;
    }
    if (event == SPACE_CACHE_READ || event == SPACE_CACHE_LOCK_READ) {
        step->line->wants_read = true;
    } else {
        step->line->wants_write = true;
    }
    return SPACE_WAITS;
}

static void wake(struct step *step)
{
    struct space_line *line = step->line;

    step->out->wakes |= line->wants_read || line->wants_write;
    line->wants_read = line->wants_write = false;
}

static void become(struct step *step, uint8_t state)
{
    step->line->state = state;
    step->line->is_homes = step->line->is_restored = false;
}

/* Nothing is here any more. */
static void leave(struct step *step)
{
    step->line->epoch = (struct space_epoch){0};
    step->line->handed_to = 0;
    step->line->is_away = false;
    step->line->frame = 0;
    become(step, SPACE_CACHE_INVALID);
    wake(step);
}

/* ---- clients -------------------------------------------------------------- */

static enum space_result ask(struct step *step, uint8_t event, uint8_t state)
{
    if (step->cache->is_open) {
        say_ask(step, event);
        become(step, state);
    }
    return cache_wait(step);
}

static enum space_result cache_ask_read(struct step *step)
{
    return ask(step, SPACE_HOME_ASK_READ, SPACE_CACHE_TO_SHARED);
}

static enum space_result cache_ask_write(struct step *step)
{
    return ask(step, SPACE_HOME_ASK_WRITE, SPACE_CACHE_TO_DIRTY);
}

static enum space_result cache_ask_atomic(struct step *step)
{
    return ask(step, SPACE_HOME_ASK_ATOMIC, SPACE_CACHE_AT_HOME);
}

/* Who holds it here lets go first: else another's right would be given under a holder. */
static enum space_result cache_ask_upgrade(struct step *step)
{
    return step->line->holds == 0 ? ask(step, SPACE_HOME_ASK_WRITE, SPACE_CACHE_UPGRADING)
                                  : cache_wait(step);
}

static enum space_result cache_read_hit(struct step *step)
{
    return step->line->holds != SPACE_HELD_ALONE ? SPACE_DONE : cache_wait(step);
}

static enum space_result cache_write_hit(struct step *step)
{
    return step->line->holds == 0 ? SPACE_DONE : cache_wait(step);
}

/* Behind who waits already, here or elsewhere: else those who read could keep it for ever. */
static enum space_result cache_lock_read(struct step *step)
{
    struct space_line *line = step->line;

    /* A home that is killed before its term is open may come back and know of no such right. */
    if (line->owed != 0 || line->wants_write || line->is_restored ||
        line->holds >= SPACE_HELD_ALONE - 1) {
        return cache_wait(step);
    }
    line->holds++;
    return SPACE_DONE;
}

static enum space_result cache_lock_write(struct step *step)
{
    if (step->line->holds != 0) {
        return cache_wait(step);
    }
    step->line->holds = SPACE_HELD_ALONE;
    return SPACE_DONE;
}

static enum space_result unlock(struct step *step)
{
    struct space_line *line = step->line;
    struct space_message owed = {.event = line->owed,
                                 .seat = step->cache->home,
                                 .whom = line->owed_whom,
                                 .term = step->cache->term,
                                 .epoch = line->epoch,
                                 .frame = line->owed_frame};
    struct step next = {step->cache, line, &owed, step->out};

    if (line->holds == 0) {
        return SPACE_REFUSED;
    }
    line->holds = line->holds == SPACE_HELD_ALONE ? 0 : (uint8_t)(line->holds - 1);
    if (line->holds != 0) {
        if (line->holds == SPACE_HELD_ALONE - 2) { /* there is room for one more */
            wake(step);
        }
        return SPACE_DONE;
    }
    line->owed = line->owed_whom = 0;
    line->owed_frame = 0;
    if (owed.event != 0) {
        (void)handlers[cells[line->state][owed.event]](&next);
    }
    wake(step);
    return SPACE_DONE;
}

static enum space_result cache_unlock_shared(struct step *step)
{
    return unlock(step);
}

static enum space_result cache_unlock_dirty(struct step *step)
{
    return unlock(step);
}

static bool may_evict(const struct step *step)
{
    return step->line->holds == 0 && step->cache->is_open;
}

static enum space_result cache_evict(struct step *step)
{
    if (!may_evict(step)) {
        return SPACE_WAITS;
    }
    say_home(step, SPACE_HOME_EVICT);
    become(step, SPACE_CACHE_EVICTING);
    return SPACE_DONE;
}

/* Whoever carries it out keeps the line elsewhere, and no term finds it again: so it is not for
 * what may be the last. */
static enum space_result cache_evict_at_once(struct step *step)
{
    if (!may_evict(step) || !step->line->is_homes) {
        return SPACE_WAITS;
    }
    say_home(step, SPACE_HOME_EVICT);
    step->line->frame = 0;
    become(step, SPACE_CACHE_FRAMELESS);
    return SPACE_DONE;
}

static enum space_result give_home(struct step *step)
{
    say_home(step, SPACE_HOME_WRITE_BACK);
    become(step, SPACE_CACHE_WRITING_BACK);
    return SPACE_DONE;
}

static enum space_result cache_evict_dirty(struct step *step)
{
    return may_evict(step) ? give_home(step) : SPACE_WAITS;
}

static enum space_result cache_keep(struct step *step)
{
    (void)step;
    return SPACE_WAITS;
}

/* ---- grants --------------------------------------------------------------- */

/* The home does not know when another's bytes have come, unless it is told. */
static enum space_result take(struct step *step, uint8_t state)
{
    step->line->epoch = step->event->epoch;
    become(step, state);
    step->line->is_homes = state == SPACE_CACHE_SHARED && step->event->seat == step->cache->home;
    if (step->event->seat != step->cache->home) {
        say_home(step, SPACE_HOME_GOT);
    }
    wake(step);
    return SPACE_DONE;
}

static enum space_result cache_take_shared(struct step *step)
{
    return take(step, SPACE_CACHE_SHARED);
}

static enum space_result cache_take_dirty(struct step *step)
{
    return take(step, SPACE_CACHE_DIRTY);
}

static enum space_result cache_take_upgrade(struct step *step)
{
    return take(step, SPACE_CACHE_DIRTY);
}

static enum space_result cache_refused(struct step *step)
{
    leave(step);
    step->out->refused = true;
    step->out->why = step->event->why;
    step->out->wakes = false;
    return SPACE_DONE;
}

/* Who may have it is gone, and these bytes are the last if that one does not come back with others:
 * so they stay, until a later term. */
static enum space_result cache_keep_away(struct step *step)
{
    if (step->event->why != SPACE_HOME_AWAY) {
        return SPACE_REFUSED;
    }
    step->line->is_away = true;
    step->line->wants_read = step->line->wants_write = false;
    step->out->refused = true;
    step->out->why = step->event->why;
    return SPACE_DONE;
}

static enum space_result cache_atomic_done(struct step *step)
{
    leave(step);
    return SPACE_DONE;
}

/* ---- what the home wants -------------------------------------------------- */

/* The event is of the right that this node has. */
static bool is_mine(const struct step *step)
{
    return space_epoch_equal(step->event->epoch, step->line->epoch);
}

static enum space_result owe(struct step *step)
{
    struct space_line *line = step->line;

    if (line->owed != 0) {
        return SPACE_REFUSED;
    }
    line->owed = step->event->event;
    line->owed_whom = step->event->whom;
    line->owed_frame = step->event->frame;
    return SPACE_DONE;
}

static enum space_result cache_invalidate(struct step *step)
{
    if (!is_mine(step)) {
        return SPACE_REFUSED;
    }
    if (step->line->holds != 0) {
        return owe(step);
    }
    say_home(step, SPACE_HOME_ACK);
    leave(step);
    return SPACE_DONE;
}

static enum space_result cache_invalidate_on(struct step *step)
{
    if (!is_mine(step)) {
        return SPACE_REFUSED;
    }
    say_home(step, SPACE_HOME_ACK);
    step->line->epoch = (struct space_epoch){0};
    become(step, SPACE_CACHE_TO_DIRTY);
    return SPACE_DONE;
}

static enum space_result cache_demote(struct step *step)
{
    if (!is_mine(step)) {
        return SPACE_REFUSED;
    }
    if (step->line->holds == SPACE_HELD_ALONE) {
        return owe(step);
    }
    say_home(step, SPACE_HOME_BYTES);
    become(step, SPACE_CACHE_SHARED);
    return SPACE_DONE;
}

static enum space_result cache_tell_bytes(struct step *step)
{
    if (!is_mine(step)) {
        return SPACE_REFUSED;
    }
    say_home(step, SPACE_HOME_BYTES);
    return SPACE_DONE;
}

static enum space_result cache_write_back(struct step *step)
{
    if (!is_mine(step)) {
        return SPACE_REFUSED;
    }
    return step->line->holds != 0 ? owe(step) : give_home(step);
}

static bool is_of_another(const struct step *step)
{
    return is_mine(step) && step->event->whom < SPACE_SEATS &&
           step->event->whom != step->cache->self && step->event->whom != step->cache->home;
}

static enum space_result cache_share_on(struct step *step)
{
    if (!is_of_another(step)) {
        return SPACE_REFUSED;
    }
    if (step->line->holds == SPACE_HELD_ALONE) {
        return owe(step);
    }
    say_grant(step, SPACE_CACHE_SHARE, step->line->epoch);
    say_home(step, SPACE_HOME_BYTES);
    become(step, SPACE_CACHE_SHARED);
    return SPACE_DONE;
}

static enum space_result cache_hand_on(struct step *step)
{
    struct space_epoch next = step->line->epoch;

    if (!is_of_another(step)) {
        return SPACE_REFUSED;
    }
    if (step->line->holds != 0) {
        return owe(step);
    }
    next.count++;
    say_grant(step, SPACE_CACHE_OWN, next);
    step->line->handed_to = step->event->whom;
    become(step, SPACE_CACHE_HANDED);
    return SPACE_DONE;
}

/* It crossed what was given up: the home finds its answer there. */
static enum space_result cache_pass_over(struct step *step)
{
    return is_mine(step) ? SPACE_DONE : SPACE_REFUSED;
}

/* After a term's beginning the home says it of all that was given up before. */
static enum space_result cache_released(struct step *step)
{
    bool is_before = step->line->epoch.term != step->cache->term && step->event->epoch.count == 0;

    if (!is_mine(step) && !is_before) {
        return SPACE_REFUSED;
    }
    leave(step);
    return SPACE_DONE;
}

/* ---- terms ---------------------------------------------------------------- */

static enum space_result cache_stay(struct step *step)
{
    (void)step;
    return SPACE_DONE;
}

/* What was claimed is of the new term from here on. */
static void claim(struct step *step, uint8_t event)
{
    struct space_line *line = step->line;

    say_home(step, event);
    line->epoch = (struct space_epoch){.term = step->cache->term};
    line->owed = line->owed_whom = 0;
    line->owed_frame = 0;
}

static enum space_result cache_claim_shared(struct step *step)
{
    bool is_restored = step->line->is_restored;

    claim(step, SPACE_HOME_CLAIM_SHARED);
    /* A home that was started anew has what an earlier life gave once its bytes have come. */
    become(step, SPACE_CACHE_SHARED);
    step->line->is_restored = is_restored;
    return SPACE_DONE;
}

static enum space_result cache_claim_dirty(struct step *step)
{
    claim(step, SPACE_HOME_CLAIM_DIRTY);
    return SPACE_DONE;
}

/* Whether another has it nobody knows here: it stays unread until the home has said so. */
static enum space_result cache_claim_left(struct step *step)
{
    step->line->is_away = false;
    say_home(step, SPACE_HOME_CLAIM_LEFT);
    if (step->line->state == SPACE_CACHE_HANDED) {
        step->out->sends[step->out->count - 1].whom = step->line->handed_to;
    }
    return SPACE_DONE;
}

/* The home has it, too: this copy is as one that it was told of in time. */
static enum space_result cache_forget(struct step *step)
{
    step->line->epoch = (struct space_epoch){0};
    become(step, SPACE_CACHE_INVALID);
    return SPACE_DONE;
}

static enum space_result cache_lend(struct step *step)
{
    step->line->epoch = (struct space_epoch){0};
    become(step, SPACE_CACHE_LENT);
    return SPACE_DONE;
}

static enum space_result cache_doubt(struct step *step)
{
    step->line->frame = 0;
    become(step, SPACE_CACHE_INVALID);
    step->out->in_doubt = true;
    return SPACE_DONE;
}

static enum space_result cache_go_on(struct step *step)
{
    step->line->is_restored = false;
    wake(step);
    return SPACE_DONE;
}

static enum space_result cache_get_back(struct step *step)
{
    leave(step);
    return SPACE_DONE;
}

/* The home has these bytes, and may let others forget theirs, before anybody writes. */
static enum space_result cache_restored(struct step *step)
{
    step->line->epoch = (struct space_epoch){.term = step->cache->term};
    step->line->handed_to = 0;
    become(step, SPACE_CACHE_SHARED);
    step->line->is_restored = true;
    say_home(step, SPACE_HOME_BYTES);
    wake(step);
    return SPACE_DONE;
}

/* ---- a step --------------------------------------------------------------- */

static enum space_result cache_no(struct step *step)
{
    (void)step;
    return SPACE_REFUSED;
}

/* Who it is from, and of which term. */
static enum space_result look_at(const struct space_cache *cache, const struct space_message *event)
{
    enum space_from from;

    if (event->event >= SPACE_CACHE_EVENTS) {
        return SPACE_REFUSED;
    }
    from = events[event->event].from;
    if (from == SPACE_HERE) {
        return event->seat == cache->self ? SPACE_DONE : SPACE_REFUSED;
    }
    if (event->seat >= SPACE_SEATS || event->seat == cache->self ||
        (from == SPACE_THE_HOME && event->seat != cache->home)) {
        return SPACE_REFUSED;
    }
    if (event->term != cache->term) {
        return event->term < cache->term ? SPACE_STALE : SPACE_REFUSED;
    }
    return SPACE_DONE;
}

enum space_result space_cache_step(const struct space_cache *cache, struct space_line *line,
                                   const struct space_message *event, struct space_out *out)
{
    struct step step = {cache, line, event, out};
    enum space_result result = look_at(cache, event);
    uint8_t before = line->state;
    uint8_t cell;

    space_out_init(out);
    if (result != SPACE_DONE) {
        return result;
    }
    NIGH_ASSERT(line->state < SPACE_CACHE_STATES);
    cell = cells[line->state][event->event];
    result = handlers[cell](&step);
    NIGH_ASSERT(result == SPACE_REFUSED ||
                (rows[cell].becomes &
                 (line->state == before ? STAY | 1u << before : 1u << line->state)) != 0);
    return result;
}

/* ---- looked at ------------------------------------------------------------ */

const char *space_cache_state_name(uint8_t state)
{
    return state < SPACE_CACHE_STATES ? states[state].name : "?";
}

const char *space_cache_state_what(uint8_t state)
{
    return state < SPACE_CACHE_STATES ? states[state].what : "?";
}

const char *space_cache_event_name(uint8_t event)
{
    return event < SPACE_CACHE_EVENTS ? events[event].name : "?";
}

const char *space_cache_event_what(uint8_t event)
{
    return event < SPACE_CACHE_EVENTS ? events[event].what : "?";
}

enum space_from space_cache_event_from(uint8_t event)
{
    return event < SPACE_CACHE_EVENTS ? events[event].from : SPACE_HERE;
}

bool space_cache_event_has_bytes(uint8_t event)
{
    return event < SPACE_CACHE_EVENTS && events[event].has_bytes;
}

const struct space_row *space_cache_row(uint8_t state, uint8_t event)
{
    if (state >= SPACE_CACHE_STATES || event >= SPACE_CACHE_EVENTS || cells[state][event] == no) {
        return NULL;
    }
    return &rows[cells[state][event]];
}

bool space_line_is_valid(const struct space_line *line)
{
    bool has_right = line->state == SPACE_CACHE_SHARED || line->state == SPACE_CACHE_DIRTY;

    return line->state < SPACE_CACHE_STATES && (line->holds == 0 || has_right) &&
           (line->holds != SPACE_HELD_ALONE || line->state == SPACE_CACHE_DIRTY) &&
           (line->owed == 0 || line->holds != 0) &&
           (!line->is_homes || line->state == SPACE_CACHE_SHARED) &&
           (!line->is_restored || (line->state == SPACE_CACHE_SHARED && line->holds == 0));
}
