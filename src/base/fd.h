/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors: closing, flags, whole reads and writes of files, and messages with descriptors over
 * SEQPACKET sockets.
 *
 * Message calls never block and never raise SIGPIPE. The file calls may block as the disk does, and
 * are for regular files: they go on after EINTR and after short transfers.
 */
#ifndef BASE_FD_H
#define BASE_FD_H

#include "nigh/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Signals in a row, without one byte in between, that a file call bears before it gives NIGH_BUSY.
 */
#define FD_INTERRUPTS_MAX 1000

#define FD_LOCK_WAIT_US UINT64_C(2000000)

/* Closes *fd unless it is -1, and sets it to -1. Leaves errno as it was: clean-up calls it. */
void fd_close(int *fd);

nigh_status fd_set_nonblock(int fd);
nigh_status fd_set_cloexec(int fd);

/* Locks a whole file (flock) against other processes. Waits for FD_LOCK_WAIT_US: a process that was
 * killed has its locks until the kernel has taken its memory apart, half a second for gigabytes,
 * and nothing tells it from one that lives. False: another has it, if errno is EWOULDBLOCK; else
 * that says why the file cannot be locked. */
bool fd_lock(int fd);

/*
 * Sends one message with `fd_count` descriptors (at most LIMIT_SESSION_FDS), all of it or nothing.
 * The descriptors stay the caller's. NIGH_BUSY: the peer's queue is full. NIGH_CLOSED: the peer is
 * gone. NIGH_LIMIT: too large, or too many descriptors in flight.
 */
nigh_status fd_send_message(int socket, const void *bytes, size_t size_bytes, const int *fds,
                            size_t fd_count);

/*
 * Receives one message of at most capacity_bytes with at most fd_capacity (<= LIMIT_SESSION_FDS)
 * descriptors, which become the caller's, close-on-exec.
 * NIGH_BUSY: none there. NIGH_CLOSED: end of file, or an empty message (a SEQPACKET socket tells
 * them not apart). NIGH_PROTOCOL: the message is longer, or brings more descriptors: it is lost,
 * and every descriptor of it closed. NIGH_NO_RESOURCES: this process may not have as many: those
 * are closed, and *size_bytes tells that the message itself came; it stays as it was where the
 * system refused the call.
 */
nigh_status fd_recv_message(int socket, void *bytes, size_t capacity_bytes, size_t *size_bytes,
                            int *fds, size_t fd_capacity, size_t *fd_count);

/*
 * Of a peer that is not trusted what a message brings is not received before somebody is to have
 * it: to close it, as the kernel does with what there is no room for, may wait for who serves what
 * is behind it, or for long. So messages are looked at first, and stay where they are.
 */
enum fd_next {
    FD_NEXT_NONE, /* no message */
    FD_NEXT_PLAIN,
    FD_NEXT_BRINGS /* descriptors */
};

/* The next message. The socket has SO_PASSCRED: else an empty message is as none. */
enum fd_next fd_next(int socket);

/*
 * Reads the next message without taking it; *brings: descriptors come with it. Statuses as of
 * fd_recv_message without room for descriptors; where that is NIGH_PROTOCOL since some come,
 * NIGH_OK.
 */
nigh_status fd_peek_message(int socket, void *bytes, size_t capacity_bytes, size_t *size_bytes,
                            bool *brings);

/*
 * Takes the next message, which was looked at and brings one descriptor: *fd is the caller's,
 * close-on-exec. NIGH_PROTOCOL: it brings more; the message stays, and *fd is the first, the
 * caller's, too. NIGH_NO_RESOURCES: this process may not have it; the message stays, and *fd is -1.
 */
nigh_status fd_recv_one(int socket, int *fd);

/* Reads size_bytes, fewer only at end of file; *read_bytes says how many. */
nigh_status fd_read_full(int fd, void *bytes, size_t size_bytes, size_t *read_bytes);

/* As fd_read_full, from `offset`, without moving the descriptor's own. */
nigh_status fd_pread_full(int fd, void *bytes, size_t size_bytes, uint64_t offset,
                          size_t *read_bytes);

/* Writes all bytes. After an error an unknown part of them is written, and errno says more.
 * NIGH_DISK: full, or failed. */
nigh_status fd_write_full(int fd, const void *bytes, size_t size_bytes);

/* As fd_write_full, at `offset`, without moving the descriptor's own. */
nigh_status fd_pwrite_full(int fd, const void *bytes, size_t size_bytes, uint64_t offset);

#endif
