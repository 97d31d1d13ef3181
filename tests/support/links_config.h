/* SPDX-License-Identifier: Apache-2.0 */
/* The links of a node's only lane, as its exchange would make them: for tests that do without an
 * exchange. What differs in a test, it changes in the result. */
#ifndef SUPPORT_LINKS_CONFIG_H
#define SUPPORT_LINKS_CONFIG_H

#include "cluster/link.h"
#include "cluster/members.h"
#include "object/exchange.h"
#include "object/exchange_figures.h"
#include "rpc/calls.h"

static inline struct links_config support_links_config(struct fabric *fabric, uint32_t rank,
                                                       const struct members *members,
                                                       const struct links_shell *shell)
{
    const struct exchange_window *window = exchange_window_of(members);

    return (struct links_config){
        .fabric = fabric,
        .rank = rank,
        .incarnation = 1,
        .lanes = 1,
        .nodes = members->count,
        .rpc = {.requests = window->requests,
                .calls = window->calls,
                .queue = EXCHANGE_QUEUE,
                .payload_bytes = EXCHANGE_PAYLOAD},
        .waits = EXCHANGE_WAITS,
        .bulk_receives = window->bulk_receives,
        .shared_bulk = members->count > LIMIT_UNSHARED_MEMBERS ? LIMIT_SHARED_RECEIVES : 0,
        .bulk_bytes = EXCHANGE_BULK_BYTES,
        .reads = EXCHANGE_READS,
        .shell = *shell,
    };
}

/* The same with what users have of links: calls, regions. */
static inline void support_links_users(struct links_config *config, const struct members *members,
                                       enum link_way way)
{
    uint32_t users = exchange_window_of(members)->users;

    config->calls = (struct rpc_config){
        .requests = users, .calls = exchange_users_slots(users), .payload_bytes = CALLS_PAYLOAD};
    config->calls_way = way;
    config->ring_bytes = exchange_users_ring(members);
    config->writes = EXCHANGE_WRITES;
}

#endif
