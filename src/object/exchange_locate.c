/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a pull finds out who holds what it is to bring: from the home of its key, which is another
 * node or this one, or from a directory outside. A home that holds a small object sends it at once.
 */
#include <string.h>

#include "base/check.h"
#include "object/crossover.h"
#include "object/exchange_figures.h"
#include "object/exchange_home.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_messages.h"
#include "object/exchange_outside.h"
#include "object/exchange_pull.h"
#include "object/exchange_replication.h"
#include "object/exchange_transfer.h"
#include "object/exchange_tree.h"
#include "object/exchange_wire.h"

/* Where it is, or that the home will tell. */
static void located(struct exchange *exchange, struct pull *pull,
                    const struct directory_answer *answer)
{
    if (answer->state == DIRECTORY_KNOWN && answer->holder_count > 0) {
        pull->known = true;
        pull->answer = *answer;
        pull->tried = 0;
        pull->sent = false;
        pull_ready(exchange, pull);
        return;
    }
    pull->asked_us = pull->crossover = 0; /* what it waits for is no transfer */
    if (pull->asked_home != pull->home) {
        pull_ready(exchange, pull); /* the home moved meanwhile: it asks the new one */
        return;
    }
    pull_rest(exchange, pull, PULL_WAITING, EXCHANGE_ASK_US);
}

void pull_found(struct exchange *exchange, uint32_t from, const struct directory_key *key,
                const struct directory_answer *answer)
{
    struct pull *pull = pull_of_key(exchange, key);

    if (pull != NULL && pull->home == from &&
        (pull->state == PULL_WAITING || pull->state == PULL_PAUSED) && !pull->known) {
        located(exchange, pull, answer);
    }
}

static void take_located(struct exchange *exchange, struct pull *pull, nigh_status status,
                         const uint8_t *payload, uint32_t bytes, uint64_t now_us)
{
    struct wire_located answer;
    struct directory_answer where;
    uint32_t state;

    if (status != NIGH_OK || bytes < sizeof(state)) {
        messages_unspent(pull, status, now_us);
        pull_pause(exchange, pull);
        return;
    }
    memcpy(&state, payload, sizeof(state));
    if (state == WIRE_PULLED) {
        transfer_pulled(exchange, pull, payload, bytes, now_us);
        return;
    }
    messages_unspent(pull, status, now_us);
    if (bytes != sizeof(answer)) {
        link_break(pull->link->link, NIGH_PROTOCOL, now_us);
        pull_pause(exchange, pull);
        return;
    }
    memcpy(&answer, payload, sizeof(answer));
    where = wire_to_answer(&answer);
    located(exchange, pull, &where);
}

static void on_located(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                       uint64_t now_us)
{
    struct pull *pull = context;
    struct exchange *exchange = pull->exchange;
    struct exchange_link *link = pull->link;
    bool held = pull->held > 0;

    NIGH_ASSERT(pull->state == PULL_LOCATING);
    exchange->now_us = now_us;
    take_located(exchange, pull, status, payload, bytes, now_us);
    if (held) {
        messages_take_held(link, now_us);
    }
}

