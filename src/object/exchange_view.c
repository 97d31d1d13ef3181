/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Homes follow views (docs/directory.md). What a home of an earlier view was told it does not hand
 * over: members tell the new home, as they tell one that was restarted. So that no message of one
 * view is taken for another's, each side of a link tells the other which view it goes by, in order
 * with everything else, and homes are asked over it only while both go by the same.
 */
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "object/exchange_announce.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_pull.h"
#include "object/exchange_replication.h"
#include "object/exchange_view.h"
#include "object/exchange_wire.h"

#define LOG_MODULE "exchange"
#include "base/log.h"

void views_init(struct exchange *exchange)
{
    struct exchange_views *views = &exchange->views;

    views->in = agreed_all(exchange->config.members->listed);
    views->is_active = views->is_settled = true;
    views->quorum = !exchange->config.views;
    views->since[0] = views->in;
    views->count = 1;
    for (uint32_t shard = exchange->config.lane; shard < LIMIT_SHARDS;
         shard += exchange->config.lanes) {
        views->own_shards |= UINT64_C(1) << shard;
    }
}

/* ---- homes ---------------------------------------------------------------- */

uint32_t views_home(const struct exchange *exchange, uint64_t key_hash)
{
    if (exchange->outside.used) {
        return exchange_self(exchange); /* where its news begin (exchange_outside.c) */
    }
    return members_home_in(exchange->config.members, &exchange->views.in, key_hash);
}

static bool is_home_in(const struct exchange *exchange, const struct agreed_set *in,
                       uint64_t key_hash)
{
    return agreed_size(in) > 0 &&
           members_home_in(exchange->config.members, in, key_hash) == exchange_self(exchange);
}

/* Whether this node never stopped to be the home of a key since everybody was heard. */
static bool is_retained(const struct exchange *exchange, const struct directory_key *key)
{
    const struct exchange_views *views = &exchange->views;
    uint64_t key_hash = directory_key_hash(key);

    for (uint32_t n = 0; n < views->count; n++) {
        if (!is_home_in(exchange, &views->since[n], key_hash)) {
            return false;
        }
    }
    return views->count > 0;
}

bool views_is_early(const struct exchange *exchange, const struct directory_key *key)
{
    return !exchange->views.is_active && !is_retained(exchange, key);
}

bool views_untold(void *context, uint32_t from, const struct directory_key *key)
{
    const struct exchange *exchange = context;
    const struct exchange_views *views = &exchange->views;
    uint64_t shard = UINT64_C(1) << (hash_id20(key->id) >> 58);

    if (views->is_settled || is_retained(exchange, key)) {
        return false;
    }
    return ((from == UINT32_MAX ? views->told : views->announced[from]) & shard) == 0;
}

bool views_keeps(void *context, uint64_t epoch, const struct directory_key *key)
{
    const struct exchange *exchange = context;
    const struct exchange_views *views = &exchange->views;
    uint32_t place = epoch % EXCHANGE_VIEWS;

    return views->past[place].epoch == epoch &&
           is_home_in(exchange, &views->past[place].in, directory_key_hash(key));
}

/* ---- who has told --------------------------------------------------------- */

/* Everybody was heard in this view: what a later one leaves with this node it need not hear again.
 */
static void settle(struct exchange *exchange)
{
    struct exchange_views *views = &exchange->views;

    views->is_settled = true;
    views->since[0] = views->in;
    views->count = 1;
}

void views_find_told(struct exchange *exchange)
{
    struct exchange_views *views = &exchange->views;
    uint64_t before = views->told;

    if (views->is_settled || !views->is_active) {
        return;
    }
    views->told = views->own_shards;
    for (uint32_t rank = 0; rank < exchange->config.members->count; rank++) {
        /* Who is out holds what it holds, too. */
        if (rank == exchange_self(exchange) ||
            !directory_member_is_dead(exchange->directory, rank)) {
            views->told &= views->announced[rank];
        }
    }
    if (views->told == views->own_shards) {
        settle(exchange);
    }
    if (views->told != before) {
        directory_view(exchange->directory, 0);
    }
}

void views_announced(struct exchange *exchange, uint32_t rank, uint64_t shards)
{
    /* This node's own walk passes what is early by, and begins again when the view is active. */
    if (rank != exchange_self(exchange) || exchange->views.is_active) {
        exchange->views.announced[rank] |= shards;
        views_find_told(exchange);
    }
}

void views_refused_early(struct exchange_link *link)
{
    link->was_early = true;
    link->exchange->views.announced[link->rank] &= ~link->shards;
}

/* ---- links ---------------------------------------------------------------- */

/* Its peer is told all once more, and lets go what is not named. */
static void tell_all(struct exchange_link *link)
{
    link->announcer.lost = link->announcer.lost || link->is_introduced;
    announcer_walk(&link->announcer, true);
}

void views_meet(struct exchange_link *link)
{
    if (!link->is_met) {
        link->is_met = true;
        directory_member_up(link->exchange->directory, link->rank, link->shards);
        replication_moved(link->exchange); /* it may be a keeper again */
        views_find_told(link->exchange);
    }
}

