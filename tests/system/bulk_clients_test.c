/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that calls bring, of processes that are clients of nighd: at one node and between two, and
 * with clients of embedded nodes at the other end; what a node gives and takes back; callers,
 * servers and nodes that are killed, stop and fork at any step.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bulk_bytes.h"
#include "nigh/node.h"
#include "nigh/rpc.h"
#include "support/node_fixture.h"
#include "support/support.h"

#define SECOND_US 1000000u
#define PATIENCE  (20 * SECOND_US)
#define MOMENT    (SECOND_US / 20)
#define MOST      (8u << 20)
#define BUDGET    (32u << 20)
#define ALL       (NIGH_BULK_READ | NIGH_BULK_WRITE)
#define KEY       "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
/* Of each of the moves that go on for ever: some are over before a deadline. */
#define ROUND (256u << 10)

static const uint8_t key[32] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45,
                                0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab,
                                0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};

/* ---- nodes ---------------------------------------------------------------- */

/* A node, that of a process or one of this. */
struct place {
    struct node_fixture daemon;
    nigh_node *node;
};

static char members[64];

static void name_members(void)
{
    (void)snprintf(members, sizeof members, "127.0.0.1:%d,127.0.0.1:%d", support_port(),
                   support_port());
}

static void start_daemon(struct place *place, const char *rank, const char *lanes, bool again)
{
    char path[128];
    const char *flags[16] = {"--lanes", lanes, "--call-memory", "32M", NULL};
    int n = 4;

    if (rank != NULL) {
        support_put_file(support_dir(), "/key", KEY);
        support_path(path, sizeof path, "key");
        (void)chmod(path, 0600);
        flags[n++] = "--join";
        flags[n++] = members;
        flags[n++] = "--member";
        flags[n++] = rank;
        flags[n++] = "--cluster-key";
        flags[n++] = path;
    }
    if (again) {
        node_fixture_start_again(&place->daemon, "32M", flags);
    } else {
        node_fixture_start(&place->daemon, "32M", flags);
    }
}

static void start_embedded(struct place *place, const char *rank, uint32_t lanes)
{
    nigh_node_options options = {.struct_size = sizeof options,
                                 .memory_bytes = 32u << 20,
                                 .lanes = lanes,
                                 .members = members,
                                 .member = rank,
                                 .cluster_key = key};

    if (nigh_node_start(&options, &place->node) != NIGH_OK) {
        fail_msg("%s", nigh_node_start_error());
    }
}

static void stop_place(struct place *place)
{
    if (place->node != NULL) {
        nigh_node_stop(place->node);
    } else {
        node_fixture_stop(&place->daemon);
    }
}

static nigh_client *open_at(const struct place *place)
{
    nigh_client_options options = {.struct_size = sizeof options,
                                   .socket_path = place->daemon.socket};
    nigh_client *client = NULL;
    nigh_status status = place->node != NULL ? nigh_node_client(place->node, &options, &client)
                                             : nigh_client_open(&options, &client);

    if (status != NIGH_OK) {
        fail_msg("%s", nigh_open_error());
    }
    return client;
}

/* ---- the server ----------------------------------------------------------- */

enum what {
    PULL,     /* and sums */
    PUSH,     /* what the seed says */
    FOR_EVER, /* pulls and pushes again and again, until that fails */
    STOP      /* the thread that hears it ends */
};

struct ask {
    uint32_t what;
    uint32_t seed;
    uint64_t offset, size, local;
};

struct answer {
    int32_t status;
    uint32_t reserved;
    uint64_t sum;
};

struct server {
    nigh_client *client;
    nigh_service *service;
    nigh_bulk *bulk;
    uint8_t *memory;
    pthread_t thread;
};

/* What a server says, also one that is a process. */
struct said {
    _Atomic uint32_t ready;
    _Atomic uint32_t turns; /* moves that went well */
    _Atomic uint32_t begun; /* FOR_EVERs that began, */
    _Atomic uint32_t ended; /* and that ended, */
    _Atomic int32_t last;   /* and how the last did */
    _Atomic uint32_t steps; /* of a caller */
    _Atomic int32_t sought; /* found by a child */
};

static struct said *said;

static nigh_status move(struct server *server, const nigh_request *request, const struct ask *ask,
                        bool push)
{
    nigh_bulk_move move = {.struct_size = sizeof move,
                           .request = request,
                           .offset = ask->offset,
                           .local = server->bulk,
                           .local_offset = ask->local,
                           .size = ask->size};
    nigh_status status = push ? nigh_bulk_push(&move) : nigh_bulk_pull(&move);

    atomic_fetch_add(&said->turns, status == NIGH_OK);
    return status;
}

