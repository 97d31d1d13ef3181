/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of services, and answers to them: one submission each, whose bytes lie in a place of the
 * memory that the lane has leased to this client for that. The reply comes to where its request
 * was. A place is taken from when its submission is made until its completion: also one that nobody
 * waits for any more.
 */
#include <stdlib.h>
#include <string.h>

#include "base/blake.h"
#include "base/clock.h"
#include "client/calls.h"
#include "client/locate.h"
#include "client/pairs.h"

#define CALL_FLAGS (NIGH_CALL_ONE_WAY | NIGH_CALL_IDEMPOTENT | NIGH_CALL_URGENT)

/* ---- places --------------------------------------------------------------- */

static struct client_calls *calls_of(const struct client_op *op)
{
    return &op->client->lane[op->u.call.lane].calls;
}

bool calls_is_now(const nigh_client *client, uint32_t incarnation)
{
    return atomic_load_explicit(&client->node_incarnation, memory_order_relaxed) == incarnation;
}

uint64_t calls_where(const nigh_client *client, uint32_t lane)
{
    return (uint64_t)atomic_load_explicit(&client->node_incarnation, memory_order_relaxed) << 32 |
           lane;
}

void calls_reset(nigh_client *client, uint32_t lane)
{
    struct client_calls *calls = &client->lane[lane].calls;

    calls->asked = false;
    calls->free_count = calls->count;
    for (uint32_t n = 0; n < calls->count; n++) {
        calls->free[n] = (uint8_t)(calls->count - 1 - n);
    }
}

void calls_leased(nigh_client *client, uint32_t lane, const struct session_cqe *cqe)
{
    struct client_calls *calls = &client->lane[lane].calls;
    struct session_sqe sqe = {.op = SESSION_OP_LEASE_CLOSE, .offset = cqe->lease_offset};
    uint64_t count = cqe->lease_bytes / LIMIT_CALL_BYTES;

    calls->asked = false;
    if (cqe->status != NIGH_OK || cqe->lease_bytes > client->arena_bytes ||
        cqe->lease_offset > client->arena_bytes - cqe->lease_bytes) {
        return;
    }
    if (count <= LIMIT_REPLY_PLACES || calls->count != 0 ||
        extents_map_locked(client, cqe->lease_offset, cqe->lease_bytes, true) != NIGH_OK) {
        if (ring_has_room(client, lane, UINT32_MAX)) {
            ring_submit(client, lane, NULL, 0, false, &sqe);
        }
        return;
    }
    calls->offset = cqe->lease_offset;
    calls->count = (uint32_t)min_u64(count, LIMIT_CALL_PLACES);
    calls_reset(client, lane);
}

static bool calls_has_place(const uint64_t offset, const struct client_calls *calls)
{
    return calls->count > 0 && offset >= calls->offset &&
           offset - calls->offset < (uint64_t)calls->count * LIMIT_CALL_BYTES;
}

void calls_give_place(nigh_client *client, uint32_t lane, uint64_t offset)
{
    struct client_calls *calls = &client->lane[lane].calls;

    if (calls_has_place(offset, calls) && calls->free_count < calls->count) {
        calls->free[calls->free_count++] = (uint8_t)((offset - calls->offset) / LIMIT_CALL_BYTES);
    }
}

/* ---- the steps ------------------------------------------------------------ */

static const struct op_kind many_kind;

static bool call_is_many(const struct client_op *op)
{
    return op->kind == &many_kind;
}

/* Places are kept for answers: they end calls of others, which may wait for just these. */
static bool call_has_place(const struct client_op *op)
{
    bool is_answer = op->u.call.spec == NULL && op->u.call.receives == NULL && !call_is_many(op);
    const struct client_calls *calls = calls_of(op);

    return calls->count == 0 || calls->free_count > (is_answer ? 0 : LIMIT_REPLY_PLACES);
}

/* A receive that is overdue looks all the same. */
static bool call_is_overdue(const struct client_op *op)
{
    return op->deadline_us != UINT64_MAX && op_remaining_us(op) == 0 &&
           (op->u.call.receives == NULL || !call_has_place(op));
}

