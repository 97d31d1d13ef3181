/* SPDX-License-Identifier: Apache-2.0 */
/* The two clocks of the machine, and the manual one. */
#include "base/clock.h"

#include "base/check.h"
#include "base/limits.h"

#include <time.h>

static uint64_t clock_monotonic_now_us(struct clock *clock)
{
    (void)clock;
    struct timespec now;
    int result = clock_gettime(CLOCK_MONOTONIC, &now);
    NIGH_ASSERT(result == 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t clock_rough_us(void)
{
    struct timespec tick;
    int result = clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
    NIGH_ASSERT(result == 0);
    return (uint64_t)tick.tv_sec * 1000000 + (uint64_t)tick.tv_nsec / 1000 + LIMIT_TICK_US;
}

struct clock clock_monotonic = {.now_us = clock_monotonic_now_us};

static uint64_t clock_manual_now_us(struct clock *clock)
{
    return atomic_load(&container_of(clock, struct clock_manual, clock)->now_us);
}

void clock_manual_init(struct clock_manual *manual, uint64_t start_us)
{
    manual->clock.now_us = clock_manual_now_us;
    atomic_init(&manual->now_us, start_us);
}

void clock_manual_advance(struct clock_manual *manual, uint64_t delta_us)
{
    uint64_t before_us = atomic_fetch_add(&manual->now_us, delta_us);
    NIGH_ASSERT(before_us <= UINT64_MAX - delta_us);
}

uint64_t clock_wall_ns(void)
{
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    NIGH_ASSERT(result == 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
