/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of a region at one node into one at another, asked for by a client of a third node: the
 * bytes go from the one to the other (docs/regions.md). Against what the client would do without:
 * a read to its own node, and a write of the same. The same where the source is at the client's own
 * node, so that nothing is saved; and within one region whose ranges overlap, whose bytes pass the
 * client's node, as those of all copies would if its node moved them. Of each, what the connections
 * of the client's node carried.
 *
 * Three embedded nodes over TCP, which sleep while they wait, on all cores; series in turns.
 *
 * bench-region-copies OUT.json [ROUNDS]
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "region_trio.h"
#include "region_wire.h"

#define KIB      UINT64_C(1024)
#define MIB      (KIB * KIB)
#define ROUNDS   15
#define NO_FLOOR (-1)
#define PATH     "three embedded nodes, tcp, all blocking, not pinned"

static struct trio trio;

struct series {
    const char *name;
    void (*op)(struct trio *at, uint64_t bytes);
    uint64_t bytes;
    uint32_t ops; /* of a round */
    int floor;    /* its number, or NO_FLOOR */
    /* Bytes of an operation that may pass the client's node; where that is 0, that must. */
    double wire_most, wire_least;
    struct samples samples, ratios;
    struct samples wire; /* bytes of TCP there an operation, of each round */
    double median;       /* of the last round */
};

/* What is compared to another comes behind that. */
enum {
    MOVE_64,
    COPY_64,
    MOVE_4K,
    COPY_4K,
    MOVE_64K,
    COPY_64K,
    MOVE_MIB,
    COPY_MIB,
    MOVE_MOST,
    COPY_MOST,
    OVERLAP_MOST,
    MOVE_OWN_4K,
    COPY_OWN_4K,
    MOVE_OWN_MIB,
    COPY_OWN_MIB,
    SERIES
};

#define MOVE(SIZE, BYTES, OPS)                                                        \
    {                                                                                 \
        .name = SIZE " from another node to a third, read and written by the client", \
        .op = trio_read_and_write, .bytes = (BYTES), .ops = (OPS), .floor = NO_FLOOR, \
        .wire_least = 2.0 * (BYTES)                                                   \
    }
#define COPY(SIZE, BYTES, OPS, FLOOR, WIRE_MOST)                                   \
    {                                                                              \
        .name = "copy of " SIZE " from another node to a third", .op = trio_copy,  \
        .bytes = (BYTES), .ops = (OPS), .floor = (FLOOR), .wire_most = (WIRE_MOST) \
    }
#define MOVE_OWN(SIZE, BYTES, OPS)                                                         \
    {                                                                                      \
        .name = SIZE " from the client's node to another, read and written by the client", \
        .op = trio_read_and_write_own, .bytes = (BYTES), .ops = (OPS), .floor = NO_FLOOR,  \
        .wire_least = (BYTES)                                                              \
    }
#define COPY_OWN(SIZE, BYTES, OPS, FLOOR)                                                  \
    {                                                                                      \
        .name = "copy of " SIZE " from the client's node to another", .op = trio_copy_own, \
        .bytes = (BYTES), .ops = (OPS), .floor = (FLOOR), .wire_least = (BYTES)            \
    }

