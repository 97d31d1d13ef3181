/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases and created objects: memory that a session may write, and its end without a seal.
 */
#include "base/check.h"
#include "object/store_claim.h"
#include "object/store_create.h"
#include "object/store_figures.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_remote.h"
#include "object/store_seal.h"
#include "object/store_session.h"
#include "object/store_wait.h"

uint64_t store_session_owner(const struct store_session *session)
{
    return extent_owner(session->config.pool, session->config.uid);
}

uint64_t store_node_owner(const struct store_pool *pool)
{
    return extent_owner(pool->config.pool, EXTENT_NODE_UID);
}

uint64_t store_sizes(const struct session_sqe *sqe)
{
    if (sqe->meta_size > LIMIT_META_BYTES || sqe->name_size > LIMIT_NAME_BYTES) {
        return 0;
    }
    return index_object_bytes(sqe->data_size, sqe->meta_size, sqe->name_size);
}

void store_release(struct store_pool *pool, uint32_t entry)
{
    struct store_record *record = &pool->records[entry];

    NIGH_ASSERT(record->block == 0 && record->next == 0 && record->prev == 0 &&
                record->chain == 0 && record->readers == 0);
    record->serial = 0;
    record->maker = 0;
    record->flags = 0;
    index_release(&pool->writer, entry);
}

/* ---- leases ---- */

static struct store_lease *lease_free_place(struct store_session *session)
{
    for (uint32_t i = 0; i < LIMIT_LEASES_A_SESSION; i++) {
        if (session->leases[i].entry == STORE_NONE) {
            return &session->leases[i];
        }
    }
    return NULL;
}

/* As much as asked for, within the bounds, and this session's share of what leases may take. */
static uint64_t lease_size(const struct store *store, uint64_t wanted)
{
    uint64_t sessions = LIMIT_LEASE_SESSIONS + store->session_count;
    uint64_t share = store_free_bytes(store) / LIMIT_LEASE_FREE_SHARE / sessions;
    uint64_t most = min_u64(LIMIT_LEASE_BYTES_MAX, max_u64(LIMIT_LEASE_BYTES_MIN, share));
    uint64_t bytes = max_u64(LIMIT_LEASE_BYTES_MIN, min_u64(wanted, most));

    return bytes & ~(uint64_t)(LIMIT_GRANULE_BYTES - 1);
}

void store_lease_begin(struct store *store, struct store_lease *lease, uint32_t entry,
                       uint64_t offset, uint64_t bytes)
{
    *lease = (struct store_lease){.entry = entry, .offset = offset, .bytes = bytes};
    store_obstacle(store, offset, bytes, 1);
}

static void lease_count(struct store *store, struct store_session *session,
                        struct store_lease *lease, uint32_t block)
{
    uint64_t bytes = heap_block_bytes(store->heaps, block);

    lease->left += bytes;
    session->leased_bytes += bytes;
    store->leased_bytes += bytes;
}

void store_lease_add_piece(struct store *store, struct store_session *session,
                           struct store_lease *lease, uint32_t block)
{
    NIGH_ASSERT(lease->pieces < LIMIT_LEASE_PIECES);
    lease->blocks[lease->pieces++] = block;
    lease_count(store, session, lease, block);
}

void store_lease_add_rest(struct store *store, struct store_session *session,
                          struct store_lease *lease, uint32_t block)
{
    heap_block_set_tag(store->heaps, block, lease->rest);
    lease->rest = block + 1;
    lease_count(store, session, lease, block);
}

/* Memory for a lease: what was asked for if it is there or can be made, else the least that is. */
static nigh_status lease_memory(struct store *store, struct store_session *session, uint64_t wanted,
                                bool evict, uint32_t *block)
{
    uint64_t owner = store_session_owner(session);
    uint64_t bytes = lease_size(store, wanted);
    uint64_t spent = 0;
    uint32_t heap;
    nigh_status status = store_session_heap(store, session, &heap);

    if (status != NIGH_OK) {
        return status;
    }
    if (store_must_queue(store, heap, LIMIT_LEASE_BYTES_MIN)) {
        return NIGH_OUT_OF_MEMORY;
    }
    if (!store_must_queue(store, heap, bytes)) {
        status = store_block_take(store, heap, bytes, block);
        if (status == NIGH_OK) {
            return status;
        }
    }
    /* Others wait for this heap, if for more: what eviction yields is theirs. */
    evict = evict && store->heap_waiting[heap] == 0;
    return store_obtain_now(store, session->pool, owner, heap, LIMIT_LEASE_BYTES_MIN, evict, &spent,
                            block);
}

