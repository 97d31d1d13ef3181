/* SPDX-License-Identifier: Apache-2.0 */
/* What bulk.c (handles of memory, and moves) and bulk_alloc.c (memory that the node makes) share.
 * For no one else. */
#ifndef CLIENT_BULK_H
#define CLIENT_BULK_H

#include "client/client_internal.h"

struct nigh_bulk {
    nigh_client *client;
    struct list_node place; /* in client->bulks */
    uint64_t number;
    uint64_t size;
    uint32_t access;
    uint32_t connection;   /* of a file: that which it was made over */
    void *memory;          /* of nigh_bulk_alloc, which is unmapped at the end; else NULL */
    uint64_t memory_bytes; /* whole pages */
};

/* Whether the node made it: the client has no node in its process. */
static inline bool bulk_is_file(const nigh_bulk *bulk)
{
    return bulk->client->driver == NULL;
}

/* Whether the node can still know of it, as far as this client knows. */
static inline bool bulk_is_there(const nigh_bulk *bulk)
{
    return !bulk_is_file(bulk) ||
           bulk->connection ==
               atomic_load_explicit(&bulk->client->connections, memory_order_relaxed);
}

/* Leaves the sentence of a handle that is not; returns NIGH_CLOSED. */
nigh_status bulk_tell_gone(nigh_client *client);

/* The client has ended: so do its handles of memory, once nobody touches it. Not locked. */
void bulk_end(nigh_client *client);

/* A handle of what has a number; it is the client's from here on. */
void bulk_put_in_list(nigh_bulk *bulk);
/* It is gone: unmaps what was allocated. */
void bulk_handle_drop(nigh_bulk *bulk);

/* Of a file: as nigh_bulk_wait, and as nigh_bulk_close but that it is not dropped yet. */
nigh_status bulk_file_wait(const nigh_bulk *bulk, uint64_t timeout_us);
nigh_status bulk_file_end(const nigh_bulk *bulk, uint64_t timeout_us);

#endif
