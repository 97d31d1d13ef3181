/* SPDX-License-Identifier: Apache-2.0 */
/* See handles.h. */
#include "region/handles.h"

#include <string.h>

#include "base/check.h"

void region_handles_init(struct region_handles *handles, struct region_handle *places,
                         uint32_t room, uint32_t uid, uint32_t gid)
{
    NIGH_ASSERT(room <= LIMIT_REGION_HANDLES);
    *handles = (struct region_handles){.places = places, .room = room, .uid = uid, .gid = gid};
}

/* One that is free. A place whose count is at its end stays unused, as its numbers would come
 * again. */
static struct region_handle *take_place(struct region_handles *handles)
{
    struct region_handle *place;

    if (handles->free != 0) {
        place = &handles->places[handles->free - 1];
        handles->free = place->next_free;
        return place;
    }
    if (handles->used == handles->room) {
        return NULL;
    }
    place = &handles->places[handles->used++];
    memset(place, 0, sizeof(*place));
    return place;
}

nigh_status region_handles_open(struct region_handles *handles, void *region,
                                const struct region_descriptor *descriptor, uint32_t rights,
                                uint64_t *number)
{
    struct region_handle *place;

    NIGH_ASSERT(region != NULL && !region_descriptor_is_none(descriptor));
    if (rights == 0 || (rights & ~REGION_ALL) != 0) {
        return NIGH_INVALID;
    }
    if ((region_descriptor_rights(descriptor, handles->uid, handles->gid) & rights) != rights) {
        return NIGH_DENIED;
    }
    place = take_place(handles);
    if (place == NULL) {
        return NIGH_LIMIT;
    }
    *place = (struct region_handle){.region = region,
                                    .birth = descriptor->birth,
                                    .judged = descriptor->version,
                                    .asked = rights,
                                    .rights = rights,
                                    .uses = place->uses + 1};
    *number = (uint64_t)place->uses << 32 | (uint32_t)(place - handles->places);
    return NIGH_OK;
}

struct region_handle *region_handles_find(struct region_handles *handles, uint64_t number)
{
    uint32_t at = (uint32_t)number;
    struct region_handle *place;

    if (at >= handles->used) {
        return NULL;
    }
    place = &handles->places[at];
    return place->region != NULL && place->uses == number >> 32 ? place : NULL;
}

nigh_status region_handles_close(struct region_handles *handles, uint64_t number)
{
    struct region_handle *place = region_handles_find(handles, number);

    if (place == NULL) {
        return NIGH_INVALID;
    }
    place->region = NULL;
    if (place->uses < UINT32_MAX) {
        place->next_free = handles->free;
        handles->free = (uint32_t)(place - handles->places) + 1;
    }
    return NIGH_OK;
}

nigh_status region_handles_judge(const struct region_handles *handles, struct region_handle *handle,
                                 const struct region_descriptor *descriptor, uint32_t rights)
{
    if (region_descriptor_is_none(descriptor) || region_descriptor_is_freed(descriptor) ||
        !region_version_equal(&descriptor->birth, &handle->birth)) {
        return NIGH_NOT_FOUND;
    }
    if (!region_version_equal(&descriptor->version, &handle->judged)) {
        handle->judged = descriptor->version;
        handle->rights =
            handle->asked & region_descriptor_rights(descriptor, handles->uid, handles->gid);
    }
    return (handle->rights & rights) == rights ? NIGH_OK : NIGH_DENIED;
}
