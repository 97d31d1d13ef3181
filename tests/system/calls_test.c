/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls between embedded nodes of one process: answered at once and later, given up, too many, too
 * long, of nobody, and of a node that ends.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nigh/node.h"
#include "nigh/rpc.h"
#include "support/support.h"

#define SECOND_US 1000000u
#define PATIENCE  (20 * SECOND_US)
#define NODES     3

static const uint8_t key[32] = "of nodes in one process";

struct world {
    uint32_t nodes;
    char members[128];
    nigh_node *node[NODES];
    nigh_client *client[NODES];
};

/* What a service keeps for later, and hears. */
struct keeper {
    pthread_mutex_t lock;
    nigh_request kept[2048];
    uint32_t count;
    _Atomic uint32_t heard;
    _Atomic uint32_t last_uid, last_rank;
    _Atomic uint64_t last_timeout_us;
};

static nigh_call_spec spec_of(uint32_t rank, const char *service, const void *request,
                              size_t request_bytes, void *reply, size_t room)
{
    return (nigh_call_spec){.struct_size = sizeof(nigh_call_spec),
                            .service = service,
                            .rank = rank,
                            .request = request,
                            .request_bytes = request_bytes,
                            .reply = reply,
                            .reply_room = room};
}

static void echo(void *context, const nigh_request *request)
{
    (void)context;
    (void)nigh_call_reply(request, NIGH_OK, request->bytes, request->size);
}

static void refuse(void *context, const nigh_request *request)
{
    (void)context;
    (void)nigh_call_reply(request, NIGH_DENIED, "no", 2);
}

static void keep(void *context, const nigh_request *request)
{
    struct keeper *keeper = context;

    atomic_store(&keeper->last_uid, request->uid);
    atomic_store(&keeper->last_rank, request->rank);
    atomic_store(&keeper->last_timeout_us, request->timeout_us);
    (void)pthread_mutex_lock(&keeper->lock);
    keeper->kept[keeper->count++] = *request;
    (void)pthread_mutex_unlock(&keeper->lock);
    atomic_fetch_add(&keeper->heard, 1);
}

static nigh_service *serve(nigh_client *client, const char *name,
                           void (*handler)(void *context, const nigh_request *request),
                           void *context)
{
    nigh_service_options options = {
        .struct_size = sizeof options, .handler = handler, .context = context};
    nigh_service *service = NULL;

    assert_int_equal(nigh_service_register(client, name, &options, &service), NIGH_OK);
    return service;
}

static struct keeper *keeper_new(void)
{
    struct keeper *keeper = calloc(1, sizeof *keeper);

    (void)pthread_mutex_init(&keeper->lock, NULL);
    return keeper;
}

/* Calls until the nodes know each other. */
static nigh_status reach(nigh_client *client, uint32_t rank)
{
    nigh_call_spec spec = spec_of(rank, "nobody's", NULL, 0, NULL, 0);

    return nigh_call(client, &spec, PATIENCE);
}

static void name_members(struct world *world, uint32_t nodes)
{
    size_t length = 0;

    *world = (struct world){.nodes = nodes};
    for (uint32_t n = 0; n < nodes; n++) {
        length += (size_t)snprintf(world->members + length, sizeof world->members - length,
                                   "%s127.0.0.1:%d", n == 0 ? "" : ",", support_port());
    }
}

static uint32_t calls_way = NIGH_CALLS_AUTO; /* of nodes that start from now on */

static nigh_status start(struct world *world, uint32_t n, uint32_t lanes)
{
    bool alone = world->nodes == 1;
    nigh_status status;
    char rank[8];
    nigh_client_options client = {.struct_size = sizeof client};
    nigh_node_options options = {.struct_size = sizeof options,
                                 .memory_bytes = 64u << 20,
                                 .lanes = lanes,
                                 .members = alone ? NULL : world->members,
                                 .member = alone ? NULL : rank,
                                 .cluster_key = alone ? NULL : key,
                                 .calls_way = calls_way};

    (void)snprintf(rank, sizeof rank, "%u", n);
    status = nigh_node_start(&options, &world->node[n]);
    return status == NIGH_OK ? nigh_node_client(world->node[n], &client, &world->client[n])
                             : status;
}

static void wait_for_links(const struct world *world)
{
    for (uint32_t n = 0; n < world->nodes; n++) {
        for (uint32_t rank = 0; rank < world->nodes && world->client[n] != NULL; rank++) {
            assert_true(SUPPORT_WAIT(reach(world->client[n], rank) == NIGH_NOT_FOUND, 20000));
        }
    }
}

