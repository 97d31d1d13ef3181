/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of many nodes: one submission, in a place as a call's (places.c). The node builds the tree,
 * and says once what came of it.
 */
#include <string.h>

#include "client/calls.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/op.h"
#include "client/places.h"

_Static_assert(NIGH_MULTICAST_BYTES == LIMIT_COLLECT_BYTES &&
                   NIGH_MULTICAST_FAN_MOST == LIMIT_COLLECT_FAN &&
                   NIGH_MULTICAST_ERRORS == LIMIT_COLLECT_ERRORS,
               "the bounds are public");

/* ---- whom ----------------------------------------------------------------- */

static bool is_in(const uint64_t *set, uint32_t rank)
{
    return (set[rank / 64] >> (rank % 64) & 1) != 0;
}

/* False: no rank, or one that was there before. */
static bool put_rank(uint64_t *set, uint32_t rank)
{
    if (rank >= LIMIT_NODES || is_in(set, rank)) {
        return false;
    }
    set[rank / 64] |= UINT64_C(1) << (rank % 64);
    return true;
}

static void multicast_fill(struct client_op *op, struct session_sqe *sqe)
{
    const nigh_multicast_spec *spec = op->u.call.many;
    uint8_t *to = place_take(op, sqe);
    struct session_collect wanted = {
        .version = spec->opaque[0],
        .all = spec->ranks == NULL,
        .fan = (uint8_t)(spec->fan != 0 ? spec->fan : NIGH_MULTICAST_FAN),
        .reduce = (uint8_t)spec->reduce,
    };

    for (size_t n = 0; n < spec->rank_count; n++) {
        (void)put_rank(wanted.ranks, spec->ranks[n]);
    }
    memcpy(to, &wanted, sizeof(wanted));
    place_write(op, to + sizeof(wanted));
    sqe->op = SESSION_OP_COLLECT;
    memcpy(sqe->id, &op->u.call.hash, sizeof(op->u.call.hash));
    sqe->ref = spec->value_room;
    sqe->argument = op_remaining_us(op);
}

static bool multicast_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    return place_build(op, sqe, multicast_fill);
}

/* ---- what came of it ------------------------------------------------------ */

static void multicast_take(struct client_op *op, const struct session_cqe *cqe)
{
    nigh_multicast_spec *spec = op->u.call.many;
    const uint8_t *from = place_bytes(op);
    struct session_collected said;

    spec->version = cqe->generation;
    if (cqe->status != NIGH_OK) {
        return;
    }
    memcpy(&said, from, sizeof(said));
    if (cqe->data_size != sizeof(said) + (uint64_t)said.value_bytes ||
        said.value_bytes > spec->value_room || said.errors > NIGH_MULTICAST_ERRORS) {
        op_fail(op, NIGH_PROTOCOL);
        return;
    }
    spec->answered = said.answered;
    spec->failed = said.failed;
    spec->unknown = said.unknown;
    spec->unasked = said.unasked;
    spec->error_count = said.errors;
    for (uint32_t n = 0; n < said.errors; n++) {
        spec->errors[n] = (nigh_multicast_error){.rank = said.first[n].rank,
                                                 .status = said.first[n].status,
                                                 .count = said.first[n].count,
                                                 .is_had = said.first[n].taken};
    }
    spec->value_bytes = said.value_bytes;
    if (said.value_bytes > 0) {
        memcpy(spec->value, from + sizeof(said), said.value_bytes);
    }
    if (said.errors > 0) {
        op_fail(op, (nigh_status)said.first[0].status);
    }
}

static bool multicast_done(struct client_op *op, size_t step, uint8_t opcode,
                           const struct session_cqe *cqe)
{
    if (opcode == SESSION_OP_CALL_LEASE) {
        return place_goes_on(op, step, cqe, multicast_fill);
    }
    multicast_take(op, cqe);
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
    }
    return false;
}

/* The first error, and how many there are. */
static nigh_status tell_first(const struct client_op *op, nigh_status status)
{
    const nigh_multicast_spec *spec = op->u.call.many;
    const nigh_multicast_error *first = &spec->errors[0];
    uint32_t without = spec->failed + spec->unknown + spec->unasked;

    return error_set(op->client, status,
                     "%u of %u nodes answered; first of the others: node %u%s%s: %s; %u may have "
                     "carried it out",
                     spec->answered, spec->answered + without, first->rank,
                     first->count > 1 ? " and those behind it" : "",
                     first->is_had != 0 ? "" : " (not asked)",
                     nigh_status_string((nigh_status)first->status), spec->failed + spec->unknown);
}

