/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node's memory in this process: two windows of reserved address space, one for reading and one
 * for writing, into which extents are mapped when first needed.
 *
 * Views point into the read window, whose descriptors are read-only: not even mprotect makes them
 * writable. Writers point into the write window. An extent that was mapped stays.
 */
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/client_internal.h"
#include "client/extents.h"
#include "client/op.h"
#include "client/socket.h"
#include "memory/memfd.h"

/* Counts an extent among the mapped ones: its row, and those of the extents before it, grow. */
static void extents_count_in(_Atomic uint16_t *mapped, uint32_t number)
{
    uint32_t row = 1;

    if (number + 1 < LIMIT_EXTENTS) {
        row += atomic_load_explicit(&mapped[number + 1], memory_order_relaxed);
    }
    atomic_store_explicit(&mapped[number], (uint16_t)row, memory_order_release);
    while (number > 0 && atomic_load_explicit(&mapped[number - 1], memory_order_relaxed) != 0) {
        number--;
        row++;
        atomic_store_explicit(&mapped[number], (uint16_t)row, memory_order_release);
    }
}

nigh_status extents_place(nigh_client *client, uint32_t number, bool writable, int fd)
{
    uint8_t *window = writable ? client->write_arena : client->read_arena;
    _Atomic uint16_t *mapped = writable ? client->write_mapped : client->read_mapped;
    uint64_t size_bytes;
    nigh_status status = memfd_size(fd, &size_bytes);

    if (status == NIGH_OK && size_bytes != client->extent_bytes) {
        status = NIGH_PROTOCOL;
    }
    if (status == NIGH_OK) {
        /* Touched now when it will be written: a put of 4 MiB spends six times as long on faults
         * as on copying. Readers fault in what they look at, 16 pages at a time. */
        status = memfd_map_at(window + (uint64_t)number * client->extent_bytes, fd, size_bytes,
                              writable ? MEMFD_WRITABLE | MEMFD_PREFAULT : 0);
    }
    fd_close(&fd);
    if (status == NIGH_OK) {
        extents_count_in(mapped, number);
    }
    return status;
}

/*
 * Who reads more and more extents has those behind asked for, too: a trip to the node and back
 * takes as long as mapping ten. Who is refused some asks for half as many next time. What is
 * written is touched when it is mapped, and therefore asked for when it is needed.
 */
static void extents_learn(nigh_client *client, const struct extents_ask *ask)
{
    if (ask->mapped < ask->count) {
        client->read_ahead = ask->count / 2;
    } else if (ask->count >= client->read_ahead) {
        client->read_ahead = min_u32(ask->count * 2, LIMIT_ASK_BATCH);
    }
}

/* An extent that is not mapped, with those behind it that are not either. */
static nigh_status extents_fetch(nigh_client *client, const _Atomic uint16_t *mapped,
                                 uint32_t number, bool writable)
{
    struct extents_ask ask = {.first = number, .count = 1, .writable = writable};
    uint32_t most = writable ? 1 : min_u32(max_u32(client->read_ahead, 1), LIMIT_EXTENTS - number);
    nigh_status status;

    while (ask.count < most &&
           atomic_load_explicit(&mapped[number + ask.count], memory_order_relaxed) == 0) {
        ask.count++;
    }
    ask.most = ask.count;
    status = socket_ask_extents(client, &ask);
    if (status == NIGH_OK && !writable) {
        extents_learn(client, &ask);
    }
    return status == NIGH_OK ? ask.statuses[0] : status;
}

nigh_status extents_map_locked(nigh_client *client, uint64_t offset, uint64_t bytes, bool writable)
{
    _Atomic uint16_t *mapped = writable ? client->write_mapped : client->read_mapped;
    uint64_t first, last;

    if (offset >= client->arena_bytes || bytes > client->arena_bytes - offset) {
        return NIGH_PROTOCOL;
    }
    if (writable && client->write_arena == NULL) {
        return NIGH_DENIED;
    }
    first = offset >> client->extent_shift;
    last = (offset + (bytes == 0 ? 0 : bytes - 1)) >> client->extent_shift;
    for (uint64_t number = first; number <= last; number++) {
        nigh_status status = NIGH_OK;

        if (atomic_load_explicit(&mapped[number], memory_order_relaxed) == 0) {
            status = extents_fetch(client, mapped, (uint32_t)number, writable);
        }
        if (status != NIGH_OK) {
            return status;
        }
    }
    return NIGH_OK;
}

