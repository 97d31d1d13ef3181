/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that several nodes are to hold: asked for by themselves, or behind the seal of a put. */
#include <string.h>

#include "client/client_internal.h"
#include "client/error.h"
#include "client/op.h"
#include "client/put.h"

void replicate_fill(const nigh_id *id, uint32_t copies, uint64_t timeout_us,
                    struct session_sqe *sqe)
{
    memset(sqe, 0, sizeof(*sqe));
    sqe->op = SESSION_OP_REPLICATE;
    memcpy(sqe->id, id->bytes, sizeof(sqe->id));
    sqe->ref = copies;
    sqe->argument = timeout_us;
}

uint64_t replicate_timeout_us(uint64_t timeout_us)
{
    return max_u64(timeout_us, NIGH_REPLICAS_WAIT_US);
}

nigh_status replicate_tell(nigh_client *client, nigh_status status, uint32_t copies, uint64_t made)
{
    switch (status) {
    case NIGH_TOO_FEW:
    case NIGH_TIMEOUT:
        return error_set(
            client, status,
            "it is there, but only %llu of the %u nodes that were asked for hold it by "
            "now; more will as soon as they are up and have room (nigh nodes)",
            (unsigned long long)made, copies);
    default: return error_note(client, status);
    }
}

/* ---- nigh_replicate ------------------------------------------------------- */

/* How many hold it is told whatever the status. */
static bool replicate_done(struct client_op *op, size_t step, uint8_t opcode,
                           const struct session_cqe *cqe)
{
    (void)step;
    (void)opcode;
    *(uint64_t *)op->u.one.out = cqe->data_size;
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
    }
    return false;
}

static const struct op_kind replicate_kind = {
    .lane = op_one_lane,
    .build = op_one_build,
    .done = replicate_done,
    .waits = true,
};

nigh_status nigh_replicate(nigh_client *client, const nigh_id *id, uint32_t copies,
                           uint64_t timeout_us, uint32_t *made)
{
    struct session_sqe sqe;
    struct client_op op;
    uint64_t count = 0;
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return status;
    }
    if (id == NULL || copies < 2 || copies > LIMIT_REPLICAS) {
        return error_set(client, NIGH_INVALID, "nigh_replicate: no id, or not 2 to %d copies",
                         LIMIT_REPLICAS);
    }
    replicate_fill(id, copies, timeout_us, &sqe);
    op_init_wait(&op, client, client_lane_of(client, id), &sqe, NULL, timeout_us);
    op.kind = &replicate_kind;
    op.u.one.out = &count;
    status = op_run(&op);
    if (made != NULL && (status == NIGH_OK || status == NIGH_TOO_FEW || status == NIGH_TIMEOUT)) {
        *made = (uint32_t)count;
    }
    return replicate_tell(client, status, copies, count);
}
