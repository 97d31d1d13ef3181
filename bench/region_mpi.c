/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks for the region benchmark: rank 0 gets, puts and adds in rank 1's window, one operation
 * and a flush at a time, and prints nanoseconds; rank 1 waits inside MPI, which is what makes
 * operations progress. Driven by lines on rank 0's standard input: "get BYTES COUNT", "put ...",
 * "add ...", "quit". After the times of a line comes what its operations made of traffic: the bytes
 * that this process's TCP sockets sent and received meanwhile, of an operation.
 *
 *   mpirun ... bench-region-mpi MOST-BYTES
 */
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "region_wire.h"

#define FILL 7 /* of the window: what a get brings */

struct window {
    MPI_Win win;
    char *mine; /* as much memory, on this side */
    int bytes;
};

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void pin(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)core % (size_t)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* What brings something is over when that is there: a flush that asks rank 1, too, takes another
 * round trip. Of a put it is needed: the bytes are there then. The word that is added to lies
 * behind the bytes. */
static void one(const struct window *window, char op, int bytes)
{
    int64_t added = 1, old;

    if (op == 'g') {
        MPI_Get(window->mine, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window->win);
    } else if (op == 'p') {
        MPI_Put(window->mine, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window->win);
    } else {
        MPI_Fetch_and_op(&added, &old, MPI_INT64_T, 1, window->bytes, MPI_SUM, window->win);
    }
    if (op == 'p') {
        MPI_Win_flush(1, window->win);
    } else {
        MPI_Win_flush_local(1, window->win);
    }
}

/* A fifth of them before those that are told: both sides are awake then. */
static void measure(const struct window *window, char op, int bytes, int count)
{
    int warm = count / 4;
    double *taken = calloc((size_t)count, sizeof *taken), wire = 0;

    for (int n = -warm; taken != NULL && n < count; n++) {
        double start;

        wire = n == 0 ? region_wire_bytes() : wire;
        start = now_ns();
        one(window, op, bytes);
        if (n >= 0) {
            taken[n] = now_ns() - start;
        }
    }
    wire = region_wire_bytes() - wire;
    if (taken == NULL || (op == 'g' && window->mine[bytes - 1] != FILL)) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int n = 0; n < count; n++) {
        printf("%.0f\n", taken[n]);
    }
    printf("%.1f\n", wire / count);
    fflush(stdout);
    free(taken);
}

static void serve(const struct window *window)
{
    char line[64], op[8];
    int bytes, count;

    while (fgets(line, sizeof line, stdin) != NULL &&
           sscanf(line, "%7s %d %d", op, &bytes, &count) == 3 && bytes > 0 &&
           bytes <= window->bytes && count > 0) {
        measure(window, op[0], bytes, count);
    }
}

int main(int argc, char **argv)
{
    struct window window;
    int rank, word = (int)getpid();
    char *memory;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    window.bytes = argc == 2 ? atoi(argv[1]) : 0;
    window.mine = malloc((size_t)window.bytes + 1);
    if (window.bytes <= 0 || window.mine == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    pin(rank);
    MPI_Win_allocate(window.bytes + (MPI_Aint)sizeof(int64_t), 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                     &memory, &window.win);
    memset(memory, FILL, (size_t)window.bytes);
    memset(memory + window.bytes, 0, sizeof(int64_t));
    memset(window.mine, FILL, (size_t)window.bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Send(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* until "quit" */
    } else {
        MPI_Recv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window.win);
        one(&window, 'g', window.bytes); /* connects */
        printf("ready %d\n", word);
        fflush(stdout);
        serve(&window);
        MPI_Win_unlock(1, window.win);
        MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    }
    MPI_Win_free(&window.win);
    MPI_Finalize();
    free(window.mine);
    return 0;
}
