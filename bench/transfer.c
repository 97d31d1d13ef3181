/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets of objects that lie on another node, against what TCP itself and its users can do, in one
 * run over loopback: rows to a JSON file, readable lines to standard output.
 *
 *   bench-transfer NIGHD MPI-HELPER OUT.json [SIZE...]      sizes as they are printed: "8 KiB"
 *
 * At each size every series is set up, then measured in alternating rounds, and is gone before the
 * next size. Each peer stands in its best placement; the others are printed too. Exits 0 when it
 * ran, whether or not every target was met.
 */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nigh/node.h"
#include "transfer.h"

#define B   UINT64_C(1)
#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

#define SETTLE_MS 4 /* who spins has stopped by then */

static const struct workload workloads[] = {
    {"1 B", B, 400, 21},         {"64 B", 64 * B, 400, 21},     {"1 KiB", KIB, 400, 21},
    {"8 KiB", 8 * KIB, 400, 21}, {"32 KiB", 32 * KIB, 200, 21}, {"128 KiB", 128 * KIB, 100, 21},
    {"1 MiB", MIB, 32, 21},      {"4 MiB", 4 * MIB, 16, 21},    {"64 MiB", 64 * MIB, 3, 21},
    {"1 GiB", GIB, 1, 15},
};

/* By what is looked up in the rows below. */
enum {
    RAW_SPINNING,
    RAW_BLOCKING,
    RAW_BLOCKING_SAME,
    RAW_POLLING_SAME,
    STREAM_SPINNING,
    STREAM_BLOCKING,
    COPY,
    REDIS_SAME,
    REDIS_CROSS,
    MPI,
    TWO_SIDED,
    ONE_SIDED,
    HYBRID,
    BLOCKING,
    BLOCKING_SAME,
    DAEMON,
    DAEMON_SAME,
    SERIES
};

static struct series series[SERIES] = {
    [RAW_SPINNING] = {"raw TCP, spinning", "plain sockets, two cores, both spinning", &transfer_raw,
                      RAW_SPINS, 0, GIB},
    [RAW_BLOCKING] = {"raw TCP, blocking", "plain sockets, two cores, both blocking", &transfer_raw,
                      0, 0, 64 * MIB, true},
    [RAW_BLOCKING_SAME] = {"raw TCP, blocking, one core", "plain sockets, one core, both blocking",
                           &transfer_raw, RAW_SAME_CORE, 0, 64 * MIB, true},
    [RAW_POLLING_SAME] = {"raw TCP, blocking in epoll, one core",
                          "plain sockets, one core, both asleep in epoll, then recv", &transfer_raw,
                          RAW_SAME_CORE | RAW_EPOLL, 0, 64 * MIB, true},
    [STREAM_SPINNING] = {"raw TCP and CRC32C, spinning",
                         "plain sockets, two cores, both spinning, summed as it comes",
                         &transfer_raw, RAW_SPINS | RAW_SUMS, 32 * KIB, GIB},
    [STREAM_BLOCKING] = {"raw TCP and CRC32C, blocking",
                         "plain sockets, two cores, both blocking, summed as it comes",
                         &transfer_raw, RAW_SUMS, 32 * KIB, 64 * MIB},
    [COPY] = {"memcpy", "one thread, from populated memory to populated memory", &transfer_memcpy,
              0, 0, 64 * MIB},
    [REDIS_SAME] = {"Redis GET, one core", "hiredis over TCP, server on the client's core",
                    &transfer_redis, TRANSFER_HERE, 0, 64 * MIB, true},
    [REDIS_CROSS] = {"Redis GET", "hiredis over TCP, server on the other core", &transfer_redis,
                     TRANSFER_THERE, 0, 64 * MIB, true},
    [MPI] = {"MPI_Get", "Open MPI, btl tcp, two cores, both spinning", &transfer_mpi, 0, 0, GIB},
    [TWO_SIDED] = {"two-sided", "embedded, two cores, both spinning", &transfer_nigh,
                   NIGH_TRANSFER_TWO_SIDED, 0, GIB},
    [ONE_SIDED] = {"one-sided", "embedded, two cores, both spinning", &transfer_nigh,
                   NIGH_TRANSFER_ONE_SIDED, 0, GIB},
    [HYBRID] = {"hybrid", "embedded, two cores, both spinning", &transfer_nigh, 0, 0, GIB},
    [BLOCKING] = {"hybrid, blocking", "embedded, two cores, both blocking", &transfer_nigh,
                  NIGH_BLOCKS, 0, 64 * MIB, true},
    [BLOCKING_SAME] = {"hybrid, blocking, one core", "embedded, one core, both blocking",
                       &transfer_nigh, NIGH_BLOCKS | NIGH_SAME_CORE, 0, 64 * MIB, true},
    [DAEMON] = {"client and nighd",
                "client and its nighd on one core, the other nighd on the other, all blocking",
                &transfer_nigh, NIGH_BLOCKS | NIGH_DAEMON, 0, 64 * MIB, true},
    [DAEMON_SAME] = {"client and nighd, one core",
                     "client and both nighd on one core, all blocking", &transfer_nigh,
                     NIGH_BLOCKS | NIGH_DAEMON | NIGH_SAME_CORE, 0, 64 * MIB, true},
};