static struct answer carry_out(struct server *server, const nigh_request *request)
{
    struct answer answer = {.status = NIGH_INVALID};
    struct ask ask;

    memcpy(&ask, request->bytes, sizeof ask);
    switch ((enum what)ask.what) {
    case PULL:
        answer.status = move(server, request, &ask, false);
        if (answer.status == NIGH_OK) {
            answer.sum = sum_of(server->memory + ask.local, ask.size);
        }
        break;
    case PUSH:
        fill(server->memory + ask.local, ask.size, ask.seed);
        answer.status = move(server, request, &ask, true);
        break;
    case FOR_EVER:
        atomic_fetch_add(&said->begun, 1);
        for (uint32_t n = 0; n == 0 || answer.status == NIGH_OK; n++) {
            answer.status = move(server, request, &ask, n % 2 == 1);
        }
        atomic_store(&said->last, answer.status);
        atomic_fetch_add(&said->ended, 1);
        break;
    case STOP: answer.status = NIGH_CLOSED; break;
    }
    return answer;
}

static void *serve(void *context)
{
    struct server *server = context;
    uint8_t buffer[NIGH_CALL_BYTES];
    struct answer answer = {0};
    nigh_request request;

    while (answer.status != NIGH_CLOSED &&
           nigh_receive(server->service, &request, buffer, NIGH_FOREVER) == NIGH_OK) {
        answer = (struct answer){.status = NIGH_INVALID};
        if (request.size == sizeof(struct ask)) {
            answer = carry_out(server, &request);
        }
        (void)nigh_call_reply(&request, NIGH_OK, &answer, sizeof answer);
    }
    return NULL;
}

static nigh_status alloc(nigh_client *client, uint64_t bytes, uint8_t **memory, nigh_bulk **bulk)
{
    void *at = NULL;
    nigh_status status = nigh_bulk_alloc(client, bytes, ALL, &at, bulk);

    if (status == NIGH_OK) {
        *memory = at;
    }
    return status;
}

static void open_server(struct server *server, const struct place *place)
{
    server->client = open_at(place);
    assert_int_equal(alloc(server->client, MOST, &server->memory, &server->bulk), NIGH_OK);
    /* One that was killed may be known still. */
    assert_true(SUPPORT_WAIT(
        nigh_service_register(server->client, "mover", NULL, &server->service) == NIGH_OK, 20000));
}

