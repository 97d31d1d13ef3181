/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which objects go to disk and come back, what a finished or failed disk job means, and checksums.
 * Touches no disk: the shell's jobs do.
 */
#include "base/check.h"
#include "base/clock.h"
#include "object/store_create.h"
#include "object/store_delete.h"
#include "object/store_evict.h"
#include "object/store_get.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_remote.h"
#include "object/store_reserve.h"
#include "object/store_session.h"
#include "object/store_spill.h"
#include "object/store_wait.h"

#include "base/crc32c.h"

#define LOG_MODULE "store"
#include "base/log.h"

/* ---- out ---- */

bool store_spill_may_start(const struct store *store)
{
    return store->now_us >= store->disk_rest_us;
}

static struct store_disk_job job_of(const struct store_pool *pool, uint32_t entry, bool write)
{
    const struct index_entry *at = store_entry(pool, entry);
    struct store_disk_job job = {
        .write = write,
        .pool = pool->config.pool,
        .entry = entry,
        .generation = store_generation(pool, entry),
        .incarnation = at->incarnation,
        .offset = at->offset,
        .data_size = at->data_size,
        .meta_size = at->meta_size,
        .name_size = at->name_size,
    };

    memcpy(job.id, at->id, LIMIT_ID_BYTES);
    return job;
}

bool store_spill_start(struct store *store, struct store_pool *pool, uint32_t entry)
{
    uint64_t bytes = store_object_bytes(pool, entry);
    struct store_disk_job job = job_of(pool, entry, true);

    if (!store_spill_may_start(store) || !store_reserve_lets_write(store, bytes) ||
        !store->config.shell.disk(store->config.shell.context, &job)) {
        return false;
    }
    pool->records[entry].flags |= RECORD_WRITING;
    pool->writing_bytes += bytes;
    store->writing_bytes += bytes;
    store->writing++;
    return true;
}

void store_spill_forget(struct store *store, struct store_pool *pool, uint32_t entry, bool again)
{
    struct store_record *record = &pool->records[entry];

    NIGH_ASSERT((record->flags & RECORD_ON_DISK) != 0);
    store_backed(store, pool, entry, false);
    record->flags &= (uint8_t) ~(RECORD_ON_DISK | RECORD_WRITTEN);
    if (record->block == 0) {
        store_reserve_count(store, pool, entry, -1);
    }
    store->spilled_bytes -= store_object_bytes(pool, entry);
    /* A node that was started without a spill directory may have spilled objects of another. */
    if (store->config.shell.disk_forget != NULL) {
        store->config.shell.disk_forget(store->config.shell.context, pool->config.pool,
                                        store_generation(pool, entry),
                                        store_entry(pool, entry)->incarnation, again);
    }
}

static void written(struct store *store, struct store_pool *pool, uint32_t entry, uint32_t crc)
{
    struct store_record *record = &pool->records[entry];

    record->flags |= RECORD_ON_DISK;
    store_backed(store, pool, entry, true);
    store->spilled_bytes += store_object_bytes(pool, entry);
    store->counts.spills++;
    if (store_state(pool, entry) == INDEX_DELETING) {
        store_spill_forget(store, pool, entry, false);
        return;
    }
    if (!store_has_flag(pool, entry, INDEX_FLAG_CHECKSUM)) {
        index_set_crc(&pool->writer, entry, crc);
    }
    if (store->written_count == LIMIT_SPILL_QUEUE) {
        store_spill_settle(store);
    }
    record->flags |= RECORD_WRITTEN;
    store->written[store->written_count] = entry;
    store->written_pool[store->written_count++] = pool->config.pool;
}

static void write_done(struct store *store, struct store_pool *pool, uint32_t entry,
                       nigh_status status, uint32_t crc)
{
    uint64_t bytes = store_object_bytes(pool, entry);

    pool->records[entry].flags &= (uint8_t)~RECORD_WRITING;
    pool->writing_bytes -= bytes;
    store->writing_bytes -= bytes;
    store->writing--;
    if (status == NIGH_OK) {
        written(store, pool, entry, crc);
        return;
    }
    store->counts.spill_failures++;
    store->disk_rest_us = store->now_us + LIMIT_DISK_REST_US;
    LOG_WARN("an object could not be spilled and stays in memory",
             "pool=%u bytes=%llu status=%s do=\"see to the disk of --spill\"", pool->config.pool,
             (unsigned long long)bytes, nigh_status_name(status));
    if (evict_where(&pool->evict, entry) == EVICT_OFFERED) {
        evict_kept(&pool->evict, entry);
    }
}

/* Whether what was written may still leave: it may have been deleted, kept or be read meanwhile. */
static bool may_leave(struct store_pool *pool, uint32_t entry)
{
    struct store_record *record = &pool->records[entry];
    bool listed = (record->flags & RECORD_WRITTEN) != 0;

    record->flags &= (uint8_t)~RECORD_WRITTEN;
    return listed && store_state(pool, entry) == INDEX_SEALED && !store_is_read(record) &&
           !store_has_flag(pool, entry, INDEX_STAYS);
}

