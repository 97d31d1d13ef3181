/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See closings.h. A descriptor table is closed by who ends last of those that have it, when it has
 * begun to end, and sockets do not linger for that one. So there are two threads to each closing:
 * the *last* has a table of its own, with nothing in it but the connection; the other one closes
 * that in the node's table once the last has it, and tells it to end. Where there can be no such
 * table (a filter of system calls that lacks pidfd_getfd) the other one closes it for good, and may
 * wait; when all wait, so does who closes the next.
 */
#include "node/closings.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/close_range.h>

#include "base/fd.h"

struct closing {
    struct closings *all;
    _Atomic bool is_used;
    int fd;
    struct stat what; /* it is */
    sem_t took, go;   /* between the two */
};

struct closings {
    _Atomic uint32_t shares; /* of the owner, and of each thread */
    struct closing place[LIMIT_CLOSINGS];
};

static void let_go(struct closings *all)
{
    if (atomic_fetch_sub_explicit(&all->shares, 1, memory_order_acq_rel) == 1)
        free(all);
}

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) {
    }
}

/* Nothing that is in the node's table is in this one, not for a moment: to close a connection to
 * another node means that nothing of it is left. */
static void *run_last(void *context)
{
    struct closing *closing = context;

    if (syscall(SYS_close_range, 0, ~0U, CLOSE_RANGE_UNSHARE) == 0) {
        int process = (int)syscall(SYS_pidfd_open, getpid(), 0);
        int fd = (int)syscall(SYS_pidfd_getfd, process, closing->fd, 0);
        struct stat what;

        /* By its number, in the table of the process's first thread: that may have one of its own.
         */
        if (fd >= 0 && (fstat(fd, &what) != 0 || what.st_dev != closing->what.st_dev ||
                        what.st_ino != closing->what.st_ino))
            fd_close(&fd);
    }
    sem_post(&closing->took);
    wait_for(&closing->go);
    return NULL;
}

static bool begin(void *(*run)(void *), struct closing *closing, bool is_detached,
                  pthread_t *thread)
{
    pthread_attr_t how;
    sigset_t all, before;
    bool began;

    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_attr_init(&how);
    (void)pthread_attr_setdetachstate(&how, is_detached ? PTHREAD_CREATE_DETACHED
                                                        : PTHREAD_CREATE_JOINABLE);
    began = pthread_create(thread, &how, run, closing) == 0;
    (void)pthread_attr_destroy(&how);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return began;
}

static void close_it(struct closing *closing)
{
    pthread_t last;
    bool began;

    (void)sem_init(&closing->took, 0, 0);
    (void)sem_init(&closing->go, 0, 0);
    began = begin(run_last, closing, false, &last);
    if (began)
        wait_for(&closing->took);
    fd_close(&closing->fd);
    if (began) {
        sem_post(&closing->go);
        (void)pthread_join(last, NULL);
    }
    (void)sem_destroy(&closing->took);
    (void)sem_destroy(&closing->go);
}

static void *run(void *context)
{
    struct closing *closing = context;
    struct closings *all = closing->all;

    (void)pthread_setname_np(pthread_self(), "nigh-closing");
    close_it(closing);
    atomic_store_explicit(&closing->is_used, false, memory_order_release);
    let_go(all);
    return NULL;
}

nigh_status closings_create(struct closings **out)
{
    struct closings *all = calloc(1, sizeof(*all));

    if (all == NULL)
        return NIGH_NO_RESOURCES;
    atomic_init(&all->shares, 1);
    for (uint32_t n = 0; n < LIMIT_CLOSINGS; n++)
        all->place[n].all = all;
    *out = all;
    return NIGH_OK;
}

void closings_destroy(struct closings *all)
{
    if (all != NULL)
        let_go(all);
}

/* Takes what brings nothing; whether nothing is left then. The peer can send nothing more. */
static bool is_emptied(int fd)
{
    const int one = 1;

    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) != 0) /* as fd_next needs it */
        return false;
    for (uint32_t n = 0; n < LIMIT_FRONT_MESSAGES; n++) {
        enum fd_next next = fd_next(fd);
        uint8_t byte;

        if (next != FD_NEXT_PLAIN)
            return next == FD_NEXT_NONE;
        (void)recv(fd, &byte, sizeof(byte), MSG_DONTWAIT);
    }
    return false;
}

/* By a thread, where one can be had. */
static bool leave(struct closings *all, const struct closing *what)
{
    pthread_t ignored;

    for (uint32_t n = 0; n < LIMIT_CLOSINGS; n++) {
        struct closing *closing = &all->place[n];

        if (atomic_load_explicit(&closing->is_used, memory_order_acquire))
            continue;
        closing->fd = what->fd;
        closing->what = what->what;
        atomic_store_explicit(&closing->is_used, true, memory_order_relaxed);
        atomic_fetch_add_explicit(&all->shares, 1, memory_order_relaxed);
        if (begin(run, closing, true, &ignored))
            return true;
        atomic_store_explicit(&closing->is_used, false, memory_order_relaxed);
        let_go(all);
        return false;
    }
    return false;
}

void closings_close(struct closings *all, int *fd)
{
    struct closing closing = {.fd = *fd};

    if (*fd < 0)
        return;
    (void)shutdown(*fd, SHUT_RDWR);
    if (is_emptied(*fd)) {
        fd_close(fd);
        return;
    }
    *fd = -1;
    (void)fstat(closing.fd, &closing.what);
    if (all == NULL || !leave(all, &closing))
        close_it(&closing); /* all are at it: the last one alone is waited for, till it has it */
}
