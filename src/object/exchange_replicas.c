/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange as a holder of replicas: which there are here, and that their keepers know.
 *
 * A record stands for each; it is told to the key's keeper, in calls of many, and again whenever
 * another link, or another member, is to know. A sweep over all records, some a turn, finds those;
 * at its end the keeper hears that this was all. Clients that wait for replicas hang on the record.
 */
#include "base/check.h"
#include "base/clock.h"
#include "object/exchange_figures.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_replicas.h"
#include "object/exchange_replication.h"
#include "object/exchange_wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* ---- records -------------------------------------------------------------- */

bool replication_is_out(void *context, uint32_t rank)
{
    const struct exchange *exchange = context;

    return !agreed_has(&exchange->views.in, rank) ||
           (rank != exchange_self(exchange) && directory_member_is_dead(exchange->directory, rank));
}

uint32_t replication_keeper(const struct exchange *exchange, uint64_t key_hash)
{
    return replicas_keeper(exchange->config.members, key_hash, replication_is_out,
                           (void *)exchange);
}

static struct list *bucket_of(const struct replication *replication,
                              const struct directory_key *key)
{
    return &replication->buckets[directory_key_hash(key) & (REPLICAS_BUCKETS - 1)];
}

struct held *replication_find(const struct replication *replication,
                              const struct directory_key *key)
{
    LIST_FOREACH(node, bucket_of(replication, key))
    {
        struct held *held = container_of(node, struct held, bucket);

        if (memcmp(&held->key, key, sizeof(*key)) == 0) {
            return held;
        }
    }
    return NULL;
}

static uint64_t bytes_of(const struct directory_object *object)
{
    return index_object_bytes(object->data_size, object->meta_size, object->name_size);
}

static void set_copy(struct replication *replication, struct held *held, bool is_copy)
{
    if (held->is_copy != is_copy) {
        replication->copy_bytes += is_copy ? bytes_of(&held->object) : 0;
        replication->copy_bytes -= is_copy ? 0 : bytes_of(&held->object);
    }
    held->is_copy = is_copy;
}

static struct held *add(struct replication *replication, const struct store_sight *sight)
{
    struct list_node *node = list_pop_front(&replication->free_held);
    struct held *held = node != NULL ? container_of(node, struct held, bucket) : NULL;
    uint32_t home;

    if (held == NULL && replication->held_used == replication->held_max) {
        return NULL;
    }
    held = held != NULL ? held : &replication->held[replication->held_used++];
    memset(held, 0, sizeof(*held));
    held->used = true;
    held->pool = sight->pool;
    held->hash = sight->hash;
    list_init(&held->waits);
    exchange_key(replication->exchange, sight->pool, sight->id, &held->key, &held->key_hash, &home);
    list_push_back(bucket_of(replication, &held->key), &held->bucket);
    return held;
}

static void end_wait(struct replication *replication, struct replica_wait *wait, nigh_status status)
{
    uint32_t count = wait->held->count;

    timers_cancel(&replication->timers, &wait->timer);
    list_remove(&wait->place);
    replication->waits--;
    wait->done(wait->context, wait->token, status, count);
    free(wait);
}

static void end_waits(struct replication *replication, struct held *held, nigh_status status)
{
    LIST_FOREACH_SAFE(node, &held->waits)
    {
        end_wait(replication, container_of(node, struct replica_wait, place), status);
    }
}

/* Nobody needs to know of it any more. One that is in a call goes at its end. */
void replication_forget(struct replication *replication, struct held *held)
{
    end_waits(replication, held, NIGH_NOT_FOUND);
    set_copy(replication, held, false);
    leave_forget(replication, held);
    if (held->state == HELD_TELLING) {
        held->gone = true;
        return;
    }
    if (list_is_linked(&held->place)) {
        list_remove(&held->place);
    }
    list_remove(&held->bucket);
    held->used = false;
    list_push_front(&replication->free_held, &held->bucket);
}

/* ---- whom to tell --------------------------------------------------------- */

