/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets and releases. What is sealed and in memory is found and pinned here, without a system call;
 * the lane is asked for the rest: what is not there yet, spilled, in passage, or more than the
 * thread's pin words hold.
 */
#include <string.h>

#include "client/client_internal.h"
#include "client/error.h"
#include "client/extents.h"
#include "client/get.h"
#include "client/op.h"
#include "client/pins.h"

/* How many ids ahead a get of many looks. */
#define GET_AHEAD_SLOTS   12
#define GET_AHEAD_ENTRIES 6

/* ---- without the lane ----------------------------------------------------- */

/* Fills a view of bytes that are pinned by *word. */
static inline void get_fill(const nigh_client *client, uint64_t offset, uint64_t data_size,
                            uint32_t meta_size, _Atomic uint64_t *word, uint64_t ref,
                            nigh_view *view)
{
    const uint8_t *data = client->read_arena + offset;

    view->data = data;
    view->data_size = data_size;
    view->meta = meta_size != 0 ? data + index_meta_offset(data_size) : NULL;
    view->meta_size = meta_size;
    view->status = NIGH_OK;
    view->opaque[0] = (uint64_t)(uintptr_t)word;
    view->opaque[1] = ref;
}

/* A view without an object. */
static inline void get_clear(nigh_view *view, nigh_status status)
{
    memset(view, 0, sizeof(*view));
    view->status = status;
}

/* Fills the view of a pinned object whose extent is not mapped yet, or spans several. */
static __attribute__((noinline)) nigh_status
get_map(nigh_client *client, bool locked, uint64_t offset, uint64_t bytes, _Atomic uint64_t *word)
{
    nigh_status status = NIGH_PROTOCOL; /* 0 bytes: sizes that cannot be */

    if (bytes != 0) {
        status = locked ? extents_map_locked(client, offset, bytes, false)
                        : extents_map(client, offset, bytes, false);
    }
    if (status != NIGH_OK) {
        pin_clear(word);
    }
    return status;
}

static inline enum index_answer get_local(nigh_client *client, const nigh_id *id, nigh_view *view)
{
    uint64_t hash = hash_id20(id->bytes);
    uint32_t lane = index_hash_lane(hash, client->lanes);
    const struct index *index = &client->indexes[lane];
    const struct index_entry *entry;
    struct pin_chunk *chunk;
    enum index_answer answer;
    uint64_t offset, data_size, bytes;
    uint32_t slot, number;

    if (unlikely(!pins_find(client, &chunk, &slot))) {
        return INDEX_ASK;
    }
    answer = index_acquire(index, id->bytes, hash, chunk, slot, &number);
    if (unlikely(answer != INDEX_HIT)) {
        return answer;
    }
    pins_took(slot);
    pin_leave_hint(chunk, lane, number);
    entry = &index->entries[number];
    offset = entry->offset;
    data_size = entry->data_size;
    bytes = index_object_bytes(data_size, entry->meta_size, entry->name_size);
    if (unlikely(!extents_readable(client, offset, bytes))) {
        nigh_status status = get_map(client, false, offset, bytes, &chunk->entry[slot]);

        if (status != NIGH_OK) {
            get_clear(view, error_note(client, status));
            return INDEX_HIT;
        }
    }
    get_fill(client, offset, data_size, entry->meta_size, &chunk->entry[slot],
             pin_ref(lane, number), view);
    return INDEX_HIT;
}

const struct index_entry *get_peek(nigh_client *client, const nigh_id *id,
                                   enum index_answer *answer, _Atomic uint64_t **word,
                                   uint32_t *number)
{
    uint64_t hash = hash_id20(id->bytes);
    const struct index *index = &client->indexes[index_hash_lane(hash, client->lanes)];
    struct pin_chunk *chunk;
    uint32_t slot;

    *answer = INDEX_ASK;
    if (!pins_find(client, &chunk, &slot)) {
        return NULL;
    }
    *answer = index_acquire(index, id->bytes, hash, chunk, slot, number);
    if (*answer != INDEX_HIT) {
        return NULL;
    }
    *word = &chunk->entry[slot];
    return &index->entries[*number];
}

/* ---- through the lane ----------------------------------------------------- */

static uint32_t get_lane(struct client_op *op, size_t step)
{
    if (op->u.get.views[step].status != NIGH_PENDING) {
        return OP_SKIP;
    }
    return client_lane_of(op->client, &op->u.get.ids[step]);
}

