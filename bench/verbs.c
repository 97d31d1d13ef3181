/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets of objects that lie on another node, joined by RDMA, between two devices of one machine that
 * must have the addresses HERE and THERE (make bench-verbs: Soft-RoCE in a virtual machine): what
 * each way asks of the devices, and how long it takes beside TCP, Redis and perftest's programs on
 * the same two.
 *
 *   bench-verbs [--rounds N] NIGHD OUT.json DEVICE-HERE HERE DEVICE-THERE THERE [SIZE...]
 *
 * with sizes of the table below: 8K, 4M. It ends with the table of the comparison that the project
 * comes from: sent, read, registered for each transfer, pushed, sockets, Redis.
 *
 * Times of a software device say nothing of a card: there every byte is copied by the kernel's
 * processors, also of what no processor touches on one. So no time has a target; the exact counts
 * are held by tests (tests/fabric/verbs_counts_test.c).
 */
#include <stdio.h>
#include <stdlib.h>
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
    REGISTERED,
    PUSHED,
    HYBRID,
    SERIES
};

#define NIGH_HERE  "embedded, two cores, both blocking"
#define OVER_VERBS (NIGH_BLOCKS | NIGH_VERBS)

/* perftest makes its connection anew for each run, seconds there. */
static struct series series[SERIES] = {
    [SEND_LATENCY] = {"ib_send_lat", "perftest, one way, two cores, both blocking",
                      &transfer_perftest, PERFTEST_SEND_LATENCY, 0, 4 * MIB},
    [READ_BANDWIDTH] = {"ib_read_bw",
                        "perftest, a message's time at the bandwidth of many, two cores, blocking",
                        &transfer_perftest, PERFTEST_READ_BANDWIDTH, 0, 4 * MIB},
    [WRITE_BANDWIDTH] = {"ib_write_bw",
                         "perftest, a message's time at the bandwidth of many, two cores, spinning",
                         &transfer_perftest, PERFTEST_WRITE_BANDWIDTH, 0, 4 * MIB},
    [REDIS] = {"Redis GET over TCP", "hiredis, server on the other core, both blocking",
               &transfer_redis, TRANSFER_THERE, 0, 4 * MIB},
    [TCP] = {"hybrid over TCP", NIGH_HERE, &transfer_nigh, NIGH_BLOCKS, 0, 4 * MIB},
    [TWO_SIDED] = {"two-sided over verbs", NIGH_HERE, &transfer_nigh,
                   NIGH_TRANSFER_TWO_SIDED | OVER_VERBS, 0, 4 * MIB},
    [ONE_SIDED] = {"one-sided over verbs", NIGH_HERE, &transfer_nigh,
                   NIGH_TRANSFER_ONE_SIDED | OVER_VERBS, 0, 4 * MIB},
    [REGISTERED] = {"register over verbs", NIGH_HERE ", each loan registered by the holder",
                    &transfer_nigh, NIGH_TRANSFER_REGISTER | OVER_VERBS, 0, 4 * MIB},
    [PUSHED] = {"push over verbs", NIGH_HERE ", in the answer up to 8 KiB", &transfer_nigh,
                NIGH_TRANSFER_PUSH | OVER_VERBS, 0, 4 * MIB},
    [HYBRID] = {"hybrid over verbs", NIGH_HERE, &transfer_nigh, OVER_VERBS, 0, 4 * MIB},
};

/* ---- the table ------------------------------------------------------------ */

static const struct {
    int series;
    const char *what;
} ways[] = {
    {TWO_SIDED, "two-sided"},
    {ONE_SIDED, "one-sided"},
    {REGISTERED, "one-sided, registered for each transfer"},
    {PUSHED, "push (1 KiB: in the answer)"},
    {HYBRID, "hybrid"},
    {TCP, "sockets: hybrid over TCP"},
    {REDIS, "Redis GET over TCP"},
    {SEND_LATENCY, "perftest, one way: ib_send_lat"},
    {READ_BANDWIDTH, "perftest, one of many: ib_read_bw"},
    {WRITE_BANDWIDTH, "perftest, one of many: ib_write_bw"},
};

static const uint64_t columns[] = {KIB, 4 * MIB};

#define WAYS    (sizeof ways / sizeof ways[0])
#define COLUMNS (sizeof columns / sizeof columns[0])

/* has: it was measured. */
static struct cell {
    bool has;
    double us, p99_us, spread;
} cells[WAYS][COLUMNS];

static void note_column(const struct workload *workload, size_t column)
{
    for (size_t i = 0; i < WAYS; i++) {
        struct series *one = &series[ways[i].series];

        if (transfer_is_run(one, workload)) {
            cells[i][column] = (struct cell){.has = true,
                                             .us = transfer_median_us(workload, one),
                                             .p99_us = transfer_p99_us(one),
                                             .spread = transfer_spread(one, workload->rounds)};
        }
    }
}

