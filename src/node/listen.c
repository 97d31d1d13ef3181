/* SPDX-License-Identifier: Apache-2.0 */
/* See listen.h. */
#include "node/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fd.h"
#include "base/limits.h"

#define LISTEN_BACKLOG       128
#define LISTEN_LOCK_BYTES    (LIMIT_SOCKET_PATH_BYTES + sizeof(".lock"))
#define LISTEN_LOCK_ATTEMPTS 16 /* a lock file may be removed, by who held it, while we open it */

static void listen_lock_path(const char *path, char lock_path[LISTEN_LOCK_BYTES])
{
    snprintf(lock_path, LISTEN_LOCK_BYTES, "%s.lock", path);
}

static nigh_status listen_fail(const char *path, int error, char *why, size_t why_bytes)
{
    const char *slash = strrchr(path, '/');
    int folder = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    const char *name = slash == NULL ? "." : path;

    switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
        snprintf(why, why_bytes,
                 "no permission to make a socket in %.*s; run as a user who may, or choose another "
                 "--socket",
                 folder, name);
        return NIGH_DENIED;
    case ENOENT:
    case ENOTDIR:
        snprintf(why, why_bytes,
                 "there is no directory %.*s for the socket; make it, or choose another --socket",
                 folder, name);
        return NIGH_NOT_FOUND;
    default:
        snprintf(why, why_bytes, "cannot listen on %s: %s", path, strerror(error));
        return NIGH_NO_RESOURCES;
    }
}

/* Whether the file that is open is still the one of this name. */
static bool listen_is_current(int fd, const char *lock_path)
{
    struct stat here, there;

    return fstat(fd, &here) == 0 && stat(lock_path, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

static nigh_status listen_lock(const char *path, struct lock_file *lock, char *why,
                               size_t why_bytes)
{
    char lock_path[LISTEN_LOCK_BYTES];

    listen_lock_path(path, lock_path);
    for (int i = 0; i < LISTEN_LOCK_ATTEMPTS; i++) {
        if (!lock_file_open(lock, AT_FDCWD, lock_path)) {
            int error = errno;

            /* Somebody else's lock file is somebody else's node. */
            if (error == EACCES && access(lock_path, F_OK) == 0) {
                snprintf(why, why_bytes,
                         "%s belongs to another user's node; choose another --socket", path);
                return NIGH_DENIED;
            }
            return listen_fail(path, error, why, why_bytes);
        }
        if (!fd_lock(lock->fd)) {
            int error = errno;

            lock_file_close(lock);
            if (error != EWOULDBLOCK)
                return listen_fail(lock_path, error, why, why_bytes);
            snprintf(why, why_bytes,
                     "another node is running on %s; stop it, or choose another --socket", path);
            return NIGH_BUSY;
        }
        if (listen_is_current(lock->fd, lock_path))
            return NIGH_OK;
        lock_file_close(lock);
    }
    snprintf(why, why_bytes, "another node is starting or stopping on %s; try again", path);
    return NIGH_BUSY;
}

static struct sockaddr_un listen_address(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memcpy(address.sun_path, path, strlen(path) + 1);
    return address;
}

/* is_left: there is a socket that nobody answers on. */
static nigh_status look(const char *path, bool *is_left, char *why, size_t why_bytes)
{
    struct sockaddr_un address = listen_address(path);
    struct stat st;
    int probe, error;

    *is_left = false;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? NIGH_OK : listen_fail(path, errno, why, why_bytes);
    if (!S_ISSOCK(st.st_mode)) {
        snprintf(why, why_bytes,
                 "%s exists and is no socket; remove it, or choose another --socket", path);
        return NIGH_INVALID;
    }
    probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return listen_fail(path, errno, why, why_bytes);
    error = connect(probe, (const struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : errno;
    fd_close(&probe);
    if (error != ECONNREFUSED) {
        snprintf(why, why_bytes,
                 "something answers on %s already; stop it, or choose another --socket", path);
        return NIGH_BUSY;
    }
    *is_left = true;
    return NIGH_OK;
}

nigh_status listen_look(const char *path, char *why, size_t why_bytes)
{
    bool is_left;

    return look(path, &is_left, why, why_bytes);
}

/* Removes a socket that nobody answers on. Where there was none nothing is removed: somebody else
 * may make one at any time. */
static nigh_status listen_clear(const char *path, char *why, size_t why_bytes)
{
    bool is_left;
    nigh_status status = look(path, &is_left, why, why_bytes);

    if (is_left && unlink(path) != 0 && errno != ENOENT)
        return listen_fail(path, errno, why, why_bytes);
    return status;
}

/* A socket kept over a restart is good as long as the path still leads to it. */
static bool listen_kept_is_good(const char *path, int kept_fd)
{
    struct sockaddr_un address;
    socklen_t bytes = sizeof(address);
    int listening = 0;
    socklen_t option_bytes = sizeof(listening);
    struct stat st;

    memset(&address, 0, sizeof(address));
    return kept_fd >= 0 && getsockname(kept_fd, (struct sockaddr *)&address, &bytes) == 0 &&
           address.sun_family == AF_UNIX &&
           strncmp(address.sun_path, path, sizeof(address.sun_path)) == 0 &&
           getsockopt(kept_fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &option_bytes) == 0 &&
           listening != 0 && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

nigh_status listen_claim(const char *path, int kept_fd, int *listen_fd, struct lock_file *lock,
                         char *why, size_t why_bytes)
{
    nigh_status status;

    NIGH_ASSERT(strlen(path) <= LIMIT_SOCKET_PATH_BYTES);
    status = listen_lock(path, lock, why, why_bytes);
    if (status != NIGH_OK)
        return status;
    /* Listening again names this process, not the former, to those who ask whom they reached. */
    if (listen_kept_is_good(path, kept_fd) && listen(kept_fd, LISTEN_BACKLOG) == 0) {
        (void)fd_set_nonblock(kept_fd);
        *listen_fd = kept_fd;
        return NIGH_OK;
    }
    if (kept_fd >= 0)
        (void)shutdown(kept_fd, SHUT_RDWR); /* else the probe would reach ourselves */
    status = listen_clear(path, why, why_bytes);
    if (status != NIGH_OK) {
        lock_file_close(lock);
        return status;
    }
    fd_close(&kept_fd);
    *listen_fd = -1;
    return NIGH_OK;
}

nigh_status listen_open(const char *path, uint32_t mode, int *listen_fd, char *why,
                        size_t why_bytes)
{
    struct sockaddr_un address = listen_address(path);
    nigh_status status = listen_clear(path, why, why_bytes);
    int fd;

    if (status != NIGH_OK)
        return status;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return listen_fail(path, errno, why, why_bytes);
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        chmod(path, mode) != 0 || listen(fd, LISTEN_BACKLOG) != 0) {
        status = listen_fail(path, errno, why, why_bytes);
        fd_close(&fd);
        return status;
    }
    *listen_fd = fd;
    return NIGH_OK;
}

void listen_remove(const char *path, bool made, struct lock_file *lock)
{
    char lock_path[LISTEN_LOCK_BYTES];

    listen_lock_path(path, lock_path);
    if (made)
        (void)unlink(path);
    (void)unlink(lock_path);
    lock_file_close(lock);
}
