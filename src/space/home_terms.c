/* SPDX-License-Identifier: Apache-2.0 */
/* See home.h: a term begins, nodes say what they have, and the directory is made of that. */
#include "space/home_internal.h"

#include <string.h>

/* What waits at the home itself waits on; nodes ask again. */
static void forget(struct home_step *step, uint8_t state)
{
    struct space_work *work = step->work;
    uint8_t self = step->home->self;
    bool is_busy = step->entry->state > SPACE_HOME_FREED;
    bool is_asker = is_busy && work->asker == self, is_queued = home_is_queued(work, self);
    bool is_write = (is_asker && work->ask == SPACE_HOME_WRITE) ||
                    (is_queued && work->asks[self] == SPACE_HOME_WRITE);

    memset(work, 0, sizeof(*work));
    work->asker = work->owner = work->leaver = SPACE_NOBODY;
    if (is_asker || is_queued) {
        work->queue[work->queued++] = self;
        work->asks[self] = is_write ? SPACE_HOME_WRITE : SPACE_HOME_READ;
    }
    step->entry->seats = 0;
    step->entry->count = 0;
    home_become(step, state);
}

/* A term before this one had not come to its end, of this block: what was remembered is yet. */
static bool is_remembered(const struct home_step *step)
{
    uint8_t state = step->entry->state;

    return state == SPACE_HOME_BARE || state == SPACE_HOME_AWAY ||
           (state == SPACE_HOME_DEMOTING && step->work->asker == SPACE_NOBODY);
}

/* Of a block whose bytes are to come here: not who was given a copy meanwhile, who never wrote it.
 */
static uint8_t owner_of(const struct home_step *step)
{
    uint64_t seats = step->entry->seats;

    if (step->entry->state == SPACE_HOME_SHARING) {
        seats &= ~space_bit(step->work->asker);
    }
    return space_set_first(seats);
}

/* Who has it, or had it last, by which right, and whether the bytes here are those it was given. */
static void remember(struct home_step *step)
{
    struct space_work *work = step->work;
    const struct space_entry *entry = step->entry;
    uint8_t state = entry->state, owner = work->owner;
    struct space_epoch owned = work->owned;
    bool is_ours = work->is_ours;

    if (state == SPACE_HOME_CLAIMED) {
        owner = space_set_first(entry->seats);
        is_ours = false;
    } else if (!is_remembered(step)) {
        owner = owner_of(step);
        owned = (struct space_epoch){.term = step->home->before, .count = entry->count};
        is_ours = true;
    }
    forget(step, SPACE_HOME_BARE);
    work->owner = owner;
    work->owned = owned;
    work->is_ours = is_ours;
}

enum space_result home_rebuild(struct home_step *step)
{
    forget(step, SPACE_HOME_REBUILDING);
    return SPACE_DONE;
}

enum space_result home_rebuild_bare(struct home_step *step)
{
    if (step->home->remembers) {
        remember(step);
    } else {
        forget(step, SPACE_HOME_BARE);
    }
    return SPACE_DONE;
}

enum space_result home_rebuild_sharing(struct home_step *step)
{
    bool has_bytes = (step->work->waits & ~space_bit(step->work->asker)) == 0;

    return has_bytes ? home_rebuild(step) : home_rebuild_bare(step);
}

/* Nobody has it. Its epochs are of the new term, too. */
enum space_result home_rebuild_gone(struct home_step *step)
{
    step->entry->count = 0;
    return SPACE_DONE;
}

/* It was released, and did not hear so. */
enum space_result home_claimed_gone(struct home_step *step)
{
    home_say(step, SPACE_CACHE_RELEASE, step->event->seat);
    return SPACE_DONE;
}

/* What is claimed is of a right that an earlier term gave. */
static bool is_earlier(const struct home_step *step)
{
    return step->event->epoch.term < step->home->term;
}

enum space_result home_claimed_shared(struct home_step *step)
{
    struct space_entry *entry = step->entry;
    uint64_t known = entry->seats | step->work->left;

    if (!is_earlier(step) || space_set_has(known, step->event->seat) ||
        entry->holds == SPACE_HELD_ALONE) {
        return SPACE_REFUSED;
    }
    entry->seats |= space_bit(step->event->seat);
    return SPACE_DONE;
}

enum space_result home_claimed_dirty(struct home_step *step)
{
    if (!is_earlier(step) || step->entry->seats != 0 ||
        space_set_has(step->work->left, step->event->seat)) {
        return SPACE_REFUSED;
    }
    step->entry->seats = space_bit(step->event->seat);
    step->work->owned = step->event->epoch;
    home_become(step, SPACE_HOME_CLAIMED);
    return SPACE_DONE;
}

/* It was given to the home, or to another node that caches. */
static bool is_given_to_another(const struct home_step *step)
{
    uint8_t whom = step->event->whom;

    return whom == SPACE_NOBODY ||
           (whom < SPACE_SEATS && whom != step->home->self && whom != step->event->seat);
}

enum space_result home_claimed_left(struct home_step *step)
{
    struct space_work *work = step->work;

