/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals: of what was created, and of bytes of a lease (create and seal in one); the copy that a
 * strict pool makes. The leased seal is the lane's hottest path: no system call, no allocation.
 */
#include "base/check.h"
#include "object/store_claim.h"
#include "object/store_create.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_remote.h"
#include "object/store_seal.h"
#include "object/store_session.h"
#include "object/store_wait.h"

void store_now_sealed(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash)
{
    bool born = !store_has_flag(pool, entry, INDEX_FLAG_COPY);

    evict_admit(&pool->evict, entry, store_memory_bytes(store, pool, entry), hash);
    pool->objects++;
    store->counts.seals += born;
    store_say(store, pool, entry, NIGH_EVENT_SEALED);
    if (born) {
        store_tell_sealed(store, pool, entry, hash);
    }
    /* The id is copied: whoever wakes may make room, and the entry may go. */
    if (store->waiting_for_id > 0) {
        uint8_t id[LIMIT_ID_BYTES];
        bool wanted;

        memcpy(id, store_entry(pool, entry)->id, LIMIT_ID_BYTES);
        wanted = born && store_is_wanted(store, pool, id, hash);
        store_wake_id(store, pool, id, hash);
        if (wanted) {
            store_unwant_id(store, pool, id, hash);
        }
    }
}

/* Copies an object's bytes within the arena: readers need not trust who wrote the first. */
static void copy_object(struct store *store, uint64_t from, uint64_t to, uint64_t bytes)
{
    memcpy(extent_bytes_at(store->config.extents, to), extent_bytes_at(store->config.extents, from),
           bytes);
}

/* ---- of a created object ---- */

static uint32_t build_us(uint64_t build_ns)
{
    return (uint32_t)min_u64(build_ns / 1000, UINT32_MAX);
}

/* Its own: created by the session, which knows of it, and no seal of it under way. */
bool store_is_unsealed(const struct store_call *call, uint64_t ref)
{
    const struct store_pool *pool = call->pool;

    return ref < pool->writer.index.entry_count &&
           store_state(pool, (uint32_t)ref) == INDEX_CREATED &&
           (pool->records[ref].flags & (RECORD_COPYING | RECORD_ASKED)) == 0 &&
           !store_has_flag(pool, (uint32_t)ref, INDEX_FLAG_ASKED) &&
           store_maker(call->store, &pool->records[ref]) == call->session;
}

/* Gives up a created object whose id another has taken meanwhile. */
static bool came_second(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash)
{
    bool lost = (pool->records[entry].flags & RECORD_DOOMED) != 0;
    uint32_t other;

    if (!lost && (!index_find(&pool->writer, store_entry(pool, entry)->id, hash, &other) ||
                  other == entry)) {
        return false;
    }
    store_discard(store, pool, entry);
    return true;
}

static void seal_commit(struct store *store, struct store_session *session, uint32_t entry,
                        uint64_t hash, struct session_cqe *cqe)
{
    struct store_pool *pool = session->pool;
    uint64_t created_ns = pool->writer.index.cold[entry].created_ns;
    uint64_t now_ns = store_wall_ns(store);

    store_no_longer_created(store, pool, entry, hash);
    store_list_push(pool, &session->made, entry);
    index_seal(&pool->writer, entry, build_us(now_ns > created_ns ? now_ns - created_ns : 0));
    if (store_has_flag(pool, entry, INDEX_FLAG_CLAIMED)) {
        index_set_flags(&pool->writer, entry, 0, INDEX_FLAG_CLAIMED);
    } else {
        index_insert(&pool->writer, hash, entry);
    }
    cqe->ref = entry;
    cqe->generation = store_generation(pool, entry);
    store_now_sealed(store, pool, entry, hash);
}

/* ---- the copy of a strict pool ---- */

/* The copy is whole: the object lies there from now on, and the client's memory goes back. */
static void take_over(struct store *store, struct store_pool *pool, uint32_t entry, uint32_t block)
{
    store_object_obstacle(store, pool, entry, -1);
    /* Moved first: a node that dies between must not leave a client's memory called the node's. */
    index_entry_move(&pool->writer, entry, heap_block_offset(store->heaps, block));
    index_set_flags(&pool->writer, entry, INDEX_FLAG_NODE_OWNED, 0);
    store_memory_unbind(store, pool, entry);
    store_memory_bind(store, pool, entry, block);
    store_object_obstacle(store, pool, entry, 1);
}

static void copy_obstacle(struct store *store, uint32_t block, int change)
{
    store_obstacle(store, heap_block_offset(store->heaps, block),
                   heap_block_bytes(store->heaps, block), change);
}