static void begin(struct world *world, uint32_t nodes, uint32_t lanes)
{
    name_members(world, nodes);
    for (uint32_t n = 0; n < nodes; n++) {
        assert_int_equal(start(world, n, lanes), NIGH_OK);
    }
    wait_for_links(world);
}

static void end(struct world *world)
{
    for (uint32_t n = 0; n < world->nodes; n++) {
        nigh_client_close(world->client[n]);
        nigh_node_stop(world->node[n]);
    }
}

static void fill(uint8_t *bytes, size_t count, uint32_t seed)
{
    for (size_t n = 0; n < count; n++) {
        bytes[n] = (uint8_t)(n * 7 + seed);
    }
}

static void calls_bring_what_the_service_says(void **state)
{
    static const size_t sizes[] = {0, 1, 64, 4096, NIGH_CALL_BYTES};
    uint8_t request[NIGH_CALL_BYTES], reply[NIGH_CALL_BYTES];
    struct world world;

    (void)state;
    for (uint32_t lanes = 1; lanes <= 2; lanes++) {
        begin(&world, 2, lanes);
        (void)serve(world.client[1], "echo", echo, NULL);
        for (uint32_t n = 0; n < 300; n++) {
            size_t bytes = sizes[n % 5];
            nigh_call_spec spec = spec_of(1, "echo", request, bytes, reply, sizeof reply);

            fill(request, bytes, n);
            memset(reply, 0, sizeof reply);
            /* From another node, and from the service's own. */
            assert_int_equal(nigh_call(world.client[n % 2], &spec, PATIENCE), NIGH_OK);
            assert_int_equal(spec.reply_bytes, bytes);
            assert_memory_equal(reply, request, bytes);
        }
        end(&world);
    }
}

static void a_node_that_is_alone_has_services_too(void **state)
{
    struct world world;
    char reply[8];
    nigh_call_spec spec = spec_of(0, "echo", "alone", 5, reply, sizeof reply);
    nigh_call_spec beyond = spec_of(1, "echo", NULL, 0, NULL, 0);

    (void)state;
    begin(&world, 1, 1);
    (void)serve(world.client[0], "echo", echo, NULL);
    assert_int_equal(nigh_call(world.client[0], &spec, PATIENCE), NIGH_OK);
    assert_memory_equal(reply, "alone", 5);
    assert_int_equal(nigh_call(world.client[0], &beyond, PATIENCE), NIGH_INVALID);
    end(&world);
}

static void what_a_service_refuses_says_so(void **state)
{
    struct world world;
    char reply[8];
    nigh_call_spec spec = spec_of(1, "refuse", NULL, 0, reply, sizeof reply);
    nigh_call_spec nobody = spec_of(1, "nobody", NULL, 0, NULL, 0);
    char text[256];

    (void)state;
    begin(&world, 2, 1);
    (void)serve(world.client[1], "refuse", refuse, NULL);
    assert_int_equal(nigh_call(world.client[0], &spec, PATIENCE), NIGH_DENIED);
    assert_int_equal(spec.reply_bytes, 2);
    assert_memory_equal(reply, "no", 2);
    assert_int_equal(spec.answered, 1);
    (void)nigh_client_error(world.client[0], text, sizeof text);
    assert_string_equal(text, "the service answered: NIGH_DENIED (node 1)");
    spec.reply_room = 1; /* then it is nigh that says so */
    assert_int_equal(nigh_call(world.client[0], &spec, PATIENCE), NIGH_LIMIT);
    assert_int_equal(spec.answered, 0);
    spec.reserved = 77; /* a program of before there was that, and what it has behind */
    spec.answered = 77;
    spec.struct_size = offsetof(nigh_call_spec, answered);
    spec.reply_room = sizeof reply;
    assert_int_equal(nigh_call(world.client[0], &spec, PATIENCE), NIGH_DENIED);
    assert_int_equal(spec.answered, 77);
    assert_int_equal(nigh_call(world.client[0], &nobody, PATIENCE), NIGH_NOT_FOUND);
    assert_int_equal(nobody.answered, 0);
    (void)nigh_client_error(world.client[0], text, sizeof text);
    assert_string_equal(text, "node 1 has no service of this name");
    end(&world);
}

