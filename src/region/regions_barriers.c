/* SPDX-License-Identifier: Apache-2.0 */
/* See regions.h. Barriers of a region, and where this node is in their tree. */
#include <stdlib.h>

#include "region/regions_internal.h"

static struct regions_party *party_of(struct region_party *party)
{
    return container_of(party, struct regions_party, party);
}

static void passed(void *context, struct region_party *party, nigh_status status)
{
    const struct region *region = context;

    regions_shell_of(region)->passed(regions_shell_of(region)->context, party_of(party), status);
}

static bool is_alive(void *context, uint32_t rank)
{
    const struct region *region = context;

    return regions_is_alive(region->regions, rank);
}

/* How many members have a rank below this. */
static uint32_t place_in(const struct region_set *members, uint32_t rank)
{
    uint32_t place = 0;

    REGION_SET_FOREACH(member, members)
    {
        place += member < rank ? 1 : 0;
    }
    return place;
}

static uint32_t member_at(const struct region_set *members, uint32_t place)
{
    REGION_SET_FOREACH(member, members)
    {
        if (place-- == 0) {
            return member;
        }
    }
    return REGION_NOBODY;
}

/* The members by their ranks, from the home on, as a tree. REGION_NOBODY: this node is the home, or
 * in no view. */
static uint32_t parent_of(const struct region *region)
{
    const struct regions *regions = region->regions;
    const struct region_set *members = &regions->members;
    uint32_t home = regions_home_of(region), self = regions->config.self;
    uint32_t count = place_in(members, LIMIT_NODES), root, place;

    if (home == self || !region_set_has(members, self) || !region_set_has(members, home)) {
        return REGION_NOBODY;
    }
    root = place_in(members, home);
    place = (place_in(members, self) + count - root) % count;
    return member_at(members, ((place - 1) / LIMIT_REGION_FAN + root) % count);
}

static bool is_root(const struct region *region)
{
    return regions_home_of(region) == region->regions->config.self;
}

/* REGION_NOBODY: in no view that this node is in. */
static uint32_t home_of(const struct region *region)
{
    const struct region_set *members = &region->regions->members;
    uint32_t home = regions_home_of(region);

    return region_set_has(members, region->regions->config.self) && region_set_has(members, home)
               ? home
               : REGION_NOBODY;
}

void regions_place_barriers(struct region *region)
{
    if (region->barriers != NULL) {
        region_barriers_place(region->barriers, parent_of(region), home_of(region),
                              is_root(region));
    }
}

/* What has become of the home. */
static void follow_home(struct region *region)
{
    struct region_barriers *barriers = region->barriers;
    const struct region_home *home = region->home;

    if (home->state == REGION_HOME_EMPTY) {
        region_barriers_end(barriers, NIGH_NOT_FOUND);
        return;
    }
    if (home->state == REGION_HOME_OPEN) {
        region_barriers_know(barriers);
    }
    if (home->state == REGION_HOME_OPEN && home->config.has_lease) {
        region_barriers_open(barriers, &home->config.now->birth);
    } else {
        region_barriers_shut(barriers);
    }
}

nigh_status regions_need_barriers(struct region *region)
{
    struct region_barrier_shell shell = {.context = region,
                                         .asks = &region->regions->asks,
                                         .rounds = &region->rounds,
                                         .send = regions_send,
                                         .passed = passed,
                                         .is_alive = is_alive};
    nigh_status status = is_root(region) ? regions_need_home(region, 0) : NIGH_OK;

    if (status != NIGH_OK || region->barriers != NULL) {
        return status;
    }
    region->barriers = malloc(sizeof(*region->barriers));
    if (region->barriers == NULL) {
        return NIGH_NO_RESOURCES;
    }
    region_barriers_init(region->barriers, &shell);
    regions_place_barriers(region);
    if (is_root(region)) {
        follow_home(region); /* before the first is there: it is new, or it is not */
    }
    return NIGH_OK;
}

void regions_free_barriers(struct region *region)
{
    if (region->barriers != NULL) {
        region_barriers_end(region->barriers, NIGH_CANCELED);
        free(region->barriers);
        region->barriers = NULL;
    }
}

void regions_tidy_barriers(struct region *region)
{
    struct region_barriers *barriers = region->barriers;

    if (barriers == NULL) {
        return;
    }
    /* Without memory for one it is tried again with the next that is said of the name. */
    if (barriers->is_root && (region->home != NULL || regions_need_home(region, 0) == NIGH_OK)) {
        follow_home(region);
    }
    if (region_barriers_are_idle(barriers)) {
        regions_free_barriers(region);
    }
}

nigh_status regions_arrive(struct region *region, const struct region_version *birth,
                           uint64_t number, uint32_t parties, struct regions_party *party)
{
    nigh_status status = regions_need_barriers(region);

    party->region = region;
    if (status == NIGH_OK) {
        status = region_barrier_arrive(region->barriers, birth, number, parties, &party->party);
    }
    regions_tidy(region);
    return status;
}

void regions_withdraw(struct regions_party *party)
{
    if (party->party.waits) {
        region_barrier_withdraw(party->region->barriers, &party->party);
    }
}

void regions_leave(struct regions_party *party, bool is_dead)
{
    if (party->party.barrier != NULL) {
        region_barrier_leave(party->region->barriers, &party->party, is_dead);
        regions_tidy(party->region);
    }
}
