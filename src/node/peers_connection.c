/* SPDX-License-Identifier: Apache-2.0 */
/* See peers.h. A control connection: what is read from it and written to it, and its end. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/random.h"
#include "node/front_internal.h"
#include "node/peers_internal.h"

#define LOG_MODULE "peers"
#include "base/log.h"

#define PEERS_PING_US      UINT64_C(500000)
#define PEERS_HANDSHAKE_US UINT64_C(5000000)
#define PEERS_READS        16 /* messages of one connection in one turn */

/* ---- begin, end ----------------------------------------------------------- */

uint32_t peers_jitter(void)
{
    uint64_t seed;

    return random_system_seed(&seed) == NIGH_OK ? (uint32_t)seed : 0;
}

/* A child of the program may have a copy: it must not keep the port, or the peer in the dark. */
void peers_close_socket(int *fd)
{
    if (*fd >= 0) {
        (void)shutdown(*fd, SHUT_RDWR);
    }
    fd_close(fd);
}

void peers_drop_connection(struct peers *peers, struct connection *connection)
{
    if (connection->fd < 0) {
        return;
    }
    if (peers->lanes != NULL) {
        lane_unwatch(peers->lanes[0], connection->fd);
    }
    if (!connection->proved && connection->auth != NULL && !connection->auth->dials) {
        peers->handshakes--;
    }
    peers_close_socket(&connection->fd);
    free(connection->welcome);
    free(connection->auth);
    *connection = (struct connection){.fd = -1};
}

/* The connection is over, for whatever reason. */
void peers_end_connection(struct peers *peers, struct connection *connection, bool goodbye)
{
    uint32_t rank = connection->rank;
    uint32_t number = peers_number_of(peers, connection);
    bool dialled = connection->auth != NULL && connection->auth->dials && !connection->proved;
    struct peer_actions actions;

    peers_drop_connection(peers, connection);
    if (rank == PEERS_NOBODY) {
        return;
    }
    if (peers->members[rank].connection == number) {
        peers->members[rank].connection = PEERS_NOBODY;
        peer_disconnected(&peers->members[rank].peer, goodbye, peers_jitter(), peers->now_us,
                          &actions);
        peers_act(peers, rank, &actions);
    } else if (dialled) {
        peer_dial_failed(&peers->members[rank].peer, peers_jitter(), peers->now_us);
    }
}

void peers_watch(struct peers *peers, struct connection *connection, bool writable)
{
    uint64_t data = front_data(FRONT_PEER, peers_number_of(peers, connection));

    if (connection->writable == writable) {
        return;
    }
    lane_unwatch(peers->lanes[0], connection->fd);
    (void)lane_watch(peers->lanes[0], connection->fd, writable ? EPOLLIN | EPOLLOUT : EPOLLIN,
                     data);
    connection->writable = writable;
}

struct connection *peers_add_connection(struct peers *peers, int fd, bool dials, uint32_t rank)
{
    struct auth_identity self = {.rank = peers->config.members->self,
                                 .incarnation = peers->incarnation,
                                 .life = peers->life,
                                 .epoch = peers->config.members->epoch};
    uint8_t nonce[AUTH_NONCE_BYTES];
    struct connection *connection = NULL;
    int one = 1;

