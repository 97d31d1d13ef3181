/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam of the tests that kill a client between any two of its stores: read by the compiler
 * before every source of libnigh that is built a second time for them (-include).
 *
 * Every atomic store, exchange and full fence first passes a point, and a long copy passes one in
 * its middle; seam_point, in client_deaths.c and space_deaths.c, counts them and dies at the chosen
 * one. Otherwise the operations are what they were. Plain stores need no point of their own: nobody
 * looks at them before the atomic store that says so.
 */
#ifndef TESTS_CRASH_SEAM_H
#define TESTS_CRASH_SEAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

void seam_point(void);
void *seam_copy(void *to, const void *from, size_t size_bytes);

#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_thread_fence
#undef memcpy

#ifdef __clang__
#define SEAM_STORE    __c11_atomic_store
#define SEAM_EXCHANGE __c11_atomic_exchange
#define SEAM_ADD      __c11_atomic_fetch_add
#define SEAM_SUB      __c11_atomic_fetch_sub
#define SEAM_OR       __c11_atomic_fetch_or
#define SEAM_AND      __c11_atomic_fetch_and
#define SEAM_CAS(word, was, value, good, bad) \
    __c11_atomic_compare_exchange_strong(word, was, value, good, bad)
#define SEAM_FENCE __c11_atomic_thread_fence
#else
#define SEAM_STORE    __atomic_store_n
#define SEAM_EXCHANGE __atomic_exchange_n
#define SEAM_ADD      __atomic_fetch_add
#define SEAM_SUB      __atomic_fetch_sub
#define SEAM_OR       __atomic_fetch_or
#define SEAM_AND      __atomic_fetch_and
#define SEAM_CAS(word, was, value, good, bad) \
    __atomic_compare_exchange_n(word, was, value, 0, good, bad)
#define SEAM_FENCE __atomic_thread_fence
#endif

#define atomic_store_explicit(word, value, order) \
    (seam_point(), SEAM_STORE((word), (value), (order)))
#define atomic_exchange(word, value) \
    (seam_point(), SEAM_EXCHANGE((word), (value), __ATOMIC_SEQ_CST))
#define atomic_fetch_add(word, value) (seam_point(), SEAM_ADD((word), (value), __ATOMIC_SEQ_CST))
#define atomic_fetch_add_explicit(word, value, order) \
    (seam_point(), SEAM_ADD((word), (value), (order)))
#define atomic_fetch_sub_explicit(word, value, order) \
    (seam_point(), SEAM_SUB((word), (value), (order)))
#define atomic_fetch_or_explicit(word, value, order) \
    (seam_point(), SEAM_OR((word), (value), (order)))
#define atomic_fetch_and_explicit(word, value, order) \
    (seam_point(), SEAM_AND((word), (value), (order)))
#define atomic_compare_exchange_strong(word, was, value) \
    (seam_point(), SEAM_CAS((word), (was), (value), __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_strong_explicit(word, was, value, good, bad) \
    (seam_point(), SEAM_CAS((word), (was), (value), (good), (bad)))
#define atomic_compare_exchange_weak_explicit atomic_compare_exchange_strong_explicit

/* Acquire and release fences order nothing that a death could tear. */
#define atomic_thread_fence(order) \
    ((order) == memory_order_seq_cst ? seam_point() : (void)0, SEAM_FENCE(order))

#define memcpy(to, from, size_bytes) seam_copy((to), (from), (size_bytes))

#endif
