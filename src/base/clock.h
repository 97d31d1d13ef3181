/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time as an argument: an interface, the machine's monotonic clock, and a clock that a test moves.
 *
 * Deadlines are monotonic microseconds everywhere. Wall time is only ever shown, never compared.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

struct clock {
    /* Microseconds since some fixed moment; never goes backwards. Any thread. */
    uint64_t (*now_us)(struct clock *clock);
};

static inline uint64_t clock_now_us(struct clock *clock)
{
    return clock->now_us(clock);
}

/* CLOCK_MONOTONIC, the same for all processes of the machine. Served by the vDSO: no system call.
 */
extern struct clock clock_monotonic;

/*
 * At or a little after now, by the same clock, from what the kernel noted at its last tick: a fifth
 * of the cost. At most LIMIT_TICK_US after; before, only where no processor of the machine had a
 * tick for so long (a virtual one that is held up). For what need not be known better.
 */
uint64_t clock_rough_us(void);

/* Stands still until told to move. */
struct clock_manual {
    struct clock clock;
    _Atomic uint64_t now_us;
};

void clock_manual_init(struct clock_manual *manual, uint64_t start_us);

/* Moves the clock forward; any thread may read it meanwhile. */
void clock_manual_advance(struct clock_manual *manual, uint64_t delta_us);

/* Nanoseconds since 1970 (CLOCK_REALTIME), for creation times. May go backwards. */
uint64_t clock_wall_ns(void);

/* now_us + timeout_us without wrapping: a timeout that does not fit never ends (UINT64_MAX). */
static inline uint64_t clock_deadline_us(uint64_t now_us, uint64_t timeout_us)
{
    return timeout_us > UINT64_MAX - now_us ? UINT64_MAX : now_us + timeout_us;
}

/* What is left until then; of one that never ends UINT64_MAX. */
static inline uint64_t clock_left_us(uint64_t now_us, uint64_t deadline_us)
{
    if (deadline_us == UINT64_MAX) {
        return UINT64_MAX;
    }
    return deadline_us > now_us ? deadline_us - now_us : 0;
}

#endif
