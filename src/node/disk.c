/* SPDX-License-Identifier: Apache-2.0 */
/* The disk thread: see disk.h. One mutex guards both queues; nothing is read or written while it is
 * held. */
#include "node/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LOG_MODULE "disk"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/fd.h"
#include "base/log.h"
#include "object/spill_file.h"

#define BOUNCE_BYTES (UINT64_C(1) << 20)

enum task_kind {
    TASK_JOB,
    TASK_FORGET
};

struct task {
    enum task_kind kind;
    struct store_disk_job job; /* of TASK_FORGET: pool, generation, incarnation alone */
};

/* A file of which nothing follows. */
struct garbage {
    uint64_t generation;
    uint32_t pool, incarnation;
};

#define GARBAGE_FIRST 256u /* room at first; it doubles */

struct disk {
    struct disk_config config;
    int directory_fd;
    uint8_t *bounce;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stopping;
    uint32_t jobs_out; /* handed in and their end not yet taken: bounds `ends` */
    uint32_t task_head, task_count;
    uint32_t end_head, end_count;
    /* Jobs, and the files of objects that may be written once more. Each of those was read by a job
     * just before, so that there are no more of them than jobs. */
    struct task tasks[2 * LIMIT_SPILL_QUEUE];
    /* Any number of objects on disk may be deleted at once: a ring that grows. */
    struct garbage *garbage;
    uint32_t garbage_room, garbage_head, garbage_count;
    bool garbage_waits; /* a task was done since the last of it */
    struct disk_end ends[LIMIT_SPILL_QUEUE];
};

/* ---- bytes of an object in the arena, through the descriptors ---- */

/* Moves bytes between the arena and the bounce buffer; false when the extent does not give them. */
static bool arena_read(const struct extent_set *set, uint64_t offset, uint8_t *bytes, uint64_t size)
{
    while (size > 0) {
        const struct extent *extent = &set->extents[offset >> set->extent_shift];
        uint64_t inside = offset & (set->extent_bytes - 1);
        uint64_t n = size < set->extent_bytes - inside ? size : set->extent_bytes - inside;
        ssize_t got = pread(extent->fd, bytes, n, (off_t)inside);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        bytes += got;
        offset += (uint64_t)got;
        size -= (uint64_t)got;
    }
    return true;
}

static bool read_all(int fd, uint8_t *bytes, uint64_t size, uint64_t at)
{
    size_t got = 0;

    return fd_pread_full(fd, bytes, size, at, &got) == NIGH_OK && got == size;
}

static struct spill_file_header header_of(const struct disk *disk, const struct store_disk_job *job)
{
    struct spill_file_header header = {.incarnation = job->incarnation,
                                       .generation = job->generation,
                                       .pool = job->pool,
                                       .lane = disk->config.lane,
                                       .data_size = job->data_size,
                                       .meta_size = job->meta_size,
                                       .name_size = job->name_size};

    memcpy(header.id, job->id, LIMIT_ID_BYTES);
    return header;
}

/* Adds a chunk that begins `at` bytes into the payload to the checksum of the part it belongs to.
 */
static void add_to_checksums(struct spill_file_header *header, const uint8_t *bytes, uint64_t size,
                             uint64_t at)
{
    if (at < header->data_size) {
        uint64_t n = size < header->data_size - at ? size : header->data_size - at;

        header->data_crc = crc32c(header->data_crc, bytes, n);
        bytes += n;
        size -= n;
    }
    header->tail_crc = crc32c(header->tail_crc, bytes, size);
}

/* ---- write ---- */

/* The payload first, then the header that vouches for it: through a private copy, so that what is
 * summed is what is written. */
static bool write_payload(struct disk *disk, const struct store_disk_job *job, int fd,
                          struct spill_file_header *header)
{
    uint64_t total = spill_file_payload_bytes(header);

    for (uint64_t done = 0; done < total;) {
        uint64_t n = total - done < BOUNCE_BYTES ? total - done : BOUNCE_BYTES;

        if (!arena_read(disk->config.extents, job->offset + done, disk->bounce, n)) {
            return false;
        }
        add_to_checksums(header, disk->bounce, n, done);
        if (fd_pwrite_full(fd, disk->bounce, n, SPILL_FILE_HEADER_BYTES + done) != NIGH_OK) {
            return false;
        }
        done += n;
    }
    return true;
}

