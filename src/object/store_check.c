/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_is_valid: counts everything again from entries, leases and waiters, and compares. Slow; for
 * tests, the fuzz target and slow assertions. Changes nothing.
 */
#include <stdlib.h>

#include "base/check.h"
#include "object/store_claim.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_record.h"
#include "object/store_reserve.h"
#include "object/store_session.h"
#include "object/store_wait.h"

/* What the books should say. */
struct recount {
    uint64_t used, leased, unsealed, spilled, writing;
    uint32_t files_writing;
    uint64_t charged[LIMIT_SESSIONS];
    uint32_t unsealed_count[LIMIT_SESSIONS], made_count[LIMIT_SESSIONS];
    uint32_t graves, replays, claimed;
    uint32_t sizes[STORE_CLASSES];
    uint32_t first_extent, extents_used; /* those that the lane ever used: others have nothing */
    struct store_extent extents[];       /* from the first */
};

#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            return false; \
    } while (0)

/* What the books say of one extent; fails for one that the lane never used. */
static struct store_extent *recount_extent(struct recount *recount, uint64_t extent)
{
    bool is_used =
        extent >= recount->first_extent && extent - recount->first_extent < recount->extents_used;

    return is_used ? &recount->extents[extent - recount->first_extent] : NULL;
}

static bool recount_live(const struct store *store, struct recount *recount, uint64_t offset,
                         uint64_t bytes, uint32_t obstacle)
{
    uint32_t shift = store->config.extents->extent_shift;

    recount->used += bytes;
    for (uint64_t e = offset >> shift; e <= (offset + bytes - 1) >> shift; e++) {
        uint64_t begin = max_u64(offset, e << shift);
        uint64_t end = min_u64(offset + bytes, (e + 1) << shift);
        struct store_extent *extent = recount_extent(recount, e);

        CHECK(extent != NULL);
        extent->live_bytes += end - begin;
        extent->obstacles += obstacle;
    }
    return true;
}

/* Of memory that was found to be the lane's. */
static void recount_backed(const struct store *store, const struct store_pool *pool, uint32_t entry,
                           struct recount *recount)
{
    uint32_t shift = store->config.extents->extent_shift;
    uint32_t block = pool->records[entry].block - 1;
    uint64_t offset = heap_block_offset(store->heaps, block);
    uint64_t end = offset + heap_block_bytes(store->heaps, block);

    for (uint64_t e = offset >> shift;
         (pool->records[entry].flags & RECORD_ON_DISK) != 0 && e <= (end - 1) >> shift; e++) {
        recount->extents[e - recount->first_extent].backed_bytes +=
            min_u64(end, (e + 1) << shift) - max_u64(offset, e << shift);
    }
}

static uint32_t obstacles_of(const struct store_pool *pool, uint32_t entry)
{
    const struct store_record *record = &pool->records[entry];
    enum index_state state = store_state(pool, entry);
    bool kept = state == INDEX_SEALED && store_has_flag(pool, entry, INDEX_STAYS);

    return (state == INDEX_CREATED || state == INDEX_DELETING || kept ||
            (record->flags & RECORD_READING) != 0) +
           (record->readers > 0);
}

static bool check_memory(const struct store *store, const struct store_pool *pool, uint32_t entry,
                         struct recount *recount)
{
    const struct store_record *record = &pool->records[entry];
    uint64_t bytes = store_object_bytes(pool, entry);
    uint32_t block = record->block - 1;
    struct store_session *session = store_maker(store, record);

    CHECK(heap_block_bytes(store->heaps, block) == bytes);
    CHECK(!heap_block_is_free(store->heaps, block));
    CHECK((record->flags & RECORD_READING) != 0 ||
          heap_block_offset(store->heaps, block) == store_entry(pool, entry)->offset);
    CHECK(recount_live(store, recount, heap_block_offset(store->heaps, block), bytes,
                       obstacles_of(pool, entry)));
    recount_backed(store, pool, entry, recount);
    if (session != NULL && (record->flags & RECORD_READING) == 0) {
        recount->charged[record->maker] += bytes;
        recount->unsealed_count[record->maker] += store_state(pool, entry) == INDEX_CREATED;
        recount->made_count[record->maker] += store_state(pool, entry) == INDEX_SEALED;
    }
    return true;
}

