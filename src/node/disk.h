/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk thread of one lane: writes objects out to the spill directory and reads them back, so
 * that the lane never waits for a disk.
 *
 * The lane hands jobs in and takes ends out; both queues are bounded (LIMIT_SPILL_QUEUE). What is
 * to be removed is bounded by the objects on disk. Bytes are read through the extents' descriptors,
 * never through a mapping that a client may punch holes in, and into memory that no client may
 * write. A file appears under its name only when it is whole; a torn one is never read as if it
 * were right (object/spill_file.h).
 */
#ifndef NODE_DISK_H
#define NODE_DISK_H

#include "memory/extent.h"
#include "node/lock_file.h"
#include "object/store.h"

struct disk;

struct disk_config {
    const char *directory;
    uint32_t lane;
    const struct extent_set *extents;
    /* Called by the disk thread whenever an end can be taken: wakes the lane. */
    void (*wake)(void *context);
    void *context;
};

/* How one job ended. */
struct disk_end {
    struct store_disk_job job;
    nigh_status status; /* NIGH_OK, NIGH_DISK, NIGH_CORRUPT */
    uint32_t data_crc;
};

/*
 * Claims the directory for this process (a lock file; NIGH_BUSY when another node spills there),
 * making it (mode 0700) if it is missing. The lock is held until the node stops. NIGH_DENIED,
 * NIGH_DISK: not a directory that can be written; `why` says so in a sentence. Once a node.
 */
nigh_status disk_claim(const char *directory, struct lock_file *lock, char *why, size_t why_bytes);

/*
 * Removes files that a former node left and `keep` does not want (temporary ones always). Called
 * before the disk threads start. Returns how many were removed.
 */
size_t disk_clean(const char *directory,
                  bool (*keep)(void *context, uint32_t pool, uint32_t lane, uint32_t incarnation,
                               uint64_t generation),
                  void *context);

nigh_status disk_create(const struct disk_config *config, struct disk **disk);

/* Finishes the job in hand, drops the others, and joins the thread. NULL is allowed. */
void disk_destroy(struct disk *disk);

/* What the directory's disk has free for us. */
uint64_t disk_free_bytes(const struct disk *disk);

/* Hands a job in. False: the queue is full. Lane only. */
bool disk_submit(struct disk *disk, const struct store_disk_job *job);

/*
 * Removes a file, some time: never here, since a disk may take its time for that, too. again: the
 * object may be written once more, and that comes after. Else nothing of the object follows; jobs
 * go before such files, however many there are, one for one. Lane only.
 */
void disk_forget(struct disk *disk, uint32_t pool, uint64_t generation, uint32_t incarnation,
                 bool again);

/* Takes the next end; false: there is none. Lane only. */
bool disk_take_end(struct disk *disk, struct disk_end *end);

#endif
