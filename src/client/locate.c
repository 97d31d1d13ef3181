/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the bytes of many objects are: one WHERE an id, some under way at a time, and their sums by
 * node. Nothing is pulled, and what changes meanwhile may be missed.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/client_internal.h"
#include "client/error.h"
#include "client/locate.h"
#include "client/op.h"

#define LOCATE_TRIES    20       /* for an id whose home, or lane, has too much to do */
#define LOCATE_PAUSE_NS 10000000 /* between them */

void locality_ask(const nigh_id *id, struct session_sqe *sqe)
{
    sqe->op = SESSION_OP_WHERE;
    memcpy(sqe->id, id->bytes, sizeof(sqe->id));
}

void locality_take(struct locality *locality, const struct session_cqe *cqe)
{
    uint32_t count = (uint32_t)min_u64(cqe->data_size, SESSION_PLACES);

    if (cqe->ref == 0 || cqe->ref > LIMIT_NODES) {
        locality->is_old = true;
        return;
    }
    locality->self = cqe->ref - 1;
    locality->found += count > 0 ? 1 : 0;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t rank = session_place(cqe, n);

        locality->objects[rank]++;
        locality->bytes[rank] += cqe->lease_offset;
    }
}

static int compare_locations(const void *a, const void *b)
{
    const nigh_location *left = a, *right = b;

    if (left->size_bytes != right->size_bytes) {
        return left->size_bytes > right->size_bytes ? -1 : 1;
    }
    if (left->objects != right->objects) {
        return left->objects > right->objects ? -1 : 1;
    }
    if (left->is_self != right->is_self) {
        return left->is_self != 0 ? -1 : 1;
    }
    return left->rank < right->rank ? -1 : 1;
}

size_t locality_rank(const struct locality *locality, nigh_location *places, size_t capacity)
{
    nigh_location all[LIMIT_NODES];
    size_t count = 0;

    for (uint32_t rank = 0; rank < LIMIT_NODES; rank++) {
        if (locality->objects[rank] > 0) {
            all[count++] = (nigh_location){.rank = rank,
                                           .is_self = rank == locality->self,
                                           .objects = locality->objects[rank],
                                           .size_bytes = locality->bytes[rank]};
        }
    }
    qsort(all, count, sizeof(all[0]), compare_locations);
    for (size_t n = 0; n < count && n < capacity; n++) {
        places[n] = all[n];
    }
    return count;
}

/* ---- nigh_locate ---------------------------------------------------------- */

/* One round: ids whose answer is still wanted. */
struct locate {
    const nigh_id *ids;
    uint8_t *settled; /* by id */
    struct locality sums;
    size_t busy;     /* ids that are to be asked again */
    nigh_status why; /* of the first that could not be asked for */
};

static uint32_t locate_lane(struct client_op *op, size_t step)
{
    const struct locate *locate = op->u.one.out;

    return locate->settled[step] != 0 ? OP_SKIP : client_lane_of(op->client, &locate->ids[step]);
}

static bool locate_has_room(struct client_op *op)
{
    return op->next - op->ended < LOCATE_AT_ONCE;
}

static bool locate_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    const struct locate *locate = op->u.one.out;

    locality_ask(&locate->ids[step], sqe);
    return true;
}

static bool locate_done(struct client_op *op, size_t step, uint8_t opcode,
                        const struct session_cqe *cqe)
{
    struct locate *locate = op->u.one.out;
    nigh_status status = (nigh_status)cqe->status;

    (void)opcode;
    if (status == NIGH_BUSY) {
        locate->busy++;
        return false;
    }
    locate->settled[step] = 1;
    if (status == NIGH_OK) {
        locality_take(&locate->sums, cqe);
    } else if (locate->why == NIGH_OK) {
        locate->why = status;
    }
    return false;
}

static const struct op_kind locate_kind = {
    .lane = locate_lane,
    .build = locate_build,
    .done = locate_done,
    .has_room = locate_has_room,
};

/* All that can be asked for; what stays busy is given up in the end. */
static nigh_status locate_all(nigh_client *client, struct locate *locate, size_t n)
{
    const struct timespec pause = {.tv_nsec = LOCATE_PAUSE_NS};
    nigh_status status = NIGH_OK;

    for (uint32_t tries = 0; tries < LOCATE_TRIES; tries++) {
        struct client_op op;

        locate->busy = 0;
        op_init(&op, client, &locate_kind, n, UINT64_MAX);
        op.u.one.out = locate;
        status = op_run(&op);
        if (status != NIGH_OK || locate->busy == 0) {
            break;
        }
        (void)nanosleep(&pause, NULL);
    }
    if (status == NIGH_OK && locate->busy > 0 && locate->why == NIGH_OK) {
        locate->why = NIGH_BUSY;
    }
    return status;
}

nigh_status nigh_locate(nigh_client *client, const nigh_id *ids, size_t n, nigh_location *places,
                        size_t capacity, size_t *count, size_t *missing)
{
    struct locate locate = {.ids = ids};
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return status;
    }
    if ((ids == NULL && n != 0) || count == NULL || (places == NULL && capacity != 0)) {
        return error_set(client, NIGH_INVALID,
                         "nigh_locate: no ids, no count, or no room for places");
    }
    locate.settled = calloc(n + 1, 1);
    if (locate.settled == NULL) {
        return error_set(client, NIGH_NO_RESOURCES, "no memory to note which ids were asked for");
    }
    status = locate_all(client, &locate, n);
    free(locate.settled);
    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if (locate.sums.is_old) {
        return error_set(client, NIGH_UNSUPPORTED, "this node is an older one: it knows no sizes");
    }
    *count = locality_rank(&locate.sums, places, capacity);
    if (missing != NULL) {
        *missing = n - locate.sums.found;
    }
    return error_note(client, locate.why);
}
