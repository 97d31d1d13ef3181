/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed calls: structs at both ends, of processes of nighd, of embedded nodes, of one of each, and
 * through a pair; ends that go by another type; and bytes that are of none.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nigh/nigh.h"
#include "nigh/node.h"
#include "support/node_fixture.h"
#include "support/support.h"

#define SECOND_US 1000000u
#define PATIENCE  (20 * SECOND_US)
#define SHORT     100000u
#define QUEUE     128u /* requests that wait for a receive */
#define TAIL      4096u
#define KEY       "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const uint8_t key[32] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45,
                                0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab,
                                0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};

enum what {
    DOUBLE_IT = 1,
    REFUSE, /* with NIGH_DENIED */
    SUM,    /* the bytes of the memory that it brings */
    COUNT_IT /* nothing but that: one-way */,
    COUNTED, /* how often that was */
    STOP
};

struct ask {
    uint8_t what;
    uint64_t number;
    char name[20];
};

struct told {
    uint64_t number;
    char name[20];
    uint32_t rank; /* of who asked */
};

struct more {
    struct ask ask;
    uint64_t other;
};

struct most {
    uint8_t bytes[NIGH_TYPED_BYTES];
};

NIGH_TYPED_CALL(plain, "typed", 1, struct ask, struct told);
NIGH_TYPED_CALL(newer, "typed", 2, struct ask, struct told);
NIGH_TYPED_CALL(wider, "typed", 1, struct more, struct told);
NIGH_TYPED_CALL(other, "untyped", 1, struct ask, struct told);
NIGH_TYPED_CALL(large, "large", 1, struct most, struct most);
NIGH_TYPED_CALL_TAILS(tailed, "tailed", 3, struct ask, TAIL, struct told,
                      NIGH_TYPED_BYTES - sizeof(struct told));

static const struct ask a_number = {.what = DOUBLE_IT, .number = 21, .name = "answer"};

/* ---- nodes ---- */

struct place {
    struct node_fixture daemon;
    nigh_node *node;
};

struct world {
    char members[64];
    uint32_t nodes;
    struct place place[2];
};

static void start_place(struct world *world, uint32_t n, bool embedded)
{
    const char *rank = n == 0 ? "0" : "1";
    bool alone = world->nodes == 1;
    char path[128];

    if (embedded) {
        nigh_node_options options = {.struct_size = sizeof options,
                                     .memory_bytes = 32u << 20,
                                     .members = alone ? NULL : world->members,
                                     .member = alone ? NULL : rank,
                                     .cluster_key = alone ? NULL : key};

        if (nigh_node_start(&options, &world->place[n].node) != NIGH_OK)
            fail_msg("%s", nigh_node_start_error());
        return;
    }
    support_put_file(support_dir(), "/key", KEY);
    support_path(path, sizeof path, "key");
    (void)chmod(path, 0600);
    node_fixture_start(&world->place[n].daemon, "32M",
                       alone ? NULL
                             : (const char *const[]){"--join", world->members, "--member", rank,
                                                     "--cluster-key", path, NULL});
}

static void begin(struct world *world, uint32_t nodes, bool first_embedded, bool second_embedded)
{
    *world = (struct world){.nodes = nodes};
    (void)snprintf(world->members, sizeof world->members, "127.0.0.1:%d,127.0.0.1:%d",
                   support_port(), support_port());
    start_place(world, 0, first_embedded);
    if (nodes == 2)
        start_place(world, 1, second_embedded);
}

static void end(struct world *world)
{
    for (uint32_t n = 0; n < world->nodes; n++) {
        if (world->place[n].node != NULL)
            nigh_node_stop(world->place[n].node);
        else
            node_fixture_stop(&world->place[n].daemon);
    }
}

static nigh_client *open_at(const struct place *place)
{
    nigh_client_options options = {.struct_size = sizeof options,
                                   .socket_path = place->daemon.socket};
    nigh_client *client = NULL;
    nigh_status status = place->node != NULL ? nigh_node_client(place->node, &options, &client)
                                             : nigh_client_open(&options, &client);

    if (status != NIGH_OK)
        fail_msg("%s", nigh_open_error());
    return client;
}

/* ---- who serves ---- */

struct server {
    pthread_t thread;
    nigh_client *client;
    nigh_service *service;
    nigh_status status; /* of what ended it */
};

