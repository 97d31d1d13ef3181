/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a page is looked at with (page.py):
 *
 *   page-load SOCKET RANK NODES PER_SECOND
 *
 * puts so many objects a second, of mixed sizes, named load-RANK-N; reads one that it holds,
 * hot-RANK, again and again; gets some of the next node's; calls "echo" at each node in turn. When
 * its standard input ends it says in one JSON object how often each went well.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nigh/nigh.h"

#define LARGEST  (1u << 20)
#define GET_US   UINT64_C(500000)
#define CALL_US  UINT64_C(5000000)
#define HOT_READ 20

struct load {
    nigh_client *client;
    uint32_t rank, nodes;
    uint8_t *bytes;             /* LARGEST of them */
    uint64_t puts, gets, calls; /* to other nodes: what it calls at its own goes by a pair */
};

static nigh_id named(const char *kind, uint32_t rank, uint64_t number, char name[64])
{
    nigh_id id;

    if (strcmp(kind, "hot") == 0)
        (void)snprintf(name, 64, "hot-%u", rank);
    else
        (void)snprintf(name, 64, "%s-%u-%" PRIu64, kind, rank, number);
    (void)nigh_id_from_name(name, &id);
    return id;
}

static uint64_t size_of(uint64_t number)
{
    static const uint64_t sizes[] = {300, 3000, 20000, 700, 60000, 5000, 150000, 900};

    return number % 64 == 63 ? LARGEST : sizes[number % 8];
}

static void put(struct load *load, const char *kind, uint64_t number)
{
    char name[64];
    nigh_id id = named(kind, load->rank, number, name);
    nigh_create_options options = {.name = name, .timeout_us = GET_US};

    if (nigh_put(load->client, &id, load->bytes, size_of(number), &options) == NIGH_OK)
        load->puts++;
}

static void get(struct load *load, uint32_t rank, uint64_t number)
{
    char name[64];
    nigh_id id = named("load", rank, number, name);
    nigh_view view;

    if (nigh_get(load->client, &id, 1, GET_US, &view) == NIGH_OK)
        load->gets++;
    (void)nigh_release(load->client, &view);
}

static void read_hot(struct load *load)
{
    char name[64];
    nigh_id id = named("hot", load->rank, 0, name);
    nigh_view view;

    for (int n = 0; n < HOT_READ; n++) {
        (void)nigh_get(load->client, &id, 1, 0, &view);
        (void)nigh_release(load->client, &view);
    }
}

static void call(struct load *load, uint64_t number)
{
    char reply[64];
    nigh_call_spec spec = {.struct_size = sizeof(spec),
                           .service = "echo",
                           .rank = (uint32_t)(number % load->nodes),
                           .request = "hello",
                           .request_bytes = 5,
                           .reply = reply,
                           .reply_room = sizeof(reply)};

    if (nigh_call(load->client, &spec, CALL_US) == NIGH_OK && spec.rank != load->rank)
        load->calls++;
}

static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Until standard input ends. What a turn takes is no part of the pause to the next: it is as many
 * a second as was asked for, while the machine keeps up. */
static void run(struct load *load, uint64_t per_second)
{
    struct pollfd end = {.fd = STDIN_FILENO, .events = POLLIN};
    int64_t due_us = now_us();

    for (uint64_t number = 0;; number++) {
        int64_t left_us = due_us - now_us();

        if (poll(&end, 1, left_us > 0 ? (int)(left_us / 1000) : 0) != 0)
            return;
        due_us = (left_us < -1000000 ? now_us() : due_us) + 1000000 / (int64_t)per_second;
        put(load, "load", number);
        read_hot(load);
        if (number % 4 == 3)
            get(load, (load->rank + 1) % load->nodes, number - 3);
        call(load, number);
    }
}

int main(int argc, char **argv)
{
    nigh_client_options options = {.struct_size = sizeof(options), .name = "page-load"};
    struct load load = {0};
    nigh_view held;
    char name[64];
    nigh_id hot;

    if (argc != 5)
        return 2;
    options.socket_path = argv[1];
    load.rank = (uint32_t)strtoul(argv[2], NULL, 10);
    load.nodes = (uint32_t)strtoul(argv[3], NULL, 10);
    load.bytes = calloc(1, LARGEST);
    if (load.bytes == NULL || nigh_client_open(&options, &load.client) != NIGH_OK)
        return 1;
    hot = named("hot", load.rank, 0, name);
    put(&load, "hot", 0);
    if (nigh_get(load.client, &hot, 1, GET_US, &held) != NIGH_OK)
        return 1;
    puts("ready");
    (void)fflush(stdout);
    run(&load, strtoul(argv[4], NULL, 10));
    printf("{\"puts\": %" PRIu64 ", \"gets\": %" PRIu64 ", \"calls\": %" PRIu64 "}\n", load.puts,
           load.gets, load.calls);
    (void)fflush(stdout);
    (void)nigh_release(load.client, &held);
    nigh_client_close(load.client);
    free(load.bytes);
    return 0;
}
