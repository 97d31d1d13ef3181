/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that calls bring: handles of it, which the node knows by number, and what a service has
 * moved, one submission a move. The node checks each number and bound again. How memory is
 * allocated is in bulk_alloc.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "client/bulk.h"
#include "client/calls.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/op.h"
#include "client/services.h"
#include "memory/memfd.h"

_Static_assert(NIGH_CALL_BULKS == LIMIT_CALL_BULKS && NIGH_BULK_READ == SESSION_MEMORY_READ &&
                   NIGH_BULK_WRITE == SESSION_MEMORY_WRITE,
               "the bounds are public");

/* ---- handles -------------------------------------------------------------- */

void bulk_put_in_list(nigh_bulk *bulk)
{
    client_lock(bulk->client);
    list_push_back(&bulk->client->bulks, &bulk->place);
    client_unlock(bulk->client);
}

void bulk_handle_drop(nigh_bulk *bulk)
{
    if (list_is_linked(&bulk->place)) {
        client_lock(bulk->client);
        list_remove(&bulk->place);
        client_unlock(bulk->client);
    }
    if (bulk->memory != NULL) {
        memfd_unmap(bulk->memory, bulk->memory_bytes);
    }
    free(bulk);
}

nigh_status nigh_bulk_open(nigh_client *client, void *memory, size_t size, uint32_t access,
                           nigh_bulk **out)
{
    nigh_status status = client_check(client);
    struct session_memory piece = {.address = memory, .bytes = size, .access = access};
    nigh_bulk *bulk;

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if (memory == NULL || size == 0 || out == NULL || access == 0 ||
        (access & ~(NIGH_BULK_READ | NIGH_BULK_WRITE)) != 0) {
        return error_set(client, NIGH_INVALID, "nigh_bulk_open: no memory, or no access to it");
    }
    if (client->driver == NULL) {
        return error_set(client, NIGH_UNSUPPORTED,
                         "nigh_bulk_open: only for clients of an embedded node: "
                         "nigh_bulk_alloc is for all");
    }
    bulk = calloc(1, sizeof(*bulk));
    if (bulk == NULL) {
        return error_note(client, NIGH_NO_RESOURCES);
    }
    *bulk = (nigh_bulk){.client = client, .size = size, .access = access};
    piece.session = client->session;
    status =
        (nigh_status)client->driver->memory_add(client->driver->context, &piece, &bulk->number);
    if (status != NIGH_OK) {
        free(bulk);
        return error_set(client, status, "nigh_bulk_open: a client has %d handles at most",
                         LIMIT_SESSION_BULKS);
    }
    bulk_put_in_list(bulk);
    *out = bulk;
    return NIGH_OK;
}

/* In a child it is the parent's. */
static bool is_ours(const nigh_bulk *bulk)
{
    return atomic_load_explicit(&bulk->client->guard->word, memory_order_relaxed) != GUARD_CHILD;
}

static uint32_t pass_lane(struct client_op *op, size_t step)
{
    uint64_t busy = atomic_load_explicit(&op->client->busy_lanes, memory_order_relaxed);

    return (busy >> step & 1) != 0 ? (uint32_t)step : OP_SKIP;
}

/* A lane does not know memory of the node's own process by this question, and says so: that it is
 * at it is enough. */
static const struct op_kind pass_kind = {
    .lane = pass_lane,
    .build = op_one_build,
    .done = op_any_done,
};

/* What was given up may lie in a lane's ring still, which takes the memory when it comes to it:
 * each that has something is asked behind that. It needs no room of what waits. */
static nigh_status own_wait(const nigh_bulk *bulk, uint64_t timeout_us)
{
    nigh_client *client = bulk->client;
    const struct session_driver *driver = client->driver;
    struct client_op op;

    op_init(&op, client, &pass_kind, client->lanes, op_deadline_us(timeout_us));
    op.u.one.sqe = (struct session_sqe){.op = SESSION_OP_BULK_WAIT};
    memcpy(op.u.one.sqe.id, &bulk->number, sizeof(bulk->number));
    /* Of a session that has ended the lanes take nothing more. */
    if (client_look(client) == NIGH_OK && op_run(&op) == NIGH_TIMEOUT) {
        return NIGH_TIMEOUT;
    }
    return (nigh_status)driver->memory_wait(driver->context, bulk->number, op_remaining_us(&op));
}

