/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange of a lane whose directory is kept outside of the nodes (cluster/outside.h): it asks
 * and is answered later, in a turn. Every key counts as having its home here, so that all news go
 * through the lane's own announcer.
 *
 * While the directory is not reached nothing is noted: when it is, it is told everything.
 */
#include "base/check.h"
#include "base/hash.h"
#include "object/exchange_announce.h"
#include "object/exchange_erase.h"
#include "object/exchange_internal.h"
#include "object/exchange_outside.h"
#include "object/exchange_pull.h"

void outside_init(struct exchange *exchange)
{
    if (exchange->config.outside != NULL) {
        exchange->outside.with = *exchange->config.outside;
        exchange->outside.used = true;
    }
}

/* Members that are not dead, this node too. */
static uint32_t count_alive(const struct exchange *exchange)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < exchange->config.members->count; rank++) {
        count +=
            rank == exchange_self(exchange) || !directory_member_is_dead(exchange->directory, rank)
                ? 1
                : 0;
    }
    return count;
}

bool outside_is_up(const struct exchange *exchange)
{
    return exchange->outside.life != 0;
}

bool outside_ask(struct exchange *exchange, struct outside_ask *ask)
{
    struct outside_side *outside = &exchange->outside;

    if (outside->life == 0) {
        return false;
    }
    ask->life = outside->life;
    ask->round = outside->round;
    ask->alive = count_alive(exchange);
    return outside->with.ask(outside->with.context, exchange->config.lane, ask);
}

/* ---- members -------------------------------------------------------------- */

void outside_peer_up(struct exchange *exchange, const struct link_peer *peer)
{
    struct outside_side *outside = &exchange->outside;

    if (peer->rank >= LIMIT_NODES) {
        return;
    }
    /* A life before this one is over, whether its end was heard of or not. */
    if (outside->incarnations[peer->rank] != peer->incarnation && peer->incarnation > 0) {
        outside->graves[peer->rank] = peer->incarnation - 1;
    }
    outside->incarnations[peer->rank] = peer->incarnation;
}

void outside_peer_dead(struct exchange *exchange, uint32_t rank)
{
    struct outside_side *outside = &exchange->outside;

    /* Who was never heard of may be known there: all its lives. */
    outside->graves[rank] =
        outside->incarnations[rank] != 0 ? outside->incarnations[rank] : UINT32_MAX;
}

/* Tells what the dead had, one of them at a time, as much as one script may do. */
static bool sweep(struct exchange *exchange)
{
    struct outside_side *outside = &exchange->outside;

    if (outside->is_sweeping) {
        return false;
    }
    for (uint32_t rank = 0; rank < exchange->config.members->count; rank++) {
        struct outside_ask ask = {.op = OUTSIDE_DEAD,
                                  .use = OUTSIDE_FOR_SWEEP,
                                  .token = outside->graves[rank],
                                  .rank = rank,
                                  .number = outside->graves[rank]};

        if (outside->graves[rank] != 0) {
            outside->swept = rank;
            outside->is_sweeping = outside_ask(exchange, &ask);
            return outside->is_sweeping;
        }
    }
    return false;
}

static void swept(struct exchange *exchange, const struct outside_news *news)
{
    struct outside_side *outside = &exchange->outside;

    outside->is_sweeping = false;
    if (news->status != NIGH_BUSY && news->status != NIGH_PEER_LOST &&
        outside->graves[outside->swept] == news->token) {
        outside->graves[outside->swept] = 0;
    }
}

/* ---- what it says --------------------------------------------------------- */

static void drop(struct exchange *exchange, const struct outside_news *news)
{
    struct outside_ask said = {
        .op = OUTSIDE_DROPPED, .use = OUTSIDE_FOR_NOBODY, .key = news->key, .status = NIGH_OK};
    uint32_t pool;

    said.object.birth = news->birth;
    if (exchange_pool_of(exchange, &news->key, &pool)) {
        said.status = store_drop(exchange->config.store, pool, news->key.id,
                                 hash_id20(news->key.id), &news->birth, false, exchange->now_us);
    }
    exchange->outside.owes = !outside_ask(exchange, &said) || exchange->outside.owes;
}