static nigh_status write_object(struct disk *disk, const struct store_disk_job *job,
                                uint32_t *data_crc)
{
    struct spill_file_header header = header_of(disk, job);
    uint8_t bytes[SPILL_FILE_HEADER_BYTES];
    char name[SPILL_FILE_NAME_BYTES], temporary[SPILL_FILE_NAME_BYTES + 8];
    int fd;

    spill_file_name(job->pool, disk->config.lane, job->incarnation, job->generation, name);
    snprintf(temporary, sizeof temporary, "%s.writing", name);
    fd = openat(disk->directory_fd, temporary,
                O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        LOG_WARN("a spill file cannot be made",
                 "file=%s errno=%d do=\"see to the disk of --spill (full, read-only, failing)\"",
                 temporary, errno);
        return NIGH_DISK;
    }
    if (!write_payload(disk, job, fd, &header)) {
        goto remove_file;
    }
    spill_file_encode(&header, bytes);
    if (fd_pwrite_full(fd, bytes, sizeof bytes, 0) != NIGH_OK) {
        goto remove_file;
    }
    if (close(fd) != 0 || renameat(disk->directory_fd, temporary, disk->directory_fd, name) != 0) {
        fd = -1;
        goto remove_file;
    }
    *data_crc = header.data_crc;
    return NIGH_OK;
remove_file:
    LOG_WARN("an object cannot be spilled", "file=%s errno=%d do=\"%s\"", temporary, errno,
             errno == EFBIG ? "raise RLIMIT_FSIZE (ulimit -f) of nighd"
                            : "see to the disk of --spill (full, read-only, failing)");
    if (fd >= 0) {
        close(fd);
    }
    unlinkat(disk->directory_fd, temporary, 0);
    return NIGH_DISK;
}

/* ---- read ---- */

static nigh_status read_header(int fd, const struct spill_file_header *wanted,
                               struct spill_file_header *found)
{
    uint8_t bytes[SPILL_FILE_HEADER_BYTES];
    struct stat file;

    if (fstat(fd, &file) != 0) {
        return NIGH_DISK;
    }
    if ((uint64_t)file.st_size < sizeof bytes || !read_all(fd, bytes, sizeof bytes, 0) ||
        spill_file_decode(bytes, found) != NIGH_OK || !spill_file_is_of(found, wanted) ||
        (uint64_t)file.st_size != sizeof bytes + spill_file_payload_bytes(found)) {
        return NIGH_CORRUPT;
    }
    return NIGH_OK;
}

/* Reads straight into the arena: the memory is the node's own, so what is summed is what will be
 * served. */
static nigh_status read_object(struct disk *disk, const struct store_disk_job *job,
                               uint32_t *data_crc)
{
    struct spill_file_header wanted = header_of(disk, job), found, summed;
    char name[SPILL_FILE_NAME_BYTES];
    nigh_status status;
    int fd;

    spill_file_name(job->pool, disk->config.lane, job->incarnation, job->generation, name);
    fd = openat(disk->directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        LOG_WARN("a spill file is gone",
                 "file=%s errno=%d do=\"see who removes files of --spill: that directory is the "
                 "node's alone\"",
                 name, errno);
        return NIGH_DISK;
    }
    status = read_header(fd, &wanted, &found);
    summed = wanted;
    for (uint64_t done = 0, total = spill_file_payload_bytes(&wanted);
         status == NIGH_OK && done < total;) {
        uint64_t n = total - done < BOUNCE_BYTES ? total - done : BOUNCE_BYTES;
        uint8_t *into = extent_bytes_at(disk->config.extents, job->offset + done);

        if (!read_all(fd, into, n, SPILL_FILE_HEADER_BYTES + done)) {
            status = NIGH_DISK;
        } else {
            add_to_checksums(&summed, into, n, done);
            done += n;
        }
    }
    close(fd);
    if (status == NIGH_OK &&
        (summed.data_crc != found.data_crc || summed.tail_crc != found.tail_crc)) {
        status = NIGH_CORRUPT;
    }
    if (status != NIGH_OK) {
        LOG_WARN("a spilled object cannot be read back",
                 "file=%s status=%s do=\"see to the disk of --spill; the next get tries again\"",
                 name, nigh_status_name(status));
        return status;
    }
    *data_crc = found.data_crc;
    return NIGH_OK;
}

/* ---- the thread and its queues ---- */

static void forget_object(struct disk *disk, uint32_t pool, uint32_t incarnation,
                          uint64_t generation)
{
    char name[SPILL_FILE_NAME_BYTES];

    spill_file_name(pool, disk->config.lane, incarnation, generation, name);
    if (unlinkat(disk->directory_fd, name, 0) != 0 && errno != ENOENT) {
        LOG_WARN("a spill file cannot be removed",
                 "file=%s errno=%d do=\"see to the disk of --spill\"", name, errno);
    }
}

static void end_job(struct disk *disk, const struct disk_end *end)
{
    pthread_mutex_lock(&disk->mutex);
    NIGH_ASSERT(disk->end_count < LIMIT_SPILL_QUEUE);
    disk->ends[(disk->end_head + disk->end_count++) % LIMIT_SPILL_QUEUE] = *end;
    pthread_mutex_unlock(&disk->mutex);
    disk->config.wake(disk->config.context);
}

