/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange as an owner: telling homes what is held here.
 *
 * News go into a queue a home, in order, and from there into one call at a time. A walk through all
 * objects, some entries a turn, tells a home everything: when its link comes up, and when the queue
 * overflowed. Telling twice is harmless. If what did not fit was of something that is gone, the
 * home hears before that everything is told once more (ANNOUNCING), and at the end that this was
 * all (ANNOUNCED), so that it lets go what was not named. This node's own directory is told the
 * same way, without a link.
 *
 * What is claimed (created exclusively) goes the same way, so that it is granted, becomes a birth
 * or is given up in the order in which that happened here.
 *
 * What a home has no room for is told again, with everything born here, until it has: after a
 * second, then two, up to a minute. Such a walk ends where there is no room again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "object/exchange_announce.h"
#include "object/exchange_figures.h"
#include "object/exchange_hear.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_outside.h"
#include "object/exchange_pull.h"
#include "object/exchange_replicas.h"
#include "object/exchange_replication.h"
#include "object/exchange_view.h"
#include "object/exchange_wire.h"

#define LOG_MODULE "exchange"
#include "base/log.h"

/* Records of one call. */
#define ANNOUNCE_BATCH 64u
nigh_status announcer_init(struct announcer *announcer, uint32_t size)
{
    memset(announcer, 0, sizeof(*announcer));
    announcer->size = size;
    announcer->queue = calloc(size, sizeof(*announcer->queue));
    return announcer->queue == NULL ? NIGH_NO_RESOURCES : NIGH_OK;
}

void announcer_fini(struct announcer *announcer)
{
    free(announcer->queue);
    announcer->queue = NULL;
}

void announcer_walk(struct announcer *announcer, bool repeat)
{
    announcer->walking = true;
    announcer->walk_again = false;
    announcer->again = false;
    announcer->begins = announcer->begins || announcer->lost;
    announcer->repeat = announcer->repeat || announcer->begins || repeat;
    announcer->lost = false;
    announcer->pool = 0;
    announcer->cursor = 0;
}

static struct wire_announce *record_at(struct announcer *announcer, uint32_t number)
{
    return &announcer->queue[(announcer->head + number) % announcer->size];
}

/* There is no room for news: a walk has to tell them. One that has not looked at anything yet
 * will; one that has ends first, with what it has to say at its end, so that homes let go whatever
 * else is lost meanwhile. */
static void overflow(struct announcer *announcer, bool gone)
{
    bool looked = announcer->pool != 0 || announcer->cursor != 0;

    announcer->lost = announcer->lost || gone;
    if (announcer->walking ? looked : announcer->repeat) {
        announcer->walk_again = true;
    } else {
        announcer_walk(announcer, false);
    }
}

static void push(struct exchange *exchange, struct announcer *announcer,
                 const struct wire_announce *record)
{
    if (announcer->count == announcer->size) {
        bool gone = (record->flags & WIRE_GONE) != 0;

        exchange->counts.news_lost += gone ? 1 : 0;
        overflow(announcer, gone);
        return;
    }
    *record_at(announcer, announcer->count) = *record;
    announcer->count++;
}

static struct announcer *announcer_of(struct exchange *exchange, uint32_t home, uint64_t hash)
{
    struct exchange_link *link;

    if (exchange->outside.used && !outside_is_up(exchange)) {
        return NULL; /* as below */
    }
    if (home == exchange_self(exchange)) {
        return &exchange->own;
    }
    /* While the link is down nothing is noted: the walk at its return tells all. */
    link = exchange_link_to(exchange, home, hash);
    return link == NULL ? NULL : &link->announcer;
}

void announce_object(struct exchange *exchange, uint32_t pool, const uint8_t *id, uint64_t hash,
                     const struct directory_object *object, uint32_t flags)
{
    struct wire_announce record = {.object = *object, .flags = flags};
    struct announcer *announcer;
    uint64_t key_hash;
    uint32_t home;

    if (!exchange->pools[pool].used) {
        return;
    }
    exchange_key(exchange, pool, id, &record.key, &key_hash, &home);
    announcer = announcer_of(exchange, home, hash);
    if (announcer != NULL) {
        push(exchange, announcer, &record);
    }
}

