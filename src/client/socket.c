/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes over the session's socket after the welcome: pokes, the node's bye and its end of file
 * coming in, requests for extents going out. Everything here runs under the client's lock, so that
 * a grant always goes to the thread that asked.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "client/attach.h"
#include "client/client_internal.h"
#include "client/extents.h"
#include "client/pairs.h"
#include "client/ring.h"
#include "client/socket.h"

#define SOCKET_LOOK_US 1000 /* how often threads that only poll look for the node's end */

/* One message of any kind. */
union socket_message {
    struct session_message_header header;
    struct session_grant grant;
    struct session_welcome bye;
    struct session_pair pair;
    struct session_bulk_file bulk;
    struct session_donation donation;
    uint8_t bytes[LIMIT_SESSION_MESSAGE_BYTES];
};

/* The node says why the session ends. */
static void socket_take_bye(nigh_client *client, const struct session_welcome *bye, size_t size)
{
    nigh_status status = NIGH_NODE_LOST;

    if (size >= sizeof(*bye)) {
        memcpy(client->bye, bye->sentence, sizeof(client->bye));
        client->bye[sizeof(client->bye) - 1] = '\0';
        if (bye->status != NIGH_OK) {
            status = client_end_status(bye->status);
        }
    }
    /* What had completed before the end still counts. */
    ring_take_in(client, NULL);
    client_lose(client, status);
}

/* ---- what is donated in vain ---- */

/* The node keeps what was offered until it is asked for, or told that it will not be. It has no
 * more of a session than there is room for here. */
static void socket_drop_donation(nigh_client *client, uint64_t number)
{
    if (client->drops_donations && client->drop_count < LIMIT_SESSION_DONATIONS) {
        client->drops[client->drop_count++] = number;
    }
}

/* Whoever donated it gave up, if nobody waits for this answer. */
static void socket_hear_donated(nigh_client *client, const struct session_donation *donated)
{
    if (donated->status == NIGH_OK &&
        !(client->donation_awaited && donated->serial == client->donation_serial)) {
        socket_drop_donation(client, donated->number);
    }
}

static struct session_donation socket_last_drop(const nigh_client *client)
{
    return (struct session_donation){
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_DONATE_DROP},
        .number = client->drops[client->drop_count - 1],
    };
}

/* As far as the node's queue has room now. */
static void socket_say_drops(nigh_client *client)
{
    nigh_status status = NIGH_OK;

    while (client->drop_count > 0 && status == NIGH_OK) {
        struct session_donation drop = socket_last_drop(client);

        status = fd_send_message(client->socket_fd, &drop, sizeof(drop), NULL, 0);
        client->drop_count -= status == NIGH_OK;
    }
}

/* One poke is all that the node says: whoever reads it hands it on to who sleeps. */
static void socket_take_poke(nigh_client *client)
{
    client->poked = true;
    client_ring_bell(client);
    if (atomic_load_explicit(&client->leading, memory_order_relaxed)) {
        ring_tell(client);
    }
}

/*
 * Receives one message that is there. NIGH_BUSY: none; any other failure means that the node is
 * gone, and has been dealt with.
 */
static nigh_status socket_receive(nigh_client *client, union socket_message *message,
                                  size_t *size_bytes, int *fd)
{
    int fds[2] = {-1, -1};
    size_t fd_count = 0;
    nigh_status status;

    *size_bytes = 0;
    status = fd_recv_message(client->socket_fd, message, sizeof(*message), size_bytes, fds, 2,
                             &fd_count);
    *fd = fds[0];
    if (status == NIGH_BUSY) {
        return status;
    }
    if (status == NIGH_NO_RESOURCES && *size_bytes > 0) {
        status = NIGH_OK; /* a grant whose descriptor there was no place for: it ends that ask */
    }
    if (status == NIGH_OK &&
        (*size_bytes < sizeof(message->header) || message->header.magic != SESSION_MAGIC)) {
        fd_close(fd);
        fd_close(&fds[1]);
        status = NIGH_PROTOCOL;
    }
    if (status != NIGH_OK) {
        ring_take_in(client, NULL);
        status =
            status == NIGH_PROTOCOL || status == NIGH_NO_RESOURCES ? NIGH_PROTOCOL : NIGH_NODE_LOST;
        client_lose(client, status);
        return status;
    }
    if (message->header.kind == SESSION_PAIR && *size_bytes >= sizeof(message->pair)) {
        pairs_told(client, &message->pair, fds);
        *fd = -1;
        return NIGH_OK;
    }
    fd_close(&fds[1]); /* nothing else brings two */
    if (message->header.kind == SESSION_DONATED && *size_bytes >= sizeof(message->donation)) {
        socket_hear_donated(client, &message->donation);
    }
    if (message->header.kind == SESSION_POKE) {
        socket_take_poke(client);
    } else if (message->header.kind == SESSION_BYE) {
        socket_take_bye(client, &message->bye, *size_bytes);
        fd_close(fd);
        return NIGH_NODE_LOST;
    }
    return NIGH_OK;
}

