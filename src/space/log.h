/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space's log at a node: what is appended becomes durable in groups, and images of all there is
 * make the log before them needless (docs/spaces.md, durability).
 *
 * Two files take the log by turns, one a generation; beside them is the image that the generation
 * goes on from. What is written when is decided here, without I/O: the lane appends, and takes
 * *jobs*; somebody else may run one meanwhile (log_files.h), and the lane is told how it ended. One
 * job at a time; the lane appends to one buffer while the other is written, and never waits.
 *
 * What has a record's number may be told, or sent, or applied (sync), once that number is durable.
 * After an error nothing is durable any more, for good: what was not is never said to be. All
 * functions: lane only.
 */
#ifndef SPACE_LOG_H
#define SPACE_LOG_H

#include "space/log_format.h"
#include "space/log_state.h"

enum space_log_file {
    SPACE_LOG_EVEN, /* the log of even generations, */
    SPACE_LOG_ODD,
    SPACE_LOG_IMAGE_NEW,
    SPACE_LOG_IMAGE_NOW, /* the other, once it is whole */
    SPACE_LOG_FILES
};

enum space_log_task {
    SPACE_LOG_COMMIT,      /* write at an offset, and sync the file */
    SPACE_LOG_IMAGE_WRITE, /* write at an offset; at 0 the file is made anew */
    SPACE_LOG_IMAGE_SYNC,  /* sync it, give it its name, and sync the directory */
};

struct space_log_job {
    uint8_t task; /* enum space_log_task */
    uint8_t file; /* enum space_log_file */
    uint64_t offset;
    const uint8_t *bytes;
    uint32_t size_bytes;
    nigh_status status; /* set by who ran it */
};

struct space_log_buffer {
    uint8_t *bytes; /* LIMIT_SPACE_LOG_BATCH */
    uint32_t used;  /* the head included */
    uint32_t records;
    uint64_t first; /* the number of the first one */
};

enum space_log_image_state {
    SPACE_LOG_NO_IMAGE,
    SPACE_LOG_WILL_TURN, /* the next batch is of the next generation */
    SPACE_LOG_FILLS,     /* records are put to it */
    SPACE_LOG_IS_FULL,   /* all were */
    SPACE_LOG_SYNCS,     /* all are written */
};

struct space_log {
    struct space_log_name name;
    struct space_log_geometry geometry;
    uint64_t file_bytes; /* of each of the two files */
    uint64_t offset;     /* where the next batch begins */
    uint64_t next;       /* the number of the next record; the first one's is 1 */
    uint64_t durable;    /* all up to this are */
    uint64_t commits;    /* batches that were written */
    uint64_t images;
    struct space_log_buffer buffers[2];
    uint8_t filling; /* which of them records are appended to */
    bool is_writing; /* the other one is written */
    bool has_job;
    bool was_commit;    /* the last job: then an image has its turn */
    nigh_status status; /* NIGH_OK, or why nothing is durable any more */
    struct {
        uint8_t state; /* enum space_log_image_state */
        struct space_log_name name;
        struct space_log_buffer buffer;
        bool is_writing;
        uint64_t offset, next; /* as of the log */
        uint64_t to;           /* the last that it may know of */
    } image;
};

/*
 * A log of generation `name->generation`, whose image is written and durable, and whose file has
 * nothing of that generation; the first record's number is `next`. NIGH_INVALID: the sizes;
 * NIGH_NO_RESOURCES. space_log_start (log_files.h) is the way to make one.
 */
nigh_status space_log_init(struct space_log *log, const struct space_log_name *name,
                           const struct space_log_geometry *geometry, uint64_t file_bytes,
                           uint64_t next);
/* Nobody runs a job of it any more. */
void space_log_fini(struct space_log *log);

/*
 * Appends a record; *number is its. Its bytes are copied. NIGH_BUSY: no room: until a job has
 * ended, or, where the file is full, an image is whole: try again then. Else the status that the
 * log failed with.
 */
nigh_status space_log_append(struct space_log *log, const struct space_log_record *record,
                             uint64_t *number);

/* Whether records that take so many bytes in all may be appended now. */
bool space_log_has_room(const struct space_log *log, uint32_t size_bytes);

/* The number of the last record that was appended; what leaves the node waits for it, or for that
 * of the block alone. */
static inline uint64_t space_log_last(const struct space_log *log)
{
    return log->next - 1;
}

/* The next thing to be done; false: nothing, or one is under way. Then somebody runs it, and
 * space_log_ended is told. */
bool space_log_take_job(struct space_log *log, struct space_log_job *job);
void space_log_ended(struct space_log *log, const struct space_log_job *job);

/* ---- images --------------------------------------------------------------- */

/* An image is due: the log's file is half full, and none is under way. */
bool space_log_wants_image(const struct space_log *log);

/* Begins one: from the next batch on the log is of the next generation. False: one is under way,
 * or the log has failed. */
bool space_log_begin_image(struct space_log *log);

/*
 * Whether records may be put to the image now. All that was logged before its generation is durable
 * by then, and has to be in it: so first whatever is durable is applied. Then each block is put as
 * it is at that moment, with space_log_put: TERM, if one has begun; of the own home memory BACK of
 * each that is here, or was and is owned by somebody, and OWNED and LOST behind it; of others' COPY
 * and HANDED. Blocks that change while that goes on are in the log, too.
 */
bool space_log_fills(const struct space_log *log);

/* NIGH_BUSY: its buffer is full: when a job has ended. */
nigh_status space_log_put(struct space_log *log, const struct space_log_record *record);

/* All was put. NIGH_BUSY as space_log_put. */
nigh_status space_log_end_image(struct space_log *log);

#endif
