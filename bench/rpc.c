/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of 64 bytes that bring 64 bytes back, between two processes: plain TCP; a flag in shared
 * memory, records in rings there, event descriptors (rpc_shared.h); and nigh between two embedded
 * nodes over TCP; spinning and blocking, one at a time and 64 at once, plain messages too; between
 * two clients of one node, which call each other through a pair, and so without a node on the way;
 * and beside them what others make of TCP (rpc_peers.h). Rounds of those that are compared
 * alternate, and each is compared with the floor's of the same turn; of those that are programs of
 * their own, which take a second to start, only every eighth turn has one. And streams of 4 MiB
 * pieces (rpc_bulk.h).
 *
 * bench-rpc OUT.json [ROUNDS]
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "nigh/node.h"
#include "nigh/rpc.h"
#include "rpc_bulk.h"
#include "rpc_peers.h"
#include "rpc_shared.h"

#define BYTES      64
#define CALLS      1000 /* of a round */
#define IN_FLIGHT  64
#define AT_ONCE    32   /* of them, small ones, that a lane sends in one piece */
#define SPIN_US    2000 /* who spins and hears nothing sleeps after this */
#define SETTLE_US  6000
#define ROUNDS     25
#define TOOL_EVERY 8
#define HERE       0
#define THERE      1
#define PATIENCE   UINT64_C(20000000)

struct series {
    const char *name, *path;
    void (*open)(struct series *);
    void (*round)(struct series *);
    double (*tool)(const struct series *); /* instead: measures itself, ns a call */
    bool spins;
    uint32_t calls;         /* of a round; 0: CALLS */
    uint32_t in_flight;     /* of plain messages; 0: 1 */
    int floor;              /* its number; -1: none */
    double target;          /* 0: printed only */
    bool slower;            /* the floor is nigh, and this is to take at least so much of it */
    const char *transports; /* of a tool */
    pid_t pid;
    int fd;
    _Atomic uint32_t *flag;
    struct rings *rings;
    int events[2];
    nigh_node *node;
    nigh_client *client;
    nigh_bulk *bulk;
    uint32_t rank; /* that is called */
    pid_t node_pid, far_pid;
    char socket[64], far_socket[64];
    struct samples samples, ratios;
    double last;
};

/* ---- plain TCP ------------------------------------------------------------ */

static const uint8_t one_message[BYTES];

