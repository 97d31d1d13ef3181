/* SPDX-License-Identifier: Apache-2.0 */
/* A set of members, by rank. Pure; any thread. */
#ifndef REGION_SET_H
#define REGION_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

#define REGION_SET_WORDS (LIMIT_NODES / 64)

struct region_set {
    uint64_t words[REGION_SET_WORDS];
};

static inline bool region_set_has(const struct region_set *set, uint32_t rank)
{
    return rank < LIMIT_NODES && (set->words[rank / 64] >> rank % 64 & 1) != 0;
}

static inline void region_set_add(struct region_set *set, uint32_t rank)
{
    set->words[rank / 64] |= UINT64_C(1) << rank % 64;
}

static inline void region_set_remove(struct region_set *set, uint32_t rank)
{
    set->words[rank / 64] &= ~(UINT64_C(1) << rank % 64);
}

static inline bool region_set_is_empty(const struct region_set *set)
{
    uint64_t any = 0;

    for (uint32_t n = 0; n < REGION_SET_WORDS; n++) {
        any |= set->words[n];
    }
    return any == 0;
}

/* The first member of a set from `rank` on; LIMIT_NODES: none. */
static inline uint32_t region_set_next(const struct region_set *set, uint32_t rank)
{
    while (rank < LIMIT_NODES) {
        uint64_t word = set->words[rank / 64] >> rank % 64;

        if (word != 0) {
            return rank + (uint32_t)__builtin_ctzll(word);
        }
        rank = (rank / 64 + 1) * 64;
    }
    return LIMIT_NODES;
}

#define REGION_SET_FOREACH(rank, set)                                   \
    for (uint32_t rank = region_set_next(set, 0); (rank) < LIMIT_NODES; \
         (rank) = region_set_next(set, (rank) + 1))

#endif
