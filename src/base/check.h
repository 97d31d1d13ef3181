/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions that are always on, checked and aligned arithmetic, and the few macros every file
 * needs.
 *
 * An assertion says "this program is wrong", never "this input is wrong": what a client, a peer, a
 * file or the kernel can cause is a status. It does not format messages; the expression is the
 * message.
 */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Words written by different threads lie at least this far apart. Right for x86-64 and most ARM. */
#define CACHE_LINE 64

/* Elements of an array; refuses to compile for a pointer. */
#define ARRAY_LENGTH(array)                                                  \
    (sizeof(array) / sizeof((array)[0]) +                                    \
     0 * sizeof(char[1 - 2 * __builtin_types_compatible_p(__typeof__(array), \
                                                          __typeof__(&(array)[0]))]))

/* The structure of `type` whose `member` is at `pointer`; refuses a pointer of another type. */
#define container_of(pointer, type, member)                      \
    ({                                                           \
        __typeof__(((type *)0)->member) *member_of_ = (pointer); \
        (type *)((char *)member_of_ - offsetof(type, member));   \
    })

/* Ends the process unless `condition` holds. On in every build: the cost is one predicted branch.
 */
#define NIGH_ASSERT(condition) \
    ((void)(likely(condition) || (check_failed(__FILE__, __LINE__, #condition), 0)))

/* For checks that walk a whole structure. Compiled always, evaluated only under NIGH_CHECK_SLOW. */
#ifdef NIGH_CHECK_SLOW
#define NIGH_ASSERT_SLOW(condition) NIGH_ASSERT(condition)
#else
#define NIGH_ASSERT_SLOW(condition) ((void)sizeof(!(condition)))
#endif

/*
 * Called with the failed assertion before the process aborts. A hook that returns is followed by
 * abort(); a test's hook leaves by longjmp.
 */
typedef void check_hook(const char *file, int line, const char *expression);

/* Sets the hook (NULL: print one line to stderr) and returns the previous one. Any thread. */
check_hook *check_set_hook(check_hook *hook);

/* The failing path of NIGH_ASSERT: tells the hook, then aborts. Async-signal-safe by default. */
_Noreturn void check_failed(const char *file, int line, const char *expression);

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* *out = a + b, or false and *out untouched when that does not fit. */
static inline bool checked_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

/* *out = a * b, or false and *out untouched when that does not fit. */
static inline bool checked_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

static inline bool checked_add_size(size_t a, size_t b, size_t *out)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

static inline bool checked_mul_size(size_t a, size_t b, size_t *out)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

/* Zero is no power of two. */
static inline bool is_pow2(uint64_t x)
{
    return x != 0 && (x & (x - 1)) == 0;
}

/* The largest multiple of `alignment` (a power of two) not above x. */
static inline uint64_t align_down_u64(uint64_t x, uint64_t alignment)
{
    NIGH_ASSERT(is_pow2(alignment));
    return x & ~(alignment - 1);
}

/*
 * The smallest multiple of `alignment` (a power of two) not below x. The caller knows that it fits;
 * a size that comes from outside goes through checked_align_up_u64.
 */
static inline uint64_t align_up_u64(uint64_t x, uint64_t alignment)
{
    NIGH_ASSERT(is_pow2(alignment));
    NIGH_ASSERT(x <= UINT64_MAX - (alignment - 1));
    return (x + (alignment - 1)) & ~(alignment - 1);
}

/* align_up_u64, or false and *out untouched when the result does not fit. */
static inline bool checked_align_up_u64(uint64_t x, uint64_t alignment, uint64_t *out)
{
    NIGH_ASSERT(is_pow2(alignment));
    if (x > UINT64_MAX - (alignment - 1))
        return false;
    *out = align_up_u64(x, alignment);
    return true;
}

/* The smallest power of two not below x; x is at most 2^63. Zero gives one. */
static inline uint64_t round_up_pow2_u64(uint64_t x)
{
    NIGH_ASSERT(x <= UINT64_C(1) << 63);
    return x <= 1 ? 1 : UINT64_C(1) << (64 - __builtin_clzll(x - 1));
}

#endif
