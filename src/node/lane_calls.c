/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of services: between the rings and the handlers of this lane and the state machine that
 * knows what is under way (rpc/calls.h).
 *
 * The bytes of a request and of its reply lie in a place of the session's memory, or in memory that
 * the node has leased to it. A client may close or seal a lease at any time, so where they lie is
 * checked each time they are touched, and what is read there is read once. Whose a call is, is said
 * by the session's place and by how often that was begun anew.
 */
#include <string.h>

#include "base/clock.h"
#include "base/order.h"
#include "base/hash.h"
#include "node/lane_internal.h"

/* The lane whose handler this thread is in. */
static _Thread_local struct lane *lane_serving;

/* ---- the machine's shell -------------------------------------------------- */

static struct rpc *on_channel(void *context, uint32_t rank, uint64_t hash)
{
    struct lane *lane = context;

    return lane->exchange == NULL ? NULL : exchange_users_channel(lane->exchange, rank, hash);
}

bool lane_is_session(const struct lane *lane, uint32_t slot, uint32_t begun)
{
    const struct lane_session *session = &lane->sessions[slot];

    return session->seat != NULL && session->swept && session->begun == begun;
}

uint8_t *lane_placed(struct lane *lane, uint32_t slot, uint64_t offset, uint64_t bytes)
{
    const struct lane_session *session = &lane->sessions[slot];

    if ((offset & SESSION_OWN_PLACE) == 0)
        return store_leased_bytes(lane->store, slot, offset, bytes);
    return session->seat != NULL && session->places != NULL
               ? session_place_at(session->places, offset, bytes)
               : NULL;
}

static bool is_its_session(const struct lane *lane, const struct calls_caller *caller)
{
    return lane_is_session(lane, caller->owner, caller->begun);
}

static const uint8_t *on_bytes(void *context, const struct calls_caller *caller)
{
    static const uint8_t nothing[1];
    struct lane *lane = context;

    if (collect_edges_has(&lane->collect, caller))
        return collect_edges_bytes(&lane->collect, caller);
    if (!is_its_session(lane, caller))
        return NULL;
    return caller->bytes == 0
               ? nothing
               : lane_placed(lane, caller->owner, caller->offset + caller->skip, caller->bytes);
}

static uint16_t flags_of(const struct calls_end *end)
{
    if (end->answered)
        return SESSION_CQE_ANSWERED;
    return end->status != NIGH_OK && !end->taken ? SESSION_CQE_UNTAKEN : 0;
}

static void on_ended(void *context, const struct calls_caller *caller, const struct calls_end *end)
{
    struct lane *lane = context;
    struct session_cqe cqe = {.cookie = caller->cookie,
                              .status = end->status,
                              .data_size = end->count,
                              .ref = end->rank,
                              .flags = flags_of(end),
                              .pin = SESSION_NO_PIN};

    if (collect_edges_has(&lane->collect, caller)) {
        collect_edges_ended(&lane->collect, caller, end);
        return;
    }
    if (!is_its_session(lane, caller))
        return;
    if (end->count > caller->room) {
        cqe.status = NIGH_LIMIT; /* data_size says how much it would have been */
        cqe.flags = 0;
    } else if (end->count > 0) {
        uint8_t *to = lane_placed(lane, caller->owner, caller->offset, end->count);

        if (to == NULL) {
            cqe.status = NIGH_INVALID;
            cqe.flags = 0;
            cqe.data_size = 0;
        } else {
            memmove(to, end->bytes, end->count); /* an answer may lie beside its request */
        }
    }
    ORDER_SAID(); /* what was pushed into its memory */
    lane_on_complete(lane, caller->owner, &cqe);
}

static void on_request(void *context, void *tag, const struct calls_request *request)
{
    struct lane *lane = context;
    const struct session_service *service = tag;
    struct lane *before = lane_serving;
    struct session_request told = {
        .id = request->id,
        .bytes = request->bytes,
        .count = request->count,
        .lane = lane->config.number,
        .rank = request->rank,
        .uid = request->uid,
        .bulks = request->bulks,
        .left_us = request->deadline_us == UINT64_MAX    ? UINT64_MAX
                   : request->deadline_us > lane->now_us ? request->deadline_us - lane->now_us
                                                         : 0,
    };

    lane_serving = lane;
    service->handler(service->context, &told);
    lane_serving = before;
}

