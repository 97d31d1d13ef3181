/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks for the transfer benchmark: rank 0 gets objects of rank 1's window, one at a time
 * (MPI_Get and a flush), and prints nanoseconds; rank 1 waits inside MPI, which is what makes the
 * gets of rank 0 progress over TCP. Driven by lines on rank 0's standard input: "round", "quit".
 *
 *   mpirun ... bench-transfer-mpi BYTES OBJECTS
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

/* MPI counts in ints. */
static void get_one(MPI_Win window, char *to, uint64_t at, uint64_t bytes)
{
    const uint64_t most = 1u << 30;

    for (uint64_t done = 0; done < bytes; done += most) {
        int count = (int)(bytes - done < most ? bytes - done : most);

        MPI_Get(to + done, count, MPI_BYTE, 1, (MPI_Aint)(at + done), count, MPI_BYTE, window);
    }
    MPI_Win_flush(1, window);
}

static void rounds(MPI_Win window, char *memory, uint64_t stride, uint64_t bytes, int objects)
{
    double *taken = calloc((size_t)objects, sizeof *taken);
    char line[32];

    while (taken != NULL && fgets(line, sizeof line, stdin) != NULL &&
           strcmp(line, "round\n") == 0) {
        for (int i = 0; i < objects; i++) {
            uint64_t at = stride * (uint64_t)i;
            double start = now_ns();

            get_one(window, memory + at, at, bytes);
            taken[i] = now_ns() - start;
            if (memory[at + bytes - 1] != 7) {
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
            memory[at + bytes - 1] = 0;
        }
        for (int i = 0; i < objects; i++) {
            printf("%.0f\n", taken[i]);
        }
        fflush(stdout);
    }
    free(taken);
}

int main(int argc, char **argv)
{
    uint64_t bytes, stride;
    int rank, objects, word = 0;
    char *memory;
    MPI_Win window;

    MPI_Init(&argc, &argv);
    if (argc != 3) {
        return 2;
    }
    bytes = strtoull(argv[1], NULL, 10);
    objects = atoi(argv[2]);
    stride = (bytes + 127) & ~UINT64_C(63);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pin(rank);
    memory = malloc(stride * (uint64_t)objects);
    if (memory == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(memory, rank == 1 ? 7 : 0, stride * (uint64_t)objects);
    MPI_Win_create(memory, (MPI_Aint)(stride * (uint64_t)objects), 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                   &window);
    if (rank == 1) {
        int pid = (int)getpid();

        MPI_Send(&pid, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* until "quit" */
    } else {
        MPI_Recv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
        get_one(window, memory, 0, bytes); /* connects */
        memory[bytes - 1] = 0;
        printf("ready %d\n", word);
        fflush(stdout);
        rounds(window, memory, stride, bytes, objects);
        MPI_Win_unlock(1, window);
        MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    free(memory);
    return 0;
}