static void bounds_are_refused(void **state)
{
    struct world world;
    uint8_t bytes[NIGH_CALL_BYTES + 1] = {0};
    uint8_t small[63];
    nigh_call_spec spec = spec_of(1, "echo", bytes, sizeof bytes, NULL, 0);
    nigh_service_options options = {.struct_size = sizeof options, .handler = echo};
    nigh_service *service;

    (void)state;
    begin(&world, 2, 1);
    (void)serve(world.client[1], "echo", echo, NULL);
    assert_int_equal(nigh_service_register(world.client[1], "echo", &options, &service),
                     NIGH_EXISTS);
    assert_int_equal(nigh_service_register(world.client[1], "", &options, &service), NIGH_INVALID);
    assert_int_equal(nigh_call(world.client[0], &spec, PATIENCE), NIGH_INVALID);
    spec = spec_of(7, "echo", bytes, 1, NULL, 0);
    assert_int_equal(nigh_call(world.client[0], &spec, PATIENCE), NIGH_INVALID);
    /* A reply that is too long: nothing of it is written, and what it would be is told. */
    spec = spec_of(1, "echo", bytes, 64, small, sizeof small);
    memset(small, 5, sizeof small);
    assert_int_equal(nigh_call(world.client[0], &spec, PATIENCE), NIGH_LIMIT);
    assert_int_equal(spec.reply_bytes, 64);
    assert_int_equal(small[0], 5);
    end(&world);
}

static void answers_may_come_later_and_from_another_thread(void **state)
{
    struct world world;
    struct keeper *keeper = keeper_new();
    char reply[16];
    nigh_call_spec spec = spec_of(1, "keep", "ask", 3, reply, sizeof reply);
    nigh_op op;

    (void)state;
    begin(&world, 2, 1);
    (void)serve(world.client[1], "keep", keep, keeper);
    assert_int_equal(nigh_call_start(world.client[0], &spec, PATIENCE, &op), NIGH_OK);
    assert_true(SUPPORT_WAIT(atomic_load(&keeper->heard) == 1, 20000));
    assert_int_equal(nigh_op_status(&op), NIGH_PENDING);
    assert_int_equal(atomic_load(&keeper->last_rank), 0);
    assert_in_range(atomic_load(&keeper->last_timeout_us), 1, PATIENCE);
    assert_int_equal(nigh_call_reply(&keeper->kept[0], NIGH_OK, "at last", 7), NIGH_OK);
    assert_int_equal(nigh_wait(world.client[0], &op, PATIENCE), NIGH_OK);
    assert_int_equal(spec.reply_bytes, 7);
    assert_memory_equal(reply, "at last", 7);
    /* Once. */
    assert_int_equal(nigh_call_reply(&keeper->kept[0], NIGH_OK, "again", 5), NIGH_NOT_FOUND);
    end(&world);
    free(keeper);
}

static void calls_end_at_their_deadline_and_by_cancel(void **state)
{
    struct world world;
    struct keeper *keeper = keeper_new();
    char reply[16];

    (void)state;
    begin(&world, 2, 1);
    (void)serve(world.client[1], "keep", keep, keeper);
    for (uint32_t caller = 0; caller < 2; caller++) { /* from afar, and at home */
        nigh_call_spec spec = spec_of(1, "keep", "ask", 3, reply, sizeof reply);
        nigh_client *client = world.client[caller];
        uint64_t before_us = support_now_us();
        uint32_t heard = atomic_load(&keeper->heard);
        char text[256];
        nigh_op op;

        assert_int_equal(nigh_call(client, &spec, 50000), NIGH_TIMEOUT);
        assert_in_range(support_now_us() - before_us, 50000, 10 * SECOND_US);
        (void)nigh_client_error(client, text, sizeof text);
        assert_string_equal(text, "node 1 did not answer in time");
        assert_int_equal(nigh_call_start(client, &spec, NIGH_FOREVER, &op), NIGH_OK);
        assert_true(SUPPORT_WAIT(atomic_load(&keeper->heard) == heard + 2, 20000));
        assert_int_equal(nigh_cancel(client, &op), NIGH_CANCELED);
        /* What comes for them now hits nobody. That the first was given up was said before the
         * second was called. */
        assert_int_equal(nigh_call_reply(&keeper->kept[heard], NIGH_OK, "late", 4), NIGH_NOT_FOUND);
        (void)nigh_call_reply(&keeper->kept[heard + 1], NIGH_OK, "late", 4);
    }
    end(&world);
    free(keeper);
}

