/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls between two processes of one machine through pairs: the node stands still while they go on,
 * and whoever dies, stops, forks or writes rubbish costs only those who had to do with it.
 */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pairs_fixture.h"
#include "support/support.h"

/* ---- tests ---- */

/* All sizes, one-way, and as many at once as there may be, by waiting and by the descriptor. */
static void the_node_is_not_on_the_way(void **state)
{
    static uint8_t request[NIGH_CALL_BYTES], replies[CALLERS][NIGH_CALL_BYTES];
    nigh_call_spec specs[CALLERS], spec;
    nigh_op ops[CALLERS];
    nigh_node_stats stats = {.struct_size = sizeof stats};
    struct server server;
    nigh_client *caller;

    (void)state;
    caller = begin_paired(&server);
    for (size_t n = 0; n < sizeof request; n++)
        request[n] = (uint8_t)(n * 7);
    for (size_t bytes = 0; bytes <= sizeof request; bytes += bytes < 130 ? 1 : 1009) {
        spec = spec_of(request, bytes, replies[0], sizeof replies[0]);
        memset(replies[0], 0xff, sizeof replies[0]);
        assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK);
        assert_int_equal(spec.reply_bytes, bytes);
        assert_int_equal(spec.served_by, 0);
        assert_memory_equal(replies[0], request, bytes);
    }
    spec = spec_of(request, sizeof request, replies[0], sizeof replies[0]);
    assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK);
    assert_memory_equal(replies[0], request, sizeof request);
    spec.reply_room = 8;
    assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_LIMIT);
    assert_int_equal(spec.reply_bytes, sizeof request);
    spec = spec_of(request, 64, NULL, 0);
    spec.flags = NIGH_CALL_ONE_WAY;
    for (uint32_t n = 0; n < 2 * CALLERS; n++) {
        assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK);
        if (n % 16 == 15) {
            nigh_call_spec asks = spec_of("call", 4, replies[0], 4);

            assert_int_equal(nigh_call(caller, &asks, PATIENCE), NIGH_OK);
        }
    }
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t n = 0; n < CALLERS; n++) {
            specs[n] = spec_of(&request[n], 64, replies[n], 64);
            assert_int_equal(nigh_call_start(caller, &specs[n], PATIENCE, &ops[n]), NIGH_OK);
        }
        for (uint32_t n = 0; n < CALLERS; n++) {
            assert_int_equal(nigh_wait(caller, &ops[n], PATIENCE), NIGH_OK);
            assert_memory_equal(replies[n], &request[n], 64);
        }
    }
    go_on(node.pid);
    assert_int_equal(nigh_stats(caller, &stats), NIGH_OK);
    assert_int_equal(stats.pairs, 1);
    assert_int_equal(stats.pairs_made, 1);
    assert_int_equal(stats.pairs_dropped, 0);
    assert_true(stats.calls_begun < CALLERS); /* those before there was a pair */
    kill_server(&server);
    assert_true(SUPPORT_WAIT(nigh_stats(caller, &stats) == NIGH_OK && stats.pairs == 0, 20000));
    assert_int_equal(stats.pairs_dropped, 1);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

static void the_descriptor_tells_of_replies_and_deadlines(void **state)
{
    char reply[8];
    nigh_call_spec spec = spec_of("call", 4, reply, sizeof reply);
    nigh_op op;
    struct server server;
    nigh_client *caller;

    (void)state;
    caller = begin_paired(&server);
    for (uint32_t n = 0; n < 100; n++) {
        assert_int_equal(nigh_call_start(caller, &spec, PATIENCE, &op), NIGH_OK);
        assert_int_equal(sleep_for(caller, &op), NIGH_OK);
    }
    stop(server.pid);
    assert_int_equal(nigh_call_start(caller, &spec, SHORT, &op), NIGH_OK);
    assert_int_equal(sleep_for(caller, &op), NIGH_TIMEOUT);
    go_on(server.pid);
    go_on(node.pid);
    end_paired(&server, caller);
}

