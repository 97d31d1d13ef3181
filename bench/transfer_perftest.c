/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perftest's programs: what the devices do without anything of ours above them. One run a round,
 * which gives one sample: the program's own median of a message's one way, or the time that a
 * message takes at its average bandwidth. Their ends sleep until there is a completion, as
 * everybody in that benchmark does, where they can.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "transfer.h"

#define LEAST_MESSAGES 10
#define SECONDS        60 /* of one run, at most */
#define TRIES          3  /* a run on a busy machine may fail */
#define MIB_BYTES      1048576.0
#define LISTEN_NS      UINT64_C(20000000000)

const char *transfer_device_here, *transfer_device_there;

static const struct {
    const char *name;
    const char *sleeps; /* the option, or the like of nothing */
} programs[] = {
    {"ib_send_lat", "-e"},
    {"ib_read_bw", "-e"},
    {"ib_write_bw", "-F"}, /* its target has no completions to sleep for */
};

static bool listens(int port)
{
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    bool found = false;

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        FILE *file = fopen(tables[i], "r");
        char line[512];
        unsigned local, state;

        while (file != NULL && fgets(line, sizeof line, file) != NULL) {
            found = found ||
                    (sscanf(line, " %*d: %*[0-9A-F]:%X %*[0-9A-F]:%*X %X", &local, &state) == 2 &&
                     local == (unsigned)port && state == 0x0a);
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    return found;
}

static pid_t start_server(int variant, const char *size, const char *messages, int port)
{
    char port_text[16];
    const char *arguments[] = {programs[variant].name,
                               "-d",
                               transfer_device_there,
                               "-x",
                               "1",
                               "-F",
                               programs[variant].sleeps,
                               "-s",
                               size,
                               "-n",
                               messages,
                               "-p",
                               port_text,
                               NULL};
    uint64_t end_ns = bench_now_ns() + LISTEN_NS;
    pid_t pid;

    snprintf(port_text, sizeof port_text, "%d", port);
    pid = bench_spawn(arguments, TRANSFER_THERE);
    while (!listens(port) && bench_now_ns() < end_ns) {
    }
    return pid;
}

/* The line of numbers under the table's head; nanoseconds of a message, 0: there is none. */
static double read_result(FILE *from, const struct workload *workload, bool is_latency)
{
    char line[1024];
    bool is_next = false;
    double peak, average, typical, result = 0;

    while (fgets(line, sizeof line, from) != NULL) {
        if (is_next && is_latency && sscanf(line, " %*d %*d %*f %*f %lf", &typical) == 1) {
            result = typical * 1000;
        } else if (is_next && !is_latency &&
                   sscanf(line, " %*d %*d %lf %lf", &peak, &average) == 2 && average > 0) {
            result = (double)workload->bytes / (average * MIB_BYTES) * 1e9;
        }
        is_next = strstr(line, "#bytes") != NULL;
    }
    return result;
}

static double run_once(const struct workload *workload, int variant)
{
    int port = bench_free_port();
    char command[512], size[32], messages[16];
    double result;
    FILE *client;
    pid_t server;

    snprintf(size, sizeof size, "%llu", (unsigned long long)workload->bytes);
    snprintf(messages, sizeof messages, "%u",
             workload->objects > LEAST_MESSAGES ? workload->objects : LEAST_MESSAGES);
    server = start_server(variant, size, messages, port);
    snprintf(command, sizeof command,
             "timeout %d %s -d %s -x 1 -F %s -s %s -n %s -p %d %s 2>/dev/null", SECONDS,
             programs[variant].name, transfer_device_here, programs[variant].sleeps, size, messages,
             port, transfer_address_there);
    client = popen(command, "r");
    if (client == NULL) {
        bench_fail("cannot run %s", programs[variant].name);
    }
    result = read_result(client, workload, variant == PERFTEST_SEND_LATENCY);
    pclose(client);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return result;
}

static void perftest_open(struct series *series, const struct workload *workload)
{
    (void)series;
    (void)workload;
}

static void perftest_round(struct series *series, const struct workload *workload,
                           struct samples *samples)
{
    double result = 0;

    for (int i = 0; i < TRIES && result <= 0; i++) {
        result = run_once(workload, series->variant);
    }
    if (result <= 0) {
        bench_fail("%s does not run", programs[series->variant].name);
    }
    samples_add(samples, result);
}

static void perftest_close(struct series *series)
{
    (void)series;
}

const struct series_kind transfer_perftest = {perftest_open, perftest_round, perftest_close, NULL,
                                              NULL};
