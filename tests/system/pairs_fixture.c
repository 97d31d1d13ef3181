/* SPDX-License-Identifier: Apache-2.0 */
/* See pairs_fixture.h. */
#include "pairs_fixture.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

struct node_fixture node;

nigh_client *open_client(void)
{
    nigh_client_options options = {.struct_size = sizeof options, .socket_path = node.socket};
    nigh_client *client = NULL;

    if (nigh_client_open(&options, &client) != NIGH_OK)
        fail_msg("%s", nigh_open_error());
    return client;
}

nigh_call_spec spec_of(const void *request, size_t bytes, void *reply, size_t room)
{
    return (nigh_call_spec){.struct_size = sizeof(nigh_call_spec),
                            .service = "paired",
                            .request = request,
                            .request_bytes = bytes,
                            .reply = reply,
                            .reply_room = room};
}

/* ---- a process that serves ---- */

char state_of(pid_t pid)
{
    char path[64], state = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file = fopen(path, "r");
    if (file != NULL) {
        (void)!fscanf(file, "%*d %*s %c", &state);
        (void)fclose(file);
    }
    return state;
}

/* Echoes; holds what begins with 'h', and says so; with 'a' answers that; with 's' not before the
 * test sleeps; with 'k' it dies. */
static void serve(int say)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    nigh_client_options options = {.struct_size = sizeof options, .socket_path = node.socket};
    nigh_client *client = NULL;
    nigh_service *service = NULL;
    nigh_request request, held;
    nigh_status status;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || nigh_client_open(&options, &client) != NIGH_OK)
        _exit(1);
    do {
        status = nigh_service_register(client, "paired", NULL, &service);
    } while (status == NIGH_EXISTS);
    if (status != NIGH_OK || write(say, "r", 1) != 1)
        _exit(2);
    status = nigh_receive(service, &request, buffer, NIGH_FOREVER);
    while (status == NIGH_OK) {
        while (request.size > 0 && buffer[0] == 's' && state_of(getppid()) != 'S') {
        }
        if (request.size > 0 && buffer[0] == 'k')
            (void)raise(SIGKILL);
        if (request.size > 0 && buffer[0] == 'a')
            (void)nigh_call_reply(&held, NIGH_OK, "held", 4);
        if (request.size > 0 && buffer[0] == 'h') {
            held = request;
            if (write(say, "h", 1) != 1)
                _exit(3);
            status = nigh_receive(service, &request, buffer, NIGH_FOREVER);
        } else {
            status =
                nigh_reply_receive(&request, NIGH_OK, buffer, request.size, buffer, NIGH_FOREVER);
        }
    }
    _exit(4);
}

void wait_said(const struct server *server, char what)
{
    char said = 0;

    assert_int_equal(read(server->said, &said, 1), 1);
    assert_int_equal(said, what);
}

struct server start_server(void)
{
    struct server server;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    server.pid = fork();
    assert_true(server.pid >= 0);
    if (server.pid == 0)
        serve(ends[1]);
    (void)close(ends[1]);
    server.said = ends[0];
    wait_said(&server, 'r');
    return server;
}

void stop(pid_t pid)
{
    assert_int_equal(kill(pid, SIGSTOP), 0);
    while (state_of(pid) != 'T') {
    }
}

void go_on(pid_t pid)
{
    assert_int_equal(kill(pid, SIGCONT), 0);
}

void kill_server(const struct server *server)
{
    assert_int_equal(kill(server->pid, SIGKILL), 0);
    assert_int_equal(waitpid(server->pid, NULL, 0), server->pid);
    (void)close(server->said);
}

/* Calls until a call needs no node: with one that stands still, which it is left as. */
void wait_paired(nigh_client *caller)
{
    for (uint32_t n = 0; n < TRIES; n++) {
        char reply[8];
        nigh_call_spec spec = spec_of("call", 4, reply, sizeof reply);

        assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK);
        stop(node.pid);
        if (nigh_call(caller, &spec, SHORT) == NIGH_OK)
            return;
        go_on(node.pid);
    }
    fail_msg("no pair after %u calls", TRIES);
}

nigh_client *begin_paired(struct server *server)
{
    nigh_client *caller;

    node_fixture_start(&node, "32M", NULL);
    *server = start_server();
    caller = open_client();
    wait_paired(caller);
    return caller;
}

