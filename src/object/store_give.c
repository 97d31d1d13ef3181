/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that leaves, as the store knows it (docs/leaving.md): it takes nothing new; and what such
 * a node has handed over to this one counts as what was born here, though its birth was elsewhere.
 */
#include "base/check.h"
#include "object/store_create.h"
#include "object/store_evict.h"
#include "object/store_internal.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_remote.h"
#include "object/store_reserve.h"
#include "object/store_session.h"

void store_leave(struct store *store, bool leaves, uint64_t now_us)
{
    store_begin(store, now_us);
    store->leaves = leaves;
    store->left_us = now_us;
}

bool store_leaves(const struct store *store)
{
    return store->leaves;
}

bool store_takes_sealed(const struct store *store, uint64_t build_ns)
{
    return !store->leaves || build_ns / 1000 > store->now_us - store->left_us;
}

uint64_t store_unsealed(const struct store *store)
{
    uint64_t count = 0;

    for (uint32_t n = 0; n < LIMIT_SESSIONS; n++) {
        count += store->sessions[n] != NULL ? store->sessions[n]->unsealed.count : 0;
    }
    return count;
}

/* ---- room ---- */

/* Copies of others' objects make room, those of the pool first; how many looks are left. */
static uint32_t evict_copies(struct store *store, struct store_pool *pool, uint64_t wanted,
                             uint32_t looks)
{
    while (pool->copies.count > 0 && looks > 0 && store_free_bytes(store) < wanted) {
        struct store_evicted evicted = {0};
        uint32_t looked = min_u32(pool->copies.count, LIMIT_EVICT_BATCH);

        if (!store_evict_copies(store, pool, wanted - store_free_bytes(store), EXTENT_NO_OWNER,
                                &evicted)) {
            break;
        }
        looks -= min_u32(looks, looked);
    }
    return looks;
}

nigh_status store_give_room(struct store *store, uint32_t number, uint64_t bytes, uint64_t now_us)
{
    struct store_pool *pool = store->pools[number];
    uint64_t wanted = bytes + store->high_bytes;
    uint32_t looks = LIMIT_LEAVE_COPIES;

    store_begin(store, now_us);
    if (pool->config.quota_bytes != 0 &&
        (bytes > pool->config.quota_bytes || pool->bytes > pool->config.quota_bytes - bytes)) {
        return NIGH_QUOTA;
    }
    if (bytes == 0 || bytes > store->memory_bytes || wanted > store->memory_bytes) {
        return NIGH_OUT_OF_MEMORY;
    }
    if (pool->writer.taken == pool->writer.index.entry_count) {
        return NIGH_LIMIT;
    }
    looks = evict_copies(store, pool, wanted, looks);
    for (uint32_t n = 0; n < LIMIT_POOLS && looks > 0; n++) {
        if (store->pools[n] != NULL) {
            looks = evict_copies(store, store->pools[n], wanted, looks);
        }
    }
    if (store_free_bytes(store) >= wanted ||
        (store_spills(store) && store_reserve_takes(store, bytes) &&
         store_reserve_has_more(store))) {
        return NIGH_OK;
    }
    return NIGH_OUT_OF_MEMORY;
}

/* ---- what is given ---- */

nigh_status store_give(struct store *store, uint32_t number, const uint8_t *id, uint64_t hash,
                       const struct birth *birth, uint64_t now_us, struct store_sight *sight)
{
    struct store_pool *pool = store->pools[number];

    store_begin(store, now_us);
    if (!store_see(store, number, id, hash, sight) || !birth_equal(&sight->birth, birth)) {
        return NIGH_NOT_FOUND;
    }
    if (store_is_mere_copy(pool, sight->entry) && sight->replicas == 0) {
        store_list_remove(pool, &pool->copies, sight->entry);
        index_set_flags(&pool->writer, sight->entry, INDEX_FLAG_GIVEN, 0);
        *sight = store_sight_of(store, pool, sight->entry, hash);
    }
    return NIGH_OK;
}

void store_take_back(struct store_pool *pool, uint32_t entry)
{
    if (store_has_flag(pool, entry, INDEX_FLAG_GIVEN) && store_state(pool, entry) == INDEX_SEALED &&
        (pool->records[entry].flags & (RECORD_ON_DISK | RECORD_WRITING)) == 0) {
        index_set_flags(&pool->writer, entry, 0, INDEX_FLAG_GIVEN);
        store_list_push(pool, &pool->copies, entry);
    }
}
