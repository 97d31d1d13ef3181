/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nigh: a holder (nighd) with all objects, and a puller that has none of them when a round begins:
 * embedded in this process, where the thread that gets drives the lane, or nighd with this process
 * as its client. After each round the puller evicts its copies; the holder keeps the originals.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/transfer_names.h"
#include "transfer.h"

#define GET_TIMEOUT_US UINT64_C(60000000)
#define EVICT_ROUNDS   64
#define FIRST_ID       1000

/* What is told of a get, besides its time: numbers of both nodes. */
#define COUNTS_TABLE(X)                                                          \
    X(holder, device_requests, "holder's work requests")                         \
    X(holder, device_doorbells, "holder's doorbells")                            \
    X(holder, device_signalled, "holder's signalled completions")                \
    X(holder, device_messages, "messages to the holder")                         \
    X(holder, device_wakes, "wake-ups of the holder")                            \
    X(holder, link_copied_bytes, "bytes that the holder copies")                 \
    X(holder, registrations, "holder's registrations")                           \
    X(puller, device_requests, "puller's work requests")                         \
    X(puller, device_doorbells, "puller's doorbells")                            \
    X(puller, device_signalled, "puller's signalled completions")                \
    X(puller, device_messages, "messages to the puller")                         \
    X(puller, link_copied_bytes, "bytes that the puller copies")                 \
    X(puller, pulled_bytes_two_sided, "bytes that the puller copies into place") \
    X(puller, pulled_bytes_pushed, "pushed bytes that it copies into place")     \
    X(puller, registrations, "puller's registrations")

enum {
#define COUNTS_ONE(side, field, name) COUNT_##side##_##field,
    COUNTS_TABLE(COUNTS_ONE)
#undef COUNTS_ONE
    COUNTS
};

_Static_assert(TRANSFER_NAMES <= NIGH_PATH + 1, "every way is in the mask");

struct pair {
    struct bench_node holder, puller;
    nigh_node *node; /* embedded */
    nigh_client *client;
    nigh_client *holders; /* the holder's client, for its numbers */
    uint64_t counted[COUNTS], gets;
    char members[96];
    char key_path[64];
    const char *fabric;
    uint32_t transfer; /* nigh_transfer */
    uint64_t memory_bytes;
};

uint64_t transfer_spare_bytes = UINT64_C(128) << 20;

static const uint8_t key[32] = "a key for a benchmark, no secret";

static void write_key(struct pair *pair)
{
    int fd;

    strcpy(pair->key_path, "/tmp/nigh-key-XXXXXX");
    fd = mkstemp(pair->key_path); /* for this user alone */
    if (fd < 0 || write(fd, key, sizeof key) != (ssize_t)sizeof key) {
        bench_fail("cannot write a cluster key");
    }
    close(fd);
}

/* The way is told to both: who gets chooses it, but it is who lends that registers. */
static void start_daemon(struct pair *pair, struct bench_node *node, const char *rank, int core,
                         int spin_us)
{
    char memory[32];

    snprintf(memory, sizeof memory, "%lluM", (unsigned long long)(pair->memory_bytes >> 20));
    bench_node_start(node,
                     &(struct bench_node_options){.memory = memory,
                                                  .core = core,
                                                  .spin_us = spin_us,
                                                  .members = pair->members,
                                                  .member = rank,
                                                  .key_path = pair->key_path,
                                                  .fabric = pair->fabric,
                                                  .transfer = transfer_names[pair->transfer]});
}

/* The thread that gets is the lane's driver; the lane's own thread sleeps. */
static void start_embedded(struct pair *pair, int variant)
{
    bool blocks = (variant & NIGH_BLOCKS) != 0;
    nigh_node_options options = {
        .struct_size = sizeof options,
        .memory_bytes = pair->memory_bytes,
        .lanes = 1,
        .spin_us = 0,
        .members = pair->members,
        .member = "1",
        .cluster_key = key,
        .transfer_path = pair->transfer,
        .fabric = (variant & NIGH_VERBS) != 0 ? NIGH_FABRIC_VERBS : NIGH_FABRIC_TCP,
    };
    nigh_client_options client = {.struct_size = sizeof client,
                                  .name = "bench",
                                  .spin_us = blocks ? 0 : 1000 * TRANSFER_SPIN_US};

    if (nigh_node_start(&options, &pair->node) != NIGH_OK) {
        bench_fail("a node does not start: %s", nigh_node_start_error());
    }
    bench_check(nigh_node_client(pair->node, &client, &pair->client), "client of a node");
}

static void fill(const struct pair *pair, const struct workload *workload)
{
    nigh_client *client = bench_client(&pair->holder, 0, 0, 0);
    nigh_id warm = bench_id(1);

    for (uint32_t number = 0; number < workload->objects; number++) {
        nigh_create_options options = {.data_size = workload->bytes};
        nigh_id id = bench_id(FIRST_ID + number);
        nigh_writer writer;

        bench_check(nigh_create(client, &id, &options, &writer), "create");
        memset(writer.data, (int)number, workload->bytes);
        bench_check(nigh_seal(client, &writer), "seal");
    }
    bench_check(nigh_put(client, &warm, "x", 1, NULL), "put");
    nigh_client_close(client);
}

static void evict_all(nigh_client *client, uint64_t memory_bytes)
{
    uint64_t freed = 1;

    for (int i = 0; freed > 0 && i < EVICT_ROUNDS; i++) {
        bench_check(nigh_evict(client, memory_bytes, &freed), "evict");
    }
    if (freed > 0) {
        bench_fail("copies do not leave");
    }
}

