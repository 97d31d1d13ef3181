/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The eviction policy of one lane; see evict.h for its contract and docs/eviction.md for the why.
 *
 * Does not know what an object is, nor whether it may go: that is its caller's to find out.
 */
#include "object/evict.h"

#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"

/* Shares of the capacity, in 1/160ths so that all of them are whole numbers. */
#define SHARES           160u
#define SHARE_YOUNG      8u   /* 5 %: uses that follow a creation so closely say nothing */
#define SHARE_SMALL_MIN  16u  /* 10 %: SOSP'23, §4.1 */
#define SHARE_SMALL_MAX  152u /* 95 %: main keeps enough to show whether it is worth more */
#define SHARE_REMEMBERED 144u /* 90 %: as much is remembered of each queue as main holds */
#define SHARE_STEP       1u   /* one object moves the border by no more than this */

#define HITS_MAX     2u /* two passes of main's tail; with three, a dead favourite stays longer */
#define GHOST_SLOTS  8u /* a bucket of history is one cache line */
#define STAMP_SHIFT  9u /* history's clocks tick every 512 granules: 32 KiB */
#define STAMP_BITS   25u
#define STAMP_MASK   ((UINT32_C(1) << STAMP_BITS) - 1)
#define NONE         UINT32_MAX
#define AGED_A_CALL  4u /* newcomers that one admission may send to trial */
#define RETRY_PRICE  3u /* offers of others that allow one of a kept entry */
#define RETRY_CREDIT (RETRY_PRICE * LIMIT_EVICT_BATCH)

/* A stamp: the clock when it went, the logarithm of its granules, then two flags. */
#define STAMP_SIZE_MAX 31u
#define STAMP_MAIN     (UINT32_C(1) << 30) /* it went from main */
#define STAMP_MISSED   (UINT32_C(1) << 31) /* it was asked for since */

/* A mark: place in the low bits, then the hits, then whether the entry was in main before it was
 * offered. */
#define MARK_PLACE      0x07u
#define MARK_HITS_SHIFT 3u
#define MARK_HITS       0x18u
#define MARK_FROM_MAIN  0x20u

_Static_assert(sizeof(struct evict_node) == 16, "evict_storage_bytes promises this");
_Static_assert(sizeof(struct evict_ghost) * GHOST_SLOTS == CACHE_LINE, "a bucket is a cache line");
_Static_assert(EVICT_PLACES <= MARK_PLACE + 1, "a place fits its bits");
_Static_assert((HITS_MAX << MARK_HITS_SHIFT) <= MARK_HITS, "the hits fit their bits");
_Static_assert(LIMIT_GRANULE_BYTES == 64, "STAMP_SHIFT counts granules");
_Static_assert(((uint64_t)STAMP_SIZE_MAX << STAMP_BITS) < STAMP_MAIN, "a stamp's parts are apart");

/* Where history says that an object went from. */
enum origin {
    ORIGIN_TRIAL = 0,
    ORIGIN_MAIN = 1
};

/* ---- marks ---- */

static enum evict_place place_of(const struct evict *evict, uint32_t entry)
{
    return (enum evict_place)(evict->marks[entry] & MARK_PLACE);
}

static uint32_t hits_of(const struct evict *evict, uint32_t entry)
{
    return (evict->marks[entry] & MARK_HITS) >> MARK_HITS_SHIFT;
}

static void set_hits(struct evict *evict, uint32_t entry, uint32_t hits)
{
    evict->marks[entry] = (uint8_t)((evict->marks[entry] & ~MARK_HITS) | (hits << MARK_HITS_SHIFT));
}

static void set_place(struct evict *evict, uint32_t entry, enum evict_place place)
{
    evict->marks[entry] = (uint8_t)((evict->marks[entry] & ~MARK_PLACE) | place);
}

/* ---- queues ---- */

static void push(struct evict *evict, enum evict_place place, uint32_t entry)
{
    struct evict_queue *queue = &evict->queues[place];
    struct evict_node *node = &evict->nodes[entry];

    set_place(evict, entry, place);
    queue->count++;
    queue->granules += node->granules;
    if (place == EVICT_OFFERED) {
        return;
    }
    node->toward_head = NONE;
    node->toward_tail = queue->head;
    if (queue->head != NONE) {
        evict->nodes[queue->head].toward_head = entry;
    } else {
        queue->tail = entry;
    }
    queue->head = entry;
}