static uint64_t sum_of(const nigh_request *request, nigh_client *client)
{
    nigh_bulk_move move = {.struct_size = sizeof move, .request = request};
    nigh_bulk_info info;
    void *memory;
    uint64_t sum = 0;

    if (nigh_request_bulk(request, 0, &info) != NIGH_OK ||
        nigh_bulk_alloc(client, (size_t)info.size, NIGH_BULK_WRITE, &memory, &move.local) !=
            NIGH_OK)
        return 0;
    move.size = info.size;
    if (nigh_bulk_pull(&move) == NIGH_OK)
        for (uint64_t n = 0; n < info.size; n++)
            sum += ((const uint8_t *)memory)[n];
    (void)nigh_bulk_close(move.local, PATIENCE);
    return sum;
}

static void *serve(void *of)
{
    static _Thread_local uint8_t buffer[NIGH_CALL_BYTES];
    struct server *server = of;
    nigh_request request;
    uint64_t counted = 0;
    struct ask ask = {0};
    nigh_status status = plain_receive(server->service, &request, buffer, &ask, NIGH_FOREVER);

    while (status == NIGH_OK && ask.what != STOP) {
        struct told told = {.number = 2 * ask.number, .rank = request.rank};

        memcpy(told.name, ask.name, sizeof told.name);
        counted += ask.what == COUNT_IT;
        if (ask.what == COUNTED)
            told.number = counted;
        if (ask.what == SUM)
            told.number = sum_of(&request, server->client);
        status = plain_reply_receive(&request, ask.what == REFUSE ? NIGH_DENIED : NIGH_OK, &told,
                                     buffer, &ask, NIGH_FOREVER);
    }
    server->status = status == NIGH_OK ? plain_reply(&request, NIGH_OK, &(struct told){0}) : status;
    return NULL;
}

static void start_server(struct server *server, const struct place *place)
{
    server->client = open_at(place);
    assert_int_equal(plain_register(server->client, NULL, &server->service), NIGH_OK);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void stop_server(struct server *server, nigh_client *caller, uint32_t rank)
{
    struct ask ask = {.what = STOP};
    struct told told;

    assert_int_equal(plain_call(caller, rank, &ask, &told, PATIENCE), NIGH_OK);
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    assert_int_equal(server->status, NIGH_OK);
    nigh_client_close(server->client);
}

/* ---- what a caller does ---- */

static void ask_and_hear(nigh_client *caller, uint32_t rank)
{
    struct told told = {0};

    assert_int_equal(plain_call(caller, rank, &a_number, &told, PATIENCE), NIGH_OK);
    assert_int_equal(told.number, 42);
    assert_string_equal(told.name, "answer");
}

/* A status is the service's, and nothing is written. */
static void be_refused(nigh_client *caller, uint32_t rank)
{
    struct ask ask = {.what = REFUSE};
    struct told told = {.number = 77};

    assert_int_equal(plain_call(caller, rank, &ask, &told, PATIENCE), NIGH_DENIED);
    assert_int_equal(told.number, 77);
}

static void ask_of_another_type(nigh_client *caller, uint32_t rank)
{
    struct more more = {.ask = a_number};
    struct told told = {.number = 77};

    assert_int_equal(newer_call(caller, rank, &a_number, &told, PATIENCE), NIGH_VERSION);
    assert_int_equal(wider_call(caller, rank, &more, &told, PATIENCE), NIGH_VERSION);
    assert_int_equal(told.number, 77);
}

/* All flags, both ways to wait, memory: what is typed is only the bytes. */
static void ask_in_every_way(nigh_client *caller, uint32_t rank)
{
    struct ask ask = a_number;
    struct told told;
    nigh_bulk_part part = {.size = 3 << 16, .access = NIGH_BULK_READ};
    nigh_call_spec spec;
    plain_frame frame;
    uint8_t *memory;
    nigh_op op;

    plain_prepare(&frame, &spec, rank, &ask);
    spec.flags = NIGH_CALL_URGENT | NIGH_CALL_IDEMPOTENT;
    assert_int_equal(nigh_call_start(caller, &spec, PATIENCE, &op), NIGH_OK);
    assert_int_equal(plain_result(&frame, &spec, nigh_wait(caller, &op, PATIENCE), &told), NIGH_OK);
    assert_int_equal(told.number, 42);
    ask.what = COUNT_IT;
    plain_prepare(&frame, &spec, rank, &ask);
    spec.flags = NIGH_CALL_ONE_WAY;
    for (uint32_t n = 0; n < 3; n++)
        assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK);
    ask.what = COUNTED;
    do { /* they may be behind it */
        assert_int_equal(plain_call(caller, rank, &ask, &told, PATIENCE), NIGH_OK);
    } while (told.number < 3);
    assert_int_equal(told.number, 3);
    assert_int_equal(
        nigh_bulk_alloc(caller, (size_t)part.size, NIGH_BULK_READ, (void **)&memory, &part.bulk),
        NIGH_OK);
    memset(memory, 2, (size_t)part.size);
    ask.what = SUM;
    plain_prepare(&frame, &spec, rank, &ask);
    spec.bulks = &part;
    spec.bulk_count = 1;
    assert_int_equal(plain_result(&frame, &spec, nigh_call(caller, &spec, PATIENCE), &told),
                     NIGH_OK);
    assert_int_equal(told.number, 2 * part.size);
    assert_int_equal(nigh_bulk_close(part.bulk, PATIENCE), NIGH_OK);
}

