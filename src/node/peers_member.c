/* SPDX-License-Identifier: Apache-2.0 */
/* See peers.h. A member: what lanes are told of it, and when it is dialled. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "node/peers_internal.h"

#define LOG_MODULE "peers"
#include "base/log.h"

#define PEERS_NOBODY_US UINT64_C(20000) /* between looks whether a rank is somebody's */

nigh_status peers_look_members_up(struct peers *peers, char *why, size_t why_bytes)
{
    const struct members *members = peers->config.members;

    for (uint32_t rank = 0; rank < members->count; rank++) {
        struct member *member = &peers->members[rank];

        memcpy(member->text, members->addresses[rank], sizeof(member->text));
        if (member->text[0] == '\0' || peers_look_up(member->text, false, &member->address,
                                                     &member->address_bytes) == NIGH_OK) {
            continue;
        }
        if (rank < members->listed || rank <= members->self) {
            snprintf(why, why_bytes, "cannot look up the member \"%s\"; give its address",
                     members->addresses[rank]);
            return NIGH_INVALID;
        }
        /* Of a higher rank, which dials us (peers_learn); a lower one we could never reach. */
        member->address_bytes = 0;
        LOG_WARN("the address of a member that joined cannot be looked up: it must reach us",
                 "rank=%u address=%s do=\"let this machine know that name (DNS, /etc/hosts)\"",
                 rank, member->text);
    }
    return NIGH_OK;
}

bool peers_is_member(const struct peers *peers, uint32_t rank)
{
    return rank < peers->config.members->count && peers->members[rank].text[0] != '\0';
}

/* Behind the port of an address there is nothing. */
static bool read_port(const char *text, uint16_t *port)
{
    const char *colon = strrchr(text, ':');

    if (!members_is_address(text)) {
        return false;
    }
    *port = (uint16_t)strtoul(colon + 1, NULL, 10);
    return true;
}

void peers_learn(struct peers *peers, uint32_t rank, const struct connection *connection)
{
    struct member *member = &peers->members[rank];
    const char *said = connection->auth->offer.member;
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof(address);
    uint16_t port;

    if (connection->auth->dials || rank < peers->config.members->listed ||
        !read_port(said, &port) ||
        getpeername(connection->fd, (struct sockaddr *)&address, &bytes) != 0) {
        return;
    }
    if (address.ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)&address)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)&address)->sin_port = htons(port);
    }
    snprintf(member->text, sizeof(member->text), "%s", said);
    member->address = address;
    member->address_bytes = bytes;
}

/* ---- telling lanes -------------------------------------------------------- */

/* Tells one lane; false: its mailbox is full, and it is told later. */
static bool tell(struct peers *peers, uint32_t lane, enum lane_mail kind,
                 const struct member *member, uint32_t rank)
{
    struct link_peer *info = NULL;

    if (kind == LANE_PEER_UP) {
        info = malloc(sizeof(*info));
        if (info == NULL) {
            return false;
        }
        *info = member->info;
    }
    if (!lane_tell_peer(peers->lanes[lane], kind, rank, info)) {
        free(info);
        return false;
    }
    return true;
}

/* What lanes are owed of a member, in order. */
static void pay(struct peers *peers, uint32_t rank)
{
    struct member *member = &peers->members[rank];

    for (uint32_t lane = 0; lane < peers->lane_count; lane++) {
        uint64_t bit = UINT64_C(1) << lane;

        if ((member->owed_dead & bit) != 0 && !tell(peers, lane, LANE_PEER_DEAD, member, rank)) {
            continue;
        }
        member->owed_dead &= ~bit;
        if ((member->owed & bit) != 0 &&
            tell(peers, lane, member->peer.state == PEER_UP ? LANE_PEER_UP : LANE_PEER_LOST, member,
                 rank)) {
            member->owed &= ~bit;
        }
    }
}

/* Only who joined can be struck off: the place of one that is listed waits for it. */
static const char *remedy_of_dead(const struct peers *peers, uint32_t rank)
{
    return peers->config.views != NULL && rank >= peers->config.members->listed
               ? "see to that machine, its nighd and the network (nigh nodes), or its --join or "
                 "--member differ; one that is gone for good: nigh forget"
               : "see to that machine, its nighd and the network (nigh nodes), or its --join or "
                 "--member differ; one that is gone for good: start another at that address, with "
                 "the same --member";
}

