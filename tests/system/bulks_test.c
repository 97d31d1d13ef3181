/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that calls bring: embedded nodes of one process and of two, on one node and between nodes;
 * callers and servers that give up, end and are killed in the midst; and whoever asks for what is
 * not there.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bulk_bytes.h"
#include "nigh/node.h"
#include "nigh/rpc.h"
#include "support/support.h"

#define SECOND_US 1000000u
#define PATIENCE  (20 * SECOND_US)
#define MOMENT    (SECOND_US / 20)
#define SERVERS   2 /* threads of a service */
#define MOST      (24u << 20)
/* Of each of the moves that go on for ever: some are over before a deadline, also where
 * ThreadSanitizer looks at every byte. */
#ifdef __SANITIZE_THREAD__
#define ROUND (256u << 10)
#else
#define ROUND MOST
#endif

static const uint8_t key[32] = "of nodes in one process";

enum what {
    PULL,     /* and sums */
    PUSH,     /* what the seed says */
    BOTH,     /* pulls, and pushes it back a byte later */
    FOR_EVER, /* pulls and pushes again and again, until that fails */
    STOP      /* the thread that hears it ends */
};

/* What the service is asked. */
struct ask {
    uint32_t what;
    uint32_t number;
    uint64_t offset, size, local;
    uint32_t seed;
    uint32_t reserved;
};

struct answer {
    int32_t status;
    uint32_t rounds;
    uint64_t sum;
};

struct server {
    nigh_node *node;
    nigh_client *client;
    nigh_service *service;
    nigh_bulk *bulk;
    uint8_t *memory;
    pthread_t thread[SERVERS];
    _Atomic uint32_t turns; /* moves that went well */
    _Atomic int32_t last;   /* how the last FOR_EVER ended */
    _Atomic uint32_t ended; /* of those */
};

struct world {
    char members[64];
    struct server server;
    nigh_node *node;
    nigh_client *client;
    nigh_bulk *bulk;
    uint8_t *memory;
    uint32_t rank; /* of the server */
};

static uint8_t *map(size_t bytes)
{
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(memory != MAP_FAILED);
    return memory;
}

/* ---- the server ----------------------------------------------------------- */

static nigh_status move(struct server *server, const nigh_request *request, const struct ask *ask,
                        bool push)
{
    nigh_bulk_move move = {.struct_size = sizeof move,
                           .request = request,
                           .number = ask->number,
                           .offset = ask->offset,
                           .local = server->bulk,
                           .local_offset = ask->local,
                           .size = ask->size};
    nigh_status status = push ? nigh_bulk_push(&move) : nigh_bulk_pull(&move);

    atomic_fetch_add(&server->turns, status == NIGH_OK);
    return status;
}

