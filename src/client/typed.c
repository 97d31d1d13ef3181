/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of typed calls' deadlines; all else of them is in the header. */
#include "nigh/typed.h"

#include "base/clock.h"

uint64_t nigh_now_us(void)
{
    return clock_now_us(&clock_monotonic);
}
