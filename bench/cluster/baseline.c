/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same bytes between the same ranks by MPI alone, which spins and looks at nothing that comes.
 * A ping is a request of eight bytes and an answer of the object's size.
 */
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"

#define TAG 7

static char *sent, *received;

static int slots_of(const struct workload *workload)
{
    return (int)(workload->window < workload->objects ? workload->window : workload->objects);
}

void baseline_open(const struct workload *workload)
{
    int slots = slots_of(workload);
    size_t places = (size_t)(slots > ranks.count ? slots : ranks.count);

    sent = malloc((size_t)ranks.count * workload->bytes);
    received = malloc(places * workload->bytes);
    if (sent == NULL || received == NULL) {
        ranks_fail("no memory for MPI's side of %s", workload->label);
    }
    memset(sent, ranks.rank + 1, (size_t)ranks.count * workload->bytes);
    memset(received, 0, places * workload->bytes);
}

void baseline_close(void)
{
    free(sent);
    free(received);
    sent = received = NULL;
}

static void add(uint64_t start_ns, uint64_t objects, struct samples *samples)
{
    samples_add(samples, (double)(bench_now_ns() - start_ns) / (double)objects);
}

static void check(const struct workload *workload, const char *at, int from)
{
    if (at[0] != (char)(from + 1) || at[workload->bytes - 1] != (char)(from + 1)) {
        ranks_fail("MPI brought something else from rank %d", from);
    }
}

static void ask(const struct workload *workload, int holder, uint32_t count,
                struct samples *samples)
{
    uint64_t request = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t start = bench_now_ns();

        MPI_Send(&request, sizeof request, MPI_BYTE, holder, TAG, MPI_COMM_WORLD);
        MPI_Recv(received, (int)workload->bytes, MPI_BYTE, holder, TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        add(start, 1, samples);
    }
    check(workload, received, holder);
}

static void answer(const struct workload *workload, int getter, uint32_t count)
{
    uint64_t request;

    for (uint32_t i = 0; i < count; i++) {
        MPI_Recv(&request, sizeof request, MPI_BYTE, getter, TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        MPI_Send(sent, (int)workload->bytes, MPI_BYTE, getter, TAG, MPI_COMM_WORLD);
    }
}

void baseline_ping(const struct workload *workload, int getter, int holder, uint32_t count,
                   struct samples *samples)
{
    if (ranks.rank == getter) {
        ask(workload, holder, count, samples);
    } else if (ranks.rank == holder) {
        answer(workload, getter, count);
    }
}

void baseline_sendrecv(const struct workload *workload, int partner, struct samples *samples)
{
    uint64_t start = bench_now_ns();

    if (partner < 0) {
        return;
    }
    for (uint32_t i = 0; i < workload->objects; i++) {
        MPI_Sendrecv(sent, (int)workload->bytes, MPI_BYTE, partner, TAG, received,
                     (int)workload->bytes, MPI_BYTE, partner, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
    add(start, workload->objects, samples);
    check(workload, received, partner);
}

void baseline_window(const struct workload *workload, int partner, struct samples *samples)
{
    MPI_Request requests[2 * CLUSTER_MAX_WINDOW];
    uint32_t slots = (uint32_t)slots_of(workload), left = workload->objects;
    uint64_t start = bench_now_ns();

    if (partner < 0) {
        return;
    }
    while (left > 0) {
        uint32_t now = left < slots ? left : slots;

        for (uint32_t i = 0; i < now; i++) {
            MPI_Irecv(received + i * workload->bytes, (int)workload->bytes, MPI_BYTE, partner, TAG,
                      MPI_COMM_WORLD, &requests[2 * i]);
            MPI_Isend(sent, (int)workload->bytes, MPI_BYTE, partner, TAG, MPI_COMM_WORLD,
                      &requests[2 * i + 1]);
        }
        MPI_Waitall((int)(2 * now), requests, MPI_STATUSES_IGNORE);
        left -= now;
    }
    add(start, workload->objects, samples);
    check(workload, received, partner);
}

void baseline_alltoall(const struct workload *workload, struct samples *samples)
{
    int next = (ranks.rank + 1) % ranks.count;
    uint64_t start = bench_now_ns();

    for (uint32_t i = 0; i < workload->objects; i++) {
        MPI_Alltoall(sent, (int)workload->bytes, MPI_BYTE, received, (int)workload->bytes, MPI_BYTE,
                     MPI_COMM_WORLD);
    }
    add(start, (uint64_t)workload->objects * (uint64_t)(ranks.count - 1), samples);
    check(workload, received + (size_t)next * workload->bytes, next);
}
