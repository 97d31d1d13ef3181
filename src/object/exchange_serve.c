/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange as a holder: what peers pull from here.
 *
 * A serve is a loan of an object's memory to one peer: as the source of messages that go out, or of
 * READs that the peer makes. It ends when its last message is out, with the peer's DONE, or when
 * the link is down and its endpoints are destroyed; never by time alone: a loan that is overdue
 * breaks its link, which ends it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "object/exchange_announce.h"
#include "object/exchange_figures.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_memory.h"
#include "object/exchange_pull.h"
#include "object/exchange_push.h"
#include "object/exchange_serve.h"
#include "object/exchange_tree.h"
#include "object/exchange_wire.h"

#define LOG_MODULE "exchange"
#include "base/log.h"

#define SERVE_SUM_AT_ONCE UINT64_C(65536) /* data that is summed before the reply */
#define SERVE_SENDS       8u              /* messages of one serve under way */
#define SERVE_TURN        64u             /* serves looked at in one turn */

nigh_status serves_init(struct exchange *exchange)
{
    list_init(&exchange->free_serves);
    list_init(&exchange->serving);
    list_init(&exchange->parked);
    exchange->tree_us = UINT64_MAX;
    for (uint32_t n = 0; n < EXCHANGE_LENT; n++) {
        list_init(&exchange->lent[n]);
    }
    share_init(&exchange->serve_shares, LIMIT_SERVES, exchange->config.members->count);
    exchange->serves = calloc(LIMIT_SERVES, sizeof(*exchange->serves));
    return exchange->serves == NULL ? NIGH_NO_RESOURCES : NIGH_OK;
}

void serves_fini(struct exchange *exchange)
{
    free(exchange->serves);
}

/* ---- records -------------------------------------------------------------- */

static uint64_t serve_number(const struct exchange *exchange, const struct serve *serve)
{
    return (uint64_t)serve->generation << 32 | (uint64_t)(serve - exchange->serves);
}

struct serve *serve_of_number(struct exchange_link *link, uint64_t number)
{
    uint32_t place = (uint32_t)number;
    struct serve *serve;

    if (place >= link->exchange->serves_used) {
        return NULL;
    }
    serve = &link->exchange->serves[place];
    return serve->used && serve->link == link && serve->generation == number >> 32 ? serve : NULL;
}

struct list *serve_lent(struct exchange *exchange, uint32_t pool, uint32_t entry)
{
    return &exchange->lent[(entry + pool * 61) & (EXCHANGE_LENT - 1)];
}

/* An object can be lent so often and no more: a peer that asks again and again leaves others room.
 * An honest one asks again for what it gave up, and that may not have ended yet. */
static bool has_enough(struct exchange_link *link, uint32_t pool, uint32_t entry)
{
    uint32_t count = 0;

    LIST_FOREACH(node, serve_lent(link->exchange, pool, entry))
    {
        const struct serve *serve = container_of(node, struct serve, twin);

        count += serve->link == link && serve->pool == pool && serve->entry == entry ? 1 : 0;
    }
    link->exchange->counts.shares_refused += count >= LIMIT_SERVES_A_PEER ? 1 : 0;
    return count >= LIMIT_SERVES_A_PEER;
}

/* NULL: the peer has its share. */
static struct serve *take_serve(struct exchange *exchange, uint32_t rank)
{
    struct list_node *node;

    if (!share_take(&exchange->serve_shares, rank)) {
        exchange->counts.shares_refused++;
        return NULL;
    }
    node = list_pop_front(&exchange->free_serves);
    if (node != NULL) {
        return container_of(node, struct serve, place);
    }
    NIGH_ASSERT(exchange->serves_used < LIMIT_SERVES); /* the shares are all of them */
    return &exchange->serves[exchange->serves_used++];
}

