/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives for bulk messages that the links of one lane share, out of a stock of its fabric: so
 * many for all peers together. Who grants messages to peers grants no more than these.
 *
 * Each is posted, or out: told of, kept by whom it was told, or waiting to be posted again together
 * with others. Owned by the lane's driver.
 */
#ifndef CLUSTER_BULK_H
#define CLUSTER_BULK_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"

struct bulk_place;

struct bulk {
    struct fabric *fabric;
    struct fabric_stock *stock;
    uint32_t count; /* 0: nothing is shared */
    uint32_t bytes, stride;
    uint8_t *memory;
    struct fabric_memory *registration;
    struct bulk_place *places;
    uint32_t *over; /* those that wait to be posted */
    uint32_t over_count;
};

/* NIGH_LIMIT, NIGH_UNSUPPORTED: the fabric does not share so many; NIGH_NO_RESOURCES. */
nigh_status bulk_init(struct bulk *bulk, struct fabric *fabric, uint32_t count, uint32_t bytes);
/* No endpoint takes its receives there any more. */
void bulk_fini(struct bulk *bulk);

/* A message filled it (its number is the completion's tag); the bytes of it. */
uint8_t *bulk_take(struct bulk *bulk, uint32_t number);
/* It is not needed any more. */
void bulk_over(struct bulk *bulk, uint32_t number);
/* It stays with `keeper` until that gives it back, or is dropped with all that it keeps. */
void bulk_keep(struct bulk *bulk, uint32_t number, const void *keeper);
void bulk_give_back(struct bulk *bulk, const uint8_t *bytes);
void bulk_drop(struct bulk *bulk, const void *keeper);

/* Posts those that are over. */
void bulk_post(struct bulk *bulk);

uint64_t bulk_memory_bytes(const struct bulk *bulk);
bool bulk_is_valid(const struct bulk *bulk);

#endif
