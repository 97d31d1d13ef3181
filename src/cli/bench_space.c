/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nigh bench space: what a word of a space costs this process: read where it is here, or, at the
 * home of another node, for the first time; written, and written and waited for; added to; and a
 * block locked. What takes nanoseconds is timed by many at once. A first impression; the comparison
 * with others is `make bench-space`.
 */
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/bench.h"
#include "base/json.h"
#include "nigh/space.h"

enum {
    TIMES = 1000, /* that a row has at most */
    WARM_TIMES = 50,
    SOME = 64, /* operations that are timed at once where one takes nanoseconds */
    BLOCK = 512,
    FRESH = 2048, /* blocks that are read once; two of their own are behind them */
    HOME_BYTES = 2 * FRESH * BLOCK,
    CACHE_BYTES = FRESH * BLOCK,
    OP_TIMEOUT_US = 5000000,
    CLEAN_US = 2000000, /* to delete the space, whatever --timeout says; and what others left */
    LEFT_PARTS = 8      /* of the time, for one of which it is looked for that */
};

#define BEGIN_PART 0.9 /* of what is left of --timeout: then what is under way may end */
#define ROUND_US   5e5 /* a slow node has fewer operations than TIMES */

struct run {
    struct cli *cli;
    struct json json;
    char name[BENCH_SPACE_NAME];
    nigh_space *space;
    nigh_space_address fresh, hot, locked;
    uint32_t used; /* of what is fresh */
    double end_us; /* by --timeout; INFINITY: the rows have what they take */
    uint32_t rows_left;
    uint32_t rows; /* that were printed */
};

struct operation {
    const char *name;
    nigh_status (*run)(struct run *run, uint64_t timeout_us);
    uint32_t at_once;
    nigh_status (*after)(struct run *run, uint64_t timeout_us); /* not timed; NULL: nothing */
    bool is_far; /* only where another node has the home */
};

