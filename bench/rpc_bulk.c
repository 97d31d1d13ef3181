/* SPDX-License-Identifier: Apache-2.0 */
/* See rpc_bulk.h. Each piece has memory of its own on both sides, as many as the others'. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "harness.h"
#include "rpc_bulk.h"

#define AREAS    4 /* pieces on each side */
#define PATIENCE UINT64_C(20000000)

static uint8_t *area(void)
{
    static uint8_t *memory;

    if (memory == NULL) {
        memory = bench_memory_create(AREAS * BULK_BYTES);
        memset(memory, 7, AREAS * BULK_BYTES);
    }
    return memory;
}

/* ---- plain TCP ------------------------------------------------------------ */

static bool move_all(int fd, uint8_t *bytes, uint64_t count, bool out)
{
    while (count > 0) {
        ssize_t n = out ? send(fd, bytes, count, MSG_NOSIGNAL) : recv(fd, bytes, count, 0);

        if (n <= 0 && errno != EINTR) {
            return false;
        }
        bytes += n > 0 ? n : 0;
        count -= n > 0 ? (uint64_t)n : 0;
    }
    return true;
}

void bulk_raw_round(int fd)
{
    uint8_t answer[1];

    for (uint32_t n = 0; n < BULK_PIECES; n++) {
        if (!move_all(fd, area() + n % AREAS * BULK_BYTES, BULK_BYTES, true)) {
            bench_fail("the plain stream ended");
        }
    }
    if (!move_all(fd, answer, sizeof answer, false)) {
        bench_fail("the plain stream was not answered");
    }
}

void bulk_raw_serve(int fd)
{
    uint8_t answer[1] = {0};

    for (uint32_t n = 1; move_all(fd, area() + n % AREAS * BULK_BYTES, BULK_BYTES, false); n++) {
        if (n % BULK_PIECES == 0 && !move_all(fd, answer, sizeof answer, true)) {
            return;
        }
    }
}

/* ---- nigh ----------------------------------------------------------------- */

struct sink {
    nigh_service *service;
    nigh_bulk *bulk;
    uint64_t offset;
};

/* Of any client's, for its calls and moves. */
static nigh_bulk *alloc(nigh_client *client, uint32_t access)
{
    nigh_bulk *bulk = NULL;
    void *memory = NULL;

    bench_check(nigh_bulk_alloc(client, AREAS * BULK_BYTES, access, &memory, &bulk), "memory");
    memset(memory, 7, AREAS * BULK_BYTES);
    return bulk;
}

static void *take(void *context)
{
    struct sink *sink = context;
    uint8_t buffer[NIGH_CALL_BYTES];
    nigh_request request;
    nigh_bulk_move move = {.struct_size = sizeof move,
                           .request = &request,
                           .local = sink->bulk,
                           .local_offset = sink->offset,
                           .size = BULK_BYTES};
    nigh_status status = nigh_receive(sink->service, &request, buffer, NIGH_FOREVER);

    while (status == NIGH_OK) {
        bench_check(nigh_bulk_pull(&move), "a pull");
        status = nigh_reply_receive(&request, NIGH_OK, NULL, 0, buffer, NIGH_FOREVER);
    }
    return NULL;
}

void bulk_serve(nigh_client *client)
{
    static struct sink sinks[AREAS];
    nigh_service *service;
    nigh_bulk *bulk = alloc(client, NIGH_BULK_WRITE);
    pthread_t thread;

    bench_check(nigh_service_register(client, "sink", NULL, &service), "a service");
    for (uint32_t n = 0; n < AREAS; n++) {
        sinks[n] = (struct sink){.service = service, .bulk = bulk, .offset = n * BULK_BYTES};
        if (pthread_create(&thread, NULL, take, &sinks[n]) != 0) {
            bench_fail("no thread for a server");
        }
    }
}

nigh_bulk *bulk_open(nigh_client *client)
{
    return alloc(client, NIGH_BULK_READ);
}

bool bulk_is_served(nigh_client *client, nigh_bulk *bulk, uint32_t rank)
{
    nigh_bulk_part part = {.bulk = bulk, .size = BULK_BYTES};
    nigh_call_spec spec = {.struct_size = sizeof spec,
                           .service = "sink",
                           .rank = rank,
                           .bulk_count = 1,
                           .bulks = &part};

    return nigh_call(client, &spec, PATIENCE) == NIGH_OK;
}

void bulk_round(nigh_client *client, nigh_bulk *bulk, uint32_t rank)
{
    static nigh_call_spec specs[AREAS];
    static nigh_bulk_part parts[AREAS];
    static nigh_op ops[AREAS];

    for (uint32_t n = 0; n < BULK_PIECES + AREAS; n++) {
        uint32_t at = n % AREAS;

        if (n >= AREAS) {
            bench_check(nigh_wait(client, &ops[at], PATIENCE), "a call with memory");
        }
        if (n < BULK_PIECES) {
            parts[at] =
                (nigh_bulk_part){.bulk = bulk, .offset = at * BULK_BYTES, .size = BULK_BYTES};
            specs[at] = (nigh_call_spec){.struct_size = sizeof specs[at],
                                         .service = "sink",
                                         .rank = rank,
                                         .bulk_count = 1,
                                         .bulks = &parts[at]};
            bench_check(nigh_call_start(client, &specs[at], PATIENCE, &ops[at]),
                        "a call with memory");
        }
    }
}
