/* SPDX-License-Identifier: Apache-2.0 */
/* A node that is gone for good and is struck off its cluster: asked for in lane 0. */
#include "client/client_internal.h"
#include "client/error.h"
#include "client/op.h"

static uint32_t forget_lane(struct client_op *op, size_t step)
{
    (void)step;
    return op->u.one.lane;
}

static bool forget_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    *sqe = op->u.one.sqe;
    return true;
}

static bool forget_done(struct client_op *op, size_t step, uint8_t opcode,
                        const struct session_cqe *cqe)
{
    bool *ended = op->u.one.out;

    (void)step;
    (void)opcode;
    *ended = cqe->data_size != 0;
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
    }
    return false;
}

static const struct op_kind forget_kind = {
    .lane = forget_lane,
    .build = forget_build,
    .done = forget_done,
};

static nigh_status forget_tell(nigh_client *client, nigh_status status)
{
    switch (status) {
    case NIGH_DENIED:
        return error_set(client, status,
                         "nigh_forget: only root, and the uid that the node runs as, may");
    case NIGH_BUSY:
        return error_set(
            client, status,
            "that node lives, or did two seconds ago: have it leave first (nigh leave), "
            "and stop it");
    case NIGH_UNSUPPORTED:
        return error_set(client, status,
                         "only nodes that joined can be struck off (nighd --state, --join): the "
                         "list of members keeps whom it names");
    case NIGH_NOT_FOUND: return error_set(client, status, "no node was ever given this rank");
    case NIGH_TIMEOUT:
        return error_set(client, status,
                         "it was not decided: most voters are away, or the view still has that "
                         "node; try again");
    default: return error_note(client, status);
    }
}

nigh_status nigh_forget(nigh_client *client, uint32_t rank)
{
    struct session_sqe sqe = {.op = SESSION_OP_FORGET, .argument = rank};
    struct client_op op;
    bool ended = false;
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return status;
    }
    op_init_one(&op, client, 0, &sqe, NULL);
    op.kind = &forget_kind;
    op.u.one.out = &ended;
    status = op_run(&op);
    return status == NIGH_OK && !ended ? NIGH_PENDING : forget_tell(client, status);
}
