/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are received, by services without a handler, and the answers to all: a receive may
 * take an answer with it. One that a pair has served stays with the lane, for the next.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "client/calls.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/op.h"
#include "client/pairs.h"
#include "client/places.h"
#include "client/ring.h"
#include "client/services.h"

/* A node that began anew knows neither the requests nor the services of the one before; what it has
 * itself may go by the same numbers. */
static bool is_of_before(const struct client_op *op)
{
    return !calls_is_now(op->client, op->u.call.incarnation);
}

/* ---- answers -------------------------------------------------------------- */

static void reply_fill(struct client_op *op, struct session_sqe *sqe)
{
    place_write(op, place_take(op, sqe));
    sqe->op = SESSION_OP_REPLY;
    sqe->argument = op->u.call.id;
    sqe->ref = (uint64_t)(int64_t)op->u.call.answer;
}

/* Places are kept for answers: they end calls of others, which may wait for just these. */
static bool reply_has_room(struct client_op *op)
{
    return place_may_be_had(op, 0) || place_is_overdue(op);
}

static bool reply_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    if (is_of_before(op)) {
        op_fail(op, NIGH_NOT_FOUND);
        return false;
    }
    return place_build(op, sqe, reply_fill);
}

static bool reply_done(struct client_op *op, size_t step, uint8_t opcode,
                       const struct session_cqe *cqe)
{
    if (opcode == SESSION_OP_CALL_LEASE) {
        return place_goes_on(op, step, cqe, reply_fill);
    }
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
    }
    return false;
}

static const struct op_kind reply_kind = {
    .lane = place_lane,
    .build = reply_build,
    .done = reply_done,
    .has_room = reply_has_room,
};

nigh_status calls_reply_later(nigh_client *client, const nigh_request *request, nigh_status answer,
                              const void *bytes, uint32_t count)
{
    uint32_t lane = (uint32_t)request->opaque[1];
    struct client_op op;
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if (lane >= client->lanes || !client->may_write) {
        return error_note(client, client->may_write ? NIGH_INVALID : NIGH_DENIED);
    }
    op_init(&op, client, &reply_kind, 1, UINT64_MAX);
    op.u.call.spec = NULL;
    op.u.call.receives = NULL;
    op.u.call.id = request->opaque[0];
    op.u.call.incarnation = (uint32_t)(request->opaque[1] >> 32);
    op.u.place.bytes = bytes;
    op.u.place.count = count;
    op.u.place.lane = lane;
    op.u.call.answer = answer;
    return error_note(client, op_run(&op));
}

/* ---- receives that stay with the lane ------------------------------------- */

static bool receive_has_place(const struct client_op *op)
{
    return place_is_free(op, LIMIT_REPLY_PLACES);
}

/* A receive that is overdue looks all the same. */
static bool receive_is_overdue(const struct client_op *op)
{
    return place_is_overdue(op) && !receive_has_place(op);
}

static bool receive_keeps(const struct client_op *op)
{
    return op->u.call.receives->kept_count > 0;
}

/* The place of its RECEIVE, which op->u.call.rank says where it is one that was kept before. */
static struct client_pending *receive_place(struct client_op *op, uint16_t *number)
{
    struct client_lane *at = &op->client->lane[op->u.place.lane];

    if (op->u.call.rank < LIMIT_RING_ENTRIES && at->pending[op->u.call.rank].op == op) {
        *number = (uint16_t)op->u.call.rank;
        return &at->pending[*number];
    }
    for (uint16_t n = 0; n < LIMIT_RING_ENTRIES; n++) {
        if (at->pending[n].op == op) {
            *number = n;
            return &at->pending[n];
        }
    }
    return NULL;
}

void calls_release_receive(struct client_op *op)
{
    nigh_service *service = op->u.call.receives;
    uint16_t number;
    struct client_pending *place = receive_place(op, &number);

    /* It is in waiting, where there is room for as many as here. */
    if (place != NULL && service->kept_count < LIMIT_RECEIVES) {
        place->op = NULL;
        place->kept = service;
        service->kept[service->kept_count++] = number;
    }
}

