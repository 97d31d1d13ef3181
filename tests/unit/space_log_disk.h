/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk below a space's log, in memory, that stops at a chosen operation: of all that was written
 * and not synced each sector is there or not, in any order, or torn; some were written back before,
 * by the disk itself; of names likewise. And that fails where it is told to.
 */
#ifndef TESTS_SPACE_LOG_DISK_H
#define TESTS_SPACE_LOG_DISK_H

#include "base/random.h"
#include "space/log_files.h"

#define DISK_BYTES   (UINT32_C(128) << 10) /* of a file, at most */
#define DISK_SECTOR  512u
#define DISK_INODES  64u
#define DISK_PENDING 256u

struct disk_inode {
    uint8_t *durable, *seen; /* what a sync left; what is read */
    uint32_t durable_size, size;
    bool has_pending;
    bool is_used;
};

struct disk_write {
    uint8_t inode;
    uint32_t offset, size;
    uint8_t *bytes;
};

/* What is done to it, and whether the power goes just before that, or just after. */
enum disk_operation {
    DISK_SIZE,
    DISK_WRITE,
    DISK_SYNC,
    DISK_RENAME,
    DISK_SYNC_DIRECTORY
};

enum disk_end {
    DISK_GOES_ON,
    DISK_ENDS_BEFORE,
    DISK_ENDS_AFTER
};

struct disk {
    struct disk_inode inodes[DISK_INODES];
    int8_t durable_names[SPACE_LOG_FILES], names[SPACE_LOG_FILES]; /* -1: none */
    struct disk_write writes[DISK_PENDING];                        /* that were not synced */
    uint32_t pending;
    uint64_t operations; /* since the last start */
    uint64_t stops_at;   /* the operation that is the last; UINT64_MAX: never */
    uint64_t fails_at;   /* one that fails, and all writes behind it */
    bool has_stopped;
    struct random random;
    uint64_t syncs;
    /* Is asked at each operation; NULL: nobody is. */
    enum disk_end (*asks)(void *context, enum disk_operation operation, enum space_log_file file);
    void *context;
};

void disk_init(struct disk *disk, uint64_t seed);
void disk_fini(struct disk *disk);
struct space_log_files disk_files(struct disk *disk);

/* The power is back: what there is is what survived. */
void disk_start(struct disk *disk, uint64_t stops_at);

/* A bit of what is durable changes by itself. */
void disk_spoil(struct disk *disk, enum space_log_file file, uint32_t offset);

#endif
