/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that only look: stat and list read the index in place, who, holders and stats ask the lanes
 * for records, which they leave in the session's reply areas.
 *
 * An entry may change under the copy: its word is read before and after, and only a copy of one
 * generation counts. A name lies behind the object's bytes, or, of what is on disk, perhaps in the
 * index; both may go at any moment too: it counts only if its hash is the object's id.
 */
#include <stdlib.h>
#include <string.h>

#include "base/blake.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/extents.h"
#include "client/look.h"
#include "client/op.h"

#define LOOK_TRIES 4 /* of a stat whose object changes under it */

/* ---- entries ----------------------------------------------------------------------------------
 */

static bool look_state(enum index_state state, nigh_object_state *out)
{
    switch (state) {
    case INDEX_CREATED: *out = NIGH_OBJECT_CREATED; return true;
    case INDEX_SEALED:
    case INDEX_MARKED: *out = NIGH_OBJECT_SEALED; return true;
    case INDEX_SPILLED: *out = NIGH_OBJECT_SPILLED; return true;
    case INDEX_DELETING: *out = NIGH_OBJECT_DELETING; return true;
    default: return false;
    }
}

static bool look_name_is(const char *name, uint32_t name_size, const nigh_id *of)
{
    uint8_t id[LIMIT_ID_BYTES];

    blake_id20(name, name_size, id);
    return memcmp(id, of->bytes, sizeof(id)) == 0 && strlen(name) == name_size;
}

/* The name of an object on disk, if the index still has it. */
static void look_spilled_name(const struct index *index, const nigh_object_info *info,
                              uint32_t name_size, char *out)
{
    uint64_t hash = hash_id20(info->id.bytes);
    char name[LIMIT_NAME_BYTES + 1];

    for (uint32_t way = 0; way < INDEX_NAME_WAYS; way++) {
        if (index_name_copy(index, hash, way, name_size, name) &&
            look_name_is(name, name_size, &info->id)) {
            memcpy(out, name, name_size + 1);
            return;
        }
    }
}

/* The name, if it is in memory and right. */
static void look_name(nigh_client *client, bool locked, uint64_t offset,
                      const nigh_object_info *info, uint32_t name_size, char *out)
{
    uint64_t meta = index_meta_offset(info->data_size);
    uint64_t bytes = index_object_bytes(info->data_size, info->meta_size, name_size);
    char name[LIMIT_NAME_BYTES + 1];

    if (name_size == 0 || name_size > LIMIT_NAME_BYTES || bytes == 0) {
        return;
    }
    if (!extents_readable(client, offset, bytes) &&
        (locked ? extents_map_locked(client, offset, bytes, false)
                : extents_map(client, offset, bytes, false)) != NIGH_OK) {
        return;
    }
    memcpy(name, client->read_arena + offset + meta + info->meta_size, name_size);
    name[name_size] = '\0';
    if (look_name_is(name, name_size, &info->id)) {
        memcpy(out, name, name_size + 1);
    }
}

/* Of what came from another node as it was born there. */
static void look_birth(const struct index *index, uint32_t number, nigh_object_info *info)
{
    const struct index_entry *entry = &index->entries[number];
    const struct index_birth *birth = &index->births[number];

    info->incarnation = entry->incarnation;
    info->birth_counter = index_word_generation(shared_load_relaxed(&entry->word));
    if ((shared_load_relaxed(&entry->flags) & INDEX_FLAG_COPY) != 0) {
        info->incarnation = birth->incarnation;
        info->birth_counter = birth->counter;
    }
}

