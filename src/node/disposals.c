/* SPDX-License-Identifier: Apache-2.0 */
/* See disposals.h. What a thread closes lies in memory that it has a share in: whoever lets go of
 * it last frees it. */
#include "node/disposals.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/fd.h"

enum disposal_state {
    DISPOSAL_FREE,
    DISPOSAL_WAITING, /* for room, or as there was no thread to be had */
    DISPOSAL_CLOSING  /* a thread has it, and makes it free */
};

struct disposal {
    struct disposals *all;
    _Atomic uint32_t state;
    uint32_t uid;
    int fd;
};

#define PLACES (LIMIT_DISPOSALS + LIMIT_DISPOSAL_WAITS)

struct disposals {
    _Atomic uint32_t shares; /* of the owner, and of each thread */
    uint32_t own_uid;
    struct disposal place[PLACES];
};

static void let_go(struct disposals *all)
{
    if (atomic_fetch_sub_explicit(&all->shares, 1, memory_order_acq_rel) == 1)
        free(all);
}

static void *run(void *context)
{
    struct disposal *disposal = context;

    (void)pthread_setname_np(pthread_self(), "nigh-disposal");
    fd_close(&disposal->fd);
    atomic_store_explicit(&disposal->state, DISPOSAL_FREE, memory_order_release);
    let_go(disposal->all);
    return NULL;
}

/* Signals are for the program's own threads. */
static void start(struct disposal *disposal)
{
    pthread_attr_t detached;
    sigset_t all, before;
    pthread_t thread;
    bool began;

    atomic_store_explicit(&disposal->state, DISPOSAL_CLOSING, memory_order_relaxed);
    atomic_fetch_add_explicit(&disposal->all->shares, 1, memory_order_relaxed);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_attr_init(&detached);
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    began = pthread_create(&thread, &detached, run, disposal) == 0;
    (void)pthread_attr_destroy(&detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (began)
        return;
    let_go(disposal->all);
    atomic_store_explicit(&disposal->state, DISPOSAL_WAITING, memory_order_relaxed);
}

static uint32_t state_of(const struct disposal *disposal)
{
    return atomic_load_explicit(&disposal->state, memory_order_acquire);
}

nigh_status disposals_create(uint32_t own_uid, struct disposals **out)
{
    struct disposals *all = calloc(1, sizeof(*all));

    if (all == NULL)
        return NIGH_NO_RESOURCES;
    atomic_init(&all->shares, 1);
    all->own_uid = own_uid;
    for (uint32_t n = 0; n < PLACES; n++)
        all->place[n].all = all;
    *out = all;
    return NIGH_OK;
}

void disposals_destroy(struct disposals *all)
{
    if (all == NULL)
        return;
    for (uint32_t n = 0; n < PLACES; n++) {
        if (state_of(&all->place[n]) == DISPOSAL_WAITING)
            start(&all->place[n]); /* there is room for all: the node ends */
    }
    let_go(all);
}

/* Whether there may be one more than there are in a state. */
static bool has_room(const struct disposals *all, uint32_t uid, enum disposal_state state,
                     uint32_t most, uint32_t most_each)
{
    bool is_free = uid == 0 || uid == all->own_uid;
    uint32_t used = 0, used_here = 0;

    for (uint32_t n = 0; n < PLACES; n++) {
        if (state_of(&all->place[n]) == state) {
            used++;
            used_here += all->place[n].uid == uid;
        }
    }
    return used < most && (is_free || used_here < most_each);
}

bool disposals_has_room(const struct disposals *all, uint32_t uid)
{
    return has_room(all, uid, DISPOSAL_CLOSING, LIMIT_DISPOSALS, LIMIT_DISPOSALS_EACH);
}

bool disposals_has_place(const struct disposals *all, uint32_t uid)
{
    return has_room(all, uid, DISPOSAL_WAITING, LIMIT_DISPOSAL_WAITS, LIMIT_DISPOSAL_WAITS_EACH);
}

void disposals_close(struct disposals *all, uint32_t uid, int fd)
{
    struct disposal *disposal = NULL;

    if (fd < 0)
        return;
    for (uint32_t n = 0; n < PLACES && disposal == NULL; n++) {
        if (state_of(&all->place[n]) == DISPOSAL_FREE)
            disposal = &all->place[n];
    }
    NIGH_ASSERT(disposal != NULL);
    disposal->uid = uid;
    disposal->fd = fd;
    if (disposals_has_room(all, uid))
        start(disposal);
    else
        atomic_store_explicit(&disposal->state, DISPOSAL_WAITING, memory_order_relaxed);
}

bool disposals_turn(struct disposals *all)
{
    bool waits = false;

    for (uint32_t n = 0; n < PLACES; n++) {
        struct disposal *disposal = &all->place[n];

        if (state_of(disposal) == DISPOSAL_WAITING && disposals_has_room(all, disposal->uid))
            start(disposal);
        waits = waits || state_of(disposal) == DISPOSAL_WAITING;
    }
    return waits;
}
