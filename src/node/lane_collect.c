/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of many nodes: between the rings, the links and the calls of this lane, and the machine
 * that knows what is under way (rpc/collect.h).
 *
 * What a session wants lies in leased memory, as a call's request does, and is read once. The group
 * is the view that this lane has adopted, or, where the cluster agrees on none, the list.
 */
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "nigh/rpc.h"
#include "node/lane_internal.h"

_Static_assert(sizeof(struct session_collected) == sizeof(struct collect_said) &&
                   LIMIT_COLLECT_ERRORS == sizeof(((struct session_collected *)NULL)->first) /
                                               sizeof(struct collect_error),
               "a session is told what nodes tell each other");
_Static_assert(sizeof(((struct session_collect *)NULL)->ranks) == sizeof(struct ranks),
               "and says whom in their words");
_Static_assert(NIGH_REDUCE_SUM_U64 == (int)COLLECT_SUM_U64 &&
                   NIGH_REDUCE_MAX_F64 == (int)COLLECT_MAX_F64 &&
                   NIGH_REDUCE_CONCAT == (int)COLLECT_CONCAT,
               "and what of it");
_Static_assert(sizeof(struct agreed_set) == sizeof(struct ranks), "a view is such a set");

/* ---- answers -------------------------------------------------------------- */

static void complete(struct lane *lane, uint32_t slot, uint32_t cookie, nigh_status status,
                     uint64_t bytes)
{
    struct session_cqe cqe = {.cookie = cookie,
                              .status = status,
                              .data_size = bytes,
                              .pin = SESSION_NO_PIN,
                              .generation = collects_version(lane->collect.collects)};

    lane_on_complete(lane, slot, &cqe);
}

static void on_answer(void *context, const struct calls_caller *caller,
                      const struct collect_end *end)
{
    struct lane *lane = context;
    struct collect_said said = *end->said;
    uint32_t bytes = (uint32_t)sizeof(said) + said.value_bytes;
    uint8_t *to;

    if (!lane_is_session(lane, caller->owner, caller->begun))
        return;
    to = lane_placed(lane, caller->owner, caller->offset, bytes);
    if (to == NULL) {
        complete(lane, caller->owner, caller->cookie, NIGH_INVALID, 0);
        return;
    }
    for (uint32_t n = 0; n < LIMIT_COLLECT_ERRORS; n++)
        said.first[n].status =
            lane_status_for(&lane->sessions[caller->owner], said.first[n].status);
    memcpy(to, &said, sizeof(said));
    memcpy(to + sizeof(said), end->value, said.value_bytes);
    complete(lane, caller->owner, caller->cookie, NIGH_OK, bytes);
}

/* ---- create --------------------------------------------------------------- */

nigh_status lane_open_collects(struct lane *lane)
{
    const struct members *members = lane->config.exchange.members;
    bool clustered = lane->config.fabric != NULL;
    uint32_t nodes = clustered ? members->count : 1;
    struct ranks all = ranks_all(nodes);
    nigh_status status;

    lane->collect = (struct collect_edges){
        .first = lane->config.max_sessions, .context = lane, .answer = on_answer};
    status = collect_edges_init(&lane->collect, clustered ? members->self : 0, nodes);
    if (status == NIGH_OK && lane->config.views == NULL)
        collects_group(lane->collect.collects, clustered ? members->epoch : 1, &all);
    return status;
}

void lane_collect_group(struct lane *lane, const struct agreed *agreed)
{
    struct ranks in;

    memcpy(&in, &agreed->in, sizeof(in));
    collects_group(lane->collect.collects, agreed->epoch, &in);
}

/* ---- what is asked -------------------------------------------------------- */

static nigh_status begin(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    const struct lane_session *session = &lane->sessions[slot];
    uint64_t whole = sizeof(struct session_collect) + sqe->data_size;
    struct collect_from from = {
        .caller = {.owner = slot,
                   .begun = session->begun,
                   .cookie = sqe->cookie,
                   .offset = sqe->offset},
    };
    struct collect_task task = {
        .service = hash_load64(sqe->id),
        .uid = session->seat->uid,
        .value_room = (uint32_t)sqe->ref,
        .deadline_us = clock_deadline_us(lane->now_us, sqe->argument),
        .request_bytes = (uint32_t)sqe->data_size,
    };
    struct session_collect wanted;
    const uint8_t *bytes;

    if (sqe->flags != 0 || sqe->data_size > LIMIT_COLLECT_BYTES || sqe->ref > LIMIT_COLLECT_BYTES)
        return NIGH_INVALID;
    bytes = lane_placed(lane, slot, sqe->offset,
                        max_u64(whole, sizeof(struct collect_said) + sqe->ref));
    if (bytes == NULL)
        return NIGH_INVALID;
    if (!session->seat->may_write)
        return NIGH_DENIED;
    memcpy(&wanted, bytes, sizeof(wanted));
    task.version = wanted.version;
    memcpy(&task.ranks, wanted.ranks, sizeof(task.ranks));
    task.all = wanted.all != 0;
    task.fan = wanted.fan;
    task.reduce = wanted.reduce;
    task.request = bytes + sizeof(wanted);
    return collect_begin(lane->collect.collects, &from, &task, lane->now_us);
}

void lane_collect(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    nigh_status status = begin(lane, slot, sqe);

    if (status != NIGH_OK)
        complete(lane, slot, sqe->cookie, status, 0);
}

bool lane_cancel_collect(struct lane *lane, uint32_t slot, uint32_t cookie)
{
    if (!collect_cancel(lane->collect.collects, slot, cookie, lane->now_us))
        return false;
    complete(lane, slot, cookie, NIGH_CANCELED, 0);
    return true;
}
