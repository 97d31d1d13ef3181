/* SPDX-License-Identifier: Apache-2.0 */
/* See peers.h. Whom a handshake was with: where its lanes are, and whether it is let in. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "node/peers_internal.h"

#define LOG_MODULE "peers"
#include "base/log.h"

/* ---- addresses ------------------------------------------------------------ */

/* Splits "host:port" or "[ipv6]:port"; host "*" or "" is any. */
static bool split(const char *text, char host[MEMBERS_ADDRESS_BYTES], const char **port)
{
    const char *colon = strrchr(text, ':');
    size_t length;

    if (colon == NULL || strlen(text) >= MEMBERS_ADDRESS_BYTES) {
        return false;
    }
    length = (size_t)(colon - text);
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    memcpy(host, text, length);
    host[length] = '\0';
    *port = colon + 1;
    return true;
}

nigh_status peers_look_up(const char *text, bool listens, struct sockaddr_storage *address,
                          socklen_t *bytes)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found;
    char host[MEMBERS_ADDRESS_BYTES];
    const char *port;
    bool any;

    if (!split(text, host, &port)) {
        return NIGH_INVALID;
    }
    any = listens && (host[0] == '\0' || strcmp(host, "*") == 0);
    if (any) {
        hints.ai_flags |= AI_PASSIVE;
    }
    if (getaddrinfo(any ? NULL : host, port, &hints, &found) != 0) {
        return NIGH_INVALID;
    }
    memcpy(address, found->ai_addr, found->ai_addrlen);
    *bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return NIGH_OK;
}

/* Whether what a peer's lane offers is of the fabric that ours are: the words before the ports. */
static bool is_same_fabric(const char *ours, const char *offered)
{
    size_t length = strcspn(ours, ":");

    return strcspn(offered, ":") == length && strncmp(ours, offered, length) == 0;
}

/* Where a lane of a peer listens: the host that we reached it at, or those that it offered, and the
 * port that it offered. */
static bool lane_address(int fd, const char *offered, char out[FABRIC_ADDRESS_BYTES])
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);
    char host[NI_MAXHOST];
    bool is_plain;

    is_plain = offered[0] == ':'; /* tcp: always at the host that we reached */
    offered += strcspn(offered, ":");
    if (!is_plain && offered[0] == ':' && strchr(offered + 1, ':') != NULL)
        return snprintf(out, FABRIC_ADDRESS_BYTES, "%s", offered + 1) < FABRIC_ADDRESS_BYTES;
    if (offered[0] != ':' || getpeername(fd, (struct sockaddr *)&address, &bytes) != 0 ||
        getnameinfo((struct sockaddr *)&address, bytes, host, sizeof(host), NULL, 0,
                    NI_NUMERICHOST) != 0) {
        return false;
    }
    return snprintf(out, FABRIC_ADDRESS_BYTES, strchr(host, ':') != NULL ? "[%s]%s" : "%s%s", host,
                    offered) < FABRIC_ADDRESS_BYTES;
}

/* ---- the handshake -------------------------------------------------------- */

/* Whom a handshake is with: whom we dial, else who it says that it is, which is not proved yet;
 * PEERS_NOBODY: a stranger, or one whom we know already. */
static uint32_t claimed_rank(const struct peers *peers, const struct connection *connection)
{
    const struct auth *auth = connection->auth;
    uint32_t rank = connection->rank;

    if (rank == PEERS_NOBODY && auth->peer.incarnation != 0 &&
        auth->peer.rank < peers->config.members->count &&
        auth->peer.rank != peers->config.members->self &&
        peers->members[auth->peer.rank].peer.dials == auth->dials) {
        rank = auth->peer.rank;
    }
    return rank != PEERS_NOBODY && peers->members[rank].peer.state == PEER_UP ? PEERS_NOBODY : rank;
}

