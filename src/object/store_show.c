/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store shows to who looks after the node (docs/page.md): its pools, and the objects that
 * are used most, with who holds them. Nothing here is decided by, and nothing changes what others
 * see: hints are read beside eviction, which takes them when it needs them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/blake.h"
#include "base/check.h"
#include "base/hash.h"
#include "object/heat.h"
#include "object/store_internal.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_session.h"

#define SHOW_HINTS 8192u /* read for one question */

/* ---- pools ---------------------------------------------------------------- */

static uint64_t leased_of(const struct store_pool *pool)
{
    uint64_t bytes = 0;

    LIST_FOREACH(node, &pool->sessions)
    {
        bytes += container_of(node, struct store_session, pool_place)->leased_bytes;
    }
    return bytes;
}

uint32_t store_show_pools(const struct store *store, struct session_show_pool *pools)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < LIMIT_POOLS; n++) {
        const struct store_pool *pool = store->pools[n];

        if (pool == NULL) {
            continue;
        }
        pools[count++] = (struct session_show_pool){
            .pool = n,
            .entries = pool->writer.index.entry_count,
            .entries_used = pool->writer.taken,
            .bytes = pool->bytes,
            .leased_bytes = leased_of(pool),
            .pinned_bytes = pool->kept_bytes,
            .objects = pool->objects,
            .unsealed = pool->objects_unsealed,
            .spilled = pool->objects_spilled,
            .deleting = pool->objects_deleting,
            .quota_bytes = pool->config.quota_bytes,
            .uid = pool->config.owner_uid,
        };
    }
    return count;
}

void store_copy_id(const struct store *store, uint32_t pool, uint32_t entry, uint8_t *id)
{
    memcpy(id, store_entry(store->pools[pool], entry)->id, LIMIT_ID_BYTES);
}

/* ---- what is used --------------------------------------------------------- */

void store_note_use(struct store *store, const struct store_pool *pool, uint32_t entry)
{
    struct heat_key key = {.pool = pool->config.pool, .entry = entry};

    if (store->heat == NULL || !heat_is_watched(store->heat, store->now_us) ||
        store_state(pool, entry) == INDEX_FREE) {
        return;
    }
    key.generation = store_generation(pool, entry);
    heat_note(store->heat, &key);
}

struct hinted {
    struct store *store;
    const struct store_pool *pool;
};

static void note_hint(void *context, uint32_t entry)
{
    struct hinted *hinted = context;

    store_note_use(hinted->store, hinted->pool, entry);
}

/* What a session's rings got since; one that is new begins with what they hold. How many were
 * looked at: those of other lanes lie there, too. */
static uint32_t take_hints(struct store *store, struct store_session *session)
{
    struct hinted hinted = {.store = store, .pool = session->pool};
    uint32_t used =
        min_u32(shared_load_acquire(&session->config.front->chunks_used), LIMIT_PIN_CHUNKS);
    uint32_t took = 0;

    for (uint32_t i = 0; i < used; i++) {
        uint32_t before = session->hints_shown[i];

        (void)pin_take_hints(&session->config.chunks[i], &session->hints_shown[i],
                             store->config.lane, session->pool->writer.entries_used, note_hint,
                             &hinted);
        took += min_u32(session->hints_shown[i] - before, LIMIT_HINTS_A_CHUNK);
    }
    return took;
}

/* Of one session after the other; those that were not reached come first next time. */
static void read_hints(struct store *store)
{
    uint32_t left = SHOW_HINTS;

    for (uint32_t n = 0; n < LIMIT_SESSIONS && left > 0; n++) {
        struct store_session *session = store->sessions[store->show_next];

        store->show_next = (store->show_next + 1) % LIMIT_SESSIONS;
        if (session != NULL) {
            left -= min_u32(take_hints(store, session), left);
        }
    }
}

void store_note_uses(struct store *store, struct store_session *session)
{
    if (store->heat != NULL && heat_is_watched(store->heat, store->now_us)) {
        (void)take_hints(store, session);
    }
}

/* ---- the hottest ---------------------------------------------------------- */

static bool name_is(const char *name, uint32_t size, const uint8_t *id)
{
    uint8_t hashed[LIMIT_ID_BYTES];

    blake_id20(name, size, hashed);
    return memcmp(hashed, id, sizeof(hashed)) == 0 && strnlen(name, size) == size;
}

/* A client wrote it: it is the name only if its hash is the id. */
static void copy_name(const struct store *store, const struct store_pool *pool, uint32_t number,
                      char name[LIMIT_NAME_BYTES + 1])
{
    const struct index_entry *entry = store_entry(pool, number);
    uint32_t size = min_u32(entry->name_size, LIMIT_NAME_BYTES);
    char copy[LIMIT_NAME_BYTES + 1] = "";
    const struct index *index = &pool->writer.index;

    if (size == 0) {
        return;
    }
    if (store_state(pool, number) == INDEX_SPILLED) {
        for (uint32_t way = 0; index->name_count > 0 && way < INDEX_NAME_WAYS; way++) {
            if (index_name_copy(index, hash_id20(entry->id), way, size, copy) &&
                name_is(copy, size, entry->id)) {
                memcpy(name, copy, size + 1);
                return;
            }
        }
        return;
    }
    memcpy(copy,
           (const uint8_t *)extent_bytes_at(store->config.extents, entry->offset) +
               index_meta_offset(entry->data_size) + entry->meta_size,
           size);
    if (name_is(copy, size, entry->id)) {
        memcpy(name, copy, size + 1);
    }
}

