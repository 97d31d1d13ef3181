/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a pull: asked of a holder, which answers with them (inline), with messages that are
 * on their way (exchange_messages.c), or with a loan (exchange_reads.c). Everything is summed on
 * the way; a copy is sealed only when the sums are right.
 *
 * Memory that a READ may still write to is not given back: a pull that is given up drains first.
 */
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "object/crossover.h"
#include "object/exchange_figures.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_messages.h"
#include "object/exchange_pull.h"
#include "object/exchange_push.h"
#include "object/exchange_reads.h"
#include "object/exchange_transfer.h"
#include "object/exchange_tree.h"
#include "object/exchange_wire.h"
#include "object/tree.h"

#define LOG_MODULE "exchange"
#include "base/log.h"

uint8_t *transfer_place(const struct exchange *exchange, const struct pull *pull, uint64_t offset)
{
    return exchange->arena + pull->offset + offset;
}

void transfer_sum(struct exchange *exchange, struct pull *pull, uint64_t offset, uint64_t bytes)
{
    uint64_t data_size = pull->answer.object.data_size;

    if (offset < data_size) {
        uint64_t count = data_size - offset < bytes ? data_size - offset : bytes;

        links_flush(exchange->links); /* READs that are asked for do not wait for it */
        pull->crc = exchange_crc(pull->crc, transfer_place(exchange, pull, offset), count);
    }
}

/* ---- the end of a transfer ----------------------------------------------- */

static bool sums_are_right(struct exchange *exchange, const struct pull *pull)
{
    const struct directory_object *object = &pull->answer.object;
    uint32_t tail =
        exchange_crc(0, transfer_place(exchange, pull, index_meta_offset(object->data_size)),
                     exchange_tail_bytes(object));

    return pull->crc == pull->sums.data_crc && tail == pull->sums.tail_crc;
}

bool transfer_say_over(struct exchange_link *link, enum wire_method method, uint64_t serve,
                       uint64_t now_us)
{
    struct wire_more more = {.serve = serve};
    struct rpc_piece piece = {.data = &more, .bytes = sizeof(more)};

    return rpc_one_way(link_rpc(link->link), (uint16_t)method, &piece, 1, now_us) != NIGH_BUSY;
}

void transfer_later(struct exchange *exchange, struct pull *pull)
{
    if (!timer_is_armed(&pull->timer)) {
        pull_set_timer(exchange, pull, EXCHANGE_PAUSE_US);
    }
}

/* What the link's crossover may learn from. */
static void note_time(const struct exchange *exchange, struct pull *pull)
{
    if (pull->asked_us != 0 && pull->link != NULL && !pull->mixed &&
        (pull->way == WIRE_LOAN || pull->way == WIRE_STREAM)) {
        crossover_note(&pull->link->crossovers[pull->located],
                       pull->way == WIRE_LOAN ? CROSSOVER_ONE_SIDED : CROSSOVER_TWO_SIDED,
                       pull->content, exchange->now_us - pull->asked_us);
    }
}

/* Whether there is no holder but this one that is known and was not asked; one that cannot be
 * reached just now was not. */
static bool is_last_holder(const struct exchange *exchange, const struct pull *pull)
{
    for (uint32_t n = 0; n < pull->answer.holder_count; n++) {
        if (n != pull->holder && (pull->tried >> n & 1) == 0 &&
            pull->answer.holders[n] != exchange_self(exchange)) {
            return false;
        }
    }
    return true;
}

/* The bytes are not what was sealed, or cannot be read, where they were asked for. Each other
 * holder that is known is asked; then who waits need not do so until his deadline to hear why. */
static void spoilt(struct exchange *exchange, struct pull *pull, nigh_status status)
{
    if (++pull->spoilt < max_u32(EXCHANGE_SPOILT, pull->answer.holder_count) ||
        !is_last_holder(exchange, pull)) {
        pull_next_holder(exchange, pull);
        return;
    }
    store_fail_wanted(exchange->config.store, pull->pool, pull->key.id, pull->hash, status,
                      exchange->now_us);
    exchange->counts.pulls_failed++;
    pull_end(exchange, pull);
}

