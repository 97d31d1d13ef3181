/* SPDX-License-Identifier: Apache-2.0 */
/* See space_log_disk.h. */
#include "space_log_disk.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "support/support.h"

/* Of what was not synced, when the power goes; more: some of it. */
#define LANDS_NOT   0u
#define LANDS_WHOLE 1u

void disk_init(struct disk *disk, uint64_t seed)
{
    memset(disk, 0, sizeof(*disk));
    random_init(&disk->random, seed);
    memset(disk->names, -1, sizeof(disk->names));
    memset(disk->durable_names, -1, sizeof(disk->durable_names));
    disk->stops_at = disk->fails_at = UINT64_MAX;
}

static void drop_writes(struct disk *disk)
{
    for (uint32_t n = 0; n < disk->pending; n++) {
        free(disk->writes[n].bytes);
    }
    disk->pending = 0;
}

static void drop_inode(struct disk_inode *inode)
{
    free(inode->durable);
    free(inode->seen);
    memset(inode, 0, sizeof(*inode));
}

void disk_fini(struct disk *disk)
{
    drop_writes(disk);
    for (uint32_t n = 0; n < DISK_INODES; n++) {
        drop_inode(&disk->inodes[n]);
    }
}

/* ---- operations ----------------------------------------------------------- */

/* Whether this one is done; the one at which the disk stops is, or not. */
static nigh_status step(struct disk *disk, enum disk_operation operation, enum space_log_file file,
                        bool *is_done)
{
    uint64_t number = disk->operations++;
    enum disk_end end = DISK_GOES_ON;

    if (disk->has_stopped || number >= disk->fails_at) {
        *is_done = false;
        return NIGH_DISK;
    }
    if (disk->asks != NULL) {
        end = disk->asks(disk->context, operation, file);
    }
    if (end != DISK_GOES_ON) {
        disk->has_stopped = true;
        *is_done = end == DISK_ENDS_AFTER;
        return NIGH_DISK;
    }
    disk->has_stopped = number == disk->stops_at;
    *is_done = !disk->has_stopped || random_below(&disk->random, 2) == 0;
    return disk->has_stopped ? NIGH_DISK : NIGH_OK;
}

static int8_t new_inode(struct disk *disk)
{
    for (uint32_t n = 0; n < DISK_INODES; n++) {
        if (!disk->inodes[n].is_used) {
            disk->inodes[n].is_used = true;
            disk->inodes[n].durable = calloc(1, DISK_BYTES);
            disk->inodes[n].seen = calloc(1, DISK_BYTES);
            NIGH_ASSERT(disk->inodes[n].durable != NULL && disk->inodes[n].seen != NULL);
            return (int8_t)n;
        }
    }
    NIGH_ASSERT(false);
    return -1;
}

static nigh_status disk_size(void *context, enum space_log_file file, uint64_t size_bytes)
{
    struct disk *disk = context;
    bool is_done;
    nigh_status status = step(disk, DISK_SIZE, file, &is_done);
    struct disk_inode *inode;

    NIGH_ASSERT(size_bytes <= DISK_BYTES);
    if (!is_done) {
        return status;
    }
    if (disk->names[file] < 0) {
        disk->names[file] = new_inode(disk);
    }
    inode = &disk->inodes[disk->names[file]];
    if (size_bytes < inode->size) {
        memset(inode->seen + size_bytes, 0, inode->size - size_bytes);
    }
    inode->size = (uint32_t)size_bytes;
    inode->has_pending = true;
    return status;
}

static nigh_status disk_read(void *context, enum space_log_file file, uint64_t offset, void *bytes,
                             size_t size_bytes, size_t *read_bytes)
{
    struct disk *disk = context;
    struct disk_inode *inode;

    if (disk->names[file] < 0) {
        return NIGH_NOT_FOUND;
    }
    inode = &disk->inodes[disk->names[file]];
    *read_bytes = offset >= inode->size ? 0 : min_u64(size_bytes, inode->size - offset);
    memcpy(bytes, inode->seen + offset, *read_bytes);
    return NIGH_OK;
}

