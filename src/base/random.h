/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Randomness as an argument: a seeded generator whose whole run follows from its seed, and the
 * kernel's source for seeds and secrets.
 *
 * The generator is not for secrets: 256 bits of its output reveal the rest. Keys and tokens come
 * from random_system_fill. A generator has one owner thread; it does not lock.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include "nigh/status.h"

#include <stddef.h>
#include <stdint.h>

/* xoshiro256++ 1.0 (Blackman and Vigna, Scrambled Linear Pseudorandom Number Generators, 2021). */
struct random {
    uint64_t state[4]; /* not all zero */
};

/* Any seed will do: SplitMix64 spreads it over the state, as the authors advise. */
void random_init(struct random *random, uint64_t seed);

uint64_t random_u64(struct random *random);

/* Uniform in [0, bound), bound > 0. No loop: the bias is below bound / 2^64. */
uint64_t random_below(struct random *random, uint64_t bound);

void random_fill(struct random *random, void *bytes, size_t size_bytes);

/* Bytes fit for secrets, from getrandom(2). NIGH_NO_RESOURCES: the kernel refused; any thread. */
nigh_status random_system_fill(void *bytes, size_t size_bytes);

/* A seed from getrandom(2), for random_init. Errors as random_system_fill. */
nigh_status random_system_seed(uint64_t *seed);

#endif
