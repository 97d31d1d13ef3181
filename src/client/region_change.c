/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What masters change of a region: who may what, its size, where its chunks are, that it is. Where
 * the node refuses one with a status that may have several reasons, the region is looked at for
 * the one that it was.
 */
#include "base/clock.h"
#include "client/error.h"
#include "client/region.h"

#define NOBODY UINT32_MAX /* (uid_t)-1: no user has it */

/* One whose question is these bytes. */
static nigh_status change(nigh_region *region, const char *call, enum session_region_what what,
                          const void *bytes, uint32_t count, uint64_t timeout_us)
{
    nigh_status status = region_check(region, call);
    struct client_op op;

    if (status != NIGH_OK) {
        return status;
    }
    region_init(&op, region->client, region, what, timeout_us);
    op.u.place.bytes = bytes;
    op.u.place.count = count;
    return region_run(&op);
}

/* What is left of the time. Of an op that has ended it may be another's. */
static uint64_t left_us(uint64_t deadline_us)
{
    return clock_left_us(clock_now_us(&clock_monotonic), deadline_us);
}

/* ---- rights --------------------------------------------------------------- */

static nigh_status check_grant(nigh_region *region, nigh_region_whose whose, uint32_t user,
                               uint32_t rights)
{
    nigh_status status = region_check(region, "nigh_region_grant");

    if (status != NIGH_OK) {
        return status;
    }
    if (whose > NIGH_REGION_OTHERS) {
        return error_set(region->client, NIGH_INVALID,
                         "nigh_region_grant: no nigh_region_whose: %u", (unsigned)whose);
    }
    if ((rights & ~NIGH_REGION_ALL) != 0) {
        return error_set(region->client, NIGH_INVALID,
                         "nigh_region_grant: there are no such rights");
    }
    if (whose == NIGH_REGION_USER && user == NOBODY) {
        return error_set(region->client, NIGH_INVALID,
                         "nigh_region_grant: %u, which is -1, is no user's uid", user);
    }
    return NIGH_OK;
}

nigh_status nigh_region_grant(nigh_region *region, nigh_region_whose whose, uint32_t user,
                              uint32_t give, uint32_t take, uint64_t timeout_us)
{
    struct session_region_grant grant = {
        .whose = (uint32_t)whose, .user = user, .give = give, .take = take};
    nigh_status status = check_grant(region, whose, user, give | take);

    if (status != NIGH_OK) {
        return status;
    }
    status = change(region, "nigh_region_grant", SESSION_REGION_GRANT, &grant, sizeof(grant),
                    timeout_us);
    if (status == NIGH_INVALID && whose == NIGH_REGION_USER) {
        return error_set(region->client, status,
                         "nigh_region_grant: user %u owns the region, and has all rights", user);
    }
    return status;
}

/* ---- size, place ---------------------------------------------------------- */

/* What is not of the numbers that were asked for: NULL: it is none of that. */
static const char *tell_donated(const nigh_region_info *info)
{
    return (info->flags & NIGH_REGION_DONATED) != 0
               ? "its memory was donated: it neither moves nor changes its size"
               : NULL;
}

/* The region could not be looked at. */
static nigh_status tell_either_resized(nigh_region *region, const struct session_region_make *make,
                                       nigh_status status)
{
    if (status == NIGH_LIMIT) {
        return error_set(region->client, status,
                         "nigh_region_resize: it would have more than %d chunks, which keep their "
                         "size, or a node that was to hold some of it has as many regions as it "
                         "may, or mappable chunks (%d)",
                         LIMIT_REGION_CHUNKS, LIMIT_REGION_FILES);
    }
    if (make->where != SESSION_REGION_ON) {
        return error_set(region->client, status,
                         "nigh_region_resize: the region's memory was donated, or the node is "
                         "older than this libnigh, and takes no such size");
    }
    return error_set(region->client, status,
                     "nigh_region_resize: the region's memory was donated, or there is no node of "
                     "rank %u (nigh nodes)",
                     make->rank);
}