/* Whether the policy knows exactly the sealed objects in memory that are not kept. */
static bool check_policy(const struct store_pool *pool, uint32_t entry)
{
    bool known =
        store_state(pool, entry) == INDEX_SEALED && !store_has_flag(pool, entry, INDEX_STAYS);

    return known == (evict_where(&pool->evict, entry) != EVICT_FREE);
}

/* A copy being pulled is nobody's, and nobody finds it. */
static bool check_pull(const struct store_pool *pool, uint32_t entry)
{
    const struct store_record *record = &pool->records[entry];

    CHECK(record->serial == 0 && record->chain == 0 && record->next == 0 && record->prev == 0);
    CHECK(record->flags == 0);
    return !store_has_flag(pool, entry, INDEX_FLAG_GIVEN);
}

static bool check_entry(const struct store *store, struct store_pool *pool, uint32_t entry,
                        struct recount *recount)
{
    const struct store_record *record = &pool->records[entry];
    enum index_state state = store_state(pool, entry);
    uint32_t found;

    CHECK(check_policy(pool, entry));
    CHECK(state != INDEX_MARKED);
    if (state == INDEX_FREE || state == INDEX_LEASE) {
        return record->block == 0 && record->flags == 0 && record->serial == 0 &&
               record->next == 0 && record->prev == 0 && record->chain == 0;
    }
    CHECK((record->block != 0) ==
          (state != INDEX_SPILLED || (record->flags & RECORD_READING) != 0));
    CHECK(state != INDEX_SPILLED || (record->flags & RECORD_ON_DISK) != 0);
    if (record->block != 0) {
        CHECK(check_memory(store, pool, entry, recount));
    }
    recount->unsealed += state == INDEX_CREATED ? store_object_bytes(pool, entry) : 0;
    recount->spilled += (record->flags & RECORD_ON_DISK) != 0 ? store_object_bytes(pool, entry) : 0;
    recount->files_writing += (record->flags & RECORD_WRITING) != 0;
    recount->writing += (record->flags & RECORD_WRITING) != 0 ? store_object_bytes(pool, entry) : 0;
    recount->sizes[store_reserve_class(store_object_bytes(pool, entry))]++;
    recount->graves += state == INDEX_DELETING;
    CHECK(state != INDEX_SPILLED || !store_is_mere_copy(pool, entry));
    CHECK(state == INDEX_SPILLED || state == INDEX_CREATED || (record->flags & RECORD_DOOMED) == 0);
    CHECK(state != INDEX_SPILLED || (record->flags & RECORD_SECOND) == 0 ||
          (record->flags & RECORD_DOOMED) != 0);
    recount->claimed += store_is_claim(pool, entry);
    CHECK((record->flags & RECORD_TRANSIENT) == 0 ||
          (state == INDEX_DELETING && store_is_mere_copy(pool, entry)));
    if (state == INDEX_CREATED && store_has_flag(pool, entry, INDEX_FLAG_COPY)) {
        return check_pull(pool, entry);
    }
    if (state == INDEX_DELETING ||
        (state == INDEX_CREATED && !store_has_flag(pool, entry, INDEX_FLAG_CLAIMED))) {
        uint64_t hash = store_hash(pool, entry);

        CHECK(store_shadow_find(pool, store_entry(pool, entry)->id, hash, &found));
    }
    return true;
}

/* Whether a list is as long as it says, both ways. */
static bool check_list(const struct store_pool *pool, const struct store_list *list)
{
    uint32_t count = 0, last = 0;

    for (uint32_t at = list->first; at != 0; at = pool->records[at - 1].next) {
        CHECK(pool->records[at - 1].prev == last && count < list->count);
        last = at;
        count++;
    }
    return count == list->count && last == list->last;
}

