/* SPDX-License-Identifier: Apache-2.0 */
/* See log_stderr.h. */
#include "base/log_stderr.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"

#define LOG_LOST_BYTES 224 /* room for the line that says how many were lost */

/* A pipe takes such a line whole or not at all. */
_Static_assert(LOG_LOST_BYTES + LOG_TIME_BYTES + LOG_LINE_BYTES + 8 <= PIPE_BUF,
               "a line and what is said before it go in one piece");

static struct log_stderr {
    int fd;
    bool is_socket;
    bool waits;            /* nothing keeps it from waiting but a look before */
    _Atomic uint32_t lost; /* lines since the last that was taken */
    _Atomic bool is_torn;  /* of the last a part was taken, and no end */
} log_stderr = {.fd = STDERR_FILENO, .waits = true};

/* How many bytes it took: a file on a full disk takes a part of a line. */
static size_t log_stderr_put(const struct iovec *parts, size_t count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = count};
    struct pollfd room = {.fd = log_stderr.fd, .events = POLLOUT};
    ssize_t taken;

    if (log_stderr.is_socket)
        taken = sendmsg(log_stderr.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    else if (log_stderr.waits && poll(&room, 1, 0) == 0)
        taken = 0;
    else
        taken = writev(log_stderr.fd, parts, (int)count);
    return taken < 0 ? 0 : (size_t)taken;
}

static void log_stderr_write(void *context, enum log_level level, const char *line, size_t length)
{
    uint32_t lost = atomic_exchange(&log_stderr.lost, 0);
    bool is_torn = atomic_exchange(&log_stderr.is_torn, false);
    char stamp[LOG_TIME_BYTES], before[LOG_LOST_BYTES] = "";
    size_t stamp_length = log_format_time(clock_wall_ns(), stamp);
    size_t end_length = is_torn ? 1 : 0, whole = 0, taken;
    int before_length = 0;
    struct iovec parts[7];

    (void)context;
    (void)level;
    if (lost > 0)
        before_length = snprintf(before, sizeof(before),
                                 "time=%s level=warn module=log msg=\"lines were lost: stderr took "
                                 "none\" lost=%u do=\"make room where the log goes, or read the "
                                 "pipe faster\"\n",
                                 stamp, lost);
    parts[0] = (struct iovec){(void *)(uintptr_t) "\n", end_length};
    parts[1] = (struct iovec){before, (size_t)before_length};
    parts[2] = (struct iovec){(void *)(uintptr_t) "time=", 5};
    parts[3] = (struct iovec){stamp, stamp_length};
    parts[4] = (struct iovec){(void *)(uintptr_t) " ", 1};
    parts[5] = (struct iovec){(void *)(uintptr_t)line, length};
    parts[6] = (struct iovec){(void *)(uintptr_t) "\n", 1};
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++)
        whole += parts[i].iov_len;
    taken = log_stderr_put(parts, ARRAY_LENGTH(parts));
    if (taken == whole)
        return;
    atomic_fetch_add(&log_stderr.lost, lost + 1);
    if (taken == 0 ? is_torn : taken > end_length)
        atomic_store(&log_stderr.is_torn, true);
}

const struct log_sink *log_stderr_open(void)
{
    static const struct log_sink sink = {.write = log_stderr_write};
    struct stat is = {0};
    int fd = -1;

    if (log_stderr.fd != STDERR_FILENO)
        fd_close(&log_stderr.fd);
    log_stderr.fd = STDERR_FILENO;
    (void)fstat(STDERR_FILENO, &is);
    log_stderr.is_socket = S_ISSOCK(is.st_mode);
    log_stderr.waits = !log_stderr.is_socket;
    if (log_stderr.waits && (S_ISFIFO(is.st_mode) || S_ISCHR(is.st_mode)))
        fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0) {
        log_stderr.fd = fd;
        log_stderr.waits = false;
    }
    return &sink;
}