static void take(struct evict *evict, uint32_t entry)
{
    enum evict_place place = place_of(evict, entry);
    struct evict_queue *queue = &evict->queues[place];
    struct evict_node *node = &evict->nodes[entry];

    NIGH_ASSERT(place != EVICT_FREE);
    set_place(evict, entry, EVICT_FREE);
    queue->count--;
    queue->granules -= node->granules;
    if (place == EVICT_OFFERED) {
        return;
    }
    if (node->toward_head != NONE) {
        evict->nodes[node->toward_head].toward_tail = node->toward_tail;
    } else {
        queue->head = node->toward_tail;
    }
    if (node->toward_tail != NONE) {
        evict->nodes[node->toward_tail].toward_head = node->toward_head;
    } else {
        queue->tail = node->toward_head;
    }
}

static void move(struct evict *evict, enum evict_place place, uint32_t entry)
{
    take(evict, entry);
    push(evict, place, entry);
}

static uint64_t share(const struct evict *evict, uint32_t shares)
{
    return evict->capacity * shares / SHARES;
}

/* ---- history: what went, from where, and how much went since ---- */

static uint32_t ghost_clock(const struct evict *evict, enum origin origin)
{
    return (uint32_t)(evict->went[origin] >> STAMP_SHIFT) & STAMP_MASK;
}

static enum origin ghost_origin(const struct evict_ghost *ghost)
{
    return (ghost->stamp & STAMP_MAIN) != 0 ? ORIGIN_MAIN : ORIGIN_TRIAL;
}

/* How large it was, to the power of two below. */
static uint32_t ghost_granules(const struct evict_ghost *ghost)
{
    return UINT32_C(1) << (ghost->stamp >> STAMP_BITS & STAMP_SIZE_MAX);
}

static uint32_t ghost_age(const struct evict *evict, const struct evict_ghost *ghost)
{
    return (ghost_clock(evict, ghost_origin(ghost)) - ghost->stamp) & STAMP_MASK;
}

static struct evict_ghost *ghost_bucket(const struct evict *evict, uint32_t hash)
{
    uint32_t bucket = (uint32_t)(((uint64_t)hash * evict->ghost_buckets) >> 32);
    return &evict->ghosts[(size_t)bucket * GHOST_SLOTS];
}

/* Remembers what went in the place of the bucket's oldest. */
static void ghost_put(struct evict *evict, const struct evict_node *node, enum origin origin)
{
    uint32_t hash = node->hash;
    uint32_t size = STAMP_SIZE_MAX - (uint32_t)__builtin_clz(max_u32(node->granules, 1));
    struct evict_ghost *bucket = ghost_bucket(evict, hash);
    struct evict_ghost *chosen = &bucket[0];

    for (uint32_t i = 0; i < GHOST_SLOTS; i++) {
        if (bucket[i].hash == 0 || bucket[i].hash == hash) {
            chosen = &bucket[i];
            break;
        }
        if (ghost_age(evict, &bucket[i]) > ghost_age(evict, chosen)) {
            chosen = &bucket[i];
        }
    }
    chosen->hash = hash;
    chosen->stamp =
        ghost_clock(evict, origin) | size << STAMP_BITS | (origin == ORIGIN_MAIN ? STAMP_MAIN : 0);
}

/* What is remembered of the object of this hash, if it went lately; else NULL. */
static struct evict_ghost *ghost_find(const struct evict *evict, uint32_t hash)
{
    struct evict_ghost *bucket = ghost_bucket(evict, hash);
    uint64_t reach = min_u64(share(evict, SHARE_REMEMBERED) >> STAMP_SHIFT, STAMP_MASK / 2);

    for (uint32_t i = 0; i < GHOST_SLOTS; i++) {
        if (bucket[i].hash == hash) {
            return ghost_age(evict, &bucket[i]) <= reach ? &bucket[i] : NULL;
        }
    }
    return NULL;
}

/* ---- the border between trial and main ---- */

