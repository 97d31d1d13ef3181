/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations: many steps, one submission each, one end. What an operation does is in its op_kind;
 * here is what all have in common, and the public calls on a nigh_op.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/attach.h"
#include "client/client_internal.h"
#include "client/copies.h"
#include "client/error.h"
#include "client/op.h"
#include "client/pairs.h"
#include "client/ring.h"
#include "client/socket.h"

#define OP_PATIENCE_US UINT64_C(100000)
#define POLL_POKES     8 /* times that one poll looks again because its node poked meanwhile */

void op_init(struct client_op *op, nigh_client *client, const struct op_kind *kind, size_t count,
             uint64_t deadline_us)
{
    op->magic = OP_MAGIC;
    atomic_store_explicit(&op->status, NIGH_PENDING, memory_order_relaxed);
    op->client = client;
    op->kind = kind;
    op->queue.next = op->queue.prev = NULL;
    op->count = count;
    op->next = op->ended = 0;
    op->deadline_us = deadline_us;
    op->result = NIGH_OK;
    op->flags = 0;
    op->copies = 0;
    op->index_full = false;
}

void op_refuse(struct client_op *op, nigh_status status)
{
    op->flags |= OP_UNBEGUN;
    atomic_store_explicit(&op->status, status, memory_order_release);
}

void op_end(struct client_op *op, nigh_status status)
{
    nigh_client *client = op->client;
    bool async = (op->flags & OP_ASYNC) != 0;

    if (list_is_linked(&op->queue)) {
        list_remove(&op->queue);
    }
    if (op->kind->ended != NULL) {
        op->kind->ended(op);
    }
    client->ends++;
    /* From the store on the memory is the caller's. */
    atomic_store_explicit(&op->status, status, memory_order_release);
    if (async) {
        client_ring_bell(client);
    }
}

/* Ends the op if every step has. */
static void op_settle(struct client_op *op)
{
    if (op->ended < op->count) {
        return;
    }
    if (op->kind->finish != NULL && op->kind->finish(op)) {
        op->next = op->ended = 0;
        op_feed(op);
        return;
    }
    op_end(op, (nigh_status)op->result);
}

/*
 * Whether the steps to come may wait in the lane. Once the deadline has passed they may not, which
 * is also why there is room for them: what waits leaves a part of the ring to what does not. They
 * are asked all the same: what is there is there.
 */
static bool op_may_wait(const struct client_op *op)
{
    if (!op->kind->waits) {
        return false;
    }
    return op->deadline_us == UINT64_MAX || !list_is_linked(&op->queue) ||
           clock_now_us(&clock_monotonic) < op->deadline_us;
}

/* How many waiting submissions may be in the lane before a step that may wait, or not. */
static uint32_t op_most_waiting(const struct client_op *op, bool waits)
{
    if (!waits) {
        return UINT32_MAX;
    }
    return LIMIT_RING_WAITERS + (op->kind->yields ? 0 : LIMIT_RING_CREATES);
}

