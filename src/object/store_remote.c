/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects as other nodes see them: what is here, of which birth; loans of their memory; drops for
 * another node's sake. What comes from other nodes is store_pull.c's, who waits for them
 * store_want.c's.
 */
#include "base/check.h"
#include "object/store_claim.h"
#include "object/store_create.h"
#include "object/store_delete.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_remote.h"
#include "object/store_spill.h"

void store_set_remote(struct store *store, const struct store_remote *remote)
{
    NIGH_ASSERT(remote->want != NULL && remote->unwant != NULL && remote->sealed != NULL &&
                remote->gone != NULL && remote->claim != NULL && remote->erase != NULL &&
                remote->erase_room != NULL);
    store->remote = *remote;
    store->has_remote = true;
}

void store_begin(struct store *store, uint64_t now_us)
{
    store->now_us = now_us;
    store->rounds = LIMIT_EVICT_ROUNDS;
    if (unlikely(store->adopting)) {
        store_adopt_finish(store); /* whose pins there are must be known */
    }
}

/* ---- births ---- */

/* The generation is the counter: it stays with an entry while the object is on disk and when it
 * comes back, it is never used twice, and a restart finds it, as it finds the incarnation. */
static struct birth birth_of(const struct store *store, const struct store_pool *pool,
                             uint32_t entry)
{
    if (store_has_flag(pool, entry, INDEX_FLAG_COPY)) {
        const struct index_birth *birth = &pool->writer.index.births[entry];

        return (struct birth){
            .counter = birth->counter, .incarnation = birth->incarnation, .rank = birth->rank};
    }
    return (struct birth){
        .counter = store_generation(pool, entry),
        .incarnation = store_entry(pool, entry)->incarnation,
        .rank = store->config.rank,
    };
}

bool store_is_birth(const struct store *store, const struct store_pool *pool, uint32_t entry,
                    const struct birth *birth)
{
    struct birth here = birth_of(store, pool, entry);

    return birth_equal(&here, birth);
}

/* ---- sights ---- */

/* Whether an entry is one that other nodes may know of. */
static bool is_shown(const struct store_pool *pool, uint32_t entry)
{
    enum index_state state = store_state(pool, entry);

    return state == INDEX_SEALED ||
           (state == INDEX_SPILLED && (pool->records[entry].flags & RECORD_DOOMED) == 0);
}

static bool find_shown(const struct store *store, uint32_t number, const uint8_t *id, uint64_t hash,
                       uint32_t *entry)
{
    const struct store_pool *pool = store->pools[number];

    return pool != NULL && index_find(&pool->writer, id, hash, entry) && is_shown(pool, *entry);
}

static uint32_t replicas_of(const struct store_pool *pool, uint32_t entry)
{
    uint32_t less_one =
        (shared_load_relaxed(&store_entry(pool, entry)->flags) & INDEX_REPLICAS_MASK) >>
        INDEX_REPLICAS_SHIFT;

    if (less_one == 0) {
        return store_has_flag(pool, entry, INDEX_FLAG_GIVEN) ? 1 : 0;
    }
    return less_one + 1;
}

struct store_sight store_sight_of(const struct store *store, const struct store_pool *pool,
                                  uint32_t entry, uint64_t hash)
{
    const struct index_entry *at = store_entry(pool, entry);
    bool in_memory = store_state(pool, entry) == INDEX_SEALED;
    bool is_claim = store_is_claim(pool, entry);
    struct store_sight sight = {
        .pool = pool->config.pool,
        .entry = entry,
        .hash = hash,
        .birth = birth_of(store, pool, entry),
        .offset = in_memory ? at->offset : 0,
        .data_size = at->data_size,
        .meta_size = at->meta_size,
        .name_size = at->name_size,
        .bytes = store_object_bytes(pool, entry),
        .data_crc = shared_load_relaxed(&at->data_crc),
        .has_crc = store_has_flag(pool, entry, INDEX_FLAG_CHECKSUM),
        .is_copy = store_has_flag(pool, entry, INDEX_FLAG_COPY),
        .is_given = store_has_flag(pool, entry, INDEX_FLAG_GIVEN),
        .in_memory = in_memory,
        .replicas = replicas_of(pool, entry),
        .is_claim = is_claim,
        .is_granted = is_claim && !store_has_flag(pool, entry, INDEX_FLAG_ASKED),
    };

    memcpy(sight.id, at->id, LIMIT_ID_BYTES);
    return sight;
}

bool store_see(struct store *store, uint32_t pool, const uint8_t *id, uint64_t hash,
               struct store_sight *sight)
{
    uint32_t entry;

    if (!find_shown(store, pool, id, hash, &entry)) {
        return false;
    }
    *sight = store_sight_of(store, store->pools[pool], entry, hash);
    return true;
}