static void for_ever(struct server *server, const nigh_request *request, const struct ask *ask,
                     struct answer *answer)
{
    do {
        answer->status = move(server, request, ask, answer->rounds % 2 == 1);
        answer->rounds++;
    } while (answer->status == NIGH_OK);
    atomic_store(&server->last, answer->status);
    atomic_fetch_add(&server->ended, 1);
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
    case BOTH:
        answer.status = move(server, request, &ask, false);
        if (answer.status == NIGH_OK) {
            ask.offset++;
            answer.status = move(server, request, &ask, true);
        }
        break;
    case FOR_EVER: for_ever(server, request, &ask, &answer); break;
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

static void start_server(struct server *server, nigh_node *node)
{
    nigh_client_options options = {.struct_size = sizeof options};

    server->node = node;
    assert_int_equal(nigh_node_client(node, &options, &server->client), NIGH_OK);
    server->memory = map(MOST);
    assert_int_equal(nigh_bulk_open(server->client, server->memory, MOST,
                                    NIGH_BULK_READ | NIGH_BULK_WRITE, &server->bulk),
                     NIGH_OK);
    assert_int_equal(nigh_service_register(server->client, "mover", NULL, &server->service),
                     NIGH_OK);
    for (uint32_t n = 0; n < SERVERS; n++) {
        assert_int_equal(pthread_create(&server->thread[n], NULL, serve, server), 0);
    }
}

/* Nobody receives for a service that is unregistered. */
static void stop_server(struct server *server)
{
    struct ask stop = {.what = STOP};
    nigh_call_spec spec = {.struct_size = sizeof spec,
                           .service = "mover",
                           .rank = NIGH_ANY_RANK,
                           .request = &stop,
                           .request_bytes = sizeof stop};

    for (uint32_t n = 0; n < SERVERS; n++) {
        assert_int_equal(nigh_call(server->client, &spec, PATIENCE), NIGH_LIMIT);
    }
    for (uint32_t n = 0; n < SERVERS; n++) {
        assert_int_equal(pthread_join(server->thread[n], NULL), 0);
    }
    nigh_service_unregister(server->service);
    assert_int_equal(nigh_bulk_close(server->bulk, PATIENCE), NIGH_OK);
    assert_int_equal(munmap(server->memory, MOST), 0);
    nigh_client_close(server->client);
}

/* ---- nodes ---------------------------------------------------------------- */

static nigh_node *start_node(const char *members, uint32_t rank, uint32_t lanes)
{
    char name[8];
    nigh_node *node = NULL;
    nigh_node_options options = {.struct_size = sizeof options,
                                 .memory_bytes = 64u << 20,
                                 .lanes = lanes,
                                 .members = members,
                                 .member = members == NULL ? NULL : name,
                                 .cluster_key = members == NULL ? NULL : key};

    (void)snprintf(name, sizeof name, "%u", rank);
    assert_int_equal(nigh_node_start(&options, &node), NIGH_OK);
    return node;
}

static nigh_status reach(nigh_client *client, uint32_t rank)
{
    nigh_call_spec spec = {.struct_size = sizeof spec, .service = "nobody's", .rank = rank};

    return nigh_call(client, &spec, PATIENCE);
}

static void open_caller(struct world *world)
{
    nigh_client_options options = {.struct_size = sizeof options};

    assert_int_equal(nigh_node_client(world->node, &options, &world->client), NIGH_OK);
    assert_true(SUPPORT_WAIT(reach(world->client, world->rank) == NIGH_NOT_FOUND, 20000));
    world->memory = map(MOST);
    assert_int_equal(nigh_bulk_open(world->client, world->memory, MOST,
                                    NIGH_BULK_READ | NIGH_BULK_WRITE, &world->bulk),
                     NIGH_OK);
}

static void name_members(struct world *world)
{
    (void)snprintf(world->members, sizeof world->members, "127.0.0.1:%d,127.0.0.1:%d",
                   support_port(), support_port());
}

/* The server's node is another, or the caller's. */
static void begin(struct world *world, bool other, uint32_t lanes)
{
    nigh_node *there = NULL;

    *world = (struct world){.rank = other};
    name_members(world);
    world->node = start_node(other ? world->members : NULL, 0, lanes);
    if (other) {
        there = start_node(world->members, 1, lanes);
    }
    start_server(&world->server, other ? there : world->node);
    open_caller(world);
}

static void close_caller(struct world *world)
{
    assert_int_equal(nigh_bulk_close(world->bulk, PATIENCE), NIGH_OK);
    assert_int_equal(munmap(world->memory, MOST), 0);
    nigh_client_close(world->client);
}

static void end(struct world *world)
{
    close_caller(world);
    stop_server(&world->server);
    nigh_node_stop(world->node);
    if (world->rank == 1) {
        nigh_node_stop(world->server.node);
    }
}

/* ---- calls ---------------------------------------------------------------- */

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
                                   .rank = world->rank,
                                   .request = &asked->ask,
                                   .request_bytes = sizeof asked->ask,
                                   .reply = &asked->answer,
                                   .reply_room = sizeof asked->answer,
                                   .bulk_count = 1,
                                   .bulks = &asked->part};
}

static struct answer ask_of(struct world *world, struct ask ask)
{
    struct asked asked;

    set_up(world, &asked, ask);
    assert_int_equal(nigh_call(world->client, &asked.spec, PATIENCE), NIGH_OK);
    assert_int_equal(asked.spec.reply_bytes, sizeof asked.answer);
    return asked.answer;
}

