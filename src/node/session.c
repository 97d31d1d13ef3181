/* SPDX-License-Identifier: Apache-2.0 */
/* See node/session.h. */
#include "node/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/random.h"
#include "memory/memfd.h"

#ifndef SO_PEERPIDFD /* Linux 6.5 */
#define SO_PEERPIDFD 77
#endif

/* ---- peers ---------------------------------------------------------------- */

static nigh_status node_peer_groups(int socket_fd, struct node_peer *peer)
{
    socklen_t bytes = 0;
    uint32_t *groups;

    if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &bytes) == 0)
        return NIGH_OK; /* none */
    if (errno != ERANGE)
        return errno == ENOPROTOOPT ? NIGH_OK : NIGH_NO_RESOURCES;
    if (bytes == 0 || bytes > LIMIT_PEER_GROUPS * sizeof(gid_t))
        return NIGH_NO_RESOURCES;
    groups = malloc(bytes);
    if (groups == NULL)
        return NIGH_NO_RESOURCES;
    if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes) != 0) {
        free(groups);
        return NIGH_NO_RESOURCES;
    }
    peer->groups = groups;
    peer->group_count = bytes / sizeof(gid_t);
    return NIGH_OK;
}

/* The kernel's own answer first: pidfd_open could meet another process that got the pid meanwhile.
 */
static int node_peer_pidfd(int socket_fd, int32_t pid)
{
    int pidfd = -1;
    socklen_t bytes = sizeof(pidfd);

    if (pid <= 0 || pid == getpid())
        return -1;
    if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &bytes) == 0 && pidfd >= 0) {
        (void)fd_set_cloexec(pidfd);
        return pidfd;
    }
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

uint64_t node_process_start_time(int32_t pid)
{
    char path[32];
    char text[1024];
    size_t length = 0;
    const char *field;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (fd_read_full(fd, text, sizeof(text) - 1, &length) != NIGH_OK)
        length = 0;
    fd_close(&fd);
    text[length] = '\0';
    /* Field 22; the second one is the program's name in brackets, and may hold anything. */
    field = strrchr(text, ')');
    for (int i = 0; field != NULL && i < 20; i++)
        field = strchr(field + 1, ' ');
    return field == NULL ? 0 : strtoull(field + 1, NULL, 10);
}

bool node_pidfd_is_dead(int pidfd)
{
    struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};

    return pidfd >= 0 && poll(&poll_fd, 1, 0) == 1;
}

nigh_status node_peer_of(int socket_fd, struct node_peer *peer)
{
    struct ucred credentials;
    socklen_t bytes = sizeof(credentials);
    nigh_status status;

    memset(peer, 0, sizeof(*peer));
    peer->pidfd = -1;
    if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
        return NIGH_NO_RESOURCES;
    peer->pid = credentials.pid;
    peer->uid = credentials.uid;
    peer->gid = credentials.gid;
    status = node_peer_groups(socket_fd, peer);
    if (status != NIGH_OK)
        return status;
    errno = 0;
    peer->pidfd = node_peer_pidfd(socket_fd, peer->pid);
    if (peer->pidfd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
        node_peer_fini(peer);
        return NIGH_NO_RESOURCES;
    }
    if (peer->pid > 0)
        peer->start_time = node_process_start_time(peer->pid);
    return NIGH_OK;
}

void node_peer_fini(struct node_peer *peer)
{
    fd_close(&peer->pidfd);
    free(peer->groups);
    peer->groups = NULL;
    peer->group_count = 0;
}

/* ---- the table ------------------------------------------------------------ */

static void sessions_clear(struct node_session *session, uint32_t slot)
{
    memset(session, 0, sizeof(*session));
    session->seat.slot = slot;
    session->seat.socket_fd = session->socket_fd = session->pidfd = session->memory_fd = -1;
    for (uint32_t i = 0; i < LIMIT_LANES; i++)
        session->doorbell_fds[i] = -1;
}

nigh_status sessions_init(struct sessions *sessions, uint32_t capacity, uint32_t lanes)
{
    memset(sessions, 0, sizeof(*sessions));
    sessions->slots = calloc(capacity, sizeof(*sessions->slots));
    if (sessions->slots == NULL)
        return NIGH_NO_RESOURCES;
    sessions->capacity = capacity;
    sessions->lanes = lanes;
    sessions->next_id = 1;
    for (uint32_t i = 0; i < capacity; i++)
        sessions_clear(&sessions->slots[i], i);
    return NIGH_OK;
}

void sessions_fini(struct sessions *sessions)
{
    for (uint32_t i = 0; i < sessions->capacity; i++) {
        if (sessions->slots[i].state != NODE_SESSION_FREE)
            sessions_free(sessions, &sessions->slots[i]);
    }
    free(sessions->slots);
    sessions->slots = NULL;
    sessions->capacity = 0;
}

uint32_t sessions_of_uid(const struct sessions *sessions, uint32_t uid)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < sessions->capacity; i++) {
        if (sessions->slots[i].state != NODE_SESSION_FREE && sessions->slots[i].seat.uid == uid)
            count++;
    }
    return count;
}

struct node_session *sessions_find(struct sessions *sessions, uint64_t session_id)
{
    for (uint32_t i = 0; i < sessions->capacity; i++) {
        if (sessions->slots[i].state != NODE_SESSION_FREE &&
            sessions->slots[i].seat.session_id == session_id)
            return &sessions->slots[i];
    }
    return NULL;
}