/* Whether homes may be asked over it may have changed. */
static void look_at(struct exchange_link *link)
{
    struct exchange *exchange = link->exchange;
    const struct exchange_views *views = &exchange->views;
    bool in_view = views->quorum && !link->owes_view && link->epoch == views->epoch;
    bool was_in_view = link->in_view;

    link->in_view = in_view;
    if (was_in_view || !in_view) {
        return;
    }
    if (!exchange->outside.used && (views->is_active || !link->is_introduced ||
                                    link->announcer.walking || link->announcer.repeat)) {
        tell_all(link);
    }
    link->is_introduced = true;
    views_meet(link);
    pull_home_up(exchange, link->rank);
}

/* False: its channel has no room. */
static bool say_view(struct exchange_link *link)
{
    struct wire_view view = {.epoch = link->exchange->views.epoch};
    struct rpc_piece piece = {.data = &view, .bytes = sizeof(view)};

    if (!link->owes_view) {
        return true;
    }
    if (rpc_one_way(link_rpc(link->link), WIRE_VIEW, &piece, 1, link->exchange->now_us) !=
        NIGH_OK) {
        return false;
    }
    link->owes_view = false;
    return true;
}

void views_link_up(struct exchange_link *link)
{
    /* Who says nothing goes by no view: epoch 0. */
    link->owes_view = link->exchange->views.epoch != 0;
    (void)say_view(link);
    look_at(link);
}

void views_on_request(struct exchange_link *link, const struct rpc_request *request)
{
    struct wire_view view;

    if (request->bytes != sizeof(view)) {
        return;
    }
    memcpy(&view, request->payload, sizeof(view));
    if (view.epoch > link->epoch) {
        link->epoch = view.epoch;
        look_at(link);
    }
}

bool views_turn(struct exchange *exchange)
{
    bool any = false;

    LIST_FOREACH(node, &exchange->live)
    {
        struct exchange_link *link = container_of(node, struct exchange_link, place);

        if (link->owes_view && say_view(link)) {
            look_at(link);
            any = true;
        }
    }
    return any;
}

static void look_at_all(struct exchange *exchange)
{
    LIST_FOREACH(node, &exchange->live)
    {
        look_at(container_of(node, struct exchange_link, place));
    }
}

/* ---- views ---------------------------------------------------------------- */

/* What this node has to forget is remembered by epoch, and may not be forgotten itself before. */
static void remember(struct exchange *exchange, const struct agreed *agreed)
{
    struct exchange_views *views = &exchange->views;
    uint32_t place = agreed->epoch % EXCHANGE_VIEWS;

    if (views->past[place].epoch != 0) {
        while (directory_turn(exchange->directory)) {
        }
    }
    views->past[place].epoch = agreed->epoch;
    views->past[place].in = views->count > 0 ? agreed->in : (struct agreed_set){{0}};
}

static void activate(struct exchange *exchange)
{
    exchange->views.is_active = true;
    announcer_walk(&exchange->own, true);
    LIST_FOREACH(node, &exchange->live)
    {
        struct exchange_link *link = container_of(node, struct exchange_link, place);

        if (link->in_view) {
            tell_all(link);
        }
    }
    views_find_told(exchange);
}

void exchange_view(struct exchange *exchange, const struct agreed *agreed, uint64_t now_us)
{
    struct exchange_views *views = &exchange->views;
    bool is_active = agreed->active == agreed->epoch;

    exchange->now_us = now_us;
    if (agreed->epoch < views->epoch || (agreed->epoch == views->epoch && views->is_active)) {
        return;
    }
    if (agreed->epoch > views->epoch) {
        /* A view that was active, and was missed, may have had other homes. */
        if (views->epoch == 0 || views->epoch < agreed->active || views->count == EXCHANGE_VIEWS) {
            views->count = 0;
        } else if (views->count > 0) {
            views->since[views->count++] = agreed->in;
        }
        views->epoch = agreed->epoch;
        views->in = agreed->in;
        views->is_active = views->is_settled = false;
        views->told = 0;
        memset(views->announced, 0, sizeof(views->announced));
        remember(exchange, agreed);
        directory_view(exchange->directory, views->epoch);
        LIST_FOREACH(node, &exchange->live)
        {
            struct exchange_link *link = container_of(node, struct exchange_link, place);

            link->in_view = false;
            link->owes_view = true;
        }
        announce_homes_moved(exchange);
        pull_homes_moved(exchange);
        replication_moved(exchange);
    }
    if (is_active) {
        activate(exchange);
    }
    (void)views_turn(exchange);
}

void exchange_quorum(struct exchange *exchange, bool quorum, uint64_t now_us)
{
    exchange->now_us = now_us;
    if (exchange->views.quorum == quorum) {
        return;
    }
    exchange->views.quorum = quorum;
    look_at_all(exchange);
    if (quorum) {
        announcer_walk(&exchange->own, true);
        pull_home_up(exchange, exchange_self(exchange));
    }
}
