/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of regions. What is the caller's is copied through places (places.c), LIMIT_CALL_BYTES a
 * submission, as many at once as there are places; what is in memory that the node made (bulk.c) is
 * moved by it, in one.
 */
#include <string.h>

#include "base/order.h"
#include "client/bulk.h"
#include "client/error.h"
#include "client/places.h"
#include "client/region.h"

/* ---- copied --------------------------------------------------------------- */

static size_t steps_of(uint64_t bytes)
{
    return (size_t)(bytes / LIMIT_CALL_BYTES + (bytes % LIMIT_CALL_BYTES != 0));
}

/* What a step moves: at most LIMIT_CALL_BYTES of one part. */
static nigh_region_part step_of(const struct client_op *op, size_t step)
{
    nigh_region_part of = {
        .offset = op->u.region.at, .bytes = op->u.region.answer, .size = op->u.region.total};
    uint64_t from;

    for (uint64_t n = 0; op->u.region.parts != NULL && n < op->u.region.ref; n++) {
        of = op->u.region.parts[n];
        if (step < steps_of(of.size))
            break;
        step -= steps_of(of.size);
    }
    from = (uint64_t)step * LIMIT_CALL_BYTES;
    of.offset += from;
    of.bytes = (uint8_t *)of.bytes + from;
    of.size = min_size(LIMIT_CALL_BYTES, of.size - from);
    return of;
}

static void io_fill(struct client_op *op, struct session_sqe *sqe)
{
    bool writes = op->u.region.what == SESSION_REGION_WRITE;
    nigh_region_part part = step_of(op, op->u.region.step);
    struct session_region_id id = {.number = op->u.region.region->number, .offset = part.offset};

    op->u.place.bytes = writes ? part.bytes : NULL;
    op->u.place.count = writes ? (uint32_t)part.size : 0;
    place_write(op, place_take(op, sqe));
    sqe->op = SESSION_OP_REGION;
    sqe->name_size = (uint16_t)op->u.region.what;
    memcpy(sqe->id, &id, LIMIT_ID_BYTES);
    sqe->ref = writes ? 0 : part.size;
    sqe->argument = op_remaining_us(op);
}

static bool io_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    if (op->u.region.region->connection !=
        atomic_load_explicit(&op->client->connections, memory_order_relaxed)) {
        op_fail(op, NIGH_CLOSED);
    }
    if (op->result != NIGH_OK) {
        /* Nor does any other begin. Of a size that no region has they would be walked for days. */
        op->ended += op->count - op->next;
        op->next = op->count;
        return false;
    }
    op->u.region.step = step;
    return place_build(op, sqe, io_fill);
}

/* Several of an op are under way, so each says where its place is. */
static void io_take_read(struct client_op *op, size_t step, const struct session_cqe *cqe)
{
    nigh_region_part part = step_of(op, step);
    const uint8_t *from = calls_bytes(op->client, op->u.place.lane, cqe->offset);

    if (cqe->data_size != part.size || from == NULL) {
        op_fail(op, NIGH_PROTOCOL);
        return;
    }
    memcpy(part.bytes, from, part.size);
}

static bool io_done(struct client_op *op, size_t step, uint8_t opcode,
                    const struct session_cqe *cqe)
{
    if (opcode == SESSION_OP_CALL_LEASE) {
        op->u.region.step = step;
        return place_goes_on(op, step, cqe, io_fill);
    }
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
    } else if (op->u.region.what == SESSION_REGION_READ) {
        io_take_read(op, step, cqe);
    }
    return false;
}

static const struct op_kind io_kind = {
    .lane = place_lane,
    .build = io_build,
    .done = io_done,
    .has_room = place_has_room,
    .tell = region_explain,
    .waits = true,
};

static nigh_status io_init(struct client_op *op, nigh_region *region, enum session_region_what what,
                           uint64_t offset, const void *bytes, size_t size, uint64_t timeout_us)
{
    const char *call = what == SESSION_REGION_READ ? "nigh_region_read" : "nigh_region_write";
    nigh_status status = region_check(region, call);

    if (status != NIGH_OK) {
        return status;
    }
    if (bytes == NULL && size > 0) {
        return error_set(region->client, NIGH_INVALID, "%s: no bytes (bytes is NULL)", call);
    }
    if (size > UINT64_MAX - offset) {
        return error_set(region->client, NIGH_INVALID,
                         "%s: no region reaches to offset and size: together they are beyond 2^64",
                         call);
    }
    region_init(op, region->client, region, what, timeout_us);
    op->kind = &io_kind;
    op->count = steps_of(size);
    op->u.region.at = offset;
    op->u.region.total = size;
    op->u.region.answer = (void *)(uintptr_t)bytes; /* of a write it is only read */
    return NIGH_OK;
}