static bool lies_in_a_lease(const struct store *store, const struct store_session *session,
                            uint32_t block)
{
    uint64_t offset = heap_block_offset(store->heaps, block);
    uint64_t end = offset + heap_block_bytes(store->heaps, block);

    for (uint32_t i = 0; i < LIMIT_LEASES_A_SESSION; i++) {
        const struct store_lease *lease = &session->leases[i];

        if (lease->entry != STORE_NONE && offset < lease->offset + lease->bytes &&
            end > lease->offset) {
            return true;
        }
    }
    return false;
}

/*
 * The same, apart from the session's other leases: what was sealed in one may be gone before that
 * ends, and then its memory is free; but both sides tell leases apart by where bytes lie. Such
 * memory is held back while other is looked for.
 */
static nigh_status lease_memory_apart(struct store *store, struct store_session *session,
                                      uint64_t wanted, bool evict, uint32_t *block)
{
    uint32_t held[LIMIT_LEASES_A_SESSION], count = 0, found;
    nigh_status status;
    bool inside;

    do {
        status = lease_memory(store, session, wanted, evict, &found);
        inside = status == NIGH_OK && lies_in_a_lease(store, session, found);
        if (inside) {
            held[count++] = found;
        }
    } while (inside && count < LIMIT_LEASES_A_SESSION);
    while (count > 0) {
        store_block_return(store, held[--count]);
    }
    if (inside) {
        return NIGH_OUT_OF_MEMORY;
    }
    if (status == NIGH_OK) {
        *block = found;
    }
    return status;
}

static uint64_t leased_to(const struct store *store, uint32_t uid)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < LIMIT_SESSIONS; i++) {
        const struct store_session *other = store->sessions[i];

        bytes += other != NULL && other->config.uid == uid ? other->leased_bytes : 0;
    }
    return bytes;
}

/*
 * What leases may take is had alike (Choudhury, Hahne: ToN '98): a user has one more as long as its
 * leases are less than what is left, and a session as long as its own are less than that leaves the
 * user. So nobody who holds on to leases keeps others from having some.
 */
static bool lease_has_share(const struct store *store, const struct store_session *session)
{
    uint64_t most = store->memory_bytes / STORE_LEASED_SHARE;
    uint64_t left = most > store->leased_bytes ? most - store->leased_bytes : 0;
    uint64_t own;

    if (store->leased_bytes < left / 2) {
        return true; /* whosever they are */
    }
    own = leased_to(store, session->config.uid);
    return own < left && session->leased_bytes < left - own;
}

static nigh_status lease_grant(struct store_call *call, struct store_lease *lease, uint64_t wanted,
                               bool evict)
{
    struct store *store = call->store;
    struct store_session *session = call->session;
    struct index_fill fill = {.session = (uint32_t)session->config.session_id};
    uint32_t entry, block;
    nigh_status status;

    if (!lease_has_share(store, session)) {
        return NIGH_OUT_OF_MEMORY;
    }
    status = store_obtain_entry(store, call->pool, evict, &entry);
    if (status != NIGH_OK) {
        return status;
    }
    status = lease_memory_apart(store, session, wanted, evict, &block);
    if (status != NIGH_OK) {
        index_give_back(&call->pool->writer, entry);
        return status;
    }
    fill.incarnation = store->config.incarnation;
    fill.offset = heap_block_offset(store->heaps, block);
    fill.data_size = heap_block_bytes(store->heaps, block);
    fill.created_ns = store_wall_ns(store);
    index_entry_fill(&call->pool->writer, entry, &fill, INDEX_LEASE);
    store_lease_begin(store, lease, entry, fill.offset, fill.data_size);
    store_lease_add_piece(store, session, lease, block);
    call->cqe.lease_offset = fill.offset;
    call->cqe.lease_bytes = fill.data_size;
    return NIGH_OK;
}

nigh_status store_lease_grant(struct store_call *call, uint64_t wanted, bool evict)
{
    struct store_lease *lease = lease_free_place(call->session);
    nigh_status status = NIGH_LIMIT;

    if (lease != NULL) {
        status = lease_grant(call, lease, wanted, evict);
    }
    call->store->counts.leases_refused += status != NIGH_OK;
    return status;
}

