/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that services of this node have not answered: of other nodes and of its own clients
 * (calls.h). One is answered once, by its service or, where that does not have it or is gone, by
 * its node.
 */
#include <string.h>

#include "rpc/calls_internal.h"

/* A request's id: generation, place, lane and 1, so that none is 0. */
#define CALLS_LANE_BITS  8
#define CALLS_PLACE_BITS 16
#define CALLS_PLACE_MASK ((1u << CALLS_PLACE_BITS) - 1)

_Static_assert(LIMIT_CALL_REQUESTS <= 1u << CALLS_PLACE_BITS, "a place fits an id");
_Static_assert(LIMIT_LANES < 1u << CALLS_LANE_BITS, "a lane fits an id");

/* ---- requests ------------------------------------------------------------- */

static uint64_t id_of(const struct calls *calls, uint32_t place)
{
    return (uint64_t)calls->requests[place].generation << (CALLS_LANE_BITS + CALLS_PLACE_BITS) |
           (uint64_t)place << CALLS_LANE_BITS | (calls->config.number + 1);
}

uint32_t calls_lane_of(uint64_t id)
{
    return (uint32_t)(id & ((1u << CALLS_LANE_BITS) - 1)) - 1;
}

static struct unanswered *find_request(const struct calls *calls, uint64_t id)
{
    uint32_t place = (uint32_t)(id >> CALLS_LANE_BITS) & CALLS_PLACE_MASK;

    if (place >= calls->config.requests || !calls->requests[place].used ||
        id_of(calls, place) != id) {
        return NULL;
    }
    return &calls->requests[place];
}

static uint32_t take_request(struct calls *calls, void *tag, uint64_t now_us)
{
    uint32_t place = calls->free_request;
    struct unanswered *request;

    if (place == CALLS_NONE) {
        return CALLS_NONE;
    }
    request = &calls->requests[place];
    calls->free_request = request->next;
    calls->unanswered_count++;
    request->used = true;
    request->tag = tag;
    request->came_us = now_us;
    request->generation++;
    return place;
}

/* Where the first is of those to which a request of another node belongs. A channel has few under
 * way, so whatever numbers its peer gives them, a bucket stays short. */
static uint32_t *bucket_of(const struct calls *calls, const struct rpc *channel, uint64_t call)
{
    uint64_t mixed = ((uint64_t)(uintptr_t)channel ^ call) * UINT64_C(0x9e3779b97f4a7c15);

    return &calls->buckets[mixed >> 32 & (CALLS_BUCKETS - 1)];
}

/* The link to a request of another node; to CALLS_NONE: it is answered, or nobody wants it to be.
 */
static uint32_t *find_came(const struct calls *calls, const struct rpc *channel, uint64_t call)
{
    uint32_t *at = bucket_of(calls, channel, call);

    while (*at != CALLS_NONE &&
           (calls->requests[*at].channel != channel || calls->requests[*at].call != call)) {
        at = &calls->requests[*at].next;
    }
    return at;
}

static void note_came(struct calls *calls, uint32_t place)
{
    struct unanswered *request = &calls->requests[place];
    uint32_t *bucket = bucket_of(calls, request->channel, request->call);

    request->next = *bucket;
    *bucket = place;
}

static void give_request(struct calls *calls, struct unanswered *request, uint64_t now_us)
{
    struct bulks_serve *bulks = request->bulks;

    if (request->channel != NULL) {
        *find_came(calls, request->channel, request->call) = request->next;
    }
    request->used = false;
    request->next = calls->free_request;
    calls->free_request = (uint32_t)(request - calls->requests);
    calls->unanswered_count--;
    request->bulks = NULL;
    if (bulks != NULL) {
        bulks_serve_end(bulks, now_us); /* said before the answer, when nothing is under way */
    }
}