static uint64_t border_step(const struct evict *evict, uint32_t granules)
{
    return min_u64(granules, max_u64(share(evict, SHARE_STEP), 1));
}

static void lengthen_trial(struct evict *evict, uint32_t granules)
{
    evict->small_target =
        min_u64(evict->small_target + border_step(evict, granules), evict->small_target_max);
}

static void shorten_trial(struct evict *evict, uint32_t granules)
{
    uint64_t step = border_step(evict, granules);

    evict->small_target = evict->small_target - evict->small_target_min > step
                              ? evict->small_target - step
                              : evict->small_target_min;
}

/* ---- life of an entry ---- */

static uint32_t buckets_for(uint32_t max_entries)
{
    /* Three remembered for four entries. */
    return max_u32((uint32_t)((uint64_t)max_entries * 3 / 4 / GHOST_SLOTS), 1);
}

size_t evict_storage_bytes(uint32_t max_entries)
{
    return (size_t)buckets_for(max_entries) * CACHE_LINE +
           (size_t)max_entries * (sizeof(struct evict_node) + 1);
}

nigh_status evict_init(struct evict *evict, uint32_t max_entries, uint64_t capacity_bytes,
                       void *storage)
{
    size_t ghost_bytes = (size_t)buckets_for(max_entries) * CACHE_LINE;
    uint8_t *at = storage;

    if (max_entries == 0 || max_entries > LIMIT_INDEX_ENTRIES ||
        capacity_bytes < LIMIT_GRANULE_BYTES || (uintptr_t)storage % CACHE_LINE != 0) {
        return NIGH_INVALID;
    }
    *evict = (struct evict){0};
    evict->max_entries = max_entries;
    evict->ghost_buckets = buckets_for(max_entries);
    evict->ghosts = (struct evict_ghost *)at;
    evict->nodes = (struct evict_node *)(at + ghost_bytes);
    evict->marks = at + ghost_bytes + (size_t)max_entries * sizeof(struct evict_node);
    memset(evict->ghosts, 0, ghost_bytes);
    memset(evict->marks, 0, max_entries);
    for (uint32_t place = 0; place < EVICT_PLACES; place++) {
        evict->queues[place].head = evict->queues[place].tail = NONE;
    }
    evict_resize(evict, capacity_bytes);
    return NIGH_OK;
}

void evict_resize(struct evict *evict, uint64_t capacity_bytes)
{
    uint64_t capacity = capacity_bytes / LIMIT_GRANULE_BYTES;

    NIGH_ASSERT(capacity_bytes >= LIMIT_GRANULE_BYTES);
    if (evict->capacity != 0) {
        evict->small_target =
            (uint64_t)((unsigned __int128)evict->small_target * capacity / evict->capacity);
    }
    evict->capacity = capacity;
    evict->small_target_min = share(evict, SHARE_SMALL_MIN);
    evict->small_target_max = share(evict, SHARE_SMALL_MAX);
    evict->small_target =
        max_u64(min_u64(evict->small_target, evict->small_target_max), evict->small_target_min);
}

static uint64_t trial_granules(const struct evict *evict)
{
    return evict->queues[EVICT_YOUNG].granules + evict->queues[EVICT_SMALL].granules;
}

/* Newcomers that have seen 5 % of the capacity come after them are on trial from now on. */
static void age_young(struct evict *evict)
{
    struct evict_queue *young = &evict->queues[EVICT_YOUNG];
    uint64_t window = share(evict, SHARE_YOUNG);

    for (uint32_t i = 0; i < AGED_A_CALL && young->tail != NONE; i++) {
        if (young->granules - evict->nodes[young->tail].granules < window) {
            return;
        }
        move(evict, EVICT_SMALL, young->tail);
    }
}

/* All ids of a lane agree in some bits of their hash: mixed again. */
static uint32_t ghost_hash(uint64_t id_hash)
{
    return max_u32((uint32_t)(hash_u64(id_hash) >> 32), 1);
}

void evict_expect(const struct evict *evict, uint64_t id_hash)
{
    __builtin_prefetch(ghost_bucket(evict, ghost_hash(id_hash)), 1);
}

