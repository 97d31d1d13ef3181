/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines: the binary min-heap itself. Places count from 1, so that a zeroed timer is not armed.
 */
#include "base/heap_timer.h"

#include "base/check.h"

void timers_init(struct timers *timers, struct timer **storage, uint32_t capacity)
{
    NIGH_ASSERT(storage != NULL || capacity == 0);
    /* Places of children, 2 * place + 1, must not wrap. */
    NIGH_ASSERT(capacity <= UINT32_MAX / 2 - 1);
    *timers = (struct timers){.heap = storage, .capacity = capacity};
}

static bool timer_is_before(const struct timer *a, const struct timer *b)
{
    if (a->deadline_us != b->deadline_us)
        return a->deadline_us < b->deadline_us;
    return a->sequence < b->sequence;
}

static void timers_put(struct timers *timers, uint32_t place, struct timer *timer)
{
    timers->heap[place - 1] = timer;
    timer->place = place;
}

/* Moves `timer` from the empty `place` towards the root until its parent is before it. */
static void timers_sift_up(struct timers *timers, uint32_t place, struct timer *timer)
{
    while (place > 1) {
        struct timer *parent = timers->heap[place / 2 - 1];
        if (!timer_is_before(timer, parent))
            break;
        timers_put(timers, place, parent);
        place /= 2;
    }
    timers_put(timers, place, timer);
}

/* Moves `timer` from the empty `place` towards the leaves until it is before both children. */
static void timers_sift_down(struct timers *timers, uint32_t place, struct timer *timer)
{
    for (;;) {
        uint32_t child = 2 * place;
        if (child > timers->count)
            break;
        if (child < timers->count && timer_is_before(timers->heap[child], timers->heap[child - 1]))
            child++;
        if (!timer_is_before(timers->heap[child - 1], timer))
            break;
        timers_put(timers, place, timers->heap[child - 1]);
        place = child;
    }
    timers_put(timers, place, timer);
}

nigh_status timers_add(struct timers *timers, struct timer *timer, uint64_t deadline_us)
{
    NIGH_ASSERT(!timer_is_armed(timer));
    if (timers->count == timers->capacity)
        return NIGH_LIMIT;
    timer->deadline_us = deadline_us;
    timer->sequence = timers->next_sequence++;
    timers->count++;
    timers_sift_up(timers, timers->count, timer);
    NIGH_ASSERT_SLOW(timers_is_valid(timers));
    return NIGH_OK;
}

void timers_cancel(struct timers *timers, struct timer *timer)
{
    if (!timer_is_armed(timer))
        return;
    uint32_t place = timer->place;
    NIGH_ASSERT(place <= timers->count && timers->heap[place - 1] == timer);
    timer->place = 0;
    struct timer *last = timers->heap[timers->count - 1];
    timers->heap[timers->count - 1] = NULL;
    timers->count--;
    if (last == timer)
        return;
    /* The last leaf fills the gap; it may belong above it as well as below. */
    if (place > 1 && timer_is_before(last, timers->heap[place / 2 - 1]))
        timers_sift_up(timers, place, last);
    else
        timers_sift_down(timers, place, last);
    NIGH_ASSERT_SLOW(timers_is_valid(timers));
}

struct timer *timers_pop_expired(struct timers *timers, uint64_t now_us)
{
    if (timers->count == 0 || timers->heap[0]->deadline_us > now_us)
        return NULL;
    struct timer *timer = timers->heap[0];
    timers_cancel(timers, timer);
    return timer;
}

bool timers_is_valid(const struct timers *timers)
{
    if (timers->count > timers->capacity)
        return false;
    for (uint32_t place = 1; place <= timers->count; place++) {
        const struct timer *timer = timers->heap[place - 1];
        if (timer == NULL || timer->place != place || timer->sequence >= timers->next_sequence)
            return false;
        if (place > 1 && timer_is_before(timer, timers->heap[place / 2 - 1]))
            return false;
    }
    return true;
}