nigh_status nigh_bulk_wait(nigh_bulk *bulk, uint64_t timeout_us)
{
    if (bulk == NULL) {
        return NIGH_INVALID;
    }
    if (!is_ours(bulk)) {
        return NIGH_FORKED;
    }
    return bulk_is_file(bulk) ? bulk_file_wait(bulk, timeout_us) : own_wait(bulk, timeout_us);
}

static nigh_status close_bulk(nigh_bulk *bulk, uint64_t timeout_us, bool force)
{
    const struct session_driver *driver = bulk->client->driver;
    nigh_status status =
        bulk_is_file(bulk)
            ? bulk_file_end(bulk, timeout_us)
            : (nigh_status)driver->memory_remove(driver->context, bulk->number, timeout_us, force);

    if (status == NIGH_TIMEOUT || status == NIGH_BUSY) {
        return error_set(bulk->client, status,
                         "the memory is in use still, by a call or after one");
    }
    if (status != NIGH_OK) {
        return error_note_end(bulk->client, status);
    }
    bulk_handle_drop(bulk);
    return NIGH_OK;
}

nigh_status nigh_bulk_close(nigh_bulk *bulk, uint64_t timeout_us)
{
    if (bulk == NULL) {
        return NIGH_OK;
    }
    return is_ours(bulk) ? close_bulk(bulk, timeout_us, false) : NIGH_FORKED;
}

/* Its calls are cancelled, which ends what they lent in a moment; where it does not, a link pays.
 * A file is the node's: what is at it may go on. */
void bulk_end(nigh_client *client)
{
    while (!list_empty(&client->bulks)) {
        nigh_bulk *bulk = container_of(list_first(&client->bulks), nigh_bulk, place);

        if (bulk_is_file(bulk)) {
            bulk_handle_drop(bulk);
        } else if (close_bulk(bulk, LIMIT_BULK_CLOSE_US, false) != NIGH_OK) {
            (void)close_bulk(bulk, NIGH_FOREVER, true);
        }
    }
}

/* ---- calls ---------------------------------------------------------------- */

uint32_t calls_bulk_count(const nigh_call_spec *spec)
{
    return spec->struct_size < CALL_SPEC_BULKS ? 0 : spec->bulk_count;
}

static bool is_part(const nigh_client *client, const nigh_bulk_part *part)
{
    const nigh_bulk *bulk = part->bulk;

    return bulk != NULL && bulk->client == client && part->offset <= bulk->size &&
           part->size <= bulk->size - part->offset && (part->access & ~bulk->access) == 0;
}

nigh_status calls_check_bulks(nigh_client *client, const nigh_call_spec *spec)
{
    if (spec->bulk_count > NIGH_CALL_BULKS || spec->bulks == NULL ||
        (spec->flags & (NIGH_CALL_ONE_WAY | NIGH_CALL_IDEMPOTENT)) != 0 ||
        spec->request_bytes > NIGH_CALL_BYTES - spec->bulk_count * sizeof(struct session_bulk)) {
        return error_set(
            client, NIGH_INVALID,
            "nigh_call: it brings %d pieces of memory at most, each of which takes %zu "
            "bytes of its request, and is neither one-way nor idempotent then",
            NIGH_CALL_BULKS, sizeof(struct session_bulk));
    }
    for (uint32_t n = 0; n < spec->bulk_count; n++) {
        if (!is_part(client, &spec->bulks[n])) {
            return error_set(client, NIGH_INVALID,
                             "nigh_call: memory %u is not of a handle of this client, or not for "
                             "that",
                             n);
        }
        if (!bulk_is_there(spec->bulks[n].bulk)) {
            return bulk_tell_gone(client);
        }
    }
    return NIGH_OK;
}

uint32_t calls_fill_bulks(const nigh_call_spec *spec, uint8_t *to)
{
    ORDER_SAID();
    for (uint32_t n = 0; n < spec->bulk_count; n++) {
        const nigh_bulk_part *part = &spec->bulks[n];
        struct session_bulk said = {
            .number = part->bulk->number,
            .offset = part->offset,
            .bytes = part->size,
            .access = part->access != 0 ? part->access : part->bulk->access,
        };

        memcpy(to + n * sizeof(said), &said, sizeof(said));
    }
    return spec->bulk_count * (uint32_t)sizeof(struct session_bulk);
}

