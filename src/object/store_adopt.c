/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a restart: the books of a pool made again from the index that a former node left. First
 * what the entries say (store_pool_adopt), then, when all sessions that came back are announced,
 * what is whose (store_adopt_finish). May allocate: nobody is served yet.
 */
#include "base/check.h"
#include "object/store_create.h"
#include "object/store_delete.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_reserve.h"
#include "object/store_session.h"

#include <stdlib.h>

#include "base/table.h"

#define LOG_MODULE "store"
#include "base/log.h"

/* ---- what the entries say ---- */

struct adoption {
    struct store *store;
    struct store_pool *pool;
};

/* Claims the memory that an entry names. False: it is not the pool's, or another's already. */
static bool claim_memory(struct store *store, struct store_pool *pool, uint64_t offset,
                         uint64_t bytes, uint32_t *block)
{
    const struct extent_set *set = store->config.extents;
    uint64_t extent = offset >> set->extent_shift;
    uint32_t heap;
    uint64_t owner;

    if (extent < store_extents_first(store) || extent >= store_extents_end(store)) {
        return false;
    }
    owner = atomic_load_explicit(&set->extents[extent].owner, memory_order_relaxed);
    if (owner >> 32 != (uint64_t)pool->config.pool + 1 ||
        heaps_open(store->heaps, owner, &heap) != NIGH_OK ||
        heap_claim(store->heaps, heap, offset, bytes, block) != NIGH_OK) {
        return false;
    }
    store_live(store, heap_block_offset(store->heaps, *block),
               heap_block_bytes(store->heaps, *block), true);
    return true;
}

static void adopt_sealed(struct store *store, struct store_pool *pool, uint32_t entry)
{
    pool->objects++;
    if (store_has_flag(pool, entry, INDEX_STAYS)) {
        store_object_obstacle(store, pool, entry, 1);
        pool->kept_bytes += store_memory_bytes(store, pool, entry);
    }
}

/* Whose memory a lease or a created object is, store_adopt_finish finds out. */
static bool adopt_entry(void *context, uint32_t entry, enum index_state state)
{
    struct adoption *adoption = context;
    struct store *store = adoption->store;
    struct store_pool *pool = adoption->pool;
    uint32_t block;

    if (state == INDEX_LEASE) {
        return true;
    }
    if (state == INDEX_SPILLED) {
        pool->records[entry].flags |= RECORD_ON_DISK;
        store->spilled_bytes += store_object_bytes(pool, entry);
        store_reserve_count(store, pool, entry, 1);
        pool->objects_spilled++;
        return true;
    }
    if (!claim_memory(store, pool, store_entry(pool, entry)->offset,
                      store_object_bytes(pool, entry), &block)) {
        return false;
    }
    store_memory_bind(store, pool, entry, block);
    if (state == INDEX_SEALED) {
        adopt_sealed(store, pool, entry);
    } else if (state == INDEX_DELETING) {
        store_object_obstacle(store, pool, entry, 1);
        store_deleting(store, pool, entry, store_hash(pool, entry));
    }
    return true;
}

/* The extents of the pool in this lane become heaps again, all of them free at first. */
static nigh_status adopt_extents(struct store *store, struct store_pool *pool)
{
    const struct extent_set *set = store->config.extents;

    for (uint32_t e = store_extents_first(store); e < store_extents_end(store); e++) {
        uint64_t owner = atomic_load_explicit(&set->extents[e].owner, memory_order_relaxed);
        uint32_t heap;
        nigh_status status;

        if (!set->extents[e].present || owner >> 32 != (uint64_t)pool->config.pool + 1) {
            continue;
        }
        status = heaps_open(store->heaps, owner, &heap);
        if (status == NIGH_OK) {
            status = heap_adopt_extent(store->heaps, heap, e);
        }
        if (status != NIGH_OK) {
            return status;
        }
    }
    return NIGH_OK;
}

/* ---- what the policy is told ---- */

/* An object in the order of births: its generation, from the oldest's on, above its number. */
#define AGE_SHIFT 26u
#define AGE_MAX   ((UINT64_C(1) << (64 - AGE_SHIFT)) - 1)

_Static_assert(LIMIT_INDEX_ENTRIES <= 1u << AGE_SHIFT, "a number fits below the age");

