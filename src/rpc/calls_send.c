/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls to other nodes: they wait for a place on a channel in the order in which they were begun,
 * the urgent before the others, then travel (calls.h). Of what was sent the channel keeps the
 * deadlines.
 */
#include <string.h>

#include "rpc/calls_internal.h"
#include "rpc/collect.h"

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

/* With its channel, for whatever reason that had: a time that is over need not be the call's. */
static bool is_lost(const struct pending *pending, nigh_status status, const uint8_t *payload,
                    uint64_t now_us)
{
    bool is_late = status == NIGH_TIMEOUT && now_us >= pending->call.deadline_us;

    return payload == NULL && status != NIGH_CANCELED && !is_late;
}

static void on_done(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                    uint64_t now_us)
{
    struct pending *pending = context;
    struct calls *calls = pending->calls;
    struct calls_end end = {.status = status, .bytes = payload, .count = bytes};
    enum calls_fate fate = CALLS_ANSWERED;
    uint32_t rank = pending->rank;

    calls_heard(calls, pending, payload != NULL, now_us);
    if (status == NIGH_PENDING) {
        fate = read_refusal(payload, bytes, &end);
    } else if (is_lost(pending, status, payload, now_us)) {
        fate = CALLS_LOST;
        end.status = NIGH_PEER_LOST;
    } else {
        end.answered = payload != NULL;
    }
    calls_came_back(calls, pending, fate, &end, now_us);
    (void)calls_send_waiting(calls, rank, now_us);
}

/* Of those that are not urgent one may go now whatever the urgent want. */
static bool others_turn(const struct calls *calls, uint32_t rank)
{
    return calls->urgent_run[rank] >= LIMIT_URGENT_RUN;
}

/* Whether a link may come still that is not there: it has not been lost, and has had less than its
 * time. Any server is one whose link is up, or another. */
static bool awaits_link(const struct pending *pending, uint64_t now_us)
{
    return pending->call.rank != CALLS_ANY && !pending->calls->lost[pending->rank] &&
           now_us < pending->link_us;
}

/* NIGH_OK: sent, and its end follows. NIGH_BUSY: its channel has no place now, or is awaited. */
static nigh_status send_pending(struct pending *pending, uint64_t now_us)
{
    struct calls *calls = pending->calls;
    const struct calls_call *call = &pending->call;
    const struct calls_shell *shell = &calls->config.shell;
    struct calls_wire wire = {.service = call->service, .uid = call->caller.uid};
    uint8_t head[sizeof(wire) + BULKS_HEAD];
    struct rpc_piece pieces[2] = {{.data = head, .bytes = sizeof(wire)}};
    struct rpc *channel = shell->channel(shell->context, pending->rank, call->service);
    uint32_t count = call->caller.bytes > 0 ? 2 : 1;
    nigh_status status;

    if (channel == NULL) {
        return awaits_link(pending, now_us) ? NIGH_BUSY : NIGH_PEER_LOST;
    }
    pieces[1].data = shell->bytes(shell->context, &call->caller);
    pieces[1].bytes = call->caller.bytes;
    if (pieces[1].data == NULL) {
        return NIGH_INVALID;
    }
    if (call->loan != NULL) {
        wire.bulks = bulks_parts(call->loan);
    }
    memcpy(head, &wire, sizeof(wire));
    if (call->collect != NULL) {
        memcpy(head + sizeof(wire), call->collect, sizeof(struct collect_wire));
        pieces[0].bytes += (uint32_t)sizeof(struct collect_wire);
    }
    if (call->one_way) {
        return rpc_one_way(channel, CALLS_METHOD, pieces, count, now_us);
    }
    if (!calls_may_go(calls, pending, channel, others_turn(calls, pending->rank), now_us)) {
        return NIGH_BUSY;
    }
    if (call->loan != NULL) {
        if (call->deadline_us <= now_us) {
            return NIGH_TIMEOUT; /* the channel would not send it, and nobody end the loan */
        }
        pieces[0].bytes += bulks_lend(call->loan, channel, head + sizeof(wire));
    }
    status = rpc_call(channel, call->collect != NULL ? CALLS_METHOD_COLLECT : CALLS_METHOD, pieces,
                      count, call->deadline_us, now_us, on_done, pending, &pending->number);
    if (status != NIGH_OK && call->loan != NULL) {
        bulks_unlend(call->loan, now_us);
    }
    pending->channel = channel;
    return status;
}

/* False: its channel has no place now, and it waits. */
static bool try_pending(struct pending *pending, uint64_t now_us)
{
    struct calls *calls = pending->calls;
    nigh_status status = send_pending(pending, now_us);
    bool is_sent;

    if (status == NIGH_BUSY) {
        return false;
    }
    is_sent = status == NIGH_OK && !pending->call.one_way;
    calls_stop_waiting(calls, pending, is_sent, now_us);
    timers_cancel(&calls->timers, &pending->timer);
    pending->state = PENDING_SENT;
    if (!is_sent) {
        status = status == NIGH_CLOSED ? NIGH_PEER_LOST : status;
        calls_came_back(calls, pending, status == NIGH_OK ? CALLS_ANSWERED : CALLS_REFUSED,
                        &(struct calls_end){.status = status}, now_us);
    }
    return true;
}

/* One of each service at most: a node may have several links to this lane, and of one link not all
 * may have a place. Of so many services: the others' turns come. */
static bool try_first(struct calls *calls, uint32_t rank, bool urgent, uint64_t now_us)
{
    const struct list *queue = calls_shares_waiting(calls, rank, urgent);
    const struct list_node *last = list_last(queue);
    bool goes_on = !list_empty(queue);

    for (uint32_t n = 0; n < LIMIT_SERVICES && goes_on; n++) {
        goes_on = list_first(queue) != last;
        if (try_pending(calls_next_waiting(calls, rank, urgent, now_us), now_us)) {
            return true;
        }
    }
    return false;
}

/* The urgent go first, but of so many in a row the others have one. */
static bool try_next(struct calls *calls, uint32_t rank, uint64_t now_us)
{
    bool others = !list_empty(calls_shares_waiting(calls, rank, false));
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

/* Whether it would wait for what does not come. */
static bool waits_in_vain(const struct pending *pending, uint64_t now_us)
{
    const struct calls_shell *shell = &pending->calls->config.shell;

    return !awaits_link(pending, now_us) &&
           shell->channel(shell->context, pending->rank, pending->call.service) == NULL;
}

bool calls_end_in_vain(struct pending *pending, uint64_t now_us)
{
    return waits_in_vain(pending, now_us) && try_pending(pending, now_us);
}

void calls_peer(struct calls *calls, uint32_t rank, bool is_lost, uint64_t now_us)
{
    if (rank >= calls->config.nodes) {
        return; /* no member: nobody calls it */
    }
    calls->lost[rank] = is_lost;
    (void)calls_send_waiting(calls, rank, now_us);
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
    uint64_t deadline_us = pending->call.deadline_us;
    bool is_first, waits;

    pending->link_us = now_us + LIMIT_CALL_LINK_US;
    is_first = calls_wait(calls, pending, now_us);
    if (is_first &&
        (pending->call.urgent || list_empty(calls_shares_waiting(calls, pending->rank, true)))) {
        waits = !try_pending(pending, now_us);
    } else {
        waits = !calls_end_in_vain(pending, now_us);
    }
    /* What is gone may have ended, and its place be another's. */
    if (waits) {
        calls->look_us = min_u64(calls->look_us, now_us + LIMIT_CALL_SILENT_US);
        calls_arm(calls, pending, deadline_us < pending->link_us ? deadline_us : pending->link_us);
    }
}