static nigh_status run_io(nigh_region *region, enum session_region_what what, uint64_t offset,
                          const void *bytes, size_t size, uint64_t timeout_us)
{
    struct client_op op;
    nigh_status status = io_init(&op, region, what, offset, bytes, size, timeout_us);

    return status == NIGH_OK ? region_run(&op) : status;
}

static nigh_status start_io(nigh_region *region, enum session_region_what what, uint64_t offset,
                            const void *bytes, size_t size, uint64_t timeout_us, nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = region_check_op(region, given,
                                         what == SESSION_REGION_READ ? "nigh_region_read_start"
                                                                     : "nigh_region_write_start");

    if (status == NIGH_OK) {
        status = io_init(op, region, what, offset, bytes, size, timeout_us);
    }
    return status == NIGH_OK ? error_note(region->client, calls_start(op)) : status;
}

nigh_status nigh_region_read(nigh_region *region, uint64_t offset, void *bytes, size_t size,
                             uint64_t timeout_us)
{
    return run_io(region, SESSION_REGION_READ, offset, bytes, size, timeout_us);
}

nigh_status nigh_region_write(nigh_region *region, uint64_t offset, const void *bytes, size_t size,
                              uint64_t timeout_us)
{
    return run_io(region, SESSION_REGION_WRITE, offset, bytes, size, timeout_us);
}

nigh_status nigh_region_read_start(nigh_region *region, uint64_t offset, void *bytes, size_t size,
                                   uint64_t timeout_us, nigh_op *op)
{
    return start_io(region, SESSION_REGION_READ, offset, bytes, size, timeout_us, op);
}

nigh_status nigh_region_write_start(nigh_region *region, uint64_t offset, const void *bytes,
                                    size_t size, uint64_t timeout_us, nigh_op *op)
{
    return start_io(region, SESSION_REGION_WRITE, offset, bytes, size, timeout_us, op);
}

/* ---- several parts -------------------------------------------------------- */

static nigh_status vector_init(struct client_op *op, nigh_region *region,
                               enum session_region_what what, const nigh_region_part *parts,
                               size_t count, uint64_t timeout_us)
{
    const char *call = what == SESSION_REGION_READ ? "nigh_region_readv" : "nigh_region_writev";
    nigh_status status = region_check(region, call);
    size_t steps = 0;

    if (status != NIGH_OK) {
        return status;
    }
    if (parts == NULL && count > 0) {
        return error_set(region->client, NIGH_INVALID, "%s: no parts (parts is NULL)", call);
    }
    if (count > NIGH_REGION_PARTS) {
        return error_set(region->client, NIGH_INVALID, "%s: %u parts at most, not %zu", call,
                         NIGH_REGION_PARTS, count);
    }
    for (size_t n = 0; n < count; n++) {
        if (parts[n].bytes == NULL && parts[n].size > 0) {
            return error_set(region->client, NIGH_INVALID, "%s: part %zu has no bytes (NULL)", call,
                             n);
        }
        if (parts[n].size > UINT64_MAX - parts[n].offset) {
            return error_set(region->client, NIGH_INVALID,
                             "%s: no region reaches to the end of part %zu, beyond 2^64", call, n);
        }
        steps += steps_of(parts[n].size);
    }
    region_init(op, region->client, region, what, timeout_us);
    op->kind = &io_kind;
    op->count = steps;
    op->u.region.parts = parts;
    op->u.region.ref = count;
    return NIGH_OK;
}

static nigh_status run_vector(nigh_region *region, enum session_region_what what,
                              const nigh_region_part *parts, size_t count, uint64_t timeout_us)
{
    struct client_op op;
    nigh_status status = vector_init(&op, region, what, parts, count, timeout_us);

    return status == NIGH_OK ? region_run(&op) : status;
}