void store_lease_end(struct store *store, struct store_session *session, struct store_lease *lease)
{
    /* The entry first: a restart must not find a lease over memory that is another's again. */
    index_release(&session->pool->writer, lease->entry);
    store_obstacle(store, lease->offset, lease->bytes, -1);
    for (uint32_t i = 0; i < lease->pieces; i++) {
        store_block_give(store, lease->blocks[i]);
    }
    while (lease->rest != 0) {
        uint32_t block = lease->rest - 1;

        lease->rest = (uint32_t)heap_block_tag(store->heaps, block);
        store_block_give(store, block);
    }
    session->leased_bytes -= lease->left;
    store->leased_bytes -= lease->left;
    *lease = (struct store_lease){.entry = STORE_NONE};
}

nigh_status store_lease(struct store_call *call)
{
    bool evict = (call->sqe->flags & SESSION_FLAG_NO_EVICT) == 0;

    if (store_leaves(call->store) && call->sqe->op == SESSION_OP_LEASE) {
        return NIGH_LEAVING;
    }
    return store_lease_grant(call, call->sqe->argument, evict);
}

nigh_status store_lease_close(struct store_call *call)
{
    for (uint32_t i = 0; i < LIMIT_LEASES_A_SESSION; i++) {
        struct store_lease *lease = &call->session->leases[i];

        if (lease->entry != STORE_NONE && lease->offset == call->sqe->offset) {
            store_lease_end(call->store, call->session, lease);
            return NIGH_OK;
        }
    }
    return NIGH_NOT_FOUND;
}

/* ---- memory to write to, before it is needed ---- */

static uint64_t owned_bytes(const struct store *store, uint64_t owner)
{
    const struct extent_set *set = store->config.extents;
    uint64_t bytes = 0;

    for (uint32_t i = store_extents_first(store); i < store_extents_end(store); i++) {
        if (set->extents[i].present &&
            atomic_load_explicit(&set->extents[i].owner, memory_order_relaxed) == owner) {
            bytes += set->extent_bytes;
        }
    }
    return bytes;
}

/*
 * Makes the session's uid own extents, so that its client can map and touch them before the first
 * put. A heap keeps what it once took: allocating whole extents and freeing them is all it needs.
 */
nigh_status store_reserve(struct store_call *call)
{
    struct store *store = call->store;
    uint64_t owner = store_session_owner(call->session);
    uint64_t extent_bytes = store->config.extents->extent_bytes;
    /* Pools share: who has all to itself without using it makes others take it away again. */
    uint64_t wanted = min_u64(call->sqe->argument, store->memory_bytes / store->pool_count);
    uint32_t last = HEAP_NO_BLOCK;
    uint32_t heap, block;
    nigh_status status = store_session_heap(store, call->session, &heap);

    if (status != NIGH_OK) {
        return status;
    }
    while (owned_bytes(store, owner) < wanted &&
           heaps_unowned_bytes(store->heaps) >= extent_bytes &&
           store_block_take(store, heap, extent_bytes, &block) == NIGH_OK) {
        /* The blocks that are held meanwhile form a chain through their tags. */
        heap_block_set_tag(store->heaps, block, last);
        last = block;
    }
    while (last != HEAP_NO_BLOCK) {
        block = last;
        last = (uint32_t)heap_block_tag(store->heaps, block);
        store_block_give(store, block);
    }
    call->cqe.data_size = owned_bytes(store, owner);
    return NIGH_OK;
}

/* ---- created objects ---- */

static void create_commit(struct store_call *call, uint32_t entry, uint32_t block)
{
    struct store *store = call->store;
    struct store_pool *pool = call->pool;
    struct store_session *session = call->session;
    const struct session_sqe *sqe = call->sqe;
    struct store_record *record = &pool->records[entry];
    bool claim = (sqe->flags & SESSION_FLAG_EXCLUSIVE) != 0;
    struct index_fill fill = {
        .id = sqe->id,
        .incarnation = store->config.incarnation,
        .meta_size = sqe->meta_size,
        .offset = heap_block_offset(store->heaps, block),
        .data_size = sqe->data_size,
        .name_size = sqe->name_size,
        .flags = !claim              ? 0
                 : store->has_remote ? INDEX_FLAG_CLAIMED | INDEX_FLAG_ASKED
                                     : INDEX_FLAG_CLAIMED,
        .session = (uint32_t)session->config.session_id,
        .created_ns = store_wall_ns(store),
    };

    (void)index_entry_fill(&pool->writer, entry, &fill, INDEX_CREATED);
    store_created_reply(pool, entry, &call->cqe);
    record->maker = (uint16_t)session->config.session;
    record->serial = session->serial;
    store_memory_bind(store, pool, entry, block);
    store_created(store, pool, session, entry, call->hash);
}

