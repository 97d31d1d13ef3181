/* SPDX-License-Identifier: Apache-2.0 */
/* See lock_file.h. */
#include "node/lock_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

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

/* A copy of the lock's descriptor that nobody told us of: it is the parent's lock that it holds. Of
 * a file that is not there by this name any more nobody wants the lock. */
static void close_copies(const struct lock_file *file)
{
    struct stat lock, other;
    struct dirent *entry;
    DIR *folder;

    if (fstatat(file->directory_fd, file->path, &lock, AT_SYMLINK_NOFOLLOW) != 0) {
        return;
    }
    folder = opendir("/proc/self/fd");
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        int fd = (int)strtol(entry->d_name, NULL, 10);

        if (entry->d_name[0] != '.' && fstat(fd, &other) == 0 && other.st_dev == lock.st_dev &&
            other.st_ino == lock.st_ino) {
            fd_close(&fd);
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
}

void lock_file_in_child(struct lock_file *file)
{
    if (atomic_load(&file->is_opening)) {
        close_copies(file);
    }
    lock_file_close(file);
}
