/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of the cluster benchmark: MPI as what starts them, tells them of each other and lets
 * them wait for each other. Open MPI spins where it waits, which would take the cores from the
 * nodes; so every wait here is a request that is looked at between sleeps.
 */
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cluster.h"

#define LEAST_SLEEP_NS 20000
#define MOST_SLEEP_NS  1000000

struct ranks ranks;

void ranks_fail(const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "bench-cluster: rank %d on %s: ", ranks.rank, ranks.host);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1); /* without MPI_Finalize, which would wait for the others: mpirun ends them */
}

static void wait_for(MPI_Request *request, const char *what)
{
    uint64_t deadline = bench_now_ns() + ranks.timeout_s * UINT64_C(1000000000);
    struct timespec pause = {.tv_nsec = LEAST_SLEEP_NS};
    int done = 0;

    for (;;) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done) {
            return;
        }
        if (bench_now_ns() > deadline) {
            ranks_fail("waited %u s for the other ranks (%s)", ranks.timeout_s, what);
        }
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < MOST_SLEEP_NS) {
            pause.tv_nsec *= 2;
        }
    }
}

void ranks_meet(const char *what)
{
    MPI_Request request;

    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    wait_for(&request, what);
}

void ranks_start(const char *what)
{
    ranks_meet(what);
    MPI_Barrier(MPI_COMM_WORLD); /* short: all are awake, or will be within MOST_SLEEP_NS */
}

bool ranks_agree(bool yes, const char *what)
{
    int mine = yes ? 1 : 0, all = 0;
    MPI_Request request;

    MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &request);
    wait_for(&request, what);
    return all == 1;
}

void ranks_share(void *data, size_t size_bytes)
{
    MPI_Request request;

    MPI_Ibcast(data, (int)size_bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    wait_for(&request, "what rank 0 tells");
}

void ranks_gather_text(const char *mine, char (*all)[CLUSTER_TEXT_BYTES])
{
    char text[CLUSTER_TEXT_BYTES] = "";
    MPI_Request request;

    snprintf(text, sizeof text, "%s", mine);
    MPI_Iallgather(text, sizeof text, MPI_BYTE, all, sizeof text, MPI_BYTE, MPI_COMM_WORLD,
                   &request);
    wait_for(&request, "what all tell");
}

static void *allocate(size_t count, size_t size_bytes)
{
    void *memory = calloc(count, size_bytes);

    if (memory == NULL) {
        ranks_fail("no memory");
    }
    return memory;
}

static int places_of(const int *counts, int *places)
{
    int sum = 0;

    for (int i = 0; i < ranks.count; i++) {
        places[i] = sum;
        sum += counts[i];
    }
    return sum;
}

void ranks_collect(const struct samples *mine, struct samples *all, double *slowest)
{
    int *counts = allocate((size_t)ranks.count, sizeof *counts);
    int *places = allocate((size_t)ranks.count, sizeof *places);
    int count = (int)mine->count, sum = 0;
    double *values = NULL;
    MPI_Request request;

    MPI_Igather(&count, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
    wait_for(&request, "how much was measured");
    if (ranks.rank == 0) {
        sum = places_of(counts, places);
        values = allocate((size_t)sum + 1, sizeof *values);
    }
    MPI_Igatherv(mine->value, count, MPI_DOUBLE, values, counts, places, MPI_DOUBLE, 0,
                 MPI_COMM_WORLD, &request);
    wait_for(&request, "what was measured");
    *slowest = 0;
    for (int i = 0; ranks.rank == 0 && i < ranks.count; i++) {
        double time = 0;

        for (int k = 0; k < counts[i]; k++) {
            samples_add(all, values[places[i] + k]);
            time += values[places[i] + k];
        }
        *slowest = time > *slowest ? time : *slowest;
    }
    free(values);
    free(places);
    free(counts);
}

/* How many machines, and how many ranks on this one: by their names. */
static void count_machines(void)
{
    char(*hosts)[CLUSTER_TEXT_BYTES] = allocate((size_t)ranks.count, sizeof *hosts);

    ranks_gather_text(ranks.host, hosts);
    ranks.machines = 0;
    ranks.here = 0;
    for (int i = 0; i < ranks.count; i++) {
        int first = 0;

        while (strcmp(hosts[first], hosts[i]) != 0) {
            first++;
        }
        ranks.machines += first == i ? 1 : 0;
        ranks.here += strcmp(hosts[i], ranks.host) == 0 ? 1 : 0;
    }
    free(hosts);
}

void ranks_begin(int *argc, char ***argv)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int bytes = 0, provided;

    if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
        fprintf(stderr, "bench-cluster: MPI does not start\n");
        exit(1);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks.count);
    MPI_Get_processor_name(name, &bytes);
    snprintf(ranks.host, sizeof ranks.host, "%.*s", (int)sizeof ranks.host - 1, name);
    ranks.timeout_s = 60;
    count_machines();
}

void ranks_end(void)
{
    ranks_meet("the end");
    MPI_Finalize();
}
