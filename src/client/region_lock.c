/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of regions: each that is held is a handle of its own, under which the node presents it. And
 * barriers. */
#include "client/error.h"
#include "client/places.h"
#include "client/region.h"

_Static_assert((uint32_t)NIGH_REGION_SHARED == SESSION_REGION_SHARED &&
                   (uint32_t)NIGH_REGION_EXCLUSIVE == SESSION_REGION_EXCLUSIVE,
               "the modes are public");

static nigh_status lock_init(struct client_op *op, nigh_region *region, uint64_t number,
                             nigh_region_mode mode, uint64_t term_us, uint64_t timeout_us,
                             nigh_region **held)
{
    struct session_region_lock said = {
        .number = number, .term_us = term_us, .mode = (uint32_t)mode};
    nigh_status status = region_check(region, "nigh_region_lock");

    if (status != NIGH_OK) {
        return status;
    }
    if (mode != NIGH_REGION_SHARED && mode != NIGH_REGION_EXCLUSIVE) {
        return error_set(region->client, NIGH_INVALID,
                         "nigh_region_lock: a mode is NIGH_REGION_SHARED or NIGH_REGION_EXCLUSIVE, "
                         "not %u",
                         (unsigned)mode);
    }
    if (held == NULL) {
        return error_set(region->client, NIGH_INVALID,
                         "nigh_region_lock: no place for the handle (held is NULL)");
    }
    region_init(op, region->client, region, SESSION_REGION_LOCK, timeout_us);
    region_ask(op, &said, sizeof(said));
    return region_opens(op, held);
}

nigh_status nigh_region_lock(nigh_region *region, uint64_t number, nigh_region_mode mode,
                             uint64_t term_us, uint64_t timeout_us, nigh_region **held)
{
    struct client_op op;
    nigh_status status = lock_init(&op, region, number, mode, term_us, timeout_us, held);

    return status == NIGH_OK ? region_run(&op) : status;
}

nigh_status nigh_region_lock_start(nigh_region *region, uint64_t number, nigh_region_mode mode,
                                   uint64_t term_us, uint64_t timeout_us, nigh_region **held,
                                   nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = region_check_op(region, given, "nigh_region_lock_start");

    if (status == NIGH_OK) {
        status = lock_init(op, region, number, mode, term_us, timeout_us, held);
    }
    return status == NIGH_OK ? error_note(region->client, calls_start(op)) : status;
}

/* Of a lock, held or lost; any other handle stays as it is. */
static nigh_status check_unlock(const nigh_region *held)
{
    if (held->holds_lock || client_look(held->client) == NIGH_FORKED) {
        return NIGH_OK;
    }
    return error_set(held->client, NIGH_INVALID,
                     "nigh_region_unlock: the handle is not one that nigh_region_lock gave: it "
                     "holds no lock, and stays open");
}

nigh_status nigh_region_unlock(nigh_region *held)
{
    nigh_client *client = held == NULL ? NULL : held->client;
    nigh_status status = held == NULL ? NIGH_INVALID : check_unlock(held);

    if (status != NIGH_OK) {
        return status;
    }
    status = region_put(held);
    if (status == NIGH_CLOSED && client_check(client) == NIGH_OK) {
        return error_set(client, status,
                         "nigh_region_unlock: the handle, and the lock, went with a connection to "
                         "the node");
    }
    if (status == NIGH_LOCK_LOST) {
        return error_set(client, status, "nigh_region_unlock: " REGION_LOCK_LOST_TEXT);
    }
    return status == NIGH_OK ? status : error_note(client, status);
}

nigh_status nigh_region_unlock_start(nigh_region *held, nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_client *client = held == NULL ? NULL : held->client;
    nigh_status status = held == NULL ? NIGH_INVALID : check_unlock(held);

    if (status != NIGH_OK) {
        return status;
    }
    if (op == NULL) {
        return error_set(client, NIGH_INVALID, "nigh_region_unlock_start: no op");
    }
    status = region_put_init(op, held);
    return error_note(client, status == NIGH_OK ? op_start(op) : status);
}

static nigh_status barrier_init(struct client_op *op, nigh_region *region, uint64_t number,
                                uint32_t parties, uint64_t timeout_us)
{
    nigh_status status = region_check(region, "nigh_region_barrier");

    if (status != NIGH_OK) {
        return status;
    }
    if (parties == 0) {
        return error_set(region->client, NIGH_INVALID, "nigh_region_barrier: of no parties");
    }
    region_init(op, region->client, region, SESSION_REGION_BARRIER, timeout_us);
    op->u.region.at = number;
    op->u.region.ref = parties;
    return NIGH_OK;
}

nigh_status nigh_region_barrier(nigh_region *region, uint64_t number, uint32_t parties,
                                uint64_t timeout_us)
{
    struct client_op op;
    nigh_status status = barrier_init(&op, region, number, parties, timeout_us);

    return status == NIGH_OK ? region_run(&op) : status;
}

nigh_status nigh_region_barrier_start(nigh_region *region, uint64_t number, uint32_t parties,
                                      uint64_t timeout_us, nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = region_check_op(region, given, "nigh_region_barrier_start");

    if (status == NIGH_OK) {
        status = barrier_init(op, region, number, parties, timeout_us);
    }
    return status == NIGH_OK ? error_note(region->client, op_start(op)) : status;
}
