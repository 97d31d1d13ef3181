/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See closings.h. A descriptor table is closed by who ends last of those that have it, when it has
 * begun to end, and sockets do not linger for that one. So there are two threads to each closing:
 * the *last* has a table of its own, with nothing in it but the connection; the other one closes
 * that in the node's table once the last has it, and tells it to end.
 *
 * To leave the node's table is to have a copy of it, of 64 descriptors at least, and to close that:
 * of a file of FUSE that waits for its server. So one thread, the *mother*, leaves it before any
 * client is let in, and all the last ones are hers. Where there can be no such table (a filter of
 * system calls that lacks pidfd_getfd) the other one closes it for good, and may wait; when all
 * wait, or no thread is to be had, connections stay open until the owner looks again.
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

#include "base/check.h"
#include "base/fd.h"

struct closing {
    struct closings *all;
    _Atomic bool is_used;
    _Atomic uint32_t threads; /* that have it */
    _Atomic bool is_asked;    /* the mother is to make the last one */
    int fd;
    struct stat what; /* it is */
    sem_t took, go;   /* between the two */
};

struct closings {
    _Atomic uint32_t shares; /* of the owner, and of each thread but the mother */
    pthread_t mother;
    bool has_table; /* of her own, and with nothing in it */
    _Atomic bool is_ending;
    sem_t is_there, asked; /* of the mother */
    struct closing place[LIMIT_CLOSINGS];
    uint32_t most, count; /* of those that wait, the owner's alone */
    int waiting[];
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

static void leave_place(struct closing *closing)
{
    struct closings *all = closing->all;

    if (atomic_fetch_sub_explicit(&closing->threads, 1, memory_order_acq_rel) == 1) {
        (void)sem_destroy(&closing->took);
        (void)sem_destroy(&closing->go);
        atomic_store_explicit(&closing->is_used, false, memory_order_release);
    }
    let_go(all);
}

/* Nothing that is in the node's table is in this one, not for a moment: to close a connection to
 * another node means that nothing of it is left. */
static void *run_last(void *context)
{
    struct closing *closing = context;

    (void)pthread_setname_np(pthread_self(), "nigh-closing");
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
    leave_place(closing);
    return NULL;
}

static bool begin(void *(*run)(void *), void *context, bool is_detached, pthread_t *thread)
{
    pthread_attr_t how;
    sigset_t all, before;
    bool began;

    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_attr_init(&how);
    (void)pthread_attr_setdetachstate(&how, is_detached ? PTHREAD_CREATE_DETACHED
                                                        : PTHREAD_CREATE_JOINABLE);
    began = pthread_create(thread, &how, run, context) == 0;
    (void)pthread_attr_destroy(&how);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return began;
}

/* What she was asked before the end she does before her end. */
static void *run_mother(void *context)
{
    struct closings *all = context;
    pthread_t ignored;
    bool is_ending = false;

    (void)pthread_setname_np(pthread_self(), "nigh-closings");
    all->has_table = syscall(SYS_close_range, 0, ~0U, CLOSE_RANGE_UNSHARE) == 0;
    sem_post(&all->is_there);
    while (!is_ending) {
        wait_for(&all->asked);
        is_ending = atomic_load_explicit(&all->is_ending, memory_order_acquire);
        for (uint32_t n = 0; n < LIMIT_CLOSINGS; n++) {
            struct closing *closing = &all->place[n];

            if (!atomic_exchange_explicit(&closing->is_asked, false, memory_order_acq_rel) ||
                begin(run_last, closing, true, &ignored))
                continue;
            sem_post(&closing->took);
            leave_place(closing);
        }
    }
    return NULL;
}

static void *run(void *context)
{
    struct closing *closing = context;

    (void)pthread_setname_np(pthread_self(), "nigh-closing");
    if (closing->all->has_table)
        wait_for(&closing->took);
    fd_close(&closing->fd);
    if (closing->all->has_table)
        sem_post(&closing->go);
    leave_place(closing);
    return NULL;
}

nigh_status closings_create(uint32_t connections, struct closings **out)
{
    uint32_t most = connections + LIMIT_CLOSING_WAITS;
    struct closings *all = calloc(1, sizeof(*all) + most * sizeof(all->waiting[0]));

    if (all == NULL)
        return NIGH_NO_RESOURCES;
    atomic_init(&all->shares, 1);
    all->most = most;
    (void)sem_init(&all->is_there, 0, 0);
    (void)sem_init(&all->asked, 0, 0);
    for (uint32_t n = 0; n < LIMIT_CLOSINGS; n++)
        all->place[n].all = all;
    if (!begin(run_mother, all, false, &all->mother)) {
        let_go(all);
        return NIGH_NO_RESOURCES;
    }
    wait_for(&all->is_there); /* what the node opens from now on is never in her table */
    *out = all;
    return NIGH_OK;
}

void closings_destroy(struct closings *all)
{
    if (all == NULL)
        return;
    (void)closings_turn(all);
    atomic_store_explicit(&all->is_ending, true, memory_order_release);
    sem_post(&all->asked);
    (void)pthread_join(all->mother, NULL);
    (void)sem_destroy(&all->asked);
    (void)sem_destroy(&all->is_there);
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

/* By threads, where there is room and they can be had. */
static bool leave(struct closings *all, int fd)
{
    uint32_t threads = all->has_table ? 2 : 1;
    struct closing *closing = NULL;
    pthread_t ignored;

    for (uint32_t n = 0; n < LIMIT_CLOSINGS && closing == NULL; n++) {
        if (!atomic_load_explicit(&all->place[n].is_used, memory_order_acquire))
            closing = &all->place[n];
    }
    if (closing == NULL)
        return false;
    closing->fd = fd;
    (void)fstat(fd, &closing->what);
    (void)sem_init(&closing->took, 0, 0);
    (void)sem_init(&closing->go, 0, 0);
    atomic_store_explicit(&closing->is_used, true, memory_order_relaxed);
    atomic_store_explicit(&closing->threads, threads, memory_order_relaxed);
    atomic_fetch_add_explicit(&all->shares, threads, memory_order_relaxed);
    if (!begin(run, closing, true, &ignored)) {
        atomic_fetch_sub_explicit(&all->shares, threads, memory_order_relaxed);
        (void)sem_destroy(&closing->took);
        (void)sem_destroy(&closing->go);
        atomic_store_explicit(&closing->is_used, false, memory_order_relaxed);
        return false;
    }
    if (all->has_table) {
        atomic_store_explicit(&closing->is_asked, true, memory_order_release);
        sem_post(&all->asked);
    }
    return true;
}

bool closings_turn(struct closings *all)
{
    while (all->count > 0 && leave(all, all->waiting[0]))
        all->waiting[0] = all->waiting[--all->count];
    return all->count > 0;
}

bool closings_has_place(const struct closings *all)
{
    return all->count < LIMIT_CLOSING_WAITS;
}

void closings_close(struct closings *all, int *fd)
{
    if (*fd < 0)
        return;
    (void)shutdown(*fd, SHUT_RDWR);
    if (is_emptied(*fd)) {
        fd_close(fd);
        return;
    }
    if (!leave(all, *fd)) {
        NIGH_ASSERT(all->count < all->most);
        all->waiting[all->count++] = *fd;
    }
    *fd = -1;
}