/*
 * Memory for the copy, and the copy itself. A large one is made a piece a turn (NIGH_PENDING);
 * meanwhile the object can be neither sealed again nor given up.
 */
static nigh_status copy_created(struct store_call *call, uint32_t entry)
{
    struct store *store = call->store;
    struct store_pool *pool = call->pool;
    bool evict = (call->sqe->flags & SESSION_FLAG_NO_EVICT) == 0;
    uint64_t bytes = store_memory_bytes(store, pool, entry);
    uint32_t block;
    nigh_status status;

    if (call->waiter == NULL && bytes > LIMIT_TURN_COPY_BYTES && !store_may_wait(store)) {
        return NIGH_LIMIT;
    }
    status = store_obtain(call, store_node_owner(pool), bytes, evict, &block);
    if (status != NIGH_OK) {
        return status;
    }
    if (bytes <= LIMIT_TURN_COPY_BYTES) {
        copy_object(store, store_entry(pool, entry)->offset, heap_block_offset(store->heaps, block),
                    bytes);
        take_over(store, pool, entry, block);
        return NIGH_OK;
    }
    pool->records[entry].flags |= RECORD_COPYING;
    copy_obstacle(store, block, 1);
    call->wait = STORE_WAIT_WORK;
    call->entry = entry;
    call->block = block;
    return NIGH_PENDING;
}

void store_copy_stop(struct store *store, struct store_waiter *waiter)
{
    struct store_pool *pool = store->sessions[waiter->session]->pool;

    copy_obstacle(store, waiter->block, -1);
    pool->records[waiter->entry].flags &= (uint8_t)~RECORD_COPYING;
}

void store_copy_more(struct store *store, struct store_waiter *waiter)
{
    struct store_session *session = store->sessions[waiter->session];
    struct store_pool *pool = session->pool;
    uint32_t entry = waiter->entry;
    uint64_t left = store_memory_bytes(store, pool, entry) - waiter->done_bytes;
    uint64_t bytes = min_u64(left, LIMIT_TURN_COPY_BYTES);
    uint64_t hash = store_hash(pool, entry);
    struct session_cqe cqe = {.pin = SESSION_NO_PIN};
    nigh_status status = NIGH_OK;

    copy_object(store, store_entry(pool, entry)->offset + waiter->done_bytes,
                heap_block_offset(store->heaps, waiter->block) + waiter->done_bytes, bytes);
    waiter->done_bytes += bytes;
    if (bytes < left) {
        return;
    }
    store_copy_stop(store, waiter);
    if (came_second(store, pool, entry, hash)) {
        store_block_give(store, waiter->block);
        status = NIGH_EXISTS;
    } else {
        take_over(store, pool, entry, waiter->block);
        seal_commit(store, session, entry, hash, &cqe);
    }
    store_end_wait(store, waiter, status, &cqe);
}

static nigh_status seal_created(struct store_call *call)
{
    struct store *store = call->store;
    struct store_pool *pool = call->pool;
    uint32_t entry = (uint32_t)call->sqe->ref;
    nigh_status status;

    if (!store_is_unsealed(call, call->sqe->ref)) {
        return NIGH_INVALID;
    }
    call->hash = store_hash(pool, entry);
    if (came_second(store, pool, entry, call->hash)) {
        return NIGH_EXISTS;
    }
    status = store_confirm_claim(call, entry);
    if (status == NIGH_OK && pool->config.strict &&
        !store_has_flag(pool, entry, INDEX_FLAG_NODE_OWNED)) {
        status = copy_created(call, entry);
    }
    if (status == NIGH_PENDING) {
        return status;
    }
    if (status != NIGH_OK) {
        store_discard(store, pool, entry);
        return status;
    }
    seal_commit(store, call->session, entry, call->hash, &call->cqe);
    return NIGH_OK;
}

void store_seal_failed(struct store_call *call)
{
    const struct session_sqe *sqe = call->sqe;

    if (sqe->op == SESSION_OP_SEAL && (sqe->flags & SESSION_FLAG_LEASED) == 0 &&
        store_is_unsealed(call, sqe->ref)) {
        store_discard(call->store, call->pool, (uint32_t)sqe->ref);
    }
}

/* ---- of leased bytes ---- */

