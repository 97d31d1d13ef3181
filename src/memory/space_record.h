/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a record lies in a window's ring: what space_window.c and space_consumer.c share. For these
 * two files, and tests of what a client may write.
 */
#ifndef MEMORY_SPACE_RECORD_H
#define MEMORY_SPACE_RECORD_H

#include "memory/space_window.h"

/* Which word of the ring a place is. */
static inline uint32_t space_ring_at(uint64_t at)
{
    return (uint32_t)(at / 8) & (LIMIT_SPACE_RING_BYTES / 8 - 1);
}

static inline uint64_t space_ring_load(struct space_window *window, uint64_t at)
{
    return shared_load_relaxed(&window->ring[space_ring_at(at)]);
}

static inline void space_ring_store(struct space_window *window, uint64_t at, uint64_t value)
{
    shared_store_relaxed(&window->ring[space_ring_at(at)], value);
}

static inline uint64_t space_word_of(uint32_t kind, uint32_t note, uint16_t length, uint32_t space)
{
    return (uint64_t)space << 32 | (uint64_t)length << 16 | note << 8 | kind;
}

/* Without DONE: enum space_record_kind, or anything below 128. */
static inline uint32_t space_word_kind(uint64_t word)
{
    return (uint32_t)(word & 0x7f);
}

static inline uint32_t space_word_note(uint64_t word)
{
    return (uint32_t)(word >> 8) & 0xff;
}

static inline uint16_t space_word_length(uint64_t word)
{
    return (uint16_t)(word >> 16);
}

static inline uint32_t space_word_space(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static inline bool space_kind_is_asked(uint32_t kind)
{
    return kind >= SPACE_RECORD_READ && kind <= SPACE_RECORD_FREE;
}

static inline bool space_kind_is_atomic(uint32_t kind)
{
    return kind == SPACE_RECORD_ADD || kind == SPACE_RECORD_EXCHANGE || kind == SPACE_RECORD_SWAP;
}

static inline bool space_kind_has_operands(uint32_t kind)
{
    return space_kind_is_atomic(kind) || kind == SPACE_RECORD_ALLOC;
}

/* Bytes of a record in the ring: a granule or more, whatever the kind. */
static inline uint32_t space_record_bytes(uint32_t kind, uint32_t length)
{
    uint32_t more = kind == SPACE_RECORD_WRITE ? length
                    : space_kind_has_operands(kind)
                        ? SPACE_ASK_BYTES + (uint32_t)sizeof(((struct space_record *)0)->operands)
                    : space_kind_is_asked(kind) ? SPACE_ASK_BYTES
                                                : 0;

    return SPACE_GRANULE + ((more + SPACE_GRANULE - 1) & ~(SPACE_GRANULE - 1));
}

#endif