void store_created(struct store *store, struct store_pool *pool, struct store_session *session,
                   uint32_t entry, uint64_t hash)
{
    store_list_push(pool, &session->unsealed, entry);
    store_object_obstacle(store, pool, entry, 1);
    pool->objects_unsealed++;
    store->unsealed_bytes += store_memory_bytes(store, pool, entry);
    if (store_has_flag(pool, entry, INDEX_FLAG_CLAIMED)) {
        store->claimed++;
    } else {
        store_shadow_add(pool, hash, entry);
    }
}

void store_no_longer_created(struct store *store, struct store_pool *pool, uint32_t entry,
                             uint64_t hash)
{
    struct store_session *session = store_maker(store, &pool->records[entry]);

    store_list_remove(pool, session != NULL ? &session->unsealed : NULL, entry);
    store_object_obstacle(store, pool, entry, -1);
    pool->objects_unsealed--;
    store->unsealed_bytes -= store_memory_bytes(store, pool, entry);
    if (store_has_flag(pool, entry, INDEX_FLAG_CLAIMED)) {
        store->claimed--;
    } else {
        store_shadow_remove(pool, hash, entry);
    }
}

nigh_status store_create_object(struct store_call *call)
{
    struct store *store = call->store;
    uint64_t bytes = store_sizes(call->sqe);
    bool evict = (call->sqe->flags & SESSION_FLAG_NO_EVICT) == 0;
    bool claims = (call->sqe->flags & SESSION_FLAG_EXCLUSIVE) != 0;
    uint32_t other, entry, block;
    nigh_status status;

    if (bytes == 0) {
        return NIGH_INVALID;
    }
    if (store_leaves(store)) {
        return NIGH_LEAVING;
    }
    if (index_find(&call->pool->writer, call->sqe->id, call->hash, &other)) {
        return NIGH_EXISTS;
    }
    if (claims && store_may_claim(call) != NIGH_OK) {
        return NIGH_LIMIT;
    }
    if (call->session->unsealed.count >= LIMIT_UNSEALED_A_SESSION) {
        return NIGH_LIMIT;
    }
    status = store_obtain_quota(call, bytes, evict);
    if (status != NIGH_OK) {
        return status;
    }
    status = store_obtain_entry(store, call->pool, evict, &entry);
    if (status != NIGH_OK) {
        call->wait = STORE_WAIT_MEMORY;
        call->late = NIGH_LIMIT;
        status = NIGH_PENDING;
        goto discharge;
    }
    status = store_obtain(call, store_session_owner(call->session), bytes, evict, &block);
    if (status != NIGH_OK) {
        goto give_entry;
    }
    create_commit(call, entry, block);
    if (!claims) {
        return NIGH_OK;
    }
    index_insert(&call->pool->writer, call->hash, entry);
    return store_claim(call, entry);

give_entry:
    index_give_back(&call->pool->writer, entry);
discharge:
    store_discharge(call->session, bytes);
    return status;
}

void store_discard(struct store *store, struct store_pool *pool, uint32_t entry)
{
    struct store_session *session = store_maker(store, &pool->records[entry]);
    bool claimed = store_has_flag(pool, entry, INDEX_FLAG_CLAIMED);
    uint64_t hash = store_hash(pool, entry);
    uint8_t id[LIMIT_ID_BYTES];

    memcpy(id, store_entry(pool, entry)->id, LIMIT_ID_BYTES);
    if (claimed) {
        store_tell_gone(store, pool, entry, hash);
        index_remove(&pool->writer, hash, entry);
    }
    store_no_longer_created(store, pool, entry, hash);
    if (session != NULL) {
        store_discharge(session, store_memory_bytes(store, pool, entry));
    }
    store_memory_unbind(store, pool, entry);
    store_release(pool, entry);
    if (claimed) {
        store_want_id(store, pool, id, hash); /* a claim kept copies away */
    }
}

nigh_status store_abort(struct store_call *call)
{
    if (!store_is_unsealed(call, call->sqe->ref)) {
        return NIGH_INVALID;
    }
    store_discard(call->store, call->pool, (uint32_t)call->sqe->ref);
    return NIGH_OK;
}
