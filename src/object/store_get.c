/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What asks about one id: GET, which holds what it finds, and the questions that only look. Gets
 * without IPC do not come here at all (memory/index.h).
 */
#include "base/check.h"
#include "object/store_get.h"
#include "object/store_internal.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_remote.h"
#include "object/store_session.h"
#include "object/store_spill.h"
#include "object/store_wait.h"

/* The created or deleting object of an id that no slot names, or a claimed one: why there is no
 * sealed one. */
static nigh_status why_not_sealed(struct store_call *call)
{
    uint32_t entry;

    if (store_shadow_find(call->pool, call->sqe->id, call->hash, &entry) &&
        store_state(call->pool, entry) == INDEX_CREATED) {
        return NIGH_NOT_SEALED;
    }
    return NIGH_NOT_FOUND;
}

nigh_status store_find_sealed(struct store_call *call, uint32_t *entry)
{
    uint32_t found;

    if (!index_find(&call->pool->writer, call->sqe->id, call->hash, &found)) {
        return why_not_sealed(call);
    }
    if (store_state(call->pool, found) == INDEX_CREATED) {
        return NIGH_NOT_SEALED;
    }
    *entry = found;
    return NIGH_OK;
}

bool store_find_any(struct store_call *call, uint32_t *entry)
{
    return index_find(&call->pool->writer, call->sqe->id, call->hash, entry) ||
           store_shadow_find(call->pool, call->sqe->id, call->hash, entry);
}

static void describe(const struct store_pool *pool, uint32_t entry, struct session_cqe *cqe)
{
    const struct index_entry *at = store_entry(pool, entry);

    cqe->offset = at->offset;
    cqe->data_size = at->data_size;
    cqe->meta_size = at->meta_size;
    cqe->name_size = at->name_size;
    cqe->flags = shared_load_relaxed(&at->flags);
    cqe->ref = entry;
    cqe->generation = store_generation(pool, entry);
}

nigh_status store_get(struct store_call *call)
{
    struct store *store = call->store;
    uint32_t entry;
    nigh_status status = store_find_sealed(call, &entry);

    if (call->waiter == NULL) {
        store->counts.gets_asked++;
        if (status == NIGH_NOT_FOUND) {
            evict_missed(&call->pool->evict, call->hash);
        }
    }
    if (status != NIGH_OK) {
        call->wait = STORE_WAIT_ID;
        call->wants = true;
        call->late = NIGH_TIMEOUT;
        return NIGH_PENDING;
    }
    if (store_state(call->pool, entry) == INDEX_SPILLED) {
        return store_unspill_start(call, entry);
    }
    status = store_pin(store, call->session, entry, &call->cqe.pin);
    if (status != NIGH_OK) {
        return status;
    }
    evict_touch(&call->pool->evict, entry);
    store_note_use(store, call->pool, entry);
    describe(call->pool, entry, &call->cqe);
    return NIGH_OK;
}

void store_hand_out(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash)
{
    const uint8_t *id = store_entry(pool, entry)->id; /* it stays: nothing here makes room */

    LIST_FOREACH_SAFE(node, store_bucket_of(store, hash))
    {
        struct store_waiter *waiter = container_of(node, struct store_waiter, place);
        struct session_cqe cqe = {.pin = SESSION_NO_PIN};
        nigh_status status;

        if (!waiter->wants || !store_waits_for(store, waiter, pool, id, hash)) {
            continue;
        }
        status = store_pin(store, store->sessions[waiter->session], entry, &cqe.pin);
        if (status == NIGH_OK) {
            describe(pool, entry, &cqe);
        }
        store_end_wait(store, waiter, status, &cqe);
    }
}

nigh_status store_contains(struct store_call *call)
{
    uint32_t entry;

    return store_find_sealed(call, &entry);
}

nigh_status store_refresh(struct store_call *call)
{
    uint32_t entry;

    /* An id that is not there is passed over; what is kept, or on disk, the policy does not know.
     */
    if (store_find_sealed(call, &entry) == NIGH_OK &&
        evict_where(&call->pool->evict, entry) != EVICT_FREE) {
        evict_refresh(&call->pool->evict, entry);
    }
    return NIGH_OK;
}

/* ---- keep ---- */

void store_set_stays(struct store *store, struct store_pool *pool, uint32_t entry, uint16_t set,
                     uint16_t clear)
{
    bool stayed = store_has_flag(pool, entry, INDEX_STAYS);
    bool stays;

    index_set_flags(&pool->writer, entry, set, clear);
    stays = store_has_flag(pool, entry, INDEX_STAYS);
    if (stays == stayed || store_state(pool, entry) != INDEX_SEALED) {
        return;
    }
    store_object_obstacle(store, pool, entry, stays ? 1 : -1);
    if (stays) {
        evict_forget(&pool->evict, entry);
        pool->kept_bytes += store_memory_bytes(store, pool, entry);
    } else {
        pool->kept_bytes -= store_memory_bytes(store, pool, entry);
        evict_admit(&pool->evict, entry, store_memory_bytes(store, pool, entry),
                    store_hash(pool, entry));
    }
}

nigh_status store_keep(struct store_call *call)
{
    struct store_pool *pool = call->pool;
    uint32_t entry;
    nigh_status status = store_find_sealed(call, &entry);

    if (status != NIGH_OK) {
        return status;
    }
    store_set_stays(call->store, pool, entry, INDEX_FLAG_KEPT, 0);
    return NIGH_OK;
}

nigh_status store_unkeep(struct store_call *call)
{
    struct store_pool *pool = call->pool;
    uint32_t entry;
    nigh_status status = store_find_sealed(call, &entry);

    if (status != NIGH_OK) {
        return status;
    }
    store_set_stays(call->store, pool, entry, 0, INDEX_FLAG_KEPT);
    return NIGH_OK;
}

/* ---- stat ---- */

static nigh_object_state public_state(enum index_state state)
{
    switch (state) {
    case INDEX_CREATED: return NIGH_OBJECT_CREATED;
    case INDEX_SPILLED: return NIGH_OBJECT_SPILLED;
    case INDEX_DELETING: return NIGH_OBJECT_DELETING;
    default: return NIGH_OBJECT_SEALED;
    }
}

/* What keeps its memory besides pins. */
static uint32_t node_uses(const struct store_pool *pool, uint32_t entry)
{
    const struct store_record *record = &pool->records[entry];

    return (store_has_flag(pool, entry, INDEX_REPLICAS_MASK) ? NIGH_USE_REPLICA : 0) |
           ((record->flags & RECORD_WRITING) != 0 ? NIGH_USE_WRITE : 0) |
           ((record->flags & RECORD_READING) != 0 ? NIGH_USE_READ : 0) |
           (record->readers > 0 ? NIGH_USE_SEND : 0);
}

nigh_status store_stat(struct store_call *call)
{
    struct store *store = call->store;
    struct store_pool *pool = call->pool;
    uint32_t entry;

    if (!store_find_any(call, &entry)) {
        return NIGH_NOT_FOUND;
    }
    pin_scan_begin(&store->scan, store->config.lane, 1);
    pin_scan_add(&store->scan, entry);
    pin_scan_run(&store->scan, pool->tables, pool->table_count);
    describe(pool, entry, &call->cqe);
    call->cqe.flags = (uint16_t)public_state(store_state(pool, entry));
    call->cqe.data_size = pin_scan_holders(&store->scan, entry);
    call->cqe.lease_offset = node_uses(pool, entry);
    return NIGH_OK;
}
