/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load that does not end, for scripts that break what is between nodes (cluster_net.py):
 *
 *   net-load SOCKET RANK NODES
 *
 * It puts objects on two nodes, gets those of all nodes and looks at every byte, creates
 * exclusively what the other loads create, too, deletes objects that only one node has, and calls a
 * service of its name at any rank, until its standard input ends. What was acknowledged it says in
 * a line each, at once:
 *
 *   put N           object N of RANK is on two nodes
 *   only N          this one alone has created N
 *   gone N          object N of RANK was deleted
 *   wrong ...       a byte, an answer or a time that must not be; the script fails
 *   end ...         how many calls were begun, and how often one ended
 *
 * and behind each number the time, in ms. A node that dies, or is stopped, is waited for: the
 * client is opened anew.
 *
 *   net-load SOCKET check there|gone
 *
 * reads "KIND RANK N" a line, and looks whether that object can be got, with the right bytes, or
 * nobody has it; exit 1, and a line each, where it is otherwise.
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nigh/nigh.h"

#define SERVICE    "net-load"
#define SIZE       3000u
#define CALLS      8u /* under way at once */
#define PATIENCE   UINT64_C(1000000)
#define LATE_US    UINT64_C(15000000) /* of a machine without a processor to spare */
#define PAUSE_MS   20 /* between what is asked for, so that five loads leave the nodes time */
#define KIND_KEPT  UINT64_C(0)
#define KIND_ONLY  UINT64_C(1)
#define KIND_BRIEF UINT64_C(2)

static const char *socket_path;
static uint64_t late_us = LATE_US; /* and for how long its node may stand still */
static uint32_t own_rank, nodes;
static _Atomic bool over;
static _Atomic uint64_t begun, ended;

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void pause_briefly(void)
{
    (void)poll(NULL, 0, PAUSE_MS);
}

static nigh_id id_of(uint64_t kind, uint32_t rank, uint64_t number)
{
    nigh_id id;
    char name[64];

    (void)snprintf(name, sizeof name, "net-%" PRIu64 "-%u-%" PRIu64, kind, rank, number);
    (void)nigh_id_from_name(name, &id);
    return id;
}

static void fill(uint64_t *words, uint32_t rank, uint64_t number)
{
    for (uint32_t n = 0; n < SIZE / 8; n++)
        words[n] = (number * 31 + rank) * UINT64_C(0x9e3779b97f4a7c15) + n;
}

static void say(const char *what, uint64_t number)
{
    printf("%s %" PRIu64 " %" PRIu64 "\n", what, number, now_us() / 1000);
    (void)fflush(stdout);
}

/* A client of the node, as soon as it is there; NULL: it is over. */
static nigh_client *open_client(void)
{
    nigh_client_options options = {
        .struct_size = sizeof options, .socket_path = socket_path, .name = "net-load"};

    while (!atomic_load(&over)) {
        nigh_client *client;

        if (nigh_client_open(&options, &client) == NIGH_OK)
            return client;
        pause_briefly();
    }
    return NULL;
}

/* ---- objects -------------------------------------------------------------- */

static void put_kept(nigh_client *client, uint64_t number)
{
    nigh_create_options options = {.flags = NIGH_CREATE_REPLICAS(2), .timeout_us = PATIENCE};
    nigh_id id = id_of(KIND_KEPT, own_rank, number);
    uint64_t words[SIZE / 8];

    fill(words, own_rank, number);
    if (nigh_put(client, &id, words, sizeof words, &options) == NIGH_OK)
        say("put", number);
}

static void create_only(nigh_client *client, uint64_t number)
{
    /* On three nodes: what only those have that are dead, or cut off, may be created again. */
    nigh_create_options options = {.flags = NIGH_CREATE_EXCLUSIVE | NIGH_CREATE_REPLICAS(3),
                                   .timeout_us = PATIENCE};
    nigh_id id = id_of(KIND_ONLY, 0, number);
    uint64_t words[1] = {own_rank};

    if (nigh_put(client, &id, words, sizeof words, &options) == NIGH_OK)
        say("only", number);
}

static void delete_brief(nigh_client *client, uint64_t number)
{
    nigh_id id = id_of(KIND_BRIEF, own_rank, number);
    uint64_t words[SIZE / 8];
    nigh_status status;

    fill(words, own_rank, number);
    if (nigh_put(client, &id, words, sizeof words, NULL) == NIGH_OK &&
        nigh_delete(client, &id, 1, &status) == NIGH_OK && status == NIGH_OK)
        say("gone", number);
}

static void get_some(nigh_client *client, uint64_t number)
{
    uint32_t rank = (uint32_t)(number * 7 + own_rank) % nodes;
    nigh_id id = id_of(KIND_KEPT, rank, number);
    uint64_t words[SIZE / 8], from_us = now_us();
    nigh_view view;

    if (nigh_get(client, &id, 1, PATIENCE, &view) != NIGH_OK || view.status != NIGH_OK) {
        if (now_us() - from_us > PATIENCE + late_us)
            say("wrong get, late, of", number);
        return;
    }
    fill(words, rank, number);
    if (view.data_size != sizeof words || memcmp(view.data, words, sizeof words) != 0)
        say("wrong bytes of", number);
    (void)nigh_release(client, &view);
}

/* ---- calls ---------------------------------------------------------------- */