    if (!is_earlier(step) || !is_given_to_another(step) ||
        space_set_has(step->entry->seats | work->left, step->event->seat)) {
        return SPACE_REFUSED;
    }
    work->left |= space_bit(step->event->seat);
    if (work->leaver == SPACE_NOBODY || space_epoch_is_before(work->left_by, step->event->epoch)) {
        work->leaver = step->event->seat;
        work->left_by = step->event->epoch;
        work->left_to = step->event->whom;
    }
    return SPACE_DONE;
}

/* ---- all have said -------------------------------------------------------- */

enum space_result home_rebuilt(struct home_step *step)
{
    home_say_all(step, SPACE_CACHE_RELEASE, step->work->left);
    home_end(step, step->entry->seats != 0 ? SPACE_HOME_SHARED : SPACE_HOME_UNSHARED);
    return SPACE_DONE;
}

enum space_result home_rebuilt_owned(struct home_step *step)
{
    home_say_all(step, SPACE_CACHE_RELEASE, step->work->left);
    home_end(step, SPACE_HOME_DIRTY);
    return SPACE_DONE;
}

/*
 * Those who read it go on; one of them tells the home the bytes. Until they are here nobody writes,
 * others who have them keep them, and it is remembered who had it last: these bytes are as that one
 * left them. So whatever becomes of the one that was asked, the next term finds what this one did.
 */
static void fetch(struct home_step *step, uint8_t event, uint8_t from)
{
    struct space_work *work = step->work;

    home_say(step, event, from);
    work->leaving = work->left & ~space_bit(from);
    work->left = 0;
    work->leaver = work->left_to = 0;
    work->left_by = (struct space_epoch){0};
    if (work->owner == SPACE_NOBODY) {
        work->owner = from;
        work->owned = (struct space_epoch){.term = step->home->term};
    }
    work->waits = space_bit(from);
    work->asker = SPACE_NOBODY;
    home_become(step, SPACE_HOME_DEMOTING);
}

/* What this one says it has is all that it has, as far as it was given in that term, or later. */
static bool is_known(const struct home_step *step, uint8_t seat, uint32_t term)
{
    const struct space_home *home = step->home;

    return space_set_has(home->members & ~home->anew, seat) &&
           (home->since == NULL || home->since[seat] <= term);
}

/* Nobody says that it has it. Of those that gave it up the one that had it by the latest right has
 * the last bytes that are known of, unless that right is earlier than what the home remembers. */
static bool has_leaver(const struct space_work *work)
{
    return work->owner != SPACE_NOBODY && work->leaver != SPACE_NOBODY &&
           !space_epoch_is_before(work->left_by, work->owned);
}

/*
 * And it is the last that had it, if it gave it to the home, which did not take it, or to a node
 * that is known not to have taken it: else that one would have said so. Of one that is gone nobody
 * knows whether it took and wrote it.
 */
static bool may_restore(const struct home_step *step)
{
    const struct space_work *work = step->work;

    return has_leaver(work) &&
           (work->left_to == SPACE_NOBODY || is_known(step, work->left_to, work->left_by.term));
}

/* Who had it last is known to have nothing: what it was given, of the bytes here, it never took, or
 * never wrote. */
static bool never_took(const struct home_step *step)
{
    const struct space_work *work = step->work;

    return work->is_ours && !has_leaver(work) && is_known(step, work->owner, work->owned.term);
}

/* Who may have the last bytes is gone, and may come back. */
static bool is_away(const struct home_step *step)
{
    const struct space_work *work = step->work;
    uint8_t last = has_leaver(work) ? work->left_to : work->owner;

    return step->home->is_durable && last != SPACE_NOBODY &&
           !space_set_has(step->home->members, last);
}

/* To read alone: it may write once the home has the bytes, as until then others' are as good, and
 * may be all that there are. */
static void restore(struct home_step *step)
{
    uint8_t leaver = step->work->leaver;

    step->entry->seats = space_bit(leaver);
    fetch(step, SPACE_CACHE_RESTORE, leaver);
}

/* Who has the bytes that are the last, if the one that is gone does not, keeps them. */
static void leave_away(struct home_step *step)
{
    struct space_work *work = step->work;
    uint64_t keeps = has_leaver(work) ? space_bit(work->leaver) : 0;

    home_say_all(step, SPACE_CACHE_RELEASE, work->left & ~keeps);
    if (keeps != 0) {
        home_say(step, SPACE_CACHE_REFUSE, work->leaver);
        step->out->sends[step->out->count - 1].why = SPACE_HOME_AWAY;
    } else {
        work->leaver = SPACE_NOBODY;
    }
    work->left = 0;
    home_become(step, SPACE_HOME_AWAY);
}

enum space_result home_rebuilt_bare(struct home_step *step)
{
    if (step->entry->seats != 0) {
        fetch(step, SPACE_CACHE_FETCH_SHARED, space_set_first(step->entry->seats));
    } else if (may_restore(step)) {
        restore(step);
    } else if (!never_took(step) && is_away(step)) {
        leave_away(step);
    } else {
        uint8_t state = never_took(step) ? SPACE_HOME_UNSHARED : SPACE_HOME_LOST;

        home_say_all(step, SPACE_CACHE_RELEASE, step->work->left);
        home_end(step, state);
    }
    return SPACE_DONE;
}