/* Of a write that was not synced: each sector by itself. Some all, some none, some torn. */
static void land(struct disk *disk, const struct disk_write *write, uint64_t mood)
{
    struct disk_inode *inode = &disk->inodes[write->inode];

    for (uint32_t at = 0; at < write->size; at += DISK_SECTOR) {
        uint32_t bytes = min_u32(DISK_SECTOR, write->size - at);
        uint64_t luck = random_below(&disk->random, 8);

        if (mood == LANDS_NOT || (mood > LANDS_WHOLE && luck < 3)) {
            continue;
        }
        if (mood > LANDS_WHOLE && luck == 3) {
            bytes = (uint32_t)random_below(&disk->random, bytes);
        }
        memcpy(inode->durable + write->offset + at, write->bytes + at, bytes);
        inode->durable_size = max_u32(inode->durable_size, write->offset + at + bytes);
    }
}

/* Of itself it writes what it likes of that, in whatever order. */
static void write_one_back(struct disk *disk)
{
    uint32_t n = (uint32_t)random_below(&disk->random, disk->pending);

    land(disk, &disk->writes[n], LANDS_WHOLE);
    free(disk->writes[n].bytes);
    disk->writes[n] = disk->writes[--disk->pending];
}

static nigh_status disk_write(void *context, enum space_log_file file, uint64_t offset,
                              const void *bytes, size_t size_bytes)
{
    struct disk *disk = context;
    bool is_done;
    nigh_status status = step(disk, DISK_WRITE, file, &is_done);
    struct disk_inode *inode;
    struct disk_write *write;

    if (!is_done) {
        return status;
    }
    NIGH_ASSERT(disk->names[file] >= 0 && offset + size_bytes <= DISK_BYTES);
    if (disk->pending == DISK_PENDING ||
        (disk->pending > 0 && random_below(&disk->random, 16) == 0)) {
        write_one_back(disk);
    }
    inode = &disk->inodes[disk->names[file]];
    memcpy(inode->seen + offset, bytes, size_bytes);
    inode->size = (uint32_t)max_u64(inode->size, offset + size_bytes);
    inode->has_pending = true;
    write = &disk->writes[disk->pending++];
    *write = (struct disk_write){.inode = (uint8_t)disk->names[file],
                                 .offset = (uint32_t)offset,
                                 .size = (uint32_t)size_bytes,
                                 .bytes = malloc(size_bytes)};
    NIGH_ASSERT(write->bytes != NULL);
    memcpy(write->bytes, bytes, size_bytes);
    return status;
}

static void forget_writes(struct disk *disk, uint8_t inode)
{
    uint32_t left = 0;

    for (uint32_t n = 0; n < disk->pending; n++) {
        if (disk->writes[n].inode == inode) {
            free(disk->writes[n].bytes);
        } else {
            disk->writes[left++] = disk->writes[n];
        }
    }
    disk->pending = left;
}

static nigh_status disk_sync(void *context, enum space_log_file file)
{
    struct disk *disk = context;
    bool is_done;
    nigh_status status = step(disk, DISK_SYNC, file, &is_done);
    struct disk_inode *inode;

    if (!is_done) {
        return status;
    }
    NIGH_ASSERT(disk->names[file] >= 0);
    inode = &disk->inodes[disk->names[file]];
    memcpy(inode->durable, inode->seen, inode->size);
    inode->durable_size = inode->size;
    inode->has_pending = false;
    forget_writes(disk, (uint8_t)disk->names[file]);
    disk->syncs++;
    return status;
}

