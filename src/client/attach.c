/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a socket's path to mapped memory: connect, hello, welcome, mappings.
 *
 * The node is trusted more than a client is, but nothing it sends is used as a size, a number or a
 * text before it was bounded.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "client/attach.h"
#include "client/client_internal.h"
#include "client/lease.h"
#include "client/places.h"
#include "client/ring.h"
#include "memory/memfd.h"

/* Of a session, by any node: an address space is reserved for what the file has. */
#define ATTACH_MEMORY_BYTES_MAX (UINT64_C(1) << 32)

#define attach_say(text, ...) ((void)snprintf((text), CLIENT_TEXT_BYTES, __VA_ARGS__))

/* The kernel refuses a file as it refuses a socket that nobody listens on. */
static bool attach_is_no_socket(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && !S_ISSOCK(status.st_mode);
}

/* The first folder on the way to a path that this user may not search: so much of the path. 0:
 * there is none. */
static size_t attach_closed_folder(const char *path)
{
    char folder[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    size_t length = 0;

    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        length = slash == path ? 1 : (size_t)(slash - path);
        memcpy(folder, path, length);
        folder[length] = '\0';
        if (faccessat(AT_FDCWD, folder, X_OK, AT_EACCESS) != 0) {
            return length;
        }
    }
    return 0;
}

static nigh_status attach_explain_denied(const char *path, char *text)
{
    size_t folder = attach_closed_folder(path);

    if (folder > 0) {
        attach_say(
            text,
            "the folder %.*s, in which %s would be, may not be searched by this user: ask for "
            "the right to (x), or say where a node listens with NIGH_SOCKET",
            (int)folder, path, path);
    } else {
        attach_say(text, "%s may not be opened by this user: ask for the right to write to it",
                   path);
    }
    return NIGH_DENIED;
}

static nigh_status attach_explain_connect(int error, const char *path, char *text)
{
    switch (error) {
    case ENOENT:
        attach_say(text, "no node at %s: start nighd, or say where it is with NIGH_SOCKET", path);
        return NIGH_UNREACHABLE;
    case ECONNREFUSED:
        if (attach_is_no_socket(path)) {
            attach_say(text, "%s is no socket: say where a node listens with NIGH_SOCKET", path);
            return NIGH_UNREACHABLE;
        }
        attach_say(text, "nobody listens on %s any more: start nighd", path);
        return NIGH_UNREACHABLE;
    case EACCES:
    case EPERM: return attach_explain_denied(path, text);
    case EPROTOTYPE:
        attach_say(text, "%s is the socket of another program", path);
        return NIGH_UNREACHABLE;
    case EAGAIN:
    case EINPROGRESS:
        attach_say(text,
                   "the node at %s takes no connection: it is starting, overloaded or stopped",
                   path);
        return NIGH_TIMEOUT;
    case EMFILE:
    case ENFILE:
        attach_say(text, "no descriptor left: raise RLIMIT_NOFILE");
        return NIGH_NO_RESOURCES;
    default:
        attach_say(text, "cannot connect to %s: %s", path, strerror(error));
        return NIGH_UNREACHABLE;
    }
}

nigh_status attach_connect(const char *path, uint64_t timeout_us, int *socket_fd, char *text)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval wait = {.tv_sec = (time_t)min_u64(timeout_us / 1000000, INT32_MAX),
                           .tv_usec = (suseconds_t)(timeout_us % 1000000)};
    nigh_status status;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return attach_explain_connect(errno, path, text);
    }
    NIGH_ASSERT(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (timeout_us == 0) {
        wait.tv_usec = 1; /* zero would be without end */
    }
    /* A full backlog makes connect wait; this bounds it. */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    while (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        if (errno == EINTR) {
            continue;
        }
        status = attach_explain_connect(errno, path, text);
        fd_close(&fd);
        return status;
    }
    *socket_fd = fd;
    return NIGH_OK;
}

void attach_fill_hello(const nigh_client *client, struct session_hello *hello)
{
    memset(hello, 0, sizeof(*hello));
    hello->header.magic = SESSION_MAGIC;
    hello->header.kind = SESSION_HELLO;
    hello->version_min = SESSION_VERSION_MIN;
    hello->version_max = SESSION_VERSION_MAX;
    hello->flags = client->hello_flags;
    memcpy(hello->pool, client->pool, sizeof(hello->pool));
    memcpy(hello->name, client->name, sizeof(hello->name));
}

