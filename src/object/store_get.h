/* SPDX-License-Identifier: Apache-2.0 */
/* Objects are looked for (store_get.c). For the store alone. */
#ifndef OBJECT_STORE_GET_H
#define OBJECT_STORE_GET_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

struct store;
struct store_call;
struct store_pool;

/* The sealed or spilled object of a call's id; else NIGH_NOT_SEALED or NIGH_NOT_FOUND. */
nigh_status store_find_sealed(struct store_call *call, uint32_t *entry);
/* Ends the gets that wait for an entry's id to come from other nodes with views of it. */
void store_hand_out(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash);
/* The same, or a created or deleting one. */
bool store_find_any(struct store_call *call, uint32_t *entry);

#endif
