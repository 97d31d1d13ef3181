/* SPDX-License-Identifier: Apache-2.0 */
/* See views_file.h. */
#include "node/views_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define LOG_MODULE "views"
#include "base/log.h"

#define FILE_NEW  "views.new"
#define FILE_LOCK "lock.views"

void views_file_init(struct views_file *file)
{
    *file = (struct views_file){.directory_fd = -1};
    lock_file_init(&file->lock);
}

static nigh_status refuse(const char *directory, int error, const char *what, char *why,
                          size_t why_bytes)
{
    snprintf(
        why, why_bytes,
        "the directory %.200s for what this node says in votes %s (%s): give it to this user, or "
        "name another with --state",
        directory, what, strerror(error));
    return error == EACCES || error == EPERM ? NIGH_DENIED : NIGH_DISK;
}

/* A directory's name is in its parent: what is synced inside may be nowhere after a power cut as
 * long as that is not. */
static bool sync_parent(int directory_fd)
{
    int fd = openat(directory_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_synced = fd >= 0 && fsync(fd) == 0;

    fd_close(&fd);
    return is_synced;
}

nigh_status views_file_open(struct views_file *file, const char *directory, char *why,
                            size_t why_bytes)
{
    bool is_made;

    if (snprintf(file->path, sizeof(file->path), "%s/" VIEWS_FILE, directory) >=
        (int)sizeof(file->path)) {
        snprintf(why, why_bytes, "the path given with --state is too long");
        return NIGH_INVALID;
    }
    is_made = mkdir(directory, 0700) == 0;
    if (!is_made && errno != EEXIST) {
        return refuse(directory, errno, "cannot be made", why, why_bytes);
    }
    file->directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file->directory_fd < 0) {
        return refuse(directory, errno, "cannot be opened", why, why_bytes);
    }
    /* One that was there already may be of a start that was killed before it did so. */
    if (!sync_parent(file->directory_fd) && is_made) {
        int error = errno;

        (void)rmdir(directory);
        return refuse(directory, error, "cannot be synced where it was made", why, why_bytes);
    }
    if (!lock_file_open(&file->lock, file->directory_fd, FILE_LOCK)) {
        return refuse(directory, errno, "cannot be written", why, why_bytes);
    }
    if (fd_lock(file->lock.fd)) {
        return NIGH_OK;
    }
    if (errno != EWOULDBLOCK) {
        return refuse(directory, errno, "cannot be locked", why, why_bytes);
    }
    snprintf(why, why_bytes, "another node uses the directory %.200s: name another with --state",
             directory);
    return NIGH_BUSY;
}

void views_file_close(struct views_file *file)
{
    lock_file_close(&file->lock);
    fd_close(&file->directory_fd);
}

void views_file_in_child(struct views_file *file)
{
    lock_file_in_child(&file->lock);
    views_file_close(file);
}

static bool read_all(int fd, uint8_t *bytes, size_t count)
{
    while (count > 0) {
        ssize_t got = read(fd, bytes, count);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        bytes += got;
        count -= (size_t)got;
    }
    return true;
}

nigh_status views_file_read(struct views_file *file, uint8_t **bytes, size_t *count, char *why,
                            size_t why_bytes)
{
    int fd = openat(file->directory_fd, VIEWS_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat stat;
    uint8_t *made = NULL;

    if (fd < 0 && errno == ENOENT) {
        return NIGH_OK;
    }
    if (fd < 0 || fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode) || stat.st_size == 0 ||
        stat.st_size > (off_t)VIEWS_FILE_BYTES) {
        fd_close(&fd);
        snprintf(why, why_bytes,
                 "%s is not what this node kept there: a voter must not vote without it; bring it "
                 "back, or see docs/views.md",
                 file->path);
        return NIGH_CORRUPT;
    }
    made = malloc((size_t)stat.st_size);
    if (made == NULL || !read_all(fd, made, (size_t)stat.st_size)) {
        free(made);
        fd_close(&fd);
        snprintf(why, why_bytes, "%s cannot be read", file->path);
        return NIGH_DISK;
    }
    fd_close(&fd);
    *bytes = made;
    *count = (size_t)stat.st_size;
    return NIGH_OK;
}

static bool write_all(int fd, const uint8_t *bytes, size_t count)
{
    while (count > 0) {
        ssize_t put = write(fd, bytes, count);

        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            errno = put == 0 ? ENOSPC : errno;
            return false;
        }
        bytes += put;
        count -= (size_t)put;
    }
    return true;
}

nigh_status views_file_try(struct views_file *file, char *why, size_t why_bytes)
{
    int fd = openat(file->directory_fd, FILE_NEW,
                    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    uint8_t *bytes = calloc(1, VIEWS_FILE_BYTES);
    bool is_written =
        fd >= 0 && bytes != NULL && write_all(fd, bytes, VIEWS_FILE_BYTES) && fsync(fd) == 0;
    int error = errno;

    fd_close(&fd);
    free(bytes);
    (void)unlinkat(file->directory_fd, FILE_NEW, 0);
    if (!is_written) {
        snprintf(why, why_bytes,
                 "%.200s cannot be written (%s), and a node keeps there which rank it has: make "
                 "room, give the directory to this user, or name another with --state",
                 file->path, strerror(error));
    }
    return is_written ? NIGH_OK : NIGH_DISK;
}

void views_file_remove(struct views_file *file)
{
    (void)unlinkat(file->directory_fd, VIEWS_FILE, 0);
    (void)fsync(file->directory_fd);
}

nigh_status views_file_write(struct views_file *file, const void *bytes, size_t count)
{
    int fd = openat(file->directory_fd, FILE_NEW,
                    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_written =
        fd >= 0 && count <= VIEWS_FILE_BYTES && write_all(fd, bytes, count) && fsync(fd) == 0;
    int error = errno;

    fd_close(&fd);
    if (is_written &&
        (renameat(file->directory_fd, FILE_NEW, file->directory_fd, VIEWS_FILE) != 0 ||
         fsync(file->directory_fd) != 0)) {
        error = errno;
        is_written = false;
    }
    if (!is_written) {
        LOG_ERROR("what this node says in votes cannot be kept",
                  "path=\"%s\" errno=%d do=\"make room on the disk of --state, and start the node "
                  "again\"",
                  LOG_QUOTE(file->path), error);
        return NIGH_DISK;
    }
    return NIGH_OK;
}
