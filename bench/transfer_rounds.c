/* SPDX-License-Identifier: Apache-2.0 */
/* A table of series at one size: set up, measured in alternating rounds, written as rows, and gone.
 */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transfer.h"

#define SETTLE_MS 4 /* who spins has stopped by then */

const char *transfer_address_here = "127.0.0.1", *transfer_address_there = "127.0.0.1";

/* ---- rounds --------------------------------------------------------------- */

bool transfer_is_run(const struct series *one, const struct workload *workload)
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
static void run_rounds(const struct table *table, const struct workload *workload)
{
    for (uint32_t round = 0; round <= workload->rounds; round++) {
        for (int i = 0; i < table->count; i++) {
            struct series *one = &table->series[round % 2 == 0 ? i : table->count - 1 - i];

            if (!transfer_is_run(one, workload)) {
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

double transfer_spread(const struct series *one, uint32_t count)
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

struct series *transfer_better(const struct workload *workload, struct series *a, struct series *b)
{
    if (!transfer_is_run(b, workload)) {
        return a;
    }
    return median_of(a->round, workload->rounds) <= median_of(b->round, workload->rounds) ? a : b;
}

static struct bench_row row_of(const struct workload *workload, struct series *one)
{
    return (struct bench_row){.unit = "us",
                              .median = median_of(one->round, workload->rounds) / 1000,
                              .p99 = samples_quantile(&one->all, 0.99) / 1000,
                              .path = one->path};
}

static void write_plain_rows(const struct table *table, const struct workload *workload)
{
    for (int i = 0; i < table->count; i++) {
        struct series *one = &table->series[i];
        char name[128];
        struct bench_row row;

        if (!transfer_is_run(one, workload)) {
            continue;
        }
        row = row_of(workload, one);
        snprintf(name, sizeof name, "%s/%s", workload->label, one->name);
        row.name = name;
        bench_row_write(&row);
        if (one->kind->write_rows != NULL) {
            one->kind->write_rows(one, workload);
        }
        if (one->counts_sleeps) {
            snprintf(name, sizeof name, "%s/%s/sleeps a get", workload->label, one->name);
            bench_row_write(
                &(struct bench_row){.name = name,
                                    .unit = "sleeps",
                                    .median = median_of(one->sleeps, workload->rounds),
                                    .p99 = median_of(one->sleeps, workload->rounds),
                                    .path = "voluntary context switches of all its processes"});
        }
    }
}

void transfer_compare(const struct workload *workload, const char *what, struct series *ours,
                      struct series *theirs, bool faster, double target)
{
    struct bench_row row = row_of(workload, ours);
    struct samples ratios = {0};
    char name[128], path[512];

    for (uint32_t i = 0; i < workload->rounds; i++) {
        double ratio = ours->round[i] / theirs->round[i];

        samples_add(&ratios, faster ? 1 / ratio : ratio);
    }
    snprintf(name, sizeof name, "%s/%s", workload->label, what);
    snprintf(path, sizeof path, "%s: %s; against %s: %s; spread of the rounds %.0f %% and %.0f %%",
             ours->name, ours->path, theirs->name, theirs->path,
             100 * transfer_spread(ours, workload->rounds),
             100 * transfer_spread(theirs, workload->rounds));
    row.name = name;
    row.path = path;
    row.baseline_name = theirs->name;
    row.baseline = median_of(theirs->round, workload->rounds) / 1000;
    bench_row_set_ratios(&row, &ratios);
    if (target > 0) {
        row.on = BENCH_ON_RATIO;
        row.target = target;
        row.better = faster ? "higher" : "lower";
    }
    bench_row_write(&row);
    samples_free(&ratios);
}

double transfer_median_us(const struct workload *workload, const struct series *one)
{
    return median_of(one->round, workload->rounds) / 1000;
}

double transfer_p99_us(struct series *one)
{
    return samples_quantile(&one->all, 0.99) / 1000;
}

/* ---- the run -------------------------------------------------------------- */

/* In the order of the table: processes are forked before threads are there. */
static void run_one(const struct table *table, const struct workload *workload)
{
    printf("\n%s: %u objects, %u rounds\n", workload->label, workload->objects, workload->rounds);
    fflush(stdout);
    for (int i = 0; i < table->count; i++) {
        if (transfer_is_run(&table->series[i], workload)) {
            table->series[i].kind->open(&table->series[i], workload);
        }
    }
    poll(NULL, 0, 100);
    run_rounds(table, workload);
    write_plain_rows(table, workload);
    table->compare(workload);
    for (int i = table->count - 1; i >= 0; i--) {
        if (transfer_is_run(&table->series[i], workload)) {
            table->series[i].kind->close(&table->series[i]);
            samples_free(&table->series[i].all);
        }
    }
}

/* "8 KiB" is 8K, too. */
static bool is_called(const struct workload *workload, const char *word)
{
    unsigned number;
    char unit, brief[16];

    if (strcmp(workload->label, word) == 0) {
        return true;
    }
    if (sscanf(workload->label, "%u %c", &number, &unit) != 2) {
        return false;
    }
    snprintf(brief, sizeof brief, unit == 'B' ? "%u" : "%u%c", number, unit);
    return strcmp(brief, word) == 0;
}

static void check_options(const struct workload *workloads, size_t count,
                          const struct transfer_options *options)
{
    for (int i = 0; i < options->size_count; i++) {
        bool found = false;

        for (size_t n = 0; n < count; n++) {
            found = found || is_called(&workloads[n], options->sizes[i]);
        }
        if (!found) {
            fprintf(stderr, "bench: \"%s\" is none of its sizes\n", options->sizes[i]);
            exit(2);
        }
    }
    if (options->rounds > TRANSFER_MAX_ROUND) {
        fprintf(stderr, "bench: %u rounds; the most is %d\n", options->rounds, TRANSFER_MAX_ROUND);
        exit(2);
    }
}

static bool is_wanted(const struct workload *workload, const struct transfer_options *options)
{
    for (int i = 0; i < options->size_count; i++) {
        if (is_called(workload, options->sizes[i])) {
            return true;
        }
    }
    return options->size_count == 0;
}

int transfer_run(const struct table *table, const struct workload *workloads, size_t count,
                 const struct transfer_options *options)
{
    check_options(workloads, count, options);
    bench_rows_open(options->out);
    for (size_t i = 0; i < count; i++) {
        struct workload workload = workloads[i];

        workload.rounds = options->rounds > 0 ? options->rounds : workload.rounds;
        if (is_wanted(&workload, options)) {
            run_one(table, &workload);
        }
    }
    return bench_rows_close();
}
