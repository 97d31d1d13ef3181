/* SPDX-License-Identifier: Apache-2.0 */
/* See rpc_way.h. */
#include "rpc/rpc_way.h"

#include <string.h>

#include "base/check.h"

#define ALL_CALLS (RPC_WAYS * (1u + RPC_WAY_CALLS)) /* the first of each way count for nothing */

void rpc_way_begin(struct rpc_way *way)
{
    memset(way, 0, sizeof(*way));
}

bool rpc_way_wants(const struct rpc_way *way)
{
    return way->done < ALL_CALLS;
}

/* Sent, written, written, sent, and so on. */
enum rpc_way_kind rpc_way_next(const struct rpc_way *way)
{
    return (way->done / 2 + way->done) % 2 == 0 ? RPC_WAY_SENT : RPC_WAY_WRITTEN;
}

void rpc_way_took(struct rpc_way *way, uint64_t us)
{
    uint32_t turn = way->done / RPC_WAYS;

    NIGH_ASSERT(rpc_way_wants(way));
    if (turn > 0) {
        way->us[rpc_way_next(way)][turn - 1] = us;
    }
    way->done++;
}

uint64_t rpc_way_us(const struct rpc_way *way, enum rpc_way_kind kind)
{
    uint64_t sorted[RPC_WAY_CALLS];

    NIGH_ASSERT(!rpc_way_wants(way));
    for (uint32_t n = 0; n < RPC_WAY_CALLS; n++) {
        uint32_t at = n;

        for (; at > 0 && sorted[at - 1] > way->us[kind][n]; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = way->us[kind][n];
    }
    return sorted[RPC_WAY_CALLS / 2];
}

enum rpc_way_kind rpc_way_quicker(const struct rpc_way *way)
{
    uint64_t sent_us = rpc_way_us(way, RPC_WAY_SENT);
    uint64_t written_us = rpc_way_us(way, RPC_WAY_WRITTEN);

    return written_us < sent_us - sent_us / 16 ? RPC_WAY_WRITTEN : RPC_WAY_SENT;
}
