/* SPDX-License-Identifier: Apache-2.0 */
/* What memory that calls bring is filled with, and how it is told whether it came. */
#ifndef BULK_BYTES_H
#define BULK_BYTES_H

#include <stdint.h>

static inline uint8_t byte_of(uint64_t place, uint32_t seed)
{
    return (uint8_t)((place * 2654435761u + seed) >> 13);
}

static inline void fill(uint8_t *bytes, uint64_t count, uint32_t seed)
{
    for (uint64_t n = 0; n < count; n++) {
        bytes[n] = byte_of(n, seed);
    }
}

static inline uint64_t sum_of(const uint8_t *bytes, uint64_t count)
{
    uint64_t sum = count;

    for (uint64_t n = 0; n < count; n++) {
        sum = (sum ^ bytes[n]) * UINT64_C(1099511628211);
    }
    return sum;
}

#endif
