/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ten million objects: bytes of index for each, a hot thousand among them against a thousand alone,
 * and uniformly random gets against two bare dependent loads over tables of the same size and kind
 * of memory (what no hash table with entries can beat).
 */
#include "objects.h"

enum {
    HOT = 1000,
    BATCH = 64,
    BATCHES = 400,
    ROUNDS = 30,
    HOT_ROUNDS = 10,
    HOT_PAIRS = 7,
    CHAIN = 20000,
    LOAD_BATCH = 128
};

#define OBJECTS UINT64_C(10000000)
#define SLOTS   (UINT64_C(1) << 24)

/* Makes the next step depend on a pointer that was loaded, without changing anything. */
static inline uint64_t hidden_zero(uintptr_t seen)
{
    uint64_t zero;

    __asm__ volatile("xor %0, %0\n\tand %1, %0" : "=&r"(zero) : "r"(seen));
    return zero;
}

static inline uint64_t step(uint64_t state)
{
    return state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

static void load(nigh_client *client, uint64_t count)
{
    static uint64_t payload = 42;
    nigh_put_item items[LOAD_BATCH];

    for (uint64_t done = 0; done < count;) {
        size_t n = 0;

        for (; n < LOAD_BATCH && done < count; n++, done++) {
            items[n] = (nigh_put_item){
                .id = bench_id(done), .data = &payload, .data_size = sizeof payload};
        }
        bench_check(nigh_put_many(client, items, n), "put_many");
    }
}

static void get_hot(nigh_client *client, const nigh_id *ids, struct samples *samples)
{
    size_t next = 0;
    nigh_view view;

    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t start = bench_now_ns();

        for (int i = 0; i < BATCH; i++) {
            if (nigh_get(client, &ids[next], 1, 0, &view) != NIGH_OK) {
                bench_fail("an object is gone");
            }
            nigh_release(client, &view);
            next = next + 1 == HOT ? 0 : next + 1;
        }
        samples_add(samples, (double)(bench_now_ns() - start) / BATCH);
    }
}

/* Each get's id depends on where the last object lay. */
static void get_random(nigh_client *client, struct samples *samples)
{
    static uint64_t state = 88172645463325252;
    uint64_t start = bench_now_ns();

    for (int i = 0; i < CHAIN; i++) {
        nigh_id id = bench_id((state >> 20) % OBJECTS);
        nigh_view view;

        if (nigh_get(client, &id, 1, 0, &view) != NIGH_OK) {
            bench_fail("an object is gone");
        }
        state = step(state) + hidden_zero((uintptr_t)view.data);
        nigh_release(client, &view);
    }
    samples_add(samples, (double)(bench_now_ns() - start) / CHAIN);
}

struct two_tables {
    uint64_t *slots;
    struct {
        uint64_t word[8];
    } * entries;
};

static void load_twice(const struct two_tables *tables, struct samples *samples)
{
    static uint64_t state = 88172645463325252;
    uint64_t start = bench_now_ns();

    for (int i = 0; i < CHAIN; i++) {
        uint64_t entry = tables->slots[(state >> 20) % SLOTS];

        state = step(state) + hidden_zero((uintptr_t)tables->entries[entry].word[0]);
    }
    samples_add(samples, (double)(bench_now_ns() - start) / CHAIN);
}

static struct two_tables two_tables_make(void)
{
    struct two_tables tables = {.slots = bench_memory_create(SLOTS * 8),
                                .entries = bench_memory_create(OBJECTS * 64)};
    uint64_t state = 1;

    for (uint64_t i = 0; i < SLOTS; i++) {
        state = step(state);
        tables.slots[i] = (state >> 20) % OBJECTS;
    }
    return tables;
}

/* One pair: another thousand of the ten million, through a new client, and a thousand alone in a
 * new node. Rounds alternate. */
static void hot_pair(const struct bench_node *large, uint64_t seed, struct samples *in_many,
                     struct samples *by_itself)
{
    nigh_client *many = bench_client(large, BENCH_SPIN_US, NIGH_OPEN_READ_ONLY, 0), *few;
    nigh_id hot[HOT], alone[HOT];
    struct bench_node small;
    uint64_t state = seed;

    bench_node_start(&small, &(struct bench_node_options){.memory = "64M",
                                                          .core = BENCH_LANE_CORE,
                                                          .spin_us = BENCH_SPIN_US});
    few = bench_client(&small, BENCH_SPIN_US, 0, 0);
    load(few, HOT);
    for (uint64_t i = 0; i < HOT; i++) {
        state = step(state);
        hot[i] = bench_id((state >> 20) % OBJECTS);
        alone[i] = bench_id(i);
    }
    for (int round = -1; round < HOT_ROUNDS; round++) {
        get_hot(many, hot, in_many);
        get_hot(few, alone, by_itself);
        if (round < 0) { /* warm: pages are mapped */
            samples_free(in_many);
            samples_free(by_itself);
        }
    }
    nigh_client_close(many);
    nigh_client_close(few);
    bench_node_stop(&small);
}