static void nigh_open(struct series *series, const struct workload *workload)
{
    struct pair *pair = calloc(1, sizeof *pair);
    bool blocks = (series->variant & NIGH_BLOCKS) != 0;
    int there = (series->variant & NIGH_SAME_CORE) != 0 ? TRANSFER_HERE : TRANSFER_THERE;
    nigh_id warm = bench_id(1);
    nigh_view view;

    if (pair == NULL) {
        bench_fail("no memory");
    }
    snprintf(pair->members, sizeof pair->members, "%s:%d,%s:%d", transfer_address_there,
             bench_free_port(), transfer_address_here, bench_free_port());
    pair->fabric = (series->variant & NIGH_VERBS) != 0 ? "verbs" : "tcp";
    pair->transfer = (uint32_t)(series->variant & NIGH_PATH);
    write_key(pair);
    pair->memory_bytes = workload->bytes * workload->objects / 4 * 5 + transfer_spare_bytes;
    pair->memory_bytes &= ~((UINT64_C(1) << 20) - 1);
    start_daemon(pair, &pair->holder, "0", there, blocks ? 0 : TRANSFER_SPIN_US);
    fill(pair, workload);
    pair->memory_bytes += workload->bytes; /* a large copy needs room in one piece */
    if ((series->variant & NIGH_DAEMON) != 0) {
        start_daemon(pair, &pair->puller, "1", TRANSFER_HERE, 0);
        pair->client = bench_client(&pair->puller, 0, 0, 0);
        series->pids[2] = pair->puller.pid;
    } else {
        start_embedded(pair, series->variant);
    }
    bench_check(nigh_get(pair->client, &warm, 1, GET_TIMEOUT_US, &view), "first get");
    nigh_release(pair->client, &view);
    pair->holders = bench_client(&pair->holder, 0, 0, 0);
    series->state = pair;
    series->pids[0] = getpid();
    series->pids[1] = pair->holder.pid;
}

/* Adds what both nodes have counted, or takes it off; returns the puller's. */
static nigh_node_stats count(struct pair *pair, bool adds)
{
    nigh_node_stats holder = {.struct_size = sizeof holder},
                    puller = {.struct_size = sizeof puller};
    uint64_t sign = adds ? 1 : UINT64_MAX;

    bench_check(nigh_stats(pair->holders, &holder), "stats");
    bench_check(nigh_stats(pair->client, &puller), "stats");
#define COUNTS_ONE(side, field, name) pair->counted[COUNT_##side##_##field] += sign * side.field;
    COUNTS_TABLE(COUNTS_ONE)
#undef COUNTS_ONE
    return puller;
}

/* A row that says "pushed" is of what was. */
static void check_way(const struct pair *pair, const struct workload *workload,
                      const nigh_node_stats *before, const nigh_node_stats *after)
{
    uint64_t registrations = pair->counted[COUNT_holder_registrations];

    bench_check_transfer(before, after, pair->transfer, workload->bytes);
    if (pair->transfer == NIGH_TRANSFER_REGISTER && registrations < pair->gets) {
        bench_fail("of %llu loans %llu were registered", (unsigned long long)pair->gets,
                   (unsigned long long)registrations);
    }
}

static void nigh_round(struct series *series, const struct workload *workload,
                       struct samples *samples)
{
    struct pair *pair = series->state;
    nigh_node_stats before = count(pair, false), after;

    for (uint32_t number = 0; number < workload->objects; number++) {
        nigh_id id = bench_id(FIRST_ID + number);
        uint64_t start = bench_now_ns();
        nigh_view view;
        nigh_status status = nigh_get(pair->client, &id, 1, GET_TIMEOUT_US, &view);

        samples_add(samples, (double)(bench_now_ns() - start));
        bench_check(status, "get");
        if (view.data_size != workload->bytes ||
            ((const uint8_t *)view.data)[workload->bytes - 1] != (uint8_t)number) {
            bench_fail("a get brought something else");
        }
        nigh_release(pair->client, &view);
    }
    after = count(pair, true);
    pair->gets += workload->objects;
    check_way(pair, workload, &before, &after);
}

/* Of a get, over all rounds; over TCP nothing is told but its time. What is 0 is not printed. */
static void nigh_write_rows(struct series *series, const struct workload *workload)
{
    static const char *const names[COUNTS] = {
#define COUNTS_ONE(side, field, name) name,
        COUNTS_TABLE(COUNTS_ONE)
#undef COUNTS_ONE
    };
    struct pair *pair = series->state;

    if ((series->variant & NIGH_VERBS) == 0) {
        return;
    }
    printf("%-46s   a get:", "");
    for (int i = 0; i < COUNTS; i++) {
        double value = (double)pair->counted[i] / (double)pair->gets;
        char name[128];

        snprintf(name, sizeof name, "%s/%s/%s", workload->label, series->name, names[i]);
        bench_row_write(&(struct bench_row){.name = name,
                                            .unit = "a get",
                                            .median = value,
                                            .p99 = value,
                                            .path = "counted over all rounds, with what the "
                                                    "nodes tell each other of copies",
                                            .is_silent = true});
        if (value > 0) {
            printf(" %.4g %s;", value, names[i]);
        }
    }
    printf("\n");
}

static void nigh_after(struct series *series)
{
    struct pair *pair = series->state;

    evict_all(pair->client, pair->memory_bytes);
}

static void nigh_close(struct series *series)
{
    struct pair *pair = series->state;

    nigh_client_close(pair->client);
    nigh_client_close(pair->holders);
    if (pair->node != NULL) {
        nigh_node_stop(pair->node);
    } else {
        bench_node_stop(&pair->puller);
    }
    bench_node_stop(&pair->holder);
    unlink(pair->key_path);
    free(pair);
}

const struct series_kind transfer_nigh = {nigh_open, nigh_round, nigh_close, nigh_after,
                                          nigh_write_rows};
