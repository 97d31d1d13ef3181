/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token bucket, told by time: not how many tokens there are, but when the next may be had (the
 * "virtual scheduling" of ITU-T I.371's generic cell rate algorithm, which lets through the same).
 * So it is one word, and nobody fills it up.
 *
 * What is larger than the bucket is let through when the bucket is not empty, and those after it
 * wait for all of it: who asks for much at once gets no more a second than who asks for little.
 *
 * Pure: the clock is an argument. One owner.
 */
#ifndef BASE_RATE_H
#define BASE_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

#define RATE_SECOND_NS UINT64_C(1000000000)

struct rate {
    uint64_t per_second; /* 0: without end */
    uint64_t burst_us;   /* so much earlier than that something may be taken */
    uint64_t free_ns;    /* when all that was taken would have come, one after the other */
};

static inline void rate_init(struct rate *rate, uint64_t per_second, uint64_t burst_us)
{
    *rate = (struct rate){.per_second = per_second, .burst_us = burst_us};
}

/* When something may be taken; in the past, perhaps. */
static inline uint64_t rate_due_us(const struct rate *rate)
{
    uint64_t due_us = rate->free_ns / 1000 + (rate->free_ns % 1000 != 0);

    return rate->per_second == 0 || due_us < rate->burst_us ? 0 : due_us - rate->burst_us;
}

static inline bool rate_may(const struct rate *rate, uint64_t now_us)
{
    return rate->per_second == 0 || rate_due_us(rate) <= now_us;
}

/* Whether it may or not: what is taken too early is waited for later. */
static inline void rate_take(struct rate *rate, uint64_t count, uint64_t now_us)
{
    unsigned __int128 takes_ns;

    if (rate->per_second == 0)
        return;
    takes_ns = (unsigned __int128)count * RATE_SECOND_NS / rate->per_second;
    if (takes_ns > UINT64_MAX / 4) /* some hundred years */
        takes_ns = UINT64_MAX / 4;
    rate->free_ns = max_u64(rate->free_ns, now_us * 1000);
    rate->free_ns = min_u64(rate->free_ns + (uint64_t)takes_ns, UINT64_MAX / 2);
}

#endif
