/* SPDX-License-Identifier: Apache-2.0 */
/* See front.h. Sessions from the first lane that is told of them to the last that has dropped them.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/futex.h"
#include "memory/session.h"
#include "node/closings.h"
#include "node/disposals.h"
#include "node/front_internal.h"

#define LOG_MODULE "front"
#include "base/log.h"

/* ---- lanes ---------------------------------------------------------------- */

/* Lane 0 is told directly, being driven by this thread; the others by mail. */
static void front_tell_others(struct front *front, enum lane_mail kind, uint32_t number,
                              const void *pointer)
{
    struct mailbox_message message = {.kind = kind, .number = number, .pointer = pointer};

    for (uint32_t i = 1; i < front->config.lanes; i++)
        lane_post(front->lanes[i], &message);
}

/* A lane's answer. One that lacked memory may have it later. */
static void front_pool_added(struct pool *pool, uint32_t lane, nigh_status status)
{
    if (status == NIGH_OK)
        return;
    pool->failed_lanes |= UINT64_C(1) << lane;
    LOG_ERROR(
        "lane cannot serve a pool",
        "lane=%u pool=\"%s\" status=%s do=\"free memory on the machine, or lower --max-objects\"",
        lane, LOG_QUOTE(pool->rules.name), nigh_status_name(status));
}

static void front_announce_to(struct front *front, struct pool *pool, uint32_t lane)
{
    struct mailbox_message message = {
        .kind = LANE_POOL_ADD, .number = pool->number, .pointer = &pool->indexes[lane].config};

    if (lane != 0) {
        lane_post(front->lanes[lane], &message);
        return;
    }
    front_pool_added(pool, 0, lane_pool_add(front->lanes[0], &pool->indexes[0].config, false));
}

void front_announce_pool(struct front *front, struct pool *pool)
{
    front_remember_pool(front, pool);
    for (uint32_t i = 0; i < front->config.lanes; i++)
        front_announce_to(front, pool, i);
}

void front_announce_again(struct front *front, struct pool *pool)
{
    uint64_t lanes = pool->failed_lanes;

    pool->failed_lanes = 0; /* one question at a time: its answer says */
    for (uint32_t i = 0; i < front->config.lanes; i++) {
        if ((lanes >> i & 1) != 0)
            front_announce_to(front, pool, i);
    }
}

/* ---- welcome -------------------------------------------------------------- */

static size_t front_welcome_fds(const struct front *front, const struct node_session *session,
                                int fds[SESSION_WELCOME_FDS(LIMIT_LANES)])
{
    size_t n = 0;

    fds[n++] = front->config.page_read_fd;
    fds[n++] = session->memory_fd;
    for (uint32_t i = 0; i < front->config.lanes; i++) {
        fds[n++] = session->pool->indexes[i].read_fd;
        fds[n++] = session->doorbell_fds[i];
    }
    NIGH_ASSERT(n == SESSION_WELCOME_FDS(front->config.lanes));
    return n;
}

static uint32_t front_rights_of(const struct front *front, const struct node_session *session)
{
    uint32_t places = session->seat.has_places ? SESSION_HAS_PLACES : 0;

    if (!session->seat.may_write)
        return SESSION_FETCHES | places; /* who may not write calls nobody either, but lists */
    return SESSION_MAY_WRITE | SESSION_FETCHES | SESSION_HAS_DONATIONS | SESSION_DROPS_DONATIONS |
           places | (front->services != NULL ? SESSION_HAS_PAIRS : 0);
}

