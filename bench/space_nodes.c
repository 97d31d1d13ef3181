/* SPDX-License-Identifier: Apache-2.0 */
/* See space_nodes.h. */
#include "space_nodes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define SPIN_US       2000
#define MEMORY        (UINT64_C(32) << 20) /* of a node, */
#define SPACE_MEMORY  (UINT64_C(1) << 30)  /* and most of its spaces */
#define LOOK_AGAIN_US 2000
#define CORES         2 /* of those that spin */

const char *space_nodes_addresses[SPACE_NODES_MOST];

static const uint8_t key[32] = "a key for a benchmark, no secret";

static void start(struct space_nodes *nodes, const char *members)
{
    char number[4];
    nigh_node_options options = {.struct_size = sizeof options,
                                 .memory_bytes = MEMORY,
                                 .lanes = 1,
                                 .spin_us = nodes->spins ? SPIN_US : 0,
                                 .members = members,
                                 .member = number,
                                 .cluster_key = key,
                                 .state_dir = nodes->state[nodes->rank],
                                 .fabric = space_nodes_addresses[0] != NULL ? NIGH_FABRIC_VERBS
                                                                            : NIGH_FABRIC_TCP,
                                 .space_memory_bytes = SPACE_MEMORY};
    nigh_client_options client_options = {.struct_size = sizeof client_options,
                                          .spin_us = nodes->spins ? SPIN_US : 0};

    (void)snprintf(number, sizeof number, "%u", nodes->rank);
    if (nigh_node_start(&options, &nodes->node) != NIGH_OK) {
        bench_fail("no node: %s", nigh_node_start_error());
    }
    bench_check(nigh_node_client(nodes->node, &client_options, &nodes->client), "a client");
}

static void echo(void *context, const nigh_request *request)
{
    (void)context;
    (void)nigh_call_reply(request, NIGH_OK, request->bytes, request->size);
}

/* ---- the others ----------------------------------------------------------- */

static void open_space(struct space_nodes *nodes, uint32_t n, const char *name)
{
    uint64_t until_ns = bench_now_ns() + SPACE_NODES_WAIT * 1000;
    nigh_status status;

    while ((status = nigh_space_open(nodes->client, name, NIGH_SPACE_ALL, SPACE_NODES_WAIT,
                                     &nodes->spaces[n])) != NIGH_OK &&
           bench_now_ns() < until_ns) {
        (void)usleep(LOOK_AGAIN_US);
    }
    bench_check(status, "a space is opened");
}

static _Noreturn void serve(struct space_nodes *nodes, const char *members,
                            const nigh_space_spec *specs)
{
    struct space_nodes_one *one = &nodes->shared->one[nodes->rank];
    nigh_service_options options = {.struct_size = sizeof options, .handler = echo};
    nigh_service *service;

    start(nodes, members);
    if (nodes->rank == 1) {
        bench_check(nigh_service_register(nodes->client, "echo", &options, &service), "a service");
    }
    for (uint32_t number = 0;;) {
        bench_word_wait(&one->wanted, number);
        number = atomic_load(&one->wanted);
        for (uint32_t n = 0; n < SPACE_NODES_SPACE; n++) {
            if (nodes->spaces[n] == NULL) {
                open_space(nodes, n, specs[n].name);
            }
        }
        one->order.carry(nodes, &one->order);
        bench_word_set(&one->done, number);
    }
}

void space_nodes_begin(struct space_nodes *nodes, uint32_t rank, const struct space_order *order)
{
    struct space_nodes_one *one = &nodes->shared->one[rank];

    one->order = *order;
    bench_word_set(&one->wanted, atomic_load(&one->wanted) + 1);
}

void space_nodes_wait(struct space_nodes *nodes, uint32_t rank)
{
    struct space_nodes_one *one = &nodes->shared->one[rank];
    uint32_t wanted = atomic_load(&one->wanted), done;

    while ((done = atomic_load(&one->done)) != wanted) {
        bench_word_wait(&one->done, done);
    }
}

void space_nodes_do(struct space_nodes *nodes, uint32_t rank, const struct space_order *order)
{
    space_nodes_begin(nodes, rank, order);
    space_nodes_wait(nodes, rank);
}

void space_nodes_last(struct space_nodes *nodes, bool lasts)
{
    atomic_store(&nodes->shared->ends, lasts ? 0 : 1);
}

/* ---- open, close ---------------------------------------------------------- */