/* UINT64_MAX: none. */
static void op_set_timer(nigh_client *client, uint64_t due_us)
{
    struct itimerspec at = {0};

    if (due_us != UINT64_MAX) {
        at.it_value.tv_sec = (time_t)(due_us / 1000000);
        at.it_value.tv_nsec = (long)(due_us % 1000000) * 1000 + 1;
    }
    client->room_due_us = due_us;
    (void)timerfd_settime(client->room_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* What is overdue is fed by the look that follows, or waits for a place in the ring that comes free
 * without its asking. */
void op_arm(nigh_client *client)
{
    uint64_t now_us, due_us = UINT64_MAX;

    if (list_empty(&client->feed) && client->room_due_us == UINT64_MAX) {
        return;
    }
    now_us = clock_now_us(&clock_monotonic);
    LIST_FOREACH(node, &client->feed)
    {
        const struct client_op *op = container_of(node, struct client_op, queue);

        if (op->deadline_us > now_us) {
            due_us = min_u64(due_us, op->deadline_us);
        }
    }
    op_set_timer(client, due_us);
}

/* It has found no room. One that has taken what came free goes behind the others: what comes free
 * next is theirs, or an op of many steps would keep all others waiting until its last. */
static void op_queue(struct client_op *op, bool took)
{
    if (list_is_linked(&op->queue) && !took) {
        return;
    }
    if (list_is_linked(&op->queue)) {
        list_remove(&op->queue);
    } else if (op->client->armed && op->deadline_us < op->client->room_due_us) {
        op_set_timer(op->client, op->deadline_us); /* the application may be asleep */
    }
    list_push_back(&op->client->feed, &op->queue);
}

void op_feed(struct client_op *op)
{
    nigh_client *client = op->client;
    bool waits = op_may_wait(op);
    uint32_t most = op_most_waiting(op, waits);
    size_t from = op->next;

    while (op->next < op->count) {
        struct session_sqe sqe;
        uint32_t lane = op->kind->lane(op, op->next);
        size_t step = op->next;

        if (lane == OP_SKIP) {
            op->next++;
            op->ended++;
            continue;
        }
        if (!ring_has_room(client, lane, most) ||
            (op->kind->has_room != NULL && !op->kind->has_room(op))) {
            op_queue(op, op->next > from);
            return;
        }
        memset(&sqe, 0, sizeof(sqe));
        op->next++;
        if (!op->kind->build(op, step, &sqe)) {
            op->ended++;
        } else if (sqe.op != SESSION_OP_NOP) {
            ring_submit(client, lane, op, step, waits, &sqe);
        }
    }
    if (list_is_linked(&op->queue)) {
        list_remove(&op->queue);
    }
    op_settle(op);
}

void op_go_on(struct client_op *op, size_t step, uint32_t lane, bool waits, struct session_sqe *sqe)
{
    ring_submit(op->client, lane, op, step, waits, sqe);
}

void op_step_ended(struct client_op *op)
{
    op->ended++;
    op_settle(op);
}

void op_step_done(struct client_op *op, size_t step, uint8_t opcode, const struct session_cqe *cqe)
{
    if (unlikely(cqe->status == NIGH_LIMIT && (cqe->flags & SESSION_CQE_INDEX_FULL) != 0)) {
        op->index_full = true;
        error_note_index_full(op->client);
    }
    if (!op->kind->done(op, step, opcode, cqe)) {
        op_step_ended(op);
    }
}

/* As long as it may wait, but it does not give up a node that is about to answer. */
static uint64_t op_patience_us(const struct client_op *op)
{
    return op->kind->waits ? max_u64(op_remaining_us(op), OP_PATIENCE_US) : LIMIT_NODE_GRACE_US;
}

/* How much patience is left takes a look at the clock, and mostly none is needed. */
nigh_status op_ensure(const struct client_op *op)
{
    return resume_is_needed(op->client) ? resume_ensure(op->client, op_patience_us(op)) : NIGH_OK;
}

nigh_status op_begin(struct client_op *op)
{
    nigh_client *client = op->client;
    nigh_status status = op_ensure(op);

    if (status != NIGH_OK) {
        if (op->kind->settle != NULL) {
            op->kind->settle(op, status);
        }
        op->flags |= OP_UNBEGUN;
        op_end(op, status);
        return status;
    }
    client_hold(client);
    op_feed(op);
    if (client->driver != NULL && (op->flags & OP_ASYNC) == 0) {
        client->touched_lanes = 0; /* who waits for it drives them, and rings before it sleeps */
    } else {
        ring_flush(client);
    }
    client_let_go(client); /* the op may have ended, and its memory gone, by now */
    return NIGH_OK;
}

nigh_status op_start(struct client_op *op)
{
    nigh_client *client = op->client;
    nigh_status status;

    op->flags |= OP_ASYNC;
    client_lock(client);
    status = op_begin(op);
    client_unlock(client);
    return status;
}

void op_end_all(struct client_op *op, nigh_status status)
{
    if (op->kind->settle != NULL) {
        op->kind->settle(op, status);
    }
    op_fail(op, status);
    /* No second beginning: there is nobody to do it. */
    op->next = op->ended = op->count;
    if (op->copies > 0) {
        op->flags |= OP_DOOMED;
    } else {
        op_end(op, (nigh_status)op->result);
    }
}

/* Ends an op that has not ended by itself. Locked. */
static void op_give_up(struct client_op *op, nigh_status status)
{
    if (atomic_load_explicit(&op->status, memory_order_relaxed) != NIGH_PENDING ||
        (op->flags & OP_DOOMED) != 0) {
        return;
    }
    if (op->kind->given_up != NULL) {
        op->kind->given_up(op);
    }
    ring_forget(op->client, op);
    op_end_all(op, status);
}

nigh_status op_run(struct client_op *op)
{
    client_lock(op->client);
    (void)op_begin(op);
    client_unlock(op->client);
    return op_await(op);
}

nigh_status op_await(struct client_op *op)
{
    nigh_client *client = op->client;
    nigh_status status;

    /* The lane ends a wait in time; only a lane that does not answer at all is given up here. */
    status = wait_for(client, op, clock_deadline_us(op->deadline_us, LIMIT_NODE_GRACE_US));
    if (status == NIGH_TIMEOUT) {
        client_lock(client);
        ring_take_in(client, op);
        life_find_out(client); /* a node that is dead did not let the deadline pass */
        op_give_up(op, NIGH_TIMEOUT);
        client_unlock(client);
    }
    if (op->index_full) {
        error_note_index_full(client); /* another thread may have taken the answer */
    }
    return (nigh_status)atomic_load_explicit(&op->status, memory_order_acquire);
}

uint64_t op_remaining_us(const struct client_op *op)
{
    if (op->deadline_us == UINT64_MAX) {
        return NIGH_FOREVER;
    }
    return clock_left_us(clock_now_us(&clock_monotonic), op->deadline_us);
}

/* ---- one submission ------------------------------------------------------- */

uint32_t op_one_lane(struct client_op *op, size_t step)
{
    (void)step;
    return op->u.one.lane;
}

bool op_one_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    *sqe = op->u.one.sqe;
    return true;
}

bool op_any_done(struct client_op *op, size_t step, uint8_t opcode, const struct session_cqe *cqe)
{
    (void)op;
    (void)step;
    (void)opcode;
    (void)cqe;
    return false;
}

static bool op_one_done(struct client_op *op, size_t step, uint8_t opcode,
                        const struct session_cqe *cqe)
{
    (void)opcode;
    (void)step;
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
    } else if (op->u.one.out != NULL) {
        *(struct session_cqe *)op->u.one.out = *cqe;
    }
    return false;
}

