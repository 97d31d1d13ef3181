/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam of src/memory/shared.h, for tests: placed before it on the include path, so that
 * production sources compiled a second time load, store and fence through functions of the test.
 *
 * Who links it defines the seam_ functions: the explorer runs them over simulated memory, the test
 * of deaths counts stores. Semantics are those of the production header, operation by operation.
 */
#ifndef MEMORY_SHARED_H
#define MEMORY_SHARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SEAM_IS_SIMULATED 1

enum seam_order {
    SEAM_PLAIN,
    SEAM_RELAXED,
    SEAM_ACQUIRE, /* of a load, or a fence */
    SEAM_RELEASE, /* of a store, or a fence */
    SEAM_FULL     /* of a fence: sequentially consistent */
};

/* Values are zero-extended to 64 bits; size is 1, 2, 4 or 8. */
uint64_t seam_load(const volatile void *word, uint32_t size, enum seam_order order);
void seam_store(volatile void *word, uint32_t size, uint64_t value, enum seam_order order);
void seam_fence(enum seam_order order);
bool seam_compare_exchange(volatile void *word, uint32_t size, uint64_t *expected, uint64_t value);
/* Stores value (add: adds it), returns what was there. */
uint64_t seam_exchange(volatile void *word, uint32_t size, uint64_t value, bool add);

#define SEAM_TYPED(word, value) ((__typeof__(*(word) + 0))(value))
#define SEAM_LOAD(word, order)  SEAM_TYPED(word, seam_load((word), sizeof(*(word)), (order)))
#define SEAM_STORE(word, value, order) \
    seam_store((word), sizeof(*(word)), (uint64_t)(value), (order))

#define shared_load_relaxed(word)         SEAM_LOAD(word, SEAM_RELAXED)
#define shared_load_acquire(word)         SEAM_LOAD(word, SEAM_ACQUIRE)
#define shared_store_relaxed(word, value) SEAM_STORE(word, value, SEAM_RELAXED)
#define shared_store_release(word, value) SEAM_STORE(word, value, SEAM_RELEASE)
#define shared_load_plain(field)          SEAM_LOAD(field, SEAM_PLAIN)
#define shared_store_plain(field, value)  SEAM_STORE(field, value, SEAM_PLAIN)
#define shared_exchange(word, value) \
    SEAM_TYPED(word, seam_exchange((word), sizeof(*(word)), (value), false))
#define shared_fetch_add(word, value) \
    SEAM_TYPED(word, seam_exchange((word), sizeof(*(word)), (value), true))
#define shared_fence()         seam_fence(SEAM_FULL)
#define shared_fence_acquire() seam_fence(SEAM_ACQUIRE)
#define shared_fence_release() seam_fence(SEAM_RELEASE)

#define shared_compare_exchange(word, expected, value)                                            \
    ({                                                                                            \
        uint64_t seam_expected = *(expected);                                                     \
        bool seam_done = seam_compare_exchange((word), sizeof(*(word)), &seam_expected, (value)); \
        *(expected) = SEAM_TYPED(word, seam_expected);                                            \
        seam_done;                                                                                \
    })

#endif
