/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of many nodes (docs/collectives.md): seven embedded nodes of one process, or each of a
 * process of its own, of which one is killed.
 */
#include <pthread.h>
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
#define NODES     7
#define STREAM    4096 /* multicasts of one stream, at most */

static const uint8_t key[32] = "of nodes that are asked at once";

struct world {
    uint32_t nodes;
    char members[256];
    nigh_node *node[NODES];
    nigh_client *client[NODES];
    struct server {
        uint32_t rank;
        _Atomic uint32_t heard, last_from;
        nigh_request kept;
        _Atomic bool keeps;
    } server[NODES];
};

/* ---- services ------------------------------------------------------------- */

/* Answers with its rank, as a number of eight bytes. */
static void say_rank(void *context, const nigh_request *request)
{
    struct server *server = context;
    uint64_t rank = server->rank;

    atomic_store(&server->last_from, request->rank);
    if (server->keeps) {
        server->kept = *request;
        atomic_fetch_add(&server->heard, 1);
        return;
    }
    atomic_fetch_add(&server->heard, 1);
    (void)nigh_call_reply(request, NIGH_OK, &rank, sizeof rank);
}

static void echo(void *context, const nigh_request *request)
{
    (void)context;
    (void)nigh_call_reply(request, NIGH_OK, request->bytes, request->size);
}

static void serve(nigh_client *client, const char *name,
                  void (*handler)(void *context, const nigh_request *request), void *context)
{
    nigh_service_options options = {
        .struct_size = sizeof options, .handler = handler, .context = context};
    nigh_service *service;

    assert_int_equal(nigh_service_register(client, name, &options, &service), NIGH_OK);
}

/* ---- nodes ---------------------------------------------------------------- */

static void name_members(struct world *world, uint32_t nodes)
{
    size_t length = 0;

    memset(world, 0, sizeof *world);
    world->nodes = nodes;
    for (uint32_t n = 0; n < nodes; n++) {
        length += (size_t)snprintf(world->members + length, sizeof world->members - length,
                                   "%s127.0.0.1:%d", n == 0 ? "" : ",", support_port());
    }
}

static nigh_status start(struct world *world, uint32_t n, uint32_t lanes)
{
    bool alone = world->nodes == 1;
    nigh_client_options client = {.struct_size = sizeof client};
    char rank[8];
    nigh_node_options options = {.struct_size = sizeof options,
                                 .memory_bytes = 32u << 20,
                                 .lanes = lanes,
                                 .members = alone ? NULL : world->members,
                                 .member = alone ? NULL : rank,
                                 .cluster_key = alone ? NULL : key};
    nigh_status status;

    (void)snprintf(rank, sizeof rank, "%u", n);
    world->server[n].rank = n;
    status = nigh_node_start(&options, &world->node[n]);
    if (status == NIGH_OK) {
        status = nigh_node_client(world->node[n], &client, &world->client[n]);
    }
    return status;
}

static nigh_status reach(nigh_client *client, uint32_t rank)
{
    nigh_call_spec spec = {.struct_size = sizeof spec, .service = "nobody's", .rank = rank};

    return nigh_call(client, &spec, PATIENCE);
}

static void begin(struct world *world, uint32_t nodes, uint32_t lanes)
{
    name_members(world, nodes);
    for (uint32_t n = 0; n < nodes; n++) {
        assert_int_equal(start(world, n, lanes), NIGH_OK);
        serve(world->client[n], "rank", say_rank, &world->server[n]);
        serve(world->client[n], "echo", echo, NULL);
    }
    for (uint32_t n = 0; n < nodes; n++) {
        for (uint32_t rank = 0; rank < nodes; rank++) {
            assert_true(SUPPORT_WAIT(reach(world->client[n], rank) == NIGH_NOT_FOUND, 20000));
        }
    }
}

static void stop(struct world *world, uint32_t n)
{
    nigh_client_close(world->client[n]);
    nigh_node_stop(world->node[n]);
    world->node[n] = NULL;
    world->client[n] = NULL;
}

static void end(struct world *world)
{
    for (uint32_t n = 0; n < world->nodes; n++) {
        if (world->node[n] != NULL) {
            stop(world, n);
        }
    }
}

