/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions as the lane sees them: their coming and going, the pins that the lane holds for them,
 * their hints, their quota, what they watch. All of a session's shared memory may hold anything.
 */
#include "base/check.h"
#include "object/store_create.h"
#include "object/store_internal.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_session.h"
#include "object/store_wait.h"

#include <stdlib.h>

/* ---- coming and going ---- */

static nigh_status session_check(const struct store *store,
                                 const struct store_session_config *config)
{
    if (config->session >= LIMIT_SESSIONS || config->pool >= LIMIT_POOLS || config->front == NULL ||
        config->lane == NULL || config->chunks == NULL) {
        return NIGH_INVALID;
    }
    if (store->pools[config->pool] == NULL) {
        return NIGH_NOT_FOUND;
    }
    return store->sessions[config->session] != NULL ? NIGH_EXISTS : NIGH_OK;
}

/* After a restart: which lane pins a former node set for this session. */
static uint32_t find_pins_used(const struct store_session *session)
{
    uint32_t used = LIMIT_LANE_PINS;

    while (used > 0 && shared_load_relaxed(&session->config.lane->pin_entry[used - 1]) == 0) {
        used--;
    }
    return used;
}

static void session_join(struct store *store, struct store_session *session)
{
    struct store_pool *pool = session->pool;
    struct pin_table *table = &pool->tables[pool->table_count];

    session->table = pool->table_count++;
    *table = (struct pin_table){
        .chunks = session->config.chunks,
        .chunks_used = &session->config.front->chunks_used,
        .lane_pins = session->config.lane->pin_entry,
        .lane_pins_used = store->adopting ? find_pins_used(session) : 0,
    };
    list_push_back(&pool->sessions, &session->pool_place);
    store->sessions[session->config.session] = session;
    store->session_count++;
}

nigh_status store_session_open(struct store *store, const struct store_session_config *config)
{
    nigh_status status = session_check(store, config);
    struct store_session *session;

    if (status != NIGH_OK) {
        return status;
    }
    session = calloc(1, sizeof(*session));
    if (session == NULL) {
        return NIGH_NO_RESOURCES;
    }
    session->config = *config;
    session->pool = store->pools[config->pool];
    session->heap = STORE_NONE;
    session->quota_bytes = config->quota_bytes;
    session->serial = ++store->next_serial;
    if (session->config.quota_used == NULL) {
        session->config.quota_used = &session->own_used;
    }
    list_init(&session->waiters);
    for (uint32_t i = 0; i < LIMIT_LEASES_A_SESSION; i++) {
        session->leases[i].entry = STORE_NONE;
    }
    session_join(store, session);
    return NIGH_OK;
}

static void stop_watching(struct store *store, struct store_session *session)
{
    if (list_is_linked(&session->subscriber_place)) {
        list_remove(&session->subscriber_place);
    }
    if (session->replaying) {
        session->replaying = false;
        store->replays--;
    }
}

static void session_leave(struct store *store, struct store_session *session)
{
    struct store_pool *pool = session->pool;
    uint32_t last = --pool->table_count;

    /* The last table moves into the gap, and its session learns of it. */
    if (session->table != last) {
        LIST_FOREACH(node, &pool->sessions)
        {
            struct store_session *other = container_of(node, struct store_session, pool_place);

            if (other->table == last) {
                other->table = session->table;
                break;
            }
        }
        pool->tables[session->table] = pool->tables[last];
    }
    list_remove(&session->pool_place);
    store->sessions[session->config.session] = NULL;
    store->session_count--;
    store_forget_extents(store, pool);
}

/* Only sessions of a pool are given its extents, and only while every lane knows them. */
void store_forget_extents(struct store *store, const struct store_pool *pool)
{
    if (pool->table_count == 0) {
        extent_forget(store->config.extents, store->config.lane, pool->config.pool);
    }
}

void store_session_close(struct store *store, uint32_t number)
{
    struct store_session *session;

    NIGH_ASSERT(number < LIMIT_SESSIONS && store->sessions[number] != NULL);
    if (store->adopting) {
        store_adopt_finish(store); /* what is the session's must be known to be freed */
    }
    session = store->sessions[number];
    store_note_uses(store, session);
    store_forget_waits(store, session);
    stop_watching(store, session);
    for (uint32_t i = 0; i < LIMIT_LEASES_A_SESSION; i++) {
        if (session->leases[i].entry != STORE_NONE) {
            store_lease_end(store, session, &session->leases[i]);
        }
    }
    while (session->unsealed.count > 0) {
        store_discard(store, session->pool, session->unsealed.first - 1);
    }
    /* What it made stays and counts for nobody. The records find that out by themselves: their
     * serial is no session's any more. */
    store_discharge(session, session->counted_bytes);
    session_leave(store, session);
    memset(store->heap_barren_us, 0, sizeof(store->heap_barren_us));
    store->pins_changed = true;
    free(session);
}

void store_session_reset(struct store *store, uint32_t number)
{
    NIGH_ASSERT(number < LIMIT_SESSIONS && store->sessions[number] != NULL);
    store_forget_waits(store, store->sessions[number]);
}

/* ---- lane pins ---- */

/* A word of the session's that is 0, from the cursor on; SESSION_NO_PIN: none of those in use. */
static uint32_t find_free_pin(const struct store_session *session, uint32_t used)
{
    uint32_t at = session->pin_cursor;

    for (uint32_t n = 0; n < used; n++, at++) {
        if (at >= used) {
            at = 0;
        }
        if (shared_load_acquire(&session->config.lane->pin_entry[at]) == 0) {
            return at;
        }
    }
    return SESSION_NO_PIN;
}

