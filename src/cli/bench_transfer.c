/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nigh bench transfer: how fast objects come here from the node where `nigh bench transfer --offer`
 * put them. A first impression of a link, from a client; the comparison with peers is
 * `make bench-transfer`. What was offered is used up: each object is got once, and deleted
 * everywhere.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "cli/bench.h"
#include "base/json.h"

struct offer {
    uint64_t size_bytes;
    uint32_t count;
};

enum {
    OFFERS = 6,
    COUNT_MOST = 64
};

#define LOOK_US UINT64_C(200000) /* how often a wait looks whether it is interrupted */

static const struct offer offers[OFFERS] = {
    {UINT64_C(1) << 10, 64}, {UINT64_C(8) << 10, 64}, {UINT64_C(64) << 10, 32},
    {UINT64_C(1) << 20, 16}, {UINT64_C(4) << 20, 8},  {UINT64_C(64) << 20, 2},
};

static nigh_status offered_id(const struct offer *offer, uint32_t number, char name[64],
                              nigh_id *id)
{
    (void)snprintf(name, 64, "nigh-bench-%llu-%u", (unsigned long long)offer->size_bytes, number);
    return nigh_id_from_name(name, id);
}

/* ---- every way out ---- */

static volatile sig_atomic_t interrupted;

static void note_interrupt(int number)
{
    interrupted = number;
}

/* The first Ctrl-C ends it in order; a second one at once. */
static void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = (int)SA_RESETHAND};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Deletes what is left of an offer, wherever it is: how many objects that were. The first failure
 * of a delete, or NIGH_OK. */
static nigh_status withdraw(struct cli *cli, uint32_t *deleted)
{
    nigh_status first = NIGH_OK;

    *deleted = 0;
    for (int i = 0; i < OFFERS; i++) {
        nigh_status statuses[COUNT_MOST], status;
        nigh_id ids[COUNT_MOST];
        char name[64];

        for (uint32_t n = 0; n < offers[i].count; n++) {
            (void)offered_id(&offers[i], n, name, &ids[n]);
            statuses[n] = NIGH_PENDING;
        }
        status = nigh_delete(cli->client, ids, offers[i].count, statuses);
        for (uint32_t n = 0; n < offers[i].count; n++) {
            /* PENDING: of a call that did not begin */
            nigh_status ended = statuses[n] == NIGH_PENDING ? status : statuses[n];
            bool gone = ended == NIGH_OK || ended == NIGH_IN_USE;

            *deleted += gone;
            if (!gone && ended != NIGH_NOT_FOUND && first == NIGH_OK) {
                first = ended;
            }
        }
    }
    return first;
}

int bench_withdraw(struct cli *cli)
{
    struct json json = {0};
    int exit_code = cli_open(cli, 0);
    uint32_t deleted;
    nigh_status status;

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = withdraw(cli, &deleted);
    if (status != NIGH_OK) {
        return cli_failed(cli, status, "the offer is not withdrawn");
    }
    if (cli->json) {
        json_object_open(&json, NULL);
        json_u64(&json, "deleted", deleted);
        json_object_close(&json);
    } else {
        printf("%u objects of an offer deleted\n", deleted);
    }
    return CLI_OK;
}

/* Whether the node can have so much at all. */
static int check_fits(struct cli *cli, uint64_t bytes)
{
    char wanted[BYTES_SIZE_TEXT], memory[BYTES_SIZE_TEXT];
    nigh_node_stats stats = {.struct_size = sizeof stats};
    nigh_status status = nigh_stats(cli->client, &stats);

    if (status != NIGH_OK) {
        return cli_failed(cli, status, "the node's memory is not known");
    }
    if (stats.memory_bytes > bytes) {
        return CLI_OK;
    }
    bytes_format_size(bytes, wanted);
    bytes_format_size(stats.memory_bytes, memory);
    cli_error(cli, "it takes more than %s, and the node has %s (nighd --memory)", wanted, memory);
    return CLI_FULL;
}

static uint64_t all_bytes(void)
{
    uint64_t bytes = 0;

    for (int i = 0; i < OFFERS; i++) {
        bytes += offers[i].count * offers[i].size_bytes;
    }
    return bytes;
}