/* A receive that answers must not wait with the answer for a place, nor keep one of those for
 * answers until a request comes: the answer goes alone, before it. */
static bool call_goes_apart(const struct client_op *op)
{
    return op->u.call.receives != NULL && op->u.call.answers &&
           (!call_has_place(op) || op->u.call.receives->kept_count > 0);
}

/* ---- receives that stay with the lane ------------------------------------- */

static bool receive_keeps(const struct client_op *op)
{
    return op->u.call.receives != NULL && op->u.call.receives->kept_count > 0;
}

/* The place of its RECEIVE, which op->u.call.rank says where it is one that was kept before. */
static struct client_pending *receive_place(struct client_op *op, uint16_t *number)
{
    struct client_lane *at = &op->client->lane[op->u.call.lane];

    if (op->u.call.rank < LIMIT_RING_ENTRIES && at->pending[op->u.call.rank].op == op) {
        *number = (uint16_t)op->u.call.rank;
        return &at->pending[*number];
    }
    for (uint16_t n = 0; n < LIMIT_RING_ENTRIES; n++) {
        if (at->pending[n].op == op) {
            *number = n;
            return &at->pending[n];
        }
    }
    return NULL;
}

void calls_release_receive(struct client_op *op)
{
    nigh_service *service = op->u.call.receives;
    uint16_t number;
    struct client_pending *place = receive_place(op, &number);

    /* It is in waiting, where there is room for as many as here. */
    if (place != NULL && service->kept_count < LIMIT_RECEIVES) {
        place->op = NULL;
        place->kept = service;
        service->kept[service->kept_count++] = number;
    }
}

/* Goes on with a RECEIVE that is there. */
static void receive_take_kept(struct client_op *op)
{
    nigh_service *service = op->u.call.receives;
    uint16_t number = service->kept[--service->kept_count];
    struct client_pending *place = &op->client->lane[op->u.call.lane].pending[number];

    place->kept = NULL;
    place->op = op;
    place->step = 0;
    op->u.call.rank = number;
    op->u.call.offset = place->offset;
}

static void receive_waits(struct client_op *op)
{
    nigh_service *service = op->u.call.receives;

    if (service->waiting_count < LIMIT_RECEIVES) {
        service->waiting[service->waiting_count++] = op;
        pairs_want(service);
    }
}

/* Its service may be gone. */
static void receive_ended(struct client_op *op)
{
    LIST_FOREACH_SAFE(node, &op->client->services)
    {
        nigh_service *service = container_of(node, nigh_service, place);

        for (uint32_t n = 0; service == op->u.call.receives && n < service->waiting_count; n++) {
            if (service->waiting[n] != op) {
                continue;
            }
            service->waiting_count--;
            memmove(&service->waiting[n], &service->waiting[n + 1],
                    (service->waiting_count - n) * sizeof(service->waiting[0]));
            pairs_want(service);
            return;
        }
    }
}

bool calls_take_came(nigh_service *service, nigh_request *request, void *buffer)
{
    while (!list_empty(&service->came)) {
        struct service_request *came =
            container_of(list_pop_front(&service->came), struct service_request, place);
        uint64_t now_us = clock_now_us(&clock_monotonic);
        bool is_late = came->deadline_us <= now_us; /* its caller does not wait any more */

        if (!is_late) {
            size_t before = (size_t)((const uint8_t *)came->request.bytes - came->bytes);

            *request = came->request;
            memcpy(buffer, came->bytes, before + came->request.size);
            request->bytes = (const uint8_t *)buffer + before;
            request->timeout_us =
                came->deadline_us == UINT64_MAX ? NIGH_FOREVER : came->deadline_us - now_us;
        }
        free(came);
        if (!is_late) {
            return true;
        }
    }
    return false;
}

static uint32_t call_lane(struct client_op *op, size_t step)
{
    (void)step;
    return op->u.call.lane;
}

