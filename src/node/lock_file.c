/* SPDX-License-Identifier: Apache-2.0 */
/* See lock_file.h. */
#include "node/lock_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define LOG_MODULE "node"
#include "base/log.h"

#define FDS_TRIED (1 << 20) /* at most: as many as Linux gives a process by default */

void lock_file_init(struct lock_file *file)
{
    *file = (struct lock_file){.fd = -1, .directory_fd = AT_FDCWD};
}

bool lock_file_open(struct lock_file *file, int directory_fd, const char *path)
{
    size_t length = strlen(path);

    if (length >= sizeof(file->path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(file->path, path, length + 1);
    file->directory_fd = directory_fd;
    /* From here to the end of it a child that is forked has the descriptor, or knows that it may.
     */
    atomic_store(&file->is_opening, true);
    file->fd = openat(directory_fd, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    atomic_store(&file->is_opening, false);
    return file->fd >= 0;
}

void lock_file_close(struct lock_file *file)
{
    fd_close(&file->fd);
}

static void close_if_copy(int fd, const struct stat *lock)
{
    struct stat other;

    if (fstat(fd, &other) == 0 && other.st_dev == lock->st_dev && other.st_ino == lock->st_ino) {
        fd_close(&fd);
    }
}

/* No descriptor is left to list descriptors with: then each number below the limit is one, or there
 * is no /proc. */
static void close_copies_one_by_one(const struct stat *lock, int error)
{
    struct rlimit limit = {0};
    int most = FDS_TRIED;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < FDS_TRIED) {
        most = (int)limit.rlim_cur;
    }
    LOG_WARN("a child cannot list its descriptors, and tries each for its parent's lock",
             "errno=%d below=%d do=\"mount /proc, or raise RLIMIT_NOFILE; it goes on without\"",
             error, most);
    for (int fd = 0; fd < most; fd++) {
        close_if_copy(fd, lock);
    }
}

/* A copy of the lock's descriptor that nobody told us of: it is the parent's lock that it holds. Of
 * a file that is not there by this name any more nobody wants the lock. */
static void close_copies(const struct lock_file *file)
{
    struct dirent *entry;
    struct stat lock;
    DIR *folder;

    if (fstatat(file->directory_fd, file->path, &lock, AT_SYMLINK_NOFOLLOW) != 0) {
        return;
    }
    folder = opendir("/proc/self/fd");
    if (folder == NULL) {
        close_copies_one_by_one(&lock, errno);
        return;
    }
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.') {
            close_if_copy((int)strtol(entry->d_name, NULL, 10), &lock);
        }
    }
    (void)closedir(folder);
}

void lock_file_in_child(struct lock_file *file)
{
    if (atomic_load(&file->is_opening)) {
        close_copies(file);
    }
    lock_file_close(file);
}
