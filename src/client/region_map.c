/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions mapped into the process. Each chunk of the range is asked for on its own: through the
 * ring, whether it may be had, and over the socket its file. Chunks are mapped side by side, whole.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "client/error.h"
#include "client/region.h"
#include "client/socket.h"
#include "memory/memfd.h"

/* A range that is mapped. */
struct region_range {
    struct list_node place; /* in region->ranges */
    uint8_t *memory;        /* of all its chunks */
    uint64_t memory_bytes;
    void *address;      /* where the range begins */
    uint32_t count;     /* of chunks that the node gave */
    uint64_t numbers[]; /* of these, as the node has them */
};

/* What is to be mapped. */
struct region_wish {
    nigh_region *region;
    uint64_t offset, size, chunk_bytes;
    uint32_t first, chunks;
    bool writes;
    uint64_t deadline_us;
};

/* ---- unmapped ------------------------------------------------------------- */

static nigh_status tell_node(nigh_region *region, uint64_t number)
{
    nigh_region named = {.client = region->client, .number = number};
    struct client_op op;

    named.connection = region->connection;
    region_init(&op, region->client, &named, SESSION_REGION_UNMAP, LIMIT_NODE_GRACE_US);
    return op_run(&op);
}

/* What the node does not hear of ends with the handle, or with the connection. */
static nigh_status end_range(nigh_region *region, struct region_range *range, bool tells)
{
    nigh_status status = NIGH_OK;

    memfd_unmap(range->memory, range->memory_bytes);
    for (uint32_t n = 0; n < range->count && tells; n++) {
        nigh_status ended = tell_node(region, range->numbers[n]);

        if (status == NIGH_OK || status == NIGH_STALE) {
            status = ended != NIGH_OK ? ended : status;
        }
    }
    free(range);
    return status;
}

/* A child has none of the memory, and something else perhaps where it was. */
void region_unmap_all(nigh_region *region, bool is_child)
{
    struct list_node *node;

    while ((node = list_pop_front(&region->ranges)) != NULL) {
        struct region_range *range = container_of(node, struct region_range, place);

        if (is_child) {
            free(range);
        } else {
            (void)end_range(region, range, false);
        }
    }
}

static struct region_range *take_range(nigh_region *region, const void *address)
{
    struct region_range *found = NULL;

    client_lock(region->client);
    LIST_FOREACH(node, &region->ranges)
    {
        struct region_range *range = container_of(node, struct region_range, place);

        if (range->address == address) {
            found = range;
            break;
        }
    }
    if (found != NULL) {
        list_remove(&found->place);
    }
    client_unlock(region->client);
    return found;
}

nigh_status nigh_region_unmap(nigh_region *region, void *address)
{
    struct region_range *range;
    nigh_client *client;
    nigh_status status;

    if (region == NULL) {
        return NIGH_INVALID;
    }
    client = region->client;
    status = client_look(client);
    if (status == NIGH_FORKED) {
        return status;
    }
    range = address == NULL ? NULL : take_range(region, address);
    if (range == NULL) {
        return error_set(client, NIGH_INVALID,
                         "nigh_region_unmap: no range that is mapped of this handle begins there");
    }
    status = region_check(region, "nigh_region_unmap");
    if (status != NIGH_OK) {
        (void)end_range(region, range, false);
        return status;
    }
    status = end_range(region, range, true);
    if (status == NIGH_STALE) {
        return error_set(client, status,
                         "nigh_region_unmap: what was mapped was not the region's any more: rights "
                         "to it were revoked, it was freed, or its chunk was moved or lost");
    }
    return error_note_end(client, status);
}

/* ---- mapped --------------------------------------------------------------- */

static nigh_status tell_map(const struct client_op *op, nigh_status status)
{
    switch (status) {
    case NIGH_ELSEWHERE:
        return error_set(op->client, status,
                         "a chunk of the range lies at another node: only what lies at the "
                         "client's own is mapped (nigh_region_move)");
    case NIGH_UNSUPPORTED:
        return error_set(op->client, status,
                         "the region was not created with NIGH_REGION_MAPPABLE");
    case NIGH_INVALID:
        return error_set(op->client, status,
                         "the range is not all in the region, or the handle is one of a lock, "
                         "under which nothing is mapped");
    case NIGH_LIMIT:
        return error_set(op->client, status,
                         "a client has %d chunks mapped at most, and all of a node %d, of which "
                         "each user and client has its share",
                         LIMIT_SESSION_MAPS, LIMIT_REGION_MAPS);
    default: return region_explain(op, status);
    }
}

/* The file of a chunk that the node let this client map. */
static nigh_status place_chunk(const struct region_wish *wish, uint8_t *at, uint64_t number)
{
    nigh_client *client = wish->region->client;
    uint64_t file_bytes = 0;
    int fd = -1;
    nigh_status status;

    client_lock(client);
    status = socket_ask_map(client, number, &fd);
    /* Another thread may have found the next node meanwhile, whose numbers are of other maps. */
    if (status == NIGH_OK && wish->region->connection !=
                                 atomic_load_explicit(&client->connections, memory_order_relaxed)) {
        status = NIGH_NOT_FOUND;
    }
    client_unlock(client);
    if (status == NIGH_OK) {
        status = memfd_size(fd, &file_bytes);
    }
    if (status == NIGH_OK && file_bytes < wish->chunk_bytes) {
        status = NIGH_PROTOCOL;
    }
    if (status == NIGH_OK) {
        status = memfd_map_at(at, fd, wish->chunk_bytes, wish->writes ? MEMFD_WRITABLE : 0);
    }
    fd_close(&fd);
    if (status == NIGH_NOT_FOUND) {
        return error_set(client, NIGH_CLOSED, "nigh_region_map: the connection to the node ended");
    }
    if (status == NIGH_STALE) {
        return error_set(client, status,
                         "nigh_region_map: the region has just been changed: map "
                         "it again");
    }
    return status == NIGH_OK ? status : error_note_end(client, status);
}

