/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submissions to the lanes and completions from them: the pending table that says what a cookie
 * stands for, the doorbell, and the wake-up of threads whose operations another thread took in.
 *
 * A client keeps at most LIMIT_RING_ENTRIES submissions under way in a lane, so that neither ring
 * can overflow; at most LIMIT_RING_WAITERS of them may be gets that wait, and LIMIT_RING_CREATES
 * more creates, so that what would end their wait still gets through.
 */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/order.h"
#include "client/client_internal.h"
#include "client/copies.h"
#include "client/lease.h"
#include "client/op.h"
#include "client/pairs.h"
#include "client/places.h"
#include "client/region.h"
#include "client/ring.h"
#include "client/services.h"
#include "client/space.h"

/* Places kept for cancelling what fills the others. */
#define RING_CANCEL_PLACES 8
#define RING_NO_PLACE      UINT16_MAX

_Static_assert(LIMIT_RING_ENTRIES <= 256, "a place is the low byte of a cookie");
_Static_assert((LIMIT_RING_ENTRIES & (LIMIT_RING_ENTRIES - 1)) == 0, "places wrap by a mask");

void ring_init_lane(struct client_lane *lane)
{
    lane->free_head = 0;
    lane->in_flight = lane->waiting_in_flight = lane->cancels_wanted = 0;
    lane->silent_us = 0;
    for (uint32_t i = 0; i < LIMIT_RING_ENTRIES; i++) {
        struct client_pending *place = &lane->pending[i];

        place->op = NULL;
        place->used = place->cancel_wanted = place->waits = false;
        place->created = place->owed = false;
        place->kept = NULL;
        place->copy = COPY_NONE;
        place->next_free = i + 1 < LIMIT_RING_ENTRIES ? (uint16_t)(i + 1) : RING_NO_PLACE;
    }
}

bool ring_has_room(const nigh_client *client, uint32_t lane, uint32_t most)
{
    const struct client_lane *at = &client->lane[lane];

    return at->in_flight < LIMIT_RING_ENTRIES - RING_CANCEL_PLACES && at->waiting_in_flight < most;
}

/* Written locked: no need for an atomic operation. */
static void ring_set_busy(nigh_client *client, uint32_t lane, bool busy)
{
    uint64_t lanes = atomic_load_explicit(&client->busy_lanes, memory_order_relaxed);
    uint64_t bit = UINT64_C(1) << lane;

    atomic_store_explicit(&client->busy_lanes, busy ? lanes | bit : lanes & ~bit,
                          memory_order_relaxed);
}

/* Takes a place: its number. */
static uint16_t ring_take_place(nigh_client *client, uint32_t lane, struct client_op *op,
                                size_t step, bool waits)
{
    struct client_lane *at = &client->lane[lane];
    uint16_t number = at->free_head;
    struct client_pending *place = &at->pending[number];

    NIGH_ASSERT(number != RING_NO_PLACE && !place->used);
    at->free_head = place->next_free;
    at->in_flight++;
    at->waiting_in_flight += waits;
    place->op = op;
    place->step = step;
    place->sequence = (place->sequence + 1) & 0xffffff;
    place->used = true;
    place->waits = waits;
    place->cancel_wanted = place->asks_lease = place->leased = false;
    place->created = place->owed = false;
    place->kept = NULL;
    place->copy = COPY_NONE;
    if (at->in_flight == 1) {
        ring_set_busy(client, lane, true);
    }
    return number;
}

void ring_drop(nigh_client *client, uint32_t lane, uint16_t number)
{
    struct client_lane *at = &client->lane[lane];
    struct client_pending *place = &at->pending[number];

    at->cancels_wanted -= place->cancel_wanted;
    at->waiting_in_flight -= place->waits;
    at->in_flight--;
    place->op = NULL;
    place->used = place->cancel_wanted = false;
    place->copy = COPY_NONE;
    place->next_free = at->free_head;
    at->free_head = number;
    if (at->in_flight == 0) {
        ring_set_busy(client, lane, false);
    }
}

