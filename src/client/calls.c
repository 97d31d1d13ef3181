/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of services: from what a caller says to a submission whose bytes lie in a place (places.c),
 * or to a pair (pairs.h), and from there to the reply, or to why there is none.
 */
#include <string.h>

#include "base/blake.h"
#include "client/calls.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/op.h"
#include "client/pairs.h"
#include "client/places.h"

#define CALL_FLAGS (NIGH_CALL_ONE_WAY | NIGH_CALL_IDEMPOTENT | NIGH_CALL_URGENT)

bool calls_is_now(const nigh_client *client, uint32_t incarnation)
{
    return atomic_load_explicit(&client->node_incarnation, memory_order_relaxed) == incarnation;
}

uint64_t calls_where(const nigh_client *client, uint32_t lane)
{
    return (uint64_t)atomic_load_explicit(&client->node_incarnation, memory_order_relaxed) << 32 |
           lane;
}

/* ---- the steps ------------------------------------------------------------ */

static uint8_t call_flags(uint32_t flags)
{
    return (uint8_t)(((flags & NIGH_CALL_ONE_WAY) != 0 ? SESSION_FLAG_ONE_WAY : 0) |
                     ((flags & NIGH_CALL_IDEMPOTENT) != 0 ? SESSION_FLAG_IDEMPOTENT : 0) |
                     ((flags & NIGH_CALL_URGENT) != 0 ? SESSION_FLAG_URGENT : 0));
}

static bool call_is_near(const nigh_call_spec *spec)
{
    return spec->rank == NIGH_NEAREST;
}

/* Whose service it is, and whom it is asked of first. */
static void call_fill_id(const struct client_op *op, struct session_sqe *sqe)
{
    struct session_near near = {.hash = op->u.call.hash};

    if (call_is_near(op->u.call.spec)) {
        calls_fill_near(op->u.call.spec, &near);
    }
    memcpy(sqe->id, &near, LIMIT_ID_BYTES);
}

static void call_fill(struct client_op *op, struct session_sqe *sqe)
{
    const nigh_call_spec *spec = op->u.call.spec;
    uint8_t *to = place_take(op, sqe);

    if (calls_bulk_count(spec) > 0) {
        sqe->name_size = (uint16_t)spec->bulk_count;
        to += calls_fill_bulks(spec, to);
    }
    place_write(op, to);
    sqe->op = SESSION_OP_CALL;
    sqe->flags = call_flags(op->u.call.flags);
    call_fill_id(op, sqe);
    sqe->meta_size = op->u.call.rank;
    sqe->ref = min_u64(spec->reply_room, LIMIT_CALL_BYTES);
    sqe->argument = op_remaining_us(op);
}

static bool call_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    switch (pairs_call(op)) {
    case PAIRS_UNDER_WAY: return true;
    case PAIRS_ENDED: return false;
    case PAIRS_ELSEWHERE: break;
    }
    return place_build(op, sqe, call_fill);
}

void calls_answered(struct client_op *op)
{
    op->u.call.answered = true;
    if (op->u.call.spec->struct_size >= CALL_SPEC_ANSWERED) {
        op->u.call.spec->answered = 1;
    }
}

/* The reply lies where the request was, whose place is another's from the return on. */
static void call_take_reply(struct client_op *op, const struct session_cqe *cqe)
{
    nigh_call_spec *spec = op->u.call.spec;

    op->u.call.wanted = min_u64(cqe->data_size, LIMIT_CALL_BYTES);
    spec->reply_bytes = (size_t)op->u.call.wanted;
    spec->served_by = cqe->ref;
    op->u.call.untaken = cqe->status != NIGH_OK && (cqe->flags & SESSION_CQE_UNTAKEN) != 0;
    if ((cqe->flags & SESSION_CQE_ANSWERED) != 0) {
        calls_answered(op);
    }
    if (cqe->data_size > 0 && cqe->data_size <= min_u64(spec->reply_room, LIMIT_CALL_BYTES)) {
        memcpy(spec->reply, place_bytes(op), (size_t)cqe->data_size);
    }
}

static bool call_done(struct client_op *op, size_t step, uint8_t opcode,
                      const struct session_cqe *cqe)
{
    if (opcode == SESSION_OP_CALL_LEASE) {
        return place_goes_on(op, step, cqe, call_fill);
    }
    call_take_reply(op, cqe);
    if (cqe->status == NIGH_OK) {
        pairs_learn(op->client, op->u.call.hash, cqe->ref);
    } else {
        op_fail(op, (nigh_status)cqe->status);
    }
    return false;
}

/* ---- how it ended --------------------------------------------------------- */

/* It went to no node. */
static nigh_status call_tell_none(const struct client_op *op, nigh_status status)
{
    if (status == NIGH_NOT_FOUND) {
        return error_set(op->client, status,
                         "no node that can be reached has a service of this name");
    }
    return op_note(op, status);
}

