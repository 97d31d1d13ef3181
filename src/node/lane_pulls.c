/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services that sessions serve by receiving: between their submissions and the state machine of
 * requests and receives that wait (rpc/pulls.h).
 *
 * All calls of a service come to one lane of its node, the one of its name's hash: so that lane
 * alone knows it, and takes its name for the whole node (services.h). A service is gone with its
 * session, or when that rests; requests that were not answered end there and then.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "node/lane_internal.h"
#include "rpc/pulls.h"

struct lane_pull {
    struct lane *lane;
    struct session_service service; /* the tag of its requests */
    struct pulls *pull;
};

/* ---- the machine's shell -------------------------------------------------- */

static bool on_wanted(void *context, uint64_t id)
{
    struct lane_pull *pull = context;

    return calls_request_tag(pull->lane->calls, id) == &pull->service;
}

static void on_refuse(void *context, uint64_t id, nigh_status status)
{
    struct lane_pull *pull = context;

    (void)calls_refuse(pull->lane->calls, id, status, pull->lane->now_us);
}

/* Where the request goes is looked at now: the lease may have been closed since. */
static bool on_deliver(void *context, const struct pulls_receive *receive, nigh_status status,
                       const struct calls_request *request)
{
    struct lane_pull *pull = context;
    struct lane *lane = pull->lane;
    uint32_t slot = pull->service.slot;
    struct session_cqe cqe = {.cookie = receive->cookie, .status = status, .pin = SESSION_NO_PIN};
    uint8_t *to = NULL;

    if (!lane->sessions[slot].swept)
        return false; /* its rings are nobody's any more */
    if (request != NULL) {
        to = lane_placed(lane, slot, receive->offset, LIMIT_CALL_BYTES);
        if (to == NULL)
            cqe.status = NIGH_INVALID;
    }
    if (to != NULL) {
        memcpy(to, request->bytes, request->count);
        cqe.data_size = request->count;
        session_set_received(&cqe, request->id, request->rank, request->uid,
                             clock_left_us(lane->now_us, request->deadline_us), request->bulks);
    }
    lane_on_complete(lane, slot, &cqe);
    return to != NULL;
}

/* ---- services ------------------------------------------------------------- */

static void on_request(void *context, const struct session_request *came)
{
    struct lane_pull *pull = context;
    struct calls_request request = {
        .id = came->id,
        .deadline_us = clock_deadline_us(pull->lane->now_us, came->left_us),
        .bytes = came->bytes,
        .count = came->count,
        .rank = came->rank,
        .uid = came->uid,
        .bulks = came->bulks,
    };

    pulls_request(pull->pull, &request, pull->lane->now_us);
}

static uint32_t find_pull(const struct lane *lane, uint32_t slot, uint64_t hash)
{
    for (uint32_t n = 0; n < lane->pull_count; n++) {
        if (lane->pulls[n]->service.hash == hash && lane->pulls[n]->service.slot == slot)
            return n;
    }
    return UINT32_MAX;
}

static nigh_status make_pull(struct lane *lane, uint32_t slot, uint64_t hash)
{
    struct lane_pull *pull = calloc(1, sizeof(*pull));
    struct pulls_shell shell = {
        .context = pull, .wanted = on_wanted, .refuse = on_refuse, .deliver = on_deliver};

    if (pull == NULL)
        return NIGH_NO_RESOURCES;
    if (pulls_create(&shell, &pull->pull) != NIGH_OK) {
        free(pull);
        return NIGH_NO_RESOURCES;
    }
    pull->lane = lane;
    pull->service = (struct session_service){
        .hash = hash, .slot = slot, .handler = on_request, .context = pull};
    lane->pulls[lane->pull_count++] = pull;
    lane_tell_services(lane);
    return NIGH_OK;
}

static nigh_status open_service(struct lane *lane, uint32_t slot, uint64_t hash)
{
    struct services *services = lane->config.services;
    nigh_status status;

    if (!lane->sessions[slot].seat->may_write)
        return NIGH_DENIED;
    if (services == NULL)
        return NIGH_UNSUPPORTED;
    if (index_hash_lane(hash, lane->config.lanes) != lane->config.number)
        return NIGH_INVALID; /* its calls would not come here */
    status = services_claim(services, hash, slot);
    if (status != NIGH_OK)
        return status;
    status = make_pull(lane, slot, hash);
    if (status != NIGH_OK)
        services_disclaim(services, hash);
    return status;
}

