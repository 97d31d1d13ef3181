/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of regions: each that is held is a handle of its own, under which the node presents it. And
 * barriers. */
#include <stdlib.h>

#include "client/error.h"
#include "client/region.h"

_Static_assert((uint32_t)NIGH_REGION_SHARED == SESSION_REGION_SHARED &&
                   (uint32_t)NIGH_REGION_EXCLUSIVE == SESSION_REGION_EXCLUSIVE,
               "the modes are public");

nigh_status nigh_region_lock(nigh_region *region, uint64_t number, nigh_region_mode mode,
                             uint64_t term_us, uint64_t timeout_us, nigh_region **held)
{
    struct session_region_lock said = {
        .number = number, .term_us = term_us, .mode = (uint32_t)mode};
    nigh_status status = region_check(region, "nigh_region_lock");
    struct client_op op;
    nigh_region *made;

    if (status != NIGH_OK) {
        return status;
    }
    if (held == NULL || (mode != NIGH_REGION_SHARED && mode != NIGH_REGION_EXCLUSIVE)) {
        return error_set(region->client, NIGH_INVALID,
                         "nigh_region_lock: there is no such mode, or no place for the handle");
    }
    made = region_make(region->client);
    if (made == NULL) {
        return error_note(region->client, NIGH_NO_RESOURCES);
    }
    region_init(&op, region->client, region, SESSION_REGION_LOCK, timeout_us);
    op.u.place.bytes = &said;
    op.u.place.count = sizeof(said);
    op.u.region.opened = made;
    status = region_run(&op);
    if (status != NIGH_OK) {
        free(made);
        return status;
    }
    region_keep(made);
    *held = made;
    return NIGH_OK;
}

nigh_status nigh_region_unlock(nigh_region *held)
{
    nigh_client *client = held == NULL ? NULL : held->client;
    nigh_status status = held == NULL ? NIGH_INVALID : region_put(held);

    return status == NIGH_OK || client == NULL ? status : error_note(client, status);
}

nigh_status nigh_region_barrier(nigh_region *region, uint64_t number, uint32_t parties,
                                uint64_t timeout_us)
{
    nigh_status status = region_check(region, "nigh_region_barrier");
    struct client_op op;

    if (status != NIGH_OK) {
        return status;
    }
    if (parties == 0) {
        return error_set(region->client, NIGH_INVALID, "nigh_region_barrier: of no parties");
    }
    region_init(&op, region->client, region, SESSION_REGION_BARRIER, timeout_us);
    op.u.region.at = number;
    op.u.region.ref = parties;
    return region_run(&op);
}