static bool is_served(struct world *world)
{
    struct asked asked;

    set_up(world, &asked, (struct ask){.what = PULL, .size = 9});
    return nigh_call(world->client, &asked.spec, PATIENCE) == NIGH_OK &&
           asked.answer.status == NIGH_OK;
}

static void start_for_ever(struct world *world, struct asked *asked, uint64_t timeout_us)
{
    uint32_t turns = atomic_load(&world->server.turns);

    set_up(world, asked, (struct ask){.what = FOR_EVER, .size = ROUND});
    assert_int_equal(nigh_call_start(world->client, &asked->spec, timeout_us, &asked->op), NIGH_OK);
    assert_true(SUPPORT_WAIT(
        ((void)nigh_poll(world->client), atomic_load(&world->server.turns) > turns + 1), 20000));
}

/* ---- what works ----------------------------------------------------------- */

static void move_all_sizes(struct world *world)
{
    static const uint64_t sizes[] = {0, 1, 4095, 65537, 1u << 20, (9u << 20) + 3, MOST - 13};

    for (uint32_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        struct ask ask = {.size = sizes[n], .offset = n + 1, .local = 2 * n, .seed = n};
        struct answer answer;

        fill(world->memory, MOST, 77 + n);
        ask.what = PULL;
        answer = ask_of(world, ask);
        assert_int_equal(answer.status, NIGH_OK);
        assert_true(answer.sum == sum_of(world->memory + ask.offset, ask.size));
        ask.what = PUSH;
        assert_int_equal(ask_of(world, ask).status, NIGH_OK);
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
    for (uint32_t n = 0; n < 4; n++) {
        begin(&world, n % 2 == 1, 1 + n / 2);
        move_all_sizes(&world);
        end(&world);
    }
}

struct caller {
    pthread_t thread;
    struct world *world;
    uint32_t number;
    uint32_t wrong;
};

/* Each has its own part of the memory, which comes back a byte later. */
static void *call_often(void *context)
{
    struct caller *caller = context;
    uint64_t room = 1u << 20, at = caller->number * room;

    for (uint32_t n = 0; n < 40; n++) {
        struct asked asked;
        uint64_t size = (n * 37777u) % (room - 2);

        set_up(caller->world, &asked,
               (struct ask){.what = BOTH, .number = 1, .size = size, .local = at});
        asked.spec.bulks = (const nigh_bulk_part[]){
            {.bulk = caller->world->bulk, .size = 5, .access = NIGH_BULK_READ},
            {.bulk = caller->world->bulk, .offset = at, .size = size + 1}};
        asked.spec.bulk_count = 2;
        fill(caller->world->memory + at, size, n);
        caller->wrong += nigh_call(caller->world->client, &asked.spec, PATIENCE) != NIGH_OK ||
                         asked.answer.status != NIGH_OK ||
                         (size > 0 && caller->world->memory[at + size] != byte_of(size - 1, n)) ||
                         (size > 9 && caller->world->memory[at + 9] != byte_of(8, n));
    }
    return NULL;
}

static void many_move_at_once(void **state)
{
    static struct caller callers[8];
    struct world world;

    (void)state;
    for (uint32_t other = 0; other < 2; other++) {
        begin(&world, other == 1, 2);
        for (uint32_t n = 0; n < 8; n++) {
            callers[n] = (struct caller){.world = &world, .number = n};
            assert_int_equal(pthread_create(&callers[n].thread, NULL, call_often, &callers[n]), 0);
        }
        for (uint32_t n = 0; n < 8; n++) {
            assert_int_equal(pthread_join(callers[n].thread, NULL), 0);
            assert_int_equal(callers[n].wrong, 0);
        }
        end(&world);
    }
}

/* ---- what is refused ------------------------------------------------------ */

static void what_is_not_there_is_refused(void **state)
{
    static const struct {
        struct ask ask;
        uint32_t access;
        nigh_status status;
    } cases[] = {
        {{.what = PULL, .size = MOST + 1}, 3, NIGH_INVALID},
        {{.what = PULL, .offset = 1, .size = MOST}, 3, NIGH_INVALID},
        {{.what = PULL, .offset = UINT64_MAX, .size = 2}, 3, NIGH_INVALID},
        {{.what = PUSH, .offset = MOST, .size = 1}, 3, NIGH_INVALID},
        {{.what = PULL, .local = MOST, .size = 1}, 3, NIGH_INVALID},
        {{.what = PULL, .local = 8, .size = UINT64_MAX - 4}, 3, NIGH_INVALID},
        {{.what = PULL, .number = 1, .size = 1}, 3, NIGH_INVALID},
        {{.what = PULL, .size = 1}, NIGH_BULK_WRITE, NIGH_DENIED},
        {{.what = PUSH, .size = 1}, NIGH_BULK_READ, NIGH_DENIED},
        {{.what = PUSH, .size = 1}, NIGH_BULK_WRITE, NIGH_OK},
    };
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin(&world, n == 1, 1);
        for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct asked asked;

            if (cases[i].ask.what == PUSH && cases[i].ask.size > 1) {
                continue;
            }
            set_up(&world, &asked, cases[i].ask);
            asked.part.access = cases[i].access;
            assert_int_equal(nigh_call(world.client, &asked.spec, PATIENCE), NIGH_OK);
            assert_int_equal(asked.answer.status, cases[i].status);
        }
        end(&world);
    }
}

