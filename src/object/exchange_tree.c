/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large objects that many pull at once. A holder that serves as many as it may sends the next to
 * those; and who pulls serves what it has so far: a partial loan, that its puller asks to go on
 * with. What is decided is in tree.c.
 *
 * Who serves so has not seen the sums agree. It passes none on before they do, and says so when
 * they do not: then what was read here is worth nothing. Memory that it lends stays where it is,
 * whatever becomes of its own pull (store_lend_pulled).
 */
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_messages.h"
#include "object/exchange_pull.h"
#include "object/exchange_serve.h"
#include "object/exchange_transfer.h"
#include "object/exchange_tree.h"
#include "object/exchange_wire.h"
#include "object/tree.h"

#define TREE_SEATS 256u /* of one object, at most: it can be lent no more often */

/* ---- children ------------------------------------------------------------- */

static bool is_large(const struct exchange *exchange, uint64_t bytes)
{
    return bytes >= exchange->config.tree_bytes;
}

/* Those that an entry is lent to, besides who asks. */
static uint32_t find_seats(struct exchange_link *asker, uint32_t pool, uint32_t entry,
                           struct serve **seats)
{
    uint32_t count = 0;

    LIST_FOREACH(node, serve_lent(asker->exchange, pool, entry))
    {
        struct serve *serve = container_of(node, struct serve, twin);

        if (serve->pool == pool && serve->entry == entry && serve->link != asker &&
            serve->cut == NIGH_OK && count < TREE_SEATS) {
            seats[count++] = serve;
        }
    }
    return count;
}

/* What an answer names first is asked first. */
static void send_on(struct exchange_link *asker, uint64_t call, struct serve *const *serves,
                    uint32_t count, const struct directory_object *object)
{
    struct wire_located located = {.state = WIRE_SENT_ON, .object = *object};
    struct rpc_piece piece = {.data = &located, .bytes = sizeof(located)};
    struct tree_seat seats[TREE_SEATS];

    for (uint32_t n = 0; n < count; n++) {
        seats[n] = (struct tree_seat){.rank = serves[n]->link->rank, .sent = serves[n]->guests};
    }
    tree_order(seats, count);
    located.holder_count = min_u32(count, DIRECTORY_HOLDERS);
    for (uint32_t n = 0; n < located.holder_count; n++) {
        located.holders[n] = seats[n].rank;
    }
    for (uint32_t n = 0; n < count; n++) {
        serves[n]->guests += serves[n]->link->rank == seats[0].rank ? 1 : 0;
    }
    asker->exchange->counts.sent_on++;
    rpc_reply(link_rpc(asker->link), call, NIGH_OK, &piece, 1);
}

bool tree_is_full(struct exchange_link *asker, const struct directory_key *key,
                  const struct directory_object *object)
{
    struct exchange *exchange = asker->exchange;
    struct serve *serves[TREE_SEATS];
    struct store_sight sight;
    uint32_t pool;

    return is_large(exchange, object->data_size) && exchange_pool_of(exchange, key, &pool) &&
           store_see(exchange->config.store, pool, key->id, hash_id20(key->id), &sight) &&
           find_seats(asker, pool, sight.entry, serves) >= exchange->config.fanout;
}

bool tree_send_on(struct exchange_link *asker, uint64_t call, const struct wire_pull *wanted,
                  const struct store_sight *sight, const struct directory_object *object)
{
    struct exchange *exchange = asker->exchange;
    struct serve *serves[TREE_SEATS];
    struct tree_holder holder = {.is_whole = true, .fanout = exchange->config.fanout};

    if (!is_large(exchange, object->data_size)) {
        return false;
    }
    holder.children = find_seats(asker, sight->pool, sight->entry, serves);
    if (tree_judge(&holder, wanted->tag, (wanted->flags & WIRE_PULL_ALONE) != 0) != TREE_SEND_ON) {
        return false;
    }
    send_on(asker, call, serves, holder.children, object);
    return true;
}

