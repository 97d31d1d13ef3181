/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares eviction policies on synthetic traces and prints one table of miss ratios: LRU, CLOCK,
 * SIEVE, 2Q, ARC, S3-FIFO, and the policy of production. Writes build/bench/evict.json, or the file
 * named as argument. Its findings are read in docs/eviction.md.
 *
 * Not a measurement of time, save the last three rows; seeds are fixed, so the ratios are the same
 * on every machine.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "evict_policies.h"
#include "evict_replay.h"
#include "evict_workloads.h"

#define SEEDS       3u
#define HINT_LEVELS 3u
#define CAPACITIES  ARRAY_LENGTH(evict_workloads[0].percent)

/* Of the hits, how many leave a hint; the table is printed for the first. */
static const uint32_t hint_percents[HINT_LEVELS] = {50, 100, 10};

/* Of the rows at one hint level: sums of logarithms of the ratios to LRU, and the worst ratio. */
struct summary {
    double log_objects;
    double log_bytes;
    double worst;
    uint32_t rows;
};

struct row {
    double objects[SEEDS]; /* sorted: the middle is the median, the last the worst */
    double bytes[SEEDS];
};

static FILE *json;
static const char *json_separator = "";

static void json_row(const char *name, const char *unit, const double *sorted, uint32_t count,
                     double baseline)
{
    double median = sorted[count / 2];
    double p99 = sorted[(count * 99 + 99) / 100 - 1];

    fprintf(json,
            "%s\n  {\"name\": \"%s\", \"unit\": \"%s\", \"median\": %.6g, \"p99\": %.6g, "
            "\"baseline\": %.6g, \"ratio\": ",
            json_separator, name, unit, median, p99, baseline);
    if (baseline > 0) {
        fprintf(json, "%.6g}", median / baseline);
    } else {
        fprintf(json, "null}");
    }
    json_separator = ",";
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void sort(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare_doubles);
}

/* ---- miss ratios ---- */

static void measure(const struct workload *workload, uint32_t percent, uint32_t hint_percent,
                    struct row rows[EVICT_POLICIES])
{
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        struct trace trace;

        trace_init(&trace, workload, percent, seed + 1);
        for (uint32_t i = 0; i < EVICT_POLICIES; i++) {
            struct replay_result result;

            replay(&trace, evict_policies[i], hint_percent, seed + 1, &result);
            rows[i].objects[seed] = result.objects;
            rows[i].bytes[seed] = result.bytes;
        }
        trace_fini(&trace);
    }
    for (uint32_t i = 0; i < EVICT_POLICIES; i++) {
        sort(rows[i].objects, SEEDS);
        sort(rows[i].bytes, SEEDS);
    }
}

static void print_policies(const char *what, int width)
{
    printf("%-17s", what);
    for (uint32_t i = 0; i < EVICT_POLICIES; i++) {
        printf("  %-*s", width, evict_policies[i]->name);
    }
    printf("\n");
}

static void print_row(const struct workload *workload, uint32_t percent,
                      const struct row rows[EVICT_POLICIES])
{
    printf("%-12s %3u%%", workload->name, percent);
    for (uint32_t i = 0; i < EVICT_POLICIES; i++) {
        printf("  %.3f %.3f", rows[i].objects[SEEDS / 2], rows[i].bytes[SEEDS / 2]);
    }
    printf("\n");
}

static void write_row(const struct workload *workload, uint32_t percent, uint32_t hint_percent,
                      const struct row rows[EVICT_POLICIES])
{
    for (uint32_t i = 0; i < EVICT_POLICIES; i++) {
        char name[128];

        snprintf(name, sizeof(name), "evict/%s/%u%%/hints-%u%%/%s/objects", workload->name, percent,
                 hint_percent, evict_policies[i]->name);
        json_row(name, "miss ratio", rows[i].objects, SEEDS,
                 rows[EVICT_BASELINE].objects[SEEDS / 2]);
        snprintf(name, sizeof(name), "evict/%s/%u%%/hints-%u%%/%s/bytes", workload->name, percent,
                 hint_percent, evict_policies[i]->name);
        json_row(name, "miss ratio", rows[i].bytes, SEEDS, rows[EVICT_BASELINE].bytes[SEEDS / 2]);
    }
}