static const struct op_kind op_one = {
    .lane = op_one_lane,
    .build = op_one_build,
    .done = op_one_done,
};

static const struct op_kind op_one_waits = {
    .lane = op_one_lane,
    .build = op_one_build,
    .done = op_one_done,
    .waits = true,
};

uint64_t op_deadline_us(uint64_t timeout_us)
{
    return timeout_us == NIGH_FOREVER
               ? UINT64_MAX
               : clock_deadline_us(clock_now_us(&clock_monotonic), timeout_us);
}

void op_init_one(struct client_op *op, nigh_client *client, uint32_t lane,
                 const struct session_sqe *sqe, struct session_cqe *cqe)
{
    op_init(op, client, &op_one, 1, UINT64_MAX);
    op->u.one.sqe = *sqe;
    op->u.one.lane = lane;
    op->u.one.out = cqe;
}

void op_init_wait(struct client_op *op, nigh_client *client, uint32_t lane,
                  const struct session_sqe *sqe, struct session_cqe *cqe, uint64_t timeout_us)
{
    op_init_one(op, client, lane, sqe, cqe);
    op->kind = &op_one_waits;
    op->deadline_us = op_deadline_us(timeout_us);
}

void op_init_id(struct client_op *op, nigh_client *client, enum session_op opcode,
                const nigh_id *id, struct session_cqe *cqe)
{
    struct session_sqe sqe = {.op = (uint8_t)opcode};

    memcpy(sqe.id, id->bytes, sizeof(sqe.id));
    op_init_one(op, client, client_lane_of(client, id), &sqe, cqe);
}

/* ---- one submission to each lane ------------------------------------------ */

static uint32_t op_all_lane(struct client_op *op, size_t step)
{
    (void)op;
    return (uint32_t)step;
}