/* Held, waiting, and made after: all end without a deadline; the next server is called as well. */
static void a_killed_server_ends_the_calls_of_all_its_callers(void **state)
{
    static nigh_client *callers[CALLERS];
    static nigh_call_spec specs[CALLERS];
    static nigh_op ops[CALLERS];
    struct server server;
    char reply[8];

    (void)state;
    node_fixture_start(&node, "256M", NULL);
    for (uint32_t n = 0; n < CALLERS; n++)
        callers[n] = open_client();
    for (uint32_t round = 0; round < 2; round++) {
        server = start_server();
        for (uint32_t n = 0; n < CALLERS; n++) {
            specs[n] = spec_of("call", 4, reply, sizeof reply);
            /* The last one has no place left: the server has it through the node. */
            for (uint32_t k = 0; k < 3; k++)
                assert_int_equal(nigh_call(callers[n], &specs[n], PATIENCE), NIGH_OK);
        }
        wait_paired(callers[0]);
        go_on(node.pid);
        for (uint32_t n = 0; n < CALLERS; n++) {
            specs[n] = spec_of("hold", 4, reply, sizeof reply);
            assert_int_equal(nigh_call_start(callers[n], &specs[n], NIGH_FOREVER, &ops[n]),
                             NIGH_OK);
        }
        for (uint32_t n = 0; n < CALLERS / 2; n++)
            wait_said(&server, 'h');
        kill_server(&server);
        for (uint32_t n = 0; n < CALLERS; n++) {
            char why[256] = "";

            assert_int_equal(nigh_wait(callers[n], &ops[n], PATIENCE), NIGH_CLOSED);
            (void)nigh_client_error(callers[n], why, sizeof why);
            assert_string_equal(why, "the service of node 0 ended before it answered");
        }
    }
    for (uint32_t n = 0; n < CALLERS; n++)
        nigh_client_close(callers[n]);
    node_fixture_stop(&node);
}

