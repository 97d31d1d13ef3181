/* SPDX-License-Identifier: Apache-2.0 */
/* The two futex operations nigh uses, never the PRIVATE variants: the words lie in shared mappings.
 */
#include "base/futex.h"

#include "base/check.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(_Atomic uint32_t) == 4, "a futex word is 32 bits");

nigh_status futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_us)
{
    /* Every timeout fits: 2^64 microseconds are fewer seconds than time_t holds. */
    struct timespec relative = {
        .tv_sec = (time_t)(timeout_us / 1000000),
        .tv_nsec = (long)(timeout_us % 1000000) * 1000,
    };
    struct timespec *timeout = timeout_us == FUTEX_FOREVER ? NULL : &relative;
    if (syscall(SYS_futex, word, FUTEX_WAIT, expected, timeout, NULL, 0) == 0)
        return NIGH_OK;
    switch (errno) {
    case EAGAIN: /* the word differs */
    case EINTR: return NIGH_OK;
    case ETIMEDOUT: return NIGH_TIMEOUT;
    default: return NIGH_INVALID;
    }
}

uint32_t futex_wake(_Atomic uint32_t *word, uint32_t count)
{
    long woken = syscall(SYS_futex, word, FUTEX_WAKE, (int)min_u32(count, INT_MAX), NULL, NULL, 0);
    return woken < 0 ? 0 : (uint32_t)woken;
}