static nigh_status tell_not_resized(nigh_region *region, const struct session_region_make *make,
                                    uint64_t deadline_us, nigh_status status)
{
    nigh_region_info info = {.struct_size = sizeof(info)};
    bool is_known = nigh_region_stat(region, left_us(deadline_us), &info) == NIGH_OK;

    if (status == NIGH_LIMIT && is_known && info.chunk_size != 0 &&
        (make->size_bytes - 1) / info.chunk_size >= LIMIT_REGION_CHUNKS) {
        return error_set(region->client, status,
                         "nigh_region_resize: a region has %d chunks at most, and they keep their "
                         "size: of %llu bytes each they have not %llu",
                         LIMIT_REGION_CHUNKS, (unsigned long long)info.chunk_size,
                         (unsigned long long)make->size_bytes);
    }
    if (!is_known) {
        return tell_either_resized(region, make, status);
    }
    if (status == NIGH_LIMIT) {
        return error_set(region->client, status,
                         "nigh_region_resize: a node that was to hold some of it has as many "
                         "regions as it may, or mappable chunks (%d)",
                         LIMIT_REGION_FILES);
    }
    if (tell_donated(&info) != NULL) {
        return error_set(region->client, status, "nigh_region_resize: %s", tell_donated(&info));
    }
    if (make->where != SESSION_REGION_ON) {
        return error_set(region->client, status,
                         "nigh_region_resize: the node is older than this libnigh, and takes no "
                         "such size");
    }
    return error_set(region->client, status,
                     "nigh_region_resize: there is no node of rank %u (nigh nodes)", make->rank);
}

nigh_status nigh_region_resize(nigh_region *region, uint64_t size, nigh_region_where where,
                               uint32_t rank, uint64_t timeout_us)
{
    struct session_region_make make = {.size_bytes = size, .where = (uint32_t)where, .rank = rank};
    nigh_status status = region_check(region, "nigh_region_resize");
    uint64_t deadline_us = op_deadline_us(timeout_us);

    if (status == NIGH_OK) {
        status = region_check_where(region->client, where, "nigh_region_resize");
    }
    if (status != NIGH_OK) {
        return status;
    }
    if (size == 0 || where == NIGH_REGION_NEAR) {
        return error_set(region->client, NIGH_INVALID, "nigh_region_resize: %s",
                         size == 0 ? "a region has a byte at least"
                                   : "NIGH_REGION_NEAR is of nigh_region_create alone");
    }
    status = change(region, "nigh_region_resize", SESSION_REGION_RESIZE, &make, sizeof(make),
                    timeout_us);
    return status == NIGH_INVALID || status == NIGH_LIMIT
               ? tell_not_resized(region, &make, deadline_us, status)
               : status;
}

static nigh_status tell_not_moved(nigh_region *region, uint32_t chunk, uint32_t rank,
                                  uint64_t deadline_us)
{
    nigh_region_info info = {.struct_size = sizeof(info)};
    bool is_known = nigh_region_stat(region, left_us(deadline_us), &info) == NIGH_OK;

    if (is_known && info.chunk_count > 0 && chunk >= info.chunk_count) {
        return error_set(region->client, NIGH_INVALID,
                         "nigh_region_move: there is no chunk %u: the last one is %u", chunk,
                         info.chunk_count - 1);
    }
    if (!is_known) {
        return error_set(region->client, NIGH_INVALID,
                         "nigh_region_move: there is no chunk %u, or no node of rank %u (nigh "
                         "nodes), or the region's memory was donated",
                         chunk, rank);
    }
    if (tell_donated(&info) != NULL) {
        return error_set(region->client, NIGH_INVALID, "nigh_region_move: %s", tell_donated(&info));
    }
    return error_set(region->client, NIGH_INVALID,
                     "nigh_region_move: there is no node of rank %u (nigh nodes)", rank);
}

nigh_status nigh_region_move(nigh_region *region, uint32_t chunk, uint32_t rank,
                             uint64_t timeout_us)
{
    nigh_status status = region_check(region, "nigh_region_move");
    uint64_t deadline_us = op_deadline_us(timeout_us);
    struct client_op op;

    if (status != NIGH_OK) {
        return status;
    }
    region_init(&op, region->client, region, SESSION_REGION_MOVE, timeout_us);
    op.u.region.at = chunk;
    op.u.region.ref = rank;
    status = region_run(&op);
    return status == NIGH_INVALID ? tell_not_moved(region, chunk, rank, deadline_us) : status;
}

nigh_status nigh_region_free(nigh_region *region, uint64_t timeout_us)
{
    return change(region, "nigh_region_free", SESSION_REGION_FREE, NULL, 0, timeout_us);
}
