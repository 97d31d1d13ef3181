/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of many: 31 embedded nodes, each a process, on this machine, over loopback TCP. One asks
 * all of them for 64 bytes, as a multicast and as a sum of eight numbers, over trees of several
 * fans; by as many calls of its own, one after the other, and all at once; and beside them
 * MPI_Bcast and MPI_Reduce of as many ranks (Open MPI over TCP). Rounds of all alternate, and each
 * is compared with one of the same turn. Where there are fewer cores than nodes, what is measured
 * is how much work of the processors a way makes: a tree makes no less of it, but leaves less to
 * the root. So that is counted: what the root's process has of the processors, and the segments
 * with data that its sockets sent and received, as the kernel has them.
 *
 * bench-collect MPI-HELPER OUT.json [ROUNDS]
 */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "nigh/node.h"
#include "nigh/rpc.h"

#define NODES      31u
#define BYTES      64u
#define PER_ROUND  20u
#define ROUNDS     15u
#define WARM_UP    1u /* rounds that do not count */
#define MEMORY     (UINT64_C(16) << 20)
#define PATIENCE   UINT64_C(60000000)
#define LIST_BYTES (NODES * 16u)
#define MESSAGES   4    /* of a child of the root, at most */
#define SOCKETS    1024 /* descriptors below are looked at */

enum way {
    ALL_AT_ONCE, /* first: multicasts are held against it */
    ONE_BY_ONE,
    MULTICAST_2,
    MULTICAST_4,
    MULTICAST_16,
    MPI,
    SUM_2,
    SUM_4,
    SUM_16,
    WAYS
};

struct series {
    const char *name;
    uint32_t fan;
    uint32_t reduce;
    enum way floor; /* its own: none */
    struct samples samples, ratios, messages, work;
    double last;
};

static struct series all[WAYS] = {
    [ALL_AT_ONCE] = {"30 calls, all at once", 0, 0, ALL_AT_ONCE, {0}, {0}, {0}, {0}, 0},
    [ONE_BY_ONE] = {"30 calls, one by one", 0, 0, ALL_AT_ONCE, {0}, {0}, {0}, {0}, 0},
    [MULTICAST_2] = {"multicast, fan 2", 2, NIGH_REDUCE_NONE, ALL_AT_ONCE, {0}, {0}, {0}, {0}, 0},
    [MULTICAST_4] = {"multicast, fan 4", 4, NIGH_REDUCE_NONE, ALL_AT_ONCE, {0}, {0}, {0}, {0}, 0},
    [MULTICAST_16] =
        {"multicast, fan 16", 16, NIGH_REDUCE_NONE, ALL_AT_ONCE, {0}, {0}, {0}, {0}, 0},
    [MPI] = {"MPI_Bcast and MPI_Reduce", 0, 0, MPI, {0}, {0}, {0}, {0}, 0},
    [SUM_2] = {"sum of 8, fan 2", 2, NIGH_REDUCE_SUM_U64, MPI, {0}, {0}, {0}, {0}, 0},
    [SUM_4] = {"sum of 8, fan 4", 4, NIGH_REDUCE_SUM_U64, MPI, {0}, {0}, {0}, {0}, 0},
    [SUM_16] = {"sum of 8, fan 16", 16, NIGH_REDUCE_SUM_U64, MPI, {0}, {0}, {0}, {0}, 0},
};

/* ---- nodes ---------------------------------------------------------------- */

static nigh_client *node_open(const char *members, uint32_t rank)
{
    static const uint8_t key[32] = "a key for a benchmark, no secret";
    char member[16];
    nigh_node_options options = {.struct_size = sizeof options,
                                 .memory_bytes = MEMORY,
                                 .lanes = 1,
                                 .spin_us = 0,
                                 .members = members,
                                 .member = member,
                                 .cluster_key = key};
    nigh_client_options client_options = {.struct_size = sizeof client_options, .spin_us = 0};
    nigh_client *client;
    nigh_node *node;

    (void)snprintf(member, sizeof member, "%u", rank);
    if (nigh_node_start(&options, &node) != NIGH_OK) {
        bench_fail("no node %u: %s", rank, nigh_node_start_error());
    }
    bench_check(nigh_node_client(node, &client_options, &client), "a client");
    return client;
}