void attach_answer_fini(struct attach_answer *answer)
{
    for (size_t i = 0; i < answer->fd_count; i++) {
        fd_close(&answer->fds[i]);
    }
    answer->fd_count = 0;
}

/* Waits until the socket is readable. NIGH_TIMEOUT. */
static nigh_status attach_wait(int socket_fd, uint64_t deadline_us)
{
    for (;;) {
        struct pollfd readable = {.fd = socket_fd, .events = POLLIN};
        uint64_t left_us = clock_left_us(clock_now_us(&clock_monotonic), deadline_us);
        int n;

        n = poll(&readable, 1, left_us == 0 ? 0 : (int)min_u64(left_us / 1000 + 1, 3600000));
        if (n > 0) {
            return NIGH_OK;
        }
        if (left_us == 0) {
            return NIGH_TIMEOUT;
        }
        if (n < 0 && errno != EINTR) {
            return NIGH_NO_RESOURCES;
        }
    }
}

static nigh_status attach_judge(struct session_welcome *welcome, size_t size_bytes, char *text)
{
    char sentence[4 * sizeof(welcome->sentence) + 1];

    if (size_bytes < sizeof(*welcome) || welcome->header.magic != SESSION_MAGIC ||
        welcome->header.kind != SESSION_WELCOME) {
        attach_say(text, "what answers there is no node of nigh");
        return NIGH_PROTOCOL;
    }
    welcome->sentence[sizeof(welcome->sentence) - 1] = '\0';
    welcome->pool[sizeof(welcome->pool) - 1] = '\0';
    if (welcome->status != NIGH_OK) {
        nigh_status status = (nigh_status)welcome->status;

        if (welcome->status > 0 || welcome->status < NIGH_STATUS_LOWEST || status == NIGH_PENDING) {
            status = NIGH_PROTOCOL;
        }
        bytes_printable_sentence(welcome->sentence, strlen(welcome->sentence), sentence,
                                 sizeof(sentence));
        attach_say(text, "%.*s", CLIENT_TEXT_BYTES - 1,
                   sentence[0] != '\0' ? sentence : nigh_status_string(status));
        return status;
    }
    if (welcome->version < SESSION_VERSION_MIN || welcome->version > SESSION_VERSION_MAX) {
        attach_say(text,
                   "the node speaks version %u of the session protocol, this libnigh %u to %u: "
                   "install versions that fit",
                   welcome->version, SESSION_VERSION_MIN, SESSION_VERSION_MAX);
        return NIGH_VERSION;
    }
    return NIGH_OK;
}

void attach_hello(int socket_fd, const struct session_hello *hello)
{
    /* A node that turns one away at the door (too many connections) may have closed already: what
     * it said is still there to read. */
    (void)fd_send_message(socket_fd, hello, sizeof(*hello), NULL, 0);
}

nigh_status attach_await(int socket_fd, uint64_t timeout_us, struct attach_answer *answer,
                         char *text)
{
    uint64_t deadline_us = clock_deadline_us(clock_now_us(&clock_monotonic), timeout_us);
    uint8_t message[LIMIT_SESSION_MESSAGE_BYTES];
    size_t size_bytes = 0;
    nigh_status status;

    memset(answer, 0, sizeof(*answer));
    status = attach_wait(socket_fd, deadline_us);
    if (status == NIGH_OK) {
        status = fd_recv_message(socket_fd, message, sizeof(message), &size_bytes, answer->fds,
                                 ARRAY_LENGTH(answer->fds), &answer->fd_count);
    }
    if (status == NIGH_TIMEOUT) {
        attach_say(text, "the node does not answer: it is starting, overloaded or stopped");
    } else if (status == NIGH_CLOSED) {
        attach_say(text, "the node closed the connection: it died, is stopping, or is full");
        status = NIGH_UNREACHABLE;
    } else if (status != NIGH_OK) {
        attach_say(text, "talking to the node failed: %s", nigh_status_string(status));
    }
    if (status != NIGH_OK) {
        return status;
    }
    memcpy(&answer->welcome, message, min_size(size_bytes, sizeof(answer->welcome)));
    status = attach_judge(&answer->welcome, size_bytes, text);
    if (status != NIGH_OK) {
        attach_answer_fini(answer);
    }
    return status;
}

/* ---- mapping -------------------------------------------------------------- */

