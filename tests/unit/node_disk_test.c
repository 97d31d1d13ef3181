/* SPDX-License-Identifier: Apache-2.0 */
/* The disk thread: objects come back as they were; torn, foreign, missing and unwritable files are
 * statuses, never wrong bytes. */
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <signal.h>

#include "base/crc32c.h"
#include "node/disk.h"
#include "object/spill_file.h"
#include "support/support.h"

#define EXTENT_BYTES (UINT64_C(2) << 20)

struct fixture {
    struct extent_set *extents;
    struct disk *disk;
    char directory[128];
    struct lock_file lock;
    _Atomic int wakes;
};

static void count_wake(void *context)
{
    atomic_fetch_add(&((struct fixture *)context)->wakes, 1);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct extent_options options = {.memory_bytes = 16u << 20,
                                     .extent_bytes = EXTENT_BYTES,
                                     .lanes = 1,
                                     .huge = EXTENT_HUGE_NEVER};
    static int number;
    char name[32], why[256];

    assert_non_null(fixture);
    snprintf(name, sizeof name, "spill%d", number++);
    support_path(fixture->directory, sizeof fixture->directory, name);
    assert_int_equal(extent_set_create(&options, &fixture->extents, why, sizeof why), NIGH_OK);
    lock_file_init(&fixture->lock);
    assert_int_equal(disk_claim(fixture->directory, &fixture->lock, why, sizeof why), NIGH_OK);
    assert_int_equal(disk_create(&(struct disk_config){.directory = fixture->directory,
                                                       .lane = 0,
                                                       .extents = fixture->extents,
                                                       .wake = count_wake,
                                                       .context = fixture},
                                 &fixture->disk),
                     NIGH_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    disk_destroy(fixture->disk);
    lock_file_close(&fixture->lock);
    extent_set_destroy(fixture->extents);
    free(fixture);
    return 0;
}

/* An object that crosses from the first extent into the second. */
static struct store_disk_job sample_job(struct fixture *fixture)
{
    struct store_disk_job job = {.write = true,
                                 .pool = 1,
                                 .entry = 5,
                                 .generation = 77,
                                 .incarnation = 2,
                                 .offset = EXTENT_BYTES - 4096,
                                 .data_size = 1500001,
                                 .meta_size = 33,
                                 .name_size = 4};
    uint8_t *bytes = extent_bytes_at(fixture->extents, job.offset);

    memset(job.id, 9, sizeof job.id);
    for (uint64_t i = 0; i < 1500008 + 37; i++) {
        bytes[i] = (uint8_t)(i * 31 + (i >> 9));
    }
    return job;
}

static struct disk_end run(struct fixture *fixture, const struct store_disk_job *job)
{
    struct disk_end end = {0};

    assert_true(disk_submit(fixture->disk, job));
    assert_true(SUPPORT_WAIT(disk_take_end(fixture->disk, &end), 20000));
    assert_true(end.job.generation == job->generation && end.job.write == job->write);
    return end;
}

static void file_of(const struct fixture *fixture, const struct store_disk_job *job, char *path,
                    size_t path_bytes)
{
    char name[SPILL_FILE_NAME_BYTES];

    spill_file_name(job->pool, 0, job->incarnation, job->generation, name);
    snprintf(path, path_bytes, "%s/%s", fixture->directory, name);
}

static void object_comes_back_whole(void **state)
{
    struct fixture *fixture = *state;
    struct store_disk_job job = sample_job(fixture);
    const uint8_t *bytes = extent_bytes_at(fixture->extents, job.offset);
    uint32_t crc = crc32c(0, bytes, job.data_size);
    struct disk_end end = run(fixture, &job);

    assert_int_equal(end.status, NIGH_OK);
    assert_int_equal(end.data_crc, crc);
    job.write = false;
    job.offset = 3 * EXTENT_BYTES;
    end = run(fixture, &job);
    assert_int_equal(end.status, NIGH_OK);
    assert_int_equal(end.data_crc, crc);
    assert_memory_equal(extent_bytes_at(fixture->extents, job.offset), bytes, 1500008 + 37);
    assert_true(SUPPORT_WAIT(atomic_load(&fixture->wakes) >= 2, 20000)); /* after it is there */
}

/* Spoils the file in one way and expects the read to refuse it. */
static void expect_refused(struct fixture *fixture, struct store_disk_job job, off_t cut_to,
                           off_t flip_at)
{
    char path[256];
    uint8_t byte;
    int fd;

    job.write = true;
    assert_int_equal(run(fixture, &job).status, NIGH_OK);
    file_of(fixture, &job, path, sizeof path);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    if (cut_to >= 0) {
        assert_int_equal(ftruncate(fd, cut_to), 0);
    } else {
        assert_int_equal(pread(fd, &byte, 1, flip_at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, flip_at), 1);
    }
    close(fd);
    job.write = false;
    job.offset = 3 * EXTENT_BYTES;
    assert_int_equal(run(fixture, &job).status, NIGH_CORRUPT);
}

static void spoilt_files_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct store_disk_job job = sample_job(fixture);

    expect_refused(fixture, job, 0, 0);
    expect_refused(fixture, job, SPILL_FILE_HEADER_BYTES - 1, 0);
    expect_refused(fixture, job, SPILL_FILE_HEADER_BYTES + 1500000, 0);
    expect_refused(fixture, job, -1, 30);
    expect_refused(fixture, job, -1, SPILL_FILE_HEADER_BYTES);
    expect_refused(fixture, job, -1, SPILL_FILE_HEADER_BYTES + 1500000);
    expect_refused(fixture, job, -1, SPILL_FILE_HEADER_BYTES + 1500008 + 36);
}

