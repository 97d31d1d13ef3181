/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks of regions, as sessions have them (docs/locks.md): who waits for one has an operation under
 * way, and who holds one a handle of its own, under which alone the lock is presented. When it is
 * to be let go, or is lost, nothing more begins under that handle, and the lock goes on to others
 * when nothing is under way of it.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "node/lane_regions.h"

/* ---- made, freed ---------------------------------------------------------- */

static struct region_use *make_use(struct lane_regions *at, struct region_use *of,
                                   nigh_status *status)
{
    struct region_use *use = calloc(1, sizeof(*use));
    struct region_guard *guard = calloc(1, sizeof(*guard));
    uint32_t name_bytes;
    const char *name = region_name(of->region, &name_bytes);

    *status = use == NULL || guard == NULL
                  ? NIGH_NO_RESOURCES
                  : regions_open(at->regions, name, name_bytes, &use->region);
    if (*status != NIGH_OK) {
        free(guard);
        free(use);
        return NULL;
    }
    use->guard = guard;
    guard->use = use;
    guard->at = at;
    guard->term.kind = REGION_WAIT_TERM;
    return use;
}

struct region_use *lane_region_guard_create(struct lane_regions *at, uint32_t slot,
                                            const struct region_handle *handle,
                                            const struct session_region_lock *said,
                                            nigh_status *status)
{
    struct session_place counts = {.is_taken = false};
    struct region_use *use;

    if ((said->mode != SESSION_REGION_SHARED && said->mode != SESSION_REGION_EXCLUSIVE) ||
        said->zero != 0) {
        *status = NIGH_INVALID;
        return NULL;
    }
    if (!lane_region_share(at, REGION_TABLE_HOLDS, slot, &counts)) {
        *status = NIGH_OVERLOADED;
        return NULL;
    }
    use = make_use(at, handle->region, status);
    if (use == NULL) {
        session_shares_give(&at->shares, REGION_TABLE_HOLDS, &counts);
        return NULL;
    }
    use->slot = slot;
    use->guard->counts = counts;
    use->is_low = ((const struct region_use *)handle->region)->is_low;
    use->guard->birth = handle->birth;
    use->guard->number = said->number;
    use->guard->term_us = said->term_us;
    use->guard->mode = (enum region_lock_mode)said->mode;
    use->guard->rights =
        handle->asked &
        (said->mode == SESSION_REGION_SHARED ? REGION_READ : REGION_READ | REGION_WRITE);
    return use;
}

void lane_region_guard_free(struct lane_regions *at, struct region_guard *guard)
{
    session_shares_give(&at->shares, REGION_TABLE_HOLDS, &guard->counts);
    free(guard);
}

/* ---- waited for ----------------------------------------------------------- */

void lane_region_guard_begin(struct lane_regions *at, struct region_io *io)
{
    struct region_guard *guard = io->use->guard;

    guard->io = io;
    list_push_back(&at->locking, &guard->link);
}

bool lane_region_guard_end(struct lane_regions *at, struct region_io *io)
{
    struct region_guard *guard = io->use->guard;

    if (guard == NULL || guard->io != io)
        return false;
    if (list_is_linked(&guard->link))
        list_remove(&guard->link);
    guard->io = NULL;
    lane_region_io_finish(at, io, false);
    return true;
}

/* A handle that is good under the lock. */
static nigh_status open_handle(struct lane_regions *at, const struct region_guard *guard)
{
    struct region_io *io = guard->io;
    struct region_handles *handles = lane_region_handles(at, io->slot);
    const struct region_descriptor *known = region_known(guard->use->region);
    uint32_t rights;
    nigh_status status;

    if (handles == NULL || region_descriptor_is_none(known) || region_descriptor_is_freed(known) ||
        !region_version_equal(&known->birth, &guard->birth))
        return NIGH_NOT_FOUND;
    rights = guard->rights & region_descriptor_rights(known, handles->uid, handles->gid);
    if ((rights & io->rights) != io->rights)
        return NIGH_DENIED;
    status = region_handles_open(handles, guard->use, known, rights, &io->number);
    if (status == NIGH_OK)
        lane_region_hear(guard->use, known, io->number, rights);
    return status;
}

/* Others wait for what is held. */
static void begin_term(struct lane_regions *at, struct region_guard *guard)
{
    if (guard->term_us != 0)
        NIGH_ASSERT(timers_add(&at->timers, &guard->term.timer,
                               clock_deadline_us(at->lane->now_us, guard->term_us)) == NIGH_OK);
}

static void tell_waiting(struct lane_regions *at, struct region_guard *guard, nigh_status status)
{
    struct region_io *io = guard->io;

    if (status == NIGH_OK)
        status = open_handle(at, guard);
    guard->io = NULL;
    if (status == NIGH_OK && guard->hold.hold.is_wanted)
        begin_term(at, guard); /* not before who has it is told */
    lane_region_io_say(at, io, status, 0);
    lane_region_io_finish(at, io, status == NIGH_OK);
}

/* ---- without a lease ------------------------------------------------------ */

/* Whether nobody can have been told that this node is dead, whose locks others may have then. It
 * may have stood still since this turn began. */
