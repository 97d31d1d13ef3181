/* SPDX-License-Identifier: Apache-2.0 */
/* See space_durable.h. */
#include "space_durable.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "nigh/space.h"

#define WAIT_US      UINT64_C(30000000)
#define MIB          (UINT64_C(1) << 20)
#define BLOCK        512u
#define HOME         (64 * MIB)
#define OPS          100u
#define THREADS      16u
#define THREAD_OPS   25u
#define RECORD_BYTES 4096u
#define BACKS        3u /* times that the node is killed */
#define PATH         "client on core 0, nighd on any, both blocking, logs on the disk of /tmp"

enum {
    NONE,
    ASYNC,
    SYNC,
    LEVELS
};

static const char *const names[LEVELS] = {"none", "async", "sync"};
static const nigh_space_durability levels[LEVELS] = {
    NIGH_SPACE_DURABLE_NONE, NIGH_SPACE_DURABLE_ASYNC, NIGH_SPACE_DURABLE_SYNC};
static const struct bench_node_options options = {
    .memory = "64M", .core = -1, .spin_us = 0, .spaces = "512M", .has_logs = true};

static struct bench_node node;
static nigh_client *client;
static nigh_space *spaces[LEVELS];
static nigh_space_address words[LEVELS];
static struct samples disk, flushed[LEVELS], ratios[LEVELS], many[LEVELS], backs;

/* ---- what is measured ----------------------------------------------------- */

/* Behind what is there, as a log is written. */
static void sync_file(int fd, struct samples *round)
{
    static const char record[RECORD_BYTES] = "x";

    for (uint32_t n = 0; n < OPS; n++) {
        uint64_t begin_ns = bench_now_ns();

        if (write(fd, record, sizeof record) != (ssize_t)sizeof record || fdatasync(fd) != 0) {
            bench_fail("the disk of /tmp takes nothing");
        }
        samples_add(round, (double)(bench_now_ns() - begin_ns) / 1000);
    }
}

static void write_and_flush(nigh_space *space, nigh_space_address address, uint64_t value)
{
    bench_check(nigh_space_write(space, address, &value, sizeof value, WAIT_US), "a write");
    bench_check(nigh_space_flush(space, WAIT_US, NULL), "a flush");
}

static void flush_alone(uint32_t level, struct samples *round)
{
    for (uint32_t n = 0; n < OPS; n++) {
        uint64_t begin_ns = bench_now_ns();

        write_and_flush(spaces[level], words[level], n);
        samples_add(round, (double)(bench_now_ns() - begin_ns) / 1000);
    }
}

struct worker {
    pthread_t thread;
    uint32_t level, which;
};

static void *flush_beside_others(void *context)
{
    struct worker *worker = context;

    for (uint32_t n = 0; n < THREAD_OPS; n++) {
        write_and_flush(spaces[worker->level], words[worker->level] + worker->which * BLOCK, n);
    }
    return NULL;
}

/* How many a second by all of them. */
static double flush_together(uint32_t level)
{
    struct worker workers[THREADS];
    uint64_t begin_ns = bench_now_ns();

    for (uint32_t n = 0; n < THREADS; n++) {
        workers[n] = (struct worker){.level = level, .which = n};
        if (pthread_create(&workers[n].thread, NULL, flush_beside_others, &workers[n]) != 0) {
            bench_fail("no thread");
        }
    }
    for (uint32_t n = 0; n < THREADS; n++) {
        (void)pthread_join(workers[n].thread, NULL);
    }
    return THREADS * THREAD_OPS * 1e9 / (double)(bench_now_ns() - begin_ns);
}

static void measure_round(int fd)
{
    struct samples round = {0};
    double floor;

    sync_file(fd, &round);
    floor = samples_quantile(&round, 0.5);
    samples_append(&disk, &round);
    samples_free(&round);
    for (uint32_t level = 0; level < LEVELS; level++) {
        flush_alone(level, &round);
        samples_add(&ratios[level], samples_quantile(&round, 0.5) / floor);
        samples_append(&flushed[level], &round);
        samples_free(&round);
        samples_add(&many[level], flush_together(level));
    }
}