static bool call_has_room(struct client_op *op)
{
    const struct client_calls *calls = calls_of(op);

    return (calls->count == 0 ? !calls->asked : call_has_place(op)) || call_is_overdue(op) ||
           call_goes_apart(op) || receive_keeps(op);
}

static void receive_fill(const struct client_op *op, struct session_sqe *sqe)
{
    struct session_receive_id id = {
        .hash = op->u.call.hash, .request = op->u.call.id, .status = op->u.call.answer};

    sqe->op = SESSION_OP_RECEIVE;
    sqe->flags = op->u.call.answers ? SESSION_FLAG_ANSWER : 0;
    memcpy(sqe->id, &id, sizeof(sqe->id));
    sqe->argument = op_remaining_us(op);
    /* Where there are pairs it may serve a later receive, too: this client looks at the time. */
    if (sqe->argument > 0 && op->u.call.receives->pair_mask != 0) {
        sqe->argument = NIGH_FOREVER;
    }
}

static uint8_t call_flags(uint32_t flags)
{
    return (uint8_t)(((flags & NIGH_CALL_ONE_WAY) != 0 ? SESSION_FLAG_ONE_WAY : 0) |
                     ((flags & NIGH_CALL_IDEMPOTENT) != 0 ? SESSION_FLAG_IDEMPOTENT : 0) |
                     ((flags & NIGH_CALL_URGENT) != 0 ? SESSION_FLAG_URGENT : 0));
}

static bool call_is_near(const nigh_call_spec *spec)
{
    return spec->rank == NIGH_NEAREST;
}

/* Whose service it is, and whom it is asked of first. */
static void call_fill_id(const struct client_op *op, struct session_sqe *sqe)
{
    const nigh_call_spec *spec = op->u.call.spec;
    struct session_near near = {.hash = op->u.call.hash};

    if (call_is_near(spec)) {
        _Static_assert(1 + SESSION_NEAR <= sizeof(spec->opaque) - sizeof(spec->opaque[0]),
                       "the spec keeps the ranks");
        memcpy(&near.count, &spec->opaque[1], 1 + SESSION_NEAR);
    }
    memcpy(sqe->id, &near, LIMIT_ID_BYTES);
}

static void call_fill(struct client_op *op, struct session_sqe *sqe)
{
    struct client_calls *calls = calls_of(op);
    const nigh_call_spec *spec = op->u.call.spec;
    uint8_t *to;

    sqe->offset = calls->offset + (uint64_t)calls->free[--calls->free_count] * LIMIT_CALL_BYTES;
    op->u.call.offset = sqe->offset;
    sqe->data_size = op->u.call.count;
    to = op->client->write_arena + sqe->offset;
    if (call_is_many(op)) {
        to += multicast_fill(op, sqe, to);
    }
    if (spec != NULL && calls_bulk_count(spec) > 0) {
        sqe->name_size = (uint16_t)spec->bulk_count;
        to += calls_fill_bulks(spec, to);
    }
    if (op->u.call.count > 0) {
        memcpy(to, op->u.call.bytes, op->u.call.count);
    }
    if (op->u.call.receives != NULL) {
        receive_fill(op, sqe);
        return;
    }
    if (call_is_many(op)) {
        return;
    }
    if (spec == NULL) {
        sqe->op = SESSION_OP_REPLY;
        sqe->argument = op->u.call.id;
        sqe->ref = (uint64_t)(int64_t)op->u.call.answer;
        return;
    }
    sqe->op = SESSION_OP_CALL;
    sqe->flags = call_flags(op->u.call.flags);
    call_fill_id(op, sqe);
    sqe->meta_size = op->u.call.rank;
    sqe->ref = min_u64(spec->reply_room, LIMIT_CALL_BYTES);
    sqe->argument = op_remaining_us(op);
}

static void call_ask_memory(const struct client_op *op, struct session_sqe *sqe)
{
    sqe->op = SESSION_OP_CALL_LEASE;
    sqe->argument = (uint64_t)LIMIT_CALL_PLACES * LIMIT_CALL_BYTES;
    calls_of(op)->asked = true;
}

