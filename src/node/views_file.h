/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file in which a voter keeps what it said: written anew, synced and renamed for each change,
 * so that it is the one or the other, whole. It does not know what it keeps. With the file goes the
 * state directory that it lies in, which is one node's. One thread at a time.
 */
#ifndef NODE_VIEWS_FILE_H
#define NODE_VIEWS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nigh/status.h"
#include "node/lock_file.h"

#define VIEWS_FILE       "views"      /* in the state directory */
#define VIEWS_FILE_BYTES (256u << 10) /* at most */

struct views_file {
    int directory_fd; /* -1: closed */
    struct lock_file lock;
    char path[4096];
};

void views_file_init(struct views_file *file);

/* Makes the directory if it is not there, such that it is after a power cut, and locks it. On
 * failure `why` is a sentence with a remedy: NIGH_BUSY (another node has it), NIGH_DENIED,
 * NIGH_DISK, NIGH_INVALID. */
nigh_status views_file_open(struct views_file *file, const char *directory, char *why,
                            size_t why_bytes);
void views_file_close(struct views_file *file);
/* In a child that was forked, at whatever moment: the directory is its parent's. */
void views_file_in_child(struct views_file *file);

/* Whether there is room for as much as a voter may ever keep; nothing of it stays. NIGH_DISK, with
 * a sentence. */
nigh_status views_file_try(struct views_file *file, char *why, size_t why_bytes);

/* All of it, the caller's to free; 0 bytes: there is none yet. */
nigh_status views_file_read(struct views_file *file, uint8_t **bytes, size_t *count, char *why,
                            size_t why_bytes);

/* There is none any more. */
void views_file_remove(struct views_file *file);

/* NIGH_OK: it is there after a power cut. NIGH_DISK: the former one is; or, where the directory
 * alone could not be synced, either may be: whoever is told so says nothing more in votes. */
nigh_status views_file_write(struct views_file *file, const void *bytes, size_t count);

#endif
