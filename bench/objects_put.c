/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Put: create, copy, seal, visible to every process on return. Against Redis SET (1 KiB) and
 * against memcpy into a populated buffer of the node's memory size and kind (4 MiB). Nodes of two
 * kinds: one whose lane spins on its own core, one with spin_us = 0 on the client's core.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "objects.h"

enum {
    ROUNDS = 20,
    SMALL_PUTS = 4000,
    REDIS_CALLS = 2000,
    LARGE_PUTS = 24,
    FRESH_CLIENTS = 9,
    PAIRS = 7,
};

#define SMALL_BYTES 1024u
#define LARGE_BYTES (UINT64_C(4) << 20)
#define ARENA_BYTES (UINT64_C(2) << 30)
#define ARENA       "2G"

/* Ids are never used twice, so that every put makes an object; old ones are evicted when memory is
 * full. */
static uint64_t next_id;

static void put_small(nigh_client *client, const char *data, struct samples *samples)
{
    for (int i = 0; i < SMALL_PUTS; i++) {
        nigh_id id = bench_id(next_id++);
        uint64_t start = bench_now_ns();

        bench_check(nigh_put(client, &id, data, SMALL_BYTES, NULL), "put");
        samples_add(samples, (double)(bench_now_ns() - start));
    }
}

static void redis_set(redisContext *context, const char *data, struct samples *samples)
{
    for (int i = 0; i < REDIS_CALLS; i++) {
        uint64_t start = bench_now_ns();
        redisReply *reply = redisCommand(context, "SET k%d %b", i, data, (size_t)SMALL_BYTES);

        samples_add(samples, (double)(bench_now_ns() - start));
        if (reply == NULL || reply->type != REDIS_REPLY_STATUS) {
            bench_fail("Redis answered wrongly");
        }
        freeReplyObject(reply);
    }
}

static void small_row(const char *name, struct samples *ours, struct samples *theirs,
                      const char *baseline, double target, const char *path)
{
    bench_row_write(
        &(struct bench_row){.name = name,
                            .unit = "ns",
                            .median = samples_quantile(ours, 0.5),
                            .p99 = samples_quantile(ours, 0.99),
                            .baseline_name = baseline,
                            .baseline = samples_quantile(theirs, 0.5),
                            .ratio = samples_quantile(theirs, 0.5) / samples_quantile(ours, 0.5),
                            .on = BENCH_ON_RATIO,
                            .target = target,
                            .better = "higher",
                            .path = path});
}

static void small_puts(nigh_client *spinning, nigh_client *sleeping)
{
    struct bench_redis redis[2];
    redisContext *context[2];
    struct samples ours[2] = {{0}, {0}}, theirs[2] = {{0}, {0}};
    char data[SMALL_BYTES];
    int best;

    memset(data, 9, sizeof data);
    for (int i = 0; i < 2; i++) {
        bench_redis_start(&redis[i], i == 0 ? BENCH_CLIENT_CORE : BENCH_LANE_CORE);
        context[i] = redisConnectUnix(redis[i].socket_path);
    }
    for (int round = 0; round < ROUNDS; round++) {
        put_small(spinning, data, &ours[0]);
        redis_set(context[0], data, &theirs[0]);
        put_small(sleeping, data, &ours[1]);
        redis_set(context[1], data, &theirs[1]);
    }
    best = samples_quantile(&theirs[0], 0.5) <= samples_quantile(&theirs[1], 0.5) ? 0 : 1;
    small_row("put/1 KiB, lane awake, against Redis SET", &ours[0], &theirs[best],
              best == 0 ? "Redis SET, same core" : "Redis SET, other core", 20,
              "client on core 0 and nighd on core 1, spin_us=50, both spinning");
    small_row("put/1 KiB, spin_us=0, one core, against Redis SET", &ours[1], &theirs[best],
              best == 0 ? "Redis SET, same core" : "Redis SET, other core", 1.5,
              "client and nighd on core 0, spin_us=0, both blocking");
    for (int i = 0; i < 2; i++) {
        redisFree(context[i]);
        bench_redis_stop(&redis[i]);
        samples_free(&ours[i]);
        samples_free(&theirs[i]);
    }
}

#define FRESH_WINDOW (UINT64_C(16) << 20) /* what a fresh client maps: its first lease */

