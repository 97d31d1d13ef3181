/* SPDX-License-Identifier: Apache-2.0 */
/* xoshiro256++ and getrandom(2). */
#include "base/random.h"

#include "base/check.h"

#include <string.h>
#include <sys/random.h>

/* getrandom(2) answers requests of at most this size whole, and no signal interrupts them. */
#define RANDOM_SYSTEM_CHUNK 256

void random_init(struct random *random, uint64_t seed)
{
    for (size_t i = 0; i < ARRAY_LENGTH(random->state); i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        random->state[i] = z ^ (z >> 31);
    }
}

static uint64_t random_rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

uint64_t random_u64(struct random *random)
{
    uint64_t *s = random->state;
    uint64_t result = random_rotate(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = random_rotate(s[3], 45);
    return result;
}

uint64_t random_below(struct random *random, uint64_t bound)
{
    NIGH_ASSERT(bound > 0);
    /* The high half of the product scales the number to the bound (Lemire 2019, without rejection).
     */
    return (uint64_t)(((__uint128_t)random_u64(random) * bound) >> 64);
}

void random_fill(struct random *random, void *bytes, size_t size_bytes)
{
    unsigned char *out = bytes;
    while (size_bytes > 0) {
        uint64_t word = random_u64(random);
        size_t part = min_size(size_bytes, sizeof(word));
        memcpy(out, &word, part);
        out += part;
        size_bytes -= part;
    }
}

nigh_status random_system_fill(void *bytes, size_t size_bytes)
{
    unsigned char *out = bytes;
    while (size_bytes > 0) {
        size_t part = min_size(size_bytes, RANDOM_SYSTEM_CHUNK);
        if (getrandom(out, part, 0) != (ssize_t)part)
            return NIGH_NO_RESOURCES;
        out += part;
        size_bytes -= part;
    }
    return NIGH_OK;
}

nigh_status random_system_seed(uint64_t *seed)
{
    uint64_t value;
    nigh_status status = random_system_fill(&value, sizeof(value));
    if (status == NIGH_OK)
        *seed = value;
    return status;
}
