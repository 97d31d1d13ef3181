/* SPDX-License-Identifier: Apache-2.0 */
/* See front.h. Connections until they are sessions: accepting, hellos, refusals, welcomes. What
 * happens to open sessions is in front_session.c. */
#include "node/front.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "node/closings.h"
#include "node/disposals.h"
#include "node/front_internal.h"
#include "node/peers.h"
#include "node/hello.h"

#define LOG_MODULE "front"
#include "base/log.h"

/* ---- refusals ------------------------------------------------------------- */

void front_say(int fd, uint16_t kind, nigh_status status, const char *sentence)
{
    struct session_welcome message = {
        .header = {.magic = SESSION_MAGIC, .kind = kind},
        .status = status,
        .version = SESSION_VERSION_MAX,
    };

    snprintf(message.sentence, sizeof(message.sentence), "%s", sentence);
    (void)fd_send_message(fd, &message, sizeof(message), NULL, 0);
}

/* Refuses a connection in words and closes it. What it sent and nobody read would have a reset told
 * before the words; what brings descriptors does. */
static void front_refuse(struct front *front, int *fd, nigh_status status, const char *sentence)
{
    front_say(*fd, SESSION_WELCOME, status, sentence);
    LOG_INFO("connection refused", "status=%s why=\"%s\"", nigh_status_name(status),
             LOG_QUOTE(sentence));
    closings_close(front->closings, fd);
}

/* ---- half-open connections ------------------------------------------------ */

static void front_half_close(struct front *front, struct front_half *half)
{
    lane_unwatch(front->lanes[0], half->fd);
    closings_close(front->closings, &half->fd);
}

/* A place for one more: a free one, else the oldest of those that the newcomer's uid may displace.
 */
static struct front_half *front_half_place(struct front *front, uint32_t uid)
{
    struct front_half *oldest = NULL, *oldest_own = NULL, *place = NULL;
    uint32_t own = 0;

    for (uint32_t i = 0; i < LIMIT_FRONT_HALF_OPEN; i++) {
        struct front_half *half = &front->halves[i];

        if (half->fd < 0) {
            place = half;
            continue;
        }
        if (oldest == NULL || half->deadline_us < oldest->deadline_us)
            oldest = half;
        if (half->uid != uid)
            continue;
        own++;
        if (oldest_own == NULL || half->deadline_us < oldest_own->deadline_us)
            oldest_own = half;
    }
    if (own >= LIMIT_FRONT_HALF_OPEN / 2 && uid != 0 && uid != front->config.own_uid)
        place = oldest_own;
    else if (place == NULL)
        place = oldest;
    if (place->fd >= 0)
        front_half_close(front, place);
    return place;
}

static void front_take_connection(struct front *front, int fd)
{
    struct ucred credentials = {.uid = UINT32_MAX};
    socklen_t bytes = sizeof(credentials);
    struct front_half *half;
    uint32_t number;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
        closings_close(front->closings, &fd);
        return;
    }
    half = front_half_place(front, credentials.uid);
    number = (uint32_t)(half - front->halves);
    if (lane_watch(front->lanes[0], fd, EPOLLIN, front_data(FRONT_HALF, number)) != NIGH_OK) {
        front_refuse(front, &fd, NIGH_NO_RESOURCES, "the node cannot watch one more connection");
        return;
    }
    half->fd = fd;
    half->uid = credentials.uid;
    half->deadline_us = clock_deadline_us(clock_now_us(&clock_monotonic), LIMIT_FRONT_HELLO_US);
    front_half_ready(front, number);
}