static nigh_status front_send_welcome(const struct front *front, const struct node_session *session)
{
    int fds[SESSION_WELCOME_FDS(LIMIT_LANES)];
    size_t fd_count = front_welcome_fds(front, session, fds);
    struct session_welcome welcome = {
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_WELCOME},
        .status = NIGH_OK,
        .version = session->seat.version,
        .rights = front_rights_of(front, session),
        .lanes = front->config.lanes,
        .slot = session->seat.slot,
        .session = session->seat.session_id,
        .extent_bytes = front->config.extents->extent_bytes,
        .arena_bytes = LIMIT_EXTENTS * front->config.extents->extent_bytes,
        .session_bytes = session_memory_bytes(front->config.lanes),
        .spin_us = front->config.spin_us,
        .incarnation = front->config.incarnation,
    };

    _Static_assert(SESSION_WELCOME_FDS(LIMIT_LANES) <= LIMIT_SESSION_FDS,
                   "a welcome's descriptors fit one message");
    memcpy(welcome.token, session->token, sizeof(welcome.token));
    memcpy(welcome.pool, session->pool->rules.name, sizeof(welcome.pool));
    return fd_send_message(session->socket_fd, &welcome, sizeof(welcome), fds, fd_count);
}

/* ---- what survives the node ---- */

static void front_session_name(const struct node_session *session, char name[KEEPER_NAME_BYTES])
{
    snprintf(name, KEEPER_NAME_BYTES, "session-%llu", (unsigned long long)session->seat.session_id);
}

/* First the memory, then the record that makes it count. Without either the session simply does not
 * survive. */
static void front_remember(struct front *front, const struct node_session *session)
{
    const struct lane_seat *seat = &session->seat;
    struct state_session record = {
        .pool = seat->pool,
        .uid = seat->uid,
        .pid = seat->pid,
        .session_id = seat->session_id,
        .start_time = session->start_time,
        .quota_bytes = seat->quota_bytes,
        .rights = session->rights,
        .version = session->seat.version,
    };
    char name[KEEPER_NAME_BYTES];

    if (front->config.state == NULL)
        return;
    memcpy(record.token, session->token, sizeof(record.token));
    memcpy(record.name, seat->name, sizeof(record.name));
    front_session_name(session, name);
    if (keeper_store(front->config.keeper, name, session->memory_fd) == NIGH_OK)
        state_put_session(front->config.state, seat->slot, &record);
}

static void front_forget(struct front *front, const struct node_session *session)
{
    char name[KEEPER_NAME_BYTES];

    if (front->config.state == NULL)
        return;
    state_drop_session(front->config.state, session->seat.slot);
    front_session_name(session, name);
    (void)keeper_remove(front->config.keeper, name);
}

void front_remember_pool(struct front *front, const struct pool *pool)
{
    char name[KEEPER_NAME_BYTES];

    if (front->config.state == NULL)
        return;
    for (uint32_t i = 0; i < front->config.lanes; i++) {
        snprintf(name, sizeof(name), "index-%u-%u", pool->number, i);
        /* A pool may have died half made. */
        if (keeper_replace(front->config.keeper, name, pool->indexes[i].fd) != NIGH_OK)
            return;
    }
    state_put_pool(front->config.state, pool->number, &pool->rules);
}

/* Memory that was made for its calls goes with the connection. Once lane 0 takes no submissions of
 * it any more. */
static void front_bulks_end(struct front *front, const struct node_session *session)
{
    if (front->bulks != NULL)
        bulk_memories_end(front->bulks, session->seat.session_id);
}

/* ---- the end of a connection ---- */

/* Whether a session whose connection ended without a word may come back: it would be found again,
 * and its process lives and will be seen to end. */
static bool front_may_return(const struct front *front, const struct node_session *session)
{
    return front->config.state != NULL && session->state != NODE_SESSION_OPENING &&
           session->pidfd >= 0 && !node_pidfd_is_dead(session->pidfd);
}

static void front_rested(struct front *front, struct node_session *session)
{
    if (session->state != NODE_SESSION_RESTING || --session->lanes_pending > 0)
        return;
    closings_close(front->closings, &session->socket_fd);
    sessions_disconnect(session);
    session->state = NODE_SESSION_KEPT;
}

static void front_rest(struct front *front, struct node_session *session)
{
    uint32_t slot = session->seat.slot;

    lane_unwatch(front->lanes[0], session->socket_fd);
    front_pairs_end(front, session);
    session->state = NODE_SESSION_RESTING;
    session->lanes_pending = front->config.lanes;
    front_tell_others(front, LANE_SESSION_REST, slot, NULL);
    lane_session_rest(front->lanes[0], slot);
    front_bulks_end(front, session);
    front_rested(front, session);
}