static nigh_status disk_rename(void *context)
{
    struct disk *disk = context;
    bool is_done;
    nigh_status status = step(disk, DISK_RENAME, SPACE_LOG_IMAGE_NEW, &is_done);

    if (is_done) {
        NIGH_ASSERT(disk->names[SPACE_LOG_IMAGE_NEW] >= 0);
        disk->names[SPACE_LOG_IMAGE_NOW] = disk->names[SPACE_LOG_IMAGE_NEW];
        disk->names[SPACE_LOG_IMAGE_NEW] = -1;
    }
    return status;
}

static bool is_named(const struct disk *disk, int8_t inode)
{
    for (uint32_t n = 0; n < SPACE_LOG_FILES; n++) {
        if (disk->names[n] == inode || disk->durable_names[n] == inode) {
            return true;
        }
    }
    return false;
}

static void drop_unnamed(struct disk *disk)
{
    for (uint32_t n = 0; n < DISK_INODES; n++) {
        if (disk->inodes[n].is_used && !is_named(disk, (int8_t)n)) {
            forget_writes(disk, (uint8_t)n);
            drop_inode(&disk->inodes[n]);
        }
    }
}

static nigh_status disk_sync_directory(void *context)
{
    struct disk *disk = context;
    bool is_done;
    nigh_status status = step(disk, DISK_SYNC_DIRECTORY, SPACE_LOG_IMAGE_NOW, &is_done);

    if (is_done) {
        memcpy(disk->durable_names, disk->names, sizeof(disk->names));
        drop_unnamed(disk);
    }
    return status;
}

struct space_log_files disk_files(struct disk *disk)
{
    return (struct space_log_files){
        .context = disk,
        .size = disk_size,
        .read = disk_read,
        .write = disk_write,
        .sync = disk_sync,
        .rename = disk_rename,
        .sync_directory = disk_sync_directory,
    };
}

/* ---- the power goes ------------------------------------------------------- */

/* Of two writes of one sector either may be the last. */
static void land_any(struct disk *disk, uint64_t mood)
{
    for (uint32_t left = disk->pending; left > 0; left--) {
        uint32_t n = (uint32_t)random_below(&disk->random, left);
        struct disk_write write = disk->writes[n];

        land(disk, &write, mood);
        disk->writes[n] = disk->writes[left - 1];
        disk->writes[left - 1] = write;
    }
    drop_writes(disk);
}

static void land_names(struct disk *disk)
{
    bool is_all = random_below(&disk->random, 2) == 0;

    for (uint32_t n = 0; n < SPACE_LOG_FILES && is_all; n++) {
        disk->durable_names[n] = disk->names[n];
    }
    memcpy(disk->names, disk->durable_names, sizeof(disk->names));
}

void disk_start(struct disk *disk, uint64_t stops_at)
{
    uint64_t mood = random_below(&disk->random, 4);

    for (uint32_t n = 0; n < DISK_INODES; n++) {
        struct disk_inode *inode = &disk->inodes[n];

        if (inode->is_used && inode->has_pending && random_below(&disk->random, 2) == 0) {
            inode->durable_size = inode->size;
        }
    }
    land_any(disk, mood);
    land_names(disk);
    drop_unnamed(disk);
    for (uint32_t n = 0; n < DISK_INODES; n++) {
        struct disk_inode *inode = &disk->inodes[n];

        if (inode->is_used) {
            memset(inode->durable + inode->durable_size, 0, DISK_BYTES - inode->durable_size);
            memcpy(inode->seen, inode->durable, DISK_BYTES);
            inode->size = inode->durable_size;
            inode->has_pending = false;
        }
    }
    disk->operations = 0;
    disk->has_stopped = false;
    disk->stops_at = stops_at;
}

void disk_spoil(struct disk *disk, enum space_log_file file, uint32_t offset)
{
    NIGH_ASSERT(disk->names[file] >= 0);
    disk->inodes[disk->names[file]].seen[offset] ^= 0x10;
    disk->inodes[disk->names[file]].durable[offset] ^= 0x10;
}