/* What has come, a byte at least; 0: the other side ended. */
static size_t take_some(int fd, uint8_t *bytes, size_t room, bool spins)
{
    uint64_t until_ns = bench_now_ns() + SPIN_US * 1000;

    for (;;) {
        ssize_t n = recv(fd, bytes, room, spins ? MSG_DONTWAIT : 0);

        if (n > 0) {
            return (size_t)n;
        }
        if (n < 0 && errno == EAGAIN) {
            if (bench_now_ns() > until_ns) {
                (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
            }
        } else if (n == 0 || errno != EINTR) {
            return 0;
        }
    }
}

static bool take_all(int fd, bool spins)
{
    uint8_t bytes[BYTES];
    size_t have = 0, n = 1;

    while (have < BYTES && n > 0) {
        n = take_some(fd, bytes + have, BYTES - have, spins);
        have += n;
    }
    return have == BYTES;
}

static void give_all(int fd, const uint8_t *bytes, size_t count)
{
    if (send(fd, bytes, count, MSG_NOSIGNAL) != (ssize_t)count) {
        bench_fail("the plain connection ended");
    }
}

/* Messages that came together go back together. */
static void echo_crowds(int fd, bool spins)
{
    uint8_t bytes[IN_FLIGHT * BYTES];
    size_t count;

    while ((count = take_some(fd, bytes, sizeof bytes, spins)) > 0) {
        give_all(fd, bytes, count);
    }
}

static void raw_open(struct series *series)
{
    int port, listen_fd = bench_tcp_listen(&port);

    series->pid = bench_fork(THERE);
    if (series->pid == 0) {
        int fd = bench_tcp_accept(listen_fd);

        if (series->calls == BULK_PIECES) {
            bulk_raw_serve(fd);
        }
        if (series->in_flight > 1) {
            echo_crowds(fd, series->spins);
        }
        while (take_all(fd, series->spins)) {
            give_all(fd, one_message, BYTES);
        }
        _exit(0);
    }
    series->fd = bench_tcp_connect(port);
    close(listen_fd);
}

static void raw_round(struct series *series)
{
    for (uint32_t n = 0; n < CALLS; n++) {
        give_all(series->fd, one_message, BYTES);
        if (!take_all(series->fd, series->spins)) {
            bench_fail("the plain server ended");
        }
    }
}

/* As many under way as there may be, and as many in one piece as a lane sends: with no more system
 * calls than ours, and nothing to do for a message but to count it. */
static void raw_round_many(struct series *series)
{
    static uint8_t bytes[IN_FLIGHT * BYTES];
    size_t sent = 0, back = 0;

    while (back < CALLS * BYTES) {
        size_t may = sizeof bytes - (sent - back);
        size_t left = CALLS * BYTES - sent, count;

        may = (may < left ? may : left) / BYTES;
        may = (may < AT_ONCE ? may : AT_ONCE) * BYTES;
        if (may > 0) {
            give_all(series->fd, bytes, may);
            sent += may;
            continue;
        }
        count = take_some(series->fd, bytes, sizeof bytes, series->spins);
        if (count == 0) {
            bench_fail("the plain server ended");
        }
        back += count;
    }
}

/* ---- a flag in shared memory ---------------------------------------------- */

static void flag_serve(_Atomic uint32_t *flag)
{
    uint64_t idle_ns = bench_now_ns();

    for (;;) {
        uint32_t value = atomic_load_explicit(flag, memory_order_acquire);

        if (value % 2 == 1) {
            atomic_store_explicit(flag, value + 1, memory_order_release);
            idle_ns = bench_now_ns();
        } else if (bench_now_ns() > idle_ns + SPIN_US * 1000) {
            (void)usleep(100);
        }
    }
}

static void flag_open(struct series *series)
{
    series->flag =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (series->flag == MAP_FAILED) {
        bench_fail("no shared memory for the flag");
    }
    series->pid = bench_fork(THERE);
    if (series->pid == 0) {
        flag_serve(series->flag);
    }
}

static void flag_round(struct series *series)
{
    for (uint32_t n = 0; n < CALLS; n++) {
        uint32_t value = atomic_load_explicit(series->flag, memory_order_relaxed) + 1;

        atomic_store_explicit(series->flag, value, memory_order_release);
        while (atomic_load_explicit(series->flag, memory_order_acquire) == value) {
        }
    }
}

/* ---- records in shared memory, and sleepers that wake each other ---------- */

static void shared_open(struct series *series)
{
    if (series->spins) {
        series->rings = rings_open();
    } else {
        events_open(series->events);
    }
    series->pid = bench_fork(THERE);
    if (series->pid == 0 && series->spins) {
        rings_serve(series->rings, SPIN_US * 1000);
    } else if (series->pid == 0) {
        events_serve(series->events);
    }
}

static void shared_round(struct series *series)
{
    for (uint32_t n = 0; n < CALLS && series->spins; n++) {
        rings_call(series->rings);
    }
    for (uint32_t n = 0; n < CALLS && !series->spins; n++) {
        events_call(series->events);
    }
}

/* ---- nigh ----------------------------------------------------------------- */

static const uint8_t key[32] = "a key for a benchmark, no secret";

static nigh_client *node_open(struct series *series, const char *members, const char *rank)
{
    nigh_node_options options = {.struct_size = sizeof options,
                                 .memory_bytes = UINT64_C(512) << 20,
                                 .lanes = 1,
                                 .spin_us = series->spins ? SPIN_US : 0,
                                 .members = members,
                                 .member = rank,
                                 .cluster_key = key};
    nigh_client_options client_options = {.struct_size = sizeof client_options,
                                          .spin_us = series->spins ? SPIN_US : 0};
    nigh_client *client;

    if (nigh_node_start(&options, &series->node) != NIGH_OK) {
        bench_fail("no node: %s", nigh_node_start_error());
    }
    bench_check(nigh_node_client(series->node, &client_options, &client), "a client");
    return client;
}

static void echo(void *context, const nigh_request *request)
{
    (void)context;
    (void)nigh_call_reply(request, NIGH_OK, request->bytes, request->size);
}

static nigh_call_spec spec_of(uint8_t bytes[BYTES])
{
    return (nigh_call_spec){.struct_size = sizeof(nigh_call_spec),
                            .service = "echo",
                            .rank = 1,
                            .request = bytes,
                            .request_bytes = BYTES,
                            .reply = bytes,
                            .reply_room = BYTES};
}

static void nigh_open(struct series *series)
{
    uint64_t until_ns = bench_now_ns() + PATIENCE * 1000;
    uint8_t bytes[BYTES] = {0};
    char members[64];
    nigh_call_spec spec = spec_of(bytes);

    (void)snprintf(members, sizeof members, "127.0.0.1:%d,127.0.0.1:%d", bench_free_port(),
                   bench_free_port());
    series->pid = bench_fork(THERE);
    if (series->pid == 0) {
        nigh_service_options options = {.struct_size = sizeof options, .handler = echo};
        nigh_client *client = node_open(series, members, "1");
        nigh_service *service;

        bench_check(nigh_service_register(client, "echo", &options, &service), "a service");
        if (series->calls == BULK_PIECES) {
            bulk_serve(client);
        }
        for (;;) {
            pause();
        }
    }
    series->client = node_open(series, members, "0");
    if (series->calls == BULK_PIECES) {
        series->bulk = bulk_open(series->client);
    }
    while (nigh_call(series->client, &spec, PATIENCE) != NIGH_OK) {
        if (bench_now_ns() > until_ns) {
            bench_fail("the nodes do not find each other");
        }
        (void)usleep(1000);
    }
}

static void nigh_round(struct series *series)
{
    uint8_t bytes[BYTES] = {0};
    nigh_call_spec spec = spec_of(bytes);

    spec.rank = series->rank;
    for (uint32_t n = 0; n < CALLS; n++) {
        bench_check(nigh_call(series->client, &spec, PATIENCE), "a call");
    }
}

static void nigh_round_many(struct series *series)
{
    static uint8_t bytes[IN_FLIGHT][BYTES];
    static nigh_call_spec specs[IN_FLIGHT];
    static nigh_op ops[IN_FLIGHT];

    for (uint32_t n = 0; n < CALLS + IN_FLIGHT; n++) {
        uint32_t at = n % IN_FLIGHT;

        if (n >= IN_FLIGHT) {
            bench_check(nigh_wait(series->client, &ops[at], PATIENCE), "one of many calls");
        }
        if (n < CALLS) {
            specs[at] = spec_of(bytes[at]);
            specs[at].rank = series->rank;
            bench_check(nigh_call_start(series->client, &specs[at], PATIENCE, &ops[at]),
                        "one of many calls");
        }
    }
}

static void bulk_raw(struct series *series)
{
    bulk_raw_round(series->fd);
}

static void bulk_nigh(struct series *series)
{
    bulk_round(series->client, series->bulk, series->rank);
}

/* The pair of the series before. */
static void nigh_share(struct series *series)
{
    series->client = series[-1].client;
}

/* ---- two clients of one node ---------------------------------------------- */

/* The node has a process of its own. */
static void one_node(const char *path, const char *members, const char *rank)
{
    nigh_node_options options = {.struct_size = sizeof options,
                                 .memory_bytes = UINT64_C(512) << 20,
                                 .lanes = 1,
                                 .socket_path = path,
                                 .members = members,
                                 .member = rank,
                                 .cluster_key = members != NULL ? key : NULL};
    nigh_node *node;

    if (nigh_node_start(&options, &node) != NIGH_OK) {
        bench_fail("no node: %s", nigh_node_start_error());
    }
    for (;;) {
        pause();
    }
}

static nigh_client *one_open(const struct series *series, const char *path)
{
    nigh_client_options options = {
        .struct_size = sizeof options, .socket_path = path, .spin_us = series->spins ? SPIN_US : 0};
    uint64_t until_ns = bench_now_ns() + PATIENCE * 1000;
    nigh_client *client = NULL;

    while (nigh_client_open(&options, &client) != NIGH_OK) {
        if (bench_now_ns() > until_ns) {
            bench_fail("no client: %s", nigh_open_error());
        }
        (void)usleep(1000);
    }
    return client;
}

static void pair_serve(const struct series *series)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    nigh_service *service;
    nigh_request request;

    bench_check(nigh_service_register(one_open(series, series->socket), "echo", NULL, &service),
                "a service");
    bench_check(nigh_receive(service, &request, buffer, NIGH_FOREVER), "a request");
    for (;;) {
        bench_check(
            nigh_reply_receive(&request, NIGH_OK, buffer, request.size, buffer, NIGH_FOREVER),
            "a request");
    }
}

