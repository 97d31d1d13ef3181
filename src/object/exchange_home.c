/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange as a home: the requests that its directory answers, and what the directory wants
 * said to others.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "object/crossover.h"
#include "object/exchange_erase.h"
#include "object/exchange_figures.h"
#include "object/exchange_hear.h"
#include "object/exchange_home.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_pull.h"
#include "object/exchange_replication.h"
#include "object/exchange_serve.h"
#include "object/exchange_tree.h"
#include "object/exchange_view.h"
#include "object/exchange_wire.h"

#define LOG_MODULE "exchange"
#include "base/log.h"

/* ---- locations on the wire ------------------------------------------------ */

struct wire_located wire_from_answer(const struct directory_answer *answer)
{
    struct wire_located located = {
        .state = answer->state, .holder_count = answer->holder_count, .object = answer->object};

    memcpy(located.holders, answer->holders, sizeof(located.holders));
    return located;
}

struct directory_answer wire_to_answer(const struct wire_located *located)
{
    struct directory_answer answer = {.state = (enum directory_state)located->state,
                                      .object = located->object};

    if (located->state > DIRECTORY_DELETED || located->holder_count > DIRECTORY_HOLDERS) {
        answer.state = DIRECTORY_ABSENT;
        return answer;
    }
    answer.holder_count = located->holder_count;
    memcpy(answer.holders, located->holders, sizeof(answer.holders));
    return answer;
}

/* ---- what the directory says ---------------------------------------------- */

static void say_found(void *context, uint32_t rank, const struct directory_key *key,
                      const struct directory_answer *answer)
{
    struct exchange *exchange = context;
    struct wire_found found = {.key = *key, .located = wire_from_answer(answer)};
    struct rpc_piece piece = {.data = &found, .bytes = sizeof(found)};
    struct exchange_link *link;

    if (rank == exchange_self(exchange)) {
        pull_found(exchange, rank, key, answer);
        return;
    }
    /* What cannot be said now is asked for again: when the link comes up, or in EXCHANGE_ASK_US. */
    link = exchange_link_to(exchange, rank, hash_id20(key->id));
    if (link != NULL) {
        (void)rpc_one_way(link_rpc(link->link), WIRE_FOUND, &piece, 1, exchange->now_us);
    }
}

static struct drop *take_drop(struct exchange *exchange, uint32_t rank)
{
    struct list_node *node;

    if (!share_take(&exchange->drop_shares, rank)) {
        return NULL;
    }
    node = list_pop_front(&exchange->free_drops);
    if (node != NULL) {
        return container_of(node, struct drop, place);
    }
    NIGH_ASSERT(exchange->drops_used < LIMIT_ERASES); /* the shares are all of them */
    return &exchange->drops[exchange->drops_used++];
}

static void give_drop(struct exchange *exchange, struct drop *drop)
{
    share_give(&exchange->drop_shares, drop->rank);
    list_push_front(&exchange->free_drops, &drop->place);
}

static void on_dropped(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                       uint64_t now_us)
{
    struct drop *drop = context;
    struct exchange *exchange = drop->exchange;

    (void)payload;
    (void)bytes;
    (void)now_us;
    /* A holder that cannot be asked is asked when it announces the birth again, or is dead. */
    if (status == NIGH_OK || status == NIGH_IN_USE || status == NIGH_NOT_FOUND) {
        directory_dropped(exchange->directory, drop->rank, &drop->key, &drop->birth, status);
    }
    give_drop(exchange, drop);
}

/* Tells a holder to drop a birth; false: there is no room in its channel. A link that is down need
 * not be told: what comes back with it is announced, and dropped then. */
static bool send_drop(struct exchange *exchange, struct drop *drop)
{
    struct wire_drop said = {.key = drop->key, .birth = drop->birth};
    struct rpc_piece piece = {.data = &said, .bytes = sizeof(said)};
    struct exchange_link *link = exchange_link_to(exchange, drop->rank, hash_id20(drop->key.id));
    nigh_status status = link == NULL
                             ? NIGH_PEER_LOST
                             : rpc_call(link_rpc(link->link), WIRE_DROP, &piece, 1, UINT64_MAX,
                                        exchange->now_us, on_dropped, drop, NULL);

    if (status != NIGH_OK) {
        give_drop(exchange, drop);
    }
    return status != NIGH_BUSY;
}

/* The directory asks again soon. */
static bool drop_later(struct exchange *exchange)
{
    if (!directory_owes(exchange->directory)) {
        exchange->drop_wait_us = EXCHANGE_PAUSE_US;
        exchange->drop_us = clock_deadline_us(exchange->now_us, EXCHANGE_PAUSE_US);
    }
    return false;
}

