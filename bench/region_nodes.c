/* SPDX-License-Identifier: Apache-2.0 */
/* See region_nodes.h. */
#include "region_nodes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "region_on.h"

#define PATIENCE UINT64_C(20000000)

static const uint8_t key[32] = "a key for a benchmark, no secret";

static nigh_client *start(struct pair *pair, uint32_t rank, const char *members)
{
    bool spins = rank == 0 ? pair->spins : pair->other_spins;
    char number[4];
    nigh_node_options options = {.struct_size = sizeof options,
                                 .memory_bytes = NODES_MEMORY,
                                 .lanes = 1,
                                 .spin_us = spins ? NODES_SPIN_US : 0,
                                 .region_qos = pair->qos,
                                 .members = members,
                                 .member = number,
                                 .cluster_key = key,
                                 .state_dir = pair->state[rank]};
    nigh_client_options client_options = {.struct_size = sizeof client_options,
                                          .spin_us = spins ? NODES_SPIN_US : 0};
    nigh_client *client;

    (void)snprintf(number, sizeof number, "%u", rank);
    if (nigh_node_start(&options, &pair->node) != NIGH_OK) {
        bench_fail("no node: %s", nigh_node_start_error());
    }
    bench_check(nigh_node_client(pair->node, &client_options, &client), "a client");
    return client;
}

static void echo(void *context, const nigh_request *request)
{
    (void)context;
    (void)nigh_call_reply(request, NIGH_OK, request->bytes, request->size);
}

/* Of a node that computes on the side, where it is told to. */
static void serve(struct pair *pair, const char *members)
{
    nigh_service_options options = {.struct_size = sizeof options, .handler = echo};
    nigh_client *client = start(pair, 1, members);
    nigh_service *service;
    volatile uint64_t sum = 0;

    bench_check(nigh_service_register(client, "echo", &options, &service), "a service");
    for (;;) {
        bench_word_wait(pair->computes, 0);
        while (atomic_load_explicit(pair->computes, memory_order_relaxed) != 0) {
            for (uint32_t n = 0; n < 1000; n++) {
                sum = sum + n;
            }
        }
    }
}

static void make_state(struct pair *pair)
{
    for (uint32_t rank = 0; rank < 2; rank++) {
        (void)snprintf(pair->state[rank], sizeof pair->state[rank], "/tmp/bench-region-XXXXXX");
        if (mkdtemp(pair->state[rank]) == NULL) {
            bench_fail("no directory for a node's votes");
        }
    }
}

static void remove_state(const struct pair *pair)
{
    char command[160];

    (void)snprintf(command, sizeof command, "rm -rf %s %s", pair->state[0], pair->state[1]);
    if (system(command) != 0) {
        (void)fprintf(stderr, "could not: %s\n", command);
    }
}

void pair_open(struct pair *pair, bool spins, bool other_spins, int other_core)
{
    char members[64];
    void *memory;

    pair->spins = spins;
    pair->other_spins = other_spins;
    pair->computes =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (pair->computes == MAP_FAILED) {
        bench_fail("no shared memory");
    }
    make_state(pair);
    (void)snprintf(members, sizeof members, "127.0.0.1:%d,127.0.0.1:%d", bench_free_port(),
                   bench_free_port());
    pair->pid = bench_fork(other_core);
    if (pair->pid == 0) {
        serve(pair, members);
    }
    pair->client = start(pair, 0, members);
    pair->near = region_on(pair->client, "near", 0, 1, NODES_MOST, PATIENCE);
    pair->far = region_on(pair->client, "far", 1, 1, NODES_MOST, PATIENCE);
    bench_check(nigh_bulk_alloc(pair->client, NODES_MOST, NIGH_BULK_READ | NIGH_BULK_WRITE, &memory,
                                &pair->bulk),
                "memory");
    pair->memory = memory;
}

void pair_close(struct pair *pair)
{
    nigh_client_close(pair->client);
    nigh_node_stop(pair->node);
    (void)kill(pair->pid, SIGKILL);
    (void)waitpid(pair->pid, NULL, 0);
    remove_state(pair);
}

/* ---- operations ----------------------------------------------------------- */

static uint8_t own[1 << 20];

void pair_call(struct pair *pair)
{
    nigh_call_spec spec = {.struct_size = sizeof spec,
                           .service = "echo",
                           .rank = 1,
                           .request = own,
                           .request_bytes = NODES_BYTES,
                           .reply = own,
                           .reply_room = NODES_BYTES};

    bench_check(nigh_call(pair->client, &spec, PATIENCE), "a call");
}

void pair_read(struct pair *pair, uint64_t bytes)
{
    bench_check(nigh_region_read(pair->far, 4096, own, bytes, PATIENCE), "a read");
}

void pair_write(struct pair *pair, uint64_t bytes)
{
    bench_check(nigh_region_write(pair->far, 4096, own, bytes, PATIENCE), "a write");
}

void pair_add(struct pair *pair)
{
    bench_check(nigh_region_fetch_add(pair->far, 0, 1, PATIENCE, NULL), "an addition");
}

void pair_read_near(struct pair *pair, uint64_t bytes)
{
    bench_check(nigh_region_read(pair->near, 4096, own, bytes, PATIENCE), "a read here");
}

void pair_read_into(struct pair *pair, uint64_t bytes)
{
    nigh_bulk_part part = {.bulk = pair->bulk, .size = bytes};

    bench_check(nigh_region_read_into(pair->far, 0, &part, PATIENCE), "a large read");
}

void pair_write_from(struct pair *pair, uint64_t bytes)
{
    nigh_bulk_part part = {.bulk = pair->bulk, .size = bytes};

    bench_check(nigh_region_write_from(pair->far, 0, &part, PATIENCE), "a large write");
}