static void front_end_of_file(struct front *front, struct node_session *session)
{
    bool died = node_pidfd_is_dead(session->pidfd);

    if (front_may_return(front, session)) {
        LOG_INFO("session's connection ended", "session=%llu pid=%d",
                 (unsigned long long)session->seat.session_id, session->seat.pid);
        front_rest(front, session);
        return;
    }
    front->died += died;
    LOG_INFO("session closed", "session=%llu pid=%d died=%d",
             (unsigned long long)session->seat.session_id, session->seat.pid, died);
    front_close_session(front, session, NIGH_OK, NULL);
}

/* Every lane has answered: the session is open, or it is not. */
static void front_lanes_answered(struct front *front, struct node_session *session)
{
    nigh_status status = session->lane_status;
    uint32_t slot = session->seat.slot;

    if (status == NIGH_OK)
        status = lane_watch(front->lanes[0], session->socket_fd, EPOLLIN,
                            front_data(FRONT_SESSION, slot));
    if (status == NIGH_OK && session->pidfd >= 0 && session->state == NODE_SESSION_OPENING)
        status =
            lane_watch(front->lanes[0], session->pidfd, EPOLLIN, front_data(FRONT_PIDFD, slot));
    if (status == NIGH_OK && session->state == NODE_SESSION_OPENING)
        front_remember(front, session);
    if (status == NIGH_OK) {
        status = front_send_welcome(front, session);
        if (status == NIGH_CLOSED && session->state == NODE_SESSION_RESUMING) {
            /* It has gone again: what it said before, its BYE perhaps, is there to read. */
            session->state = NODE_SESSION_OPEN;
            front_session_ready(front, slot, EPOLLIN);
            return;
        }
        if (status == NIGH_CLOSED) {
            front_end_of_file(front, session);
            return;
        }
    }
    if (status != NIGH_OK) {
        char sentence[128];

        snprintf(sentence, sizeof(sentence), "the node cannot serve one more session: %s",
                 nigh_status_string(status));
        front_close_session(front, session, status, sentence);
        return;
    }
    LOG_INFO("session open", "session=%llu pid=%d uid=%u pool=%s name=\"%s\" resumed=%d",
             (unsigned long long)session->seat.session_id, session->seat.pid, session->seat.uid,
             session->pool->rules.name, session->seat.name,
             session->state == NODE_SESSION_RESUMING);
    session->state = NODE_SESSION_OPEN;
}

void front_tell_lanes(struct front *front, struct node_session *session)
{
    bool resuming = session->state == NODE_SESSION_RESUMING;

    session->lanes_pending = front->config.lanes - 1;
    front_tell_others(front, resuming ? LANE_SESSION_RESET : LANE_SESSION_OPEN, session->seat.slot,
                      &session->seat);
    session->lane_status = resuming ? lane_session_reset(front->lanes[0], &session->seat)
                                    : lane_session_open(front->lanes[0], &session->seat);
    if (session->lanes_pending == 0)
        front_lanes_answered(front, session);
}

/* ---- the end -------------------------------------------------------------- */

/* Says in shared memory that the session is over, and wakes threads of the client that sleep. */
static void front_end_client(struct node_session *session, nigh_status status)
{
    struct session_front *shared = session_front_of(session->seat.memory);

    shared_store_release(&shared->ended, status);
    atomic_fetch_add_explicit(&shared->wake, 1, memory_order_release);
    futex_wake(&shared->wake, INT_MAX);
}

static void front_dropped(struct front *front, struct node_session *session)
{
    if (--session->lanes_pending > 0)
        return;
    closings_close(front->closings, &session->socket_fd);
    sessions_free(front->config.sessions, session);
}

