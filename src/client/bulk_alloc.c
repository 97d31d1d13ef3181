/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for calls that is allocated: by the node, as a file that both have mapped (the node has no
 * other way to memory of this process), or in an embedded node's process, where it is memory like
 * any other.
 *
 * A file is asked for through lane 0's ring, and its descriptor over the socket. It goes with the
 * connection: what was made over another is nothing to the node any more, and unmapped when its
 * handle is closed.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "client/bulk.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/op.h"
#include "client/socket.h"
#include "memory/memfd.h"

nigh_status bulk_tell_gone(nigh_client *client)
{
    return error_set(client, NIGH_CLOSED,
                     "the memory went with the connection to the node that made it: close its "
                     "handle, and allocate anew");
}

/* ---- memory --------------------------------------------------------------- */

/* Like a file: a child does not have it. */
static nigh_status map_own(nigh_bulk *bulk)
{
    void *memory =
        mmap(NULL, bulk->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        return NIGH_NO_RESOURCES;
    }
    bulk->memory = memory;
    return madvise(memory, bulk->memory_bytes, MADV_DONTFORK) == 0 ? NIGH_OK : NIGH_NO_RESOURCES;
}

static nigh_status make_own(nigh_bulk *bulk)
{
    const struct session_driver *driver = bulk->client->driver;
    struct session_memory piece = {
        .bytes = bulk->size, .session = bulk->client->session, .access = bulk->access};
    nigh_status status = map_own(bulk);

    if (status != NIGH_OK) {
        return status;
    }
    piece.address = bulk->memory;
    return (nigh_status)driver->memory_add(driver->context, &piece, &bulk->number);
}

/* The node says which connection this is by having the file: the counter is read with its answer.
 */
static nigh_status fetch_file(nigh_bulk *bulk, int *fd)
{
    nigh_client *client = bulk->client;
    nigh_status status;

    client_lock(client);
    status = socket_ask_bulk(client, bulk->number, fd);
    bulk->connection = atomic_load_explicit(&client->connections, memory_order_relaxed);
    client_unlock(client);
    return status;
}

static nigh_status map_file(nigh_bulk *bulk)
{
    uint64_t file_bytes = 0;
    int fd = -1;
    nigh_status status = fetch_file(bulk, &fd);

    if (status == NIGH_OK) {
        status = memfd_size(fd, &file_bytes);
    }
    if (status == NIGH_OK && file_bytes < bulk->memory_bytes) {
        status = NIGH_PROTOCOL;
    }
    if (status == NIGH_OK) {
        status = memfd_map(fd, bulk->memory_bytes, MEMFD_WRITABLE | MEMFD_PREFAULT, &bulk->memory);
    }
    fd_close(&fd);
    return status;
}

static nigh_status try_file(nigh_bulk *bulk)
{
    struct session_sqe sqe = {
        .op = SESSION_OP_BULK_MAKE, .meta_size = bulk->access, .data_size = bulk->size};
    struct session_cqe cqe;
    struct client_op op;
    nigh_status status;

    op_init_one(&op, bulk->client, 0, &sqe, &cqe);
    status = op_run(&op);
    if (status != NIGH_OK) {
        return status;
    }
    bulk->number = cqe.generation;
    status = map_file(bulk);
    if (status != NIGH_OK) {
        (void)bulk_file_end(bulk, 0);
    }
    return status;
}

/* A number that the node does not know is of a connection that ended meanwhile: once more. */
static nigh_status make_file(nigh_bulk *bulk)
{
    nigh_status status = try_file(bulk);

    if (status == NIGH_NOT_FOUND) {
        status = try_file(bulk);
    }
    return status == NIGH_NOT_FOUND ? NIGH_CLOSED : status;
}

static nigh_status tell(nigh_client *client, nigh_status status)
{
    switch (status) {
    case NIGH_LIMIT:
        return error_set(client, status,
                         "nigh_bulk_alloc: a client has %d handles at most, and a node %d",
                         LIMIT_SESSION_BULKS, LIMIT_BULKS);
    case NIGH_QUOTA:
        return error_set(client, status,
                         "nigh_bulk_alloc: it is more than the node's --session-quota, or than a "
                         "uid's half of its --call-memory");
    case NIGH_OUT_OF_MEMORY:
        return error_set(client, status,
                         "nigh_bulk_alloc: the node's --call-memory is used up, or the machine has "
                         "no more");
    case NIGH_UNSUPPORTED:
        return error_set(client, status,
                         "nigh_bulk_alloc: this node makes no memory for calls: install a newer "
                         "one");
    case NIGH_DENIED:
        return error_set(client, status, "nigh_bulk_alloc: this client was opened read-only");
    case NIGH_CLOSED:
        return error_set(client, status,
                         "nigh_bulk_alloc: the connection to the node ended meanwhile, twice");
    default: return error_note_end(client, status);
    }
}

