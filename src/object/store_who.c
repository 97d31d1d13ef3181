/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds what: WHO of one object, HOLDERS of a pool's memory, and the numbers of the lane, all
 * into the session's reply area.
 */
#include "base/check.h"
#include "object/store_create.h"
#include "object/store_get.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_session.h"

#define HOLDERS_A_REPLY (LIMIT_REPLY_BYTES / sizeof(struct session_holder))

_Static_assert(HOLDERS_A_REPLY >= LIMIT_SESSIONS, "every session fits into a reply");
_Static_assert(sizeof(nigh_node_stats) <= LIMIT_REPLY_BYTES, "the numbers fit into a reply");

static struct session_holder *reply_holders(const struct store_call *call)
{
    return (struct session_holder *)(void *)call->session->config.lane->reply;
}

/* Writes one record; the reply is the client's to overwrite, so nothing is read back from it. */
static void put_holder(const struct store_call *call, uint64_t place,
                       const struct store_session *session, uint64_t views, uint64_t bytes)
{
    struct session_holder holder = {
        .session = session->config.session_id,
        .pid = session->config.pid,
        .uid = session->config.uid,
        .views = views,
        .size_bytes = bytes,
    };

    memcpy(holder.name, session->config.name, sizeof(holder.name));
    holder.name[sizeof(holder.name) - 1] = '\0';
    reply_holders(call)[place] = holder;
}

/* ---- WHO ---- */

struct count_of_one {
    uint32_t entry;
    uint64_t views;
};

static void count_one(void *context, uint32_t entry)
{
    struct count_of_one *count = context;

    count->views += entry == count->entry;
}

nigh_status store_who(struct store_call *call)
{
    struct store_pool *pool = call->pool;
    uint64_t found = 0;
    uint32_t entry;

    if (!store_find_any(call, &entry)) {
        return NIGH_NOT_FOUND;
    }
    LIST_FOREACH(node, &pool->sessions)
    {
        struct store_session *session = container_of(node, struct store_session, pool_place);
        struct count_of_one count = {.entry = entry};

        pin_table_visit(&pool->tables[session->table], call->store->config.lane,
                        pool->writer.index.entry_count, count_one, &count);
        /* Who makes an object holds it: that is why it cannot be evicted. */
        if (store_state(pool, entry) == INDEX_CREATED &&
            store_maker(call->store, &pool->records[entry]) == session) {
            count.views++;
        }
        if (count.views > 0) {
            put_holder(call, found++, session, count.views,
                       store_memory_bytes(call->store, pool, entry));
        }
    }
    call->cqe.data_size = found;
    return NIGH_OK;
}

/* ---- HOLDERS ---- */

struct held {
    uint32_t *entries;
    uint32_t count;
};

static void collect_held(void *context, uint32_t entry)
{
    struct held *held = context;

    if (held->count < STORE_SESSION_PINS) {
        held->entries[held->count++] = entry;
    }
}

/* Sift-down of a heap sort: in place, no allocation, no bad case. */
static void sift(uint32_t *values, uint32_t root, uint32_t count)
{
    for (uint32_t child; (child = 2 * root + 1) < count; root = child) {
        uint32_t value = values[root];

        if (child + 1 < count && values[child + 1] > values[child]) {
            child++;
        }
        if (values[child] <= value) {
            return;
        }
        values[root] = values[child];
        values[child] = value;
    }
}

static void sort(uint32_t *values, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;) {
        sift(values, i, count);
    }
    for (uint32_t end = count; end > 1; end--) {
        uint32_t value = values[0];

        values[0] = values[end - 1];
        values[end - 1] = value;
        sift(values, 0, end - 1);
    }
}

/* What one session keeps in memory: pinned objects, each once, created ones, and (unless it is the
 * one that asks: it knows, and gives them back) leases. */
static void sum_held(const struct store *store, const struct store_session *session, bool asks,
                     uint64_t *objects, uint64_t *bytes)
{
    const struct store_pool *pool = session->pool;
    struct held held = {.entries = store->held};
    uint32_t last = STORE_NONE;

    pin_table_visit(&pool->tables[session->table], store->config.lane,
                    pool->writer.index.entry_count, collect_held, &held);
    sort(held.entries, held.count);
    *objects = 0;
    *bytes = asks ? 0 : session->leased_bytes;
    for (uint32_t i = 0; i < held.count; i++) {
        uint64_t size = store_memory_bytes(store, pool, held.entries[i]);

        if (held.entries[i] != last && size > 0) {
            (*objects)++;
            *bytes += size;
        }
        last = held.entries[i];
    }
    for (uint32_t at = session->unsealed.first; at != 0; at = pool->records[at - 1].next) {
        (*objects)++;
        *bytes += store_memory_bytes(store, pool, at - 1);
    }
}

/* What a session holds, kept by the lane while the reply is put in order. */
struct keeper {
    const struct store_session *session;
    uint64_t objects;
    uint64_t bytes;
};

nigh_status store_holders(struct store_call *call)
{
    struct keeper keepers[LIMIT_SESSIONS];
    uint64_t count = 0, between;

    LIST_FOREACH(node, &call->pool->sessions)
    {
        struct keeper keeper = {.session = container_of(node, struct store_session, pool_place)};
        uint64_t place;

        sum_held(call->store, keeper.session, keeper.session == call->session, &keeper.objects,
                 &keeper.bytes);
        if (keeper.bytes == 0) {
            continue;
        }
        for (place = count++; place > 0 && keepers[place - 1].bytes < keeper.bytes; place--) {
            keepers[place] = keepers[place - 1];
        }
        keepers[place] = keeper;
    }
    for (uint64_t i = 0; i < count; i++) {
        put_holder(call, i, keepers[i].session, keepers[i].objects, keepers[i].bytes);
    }
    call->cqe.data_size = count;
    call->cqe.generation =
        store_most_bytes(call->store, store_session_owner(call->session), &between);
    return NIGH_OK;
}

/* ---- who holds too much ---- */

static void count_all(void *context, uint32_t entry)
{
    uint64_t *count = context;

    (void)entry;
    (*count)++;
}

/*
 * Somebody went without memory: whoever pins more than a session may then has to go. Not more often
 * than now and then, since all pins are looked at; no session twice, since its end may take a
 * while.
 */
void store_judge(struct store *store, struct store_pool *pool)
{
    store->counts.out_of_memory++;
    if (store->now_us < store->judge_us) {
        return;
    }
    store->judge_us = store->now_us + LIMIT_JUDGE_US;
    LIST_FOREACH(node, &pool->sessions)
    {
        struct store_session *session = container_of(node, struct store_session, pool_place);
        uint64_t pins = 0;

        pin_table_visit(&pool->tables[session->table], store->config.lane,
                        pool->writer.index.entry_count, count_all, &pins);
        if (pins > store->config.max_lane_pins && !session->judged &&
            store->config.shell.expel != NULL) {
            session->judged = true;
            store->config.shell.expel(store->config.shell.context, session->config.session,
                                      "it pins more than a session may while memory is full");
        }
    }
}

/* ---- STATS ---- */

nigh_status store_stats_reply(struct store_call *call)
{
    nigh_node_stats stats = {0};

    store_stats(call->store, &stats);
    call->cqe.data_size = store_write_stats(&stats, call->session->config.lane->reply);
    return NIGH_OK;
}
