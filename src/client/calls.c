/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of services, and answers to them: one submission each, whose bytes lie in a place of the
 * memory that the lane has leased to this client for that. The reply comes to where its request
 * was. A place is taken from when its submission is made until its completion: also one that nobody
 * waits for any more.
 */
#include <string.h>

#include "base/blake.h"
#include "client/calls.h"

#define CALL_FLAGS (NIGH_CALL_ONE_WAY | NIGH_CALL_IDEMPOTENT | NIGH_CALL_URGENT)

/* ---- places --------------------------------------------------------------- */

static struct client_calls *calls_of(const struct client_op *op)
{
    return &op->client->lane[op->u.call.lane].calls;
}

bool calls_is_now(const nigh_client *client, uint32_t incarnation)
{
    return atomic_load_explicit(&client->node_incarnation, memory_order_relaxed) == incarnation;
}

uint64_t calls_where(const nigh_client *client, uint32_t lane)
{
    return (uint64_t)atomic_load_explicit(&client->node_incarnation, memory_order_relaxed) << 32 |
           lane;
}

void calls_reset(nigh_client *client, uint32_t lane)
{
    struct client_calls *calls = &client->lane[lane].calls;

    calls->asked = false;
    calls->free_count = calls->count;
    for (uint32_t n = 0; n < calls->count; n++) {
        calls->free[n] = (uint8_t)(calls->count - 1 - n);
    }
}

void calls_leased(nigh_client *client, uint32_t lane, const struct session_cqe *cqe)
{
    struct client_calls *calls = &client->lane[lane].calls;
    struct session_sqe sqe = {.op = SESSION_OP_LEASE_CLOSE, .offset = cqe->lease_offset};
    uint64_t count = cqe->lease_bytes / LIMIT_CALL_BYTES;

    calls->asked = false;
    if (cqe->status != NIGH_OK || cqe->lease_bytes > client->arena_bytes ||
        cqe->lease_offset > client->arena_bytes - cqe->lease_bytes) {
        return;
    }
    if (count <= LIMIT_REPLY_PLACES || calls->count != 0 ||
        extents_map_locked(client, cqe->lease_offset, cqe->lease_bytes, true) != NIGH_OK) {
        if (ring_has_room(client, lane, false)) {
            ring_submit(client, lane, NULL, 0, false, &sqe);
        }
        return;
    }
    calls->offset = cqe->lease_offset;
    calls->count = (uint32_t)min_u64(count, LIMIT_CALL_PLACES);
    calls_reset(client, lane);
}

static bool calls_has_place(const uint64_t offset, const struct client_calls *calls)
{
    return calls->count > 0 && offset >= calls->offset &&
           offset - calls->offset < (uint64_t)calls->count * LIMIT_CALL_BYTES;
}

void calls_give_place(nigh_client *client, uint32_t lane, uint64_t offset)
{
    struct client_calls *calls = &client->lane[lane].calls;

    if (calls_has_place(offset, calls) && calls->free_count < calls->count) {
        calls->free[calls->free_count++] = (uint8_t)((offset - calls->offset) / LIMIT_CALL_BYTES);
    }
}

/* ---- the steps ------------------------------------------------------------ */

/* Places are kept for answers: they end calls of others, which may wait for just these. */
static bool call_has_place(const struct client_op *op)
{
    bool is_answer = op->u.call.spec == NULL && op->u.call.receives == NULL;
    const struct client_calls *calls = calls_of(op);

    return calls->count == 0 || calls->free_count > (is_answer ? 0 : LIMIT_REPLY_PLACES);
}

/* A receive that is overdue looks all the same. */
static bool call_is_overdue(const struct client_op *op)
{
    return op->deadline_us != UINT64_MAX && op_remaining_us(op) == 0 &&
           (op->u.call.receives == NULL || !call_has_place(op));
}

/* A receive that answers must not wait with the answer for a place, nor keep one of those for
 * answers until a request comes: the answer goes alone, before it. */
static bool call_goes_apart(const struct client_op *op)
{
    return op->u.call.receives != NULL && op->u.call.answers && !call_has_place(op);
}

static uint32_t call_lane(struct client_op *op, size_t step)
{
    (void)step;
    return op->u.call.lane;
}

static bool call_has_room(struct client_op *op)
{
    const struct client_calls *calls = calls_of(op);

    return (calls->count == 0 ? !calls->asked : call_has_place(op)) || call_is_overdue(op) ||
           call_goes_apart(op);
}