static void add(void *context, const nigh_request *request)
{
    const uint32_t *rank = context;
    uint64_t words[BYTES / 8];

    for (uint32_t n = 0; n < BYTES / 8; n++) {
        words[n] = *rank + n;
    }
    (void)nigh_call_reply(request, NIGH_OK, words, sizeof words);
}

static nigh_client *serve(const char *members, uint32_t rank)
{
    static uint32_t self;
    nigh_service_options options = {
        .struct_size = sizeof options, .handler = add, .context = &self};
    nigh_client *client = node_open(members, rank);
    nigh_service *service;

    self = rank;
    bench_check(nigh_service_register(client, "add", &options, &service), "a service");
    return client;
}

/* ---- ways ----------------------------------------------------------------- */

static nigh_multicast_spec spec_of(const struct series *series, const uint64_t *request,
                                   uint64_t *value)
{
    return (nigh_multicast_spec){.struct_size = sizeof(nigh_multicast_spec),
                                 .service = "add",
                                 .fan = series->fan,
                                 .reduce = series->reduce,
                                 .request = request,
                                 .request_bytes = BYTES,
                                 .value = value,
                                 .value_room = series->reduce == NIGH_REDUCE_NONE ? 0 : BYTES};
}

static nigh_status multicast(nigh_client *client, const struct series *series)
{
    uint64_t request[BYTES / 8] = {0}, value[BYTES / 8] = {0};
    nigh_multicast_spec spec = spec_of(series, request, value);
    nigh_status status = nigh_multicast(client, &spec, PATIENCE);

    for (uint32_t n = 0; status == NIGH_OK && spec.value_room > 0 && n < BYTES / 8; n++) {
        if (value[n] != NODES * (NODES - 1) / 2 + NODES * n) {
            bench_fail("a sum that is none");
        }
    }
    return status;
}

static void calls(nigh_client *client, bool at_once)
{
    static uint64_t bytes[NODES][BYTES / 8];
    nigh_call_spec specs[NODES];
    nigh_op ops[NODES];

    for (uint32_t rank = 1; rank < NODES; rank++) {
        specs[rank] = (nigh_call_spec){.struct_size = sizeof(nigh_call_spec),
                                       .service = "add",
                                       .rank = rank,
                                       .request = bytes[rank],
                                       .request_bytes = BYTES,
                                       .reply = bytes[rank],
                                       .reply_room = BYTES};
        if (at_once) {
            bench_check(nigh_call_start(client, &specs[rank], PATIENCE, &ops[rank]), "a call");
        } else {
            bench_check(nigh_call(client, &specs[rank], PATIENCE), "a call");
        }
    }
    for (uint32_t rank = 1; at_once && rank < NODES; rank++) {
        bench_check(nigh_wait(client, &ops[rank], PATIENCE), "one of many calls");
    }
}

/* ---- MPI ------------------------------------------------------------------ */

struct mpi {
    pid_t pid, ranks[NODES];
    FILE *to, *from;
};

