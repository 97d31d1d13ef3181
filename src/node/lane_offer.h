/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a lane that spins offers its processor to others. A client that is to give it work may want
 * that very processor, so it is offered often; but whoever had it for long and gave no work is not
 * one, and what peers want waits meanwhile: after two of these it is hardly offered any more, until
 * a client's submission comes. (sched_yield(2) hands a whole slice to a thread that computes, and
 * from Linux 6.18 on gives up what the lane had left of its own. Who is not offered it has it from
 * the scheduler, a few milliseconds later.)
 *
 * Pure; the lane's own thread.
 */
#ifndef NODE_LANE_OFFER_H
#define NODE_LANE_OFFER_H

#include "base/check.h"

#define LANE_OFFER_US      UINT64_C(50) /* between offers, at least */
#define LANE_OFFER_MOST_US UINT64_C(200000)
#define LANE_OFFER_LONG_US UINT64_C(500) /* who had it for so long has used it */
#define LANE_OFFER_TIMES   64            /* as long until the next one, after such */

struct lane_offer {
    uint64_t due_us, gap_us;
    uint64_t taken; /* submissions, as the processor was offered last */
};

/* `taken`: submissions that the lane has had so far. Whether the processor is to be offered now. */
static inline bool lane_offer_is_due(struct lane_offer *offer, uint64_t now_us, uint64_t taken)
{
    if (taken != offer->taken) {
        offer->taken = taken;
        offer->gap_us = LANE_OFFER_US;
        offer->due_us = min_u64(offer->due_us, now_us + LANE_OFFER_US);
    }
    return now_us >= offer->due_us;
}

/* It was offered, and is the lane's again. */
static inline void lane_offer_made(struct lane_offer *offer, uint64_t from_us, uint64_t to_us)
{
    offer->gap_us = max_u64(offer->gap_us, LANE_OFFER_US);
    if (to_us - from_us >= LANE_OFFER_LONG_US)
        offer->gap_us = min_u64(LANE_OFFER_TIMES * offer->gap_us, LANE_OFFER_MOST_US);
    offer->due_us = to_us + offer->gap_us;
}

#endif