static void on_called(void *context, struct link *link, const struct rpc_request *request,
                      uint64_t now_us)
{
    struct lane *lane = context;

    if (request->method == CALLS_METHOD_VIEWS && lane->config.views != NULL) {
        lane_hear_views(lane, link_rank(link), request);
        return;
    }
    if (lane_regions_hear(lane, link, request)) {
        return;
    }
    if (request->method == CALLS_METHOD_COLLECT) {
        collect_edges_take(&lane->collect, link_calls(link), link_rank(link), request, now_us);
        return;
    }
    calls_take(lane->calls, link_calls(link), link_rank(link), request, now_us);
}

static void on_withdrawn(void *context, struct link *link, uint64_t call)
{
    struct lane *lane = context;

    calls_withdrawn(lane->calls, link_calls(link), call, lane->now_us);
    collect_withdrawn(lane->collect.collects, link_calls(link), call, lane->now_us);
}

static void on_link_up(void *context, struct link *link)
{
    struct lane *lane = context;

    calls_channel_up(lane->calls, link_calls(link), link_rank(link));
    lane_regions_link_up(lane, link);
    lane_spaces_link_up(lane, link);
}

static void on_link_down(void *context, struct link *link, uint64_t now_us)
{
    struct lane *lane = context;

    calls_channel_down(lane->calls, link_calls(link), link_rank(link), now_us);
    collects_channel_down(lane->collect.collects, link_calls(link), now_us);
    lane_regions_link_down(lane, link);
    lane_spaces_link_down(lane, link);
}

nigh_status lane_open_calls(struct lane *lane, struct exchange_calls *users)
{
    const struct members *members = lane->config.exchange.members;
    bool clustered = lane->config.fabric != NULL;
    struct calls_config config = {
        .rank = clustered ? members->self : 0,
        .nodes = clustered ? members->count : 1,
        .owners = lane->config.max_sessions + LIMIT_COLLECTS,
        .calls = LIMIT_CALLS,
        .requests = LIMIT_CALL_REQUESTS,
        .channel_calls = clustered ? exchange_users_places(members) : 0,
        .number = lane->config.number,
        .shell = {.context = lane,
                  .channel = on_channel,
                  .bytes = on_bytes,
                  .ended = on_ended,
                  .request = on_request,
                  .bulks = lane_bulks_shell(lane)},
    };
    nigh_status status;

    *users = (struct exchange_calls){.context = lane,
                                     .called = on_called,
                                     .withdrawn = on_withdrawn,
                                     .up = on_link_up,
                                     .down = on_link_down,
                                     .payload_bytes = CALLS_PAYLOAD};
    status = lane_open_collects(lane);
    if (status == NIGH_OK)
        status = calls_create(&config, &lane->calls);
    lane->collect.calls = lane->calls;
    return status;
}

/* ---- the rings ------------------------------------------------------------ */

/* Whom a call of any server would go to first. False: they are too many. */
static bool take_near(const struct session_sqe *sqe, struct calls_call *call)
{
    struct session_near near = {0};

    _Static_assert(SESSION_NEAR == CALLS_NEAR && sizeof(near.ranks) == sizeof(call->near),
                   "what is told is kept");
    memcpy(&near, sqe->id, LIMIT_ID_BYTES);
    if (near.count > CALLS_NEAR) {
        return false;
    }
    call->near_count = near.count;
    memcpy(call->near, near.ranks, sizeof(call->near));
    return true;
}

void lane_call(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    const struct lane_session *session = &lane->sessions[slot];
    uint64_t skip = sqe->name_size * sizeof(struct session_bulk);
    uint64_t most = max_u64(sqe->data_size + skip, sqe->ref);
    const uint32_t known = SESSION_FLAG_ONE_WAY | SESSION_FLAG_IDEMPOTENT | SESSION_FLAG_URGENT;
    bool is_valid = (sqe->flags & ~known) == 0 && most <= LIMIT_CALL_BYTES &&
                    sqe->data_size <= LIMIT_CALL_BYTES &&
                    (skip == 0 || (sqe->flags & ~SESSION_FLAG_URGENT) == 0) &&
                    (most == 0 || lane_placed(lane, slot, sqe->offset, most) != NULL);
    struct calls_call call = {
        .service = hash_load64(sqe->id),
        .deadline_us = clock_deadline_us(lane->now_us, sqe->argument),
        .rank = sqe->meta_size,
        .one_way = (sqe->flags & SESSION_FLAG_ONE_WAY) != 0,
        .idempotent = (sqe->flags & SESSION_FLAG_IDEMPOTENT) != 0,
        .urgent = (sqe->flags & SESSION_FLAG_URGENT) != 0,
        .caller = {.owner = slot,
                   .begun = session->begun,
                   .cookie = sqe->cookie,
                   .uid = session->seat->uid,
                   .offset = sqe->offset,
                   .skip = (uint32_t)skip,
                   .bytes = (uint32_t)sqe->data_size,
                   .room = (uint32_t)sqe->ref},
    };

    is_valid = take_near(sqe, &call) && is_valid;
    if (!is_valid || !session->seat->may_write) {
        lane_complete(lane, slot, sqe->cookie, is_valid ? NIGH_DENIED : NIGH_INVALID);
        return;
    }
    if (skip > 0) {
        nigh_status status = lane_open_loan(lane, slot, sqe->offset, sqe->name_size, &call.loan);

        if (status != NIGH_OK) {
            lane_complete(lane, slot, sqe->cookie, status);
            return;
        }
    }
    calls_begin(lane->calls, &call, lane->now_us);
}