static bool op_all_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    sqe->op = (uint8_t)op->u.all.opcode;
    sqe->flags = (uint8_t)op->u.all.flags;
    sqe->argument = op->u.all.argument;
    return true;
}

static bool op_all_done(struct client_op *op, size_t step, uint8_t opcode,
                        const struct session_cqe *cqe)
{
    (void)opcode;
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
    } else if (op->u.all.take != NULL) {
        op->u.all.take(op->client, (uint32_t)step, cqe, op->u.all.out);
    }
    return false;
}

static const struct op_kind op_all = {
    .lane = op_all_lane,
    .build = op_all_build,
    .done = op_all_done,
};

void op_init_all(struct client_op *op, nigh_client *client, enum session_op opcode,
                 uint64_t argument,
                 void (*take)(nigh_client *, uint32_t, const struct session_cqe *, void *),
                 void *out)
{
    op_init(op, client, &op_all, client->lanes, UINT64_MAX);
    op->u.all.opcode = (uint32_t)opcode;
    op->u.all.flags = 0;
    op->u.all.argument = argument;
    op->u.all.take = take;
    op->u.all.out = out;
}

/* ---- the public calls ----------------------------------------------------- */

/* The library's view of the caller's op, or NULL when it is none that was ever started. */
static struct client_op *op_of(const nigh_op *given)
{
    struct client_op *op = (struct client_op *)(uintptr_t)given;

    return op != NULL && op->magic == OP_MAGIC ? op : NULL;
}

nigh_status nigh_op_status(const nigh_op *given)
{
    const struct client_op *op = op_of(given);

    return op == NULL ? NIGH_INVALID
                      : (nigh_status)atomic_load_explicit(&op->status, memory_order_acquire);
}

nigh_status op_note(const struct client_op *op, nigh_status status)
{
    return op->kind->notes || (op->flags & OP_UNBEGUN) != 0 ? error_note_end(op->client, status)
                                                            : error_note(op->client, status);
}

/* The sentence of an op that has ended with a failure, or of a wait for one whose time is up. */
static nigh_status op_tell(const struct client_op *op, nigh_status status)
{
    if (status == NIGH_OK || status != atomic_load_explicit(&op->status, memory_order_acquire)) {
        return error_note(op->client, status);
    }
    if (op->kind->tell != NULL) {
        return op->kind->tell(op, status);
    }
    return op_note(op, status);
}

nigh_status nigh_wait(nigh_client *client, nigh_op *given, uint64_t timeout_us)
{
    struct client_op *op = op_of(given);
    nigh_status status = client_look(client);
    uint64_t now_us;

    if (status == NIGH_INVALID || status == NIGH_FORKED) {
        return status;
    }
    if (op == NULL || op->client != client) {
        return error_set(client, NIGH_INVALID, "nigh_wait: no op that this client has started");
    }
    status = nigh_op_status(given);
    if (status == NIGH_PENDING) {
        now_us = clock_now_us(&clock_monotonic);
        status = wait_for(client, op, clock_deadline_us(now_us, timeout_us)) == NIGH_TIMEOUT
                     ? NIGH_TIMEOUT
                     : nigh_op_status(given);
    }
    return op_tell(op, status);
}

/* Whether the node has poked since the descriptor was armed: what is taken in here may have taken
 * that out of the socket, so it is to poke again; and what it said of before that is taken in. A
 * thread that leads may have asked it already, and then only who read the poke knows. Locked. */
static bool op_was_poked(nigh_client *client)
{
    _Atomic uint32_t *wanted = &client->front->poke_wanted;

    if (atomic_load_explicit(&client->state, memory_order_relaxed) != CLIENT_ATTACHED ||
        (!client->poked && atomic_load_explicit(wanted, memory_order_relaxed) != 0)) {
        return false;
    }
    atomic_store_explicit(wanted, 1, memory_order_relaxed);
    shared_fence();
    return true;
}

/* Locked. `armed`: the caller may sleep on the descriptor behind this. `before`: the client's state
 * as its look began. */
