/* SPDX-License-Identifier: Apache-2.0 */
/* See show.h. */
#include "client/show.h"

#include <string.h>

#include "client/client_internal.h"
#include "client/error.h"
#include "client/op.h"

/* An answer under way. */
struct shown {
    size_t record_bytes;
    client_show_take *take;
    void *context;
    uint64_t sum;
    uint64_t next;
};

static size_t record_bytes_of(enum session_show_what what)
{
    switch (what) {
    case SESSION_SHOW_POOLS: return sizeof(struct session_show_pool);
    case SESSION_SHOW_HOTTEST: return sizeof(struct session_show_object);
    case SESSION_SHOW_TRANSFERS: return sizeof(struct session_show_transfer);
    case SESSION_SHOW_CURVES: return sizeof(struct session_show_curve);
    default: return sizeof(struct session_show_times);
    }
}

static uint32_t show_lane(struct client_op *op, size_t step)
{
    (void)step;
    return op->u.one.lane;
}

static bool show_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    *sqe = op->u.one.sqe;
    return true;
}

static bool show_done(struct client_op *op, size_t step, uint8_t opcode,
                      const struct session_cqe *cqe)
{
    const struct session_lane *shared = op->client->lane[op->u.one.lane].shared;
    struct shown *shown = op->u.one.out;

    (void)step;
    (void)opcode;
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
        return false;
    }
    for (uint64_t n = 0; n < cqe->data_size && (n + 1) * shown->record_bytes <= LIMIT_REPLY_BYTES;
         n++) {
        shown->take(shown->context, op->u.one.lane, shared->reply + n * shown->record_bytes);
    }
    shown->sum += cqe->lease_offset;
    shown->next = cqe->generation;
    return false;
}

static const struct op_kind show_kind = {
    .lane = show_lane,
    .build = show_build,
    .done = show_done,
};

/* NIGH_BUSY: there is more. */
static nigh_status ask_lane(nigh_client *client, uint32_t lane, struct session_sqe *sqe,
                            uint32_t rounds, struct shown *shown)
{
    nigh_status status = NIGH_OK;

    sqe->ref = 0;
    while (status == NIGH_OK && rounds-- > 0) {
        struct client_op op;

        op_init_one(&op, client, lane, sqe, NULL);
        op.kind = &show_kind;
        op.u.one.out = shown;
        status = op_run(&op);
        sqe->ref = shown->next;
        if (status == NIGH_OK && shown->next == 0) {
            return NIGH_OK;
        }
    }
    return status == NIGH_OK ? NIGH_BUSY : status;
}

nigh_status client_show(nigh_client *client, enum session_show_what what, uint32_t rounds,
                        client_show_take *take, void *context, uint64_t *sum)
{
    struct session_sqe sqe = {.op = SESSION_OP_SHOW, .argument = what};
    struct shown shown = {.record_bytes = record_bytes_of(what), .take = take, .context = context};
    nigh_status status = client_check(client), asked = NIGH_OK;
    bool more = false;

    (void)pthread_mutex_lock(&client->reply_lock);
    for (uint32_t lane = 0; lane < client->lanes && status == NIGH_OK; lane++) {
        asked = ask_lane(client, lane, &sqe, rounds, &shown);
        more = more || asked == NIGH_BUSY;
        status = asked == NIGH_BUSY ? NIGH_OK : asked;
    }
    (void)pthread_mutex_unlock(&client->reply_lock);
    if (status == NIGH_OK && sum != NULL) {
        *sum = shown.sum;
    }
    return error_note(client, status == NIGH_OK && more ? NIGH_BUSY : status);
}
