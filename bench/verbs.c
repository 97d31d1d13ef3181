/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets of objects that lie on another node, joined by RDMA, between two devices of one machine that
 * must have the addresses HERE and THERE (make bench-verbs: Soft-RoCE in a virtual machine): what
 * each path asks of the devices, and how long it takes beside TCP, Redis and perftest's programs on
 * the same two.
 *
 *   bench-verbs NIGHD OUT.json DEVICE-HERE HERE DEVICE-THERE THERE [SIZE...]      sizes as they are
 * printed: "8 KiB"
 *
 * Times of a software device say nothing of a card: there every byte is copied by the kernel's
 * processors, also of what no processor touches on one. So no time has a target; the exact counts
 * are held by tests (tests/fabric/verbs_counts_test.c).
 */
#include <stdio.h>
#include <string.h>

#include "nigh/node.h"
#include "transfer.h"

#define B   UINT64_C(1)
#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

/* Few: a processor that is itself emulated is a hundred times slower. */
static const struct workload workloads[] = {
    {"64 B", 64 * B, 24, 5},     {"1 KiB", KIB, 24, 5},        {"8 KiB", 8 * KIB, 24, 5},
    {"32 KiB", 32 * KIB, 16, 5}, {"128 KiB", 128 * KIB, 8, 5}, {"1 MiB", MIB, 4, 5},
    {"4 MiB", 4 * MIB, 2, 5},
};

/* All of a node's memory is pinned before it starts, which takes time there. */
#define SPARE_BYTES (UINT64_C(32) << 20)

enum {
    SEND_LATENCY,
    READ_BANDWIDTH,
    WRITE_BANDWIDTH,
    REDIS,
    TCP,
    TWO_SIDED,
    ONE_SIDED,
    HYBRID,
    SERIES
};

#define NIGH_HERE "embedded, two cores, both blocking"

/* perftest makes its connection anew for each run, seconds there: latency of small messages,
 * bandwidth of large ones. */
static struct series series[SERIES] = {
    [SEND_LATENCY] = {"ib_send_lat", "perftest, one way, two cores, both blocking",
                      &transfer_perftest, PERFTEST_SEND_LATENCY, 0, KIB},
    [READ_BANDWIDTH] = {"ib_read_bw",
                        "perftest, a message's time at the bandwidth of many, two cores, blocking",
                        &transfer_perftest, PERFTEST_READ_BANDWIDTH, 4 * MIB, 4 * MIB},
    [WRITE_BANDWIDTH] = {"ib_write_bw",
                         "perftest, a message's time at the bandwidth of many, two cores, blocking",
                         &transfer_perftest, PERFTEST_WRITE_BANDWIDTH, 4 * MIB, 4 * MIB},
    [REDIS] = {"Redis GET over TCP", "hiredis, server on the other core, both blocking",
               &transfer_redis, TRANSFER_THERE, 0, 4 * MIB},
    [TCP] = {"hybrid over TCP", NIGH_HERE, &transfer_nigh, NIGH_BLOCKS, 0, 4 * MIB},
    [TWO_SIDED] = {"two-sided over verbs", NIGH_HERE, &transfer_nigh,
                   NIGH_TRANSFER_TWO_SIDED | NIGH_BLOCKS | NIGH_VERBS, 0, 4 * MIB},
    [ONE_SIDED] = {"one-sided over verbs", NIGH_HERE, &transfer_nigh,
                   NIGH_TRANSFER_ONE_SIDED | NIGH_BLOCKS | NIGH_VERBS, 0, 4 * MIB},
    [HYBRID] = {"hybrid over verbs", NIGH_HERE, &transfer_nigh, NIGH_BLOCKS | NIGH_VERBS, 0,
                4 * MIB},
};

/* ---- the table: two ways over RDMA, sockets, and Redis ---------------------- */

static const int columns[] = {TWO_SIDED, ONE_SIDED, TCP, REDIS};
#define COLUMNS (sizeof columns / sizeof columns[0])

static struct {
    const char *label;
    double us[COLUMNS], spread[COLUMNS];
} lines[sizeof workloads / sizeof workloads[0]];
static size_t line_count;

static void note_line(const struct workload *workload)
{
    if (workload->bytes != KIB && workload->bytes != 4 * MIB) {
        return;
    }
    lines[line_count].label = workload->label;
    for (size_t i = 0; i < COLUMNS; i++) {
        lines[line_count].us[i] = transfer_median_us(workload, &series[columns[i]]);
        lines[line_count].spread[i] = transfer_spread(&series[columns[i]], workload->rounds);
    }
    line_count++;
}

static void print_table(void)
{
    printf("\na get, microseconds: median of the rounds, and within how much of each other half of "
           "them lie\n%-8s",
           "");
    for (size_t i = 0; i < COLUMNS; i++) {
        printf(" %26s", series[columns[i]].name);
    }
    for (size_t n = 0; n < line_count; n++) {
        printf("\n%-8s", lines[n].label);
        for (size_t i = 0; i < COLUMNS; i++) {
            printf(" %17.0f (%4.0f %%)", lines[n].us[i], 100 * lines[n].spread[i]);
        }
    }
    printf("\nThe devices are software: their times are not a card's.\n");
}

static void write_comparisons(const struct workload *workload)
{
    struct series *path = transfer_better(workload, &series[TWO_SIDED], &series[ONE_SIDED]);

    transfer_compare(workload, "one-sided against two-sided", &series[ONE_SIDED],
                     &series[TWO_SIDED], false, 0);
    transfer_compare(workload, "hybrid against the better path", &series[HYBRID], path, false, 0);
    transfer_compare(workload, "verbs against TCP", &series[HYBRID], &series[TCP], false, 0);
    transfer_compare(workload, "times as fast as Redis over TCP", &series[HYBRID], &series[REDIS],
                     true, 0);
    note_line(workload);
}

static const struct table table = {series, SERIES, write_comparisons};

static bool wanted(const char *label, int argc, char **argv)
{
    for (int i = 7; i < argc; i++) {
        if (strcmp(argv[i], label) == 0) {
            return true;
        }
    }
    return argc == 7;
}

int main(int argc, char **argv)
{
    if (argc < 7) {
        fprintf(stderr, "usage: bench-verbs NIGHD OUT.json DEVICE-HERE HERE DEVICE-THERE THERE "
                        "[SIZE...]\n");
        return 2;
    }
    bench_nighd_path = argv[1];
    transfer_device_here = argv[3];
    transfer_address_here = argv[4];
    transfer_device_there = argv[5];
    transfer_address_there = argv[6];
    transfer_spare_bytes = SPARE_BYTES;
    bench_rows_open(argv[2]);
    bench_pin(TRANSFER_HERE);
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++) {
        if (wanted(workloads[i].label, argc, argv)) {
            transfer_run(&table, &workloads[i]);
        }
    }
    (void)bench_rows_close();
    print_table();
    printf("rows in %s\n", argv[2]);
    return 0;
}