static nigh_status call_bytes(nigh_client *caller, uint32_t rank, const void *bytes, size_t count,
                              uint32_t flags)
{
    nigh_call_spec spec = {.struct_size = sizeof spec,
                           .service = "typed",
                           .rank = rank,
                           .flags = flags,
                           .request = bytes,
                           .request_bytes = count};

    return nigh_call(caller, &spec, PATIENCE);
}

/* Too short, too long, each bit of the tag another. The service is there for the next. */
static void send_what_is_of_no_type(nigh_client *caller, uint32_t rank)
{
    static uint8_t rubbish[NIGH_CALL_BYTES];
    struct told told;
    nigh_call_spec spec;
    plain_frame frame;

    plain_prepare(&frame, &spec, rank, &a_number);
    assert_int_equal(spec.request_bytes, sizeof(nigh_typed_tag) + sizeof(struct ask));
    memcpy(rubbish, frame.request, sizeof frame.request);
    for (size_t count = 0; count <= sizeof frame.request + 8; count++) {
        if (count != sizeof frame.request)
            assert_int_equal(call_bytes(caller, rank, rubbish, count, 0), NIGH_VERSION);
    }
    assert_int_equal(call_bytes(caller, rank, rubbish, sizeof rubbish, 0), NIGH_VERSION);
    for (uint32_t bit = 0; bit < 8 * sizeof(nigh_typed_tag); bit++) {
        frame.request[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_VERSION);
        assert_int_equal(
            call_bytes(caller, rank, frame.request, sizeof frame.request, NIGH_CALL_ONE_WAY),
            NIGH_OK);
        frame.request[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(plain_result(&frame, &spec, nigh_call(caller, &spec, PATIENCE), &told),
                     NIGH_OK);
    assert_int_equal(told.number, 42);
}

/* ---- tests ---- */

/* Both ends at one node, and at two, each of nighd and embedded. */
static void structs_go_and_come(void **state)
{
    static const struct {
        uint32_t nodes;
        bool first, second; /* is embedded */
    } ways[] = {{1, true, false}, {1, false, false}, {2, false, true}, {2, true, false}};

    (void)state;
    for (size_t n = 0; n < sizeof ways / sizeof ways[0]; n++) {
        struct server server;
        struct world world;
        nigh_client *caller;
        uint32_t rank = ways[n].nodes - 1;

        begin(&world, ways[n].nodes, ways[n].first, ways[n].second);
        start_server(&server, &world.place[rank]);
        caller = open_at(&world.place[0]);
        ask_and_hear(caller, rank);
        be_refused(caller, rank);
        ask_of_another_type(caller, rank);
        ask_in_every_way(caller, rank);
        send_what_is_of_no_type(caller, rank);
        ask_and_hear(caller, rank);
        stop_server(&server, caller, rank);
        nigh_client_close(caller);
        end(&world);
    }
}

static char state_of(pid_t pid)
{
    char path[64], is = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file = fopen(path, "r");
    if (file != NULL) {
        (void)!fscanf(file, "%*d %*s %c", &is);
        (void)fclose(file);
    }
    return is;
}

/* Stands still once a call was answered while it did: nothing needs the node. */
static void wait_paired(nigh_client *caller, pid_t node)
{
    for (uint32_t n = 0; n < 200; n++) {
        struct told told;

        ask_and_hear(caller, 0);
        assert_int_equal(kill(node, SIGSTOP), 0);
        while (state_of(node) != 'T') {
        }
        if (plain_call(caller, 0, &a_number, &told, SHORT) == NIGH_OK)
            return;
        assert_int_equal(kill(node, SIGCONT), 0);
    }
    fail_msg("no pair");
}

/* Two processes, and the node stands still. */
static void the_same_goes_through_a_pair(void **state)
{
    struct world world;
    nigh_client *caller;
    int ends[2], status;
    char said;
    pid_t child;

    (void)state;
    begin(&world, 1, false, false);
    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct server server = {0};

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        server.client = open_at(&world.place[0]);
        if (plain_register(server.client, NULL, &server.service) == NIGH_OK &&
            write(ends[1], "r", 1) == 1)
            (void)serve(&server);
        _exit(server.status == NIGH_OK ? 0 : 1);
    }
    assert_int_equal(read(ends[0], &said, 1), 1);
    caller = open_at(&world.place[0]);
    wait_paired(caller, world.place[0].daemon.pid);
    ask_and_hear(caller, 0);
    be_refused(caller, 0);
    ask_of_another_type(caller, 0);
    send_what_is_of_no_type(caller, 0);
    ask_and_hear(caller, 0);
    assert_int_equal(kill(world.place[0].daemon.pid, SIGCONT), 0);
    assert_int_equal(
        plain_call(caller, 0, &(struct ask){.what = STOP}, &(struct told){0}, PATIENCE), NIGH_OK);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)close(ends[0]);
    (void)close(ends[1]);
    nigh_client_close(caller);
    end(&world);
}