static bool get_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    sqe->op = SESSION_OP_GET;
    sqe->flags = (op->u.get.flags & NIGH_GET_NO_COPY) != 0 ? SESSION_FLAG_NO_COPY : 0;
    memcpy(sqe->id, op->u.get.ids[step].bytes, sizeof(sqe->id));
    sqe->argument = op_remaining_us(op);
    return true;
}

/* What a completion says of an object, if it can be. */
static nigh_status get_take(struct client_op *op, uint32_t lane, const struct session_cqe *cqe,
                            nigh_view *view)
{
    nigh_client *client = op->client;
    uint64_t bytes = index_object_bytes(cqe->data_size, cqe->meta_size, cqe->name_size);
    _Atomic uint64_t *word;
    nigh_status status;

    if (cqe->pin >= LIMIT_LANE_PINS) {
        return NIGH_PROTOCOL;
    }
    word = &client->lane[lane].shared->pin_entry[cqe->pin];
    if (bytes == 0 || cqe->meta_size > LIMIT_META_BYTES) {
        pin_clear(word);
        return NIGH_PROTOCOL;
    }
    if (!extents_readable(client, cqe->offset, bytes)) {
        status = get_map(client, true, cqe->offset, bytes, word);
        if (status != NIGH_OK) {
            return status;
        }
    }
    atomic_fetch_add_explicit(&client->lane[lane].views[cqe->pin], 1, memory_order_relaxed);
    get_fill(client, cqe->offset, cqe->data_size, cqe->meta_size, word, pin_ref(lane, cqe->ref),
             view);
    return NIGH_OK;
}

static bool get_done(struct client_op *op, size_t step, uint8_t opcode,
                     const struct session_cqe *cqe)
{
    nigh_view *view = &op->u.get.views[step];
    uint32_t lane = client_lane_of(op->client, &op->u.get.ids[step]);
    nigh_status status = (nigh_status)cqe->status;

    (void)opcode;
    if (status == NIGH_OK) {
        status = get_take(op, lane, cqe, view);
    } else if (status == NIGH_INVALID && op->u.get.flags != 0) {
        status = NIGH_UNSUPPORTED; /* nothing else of a get can be wrong: an older node */
    }
    /* The node was long in giving its memory, others go first; or the time that the lane went by
     * was an older one. */
    if (status == NIGH_TIMEOUT && op_remaining_us(op) != 0) {
        struct session_sqe sqe = {0};

        (void)get_build(op, step, &sqe);
        op_go_on(op, step, lane, true, &sqe);
        return true;
    }
    if (status != NIGH_OK) {
        get_clear(view, status);
        op_fail(op, status);
    }
    return false;
}

static void get_settle(struct client_op *op, nigh_status status)
{
    for (size_t i = 0; i < op->count; i++) {
        if (op->u.get.views[i].status == NIGH_PENDING) {
            get_clear(&op->u.get.views[i], status);
        }
    }
}

static const struct op_kind get_kind = {
    .lane = get_lane,
    .build = get_build,
    .done = get_done,
    .settle = get_settle,
    .waits = true,
    .yields = true,
};

static void get_init(struct client_op *op, nigh_client *client, const nigh_id *ids, size_t n,
                     uint64_t deadline_us, uint32_t flags, nigh_view *views)
{
    op_init(op, client, &get_kind, n, deadline_us);
    op->u.get.ids = ids;
    op->u.get.views = views;
    op->u.get.flags = flags;
}

/*
 * Starts the loads that gets of ids further on will wait for: the slot of one, and the entry that
 * the slot of a nearer one names. What they hold now decides nothing.
 */
static inline void get_look_ahead(const nigh_client *client, const nigh_id *ids, size_t n, size_t i)
{
    if (i + GET_AHEAD_SLOTS < n) {
        uint64_t hash = hash_id20(ids[i + GET_AHEAD_SLOTS].bytes);
        const struct index *index = &client->indexes[index_hash_lane(hash, client->lanes)];

        __builtin_prefetch(&index->slots[index_hash_slot(hash, index->slot_mask)]);
    }
    if (i + GET_AHEAD_ENTRIES < n) {
        uint64_t hash = hash_id20(ids[i + GET_AHEAD_ENTRIES].bytes);
        const struct index *index = &client->indexes[index_hash_lane(hash, client->lanes)];
        uint64_t slot = shared_load_relaxed(&index->slots[index_hash_slot(hash, index->slot_mask)]);

        __builtin_prefetch(&index->entries[(uint32_t)slot - 1]);
    }
}

/* ---- the calls ------------------------------------------------------------ */

#define GET_FLAGS NIGH_GET_NO_COPY

