/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of objects that were born on other nodes: memory for one that is being pulled, its seal,
 * its end without. A copy is an object like others for whoever reads it; but it is nobody's, it
 * keeps the birth it came with, it never goes to disk, and no restart keeps it.
 *
 * Until its seal it is an entry in state CREATED that stands in no slot, no shadow and no list.
 *
 * A copy that nobody wants to stay is transient: it is born DELETING, in the graveyard, where the
 * last view takes it along. Nobody finds it, other nodes are not told of it, and a delete of its id
 * may pass it by: so others are served with it only when the home has said that its birth is still
 * the one, and then without a transfer.
 */
#include "base/check.h"
#include "object/store_create.h"
#include "object/store_delete.h"
#include "object/store_get.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_remote.h"

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

/* Before it is sealed: whoever reads it there and finds the entry as it was has read the entry's.
 */
static void store_birth(struct index_birth *to, const struct birth *birth)
{
    shared_store_plain(&to->counter, birth->counter);
    shared_store_plain(&to->incarnation, birth->incarnation);
    shared_store_plain(&to->rank, birth->rank);
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
    store_birth(&pool->writer.index.births[entry], &pull->birth);
    store_memory_bind(store, pool, entry, block);
    store_passing(store, pool, entry, 1);
    pool->objects_unsealed++;
    store->unsealed_bytes += store_memory_bytes(store, pool, entry);
}

/* Whether the quota would have room if all went that the lane itself holds: that goes without
 * anybody's doing. */
static bool room_comes(const struct store_pool *pool, uint64_t bytes)
{
    return pool->bytes - pool->passing_bytes + bytes <= pool->config.quota_bytes;
}

