/* SPDX-License-Identifier: Apache-2.0 */
/* See home.h: what clients of the home ask for, and nodes that cache the block. */
#include "space/home_internal.h"

static bool is_from_here(const struct home_step *step)
{
    return step->event->seat == step->home->self;
}

static bool is_read(uint8_t event)
{
    return event == SPACE_HOME_READ || event == SPACE_HOME_LOCK_READ;
}

/* All clients of the home have one place together; it is to write, if one of them wants to. */
static enum space_result wait_here(struct home_step *step)
{
    struct space_work *work = step->work;
    uint8_t self = step->home->self;
    uint8_t ask = is_read(step->event->event) ? SPACE_HOME_READ : SPACE_HOME_WRITE;

    if (!home_is_queued(work, self)) {
        work->queue[work->queued++] = self;
        work->asks[self] = ask;
    } else if (ask == SPACE_HOME_WRITE) {
        work->asks[self] = ask;
    }
    return SPACE_WAITS;
}

static enum space_result hold_back(struct home_step *step)
{
    return is_from_here(step) ? wait_here(step) : home_queue(step);
}

static enum space_result begin(struct home_step *step, uint8_t state, uint64_t waits)
{
    home_begin(step, state, waits);
    if (!is_from_here(step)) {
        return SPACE_DONE;
    }
    step->work->ask = is_read(step->event->event) ? SPACE_HOME_READ : SPACE_HOME_WRITE;
    return SPACE_WAITS;
}

/* ---- clients of the home -------------------------------------------------- */

enum space_result home_wait(struct home_step *step)
{
    return wait_here(step);
}

enum space_result home_read_here(struct home_step *step)
{
    return step->entry->holds == SPACE_HELD_ALONE ? wait_here(step) : SPACE_DONE;
}

enum space_result home_write_here(struct home_step *step)
{
    return step->entry->holds != 0 ? wait_here(step) : SPACE_DONE;
}

/* Others who wait come first, unless this is the home's own turn. */
static bool is_behind(const struct home_step *step)
{
    return step->work->queued > 0 && !step->work->is_turn;
}

enum space_result home_lock_read(struct home_step *step)
{
    struct space_entry *entry = step->entry;

    if (is_behind(step) || entry->holds >= SPACE_HELD_ALONE - 1) {
        return wait_here(step);
    }
    entry->holds++;
    return SPACE_DONE;
}

enum space_result home_lock_write(struct home_step *step)
{
    if (is_behind(step) || step->entry->holds != 0) {
        return wait_here(step);
    }
    step->entry->holds = SPACE_HELD_ALONE;
    return SPACE_DONE;
}

enum space_result home_unlock(struct home_step *step)
{
    struct space_entry *entry = step->entry;

    if (entry->holds == 0) {
        return SPACE_REFUSED;
    }
    entry->holds = entry->holds == SPACE_HELD_ALONE ? 0 : (uint8_t)(entry->holds - 1);
    /* One who waits for room to hold it, too, has no place in the queue: nodes may read it. */
    step->out->wakes |= entry->holds == SPACE_HELD_ALONE - 2;
    return SPACE_DONE;
}

enum space_result home_free_here(struct home_step *step)
{
    if (step->entry->holds != 0) {
        return wait_here(step);
    }
    home_become(step, SPACE_HOME_FREED);
    return SPACE_DONE;
}

enum space_result home_free_lost(struct home_step *step)
{
    home_become(step, SPACE_HOME_FREED);
    return SPACE_DONE;
}

enum space_result home_away(struct home_step *step)
{
    (void)step;
    return SPACE_GONE;
}

enum space_result home_free_away(struct home_step *step)
{
    struct space_work *work = step->work;

    if (work->leaver != SPACE_NOBODY) {
        home_say(step, SPACE_CACHE_RELEASE, work->leaver);
    }
    home_end(step, SPACE_HOME_FREED);
    return SPACE_DONE;
}

enum space_result home_alloc(struct home_step *step)
{
    step->entry->count++;
    home_become(step, SPACE_HOME_UNSHARED);
    return SPACE_DONE;
}

enum space_result home_yield(struct home_step *step)
{
    if (!step->work->is_turn) {
        return SPACE_REFUSED;
    }
    step->work->is_turn = false;
    return SPACE_DONE;
}

enum space_result home_gone(struct home_step *step)
{
    (void)step;
    return SPACE_GONE;
}

/* ---- somebody is to have it alone ----------------------------------------- */

/* Who asks for an atomic has no copy: else it would have asked to write. */
enum space_result home_clear(struct home_step *step)
{
    struct space_entry *entry = step->entry;