static void print_cell(const struct cell *cell)
{
    if (cell->has) {
        printf(" %10.0f %10.0f %6.0f %%", cell->us, cell->p99_us, 100 * cell->spread);
    } else {
        printf(" %10s %10s %8s", "", "", "");
    }
}

static void print_table(void)
{
    printf(
        "\na get, microseconds: the median of the rounds' medians, p99 of all gets (of perftest's "
        "runs the slowest),\nand within how much of each other half of the rounds lie\n\n%-40s "
        "%10s %10s %8s %10s %10s %8s\n",
        "", "1 KiB", "p99", "spread", "4 MiB", "p99", "spread");
    for (size_t i = 0; i < WAYS; i++) {
        printf("%-40s", ways[i].what);
        for (size_t column = 0; column < COLUMNS; column++) {
            print_cell(&cells[i][column]);
        }
        printf("\n");
    }
    printf(
        "\nThis is not what RDMA hardware does. The devices are the guest's kernel, its processors "
        "are emulated:\nevery byte that is sent, read or written is copied and summed by them, at "
        "both ends, so that a READ spares\nthe holder's program and none of its processor's work; "
        "and a registration only pins pages, no card is told.\nWhat carries over are the counts: "
        "what each way asks of the devices for a get.\n");
}

/* ---- comparisons ---------------------------------------------------------- */

/* What the device needs for as many bytes with nothing of ours above it. */
static void compare_with_perftest(const struct workload *workload)
{
    if (transfer_is_run(&series[SEND_LATENCY], workload)) {
        transfer_compare(workload, "a get two-sided against a message one way", &series[TWO_SIDED],
                         &series[SEND_LATENCY], false, 0);
    }
    if (transfer_is_run(&series[READ_BANDWIDTH], workload)) {
        transfer_compare(workload, "one-sided against ib_read_bw", &series[ONE_SIDED],
                         &series[READ_BANDWIDTH], false, 0);
    }
    if (transfer_is_run(&series[WRITE_BANDWIDTH], workload)) {
        transfer_compare(workload, "push against ib_write_bw", &series[PUSHED],
                         &series[WRITE_BANDWIDTH], false, 0);
    }
}

static void write_comparisons(const struct workload *workload)
{
    struct series *path = transfer_better(workload, &series[TWO_SIDED], &series[ONE_SIDED]);

    transfer_compare(workload, "one-sided against two-sided", &series[ONE_SIDED],
                     &series[TWO_SIDED], false, 0);
    transfer_compare(workload, "registered for each transfer against once", &series[REGISTERED],
                     &series[ONE_SIDED], false, 0);
    transfer_compare(workload, "push against two-sided", &series[PUSHED], &series[TWO_SIDED], false,
                     0);
    transfer_compare(workload, "hybrid against the better path", &series[HYBRID], path, false, 0);
    transfer_compare(workload, "verbs against TCP", &series[HYBRID], &series[TCP], false, 0);
    transfer_compare(workload, "times as fast as Redis over TCP", &series[HYBRID], &series[REDIS],
                     true, 0);
    compare_with_perftest(workload);
    for (size_t column = 0; column < COLUMNS; column++) {
        if (columns[column] == workload->bytes) {
            note_column(workload, column);
        }
    }
}

static const struct table table = {series, SERIES, write_comparisons};

/* ---- the run -------------------------------------------------------------- */

static int usage(void)
{
    fprintf(stderr, "usage: bench-verbs [--rounds N] NIGHD OUT.json DEVICE-HERE HERE DEVICE-THERE "
                    "THERE [SIZE...]\n");
    return 2;
}

int main(int argc, char **argv)
{
    uint32_t rounds = 0;

    if (argc > 2 && strcmp(argv[1], "--rounds") == 0) {
        char *end;

        rounds = (uint32_t)strtoul(argv[2], &end, 10);
        if (rounds == 0 || *end != '\0') {
            return usage();
        }
        argc -= 2;
        argv += 2;
    }
    if (argc < 7) {
        return usage();
    }
    bench_nighd_path = argv[1];
    transfer_device_here = argv[3];
    transfer_address_here = argv[4];
    transfer_device_there = argv[5];
    transfer_address_there = argv[6];
    transfer_spare_bytes = SPARE_BYTES;
    bench_pin(TRANSFER_HERE);
    (void)transfer_run(
        &table, workloads, sizeof workloads / sizeof workloads[0],
        &(struct transfer_options){
            .out = argv[2], .rounds = rounds, .sizes = argv + 7, .size_count = argc - 7});
    print_table();
    printf("rows in %s\n", argv[2]);
    return 0;
}