/* The piece of a lease of the session that holds [offset, offset + bytes). */
static struct store_lease *find_piece(const struct store *store, struct store_session *session,
                                      uint64_t offset, uint64_t bytes, uint32_t *piece)
{
    for (uint32_t n = 0, i = session->last_lease; n < LIMIT_LEASES_A_SESSION;
         n++, i = i + 1 < LIMIT_LEASES_A_SESSION ? i + 1 : 0) {
        struct store_lease *lease = &session->leases[i];

        if (lease->entry == STORE_NONE || offset < lease->offset ||
            offset - lease->offset > lease->bytes ||
            bytes > lease->bytes - (offset - lease->offset)) {
            continue;
        }
        /* Seals mostly take from the front of what is left, which stands last. */
        for (uint32_t p = lease->pieces; p-- > 0;) {
            uint64_t begin = heap_block_offset(store->heaps, lease->blocks[p]);
            uint64_t end = begin + heap_block_bytes(store->heaps, lease->blocks[p]);

            if (offset >= begin && offset + bytes <= end) {
                *piece = p;
                session->last_lease = i;
                return lease;
            }
        }
        return NULL;
    }
    return NULL;
}

uint8_t *store_leased_bytes(struct store *store, uint32_t session, uint64_t offset, uint64_t bytes)
{
    uint32_t piece;

    if (find_piece(store, store->sessions[session], offset, bytes, &piece) == NULL) {
        return NULL;
    }
    return extent_bytes_at(store->config.extents, offset);
}

/* Cuts the object's block out of a piece. NIGH_LIMIT: too many pieces; nothing has changed. */
static nigh_status cut_piece(struct store *store, struct store_session *session,
                             struct store_lease *lease, uint32_t piece, uint64_t offset,
                             uint64_t bytes, uint32_t *cut)
{
    uint32_t block = lease->blocks[piece];
    bool before = heap_block_offset(store->heaps, block) != offset;
    uint32_t rest;
    nigh_status status;

    if (before && lease->pieces == LIMIT_LEASE_PIECES) {
        return NIGH_LIMIT;
    }
    status = heap_carve(store->heaps, block, offset, bytes, cut, &rest);
    if (status != NIGH_OK) {
        return status;
    }
    if (!before && rest != HEAP_NO_BLOCK) {
        lease->blocks[piece] = rest;
    } else if (!before) {
        lease->blocks[piece] = lease->blocks[--lease->pieces];
    } else if (rest != HEAP_NO_BLOCK) {
        lease->blocks[lease->pieces++] = rest;
    }
    lease->left -= bytes;
    session->leased_bytes -= bytes;
    store->leased_bytes -= bytes;
    return NIGH_OK;
}

/*
 * The id is taken: the bytes are given up, and no longer a piece, of which a lease has few. They
 * are free when the lease ends, not before: memory in its midst that is given away may come back to
 * the same client as another lease, which neither side could tell from this one. If they cannot be
 * cut off, they stay a piece.
 */
static void refuse_piece(struct store *store, struct store_session *session,
                         struct store_lease *lease, uint32_t piece, uint64_t offset, uint64_t bytes)
{
    uint32_t cut;

    if (cut_piece(store, session, lease, piece, offset, bytes, &cut) == NIGH_OK) {
        store_lease_add_rest(store, session, lease, cut);
    }
}

/* A lease of which nothing is left is no lease: it ends before anyone has to close it. */
static void end_if_empty(struct store *store, struct store_session *session,
                         struct store_lease *lease)
{
    if (lease->pieces == 0 && lease->rest == 0) {
        store_lease_end(store, session, lease);
    }
}

/* Memory for a leased seal in a strict pool: a copy; the client's bytes go back. */
static nigh_status copy_leased(struct store_call *call, struct store_lease *lease, uint32_t piece,
                               uint64_t bytes, uint32_t *block)
{
    struct store *store = call->store;
    uint64_t offset = call->sqe->offset;
    bool evict = (call->sqe->flags & SESSION_FLAG_NO_EVICT) == 0;
    uint32_t cut;
    nigh_status status = store_obtain(call, store_node_owner(call->pool), bytes, evict, block);

    if (status != NIGH_OK) {
        return status;
    }
    copy_object(store, offset, heap_block_offset(store->heaps, *block), bytes);
    status = cut_piece(store, call->session, lease, piece, offset, bytes, &cut);
    if (status != NIGH_OK) {
        store_block_give(store, *block);
        return status;
    }
    store_block_give(store, cut);
    return NIGH_OK;
}