static void sessions_close_doorbells(struct node_session *session)
{
    for (uint32_t i = 0; i < LIMIT_LANES; i++)
        fd_close(&session->doorbell_fds[i]);
    session->seat.doorbell_fds = NULL;
}

void sessions_disconnect(struct node_session *session)
{
    fd_close(&session->socket_fd);
    session->seat.socket_fd = -1;
    sessions_close_doorbells(session);
}

nigh_status sessions_make_doorbells(struct sessions *sessions, struct node_session *session)
{
    for (uint32_t i = 0; i < sessions->lanes; i++) {
        session->doorbell_fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (session->doorbell_fds[i] < 0) {
            sessions_close_doorbells(session);
            return NIGH_NO_RESOURCES;
        }
    }
    session->seat.doorbell_fds = session->doorbell_fds;
    return NIGH_OK;
}

/* All of it, with its pages: no touch of one can fail. */
static nigh_status sessions_map_memory(struct node_session *session)
{
    void *memory;
    nigh_status status =
        memfd_map(session->memory_fd, session->memory_bytes, MEMFD_WRITABLE, &memory);

    if (status == NIGH_OK) {
        status = memfd_prefault(memory, session->memory_bytes, true);
        if (status != NIGH_OK)
            memfd_unmap(memory, session->memory_bytes);
    }
    if (status == NIGH_OK)
        session->seat.memory = memory;
    return status;
}

static nigh_status sessions_make_memory(struct sessions *sessions, struct node_session *session)
{
    struct session_front *front;
    nigh_status status;

    session->memory_bytes = session_file_bytes(sessions->lanes);
    status = memfd_create_sealed("nigh-session", session->memory_bytes, 0, &session->memory_fd);
    if (status != NIGH_OK)
        return status;
    status = sessions_map_memory(session);
    if (status != NIGH_OK) {
        fd_close(&session->memory_fd);
        return status;
    }
    session->seat.has_places = true;
    front = session_front_of(session->seat.memory);
    front->magic = SESSION_MAGIC;
    front->lanes = sessions->lanes;
    front->session = session->seat.session_id;
    return NIGH_OK;
}

nigh_status sessions_take(struct sessions *sessions, struct node_session **out)
{
    struct node_session *session = NULL;
    nigh_status status;

    for (uint32_t i = 0; i < sessions->capacity && session == NULL; i++) {
        if (sessions->slots[i].state == NODE_SESSION_FREE)
            session = &sessions->slots[i];
    }
    if (session == NULL)
        return NIGH_LIMIT;
    session->seat.session_id = sessions->next_id;
    status = random_system_fill(session->token, sizeof(session->token));
    if (status == NIGH_OK)
        status = sessions_make_memory(sessions, session);
    if (status == NIGH_OK)
        status = sessions_make_doorbells(sessions, session);
    if (status != NIGH_OK) {
        if (session->seat.memory != NULL)
            memfd_unmap(session->seat.memory, session->memory_bytes);
        fd_close(&session->memory_fd);
        sessions_clear(session, session->seat.slot);
        return status;
    }
    sessions->next_id++;
    sessions->count++;
    session->seat.quota_used = &session->quota_used;
    session->state = NODE_SESSION_OPENING;
    *out = session;
    return NIGH_OK;
}

nigh_status sessions_keep(struct sessions *sessions, uint32_t slot, uint64_t session_id,
                          int memory_fd, struct node_session **out)
{
    struct node_session *session = &sessions->slots[slot];
    uint64_t bytes;
    nigh_status status;

    NIGH_ASSERT(slot < sessions->capacity && session->state == NODE_SESSION_FREE);
    if (memfd_size(memory_fd, &bytes) != NIGH_OK ||
        (bytes != session_file_bytes(sessions->lanes) &&
         bytes != session_memory_bytes(sessions->lanes)))
        return NIGH_PROTOCOL;
    session->memory_fd = memory_fd;
    session->memory_bytes = bytes;
    status = sessions_map_memory(session);
    if (status != NIGH_OK) {
        session->memory_fd = -1; /* the caller's still */
        return status;
    }
    /* An older node's has none. */
    session->seat.has_places = bytes == session_file_bytes(sessions->lanes);
    session->seat.session_id = session_id;
    session->seat.quota_used = &session->quota_used;
    session->state = NODE_SESSION_KEPT;
    sessions->count++;
    *out = session;
    return NIGH_OK;
}

void sessions_tell_quotas(const struct sessions *sessions, const struct node_session *session)
{
    struct session_front *front = session_front_of(session->seat.memory);

    shared_store_relaxed(&front->session_quota_bytes, session->seat.quota_max_bytes);
    shared_store_relaxed(&front->pool_quota_bytes,
                         pool_quota_share(&session->pool->rules, sessions->lanes));
}

void sessions_free(struct sessions *sessions, struct node_session *session)
{
    NIGH_ASSERT(session->state != NODE_SESSION_FREE);
    fd_close(&session->socket_fd);
    fd_close(&session->pidfd);
    sessions_close_doorbells(session);
    memfd_unmap(session->seat.memory, session->memory_bytes);
    fd_close(&session->memory_fd);
    sessions_clear(session, session->seat.slot);
    sessions->count--;
}