static void start_server(struct server *server, const struct place *place)
{
    open_server(server, place);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void stop_server(struct server *server)
{
    struct ask stop = {.what = STOP};
    nigh_call_spec spec = {.struct_size = sizeof spec,
                           .service = "mover",
                           .rank = NIGH_ANY_RANK,
                           .request = &stop,
                           .request_bytes = sizeof stop};

    assert_int_equal(nigh_call(server->client, &spec, PATIENCE), NIGH_LIMIT);
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    nigh_service_unregister(server->service);
    assert_int_equal(nigh_bulk_close(server->bulk, PATIENCE), NIGH_OK);
    nigh_client_close(server->client);
}

/* ---- callers -------------------------------------------------------------- */

struct world {
    struct place place[2]; /* of the caller, and, if that is another, of the server */
    bool other;
    struct server server;
    nigh_client *client;
    nigh_bulk *bulk;
    uint8_t *memory;
};

static const struct place *servers_place(const struct world *world)
{
    return &world->place[world->other];
}

static nigh_status reach(nigh_client *client, uint32_t rank)
{
    nigh_call_spec spec = {.struct_size = sizeof spec, .service = "nobody's", .rank = rank};

    return nigh_call(client, &spec, PATIENCE);
}

static void open_caller(struct world *world)
{
    world->client = open_at(&world->place[0]);
    assert_true(SUPPORT_WAIT(reach(world->client, world->other) == NIGH_NOT_FOUND, 20000));
    assert_int_equal(alloc(world->client, MOST, &world->memory, &world->bulk), NIGH_OK);
    assert_int_equal(world->memory[0] + world->memory[MOST - 1], 0);
}

static void close_caller(struct world *world)
{
    assert_int_equal(nigh_bulk_close(world->bulk, PATIENCE), NIGH_OK);
    nigh_client_close(world->client);
}

enum kind {
    ONE_NODE,
    TWO_NODES,
    TO_EMBEDDED,
    FROM_EMBEDDED,
    KINDS
};

static void begin_nodes(struct world *world, enum kind kind, uint32_t lanes)
{
    const char *text = lanes == 1 ? "1" : "2";

    *world = (struct world){.other = kind != ONE_NODE};
    memset(said, 0, sizeof *said);
    name_members();
    if (kind == FROM_EMBEDDED) {
        start_embedded(&world->place[0], "0", lanes);
    } else {
        start_daemon(&world->place[0], world->other ? "0" : NULL, text, false);
    }
    if (kind == TO_EMBEDDED) {
        start_embedded(&world->place[1], "1", lanes);
    } else if (world->other) {
        start_daemon(&world->place[1], "1", text, false);
    }
}

static void begin(struct world *world, enum kind kind, uint32_t lanes)
{
    begin_nodes(world, kind, lanes);
    start_server(&world->server, servers_place(world));
    open_caller(world);
}

static void stop_nodes(struct world *world)
{
    stop_place(&world->place[0]);
    if (world->other) {
        stop_place(&world->place[1]);
    }
}

static void end(struct world *world)
{
    close_caller(world);
    stop_server(&world->server);
    stop_nodes(world);
}

struct asked {
    struct ask ask;
    nigh_bulk_part part;
    nigh_call_spec spec;
    struct answer answer;
    nigh_op op;
};

static void set_up(struct world *world, struct asked *asked, struct ask ask)
{
    *asked = (struct asked){.ask = ask, .part = {.bulk = world->bulk, .size = MOST}};
    asked->spec = (nigh_call_spec){.struct_size = sizeof asked->spec,
                                   .service = "mover",
                                   .rank = world->other,
                                   .request = &asked->ask,
                                   .request_bytes = sizeof asked->ask,
                                   .reply = &asked->answer,
                                   .reply_room = sizeof asked->answer,
                                   .bulk_count = 1,
                                   .bulks = &asked->part};
}

static nigh_status ask_of(struct world *world, struct ask ask, struct answer *answer)
{
    struct asked asked;
    nigh_status status;

    set_up(world, &asked, ask);
    status = nigh_call(world->client, &asked.spec, PATIENCE);
    *answer = asked.answer;
    return status;
}

static bool is_served(struct world *world)
{
    struct answer answer;

    return ask_of(world, (struct ask){.what = PULL, .size = 9}, &answer) == NIGH_OK &&
           answer.status == NIGH_OK;
}

static void start_for_ever(struct world *world, struct asked *asked, uint64_t timeout_us)
{
    uint32_t turns = atomic_load(&said->turns);

    set_up(world, asked, (struct ask){.what = FOR_EVER, .size = ROUND});
    assert_int_equal(nigh_call_start(world->client, &asked->spec, timeout_us, &asked->op), NIGH_OK);
    assert_true(SUPPORT_WAIT(
        ((void)nigh_poll(world->client), atomic_load(&said->turns) > turns + 1), 20000));
}

static void check_memory_is_ours(struct world *world)
{
    assert_int_equal(nigh_bulk_wait(world->bulk, PATIENCE), NIGH_OK);
    fill(world->memory, MOST, 4711);
    for (uint32_t n = 0; n < 3; n++) {
        (void)reach(world->client, 0);
        assert_true(sum_of(world->memory, MOST) == sum_of(world->memory, MOST));
        for (uint64_t at = 0; at < MOST; at++) {
            if (world->memory[at] != byte_of(at, 4711)) {
                fail_msg("byte %llu changed", (unsigned long long)at);
            }
        }
    }
}

/* Whether nobody has any of what a node makes: somebody new gets all of it. */
static bool is_all_free(const struct place *place, uint64_t bytes)
{
    nigh_client *client = open_at(place);
    nigh_bulk *bulk = NULL;
    uint8_t *memory = NULL;
    bool is_free = alloc(client, bytes, &memory, &bulk) == NIGH_OK;

    assert_int_equal(nigh_bulk_close(bulk, PATIENCE), NIGH_OK);
    nigh_client_close(client);
    return is_free;
}

/* ---- what works ----------------------------------------------------------- */

static void move_all_sizes(struct world *world)
{
    static const uint64_t sizes[] = {0, 1, 4095, 65537, 1u << 20, (5u << 20) + 3, MOST - 13};

    for (uint32_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        struct ask ask = {.size = sizes[n], .offset = n + 1, .local = n, .seed = n};
        struct answer answer;

        fill(world->memory, MOST, 77 + n);
        ask.what = PULL;
        assert_int_equal(ask_of(world, ask, &answer), NIGH_OK);
        assert_int_equal(answer.status, NIGH_OK);
        assert_true(answer.sum == sum_of(world->memory + ask.offset, ask.size));
        ask.what = PUSH;
        assert_int_equal(ask_of(world, ask, &answer), NIGH_OK);
        assert_int_equal(answer.status, NIGH_OK);
        for (uint64_t at = 0; at < MOST; at++) {
            bool inside = at >= ask.offset && at < ask.offset + ask.size;

            if (world->memory[at] != (inside ? byte_of(at - ask.offset, n) : byte_of(at, 77 + n))) {
                fail_msg("size %llu: byte %llu", (unsigned long long)ask.size,
                         (unsigned long long)at);
            }
        }
    }
}

static void bytes_go_both_ways(void **state)
{
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 2 * KINDS; n++) {
        begin(&world, (enum kind)(n % KINDS), 1 + n / KINDS);
        move_all_sizes(&world);
        end(&world);
    }
}