/* About a handshake that ended so: for whoever runs the nodes. */
static const char *mend_of_handshake(nigh_status status)
{
    switch (status) {
    case NIGH_DENIED:
        return "give all nodes the same --cluster-key, and let nobody else reach the control port";
    case NIGH_VERSION: return "run the same release of nighd at all nodes";
    case NIGH_INVALID:
        return "give all nodes the same list (--join), each its own --member, and all a --state or "
               "none";
    case NIGH_NOT_FOUND: return "give all nodes the same --directory, or none";
    default:
        return "let nobody but the nodes reach the control port; run the same nighd at all nodes";
    }
}

void peers_count_refusal(struct peers *peers, const struct connection *connection)
{
    const struct auth *auth = connection->auth;
    uint32_t rank = claimed_rank(peers, connection);
    struct member *member = rank != PEERS_NOBODY ? &peers->members[rank] : NULL;
    bool first = member != NULL && !member->complained;

    switch (auth->status) {
    case NIGH_DENIED: peers->counters.refused_key++; break;
    case NIGH_VERSION: peers->counters.refused_version++; break;
    case NIGH_INVALID:
    case NIGH_NOT_FOUND: peers->counters.refused_members++; break;
    default: peers->counters.refused_protocol++; break;
    }
    if (member != NULL) {
        member->refused = auth->status;
        member->complained = true;
    }
    if (first) { /* a member is missing until somebody changes something */
        LOG_ERROR("a handshake with another node failed", "status=%s why=\"%s\" rank=%u do=\"%s\"",
                  nigh_status_name(auth->status), LOG_QUOTE(auth->why), rank,
                  mend_of_handshake(auth->status));
    } else if (connection->rank == PEERS_NOBODY) { /* whom we dial is dialled again and again */
        LOG_WARN("a handshake with another node failed", "status=%s why=\"%s\" rank=%d do=\"%s\"",
                 nigh_status_name(auth->status), LOG_QUOTE(auth->why), (int)rank,
                 mend_of_handshake(auth->status));
    }
}

/* What lanes are told of it; false: nobody can dial what it offers. */
static bool read_offer(const struct peers *peers, const struct connection *connection,
                       struct link_peer *info)
{
    const struct auth *auth = connection->auth;

    *info = (struct link_peer){
        .rank = auth->peer.rank,
        .incarnation = auth->peer.incarnation,
        .dials = auth->dials,
        .lanes = auth->offer.lanes,
        .bulk_endpoints = max_u32(peers->offer.bulk_endpoints, auth->offer.bulk_endpoints),
        .region_endpoints = max_u32(peers->offer.region_endpoints, auth->offer.region_endpoints),
        .space_endpoints = min_u32(peers->offer.space_endpoints, auth->offer.space_endpoints),
        .version = auth->version,
    };
    memcpy(info->session, auth->session, sizeof(info->session));
    for (uint32_t lane = 0; lane < auth->offer.lanes; lane++) {
        const char *offered = auth->offer.addresses[lane];

        if (!is_same_fabric(peers->offer.addresses[0], offered) ||
            !lane_address(connection->fd, offered, info->addresses[lane])) {
            return false;
        }
    }
    return true;
}

/* It has the key, and is not let in for all that: nothing of what is known of the member changes.
 */
static void refuse_member(struct peers *peers, struct connection *connection, nigh_status status,
                          const char *why)
{
    const struct auth *auth = connection->auth;
    uint32_t rank = claimed_rank(peers, connection);

    peers->counters.refused_members++;
    if (rank != PEERS_NOBODY) {
        peers->members[rank].refused = status;
    }
    LOG_WARN("refused a node",
             "rank=%u incarnation=%u why=\"%s\" do=\"change at that node what why says; of two "
             "processes of one rank stop the one that is not wanted\"",
             auth->peer.rank, auth->peer.incarnation, LOG_QUOTE(why));
    connection->rank = PEERS_NOBODY;
    peers_drop_connection(peers, connection);
}

/* Whom a seat is, as far as known here; NULL: not at all. What was decided goes first; who just
 * came may be the wrong one, and keeps others out no longer than it lives. */
