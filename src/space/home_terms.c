/* SPDX-License-Identifier: Apache-2.0 */
/* See home.h: a term begins, nodes say what they have, and the directory is made of that. */
#include "space/home_internal.h"

#include <string.h>

/* What waits at the home itself waits on; nodes ask again. */
static void forget(struct home_step *step, bool is_busy, uint8_t state)
{
    struct space_work *work = step->work;
    uint8_t self = step->home->self;
    bool is_asker = is_busy && work->asker == self, is_queued = home_is_queued(work, self);
    bool is_write = (is_asker && work->ask == SPACE_HOME_WRITE) ||
                    (is_queued && work->asks[self] == SPACE_HOME_WRITE);

    memset(work, 0, sizeof(*work));
    work->asker = SPACE_NOBODY;
    if (is_asker || is_queued) {
        work->queue[work->queued++] = self;
        work->asks[self] = is_write ? SPACE_HOME_WRITE : SPACE_HOME_READ;
    }
    step->entry->seats = 0;
    step->entry->count = 0;
    home_become(step, state);
}

static bool has_asker(const struct home_step *step)
{
    return step->entry->state > SPACE_HOME_FREED;
}

enum space_result home_rebuild(struct home_step *step)
{
    forget(step, has_asker(step), SPACE_HOME_REBUILDING);
    return SPACE_DONE;
}

enum space_result home_rebuild_bare(struct home_step *step)
{
    forget(step, has_asker(step), SPACE_HOME_BARE);
    return SPACE_DONE;
}

enum space_result home_rebuild_sharing(struct home_step *step)
{
    bool has_bytes = (step->work->waits & ~space_bit(step->work->asker)) == 0;

    forget(step, true, has_bytes ? SPACE_HOME_REBUILDING : SPACE_HOME_BARE);
    return SPACE_DONE;
}

enum space_result home_claimed_shared(struct home_step *step)
{
    struct space_entry *entry = step->entry;
    uint64_t known = entry->seats | step->work->left;

    if (space_set_has(known, step->event->seat) || entry->holds == SPACE_HELD_ALONE) {
        return SPACE_REFUSED;
    }
    entry->seats |= space_bit(step->event->seat);
    return SPACE_DONE;
}

enum space_result home_claimed_dirty(struct home_step *step)
{
    if (step->entry->seats != 0 || space_set_has(step->work->left, step->event->seat)) {
        return SPACE_REFUSED;
    }
    step->entry->seats = space_bit(step->event->seat);
    home_become(step, SPACE_HOME_CLAIMED);
    return SPACE_DONE;
}

enum space_result home_claimed_left(struct home_step *step)
{
    struct space_work *work = step->work;

    if (space_set_has(step->entry->seats | work->left, step->event->seat)) {
        return SPACE_REFUSED;
    }
    work->left |= space_bit(step->event->seat);
    work->left_to = step->event->whom;
    return SPACE_DONE;
}

/* ---- all have said -------------------------------------------------------- */

enum space_result home_rebuilt(struct home_step *step)
{
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
 * What one node gave up, and nobody else has, is the last there is of the block if it was given to
 * the home, which did not take it: that it knows, if it remembers; or to a node that lives and did
 * not take it: else that one would have claimed it. Somebody who is gone may have written it.
 */
static bool may_restore(const struct home_step *step)
{
    uint64_t left = step->work->left;

    return step->home->remembers && left != 0 && (left & (left - 1)) == 0 &&
           (step->work->left_to == SPACE_NOBODY ||
            space_set_has(step->home->members, step->work->left_to));
}

enum space_result home_rebuilt_bare(struct home_step *step)
{
    struct space_entry *entry = step->entry;
    struct space_work *work = step->work;
    uint8_t first;

    if (entry->seats == 0 && may_restore(step)) {
        entry->seats = work->left;
        home_say_all(step, SPACE_CACHE_RESTORE, work->left);
        home_end(step, SPACE_HOME_DIRTY);
        return SPACE_DONE;
    }
    home_say_all(step, SPACE_CACHE_RELEASE, work->left);
    home_end(step, SPACE_HOME_LOST);
    if (entry->seats != 0) {
        first = space_set_first(entry->seats);
        home_say(step, SPACE_CACHE_FETCH_SHARED, first);
        work->waits = space_bit(first);
        work->asker = SPACE_NOBODY;
        home_become(step, SPACE_HOME_DEMOTING);
    }
    return SPACE_DONE;
}