void evict_admit(struct evict *evict, uint32_t entry, uint64_t size_bytes, uint64_t id_hash)
{
    struct evict_node *node;
    struct evict_ghost *ghost;
    enum evict_place place = EVICT_YOUNG;

    NIGH_ASSERT(entry < evict->max_entries);
    NIGH_ASSERT(evict->marks[entry] == EVICT_FREE);
    node = &evict->nodes[entry];
    node->granules = (uint32_t)min_u64(
        size_bytes / LIMIT_GRANULE_BYTES + (size_bytes % LIMIT_GRANULE_BYTES != 0), UINT32_MAX);
    node->hash = ghost_hash(id_hash);

    ghost = ghost_find(evict, node->hash);
    if (ghost != NULL && ghost_origin(ghost) == ORIGIN_TRIAL) {
        /* A longer trial would have kept it. */
        if ((ghost->stamp & STAMP_MISSED) == 0) {
            lengthen_trial(evict, node->granules);
        }
        place = EVICT_MAIN;
    } else if (ghost != NULL) {
        /* A larger main would have kept it. Yet it must prove itself anew: if what main gives up
         * came back to main, a loop larger than memory would turn all of main over. */
        shorten_trial(evict, node->granules);
    }
    if (ghost != NULL) {
        ghost->hash = 0;
    }
    push(evict, place, entry);
    age_young(evict);
}

void evict_missed(struct evict *evict, uint64_t id_hash)
{
    struct evict_ghost *ghost = ghost_find(evict, ghost_hash(id_hash));

    if (ghost != NULL && (ghost->stamp & (STAMP_MAIN | STAMP_MISSED)) == 0) {
        ghost->stamp |= STAMP_MISSED;
        lengthen_trial(evict, ghost_granules(ghost));
    }
}

void evict_touch(struct evict *evict, uint32_t entry)
{
    uint32_t hits;

    if (entry >= evict->max_entries || evict->marks[entry] == EVICT_FREE ||
        place_of(evict, entry) == EVICT_YOUNG) {
        return;
    }
    hits = hits_of(evict, entry);
    if (hits < HITS_MAX) {
        set_hits(evict, entry, hits + 1);
    }
}

void evict_refresh(struct evict *evict, uint32_t entry)
{
    enum evict_place place;

    NIGH_ASSERT(entry < evict->max_entries && evict->marks[entry] != EVICT_FREE);
    place = place_of(evict, entry);
    set_hits(evict, entry, HITS_MAX);
    if (place != EVICT_OFFERED && place != EVICT_PARKED) {
        move(evict, EVICT_MAIN, entry);
    }
}

void evict_forget(struct evict *evict, uint32_t entry)
{
    NIGH_ASSERT(entry < evict->max_entries);
    take(evict, entry);
    evict->marks[entry] = EVICT_FREE;
}

void evict_evicted(struct evict *evict, uint32_t entry)
{
    bool from_main;
    enum origin origin;

    NIGH_ASSERT(entry < evict->max_entries);
    from_main = place_of(evict, entry) == EVICT_MAIN || (evict->marks[entry] & MARK_FROM_MAIN) != 0;
    origin = from_main ? ORIGIN_MAIN : ORIGIN_TRIAL;
    take(evict, entry);
    evict->marks[entry] = EVICT_FREE;
    evict->went[origin] += evict->nodes[entry].granules;
    ghost_put(evict, &evict->nodes[entry], origin);
}

void evict_kept(struct evict *evict, uint32_t entry)
{
    NIGH_ASSERT(entry < evict->max_entries && place_of(evict, entry) == EVICT_OFFERED);
    move(evict, EVICT_PARKED, entry);
}

/* ---- the choice ---- */

/* The candidates of one call, as they are collected. */
struct offers {
    uint32_t *entries;
    uint32_t count;
    uint32_t max_count;
    uint64_t granules;
    uint64_t granules_wanted;
    uint32_t steps; /* entries that may still be passed over */
};

static struct offers offers_begin(uint32_t *entries, uint32_t max_count, uint64_t bytes_wanted)
{
    return (struct offers){
        .entries = entries,
        .max_count = max_count,
        .granules_wanted =
            bytes_wanted / LIMIT_GRANULE_BYTES + (bytes_wanted % LIMIT_GRANULE_BYTES != 0),
        .steps = LIMIT_EVICT_SCAN,
    };
}