void serve_over(struct exchange *exchange, struct serve *serve)
{
    NIGH_ASSERT(serve->used && serve->sends == 0);
    tree_serve_ended(exchange, serve);
    fabric_memory_deregister(exchange->config.fabric, serve->memory);
    store_lend_end(exchange->config.store, serve->pool, serve->entry);
    free(serve->windows);
    serve->windows = NULL;
    if (list_is_linked(&serve->work)) {
        list_remove(&serve->work);
    }
    list_remove(&serve->place);
    list_remove(&serve->twin);
    share_give(&exchange->serve_shares, serve->link->rank);
    serve->used = false;
    serve->link = NULL;
    exchange->counts.loans_now--;
    list_push_front(&exchange->free_serves, &serve->place);
}

static void has_work(struct exchange *exchange, struct serve *serve)
{
    if (!list_is_linked(&serve->work)) {
        list_push_back(&exchange->serving, &serve->work);
    }
}

/* ---- sums ----------------------------------------------------------------- */

static const uint8_t *serve_bytes(const struct serve *serve)
{
    return serve->exchange->arena + serve->offset;
}

/* What is known of an object's sums; small ones are summed now. */
static struct wire_sums sums_of(struct exchange *exchange, const struct store_sight *sight)
{
    const uint8_t *bytes = exchange->arena + sight->offset;
    struct wire_sums sums = {
        .data_crc = sight->data_crc,
        .tail_crc = exchange_crc(0, bytes + index_meta_offset(sight->data_size),
                                 (uint64_t)sight->meta_size + sight->name_size),
        .known = sight->has_crc ? 1 : 0,
    };

    if (sums.known == 0 && sight->data_size <= SERVE_SUM_AT_ONCE) {
        sums.data_crc = exchange_crc(0, bytes, sight->data_size);
        sums.known = 1;
        store_note_crc(exchange->config.store, sight->pool, sight->entry, sums.data_crc);
    }
    return sums;
}

void serve_answer_done(struct exchange *exchange, struct serve *serve)
{
    struct rpc_piece piece = {.data = &serve->sums, .bytes = sizeof(serve->sums)};

    rpc_reply(link_rpc(serve->link->link), serve->done_call, NIGH_OK, &piece, 1);
    serve->done_call = 0;
    serve_over(exchange, serve);
}

/* Sums up to `end`, in order; at the end of the data the sum is known. */
static void sum_up_to(struct serve *serve, uint64_t end)
{
    end = end < serve->data_size ? end : serve->data_size;
    if (serve->sums.known != 0) {
        return;
    }
    if (end > serve->summed) {
        links_flush(serve->exchange->links); /* messages that stand ready do not wait for it */
        serve->crc =
            exchange_crc(serve->crc, serve_bytes(serve) + serve->summed, end - serve->summed);
        serve->summed = end;
    }
    if (serve->summed == serve->data_size) {
        serve->sums.data_crc = serve->crc;
        serve->sums.known = 1;
        store_note_crc(serve->exchange->config.store, serve->pool, serve->entry, serve->crc);
    }
}

/* ---- replies -------------------------------------------------------------- */

/* Data, metadata, name. */
static uint64_t content_of(const struct directory_object *object)
{
    return index_meta_offset(object->data_size) + exchange_tail_bytes(object);
}

static struct wire_pulled pulled_of(struct exchange *exchange, const struct store_sight *sight)
{
    return (struct wire_pulled){
        .state = WIRE_PULLED,
        .object = {.birth = sight->birth,
                   .data_size = sight->data_size,
                   .meta_size = sight->meta_size,
                   .name_size = sight->name_size},
        .sums = sums_of(exchange, sight),
        .bytes = index_meta_offset(sight->data_size) + sight->meta_size + sight->name_size,
    };
}

/* A home that serves knows by that who has a copy: the puller need not tell it. */
static void note_copy(struct exchange_link *link, const struct wire_pull *wanted,
                      struct wire_pulled *pulled, uint64_t now_us)
{
    pulled->noted = directory_announce(link->exchange->directory, link->rank, &wanted->key,
                                       &pulled->object, true, now_us) == NIGH_OK;
}