bool store_next(struct store *store, uint32_t number, uint32_t *cursor, struct store_sight *sight)
{
    const struct store_pool *pool = store->pools[number];

    if (pool == NULL || *cursor >= pool->writer.entries_used) {
        return false;
    }
    for (uint32_t looks = 0; looks < LIMIT_EVICT_SCAN && *cursor < pool->writer.entries_used;
         looks++) {
        uint32_t entry = (*cursor)++;

        if (is_shown(pool, entry) || store_is_claim(pool, entry)) {
            *sight = store_sight_of(store, pool, entry, store_hash(pool, entry));
            return true;
        }
    }
    *sight = (struct store_sight){.pool = number, .entry = STORE_NONE};
    return true;
}

/* ---- news ---- */

void store_tell_sealed(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash)
{
    struct store_sight sight;

    if (!store->has_remote) {
        return;
    }
    sight = store_sight_of(store, pool, entry, hash);
    store->remote.sealed(store->remote.context, &sight);
}

void store_tell_gone(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash)
{
    struct birth birth;

    if (!store->has_remote) {
        return;
    }
    birth = birth_of(store, pool, entry);
    store->remote.gone(store->remote.context, pool->config.pool, store_entry(pool, entry)->id, hash,
                       &birth);
}

/* ---- loans ---- */

void store_note_lost(struct store *store, const struct store_pool *pool, uint32_t entry,
                     nigh_status status)
{
    store->lost[store->lost_next++ % STORE_LOST_READS] = (struct store_lost_read){
        .generation = store_generation(pool, entry),
        .at_us = store->now_us,
        .pool = pool->config.pool,
        .status = status,
    };
}

/* Why an object was not read back, once; NIGH_OK: it was not tried. */
static nigh_status take_lost(struct store *store, const struct store_pool *pool, uint32_t entry)
{
    for (uint32_t i = 0; i < STORE_LOST_READS; i++) {
        struct store_lost_read *lost = &store->lost[i];

        if (lost->generation == store_generation(pool, entry) && lost->pool == pool->config.pool) {
            lost->generation = 0;
            if (store->now_us - lost->at_us <= STORE_LOST_US)
                return lost->status;
        }
    }
    return NIGH_OK;
}

/* Reads a spilled object back without anyone who waits for it: NIGH_PENDING, or why not. */
static nigh_status lend_spilled(struct store *store, struct store_pool *pool, uint32_t entry)
{
    uint64_t bytes = store_object_bytes(pool, entry), spent = 0;
    uint32_t block;
    nigh_status status;

    if ((pool->records[entry].flags & RECORD_READING) != 0) {
        pool->records[entry].flags |= RECORD_ASKED;
        return NIGH_PENDING;
    }
    if (!store_spills(store)) {
        return NIGH_DISK; /* spilled by a node before this one, which had a directory */
    }
    status = take_lost(store, pool, entry);
    store->reading_back = true;
    if (status == NIGH_OK) {
        status = store_fit_pool(store, pool, bytes);
    }
    if (status == NIGH_OK) {
        status = store_obtain_unasked(store, pool, bytes, &spent, &block);
    }
    store->reading_back = false;
    if (status != NIGH_OK) {
        return status == NIGH_LIMIT || status == NIGH_QUOTA ? NIGH_OUT_OF_MEMORY : status;
    }
    if (store_unspill_into(store, pool, entry, block)) {
        pool->records[entry].flags |= RECORD_ASKED;
    } else {
        store_block_return(store, block); /* the disk's queue is full */
    }
    return NIGH_PENDING;
}

nigh_status store_lend(struct store *store, uint32_t number, const uint8_t *id, uint64_t hash,
                       const struct birth *birth, uint64_t now_us, struct store_sight *sight)
{
    struct store_pool *pool = store->pools[number];
    uint32_t entry;

    store_begin(store, now_us);
    if (!find_shown(store, number, id, hash, &entry) ||
        (birth != NULL && !store_is_birth(store, pool, entry, birth))) {
        return NIGH_NOT_FOUND;
    }
    if (store_state(pool, entry) == INDEX_SPILLED) {
        return lend_spilled(store, pool, entry);
    }
    if (!store_reader_enter(store, pool, entry)) {
        return NIGH_BUSY;
    }
    evict_touch(&pool->evict, entry);
    store_note_use(store, pool, entry);
    *sight = store_sight_of(store, pool, entry, hash);
    return NIGH_OK;
}

void store_lend_end(struct store *store, uint32_t number, uint32_t entry)
{
    struct store_pool *pool = store->pools[number];

    NIGH_ASSERT(pool != NULL && entry < pool->writer.entries_used);
    store_reader_leave(store, pool, entry);
    if (pool->records[entry].readers == 0 && store_state(pool, entry) == INDEX_DELETING) {
        store->pins_changed = true; /* its grave is visited in the next turn */
    }
}