void socket_say_bye(int socket_fd)
{
    struct session_message_header bye = {.magic = SESSION_MAGIC, .kind = SESSION_BYE};

    /* Lost when the queue is full: the end of file is then taken for a connection that may return,
     * until this process ends. */
    (void)fd_send_message(socket_fd, &bye, sizeof(bye), NULL, 0);
}

/* A grant that was asked for by a call that gave up: they come in the order of the questions. */
static bool socket_is_late(nigh_client *client, const union socket_message *message)
{
    if (message->header.kind != SESSION_GRANT || client->late_grants == 0) {
        return false;
    }
    client->late_grants--;
    return true;
}

void socket_take_in(nigh_client *client)
{
    union socket_message message;
    size_t size_bytes;
    int fd;

    if (atomic_load_explicit(&client->state, memory_order_relaxed) != CLIENT_ATTACHED ||
        client->lose_later != NIGH_OK) {
        return;
    }
    client->socket_seen_us = clock_now_us(&clock_monotonic);
    while (socket_receive(client, &message, &size_bytes, &fd) == NIGH_OK) {
        (void)socket_is_late(client, &message);
        fd_close(&fd);
    }
    socket_say_drops(client);
}

void socket_take_in_now_and_then(nigh_client *client)
{
    if (clock_now_us(&clock_monotonic) - client->socket_seen_us >= SOCKET_LOOK_US) {
        socket_take_in(client);
    }
}

/* Waits for the next message until deadline_us. NIGH_TIMEOUT, or a failure of socket_receive. */
static nigh_status socket_await(nigh_client *client, uint64_t deadline_us,
                                union socket_message *message, size_t *size_bytes, int *fd)
{
    for (;;) {
        struct pollfd readable = {.fd = client->socket_fd, .events = POLLIN};
        nigh_status status = socket_receive(client, message, size_bytes, fd);
        uint64_t now_us;

        if (status != NIGH_BUSY) {
            return status;
        }
        now_us = clock_now_us(&clock_monotonic);
        if (now_us >= deadline_us) {
            return NIGH_TIMEOUT;
        }
        if (poll(&readable, 1, (int)((deadline_us - now_us) / 1000 + 1)) < 0 && errno != EINTR) {
            return NIGH_NO_RESOURCES;
        }
    }
}

/* Matches one message with what was asked for; true when it was a grant, or a refusal. */
static bool socket_match_grant(nigh_client *client, struct extents_ask *ask,
                               const union socket_message *message, size_t size_bytes, int fd)
{
    const struct session_grant *grant = &message->grant;
    uint32_t i = grant->extent - ask->first;

    if (socket_is_late(client, message) || message->header.kind != SESSION_GRANT ||
        size_bytes < sizeof(*grant) || i >= ask->count || ask->statuses[i] != NIGH_PENDING) {
        fd_close(&fd);
        return false;
    }
    ask->statuses[i] = NIGH_PROTOCOL;
    if (grant->status == NIGH_OK && fd < 0) {
        ask->statuses[i] = NIGH_NO_RESOURCES; /* there was no place for it */
    } else if (grant->status <= 0 && grant->status >= NIGH_STATUS_LOWEST &&
               grant->status != NIGH_PENDING && (grant->status == NIGH_OK) == (fd >= 0)) {
        ask->statuses[i] = (nigh_status)grant->status;
    }
    if (ask->statuses[i] == NIGH_OK && ask->mapped < ask->most) {
        ask->statuses[i] = extents_place(client, grant->extent, ask->writable, fd);
        ask->mapped += ask->statuses[i] == NIGH_OK;
        return true;
    }
    fd_close(&fd);
    return true;
}