void replication_tell(struct replication *replication, struct held *held)
{
    struct exchange *exchange = replication->exchange;
    uint32_t keeper = replication_keeper(exchange, held->key_hash);
    struct exchange_link *link;

    if (held->state == HELD_TELLING) {
        held->changed = true;
        return;
    }
    if (list_is_linked(&held->place)) {
        list_remove(&held->place);
    }
    held->state = HELD_IDLE;
    held->told_link = 0;
    if (keeper == exchange_self(exchange)) {
        held->state = HELD_QUEUED;
        list_push_back(&replication->own, &held->place);
        return;
    }
    link = exchange_link_to(exchange, keeper, held->hash);
    if (link != NULL) {
        held->state = HELD_QUEUED;
        list_push_back(&link->replicas->queue, &held->place);
    }
}

/* This node leaves, and is not known to leave it to others. */
static bool is_unsafe(const struct held *held)
{
    return held->leave == LEAVE_WAITS || held->leave == LEAVE_STUCK;
}

/* Whether its keeper knows, by the link that is up. Not for ever: for a moment it may have taken
 * another for the keeper, of which nothing was seen here, and have forgotten. */
static bool is_known(const struct replication *replication, const struct held *held)
{
    struct exchange *exchange = replication->exchange;
    uint32_t keeper = replication_keeper(exchange, held->key_hash);
    const struct exchange_link *link;

    if (held->told_link == 0 || held->told_rank != keeper ||
        exchange->now_us >= clock_deadline_us(held->told_us, is_unsafe(held)
                                                                 ? LEAVE_AGAIN_US / 2
                                                                 : REPLICAS_REFRESH_US / 2)) {
        return false;
    }
    if (keeper == exchange_self(exchange)) {
        return true;
    }
    link = exchange_link_to(exchange, keeper, held->hash);
    return link != NULL && link->replicas->serial == held->told_link;
}

void replication_sweep(struct replication *replication)
{
    if (replication->sweep_at == UINT32_MAX) {
        replication->sweep_at = 0;
    }
    replication->sweep_again = replication->sweep_at > 0;
}

static void sweep_in(struct replication *replication, uint64_t after_us)
{
    replication->sweep_us =
        min_u64(replication->sweep_us, clock_deadline_us(replication->exchange->now_us, after_us));
}

static void pass(struct replication *replication, struct held *held)
{
    if (!held->used || held->state == HELD_TELLING || is_known(replication, held)) {
        return;
    }
    if (held->told_rank != replication_keeper(replication->exchange, held->key_hash)) {
        leave_doubt(replication, held);
    }
    if (held->gone && held->told_link == 0 &&
        replication_keeper(replication->exchange, held->key_hash) != held->told_rank) {
        replication_forget(replication, held); /* a new keeper never heard of it */
        return;
    }
    replication_tell(replication, held);
}

static bool go_on_sweeping(struct replication *replication, uint64_t now_us)
{
    uint32_t end;

    if (now_us >= replication->sweep_us) {
        replication->sweep_us = UINT64_MAX;
        replication_sweep(replication);
    }
    if (replication->sweep_at == UINT32_MAX) {
        return false;
    }
    end = min_u32(replication->sweep_at + REPLICAS_SWEEP, replication->held_used);
    for (; replication->sweep_at < end; replication->sweep_at++) {
        pass(replication, &replication->held[replication->sweep_at]);
    }
    if (replication->sweep_at < replication->held_used) {
        return true;
    }
    replication->sweep_at = replication->sweep_again ? 0 : UINT32_MAX;
    if (replication->held_used > 0) {
        sweep_in(replication, REPLICAS_REFRESH_US);
    }
    if (!replication->sweep_again) {
        LIST_FOREACH(node, &replication->exchange->live)
        {
            container_of(node, struct exchange_link, place)->replicas->listed = true;
        }
    }
    replication->sweep_again = false;
    return true;
}

/* ---- telling -------------------------------------------------------------- */

static struct wire_replica record_of(const struct held *held)
{
    return (struct wire_replica){.key = held->key,
                                 .object = held->object,
                                 .wanted = held->wanted,
                                 .flags = (held->gone ? WIRE_REPLICA_GONE : 0) |
                                          (list_empty(&held->waits) ? 0 : WIRE_REPLICA_WAITS) |
                                          (held->leave == LEAVE_NONE ? 0 : WIRE_REPLICA_LEAVES)};
}

void replication_counted(struct replication *replication, struct held *held,
                         const struct replica_count *count)
{
    held->count = count->held;
    leave_count(replication, held, count);
    if (count->held >= held->wanted) {
        end_waits(replication, held, NIGH_OK);
    } else if (count->is_short != 0) {
        end_waits(replication, held, NIGH_TOO_FEW);
    }
}

