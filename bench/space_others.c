/* SPDX-License-Identifier: Apache-2.0 */
/* See space_others.h. */
#include "space_others.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "harness.h"

static struct shared {
    pthread_mutex_t mutex;
    _Atomic uint32_t contends, is_at_it;
} * shared;
static pid_t other;

static _Noreturn void contend(void)
{
    for (;;) {
        atomic_store(&shared->is_at_it, 0);
        bench_word_wait(&shared->contends, 0);
        atomic_store(&shared->is_at_it, 1);
        while (atomic_load_explicit(&shared->contends, memory_order_relaxed) != 0) {
            others_lock();
            others_unlock();
        }
    }
}

void others_open(void)
{
    pthread_mutexattr_t attributes;

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (shared == MAP_FAILED || pthread_mutexattr_init(&attributes) != 0 ||
        pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) != 0 ||
        pthread_mutex_init(&shared->mutex, &attributes) != 0) {
        bench_fail("no mutex between processes");
    }
    other = bench_fork(1);
    if (other == 0) {
        contend();
    }
}

void others_contend(bool contends)
{
    bench_word_set(&shared->contends, contends);
    while ((atomic_load(&shared->is_at_it) != 0) != contends) {
    }
}

void others_lock(void)
{
    (void)pthread_mutex_lock(&shared->mutex);
}

void others_unlock(void)
{
    (void)pthread_mutex_unlock(&shared->mutex);
}

void others_close(void)
{
    (void)kill(other, SIGKILL);
    (void)waitpid(other, NULL, 0);
}