static void run_helper(const char *helper, const int to[2], const int from[2])
{
    char nodes[16], round[16], bytes[16];
    const char *arguments[] = {"mpirun",
                               "--allow-run-as-root",
                               "--oversubscribe",
                               "--bind-to",
                               "none",
                               "-n",
                               nodes,
                               "--mca",
                               "mpi_yield_when_idle",
                               "1",
                               "--mca",
                               "pml",
                               "ob1",
                               "--mca",
                               "btl",
                               "tcp,self",
                               "--mca",
                               "btl_tcp_if_include",
                               "lo",
                               helper,
                               round,
                               bytes,
                               NULL};

    (void)snprintf(nodes, sizeof nodes, "%u", NODES);
    (void)snprintf(round, sizeof round, "%u", PER_ROUND);
    (void)snprintf(bytes, sizeof bytes, "%u", BYTES);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(to[0], 0);
    dup2(from[1], 1);
    close(to[1]);
    close(from[0]);
    execvp(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(127);
}

static void signal_ranks(const struct mpi *mpi, int number)
{
    for (uint32_t n = 0; n < NODES; n++) {
        kill(mpi->ranks[n], number);
    }
}

static void mpi_open(struct mpi *mpi, const char *helper)
{
    int to[2], from[2];

    if (pipe(to) != 0 || pipe(from) != 0) {
        bench_fail("no pipes");
    }
    mpi->pid = fork();
    if (mpi->pid == 0) {
        run_helper(helper, to, from);
    }
    close(to[0]);
    close(from[1]);
    mpi->to = fdopen(to[1], "w");
    mpi->from = fdopen(from[0], "r");
    for (uint32_t n = 0; n < NODES; n++) {
        if (mpi->pid < 0 || mpi->to == NULL || mpi->from == NULL ||
            fscanf(mpi->from, "%d", &mpi->ranks[n]) != 1) {
            bench_fail("mpirun %s did not start", helper);
        }
    }
    signal_ranks(mpi, SIGSTOP);
}

static void mpi_round(struct mpi *mpi, struct samples *samples)
{
    signal_ranks(mpi, SIGCONT);
    fputs("round\n", mpi->to);
    fflush(mpi->to);
    for (uint32_t n = 0; n < PER_ROUND; n++) {
        double ns;

        if (fscanf(mpi->from, " %lf", &ns) != 1) {
            bench_fail("MPI ended");
        }
        samples_add(samples, ns);
    }
    signal_ranks(mpi, SIGSTOP);
}

static void mpi_close(struct mpi *mpi)
{
    signal_ranks(mpi, SIGCONT);
    fputs("quit\n", mpi->to);
    fclose(mpi->to);
    waitpid(mpi->pid, NULL, 0);
    fclose(mpi->from);
}

/* ---- rounds --------------------------------------------------------------- */

/* What the root's sockets sent and received. */
static double count_segments(void)
{
    double segments = 0;

    for (int fd = 0; fd < SOCKETS; fd++) {
        struct tcp_info info = {0};
        socklen_t length = sizeof info;

        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0) {
            segments += (double)info.tcpi_data_segs_out + (double)info.tcpi_data_segs_in;
        }
    }
    return segments;
}