static void another_objects_file_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct store_disk_job job = sample_job(fixture);

    assert_int_equal(run(fixture, &job).status, NIGH_OK);
    job.write = false;
    job.offset = 3 * EXTENT_BYTES;
    job.id[0] ^= 1;
    assert_int_equal(run(fixture, &job).status, NIGH_CORRUPT);
    job.id[0] ^= 1;
    job.data_size++;
    assert_int_equal(run(fixture, &job).status, NIGH_CORRUPT);
    job.data_size--;
    job.generation++;
    assert_int_equal(run(fixture, &job).status, NIGH_DISK); /* no such file */
}

static void full_disk_is_a_status_and_leaves_no_file(void **state)
{
    struct fixture *fixture = *state;
    struct store_disk_job job = sample_job(fixture);
    struct rlimit before, small = {.rlim_cur = 65536};
    struct disk_end end;
    char path[256];

    /* A file size limit stands for a full disk: the write fails half-way. */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    end = run(fixture, &job);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(end.status, NIGH_DISK);
    file_of(fixture, &job, path, sizeof path);
    assert_int_equal(access(path, F_OK), -1);
    strcat(path, ".writing");
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(run(fixture, &job).status, NIGH_OK);
}

static void forgotten_files_go(void **state)
{
    struct fixture *fixture = *state;
    struct store_disk_job job = sample_job(fixture);
    char path[256];

    assert_int_equal(run(fixture, &job).status, NIGH_OK);
    file_of(fixture, &job, path, sizeof path);
    assert_int_equal(access(path, F_OK), 0);
    disk_forget(fixture->disk, job.pool, job.generation, job.incarnation, false);
    assert_true(SUPPORT_WAIT(access(path, F_OK) != 0, 10000));
}