static bool is_passing(const struct store_pool *pool, uint32_t entry)
{
    const struct store_record *record = &pool->records[entry];

    return record->readers > 0 || (record->flags & RECORD_READING) != 0 ||
           (store_state(pool, entry) == INDEX_CREATED &&
            store_has_flag(pool, entry, INDEX_FLAG_COPY));
}

static bool check_pool(const struct store *store, struct store_pool *pool, struct recount *recount)
{
    uint64_t counts[INDEX_STATES] = {0};
    uint64_t bytes = 0, kept_bytes = 0, passing_bytes = 0, copies = 0;

    CHECK(index_is_valid(&pool->writer));
    CHECK(evict_is_valid(&pool->evict));
    for (uint32_t e = 0; e < pool->writer.entries_used; e++) {
        CHECK(check_entry(store, pool, e, recount));
        counts[store_state(pool, e)]++;
        copies += store_state(pool, e) == INDEX_SEALED && store_is_mere_copy(pool, e);
        bytes += store_memory_bytes(store, pool, e);
        passing_bytes += is_passing(pool, e) ? store_memory_bytes(store, pool, e) : 0;
        if (store_state(pool, e) == INDEX_SEALED && store_has_flag(pool, e, INDEX_STAYS)) {
            kept_bytes += store_memory_bytes(store, pool, e);
        }
    }
    CHECK(pool->kept_bytes == kept_bytes);
    CHECK(pool->bytes == bytes);
    CHECK(pool->passing_bytes == passing_bytes);
    CHECK(pool->objects == counts[INDEX_SEALED]);
    CHECK(pool->objects_unsealed == counts[INDEX_CREATED]);
    CHECK(pool->objects_spilled == counts[INDEX_SPILLED]);
    CHECK(pool->objects_deleting == counts[INDEX_DELETING]);
    CHECK(pool->graveyard.count == counts[INDEX_DELETING]);
    CHECK(pool->copies.count == copies);
    return check_list(pool, &pool->graveyard) && check_list(pool, &pool->copies);
}

/* What a lease holds lies in it; *left: how much that is. */
static bool check_lease(const struct store *store, const struct store_lease *lease,
                        struct recount *recount, uint64_t *left)
{
    uint32_t rest = lease->rest;

    CHECK(lease->pieces > 0 || lease->rest != 0);
    *left = 0;
    for (uint32_t p = 0; p < lease->pieces || rest != 0; p++) {
        uint32_t block = p < lease->pieces ? lease->blocks[p] : rest - 1;
        uint64_t offset = heap_block_offset(store->heaps, block);
        uint64_t bytes = heap_block_bytes(store->heaps, block);

        if (p >= lease->pieces) {
            rest = (uint32_t)heap_block_tag(store->heaps, block);
        }
        CHECK(!heap_block_is_free(store->heaps, block));
        CHECK(offset >= lease->offset && offset + bytes <= lease->offset + lease->bytes);
        CHECK(recount_live(store, recount, offset, bytes, 0));
        *left += bytes;
    }
    return *left == lease->left;
}

static bool check_session(const struct store *store, const struct store_session *session,
                          struct recount *recount)
{
    uint32_t number = session->config.session;
    uint64_t leased = 0;

    for (uint32_t i = 0; i < LIMIT_LEASES_A_SESSION; i++) {
        const struct store_lease *lease = &session->leases[i];
        uint64_t left = 0;

        if (lease->entry == STORE_NONE) {
            continue;
        }
        CHECK(store_state(session->pool, lease->entry) == INDEX_LEASE);
        CHECK(check_lease(store, lease, recount, &left));
        for (uint64_t e = lease->offset >> store->config.extents->extent_shift;
             e <= (lease->offset + lease->bytes - 1) >> store->config.extents->extent_shift; e++) {
            struct store_extent *extent = recount_extent(recount, e);

            CHECK(extent != NULL);
            extent->obstacles++;
        }
        leased += left;
    }
    recount->leased += leased;
    recount->replays += session->replaying;
    CHECK(leased == session->leased_bytes);
    CHECK(session->counted_bytes == recount->charged[number]);
    CHECK(session->unsealed.count == recount->unsealed_count[number]);
    CHECK(session->made.count == recount->made_count[number]);
    return check_list(session->pool, &session->unsealed) &&
           check_list(session->pool, &session->made);
}