/* ---- loans of what is being pulled ---------------------------------------- */

static void park(struct exchange *exchange, struct serve *serve, uint64_t now_us)
{
    serve->parked_us = now_us;
    exchange->tree_us = min_u64(exchange->tree_us, now_us + LIMIT_TREE_WAIT_US);
    if (!list_is_linked(&serve->parked)) {
        list_push_back(&exchange->parked, &serve->parked);
    }
}

static void answer(struct serve *serve, uint64_t from)
{
    struct wire_pulled pulled = {
        .state = WIRE_PULLED,
        .way = WIRE_LOAN,
        .object = serve->object,
        .sums = serve->sums,
        .bytes = serve->content,
    };
    uint64_t call = serve->parked_call;

    serve->parked_call = 0;
    serve_reply_loan(serve, call, &pulled, from);
}

bool tree_is_lendable(const struct exchange *exchange, const struct pull *pull)
{
    return pull->has_memory && pull->received > 0 && is_large(exchange, pull->begun.data_size);
}

/* The pull of what a peer asks for, if others may be served from it. */
static struct pull *find_relay(struct exchange *exchange, const struct wire_pull *wanted)
{
    struct pull *pull = pull_of_key(exchange, &wanted->key);

    if (pull == NULL || !pull->has_memory || !pull->wanted || wanted->way != WIRE_LOAN ||
        (wanted->flags & WIRE_PULL_SENT) == 0 || exchange->config.path == EXCHANGE_REGISTER ||
        !birth_equal(&pull->begun.birth, &wanted->birth) ||
        !is_large(exchange, pull->begun.data_size)) {
        return NULL;
    }
    return pull;
}

static nigh_status begin(struct exchange_link *link, uint64_t call, const struct wire_pull *wanted,
                         struct pull *pull, uint64_t now_us)
{
    struct exchange *exchange = link->exchange;
    struct serve *serve;

    if (!store_lend_pulled(exchange->config.store, pull->pool, pull->entry)) {
        return NIGH_BUSY;
    }
    serve = serve_of_pulled(link, wanted, pull, now_us);
    if (serve == NULL) {
        store_lend_end(exchange->config.store, pull->pool, pull->entry);
        return NIGH_BUSY;
    }
    serve->relay = pull_tag(exchange, pull);
    serve->ready = pull->received;
    serve->parked_call = call;
    pull->children++;
    answer(serve, min_u64(wanted->tag, serve->ready));
    return NIGH_OK;
}

nigh_status tree_serve(struct exchange_link *link, uint64_t call, const struct wire_pull *wanted,
                       uint64_t now_us)
{
    struct exchange *exchange = link->exchange;
    struct pull *pull = find_relay(exchange, wanted);
    struct serve *serves[TREE_SEATS];
    struct tree_holder holder = {.fanout = exchange->config.fanout};

    if (pull == NULL) {
        return NIGH_NOT_FOUND;
    }
    if (wanted->tag > pull->content) {
        return NIGH_PROTOCOL;
    }
    holder.is_fed = pull->state == PULL_READING || pull->state == PULL_STREAMING;
    holder.has = pull->received;
    holder.children = find_seats(link, pull->pool, pull->entry, serves);
    switch (tree_judge(&holder, wanted->tag, (wanted->flags & WIRE_PULL_ALONE) != 0)) {
    case TREE_SERVE: return begin(link, call, wanted, pull, now_us);
    case TREE_SEND_ON: send_on(link, call, serves, holder.children, &pull->begun); return NIGH_OK;
    case TREE_NOT_YET: return NIGH_BUSY;
    case TREE_NOT_HERE: break;
    }
    return NIGH_NOT_FOUND;
}

