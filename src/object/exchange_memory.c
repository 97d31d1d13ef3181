/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lane's extents as the fabric knows them: a registration and a key for each, made when its
 * memory is there and dropped before that goes. A device registers only memory that is there, and
 * a peer's key opens one extent, as long as it is one. Nobody may write there from afar, but
 * on iWARP: what is pushed lands in staging memory (exchange_push.c).
 */
#include <stdlib.h>

#include "base/check.h"
#include "object/exchange_figures.h"
#include "object/exchange_internal.h"
#include "object/exchange_memory.h"
#include "object/exchange_wire.h"

#define LOG_MODULE "exchange"
#include "base/log.h"

static struct fabric_memory **slot_of(const struct exchange *exchange, uint32_t extent)
{
    uint32_t first = extent_lane_first(exchange->config.extents, exchange->config.lane);

    NIGH_ASSERT(extent >= first && extent - first < LIMIT_EXTENTS / exchange->config.lanes);
    return &exchange->memories[extent - first];
}

static nigh_status on_made(void *context, uint32_t extent)
{
    struct exchange *exchange = context;
    const struct extent_set *set = exchange->config.extents;
    struct fabric_memory **slot = slot_of(exchange, extent);
    nigh_status status;

    NIGH_ASSERT(*slot == NULL);
    status = fabric_memory_register(
        exchange->config.fabric, exchange->arena + ((uint64_t)extent << set->extent_shift),
        set->extent_bytes, FABRIC_HOST, FABRIC_LOCAL_WRITE | FABRIC_REMOTE_READ, slot);
    if (status != NIGH_OK) {
        *slot = NULL;
        LOG_ERROR("memory of objects cannot be registered with the fabric",
                  "extent=%u fabric=%s status=%d do=\"ulimit -l unlimited, or "
                  "LimitMEMLOCK=infinity in the unit (nigh doctor), or free memory\"",
                  extent, exchange->config.fabric->caps.name, (int)status);
    }
    return status;
}

/* No block of it is in use: nothing of ours is under way there, and what a peer still reads without
 * a loan is refused from here on. */
static void on_goes(void *context, uint32_t extent)
{
    struct exchange *exchange = context;
    struct fabric_memory **slot = slot_of(exchange, extent);

    fabric_memory_deregister(exchange->config.fabric, *slot);
    *slot = NULL;
}

/* Elsewhere no peer can: whoever chooses the device should know. */
static void tell_who_may_write(const struct exchange_config *config)
{
    if ((config->fabric->caps.ops & FABRIC_CAN_READ_PRIVATE) == 0 && config->lane == 0) {
        LOG_WARN("peers can write to the memory of objects: this device reads only into memory "
                 "that is open to them",
                 "fabric=%s do=\"give the key to nodes alone that are trusted with all objects, or "
                 "use another device, or --fabric tcp\"",
                 config->fabric->caps.name);
    }
}

nigh_status memory_init(struct exchange *exchange)
{
    const struct exchange_config *config = &exchange->config;
    struct extent_set *set = config->extents;
    uint32_t count = LIMIT_EXTENTS / config->lanes;
    uint32_t first = extent_lane_first(set, config->lane);
    nigh_status status = NIGH_OK;

    if (config->fabric->caps.slices < EXCHANGE_SLICES) {
        LOG_ERROR("the fabric takes too few slices",
                  "fabric=%s slices=%u do=\"name another device with --fabric-addresses, or say "
                  "--fabric tcp\"",
                  config->fabric->caps.name, config->fabric->caps.slices);
        return NIGH_UNSUPPORTED;
    }
    tell_who_may_write(config);
    exchange->arena = set->arena;
    exchange->memories = calloc(count, sizeof(struct fabric_memory *));
    if (exchange->memories == NULL) {
        return NIGH_NO_RESOURCES;
    }
    for (uint32_t extent = first; extent < first + count && status == NIGH_OK; extent++) {
        if (set->extents[extent].present) {
            status = on_made(exchange, extent);
        }
    }
    exchange->watch = (struct extent_watch){.context = exchange, .made = on_made, .goes = on_goes};
    set->lane[config->lane].watch = &exchange->watch;
    return status;
}

void memory_fini(struct exchange *exchange)
{
    uint32_t count = LIMIT_EXTENTS / exchange->config.lanes;

    if (exchange->memories == NULL) {
        return;
    }
    exchange->config.extents->lane[exchange->config.lane].watch = NULL;
    for (uint32_t n = 0; n < count; n++) {
        fabric_memory_deregister(exchange->config.fabric, exchange->memories[n]);
    }
    free(exchange->memories);
}

struct fabric_memory *memory_at(const struct exchange *exchange, uint64_t offset, uint64_t *left)
{
    const struct extent_set *set = exchange->config.extents;
    struct fabric_memory *memory = *slot_of(exchange, (uint32_t)(offset >> set->extent_shift));

    NIGH_ASSERT(memory != NULL); /* an object lies there */
    *left = set->extent_bytes - (offset & (set->extent_bytes - 1));
    return memory;
}

uint32_t memory_slices(const struct exchange *exchange, uint64_t offset, uint64_t bytes,
                       struct fabric_slice *slices, uint32_t most)
{
    uint32_t count = 0;

    while (bytes > 0) {
        uint64_t left;
        struct fabric_memory *memory = memory_at(exchange, offset, &left);
        uint64_t part = min_u64(left, bytes);

        NIGH_ASSERT(count < most);
        slices[count++] = (struct fabric_slice){
            .address = exchange->arena + offset, .bytes = part, .memory = memory};
        offset += part;
        bytes -= part;
    }
    return count;
}

nigh_status memory_lend(const struct exchange *exchange, uint64_t offset, uint64_t bytes,
                        struct fabric_memory **memory, struct wire_piece *piece)
{
    struct fabric *fabric = exchange->config.fabric;
    nigh_status status = fabric_memory_register(fabric, exchange->arena + offset, bytes,
                                                FABRIC_HOST, FABRIC_REMOTE_READ, memory);
    struct fabric_remote remote;

    if (status != NIGH_OK) {
        LOG_WARN(
            "an object cannot be registered for a loan",
            "bytes=%llu status=%d do=\"ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit\"",
            (unsigned long long)bytes, (int)status);
        return status;
    }
    remote = fabric_memory_remote(fabric, *memory, exchange->arena + offset);
    *piece = (struct wire_piece){.address = remote.address, .bytes = bytes, .key = remote.key};
    return NIGH_OK;
}

uint32_t memory_pieces(const struct exchange *exchange, uint64_t offset, uint64_t bytes,
                       struct wire_piece *pieces, uint32_t most)
{
    uint32_t count = 0;

    while (bytes > 0 && count < most) {
        uint64_t left;
        struct fabric_memory *memory = memory_at(exchange, offset, &left);
        struct fabric_remote remote =
            fabric_memory_remote(exchange->config.fabric, memory, exchange->arena + offset);
        uint64_t part = min_u64(left, bytes);

        pieces[count++] =
            (struct wire_piece){.address = remote.address, .bytes = part, .key = remote.key};
        offset += part;
        bytes -= part;
    }
    return count;
}
