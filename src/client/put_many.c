/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts of many objects: one op, a step an item, and one round trip for all that come from leases.
 *
 * Small items are copied where their step is taken on, under the client's lock; large ones outside
 * it (copies.c), or, by the synchronous call, one after the other by nigh_put.
 */
#include <string.h>

#include "client/client_internal.h"
#include "client/copies.h"
#include "client/error.h"
#include "client/extents.h"
#include "client/lease.h"
#include "client/op.h"
#include "client/put.h"
#include "client/ring.h"

static uint32_t put_many_lane(struct client_op *op, size_t step)
{
    if (op->u.put.items[step].status != NIGH_PENDING) {
        return OP_SKIP;
    }
    return client_lane_of(op->client, &op->u.put.items[step].id);
}

static void put_many_fail(struct client_op *op, nigh_put_item *item, nigh_status status)
{
    item->status = status;
    op_fail(op, status);
}

/*
 * Copies an item into its memory and fills its SEAL, or, when it is large, leaves that to copies.c
 * (no SEAL then). False: the memory cannot be mapped.
 */
static bool put_many_seal(struct client_op *op, size_t step, const struct put_wish *wish,
                          const struct copy_target *target, struct session_sqe *sqe)
{
    nigh_client *client = op->client;
    nigh_put_item *item = &op->u.put.items[step];
    nigh_status status = extents_map_locked(client, target->offset, wish->bytes, true);

    if (status != NIGH_OK) {
        put_many_fail(op, item, status);
        return false;
    }
    if (wish->data_size > PUT_LARGE_BYTES) {
        copies_want(op, step, wish->lane, target);
        return true;
    }
    if (wish->data_size != 0) {
        memcpy(client->write_arena + target->offset, item->data, wish->data_size);
    }
    put_copy_tail(wish, client->write_arena + target->offset);
    put_fill_seal(client, wish, target->offset, target->ref, target->leased, 0, sqe);
    return true;
}

/* A leased item is sealed at once; another is created first. What an item wants is read without
 * put_check, here and in put_many_created: the client is locked, and an end of it that the node has
 * announced meanwhile comes by itself, and changes nothing of what the item wants. */
static bool put_many_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    nigh_client *client = op->client;
    nigh_put_item *item = &op->u.put.items[step];
    struct copy_target target = {.leased = true};
    struct put_wish wish;
    nigh_status status = put_read_wish(client, &item->id, item->data_size, item->options, &wish);

    if (status == NIGH_OK && item->data == NULL && item->data_size != 0) {
        status = NIGH_INVALID;
    }
    if (status != NIGH_OK) {
        put_many_fail(op, item, status);
        return false;
    }
    if ((wish.flags & NIGH_CREATE_EXCLUSIVE) == 0 && lease_is_for(client, wish.lane, wish.bytes) &&
        lease_cut(client, wish.lane, wish.bytes, &target.offset)) {
        target.bytes = wish.bytes;
        if (!put_many_seal(op, step, &wish, &target, sqe)) {
            lease_gave_up(client, wish.lane, target.offset, wish.bytes);
            return false;
        }
        return true;
    }
    put_fill_create(&wish, wish.timeout_us, sqe);
    return true;
}

/* There is memory for an item: its SEAL follows. True: the step goes on. */
static bool put_many_created(struct client_op *op, size_t step, const struct session_cqe *cqe)
{
    nigh_client *client = op->client;
    nigh_put_item *item = &op->u.put.items[step];
    uint32_t lane = client_lane_of(client, &item->id);
    struct session_sqe abort = {.op = SESSION_OP_ABORT, .ref = cqe->ref};
    struct session_sqe sqe = {.op = SESSION_OP_NOP};
    struct copy_target target = {.offset = cqe->offset, .ref = cqe->ref};
    struct put_wish wish;
    nigh_status status = put_read_wish(client, &item->id, item->data_size, item->options, &wish);

    if (status != NIGH_OK) {
        put_many_fail(op, item, status);
    } else {
        target.bytes = wish.bytes;
    }
    if (status != NIGH_OK || !put_many_seal(op, step, &wish, &target, &sqe)) {
        ring_submit(client, lane, NULL, 0, false, &abort);
        return false;
    }
    if (sqe.op != SESSION_OP_NOP) {
        op_go_on(op, step, lane, false, &sqe);
    }
    return true;
}