/* Copies what the index says of an entry; false: it is no object, or changed meanwhile. */
static bool look_entry(nigh_client *client, bool locked, uint32_t lane, uint32_t number,
                       nigh_object_info *info, uint64_t *generation)
{
    const struct index *index = &client->indexes[lane];
    const struct index_entry *entry = &index->entries[number];
    const struct index_cold *cold = &index->cold[number];
    uint64_t word = shared_load_acquire(&entry->word);
    uint64_t offset, after;
    uint32_t name_size;

    memset(info, 0, sizeof(*info));
    if (!look_state(index_word_state(word), &info->state)) {
        return false;
    }
    if (info->state == NIGH_OBJECT_CREATED &&
        (shared_load_relaxed(&entry->flags) & INDEX_FLAG_COPY) != 0) {
        return false; /* the node's own, until it is sealed */
    }
    memcpy(info->id.bytes, entry->id, sizeof(info->id.bytes));
    info->data_size = entry->data_size;
    info->meta_size = entry->meta_size;
    look_birth(index, number, info);
    info->pinned = (shared_load_relaxed(&entry->flags) & INDEX_FLAG_KEPT) != 0;
    info->copy = (shared_load_relaxed(&entry->flags) & (INDEX_FLAG_COPY | INDEX_FLAG_GIVEN)) ==
                 INDEX_FLAG_COPY;
    info->created_ns = cold->created_ns;
    info->build_ns = (uint64_t)cold->build_us * 1000;
    offset = entry->offset;
    name_size = entry->name_size;
    shared_fence_acquire();
    after = shared_load_relaxed(&entry->word);
    /* One that is free keeps its generation until it is filled anew. */
    if (index_word_state(after) == INDEX_FREE ||
        index_word_generation(after) != index_word_generation(word)) {
        return false;
    }
    *generation = index_word_generation(word);
    if (info->state == NIGH_OBJECT_SPILLED) {
        look_spilled_name(index, info, name_size, info->name);
    } else {
        look_name(client, locked, offset, info, name_size, info->name);
    }
    return true;
}

nigh_status nigh_list(nigh_client *client, uint64_t *cursor, nigh_object_info *infos, size_t n,
                      size_t *count)
{
    nigh_status status = client_check(client);
    uint32_t lane, number;
    uint64_t generation;
    size_t found = 0;

    if (status != NIGH_OK) {
        return status;
    }
    if (cursor == NULL || count == NULL || infos == NULL || n == 0) {
        return error_set(client, NIGH_INVALID, "nigh_list: no cursor, count or room for infos");
    }
    lane = (uint32_t)(*cursor >> 32);
    number = (uint32_t)*cursor;
    for (; lane < client->lanes && found < n; lane++, number = 0) {
        const struct index *index = &client->indexes[lane];
        uint32_t used =
            min_u32(shared_load_acquire(&index->header->entries_used), index->entry_count);

        while (number < used && found < n) {
            found += look_entry(client, false, lane, number++, &infos[found], &generation);
        }
        if (found == n) {
            break;
        }
    }
    *cursor = (uint64_t)lane << 32 | number;
    *count = found;
    return NIGH_OK;
}

/* ---- stat -------------------------------------------------------------------------------------
 */

static uint32_t stat_lane(struct client_op *op, size_t step)
{
    (void)step;
    return op->u.one.lane;
}

static bool stat_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    *sqe = op->u.one.sqe;
    return true;
}

/* The lane says which entry it is and how many hold it; the index says the rest. */
static bool stat_done(struct client_op *op, size_t step, uint8_t opcode,
                      const struct session_cqe *cqe)
{
    nigh_client *client = op->client;
    const struct index *index = &client->indexes[op->u.one.lane];
    nigh_object_info info;
    uint64_t generation;

    (void)opcode;
    if (cqe->status != NIGH_OK) {
        op_fail(op, error_note(client, (nigh_status)cqe->status));
        return false;
    }
    if (cqe->ref >= index->entry_count) {
        op_fail(op, NIGH_PROTOCOL);
        return false;
    }
    if (!look_entry(client, true, op->u.one.lane, cqe->ref, &info, &generation) ||
        generation != cqe->generation) {
        if (++op->u.one.extra < LOOK_TRIES) {
            struct session_sqe again = op->u.one.sqe;

            op_go_on(op, step, op->u.one.lane, false, &again);
            return true;
        }
        op_fail(op, NIGH_NOT_FOUND);
        return false;
    }
    info.holders = (uint32_t)min_u64(cqe->data_size, UINT32_MAX);
    info.node_uses = (uint32_t)cqe->lease_offset;
    *(nigh_object_info *)op->u.one.out = info;
    return false;
}

static const struct op_kind stat_kind = {
    .lane = stat_lane,
    .build = stat_build,
    .done = stat_done,
};

static nigh_status stat_init(struct client_op *op, nigh_client *client, const nigh_id *id,
                             nigh_object_info *info)
{
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return status;
    }
    if (op == NULL || id == NULL || info == NULL) {
        return error_set(client, NIGH_INVALID, "nigh_stat: op, id or info is NULL");
    }
    op_init_id(op, client, SESSION_OP_STAT, id, NULL);
    op->kind = &stat_kind;
    op->u.one.out = info;
    op->u.one.extra = 0;
    return NIGH_OK;
}

nigh_status nigh_stat(nigh_client *client, const nigh_id *id, nigh_object_info *info)
{
    struct client_op op;
    nigh_status status = stat_init(&op, client, id, info);

    return status == NIGH_OK ? error_note(client, op_run(&op)) : status;
}