static void reply_inline(struct exchange_link *link, uint64_t call, struct wire_pulled *pulled,
                         const struct store_sight *sight)
{
    struct exchange *exchange = link->exchange;
    struct rpc_piece pieces[2] = {
        {.data = pulled, .bytes = sizeof(*pulled)},
        {.data = exchange->arena + sight->offset, .bytes = (uint32_t)pulled->bytes},
    };

    pulled->way = WIRE_INLINE;
    rpc_reply(link_rpc(link->link), call, NIGH_OK, pieces, 2);
    exchange->counts.served_inline++;
    exchange->counts.served_bytes += pulled->bytes;
    exchange->counts.loans_ever++;
    store_lend_end(exchange->config.store, sight->pool, sight->entry);
}

static void begin_serve(struct exchange_link *link, struct serve *serve,
                        const struct wire_pull *wanted, const struct store_sight *sight,
                        const struct wire_pulled *pulled, uint64_t now_us)
{
    struct exchange *exchange = link->exchange;
    uint32_t generation = serve->generation + 1;

    *serve = (struct serve){
        .exchange = exchange,
        .link = link,
        .generation = generation == 0 ? 1 : generation,
        .used = true,
        .pool = sight->pool,
        .entry = sight->entry,
        .offset = sight->offset,
        .content = pulled->bytes,
        .data_size = sight->data_size,
        .way = (enum wire_way)wanted->way,
        .tag = wanted->tag,
        .credits = wanted->credits,
        .sums = pulled->sums,
        .object = pulled->object,
        .ready = pulled->bytes,
        .heard_us = now_us,
    };
    list_push_back(&link->serves, &serve->place);
    list_push_back(serve_lent(exchange, serve->pool, serve->entry), &serve->twin);
    exchange->counts.loans_now++;
}

static void count_serve(struct exchange *exchange, const struct serve *serve)
{
    exchange->counts.served_streams += serve->way == WIRE_STREAM ? 1 : 0;
    exchange->counts.served_loans += serve->way == WIRE_LOAN ? 1 : 0;
    exchange->counts.served_pushes += serve->way == WIRE_PUSH ? 1 : 0;
    exchange->counts.loans_ever++;
    exchange->counts.served_bytes += serve->content;
}

/* What one way needs and others do not. NIGH_PROTOCOL: windows that are none; else it cannot be
 * served now. */
static nigh_status prepare(struct serve *serve, const struct wire_pull *wanted,
                           const struct wire_window *windows, struct wire_piece *lent)
{
    const struct exchange *exchange = serve->exchange;

    if (serve->way == WIRE_PUSH) {
        serve->credits = 0;
        if (!push_accept(serve, windows, wanted->credits)) {
            return serve->windows == NULL ? NIGH_BUSY : NIGH_PROTOCOL;
        }
        serve->credits = wanted->credits;
    }
    if (serve->way == WIRE_LOAN && exchange->config.path == EXCHANGE_REGISTER &&
        serve->content > wanted->tag &&
        memory_lend(exchange, serve->offset + wanted->tag, serve->content - wanted->tag,
                    &serve->memory, lent) != NIGH_OK) {
        return NIGH_BUSY;
    }
    return NIGH_OK;
}

/* A loan from an offset on, as far as it is there and its pieces fit the reply: who reads to their
 * end asks to go on. One with a registration of its own has it all in one, which is there already.
 */
static void reply_loan(struct serve *serve, uint64_t call, struct wire_pulled *pulled,
                       struct wire_piece lent[EXCHANGE_PIECES], uint64_t from)
{
    struct exchange *exchange = serve->exchange;
    struct rpc_piece pieces[2] = {{.data = pulled, .bytes = sizeof(*pulled)}, {.data = lent}};
    uint64_t most = min_u64(EXCHANGE_PIECES, exchange->inline_bytes / sizeof(*lent));
    uint64_t end = from;

    pulled->serve = serve_number(exchange, serve);
    pulled->from = from;
    pulled->pieces = serve->memory != NULL
                         ? 1
                         : memory_pieces(exchange, serve->offset + from, serve->ready - from, lent,
                                         (uint32_t)most);
    for (uint32_t n = 0; n < pulled->pieces; n++) {
        end += lent[n].bytes;
    }
    pulled->partial = end < serve->content ? 1 : 0;
    pieces[1].bytes = pulled->pieces * (uint32_t)sizeof(*lent);
    rpc_reply(link_rpc(serve->link->link), call, NIGH_OK, pieces, 2);
}