void transfer_finish(struct exchange *exchange, struct pull *pull)
{
    nigh_status status;

    if (!sums_are_right(exchange, pull)) {
        exchange->counts.crc_failures++;
        LOG_WARN("an object came with a wrong checksum: it is pulled anew",
                 "from=%u do=\"if that grows, have the memory and the network card of both "
                 "machines tested\"",
                 pull->answer.holders[pull->holder]);
        if (pull->mixed) {
            /* Nobody can say whose bytes they were: again, from those who know theirs. */
            pull->climb.alone = true;
            tree_spoil(exchange, pull);
            pull_next_holder(exchange, pull);
            return;
        }
        tree_spoil(exchange, pull);
        spoilt(exchange, pull, NIGH_CORRUPT);
        return;
    }
    show_note_pulled(exchange, pull);
    status = store_pull_seal(exchange->config.store, pull->pool, pull->entry, pull->crc, pull->keep,
                             exchange->now_us);
    pull->has_memory = false; /* the store's, either way */
    if (status == NIGH_OK || status == NIGH_IN_USE) {
        tree_whole(exchange, pull);
    } else {
        tree_cut(exchange, pull, NIGH_NOT_FOUND);
    }
    if (status == NIGH_OK) {
        pull_announce(exchange, pull);
    }
    exchange->counts.pulls_done++;
    note_time(exchange, pull);
    pull_end(exchange, pull);
}

void transfer_look_again(struct exchange *exchange, struct pull *pull, uint64_t now_us)
{
    if (pull->state == PULL_DRAINING) {
        reads_drained(exchange, pull, now_us);
    } else if (!pull->wanted) {
        transfer_stop(exchange, pull);
    } else if (pull->state == PULL_READING) {
        reads_go_on(exchange, pull, now_us);
    } else if (pull->credits == 0) {
        messages_ask_more(pull->link, pull, now_us);
    }
}

/* ---- asking -------------------------------------------------------------- */

static bool is_sent_on(const uint8_t *payload, uint32_t bytes)
{
    uint32_t state = 0;

    memcpy(&state, payload, min_u64(bytes, sizeof(state)));
    return state == WIRE_SENT_ON;
}

static void on_pulled(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                      uint64_t now_us)
{
    struct pull *pull = context;
    struct exchange *exchange = pull->exchange;

    NIGH_ASSERT(pull->state == PULL_ASKING);
    exchange->now_us = now_us;
    if (status == NIGH_OK && is_sent_on(payload, bytes)) {
        tree_sent_on(exchange, pull, payload, bytes, now_us);
        return;
    }
    if (status == NIGH_OK) {
        transfer_pulled(exchange, pull, payload, bytes, now_us);
        return;
    }
    if (pull->serve != 0) {
        tree_seat_lost(exchange, pull, status, now_us);
        return;
    }
    pull->link->push_refused |= pull->pushes && status == NIGH_UNSUPPORTED;
    messages_unspent(pull, status, now_us);
    if (status == NIGH_BUSY && pull->sent && tree_is_tired(&pull->climb, now_us)) {
        pull_next_holder(exchange, pull);
    } else if (status == NIGH_BUSY || (pull->pushes && status == NIGH_UNSUPPORTED)) {
        pull_pause(exchange, pull);
    } else if (status == NIGH_CORRUPT || status == NIGH_DISK) {
        spoilt(exchange, pull, status); /* what the holder had on disk */
    } else {
        pull_next_holder(exchange, pull);
    }
}

uint64_t exchange_crossover(const struct exchange *exchange, struct exchange_link *link,
                            bool located)
{
    switch (exchange->config.path) {
    case EXCHANGE_TWO_SIDED:
    case EXCHANGE_PUSH: return UINT64_MAX;
    case EXCHANGE_ONE_SIDED:
    case EXCHANGE_REGISTER: return 0;
    case EXCHANGE_AUTO: break;
    }
    return crossover_next(&link->crossovers[located]);
}

/* A transfer lasts from the first message to who serves it: the LOCATE, if that is the home. What
 * that one was told holds for this one, too. */
static void begin_timing(struct exchange *exchange, struct pull *pull, struct exchange_link *link,
                         uint32_t rank)
{
    if (pull->asked_us == 0 || rank != pull->home) {
        pull->located = false;
        pull->asked_us = exchange->now_us;
        pull->crossover = exchange_crossover(exchange, link, false);
    }
}

/* What was read of one loan, or is read here by others, need not come again: the rest is read. And
 * who was sent on is lent what there is. */
static bool goes_on_by_loan(const struct pull *pull)
{
    return (((pull->way == WIRE_LOAN || pull->children > 0) && pull->received > 0) || pull->sent) &&
           pull->exchange->config.path != EXCHANGE_TWO_SIDED &&
           pull->exchange->config.path != EXCHANGE_PUSH;
}

static enum wire_way way_of(const struct pull *pull, const struct exchange_link *link)
{
    if (goes_on_by_loan(pull) || pull->content >= pull->crossover) {
        return WIRE_LOAN;
    }
    return push_is_chosen(link) ? WIRE_PUSH : WIRE_STREAM;
}

/* Ways other than loans are no part of trees: who is told to take them asks who has all. */
static uint32_t flags_of(const struct exchange *exchange, const struct pull *pull)
{
    bool alone = pull->climb.alone || exchange->config.path == EXCHANGE_TWO_SIDED ||
                 exchange->config.path == EXCHANGE_PUSH;

    return (alone ? WIRE_PULL_ALONE : 0) | (pull->sent ? WIRE_PULL_SENT : 0);
}