static void front_spare(struct front *front)
{
    if (front->spare_fd < 0)
        front->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Without a descriptor the connection would stay in the queue and wake the lane for ever. */
static void front_refuse_without_descriptor(struct front *front)
{
    int fd;

    fd_close(&front->spare_fd);
    fd = accept4(front->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        front_refuse(front, &fd, NIGH_NO_RESOURCES,
                     "the node has no file descriptor left; raise its RLIMIT_NOFILE");
    front_spare(front);
}

static nigh_status front_watch_door(struct front *front)
{
    nigh_status status = NIGH_OK;

    if (front->listen_fd >= 0)
        status =
            lane_watch(front->lanes[0], front->listen_fd, EPOLLIN, front_data(FRONT_LISTEN, 0));
    if (status == NIGH_OK && front->attach_fd >= 0)
        status =
            lane_watch(front->lanes[0], front->attach_fd, EPOLLIN, front_data(FRONT_ATTACH, 0));
    if (status != NIGH_OK && front->listen_fd >= 0)
        lane_unwatch(front->lanes[0], front->listen_fd); /* both, or none */
    return status;
}

/* Whether one more may come in. If not the door is shut until front_tick finds it otherwise: who
 * waits before it would wake the lane for ever. */
static bool front_may_accept(struct front *front)
{
    front_spare(front);
    if (front->spare_fd >= 0 && closings_has_place(front->closings))
        return true;
    front->is_shut = true;
    if (front->listen_fd >= 0)
        lane_unwatch(front->lanes[0], front->listen_fd);
    if (front->attach_fd >= 0)
        lane_unwatch(front->lanes[0], front->attach_fd);
    return false;
}

static void front_accept(struct front *front)
{
    for (int i = 0; i < LIMIT_FRONT_ACCEPTS && front_may_accept(front); i++) {
        int fd = accept4(front->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0) {
            front_take_connection(front, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE)
            front_refuse_without_descriptor(front);
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

/* The embedded node's own door: each message brings a connected socket. */
static void front_accept_attached(struct front *front)
{
    for (int i = 0; i < LIMIT_FRONT_ACCEPTS && front_may_accept(front); i++) {
        uint8_t byte;
        size_t size, count;
        int fd = -1;

        if (fd_recv_message(front->attach_fd, &byte, sizeof(byte), &size, &fd, 1, &count) !=
            NIGH_OK)
            return;
        if (count == 1)
            front_take_connection(front, fd);
    }
}

/* ---- hello ---------------------------------------------------------------- */

/* Finds or makes the pool that the client asks for. */
static nigh_status front_find_pool(struct front *front, const struct session_hello *hello,
                                   const struct node_peer *peer, struct pool **pool, char *sentence)
{
    struct pool_rules rules = {.owner_uid = peer->uid, .group_gid = peer->gid, .mode = 0600};
    nigh_status status;

    pool_own_name(peer->uid, rules.name);
    *pool = pools_find(front->config.pools, hello->pool[0] != '\0' ? hello->pool : rules.name);
    if (*pool != NULL) {
        front_announce_again(front, *pool);
        return NIGH_OK;
    }
    if (hello->pool[0] != '\0' && strcmp(hello->pool, rules.name) != 0) {
        snprintf(sentence, HELLO_SENTENCE_BYTES,
                 "there is no pool \"%s\"; declare it in the node's configuration", hello->pool);
        return NIGH_NOT_FOUND;
    }
    status = pools_add(front->config.pools, &rules, pool);
    if (status == NIGH_LIMIT)
        snprintf(sentence, HELLO_SENTENCE_BYTES,
                 "the node has %u pools, the most there may be; use one of them", LIMIT_POOLS);
    else if (status != NIGH_OK)
        snprintf(sentence, HELLO_SENTENCE_BYTES,
                 "the node cannot make the index of pool \"%s\" (%s); start it with fewer "
                 "--max-objects",
                 rules.name, nigh_status_string(status));
    else
        front_announce_pool(front, *pool);
    return status;
}

static nigh_status front_check_limits(const struct front *front, const struct node_peer *peer,
                                      char *sentence)
{
    const struct sessions *sessions = front->config.sessions;
    uint32_t share = sessions->capacity - sessions->capacity / 4;

    if (peer->uid != 0 && peer->uid != front->config.own_uid &&
        sessions_of_uid(sessions, peer->uid) >= share) {
        snprintf(sentence, HELLO_SENTENCE_BYTES,
                 "uid %u has %u sessions, a uid's share; close some, or raise --max-sessions",
                 peer->uid, share);
        return NIGH_LIMIT;
    }
    if (sessions->count == sessions->capacity) {
        snprintf(sentence, HELLO_SENTENCE_BYTES,
                 "the node has %u sessions, the most there may be; close some, or raise "
                 "--max-sessions",
                 sessions->capacity);
        return NIGH_LIMIT;
    }
    return NIGH_OK;
}

static void front_fill_seat(const struct front *front, struct node_session *session,
                            const struct session_hello *hello, const struct node_peer *peer)
{
    struct lane_seat *seat = &session->seat;
    uint64_t most = front->config.session_quota_bytes;

    seat->pool = session->pool->number;
    seat->uid = peer->uid;
    seat->gid = peer->gid;
    seat->pid = peer->pid;
    memcpy(seat->name, hello->name, sizeof(seat->name));
    seat->may_write = (session->rights & POOL_WRITE) != 0;
    seat->quota_bytes = hello->quota_bytes;
    if (most != 0 && (hello->quota_bytes == 0 || hello->quota_bytes > most))
        seat->quota_bytes = most;
    seat->quota_max_bytes = most;
    session->start_time = peer->start_time;
    sessions_tell_quotas(front->config.sessions, session);
}

static uint32_t front_rights(const struct pool *pool, const struct session_hello *hello,
                             const struct node_peer *peer)
{
    struct pool_peer who = {.uid = peer->uid,
                            .gid = peer->gid,
                            .groups = peer->groups,
                            .group_count = peer->group_count};
    uint32_t rights = pool_rights(&pool->rules, &who);

    if ((hello->flags & SESSION_HELLO_READ_ONLY) != 0)
        rights &= ~POOL_WRITE;
    return rights;
}

/* A hello that asks for a new session. On NIGH_OK *session has its pool, rights and memory. */
static nigh_status front_admit_new(struct front *front, const struct session_hello *hello,
                                   const struct node_peer *peer, struct node_session **session,
                                   char *sentence)
{
    struct pool *pool;
    uint32_t rights;
    nigh_status status = front_check_limits(front, peer, sentence);

    if (status == NIGH_OK)
        status = front_find_pool(front, hello, peer, &pool, sentence);
    if (status != NIGH_OK)
        return status;
    rights = front_rights(pool, hello, peer);
    if ((rights & POOL_READ) == 0) {
        snprintf(sentence, HELLO_SENTENCE_BYTES,
                 "pool \"%s\" (owner %u, mode %04o) may not be read by uid %u; ask its owner or "
                 "use your own pool",
                 pool->rules.name, pool->rules.owner_uid, pool->rules.mode, peer->uid);
        return NIGH_DENIED;
    }
    status = sessions_take(front->config.sessions, session);
    if (status != NIGH_OK) {
        snprintf(sentence, HELLO_SENTENCE_BYTES, "the node cannot make the session's memory: %s",
                 nigh_status_string(status));
        return status;
    }
    if (front->config.state != NULL)
        shared_store_relaxed(&front->config.state->next_session_id,
                             front->config.sessions->next_id);
    (*session)->pool = pool;
    (*session)->rights = rights;
    return NIGH_OK;
}

/* A hello that asks for a session of before the node's restart. */
static nigh_status front_admit_again(struct front *front, const struct session_hello *hello,
                                     const struct node_peer *peer, struct node_session **out,
                                     char *sentence)
{
    struct node_session *session = sessions_find(front->config.sessions, hello->session);
    uint8_t difference = 0;

    if (session != NULL) {
        for (size_t i = 0; i < sizeof(session->token); i++)
            difference |= session->token[i] ^ hello->token[i];
    }
    if (session == NULL || difference != 0 || session->state == NODE_SESSION_CLOSING ||
        session->seat.uid != peer->uid || session->seat.pid != peer->pid) {
        snprintf(sentence, HELLO_SENTENCE_BYTES,
                 "the node has no such session to resume; open a new one");
        return NIGH_NOT_FOUND;
    }
    if (session->state != NODE_SESSION_KEPT) {
        snprintf(sentence, HELLO_SENTENCE_BYTES,
                 "the session's former connection has not ended yet; try again");
        return NIGH_BUSY;
    }
    if (sessions_make_doorbells(front->config.sessions, session) != NIGH_OK) {
        snprintf(sentence, HELLO_SENTENCE_BYTES,
                 "the node has no file descriptor left; raise its RLIMIT_NOFILE");
        return NIGH_NO_RESOURCES;
    }
    session->state = NODE_SESSION_RESUMING;
    session->seat.gid = peer->gid;
    *out = session;
    return NIGH_OK;
}

static void front_act_on_hello(struct front *front, struct front_half *half,
                               const struct session_hello *hello, uint16_t version)
{
    char sentence[HELLO_SENTENCE_BYTES] = "";
    struct node_session *session = NULL;
    struct node_peer peer;
    nigh_status status = node_peer_of(half->fd, &peer);

    if (status != NIGH_OK) {
        front_refuse(front, &half->fd, status, "the node cannot learn who you are from the kernel");
        return;
    }
    if ((hello->flags & SESSION_HELLO_RESUME) != 0)
        status = front_admit_again(front, hello, &peer, &session, sentence);
    else
        status = front_admit_new(front, hello, &peer, &session, sentence);
    if (status != NIGH_OK) {
        front_refuse(front, &half->fd, status, sentence);
        node_peer_fini(&peer);
        return;
    }
    session->seat.version = version;
    session->seat.is_low = (hello->flags & SESSION_HELLO_LOW) != 0;
    session->socket_fd = half->fd;
    half->fd = -1;
    if (session->pidfd < 0) {
        session->pidfd = peer.pidfd;
        peer.pidfd = -1;
    }
    if (session->state == NODE_SESSION_OPENING)
        front_fill_seat(front, session, hello, &peer);
    session->seat.socket_fd = session->socket_fd;
    node_peer_fini(&peer);
    front_tell_lanes(front, session);
}

void front_half_ready(struct front *front, uint32_t number)
{
    struct front_half *half = &front->halves[number];
    uint8_t bytes[LIMIT_SESSION_MESSAGE_BYTES];
    char sentence[HELLO_SENTENCE_BYTES] = "";
    struct session_hello hello;
    size_t size = 0, fds;
    uint16_t version;
    nigh_status status;
    bool brings;

    if (half->fd < 0)
        return;
    status = fd_peek_message(half->fd, bytes, sizeof(bytes), &size, &brings);
    if (status == NIGH_BUSY)
        return;
    lane_unwatch(front->lanes[0], half->fd);
    if (status == NIGH_CLOSED) {
        closings_close(front->closings, &half->fd);
        return;
    }
    status = brings ? NIGH_PROTOCOL
                    : fd_recv_message(half->fd, bytes, sizeof(bytes), &size, NULL, 0, &fds);
    if (status != NIGH_OK) {
        front_refuse(front, &half->fd, NIGH_PROTOCOL,
                     "the first message is too long or brings descriptors; connect with libnigh");
        return;
    }
    status = hello_read(bytes, size, &hello, &version, sentence);
    if (status != NIGH_OK) {
        front_refuse(front, &half->fd, status, sentence);
        return;
    }
    front_act_on_hello(front, half, &hello, version);
}

/* ---- what lane 0 calls ---------------------------------------------------- */

static void front_ready(void *context, uint64_t data, uint32_t events)
{
    struct front *front = context;
    uint32_t number = (uint32_t)data;

    switch ((enum front_source)(data >> 32)) {
    case FRONT_LISTEN: front_accept(front); break;
    case FRONT_ATTACH: front_accept_attached(front); break;
    case FRONT_HALF: front_half_ready(front, number); break;
    case FRONT_SESSION: front_session_ready(front, number, events); break;
    case FRONT_PIDFD: front_session_died(front, number); break;
    case FRONT_PEER: peers_ready(front->peers, number, events); break;
    }
}

/* What could not be closed is tried again. Whether something cannot still. */
static bool front_turn(struct front *front)
{
    bool waits = disposals_turn(front->disposals);

    waits = closings_turn(front->closings) || waits;
    front_spare(front);
    if (front->is_shut && front->spare_fd >= 0 && closings_has_place(front->closings))
        front->is_shut = front_watch_door(front) != NIGH_OK;
    return waits || front->is_shut || front->spare_fd < 0;
}

static uint64_t front_tick(void *context, uint64_t now_us)
{
    struct front *front = context;
    uint64_t due_us = UINT64_MAX;

    for (uint32_t i = 0; i < LIMIT_FRONT_HALF_OPEN; i++) {
        struct front_half *half = &front->halves[i];

        if (half->fd >= 0 && half->deadline_us <= now_us) {
            LOG_INFO("connection without a hello closed", "uid=%u", half->uid);
            front_half_close(front, half);
        } else if (half->fd >= 0) {
            due_us = min_u64(due_us, half->deadline_us);
        }
    }
    if (front_turn(front))
        due_us = min_u64(due_us, now_us + LIMIT_DISPOSAL_LOOK_US);
    if (front->peers != NULL)
        due_us = min_u64(due_us, peers_tick(front->peers, now_us));
    /* A connection that comes meanwhile gets at most twice its time. */
    return min_u64(due_us, now_us + LIMIT_FRONT_HELLO_US);
}

/* ---- open, fini ----------------------------------------------------------- */

void front_init(struct front *front, const struct front_config *config)
{
    memset(front, 0, sizeof(*front));
    front->config = *config;
    front->listen_fd = front->attach_fd = front->spare_fd = -1;
    for (uint32_t i = 0; i < LIMIT_FRONT_HALF_OPEN; i++)
        front->halves[i].fd = -1;
    front->guest.context = front;
    front->guest.ready = front_ready;
    front->guest.mail = front_mail;
    front->guest.tick = front_tick;
}

/* The deaths of processes whose sessions wait for them to come back. */
static nigh_status front_watch_kept(struct front *front)
{
    struct sessions *sessions = front->config.sessions;

    for (uint32_t i = 0; i < sessions->capacity; i++) {
        struct node_session *session = &sessions->slots[i];
        nigh_status status = NIGH_OK;

        if (session->state == NODE_SESSION_KEPT && session->pidfd >= 0)
            status =
                lane_watch(front->lanes[0], session->pidfd, EPOLLIN, front_data(FRONT_PIDFD, i));
        if (status != NIGH_OK)
            return status;
    }
    return NIGH_OK;
}

nigh_status front_open(struct front *front, struct lane **lanes, int listen_fd)
{
    front->lanes = lanes;
    front->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (front->spare_fd < 0 ||
        disposals_create(front->config.own_uid, &front->disposals) != NIGH_OK ||
        closings_create(LIMIT_FRONT_HALF_OPEN + front->config.sessions->capacity,
                        &front->closings) != NIGH_OK)
        return NIGH_NO_RESOURCES;
    if (listen_fd >= 0) {
        nigh_status status = lane_watch(lanes[0], listen_fd, EPOLLIN, front_data(FRONT_LISTEN, 0));

        if (status != NIGH_OK)
            return status;
        front->listen_fd = listen_fd;
    }
    return front_watch_kept(front);
}

nigh_status front_open_door(struct front *front, int *door_fd)
{
    int pair[2];
    nigh_status status;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return status_from_errno(errno);
    status = lane_watch(front->lanes[0], pair[0], EPOLLIN, front_data(FRONT_ATTACH, 0));
    if (status != NIGH_OK) {
        fd_close(&pair[0]);
        fd_close(&pair[1]);
        return status;
    }
    front->attach_fd = pair[0];
    *door_fd = pair[1];
    return NIGH_OK;
}

nigh_status front_attach(int door_fd, int socket_fd)
{
    uint8_t byte = 1;
    nigh_status status = fd_send_message(door_fd, &byte, sizeof(byte), &socket_fd, 1);

    if (status == NIGH_OK)
        fd_close(&socket_fd);
    return status;
}

void front_fini(struct front *front)
{
    struct sessions *sessions = front->config.sessions; /* NULL: it was never begun */

    front_pairs_fini(front);
    for (uint32_t i = 0; i < LIMIT_FRONT_HALF_OPEN; i++)
        closings_close(front->closings, &front->halves[i].fd);
    for (uint32_t i = 0; sessions != NULL && i < sessions->capacity; i++)
        closings_close(front->closings, &sessions->slots[i].socket_fd);
    fd_close(&front->listen_fd);
    fd_close(&front->attach_fd);
    fd_close(&front->spare_fd);
    disposals_destroy(front->disposals);
    closings_destroy(front->closings);
}
