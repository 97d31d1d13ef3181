/* SPDX-License-Identifier: Apache-2.0 */
/* Objects are deleted, and stay until their last reader goes (store_delete.c). For the store alone.
 */
#ifndef OBJECT_STORE_DELETE_H
#define OBJECT_STORE_DELETE_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/object.h"
#include "nigh/status.h"

struct store;
struct store_pool;

/* The books of a deleting object; when it becomes another again. */
void store_deleting(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash);
void store_no_longer_deleting(struct store *store, struct store_pool *pool, uint32_t entry,
                              uint64_t hash);
/* Takes a sealed object in memory from all who come now; why: what those who watch are told. */
void store_bury(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash,
                nigh_event_kind why);
/* What becomes of it at once: NIGH_OK (gone), NIGH_IN_USE (at its last release). */
nigh_status store_end_buried(struct store *store, struct store_pool *pool, uint32_t entry);
/* The end of a spilled object that is not in memory. */
void store_end_spilled(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash,
                       nigh_event_kind why);
/* Frees what nobody holds any more of a pool's graveyard, for one of store->rounds. Whether any was
 * freed. */
bool store_empty_graves(struct store *store, struct store_pool *pool);
/* Looks at the pins of the graveyards, ends the deletes that wait for that. */
void store_visit_graves(struct store *store);

#endif
