/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletes that reach beyond this node: what a client here deleted is deleted at its home, which has
 * every holder drop it; and what other nodes' homes want dropped here.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "object/exchange_erase.h"
#include "object/exchange_figures.h"
#include "object/exchange_hear.h"
#include "object/exchange_home.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_outside.h"
#include "object/exchange_pull.h"
#include "object/exchange_view.h"
#include "object/exchange_wire.h"

nigh_status erases_init(struct exchange *exchange)
{
    list_init(&exchange->free_erases);
    list_init(&exchange->erases_ready);
    exchange->erases = calloc(LIMIT_ERASES, sizeof(*exchange->erases));
    exchange->erase_storage = calloc(LIMIT_ERASES, sizeof(*exchange->erase_storage));
    if (exchange->erases == NULL || exchange->erase_storage == NULL) {
        return NIGH_NO_RESOURCES;
    }
    timers_init(&exchange->erase_timers, exchange->erase_storage, LIMIT_ERASES);
    return NIGH_OK;
}

void erases_fini(struct exchange *exchange)
{
    free(exchange->erases);
    free(exchange->erase_storage);
}

static struct erase *take_erase(struct exchange *exchange)
{
    struct list_node *node = list_pop_front(&exchange->free_erases);

    if (node != NULL) {
        return container_of(node, struct erase, place);
    }
    return exchange->erases_used < LIMIT_ERASES ? &exchange->erases[exchange->erases_used++] : NULL;
}

uint32_t erase_room(void *context)
{
    const struct exchange *exchange = context;

    /* Alone there is nobody to ask: erase_begin says so. */
    return exchange->config.members->count == 1 ? UINT32_MAX : LIMIT_ERASES - exchange->erases_now;
}

/* Called by the store from inside a delete. */
bool erase_begin(void *context, uint32_t pool, const uint8_t *id, uint64_t hash, nigh_status local)
{
    struct exchange *exchange = context;
    uint64_t key_hash;
    struct erase *erase;
    uint32_t generation;

    if (!exchange->pools[pool].used || exchange->config.members->count == 1) {
        return false;
    }
    erase = take_erase(exchange);
    if (erase == NULL) {
        return false;
    }
    exchange->erases_now++;
    generation = erase->generation + 1;
    *erase = (struct erase){.exchange = exchange,
                            .generation = generation,
                            .state = ERASE_READY,
                            .pool = pool,
                            .hash = hash,
                            .had = local == NIGH_OK || local == NIGH_IN_USE};
    exchange_key(exchange, pool, id, &erase->key, &key_hash, &erase->home);
    list_push_back(&exchange->erases_ready, &erase->place);
    return true;
}

static void erase_end(struct exchange *exchange, struct erase *erase, nigh_status status,
                      uint64_t now_us)
{
    struct directory_key key = erase->key;
    uint32_t pool = erase->pool;
    uint64_t hash = erase->hash;

    timers_cancel(&exchange->erase_timers, &erase->timer);
    (void)hear_forget(&erase->unheard);
    erase->state = ERASE_FREE;
    exchange->erases_now--;
    list_push_front(&exchange->free_erases, &erase->place);
    store_erased(exchange->config.store, pool, key.id, hash, status, now_us);
}

/* The home cannot say yet: again in a while, until the deadline. */
static void erase_pause(struct exchange *exchange, struct erase *erase, nigh_status status,
                        uint64_t now_us)
{
    if (now_us >= erase->deadline_us) {
        erase_end(exchange, erase,
                  !exchange->views.quorum ? NIGH_NO_QUORUM
                  : status == NIGH_BUSY   ? NIGH_TIMEOUT
                                          : status,
                  now_us);
        return;
    }
    erase->state = ERASE_PAUSED;
    (void)timers_add(&exchange->erase_timers, &erase->timer, now_us + EXCHANGE_PAUSE_MAX);
}

/* How the home's answer ends a delete; or it waits on. */
static void erase_answered(struct exchange *exchange, struct erase *erase, nigh_status status,
                           uint64_t now_us)
{
    if (status == NIGH_OK || status == NIGH_IN_USE || status == NIGH_NOT_FOUND) {
        erase_end(exchange, erase, status, now_us);
    } else {
        /* Also where the link ended, for whatever reason: that says nothing of the delete. A home
         * without room may have it soon. */
        bool busy = status == NIGH_BUSY || status == NIGH_TIMEOUT || status == NIGH_LIMIT;

        erase_pause(exchange, erase, busy ? NIGH_BUSY : NIGH_PEER_LOST, now_us);
    }
}

/* There is a place among the calls of a link again. */
static void ask_next(struct exchange_link *link)
{
    struct list_node *node = list_pop_front(&link->crowded);

    if (node != NULL) {
        struct erase *erase = container_of(node, struct erase, place);

        timers_cancel(&link->exchange->erase_timers, &erase->timer);
        erase->state = ERASE_READY;
        list_push_back(&link->exchange->erases_ready, &erase->place);
    }
}