static uint64_t oldest(const struct store_pool *pool)
{
    uint64_t generation = INDEX_GENERATION_MAX;

    for (uint32_t e = 0; e < pool->writer.entries_used; e++) {
        if (store_state(pool, e) == INDEX_SEALED) {
            generation = min_u64(generation, store_generation(pool, e));
        }
    }
    return generation;
}

/* Sorts by the ages, byte by byte from the last; the result is in `ages` or in `spare`. */
static uint64_t *sort_ages(uint64_t *ages, uint64_t *spare, size_t count)
{
    for (uint32_t shift = AGE_SHIFT; shift < 64; shift += 8) {
        size_t place[257] = {0};
        uint64_t *sorted = spare;

        for (size_t i = 0; i < count; i++) {
            place[(ages[i] >> shift & 0xff) + 1]++;
        }
        for (uint32_t n = 1; n < 257; n++) {
            place[n] += place[n - 1];
        }
        for (size_t i = 0; i < count; i++) {
            sorted[place[ages[i] >> shift & 0xff]++] = ages[i];
        }
        spare = ages;
        ages = sorted;
    }
    return ages;
}

static void admit(struct store *store, struct store_pool *pool, uint32_t entry)
{
    if (store_state(pool, entry) == INDEX_SEALED && !store_has_flag(pool, entry, INDEX_STAYS)) {
        evict_admit(&pool->evict, entry, store_memory_bytes(store, pool, entry),
                    store_hash(pool, entry));
    }
}

/* The policy meets the objects in the order of their births, as the node before met them: numbers
 * are given again, so that theirs says nothing. Without the memory to sort them, it is theirs. */
static void admit_by_age(struct store *store, struct store_pool *pool)
{
    uint64_t first = oldest(pool);
    uint64_t *ages = calloc((size_t)pool->objects + 1, sizeof(*ages));
    uint64_t *spare = calloc((size_t)pool->objects + 1, sizeof(*spare));
    size_t count = 0;

    for (uint32_t e = 0; e < pool->writer.entries_used; e++) {
        if (ages == NULL || spare == NULL) {
            admit(store, pool, e);
        } else if (store_state(pool, e) == INDEX_SEALED) {
            uint64_t age = min_u64(store_generation(pool, e) - first, AGE_MAX);

            ages[count++] = age << AGE_SHIFT | e;
        }
    }
    if (count > 0) {
        const uint64_t *sorted = sort_ages(ages, spare, count);

        for (size_t i = 0; i < count; i++) {
            admit(store, pool, (uint32_t)(sorted[i] & ((UINT64_C(1) << AGE_SHIFT) - 1)));
        }
    }
    free(spare);
    free(ages);
}

nigh_status store_pool_adopt(struct store *store, const struct store_pool_config *config)
{
    struct adoption adoption = {.store = store};
    struct index_rebuilt rebuilt;
    nigh_status status = store_pool_begin(store, config, &adoption.pool);

    if (status != NIGH_OK) {
        return status;
    }
    status = adopt_extents(store, adoption.pool);
    if (status != NIGH_OK) {
        store_pool_end(store, adoption.pool);
        return status;
    }
    index_rebuild(&adoption.pool->writer, adopt_entry, &adoption, &rebuilt);
    admit_by_age(store, adoption.pool);
    adoption.pool->adopted = true;
    store->adopting = true;
    if (rebuilt.bad + rebuilt.refused + rebuilt.doubles > 0) {
        LOG_WARN("entries of an adopted index were dropped",
                 "pool=%u torn=%u without_memory=%u doubles=%u do=\"put again what is missed: what "
                 "the node was changing as it died was not whole\"",
                 config->pool, rebuilt.bad, rebuilt.refused, rebuilt.doubles);
    }
    return NIGH_OK;
}

/* ---- leases ---- */

/* A stretch of the arena. */
struct stretch {
    uint64_t offset;
    uint64_t bytes;
};

/* Stretches that an index says are in use, for finding what is left of a lease. */
struct stretches {
    struct stretch *at;
    size_t count;
    size_t room;
};

