/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views, as a lane sees them: it adopts what is agreed before it does anything else in a turn, and
 * serves by it while the node has a lease. Lane 0 carries the messages by which that is decided.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "node/lane_internal.h"

/* Messages of one turn. */
#define LANE_VIEWS_TURN 64u

_Static_assert(VIEWS_FRAME_BYTES <= CALLS_PAYLOAD, "a channel for calls carries it");

void lane_hear_views(struct lane *lane, uint32_t rank, const struct rpc_request *request)
{
    /* A call wants an answer, and these have none: whoever makes one is not of our version. */
    if (lane->config.number == 0 && request->call == 0)
        views_heard(lane->config.views, rank, request->payload, request->bytes);
}

/* A member that cannot be reached misses it: who says such things says them again. */
static bool send_some(struct lane *lane)
{
    bool any = false;

    for (uint32_t n = 0; n < LANE_VIEWS_TURN; n++) {
        uint32_t rank, count;
        uint8_t *bytes = views_take(lane->config.views, &rank, &count);
        struct rpc_piece piece = {.data = bytes, .bytes = count};
        struct rpc *channel;

        if (bytes == NULL)
            break;
        channel = exchange_users_channel(lane->exchange, rank, 0);
        if (channel != NULL)
            (void)rpc_one_way(channel, CALLS_METHOD_VIEWS, &piece, 1, lane->now_us);
        free(bytes);
        any = true;
    }
    if (any)
        exchange_users_flush(lane->exchange);
    return any;
}

static bool adopt(struct lane *lane)
{
    struct agreed agreed;

    if (likely(views_version(lane->config.views) == lane->views_version))
        return false;
    lane->views_version = views_read(lane->config.views, &agreed);
    exchange_view(lane->exchange, &agreed, lane->now_us);
    lane_collect_group(lane, &agreed);
    lane_regions_view(lane, &agreed);
    lane_spaces_view(lane, &agreed);
    views_adopted(lane->config.views, lane->config.number, agreed.epoch);
    return true;
}

/* Turns share a look at the clock; what clients are told of spaces has to be so when they are told,
 * though the lane stood still since. */
static bool has_ended(const struct lane *lane, uint64_t lease_us)
{
    return lease_us <= lane->now_us || (lane->spaces != NULL && lease_us != UINT64_MAX &&
                                        lease_us <= clock_now_us(&clock_monotonic));
}

bool lane_turn_views(struct lane *lane)
{
    uint64_t lease_us, was_us = lane->lease_us;
    bool any;

    if (lane->config.views == NULL)
        return false;
    any = adopt(lane);
    lease_us = views_lease_us(lane->config.views, lane->views_version);
    lease_us = has_ended(lane, lease_us) ? 0 : lease_us;
    lane->lease_us = lease_us;
    if (unlikely((lease_us != 0) != (was_us != 0))) {
        exchange_quorum(lane->exchange, lease_us != 0, lane->now_us);
        lane_regions_lease(lane, lease_us != 0);
        any = true;
    }
    if (lease_us != was_us)
        lane_spaces_lease(lane, lease_us);
    return (lane->config.number == 0 && send_some(lane)) || any;
}