static nigh_multicast_spec spec_of(const char *service, uint32_t reduce, void *value, size_t room)
{
    return (nigh_multicast_spec){.struct_size = sizeof(nigh_multicast_spec),
                                 .service = service,
                                 .fan = 2,
                                 .reduce = reduce,
                                 .value = value,
                                 .value_room = room};
}

static void assert_counts(const nigh_multicast_spec *spec, uint32_t answered, uint32_t failed,
                          uint32_t unknown, uint32_t unasked)
{
    assert_int_equal(spec->answered, answered);
    assert_int_equal(spec->failed, failed);
    assert_int_equal(spec->unknown, unknown);
    assert_int_equal(spec->unasked, unasked);
}

/* ---- tests ---------------------------------------------------------------- */

static void all_are_called_and_their_replies_are_reduced(void **state)
{
    struct world world;

    (void)state;
    for (uint32_t lanes = 1; lanes <= 2; lanes++) {
        begin(&world, NODES, lanes);
        for (uint32_t root = 0; root < NODES; root++) {
            uint64_t value = 77;
            nigh_multicast_spec spec = spec_of("rank", NIGH_REDUCE_SUM_U64, &value, 8);

            assert_int_equal(nigh_multicast(world.client[root], &spec, PATIENCE), NIGH_OK);
            assert_counts(&spec, NODES, 0, 0, 0);
            assert_int_equal(spec.value_bytes, 8);
            assert_int_equal(value, 21);
            for (uint32_t n = 0; n < NODES; n++) {
                assert_int_equal(atomic_load(&world.server[n].heard), root + 1);
                assert_int_equal(atomic_load(&world.server[n].last_from), root);
            }
        }
        end(&world);
    }
}

static void replies_come_by_rank(void **state)
{
    uint8_t request[1000], value[NIGH_MULTICAST_BYTES];
    nigh_multicast_spec spec = spec_of("echo", NIGH_REDUCE_CONCAT, value, sizeof value);
    struct world world;
    size_t at = 0;

    (void)state;
    memset(request, 5, sizeof request);
    spec.request = request;
    spec.request_bytes = sizeof request;
    begin(&world, NODES, 1);
    assert_int_equal(nigh_multicast(world.client[4], &spec, PATIENCE), NIGH_OK);
    assert_int_equal(spec.value_bytes, NODES * (8 + sizeof request));
    for (uint32_t n = 0; n < NODES; n++) {
        nigh_multicast_reply reply;

        memcpy(&reply, value + at, sizeof reply);
        assert_int_equal(reply.rank, n);
        assert_int_equal(reply.bytes, sizeof request);
        assert_memory_equal(value + at + sizeof reply, request, sizeof request);
        at += sizeof reply + reply.bytes;
    }
    /* The longest request, of which no reply has room but the first. */
    spec.request = value;
    spec.request_bytes = NIGH_MULTICAST_BYTES;
    memset(value, 6, sizeof value);
    spec.reduce = NIGH_REDUCE_NONE;
    spec.value_room = 0;
    assert_int_equal(nigh_multicast(world.client[4], &spec, PATIENCE), NIGH_OK);
    assert_counts(&spec, NODES, 0, 0, 0);
    end(&world);
}

