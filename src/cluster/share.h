/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of one lane that all members use, so shared that none can take what others need.
 *
 * A quarter of it is divided evenly among the members: each one's own part, which nobody else gets.
 * The rest is common: first come, first served, but one member leaves a quarter of it to the
 * others. So a member among few may use much, and none the last; one alone has all. Books only: who
 * keeps the table takes before it uses a place, and gives when the place is free.
 */
#ifndef CLUSTER_SHARE_H
#define CLUSTER_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

struct share {
    uint32_t own;         /* places that are one member's own */
    uint32_t common;      /* the others */
    uint32_t most;        /* of those, one member's at most */
    uint32_t common_used; /* by all */
    uint32_t used[LIMIT_NODES];
};

/* A table of `places` for members 0 to `members` - 1. */
void share_init(struct share *share, uint32_t places, uint32_t members);

/* One place for a member. False: it has its share, or nothing is left but others' own parts. */
bool share_take(struct share *share, uint32_t member);
void share_give(struct share *share, uint32_t member);

/* For tests: the books agree with themselves. */
bool share_is_valid(const struct share *share);

#endif
