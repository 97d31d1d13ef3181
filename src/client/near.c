/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of NIGH_NEAREST: where most of the objects are that the caller names is found out first. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "client/calls.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/locate.h"
#include "client/op.h"
#include "client/places.h"

/*
 * Before a call of NIGH_NEAREST: a step an object, and a last pass that is the call. What has been
 * heard so far hangs on the caller's spec: spec->opaque[0] until all have answered; then the ranks
 * stand behind it. What is not said in time (limits.h) counts for nobody, as what cannot be: a node
 * that does not answer does not take the call's time.
 */
struct near {
    struct locality sums;
    uint64_t until_us; /* 0: nothing was asked yet */
};

static struct near *near_of(const struct client_op *op)
{
    return (struct near *)(uintptr_t)op->u.call.spec->opaque[0];
}

/* From the first question on: how long all of them together may take. */
static uint64_t near_left_us(const struct client_op *op)
{
    struct near *near = near_of(op);
    uint64_t now_us = clock_now_us(&clock_monotonic);

    if (near->until_us == 0) {
        near->until_us = now_us + min_u64(op_remaining_us(op) / LIMIT_NEAR_PART, LIMIT_NEAR_US) + 1;
    }
    return near->until_us > now_us ? near->until_us - now_us : 0;
}

static uint32_t near_lane(struct client_op *op, size_t step)
{
    return near_left_us(op) == 0 ? OP_SKIP
                                 : client_lane_of(op->client, &op->u.call.spec->near_ids[step]);
}

static bool near_has_room(struct client_op *op)
{
    return op->next - op->ended < LOCATE_AT_ONCE;
}

static bool near_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    locality_ask(&op->u.call.spec->near_ids[step], sqe);
    sqe->argument = max_u64(near_left_us(op), 1);
    return true;
}

/* What cannot be said now counts for nobody: the call goes somewhere all the same. */
static bool near_done(struct client_op *op, size_t step, uint8_t opcode,
                      const struct session_cqe *cqe)
{
    (void)step;
    (void)opcode;
    if (cqe->status == NIGH_OK) {
        locality_take(&near_of(op)->sums, cqe);
    }
    return false;
}

static void near_end(struct client_op *op)
{
    free(near_of(op));
    op->u.call.spec->opaque[0] = 0;
}

static void near_settle(struct client_op *op, nigh_status status)
{
    (void)status;
    near_end(op);
}

static bool near_finish(struct client_op *op)
{
    nigh_location best[SESSION_NEAR];
    uint8_t kept[1 + SESSION_NEAR] = {0};
    size_t count = locality_rank(&near_of(op)->sums, best, SESSION_NEAR);

    kept[0] = (uint8_t)min_size(count, SESSION_NEAR);
    for (uint32_t n = 0; n < kept[0]; n++) {
        kept[1 + n] = (uint8_t)best[n].rank;
    }
    near_end(op);
    memcpy(&op->u.call.spec->opaque[1], kept, sizeof(kept));
    op->kind = &call_kind;
    op->count = 1;
    return true;
}

static const struct op_kind near_kind = {
    .lane = near_lane,
    .build = near_build,
    .done = near_done,
    .finish = near_finish,
    .settle = near_settle,
    .has_room = near_has_room,
    .tell = calls_explain,
    .waits = true,
};

/* A call of any server of a name, once it is known whom to ask first. */
nigh_status calls_near_init(nigh_client *client, nigh_call_spec *spec, struct client_op *op)
{
    struct near *near;

    if (spec->struct_size < CALL_SPEC_BULKS || spec->near_count > NIGH_NEAR_MOST ||
        (spec->near_ids == NULL && spec->near_count > 0)) {
        return error_set(client, NIGH_INVALID,
                         "nigh_call: NIGH_NEAREST takes near_ids, %d at most, and a spec that has "
                         "them",
                         NIGH_NEAR_MOST);
    }
    memset(spec->opaque, 0, sizeof(spec->opaque));
    op->u.call.rank = NIGH_ANY_RANK;
    if (spec->near_count == 0) {
        return NIGH_OK;
    }
    near = calloc(1, sizeof(*near));
    if (near == NULL) {
        return error_set(client, NIGH_NO_RESOURCES, "no memory to sum up where objects are");
    }
    spec->opaque[0] = (uint64_t)(uintptr_t)near;
    op->kind = &near_kind;
    op->count = spec->near_count;
    return NIGH_OK;
}

void calls_fill_near(const nigh_call_spec *spec, struct session_near *near)
{
    _Static_assert(1 + SESSION_NEAR <= sizeof(spec->opaque) - sizeof(spec->opaque[0]),
                   "the spec keeps the ranks");
    memcpy(&near->count, &spec->opaque[1], 1 + SESSION_NEAR);
}