void store_note_crc(struct store *store, uint32_t number, uint32_t entry, uint32_t crc)
{
    struct store_pool *pool = store->pools[number];

    NIGH_ASSERT(pool != NULL && entry < pool->writer.entries_used &&
                pool->records[entry].readers > 0);
    if (!store_has_flag(pool, entry, INDEX_FLAG_CHECKSUM)) {
        index_set_crc(&pool->writer, entry, crc);
    }
}

/* ---- drops ---- */

/* Whether a birth that was deleted, or never shown, is still held. It is no one's from here on. */
static bool is_buried(struct store *store, struct store_pool *pool, const uint8_t *id,
                      uint64_t hash, const struct birth *birth)
{
    for (uint32_t at = store_shadow_first(pool, hash); at != 0; at = pool->records[at - 1].chain) {
        if (store_state(pool, at - 1) == INDEX_DELETING &&
            index_entry_is(store_entry(pool, at - 1), id) &&
            store_is_birth(store, pool, at - 1, birth)) {
            pool->records[at - 1].flags &= (uint8_t)~RECORD_TRANSIENT;
            return true;
        }
    }
    return false;
}

/* What was said of it first is why it goes, and what is told then. */
static void doom(struct store_record *record, bool came_second)
{
    if ((record->flags & RECORD_DOOMED) == 0) {
        record->flags |= RECORD_DOOMED | (came_second ? RECORD_SECOND : 0);
    }
}

nigh_status store_drop(struct store *store, uint32_t number, const uint8_t *id, uint64_t hash,
                       const struct birth *birth, bool came_second, uint64_t now_us)
{
    nigh_event_kind why = came_second ? NIGH_EVENT_CONFLICT : NIGH_EVENT_DELETED;
    struct store_pool *pool = store->pools[number];
    uint32_t entry;

    store_begin(store, now_us);
    if (pool == NULL) {
        return NIGH_NOT_FOUND;
    }
    if (!index_find(&pool->writer, id, hash, &entry) || store_state(pool, entry) == INDEX_CREATED ||
        !store_is_birth(store, pool, entry, birth)) {
        return is_buried(store, pool, id, hash, birth) ? NIGH_IN_USE : NIGH_NOT_FOUND;
    }
    if (store_state(pool, entry) == INDEX_SEALED) {
        store_bury(store, pool, entry, hash, why);
        return store_end_buried(store, pool, entry);
    }
    if ((pool->records[entry].flags & RECORD_READING) != 0) {
        doom(&pool->records[entry], came_second); /* its memory is being written to */
        return NIGH_IN_USE;
    }
    store_end_spilled(store, pool, entry, hash, why);
    return NIGH_OK;
}

/* ---- replicas ---- */

nigh_status store_replicate(struct store *store, uint32_t number, const uint8_t *id, uint64_t hash,
                            const struct birth *birth, uint32_t replicas, uint64_t now_us,
                            struct store_sight *sight)
{
    struct store_pool *pool = store->pools[number];
    uint32_t entry, most;
    bool held;

    _Static_assert(LIMIT_REPLICAS - 1 <= INDEX_REPLICAS_MASK >> INDEX_REPLICAS_SHIFT,
                   "the flags have room");
    NIGH_ASSERT(replicas >= 2 && replicas <= LIMIT_REPLICAS);
    store_begin(store, now_us);
    if (!find_shown(store, number, id, hash, &entry) ||
        (birth != NULL && !store_is_birth(store, pool, entry, birth))) {
        return NIGH_NOT_FOUND;
    }
    most = max_u32(replicas, replicas_of(pool, entry));
    held = store_is_mere_copy(pool, entry) || !store_spills(store);
    store_set_stays(store, pool, entry,
                    (uint16_t)((most - 1) << INDEX_REPLICAS_SHIFT | (held ? INDEX_FLAG_HELD : 0)),
                    INDEX_REPLICAS_MASK);
    *sight = store_sight_of(store, pool, entry, hash);
    return NIGH_OK;
}

void store_unreplicate(struct store *store, uint32_t number, const uint8_t *id, uint64_t hash,
                       const struct birth *birth, uint64_t now_us)
{
    struct store_pool *pool = store->pools[number];
    uint32_t entry;

    store_begin(store, now_us);
    if (find_shown(store, number, id, hash, &entry) && store_is_birth(store, pool, entry, birth)) {
        store_set_stays(store, pool, entry, 0, INDEX_REPLICAS_MASK | INDEX_FLAG_HELD);
        store_take_back(pool, entry);
    }
}

bool store_waits_for_id(struct store *store, uint32_t number, const uint8_t *id, uint64_t hash)
{
    const struct store_pool *pool = store->pools[number];

    return pool != NULL && store_is_wanted(store, pool, id, hash);
}
