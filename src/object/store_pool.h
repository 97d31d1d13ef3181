/* SPDX-License-Identifier: Apache-2.0 */
/* A pool in one lane, and what its entries say. For the store alone. */
#ifndef OBJECT_STORE_POOL_H
#define OBJECT_STORE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "object/evict.h"
#include "object/index_writer.h"
#include "object/store.h"
#include "object/store_record.h"

struct pin_table;
struct store;

#define STORE_SHADOW_BUCKETS 4096u /* of created and deleting objects, which no slot names */

struct store_pool {
    struct store_pool_config config;
    struct index_writer writer;
    struct store_record *records;
    struct evict evict;
    void *evict_storage;
    uint64_t policy_bytes;                  /* the memory that the policy was last told it has */
    uint32_t shadows[STORE_SHADOW_BUCKETS]; /* entry and one */
    struct list sessions;
    struct list subscribers;
    struct pin_table *tables; /* LIMIT_SESSIONS; those of the sessions, without gaps */
    uint32_t table_count;
    struct store_list graveyard; /* DELETING, until nobody pins or reads it */
    struct store_list copies;    /* sealed, in memory, oldest first */
    uint64_t copies_shun_us;     /* none of them could be evicted: not before this */
    uint32_t node_heap;          /* STORE_NONE until first used */
    uint64_t bytes;              /* in objects in memory, created ones included */
    uint64_t kept_bytes;         /* of sealed objects in memory that KEEP holds there */
    uint64_t writing_bytes;      /* of disk jobs under way */
    uint64_t passing_bytes;      /* in objects that the lane itself holds: see store_passing */
    uint64_t objects, objects_unsealed, objects_spilled, objects_deleting;
    bool adopted; /* from a former node, and not yet known what is whose */
};

/* ---- entries -------------------------------------------------------------- */

static inline struct index_entry *store_entry(const struct store_pool *pool, uint32_t entry)
{
    return &pool->writer.index.entries[entry];
}

static inline enum index_state store_state(const struct store_pool *pool, uint32_t entry)
{
    return index_word_state(index_word_at(&pool->writer, entry));
}

static inline uint64_t store_generation(const struct store_pool *pool, uint32_t entry)
{
    return index_word_generation(index_word_at(&pool->writer, entry));
}

static inline bool store_has_flag(const struct store_pool *pool, uint32_t entry, uint16_t flag)
{
    return (shared_load_relaxed(&store_entry(pool, entry)->flags) & flag) != 0;
}

/* Whether it is somewhere else, too: pulled from there, and not handed over. */
static inline bool store_is_mere_copy(const struct store_pool *pool, uint32_t entry)
{
    return (shared_load_relaxed(&store_entry(pool, entry)->flags) &
            (INDEX_FLAG_COPY | INDEX_FLAG_GIVEN)) == INDEX_FLAG_COPY;
}

/* Bytes that an entry's object takes in memory, or in a file. */
static inline uint64_t store_object_bytes(const struct store_pool *pool, uint32_t entry)
{
    const struct index_entry *at = store_entry(pool, entry);

    return index_object_bytes(at->data_size, at->meta_size, at->name_size);
}

static inline uint64_t store_hash(const struct store_pool *pool, uint32_t entry)
{
    return hash_id20(store_entry(pool, entry)->id);
}

/* ---- store.c -------------------------------------------------------------- */

/* A pool with empty books, known to the store. */
nigh_status store_pool_begin(struct store *store, const struct store_pool_config *config,
                             struct store_pool **pool);
void store_pool_end(struct store *store, struct store_pool *pool);

#endif
