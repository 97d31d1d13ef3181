/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting: spin a little, sleep on the session's futex a little, and then in turns: one thread
 * sleeps on the socket, where the node's death shows at once, the others on the futex.
 *
 * The futex comes first because it costs the lane and the client one system call each; only whoever
 * waits long needs to hear of a death that wakes nobody.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "client/client_internal.h"
#include "client/copies.h"
#include "client/lease.h"
#include "client/op.h"
#include "client/pairs.h"
#include "client/ring.h"
#include "client/socket.h"

#define WAIT_FUTEX_FIRST_US 2000 /* how long before the node's death is waited for too */
#define WAIT_TURNS_A_LOOK   64   /* turns of the spin between looks at the clock */
#define WAIT_TURNS_A_CLOCK  8    /* the same where a turn drives a lane */

/* Whether the waiting is over: the op has ended, or there are events (or never will be). */
static bool wait_is_over(const nigh_client *client, const struct client_op *op)
{
    if (op != NULL) {
        return atomic_load_explicit(&op->status, memory_order_acquire) != NIGH_PENDING;
    }
    return ring_has_events(client) ||
           atomic_load_explicit(&client->events_missed, memory_order_relaxed) ||
           atomic_load_explicit(&client->state, memory_order_acquire) != CLIENT_ATTACHED ||
           client_look(client) != NIGH_OK;
}

static bool wait_has_work(const nigh_client *client, const struct client_op *op)
{
    return wait_is_over(client, op) || ring_has_completions(client) || pairs_are_ready(client) ||
           copies_are_wanted(client);
}

/* Sleeps on the futex until somebody makes progress, or `limit_us` has passed. */
static void wait_on_futex(nigh_client *client, const struct client_op *op, uint64_t limit_us,
                          bool first)
{
    struct session_front *front = client->front;
    uint32_t value = shared_load_acquire(&front->wake);

    atomic_fetch_add_explicit(&front->waiting, 1, memory_order_relaxed);
    /* Between saying that we sleep and looking once more; the lane's stands the other way round. */
    shared_fence();
    /* Who sleeps for long relies on a thread that watches the socket: when that one left between
     * our asking and our saying that we sleep, it told nobody. */
    if (!wait_has_work(client, op) &&
        (first || atomic_load_explicit(&client->leading, memory_order_relaxed))) {
        (void)futex_wait(&front->wake, value,
                         first ? min_u64(limit_us, WAIT_FUTEX_FIRST_US) : limit_us);
    }
    atomic_fetch_sub_explicit(&front->waiting, 1, memory_order_relaxed);
}

/* Sleeps on the socket, for all threads of the client. */
static void wait_on_socket(nigh_client *client, const struct client_op *op, uint64_t limit_us)
{
    struct pollfd fds[3] = {{.fd = client->socket_fd, .events = POLLIN},
                            {.fd = client->lead_fd, .events = POLLIN},
                            {.fd = pairs_bell(client), .events = POLLIN}};
    uint64_t rung;

    atomic_store_explicit(&client->front->poke_wanted, 1, memory_order_relaxed);
    shared_fence();
    if (!wait_has_work(client, op)) {
        struct timespec wait = {.tv_sec = (time_t)(limit_us / 1000000),
                                .tv_nsec = (long)(limit_us % 1000000) * 1000};

        (void)ppoll(fds, 3, limit_us == UINT64_MAX ? NULL : &wait, NULL);
    }
    client_lock(client);
    atomic_store_explicit(&client->leading, false, memory_order_relaxed);
    if (fds[2].revents != 0) {
        pairs_take_bells(client, client->armed);
    }
    (void)!read(client->lead_fd, &rung, sizeof(rung));
    socket_take_in(client);
    /* Another takes over: it stands on the futex, and looks when it wakes. */
    ring_tell(client);
    client_unlock(client);
}

static bool wait_takes_lead(nigh_client *client)
{
    bool leads;

    client_lock(client);
    leads = !atomic_load_explicit(&client->leading, memory_order_relaxed) &&
            atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_ATTACHED;
    if (leads) {
        atomic_store_explicit(&client->leading, true, memory_order_relaxed);
        pairs_sleep(client);
    }
    client_unlock(client);
    return leads;
}

/* An embedded node: a thread that waits does the lanes' work instead of sleeping for their threads.
 * `stays`: it comes again at once. One that does not rings where another thread is at it, which may
 * have looked already and be about to sleep. */
