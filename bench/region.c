/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions between two embedded nodes over TCP, each beside one core: bytes read, written, a word
 * added to at the other node, against a call of 64 bytes that brings 64 back, spinning and
 * blocking; the same where the chunk lies at the own node; and against gets and puts of UCX and of
 * MPI over TCP, and of MPI by shared memory. A MiB, against one of a stream over a plain
 * connection; 16 of them, against as much that it brings. And reads while a thread computes on the
 * core of the node that is read from: where that node spins, and where it sleeps; what a plain
 * connection's server has of its core beside the same thread, where it spins, where it yields now
 * and then as a lane does, and where it sleeps, is beside them; and UCX's get, whose target polls
 * there, or is itself what computes.
 *
 * Rounds of those that are compared alternate, and each is compared with its floor's of the same
 * turn; single operations are sampled one by one, for their p99. That peers use TCP is counted:
 * what their sockets carried.
 *
 * bench-region MPI-HELPER OUT.json [ROUNDS]
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "region_nodes.h"
#include "region_plain.h"
#include "region_ranks.h"
#include "region_ucx.h"
#include "region_wire.h"

#define KIB          UINT64_C(1024)
#define MIB          (KIB * KIB)
#define OPS          500 /* of a round */
#define OPS_64K      100
#define OPS_MIB      40
#define OPS_LARGE    4 /* of 16 MiB */
#define OPS_COMPUTES 2 /* of UCX_COMPUTES_US each */
#define SLOW_NS      1e6
#define SETTLE_US    6000
#define ROUNDS       25
#define HERE         0
#define THERE        1
#define NO_FLOOR     (-1)

/* What lives at a time: all of the first while the first group is measured, then of the second. */
static struct pair spinning, sleeping, blocking; /* sleeping: only the other side */
static struct plain plain_spinning, plain_yielding, plain_sleeping;
static struct ranks ranks_tcp, ranks_shared;
static uint8_t *plain_memory;

struct series {
    const char *name, *path;
    void (*op)(const struct series *series);
    struct pair *pair;
    const struct plain *plain;
    struct ranks *ranks; /* instead of op: MPI measures itself */
    const char *mpi_op;
    enum ucx_mode target_mode; /* of UCX's target, meanwhile */
    uint64_t bytes;
    uint32_t ops;
    bool is_busy;  /* a thread computes on the other core */
    int floor;     /* its number, or NO_FLOOR */
    double target; /* 0: none */
    bool slower;   /* the floor is nigh, and this is to take at least so much of it */
    bool by_p99;   /* it is the p99s that are compared */
    struct samples samples, ratios;
    struct samples wire; /* bytes of TCP an operation; none: not counted */
    struct samples slow; /* where is_busy: how many of a thousand took more than SLOW_NS */
    double median, p99;  /* of the last round */
};

/* A fifth of them before those that are told: both sides are awake then. */
static uint32_t ops_of_round(const struct series *series)
{
    return series->ops + series->ops / 4;
}

/* ---- operations ----------------------------------------------------------- */

static void plain(const struct series *series)
{
    plain_ask(series->plain, series->bytes);
    plain_take(series->plain, plain_memory, series->bytes);
}

/* All of a round's come in one stream. */
static void plain_streams(const struct series *series)
{
    static uint32_t left;

    if (left == 0) {
        left = ops_of_round(series);
        plain_ask(series->plain, left * series->bytes);
    }
    plain_take(series->plain, plain_memory, series->bytes);
    left--;
}

static void call(const struct series *series)
{
    pair_call(series->pair);
}

static void reads(const struct series *series)
{
    pair_read(series->pair, series->bytes);
}

static void writes(const struct series *series)
{
    pair_write(series->pair, series->bytes);
}

static void adds(const struct series *series)
{
    pair_add(series->pair);
}

static void reads_near(const struct series *series)
{
    pair_read_near(series->pair, series->bytes);
}

static void reads_into(const struct series *series)
{
    pair_read_into(series->pair, series->bytes);
}