/* One message, with a descriptor or without (-1); the node's queue may be full. */
static nigh_status socket_send_with(nigh_client *client, const void *bytes, size_t size_bytes,
                                    int fd, uint64_t deadline_us)
{
    for (;;) {
        struct pollfd room = {.fd = client->socket_fd, .events = POLLOUT};
        nigh_status status =
            fd_send_message(client->socket_fd, bytes, size_bytes, &fd, fd >= 0 ? 1 : 0);

        if (status == NIGH_OK) {
            return NIGH_OK;
        }
        if (fd >= 0 && status != NIGH_BUSY && status != NIGH_CLOSED) {
            return status; /* the descriptor cannot be sent: nothing was */
        }
        if (status != NIGH_BUSY) {
            socket_take_in(client); /* finds the end of file */
            return NIGH_NODE_LOST;
        }
        if (clock_now_us(&clock_monotonic) >= deadline_us) {
            return NIGH_TIMEOUT;
        }
        (void)poll(&room, 1, 1);
    }
}

static nigh_status socket_send(nigh_client *client, const void *bytes, size_t size_bytes,
                               uint64_t deadline_us)
{
    return socket_send_with(client, bytes, size_bytes, -1, deadline_us);
}

static nigh_status socket_send_requests(nigh_client *client, const struct extents_ask *ask,
                                        uint64_t deadline_us, uint32_t *sent)
{
    nigh_status status = NIGH_OK;

    while (*sent < ask->count && status == NIGH_OK) {
        struct session_extent request = {
            .header = {.magic = SESSION_MAGIC, .kind = SESSION_EXTENT},
            .extent = ask->first + *sent,
            .writable = ask->writable,
        };

        status = socket_send(client, &request, sizeof(request), deadline_us);
        *sent += status == NIGH_OK;
    }
    return status;
}

nigh_status socket_ask_extents(nigh_client *client, struct extents_ask *ask)
{
    uint64_t deadline_us = clock_deadline_us(clock_now_us(&clock_monotonic), LIMIT_NODE_GRACE_US);
    nigh_status status = resume_ensure(client, LIMIT_NODE_GRACE_US);
    uint32_t sent = 0, answered = 0;

    NIGH_ASSERT(ask->count <= LIMIT_ASK_BATCH);
    ask->mapped = 0;
    for (uint32_t i = 0; i < ask->count; i++) {
        ask->statuses[i] = NIGH_PENDING;
    }
    if (client->late_grants > 0) {
        socket_take_in(client); /* what is not read counts for what may be on its way */
    }
    if (status == NIGH_OK) {
        status = socket_send_requests(client, ask, deadline_us, &sent);
    }
    while (answered < ask->count && status == NIGH_OK) {
        union socket_message message;
        size_t size_bytes;
        int fd;

        status = socket_await(client, deadline_us, &message, &size_bytes, &fd);
        if (status == NIGH_OK && socket_match_grant(client, ask, &message, size_bytes, fd)) {
            answered++;
        }
    }
    client->late_grants += sent - answered;
    return status;
}

/* Whether a message answers the question for this memory; *status: how. Descriptors of others are
 * closed: who asked for them gave up. */
static bool socket_match_file(nigh_client *client, uint16_t kind, uint64_t number,
                              const union socket_message *message, size_t size_bytes, int *fd,
                              nigh_status *status)
{
    const struct session_bulk_file *file = &message->bulk;

    if (socket_is_late(client, message) || message->header.kind != kind ||
        size_bytes < sizeof(*file) || file->number != number) {
        fd_close(fd);
        return false;
    }
    *status = NIGH_PROTOCOL;
    if (file->status == NIGH_OK) {
        *status = *fd >= 0 ? NIGH_OK : NIGH_NO_RESOURCES; /* there was no place for it */
    } else if (file->status < 0 && file->status >= NIGH_STATUS_LOWEST &&
               file->status != NIGH_PENDING) {
        *status = file->status == NIGH_LIMIT ? NIGH_BUSY : (nigh_status)file->status;
    }
    if (*status != NIGH_OK) {
        fd_close(fd);
    }
    return true;
}

static nigh_status socket_ask_file(nigh_client *client, uint16_t kind, uint16_t answer_kind,
                                   uint64_t number, int *out)
{
    uint64_t deadline_us = clock_deadline_us(clock_now_us(&clock_monotonic), LIMIT_NODE_GRACE_US);
    struct session_bulk_file ask = {.header = {.magic = SESSION_MAGIC, .kind = kind},
                                    .number = number};
    nigh_status status = resume_ensure(client, LIMIT_NODE_GRACE_US);
    nigh_status answer = NIGH_PENDING;
    int fd = -1;

    if (status == NIGH_OK) {
        status = socket_send(client, &ask, sizeof(ask), deadline_us);
    }
    while (status == NIGH_OK && answer == NIGH_PENDING) {
        union socket_message message;
        size_t size_bytes;

        status = socket_await(client, deadline_us, &message, &size_bytes, &fd);
        if (status == NIGH_OK) {
            (void)socket_match_file(client, answer_kind, number, &message, size_bytes, &fd,
                                    &answer);
        }
    }
    if (status != NIGH_OK || answer != NIGH_OK) {
        return status != NIGH_OK ? status : answer;
    }
    *out = fd;
    return NIGH_OK;
}

