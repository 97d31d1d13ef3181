/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Put: create, copy, seal, visible to every process on return. Against Redis SET (1 KiB) and
 * against memcpy into a populated buffer of the node's memory size (4 MiB). Two nodes: one whose
 * lane spins on its own core, one with spin_us = 0 on the client's core.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <hiredis/hiredis.h>

#include "objects.h"

enum {
    ROUNDS = 20,
    SMALL_PUTS = 4000,
    REDIS_CALLS = 2000,
    LARGE_PUTS = 24,
    LARGE_ROUNDS = 25,
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
static void copy_large(char *buffer, const void *data, struct samples *samples)
{
    static uint64_t place;

    for (int i = 0; i < LARGE_PUTS; i++) {
        uint64_t start = bench_now_ns();

        memcpy(buffer + place, data, LARGE_BYTES);
        __asm__ volatile("" ::"r"(buffer + place) : "memory");
        samples_add(samples, (double)(bench_now_ns() - start) / 1e3);
        place = (place + LARGE_BYTES) % ARENA_BYTES;
    }
}

static void large_row(const char *name, struct samples *ours, struct samples *copies, double target,
                      const char *path)
{
    double median = samples_quantile(ours, 0.5);

    bench_row_write(&(struct bench_row){.name = name,
                                        .unit = "us",
                                        .median = median,
                                        .p99 = samples_quantile(ours, 0.99),
                                        .baseline_name = "memcpy, populated buffer of 2 GiB",
                                        .baseline = samples_quantile(copies, 0.5),
                                        .ratio = samples_quantile(copies, 0.5) / median,
                                        .on = target > 0 ? BENCH_ON_RATIO : BENCH_NO_TARGET,
                                        .target = target,
                                        .better = "higher",
                                        .path = path});
}

static void large_puts(const struct bench_node *node, nigh_client *client, uint32_t spin_us,
                       const char *name, double target, const char *path)
{
    char *buffer = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    char *data = malloc(LARGE_BYTES);
    struct samples first = {0}, puts = {0}, copies = {0};
    char text[96];

    if (buffer == MAP_FAILED || data == NULL) {
        bench_fail("no memory for the memcpy baseline");
    }
    memset(data, 3, LARGE_BYTES);
    copy_large(buffer, data, &copies);
    samples_free(&copies);
    /* The first put of a fresh client, by itself: several clients, one put each. */
    for (int i = 0; i < 9; i++) {
        nigh_client *fresh = bench_client(node, spin_us, 0, 0);
        nigh_id id = bench_id(next_id++);
        uint64_t start = bench_now_ns();

        bench_check(nigh_put(fresh, &id, data, LARGE_BYTES, NULL), "put");
        samples_add(&first, (double)(bench_now_ns() - start) / 1e3);
        nigh_client_close(fresh);
        copy_large(buffer, data, &copies);
    }
    for (int round = 0; round < LARGE_ROUNDS; round++) {
        put_large(client, data, &puts);
        copy_large(buffer, data, &copies);
    }
    snprintf(text, sizeof text, "put/4 MiB, %s", name);
    large_row(text, &puts, &copies, target, path);
    snprintf(text, sizeof text, "put/4 MiB, the first of a client, %s", name);
    large_row(text, &first, &copies, target, path);
    samples_free(&first);
    samples_free(&puts);
    samples_free(&copies);
    free(data);
    munmap(buffer, ARENA_BYTES);
}

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
    large_puts(&spinning, fast, BENCH_SPIN_US, "lane on core 1", 0.9,
               "client on core 0, nighd on core 1, spin_us=50; write memory touched at open");
    large_puts(&sleeping, slow, 0, "spin_us=0, one core", 0,
               "client and nighd on core 0, spin_us=0; write memory touched at open");
    nigh_client_close(fast);
    nigh_client_close(slow);
    bench_pin(-1);
    bench_node_stop(&spinning);
    bench_node_stop(&sleeping);
}