static void add_to_summary(struct summary summaries[EVICT_POLICIES],
                           const struct row rows[EVICT_POLICIES])
{
    for (uint32_t i = 0; i < EVICT_POLICIES; i++) {
        double objects = rows[i].objects[SEEDS / 2] / rows[EVICT_BASELINE].objects[SEEDS / 2];
        double bytes = rows[i].bytes[SEEDS / 2] / rows[EVICT_BASELINE].bytes[SEEDS / 2];

        summaries[i].log_objects += log(objects);
        summaries[i].log_bytes += log(bytes);
        summaries[i].worst = fmax(summaries[i].worst, objects);
        summaries[i].rows++;
    }
}

static void print_summaries(struct summary summaries[HINT_LEVELS][EVICT_POLICIES])
{
    printf(
        "Against LRU: geometric mean of the rows, and the worst row, by share of hits hinted:\n");
    for (uint32_t h = 0; h < HINT_LEVELS; h++) {
        printf("%3u%% %-12s", hint_percents[h], "mean");
        for (uint32_t i = 0; i < EVICT_POLICIES; i++) {
            const struct summary *s = &summaries[h][i];

            printf("  %.3f %.3f", exp(s->log_objects / s->rows), exp(s->log_bytes / s->rows));
        }
        printf("\n%4s %-12s", "", "worst");
        for (uint32_t i = 0; i < EVICT_POLICIES; i++) {
            printf("  %.3f%6s", summaries[h][i].worst, "");
        }
        printf("\n");
    }
}

/* One table: its rows and what they come to. */
static void compare_miss_ratios(const struct workload *workloads, uint32_t count)
{
    struct summary summaries[HINT_LEVELS][EVICT_POLICIES] = {0};

    print_policies("trace, store", 11);
    for (uint32_t w = 0; w < count; w++) {
        const struct workload *workload = &workloads[w];

        for (uint32_t c = 0; c < CAPACITIES; c++) {
            for (uint32_t h = 0; h < HINT_LEVELS; h++) {
                struct row rows[EVICT_POLICIES];

                measure(workload, workload->percent[c], hint_percents[h], rows);
                if (h == 0) {
                    print_row(workload, workload->percent[c], rows);
                }
                write_row(workload, workload->percent[c], hint_percents[h], rows);
                add_to_summary(summaries[h], rows);
            }
        }
    }
    print_summaries(summaries);
}

/* The traces of a store: no summary against LRU, which often misses nothing there. Sizes are equal,
 * so the second number of a policy would be its first. */
static void compare_stores(void)
{
    print_policies("trace, lag, hints     ", 7);
    for (uint32_t w = 0; w < EVICT_STORES; w++) {
        const struct workload *workload = &evict_stores[w];

        for (uint32_t c = 0; c < CAPACITIES; c++) {
            for (uint32_t h = 0; h < HINT_LEVELS; h++) {
                struct row rows[EVICT_POLICIES];

                measure(workload, workload->percent[c], hint_percents[h], rows);
                printf("%-12s %3u%% %3u%%", workload->name, workload->percent[c], hint_percents[h]);
                for (uint32_t i = 0; i < EVICT_POLICIES; i++) {
                    printf("  %-7.3f", rows[i].objects[SEEDS / 2]);
                }
                printf("\n");
                write_row(workload, workload->percent[c], hint_percents[h], rows);
            }
        }
    }
}

/* ---- time ---- */

#define TIMED_ENTRIES (1u << 20)
#define TIMED_ROUNDS  9u
#define TIMED_TOUCHES (1u << 20)
#define TIMED_BATCHES 1024u
#define TIMED_BATCH   64u
#define TIMED_BYTES   (UINT64_C(1) << 12)

enum timed {
    TIMED_ADMIT,
    TIMED_TOUCH,
    TIMED_EVICT,
    TIMED_KINDS
};

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A full store of a million objects: fill it, hint at random entries, replace batches. ns a step.
 */