static void writes_from(const struct series *series)
{
    pair_write_from(series->pair, series->bytes);
}

static void ucx_gets(const struct series *series)
{
    ucx_read(series->bytes);
}

static void ucx_puts(const struct series *series)
{
    ucx_write(series->bytes);
}

static void ucx_gets_from_computing(const struct series *series)
{
    ucx_set_target(UCX_COMPUTES);
    ucx_read_from_computing(series->bytes);
}

/* ---- what is measured ----------------------------------------------------- */

/* In the order in which they are measured: what one is measured against comes before it. */
enum {
    PLAIN,
    CALL,
    READ,
    READ_4K,
    READ_64K,
    WRITE,
    WRITE_4K,
    WRITE_64K,
    ADD,
    READ_HERE,
    UCX_GET,
    UCX_GET_4K,
    UCX_GET_64K,
    UCX_PUT,
    UCX_PUT_4K,
    UCX_PUT_64K,
    MPI_GETS,
    MPI_GETS_4K,
    MPI_GETS_64K,
    MPI_PUTS,
    MPI_PUTS_4K,
    MPI_PUTS_64K,
    MPI_ADDS,
    SHARED_GETS,
    SHARED_GETS_64K,
    SHARED_PUTS,
    SHARED_PUTS_64K,
    SHARED_ADDS,
    READ_BUSY,
    PLAIN_BUSY,
    PLAIN_YIELDER_BUSY,
    READ_SLEEPER,
    READ_SLEEPER_BUSY,
    PLAIN_SLEEPER,
    PLAIN_SLEEPER_BUSY,
    UCX_BUSY,
    UCX_COMPUTING,
    PLAIN_MIB,
    STREAM_MIB,
    READ_MIB,
    WRITE_MIB,
    UCX_GET_MIB,
    UCX_PUT_MIB,
    MPI_GETS_MIB,
    MPI_PUTS_MIB,
    PLAIN_LARGE,
    READ_LARGE,
    WRITE_LARGE,
    BLOCKS, /* the second group */
    CALL_BLOCKS = BLOCKS,
    READ_BLOCKS,
    WRITE_BLOCKS,
    SERIES
};

#define SPINNING "embedded nodes, tcp, both spinning"
#define SLEEPING "embedded nodes, tcp, the other sleeps"
#define BLOCKING "embedded nodes, tcp, blocking"
#define UCX_PATH "UCX, tcp, a target that polls"
#define MPI_PATH "Open MPI, btl tcp, osc pt2pt, a target that waits in MPI"

#define NIGH(NAME, OP, BYTES, OPS_OF, FLOOR, TARGET)                                       \
    {                                                                                      \
        .name = (NAME), .path = SPINNING, .op = (OP), .pair = &spinning, .bytes = (BYTES), \
        .ops = (OPS_OF), .floor = (FLOOR), .target = (TARGET)                              \
    }
#define UCX(NAME, OP, BYTES, OPS_OF, FLOOR)                                                       \
    {                                                                                             \
        .name = (NAME), .path = UCX_PATH, .op = (OP), .target_mode = UCX_POLLS, .bytes = (BYTES), \
        .ops = (OPS_OF), .floor = (FLOOR)                                                         \
    }
/* A target: nigh is to be faster. */
#define MPI(NAME, OP, BYTES, OPS_OF, FLOOR, TARGET)                                              \
    {                                                                                            \
        .name = (NAME), .path = MPI_PATH, .ranks = &ranks_tcp, .mpi_op = (OP), .bytes = (BYTES), \
        .ops = (OPS_OF), .floor = (FLOOR), .target = (TARGET), .slower = true                    \
    }
#define SHARED(NAME, OP, BYTES, OPS_OF, FLOOR)                                         \
    {                                                                                  \
        .name = (NAME), .path = "Open MPI, btl vader, osc sm", .ranks = &ranks_shared, \
        .mpi_op = (OP), .bytes = (BYTES), .ops = (OPS_OF), .floor = (FLOOR)            \
    }