/* One node is to hold it, which is this one, and it was not handed over: its keeper forgets it,
 * too. */
static bool needs_no_account(const struct held *held)
{
    return !held->gone && held->wanted == 1 && !held->is_given && held->leave == LEAVE_NONE;
}

/* What a keeper says to one record. */
static void answered(struct replication *replication, struct held *held, uint32_t rank,
                     uint64_t serial, const struct wire_replica_state *state)
{
    struct replica_count count = {.wanted = state->wanted,
                                  .held = state->held,
                                  .is_short = (state->flags & WIRE_COUNT_SHORT) != 0,
                                  .leaves = (state->flags & WIRE_COUNT_LEAVES) != 0,
                                  .why = (nigh_status)state->why};

    held->state = HELD_IDLE;
    if (held->gone && (held->changed || state->status == NIGH_OK)) {
        /* Either it was told that this is gone, or it hears nothing of it but what was. */
        if (!held->changed) {
            replication_forget(replication, held);
            return;
        }
    }
    if (state->status == NIGH_OK) {
        held->told_rank = rank;
        held->told_link = serial;
        held->told_us = replication->exchange->now_us;
        if (!held->gone) {
            replication_counted(replication, held, &count);
        }
        if (!held->changed && needs_no_account(held)) {
            replication_forget(replication, held);
            return;
        }
    } else {
        held->told_link = 0;
        leave_untold(replication, held, state->status);
        if (state->status == NIGH_LIMIT) {
            end_waits(replication, held, NIGH_LIMIT);
        }
        sweep_in(replication,
                 state->status == NIGH_BUSY ? REPLICAS_AGAIN_US : 5 * REPLICAS_AGAIN_US);
    }
    if (held->changed) {
        held->changed = false;
        replication_tell(replication, held);
    }
}

static void on_told(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                    uint64_t now_us)
{
    struct exchange_link *link = context;
    struct held_teller *teller = link->replicas;
    struct replication *replication = link->exchange->replication;
    uint32_t count = teller->count;
    bool whole = status == NIGH_OK && bytes == count * sizeof(struct wire_replica_state);

    link->exchange->now_us = now_us;
    teller->count = 0;
    for (uint32_t n = 0; n < count; n++) {
        struct wire_replica_state state = {.status = NIGH_BUSY};

        if (whole) {
            memcpy(&state, payload + n * sizeof(state), sizeof(state));
        }
        answered(replication, teller->telling[n], link->rank, teller->serial, &state);
    }
    if (status == NIGH_OK && !whole) {
        link_break(link->link, NIGH_PROTOCOL, now_us);
    }
}

static bool tell_batch(struct exchange_link *link, uint64_t now_us)
{
    struct held_teller *teller = link->replicas;
    struct wire_replica records[REPLICAS_BATCH];
    uint32_t most = min_u32(REPLICAS_BATCH,
                            link->exchange->config.payload_bytes / (uint32_t)sizeof(records[0]));
    struct rpc_piece piece = {.data = records};
    uint32_t count = 0;

    LIST_FOREACH(node, &teller->queue)
    {
        if (count == most) {
            break;
        }
        records[count] = record_of(container_of(node, struct held, place));
        teller->telling[count++] = container_of(node, struct held, place);
    }
    piece.bytes = count * (uint32_t)sizeof(records[0]);
    if (rpc_call(link_rpc(link->link), WIRE_REPLICAS, &piece, 1,
                 clock_deadline_us(now_us, EXCHANGE_CALL_US), now_us, on_told, link,
                 NULL) != NIGH_OK) {
        return false; /* the channel is full: in a later turn */
    }
    teller->count = count;
    for (uint32_t n = 0; n < count; n++) {
        list_remove(&teller->telling[n]->place);
        teller->telling[n]->state = HELD_TELLING;
    }
    return true;
}

static bool tell_link(struct exchange_link *link, uint64_t now_us)
{
    struct held_teller *teller = link->replicas;

    if (teller->count > 0) {
        return false;
    }
    if (!list_empty(&teller->queue)) {
        return tell_batch(link, now_us);
    }
    if (teller->listed && !teller->said) {
        teller->said =
            rpc_one_way(link_rpc(link->link), WIRE_REPLICAS_TOLD, NULL, 0, now_us) == NIGH_OK;
        return teller->said;
    }
    return false;
}