/* ---- the side that has them ---- */

static nigh_status offer_one(nigh_client *client, const struct offer *offer, uint32_t number,
                             const char *data)
{
    nigh_create_options options = {.data_size = offer->size_bytes};
    char name[64];
    nigh_id id;
    nigh_status status = offered_id(offer, number, name, &id);

    options.name = name;
    if (status == NIGH_OK) {
        status = nigh_put(client, &id, data, offer->size_bytes, &options);
    }
    return status == NIGH_EXISTS ? NIGH_OK : status;
}

static int open_in_cluster(struct cli *cli)
{
    int exit_code = cli_open(cli, 0);

    if (exit_code == CLI_OK && cli_is_alone(cli)) {
        cli_error(cli, "the node is alone, and transfers are between two (nighd --join)");
        return CLI_FAILED;
    }
    return exit_code;
}

static void print_offer(const struct cli *cli)
{
    uint64_t objects = 0;
    struct json json = {0};
    char name[64];
    nigh_id id;

    if (!cli->json) {
        printf("offered; now run 'nigh bench transfer' at another node, or 'nigh bench transfer "
               "--withdraw' to delete it\n");
        return;
    }
    json_object_open(&json, NULL);
    json_array_open(&json, "sizes");
    for (int i = 0; i < OFFERS; i++) {
        objects += offers[i].count;
        json_object_open(&json, NULL);
        json_u64(&json, "size_bytes", offers[i].size_bytes);
        json_u64(&json, "count", offers[i].count);
        (void)offered_id(&offers[i], 0, name, &id);
        json_string(&json, "first", name);
        (void)offered_id(&offers[i], offers[i].count - 1, name, &id);
        json_string(&json, "last", name);
        json_object_close(&json);
    }
    json_array_close(&json);
    json_u64(&json, "objects", objects);
    json_u64(&json, "bytes", all_bytes());
    json_object_close(&json);
}

int bench_offer(struct cli *cli)
{
    char *data = malloc(offers[OFFERS - 1].size_bytes);
    int exit_code = data == NULL ? CLI_FULL : open_in_cluster(cli);
    bool began = false; /* before that, what there is may be another's offer */
    uint32_t deleted;

    exit_code = exit_code == CLI_OK ? check_fits(cli, all_bytes()) : exit_code;
    catch_interrupts();
    for (int i = 0; i < OFFERS && exit_code == CLI_OK; i++) {
        memset(data, i + 1, offers[i].size_bytes);
        for (uint32_t n = 0; n < offers[i].count && exit_code == CLI_OK; n++) {
            nigh_status status = offer_one(cli->client, &offers[i], n, data);

            began = began || status == NIGH_OK;
            if (status != NIGH_OK) {
                exit_code = cli_failed(cli, status, "the offer stopped");
            } else if (interrupted != 0) {
                cli_error(cli, "interrupted");
                exit_code = CLI_FAILED;
            }
        }
    }
    if (began && exit_code != CLI_OK) {
        (void)withdraw(cli, &deleted);
    }
    if (exit_code == CLI_OK) {
        print_offer(cli);
    }
    free(data);
    return exit_code;
}

/* ---- the side that gets them ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Looks now and then whether it is interrupted. */
static nigh_status get_or_stop(nigh_client *client, const nigh_id *id, uint64_t timeout_us,
                               nigh_view *view)
{
    nigh_op op;
    nigh_status status = nigh_get_start(client, id, 1, timeout_us, view, &op);

    if (status != NIGH_OK) {
        return status;
    }
    do {
        (void)nigh_wait(client, &op, LOOK_US);
    } while (nigh_op_status(&op) == NIGH_PENDING && interrupted == 0);
    status = nigh_op_status(&op);
    return status == NIGH_PENDING ? nigh_cancel(client, &op) : status;
}

/* Whether an object that was got lay on this node before: to get it was no transfer. */
static bool was_here(nigh_client *client, const nigh_id *id)
{
    nigh_object_info info;

    return nigh_stat(client, id, &info) == NIGH_OK && info.copy == 0;
}