/* A node that began anew knows neither the requests nor the services of the one before; what it has
 * itself may go by the same numbers. */
static bool call_is_of_before(const struct client_op *op)
{
    return op->u.call.spec == NULL && !call_is_many(op) &&
           !calls_is_now(op->client, op->u.call.incarnation);
}

static bool call_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    struct client_calls *calls = calls_of(op);

    (void)step;
    if (op->u.call.spec != NULL) {
        switch (pairs_call(op)) {
        case PAIRS_UNDER_WAY: return true;
        case PAIRS_ENDED: return false;
        case PAIRS_ELSEWHERE: break;
        }
    }
    if (call_is_of_before(op)) {
        op_fail(op, op->u.call.receives != NULL ? NIGH_CLOSED : NIGH_NOT_FOUND);
        return false;
    }
    if (call_goes_apart(op)) {
        op->u.call.apart = true;
        return false;
    }
    if (receive_keeps(op)) {
        receive_take_kept(op);
        receive_waits(op);
        return true;
    }
    if (call_is_overdue(op)) {
        /* No receive was made that could have found a request. */
        op_fail(op, op->u.call.receives != NULL ? NIGH_BUSY : NIGH_TIMEOUT);
        return false;
    }
    if (calls->count == 0) {
        call_ask_memory(op, sqe);
        return true;
    }
    call_fill(op, sqe);
    if (op->u.call.receives != NULL) {
        receive_waits(op);
    }
    return true;
}

void calls_answered(struct client_op *op)
{
    op->u.call.answered = true;
    if (op->u.call.spec->struct_size >= CALL_SPEC_ANSWERED) {
        op->u.call.spec->answered = 1;
    }
}

/* The reply lies where the request was, whose place is another's from the return on. */
static void call_take_reply(struct client_op *op, const struct session_cqe *cqe)
{
    nigh_call_spec *spec = op->u.call.spec;

    op->u.call.wanted = min_u64(cqe->data_size, LIMIT_CALL_BYTES);
    spec->reply_bytes = (size_t)op->u.call.wanted;
    spec->served_by = cqe->ref;
    op->u.call.untaken = cqe->status != NIGH_OK && (cqe->flags & SESSION_CQE_UNTAKEN) != 0;
    if ((cqe->flags & SESSION_CQE_ANSWERED) != 0) {
        calls_answered(op);
    }
    if (cqe->data_size > 0 && cqe->data_size <= min_u64(spec->reply_room, LIMIT_CALL_BYTES)) {
        memcpy(spec->reply, op->client->write_arena + op->u.call.offset, (size_t)cqe->data_size);
    }
}

static void receive_show(nigh_service *service, uint32_t lane, const struct session_cqe *cqe,
                         uint64_t offset, nigh_request *request, void *buffer)
{
    size_t size = (size_t)min_u64(cqe->data_size, LIMIT_CALL_BYTES);

    memcpy(buffer, service->client->write_arena + offset, size);
    *request = (nigh_request){
        .service = service,
        .bytes = buffer,
        .size = size,
        .rank = cqe->ref,
        .uid = cqe->meta_size,
        .is_one_way = cqe->generation == 0,
        .timeout_us = cqe->offset == UINT64_MAX ? NIGH_FOREVER : cqe->offset,
        .opaque = {cqe->generation, calls_where(service->client, lane)},
    };
    calls_split(request, cqe->name_size);
}

void calls_kept_ended(nigh_client *client, uint32_t lane, uint16_t number,
                      const struct client_pending *was, const struct session_cqe *cqe)
{
    nigh_service *service = was->kept;
    struct service_request *came;

    for (uint32_t n = 0; n < service->kept_count; n++) {
        if (service->kept[n] == number) {
            service->kept[n] = service->kept[--service->kept_count];
            break;
        }
    }
    if (cqe->status != NIGH_OK) {
        return;
    }
    came = malloc(sizeof(*came) + (size_t)min_u64(cqe->data_size, LIMIT_CALL_BYTES));
    if (came == NULL) {
        ring_undo(client, lane, SESSION_OP_RECEIVE, cqe);
        return;
    }
    came->place = (struct list_node){0};
    receive_show(service, lane, cqe, was->offset, &came->request, came->bytes);
    came->deadline_us = op_deadline_us(came->request.timeout_us);
    list_push_back(&service->came, &came->place);
}