/* ---- what a node gives ---------------------------------------------------- */

static void a_node_gives_what_it_has(void **state)
{
    nigh_client_options options = {.struct_size = sizeof options, .flags = NIGH_OPEN_READ_ONLY};
    struct world world;
    nigh_client *reader = NULL;
    nigh_bulk *bulk = NULL, *more = NULL;
    nigh_node_stats stats = {.struct_size = sizeof stats};
    uint8_t *memory = NULL;
    void *at;

    (void)state;
    begin_nodes(&world, ONE_NODE, 1);
    world.client = open_at(&world.place[0]);
    assert_int_equal(alloc(world.client, BUDGET + 1, &memory, &bulk), NIGH_OUT_OF_MEMORY);
    assert_int_equal(alloc(world.client, UINT64_MAX - 4096, &memory, &bulk), NIGH_OUT_OF_MEMORY);
    assert_int_equal(alloc(world.client, UINT64_MAX, &memory, &bulk), NIGH_INVALID);
    assert_int_equal(alloc(world.client, 0, &memory, &bulk), NIGH_INVALID);
    assert_int_equal(nigh_bulk_alloc(world.client, 1, 4, &at, &bulk), NIGH_INVALID);
    assert_int_equal(nigh_bulk_open(world.client, &world, 8, ALL, &bulk), NIGH_UNSUPPORTED);
    for (uint32_t n = 0; n < 8; n++) {
        assert_int_equal(alloc(world.client, BUDGET - 8192, &memory, &bulk), NIGH_OK);
        assert_int_equal(alloc(world.client, 4097, &memory, &more), NIGH_OK);
        assert_false(is_all_free(&world.place[0], 1));
        assert_int_equal(nigh_stats(world.client, &stats), NIGH_OK);
        assert_int_equal(stats.call_memory_bytes, BUDGET);
        assert_int_equal(stats.call_memory_limit_bytes, BUDGET);
        assert_int_equal(stats.call_memory_refused, 3 + n); /* is_all_free has asked, too */
        assert_int_equal(nigh_bulk_close(bulk, PATIENCE), NIGH_OK);
        assert_true(is_all_free(&world.place[0], BUDGET - 8192));
        assert_int_equal(nigh_bulk_close(more, PATIENCE), NIGH_OK);
    }
    options.socket_path = world.place[0].daemon.socket;
    assert_int_equal(nigh_client_open(&options, &reader), NIGH_OK);
    assert_int_equal(alloc(reader, 1, &memory, &bulk), NIGH_DENIED);
    nigh_client_close(reader);
    nigh_client_close(world.client);
    stop_nodes(&world);
}

static void a_client_has_so_many_handles(void **state)
{
    static nigh_bulk *bulks[256];
    struct world world;
    nigh_bulk *bulk = NULL;
    uint8_t *memory = NULL;

    (void)state;
    begin_nodes(&world, ONE_NODE, 1);
    world.client = open_at(&world.place[0]);
    for (uint32_t n = 0; n < 256; n++) {
        assert_int_equal(alloc(world.client, 1, &memory, &bulks[n]), NIGH_OK);
        memory[4095] = 1;
    }
    assert_int_equal(alloc(world.client, 1, &memory, &bulk), NIGH_LIMIT);
    assert_int_equal(nigh_bulk_close(bulks[7], PATIENCE), NIGH_OK);
    assert_int_equal(alloc(world.client, 1, &memory, &bulks[7]), NIGH_OK);
    assert_int_equal(memory[4095], 0);
    nigh_client_close(world.client);
    assert_true(SUPPORT_WAIT(is_all_free(&world.place[0], BUDGET), 20000));
    stop_nodes(&world);
}

