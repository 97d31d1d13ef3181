/* SPDX-License-Identifier: Apache-2.0 */
/* A node that leaves its cluster: asked for, undone, looked at, in all its lanes. */
#include <string.h>

#include "client/client_internal.h"
#include "client/error.h"
#include "client/op.h"

static void add_count(nigh_leave_count *count, uint64_t objects, uint64_t bytes)
{
    count->objects += objects;
    count->bytes += bytes;
}

static void add_lane(nigh_leave_info *info, const struct session_leaving *said)
{
    _Static_assert(NIGH_LEAVE_WHYS == SESSION_LEAVE_WHYS, "each reason is told");
    info->leaving |= said->leaves != 0;
    info->looking |= said->looks != 0;
    add_count(&info->waiting, said->waiting[0], said->waiting[1]);
    add_count(&info->safe, said->safe[0], said->safe[1]);
    add_count(&info->stuck, said->stuck[0], said->stuck[1]);
    add_count(&info->alone, said->alone[0], said->alone[1]);
    info->unsealed += said->unsealed;
    for (uint32_t n = 0; n < NIGH_LEAVE_WHYS; n++) {
        info->why[n] += said->why[n];
    }
}

static uint32_t leave_lane(struct client_op *op, size_t step)
{
    (void)step;
    return op->u.one.lane;
}

static bool leave_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    *sqe = op->u.one.sqe;
    return true;
}

static bool leave_done(struct client_op *op, size_t step, uint8_t opcode,
                       const struct session_cqe *cqe)
{
    const struct session_lane *shared = op->client->lane[op->u.one.lane].shared;
    struct session_leaving said;

    (void)step;
    (void)opcode;
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
        return false;
    }
    memcpy(&said, shared->reply, sizeof(said));
    add_lane(op->u.one.out, &said);
    return false;
}

static const struct op_kind leave_kind = {
    .lane = leave_lane,
    .build = leave_build,
    .done = leave_done,
};

static nigh_status leave_tell(nigh_client *client, nigh_status status)
{
    switch (status) {
    case NIGH_DENIED:
        return error_set(client, status,
                         "nigh_leave: only root, and the uid that the node runs as, may");
    case NIGH_TOO_FEW:
        return error_set(client, status,
                         "the node is alone: there is nobody to hand anything over to");
    default: return error_note(client, status);
    }
}

nigh_status nigh_leave(nigh_client *client, nigh_leave_how how, nigh_leave_info *info)
{
    struct session_sqe sqe = {.op = SESSION_OP_LEAVE, .argument = (uint64_t)how};
    nigh_leave_info sum = {0};
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return status;
    }
    if (how != NIGH_LEAVE_LOOK && how != NIGH_LEAVE_BEGIN && how != NIGH_LEAVE_UNDO) {
        return error_set(client, NIGH_INVALID, "nigh_leave: it is no NIGH_LEAVE_*");
    }
    (void)pthread_mutex_lock(&client->reply_lock);
    for (uint32_t lane = 0; lane < client->lanes && status == NIGH_OK; lane++) {
        struct client_op op;

        op_init_one(&op, client, lane, &sqe, NULL);
        op.kind = &leave_kind;
        op.u.one.out = &sum;
        status = op_run(&op);
    }
    (void)pthread_mutex_unlock(&client->reply_lock);
    if (status == NIGH_OK && info != NULL) {
        *info = sum;
    }
    return leave_tell(client, status);
}