void serve_reply_loan(struct serve *serve, uint64_t call, struct wire_pulled *pulled, uint64_t from)
{
    struct wire_piece lent[EXCHANGE_PIECES];

    reply_loan(serve, call, pulled, lent, from);
}

/* A reply that says more than the object: what is lent, or comes in messages. */
static nigh_status reply_serve(struct exchange_link *link, uint64_t call,
                               const struct wire_pull *wanted, const struct wire_window *windows,
                               const struct store_sight *sight, struct wire_pulled *pulled,
                               uint64_t now_us)
{
    struct exchange *exchange = link->exchange;
    struct serve *serve =
        has_enough(link, sight->pool, sight->entry) ? NULL : take_serve(exchange, link->rank);
    struct rpc_piece piece = {.data = pulled, .bytes = sizeof(*pulled)};
    struct wire_piece lent[EXCHANGE_PIECES];
    nigh_status status;

    if (serve == NULL) {
        store_lend_end(exchange->config.store, sight->pool, sight->entry);
        return NIGH_BUSY;
    }
    begin_serve(link, serve, wanted, sight, pulled, now_us);
    status = prepare(serve, wanted, windows, lent);
    if (status != NIGH_OK) {
        serve_over(exchange, serve);
        return status;
    }
    count_serve(exchange, serve);
    if (serve->way != WIRE_LOAN || serve->sums.known == 0) {
        has_work(exchange, serve);
    }
    pulled->way = wanted->way;
    pulled->serve = serve_number(exchange, serve);
    if (serve->way == WIRE_LOAN) {
        reply_loan(serve, call, pulled, lent, wanted->tag);
    } else {
        rpc_reply(link_rpc(link->link), call, NIGH_OK, &piece, 1);
    }
    return NIGH_OK;
}

struct serve *serve_of_pulled(struct exchange_link *link, const struct wire_pull *wanted,
                              const struct pull *pull, uint64_t now_us)
{
    struct exchange *exchange = link->exchange;
    struct wire_pulled pulled = {.object = pull->begun, .bytes = content_of(&pull->begun)};
    struct store_sight sight = {.pool = pull->pool,
                                .entry = pull->entry,
                                .offset = pull->offset,
                                .data_size = pull->begun.data_size};
    struct serve *serve =
        has_enough(link, pull->pool, pull->entry) ? NULL : take_serve(exchange, link->rank);

    if (serve != NULL) {
        begin_serve(link, serve, wanted, &sight, &pulled, now_us);
        count_serve(exchange, serve);
        exchange->counts.served_partial++;
    }
    return serve;
}

nigh_status serve_reply(struct exchange_link *link, uint64_t call, const struct wire_pull *wanted,
                        const struct wire_window *windows, bool notes, uint64_t now_us)
{
    struct exchange *exchange = link->exchange;
    struct wire_pulled pulled;
    struct store_sight sight;
    nigh_status status;
    uint32_t pool;

    if (!exchange_pool_of(exchange, &wanted->key, &pool)) {
        return NIGH_NOT_FOUND;
    }
    status = store_lend(exchange->config.store, pool, wanted->key.id, hash_id20(wanted->key.id),
                        &wanted->birth, now_us, &sight);
    if (status != NIGH_OK) {
        return status;
    }
    pulled = pulled_of(exchange, &sight);
    if (wanted->way == WIRE_LOAN && wanted->tag > pulled.bytes) {
        store_lend_end(exchange->config.store, pool, sight.entry);
        return NIGH_PROTOCOL;
    }
    if (tree_send_on(link, call, wanted, &sight, &pulled.object)) {
        store_lend_end(exchange->config.store, pool, sight.entry);
        return NIGH_OK;
    }
    if ((wanted->way != WIRE_LOAN || pulled.bytes == 0) && pulled.bytes <= exchange->inline_bytes &&
        pulled.sums.known != 0) {
        if (notes) {
            note_copy(link, wanted, &pulled, now_us);
        }
        reply_inline(link, call, &pulled, &sight);
        return NIGH_OK;
    }
    if (wanted->way == WIRE_PUSH &&
        (exchange->config.fabric->caps.ops & FABRIC_CAN_WRITE_IMM) == 0) {
        store_lend_end(exchange->config.store, pool, sight.entry);
        return NIGH_UNSUPPORTED; /* the puller asks for messages, then */
    }
    return reply_serve(link, call, wanted, windows, &sight, &pulled, now_us);
}