static void op_take_in(nigh_client *client, bool armed, uint32_t before)
{
    bool again = true, poked = client->poked;

    for (uint32_t n = 0; n < POLL_POKES && again; n++) {
        client->poked = false;
        if (atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_ATTACHED) {
            ring_take_in(client, NULL);
            socket_take_in_now_and_then(client);
        }
        again = armed && op_was_poked(client);
        poked = poked || again;
    }
    client->armed = armed;
    /* It goes on without end, or the poke was of an event, which is not taken in here: the caller
     * is to come again. */
    if (again || (poked && client->subscribed && ring_has_events(client))) {
        client_ring_bell(client);
    }
    client_tell_change(client, before);
}

size_t nigh_poll(nigh_client *client)
{
    nigh_status status = client_look(client);
    uint64_t ends, due_us;
    uint32_t before;
    bool armed;

    if (status == NIGH_INVALID || status == NIGH_FORKED) {
        return 0;
    }
    client_lock(client);
    ends = client->ends;
    if (client->driver != NULL) {
        uint64_t lanes = atomic_load_explicit(&client->busy_lanes, memory_order_relaxed);

        uint64_t now_us = clock_now_us(&clock_monotonic);

        client_unlock(client);
        for (; lanes != 0; lanes &= lanes - 1) {
            (void)client->driver->drive(client->driver->context, (uint32_t)__builtin_ctzll(lanes),
                                        now_us, false);
        }
        client_lock(client);
    }
    /* The caller is looking: what ends here needs no bell. */
    armed = client->armed;
    client->armed = client->poked = false;
    before = atomic_load_explicit(&client->state, memory_order_relaxed);
    due_us = pairs_due_us(client);
    if (pairs_bell(client) >= 0) {
        uint64_t now_us;

        if (armed || atomic_load_explicit(&client->leading, memory_order_relaxed)) {
            pairs_take_bells(client, armed);
        }
        now_us = clock_now_us(&clock_monotonic); /* after the timer was read */
        if (pairs_are_due(client, now_us)) {
            pairs_end_overdue(client, now_us);
        }
    }
    op_take_in(client, armed, before);
    if (armed) {
        /* Of what found no room in here, too; and of what found it there. */
        op_arm(client);
        pairs_time(client, due_us);
    }
    client_unlock(client);
    copies_make(client);
    client_lock(client);
    ends = client->ends - ends;
    client_unlock(client);
    return (size_t)ends;
}

/* How long the answer to a cancelled op is waited for: of many at a lane that stands still, all
 * together as long as of one. Locked. */
static uint64_t op_cancel_until_us(const struct client_op *op)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);
    uint64_t *silent_us;

    if (!op->kind->answers ||
        atomic_load_explicit(&op->status, memory_order_relaxed) != NIGH_PENDING) {
        return clock_deadline_us(now_us, LIMIT_NODE_GRACE_US);
    }
    silent_us = &op->client->lane[op->u.place.lane].silent_us;
    if (*silent_us == 0) {
        *silent_us = now_us;
    }
    return clock_deadline_us(*silent_us, LIMIT_NODE_GRACE_US);
}

nigh_status nigh_cancel(nigh_client *client, nigh_op *given)
{
    struct client_op *op = op_of(given);
    nigh_status status = client_look(client);
    uint64_t until_us;

    if (op == NULL || status == NIGH_INVALID || op->client != client) {
        return NIGH_INVALID;
    }
    if (status == NIGH_FORKED) {
        return status;
    }
    client_lock(client);
    if (atomic_load_explicit(&op->status, memory_order_relaxed) == NIGH_PENDING) {
        ring_take_in(client, op);
    }
    /* What waits is given up at once. What does not wait is done with, or nearly: its result is
     * worth more than its cancelling, unless the node does not answer. */
    if (op->kind->waits && !(op->kind->answers && ring_cancel(client, op))) {
        op_give_up(op, NIGH_CANCELED);
    }
    until_us = op_cancel_until_us(op);
    client_unlock(client);
    if (wait_for(client, op, until_us) == NIGH_TIMEOUT) {
        client_lock(client);
        op_give_up(op, NIGH_CANCELED);
        client_unlock(client);
        /* A copy of its bytes that another thread is at comes to its end. */
        (void)wait_for(client, op, UINT64_MAX);
    }
    return nigh_op_status(given);
}