/* An item is sealed; others may be to hold it, too. True: the step goes on. */
static bool put_many_sealed(struct client_op *op, size_t step)
{
    nigh_put_item *item = &op->u.put.items[step];
    struct session_sqe sqe;
    struct put_wish wish;

    if (put_read_wish(op->client, &item->id, item->data_size, item->options, &wish) != NIGH_OK ||
        wish.replicas == 0) {
        item->status = NIGH_OK;
        return false;
    }
    replicate_fill(&item->id, wish.replicas, replicate_timeout_us(wish.timeout_us), &sqe);
    op_go_on(op, step, wish.lane, true, &sqe);
    return true;
}

static bool put_many_done(struct client_op *op, size_t step, uint8_t opcode,
                          const struct session_cqe *cqe)
{
    nigh_put_item *item = &op->u.put.items[step];
    nigh_status status = (nigh_status)cqe->status;

    if (opcode == SESSION_OP_REPLICATE) {
        item->status = replicate_of_put(status);
        if (status != NIGH_OK) {
            op_fail(op, item->status);
        }
        return false;
    }
    if (status != NIGH_OK) {
        put_many_fail(op, item,
                      error_note_memory(op->client, status, client_lane_of(op->client, &item->id),
                                        item->data_size));
        return false;
    }
    if (opcode != SESSION_OP_SEAL) {
        return put_many_created(op, step, cqe);
    }
    return put_many_sealed(op, step);
}

/* The source of a copy that copies.c makes. */
static nigh_status put_many_source(struct client_op *op, size_t step, const void **data,
                                   struct put_wish *wish)
{
    const nigh_put_item *item = &op->u.put.items[step];

    *data = item->data;
    return put_read_wish(op->client, &item->id, item->data_size, item->options, wish);
}

static void put_many_settle(struct client_op *op, nigh_status status)
{
    for (size_t i = 0; i < op->count; i++) {
        if (op->u.put.items[i].status == NIGH_PENDING) {
            op->u.put.items[i].status = status;
        }
    }
}

static const struct op_kind put_many_kind = {
    .lane = put_many_lane,
    .build = put_many_build,
    .done = put_many_done,
    .source = put_many_source,
    .settle = put_many_settle,
    .notes = true,
    .waits = true, /* creates wait for memory */
};

static nigh_status put_many_init(struct client_op *op, nigh_client *client, nigh_put_item *items,
                                 size_t n)
{
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        for (size_t i = 0; i < n && items != NULL; i++) {
            items[i].status = status;
        }
        return status;
    }
    if (op == NULL || (items == NULL && n != 0)) {
        return error_set(client, NIGH_INVALID, "nigh_put_many: op or items is NULL");
    }
    op_init(op, client, &put_many_kind, n, UINT64_MAX);
    op->u.put.items = items;
    for (size_t i = 0; i < n; i++) {
        items[i].status = NIGH_PENDING;
    }
    return NIGH_OK;
}

nigh_status nigh_put_many(nigh_client *client, nigh_put_item *items, size_t n)
{
    struct client_op op;
    nigh_status status = put_many_init(&op, client, items, n);

    if (status != NIGH_OK) {
        return status;
    }
    /* What is large is copied here, outside the lock, one after the other. */
    for (size_t i = 0; i < n; i++) {
        if (items[i].data_size > PUT_LARGE_BYTES) {
            items[i].status =
                nigh_put(client, &items[i].id, items[i].data, items[i].data_size, items[i].options);
            if (items[i].status != NIGH_OK) {
                op_fail(&op, items[i].status);
            }
        }
    }
    return error_note_end(client, op_run(&op));
}

nigh_status nigh_put_many_start(nigh_client *client, nigh_put_item *items, size_t n, nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = put_many_init(op, client, items, n);

    if (status == NIGH_OK) {
        status = error_note(client, op_start(op));
        copies_make(client); /* of what is cut from leases */
    }
    return status;
}
