/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of ranks, and trees over them (docs/collectives.md): who asks whom, when one asks many.
 *
 * A set's ranks are taken in ascending order, beginning behind the root and going round. They are
 * cut into runs of nearly equal length, as many as the fan; the first of each run is a child of the
 * root, and the rest of the run is what it asks in turn, by the same rule. So each node finds its
 * children from the set that it was handed, and nothing else.
 *
 * Pure functions; any thread.
 */
#ifndef RPC_RANKS_H
#define RPC_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

#define RANKS_WORDS (LIMIT_NODES / 64)
#define RANKS_NONE  UINT32_MAX

/* Ranks, below LIMIT_NODES. */
struct ranks {
    uint64_t words[RANKS_WORDS];
};

static inline bool ranks_has(const struct ranks *set, uint32_t rank)
{
    return rank < LIMIT_NODES && (set->words[rank / 64] >> (rank % 64) & 1) != 0;
}

void ranks_put(struct ranks *set, uint32_t rank);
void ranks_drop(struct ranks *set, uint32_t rank);
uint32_t ranks_count(const struct ranks *set);

/* Whether every rank of `set` is in `of`. */
bool ranks_are_within(const struct ranks *set, const struct ranks *of);

/* Ranks below count. */
struct ranks ranks_all(uint32_t count);

/* The first of the set behind a rank, going round: never that rank itself. RANKS_NONE: none. */
uint32_t ranks_next(const struct ranks *set, uint32_t rank);

/* Cuts the set without its root into at most `fan` runs; how many. The child of the n-th is
 * ranks_next(&runs[n], root). */
uint32_t ranks_split(const struct ranks *set, uint32_t root, uint32_t fan, struct ranks *runs);

#endif