/* No object was asked for: each view says why. */
static __attribute__((noinline)) void get_clear_all(nigh_view *views, size_t n, nigh_status status)
{
    for (size_t i = 0; i < n && views != NULL; i++) {
        get_clear(&views[i], status);
    }
}

static __attribute__((noinline)) nigh_status get_refused(nigh_client *client)
{
    return error_set(client, NIGH_INVALID,
                     "a get: op, ids or views is NULL, or it has flags that there are not");
}

/*
 * Fills the views of what is there; the others are NIGH_PENDING, or have failed for good (a miss
 * that may not wait). *asks: how many are NIGH_PENDING. Returns the first failure.
 */
static nigh_status get_all_local(nigh_client *client, const nigh_id *ids, size_t n,
                                 uint64_t timeout_us, nigh_view *views, size_t *asks)
{
    nigh_status result = NIGH_OK;

    *asks = 0;
    for (size_t i = 0; i < n; i++) {
        enum index_answer answer;

        if (n > 1) {
            get_look_ahead(client, ids, n, i);
        }
        answer = get_local(client, &ids[i], &views[i]);
        if (likely(answer == INDEX_HIT)) {
            if (likely(views[i].status == NIGH_OK)) {
                continue;
            }
            if (views[i].status != NIGH_TIMEOUT || timeout_us == 0) {
                result = result == NIGH_OK ? views[i].status : result;
                continue;
            }
            /* The node was long in giving its memory, and the get has time. */
        } else if (answer == INDEX_MISS && timeout_us == 0) {
            get_clear(&views[i], NIGH_TIMEOUT);
            result = result == NIGH_OK ? NIGH_TIMEOUT : result;
            continue;
        }
        get_clear(&views[i], NIGH_PENDING);
        ++*asks;
    }
    return result;
}

/*
 * A node that died took with it what it had been asked. Where it comes back (the op's next
 * beginning resumes the session, or fails at once) a get may simply be asked again: once, within
 * its deadline.
 */
static nigh_status get_again(nigh_client *client, struct client_op *op)
{
    uint64_t deadline_us = op->deadline_us;
    uint32_t flags = op->u.get.flags;
    const nigh_id *ids = op->u.get.ids;
    nigh_view *views = op->u.get.views;
    size_t n = op->count;

    for (size_t i = 0; i < n; i++) {
        if (views[i].status == NIGH_NODE_LOST &&
            get_local(client, &ids[i], &views[i]) != INDEX_HIT) {
            get_clear(&views[i], NIGH_PENDING);
        }
    }
    get_init(op, client, ids, n, deadline_us, flags, views);
    (void)op_run(op);
    for (size_t i = 0; i < n; i++) {
        if (views[i].status != NIGH_OK) {
            return views[i].status;
        }
    }
    return NIGH_OK;
}

/* Inlined into both calls, so that a plain get of what is here is as short as it can be. */
static inline __attribute__((always_inline)) nigh_status get_now(nigh_client *client,
                                                                 const nigh_id *ids, size_t n,
                                                                 uint64_t timeout_us,
                                                                 uint32_t flags, nigh_view *views)
{
    nigh_status status = client_check(client);
    struct client_op op;
    size_t asks;

    if (unlikely(status != NIGH_OK)) {
        get_clear_all(views, n, status);
        return status;
    }
    if (unlikely((n != 0 && (ids == NULL || views == NULL)) || (flags & ~GET_FLAGS) != 0)) {
        return get_refused(client);
    }
    status = get_all_local(client, ids, n, timeout_us, views, &asks);
    if (likely((asks | (uint32_t)status) == 0)) {
        return NIGH_OK;
    }
    if (asks == 0) {
        return error_note(client, status);
    }
    get_init(&op, client, ids, n, op_deadline_us(timeout_us), flags, views);
    op.result = status;
    status = op_run(&op);
    if (status == NIGH_NODE_LOST && client_check(client) == NIGH_OK) {
        status = get_again(client, &op);
    }
    return error_note(client, status);
}

nigh_status nigh_get(nigh_client *client, const nigh_id *ids, size_t n, uint64_t timeout_us,
                     nigh_view *views)
{
    return get_now(client, ids, n, timeout_us, 0, views);
}

nigh_status nigh_get_with(nigh_client *client, const nigh_id *ids, size_t n, uint64_t timeout_us,
                          uint32_t flags, nigh_view *views)
{
    return get_now(client, ids, n, timeout_us, flags, views);
}

nigh_status nigh_get_start(nigh_client *client, const nigh_id *ids, size_t n, uint64_t timeout_us,
                           nigh_view *views, nigh_op *given)
{
    return nigh_get_with_start(client, ids, n, timeout_us, 0, views, given);
}