void ring_owe(nigh_client *client, uint32_t lane, uint32_t ref)
{
    struct client_pending *place =
        &client->lane[lane].pending[ring_take_place(client, lane, NULL, 0, false)];

    place->created = place->owed = true;
    place->ref = ref;
}

/* All places are free again, but those that owe: what was to end a created object, and of which
 * nobody knows whether it did, does not any more. */
static void ring_reset_lane(nigh_client *client, uint32_t lane)
{
    struct client_lane *at = &client->lane[lane];
    uint32_t refs[LIMIT_RING_ENTRIES], count = 0;

    for (uint32_t n = 0; n < LIMIT_RING_ENTRIES; n++) {
        const struct client_pending *place = &at->pending[n];

        if (place->used && place->leased) {
            lease_sealed(client, lane, place->offset, false); /* nobody knows */
        } else if (place->used && place->created) {
            refs[count++] = place->ref;
        }
    }
    ring_init_lane(at);
    calls_reset(client, lane);
    for (uint32_t n = 0; n < count; n++) {
        ring_owe(client, lane, refs[n]);
    }
}

void ring_reset(nigh_client *client)
{
    atomic_store_explicit(&client->busy_lanes, 0, memory_order_relaxed);
    calls_reset_services(client);
    for (uint32_t i = 0; i < client->lanes; i++) {
        ring_reset_lane(client, i);
    }
    client->touched_lanes = 0;
    lease_forget_asked(client);
}

uint16_t ring_hold(nigh_client *client, uint32_t lane, struct client_op *op, size_t step)
{
    return ring_take_place(client, lane, op, step, false);
}

void ring_send(nigh_client *client, uint32_t lane, uint16_t number, struct session_sqe *sqe)
{
    struct client_lane *at = &client->lane[lane];
    struct client_pending *place = &at->pending[number];

    place->copy = COPY_NONE;
    place->opcode = sqe->op;
    place->asks_lease = sqe->op == SESSION_OP_LEASE || (sqe->flags & SESSION_FLAG_RENEW) != 0;
    place->leased = sqe->op == SESSION_OP_SEAL && (sqe->flags & SESSION_FLAG_LEASED) != 0;
    place->created = (sqe->op == SESSION_OP_SEAL && !place->leased) || sqe->op == SESSION_OP_ABORT;
    place->owed = false;
    place->ref = (uint32_t)sqe->ref;
    place->offset = sqe->offset;
    if (place->leased) {
        lease_sealing(client, lane, sqe->offset);
    }
    sqe->cookie = place->sequence << 8 | number;
    at->shared->sq[at->sq_tail & (LIMIT_RING_ENTRIES - 1)] = *sqe;
    at->sq_tail++;
    shared_store_release(&at->shared->sq_tail.value, at->sq_tail);
    shared_store_release(at->ready, 1);
    client->touched_lanes |= UINT64_C(1) << lane;
}

void ring_pay(nigh_client *client)
{
    for (uint32_t lane = 0; lane < client->lanes; lane++) {
        for (uint16_t n = 0; n < LIMIT_RING_ENTRIES; n++) {
            const struct client_pending *place = &client->lane[lane].pending[n];
            struct session_sqe sqe = {.op = SESSION_OP_ABORT, .ref = place->ref};

            if (place->used && place->owed) {
                ring_send(client, lane, n, &sqe);
            }
        }
    }
}

void ring_submit(nigh_client *client, uint32_t lane, struct client_op *op, size_t step, bool waits,
                 struct session_sqe *sqe)
{
    ring_send(client, lane, ring_take_place(client, lane, op, step, waits), sqe);
}