static bool tell_own(struct exchange *exchange, uint64_t now_us)
{
    struct replication *replication = exchange->replication;
    uint32_t told = 0;

    for (; told < REPLICAS_BATCH && !list_empty(&replication->own); told++) {
        struct held *held = container_of(list_pop_front(&replication->own), struct held, place);
        struct wire_replica record = record_of(held);
        struct wire_replica_state state =
            keeper_told(exchange, exchange_self(exchange), &record, now_us);

        answered(replication, held, exchange_self(exchange), REPLICAS_OWN_SERIAL, &state);
    }
    return told > 0;
}

/* ---- what is held --------------------------------------------------------- */

struct held *replication_hold(struct exchange *exchange, const struct store_sight *sight)
{
    struct replication *replication = exchange->replication;
    struct directory_object object = {.birth = sight->birth,
                                      .data_size = sight->data_size,
                                      .meta_size = sight->meta_size,
                                      .name_size = sight->name_size};
    struct directory_key key;
    uint64_t key_hash;
    uint32_t home;
    struct held *held;

    exchange_key(exchange, sight->pool, sight->id, &key, &key_hash, &home);
    held = replication_find(replication, &key);
    held = held != NULL ? held : add(replication, sight);
    if (held == NULL) {
        return NULL;
    }
    set_copy(replication, held, false);
    if (held->gone || !birth_equal(&held->object.birth, &object.birth)) {
        end_waits(replication, held, NIGH_NOT_FOUND); /* for the birth before */
        leave_forget(replication, held);
        held->count = 0;
    }
    held->gone = false;
    held->object = object;
    held->wanted = max_u32(sight->replicas, 1);
    held->is_given = sight->is_given;
    set_copy(replication, held, sight->is_copy && !sight->is_given && sight->replicas > 0);
    replication_tell(replication, held);
    return held;
}

void replication_sealed(struct exchange *exchange, const struct store_sight *sight)
{
    leave_sealed(exchange, sight);
}

void replication_gone(struct exchange *exchange, uint32_t pool, const uint8_t *id,
                      const struct birth *birth)
{
    struct replication *replication = exchange->replication;
    struct directory_key key;
    uint64_t key_hash;
    uint32_t home;
    struct held *held;

    if (!exchange->pools[pool].used) {
        return;
    }
    exchange_key(exchange, pool, id, &key, &key_hash, &home);
    held = replication_find(replication, &key);
    if (held == NULL || held->gone || !birth_equal(&held->object.birth, birth)) {
        return;
    }
    end_waits(replication, held, NIGH_NOT_FOUND);
    set_copy(replication, held, false);
    leave_forget(replication, held);
    held->gone = true;
    replication_tell(replication, held);
}

/* A pool that a former node may have left replicas in: its own objects know how many are wanted. */
void replication_pool_add(struct exchange *exchange, uint32_t pool)
{
    exchange->replication->walk_pools |= UINT64_C(1) << pool;
    exchange->replication->walk_cursor = 0;
}

static bool walk_pools(struct exchange *exchange)
{
    struct replication *replication = exchange->replication;
    struct store_sight sight;
    uint32_t pool;

    if (replication->walk_pools == 0) {
        return false;
    }
    pool = (uint32_t)__builtin_ctzll(replication->walk_pools);
    if (!store_next(exchange->config.store, pool, &replication->walk_cursor, &sight)) {
        replication->walk_pools &= replication->walk_pools - 1;
        replication->walk_cursor = 0;
    } else if (sight.entry != UINT32_MAX && sight.replicas > 0 && !sight.is_claim) {
        (void)replication_hold(exchange, &sight);
    }
    return true;
}

/* ---- clients -------------------------------------------------------------- */

static void wait_again(struct replication *replication, struct replica_wait *wait, uint64_t now_us)
{
    uint64_t at_us = min_u64(wait->deadline_us, clock_deadline_us(now_us, REPLICAS_POLL_US));
    nigh_status status = timers_add(&replication->timers, &wait->timer, at_us);

    NIGH_ASSERT(status == NIGH_OK); /* there is one for each */
}

static nigh_status add_wait(struct replication *replication, struct held *held,
                            const struct exchange_copies *asked, uint64_t now_us)
{
    struct replica_wait *wait =
        replication->waits == LIMIT_REPLICA_WAITS ? NULL : calloc(1, sizeof(*wait));

    if (wait == NULL) {
        return NIGH_LIMIT;
    }
    wait->held = held;
    wait->deadline_us = asked->deadline_us;
    wait->done = asked->done;
    wait->context = asked->context;
    wait->token = asked->token;
    list_push_back(&held->waits, &wait->place);
    replication->waits++;
    wait_again(replication, wait, now_us);
    return NIGH_PENDING;
}

