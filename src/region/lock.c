/* SPDX-License-Identifier: Apache-2.0 */
/* See lock.h. */
#include "region/lock.h"

#include "base/check.h"
#include "base/limits.h"

#define FIRST_ROOM 16u

nigh_status region_lock_table_init(struct table *table, uint64_t seed)
{
    return table_init(table, FIRST_ROOM, seed);
}

static nigh_status grow(struct table *table)
{
    struct table more;
    size_t cursor = 0;
    uint64_t key, value;
    nigh_status status;

    if (table->capacity >= LIMIT_REGION_LOCKS) {
        return NIGH_LIMIT;
    }
    status = table_init(&more, min_size(2 * table->capacity, LIMIT_REGION_LOCKS), table->seed);
    if (status != NIGH_OK) {
        return status;
    }
    while (table_next(table, &cursor, &key, &value)) {
        NIGH_ASSERT(table_insert(&more, key, value) == NIGH_OK);
    }
    table_fini(table);
    *table = more;
    return NIGH_OK;
}

nigh_status region_lock_table_add(struct table *table, uint64_t number, void *lock)
{
    nigh_status status = table->count == table->capacity ? grow(table) : NIGH_OK;

    return status == NIGH_OK ? table_insert_pointer(table, number, lock) : status;
}
