/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The eviction policies that bench/evict_traces.c compares, behind one interface.
 *
 * The losers (LRU, CLOCK, SIEVE, 2Q, ARC, S3-FIFO) live here only, written for clarity over a node
 * per object; the policy of production is driven through the same interface by an adapter over
 * src/object/evict.h. Nothing of this folder is linked into nigh.
 */
#ifndef BENCH_EVICT_POLICIES_H
#define BENCH_EVICT_POLICIES_H

#include <stdbool.h>
#include <stdint.h>

struct policy;

/* What a policy is told and asked; the meaning of each is evict.h's. `object` is a dense number
 * that stays the same when an object returns: the losers keep exact histories by it, production
 * hashes it. */
struct policy_ops {
    const char *name;
    struct policy *(*create)(uint32_t max_entries, uint32_t objects, uint64_t capacity_bytes);
    void (*destroy)(struct policy *);
    void (*admit)(struct policy *, uint32_t entry, uint32_t object, uint64_t size_bytes);
    void (*touch)(struct policy *, uint32_t entry);
    void (*forget)(struct policy *, uint32_t entry);
    uint32_t (*victims)(struct policy *, uint32_t max_count, uint64_t bytes_wanted,
                        uint32_t *entries);
    void (*evicted)(struct policy *, uint32_t entry);
    void (*kept)(struct policy *, uint32_t entry);
    /* The object was asked for and is not there; whether it is now made again, and admitted. NULL:
     * means nothing to it. */
    void (*missed)(struct policy *, uint32_t object, bool again);
};

#define EVICT_POLICIES   7
#define EVICT_BASELINE   0 /* LRU */
#define EVICT_PRODUCTION (EVICT_POLICIES - 1)

/* LRU first, the policy of production last. */
extern const struct policy_ops *const evict_policies[EVICT_POLICIES];

extern const struct policy_ops evict_policy_production;

#endif