/*
 * What a service says that is of no type is no reply, and nothing is written. What it is to say is
 * changed between calls by the test's thread, and read by the node's.
 */
struct liar {
    pthread_mutex_t mutex;
    uint8_t bytes[NIGH_CALL_BYTES];
    size_t count;
};

static void lie(void *context, const nigh_request *request)
{
    struct liar *liar = context;

    pthread_mutex_lock(&liar->mutex);
    (void)nigh_call_reply(request, NIGH_OK, liar->bytes, liar->count);
    pthread_mutex_unlock(&liar->mutex);
}

static void lies_of(struct liar *liar, size_t count)
{
    pthread_mutex_lock(&liar->mutex);
    liar->count = count;
    pthread_mutex_unlock(&liar->mutex);
}

static void turn_bit(struct liar *liar, uint32_t bit)
{
    pthread_mutex_lock(&liar->mutex);
    liar->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    pthread_mutex_unlock(&liar->mutex);
}

static void replies_are_looked_at(void **state)
{
    static const struct told said = {.number = 5};
    static struct liar liar = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    nigh_service_options options = {
        .struct_size = sizeof options, .handler = lie, .context = &liar};
    nigh_service *service;
    struct told told = {.number = 77};
    struct world world;
    nigh_client *client;
    size_t right;

    (void)state;
    begin(&world, 1, true, false);
    client = open_at(&world.place[0]);
    assert_int_equal(other_register(client, &options, &service), NIGH_OK);
    right = nigh_typed_put(&other_reply_part, liar.bytes, &said, NULL, 0);
    for (size_t count = 0; count <= right + 8; count++) {
        lies_of(&liar, count);
        if (count != right)
            assert_int_equal(other_call(client, 0, &a_number, &told, PATIENCE), NIGH_VERSION);
    }
    lies_of(&liar, sizeof liar.bytes);
    assert_int_equal(other_call(client, 0, &a_number, &told, PATIENCE), NIGH_VERSION);
    lies_of(&liar, right);
    for (uint32_t bit = 0; bit < 8 * sizeof(nigh_typed_tag); bit++) {
        turn_bit(&liar, bit);
        assert_int_equal(other_call(client, 0, &a_number, &told, PATIENCE), NIGH_VERSION);
        turn_bit(&liar, bit);
    }
    /* A request is no reply, though of the same size. */
    assert_int_equal(told.number, 77);
    assert_int_equal(other_call(client, 0, &a_number, &told, PATIENCE), NIGH_OK);
    assert_int_equal(told.number, 5);
    nigh_client_close(client);
    end(&world);
}

