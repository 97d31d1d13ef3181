/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The logs of a node's spaces (docs/spaces.md, durability): a directory, in it one for each space,
 * and a thread that does to their files what takes long. Whatever is asked of it is done in the
 * order in which it was asked, so that a log that is opened anew finds what was written before.
 *
 * A log is the lane's, but from when it has something done until space_logs_take gives it back.
 */
#ifndef NODE_SPACE_LOGS_H
#define NODE_SPACE_LOGS_H

#include "base/list.h"
#include "node/lock_file.h"
#include "space/log_files.h"
#include "space/registry.h"

/* ---- the directory -------------------------------------------------------- */

/* DIR/rank-N, of this node alone. */
struct space_log_folder {
    int fd; /* -1: none */
    struct lock_file lock;
};

void space_log_folder_init(struct space_log_folder *folder);
/* Makes it if it is not there. `why`: a sentence with a remedy. */
nigh_status space_log_folder_open(struct space_log_folder *folder, const char *directory,
                                  uint32_t rank, char *why, size_t why_bytes);
void space_log_folder_close(struct space_log_folder *folder);
void space_log_folder_in_child(struct space_log_folder *folder);

/* The spaces that have a log there, one after the other: *cursor is 0 at first; false: no more.
 * Nothing is made or removed there meanwhile. What is no such log is passed over, and said in the
 * node's log. */
bool space_log_folder_next(int fd, uint32_t *cursor, struct space_info *info);

/* The last births of spaces that were deleted, the oldest first; how many. They are kept where the
 * logs are, as others that were not there take such a space for alive. */
uint32_t space_log_folder_deleted(int fd, uint64_t births[LIMIT_SPACE_TOMBSTONES]);

/* Whether there is a directory of that space, whatever is in it. */
bool space_log_folder_has(int fd, uint64_t birth);

/* ---- logs ----------------------------------------------------------------- */

enum space_logs_what {
    SPACE_LOGS_OPEN,  /* what it had is applied, and it is begun */
    SPACE_LOGS_RUN,   /* a job */
    SPACE_LOGS_CLOSE, /* it is freed when it is taken back */
    SPACE_LOGS_REMOVE /* the same, and nothing is left of it but that it is deleted */
};

struct space_logs;

struct space_log_here {
    void *tag; /* the asker's; NULL: nobody waits */
    uint64_t birth;
    /* For OPEN; `life`: of this node in the space, if it begins anew. */
    struct space_info info;
    bool is_new; /* the space is only being made: without its log it will not be */
    struct space_log_geometry geometry;
    uint8_t *home;
    uint64_t life;
    /* Since then. */
    struct space_log log;
    struct space_log_state state; /* until space_log_here_forget */
    struct space_log_job *job;    /* for RUN */
    nigh_status status;           /* of OPEN */
    bool is_refused;              /* for CLOSE: it is old, and is not opened once more */
    /* Its own. */
    uint8_t what;
    bool is_busy, is_open, has_state;
    int fd;
    struct space_log_directory directory;
    struct list_node link;
};

/* `wake`: something can be taken; by the thread. `fd`: of the directory, the caller's. */
nigh_status space_logs_create(int fd, void (*wake)(void *context), void *context,
                              struct space_logs **logs);
/* Nothing that somebody waits for is busy. */
void space_logs_destroy(struct space_logs *logs);

void space_logs_ask(struct space_logs *logs, struct space_log_here *here,
                    enum space_logs_what what);
/* The space is deleted, and who asks has no log of it: what there is of one goes. */
void space_logs_remove(struct space_logs *logs, uint64_t birth);
/* What was done; NULL: nothing more. */
struct space_log_here *space_logs_take(struct space_logs *logs);
/* Waits until it is done. */
void space_logs_wait(struct space_logs *logs, struct space_log_here *here);

/* What was recovered is not needed any more. */
void space_log_here_forget(struct space_log_here *here);

/* All that was appended is written, by the caller: nothing is appended any more. */
void space_log_here_write_all(struct space_log_here *here);

#endif
