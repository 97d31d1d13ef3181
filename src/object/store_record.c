/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lane's books of objects: lists through records, shadows (objects that no slot names), what
 * lies in which extent, who pays for what. Decides nothing about objects.
 */
#include "base/check.h"
#include "object/store_figures.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_reserve.h"
#include "object/store_session.h"

/* ---- lists ---- */

void store_list_push(struct store_pool *pool, struct store_list *list, uint32_t entry)
{
    struct store_record *record = &pool->records[entry];

    NIGH_ASSERT(record->next == 0 && record->prev == 0);
    record->prev = list->last;
    if (list->last != 0) {
        pool->records[list->last - 1].next = entry + 1;
    } else {
        list->first = entry + 1;
    }
    list->last = entry + 1;
    list->count++;
}

void store_list_remove(struct store_pool *pool, struct store_list *list, uint32_t entry)
{
    struct store_record *record = &pool->records[entry];

    if (record->prev != 0) {
        pool->records[record->prev - 1].next = record->next;
    } else if (list != NULL) {
        NIGH_ASSERT(list->first == entry + 1);
        list->first = record->next;
    }
    if (record->next != 0) {
        pool->records[record->next - 1].prev = record->prev;
    } else if (list != NULL) {
        NIGH_ASSERT(list->last == entry + 1);
        list->last = record->prev;
    }
    if (list != NULL) {
        list->count--;
    }
    record->next = 0;
    record->prev = 0;
}

struct store_session *store_maker(const struct store *store, const struct store_record *record)
{
    struct store_session *session;

    if (record->serial == 0) {
        return NULL;
    }
    session = store->sessions[record->maker];
    return session != NULL && session->serial == record->serial ? session : NULL;
}

struct store_list *store_list_of(struct store *store, struct store_pool *pool, uint32_t entry)
{
    struct store_session *session;

    if (store_is_mere_copy(pool, entry)) {
        return &pool->copies;
    }
    session = store_maker(store, &pool->records[entry]);
    return session != NULL ? &session->made : NULL;
}

/* ---- shadows ---- */

static uint32_t *shadow_bucket(struct store_pool *pool, uint64_t hash)
{
    return &pool->shadows[(hash >> 16) % STORE_SHADOW_BUCKETS];
}

void store_shadow_add(struct store_pool *pool, uint64_t hash, uint32_t entry)
{
    uint32_t *bucket = shadow_bucket(pool, hash);

    NIGH_ASSERT(pool->records[entry].chain == 0);
    pool->records[entry].chain = *bucket;
    *bucket = entry + 1;
}

void store_shadow_remove(struct store_pool *pool, uint64_t hash, uint32_t entry)
{
    uint32_t *link = shadow_bucket(pool, hash);

    while (*link != entry + 1) {
        NIGH_ASSERT(*link != 0);
        link = &pool->records[*link - 1].chain;
    }
    *link = pool->records[entry].chain;
    pool->records[entry].chain = 0;
}

uint32_t store_shadow_first(const struct store_pool *pool, uint64_t hash)
{
    return pool->shadows[(hash >> 16) % STORE_SHADOW_BUCKETS];
}

bool store_shadow_find(struct store_pool *pool, const uint8_t *id, uint64_t hash, uint32_t *entry)
{
    uint32_t found = 0;

    /* A created object says more about an id than one that is on its way out. */
    for (uint32_t at = *shadow_bucket(pool, hash); at != 0; at = pool->records[at - 1].chain) {
        if (index_entry_is(&pool->writer.index.entries[at - 1], id)) {
            found = at;
            if (store_state(pool, at - 1) == INDEX_CREATED) {
                break;
            }
        }
    }
    if (found == 0) {
        return false;
    }
    *entry = found - 1;
    return true;
}

/* ---- extents ---- */

static struct store_extent *extent_of(struct store *store, uint64_t offset)
{
    return &store->extents[offset >> store->config.extents->extent_shift];
}