static void calls_bring_no_more_than_they_may(void **state)
{
    uint8_t request[NIGH_CALL_BYTES] = {0};
    nigh_bulk_part parts[NIGH_CALL_BULKS + 1];
    struct asked asked;
    struct world world;
    nigh_bulk *bulk;

    (void)state;
    begin(&world, true, 1);
    set_up(&world, &asked, (struct ask){.what = PULL, .size = 1});
    for (uint32_t n = 0; n <= NIGH_CALL_BULKS; n++) {
        parts[n] = asked.part;
    }
    asked.spec.bulks = parts;
    asked.spec.bulk_count = NIGH_CALL_BULKS;
    assert_int_equal(nigh_call(world.client, &asked.spec, PATIENCE), NIGH_OK);
    asked.spec.bulk_count++;
    assert_int_equal(nigh_call(world.client, &asked.spec, PATIENCE), NIGH_INVALID);
    asked.spec.bulk_count = 1;
    asked.spec.flags = NIGH_CALL_ONE_WAY;
    assert_int_equal(nigh_call(world.client, &asked.spec, PATIENCE), NIGH_INVALID);
    asked.spec.flags = NIGH_CALL_IDEMPOTENT;
    assert_int_equal(nigh_call(world.client, &asked.spec, PATIENCE), NIGH_INVALID);
    asked.spec.flags = 0;
    parts[0].offset = 1;
    assert_int_equal(nigh_call(world.client, &asked.spec, PATIENCE), NIGH_INVALID);
    parts[0].offset = 0;
    asked.spec.request = request;
    asked.spec.request_bytes = NIGH_CALL_BYTES - 31;
    assert_int_equal(nigh_call(world.client, &asked.spec, PATIENCE), NIGH_INVALID);
    asked.spec.request_bytes = NIGH_CALL_BYTES - 32;
    assert_int_equal(nigh_call(world.client, &asked.spec, PATIENCE), NIGH_OK);
    parts[0].bulk = world.server.bulk; /* another client's */
    assert_int_equal(nigh_call(world.client, &asked.spec, PATIENCE), NIGH_INVALID);
    assert_int_equal(nigh_bulk_open(world.client, request, 0, 1, &bulk), NIGH_INVALID);
    assert_int_equal(nigh_bulk_open(world.client, request, 8, 4, &bulk), NIGH_INVALID);
    assert_int_equal(nigh_bulk_open(world.client, request, 8, NIGH_BULK_READ, &bulk), NIGH_OK);
    parts[0] = (nigh_bulk_part){.bulk = bulk, .size = 8, .access = NIGH_BULK_WRITE};
    assert_int_equal(nigh_call(world.client, &asked.spec, PATIENCE), NIGH_INVALID);
    assert_int_equal(nigh_bulk_close(bulk, 0), NIGH_OK);
    end(&world);
}

