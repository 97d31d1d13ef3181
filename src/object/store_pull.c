/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of objects that were born on other nodes: memory for one that is being pulled, its seal,
 * its end without. A copy is an object like others for whoever reads it; but it is nobody's, it
 * keeps the birth it came with, it never goes to disk, and no restart keeps it.
 *
 * Until its seal it is an entry in state CREATED that stands in no slot, no shadow and no list.
 */
#include "object/store_internal.h"

#include <stdlib.h>

/* ---- memory ---- */

/* What was evicted in vain for a pull that asks again and again: one that never fits must not cost
 * everybody the cache. */
static uint64_t *spent_of(struct store *store, uint64_t hash)
{
    struct store_spent *spent = &store->spent[hash % STORE_SPENT_PULLS];

    if (spent->hash != hash || store->now_us - spent->asked_us > STORE_SPENT_US) {
        *spent = (struct store_spent){.hash = hash};
    }
    spent->asked_us = store->now_us;
    return &spent->bytes;
}

static void pull_commit(struct store *store, struct store_pool *pool, const struct store_pull *pull,
                        uint32_t entry, uint32_t block)
{
    struct index_fill fill = {
        .id = pull->id,
        .incarnation = store->config.incarnation,
        .meta_size = pull->meta_size,
        .offset = heap_block_offset(store->heaps, block),
        .data_size = pull->data_size,
        .name_size = (uint16_t)pull->name_size,
        .flags = INDEX_FLAG_COPY | INDEX_FLAG_NODE_OWNED,
        .created_ns = store_wall_ns(store),
    };

    (void)index_entry_fill(&pool->writer, entry, &fill, INDEX_CREATED);
    pool->births[entry] = pull->birth;
    store_memory_bind(store, pool, entry, block);
    store_object_obstacle(store, pool, entry, 1);
    pool->objects_unsealed++;
    store->unsealed_bytes += store_memory_bytes(store, pool, entry);
}

/* Entry and memory, of a quota that has room. */
static nigh_status pull_obtain(struct store *store, struct store_pool *pool,
                               const struct store_pull *pull, uint64_t bytes, uint32_t *entry,
                               uint32_t *block)
{
    nigh_status status = store_fit_pool(store, pool, bytes);

    if (status != NIGH_OK) {
        return status;
    }
    status = store_obtain_entry(store, pool, true, entry);
    if (status != NIGH_OK) {
        return status;
    }
    status = store_obtain_unasked(store, pool, bytes, spent_of(store, pull->hash), block);
    if (status != NIGH_OK) {
        index_give_back(&pool->writer, *entry);
    }
    return status;
}

static bool have_births(struct store_pool *pool)
{
    if (pool->births == NULL) {
        pool->births = calloc(pool->config.index.entry_count, sizeof(*pool->births));
    }
    return pool->births != NULL;
}

nigh_status store_pull_begin(struct store *store, const struct store_pull *pull, uint64_t now_us,
                             uint32_t *entry, uint64_t *offset)
{
    struct store_pool *pool = store->pools[pull->pool];
    uint64_t bytes = index_object_bytes(pull->data_size, pull->meta_size, pull->name_size);
    uint32_t taken, block;
    nigh_status status;

    NIGH_ASSERT(pool != NULL);
    store_begin(store, now_us);
    if (bytes == 0 || pull->meta_size > LIMIT_META_BYTES || pull->name_size > LIMIT_NAME_BYTES) {
        return NIGH_INVALID;
    }
    if (index_find(&pool->writer, pull->id, pull->hash, &taken)) {
        return NIGH_EXISTS;
    }
    if (!have_births(pool)) {
        return NIGH_NO_RESOURCES;
    }
    status = pull_obtain(store, pool, pull, bytes, &taken, &block);
    if (status != NIGH_OK) {
        return status;
    }
    *spent_of(store, pull->hash) = 0;
    pull_commit(store, pool, pull, taken, block);
    *entry = taken;
    *offset = heap_block_offset(store->heaps, block);
    return NIGH_OK;
}

/* ---- its end ---- */

static struct store_pool *pool_of_pull(const struct store *store, uint32_t number, uint32_t entry)
{
    struct store_pool *pool = store->pools[number];

    NIGH_ASSERT(pool != NULL && entry < pool->writer.entries_used);
    NIGH_ASSERT(store_state(pool, entry) == INDEX_CREATED &&
                store_has_flag(pool, entry, INDEX_FLAG_COPY));
    return pool;
}

static void no_longer_pulled(struct store *store, struct store_pool *pool, uint32_t entry)
{
    store_object_obstacle(store, pool, entry, -1);
    pool->objects_unsealed--;
    store->unsealed_bytes -= store_memory_bytes(store, pool, entry);
}

static uint32_t took_us(struct store *store, const struct store_pool *pool, uint32_t entry)
{
    uint64_t begun_ns = pool->writer.index.cold[entry].created_ns;
    uint64_t now_ns = store_wall_ns(store);

    return now_ns > begun_ns ? (uint32_t)min_u64((now_ns - begun_ns) / 1000, UINT32_MAX) : 0;
}

nigh_status store_pull_seal(struct store *store, uint32_t number, uint32_t entry, uint32_t data_crc,
                            uint64_t now_us)
{
    struct store_pool *pool = pool_of_pull(store, number, entry);
    uint64_t hash = store_hash(pool, entry);
    uint32_t other;

    store_begin(store, now_us);
    if (index_find(&pool->writer, store_entry(pool, entry)->id, hash, &other)) {
        store_pull_abort(store, number, entry, now_us);
        return NIGH_EXISTS;
    }
    no_longer_pulled(store, pool, entry);
    store_list_push(pool, &pool->copies, entry);
    index_set_crc(&pool->writer, entry, data_crc);
    index_seal(&pool->writer, entry, took_us(store, pool, entry));
    index_insert(&pool->writer, hash, entry);
    store_now_sealed(store, pool, entry, hash);
    return NIGH_OK;
}

void store_pull_abort(struct store *store, uint32_t number, uint32_t entry, uint64_t now_us)
{
    struct store_pool *pool = pool_of_pull(store, number, entry);

    store->now_us = now_us;
    no_longer_pulled(store, pool, entry);
    store_memory_unbind(store, pool, entry);
    store_release(pool, entry);
}