static nigh_object_state state_of(enum index_state state)
{
    return state == INDEX_SPILLED    ? NIGH_OBJECT_SPILLED
           : state == INDEX_DELETING ? NIGH_OBJECT_DELETING
                                     : NIGH_OBJECT_SEALED;
}

/* False: it is gone. */
static bool describe(const struct store *store, const struct heat_place *place,
                     struct session_show_object *object)
{
    const struct store_pool *pool = store->pools[place->key.pool];
    uint32_t number = place->key.entry;
    enum index_state state = store_state(pool, number);

    if ((state != INDEX_SEALED && state != INDEX_SPILLED && state != INDEX_DELETING) ||
        store_generation(pool, number) != place->key.generation) {
        return false;
    }
    memset(object, 0, sizeof(*object));
    object->pool = place->key.pool;
    object->state = state_of(state);
    object->copy = store_has_flag(pool, number, INDEX_FLAG_COPY) ? 1 : 0;
    object->data_size = store_entry(pool, number)->data_size;
    object->uses = place->uses;
    memcpy(object->id, store_entry(pool, number)->id, sizeof(object->id));
    copy_name(store, pool, number, object->name);
    return true;
}

/* How many views of each of a few entries a session has. */
struct viewed {
    uint32_t count;
    uint32_t entries[SESSION_SHOW_OBJECTS];
    uint64_t views[SESSION_SHOW_OBJECTS];
};

static void count_view(void *context, uint32_t entry)
{
    struct viewed *viewed = context;

    for (uint32_t n = 0; n < viewed->count; n++) {
        viewed->views[n] += viewed->entries[n] == entry ? 1 : 0;
    }
}

static void add_holder(struct session_show_object *object, const struct store_session *session,
                       uint64_t views)
{
    struct session_show_holder *holder;

    if (object->holder_count++ >= SESSION_SHOW_HOLDERS) {
        return;
    }
    holder = &object->holders[object->holder_count - 1];
    holder->pid = session->config.pid;
    holder->uid = session->config.uid;
    holder->views = views;
    memcpy(holder->name, session->config.name, sizeof(holder->name));
    holder->name[sizeof(holder->name) - 1] = '\0';
}

/* One look at the pins of each session of a pool, as for one WHO. */
static void find_holders(const struct store *store, uint32_t number,
                         const struct heat_place *places, struct session_show_object *objects,
                         uint32_t count)
{
    const struct store_pool *pool = store->pools[number];
    struct viewed of = {0};
    uint32_t which[SESSION_SHOW_OBJECTS];

    for (uint32_t n = 0; n < count; n++) {
        if (places[n].key.pool == number) {
            which[of.count] = n;
            of.entries[of.count++] = places[n].key.entry;
        }
    }
    if (of.count == 0) {
        return;
    }
    LIST_FOREACH(node, &pool->sessions)
    {
        const struct store_session *session = container_of(node, struct store_session, pool_place);

        memset(of.views, 0, sizeof(of.views));
        pin_table_visit(&pool->tables[session->table], store->config.lane,
                        pool->writer.index.entry_count, count_view, &of);
        for (uint32_t n = 0; n < of.count; n++) {
            if (of.views[n] > 0) {
                add_holder(&objects[which[n]], session, of.views[n]);
            }
        }
    }
}

/* Of what is gone nothing is told, and it keeps no other out. */
static uint32_t take_living(const struct store *store, struct heat_place *places,
                            struct session_show_object *objects)
{
    struct heat_place top[4 * SESSION_SHOW_OBJECTS];
    uint32_t found = heat_top(store->heat, top, 4 * SESSION_SHOW_OBJECTS), count = 0;

    for (uint32_t n = 0; n < found && count < SESSION_SHOW_OBJECTS; n++) {
        if (describe(store, &top[n], &objects[count])) {
            places[count++] = top[n];
        }
    }
    return count;
}

nigh_status store_show_hottest(struct store *store, uint64_t now_us,
                               struct session_show_object *objects, uint32_t *count, uint64_t *seen)
{
    struct heat_place places[SESSION_SHOW_OBJECTS];

    store->now_us = now_us;
    if (store->heat == NULL) {
        store->heat = calloc(1, sizeof(*store->heat));
    }
    if (store->heat == NULL) {
        return NIGH_NO_RESOURCES;
    }
    heat_look(store->heat, now_us);
    read_hints(store);
    *count = take_living(store, places, objects);
    *seen = store->heat->seen;
    for (uint32_t n = 0; n < LIMIT_POOLS; n++) {
        if (store->pools[n] != NULL) {
            find_holders(store, n, places, objects, *count);
        }
    }
    return NIGH_OK;
}