static void a_sessions_quota_bounds_it(void **state)
{
    const char *flags[] = {"--session-quota", "2M", "--call-memory", "32M", NULL};
    struct place place = {0};
    nigh_client *client;
    nigh_bulk *bulk = NULL, *more = NULL;
    uint8_t *memory = NULL;

    (void)state;
    node_fixture_start(&place.daemon, "32M", flags);
    client = open_at(&place);
    assert_int_equal(alloc(client, (2u << 20) + 1, &memory, &bulk), NIGH_QUOTA);
    assert_int_equal(alloc(client, 1u << 20, &memory, &bulk), NIGH_OK);
    assert_int_equal(alloc(client, 1u << 20, &memory, &more), NIGH_OK);
    assert_int_equal(alloc(client, 1, &memory, &bulk), NIGH_QUOTA);
    nigh_client_close(client);
    node_fixture_stop(&place.daemon);
}

/* What a client gives back of its own accord is made good, and its bytes are zeroes. */
static void a_hole_is_zeroes(void **state)
{
    struct answer answer;
    struct world world;
    static uint8_t nothing[MOST];

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin(&world, n == 0 ? ONE_NODE : TWO_NODES, 1);
        fill(world.memory, MOST, 1);
        assert_int_equal(madvise(world.memory, MOST, MADV_REMOVE), 0);
        assert_int_equal(ask_of(&world, (struct ask){.what = PULL, .size = MOST}, &answer),
                         NIGH_OK);
        assert_true(answer.sum == sum_of(nothing, MOST));
        end(&world);
    }
}

/* ---- what ends in the midst ----------------------------------------------- */

static void a_deadline_ends_the_call_and_then_the_loan(void **state)
{
    struct asked asked;
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin(&world, n == 0 ? ONE_NODE : TWO_NODES, 2);
        start_for_ever(&world, &asked, SECOND_US / 2);
        assert_int_equal(nigh_bulk_wait(world.bulk, 0), NIGH_TIMEOUT);
        assert_int_equal(nigh_bulk_wait(world.bulk, MOMENT), NIGH_TIMEOUT);
        assert_int_equal(nigh_bulk_close(world.bulk, 0), NIGH_TIMEOUT);
        assert_int_equal(nigh_bulk_close(world.bulk, MOMENT), NIGH_TIMEOUT);
        assert_int_equal(nigh_wait(world.client, &asked.op, PATIENCE), NIGH_TIMEOUT);
        check_memory_is_ours(&world);
        assert_true(SUPPORT_WAIT(atomic_load(&said->ended) == 1, 20000));
        assert_int_equal(atomic_load(&said->last), NIGH_NOT_FOUND);
        assert_true(is_served(&world));
        end(&world);
    }
}

/* What was submitted and cancelled at once is over when the waiting is. */
static void a_call_that_is_cancelled_leaves_the_memory(void **state)
{
    struct asked asked;
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin(&world, n == 0 ? ONE_NODE : TWO_NODES, 2);
        for (uint32_t i = 0; i < 40; i++) {
            set_up(&world, &asked, (struct ask){.what = FOR_EVER, .size = ROUND});
            assert_int_equal(nigh_call_start(world.client, &asked.spec, PATIENCE, &asked.op),
                             NIGH_OK);
            assert_int_equal(nigh_cancel(world.client, &asked.op), NIGH_CANCELED);
            assert_int_equal(nigh_bulk_wait(world.bulk, PATIENCE), NIGH_OK);
            fill(world.memory, ROUND, i);
        }
        check_memory_is_ours(&world);
        assert_true(is_served(&world));
        end(&world);
    }
}

static void a_close_waits_for_the_last_use(void **state)
{
    struct asked asked;
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin(&world, n == 0 ? ONE_NODE : TWO_NODES, 1);
        start_for_ever(&world, &asked, PATIENCE);
        assert_int_equal(nigh_cancel(world.client, &asked.op), NIGH_CANCELED);
        assert_int_equal(nigh_bulk_close(world.bulk, PATIENCE), NIGH_OK);
        assert_int_equal(alloc(world.client, MOST, &world.memory, &world.bulk), NIGH_OK);
        assert_true(is_served(&world));
        end(&world);
    }
}

