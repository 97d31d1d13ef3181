/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many sessions: what 256 idle ones cost a get and a turn of the lane, and what 100 sessions that
 * hold pins do to the tail of puts while eviction runs.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objects.h"

enum {
    IDLE = 256,
    PINNING = 100,
    PINS = 32,
    BATCH = 64,
    BATCHES = 2000,
    PUTS = 100000,
    ROUNDS = 5,
    HOT = 1000,
};

static void put_hot(nigh_client *client)
{
    char data[1024] = {1};

    for (uint64_t i = 0; i < HOT; i++) {
        nigh_id id = bench_id(i);

        bench_check(nigh_put(client, &id, data, sizeof data, NULL), "put");
    }
}

static void get_hot(nigh_client *client, struct samples *samples)
{
    uint64_t next = 0;

    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t start = bench_now_ns();

        for (int i = 0; i < BATCH; i++) {
            nigh_id id = bench_id(next);
            nigh_view view;

            if (nigh_get(client, &id, 1, 0, &view) != NIGH_OK) {
                bench_fail("an object is gone");
            }
            nigh_release(client, &view);
            next = next + 1 == HOT ? 0 : next + 1;
        }
        samples_add(samples, (double)(bench_now_ns() - start) / BATCH);
    }
}

/* Nanoseconds a turn of a lane that spins: turns counted by the lane over a window in which nothing
 * is asked of it. */
static void time_turns(nigh_client *client, struct samples *samples)
{
    nigh_node_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
    uint64_t start;

    bench_check(nigh_stats(client, &before), "stats");
    start = bench_now_ns();
    poll(NULL, 0, 50);
    bench_check(nigh_stats(client, &after), "stats");
    samples_add(samples, (double)(bench_now_ns() - start) / (double)(after.turns - before.turns));
}

static void idle_sessions(void)
{
    struct bench_node node;
    nigh_client *client, *idle[IDLE];
    struct samples gets[2] = {{0}, {0}}, turns[2] = {{0}, {0}};

    /* Spins for a second after work: long enough to count its turns. */
    bench_node_start(&node, &(struct bench_node_options){
                                .memory = "1G", .core = BENCH_LANE_CORE, .spin_us = 1000000});
    bench_pin(BENCH_CLIENT_CORE);
    client = bench_client(&node, BENCH_SPIN_US, 0, 0);
    put_hot(client);
    for (int round = 0; round < ROUNDS; round++) {
        for (int with = 0; with < 2; with++) {
            for (int i = 0; with == 1 && i < IDLE; i++) {
                idle[i] = bench_client(&node, BENCH_SPIN_US, NIGH_OPEN_READ_ONLY, 0);
            }
            get_hot(client, &gets[with]);
            for (int i = 0; i < 4; i++) {
                time_turns(client, &turns[with]);
            }
            for (int i = 0; with == 1 && i < IDLE; i++) {
                nigh_client_close(idle[i]);
            }
        }
    }
    bench_row_write(&(struct bench_row){
        .name = "many/get with 256 idle sessions",
        .unit = "ns",
        .median = samples_quantile(&gets[1], 0.5),
        .p99 = samples_quantile(&gets[1], 0.99),
        .baseline_name = "with none",
        .baseline = samples_quantile(&gets[0], 0.5),
        .ratio = samples_quantile(&gets[1], 0.5) / samples_quantile(&gets[0], 0.5),
        .on = BENCH_ON_RATIO,
        .target = 1.05,
        .better = "lower",
        .path = "client without its node, core 0 (no slower: within 5 % of noise)"});
    bench_row_write(&(struct bench_row){
        .name = "many/a lane's sweep over 256 idle sessions",
        .unit = "ns",
        .median = samples_quantile(&turns[1], 0.5),
        .p99 = samples_quantile(&turns[1], 0.99),
        .baseline_name = "over one session",
        .baseline = samples_quantile(&turns[0], 0.5),
        .ratio = samples_quantile(&turns[1], 0.5) / samples_quantile(&turns[0], 0.5),
        .on = BENCH_ON_MEDIAN,
        .target = 300,
        .better = "lower",
        .path = "the whole turn of a spinning lane, counted by the lane, core 1"});
    for (int i = 0; i < 2; i++) {
        samples_free(&gets[i]);
        samples_free(&turns[i]);
    }
    nigh_client_close(client);
    bench_pin(-1);
    bench_node_stop(&node);
}