    for (uint32_t n = 0; n < PEERS_CONNECTIONS && connection == NULL; n++) {
        if (peers->connections[n].fd < 0) {
            connection = &peers->connections[n];
        }
    }
    if (connection == NULL || random_system_fill(nonce, sizeof(nonce)) != NIGH_OK) {
        return NULL;
    }
    *connection = (struct connection){
        .fd = fd,
        .rank = rank,
        .auth = malloc(sizeof(struct auth)),
        .deadline_us = peers->now_us + PEERS_HANDSHAKE_US,
    };
    if (connection->auth == NULL ||
        lane_watch(peers->lanes[0], fd, EPOLLIN,
                   front_data(FRONT_PEER, peers_number_of(peers, connection))) != NIGH_OK) {
        free(connection->auth);
        *connection = (struct connection){.fd = -1};
        return NULL;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    auth_begin(connection->auth, dials, peers->config.key, &self, &peers->offer,
               dials ? rank : UINT32_MAX, nonce);
    if (!dials) {
        peers->handshakes++;
    }
    return connection;
}

/* ---- bytes ---------------------------------------------------------------- */

/* Writes what there is; false: the connection is over. */
static bool flush(struct peers *peers, struct connection *connection)
{
    const uint8_t *bytes;
    uint32_t count;
    ssize_t n;

    while ((count = auth_output(connection->auth, &bytes)) > 0) {
        n = send(connection->fd, bytes, count, MSG_NOSIGNAL);
        if (n <= 0) {
            goto stuck;
        }
        auth_sent(connection->auth, (uint32_t)n);
    }
    while (connection->out_bytes > 0) {
        n = send(connection->fd, connection->out, connection->out_bytes, MSG_NOSIGNAL);
        if (n <= 0) {
            goto stuck;
        }
        connection->out_bytes -= (uint32_t)n;
        memmove(connection->out, connection->out + n, connection->out_bytes);
    }
    while (connection->welcome_sent < connection->welcome_bytes) {
        n = send(connection->fd, connection->welcome + connection->welcome_sent,
                 connection->welcome_bytes - connection->welcome_sent, MSG_NOSIGNAL);
        if (n <= 0) {
            goto stuck;
        }
        connection->welcome_sent += (uint32_t)n;
    }
    peers_watch(peers, connection, false);
    return connection->welcome == NULL;

stuck:
    if (errno != EAGAIN && errno != EINTR) {
        return false;
    }
    peers_watch(peers, connection, true);
    return true;
}

void peers_say(struct peers *peers, struct connection *connection, enum auth_message message)
{
    /* A full buffer: the peer does not read; its silence will tell. */
    if (connection->out_bytes + auth_sealed_bytes() <= sizeof(connection->out)) {
        connection->out_bytes += auth_seal(connection->auth, message, connection->sent++,
                                           connection->out + connection->out_bytes);
    }
    (void)flush(peers, connection);
}

/* Messages after the handshake; false: the connection is over. */
static bool take_messages(struct peers *peers, struct connection *connection, const uint8_t *bytes,
                          uint32_t count)
{
    while (count > 0) {
        uint32_t whole = auth_sealed_bytes();
        uint32_t step = whole - connection->in_bytes < count ? whole - connection->in_bytes : count;
        enum auth_message message;

        memcpy(connection->in + connection->in_bytes, bytes, step);
        connection->in_bytes += step;
        bytes += step;
        count -= step;
        if (connection->in_bytes < whole) {
            return true;
        }
        connection->in_bytes = 0;
        if (auth_open(connection->auth, connection->in, connection->received++, &message) !=
            NIGH_OK) {
            LOG_WARN("a control message is not authentic: its connection ends",
                     "rank=%u do=\"let nobody but the nodes reach the control port\"",
                     connection->rank);
            return false;
        }
        peer_heard(&peers->members[connection->rank].peer, peers->now_us);
        peers->members[connection->rank].leaves = message == AUTH_LEAVES;
        if (message == AUTH_BYE) {
            peers_end_connection(peers, connection, true);
            return true;
        }
        if (message == AUTH_STRUCK) {
            peers_hear_struck(peers, connection);
            return true;
        }
    }
    return true;
}

/* What came; false: the connection is over. */
static bool take_bytes(struct peers *peers, struct connection *connection, const uint8_t *bytes,
                       uint32_t count)
{
    if (connection->joins) {
        return false; /* it has nothing to say */
    }
    if (!connection->proved) {
        uint32_t taken = auth_input(connection->auth, bytes, count);

        if (connection->auth->state == AUTH_REFUSED) {
            peers_count_refusal(peers, connection);
            (void)flush(peers, connection);
            return false;
        }
        if (!flush(peers, connection)) {
            return false;
        }
        if (connection->auth->state != AUTH_DONE) {
            return true;
        }
        peers_proved(peers, connection);
        bytes += taken;
        count -= taken;
        if (connection->fd < 0 || connection->joins) {
            return count == 0;
        }
    }
    return take_messages(peers, connection, bytes, count);
}

static bool read_some(struct peers *peers, struct connection *connection)
{
    uint8_t bytes[4096];

    for (uint32_t n = 0; n < PEERS_READS && connection->fd >= 0; n++) {
        ssize_t got = recv(connection->fd, bytes, sizeof(bytes), 0);

        if (got == 0) {
            return false;
        }
        if (got < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        if (!take_bytes(peers, connection, bytes, (uint32_t)got)) {
            return false;
        }
    }
    return true;
}

static bool has_connected(struct connection *connection)
{
    int error = 0;
    socklen_t bytes = sizeof(error);

    connection->connecting = false;
    return getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0;
}

void peers_connection_ready(struct peers *peers, struct connection *connection, uint32_t events)
{
    bool good = true;

    if (connection->connecting && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) {
        good = has_connected(connection);
    }
    if (good && !connection->connecting && (events & EPOLLOUT) != 0) {
        good = flush(peers, connection);
    }
    if (good && !connection->connecting && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
        good = read_some(peers, connection);
    }
    if (!good && connection->fd >= 0) {
        peers_end_connection(peers, connection, false);
    }
}

uint64_t peers_tick_connection(struct peers *peers, struct connection *connection)
{
    if (!connection->proved) {
        if (peers->now_us < connection->deadline_us) {
            return connection->joins ? peers_tick_join(peers, connection) : connection->deadline_us;
        }
        peers_end_connection(peers, connection, false);
        return UINT64_MAX;
    }
    if (peers->now_us >= connection->ping_us) {
        connection->ping_us = peers->now_us + PEERS_PING_US;
        peers_say(peers, connection, lane_leaves(peers->lanes[0]) ? AUTH_LEAVES : AUTH_PING);
    }
    return connection->ping_us;
}