static void do_task(struct disk *disk, const struct task *task)
{
    struct disk_end end = {.job = task->job};

    if (task->kind == TASK_FORGET) {
        forget_object(disk, task->job.pool, task->job.incarnation, task->job.generation);
        return;
    }
    end.status = task->job.write ? write_object(disk, &task->job, &end.data_crc)
                                 : read_object(disk, &task->job, &end.data_crc);
    end_job(disk, &end);
}

/* What to do next, with the mutex held: a task, or, by turns, a file to remove. False: a file. */
static bool take_next(struct disk *disk, struct task *task, struct garbage *garbage)
{
    if (disk->task_count > 0 && !(disk->garbage_waits && disk->garbage_count > 0)) {
        *task = disk->tasks[disk->task_head];
        disk->task_head = (disk->task_head + 1) % ARRAY_LENGTH(disk->tasks);
        disk->task_count--;
        disk->garbage_waits = true;
        return true;
    }
    *garbage = disk->garbage[disk->garbage_head];
    disk->garbage_head = (disk->garbage_head + 1) % disk->garbage_room;
    disk->garbage_count--;
    disk->garbage_waits = false;
    if (disk->garbage_count == 0 && disk->garbage_room > GARBAGE_FIRST) {
        free(disk->garbage);
        disk->garbage = NULL;
        disk->garbage_room = 0;
    }
    return false;
}

static void *disk_main(void *argument)
{
    struct disk *disk = argument;
    struct garbage garbage;
    struct task task;

    for (;;) {
        bool is_task;

        pthread_mutex_lock(&disk->mutex);
        while (disk->task_count + disk->garbage_count == 0 && !disk->stopping) {
            pthread_cond_wait(&disk->changed, &disk->mutex);
        }
        if (disk->stopping) {
            pthread_mutex_unlock(&disk->mutex);
            return NULL;
        }
        is_task = take_next(disk, &task, &garbage);
        pthread_mutex_unlock(&disk->mutex);
        if (is_task) {
            do_task(disk, &task);
        } else {
            forget_object(disk, garbage.pool, garbage.incarnation, garbage.generation);
        }
    }
}

nigh_status disk_create(const struct disk_config *config, struct disk **disk)
{
    struct disk *made = calloc(1, sizeof *made);
    sigset_t all, before;
    char name[16];
    int failed;

    if (made == NULL) {
        return NIGH_NO_RESOURCES;
    }
    made->config = *config;
    made->bounce = malloc(BOUNCE_BYTES);
    made->directory_fd = open(config->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (made->bounce == NULL || made->directory_fd < 0) {
        goto free_disk;
    }
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->changed, NULL);
    /* Signals are for the program's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&made->thread, NULL, disk_main, made);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        pthread_cond_destroy(&made->changed);
        pthread_mutex_destroy(&made->mutex);
        goto free_disk;
    }
    snprintf(name, sizeof(name), "nigh-disk-%u", config->lane);
    (void)pthread_setname_np(made->thread, name);
    *disk = made;
    return NIGH_OK;
free_disk:
    if (made->directory_fd >= 0) {
        close(made->directory_fd);
    }
    free(made->bounce);
    free(made);
    return NIGH_NO_RESOURCES;
}

void disk_destroy(struct disk *disk)
{
    if (disk == NULL) {
        return;
    }
    pthread_mutex_lock(&disk->mutex);
    disk->stopping = true;
    pthread_cond_signal(&disk->changed);
    pthread_mutex_unlock(&disk->mutex);
    pthread_join(disk->thread, NULL);
    pthread_cond_destroy(&disk->changed);
    pthread_mutex_destroy(&disk->mutex);
    close(disk->directory_fd);
    free(disk->garbage);
    free(disk->bounce);
    free(disk);
}

uint64_t disk_free_bytes(const struct disk *disk)
{
    struct statvfs at;

    /* A disk that does not say is taken to have room: its writes fail soon enough. */
    return fstatvfs(disk->directory_fd, &at) == 0 ? (uint64_t)at.f_bavail * at.f_frsize
                                                  : UINT64_MAX;
}

/* With the mutex held. False: there is no room. */
static bool add_task(struct disk *disk, const struct task *task)
{
    if (disk->task_count == ARRAY_LENGTH(disk->tasks)) {
        return false;
    }
    disk->tasks[(disk->task_head + disk->task_count++) % ARRAY_LENGTH(disk->tasks)] = *task;
    pthread_cond_signal(&disk->changed);
    return true;
}

bool disk_submit(struct disk *disk, const struct store_disk_job *job)
{
    bool added;

    pthread_mutex_lock(&disk->mutex);
    added = disk->jobs_out < LIMIT_SPILL_QUEUE &&
            add_task(disk, &(struct task){.kind = TASK_JOB, .job = *job});
    disk->jobs_out += added ? 1 : 0;
    pthread_mutex_unlock(&disk->mutex);
    return added;
}