static void ranks_and_versions_are_looked_at(void **state)
{
    static const uint32_t some[] = {5, 1, 6}, beyond[] = {1, NODES}, twice[] = {1, 2, 1};
    nigh_multicast_spec spec = spec_of("rank", NIGH_REDUCE_NONE, NULL, 0);
    struct world world;
    uint64_t version;
    char text[256];

    (void)state;
    begin(&world, NODES, 1);
    spec.ranks = some;
    spec.rank_count = 3;
    assert_int_equal(nigh_multicast(world.client[0], &spec, PATIENCE), NIGH_OK);
    assert_counts(&spec, 3, 0, 0, 0);
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(atomic_load(&world.server[n].heard), n == 1 || n == 5 || n == 6);
    }
    version = spec.version;
    assert_int_not_equal(version, 0);
    assert_int_equal(nigh_multicast(world.client[0], &spec, PATIENCE), NIGH_OK);
    spec.version = version + 1;
    assert_int_equal(nigh_multicast(world.client[0], &spec, PATIENCE), NIGH_STALE);
    (void)nigh_client_error(world.client[0], text, sizeof text);
    assert_non_null(strstr(text, "nobody was asked"));
    assert_int_equal(spec.version, version); /* as it is */
    assert_counts(&spec, 0, 0, 0, 0);
    spec.ranks = beyond;
    spec.rank_count = 2;
    assert_int_equal(nigh_multicast(world.client[0], &spec, PATIENCE), NIGH_INVALID);
    spec.ranks = twice;
    spec.rank_count = 3;
    assert_int_equal(nigh_multicast(world.client[0], &spec, PATIENCE), NIGH_INVALID);
    spec.ranks = NULL;
    spec.rank_count = 0;
    spec.fan = 1;
    assert_int_equal(nigh_multicast(world.client[0], &spec, PATIENCE), NIGH_INVALID);
    spec.fan = 0;
    spec.request_bytes = NIGH_MULTICAST_BYTES + 1;
    spec.request = text;
    assert_int_equal(nigh_multicast(world.client[0], &spec, PATIENCE), NIGH_INVALID);
    assert_int_equal(atomic_load(&world.server[1].heard), 2);
    end(&world);
}

static void a_node_that_is_alone_is_a_group(void **state)
{
    uint64_t value;
    nigh_multicast_spec spec = spec_of("rank", NIGH_REDUCE_MAX_U64, &value, 8);
    struct world world;

    (void)state;
    begin(&world, 1, 1);
    assert_int_equal(nigh_multicast(world.client[0], &spec, PATIENCE), NIGH_OK);
    assert_counts(&spec, 1, 0, 0, 0);
    assert_int_equal(value, 0);
    end(&world);
}

static void who_is_not_there_is_named(void **state)
{
    uint64_t value = 0;
    nigh_multicast_spec spec = spec_of("rank", NIGH_REDUCE_SUM_U64, &value, 8);
    nigh_multicast_spec nobody = spec_of("nobody's", NIGH_REDUCE_NONE, NULL, 0);
    struct world world;
    char text[256];

    (void)state;
    begin(&world, NODES, 1);
    assert_int_equal(nigh_multicast(world.client[0], &nobody, PATIENCE), NIGH_NOT_FOUND);
    assert_counts(&nobody, 0, 0, 0, NODES);
    stop(&world, 1); /* which would ask 2 and 3 */
    assert_true(SUPPORT_WAIT(reach(world.client[0], 1) == NIGH_PEER_LOST, 20000));
    assert_int_equal(nigh_multicast(world.client[0], &spec, PATIENCE), NIGH_PEER_LOST);
    assert_counts(&spec, NODES - 1, 0, 0, 1);
    assert_int_equal(value, 20);
    assert_int_equal(spec.error_count, 1);
    assert_int_equal(spec.errors[0].rank, 1);
    assert_int_equal(spec.errors[0].status, NIGH_PEER_LOST);
    assert_int_equal(spec.errors[0].count, 1);
    assert_int_equal(spec.errors[0].is_had, 0);
    (void)nigh_client_error(world.client[0], text, sizeof text);
    assert_non_null(strstr(text, "6 of 7 nodes answered"));
    assert_non_null(strstr(text, "node 1 (not asked)"));
    end(&world);
}

static void who_is_silent_costs_itself_alone(void **state)
{
    uint64_t value = 0, nothing = 0;
    nigh_multicast_spec spec = spec_of("rank", NIGH_REDUCE_SUM_U64, &value, 8);
    struct world world;

    (void)state;
    begin(&world, NODES, 1);
    world.server[3].keeps = true; /* behind 1 */
    assert_int_equal(nigh_multicast(world.client[0], &spec, SECOND_US), NIGH_TIMEOUT);
    assert_counts(&spec, NODES - 1, 0, 1, 0);
    assert_int_equal(value, 18);
    assert_int_equal(spec.errors[0].rank, 3);
    assert_int_equal(spec.errors[0].is_had, 1);
    assert_true(SUPPORT_WAIT(atomic_load(&world.server[3].heard) == 1, 20000));
    assert_int_equal(nigh_call_reply(&world.server[3].kept, NIGH_OK, &nothing, 8), NIGH_NOT_FOUND);
    end(&world);
}