static void receive_fill(const struct client_op *op, struct session_sqe *sqe)
{
    struct session_receive_id id = {
        .hash = op->u.call.hash, .request = op->u.call.id, .status = op->u.call.answer};

    sqe->op = SESSION_OP_RECEIVE;
    sqe->flags = op->u.call.answers ? SESSION_FLAG_ANSWER : 0;
    memcpy(sqe->id, &id, sizeof(sqe->id));
    sqe->argument = op_remaining_us(op);
}

static uint8_t call_flags(uint32_t flags)
{
    return (uint8_t)(((flags & NIGH_CALL_ONE_WAY) != 0 ? SESSION_FLAG_ONE_WAY : 0) |
                     ((flags & NIGH_CALL_IDEMPOTENT) != 0 ? SESSION_FLAG_IDEMPOTENT : 0) |
                     ((flags & NIGH_CALL_URGENT) != 0 ? SESSION_FLAG_URGENT : 0));
}

static void call_fill(struct client_op *op, struct session_sqe *sqe)
{
    struct client_calls *calls = calls_of(op);
    const nigh_call_spec *spec = op->u.call.spec;

    sqe->offset = calls->offset + (uint64_t)calls->free[--calls->free_count] * LIMIT_CALL_BYTES;
    op->u.call.offset = sqe->offset;
    sqe->data_size = op->u.call.count;
    if (op->u.call.count > 0) {
        memcpy(op->client->write_arena + sqe->offset, op->u.call.bytes, op->u.call.count);
    }
    if (op->u.call.receives != NULL) {
        receive_fill(op, sqe);
        return;
    }
    if (spec == NULL) {
        sqe->op = SESSION_OP_REPLY;
        sqe->argument = op->u.call.id;
        sqe->ref = (uint64_t)(int64_t)op->u.call.answer;
        return;
    }
    sqe->op = SESSION_OP_CALL;
    sqe->flags = call_flags(op->u.call.flags);
    memcpy(sqe->id, &op->u.call.hash, sizeof(op->u.call.hash));
    sqe->meta_size = op->u.call.rank;
    sqe->ref = min_u64(spec->reply_room, LIMIT_CALL_BYTES);
    sqe->argument = op_remaining_us(op);
}

/* A node that began anew knows neither the requests nor the services of the one before; what it has
 * itself may go by the same numbers. */
static bool call_is_of_before(const struct client_op *op)
{
    return op->u.call.spec == NULL && !calls_is_now(op->client, op->u.call.incarnation);
}

static bool call_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    struct client_calls *calls = calls_of(op);

    (void)step;
    if (call_is_of_before(op)) {
        op_fail(op, op->u.call.receives != NULL ? NIGH_CLOSED : NIGH_NOT_FOUND);
        return false;
    }
    if (call_goes_apart(op)) {
        op->u.call.apart = true;
        return false;
    }
    if (call_is_overdue(op)) {
        /* No receive was made that could have found a request. */
        op_fail(op, op->u.call.receives != NULL ? NIGH_BUSY : NIGH_TIMEOUT);
        return false;
    }
    if (calls->count == 0) {
        sqe->op = SESSION_OP_CALL_LEASE;
        sqe->argument = (uint64_t)LIMIT_CALL_PLACES * LIMIT_CALL_BYTES;
        calls->asked = true;
        return true;
    }
    call_fill(op, sqe);
    return true;
}

/* The reply lies where the request was, whose place is another's from the return on. */
static void call_take_reply(struct client_op *op, const struct session_cqe *cqe)
{
    nigh_call_spec *spec = op->u.call.spec;

    op->u.call.wanted = min_u64(cqe->data_size, LIMIT_CALL_BYTES);
    spec->reply_bytes = (size_t)op->u.call.wanted;
    spec->served_by = cqe->ref;
    if (cqe->data_size > 0 && cqe->data_size <= min_u64(spec->reply_room, LIMIT_CALL_BYTES)) {
        memcpy(spec->reply, op->client->write_arena + op->u.call.offset, (size_t)cqe->data_size);
    }
}

