/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's side of a channel: calls and one-way messages that start, wait for a credit, are
 * sent, and end. Each call ends in rpc_slot_end or rpc_slot_replied, and nowhere else.
 */
#include "rpc/rpc_internal.h"

#include <string.h>

#include "base/check.h"

/* ---- numbers ---- */

uint64_t rpc_slot_call(const struct rpc *rpc, const struct rpc_slot *slot)
{
    return slot->generation << rpc->slot_bits | (uint64_t)(slot - rpc->slots);
}

struct rpc_slot *rpc_slot_named(const struct rpc *rpc, uint64_t call)
{
    uint64_t place = call & ((UINT64_C(1) << rpc->slot_bits) - 1);

    if (place >= rpc->config.calls || call >> rpc->slot_bits == 0) {
        return NULL;
    }
    return &rpc->slots[place];
}

/* ---- slots ---- */

void rpc_slot_free(struct rpc *rpc, struct rpc_slot *slot)
{
    if (list_is_linked(&slot->link)) {
        list_remove(&slot->link); /* nothing to cancel any more */
    }
    slot->state = RPC_SLOT_FREE;
    slot->done = NULL;
    slot->context = NULL;
    list_push_back(&rpc->free_slots, &slot->link);
}

/* Ends the call of a slot that is settled, and may be in use again: the last thing one does. */
static void tell(struct rpc *rpc, rpc_done *done, void *context, nigh_status status,
                 const uint8_t *payload, uint32_t bytes, uint64_t now_us)
{
    rpc->depth++;
    done(context, status, payload, bytes, now_us);
    rpc->depth--;
}

void rpc_slot_replied(struct rpc *rpc, struct rpc_slot *slot, nigh_status status,
                      const uint8_t *payload, uint32_t bytes, uint64_t now_us)
{
    rpc_done *done = slot->done;
    void *context = slot->context;
    bool late = slot->state == RPC_SLOT_HELD;

    NIGH_ASSERT(late || slot->state == RPC_SLOT_SENT);
    timers_cancel(&rpc->timers, &slot->timer);
    rpc_slot_free(rpc, slot);
    if (late) {
        rpc->counters.late_replies++;
        return;
    }
    rpc->counters.replies++;
    rpc->pending--;
    tell(rpc, done, context, status, payload, bytes, now_us);
}

static void send_cancel(struct rpc *rpc, const struct rpc_slot *slot)
{
    struct rpc_header header = {.kind = RPC_CANCEL, .call = rpc_slot_call(rpc, slot)};

    rpc->credits--;
    rpc_send(rpc, header, NULL, 0);
}

/* The peer may reply still, and needs the slot's receive for it: the slot is free only then. A
 * CANCEL makes that soon. */
static void slot_hold(struct rpc *rpc, struct rpc_slot *slot)
{
    slot->state = RPC_SLOT_HELD;
    slot->done = NULL;
    slot->context = NULL;
    if (rpc->credits > 0) {
        send_cancel(rpc, slot);
    } else {
        list_push_back(&rpc->cancels, &slot->link);
    }
}

void rpc_slot_end(struct rpc *rpc, struct rpc_slot *slot, nigh_status reason, uint64_t now_us)
{
    rpc_done *done = slot->done;
    void *context = slot->context;

    rpc->pending--;
    timers_cancel(&rpc->timers, &slot->timer);
    if (slot->waiter != NULL) {
        rpc_waiter_free(rpc, slot->waiter);
        slot->waiter = NULL;
    }
    if (slot->state == RPC_SLOT_SENT && !rpc->ended) {
        slot_hold(rpc, slot);
    } else {
        rpc_slot_free(rpc, slot);
    }
    tell(rpc, done, context, reason, NULL, 0, now_us);
}

/* ---- the queue ---- */

void rpc_waiter_free(struct rpc *rpc, struct rpc_waiter *waiter)
{
    list_remove(&waiter->link);
    if (waiter->is_shared) {
        rpc->shared--;
        rpc->config.pool->free_count++;
        list_push_front(&rpc->config.pool->free, &waiter->link);
    } else {
        list_push_front(&rpc->free_waiters, &waiter->link);
    }
}

