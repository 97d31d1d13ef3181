/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes through pairs while a thread looks: answers and requests that are there sooner than a
 * lock is given up and taken again. Who looks keeps the client's lock, looks at little and not for
 * long, and leaves for whoever else wants the lock; then it waits as everybody does (wait.c).
 */
#include "base/clock.h"
#include "client/calls.h"
#include "client/client_internal.h"
#include "client/op.h"
#include "client/pair_calls.h"
#include "client/pairs.h"
#include "client/ring.h"
#include "client/services.h"

/* How often a thread looks, at one pair or another: not at all where waiting is sleeping. It does
 * not pause between two looks: that takes as long as the record takes from there to here. */
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
    struct client_pair *pair = &pairs->all[op->u.place.offset / LIMIT_PAIR_ENTRIES];
    uint32_t turns = turns_of(client);

    /* As long as the call is in the pair, there is the pair. */
    for (uint32_t n = 0; n < turns && (op->flags & OP_PAIRED) != 0; n++) {
        if (pair_is_readable(pair->in.half, pair->in.head)) {
            (void)pair_take_replies(client, pair);
        } else if (client_lock_is_wanted(client)) {
            return;
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

static bool begin_now(struct client_op *op, uint64_t timeout_us)
{
    op->deadline_us = deadline_for_server(timeout_us);
    op->u.call.timeout_us = timeout_us;
    op->flags |= OP_ROUGH;
    switch (pairs_call(op)) {
    case PAIRS_ELSEWHERE: op->flags &= ~OP_ROUGH; return false;
    case PAIRS_ENDED:
        op->next = 1;
        op_step_ended(op);
        return true;
    case PAIRS_UNDER_WAY:
        op->next = 1;
        look_for_answer(op);
        if (atomic_load_explicit(&op->status, memory_order_relaxed) == NIGH_PENDING) {
            pair_own_deadline(op);
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

/* Whether a pair of these has something. */
static bool are_readable(const struct client_pairs *pairs, uint64_t mask)
{
    for (; mask != 0; mask &= mask - 1) {
        const struct client_pair *pair = &pairs->all[__builtin_ctzll(mask)];

        if (pair->in.half != NULL && pair_is_readable(pair->in.half, pair->in.head)) {
            return true;
        }
    }
    return false;
}

bool pairs_receive_now(nigh_service *service, nigh_request *request, void *buffer, bool waits)
{
    struct client_pairs *pairs =
        atomic_load_explicit(&service->client->pairs, memory_order_relaxed);
    uint64_t mask = service->pair_mask;
    uint32_t turns = waits && mask != 0 ? turns_of(service->client) : 0;

    if (pairs_receive(service, request, buffer)) {
        return true;
    }
    turns /= max_u32((uint32_t)__builtin_popcountll(mask), 1);
    for (uint32_t n = 0; n < turns && may_look_on(service); n++) {
        if (are_readable(pairs, mask) && pairs_receive(service, request, buffer)) {
            return true;
        }
        mask = service->pair_mask; /* what was there may have ended one */
    }
    return false;
}
