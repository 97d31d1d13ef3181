/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that calls, and answers to them, lie in: one submission each, whose bytes lie in a
 * place of the memory that the lane has leased to this client for that. The reply comes to where
 * its request was. A place is taken from when its submission is made until its completion: also one
 * that nobody waits for any more.
 */
#include <string.h>

#include "client/client_internal.h"
#include "client/extents.h"
#include "client/op.h"
#include "client/places.h"
#include "client/ring.h"

struct client_calls *places_of(const struct client_op *op)
{
    return &op->client->lane[op->u.place.lane].calls;
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
        if (ring_has_room(client, lane, UINT32_MAX)) {
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

/* ---- steps ---------------------------------------------------------------- */

uint32_t place_lane(struct client_op *op, size_t step)
{
    (void)step;
    return op->u.place.lane;
}

bool place_is_free(const struct client_op *op, uint32_t kept)
{
    const struct client_calls *calls = places_of(op);

    return calls->count == 0 || calls->free_count > kept;
}

bool place_may_be_had(const struct client_op *op, uint32_t kept)
{
    const struct client_calls *calls = places_of(op);

    return calls->count == 0 ? !calls->asked : place_is_free(op, kept);
}

bool place_is_overdue(const struct client_op *op)
{
    return op->deadline_us != UINT64_MAX && op_remaining_us(op) == 0;
}

bool place_has_room(struct client_op *op)
{
    return place_may_be_had(op, LIMIT_REPLY_PLACES) || place_is_overdue(op);
}

void place_ask_memory(const struct client_op *op, struct session_sqe *sqe)
{
    sqe->op = SESSION_OP_CALL_LEASE;
    sqe->argument = (uint64_t)LIMIT_CALL_PLACES * LIMIT_CALL_BYTES;
    places_of(op)->asked = true;
}

uint8_t *place_take(struct client_op *op, struct session_sqe *sqe)
{
    struct client_calls *calls = places_of(op);

    sqe->offset = calls->offset + (uint64_t)calls->free[--calls->free_count] * LIMIT_CALL_BYTES;
    op->u.place.offset = sqe->offset;
    sqe->data_size = op->u.place.count;
    return op->client->write_arena + sqe->offset;
}

void place_write(const struct client_op *op, uint8_t *to)
{
    if (op->u.place.count > 0) {
        memcpy(to, op->u.place.bytes, op->u.place.count);
    }
}

bool place_build(struct client_op *op, struct session_sqe *sqe, place_fill *fill)
{
    if (place_is_overdue(op)) {
        op_fail(op, NIGH_TIMEOUT);
        return false;
    }
    if (places_of(op)->count == 0) {
        place_ask_memory(op, sqe);
        return true;
    }
    fill(op, sqe);
    return true;
}

bool place_came(struct client_op *op, const struct session_cqe *cqe)
{
    if (cqe->status != NIGH_OK || places_of(op)->count == 0) {
        op_fail(op, cqe->status != NIGH_OK ? (nigh_status)cqe->status : NIGH_NO_RESOURCES);
        return false;
    }
    return true;
}

bool place_goes_on(struct client_op *op, size_t step, const struct session_cqe *cqe,
                   place_fill *fill)
{
    struct session_sqe sqe = {0};

    if (!place_came(op, cqe)) {
        return false;
    }
    if (place_is_overdue(op)) {
        op_fail(op, NIGH_TIMEOUT);
        return false;
    }
    fill(op, &sqe);
    op_go_on(op, step, op->u.place.lane, op->kind->waits, &sqe);
    return true;
}

/* ---- the first of a client ------------------------------------------------ */

static bool memory_has_room(struct client_op *op)
{
    const struct client_calls *calls = places_of(op);

    return calls->count != 0 || !calls->asked;
}

static bool memory_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    if (places_of(op)->count != 0) {
        return false;
    }
    place_ask_memory(op, sqe);
    return true;
}

/* Where none came the op that wants it asks again, and tells. */
static const struct op_kind memory_kind = {
    .lane = place_lane,
    .build = memory_build,
    .done = op_any_done,
    .has_room = memory_has_room,
    .waits = true,
};

nigh_status calls_start(struct client_op *op)
{
    nigh_client *client = op->client;
    struct client_op memory;
    nigh_status status;

    op->flags |= OP_ASYNC;
    client_lock(client);
    if (op_ensure(op) == NIGH_OK && places_of(op)->count == 0) {
        client_unlock(client);
        /* A lane that says nothing is given LIMIT_NODE_GRACE_US, as after any deadline. */
        op_init(&memory, client, &memory_kind, 1, op_deadline_us(0));
        memory.u.place.lane = op->u.place.lane;
        (void)op_run(&memory);
        client_lock(client);
    }
    status = op_begin(op);
    client_unlock(client);
    return status;
}