const struct calls_service *calls_find_service(const struct calls *calls, uint64_t hash)
{
    for (uint32_t n = 0; n < calls->service_count; n++) {
        if (calls->services[n].hash == hash) {
            return &calls->services[n];
        }
    }
    return NULL;
}

void *calls_request_tag(const struct calls *calls, uint64_t id)
{
    const struct unanswered *request = find_request(calls, id);

    return request == NULL ? NULL : request->tag;
}

struct bulks_serve *calls_request_bulks(const struct calls *calls, uint64_t id)
{
    const struct unanswered *request = find_request(calls, id);

    return request == NULL ? NULL : request->bulks;
}

void calls_drop_request(struct calls *calls, uint32_t place, uint64_t now_us)
{
    give_request(calls, &calls->requests[place], now_us);
}

/* ---- answers -------------------------------------------------------------- */

/* Its node says it, not the service. */
static void refuse(struct rpc *channel, uint64_t call, enum calls_fate fate, nigh_status status)
{
    struct calls_refusal said = {.status = status, .taken = fate == CALLS_LOST};
    struct rpc_piece piece = {.data = &said, .bytes = sizeof(said)};

    rpc_reply(channel, call, NIGH_PENDING, &piece, 1);
}

void calls_refuse_call(struct rpc *channel, uint64_t call, nigh_status status)
{
    refuse(channel, call, CALLS_REFUSED, status);
}

static void answer(struct calls *calls, struct unanswered *request, enum calls_fate fate,
                   const struct calls_end *end, uint64_t now_us)
{
    struct unanswered was = *request;
    struct rpc_piece piece = {.data = end->bytes, .bytes = end->count};

    give_request(calls, request, now_us);
    if (was.channel == NULL) {
        calls_came_back(calls, &calls->pending[was.local], fate, end, now_us);
    } else if (fate == CALLS_ANSWERED) {
        rpc_reply(was.channel, was.call, end->status, &piece, end->count > 0 ? 1 : 0);
    } else {
        refuse(was.channel, was.call, fate, end->status);
    }
}

bool calls_reply(struct calls *calls, uint64_t id, nigh_status status, const uint8_t *bytes,
                 uint32_t count, uint64_t now_us)
{
    struct unanswered *request = find_request(calls, id);

    NIGH_ASSERT(count <= LIMIT_CALL_BYTES && status != NIGH_PENDING);
    if (request == NULL) {
        return false;
    }
    calls_note_time(&calls->counts.served,
                    now_us > request->came_us ? now_us - request->came_us : 0);
    answer(calls, request, CALLS_ANSWERED,
           &(struct calls_end){.status = status, .bytes = bytes, .count = count, .answered = true},
           now_us);
    return true;
}

bool calls_refuse(struct calls *calls, uint64_t id, nigh_status status, uint64_t now_us)
{
    struct unanswered *request = find_request(calls, id);

    if (request == NULL) {
        return false;
    }
    answer(calls, request, CALLS_REFUSED, &(struct calls_end){.status = status}, now_us);
    return true;
}

/* ---- services ------------------------------------------------------------- */

static bool has_tag(const struct calls_service *services, uint32_t count, const void *tag)
{
    for (uint32_t n = 0; n < count; n++) {
        if (services[n].tag == tag) {
            return true;
        }
    }
    return false;
}

/* Requests are looked at only where a service has gone, and compared with such alone: most often
 * that is one. */
void calls_set_services(struct calls *calls, const struct calls_service *services, uint32_t count,
                        uint64_t now_us)
{
    struct calls_service gone[LIMIT_SERVICES];
    uint32_t gone_count = 0;

    for (uint32_t n = 0; n < calls->service_count; n++) {
        if (!has_tag(services, count, calls->services[n].tag)) {
            gone[gone_count++] = calls->services[n];
        }
    }
    NIGH_ASSERT(count <= LIMIT_SERVICES);
    memcpy(calls->services, services, count * sizeof(*services));
    calls->service_count = count;
    calls->version++;
    calls->tell_us = 0;
    if (gone_count == 0) {
        return;
    }
    for (uint32_t n = 0; n < calls->config.requests && calls->unanswered_count > 0; n++) {
        struct unanswered *request = &calls->requests[n];

        if (request->used && has_tag(gone, gone_count, request->tag)) {
            answer(calls, request, CALLS_LOST, &(struct calls_end){.status = NIGH_CLOSED}, now_us);
        }
    }
}