static struct directory_object object_of(const struct store_sight *sight)
{
    return (struct directory_object){
        .birth = sight->birth,
        .data_size = sight->data_size,
        .meta_size = sight->meta_size,
        .name_size = sight->name_size,
    };
}

void announce_sealed(void *context, const struct store_sight *sight)
{
    struct directory_object object = object_of(sight);

    announce_object(context, sight->pool, sight->id, sight->hash, &object, 0);
    replication_sealed(context, sight);
}

void announce_gone(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                   const struct birth *birth)
{
    struct directory_object object = {.birth = *birth};

    announce_object(context, pool, id, hash, &object, WIRE_GONE);
    replication_gone(context, pool, id, birth);
}

/* Called by the store: an exclusive create, or the seal of one. What was told and not answered
 * lies in the queue, or is under way; if either is lost, a walk tells it. */
nigh_status announce_claim(void *context, const struct store_sight *sight, bool tell)
{
    struct exchange *exchange = context;
    struct wire_announce record = {.object = object_of(sight), .flags = WIRE_CLAIM};
    struct announcer *announcer;
    uint64_t key_hash;
    uint32_t home;

    if (!exchange->pools[sight->pool].used || exchange->config.members->count == 1) {
        return NIGH_OK;
    }
    if (!exchange->views.quorum) {
        return NIGH_NO_QUORUM;
    }
    exchange_key(exchange, sight->pool, sight->id, &record.key, &key_hash, &home);
    announcer = announcer_of(exchange, home, sight->hash);
    if (announcer == NULL) {
        return directory_member_is_dead(exchange->directory, home) ? NIGH_UNREACHABLE
                                                                   : NIGH_PEER_LOST;
    }
    if (sight->is_granted && !announcer->repeat) {
        return NIGH_OK; /* all was told since the link came up, and this not refused */
    }
    if (tell) {
        push(exchange, announcer, &record);
    }
    return NIGH_PENDING;
}

/* A copy of which its home has not heard may be deleted there by now: a home that follows would
 * take it for one that the birth lives by. Not a replica: a put may have ended by it. */
static void drop_untold(struct exchange *exchange, struct announcer *announcer, uint32_t home)
{
    for (uint32_t n = 0; n < announcer->count; n++) {
        struct wire_announce record = *record_at(announcer, n);
        uint32_t flags = record.flags & (WIRE_COPY | WIRE_REPEAT | WIRE_GONE), pool;

        if (flags == WIRE_COPY && exchange_pool_of(exchange, &record.key, &pool) &&
            replication_find(exchange->replication, &record.key) == NULL &&
            views_home(exchange, directory_key_hash(&record.key)) != home) {
            (void)store_drop(exchange->config.store, pool, record.key.id, hash_id20(record.key.id),
                             &record.object.birth, false, exchange->now_us);
        }
    }
}

void announce_homes_moved(struct exchange *exchange)
{
    drop_untold(exchange, &exchange->own, exchange_self(exchange));
    LIST_FOREACH(node, &exchange->live)
    {
        struct exchange_link *link = container_of(node, struct exchange_link, place);

        drop_untold(exchange, &link->announcer, link->rank);
    }
}

/* ---- walking -------------------------------------------------------------- */

/* One object on the way: queued if this home is told of it. */
static void visit(struct exchange *exchange, struct announcer *announcer, uint32_t rank,
                  uint64_t shards, const struct store_sight *sight)
{
    struct wire_announce record = {.object = object_of(sight), .flags = WIRE_REPEAT};
    uint64_t key_hash;
    uint32_t home;

    if ((shards >> (sight->hash >> 58) & 1) == 0) {
        return;
    }
    exchange_key(exchange, sight->pool, sight->id, &record.key, &key_hash, &home);
    /* A copy is not told again: it would be refused, since it may be deleted by now, and dropped.
     */
    if (home == rank && !(announcer->again && sight->is_copy)) {
        record.flags |= sight->is_copy ? WIRE_COPY : sight->is_claim ? WIRE_CLAIM : 0;
        push(exchange, announcer, &record);
    }
}