    if (space_set_has(entry->seats, step->event->seat)) {
        return SPACE_REFUSED;
    }
    if (home_must_wait(step)) {
        return hold_back(step);
    }
    home_say_all(step, SPACE_CACHE_INVALIDATE, entry->seats);
    return begin(step, SPACE_HOME_CLEARING, entry->seats);
}

static bool is_owners(const struct home_step *step)
{
    return space_set_has(step->entry->seats, step->event->seat);
}

enum space_result home_recall(struct home_step *step)
{
    struct space_entry *entry = step->entry;

    if (is_owners(step)) {
        return SPACE_REFUSED;
    }
    home_say_all(step, SPACE_CACHE_FETCH_INVALIDATE, entry->seats);
    return begin(step, SPACE_HOME_RECALLING, entry->seats);
}

enum space_result home_fetch(struct home_step *step)
{
    home_say_all(step, SPACE_CACHE_FETCH_SHARED, step->entry->seats);
    return begin(step, SPACE_HOME_DEMOTING, step->entry->seats);
}

/* ---- nodes ---------------------------------------------------------------- */

enum space_result home_share(struct home_step *step)
{
    struct space_entry *entry = step->entry;

    if (space_set_has(entry->seats, step->event->seat)) {
        return SPACE_REFUSED;
    }
    if (home_must_wait(step)) {
        return home_queue(step);
    }
    entry->count += entry->seats == 0;
    entry->seats |= space_bit(step->event->seat);
    home_say_grant(step, SPACE_CACHE_SHARE, step->event->seat, step->event->frame);
    home_become(step, SPACE_HOME_SHARED);
    return SPACE_DONE;
}

static void give(struct home_step *step, uint8_t event)
{
    struct space_entry *entry = step->entry;

    entry->count++;
    entry->seats = space_bit(step->event->seat);
    home_say_grant(step, event, step->event->seat, step->event->frame);
    home_become(step, SPACE_HOME_DIRTY);
}

enum space_result home_own(struct home_step *step)
{
    if (home_must_wait(step)) {
        return home_queue(step);
    }
    give(step, SPACE_CACHE_OWN);
    return SPACE_DONE;
}

enum space_result home_own_shared(struct home_step *step)
{
    struct space_entry *entry = step->entry;
    uint64_t others = entry->seats & ~space_bit(step->event->seat);

    if (home_must_wait(step)) {
        return home_queue(step);
    }
    if (others == 0) {
        give(step, SPACE_CACHE_UPGRADE);
        return SPACE_DONE;
    }
    home_say_all(step, SPACE_CACHE_INVALIDATE, others);
    return begin(step, SPACE_HOME_GRANTING, others);
}

enum space_result home_perform(struct home_step *step)
{
    if (home_must_wait(step)) {
        return home_queue(step);
    }
    home_say(step, SPACE_CACHE_ATOMIC_DONE, step->event->seat);
    return SPACE_DONE;
}

static void forward(struct home_step *step, uint8_t event)
{
    home_say_grant(step, event, space_set_first(step->entry->seats), step->event->frame);
    step->out->sends[step->out->count - 1].whom = step->event->seat;
}

enum space_result home_forward_read(struct home_step *step)
{
    if (is_owners(step)) {
        return SPACE_REFUSED;
    }
    forward(step, SPACE_CACHE_READ_FORWARD);
    return begin(step, SPACE_HOME_SHARING, step->entry->seats | space_bit(step->event->seat));
}

enum space_result home_forward_write(struct home_step *step)
{
    if (is_owners(step)) {
        return SPACE_REFUSED;
    }
    forward(step, SPACE_CACHE_WRITE_FORWARD);
    return begin(step, SPACE_HOME_PASSING, space_bit(step->event->seat));
}

/* Who has a copy asks for nothing but to write; who owns it, or is asked for it, for nothing. */
static bool may_ask(const struct home_step *step)
{
    uint8_t state = step->entry->state, seat = step->event->seat;

    if (!space_set_has(step->entry->seats, seat)) {
        return true;
    }
    if (step->event->event != SPACE_HOME_ASK_WRITE) {
        return false;
    }
    if (state == SPACE_HOME_CLEARING || state == SPACE_HOME_GRANTING) {
        return true;
    }
    return (state == SPACE_HOME_DEMOTING || state == SPACE_HOME_SHARING) &&
           !space_set_has(step->work->waits | step->work->leaving, seat);
}

enum space_result home_queue_ask(struct home_step *step)
{
    return may_ask(step) ? home_queue(step) : SPACE_REFUSED;
}

enum space_result home_refuse(struct home_step *step)
{
    home_say(step, SPACE_CACHE_REFUSE, step->event->seat);
    step->out->sends[step->out->count - 1].why = step->entry->state;
    return SPACE_DONE;
}