void front_close_session(struct front *front, struct node_session *session, nigh_status status,
                         const char *sentence)
{
    uint32_t slot = session->seat.slot;

    if (session->state == NODE_SESSION_FREE || session->state == NODE_SESSION_CLOSING)
        return;
    /* Before any lane drops its pins, and before the client is told. */
    front_end_client(session, status != NIGH_OK ? status : NIGH_CLOSED);
    shared_fence();
    if (session->socket_fd >= 0) {
        if (status != NIGH_OK)
            front_say(session->socket_fd,
                      session->state == NODE_SESSION_OPEN ? SESSION_BYE : SESSION_WELCOME, status,
                      sentence);
        lane_unwatch(front->lanes[0], session->socket_fd);
        /* The descriptor stays until no lane may poke; the client is to see the end now. */
        (void)shutdown(session->socket_fd, SHUT_RDWR);
    }
    if (session->pidfd >= 0)
        lane_unwatch(front->lanes[0], session->pidfd);
    front_forget(front, session);
    front_pairs_end(front, session);
    session->state = NODE_SESSION_CLOSING;
    session->lanes_pending = front->config.lanes;
    front_tell_others(front, LANE_SESSION_CLOSE, slot, NULL);
    lane_session_close(front->lanes[0], slot);
    front_bulks_end(front, session);
    front_dropped(front, session);
}

void front_say_bye(struct front *front, nigh_status status, const char *sentence)
{
    struct sessions *sessions = front->config.sessions;

    for (uint32_t i = 0; i < sessions->capacity; i++) {
        struct node_session *session = &sessions->slots[i];

        if (session->state == NODE_SESSION_FREE)
            continue;
        front_end_client(session, status);
        if (session->socket_fd < 0)
            continue;
        front_say(session->socket_fd,
                  session->state == NODE_SESSION_OPENING ? SESSION_WELCOME : SESSION_BYE, status,
                  sentence);
        (void)shutdown(session->socket_fd, SHUT_RDWR);
    }
}

/* ---- messages of open sessions -------------------------------------------- */

/*
 * The descriptor of an extent that the session may have; the caller closes it. The lane that owns
 * the extent may move its memory at any moment: it first takes the owner word away, and closes the
 * descriptor, or gives the number to another, only when no lane knows a session of the pool; so a
 * duplicate made while the word was the same before and after is the right memory.
 */
static nigh_status front_find_extent(const struct front *front, const struct node_session *session,
                                     uint32_t number, bool writable, int *out)
{
    struct extent *extent;
    uint64_t owner;
    int fd;

    if (number >= LIMIT_EXTENTS)
        return NIGH_INVALID;
    extent = &front->config.extents->extents[number];
    owner = atomic_load_explicit(&extent->owner, memory_order_acquire);
    if (owner == EXTENT_NO_OWNER || owner >> 32 != (uint64_t)session->seat.pool + 1)
        return NIGH_DENIED;
    if (writable &&
        (!session->seat.may_write || owner != extent_owner(session->seat.pool, session->seat.uid)))
        return NIGH_DENIED;
    fd = fcntl(writable ? extent->fd : extent->read_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return NIGH_NO_RESOURCES;
    if (atomic_load_explicit(&extent->owner, memory_order_seq_cst) != owner) {
        fd_close(&fd);
        return NIGH_DENIED;
    }
    *out = fd;
    return NIGH_OK;
}

/*
 * Descriptors that nobody has read count for the node's uid, in all its messages: the kernel lets
 * there be RLIMIT_NOFILE of them, and then nobody gets a welcome. So no session may have many.
 */
bool front_has_unread(const struct node_session *session, int most_bytes)
{
    int unread_bytes;

    return ioctl(session->socket_fd, SIOCOUTQ, &unread_bytes) == 0 && unread_bytes > most_bytes;
}

/* How the answer to a question for memory went off. */
static void front_sent(struct front *front, struct node_session *session, nigh_status status)
{
    if (status == NIGH_OK || status == NIGH_CLOSED)
        return; /* in the latter case its end of file is about to be seen */
    front->expelled++;
    front_close_session(front, session, NIGH_EXPELLED,
                        "it asks for memory and does not read the answers");
}

static void front_grant(struct front *front, struct node_session *session,
                        const struct session_extent *request)
{
    struct session_grant grant = {
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_GRANT},
        .extent = request->extent,
    };
    int fd = -1;
    nigh_status status;

    grant.status = NIGH_LIMIT;
    if (!front_has_unread(session, LIMIT_FRONT_UNREAD_BYTES))
        grant.status =
            front_find_extent(front, session, request->extent, request->writable != 0, &fd);
    status = fd_send_message(session->socket_fd, &grant, sizeof(grant), &fd, fd >= 0 ? 1 : 0);
    if (status == NIGH_LIMIT && fd >= 0) {
        /* Too many of its descriptors are on their way, unread: it may ask again. */
        grant.status = NIGH_LIMIT;
        status = fd_send_message(session->socket_fd, &grant, sizeof(grant), NULL, 0);
    }
    fd_close(&fd);
    front_sent(front, session, status);
}