static void answer_typed(void *context, const nigh_request *request)
{
    struct told told = {.rank = request->rank};
    struct ask ask;

    (void)context;
    if (plain_take(request, &ask) != NIGH_OK) {
        (void)plain_reply(request, NIGH_VERSION, NULL);
        return;
    }
    told.number = 2 * ask.number;
    memcpy(told.name, ask.name, sizeof told.name);
    if (ask.what == REFUSE)
        (void)plain_reply(request, NIGH_DENIED, &told);
    else if (plain_reply(request, NIGH_OK, NULL) == NIGH_INVALID) /* it wants one, and says so */
        (void)plain_reply(request, NIGH_OK, &told);
}

static void handlers_take_structs(void **state)
{
    nigh_service_options options = {.struct_size = sizeof options, .handler = answer_typed};
    nigh_service *service;
    struct world world;
    nigh_client *caller, *server;

    (void)state;
    begin(&world, 2, false, true);
    server = open_at(&world.place[1]);
    caller = open_at(&world.place[0]);
    assert_int_equal(plain_register(server, &options, &service), NIGH_OK);
    ask_and_hear(caller, 1);
    be_refused(caller, 1);
    ask_of_another_type(caller, 1);
    send_what_is_of_no_type(caller, 1);
    nigh_client_close(caller);
    nigh_client_close(server);
    end(&world);
}

static void send_one_way(nigh_client *caller, uint32_t number)
{
    struct ask ask = {.number = number};
    nigh_call_spec spec;
    plain_frame frame;

    plain_prepare(&frame, &spec, 0, &ask);
    spec.flags = NIGH_CALL_ONE_WAY;
    assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK);
}

/* What is of another type is passed over, but for no longer than was asked for. */
static void a_receive_ends_at_its_deadline(void **state)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    nigh_service *service;
    nigh_request request;
    struct world world;
    nigh_client *server, *caller;
    struct ask ask = {.number = 7};
    uint64_t begun_us;

    (void)state;
    begin(&world, 1, true, false); /* no pair takes any of it */
    server = open_at(&world.place[0]);
    caller = open_at(&world.place[0]);
    assert_int_equal(plain_register(server, NULL, &service), NIGH_OK);
    assert_int_equal(plain_receive(service, &request, buffer, &ask, 0), NIGH_TIMEOUT);
    for (uint32_t n = 0; n < QUEUE - 1; n++)
        assert_int_equal(call_bytes(caller, 0, "?", 1, NIGH_CALL_ONE_WAY), NIGH_OK);
    send_one_way(caller, 9);
    /* It was there: one that only looks finds it behind all the others. */
    assert_int_equal(plain_receive(service, &request, buffer, &ask, 0), NIGH_OK);
    assert_int_equal(ask.number, 9);
    assert_int_equal(call_bytes(caller, 0, "?", 1, NIGH_CALL_ONE_WAY), NIGH_OK);
    begun_us = nigh_now_us();
    assert_int_equal(plain_receive(service, &request, buffer, &ask, SHORT), NIGH_TIMEOUT);
    assert_true(nigh_now_us() - begun_us >= SHORT);
    assert_int_equal(ask.number, 9);
    nigh_client_close(caller);
    nigh_client_close(server);
    end(&world);
}

static void the_largest_type_fits(void **state)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    static struct most most, back;
    nigh_service *service;
    nigh_request request;
    struct world world;
    nigh_client *server, *caller;
    large_frame *frame = calloc(1, sizeof *frame);
    nigh_call_spec spec;
    nigh_op op;

    (void)state;
    begin(&world, 1, false, false);
    server = open_at(&world.place[0]);
    caller = open_at(&world.place[0]);
    assert_int_equal(large_register(server, NULL, &service), NIGH_OK);
    memset(&most, 5, sizeof most);
    large_prepare(frame, &spec, 0, &most);
    assert_int_equal(spec.request_bytes, NIGH_CALL_BYTES);
    assert_int_equal(nigh_call_start(caller, &spec, PATIENCE, &op), NIGH_OK);
    assert_int_equal(large_receive(service, &request, buffer, &back, PATIENCE), NIGH_OK);
    assert_memory_equal(&back, &most, sizeof most);
    memset(&most, 6, sizeof most);
    assert_int_equal(large_reply(&request, NIGH_OK, &most), NIGH_OK);
    assert_int_equal(large_result(frame, &spec, nigh_wait(caller, &op, PATIENCE), &back), NIGH_OK);
    assert_memory_equal(&back, &most, sizeof most);
    free(frame);
    nigh_client_close(caller);
    nigh_client_close(server);
    end(&world);
}

/* ---- tails ---- */