static struct series all[SERIES] = {
    [MOVE_64] = MOVE("64 bytes", 64, 300),
    [COPY_64] = COPY("64 bytes", 64, 300, MOVE_64, 1024),
    [MOVE_4K] = MOVE("4 KiB", 4 * KIB, 300),
    [COPY_4K] = COPY("4 KiB", 4 * KIB, 300, MOVE_4K, 1024),
    [MOVE_64K] = MOVE("64 KiB", 64 * KIB, 100),
    [COPY_64K] = COPY("64 KiB", 64 * KIB, 100, MOVE_64K, 1024),
    [MOVE_MIB] = MOVE("1 MiB", MIB, 40),
    [COPY_MIB] = COPY("1 MiB", MIB, 40, MOVE_MIB, 16 * KIB),
    [MOVE_MOST] = MOVE("16 MiB", TRIO_MOST, 4),
    [COPY_MOST] = COPY("16 MiB", TRIO_MOST, 4, MOVE_MOST, 256 * KIB),
    [OVERLAP_MOST] = {.name = "copy of 16 MiB within one region, whose ranges overlap",
                      .op = trio_copy_overlapping,
                      .bytes = TRIO_MOST,
                      .ops = 4,
                      .floor = MOVE_MOST,
                      .wire_least = 2.0 * (double)TRIO_MOST},
    [MOVE_OWN_4K] = MOVE_OWN("4 KiB", 4 * KIB, 300),
    [COPY_OWN_4K] = COPY_OWN("4 KiB", 4 * KIB, 300, MOVE_OWN_4K),
    [MOVE_OWN_MIB] = MOVE_OWN("1 MiB", MIB, 40),
    [COPY_OWN_MIB] = COPY_OWN("1 MiB", MIB, 40, MOVE_OWN_MIB),
};

/* A fifth of them before those that are told: all are awake then. */
static void measure(struct series *series)
{
    uint32_t count = series->ops + series->ops / 4;
    struct samples round = {0};
    double wire = region_wire_bytes();

    for (uint32_t n = 0; n < count; n++) {
        uint64_t before_ns = bench_now_ns();

        series->op(&trio, series->bytes);
        if (n >= count - series->ops) {
            samples_add(&round, (double)(bench_now_ns() - before_ns) / 1e3);
        }
    }
    samples_add(&series->wire, (region_wire_bytes() - wire) / count);
    series->median = samples_quantile(&round, 0.5);
    samples_append(&series->samples, &round);
    samples_free(&round);
    if (series->floor != NO_FLOOR) {
        samples_add(&series->ratios, series->median / all[series->floor].median);
    }
}

/* ---- rows ----------------------------------------------------------------- */

static void tell(struct series *series)
{
    struct bench_row row = {.name = series->name,
                            .unit = "us",
                            .median = samples_quantile(&series->samples, 0.5),
                            .p99 = samples_quantile(&series->samples, 0.99),
                            .better = "lower",
                            .path = PATH};

    if (series->floor != NO_FLOOR) {
        row.baseline_name = all[series->floor].name;
        row.baseline = samples_quantile(&all[series->floor].samples, 0.5);
        bench_row_set_ratios(&row, &series->ratios);
    }
    bench_row_write(&row);
}

/* The way that is claimed is the one that was taken. */
static void tell_wire(struct series *series)
{
    bool has_most = series->wire_most > 0;
    char name[160];
    struct bench_row row = {.name = name,
                            .unit = "bytes",
                            .median = samples_quantile(&series->wire, 0.5),
                            .p99 = samples_quantile(&series->wire, 0.99),
                            .least = samples_quantile(&series->wire, 0),
                            .most = samples_quantile(&series->wire, 1),
                            .on = BENCH_ON_MEDIAN,
                            .target = has_most ? series->wire_most : series->wire_least,
                            .better = has_most ? "lower" : "higher",
                            .path = "of the client's node's connections, of one"};

    (void)snprintf(name, sizeof name, "%s: bytes of TCP", series->name);
    bench_row_write(&row);
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? (int)bench_number(argv[2], INT_MAX) : ROUNDS;

    if (argc < 2) {
        bench_fail("usage: bench-region-copies OUT.json [ROUNDS]");
    }
    trio_open(&trio);
    for (int round = 0; round < rounds; round++) {
        for (int n = 0; n < SERIES; n++) {
            measure(&all[n]);
        }
    }
    bench_rows_open(argv[1]);
    for (int n = 0; n < SERIES; n++) {
        tell(&all[n]);
    }
    for (int n = 0; n < SERIES; n++) {
        tell_wire(&all[n]);
    }
    trio_close(&trio);
    return bench_rows_close() > 0 ? 1 : 0;
}