void store_live(struct store *store, uint64_t offset, uint64_t bytes, bool live)
{
    uint64_t extent_bytes = store->config.extents->extent_bytes;

    if (live) {
        store->used_bytes += bytes;
    } else {
        NIGH_ASSERT(store->used_bytes >= bytes);
        store->used_bytes -= bytes;
    }
    while (bytes > 0) {
        uint64_t part = min_u64(bytes, extent_bytes - (offset & (extent_bytes - 1)));
        struct store_extent *extent = extent_of(store, offset);

        extent->live_bytes = live ? extent->live_bytes + part : extent->live_bytes - part;
        offset += part;
        bytes -= part;
    }
}

void store_obstacle(struct store *store, uint64_t offset, uint64_t bytes, int change)
{
    uint32_t shift = store->config.extents->extent_shift;

    for (uint64_t at = offset >> shift; at <= (offset + bytes - 1) >> shift; at++) {
        store->extents[at].obstacles += (uint32_t)change;
    }
}

void store_object_obstacle(struct store *store, struct store_pool *pool, uint32_t entry, int change)
{
    uint32_t block = pool->records[entry].block - 1;

    store_obstacle(store, heap_block_offset(store->heaps, block),
                   heap_block_bytes(store->heaps, block), change);
}

void store_passing(struct store *store, struct store_pool *pool, uint32_t entry, int change)
{
    uint64_t bytes = store_memory_bytes(store, pool, entry);

    store_object_obstacle(store, pool, entry, change);
    pool->passing_bytes += change > 0 ? bytes : -bytes;
}

void store_backed(struct store *store, const struct store_pool *pool, uint32_t entry, bool backed)
{
    const struct store_record *record = &pool->records[entry];
    uint64_t extent_bytes = store->config.extents->extent_bytes;
    uint64_t offset, bytes;

    if (record->block == 0 || (record->flags & RECORD_ON_DISK) == 0) {
        return;
    }
    offset = heap_block_offset(store->heaps, record->block - 1);
    bytes = heap_block_bytes(store->heaps, record->block - 1);
    while (bytes > 0) {
        uint64_t part = min_u64(bytes, extent_bytes - (offset & (extent_bytes - 1)));

        extent_of(store, offset)->backed_bytes += backed ? part : -part;
        offset += part;
        bytes -= part;
    }
}

static void near_link(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t offset)
{
    struct store_extent *extent = extent_of(store, offset);
    struct store_record *record = &pool->records[entry];

    record->near_prev = 0;
    record->near_next = extent->first;
    if (extent->first != 0) {
        pool->records[extent->first - 1].near_prev = entry + 1;
    }
    extent->first = entry + 1;
}

static void near_unlink(struct store *store, struct store_pool *pool, uint32_t entry,
                        uint64_t offset)
{
    struct store_record *record = &pool->records[entry];

    if (record->near_prev != 0) {
        pool->records[record->near_prev - 1].near_next = record->near_next;
    } else {
        NIGH_ASSERT(extent_of(store, offset)->first == entry + 1);
        extent_of(store, offset)->first = record->near_next;
    }
    if (record->near_next != 0) {
        pool->records[record->near_next - 1].near_prev = record->near_prev;
    }
    record->near_next = 0;
    record->near_prev = 0;
}

/* ---- memory of objects ---- */

nigh_status store_block_take(struct store *store, uint32_t heap, uint64_t bytes, uint32_t *block)
{
    nigh_status status;

    if (!store_reserve_lets_take(store, bytes)) {
        return NIGH_OUT_OF_MEMORY;
    }
    status = heap_alloc(store->heaps, heap, bytes, block);
    if (status == NIGH_OK) {
        store_live(store, heap_block_offset(store->heaps, *block),
                   heap_block_bytes(store->heaps, *block), true);
    }
    return status;
}

void store_block_give(struct store *store, uint32_t block)
{
    store_live(store, heap_block_offset(store->heaps, block), heap_block_bytes(store->heaps, block),
               false);
    heap_free(store->heaps, block);
    store->memory_freed = true;
}

void store_memory_bind(struct store *store, struct store_pool *pool, uint32_t entry, uint32_t block)
{
    struct store_record *record = &pool->records[entry];
    uint64_t bytes = heap_block_bytes(store->heaps, block);

    NIGH_ASSERT(record->block == 0);
    if ((record->flags & RECORD_ON_DISK) == 0) {
        store_reserve_count(store, pool, entry, 1);
    }
    record->block = block + 1;
    store_backed(store, pool, entry, true);
    near_link(store, pool, entry, heap_block_offset(store->heaps, block));
    pool->bytes += bytes;
}