static bool offers_are_complete(const struct offers *offers)
{
    return offers->count == offers->max_count || offers->granules >= offers->granules_wanted;
}

static void offer(struct evict *evict, struct offers *offers, uint32_t entry)
{
    if (place_of(evict, entry) == EVICT_MAIN) {
        evict->marks[entry] |= MARK_FROM_MAIN;
    }
    move(evict, EVICT_OFFERED, entry);
    offers->entries[offers->count++] = entry;
    offers->granules += evict->nodes[entry].granules;
}

/* Who has been on trial longest, or NONE. */
static uint32_t trial_tail(const struct evict *evict)
{
    uint32_t tail = evict->queues[EVICT_SMALL].tail;
    return tail != NONE ? tail : evict->queues[EVICT_YOUNG].tail;
}

/*
 * Whether the next to go is from trial. It is when small_target bytes came after it: a large object
 * thus gets the same trial as a small one, where comparing the queue's whole length with the target
 * would end a large one's at once.
 */
static bool trial_is_next(const struct evict *evict)
{
    uint32_t tail = trial_tail(evict);

    if (tail == NONE || evict->queues[EVICT_MAIN].tail == NONE) {
        return tail != NONE;
    }
    return trial_granules(evict) - evict->nodes[tail].granules >= evict->small_target;
}

/* Passes over what was used, lazily promoting it, up to the next candidate; NONE when there is none
 * or no step is left. */
static uint32_t choose(struct evict *evict, struct offers *offers)
{
    while (offers->steps > 0) {
        bool trial = trial_is_next(evict);
        uint32_t entry = trial ? trial_tail(evict) : evict->queues[EVICT_MAIN].tail;
        uint32_t hits;

        if (entry == NONE) {
            return NONE;
        }
        hits = hits_of(evict, entry);
        if (hits == 0) {
            return entry;
        }
        offers->steps--;
        if (trial) {
            set_hits(evict, entry, 0);
        } else {
            /* Main's oldest bytes are in use, so a longer trial would cost hits. A quarter of its
             * weight: that it was used once more says less than that an object had to be fetched
             * again. */
            set_hits(evict, entry, hits - 1);
            shorten_trial(evict, evict->nodes[entry].granules / 4);
        }
        move(evict, EVICT_MAIN, entry);
    }
    return NONE;
}

/* Offers the longest parked again, up to `quota` of them, save those that were used meanwhile.
 * Returns how many it looked at. */
static uint32_t retry_parked(struct evict *evict, struct offers *offers, uint32_t quota)
{
    struct evict_queue *parked = &evict->queues[EVICT_PARKED];
    uint32_t looked;

    for (looked = 0; looked < quota && parked->tail != NONE; looked++) {
        uint32_t entry = parked->tail;
        uint32_t hits = hits_of(evict, entry);

        if (offers_are_complete(offers)) {
            break;
        }
        if (hits > 0) {
            set_hits(evict, entry, hits - 1);
            evict->marks[entry] &= (uint8_t)~MARK_FROM_MAIN;
            move(evict, EVICT_MAIN, entry);
        } else {
            offer(evict, offers, entry);
        }
    }
    return looked;
}

uint32_t evict_victims(struct evict *evict, uint32_t max_count, uint64_t bytes_wanted,
                       uint32_t *entries)
{
    struct offers offers = offers_begin(entries, max_count, bytes_wanted);
    uint32_t entry;
    uint32_t quota;

    quota = min_u32(evict->retry_credit / RETRY_PRICE, max_u32(max_count / (RETRY_PRICE + 1), 1));
    evict->retry_credit -= retry_parked(evict, &offers, quota) * RETRY_PRICE;
    while (!offers_are_complete(&offers)) {
        entry = choose(evict, &offers);
        if (entry == NONE) {
            break;
        }
        offer(evict, &offers, entry);
        evict->retry_credit = min_u32(evict->retry_credit + 1, RETRY_CREDIT);
    }
    if (!offers_are_complete(&offers) && evict_only_kept_left(evict)) {
        retry_parked(evict, &offers, max_count);
    }
    if (offers.count == 0 && !offers_are_complete(&offers)) {
        /* All that was seen is in use, and looking further would hold the lane up: the one whose
         * turn it is goes all the same. */
        entry = trial_is_next(evict) ? trial_tail(evict) : evict->queues[EVICT_MAIN].tail;
        if (entry != NONE) {
            offer(evict, &offers, entry);
        }
    }
    return offers.count;
}

