/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes through pairs while a thread looks: answers and requests that are there sooner than a
 * lock is given up and taken again. Who looks keeps the client's lock, looks at little and not for
 * long, and leaves for whoever else wants the lock; then it waits as everybody does (wait.c).
 */
#include "base/clock.h"
#include "client/pair_calls.h"

/* How often a thread looks: not at all where waiting is sleeping. */
static uint32_t turns_of(const nigh_client *client)
{
    return client->spin_us != 0 ? LIMIT_PAIR_TURNS : 0;
}

/* Whether nothing waits for a turn of its own: what the node has to say, what the lanes have done.
 */
static bool is_quiet(const nigh_client *client)
{
    return atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_ATTACHED &&
           shared_load_relaxed(&client->front->pair_news) ==
               atomic_load_explicit(&client->pair_news, memory_order_relaxed) &&
           !ring_has_completions(client);
}

/* ---- calls ---------------------------------------------------------------- */

static void look_for_answer(struct client_op *op)
{
    nigh_client *client = op->client;
    struct client_pairs *pairs = atomic_load_explicit(&client->pairs, memory_order_relaxed);
    struct client_pair *pair = &pairs->all[op->u.call.offset / LIMIT_PAIR_ENTRIES];
    uint32_t turns = turns_of(client);

    /* As long as the call is in the pair, there is the pair. */
    for (uint32_t n = 0; n < turns && (op->flags & OP_PAIRED) != 0; n++) {
        if (pair_is_readable(pair->in.half, pair->in.head)) {
            (void)pair_take_replies(client, pair);
        } else if (client_lock_is_wanted(client)) {
            return;
        } else {
            client_relax();
        }
    }
}

/* The server is told by a clock that costs less where that is good enough. */
static uint64_t deadline_for_server(uint64_t timeout_us)
{
    return timeout_us < LIMIT_PAIR_ROUGH_US || timeout_us == NIGH_FOREVER
               ? op_deadline_us(timeout_us)
               : clock_deadline_us(clock_rough_us(), timeout_us);
}

/* Its own deadline is what it was called with. */
static void wait_on(struct client_op *op, uint64_t timeout_us)
{
    op->deadline_us = op_deadline_us(timeout_us);
    if ((op->flags & OP_PAIRED) != 0) {
        pair_set_due(op);
    }
}

static bool begin_now(struct client_op *op, uint64_t timeout_us)
{
    op->deadline_us = deadline_for_server(timeout_us);
    switch (pairs_call(op)) {
    case PAIRS_ELSEWHERE: return false;
    case PAIRS_ENDED:
        op->next = 1;
        op_step_ended(op);
        return true;
    case PAIRS_UNDER_WAY:
        op->next = 1;
        look_for_answer(op);
        if (atomic_load_explicit(&op->status, memory_order_relaxed) == NIGH_PENDING) {
            wait_on(op, timeout_us);
        }
        return true;
    }
    return false;
}

bool pairs_call_now(struct client_op *op, uint64_t timeout_us)
{
    nigh_client *client = op->client;
    uint64_t ends;
    bool is_begun;

    if (!pairs_any(client)) {
        return false;
    }
    client_lock(client);
    client_hold(client);
    ends = client->ends;
    is_begun = is_quiet(client) && begin_now(op, timeout_us);
    ends = client->ends - ends;
    if (atomic_load_explicit(&op->status, memory_order_relaxed) != NIGH_PENDING) {
        ends--;
    }
    if (ends > 0) {
        ring_tell(client); /* those of others */
    }
    ring_flush(client);
    client_let_go(client);
    client_unlock(client);
    return is_begun;
}

/* ---- requests ------------------------------------------------------------- */

/* Whether to look again: the lane has a RECEIVE for the next who waits, nobody waits already, and
 * nobody wants the lock. */
static bool may_look_on(const nigh_service *service)
{
    return service->kept_count > 0 && service->waiting_count == 0 && is_quiet(service->client) &&
           !client_lock_is_wanted(service->client);
}

bool pairs_receive_now(nigh_service *service, nigh_request *request, void *buffer, bool waits)
{
    uint32_t turns = waits ? turns_of(service->client) : 0;

    for (uint32_t n = 0; !pairs_receive(service, request, buffer); n++) {
        if (n >= turns || !may_look_on(service)) {
            return false;
        }
        client_relax();
    }
    return true;
}
