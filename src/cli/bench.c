/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nigh bench objects: what this process gets from the running node, as it is placed now. A first
 * impression; the comparison with peers, pinned and alternating, is `make bench-objects`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/bytes.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "base/json.h"

enum {
    SIZES = 4,
    BATCHES = 200,
    SMALL_BATCH = 64
};

static const uint64_t sizes[SIZES] = {1 << 10, 32 << 10, 1 << 20, 4 << 20};

struct result {
    double put_us, put_p99_us, get_us, memcpy_us;
    uint32_t puts_slept;
};

/* What is measured here takes nanoseconds: clock.h counts microseconds. */
static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* How often this thread gave up its core to wait. */
static long count_sleeps(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* One object: its put, its gets, the delete; and a copy of as many bytes. */
static nigh_status measure_once(nigh_client *client, const char *data, char *copy, uint64_t size,
                                struct result *once)
{
    nigh_id id;
    nigh_view view;
    nigh_status status = nigh_id_random(&id);
    long sleeps = count_sleeps();
    double start_us = now_us();

    if (status != NIGH_OK || (status = nigh_put(client, &id, data, size, NULL)) != NIGH_OK) {
        return status;
    }
    once->put_us = now_us() - start_us;
    once->puts_slept = count_sleeps() > sleeps;
    start_us = now_us();
    for (int j = 0; j < SMALL_BATCH * 16 && status == NIGH_OK; j++) {
        status = nigh_get(client, &id, 1, 0, &view);
        if (status == NIGH_OK) {
            nigh_release(client, &view);
        }
    }
    once->get_us = (now_us() - start_us) / (SMALL_BATCH * 16);
    start_us = now_us();
    memcpy(copy, data, size);
    __asm__ volatile("" ::"r"(copy) : "memory");
    once->memcpy_us = now_us() - start_us;
    nigh_delete(client, &id, 1, NULL);
    return status;
}

/* BATCHES objects of a size; the ids are random, so they meet no others. */
static nigh_status measure(nigh_client *client, const char *data, char *copy, uint64_t size,
                           struct result *result)
{
    double puts[BATCHES], gets[BATCHES], copies[BATCHES];
    uint32_t slept = 0;

    for (int i = 0; i < BATCHES; i++) {
        struct result once;
        nigh_status status = measure_once(client, data, copy, size, &once);

        if (status != NIGH_OK) {
            return status;
        }
        puts[i] = once.put_us;
        gets[i] = once.get_us;
        copies[i] = once.memcpy_us;
        slept += once.puts_slept;
    }
    qsort(puts, BATCHES, sizeof *puts, compare_doubles);
    qsort(gets, BATCHES, sizeof *gets, compare_doubles);
    qsort(copies, BATCHES, sizeof *copies, compare_doubles);
    *result = (struct result){puts[BATCHES / 2], puts[BATCHES * 99 / 100], gets[BATCHES / 2],
                              copies[BATCHES / 2], slept};
    return NIGH_OK;
}

static void print_row(struct cli *cli, struct json *json, uint64_t size,
                      const struct result *result)
{
    char text[BYTES_SIZE_TEXT];

    bytes_format_size(size, text);
    if (cli->json) {
        json_object_open(json, NULL);
        json_u64(json, "size_bytes", size);
        json_double(json, "put_us", result->put_us);
        json_double(json, "put_p99_us", result->put_p99_us);
        json_double(json, "get_release_us", result->get_us);
        json_double(json, "memcpy_us", result->memcpy_us);
        json_u64(json, "puts", BATCHES);
        json_u64(json, "puts_slept", result->puts_slept);
        json_object_close(json);
    } else {
        printf("%10s %12.3f %12.3f %16.3f %12.3f %6u\n", text, result->put_us, result->put_p99_us,
               result->get_us, result->memcpy_us, result->puts_slept);
    }
}

static void begin_table(const struct cli *cli, struct json *json)
{
    if (cli->json) {
        json_array_open(json, NULL);
    } else {
        printf("%10s %12s %12s %16s %12s %6s\n", "SIZE", "PUT us", "PUT p99 us", "GET+RELEASE us",
               "MEMCPY us", "SLEPT");
    }
}

/* The same node is some hundred times as slow, or not, by where the scheduler puts two threads. */
static void end_table(const struct cli *cli, struct json *json, int exit_code)
{
    if (cli->json) {
        json_array_close(json);
    } else if (exit_code == CLI_OK) {
        printf("SLEPT of %d puts: this process slept until the node's thread ran, which was asleep "
               "or on the\nsame core; that costs tens of microseconds (nighd --spin-us; taskset "
               "places both).\n",
               BATCHES);
    }
}

static int bench_objects(struct cli *cli)
{
    char *data = calloc(1, sizes[SIZES - 1]), *copy = calloc(1, sizes[SIZES - 1]);
    struct json json = {0};
    int exit_code = CLI_FULL;

    if (data == NULL || copy == NULL) {
        cli_error(cli, "no memory");
        goto free_buffers;
    }
    exit_code = cli_open(cli, 0);
    if (exit_code != CLI_OK) {
        goto free_buffers;
    }
    memset(copy, 1, sizes[SIZES - 1]);
    begin_table(cli, &json);
    for (int i = 0; i < SIZES && exit_code == CLI_OK; i++) {
        struct result result;
        nigh_status status = measure(cli->client, data, copy, sizes[i], &result);

        if (status != NIGH_OK) {
            exit_code = cli_failed(cli, status, "the measurement stopped");
            cli_error_object(cli, &json, exit_code);
        } else {
            print_row(cli, &json, sizes[i], &result);
        }
    }
    end_table(cli, &json, exit_code);
free_buffers:
    free(copy);
    free(data);
    return exit_code;
}

/* A number of an option. */
static int take_number(const struct cli *cli, const char *option, uint32_t most, uint32_t *number)
{
    char *end;
    unsigned long value = strtoul(optarg, &end, 10);

    if (optarg[0] < '0' || optarg[0] > '9' || *end != '\0' || value == 0 || value > most) {
        return cli_usage(cli, "%s takes a number from 1 to %u", option, most);
    }
    *number = (uint32_t)value;
    return CLI_OK;
}

static int take_size(const struct cli *cli, uint32_t most, uint32_t *size)
{
    uint64_t value;

    if (bytes_parse_size(optarg, &value) != NIGH_OK || value == 0 || value > most) {
        return cli_usage(cli, "--size takes a size from 1 to %u, such as 4096 or 16K", most);
    }
    *size = (uint32_t)value;
    return CLI_OK;
}

struct bench {
    bool offer, is_withdrawn;
    const char *node;
    uint32_t size;
    struct bench_rpc rpc; /* without those two */
};

static int take_own(const struct cli *cli, int option, struct bench *bench)
{
    switch (option) {
    case 'o': bench->offer = true; return CLI_OK;
    case 'w': bench->is_withdrawn = true; return CLI_OK;
    case 'n': bench->node = optarg; return CLI_OK;
    case 'S': bench->rpc.serve = true; return CLI_OK;
    case 'a': return take_number(cli, "--at-once", BENCH_RPC_AT_ONCE, &bench->rpc.at_once);
    default: return take_size(cli, BENCH_REGION_MOST, &bench->size);
    }
}

static int run_rpc(struct cli *cli, const struct bench *bench)
{
    struct bench_rpc rpc = bench->rpc;

    rpc.node = bench->node;
    rpc.size = bench->size;
    if (rpc.size > BENCH_RPC_MOST) {
        return cli_usage(cli, "rpc: --size takes a size from 1 to %u", BENCH_RPC_MOST);
    }
    if (rpc.serve && (rpc.node != NULL || rpc.at_once > 0 || rpc.size > 0)) {
        return cli_usage(cli, "--serve takes no --node, --at-once or --size");
    }
    return rpc.serve ? bench_serve(cli) : bench_rpc(cli, &rpc);
}

static int run_transfer(struct cli *cli, const struct bench *bench)
{
    if (bench->offer && bench->is_withdrawn) {
        return cli_usage(cli, "--offer or --withdraw, not both");
    }
    return bench->is_withdrawn ? bench_withdraw(cli)
           : bench->offer      ? bench_offer(cli)
                               : bench_transfer(cli);
}

static int run_wanted(struct cli *cli, const char *what, const struct bench *bench)
{
    struct bench_region region = {.node = bench->node, .size = bench->size};
    bool has_place = bench->node != NULL || bench->size > 0;
    bool has_rpc = bench->rpc.serve || bench->rpc.at_once > 0;
    bool has_transfer = bench->offer || bench->is_withdrawn;

    if (strcmp(what, "transfer") == 0 && !has_rpc && !has_place) {
        return run_transfer(cli, bench);
    }
    if (strcmp(what, "rpc") == 0 && !has_transfer) {
        return run_rpc(cli, bench);
    }
    if (strcmp(what, "region") == 0 && !has_rpc && !has_transfer) {
        return bench_region(cli, &region);
    }
    if (strcmp(what, "space") == 0 && !has_rpc && !has_transfer && bench->size == 0) {
        return bench_space(cli, bench->node);
    }
    if (strcmp(what, "objects") == 0 && !has_rpc && !has_transfer && !has_place) {
        return bench_objects(cli);
    }
    return cli_usage(cli, "bench takes what to measure: objects, transfer [--offer|--withdraw], "
                          "rpc [--serve|--node RANK] [--at-once N] [--size SIZE], "
                          "region [--node RANK] [--size SIZE], or space [--node RANK]");
}

int cli_bench(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS,
                                            {"offer", no_argument, NULL, 'o'},
                                            {"withdraw", no_argument, NULL, 'w'},
                                            {"node", required_argument, NULL, 'n'},
                                            {"serve", no_argument, NULL, 'S'},
                                            {"at-once", required_argument, NULL, 'a'},
                                            {"size", required_argument, NULL, 'z'},
                                            {0}};
    struct bench bench = {0};
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":own:Sa:z:" CLI_COMMON_SHORT, options)) !=
           -1) {
        bool is_own = option != '?' && option != ':' && strchr("ownSaz", option) != NULL;

        if (is_own && (exit_code = take_own(cli, option, &bench)) != CLI_OK) {
            return exit_code;
        }
        if (!is_own && cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    return run_wanted(cli, argc - optind == 1 ? argv[optind] : "", &bench);
}
