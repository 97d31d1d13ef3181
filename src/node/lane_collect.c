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

/* ---- the machine's shell -------------------------------------------------- */

static uint32_t owner_of(const struct lane *lane, uint32_t place)
{
    return lane->config.max_sessions + place;
}

static void on_ask(void *context, const struct collect_ask *ask, uint64_t now_us)
{
    struct lane *lane = context;
    struct calls_call call = {
        .service = ask->service,
        .deadline_us = ask->deadline_us,
        .rank = ask->rank,
        .collect = ask->wire,
        .is_of_another = true,
        .origin = ask->origin,
        .caller = {.owner = owner_of(lane, ask->place),
                   .begun = ask->generation,
                   .cookie = ask->number,
                   .uid = ask->uid,
                   .bytes = ask->request_bytes,
                   .room = LIMIT_CALL_BYTES},
    };

    calls_begin(lane->calls, &call, now_us);
}

static void on_forget(void *context, uint32_t place, uint64_t now_us)
{
    struct lane *lane = context;

    calls_forget(lane->calls, owner_of(lane, place), now_us);
}

const uint8_t *lane_collect_bytes(struct lane *lane, const struct calls_caller *caller)
{
    return collect_bytes(lane->collects, caller->owner - lane->config.max_sessions, caller->begun);
}

void lane_collect_ended(struct lane *lane, const struct calls_caller *caller,
                        const struct calls_end *end)
{
    collect_ended(lane->collects, caller->owner - lane->config.max_sessions, caller->cookie,
                  caller->begun, end);
}

/* ---- answers -------------------------------------------------------------- */

static void complete(struct lane *lane, uint32_t slot, uint32_t cookie, nigh_status status,
                     uint64_t bytes)
{
    struct session_cqe cqe = {.cookie = cookie,
                              .status = status,
                              .data_size = bytes,
                              .pin = SESSION_NO_PIN,
                              .generation = collects_version(lane->collects)};

    lane_on_complete(lane, slot, &cqe);
}

static void answer_session(struct lane *lane, const struct calls_caller *caller,
                           const struct collect_end *end)
{
    uint32_t bytes = (uint32_t)sizeof(*end->said) + end->said->value_bytes;
    uint8_t *to;

    if (!lane_is_session(lane, caller->owner, caller->begun))
        return;
    to = store_leased_bytes(lane->store, caller->owner, caller->offset, bytes);
    if (to == NULL) {
        complete(lane, caller->owner, caller->cookie, NIGH_INVALID, 0);
        return;
    }
    memcpy(to, end->said, sizeof(*end->said));
    memcpy(to + sizeof(*end->said), end->value, end->said->value_bytes);
    complete(lane, caller->owner, caller->cookie, NIGH_OK, bytes);
}

static void on_answer(void *context, const struct collect_from *from, const struct collect_end *end)
{
    struct lane *lane = context;
    struct rpc_piece pieces[2] = {{.data = end->said, .bytes = sizeof(*end->said)},
                                  {.data = end->value, .bytes = end->said->value_bytes}};

    if (from->channel == NULL)
        answer_session(lane, &from->caller, end);
    else
        rpc_reply(from->channel, from->call, NIGH_OK, pieces, end->said->value_bytes > 0 ? 2 : 1);
}

/* ---- create --------------------------------------------------------------- */

nigh_status lane_open_collects(struct lane *lane)
{
    const struct members *members = lane->config.exchange.members;
    bool clustered = lane->config.fabric != NULL;
    uint32_t nodes = clustered ? members->count : 1;
    struct collects_config config = {
        .rank = clustered ? members->self : 0,
        .nodes = nodes,
        .shell = {.context = lane, .ask = on_ask, .forget = on_forget, .answer = on_answer}};
    struct ranks all = ranks_all(nodes);
    nigh_status status = collects_create(&config, &lane->collects);

    if (status == NIGH_OK && lane->config.views == NULL)
        collects_group(lane->collects, clustered ? members->epoch : 1, &all);
    return status;
}

void lane_collect_group(struct lane *lane, const struct agreed *agreed)
{
    struct ranks in;

    memcpy(&in, &agreed->in, sizeof(in));
    collects_group(lane->collects, agreed->epoch, &in);
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
    bytes = store_leased_bytes(lane->store, slot, sqe->offset,
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
    return collect_begin(lane->collects, &from, &task, lane->now_us);
}

void lane_collect(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    nigh_status status = begin(lane, slot, sqe);

    if (status != NIGH_OK)
        complete(lane, slot, sqe->cookie, status, 0);
}

bool lane_cancel_collect(struct lane *lane, uint32_t slot, uint32_t cookie)
{
    if (!collect_cancel(lane->collects, slot, cookie, lane->now_us))
        return false;
    complete(lane, slot, cookie, NIGH_CANCELED, 0);
    return true;
}

void lane_collect_came(struct lane *lane, struct link *link, const struct rpc_request *request)
{
    struct collect_from from = {
        .channel = link_calls(link), .call = request->call, .rank = link_rank(link)};
    nigh_status status;

    if (request->call == 0)
        return; /* nobody could be told what came of it */
    status = collect_take(lane->collects, &from, request, lane->now_us);
    if (status != NIGH_OK)
        calls_refuse_call(from.channel, from.call, status);
}
