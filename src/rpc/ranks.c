/* SPDX-License-Identifier: Apache-2.0 */
/* See ranks.h. */
#include "rpc/ranks.h"

#include <string.h>

#include "base/check.h"

void ranks_put(struct ranks *set, uint32_t rank)
{
    NIGH_ASSERT(rank < LIMIT_NODES);
    set->words[rank / 64] |= UINT64_C(1) << (rank % 64);
}

void ranks_drop(struct ranks *set, uint32_t rank)
{
    NIGH_ASSERT(rank < LIMIT_NODES);
    set->words[rank / 64] &= ~(UINT64_C(1) << (rank % 64));
}

uint32_t ranks_count(const struct ranks *set)
{
    uint32_t size = 0;

    for (uint32_t n = 0; n < RANKS_WORDS; n++) {
        size += (uint32_t)__builtin_popcountll(set->words[n]);
    }
    return size;
}

bool ranks_are_within(const struct ranks *set, const struct ranks *of)
{
    for (uint32_t n = 0; n < RANKS_WORDS; n++) {
        if ((set->words[n] & ~of->words[n]) != 0) {
            return false;
        }
    }
    return true;
}

struct ranks ranks_all(uint32_t count)
{
    struct ranks set = {{0}};

    for (uint32_t rank = 0; rank < count; rank++) {
        ranks_put(&set, rank);
    }
    return set;
}

uint32_t ranks_next(const struct ranks *set, uint32_t rank)
{
    for (uint32_t n = 1; n < LIMIT_NODES; n++) {
        uint32_t next = (rank + n) % LIMIT_NODES;

        if (ranks_has(set, next)) {
            return next;
        }
    }
    return RANKS_NONE;
}

uint32_t ranks_split(const struct ranks *set, uint32_t root, uint32_t fan, struct ranks *runs)
{
    struct ranks rest = *set;
    uint32_t left, count, rank = root;

    NIGH_ASSERT(fan > 0);
    ranks_drop(&rest, root);
    left = ranks_count(&rest);
    count = left < fan ? left : fan;
    memset(runs, 0, fan * sizeof(*runs));
    for (uint32_t n = 0; n < count; n++) {
        uint32_t length = left / (count - n) + (left % (count - n) != 0);

        left -= length;
        for (; length > 0; length--) {
            rank = ranks_next(&rest, rank);
            ranks_drop(&rest, rank);
            ranks_put(&runs[n], rank);
        }
    }
    return count;
}
