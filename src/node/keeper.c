/* SPDX-License-Identifier: Apache-2.0 */
/* See keeper.h. */
#include "node/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fd.h"

#define LOG_MODULE "keeper"
#include "base/log.h"

#define KEEPER_FIRST_FD 3 /* SD_LISTEN_FDS_START */
#define KEEPER_FDS_MOST 65536

/* ---- the socket ---- */

static nigh_status keeper_connect(const char *path, int *socket_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval wait = {.tv_sec = KEEPER_WAIT_MS / 1000,
                           .tv_usec = KEEPER_WAIT_MS % 1000 * 1000};
    size_t length = strlen(path);
    int fd;

    if ((path[0] != '/' && path[0] != '@') || length < 2 || length >= sizeof(address.sun_path))
        return NIGH_INVALID;
    memcpy(address.sun_path, path, length);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* an abstract name */
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return NIGH_NO_RESOURCES;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    if (connect(fd, (const struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) != 0) {
        fd_close(&fd);
        return NIGH_UNREACHABLE;
    }
    *socket_fd = fd;
    return NIGH_OK;
}

/* Sends one datagram, with a descriptor unless fd is -1. */
static nigh_status keeper_send(struct keeper *keeper, const char *text, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = (char *)(uintptr_t)text, .iov_len = strlen(text)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = &control;
        message.msg_controllen = sizeof(control.bytes);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
    }
    for (int i = 0; i < FD_INTERRUPTS_MAX; i++) {
        bool tired = atomic_load_explicit(&keeper->is_tired, memory_order_relaxed);

        if (sendmsg(keeper->socket_fd, &message, MSG_NOSIGNAL | (tired ? MSG_DONTWAIT : 0)) >= 0) {
            atomic_store_explicit(&keeper->is_tired, false, memory_order_relaxed);
            return NIGH_OK;
        }
        if (errno != EINTR)
            break;
    }
    if (errno != EAGAIN)
        return NIGH_NO_RESOURCES;
    atomic_store_explicit(&keeper->is_tired, true, memory_order_relaxed);
    return NIGH_BUSY;
}

nigh_status keeper_store(struct keeper *keeper, const char *name, int fd)
{
    char text[96];
    nigh_status status;

    if (!keeper_is_there(keeper))
        return NIGH_OK;
    /* FDPOLL=0: the keeper must not drop it when it signals something. */
    snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s\nFDPOLL=0\n", name);
    status = keeper_send(keeper, text, fd);
    if (status != NIGH_OK)
        LOG_WARN(
            "a descriptor is not kept over a restart",
            "name=%s errno=%d do=\"raise FileDescriptorStoreMax= and LimitNOFILE= of the unit\"",
            name, errno);
    return status;
}

nigh_status keeper_remove(struct keeper *keeper, const char *name)
{
    char text[96];
    nigh_status status;

    if (!keeper_is_there(keeper))
        return NIGH_OK;
    snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s\n", name);
    status = keeper_send(keeper, text, -1);
    if (status != NIGH_OK)
        LOG_WARN("the keeper did not take a message",
                 "name=%s errno=%d do=\"see to systemd, or to the process nighd-hold\"", name,
                 errno);
    return status;
}

nigh_status keeper_replace(struct keeper *keeper, const char *name, int fd)
{
    /* Datagrams keep their order: what is stored is stored alone. */
    nigh_status status = keeper_remove(keeper, name);

    return status == NIGH_OK ? keeper_store(keeper, name, fd) : status;
}

void keeper_say_ready(struct keeper *keeper)
{
    if (keeper_is_there(keeper))
        (void)keeper_send(keeper, "READY=1\nSTATUS=serving\n", -1);
}

void keeper_say_stopping(struct keeper *keeper)
{
    if (keeper_is_there(keeper))
        (void)keeper_send(keeper, "STOPPING=1\nSTATUS=stopping\n", -1);
}

/* ---- what came back ---- */

static bool keeper_number(const char *text, unsigned long most, unsigned long *number)
{
    char *end;

    if (text == NULL || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *number = strtoul(text, &end, 10);
    return *end == '\0' && errno == 0 && *number <= most;
}

/* The next name of a list that colons separate; names that are not ours are "". */
static const char *keeper_next_name(const char *names, char name[KEEPER_NAME_BYTES])
{
    size_t length = strcspn(names, ":");

    name[0] = '\0';
    if (length < KEEPER_NAME_BYTES) {
        memcpy(name, names, length);
        name[length] = '\0';
    }
    return names[length] == ':' ? names + length + 1 : names + length;
}

static nigh_status keeper_take_over(struct keeper *keeper, unsigned long count, const char *names)
{
    keeper->items = calloc(count, sizeof(*keeper->items));
    if (keeper->items == NULL)
        return NIGH_NO_RESOURCES;
    for (unsigned long i = 0; i < count; i++) {
        struct keeper_item *item = &keeper->items[i];

        names = keeper_next_name(names, item->name);
        item->fd = KEEPER_FIRST_FD + (int)i;
        (void)fd_set_cloexec(item->fd);
    }
    keeper->count = count;
    return NIGH_OK;
}

nigh_status keeper_open(struct keeper *keeper, char *why, size_t why_bytes)
{
    const char *path = getenv("NOTIFY_SOCKET");
    const char *names = getenv("LISTEN_FDNAMES");
    unsigned long pid, count = 0;
    nigh_status status = NIGH_OK;

    keeper->socket_fd = -1;
    keeper->is_tired = false;
    keeper->items = NULL;
    keeper->count = 0;
    keeper->ends_with_node = getenv(KEEPER_HOLDER_VARIABLE) != NULL;
    if (path != NULL && path[0] != '\0' && keeper_connect(path, &keeper->socket_fd) != NIGH_OK) {
        snprintf(why, why_bytes, "NOTIFY_SOCKET is \"%.100s\", where nobody listens; unset it",
                 path);
        return NIGH_INVALID;
    }
    if (keeper_number(getenv("LISTEN_PID"), UINT32_MAX, &pid) && pid == (unsigned long)getpid() &&
        keeper_number(getenv("LISTEN_FDS"), KEEPER_FDS_MOST, &count) && count > 0)
        status = keeper_take_over(keeper, count, names != NULL ? names : "");
    unsetenv("NOTIFY_SOCKET");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    unsetenv(KEEPER_HOLDER_VARIABLE);
    if (status != NIGH_OK)
        snprintf(why, why_bytes, "no memory for the %lu descriptors that were kept", count);
    return status;
}

void keeper_close(struct keeper *keeper)
{
    for (size_t i = 0; i < keeper->count; i++)
        fd_close(&keeper->items[i].fd);
    free(keeper->items);
    keeper->items = NULL;
    keeper->count = 0;
    fd_close(&keeper->socket_fd);
}

int keeper_take(struct keeper *keeper, const char *name)
{
    struct keeper_item *found = NULL;
    int fd;

    for (size_t i = 0; i < keeper->count; i++) {
        struct keeper_item *item = &keeper->items[i];

        if (item->fd < 0 || strcmp(item->name, name) != 0)
            continue;
        if (found != NULL)
            return KEEPER_TWICE;
        found = item;
    }
    if (found == NULL)
        return -1;
    fd = found->fd;
    found->fd = -1;
    return fd;
}