/* ---- what ends in the midst ----------------------------------------------- */

static void check_memory_is_ours(struct world *world)
{
    assert_int_equal(nigh_bulk_wait(world->bulk, PATIENCE), NIGH_OK);
    /* From here on nobody touches it: what it has stays. */
    fill(world->memory, MOST, 4711);
    for (uint32_t n = 0; n < 3; n++) {
        (void)reach(world->client, world->rank);
        for (uint64_t at = 0; at < MOST; at++) {
            if (world->memory[at] != byte_of(at, 4711)) {
                fail_msg("byte %llu changed", (unsigned long long)at);
            }
        }
    }
}

static void a_deadline_ends_the_call_and_then_the_loan(void **state)
{
    struct asked asked;
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin(&world, n == 1, 1);
        start_for_ever(&world, &asked, 2 * SECOND_US);
        assert_int_equal(nigh_wait(world.client, &asked.op, PATIENCE), NIGH_TIMEOUT);
        check_memory_is_ours(&world);
        assert_true(SUPPORT_WAIT(atomic_load(&world.server.ended) == 1, 20000));
        assert_int_equal(atomic_load(&world.server.last), NIGH_NOT_FOUND);
        assert_int_equal(ask_of(&world, (struct ask){.what = PULL, .size = 9}).status, NIGH_OK);
        end(&world);
    }
}

static void a_call_that_is_cancelled_ends_alone(void **state)
{
    struct asked asked, other;
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin(&world, n == 1, 1);
        start_for_ever(&world, &other, PATIENCE);
        start_for_ever(&world, &asked, PATIENCE);
        assert_int_equal(nigh_bulk_close(world.bulk, 0), NIGH_TIMEOUT);
        assert_int_equal(nigh_cancel(world.client, &asked.op), NIGH_CANCELED);
        assert_true(SUPPORT_WAIT(atomic_load(&world.server.ended) == 1, 20000));
        assert_int_equal(nigh_op_status(&other.op), NIGH_PENDING);
        assert_int_equal(nigh_bulk_wait(world.bulk, MOMENT), NIGH_TIMEOUT);
        assert_int_equal(nigh_cancel(world.client, &other.op), NIGH_CANCELED);
        check_memory_is_ours(&world);
        end(&world);
    }
}

/* A request that a thread of the test answers, or not, with moves of it under way. */
struct hasty {
    struct asked asked;
    nigh_service *service;
    uint8_t buffer[NIGH_CALL_BYTES];
    nigh_request request;
    nigh_op ops[4];
};

static void start_hasty(struct world *world, struct hasty *hasty)
{
    assert_int_equal(nigh_service_register(world->server.client, "hasty", NULL, &hasty->service),
                     NIGH_OK);
    set_up(world, &hasty->asked, (struct ask){.what = PULL});
    hasty->asked.spec.service = "hasty";
    assert_int_equal(nigh_call_start(world->client, &hasty->asked.spec, PATIENCE, &hasty->asked.op),
                     NIGH_OK);
    (void)nigh_poll(world->client);
    assert_int_equal(nigh_receive(hasty->service, &hasty->request, hasty->buffer, PATIENCE),
                     NIGH_OK);
}

static void start_move(struct world *world, struct hasty *hasty, uint32_t number)
{
    nigh_bulk_move one = {.struct_size = sizeof one,
                          .request = &hasty->request,
                          .local = world->server.bulk,
                          .size = MOST};

    assert_int_equal(number % 2 == 0 ? nigh_bulk_pull_start(&one, &hasty->ops[number])
                                     : nigh_bulk_push_start(&one, &hasty->ops[number]),
                     NIGH_OK);
}

static void end_moves(struct world *world, struct hasty *hasty)
{
    for (uint32_t n = 0; n < 4; n++) {
        nigh_status status = nigh_wait(world->server.client, &hasty->ops[n], PATIENCE);

        assert_true(status == NIGH_OK || status == NIGH_NOT_FOUND);
    }
    assert_int_equal(nigh_bulk_wait(world->server.bulk, PATIENCE), NIGH_OK);
}