static void one_way_messages_arrive_and_want_nothing(void **state)
{
    struct world world;
    struct keeper *keeper = keeper_new();

    (void)state;
    begin(&world, 2, 1);
    (void)serve(world.client[1], "keep", keep, keeper);
    for (uint32_t n = 0; n < 1000; n++) {
        nigh_call_spec spec = spec_of(1, "keep", &n, sizeof n, NULL, 0);

        spec.flags = NIGH_CALL_ONE_WAY;
        assert_int_equal(nigh_call(world.client[n % 2], &spec, PATIENCE), NIGH_OK);
    }
    assert_true(SUPPORT_WAIT(atomic_load(&keeper->heard) == 1000, 20000));
    assert_int_equal(nigh_call_reply(&keeper->kept[0], NIGH_OK, NULL, 0), NIGH_NOT_FOUND);
    end(&world);
    free(keeper);
}

#define MANY 1000

struct many {
    nigh_op op[MANY];
    nigh_call_spec spec[MANY];
    uint32_t request[MANY], reply[MANY];
};

/* More than there are places in the rings, on the link and for their bytes. */
static void a_thousand_are_under_way_at_once(void **state)
{
    struct world world;
    struct many *many = calloc(1, sizeof *many);

    (void)state;
    begin(&world, 2, 1);
    (void)serve(world.client[1], "echo", echo, NULL);
    for (uint32_t n = 0; n < MANY; n++) {
        many->request[n] = n * 3 + 1;
        many->spec[n] = spec_of(1, "echo", &many->request[n], sizeof n, &many->reply[n], sizeof n);
        assert_int_equal(nigh_call_start(world.client[0], &many->spec[n], PATIENCE, &many->op[n]),
                         NIGH_OK);
    }
    for (uint32_t n = 0; n < MANY; n++) {
        assert_int_equal(nigh_wait(world.client[0], &many->op[n], PATIENCE), NIGH_OK);
        assert_int_equal(many->reply[n], n * 3 + 1);
    }
    end(&world);
    free(many);
}

/* The same, and all sizes, where frames are written into rings; and nodes say so. */
static void calls_may_be_written(void **state)
{
    char reply[8];
    nigh_call_spec spec = spec_of(1, "echo", "written", 7, reply, sizeof reply);
    struct world world;

    calls_way = NIGH_CALLS_WRITE;
    calls_bring_what_the_service_says(state);
    a_thousand_are_under_way_at_once(state);
    begin(&world, 2, 1);
    (void)serve(world.client[1], "echo", echo, NULL);
    assert_int_equal(nigh_call(world.client[0], &spec, PATIENCE), NIGH_OK);
    for (uint32_t n = 0; n < 2; n++) {
        nigh_node_stats stats = {.struct_size = sizeof stats};
        nigh_link_info link;
        size_t count;

        assert_int_equal(nigh_stats(world.client[n], &stats), NIGH_OK);
        assert_true(stats.call_frames_written > 0);
        assert_int_equal(stats.call_frames_sent, 0);
        assert_int_equal(stats.links_writing_calls, 1);
        assert_int_equal(nigh_links(world.client[n], &link, 1, &count), NIGH_OK);
        assert_int_equal(count, 1);
        assert_int_equal(link.calls, NIGH_LINK_CALLS_WRITTEN);
    }
    end(&world);
    calls_way = NIGH_CALLS_AUTO;
}

/* A node that has a process of its own, and ends with it. */
struct apart {
    struct world *world;
    struct keeper *keeper; /* shared with it */
};

static int serve_apart(void *context)
{
    struct apart *apart = context;
    nigh_service_options options = {
        .struct_size = sizeof options, .handler = keep, .context = apart->keeper};
    nigh_service *service;

    if (start(apart->world, 1, 1) != NIGH_OK ||
        nigh_service_register(apart->world->client[1], "keep", &options, &service) != NIGH_OK) {
        return 1;
    }
    for (;;) {
        (void)pause();
    }
}

