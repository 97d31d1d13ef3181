/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls to other nodes: they wait for a place on a channel in the order in which they were begun,
 * the urgent before the others, then travel (calls.h). Of what was sent the channel keeps the
 * deadlines.
 */
#include <string.h>

#include "rpc/calls_internal.h"

/* Of so many places of a channel one is kept for what is urgent. */
#define KEEP_ONE_OF 8u

/* What a node has answered instead of a service. */
static enum calls_fate read_refusal(const uint8_t *payload, uint32_t bytes, struct calls_end *end)
{
    struct calls_refusal said;

    *end = (struct calls_end){.status = NIGH_PROTOCOL};
    if (bytes != sizeof(said)) {
        return CALLS_ANSWERED;
    }
    memcpy(&said, payload, sizeof(said));
    if (said.status >= NIGH_OK || said.status < NIGH_STATUS_LOWEST || said.status == NIGH_PENDING) {
        return CALLS_ANSWERED;
    }
    end->status = (nigh_status)said.status;
    return said.taken != 0 ? CALLS_LOST : CALLS_REFUSED;
}

static void on_done(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                    uint64_t now_us)
{
    struct pending *pending = context;
    struct calls *calls = pending->calls;
    struct calls_end end = {.status = status, .bytes = payload, .count = bytes};
    enum calls_fate fate = CALLS_ANSWERED;
    uint32_t rank = pending->rank;

    if (status == NIGH_PENDING) {
        fate = read_refusal(payload, bytes, &end);
    } else if (payload == NULL && status != NIGH_TIMEOUT && status != NIGH_CANCELED) {
        fate = CALLS_LOST; /* with its channel */
    }
    calls_came_back(calls, pending, fate, &end, now_us);
    (void)calls_send_waiting(calls, rank, now_us);
}

/* Of those that are not urgent one may go now whatever the urgent want. */
static bool others_turn(const struct calls *calls, uint32_t rank)
{
    return calls->urgent_run[rank] >= LIMIT_URGENT_RUN;
}

/* Whether its channel's last places are kept from it. */
static bool is_kept(const struct calls *calls, const struct pending *pending,
                    const struct rpc *channel)
{
    uint32_t places = calls->config.channel_calls;

    return !pending->call.urgent && !others_turn(calls, pending->rank) && places > 0 &&
           rpc_pending(channel) + places / KEEP_ONE_OF >= places;
}

/* NIGH_OK: sent, and its end follows. NIGH_BUSY: its channel has no place now. */
static nigh_status send_pending(struct pending *pending, uint64_t now_us)
{
    struct calls *calls = pending->calls;
    const struct calls_call *call = &pending->call;
    const struct calls_shell *shell = &calls->config.shell;
    struct calls_wire wire = {.service = call->service, .uid = call->caller.uid};
    struct rpc_piece pieces[2] = {{.data = &wire, .bytes = sizeof(wire)}};
    struct rpc *channel = shell->channel(shell->context, pending->rank, call->service);
    uint32_t count = call->caller.bytes > 0 ? 2 : 1;
    nigh_status status;

    if (channel == NULL) {
        return NIGH_PEER_LOST;
    }
    pieces[1].data = shell->bytes(shell->context, &call->caller);
    pieces[1].bytes = call->caller.bytes;
    if (pieces[1].data == NULL) {
        return NIGH_INVALID;
    }
    if (call->one_way) {
        return rpc_one_way(channel, CALLS_METHOD, pieces, count, now_us);
    }
    if (is_kept(calls, pending, channel)) {
        return NIGH_BUSY;
    }
    status = rpc_call(channel, CALLS_METHOD, pieces, count, call->deadline_us, now_us, on_done,
                      pending, &pending->number);
    pending->channel = channel;
    return status;
}

/* False: its channel has no place now, and it waits. */
static bool try_pending(struct pending *pending, uint64_t now_us)
{
    struct calls *calls = pending->calls;
    nigh_status status = send_pending(pending, now_us);

    if (status == NIGH_BUSY) {
        return false;
    }
    list_remove(&pending->queue);
    timers_cancel(&calls->timers, &pending->timer);
    calls->waiting_count--;
    pending->state = PENDING_SENT;
    if (status != NIGH_OK || pending->call.one_way) {
        status = status == NIGH_CLOSED ? NIGH_PEER_LOST : status;
        calls_came_back(calls, pending, status == NIGH_OK ? CALLS_ANSWERED : CALLS_REFUSED,
                        &(struct calls_end){.status = status}, now_us);
    }
    return true;
}

static struct list *queue_of(const struct calls *calls, uint32_t rank, bool urgent)
{
    return &calls->waiting[rank * CALLS_QUEUES + (urgent ? 0 : 1)];
}

static bool try_first(struct calls *calls, uint32_t rank, bool urgent, uint64_t now_us)
{
    struct list *queue = queue_of(calls, rank, urgent);

    return !list_empty(queue) &&
           try_pending(container_of(list_first(queue), struct pending, queue), now_us);
}

/* The urgent go first, but of so many in a row the others have one. */
static bool try_next(struct calls *calls, uint32_t rank, uint64_t now_us)
{
    bool others = !list_empty(queue_of(calls, rank, false));
    bool turns = others && others_turn(calls, rank);

    if (turns && try_first(calls, rank, false, now_us)) {
        calls->urgent_run[rank] = 0;
        return true;
    }
    if (try_first(calls, rank, true, now_us)) {
        calls->urgent_run[rank] += others ? 1 : 0;
        return true;
    }
    if (turns || !try_first(calls, rank, false, now_us)) {
        return false;
    }
    calls->urgent_run[rank] = 0;
    return true;
}

bool calls_send_waiting(struct calls *calls, uint32_t rank, uint64_t now_us)
{
    bool any = false;

    while (try_next(calls, rank, now_us)) {
        any = true;
    }
    return any;
}

void calls_send(struct calls *calls, struct pending *pending, uint64_t now_us)
{
    struct list *queue = queue_of(calls, pending->rank, pending->call.urgent);
    bool is_first = list_empty(queue);

    pending->state = PENDING_WAITING;
    list_push_back(queue, &pending->queue);
    calls->waiting_count++;
    calls_arm(calls, pending, pending->call.deadline_us);
    if (is_first && (pending->call.urgent || list_empty(queue_of(calls, pending->rank, true)))) {
        (void)try_pending(pending, now_us);
    }
}
