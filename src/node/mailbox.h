/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mailbox: a bounded queue of small messages from one thread to another.
 *
 * One thread puts, one thread takes; neither waits, neither locks. It does not wake the taker: who
 * puts rings the taker's doorbell. Sizes are such that a correct node never fills one (node/lane.h
 * says why), so a full mailbox is a false to assert on, not a state to handle.
 */
#ifndef NODE_MAILBOX_H
#define NODE_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/limits.h"

struct mailbox_message {
    uint32_t kind;
    uint32_t number;
    int32_t status;
    uint32_t lane;
    const void *pointer; /* what it points to outlives the message */
};

struct mailbox {
    _Alignas(CACHE_LINE) _Atomic uint32_t tail; /* the putter's */
    _Alignas(CACHE_LINE) _Atomic uint32_t head; /* the taker's */
    _Alignas(CACHE_LINE) struct mailbox_message slots[LIMIT_MAILBOX];
};

_Static_assert((LIMIT_MAILBOX & (LIMIT_MAILBOX - 1)) == 0, "places wrap with the index");

/* A zeroed mailbox is an empty one. */

/* False: full. The putter's thread only. */
static inline bool mailbox_put(struct mailbox *box, const struct mailbox_message *message)
{
    uint32_t tail = atomic_load_explicit(&box->tail, memory_order_relaxed);

    if (tail - atomic_load_explicit(&box->head, memory_order_acquire) == LIMIT_MAILBOX)
        return false;
    box->slots[tail % LIMIT_MAILBOX] = *message;
    atomic_store_explicit(&box->tail, tail + 1, memory_order_release);
    return true;
}

/* Messages that wait, as the putter sees it: as many or fewer. */
static inline uint32_t mailbox_count(struct mailbox *box)
{
    return atomic_load_explicit(&box->tail, memory_order_relaxed) -
           atomic_load_explicit(&box->head, memory_order_acquire);
}

/* False: empty. The taker's thread only. */
static inline bool mailbox_take(struct mailbox *box, struct mailbox_message *message)
{
    uint32_t head = atomic_load_explicit(&box->head, memory_order_relaxed);

    if (head == atomic_load_explicit(&box->tail, memory_order_acquire))
        return false;
    *message = box->slots[head % LIMIT_MAILBOX];
    atomic_store_explicit(&box->head, head + 1, memory_order_release);
    return true;
}

#endif