/* The file of an object as a pipe: a read of it waits until somebody lets it go on. */
static void hold_up(const struct fixture *fixture, const struct store_disk_job *job)
{
    char path[256];

    file_of(fixture, job, path, sizeof path);
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void let_go_on(const struct fixture *fixture, const struct store_disk_job *job)
{
    char path[256];
    int fd = -1;

    file_of(fixture, job, path, sizeof path);
    /* Only once somebody reads. */
    assert_true(SUPPORT_WAIT((fd = open(path, O_WRONLY | O_NONBLOCK)) >= 0, 20000));
    close(fd);
    unlink(path);
}

static uint32_t count_files(const struct fixture *fixture, const struct store_disk_job *first,
                            uint32_t count)
{
    struct store_disk_job job = *first;
    uint32_t there = 0;
    char path[256];

    for (uint32_t i = 0; i < count; i++, job.generation++) {
        file_of(fixture, &job, path, sizeof path);
        there += access(path, F_OK) == 0;
    }
    return there;
}

#define FORGOTTEN (3 * LIMIT_SPILL_QUEUE)

/* However many files go, and however long a disk takes for each: the caller removes none, and jobs
 * do not wait for all of them. */
static void the_caller_removes_no_file(void **state)
{
    struct fixture *fixture = *state;
    struct store_disk_job first = sample_job(fixture), slow = first, read = first, slower = first;
    struct disk_end end = {0};
    uint32_t handed_in, was_read;
    char path[256];

    assert_int_equal(run(fixture, &read).status, NIGH_OK);
    first.generation = 1000;
    for (uint64_t i = 0; i < FORGOTTEN; i++) {
        struct store_disk_job job = first;

        job.generation += i;
        file_of(fixture, &job, path, sizeof path);
        assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    }
    slow.write = read.write = slower.write = false;
    slow.generation = 1;
    slower.generation = 2;
    hold_up(fixture, &slow);
    hold_up(fixture, &slower);
    assert_true(disk_submit(fixture->disk, &slow));
    for (uint64_t i = 0; i < FORGOTTEN; i++) {
        disk_forget(fixture->disk, first.pool, first.generation + i, first.incarnation, false);
    }
    assert_true(disk_submit(fixture->disk, &read));
    assert_true(disk_submit(fixture->disk, &slower));
    handed_in = count_files(fixture, &first, FORGOTTEN);
    let_go_on(fixture, &slow);
    assert_true(SUPPORT_WAIT(disk_take_end(fixture->disk, &end), 20000));
    assert_true(SUPPORT_WAIT(disk_take_end(fixture->disk, &end), 20000));
    assert_int_equal(end.status, NIGH_OK);
    was_read = count_files(fixture, &first, FORGOTTEN);
    let_go_on(fixture, &slower);
    /* The thread may have begun with one. */
    assert_true(handed_in >= FORGOTTEN - 1 && was_read >= FORGOTTEN - 4);
    assert_true(SUPPORT_WAIT(count_files(fixture, &first, FORGOTTEN) == 0, 20000));
    assert_true(SUPPORT_WAIT(disk_take_end(fixture->disk, &end), 20000));
}

/* An object that came back and is written again: the old file goes before the new one comes. */
static void what_is_written_again_stays(void **state)
{
    struct fixture *fixture = *state;
    struct store_disk_job job = sample_job(fixture), slow = job;
    struct disk_end end = {0};
    char path[256];

    assert_int_equal(run(fixture, &job).status, NIGH_OK);
    slow.write = false;
    slow.generation = 1;
    hold_up(fixture, &slow);
    assert_true(disk_submit(fixture->disk, &slow));
    disk_forget(fixture->disk, job.pool, job.generation, job.incarnation, true);
    assert_true(disk_submit(fixture->disk, &job));
    let_go_on(fixture, &slow);
    assert_true(SUPPORT_WAIT(disk_take_end(fixture->disk, &end), 20000));
    assert_true(SUPPORT_WAIT(disk_take_end(fixture->disk, &end), 20000));
    assert_int_equal(end.status, NIGH_OK);
    file_of(fixture, &job, path, sizeof path);
    assert_int_equal(access(path, F_OK), 0);
}

static void queue_is_bounded(void **state)
{
    struct fixture *fixture = *state;
    struct store_disk_job job = sample_job(fixture);
    struct disk_end end;
    uint32_t handed_in = 0, ended = 0;

    job.data_size = 10;
    while (handed_in <= 2 * LIMIT_SPILL_QUEUE && disk_submit(fixture->disk, &job)) {
        handed_in++;
    }
    /* Ends that nobody took count: the lane must make room. */
    assert_int_equal(handed_in, LIMIT_SPILL_QUEUE);
    while (ended < handed_in) {
        assert_true(SUPPORT_WAIT(disk_take_end(fixture->disk, &end), 20000));
        ended++;
    }
    assert_false(disk_take_end(fixture->disk, &end));
    assert_true(disk_submit(fixture->disk, &job));
}

static bool keep_generation_one(void *context, uint32_t pool, uint32_t lane, uint32_t incarnation,
                                uint64_t generation)
{
    (void)context, (void)pool, (void)lane, (void)incarnation;
    return generation == 1;
}

static void touch(const char *directory, const char *name)
{
    char path[256];
    int fd;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void leftovers_are_removed_and_strangers_spared(void **state)
{
    struct fixture *fixture = *state;
    char path[256];

    touch(fixture->directory, "p0-l0-i1-g0000000000000001.object");
    touch(fixture->directory, "p0-l0-i1-g0000000000000001.object.writing");
    touch(fixture->directory, "p0-l0-i1-g0000000000000002.object");
    touch(fixture->directory, "holiday.jpg");
    assert_int_equal(disk_clean(fixture->directory, keep_generation_one, NULL), 2);
    snprintf(path, sizeof path, "%s/p0-l0-i1-g0000000000000001.object", fixture->directory);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/holiday.jpg", fixture->directory);
    assert_int_equal(access(path, F_OK), 0);
}

static void one_node_a_directory(void **state)
{
    struct fixture *fixture = *state;
    char why[256] = "";
    struct lock_file lock;

    lock_file_init(&lock);
    assert_int_equal(disk_claim(fixture->directory, &lock, why, sizeof why), NIGH_BUSY);
    assert_non_null(strstr(why, "--spill"));
    assert_int_not_equal(disk_claim("/proc/nigh", &lock, why, sizeof why), NIGH_OK);
    assert_non_null(strstr(why, "--spill"));
}

int main(void)
{
#define DISK_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        DISK_TEST(object_comes_back_whole),
        DISK_TEST(spoilt_files_are_refused),
        DISK_TEST(another_objects_file_is_refused),
        DISK_TEST(full_disk_is_a_status_and_leaves_no_file),
        DISK_TEST(forgotten_files_go),
        DISK_TEST(the_caller_removes_no_file),
        DISK_TEST(what_is_written_again_stays),
        DISK_TEST(queue_is_bounded),
        DISK_TEST(leftovers_are_removed_and_strangers_spared),
        DISK_TEST(one_node_a_directory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
