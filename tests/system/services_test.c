/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services of processes that die, stop or fork, and callers that do: every call ends, names come
 * free, and who serves on is not disturbed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nigh/nigh.h"
#include "support/node_fixture.h"
#include "support/support.h"

#define SECOND_US 1000000u
#define PATIENCE  (20 * SECOND_US)
#define CALLS     64u

static struct node_fixture node;

static nigh_client *open_client(void)
{
    nigh_client_options options = {.struct_size = sizeof options, .socket_path = node.socket};
    nigh_client *client = NULL;

    if (nigh_client_open(&options, &client) != NIGH_OK)
        fail_msg("%s", nigh_open_error());
    return client;
}

static nigh_call_spec spec_of(const char *service, const void *request, size_t bytes, void *reply,
                              size_t room)
{
    return (nigh_call_spec){.struct_size = sizeof(nigh_call_spec),
                            .service = service,
                            .request = request,
                            .request_bytes = bytes,
                            .reply = reply,
                            .reply_room = room};
}

/* ---- a process that serves ---- */

enum until {
    NOTHING_RECEIVED, /* registers */
    ONE_RECEIVED,     /* holds a request */
    KILLED            /* answers each with how many there were, and its bytes */
};

struct server {
    pid_t pid;
    int said; /* reads 'r' when it has registered, 'h' when it holds a request */
};

static void answer_all(nigh_service *service)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    nigh_request request;
    nigh_status status = nigh_receive(service, &request, buffer, NIGH_FOREVER);

    for (uint32_t count = 1; status == NIGH_OK; count++) {
        if (request.size >= sizeof count)
            memcpy(buffer, &count, sizeof count);
        status = nigh_reply_receive(&request, NIGH_OK, buffer, request.size, buffer, NIGH_FOREVER);
    }
}

static void run_server(enum until until, int say)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    nigh_client_options options = {.struct_size = sizeof options, .socket_path = node.socket};
    nigh_client *client = NULL;
    nigh_service *service = NULL;
    nigh_request request;
    nigh_status status;

    /* Gone with the test, also where that fails while it is stopped. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || nigh_client_open(&options, &client) != NIGH_OK)
        _exit(1);
    do { /* one that was killed may be known still */
        status = nigh_service_register(client, "served", NULL, &service);
    } while (status == NIGH_EXISTS);
    if (status != NIGH_OK || write(say, "r", 1) != 1)
        _exit(2);
    if (until == KILLED)
        answer_all(service);
    if (until == ONE_RECEIVED && nigh_receive(service, &request, buffer, NIGH_FOREVER) != NIGH_OK)
        _exit(3);
    if (write(say, "h", 1) == 1)
        (void)pause();
    _exit(4);
}

static void wait_said(const struct server *server, char what)
{
    char said = 0;

    assert_int_equal(read(server->said, &said, 1), 1);
    assert_int_equal(said, what);
}

static struct server start_server(enum until until)
{
    struct server server;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    server.pid = fork();
    assert_true(server.pid >= 0);
    if (server.pid == 0)
        run_server(until, ends[1]);
    (void)close(ends[1]);
    server.said = ends[0];
    wait_said(&server, 'r');
    return server;
}

static void kill_server(const struct server *server)
{
    int status;

    assert_int_equal(kill(server->pid, SIGKILL), 0);
    assert_int_equal(waitpid(server->pid, &status, 0), server->pid);
    assert_true(WIFSIGNALED(status));
    (void)close(server->said);
}

/* ---- tests ---- */

