/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nigh bench rpc: how long calls take from this process: of a server of its own, a thread with a
 * session of its own at the same node, through that node and through the pair of the two; or of
 * `nigh bench rpc --serve` at another node. A first impression; the comparison with others is
 * `make bench-rpc`.
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/bench.h"
#include "base/json.h"

enum {
    CALLS = 20000,
    WARM_CALLS = 500,
    CALL_TIMEOUT_US = 5000000
};

#define SERVICE    "nigh-bench-rpc"
#define WARM_PART  0.2 /* of the time of a row, at most */
#define BEGIN_PART 0.9 /* of what is left of --timeout: then calls that are under way may end */
#define LOOK_US    UINT64_C(200000) /* how often a server looks whether it is to end */
#define ROUND_US   5e6              /* a slow node has fewer calls than CALLS */

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* ---- serve ---- */

struct server {
    nigh_client *client;
    nigh_service *service;
    uint64_t deadline_us; /* NIGH_FOREVER: none */
    uint64_t served;
    nigh_status status;
    pthread_t thread;
};

static atomic_bool is_over;

static void note_interrupt(int number)
{
    (void)number;
    atomic_store(&is_over, true);
}

/* Each request comes back as it is. NIGH_OK: it was told to end, or its time was over. */
static nigh_status serve(struct server *server)
{
    char buffer[NIGH_CALL_BYTES];
    nigh_request request;
    nigh_status status = NIGH_TIMEOUT;

    while (!atomic_load(&is_over)) {
        uint64_t at_us = clock_now_us(&clock_monotonic);
        uint64_t left_us = server->deadline_us > at_us ? server->deadline_us - at_us : 0;
        uint64_t wait_us = left_us < LOOK_US ? left_us : LOOK_US;

        if (status != NIGH_OK && status != NIGH_TIMEOUT) {
            return status;
        }
        if (status == NIGH_OK) {
            server->served++;
            status = nigh_reply_receive(&request, NIGH_OK, buffer, request.size, buffer, wait_us);
        } else if (left_us == 0) {
            return NIGH_OK;
        } else {
            status = nigh_receive(server->service, &request, buffer, wait_us);
        }
    }
    return NIGH_OK;
}

int bench_serve(struct cli *cli)
{
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = (int)SA_RESETHAND};
    struct server server = {.deadline_us = NIGH_FOREVER};
    struct json json = {0};
    int exit_code = cli_open(cli, 0);
    nigh_status status;

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = nigh_service_register(cli->client, SERVICE, NULL, &server.service);
    if (status != NIGH_OK) {
        return cli_failed(cli, status, "cannot serve " SERVICE);
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (cli->timeout_given && cli->timeout_us != NIGH_FOREVER) {
        server.deadline_us = clock_now_us(&clock_monotonic) + cli->timeout_us;
    }
    if (!cli->json) {
        printf("answering calls of " SERVICE "; Ctrl-C ends it\n");
        (void)fflush(stdout);
    }
    status = serve(&server);
    nigh_service_unregister(server.service);
    if (status != NIGH_OK) {
        return cli_failed(cli, status, "the service ended");
    }
    if (cli->json) {
        json_object_open(&json, NULL);
        json_u64(&json, "served", server.served);
        json_object_close(&json);
    } else {
        printf("%llu calls answered\n", (unsigned long long)server.served);
    }
    return CLI_OK;
}

static void *run_server(void *context)
{
    struct server *server = context;

    server->status = serve(server);
    return NULL;
}

/* ---- measure ---- */

struct round {
    const char *way;
    char service[64];
    uint32_t rank, size, at_once;
    double end_us;      /* of all rounds, by --timeout; INFINITY: they have what they take */
    uint32_t rows_left; /* that share the time until then */
    nigh_bulk *bulk;    /* brought along, which keeps calls out of pairs; NULL: none */
    bool is_answered;   /* out, as the rest: there was a server */
    uint32_t rows, calls;
    double median_us, p99_us, calls_s;
};

