/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What misses of a space cost over RDMA, in messages: three embedded nodes, each on a device of one
 * machine (make bench-space-verbs: Soft-RoCE in a virtual machine), beside what one message of as
 * many bytes takes between two of those devices with nothing of ours above it (ib_send_lat).
 *
 *   bench-space-verbs [--rounds N] OUT.json DEVICE ADDRESS DEVICE ADDRESS DEVICE ADDRESS
 *
 * Times of a software device say nothing of a card: what carries over is how many of its messages
 * follow each other until a read or a write is done. GAM's own code took 12 to 14 for a miss in
 * such a machine.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "space_nodes.h"
#include "transfer.h"

#define BLOCK 512u
#define KIB   (UINT64_C(1) << 10)
#define MIB   (UINT64_C(1) << 20)
#define OPS   64u /* of each kind a round, and an eighth before them */
#define WARM  (OPS / 8)
#define WALK  4096u /* blocks, of which a sixteenth is cached */
#define GAMS  12    /* what its code took for a miss, at least */
#define PATH  "embedded nodes, each on a device, all blocking"

enum {
    SEND,
    CALL,
    MISS,
    MISS_FULL,
    WRITE_MISS,
    UPGRADE,
    FETCH,
    THREE_HOPS,
    ADD,
    SERIES
};

struct kind {
    const char *name;
    void (*before)(void);
    void (*op)(uint32_t n);
    double target;
    struct samples samples, ratios;
};

static struct space_nodes nodes;
static nigh_space_address far, near, counter;
static uint32_t walked;
static volatile uint64_t sink;
static struct series perftest = {.name = "ib_send_lat",
                                 .path = "perftest, one way, both blocking",
                                 .kind = &transfer_perftest,
                                 .variant = PERFTEST_SEND_LATENCY};
static const struct workload message = {"64 B", SPACE_NODES_CALL, OPS, 1};

/* ---- what is done --------------------------------------------------------- */

static nigh_space *space(void)
{
    return nodes.spaces[0];
}

static uint64_t read_word(nigh_space_address address)
{
    uint64_t word = 0;

    bench_check(nigh_space_read(space(), address, &word, sizeof word, SPACE_NODES_WAIT), "a read");
    return word;
}

static void write_word(nigh_space *of, nigh_space_address address, uint64_t word)
{
    bench_check(nigh_space_write(of, address, &word, sizeof word, SPACE_NODES_WAIT), "a write");
}

static void fence(nigh_space *of)
{
    bench_check(nigh_space_fence(of, SPACE_NODES_WAIT), "a fence");
}

/* A block of node 1's home that has not been used here for long. */
static nigh_space_address walk(void)
{
    return far + (uint64_t)(walked++ % WALK) * BLOCK;
}

static void carry_writes(struct space_nodes *of, const struct space_order *order)
{
    for (uint32_t n = 0; n < order->count; n++) {
        write_word(of->spaces[0], order->address + n * order->stride, n);
    }
    fence(of->spaces[0]);
}

/* By another node: these blocks are its alone. */
static void have_written(uint32_t rank, nigh_space_address address)
{
    struct space_order order = {
        .carry = carry_writes, .address = address, .stride = BLOCK, .count = OPS + WARM};

    space_nodes_do(&nodes, rank, &order);
}

static void call_once(uint32_t n)
{
    (void)n;
    space_nodes_call(&nodes);
}

static void read_walk(uint32_t n)
{
    (void)n;
    sink = read_word(walk());
}

/* All frames are used, by what may leave at once. */
static void fill(void)
{
    for (uint32_t n = 0; n < WALK / 8; n++) {
        read_walk(n);
    }
}

static void write_walk(uint32_t n)
{
    write_word(space(), walk(), n);
    fence(space());
}

static nigh_space_address walked_before;

static void begin_upgrades(void)
{
    walked_before = walk();
    for (uint32_t n = 0; n < OPS + WARM; n++) {
        sink = read_word(walked_before + (uint64_t)n * BLOCK);
    }
    walked += OPS + WARM;
}

static void upgrade(uint32_t n)
{
    write_word(space(), walked_before + (uint64_t)n * BLOCK, n);
    fence(space());
}

static void begin_fetches(void)
{
    have_written(1, near);
}

static void read_near(uint32_t n)
{
    sink = read_word(near + (uint64_t)n * BLOCK);
}

/* The home is node 1; node 2 has them. */
static void begin_three_hops(void)
{
    walked = 0;
    have_written(2, far);
}

static void add(uint32_t n)
{
    (void)n;
    bench_check(nigh_space_fetch_add(space(), counter, 1, SPACE_NODES_WAIT, NULL), "an addition");
}

/* ---- what is measured ----------------------------------------------------- */