/* Goes on with a RECEIVE that is there. */
static void receive_take_kept(struct client_op *op)
{
    nigh_service *service = op->u.call.receives;
    uint16_t number = service->kept[--service->kept_count];
    struct client_pending *place = &op->client->lane[op->u.place.lane].pending[number];

    place->kept = NULL;
    place->op = op;
    place->step = 0;
    op->u.call.rank = number;
    op->u.place.offset = place->offset;
}

static void receive_waits(struct client_op *op)
{
    nigh_service *service = op->u.call.receives;

    if (service->waiting_count < LIMIT_RECEIVES) {
        service->waiting[service->waiting_count++] = op;
        pairs_want(service);
    }
}

/* Its service may be gone. */
static void receive_ended(struct client_op *op)
{
    LIST_FOREACH_SAFE(node, &op->client->services)
    {
        nigh_service *service = container_of(node, nigh_service, place);

        for (uint32_t n = 0; service == op->u.call.receives && n < service->waiting_count; n++) {
            if (service->waiting[n] != op) {
                continue;
            }
            service->waiting_count--;
            memmove(&service->waiting[n], &service->waiting[n + 1],
                    (service->waiting_count - n) * sizeof(service->waiting[0]));
            pairs_want(service);
            return;
        }
    }
}

/* Those whose callers do not wait any more are nobody's. False: none is left. */
static bool came_is_left(nigh_service *service)
{
    uint64_t now_us = list_empty(&service->came) ? 0 : clock_now_us(&clock_monotonic);

    LIST_FOREACH_SAFE(node, &service->came)
    {
        struct service_request *came = container_of(node, struct service_request, place);

        if (came->deadline_us > now_us) {
            return true;
        }
        list_remove(&came->place);
        free(came);
    }
    return false;
}

/* The first, of one at least. */
static void came_take(nigh_service *service, nigh_request *request, void *buffer)
{
    struct service_request *came =
        container_of(list_pop_front(&service->came), struct service_request, place);
    size_t before = (size_t)((const uint8_t *)came->request.bytes - came->bytes);

    *request = came->request;
    memcpy(buffer, came->bytes, before + came->request.size);
    request->bytes = (const uint8_t *)buffer + before;
    request->timeout_us = clock_left_us(clock_now_us(&clock_monotonic), came->deadline_us);
    free(came);
}

bool calls_take_came(nigh_service *service, nigh_request *request, void *buffer)
{
    if (!came_is_left(service)) {
        return false;
    }
    came_take(service, request, buffer);
    return true;
}

/* ---- its steps ------------------------------------------------------------ */

/* A receive that answers must not wait with the answer for a place, nor for a request where one is
 * here, nor keep one of the places for answers until a request comes: the answer goes alone, before
 * it. */
static bool receive_goes_apart(const struct client_op *op)
{
    return op->u.call.answers &&
           (!receive_has_place(op) || receive_keeps(op) || !list_empty(&op->u.call.receives->came));
}

/* Whether it could make a RECEIVE, or needs none. */
static bool receive_may_ask(struct client_op *op)
{
    return place_may_be_had(op, LIMIT_REPLY_PLACES) || receive_is_overdue(op) ||
           receive_goes_apart(op) || receive_keeps(op);
}

/* A request that is here needs no place. */
static bool receive_has_room(struct client_op *op)
{
    return came_is_left(op->u.call.receives) || receive_may_ask(op);
}

/* What was here is there still for who got in for it alone, be it late by now. */
static bool receive_takes_came(struct client_op *op)
{
    nigh_service *service = op->u.call.receives;

    if (op->u.call.answers || list_empty(&service->came)) {
        return false;
    }
    if (receive_may_ask(op)) {
        return calls_take_came(service, op->u.call.into, op->u.call.buffer);
    }
    came_take(service, op->u.call.into, op->u.call.buffer);
    return true;
}