static void a_service_that_ends_leaves_no_loan(void **state)
{
    static struct hasty hasty;
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin(&world, n == 1, 1);
        start_hasty(&world, &hasty);
        for (uint32_t i = 0; i < 4; i++) {
            start_move(&world, &hasty, i);
        }
        nigh_service_unregister(hasty.service);
        assert_int_equal(nigh_wait(world.client, &hasty.asked.op, PATIENCE), NIGH_CLOSED);
        /* The call said so: nobody touches it. */
        assert_int_equal(nigh_bulk_wait(world.bulk, 0), NIGH_OK);
        check_memory_is_ours(&world);
        end_moves(&world, &hasty);
        end(&world);
    }
}

static void an_answer_in_the_midst_ends_what_moves(void **state)
{
    static struct hasty hasty;
    struct world world;
    nigh_bulk_info info;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin(&world, n == 1, 1);
        start_hasty(&world, &hasty);
        assert_int_equal(hasty.request.bulk_count, 1);
        assert_int_equal(hasty.request.size, sizeof hasty.asked.ask);
        assert_int_equal(nigh_request_bulk(&hasty.request, 0, &info), NIGH_OK);
        assert_int_equal(info.size, MOST);
        assert_int_equal(info.access, NIGH_BULK_READ | NIGH_BULK_WRITE);
        assert_int_equal(nigh_request_bulk(&hasty.request, 1, &info), NIGH_INVALID);
        for (uint32_t i = 0; i < 4; i++) {
            start_move(&world, &hasty, i);
        }
        assert_int_equal(nigh_call_reply(&hasty.request, NIGH_OK, "done", 4), NIGH_OK);
        assert_int_equal(nigh_wait(world.client, &hasty.asked.op, PATIENCE), NIGH_OK);
        assert_int_equal(hasty.asked.spec.reply_bytes, 4);
        /* It has ended with an answer: nobody touches its memory. */
        assert_int_equal(nigh_bulk_wait(world.bulk, 0), NIGH_OK);
        check_memory_is_ours(&world);
        end_moves(&world, &hasty);
        nigh_service_unregister(hasty.service);
        end(&world);
    }
}

static void a_move_that_is_cancelled_ends(void **state)
{
    static struct hasty hasty;
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin(&world, n == 1, 1);
        start_hasty(&world, &hasty);
        for (uint32_t i = 0; i < 2; i++) {
            nigh_status status;

            start_move(&world, &hasty, i);
            status = nigh_cancel(world.server.client, &hasty.ops[i]);
            assert_true(status == NIGH_CANCELED || status == NIGH_OK);
        }
        assert_int_equal(nigh_bulk_wait(world.server.bulk, PATIENCE), NIGH_OK);
        assert_int_equal(nigh_call_reply(&hasty.request, NIGH_OK, NULL, 0), NIGH_OK);
        assert_int_equal(nigh_wait(world.client, &hasty.asked.op, PATIENCE), NIGH_OK);
        nigh_service_unregister(hasty.service);
        end(&world);
    }
}

static void a_client_that_goes_takes_its_memory_along(void **state)
{
    struct asked asked;
    struct world world;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        begin(&world, n == 1, 2);
        start_for_ever(&world, &asked, PATIENCE);
        nigh_client_close(world.client);
        /* Whoever touched it would fault. */
        assert_int_equal(munmap(world.memory, MOST), 0);
        assert_true(SUPPORT_WAIT(atomic_load(&world.server.ended) == 1, 20000));
        open_caller(&world);
        assert_true(SUPPORT_WAIT(is_served(&world), 20000));
        end(&world);
    }
}

/* ---- processes that are killed -------------------------------------------- */

struct child {
    struct world *world;
    struct server *server; /* shared */
};

static int be_server(void *context)
{
    struct child *child = context;
    struct server *server = child->server;

    start_server(server, start_node(child->world->members, 1, 1));
    while (atomic_load(&server->ended) < 1000) {
        (void)pause();
    }
    return 0;
}