/* ---- requests ------------------------------------------------------------- */

void calls_split(nigh_request *request, uint32_t bulks)
{
    size_t infos = bulks * sizeof(struct session_bulk_info);

    if (bulks > LIMIT_CALL_BULKS || infos > request->size) {
        return; /* a node that says so is none of ours */
    }
    request->bulk_count = bulks;
    request->bytes = (const uint8_t *)request->bytes + infos;
    request->size -= infos;
}

nigh_status nigh_request_bulk(const nigh_request *request, uint32_t number, nigh_bulk_info *info)
{
    struct session_bulk_info said;

    if (request == NULL || info == NULL || number >= request->bulk_count) {
        return NIGH_INVALID;
    }
    memcpy(&said, (const uint8_t *)request->bytes - (request->bulk_count - number) * sizeof(said),
           sizeof(said));
    *info = (nigh_bulk_info){.size = said.bytes, .access = said.access};
    return NIGH_OK;
}

/* ---- moves ---------------------------------------------------------------- */

static nigh_status move_tell(const struct client_op *op, nigh_status status)
{
    switch (status) {
    case NIGH_NOT_FOUND:
        return error_set(op->client, status,
                         "the request is answered, or its caller does not wait any more");
    case NIGH_DENIED: return error_set(op->client, status, "the memory is not for that");
    case NIGH_PEER_LOST:
        return error_set(op->client, status, "the caller's node died or cannot be reached");
    default: return error_note(op->client, status);
    }
}

static nigh_status move_init(const nigh_bulk_move *move, bool push, struct client_op *op)
{
    nigh_client *client;
    struct session_sqe sqe = {.op = SESSION_OP_BULK, .flags = push ? SESSION_FLAG_PUSH : 0};
    uint32_t lane;
    nigh_status status;

    if (move == NULL || move->struct_size < sizeof(*move) || move->request == NULL ||
        move->request->service == NULL || move->local == NULL) {
        return NIGH_INVALID;
    }
    client = calls_client_of(move->request);
    status = client_check(client);
    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    lane = (uint32_t)move->request->opaque[1];
    if (lane >= client->lanes || move->local->client != client ||
        !calls_is_now(client, (uint32_t)(move->request->opaque[1] >> 32))) {
        return error_set(client, NIGH_INVALID,
                         "nigh_bulk: the memory is of another client than the request's service");
    }
    if (!bulk_is_there(move->local)) {
        return bulk_tell_gone(client);
    }
    ORDER_SAID();
    memcpy(sqe.id, &move->local->number, sizeof(move->local->number));
    sqe.argument = move->request->opaque[0];
    sqe.meta_size = move->number;
    sqe.ref = move->offset;
    sqe.offset = move->local_offset;
    sqe.data_size = move->size;
    op_init_wait(op, client, lane, &sqe, NULL, NIGH_FOREVER);
    return NIGH_OK;
}

static nigh_status run_move(const nigh_bulk_move *move, bool push)
{
    struct client_op op;
    nigh_status status = move_init(move, push, &op);

    if (status != NIGH_OK) {
        return status;
    }
    status = op_run(&op);
    return status == NIGH_OK ? status : move_tell(&op, status);
}

static nigh_status start_move(const nigh_bulk_move *move, bool push, nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = op == NULL ? NIGH_INVALID : move_init(move, push, op);

    return status == NIGH_OK ? error_note(op->client, op_start(op)) : status;
}

nigh_status nigh_bulk_pull(const nigh_bulk_move *move)
{
    return run_move(move, false);
}

nigh_status nigh_bulk_push(const nigh_bulk_move *move)
{
    return run_move(move, true);
}

nigh_status nigh_bulk_pull_start(const nigh_bulk_move *move, nigh_op *op)
{
    return start_move(move, false, op);
}

nigh_status nigh_bulk_push_start(const nigh_bulk_move *move, nigh_op *op)
{
    return start_move(move, true, op);
}