static int stretch_order(const void *a, const void *b)
{
    const struct stretch *left = a, *right = b;

    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

static void stretch_add(struct stretches *stretches, uint64_t offset, uint64_t bytes)
{
    NIGH_ASSERT(stretches->count < stretches->room);
    stretches->at[stretches->count++] = (struct stretch){offset, bytes};
}

/* The memory of all objects of the pool, by address. */
static bool list_objects(const struct store *store, const struct store_pool *pool,
                         struct stretches *objects)
{
    *objects = (struct stretches){.room = (size_t)pool->writer.taken + 1};
    objects->at = calloc(objects->room, sizeof(*objects->at));
    if (objects->at == NULL) {
        return false;
    }
    for (uint32_t e = 0; e < pool->writer.entries_used; e++) {
        if (pool->records[e].block != 0) {
            stretch_add(objects, store_entry(pool, e)->offset, store_memory_bytes(store, pool, e));
        }
    }
    qsort(objects->at, objects->count, sizeof(*objects->at), stretch_order);
    return true;
}

/*
 * What lies in a lease: the objects, of which the one before may reach into it, and leases that are
 * younger (its own hole, evicted and leased again). `inside` has room for all of them.
 */
static void list_inside(const struct store_pool *pool, uint32_t lease,
                        const struct stretches *objects, const uint32_t *leases,
                        uint32_t lease_count, struct stretches *inside)
{
    uint64_t begin = store_entry(pool, lease)->offset;
    uint64_t end = begin + store_entry(pool, lease)->data_size;
    size_t low = 0, high = objects->count;

    inside->count = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (objects->at[middle].offset + objects->at[middle].bytes <= begin) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < objects->count && objects->at[low].offset < end; low++) {
        stretch_add(inside, objects->at[low].offset, objects->at[low].bytes);
    }
    for (uint32_t i = 0; i < lease_count; i++) {
        const struct index_entry *other = store_entry(pool, leases[i]);

        if (store_generation(pool, leases[i]) > store_generation(pool, lease) &&
            other->offset < end && other->offset + other->data_size > begin) {
            stretch_add(inside, other->offset, other->data_size);
        }
    }
    qsort(inside->at, inside->count, sizeof(*inside->at), stretch_order);
}

static void claim_piece(struct store *store, struct store_session *session,
                        struct store_lease *lease, uint64_t begin, uint64_t end)
{
    uint32_t block;

    if (end <= begin || !claim_memory(store, session->pool, begin, end - begin, &block)) {
        return;
    }
    if (lease->pieces < LIMIT_LEASE_PIECES) {
        store_lease_add_piece(store, session, lease, block);
    } else {
        store_lease_add_rest(store, session, lease, block);
    }
}

/* A session has its lease again: what no object lies in. */
static void adopt_lease(struct store *store, struct store_session *session, uint32_t entry,
                        struct stretches *inside)
{
    uint64_t offset = store_entry(session->pool, entry)->offset;
    uint64_t bytes = store_entry(session->pool, entry)->data_size;
    uint64_t at = offset;
    struct store_lease *lease = NULL;

    for (uint32_t i = 0; i < LIMIT_LEASES_A_SESSION && lease == NULL; i++) {
        if (session->leases[i].entry == STORE_NONE) {
            lease = &session->leases[i];
        }
    }
    if (lease == NULL) {
        index_release(&session->pool->writer, entry);
        return;
    }
    store_lease_begin(store, lease, entry, offset, bytes);
    /* Turned inside out: what lies between, from `at` to where the next begins. */
    for (size_t i = 0; i < inside->count; i++) {
        uint64_t begin = at;

        at = max_u64(at, inside->at[i].offset + inside->at[i].bytes);
        inside->at[i].bytes = inside->at[i].offset > begin ? inside->at[i].offset - begin : 0;
        inside->at[i].offset = begin;
    }
    /* From the end, where the client goes on cutting: holes of objects that are gone are pieces too
     * now, and may be more than a lease has. Somebody may still write to any of them, so those too
     * stay the lease's until it ends. */
    claim_piece(store, session, lease, at, offset + bytes);
    for (size_t i = inside->count; i-- > 0;) {
        claim_piece(store, session, lease, inside->at[i].offset,
                    inside->at[i].offset + inside->at[i].bytes);
    }
    if (lease->pieces == 0) {
        store_lease_end(store, session, lease);
    }
}

/* ---- what is whose ---- */