/* With the mutex held. False: there is no memory for it. */
static bool add_garbage(struct disk *disk, const struct garbage *garbage)
{
    if (disk->garbage_count == disk->garbage_room) {
        uint32_t room = max_u32(2 * disk->garbage_room, GARBAGE_FIRST);
        struct garbage *larger = calloc(room, sizeof(*larger));

        if (larger == NULL) {
            return false;
        }
        for (uint32_t i = 0; i < disk->garbage_count; i++) {
            larger[i] = disk->garbage[(disk->garbage_head + i) % disk->garbage_room];
        }
        free(disk->garbage);
        disk->garbage = larger;
        disk->garbage_room = room;
        disk->garbage_head = 0;
    }
    disk->garbage[(disk->garbage_head + disk->garbage_count++) % disk->garbage_room] = *garbage;
    pthread_cond_signal(&disk->changed);
    return true;
}

void disk_forget(struct disk *disk, uint32_t pool, uint64_t generation, uint32_t incarnation,
                 bool again)
{
    struct garbage garbage = {.generation = generation, .pool = pool, .incarnation = incarnation};
    struct task task = {
        .kind = TASK_FORGET,
        .job = {.pool = pool, .generation = generation, .incarnation = incarnation}};
    bool added;

    pthread_mutex_lock(&disk->mutex);
    added = again ? add_task(disk, &task) : add_garbage(disk, &garbage);
    pthread_mutex_unlock(&disk->mutex);
    if (!added) {
        forget_object(disk, pool, incarnation, generation); /* rather than leave it for good */
    }
}

bool disk_take_end(struct disk *disk, struct disk_end *end)
{
    bool taken;

    pthread_mutex_lock(&disk->mutex);
    taken = disk->end_count > 0;
    if (taken) {
        *end = disk->ends[disk->end_head];
        disk->end_head = (disk->end_head + 1) % LIMIT_SPILL_QUEUE;
        disk->end_count--;
        disk->jobs_out--;
    }
    pthread_mutex_unlock(&disk->mutex);
    return taken;
}

/* ---- the directory ---- */

/* A path that leads nowhere is a wrong option, as it is with --socket. */
static nigh_status claim_failure(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
    case EROFS: return NIGH_DENIED;
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG: return NIGH_INVALID;
    default: return NIGH_DISK;
    }
}

nigh_status disk_claim(const char *directory, struct lock_file *lock, char *why, size_t why_bytes)
{
    char path[LOCK_FILE_PATH_BYTES];

    if (mkdir(directory, 0700) == 0) {
        LOG_INFO("spill directory made", "path=\"%s\"", LOG_QUOTE(directory));
    } else if (errno != EEXIST) {
        int error = errno;

        snprintf(
            why, why_bytes,
            "the spill directory %s cannot be made (%s): make it, or name another with --spill",
            directory, strerror(error));
        return claim_failure(error);
    }
    if (snprintf(path, sizeof path, "%s/lock", directory) >= (int)sizeof path) {
        snprintf(why, why_bytes,
                 "the path of the spill directory is too long: name a shorter one with --spill");
        return NIGH_INVALID;
    }
    if (!lock_file_open(lock, AT_FDCWD, path)) {
        int error = errno;

        snprintf(why, why_bytes,
                 "the spill directory %s cannot be written (%s): give it to this user, or name "
                 "another with --spill",
                 directory, strerror(error));
        return claim_failure(error);
    }
    if (!fd_lock(lock->fd)) {
        int error = errno;

        lock_file_close(lock);
        if (error != EWOULDBLOCK) {
            snprintf(why, why_bytes,
                     "the spill directory %s cannot be locked (%s): name another with --spill",
                     directory, strerror(error));
            return claim_failure(error);
        }
        snprintf(why, why_bytes, "another node spills to %s: name another directory with --spill",
                 directory);
        return NIGH_BUSY;
    }
    return NIGH_OK;
}

size_t disk_clean(const char *directory,
                  bool (*keep)(void *context, uint32_t pool, uint32_t lane, uint32_t incarnation,
                               uint64_t generation),
                  void *context)
{
    DIR *entries = opendir(directory);
    struct dirent *entry;
    size_t removed = 0;

    if (entries == NULL) {
        return 0;
    }
    while ((entry = readdir(entries)) != NULL) {
        uint32_t pool, lane, incarnation;
        uint64_t generation;
        bool temporary;

        if (!spill_file_parse_name(entry->d_name, &pool, &lane, &incarnation, &generation,
                                   &temporary)) {
            continue;
        }
        if (temporary || !keep(context, pool, lane, incarnation, generation)) {
            removed += unlinkat(dirfd(entries), entry->d_name, 0) == 0;
        }
    }
    closedir(entries);
    return removed;
}