static void locate_remote(struct exchange *exchange, struct pull *pull)
{
    struct exchange_link *link = exchange_link_to(exchange, pull->home, pull->hash);
    struct wire_locate locate = {
        .key = pull->key,
        .wait = pull->keep ? WIRE_WAIT_TELL : WIRE_WAIT_PASS,
        .tag = pull_tag(exchange, pull),
    };
    struct wire_window windows[WIRE_WINDOWS];
    struct rpc_piece pieces[2] = {{.data = &locate, .bytes = sizeof(locate)}, {.data = windows}};

    pull->asked_home = pull->home;
    if (link == NULL || !link->in_view) {
        pull_pause(exchange, pull);
        return;
    }
    pull->pushes = false;
    /* What is held here perhaps need not be sent. */
    locate.only = store_has_transient(exchange->config.store, pull->pool, pull->key.id, pull->hash);
    /* Nor what others read here so far, or begin to meanwhile, and would have written to again. */
    locate.only = locate.only != 0 || tree_is_lendable(exchange, pull) ? 1 : 0;
    if (locate.only == 0) {
        locate.crossover_bytes = exchange_crossover(exchange, link, true);
        if (locate.crossover_bytes > exchange->inline_bytes) {
            messages_offer(link, pull, windows);
        }
    }
    locate.credits = pull->credits;
    if (pull->pushes) {
        locate.way = WIRE_PUSH;
        pieces[1].bytes = locate.credits * (uint32_t)sizeof(*windows);
    }
    if (rpc_call(link_rpc(link->link), WIRE_LOCATE, pieces, 2, exchange->now_us + EXCHANGE_CALL_US,
                 exchange->now_us, on_located, pull, NULL) != NIGH_OK) {
        messages_unoffer(link, pull);
        pull_pause(exchange, pull);
        return;
    }
    pull->doubted = false;
    pull->located = true;
    pull->asked_us = locate.only == 0 ? exchange->now_us : 0; /* that is no transfer */
    pull->crossover = locate.crossover_bytes;
    pull_set_link(pull, link, PULL_LOCATING);
}

/* Its waiters are told at their deadlines what is missing. */
static void note_outside(struct exchange *exchange, const struct pull *pull, nigh_status late)
{
    store_note_wanted(exchange->config.store, pull->pool, pull->key.id, pull->hash, late);
}

static void locate_outside(struct exchange *exchange, struct pull *pull)
{
    struct outside_ask ask = {.op = OUTSIDE_LOCATE,
                              .use = OUTSIDE_FOR_PULL,
                              .token = pull_tag(exchange, pull),
                              .flag = true,
                              .key = pull->key};

    pull->doubted = false;
    if (outside_ask(exchange, &ask)) {
        pull->asked_us = pull->crossover = 0;
        pull_rest(exchange, pull, PULL_WAITING, EXCHANGE_CALL_US);
        return;
    }
    pull_pause(exchange, pull);
    note_outside(exchange, pull, NIGH_PEER_LOST);
}

/* The directory outside has answered a LOCATE. */
void pull_told(struct exchange *exchange, const struct outside_news *news)
{
    struct pull *pull = pull_of_tag(exchange, news->token);

    if (pull == NULL || pull->state != PULL_WAITING || pull->known || !pull->wanted) {
        return;
    }
    if (news->status != NIGH_OK) {
        pull_pause(exchange, pull);
        note_outside(exchange, pull, NIGH_PEER_LOST);
        return;
    }
    note_outside(exchange, pull, NIGH_TIMEOUT);
    located(exchange, pull, &news->answer);
}

/* It has told that somebody has an object now: it is asked who. */
void pull_rouse(struct exchange *exchange, const struct directory_key *key)
{
    struct pull *pull = pull_of_key(exchange, key);

    if (pull != NULL && (pull->state == PULL_WAITING || pull->state == PULL_PAUSED) &&
        !pull->known) {
        pull_ready(exchange, pull);
    }
}

void pull_locate(struct exchange *exchange, struct pull *pull)
{
    struct directory_answer answer;

    if (exchange->outside.used) {
        locate_outside(exchange, pull);
        return;
    }
    pull->home = replication_home(exchange, pull->key_hash);
    if (pull->home != exchange_self(exchange)) {
        locate_remote(exchange, pull);
        return;
    }
    pull->asked_home = pull->home;
    if (replication_stands_in(exchange, &pull->key)) {
        (void)replication_locate(exchange, pull->home, &pull->key, &answer);
        located(exchange, pull, &answer);
        return;
    }
    if (!exchange->views.quorum || directory_locate(exchange->directory, exchange_self(exchange),
                                                    &pull->key, true, &answer) != NIGH_OK) {
        pull_pause(exchange, pull);
        return;
    }
    located(exchange, pull, &answer);
}
