/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletes, and the graveyard: objects that are gone for every new reader while old ones still hold
 * them. All deletes of a turn share one look at the pins.
 */
#include "base/check.h"
#include "object/store_create.h"
#include "object/store_delete.h"
#include "object/store_get.h"
#include "object/store_internal.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_remote.h"
#include "object/store_session.h"
#include "object/store_spill.h"
#include "object/store_wait.h"

void store_deleting(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash)
{
    store_list_push(pool, &pool->graveyard, entry);
    store_shadow_add(pool, hash, entry);
    pool->objects_deleting++;
    store->graves++;
}

void store_no_longer_deleting(struct store *store, struct store_pool *pool, uint32_t entry,
                              uint64_t hash)
{
    store_list_remove(pool, &pool->graveyard, entry);
    store_shadow_remove(pool, hash, entry);
    store_object_obstacle(store, pool, entry, -1);
    pool->objects_deleting--;
    store->graves--;
}

void store_bury(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash,
                nigh_event_kind why)
{
    struct store_list *list = store_list_of(store, pool, entry);

    store_say(store, pool, entry, why);
    store_tell_gone(store, pool, entry, hash);
    index_remove(&pool->writer, hash, entry);
    index_to_deleting(&pool->writer, entry);
    store_list_remove(pool, list, entry);
    if (!store_has_flag(pool, entry, INDEX_STAYS)) {
        evict_forget(&pool->evict, entry);
        store_object_obstacle(store, pool, entry, 1);
    } else {
        pool->kept_bytes -= store_memory_bytes(store, pool, entry);
    }
    pool->objects--;
    store_deleting(store, pool, entry, hash);
}

/* The last pin is gone: the end of a deleting object. */
static void dig_up(struct store *store, struct store_pool *pool, uint32_t entry)
{
    struct store_record *record = &pool->records[entry];
    struct store_session *session = store_maker(store, record);

    store_no_longer_deleting(store, pool, entry, store_hash(pool, entry));
    if (session != NULL) {
        store_discharge(session, store_memory_bytes(store, pool, entry));
    }
    if ((record->flags & RECORD_ON_DISK) != 0) {
        store_spill_forget(store, pool, entry, false);
    }
    store_memory_unbind(store, pool, entry);
    store_release(pool, entry);
}

void store_end_spilled(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash,
                       nigh_event_kind why)
{
    store_say(store, pool, entry, why);
    store_tell_gone(store, pool, entry, hash);
    index_remove(&pool->writer, hash, entry);
    pool->objects_spilled--;
    store_spill_forget(store, pool, entry, false);
    store_release(pool, entry);
}

/* ---- DELETE ---- */

/* It is known what becomes of the object here: the other nodes are next, if there are any. */
static nigh_status decided(struct store_call *call, nigh_status local)
{
    if (!store_erase(call->store, call->pool, call->sqe->id, call->hash, local, &call->behind)) {
        return local;
    }
    call->wait = STORE_WAIT_ERASE;
    call->local = local;
    return NIGH_PENDING;
}

static nigh_status delete_spilled(struct store_call *call, uint32_t entry)
{
    struct store *store = call->store;
    struct store_pool *pool = call->pool;

    if ((pool->records[entry].flags & RECORD_READING) != 0) {
        /* Its memory is being written to: wait for that to end, then delete what it is then. */
        call->wait = STORE_WAIT_ID;
        return NIGH_PENDING;
    }
    store_end_spilled(store, pool, entry, call->hash, NIGH_EVENT_DELETED);
    store->counts.deletes++;
    return decided(call, NIGH_OK);
}

nigh_status store_delete(struct store_call *call)
{
    struct store *store = call->store;
    uint32_t entry;
    nigh_status status = store_find_sealed(call, &entry);
    bool full = call->waiter == NULL && !store_may_wait(store);

    if (store->has_remote && (full || !store_may_erase(store))) {
        return NIGH_LIMIT; /* before anything is deleted here */
    }
    if (status != NIGH_OK) {
        bool held = store_end_transients(call);

        return decided(call, status == NIGH_NOT_FOUND && held ? NIGH_IN_USE : status);
    }
    if (store_state(call->pool, entry) == INDEX_SPILLED) {
        return delete_spilled(call, entry);
    }
    if (full) {
        return NIGH_LIMIT;
    }
    store_bury(store, call->pool, entry, call->hash, NIGH_EVENT_DELETED);
    store->counts.deletes++;
    call->pool->records[entry].flags |= RECORD_ASKED;
    call->wait = STORE_WAIT_PINS;
    call->entry = entry;
    return NIGH_PENDING;
}

