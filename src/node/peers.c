/* SPDX-License-Identifier: Apache-2.0 */
/* See peers.h. The control connections' life, the port that they come in by, and time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"
#include "node/front_internal.h"
#include "node/peers_internal.h"

#define LOG_MODULE "peers"
#include "base/log.h"

#define PEERS_BACKLOG 64
#define PEERS_REST_US UINT64_C(100000) /* nothing is taken in when descriptors ran out */

/* ---- create, destroy ------------------------------------------------------ */

nigh_status peers_bind(const char *text, int *fd, struct sockaddr_storage *address,
                       socklen_t *bytes, char *why, size_t why_bytes)
{
    int one = 1, error;

    *fd = -1;
    if (peers_look_up(text, true, address, bytes) != NIGH_OK) {
        snprintf(why, why_bytes, "cannot look up \"%s\" to listen for other nodes; give host:port",
                 text);
        return NIGH_INVALID;
    }
    *fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0) {
        snprintf(why, why_bytes, "no socket to listen for other nodes");
        return NIGH_NO_RESOURCES;
    }
    (void)setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(*fd, (struct sockaddr *)address, *bytes) != 0 || listen(*fd, PEERS_BACKLOG) != 0) {
        error = errno;
        fd_close(fd);
        snprintf(why, why_bytes,
                 "cannot listen for other nodes on %s: %s; the address must be this machine's, "
                 "and the port free",
                 text, strerror(error));
        return error == EADDRINUSE ? NIGH_BUSY : NIGH_INVALID;
    }
    return NIGH_OK;
}

static nigh_status listen_on(struct peers *peers, char *why, size_t why_bytes)
{
    const struct members *members = peers->config.members;
    const char *text =
        peers->config.listen[0] != '\0' ? peers->config.listen : members->addresses[members->self];
    struct sockaddr_storage address;
    socklen_t bytes;
    nigh_status status = peers_bind(text, &peers->listen_fd, &address, &bytes, why, why_bytes);

    if (status == NIGH_OK) {
        peers_swim_listen(peers, &address, bytes);
    }
    return status;
}

nigh_status peers_create(const struct peers_config *config, struct peers **out, char *why,
                         size_t why_bytes)
{
    struct peers *peers = calloc(1, sizeof(*peers));
    nigh_status status;

    if (peers == NULL) {
        return NIGH_NO_RESOURCES;
    }
    peers->config = *config;
    peers->listen_fd = peers->swim.fd = -1;
    for (uint32_t n = 0; n < PEERS_CONNECTIONS; n++) {
        peers->connections[n].fd = -1;
    }
    for (uint32_t rank = 0; rank < LIMIT_NODES; rank++) {
        peers->members[rank].connection = PEERS_NOBODY;
    }
    status = random_system_fill((uint8_t *)&peers->life, sizeof(peers->life));
    if (status != NIGH_OK) {
        snprintf(why, why_bytes, "the system gives no random numbers");
    }
    if (status == NIGH_OK) {
        status = peers_look_members_up(peers, why, why_bytes);
    }
    if (status == NIGH_OK) {
        status = listen_on(peers, why, why_bytes);
    }
    if (status != NIGH_OK) {
        peers_destroy(peers);
        return status;
    }
    *out = peers;
    return NIGH_OK;
}

nigh_status peers_open(struct peers *peers, struct lane **lanes, uint32_t lane_count,
                       uint32_t incarnation, const struct auth_offer *offer)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);

    /* Members are waited for from now on: memory may have taken longer to make than dead_us. */
    for (uint32_t rank = 0; rank < LIMIT_NODES; rank++) {
        peer_init(&peers->members[rank].peer, rank < peers->config.members->self,
                  peers->config.dead_us, PEERS_SILENCE_US, now_us);
    }
    peers->incarnation = incarnation;
    peers->lanes = lanes;
    peers->lane_count = lane_count;
    peers->offer = *offer;
    peers_swim_open(peers);
    return lane_watch(lanes[0], peers->listen_fd, EPOLLIN, front_data(FRONT_PEER, PEERS_LISTEN));
}

void peers_destroy(struct peers *peers)
{
    if (peers == NULL) {
        return;
    }
    for (uint32_t n = 0; n < PEERS_CONNECTIONS; n++) {
        peers_drop_connection(peers, &peers->connections[n]);
    }
    peers_close_socket(&peers->listen_fd);
    peers_swim_destroy(peers);
    free(peers);
}

void peers_in_child(struct peers *peers)
{
    for (uint32_t n = 0; n < PEERS_CONNECTIONS; n++) {
        fd_close(&peers->connections[n].fd);
    }
    fd_close(&peers->listen_fd);
    fd_close(&peers->swim.fd);
}

