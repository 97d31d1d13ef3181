/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of memory that is there already: a memory file, which goes to the node over the socket,
 * and is a region's by the question that names it; or, at an embedded node, memory of this process.
 */
#include <string.h>

#include "client/error.h"
#include "client/region.h"
#include "client/socket.h"
#include "memory/memfd.h"

_Static_assert(NIGH_REGION_DONATED == SESSION_REGION_DONATED, "it is public");

static nigh_status tell(const struct client_op *op, nigh_status status)
{
    switch (status) {
    case NIGH_CLOSED:
        return error_set(op->client, status,
                         "nigh_region_donate: the connection to the node ended meanwhile");
    case NIGH_INVALID:
        return error_set(op->client, status,
                         "nigh_region_donate: not valid: a name, a size or rights that cannot be, "
                         "or memory that is not all there, or may not be written");
    default: return region_explain(op, status);
    }
}

static nigh_status check(nigh_client *client, const nigh_region_spec *spec, const void *out)
{
    nigh_status status =
        region_check_open(client, spec == NULL ? NULL : spec->name, out, "nigh_region_donate");

    if (status == NIGH_OK) {
        status = region_check_spec(client, spec, "nigh_region_donate");
    }
    if (status != NIGH_OK) {
        return status;
    }
    if (spec->struct_size < sizeof(*spec) || spec->where != NIGH_REGION_LOCAL || spec->rank != 0 ||
        spec->chunk_size != 0 || spec->flags != 0 || spec->near != NULL) {
        return error_set(client, NIGH_INVALID,
                         "nigh_region_donate: the memory is where it is, in one chunk, and nobody "
                         "else maps it: a name, a size and rights are all there is to say; and set "
                         "struct_size to sizeof(nigh_region_spec)");
    }
    return NIGH_OK;
}

/* `which` is what `how` says: a number, of this connection, or an address, of any (NULL). */
static nigh_status create(nigh_client *client, const nigh_region_spec *spec, uint32_t how,
                          uint64_t which, const uint32_t *connection, uint64_t deadline_us,
                          struct client_op *op)
{
    uint8_t question[sizeof(struct session_region_make) + LIMIT_REGION_NAME_BYTES];
    struct session_region_make make = {.size_bytes = spec->size,
                                       .chunk_bytes = which,
                                       .where = SESSION_REGION_LOCAL | how,
                                       .group_rights = spec->group_access,
                                       .other_rights = spec->other_access};
    size_t name_bytes = strlen(spec->name);

    memcpy(question, &make, sizeof(make));
    memcpy(question + sizeof(make), spec->name, name_bytes);
    region_init(op, client, NULL, SESSION_REGION_CREATE, 0);
    op->deadline_us = deadline_us;
    op->u.region.connection = connection;
    op->u.place.bytes = question;
    op->u.place.count = (uint32_t)(sizeof(make) + name_bytes);
    return op_run(op);
}

/* The region is there: what would say that it is not, and that its memory is free, is not said. */
static nigh_status open_created(const struct client_op *op, const char *name, nigh_region **region)
{
    nigh_status status =
        region_open_named(op->client, name, NIGH_REGION_ALL, op_remaining_us(op), region);

    switch (status) {
    case NIGH_INVALID:
    case NIGH_EXISTS:
    case NIGH_UNSUPPORTED:
    case NIGH_DENIED:
    case NIGH_OVERLOADED:
        return error_set(op->client, NIGH_BUSY,
                         "nigh_region_donate: the region was created, and could not be opened now "
                         "(%s): open it, or have it freed",
                         nigh_status_name(status));
    default: return status;
    }
}