static bool wait_drive(nigh_client *client, uint64_t now_us, bool stays)
{
    uint64_t lanes, missed = 0;
    bool ran = false;

    if (client->driver == NULL) {
        return false;
    }
    lanes = atomic_load_explicit(&client->busy_lanes, memory_order_relaxed);
    for (; lanes != 0; lanes &= lanes - 1) {
        uint32_t lane = (uint32_t)__builtin_ctzll(lanes);

        if (client->driver->drive(client->driver->context, lane, now_us, stays)) {
            ran = true;
        } else {
            missed |= lanes & -lanes;
        }
    }
    if (!stays && missed != 0) {
        ring_bells(client, missed);
    }
    return ran && ring_has_completions(client);
}

/* The lead is for the next: it stands on the futex, and looks when it wakes. */
static void wait_leave_lead(nigh_client *client, const struct client_op *op,
                            const struct pollfd *socket, const struct pollfd *lead)
{
    uint64_t rung;

    client_lock(client);
    atomic_store_explicit(&client->leading, false, memory_order_relaxed);
    if (!client->armed) { /* whose application may sleep until it is poked */
        atomic_store_explicit(&client->front->poke_wanted, 0, memory_order_relaxed);
    }
    if (lead->revents != 0) {
        (void)!read(client->lead_fd, &rung, sizeof(rung));
    }
    if (socket->revents != 0) {
        socket_take_in(client);
    }
    ring_tell(client); /* whoever waits by then */
    /* Steps that found no room may be overdue. */
    if (!list_empty(&client->feed) &&
        atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_ATTACHED) {
        ring_take_in(client, op);
    }
    client_unlock(client);
}

/*
 * A client that has leased memory and is idle gives it back: whoever sleeps in a call looks, and
 * other threads may use it meanwhile. Until when nothing is to be done, UINT64_MAX: it has none.
 */
static uint64_t wait_rest(nigh_client *client, uint64_t now_us)
{
    uint64_t due_us = UINT64_MAX;

    client_lock(client);
    if (client->rest_cuts != client->cuts) {
        client->rest_cuts = client->cuts;
        client->rest_us = now_us + LIMIT_LEASE_IDLE_US;
    }
    if (atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_ATTACHED &&
        lease_may_rest(client)) {
        if (now_us >= client->rest_us) {
            lease_rest(client);
            ring_flush(client);
            client->rest_us = now_us + LIMIT_LEASE_IDLE_US; /* for what could not go now */
        }
        if (lease_may_rest(client)) {
            due_us = client->rest_us;
        }
    }
    client_unlock(client);
    return due_us;
}

/* How long whoever leads may sleep. What is looked at here comes behind the lead: who uses leased
 * memory no more from here on tells whoever has it, and told nobody before. */
static uint64_t wait_leading_limit(nigh_client *client, uint64_t now_us, uint64_t limit_us)
{
    uint64_t rest_us = wait_rest(client, now_us);

    return rest_us == UINT64_MAX ? limit_us : min_u64(limit_us, rest_us - now_us);
}

/*
 * An embedded node: sleeps on what other nodes send to the one lane that is waited for, and on the
 * socket, where the lane's own thread pokes. One wake-up less than sleeping for that thread. False:
 * it cannot. *now_us: the time before and, if that is known, after.
 */
static bool wait_on_lane(nigh_client *client, const struct client_op *op, uint64_t limit_us,
                         uint64_t *now_us)
{
    const struct session_driver *driver = client->driver;
    uint64_t lanes = atomic_load_explicit(&client->busy_lanes, memory_order_relaxed);
    uint32_t lane = lanes != 0 ? (uint32_t)__builtin_ctzll(lanes) : 0;
    struct timespec wait;
    struct pollfd fds[3] = {{.fd = client->socket_fd, .events = POLLIN},
                            {.fd = client->lead_fd, .events = POLLIN},
                            {.events = POLLIN}};

    if (lanes == 0 || (lanes & (lanes - 1)) != 0 || !wait_takes_lead(client)) {
        return false;
    }
    limit_us = wait_leading_limit(client, *now_us, limit_us);
    wait = (struct timespec){.tv_sec = (time_t)(limit_us / 1000000),
                             .tv_nsec = (long)(limit_us % 1000000) * 1000};
    fds[2].fd = driver->rest(driver->context, lane, *now_us);
    *now_us = 0;
    if (fds[2].fd >= 0) {
        atomic_store_explicit(&client->front->poke_wanted, 1, memory_order_relaxed);
        shared_fence();
        if (!wait_has_work(client, op)) {
            (void)ppoll(fds, 3, limit_us == UINT64_MAX ? NULL : &wait, NULL);
        }
        *now_us = driver->rise(driver->context, lane);
    }
    wait_leave_lead(client, op, &fds[0], &fds[1]);
    return fds[2].fd != SESSION_REST_ELSEWHERE;
}