void ring_bells(nigh_client *client, uint64_t lanes)
{
    const uint64_t one = 1;

    /* Between setting ready and looking whether the lane sleeps; the lane's fence stands between
     * saying that it sleeps and looking at ready. One of the two sees the other. */
    shared_fence();
    for (; lanes != 0; lanes &= lanes - 1) {
        uint32_t lane = (uint32_t)__builtin_ctzll(lanes);
        uint32_t asleep = shared_load_relaxed(&client->node_page->lane[lane].asleep);

        if (asleep != 0 && (client->driver == NULL || asleep != SESSION_ASLEEP_HAS_GUEST)) {
            (void)!write(client->lane[lane].doorbell, &one, sizeof(one));
        }
    }
}

void ring_flush(nigh_client *client)
{
    uint64_t lanes = client->touched_lanes;

    if (lanes != 0) {
        client->touched_lanes = 0;
        ring_bells(client, lanes);
    }
}

/* An internal submission, that nobody waits for. */
static void ring_submit_alone(nigh_client *client, uint32_t lane, enum session_op opcode,
                              uint64_t argument, uint64_t ref)
{
    /* No answer of this kind has a place: none may be given back for it. */
    struct session_sqe sqe = {
        .op = (uint8_t)opcode, .offset = UINT64_MAX, .argument = argument, .ref = ref};

    ring_submit(client, lane, NULL, 0, false, &sqe);
}

/* Tells the lane of what was given up while its ring was full. */
static void ring_send_cancels(nigh_client *client, uint32_t lane)
{
    struct client_lane *at = &client->lane[lane];

    for (uint32_t i = 0; i < LIMIT_RING_ENTRIES && at->cancels_wanted > 0; i++) {
        struct client_pending *place = &at->pending[i];

        if (!place->cancel_wanted) {
            continue;
        }
        if (at->in_flight == LIMIT_RING_ENTRIES) {
            return;
        }
        place->cancel_wanted = false;
        at->cancels_wanted--;
        ring_submit_alone(client, lane, SESSION_OP_CANCEL, place->sequence << 8 | i, 0);
    }
}

/* Whether the lane is told that nobody waits for this any more. A seal of a created object may wait
 * there, too, for its claim or for a copy; how many do is not counted, for gets of the same client
 * may wait for just these. */
static bool ring_may_wait(const struct client_pending *place)
{
    return place->waits || (place->created && place->opcode == SESSION_OP_SEAL);
}

static void ring_want_cancel(struct client_lane *lane, struct client_pending *place)
{
    lane->cancels_wanted += !place->cancel_wanted;
    place->cancel_wanted = true;
}

bool ring_cancel(nigh_client *client, const struct client_op *op)
{
    uint32_t lane = op->u.place.lane;
    struct client_lane *at = &client->lane[lane];

    for (uint32_t i = 0; i < LIMIT_RING_ENTRIES && at->in_flight > 0; i++) {
        struct client_pending *place = &at->pending[i];

        if (!place->used || place->op != op || place->opcode != SESSION_OP_REGION) {
            continue;
        }
        ring_want_cancel(at, place);
        ring_send_cancels(client, lane);
        ring_flush(client);
        return true;
    }
    return false;
}

void ring_forget(nigh_client *client, struct client_op *op)
{
    if (list_is_linked(&op->queue)) {
        list_remove(&op->queue);
    }
    if ((op->flags & OP_PAIRED) != 0) {
        pairs_forget(op);
        return;
    }
    for (uint32_t lane = 0; lane < client->lanes; lane++) {
        struct client_lane *at = &client->lane[lane];

        for (uint32_t i = 0; i < LIMIT_RING_ENTRIES && at->in_flight > 0; i++) {
            if (at->pending[i].op != op) {
                continue;
            }
            if (at->pending[i].copy == COPY_WANTED) {
                copies_forget(client, lane, (uint16_t)i);
                continue;
            }
            at->pending[i].op = NULL;
            if (ring_may_wait(&at->pending[i])) {
                ring_want_cancel(at, &at->pending[i]);
            }
        }
        ring_send_cancels(client, lane);
    }
    ring_flush(client);
}