static void receive_fill(struct client_op *op, struct session_sqe *sqe)
{
    struct session_receive_id id = {
        .hash = op->u.call.hash, .request = op->u.call.id, .status = op->u.call.answer};

    place_write(op, place_take(op, sqe));
    sqe->op = SESSION_OP_RECEIVE;
    sqe->flags = op->u.call.answers ? SESSION_FLAG_ANSWER : 0;
    memcpy(sqe->id, &id, sizeof(sqe->id));
    sqe->argument = op_remaining_us(op);
    /* Where there are pairs it may serve a later receive, too: this client looks at the time. */
    if (sqe->argument > 0 && op->u.call.receives->pair_mask != 0) {
        sqe->argument = NIGH_FOREVER;
    }
}

static bool receive_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    if (is_of_before(op)) {
        op_fail(op, NIGH_CLOSED);
        return false;
    }
    if (receive_goes_apart(op)) {
        op->u.call.apart = true;
        return false;
    }
    if (receive_takes_came(op)) {
        return false; /* it was here */
    }
    if (receive_keeps(op)) {
        receive_take_kept(op);
        receive_waits(op);
        return true;
    }
    if (receive_is_overdue(op)) {
        op_fail(op, NIGH_BUSY); /* no receive was made that could have found a request */
        return false;
    }
    if (places_of(op)->count == 0) {
        place_ask_memory(op, sqe);
        return true;
    }
    receive_fill(op, sqe);
    receive_waits(op);
    return true;
}

static void receive_show(nigh_service *service, uint32_t lane, const struct session_cqe *cqe,
                         uint64_t offset, nigh_request *request, void *buffer)
{
    size_t size = (size_t)min_u64(cqe->data_size, LIMIT_CALL_BYTES);

    memcpy(buffer, calls_bytes(service->client, lane, offset), size);
    *request = (nigh_request){
        .service = service,
        .bytes = buffer,
        .size = size,
        .rank = cqe->ref,
        .uid = cqe->meta_size,
        .is_one_way = cqe->generation == 0,
        .timeout_us = cqe->offset == UINT64_MAX ? NIGH_FOREVER : cqe->offset,
        .opaque = {cqe->generation, calls_where(service->client, lane)},
    };
    calls_split(request, cqe->name_size);
}

void calls_kept_ended(nigh_client *client, uint32_t lane, uint16_t number,
                      const struct client_pending *was, const struct session_cqe *cqe)
{
    nigh_service *service = was->kept;
    struct service_request *came;

    for (uint32_t n = 0; n < service->kept_count; n++) {
        if (service->kept[n] == number) {
            service->kept[n] = service->kept[--service->kept_count];
            break;
        }
    }
    if (cqe->status != NIGH_OK) {
        return;
    }
    if (service->waiting_count > 0) { /* by a RECEIVE of its own, which serves the next */
        struct client_op *op = service->waiting[0];

        receive_show(service, lane, cqe, was->offset, op->u.call.into, op->u.call.buffer);
        calls_release_receive(op);
        op_step_ended(op);
        return;
    }
    came = malloc(sizeof(*came) + (size_t)min_u64(cqe->data_size, LIMIT_CALL_BYTES));
    if (came == NULL) {
        ring_undo(client, lane, SESSION_OP_RECEIVE, cqe);
        return;
    }
    came->place = (struct list_node){0};
    receive_show(service, lane, cqe, was->offset, &came->request, came->bytes);
    came->deadline_us = op_deadline_us(came->request.timeout_us);
    list_push_back(&service->came, &came->place);
}

/* One that was kept had the deadline of who asked first. */
static bool receive_goes_on(struct client_op *op, size_t step, const struct session_cqe *cqe)
{
    struct session_sqe sqe = {0};

    if (cqe->status != NIGH_TIMEOUT || op_remaining_us(op) == 0 || !receive_has_place(op) ||
        op->u.call.answers) {
        return false;
    }
    receive_fill(op, &sqe);
    op_go_on(op, step, op->u.place.lane, op->kind->waits, &sqe);
    return true;
}