static void on_erased(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                      uint64_t now_us)
{
    struct erase *erase = context;

    (void)payload;
    (void)bytes;
    erase->link->erases--;
    ask_next(erase->link);
    erase_answered(erase->exchange, erase, status, now_us);
}

/* What was here is deleted; but while the home was asked in vain, a copy may have come. */
static bool is_gone(struct exchange *exchange, const struct erase *erase)
{
    struct store_sight sight;

    return !store_see(exchange->config.store, erase->pool, erase->key.id, erase->hash, &sight);
}

static struct wire_delete delete_of(struct exchange *exchange, const struct erase *erase)
{
    return (struct wire_delete){
        .key = erase->key, .gone = is_gone(exchange, erase) ? 1 : 0, .had = erase->had ? 1 : 0};
}

/* Waits for a place among the calls of a link, and in vain until the deadline. */
static void erase_crowded(struct exchange_link *link, struct erase *erase, uint64_t now_us)
{
    erase_pause(link->exchange, erase, NIGH_BUSY, now_us);
    if (erase->state == ERASE_PAUSED) {
        list_push_back(&link->crowded, &erase->place);
    }
}

static void erase_ask(struct exchange *exchange, struct erase *erase, uint64_t now_us)
{
    struct exchange_link *link = exchange_link_to(exchange, erase->home, erase->hash);
    struct wire_delete said = delete_of(exchange, erase);
    struct rpc_piece piece = {.data = &said, .bytes = sizeof(said)};

    if (link == NULL || !link->in_view) {
        erase_pause(exchange, erase, link == NULL ? NIGH_PEER_LOST : NIGH_BUSY, now_us);
        return;
    }
    if (link->erases + EXCHANGE_UNERASED >= exchange->config.calls) {
        erase_crowded(link, erase, now_us);
        return;
    }
    erase->state = ERASE_ASKED;
    erase->link = link;
    if (said.gone != 0) {
        pull_doubt(exchange, &erase->key);
    }
    if (rpc_call(link_rpc(link->link), WIRE_DELETE, &piece, 1, erase->deadline_us, now_us,
                 on_erased, erase, NULL) != NIGH_OK) {
        erase_pause(exchange, erase, NIGH_BUSY, now_us);
        return;
    }
    link->erases++;
}

void erase_link_down(struct exchange_link *link)
{
    while (!list_empty(&link->crowded)) {
        ask_next(link); /* they find it down */
    }
}

/* What the directory gives back with a delete's end: a delete that is over by then is another one.
 */
static uint64_t ticket_of(const struct exchange *exchange, const struct erase *erase)
{
    return (uint64_t)erase->generation << 16 | (uint64_t)(erase - exchange->erases);
}

_Static_assert(LIMIT_ERASES <= 1u << 16, "a ticket has room for the number");

/* The directory outside is asked. */
static void erase_outside(struct exchange *exchange, struct erase *erase, uint64_t now_us)
{
    struct outside_ask ask = {.op = OUTSIDE_DELETE,
                              .use = OUTSIDE_FOR_ERASE,
                              .token = ticket_of(exchange, erase),
                              .number = ticket_of(exchange, erase),
                              .flag = is_gone(exchange, erase),
                              .key = erase->key};

    if (ask.flag) {
        pull_doubt(exchange, &erase->key);
    }
    if (!outside_ask(exchange, &ask)) {
        timers_cancel(&exchange->erase_timers, &erase->timer);
        erase_pause(exchange, erase, NIGH_PEER_LOST, now_us);
    }
}

/* Its answer, or its word that all holders have dropped what was deleted. */
void erase_told(struct exchange *exchange, const struct outside_news *news)
{
    bool is_end = news->kind == OUTSIDE_DELETED;
    uint64_t ticket = is_end ? news->number : news->token;
    struct erase *erase = &exchange->erases[ticket & 0xffff];

    if ((ticket & 0xffff) >= LIMIT_ERASES || erase->state != ERASE_ASKED ||
        ticket_of(exchange, erase) != ticket || news->status == NIGH_PENDING) {
        return;
    }
    if (news->status == NIGH_NOT_FOUND && !erase->had && !erase->is_heard) {
        erase->is_heard = true; /* all members first */
        erase->unheard = (struct unheard){.key = erase->key, .ticket = ticket};
        list_push_back(&exchange->hearing.next, &erase->unheard.place);
        return;
    }
    timers_cancel(&exchange->erase_timers, &erase->timer);
    if (news->status == NIGH_NOT_FOUND && erase->is_unsure) {
        erase->is_heard = erase->is_unsure = false;
        erase_answered(exchange, erase, NIGH_BUSY, exchange->now_us);
        return;
    }
    erase_answered(exchange, erase, news->status, exchange->now_us);
}