static bool say_drop(void *context, uint32_t rank, const struct directory_key *key,
                     const struct birth *birth)
{
    struct exchange *exchange = context;
    struct drop *drop = take_drop(exchange, rank);

    if (drop == NULL) {
        return drop_later(exchange);
    }
    *drop = (struct drop){.exchange = exchange, .rank = rank, .key = *key, .birth = *birth};
    if (rank == exchange_self(exchange)) {
        list_push_back(&exchange->local_drops, &drop->place);
        return true;
    }
    return send_drop(exchange, drop) || drop_later(exchange);
}

/* Drops for which there was no room: one look at each, rarer while none is taken. */
static bool say_owed_drops(struct exchange *exchange)
{
    bool taken;

    if (!directory_owes(exchange->directory) || exchange->now_us < exchange->drop_us) {
        return false;
    }
    taken = directory_tell_owed(exchange->directory, LIMIT_DIRECTORY_TURN);
    exchange->drop_wait_us =
        taken ? EXCHANGE_PAUSE_US : min_u64(2 * exchange->drop_wait_us, EXCHANGE_PAUSE_MAX);
    exchange->drop_us = clock_deadline_us(exchange->now_us, exchange->drop_wait_us);
    return taken;
}

static void say_deleted(void *context, uint64_t ticket, nigh_status status)
{
    erase_deleted(context, ticket, status);
}

bool home_turn(struct exchange *exchange, uint64_t now_us)
{
    struct list_node *node = list_pop_front(&exchange->local_drops);
    bool worked = say_owed_drops(exchange) || node != NULL;

    for (; node != NULL; node = list_pop_front(&exchange->local_drops)) {
        struct drop *drop = container_of(node, struct drop, place);
        struct directory_key key = drop->key;
        struct birth birth = drop->birth;
        nigh_status status = NIGH_NOT_FOUND;
        uint32_t pool;

        give_drop(exchange, drop);
        if (exchange_pool_of(exchange, &key, &pool)) {
            status = store_drop(exchange->config.store, pool, key.id, hash_id20(key.id), &birth,
                                false, now_us);
        }
        directory_dropped(exchange->directory, exchange_self(exchange), &key, &birth, status);
    }
    return worked;
}

/* ---- create, destroy ------------------------------------------------------ */

nigh_status home_init(struct exchange *exchange)
{
    struct directory_config config = {
        .nodes = exchange->config.members->count,
        .self = exchange_self(exchange),
        .max_keys = exchange->config.max_keys,
        .seed = exchange->config.seed,
        .shell = {.context = exchange,
                  .found = say_found,
                  .drop = say_drop,
                  .deleted = say_deleted,
                  .untold = views_untold,
                  .keeps = views_keeps},
    };

    list_init(&exchange->free_drops);
    list_init(&exchange->local_drops);
    hearing_init(&exchange->hearing);
    share_init(&exchange->drop_shares, LIMIT_ERASES, exchange->config.members->count);
    share_init(&exchange->asked_shares, LIMIT_ERASES, exchange->config.members->count);
    list_init(&exchange->free_asked);
    exchange->drops = calloc(LIMIT_ERASES, sizeof(*exchange->drops));
    exchange->asked = calloc(LIMIT_ERASES, sizeof(*exchange->asked));
    if (exchange->drops == NULL || exchange->asked == NULL) {
        return NIGH_NO_RESOURCES;
    }
    return directory_create(&config, &exchange->directory);
}

void home_fini(struct exchange *exchange)
{
    directory_destroy(exchange->directory);
    free(exchange->drops);
    free(exchange->asked);
}

/* ---- requests ------------------------------------------------------------- */

/* The home holds the object itself: one round trip instead of two. */
static bool serve_at_once(struct exchange_link *link, const struct rpc_request *request,
                          const struct wire_locate *locate, const struct wire_window *windows,
                          const struct directory_answer *answer, uint64_t now_us)
{
    struct wire_pull wanted = {
        .key = locate->key,
        .birth = answer->object.birth,
        .way = locate->way == WIRE_PUSH ? WIRE_PUSH : WIRE_STREAM,
        .credits = locate->credits,
        .tag = locate->tag,
    };
    uint64_t bytes = index_object_bytes(answer->object.data_size, answer->object.meta_size,
                                        answer->object.name_size);
    bool held = false;

    for (uint32_t n = 0; n < answer->holder_count; n++) {
        held = held || answer->holders[n] == exchange_self(link->exchange);
    }
    if (!held || tree_is_full(link, &locate->key, &answer->object)) {
        return false; /* who asks here again as a holder is told whom to ask */
    }
    if (bytes >= locate->crossover_bytes) {
        wanted.way = WIRE_LOAN;
        wanted.tag = 0; /* from the start */
    } else if (bytes > link->exchange->inline_bytes && locate->credits == 0) {
        return false; /* messages need receives: the puller asks for them when it has some */
    }
    return serve_reply(link, request->call, &wanted, windows, (locate->wait & WIRE_WAIT_PASS) == 0,
                       now_us) == NIGH_OK;
}