/* The node need not be told by anybody: what may be twice is tried again until one serves. */
static void what_may_be_twice_goes_to_the_next_server(void **state)
{
    char reply[8];
    nigh_call_spec spec = spec_of("hold", 4, reply, sizeof reply), asks;
    struct server first, second;
    nigh_client *caller;
    nigh_op op;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    first = start_server();
    caller = open_client();
    wait_paired(caller);
    go_on(node.pid);
    spec.flags = NIGH_CALL_IDEMPOTENT;
    assert_int_equal(nigh_call_start(caller, &spec, PATIENCE, &op), NIGH_OK);
    wait_said(&first, 'h');
    kill_server(&first);
    second = start_server();
    assert_int_equal(nigh_wait(caller, &op, SHORT), NIGH_TIMEOUT);
    wait_said(&second, 'h');
    assert_int_equal(nigh_cancel(caller, &op), NIGH_CANCELED);
    asks = spec_of("call", 4, reply, sizeof reply);
    assert_int_equal(nigh_call(caller, &asks, PATIENCE), NIGH_OK);
    kill_server(&second);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* Its calls end at their deadlines; what they asked is not received when it goes on; what has no
 * place in the pair waits at the node. */
static void a_stopped_server_costs_deadlines_alone(void **state)
{
    static nigh_call_spec specs[CALLERS + 1];
    static nigh_op ops[CALLERS + 1];
    struct server server;
    nigh_client *caller;
    char reply[8];

    (void)state;
    caller = begin_paired(&server);
    go_on(node.pid);
    stop(server.pid);
    for (uint32_t n = 0; n <= CALLERS; n++) {
        specs[n] = spec_of(n == CALLERS ? "ask" : "hold", 4, reply, sizeof reply);
        assert_int_equal(
            nigh_call_start(caller, &specs[n], n == CALLERS ? NIGH_FOREVER : SHORT, &ops[n]),
            NIGH_OK);
    }
    for (uint32_t n = 0; n < CALLERS; n++)
        assert_int_equal(nigh_wait(caller, &ops[n], PATIENCE), NIGH_TIMEOUT);
    go_on(server.pid);
    assert_int_equal(nigh_wait(caller, &ops[CALLERS], PATIENCE), NIGH_OK);
    /* All tags are there again. */
    wait_paired(caller);
    for (uint32_t n = 0; n < CALLERS; n++) {
        specs[n] = spec_of("call", 4, reply, sizeof reply);
        assert_int_equal(nigh_call_start(caller, &specs[n], PATIENCE, &ops[n]), NIGH_OK);
    }
    for (uint32_t n = 0; n < CALLERS; n++)
        assert_int_equal(nigh_wait(caller, &ops[n], PATIENCE), NIGH_OK);
    go_on(node.pid);
    end_paired(&server, caller);
}

static void callers_that_die_or_scribble_are_their_own_affair(void **state)
{
    struct server server;
    nigh_client *good;
    char reply[8], byte;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    server = start_server();
    good = open_client();
    wait_paired(good);
    go_on(node.pid);
    for (uint32_t seed = 0; seed < 24; seed++) {
        nigh_call_spec spec = spec_of("good", 4, reply, sizeof reply);
        int said;
        pid_t bad = start_caller(seed % 4 == 0 ? WAITS : SCRIBBLES, seed * 8, &said);

        if (seed % 4 == 0)
            wait_said(&server, 'h');
        else
            assert_int_equal(read(said, &byte, 1), 1);
        assert_int_equal(nigh_call(good, &spec, PATIENCE), NIGH_OK);
        end_caller(bad, said);
        assert_int_equal(nigh_call(good, &spec, PATIENCE), NIGH_OK);
    }
    wait_paired(good); /* still its own */
    go_on(node.pid);
    kill_server(&server);
    nigh_client_close(good);
    node_fixture_stop(&node);
}

/* The same the other way round: its caller's calls end, and the caller goes on. */
static void a_server_that_scribbles_is_bad_for_its_callers_alone(void **state)
{
    nigh_client *caller, *server;
    nigh_service *service = NULL;
    static uint8_t buffer[NIGH_CALL_BYTES];
    char reply[8];

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    caller = open_client();
    server = open_client();
    assert_int_equal(nigh_service_register(server, "paired", NULL, &service), NIGH_OK);
    for (uint32_t seed = 0; seed < 60; seed++) {
        nigh_call_spec spec = spec_of("call", 4, reply, sizeof reply);
        nigh_request request;
        nigh_op op;

        assert_int_equal(nigh_call_start(caller, &spec, SHORT / 4, &op), NIGH_OK);
        (void)nigh_poll(caller);
        if (nigh_receive(service, &request, buffer, SHORT / 4) == NIGH_OK) {
            (void)nigh_call_reply(&request, NIGH_OK, buffer, request.size);
            (void)nigh_call_reply(&request, NIGH_OK, buffer, request.size);
        }
        if (seed % 5 == 4)
            scribble(seed);
        (void)nigh_wait(caller, &op, PATIENCE);
        assert_int_not_equal(nigh_op_status(&op), NIGH_PENDING);
    }
    nigh_client_close(server);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* Statuses that the library has, too: its own TIMEOUT and LIMIT are not taken for the service's. */
static void what_a_service_answers_is_told_from_the_rest(void **state)
{
    static const nigh_status answers[] = {NIGH_OK, NIGH_DENIED, NIGH_TIMEOUT, NIGH_LIMIT,
                                          NIGH_OUT_OF_MEMORY};
    static uint8_t buffer[NIGH_CALL_BYTES];
    nigh_client *caller, *server;
    nigh_service *service = NULL;
    char reply[8];

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    caller = open_client();
    server = open_client();
    assert_int_equal(nigh_service_register(server, "paired", NULL, &service), NIGH_OK);
    for (uint32_t n = 0; n < 200; n++) {
        nigh_status answer = answers[n % 5];
        bool fits = n % 10 < 5;
        nigh_call_spec spec = spec_of("call", 4, reply, fits ? 4 : 3);
        nigh_request request;
        nigh_op op;

        assert_int_equal(nigh_call_start(caller, &spec, PATIENCE, &op), NIGH_OK);
        assert_int_equal(nigh_receive(service, &request, buffer, PATIENCE), NIGH_OK);
        assert_int_equal(nigh_call_reply(&request, answer, buffer, request.size), NIGH_OK);
        assert_int_equal(nigh_wait(caller, &op, PATIENCE), fits ? answer : NIGH_LIMIT);
        assert_int_equal(spec.answered, fits);
    }
    nigh_client_close(server);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* A child has none of it: neither the memory nor the other side's ear. */
static void a_child_of_a_caller_calls_nobody(void **state)
{
    char reply[8];
    nigh_call_spec spec = spec_of("call", 4, reply, sizeof reply);
    struct server server;
    nigh_client *caller;
    pid_t child;
    int status;

    (void)state;
    caller = begin_paired(&server);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool is_right = nigh_call(caller, &spec, PATIENCE) == NIGH_FORKED;

        nigh_client_close(caller);
        _exit(is_right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK); /* the node stands still */
    go_on(node.pid);
    end_paired(&server, caller);
}

/* One that waits for a request sleeps in one place, whichever way that comes. */
static void a_server_hears_pairs_and_the_node(void **state)
{
    nigh_id nowhere = {{1}};
    char reply[8];
    struct server server;
    nigh_client *caller;

    (void)state;
    caller = begin_paired(&server);
    go_on(node.pid);
    for (uint32_t n = 0; n < 300; n++) {
        nigh_call_spec spec = spec_of("call", 4, reply, sizeof reply);

        if (n % 3 == 1) { /* such a call asks the node who has what */
            spec.rank = NIGH_NEAREST;
            spec.near_ids = &nowhere;
            spec.near_count = 1;
        }
        assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK);
        while (n % 50 == 49 && state_of(server.pid) != 'S') {
        }
    }
    end_paired(&server, caller);
}

/* What it had not answered ends so; who registers the name again is called. */
static void a_service_that_ends_says_so(void **state)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    nigh_client *caller, *server;
    char reply[8];
    nigh_call_spec first = spec_of("call", 4, reply, sizeof reply);

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    caller = open_client();
    server = open_client();
    /* Afterwards it has its memory for calls, and one begins as it is started. */
    assert_int_equal(nigh_call(caller, &first, PATIENCE), NIGH_NOT_FOUND);
    for (uint32_t round = 0; round < 4; round++) {
        nigh_call_spec spec = spec_of("call", 4, reply, sizeof reply);
        nigh_service *service = NULL;
        nigh_request request;
        nigh_op op;

        assert_int_equal(nigh_service_register(server, "paired", NULL, &service), NIGH_OK);
        for (uint32_t n = 0; n < 50; n++) {
            assert_int_equal(nigh_call_start(caller, &spec, PATIENCE, &op), NIGH_OK);
            (void)nigh_poll(caller);
            assert_int_equal(nigh_receive(service, &request, buffer, PATIENCE), NIGH_OK);
            if (n == 49)
                break;
            assert_int_equal(nigh_call_reply(&request, NIGH_OK, "told", 4), NIGH_OK);
            assert_int_equal(nigh_call_reply(&request, NIGH_OK, "told", 4), NIGH_NOT_FOUND);
            assert_int_equal(nigh_wait(caller, &op, PATIENCE), NIGH_OK);
        }
        nigh_service_unregister(service);
        assert_int_equal(nigh_wait(caller, &op, PATIENCE), NIGH_CLOSED);
        assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_NOT_FOUND);
    }
    nigh_client_close(server);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_node_is_not_on_the_way),
        cmocka_unit_test(the_descriptor_tells_of_replies_and_deadlines),
        cmocka_unit_test(a_killed_server_ends_the_calls_of_all_its_callers),
        cmocka_unit_test(what_may_be_twice_goes_to_the_next_server),
        cmocka_unit_test(a_stopped_server_costs_deadlines_alone),
        cmocka_unit_test(callers_that_die_or_scribble_are_their_own_affair),
        cmocka_unit_test(a_server_that_scribbles_is_bad_for_its_callers_alone),
        cmocka_unit_test(what_a_service_answers_is_told_from_the_rest),
        cmocka_unit_test(a_child_of_a_caller_calls_nobody),
        cmocka_unit_test(a_server_hears_pairs_and_the_node),
        cmocka_unit_test(a_service_that_ends_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