void store_spill_settle(struct store *store)
{
    uint32_t next = 0;

    while (next < store->written_count) {
        uint32_t number = store->written_pool[next];
        struct store_pool *pool = store->pools[number];
        struct store_evicted evicted = {0};
        uint32_t count = 0;

        for (; next < store->written_count && store->written_pool[next] == number &&
               count < LIMIT_EVICT_BATCH;
             next++) {
            uint32_t entry = store->written[next];

            if (may_leave(pool, entry)) {
                store->victims[count++] = entry;
            } else if (evict_where(&pool->evict, entry) == EVICT_OFFERED &&
                       (pool->records[entry].flags & RECORD_WRITING) == 0) {
                evict_kept(&pool->evict, entry); /* read meanwhile; or another, not yet offered */
            }
        }
        store_evict_these(store, pool, store->victims, count, EXTENT_NO_OWNER, &evicted);
    }
    store->written_count = 0;
}

/* ---- back ---- */

/* For room in the disk's queue, or in the pool's quota: the call waits for a turn. */
static nigh_status wait_for_turn(struct store_call *call, nigh_status late)
{
    call->wait = STORE_WAIT_MEMORY;
    call->heap = STORE_NONE;
    call->bytes = 0;
    call->late = late;
    return NIGH_PENDING;
}

bool store_unspill_into(struct store *store, struct store_pool *pool, uint32_t entry,
                        uint32_t block)
{
    struct store_disk_job job = job_of(pool, entry, false);

    job.offset = heap_block_offset(store->heaps, block);
    if (!store->config.shell.disk(store->config.shell.context, &job)) {
        return false;
    }
    pool->records[entry].flags |= RECORD_READING;
    store_memory_bind(store, pool, entry, block);
    store_passing(store, pool, entry, 1);
    return true;
}

static nigh_status unspill_memory(struct store_call *call, uint64_t bytes, uint32_t *block)
{
    if (store_fit_pool(call->store, call->pool, bytes) != NIGH_OK) {
        return wait_for_turn(call, NIGH_QUOTA);
    }
    return store_obtain(call, store_node_owner(call->pool), bytes, true, block);
}

nigh_status store_unspill_start(struct store_call *call, uint32_t entry)
{
    struct store *store = call->store;
    struct store_pool *pool = call->pool;
    uint32_t block;
    nigh_status status;

    if (!store_spills(store)) {
        return NIGH_DISK; /* spilled by a node before this one, which had a directory */
    }
    call->deadline_us =
        max_u64(call->deadline_us, clock_deadline_us(store->now_us, LIMIT_UNSPILL_US));
    if ((pool->records[entry].flags & RECORD_READING) == 0) {
        store->reading_back = true;
        status = unspill_memory(call, store_object_bytes(pool, entry), &block);
        store->reading_back = false;
        if (status != NIGH_OK) {
            return status;
        }
        if (!store_unspill_into(store, pool, entry, block)) {
            store_block_return(store, block);
            return wait_for_turn(call, NIGH_DISK);
        }
    }
    call->wait = STORE_WAIT_ID;
    call->heap = STORE_NONE;
    call->bytes = 0;
    call->late = NIGH_TIMEOUT;
    return NIGH_PENDING;
}

/* The bytes are back: the same object again, with its birth. */
static void came_back(struct store *store, struct store_pool *pool, uint32_t entry, uint32_t crc)
{
    struct store_record *record = &pool->records[entry];
    struct store_session *session = store_maker(store, record);
    uint64_t bytes = store_memory_bytes(store, pool, entry);
    uint64_t hash = store_hash(pool, entry);

    /* With the reserve in use the file stays: the next read back takes this memory, and writes
     * nothing for it. */
    if (store_reserve_is_whole(store)) {
        store_spill_forget(store, pool, entry, true);
    }
    index_set_flags(&pool->writer, entry, INDEX_FLAG_NODE_OWNED, 0);
    index_set_crc(&pool->writer, entry, crc);
    index_from_spilled(&pool->writer, entry, heap_block_offset(store->heaps, record->block - 1));
    pool->objects_spilled--;
    pool->objects++;
    store->counts.unspills++;
    if (session != NULL) {
        store_list_push(pool, &session->made, entry);
        store_charge(session, bytes);
    }
    if (store_has_flag(pool, entry, INDEX_STAYS)) {
        store_object_obstacle(store, pool, entry, 1);
        pool->kept_bytes += bytes;
    } else {
        evict_admit(&pool->evict, entry, bytes, hash);
    }
}

