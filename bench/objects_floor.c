/* SPDX-License-Identifier: Apache-2.0 */
/* The floor: a flag that goes to another core and back through shared memory, both sides spinning.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "objects.h"

enum {
    ROUNDS = 200,
    TURNS = 2000
};

struct flags {
    _Alignas(64) _Atomic uint32_t there;
    _Alignas(64) _Atomic uint32_t back;
};

static void echo(struct flags *flags)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_pin(BENCH_LANE_CORE);
    for (uint32_t expected = 1; expected <= ROUNDS * TURNS; expected++) {
        while (atomic_load_explicit(&flags->there, memory_order_acquire) != expected) {
        }
        atomic_store_explicit(&flags->back, expected, memory_order_release);
    }
    _exit(0);
}

void objects_floor(void)
{
    struct flags *flags =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct samples samples = {0};
    uint32_t turn = 0;
    pid_t pid;

    if (flags == MAP_FAILED || bench_cores() < 2 || (pid = fork()) < 0) {
        bench_fail("the ping-pong needs two cores and a page");
    }
    if (pid == 0) {
        echo(flags);
    }
    bench_pin(BENCH_CLIENT_CORE);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = bench_now_ns();

        for (int i = 0; i < TURNS; i++) {
            atomic_store_explicit(&flags->there, ++turn, memory_order_release);
            while (atomic_load_explicit(&flags->back, memory_order_acquire) != turn) {
            }
        }
        samples_add(&samples, (double)(bench_now_ns() - start) / TURNS);
    }
    waitpid(pid, NULL, 0);
    bench_row_write(&(struct bench_row){.name = "floor/flag ping-pong",
                                        .unit = "ns",
                                        .median = samples_quantile(&samples, 0.5),
                                        .p99 = samples_quantile(&samples, 0.99),
                                        .path = "shared memory, two cores, both spinning"});
    samples_free(&samples);
    munmap(flags, 4096);
    bench_pin(-1);
}