static double used_us(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void one(nigh_client *client, const struct series *series)
{
    if (series->fan > 0) {
        bench_check(multicast(client, series), series->name);
    } else {
        calls(client, series == &all[ALL_AT_ONCE]);
    }
}

static void round_of(nigh_client *client, struct mpi *mpi, struct series *series, bool counts)
{
    double segments = count_segments(), work_us = used_us();
    struct samples samples = {0};

    if (series == &all[MPI]) {
        mpi_round(mpi, &samples);
    }
    for (uint32_t n = 0; series != &all[MPI] && n < PER_ROUND; n++) {
        uint64_t start_ns = bench_now_ns();

        one(client, series);
        samples_add(&samples, (double)(bench_now_ns() - start_ns));
    }
    work_us = used_us() - work_us;
    segments = count_segments() - segments;
    series->last = samples_quantile(&samples, 0.5);
    if (counts) {
        samples_append(&series->samples, &samples);
        samples_add(&series->messages, segments / PER_ROUND);
        samples_add(&series->work, work_us / PER_ROUND);
    }
    samples_free(&samples);
}

static void turns(nigh_client *client, struct mpi *mpi, uint32_t rounds)
{
    for (uint32_t round = 0; round < rounds + WARM_UP; round++) {
        for (uint32_t n = 0; n < WAYS; n++) {
            round_of(client, mpi, &all[n], round >= WARM_UP);
        }
        for (uint32_t n = 0; n < WAYS && round >= WARM_UP; n++) {
            samples_add(&all[n].ratios, all[n].last / all[all[n].floor].last);
        }
    }
}

static void write_row(struct series *series)
{
    bool is_floor = series == &all[series->floor];
    struct bench_row row = {.name = series->name,
                            .unit = "us",
                            .median = samples_quantile(&series->samples, 0.5) / 1000,
                            .p99 = samples_quantile(&series->samples, 0.99) / 1000,
                            .path = series == &all[MPI]
                                        ? "Open MPI, btl tcp, yields when idle, on any core"
                                        : "embedded nodes, tcp, blocking, on any core"};

    if (!is_floor) {
        row.baseline_name = all[series->floor].name;
        row.baseline = samples_quantile(&all[series->floor].samples, 0.5) / 1000;
        bench_row_set_ratios(&row, &series->ratios);
    }
    bench_row_write(&row);
}

/* A call has a message there and one back, and the fabric acknowledges what came: so has each child
 * of the root. What is above that is of the links, which look after each other. */
static void write_root(struct series *series)
{
    double children = series->fan > 0 ? series->fan : NODES - 1;
    char name[64];
    struct bench_row row = {.name = name,
                            .unit = "messages",
                            .median = samples_quantile(&series->messages, 0.5),
                            .p99 = samples_quantile(&series->messages, 0.99),
                            .on = BENCH_ON_MEDIAN,
                            .target = MESSAGES * children,
                            .better = "lower",
                            .path = "data segments of the root's sockets, of one"};

    (void)snprintf(name, sizeof name, "%s: root's messages", series->name);
    bench_row_write(&row);
    row = (struct bench_row){.name = name,
                             .unit = "us",
                             .median = samples_quantile(&series->work, 0.5),
                             .p99 = samples_quantile(&series->work, 0.99),
                             .path = "of a processor, by the root's process"};
    (void)snprintf(name, sizeof name, "%s: root's work", series->name);
    bench_row_write(&row);
}

static void start_others(const char *members)
{
    for (uint32_t rank = 1; rank < NODES; rank++) {
        pid_t pid = fork();

        if (pid < 0) {
            bench_fail("fork failed");
        }
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            (void)serve(members, rank);
            for (;;) {
                pause();
            }
        }
    }
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc == 4 ? (uint32_t)atoi(argv[3]) : ROUNDS;
    uint64_t until_ns = bench_now_ns() + PATIENCE * 1000;
    char members[LIST_BYTES + 32] = "";
    struct mpi mpi = {0};
    nigh_client *client;
    int missed;

    if (argc < 3 || argc > 4 || rounds == 0) {
        bench_fail("usage: bench-collect MPI-HELPER OUT.json [ROUNDS]");
    }
    for (uint32_t n = 0; n < NODES; n++) {
        size_t length = strlen(members);

        (void)snprintf(members + length, sizeof members - length, "%s127.0.0.1:%d",
                       n == 0 ? "" : ",", bench_free_port());
    }
    mpi_open(&mpi, argv[1]);
    start_others(members);
    client = serve(members, 0);
    while (multicast(client, &all[SUM_4]) != NIGH_OK) {
        if (bench_now_ns() > until_ns) {
            bench_fail("the nodes do not find each other");
        }
        (void)usleep(10000);
    }
    bench_rows_open(argv[2]);
    turns(client, &mpi, rounds);
    for (uint32_t n = 0; n < WAYS; n++) {
        write_row(&all[n]);
    }
    for (uint32_t n = 0; n < WAYS; n++) {
        if (n != MPI) {
            write_root(&all[n]);
        }
    }
    missed = bench_rows_close();
    mpi_close(&mpi);
    return missed == 0 ? 0 : 1;
}
