/* SPDX-License-Identifier: Apache-2.0 */
/* See region_ranks.h. */
#include "region_ranks.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS 24

/* Over TCP this version has one component for windows, pt2pt, which Debian's settings leave out. */
static const char *const over_tcp[] = {"--mca", "btl",   "tcp,self", "--mca", "btl_tcp_if_include",
                                       "lo",    "--mca", "osc",      "pt2pt", NULL};
static const char *const by_memory[] = {"--mca", "btl", "vader,self", "--mca", "osc", "sm", NULL};

static _Noreturn void run_helper(const char *helper, const char *bytes, bool is_shared)
{
    const char *arguments[ARGUMENTS] = {"mpirun",
                                        "--allow-run-as-root",
                                        "--oversubscribe",
                                        "--bind-to",
                                        "none",
                                        "-np",
                                        "2",
                                        "--mca",
                                        "pml",
                                        "ob1"};
    const char *const *more = is_shared ? by_memory : over_tcp;
    uint32_t n = 0;

    while (arguments[n] != NULL) {
        n++;
    }
    for (; *more != NULL; more++) {
        arguments[n++] = *more;
    }
    arguments[n++] = helper;
    arguments[n++] = bytes;
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    bench_pin(-1);
    execvp(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(127);
}

void ranks_open(struct ranks *ranks, const char *helper, uint64_t most_bytes, bool is_shared)
{
    char bytes[24];
    int to[2], from[2];

    if (pipe(to) != 0 || pipe(from) != 0) {
        bench_fail("no pipes");
    }
    (void)snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)most_bytes);
    ranks->pid = fork();
    if (ranks->pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        close(from[0]);
        run_helper(helper, bytes, is_shared);
    }
    close(to[0]);
    close(from[1]);
    ranks->to = fdopen(to[1], "w");
    ranks->from = fdopen(from[0], "r");
    if (ranks->pid < 0 || ranks->to == NULL || ranks->from == NULL ||
        fscanf(ranks->from, " ready %d", &ranks->target) != 1) {
        bench_fail("mpirun %s did not start", helper);
    }
    (void)kill(ranks->target, SIGSTOP);
}

static double next_number(struct ranks *ranks)
{
    double value;

    if (fscanf(ranks->from, " %lf", &value) != 1) {
        bench_fail("MPI ended");
    }
    return value;
}

double ranks_round(struct ranks *ranks, const char *op, uint64_t bytes, uint32_t count,
                   struct samples *samples)
{
    double wire;

    (void)kill(ranks->target, SIGCONT);
    (void)fprintf(ranks->to, "%s %llu %u\n", op, (unsigned long long)bytes, count);
    (void)fflush(ranks->to);
    for (uint32_t n = 0; n < count; n++) {
        samples_add(samples, next_number(ranks));
    }
    wire = next_number(ranks);
    (void)kill(ranks->target, SIGSTOP);
    return wire;
}

void ranks_close(struct ranks *ranks)
{
    (void)kill(ranks->target, SIGCONT);
    (void)fputs("quit\n", ranks->to);
    (void)fclose(ranks->to);
    (void)waitpid(ranks->pid, NULL, 0);
    (void)fclose(ranks->from);
}
