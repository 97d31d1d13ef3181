/* SPDX-License-Identifier: Apache-2.0 */
/* See peers.h. */
#include "node/peers.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

#define LOG_MODULE "peers"
#include "base/log.h"

#define PEERS_PING_US      UINT64_C(500000)
#define PEERS_SILENCE_US   UINT64_C(2000000)
#define PEERS_HANDSHAKE_US UINT64_C(5000000)
#define PEERS_CONNECTIONS  (LIMIT_NODES + LIMIT_PEER_HANDSHAKES)
#define PEERS_LISTEN       UINT32_MAX /* the number of the listening socket */
#define PEERS_NOBODY       UINT32_MAX
#define PEERS_BACKLOG      64
#define PEERS_READS        16               /* messages of one connection in one turn */
#define PEERS_REST_US      UINT64_C(100000) /* nothing is taken in when descriptors ran out */

struct connection {
    int fd; /* -1: free */
    bool connecting;
    bool writable; /* watched for it */
    uint32_t rank; /* of whom we dial, or who proved to be it; PEERS_NOBODY: not known yet */
    struct auth *auth;
    bool proved;
    uint64_t deadline_us; /* of the handshake */
    uint64_t ping_us;
    uint64_t sent; /* messages */
    uint64_t received;
    uint8_t in[64];
    uint32_t in_bytes;
    uint8_t out[256];
    uint32_t out_bytes;
};

struct member {
    struct peer peer;
    uint32_t connection; /* of peer.connected; PEERS_NOBODY */
    struct sockaddr_storage address;
    socklen_t address_bytes;
    struct link_peer info; /* as it was last up */
    uint64_t owed_dead;    /* lanes that must still be told that it is dead */
    uint64_t owed;         /* lanes that must still be told how it is now */
    bool complained;       /* of its last refusal, in the log */
    nigh_status refused;   /* why the last handshake failed since it was up; NIGH_OK: none did */
};

struct peers {
    struct peers_config config;
    uint32_t incarnation;
    uint32_t life;
    struct lane **lanes;
    uint32_t lane_count;
    struct auth_offer offer;
    int listen_fd;
    uint64_t listen_us;  /* when it is watched again; 0: it is */
    uint32_t handshakes; /* accepted connections that have not proved themselves */
    uint64_t now_us;
    struct peers_counters counters;
    struct member members[LIMIT_NODES];
    struct connection connections[PEERS_CONNECTIONS];
};

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

