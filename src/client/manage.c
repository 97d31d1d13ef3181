/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that change what is there without giving memory to the caller: delete, evict, refresh, pin,
 * quota, checksum. What only looks is in look.c.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/op.h"
#include "client/quota.h"

/* ---- delete -----------------------------------------------------------------------------------
 */

static uint32_t ids_lane(struct client_op *op, size_t step)
{
    return client_lane_of(op->client, &op->u.ids.ids[step]);
}

static bool delete_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    sqe->op = SESSION_OP_DELETE;
    memcpy(sqe->id, op->u.ids.ids[step].bytes, sizeof(sqe->id));
    return true;
}

static bool delete_done(struct client_op *op, size_t step, uint8_t opcode,
                        const struct session_cqe *cqe)
{
    nigh_status status = (nigh_status)cqe->status;

    (void)opcode;
    if (op->u.ids.statuses != NULL) {
        op->u.ids.statuses[step] = status;
    }
    if (status != NIGH_OK && status != NIGH_IN_USE) {
        op_fail(op, status);
    }
    return false;
}

static void delete_settle(struct client_op *op, nigh_status status)
{
    for (size_t i = 0; op->u.ids.statuses != NULL && i < op->count; i++) {
        if (op->u.ids.statuses[i] == NIGH_PENDING) {
            op->u.ids.statuses[i] = status;
        }
    }
}

static const struct op_kind delete_kind = {
    .lane = ids_lane,
    .build = delete_build,
    .done = delete_done,
    .settle = delete_settle,
};

static nigh_status delete_init(struct client_op *op, nigh_client *client, const nigh_id *ids,
                               size_t n, nigh_status *statuses)
{
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        for (size_t i = 0; statuses != NULL && i < n; i++) {
            statuses[i] = status;
        }
        return status;
    }
    if (op == NULL || (ids == NULL && n != 0)) {
        return error_set(client, NIGH_INVALID, "nigh_delete: op or ids is NULL");
    }
    op_init(op, client, &delete_kind, n, UINT64_MAX);
    op->u.ids.ids = ids;
    op->u.ids.statuses = statuses;
    for (size_t i = 0; statuses != NULL && i < n; i++) {
        statuses[i] = NIGH_PENDING;
    }
    return NIGH_OK;
}

nigh_status nigh_delete(nigh_client *client, const nigh_id *ids, size_t n, nigh_status *statuses)
{
    struct client_op op;
    nigh_status status = delete_init(&op, client, ids, n, statuses);

    return status == NIGH_OK ? error_note(client, op_run(&op)) : status;
}

nigh_status nigh_delete_start(nigh_client *client, const nigh_id *ids, size_t n,
                              nigh_status *statuses, nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = delete_init(op, client, ids, n, statuses);

    return status == NIGH_OK ? error_note(client, op_start(op)) : status;
}

/* ---- refresh ----------------------------------------------------------------------------------
 */

static bool refresh_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    sqe->op = SESSION_OP_REFRESH;
    memcpy(sqe->id, op->u.ids.ids[step].bytes, sizeof(sqe->id));
    return true;
}

static bool refresh_done(struct client_op *op, size_t step, uint8_t opcode,
                         const struct session_cqe *cqe)
{
    (void)step;
    (void)opcode;
    if (cqe->status != NIGH_OK && cqe->status != NIGH_NOT_FOUND) {
        op_fail(op, (nigh_status)cqe->status);
    }
    return false;
}

static const struct op_kind refresh_kind = {
    .lane = ids_lane,
    .build = refresh_build,
    .done = refresh_done,
};

static nigh_status refresh_init(struct client_op *op, nigh_client *client, const nigh_id *ids,
                                size_t n)
{
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return status;
    }
    if (op == NULL || (ids == NULL && n != 0)) {
        return error_set(client, NIGH_INVALID, "nigh_refresh: op or ids is NULL");
    }
    op_init(op, client, &refresh_kind, n, UINT64_MAX);
    op->u.ids.ids = ids;
    op->u.ids.statuses = NULL;
    return NIGH_OK;
}