static nigh_status offer(nigh_client *client, int fd, uint64_t bytes, struct donated *donated)
{
    nigh_status status;

    client_lock(client);
    status = socket_donate(client, fd, bytes, donated);
    client_unlock(client);
    switch (status) {
    case NIGH_UNSUPPORTED:
        return error_set(client, status,
                         "nigh_region_donate: the node is older than this libnigh, or one of a "
                         "cluster whose nodes agree on nothing (nighd --state)");
    case NIGH_OVERLOADED:
        return error_set(client, status,
                         "nigh_region_donate: %d others of this client are under way",
                         LIMIT_SESSION_DONATIONS);
    case NIGH_OUT_OF_MEMORY:
        return error_set(client, status,
                         "nigh_region_donate: the node has not so much left of its "
                         "--region-memory, for which this counts, too");
    case NIGH_LIMIT:
        if (!donated->is_answered) {
            return error_set(client, status,
                             "nigh_region_donate: this user has too many descriptors in messages "
                             "that nobody has read (ulimit -n)");
        }
        return error_set(client, status,
                         "nigh_region_donate: the node has %d chunks that are files, which is all "
                         "there may be",
                         LIMIT_REGION_FILES);
    case NIGH_NO_RESOURCES:
        return error_set(client, status,
                         donated->is_answered
                             ? "nigh_region_donate: the node may not have one more descriptor, or "
                               "is closing too many that clients sent: try again"
                             : "nigh_region_donate: the system has no room for the message");
    default: return status == NIGH_OK ? status : error_note_end(client, status);
    }
}

/* The question may have come to the node, or not. */
static void take_back(nigh_client *client, const struct donated *donated)
{
    client_lock(client);
    socket_donate_drop(client, donated);
    client_unlock(client);
}

nigh_status nigh_region_donate(nigh_client *client, const nigh_region_spec *spec, int fd,
                               uint64_t timeout_us, nigh_region **region)
{
    uint64_t deadline_us = op_deadline_us(timeout_us);
    nigh_status status = check(client, spec, region);
    struct donated donated;
    struct client_op op;

    if (status != NIGH_OK) {
        return status;
    }
    if (spec->size == 0 || spec->size % LIMIT_REGION_UNIT_BYTES != 0 ||
        spec->size > LIMIT_REGION_CHUNK_BYTES || memfd_check_given(fd, spec->size) != NIGH_OK) {
        return error_set(client, NIGH_INVALID,
                         "nigh_region_donate: the descriptor is to be one of a memfd, open to read "
                         "and write, of just that size, which is a multiple of %d and at most a "
                         "TiB, of ordinary pages, with F_SEAL_SHRINK and F_SEAL_GROW, and without "
                         "F_SEAL_WRITE and F_SEAL_FUTURE_WRITE",
                         LIMIT_REGION_UNIT_BYTES);
    }
    status = offer(client, fd, spec->size, &donated);
    if (status != NIGH_OK) {
        return status;
    }
    status = create(client, spec, SESSION_REGION_DONATED, donated.number, &donated.connection,
                    deadline_us, &op);
    if (status != NIGH_OK) {
        take_back(client, &donated);
        return tell(&op, status);
    }
    return open_created(&op, spec->name, region);
}

nigh_status nigh_region_donate_memory(nigh_client *client, const nigh_region_spec *spec,
                                      void *memory, uint64_t timeout_us, nigh_region **region)
{
    uint64_t deadline_us = op_deadline_us(timeout_us);
    uint64_t address = (uint64_t)(uintptr_t)memory;
    nigh_status status = check(client, spec, region);
    struct client_op op;

    if (status != NIGH_OK) {
        return status;
    }
    if (address == 0 || address % sizeof(uint64_t) != 0 || spec->size == 0 ||
        spec->size > LIMIT_REGION_CHUNK_BYTES) {
        return error_set(client, NIGH_INVALID,
                         "nigh_region_donate_memory: the memory begins at a multiple of 8, and has "
                         "1 byte to a TiB");
    }
    if (client->driver == NULL) {
        return error_set(client, NIGH_UNSUPPORTED,
                         "nigh_region_donate_memory: only for clients of an embedded node: "
                         "nigh_region_donate, of a memfd, is for all");
    }
    status = create(client, spec, SESSION_REGION_OWN, address, NULL, deadline_us, &op);
    return status == NIGH_OK ? open_created(&op, spec->name, region) : tell(&op, status);
}
