/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk of a lane, played: jobs in their order, each ending after a while drawn by the seed. It
 * reads and writes the lane's memory when a job ends, the latest that it may. Files outlive nodes.
 */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"

#define TASKS 1024u
#define FILES 512u

struct file {
    uint8_t *bytes; /* NULL: none */
    uint64_t size;
    uint32_t crc;
    bool damaged;
    struct store_disk_job of; /* pool, generation, incarnation; and what was in it */
};

struct task {
    bool forgets;
    struct store_disk_job job;
};

struct disk {
    struct world_lane *lane;
    struct file files[FILES];
    uint32_t file_count;
    struct task tasks[TASKS];
    uint32_t head, count, jobs;
};

struct disk *disk_create(struct world_lane *lane)
{
    struct disk *disk = calloc(1, sizeof(*disk));

    NIGH_ASSERT(disk != NULL);
    disk->lane = lane;
    return disk;
}

static void remove_file(struct disk *disk, struct file *file)
{
    free(file->bytes);
    *file = disk->files[--disk->file_count];
}

void disk_destroy(struct disk *disk)
{
    while (disk != NULL && disk->file_count > 0) {
        remove_file(disk, disk->files);
    }
    free(disk);
}

static struct file *find_file(struct disk *disk, uint32_t pool, uint64_t generation,
                              uint32_t incarnation)
{
    for (uint32_t n = 0; n < disk->file_count; n++) {
        const struct store_disk_job *of = &disk->files[n].of;

        if (of->pool == pool && of->generation == generation && of->incarnation == incarnation) {
            return &disk->files[n];
        }
    }
    return NULL;
}

/* ---- jobs ----------------------------------------------------------------- */

static void next_ends(struct disk *disk)
{
    struct world *world = disk->lane->world;

    world_at(world, 1 + kind_below(world, world->kind.disk_us), EVENT_DISK, disk->lane->node,
             disk->lane->number, world->nodes[disk->lane->node].incarnation);
}

static void push(struct disk *disk, const struct task *task)
{
    NIGH_ASSERT(disk->count < TASKS);
    disk->tasks[(disk->head + disk->count++) % TASKS] = *task;
    disk->jobs += task->forgets ? 0 : 1;
    if (disk->count == 1) {
        next_ends(disk);
    }
}

bool disk_submit(struct disk *disk, const struct store_disk_job *job)
{
    struct task task = {.job = *job};

    if (disk->jobs >= disk->lane->world->kind.disk_depth) {
        return false;
    }
    push(disk, &task);
    return true;
}

void disk_forget(struct disk *disk, uint32_t pool, uint64_t generation, uint32_t incarnation)
{
    struct task task = {
        .forgets = true,
        .job = {.pool = pool, .generation = generation, .incarnation = incarnation}};

    push(disk, &task);
}

static uint64_t job_bytes(const struct store_disk_job *job)
{
    return index_object_bytes(job->data_size, job->meta_size, job->name_size);
}

static nigh_status write_file(struct disk *disk, const struct store_disk_job *job, uint32_t *crc)
{
    struct world *world = disk->lane->world;
    const uint8_t *from = extent_bytes_at(world->nodes[disk->lane->node].set, job->offset);
    struct file *file = &disk->files[disk->file_count];
    uint64_t serial;

    if (!world->calm && kind_dice(world, world->kind.disk_fails_percent)) {
        world->totals->disk_failures++;
        return NIGH_DISK;
    }
    WORLD_CHECK(world, find_file(disk, job->pool, job->generation, job->incarnation) == NULL,
                "node %u writes a file twice", disk->lane->node);
    NIGH_ASSERT(disk->file_count < FILES);
    disk->file_count++;
    *file = (struct file){.of = *job, .size = job_bytes(job)};
    file->bytes = malloc(file->size);
    NIGH_ASSERT(file->bytes != NULL);
    memcpy(file->bytes, from, file->size);
    *crc = file->crc = crc32c(0, file->bytes, job->data_size);
    world->totals->spills++;
    if (!world->calm && kind_dice(world, world->kind.disk_damages_percent)) {
        memcpy(&serial, file->bytes, sizeof(serial));
        WORLD_CHECK(world, serial > 0 && serial <= world->put_count,
                    "node %u spills bytes of no put at all", disk->lane->node);
        world->puts[serial].damaged = true;
        file->damaged = true;
        world->was_lossy = true;
    }
    return NIGH_OK;
}

