/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines of one owner thread: an intrusive binary min-heap.
 *
 * Pure: the clock is an argument, the storage is the caller's, nothing calls back. Equal deadlines
 * expire in the order in which they were added, so a run is a function of its inputs alone.
 */
#ifndef BASE_HEAP_TIMER_H
#define BASE_HEAP_TIMER_H

#include "nigh/status.h"

#include <stdbool.h>
#include <stdint.h>

/* What timers_first_deadline returns when nothing is armed. */
#define TIMERS_NEVER UINT64_MAX

/* Lies in the caller's structure. A zeroed timer is not armed. */
struct timer {
    uint64_t deadline_us;
    uint64_t sequence; /* order of adding, decides between equal deadlines */
    uint32_t place;    /* place in the heap, from 1; 0: not armed */
};

struct timers {
    struct timer **heap;
    uint32_t count;
    uint32_t capacity;
    uint64_t next_sequence;
};

/* `storage` holds `capacity` pointers, is the caller's, and outlives `timers`. There is no fini. */
void timers_init(struct timers *timers, struct timer **storage, uint32_t capacity);

/* Arms `timer`, which is not armed and stays where it is until it is. NIGH_LIMIT: all are in use.
 */
nigh_status timers_add(struct timers *timers, struct timer *timer, uint64_t deadline_us);

/* Disarms `timer`; one that is not armed stays so. */
void timers_cancel(struct timers *timers, struct timer *timer);

/* Disarms and returns the earliest timer whose deadline is at or before now_us; NULL when none is.
 */
struct timer *timers_pop_expired(struct timers *timers, uint64_t now_us);

/* Checks the whole structure; for tests and NIGH_ASSERT_SLOW. */
bool timers_is_valid(const struct timers *timers);

static inline bool timer_is_armed(const struct timer *timer)
{
    return timer->place != 0;
}

static inline uint64_t timers_first_deadline(const struct timers *timers)
{
    return timers->count == 0 ? TIMERS_NEVER : timers->heap[0]->deadline_us;
}

#endif