static nigh_status look_up(const char *text, bool listens, struct sockaddr_storage *address,
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

/* ---- create, destroy ------------------------------------------------------ */

static nigh_status listen_on(struct peers *peers, char *why, size_t why_bytes)
{
    const struct members *members = peers->config.members;
    const char *text =
        peers->config.listen[0] != '\0' ? peers->config.listen : members->addresses[members->self];
    struct sockaddr_storage address;
    socklen_t bytes;
    int one = 1, error;

    if (look_up(text, true, &address, &bytes) != NIGH_OK) {
        snprintf(why, why_bytes, "cannot look up \"%s\" to listen for other nodes; give host:port",
                 text);
        return NIGH_INVALID;
    }
    peers->listen_fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (peers->listen_fd < 0) {
        snprintf(why, why_bytes, "no socket to listen for other nodes");
        return NIGH_NO_RESOURCES;
    }
    (void)setsockopt(peers->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(peers->listen_fd, (struct sockaddr *)&address, bytes) != 0 ||
        listen(peers->listen_fd, PEERS_BACKLOG) != 0) {
        error = errno;
        snprintf(why, why_bytes,
                 "cannot listen for other nodes on %s: %s; the address must be this machine's, "
                 "and the port free",
                 text, strerror(error));
        return error == EADDRINUSE ? NIGH_BUSY : NIGH_INVALID;
    }
    return NIGH_OK;
}

static nigh_status look_members_up(struct peers *peers, char *why, size_t why_bytes)
{
    const struct members *members = peers->config.members;

    for (uint32_t rank = 0; rank < members->count; rank++) {
        struct member *member = &peers->members[rank];

        if (look_up(members->addresses[rank], false, &member->address, &member->address_bytes) !=
            NIGH_OK) {
            snprintf(why, why_bytes, "cannot look up the member \"%s\"; give its address",
                     members->addresses[rank]);
            return NIGH_INVALID;
        }
    }
    return NIGH_OK;
}

nigh_status peers_create(const struct peers_config *config, struct peers **out, char *why,
                         size_t why_bytes)
{
    struct peers *peers = calloc(1, sizeof(*peers));
    uint64_t now_us = clock_now_us(&clock_monotonic);
    nigh_status status;

    if (peers == NULL) {
        return NIGH_NO_RESOURCES;
    }
    peers->config = *config;
    peers->listen_fd = -1;
    for (uint32_t n = 0; n < PEERS_CONNECTIONS; n++) {
        peers->connections[n].fd = -1;
    }
    for (uint32_t rank = 0; rank < LIMIT_NODES; rank++) {
        peers->members[rank].connection = PEERS_NOBODY;
        peer_init(&peers->members[rank].peer, rank < config->members->self, config->dead_us,
                  PEERS_SILENCE_US, now_us);
    }
    status = random_system_fill((uint8_t *)&peers->life, sizeof(peers->life));
    if (status != NIGH_OK) {
        snprintf(why, why_bytes, "the system gives no random numbers");
    }
    if (status == NIGH_OK) {
        status = look_members_up(peers, why, why_bytes);
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
    peers->incarnation = incarnation;
    peers->lanes = lanes;
    peers->lane_count = lane_count;
    peers->offer = *offer;
    return lane_watch(lanes[0], peers->listen_fd, EPOLLIN, front_data(FRONT_PEER, PEERS_LISTEN));
}

/* A child of the program may have a copy: it must not keep the port, or the peer in the dark. */
static void close_socket(int *fd)
{
    if (*fd >= 0) {
        (void)shutdown(*fd, SHUT_RDWR);
    }
    fd_close(fd);
}

static void drop_connection(struct peers *peers, struct connection *connection)
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
    close_socket(&connection->fd);
    free(connection->auth);
    *connection = (struct connection){.fd = -1};
}

void peers_destroy(struct peers *peers)
{
    if (peers == NULL) {
        return;
    }
    for (uint32_t n = 0; n < PEERS_CONNECTIONS; n++) {
        drop_connection(peers, &peers->connections[n]);
    }
    close_socket(&peers->listen_fd);
    free(peers);
}

void peers_in_child(struct peers *peers)
{
    for (uint32_t n = 0; n < PEERS_CONNECTIONS; n++) {
        fd_close(&peers->connections[n].fd);
    }
    fd_close(&peers->listen_fd);
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

static void act(struct peers *peers, uint32_t rank, const struct peer_actions *actions)
{
    struct member *member = &peers->members[rank];
    uint64_t all = peers->lane_count == 64 ? UINT64_MAX : (UINT64_C(1) << peers->lane_count) - 1;

    if (actions->dead) {
        peers->counters.deaths++;
        LOG_INFO("a member is dead", "rank=%u address=%s", rank,
                 peers->config.members->addresses[rank]);
        member->owed_dead |= all;
    }
    if (actions->lost) {
        LOG_INFO("a member is lost", "rank=%u address=%s", rank,
                 peers->config.members->addresses[rank]);
    }
    if (actions->up) {
        LOG_INFO("a member is up", "rank=%u address=%s incarnation=%u lanes=%u", rank,
                 peers->config.members->addresses[rank], member->info.incarnation,
                 member->info.lanes);
        member->complained = false;
        member->refused = NIGH_OK;
    }
    if (actions->lost || actions->up) {
        member->owed |= all;
    }
    pay(peers, rank);
}

/* ---- connections ---------------------------------------------------------- */

static uint32_t number_of(const struct peers *peers, const struct connection *connection)
{
    return (uint32_t)(connection - peers->connections);
}

static uint32_t jitter(void)
{
    uint64_t seed;

    return random_system_seed(&seed) == NIGH_OK ? (uint32_t)seed : 0;
}

/* The connection is over, for whatever reason. */
static void end_connection(struct peers *peers, struct connection *connection, bool goodbye)
{
    uint32_t rank = connection->rank;
    uint32_t number = number_of(peers, connection);
    bool dialled = connection->auth != NULL && connection->auth->dials && !connection->proved;
    struct peer_actions actions;

    drop_connection(peers, connection);
    if (rank == PEERS_NOBODY) {
        return;
    }
    if (peers->members[rank].connection == number) {
        peers->members[rank].connection = PEERS_NOBODY;
        peer_disconnected(&peers->members[rank].peer, goodbye, jitter(), peers->now_us, &actions);
        act(peers, rank, &actions);
    } else if (dialled) {
        peer_dial_failed(&peers->members[rank].peer, jitter(), peers->now_us);
    }
}

static void watch(struct peers *peers, struct connection *connection, bool writable)
{
    uint64_t data = front_data(FRONT_PEER, number_of(peers, connection));

    if (connection->writable == writable) {
        return;
    }
    lane_unwatch(peers->lanes[0], connection->fd);
    (void)lane_watch(peers->lanes[0], connection->fd, writable ? EPOLLIN | EPOLLOUT : EPOLLIN,
                     data);
    connection->writable = writable;
}

static struct connection *add_connection(struct peers *peers, int fd, bool dials, uint32_t rank)
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
                   front_data(FRONT_PEER, number_of(peers, connection))) != NIGH_OK) {
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

/* Out of descriptors: the queue would keep the lane awake, so it is left alone for a while. */
static void rest(struct peers *peers, int error)
{
    LOG_WARN("cannot take connections of other nodes in", "errno=%d", error);
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
    drop_connection(peers, idle);
}

static void on_listen(struct peers *peers)
{
    int fd = accept4(peers->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            rest(peers, errno);
        }
        return;
    }
    if (peers->handshakes == LIMIT_PEER_HANDSHAKES) {
        make_room(peers);
    }
    if (add_connection(peers, fd, false, PEERS_NOBODY) == NULL) {
        fd_close(&fd);
    }
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
    connection = add_connection(peers, fd, true, rank);
    if (connection == NULL) {
        goto failed;
    }
    connection->connecting = true;
    watch(peers, connection, true);
    return;

failed:
    fd_close(&fd);
    peer_dial_failed(&member->peer, jitter(), peers->now_us);
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

static void count_refusal(struct peers *peers, const struct connection *connection)
{
    const struct auth *auth = connection->auth;
    uint32_t rank = claimed_rank(peers, connection);
    struct member *member = rank != PEERS_NOBODY ? &peers->members[rank] : NULL;
    bool first = member != NULL && !member->complained;

    switch (auth->status) {
    case NIGH_DENIED: peers->counters.refused_key++; break;
    case NIGH_VERSION: peers->counters.refused_version++; break;
    case NIGH_INVALID: peers->counters.refused_members++; break;
    default: peers->counters.refused_protocol++; break;
    }
    if (member != NULL) {
        member->refused = auth->status;
        member->complained = true;
    }
    if (first) { /* a member is missing until somebody changes something */
        LOG_ERROR("a handshake with another node failed", "status=%s why=\"%s\" rank=%u",
                  nigh_status_name(auth->status), auth->why, rank);
    } else if (connection->rank == PEERS_NOBODY) { /* whom we dial is dialled again and again */
        LOG_WARN("a handshake with another node failed", "status=%s why=\"%s\" rank=%d",
                 nigh_status_name(auth->status), auth->why, (int)rank);
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
    LOG_WARN("refused a node", "rank=%u incarnation=%u why=\"%s\"", auth->peer.rank,
             auth->peer.incarnation, why);
    connection->rank = PEERS_NOBODY;
    drop_connection(peers, connection);
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
    *status = NIGH_UNSUPPORTED;
    return read_offer(peers, connection, info)
               ? NULL
               : "it offers addresses of another fabric, or none: give all nodes the same --fabric";
}

static void proved(struct peers *peers, struct connection *connection)
{
    const struct auth *auth = connection->auth;
    struct link_peer info;
    struct member *member;
    struct peer_actions actions;
    nigh_status status;
    const char *why = why_not(peers, connection, &info, &status);
    uint32_t before;

    connection->proved = true;
    if (!auth->dials) {
        peers->handshakes--;
        peers->counters.accepted++;
    }
    if (why != NULL) {
        if (auth->dials) {
            peer_dial_failed(&peers->members[connection->rank].peer, jitter(), peers->now_us);
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
    member->connection = number_of(peers, connection);
    member->info = info;
    connection->ping_us = peers->now_us;
    if (before != PEERS_NOBODY) {
        drop_connection(peers, &peers->connections[before]);
    }
    act(peers, connection->rank, &actions);
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
    watch(peers, connection, false);
    return true;

stuck:
    if (errno != EAGAIN && errno != EINTR) {
        return false;
    }
    watch(peers, connection, true);
    return true;
}

static void say(struct peers *peers, struct connection *connection, enum auth_message message)
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
            LOG_WARN("a control message is not authentic", "rank=%u", connection->rank);
            return false;
        }
        peer_heard(&peers->members[connection->rank].peer, peers->now_us);
        if (message == AUTH_BYE) {
            end_connection(peers, connection, true);
            return true;
        }
    }
    return true;
}

/* What came; false: the connection is over. */
static bool take_bytes(struct peers *peers, struct connection *connection, const uint8_t *bytes,
                       uint32_t count)
{
    if (!connection->proved) {
        uint32_t taken = auth_input(connection->auth, bytes, count);

        if (connection->auth->state == AUTH_REFUSED) {
            count_refusal(peers, connection);
            (void)flush(peers, connection);
            return false;
        }
        if (!flush(peers, connection)) {
            return false;
        }
        if (connection->auth->state != AUTH_DONE) {
            return true;
        }
        proved(peers, connection);
        bytes += taken;
        count -= taken;
        if (connection->fd < 0) {
            return true;
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

void peers_ready(struct peers *peers, uint32_t number, uint32_t events)
{
    struct connection *connection;
    bool good = true;

    peers->now_us = clock_now_us(&clock_monotonic);
    if (number == PEERS_LISTEN) {
        on_listen(peers);
        return;
    }
    if (number >= PEERS_CONNECTIONS || peers->connections[number].fd < 0) {
        return;
    }
    connection = &peers->connections[number];
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
        end_connection(peers, connection, false);
    }
}

/* ---- time ----------------------------------------------------------------- */

static uint64_t tick_connection(struct peers *peers, struct connection *connection)
{
    if (!connection->proved) {
        if (peers->now_us < connection->deadline_us) {
            return connection->deadline_us;
        }
        end_connection(peers, connection, false);
        return UINT64_MAX;
    }
    if (peers->now_us >= connection->ping_us) {
        connection->ping_us = peers->now_us + PEERS_PING_US;
        say(peers, connection, AUTH_PING);
    }
    return connection->ping_us;
}

static uint64_t tick_member(struct peers *peers, uint32_t rank)
{
    struct member *member = &peers->members[rank];
    struct peer_actions actions;
    uint64_t due_us = peer_tick(&member->peer, peers->now_us, &actions);

    if (actions.lost && member->connection != PEERS_NOBODY) {
        drop_connection(peers, &peers->connections[member->connection]);
        member->connection = PEERS_NOBODY;
    }
    act(peers, rank, &actions);
    if (actions.dial) {
        dial(peers, rank);
    }
    if (member->owed != 0 || member->owed_dead != 0) {
        due_us = peers->now_us;
    }
    return due_us;
}

uint64_t peers_tick(struct peers *peers, uint64_t now_us)
{
    uint64_t due_us;

    peers->now_us = now_us;
    due_us = tick_listen(peers);
    for (uint32_t n = 0; n < PEERS_CONNECTIONS; n++) {
        if (peers->connections[n].fd >= 0) {
            uint64_t at_us = tick_connection(peers, &peers->connections[n]);

            due_us = at_us < due_us ? at_us : due_us;
        }
    }
    for (uint32_t rank = 0; rank < peers->config.members->count; rank++) {
        if (rank != peers->config.members->self) {
            uint64_t at_us = tick_member(peers, rank);

            due_us = at_us < due_us ? at_us : due_us;
        }
    }
    return due_us;
}

void peers_close(struct peers *peers)
{
    for (uint32_t n = 0; n < PEERS_CONNECTIONS; n++) {
        struct connection *connection = &peers->connections[n];

        if (connection->fd >= 0 && connection->proved) {
            say(peers, connection, AUTH_BYE);
        }
        drop_connection(peers, connection);
    }
}

void peers_look(const struct peers *peers, uint32_t rank, struct peers_view *view)
{
    *view = (struct peers_view){
        .rank = rank,
        .state = rank == peers->config.members->self ? PEER_UP : peers->members[rank].peer.state,
        .incarnation = rank == peers->config.members->self ? peers->incarnation
                                                           : peers->members[rank].peer.incarnation,
        .refused = peers->members[rank].refused,
        .address = peers->config.members->addresses[rank],
    };
}

const struct peers_counters *peers_counters(const struct peers *peers)
{
    return &peers->counters;
}
