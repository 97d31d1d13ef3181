/* SPDX-License-Identifier: Apache-2.0 */
/* See region_trio.h. */
#include "region_trio.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "region_on.h"

#define PATIENCE UINT64_C(60000000)
#define MEMORY   (UINT64_C(256) << 20) /* of a node */

static const uint8_t key[32] = "a key for a benchmark, no secret";

static void start(struct trio *trio, uint32_t rank, const char *members)
{
    char number[4];
    nigh_node_options options = {.struct_size = sizeof options,
                                 .memory_bytes = MEMORY,
                                 .lanes = 1,
                                 .members = members,
                                 .member = number,
                                 .cluster_key = key,
                                 .state_dir = trio->state[rank]};
    nigh_client_options client_options = {.struct_size = sizeof client_options};

    (void)snprintf(number, sizeof number, "%u", rank);
    if (nigh_node_start(&options, &trio->node) != NIGH_OK) {
        bench_fail("no node: %s", nigh_node_start_error());
    }
    bench_check(nigh_node_client(trio->node, &client_options, &trio->client), "a client");
}

static void start_all(struct trio *trio)
{
    char members[96];

    for (uint32_t rank = 0; rank < TRIO_NODES; rank++) {
        (void)snprintf(trio->state[rank], sizeof trio->state[rank], "/tmp/bench-region-XXXXXX");
        if (mkdtemp(trio->state[rank]) == NULL) {
            bench_fail("no directory for a node's votes");
        }
    }
    (void)snprintf(members, sizeof members, "127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d",
                   bench_free_port(), bench_free_port(), bench_free_port());
    for (uint32_t rank = 1; rank < TRIO_NODES; rank++) {
        trio->pids[rank] = bench_fork(-1);
        if (trio->pids[rank] == 0) {
            start(trio, rank, members);
            for (;;) {
                (void)pause();
            }
        }
    }
    start(trio, 0, members);
}

void trio_open(struct trio *trio)
{
    void *memory;

    start_all(trio);
    trio->own = region_on(trio->client, "own", 0, 1, TRIO_MOST, PATIENCE);
    trio->from = region_on(trio->client, "from", 1, 1, TRIO_MOST, PATIENCE);
    trio->to = region_on(trio->client, "to", 2, 1, TRIO_MOST, PATIENCE);
    trio->both = region_on(trio->client, "both", 1, TRIO_CHUNKS, TRIO_MOST / 2, PATIENCE);
    /* From node 1 to 2, so that these are linked from here on. */
    bench_check(nigh_region_move(trio->both, 1, 2, PATIENCE), "a move");
    bench_check(nigh_region_memset(trio->own, 0, 7, TRIO_MOST, PATIENCE), "bytes");
    bench_check(nigh_region_memset(trio->from, 0, 7, TRIO_MOST, PATIENCE), "bytes");
    bench_check(nigh_bulk_alloc(trio->client, TRIO_MOST, NIGH_BULK_READ | NIGH_BULK_WRITE, &memory,
                                &trio->bulk),
                "memory");
}

void trio_close(struct trio *trio)
{
    char command[256];

    nigh_client_close(trio->client);
    nigh_node_stop(trio->node);
    for (uint32_t rank = 1; rank < TRIO_NODES; rank++) {
        (void)kill(trio->pids[rank], SIGKILL);
        (void)waitpid(trio->pids[rank], NULL, 0);
    }
    (void)snprintf(command, sizeof command, "rm -rf %s %s %s", trio->state[0], trio->state[1],
                   trio->state[2]);
    if (system(command) != 0) {
        (void)fprintf(stderr, "could not: %s\n", command);
    }
}

/* ---- operations ----------------------------------------------------------- */

static uint8_t few[TRIO_FEW];

void trio_copy(struct trio *trio, uint64_t bytes)
{
    bench_check(nigh_region_copy(trio->to, 0, trio->from, 0, bytes, PATIENCE), "a copy");
}

void trio_copy_own(struct trio *trio, uint64_t bytes)
{
    bench_check(nigh_region_copy(trio->to, 0, trio->own, 0, bytes, PATIENCE), "a copy");
}

void trio_copy_overlapping(struct trio *trio, uint64_t bytes)
{
    bench_check(nigh_region_copy(trio->both, TRIO_MOST / 2, trio->both, 0, bytes, PATIENCE),
                "a copy");
}

static void read_and_write(struct trio *trio, nigh_region *from, uint64_t bytes)
{
    nigh_bulk_part part = {.bulk = trio->bulk, .size = bytes};

    if (bytes <= TRIO_FEW) {
        bench_check(nigh_region_read(from, 0, few, bytes, PATIENCE), "a read");
        bench_check(nigh_region_write(trio->to, 0, few, bytes, PATIENCE), "a write");
        return;
    }
    bench_check(nigh_region_read_into(from, 0, &part, PATIENCE), "a large read");
    bench_check(nigh_region_write_from(trio->to, 0, &part, PATIENCE), "a large write");
}

void trio_read_and_write(struct trio *trio, uint64_t bytes)
{
    read_and_write(trio, trio->from, bytes);
}

void trio_read_and_write_own(struct trio *trio, uint64_t bytes)
{
    read_and_write(trio, trio->own, bytes);
}
