/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client of a space is compared with: blocks in plain shared memory, each under a seqlock,
 * and a table of open addressing that finds a block by its address. It has no sets, no own writes,
 * no hints, and nothing is ever given up.
 */
#ifndef BENCH_SPACE_PLAIN_H
#define BENCH_SPACE_PLAIN_H

#include <stdatomic.h>
#include <stdint.h>

#include "memory/space_view.h"

#define SPACE_PLAIN_BYTES 512u /* of a block */
#define SPACE_PLAIN_SHIFT 9u
#define SPACE_PLAIN_BITS  18u /* of slots */
#define SPACE_PLAIN_SLOTS (1u << SPACE_PLAIN_BITS)

struct space_plain_block {
    _Atomic uint64_t sequence;
    uint64_t reserved[7];
    _Atomic uint64_t words[SPACE_PLAIN_BYTES / 8];
};

struct space_plain_slot {
    _Atomic uint64_t key;
    _Atomic uint64_t index;
};

struct space_plain {
    struct space_plain_block *blocks;
    struct space_plain_slot *slots;
};

/* For so many blocks; they live as long as the process. */
void space_plain_create(struct space_plain *plain, uint32_t blocks);

/* Puts the block of a number where an address finds it, every word of it `value`. */
void space_plain_fill(struct space_plain *plain, uint32_t number, uint64_t address, uint64_t value);

static inline uint64_t space_plain_read(struct space_plain_block *block, uint32_t offset)
{
    uint64_t before, value;

    do {
        before = atomic_load_explicit(&block->sequence, memory_order_acquire);
        value = atomic_load_explicit(&block->words[offset / 8], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
    } while ((before & 1) != 0 ||
             atomic_load_explicit(&block->sequence, memory_order_relaxed) != before);
    return value;
}

static inline void space_plain_write(struct space_plain_block *block, uint32_t offset,
                                     uint64_t value)
{
    uint64_t sequence = atomic_load_explicit(&block->sequence, memory_order_relaxed);

    atomic_store_explicit(&block->sequence, sequence + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&block->words[offset / 8], value, memory_order_relaxed);
    atomic_store_explicit(&block->sequence, sequence + 2, memory_order_release);
}

static inline uint64_t space_plain_slot_of(uint64_t address)
{
    return ((address >> SPACE_PLAIN_SHIFT) * SPACE_SPREAD) >> (64 - SPACE_PLAIN_BITS);
}

static inline uint64_t space_plain_find_and_read(const struct space_plain *plain, uint64_t address)
{
    uint64_t at = space_plain_slot_of(address), key = address >> SPACE_PLAIN_SHIFT;

    while (atomic_load_explicit(&plain->slots[at].key, memory_order_relaxed) != key) {
        at = (at + 1) % SPACE_PLAIN_SLOTS;
    }
    return space_plain_read(
        &plain->blocks[atomic_load_explicit(&plain->slots[at].index, memory_order_relaxed)],
        (uint32_t)address % SPACE_PLAIN_BYTES);
}

#endif
