/* SPDX-License-Identifier: Apache-2.0 */
/* Heaps over a set of their own, for the tests of the allocator. */
#ifndef TESTS_MEMORY_HEAP_FIXTURE_H
#define TESTS_MEMORY_HEAP_FIXTURE_H

#include "support/support.h"

#include "memory/heap.h"

#define MIB    (UINT64_C(1) << 20)
#define EXTENT LIMIT_EXTENT_BYTES_MIN
#define BLOCKS 4096

struct fixture {
    struct extent_set *set;
    struct heaps *heaps;
    uint32_t heap; /* of OWNER */
};

#define OWNER extent_owner(0, 1000)
#define OTHER extent_owner(1, 1000)

static inline void fixture_open(struct fixture *fixture, uint64_t memory, uint32_t lanes,
                                uint32_t lane, uint32_t max_blocks)
{
    struct extent_options options = {
        .memory_bytes = memory, .extent_bytes = EXTENT, .lanes = lanes, .huge = EXTENT_HUGE_NEVER};
    char why[512] = "";

    if (extent_set_create(&options, &fixture->set, why, sizeof(why)) != NIGH_OK)
        fail_msg("%s", why);
    assert_int_equal(
        heaps_create(&(struct heaps_config){fixture->set, lane, max_blocks}, &fixture->heaps),
        NIGH_OK);
    assert_int_equal(heaps_open(fixture->heaps, OWNER, &fixture->heap), NIGH_OK);
}

static inline void fixture_close(struct fixture *fixture)
{
    assert_true(heaps_are_valid(fixture->heaps));
    heaps_destroy(fixture->heaps);
    extent_set_destroy(fixture->set);
}

static inline uint32_t alloc_ok(struct fixture *fixture, uint32_t heap, uint64_t bytes)
{
    uint32_t block = HEAP_NO_BLOCK;

    assert_int_equal(heap_alloc(fixture->heaps, heap, bytes, &block), NIGH_OK);
    assert_true(heaps_are_valid(fixture->heaps));
    return block;
}

static inline void free_ok(struct fixture *fixture, uint32_t block)
{
    heap_free(fixture->heaps, block);
    assert_true(heaps_are_valid(fixture->heaps));
}

#endif
