/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that call through pairs, and their lives: threads and descriptors that wait beside each
 * other, requests that come by the node meanwhile, kills at any moment, and a node that dies.
 */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pairs_fixture.h"
#include "support/support.h"

/* A call that waits meanwhile takes the bell: who sleeps on the descriptor is woken all the same.
 */
static void a_waiting_call_leaves_the_descriptor_its_bell(void **state)
{
    char reply[8];
    nigh_call_spec held = spec_of("hold", 4, reply, sizeof reply);
    struct server server;
    nigh_client *caller, *other;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    server = start_server();
    caller = open_client();
    other = open_client();
    wait_paired(caller);
    go_on(node.pid);
    for (uint32_t n = 0; n < 20; n++) {
        nigh_call_spec sleeps = spec_of("sleep", 5, NULL, 0),
                       answers = spec_of("answer", 6, NULL, 0);
        struct pollfd readable = {.fd = nigh_client_fd(caller), .events = POLLIN};
        nigh_op op;

        assert_int_equal(nigh_call_start(caller, &held, NIGH_FOREVER, &op), NIGH_OK);
        wait_said(&server, 'h');
        assert_int_equal(nigh_client_arm(caller), NIGH_OK);
        while (nigh_poll(caller) > 0) {
        }
        assert_int_equal(nigh_call(caller, &sleeps, PATIENCE), NIGH_LIMIT); /* no room: answered */
        assert_int_equal(nigh_call(other, &answers, PATIENCE), NIGH_LIMIT);
        /* Before the timer of the call that waited, which would wake it, too. */
        assert_int_equal(poll(&readable, 1, (int)(PATIENCE / 2000)), 1);
        assert_int_equal(sleep_for(caller, &op), NIGH_OK);
    }
    kill_server(&server);
    nigh_client_close(other);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* Nobody gets to see it, and the tags are there again. */
static void what_was_canceled_is_not_received(void **state)
{
    static nigh_call_spec specs[CALLERS];
    static nigh_op ops[CALLERS];
    char reply[8];
    nigh_call_spec asks = spec_of("call", 4, reply, sizeof reply);
    struct server server;
    struct pollfd said;
    nigh_client *caller;

    (void)state;
    caller = begin_paired(&server);
    stop(server.pid);
    for (uint32_t n = 0; n < CALLERS; n++) {
        specs[n] = spec_of("hold", 4, reply, sizeof reply);
        assert_int_equal(nigh_call_start(caller, &specs[n], NIGH_FOREVER, &ops[n]), NIGH_OK);
    }
    for (uint32_t n = 0; n < CALLERS; n++)
        assert_int_equal(nigh_cancel(caller, &ops[n]), NIGH_CANCELED);
    go_on(node.pid);
    go_on(server.pid);
    wait_paired(caller);
    assert_int_equal(nigh_call(caller, &asks, PATIENCE), NIGH_OK);
    said = (struct pollfd){.fd = server.said, .events = POLLIN};
    assert_int_equal(poll(&said, 1, 0), 0);
    go_on(node.pid);
    end_paired(&server, caller);
}

/* A receive that a pair had something for leaves its place at the lane: what comes there waits for
 * the next, whatever this client does in other lanes. */
static void what_comes_by_the_node_waits_for_the_next_receive(void **state)
{
    static const char *const two_lanes[] = {"--lanes", "2", NULL};
    static uint8_t buffer[NIGH_CALL_BYTES];
    nigh_id nowhere = {{1}};
    char reply[8];
    nigh_call_spec paired = spec_of("call", 4, reply, sizeof reply), near = paired;
    struct serving serving;
    nigh_client *caller;
    nigh_request request;
    nigh_op receives, first, second;

    (void)state;
    node_fixture_start(&node, "64M", two_lanes);
    caller = open_caller();
    serve_here(&serving);
    pair_here(caller, &serving);
    go_on(node.pid);
    near.rank = NIGH_NEAREST;
    near.near_ids = &nowhere;
    near.near_count = 1;
    assert_int_equal(nigh_receive_start(serving.service, &request, buffer, NIGH_FOREVER, &receives),
                     NIGH_OK);
    assert_int_equal(nigh_call_start(caller, &paired, PATIENCE, &first), NIGH_OK);
    assert_int_equal(nigh_wait(serving.client, &receives, PATIENCE), NIGH_OK);
    assert_int_equal(nigh_call_reply(&request, NIGH_OK, "told", 4), NIGH_OK);
    assert_int_equal(nigh_wait(caller, &first, PATIENCE), NIGH_OK);
    assert_int_equal(nigh_call_start(caller, &near, NIGH_FOREVER, &second), NIGH_OK);
    assert_int_equal(nigh_wait(caller, &second, SHORT), NIGH_TIMEOUT); /* it has gone there */
    for (uint32_t n = 0; n < 8; n++) {
        nigh_call_spec elsewhere = paired;
        char name[16];

        (void)snprintf(name, sizeof name, "elsewhere-%u", n);
        elsewhere.service = name;
        assert_int_equal(nigh_call(serving.client, &elsewhere, PATIENCE), NIGH_NOT_FOUND);
    }
    assert_int_equal(nigh_receive(serving.service, &request, buffer, PATIENCE), NIGH_OK);
    assert_int_equal(nigh_call_reply(&request, NIGH_OK, "told", 4), NIGH_OK);
    assert_int_equal(nigh_wait(caller, &second, PATIENCE), NIGH_OK);
    nigh_client_close(serving.client);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* A call that goes through the node though its service has a pair. */
static nigh_call_spec spec_of_near(char *reply, size_t room)
{
    static const nigh_id nowhere = {{1}};
    nigh_call_spec near = spec_of("call", 4, reply, room);

    near.rank = NIGH_NEAREST;
    near.near_ids = &nowhere;
    near.near_count = 1;
    return near;
}

/* Begins so many receives, which a pair serves: what the lane has of them is kept. */
static void keep_receives(const struct serving *serving, nigh_client *caller, uint32_t count)
{
    static uint8_t buffer[2][NIGH_CALL_BYTES];
    nigh_op receives[2], call;
    nigh_request requests[2];
    char reply[8];
    nigh_call_spec paired = spec_of("call", 4, reply, sizeof reply);

    for (uint32_t n = 0; n < count; n++)
        assert_int_equal(nigh_receive_start(serving->service, &requests[n], buffer[n], NIGH_FOREVER,
                                            &receives[n]),
                         NIGH_OK);
    for (uint32_t n = 0; n < count; n++) {
        assert_int_equal(nigh_call_start(caller, &paired, PATIENCE, &call), NIGH_OK);
        assert_int_equal(nigh_wait(serving->client, &receives[n], PATIENCE), NIGH_OK);
        assert_int_equal(nigh_call_reply(&requests[n], NIGH_OK, "told", 4), NIGH_OK);
        assert_int_equal(nigh_wait(caller, &call, PATIENCE), NIGH_OK);
    }
}

/* A request that came to what was kept is the next receive's, also where that is begun and not
 * waited for at once; and that of one which waits by a RECEIVE of its own. */
static void what_came_to_what_was_kept_is_received(void **state)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    char reply[8];
    struct serving serving;
    nigh_client *caller;
    nigh_request request;
    nigh_op receives, call;

    (void)state;
    node_fixture_start(&node, "64M", NULL);
    caller = open_caller();
    serve_here(&serving);
    pair_here(caller, &serving);
    go_on(node.pid);
    for (uint32_t kept = 1; kept <= 2; kept++) {
        nigh_call_spec near = spec_of_near(reply, sizeof reply);

        keep_receives(&serving, caller, kept);
        if (kept == 2)
            assert_int_equal(
                nigh_receive_start(serving.service, &request, buffer, PATIENCE, &receives),
                NIGH_OK);
        assert_int_equal(nigh_call_start(caller, &near, NIGH_FOREVER, &call), NIGH_OK);
        assert_int_equal(nigh_wait(caller, &call, SHORT), NIGH_TIMEOUT); /* it has gone there */
        (void)nigh_poll(serving.client);
        if (kept == 1)
            assert_int_equal(
                nigh_receive_start(serving.service, &request, buffer, PATIENCE, &receives),
                NIGH_OK);
        assert_int_equal(nigh_wait(serving.client, &receives, PATIENCE), NIGH_OK);
        assert_int_equal(nigh_call_reply(&request, NIGH_OK, "told", 4), NIGH_OK);
        assert_int_equal(nigh_wait(caller, &call, PATIENCE), NIGH_OK);
    }
    nigh_client_close(serving.client);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* Also when all pairs are gone by then: the lane was told of no deadline. */
static void a_receive_ends_in_time_without_any_pair(void **state)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    struct serving serving;
    nigh_client *caller;
    nigh_request request;
    nigh_op op;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    caller = open_caller();
    serve_here(&serving);
    pair_here(caller, &serving);
    go_on(node.pid);
    assert_int_equal(nigh_receive_start(serving.service, &request, buffer, SHORT, &op), NIGH_OK);
    nigh_client_close(caller);
    assert_int_equal(sleep_for(serving.client, &op), NIGH_TIMEOUT);
    nigh_client_close(serving.client);
    node_fixture_stop(&node);
}

/* Receives that had no room end with their service, and are not looked at again. */
static void receives_without_room_end_with_their_service(void **state)
{
    enum {
        RECEIVES = 300
    };
    static uint8_t buffers[RECEIVES][NIGH_CALL_BYTES];
    static nigh_request requests[RECEIVES];
    static nigh_op ops[RECEIVES];
    struct serving serving;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    serve_here(&serving);
    for (uint32_t n = 0; n < RECEIVES; n++)
        assert_int_equal(
            nigh_receive_start(serving.service, &requests[n], buffers[n], PATIENCE, &ops[n]),
            NIGH_OK);
    nigh_service_unregister(serving.service);
    for (uint32_t n = 0; n < RECEIVES; n++) {
        nigh_status status = nigh_wait(serving.client, &ops[n], SECOND_US);

        assert_true(status == NIGH_CLOSED || status == NIGH_BUSY || status == NIGH_NOT_FOUND);
    }
    nigh_client_close(serving.client);
    node_fixture_stop(&node);
}

struct echo {
    nigh_service *service;
    nigh_client *calls; /* before it answers: the service "paired"; NULL: nobody */
};

static void *echo(void *context)
{
    static _Thread_local uint8_t buffer[NIGH_CALL_BYTES];
    struct echo *echoes = context;
    nigh_request request;
    nigh_status status = nigh_receive(echoes->service, &request, buffer, NIGH_FOREVER);

    while (status == NIGH_OK) {
        nigh_status answer = NIGH_OK;

        if (echoes->calls != NULL) {
            char reply[8];
            nigh_call_spec spec = spec_of("back", 4, reply, sizeof reply);

            answer = nigh_call(echoes->calls, &spec, PATIENCE);
        }
        status = nigh_reply_receive(&request, answer, buffer, request.size, buffer, NIGH_FOREVER);
    }
    return NULL;
}

/* Each is a server of the other, with one client, and two threads wait on that. */
static void two_processes_call_each_other(void **state)
{
    nigh_client *client;
    struct echo echoes = {0};
    pthread_t thread;
    pid_t child;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        nigh_client_options options = {.struct_size = sizeof options, .socket_path = node.socket};

        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
            nigh_client_open(&options, &echoes.calls) != NIGH_OK ||
            nigh_service_register(echoes.calls, "other", NULL, &echoes.service) != NIGH_OK)
            _exit(1);
        (void)echo(&echoes);
        _exit(2);
    }
    client = open_client();
    assert_int_equal(nigh_service_register(client, "paired", NULL, &echoes.service), NIGH_OK);
    assert_int_equal(pthread_create(&thread, NULL, echo, &echoes), 0);
    for (uint32_t n = 0; n < 2000; n++) {
        char reply[8];
        nigh_call_spec spec = spec_of("over", 4, reply, sizeof reply);
        nigh_status status;

        spec.service = "other";
        status = nigh_call(client, &spec, PATIENCE);
        if (status == NIGH_NOT_FOUND && n == 0) {
            n--; /* it does not serve yet */
            continue;
        }
        assert_int_equal(status, NIGH_OK);
        assert_memory_equal(reply, "over", 4);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    nigh_service_unregister(echoes.service);
    assert_int_equal(pthread_join(thread, NULL), 0);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

/* Memory of pairs that the node still has. */
static uint32_t pairs_of_node(void)
{
    char path[64], target[64];
    uint32_t count = 0;
    DIR *dir;

    (void)snprintf(path, sizeof path, "/proc/%d/fd", node.pid);
    dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);

        target[length > 0 ? length : 0] = '\0';
        count += strncmp(target, "/memfd:nigh-pair", 16) == 0;
    }
    (void)closedir(dir);
    return count;
}