/* A walk is over, and what it had to say at its end is said. */
static void go_again(struct announcer *announcer)
{
    if (announcer->walk_again) {
        announcer_walk(announcer, false);
    }
}

/* A walk leaves half of the queue for news. */
static bool has_room(const struct announcer *announcer)
{
    return announcer->count < announcer->size / 2;
}

/* Goes on with a walk; true if it did something. */
static bool walk(struct exchange *exchange, struct announcer *announcer, uint32_t rank,
                 uint64_t shards)
{
    if (!announcer->walking || announcer->begins || !has_room(announcer)) {
        return false;
    }
    while (has_room(announcer)) {
        struct store_sight sight;

        while (announcer->pool < LIMIT_POOLS && !exchange->pools[announcer->pool].used) {
            announcer->pool++;
        }
        if (announcer->pool == LIMIT_POOLS) {
            break;
        }
        if (!store_next(exchange->config.store, announcer->pool, &announcer->cursor, &sight)) {
            announcer->pool++;
            announcer->cursor = 0;
            continue;
        }
        if (sight.entry == UINT32_MAX) {
            return true; /* looked at enough for this turn */
        }
        visit(exchange, announcer, rank, shards, &sight);
    }
    if (announcer->pool == LIMIT_POOLS) {
        announcer->walking = false;
        if (!announcer->repeat) {
            go_again(announcer);
        }
    }
    return true;
}

/* ---- homes without room --------------------------------------------------- */

/* A home has no room for what it was told: later again. */
static void no_room_there(struct exchange *exchange, struct announcer *announcer, uint32_t home,
                          uint64_t now_us)
{
    uint64_t wait_us = announcer->again_wait_us == 0
                           ? EXCHANGE_AGAIN_US
                           : min_u64(2 * announcer->again_wait_us, EXCHANGE_AGAIN_MAX);

    exchange->counts.announcements_refused++;
    if (announcer->again) {
        announcer->again = announcer->walking = false;
        go_again(announcer);
    }
    if (announcer->again_us == 0) {
        LOG_WARN("a home has no room for objects of this node: other nodes do not find them",
                 "home=%u again_s=%llu do=\"raise --max-objects there\"", home,
                 (unsigned long long)(wait_us / 1000000));
        announcer->again_wait_us = wait_us;
        announcer->again_us =
            clock_deadline_us(now_us, wait_us / 2 + random_below(&exchange->random, wait_us / 2));
    }
}

/* Begins to tell again what was refused, when it is time; notes that all of it had room. */
static void tell_again(struct announcer *announcer, uint64_t now_us)
{
    if (announcer->walking || announcer->repeat || announcer->count > 0) {
        return;
    }
    if (announcer->again) {
        announcer->again = false;
        announcer->again_wait_us = 0;
    }
    if (announcer->again_us != 0 && now_us >= announcer->again_us) {
        announcer_walk(announcer, false);
        announcer->again = true;
        announcer->again_us = 0;
    }
}

/* ---- answers -------------------------------------------------------------- */

/* Once a second: a program that does not look may do so for each of its objects. */
static void log_conflict(struct exchange *exchange, const struct birth *birth, uint64_t now_us)
{
    exchange->conflicts_unsaid++;
    if (now_us < exchange->conflict_us) {
        return;
    }
    exchange->conflict_us = clock_deadline_us(now_us, EXCHANGE_CONFLICT_US);
    LOG_WARN("dropped objects: another node had their ids first",
             "count=%u last=%u.%u.%llu do=\"put with NIGH_CREATE_EXCLUSIVE, which asks before\"",
             exchange->conflicts_unsaid, birth->rank, birth->incarnation,
             (unsigned long long)birth->counter);
    exchange->conflicts_unsaid = 0;
}