/* Whether the numbers of a welcome can be. */
static bool attach_numbers_fit(const struct attach_answer *answer)
{
    const struct session_welcome *welcome = &answer->welcome;

    return is_pow2(welcome->lanes) && welcome->lanes <= LIMIT_LANES &&
           answer->fd_count == SESSION_WELCOME_FDS(welcome->lanes) &&
           is_pow2(welcome->extent_bytes) && welcome->extent_bytes >= LIMIT_EXTENT_BYTES_MIN &&
           welcome->extent_bytes <= LIMIT_EXTENT_BYTES_MAX &&
           welcome->arena_bytes == LIMIT_EXTENTS * welcome->extent_bytes &&
           welcome->session_bytes == session_memory_bytes(welcome->lanes);
}

static nigh_status attach_map_file(int fd, uint64_t least_bytes, unsigned flags, void **memory,
                                   uint64_t *size_bytes)
{
    nigh_status status = memfd_size(fd, size_bytes);

    if (status == NIGH_OK && *size_bytes < least_bytes) {
        status = NIGH_PROTOCOL;
    }
    return status == NIGH_OK ? memfd_map(fd, *size_bytes, flags, memory) : status;
}

static nigh_status attach_inode(int fd, ino_t *inode)
{
    struct stat file;

    if (fstat(fd, &file) != 0) {
        return NIGH_NO_RESOURCES;
    }
    *inode = file.st_ino;
    return NIGH_OK;
}

static nigh_status attach_map_lane(nigh_client *client, uint32_t number, int index_fd,
                                   int *doorbell)
{
    struct client_lane *lane = &client->lane[number];
    struct index *index = &client->indexes[number];
    void *memory;
    nigh_status status;

    status =
        attach_map_file(index_fd, INDEX_HEADER_BYTES, 0, &memory, &client->index_bytes[number]);
    if (status != NIGH_OK) {
        return status;
    }
    status = index_attach(memory, client->index_bytes[number], index);
    if (status == NIGH_OK && (index->lane != number || index->header->lanes != client->lanes)) {
        status = NIGH_PROTOCOL;
    }
    if (status == NIGH_OK) {
        status = attach_inode(index_fd, &lane->index_inode);
    }
    if (status != NIGH_OK) {
        memfd_unmap(memory, client->index_bytes[number]);
        index->header = NULL;
        return status;
    }
    lane->doorbell = *doorbell;
    *doorbell = -1;
    lane->shared = session_lane_of(client->memory, number);
    lane->ready = session_ready(lane->shared, client->slot);
    return NIGH_OK;
}

/* Room for the node page and, behind it, the session's memory. */
static nigh_status attach_reserve_shared(nigh_client *client, uint64_t memory_bytes)
{
    uint64_t bytes =
        CLIENT_PAGE_GAP + (memory_bytes + CLIENT_PAGE_GAP - 1) / CLIENT_PAGE_GAP * CLIENT_PAGE_GAP;
    void *memory;
    nigh_status status = memfd_reserve(bytes, &memory);

    if (status == NIGH_OK) {
        client->node_page = memory;
        client->shared_bytes = bytes;
    }
    return status;
}

/* Of the session's memory, as far as this library uses it. */
static uint64_t attach_least_bytes(const struct session_welcome *welcome)
{
    return (welcome->rights & SESSION_HAS_PLACES) != 0 ? session_file_bytes(welcome->lanes)
                                                       : session_memory_bytes(welcome->lanes);
}

/* Session memory and node page, written here for the first time. */
static nigh_status attach_map_session(nigh_client *client, struct attach_answer *answer)
{
    const struct session_welcome *welcome = &answer->welcome;
    uint64_t page_bytes, memory_bytes = 0;
    nigh_status status = memfd_size(answer->fds[0], &page_bytes);

    _Static_assert(sizeof(*client->node_page) <= CLIENT_PAGE_GAP, "the page fits its place");
    if (status == NIGH_OK) {
        status = memfd_size(answer->fds[1], &memory_bytes);
    }
    if (status == NIGH_OK &&
        (page_bytes < sizeof(*client->node_page) || memory_bytes < attach_least_bytes(welcome) ||
         memory_bytes > ATTACH_MEMORY_BYTES_MAX)) {
        status = NIGH_PROTOCOL;
    }
    if (status == NIGH_OK) {
        status = attach_reserve_shared(client, memory_bytes);
    }
    if (status == NIGH_OK) {
        /* A newer node's page may be longer: what we know of it is mapped, and unmapped at the end.
         */
        status = memfd_map_at(client->node_page, answer->fds[0], sizeof(*client->node_page), 0);
    }
    if (status == NIGH_OK) {
        status = memfd_map_at((uint8_t *)client->node_page + CLIENT_PAGE_GAP, answer->fds[1],
                              memory_bytes, MEMFD_WRITABLE);
    }
    if (status == NIGH_OK) {
        /* Those of places are written first as they are used. */
        status = memfd_prefault((uint8_t *)client->node_page + CLIENT_PAGE_GAP,
                                welcome->session_bytes, true);
    }
    if (status != NIGH_OK) {
        return status;
    }
    client->memory = (uint8_t *)client->node_page + CLIENT_PAGE_GAP;
    client->memory_bytes = memory_bytes;
    client->front = session_front_of(client->memory);
    client->chunks = session_chunks_of(client->memory, client->lanes);
    if (client->node_page->magic != SESSION_MAGIC || client->front->magic != SESSION_MAGIC ||
        client->front->lanes != client->lanes || client->front->session != welcome->session) {
        return NIGH_PROTOCOL;
    }
    return attach_inode(answer->fds[1], &client->memory_inode);
}