/* The copies under way: memory that is no object's yet. */
static bool recount_copies(const struct store *store, struct recount *recount)
{
    LIST_FOREACH(node, &store->works)
    {
        const struct store_waiter *waiter = container_of(node, struct store_waiter, place);

        if (waiter->sqe.op == SESSION_OP_SEAL) {
            CHECK(recount_live(store, recount, heap_block_offset(store->heaps, waiter->block),
                               heap_block_bytes(store->heaps, waiter->block), 1));
        }
    }
    return true;
}

static bool check_waits(const struct store *store)
{
    uint32_t waiting = 0, erases_due = 0, in_queue[LIMIT_HEAPS_A_LANE] = {0};

    for (uint32_t i = 0; i < LIMIT_SESSIONS; i++) {
        if (store->sessions[i] == NULL) {
            continue;
        }
        LIST_FOREACH(node, &store->sessions[i]->waiters)
        {
            const struct store_waiter *waiter =
                container_of(node, struct store_waiter, session_place);

            CHECK(waiter->session == i);
            CHECK(list_is_linked(&waiter->place));
            CHECK(!waiter->wants || waiter->wait == STORE_WAIT_ID);
            erases_due += waiter->wait == STORE_WAIT_PINS ||
                          (waiter->wait == STORE_WAIT_ERASE && waiter->behind);
            waiting++;
        }
    }
    LIST_FOREACH(node, &store->memory_queue)
    {
        const struct store_waiter *waiter = container_of(node, struct store_waiter, place);

        if (waiter->heap != STORE_NONE) {
            in_queue[waiter->heap]++;
            CHECK(waiter->bytes >= store->heap_least[waiter->heap]);
        }
    }
    CHECK(memcmp(in_queue, store->heap_waiting, sizeof(in_queue)) == 0);
    CHECK(erases_due == store->erases_due);
    return waiting == store->waiting && timers_is_valid(&store->timers);
}

static bool check_sums(const struct store *store, const struct recount *recount)
{
    CHECK(recount->used == store->used_bytes);
    CHECK(recount->leased == store->leased_bytes);
    CHECK(recount->unsealed == store->unsealed_bytes);
    CHECK(recount->spilled == store->spilled_bytes);
    CHECK(recount->writing == store->writing_bytes);
    CHECK(recount->files_writing == store->writing);
    CHECK(recount->graves == store->graves);
    CHECK(recount->replays == store->replays);
    CHECK(recount->claimed == store->claimed);
    CHECK(memcmp(recount->sizes, store->sizes, sizeof(recount->sizes)) == 0);
    for (uint32_t e = 0; e < recount->extents_used; e++) {
        const struct store_extent *extent = &store->extents[recount->first_extent + e];

        CHECK(recount->extents[e].live_bytes == extent->live_bytes);
        CHECK(recount->extents[e].backed_bytes == extent->backed_bytes);
        CHECK(recount->extents[e].obstacles == extent->obstacles);
    }
    return true;
}

static bool check_all(const struct store *store, struct recount *recount)
{
    CHECK(heaps_are_valid(store->heaps));
    for (uint32_t i = 0; i < LIMIT_POOLS; i++) {
        CHECK(store->pools[i] == NULL || check_pool(store, store->pools[i], recount));
    }
    for (uint32_t i = 0; i < LIMIT_SESSIONS; i++) {
        CHECK(store->sessions[i] == NULL || check_session(store, store->sessions[i], recount));
    }
    return recount_copies(store, recount) && check_waits(store) && check_sums(store, recount);
}

bool store_is_valid(const struct store *store)
{
    const struct extent_set *set = store->config.extents;
    uint32_t used = set->lane[store->config.lane].used;
    struct recount *recount = calloc(1, sizeof(*recount) + used * sizeof(recount->extents[0]));
    bool valid;

    if (recount == NULL) {
        return false;
    }
    recount->first_extent = extent_lane_first(set, store->config.lane);
    recount->extents_used = used;
    valid = check_all(store, recount);
    free(recount);
    return valid;
}