/* All at once, each with the node named, and none twice. */
static void a_lost_node_ends_what_it_was_asked(void **state)
{
    struct world world;
    struct keeper *keeper =
        mmap(NULL, sizeof *keeper, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct many *many = calloc(1, sizeof *many);
    uint32_t sent = 0;
    uint64_t before_us;
    char text[256];
    pid_t pid;

    (void)state;
    assert_true(keeper != MAP_FAILED);
    (void)pthread_mutex_init(&keeper->lock, NULL);
    name_members(&world, 3);
    pid = support_fork(serve_apart, &(struct apart){&world, keeper});
    assert_int_equal(start(&world, 0, 1), NIGH_OK);
    assert_int_equal(start(&world, 2, 1), NIGH_OK);
    wait_for_links(&world);
    (void)serve(world.client[2], "echo", echo, NULL);
    for (uint32_t n = 0; n < 200; n++) {
        many->spec[n] = spec_of(1, "keep", &many->request[n], sizeof n, NULL, 0);
        assert_int_equal(
            nigh_call_start(world.client[0], &many->spec[n], NIGH_FOREVER, &many->op[n]), NIGH_OK);
    }
    /* Some of them; others wait for places. */
    assert_true(SUPPORT_WAIT(atomic_load(&keeper->heard) >= 20, 20000));
    before_us = support_now_us();
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(support_join(pid, 20000), -SIGKILL);
    for (uint32_t n = 0; n < 200; n++) {
        assert_int_equal(nigh_wait(world.client[0], &many->op[n], PATIENCE), NIGH_PEER_LOST);
        (void)nigh_client_error(world.client[0], text, sizeof text);
        assert_non_null(strstr(text, "node 1 "));
        assert_true((strstr(text, "may or may not") != NULL) !=
                    (strstr(text, "was not carried out") != NULL));
        sent += strstr(text, "may or may not") != NULL;
    }
    assert_in_range(sent, 20, 199); /* those of which it had not heard say so */
    assert_in_range(support_now_us() - before_us, 0, 10 * SECOND_US);
    many->spec[0] = spec_of(2, "echo", "x", 1, text, sizeof text);
    assert_int_equal(nigh_call(world.client[0], &many->spec[0], PATIENCE), NIGH_OK);
    end(&world);
    free(many);
    assert_int_equal(munmap(keeper, sizeof *keeper), 0);
}

static void a_service_that_ends_answers_for_itself(void **state)
{
    struct world world;
    struct keeper *keeper = keeper_new();
    nigh_call_spec spec = spec_of(1, "keep", NULL, 0, NULL, 0);
    nigh_service *service;
    nigh_op op[2];

    (void)state;
    begin(&world, 2, 1);
    service = serve(world.client[1], "keep", keep, keeper);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(nigh_call_start(world.client[n], &spec, PATIENCE, &op[n]), NIGH_OK);
    }
    assert_true(SUPPORT_WAIT(atomic_load(&keeper->heard) == 2, 20000));
    nigh_service_unregister(service);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(nigh_wait(world.client[n], &op[n], PATIENCE), NIGH_CLOSED);
    }
    assert_int_equal(nigh_call(world.client[0], &spec, PATIENCE), NIGH_NOT_FOUND);
    end(&world);
    free(keeper);
}

/* The lane must not write to what was the client's, nor wait for it. */
static void a_client_that_goes_leaves_its_calls(void **state)
{
    struct world world;
    struct keeper *keeper = keeper_new();
    nigh_client_options options = {.struct_size = sizeof options};
    char reply[64];
    nigh_call_spec spec = spec_of(1, "keep", "x", 1, reply, sizeof reply);
    nigh_client *client;
    nigh_op op[8];

    (void)state;
    begin(&world, 2, 1);
    (void)serve(world.client[1], "keep", keep, keeper);
    for (uint32_t round = 0; round < 8; round++) {
        uint32_t heard = atomic_load(&keeper->heard);

        assert_int_equal(nigh_node_client(world.node[round % 2], &options, &client), NIGH_OK);
        for (uint32_t n = 0; n < 8; n++) {
            assert_int_equal(nigh_call_start(client, &spec, NIGH_FOREVER, &op[n]), NIGH_OK);
        }
        assert_true(SUPPORT_WAIT(nigh_poll(client) == 0 && atomic_load(&keeper->heard) == heard + 8,
                                 20000));
        nigh_client_close(client);
        assert_int_equal(nigh_op_status(&op[0]), NIGH_CLOSED);
        for (uint32_t n = 0; n < 8; n++) {
            (void)nigh_call_reply(&keeper->kept[heard + n], NIGH_OK, "late", 4);
        }
    }
    end(&world);
    free(keeper);
}