/* A name is free again when nobody takes its pairs for alive any more: the first call, of a client
 * that has looked at nothing since, is the new server's. */
static void a_new_server_has_the_first_call(void **state)
{
    char reply[8];
    nigh_call_spec spec = spec_of("call", 4, reply, sizeof reply);
    struct server server;
    nigh_client *caller;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    server = start_server();
    caller = open_client();
    for (uint32_t n = 0; n < 10; n++) {
        wait_paired(caller);
        go_on(node.pid);
        kill_server(&server);
        server = start_server();
        assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK);
    }
    end_paired(&server, caller);
}

/* Whoever is killed, whenever: each call ends, with a reply that is its own or with a word for it;
 * and the node has nothing left of them. */
static void kills_at_any_moment(void **state)
{
    static uint8_t request[NIGH_CALL_BYTES], reply[NIGH_CALL_BYTES];
    nigh_client *caller;
    uint32_t answered = 0;

    (void)state;
    srand(support_seed());
    node_fixture_start(&node, "64M", NULL);
    caller = open_client();
    for (uint32_t round = 0; round < 40; round++) {
        struct server server = start_server();
        uint32_t calls = 1 + (uint32_t)rand() % 60, said;
        pid_t bad = -1, killer;
        int ends = -1;

        if (round % 2 == 0)
            bad = start_caller(WAITS, round, &ends);
        killer = fork();
        assert_true(killer >= 0);
        if (killer == 0) {
            (void)poll(NULL, 0, rand() % 20); /* whenever: nothing waits for it */
            (void)kill(bad > 0 ? bad : server.pid, SIGKILL);
            _exit(0);
        }
        for (uint32_t n = 0; n < calls; n++) {
            size_t bytes = (size_t)rand() % sizeof request;
            nigh_call_spec spec;
            nigh_status status;

            said = (uint32_t)rand();
            memset(request, (int)(said | 0x80), bytes); /* no letter */
            spec = spec_of(request, bytes, reply, sizeof reply);
            status = nigh_call(caller, &spec, PATIENCE);
            if (status == NIGH_OK) {
                assert_int_equal(spec.reply_bytes, bytes);
                assert_memory_equal(reply, request, bytes);
                answered++;
                continue;
            }
            assert_true(bad < 0);
            assert_true(status == NIGH_CLOSED || status == NIGH_NOT_FOUND);
        }
        assert_int_equal(waitpid(killer, NULL, 0), killer);
        if (bad > 0)
            end_caller(bad, ends);
        kill_server(&server);
    }
    assert_true(answered > 0);
    nigh_client_close(caller);
    SUPPORT_WAIT(pairs_of_node() == 0, 20000);
    node_fixture_stop(&node);
}

