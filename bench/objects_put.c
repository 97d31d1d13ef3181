/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Put of 1 KiB: create, copy, seal, visible to every process on return. Against Redis SET. Nodes of
 * two kinds: one whose lane spins on its own core, one with spin_us = 0 on the client's core.
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
};

#define SMALL_BYTES 1024u
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
    objects_put_large();
    bench_pin(-1);
}
