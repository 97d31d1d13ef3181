/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table from a 64-bit key to a 64-bit value or a pointer: open addressing, linear probing,
 * deletion by shifting back (no tombstones, so a table does not age).
 *
 * The caller sets the bound; the memory is taken once, at init, and a full table is a status. Any
 * key and any value may be stored. A table has one owner thread; it does not lock.
 */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include "nigh/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_slot {
    uint64_t key; /* 0: free (the key 0 itself lies beside the slots) */
    uint64_t value;
};

struct table {
    struct table_slot *slots;
    size_t mask; /* number of slots, a power of two, less one */
    size_t count;
    size_t capacity;
    uint64_t seed;
    uint64_t zero_value; /* the value of key 0 */
    bool has_zero;
};

/*
 * Room for `capacity` keys (1 to 2^40), at most three quarters of the slots. `seed` keeps whoever
 * chooses keys from making them collide: random where others choose them, else any number.
 * NIGH_NO_RESOURCES: no memory. The table holds memory until table_fini.
 */
nigh_status table_init(struct table *table, size_t capacity, uint64_t seed);

/* Frees the slots; what values point to is the caller's. A zeroed table may be given. */
void table_fini(struct table *table);

/* NIGH_EXISTS: the key is there, its value unchanged. NIGH_LIMIT: the table is full. */
nigh_status table_insert(struct table *table, uint64_t key, uint64_t value);

/* Where the key's value lies, to read or to change, until the next insert or remove; or NULL. */
uint64_t *table_find(struct table *table, uint64_t key);

/* Removes the key. False: it was not there, *value untouched. `value` may be NULL. */
bool table_remove(struct table *table, uint64_t key, uint64_t *value);

/*
 * Visits all keys in no order: start with *cursor = 0; false after the last. No insert and no
 * remove in between.
 */
bool table_next(const struct table *table, size_t *cursor, uint64_t *key, uint64_t *value);

/* Checks the whole structure; for tests and NIGH_ASSERT_SLOW. */
bool table_is_valid(const struct table *table);

static inline nigh_status table_insert_pointer(struct table *table, uint64_t key, void *pointer)
{
    return table_insert(table, key, (uint64_t)(uintptr_t)pointer);
}

/* The pointer stored for the key, or NULL when there is none. */
static inline void *table_find_pointer(struct table *table, uint64_t key)
{
    uint64_t *value = table_find(table, key);
    return value == NULL ? NULL : (void *)(uintptr_t)*value;
}

#endif