static void call_some(nigh_client *client, uint64_t number)
{
    static const uint32_t flags[] = {0, NIGH_CALL_IDEMPOTENT};
    uint64_t requests[CALLS], replies[CALLS], from_us = now_us();
    nigh_call_spec specs[CALLS];
    nigh_op ops[CALLS];

    for (uint32_t n = 0; n < CALLS; n++) {
        requests[n] = number * CALLS + n;
        specs[n] = (nigh_call_spec){.struct_size = sizeof specs[n],
                                    .service = SERVICE,
                                    .rank = n % 3 == 0 ? NIGH_ANY_RANK : (own_rank + n) % nodes,
                                    .flags = flags[n % 2],
                                    .request = &requests[n],
                                    .request_bytes = sizeof requests[n],
                                    .reply = &replies[n],
                                    .reply_room = sizeof replies[n]};
        if (nigh_call_start(client, &specs[n], PATIENCE, &ops[n]) == NIGH_OK)
            atomic_fetch_add(&begun, 1);
        else
            specs[n].struct_size = 0;
    }
    for (uint32_t n = 0; n < CALLS; n++) {
        nigh_status status;

        if (specs[n].struct_size == 0)
            continue;
        status = nigh_wait(client, &ops[n], PATIENCE + late_us);
        if (nigh_op_status(&ops[n]) == NIGH_PENDING) {
            say("wrong call, without an end,", number);
            (void)nigh_cancel(client, &ops[n]);
        } else {
            atomic_fetch_add(&ended, 1);
        }
        if (status == NIGH_OK &&
            (specs[n].reply_bytes != sizeof replies[n] || replies[n] != requests[n]))
            say("wrong answer to", number);
    }
    if (now_us() - from_us > PATIENCE + late_us)
        say("wrong call, late,", number);
}

static void serve(nigh_client *client)
{
    static char buffer[NIGH_CALL_BYTES];
    nigh_service *service;
    nigh_request request;
    nigh_status status = nigh_service_register(client, SERVICE, NULL, &service);

    if (status == NIGH_OK)
        status = nigh_receive(service, &request, buffer, PATIENCE);
    while (!atomic_load(&over) && (status == NIGH_OK || status == NIGH_TIMEOUT)) {
        status = status == NIGH_TIMEOUT ? nigh_receive(service, &request, buffer, PATIENCE)
                                        : nigh_reply_receive(&request, NIGH_OK, request.bytes,
                                                             request.size, buffer, PATIENCE);
    }
}

static void *serve_for_ever(void *context)
{
    nigh_client *client;

    (void)context;
    while ((client = open_client()) != NULL) {
        serve(client);
        nigh_client_close(client);
        pause_briefly();
    }
    return NULL;
}

/* ---- all of it ------------------------------------------------------------ */

static bool is_there(nigh_client *client)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    return nigh_stats(client, &stats) == NIGH_OK;
}

static void *load_for_ever(void *context)
{
    nigh_client *client = NULL;

    (void)context;
    for (uint64_t number = 0; !atomic_load(&over); number++) {
        if (client != NULL && !is_there(client)) {
            nigh_client_close(client);
            client = NULL;
        }
        if (client == NULL && (client = open_client()) == NULL)
            break;
        put_kept(client, number);
        create_only(client, number);
        get_some(client, number / 2);
        call_some(client, number);
        delete_brief(client, number);
        pause_briefly();
    }
    if (client != NULL)
        nigh_client_close(client);
    return NULL;
}

/* How one object is; false: otherwise than it must be. */
static bool check_one(nigh_client *client, uint64_t kind, uint32_t rank, uint64_t number,
                      bool there)
{
    nigh_id id = id_of(kind, rank, number);
    uint64_t words[SIZE / 8];
    nigh_view view;
    bool same;

    if (nigh_get(client, &id, 1, there ? 10 * PATIENCE : 0, &view) != NIGH_OK ||
        view.status != NIGH_OK)
        return !there;
    fill(words, rank, number);
    same = view.data_size == sizeof words && memcmp(view.data, words, sizeof words) == 0;
    (void)nigh_release(client, &view);
    return there && same;
}

static int check_all(bool there)
{
    nigh_client *client = open_client();
    uint64_t kind, number;
    uint32_t rank;
    int bad = 0;

    while (scanf("%" SCNu64 " %" SCNu32 " %" SCNu64, &kind, &rank, &number) == 3) {
        if (!check_one(client, kind, rank, number, there)) {
            printf("%" PRIu64 " %u %" PRIu64 " is not %s\n", kind, rank, number,
                   there ? "there" : "gone");
            bad = 1;
        }
    }
    nigh_client_close(client);
    return bad;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    char nothing;

    if (argc != 4) {
        (void)fprintf(stderr, "usage: net-load SOCKET RANK NODES\n");
        return 2;
    }
    socket_path = argv[1];
    if (getenv("NIGH_NET_PAUSE") != NULL)
        late_us += strtoull(getenv("NIGH_NET_PAUSE"), NULL, 10) * 1000000;
    if (strcmp(argv[2], "check") == 0)
        return check_all(strcmp(argv[3], "there") == 0);
    own_rank = (uint32_t)strtoul(argv[2], NULL, 10);
    nodes = (uint32_t)strtoul(argv[3], NULL, 10);
    if (pthread_create(&threads[0], NULL, serve_for_ever, NULL) != 0 ||
        pthread_create(&threads[1], NULL, load_for_ever, NULL) != 0)
        return 2;
    (void)!read(STDIN_FILENO, &nothing, 1);
    atomic_store(&over, true);
    (void)pthread_join(threads[0], NULL);
    (void)pthread_join(threads[1], NULL);
    printf("end %" PRIu64 " %" PRIu64 "\n", atomic_load(&begun), atomic_load(&ended));
    return 0;
}