nigh_status tree_extend(struct exchange_link *link, uint64_t call, const struct wire_pull *wanted,
                        uint64_t now_us)
{
    struct exchange *exchange = link->exchange;
    struct serve *serve = serve_of_number(link, wanted->serve);
    nigh_status cut;

    if (serve == NULL) {
        return NIGH_NOT_FOUND;
    }
    if (serve->way != WIRE_LOAN || wanted->way != WIRE_LOAN || wanted->tag > serve->content ||
        serve->parked_call != 0 || serve->done_call != 0 || serve->memory != NULL) {
        return NIGH_PROTOCOL;
    }
    serve->heard_us = now_us;
    if (serve->cut != NIGH_OK) {
        cut = serve->cut;
        serve_over(exchange, serve);
        return cut;
    }
    serve->parked_call = call;
    serve->from = wanted->tag;
    if (serve->relay != 0) {
        serve->ready = pull_of_tag(exchange, serve->relay)->received;
    }
    if (serve->from < serve->ready || serve->relay == 0) {
        answer(serve, serve->from);
    } else {
        park(exchange, serve, now_us);
    }
    return NIGH_OK;
}

void tree_park_done(struct serve *serve, uint64_t now_us)
{
    park(serve->exchange, serve, now_us);
}

void tree_serve_ended(struct exchange *exchange, struct serve *serve)
{
    if (list_is_linked(&serve->parked)) {
        list_remove(&serve->parked);
    }
    if (serve->parked_call != 0) {
        rpc_reply(link_rpc(serve->link->link), serve->parked_call, NIGH_NOT_FOUND, NULL, 0);
        serve->parked_call = 0;
    }
    if (serve->relay != 0) {
        pull_of_tag(exchange, serve->relay)->children--;
        serve->relay = 0;
    }
}

/* ---- what becomes of the pull --------------------------------------------- */

/* It has no children any more: they have a loan like others now, or one that is cut. */
static void part(struct exchange *exchange, struct pull *pull, nigh_status cut,
                 const struct wire_sums *sums)
{
    LIST_FOREACH(node, serve_lent(exchange, pull->pool, pull->entry))
    {
        struct serve *serve = container_of(node, struct serve, twin);

        if (serve->relay == pull_tag(exchange, pull)) {
            serve->relay = 0;
            serve->cut = cut;
            serve->ready = cut == NIGH_OK ? serve->content : serve->ready;
            serve->sums = sums == NULL ? serve->sums : *sums;
            pull->children--;
        }
    }
    NIGH_ASSERT(pull->children == 0);
    exchange->tree_us = 0;
}

void tree_cut(struct exchange *exchange, struct pull *pull, nigh_status why)
{
    if (pull->children > 0) {
        part(exchange, pull, why, NULL);
    }
}

void tree_whole(struct exchange *exchange, struct pull *pull)
{
    struct wire_sums sums = {.data_crc = pull->crc, .tail_crc = pull->sums.tail_crc, .known = 1};

    if (pull->children > 0) {
        part(exchange, pull, NIGH_OK, &sums);
    }
}

void tree_advanced(struct exchange *exchange, struct pull *pull)
{
    tree_fed(&pull->climb, exchange->now_us);
    if (pull->children > 0) {
        exchange->tree_us = 0;
    }
}

/* ---- turns ---------------------------------------------------------------- */

/* Answers what waited, if there is something to say. False: it waits on. */
static bool say(struct exchange *exchange, struct serve *serve, uint64_t now_us)
{
    if (serve->cut != NIGH_OK) {
        uint64_t call = serve->parked_call != 0 ? serve->parked_call : serve->done_call;

        serve->parked_call = serve->done_call = 0;
        rpc_reply(link_rpc(serve->link->link), call, serve->cut, NULL, 0);
        serve_over(exchange, serve);
        return true;
    }
    if (serve->relay != 0) {
        serve->ready = pull_of_tag(exchange, serve->relay)->received;
    }
    if (serve->done_call != 0) {
        if (serve->relay != 0) {
            return false;
        }
        serve_answer_done(exchange, serve);
        return true;
    }
    if (serve->relay != 0 && serve->from >= serve->ready &&
        now_us < serve->parked_us + LIMIT_TREE_WAIT_US) {
        return false;
    }
    list_remove(&serve->parked);
    answer(serve, min_u64(serve->from, serve->ready));
    return true;
}

