/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that calls, answers to them and questions about regions lie in: one submission each,
 * whose bytes lie in a place. LIMIT_OWN_PLACES are the session's own, which it has whatever others
 * do; who has more under way asks for a lease with more, and goes on with its own where there is
 * none. The reply comes to where its request was. A place is taken from when its submission is made
 * until its completion: also one that nobody waits for any more. The node of before there were own
 * places leases all of them.
 */
#include <string.h>

#include "base/clock.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/extents.h"
#include "client/op.h"
#include "client/places.h"
#include "client/ring.h"

struct client_calls *places_of(const struct client_op *op)
{
    return &op->client->lane[op->u.place.lane].calls;
}

void calls_own_places(nigh_client *client)
{
    for (uint32_t lane = 0; lane < client->lanes; lane++) {
        struct client_calls *calls = &client->lane[lane].calls;

        calls->own = session_places_of(client->memory, client->lanes, lane);
        calls->own_count = calls->count = LIMIT_OWN_PLACES;
        calls_reset(client, lane);
    }
}

bool calls_may_look(const nigh_client *client)
{
    return client->may_write || client->lane[0].calls.own != NULL;
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

static uint32_t calls_leased_count(const struct client_calls *calls)
{
    return calls->count - calls->own_count;
}

/* Those of a lease are used when the own ones are. */
static void calls_add_leased(struct client_calls *calls, uint32_t count)
{
    memmove(calls->free + count, calls->free, calls->free_count);
    for (uint32_t n = 0; n < count; n++) {
        calls->free[n] = (uint8_t)(calls->count + count - 1 - n);
    }
    calls->free_count += count;
    calls->count += count;
}

/* What the lane gave is not taken. */
static void calls_give_back(nigh_client *client, uint32_t lane, uint64_t offset)
{
    struct session_sqe sqe = {.op = SESSION_OP_LEASE_CLOSE, .offset = offset};

    if (ring_has_room(client, lane, UINT32_MAX)) {
        ring_submit(client, lane, NULL, 0, false, &sqe);
    }
}

void calls_leased(nigh_client *client, uint32_t lane, const struct session_cqe *cqe)
{
    struct client_calls *calls = &client->lane[lane].calls;
    uint64_t count = cqe->lease_bytes / LIMIT_CALL_BYTES;
    uint64_t least = calls->own_count > 0 ? 1 : LIMIT_REPLY_PLACES + 1;

    calls->asked = false;
    if (cqe->status != NIGH_OK && calls->own_count > 0) {
        calls->refused_us = clock_now_us(&clock_monotonic);
    }
    if (cqe->status != NIGH_OK || cqe->lease_bytes > client->arena_bytes ||
        cqe->lease_offset > client->arena_bytes - cqe->lease_bytes) {
        return;
    }
    if (count < least || calls_leased_count(calls) != 0 ||
        extents_map_locked(client, cqe->lease_offset, cqe->lease_bytes, true) != NIGH_OK) {
        /* What it could not use it does not ask for again at once. */
        calls->refused_us = clock_now_us(&clock_monotonic);
        calls_give_back(client, lane, cqe->lease_offset);
        return;
    }
    calls->offset = cqe->lease_offset;
    client->cuts++;
    calls_add_leased(calls, (uint32_t)min_u64(count, LIMIT_CALL_PLACES - calls->own_count));
    ring_tell(client); /* who leads may have lain down before there was a lease to look after */
}

/* More are under way than there are places of its own: the lane is asked for more, once. */
static void calls_want_more(nigh_client *client, uint32_t lane)
{
    struct client_calls *calls = &client->lane[lane].calls;
    struct session_sqe sqe = {.op = SESSION_OP_CALL_LEASE,
                              .flags = SESSION_FLAG_NO_EVICT,
                              .argument = (uint64_t)(LIMIT_CALL_PLACES - LIMIT_OWN_PLACES) *
                                          LIMIT_CALL_BYTES};

    if (calls->own_count == 0 || calls_leased_count(calls) != 0 || calls->asked ||
        !ring_has_room(client, lane, UINT32_MAX) ||
        (calls->refused_us != 0 &&
         clock_now_us(&clock_monotonic) - calls->refused_us < LIMIT_PLACES_REST_US)) {
        return;
    }
    ring_submit(client, lane, NULL, 0, false, &sqe);
    calls->asked = true;
}

/* Own ones may be used: by a receive, a lock or a call that waits for as long as it takes. */
bool calls_may_rest(const nigh_client *client, uint32_t lane)
{
    const struct client_calls *calls = &client->lane[lane].calls;
    uint32_t leased = calls_leased_count(calls), free_leased = 0;

    if (calls->own_count == 0 || leased == 0) {
        return false;
    }
    for (uint32_t n = 0; n < calls->free_count; n++) {
        free_leased += calls->free[n] >= calls->own_count;
    }
    return free_leased == leased;
}

void calls_rest(nigh_client *client, uint32_t lane)
{
    struct client_calls *calls = &client->lane[lane].calls;
    uint32_t kept = 0;

    if (!calls_may_rest(client, lane) || !ring_has_room(client, lane, UINT32_MAX)) {
        return;
    }
    calls_give_back(client, lane, calls->offset);
    for (uint32_t n = 0; n < calls->free_count; n++) {
        if (calls->free[n] < calls->own_count) {
            calls->free[kept++] = calls->free[n];
        }
    }
    calls->count = calls->own_count;
    calls->free_count = kept;
}

/* ---- places --------------------------------------------------------------- */

static uint64_t place_offset(const struct client_calls *calls, uint32_t number)
{
    return number < calls->own_count
               ? SESSION_OWN_PLACE | (uint64_t)number * LIMIT_CALL_BYTES
               : calls->offset + (uint64_t)(number - calls->own_count) * LIMIT_CALL_BYTES;
}

/* Which place begins there, or has it; UINT32_MAX: none. */
static uint32_t place_number(const struct client_calls *calls, uint64_t offset)
{
    uint64_t begin = SESSION_OWN_PLACE;
    uint32_t first = 0, count = calls->own_count;

    if ((offset & SESSION_OWN_PLACE) == 0) {
        begin = calls->offset;
        first = calls->own_count;
        count = calls_leased_count(calls);
    }
    return offset >= begin && offset - begin < (uint64_t)count * LIMIT_CALL_BYTES
               ? first + (uint32_t)((offset - begin) / LIMIT_CALL_BYTES)
               : UINT32_MAX;
}

uint8_t *calls_bytes(const nigh_client *client, uint32_t lane, uint64_t offset)
{
    const struct client_calls *calls = &client->lane[lane].calls;
    uint32_t number = place_number(calls, offset);

    if (number == UINT32_MAX || place_offset(calls, number) != offset) {
        return NULL;
    }
    return number < calls->own_count ? calls->own + (size_t)number * LIMIT_CALL_BYTES
                                     : client->write_arena + offset;
}

void calls_give_place(nigh_client *client, uint32_t lane, uint64_t offset)
{
    struct client_calls *calls = &client->lane[lane].calls;
    uint32_t number = place_number(calls, offset);

    if (number != UINT32_MAX && calls->free_count < calls->count) {
        calls->free[calls->free_count++] = (uint8_t)number;
    }
}

/* ---- steps ---------------------------------------------------------------- */

uint32_t place_lane(struct client_op *op, size_t step)
{
    (void)step;
    return op->u.place.lane;
}

bool place_is_free(const struct client_op *op, uint32_t kept)
{
    const struct client_calls *calls = places_of(op);

    return calls->count == 0 || calls->free_count > kept;
}

bool place_may_be_had(const struct client_op *op, uint32_t kept)
{
    const struct client_calls *calls = places_of(op);
    bool is_had = calls->count == 0 ? !calls->asked : place_is_free(op, kept);

    if (!is_had) {
        calls_want_more(op->client, op->u.place.lane);
    }
    return is_had;
}

bool place_is_overdue(const struct client_op *op)
{
    return op->deadline_us != UINT64_MAX && op_remaining_us(op) == 0;
}

bool place_has_room(struct client_op *op)
{
    return place_may_be_had(op, LIMIT_REPLY_PLACES) || place_is_overdue(op);
}

void place_ask_memory(const struct client_op *op, struct session_sqe *sqe)
{
    sqe->op = SESSION_OP_CALL_LEASE;
    sqe->argument = (uint64_t)LIMIT_CALL_PLACES * LIMIT_CALL_BYTES;
    places_of(op)->asked = true;
}

uint8_t *place_bytes(const struct client_op *op)
{
    return calls_bytes(op->client, op->u.place.lane, op->u.place.offset);
}

uint8_t *place_take(struct client_op *op, struct session_sqe *sqe)
{
    struct client_calls *calls = places_of(op);
    uint32_t number = calls->free[--calls->free_count];

    sqe->offset = place_offset(calls, number);
    op->client->cuts += number >= calls->own_count;
    op->u.place.offset = sqe->offset;
    sqe->data_size = op->u.place.count;
    return place_bytes(op);
}

void place_write(const struct client_op *op, uint8_t *to)
{
    if (op->u.place.count > 0) {
        memcpy(to, op->u.place.bytes, op->u.place.count);
    }
}

bool place_build(struct client_op *op, struct session_sqe *sqe, place_fill *fill)
{
    if (place_is_overdue(op)) {
        op_fail(op, NIGH_TIMEOUT);
        return false;
    }
    if (places_of(op)->count == 0) {
        place_ask_memory(op, sqe);
        return true;
    }
    fill(op, sqe);
    return true;
}

bool place_came(struct client_op *op, const struct session_cqe *cqe)
{
    if (cqe->status != NIGH_OK || places_of(op)->count == 0) {
        op->flags |= OP_UNPLACED;
        op_fail(op, cqe->status != NIGH_OK ? (nigh_status)cqe->status : NIGH_NO_RESOURCES);
        return false;
    }
    return true;
}

bool place_goes_on(struct client_op *op, size_t step, const struct session_cqe *cqe,
                   place_fill *fill)
{
    struct session_sqe sqe = {0};

    if (!place_came(op, cqe)) {
        return false;
    }
    if (place_is_overdue(op)) {
        op_fail(op, NIGH_TIMEOUT);
        return false;
    }
    fill(op, &sqe);
    op_go_on(op, step, op->u.place.lane, op->kind->waits, &sqe);
    return true;
}

bool place_explain(const struct client_op *op, nigh_status status)
{
    if ((op->flags & OP_UNPLACED) == 0 || status != NIGH_OUT_OF_MEMORY) {
        return false;
    }
    (void)error_set(op->client, status,
                    "the node, which is older than this libnigh, has lent its clients as much "
                    "memory as it may, and has none left for what this one asks (nigh top: "
                    "leased): others have to end, or it needs more --memory, or to be a newer one");
    return true;
}

/* ---- the first of a client ------------------------------------------------ */

static bool memory_has_room(struct client_op *op)
{
    const struct client_calls *calls = places_of(op);

    return calls->count != 0 || !calls->asked;
}

static bool memory_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    if (places_of(op)->count != 0) {
        return false;
    }
    place_ask_memory(op, sqe);
    return true;
}

/* Where none came the op that wants it asks again, and tells. */
static const struct op_kind memory_kind = {
    .lane = place_lane,
    .build = memory_build,
    .done = op_any_done,
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
    if (op_ensure(op) == NIGH_OK && places_of(op)->count == 0) {
        client_unlock(client);
        /* A lane that says nothing is given LIMIT_NODE_GRACE_US, as after any deadline. */
        op_init(&memory, client, &memory_kind, 1, op_deadline_us(0));
        memory.u.place.lane = op->u.place.lane;
        (void)op_run(&memory);
        client_lock(client);
    }
    status = op_begin(op);
    client_unlock(client);
    return status;
}