/* Copies a LOCATE out. False: it is none. */
static bool take_locate(const struct exchange_link *link, const struct rpc_request *request,
                        struct wire_locate *locate, struct wire_window *windows)
{
    if (request->bytes < sizeof(*locate)) {
        return false;
    }
    memcpy(locate, request->payload, sizeof(*locate));
    return locate->credits <= link->exchange->config.bulk_receives &&
           serve_windows(request, sizeof(*locate), locate->way == WIRE_PUSH ? locate->credits : 0,
                         windows);
}

void home_on_locate(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us)
{
    struct wire_locate locate;
    struct wire_window windows[WIRE_WINDOWS];
    struct directory_answer answer;
    struct wire_located located;
    struct rpc_piece piece = {.data = &located, .bytes = sizeof(located)};
    nigh_status status;

    if (request->call == 0) {
        return;
    }
    if (!take_locate(link, request, &locate, windows)) {
        rpc_reply(link_rpc(link->link), request->call, NIGH_PROTOCOL, NULL, 0);
        return;
    }
    if (replication_on_locate(link, request, &locate)) {
        return;
    }
    status = exchange_is_home(link, &locate.key);
    if (status != NIGH_OK) {
        rpc_reply(link_rpc(link->link), request->call, status, NULL, 0);
        return;
    }
    status = directory_locate(link->exchange->directory, link->rank, &locate.key, locate.wait != 0,
                              &answer);
    if (status != NIGH_OK) {
        rpc_reply(link_rpc(link->link), request->call, status, NULL, 0);
        return;
    }
    if (answer.state == DIRECTORY_KNOWN && locate.only == 0 &&
        serve_at_once(link, request, &locate, windows, &answer, now_us)) {
        return;
    }
    located = wire_from_answer(&answer);
    rpc_reply(link_rpc(link->link), request->call, NIGH_OK, &piece, 1);
}

void home_on_unwait(struct exchange_link *link, const struct rpc_request *request)
{
    struct directory_key key;

    if (request->bytes != sizeof(key)) {
        return;
    }
    memcpy(&key, request->payload, sizeof(key));
    directory_unwait(link->exchange->directory, link->rank, &key);
}

static struct asked_delete *take_asked(struct exchange *exchange, uint32_t rank)
{
    struct list_node *node;

    if (!share_take(&exchange->asked_shares, rank)) {
        exchange->counts.shares_refused++;
        return NULL;
    }
    node = list_pop_front(&exchange->free_asked);
    if (node != NULL) {
        return container_of(node, struct asked_delete, place);
    }
    NIGH_ASSERT(exchange->asked_used < LIMIT_ERASES); /* the shares are all of them */
    return &exchange->asked[exchange->asked_used++];
}

void home_on_delete(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us)
{
    struct exchange *exchange = link->exchange;
    struct wire_delete said;
    struct asked_delete *asked;
    uint64_t ticket;
    nigh_status status;

    if (request->call == 0) {
        return;
    }
    if (request->bytes != sizeof(said)) {
        rpc_reply(link_rpc(link->link), request->call, NIGH_PROTOCOL, NULL, 0);
        return;
    }
    memcpy(&said, request->payload, sizeof(said));
    status = exchange_is_home(link, &said.key);
    if (status != NIGH_OK) {
        rpc_reply(link_rpc(link->link), request->call, status, NULL, 0);
        return;
    }
    asked = take_asked(exchange, link->rank);
    if (asked == NULL) {
        rpc_reply(link_rpc(link->link), request->call, NIGH_BUSY, NULL, 0); /* it asks again */
        return;
    }
    *asked = (struct asked_delete){.link = link, .call = request->call, .rank = link->rank};
    list_push_back(&link->asked, &asked->place);
    ticket = EXCHANGE_TICKET_PEER | (uint64_t)(asked - exchange->asked);
    status = hear_delete(exchange, &asked->unheard, &said, link->rank, ticket, now_us);
    if (status != NIGH_PENDING) {
        erase_deleted(exchange, ticket, status);
    }
}

void home_link_down(struct exchange_link *link)
{
    struct exchange *exchange = link->exchange;

    LIST_FOREACH_SAFE(node, &link->asked)
    {
        struct asked_delete *asked = container_of(node, struct asked_delete, place);

        list_remove(node);
        asked->link = NULL;
        if (hear_forget(&asked->unheard)) {
            share_give(&exchange->asked_shares, asked->rank);
            list_push_front(&exchange->free_asked, &asked->place);
        } /* else its record stays the directory's until that tells its end */
    }
}