static void leased_commit(struct store_call *call, uint32_t entry, uint32_t block)
{
    struct store *store = call->store;
    struct store_pool *pool = call->pool;
    const struct session_sqe *sqe = call->sqe;
    struct store_record *record = &pool->records[entry];
    uint64_t now_ns = store_wall_ns(store);
    uint64_t build_ns = min_u64(sqe->ref, now_ns);
    struct index_fill fill = {
        .id = sqe->id,
        .incarnation = store->config.incarnation,
        .meta_size = sqe->meta_size,
        .offset = heap_block_offset(store->heaps, block),
        .data_size = sqe->data_size,
        .name_size = sqe->name_size,
        .flags = pool->config.strict ? INDEX_FLAG_NODE_OWNED : 0,
        .session = (uint32_t)call->session->config.session_id,
        .build_us = build_us(build_ns),
        .created_ns = now_ns - build_ns,
    };

    call->cqe.generation = index_entry_fill(&pool->writer, entry, &fill, INDEX_SEALED);
    call->cqe.ref = entry;
    index_insert(&pool->writer, call->hash, entry);
    record->maker = (uint16_t)call->session->config.session;
    record->serial = call->session->serial;
    store_memory_bind(store, pool, entry, block);
    store_list_push(pool, &call->session->made, entry);
    store_now_sealed(store, pool, entry, call->hash);
}

/* What a leased seal must be before anything is done: NIGH_OK, and the piece it takes from. */
static nigh_status check_leased(struct store_call *call, uint64_t bytes, struct store_lease **lease,
                                uint32_t *piece)
{
    uint32_t other;

    if (bytes == 0 || call->sqe->offset % LIMIT_GRANULE_BYTES != 0) {
        return NIGH_INVALID;
    }
    *lease = find_piece(call->store, call->session, call->sqe->offset, bytes, piece);
    if (*lease == NULL) {
        return NIGH_INVALID;
    }
    return index_find(&call->pool->writer, call->sqe->id, call->hash, &other) ? NIGH_EXISTS
                                                                              : NIGH_OK;
}

static nigh_status seal_leased(struct store_call *call)
{
    struct store *store = call->store;
    struct store_session *session = call->session;
    uint64_t bytes = store_sizes(call->sqe);
    bool evict = (call->sqe->flags & SESSION_FLAG_NO_EVICT) == 0;
    struct store_lease *lease;
    uint32_t piece, entry, block;
    nigh_status status = check_leased(call, bytes, &lease, &piece);

    if (status == NIGH_EXISTS) {
        refuse_piece(store, session, lease, piece, call->sqe->offset, bytes);
    }
    if (status != NIGH_OK) {
        return status;
    }
    status = store_obtain_quota(call, bytes, evict);
    if (status != NIGH_OK) {
        return status;
    }
    status = store_obtain_entry(store, call->pool, evict, &entry);
    if (status != NIGH_OK) {
        goto discharge;
    }
    status = call->pool->config.strict
                 ? copy_leased(call, lease, piece, bytes, &block)
                 : cut_piece(store, session, lease, piece, call->sqe->offset, bytes, &block);
    if (status != NIGH_OK) {
        goto give_entry;
    }
    leased_commit(call, entry, block);
    end_if_empty(store, session, lease);
    return NIGH_OK;

give_entry:
    index_give_back(&call->pool->writer, entry);
discharge:
    store_discharge(session, bytes);
    return status;
}

/* Whether a slab's worth of others than newcomers could go: one for the next put must not cost the
 * object of this one. */
static bool has_settled(const struct store_pool *pool)
{
    return evict_bytes(&pool->evict, EVICT_SMALL) + evict_bytes(&pool->evict, EVICT_MAIN) >=
           LIMIT_LEASE_BYTES_MIN;
}

nigh_status store_seal(struct store_call *call)
{
    bool evict = (call->sqe->flags & SESSION_FLAG_NO_EVICT) == 0;
    nigh_status status;

    if ((call->sqe->flags & SESSION_FLAG_LEASED) == 0) {
        status = seal_created(call);
    } else if (unlikely(!store_takes_sealed(call->store, call->sqe->ref))) {
        status = NIGH_LEAVING;
    } else if (store_take_id(call)) {
        /* Two lines of large tables, at places without order: fetched side by side. */
        index_expect(&call->pool->writer, call->hash);
        evict_expect(&call->pool->evict, call->hash);
        status = seal_leased(call);
    } else {
        status = NIGH_INVALID;
    }
    /* The next slab comes with the seal that used the last up: one round trip a put. */
    if (status == NIGH_OK && (call->sqe->flags & SESSION_FLAG_RENEW) != 0) {
        (void)store_lease_grant(call, session_renew_bytes(call->sqe->argument),
                                evict && has_settled(call->pool));
    }
    return status;
}