/* One of those that are under way. */
struct place {
    nigh_call_spec spec;
    nigh_bulk_part part;
    nigh_op op;
    double begun_us;
    char request[BENCH_RPC_MOST], reply[NIGH_CALL_BYTES];
};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static nigh_status begin_call(nigh_client *client, const struct round *round, struct place *place)
{
    double left_us;

    place->part = (nigh_bulk_part){.bulk = round->bulk, .size = 1};
    place->spec = (nigh_call_spec){.struct_size = sizeof place->spec,
                                   .service = round->service,
                                   .rank = round->rank,
                                   .request = place->request,
                                   .request_bytes = round->size,
                                   .reply = place->reply,
                                   .reply_room = sizeof place->reply,
                                   .bulk_count = round->bulk != NULL ? 1 : 0,
                                   .bulks = round->bulk != NULL ? &place->part : NULL};
    place->begun_us = now_us();
    left_us = round->end_us - place->begun_us;
    return nigh_call_start(client, &place->spec,
                           left_us >= CALL_TIMEOUT_US ? CALL_TIMEOUT_US
                           : left_us > 0              ? (uint64_t)left_us
                                                      : 0,
                           &place->op);
}

/* As many calls, at_once of them under way, begun within so long, but for the first; those that are
 * under way when one fails, or at the end, are waited for. took[n]: the microseconds of each that
 * was answered. */
static nigh_status run_calls(nigh_client *client, struct round *round, struct place *places,
                             uint32_t calls, double for_us, double *took)
{
    double begin_until_us = now_us() + for_us;
    nigh_status first = NIGH_OK;
    uint32_t begun = 0, ended = 0;

    round->calls = 0;
    for (;;) {
        struct place *oldest = &places[ended % round->at_once];
        nigh_status status;

        while (begun < calls && begun - ended < round->at_once && first == NIGH_OK &&
               (begun == 0 || now_us() < begin_until_us)) {
            first = begin_call(client, round, &places[begun % round->at_once]);
            begun += first == NIGH_OK ? 1 : 0;
        }
        if (ended == begun) {
            break;
        }
        status = nigh_wait(client, &oldest->op, NIGH_FOREVER);
        first = first == NIGH_OK ? status : first;
        ended++;
        if (status == NIGH_OK) {
            took[round->calls++] = now_us() - oldest->begun_us;
            round->is_answered = true;
        }
    }
    /* Who gave so little time has what was answered in it. */
    return first == NIGH_TIMEOUT && round->calls > 0 && now_us() >= round->end_us ? NIGH_OK : first;
}

/* What this row has of the time that is left. */
static double share_us(const struct round *round)
{
    double share = (round->end_us - now_us()) * BEGIN_PART / round->rows_left;

    return share < ROUND_US ? share : ROUND_US;
}

static nigh_status measure(nigh_client *client, struct round *round)
{
    struct place *places = calloc(round->at_once, sizeof *places);
    double *took = calloc(CALLS, sizeof *took);
    double until_us = now_us() + share_us(round), start_us;
    nigh_status status = NIGH_NO_RESOURCES;

    if (places != NULL && took != NULL) {
        status =
            run_calls(client, round, places, WARM_CALLS, (until_us - now_us()) * WARM_PART, took);
        start_us = now_us();
        if (status == NIGH_OK) {
            status = run_calls(client, round, places, CALLS, until_us - start_us, took);
        }
        if (status == NIGH_OK) {
            round->calls_s = (double)round->calls * 1e6 / (now_us() - start_us);
            qsort(took, round->calls, sizeof *took, compare_doubles);
            round->median_us = took[round->calls / 2];
            round->p99_us = took[(uint64_t)round->calls * 99 / 100];
        }
    }
    free(took);
    free(places);
    return status;
}

/* A row is seen when it is there: they take seconds. The head only when there is a row for it. */
static void print_row(struct cli *cli, struct json *json, struct round *round)
{
    if (round->rows++ == 0 && cli->json) {
        json_array_open(json, NULL);
    } else if (round->rows == 1) {
        printf("%-8s %8s %8s %12s %12s %12s\n", "WAY", "BYTES", "AT ONCE", "MEDIAN us", "P99 us",
               "CALLS/s");
    }
    if (cli->json) {
        json_object_open(json, NULL);
        json_string(json, "way", round->way);
        json_u64(json, "size_bytes", round->size);
        json_u64(json, "at_once", round->at_once);
        json_u64(json, "calls", round->calls);
        json_double(json, "median_us", round->median_us);
        json_double(json, "p99_us", round->p99_us);
        json_double(json, "calls_per_s", round->calls_s);
        json_object_close(json);
    } else {
        printf("%-8s %8u %8u %12.2f %12.2f %12.0f\n", round->way, round->size, round->at_once,
               round->median_us, round->p99_us, round->calls_s);
    }
    (void)fflush(stdout);
}

