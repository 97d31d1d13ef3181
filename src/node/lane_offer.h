/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a lane that spins offers its processor to others. A client that is to give it work may want
 * that very processor, so it is offered often; but whoever had it for long and gave no work is not
 * one, and what peers want waits meanwhile: then it is offered ever less often, until a client's
 * submission comes. (sched_yield(2) hands a whole slice to a thread that computes.)
 *
 * Pure; the lane's own thread.
 */
#ifndef NODE_LANE_OFFER_H
#define NODE_LANE_OFFER_H

#include "base/check.h"

#define LANE_OFFER_US      UINT64_C(50) /* between offers, at least */
#define LANE_OFFER_MOST_US UINT64_C(200000)
#define LANE_OFFER_LONG_US UINT64_C(500) /* who had it for so long has used it */

struct lane_offer {
    uint64_t due_us, gap_us;
    uint64_t taken; /* submissions, as the processor was offered last */
    bool was_long;  /* since then somebody has had it */
};

/* `taken`: submissions that the lane has had so far. Whether the processor is to be offered now. */
static inline bool lane_offer_is_due(struct lane_offer *offer, uint64_t now_us, uint64_t taken)
{
    if (taken != offer->taken) {
        offer->taken = taken;
        offer->was_long = false;
        offer->gap_us = LANE_OFFER_US;
        offer->due_us = min_u64(offer->due_us, now_us + LANE_OFFER_US);
    }
    return now_us >= offer->due_us;
}

/* It was offered, and is the lane's again. */
static inline void lane_offer_made(struct lane_offer *offer, uint64_t from_us, uint64_t to_us)
{
    bool is_long = to_us - from_us >= LANE_OFFER_LONG_US;

    if (is_long && offer->was_long) {
        offer->gap_us = min_u64(8 * offer->gap_us, LANE_OFFER_MOST_US);
    } else if (!is_long) {
        offer->gap_us /= 2;
    }
    offer->gap_us = max_u64(offer->gap_us, LANE_OFFER_US);
    offer->was_long = is_long;
    offer->due_us = to_us + offer->gap_us;
}

#endif
