/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pins: how a reader in another process says "these bytes are in use" without asking anyone.
 *
 * A pin word holds 0 or a reference to an index entry; beside it lies the generation that the
 * reader saw there. Words lie in memory that the client writes and the lane reads: the lane trusts
 * none of it beyond "this session holds that entry", so rubbish costs only the session that wrote
 * it. A thread owns whole chunks: only the owner sets a word from 0, any thread of the process may
 * clear one. docs/pins.md has the argument for x86 and ARM and the table of who writes what.
 */
#ifndef MEMORY_PIN_H
#define MEMORY_PIN_H

#include <stdint.h>

#include "base/limits.h"
#include "memory/shared.h"

/* One thread's pin words and access hints. Written by the client only. */
struct pin_chunk {
    _Atomic uint64_t entry[LIMIT_PINS_A_CHUNK];      /* 0, or a pin_ref */
    _Atomic uint64_t generation[LIMIT_PINS_A_CHUNK]; /* of the entry when it was pinned */
    _Atomic uint32_t hint[LIMIT_HINTS_A_CHUNK];      /* pin_hint of recent gets: a lossy ring */
    _Atomic uint32_t hint_count;                     /* hints ever written */
    uint32_t reserved[15];
};

_Static_assert(sizeof(struct pin_chunk) == 832, "pin chunk is shared between processes");

/* What a pin word says: lane and entry, never 0. */
static inline uint64_t pin_ref(uint32_t lane, uint32_t entry)
{
    return ((uint64_t)lane << 32) | ((uint64_t)entry + 1);
}

static inline uint32_t pin_ref_lane(uint64_t ref)
{
    return (uint32_t)(ref >> 32);
}

/* The entry of a ref that is not 0; UINT32_MAX for rubbish without an entry. */
static inline uint32_t pin_ref_entry(uint64_t ref)
{
    return (uint32_t)ref - 1;
}

/* What a hint says: 6 bits of lane, 26 bits of entry. */
static inline uint32_t pin_hint(uint32_t lane, uint32_t entry)
{
    return (lane << 26) | (entry & (LIMIT_INDEX_ENTRIES - 1));
}

/*
 * Makes chunk `number` one that the lane scans. Once, before the first pin in it: the fence of
 * pin_publish then covers both. Any thread of the client; the word only grows.
 */
static inline void pin_open_chunk(_Atomic uint32_t *chunks_used, uint32_t number)
{
    uint32_t used = shared_load_relaxed(chunks_used);

    while (used <= number && !shared_compare_exchange(chunks_used, &used, number + 1)) {
    }
}

/*
 * Publishes a pin in a word that is 0 and fences, so that the caller's next load of the entry's
 * word comes after the pin is visible to everyone: the reader's half of the hazard-pointer
 * hand-shake.
 */
static inline void pin_publish(struct pin_chunk *chunk, uint32_t slot, uint64_t ref,
                               uint64_t generation)
{
    shared_store_relaxed(&chunk->generation[slot], generation);
    shared_store_release(&chunk->entry[slot], ref);
    shared_fence();
}

/*
 * Ends a pin: release, so that the reader's loads of the bytes come before it. Any thread of the
 * process, once the reading threads are known to be done.
 */
static inline void pin_clear(_Atomic uint64_t *word)
{
    shared_store_release(word, 0);
}

/* Leaves a hint that an entry was used. Lossy: an unread ring is overwritten. */
static inline void pin_leave_hint(struct pin_chunk *chunk, uint32_t lane, uint32_t entry)
{
    uint32_t count = shared_load_relaxed(&chunk->hint_count);

    shared_store_relaxed(&chunk->hint[count % LIMIT_HINTS_A_CHUNK], pin_hint(lane, entry));
    shared_store_relaxed(&chunk->hint_count, count + 1);
}

#endif
