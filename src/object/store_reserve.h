/* SPDX-License-Identifier: Apache-2.0 */
/* Room on disk that reading back may need (store_reserve.c). For the store alone. */
#ifndef OBJECT_STORE_RESERVE_H
#define OBJECT_STORE_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/object.h"

struct store;
struct store_pool;

/* Classes of the sizes of objects: so many for each doubling. */
#define STORE_CLASS_SHIFT 2u
#define STORE_CLASS_SPLIT (1u << STORE_CLASS_SHIFT)
#define STORE_CLASSES     (64u << STORE_CLASS_SHIFT)

uint32_t store_reserve_class(uint64_t bytes);
/* An object has memory or a file now (1), or neither any more (-1). */
void store_reserve_count(struct store *store, const struct store_pool *pool, uint32_t entry,
                         int change);
/* Whether an object of so many bytes may ever go to disk. */
bool store_reserve_takes(const struct store *store, uint64_t bytes);
/* What may be written still, by the bound and by what the disk has. */
uint64_t store_disk_room(struct store *store);
/* Whether puts left as much room on disk as reading back the largest object may need. */
bool store_reserve_is_whole(struct store *store);
void store_reserve_stats(const struct store *store, nigh_node_stats *stats);
/* Whether there is so much more that any object may still be written. */
bool store_reserve_has_more(struct store *store);
/* Whether the call under way may write so much out; may take so much memory. */
bool store_reserve_lets_write(struct store *store, uint64_t bytes);
bool store_reserve_lets_take(struct store *store, uint64_t bytes);

#endif