static void read_done(struct store *store, struct store_pool *pool, uint32_t entry,
                      nigh_status status, uint32_t crc)
{
    uint64_t hash = store_hash(pool, entry);
    uint8_t id[LIMIT_ID_BYTES];
    bool asked;

    memcpy(id, store_entry(pool, entry)->id, LIMIT_ID_BYTES);
    asked = (pool->records[entry].flags & RECORD_ASKED) != 0;
    pool->records[entry].flags &= (uint8_t) ~(RECORD_READING | RECORD_ASKED);
    store_passing(store, pool, entry, -1);
    if (status == NIGH_OK && store_has_flag(pool, entry, INDEX_FLAG_CHECKSUM) &&
        shared_load_relaxed(&store_entry(pool, entry)->data_crc) != crc) {
        status = NIGH_CORRUPT; /* a file that is whole, but of other bytes */
    }
    if ((pool->records[entry].flags & RECORD_DOOMED) != 0) {
        bool second = (pool->records[entry].flags & RECORD_SECOND) != 0;

        store_memory_unbind(store, pool, entry);
        store_end_spilled(store, pool, entry, hash,
                          second ? NIGH_EVENT_CONFLICT : NIGH_EVENT_DELETED);
    } else if (status == NIGH_OK) {
        came_back(store, pool, entry, crc);
    } else {
        store->counts.spill_failures++;
        LOG_WARN("a spilled object could not be read back",
                 "pool=%u status=%s do=\"see to the disk of --spill: the lines before this one say "
                 "what failed\"",
                 pool->config.pool, nigh_status_name(status));
        store_memory_unbind(store, pool, entry);
        if (asked) {
            store_note_lost(store, pool, entry, status);
        }
        store_fail_id(store, pool, id, hash, status);
    }
    store_wake_id(store, pool, id, hash);
}

void store_disk_done(struct store *store, const struct store_disk_job *job, nigh_status status,
                     uint32_t data_crc, uint64_t now_us)
{
    struct store_pool *pool = store->pools[job->pool];

    store->now_us = now_us;
    store->rounds = LIMIT_EVICT_ROUNDS;
    /* An entry that a job works on is not given back before the job is done. */
    NIGH_ASSERT(pool != NULL && store_generation(pool, job->entry) == job->generation);
    NIGH_ASSERT(
        (pool->records[job->entry].flags & (job->write ? RECORD_WRITING : RECORD_READING)) != 0);
    if (job->write) {
        write_done(store, pool, job->entry, status, data_crc);
    } else {
        read_done(store, pool, job->entry, status, data_crc);
    }
}

/* ---- checksums ---- */

/* The next `bytes` at most of an object's checksum; true when it is whole. */
static bool sum_more(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t *done,
                     uint32_t *crc)
{
    const struct index_entry *at = store_entry(pool, entry);
    uint64_t bytes = min_u64(at->data_size - *done, LIMIT_TURN_CHECKSUM_BYTES);
    const uint8_t *from = extent_bytes_at(store->config.extents, at->offset + *done);

    *crc = crc32c(*crc, from, bytes);
    *done += bytes;
    if (*done < at->data_size) {
        return false;
    }
    if (!store_has_flag(pool, entry, INDEX_FLAG_CHECKSUM)) {
        index_set_crc(&pool->writer, entry, *crc);
    }
    return true;
}

nigh_status store_checksum(struct store_call *call)
{
    struct store_pool *pool = call->pool;
    uint64_t done = 0;
    uint32_t entry, crc = 0;
    nigh_status status = store_find_sealed(call, &entry);

    if (status != NIGH_OK) {
        return status;
    }
    if (store_has_flag(pool, entry, INDEX_FLAG_CHECKSUM)) {
        call->cqe.data_size = shared_load_relaxed(&store_entry(pool, entry)->data_crc);
        return NIGH_OK;
    }
    NIGH_ASSERT(store_state(pool, entry) == INDEX_SEALED); /* a spilled one has its checksum */
    if (store_entry(pool, entry)->data_size <= LIMIT_TURN_CHECKSUM_BYTES) {
        (void)sum_more(call->store, pool, entry, &done, &crc);
        call->cqe.data_size = crc;
        return NIGH_OK;
    }
    if (!store_may_wait(call->store) || !store_reader_enter(call->store, pool, entry)) {
        return NIGH_LIMIT;
    }
    call->wait = STORE_WAIT_WORK;
    call->entry = entry;
    return NIGH_PENDING;
}

void store_checksum_more(struct store *store, struct store_waiter *waiter)
{
    struct store_pool *pool = store->sessions[waiter->session]->pool;
    struct session_cqe cqe = {.pin = SESSION_NO_PIN};

    if (sum_more(store, pool, waiter->entry, &waiter->done_bytes, &waiter->crc)) {
        store_reader_leave(store, pool, waiter->entry);
        cqe.data_size = waiter->crc;
        store_end_wait(store, waiter, NIGH_OK, &cqe);
    }
}