/* There is memory for it now, or none can be had. */
static bool receive_begins(struct client_op *op, size_t step, const struct session_cqe *cqe)
{
    struct session_sqe sqe = {0};

    if (!place_came(op, cqe)) {
        return false;
    }
    if (receive_is_overdue(op)) {
        op_fail(op, NIGH_TIMEOUT);
        return false;
    }
    receive_fill(op, &sqe);
    receive_waits(op);
    op_go_on(op, step, op->u.place.lane, op->kind->waits, &sqe);
    return true;
}

static bool receive_done(struct client_op *op, size_t step, uint8_t opcode,
                         const struct session_cqe *cqe)
{
    if (opcode == SESSION_OP_CALL_LEASE) {
        return receive_begins(op, step, cqe);
    }
    if (cqe->status == NIGH_OK) {
        receive_show(op->u.call.receives, op->u.place.lane, cqe, op->u.place.offset,
                     op->u.call.into, op->u.call.buffer);
        return false;
    }
    if (receive_goes_on(op, step, cqe)) {
        return true;
    }
    op_fail(op, (nigh_status)cqe->status);
    return false;
}

static nigh_status receive_tell(const struct client_op *op, nigh_status status)
{
    switch (status) {
    case NIGH_CLOSED:
        return error_set(op->client, status,
                         "the service has ended, or its node began anew: register it again");
    case NIGH_BUSY:
        return error_set(op->client, status,
                         "%d receives of this service wait already, or receives and calls of this "
                         "client have all places",
                         LIMIT_RECEIVES);
    default: return op_note(op, status);
    }
}

static const struct op_kind receive_kind = {
    .lane = place_lane,
    .build = receive_build,
    .done = receive_done,
    .has_room = receive_has_room,
    .ended = receive_ended,
    .tell = receive_tell,
    .waits = true,
};

void calls_forget_service(nigh_service *service)
{
    nigh_client *client = service->client;
    struct client_lane *at = &client->lane[index_hash_lane(service->session.hash, client->lanes)];

    while (service->kept_count > 0) {
        at->pending[service->kept[--service->kept_count]].kept = NULL;
    }
    while (!list_empty(&service->came)) {
        free(container_of(list_pop_front(&service->came), struct service_request, place));
    }
    LIST_FOREACH_SAFE(node, &client->feed)
    {
        struct client_op *op = container_of(node, struct client_op, queue);

        if (op->kind == &receive_kind && op->u.call.receives == service) {
            op_end_all(op, NIGH_CLOSED);
        }
    }
}

void calls_reset_services(nigh_client *client)
{
    LIST_FOREACH_SAFE(node, &client->services)
    {
        calls_forget_service(container_of(node, nigh_service, place));
    }
}

void calls_receive(struct client_op *op, nigh_client *client, const struct calls_receive *receive)
{
    op_init(op, client, &receive_kind, 1, op_deadline_us(receive->timeout_us));
    op->u.call.spec = NULL;
    op->u.call.receives = receive->service;
    op->u.call.into = receive->into;
    op->u.call.buffer = receive->buffer;
    op->u.call.hash = receive->hash;
    op->u.place.lane = index_hash_lane(receive->hash, client->lanes);
    op->u.call.answers = receive->answers != NULL;
    op->u.call.apart = false;
    op->u.call.rank = LIMIT_RING_ENTRIES;
    op->u.call.id = receive->answers != NULL ? receive->answers->opaque[0] : 0;
    op->u.call.answer = receive->status;
    op->u.call.incarnation = receive->incarnation;
    op->u.place.bytes = receive->bytes;
    op->u.place.count = receive->count;
}

bool calls_receive_apart(const struct client_op *op)
{
    return op->u.call.apart;
}

nigh_status calls_receive_told(const struct client_op *op, nigh_status status)
{
    return status == NIGH_OK ? status : receive_tell(op, status);
}