void ring_undo_region(nigh_client *client, uint32_t lane, enum session_region_what what,
                      uint64_t number)
{
    struct session_sqe sqe = {
        .op = SESSION_OP_REGION, .offset = UINT64_MAX, .name_size = (uint16_t)what};

    memcpy(sqe.id, &number, sizeof(number));
    ring_submit(client, lane, NULL, 0, false, &sqe);
}

/* A result that nobody waits for any more is undone: a pin cleared, a created object given up. */
void ring_undo(nigh_client *client, uint32_t lane, uint8_t opcode, const struct session_cqe *cqe)
{
    if (cqe->status != NIGH_OK) {
        return;
    }
    if (opcode == SESSION_OP_GET && cqe->pin < LIMIT_LANE_PINS) {
        pin_clear(&client->lane[lane].shared->pin_entry[cqe->pin]);
    } else if (opcode == SESSION_OP_CREATE) {
        ring_submit_alone(client, lane, SESSION_OP_ABORT, 0, cqe->ref);
    } else if (opcode == SESSION_OP_RECEIVE && cqe->generation != 0) {
        /* It was not carried out, and its caller may say it again. */
        ring_submit_alone(client, lane, SESSION_OP_REPLY, cqe->generation,
                          (uint64_t)(int64_t)NIGH_BUSY);
    } else if (opcode == SESSION_OP_REGION && (cqe->flags & SESSION_CQE_OPENED) != 0) {
        ring_undo_region(client, lane, SESSION_REGION_CLOSE, cqe->generation);
    } else if (opcode == SESSION_OP_REGION && (cqe->flags & SESSION_CQE_MAPPED) != 0) {
        ring_undo_region(client, lane, SESSION_REGION_UNMAP, cqe->generation);
    } else if (opcode == SESSION_OP_SPACE) {
        spaces_undo(client, lane, cqe);
    }
}

/* One completion, copied out. False: no submission of ours has this cookie, or no such status is.
 */
static bool ring_take_one(nigh_client *client, uint32_t lane, const struct session_cqe *cqe)
{
    struct client_pending *place = &client->lane[lane].pending[cqe->cookie & 0xff];
    struct client_pending was = *place; /* what follows may take the place again */

    ORDER_HEARD();
    if ((cqe->cookie & 0xff) >= LIMIT_RING_ENTRIES || !place->used || place->copy != COPY_NONE ||
        place->sequence != cqe->cookie >> 8 || cqe->status > 0 ||
        cqe->status < NIGH_STATUS_LOWEST || cqe->status == NIGH_PENDING) {
        return false;
    }
    ring_drop(client, lane, (uint16_t)(cqe->cookie & 0xff));
    if (was.opcode == SESSION_OP_CALL_LEASE) {
        calls_leased(client, lane, cqe);
    } else if (cqe->lease_bytes != 0) {
        lease_granted(client, lane, cqe->lease_offset, cqe->lease_bytes);
    }
    if (was.asks_lease) {
        lease_answered(client, lane, cqe->lease_bytes != 0);
    }
    if (was.leased) {
        lease_sealed(client, lane, was.offset, cqe->status == NIGH_OK);
    }
    if (was.opcode == SESSION_OP_CALL || was.opcode == SESSION_OP_REPLY ||
        was.opcode == SESSION_OP_RECEIVE || was.opcode == SESSION_OP_COLLECT ||
        was.opcode == SESSION_OP_REGION || was.opcode == SESSION_OP_SPACE) {
        calls_give_place(client, lane, was.offset); /* who reads there does so before the next */
    }
    if (was.kept != NULL) {
        calls_kept_ended(client, lane, (uint16_t)(cqe->cookie & 0xff), &was, cqe);
    } else if (was.op == NULL) {
        ring_undo(client, lane, was.opcode, cqe);
    } else {
        op_step_done(was.op, was.step, was.opcode, cqe);
    }
    return true;
}

