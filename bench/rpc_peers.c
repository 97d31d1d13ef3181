/* SPDX-License-Identifier: Apache-2.0 */
/* See rpc_peers.h. UCX and libfabric are measured by their own programs, which tell one way: half
 * of a round trip. */
#include "rpc_peers.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

#define LINE 512

/* ---- programs ------------------------------------------------------------- */

/* Runs the server in the background, and the client until it finds it; the client's last line. */
static void run_pair(const char *server, const char *client, char line[LINE])
{
    char command[4 * LINE];
    FILE *output;

    (void)snprintf(command, sizeof command,
                   "timeout 60 %s >/dev/null 2>&1 & server=$!; n=0; "
                   "until said=$(timeout 60 %s 2>/dev/null) || [ $n = 100 ]; do "
                   "n=$((n + 1)); sleep 0.05; done; kill $server 2>/dev/null; wait; "
                   "echo \"$said\" | tail -n 1",
                   server, client);
    output = popen(command, "r");
    if (output == NULL || fgets(line, LINE, output) == NULL) {
        line[0] = '\0';
    }
    if (output != NULL) {
        (void)pclose(output);
    }
}

/* The number in a column. */
static double column(const char *line, uint32_t number, const char *program)
{
    char copy[LINE], *rest = NULL, *word;
    double value = 0;

    (void)snprintf(copy, sizeof copy, "%s", line);
    word = strtok_r(copy, " \t\n", &rest);
    for (uint32_t n = 0; n < number && word != NULL; n++) {
        word = strtok_r(NULL, " \t\n", &rest);
    }
    value = word == NULL ? 0 : atof(word);
    if (value <= 0) {
        bench_fail("%s did not run (tools/setup bench installs it); it said: %s", program, line);
    }
    return value;
}

double peer_ucx(const char *transports, uint32_t bytes, uint32_t calls, int here, int there)
{
    char server[LINE], client[LINE], line[LINE];
    int port = bench_free_port();

    (void)snprintf(server, sizeof server,
                   "taskset -c %d env UCX_TLS=%s UCX_NET_DEVICES=lo ucx_perftest -p %d", there,
                   transports, port);
    (void)snprintf(client, sizeof client,
                   "taskset -c %d env UCX_TLS=%s UCX_NET_DEVICES=lo ucx_perftest 127.0.0.1 -p %d "
                   "-t ucp_am_lat -s %u -n %u -w %u -f",
                   here, transports, port, bytes, calls, calls);
    run_pair(server, client, line);
    return 2 * 1000 * column(line, 2, "ucx_perftest");
}

double peer_libfabric(uint32_t bytes, uint32_t calls, int here, int there)
{
    char server[LINE], client[LINE], line[LINE];
    int port = bench_free_port();

    (void)snprintf(server, sizeof server,
                   "taskset -c %d fi_pingpong -p tcp -e msg -I %u -S %u -B %d", there, calls, bytes,
                   port);
    (void)snprintf(client, sizeof client,
                   "taskset -c %d fi_pingpong -p tcp -e msg -I %u -S %u -P %d 127.0.0.1", here,
                   calls, bytes, port);
    run_pair(server, client, line);
    return 2 * 1000 * column(line, 6, "fi_pingpong");
}

/* ---- nng ------------------------------------------------------------------ */

static nng_socket nng_client;

static void nng_check(int error, const char *what)
{
    if (error != 0) {
        bench_fail("nng: %s: %s", what, nng_strerror(error));
    }
}

static void peer_url(int port, char url[64])
{
    (void)snprintf(url, 64, "tcp://127.0.0.1:%d", port);
}

void peer_nng_serve(int port)
{
    nng_socket socket;
    char url[64];

    peer_url(port, url);
    nng_check(nng_rep0_open(&socket), "open");
    nng_check(nng_listen(socket, url, NULL, 0), "listen");
    for (;;) {
        nng_msg *message;

        nng_check(nng_recvmsg(socket, &message, 0), "receive");
        nng_check(nng_sendmsg(socket, message, 0), "reply");
    }
}

void peer_nng_open(int port)
{
    char url[64];
    int error = NNG_ECONNREFUSED;

    peer_url(port, url);
    nng_check(nng_req0_open(&nng_client), "open");
    for (uint32_t n = 0; n < 1000 && error != 0; n++) {
        error = nng_dial(nng_client, url, NULL, 0);
        (void)usleep(error != 0 ? 5000 : 0);
    }
    nng_check(error, "dial");
}

void peer_nng_call(uint32_t bytes)
{
    nng_msg *message;

    nng_check(nng_msg_alloc(&message, bytes), "a message");
    nng_check(nng_sendmsg(nng_client, message, 0), "send");
    nng_check(nng_recvmsg(nng_client, &message, 0), "the reply");
    nng_msg_free(message);
}