bool rpc_has_place(const struct rpc *rpc)
{
    return !list_empty(&rpc->free_waiters) ||
           (rpc->config.pool != NULL && rpc->shared < rpc->config.pool->free_count);
}

static struct rpc_waiter *waiter_take(struct rpc *rpc)
{
    struct list *from = &rpc->free_waiters;

    NIGH_ASSERT(rpc_has_place(rpc));
    if (list_empty(from)) {
        from = &rpc->config.pool->free;
        rpc->config.pool->free_count--;
        rpc->shared++;
    }
    return container_of(list_pop_front(from), struct rpc_waiter, link);
}

static void enqueue(struct rpc *rpc, uint64_t call, uint16_t method, const struct rpc_piece *pieces,
                    uint32_t count)
{
    struct rpc_waiter *waiter = waiter_take(rpc);

    waiter->call = call;
    waiter->method = method;
    waiter->bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (pieces[i].bytes > 0) {
            memcpy(waiter->payload + waiter->bytes, pieces[i].data, pieces[i].bytes);
            waiter->bytes += pieces[i].bytes;
        }
    }
    list_push_back(&rpc->queue, &waiter->link);
    rpc->counters.queued++;
    if (call != 0) {
        rpc_slot_named(rpc, call)->waiter = waiter;
    }
}

/* Rounded up, so that what has still some time does not arrive without any. */
static uint32_t left_ms(const struct timer *timer, uint64_t now_us)
{
    uint64_t left_us;

    if (!timer_is_armed(timer)) {
        return UINT32_MAX;
    }
    left_us = timer->deadline_us - now_us;
    return (uint32_t)min_u64(left_us / 1000 + (left_us % 1000 != 0), UINT32_MAX - 1);
}

static void send_request(struct rpc *rpc, struct rpc_slot *slot, uint16_t method,
                         const struct rpc_piece *pieces, uint32_t count, uint64_t now_us)
{
    struct rpc_header header = {
        .kind = RPC_REQUEST,
        .method = method,
        .call = rpc_slot_call(rpc, slot),
        .left_ms = left_ms(&slot->timer, now_us),
    };

    slot->state = RPC_SLOT_SENT;
    rpc->credits--;
    rpc_send(rpc, header, pieces, count);
}

static void send_one_way(struct rpc *rpc, uint16_t method, const struct rpc_piece *pieces,
                         uint32_t count)
{
    struct rpc_header header = {.kind = RPC_ONE_WAY, .method = method};

    rpc->credits--;
    rpc_send(rpc, header, pieces, count);
}

static bool slot_is_late(const struct rpc_slot *slot, uint64_t now_us)
{
    return timer_is_armed(&slot->timer) && slot->timer.deadline_us <= now_us;
}

/* Takes the first of the queue and sends it, unless it is too late for that: rpc_tick, which has
 * not come yet, ends it. */
static void send_first(struct rpc *rpc, uint64_t now_us)
{
    struct rpc_waiter *waiter = container_of(list_first(&rpc->queue), struct rpc_waiter, link);
    struct rpc_piece piece = {.data = waiter->payload, .bytes = waiter->bytes};

    if (waiter->call == 0) {
        send_one_way(rpc, waiter->method, &piece, 1);
    } else {
        struct rpc_slot *slot = rpc_slot_named(rpc, waiter->call);

        slot->waiter = NULL;
        if (!slot_is_late(slot, now_us)) {
            send_request(rpc, slot, waiter->method, &piece, 1, now_us);
        }
    }
    rpc_waiter_free(rpc, waiter);
}

void rpc_drain(struct rpc *rpc, uint64_t now_us)
{
    while (rpc->credits > 0 && !list_empty(&rpc->cancels)) {
        send_cancel(rpc, container_of(list_pop_front(&rpc->cancels), struct rpc_slot, link));
    }
    while (rpc->credits > 0 && !list_empty(&rpc->queue)) {
        send_first(rpc, now_us);
    }
}