/* Of this number. NIGH_LIMIT: too much that it was sent is not read. */
static nigh_status front_open_file(struct front *front, const struct node_session *session,
                                   const struct session_bulk_file *request, int *fd)
{
    if (front_has_unread(session, LIMIT_FRONT_UNREAD_BYTES))
        return NIGH_LIMIT;
    if (request->header.kind == SESSION_MAP_ASK)
        return lane_region_map_open(front->lanes[0], session->seat.slot, request->number, fd);
    if (request->header.kind == SESSION_SPACE_ASK)
        return lane_space_file_open(front->lanes[0], session->seat.slot, request->number, fd);
    if (front->bulks == NULL)
        return NIGH_UNSUPPORTED;
    return bulk_memories_open(front->bulks, request->number, session->seat.session_id, fd);
}

static uint16_t answer_to(uint16_t kind)
{
    switch (kind) {
    case SESSION_MAP_ASK: return SESSION_MAP;
    case SESSION_SPACE_ASK: return SESSION_SPACE_FILE;
    default: return SESSION_BULK;
    }
}

/* Memory that was made for its calls, or that it maps, as it asked for through the rings. */
static void front_give_file(struct front *front, struct node_session *session,
                            const struct session_bulk_file *request)
{
    struct session_bulk_file answer = {
        .header = {.magic = SESSION_MAGIC, .kind = answer_to(request->header.kind)},
        .number = request->number,
    };
    int fd = -1;
    nigh_status status;

    answer.status = front_open_file(front, session, request, &fd);
    status = fd_send_message(session->socket_fd, &answer, sizeof(answer), &fd, fd >= 0 ? 1 : 0);
    if (status == NIGH_LIMIT && fd >= 0) {
        answer.status = NIGH_LIMIT;
        status = fd_send_message(session->socket_fd, &answer, sizeof(answer), NULL, 0);
    }
    fd_close(&fd);
    front_sent(front, session, status);
}

/* ---- messages with descriptors -------------------------------------------- */

/* What a session's message brought: what nobody takes is closed elsewhere. */
struct front_brought {
    int fd;          /* -1: nothing */
    bool is_refused; /* too much of its uid is being closed, or there was no place for it */
};

static bool front_is_donation(const void *bytes, size_t size)
{
    struct session_message_header header;

    memcpy(&header, bytes, sizeof(header));
    return size == sizeof(struct session_donation) && header.magic == SESSION_MAGIC &&
           header.kind == SESSION_DONATE;
}

static void front_take_donation(struct front *front, struct node_session *session,
                                const struct session_donation *given, struct front_brought *brought)
{
    struct session_donation answer = {.header = {.magic = SESSION_MAGIC, .kind = SESSION_DONATED},
                                      .serial = given->serial};

    answer.status = NIGH_NO_RESOURCES;
    if (!brought->is_refused)
        answer.status = lane_region_donate(front->lanes[0], session->seat.slot, brought->fd,
                                           given->bytes, &answer.number);
    if (answer.status == NIGH_OK)
        brought->fd = -1;
    front_sent(front, session,
               fd_send_message(session->socket_fd, &answer, sizeof(answer), NULL, 0));
}