static void claim_answered(struct exchange *exchange, const struct wire_announce *record,
                           nigh_status status, uint64_t now_us)
{
    uint32_t pool;

    if (status != NIGH_OK && status != NIGH_EXISTS && status != NIGH_LIMIT) {
        status = NIGH_BUSY; /* nor anything else that a peer may say: it is asked again */
    }
    if ((record->flags & WIRE_GONE) == 0 && exchange_pool_of(exchange, &record->key, &pool)) {
        store_claimed(exchange->config.store, pool, record->key.id, hash_id20(record->key.id),
                      &record->object.birth, status, now_us);
    }
}

/* A home goes by another view, or does not know yet that ours is active: all of it again, unless
 * that will be said anyway. What was granted, too: nobody waits for that, to ask again. */
static void not_in_view_there(struct exchange *exchange, struct announcer *announcer,
                              uint64_t now_us)
{
    if (exchange->views.is_active && !announcer->walk_again) {
        overflow(announcer, true);
        announcer->retry_us = clock_deadline_us(now_us, EXCHANGE_PAUSE_MAX);
    }
}

/* Who asks whether it may create something asks again by itself until it is told. */
static bool is_plain_claim(const struct wire_announce *record)
{
    return (record->flags & (WIRE_CLAIM | WIRE_HELD | WIRE_GONE)) == WIRE_CLAIM;
}

/* A home did not admit what we hold: it is of another birth, or was deleted; or there is no room.
 */
static void refused(struct exchange *exchange, struct announcer *announcer, uint32_t home,
                    const struct wire_announce *record, nigh_status status, uint64_t now_us)
{
    bool second = status == NIGH_EXISTS && (record->flags & WIRE_COPY) == 0;
    uint32_t pool;

    if ((record->flags & WIRE_CLAIM) != 0) {
        claim_answered(exchange, record, status, now_us);
    }
    if (status == NIGH_BUSY && !is_plain_claim(record)) {
        not_in_view_there(exchange, announcer, now_us);
        return;
    }
    if ((record->flags & WIRE_CLAIM) != 0) {
        return;
    }
    if (status == NIGH_LIMIT && (record->flags & WIRE_GONE) == 0) {
        no_room_there(exchange, announcer, home, now_us);
        return;
    }
    if ((record->flags & WIRE_GONE) != 0 || (status != NIGH_EXISTS && status != NIGH_IN_USE) ||
        !exchange_pool_of(exchange, &record->key, &pool)) {
        return;
    }
    if (status == NIGH_EXISTS) {
        exchange->counts.conflicts++;
        log_conflict(exchange, &record->object.birth, now_us);
    }
    (void)store_drop(exchange->config.store, pool, record->key.id, hash_id20(record->key.id),
                     &record->object.birth, second, now_us);
}

static void pop(struct announcer *announcer, uint32_t count)
{
    announcer->head = (announcer->head + count) % announcer->size;
    announcer->count -= count;
    announcer->told += count;
    if (announcer->count == 0) {
        announcer->head = 0; /* what is not needed is not touched */
    }
}

/* What a peer may say of itself: to the key's home, over the link of its shard; and that something
 * was born at it only if it says so of its own birth. */
static nigh_status is_its_to_say(struct exchange_link *link, const struct wire_announce *record)
{
    nigh_status status = exchange_is_home(link, &record->key);

    if (status == NIGH_OK && views_is_early(link->exchange, &record->key)) {
        status = NIGH_BUSY;
    }
    if (status != NIGH_OK) {
        if (status == NIGH_BUSY && !is_plain_claim(record)) {
            views_refused_early(link); /* it is told all once more */
        }
        return status;
    }
    if ((record->flags & WIRE_GONE) == 0 &&
        ((record->flags & WIRE_COPY) == 0 || (record->flags & WIRE_CLAIM) != 0) &&
        record->object.birth.rank != link->rank) {
        link->exchange->counts.claims_refused++;
        return NIGH_DENIED;
    }
    return NIGH_OK;
}

