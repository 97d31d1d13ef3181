/* SPDX-License-Identifier: Apache-2.0 */
/* See regions.h. What is here of a name's chunks, from the first letter of its home until all is
 * gone. */
#include <stdlib.h>

#include "region/regions_internal.h"

static void act(void *context, const struct region_holder_act *todo)
{
    struct region *region = context;

    regions_shell_of(region)->act(regions_shell_of(region)->context, region, todo);
}

static bool grow_slots(struct region_holder_config *config, uint32_t room)
{
    void *slots = config->slots;

    if (!regions_grow(&slots, config->room * sizeof(*config->slots),
                      room * sizeof(*config->slots))) {
        return false;
    }
    config->slots = slots;
    return regions_grow_descriptor(&config->kept, config->room, room);
}

nigh_status regions_need_holder(struct region *region, uint32_t room, uint32_t home)
{
    struct regions *regions = region->regions;
    struct region_holder_config config = {
        .self = regions->config.self,
        .home = {.epoch = regions->epoch, .incarnation = regions->peers[home].incarnation},
        .has_lease = regions->has_lease,
        .shell = {.context = region, .act = act, .send = regions_send},
    };
    struct region_holder *holder = region->holder;

    if (holder != NULL) {
        if (room <= holder->config.room) {
            return NIGH_OK;
        }
        if (!grow_slots(&holder->config, room)) {
            return NIGH_NO_RESOURCES;
        }
        holder->config.room = room;
        return NIGH_OK;
    }
    holder = calloc(1, sizeof(*holder));
    if (holder == NULL || !grow_slots(&config, room)) {
        free(config.slots);
        free(holder);
        return NIGH_NO_RESOURCES;
    }
    config.room = room;
    region->holder = holder;
    regions->counts.holders++;
    region_holder_init(holder, &config);
    return NIGH_OK;
}

void regions_free_holder(struct region *region)
{
    free(region->holder->config.slots);
    free(region->holder->config.kept);
    free(region->holder);
    region->holder = NULL;
    region->regions->counts.holders--;
}

void regions_did(struct region *region, uint32_t chunk, nigh_status status,
                 struct region_window handle)
{
    NIGH_ASSERT(region->holder != NULL);
    region_holder_did(region->holder, chunk, status, handle);
    regions_tidy(region);
}