/* The sessions of a pool by the 32 bits of their ids that entries name. */
static bool map_sessions(const struct store_pool *pool, struct table *map)
{
    if (table_init(map, LIMIT_SESSIONS, 0) != NIGH_OK) {
        return false;
    }
    LIST_FOREACH(node, &pool->sessions)
    {
        struct store_session *session = container_of(node, struct store_session, pool_place);

        (void)table_insert_pointer(map, (uint32_t)session->config.session_id, session);
    }
    return true;
}

/* A created object without its session: as if the session had just ended. */
static void drop_created(struct store *store, struct store_pool *pool, uint32_t entry)
{
    if (store_has_flag(pool, entry, INDEX_FLAG_CLAIMED)) {
        index_remove(&pool->writer, store_hash(pool, entry), entry);
    }
    store_memory_unbind(store, pool, entry);
    store_release(pool, entry);
}

static void assign(struct store *store, struct store_pool *pool, uint32_t entry,
                   struct store_session *session)
{
    struct store_record *record = &pool->records[entry];
    enum index_state state = store_state(pool, entry);

    if (session == NULL) {
        if (state == INDEX_CREATED) {
            drop_created(store, pool, entry);
        }
        return;
    }
    record->maker = (uint16_t)session->config.session;
    record->serial = session->serial;
    if (state == INDEX_SPILLED) {
        return;
    }
    store_charge(session, store_memory_bytes(store, pool, entry));
    if (state == INDEX_CREATED) {
        store_created(store, pool, session, entry, store_hash(pool, entry));
    } else if (state == INDEX_SEALED) {
        store_list_push(pool, &session->made, entry);
    }
}

/* Gives the leases back to their sessions; those of nobody end. */
static void assign_leases(struct store *store, struct store_pool *pool, struct table *map,
                          const uint32_t *leases, uint32_t count)
{
    struct stretches objects = {0}, inside = {0};
    bool listed = list_objects(store, pool, &objects);

    inside.room = objects.count + count;
    inside.at = listed && inside.room > 0 ? calloc(inside.room, sizeof(*inside.at)) : NULL;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = pool->writer.index.cold[leases[i]].session;
        struct store_session *session = table_find_pointer(map, number);

        if (session == NULL || inside.at == NULL) {
            index_release(&pool->writer, leases[i]);
            continue;
        }
        list_inside(pool, leases[i], &objects, leases, count, &inside);
        adopt_lease(store, session, leases[i], &inside);
    }
    free(inside.at);
    free(objects.at);
}

static void finish_pool(struct store *store, struct store_pool *pool)
{
    uint32_t *leases = calloc((size_t)pool->writer.taken + 1, sizeof(*leases));
    uint32_t lease_count = 0;
    struct table map = {0};
    bool mapped = map_sessions(pool, &map) && leases != NULL;

    if (!mapped) {
        LOG_ERROR("no memory to give sessions back what is theirs",
                  "pool=%u do=\"free some on the machine, and open those clients anew\"",
                  pool->config.pool);
    }
    for (uint32_t e = 0; e < pool->writer.entries_used; e++) {
        enum index_state state = store_state(pool, e);
        uint32_t number = pool->writer.index.cold[e].session;

        if (state == INDEX_LEASE && mapped) {
            leases[lease_count++] = e;
        } else if (state == INDEX_LEASE) {
            index_release(&pool->writer, e);
        } else if (state != INDEX_FREE && pool->records[e].serial == 0) {
            /* Of what was not granted its client never heard. */
            bool owned = mapped && !store_has_flag(pool, e, INDEX_FLAG_COPY | INDEX_FLAG_ASKED);

            assign(store, pool, e, owned ? table_find_pointer(&map, number) : NULL);
        }
    }
    if (mapped) {
        assign_leases(store, pool, &map, leases, lease_count);
    }
    table_fini(&map);
    free(leases);
}

bool store_is_adopting(const struct store *store)
{
    return store->adopting;
}

void store_adopt_finish(struct store *store)
{
    store->adopting = false;
    for (uint32_t i = 0; i < LIMIT_POOLS; i++) {
        if (store->pools[i] != NULL && store->pools[i]->adopted) {
            store->pools[i]->adopted = false;
            store_forget_extents(store, store->pools[i]);
            finish_pool(store, store->pools[i]);
        }
    }
}
