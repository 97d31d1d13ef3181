/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nigh bench region: how long reads, writes and additions of a region take from this process, where
 * its chunk lies at this node, or at another. One operation at a time; where there is much of it,
 * or a size was asked for, also into and from memory for calls, without a copy on the way. A first
 * impression; the comparison with others is `make bench-region`.
 */
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cli/bench.h"
#include "base/json.h"

enum {
    OPS = 2000,
    WARM_OPS = 100,
    OP_TIMEOUT_US = 5000000,
    CLEAN_US = 2000000, /* to free the region, whatever --timeout says; and what others left */
    LEFT_PARTS = 8,     /* of the time, for one of which it is looked for that */
    SIZES = 4,
    FILL = 0x5a /* every byte of the region but for the word that is added to */
};

#define WARM_PART  0.2 /* of the time of a row, at most */
#define BEGIN_PART 0.9 /* of what is left of --timeout: then what is under way may end */
#define ROUND_US   5e5 /* a slow node has fewer operations than OPS */
#define WORD_AT    BENCH_REGION_MOST

static const uint32_t sizes[SIZES] = {64, 4 << 10, 64 << 10, BENCH_REGION_MOST};

struct run {
    struct cli *cli;
    struct json json;
    char name[BENCH_REGION_NAME];
    nigh_region *region;
    uint8_t *own; /* as much as the largest operation has */
    nigh_bulk *bulk;
    uint8_t *memory;    /* of the bulk, as much */
    double end_us;      /* by --timeout; INFINITY: the rows have what they take */
    uint32_t rows_left; /* that share the time until then */
    uint32_t rows;      /* that were printed */
};

struct operation {
    const char *name;
    nigh_status (*run)(struct run *run, uint32_t size, uint64_t timeout_us);
    bool brings_own, brings_memory; /* what it fills */
};

struct row {
    const struct operation *operation;
    uint32_t size, count;
    double median_us, p99_us, mb_s;
};

static atomic_bool is_over;

