/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See link.h. The endpoints of a link that fail alone: those for one-sided operations of regions.
 *
 * One that failed is destroyed at the end of the turn; what was under way over it ends, and nobody
 * else hears of that. The side that dials, dials it again: at once, and with back-off if that was
 * in vain. The other side waits for that. Either way it is there again soon, or the link goes, too:
 * what stays away is no accident of one endpoint.
 */
#include "base/check.h"
#include "base/clock.h"
#include "cluster/link_internal.h"

#define LOG_MODULE "link"
#include "base/log.h"

enum link_endpoint link_regions(const struct link *link, bool is_low)
{
    return is_low && link_has(link, LINK_REGIONS_LOW) ? LINK_REGIONS_LOW : LINK_REGIONS;
}

bool link_carries(const struct link *link, enum link_endpoint over)
{
    const struct link_side *side = &link->sides[over];

    return link->up && !link->failed && side->established && !side->failed;
}

void link_side_reset(struct link_side *side)
{
    side->failed = false;
    side->attempts = 0;
    side->dial_us = 0;
    side->back_by_us = UINT64_MAX;
}

void link_side_established(struct link_side *side, uint64_t now_us)
{
    side->up_us = now_us;
    side->back_by_us = UINT64_MAX;
}

void link_side_fail(struct link_side *side, nigh_status reason)
{
    if (!link_is_own(side->kind)) {
        link_fail(side->link, reason);
        return;
    }
    if (!side->failed) {
        side->failed = true;
        side->reason = reason != NIGH_OK ? reason : NIGH_PEER_LOST;
        side->link->links->any_failed = true;
    }
}

/* The first time at once: what was refused there is no reason for others to wait. Of a link that is
 * not up all have to be there soon, in any case. */
static void dial_again(struct link_side *side, bool was_there, uint64_t now_us)
{
    struct links *links = side->link->links;

    if (was_there && side->link->up) {
        side->back_by_us = clock_deadline_us(now_us, LINK_UP_US);
        if (now_us >= clock_deadline_us(side->up_us, LINK_STEADY_US)) {
            side->attempts = 0;
        }
    }
    side->dial_us = now_us;
    if (side->attempts > 0) {
        side->dial_us += links_back_off_us(links, side->attempts - 1);
    }
    side->attempts++;
    links->dial_us = min_u64(links->dial_us, min_u64(side->dial_us, side->back_by_us));
}

void link_side_down(struct link_side *side, nigh_status reason, uint64_t now_us)
{
    struct link *link = side->link;
    bool was_there = side->established;

    NIGH_ASSERT(link_is_own(side->kind));
    link_forget_side_chain(side);
    fabric_endpoint_destroy(link->links->config.fabric, side->endpoint);
    side->endpoint = NULL;
    side->established = side->failed = false;
    dial_again(side, was_there, now_us);
    if (was_there) {
        link->links->counters.region_ends++;
        LOG_DEBUG("an endpoint for regions ended", "rank=%u rail=%u reason=%d", link->rank,
                  link->rail, (int)reason);
    }
    link_end_side_ops(side, reason, now_us);
}

void link_settle_own(struct link *link, uint64_t now_us)
{
    for (uint32_t kind = LINK_REGIONS; kind <= LINK_REGIONS_LOW; kind++) {
        struct link_side *side = &link->sides[kind];

        if (side->failed && !link->failed) {
            link_side_down(side, side->reason, now_us);
        }
    }
}

static uint64_t serve_side(struct link_side *side, bool *worked, uint64_t now_us)
{
    struct link *link = side->link;
    bool dials = link->links->peers[link->rank].info.dials;
    nigh_status status;

    if (side->back_by_us <= now_us) {
        link_fail(link, NIGH_TIMEOUT);
        *worked = true;
        return UINT64_MAX;
    }
    if (side->endpoint != NULL || !dials) {
        return side->back_by_us;
    }
    if (side->dial_us > now_us) {
        return min_u64(side->dial_us, side->back_by_us);
    }
    link->links->counters.dials++;
    *worked = true;
    status = links_dial(link, side->kind);
    if (status != NIGH_OK) {
        link_side_fail(side, status);
    }
    return side->back_by_us;
}

uint64_t link_serve_own(struct link *link, bool *worked, uint64_t now_us)
{
    uint64_t due_us = UINT64_MAX;

    for (uint32_t kind = LINK_REGIONS; kind <= LINK_REGIONS_LOW; kind++) {
        struct link_side *side = &link->sides[kind];

        if (link_has(link, kind) && !side->established && !side->failed && !link->failed) {
            due_us = min_u64(due_us, serve_side(side, worked, now_us));
        }
    }
    return due_us;
}