static struct kind kinds[SERIES] = {
    [SEND] = {.name = "a message of 64 bytes, one way: ib_send_lat"},
    [CALL] = {.name = "a call of 64 bytes", .op = call_once},
    [MISS] = {.name = "read miss, clean", .op = read_walk, .target = GAMS},
    [MISS_FULL] = {.name = "read miss, clean, that gives up a clean copy",
                   .before = fill,
                   .op = read_walk,
                   .target = GAMS},
    [WRITE_MISS] = {.name = "write miss and fence", .op = write_walk, .target = GAMS},
    [UPGRADE] = {.name = "write of what is here to be read, and fence",
                 .before = begin_upgrades,
                 .op = upgrade,
                 .target = GAMS},
    [FETCH] = {.name = "read of the own home that another has, dirty",
               .before = begin_fetches,
               .op = read_near,
               .target = GAMS},
    [THREE_HOPS] = {.name = "read miss, dirty at a third node",
                    .before = begin_three_hops,
                    .op = read_walk,
                    .target = GAMS},
    [ADD] = {.name = "addition at another home", .op = add, .target = GAMS},
};

static double sent_ns; /* a message, in the round that is under way */

static void measure(struct kind *kind)
{
    struct samples round = {0};
    double median;

    if (kind == &kinds[SEND]) {
        transfer_perftest.round(&perftest, &message, &round);
    } else {
        if (kind->before != NULL) {
            kind->before();
        }
        for (uint32_t n = 0; n < OPS + WARM; n++) {
            uint64_t begin_ns = bench_now_ns();

            kind->op(n);
            if (n >= WARM) {
                samples_add(&round, (double)(bench_now_ns() - begin_ns));
            }
        }
    }
    median = samples_quantile(&round, 0.5);
    samples_append(&kind->samples, &round);
    if (kind == &kinds[SEND]) {
        sent_ns = median;
    } else {
        samples_add(&kind->ratios, median / sent_ns);
    }
    samples_free(&round);
}

static void tell(struct kind *kind)
{
    struct bench_row row = {.name = kind->name,
                            .unit = "ns",
                            .median = samples_quantile(&kind->samples, 0.5),
                            .p99 = samples_quantile(&kind->samples, 0.99),
                            .least = samples_quantile(&kind->samples, 0),
                            .most = samples_quantile(&kind->samples, 1),
                            .better = "lower",
                            .path = kind == &kinds[SEND] ? perftest.path : PATH};

    if (kind->ratios.count > 0) {
        row.baseline_name = kinds[SEND].name;
        row.baseline = samples_quantile(&kinds[SEND].samples, 0.5);
        bench_row_set_ratios(&row, &kind->ratios);
        row.on = kind->target > 0 ? BENCH_ON_RATIO : BENCH_NO_TARGET;
        row.target = kind->target;
    }
    bench_row_write(&row);
}

/* ---- from begin to end ---------------------------------------------------- */

static void open_nodes(void)
{
    nigh_space_spec specs[SPACE_NODES_SPACE] = {{.struct_size = sizeof specs[0],
                                                 .name = "small",
                                                 .home_size = 4 * MIB,
                                                 .cache_size = WALK / 16 * BLOCK,
                                                 .block_size = BLOCK},
                                                {.struct_size = sizeof specs[0],
                                                 .name = "none",
                                                 .home_size = 64 * KIB,
                                                 .cache_size = 64 * KIB,
                                                 .block_size = BLOCK}};

    space_nodes_open(&nodes, 3, false, specs);
    far = space_nodes_alloc(&nodes, 0, 1, (uint64_t)(WALK + OPS + WARM) * BLOCK);
    near = space_nodes_alloc(&nodes, 0, 0, (uint64_t)(OPS + WARM) * BLOCK);
    counter = space_nodes_alloc(&nodes, 0, 1, BLOCK);
}

static int usage(void)
{
    fprintf(stderr, "usage: bench-space-verbs [--rounds N] OUT.json DEVICE ADDRESS DEVICE ADDRESS "
                    "DEVICE ADDRESS\n");
    return 2;
}

int main(int argc, char **argv)
{
    unsigned long rounds = 5;

    if (argc > 2 && strcmp(argv[1], "--rounds") == 0) {
        char *end;

        rounds = strtoul(argv[2], &end, 10);
        if (rounds == 0 || rounds > TRANSFER_MAX_ROUND || *end != '\0') {
            return usage();
        }
        argc -= 2;
        argv += 2;
    }
    if (argc != 8) {
        return usage();
    }
    transfer_device_here = argv[2];
    transfer_device_there = argv[4];
    transfer_address_there = argv[5];
    for (uint32_t rank = 0; rank < 3; rank++) {
        space_nodes_addresses[rank] = argv[3 + 2 * rank];
    }
    bench_rows_open(argv[1]);
    open_nodes();
    for (unsigned long round = 0; round < rounds; round++) {
        for (uint32_t n = 0; n < SERIES; n++) {
            measure(&kinds[n]);
        }
    }
    for (uint32_t n = 0; n < SERIES; n++) {
        tell(&kinds[n]);
    }
    for (uint32_t n = 0; n < SERIES; n++) {
        samples_free(&kinds[n].samples);
        samples_free(&kinds[n].ratios);
    }
    space_nodes_close(&nodes);
    return bench_rows_close() == 0 ? 0 : 1;
}
