/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services. One with a handler is of an embedded node, which calls it; any other receives its
 * requests through the rings of the lane that its calls come to.
 */
#include <stdlib.h>
#include <string.h>

#include "client/calls.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/op.h"
#include "client/pairs.h"
#include "client/places.h"
#include "client/ring.h"
#include "client/services.h"

static void on_request(void *context, const struct session_request *came)
{
    nigh_service *service = context;
    nigh_request request = {
        .service = service,
        .bytes = came->bytes,
        .size = came->count,
        .rank = came->rank,
        .uid = came->uid,
        .is_one_way = came->id == 0,
        .timeout_us = came->left_us == UINT64_MAX ? NIGH_FOREVER : came->left_us,
        .opaque = {came->id, calls_where(service->client, came->lane)},
    };

    calls_split(&request, came->bulks);
    service->handler(service->context, &request);
}

/* ---- a service without a handler: its lane is told ------------------------- */

static uint32_t tell_choose(struct client_op *op, size_t step)
{
    (void)step;
    return op->u.one.lane;
}

/* A node that began anew since has none to close: one of this name would be another's. */
static bool tell_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    const nigh_service *service = op->u.one.out;

    (void)step;
    *sqe = op->u.one.sqe;
    if (sqe->op == SESSION_OP_SERVICE_CLOSE && !calls_is_now(op->client, service->incarnation)) {
        op_fail(op, NIGH_CLOSED);
        return false;
    }
    return true;
}

static bool tell_done(struct client_op *op, size_t step, uint8_t opcode,
                      const struct session_cqe *cqe)
{
    nigh_service *service = op->u.one.out;

    (void)step;
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
    } else if (opcode == SESSION_OP_SERVICE_OPEN) {
        service->incarnation =
            atomic_load_explicit(&op->client->node_incarnation, memory_order_relaxed);
    }
    return false;
}

static const struct op_kind tell_kind = {
    .lane = tell_choose,
    .build = tell_build,
    .done = tell_done,
};

static nigh_status tell_lane(nigh_service *service, enum session_op opcode)
{
    nigh_client *client = service->client;
    uint64_t hash = service->session.hash;
    struct client_op op;

    op_init(&op, client, &tell_kind, 1, UINT64_MAX);
    op.u.one.sqe = (struct session_sqe){.op = (uint8_t)opcode};
    memcpy(op.u.one.sqe.id, &hash, sizeof(hash));
    op.u.one.lane = index_hash_lane(hash, client->lanes);
    op.u.one.out = service;
    return op_run(&op);
}

/* ---- services ------------------------------------------------------------- */

static nigh_status register_service(nigh_service *service)
{
    nigh_client *client = service->client;
    nigh_status status =
        service->handler == NULL
            ? tell_lane(service, SESSION_OP_SERVICE_OPEN)
            : (nigh_status)client->driver->serve(client->driver->context, &service->session);

    switch (status) {
    case NIGH_OK:
        client_lock(client);
        list_push_back(&client->services, &service->place);
        client_unlock(client);
        return status;
    case NIGH_EXISTS:
        return error_set(client, status, "this node has a service of this name already");
    case NIGH_LIMIT:
        return error_set(client, status, "a node has %d services at most, a client of it %d",
                         LIMIT_SERVICES, LIMIT_SESSION_SERVICES);
    default: return error_note(client, status);
    }
}

