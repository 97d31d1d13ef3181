/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers: Redis GET over TCP (hiredis), its server on either core; and MPI_Get of Open MPI, forced
 * to TCP, in a helper that mpirun starts. The helper's second rank spins whenever it may run, so it
 * is stopped between rounds.
 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "transfer.h"

const char *transfer_mpi_helper;

/* ---- Redis ---- */

struct redis {
    struct bench_redis server;
    redisContext *context;
};

static void redis_open(struct series *series, const struct workload *workload)
{
    struct redis *redis = calloc(1, sizeof *redis);
    uint8_t *data = malloc(workload->bytes);

    if (redis == NULL || data == NULL) {
        bench_fail("no memory");
    }
    /* Without this the library gets fresh pages from the kernel for every large reply. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    memset(data, 7, workload->bytes);
    bench_redis_start_tcp(&redis->server, transfer_address_there, series->variant);
    redis->context = redisConnect(transfer_address_there, redis->server.port);
    if (redis->context == NULL || redis->context->err != 0) {
        bench_fail("cannot connect to Redis");
    }
    for (uint32_t number = 0; number < workload->objects; number++) {
        freeReplyObject(
            redisCommand(redis->context, "SET k%d %b", number, data, (size_t)workload->bytes));
    }
    free(data);
    series->state = redis;
    series->pids[0] = getpid();
    series->pids[1] = redis->server.pid;
}

static void redis_round(struct series *series, const struct workload *workload,
                        struct samples *samples)
{
    struct redis *redis = series->state;

    for (uint32_t number = 0; number < workload->objects; number++) {
        uint64_t start = bench_now_ns();
        redisReply *reply = redisCommand(redis->context, "GET k%d", number);

        samples_add(samples, (double)(bench_now_ns() - start));
        if (reply == NULL || reply->type != REDIS_REPLY_STRING ||
            (uint64_t)reply->len != workload->bytes) {
            bench_fail("Redis answered wrongly");
        }
        freeReplyObject(reply);
    }
}

static void redis_close(struct series *series)
{
    struct redis *redis = series->state;

    redisFree(redis->context);
    bench_redis_stop(&redis->server);
    free(redis);
}

const struct series_kind transfer_redis = {redis_open, redis_round, redis_close, NULL, NULL};

/* ---- MPI ---- */

struct mpi {
    pid_t pid;
    int target; /* the rank that is read from; it spins */
    FILE *to, *from;
};

static pid_t run_helper(const struct workload *workload, const int to[2], const int from[2])
{
    char bytes[32], objects[16];
    const char *arguments[] = {"mpirun",
                               "--allow-run-as-root",
                               "--oversubscribe",
                               "--bind-to",
                               "none",
                               "-np",
                               "2",
                               "--mca",
                               "btl",
                               "tcp,self",
                               "--mca",
                               "pml",
                               "ob1",
                               "--mca",
                               "osc",
                               "pt2pt",
                               "--mca",
                               "btl_tcp_if_include",
                               "lo",
                               transfer_mpi_helper,
                               bytes,
                               objects,
                               NULL};
    pid_t pid;

    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)workload->bytes);
    snprintf(objects, sizeof objects, "%u", workload->objects);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        bench_pin(-1);
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        close(from[0]);
        execvp(arguments[0], (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    return pid;
}

static void mpi_open(struct series *series, const struct workload *workload)
{
    struct mpi *mpi = calloc(1, sizeof *mpi);
    int to[2], from[2];

    if (mpi == NULL || pipe(to) != 0 || pipe(from) != 0) {
        bench_fail("no pipes");
    }
    mpi->pid = run_helper(workload, to, from);
    close(to[0]);
    close(from[1]);
    mpi->to = fdopen(to[1], "w");
    mpi->from = fdopen(from[0], "r");
    if (mpi->pid < 0 || mpi->to == NULL || mpi->from == NULL ||
        fscanf(mpi->from, " ready %d", &mpi->target) != 1) {
        bench_fail("mpirun %s did not start", transfer_mpi_helper);
    }
    kill(mpi->target, SIGSTOP);
    series->state = mpi;
}

static void mpi_round(struct series *series, const struct workload *workload,
                      struct samples *samples)
{
    struct mpi *mpi = series->state;

    kill(mpi->target, SIGCONT);
    fputs("round\n", mpi->to);
    fflush(mpi->to);
    for (uint32_t number = 0; number < workload->objects; number++) {
        double value;

        if (fscanf(mpi->from, " %lf", &value) != 1) {
            bench_fail("the MPI helper ended");
        }
        samples_add(samples, value);
    }
    kill(mpi->target, SIGSTOP);
}

static void mpi_close(struct series *series)
{
    struct mpi *mpi = series->state;

    kill(mpi->target, SIGCONT);
    fputs("quit\n", mpi->to);
    fclose(mpi->to);
    waitpid(mpi->pid, NULL, 0);
    fclose(mpi->from);
    free(mpi);
}

const struct series_kind transfer_mpi = {mpi_open, mpi_round, mpi_close, NULL, NULL};