static void pair_open(struct series *series)
{
    uint64_t until_ns = bench_now_ns() + PATIENCE * 1000;
    uint8_t bytes[BYTES] = {0};
    nigh_call_spec spec = spec_of(bytes);

    (void)snprintf(series->socket, sizeof series->socket, "/tmp/bench-rpc-%d-%d.sock", getpid(),
                   series->spins);
    series->node_pid = bench_fork(THERE);
    if (series->node_pid == 0) {
        one_node(series->socket, NULL, NULL); /* it sleeps beside the server, and is not needed */
    }
    series->pid = bench_fork(THERE);
    if (series->pid == 0) {
        pair_serve(series);
    }
    series->client = one_open(series, series->socket);
    spec.rank = 0;
    while (nigh_call(series->client, &spec, PATIENCE) != NIGH_OK) {
        if (bench_now_ns() > until_ns) {
            bench_fail("nobody serves");
        }
        (void)usleep(1000);
    }
    (void)usleep(SETTLE_US); /* the pair is made beside the first call */
}

/* ---- memory of clients of nodes that are processes of their own ----------- */

/* Of one, beside the server; or of two, each beside its client. */
static void clients_open(struct series *series)
{
    uint64_t until_ns = bench_now_ns() + PATIENCE * 1000;
    char members[64];
    bool two = series->rank == 1;

    (void)snprintf(members, sizeof members, "127.0.0.1:%d,127.0.0.1:%d", bench_free_port(),
                   bench_free_port());
    (void)snprintf(series->far_socket, sizeof series->far_socket, "/tmp/bench-rpc-%d-far%d.sock",
                   getpid(), two);
    (void)snprintf(series->socket, sizeof series->socket, "/tmp/bench-rpc-%d-%s%d.sock", getpid(),
                   two ? "near" : "far", two);
    series->far_pid = bench_fork(THERE);
    if (series->far_pid == 0) {
        one_node(series->far_socket, two ? members : NULL, two ? "1" : NULL);
    }
    if (two) {
        series->node_pid = bench_fork(THERE);
        if (series->node_pid == 0) {
            bench_pin(HERE);
            one_node(series->socket, members, "0");
        }
    }
    series->pid = bench_fork(THERE);
    if (series->pid == 0) {
        bulk_serve(one_open(series, series->far_socket));
        for (;;) {
            pause();
        }
    }
    series->client = one_open(series, series->socket);
    series->bulk = bulk_open(series->client);
    while (!bulk_is_served(series->client, series->bulk, series->rank)) {
        if (bench_now_ns() > until_ns) {
            bench_fail("the nodes do not find each other");
        }
        (void)usleep(1000);
    }
}

