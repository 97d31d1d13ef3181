/* SPDX-License-Identifier: Apache-2.0 */
/* See tree.h. */
#include "object/tree.h"

#include "base/limits.h"

enum tree_answer tree_judge(const struct tree_holder *holder, uint64_t from, bool alone)
{
    if (alone) {
        return holder->is_whole ? TREE_SERVE : TREE_NOT_HERE;
    }
    if (holder->children >= holder->fanout) {
        return TREE_SEND_ON;
    }
    if (holder->is_whole || from < holder->has || (from == 0 && holder->is_fed)) {
        return TREE_SERVE;
    }
    return TREE_NOT_YET; /* it may wait for who asks, by however many others */
}

void tree_order(struct tree_seat *seats, uint32_t count)
{
    for (uint32_t n = 1; n < count; n++) {
        struct tree_seat seat = seats[n];
        uint32_t at = n;

        for (; at > 0 && seats[at - 1].sent > seat.sent; at--) {
            seats[at] = seats[at - 1];
        }
        seats[at] = seat;
    }
}

void tree_fed(struct tree_climb *climb, uint64_t now_us)
{
    climb->hops = 0;
    climb->vain = 0;
    climb->since_us = now_us;
}

bool tree_sent(struct tree_climb *climb, uint64_t now_us)
{
    climb->since_us = now_us;
    return ++climb->hops <= LIMIT_TREE_HOPS;
}

void tree_in_vain(struct tree_climb *climb)
{
    climb->hops = 0;
    climb->alone = climb->alone || ++climb->vain >= LIMIT_TREE_TRIES;
}

bool tree_is_tired(const struct tree_climb *climb, uint64_t now_us)
{
    return now_us - climb->since_us > LIMIT_TREE_PATIENCE_US;
}
