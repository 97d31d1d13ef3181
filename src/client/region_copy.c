/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of regions that the node fills or copies by itself: the caller has none of them. */
#include "client/error.h"
#include "client/places.h"
#include "client/region.h"

static void question_init(struct client_op *op, const void *question, uint32_t count,
                          uint64_t offset, uint64_t size)
{
    region_ask(op, question, count);
    op->u.region.at = offset;
    op->u.region.ref = size;
    if (size == 0) {
        op->count = 0;
    }
}

static nigh_status fill_init(struct client_op *op, nigh_region *region, uint64_t offset,
                             uint8_t byte, uint64_t size, uint64_t timeout_us)
{
    nigh_status status = region_check(region, "nigh_region_memset");

    if (status != NIGH_OK) {
        return status;
    }
    if (size > UINT64_MAX - offset) {
        return error_set(region->client, NIGH_INVALID,
                         "nigh_region_memset: no region reaches to offset and size: together they "
                         "are beyond 2^64");
    }
    region_init(op, region->client, region, SESSION_REGION_FILL, timeout_us);
    question_init(op, &byte, sizeof(byte), offset, size);
    return NIGH_OK;
}

nigh_status nigh_region_memset(nigh_region *region, uint64_t offset, uint8_t byte, uint64_t size,
                               uint64_t timeout_us)
{
    struct client_op op;
    nigh_status status = fill_init(&op, region, offset, byte, size, timeout_us);

    return status == NIGH_OK ? region_run(&op) : status;
}

nigh_status nigh_region_memset_start(nigh_region *region, uint64_t offset, uint8_t byte,
                                     uint64_t size, uint64_t timeout_us, nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = region_check_op(region, given, "nigh_region_memset_start");

    if (status == NIGH_OK) {
        status = fill_init(op, region, offset, byte, size, timeout_us);
    }
    return status == NIGH_OK ? error_note(region->client, calls_start(op)) : status;
}

static nigh_status copy_init(struct client_op *op, nigh_region *to, uint64_t to_offset,
                             nigh_region *from, uint64_t from_offset, uint64_t size,
                             uint64_t timeout_us)
{
    struct session_region_source source = {.offset = from_offset};
    nigh_status status = region_check(to, "nigh_region_copy");

    if (status == NIGH_OK) {
        status = region_check(from, "nigh_region_copy");
    }
    if (status != NIGH_OK) {
        return status;
    }
    if (to->client != from->client) {
        return error_set(to->client, NIGH_INVALID,
                         "nigh_region_copy: the handles are of two clients");
    }
    if (size > UINT64_MAX - to_offset || size > UINT64_MAX - from_offset) {
        return error_set(to->client, NIGH_INVALID,
                         "nigh_region_copy: no region reaches to offset and size: together they "
                         "are beyond 2^64");
    }
    source.number = from->number;
    region_init(op, to->client, to, SESSION_REGION_COPY, timeout_us);
    question_init(op, &source, sizeof(source), to_offset, size);
    return NIGH_OK;
}

nigh_status nigh_region_copy(nigh_region *to, uint64_t to_offset, nigh_region *from,
                             uint64_t from_offset, uint64_t size, uint64_t timeout_us)
{
    struct client_op op;
    nigh_status status = copy_init(&op, to, to_offset, from, from_offset, size, timeout_us);

    return status == NIGH_OK ? region_run(&op) : status;
}

nigh_status nigh_region_copy_start(nigh_region *to, uint64_t to_offset, nigh_region *from,
                                   uint64_t from_offset, uint64_t size, uint64_t timeout_us,
                                   nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = region_check_op(to, given, "nigh_region_copy_start");

    if (status == NIGH_OK) {
        status = copy_init(op, to, to_offset, from, from_offset, size, timeout_us);
    }
    return status == NIGH_OK ? error_note(to->client, calls_start(op)) : status;
}
