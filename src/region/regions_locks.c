/* SPDX-License-Identifier: Apache-2.0 */
/* See regions.h. Locks of a region: those of this node's clients, and those that its home gives. */
#include <stdlib.h>

#include "region/regions_internal.h"

/* ---- as a node that uses the region --------------------------------------- */

static struct regions_hold *hold_of(struct region_hold *hold)
{
    return container_of(hold, struct regions_hold, hold);
}

static void locked(void *context, struct region_hold *hold, nigh_status status)
{
    const struct region *region = context;

    regions_shell_of(region)->locked(regions_shell_of(region)->context, hold_of(hold), status);
}

static void wanted(void *context, struct region_hold *hold)
{
    const struct region *region = context;

    regions_shell_of(region)->wanted(regions_shell_of(region)->context, hold_of(hold));
}

nigh_status regions_need_locks(struct region *region)
{
    struct region_lock_shell shell = {
        .context = region, .send = regions_send, .locked = locked, .wanted = wanted};
    uint32_t home = regions_home_of(region);
    struct region_lock_node *locks;
    nigh_status status;

    if (region->locks != NULL) {
        return NIGH_OK;
    }
    locks = malloc(sizeof(*locks));
    if (locks == NULL) {
        return NIGH_NO_RESOURCES;
    }
    status = region_lock_node_init(locks, region->regions->config.seed, region->regions->has_lease,
                                   &shell);
    if (status != NIGH_OK) {
        free(locks);
        return status;
    }
    region->locks = locks;
    if (regions_is_near(region->regions, home)) {
        region_lock_node_home(locks, home);
    }
    return NIGH_OK;
}

void regions_free_locks(struct region *region)
{
    if (region->locks != NULL) {
        region_lock_node_lose(region->locks, NIGH_CANCELED);
        region_lock_node_fini(region->locks);
        free(region->locks);
        region->locks = NULL;
    }
}

nigh_status regions_lock(struct region *region, const struct region_version *birth, uint64_t number,
                         enum region_lock_mode mode, struct regions_hold *hold)
{
    nigh_status status = regions_need_locks(region);

    NIGH_ASSERT(region->opens > 0);
    hold->region = region;
    return status == NIGH_OK ? region_lock_acquire(region->locks, birth, number, mode, &hold->hold)
                             : status;
}

void regions_unlock(struct regions_hold *hold, bool is_dirty)
{
    hold->hold.is_dirty = is_dirty;
    region_lock_release(hold->region->locks, &hold->hold);
}

/* ---- as the home ---------------------------------------------------------- */

nigh_status regions_need_lock_home(struct region *region)
{
    struct region_lock_home *home;
    nigh_status status;

    if (region->lock_home != NULL) {
        return NIGH_OK;
    }
    home = malloc(sizeof(*home));
    if (home == NULL) {
        return NIGH_NO_RESOURCES;
    }
    status = region_lock_home_init(home, region->regions->config.seed, region, regions_send);
    if (status != NIGH_OK) {
        free(home);
        return status;
    }
    region->lock_home = home;
    return NIGH_OK;
}

void regions_free_lock_home(struct region *region)
{
    if (region->lock_home != NULL) {
        region_lock_home_fini(region->lock_home);
        free(region->lock_home);
        region->lock_home = NULL;
    }
}

/* A home gives locks when it knows the region, has a lease, and nothing can land any more that was
 * written under a lock before: by who had it of an earlier home, is dead, or does not know. */
static void tidy_home(struct region *region)
{
    struct region_home *home = region->home;
    struct region_lock_home *locks = region->lock_home;

    if (home->state == REGION_HOME_EMPTY) {
        region_lock_home_end(locks, NIGH_NOT_FOUND);
    }
    if (locks->is_unsafe) {
        locks->is_unsafe = false;
        region_home_fence(home);
    } else if (!home->is_fenced && !home->wants_fence && !home->change.is_fence) {
        region_home_fence(home);
    }
    if (home->state == REGION_HOME_OPEN && home->is_fenced && home->config.has_lease) {
        region_lock_home_open(locks, &home->config.now->birth);
    } else {
        region_lock_home_shut(locks);
    }
}

void regions_tidy_locks(struct region *region)
{
    if (region->lock_home != NULL && region->home != NULL) {
        tidy_home(region);
    }
    if (region->locks != NULL && region->mapping->is_gone) {
        region_lock_node_lose(region->locks, NIGH_NOT_FOUND);
    }
}