nigh_status extents_map(nigh_client *client, uint64_t offset, uint64_t bytes, bool writable)
{
    nigh_status status;

    client_lock(client);
    status = extents_map_locked(client, offset, bytes, writable);
    client_unlock(client);
    return status;
}

/* Extents of the uid, wherever they are: the node refuses those that are not. */
static void extents_find(nigh_client *client, uint64_t wanted)
{
    uint64_t found = 0;

    for (uint32_t first = 0; first < LIMIT_EXTENTS && found < wanted; first += LIMIT_ASK_BATCH) {
        struct extents_ask ask = {
            .first = first,
            .count = LIMIT_ASK_BATCH,
            .most = (uint32_t)min_u64(wanted - found, LIMIT_ASK_BATCH),
            .writable = true,
        };

        if (socket_ask_extents(client, &ask) != NIGH_OK) {
            return;
        }
        found += ask.mapped;
    }
}

static void extents_take_reserved(nigh_client *client, uint32_t lane, const struct session_cqe *cqe,
                                  void *out)
{
    (void)client;
    (void)lane;
    *(uint64_t *)out += cqe->data_size;
}

/*
 * A hypervisor with page tables of its own in place of the processor's fills them when the process
 * itself looks at a page, not when the kernel has filled in its own: the first copy to a page would
 * still cost ten times as much as the second.
 */
static void extents_touch(nigh_client *client)
{
    for (uint64_t number = 0; number < LIMIT_EXTENTS; number++) {
        if (atomic_load_explicit(&client->write_mapped[number], memory_order_relaxed) != 0) {
            memfd_touch(client->write_arena + number * client->extent_bytes, client->extent_bytes,
                        false);
        }
    }
}

/* Has the lanes own `bytes` for this uid, and maps as much of what the uid may write. */
static void extents_reserve(nigh_client *client, uint64_t bytes)
{
    struct client_op op;
    uint64_t each = bytes / client->lanes + (bytes % client->lanes != 0);
    uint64_t has = 0;

    op_init_all(&op, client, SESSION_OP_RESERVE, each, extents_take_reserved, &has);
    (void)op_run(&op);
    has = min_u64(has, max_u64(each * client->lanes, each));
    client_lock(client);
    extents_find(client, (has + client->extent_bytes - 1) >> client->extent_shift);
    extents_touch(client);
    client_unlock(client);
}

void extents_prefault(nigh_client *client, uint64_t bytes)
{
    struct client_op op;

    /* A node that gives less, or nothing, makes puts slower, not impossible. */
    if (bytes != 0) {
        extents_reserve(client, bytes);
    }
    /* The slabs that the first puts will be cut from; ring.c keeps what is granted. Nothing is
     * evicted for it: who opens may never put. */
    op_init_all(&op, client, SESSION_OP_LEASE, LIMIT_LEASE_BYTES_MAX, NULL, NULL);
    op.u.all.flags = SESSION_FLAG_NO_EVICT;
    (void)op_run(&op);
    client_lock(client);
    for (uint32_t i = 0; i < client->lanes; i++) {
        const struct client_lease *lease = &client->lane[i].leases[0];

        if (lease->bytes != 0) {
            (void)extents_map_locked(client, lease->offset, lease->bytes, true);
        }
    }
    client_unlock(client);
}

void extents_unmap(nigh_client *client)
{
    if (client->read_arena != NULL) {
        memfd_unmap(client->read_arena, client->arena_bytes);
    }
    if (client->write_arena != NULL) {
        memfd_unmap(client->write_arena, client->arena_bytes);
    }
}
