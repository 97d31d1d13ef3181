/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hashes of ids and keys over the ids that programs really use: counters wherever they lie,
 * text, digests. Everything is computed from fixed ids: a failure is the hash's, never chance.
 */
#include "base/blake.h"
#include "base/check.h"
#include "base/hash.h"
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    IDS = 1 << 18
};

static void counter_first(uint32_t n, uint8_t id[20])
{
    memset(id, 0, 20);
    memcpy(id, &n, 4);
}

static void counter_first_big_endian(uint32_t n, uint8_t id[20])
{
    memset(id, 0, 20);
    n = __builtin_bswap32(n);
    memcpy(id + 4, &n, 4);
}

static void counter_middle(uint32_t n, uint8_t id[20])
{
    memset(id, 0xff, 20);
    memcpy(id + 8, &n, 4);
}

static void counter_last(uint32_t n, uint8_t id[20])
{
    memset(id, 0, 20);
    memcpy(id + 16, &n, 4);
}

static void counter_last_big_endian(uint32_t n, uint8_t id[20])
{
    memset(id, 0, 20);
    n = __builtin_bswap32(n);
    memcpy(id + 16, &n, 4);
}

static void counter_in_steps(uint32_t n, uint8_t id[20])
{
    uint64_t step = (uint64_t)n << 24;
    memset(id, 0, 20);
    memcpy(id + 8, &step, 8);
}

static void counter_twice(uint32_t n, uint8_t id[20])
{
    memset(id, 0, 20);
    memcpy(id, &n, 4);
    memcpy(id + 8, &n, 4);
    memcpy(id + 16, &n, 4);
}

static void ascii_digits(uint32_t n, uint8_t id[20])
{
    char text[21];
    snprintf(text, sizeof(text), "%020u", n);
    memcpy(id, text, 20);
}

static void ascii_name(uint32_t n, uint8_t id[20])
{
    char text[21];
    snprintf(text, sizeof(text), "object-%-13u", n);
    memcpy(id, text, 20);
}

static void ascii_front(uint32_t n, uint8_t id[20])
{
    char text[21];
    snprintf(text, sizeof(text), "%x", n);
    memset(id, 0, 20);
    memcpy(id, text, strlen(text));
}

static void digest(uint32_t n, uint8_t id[20])
{
    blake_id20(&n, sizeof(n), id);
}

static const struct {
    const char *name;
    void (*make)(uint32_t n, uint8_t id[20]);
} kinds[] = {
    {"counter first", counter_first},
    {"counter first, big endian", counter_first_big_endian},
    {"counter middle", counter_middle},
    {"counter last", counter_last},
    {"counter last, big endian", counter_last_big_endian},
    {"counter in steps", counter_in_steps},
    {"counter twice", counter_twice},
    {"ASCII digits", ascii_digits},
    {"ASCII name", ascii_name},
    {"ASCII at the front", ascii_front},
    {"digest", digest},
};

static const struct {
    const char *name;
    unsigned shift, bits;
} windows[] = {
    {"top 6 (shard)", 58, 6},  {"low 6", 0, 6},           {"low 16 (slot)", 0, 16},
    {"bits 16 to 31", 16, 16}, {"bits 24 to 39", 24, 16}, {"bits 24 to 31", 24, 8},
    {"bits 32 to 47", 32, 16}, {"top 16", 48, 16},
};

/*
 * Whether the counts of the window's values fit an even spread: Pearson's chi-square within five
 * standard deviations of its mean.
 */
static bool is_even(const uint64_t *hashes, unsigned shift, unsigned bits, const char *what)
{
    static uint32_t counts[1 << 16];
    size_t buckets = (size_t)1 << bits;
    memset(counts, 0, sizeof(counts));
    for (size_t i = 0; i < IDS; i++)
        counts[hashes[i] >> shift & (buckets - 1)]++;
    double expected = (double)IDS / (double)buckets, chi_square = 0;
    for (size_t i = 0; i < buckets; i++)
        chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    double freedom = (double)buckets - 1;
    if (chi_square < freedom + 5 * sqrt(2 * freedom))
        return true;
    print_message("# %s: chi-square %.0f for %.0f degrees of freedom\n", what, chi_square, freedom);
    return false;
}

static uint64_t *hash_kind(size_t kind)
{
    uint64_t *hashes = malloc(IDS * sizeof(*hashes));
    assert_non_null(hashes);
    for (uint32_t n = 0; n < IDS; n++) {
        uint8_t id[20];
        kinds[kind].make(n, id);
        hashes[n] = hash_id20(id);
    }
    return hashes;
}