nigh_status nigh_stat_start(nigh_client *client, const nigh_id *id, nigh_object_info *info,
                            nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    nigh_status status = stat_init(op, client, id, info);

    return status == NIGH_OK ? error_note(client, op_start(op)) : status;
}

/* ---- records in the reply areas ---------------------------------------------------------------
 */

/* Runs an op that uses reply areas: one at a time. */
static nigh_status look_run(nigh_client *client, struct client_op *op)
{
    nigh_status status;

    (void)pthread_mutex_lock(&client->reply_lock);
    status = op_run(op);
    (void)pthread_mutex_unlock(&client->reply_lock);
    return error_note(client, status);
}

static void look_copy_holder(const struct session_holder *from, nigh_holder *to)
{
    to->session = from->session;
    to->pid = from->pid;
    to->uid = from->uid;
    to->views = from->views;
    to->size_bytes = from->size_bytes;
    memcpy(to->name, from->name, sizeof(to->name));
    to->name[sizeof(to->name) - 1] = '\0';
}

/* Holders of all lanes, added up. */
struct look_holders {
    nigh_holder *holders;
    size_t count;
    size_t capacity;
    uint64_t unnamed;    /* how many more there were than records */
    uint64_t most_bytes; /* of HOLDERS: the largest that most_lane could make room for */
    uint32_t most_lane;
};

static void look_add_holder(struct look_holders *all, const struct session_holder *record)
{
    nigh_holder *holder;

    for (size_t i = 0; i < all->count; i++) {
        if (all->holders[i].session == record->session) {
            all->holders[i].views += record->views;
            all->holders[i].size_bytes += record->size_bytes;
            return;
        }
    }
    if (all->count < all->capacity) {
        holder = &all->holders[all->count++];
        look_copy_holder(record, holder);
    } else {
        all->unnamed++;
    }
}

static void look_take_holders(nigh_client *client, uint32_t lane, const struct session_cqe *cqe,
                              void *out)
{
    struct look_holders *all = out;
    size_t records =
        (size_t)min_u64(cqe->data_size, LIMIT_REPLY_BYTES / sizeof(struct session_holder));

    for (size_t i = 0; i < records; i++) {
        struct session_holder record;

        memcpy(&record, client->lane[lane].shared->reply + i * sizeof(record), sizeof(record));
        record.name[sizeof(record.name) - 1] = '\0';
        look_add_holder(all, &record);
    }
    all->unnamed = max_u64(all->unnamed, cqe->data_size - records);
    if (lane == all->most_lane) {
        all->most_bytes = cqe->generation;
    }
}

static int look_compare_holders(const void *a, const void *b)
{
    const nigh_holder *left = a, *right = b;

    if (left->size_bytes != right->size_bytes) {
        return left->size_bytes > right->size_bytes ? -1 : 1;
    }
    return left->session < right->session ? -1 : left->session > right->session;
}

static nigh_status look_holders(nigh_client *client, struct client_op *op, struct look_holders *all,
                                nigh_holder *holders, size_t n, size_t *count)
{
    nigh_status status = look_run(client, op);

    if (status == NIGH_OK) {
        qsort(all->holders, all->count, sizeof(*all->holders), look_compare_holders);
        if (n != 0) {
            memcpy(holders, all->holders, min_size(n, all->count) * sizeof(*holders));
        }
        *count = all->count + (size_t)all->unnamed;
    }
    return status;
}

/* What WHO and HOLDERS share: a table of as many sessions as there can be. */
static nigh_status look_holders_begin(nigh_client *client, const nigh_holder *holders, size_t n,
                                      const size_t *count, struct look_holders *all)
{
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return status;
    }
    if (count == NULL || (holders == NULL && n != 0)) {
        return error_set(client, NIGH_INVALID, "no count, or no room for holders");
    }
    memset(all, 0, sizeof(*all));
    all->capacity = LIMIT_SESSIONS;
    all->holders = calloc(all->capacity, sizeof(*all->holders));
    return all->holders != NULL ? NIGH_OK
                                : error_set(client, NIGH_NO_RESOURCES, "no memory for a table");
}