/* ---- requests ------------------------------------------------------------- */

/* The birth is not here, though somebody thinks so: its home should know. */
static void tell_home(struct exchange *exchange, const struct wire_pull *wanted)
{
    struct directory_object object = {.birth = wanted->birth};
    uint32_t pool;

    if (exchange_pool_of(exchange, &wanted->key, &pool)) {
        announce_object(exchange, pool, wanted->key.id, hash_id20(wanted->key.id), &object,
                        WIRE_GONE);
    }
}

bool serve_windows(const struct rpc_request *request, uint32_t head_bytes, uint32_t count,
                   struct wire_window windows[WIRE_WINDOWS])
{
    if (count > WIRE_WINDOWS || request->bytes != head_bytes + count * sizeof(*windows)) {
        return false;
    }
    memcpy(windows, request->payload + head_bytes, count * sizeof(*windows));
    return true;
}

/* Copies a PULL out. False: it is none. */
static bool take_wanted(const struct exchange_link *link, const struct rpc_request *request,
                        struct wire_pull *wanted, struct wire_window *windows)
{
    if (request->bytes < sizeof(*wanted)) {
        return false;
    }
    memcpy(wanted, request->payload, sizeof(*wanted));
    return (wanted->way == WIRE_STREAM || wanted->way == WIRE_PUSH || wanted->way == WIRE_LOAN) &&
           wanted->credits <= link->exchange->config.bulk_receives &&
           serve_windows(request, sizeof(*wanted), wanted->way == WIRE_PUSH ? wanted->credits : 0,
                         windows);
}

static nigh_status serve_wanted(struct exchange_link *link, uint64_t call,
                                const struct wire_pull *wanted, const struct wire_window *windows,
                                uint64_t now_us)
{
    nigh_status status;

    if (wanted->serve != 0) {
        return tree_extend(link, call, wanted, now_us);
    }
    status = serve_reply(link, call, wanted, windows, false, now_us);
    if (status == NIGH_NOT_FOUND) {
        status = tree_serve(link, call, wanted, now_us);
    }
    /* Who was sent here by another than its home has nothing to correct there. */
    if (status == NIGH_NOT_FOUND && (wanted->flags & WIRE_PULL_SENT) == 0) {
        tell_home(link->exchange, wanted);
    }
    return status;
}

void serve_on_pull(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us)
{
    struct wire_pull wanted;
    struct wire_window windows[WIRE_WINDOWS];
    nigh_status status = NIGH_PROTOCOL;

    if (request->call == 0) {
        return;
    }
    if (take_wanted(link, request, &wanted, windows)) {
        status = serve_wanted(link, request->call, &wanted, windows, now_us);
    }
    if (status != NIGH_OK) {
        rpc_reply(link_rpc(link->link), request->call, status == NIGH_PENDING ? NIGH_BUSY : status,
                  NULL, 0);
    }
}

/* What is said of a serve, and windows that come with it: how many, in *count. NULL: it is over, or
 * what was said is nothing. */
static struct serve *serve_of_request(struct exchange_link *link, const struct rpc_request *request,
                                      struct wire_more *more, struct wire_window *windows,
                                      uint32_t *count)
{
    *count = 0;
    if (request->bytes >= sizeof(*more)) {
        memcpy(more, request->payload, sizeof(*more));
        *count = request->bytes > sizeof(*more) ? more->credits : 0;
    }
    if (request->bytes < sizeof(*more) || (*count > 0 && request->method != WIRE_MORE) ||
        !serve_windows(request, sizeof(*more), *count, windows)) {
        link_break(link->link, NIGH_PROTOCOL, link->exchange->now_us);
        return NULL;
    }
    return serve_of_number(link, more->serve);
}

