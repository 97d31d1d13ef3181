/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks of Open MPI (region_mpi.c), which mpirun starts, and what operations on the window of
 * one take the other: over TCP, or by shared memory. */
#ifndef BENCH_REGION_RANKS_H
#define BENCH_REGION_RANKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "harness.h"

struct ranks {
    pid_t pid;
    int target; /* it spins, and is stopped between rounds */
    FILE *to, *from;
};

/* Rank 0 on core 0, rank 1 on core 1. */
void ranks_open(struct ranks *ranks, const char *helper, uint64_t most_bytes, bool is_shared);
/* "get", "put" or "add", so many of as many bytes: their times, in ns. Returns the bytes of TCP
 * that one made, as rank 0's kernel counted them. */
double ranks_round(struct ranks *ranks, const char *op, uint64_t bytes, uint32_t count,
                   struct samples *samples);
void ranks_close(struct ranks *ranks);

#endif