/* ---- the graveyard ---- */

/* Ends an object that was asked about, if nobody holds it. */
static bool end_unheld(struct store *store, struct store_pool *pool, uint32_t entry)
{
    if (pin_scan_holders(&store->scan, entry) > 0 || store_is_read(&pool->records[entry])) {
        return false;
    }
    dig_up(store, pool, entry);
    return true;
}

nigh_status store_end_buried(struct store *store, struct store_pool *pool, uint32_t entry)
{
    pin_scan_begin(&store->scan, store->config.lane, 1);
    pin_scan_add(&store->scan, entry);
    pin_scan_run(&store->scan, pool->tables, pool->table_count);
    return end_unheld(store, pool, entry) ? NIGH_OK : NIGH_IN_USE;
}

/* What came of a delete here; it ends, or goes on at other nodes. */
static void answer_delete(struct store *store, struct store_pool *pool, struct store_waiter *waiter)
{
    nigh_status local;
    bool behind;

    pool->records[waiter->entry].flags &= (uint8_t)~RECORD_ASKED;
    local = end_unheld(store, pool, waiter->entry) ? NIGH_OK : NIGH_IN_USE;
    if (store_erase(store, pool, waiter->sqe.id, waiter->hash, local, &behind)) {
        store_wait_erase(store, waiter, local, behind);
    } else {
        store_end_wait(store, waiter, local, NULL);
    }
}

/* Answers the deletes of one pool: the first that waits, and its neighbours. */
static void answer_deletes(struct store *store, struct store_pool *pool)
{
    uint32_t asked = 0;

    pin_scan_begin(&store->scan, store->config.lane, LIMIT_TURN_GRAVES);
    LIST_FOREACH(node, &store->deletes)
    {
        struct store_waiter *waiter = container_of(node, struct store_waiter, place);

        if (store->sessions[waiter->session]->pool != pool || asked == LIMIT_TURN_GRAVES) {
            break;
        }
        pin_scan_add(&store->scan, waiter->entry);
        asked++;
    }
    pin_scan_run(&store->scan, pool->tables, pool->table_count);
    for (; asked > 0; asked--) {
        answer_delete(store, pool,
                      container_of(list_first(&store->deletes), struct store_waiter, place));
    }
}

/* Looks at the oldest graves of a pool; those that stay go to the back. */
static void visit_pool(struct store *store, struct store_pool *pool)
{
    uint32_t count = min_u32(pool->graveyard.count, LIMIT_TURN_GRAVES);
    uint32_t at = pool->graveyard.first;

    pin_scan_begin(&store->scan, store->config.lane, count);
    for (uint32_t n = 0; n < count; n++) {
        pin_scan_add(&store->scan, at - 1);
        at = pool->records[at - 1].next;
    }
    pin_scan_run(&store->scan, pool->tables, pool->table_count);
    for (uint32_t n = 0; n < count; n++) {
        uint32_t entry = pool->graveyard.first - 1;

        if ((pool->records[entry].flags & RECORD_ASKED) != 0 || !end_unheld(store, pool, entry)) {
            store_list_remove(pool, &pool->graveyard, entry);
            store_list_push(pool, &pool->graveyard, entry);
        }
    }
}

bool store_empty_graves(struct store *store, struct store_pool *pool)
{
    uint32_t before = pool->graveyard.count;

    if (before == 0 || store->rounds == 0) {
        return false;
    }
    store->rounds--;
    visit_pool(store, pool);
    return pool->graveyard.count < before;
}

void store_visit_graves(struct store *store)
{
    for (uint32_t n = 0; n < LIMIT_POOLS && !list_empty(&store->deletes); n++) {
        struct store_waiter *waiter =
            container_of(list_first(&store->deletes), struct store_waiter, place);

        answer_deletes(store, store->sessions[waiter->session]->pool);
    }
    if (store->graves == 0 || (store->now_us < store->grave_us && !store->pins_changed)) {
        return;
    }
    store->grave_us = store->now_us + LIMIT_GRAVE_US;
    for (uint32_t i = 0; i < LIMIT_POOLS; i++) {
        if (store->pools[i] != NULL && store->pools[i]->graveyard.count > 0) {
            visit_pool(store, store->pools[i]);
        }
    }
}