void serve_on_more(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us)
{
    struct wire_more more;
    struct wire_window windows[WIRE_WINDOWS];
    uint32_t count;
    struct serve *serve = serve_of_request(link, request, &more, windows, &count);

    if (serve == NULL) {
        return; /* it is over: the last message says what was not used */
    }
    serve->heard_us = now_us;
    if (serve->way == WIRE_LOAN) {
        return;
    }
    if (more.credits > link->exchange->config.bulk_receives - serve->credits ||
        (serve->way == WIRE_PUSH && request->method == WIRE_MORE && count != more.credits) ||
        (serve->way == WIRE_PUSH && !push_accept(serve, windows, count)) ||
        (serve->way == WIRE_STREAM && count > 0)) {
        link_break(link->link, NIGH_PROTOCOL, now_us);
        return;
    }
    serve->credits += serve->way == WIRE_PUSH ? count : more.credits;
    serve->stopped = serve->stopped || request->method == WIRE_STOP;
    has_work(link->exchange, serve);
}

void serve_on_done(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us)
{
    struct wire_more more;
    struct wire_window windows[WIRE_WINDOWS];
    uint32_t count;
    struct serve *serve = serve_of_request(link, request, &more, windows, &count);

    if (serve == NULL || serve->way != WIRE_LOAN || serve->done_call != 0) {
        if (request->call != 0) {
            rpc_reply(link_rpc(link->link), request->call, NIGH_NOT_FOUND, NULL, 0);
        }
        return;
    }
    if (request->call == 0) {
        serve_over(link->exchange, serve);
        return;
    }
    serve->heard_us = now_us;
    if (serve->cut != NIGH_OK) {
        rpc_reply(link_rpc(link->link), request->call, serve->cut, NULL, 0);
        serve_over(link->exchange, serve);
        return;
    }
    serve->done_call = request->call;
    if (serve->relay != 0) {
        tree_park_done(serve, now_us);
    } else if (serve->sums.known != 0) {
        serve_answer_done(link->exchange, serve);
    }
}

/* ---- sending -------------------------------------------------------------- */

static void on_sent(void *context, nigh_status status, uint64_t now_us)
{
    struct serve *serve = context;

    (void)now_us;
    serve->sends--;
    if (status != NIGH_OK) {
        return; /* the link is going down: serve_link_down ends it */
    }
    if (serve->last && serve->sends == 0) {
        serve_over(serve->exchange, serve);
    } else if (!serve->last) {
        has_work(serve->exchange, serve);
    }
}

/* Bytes of the object that the next message takes, at most. What is written at once lies in two
 * extents at most. */
static uint64_t message_room(const struct serve *serve)
{
    uint64_t bytes = serve->way == WIRE_PUSH && serve->credits > 0
                         ? min_u64(push_next(serve)->bytes, LIMIT_EXTENT_BYTES_MIN)
                         : serve->exchange->config.bulk_bytes;

    return bytes - sizeof(struct wire_chunk);
}

static nigh_status post_chunk(struct serve *serve, const struct fabric_slice *slices,
                              uint32_t count)
{
    const struct wire_window *window;
    nigh_status status;

    if (serve->way == WIRE_STREAM) {
        return link_send(serve->link->link, slices, count, on_sent, serve);
    }
    window = push_next(serve);
    status = link_push(serve->link->link, slices, count,
                       (struct fabric_remote){.address = window->address, .key = window->key},
                       window->imm, on_sent, serve);
    if (status == NIGH_OK) {
        serve->window = (serve->window + 1) % serve->exchange->config.bulk_receives;
    }
    return status;
}

