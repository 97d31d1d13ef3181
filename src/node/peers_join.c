/* SPDX-License-Identifier: Apache-2.0 */
/* See peers.h. Nodes that join by this one: they have the key, and no rank yet. They are told one
 * when the members have decided on it (views.h), and who the others are; then their connection
 * ends, and they come back as members. */
#include <stdlib.h>
#include <string.h>

#include "cluster/address.h"
#include "cluster/welcome.h"
#include "node/peers_internal.h"

#define LOG_MODULE "peers"
#include "base/log.h"

#define PEERS_JOIN_US      (AGREE_JOIN_US + UINT64_C(2000000))
#define PEERS_JOIN_LOOK_US UINT64_C(20000)

/* For whoever runs the nodes; who asked is told why, too (node_join.c). */
static const char *what_to_do(nigh_status status)
{
    switch (status) {
    case NIGH_UNSUPPORTED: return "start the nodes of this cluster with --state";
    case NIGH_INVALID: return "give that node a --member that the others reach it at";
    case NIGH_EXISTS: return "give that node a --member of its own: it has this node's";
    case NIGH_NO_RESOURCES:
        return "begin the cluster with more --ranks: none is left, and none is given twice";
    default:
        return "nothing: it asks again; if it goes on, bring back those that vote (nigh nodes)";
    }
}

static void answer(struct peers *peers, struct connection *connection, nigh_status status,
                   uint32_t rank, const struct agreed_roster *roster)
{
    const char *address = connection->auth->offer.member;

    connection->welcome = malloc(WELCOME_BYTES_MAX);
    connection->deadline_us = peers->now_us + PEERS_JOIN_US;
    if (connection->welcome == NULL) {
        connection->deadline_us = peers->now_us; /* it asks again, or somebody else */
        return;
    }
    connection->welcome_bytes = welcome_write(connection->auth, status, rank, peers->config.members,
                                              roster, connection->welcome);
    peers->counters.joined += status == NIGH_OK ? 1 : 0;
    if (status == NIGH_OK) {
        LOG_INFO("a node joins", "rank=%u address=%s", rank, LOG_QUOTE(address));
    } else {
        LOG_WARN("a node cannot join", "address=%s status=%s do=\"%s\"", LOG_QUOTE(address),
                 nigh_status_name(status), what_to_do(status));
    }
    peers_watch(peers, connection, true);
}

/* Which of the list it is: it may be started with one address, too. */
static uint32_t listed_rank(const struct members *members, const char *address)
{
    for (uint32_t rank = 0; rank < members->listed; rank++) {
        if (strcmp(members->addresses[rank], address) == 0) {
            return rank;
        }
    }
    return PEERS_NOBODY;
}

void peers_join(struct peers *peers, struct connection *connection)
{
    const struct members *members = peers->config.members;
    const char *address = connection->auth->offer.member;
    uint32_t rank = listed_rank(members, address);
    struct agreed_roster nobody = {0};

    connection->joins = true;
    if (peers->config.views == NULL) {
        answer(peers, connection, NIGH_UNSUPPORTED, 0, NULL);
    } else if (!agreed_is_address(address) || !address_is_spelled(address) ||
               address_is_any(address)) { /* two spellings would be two ranks */
        answer(peers, connection, NIGH_INVALID, 0, NULL);
    } else if (strcmp(members->addresses[members->self], address) == 0) {
        answer(peers, connection, NIGH_EXISTS, 0, NULL);
    } else if (rank != PEERS_NOBODY) {
        answer(peers, connection, NIGH_OK, rank, &nobody); /* those that joined dial it */
    } else {
        connection->deadline_us = peers->now_us + PEERS_JOIN_US;
    }
}

uint64_t peers_tick_join(struct peers *peers, struct connection *connection)
{
    struct views_seat seat;

    if (connection->welcome != NULL) {
        return connection->deadline_us;
    }
    if (!views_join(peers->config.views, connection->auth->offer.member, &seat)) {
        return peers->now_us + PEERS_JOIN_LOOK_US;
    }
    answer(peers, connection, seat.status, seat.rank, &seat.roster);
    return connection->deadline_us;
}
