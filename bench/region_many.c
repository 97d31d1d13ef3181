/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many regions of two embedded nodes over TCP, each beside one core, both spinning: 64 bytes of one
 * region read and written again and again, against as many of a region of many each time, chosen
 * uniformly or by Zipf's law; at the other node, and at the own one. Beside that any place of one
 * region that is as large as all of them: what of the difference is the bytes' own caches and page
 * tables, and no region's. And how long it takes to make them, and what memory a region takes at
 * both nodes beside its bytes.
 *
 * bench-region-many OUT.json [ROUNDS] [REGIONS]
 */
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "nigh/node.h"

#define BYTES    64
#define SIZE     4096 /* of a region: one page, one chunk */
#define OPS      2000 /* of a round */
#define SPIN_US  2000
#define SETTLE   6000
#define ROUNDS   15
#define REGIONS  100000
#define MOST     130000 /* at one node, and open in one session */
#define TARGET   1.1
#define ALPHA    0.99 /* as YCSB has it */
#define HERE     0
#define THERE    1
#define PATIENCE UINT64_C(20000000)

static const uint8_t key[32] = "a key for a benchmark, no secret";

static uint32_t count = REGIONS;
static pid_t peer;
static nigh_node *node;
static nigh_client *clients[2]; /* one session has so many handles: of regions there, of those here
                                 */
static nigh_region **regions[2];
static nigh_region *whole[2]; /* as large as all of them */
static char state[2][64];
static uint32_t *choice; /* of a round, one after the other */
static uint8_t small[BYTES];
static double *zipf; /* cumulative, of ranks */
static uint64_t seed = 1;

/* ---- which region --------------------------------------------------------- */

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * UINT64_C(0x2545f4914f6cdd1d);
}

static void make_zipf(void)
{
    double sum = 0;

    zipf = malloc(count * sizeof *zipf);
    if (zipf == NULL) {
        bench_fail("no memory");
    }
    for (uint32_t n = 0; n < count; n++) {
        sum += pow(n + 1.0, -ALPHA);
        zipf[n] = sum;
    }
    for (uint32_t n = 0; n < count; n++) {
        zipf[n] /= sum;
    }
}

static uint32_t one(void)
{
    return 0;
}

static uint32_t any(void)
{
    return (uint32_t)(draw() % count);
}