static const char *whose_seat(const struct peers *peers, uint32_t rank,
                              char decided[AGREED_ADDRESS_BYTES])
{
    const char *told = peers->config.members->addresses[rank];
    const struct member *member = &peers->members[rank];

    if (peers->config.views != NULL && views_seat_of(peers->config.views, rank, decided)) {
        return decided;
    }
    if (told[0] != '\0') {
        return told;
    }
    return member->text[0] != '\0' && member->peer.state != PEER_DEAD ? member->text : NULL;
}

/* Two nodes may have one seat: by a copy of a directory, or as one was given it by a cluster that
 * began anew since. The later start must not take it from whose it is. */
static bool is_anothers_seat(const struct peers *peers, const struct auth *auth)
{
    char decided[AGREED_ADDRESS_BYTES];
    const char *whose;

    if (auth->dials || auth->peer.rank < peers->config.members->listed) {
        return false;
    }
    whose = whose_seat(peers, auth->peer.rank, decided);
    return whose != NULL && strcmp(whose, auth->offer.member) != 0;
}

/* NULL: it is the member that it says, as far as that can be known before it is let in. */
static const char *why_not(const struct peers *peers, const struct connection *connection,
                           struct link_peer *info, nigh_status *status)
{
    const struct auth *auth = connection->auth;

    /* The higher rank dials: whoever comes the other way is not who it says. */
    if (auth->peer.rank >= peers->config.members->count ||
        peers->members[auth->peer.rank].peer.dials != auth->dials) {
        *status = NIGH_INVALID;
        return "its rank is another's";
    }
    if (is_anothers_seat(peers, auth)) {
        *status = NIGH_EXISTS;
        return "its rank was given to a node at another address: it has that one's directory "
               "(--state), or one of an earlier cluster; give it an empty one";
    }
    *status = NIGH_UNSUPPORTED;
    return read_offer(peers, connection, info)
               ? NULL
               : "it offers addresses of another fabric, or none: give all nodes the same --fabric";
}

void peers_proved(struct peers *peers, struct connection *connection)
{
    const struct auth *auth = connection->auth;
    struct link_peer info;
    struct member *member;
    struct peer_actions actions;
    nigh_status status;
    const char *why;
    uint32_t before;

    if (auth->peer.rank == AUTH_JOINER) {
        peers_join(peers, connection);
        return;
    }
    why = why_not(peers, connection, &info, &status);
    connection->proved = true;
    if (!auth->dials) {
        peers->handshakes--;
        peers->counters.accepted++;
    }
    if (peers_rank_is_struck(peers, auth->peer.rank)) {
        LOG_WARN("refused a node that was struck off",
                 "rank=%u address=%s do=\"at that node remove what is in its --state, and start it "
                 "again: it joins with a new rank\"",
                 auth->peer.rank, LOG_QUOTE(auth->offer.member));
        peers_say_struck(peers, connection);
        return;
    }
    if (why != NULL) {
        if (auth->dials) {
            peer_dial_failed(&peers->members[connection->rank].peer, peers_jitter(), peers->now_us);
        }
        refuse_member(peers, connection, status, why);
        return;
    }
    member = &peers->members[auth->peer.rank];
    if (peer_connected(&member->peer, auth->peer.incarnation, auth->peer.life, peers->now_us,
                       &actions) != NIGH_OK) {
        refuse_member(peers, connection, NIGH_EXISTS,
                      auth->peer.incarnation == member->peer.incarnation
                          ? "another process has its rank and incarnation: start it again"
                          : "another process of its rank began later");
        return;
    }
    before = member->connection;
    connection->rank = auth->peer.rank;
    peers_learn(peers, connection->rank, connection);
    member->connection = peers_number_of(peers, connection);
    member->info = info;
    connection->ping_us = peers->now_us;
    if (before != PEERS_NOBODY) {
        peers_drop_connection(peers, &peers->connections[before]);
    }
    peers_act(peers, connection->rank, &actions);
}
