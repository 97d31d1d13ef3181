/* SPDX-License-Identifier: Apache-2.0 */
/* See peers.h. Members that were struck off (views.h): others take their rank for nobody's, and
 * tell whoever comes with it; and this node, when it is told that it is one. */
#include "node/peers_internal.h"

#define LOG_MODULE "peers"
#include "base/log.h"

bool peers_rank_is_struck(const struct peers *peers, uint32_t rank)
{
    return peers->config.views != NULL && rank < peers->config.members->count &&
           views_is_struck(peers->config.views, rank);
}

void peers_say_struck(struct peers *peers, struct connection *connection)
{
    connection->rank = PEERS_NOBODY;
    peers_say(peers, connection, AUTH_STRUCK);
    peers_drop_connection(peers, connection);
}

void peers_strike(struct peers *peers, uint32_t rank)
{
    struct member *member = &peers->members[rank];
    struct peer_actions actions;

    if (member->text[0] == '\0' && member->peer.state == PEER_DEAD) {
        return; /* and that is known */
    }
    LOG_INFO("a member is struck off", "rank=%u address=%s", rank, member->text);
    if (member->connection != PEERS_NOBODY) {
        peers_say_struck(peers, &peers->connections[member->connection]);
        member->connection = PEERS_NOBODY;
    }
    for (uint32_t n = 0; n < PEERS_CONNECTIONS; n++) { /* one that is being dialled */
        if (peers->connections[n].fd >= 0 && peers->connections[n].rank == rank) {
            peers_drop_connection(peers, &peers->connections[n]);
        }
    }
    peer_gone(&member->peer, &actions);
    if (actions.dead) {
        member->owed_dead = peers_all_lanes(peers->lane_count);
    }
    member->owed = 0;
    member->text[0] = '\0';
    member->address_bytes = 0;
    member->refused = NIGH_OK;
}

void peers_are_left(struct peers *peers)
{
    peers->is_struck = true;
    LOG_ERROR("this node was struck off its cluster (nigh forget): it has no rank any more, and no "
              "other node speaks to it",
              "rank=%u do=\"to have this machine join anew, remove what is in --state and start "
              "the node again\"",
              peers->config.members->self);
    for (uint32_t n = 0; n < PEERS_CONNECTIONS; n++) {
        if (peers->connections[n].fd >= 0) {
            peers_end_connection(peers, &peers->connections[n], true);
        }
    }
    if (peers->config.struck != NULL) {
        peers->config.struck(peers->config.context);
    }
}

/* Whoever has the key could say so. Those that vote are believed in what can be decided: of a seat.
 * Another is left, as by any end of a connection. */
void peers_hear_struck(struct peers *peers, struct connection *connection)
{
    uint32_t rank = connection->rank;

    if (peers->config.views == NULL || !views_is_voter(peers->config.views, rank) ||
        peers->config.members->self < peers->config.members->listed) {
        LOG_WARN("a member says that this node was struck off, and cannot know it",
                 "rank=%u do=\"nothing: it is not believed, and its connection ended; if it comes "
                 "again, see who has the cluster key\"",
                 rank);
        peers_end_connection(peers, connection, false);
    } else {
        peers_are_left(peers);
    }
}

bool peers_is_struck(const struct peers *peers)
{
    return peers->is_struck;
}
