/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash table's probing. Key 0 marks a free slot, so the pair of key 0 itself lies beside the
 * slots: that keeps a slot at 16 bytes, four to a cache line, without forbidding a key.
 */
#include "base/table.h"

#include "base/check.h"
#include "base/hash.h"

#include <stdlib.h>

static size_t table_ideal(const struct table *table, uint64_t key)
{
    return (size_t)hash_u64(key ^ table->seed) & table->mask;
}

nigh_status table_init(struct table *table, size_t capacity, uint64_t seed)
{
    NIGH_ASSERT(capacity > 0 && (uint64_t)capacity <= UINT64_C(1) << 40);
    size_t slot_count = (size_t)round_up_pow2_u64(capacity + capacity / 3 + 1);
    struct table_slot *slots = calloc(slot_count, sizeof(*slots));
    if (slots == NULL)
        return NIGH_NO_RESOURCES;
    *table = (struct table){
        .slots = slots,
        .mask = slot_count - 1,
        .capacity = capacity,
        .seed = seed,
    };
    return NIGH_OK;
}

void table_fini(struct table *table)
{
    free(table->slots);
    *table = (struct table){0};
}

/*
 * The slot that holds the key, or the free one that ends its probe. Ends because a quarter of the
 * slots is free.
 */
static size_t table_probe(const struct table *table, uint64_t key)
{
    size_t at = table_ideal(table, key);
    while (table->slots[at].key != key && table->slots[at].key != 0)
        at = (at + 1) & table->mask;
    return at;
}

nigh_status table_insert(struct table *table, uint64_t key, uint64_t value)
{
    if (table_find(table, key) != NULL)
        return NIGH_EXISTS;
    if (table->count == table->capacity)
        return NIGH_LIMIT;
    if (key == 0) {
        table->has_zero = true;
        table->zero_value = value;
    } else {
        table->slots[table_probe(table, key)] = (struct table_slot){.key = key, .value = value};
    }
    table->count++;
    NIGH_ASSERT_SLOW(table_is_valid(table));
    return NIGH_OK;
}

uint64_t *table_find(struct table *table, uint64_t key)
{
    if (key == 0)
        return table->has_zero ? &table->zero_value : NULL;
    size_t at = table_probe(table, key);
    return table->slots[at].key == key ? &table->slots[at].value : NULL;
}

/*
 * Frees the slot `gap` and moves back every later pair of its run that the gap would cut off from
 * its ideal slot (Knuth, The Art of Computer Programming 3, 6.4, algorithm R).
 */
static void table_shift_back(struct table *table, size_t gap)
{
    for (size_t at = (gap + 1) & table->mask; table->slots[at].key != 0;
         at = (at + 1) & table->mask) {
        size_t ideal = table_ideal(table, table->slots[at].key);
        /* Cyclic distances: the pair may move when its ideal slot is not after the gap. */
        if (((at - ideal) & table->mask) >= ((at - gap) & table->mask)) {
            table->slots[gap] = table->slots[at];
            gap = at;
        }
    }
    table->slots[gap] = (struct table_slot){0};
}

bool table_remove(struct table *table, uint64_t key, uint64_t *value)
{
    uint64_t *found = table_find(table, key);
    if (found == NULL)
        return false;
    if (value != NULL)
        *value = *found;
    if (key == 0)
        table->has_zero = false;
    else
        table_shift_back(table,
                         (size_t)(container_of(found, struct table_slot, value) - table->slots));
    table->count--;
    NIGH_ASSERT_SLOW(table_is_valid(table));
    return true;
}

bool table_next(const struct table *table, size_t *cursor, uint64_t *key, uint64_t *value)
{
    /* Cursor 0 stands for key 0, cursor n for slot n - 1. */
    if (*cursor == 0) {
        *cursor = 1;
        if (table->has_zero) {
            *key = 0;
            *value = table->zero_value;
            return true;
        }
    }
    while (*cursor <= table->mask + 1) {
        const struct table_slot *slot = &table->slots[*cursor - 1];
        (*cursor)++;
        if (slot->key != 0) {
            *key = slot->key;
            *value = slot->value;
            return true;
        }
    }
    return false;
}

bool table_is_valid(const struct table *table)
{
    size_t count = table->has_zero;
    for (size_t at = 0; at <= table->mask; at++) {
        uint64_t key = table->slots[at].key;
        if (key == 0)
            continue;
        count++;
        if (table_probe(table, key) != at)
            return false;
    }
    return count == table->count && count <= table->capacity && table->capacity <= table->mask;
}
