/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space's log on files: what a job does, how a node begins from what it finds, and the files of a
 * directory. Files are behind a table of functions, so that tests have a disk of their own below.
 */
#ifndef SPACE_LOG_FILES_H
#define SPACE_LOG_FILES_H

#include "space/log.h"

/* One thread at a time. Errors: NIGH_DISK; NIGH_NOT_FOUND where it says so. */
struct space_log_files {
    void *context;
    /* Makes it if it is not there, and of that size; what was in it may stay. */
    nigh_status (*size)(void *context, enum space_log_file file, uint64_t size_bytes);
    /* From an offset; fewer bytes at the end of the file. NIGH_NOT_FOUND: there is none. */
    nigh_status (*read)(void *context, enum space_log_file file, uint64_t offset, void *bytes,
                        size_t size_bytes, size_t *read_bytes);
    /* All of them, or an error; beyond its end, too. */
    nigh_status (*write)(void *context, enum space_log_file file, uint64_t offset,
                         const void *bytes, size_t size_bytes);
    /* What was written is there after a power cut. */
    nigh_status (*sync)(void *context, enum space_log_file file);
    /* IMAGE_NEW is IMAGE_NOW from here on: after a power cut it may be, or not. */
    nigh_status (*rename)(void *context);
    /* Files that were made, and the name, are there after a power cut. */
    nigh_status (*sync_directory)(void *context);
};

/* Does what a job says, and sets its status. Any thread; no other uses these files. */
void space_log_run(const struct space_log_files *files, struct space_log_job *job);

/* What there was. */
struct space_log_found {
    bool is_new;         /* nothing: a space that had no log here */
    uint64_t generation; /* the last that there may be something of */
    uint64_t next;       /* the number of the first record that is not there */
    uint64_t records;    /* that were applied, the image's among them */
};

/*
 * Applies all that is durable to a state that was just made; nothing is written.
 * NIGH_CORRUPT: something is gone that was durable, or is of another space: the log is of no use,
 * and neither is the state: this node has nothing, and has to say so. NIGH_VERSION: of a later
 * nigh; NIGH_INVALID: of another geometry (whole times as many frames will do); NIGH_DISK: it
 * cannot be read; NIGH_NO_RESOURCES.
 */
nigh_status space_log_recover(const struct space_log_files *files, uint64_t identity,
                              struct space_log_state *state, struct space_log_found *found);

/*
 * Begins a log with an image of what was recovered, in a life of its own. Blocks until that is
 * durable. `life`: random. NIGH_DISK: no room, or the disk failed: what was recovered is there yet.
 */
nigh_status space_log_start(struct space_log *log, const struct space_log_files *files,
                            const struct space_log_name *name, uint64_t file_bytes,
                            const struct space_log_state *state,
                            const struct space_log_found *found);

/* ---- log_directory.c ------------------------------------------------------- */

struct space_log_directory {
    int fd;                     /* of the directory */
    int files[SPACE_LOG_FILES]; /* -1: not open */
};

/* The directory is the caller's, and it alone uses it. The names in it: log.0, log.1, image and
 * image.new. */
void space_log_directory_init(struct space_log_directory *directory, int fd);
void space_log_directory_fini(struct space_log_directory *directory);
struct space_log_files space_log_directory_files(struct space_log_directory *directory);

#endif