struct row {
    const struct operation *operation;
    uint32_t count;
    double median_us, p99_us;
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

static nigh_status run_read(struct run *run, uint64_t timeout_us)
{
    uint64_t value;

    return nigh_space_read(run->space, run->hot, &value, sizeof value, timeout_us);
}

static nigh_status run_read_first(struct run *run, uint64_t timeout_us)
{
    nigh_space_address address = run->fresh + (nigh_space_address)(run->used++ % FRESH) * BLOCK;
    uint64_t value;

    return nigh_space_read(run->space, address, &value, sizeof value, timeout_us);
}

static nigh_status run_write(struct run *run, uint64_t timeout_us)
{
    uint64_t value = run->used;

    return nigh_space_write(run->space, run->hot, &value, sizeof value, timeout_us);
}

static nigh_status run_fence(struct run *run, uint64_t timeout_us)
{
    return nigh_space_fence(run->space, timeout_us);
}

static nigh_status run_write_fence(struct run *run, uint64_t timeout_us)
{
    nigh_status status = run_write(run, timeout_us);

    return status == NIGH_OK ? run_fence(run, timeout_us) : status;
}

static nigh_status run_add(struct run *run, uint64_t timeout_us)
{
    return nigh_space_fetch_add(run->space, run->hot, 1, timeout_us, NULL);
}

static nigh_status run_lock(struct run *run, uint64_t timeout_us)
{
    nigh_status status = nigh_space_lock_write(run->space, run->locked, 1, timeout_us);

    return status == NIGH_OK ? nigh_space_unlock(run->space, run->locked, 1, timeout_us) : status;
}

static const struct operation operations[] = {
    {"read", run_read, SOME, NULL, false},
    {"write", run_write, SOME, run_fence, false},
    {"write-fence", run_write_fence, 1, NULL, false},
    {"add", run_add, 1, NULL, false},
    {"lock", run_lock, 1, NULL, false},
    {"read-first", run_read_first, 1, NULL, true},
};

enum {
    OPERATIONS = sizeof operations / sizeof *operations
};

/* Why the run ends here. */
static int tell_stopped(struct run *run, const char *what, nigh_status status)
{
    if (status == NIGH_NO_QUORUM) {
        cli_error(run->cli,
                  "%s: this node has just begun, or is cut off from most voters (nigh nodes, nigh "
                  "doctor)",
                  what);
        return cli_exit_code(status);
    }
    return cli_failed(run->cli, status, what);
}

/* ---- measure -------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static nigh_status run_once(struct run *run, const struct operation *operation, double *took_us)
{
    double begun_us = now_us();
    nigh_status status = NIGH_OK;

    for (uint32_t n = 0; n < operation->at_once && status == NIGH_OK; n++) {
        status = operation->run(run, left_us(run, OP_TIMEOUT_US));
    }
    *took_us = (now_us() - begun_us) / operation->at_once;
    if (status == NIGH_OK && operation->after != NULL) {
        status = operation->after(run, left_us(run, OP_TIMEOUT_US));
    }
    return status;
}

/* One after another, all begun before until_us, but for the first. */
static nigh_status run_some(struct run *run, struct row *row, uint32_t count, double until_us,
                            double *took)
{
    nigh_status status = NIGH_OK;

    for (row->count = 0; row->count < count && !atomic_load(&is_over);) {
        if (row->count > 0 && now_us() >= until_us) {
            break;
        }
        status = run_once(run, row->operation, &took[row->count]);
        if (status != NIGH_OK) {
            break;
        }
        row->count++;
    }
    /* Who gave so little time has what was done in it. */
    return status == NIGH_TIMEOUT && row->count > 0 && now_us() >= run->end_us ? NIGH_OK : status;
}

static nigh_status measure(struct run *run, struct row *row)
{
    double share_us = (run->end_us - now_us()) * BEGIN_PART / run->rows_left, took[TIMES];
    double until_us = now_us() + (share_us < ROUND_US ? share_us : ROUND_US);
    nigh_status status = NIGH_OK;

    /* What is fresh is not used up by that. */
    if (!row->operation->is_far) {
        status = run_some(run, row, WARM_TIMES, until_us, took);
    }
    if (status == NIGH_OK) {
        status = run_some(run, row, TIMES, until_us, took);
    }
    if (status == NIGH_OK && row->count > 0) {
        qsort(took, row->count, sizeof *took, compare_doubles);
        row->median_us = took[row->count / 2];
        row->p99_us = took[(uint64_t)row->count * 99 / 100];
    }
    return status;
}

/* A row is seen when it is there. The head only when there is a row for it. */
static void print_row(struct run *run, const struct row *row)
{
    struct json *json = &run->json;
    uint32_t count = row->count * row->operation->at_once;

    if (run->rows++ == 0 && run->cli->json) {
        json_array_open(json, NULL);
    } else if (run->rows == 1) {
        printf("%-12s %8s %12s %12s\n", "OPERATION", "COUNT", "MEDIAN us", "P99 us");
    }
    if (run->cli->json) {
        json_object_open(json, NULL);
        json_string(json, "operation", row->operation->name);
        json_u64(json, "count", count);
        json_double(json, "median_us", row->median_us);
        json_double(json, "p99_us", row->p99_us);
        json_object_close(json);
    } else {
        printf("%-12s %8u %12.3f %12.3f\n", row->operation->name, count, row->median_us,
               row->p99_us);
    }
    (void)fflush(stdout);
}

static int measure_row(struct run *run, const struct operation *operation)
{
    struct row row = {.operation = operation};
    nigh_status status = measure(run, &row);

    if (status != NIGH_OK) {
        return tell_stopped(run, operation->name, status);
    }
    if (atomic_load(&is_over)) {
        cli_error(run->cli, "interrupted");
        return CLI_FAILED;
    }
    print_row(run, &row);
    run->rows_left--;
    return CLI_OK;
}

static int measure_all(struct run *run, bool is_far)
{
    int exit_code = CLI_OK;

    run->rows_left = is_far ? OPERATIONS : OPERATIONS - 1;
    for (uint32_t n = 0; n < OPERATIONS && exit_code == CLI_OK; n++) {
        if (is_far || !operations[n].is_far) {
            exit_code = measure_row(run, &operations[n]);
        }
    }
    return exit_code;
}

/* ---- the space ------------------------------------------------------------ */

static nigh_status allocate(struct run *run, nigh_space_address near)
{
    nigh_status status = nigh_space_alloc(run->space, (uint64_t)(FRESH + 2) * BLOCK, near,
                                          left_us(run, OP_TIMEOUT_US), &run->fresh);

    run->hot = run->fresh + (nigh_space_address)FRESH * BLOCK;
    run->locked = run->hot + BLOCK;
    return status;
}

static int create(struct run *run, const char *node, bool *is_far)
{
    nigh_space_spec spec = {.struct_size = sizeof spec,
                            .name = run->name,
                            .home_size = HOME_BYTES,
                            .cache_size = CACHE_BYTES,
                            .block_size = BLOCK};
    nigh_space_info info = {.struct_size = sizeof info};
    nigh_space_address near = 0;
    int exit_code = CLI_OK;
    nigh_status status;
    uint32_t rank = 0;

    if (node != NULL) {
        exit_code = cli_find_member(run->cli, "--node", node, &rank);
        near = NIGH_SPACE_ON(rank);
    }
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = bench_space_name(run->name);
    if (status == NIGH_OK) {
        status =
            nigh_space_create(run->cli->client, &spec, left_us(run, OP_TIMEOUT_US), &run->space);
    }
    if (status == NIGH_OK) {
        status = nigh_space_stat(run->cli->client, run->name, left_us(run, OP_TIMEOUT_US), &info);
    }
    if (status == NIGH_OK) {
        *is_far = node != NULL && rank != info.rank;
        status = allocate(run, near);
    }
    return status == NIGH_OK ? CLI_OK : tell_stopped(run, "no space to measure", status);
}

/* Also one of which it is not known whether it was made. */
static int destroy(struct run *run, int exit_code)
{
    nigh_status status = NIGH_OK;

    nigh_space_close(run->space);
    if (run->name[0] != '\0') {
        status = nigh_space_delete(run->cli->client, run->name, CLEAN_US);
    }
    if (status == NIGH_OK || status == NIGH_NOT_FOUND || status == NIGH_UNSUPPORTED) {
        return exit_code;
    }
    cli_error(run->cli, "space %s may be left: nigh space rm %s", run->name, run->name);
    return exit_code == CLI_OK ? cli_exit_code(status) : exit_code;
}

int bench_space(struct cli *cli, const char *node)
{
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = (int)SA_RESETHAND};
    struct run run = {.cli = cli, .end_us = INFINITY};
    int exit_code = cli_open(cli, 0);
    bool is_far = false;

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    if (cli->timeout_given && cli->timeout_us != NIGH_FOREVER) {
        run.end_us = now_us() + (double)cli->timeout_us;
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    bench_remove_left_spaces(cli->client, left_us(&run, CLEAN_US * LEFT_PARTS) / LEFT_PARTS);
    exit_code = create(&run, node, &is_far);
    if (exit_code == CLI_OK) {
        exit_code = measure_all(&run, is_far);
    }
    exit_code = destroy(&run, exit_code);
    if (run.rows > 0 && cli->json) {
        cli_error_object(cli, &run.json, exit_code);
        json_array_close(&run.json);
    }
    return exit_code;
}