uint64_t store_memory_unbind(struct store *store, struct store_pool *pool, uint32_t entry)
{
    struct store_record *record = &pool->records[entry];
    uint32_t block = record->block - 1;
    uint64_t bytes = heap_block_bytes(store->heaps, block);

    NIGH_ASSERT(record->block != 0 && pool->bytes >= bytes);
    near_unlink(store, pool, entry, heap_block_offset(store->heaps, block));
    if ((record->flags & RECORD_ON_DISK) == 0) {
        store_reserve_count(store, pool, entry, -1);
    }
    store_backed(store, pool, entry, false);
    record->block = 0;
    pool->bytes -= bytes;
    store_block_give(store, block);
    return bytes;
}

uint64_t store_memory_bytes(const struct store *store, const struct store_pool *pool,
                            uint32_t entry)
{
    uint32_t block = pool->records[entry].block;

    return block == 0 ? 0 : heap_block_bytes(store->heaps, block - 1);
}

/* What is being pulled is passing already: its bytes count once. */
static void reading(struct store *store, struct store_pool *pool, uint32_t entry, int change)
{
    if (store_state(pool, entry) == INDEX_CREATED && store_has_flag(pool, entry, INDEX_FLAG_COPY)) {
        store_object_obstacle(store, pool, entry, change);
    } else {
        store_passing(store, pool, entry, change);
    }
}

bool store_reader_enter(struct store *store, struct store_pool *pool, uint32_t entry)
{
    struct store_record *record = &pool->records[entry];

    if (record->readers == UINT8_MAX) {
        return false;
    }
    if (record->readers++ == 0) {
        reading(store, pool, entry, 1);
    }
    return true;
}

void store_reader_leave(struct store *store, struct store_pool *pool, uint32_t entry)
{
    struct store_record *record = &pool->records[entry];

    NIGH_ASSERT(record->readers > 0);
    if (--record->readers == 0) {
        reading(store, pool, entry, -1);
    }
}

/* ---- who pays ---- */

void store_charge(struct store_session *session, uint64_t bytes)
{
    session->counted_bytes += bytes;
    if (session->config.quota_used != NULL) {
        atomic_fetch_add_explicit(session->config.quota_used, bytes, memory_order_relaxed);
    }
}

void store_discharge(struct store_session *session, uint64_t bytes)
{
    NIGH_ASSERT(session->counted_bytes >= bytes);
    session->counted_bytes -= bytes;
    if (session->config.quota_used != NULL) {
        atomic_fetch_sub_explicit(session->config.quota_used, bytes, memory_order_relaxed);
    }
}

uint64_t store_wall_ns(struct store *store)
{
    /* Reading the wall clock for every seal would cost a tenth of it: once a second will do. */
    if (store->wall_ns == 0 || store->now_us < store->wall_at_us ||
        store->now_us - store->wall_at_us >= STORE_WALL_US) {
        store->wall_ns = store->config.wall_ns(store->config.shell.context);
        store->wall_at_us = store->now_us;
    }
    return store->wall_ns + (store->now_us - store->wall_at_us) * 1000;
}

void store_say(struct store *store, struct store_pool *pool, uint32_t entry, nigh_event_kind kind)
{
    const struct index_entry *at = &pool->writer.index.entries[entry];
    struct session_event event;

    if (list_empty(&pool->subscribers)) {
        return;
    }
    memcpy(event.id, at->id, LIMIT_ID_BYTES);
    event.kind_meta = (uint32_t)kind | at->meta_size << 8;
    event.data_size = at->data_size;
    LIST_FOREACH(node, &pool->subscribers)
    {
        struct store_session *session = container_of(node, struct store_session, subscriber_place);

        if (kind == NIGH_EVENT_CONFLICT) {
            enum nigh_event_kind said = session->hears_conflicts ? kind : NIGH_EVENT_DELETED;

            event.kind_meta = (uint32_t)said | at->meta_size << 8;
        }
        /* What the replay has not reached yet, it will tell as it finds it. */
        if (!session->replaying || entry < session->replay) {
            store->config.shell.event(store->config.shell.context, session->config.session, &event);
        }
    }
}