static int tell_failure(struct cli *cli, const struct round *round, const char *node,
                        nigh_status status)
{
    if (node == NULL || (status != NIGH_NOT_FOUND && status != NIGH_CLOSED)) {
        return cli_failed(cli, status, "the measurement stopped");
    }
    if (round->is_answered) {
        cli_error(cli, "the server at node %s ended during the measurement", node);
        return CLI_FAILED;
    }
    cli_error(cli, "node %s has no server: start 'nigh bench rpc --serve' there", node);
    return CLI_NOT_FOUND;
}

/* One at a time and many, or as many as was asked for. */
static int measure_way(struct cli *cli, struct json *json, struct round *round,
                       const struct bench_rpc *wanted)
{
    uint32_t counts[2] = {1, BENCH_RPC_AT_ONCE}, rows = 2;
    int exit_code = CLI_OK;

    if (wanted->at_once > 0) {
        counts[0] = wanted->at_once;
        rows = 1;
    }
    for (uint32_t n = 0; n < rows && exit_code == CLI_OK; n++, round->rows_left--) {
        nigh_status status;

        round->at_once = counts[n];
        status = measure(cli->client, round);
        if (status == NIGH_OK) {
            print_row(cli, json, round);
        } else {
            exit_code = tell_failure(cli, round, wanted->node, status);
        }
    }
    return exit_code;
}

/* ---- a server of its own ---- */

static int start_server(struct cli *cli, struct server *server, const char *name)
{
    nigh_client_options options = {.struct_size = sizeof options,
                                   .socket_path = cli->socket_path,
                                   .pool = cli->pool,
                                   .name = "nigh bench"};
    nigh_status status = nigh_client_open(&options, &server->client);

    server->deadline_us = NIGH_FOREVER;
    if (status == NIGH_OK) {
        status = nigh_service_register(server->client, name, NULL, &server->service);
    }
    if (status == NIGH_OK && pthread_create(&server->thread, NULL, run_server, server) != 0) {
        status = NIGH_NO_RESOURCES;
    }
    if (status != NIGH_OK) {
        nigh_service_unregister(server->service);
        nigh_client_close(server->client);
        return cli_failed(cli, status, "cannot serve");
    }
    return CLI_OK;
}

static void stop_server(struct server *server)
{
    atomic_store(&is_over, true);
    (void)pthread_join(server->thread, NULL);
    nigh_service_unregister(server->service);
    nigh_client_close(server->client);
}

static int measure_here(struct cli *cli, struct json *json, struct round *round,
                        const struct bench_rpc *wanted)
{
    struct server server = {0};
    void *memory;
    int exit_code;
    nigh_status status;

    (void)snprintf(round->service, sizeof round->service, SERVICE "-%d", (int)getpid());
    exit_code = start_server(cli, &server, round->service);
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = nigh_bulk_alloc(cli->client, 1, NIGH_BULK_READ, &memory, &round->bulk);
    if (status != NIGH_OK) {
        exit_code = cli_failed(cli, status, "no memory for calls");
    } else {
        round->way = "node";
        exit_code = measure_way(cli, json, round, wanted);
        (void)nigh_bulk_close(round->bulk, CALL_TIMEOUT_US);
        round->bulk = NULL;
    }
    if (exit_code == CLI_OK) {
        round->way = "pair";
        exit_code = measure_way(cli, json, round, wanted);
    }
    stop_server(&server);
    return exit_code;
}

int bench_rpc(struct cli *cli, const struct bench_rpc *wanted)
{
    struct round round = {.way = "remote",
                          .service = SERVICE,
                          .rank = NIGH_ANY_RANK,
                          .size = wanted->size > 0 ? wanted->size : BENCH_RPC_SIZE,
                          .end_us = INFINITY,
                          .rows_left = (wanted->at_once > 0 ? 1 : 2) *
                                       (wanted->node != NULL ? 1 : 2)}; /* ways: measure_here */
    struct json json = {0};
    int exit_code = cli_open(cli, 0);

    if (exit_code == CLI_OK && wanted->node != NULL) {
        exit_code = cli_find_node(cli, "--node", wanted->node, strlen(wanted->node), &round.rank);
    }
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    if (cli->timeout_given && cli->timeout_us != NIGH_FOREVER) {
        round.end_us = now_us() + (double)cli->timeout_us;
    }
    exit_code = wanted->node != NULL ? measure_way(cli, &json, &round, wanted)
                                     : measure_here(cli, &json, &round, wanted);
    if (round.rows > 0 && cli->json) {
        cli_error_object(cli, &json, exit_code);
        json_array_close(&json);
    }
    return exit_code;
}