/* Their calls have no deadline: it is the service that ends them. */
static void a_server_that_is_killed_ends_its_calls(void **state)
{
    nigh_client *caller;
    uint8_t replies[CALLS][8];
    nigh_call_spec specs[CALLS];
    nigh_op calls[CALLS];
    uint32_t answered = 0;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    caller = open_client();
    for (uint32_t round = 0; round < 24; round++) {
        enum until until = (enum until)(round % 3);
        struct server server = start_server(until);

        for (uint32_t n = 0; n < CALLS; n++) {
            specs[n] = spec_of("served", "request", 8, replies[n], 8);
            assert_int_equal(nigh_call_start(caller, &specs[n], NIGH_FOREVER, &calls[n]), NIGH_OK);
        }
        (void)nigh_poll(caller);
        if (until == ONE_RECEIVED)
            wait_said(&server, 'h');
        if (until == KILLED)
            (void)nigh_wait(caller, &calls[round * 2], PATIENCE);
        kill_server(&server);
        for (uint32_t n = 0; n < CALLS; n++) {
            nigh_status status = nigh_wait(caller, &calls[n], PATIENCE);

            if (status != NIGH_CLOSED && status != NIGH_NOT_FOUND &&
                !(status == NIGH_OK && until == KILLED))
                fail_msg("call %u of round %u: %s", n, round, nigh_status_name(status));
            answered += status == NIGH_OK;
        }
    }
    printf("# %u calls answered before their server was killed\n", answered);
    assert_true(answered >= 8);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* Its callers' deadlines pass; what they asked is not received when it goes on. */
static void a_server_that_stands_still_costs_deadlines_alone(void **state)
{
    struct server server;
    nigh_client *caller;
    uint32_t number[CALLS + 1], before;
    nigh_call_spec specs[CALLS + 1], spec = spec_of("served", "request", 8, NULL, 0);
    nigh_op calls[CALLS + 1];

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    server = start_server(KILLED);
    caller = open_client();
    spec.request_bytes = spec.reply_room = sizeof before;
    spec.reply = &before;
    assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK);
    assert_int_equal(kill(server.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(server.pid, NULL, WUNTRACED), server.pid);
    for (uint32_t n = 0; n <= CALLS; n++) {
        specs[n] = spec_of("served", "request", sizeof before, &number[n], sizeof before);
        assert_int_equal(
            nigh_call_start(caller, &specs[n], n == CALLS ? NIGH_FOREVER : 50000, &calls[n]),
            NIGH_OK);
    }
    for (uint32_t n = 0; n < CALLS; n++)
        assert_int_equal(nigh_wait(caller, &calls[n], PATIENCE), NIGH_TIMEOUT);
    assert_int_equal(nigh_op_status(&calls[CALLS]), NIGH_PENDING);
    assert_int_equal(kill(server.pid, SIGCONT), 0);
    assert_int_equal(nigh_wait(caller, &calls[CALLS], PATIENCE), NIGH_OK);
    /* The receive that waited may have had the first, as it came. */
    assert_in_range(number[CALLS], before + 1, before + 2);
    kill_server(&server);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* Sizes and names up to their bounds, and deadlines that have passed at once. */
static void bounds_are_kept(void **state)
{
    static const size_t sizes[] = {0, 1, 4, NIGH_CALL_BYTES - 1, NIGH_CALL_BYTES};
    static uint8_t request[NIGH_CALL_BYTES + 1], reply[NIGH_CALL_BYTES + 1];
    static uint8_t buffer[NIGH_CALL_BYTES];
    char name[257];
    struct server server;
    nigh_client *caller;
    nigh_service *service = NULL;
    nigh_request came;
    nigh_call_spec spec;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    server = start_server(KILLED);
    caller = open_client();
    memset(request, 7, sizeof request);
    for (uint32_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        spec = spec_of("served", request, sizes[n], reply, sizeof reply);
        assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK);
        assert_int_equal(spec.reply_bytes, sizes[n]);
        if (sizes[n] > 0)
            assert_int_equal(reply[sizes[n] - 1], sizes[n] == 4 ? 0 : 7);
    }
    spec = spec_of("served", request, sizeof request, reply, sizeof reply);
    assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_INVALID);
    for (uint64_t timeout_us = 0; timeout_us < 200; timeout_us++) {
        nigh_status status;

        spec = spec_of("served", request, 8, reply, sizeof reply);
        status = nigh_call(caller, &spec, timeout_us);
        assert_true(status == NIGH_TIMEOUT || (status == NIGH_OK && timeout_us > 0));
    }
    kill_server(&server);

    memset(name, 'n', sizeof name);
    name[256] = '\0';
    assert_int_equal(nigh_service_register(caller, name, NULL, &service), NIGH_INVALID);
    spec = spec_of(name, NULL, 0, NULL, 0);
    assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_INVALID);
    name[255] = '\0';
    assert_int_equal(nigh_service_register(caller, name, NULL, &service), NIGH_OK);
    spec.flags = NIGH_CALL_ONE_WAY;
    assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK);
    assert_int_equal(nigh_receive(service, &came, buffer, PATIENCE), NIGH_OK);
    assert_int_equal(came.size, 0);
    assert_int_equal(nigh_call_reply(&came, NIGH_OK, NULL, 0), NIGH_NOT_FOUND);
    assert_int_equal(nigh_call_reply(&came, NIGH_OK, request, sizeof request), NIGH_INVALID);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* A child has nothing of it, and takes nothing from it. */