/* Entry and memory, of a quota that has room. */
static nigh_status pull_obtain(struct store *store, struct store_pool *pool,
                               const struct store_pull *pull, uint64_t bytes, uint32_t *entry,
                               uint32_t *block)
{
    nigh_status status = store_fit_pool(store, pool, bytes);

    if (status != NIGH_OK) {
        return status == NIGH_QUOTA && room_comes(pool, bytes) ? NIGH_PENDING : status;
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
    if (pool->records[entry].readers > 0) {
        store_object_obstacle(store, pool, entry, -1); /* it passes on as what is lent */
    } else {
        store_passing(store, pool, entry, -1);
    }
    pool->objects_unsealed--;
    store->unsealed_bytes -= store_memory_bytes(store, pool, entry);
}

static uint32_t took_us(struct store *store, const struct store_pool *pool, uint32_t entry)
{
    uint64_t begun_ns = pool->writer.index.cold[entry].created_ns;
    uint64_t now_ns = store_wall_ns(store);

    return now_ns > begun_ns ? (uint32_t)min_u64((now_ns - begun_ns) / 1000, UINT32_MAX) : 0;
}

/* The copy that other readers find, and that stays. */
static void become_copy(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash)
{
    store_list_push(pool, &pool->copies, entry);
    index_insert(&pool->writer, hash, entry);
    store_now_sealed(store, pool, entry, hash);
}

static void become_transient(struct store *store, struct store_pool *pool, uint32_t entry,
                             uint64_t hash)
{
    index_to_deleting(&pool->writer, entry);
    store_object_obstacle(store, pool, entry, 1);
    store_deleting(store, pool, entry, hash);
    pool->records[entry].flags |= RECORD_TRANSIENT;
    store_hand_out(store, pool, entry, hash);
}

nigh_status store_pull_seal(struct store *store, uint32_t number, uint32_t entry, uint32_t data_crc,
                            bool keep, uint64_t now_us)
{
    struct store_pool *pool = pool_of_pull(store, number, entry);
    const uint8_t *id = store_entry(pool, entry)->id;
    uint64_t hash = store_hash(pool, entry);
    bool wanted, keep_now;
    uint32_t other;

    store_begin(store, now_us);
    if (index_find(&pool->writer, id, hash, &other)) {
        store_pull_abort(store, number, entry, now_us);
        return NIGH_EXISTS;
    }
    wanted = store_is_wanted_how(store, pool, id, hash, &keep_now);
    if (!wanted && !keep) {
        store_pull_abort(store, number, entry, now_us);
        return NIGH_NOT_FOUND;
    }
    no_longer_pulled(store, pool, entry);
    index_set_crc(&pool->writer, entry, data_crc);
    if (wanted && !keep_now) {
        become_transient(store, pool, entry, hash);
        return NIGH_IN_USE;
    }
    index_seal(&pool->writer, entry, took_us(store, pool, entry));
    become_copy(store, pool, entry, hash);
    return NIGH_OK;
}

/* Nobody finds it there, and nobody is served with it any more: what is lent stays in its place
 * until the last loan is over. */
static void bury_pulled(struct store *store, struct store_pool *pool, uint32_t entry)
{
    index_to_deleting(&pool->writer, entry);
    store_object_obstacle(store, pool, entry, 1);
    store_deleting(store, pool, entry, store_hash(pool, entry));
}

void store_pull_abort(struct store *store, uint32_t number, uint32_t entry, uint64_t now_us)
{
    struct store_pool *pool = pool_of_pull(store, number, entry);

    store->now_us = now_us;
    no_longer_pulled(store, pool, entry);
    if (pool->records[entry].readers > 0) {
        bury_pulled(store, pool, entry);
        return;
    }
    store_memory_unbind(store, pool, entry);
    store_release(pool, entry);
}

bool store_lend_pulled(struct store *store, uint32_t number, uint32_t entry)
{
    return store_reader_enter(store, pool_of_pull(store, number, entry), entry);
}

/* ---- transient copies ---- */

/* The next transient copy of an id in its chain of shadows, and one; 0: there is none. */
static uint32_t next_transient(const struct store_pool *pool, uint32_t at, const uint8_t *id)
{
    while (at != 0 && ((pool->records[at - 1].flags & RECORD_TRANSIENT) == 0 ||
                       !index_entry_is(store_entry(pool, at - 1), id))) {
        at = pool->records[at - 1].chain;
    }
    return at;
}

bool store_has_transient(const struct store *store, uint32_t number, const uint8_t *id,
                         uint64_t hash)
{
    const struct store_pool *pool = store->pools[number];

    return pool != NULL && next_transient(pool, store_shadow_first(pool, hash), id) != 0;
}

static bool find_transient(const struct store *store, const struct store_pool *pool,
                           const struct store_pull *pull, uint32_t *entry)
{
    uint32_t at = next_transient(pool, store_shadow_first(pool, pull->hash), pull->id);

    while (at != 0 && !store_is_birth(store, pool, at - 1, &pull->birth)) {
        at = next_transient(pool, pool->records[at - 1].chain, pull->id);
    }
    *entry = at - 1;
    return at != 0;
}

nigh_status store_pull_reuse(struct store *store, const struct store_pull *pull, uint64_t now_us)
{
    struct store_pool *pool = store->pools[pull->pool];
    uint32_t entry, other;
    bool keep;

    NIGH_ASSERT(pool != NULL);
    store_begin(store, now_us);
    if (index_find(&pool->writer, pull->id, pull->hash, &other) ||
        !find_transient(store, pool, pull, &entry) ||
        !store_is_wanted_how(store, pool, pull->id, pull->hash, &keep)) {
        return NIGH_NOT_FOUND;
    }
    if (!keep) {
        store_hand_out(store, pool, entry, pull->hash);
        return NIGH_IN_USE;
    }
    store_no_longer_deleting(store, pool, entry, pull->hash);
    pool->records[entry].flags &= (uint8_t)~RECORD_TRANSIENT;
    index_from_deleting(&pool->writer, entry, 0);
    become_copy(store, pool, entry, pull->hash);
    return NIGH_OK;
}

bool store_end_transients(struct store_call *call)
{
    struct store_pool *pool = call->pool;
    uint32_t at = next_transient(pool, store_shadow_first(pool, call->hash), call->sqe->id);
    bool held = false;

    while (at != 0) {
        uint32_t next = next_transient(pool, pool->records[at - 1].chain, call->sqe->id);

        pool->records[at - 1].flags &= (uint8_t)~RECORD_TRANSIENT;
        held = store_end_buried(call->store, pool, at - 1) == NIGH_IN_USE || held;
        at = next;
    }
    return held;
}
