/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nigh bench objects: what this process gets from the running node, as it is placed now. A first
 * impression; the comparison with peers, pinned and alternating, is `make bench-objects`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/json.h"

enum {
    SIZES = 4,
    BATCHES = 200,
    SMALL_BATCH = 64
};

static const uint64_t sizes[SIZES] = {1 << 10, 32 << 10, 1 << 20, 4 << 20};

struct result {
    double put_us, put_p99_us, get_us, memcpy_us;
};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Puts and deletes BATCHES objects of a size, gets each many times; the ids are random, so they
 * meet no others. */
static nigh_status measure(nigh_client *client, const char *data, char *copy, uint64_t size,
                           struct result *result)
{
    double puts[BATCHES], gets[BATCHES], copies[BATCHES];

    for (int i = 0; i < BATCHES; i++) {
        nigh_id id;
        nigh_view view;
        uint64_t start_us;
        nigh_status status = nigh_id_random(&id);

        start_us = clock_now_us(&clock_monotonic);
        if (status != NIGH_OK || (status = nigh_put(client, &id, data, size, NULL)) != NIGH_OK) {
            return status;
        }
        puts[i] = (double)(clock_now_us(&clock_monotonic) - start_us);
        start_us = clock_now_us(&clock_monotonic);
        for (int j = 0; j < SMALL_BATCH * 16; j++) {
            if ((status = nigh_get(client, &id, 1, 0, &view)) != NIGH_OK) {
                nigh_delete(client, &id, 1, NULL);
                return status;
            }
            nigh_release(client, &view);
        }
        gets[i] = (double)(clock_now_us(&clock_monotonic) - start_us) / (SMALL_BATCH * 16);
        start_us = clock_now_us(&clock_monotonic);
        memcpy(copy, data, size);
        __asm__ volatile("" ::"r"(copy) : "memory");
        copies[i] = (double)(clock_now_us(&clock_monotonic) - start_us);
        nigh_delete(client, &id, 1, NULL);
    }
    qsort(puts, BATCHES, sizeof *puts, compare_doubles);
    qsort(gets, BATCHES, sizeof *gets, compare_doubles);
    qsort(copies, BATCHES, sizeof *copies, compare_doubles);
    *result = (struct result){puts[BATCHES / 2], puts[BATCHES * 99 / 100], gets[BATCHES / 2],
                              copies[BATCHES / 2]};
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
        json_object_close(json);
    } else {
        printf("%10s %12.1f %12.1f %16.3f %12.1f\n", text, result->put_us, result->put_p99_us,
               result->get_us, result->memcpy_us);
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
    if (cli->json) {
        json_array_open(&json, NULL);
    } else {
        printf("%10s %12s %12s %16s %12s\n", "SIZE", "PUT us", "PUT p99 us", "GET+RELEASE us",
               "MEMCPY us");
    }
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
    if (cli->json) {
        json_array_close(&json);
    }
free_buffers:
    free(copy);
    free(data);
    return exit_code;
}

int cli_bench(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        CLI_COMMON_OPTIONS, {"offer", no_argument, NULL, 'o'}, {0}};
    int option, exit_code = CLI_OK;
    bool offer = false;

    while ((option = cli_next_option(cli, argc, argv, ":o" CLI_COMMON_SHORT, options)) != -1) {
        if (option == 'o') {
            offer = true;
        } else if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc - optind == 1 && strcmp(argv[optind], "transfer") == 0) {
        return offer ? bench_offer(cli) : bench_transfer(cli);
    }
    if (argc - optind != 1 || strcmp(argv[optind], "objects") != 0 || offer) {
        return cli_usage(cli, "bench takes what to measure: objects, or transfer [--offer]");
    }
    return bench_objects(cli);
}
