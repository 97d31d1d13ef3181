/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks of a region, as its home (lock_home.h) and the nodes that use it (lock_node.h) speak of
 * them: each is a number of the region's. docs/locks.md.
 */
#ifndef REGION_LOCK_H
#define REGION_LOCK_H

#include "base/table.h"

enum region_lock_mode {
    REGION_LOCK_NONE,
    REGION_LOCK_SHARED,
    REGION_LOCK_EXCLUSIVE
};

/* What a letter says of a lock. Of a CLAIM: all that its node has of it, or wants. */
struct region_lock_word {
    uint64_t number;
    uint64_t serial; /* of the node's claim; an answer is to the last one, or to none */
    enum region_lock_mode mode;
    bool is_held;  /* it has it; else it wants it */
    bool is_dirty; /* what was written under it may land yet, though it is not held any more */
};

/* Whether who holds a lock in a mode leaves room for another in another. */
static inline bool region_lock_suits(enum region_lock_mode held, enum region_lock_mode wanted)
{
    return held == REGION_LOCK_NONE || (held == REGION_LOCK_SHARED && wanted == REGION_LOCK_SHARED);
}

/* A table of locks by their numbers: with room for a few, and for one more, for which it grows, up
 * to LIMIT_REGION_LOCKS. NIGH_LIMIT, NIGH_NO_RESOURCES. */
nigh_status region_lock_table_init(struct table *table, uint64_t seed);
nigh_status region_lock_table_add(struct table *table, uint64_t number, void *lock);

#endif