static void a_client_that_goes_takes_its_memory_along(void **state)
{
    struct asked asked;
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin(&world, n == 0 ? ONE_NODE : TWO_NODES, 2);
        start_for_ever(&world, &asked, PATIENCE);
        nigh_client_close(world.client);
        assert_true(SUPPORT_WAIT(atomic_load(&said->ended) == 1, 20000));
        /* The server has its own there still, where that is the same node. */
        assert_true(SUPPORT_WAIT(is_all_free(&world.place[0], world.other ? BUDGET : BUDGET - MOST),
                                 20000));
        open_caller(&world);
        assert_true(is_served(&world));
        end(&world);
    }
}

/* Until something else than time ends it. */
static void *wait_on(void *context)
{
    nigh_bulk *bulk = context;
    nigh_status status = NIGH_TIMEOUT;

    while (status == NIGH_TIMEOUT) {
        status = nigh_bulk_wait(bulk, PATIENCE);
    }
    return NULL;
}

/* What is waited for then ends with lanes that end, and nobody is to tell these. */
static void a_node_that_stops_ends_it(void **state)
{
    struct asked asked;
    struct world world;
    pthread_t waiting;

    (void)state;
    for (uint32_t n = 0; n < 4; n++) {
        begin(&world, n % 2 == 0 ? ONE_NODE : TWO_NODES, 1 + n / 2);
        start_for_ever(&world, &asked, PATIENCE);
        assert_int_equal(pthread_create(&waiting, NULL, wait_on, world.bulk), 0);
        assert_int_equal(nigh_bulk_wait(world.bulk, MOMENT), NIGH_TIMEOUT);
        stop_nodes(&world);
        assert_int_equal(nigh_wait(world.client, &asked.op, PATIENCE), NIGH_NODE_LOST);
        assert_int_equal(pthread_join(waiting, NULL), 0);
        assert_int_equal(pthread_join(world.server.thread, NULL), 0);
        nigh_service_unregister(world.server.service);
        assert_int_equal(nigh_bulk_close(world.server.bulk, 0), NIGH_OK);
        nigh_client_close(world.server.client);
        world.memory[0] = 1; /* it is there until it is closed */
        close_caller(&world);
    }
}

/* ---- processes ------------------------------------------------------------ */

static int be_server(void *context)
{
    struct world *world = context;

    open_server(&world->server, servers_place(world));
    atomic_store(&said->ready, 1);
    (void)serve(&world->server);
    return 0;
}

/* Again and again: memory, a call with it, and back. */
static int be_caller(void *context)
{
    struct world *world = context;
    struct answer answer;

    world->client = open_at(&world->place[0]);
    for (uint32_t n = 0;; n++) {
        uint64_t bytes = n % 3 == 0 ? 4096 : MOST;
        struct ask ask = {.what = n % 2, .size = bytes};
        struct asked asked;

        atomic_fetch_add(&said->steps, 1);
        if (alloc(world->client, bytes, &world->memory, &world->bulk) != NIGH_OK) {
            return 1;
        }
        atomic_fetch_add(&said->steps, 1);
        set_up(world, &asked, ask);
        asked.part.size = bytes;
        if (nigh_call(world->client, &asked.spec, PATIENCE) != NIGH_OK) {
            return 2;
        }
        answer = asked.answer;
        atomic_fetch_add(&said->steps, 1);
        if (answer.status != NIGH_OK || nigh_bulk_close(world->bulk, PATIENCE) != NIGH_OK) {
            return 3;
        }
    }
}

static int be_caller_for_ever(void *context)
{
    struct world *world = context;
    struct asked asked;

    world->client = open_at(&world->place[0]);
    if (alloc(world->client, MOST, &world->memory, &world->bulk) != NIGH_OK) {
        return 1;
    }
    set_up(world, &asked, (struct ask){.what = FOR_EVER, .size = ROUND});
    return nigh_call(world->client, &asked.spec, NIGH_FOREVER) == NIGH_OK ? 2 : 3;
}

static void kill_child(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(support_join(pid, 10000), -SIGKILL);
}