nigh_status store_pin(struct store *store, struct store_session *session, uint32_t entry,
                      uint32_t *pin)
{
    struct store_pool *pool = session->pool;
    struct session_lane *lane = session->config.lane;
    uint32_t *used = &pool->tables[session->table].lane_pins_used;
    uint32_t most = store->config.max_lane_pins;
    uint32_t at = find_free_pin(session, min_u32(*used, most));

    /* More words come into use by half as many, so that looking for one stays cheap on average. */
    while (at == SESSION_NO_PIN) {
        uint32_t before = *used;

        if (before >= most) {
            return NIGH_LIMIT;
        }
        *used = min_u32(most, before + before / 2 + 16);
        session->pin_cursor = before;
        at = find_free_pin(session, *used);
    }
    session->pin_cursor = at + 1;
    shared_store_relaxed(&lane->pin_generation[at], store_generation(pool, entry));
    shared_store_release(&lane->pin_entry[at], pin_ref(store->config.lane, entry));
    *pin = at;
    return NIGH_OK;
}

/* ---- hints ---- */

static void take_hint(void *context, uint32_t entry)
{
    evict_touch(context, entry);
}

void store_drain_hints(struct store *store, struct store_pool *pool)
{
    LIST_FOREACH(node, &pool->sessions)
    {
        struct store_session *session = container_of(node, struct store_session, pool_place);
        uint32_t used =
            min_u32(shared_load_acquire(&session->config.front->chunks_used), LIMIT_PIN_CHUNKS);

        for (uint32_t i = 0; i < used; i++) {
            store->counts.hints += pin_take_hints(
                &session->config.chunks[i], &session->hints_seen[i], store->config.lane,
                pool->writer.index.entry_count, take_hint, &pool->evict);
        }
    }
}

/* ---- quota ---- */

nigh_status store_quota(struct store_call *call)
{
    call->session->quota_bytes = call->sqe->argument;
    return NIGH_OK;
}

/* ---- watching ---- */

nigh_status store_subscribe(struct store_call *call)
{
    struct store_session *session = call->session;

    if ((call->sqe->argument & ~(uint64_t)(NIGH_SUBSCRIBE_REPLAY | NIGH_SUBSCRIBE_CONFLICTS |
                                           NIGH_SUBSCRIBE_REGIONS)) != 0) {
        return NIGH_INVALID;
    }
    session->hears_regions = (call->sqe->argument & NIGH_SUBSCRIBE_REGIONS) != 0;
    session->hears_conflicts = (call->sqe->argument & NIGH_SUBSCRIBE_CONFLICTS) != 0;
    if (!list_is_linked(&session->subscriber_place)) {
        list_push_back(&call->pool->subscribers, &session->subscriber_place);
    }
    if ((call->sqe->argument & NIGH_SUBSCRIBE_REPLAY) != 0) {
        call->store->replays += !session->replaying;
        session->replaying = true;
        session->replay = 0;
        call->store->replay_us = call->store->now_us;
    }
    return NIGH_OK;
}

bool store_hears_regions(const struct store *store, uint32_t slot)
{
    const struct store_session *session = store->sessions[slot];

    return session != NULL && session->hears_regions && list_is_linked(&session->subscriber_place);
}

nigh_status store_unsubscribe(struct store_call *call)
{
    if (!list_is_linked(&call->session->subscriber_place)) {
        return NIGH_NOT_FOUND;
    }
    stop_watching(call->store, call->session);
    return NIGH_OK;
}

/* Half of what is free in the session's event ring, so that live events find room too. */
static uint32_t replay_room(const struct store_session *session)
{
    const struct session_lane *lane = session->config.lane;
    uint32_t used =
        session_ring_used(shared_load_relaxed(&lane->event_tail.value),
                          shared_load_acquire(&lane->event_head.value), LIMIT_EVENT_ENTRIES);

    return used > LIMIT_EVENT_ENTRIES
               ? 0
               : min_u32(LIMIT_TURN_REPLAY, (LIMIT_EVENT_ENTRIES - used) / 2);
}

static void replay_event(struct store *store, struct store_session *session, uint32_t entry)
{
    const struct index_entry *at = store_entry(session->pool, entry);
    struct session_event event;

    memcpy(event.id, at->id, LIMIT_ID_BYTES);
    event.kind_meta = (uint32_t)NIGH_EVENT_SEALED | at->meta_size << 8;
    event.data_size = at->data_size;
    store->config.shell.event(store->config.shell.context, session->config.session, &event);
}

/* Tells a session of past seals, as many as it has room for, over a bounded stretch of entries. */
static void replay_to(struct store *store, struct store_session *session)
{
    struct store_pool *pool = session->pool;
    uint32_t room = replay_room(session);
    uint32_t looks = LIMIT_TURN_REPLAY * 16;

    for (; room > 0 && looks > 0 && session->replay < pool->writer.entries_used; looks--) {
        enum index_state state = store_state(pool, session->replay);

        if (state == INDEX_SEALED || state == INDEX_SPILLED) {
            replay_event(store, session, session->replay);
            room--;
        }
        session->replay++;
    }
    if (session->replay >= pool->writer.entries_used) {
        session->replaying = false;
        store->replays--;
    }
}

void store_replay(struct store *store)
{
    if (store->replays == 0 || store->now_us < store->replay_us) {
        return;
    }
    store->replay_us = store->now_us + LIMIT_RETRY_US;
    for (uint32_t i = 0; i < LIMIT_POOLS; i++) {
        if (store->pools[i] == NULL) {
            continue;
        }
        LIST_FOREACH(node, &store->pools[i]->subscribers)
        {
            struct store_session *session =
                container_of(node, struct store_session, subscriber_place);

            if (session->replaying) {
                replay_to(store, session);
            }
        }
    }
}
