/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets of objects that lie on another node, against what TCP itself and its users can do, in one
 * run over loopback: rows to a JSON file, readable lines to standard output.
 *
 *   bench-transfer NIGHD MPI-HELPER OUT.json [SIZE...]      sizes of the table below: 8K, 64M
 *
 * At each size every series is set up, then measured in alternating rounds, and is gone before the
 * next size. Each peer stands in its best placement; the others are printed too. Exits 0 when it
 * ran, whether or not every target was met.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nigh/node.h"
#include "transfer.h"

#define B   UINT64_C(1)
#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

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

/* ---- comparisons ---------------------------------------------------------- */

static struct series *better(const struct workload *workload, int a, int b)
{
    return transfer_better(workload, &series[a], &series[b]);
}

static void write_comparisons(const struct workload *workload)
{
    struct series *path = better(workload, TWO_SIDED, ONE_SIDED);
    double spread = transfer_spread(path, workload->rounds);
    struct series *redis = better(workload, REDIS_SAME, REDIS_CROSS);
    struct series *raw = better(workload, RAW_BLOCKING, RAW_BLOCKING_SAME);
    bool has_redis = transfer_is_run(&series[REDIS_SAME], workload);

    transfer_compare(workload, "hybrid against the better path", &series[HYBRID], path, false,
                     spread > 0.05 ? 1 + spread : 1.05);
    transfer_compare(workload, "spinning against raw TCP", &series[HYBRID], &series[RAW_SPINNING],
                     false, workload->bytes == KIB ? 1.4 : 0);
    if (transfer_is_run(&series[BLOCKING], workload)) {
        transfer_compare(workload, "blocking against raw TCP",
                         better(workload, BLOCKING, BLOCKING_SAME), raw, false,
                         workload->bytes == KIB ? 1.3 : 0);
        transfer_compare(workload, "blocking against raw TCP, two cores", &series[BLOCKING],
                         &series[RAW_BLOCKING], false, 0);
        transfer_compare(workload, "blocking against raw TCP in epoll", &series[BLOCKING_SAME],
                         &series[RAW_POLLING_SAME], false, 0);
    }
    if (workload->bytes >= 4 * MIB) {
        transfer_compare(workload, "stream against raw TCP with CRC32C", &series[HYBRID],
                         better(workload, STREAM_SPINNING, STREAM_BLOCKING), true, 0.85);
    }
    if (has_redis) {
        double target = workload->bytes == 8 * KIB ? 1.3 : workload->bytes >= 4 * MIB ? 1.0 : 0;

        transfer_compare(workload, "times as fast as Redis", &series[HYBRID], redis, true, target);
        transfer_compare(workload, "client and nighd, times as fast as Redis",
                         better(workload, DAEMON, DAEMON_SAME), redis, true, 0);
    }
    transfer_compare(workload, "times as fast as MPI_Get", &series[HYBRID], &series[MPI], true,
                     workload->bytes >= 4 * MIB ? 1.0 : 0);
}

static const struct table table = {series, SERIES, write_comparisons};

/* ---- the run -------------------------------------------------------------- */

int main(int argc, char **argv)
{
    int missed;

    if (argc < 4) {
        fprintf(stderr, "usage: bench-transfer NIGHD MPI-HELPER OUT.json [SIZE...]\n");
        return 2;
    }
    bench_nighd_path = argv[1];
    transfer_mpi_helper = argv[2];
    bench_pin(TRANSFER_HERE);
    printf("%d cores; who gets is on core %d, who holds on core %d or, where it says one core, on "
           "the same\n",
           bench_cores(), TRANSFER_HERE, TRANSFER_THERE % bench_cores());
    missed = transfer_run(
        &table, workloads, sizeof workloads / sizeof workloads[0],
        &(struct transfer_options){.out = argv[3], .sizes = argv + 4, .size_count = argc - 4});
    printf("\n%d targets missed; rows in %s\n", missed, argv[3]);
    return 0;
}