void peers_act(struct peers *peers, uint32_t rank, const struct peer_actions *actions)
{
    struct member *member = &peers->members[rank];
    uint64_t all = peers_all_lanes(peers->lane_count);

    if (actions->dead) {
        peers->counters.deaths++;
        LOG_WARN("a member is dead", "rank=%u address=%s do=\"%s\"", rank,
                 peers->members[rank].text, remedy_of_dead(peers, rank));
        member->owed_dead |= all;
        if (peers->config.views != NULL) {
            views_dead(peers->config.views, rank);
        }
    }
    if (actions->lost) {
        LOG_WARN("a member is lost",
                 "rank=%u address=%s do=\"nothing if it is back in seconds; else see to that "
                 "machine, its nighd and the network\"",
                 rank, peers->members[rank].text);
    }
    if (actions->up) {
        LOG_INFO("a member is up", "rank=%u address=%s incarnation=%u lanes=%u", rank,
                 peers->members[rank].text, member->info.incarnation, member->info.lanes);
        member->complained = false;
        member->refused = NIGH_OK;
        member->leaves = false; /* until it says so */
    }
    if (actions->lost || actions->up) {
        member->owed |= all;
    }
    pay(peers, rank);
}

static void dial(struct peers *peers, uint32_t rank)
{
    struct member *member = &peers->members[rank];
    int fd = socket(member->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct connection *connection;

    peers->counters.dialled++;
    if (fd < 0 || (connect(fd, (struct sockaddr *)&member->address, member->address_bytes) != 0 &&
                   errno != EINPROGRESS)) {
        goto failed;
    }
    connection = peers_add_connection(peers, fd, true, rank);
    if (connection == NULL) {
        goto failed;
    }
    connection->connecting = true;
    peers_watch(peers, connection, true);
    return;

failed:
    fd_close(&fd);
    peer_dial_failed(&member->peer, peers_jitter(), peers->now_us);
}

/* Who joined before this node began comes back by itself, and is waited for as all are; where this
 * node does not know it, what is agreed tells that the rank was given. That is the latest with a
 * lease alone: what a voter reads in its own log may be long over. */
static bool may_be_somebodys(const struct peers *peers, uint32_t rank)
{
    struct agree_look look;

    if (peers->config.views == NULL || peers->now_us >= peers->members[rank].peer.dead_us) {
        return false;
    }
    views_look(peers->config.views, &look);
    return !look.has_lease || rank - peers->config.members->listed < look.seats;
}

/* A rank that nobody has, as far as is known here: lanes take nobody for dead. */
static uint64_t tick_nobody(struct peers *peers, uint32_t rank)
{
    struct member *member = &peers->members[rank];

    if (member->peer.state == PEER_AWAY) {
        if (peers->config.views != NULL && views_seat_of(peers->config.views, rank, member->text)) {
            return peers->now_us; /* a member, then */
        }
        if (may_be_somebodys(peers, rank)) {
            return min_u64(peers->now_us + PEERS_NOBODY_US, member->peer.dead_us);
        }
        member->peer.state = PEER_DEAD;
        member->owed_dead = peers_all_lanes(peers->lane_count);
    }
    pay(peers, rank);
    return member->owed_dead != 0 ? peers->now_us : UINT64_MAX;
}

uint64_t peers_tick_member(struct peers *peers, uint32_t rank)
{
    struct member *member = &peers->members[rank];
    struct peer_actions actions;
    uint64_t due_us = UINT64_MAX;

    if (peers_rank_is_struck(peers, rank)) {
        peers_strike(peers, rank);
    }
    if (!peers_is_member(peers, rank)) {
        return tick_nobody(peers, rank);
    }
    due_us = peer_tick(&member->peer, peers->now_us, &actions);
    if (actions.lost && member->connection != PEERS_NOBODY) {
        peers_drop_connection(peers, &peers->connections[member->connection]);
        member->connection = PEERS_NOBODY;
    }
    peers_act(peers, rank, &actions);
    if (actions.dial && !peers->is_struck) {
        dial(peers, rank);
    } else if (actions.dial) {
        peer_dial_failed(&member->peer, peers_jitter(), peers->now_us);
    }
    if (member->owed != 0 || member->owed_dead != 0) {
        due_us = peers->now_us;
    }
    return due_us;
}

void peers_look(const struct peers *peers, uint32_t rank, struct peers_view *view)
{
    *view = (struct peers_view){
        .rank = rank,
        .state = rank == peers->config.members->self ? PEER_UP : peers->members[rank].peer.state,
        .incarnation = rank == peers->config.members->self ? peers->incarnation
                                                           : peers->members[rank].peer.incarnation,
        .refused = peers->members[rank].refused,
        .leaves = rank == peers->config.members->self
                      ? lane_leaves(peers->lanes[0])
                      : peers->members[rank].leaves && peers->members[rank].peer.state == PEER_UP,
        .life = peers_swim_state(peers, rank),
        .address = peers->members[rank].text,
    };
}