static void a_child_of_a_server_serves_nothing(void **state)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    nigh_client *server, *caller;
    nigh_service *service = NULL;
    nigh_request request, other;
    char reply[8];
    nigh_call_spec spec = spec_of("served", "ask", 3, reply, sizeof reply);
    nigh_op call;
    pid_t child;
    int status;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    server = open_client();
    caller = open_client();
    assert_int_equal(nigh_service_register(server, "served", NULL, &service), NIGH_OK);
    assert_int_equal(nigh_call_start(caller, &spec, PATIENCE, &call), NIGH_OK);
    assert_true(SUPPORT_WAIT(
        nigh_poll(caller) == 0 && nigh_receive(service, &request, buffer, 0) == NIGH_OK, 20000));
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool is_right = nigh_receive(service, &other, buffer, 0) == NIGH_FORKED &&
                        nigh_call_reply(&request, NIGH_OK, NULL, 0) == NIGH_FORKED &&
                        nigh_reply_receive(&request, NIGH_OK, NULL, 0, buffer, 0) == NIGH_FORKED;

        nigh_service_unregister(service);
        nigh_client_close(server);
        _exit(is_right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(nigh_reply_receive(&request, NIGH_OK, "told", 4, buffer, 0), NIGH_TIMEOUT);
    assert_int_equal(nigh_wait(caller, &call, PATIENCE), NIGH_OK);
    assert_memory_equal(reply, "told", 4);
    nigh_client_close(server);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

static nigh_node_stats stats_of(nigh_client *client)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    assert_int_equal(nigh_stats(client, &stats), NIGH_OK);
    return stats;
}

/* What it asked is held, and waits, when it dies: neither is answered, nor received. */
static void a_caller_that_is_killed_is_nobody(void **state)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    nigh_client *server;
    nigh_service *service = NULL;
    nigh_request request;
    pid_t child;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    server = open_client();
    assert_int_equal(nigh_service_register(server, "served", NULL, &service), NIGH_OK);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        nigh_client_options options = {.struct_size = sizeof options, .socket_path = node.socket};
        nigh_call_spec specs[2] = {spec_of("served", "a", 1, NULL, 0),
                                   spec_of("served", "b", 1, NULL, 0)};
        nigh_client *caller = NULL;
        nigh_op calls[2];

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (nigh_client_open(&options, &caller) == NIGH_OK) {
            (void)nigh_call_start(caller, &specs[0], NIGH_FOREVER, &calls[0]);
            (void)nigh_call_start(caller, &specs[1], NIGH_FOREVER, &calls[1]);
            (void)nigh_wait(caller, &calls[1], NIGH_FOREVER);
        }
        _exit(1);
    }
    assert_true(SUPPORT_WAIT(stats_of(server).calls_begun == 2, 20000));
    assert_int_equal(nigh_receive(service, &request, buffer, PATIENCE), NIGH_OK);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(SUPPORT_WAIT(stats_of(server).sessions == 1, 20000));
    assert_int_equal(nigh_call_reply(&request, NIGH_OK, NULL, 0), NIGH_NOT_FOUND);
    assert_int_equal(nigh_receive(service, &request, buffer, 0), NIGH_TIMEOUT);
    nigh_client_close(server);
    node_fixture_stop(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_is_killed_ends_its_calls),
        cmocka_unit_test(a_server_that_stands_still_costs_deadlines_alone),
        cmocka_unit_test(bounds_are_kept),
        cmocka_unit_test(a_child_of_a_server_serves_nothing),
        cmocka_unit_test(a_caller_that_is_killed_is_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
