/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What priorities of regions are worth (docs/qos.md), as LITE's figure has it: reads of 64 bytes at
 * another node while clients of low priority keep reads of a MiB under way to it, where there is no
 * policy, where low priority has connections of its own (HW-Sep), and where it is limited (SW-Pri).
 * Beside that the same without a neighbour, and what the neighbours got.
 *
 * Each policy has two embedded nodes of its own over TCP, all blocking; they are measured in turns.
 *
 * bench-region-qos OUT.json [ROUNDS]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"
#include "region_nodes.h"

#define READS    8 /* of low priority, under way */
#define LONG     (UINT64_C(1) << 20)
#define FEW      64
#define OPS      200 /* of a round */
#define ROUNDS   15
#define PATIENCE UINT64_C(60000000)
#define PATH     "embedded nodes, tcp, all blocking, not pinned"

struct setting;

struct reader {
    struct setting *setting;
    pthread_t thread;
    nigh_bulk *bulk;
};

/* A policy, its nodes, and who reads much there. */
struct setting {
    const char *name, *low_name;
    nigh_region_qos qos;
    struct pair pair;
    nigh_client *low;
    nigh_region *region; /* of low priority */
    struct reader readers[READS];
    _Atomic uint32_t goes;       /* bench_word_set: they read */
    _Atomic uint64_t ended;      /* reads of theirs */
    struct samples times, rates; /* microseconds; MB/s */
    struct samples ratios;       /* to a read without a neighbour, of each round */
};

static struct setting settings[] = {
    {.name = "64 B/no policy", .low_name = "1 MiB/no policy", .qos = NIGH_REGION_QOS_NONE},
    {.name = "64 B/HW-Sep", .low_name = "1 MiB/HW-Sep", .qos = NIGH_REGION_QOS_SEPARATE},
    {.name = "64 B/SW-Pri", .low_name = "1 MiB/SW-Pri", .qos = NIGH_REGION_QOS_SOFTWARE},
};

#define SETTINGS (sizeof settings / sizeof settings[0])

static struct samples alone;

static void *read_much(void *context)
{
    struct reader *reader = context;
    struct setting *setting = reader->setting;
    nigh_bulk_part part = {.bulk = reader->bulk, .size = LONG};

    for (;;) {
        bench_word_wait(&setting->goes, 0);
        bench_check(nigh_region_read_into(setting->region, 0, &part, PATIENCE), "a long read");
        atomic_fetch_add(&setting->ended, 1);
    }
    return NULL;
}

static void begin(struct setting *setting)
{
    nigh_client_options options = {.struct_size = sizeof options, .flags = NIGH_OPEN_LOW_PRIORITY};
    void *memory;

    setting->pair.qos = setting->qos;
    pair_open(&setting->pair, false, false, -1);
    bench_check(nigh_node_client(setting->pair.node, &options, &setting->low), "a client");
    bench_check(nigh_region_open(setting->low, "far", NIGH_REGION_READ, PATIENCE, &setting->region),
                "a region");
    for (uint32_t n = 0; n < READS; n++) {
        struct reader *reader = &setting->readers[n];

        reader->setting = setting;
        bench_check(nigh_bulk_alloc(setting->low, LONG, NIGH_BULK_WRITE, &memory, &reader->bulk),
                    "memory");
        if (pthread_create(&reader->thread, NULL, read_much, reader) != 0) {
            bench_fail("no thread");
        }
    }
}

/* The median of a round, in microseconds. */
static double read_few(struct setting *setting, struct samples *all)
{
    struct samples round = {0};
    double median;

    for (uint32_t n = 0; n < OPS; n++) {
        uint64_t before_ns = bench_now_ns();

        pair_read(&setting->pair, FEW);
        samples_add(&round, (double)(bench_now_ns() - before_ns) / 1e3);
    }
    median = samples_quantile(&round, 0.5);
    samples_append(all, &round);
    samples_free(&round);
    return median;
}

static void wait_for(const struct setting *setting, uint64_t ended)
{
    uint64_t until_ns = bench_now_ns() + PATIENCE * 1000;

    while (atomic_load(&setting->ended) < ended) {
        if (bench_now_ns() > until_ns) {
            bench_fail("%s: the long reads do not go", setting->name);
        }
        (void)usleep(100);
    }
}

static void measure(struct setting *setting)
{
    double without = read_few(setting, &alone), with;
    uint64_t began_ns, ended;

    bench_word_set(&setting->goes, 1);
    wait_for(setting, atomic_load(&setting->ended) + READS);
    began_ns = bench_now_ns();
    ended = atomic_load(&setting->ended);
    with = read_few(setting, &setting->times);
    ended = atomic_load(&setting->ended) - ended;
    samples_add(&setting->rates,
                (double)(ended * LONG) * 1e3 / (double)(bench_now_ns() - began_ns));
    samples_add(&setting->ratios, with / without);
    ended = atomic_load(&setting->ended);
    bench_word_set(&setting->goes, 0);
    wait_for(setting, ended + READS); /* each ends the one that it has begun */
}

/* Its readers are asleep, and go with the process. */
static void end(struct setting *setting)
{
    for (uint32_t n = 0; n < READS; n++) {
        (void)nigh_bulk_close(setting->readers[n].bulk, PATIENCE);
    }
    nigh_region_close(setting->region);
    nigh_client_close(setting->low);
    pair_close(&setting->pair);
}

/* What it claims to measure it does. */
static void check(const struct setting *setting)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    bench_check(nigh_stats(setting->pair.client, &stats), "numbers");
    if ((stats.region_posts_low > 0) != (setting->qos == NIGH_REGION_QOS_SEPARATE)) {
        bench_fail("%s: low priority went elsewhere", setting->name);
    }
}

static void tell(struct setting *setting)
{
    struct bench_row few = {.name = setting->name,
                            .unit = "us",
                            .median = samples_quantile(&setting->times, 0.5),
                            .p99 = samples_quantile(&setting->times, 0.99),
                            .baseline_name = "64 B/alone",
                            .baseline = samples_quantile(&alone, 0.5),
                            .better = "lower",
                            .path = PATH};
    struct bench_row much = {.name = setting->low_name,
                             .unit = "MB/s",
                             .median = samples_quantile(&setting->rates, 0.5),
                             .p99 = samples_quantile(&setting->rates, 0.01),
                             .better = "higher",
                             .path = PATH};

    bench_row_set_ratios(&few, &setting->ratios);
    bench_row_write(&few);
    bench_row_write(&much);
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[2]) : ROUNDS;
    struct bench_row row = {.name = "64 B/alone", .unit = "us", .better = "lower", .path = PATH};

    if (argc < 2 || rounds < 1) {
        bench_fail("usage: bench-region-qos OUT.json [ROUNDS]");
    }
    for (size_t n = 0; n < SETTINGS; n++) {
        begin(&settings[n]);
    }
    bench_rows_open(argv[1]);
    for (int round = 0; round < rounds; round++) {
        for (size_t n = 0; n < SETTINGS; n++) {
            measure(&settings[round % 2 == 0 ? n : SETTINGS - 1 - n]);
        }
    }
    row.median = samples_quantile(&alone, 0.5);
    row.p99 = samples_quantile(&alone, 0.99);
    bench_row_write(&row);
    for (size_t n = 0; n < SETTINGS; n++) {
        check(&settings[n]);
        tell(&settings[n]);
        end(&settings[n]);
    }
    return bench_rows_close() > 0 ? 1 : 0;
}