/* Whether what is next in line may go before anybody needs its room. */
static bool is_spare(const struct evict *evict, uint32_t entry, uint64_t bytes_each)
{
    uint64_t stays = trial_granules(evict) + evict->queues[EVICT_MAIN].granules;
    uint32_t granules = evict->nodes[entry].granules;

    return place_of(evict, entry) != EVICT_YOUNG && granules <= bytes_each / LIMIT_GRANULE_BYTES &&
           stays - granules >= share(evict, SHARE_YOUNG);
}

uint32_t evict_spare(struct evict *evict, uint32_t max_count, uint64_t bytes_wanted,
                     uint64_t bytes_each, uint32_t *entries)
{
    struct offers offers = offers_begin(entries, max_count, bytes_wanted);

    while (!offers_are_complete(&offers)) {
        uint32_t entry = choose(evict, &offers);

        if (entry == NONE || !is_spare(evict, entry, bytes_each)) {
            break;
        }
        offer(evict, &offers, entry);
        evict->retry_credit = min_u32(evict->retry_credit + 1, RETRY_CREDIT);
    }
    return offers.count;
}

bool evict_only_kept_left(const struct evict *evict)
{
    return trial_tail(evict) == NONE && evict->queues[EVICT_MAIN].tail == NONE;
}

enum evict_place evict_where(const struct evict *evict, uint32_t entry)
{
    return entry < evict->max_entries ? place_of(evict, entry) : EVICT_FREE;
}

uint64_t evict_bytes(const struct evict *evict, enum evict_place place)
{
    return evict->queues[place].granules * LIMIT_GRANULE_BYTES;
}

/* ---- checking ---- */

/* Walks a queue from its head: links, sums and marks agree. */
static bool queue_is_valid(const struct evict *evict, enum evict_place place)
{
    const struct evict_queue *queue = &evict->queues[place];
    uint64_t granules = 0;
    uint32_t count = 0;
    uint32_t before = NONE;

    for (uint32_t entry = queue->head; entry != NONE; entry = evict->nodes[entry].toward_tail) {
        if (entry >= evict->max_entries || count == queue->count ||
            place_of(evict, entry) != place || evict->nodes[entry].toward_head != before) {
            return false;
        }
        granules += evict->nodes[entry].granules;
        count++;
        before = entry;
    }
    return queue->tail == before && queue->count == count && queue->granules == granules;
}

bool evict_is_valid(const struct evict *evict)
{
    uint32_t counts[EVICT_PLACES] = {0};
    uint64_t offered = 0;

    for (uint32_t entry = 0; entry < evict->max_entries; entry++) {
        enum evict_place place = place_of(evict, entry);

        if (place >= EVICT_PLACES || (place == EVICT_FREE && evict->marks[entry] != 0) ||
            (place == EVICT_YOUNG && hits_of(evict, entry) != 0) ||
            (evict->marks[entry] & MARK_FROM_MAIN && place != EVICT_OFFERED &&
             place != EVICT_PARKED)) {
            return false;
        }
        counts[place]++;
        if (place == EVICT_OFFERED) {
            offered += evict->nodes[entry].granules;
        }
    }
    for (uint32_t place = EVICT_YOUNG; place <= EVICT_PARKED; place++) {
        if (counts[place] != evict->queues[place].count ||
            !queue_is_valid(evict, (enum evict_place)place)) {
            return false;
        }
    }
    return counts[EVICT_OFFERED] == evict->queues[EVICT_OFFERED].count &&
           offered == evict->queues[EVICT_OFFERED].granules &&
           evict->small_target >= evict->small_target_min &&
           evict->small_target <= evict->small_target_max &&
           evict->small_target_max <= evict->capacity;
}
