/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzzer's bytes, taken one after the other; behind their end there are zeros. */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct fuzz_input {
    const uint8_t *bytes;
    size_t left;
};

static inline uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (input->left == 0) {
        return 0;
    }
    input->left--;
    return *input->bytes++;
}

static inline uint64_t fuzz_u64(struct fuzz_input *input)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++) {
        value |= (uint64_t)fuzz_byte(input) << (8 * i);
    }
    return value;
}

/* A number that is likely to matter: small, about a size or a bound, or anything. */
static inline uint64_t fuzz_number(struct fuzz_input *input)
{
    uint8_t kind = fuzz_byte(input);
    uint64_t value = fuzz_byte(input);

    switch (kind % 8) {
    case 0: return 0;
    case 1: return value;
    case 2: return value * 64;
    case 3: return value * 4096;
    case 4: return value << 16;
    case 5: return (UINT64_C(1) << (value % 64)) - (value >> 6);
    case 6: return UINT64_MAX - value;
    default: return fuzz_u64(input);
    }
}

static inline void fuzz_fill(struct fuzz_input *input, void *out, size_t size_bytes)
{
    uint8_t *bytes = out;

    for (size_t i = 0; i < size_bytes; i++) {
        bytes[i] = fuzz_byte(input);
    }
}

/* Puts one number somewhere into a struct. */
static inline void fuzz_patch(struct fuzz_input *input, void *out, size_t size_bytes)
{
    size_t width = (size_t)1 << fuzz_byte(input) % 4;
    size_t at = ((size_t)fuzz_byte(input) | (size_t)fuzz_byte(input) << 8) % size_bytes;
    uint64_t value = fuzz_number(input);

    if (width > size_bytes - at) {
        width = size_bytes - at;
    }
    __builtin_memcpy((uint8_t *)out + at, &value, width);
}

#endif