static void receive_take(struct client_op *op, const struct session_cqe *cqe)
{
    size_t size = (size_t)min_u64(cqe->data_size, LIMIT_CALL_BYTES);

    if (cqe->status != NIGH_OK) {
        return;
    }
    memcpy(op->u.call.buffer, op->client->write_arena + op->u.call.offset, size);
    *op->u.call.into = (nigh_request){
        .service = op->u.call.receives,
        .bytes = op->u.call.buffer,
        .size = size,
        .rank = cqe->ref,
        .uid = cqe->meta_size,
        .is_one_way = cqe->generation == 0,
        .timeout_us = cqe->offset == UINT64_MAX ? NIGH_FOREVER : cqe->offset,
        .opaque = {cqe->generation, calls_where(op->client, op->u.call.lane)},
    };
}

static bool call_done(struct client_op *op, size_t step, uint8_t opcode,
                      const struct session_cqe *cqe)
{
    struct client_calls *calls = calls_of(op);
    struct session_sqe sqe = {0};

    if (opcode != SESSION_OP_CALL_LEASE) {
        if (op->u.call.spec != NULL) {
            call_take_reply(op, cqe);
        } else if (op->u.call.receives != NULL) {
            receive_take(op, cqe);
        }
        if (cqe->status != NIGH_OK) {
            op_fail(op, (nigh_status)cqe->status);
        }
        return false;
    }
    if (cqe->status != NIGH_OK || calls->count == 0) {
        op_fail(op, cqe->status != NIGH_OK ? (nigh_status)cqe->status : NIGH_NO_RESOURCES);
        return false;
    }
    if (call_is_overdue(op)) {
        op_fail(op, NIGH_TIMEOUT);
        return false;
    }
    call_fill(op, &sqe);
    op_go_on(op, step, op->u.call.lane, op->kind->waits, &sqe);
    return true;
}

/* It went to no node. */
static nigh_status call_tell_none(const struct client_op *op, nigh_status status)
{
    if (status == NIGH_NOT_FOUND) {
        return error_set(op->client, status,
                         "no node that can be reached has a service of this name");
    }
    return error_note_end(op->client, status);
}

static nigh_status call_tell(const struct client_op *op, nigh_status status)
{
    uint32_t rank = op->u.call.rank != NIGH_ANY_RANK ? op->u.call.rank : op->u.call.spec->served_by;

    if (rank == NIGH_ANY_RANK) {
        return call_tell_none(op, status);
    }
    switch (status) {
    case NIGH_PEER_LOST:
        return error_set(op->client, status,
                         "node %u died or cannot be reached: the call may or may not have been "
                         "carried out (nigh nodes)",
                         rank);
    case NIGH_NOT_FOUND:
        return error_set(op->client, status, "node %u has no service of this name", rank);
    case NIGH_CLOSED:
        return error_set(op->client, status, "the service of node %u ended before it answered",
                         rank);
    case NIGH_BUSY:
        return error_set(op->client, status,
                         "too many calls are under way, here or at node %u; try again", rank);
    case NIGH_LIMIT:
        return error_set(op->client, status,
                         "the reply of node %u has %llu bytes, more than there is room for", rank,
                         (unsigned long long)op->u.call.wanted);
    case NIGH_TIMEOUT:
        return (op->u.call.flags & NIGH_CALL_IDEMPOTENT) != 0
                   ? error_set(op->client, status,
                               "no answer in time, however often it was tried; last at node %u: is "
                               "it up (nigh nodes), and its service?",
                               rank)
                   : error_set(op->client, status, "node %u did not answer in time", rank);
    case NIGH_INVALID:
        return error_set(op->client, status,
                         "not valid: there is no node %u (nigh nodes), or its service says so",
                         rank);
    default: return error_note_end(op->client, status);
    }
}

static const struct op_kind call_kind = {
    .lane = call_lane,
    .build = call_build,
    .done = call_done,
    .has_room = call_has_room,
    .tell = call_tell,
    .waits = true,
};

static const struct op_kind reply_kind = {
    .lane = call_lane,
    .build = call_build,
    .done = call_done,
    .has_room = call_has_room,
};

/* ---- nigh_call ------------------------------------------------------------ */

nigh_status calls_hash(const char *name, uint64_t *hash)
{
    size_t length = name == NULL ? 0 : strnlen(name, LIMIT_NAME_BYTES + 1);
    uint8_t id[LIMIT_ID_BYTES];

    if (length == 0 || length > LIMIT_NAME_BYTES) {
        return NIGH_INVALID;
    }
    blake_id20(name, length, id);
    *hash = hash_load64(id);
    return NIGH_OK;
}