static void front_expel(struct front *front, struct node_session *session, const char *sentence)
{
    front->expelled++;
    front_close_session(front, session, NIGH_EXPELLED, sentence);
}

static void front_take_message(struct front *front, struct node_session *session, const void *bytes,
                               size_t size, struct front_brought *brought)
{
    union {
        struct session_message_header header;
        struct session_extent extent;
        struct session_pair_ask pair;
        struct session_bulk_file bulk;
        struct session_donation donation;
    } request;
    const struct session_message_header *header = &request.header;

    memset(&request, 0, sizeof(request));
    memcpy(&request, bytes, min_size(size, sizeof(request)));
    if (brought->fd >= 0) { /* it is a donation */
        front_take_donation(front, session, &request.donation, brought);
        return;
    }
    if (header->magic == SESSION_MAGIC && header->kind == SESSION_EXTENT &&
        size == sizeof(request.extent)) {
        front_grant(front, session, &request.extent);
        return;
    }
    if (header->magic == SESSION_MAGIC &&
        (header->kind == SESSION_BULK_ASK || header->kind == SESSION_MAP_ASK ||
         header->kind == SESSION_SPACE_ASK) &&
        size == sizeof(request.bulk)) {
        front_give_file(front, session, &request.bulk);
        return;
    }
    if (header->magic == SESSION_MAGIC && header->kind == SESSION_PAIR_ASK &&
        size == sizeof(request.pair)) {
        front_pair_asked(front, session, &request.pair);
        return;
    }
    if (header->magic == SESSION_MAGIC && header->kind == SESSION_PAIR_DROP &&
        size == sizeof(request.pair)) {
        front_pair_dropped(front, session, &request.pair);
        return;
    }
    if (header->magic == SESSION_MAGIC && header->kind == SESSION_DONATE_DROP &&
        size == sizeof(request.donation)) {
        lane_region_donation_drop(front->lanes[0], session->seat.slot, request.donation.number);
        return;
    }
    if (header->magic == SESSION_MAGIC && header->kind == SESSION_BYE && size == sizeof(*header)) {
        LOG_INFO("session closed", "session=%llu pid=%d",
                 (unsigned long long)session->seat.session_id, session->seat.pid);
        front_close_session(front, session, NIGH_OK, NULL);
        return;
    }
    front_expel(front, session, "it sent a message that is not of the session protocol");
}

/* Takes the one that a donation brings. Where this process has no place for one more the spare one
 * makes it, until that is closed: at once, or it would not be given. */
static nigh_status front_receive_one(struct front *front, const struct node_session *session,
                                     struct front_brought *brought)
{
    nigh_status status;

    if (!disposals_has_place(front->disposals, session->seat.uid))
        return NIGH_PROTOCOL;
    status = fd_recv_one(session->socket_fd, &brought->fd);
    brought->is_refused = !disposals_has_room(front->disposals, session->seat.uid);
    if (status == NIGH_NO_RESOURCES && front->spare_fd >= 0 && !brought->is_refused) {
        brought->is_refused = true;
        fd_close(&front->spare_fd);
        status = fd_recv_one(session->socket_fd, &brought->fd);
    }
    return status == NIGH_NO_RESOURCES ? NIGH_PROTOCOL : status;
}

/* What brings descriptors and may not stays where it is, and goes with the connection: to let go of
 * one may hold up who does. Of whose descriptors too many wait to be closed none is received,
 * either; whose would wait is told so, as that may be others' doing, and goes on. */
static nigh_status front_receive(struct front *front, const struct node_session *session,
                                 uint8_t bytes[LIMIT_SESSION_MESSAGE_BYTES], size_t *size,
                                 struct front_brought *brought)
{
    bool brings;
    size_t none;
    nigh_status status =
        fd_peek_message(session->socket_fd, bytes, LIMIT_SESSION_MESSAGE_BYTES, size, &brings);