nigh_status look_holders_and_most(nigh_client *client, uint32_t lane, nigh_holder *holders,
                                  size_t n, size_t *count, uint64_t *most_bytes)
{
    struct look_holders all;
    struct client_op op;
    nigh_status status = look_holders_begin(client, holders, n, count, &all);

    if (status != NIGH_OK) {
        return status;
    }
    all.most_lane = lane;
    op_init_all(&op, client, SESSION_OP_HOLDERS, 0, look_take_holders, &all);
    status = look_holders(client, &op, &all, holders, n, count);
    if (status == NIGH_OK) {
        *most_bytes = all.most_bytes;
    }
    free(all.holders);
    return status;
}

nigh_status nigh_holders(nigh_client *client, nigh_holder *holders, size_t n, size_t *count)
{
    uint64_t most_bytes;

    return look_holders_and_most(client, 0, holders, n, count, &most_bytes);
}

/* WHO is one lane's: its completion is handled as that of an op to all lanes. */
static bool who_done(struct client_op *op, size_t step, uint8_t opcode,
                     const struct session_cqe *cqe)
{
    (void)step;
    (void)opcode;
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
    } else {
        look_take_holders(op->client, op->u.one.lane, cqe, op->u.one.out);
    }
    return false;
}

static const struct op_kind who_kind = {
    .lane = stat_lane,
    .build = stat_build,
    .done = who_done,
};

nigh_status nigh_who(nigh_client *client, const nigh_id *id, nigh_holder *holders, size_t n,
                     size_t *count)
{
    struct look_holders all;
    struct client_op op;
    nigh_status status = client_check(client);

    if (status == NIGH_OK && id == NULL) {
        status = error_set(client, NIGH_INVALID, "nigh_who: id is NULL");
    }
    if (status == NIGH_OK) {
        status = look_holders_begin(client, holders, n, count, &all);
    }
    if (status != NIGH_OK) {
        return status;
    }
    op_init_id(&op, client, SESSION_OP_WHO, id, NULL);
    op.kind = &who_kind;
    op.u.one.out = &all;
    status = look_holders(client, &op, &all, holders, n, count);
    free(all.holders);
    return status;
}

/* What comes from a lane are the numbers, as words. */
#define LOOK_STATS_WORD(field)                                                      \
    ((offsetof(nigh_node_stats, field) - offsetof(nigh_node_stats, memory_bytes)) / \
     sizeof(uint64_t))
#define LOOK_STATS_FIRST offsetof(nigh_node_stats, used_bytes) /* the least that is asked for */
#define LOOK_STATS \
    ((sizeof(nigh_node_stats) - offsetof(nigh_node_stats, memory_bytes)) / sizeof(uint64_t))

static void look_take_stats(nigh_client *client, uint32_t lane, const struct session_cqe *cqe,
                            void *out)
{
    nigh_node_stats *stats = out;
    uint64_t *sums = (uint64_t *)(void *)((uint8_t *)out + offsetof(nigh_node_stats, memory_bytes));
    uint64_t words[LOOK_STATS] = {0};
    uint64_t uptime_us = stats->uptime_us, restarts = stats->restarts;

    /* A node of another version has fewer or more of them. */
    memcpy(words, client->lane[lane].shared->reply,
           (size_t)min_u64(cqe->data_size, sizeof(words)) & ~(sizeof(uint64_t) - 1));
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        sums[i] += words[i];
    }
    /* The node's own, not a lane's: the same from each that tells them. */
    stats->uptime_us = max_u64(uptime_us, words[LOOK_STATS_WORD(uptime_us)]);
    stats->restarts = max_u64(restarts, words[LOOK_STATS_WORD(restarts)]);
}

nigh_status nigh_stats(nigh_client *client, nigh_node_stats *stats)
{
    nigh_status status = client_check(client);
    nigh_node_stats sums = {0};
    struct client_op op;

    _Static_assert(sizeof(nigh_node_stats) % sizeof(uint64_t) == 0 &&
                       sizeof(nigh_node_stats) <= LIMIT_REPLY_BYTES,
                   "stats are words, and fit a reply");
    if (status != NIGH_OK) {
        return status;
    }
    if (stats == NULL || !client_knows_size(stats->struct_size, LOOK_STATS_FIRST, sizeof(sums))) {
        return error_set(client, NIGH_INVALID,
                         "nigh_stats: stats is NULL, or stats->struct_size is not set: set it to "
                         "sizeof(nigh_node_stats)");
    }
    op_init_all(&op, client, SESSION_OP_STATS, 0, look_take_stats, &sums);
    status = look_run(client, &op);
    if (status == NIGH_OK) {
        sums.struct_size = stats->struct_size;
        client_copy_out(stats, sums.struct_size, &sums, sizeof(sums));
    }
    return status;
}