bool tree_turn(struct exchange *exchange, uint64_t now_us)
{
    bool worked = false;

    if (now_us < exchange->tree_us) {
        return false;
    }
    exchange->tree_us = UINT64_MAX;
    LIST_FOREACH_SAFE(node, &exchange->parked)
    {
        struct serve *serve = container_of(node, struct serve, parked);

        if (say(exchange, serve, now_us)) {
            worked = true;
        } else if (serve->done_call == 0) {
            exchange->tree_us = min_u64(exchange->tree_us, serve->parked_us + LIMIT_TREE_WAIT_US);
        }
    }
    return worked;
}

/* ---- pulling -------------------------------------------------------------- */

void tree_sent_on(struct exchange *exchange, struct pull *pull, const uint8_t *payload,
                  uint32_t bytes, uint64_t now_us)
{
    struct wire_located located;

    messages_unspent(pull, NIGH_OK, now_us);
    if (bytes != sizeof(located)) {
        goto breach;
    }
    memcpy(&located, payload, sizeof(located));
    if (located.holder_count == 0 || located.holder_count > DIRECTORY_HOLDERS ||
        pull->climb.alone || pull->serve != 0) {
        goto breach;
    }
    if (!tree_sent(&pull->climb, now_us)) {
        pull_next_holder(exchange, pull);
        return;
    }
    if (!pull->sent) {
        pull->told = pull->answer;
    }
    /* Of the same birth, or of none: each that is asked looks at that. */
    pull->answer.holder_count = located.holder_count;
    memcpy(pull->answer.holders, located.holders, sizeof(located.holders));
    pull->tried = 0;
    pull->sent = true;
    pull->asked_us = pull->crossover = 0;
    pull_ready(exchange, pull);
    return;

breach:
    link_break(pull->link->link, NIGH_PROTOCOL, now_us);
    pull_next_holder(exchange, pull);
}

bool tree_back(struct exchange *exchange, struct pull *pull)
{
    if (!pull->sent) {
        return false;
    }
    tree_in_vain(&pull->climb);
    pull->answer.holder_count = pull->told.holder_count;
    memcpy(pull->answer.holders, pull->told.holders, sizeof(pull->told.holders));
    pull->tried = 0;
    pull->sent = false;
    pull_pause(exchange, pull);
    return true;
}

void tree_spoil(struct exchange *exchange, struct pull *pull)
{
    if (pull->children > 0) {
        tree_cut(exchange, pull, NIGH_CORRUPT);
        pull_drop_memory(exchange, pull); /* the store's, until nobody reads there */
    }
    pull->received = 0;
    pull->crc = 0;
    pull->mixed = false;
}

void tree_seat_lost(struct exchange *exchange, struct pull *pull, nigh_status status,
                    uint64_t now_us)
{
    if (status == NIGH_CORRUPT) {
        tree_spoil(exchange, pull);
    }
    if (status != NIGH_CORRUPT && status != NIGH_NOT_FOUND && !link_is_failing(pull->link->link)) {
        transfer_decline(pull->link, WIRE_DONE, pull->serve, now_us);
    }
    pull->serve = 0;
    pull_next_holder(exchange, pull);
}

void tree_go_on(struct exchange *exchange, struct pull *pull, uint64_t now_us)
{
    if (tree_is_tired(&pull->climb, now_us)) {
        tree_seat_lost(exchange, pull, NIGH_TIMEOUT, now_us);
    } else if (!transfer_ask_more(exchange, pull, now_us)) {
        transfer_later(exchange, pull);
    }
}