    if (!brings && (status == NIGH_OK || status == NIGH_PROTOCOL))
        return fd_recv_message(session->socket_fd, bytes, LIMIT_SESSION_MESSAGE_BYTES, size, NULL,
                               0, &none);
    if (!brings || status != NIGH_OK)
        return status;
    if (!front_is_donation(bytes, *size))
        return NIGH_PROTOCOL;
    return front_receive_one(front, session, brought);
}

void front_session_ready(struct front *front, uint32_t slot, uint32_t events)
{
    struct node_session *session = &front->config.sessions->slots[slot];
    uint8_t bytes[LIMIT_SESSION_MESSAGE_BYTES] = {0};
    uint32_t uid = session->seat.uid; /* the session may be over behind a message */

    (void)events;
    for (int i = 0; i < LIMIT_FRONT_MESSAGES && session->state == NODE_SESSION_OPEN; i++) {
        struct front_brought brought = {.fd = -1};
        size_t size = 0;
        nigh_status status = front_receive(front, session, bytes, &size, &brought);

        if (status == NIGH_BUSY)
            return;
        /* A peer that leaves with something unread is told of before what it said. */
        if (status == NIGH_CLOSED)
            status = front_receive(front, session, bytes, &size, &brought);
        if (status == NIGH_OK)
            front_take_message(front, session, bytes, size, &brought);
        else if (status == NIGH_PROTOCOL)
            front_expel(front, session, "it sent a message that is too long or brings descriptors");
        else
            front_end_of_file(front, session);
        disposals_close(front->disposals, uid, brought.fd);
    }
}

void front_session_died(struct front *front, uint32_t slot)
{
    struct node_session *session = &front->config.sessions->slots[slot];

    if (session->state == NODE_SESSION_FREE || session->state == NODE_SESSION_CLOSING ||
        !node_pidfd_is_dead(session->pidfd))
        return;
    /* What it said before its end, its BYE perhaps, may not have been read yet. */
    front_session_ready(front, slot, EPOLLIN);
    if (session->state == NODE_SESSION_FREE || session->state == NODE_SESSION_CLOSING)
        return;
    front->died++;
    LOG_INFO("session's process died", "session=%llu pid=%d",
             (unsigned long long)session->seat.session_id, session->seat.pid);
    front_close_session(front, session, NIGH_OK, NULL);
}

/* ---- mail ----------------------------------------------------------------- */

static void front_opened(struct front *front, struct node_session *session, nigh_status status)
{
    /* One that closes meanwhile waits for CLOSED only. */
    if (session->state != NODE_SESSION_OPENING && session->state != NODE_SESSION_RESUMING)
        return;
    if (session->lane_status == NIGH_OK)
        session->lane_status = status;
    if (--session->lanes_pending == 0)
        front_lanes_answered(front, session);
}

void front_mail(void *context, const struct mailbox_message *message)
{
    struct front *front = context;
    struct node_session *session = NULL;

    if (message->kind != LANE_POOL_ADDED)
        session = &front->config.sessions->slots[message->number];
    switch ((enum lane_mail)message->kind) {
    case LANE_POOL_ADDED:
        front_pool_added(front->config.pools->pools[message->number], message->lane,
                         message->status);
        break;
    case LANE_SESSION_OPENED:
    case LANE_SESSION_RESET_DONE: front_opened(front, session, message->status); break;
    case LANE_SESSION_RESTED: front_rested(front, session); break;
    case LANE_SESSION_CLOSED: front_dropped(front, session); break;
    case LANE_EXPEL:
        if (session->state != NODE_SESSION_CLOSING) {
            front->expelled++;
            front_close_session(front, session, NIGH_EXPELLED, message->pointer);
        }
        break;
    case LANE_POOL_ADD:
    case LANE_SESSION_OPEN:
    case LANE_SESSION_CLOSE:
    case LANE_SESSION_REST:
    case LANE_SESSION_RESET:
    case LANE_PEER_UP:
    case LANE_PEER_LOST:
    case LANE_PEER_DEAD: NIGH_ASSERT(!"mail for another lane");
    }
}