static bool has_lease(const struct lane_regions *at)
{
    return at->lane->config.views == NULL || clock_now_us(&clock_monotonic) < at->lane->lease_us;
}

bool lane_region_guard_leave(struct lane_regions *at, struct region_guard *guard, uint32_t cookie)
{
    if (!guard->is_asked || guard->is_lost || list_is_linked(&guard->link) || has_lease(at))
        return false;
    guard->cookie = cookie;
    guard->begun = at->lane->sessions[guard->use->slot].begun;
    guard->is_leaving = true;
    timers_cancel(&at->timers, &guard->term.timer); /* of what is let go there is none */
    /* From now on, not from when this turn began: it may be over since, and no lease looked for. */
    NIGH_ASSERT(timers_add(&at->timers, &guard->term.timer,
                           clock_deadline_us(clock_now_us(&clock_monotonic),
                                             LIMIT_NODE_GRACE_US)) == NIGH_OK);
    list_push_back(&at->unsure, &guard->link);
    return true;
}

/* It goes on to others. */
static void leave(struct lane_regions *at, struct region_guard *guard)
{
    list_remove(&guard->link);
    timers_cancel(&at->timers, &guard->term.timer);
    guard->is_leaving = false;
    lane_region_use_put(at, guard->use);
}

static void tell_left(struct lane_regions *at, struct region_guard *guard, nigh_status status)
{
    if (lane_is_session(at->lane, guard->use->slot, guard->begun))
        lane_complete(at->lane, guard->use->slot, guard->cookie, status);
    leave(at, guard);
}

static void tell_unsure(struct lane_regions *at)
{
    LIST_FOREACH_SAFE(node, &at->unsure)
    {
        struct region_guard *guard = container_of(node, struct region_guard, link);

        if (guard->status == NIGH_OK && !has_lease(at))
            continue;
        if (guard->is_leaving) {
            tell_left(at, guard, guard->status == NIGH_OK ? NIGH_OK : NIGH_LOCK_LOST);
        } else {
            list_remove(&guard->link);
            tell_waiting(at, guard, guard->status);
        }
    }
    if (!list_empty(&at->unsure))
        lane_regions_again(at); /* a lease may come in any turn */
}

void lane_region_guards_forget(struct lane_regions *at, uint32_t slot)
{
    LIST_FOREACH_SAFE(node, &at->unsure)
    {
        struct region_guard *guard = container_of(node, struct region_guard, link);

        if (guard->use->slot == slot && guard->is_leaving)
            leave(at, guard);
    }
}

/* ---- held ----------------------------------------------------------------- */

/* What is under way goes on, and the lock with it. */
static void lose(struct lane_regions *at, struct region_guard *guard)
{
    guard->is_lost = true;
    lane_region_use_end(at, guard->use, NIGH_LOCK_LOST);
    lane_region_use_put(at, guard->use);
}

void lane_region_guard_expire(struct lane_regions *at, struct region_guard *guard)
{
    if (guard->is_leaving)
        tell_left(at, guard, NIGH_TIMEOUT);
    else
        lose(at, guard);
    lane_regions_tell(at);
}

void lane_region_guard_let_go(struct lane_regions *at, struct region_guard *guard)
{
    timers_cancel(&at->timers, &guard->term.timer);
    if (list_is_linked(&guard->link))
        list_remove(&guard->link);
    if (guard->is_asked) {
        guard->is_asked = false;
        regions_unlock(&guard->hold, guard->is_dirty);
    }
}

/* ---- what the machines say ------------------------------------------------ */

void lane_region_locked(void *context, struct regions_hold *hold, nigh_status status)
{
    struct lane_regions *at = context;
    struct region_guard *guard = container_of(hold, struct region_guard, hold);

    guard->status = status;
    if (status != NIGH_OK)
        guard->is_asked = false;
    if (!list_is_linked(&guard->link))
        list_push_back(&at->locked, &guard->link);
}

void lane_region_wanted(void *context, struct regions_hold *hold)
{
    struct lane_regions *at = context;
    struct region_guard *guard = container_of(hold, struct region_guard, hold);

    if (guard->io == NULL && !guard->is_leaving)
        begin_term(at, guard);
}

static void ask(struct lane_regions *at, struct region_guard *guard)
{
    nigh_status status;

    guard->is_asked = true; /* it may be held at the return */
    status =
        regions_lock(guard->use->region, &guard->birth, guard->number, guard->mode, &guard->hold);
    if (status == NIGH_OK)
        return;
    guard->is_asked = false;
    tell_waiting(at, guard, status);
}

void lane_region_locks_tell(struct lane_regions *at)
{
    struct list_node *node;

    while ((node = list_pop_front(&at->locking)) != NULL)
        ask(at, container_of(node, struct region_guard, link));
    while ((node = list_pop_front(&at->locked)) != NULL) {
        struct region_guard *guard = container_of(node, struct region_guard, link);

        if (guard->io != NULL && guard->status == NIGH_OK && !has_lease(at))
            list_push_back(&at->unsure, &guard->link);
        else if (guard->io != NULL)
            tell_waiting(at, guard, guard->status);
        else if (guard->status != NIGH_OK && !guard->is_lost)
            lose(at, guard);
    }
    tell_unsure(at);
}