/* ---- calls ---- */

/* NIGH_OK: a frame of these pieces may be sent now (there is a credit) or has room in the queue. */
static nigh_status may_start(const struct rpc *rpc, const struct rpc_piece *pieces, uint32_t count)
{
    if (rpc->ended) {
        return NIGH_CLOSED;
    }
    if (rpc_pieces_bytes(pieces, count) > rpc->config.payload_bytes) {
        return NIGH_INVALID;
    }
    if (rpc->credits == 0 && !rpc_has_place(rpc)) {
        return NIGH_BUSY;
    }
    return NIGH_OK;
}

static struct rpc_slot *slot_take(struct rpc *rpc, uint64_t deadline_us, rpc_done *done,
                                  void *context)
{
    struct rpc_slot *slot = container_of(list_pop_front(&rpc->free_slots), struct rpc_slot, link);

    slot->generation++; /* of 52 bits at least: it does not come again */
    slot->state = RPC_SLOT_WAITING;
    slot->done = done;
    slot->context = context;
    if (deadline_us != UINT64_MAX) {
        nigh_status status = timers_add(&rpc->timers, &slot->timer, deadline_us);
        NIGH_ASSERT(status == NIGH_OK);
    }
    rpc->pending++;
    rpc->counters.calls++;
    return slot;
}

nigh_status rpc_call(struct rpc *rpc, uint16_t method, const struct rpc_piece *pieces,
                     uint32_t count, uint64_t deadline_us, uint64_t now_us, rpc_done *done,
                     void *context, uint64_t *call)
{
    nigh_status status = may_start(rpc, pieces, count);
    struct rpc_slot *slot;

    if (status != NIGH_OK) {
        return status;
    }
    if (list_empty(&rpc->free_slots)) {
        return NIGH_BUSY;
    }
    slot = slot_take(rpc, deadline_us, done, context);
    if (call != NULL) {
        *call = rpc_slot_call(rpc, slot);
    }
    if (slot_is_late(slot, now_us)) {
        return NIGH_OK; /* never sent; rpc_tick ends it */
    }
    if (rpc->credits > 0) {
        send_request(rpc, slot, method, pieces, count, now_us);
    } else {
        enqueue(rpc, rpc_slot_call(rpc, slot), method, pieces, count);
    }
    return NIGH_OK;
}

nigh_status rpc_one_way(struct rpc *rpc, uint16_t method, const struct rpc_piece *pieces,
                        uint32_t count, uint64_t now_us)
{
    nigh_status status = may_start(rpc, pieces, count);

    (void)now_us;
    if (status != NIGH_OK) {
        return status;
    }
    rpc->counters.one_ways++;
    if (rpc->credits > 0) {
        send_one_way(rpc, method, pieces, count);
    } else {
        enqueue(rpc, 0, method, pieces, count);
    }
    return NIGH_OK;
}

bool rpc_cancel(struct rpc *rpc, uint64_t call, uint64_t now_us)
{
    struct rpc_slot *slot = rpc_slot_named(rpc, call);

    if (slot == NULL || rpc_slot_call(rpc, slot) != call ||
        (slot->state != RPC_SLOT_WAITING && slot->state != RPC_SLOT_SENT)) {
        return false;
    }
    rpc->counters.canceled++;
    rpc_slot_end(rpc, slot, NIGH_CANCELED, now_us);
    return true;
}

uint64_t rpc_tick(struct rpc *rpc, uint64_t now_us)
{
    for (uint32_t i = 0; i < LIMIT_TURN_TIMERS; i++) {
        struct timer *timer = timers_pop_expired(&rpc->timers, now_us);

        if (timer == NULL) {
            break;
        }
        rpc->counters.timeouts++;
        rpc_slot_end(rpc, container_of(timer, struct rpc_slot, timer), NIGH_TIMEOUT, now_us);
    }
    return timers_first_deadline(&rpc->timers);
}
