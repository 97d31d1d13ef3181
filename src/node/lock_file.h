/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is locked (flock) as long as a node lives: whoever holds the lock has what it stands
 * for. The lock is its file description's, which a forked child shares: the child lets go of it,
 * at whatever moment it was forked. It does not know what the lock stands for, nor make a sentence
 * of what failed. One thread at a time.
 */
#ifndef NODE_LOCK_FILE_H
#define NODE_LOCK_FILE_H

#include <stdatomic.h>
#include <stdbool.h>

#define LOCK_FILE_PATH_BYTES 4096

struct lock_file {
    int fd;                  /* -1: closed */
    _Atomic bool is_opening; /* fd is: a child that is forked then may have it, unknown */
    int directory_fd;        /* that the path begins at */
    char path[LOCK_FILE_PATH_BYTES];
};

void lock_file_init(struct lock_file *file);

/* Makes the file (mode 0600) if it is not there, and opens it; fd_lock locks it then.
 * directory_fd: the caller's, or AT_FDCWD. False: errno says why. */
bool lock_file_open(struct lock_file *file, int directory_fd, const char *path);

/* Lets go of it. Leaves errno as it was. */
void lock_file_close(struct lock_file *file);

/* In a child that was forked, before the directory is closed: the lock is its parent's. */
void lock_file_in_child(struct lock_file *file);

#endif