static struct series all[SERIES] = {
    [PLAIN] = {"64 bytes there and back over a plain connection", "loopback, both spinning", plain,
               .plain = &plain_spinning, .bytes = 64, .ops = OPS, .floor = NO_FLOOR},
    [CALL] = NIGH("a call of 64 bytes", call, 64, OPS, NO_FLOOR, 0),
    [READ] = NIGH("read of 64 bytes at another node", reads, 64, OPS, CALL, 1.2),
    [READ_4K] = NIGH("read of 4 KiB at another node", reads, 4 * KIB, OPS, NO_FLOOR, 0),
    [READ_64K] = NIGH("read of 64 KiB at another node", reads, 64 * KIB, OPS_64K, NO_FLOOR, 0),
    [WRITE] = NIGH("write of 64 bytes at another node", writes, 64, OPS, CALL, 1.2),
    [WRITE_4K] = NIGH("write of 4 KiB at another node", writes, 4 * KIB, OPS, NO_FLOOR, 0),
    [WRITE_64K] = NIGH("write of 64 KiB at another node", writes, 64 * KIB, OPS_64K, NO_FLOOR, 0),
    [ADD] = NIGH("addition at another node", adds, 8, OPS, CALL, 0),
    [READ_HERE] = NIGH("read of 64 bytes at the own node", reads_near, 64, OPS, CALL, 0),
    [UCX_GET] = UCX("UCX get of 64 bytes", ucx_gets, 64, OPS, READ),
    [UCX_GET_4K] = UCX("UCX get of 4 KiB", ucx_gets, 4 * KIB, OPS, READ_4K),
    [UCX_GET_64K] = UCX("UCX get of 64 KiB", ucx_gets, 64 * KIB, OPS_64K, READ_64K),
    [UCX_PUT] = UCX("UCX put of 64 bytes, and a flush", ucx_puts, 64, OPS, WRITE),
    [UCX_PUT_4K] = UCX("UCX put of 4 KiB, and a flush", ucx_puts, 4 * KIB, OPS, WRITE_4K),
    [UCX_PUT_64K] = UCX("UCX put of 64 KiB, and a flush", ucx_puts, 64 * KIB, OPS_64K, WRITE_64K),
    [MPI_GETS] = MPI("MPI_Get of 64 bytes", "get", 64, OPS, READ, 1),
    [MPI_GETS_4K] = MPI("MPI_Get of 4 KiB", "get", 4 * KIB, OPS, READ_4K, 1),
    [MPI_GETS_64K] = MPI("MPI_Get of 64 KiB", "get", 64 * KIB, OPS_64K, READ_64K, 1),
    [MPI_PUTS] = MPI("MPI_Put of 64 bytes", "put", 64, OPS, WRITE, 1),
    [MPI_PUTS_4K] = MPI("MPI_Put of 4 KiB", "put", 4 * KIB, OPS, WRITE_4K, 1),
    [MPI_PUTS_64K] = MPI("MPI_Put of 64 KiB", "put", 64 * KIB, OPS_64K, WRITE_64K, 1),
    [MPI_ADDS] = MPI("MPI_Fetch_and_op", "add", 8, OPS, ADD, 1),
    [SHARED_GETS] = SHARED("MPI_Get of 64 bytes, shared memory", "get", 64, OPS, READ),
    [SHARED_GETS_64K] = SHARED("MPI_Get of 64 KiB, shared memory", "get", 64 * KIB, OPS, READ_64K),
    [SHARED_PUTS] = SHARED("MPI_Put of 64 bytes, shared memory", "put", 64, OPS, WRITE),
    [SHARED_PUTS_64K] = SHARED("MPI_Put of 64 KiB, shared memory", "put", 64 * KIB, OPS, WRITE_64K),
    [SHARED_ADDS] = SHARED("MPI_Fetch_and_op, shared memory", "add", 8, OPS, ADD),
    [READ_BUSY] = {"p99: read of 64 bytes at a node whose core computes", SPINNING, reads,
                   &spinning, .bytes = 64, .ops = OPS, .is_busy = true, .floor = READ,
                   .target = 1.5, .by_p99 = true},
    [PLAIN_BUSY] = {"p99: 64 bytes over a plain connection, whose server's core computes",
                    "loopback, both spinning", plain, .plain = &plain_spinning, .bytes = 64,
                    .ops = OPS, .is_busy = true, .floor = PLAIN, .by_p99 = true},
    [PLAIN_YIELDER_BUSY] = {"p99: 64 bytes over a plain connection, whose server yields and core "
                            "computes",
                            "loopback, both spinning, the server yields each 50 us", plain,
                            .plain = &plain_yielding, .bytes = 64, .ops = OPS, .is_busy = true,
                            .floor = PLAIN, .by_p99 = true},
    [READ_SLEEPER] = {"p99: read of 64 bytes at a node that sleeps", SLEEPING, reads, &sleeping,
                      .bytes = 64, .ops = OPS, .floor = READ, .by_p99 = true},
    [READ_SLEEPER_BUSY] = {"p99: read of 64 bytes at a node that sleeps, whose core computes",
                           SLEEPING, reads, &sleeping, .bytes = 64, .ops = OPS, .is_busy = true,
                           .floor = READ, .target = 1.5, .by_p99 = true},
    [PLAIN_SLEEPER] = {"p99: 64 bytes over a plain connection, whose server sleeps",
                       "loopback, the server sleeps", plain, .plain = &plain_sleeping, .bytes = 64,
                       .ops = OPS, .floor = PLAIN, .by_p99 = true},
    [PLAIN_SLEEPER_BUSY] = {"p99: 64 bytes over a plain connection, whose server sleeps and core "
                            "computes",
                            "loopback, the server sleeps", plain, .plain = &plain_sleeping,
                            .bytes = 64, .ops = OPS, .is_busy = true, .floor = PLAIN,
                            .by_p99 = true},
    [UCX_BUSY] = {"p99: UCX get of 64 bytes, whose target's core computes", UCX_PATH, ucx_gets,
                  .target_mode = UCX_POLLS, .bytes = 64, .ops = OPS, .is_busy = true,
                  .floor = UCX_GET, .by_p99 = true},
    [UCX_COMPUTING] = {"UCX get of 64 bytes, whose target computes for 20 ms",
                       "UCX, tcp, a target that does not poll meanwhile", ucx_gets_from_computing,
                       .target_mode = UCX_POLLS, .bytes = 64, .ops = OPS_COMPUTES,
                       .floor = UCX_GET},
    [PLAIN_MIB] = {"1 MiB over a plain connection", "loopback, both spinning", plain,
                   .plain = &plain_spinning, .bytes = MIB, .ops = OPS_MIB, .floor = NO_FLOOR},
    [STREAM_MIB] = {"1 MiB of a stream over a plain connection", "loopback, both spinning",
                    plain_streams, .plain = &plain_spinning, .bytes = MIB, .ops = OPS_MIB,
                    .floor = PLAIN_MIB},
    [READ_MIB] =
        NIGH("read of 1 MiB at another node", reads_into, MIB, OPS_MIB, STREAM_MIB, 1 / 0.85),
    [WRITE_MIB] =
        NIGH("write of 1 MiB at another node", writes_from, MIB, OPS_MIB, STREAM_MIB, 1 / 0.85),
    [UCX_GET_MIB] = UCX("UCX get of 1 MiB", ucx_gets, MIB, OPS_MIB, READ_MIB),
    [UCX_PUT_MIB] = UCX("UCX put of 1 MiB, and a flush", ucx_puts, MIB, OPS_MIB, WRITE_MIB),
    [MPI_GETS_MIB] = MPI("MPI_Get of 1 MiB", "get", MIB, OPS_MIB, READ_MIB, 0),
    [MPI_PUTS_MIB] = MPI("MPI_Put of 1 MiB", "put", MIB, OPS_MIB, WRITE_MIB, 0),
    [PLAIN_LARGE] = {"16 MiB over a plain connection", "loopback, both spinning", plain,
                     .plain = &plain_spinning, .bytes = 16 * MIB, .ops = OPS_LARGE,
                     .floor = NO_FLOOR},
    [READ_LARGE] = NIGH("read of 16 MiB at another node", reads_into, 16 * MIB, OPS_LARGE,
                        PLAIN_LARGE, 1 / 0.85),
    [WRITE_LARGE] = NIGH("write of 16 MiB at another node", writes_from, 16 * MIB, OPS_LARGE,
                         PLAIN_LARGE, 1 / 0.85),
    [CALL_BLOCKS] = {"a call of 64 bytes, blocking", BLOCKING, call, &blocking, .bytes = 64,
                     .ops = OPS, .floor = NO_FLOOR},
    [READ_BLOCKS] = {"read of 64 bytes at another node, blocking", BLOCKING, reads, &blocking,
                     .bytes = 64, .ops = OPS, .floor = CALL_BLOCKS, .target = 1.2},
    [WRITE_BLOCKS] = {"write of 64 bytes at another node, blocking", BLOCKING, writes, &blocking,
                      .bytes = 64, .ops = OPS, .floor = CALL_BLOCKS, .target = 1.2},
};

