/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get and release of objects that another process sealed, against Redis GET over a Unix socket.
 *
 * Redis is run in both placements (same core, other core) and compared in its better one. Rounds
 * alternate. A get does not touch the data, and so does not depend on its size; the rows by size
 * show that.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "objects.h"

enum {
    ROUNDS = 30,
    HOT = 1000,
    BATCH = 64,
    BATCHES = 400,
    REDIS_CALLS = 2000
};

static const struct {
    const char *name;
    uint64_t bytes;
} sizes[] = {
    {"1 KiB", UINT64_C(1) << 10},   {"32 KiB", UINT64_C(32) << 10}, {"1 MiB", UINT64_C(1) << 20},
    {"64 MiB", UINT64_C(64) << 20}, {"1 GiB", UINT64_C(1) << 30},
};

enum {
    SIZES = sizeof sizes / sizeof sizes[0]
};

/* Another process puts the objects, and is gone before anything is measured. */
static void put_from_another_process(const struct bench_node *node)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        nigh_client *client = bench_client(node, BENCH_SPIN_US, 0, 0);
        char data[1024];

        memset(data, 7, sizeof data);
        for (uint64_t i = 0; i < HOT; i++) {
            nigh_id id = bench_id(i);

            bench_check(nigh_put(client, &id, data, sizeof data, NULL), "put");
        }
        for (size_t i = 0; i < SIZES; i++) {
            nigh_create_options options = {.data_size = sizes[i].bytes};
            nigh_id id = bench_id(1000000 + i);
            nigh_writer writer;

            bench_check(nigh_create(client, &id, &options, &writer), "create");
            memset(writer.data, (int)i, 4096 < sizes[i].bytes ? 4096 : sizes[i].bytes);
            bench_check(nigh_seal(client, &writer), "seal");
        }
        nigh_client_close(client);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        bench_fail("the writing process failed");
    }
}

/* One get and release; the address keeps the compiler honest. */
static inline uintptr_t get_release(nigh_client *client, const nigh_id *id)
{
    nigh_view view;
    uintptr_t seen;

    if (nigh_get(client, id, 1, 0, &view) != NIGH_OK) {
        bench_fail("an object is gone");
    }
    seen = (uintptr_t)view.data;
    nigh_release(client, &view);
    return seen;
}

static void measure_hot(nigh_client *client, const nigh_id *ids, size_t n, struct samples *samples)
{
    volatile uintptr_t sink = 0;
    size_t next = 0;

    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t start = bench_now_ns();

        for (int i = 0; i < BATCH; i++) {
            sink = sink + get_release(client, &ids[next]);
            next = next + 1 == n ? 0 : next + 1;
        }
        samples_add(samples, (double)(bench_now_ns() - start) / BATCH);
    }
}

static void measure_redis_get(redisContext *context, struct samples *samples)
{
    for (int i = 0; i < REDIS_CALLS; i++) {
        uint64_t start = bench_now_ns();
        redisReply *reply = redisCommand(context, "GET k%d", i % HOT);

        samples_add(samples, (double)(bench_now_ns() - start));
        if (reply == NULL || reply->type != REDIS_REPLY_STRING || reply->len != 1024) {
            bench_fail("Redis answered wrongly");
        }
        freeReplyObject(reply);
    }
}

static redisContext *redis_filled(struct bench_redis *redis, int core)
{
    redisContext *context;
    char data[1024];

    bench_redis_start(redis, core);
    context = redisConnectUnix(redis->socket_path);
    if (context == NULL || context->err != 0) {
        bench_fail("cannot connect to Redis");
    }
    memset(data, 7, sizeof data);
    for (int i = 0; i < HOT; i++) {
        freeReplyObject(redisCommand(context, "SET k%d %b", i, data, sizeof data));
    }
    return context;
}