/* Gets one object and uses it up, unless it is this node's own; its time in microseconds. */
static nigh_status take_one(nigh_client *client, const struct offer *offer, uint32_t number,
                            uint64_t timeout_us, double *us, bool *own)
{
    char name[64];
    nigh_id id;
    nigh_view view;
    nigh_status status = offered_id(offer, number, name, &id);
    uint64_t start_us = clock_now_us(&clock_monotonic);

    if (status != NIGH_OK) {
        return status;
    }
    status = get_or_stop(client, &id, timeout_us, &view);
    *us = (double)(clock_now_us(&clock_monotonic) - start_us);
    if (status != NIGH_OK) {
        return status;
    }
    *own = was_here(client, &id);
    (void)nigh_release(client, &view);
    if (!*own) {
        (void)nigh_delete(client, &id, 1, NULL);
    }
    return NIGH_OK;
}

static void print_row(const struct cli *cli, struct json *json, const struct offer *offer,
                      const double *us)
{
    double median = us[offer->count / 2], p99 = us[offer->count * 99 / 100];
    double rate = median > 0 ? (double)offer->size_bytes / median : 0; /* bytes a us: MB/s */
    char text[BYTES_SIZE_TEXT];

    bytes_format_size(offer->size_bytes, text);
    if (cli->json) {
        json_object_open(json, NULL);
        json_u64(json, "size_bytes", offer->size_bytes);
        json_u64(json, "count", offer->count);
        json_double(json, "get_us", median);
        json_double(json, "get_p99_us", p99);
        json_double(json, "mb_per_s", rate);
        json_object_close(json);
    } else {
        printf("%10s %8u %12.1f %12.1f %12.1f\n", text, offer->count, median, p99, rate);
    }
}

static void begin_table(const struct cli *cli, struct json *json)
{
    if (cli->json) {
        json_array_open(json, NULL);
    } else {
        printf("%10s %8s %12s %12s %12s\n", "SIZE", "COUNT", "GET us", "GET p99 us", "MB/s");
    }
}

/* *began: one was taken. Until then an offer may be in the making, which is not ours to end. */
static int take_all(struct cli *cli, struct json *json, const struct offer *offer, bool *began)
{
    double us[COUNT_MOST];
    bool own = false;

    for (uint32_t n = 0; n < offer->count; n++) {
        nigh_status status = take_one(cli->client, offer, n, cli->timeout_us, &us[n], &own);

        if (status == NIGH_OK && own) {
            cli_error(cli,
                      "what is offered lies on this node itself, where nothing is transferred; "
                      "run 'nigh bench transfer' at another node");
            return CLI_FAILED;
        }
        *began = *began || status == NIGH_OK;
        if (interrupted != 0) {
            cli_error(cli, *began ? "interrupted; what was offered is deleted" : "interrupted");
            return CLI_FAILED;
        }
        if (status == NIGH_TIMEOUT) {
            cli_error(cli, "nothing is offered; run 'nigh bench transfer --offer' at another node");
            return CLI_TIMEOUT;
        }
        if (status != NIGH_OK) {
            return cli_failed(cli, status, "the measurement stopped");
        }
    }
    qsort(us, offer->count, sizeof *us, compare_doubles);
    /* Only when there is a row for it. */
    if (offer == offers) {
        begin_table(cli, json);
    }
    print_row(cli, json, offer, us);
    return CLI_OK;
}

int bench_transfer(struct cli *cli)
{
    struct json json = {0};
    int exit_code = open_in_cluster(cli);
    bool began = false;
    uint32_t deleted;

    exit_code = exit_code == CLI_OK ? check_fits(cli, offers[OFFERS - 1].size_bytes) : exit_code;
    catch_interrupts();
    if (!cli->timeout_given) {
        cli->timeout_us = 5000000;
    }
    for (int i = 0; i < OFFERS && exit_code == CLI_OK; i++) {
        exit_code = take_all(cli, &json, &offers[i], &began);
    }
    if (began && exit_code != CLI_OK) {
        (void)withdraw(cli, &deleted);
    }
    if (cli->json && json.depth > 0) {
        cli_error_object(cli, &json, exit_code);
        json_array_close(&json);
    }
    return exit_code;
}