/* Calls that are under way end with their node, once, and a new beginning has new pairs. */
static void a_node_that_dies_takes_its_pairs_along(void **state)
{
    char reply[8];
    nigh_call_spec spec = spec_of("hold", 4, reply, sizeof reply);
    struct server server;
    nigh_client *caller;
    nigh_status status;
    nigh_op op;

    (void)state;
    caller = begin_paired(&server);
    go_on(node.pid);
    assert_int_equal(nigh_call_start(caller, &spec, NIGH_FOREVER, &op), NIGH_OK);
    wait_said(&server, 'h');
    assert_int_equal(kill(node.pid, SIGKILL), 0);
    assert_int_equal(waitpid(node.pid, NULL, 0), node.pid);
    status = nigh_wait(caller, &op, PATIENCE);
    assert_true(status == NIGH_NODE_LOST || status == NIGH_CLOSED);
    assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_NODE_LOST);
    kill_server(&server);
    nigh_client_close(caller);
    node_fixture_start_again(&node, "32M", NULL);
    server = start_server();
    caller = open_client();
    wait_paired(caller);
    go_on(node.pid);
    end_paired(&server, caller);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiting_call_leaves_the_descriptor_its_bell),
        cmocka_unit_test(what_was_canceled_is_not_received),
        cmocka_unit_test(what_comes_by_the_node_waits_for_the_next_receive),
        cmocka_unit_test(what_came_to_what_was_kept_is_received),
        cmocka_unit_test(a_receive_ends_in_time_without_any_pair),
        cmocka_unit_test(receives_without_room_end_with_their_service),
        cmocka_unit_test(two_processes_call_each_other),
        cmocka_unit_test(a_new_server_has_the_first_call),
        cmocka_unit_test(kills_at_any_moment),
        cmocka_unit_test(a_node_that_dies_takes_its_pairs_along),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