/* One that was kept had the deadline of who asked first. */
static bool receive_goes_on(struct client_op *op, size_t step, const struct session_cqe *cqe)
{
    struct session_sqe sqe = {0};

    if (cqe->status != NIGH_TIMEOUT || op_remaining_us(op) == 0 || !call_has_place(op) ||
        op->u.call.answers) {
        return false;
    }
    call_fill(op, &sqe);
    op_go_on(op, step, op->u.call.lane, op->kind->waits, &sqe);
    return true;
}

static bool call_done(struct client_op *op, size_t step, uint8_t opcode,
                      const struct session_cqe *cqe)
{
    struct client_calls *calls = calls_of(op);
    struct session_sqe sqe = {0};

    if (opcode != SESSION_OP_CALL_LEASE) {
        if (op->u.call.spec != NULL) {
            call_take_reply(op, cqe);
            if (cqe->status == NIGH_OK) {
                pairs_learn(op->client, op->u.call.hash, cqe->ref);
            }
        } else if (op->u.call.receives != NULL && cqe->status == NIGH_OK) {
            receive_show(op->u.call.receives, op->u.call.lane, cqe, op->u.call.offset,
                         op->u.call.into, op->u.call.buffer);
        } else if (op->u.call.receives != NULL && receive_goes_on(op, step, cqe)) {
            return true;
        } else if (call_is_many(op)) {
            multicast_take(op, cqe);
        }
        if (cqe->status != NIGH_OK) {
            op_fail(op, (nigh_status)cqe->status);
        }
        return false;
    }
    if (cqe->status != NIGH_OK || calls->count == 0) {
        op_fail(op, cqe->status != NIGH_OK ? (nigh_status)cqe->status : NIGH_NO_RESOURCES);
        return false;
    }
    if (call_is_overdue(op)) {
        op_fail(op, NIGH_TIMEOUT);
        return false;
    }
    call_fill(op, &sqe);
    if (op->u.call.receives != NULL) {
        receive_waits(op);
    }
    op_go_on(op, step, op->u.call.lane, op->kind->waits, &sqe);
    return true;
}

/* It went to no node. */
static nigh_status call_tell_none(const struct client_op *op, nigh_status status)
{
    if (status == NIGH_NOT_FOUND) {
        return error_set(op->client, status,
                         "no node that can be reached has a service of this name");
    }
    return error_note_end(op->client, status);
}

/* No service can have carried it out, whatever it is. */
static nigh_status call_tell_untaken(const struct client_op *op, nigh_status status, uint32_t rank)
{
    return error_set(op->client, status,
                     status == NIGH_PEER_LOST
                         ? "node %u cannot be reached: the call was not carried out (nigh nodes)"
                         : "node %u could not be reached in time: the call was not carried out "
                           "(nigh nodes)",
                     rank);
}

