/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Put of 4 MiB against memcpy.
 *
 * How fast 4 MiB are copied is decided by where the pages lie in the machine, and of two memories
 * the one that is populated first is often the slower. So the baseline is a plain memcpy to other
 * places of the node's own memory, which is a populated buffer, too; a buffer of the same size and
 * kind beside it is a row of its own, without a target. Each row is of several pairs of a new node
 * and a new buffer, either populated first in turn, and its ratio is the median of the pairs'.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objects.h"

enum {
    BATCH = 24,
    FRESH_CLIENTS = 10,
};

#define LARGE_BYTES    (UINT64_C(4) << 20)
#define ARENA_BYTES    (UINT64_C(2) << 30)
#define ARENA          "2G"
#define AWAKE_SPIN_US  1000 /* longer than a copy of 4 MiB takes: the lane does not fall asleep */
#define FIRST_LARGE_ID (UINT64_C(1) << 40)

static uint64_t next_id = FIRST_LARGE_ID;

struct setup {
    const char *name;
    const char *path;
    int core; /* the node's */
    uint32_t spin_us;
    int pairs; /* even */
    double target;
};

/* What all pairs of a set-up found: times, and a ratio a pair. */
struct found {
    struct samples puts, copies, ratios;
};

struct pair {
    struct bench_node node;
    nigh_client *client;
    char *buffer, *data;
    uint64_t place;
};

static double since_us(uint64_t start_ns)
{
    return (double)(bench_now_ns() - start_ns) / 1e3;
}

static double copy_us(void *to, const void *data)
{
    uint64_t start_ns = bench_now_ns();

    memcpy(to, data, LARGE_BYTES);
    __asm__ volatile("" ::"r"(to) : "memory");
    return since_us(start_ns);
}

static double put_us(nigh_client *client, const void *data)
{
    nigh_id id = bench_id(next_id++);
    uint64_t start_ns = bench_now_ns();

    bench_check(nigh_put(client, &id, data, LARGE_BYTES, NULL), "put");
    return since_us(start_ns);
}

/* Only the copy is timed. It is sealed afterwards, so that the next is given other memory. */
static double copy_to_node_us(nigh_client *client, const void *data)
{
    nigh_create_options options = {.data_size = LARGE_BYTES};
    nigh_id id = bench_id(next_id++);
    nigh_writer writer;
    double took_us;

    bench_check(nigh_create(client, &id, &options, &writer), "create");
    took_us = copy_us(writer.data, data);
    bench_check(nigh_seal(client, &writer), "seal");
    return took_us;
}

static double copy_to_buffer_us(struct pair *pair)
{
    char *to = pair->buffer + pair->place;

    pair->place = (pair->place + LARGE_BYTES) % ARENA_BYTES;
    return copy_us(to, pair->data);
}

static void pair_open(struct pair *pair, const struct setup *setup, int number)
{
    bool buffer_first = number % 2 != 0;

    *pair = (struct pair){.data = malloc(LARGE_BYTES)};
    if (pair->data == NULL) {
        bench_fail("no memory for the bytes to put");
    }
    memset(pair->data, 3, LARGE_BYTES);
    if (buffer_first) {
        pair->buffer = bench_memory_create(ARENA_BYTES);
    }
    bench_node_start(&pair->node, &(struct bench_node_options){.memory = ARENA,
                                                               .core = setup->core,
                                                               .spin_us = (int)setup->spin_us});
    if (!buffer_first) {
        pair->buffer = bench_memory_create(ARENA_BYTES);
    }
    pair->client = bench_client(&pair->node, setup->spin_us, 0, ARENA_BYTES);
}

static void pair_close(struct pair *pair)
{
    nigh_client_close(pair->client);
    bench_node_stop(&pair->node);
    bench_memory_destroy(pair->buffer, ARENA_BYTES);
    free(pair->data);
}

/* One pair's samples become one ratio, and join the others'. */
static void found_add(struct found *found, const struct samples *puts, struct samples *copies)
{
    struct samples sorted = {0};

    samples_append(&sorted, puts);
    samples_add(&found->ratios, samples_quantile(copies, 0.5) / samples_quantile(&sorted, 0.5));
    samples_append(&found->puts, puts);
    samples_append(&found->copies, copies);
    samples_free(&sorted);
    samples_free(copies);
}

