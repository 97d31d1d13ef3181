/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of MPI for bench-collect: rank 0 says something to all (MPI_Bcast) and has the sum of
 * what they say (MPI_Reduce), one after the other, and prints nanoseconds. First it prints the
 * processes of all ranks: they spin, and are stopped while others are measured. Driven by lines on
 * rank 0's standard input: "round", "quit".
 *
 *   mpirun ... bench-collect-mpi ROUND BYTES
 */
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_RANKS 256
#define MOST_BYTES 4096

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void exchange(int rank, int bytes)
{
    static char request[MOST_BYTES];
    uint64_t mine[MOST_BYTES / 8], sum[MOST_BYTES / 8];

    for (int n = 0; n < bytes / 8; n++) {
        mine[n] = (uint64_t)(rank + n);
    }
    MPI_Bcast(request, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Reduce(mine, sum, bytes / 8, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void tell_processes(int rank, int ranks)
{
    int self = (int)getpid(), all[MOST_RANKS];

    MPI_Gather(&self, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int n = 0; rank == 0 && n < ranks; n++) {
        printf("%d\n", all[n]);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int rank, ranks, count = argc == 3 ? atoi(argv[1]) : 0, bytes = argc == 3 ? atoi(argv[2]) : 0;
    int goes_on = 1;
    char line[32];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count <= 0 || bytes <= 0 || bytes > MOST_BYTES || ranks > MOST_RANKS) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    tell_processes(rank, ranks);
    for (;;) {
        if (rank == 0) {
            goes_on = fgets(line, sizeof line, stdin) != NULL && strcmp(line, "round\n") == 0;
        }
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!goes_on) {
            break;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (int n = 0; n < count; n++) {
            double start = now_ns();

            exchange(rank, bytes);
            if (rank == 0) {
                printf("%.0f\n", now_ns() - start);
            }
        }
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