/* ---- others --------------------------------------------------------------- */

static double ucx_tool(const struct series *series)
{
    return peer_ucx(series->transports, BYTES, CALLS, HERE, THERE);
}

static double libfabric_tool(const struct series *series)
{
    (void)series;
    return peer_libfabric(BYTES, CALLS, HERE, THERE);
}

static void nng_open(struct series *series)
{
    int port = bench_free_port();

    series->pid = bench_fork(THERE);
    if (series->pid == 0) {
        peer_nng_serve(port);
    }
    peer_nng_open(port);
}

static void nng_round(struct series *series)
{
    (void)series;
    for (uint32_t n = 0; n < CALLS; n++) {
        peer_nng_call(BYTES);
    }
}

/* ---- rounds --------------------------------------------------------------- */

/* In the order in which they are measured: what one is measured against comes before it. */
enum {
    NO_FLOOR = -1,
    TCP_SPINS,
    TCP_MANY,
    NIGH_SPINS,
    NIGH_MANY,
    UCX_TCP,
    LIBFABRIC,
    FLAG,
    RINGS,
    PAIR_SPINS,
    PAIR_MANY,
    UCX_SHARED,
    TCP_BLOCKS,
    EVENTS,
    NIGH_BLOCKS,
    PAIR_BLOCKS,
    NNG,
    TCP_STREAM,
    NIGH_BULK,
    NIGH_BULK_CLIENTS,
    NIGH_BULK_ONE,
    SERIES
};

