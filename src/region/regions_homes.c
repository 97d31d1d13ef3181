/* SPDX-License-Identifier: Apache-2.0 */
/* See regions.h. The home of a name, as long as it has anything to do. */
#include <stdlib.h>

#include "region/regions_internal.h"

static void answered(void *context, struct region_ask *ask, nigh_status status)
{
    const struct region *region = context;

    regions_shell_of(region)->answered(regions_shell_of(region)->context, ask, status);
}

static uint32_t incarnation(void *context, uint32_t rank)
{
    const struct region *region = context;

    return region->regions->peers[rank].incarnation;
}

static bool make_room(void *context, uint32_t chunks)
{
    return regions_need_home(context, chunks) == NIGH_OK;
}

/* Who has yet to tell, of the members that live. */
static struct region_set untold_of(const struct regions *regions, struct region_set *alive)
{
    struct region_set untold = {{0}};

    for (uint32_t rank = 0; rank < regions->config.nodes; rank++) {
        if (regions_is_alive(regions, rank)) {
            region_set_add(alive, rank);
            if (!regions->peers[rank].has_told) {
                region_set_add(&untold, rank);
            }
        }
    }
    return untold;
}

static void begin_home(struct region *region, struct region_descriptor *now,
                       struct region_descriptor *next, uint32_t room)
{
    struct regions *regions = region->regions;
    struct region_home_config config = {
        .self = regions->config.self,
        .version = {.epoch = regions->epoch,
                    .incarnation = regions->config.incarnation,
                    .counter = regions->counter},
        .room = room,
        .has_lease = regions->has_lease,
        .now = now,
        .next = next,
        .shell = {.context = region,
                  .send = regions_send,
                  .answered = answered,
                  .incarnation = incarnation,
                  .make_room = make_room},
    };

    config.untold = untold_of(regions, &config.alive);
    region_home_init(region->home, &config);
}

nigh_status regions_need_home(struct region *region, uint32_t room)
{
    struct region_home *home = region->home;
    struct region_descriptor *now = NULL, *next = NULL;

    if (home != NULL) {
        if (room <= home->config.room) {
            return NIGH_OK;
        }
        if (!regions_grow_descriptor(&home->config.now, home->config.room, room) ||
            !regions_grow_descriptor(&home->config.next, home->config.room, room)) {
            return NIGH_NO_RESOURCES;
        }
        home->config.room = room;
        return NIGH_OK;
    }
    home = calloc(1, sizeof(*home));
    if (home == NULL || !regions_grow_descriptor(&now, 0, room) ||
        !regions_grow_descriptor(&next, 0, room)) {
        free(now);
        free(home);
        return NIGH_NO_RESOURCES;
    }
    region->home = home;
    regions_order_add(region);
    region->regions->counts.homes++;
    begin_home(region, now, next, room);
    return NIGH_OK;
}

/* What this incarnation has used for the name is not used again. */
void regions_free_home(struct region *region)
{
    struct regions *regions = region->regions;
    struct region_home *home = region->home;

    if (list_is_linked(&region->holding)) {
        list_remove(&region->holding);
    }
    regions_free_lock_home(region);
    regions_order_remove(region);
    region->home = NULL;
    if (home->config.version.counter > regions->counter) {
        regions->counter = home->config.version.counter;
    }
    free(home->config.now);
    free(home->config.next);
    free(home);
    regions->counts.homes--;
}

void regions_end_home(struct region *region, nigh_status status)
{
    if (region->home != NULL) {
        region_home_end(region->home, status);
        regions_free_home(region);
    }
}