static void a_cancel_goes_down_the_tree(void **state)
{
    nigh_multicast_spec spec = spec_of("rank", NIGH_REDUCE_NONE, NULL, 0);
    uint64_t nothing = 0;
    struct world world;
    nigh_op op;

    (void)state;
    begin(&world, NODES, 1);
    world.server[3].keeps = true;
    assert_int_equal(nigh_multicast_start(world.client[0], &spec, NIGH_FOREVER, &op), NIGH_OK);
    assert_true(SUPPORT_WAIT(
        ((void)nigh_poll(world.client[0]), atomic_load(&world.server[3].heard) == 1), 20000));
    (void)nigh_cancel(world.client[0], &op);
    assert_int_equal(nigh_wait(world.client[0], &op, PATIENCE), NIGH_CANCELED);
    assert_counts(&spec, 0, 0, 0, 0);
    /* What is said to node 1, and then by it to node 3, comes behind the cancels. */
    assert_int_equal(reach(world.client[0], 1), NIGH_NOT_FOUND);
    assert_int_equal(reach(world.client[1], 3), NIGH_NOT_FOUND);
    assert_int_equal(nigh_call_reply(&world.server[3].kept, NIGH_OK, &nothing, 8), NIGH_NOT_FOUND);
    end(&world);
}

/* ---- a node that is killed ------------------------------------------------ */

/* What all processes see: how often each was asked by each multicast. */
struct seen {
    _Atomic uint8_t times[STREAM][NODES];
};

struct child {
    struct world *world;
    struct seen *seen;
    uint32_t rank;
};

static void count_me(void *context, const nigh_request *request)
{
    struct child *child = context;
    uint64_t words[2] = {1, UINT64_C(1) << (8 * child->rank)};
    uint32_t number;

    memcpy(&number, request->bytes, sizeof number);
    atomic_fetch_add(&child->seen->times[number][child->rank], 1);
    (void)nigh_call_reply(request, NIGH_OK, words, sizeof words);
}

static int be_node(void *context)
{
    struct child *child = context;

    if (start(child->world, child->rank, 1) != NIGH_OK) {
        return 1;
    }
    serve(child->world->client[child->rank], "count", count_me, child);
    for (;;) {
        (void)pause();
    }
}

static void check_one(const struct seen *seen, uint32_t number, const nigh_multicast_spec *spec,
                      const uint64_t *value)
{
    uint32_t asked = 0;

    assert_int_equal(spec->answered + spec->failed + spec->unknown + spec->unasked, NODES);
    assert_int_equal(spec->value_bytes, spec->answered > 0 ? 16 : 0);
    if (spec->answered > 0) {
        assert_int_equal(value[0], spec->answered);
    }
    for (uint32_t rank = 0; rank < NODES; rank++) {
        uint32_t times = atomic_load(&seen->times[number][rank]);

        assert_true(times <= 1);
        asked += times;
        if (spec->answered > 0 && (value[1] >> (8 * rank) & 0xff) != 0) {
            assert_int_equal(value[1] >> (8 * rank) & 0xff, 1);
            assert_int_equal(times, 1);
        }
    }
    assert_true(asked >= spec->answered && asked <= spec->answered + spec->failed + spec->unknown);
}

static nigh_status ask_all(struct world *world, struct seen *seen, uint32_t number,
                           nigh_multicast_spec *spec)
{
    uint64_t value[2] = {0};
    nigh_status status;

    *spec = spec_of("count", NIGH_REDUCE_SUM_U64, value, sizeof value);
    spec->request = &number;
    spec->request_bytes = sizeof number;
    status = nigh_multicast(world->client[0], spec, 5 * SECOND_US);
    check_one(seen, number, spec, value);
    return status;
}