/* ---- rounds --------------------------------------------------------------- */

static void sample(const struct series *series, struct samples *round)
{
    uint32_t count = ops_of_round(series);

    for (uint32_t n = 0; n < count; n++) {
        uint64_t before_ns = bench_now_ns();

        series->op(series);
        if (n >= count - series->ops) {
            samples_add(round, (double)(bench_now_ns() - before_ns));
        }
    }
}

static void sample_ucx(struct series *series, struct samples *round)
{
    uint32_t count = ops_of_round(series);
    double wire = region_wire_bytes();

    ucx_set_target(series->target_mode);
    sample(series, round);
    ucx_set_target(UCX_SLEEPS);
    samples_add(&series->wire, (region_wire_bytes() - wire) / count);
}

static void count_slow(struct series *series, const struct samples *round)
{
    double slow = 0;

    for (size_t n = 0; n < round->count; n++) {
        slow += round->value[n] > SLOW_NS ? 1 : 0;
    }
    samples_add(&series->slow, 1000 * slow / (double)round->count);
}

/* Of a stream one MiB may have come while another was taken: all of them together took their time.
 */
static void make_mean(struct samples *round)
{
    double sum = 0;

    for (size_t n = 0; n < round->count; n++) {
        sum += round->value[n];
    }
    for (size_t n = 0; n < round->count; n++) {
        round->value[n] = sum / (double)round->count;
    }
}