nigh_status nigh_refresh(nigh_client *client, const nigh_id *ids, size_t n)
{
    struct client_op op;
    nigh_status status = refresh_init(&op, client, ids, n);

    return status == NIGH_OK ? error_note(client, op_run(&op)) : status;
}

nigh_status nigh_refresh_start(nigh_client *client, const nigh_id *ids, size_t n, nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = refresh_init(op, client, ids, n);

    return status == NIGH_OK ? error_note(client, op_start(op)) : status;
}

/* ---- evict ------------------------------------------------------------------------------------
 */

_Static_assert(LIMIT_LANES <= 64, "a bit a lane");

static uint32_t evict_lane(struct client_op *op, size_t step)
{
    return (op->u.evict.barren >> step & 1) != 0 ? OP_SKIP : (uint32_t)step;
}

/* What is still missing, divided among the lanes that may have more. */
static uint64_t evict_share(const struct client_op *op)
{
    uint64_t missing = op->u.evict.size_bytes - op->u.evict.freed_before;
    uint64_t lanes = op->count - (uint64_t)__builtin_popcountll(op->u.evict.barren);

    return missing / lanes + (missing % lanes != 0);
}

static bool evict_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    sqe->op = SESSION_OP_EVICT;
    sqe->argument = evict_share(op);
    return true;
}

static bool evict_done(struct client_op *op, size_t step, uint8_t opcode,
                       const struct session_cqe *cqe)
{
    (void)opcode;
    if (cqe->data_size < evict_share(op)) {
        op->u.evict.barrens |= UINT64_C(1) << step;
    }
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
    } else {
        op->u.evict.freed += min_u64(cqe->data_size, UINT64_MAX - op->u.evict.freed);
    }
    return false;
}

/* A lane that had less than its share leaves a rest, which the others are asked for. */
static bool evict_finish(struct client_op *op)
{
    bool more = (size_t)__builtin_popcountll(op->u.evict.barrens) < op->count;

    if (op->result == NIGH_OK && op->u.evict.freed < op->u.evict.size_bytes && more &&
        ++op->u.evict.pass < LIMIT_EVICT_PASSES) {
        op->u.evict.freed_before = op->u.evict.freed;
        op->u.evict.barren = op->u.evict.barrens;
        return true;
    }
    if (op->result == NIGH_OK && op->u.evict.freed_bytes != NULL) {
        *op->u.evict.freed_bytes = op->u.evict.freed;
    }
    return false;
}

static const struct op_kind evict_kind = {
    .lane = evict_lane,
    .build = evict_build,
    .done = evict_done,
    .finish = evict_finish,
};

static nigh_status evict_init(struct client_op *op, nigh_client *client, uint64_t size_bytes,
                              uint64_t *freed_bytes)
{
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return status;
    }
    if (op == NULL) {
        return error_set(client, NIGH_INVALID, "nigh_evict: op is NULL");
    }
    op_init(op, client, &evict_kind, client->lanes, UINT64_MAX);
    memset(&op->u.evict, 0, sizeof(op->u.evict));
    op->u.evict.size_bytes = size_bytes;
    op->u.evict.freed_bytes = freed_bytes;
    return NIGH_OK;
}

nigh_status nigh_evict(nigh_client *client, uint64_t size_bytes, uint64_t *freed_bytes)
{
    struct client_op op;
    nigh_status status = evict_init(&op, client, size_bytes, freed_bytes);

    return status == NIGH_OK ? error_note(client, op_run(&op)) : status;
}

nigh_status nigh_evict_start(nigh_client *client, uint64_t size_bytes, uint64_t *freed_bytes,
                             nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = evict_init(op, client, size_bytes, freed_bytes);

    return status == NIGH_OK ? error_note(client, op_start(op)) : status;
}

/* ---- one id -----------------------------------------------------------------------------------
 */

static nigh_status manage_id(nigh_client *client, enum session_op opcode, const nigh_id *id,
                             struct session_cqe *cqe)
{
    nigh_status status = client_check(client);
    struct client_op op;