nigh_status lane_answer_request(struct lane *lane, uint32_t slot, uint64_t id, int64_t said,
                                uint64_t offset, uint64_t count)
{
    const struct session_service *service = calls_request_tag(lane->calls, id);
    const uint8_t *bytes = NULL;

    if (count > LIMIT_CALL_BYTES || said > NIGH_OK || said < NIGH_STATUS_LOWEST ||
        said == NIGH_PENDING)
        return NIGH_INVALID;
    if (count > 0) {
        bytes = lane_placed(lane, slot, offset, count);
        if (bytes == NULL)
            return NIGH_INVALID;
    }
    return service != NULL && service->slot == slot &&
                   calls_reply(lane->calls, id, (nigh_status)said, bytes, (uint32_t)count,
                               lane->now_us)
               ? NIGH_OK
               : NIGH_NOT_FOUND;
}

void lane_reply(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    nigh_status status = sqe->flags != 0
                             ? NIGH_INVALID
                             : lane_answer_request(lane, slot, sqe->argument, (int64_t)sqe->ref,
                                                   sqe->offset, sqe->data_size);

    lane_complete(lane, slot, sqe->cookie, status);
}

bool lane_cancel_call(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    if (sqe->argument > UINT32_MAX ||
        (!calls_cancel(lane->calls, slot, (uint32_t)sqe->argument, lane->now_us) &&
         !lane_cancel_collect(lane, slot, (uint32_t)sqe->argument) &&
         !bulks_cancel(calls_bulks(lane->calls), slot, (uint32_t)sqe->argument, lane->now_us) &&
         !lane_cancel_bulk_wait(lane, slot, (uint32_t)sqe->argument) &&
         !lane_cancel_receive(lane, slot, (uint32_t)sqe->argument) &&
         !lane_cancel_region(lane, slot, (uint32_t)sqe->argument) &&
         !lane_cancel_space(lane, slot, (uint32_t)sqe->argument)))
        return false;
    lane_complete(lane, slot, sqe->cookie, NIGH_OK);
    return true;
}

/* ---- handlers ------------------------------------------------------------- */

nigh_status lane_reply_now(struct lane *lane, uint64_t id, nigh_status status, const void *bytes,
                           uint32_t count)
{
    if (lane_serving != lane)
        return NIGH_PENDING;
    return calls_reply(lane->calls, id, status, bytes, count, lane->now_us) ? NIGH_OK
                                                                            : NIGH_NOT_FOUND;
}

void lane_tell_services(struct lane *lane)
{
    struct services *services = lane->config.services;
    uint32_t number = lane->config.number, count = 0;
    struct calls_service all[LIMIT_SERVICES];

    if (services != NULL)
        count = services_read(services, number, all);
    count = lane_list_pulls(lane, all, count);
    calls_set_services(lane->calls, all, count, lane->now_us);
    if (services != NULL)
        services_taken(services, number);
}

bool lane_turn_calls(struct lane *lane)
{
    const struct services *services = lane->config.services;
    bool has_news = services != NULL && services_have_news(services, lane->config.number);
    bool any;

    if (unlikely(has_news))
        lane_tell_services(lane);
    any = lane_tick_pulls(lane);
    any = lane_turn_bulks(lane) || any;
    /* News may have ended calls: whoever waits for them is to hear of it in this turn. */
    any = calls_tick(lane->calls, lane->now_us) || any;
    return collects_turn(lane->collect.collects, lane->now_us) || any || has_news;
}