/* Of all nodes: who is not there yet would take no part. */
static void make_space(struct space_nodes *nodes, uint32_t n, const nigh_space_spec *spec)
{
    uint64_t until_ns = bench_now_ns() + SPACE_NODES_WAIT * 1000;
    nigh_space_info info = {.struct_size = sizeof info};
    nigh_status status;

    for (;;) {
        status = nigh_space_create(nodes->client, spec, SPACE_NODES_WAIT, &nodes->spaces[n]);
        if (status == NIGH_EXISTS) {
            (void)nigh_space_delete(nodes->client, spec->name, SPACE_NODES_WAIT);
        } else if (status == NIGH_OK) {
            bench_check(nigh_space_stat(nodes->client, spec->name, SPACE_NODES_WAIT, &info),
                        "what a space is");
            if (info.ranks == (UINT64_C(1) << nodes->count) - 1) {
                return;
            }
            nigh_space_close(nodes->spaces[n]);
            (void)nigh_space_delete(nodes->client, spec->name, SPACE_NODES_WAIT);
        }
        if (bench_now_ns() > until_ns) {
            bench_fail("the nodes do not find each other: %s", nigh_status_string(status));
        }
        (void)usleep(LOOK_AGAIN_US);
    }
}

static void make_state(struct space_nodes *nodes)
{
    for (uint32_t rank = 0; rank < nodes->count; rank++) {
        (void)snprintf(nodes->state[rank], sizeof nodes->state[rank], "/tmp/bench-space-XXXXXX");
        if (mkdtemp(nodes->state[rank]) == NULL) {
            bench_fail("no directory for a node's votes");
        }
    }
}

static void name_members(uint32_t count, char *members, size_t room)
{
    size_t used = 0;

    for (uint32_t rank = 0; rank < count; rank++) {
        const char *address = space_nodes_addresses[rank];

        used += (size_t)snprintf(members + used, room - used, "%s%s:%d", rank == 0 ? "" : ",",
                                 address != NULL ? address : "127.0.0.1", bench_free_port());
    }
}

void space_nodes_open(struct space_nodes *nodes, uint32_t count, bool spins,
                      const nigh_space_spec *specs)
{
    char members[128];

    *nodes = (struct space_nodes){.count = count, .spins = spins};
    nodes->shared = mmap(NULL, sizeof *nodes->shared, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (nodes->shared == MAP_FAILED) {
        bench_fail("no shared memory");
    }
    make_state(nodes);
    name_members(count, members, sizeof members);
    for (uint32_t rank = 1; rank < count; rank++) {
        nodes->pids[rank] = bench_fork(spins ? (int)(rank % CORES) : -1);
        if (nodes->pids[rank] == 0) {
            nodes->rank = rank;
            serve(nodes, members, specs);
        }
    }
    bench_pin(spins ? 0 : -1);
    start(nodes, members);
    for (uint32_t n = 0; n < SPACE_NODES_SPACE; n++) {
        make_space(nodes, n, &specs[n]);
    }
}

void space_nodes_close(struct space_nodes *nodes)
{
    char command[96];

    nigh_client_close(nodes->client);
    nigh_node_stop(nodes->node);
    for (uint32_t rank = 1; rank < nodes->count; rank++) {
        (void)kill(nodes->pids[rank], SIGKILL);
        (void)waitpid(nodes->pids[rank], NULL, 0);
    }
    for (uint32_t rank = 0; rank < nodes->count; rank++) {
        (void)snprintf(command, sizeof command, "rm -rf %s", nodes->state[rank]);
        if (system(command) != 0) {
            (void)fprintf(stderr, "could not: %s\n", command);
        }
    }
    (void)munmap(nodes->shared, sizeof *nodes->shared);
}

/* ---- of the own node ------------------------------------------------------ */

nigh_space_address space_nodes_alloc(struct space_nodes *nodes, uint32_t space, uint32_t rank,
                                     uint64_t bytes)
{
    nigh_space_address address = 0;

    bench_check(nigh_space_alloc(nodes->spaces[space], bytes, NIGH_SPACE_ON(rank), SPACE_NODES_WAIT,
                                 &address),
                "memory of a space");
    return address;
}

void space_nodes_call(struct space_nodes *nodes)
{
    static uint8_t own[SPACE_NODES_CALL];
    nigh_call_spec spec = {.struct_size = sizeof spec,
                           .service = "echo",
                           .rank = 1,
                           .request = own,
                           .request_bytes = sizeof own,
                           .reply = own,
                           .reply_room = sizeof own};

    bench_check(nigh_call(nodes->client, &spec, SPACE_NODES_WAIT), "a call");
}

nigh_node_stats space_nodes_stats(struct space_nodes *nodes)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    bench_check(nigh_stats(nodes->client, &stats), "what a node counts");
    return stats;
}
