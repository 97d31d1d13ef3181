/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the pool: taken from the lanes' event rings in the caller's thread. The lanes bound the
 * rings and say what was lost.
 */
#include <string.h>

#include "base/clock.h"
#include "client/attach.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/op.h"
#include "client/ring.h"
#include "client/socket.h"

nigh_status nigh_subscribe(nigh_client *client, uint32_t flags)
{
    const uint32_t known =
        NIGH_SUBSCRIBE_REPLAY | NIGH_SUBSCRIBE_CONFLICTS | NIGH_SUBSCRIBE_REGIONS;
    nigh_status status = client_check(client);
    struct client_op op;

    if (status != NIGH_OK) {
        return status;
    }
    if ((flags & ~known) != 0) {
        return error_set(client, NIGH_INVALID, "nigh_subscribe: unknown bits 0x%x in the flags",
                         flags & ~known);
    }
    op_init_all(&op, client, SESSION_OP_SUBSCRIBE, flags, NULL, NULL);
    status = op_run(&op);
    if (status == NIGH_OK) {
        client_lock(client);
        client->subscribed = true;
        client->hears = flags & ~NIGH_SUBSCRIBE_REPLAY;
        client_unlock(client);
    }
    return error_note(client, status);
}

/* Forgets what is still queued: it is of a subscription that has ended. */
static void watch_drop_events(nigh_client *client)
{
    for (uint32_t i = 0; i < client->lanes; i++) {
        struct client_lane *at = &client->lane[i];
        uint32_t tail = shared_load_acquire(&at->shared->event_tail.value);

        atomic_store_explicit(&at->event_head, tail, memory_order_relaxed);
        shared_store_release(&at->shared->event_head.value, tail);
    }
}

nigh_status nigh_unsubscribe(nigh_client *client)
{
    nigh_status status = client_check(client);
    struct client_op op;

    if (status != NIGH_OK) {
        return status;
    }
    op_init_all(&op, client, SESSION_OP_UNSUBSCRIBE, 0, NULL, NULL);
    status = op_run(&op);
    if (status == NIGH_OK || status == NIGH_NOT_FOUND) {
        client_lock(client);
        client->subscribed = false;
        atomic_store_explicit(&client->events_missed, false, memory_order_relaxed);
        watch_drop_events(client);
        client_unlock(client);
        ring_tell(client);
    }
    return error_note(client, status);
}

static bool watch_read(const struct session_event *from, nigh_event *event)
{
    uint32_t kind = from->kind_meta & 0xff;

    if (kind < NIGH_EVENT_SEALED || kind > NIGH_EVENT_REGION_RESIZED) {
        return false;
    }
    event->kind = (nigh_event_kind)kind;
    memcpy(event->id.bytes, from->id, sizeof(event->id.bytes));
    event->data_size = from->data_size;
    event->meta_size = from->kind_meta >> 8;
    return true;
}

/* One event of any lane, the lanes in turn. NIGH_TIMEOUT: none. Locked. */
static nigh_status watch_take(nigh_client *client, nigh_event *event)
{
    if (atomic_load_explicit(&client->events_missed, memory_order_relaxed)) {
        atomic_store_explicit(&client->events_missed, false, memory_order_relaxed);
        memset(event, 0, sizeof(*event));
        event->kind = NIGH_EVENT_OVERFLOW;
        return NIGH_OK;
    }
    for (uint32_t i = 0; i < client->lanes; i++) {
        struct client_lane *at = &client->lane[(client->event_lane + i) % client->lanes];
        uint32_t head = atomic_load_explicit(&at->event_head, memory_order_relaxed);
        uint32_t tail = shared_load_acquire(&at->shared->event_tail.value);
        struct session_event copy;

        if (head == tail) {
            continue;
        }
        if (session_ring_used(tail, head, LIMIT_EVENT_ENTRIES) > LIMIT_EVENT_ENTRIES) {
            client_lose(client, NIGH_PROTOCOL);
            return NIGH_PROTOCOL;
        }
        copy = at->shared->events[head % LIMIT_EVENT_ENTRIES];
        atomic_store_explicit(&at->event_head, head + 1, memory_order_relaxed);
        shared_store_release(&at->shared->event_head.value, head + 1);
        client->event_lane = (client->event_lane + i + 1) % client->lanes;
        if (!watch_read(&copy, event)) {
            client_lose(client, NIGH_PROTOCOL);
            return NIGH_PROTOCOL;
        }
        return NIGH_OK;
    }
    return NIGH_TIMEOUT;
}

nigh_status nigh_next_event(nigh_client *client, uint64_t timeout_us, nigh_event *event)
{
    nigh_status status = client_check(client);
    uint64_t deadline_us;
    bool subscribed;

    if (status != NIGH_OK) {
        return status;
    }
    if (event == NULL) {
        return error_set(client, NIGH_INVALID, "nigh_next_event: event is NULL");
    }
    deadline_us = op_deadline_us(timeout_us);
    for (;;) {
        client_lock(client);
        subscribed = client->subscribed;
        status = NIGH_OK;
        if (subscribed) {
            status = resume_ensure(client, LIMIT_NODE_GRACE_US);
        }
        if (subscribed && status == NIGH_OK) {
            status = watch_take(client, event);
        }
        if (status == NIGH_TIMEOUT) {
            socket_take_in_now_and_then(client);
        }
        client_unlock(client);
        if (!subscribed) {
            return error_set(client, NIGH_NOT_FOUND,
                             "nigh_next_event: this client has not subscribed: call nigh_subscribe "
                             "first");
        }
        if (status != NIGH_TIMEOUT ||
            (timeout_us == 0 || wait_for(client, NULL, deadline_us) == NIGH_TIMEOUT)) {
            return error_note(client, status);
        }
        status = client_check(client);
        if (status != NIGH_OK) {
            return status;
        }
    }
}