nigh_status nigh_bulk_alloc(nigh_client *client, size_t size, uint32_t access, void **memory,
                            nigh_bulk **out)
{
    nigh_status status = client_check(client);
    uint64_t bytes;
    nigh_bulk *bulk;

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if (memory == NULL || out == NULL || size == 0 || access == 0 ||
        (access & ~(NIGH_BULK_READ | NIGH_BULK_WRITE)) != 0 ||
        !checked_align_up_u64(size, SESSION_PAGE, &bytes)) {
        return error_set(client, NIGH_INVALID, "nigh_bulk_alloc: no size, or no access");
    }
    bulk = calloc(1, sizeof(*bulk));
    if (bulk == NULL) {
        return error_note(client, NIGH_NO_RESOURCES);
    }
    *bulk = (nigh_bulk){.client = client, .size = size, .access = access, .memory_bytes = bytes};
    status = bulk_is_file(bulk) ? make_file(bulk) : make_own(bulk);
    if (status != NIGH_OK) {
        bulk_handle_drop(bulk);
        return tell(client, status);
    }
    bulk_put_in_list(bulk);
    *memory = bulk->memory;
    *out = bulk;
    return NIGH_OK;
}

/* ---- waiting -------------------------------------------------------------- */

static uint32_t wait_lane(struct client_op *op, size_t step)
{
    (void)op;
    return (uint32_t)step;
}

static bool wait_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    *sqe = op->u.one.sqe;
    sqe->argument = op_remaining_us(op);
    return true;
}

static bool wait_done(struct client_op *op, size_t step, uint8_t opcode,
                      const struct session_cqe *cqe)
{
    (void)step;
    (void)opcode;
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
    }
    return false;
}

static const struct op_kind wait_kind = {
    .lane = wait_lane,
    .build = wait_build,
    .done = wait_done,
    .waits = true,
};

static nigh_status run_wait(const nigh_bulk *bulk, uint32_t lanes, uint8_t flags,
                            uint64_t timeout_us)
{
    struct client_op op;

    op_init(&op, bulk->client, &wait_kind, lanes, op_deadline_us(timeout_us));
    op.u.one.sqe = (struct session_sqe){.op = SESSION_OP_BULK_WAIT, .flags = flags};
    memcpy(op.u.one.sqe.id, &bulk->number, sizeof(bulk->number));
    return op_run(&op);
}

/* Each lane is asked, and answers behind the calls that it was given before: those that were
 * cancelled since, too. */
nigh_status bulk_file_wait(const nigh_bulk *bulk, uint64_t timeout_us)
{
    nigh_client *client = bulk->client;
    nigh_status status = client_check(client);

    if (status == NIGH_OK && bulk_is_there(bulk)) {
        status = run_wait(bulk, client->lanes, 0, timeout_us);
    }
    if (!bulk_is_there(bulk) || status == NIGH_NOT_FOUND) {
        return bulk_tell_gone(client);
    }
    return error_note_end(client, status);
}

/* With its connection it is nothing to the node any more. */
static bool is_gone(const nigh_bulk *bulk, nigh_status status)
{
    return status == NIGH_NOT_FOUND || status == NIGH_NODE_LOST || !bulk_is_there(bulk) ||
           atomic_load_explicit(&bulk->client->state, memory_order_relaxed) != CLIENT_ATTACHED;
}

nigh_status bulk_file_end(const nigh_bulk *bulk, uint64_t timeout_us)
{
    nigh_status status = client_check(bulk->client);

    if (status == NIGH_OK && bulk_is_there(bulk)) {
        status = run_wait(bulk, 1, SESSION_FLAG_END, timeout_us);
    }
    if (status == NIGH_TIMEOUT || status == NIGH_BUSY) {
        return status;
    }
    return is_gone(bulk, status) ? NIGH_OK : status;
}