static void time_policy(const struct policy_ops *ops, uint64_t seed, double ns[TIMED_KINDS])
{
    static uint32_t touches[TIMED_TOUCHES];
    struct policy *p = ops->create(TIMED_ENTRIES, TIMED_ENTRIES + TIMED_BATCHES * TIMED_BATCH,
                                   TIMED_ENTRIES * TIMED_BYTES);
    uint32_t object = TIMED_ENTRIES;
    double start = seconds();

    for (uint32_t i = 0; i < TIMED_ENTRIES; i++) {
        ops->admit(p, i, i, TIMED_BYTES);
    }
    ns[TIMED_ADMIT] = (seconds() - start) * 1e9 / TIMED_ENTRIES;
    for (uint32_t i = 0; i < TIMED_TOUCHES; i++) {
        /* Two thirds are hinted at once or more. */
        touches[i] = (uint32_t)(trace_random(&seed) % TIMED_ENTRIES);
    }
    start = seconds();
    for (uint32_t i = 0; i < TIMED_TOUCHES; i++) {
        ops->touch(p, touches[i]);
    }
    ns[TIMED_TOUCH] = (seconds() - start) * 1e9 / TIMED_TOUCHES;
    start = seconds();
    for (uint32_t batch = 0; batch < TIMED_BATCHES; batch++) {
        uint32_t victims[TIMED_BATCH];
        uint32_t count = ops->victims(p, TIMED_BATCH, UINT64_MAX, victims);

        for (uint32_t i = 0; i < count; i++) {
            ops->evicted(p, victims[i]);
        }
        for (uint32_t i = 0; i < count; i++) {
            ops->admit(p, victims[i], object++, TIMED_BYTES);
        }
    }
    ns[TIMED_EVICT] = (seconds() - start) * 1e9 / (object - TIMED_ENTRIES);
    ops->destroy(p);
}

static void compare_times(void)
{
    static const char *const kinds[TIMED_KINDS] = {"admit", "hint", "evict and admit"};
    double ns[2][TIMED_KINDS][TIMED_ROUNDS];

    for (uint32_t round = 0; round < TIMED_ROUNDS; round++) {
        double one[TIMED_KINDS];

        for (uint32_t i = 0; i < 2; i++) {
            time_policy(evict_policies[i == 0 ? EVICT_BASELINE : EVICT_PRODUCTION], round, one);
            for (uint32_t kind = 0; kind < TIMED_KINDS; kind++) {
                ns[i][kind][round] = one[kind];
            }
        }
    }
    printf("\nTime, ns a step, %u objects, median and worst of %u alternating rounds:\n",
           TIMED_ENTRIES, TIMED_ROUNDS);
    for (uint32_t kind = 0; kind < TIMED_KINDS; kind++) {
        char name[64];

        sort(ns[0][kind], TIMED_ROUNDS);
        sort(ns[1][kind], TIMED_ROUNDS);
        printf("%-16s LRU %6.1f %6.1f   nigh %6.1f %6.1f\n", kinds[kind],
               ns[0][kind][TIMED_ROUNDS / 2], ns[0][kind][TIMED_ROUNDS - 1],
               ns[1][kind][TIMED_ROUNDS / 2], ns[1][kind][TIMED_ROUNDS - 1]);
        snprintf(name, sizeof(name), "evict/time/%s", kinds[kind]);
        json_row(name, "ns", ns[1][kind], TIMED_ROUNDS, ns[0][kind][TIMED_ROUNDS / 2]);
    }
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "build/bench/evict.json";

    json = fopen(path, "w");
    if (json == NULL) {
        fprintf(stderr, "evict: cannot write %s: %s\n", path, strerror(errno));
        return 1;
    }
    fprintf(json, "[");
    printf("Miss ratios (objects, bytes), median of %u seeds; %u%% of the hits leave a hint.\n",
           SEEDS, hint_percents[0]);
    compare_miss_ratios(evict_workloads, EVICT_WORKLOADS);
    printf("\nHeld out: other parameters, not looked at while the policy was first chosen.\n");
    compare_miss_ratios(evict_held_out, EVICT_HELD_OUT);
    printf(
        "\nA store: what is gone before its one use is lost. Seen while the policy was chosen.\n");
    compare_stores();
    compare_times();
    fprintf(json, "\n]\n");
    if (fclose(json) != 0) {
        fprintf(stderr, "evict: cannot write %s: %s\n", path, strerror(errno));
        return 1;
    }
    return 0;
}
