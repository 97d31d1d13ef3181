/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping on a word of shared memory until another process or thread changes it. Works across
 * processes.
 *
 * The kernel reads the word as given: in memory that an untrusted process writes, a wake-up says
 * nothing by itself, and the caller looks again.
 */
#ifndef BASE_FUTEX_H
#define BASE_FUTEX_H

#include "nigh/status.h"

#include <stdatomic.h>
#include <stdint.h>

#define FUTEX_FOREVER UINT64_MAX

/*
 * Sleeps while *word == expected, at most timeout_us (FUTEX_FOREVER: without end).
 * NIGH_OK: woken, the word differs, or a signal came; look again. NIGH_TIMEOUT: the time passed.
 * NIGH_INVALID: the kernel cannot read the word (unmapped, or misaligned).
 */
nigh_status futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_us);

/* Wakes at most `count` sleepers, in the order of no promise; returns how many. 0 also on error. */
uint32_t futex_wake(_Atomic uint32_t *word, uint32_t count);

#endif