static nigh_status read_file(struct disk *disk, const struct store_disk_job *job, uint32_t *crc)
{
    struct world *world = disk->lane->world;
    const struct file *file = find_file(disk, job->pool, job->generation, job->incarnation);

    WORLD_CHECK(world, file != NULL, "node %u reads a file that is not there", disk->lane->node);
    WORLD_CHECK(world,
                file->size == job_bytes(job) && memcmp(file->of.id, job->id, LIMIT_ID_BYTES) == 0,
                "node %u reads the file of another object", disk->lane->node);
    if (!world->calm && kind_dice(world, world->kind.disk_fails_percent)) {
        world->totals->disk_failures++;
        return NIGH_DISK;
    }
    if (file->damaged) {
        world->totals->disk_failures++;
        return NIGH_CORRUPT;
    }
    memcpy(extent_bytes_at(world->nodes[disk->lane->node].set, job->offset), file->bytes,
           file->size);
    *crc = file->crc;
    world->totals->unspills++;
    return NIGH_OK;
}

static void carry_out(struct disk *disk, const struct task *task)
{
    struct world *world = disk->lane->world;
    const struct store_disk_job *job = &task->job;
    struct file *file;
    uint32_t crc = 0;
    nigh_status status;

    if (task->forgets) {
        file = find_file(disk, job->pool, job->generation, job->incarnation);
        WORLD_CHECK(world, file != NULL, "node %u forgets a file that is not there",
                    disk->lane->node);
        remove_file(disk, file);
        return;
    }
    status = job->write ? write_file(disk, job, &crc) : read_file(disk, job, &crc);
    disk->lane->quiet_until_us = 0;
    store_disk_done(disk->lane->store, job, status, crc, world->now_us);
    world->nodes[disk->lane->node].due_us = world->now_us;
}

void disk_step(struct disk *disk, uint32_t incarnation)
{
    struct world *world = disk->lane->world;
    const struct world_node *node = &world->nodes[disk->lane->node];
    struct task task;

    if (!node->alive || node->incarnation != incarnation || disk->count == 0) {
        return;
    }
    if (node->paused) { /* nobody takes its end */
        world_at(world, 1000, EVENT_DISK, disk->lane->node, disk->lane->number, incarnation);
        return;
    }
    task = disk->tasks[disk->head];
    disk->head = (disk->head + 1) % TASKS;
    disk->count--;
    disk->jobs -= task.forgets ? 0 : 1;
    if (disk->count > 0) {
        next_ends(disk);
    }
    carry_out(disk, &task);
}

/* ---- lives ---------------------------------------------------------------- */

void disk_drop_queue(struct disk *disk)
{
    const struct task *first = &disk->tasks[disk->head];
    uint32_t crc;

    if (disk->count > 0 && !first->forgets && first->job.write &&
        kind_dice(disk->lane->world, 50)) {
        (void)write_file(disk, &first->job, &crc);
    }
    disk->head = disk->count = disk->jobs = 0;
}

static bool is_wanted(const struct disk *disk, const struct store_disk_job *of)
{
    struct index index;
    const void *memory = disk->lane->index_memory[of->pool];

    if (memory == NULL ||
        index_attach(memory, index_size_bytes(disk->lane->world->entries), &index) != NIGH_OK) {
        return false;
    }
    for (uint32_t n = 0; n < index.entry_count; n++) {
        uint64_t word = atomic_load(&index.entries[n].word);

        if (index_word_state(word) == INDEX_SPILLED &&
            index_word_generation(word) == of->generation &&
            index.entries[n].incarnation == of->incarnation) {
            return true;
        }
    }
    return false;
}

void disk_clean(struct disk *disk, bool all)
{
    for (uint32_t n = disk->file_count; n-- > 0;) {
        if (all || !is_wanted(disk, &disk->files[n].of)) {
            remove_file(disk, &disk->files[n]);
        }
    }
}

/* ---- looking -------------------------------------------------------------- */

bool disk_is_idle(const struct disk *disk)
{
    return disk == NULL || disk->count == 0;
}

uint32_t disk_serial_of(struct disk *disk, const struct store_sight *sight, uint32_t key)
{
    struct world *world = disk->lane->world;
    struct bytes_shape shape = {sight->data_size, sight->meta_size, sight->name_size};
    const struct file *file =
        find_file(disk, sight->pool, sight->birth.counter, sight->birth.incarnation);

    WORLD_CHECK(world, file != NULL, "node %u, key %u: spilled, and there is no file",
                disk->lane->node, key);
    return bytes_serial(world, disk->lane->node, key, file->bytes, &shape);
}

uint64_t disk_bytes(const struct disk *disk)
{
    uint64_t bytes = 0;

    for (uint32_t n = 0; disk != NULL && n < disk->file_count; n++) {
        bytes += disk->files[n].size;
    }
    return bytes;
}

bool disk_has_damage(const struct disk *disk)
{
    for (uint32_t n = 0; disk != NULL && n < disk->file_count; n++) {
        if (disk->files[n].damaged) {
            return true;
        }
    }
    return false;
}
