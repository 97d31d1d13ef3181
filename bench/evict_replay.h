/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays a trace against one eviction policy as a lane would: readers leave lossy hints, the lane
 * drains them before it chooses, evicts in batches ahead of need, and some victims turn out to be
 * pinned.
 */
#ifndef BENCH_EVICT_REPLAY_H
#define BENCH_EVICT_REPLAY_H

#include "evict_policies.h"
#include "evict_workloads.h"

struct replay_result {
    double objects;  /* misses over uses */
    double bytes;    /* bytes of the misses over bytes of the uses */
    uint64_t offers; /* candidates offered */
    uint64_t kept;   /* of them, pinned */
};

/* hint_percent: of the hits that leave a hint at all; what a reader's ring loses comes on top. */
void replay(const struct trace *trace, const struct policy_ops *ops, uint32_t hint_percent,
            uint64_t seed, struct replay_result *result);

#endif
