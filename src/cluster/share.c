/* SPDX-License-Identifier: Apache-2.0 */
/* See share.h. */
#include "cluster/share.h"

#include <string.h>

#include "base/check.h"

void share_init(struct share *share, uint32_t places, uint32_t members)
{
    NIGH_ASSERT(members > 0 && members <= LIMIT_NODES);
    memset(share, 0, sizeof(*share));
    share->own = members == 1 ? places : places / LIMIT_SHARE_OWN / members;
    share->common = places - share->own * members;
    share->most = share->common - share->common / LIMIT_SHARE_LEFT;
}

bool share_take(struct share *share, uint32_t member)
{
    uint32_t *used = &share->used[member];

    NIGH_ASSERT(member < LIMIT_NODES);
    if (*used >= share->own) {
        if (*used - share->own >= share->most || share->common_used == share->common) {
            return false;
        }
        share->common_used++;
    }
    (*used)++;
    return true;
}

void share_give(struct share *share, uint32_t member)
{
    NIGH_ASSERT(member < LIMIT_NODES && share->used[member] > 0);
    share->used[member]--;
    if (share->used[member] >= share->own) {
        share->common_used--;
    }
}

bool share_is_valid(const struct share *share)
{
    uint64_t common = 0;

    for (uint32_t n = 0; n < LIMIT_NODES; n++) {
        uint32_t over = share->used[n] > share->own ? share->used[n] - share->own : 0;

        if (over > share->most) {
            return false;
        }
        common += over;
    }
    return common == share->common_used && common <= share->common;
}