nigh_status socket_ask_bulk(nigh_client *client, uint64_t number, int *fd)
{
    return socket_ask_file(client, SESSION_BULK_ASK, SESSION_BULK, number, fd);
}

nigh_status socket_ask_map(nigh_client *client, uint64_t number, int *fd)
{
    return socket_ask_file(client, SESSION_MAP_ASK, SESSION_MAP, number, fd);
}

nigh_status socket_ask_space(nigh_client *client, uint64_t number, int *fd)
{
    return socket_ask_file(client, SESSION_SPACE_ASK, SESSION_SPACE_FILE, number, fd);
}

/* Whether a message answers for what was donated; *status: how. */
static bool socket_match_donation(nigh_client *client, const union socket_message *message,
                                  size_t size_bytes, int *fd, uint64_t *number, nigh_status *status)
{
    const struct session_donation *donation = &message->donation;
    bool is_it = !socket_is_late(client, message) && message->header.kind == SESSION_DONATED &&
                 size_bytes >= sizeof(*donation) && donation->serial == client->donation_serial;

    fd_close(fd); /* none is due */
    if (!is_it) {
        return false;
    }
    *status = NIGH_PROTOCOL;
    if (donation->status <= 0 && donation->status >= NIGH_STATUS_LOWEST &&
        donation->status != NIGH_PENDING) {
        *status = (nigh_status)donation->status;
    }
    *number = donation->number;
    return true;
}

/* What is dropped is said first: it makes room for this. */
static nigh_status socket_send_donation(nigh_client *client, int fd, uint64_t bytes,
                                        uint64_t deadline_us)
{
    struct session_donation given = {.header = {.magic = SESSION_MAGIC, .kind = SESSION_DONATE},
                                     .serial = ++client->donation_serial,
                                     .bytes = bytes};
    nigh_status status = NIGH_OK;

    socket_take_in(client); /* answers that came too late, perhaps */
    while (client->drop_count > 0 && status == NIGH_OK) {
        struct session_donation drop = socket_last_drop(client);

        status = socket_send(client, &drop, sizeof(drop), deadline_us);
        client->drop_count -= status == NIGH_OK;
    }
    return status == NIGH_OK ? socket_send_with(client, &given, sizeof(given), fd, deadline_us)
                             : status;
}

static nigh_status socket_await_donated(nigh_client *client, uint64_t deadline_us,
                                        struct donated *donated)
{
    nigh_status status = NIGH_OK, answer = NIGH_PENDING;

    client->donation_awaited = true;
    while (status == NIGH_OK && answer == NIGH_PENDING) {
        union socket_message message;
        size_t size_bytes;
        int none = -1;

        status = socket_await(client, deadline_us, &message, &size_bytes, &none);
        if (status == NIGH_OK) {
            donated->is_answered = socket_match_donation(client, &message, size_bytes, &none,
                                                         &donated->number, &answer);
        }
    }
    client->donation_awaited = false;
    return status != NIGH_OK ? status : answer;
}

nigh_status socket_donate(nigh_client *client, int fd, uint64_t bytes, struct donated *donated)
{
    uint64_t deadline_us = clock_deadline_us(clock_now_us(&clock_monotonic), LIMIT_NODE_GRACE_US);
    nigh_status status = resume_ensure(client, LIMIT_NODE_GRACE_US);

    *donated = (struct donated){.number = 0};
    if (status == NIGH_OK && !client->takes_donations) {
        status = NIGH_UNSUPPORTED;
    }
    if (status == NIGH_OK) {
        status = socket_send_donation(client, fd, bytes, deadline_us);
    }
    if (status == NIGH_OK) {
        status = socket_await_donated(client, deadline_us, donated);
    }
    donated->connection = atomic_load_explicit(&client->connections, memory_order_relaxed);
    return status;
}

void socket_donate_drop(nigh_client *client, const struct donated *donated)
{
    if (donated->connection == atomic_load_explicit(&client->connections, memory_order_relaxed)) {
        socket_drop_donation(client, donated->number);
        socket_take_in(client);
    }
}
