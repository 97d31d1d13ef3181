/* SPDX-License-Identifier: Apache-2.0 */
/* See home.h: what nodes answer, and what they give up by themselves. */
#include "space/home_internal.h"

/* Of a right that it has, and that the home waits for. */
static bool is_awaited(const struct home_step *step)
{
    return space_set_has(step->work->waits, step->event->seat) && home_is_current(step);
}

/* Of a right that it has, and that the home does not wait for. */
static bool is_unasked(const struct home_step *step)
{
    uint64_t busy = step->work->waits | step->work->leaving;

    return space_set_has(step->entry->seats & ~busy, step->event->seat) && home_is_current(step);
}

static void release(struct home_step *step, uint8_t seat)
{
    home_say(step, SPACE_CACHE_RELEASE, seat);
}

/* ---- nobody has it but the home ------------------------------------------- */

static void have_alone(struct home_step *step)
{
    uint8_t asker = step->work->asker, ask = step->work->ask;

    step->entry->seats = 0;
    home_end(step, SPACE_HOME_UNSHARED);
    if (asker == step->home->self) {
        home_wake(step);
    } else if (ask == SPACE_HOME_ASK_ATOMIC) {
        home_say(step, SPACE_CACHE_ATOMIC_DONE, asker);
    }
}

/* To who asked, from the home's own bytes, unless it has them. */
static void grant(struct home_step *step, uint8_t event, uint8_t state)
{
    struct space_entry *entry = step->entry;
    uint8_t asker = step->work->asker;
    uint32_t frame = step->work->frame;

    entry->count++;
    entry->seats = space_bit(asker);
    home_say_grant(step, event, asker, frame);
    home_end(step, state);
}

static void clear_one(struct home_step *step)
{
    struct space_work *work = step->work;
    struct space_entry *entry = step->entry;

    work->waits &= ~space_bit(step->event->seat);
    entry->seats &= ~space_bit(step->event->seat);
    if (work->waits != 0) {
        return;
    }
    if (entry->state == SPACE_HOME_CLEARING) {
        have_alone(step);
    } else if (space_set_has(entry->seats, work->asker)) {
        grant(step, SPACE_CACHE_UPGRADE, SPACE_HOME_DIRTY);
    } else {
        grant(step, SPACE_CACHE_OWN, SPACE_HOME_DIRTY);
    }
}

static enum space_result acked(struct home_step *step)
{
    if (!is_awaited(step)) {
        return SPACE_REFUSED;
    }
    clear_one(step);
    return SPACE_DONE;
}

/* What it was asked for crossed this, and is answered by it. */
static enum space_result acked_left(struct home_step *step)
{
    if (!is_awaited(step)) {
        return SPACE_REFUSED;
    }
    release(step, step->event->seat);
    clear_one(step);
    return SPACE_DONE;
}

enum space_result home_cleared(struct home_step *step)
{
    return acked(step);
}

enum space_result home_granted(struct home_step *step)
{
    return acked(step);
}

enum space_result home_cleared_left(struct home_step *step)
{
    return acked_left(step);
}

enum space_result home_granted_left(struct home_step *step)
{
    return acked_left(step);
}

/* Not from who was asked in a new term, and reads it alone: others wait for these bytes, too. */
enum space_result home_recalled(struct home_step *step)
{
    if (!is_awaited(step) || step->entry->seats != space_bit(step->event->seat) ||
        step->work->asker == SPACE_NOBODY) {
        return SPACE_REFUSED;
    }
    release(step, step->event->seat);
    have_alone(step);
    return SPACE_DONE;
}

enum space_result home_came_back(struct home_step *step)
{
    if (!is_unasked(step)) {
        return SPACE_REFUSED;
    }
    release(step, step->event->seat);
    step->entry->seats = 0;
    home_become(step, SPACE_HOME_UNSHARED);
    return SPACE_DONE;
}

enum space_result home_left(struct home_step *step)
{
    struct space_entry *entry = step->entry;

    if (!is_unasked(step)) {
        return SPACE_REFUSED;
    }
    release(step, step->event->seat);
    entry->seats &= ~space_bit(step->event->seat);
    if (entry->seats == 0) {
        home_become(step, SPACE_HOME_UNSHARED);
    }
    return SPACE_DONE;
}

/* Others than the one that tells the home the bytes: until they are here these may be the last. */
enum space_result home_left_too(struct home_step *step)
{
    return home_shared_left(step);
}

/* ---- several read it ------------------------------------------------------ */

enum space_result home_demoted(struct home_step *step)
{
    bool is_ours = step->work->asker == step->home->self;

    if (!is_awaited(step)) {
        return SPACE_REFUSED;
    }
    home_say_all(step, SPACE_CACHE_RELEASE, step->work->leaving);
    step->entry->seats &= ~step->work->leaving;
    home_end(step, SPACE_HOME_SHARED);
    if (is_ours) {
        home_wake(step);
    }
    return SPACE_DONE;
}

/* Who gave it up meanwhile is told only here: its frame may have been read from until now. */
static void share_one(struct home_step *step)
{
    struct space_work *work = step->work;
    struct space_entry *entry = step->entry;

    work->waits &= ~space_bit(step->event->seat);
    if (work->waits != 0) {
        return;
    }
    home_say_all(step, SPACE_CACHE_RELEASE, work->leaving);
    entry->seats &= ~work->leaving;
    NIGH_ASSERT(entry->seats != 0); /* who answered last has said nothing since */
    home_end(step, SPACE_HOME_SHARED);
}

enum space_result home_shared_bytes(struct home_step *step)
{
    if (!is_awaited(step) || step->event->seat == step->work->asker) {
        return SPACE_REFUSED;
    }
    share_one(step);
    return SPACE_DONE;
}

enum space_result home_shared_got(struct home_step *step)
{
    if (!is_awaited(step) || step->event->seat != step->work->asker) {
        return SPACE_REFUSED;
    }
    step->entry->seats |= space_bit(step->event->seat);
    share_one(step);
    return SPACE_DONE;
}

/* The owner had given it up before it was asked: it will not answer, and the home has the bytes. */
enum space_result home_shared_back(struct home_step *step)
{
    if (!is_awaited(step) || step->event->seat == step->work->asker ||
        !space_set_has(step->work->waits, step->work->asker)) {
        return SPACE_REFUSED;
    }
    release(step, step->event->seat);
    grant(step, SPACE_CACHE_SHARE, SPACE_HOME_SHARED);
    return SPACE_DONE;
}

enum space_result home_shared_left(struct home_step *step)
{
    if (!is_unasked(step)) {
        return SPACE_REFUSED;
    }
    step->work->leaving |= space_bit(step->event->seat);
    return SPACE_DONE;
}

/* ---- one has it from another ---------------------------------------------- */

enum space_result home_passed(struct home_step *step)
{
    struct space_entry *entry = step->entry;

    if (step->event->seat != step->work->asker || step->event->epoch.term != step->home->term ||
        step->event->epoch.count != entry->count + 1) {
        return SPACE_REFUSED;
    }
    home_say_all(step, SPACE_CACHE_RELEASE, entry->seats);
    entry->count++;
    entry->seats = space_bit(step->event->seat);
    home_end(step, SPACE_HOME_DIRTY);
    return SPACE_DONE;
}

enum space_result home_passed_back(struct home_step *step)
{
    if (!is_unasked(step)) {
        return SPACE_REFUSED;
    }
    release(step, step->event->seat);
    grant(step, SPACE_CACHE_OWN, SPACE_HOME_DIRTY);
    return SPACE_DONE;
}