/* Without a handler: started, cancelled, answered at once and later. */
static void a_client_receives(void **state)
{
    static char buffer[2][NIGH_CALL_BYTES];
    struct world world;
    nigh_service *service = NULL;
    nigh_request request[2];
    nigh_op receive, call[2];
    char reply[2][8];
    nigh_call_spec spec[2];

    (void)state;
    begin(&world, 2, 2);
    assert_int_equal(nigh_service_register(world.client[0], "pulled", NULL, &service), NIGH_OK);
    assert_int_equal(nigh_receive(service, &request[0], buffer[0], 0), NIGH_TIMEOUT);
    assert_int_equal(nigh_receive_start(service, &request[0], buffer[0], NIGH_FOREVER, &receive),
                     NIGH_OK);
    assert_int_equal(nigh_cancel(world.client[0], &receive), NIGH_CANCELED);
    assert_int_equal(reach(world.client[1], 0), NIGH_NOT_FOUND);
    for (uint32_t n = 0; n < 2; n++) {
        spec[n] = spec_of(0, "pulled", n == 0 ? "one" : "two", 3, reply[n], sizeof reply[n]);
        assert_int_equal(nigh_call_start(world.client[1], &spec[n], PATIENCE, &call[n]), NIGH_OK);
        (void)nigh_poll(world.client[1]);
        assert_int_equal(nigh_receive(service, &request[n], buffer[n], PATIENCE), NIGH_OK);
        assert_int_equal(request[n].rank, 1);
    }
    assert_int_equal(nigh_call_reply(&request[1], NIGH_OK, request[1].bytes, 3), NIGH_OK);
    assert_int_equal(nigh_call_reply(&request[1], NIGH_OK, NULL, 0), NIGH_NOT_FOUND);
    assert_int_equal(nigh_reply_receive(&request[0], NIGH_DENIED, "no", 2, buffer[0], 0),
                     NIGH_TIMEOUT);
    assert_int_equal(nigh_wait(world.client[1], &call[1], PATIENCE), NIGH_OK);
    assert_int_equal(nigh_wait(world.client[1], &call[0], PATIENCE), NIGH_DENIED);
    assert_memory_equal(reply[1], "two", 3);
    assert_int_equal(spec[0].reply_bytes, 2);
    assert_int_equal(nigh_receive_start(service, &request[0], buffer[0], NIGH_FOREVER, &receive),
                     NIGH_OK);
    nigh_service_unregister(service);
    assert_int_equal(nigh_wait(world.client[0], &receive, PATIENCE), NIGH_CLOSED);
    end(&world);
}

#define WAITING 60u /* receives of each of two services: with 8 places that are kept, all */
#define KEPT    10u
#define QUEUE   128u /* requests that wait for a receive of one service */

struct answerer {
    pthread_t thread;
    nigh_request request;
    nigh_status status;
    char buffer[NIGH_CALL_BYTES];
};

static _Atomic uint32_t answerers_done;

static void *answer_and_receive(void *of)
{
    struct answerer *answerer = of;

    answerer->status =
        nigh_reply_receive(&answerer->request, NIGH_OK, "told", 4, answerer->buffer, 2 * PATIENCE);
    answerers_done++;
    return NULL;
}