static nigh_status tell_directory(struct exchange *exchange, uint32_t from,
                                  const struct wire_announce *record, uint64_t now_us)
{
    if ((record->flags & WIRE_GONE) != 0) {
        directory_forget(exchange->directory, from, &record->key, &record->object.birth);
        return NIGH_OK;
    }
    if ((record->flags & WIRE_CLAIM) != 0) {
        return directory_claim(exchange->directory, from, &record->key, &record->object.birth,
                               (record->flags & WIRE_HELD) != 0);
    }
    return directory_announce(exchange->directory, from, &record->key, &record->object,
                              (record->flags & WIRE_COPY) != 0, now_us);
}

/* ---- sending -------------------------------------------------------------- */

/* What was to be said may be over by now, and its key deleted at the home since: admitted then, it
 * would have others' births refused until the home hears of its end. So only what is here is said
 * to be, or claimed, and the rest to be gone, which a home that never heard of it does not mind. */
static void say_as_it_is(const struct exchange *exchange, struct wire_announce *record)
{
    const uint8_t *id = record->key.id;
    struct store_sight sight;
    uint32_t pool;
    bool is_granted;

    if ((record->flags & WIRE_CLAIM) != 0 && exchange_pool_of(exchange, &record->key, &pool) &&
        store_see_claim(exchange->config.store, pool, id, hash_id20(id), &record->object.birth,
                        &is_granted)) {
        record->flags |= is_granted ? WIRE_HELD : 0;
        return;
    }
    if (!exchange_pool_of(exchange, &record->key, &pool) ||
        !store_see(exchange->config.store, pool, id, hash_id20(id), &sight) ||
        !birth_equal(&sight.birth, &record->object.birth)) {
        record->flags |= WIRE_GONE;
    }
}

static void on_announced(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                         uint64_t now_us)
{
    struct exchange_link *link = context;
    struct announcer *announcer = &link->announcer;
    uint32_t count = announcer->under_way;

    announcer->under_way = 0;
    if (status == NIGH_PEER_LOST || status == NIGH_CANCELED) {
        return; /* all of it is told again when the link is back */
    }
    if (status != NIGH_OK || bytes != count) {
        link_break(link->link, NIGH_PROTOCOL, now_us);
        return;
    }
    for (uint32_t n = 0; n < count; n++) {
        struct wire_announce record = *record_at(announcer, n);

        refused(link->exchange, announcer, link->rank, &record, (nigh_status)(int8_t)payload[n],
                now_us);
    }
    pop(announcer, count);
    hear_answer(link);
}

/* The channel is full, of calls that the peer does not answer perhaps: in a while. */
static bool no_room(struct announcer *announcer, uint64_t now_us)
{
    announcer->retry_us = clock_deadline_us(now_us, EXCHANGE_PAUSE_US);
    return false;
}

static bool send_batch(struct exchange_link *link, uint64_t now_us)
{
    struct announcer *announcer = &link->announcer;
    uint32_t most = (link->exchange->config.payload_bytes) / (uint32_t)sizeof(struct wire_announce);
    uint32_t count = announcer->count < ANNOUNCE_BATCH ? announcer->count : ANNOUNCE_BATCH;
    uint32_t to_end = announcer->size - announcer->head;
    struct rpc_piece piece;

    count = count < most ? count : most;
    count = count < to_end ? count : to_end;
    for (uint32_t n = 0; n < count; n++) {
        say_as_it_is(link->exchange, record_at(announcer, n));
    }
    piece.data = record_at(announcer, 0);
    piece.bytes = count * (uint32_t)sizeof(struct wire_announce);
    if (rpc_call(link_rpc(link->link), WIRE_ANNOUNCE, &piece, 1, UINT64_MAX, now_us, on_announced,
                 link, NULL) != NIGH_OK) {
        return no_room(announcer, now_us);
    }
    announcer->under_way = count;
    return true;
}