static void note_interrupt(int number)
{
    (void)number;
    atomic_store(&is_over, true);
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* What is left of --timeout, for something that may take so long. */
static uint64_t left_us(const struct run *run, uint32_t most_us)
{
    double left = run->end_us - now_us();

    return left >= most_us ? most_us : left > 0 ? (uint64_t)left : 0;
}

/* ---- operations ----------------------------------------------------------- */

static nigh_status run_read(struct run *run, uint32_t size, uint64_t timeout_us)
{
    return nigh_region_read(run->region, 0, run->own, size, timeout_us);
}

static nigh_status run_write(struct run *run, uint32_t size, uint64_t timeout_us)
{
    return nigh_region_write(run->region, 0, run->own, size, timeout_us);
}

static nigh_status run_read_into(struct run *run, uint32_t size, uint64_t timeout_us)
{
    nigh_bulk_part part = {.bulk = run->bulk, .size = size};

    return nigh_region_read_into(run->region, 0, &part, timeout_us);
}

static nigh_status run_write_from(struct run *run, uint32_t size, uint64_t timeout_us)
{
    nigh_bulk_part part = {.bulk = run->bulk, .size = size};

    return nigh_region_write_from(run->region, 0, &part, timeout_us);
}

static nigh_status run_add(struct run *run, uint32_t size, uint64_t timeout_us)
{
    (void)size;
    return nigh_region_fetch_add(run->region, WORD_AT, 1, timeout_us, NULL);
}

static const struct operation op_read = {"read", run_read, true, false};
static const struct operation op_write = {"write", run_write, false, false};
static const struct operation op_read_into = {"read-into", run_read_into, false, true};
static const struct operation op_write_from = {"write-from", run_write_from, false, false};
static const struct operation op_add = {"add", run_add, false, false};

/* Why the run ends here: what had no time had too little of --timeout, or its node has it wait. */
static int tell_stopped(struct run *run, const char *what, uint32_t size, nigh_status status)
{
    if (status == NIGH_NO_QUORUM) {
        cli_error(run->cli,
                  "%s: this node has just begun, or is cut off from most voters (nigh "
                  "nodes, nigh doctor)",
                  what);
    } else if (status == NIGH_TIMEOUT && size > 0 && now_us() >= run->end_us) {
        cli_error(run->cli, "%s of %u bytes: --timeout was over before one had ended", what, size);
    } else if (status == NIGH_TIMEOUT && size > 0) {
        cli_error(run->cli,
                  "%s of %u bytes: one was not done in %u s: the node has much to do, or has this "
                  "client wait (nighd --session-ops, --session-rate)",
                  what, size, OP_TIMEOUT_US / 1000000);
    } else {
        return cli_failed(run->cli, status, what);
    }
    return cli_exit_code(status);
}

/* ---- measure -------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* One after another, all begun before until_us, but for the first. took[n]: their microseconds. */
static nigh_status run_some(struct run *run, struct row *row, uint32_t count, double until_us,
                            double *took)
{
    nigh_status status = NIGH_OK;

    for (row->count = 0; row->count < count && !atomic_load(&is_over);) {
        double begun_us = now_us();

        if (row->count > 0 && begun_us >= until_us) {
            break;
        }
        status = row->operation->run(run, row->size, left_us(run, OP_TIMEOUT_US));
        if (status != NIGH_OK) {
            break;
        }
        took[row->count++] = now_us() - begun_us;
    }
    /* Who gave so little time has what was done in it. */
    return status == NIGH_TIMEOUT && row->count > 0 && now_us() >= run->end_us ? NIGH_OK : status;
}

static nigh_status measure(struct run *run, struct row *row)
{
    double share_us = (run->end_us - now_us()) * BEGIN_PART / run->rows_left, start_us, took[OPS];
    nigh_status status;

    share_us = share_us < ROUND_US ? share_us : ROUND_US;
    start_us = now_us();
    status = run_some(run, row, WARM_OPS, start_us + share_us * WARM_PART, took);
    if (status != NIGH_OK) {
        return status;
    }
    memset(run->own, row->operation->brings_own ? 0 : FILL, BENCH_REGION_MOST);
    memset(run->memory, row->operation->brings_memory ? 0 : FILL, BENCH_REGION_MOST);
    share_us -= now_us() - start_us;
    start_us = now_us();
    status = run_some(run, row, OPS, start_us + share_us, took);
    if (status == NIGH_OK && row->count > 0) {
        row->mb_s = (double)row->size * row->count / (now_us() - start_us); /* bytes a us */
        qsort(took, row->count, sizeof *took, compare_doubles);
        row->median_us = took[row->count / 2];
        row->p99_us = took[(uint64_t)row->count * 99 / 100];
    }
    return status;
}

/* Whether what was brought is what the region is full of. */
static bool came_right(const struct run *run, const struct row *row)
{
    const uint8_t *bytes = row->operation->brings_own      ? run->own
                           : row->operation->brings_memory ? run->memory
                                                           : NULL;

    for (uint32_t n = 0; bytes != NULL && n < row->size; n++) {
        if (bytes[n] != FILL) {
            return false;
        }
    }
    return true;
}

/* A row is seen when it is there. The head only when there is a row for it. */
static void print_row(struct run *run, const struct row *row)
{
    struct json *json = &run->json;

    if (run->rows++ == 0 && run->cli->json) {
        json_array_open(json, NULL);
    } else if (run->rows == 1) {
        printf("%-10s %8s %8s %12s %12s %12s\n", "OPERATION", "BYTES", "COUNT", "MEDIAN us",
               "P99 us", "MB/s");
    }
    if (run->cli->json) {
        json_object_open(json, NULL);
        json_string(json, "operation", row->operation->name);
        json_u64(json, "size_bytes", row->size);
        json_u64(json, "count", row->count);
        json_double(json, "median_us", row->median_us);
        json_double(json, "p99_us", row->p99_us);
        json_double(json, "mb_per_s", row->mb_s);
        json_object_close(json);
    } else {
        printf("%-10s %8u %8u %12.2f %12.2f %12.1f\n", row->operation->name, row->size, row->count,
               row->median_us, row->p99_us, row->mb_s);
    }
    (void)fflush(stdout);
}

static int measure_row(struct run *run, const struct operation *operation, uint32_t size)
{
    struct row row = {.operation = operation, .size = size};
    nigh_status status = measure(run, &row);

    if (status != NIGH_OK) {
        return tell_stopped(run, operation->name, size, status);
    }
    if (atomic_load(&is_over)) {
        cli_error(run->cli, "interrupted");
        return CLI_FAILED;
    }
    if (!came_right(run, &row)) {
        cli_error(run->cli, "%s: other bytes came than were written", operation->name);
        return CLI_CORRUPT;
    }
    print_row(run, &row);
    run->rows_left--;
    return CLI_OK;
}

static int measure_size(struct run *run, uint32_t size, bool with_memory)
{
    const struct operation *operations[] = {&op_read, &op_write, &op_read_into, &op_write_from};
    uint32_t count = with_memory ? 4 : 2;
    int exit_code = CLI_OK;

    for (uint32_t n = 0; n < count && exit_code == CLI_OK; n++) {
        exit_code = measure_row(run, operations[n], size);
    }
    return exit_code;
}

static int measure_all(struct run *run, uint32_t size)
{
    int exit_code = CLI_OK;

    if (size > 0) {
        run->rows_left = 4;
        return measure_size(run, size, true);
    }
    run->rows_left = 2 * SIZES + 2 + 1;
    for (uint32_t n = 0; n < SIZES && exit_code == CLI_OK; n++) {
        exit_code = measure_size(run, sizes[n], n == SIZES - 1);
    }
    return exit_code == CLI_OK ? measure_row(run, &op_add, sizeof(uint64_t)) : exit_code;
}

/* ---- the region ----------------------------------------------------------- */

static int create(struct run *run, const struct bench_region *wanted)
{
    nigh_region_spec spec = {.struct_size = sizeof spec,
                             .name = run->name,
                             .size = WORD_AT + sizeof(uint64_t),
                             .where = wanted->node != NULL ? NIGH_REGION_ON : NIGH_REGION_LOCAL};
    int exit_code = CLI_OK;
    nigh_status status;

    if (wanted->node != NULL) {
        exit_code = cli_find_member(run->cli, "--node", wanted->node, &spec.rank);
    }
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = bench_region_name(run->name);
    if (status == NIGH_OK) {
        status =
            nigh_region_create(run->cli->client, &spec, left_us(run, OP_TIMEOUT_US), &run->region);
    }
    return status == NIGH_OK ? CLI_OK : tell_stopped(run, "no region to measure", 0, status);
}

/* Also one of which it is not known whether it was made. */
static int destroy(struct run *run, int exit_code)
{
    nigh_status status = NIGH_OK;

    if (run->region == NULL && run->name[0] != '\0') {
        status = nigh_region_open(run->cli->client, run->name, NIGH_REGION_MASTER, CLEAN_US,
                                  &run->region);
    }
    if (run->region != NULL) {
        status = nigh_region_free(run->region, CLEAN_US);
        nigh_region_close(run->region);
    }
    if (status == NIGH_OK || status == NIGH_NOT_FOUND || status == NIGH_UNSUPPORTED) {
        return exit_code;
    }
    cli_error(run->cli, "region %s may be left: nigh region rm %s", run->name, run->name);
    return exit_code == CLI_OK ? cli_exit_code(status) : exit_code;
}

static int prepare(struct run *run, const struct bench_region *wanted)
{
    uint64_t most_us = left_us(run, CLEAN_US * LEFT_PARTS);
    nigh_status status;
    int exit_code;
    void *memory;

    bench_remove_left(run->cli->client, most_us / LEFT_PARTS);
    exit_code = create(run, wanted);
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = nigh_bulk_alloc(run->cli->client, BENCH_REGION_MOST, NIGH_BULK_READ | NIGH_BULK_WRITE,
                             &memory, &run->bulk);
    if (status != NIGH_OK) {
        return cli_failed(run->cli, status, "no memory for calls");
    }
    run->memory = memory;
    memset(run->own, FILL, BENCH_REGION_MOST);
    status =
        nigh_region_write(run->region, 0, run->own, BENCH_REGION_MOST, left_us(run, OP_TIMEOUT_US));
    return status == NIGH_OK ? CLI_OK
                             : tell_stopped(run, "the first write", BENCH_REGION_MOST, status);
}

int bench_region(struct cli *cli, const struct bench_region *wanted)
{
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = (int)SA_RESETHAND};
    struct run run = {.cli = cli, .own = malloc(BENCH_REGION_MOST), .end_us = INFINITY};
    int exit_code = CLI_FULL;

    if (run.own == NULL) {
        cli_error(cli, "no memory");
        return exit_code;
    }
    exit_code = cli_open(cli, 0);
    if (exit_code == CLI_OK) {
        if (cli->timeout_given && cli->timeout_us != NIGH_FOREVER) {
            run.end_us = now_us() + (double)cli->timeout_us;
        }
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        exit_code = prepare(&run, wanted);
        if (exit_code == CLI_OK) {
            exit_code = measure_all(&run, wanted->size);
        }
        exit_code = destroy(&run, exit_code);
    }
    if (run.rows > 0 && cli->json) {
        cli_error_object(cli, &run.json, exit_code);
        json_array_close(&run.json);
    }
    free(run.own);
    return exit_code;
}