/*
 * Which pages a thousand objects lie on, and where those lie in the machine, decides how well the
 * processor's tables of pages hold them: several pairs, and the median of their ratios.
 */
static void compare_hot(const struct bench_node *large)
{
    struct samples in_many = {0}, by_itself = {0}, ratios = {0};
    struct bench_row row = {.name = "index/a hot thousand among 10 million",
                            .unit = "ns",
                            .baseline_name = "a thousand alone",
                            .on = BENCH_ON_RATIO,
                            .target = 1.5,
                            .better = "lower",
                            .path = "client without its node, core 0, batches of 64; pairs of "
                                    "another thousand with a new client and a new small node; "
                                    "rounds alternate"};

    for (uint64_t pair = 0; pair < HOT_PAIRS; pair++) {
        struct samples many = {0}, few = {0};

        hot_pair(large, 7 + pair, &many, &few);
        samples_add(&ratios, samples_quantile(&many, 0.5) / samples_quantile(&few, 0.5));
        samples_append(&in_many, &many);
        samples_append(&by_itself, &few);
        samples_free(&many);
        samples_free(&few);
    }
    row.median = samples_quantile(&in_many, 0.5);
    row.p99 = samples_quantile(&in_many, 0.99);
    row.baseline = samples_quantile(&by_itself, 0.5);
    bench_row_set_ratios(&row, &ratios);
    bench_row_write(&row);
    samples_free(&in_many);
    samples_free(&by_itself);
    samples_free(&ratios);
}

static void compare_random(nigh_client *many)
{
    struct two_tables tables = two_tables_make();
    struct samples gets = {0}, loads = {0};

    for (int round = 0; round < ROUNDS; round++) {
        get_random(many, &gets);
        load_twice(&tables, &loads);
    }
    bench_row_write(
        &(struct bench_row){.name = "index/uniformly random of 10 million, dependent",
                            .unit = "ns",
                            .median = samples_quantile(&gets, 0.5),
                            .p99 = samples_quantile(&gets, 0.99),
                            .baseline_name = "two dependent loads",
                            .baseline = samples_quantile(&loads, 0.5),
                            .ratio = samples_quantile(&gets, 0.5) / samples_quantile(&loads, 0.5),
                            .on = BENCH_ON_RATIO,
                            .target = 1.3,
                            .better = "lower",
                            .path = "client without its node, core 0; tables of 128 MiB and 610 "
                                    "MiB in shared 4 KiB pages"});
    bench_memory_destroy(tables.slots, SLOTS * 8);
    bench_memory_destroy(tables.entries, OBJECTS * 64);
    samples_free(&gets);
    samples_free(&loads);
}

void objects_index(void)
{
    struct bench_node large;
    nigh_client *many;
    nigh_node_stats stats = {.struct_size = sizeof stats};
    uint64_t start;

    bench_node_start(&large, &(struct bench_node_options){.memory = "1G",
                                                          .max_objects = "10000000",
                                                          .core = BENCH_LANE_CORE,
                                                          .spin_us = BENCH_SPIN_US});
    bench_pin(BENCH_CLIENT_CORE);
    many = bench_client(&large, BENCH_SPIN_US, 0, 0);
    start = bench_now_ns();
    load(many, OBJECTS);
    bench_row_write(
        &(struct bench_row){.name = "index/loading 10 million objects of 8 B",
                            .unit = "ns",
                            .median = (double)(bench_now_ns() - start) / (double)OBJECTS,
                            .path = "nigh_put_many of 128; one run, each object"});
    bench_check(nigh_stats(many, &stats), "stats");
    if (stats.objects != OBJECTS) {
        bench_fail("%llu of 10 million objects are there", (unsigned long long)stats.objects);
    }
    bench_row_write(
        &(struct bench_row){.name = "index/bytes an object at 10 million",
                            .unit = "B",
                            .median = (double)stats.index_bytes / (double)OBJECTS,
                            .on = BENCH_ON_MEDIAN,
                            .target = 96,
                            .better = "lower",
                            .path = "slots, entries and cold entries in shared memory"});
    compare_hot(&large);
    compare_random(many);
    nigh_client_close(many);
    bench_pin(-1);
    bench_node_stop(&large);
}