/* Begins a walk at whose end the home lets go what it did not hear of. When the walk could go on at
 * once, so that one tells all that is lost till then. */
static bool begin(struct exchange_link *link, uint64_t now_us)
{
    struct announcer *announcer = &link->announcer;

    if (!announcer->begins || !has_room(announcer) || now_us < announcer->retry_us) {
        return false;
    }
    if (rpc_one_way(link_rpc(link->link), WIRE_ANNOUNCING, NULL, 0, now_us) != NIGH_OK) {
        return no_room(announcer, now_us);
    }
    announcer->begins = false;
    pull_doubt_all(link);
    return true;
}

static bool announce_link(struct exchange_link *link, uint64_t now_us)
{
    struct announcer *announcer = &link->announcer;
    bool worked;

    if (!link->in_view) {
        return false;
    }
    tell_again(announcer, now_us);
    worked = begin(link, now_us);
    worked = walk(link->exchange, announcer, link->rank, link->shards) || worked;
    if (announcer->under_way > 0 || now_us < announcer->retry_us) {
        return worked;
    }
    if (announcer->count > 0) {
        return send_batch(link, now_us) || worked;
    }
    if (announcer->repeat && !announcer->walking) {
        if (rpc_one_way(link_rpc(link->link), WIRE_ANNOUNCED, NULL, 0, now_us) != NIGH_OK) {
            return no_room(announcer, now_us) || worked;
        }
        announcer->repeat = false;
        go_again(announcer);
        return true;
    }
    return worked;
}

/* What this node became the home of is told once more when the view is active; and what is gone, by
 * not being told then. */
static void tell_self(struct exchange *exchange, const struct wire_announce *record,
                      uint64_t now_us)
{
    uint32_t self = exchange_self(exchange);
    nigh_status status = NIGH_BUSY;

    if (views_home(exchange, directory_key_hash(&record->key)) != self) {
        return; /* it was queued in an earlier view */
    }
    if (!views_is_early(exchange, &record->key)) {
        status = tell_directory(exchange, self, record, now_us);
    } else if ((record->flags & WIRE_CLAIM) == 0) {
        exchange->own.lost = exchange->own.lost || (record->flags & WIRE_GONE) != 0;
        return;
    }
    refused(exchange, &exchange->own, self, record, status, now_us);
}

/* The own directory is told at once, some records a turn. */
static bool announce_own(struct exchange *exchange, uint64_t now_us)
{
    struct announcer *announcer = &exchange->own;
    uint32_t self = exchange_self(exchange);
    bool worked;

    if (!exchange->views.quorum) {
        return false;
    }
    tell_again(announcer, now_us);
    if (announcer->begins && has_room(announcer)) {
        announcer->begins = false;
        directory_announcing(exchange->directory, self, UINT64_MAX);
    }
    worked = walk(exchange, announcer, self, UINT64_MAX);
    for (uint32_t n = 0; n < ANNOUNCE_BATCH && announcer->count > 0; n++) {
        struct wire_announce record = *record_at(announcer, 0);

        pop(announcer, 1);
        say_as_it_is(exchange, &record);
        tell_self(exchange, &record, now_us);
        worked = true;
    }
    if (announcer->repeat && !announcer->walking && announcer->count == 0) {
        announcer->repeat = false;
        directory_announced(exchange->directory, self, UINT64_MAX);
        views_announced(exchange, self, UINT64_MAX);
        go_again(announcer);
    }
    return worked;
}

/* ---- a directory outside --------------------------------------------------- */

static struct outside_ask ask_of(const struct wire_announce *record, uint64_t place)
{
    struct outside_ask ask = {.op = OUTSIDE_TELL,
                              .use = OUTSIDE_FOR_NEWS,
                              .token = place,
                              .flag = (record->flags & WIRE_COPY) != 0,
                              .key = record->key,
                              .object = record->object};