nigh_status exchange_replicate(struct exchange *exchange, uint32_t pool, const uint8_t *id,
                               const struct exchange_copies *asked, uint64_t now_us)
{
    struct replication *replication = exchange->replication;
    struct store_sight sight;
    struct held *held;
    nigh_status status;

    exchange->now_us = now_us;
    if (pool >= LIMIT_POOLS || !exchange->pools[pool].used) {
        return NIGH_NOT_FOUND;
    }
    status = store_replicate(exchange->config.store, pool, id, hash_id20(id), NULL, asked->wanted,
                             now_us, &sight);
    if (status != NIGH_OK) {
        return status;
    }
    held = replication_hold(exchange, &sight);
    if (held == NULL) {
        store_unreplicate(exchange->config.store, pool, id, sight.hash, &sight.birth, now_us);
        return NIGH_LIMIT;
    }
    held->count = max_u32(held->count, 1);
    return add_wait(replication, held, asked, now_us);
}

static bool expire_waits(struct replication *replication, uint64_t now_us)
{
    bool any = false;

    for (uint32_t n = 0; n < LIMIT_TURN_TIMERS; n++) {
        struct timer *timer = timers_pop_expired(&replication->timers, now_us);
        struct replica_wait *wait;

        if (timer == NULL) {
            break;
        }
        any = true;
        wait = container_of(timer, struct replica_wait, timer);
        if (now_us >= wait->deadline_us) {
            end_wait(replication, wait, NIGH_TIMEOUT);
            continue;
        }
        wait_again(replication, wait, now_us);
        if (wait->held->state == HELD_IDLE) {
            replication_tell(replication, wait->held);
        }
    }
    return any;
}

/* ---- links ---------------------------------------------------------------- */

struct held_teller *replication_make_teller(void)
{
    return calloc(1, sizeof(struct held_teller));
}

void replication_link_up(struct exchange_link *link)
{
    struct replication *replication = link->exchange->replication;

    link->replicas->serial = ++replication->last_serial;
    list_init(&link->replicas->queue);
    replicas_member_up(replication->keeper, link->rank, link->shards);
    replication_sweep(replication);
}

void replication_link_down(struct exchange_link *link)
{
    struct list_node *node;

    NIGH_ASSERT(link->replicas->count == 0); /* its calls have ended */
    while ((node = list_pop_front(&link->replicas->queue)) != NULL) {
        container_of(node, struct held, place)->state = HELD_IDLE;
    }
    free(link->replicas);
    link->replicas = NULL;
}

void replication_moved(struct exchange *exchange)
{
    replicas_moved(exchange->replication->keeper, exchange->now_us);
    replication_sweep(exchange->replication);
}

void replication_member_dead(struct exchange *exchange, uint32_t rank)
{
    replicas_member_dead(exchange->replication->keeper, rank, exchange->now_us);
    leave_member_dead(exchange);
    replication_sweep(exchange->replication);
}

/* ---- turns ---------------------------------------------------------------- */

bool replication_turn(struct exchange *exchange, uint64_t now_us)
{
    struct replication *replication = exchange->replication;
    bool worked = walk_pools(exchange);

    worked = make_turn(exchange, now_us) || worked;
    worked = leave_turn(exchange, now_us) || worked;
    worked = go_on_sweeping(replication, now_us) || worked;
    worked = tell_own(exchange, now_us) || worked;
    worked = replicas_turn(replication->keeper, now_us) || worked;
    LIST_FOREACH(node, &exchange->live)
    {
        worked = tell_link(container_of(node, struct exchange_link, place), now_us) || worked;
    }
    return expire_waits(replication, now_us) || worked;
}

/* What waits for a place in a channel looks again soon. */
static bool is_telling_due(const struct exchange *exchange)
{
    LIST_FOREACH(node, &exchange->live)
    {
        const struct held_teller *teller =
            container_of(node, struct exchange_link, place)->replicas;

        if (teller->count == 0 &&
            (!list_empty(&teller->queue) || (teller->listed && !teller->said))) {
            return true;
        }
    }
    return false;
}