static void compare_with_redis(nigh_client *client, const nigh_id *ids)
{
    struct bench_redis redis[2];
    redisContext *context[2];
    struct samples ours = {0}, theirs[2] = {{0}, {0}};
    int best;

    for (int i = 0; i < 2; i++) {
        context[i] = redis_filled(&redis[i], i == 0 ? BENCH_CLIENT_CORE : BENCH_LANE_CORE);
    }
    measure_hot(client, ids, HOT, &ours); /* warm */
    samples_free(&ours);
    for (int round = 0; round < ROUNDS; round++) {
        measure_hot(client, ids, HOT, &ours);
        measure_redis_get(context[0], &theirs[0]);
        measure_redis_get(context[1], &theirs[1]);
    }
    best = samples_quantile(&theirs[0], 0.5) <= samples_quantile(&theirs[1], 0.5) ? 0 : 1;
    bench_row_write(&(struct bench_row){
        .name = "get/1 KiB, another process's, warm",
        .unit = "ns",
        .median = samples_quantile(&ours, 0.5),
        .p99 = samples_quantile(&ours, 0.99),
        .on = BENCH_ON_MEDIAN,
        .target = 60,
        .better = "lower",
        .path = "client without its node: get + release, 1000 objects, batches of 64, core 0"});
    bench_row_write(&(struct bench_row){
        .name = "get/1 KiB against Redis GET",
        .unit = "ns",
        .median = samples_quantile(&ours, 0.5),
        .p99 = samples_quantile(&ours, 0.99),
        .baseline_name =
            best == 0 ? "Redis GET, unix socket, same core" : "Redis GET, unix socket, other core",
        .baseline = samples_quantile(&theirs[best], 0.5),
        .ratio = samples_quantile(&theirs[best], 0.5) / samples_quantile(&ours, 0.5),
        .on = BENCH_ON_RATIO,
        .target = 150,
        .better = "higher",
        .path = "times faster; Redis in its better placement of same core and other core"});
    for (int i = 0; i < 2; i++) {
        samples_free(&theirs[i]);
        redisFree(context[i]);
        bench_redis_stop(&redis[i]);
    }
    samples_free(&ours);
}

static void by_size(nigh_client *client)
{
    struct samples samples[SIZES] = {{0}};
    double smallest;

    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < SIZES; i++) {
            nigh_id id = bench_id(1000000 + i);

            measure_hot(client, &id, 1, &samples[i]);
        }
    }
    smallest = samples_quantile(&samples[0], 0.5);
    for (size_t i = 0; i < SIZES; i++) {
        char name[64];

        snprintf(name, sizeof name, "get/one object of %s", sizes[i].name);
        bench_row_write(&(struct bench_row){
            .name = name,
            .unit = "ns",
            .median = samples_quantile(&samples[i], 0.5),
            .p99 = samples_quantile(&samples[i], 0.99),
            .baseline_name = "1 KiB",
            .baseline = smallest,
            .ratio = samples_quantile(&samples[i], 0.5) / smallest,
            .on = BENCH_ON_MEDIAN,
            .target = 60,
            .better = "lower",
            .path = "client without its node, the same object again and again"});
        samples_free(&samples[i]);
    }
}

void objects_get(void)
{
    struct bench_node node;
    nigh_client *client;
    nigh_id ids[HOT];

    /* hiredis should not fault in fresh buffers a call: that would flatter us. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, INT32_MAX);
    bench_node_start(&node, &(struct bench_node_options){
                                .memory = "2G", .core = BENCH_LANE_CORE, .spin_us = BENCH_SPIN_US});
    put_from_another_process(&node);
    bench_pin(BENCH_CLIENT_CORE);
    client = bench_client(&node, BENCH_SPIN_US, NIGH_OPEN_READ_ONLY, 0);
    for (uint64_t i = 0; i < HOT; i++) {
        ids[i] = bench_id(i);
    }
    compare_with_redis(client, ids);
    by_size(client);
    nigh_client_close(client);
    bench_pin(-1);
    bench_node_stop(&node);
}
