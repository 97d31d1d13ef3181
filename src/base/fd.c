/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: see fd.h. The rules of SCM_RIGHTS are those of unix(7) and cmsg(3). */
#include "base/fd.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#define FD_LOCK_LOOK_MS 5

/* Room for a full message's descriptors, aligned as the kernel writes its headers. */
union fd_control {
    char bytes[CMSG_SPACE(sizeof(int) * LIMIT_SESSION_FDS)];
    struct cmsghdr alignment;
};

void fd_close(int *fd)
{
    if (*fd < 0)
        return;
    int saved = errno;
    /* Not repeated after EINTR: on Linux the descriptor is gone, and may be another's by then. */
    close(*fd);
    *fd = -1;
    errno = saved;
}

/* Adds `flag` to the flags that `get` reads and `set` writes. */
static nigh_status fd_add_flag(int fd, int get, int set, int flag)
{
    int flags = fcntl(fd, get);
    if (flags < 0 || fcntl(fd, set, flags | flag) < 0)
        return status_from_errno(errno);
    return NIGH_OK;
}

nigh_status fd_set_nonblock(int fd)
{
    return fd_add_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK);
}

nigh_status fd_set_cloexec(int fd)
{
    return fd_add_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC);
}

bool fd_lock(int fd)
{
    uint64_t end_us = clock_now_us(&clock_monotonic) + FD_LOCK_WAIT_US;

    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || clock_now_us(&clock_monotonic) >= end_us)
            return false;
        (void)poll(NULL, 0, FD_LOCK_LOOK_MS);
    }
    return true;
}

nigh_status fd_send_message(int socket, const void *bytes, size_t size_bytes, const int *fds,
                            size_t fd_count)
{
    NIGH_ASSERT(size_bytes > 0);
    NIGH_ASSERT(fd_count <= LIMIT_SESSION_FDS);
    union fd_control control;
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = size_bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count > 0) {
        size_t fd_bytes = fd_count * sizeof(int);
        memset(&control, 0, CMSG_SPACE(fd_bytes));
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fd_bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fd_bytes);
        memcpy(CMSG_DATA(header), fds, fd_bytes);
    }
    if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return status_from_errno(errno);
    return NIGH_OK;
}

/*
 * Moves the descriptors of all SCM_RIGHTS headers into `fds` and returns how many came; those
 * beyond the capacity are closed, since nobody will ever hear of them.
 */
static size_t fd_take_descriptors(struct msghdr *message, int *fds, size_t fd_capacity)
{
    size_t count = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++, count++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
            if (count < fd_capacity)
                fds[count] = fd;
            else
                fd_close(&fd);
        }
    }
    return count;
}

enum fd_next fd_next(int socket)
{
    uint8_t byte;
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred))]; /* of who sent it: those come first */
        struct cmsghdr alignment;
    } control;
    struct iovec part = {.iov_base = &byte, .iov_len = sizeof(byte)};

    /* A peer that left with something unread is told of once, before what it said. */
    for (int tries = 0; tries < 2; tries++) {
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof(control)};

        if (recvmsg(socket, &message, MSG_DONTWAIT | MSG_PEEK) < 0)
            continue;
        if (message.msg_controllen == 0)
            break;
        return (message.msg_flags & MSG_CTRUNC) != 0 ? FD_NEXT_BRINGS : FD_NEXT_PLAIN;
    }
    return FD_NEXT_NONE;
}

/* The kernel has descriptors of its own of what a message brings as long as that is not taken: none
 * that it lets go of here is the last. */
nigh_status fd_peek_message(int socket, void *bytes, size_t capacity_bytes, size_t *size_bytes,
                            bool *brings)
{
    struct iovec part = {.iov_base = bytes, .iov_len = capacity_bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_PEEK);

    *brings = false;
    if (received < 0)
        return status_from_errno(errno);
    *brings = (message.msg_flags & MSG_CTRUNC) != 0;
    *size_bytes = (size_t)received;
    if ((message.msg_flags & MSG_TRUNC) != 0)
        return NIGH_PROTOCOL;
    return received == 0 && !*brings ? NIGH_CLOSED : NIGH_OK;
}

nigh_status fd_recv_one(int socket, int *fd)
{
    uint8_t byte;
    union {
        char bytes[CMSG_LEN(sizeof(int))]; /* for one: what is aligned would do for two */
        struct cmsghdr alignment;
    } control;
    struct iovec part = {.iov_base = &byte, .iov_len = sizeof(byte)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_LEN(sizeof(int))};

    *fd = -1;
    if (recvmsg(socket, &message, MSG_DONTWAIT | MSG_PEEK | MSG_CMSG_CLOEXEC) < 0)
        return status_from_errno(errno);
    if (fd_take_descriptors(&message, fd, 1) == 0)
        return NIGH_NO_RESOURCES;
    if ((message.msg_flags & MSG_CTRUNC) != 0)
        return NIGH_PROTOCOL;
    message = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
    (void)recvmsg(socket, &message, MSG_DONTWAIT); /* *fd is one more of what this lets go of */
    return NIGH_OK;
}