    if (status != NIGH_OK) {
        return status;
    }
    if (id == NULL) {
        return error_set(client, NIGH_INVALID, "the id is NULL");
    }
    op_init_id(&op, client, opcode, id, cqe);
    return error_note(client, op_run(&op));
}

nigh_status nigh_pin(nigh_client *client, const nigh_id *id)
{
    return manage_id(client, SESSION_OP_KEEP, id, NULL);
}

nigh_status nigh_unpin(nigh_client *client, const nigh_id *id)
{
    return manage_id(client, SESSION_OP_UNKEEP, id, NULL);
}

nigh_status nigh_checksum(nigh_client *client, const nigh_id *id, uint32_t *crc32c)
{
    struct session_cqe cqe;
    nigh_status status = client_check(client);

    if (status == NIGH_OK && crc32c == NULL) {
        return error_set(client, NIGH_INVALID, "nigh_checksum: crc32c is NULL");
    }
    status = manage_id(client, SESSION_OP_CHECKSUM, id, &cqe);
    if (status == NIGH_OK) {
        *crc32c = (uint32_t)cqe.data_size;
    }
    return status;
}

/* ---- quota ----------------------------------------------------------------
 */

nigh_status nigh_set_quota(nigh_client *client, uint64_t quota_bytes)
{
    nigh_status status = client_check(client);
    struct client_op op;

    if (status != NIGH_OK) {
        return status;
    }
    op_init_all(&op, client, SESSION_OP_QUOTA, quota_bytes, NULL, NULL);
    status = op_run(&op);
    if (status == NIGH_OK) {
        atomic_store_explicit(&client->quota_bytes, quota_bytes, memory_order_relaxed);
    }
    return error_note(client, status);
}

uint64_t quota_of_session(const nigh_client *client)
{
    uint64_t asked = atomic_load_explicit(&client->quota_bytes, memory_order_relaxed);
    uint64_t most = shared_load_relaxed(&client->front->session_quota_bytes);

    return asked == 0 || (most != 0 && most < asked) ? most : asked;
}

bool quota_is_below(const nigh_client *client, uint64_t bytes)
{
    uint64_t session = quota_of_session(client);
    uint64_t pool = shared_load_relaxed(&client->front->pool_quota_bytes);

    return unlikely((session != 0 && bytes > session) || (pool != 0 && bytes > pool));
}

/* "an object of 600.0 KiB is larger than the quota of pool tensors, 512.0 KiB in each of 2 lanes"
 */
void quota_tell(const nigh_client *client, uint64_t bytes, char *text, size_t size_bytes)
{
    uint64_t session = quota_of_session(client);
    uint64_t share = shared_load_relaxed(&client->front->pool_quota_bytes);
    char wanted[BYTES_SIZE_TEXT], quota[BYTES_SIZE_TEXT], pool[BYTES_SIZE_TEXT], lanes[32] = "";

    text[0] = '\0';
    bytes_format_size(bytes, wanted);
    bytes_format_size(session, quota);
    bytes_format_size(share, pool);
    if (client->lanes > 1) {
        (void)snprintf(lanes, sizeof(lanes), " in each of %" PRIu32 " lanes", client->lanes);
    }
    if (session != 0 && bytes > session) {
        (void)snprintf(text, size_bytes,
                       "an object of %s is larger than the quota of this session, %s", wanted,
                       quota);
    } else if (share != 0 && bytes > share) {
        (void)snprintf(text, size_bytes,
                       "an object of %s is larger than the quota of pool %s, %s%s", wanted,
                       client->pool, pool, lanes);
    } else if (session != 0 && share != 0) {
        (void)snprintf(text, size_bytes,
                       "a quota is used up: that of this session, %s, or that of pool %s, %s%s",
                       quota, client->pool, pool, lanes);
    } else if (session != 0) {
        (void)snprintf(text, size_bytes,
                       "the quota of this session, %s, is used up by what it made", quota);
    } else if (share != 0) {
        (void)snprintf(text, size_bytes, "the quota of pool %s, %s%s, is used up", client->pool,
                       pool, lanes);
    }
}