static nigh_status multicast_tell(const struct client_op *op, nigh_status status)
{
    if (op->u.call.many->error_count > 0) {
        return tell_first(op, status);
    }
    switch (status) {
    case NIGH_STALE:
        return error_set(op->client, status,
                         "the group of nodes has version %llu by now: nobody was asked",
                         (unsigned long long)op->u.call.many->version);
    case NIGH_OVERLOADED:
        return error_set(op->client, status,
                         "too many calls of many nodes are under way at this node; try again");
    case NIGH_NO_QUORUM:
        return error_set(op->client, status,
                         "the nodes have not agreed yet on who is of the group (nigh nodes)");
    case NIGH_INVALID:
        return error_set(op->client, status,
                         "not valid: a rank that is not of the group (nigh nodes), or the bounds "
                         "of the request or value");
    default: return op_note(op, status);
    }
}

static const struct op_kind multicast_kind = {
    .lane = place_lane,
    .build = multicast_build,
    .done = multicast_done,
    .has_room = place_has_room,
    .tell = multicast_tell,
    .waits = true,
};

/* ---- nigh_multicast ------------------------------------------------------- */

static bool is_room(const nigh_multicast_spec *spec)
{
    if (spec->reduce > NIGH_REDUCE_CONCAT || spec->value_room > NIGH_MULTICAST_BYTES ||
        (spec->value == NULL && spec->value_room > 0)) {
        return false;
    }
    if (spec->reduce == NIGH_REDUCE_NONE) {
        return spec->value_room == 0;
    }
    return spec->reduce == NIGH_REDUCE_CONCAT ||
           (spec->value_room > 0 && spec->value_room % 8 == 0);
}

static bool are_ranks(const nigh_multicast_spec *spec)
{
    uint64_t set[LIMIT_NODES / 64] = {0};

    if (spec->ranks == NULL) {
        return spec->rank_count == 0;
    }
    for (size_t n = 0; n < spec->rank_count; n++) {
        if (!put_rank(set, spec->ranks[n])) {
            return false;
        }
    }
    return spec->rank_count > 0;
}

/* From the arguments alone. */
static nigh_status check(nigh_client *client, const nigh_multicast_spec *spec, uint64_t *hash)
{
    if (spec == NULL || spec->struct_size < sizeof(*spec) ||
        calls_hash(spec->service, hash) != NIGH_OK) {
        return error_set(client, NIGH_INVALID,
                         "nigh_multicast: a service has a name of 1 to %d bytes", LIMIT_NAME_BYTES);
    }
    if (spec->request_bytes > NIGH_MULTICAST_BYTES ||
        (spec->request == NULL && spec->request_bytes > 0) || !is_room(spec)) {
        return error_set(client, NIGH_INVALID,
                         "nigh_multicast: a request and a value have %d bytes at most, and a value "
                         "that is a vector a multiple of 8",
                         NIGH_MULTICAST_BYTES);
    }
    if (spec->fan == 1 || spec->fan > NIGH_MULTICAST_FAN_MOST || !are_ranks(spec)) {
        return error_set(client, NIGH_INVALID,
                         "nigh_multicast: ranks are below %d, each once, and a fan is 2 to %d",
                         LIMIT_NODES, NIGH_MULTICAST_FAN_MOST);
    }
    if (!client->may_write) {
        return error_set(client, NIGH_DENIED,
                         "nigh_multicast: this client was opened read-only, and calls lie in "
                         "memory that it writes");
    }
    return NIGH_OK;
}

static nigh_status init(nigh_client *client, nigh_multicast_spec *spec, uint64_t timeout_us,
                        struct client_op *op)
{
    uint64_t hash;
    nigh_status status = check(client, spec, &hash);

    if (status != NIGH_OK) {
        return status;
    }
    spec->opaque[0] = spec->version; /* which is an out, too */
    spec->version = 0;
    spec->value_bytes = 0;
    spec->answered = spec->failed = spec->unknown = spec->unasked = spec->error_count = 0;
    op_init(op, client, &multicast_kind, 1, op_deadline_us(timeout_us));
    op->u.call.spec = NULL;
    op->u.call.receives = NULL;
    op->u.call.many = spec;
    op->u.call.hash = hash;
    op->u.place.lane = index_hash_lane(hash, client->lanes);
    op->u.place.bytes = spec->request;
    op->u.place.count = (uint32_t)spec->request_bytes;
    return NIGH_OK;
}

nigh_status nigh_multicast(nigh_client *client, nigh_multicast_spec *spec, uint64_t timeout_us)
{
    struct client_op op;
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    status = init(client, spec, timeout_us, &op);
    if (status != NIGH_OK) {
        return status;
    }
    status = op_run(&op);
    return status == NIGH_OK ? status : multicast_tell(&op, status);
}

nigh_status nigh_multicast_start(nigh_client *client, nigh_multicast_spec *spec,
                                 uint64_t timeout_us, nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if (op == NULL) {
        return error_set(client, NIGH_INVALID, "nigh_multicast_start: no op");
    }
    status = init(client, spec, timeout_us, op);
    return status == NIGH_OK ? error_note(client, calls_start(op)) : status;
}