struct pinner {
    nigh_client *client;
    nigh_view views[PINS];
    int next;
};

/* One pin of the newest objects through the next session, in place of its oldest: a step of the
 * total pin rate. */
static void pin_one(struct pinner *pinner, uint64_t newest)
{
    nigh_id id = bench_id(newest);
    nigh_view *view = &pinner->views[pinner->next];

    pinner->next = (pinner->next + 1) % PINS;
    nigh_release(pinner->client, view);
    if (nigh_get(pinner->client, &id, 1, 0, view) != NIGH_OK) {
        memset(view, 0, sizeof *view);
    }
}

/* Puts under eviction while `sessions` sessions pin; returns evictions a second. */
static double put_under_pins(const struct bench_node *node, int sessions, struct samples *samples)
{
    static uint64_t next_id = 1000000000;
    struct pinner *pinners = calloc((size_t)sessions, sizeof *pinners);
    nigh_client *writer = bench_client(node, BENCH_SPIN_US, 0, 0);
    nigh_node_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
    char data[1024] = {2};
    uint64_t start, elapsed;

    if (pinners == NULL) {
        bench_fail("no memory");
    }
    for (int i = 0; i < sessions; i++) {
        pinners[i].client = bench_client(node, BENCH_SPIN_US, NIGH_OPEN_READ_ONLY, 0);
    }
    bench_check(nigh_stats(writer, &before), "stats");
    start = bench_now_ns();
    for (int i = 0; i < PUTS; i++) {
        nigh_id id = bench_id(next_id++);
        uint64_t begin = bench_now_ns();

        bench_check(nigh_put(writer, &id, data, sizeof data, NULL), "put");
        samples_add(samples, (double)(bench_now_ns() - begin));
        pin_one(&pinners[i % sessions], next_id - 1);
    }
    elapsed = bench_now_ns() - start;
    bench_check(nigh_stats(writer, &after), "stats");
    for (int i = 0; i < sessions; i++) {
        nigh_client_close(pinners[i].client);
    }
    nigh_client_close(writer);
    free(pinners);
    return (double)(after.evictions - before.evictions) * 1e9 / (double)elapsed;
}

static void pinning_sessions(void)
{
    struct bench_node node;
    struct samples one = {0}, hundred = {0}, rate_one = {0}, rate_hundred = {0};
    double p99_one, p99_hundred;

    bench_node_start(&node, &(struct bench_node_options){.memory = "64M",
                                                         .core = BENCH_LANE_CORE,
                                                         .spin_us = BENCH_SPIN_US});
    bench_pin(BENCH_CLIENT_CORE);
    put_under_pins(&node, 1, &one); /* fills the memory */
    samples_free(&one);
    for (int round = 0; round < ROUNDS; round++) {
        samples_add(&rate_one, put_under_pins(&node, 1, &one));
        samples_add(&rate_hundred, put_under_pins(&node, PINNING, &hundred));
    }
    p99_one = samples_quantile(&one, 0.99);
    p99_hundred = samples_quantile(&hundred, 0.99);
    bench_row_write(&(struct bench_row){.name = "many/put p99 under eviction, 100 pinning sessions",
                                        .unit = "ns",
                                        .median = samples_quantile(&hundred, 0.5),
                                        .p99 = p99_hundred,
                                        .baseline_name = "p99 with one session",
                                        .baseline = p99_one,
                                        .ratio = p99_hundred / p99_one,
                                        .on = BENCH_ON_RATIO,
                                        .target = 4,
                                        .better = "lower",
                                        .path = "1 KiB puts, one pin a put through the sessions in "
                                                "turn, 32 held by each; core 0 and 1"});
    bench_row_write(&(struct bench_row){.name = "many/evictions a second, 100 pinning sessions",
                                        .unit = "1/s",
                                        .median = samples_quantile(&rate_hundred, 0.5),
                                        .p99 = samples_quantile(&rate_hundred, 0.01),
                                        .baseline_name = "with one session",
                                        .baseline = samples_quantile(&rate_one, 0.5),
                                        .ratio = samples_quantile(&rate_hundred, 0.5) /
                                                 samples_quantile(&rate_one, 0.5),
                                        .path = "end to end, as fast as one writer puts"});
    samples_free(&one);
    samples_free(&hundred);
    samples_free(&rate_one);
    samples_free(&rate_hundred);
    bench_pin(-1);
    bench_node_stop(&node);
}

void objects_many(void)
{
    idle_sessions();
    pinning_sessions();
}