static nigh_status start_vector(nigh_region *region, enum session_region_what what,
                                const nigh_region_part *parts, size_t count, uint64_t timeout_us,
                                nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = region_check_op(region, given,
                                         what == SESSION_REGION_READ ? "nigh_region_readv_start"
                                                                     : "nigh_region_writev_start");

    if (status == NIGH_OK) {
        status = vector_init(op, region, what, parts, count, timeout_us);
    }
    return status == NIGH_OK ? error_note(region->client, calls_start(op)) : status;
}

nigh_status nigh_region_readv(nigh_region *region, const nigh_region_part *parts, size_t count,
                              uint64_t timeout_us)
{
    return run_vector(region, SESSION_REGION_READ, parts, count, timeout_us);
}

nigh_status nigh_region_writev(nigh_region *region, const nigh_region_part *parts, size_t count,
                               uint64_t timeout_us)
{
    return run_vector(region, SESSION_REGION_WRITE, parts, count, timeout_us);
}

nigh_status nigh_region_readv_start(nigh_region *region, const nigh_region_part *parts,
                                    size_t count, uint64_t timeout_us, nigh_op *op)
{
    return start_vector(region, SESSION_REGION_READ, parts, count, timeout_us, op);
}

nigh_status nigh_region_writev_start(nigh_region *region, const nigh_region_part *parts,
                                     size_t count, uint64_t timeout_us, nigh_op *op)
{
    return start_vector(region, SESSION_REGION_WRITE, parts, count, timeout_us, op);
}

/* ---- moved by the node ---------------------------------------------------- */

/* Whether it is memory for calls of the same client. */
static nigh_status check_part(nigh_client *client, const nigh_bulk_part *part, const char *call)
{
    if (part == NULL || part->bulk == NULL) {
        return error_set(client, NIGH_INVALID, "%s: no memory (part, or its bulk, is NULL)", call);
    }
    if (part->bulk->client != client) {
        return error_set(client, NIGH_INVALID, "%s: the memory is of a handle of another client",
                         call);
    }
    if (part->offset > part->bulk->size || part->size > part->bulk->size - part->offset) {
        return error_set(client, NIGH_INVALID,
                         "%s: the part is not all in the memory, which has %llu bytes", call,
                         (unsigned long long)part->bulk->size);
    }
    return NIGH_OK;
}

static nigh_status part_init(struct client_op *op, nigh_region *region,
                             enum session_region_what what, uint64_t offset,
                             const nigh_bulk_part *part, uint64_t timeout_us)
{
    const char *call =
        what == SESSION_REGION_READ ? "nigh_region_read_into" : "nigh_region_write_from";
    nigh_status status = region_check(region, call);

    if (status != NIGH_OK) {
        return status;
    }
    status = check_part(region->client, part, call);
    if (status != NIGH_OK) {
        return status;
    }
    if (!bulk_is_there(part->bulk)) {
        return bulk_tell_gone(region->client);
    }
    ORDER_SAID();
    region_init(op, region->client, region, what, timeout_us);
    op->u.region.at = offset;
    op->u.region.flags = SESSION_FLAG_INTO;
    /* By number: the handle may be closed before there is room for the question. */
    op->u.region.memory.number = part->bulk->number;
    op->u.region.memory.offset = part->offset;
    op->u.region.memory.bytes = part->size;
    op->u.place.count = sizeof(struct session_bulk);
    if (part->size == 0) {
        op->count = 0; /* as of a read or write of none */
    }
    return NIGH_OK;
}

static nigh_status run_part(nigh_region *region, enum session_region_what what, uint64_t offset,
                            const nigh_bulk_part *part, uint64_t timeout_us)
{
    struct client_op op;
    nigh_status status = part_init(&op, region, what, offset, part, timeout_us);

    if (status != NIGH_OK) {
        return status;
    }
    status = region_run(&op);
    ORDER_HEARD();
    return status;
}

static nigh_status start_part(nigh_region *region, enum session_region_what what, uint64_t offset,
                              const nigh_bulk_part *part, uint64_t timeout_us, nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status =
        region_check_op(region, given,
                        what == SESSION_REGION_READ ? "nigh_region_read_into_start"
                                                    : "nigh_region_write_from_start");

    if (status == NIGH_OK) {
        status = part_init(op, region, what, offset, part, timeout_us);
    }
    return status == NIGH_OK ? error_note(region->client, calls_start(op)) : status;
}