static void wait_take_in(nigh_client *client, const struct client_op *op)
{
    client_lock(client);
    if (atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_ATTACHED) {
        ring_take_in(client, op);
    }
    client_unlock(client);
}

/* True: something was overdue. */
static bool wait_end_overdue(nigh_client *client, uint64_t now_us)
{
    uint64_t ends;

    client_lock(client);
    ends = client->ends;
    pairs_end_overdue(client, now_us);
    ends = client->ends - ends;
    client_unlock(client);
    return ends > 0;
}

/* Steps that found no room may be overdue. */
static void wait_look_after(nigh_client *client, const struct client_op *op)
{
    if (op != NULL && op->kind->waits) {
        wait_take_in(client, op);
    }
}

/* When a sleep ends at the latest: an op whose steps wait for room has to be looked at in time. */
static uint64_t wait_limit(const struct client_op *op, uint64_t now_us, uint64_t deadline_us)
{
    uint64_t end_us = deadline_us;

    if (op != NULL && op->deadline_us > now_us) {
        end_us = min_u64(end_us, op->deadline_us);
    }
    return end_us == UINT64_MAX ? UINT64_MAX : end_us - now_us;
}

nigh_status wait_for(nigh_client *client, struct client_op *op, uint64_t deadline_us)
{
    uint64_t rest_us = UINT64_MAX; /* when leases are looked at that nobody uses */
    uint64_t spin_end_us = 0;
    uint64_t now_us = 0;
    uint64_t risen_us = 0; /* the time after a sleep, as long as it is fresh */
    uint32_t sleeps = 0;
    uint32_t looks = 0; /* at what the time may be asked for */
    bool spins = false;
    bool first;
    bool rests = client->driver != NULL && client->driver->rest != NULL;

    for (uint32_t turn = 1; !wait_is_over(client, op); turn++) {
        if (ring_has_completions(client) || pairs_are_ready(client)) {
            wait_take_in(client, op);
            continue;
        }
        if (copies_are_wanted(client)) {
            copies_make(client);
            continue;
        }
        if (client->driver == NULL && client->spin_us != 0 && sleeps == 0 &&
            turn % WAIT_TURNS_A_LOOK != 0) {
            client_relax();
            continue;
        }
        /* Asking the time costs as much as the rest of a turn that finds nothing. */
        if (!spins || looks++ % WAIT_TURNS_A_CLOCK == 0) {
            now_us = risen_us != 0 ? risen_us : clock_now_us(&clock_monotonic);
        }
        risen_us = 0;
        if (pairs_are_due(client, now_us) && wait_end_overdue(client, now_us)) {
            continue;
        }
        if (now_us >= deadline_us) {
            return NIGH_TIMEOUT;
        }
        if (spin_end_us == 0) {
            spin_end_us = now_us + client->spin_us;
        }
        if (now_us >= rest_us) {
            rest_us = wait_rest(client, now_us);
        }
        spins = sleeps == 0 && now_us < spin_end_us;
        if (wait_drive(client, now_us, spins || rests)) {
            continue;
        }
        if (spins) {
            client_relax();
            continue;
        }
        if (rests) {
            risen_us = now_us;
            rests = wait_on_lane(client, op, wait_limit(op, now_us, min_u64(deadline_us, rest_us)),
                                 &risen_us);
            continue; /* if it could not: once more without */
        }
        /* The other side of a pair wakes who sleeps on the socket alone. */
        first = sleeps == 0 && !pairs_any(client);
        if (!first && wait_takes_lead(client)) {
            wait_on_socket(client, op,
                           wait_leading_limit(client, now_us, wait_limit(op, now_us, deadline_us)));
        } else {
            wait_on_futex(client, op, wait_limit(op, now_us, min_u64(deadline_us, rest_us)), first);
        }
        sleeps++;
        rest_us = 0; /* another thread may have leased some meanwhile */
        wait_look_after(client, op);
    }
    return NIGH_OK;
}