static nigh_status call_tell(const struct client_op *op, nigh_status status)
{
    uint32_t rank = op->u.call.rank != NIGH_ANY_RANK ? op->u.call.rank : op->u.call.spec->served_by;

    if (rank == NIGH_ANY_RANK) {
        return call_tell_none(op, status);
    }
    if (op->u.call.answered) {
        return error_set(op->client, status, "the service answered: %s (node %u)",
                         nigh_status_name(status), rank);
    }
    if (op->u.call.untaken && (status == NIGH_PEER_LOST || status == NIGH_TIMEOUT)) {
        return call_tell_untaken(op, status, rank);
    }
    switch (status) {
    case NIGH_PEER_LOST:
        return error_set(op->client, status,
                         "node %u died or cannot be reached: the call may or may not have been "
                         "carried out (nigh nodes)",
                         rank);
    case NIGH_NOT_FOUND:
        return error_set(op->client, status, "node %u has no service of this name", rank);
    case NIGH_CLOSED:
        return error_set(op->client, status, "the service of node %u ended before it answered",
                         rank);
    case NIGH_OVERLOADED:
        return error_set(op->client, status,
                         "too many calls are under way, here or at node %u; try again", rank);
    case NIGH_LIMIT:
        return error_set(op->client, status,
                         "the reply of node %u has %llu bytes, more than there is room for", rank,
                         (unsigned long long)op->u.call.wanted);
    case NIGH_TIMEOUT:
        return (op->u.call.flags & NIGH_CALL_IDEMPOTENT) != 0
                   ? error_set(op->client, status,
                               "no answer in time, however often it was tried; last at node %u: is "
                               "it up (nigh nodes), and its service?",
                               rank)
                   : error_set(op->client, status, "node %u did not answer in time", rank);
    case NIGH_INVALID:
        return error_set(op->client, status, "not valid: there is no node %u (nigh nodes)", rank);
    default: return error_note_end(op->client, status);
    }
}

static const struct op_kind call_kind = {
    .lane = call_lane,
    .build = call_build,
    .done = call_done,
    .has_room = call_has_room,
    .tell = call_tell,
    .waits = true,
};

static const struct op_kind reply_kind = {
    .lane = call_lane,
    .build = call_build,
    .done = call_done,
    .has_room = call_has_room,
};

/* ---- the first of a client ------------------------------------------------ */

static bool memory_has_room(struct client_op *op)
{
    const struct client_calls *calls = calls_of(op);

    return calls->count != 0 || !calls->asked;
}

static bool memory_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    if (calls_of(op)->count != 0) {
        return false;
    }
    call_ask_memory(op, sqe);
    return true;
}

/* None: the op that wants it asks again, and tells. */
static bool memory_done(struct client_op *op, size_t step, uint8_t opcode,
                        const struct session_cqe *cqe)
{
    (void)op;
    (void)step;
    (void)opcode;
    (void)cqe;
    return false;
}

static const struct op_kind memory_kind = {
    .lane = call_lane,
    .build = memory_build,
    .done = memory_done,
    .has_room = memory_has_room,
    .waits = true,
};

nigh_status calls_start(struct client_op *op)
{
    nigh_client *client = op->client;
    struct client_op memory;
    nigh_status status;

    op->flags |= OP_ASYNC;
    client_lock(client);
    if (op_ensure(op) == NIGH_OK && calls_of(op)->count == 0) {
        client_unlock(client);
        /* A lane that says nothing is given LIMIT_NODE_GRACE_US, as after any deadline. */
        op_init(&memory, client, &memory_kind, 1, op_deadline_us(0));
        memory.u.call.lane = op->u.call.lane;
        (void)op_run(&memory);
        client_lock(client);
    }
    status = op_begin(op);
    client_unlock(client);
    return status;
}

/* ---- where most of its objects are ---------------------------------------- */

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
    .tell = call_tell,
    .waits = true,
};

/* A call of any server of a name, once it is known whom to ask first. */
static nigh_status near_init(nigh_client *client, nigh_call_spec *spec, struct client_op *op)
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

/* ---- nigh_call ------------------------------------------------------------ */

/* What a spec had before there was NIGH_NEAREST. */
#define CALL_SPEC_FIRST offsetof(nigh_call_spec, near_ids)

/* The name that this thread called last: hashing one takes longer than to write a request. */
static __thread struct {
    char name[64];
    uint64_t hash;
} calls_last __attribute__((tls_model("initial-exec")));

nigh_status calls_hash(const char *name, uint64_t *hash)
{
    size_t length = name == NULL ? 0 : strnlen(name, LIMIT_NAME_BYTES + 1);
    uint8_t id[LIMIT_ID_BYTES];

    if (length == 0 || length > LIMIT_NAME_BYTES) {
        return NIGH_INVALID;
    }
    if (length < sizeof(calls_last.name) && memcmp(name, calls_last.name, length + 1) == 0) {
        *hash = calls_last.hash;
        return NIGH_OK;
    }
    blake_id20(name, length, id);
    *hash = hash_load64(id);
    if (length < sizeof(calls_last.name)) {
        memcpy(calls_last.name, name, length + 1);
        calls_last.hash = *hash;
    }
    return NIGH_OK;
}