struct tails {
    nigh_client *server, *caller;
    nigh_service *service;
    tailed_frame frame;
    nigh_call_spec spec;
    uint8_t bytes[NIGH_CALL_BYTES], buffer[NIGH_CALL_BYTES];
};

/* One call with so many bytes behind each struct. */
static void carry_tails(struct tails *tails, size_t there, size_t back)
{
    nigh_request request;
    struct told told = {.number = 3};
    struct ask ask;
    const void *tail;
    size_t count = 99;
    nigh_op op;

    assert_int_equal(
        tailed_prepare_tail(&tails->frame, &tails->spec, 0, &a_number, tails->bytes, there),
        NIGH_OK);
    assert_int_equal(nigh_call_start(tails->caller, &tails->spec, PATIENCE, &op), NIGH_OK);
    assert_int_equal(tailed_receive(tails->service, &request, tails->buffer, &ask, PATIENCE),
                     NIGH_OK);
    assert_int_equal(ask.number, a_number.number);
    tail = tailed_tail(&request, &count);
    assert_int_equal(count, there);
    assert_memory_equal(tail, tails->bytes, there);
    assert_int_equal(tailed_reply_tail(&request, NIGH_OK, &told, tails->bytes + 7, back), NIGH_OK);
    told.number = 0;
    assert_int_equal(
        tailed_result(&tails->frame, &tails->spec, nigh_wait(tails->caller, &op, PATIENCE), &told),
        NIGH_OK);
    assert_int_equal(told.number, 3);
    tail = tailed_result_tail(&tails->frame, &tails->spec, &count);
    assert_int_equal(count, back);
    assert_memory_equal(tail, tails->bytes + 7, back);
}

static void tails_go_and_come(void **state)
{
    const size_t most = NIGH_TYPED_BYTES - sizeof(struct told);
    struct tails *tails = calloc(1, sizeof *tails);
    struct ask ask;
    struct world world;
    nigh_request request;
    nigh_op op;

    (void)state;
    begin(&world, 1, false, false);
    tails->server = open_at(&world.place[0]);
    tails->caller = open_at(&world.place[0]);
    assert_int_equal(tailed_register(tails->server, NULL, &tails->service), NIGH_OK);
    for (size_t n = 0; n < sizeof tails->bytes; n++)
        tails->bytes[n] = (uint8_t)(n * 31 >> 3);
    carry_tails(tails, 0, 0);
    carry_tails(tails, 1, 2);
    carry_tails(tails, TAIL, most);
    assert_int_equal(
        tailed_prepare_tail(&tails->frame, &tails->spec, 0, &a_number, tails->bytes, TAIL + 1),
        NIGH_INVALID);
    /* One that came is another's that is so much longer. */
    assert_int_equal(
        tailed_prepare_tail(&tails->frame, &tails->spec, 0, &a_number, tails->bytes, TAIL),
        NIGH_OK);
    memcpy(tails->bytes, tails->frame.request, sizeof tails->frame.request);
    tails->spec.request = tails->bytes;
    tails->spec.request_bytes++;
    assert_int_equal(nigh_call_start(tails->caller, &tails->spec, PATIENCE, &op), NIGH_OK);
    (void)nigh_poll(tails->caller);
    assert_int_equal(tailed_receive(tails->service, &request, tails->buffer, &ask, SHORT),
                     NIGH_TIMEOUT);
    assert_int_equal(nigh_wait(tails->caller, &op, PATIENCE), NIGH_VERSION);
    tailed_prepare(&tails->frame, &tails->spec, 0, &a_number);
    assert_int_equal(nigh_call_start(tails->caller, &tails->spec, PATIENCE, &op), NIGH_OK);
    assert_int_equal(tailed_receive(tails->service, &request, tails->buffer, &ask, PATIENCE),
                     NIGH_OK);
    assert_int_equal(
        tailed_reply_tail(&request, NIGH_OK, &(struct told){0}, tails->bytes, most + 1),
        NIGH_INVALID);
    nigh_client_close(tails->server);
    nigh_client_close(tails->caller);
    free(tails);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_go_and_come),
        cmocka_unit_test(the_same_goes_through_a_pair),
        cmocka_unit_test(replies_are_looked_at),
        cmocka_unit_test(handlers_take_structs),
        cmocka_unit_test(a_receive_ends_at_its_deadline),
        cmocka_unit_test(the_largest_type_fits),
        cmocka_unit_test(tails_go_and_come),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