static nigh_status attach_reserve(nigh_client *client)
{
    void *memory;
    nigh_status status = memfd_reserve(client->arena_bytes, &memory);

    if (status != NIGH_OK) {
        return status;
    }
    client->read_arena = memory;
    if (!client->may_write) {
        return NIGH_OK;
    }
    status = memfd_reserve(client->arena_bytes, &memory);
    if (status == NIGH_OK) {
        client->write_arena = memory;
    }
    return status;
}

void attach_hear_offers(nigh_client *client, const struct session_welcome *welcome)
{
    client->takes_donations = (welcome->rights & SESSION_HAS_DONATIONS) != 0;
    client->drops_donations = (welcome->rights & SESSION_DROPS_DONATIONS) != 0;
    client->fetches = (welcome->rights & SESSION_FETCHES) != 0;
    client->drop_count = 0; /* what was offered went with the connection */
}

static nigh_status attach_fill(nigh_client *client, struct attach_answer *answer)
{
    const struct session_welcome *welcome = &answer->welcome;
    nigh_status status;

    client->lane = calloc(welcome->lanes, sizeof(*client->lane));
    if (client->lane == NULL) {
        return NIGH_NO_RESOURCES;
    }
    client->lanes = welcome->lanes;
    for (uint32_t i = 0; i < client->lanes; i++) {
        client->lane[i].doorbell = -1;
        ring_init_lane(&client->lane[i]);
    }
    client->slot = welcome->slot;
    client->session = welcome->session;
    memcpy(client->token, welcome->token, sizeof(client->token));
    memcpy(client->pool, welcome->pool, sizeof(client->pool));
    client->extent_bytes = welcome->extent_bytes;
    client->extent_shift = (uint32_t)__builtin_ctzll(welcome->extent_bytes);
    client->arena_bytes = welcome->arena_bytes;
    atomic_store_explicit(&client->node_incarnation, welcome->incarnation, memory_order_relaxed);
    client->has_pairs = (welcome->rights & SESSION_HAS_PAIRS) != 0;
    attach_hear_offers(client, welcome);
    client->may_write = (welcome->rights & SESSION_MAY_WRITE) != 0 &&
                        (client->hello_flags & SESSION_HELLO_READ_ONLY) == 0;
    lease_reset(client);
    status = attach_map_session(client, answer);
    if (status == NIGH_OK && (welcome->rights & SESSION_HAS_PLACES) != 0) {
        calls_own_places(client);
    }
    for (uint32_t i = 0; i < client->lanes && status == NIGH_OK; i++) {
        status = attach_map_lane(client, i, answer->fds[2 + 2 * i], &answer->fds[3 + 2 * i]);
    }
    return status == NIGH_OK ? attach_reserve(client) : status;
}

nigh_status attach_map(nigh_client *client, struct attach_answer *answer, char *text)
{
    nigh_status status = NIGH_PROTOCOL;

    if (attach_numbers_fit(answer)) {
        status = attach_fill(client, answer);
    }
    if (status == NIGH_NO_RESOURCES) {
        attach_say(text, "no address space for the node's memory (twice %llu GiB): raise RLIMIT_AS",
                   (unsigned long long)(answer->welcome.arena_bytes >> 30));
    } else if (status == NIGH_VERSION) {
        attach_say(text, "the node's index has a format that this libnigh does not know: install "
                         "versions that fit");
    } else if (status != NIGH_OK) {
        attach_say(text, "the node's welcome is not valid: node and libnigh do not fit");
        status = NIGH_PROTOCOL;
    }
    return status;
}