/* All lanes of a node have its services: which one carries a call is the name's. */
static nigh_status call_init(nigh_client *client, nigh_call_spec *spec, struct client_op *op)
{
    uint64_t hash;

    if (spec == NULL || spec->struct_size < CALL_SPEC_FIRST || (spec->flags & ~CALL_FLAGS) != 0 ||
        calls_hash(spec->service, &hash) != NIGH_OK) {
        return error_set(client, NIGH_INVALID,
                         "nigh_call: a service has a name of 1 to %d bytes; or an unknown flag",
                         LIMIT_NAME_BYTES);
    }
    if (spec->request_bytes > NIGH_CALL_BYTES ||
        (spec->request == NULL && spec->request_bytes > 0) ||
        (spec->reply == NULL && spec->reply_room > 0)) {
        return error_set(client, NIGH_INVALID,
                         "nigh_call: a request has %d bytes at most, and room for a reply a place",
                         NIGH_CALL_BYTES);
    }
    if (!client->may_write) {
        return error_set(client, NIGH_DENIED,
                         "nigh_call: this client was opened read-only, and calls lie in memory "
                         "that it writes");
    }
    _Static_assert(NIGH_CALL_BYTES == LIMIT_CALL_BYTES, "the bound is public");
    if (calls_bulk_count(spec) > 0) {
        nigh_status status = calls_check_bulks(client, spec);

        if (status != NIGH_OK) {
            return status;
        }
    }
    op_init(op, client, &call_kind, 1, UINT64_MAX);
    spec->reply_bytes = 0;
    spec->served_by = NIGH_ANY_RANK;
    if (spec->struct_size >= CALL_SPEC_ANSWERED) {
        spec->answered = 0;
    }
    op->u.call.spec = spec;
    op->u.call.receives = NULL;
    op->u.call.hash = hash;
    op->u.call.bytes = spec->request;
    op->u.call.count = (uint32_t)spec->request_bytes;
    op->u.call.rank = spec->rank;
    op->u.call.lane = index_hash_lane(hash, client->lanes);
    op->u.call.flags = spec->flags;
    op->u.call.wanted = 0;
    op->u.call.untaken = false;
    op->u.call.answered = false;
    return call_is_near(spec) ? near_init(client, spec, op) : NIGH_OK;
}

nigh_status nigh_call(nigh_client *client, nigh_call_spec *spec, uint64_t timeout_us)
{
    struct client_op op;
    nigh_status status = client_check(client);

    if (status == NIGH_OK) {
        status = call_init(client, spec, &op);
    } else {
        return error_note(client, status);
    }
    if (status != NIGH_OK) {
        return status;
    }
    if (pairs_call_now(&op, timeout_us)) {
        status = op_await(&op);
    } else {
        op.deadline_us = op_deadline_us(timeout_us);
        status = op_run(&op);
    }
    return status == NIGH_OK ? status : call_tell(&op, status);
}

nigh_status nigh_call_start(nigh_client *client, nigh_call_spec *spec, uint64_t timeout_us,
                            nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if (op == NULL) {
        return error_set(client, NIGH_INVALID, "nigh_call_start: no op");
    }
    status = call_init(client, spec, op);
    if (status != NIGH_OK) {
        return status;
    }
    op->deadline_us = op_deadline_us(timeout_us);
    return error_note(client, calls_start(op));
}

/* ---- calls of many -------------------------------------------------------- */

static const struct op_kind many_kind = {
    .lane = call_lane,
    .build = call_build,
    .done = call_done,
    .has_room = call_has_room,
    .tell = multicast_tell,
    .waits = true,
};