/* NIGH_OK: the service has it. */
static nigh_status serve(struct calls *calls, uint64_t hash, const struct unanswered *from,
                         struct calls_request *request, uint64_t now_us)
{
    const struct calls_service *service = calls_find_service(calls, hash);
    bool one_way = from == NULL;
    uint32_t place;

    if (service == NULL) {
        return NIGH_NOT_FOUND;
    }
    if (!one_way) {
        place = take_request(calls, service->tag, now_us);
        if (place == CALLS_NONE) {
            return NIGH_OVERLOADED;
        }
        calls->requests[place].channel = from->channel;
        calls->requests[place].call = from->call;
        calls->requests[place].local = from->local;
        calls->requests[place].bulks = from->bulks;
        request->id = id_of(calls, place);
        if (from->channel == NULL) {
            calls->pending[from->local].number = place;
        } else {
            note_came(calls, place);
        }
    }
    calls->counts.taken++;
    calls->config.shell.request(calls->config.shell.context, service->tag, request);
    return NIGH_OK;
}

/* The memory that a request brings. Its service sees what it is like, in front of the bytes. */
static nigh_status take_bulks(struct calls *calls, struct unanswered *from, uint32_t count,
                              struct calls_request *request)
{
    uint32_t infos = count * (uint32_t)sizeof(struct bulks_info);
    uint32_t head = count > LIMIT_CALL_BULKS || from->call == 0
                        ? 0
                        : bulks_serve(calls->bulks, from->channel, count, request->bytes,
                                      request->count, &from->bulks);

    if (head == 0) {
        return NIGH_INVALID;
    }
    if (from->bulks == NULL) {
        return NIGH_NO_RESOURCES;
    }
    request->bulks = count;
    request->bytes += head - infos;
    request->count -= head - infos;
    return NIGH_OK;
}

/* NIGH_OK: its service has it. */
static nigh_status take_call(struct calls *calls, struct rpc *channel, uint32_t rank,
                             const struct rpc_request *came, uint64_t now_us)
{
    struct calls_request request = {.rank = rank, .deadline_us = came->deadline_us};
    struct unanswered from = {.channel = channel, .call = came->call};
    nigh_status status = NIGH_OK;
    struct calls_wire wire;

    if (came->bytes < sizeof(wire) || came->bytes > CALLS_PAYLOAD) {
        return NIGH_INVALID;
    }
    memcpy(&wire, came->payload, sizeof(wire));
    request.bytes = came->payload + sizeof(wire);
    request.count = came->bytes - (uint32_t)sizeof(wire);
    request.uid = wire.uid;
    if (wire.bulks > 0) {
        status = take_bulks(calls, &from, wire.bulks, &request);
    }
    if (status == NIGH_OK) {
        status = request.count > LIMIT_CALL_BYTES
                     ? NIGH_INVALID
                     : serve(calls, wire.service, came->call != 0 ? &from : NULL, &request, now_us);
    }
    if (status != NIGH_OK && from.bulks != NULL) {
        bulks_serve_end(from.bulks, now_us);
    }
    return status;
}

