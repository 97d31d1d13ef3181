/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the node's memory is mapped (extents.c). For libnigh alone. */
#ifndef CLIENT_EXTENTS_H
#define CLIENT_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "client/client_internal.h"

/* Maps an extent that was granted, and takes its descriptor over. Locked. */
nigh_status extents_place(nigh_client *client, uint32_t number, bool writable, int fd);

/* Makes [offset, offset + bytes) of the read or write window usable. Not locked / locked. */
nigh_status extents_map(nigh_client *client, uint64_t offset, uint64_t bytes, bool writable);
nigh_status extents_map_locked(nigh_client *client, uint64_t offset, uint64_t bytes, bool writable);

/* Maps, and touches, up to `bytes` of extents that this uid may write already. */
void extents_prefault(nigh_client *client, uint64_t bytes);
void extents_unmap(nigh_client *client);

/* Whether all of [offset, offset + bytes) is mapped; bytes is not 0. */
static inline bool extents_are_mapped(const nigh_client *client, const _Atomic uint16_t *mapped,
                                      uint64_t offset, uint64_t bytes)
{
    uint64_t first = offset >> client->extent_shift;
    uint64_t last = (offset + (bytes - 1)) >> client->extent_shift;

    return likely(offset < client->arena_bytes && bytes - 1 < client->arena_bytes) &&
           likely(last - first < atomic_load_explicit(&mapped[first], memory_order_acquire));
}

static inline bool extents_readable(const nigh_client *client, uint64_t offset, uint64_t bytes)
{
    return extents_are_mapped(client, client->read_mapped, offset, bytes);
}

static inline bool extents_writable(const nigh_client *client, uint64_t offset, uint64_t bytes)
{
    return extents_are_mapped(client, client->write_mapped, offset, bytes);
}

#endif