bool transfer_ask_more(struct exchange *exchange, struct pull *pull, uint64_t now_us)
{
    struct wire_pull wanted = {
        .key = pull->key,
        .birth = pull->answer.object.birth,
        .way = WIRE_LOAN,
        .tag = pull->received,
        .serve = pull->serve,
    };
    struct rpc_piece piece = {.data = &wanted, .bytes = sizeof(wanted)};

    if (rpc_call(link_rpc(pull->link->link), WIRE_PULL, &piece, 1, now_us + EXCHANGE_CALL_US,
                 now_us, on_pulled, pull, NULL) != NIGH_OK) {
        return false;
    }
    timers_cancel(&exchange->timers, &pull->timer);
    pull->streams = pull->pushes = false;
    pull->state = PULL_ASKING;
    return true;
}

bool transfer_ask(struct exchange *exchange, struct pull *pull, uint64_t now_us)
{
    uint32_t rank = pull->answer.holders[pull->holder];
    struct exchange_link *link = exchange_link_to(exchange, rank, pull->hash);
    struct wire_pull wanted = {
        .key = pull->key,
        .birth = pull->answer.object.birth,
        .tag = pull_tag(exchange, pull),
        .flags = flags_of(exchange, pull),
    };
    struct wire_window windows[WIRE_WINDOWS];
    struct rpc_piece pieces[2] = {{.data = &wanted, .bytes = sizeof(wanted)}, {.data = windows}};

    pull->credits = 0;
    pull->last = false;
    pull->serve = 0;
    if (link == NULL) {
        return false;
    }
    begin_timing(exchange, pull, link, rank);
    wanted.way = way_of(pull, link);
    pull->streams = wanted.way != WIRE_LOAN;
    pull->pushes = wanted.way == WIRE_PUSH;
    if (pull->streams && pull->children > 0 && pull->received > 0) {
        pull_drop_memory(exchange, pull); /* others read there: it is not written to again */
        return false;
    }
    if (pull->streams) {
        pull->received = 0;
        pull->crc = 0;
        pull->mixed = false;
    } else {
        wanted.tag = pull->received;
    }
    if (pull->streams && pull->content > exchange->inline_bytes) {
        wanted.credits = messages_grant(link, pull, windows);
        if (wanted.credits == 0) {
            return false;
        }
    }
    pieces[1].bytes = pull->pushes ? wanted.credits * (uint32_t)sizeof(*windows) : 0;
    if (rpc_call(link_rpc(link->link), WIRE_PULL, pieces, 2, now_us + EXCHANGE_CALL_US, now_us,
                 on_pulled, pull, NULL) != NIGH_OK) {
        messages_unoffer(link, pull);
        return false;
    }
    pull_set_link(pull, link, PULL_ASKING);
    return true;
}

/* ---- answers ------------------------------------------------------------- */

static void take_inline(struct exchange *exchange, struct pull *pull,
                        const struct wire_pulled *pulled, const uint8_t *bytes)
{
    memcpy(transfer_place(exchange, pull, 0), bytes, pull->content);
    pull->received = pull->content;
    pull->crc = exchange_crc(0, transfer_place(exchange, pull, 0), pull->answer.object.data_size);
    pull->sums = pulled->sums;
    exchange->counts.pulled_bytes_two_sided += pull->content;
    transfer_finish(exchange, pull);
}

/* Whether the home that served it counts this node as a holder: the copy that came need not be
 * announced, but one that cannot be kept is said to be gone. News that are under way to the home
 * may be of an older copy, and speak against it later. */
static void note(struct pull *pull, const struct exchange_link *link,
                 const struct wire_pulled *pulled)
{
    pull->noted = pull->state == PULL_LOCATING && pulled->way == WIRE_INLINE && pulled->noted == 1;
    pull->doubted = pull->doubted || link->announcer.count > 0 || link->announcer.walking;
}

/* The home served the object at once: it is known now, and memory for it is wanted. */
static bool accept_served(struct pull *pull, struct exchange_link *link,
                          const struct wire_pulled *pulled)
{
    if (pull->state == PULL_ASKING) {
        return directory_object_equal(&pulled->object, &pull->answer.object);
    }
    pull->known = true;
    pull->streams = pull->credits > 0;
    pull->tried = 0;
    pull->holder = 0;
    pull->answer = (struct directory_answer){.state = DIRECTORY_KNOWN,
                                             .holder_count = 1,
                                             .holders = {link->rank},
                                             .object = pulled->object};
    return true;
}