static void measure(struct series *series)
{
    const struct series *floor = series->floor == NO_FLOOR ? NULL : &all[series->floor];
    struct samples round = {0};

    (void)usleep(SETTLE_US); /* those of the round before sleep by then */
    bench_word_set(spinning.computes, series->is_busy);
    if (series->ranks != NULL) {
        samples_add(&series->wire,
                    ranks_round(series->ranks, series->mpi_op, series->bytes, series->ops, &round));
    } else if (series->target_mode != UCX_SLEEPS) {
        sample_ucx(series, &round);
    } else {
        sample(series, &round);
    }
    bench_word_set(spinning.computes, 0);
    if (series->is_busy) {
        count_slow(series, &round);
    }
    if (series->op == plain_streams) {
        make_mean(&round);
    }
    series->median = samples_quantile(&round, 0.5);
    series->p99 = samples_quantile(&round, 0.99);
    samples_append(&series->samples, &round);
    if (floor != NULL) {
        samples_add(&series->ratios,
                    series->by_p99 ? series->p99 / floor->p99 : series->median / floor->median);
    }
    samples_free(&round);
}

static void measure_group(int first, int end, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        for (int n = first; n < end; n++) {
            measure(&all[n]);
        }
    }
}

/* ---- rows ----------------------------------------------------------------- */

