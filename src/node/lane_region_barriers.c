/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers of regions, as sessions wait at them (docs/locks.md): each handle is a party, and has
 * one operation that waits, at most. A session that ends breaks the barriers that its handles take
 * part in; a handle that is closed only leaves.
 */
#include "node/lane_regions.h"

static void finish(struct lane_regions *at, struct region_use *use, nigh_status status)
{
    struct region_io *io = use->arriving;

    use->arriving = NULL;
    lane_region_io_say(at, io, status, 0);
    lane_region_io_finish(at, io, true);
}

void lane_region_arrive(struct lane_regions *at, struct region_io *io)
{
    struct region_use *use = io->use;

    if (use->arriving != NULL) {
        lane_region_io_say(at, io, NIGH_BUSY, 0);
        lane_region_io_finish(at, io, true);
        return;
    }
    use->arriving = io;
    list_push_back(&at->arriving, &use->arrival);
}

bool lane_region_withdraw(struct lane_regions *at, struct region_io *io)
{
    struct region_use *use = io->use;

    if (use->arriving != io)
        return false;
    if (list_is_linked(&use->arrival))
        list_remove(&use->arrival);
    regions_withdraw(&use->party);
    use->arriving = NULL;
    lane_region_io_finish(at, io, true);
    return true;
}

void lane_region_leave(struct region_use *use)
{
    regions_leave(&use->party, use->is_abandoned);
}

void lane_region_passed(void *context, struct regions_party *party, nigh_status status)
{
    struct lane_regions *at = context;
    struct region_use *use = container_of(party, struct region_use, party);

    use->arrived = status;
    if (use->arriving != NULL && !list_is_linked(&use->arrival))
        list_push_back(&at->passed, &use->arrival);
}

/* Of the region that the handle was opened of. */
static nigh_status arrive(struct lane_regions *at, struct region_use *use)
{
    const struct region_io *io = use->arriving;
    struct region_handles *handles = lane_region_handles(at, io->slot);
    const struct region_handle *handle =
        handles == NULL ? NULL : region_handles_find(handles, io->number);

    return handle == NULL ? NIGH_CANCELED
                          : regions_arrive(use->region, &handle->birth, io->operand,
                                           (uint32_t)io->compare, &use->party);
}

void lane_region_barriers_tell(struct lane_regions *at)
{
    struct list_node *node;

    while ((node = list_pop_front(&at->arriving)) != NULL) {
        struct region_use *use = container_of(node, struct region_use, arrival);
        nigh_status status = arrive(at, use);

        if (status != NIGH_OK)
            finish(at, use, status);
    }
    while ((node = list_pop_front(&at->passed)) != NULL) {
        struct region_use *use = container_of(node, struct region_use, arrival);

        finish(at, use, use->arrived);
    }
}