void transfer_decline(struct exchange_link *link, enum wire_method method, uint64_t serve,
                      uint64_t now_us)
{
    struct exchange *exchange = link->exchange;

    if (transfer_say_over(link, method, serve, now_us)) {
        return;
    }
    if (link->declined_count == EXCHANGE_DECLINES) {
        /* What is not returned would hold memory: the link's end returns it. */
        link_break(link->link, NIGH_BUSY, now_us);
        return;
    }
    link->declined[link->declined_count++] = (struct declined){.serve = serve, .method = method};
    if (exchange->declines++ == 0) {
        exchange->decline_us = clock_deadline_us(now_us, EXCHANGE_PAUSE_US);
    }
}

void transfer_say_declined(struct exchange *exchange, uint64_t now_us)
{
    if (exchange->declines == 0 || now_us < exchange->decline_us) {
        return;
    }
    exchange->decline_us = clock_deadline_us(now_us, EXCHANGE_PAUSE_US);
    LIST_FOREACH(node, &exchange->live)
    {
        struct exchange_link *link = container_of(node, struct exchange_link, place);

        while (link->declined_count > 0) {
            const struct declined *last = &link->declined[link->declined_count - 1];

            if (!transfer_say_over(link, last->method, last->serve, now_us)) {
                break;
            }
            link->declined_count--;
            exchange->declines--;
        }
    }
}

/* The pull waits for memory, and asks again then; or it ended. Nobody needs what is lent or sent.
 */
static void decline(struct exchange *exchange, struct pull *pull, struct exchange_link *link,
                    const struct wire_pulled *pulled, uint64_t now_us)
{
    if (pulled->way == WIRE_LOAN) {
        transfer_decline(link, WIRE_DONE, pulled->serve, now_us);
    } else if (pulled->way == WIRE_STREAM || pulled->way == WIRE_PUSH) {
        transfer_decline(link, WIRE_STOP, pulled->serve, now_us);
        pull->generation++; /* what comes of it all the same is for nobody */
    }
    pull_unnote(exchange, pull);
}

void transfer_pulled(struct exchange *exchange, struct pull *pull, const uint8_t *payload,
                     uint32_t bytes, uint64_t now_us)
{
    struct exchange_link *link = pull->link;
    struct wire_pulled pulled;
    nigh_status status;

    if (bytes < sizeof(pulled)) {
        goto breach;
    }
    memcpy(&pulled, payload, sizeof(pulled));
    if (pulled.state != WIRE_PULLED || !accept_served(pull, link, &pulled) ||
        (pull->serve != 0 && (pulled.way != WIRE_LOAN || pulled.serve != pull->serve))) {
        goto breach;
    }
    if (pulled.way != WIRE_STREAM && pulled.way != WIRE_PUSH) {
        messages_unoffer(link, pull); /* none of them is needed */
    }
    note(pull, link, &pulled);
    pull->way = (enum wire_way)pulled.way;
    pull_forget_memory(exchange, pull);
    if (!pull_get_memory(exchange, pull)) {
        decline(exchange, pull, link, &pulled, now_us);
        return;
    }
    pull->begun = pull->answer.object;
    if (pull->content != pulled.bytes) {
        goto breach;
    }
    switch ((enum wire_way)pulled.way) {
    case WIRE_INLINE:
        if (bytes - sizeof(pulled) != pull->content || pulled.sums.known == 0) {
            goto breach;
        }
        take_inline(exchange, pull, &pulled, payload + sizeof(pulled));
        return;
    case WIRE_LOAN:
        status = reads_take_pieces(pull, &pulled, payload + sizeof(pulled), bytes - sizeof(pulled));
        if (status == NIGH_PROTOCOL) {
            goto breach;
        }
        if (status != NIGH_OK) {
            decline(exchange, pull, link, &pulled, now_us);
            pull_pause(exchange, pull);
            return;
        }
        reads_begin(exchange, pull, link, &pulled, now_us);
        return;
    case WIRE_STREAM:
    case WIRE_PUSH:
        if (!pull->streams || pull->pushes != (pulled.way == WIRE_PUSH)) {
            goto breach;
        }
        messages_begin(exchange, pull, link, &pulled, now_us);
        return;
    }

breach:
    link_break(link->link, NIGH_PROTOCOL, now_us);
    pull_next_holder(exchange, pull);
}

/* ---- giving up ----------------------------------------------------------- */

void transfer_stop(struct exchange *exchange, struct pull *pull)
{
    struct exchange_link *link = pull->link;

    if (pull->state == PULL_READING && pull->reads > 0) {
        timers_cancel(&exchange->timers, &pull->timer);
        pull->state = PULL_DRAINING;
        return;
    }
    if (!transfer_say_over(link, pull->state == PULL_READING ? WIRE_DONE : WIRE_STOP, pull->serve,
                           exchange->now_us)) {
        transfer_later(exchange, pull);
        return;
    }
    pull->serve = 0;
    pull_end(exchange, pull);
}