/* More receives wait than a client has places: one more says so, and answers are given. */
static void answers_wait_for_no_receive(void **state)
{
    static char buffers[2 * WAITING][NIGH_CALL_BYTES];
    static nigh_request requests[2 * WAITING];
    static nigh_op receives[2 * WAITING], calls[KEPT];
    static struct answerer answerers[KEPT];
    nigh_client_options options = {.struct_size = sizeof options};
    nigh_call_spec specs[KEPT], note = spec_of(0, "one", NULL, 0, NULL, 0);
    nigh_service *one = NULL, *two = NULL;
    nigh_client *server, *caller;
    struct world world;
    nigh_request request;

    (void)state;
    begin(&world, 1, 1);
    server = world.client[0];
    assert_int_equal(nigh_node_client(world.node[0], &options, &caller), NIGH_OK);
    assert_int_equal(nigh_service_register(server, "one", NULL, &one), NIGH_OK);
    assert_int_equal(nigh_service_register(server, "two", NULL, &two), NIGH_OK);
    for (uint32_t n = 0; n < KEPT; n++) {
        specs[n] = spec_of(0, "one", "ask", 3, NULL, 0);
        assert_int_equal(nigh_call_start(caller, &specs[n], PATIENCE, &calls[n]), NIGH_OK);
        (void)nigh_poll(caller);
        assert_int_equal(nigh_receive(one, &answerers[n].request, answerers[n].buffer, PATIENCE),
                         NIGH_OK);
    }
    for (uint32_t n = 0; n < 2 * WAITING; n++) {
        assert_int_equal(nigh_receive_start(n % 2 == 0 ? one : two, &requests[n], buffers[n],
                                            NIGH_FOREVER, &receives[n]),
                         NIGH_OK);
    }
    assert_int_equal(nigh_receive(two, &request, buffers[0], 0), NIGH_BUSY);
    assert_int_equal(nigh_receive(two, &request, buffers[0], 20000), NIGH_BUSY);
    for (uint32_t n = 0; n < KEPT; n++) {
        assert_int_equal(
            pthread_create(&answerers[n].thread, NULL, answer_and_receive, &answerers[n]), 0);
    }
    for (uint32_t n = 0; n < KEPT; n++) {
        assert_int_equal(nigh_wait(caller, &calls[n], 2 * PATIENCE), NIGH_LIMIT);
        assert_int_equal(specs[n].reply_bytes, 4);
    }
    for (uint32_t n = 0; n < 2 * WAITING; n++) {
        assert_int_equal(nigh_cancel(server, &receives[n]), NIGH_CANCELED);
    }
    /* One that meets a receive which the lane does not know to be cancelled yet is dropped. */
    note.flags = NIGH_CALL_ONE_WAY;
    while (answerers_done < KEPT) {
        assert_int_equal(nigh_call(caller, &note, PATIENCE), NIGH_OK);
        (void)sched_yield();
    }
    for (uint32_t n = 0; n < KEPT; n++) {
        assert_int_equal(pthread_join(answerers[n].thread, NULL), 0);
        assert_int_equal(answerers[n].status, NIGH_OK);
        assert_int_equal(answerers[n].request.is_one_way, 1);
    }
    nigh_client_close(caller);
    end(&world);
}

/* Nobody receives: a call beyond the queue is told that so many wait, which is no other status; one
 * that may be tried again is, until its deadline. */
static void a_full_queue_has_a_status_of_its_own(void **state)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    nigh_client_options options = {.struct_size = sizeof options};
    nigh_call_spec spec = spec_of(0, "served", "ask", 3, NULL, 0);
    nigh_service *service = NULL;
    nigh_client *caller;
    nigh_request request;
    char why[256] = "";
    struct world world;

    (void)state;
    begin(&world, 1, 1);
    assert_int_equal(nigh_node_client(world.node[0], &options, &caller), NIGH_OK);
    assert_int_equal(nigh_service_register(world.client[0], "served", NULL, &service), NIGH_OK);
    spec.flags = NIGH_CALL_ONE_WAY;
    for (uint32_t n = 0; n < QUEUE; n++) {
        assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK);
    }
    spec.flags = 0;
    assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OVERLOADED);
    (void)nigh_client_error(caller, why, sizeof why);
    assert_non_null(strstr(why, "too many calls"));
    spec.flags = NIGH_CALL_IDEMPOTENT;
    assert_int_equal(nigh_call(caller, &spec, 50000), NIGH_TIMEOUT);
    for (uint32_t n = 0; n < QUEUE; n++) {
        assert_int_equal(nigh_receive(service, &request, buffer, PATIENCE), NIGH_OK);
        assert_int_equal(request.is_one_way, 1);
    }
    nigh_client_close(caller);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_bring_what_the_service_says),
        cmocka_unit_test(a_node_that_is_alone_has_services_too),
        cmocka_unit_test(what_a_service_refuses_says_so),
        cmocka_unit_test(bounds_are_refused),
        cmocka_unit_test(answers_may_come_later_and_from_another_thread),
        cmocka_unit_test(calls_end_at_their_deadline_and_by_cancel),
        cmocka_unit_test(one_way_messages_arrive_and_want_nothing),
        cmocka_unit_test(a_thousand_are_under_way_at_once),
        cmocka_unit_test(calls_may_be_written),
        cmocka_unit_test(a_lost_node_ends_what_it_was_asked),
        cmocka_unit_test(a_service_that_ends_answers_for_itself),
        cmocka_unit_test(a_client_that_goes_leaves_its_calls),
        cmocka_unit_test(a_client_receives),
        cmocka_unit_test(answers_wait_for_no_receive),
        cmocka_unit_test(a_full_queue_has_a_status_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