void calls_many(struct client_op *op, nigh_client *client, nigh_multicast_spec *spec, uint64_t hash,
                uint64_t timeout_us)
{
    op_init(op, client, &many_kind, 1, op_deadline_us(timeout_us));
    op->u.call.spec = NULL;
    op->u.call.receives = NULL;
    op->u.call.many = spec;
    op->u.call.hash = hash;
    op->u.call.lane = index_hash_lane(hash, client->lanes);
    op->u.call.bytes = spec->request;
    op->u.call.count = (uint32_t)spec->request_bytes;
}

/* ---- answers -------------------------------------------------------------- */

nigh_status calls_reply_later(nigh_client *client, const nigh_request *request, nigh_status answer,
                              const void *bytes, uint32_t count)
{
    uint32_t lane = (uint32_t)request->opaque[1];
    struct client_op op;
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if (lane >= client->lanes || !client->may_write) {
        return error_note(client, client->may_write ? NIGH_INVALID : NIGH_DENIED);
    }
    op_init(&op, client, &reply_kind, 1, UINT64_MAX);
    op.u.call.spec = NULL;
    op.u.call.receives = NULL;
    op.u.call.id = request->opaque[0];
    op.u.call.incarnation = (uint32_t)(request->opaque[1] >> 32);
    op.u.call.bytes = bytes;
    op.u.call.count = count;
    op.u.call.lane = lane;
    op.u.call.answer = answer;
    return error_note(client, op_run(&op));
}

/* ---- receives ------------------------------------------------------------- */

static nigh_status receive_tell(const struct client_op *op, nigh_status status)
{
    switch (status) {
    case NIGH_CLOSED:
        return error_set(op->client, status,
                         "the service has ended, or its node began anew: register it again");
    case NIGH_BUSY:
        return error_set(op->client, status,
                         "%d receives of this service wait already, or receives and calls of this "
                         "client have all places",
                         LIMIT_RECEIVES);
    default: return error_note_end(op->client, status);
    }
}

static const struct op_kind receive_kind = {
    .lane = call_lane,
    .build = call_build,
    .done = call_done,
    .has_room = call_has_room,
    .ended = receive_ended,
    .tell = receive_tell,
    .waits = true,
};

void calls_forget_service(nigh_service *service)
{
    nigh_client *client = service->client;
    struct client_lane *at = &client->lane[index_hash_lane(service->session.hash, client->lanes)];

    while (service->kept_count > 0) {
        at->pending[service->kept[--service->kept_count]].kept = NULL;
    }
    while (!list_empty(&service->came)) {
        free(container_of(list_pop_front(&service->came), struct service_request, place));
    }
    LIST_FOREACH_SAFE(node, &client->feed)
    {
        struct client_op *op = container_of(node, struct client_op, queue);

        if (op->kind == &receive_kind && op->u.call.receives == service) {
            op_end_all(op, NIGH_CLOSED);
        }
    }
}

void calls_reset_services(nigh_client *client)
{
    LIST_FOREACH_SAFE(node, &client->services)
    {
        calls_forget_service(container_of(node, nigh_service, place));
    }
}

void calls_receive(struct client_op *op, nigh_client *client, const struct calls_receive *receive)
{
    op_init(op, client, &receive_kind, 1, op_deadline_us(receive->timeout_us));
    op->u.call.spec = NULL;
    op->u.call.receives = receive->service;
    op->u.call.into = receive->into;
    op->u.call.buffer = receive->buffer;
    op->u.call.hash = receive->hash;
    op->u.call.lane = index_hash_lane(receive->hash, client->lanes);
    op->u.call.answers = receive->answers != NULL;
    op->u.call.apart = false;
    op->u.call.rank = LIMIT_RING_ENTRIES;
    op->u.call.id = receive->answers != NULL ? receive->answers->opaque[0] : 0;
    op->u.call.answer = receive->status;
    op->u.call.incarnation = receive->incarnation;
    op->u.call.bytes = receive->bytes;
    op->u.call.count = receive->count;
}

bool calls_receive_apart(const struct client_op *op)
{
    return op->u.call.apart;
}

nigh_status calls_receive_told(const struct client_op *op, nigh_status status)
{
    return status == NIGH_OK ? status : receive_tell(op, status);
}