/* Everybody was heard: it is asked once more. */
void erase_heard(struct exchange *exchange, uint64_t ticket, bool is_unsure, uint64_t now_us)
{
    struct erase *erase = &exchange->erases[ticket & 0xffff];

    erase->is_unsure = is_unsure;
    erase_outside(exchange, erase, now_us);
}

static void erase_step(struct exchange *exchange, struct erase *erase, uint64_t now_us)
{
    struct wire_delete said;
    nigh_status status;

    if (erase->deadline_us == 0) { /* where it began the time may be that of a turn long ago */
        erase->deadline_us = clock_deadline_us(now_us, EXCHANGE_ERASE_US);
    }
    erase->home = views_home(exchange, directory_key_hash(&erase->key)); /* it may have moved */
    if (!exchange->views.quorum) {
        erase_pause(exchange, erase, NIGH_BUSY, now_us);
        return;
    }
    if (erase->home != exchange_self(exchange)) {
        erase_ask(exchange, erase, now_us);
        return;
    }
    /* Holders that do not answer are not waited for longer than others' homes are. */
    erase->state = ERASE_ASKED;
    (void)timers_add(&exchange->erase_timers, &erase->timer, erase->deadline_us);
    if (exchange->outside.used) {
        erase->is_heard = erase->is_unsure = false;
        erase_outside(exchange, erase, now_us);
        return;
    }
    said = delete_of(exchange, erase);
    status = hear_delete(exchange, &erase->unheard, &said, exchange_self(exchange),
                         ticket_of(exchange, erase), now_us);
    if (status != NIGH_PENDING) {
        timers_cancel(&exchange->erase_timers, &erase->timer);
        erase_answered(exchange, erase, status, now_us);
    }
}

bool erase_turn(struct exchange *exchange, uint64_t now_us)
{
    struct timer *timer;
    struct list_node *node;
    bool worked = false;

    if (now_us < erase_due_us(exchange)) {
        return false;
    }
    while ((timer = timers_pop_expired(&exchange->erase_timers, now_us)) != NULL) {
        struct erase *erase = container_of(timer, struct erase, timer);

        if (erase->state == ERASE_ASKED) {
            erase_end(exchange, erase, NIGH_TIMEOUT, now_us);
            continue;
        }
        if (list_is_linked(&erase->place)) {
            list_remove(&erase->place); /* its link stays crowded */
        }
        erase->state = ERASE_READY;
        list_push_back(&exchange->erases_ready, &erase->place);
    }
    while ((node = list_pop_front(&exchange->erases_ready)) != NULL) {
        erase_step(exchange, container_of(node, struct erase, place), now_us);
        worked = true;
    }
    return worked;
}

uint64_t erase_due_us(const struct exchange *exchange)
{
    return list_empty(&exchange->erases_ready) ? timers_first_deadline(&exchange->erase_timers) : 0;
}

bool erases_are_idle(const struct exchange *exchange)
{
    return exchange->erases_now == 0;
}

/* The directory's last word on a delete. */
void erase_deleted(struct exchange *exchange, uint64_t ticket, nigh_status status)
{
    struct asked_delete *asked;

    if ((ticket & EXCHANGE_TICKET_PEER) == 0) {
        struct erase *erase = &exchange->erases[ticket & 0xffff];

        if (erase->state == ERASE_ASKED && ticket_of(exchange, erase) == ticket) {
            timers_cancel(&exchange->erase_timers, &erase->timer);
            erase_answered(exchange, erase, status, exchange->now_us);
        }
        return;
    }
    asked = &exchange->asked[ticket & ~EXCHANGE_TICKET_PEER];
    if (asked->link != NULL) {
        rpc_reply(link_rpc(asked->link->link), asked->call, status, NULL, 0);
        list_remove(&asked->place);
    }
    share_give(&exchange->asked_shares, asked->rank);
    list_push_front(&exchange->free_asked, &asked->place);
}

/* A home wants a birth dropped here. */
void erase_on_drop(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us)
{
    struct exchange *exchange = link->exchange;
    nigh_status status = NIGH_NOT_FOUND;
    struct wire_drop drop;
    uint32_t pool;

    if (request->call == 0) {
        return;
    }
    if (request->bytes != sizeof(drop)) {
        rpc_reply(link_rpc(link->link), request->call, NIGH_PROTOCOL, NULL, 0);
        return;
    }
    memcpy(&drop, request->payload, sizeof(drop));
    if (!link->in_view) {
        status = NIGH_BUSY; /* whoever is the home hears of what is held here, and says it */
    } else if (views_home(exchange, directory_key_hash(&drop.key)) != link->rank) {
        exchange->counts.claims_refused++; /* only its home says what is deleted */
        status = NIGH_DENIED;
    } else if (exchange_pool_of(exchange, &drop.key, &pool)) {
        status = store_drop(exchange->config.store, pool, drop.key.id, hash_id20(drop.key.id),
                            &drop.birth, false, now_us);
    }
    rpc_reply(link_rpc(link->link), request->call, status, NULL, 0);
}