static void put_large(nigh_client *client, const void *data, struct samples *samples)
{
    for (int i = 0; i < LARGE_PUTS; i++) {
        nigh_id id = bench_id(next_id++);
        uint64_t start = bench_now_ns();

        bench_check(nigh_put(client, &id, data, LARGE_BYTES, NULL), "put");
        samples_add(samples, (double)(bench_now_ns() - start) / 1e3);
    }
}

/* memcpy through a populated buffer as large as the node's memory, place after place. */
static void copy_large(char *buffer, uint64_t *place, const void *data, struct samples *samples)
{
    for (int i = 0; i < LARGE_PUTS; i++) {
        uint64_t start = bench_now_ns();

        memcpy(buffer + *place, data, LARGE_BYTES);
        __asm__ volatile("" ::"r"(buffer + *place) : "memory");
        samples_add(samples, (double)(bench_now_ns() - start) / 1e3);
        *place = (*place + LARGE_BYTES) % ARENA_BYTES;
    }
}

/* ---- 4 MiB: pairs of a node and a buffer ---- */

/*
 * How fast 4 MiB are copied is decided by where the pages lie in the machine, for a buffer as for a
 * node's memory: one pair of a node and a buffer compares luck. So there are several pairs, each of
 * a new node, client and buffer, and the ratio is the median of the pairs' ratios.
 */
struct large_setup {
    const char *name;
    const char *path;
    int core; /* the node's */
    uint32_t spin_us;
    double target;
};

/* What all pairs of a set-up found: times, and a ratio a pair. */
struct large_found {
    struct samples puts, copies, ratios;
};

struct large_pair {
    struct bench_node node;
    nigh_client *client;
    char *buffer, *data;
    uint64_t place;
};

/* Every other pair has its buffer first: neither side always gets the memory that is free first. */
static void large_pair_open(struct large_pair *pair, const struct large_setup *setup, int number)
{
    *pair = (struct large_pair){.data = malloc(LARGE_BYTES)};
    if (pair->data == NULL) {
        bench_fail("no memory for the bytes to put");
    }
    memset(pair->data, 3, LARGE_BYTES);
    if (number % 2 != 0) {
        pair->buffer = bench_memory_create(ARENA_BYTES);
    }
    bench_node_start(&pair->node, &(struct bench_node_options){.memory = ARENA,
                                                               .core = setup->core,
                                                               .spin_us = (int)setup->spin_us});
    if (number % 2 == 0) {
        pair->buffer = bench_memory_create(ARENA_BYTES);
    }
    pair->client = bench_client(&pair->node, setup->spin_us, 0, ARENA_BYTES);
}

static void large_pair_close(struct large_pair *pair)
{
    nigh_client_close(pair->client);
    bench_node_stop(&pair->node);
    bench_memory_destroy(pair->buffer, ARENA_BYTES);
    free(pair->data);
}

/* One pair's samples become one ratio, and join the others'. */
static void large_found_add(struct large_found *found, struct samples *puts, struct samples *copies)
{
    samples_add(&found->ratios, samples_quantile(copies, 0.5) / samples_quantile(puts, 0.5));
    samples_append(&found->puts, puts);
    samples_append(&found->copies, copies);
    samples_free(puts);
    samples_free(copies);
}

/* Puts and copies in turn, until both have been once through their memory. */
static void large_steady(struct large_pair *pair, struct large_found *found)
{
    struct samples puts = {0}, copies = {0};

    put_large(pair->client, pair->data, &puts); /* warm */
    copy_large(pair->buffer, &pair->place, pair->data, &copies);
    samples_free(&puts);
    samples_free(&copies);
    for (uint64_t done = 0; done < ARENA_BYTES; done += LARGE_PUTS * LARGE_BYTES) {
        put_large(pair->client, pair->data, &puts);
        copy_large(pair->buffer, &pair->place, pair->data, &copies);
    }
    large_found_add(found, &puts, &copies);
}

/* memcpy into a piece of the buffer that was just mapped anew and touched, as a fresh client's
 * write memory is: its first use finds neither addresses nor bytes in any cache. */