static nigh_status map_chunk(const struct region_wish *wish, struct region_range *range)
{
    uint64_t begin = (uint64_t)(wish->first + range->count) * wish->chunk_bytes;
    uint64_t from = max_u64(begin, wish->offset);
    uint64_t to = min_u64(begin + wish->chunk_bytes, wish->offset + wish->size);
    uint8_t *at = range->memory + range->count * wish->chunk_bytes;
    struct client_op op;
    nigh_status status;
    uint64_t number;

    region_init(&op, wish->region->client, wish->region, SESSION_REGION_MAP, 0);
    op.deadline_us = wish->deadline_us;
    op.u.region.at = from;
    op.u.region.ref = to - from;
    op.u.region.flags = wish->writes ? SESSION_FLAG_WRITES : 0;
    op.u.region.out = &number;
    status = op_run(&op);
    if (status != NIGH_OK) {
        return tell_map(&op, status);
    }
    range->numbers[range->count++] = number;
    return place_chunk(wish, at, number);
}

static nigh_status map_range(const struct region_wish *wish, struct region_range **out)
{
    nigh_client *client = wish->region->client;
    uint64_t bytes = (uint64_t)wish->chunks * wish->chunk_bytes;
    struct region_range *range =
        calloc(1, sizeof(*range) + wish->chunks * sizeof(range->numbers[0]));
    void *memory = NULL;
    nigh_status status = range == NULL ? NIGH_NO_RESOURCES : memfd_reserve(bytes, &memory);

    if (status != NIGH_OK) {
        free(range);
        return error_set(client, NIGH_NO_RESOURCES,
                         "nigh_region_map: there is no address space for that");
    }
    range->memory = memory;
    range->memory_bytes = bytes;
    range->address = range->memory + (wish->offset - (uint64_t)wish->first * wish->chunk_bytes);
    for (uint32_t n = 0; n < wish->chunks && status == NIGH_OK; n++) {
        status = map_chunk(wish, range);
    }
    if (status != NIGH_OK) {
        (void)end_range(wish->region, range, true);
        return status;
    }
    *out = range;
    return NIGH_OK;
}

/* What the range is of, as the region is now. */
static nigh_status look(struct region_wish *wish)
{
    nigh_client *client = wish->region->client;
    nigh_region_info info = {.struct_size = sizeof(info)};
    struct client_op now = {.deadline_us = wish->deadline_us};
    nigh_status status = nigh_region_stat(wish->region, op_remaining_us(&now), &info);

    if (status != NIGH_OK) {
        return status;
    }
    if ((info.flags & NIGH_REGION_MAPPABLE) == 0) {
        return error_set(client, NIGH_UNSUPPORTED,
                         "nigh_region_map: the region was not created with NIGH_REGION_MAPPABLE");
    }
    if (wish->size == 0 && wish->offset < info.size) {
        wish->size = info.size - wish->offset;
    }
    if (wish->size == 0 || wish->offset >= info.size || wish->size > info.size - wish->offset) {
        return error_set(client, NIGH_INVALID, "nigh_region_map: the range is not in the region");
    }
    if (info.chunk_size == 0 || info.chunk_size > LIMIT_REGION_CHUNK_BYTES ||
        (info.size - 1) / info.chunk_size >= LIMIT_REGION_CHUNKS) {
        return error_note(client, NIGH_PROTOCOL);
    }
    wish->chunk_bytes = info.chunk_size;
    wish->first = (uint32_t)(wish->offset / info.chunk_size);
    wish->chunks = (uint32_t)((wish->offset + wish->size - 1) / info.chunk_size) - wish->first + 1;
    return NIGH_OK;
}

nigh_status nigh_region_map(nigh_region *region, uint64_t offset, uint64_t size, uint32_t access,
                            uint64_t timeout_us, void **address)
{
    struct region_wish wish = {.region = region,
                               .offset = offset,
                               .size = size,
                               .writes = (access & NIGH_REGION_WRITE) != 0,
                               .deadline_us = op_deadline_us(timeout_us)};
    nigh_status status = region_check(region, "nigh_region_map");
    struct region_range *range = NULL;

    if (status != NIGH_OK) {
        return status;
    }
    if (address == NULL ||
        (access != NIGH_REGION_READ && access != (NIGH_REGION_READ | NIGH_REGION_WRITE))) {
        return error_set(region->client, NIGH_INVALID,
                         "nigh_region_map: it is mapped to be read, or to be read and written");
    }
    status = look(&wish);
    if (status == NIGH_OK) {
        status = map_range(&wish, &range);
    }
    if (status != NIGH_OK) {
        return status;
    }
    client_lock(region->client);
    list_push_back(&region->ranges, &range->place);
    client_unlock(region->client);
    *address = range->address;
    return NIGH_OK;
}