static void a_server_that_is_killed_costs_its_calls(void **state)
{
    struct server *server =
        mmap(NULL, sizeof *server, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct world world = {.rank = 1};
    struct child child = {.world = &world, .server = server};
    struct asked asked;
    pid_t pid;

    (void)state;
    name_members(&world);
    pid = support_fork(be_server, &child);
    world.node = start_node(world.members, 0, 1);
    open_caller(&world);
    set_up(&world, &asked, (struct ask){.what = FOR_EVER, .size = ROUND});
    assert_true(SUPPORT_WAIT(is_served(&world), 20000));
    assert_int_equal(nigh_call_start(world.client, &asked.spec, PATIENCE, &asked.op), NIGH_OK);
    assert_true(
        SUPPORT_WAIT(((void)nigh_poll(world.client), atomic_load(&server->turns) > 4), 20000));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(support_join(pid, 10000), -SIGKILL);
    assert_int_equal(nigh_wait(world.client, &asked.op, PATIENCE), NIGH_PEER_LOST);
    assert_int_equal(nigh_bulk_wait(world.bulk, 0), NIGH_OK);
    check_memory_is_ours(&world);
    close_caller(&world);
    nigh_node_stop(world.node);
    assert_int_equal(munmap(server, sizeof *server), 0);
}

static int be_caller(void *context)
{
    struct child *child = context;
    struct world *world = child->world;
    struct asked asked;

    world->node = start_node(world->members, 0, 1);
    open_caller(world);
    if (!SUPPORT_WAIT(is_served(world), 20000)) {
        return 3;
    }
    set_up(world, &asked, (struct ask){.what = FOR_EVER, .size = ROUND});
    return nigh_call(world->client, &asked.spec, NIGH_FOREVER) == NIGH_OK ? 1 : 2;
}

static void a_caller_that_is_killed_costs_itself(void **state)
{
    struct world world = {.rank = 1};
    struct child child = {.world = &world};
    struct server *server = &world.server;
    nigh_client_options options = {.struct_size = sizeof options};
    pid_t pid;

    (void)state;
    name_members(&world);
    pid = support_fork(be_caller, &child);
    start_server(server, start_node(world.members, 1, 1));
    assert_true(SUPPORT_WAIT(atomic_load(&server->turns) > 4, 20000));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(support_join(pid, 10000), -SIGKILL);
    assert_true(SUPPORT_WAIT(atomic_load(&server->ended) == 1, 20000));
    assert_true(atomic_load(&server->last) == NIGH_PEER_LOST ||
                atomic_load(&server->last) == NIGH_NOT_FOUND);
    assert_int_equal(nigh_bulk_wait(server->bulk, PATIENCE), NIGH_OK);
    /* It goes on for others. */
    world.node = server->node;
    assert_int_equal(nigh_node_client(world.node, &options, &world.client), NIGH_OK);
    world.memory = map(MOST);
    assert_int_equal(nigh_bulk_open(world.client, world.memory, MOST, 3, &world.bulk), NIGH_OK);
    assert_int_equal(ask_of(&world, (struct ask){.what = PULL, .size = 9}).status, NIGH_OK);
    close_caller(&world);
    stop_server(server);
    nigh_node_stop(server->node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_go_both_ways),
        cmocka_unit_test(many_move_at_once),
        cmocka_unit_test(what_is_not_there_is_refused),
        cmocka_unit_test(calls_bring_no_more_than_they_may),
        cmocka_unit_test(a_deadline_ends_the_call_and_then_the_loan),
        cmocka_unit_test(a_call_that_is_cancelled_ends_alone),
        cmocka_unit_test(a_service_that_ends_leaves_no_loan),
        cmocka_unit_test(an_answer_in_the_midst_ends_what_moves),
        cmocka_unit_test(a_move_that_is_cancelled_ends),
        cmocka_unit_test(a_client_that_goes_takes_its_memory_along),
        cmocka_unit_test(a_server_that_is_killed_costs_its_calls),
        cmocka_unit_test(a_caller_that_is_killed_costs_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