static void tell(struct series *series)
{
    double at = series->by_p99 ? 0.99 : 0.5;
    struct bench_row row = {.name = series->name,
                            .unit = "ns",
                            .median = samples_quantile(&series->samples, 0.5),
                            .p99 = samples_quantile(&series->samples, 0.99),
                            .better = series->slower ? "higher" : "lower",
                            .path = series->path};

    if (series->floor != NO_FLOOR) {
        row.baseline_name = all[series->floor].name;
        row.baseline = samples_quantile(&all[series->floor].samples, at);
        row.on = series->target > 0 ? BENCH_ON_RATIO : BENCH_NO_TARGET;
        row.target = series->target;
        bench_row_set_ratios(&row, &series->ratios);
    }
    bench_row_write(&row);
}

/* All bytes of it went over TCP, and more; or none, which is less than one of a byte's. */
static void tell_wire(struct series *series)
{
    bool is_shared = series->ranks == &ranks_shared;
    char name[128];
    struct bench_row row = {.name = name,
                            .unit = "bytes",
                            .median = samples_quantile(&series->wire, 0.5),
                            .p99 = samples_quantile(&series->wire, 0.99),
                            .least = samples_quantile(&series->wire, 0),
                            .most = samples_quantile(&series->wire, 1),
                            .on = BENCH_ON_MEDIAN,
                            .target = is_shared ? 1 : (double)series->bytes,
                            .better = is_shared ? "lower" : "higher",
                            .path = "that its sockets carried, of one"};

    (void)snprintf(name, sizeof name, "%s: bytes of TCP", series->name);
    bench_row_write(&row);
}

static void tell_slow(struct series *series)
{
    char name[128];
    struct bench_row row = {.name = name,
                            .unit = "of 1000",
                            .median = samples_quantile(&series->slow, 0.5),
                            .p99 = samples_quantile(&series->slow, 0.99),
                            .least = samples_quantile(&series->slow, 0),
                            .most = samples_quantile(&series->slow, 1),
                            .path = series->path};

    (void)snprintf(name, sizeof name, "%s: slower than 1 ms", series->name + strlen("p99: "));
    bench_row_write(&row);
}

static int tell_all(const char *path)
{
    bench_rows_open(path);
    for (int n = 0; n < SERIES; n++) {
        tell(&all[n]);
        if (all[n].slow.count > 0) {
            tell_slow(&all[n]);
        }
    }
    for (int n = 0; n < SERIES; n++) {
        if (all[n].wire.count > 0) {
            tell_wire(&all[n]);
        }
    }
    return bench_rows_close();
}

static void measure_spinning(const char *helper, int rounds)
{
    ranks_open(&ranks_tcp, helper, MIB, false);
    ranks_open(&ranks_shared, helper, MIB, true);
    ucx_open(MIB, THERE);
    plain_open(&plain_spinning, PLAIN_SPINS, PLAIN_SPINS, THERE);
    plain_open(&plain_yielding, PLAIN_SPINS, PLAIN_YIELDS, THERE);
    plain_open(&plain_sleeping, PLAIN_SPINS, PLAIN_SLEEPS, THERE);
    pair_open(&spinning, true, true, THERE);
    pair_open(&sleeping, true, false, THERE);
    measure_group(0, BLOCKS, rounds);
    pair_close(&sleeping);
    pair_close(&spinning);
    plain_close(&plain_sleeping);
    plain_close(&plain_yielding);
    plain_close(&plain_spinning);
    ucx_close();
    ranks_close(&ranks_shared);
    ranks_close(&ranks_tcp);
}

int main(int argc, char **argv)
{
    int rounds = argc > 3 ? (int)bench_number(argv[3], INT_MAX) : ROUNDS;

    if (argc < 3) {
        bench_fail("usage: bench-region MPI-HELPER OUT.json [ROUNDS]");
    }
    bench_pin(HERE);
    plain_memory = bench_memory_create(NODES_MOST);
    measure_spinning(argv[1], rounds);
    pair_open(&blocking, false, false, THERE);
    measure_group(BLOCKS, SERIES, rounds);
    pair_close(&blocking);
    return tell_all(argv[2]) > 0 ? 1 : 0;
}