static void an_inner_node_is_killed_amid_a_stream(void **state)
{
    struct seen *seen =
        mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct child children[NODES];
    nigh_multicast_spec spec;
    struct world world;
    pid_t pids[NODES];
    uint32_t number = 0, without = 0;

    (void)state;
    assert_true(seen != MAP_FAILED);
    name_members(&world, NODES);
    for (uint32_t n = 0; n < NODES; n++) {
        children[n] = (struct child){.world = &world, .seen = seen, .rank = n};
        pids[n] = n == 0 ? 0 : support_fork(be_node, &children[n]);
    }
    assert_int_equal(start(&world, 0, 1), NIGH_OK);
    serve(world.client[0], "count", count_me, &children[0]);
    while (ask_all(&world, seen, number++, &spec) != NIGH_OK) {
        assert_true(number < STREAM / 2);
        support_breathe();
    }
    /* Node 1 asks 2 and 3. It dies while one is under way, or between two. */
    for (uint32_t n = 0; n < 200; n++) {
        assert_int_equal(ask_all(&world, seen, number++, &spec), NIGH_OK);
    }
    assert_int_equal(kill(pids[1], SIGKILL), 0);
    while (without < 200) {
        assert_true(number < STREAM);
        if (ask_all(&world, seen, number++, &spec) != NIGH_OK) {
            assert_int_equal(spec.errors[0].rank, 1);
            assert_int_equal(spec.errors[0].status, NIGH_PEER_LOST);
            without++;
        }
    }
    assert_int_equal(spec.answered, NODES - 1); /* the others are asked all the same */
    assert_int_equal(support_join(pids[1], 10000), -SIGKILL);
    for (uint32_t n = 2; n < NODES; n++) {
        assert_int_equal(kill(pids[n], SIGKILL), 0);
        assert_int_equal(support_join(pids[n], 10000), -SIGKILL);
    }
    stop(&world, 0);
    assert_int_equal(munmap(seen, sizeof *seen), 0);
}

static int ask_for_ever(void *context)
{
    struct world *world = context;
    nigh_multicast_spec spec = spec_of("rank", NIGH_REDUCE_NONE, NULL, 0);

    if (start(world, 0, 1) != NIGH_OK) {
        return 1;
    }
    for (;;) {
        (void)nigh_multicast(world->client[0], &spec, NIGH_FOREVER);
    }
}

static void a_caller_that_is_killed_is_waited_for_by_nobody(void **state)
{
    static const uint32_t rest[] = {1, 2, 3, 4, 5, 6};
    nigh_multicast_spec spec = spec_of("rank", NIGH_REDUCE_NONE, NULL, 0);
    struct world world;
    struct server *silent = &world.server[3]; /* which node 1 asks */
    pid_t pid;

    (void)state;
    name_members(&world, NODES);
    pid = support_fork(ask_for_ever, &world);
    for (uint32_t n = 1; n < NODES; n++) {
        assert_int_equal(start(&world, n, 1), NIGH_OK);
        world.server[n].keeps = n == 3;
        serve(world.client[n], "rank", say_rank, &world.server[n]);
    }
    assert_true(SUPPORT_WAIT(atomic_load(&silent->heard) > 0, 20000));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(support_join(pid, 10000), -SIGKILL);
    assert_true(SUPPORT_WAIT(reach(world.client[1], 0) == NIGH_PEER_LOST, 20000));
    assert_int_equal(reach(world.client[1], 3), NIGH_NOT_FOUND); /* behind the cancel */
    assert_int_equal(nigh_call_reply(&silent->kept, NIGH_OK, NULL, 0), NIGH_NOT_FOUND);
    silent->keeps = false;
    spec.ranks = rest;
    spec.rank_count = 6;
    assert_true(SUPPORT_WAIT(nigh_multicast(world.client[2], &spec, PATIENCE) == NIGH_OK, 20000));
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_called_and_their_replies_are_reduced),
        cmocka_unit_test(replies_come_by_rank),
        cmocka_unit_test(ranks_and_versions_are_looked_at),
        cmocka_unit_test(a_node_that_is_alone_is_a_group),
        cmocka_unit_test(who_is_not_there_is_named),
        cmocka_unit_test(who_is_silent_costs_itself_alone),
        cmocka_unit_test(a_cancel_goes_down_the_tree),
        cmocka_unit_test(an_inner_node_is_killed_amid_a_stream),
        cmocka_unit_test(a_caller_that_is_killed_is_waited_for_by_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