static void copy_fresh(struct large_pair *pair, struct samples *samples)
{
    char *window = bench_memory_window(pair->buffer + pair->place, FRESH_WINDOW);
    uint64_t start = bench_now_ns();

    memcpy(window, pair->data, LARGE_BYTES);
    __asm__ volatile("" ::"r"(window) : "memory");
    samples_add(samples, (double)(bench_now_ns() - start) / 1e3);
    bench_memory_destroy(window, FRESH_WINDOW);
    pair->place = (pair->place + FRESH_WINDOW) % ARENA_BYTES;
}

/* The first put of a fresh client, by itself: several clients, one put each. */
static void large_first(struct large_pair *pair, uint32_t spin_us, struct large_found *found)
{
    struct samples puts = {0}, copies = {0};

    for (int i = 0; i < FRESH_CLIENTS; i++) {
        nigh_client *fresh = bench_client(&pair->node, spin_us, 0, 0);
        nigh_id id = bench_id(next_id++);
        uint64_t start = bench_now_ns();

        bench_check(nigh_put(fresh, &id, pair->data, LARGE_BYTES, NULL), "put");
        samples_add(&puts, (double)(bench_now_ns() - start) / 1e3);
        nigh_client_close(fresh);
        copy_fresh(pair, &copies);
    }
    large_found_add(found, &puts, &copies);
}

static void large_row(const char *name, const char *baseline, struct large_found *found,
                      const struct large_setup *setup)
{
    char text[96];
    struct bench_row row = {.name = text,
                            .unit = "us",
                            .median = samples_quantile(&found->puts, 0.5),
                            .p99 = samples_quantile(&found->puts, 0.99),
                            .baseline_name = baseline,
                            .baseline = samples_quantile(&found->copies, 0.5),
                            .on = setup->target > 0 ? BENCH_ON_RATIO : BENCH_NO_TARGET,
                            .target = setup->target,
                            .better = "higher",
                            .path = setup->path};

    snprintf(text, sizeof text, "put/4 MiB, %s%s", name, setup->name);
    bench_row_set_ratios(&row, &found->ratios);
    bench_row_write(&row);
    samples_free(&found->puts);
    samples_free(&found->copies);
    samples_free(&found->ratios);
}

static void large_puts(const struct large_setup *setup)
{
    struct large_found steady = {0}, first = {0};

    for (int number = 0; number < PAIRS; number++) {
        struct large_pair pair;

        large_pair_open(&pair, setup, number);
        large_first(&pair, setup->spin_us, &first);
        large_steady(&pair, &steady);
        large_pair_close(&pair);
    }
    large_row("", "memcpy, populated buffer of 2 GiB", &steady, setup);
    large_row("the first of a client, ",
              "memcpy, the first into a new mapping of 16 MiB, touched before", &first, setup);
}

#define LARGE_PATH                                                                             \
    "; write memory touched at open; pairs of a new node and client and a new buffer, both a " \
    "populated memory file, shared, of plain 4 KiB pages; rounds alternate"

static const struct large_setup large_setups[] = {
    {.name = "lane on core 1",
     .path = "client on core 0, nighd on core 1, spin_us=50" LARGE_PATH,
     .core = BENCH_LANE_CORE,
     .spin_us = BENCH_SPIN_US,
     .target = 0.9},
    {.name = "spin_us=0, one core",
     .path = "client and nighd on core 0, spin_us=0" LARGE_PATH,
     .core = BENCH_CLIENT_CORE},
};

void objects_put(void)
{
    struct bench_node spinning, sleeping;
    nigh_client *fast, *slow;

    bench_node_start(&spinning, &(struct bench_node_options){.memory = ARENA,
                                                             .core = BENCH_LANE_CORE,
                                                             .spin_us = BENCH_SPIN_US});
    bench_node_start(&sleeping, &(struct bench_node_options){
                                    .memory = ARENA, .core = BENCH_CLIENT_CORE, .spin_us = 0});
    bench_pin(BENCH_CLIENT_CORE);
    fast = bench_client(&spinning, BENCH_SPIN_US, 0, ARENA_BYTES);
    slow = bench_client(&sleeping, 0, 0, ARENA_BYTES);
    small_puts(fast, slow);
    nigh_client_close(fast);
    nigh_client_close(slow);
    bench_node_stop(&spinning);
    bench_node_stop(&sleeping);
    for (size_t i = 0; i < sizeof large_setups / sizeof large_setups[0]; i++) {
        large_puts(&large_setups[i]);
    }
    bench_pin(-1);
}