void end_paired(const struct server *server, nigh_client *caller)
{
    kill_server(server);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* Sleeps on the descriptor until the op has ended. */
nigh_status sleep_for(nigh_client *client, nigh_op *op)
{
    struct pollfd readable = {.fd = nigh_client_fd(client), .events = POLLIN};

    for (;;) {
        assert_int_equal(nigh_client_arm(client), NIGH_OK);
        while (nigh_poll(client) > 0) {
        }
        if (nigh_op_status(op) != NIGH_PENDING)
            return nigh_op_status(op);
        assert_int_equal(poll(&readable, 1, (int)(PATIENCE / 1000)), 1);
    }
}

/* ---- services of the test itself ---- */

void serve_here(struct serving *serving)
{
    serving->client = open_client();
    assert_int_equal(nigh_service_register(serving->client, "paired", NULL, &serving->service),
                     NIGH_OK);
}

nigh_client *open_caller(void)
{
    nigh_client *caller = open_client();
    nigh_call_spec spec = spec_of("call", 4, NULL, 0);

    assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_NOT_FOUND);
    return caller;
}

void call_once(nigh_client *caller, const struct serving *serving)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    char reply[8];
    nigh_call_spec spec = spec_of("call", 4, reply, sizeof reply);
    nigh_request request;
    nigh_op op;

    assert_int_equal(nigh_call_start(caller, &spec, PATIENCE, &op), NIGH_OK);
    (void)nigh_poll(caller);
    do { /* one of a call before may come late */
        assert_int_equal(nigh_receive(serving->service, &request, buffer, PATIENCE), NIGH_OK);
    } while (nigh_call_reply(&request, NIGH_OK, "told", 4) != NIGH_OK);
    assert_int_equal(nigh_wait(caller, &op, PATIENCE), NIGH_OK);
}

void pair_here(nigh_client *caller, const struct serving *serving)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    char reply[8];

    for (uint32_t n = 0; n < TRIES; n++) {
        nigh_call_spec spec = spec_of("call", 4, reply, sizeof reply);
        nigh_request request;
        nigh_op op;
        bool came;

        call_once(caller, serving);
        stop(node.pid);
        assert_int_equal(nigh_call_start(caller, &spec, SHORT, &op), NIGH_OK);
        came = nigh_receive(serving->service, &request, buffer, SHORT / 4) == NIGH_OK;
        if (came && nigh_call_reply(&request, NIGH_OK, "told", 4) == NIGH_OK &&
            nigh_wait(caller, &op, SHORT) == NIGH_OK)
            return;
        go_on(node.pid);
        (void)nigh_wait(caller, &op, PATIENCE);
    }
    fail_msg("no pair");
}

/* ---- processes that call ---- */

/* All memory of pairs that this process has. */
void scribble(uint32_t seed)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];

    srand(seed);
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long first, last;

        if (strstr(line, "/memfd:nigh-pair") == NULL || sscanf(line, "%lx-%lx", &first, &last) != 2)
            continue;
        for (unsigned long at = first; at < last; at += 4) {
            if (seed % 2 == 0 || rand() % 4 == 0)
                *(volatile uint32_t *)at = seed % 3 == 0 ? (uint32_t)rand() % 80 : (uint32_t)rand();
        }
    }
    if (maps != NULL)
        (void)fclose(maps);
}

/* Has a pair, calls, and does what it is for. */
pid_t start_caller(enum life life, uint32_t seed, int *said)
{
    int ends[2];
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        nigh_client_options options = {.struct_size = sizeof options, .socket_path = node.socket};
        char reply[8];
        nigh_call_spec spec = spec_of("call", 4, reply, sizeof reply);
        nigh_client *caller = NULL;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (nigh_client_open(&options, &caller) != NIGH_OK)
            _exit(1);
        for (uint32_t n = 0; n < 1000; n++)
            (void)nigh_call(caller, &spec, PATIENCE);
        for (uint32_t n = 0; life == SCRIBBLES && n < 8; n++) {
            scribble(seed + n);
            (void)nigh_call(caller, &spec, 2000);
        }
        spec = spec_of("hold", 4, reply, sizeof reply);
        if (life == WAITS)
            (void)nigh_call(caller, &spec, NIGH_FOREVER);
        if (write(ends[1], "d", 1) == 1)
            (void)pause();
        _exit(2);
    }
    (void)close(ends[1]);
    *said = ends[0];
    return pid;
}

void end_caller(pid_t pid, int said)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)close(said);
}