/* One message; false: the bulk endpoint is full. */
static bool send_chunk(struct serve *serve)
{
    struct exchange *exchange = serve->exchange;
    uint64_t room = message_room(serve);
    uint64_t left = serve->stopped ? 0 : serve->content - serve->sent;
    uint64_t bytes = left < room ? left : room;
    struct wire_chunk head = {.tag = serve->tag, .offset = serve->sent, .bytes = (uint32_t)bytes};
    struct fabric_slice slices[EXCHANGE_SLICES] = {{.address = &head, .bytes = sizeof(head)}};
    uint32_t count = 1 + memory_slices(exchange, serve->offset + serve->sent, bytes, slices + 1,
                                       EXCHANGE_SLICES - 1);

    if (serve->stopped || serve->sent + bytes == serve->content) {
        sum_up_to(serve, serve->stopped ? serve->summed : serve->content);
        head.flags = WIRE_LAST;
        head.unused = serve->credits - 1;
        head.sums = serve->sums;
    } else {
        sum_up_to(serve, serve->sent + bytes);
    }
    if (post_chunk(serve, slices, count) != NIGH_OK) {
        return false;
    }
    serve->sends++;
    serve->sent += bytes;
    serve->credits = (head.flags & WIRE_LAST) != 0 ? 0 : serve->credits - 1;
    serve->last = (head.flags & WIRE_LAST) != 0;
    return true;
}

/* False: it wants another turn soon. */
static bool stream(struct serve *serve)
{
    if (serve->stopped && serve->credits == 0 && !serve->last) {
        serve->last = true; /* nothing is owed */
        if (serve->sends == 0) {
            serve_over(serve->exchange, serve);
        }
        return true;
    }
    while (serve->credits > 0 && !serve->last && serve->sends < SERVE_SENDS) {
        if (!send_chunk(serve)) {
            return serve->sends > 0; /* a message that is out makes room for the next */
        }
    }
    return true;
}

/* A piece of a loan's sum. False: there is more. */
static bool sum_loan(struct serve *serve)
{
    sum_up_to(serve, serve->summed + EXCHANGE_SUM_BYTES);
    if (serve->sums.known == 0) {
        return false;
    }
    if (serve->done_call != 0) {
        serve_answer_done(serve->exchange, serve);
    }
    return true;
}

/* Loans whose puller has not been heard of for too long: their links end them. */
static void look_for_overdue(struct exchange *exchange, uint64_t now_us)
{
    if (now_us < exchange->overdue_us) {
        return;
    }
    exchange->overdue_us = now_us + exchange->config.loan_us / 4;
    for (uint32_t n = 0; n < exchange->serves_used; n++) {
        struct serve *serve = &exchange->serves[n];

        if (serve->used && !list_is_linked(&serve->parked) &&
            now_us - serve->heard_us > exchange->config.loan_us && serve->heard_us < now_us) {
            exchange->counts.loans_overdue++;
            LOG_WARN("a loan is overdue: its link is broken",
                     "rank=%u do=\"nothing: the link is made anew; if it comes again, see to that "
                     "node and the network: it stands still, or lies\"",
                     serve->link->rank);
            link_break(serve->link->link, NIGH_TIMEOUT, now_us);
            serve->heard_us = now_us;
        }
    }
}

bool serve_turn(struct exchange *exchange, uint64_t now_us)
{
    struct list again;
    struct list_node *node;
    bool worked = false;

    if (list_empty(&exchange->serving) && now_us < exchange->overdue_us) {
        return false;
    }
    list_init(&again);
    look_for_overdue(exchange, now_us);
    for (uint32_t n = 0; n < SERVE_TURN && (node = list_pop_front(&exchange->serving)) != NULL;
         n++) {
        struct serve *serve = container_of(node, struct serve, work);

        worked = true;
        if (!(serve->way == WIRE_LOAN ? sum_loan(serve) : stream(serve))) {
            list_push_back(&again, &serve->work);
        }
    }
    list_append_all(&exchange->serving, &again);
    return worked;
}

uint64_t serve_due_us(const struct exchange *exchange)
{
    if (!list_empty(&exchange->serving)) {
        return 0;
    }
    return exchange->counts.loans_now > 0 ? exchange->overdue_us : UINT64_MAX;
}

void serve_link_down(struct exchange_link *link)
{
    LIST_FOREACH_SAFE(node, &link->serves)
    {
        serve_over(link->exchange, container_of(node, struct serve, place));
    }
}
