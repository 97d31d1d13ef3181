/* SPDX-License-Identifier: Apache-2.0 */
/* See bulk.h. */
#include "cluster/bulk.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define BULK_CHAIN 16u /* posted at once, at most */

enum bulk_state {
    BULK_OVER = 0, /* to be posted */
    BULK_POSTED,
    BULK_TOLD, /* its message is being told of */
    BULK_KEPT
};

struct bulk_place {
    const void *keeper; /* KEPT */
    enum bulk_state state;
};

static void free_all(struct bulk *bulk)
{
    free(bulk->memory);
    free(bulk->places);
    free(bulk->over);
    memset(bulk, 0, sizeof(*bulk));
}

nigh_status bulk_init(struct bulk *bulk, struct fabric *fabric, uint32_t count, uint32_t bytes)
{
    nigh_status status = NIGH_NO_RESOURCES;

    *bulk = (struct bulk){
        .fabric = fabric, .count = count, .bytes = bytes, .stride = (bytes + 63) & ~63u};
    bulk->memory = aligned_alloc(64, (size_t)count * bulk->stride);
    bulk->places = calloc(count, sizeof(*bulk->places));
    bulk->over = calloc(count, sizeof(*bulk->over));
    if (bulk->memory == NULL || bulk->places == NULL || bulk->over == NULL) {
        goto free_memory;
    }
    status = fabric_memory_register(fabric, bulk->memory, (uint64_t)count * bulk->stride,
                                    FABRIC_HOST, FABRIC_LOCAL_WRITE, &bulk->registration);
    if (status != NIGH_OK) {
        goto free_memory;
    }
    status = fabric_stock_create(fabric, count, &bulk->stock);
    if (status != NIGH_OK) {
        goto deregister;
    }
    while (bulk->over_count < count) {
        bulk->over[bulk->over_count] = bulk->over_count;
        bulk->over_count++;
    }
    bulk_post(bulk);
    return NIGH_OK;

deregister:
    fabric_memory_deregister(fabric, bulk->registration);
free_memory:
    free_all(bulk);
    return status;
}

void bulk_fini(struct bulk *bulk)
{
    if (bulk->count == 0) {
        return;
    }
    fabric_stock_destroy(bulk->fabric, bulk->stock);
    fabric_memory_deregister(bulk->fabric, bulk->registration);
    free_all(bulk);
}

uint8_t *bulk_take(struct bulk *bulk, uint32_t number)
{
    NIGH_ASSERT(number < bulk->count && bulk->places[number].state == BULK_POSTED);
    bulk->places[number].state = BULK_TOLD;
    return bulk->memory + (size_t)number * bulk->stride;
}

void bulk_over(struct bulk *bulk, uint32_t number)
{
    struct bulk_place *place = &bulk->places[number];

    NIGH_ASSERT(place->state == BULK_TOLD || place->state == BULK_KEPT);
    place->state = BULK_OVER;
    bulk->over[bulk->over_count++] = number;
}

void bulk_keep(struct bulk *bulk, uint32_t number, const void *keeper)
{
    NIGH_ASSERT(bulk->places[number].state == BULK_TOLD);
    bulk->places[number] = (struct bulk_place){.keeper = keeper, .state = BULK_KEPT};
}

void bulk_give_back(struct bulk *bulk, const uint8_t *bytes)
{
    uint64_t number = (uint64_t)(bytes - bulk->memory) / bulk->stride;

    NIGH_ASSERT(number < bulk->count && bulk->places[number].state == BULK_KEPT);
    bulk_over(bulk, (uint32_t)number);
}

void bulk_drop(struct bulk *bulk, const void *keeper)
{
    for (uint32_t n = 0; n < bulk->count; n++) {
        if (bulk->places[n].state == BULK_KEPT && bulk->places[n].keeper == keeper) {
            bulk_over(bulk, n);
        }
    }
}

void bulk_post(struct bulk *bulk)
{
    struct fabric_receive chain[BULK_CHAIN];

    while (bulk->over_count > 0) {
        uint32_t count = min_u32(bulk->over_count, BULK_CHAIN);
        nigh_status status;

        for (uint32_t n = 0; n < count; n++) {
            uint32_t number = bulk->over[--bulk->over_count];

            bulk->places[number].state = BULK_POSTED;
            chain[n] = (struct fabric_receive){
                .next = n + 1 < count ? &chain[n + 1] : NULL,
                .tag = number,
                .slice = {.address = bulk->memory + (size_t)number * bulk->stride,
                          .bytes = bulk->bytes,
                          .memory = bulk->registration},
            };
        }
        status = fabric_stock_post(bulk->fabric, bulk->stock, chain, NULL);
        NIGH_ASSERT(status == NIGH_OK); /* there are as many as its depth */
    }
}

uint64_t bulk_memory_bytes(const struct bulk *bulk)
{
    return (uint64_t)bulk->count * (bulk->stride + sizeof(*bulk->places) + sizeof(*bulk->over));
}

bool bulk_is_valid(const struct bulk *bulk)
{
    uint32_t over = 0;

    for (uint32_t n = 0; n < bulk->count; n++) {
        over += bulk->places[n].state == BULK_OVER;
        if (bulk->places[n].state == BULK_TOLD) {
            return false; /* outside of its callback */
        }
    }
    return over == bulk->over_count;
}