/* ---- listening ------------------------------------------------------------ */

/* Out of descriptors: the queue would keep the lane awake, so it is left alone for a while. */
static void rest(struct peers *peers, int error)
{
    LOG_WARN("cannot take connections of other nodes in",
             "errno=%d do=\"raise RLIMIT_NOFILE if errno is 24, free memory if it is 12 or 105\"",
             error);
    lane_unwatch(peers->lanes[0], peers->listen_fd);
    peers->listen_us = clock_deadline_us(peers->now_us, PEERS_REST_US);
}

static uint64_t tick_listen(struct peers *peers)
{
    if (peers->listen_us == 0) {
        return UINT64_MAX;
    }
    if (peers->now_us >= peers->listen_us) {
        bool watched = lane_watch(peers->lanes[0], peers->listen_fd, EPOLLIN,
                                  front_data(FRONT_PEER, PEERS_LISTEN)) == NIGH_OK;

        peers->listen_us = watched ? 0 : clock_deadline_us(peers->now_us, PEERS_REST_US);
    }
    return peers->listen_us == 0 ? UINT64_MAX : peers->listen_us;
}

/* Whether it has said less than another, or as little for longer. */
static bool is_idler(const struct connection *connection, const struct connection *other)
{
    bool silent = connection->auth->transcript_bytes == 0;

    if (silent != (other->auth->transcript_bytes == 0)) {
        return silent;
    }
    return connection->deadline_us < other->deadline_us;
}

/* Makes room among those that have not proved themselves. A member says at once what it has to say,
 * so a crowd of silent ones does not keep it out. */
static void make_room(struct peers *peers)
{
    struct connection *idle = NULL;

    for (uint32_t n = 0; n < PEERS_CONNECTIONS; n++) {
        struct connection *connection = &peers->connections[n];

        if (connection->fd >= 0 && !connection->proved && !connection->auth->dials &&
            (idle == NULL || is_idler(connection, idle))) {
            idle = connection;
        }
    }
    NIGH_ASSERT(idle != NULL);
    peers_drop_connection(peers, idle);
}

static void on_listen(struct peers *peers)
{
    int fd = accept4(peers->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (peers->is_struck) {
        fd_close(&fd);
        return;
    }
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            rest(peers, errno);
        }
        return;
    }
    if (peers->handshakes == LIMIT_PEER_HANDSHAKES) {
        make_room(peers);
    }
    if (peers_add_connection(peers, fd, false, PEERS_NOBODY) == NULL) {
        fd_close(&fd);
    }
}

void peers_ready(struct peers *peers, uint32_t number, uint32_t events)
{
    peers->now_us = clock_now_us(&clock_monotonic);
    if (number == PEERS_LISTEN) {
        on_listen(peers);
        return;
    }
    if (number == PEERS_DATAGRAMS) {
        peers_swim_ready(peers);
        return;
    }
    if (number >= PEERS_CONNECTIONS || peers->connections[number].fd < 0) {
        return;
    }
    peers_connection_ready(peers, &peers->connections[number], events);
}

/* ---- time ----------------------------------------------------------------- */

uint64_t peers_tick(struct peers *peers, uint64_t now_us)
{
    uint64_t due_us;

    peers->now_us = now_us;
    if (!peers->is_struck && peers_rank_is_struck(peers, peers->config.members->self)) {
        peers_are_left(peers);
    }
    due_us = min_u64(tick_listen(peers), peers_swim_tick(peers));
    for (uint32_t n = 0; n < PEERS_CONNECTIONS; n++) {
        if (peers->connections[n].fd >= 0) {
            uint64_t at_us = peers_tick_connection(peers, &peers->connections[n]);

            due_us = at_us < due_us ? at_us : due_us;
        }
    }
    for (uint32_t rank = 0; rank < peers->config.members->count; rank++) {
        if (rank != peers->config.members->self) {
            uint64_t at_us = peers_tick_member(peers, rank);

            due_us = at_us < due_us ? at_us : due_us;
        }
    }
    return due_us;
}

void peers_close(struct peers *peers)
{
    peers_swim_leave(peers);
    for (uint32_t n = 0; n < PEERS_CONNECTIONS; n++) {
        struct connection *connection = &peers->connections[n];

        if (connection->fd >= 0 && connection->proved) {
            peers_say(peers, connection, AUTH_BYE);
        }
        peers_drop_connection(peers, connection);
    }
}

const struct peers_counters *peers_counters(const struct peers *peers)
{
    return &peers->counters;
}