/* Those that are compared with each other: others do not live meanwhile, whose timers would wake
 * them, and who spins looks about for SPIN_US then. Each begins here, and ends where the next does.
 */
static const size_t groups[] = {TCP_SPINS, FLAG, TCP_BLOCKS, TCP_STREAM, SERIES};

static struct series all[SERIES] = {
    [TCP_SPINS] = {.name = "tcp, spinning",
                   .path = "loopback",
                   .open = raw_open,
                   .round = raw_round,
                   .spins = true,
                   .floor = NO_FLOOR},
    [TCP_MANY] = {.name = "tcp, 64 in flight",
                  .path = "loopback",
                  .open = raw_open,
                  .round = raw_round_many,
                  .spins = true,
                  .in_flight = IN_FLIGHT,
                  .floor = TCP_SPINS},
    [NIGH_SPINS] = {.name = "nigh, spinning",
                    .path = "embedded nodes, tcp",
                    .open = nigh_open,
                    .round = nigh_round,
                    .spins = true,
                    .rank = 1,
                    .floor = TCP_SPINS,
                    .target = 1.15},
    [NIGH_MANY] = {.name = "nigh, 64 in flight",
                   .path = "embedded nodes, tcp",
                   .open = nigh_share,
                   .round = nigh_round_many,
                   .spins = true,
                   .rank = 1,
                   .floor = NIGH_SPINS,
                   .target = 1.0 / 15},
    [UCX_TCP] = {.name = "UCX active messages, tcp",
                 .path = "ucx_perftest, spinning",
                 .tool = ucx_tool,
                 .transports = "tcp,self",
                 .floor = NIGH_SPINS,
                 .target = 1,
                 .slower = true},
    [LIBFABRIC] = {.name = "libfabric, tcp",
                   .path = "fi_pingpong, spinning",
                   .tool = libfabric_tool,
                   .floor = NIGH_SPINS},
    [FLAG] = {.name = "flag in shared memory",
              .path = "spinning",
              .open = flag_open,
              .round = flag_round,
              .spins = true,
              .floor = NO_FLOOR},
    [RINGS] = {.name = "records of 64 bytes in shared memory",
               .path = "two rings, spinning",
               .open = shared_open,
               .round = shared_round,
               .spins = true,
               .floor = FLAG},
    [PAIR_SPINS] = {.name = "nigh, a pair, spinning",
                    .path = "two processes of one node, beside it",
                    .open = pair_open,
                    .round = nigh_round,
                    .spins = true,
                    .floor = FLAG,
                    .target = 2.5},
    [PAIR_MANY] = {.name = "nigh, a pair, 64 in flight",
                   .path = "two processes of one node, beside it",
                   .open = nigh_share,
                   .round = nigh_round_many,
                   .spins = true,
                   .floor = PAIR_SPINS},
    [UCX_SHARED] = {.name = "UCX active messages, shared memory",
                    .path = "ucx_perftest, spinning",
                    .tool = ucx_tool,
                    .transports = "posix,self",
                    .floor = FLAG},
    [TCP_BLOCKS] = {.name = "tcp, blocking",
                    .path = "loopback",
                    .open = raw_open,
                    .round = raw_round,
                    .floor = NO_FLOOR},
    [EVENTS] = {.name = "event descriptors, blocking",
                .path = "two processes that wake each other",
                .open = shared_open,
                .round = shared_round,
                .floor = NO_FLOOR},
    [NIGH_BLOCKS] = {.name = "nigh, blocking",
                     .path = "embedded nodes, tcp",
                     .open = nigh_open,
                     .round = nigh_round,
                     .rank = 1,
                     .floor = TCP_BLOCKS,
                     .target = 1.2},
    [PAIR_BLOCKS] = {.name = "nigh, a pair, blocking",
                     .path = "two processes of one node, beside it",
                     .open = pair_open,
                     .round = nigh_round,
                     .floor = EVENTS},
    [NNG] = {.name = "nng, tcp",
             .path = "request and reply, blocking",
             .open = nng_open,
             .round = nng_round,
             .floor = NIGH_BLOCKS},
    [TCP_STREAM] = {.name = "tcp stream of 4 MiB pieces",
                    .path = "loopback, blocking",
                    .open = raw_open,
                    .round = bulk_raw,
                    .calls = BULK_PIECES,
                    .floor = NO_FLOOR},
    [NIGH_BULK] = {.name = "nigh, calls that bring 4 MiB",
                   .path = "embedded nodes, tcp, blocking",
                   .open = nigh_open,
                   .round = bulk_nigh,
                   .calls = BULK_PIECES,
                   .rank = 1,
                   .floor = TCP_STREAM,
                   .target = 1 / 0.85},
    [NIGH_BULK_CLIENTS] = {.name = "nigh, calls of clients of nodes that bring 4 MiB",
                           .path = "clients and two nodes, tcp, blocking",
                           .open = clients_open,
                           .round = bulk_nigh,
                           .calls = BULK_PIECES,
                           .rank = 1,
                           .floor = TCP_STREAM},
    [NIGH_BULK_ONE] = {.name = "nigh, calls of clients of one node that bring 4 MiB",
                       .path = "clients and a node, blocking",
                       .open = clients_open,
                       .round = bulk_nigh,
                       .calls = BULK_PIECES,
                       .floor = TCP_STREAM},
};