/* No service can have carried it out, whatever it is. */
static nigh_status call_tell_untaken(const struct client_op *op, nigh_status status, uint32_t rank)
{
    return error_set(op->client, status,
                     status == NIGH_PEER_LOST
                         ? "node %u cannot be reached: the call was not carried out (nigh nodes)"
                         : "node %u could not be reached in time: the call was not carried out "
                           "(nigh nodes)",
                     rank);
}

nigh_status calls_explain(const struct client_op *op, nigh_status status)
{
    uint32_t rank = op->u.call.rank != NIGH_ANY_RANK ? op->u.call.rank : op->u.call.spec->served_by;

    if (place_explain(op, status)) {
        return status;
    }
    if (rank == NIGH_ANY_RANK) {
        return call_tell_none(op, status);
    }
    if (op->u.call.answered) {
        return error_set(op->client, status, "the service answered: %s (node %u)",
                         nigh_status_name(status), rank);
    }
    if (op->u.call.untaken && (status == NIGH_PEER_LOST || status == NIGH_TIMEOUT)) {
        return call_tell_untaken(op, status, rank);
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
    case NIGH_OVERLOADED:
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
        return error_set(op->client, status, "not valid: there is no node %u (nigh nodes)", rank);
    default: return op_note(op, status);
    }
}

const struct op_kind call_kind = {
    .lane = place_lane,
    .build = call_build,
    .done = call_done,
    .has_room = place_has_room,
    .tell = calls_explain,
    .waits = true,
};

/* ---- nigh_call ------------------------------------------------------------ */

/* What a spec had before there was NIGH_NEAREST. */
#define CALL_SPEC_FIRST offsetof(nigh_call_spec, near_ids)

/* The name that this thread called last: hashing one takes longer than to write a request. */
static __thread struct {
    char name[64];
    uint64_t hash;
} calls_last __attribute__((tls_model("initial-exec")));

nigh_status calls_hash(const char *name, uint64_t *hash)
{
    size_t length = name == NULL ? 0 : strnlen(name, LIMIT_NAME_BYTES + 1);
    uint8_t id[LIMIT_ID_BYTES];

    if (length == 0 || length > LIMIT_NAME_BYTES) {
        return NIGH_INVALID;
    }
    if (length < sizeof(calls_last.name) && memcmp(name, calls_last.name, length + 1) == 0) {
        *hash = calls_last.hash;
        return NIGH_OK;
    }
    blake_id20(name, length, id);
    *hash = hash_load64(id);
    if (length < sizeof(calls_last.name)) {
        memcpy(calls_last.name, name, length + 1);
        calls_last.hash = *hash;
    }
    return NIGH_OK;
}

/* All lanes of a node have its services: which one carries a call is the name's. */
static nigh_status call_init(nigh_client *client, nigh_call_spec *spec, struct client_op *op)
{
    uint64_t hash;

    if (spec == NULL || spec->struct_size < CALL_SPEC_FIRST || (spec->flags & ~CALL_FLAGS) != 0 ||
        calls_hash(spec->service, &hash) != NIGH_OK) {
        return error_set(client, NIGH_INVALID,
                         "nigh_call: a service has a name of 1 to %d bytes; or an unknown flag",
                         LIMIT_NAME_BYTES);
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
    if (calls_bulk_count(spec) > 0) {
        nigh_status status = calls_check_bulks(client, spec);

        if (status != NIGH_OK) {
            return status;
        }
    }
    op_init(op, client, &call_kind, 1, UINT64_MAX);
    spec->reply_bytes = 0;
    spec->served_by = NIGH_ANY_RANK;
    if (spec->struct_size >= CALL_SPEC_ANSWERED) {
        spec->answered = 0;
    }
    op->u.call.spec = spec;
    op->u.call.receives = NULL;
    op->u.call.hash = hash;
    op->u.place.bytes = spec->request;
    op->u.place.count = (uint32_t)spec->request_bytes;
    op->u.call.rank = spec->rank;
    op->u.place.lane = index_hash_lane(hash, client->lanes);
    op->u.call.flags = spec->flags;
    op->u.call.wanted = 0;
    op->u.call.untaken = false;
    op->u.call.answered = false;
    return call_is_near(spec) ? calls_near_init(client, spec, op) : NIGH_OK;
}

nigh_status nigh_call(nigh_client *client, nigh_call_spec *spec, uint64_t timeout_us)
{
    struct client_op op;
    nigh_status status = client_check(client);

    if (status == NIGH_OK) {
        status = call_init(client, spec, &op);
    } else {
        return error_note(client, status);
    }
    if (status != NIGH_OK) {
        return status;
    }
    if (pairs_call_now(&op, timeout_us)) {
        status = op_await(&op);
    } else {
        op.deadline_us = op_deadline_us(timeout_us);
        status = op_run(&op);
    }
    return status == NIGH_OK ? status : calls_explain(&op, status);
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
    status = call_init(client, spec, op);
    if (status != NIGH_OK) {
        return status;
    }
    op->deadline_us = op_deadline_us(timeout_us);
    return error_note(client, calls_start(op));
}