/* As fd_recv_message, but what came is the caller's whatever is returned. */
static nigh_status fd_receive(int socket, void *bytes, size_t capacity_bytes, size_t *size_bytes,
                              int *fds, size_t fd_capacity, size_t *fd_count)
{
    NIGH_ASSERT(fd_capacity <= LIMIT_SESSION_FDS);
    union fd_control control;
    struct iovec part = {.iov_base = bytes, .iov_len = capacity_bytes};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        /* Room for what is asked for; the kernel closes the rest itself and sets MSG_CTRUNC. */
        .msg_controllen = fd_capacity == 0 ? 0 : CMSG_SPACE(fd_capacity * sizeof(int)),
    };
    ssize_t received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    *fd_count = 0;
    if (received < 0)
        return status_from_errno(errno);

    /* The padding of the control area may still have let one more through than was asked for. */
    size_t count = fd_take_descriptors(&message, fds, fd_capacity);
    bool is_cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || count > fd_capacity;
    *fd_count = min_size(count, fd_capacity);
    if (received > 0)
        *size_bytes = (size_t)received;
    /* There was room for what did not come: this process may have no more of them. */
    if (received > 0 && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == MSG_CTRUNC &&
        count < fd_capacity)
        return NIGH_NO_RESOURCES;
    if (is_cut)
        return NIGH_PROTOCOL;
    return received == 0 ? NIGH_CLOSED : NIGH_OK;
}

nigh_status fd_recv_message(int socket, void *bytes, size_t capacity_bytes, size_t *size_bytes,
                            int *fds, size_t fd_capacity, size_t *fd_count)
{
    int taken[LIMIT_SESSION_FDS];
    size_t count = 0, received_bytes = 0;
    nigh_status status =
        fd_receive(socket, bytes, capacity_bytes, &received_bytes, taken, fd_capacity, &count);

    if (status != NIGH_OK) {
        for (size_t i = 0; i < count; i++)
            fd_close(&taken[i]);
        if (status == NIGH_NO_RESOURCES && received_bytes > 0)
            *size_bytes = received_bytes;
        return status;
    }
    if (count > 0)
        memcpy(fds, taken, count * sizeof(int));
    *fd_count = count;
    *size_bytes = received_bytes;
    return NIGH_OK;
}

enum fd_call {
    FD_READ,
    FD_PREAD,
    FD_WRITE,
    FD_PWRITE,
};

static ssize_t fd_transfer_once(enum fd_call call, int fd, char *bytes, size_t size_bytes,
                                uint64_t offset)
{
    /* An offset beyond off_t turns negative here and comes back as EINVAL. */
    switch (call) {
    case FD_READ: return read(fd, bytes, size_bytes);
    case FD_PREAD: return pread(fd, bytes, size_bytes, (off_t)offset);
    case FD_WRITE: return write(fd, bytes, size_bytes);
    case FD_PWRITE: return pwrite(fd, bytes, size_bytes, (off_t)offset);
    }
    NIGH_ASSERT(!"a call of enum fd_call");
    return -1;
}

/* Transfers until all is done, or the kernel transfers nothing more; *done_bytes says how much was.
 */
static nigh_status fd_transfer(enum fd_call call, int fd, void *bytes, size_t size_bytes,
                               uint64_t offset, size_t *done_bytes)
{
    size_t done = 0;
    unsigned interrupts = 0;
    while (done < size_bytes) {
        ssize_t result =
            fd_transfer_once(call, fd, (char *)bytes + done, size_bytes - done, offset + done);
        if (result == 0)
            break;
        if (result > 0) {
            done += (size_t)result;
            interrupts = 0;
        } else if (errno != EINTR || ++interrupts == FD_INTERRUPTS_MAX) {
            return status_from_errno(errno);
        }
    }
    *done_bytes = done;
    return NIGH_OK;
}

nigh_status fd_read_full(int fd, void *bytes, size_t size_bytes, size_t *read_bytes)
{
    return fd_transfer(FD_READ, fd, bytes, size_bytes, 0, read_bytes);
}

nigh_status fd_pread_full(int fd, void *bytes, size_t size_bytes, uint64_t offset,
                          size_t *read_bytes)
{
    return fd_transfer(FD_PREAD, fd, bytes, size_bytes, offset, read_bytes);
}

/* A write that must be whole: a file that takes nothing more is a full one. */
static nigh_status fd_write_whole(enum fd_call call, int fd, const void *bytes, size_t size_bytes,
                                  uint64_t offset)
{
    size_t written_bytes = 0;
    nigh_status status = fd_transfer(call, fd, (void *)bytes, size_bytes, offset, &written_bytes);
    if (status == NIGH_OK && written_bytes < size_bytes) {
        errno = ENOSPC;
        return NIGH_DISK;
    }
    return status;
}

nigh_status fd_write_full(int fd, const void *bytes, size_t size_bytes)
{
    return fd_write_whole(FD_WRITE, fd, bytes, size_bytes, 0);
}

nigh_status fd_pwrite_full(int fd, const void *bytes, size_t size_bytes, uint64_t offset)
{
    return fd_write_whole(FD_PWRITE, fd, bytes, size_bytes, offset);
}