static void callers_that_are_killed_cost_themselves(void **state)
{
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin_nodes(&world, n == 0 ? ONE_NODE : TWO_NODES, 2);
        start_server(&world.server, servers_place(&world));
        open_caller(&world);
        close_caller(&world);
        for (uint32_t step = 1; step < 24; step++) {
            uint32_t before = atomic_load(&said->steps);
            pid_t pid = support_fork(be_caller, &world);

            assert_true(SUPPORT_WAIT(atomic_load(&said->steps) >= before + step, 20000));
            kill_child(pid);
        }
        for (uint32_t step = 0; step < 4; step++) {
            uint32_t begun = atomic_load(&said->begun), ended = atomic_load(&said->ended), turns;
            pid_t pid = support_fork(be_caller_for_ever, &world);

            /* A call of one that was killed before may be under way still, and counts turns, too.
             */
            assert_true(SUPPORT_WAIT(atomic_load(&said->begun) == begun + 1, 20000));
            turns = atomic_load(&said->turns);
            assert_true(SUPPORT_WAIT(atomic_load(&said->turns) >= turns + step, 20000));
            kill_child(pid);
            assert_true(SUPPORT_WAIT(atomic_load(&said->ended) == ended + 1, 20000));
            assert_int_equal(atomic_load(&said->last), NIGH_NOT_FOUND);
        }
        assert_true(SUPPORT_WAIT(is_all_free(&world.place[0], world.other ? BUDGET : BUDGET - MOST),
                                 20000));
        open_caller(&world);
        assert_true(is_served(&world));
        end(&world);
    }
}

static void servers_that_are_killed_end_their_calls(void **state)
{
    struct asked asked;
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin_nodes(&world, n == 0 ? ONE_NODE : TWO_NODES, 1);
        open_caller(&world);
        for (uint32_t step = 0; step < 8; step++) {
            uint32_t turns = atomic_load(&said->turns);
            nigh_status status;
            pid_t pid;

            atomic_store(&said->ready, 0);
            pid = support_fork(be_server, &world);
            assert_true(SUPPORT_WAIT(atomic_load(&said->ready) == 1, 20000));
            set_up(&world, &asked, (struct ask){.what = FOR_EVER, .size = ROUND});
            assert_int_equal(nigh_call_start(world.client, &asked.spec, PATIENCE, &asked.op),
                             NIGH_OK);
            assert_true(SUPPORT_WAIT(
                ((void)nigh_poll(world.client), atomic_load(&said->turns) >= turns + step), 20000));
            kill_child(pid);
            status = nigh_wait(world.client, &asked.op, PATIENCE);
            /* It may have been dead when it was asked. */
            assert_true(status == NIGH_CLOSED || (status == NIGH_NOT_FOUND && step == 0));
            check_memory_is_ours(&world);
        }
        assert_true(SUPPORT_WAIT(
            is_all_free(servers_place(&world), world.other ? BUDGET : BUDGET - MOST), 20000));
        close_caller(&world);
        stop_nodes(&world);
    }
}

/* The node has its memory: nobody waits for it. */
static void a_caller_that_stands_still_holds_up_nobody(void **state)
{
    struct world world;
    uint32_t turns;
    pid_t pid;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin_nodes(&world, n == 0 ? ONE_NODE : TWO_NODES, 1);
        start_server(&world.server, servers_place(&world));
        pid = support_fork(be_caller_for_ever, &world);
        assert_true(SUPPORT_WAIT(atomic_load(&said->turns) > 2, 20000));
        assert_int_equal(kill(pid, SIGSTOP), 0);
        assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
        turns = atomic_load(&said->turns);
        assert_true(SUPPORT_WAIT(atomic_load(&said->turns) > turns + 20, 20000));
        kill_child(pid);
        assert_true(SUPPORT_WAIT(atomic_load(&said->ended) == 1, 20000));
        stop_server(&world.server);
        stop_nodes(&world);
    }
}

static int be_child_of_caller(void *context)
{
    struct world *world = context;
    unsigned char page;

    if (mincore(world->memory, 4096, &page) == 0) {
        return 1; /* it is mapped */
    }
    if (nigh_bulk_wait(world->bulk, 0) != NIGH_FORKED ||
        nigh_bulk_close(world->bulk, 0) != NIGH_FORKED) {
        return 2;
    }
    nigh_client_close(world->client);
    return 0;
}

static void a_child_does_not_have_it(void **state)
{
    struct asked asked;
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin(&world, n == 0 ? ONE_NODE : FROM_EMBEDDED, 1);
        start_for_ever(&world, &asked, PATIENCE);
        assert_int_equal(support_join(support_fork(be_child_of_caller, &world), 10000), 0);
        assert_int_equal(nigh_cancel(world.client, &asked.op), NIGH_CANCELED);
        check_memory_is_ours(&world);
        assert_true(is_served(&world));
        end(&world);
    }
}

/* ---- nodes that are killed ------------------------------------------------ */