/* The ranks are scattered: regions that were made one after the other lie side by side. */
static uint32_t by_zipf(void)
{
    double at = (double)(draw() >> 11) * 0x1p-53;
    uint32_t low = 0, high = count - 1;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (zipf[middle] < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (uint32_t)((uint64_t)low * UINT64_C(2654435761) % count);
}

/* ---- nodes ---------------------------------------------------------------- */

static void start(uint32_t rank, const char *members)
{
    char number[4];
    nigh_node_options options = {.struct_size = sizeof options,
                                 .memory_bytes = UINT64_C(256) << 20,
                                 .region_memory_bytes = UINT64_C(2) << 30,
                                 .lanes = 1,
                                 .spin_us = SPIN_US,
                                 .members = members,
                                 .member = number,
                                 .cluster_key = key,
                                 .state_dir = state[rank]};
    nigh_client_options client_options = {.struct_size = sizeof client_options, .spin_us = SPIN_US};

    (void)snprintf(number, sizeof number, "%u", rank);
    if (nigh_node_start(&options, &node) != NIGH_OK) {
        bench_fail("no node: %s", nigh_node_start_error());
    }
    for (int n = 0; n < 2; n++) {
        bench_check(nigh_node_client(node, &client_options, &clients[n]), "a client");
    }
}

static void start_both(void)
{
    char members[64];

    for (uint32_t rank = 0; rank < 2; rank++) {
        (void)snprintf(state[rank], sizeof state[rank], "/tmp/bench-many-XXXXXX");
        if (mkdtemp(state[rank]) == NULL) {
            bench_fail("no directory for a node's votes");
        }
    }
    (void)snprintf(members, sizeof members, "127.0.0.1:%d,127.0.0.1:%d", bench_free_port(),
                   bench_free_port());
    peer = bench_fork(THERE);
    if (peer == 0) {
        start(1, members);
        for (;;) {
            (void)pause();
        }
    }
    start(0, members);
}

static void stop_both(void)
{
    char command[160];

    for (int n = 0; n < 2; n++) {
        nigh_client_close(clients[n]);
    }
    nigh_node_stop(node);
    (void)kill(peer, SIGKILL);
    (void)waitpid(peer, NULL, 0);
    (void)snprintf(command, sizeof command, "rm -rf %s %s", state[0], state[1]);
    if (system(command) != 0) {
        (void)fprintf(stderr, "could not: %s\n", command);
    }
}

/* ---- regions -------------------------------------------------------------- */

static nigh_region *make_region(uint32_t n, uint32_t rank)
{
    char name[32];
    nigh_region_spec spec = {.struct_size = sizeof spec,
                             .name = name,
                             .size = SIZE,
                             .chunk_size = SIZE,
                             .where = NIGH_REGION_ON,
                             .rank = rank};
    uint64_t until_ns = bench_now_ns() + PATIENCE * 1000;
    nigh_region *region = NULL;
    nigh_status status;

    (void)snprintf(name, sizeof name, "%s-%u", rank == HERE ? "near" : "far", n);
    while ((status = nigh_region_create(clients[rank], &spec, PATIENCE, &region)) != NIGH_OK) {
        if (n > 0 || bench_now_ns() > until_ns) {
            bench_fail("region %s: %s", name, nigh_status_name(status));
        }
        (void)usleep(1000); /* the nodes have not found each other yet */
    }
    return region;
}

static void make_whole(uint32_t rank)
{
    nigh_region_spec spec = {.struct_size = sizeof spec,
                             .name = rank == HERE ? "near" : "far",
                             .size = (uint64_t)count * SIZE,
                             .where = NIGH_REGION_ON,
                             .rank = rank};

    bench_check(nigh_region_create(clients[rank], &spec, PATIENCE, &whole[rank]),
                "a region as large as all");
}

static uint64_t resident_bytes(pid_t pid)
{
    char path[64];
    unsigned long long size = 0, resident = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%llu %llu", &size, &resident) != 2) {
        bench_fail("%s cannot be read", path);
    }
    (void)fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void tell_memory(const char *name, uint64_t before, uint64_t after, bool has_bytes)
{
    double each = ((double)after - (double)before) / count - (has_bytes ? SIZE : 0);
    struct bench_row row = {
        .name = name,
        .unit = "bytes",
        .median = each,
        .p99 = each,
        .better = "lower",
        .path = "embedded nodes, tcp, half of the homes each; with what the client has"};

    bench_row_write(&row);
}

static void make_regions(uint32_t rank)
{
    uint64_t before[2] = {resident_bytes(getpid()), resident_bytes(peer)};
    struct samples samples = {0};
    struct bench_row row = {.name = rank == HERE ? "a region is made at the own node"
                                                 : "a region is made at the other node",
                            .unit = "ns",
                            .better = "lower",
                            .path = "embedded nodes, tcp, both spinning"};

    regions[rank] = calloc(count, sizeof(nigh_region *));
    if (regions[rank] == NULL) {
        bench_fail("no memory");
    }
    for (uint32_t n = 0; n < count; n++) {
        uint64_t from_ns = bench_now_ns();

        regions[rank][n] = make_region(n, rank);
        samples_add(&samples, (double)(bench_now_ns() - from_ns));
    }
    row.median = samples_quantile(&samples, 0.5);
    row.p99 = samples_quantile(&samples, 0.99);
    bench_row_write(&row);
    samples_free(&samples);
    tell_memory(rank == HERE ? "memory of a region of this node's, here, beside its bytes"
                             : "memory of a region of the other node's, here",
                before[0], resident_bytes(getpid()), rank == HERE);
    tell_memory(rank == HERE ? "memory of a region of this node's, at the other"
                             : "memory of a region of the other node's, there, beside its bytes",
                before[1], resident_bytes(peer), rank == THERE);
}

/* ---- rounds --------------------------------------------------------------- */

struct series {
    const char *name;
    uint32_t rank;
    bool writes;
    uint32_t (*choose)(void);
    bool is_whole; /* any place of the one as large */
    int floor;     /* -1: none */
    struct samples samples, ratios;
    double median; /* of the last round */
};

static struct series all[] = {
    {.name = "read of 64 bytes at another node, one region",
     .rank = THERE,
     .writes = false,
     .choose = one,
     .floor = -1},
    {.name = "read of 64 bytes at another node, any of many regions",
     .rank = THERE,
     .writes = false,
     .choose = any,
     .floor = 0},
    {.name = "read of 64 bytes at another node, one of many by Zipf's law",
     .rank = THERE,
     .writes = false,
     .choose = by_zipf,
     .floor = 0},
    {.name = "write of 64 bytes at another node, one region",
     .rank = THERE,
     .writes = true,
     .choose = one,
     .floor = -1},
    {.name = "write of 64 bytes at another node, any of many regions",
     .rank = THERE,
     .writes = true,
     .choose = any,
     .floor = 3},
    {.name = "write of 64 bytes at another node, one of many by Zipf's law",
     .rank = THERE,
     .writes = true,
     .choose = by_zipf,
     .floor = 3},
    {.name = "read of 64 bytes at the own node, one region",
     .rank = HERE,
     .writes = false,
     .choose = one,
     .floor = -1},
    {.name = "read of 64 bytes at the own node, any of many regions",
     .rank = HERE,
     .writes = false,
     .choose = any,
     .floor = 6},
    {.name = "read of 64 bytes at the own node, one of many by Zipf's law",
     .rank = HERE,
     .writes = false,
     .choose = by_zipf,
     .floor = 6},
    {.name = "write of 64 bytes at the own node, one region",
     .rank = HERE,
     .writes = true,
     .choose = one,
     .floor = -1},
    {.name = "write of 64 bytes at the own node, any of many regions",
     .rank = HERE,
     .writes = true,
     .choose = any,
     .floor = 9},
    {.name = "write of 64 bytes at the own node, one of many by Zipf's law",
     .rank = HERE,
     .writes = true,
     .choose = by_zipf,
     .floor = 9},
    {.name = "read of 64 bytes at another node, any of one region as large",
     .rank = THERE,
     .writes = false,
     .choose = any,
     .is_whole = true,
     .floor = 0},
    {.name = "write of 64 bytes at another node, any of one region as large",
     .rank = THERE,
     .writes = true,
     .choose = any,
     .is_whole = true,
     .floor = 3},
    {.name = "read of 64 bytes at the own node, any of one region as large",
     .rank = HERE,
     .writes = false,
     .choose = any,
     .is_whole = true,
     .floor = 6},
    {.name = "write of 64 bytes at the own node, any of one region as large",
     .rank = HERE,
     .writes = true,
     .choose = any,
     .is_whole = true,
     .floor = 9},
};

#define SERIES (sizeof all / sizeof all[0])

static void measure(struct series *series)
{
    struct samples round = {0};

    for (uint32_t n = 0; n < OPS; n++) {
        choice[n] = series->choose();
    }
    (void)usleep(SETTLE); /* those of the round before sleep by then */
    for (uint32_t n = 0; n < OPS; n++) {
        nigh_region *region =
            series->is_whole ? whole[series->rank] : regions[series->rank][choice[n]];
        uint64_t at = 128 + (series->is_whole ? (uint64_t)choice[n] * SIZE : 0);
        uint64_t before_ns = bench_now_ns();

        if (series->writes) {
            bench_check(nigh_region_write(region, at, small, BYTES, PATIENCE), "a write");
        } else {
            bench_check(nigh_region_read(region, at, small, BYTES, PATIENCE), "a read");
        }
        if (n >= OPS / 5) { /* both sides are awake */
            samples_add(&round, (double)(bench_now_ns() - before_ns));
        }
    }
    series->median = samples_quantile(&round, 0.5);
    samples_append(&series->samples, &round);
    if (series->floor >= 0) {
        samples_add(&series->ratios, series->median / all[series->floor].median);
    }
    samples_free(&round);
}

static void tell(struct series *series)
{
    struct bench_row row = {.name = series->name,
                            .unit = "ns",
                            .median = samples_quantile(&series->samples, 0.5),
                            .p99 = samples_quantile(&series->samples, 0.99),
                            .better = "lower",
                            .path = "embedded nodes, tcp, both spinning"};

    if (series->floor >= 0) {
        row.baseline_name = all[series->floor].name;
        row.baseline = samples_quantile(&all[series->floor].samples, 0.5);
        if (!series->is_whole) {
            row.on = BENCH_ON_RATIO;
            row.target = TARGET;
        }
        bench_row_set_ratios(&row, &series->ratios);
    }
    bench_row_write(&row);
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? (int)bench_number(argv[2], INT_MAX) : ROUNDS;

    count = argc > 3 ? bench_number(argv[3], MOST) : REGIONS;
    if (argc < 2) {
        bench_fail("usage: bench-region-many OUT.json [ROUNDS] [REGIONS, %u at most]", MOST);
    }
    choice = calloc(OPS, sizeof *choice);
    if (choice == NULL) {
        bench_fail("no memory");
    }
    make_zipf();
    bench_pin(HERE);
    start_both();
    bench_rows_open(argv[1]);
    make_regions(THERE);
    make_regions(HERE);
    make_whole(THERE);
    make_whole(HERE);
    for (int round = 0; round < rounds; round++) {
        for (size_t n = 0; n < SERIES; n++) {
            measure(&all[n]);
        }
    }
    for (size_t n = 0; n < SERIES; n++) {
        tell(&all[n]);
    }
    stop_both();
    return bench_rows_close() > 0 ? 1 : 0;
}