/* ---- a node that was killed ----------------------------------------------- */

static void open_spaces(void)
{
    client = bench_client(&node, 0, 0, 0);
    for (uint32_t level = 0; level < LEVELS; level++) {
        nigh_space_spec spec = {.struct_size = sizeof spec,
                                .name = names[level],
                                .home_size = level == SYNC ? HOME : MIB,
                                .cache_size = MIB,
                                .block_size = BLOCK,
                                .durability = levels[level]};

        bench_check(nigh_space_create(client, &spec, WAIT_US, &spaces[level]), "a space");
        bench_check(nigh_space_alloc(spaces[level], level == SYNC ? HOME / 2 : THREADS * BLOCK, 0,
                                     WAIT_US, &words[level]),
                    "memory of a space");
    }
}

/* Until a word of it is read again. */
static void come_back(void)
{
    static uint8_t bytes[MIB];
    uint64_t value, begin_ns;
    nigh_space *space = NULL;

    for (uint64_t at = 0; at < HOME / 2; at += sizeof bytes) {
        bench_check(nigh_space_write(spaces[SYNC], words[SYNC] + at, bytes, sizeof bytes, WAIT_US),
                    "a write");
    }
    bench_check(nigh_space_flush(spaces[SYNC], WAIT_US, NULL), "a flush");
    nigh_client_close(client);
    (void)kill(node.pid, SIGKILL);
    (void)waitpid(node.pid, NULL, 0);
    begin_ns = bench_now_ns();
    bench_node_start_again(&node, &options);
    client = bench_client(&node, 0, 0, 0);
    while (nigh_space_open(client, names[SYNC], NIGH_SPACE_ALL, WAIT_US, &space) != NIGH_OK ||
           nigh_space_read(space, words[SYNC], &value, sizeof value, WAIT_US) != NIGH_OK) {
        if (bench_now_ns() - begin_ns > WAIT_US * 1000) {
            bench_fail("a node that was killed does not come back");
        }
        nigh_space_close(space);
        space = NULL;
        (void)usleep(1000);
    }
    samples_add(&backs, (double)(bench_now_ns() - begin_ns) / 1e6);
    spaces[SYNC] = space;
}

/* ---- rows ----------------------------------------------------------------- */

static void tell(const char *name, const char *unit, struct samples *samples, bool is_rate,
                 struct samples *to)
{
    struct bench_row row = {.name = name,
                            .unit = unit,
                            .median = samples_quantile(samples, 0.5),
                            .p99 = samples_quantile(samples, is_rate ? 0 : 0.99),
                            .least = samples_quantile(samples, 0),
                            .most = samples_quantile(samples, 1),
                            .better = is_rate ? "higher" : "lower",
                            .path = PATH};

    if (to != NULL) {
        row.baseline_name = "fdatasync behind 4 KiB";
        row.baseline = samples_quantile(&disk, 0.5);
        bench_row_set_ratios(&row, to);
    }
    bench_row_write(&row);
}

static void tell_all(void)
{
    char name[80];

    tell("fdatasync behind 4 KiB", "us", &disk, false, NULL);
    for (uint32_t level = 0; level < LEVELS; level++) {
        (void)snprintf(name, sizeof name, "write of 8 B and flush, durability %s", names[level]);
        tell(name, "us", &flushed[level], false, &ratios[level]);
        (void)snprintf(name, sizeof name, "the same by 16 threads at once, durability %s",
                       names[level]);
        tell(name, "/s", &many[level], true, NULL);
    }
    tell("a killed node's 32 MiB in 512 B, sync: until they are read again", "ms", &backs, false,
         NULL);
}

void durable_measure(int rounds)
{
    char path[128];
    int fd;

    bench_node_start(&node, &options);
    open_spaces();
    (void)snprintf(path, sizeof path, "%s/file", node.directory);
    fd = open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        bench_fail("no file in %s", node.directory);
    }
    for (int n = 0; n < rounds; n++) {
        measure_round(fd);
    }
    for (uint32_t n = 0; n < BACKS; n++) {
        come_back();
    }
    tell_all();
    (void)close(fd);
    nigh_client_close(client);
    bench_node_stop(&node);
}