void calls_take(struct calls *calls, struct rpc *channel, uint32_t rank,
                const struct rpc_request *came, uint64_t now_us)
{
    nigh_status status = NIGH_UNSUPPORTED;

    if (came->method >= BULKS_METHOD_PUSH && came->method <= BULKS_METHOD_OVER && came->call == 0) {
        bulks_take(calls->bulks, channel, came, now_us);
        return;
    }
    if (came->method == CALLS_METHOD) {
        status = take_call(calls, channel, rank, came, now_us);
        if (status != NIGH_OK && came->call != 0) {
            refuse(channel, came->call, CALLS_REFUSED, status);
        }
        return;
    }
    if (came->method == CALLS_METHOD_OFFERS) {
        status = calls_take_offers(calls, channel, came);
    }
    if (came->call != 0) {
        rpc_reply(channel, came->call, status, NULL, 0);
    }
}

/* ---- calls of this node's own services ------------------------------------ */

/* In front of the request; how many bytes. */
static uint32_t copy_infos(uint8_t *to, const struct bulks_serve *bulks)
{
    struct bulks_info infos[LIMIT_CALL_BULKS];
    uint32_t bytes = 0;

    if (bulks != NULL) {
        bytes = bulks_count(bulks) * (uint32_t)sizeof(*infos);
        bulks_infos(bulks, infos);
        memcpy(to, infos, bytes);
    }
    return bytes;
}

void calls_serve_here(struct calls *calls, struct pending *pending, uint64_t now_us)
{
    struct calls_call call = pending->call;
    struct calls_request request = {.deadline_us = call.deadline_us,
                                    .bytes = calls->copy,
                                    .count = call.caller.bytes,
                                    .rank = call.is_of_another ? call.origin : calls->config.rank,
                                    .uid = call.caller.uid};
    struct unanswered from = {.local = (uint32_t)(pending - calls->pending)};
    uint32_t infos = 0;
    const uint8_t *bytes =
        calls->config.shell.bytes(calls->config.shell.context, &pending->call.caller);
    nigh_status status = NIGH_INVALID;

    pending->state = PENDING_SERVED;
    pending->number = CALLS_NONE;
    if (call.deadline_us <= now_us) {
        status = NIGH_TIMEOUT;
    } else if (bytes != NULL) {
        if (call.loan != NULL) {
            from.bulks = bulks_serve_here(call.loan);
            infos = copy_infos(calls->copy, from.bulks);
            request.bulks = bulks_parts(call.loan);
            request.count += infos;
        }
        memcpy(calls->copy + infos, bytes, call.caller.bytes);
        calls_arm(calls, pending, call.deadline_us);
        status = call.loan != NULL && from.bulks == NULL
                     ? NIGH_NO_RESOURCES
                     : serve(calls, call.service, call.one_way ? NULL : &from, &request, now_us);
    }
    if (status != NIGH_OK && from.bulks != NULL) {
        bulks_serve_end(from.bulks, now_us);
    }
    /* What the service has may have ended already, and its place be another's. */
    if (status != NIGH_OK || call.one_way) {
        calls_came_back(calls, pending, status == NIGH_OK ? CALLS_ANSWERED : CALLS_REFUSED,
                        &(struct calls_end){.status = status}, now_us);
    }
}

/* ---- callers that go ------------------------------------------------------- */

void calls_withdrawn(struct calls *calls, const struct rpc *channel, uint64_t call, uint64_t now_us)
{
    uint32_t place = *find_came(calls, channel, call);

    if (place != CALLS_NONE) {
        give_request(calls, &calls->requests[place], now_us);
    }
}

void calls_channel_down(struct calls *calls, const struct rpc *channel, uint32_t rank,
                        uint64_t now_us)
{
    bulks_channel_down(calls->bulks, channel, now_us);
    for (uint32_t n = 0; n < calls->config.requests && calls->unanswered_count > 0; n++) {
        if (calls->requests[n].used && calls->requests[n].channel == channel) {
            give_request(calls, &calls->requests[n], now_us);
        }
    }
    calls_forget_peer(calls, channel);
    /* Those that waited for it end; those of another channel of the rank go on. */
    calls_peer(calls, rank, true, now_us);
}