static void found_free(struct found *found)
{
    samples_free(&found->puts);
    samples_free(&found->copies);
    samples_free(&found->ratios);
}

/* The first put of a new client, and the first copy of another: in turn, either before the other.
 */
static void measure_first(const struct pair *pair, uint32_t spin_us, struct found *found)
{
    struct samples puts = {0}, copies = {0};

    for (int i = 0; i < FRESH_CLIENTS * 2; i++) {
        nigh_client *fresh = bench_client(&pair->node, spin_us, 0, 0);

        if (i % 4 == 0 || i % 4 == 3) {
            samples_add(&puts, put_us(fresh, pair->data));
        } else {
            samples_add(&copies, copy_to_node_us(fresh, pair->data));
        }
        nigh_client_close(fresh);
    }
    found_add(found, &puts, &copies);
    samples_free(&puts);
}

/* In turn, until the node's memory was written twice and the buffer once, after a round to warm. */
static void measure_steady(struct pair *pair, struct found *own, struct found *buffer)
{
    struct samples puts = {0}, own_copies = {0}, buffer_copies = {0};

    for (uint64_t done = 0; done <= ARENA_BYTES; done += BATCH * LARGE_BYTES) {
        if (done == BATCH * LARGE_BYTES) {
            samples_free(&puts);
            samples_free(&own_copies);
            samples_free(&buffer_copies);
        }
        for (int i = 0; i < BATCH; i++) {
            samples_add(&puts, put_us(pair->client, pair->data));
        }
        for (int i = 0; i < BATCH; i++) {
            samples_add(&own_copies, copy_to_node_us(pair->client, pair->data));
        }
        for (int i = 0; i < BATCH; i++) {
            samples_add(&buffer_copies, copy_to_buffer_us(pair));
        }
    }
    found_add(own, &puts, &own_copies);
    found_add(buffer, &puts, &buffer_copies);
    samples_free(&puts);
}

static void write_row(const char *name, const char *baseline, struct found *found,
                      const struct setup *setup, double target)
{
    char text[96];
    struct bench_row row = {.name = text,
                            .unit = "us",
                            .median = samples_quantile(&found->puts, 0.5),
                            .p99 = samples_quantile(&found->puts, 0.99),
                            .baseline_name = baseline,
                            .baseline = samples_quantile(&found->copies, 0.5),
                            .on = target > 0 ? BENCH_ON_RATIO : BENCH_NO_TARGET,
                            .target = target,
                            .better = "higher",
                            .path = setup->path};

    snprintf(text, sizeof text, "put/4 MiB, %s%s", name, setup->name);
    bench_row_set_ratios(&row, &found->ratios);
    bench_row_write(&row);
    found_free(found);
}

static void measure(const struct setup *setup)
{
    struct found first = {0}, own = {0}, buffer = {0};

    for (int number = 0; number < setup->pairs; number++) {
        struct pair pair;

        pair_open(&pair, setup, number);
        measure_first(&pair, setup->spin_us, &first);
        measure_steady(&pair, &own, &buffer);
        pair_close(&pair);
    }
    write_row("", "memcpy to the node's memory, 2 GiB", &own, setup, setup->target);
    write_row("the first of a client, ", "memcpy to the node's memory, the first of a client",
              &first, setup, setup->target);
    write_row("another buffer, ", "memcpy to another populated buffer of 2 GiB", &buffer, setup, 0);
}

#define PATH                                                                                 \
    "; write memory touched at open; pairs of a new node and client and a new buffer, both " \
    "populated memory files, shared, of plain 4 KiB pages; in turn"

static const struct setup setups[] = {
    {.name = "lane on core 1",
     .path = "client on core 0, nighd on core 1, spin_us=50" PATH,
     .core = BENCH_LANE_CORE,
     .spin_us = BENCH_SPIN_US,
     .pairs = 6,
     .target = 0.9},
    {.name = "lane awake",
     .path = "client on core 0, nighd on core 1, spin_us=1000" PATH,
     .core = BENCH_LANE_CORE,
     .spin_us = AWAKE_SPIN_US,
     .pairs = 2},
    {.name = "spin_us=0, one core",
     .path = "client and nighd on core 0, spin_us=0" PATH,
     .core = BENCH_CLIENT_CORE,
     .pairs = 2},
};

void objects_put_large(void)
{
    for (size_t i = 0; i < sizeof setups / sizeof setups[0]; i++) {
        measure(&setups[i]);
    }
}