/* Takes in one lane's completions. False: what the node wrote there cannot be. */
static bool ring_take_lane(nigh_client *client, uint32_t lane)
{
    struct client_lane *at = &client->lane[lane];

    for (uint32_t n = 0; n < LIMIT_RING_ENTRIES; n++) {
        uint32_t head = atomic_load_explicit(&at->cq_head, memory_order_relaxed);
        uint32_t tail = shared_load_acquire(&at->shared->cq_tail.value);
        struct session_cqe cqe;

        if (head == tail) {
            break;
        }
        if (session_ring_used(tail, head, LIMIT_RING_ENTRIES) > LIMIT_RING_ENTRIES) {
            return false;
        }
        cqe = at->shared->cq[head & (LIMIT_RING_ENTRIES - 1)];
        /* Given back before the step goes on: its next submission may need the place. */
        atomic_store_explicit(&at->cq_head, head + 1, memory_order_relaxed);
        shared_store_release(&at->shared->cq_head.value, head + 1);
        at->silent_us = 0;
        if (!ring_take_one(client, lane, &cqe)) {
            return false;
        }
    }
    if (at->cancels_wanted > 0) {
        ring_send_cancels(client, lane);
    }
    return true;
}

static void ring_feed(nigh_client *client)
{
    LIST_FOREACH_SAFE(node, &client->feed)
    {
        op_feed(container_of(node, struct client_op, queue));
    }
}

void ring_take_in(nigh_client *client, const struct client_op *self)
{
    uint64_t ends = client->ends;
    bool waited =
        self != NULL && atomic_load_explicit(&self->status, memory_order_relaxed) == NIGH_PENDING;

    if (client->holds > 0) {
        return; /* from within a step: what called this is taking in already */
    }
    client_hold(client);
    for (uint32_t lane = 0; lane < client->lanes; lane++) {
        if (client->lane[lane].in_flight > 0 && !ring_take_lane(client, lane)) {
            client_lose(client, NIGH_PROTOCOL);
            break;
        }
    }
    pairs_take_in(client);
    if (!list_empty(&client->closing)) {
        regions_close_more(client);
    }
    if (!list_empty(&client->feed)) {
        ring_feed(client);
    }
    ring_flush(client);
    ends = client->ends - ends;
    if (waited && ends > 0 &&
        atomic_load_explicit(&self->status, memory_order_relaxed) != NIGH_PENDING) {
        ends--;
    }
    if (copies_are_wanted(client)) {
        client_ring_bell(client); /* whoever waits or polls has something to do */
        ends++;
    }
    if (ends > 0) {
        ring_tell(client);
    }
    client_let_go(client);
}

void ring_take_last(nigh_client *client)
{
    for (uint32_t lane = 0; lane < client->lanes; lane++) {
        if (client->lane[lane].in_flight > 0 && !ring_take_lane(client, lane)) {
            client_lose(client, NIGH_PROTOCOL);
            return;
        }
    }
}

void ring_tell(nigh_client *client)
{
    const uint64_t one = 1;

    if (atomic_load_explicit(&client->leading, memory_order_relaxed)) {
        (void)!write(client->lead_fd, &one, sizeof(one));
    }
    shared_fence();
    if (atomic_load_explicit(&client->front->waiting, memory_order_relaxed) != 0) {
        atomic_fetch_add_explicit(&client->front->wake, 1, memory_order_release);
        (void)futex_wake(&client->front->wake, INT_MAX);
    }
}

bool ring_has_completions(const nigh_client *client)
{
    uint64_t lanes = atomic_load_explicit(&client->busy_lanes, memory_order_relaxed);

    while (lanes != 0) {
        const struct client_lane *at = &client->lane[__builtin_ctzll(lanes)];

        lanes &= lanes - 1;
        if (shared_load_acquire(&at->shared->cq_tail.value) !=
            atomic_load_explicit(&at->cq_head, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

bool ring_has_events(const nigh_client *client)
{
    for (uint32_t i = 0; i < client->lanes; i++) {
        if (shared_load_acquire(&client->lane[i].shared->event_tail.value) !=
            atomic_load_explicit(&client->lane[i].event_head, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}