static void the_node_of_the_other_side_is_killed(void **state)
{
    struct asked asked;
    struct world world;

    (void)state;
    begin(&world, TWO_NODES, 1);
    start_for_ever(&world, &asked, PATIENCE);
    kill_child(world.place[1].daemon.pid);
    assert_int_equal(nigh_wait(world.client, &asked.op, PATIENCE), NIGH_PEER_LOST);
    assert_int_equal(nigh_bulk_wait(world.bulk, 0), NIGH_OK);
    check_memory_is_ours(&world);
    assert_int_equal(pthread_join(world.server.thread, NULL), 0);
    nigh_service_unregister(world.server.service);
    nigh_client_close(world.server.client);
    close_caller(&world);
    node_fixture_stop(&world.place[0].daemon);
}

static void the_callers_node_is_killed(void **state)
{
    struct asked asked;
    struct world world;

    (void)state;
    begin(&world, TWO_NODES, 1);
    start_for_ever(&world, &asked, PATIENCE);
    kill_child(world.place[0].daemon.pid);
    assert_int_equal(nigh_wait(world.client, &asked.op, PATIENCE), NIGH_NODE_LOST);
    assert_true(SUPPORT_WAIT(atomic_load(&said->ended) == 1, 20000));
    assert_true(atomic_load(&said->last) == NIGH_PEER_LOST ||
                atomic_load(&said->last) == NIGH_NOT_FOUND);
    world.memory[0] = 1; /* it is there until it is closed */
    close_caller(&world);
    start_daemon(&world.place[0], "0", "1", true);
    open_caller(&world);
    assert_true(SUPPORT_WAIT(is_served(&world), 20000));
    end(&world);
}

/* The session goes on, with another node; its memory does not. */
static void what_resumes_the_session_has_none(void **state)
{
    const char *flags[] = {"--hold", "--call-memory", "32M", NULL};
    struct world world = {.other = false};
    struct answer answer;
    nigh_bulk *gone;
    uint8_t *bytes;
    pid_t node;

    (void)state;
    memset(said, 0, sizeof *said);
    node_fixture_start(&world.place[0].daemon, "32M", flags);
    open_caller(&world);
    for (uint32_t round = 0; round < 3; round++) {
        node = node_fixture_child(world.place[0].daemon.pid);
        assert_true(node > 0);
        assert_int_equal(kill(node, SIGKILL), 0);
        assert_true(SUPPORT_WAIT(reach(world.client, 0) == NIGH_NOT_FOUND, 20000));
        assert_int_equal(ask_of(&world, (struct ask){.what = PULL}, &answer), NIGH_CLOSED);
        assert_int_equal(nigh_bulk_wait(world.bulk, 0), NIGH_CLOSED);
        gone = world.bulk;
        bytes = world.memory;
        bytes[0] = 1;
        /* Its number is none of the new node's. */
        assert_int_equal(alloc(world.client, MOST, &world.memory, &world.bulk), NIGH_OK);
        start_server(&world.server, &world.place[0]);
        assert_true(is_served(&world));
        assert_int_equal(nigh_bulk_close(gone, 0), NIGH_OK);
        assert_true(is_served(&world));
        stop_server(&world.server);
        assert_true(is_all_free(&world.place[0], BUDGET - MOST));
    }
    close_caller(&world);
    node_fixture_stop(&world.place[0].daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_go_both_ways),
        cmocka_unit_test(a_node_gives_what_it_has),
        cmocka_unit_test(a_client_has_so_many_handles),
        cmocka_unit_test(a_sessions_quota_bounds_it),
        cmocka_unit_test(a_hole_is_zeroes),
        cmocka_unit_test(a_deadline_ends_the_call_and_then_the_loan),
        cmocka_unit_test(a_call_that_is_cancelled_leaves_the_memory),
        cmocka_unit_test(a_close_waits_for_the_last_use),
        cmocka_unit_test(a_client_that_goes_takes_its_memory_along),
        cmocka_unit_test(a_node_that_stops_ends_it),
        cmocka_unit_test(callers_that_are_killed_cost_themselves),
        cmocka_unit_test(servers_that_are_killed_end_their_calls),
        cmocka_unit_test(a_caller_that_stands_still_holds_up_nobody),
        cmocka_unit_test(a_child_does_not_have_it),
        cmocka_unit_test(the_node_of_the_other_side_is_killed),
        cmocka_unit_test(the_callers_node_is_killed),
        cmocka_unit_test(what_resumes_the_session_has_none),
    };

    said = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (said == MAP_FAILED) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