static void told(struct exchange *exchange, const struct outside_news *news)
{
    struct outside_side *outside = &exchange->outside;

    NIGH_ASSERT(news->token < exchange->own.under_way);
    /* A question that it cannot answer is asked again later, as if there were no room. */
    outside->statuses[news->token] = news->status == NIGH_PROTOCOL ? NIGH_LIMIT : news->status;
    if (++outside->answers == exchange->own.under_way) {
        announce_outside_told(exchange, exchange->now_us);
    }
}

static void answered(struct exchange *exchange, const struct outside_news *news)
{
    bool is_late = news->round != exchange->outside.round;

    if (is_late && (news->use == OUTSIDE_FOR_NEWS || news->use == OUTSIDE_FOR_END ||
                    news->use == OUTSIDE_FOR_SWEEP)) {
        return; /* all of that has begun anew */
    }
    switch ((enum outside_use)news->use) {
    case OUTSIDE_FOR_NEWS: told(exchange, news); return;
    case OUTSIDE_FOR_END: announce_outside_ended(exchange, news); return;
    case OUTSIDE_FOR_PULL: pull_told(exchange, news); return;
    case OUTSIDE_FOR_WHERE: where_told(exchange, news); return;
    case OUTSIDE_FOR_ERASE: erase_told(exchange, news); return;
    case OUTSIDE_FOR_SWEEP: swept(exchange, news); return;
    case OUTSIDE_FOR_OWED:
        exchange->outside.owes = exchange->outside.owes || news->status == NIGH_BUSY;
        return;
    case OUTSIDE_FOR_NOBODY: return;
    }
}

static bool take_all(struct exchange *exchange)
{
    struct outside_side *outside = &exchange->outside;
    struct outside_news news;
    bool any = false;

    for (uint32_t n = 0; n < OUTSIDE_ASKS &&
                         outside->with.take(outside->with.context, exchange->config.lane, &news);
         n++) {
        any = true;
        switch (news.kind) {
        case OUTSIDE_ANSWER: answered(exchange, &news); break;
        case OUTSIDE_FOUND: pull_rouse(exchange, &news.key); break;
        case OUTSIDE_DROP: drop(exchange, &news); break;
        case OUTSIDE_DELETED: erase_told(exchange, &news); break;
        case OUTSIDE_MISSED: outside->owes = true; break;
        }
    }
    return any;
}

/* ---- its lives ------------------------------------------------------------ */

/* It is reached, or has lost what it knew: what is in it of the dead is swept, what is here is
 * told, and what it wants dropped is asked for. */
static void begin(struct exchange *exchange, uint32_t life)
{
    struct outside_side *outside = &exchange->outside;
    struct outside_ask ask = {.op = OUTSIDE_BEGIN, .use = OUTSIDE_FOR_NOBODY};

    outside->life = life;
    outside->round++;
    outside->is_ending = outside->is_sweeping = false;
    if (life == 0) {
        return;
    }
    if (!outside_ask(exchange, &ask)) {
        outside->life = 0; /* it is gone again */
        return;
    }
    outside->owes = true;
    for (uint32_t rank = 0; rank < exchange->config.members->count; rank++) {
        if (rank == exchange_self(exchange)) {
            outside->graves[rank] =
                exchange->config.incarnation > 0 ? exchange->config.incarnation - 1 : 0;
        } else if (directory_member_is_dead(exchange->directory, rank)) {
            outside_peer_dead(exchange, rank);
        }
    }
    announce_outside_begins(exchange);
    pull_home_up(exchange, exchange_self(exchange));
}

bool outside_turn(struct exchange *exchange)
{
    struct outside_side *outside = &exchange->outside;
    struct outside_ask owed = {.op = OUTSIDE_OWED, .use = OUTSIDE_FOR_OWED};
    uint32_t life;
    bool worked;

    if (!outside->used) {
        return false;
    }
    worked = take_all(exchange);
    life = outside->with.life(outside->with.context, exchange->config.lane);
    if (life != outside->life) {
        begin(exchange, life);
        worked = true;
    }
    if (outside->life == 0) {
        return worked;
    }
    if (outside->owes && outside_ask(exchange, &owed)) {
        outside->owes = false;
        worked = true;
    }
    return sweep(exchange) || worked;
}

uint64_t outside_due_us(const struct exchange *exchange)
{
    const struct outside_side *outside = &exchange->outside;

    if (!outside->used) {
        return UINT64_MAX;
    }
    return outside->with.has_news(outside->with.context, exchange->config.lane) ||
                   outside->with.life(outside->with.context, exchange->config.lane) != outside->life
               ? 0
               : UINT64_MAX;
}