    if ((record->flags & WIRE_GONE) != 0) {
        ask.op = OUTSIDE_FORGET;
    } else if ((record->flags & WIRE_CLAIM) != 0) {
        ask.op = OUTSIDE_CLAIM;
        ask.flag = (record->flags & WIRE_HELD) != 0;
    }
    return ask;
}

static bool send_outside(struct exchange *exchange, uint64_t now_us)
{
    struct announcer *own = &exchange->own;
    struct outside_side *outside = &exchange->outside;
    uint32_t count = min_u32(own->count, OUTSIDE_BATCH);

    for (uint32_t n = 0; n < count; n++) {
        struct outside_ask ask;

        say_as_it_is(exchange, record_at(own, n));
        ask = ask_of(record_at(own, n), n);
        if (!outside_ask(exchange, &ask)) {
            break;
        }
        own->under_way++;
    }
    outside->answers = 0;
    return own->under_way > 0 || no_room(own, now_us);
}

/* All of a batch is answered. */
void announce_outside_told(struct exchange *exchange, uint64_t now_us)
{
    struct announcer *own = &exchange->own;
    uint32_t count = own->under_way;

    own->under_way = 0;
    for (uint32_t n = 0; n < count; n++) {
        struct wire_announce record = *record_at(own, n);

        if (exchange->outside.statuses[n] != NIGH_PEER_LOST) { /* else all is told again */
            refused(exchange, own, exchange_self(exchange), &record, exchange->outside.statuses[n],
                    now_us);
        }
    }
    pop(own, count);
    LIST_FOREACH(node, &exchange->live)
    {
        hear_answer(container_of(node, struct exchange_link, place));
    }
}

/* The directory lives (again): it is told everything. What was news is part of that. */
void announce_outside_begins(struct exchange *exchange)
{
    struct announcer *own = &exchange->own;

    own->under_way = 0;
    pop(own, own->count);
    own->lost = false;
    own->begins = false;
    own->retry_us = 0;
    own->again_us = 0;
    announcer_walk(own, true);
}

void announce_outside_ended(struct exchange *exchange, const struct outside_news *news)
{
    struct outside_ask more = {.op = OUTSIDE_END, .use = OUTSIDE_FOR_END, .cursor = news->cursor};

    exchange->outside.is_ending = false;
    if (news->status == NIGH_OK && news->cursor == 0) {
        exchange->own.repeat = false;
        go_again(&exchange->own);
    } else if (news->status == NIGH_OK) {
        exchange->outside.is_ending = outside_ask(exchange, &more);
    } else { /* from the start, unless it is gone */
        exchange->own.retry_us = clock_deadline_us(exchange->now_us, EXCHANGE_PAUSE_MAX);
    }
}

static bool end_outside(struct exchange *exchange, uint64_t now_us)
{
    struct outside_ask ask = {.op = OUTSIDE_END, .use = OUTSIDE_FOR_END};

    exchange->outside.is_ending = outside_ask(exchange, &ask);
    return exchange->outside.is_ending || no_room(&exchange->own, now_us);
}

static bool announce_outside(struct exchange *exchange, uint64_t now_us)
{
    struct announcer *own = &exchange->own;
    bool worked;

    if (!outside_is_up(exchange) || own->under_way > 0 || exchange->outside.is_ending ||
        now_us < own->retry_us) {
        return false;
    }
    tell_again(own, now_us);
    if (own->begins) { /* news were lost: what is told from here on is all there is */
        exchange->outside.life = 0;
        return true;
    }
    worked = walk(exchange, own, exchange_self(exchange), UINT64_MAX);
    if (own->count > 0) {
        return send_outside(exchange, now_us) || worked;
    }
    if (own->repeat && !own->walking) {
        return end_outside(exchange, now_us) || worked;
    }
    return worked;
}