nigh_status nigh_region_read_into(nigh_region *region, uint64_t offset, const nigh_bulk_part *part,
                                  uint64_t timeout_us)
{
    return run_part(region, SESSION_REGION_READ, offset, part, timeout_us);
}

nigh_status nigh_region_write_from(nigh_region *region, uint64_t offset, const nigh_bulk_part *part,
                                   uint64_t timeout_us)
{
    return run_part(region, SESSION_REGION_WRITE, offset, part, timeout_us);
}

nigh_status nigh_region_read_into_start(nigh_region *region, uint64_t offset,
                                        const nigh_bulk_part *part, uint64_t timeout_us,
                                        nigh_op *op)
{
    return start_part(region, SESSION_REGION_READ, offset, part, timeout_us, op);
}

nigh_status nigh_region_write_from_start(nigh_region *region, uint64_t offset,
                                         const nigh_bulk_part *part, uint64_t timeout_us,
                                         nigh_op *op)
{
    return start_part(region, SESSION_REGION_WRITE, offset, part, timeout_us, op);
}

/* ---- words ---------------------------------------------------------------- */

static nigh_status word_init(struct client_op *op, nigh_region *region,
                             enum session_region_what what, uint64_t offset, uint64_t word,
                             uint64_t timeout_us, uint64_t *old)
{
    const char *call =
        what == SESSION_REGION_ADD ? "nigh_region_fetch_add" : "nigh_region_compare_swap";
    nigh_status status = region_check(region, call);

    if (status != NIGH_OK) {
        return status;
    }
    if (offset % sizeof(word) != 0) {
        return error_set(region->client, NIGH_INVALID, "%s: the offset is not a multiple of 8",
                         call);
    }
    region_init(op, region->client, region, what, timeout_us);
    op->u.region.at = offset;
    op->u.region.ref = word;
    op->u.region.out = old;
    return NIGH_OK;
}

static nigh_status add_init(struct client_op *op, nigh_region *region, uint64_t offset,
                            uint64_t added, uint64_t timeout_us, uint64_t *old)
{
    return word_init(op, region, SESSION_REGION_ADD, offset, added, timeout_us, old);
}

static nigh_status swap_init(struct client_op *op, nigh_region *region, uint64_t offset,
                             uint64_t compare, uint64_t swap, uint64_t timeout_us, uint64_t *old)
{
    nigh_status status = word_init(op, region, SESSION_REGION_SWAP, offset, swap, timeout_us, old);

    if (status == NIGH_OK) {
        region_ask(op, &compare, sizeof(compare));
    }
    return status;
}

nigh_status nigh_region_fetch_add(nigh_region *region, uint64_t offset, uint64_t added,
                                  uint64_t timeout_us, uint64_t *old)
{
    struct client_op op;
    nigh_status status = add_init(&op, region, offset, added, timeout_us, old);

    return status == NIGH_OK ? region_run(&op) : status;
}

nigh_status nigh_region_compare_swap(nigh_region *region, uint64_t offset, uint64_t compare,
                                     uint64_t swap, uint64_t timeout_us, uint64_t *old)
{
    struct client_op op;
    nigh_status status = swap_init(&op, region, offset, compare, swap, timeout_us, old);

    return status == NIGH_OK ? region_run(&op) : status;
}

nigh_status nigh_region_fetch_add_start(nigh_region *region, uint64_t offset, uint64_t added,
                                        uint64_t timeout_us, uint64_t *old, nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = region_check_op(region, given, "nigh_region_fetch_add_start");

    if (status == NIGH_OK) {
        status = add_init(op, region, offset, added, timeout_us, old);
    }
    return status == NIGH_OK ? error_note(region->client, calls_start(op)) : status;
}

nigh_status nigh_region_compare_swap_start(nigh_region *region, uint64_t offset, uint64_t compare,
                                           uint64_t swap, uint64_t timeout_us, uint64_t *old,
                                           nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = region_check_op(region, given, "nigh_region_compare_swap_start");

    if (status == NIGH_OK) {
        status = swap_init(op, region, offset, compare, swap, timeout_us, old);
    }
    return status == NIGH_OK ? error_note(region->client, calls_start(op)) : status;
}