nigh_status nigh_get_with_start(nigh_client *client, const nigh_id *ids, size_t n,
                                uint64_t timeout_us, uint32_t flags, nigh_view *views,
                                nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = client_check(client);
    size_t asks;

    if (status != NIGH_OK) {
        get_clear_all(views, n, status);
        return status;
    }
    if (op == NULL || (n != 0 && (ids == NULL || views == NULL)) || (flags & ~GET_FLAGS) != 0) {
        return get_refused(client);
    }
    status = get_all_local(client, ids, n, timeout_us, views, &asks);
    get_init(op, client, ids, n, op_deadline_us(timeout_us), flags, views);
    op->result = status;
    if (asks == 0) {
        op->next = op->ended = n;
        client_lock(client);
        op->flags |= OP_ASYNC;
        op_end(op, status);
        client_unlock(client);
        return NIGH_OK;
    }
    return error_note(client, op_start(op));
}

/* Whether a pin word is one of this client's: of its chunks, or (*views: who else knows of it) of a
 * lane's. */
static bool release_word_is_ours(const nigh_client *client, uint64_t address,
                                 _Atomic uint16_t **views)
{
    uint64_t chunks = (uint64_t)(uintptr_t)client->chunks;
    uint64_t at = address - chunks;
    uint64_t word;

    *views = NULL;
    if (address % sizeof(uint64_t) != 0) {
        return false;
    }
    if (at < sizeof(struct pin_chunk) * LIMIT_PIN_CHUNKS) {
        return at % sizeof(struct pin_chunk) < sizeof(client->chunks->entry);
    }
    at = address - (uint64_t)(uintptr_t)session_lane_of(client->memory, 0);
    word = at % sizeof(struct session_lane) - offsetof(struct session_lane, pin_entry);
    if (at >= sizeof(struct session_lane) * client->lanes ||
        word >= sizeof(client->lane->shared->pin_entry)) {
        return false;
    }
    *views = &client->lane[at / sizeof(struct session_lane)].views[word / sizeof(uint64_t)];
    return true;
}

nigh_status nigh_release(nigh_client *client, nigh_view *view)
{
    nigh_status status = client_check(client);
    _Atomic uint16_t *views;
    _Atomic uint64_t *word;

    if (unlikely(status != NIGH_OK)) {
        /* The pin is gone with the session; in a child it is the parent's. */
        if (status != NIGH_INVALID && status != NIGH_FORKED && view != NULL) {
            memset(view, 0, sizeof(*view));
        }
        return status;
    }
    if (unlikely(view == NULL)) {
        return error_set(client, NIGH_INVALID, "nigh_release: view is NULL");
    }
    if (unlikely(view->status != NIGH_OK || view->opaque[0] == 0)) {
        memset(view, 0, sizeof(*view));
        return NIGH_OK;
    }
    word = (_Atomic uint64_t *)(uintptr_t)view->opaque[0];
    if (unlikely(!release_word_is_ours(client, view->opaque[0], &views) ||
                 shared_load_relaxed(word) != view->opaque[1])) {
        return error_set(client, NIGH_INVALID,
                         "nigh_release: this view is not one that nigh_get gave, or a copy of it "
                         "was released before");
    }
    pin_clear(word);
    if (views != NULL) {
        /* Last: the lane may have given the word to another view, but a resume clears none that is
         * still counted. */
        atomic_fetch_sub_explicit(views, 1, memory_order_release);
    }
    memset(view, 0, sizeof(*view));
    return NIGH_OK;
}

nigh_status nigh_contains(nigh_client *client, const nigh_id *id, bool *found)
{
    nigh_status status = client_check(client);
    enum index_answer answer;
    _Atomic uint64_t *word;
    struct client_op op;
    uint32_t number;

    if (status != NIGH_OK) {
        return status;
    }
    if (id == NULL || found == NULL) {
        return error_set(client, NIGH_INVALID, "nigh_contains: id or found is NULL");
    }
    if (get_peek(client, id, &answer, &word, &number) != NULL) {
        pin_clear(word);
    }
    if (answer == INDEX_ASK) {
        op_init_id(&op, client, SESSION_OP_CONTAINS, id, NULL);
        status = op_run(&op);
        if (status != NIGH_OK && status != NIGH_NOT_FOUND && status != NIGH_NOT_SEALED) {
            return error_note(client, status);
        }
        answer = status == NIGH_OK ? INDEX_HIT : INDEX_MISS;
    }
    *found = answer == INDEX_HIT;
    return NIGH_OK;
}