/* First the calls are told, so that what waits there unreceived is answered. */
static void close_service(struct lane *lane, uint32_t n)
{
    struct lane_pull *pull = lane->pulls[n];

    lane->pulls[n] = lane->pulls[--lane->pull_count];
    lane_tell_services(lane);
    services_disclaim(lane->config.services, pull->service.hash);
    pulls_destroy(pull->pull);
    free(pull);
}

void lane_end_services(struct lane *lane, uint32_t slot)
{
    uint32_t n = 0;

    while (n < lane->pull_count) {
        if (lane->pulls[n]->service.slot == slot)
            close_service(lane, n);
        else
            n++;
    }
}

void lane_destroy_pulls(struct lane *lane)
{
    for (uint32_t n = 0; n < lane->pull_count; n++) {
        pulls_destroy(lane->pulls[n]->pull);
        free(lane->pulls[n]);
    }
    lane->pull_count = 0;
}

uint32_t lane_list_pulls(const struct lane *lane, struct calls_service *all, uint32_t count)
{
    for (uint32_t n = 0; n < lane->pull_count; n++)
        all[count++] = (struct calls_service){.hash = lane->pulls[n]->service.hash,
                                              .tag = &lane->pulls[n]->service};
    return count;
}

/* ---- submissions ---------------------------------------------------------- */

void lane_service(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    uint64_t hash = hash_load64(sqe->id);
    nigh_status status = NIGH_INVALID;
    uint32_t n;

    if (sqe->flags == 0 && sqe->op == SESSION_OP_SERVICE_OPEN) {
        status = open_service(lane, slot, hash);
    } else if (sqe->flags == 0) {
        n = find_pull(lane, slot, hash);
        status = n == UINT32_MAX ? NIGH_NOT_FOUND : NIGH_OK;
        if (n != UINT32_MAX)
            close_service(lane, n);
    }
    lane_complete(lane, slot, sqe->cookie, status);
}

void lane_receive(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    struct session_receive_id id = {0};
    nigh_status status = NIGH_OK;
    uint32_t n;

    memcpy(&id, sqe->id, sizeof(sqe->id));
    n = find_pull(lane, slot, id.hash);
    if ((sqe->flags & ~SESSION_FLAG_ANSWER) != 0 ||
        lane_placed(lane, slot, sqe->offset, LIMIT_CALL_BYTES) == NULL)
        status = NIGH_INVALID;
    else if ((sqe->flags & SESSION_FLAG_ANSWER) != 0)
        status =
            lane_answer_request(lane, slot, id.request, id.status, sqe->offset, sqe->data_size);
    /* Whether anybody waited for the answer does not matter to who goes on. */
    if (status == NIGH_NOT_FOUND)
        status = NIGH_OK;
    if (status == NIGH_OK && n == UINT32_MAX)
        status = NIGH_CLOSED;
    if (status != NIGH_OK) {
        lane_complete(lane, slot, sqe->cookie, status);
        return;
    }
    pulls_receive(
        lane->pulls[n]->pull,
        &(struct pulls_receive){.deadline_us = clock_deadline_us(lane->now_us, sqe->argument),
                                .offset = sqe->offset,
                                .cookie = sqe->cookie},
        lane->now_us);
}

bool lane_cancel_receive(struct lane *lane, uint32_t slot, uint32_t cookie)
{
    for (uint32_t n = 0; n < lane->pull_count; n++) {
        if (lane->pulls[n]->service.slot == slot && pulls_cancel(lane->pulls[n]->pull, cookie))
            return true;
    }
    return false;
}

/* ---- time ----------------------------------------------------------------- */

bool lane_tick_pulls(struct lane *lane)
{
    bool any = false;

    for (uint32_t n = 0; n < lane->pull_count; n++)
        any = pulls_tick(lane->pulls[n]->pull, lane->now_us) || any;
    return any;
}

uint64_t lane_pulls_due_us(const struct lane *lane)
{
    uint64_t due_us = UINT64_MAX;

    for (uint32_t n = 0; n < lane->pull_count; n++)
        due_us = min_u64(due_us, pulls_due_us(lane->pulls[n]->pull));
    return due_us;
}