nigh_status nigh_service_register(nigh_client *client, const char *name,
                                  const nigh_service_options *options, nigh_service **out)
{
    nigh_status status = client_check(client);
    nigh_service *service;
    uint64_t hash;

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if ((options != NULL && options->struct_size < sizeof(*options)) || out == NULL ||
        calls_hash(name, &hash) != NIGH_OK) {
        return error_set(client, NIGH_INVALID,
                         "nigh_service_register: a service has a name of 1 to %d bytes",
                         LIMIT_NAME_BYTES);
    }
    if (options != NULL && options->handler != NULL && client->driver == NULL) {
        return error_set(client, NIGH_UNSUPPORTED,
                         "nigh_service_register: only a client of an embedded node has handlers; "
                         "without one, nigh_receive");
    }
    if ((options == NULL || options->handler == NULL) && !client->may_write) {
        return error_set(client, NIGH_DENIED,
                         "nigh_service_register: this client was opened read-only, and requests "
                         "lie in memory that it writes");
    }
    service = calloc(1, sizeof(*service));
    if (service == NULL) {
        return error_note(client, NIGH_NO_RESOURCES);
    }
    list_init(&service->came);
    service->client = client;
    service->handler = options != NULL ? options->handler : NULL;
    service->context = options != NULL ? options->context : NULL;
    service->session = (struct session_service){
        .hash = hash, .slot = client->slot, .handler = on_request, .context = service};
    if (service->handler == NULL && client->driver == NULL) {
        shared_store_relaxed(&client->front->takes_pairs, 1);
    }
    status = register_service(service);
    if (status != NIGH_OK) {
        free(service);
        return status;
    }
    *out = service;
    return NIGH_OK;
}

/* `tells`: the session goes on without it. */
static void end_service(nigh_service *service, bool tells)
{
    nigh_client *client = service->client;

    client_lock(client);
    pairs_unserve(service);
    calls_forget_service(service);
    list_remove(&service->place);
    ring_tell(client);
    client_unlock(client);
    if (service->handler != NULL) {
        client->driver->unserve(client->driver->context, &service->session);
    } else if (tells && client_check(client) == NIGH_OK) {
        (void)tell_lane(service, SESSION_OP_SERVICE_CLOSE);
    }
    free(service);
}

void nigh_service_unregister(nigh_service *service)
{
    if (service == NULL ||
        atomic_load_explicit(&service->client->guard->word, memory_order_relaxed) == GUARD_CHILD) {
        return; /* in a child it is the parent's */
    }
    end_service(service, true);
}

void serve_end(nigh_client *client)
{
    while (!list_empty(&client->services)) {
        end_service(container_of(list_first(&client->services), nigh_service, place), false);
    }
}

/* ---- answers, receives ---------------------------------------------------- */

static bool is_answer(const nigh_request *request, nigh_status status, const void *bytes,
                      size_t size)
{
    return request != NULL && request->service != NULL && size <= NIGH_CALL_BYTES &&
           (bytes != NULL || size == 0) && status <= NIGH_OK && status >= NIGH_STATUS_LOWEST &&
           status != NIGH_PENDING;
}

nigh_client *calls_client_of(const nigh_request *request)
{
    return request->service->client;
}

static nigh_status reply_to_pair(nigh_client *client, const nigh_request *request,
                                 nigh_status answer, const void *bytes, uint32_t size)
{
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    client_lock(client);
    status = pairs_reply(client, request, answer, bytes, size);
    client_unlock(client);
    return error_note(client, status);
}

nigh_status nigh_call_reply(const nigh_request *request, nigh_status status, const void *bytes,
                            size_t size)
{
    const struct session_driver *driver;
    nigh_client *client;
    int answered = SESSION_REPLY_ELSEWHERE;

    if (!is_answer(request, status, bytes, size)) {
        return NIGH_INVALID;
    }
    if (request->is_one_way != 0) {
        return NIGH_NOT_FOUND;
    }
    client = request->service->client;
    driver = client->driver;
    if (request->service->handler != NULL) {
        answered = driver->reply(driver->context, (uint32_t)request->opaque[1], request->opaque[0],
                                 (int)status, bytes, (uint32_t)size);
    }
    if (answered != SESSION_REPLY_ELSEWHERE) {
        return (nigh_status)answered;
    }
    if (pairs_has_request(request)) {
        return reply_to_pair(client, request, status, bytes, (uint32_t)size);
    }
    return calls_reply_later(client, request, status, bytes, (uint32_t)size);
}

/* Whether it may be received for. */
static nigh_status receive_check(const nigh_service *service, const nigh_request *request,
                                 const void *buffer)
{
    nigh_status status;

    if (service == NULL) {
        return NIGH_INVALID;
    }
    status = client_check(service->client);
    if (status != NIGH_OK) {
        return error_note(service->client, status);
    }
    return request != NULL && buffer != NULL && service->handler == NULL
               ? NIGH_OK
               : error_set(service->client, NIGH_INVALID,
                           "nigh_receive: no place for a request, or the service has a handler");
}