/* ---- rounds --------------------------------------------------------------- */

static bool is_run(const struct series *one, const struct workload *workload)
{
    return workload->bytes >= one->least_bytes && workload->bytes <= one->most_bytes;
}

/* How often the threads of a process have gone to sleep. */
static double sleeps_of(pid_t pid)
{
    char path[300], line[128];
    double sum = 0;
    struct dirent *entry;
    DIR *directory;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    directory = opendir(path);
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        unsigned long long count;
        FILE *file;

        snprintf(path, sizeof path, "/proc/%d/task/%s/status", (int)pid, entry->d_name);
        file = fopen(path, "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL) {
            if (sscanf(line, "voluntary_ctxt_switches: %llu", &count) == 1) {
                sum += (double)count;
            }
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return sum;
}

static double sleeps_of_all(const struct series *one)
{
    double sum = 0;

    for (size_t i = 0; i < sizeof one->pids / sizeof one->pids[0]; i++) {
        sum += one->pids[i] != 0 ? sleeps_of(one->pids[i]) : 0;
    }
    return sum;
}

static void measure(struct series *one, const struct workload *workload, uint32_t round)
{
    struct samples samples = {0};
    double before = one->counts_sleeps ? sleeps_of_all(one) : 0;

    one->kind->round(one, workload, &samples);
    if (one->counts_sleeps) {
        one->sleeps[round] = (sleeps_of_all(one) - before) / workload->objects;
    }
    samples_append(&one->all, &samples);
    one->round[round] = samples_quantile(&samples, 0.5);
    samples_free(&samples);
    if (one->kind->after != NULL) {
        one->kind->after(one);
    }
    poll(NULL, 0, SETTLE_MS);
}

/* The first round fills caches and congestion windows; it does not count. Odd rounds go backwards,
 * so that nobody always follows the same. */
static void run_rounds(const struct workload *workload)
{
    for (uint32_t round = 0; round <= workload->rounds; round++) {
        for (int i = 0; i < SERIES; i++) {
            struct series *one = &series[round % 2 == 0 ? i : SERIES - 1 - i];

            if (!is_run(one, workload)) {
                continue;
            }
            measure(one, workload, round == 0 ? 0 : round - 1);
            if (round == 0) {
                samples_free(&one->all);
            }
        }
    }
}

/* ---- rows ----------------------------------------------------------------- */

static double median_of(const double *values, uint32_t count)
{
    struct samples samples = {0};
    double median;

    for (uint32_t i = 0; i < count; i++) {
        samples_add(&samples, values[i]);
    }
    median = samples_quantile(&samples, 0.5);
    samples_free(&samples);
    return median;
}

/* Half of the rounds lie within so much of each other, as a share of their median. */
static double spread_of(const struct series *one, uint32_t count)
{
    struct samples samples = {0};
    double spread;

    for (uint32_t i = 0; i < count; i++) {
        samples_add(&samples, one->round[i]);
    }
    spread = (samples_quantile(&samples, 0.75) - samples_quantile(&samples, 0.25)) /
             samples_quantile(&samples, 0.5);
    samples_free(&samples);
    return spread;
}

/* The faster of two at this size: a peer in its best placement. */
static int better(const struct workload *workload, int a, int b)
{
    if (!is_run(&series[b], workload)) {
        return a;
    }
    return median_of(series[a].round, workload->rounds) <=
                   median_of(series[b].round, workload->rounds)
               ? a
               : b;
}

static struct bench_row row_of(const struct workload *workload, int number)
{
    struct series *one = &series[number];

    return (struct bench_row){.unit = "us",
                              .median = median_of(one->round, workload->rounds) / 1000,
                              .p99 = samples_quantile(&one->all, 0.99) / 1000,
                              .path = one->path};
}

static void write_plain_rows(const struct workload *workload)
{
    for (int i = 0; i < SERIES; i++) {
        char name[128];
        struct bench_row row;

        if (!is_run(&series[i], workload)) {
            continue;
        }
        row = row_of(workload, i);
        snprintf(name, sizeof name, "%s/%s", workload->label, series[i].name);
        row.name = name;
        bench_row_write(&row);
        if (series[i].counts_sleeps) {
            snprintf(name, sizeof name, "%s/%s/sleeps a get", workload->label, series[i].name);
            bench_row_write(
                &(struct bench_row){.name = name,
                                    .unit = "sleeps",
                                    .median = median_of(series[i].sleeps, workload->rounds),
                                    .p99 = median_of(series[i].sleeps, workload->rounds),
                                    .path = "voluntary context switches of all its processes"});
        }
    }
}

/* Ours against theirs, round by round; `faster`: theirs / ours, else ours / theirs. on 0: no
 * target. */
static void compare(const struct workload *workload, const char *what, int ours, int theirs,
                    bool faster, double target)
{
    struct bench_row row = row_of(workload, ours);
    struct samples ratios = {0};
    char name[128], path[512];

    for (uint32_t i = 0; i < workload->rounds; i++) {
        double ratio = series[ours].round[i] / series[theirs].round[i];

        samples_add(&ratios, faster ? 1 / ratio : ratio);
    }
    snprintf(name, sizeof name, "%s/%s", workload->label, what);
    snprintf(path, sizeof path, "%s: %s; against %s: %s; spread of the rounds %.0f %% and %.0f %%",
             series[ours].name, series[ours].path, series[theirs].name, series[theirs].path,
             100 * spread_of(&series[ours], workload->rounds),
             100 * spread_of(&series[theirs], workload->rounds));
    row.name = name;
    row.path = path;
    row.baseline_name = series[theirs].name;
    row.baseline = median_of(series[theirs].round, workload->rounds) / 1000;
    bench_row_set_ratios(&row, &ratios);
    if (target > 0) {
        row.on = BENCH_ON_RATIO;
        row.target = target;
        row.better = faster ? "higher" : "lower";
    }
    bench_row_write(&row);
    samples_free(&ratios);
}

static void write_comparisons(const struct workload *workload)
{
    int path = better(workload, TWO_SIDED, ONE_SIDED);
    double spread = spread_of(&series[path], workload->rounds);
    int redis = better(workload, REDIS_SAME, REDIS_CROSS);
    int raw = better(workload, RAW_BLOCKING, RAW_BLOCKING_SAME);
    bool has_redis = is_run(&series[REDIS_SAME], workload);

    compare(workload, "hybrid against the better path", HYBRID, path, false,
            spread > 0.05 ? 1 + spread : 1.05);
    compare(workload, "spinning against raw TCP", HYBRID, RAW_SPINNING, false,
            workload->bytes == KIB ? 1.4 : 0);
    if (is_run(&series[BLOCKING], workload)) {
        compare(workload, "blocking against raw TCP", better(workload, BLOCKING, BLOCKING_SAME),
                raw, false, workload->bytes == KIB ? 1.3 : 0);
        compare(workload, "blocking against raw TCP, two cores", BLOCKING, RAW_BLOCKING, false, 0);
        compare(workload, "blocking against raw TCP in epoll", BLOCKING_SAME, RAW_POLLING_SAME,
                false, 0);
    }
    if (workload->bytes >= 4 * MIB) {
        compare(workload, "stream against raw TCP with CRC32C", HYBRID,
                better(workload, STREAM_SPINNING, STREAM_BLOCKING), true, 0.85);
    }
    if (has_redis) {
        double target = workload->bytes == 8 * KIB ? 1.3 : workload->bytes >= 4 * MIB ? 1.0 : 0;

        compare(workload, "times as fast as Redis", HYBRID, redis, true, target);
        compare(workload, "client and nighd, times as fast as Redis",
                better(workload, DAEMON, DAEMON_SAME), redis, true, 0);
    }
    compare(workload, "times as fast as MPI_Get", HYBRID, MPI, true,
            workload->bytes >= 4 * MIB ? 1.0 : 0);
}

/* ---- the run -------------------------------------------------------------- */

/* In the order of the table: processes are forked before threads are there. */
static void run(const struct workload *workload)
{
    printf("\n%s: %u objects, %u rounds\n", workload->label, workload->objects, workload->rounds);
    fflush(stdout);
    for (int i = 0; i < SERIES; i++) {
        if (is_run(&series[i], workload)) {
            series[i].kind->open(&series[i], workload);
        }
    }
    poll(NULL, 0, 100);
    run_rounds(workload);
    write_plain_rows(workload);
    write_comparisons(workload);
    for (int i = SERIES - 1; i >= 0; i--) {
        if (is_run(&series[i], workload)) {
            series[i].kind->close(&series[i]);
            samples_free(&series[i].all);
        }
    }
}

static bool wanted(const char *label, int argc, char **argv)
{
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], label) == 0) {
            return true;
        }
    }
    return argc == 4;
}

int main(int argc, char **argv)
{
    int missed;

    if (argc < 4) {
        fprintf(stderr, "usage: bench-transfer NIGHD MPI-HELPER OUT.json [SIZE...]\n");
        return 2;
    }
    bench_nighd_path = argv[1];
    transfer_mpi_helper = argv[2];
    bench_rows_open(argv[3]);
    bench_pin(TRANSFER_HERE);
    printf("%d cores; who gets is on core %d, who holds on core %d or, where it says one core, on "
           "the same\n",
           bench_cores(), TRANSFER_HERE, TRANSFER_THERE % bench_cores());
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++) {
        if (wanted(workloads[i].label, argc, argv)) {
            run(&workloads[i]);
        }
    }
    missed = bench_rows_close();
    printf("\n%d targets missed; rows in %s\n", missed, argv[3]);
    return 0;
}
