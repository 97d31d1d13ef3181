/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one seam through which words that processes share are loaded, stored and fenced.
 *
 * Production compiles to plain C11 atomics. The exhaustive explorer and the tests that kill between
 * two stores (tests/model) put a header of the same name in front of this one, whose operations run
 * over simulated store buffers, or count: so the very functions that ship are the ones explored.
 * Nothing here may be bypassed for a word that two processes touch. Every word is always accessed
 * in its own size.
 */
#ifndef MEMORY_SHARED_H
#define MEMORY_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

#define shared_load_relaxed(word) atomic_load_explicit((word), memory_order_relaxed)
#define shared_load_acquire(word) atomic_load_explicit((word), memory_order_acquire)
#define shared_store_relaxed(word, value) \
    atomic_store_explicit((word), (value), memory_order_relaxed)
#define shared_store_release(word, value) \
    atomic_store_explicit((word), (value), memory_order_release)

/*
 * Fields of a plain type that another process may read while they change, and which a word of an
 * atomic type says the validity of: whole, and otherwise unordered.
 */
#define shared_load_plain(field)         __atomic_load_n((field), __ATOMIC_RELAXED)
#define shared_store_plain(field, value) __atomic_store_n((field), (value), __ATOMIC_RELAXED)

/*
 * Stores `value` if the word is *expected, which otherwise becomes what the word was. True when it
 * stored. A full fence either way on x86; on ARM acquire and release.
 */
#define shared_compare_exchange(word, expected, value) \
    atomic_compare_exchange_strong((word), (expected), (value))

/* Stores `value` and returns what was there; adds and returns what was there. */
#define shared_exchange(word, value)  atomic_exchange((word), (value))
#define shared_fetch_add(word, value) atomic_fetch_add((word), (value))

/* A full fence: every load and store before it is done, for everyone, before any after it. */
#define shared_fence() atomic_thread_fence(memory_order_seq_cst)

/* Orders earlier loads before later loads (the reader's side of a version). */
#define shared_fence_acquire() atomic_thread_fence(memory_order_acquire)

/* Orders earlier stores before later stores (the writer's side of a version). */
#define shared_fence_release() atomic_thread_fence(memory_order_release)

#endif