static void every_window_is_even(void **state)
{
    (void)state;
    int faults = 0;
    for (size_t kind = 0; kind < ARRAY_LENGTH(kinds); kind++) {
        uint64_t *hashes = hash_kind(kind);
        for (size_t i = 0; i < ARRAY_LENGTH(windows); i++) {
            char what[100];
            snprintf(what, sizeof(what), "%s, %s", kinds[kind].name, windows[i].name);
            faults += !is_even(hashes, windows[i].shift, windows[i].bits, what);
        }
        free(hashes);
    }
    assert_int_equal(faults, 0);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* How many of the sorted numbers equal the one before them in the bits of the mask. */
static unsigned count_repeats(uint64_t *hashes, uint64_t mask)
{
    unsigned repeats = 0;
    for (size_t i = 0; i < IDS; i++)
        hashes[i] &= mask;
    qsort(hashes, IDS, sizeof(*hashes), compare_u64);
    for (size_t i = 1; i < IDS; i++)
        repeats += hashes[i] == hashes[i - 1];
    return repeats;
}

/* 2^18 random numbers of 32 bits repeat eight times in the mean; of 64 bits, never. */
static void low_32_bits_repeat_as_rarely_as_chance(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < ARRAY_LENGTH(kinds); kind++) {
        uint64_t *hashes = hash_kind(kind);
        uint64_t *copy = hash_kind(kind);
        unsigned low = count_repeats(hashes, UINT32_MAX), all = count_repeats(copy, UINT64_MAX);
        free(hashes);
        free(copy);
        if (low > 8 + 15 || all > 0)
            print_message("# %s: %u and %u repeats\n", kinds[kind].name, low, all);
        assert_in_range(low, 0, 8 + 15);
        assert_int_equal(all, 0);
    }
}

/* Flips each input bit over 4096 ids of a kind: the most that any output bit is off one half. */
static double worst_avalanche(size_t kind)
{
    enum {
        BASES = 4096
    };
    static uint32_t flips[160][64];
    memset(flips, 0, sizeof(flips));
    for (uint32_t n = 0; n < BASES; n++) {
        uint8_t id[20];
        kinds[kind].make(n, id);
        uint64_t before = hash_id20(id);
        for (unsigned bit = 0; bit < 160; bit++) {
            id[bit / 8] ^= (uint8_t)(1 << bit % 8);
            uint64_t changed = hash_id20(id) ^ before;
            id[bit / 8] ^= (uint8_t)(1 << bit % 8);
            for (unsigned out = 0; out < 64; out++)
                flips[bit][out] += changed >> out & 1;
        }
    }
    double worst = 0;
    for (unsigned bit = 0; bit < 160; bit++) {
        for (unsigned out = 0; out < 64; out++)
            worst = fmax(worst, fabs(flips[bit][out] / (double)BASES - 0.5));
    }
    return worst;
}

static void each_input_bit_flips_each_output_bit_half_the_time(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < ARRAY_LENGTH(kinds); kind++) {
        double worst = worst_avalanche(kind);
        if (worst > 0.06)
            print_message("# %s: an output bit is off by %.3f\n", kinds[kind].name, worst);
        /* Chance alone, over 10240 pairs of bits, stays below 0.04. */
        assert_true(worst < 0.06);
    }
}

/* The value is part of the index format. */
static void value_is_fixed(void **state)
{
    (void)state;
    uint8_t id[20];
    for (int i = 0; i < 20; i++)
        id[i] = (uint8_t)i;
    assert_true(hash_id20(id) == UINT64_C(0x4f3d7def1b02dc36));
    assert_true(hash_u64(0) == 0);
    assert_true(hash_u64(UINT64_C(0x9e3779b97f4a7c15)) == UINT64_C(0xe220a8397b1dcdaf));
}

static void keys_are_spread(void **state)
{
    (void)state;
    uint64_t *hashes = malloc(IDS * sizeof(*hashes));
    assert_non_null(hashes);
    static const unsigned shifts[] = {0, 6, 12, 32};
    for (size_t i = 0; i < ARRAY_LENGTH(shifts); i++) {
        for (uint64_t n = 0; n < IDS; n++)
            hashes[n] = hash_u64(n << shifts[i]);
        assert_true(is_even(hashes, 0, 16, "keys, low 16"));
        assert_true(is_even(hashes, 48, 16, "keys, top 16"));
        assert_int_equal(count_repeats(hashes, UINT64_MAX), 0);
    }
    free(hashes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_window_is_even),
        cmocka_unit_test(low_32_bits_repeat_as_rarely_as_chance),
        cmocka_unit_test(each_input_bit_flips_each_output_bit_half_the_time),
        cmocka_unit_test(value_is_fixed),
        cmocka_unit_test(keys_are_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