/* All lanes of a node have its services: which one carries a call is the name's. */
static nigh_status call_init(nigh_client *client, nigh_call_spec *spec, uint64_t timeout_us,
                             struct client_op *op)
{
    uint64_t hash;

    if (spec == NULL || spec->struct_size < sizeof(*spec) || (spec->flags & ~CALL_FLAGS) != 0 ||
        calls_hash(spec->service, &hash) != NIGH_OK) {
        return error_set(client, NIGH_INVALID, "nigh_call: no name, or an unknown flag");
    }
    if (spec->request_bytes > NIGH_CALL_BYTES ||
        (spec->request == NULL && spec->request_bytes > 0) ||
        (spec->reply == NULL && spec->reply_room > 0)) {
        return error_set(client, NIGH_INVALID,
                         "nigh_call: a request has %d bytes at most, and room for a reply a place",
                         NIGH_CALL_BYTES);
    }
    if (!client->may_write) {
        return error_set(client, NIGH_DENIED,
                         "nigh_call: this client was opened read-only, and calls lie in memory "
                         "that it writes");
    }
    _Static_assert(NIGH_CALL_BYTES == LIMIT_CALL_BYTES, "the bound is public");
    op_init(op, client, &call_kind, 1, op_deadline_us(timeout_us));
    spec->reply_bytes = 0;
    spec->served_by = NIGH_ANY_RANK;
    op->u.call.spec = spec;
    op->u.call.receives = NULL;
    op->u.call.hash = hash;
    op->u.call.bytes = spec->request;
    op->u.call.count = (uint32_t)spec->request_bytes;
    op->u.call.rank = spec->rank;
    op->u.call.lane = index_hash_lane(hash, client->lanes);
    op->u.call.flags = spec->flags;
    op->u.call.wanted = 0;
    return NIGH_OK;
}

nigh_status nigh_call(nigh_client *client, nigh_call_spec *spec, uint64_t timeout_us)
{
    struct client_op op;
    nigh_status status = client_check(client);

    if (status == NIGH_OK) {
        status = call_init(client, spec, timeout_us, &op);
    } else {
        return error_note(client, status);
    }
    if (status != NIGH_OK) {
        return status;
    }
    status = op_run(&op);
    return status == NIGH_OK ? status : call_tell(&op, status);
}

nigh_status nigh_call_start(nigh_client *client, nigh_call_spec *spec, uint64_t timeout_us,
                            nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if (op == NULL) {
        return error_set(client, NIGH_INVALID, "nigh_call_start: no op");
    }
    status = call_init(client, spec, timeout_us, op);
    return status == NIGH_OK ? error_note(client, op_start(op)) : status;
}

/* ---- answers -------------------------------------------------------------- */

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
    op.u.call.bytes = bytes;
    op.u.call.count = count;
    op.u.call.lane = lane;
    op.u.call.answer = answer;
    return error_note(client, op_run(&op));
}

/* ---- receives ------------------------------------------------------------- */

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
    default: return error_note_end(op->client, status);
    }
}

static const struct op_kind receive_kind = {
    .lane = call_lane,
    .build = call_build,
    .done = call_done,
    .has_room = call_has_room,
    .tell = receive_tell,
    .waits = true,
};

void calls_receive(struct client_op *op, nigh_client *client, const struct calls_receive *receive)
{
    op_init(op, client, &receive_kind, 1, op_deadline_us(receive->timeout_us));
    op->u.call.spec = NULL;
    op->u.call.receives = receive->service;
    op->u.call.into = receive->into;
    op->u.call.buffer = receive->buffer;
    op->u.call.hash = receive->hash;
    op->u.call.lane = index_hash_lane(receive->hash, client->lanes);
    op->u.call.answers = receive->answers != NULL;
    op->u.call.apart = false;
    op->u.call.id = receive->answers != NULL ? receive->answers->opaque[0] : 0;
    op->u.call.answer = receive->status;
    op->u.call.incarnation = receive->incarnation;
    op->u.call.bytes = receive->bytes;
    op->u.call.count = receive->count;
}

bool calls_receive_apart(const struct client_op *op)
{
    return op->u.call.apart;
}

nigh_status calls_receive_told(const struct client_op *op, nigh_status status)
{
    return status == NIGH_OK ? status : receive_tell(op, status);
}