static void begin_receive(struct client_op *op, struct calls_receive wanted)
{
    wanted.hash = wanted.service->session.hash;
    wanted.incarnation = wanted.service->incarnation;
    calls_receive(op, wanted.service->client, &wanted);
}

/* Receives in a row for which the lane was not asked: its requests are to have their turn, too. */
#define RECEIVE_TURNS 16

/* What is here already: a request of a pair, or one that a former receive was made for. */
static bool receive_here(const struct calls_receive *wanted)
{
    nigh_service *service = wanted->service;
    bool found;

    client_lock(service->client);
    if ((service->pair_mask == 0 && list_empty(&service->came)) ||
        (service->kept_count == 0 && ++service->turns % RECEIVE_TURNS == 0)) {
        client_unlock(service->client);
        return false;
    }
    if (ring_has_completions(service->client)) {
        ring_take_in(service->client, NULL);
    }
    found = calls_take_came(service, wanted->into, wanted->buffer) ||
            pairs_receive_now(service, wanted->into, wanted->buffer, wanted->timeout_us > 0);
    client_unlock(service->client);
    return found;
}

static nigh_status receive(const struct calls_receive *wanted)
{
    struct calls_receive alone = *wanted;
    struct client_op op;
    nigh_status status;

    if (wanted->answers == NULL && receive_here(wanted)) {
        return NIGH_OK;
    }
    begin_receive(&op, *wanted);
    status = op_run(&op);
    if (status != NIGH_OK || !calls_receive_apart(&op)) {
        return calls_receive_told(&op, status);
    }
    alone.answers = NULL;
    alone.count = 0;
    alone.timeout_us = op_remaining_us(&op);
    status = calls_reply_later(alone.service->client, wanted->answers, wanted->status,
                               wanted->bytes, wanted->count);
    return status == NIGH_OK || status == NIGH_NOT_FOUND ? receive(&alone) : status;
}

nigh_status nigh_receive(nigh_service *service, nigh_request *request, void *buffer,
                         uint64_t timeout_us)
{
    nigh_status status = receive_check(service, request, buffer);

    return status != NIGH_OK ? status
                             : receive(&(struct calls_receive){.service = service,
                                                               .into = request,
                                                               .buffer = buffer,
                                                               .timeout_us = timeout_us});
}

nigh_status nigh_receive_start(nigh_service *service, nigh_request *request, void *buffer,
                               uint64_t timeout_us, nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = receive_check(service, request, buffer);

    if (status != NIGH_OK) {
        return status;
    }
    if (op == NULL) {
        return error_set(service->client, NIGH_INVALID, "nigh_receive_start: no op");
    }
    begin_receive(
        op, (struct calls_receive){
                .service = service, .into = request, .buffer = buffer, .timeout_us = timeout_us});
    return error_note(service->client, calls_start(op));
}

nigh_status nigh_reply_receive(nigh_request *request, nigh_status answer, const void *bytes,
                               size_t size, void *buffer, uint64_t timeout_us)
{
    struct calls_receive wanted = {.into = request,
                                   .buffer = buffer,
                                   .status = answer,
                                   .bytes = bytes,
                                   .count = (uint32_t)size,
                                   .timeout_us = timeout_us};
    nigh_status status;

    if (!is_answer(request, answer, bytes, size)) {
        return NIGH_INVALID;
    }
    status = receive_check(request->service, request, buffer);
    if (status != NIGH_OK) {
        return status;
    }
    wanted.service = request->service;
    if (pairs_has_request(request)) {
        status = request->is_one_way != 0 ? NIGH_OK
                                          : reply_to_pair(request->service->client, request, answer,
                                                          bytes, (uint32_t)size);
        if (status != NIGH_OK && status != NIGH_NOT_FOUND) {
            return status;
        }
        wanted.count = 0;
        return receive(&wanted);
    }
    wanted.answers = request->is_one_way == 0 ? request : NULL;
    wanted.count = request->is_one_way == 0 ? wanted.count : 0;
    return receive(&wanted);
}