uint64_t replication_due_us(const struct exchange *exchange)
{
    const struct replication *replication = exchange->replication;
    uint64_t due_us = timers_first_deadline(&replication->timers);

    if (replication->walk_pools != 0 || replication->sweep_at != UINT32_MAX ||
        !list_empty(&replication->own)) {
        return 0;
    }
    if (is_telling_due(exchange)) {
        due_us = min_u64(due_us, clock_deadline_us(exchange->now_us, EXCHANGE_PAUSE_US));
    }
    due_us = min_u64(due_us, replication->sweep_us);
    due_us = min_u64(due_us, make_due_us(replication));
    due_us = min_u64(due_us, leave_due_us(replication));
    return min_u64(due_us, replicas_due_us(replication->keeper));
}

/* ---- create, destroy ------------------------------------------------------ */

nigh_status replication_init(struct exchange *exchange)
{
    struct replication *replication = calloc(1, sizeof(*replication));
    nigh_status status;

    exchange->replication = replication;
    if (replication == NULL) {
        return NIGH_NO_RESOURCES;
    }
    replication->exchange = exchange;
    replication->last_serial = REPLICAS_OWN_SERIAL;
    replication->sweep_at = UINT32_MAX;
    replication->sweep_us = UINT64_MAX;
    replication->held_max = min_u32(LIMIT_REPLICA_KEYS, exchange->config.max_keys);
    replication->held = calloc(replication->held_max, sizeof(*replication->held));
    replication->buckets = calloc(REPLICAS_BUCKETS, sizeof(*replication->buckets));
    replication->timer_storage = calloc(LIMIT_REPLICA_WAITS, sizeof(*replication->timer_storage));
    if (replication->held == NULL || replication->buckets == NULL ||
        replication->timer_storage == NULL) {
        return NIGH_NO_RESOURCES;
    }
    list_init(&replication->free_held);
    list_init(&replication->own);
    for (uint32_t n = 0; n < REPLICAS_BUCKETS; n++) {
        list_init(&replication->buckets[n]);
    }
    timers_init(&replication->timers, replication->timer_storage, LIMIT_REPLICA_WAITS);
    status = make_init(replication);
    return status == NIGH_OK ? keeper_init(replication) : status;
}

void replication_fini(struct exchange *exchange)
{
    struct replication *replication = exchange->replication;

    if (replication == NULL) {
        return;
    }
    for (uint32_t n = 0; n < replication->held_used; n++) {
        struct list_node *node;

        while (replication->held[n].used &&
               (node = list_pop_front(&replication->held[n].waits)) != NULL) {
            free(container_of(node, struct replica_wait, place));
        }
    }
    replicas_destroy(replication->keeper);
    free(replication->held);
    free(replication->buckets);
    free(replication->timer_storage);
    free(replication->making);
    free(replication);
}

bool replication_is_idle(const struct exchange *exchange)
{
    const struct replication *replication = exchange->replication;

    return replication->walk_pools == 0 && replication->sweep_at == UINT32_MAX &&
           list_empty(&replication->own) && replication->making_count == 0 &&
           !is_telling_due(exchange);
}

void replication_stats(const struct exchange *exchange, struct exchange_stats *stats)
{
    const struct replication *replication = exchange->replication;

    replicas_stats(replication->keeper, &stats->replicas);
    stats->replicas_made = replication->made;
    stats->replica_bytes = replication->copy_bytes;
}

bool replication_is_valid(const struct exchange *exchange)
{
    const struct replication *replication = exchange->replication;
    uint64_t copy_bytes = 0, making_bytes = 0;
    uint32_t making = 0;

    for (uint32_t n = 0; n < replication->held_used; n++) {
        const struct held *held = &replication->held[n];

        if (held->used && replication_find(replication, &held->key) != held) {
            return false;
        }
        copy_bytes += held->used && held->is_copy ? bytes_of(&held->object) : 0;
    }
    for (uint32_t n = 0; n < LIMIT_REPLICA_MAKING; n++) {
        making += replication->making[n].used ? 1 : 0;
        making_bytes += replication->making[n].used ? replication->making[n].bytes : 0;
    }
    return copy_bytes == replication->copy_bytes && making == replication->making_count &&
           making_bytes == replication->making_bytes + replication->given_bytes &&
           share_is_valid(&replication->making_shares) && leave_is_valid(replication) &&
           replicas_is_valid(replication->keeper);
}
