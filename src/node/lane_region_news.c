/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a region is told to the sessions that have it open, and asked for that
 * (NIGH_SUBSCRIBE_REGIONS), as events: each handle's, of what it was told last. When the home tells
 * of a region all of its handles are looked at, some in a turn, round and round: a change that
 * comes meanwhile begins another round, and what was not told yet is told with it. A ring of events
 * that is full loses them and says so, as it does with all others (lane_ring.c).
 */
#include <string.h>

#include "base/blake.h"
#include "node/lane_regions.h"
#include "object/store.h"

void lane_region_hear(struct region_use *use, const struct region_descriptor *descriptor,
                      uint64_t number, uint32_t rights)
{
    struct region_hearers *hearers = region_hearers(use->region);

    use->number = number;
    use->said_rights = rights;
    use->said_bytes = descriptor->geometry.size_bytes;
    list_push_back(&hearers->all, &use->hears);
    hearers->count++;
}

void lane_region_hear_no_more(struct region_use *use)
{
    struct region_hearers *hearers = region_hearers(use->region);

    if (!list_is_linked(&use->hears))
        return;
    list_remove(&use->hears);
    hearers->count--;
    hearers->left = min_u32(hearers->left, hearers->count);
    if (hearers->left == 0 && list_is_linked(&hearers->due))
        list_remove(&hearers->due);
}

void lane_region_told(void *context, struct region *region)
{
    struct lane_regions *at = context;
    struct region_hearers *hearers = region_hearers(region);

    hearers->left = hearers->count;
    if (hearers->count > 0 && !list_is_linked(&hearers->due))
        list_push_back(&at->news, &hearers->due);
}

static void say(struct lane_regions *at, const struct region_use *use, nigh_event_kind kind,
                uint32_t more)
{
    struct session_event event = {.kind_meta = (uint32_t)kind | more << 8,
                                  .data_size = use->number};
    uint32_t name_bytes;
    const char *name = region_name(use->region, &name_bytes);

    blake_id20(name, name_bytes, event.id);
    at->has_said = true;
    lane_on_event(at->lane, use->slot, &event);
}

static void tell(struct lane_regions *at, struct region_use *use)
{
    const struct region_descriptor *known = region_known(use->region);
    struct region_handles *handles = lane_region_handles(at, use->slot);
    struct region_handle *handle =
        handles == NULL || use->is_closed ? NULL : region_handles_find(handles, use->number);

    if (handle == NULL || use->is_said_freed || !store_hears_regions(at->lane->store, use->slot))
        return;
    if (region_descriptor_is_none(known) && !region_is_freed(use->region))
        return; /* it is asked for anew */
    if (region_is_freed(use->region) ||
        region_handles_judge(handles, handle, known, 0) == NIGH_NOT_FOUND) {
        use->is_said_freed = true;
        say(at, use, NIGH_EVENT_REGION_FREED, 0);
        return;
    }
    if ((use->said_rights & ~handle->rights) != 0)
        say(at, use, NIGH_EVENT_REGION_REVOKED, handle->rights);
    if (use->said_bytes != known->geometry.size_bytes)
        say(at, use, NIGH_EVENT_REGION_RESIZED, 0);
    use->said_rights = handle->rights;
    use->said_bytes = known->geometry.size_bytes;
}

bool lane_region_news_turn(struct lane_regions *at)
{
    bool any = !list_empty(&at->news);

    for (uint32_t n = 0; n < LIMIT_REGION_NEWS && !list_empty(&at->news); n++) {
        struct region_hearers *hearers =
            container_of(list_first(&at->news), struct region_hearers, due);
        struct list_node *node = list_pop_front(&hearers->all);

        list_push_back(&hearers->all, node);
        if (--hearers->left == 0)
            list_remove(&hearers->due);
        tell(at, container_of(node, struct region_use, hears));
    }
    return any;
}