bool announce_turn(struct exchange *exchange, uint64_t now_us)
{
    bool worked = exchange->outside.used ? announce_outside(exchange, now_us)
                                         : announce_own(exchange, now_us);

    LIST_FOREACH(node, &exchange->live)
    {
        worked = announce_link(container_of(node, struct exchange_link, place), now_us) || worked;
    }
    return worked;
}

static bool has_news(const struct announcer *announcer)
{
    return announcer->count > 0 || announcer->walking || announcer->repeat;
}

static uint64_t again_due_us(const struct announcer *announcer)
{
    return announcer->again_us == 0 ? UINT64_MAX : announcer->again_us;
}

uint64_t announce_due_us(const struct exchange *exchange)
{
    uint64_t due_us = again_due_us(&exchange->own);

    if (exchange->outside.used) {
        const struct announcer *own = &exchange->own;

        return !outside_is_up(exchange) || own->under_way > 0 || exchange->outside.is_ending
                   ? UINT64_MAX
               : has_news(own) ? own->retry_us
                               : due_us;
    }
    if (!exchange->views.quorum) {
        return UINT64_MAX;
    }
    if (has_news(&exchange->own)) {
        return 0;
    }
    LIST_FOREACH(node, &exchange->live)
    {
        const struct exchange_link *link = container_of(node, struct exchange_link, place);
        const struct announcer *announcer = &link->announcer;

        if (link->owes_view) {
            due_us = min_u64(due_us, exchange->now_us + EXCHANGE_PAUSE_US);
        }
        if (!link->in_view) {
            continue;
        }
        if (announcer->under_way == 0 && has_news(announcer)) {
            due_us = min_u64(due_us, announcer->retry_us);
        } else if (!has_news(announcer)) {
            due_us = min_u64(due_us, again_due_us(announcer));
        }
    }
    return due_us;
}

/* ---- as a home ------------------------------------------------------------ */

/* A walk of the peer's begins, or has ended. One whose records were refused, as this node went by
 * another view, was too early, or had no lease, comes again. One without records does not: it
 * counts also where this node has no lease yet. */
static void told_all(struct exchange_link *link, bool is_end)
{
    struct exchange *exchange = link->exchange;

    if (link->epoch != exchange->views.epoch) {
        views_refused_early(link);
        return;
    }
    views_meet(link);
    if (!is_end) {
        link->was_early = false;
        directory_announcing(exchange->directory, link->rank, link->shards);
        return;
    }
    if (!link->was_early) {
        directory_announced(exchange->directory, link->rank, link->shards);
        views_announced(exchange, link->rank, link->shards);
    }
}

void announce_on_request(struct exchange_link *link, const struct rpc_request *request,
                         uint64_t now_us)
{
    int8_t answers[LIMIT_RPC_PAYLOAD / sizeof(struct wire_announce)];
    uint32_t count = request->bytes / (uint32_t)sizeof(struct wire_announce);
    struct rpc_piece piece = {.data = answers, .bytes = count};

    if (request->method == WIRE_ANNOUNCING || request->method == WIRE_ANNOUNCED) {
        told_all(link, request->method == WIRE_ANNOUNCED);
        return;
    }
    if (request->call == 0) {
        return;
    }
    if (request->bytes % sizeof(struct wire_announce) != 0) {
        rpc_reply(link_rpc(link->link), request->call, NIGH_PROTOCOL, NULL, 0);
        return;
    }
    for (uint32_t n = 0; n < count; n++) {
        struct wire_announce record;

        nigh_status status;

        memcpy(&record, request->payload + n * sizeof(record), sizeof(record));
        status = is_its_to_say(link, &record);
        if (status == NIGH_OK) {
            status = tell_directory(link->exchange, link->rank, &record, now_us);
        }
        answers[n] = (int8_t)status;
    }
    rpc_reply(link_rpc(link->link), request->call, NIGH_OK, &piece, 1);
}