static void measure(struct series *series)
{
    uint64_t before_ns;

    (void)usleep(SETTLE_US); /* those of the round before sleep by then */
    if (series->tool != NULL) {
        series->last = series->tool(series);
    } else {
        series->round(series); /* both sides are awake */
        before_ns = bench_now_ns();
        series->round(series);
        series->last =
            (double)(bench_now_ns() - before_ns) / (series->calls != 0 ? series->calls : CALLS);
    }
    samples_add(&series->samples, series->last);
    if (series->floor >= 0) {
        samples_add(&series->ratios, series->last / all[series->floor].last);
    }
}

static void tell(struct series *series)
{
    struct bench_row row = {.name = series->name,
                            .unit = "ns a call",
                            .median = samples_quantile(&series->samples, 0.5),
                            .p99 = samples_quantile(&series->samples, 0.99),
                            .better = series->slower ? "higher" : "lower",
                            .path = series->path};

    if (series->floor >= 0) {
        row.baseline_name = all[series->floor].name;
        row.baseline = samples_quantile(&all[series->floor].samples, 0.5);
        row.on = series->target > 0 ? BENCH_ON_RATIO : BENCH_NO_TARGET;
        row.target = series->target;
        bench_row_set_ratios(&row, &series->ratios);
    }
    bench_row_write(&row);
}

static void end_process(pid_t pid, const char *socket)
{
    char lock[sizeof all[0].socket + sizeof ".lock"];

    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        (void)snprintf(lock, sizeof lock, "%s.lock", socket);
        (void)unlink(lock);
        (void)unlink(socket);
    }
}

static void end_series(struct series *series)
{
    if (series->open == nigh_share) {
        return;
    }
    if (series->client != NULL) { /* its bulk goes with it */
        nigh_client_close(series->client);
    }
    if (series->node != NULL) {
        nigh_node_stop(series->node);
    }
    end_process(series->pid, "");
    end_process(series->node_pid, series->socket);
    end_process(series->far_pid, series->far_socket);
}

static void measure_group(size_t first, size_t end, int rounds)
{
    for (size_t n = first; n < end; n++) {
        if (all[n].open != NULL) {
            all[n].open(&all[n]);
        }
    }
    for (int round = 0; round < rounds; round++) {
        for (size_t n = first; n < end; n++) {
            if (all[n].tool == NULL || round % TOOL_EVERY == 0) {
                measure(&all[n]);
            }
        }
    }
    for (size_t n = first; n < end; n++) {
        end_series(&all[n]);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[2]) : ROUNDS;

    if (argc < 2 || rounds < 1) {
        bench_fail("usage: bench-rpc OUT.json [ROUNDS]");
    }
    bench_pin(HERE);
    for (size_t n = 0; groups[n] < SERIES; n++) {
        measure_group(groups[n], groups[n + 1], rounds);
    }
    bench_rows_open(argv[1]);
    for (size_t n = 0; n < SERIES; n++) {
        tell(&all[n]);
    }
    return bench_rows_close() > 0 ? 1 : 0;
}
