/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a pull that a holder sends, or writes into windows: as many messages as it was
 * granted, copied into place in their order. Receives are granted before they are used and come
 * back as they are spent; a message that nobody granted ends its link.
 */
#include <string.h>

#include "base/check.h"
#include "object/exchange_figures.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_messages.h"
#include "object/exchange_probe.h"
#include "object/exchange_pull.h"
#include "object/exchange_push.h"
#include "object/exchange_transfer.h"
#include "object/exchange_tree.h"
#include "object/exchange_wire.h"

/* ---- grants -------------------------------------------------------------- */

static uint32_t chunk_bytes(const struct exchange *exchange, const struct pull *pull)
{
    return pull->pushes ? push_room(exchange)
                        : exchange->config.bulk_bytes - (uint32_t)sizeof(struct wire_chunk);
}

_Static_assert(EXCHANGE_STREAM <= WIRE_WINDOWS, "what is granted at once is said at once");

/* Receives that one more pull may be given of `most` that a link has, and of as many parts of what
 * all links share. */
static uint32_t free_of(const struct exchange_link *link, uint32_t part)
{
    const struct exchange *exchange = link->exchange;
    uint32_t most = exchange->config.bulk_receives / part;
    uint32_t shared = exchange->config.shared_bulk / part;
    uint32_t count = link->granted < most ? most - link->granted : 0;

    if (exchange->config.shared_bulk == 0) {
        return count;
    }
    return min_u32(count, exchange->granted < shared ? shared - exchange->granted : 0);
}

static void take_grant(struct exchange_link *link, struct pull *pull, uint32_t count)
{
    link->granted += count;
    link->exchange->granted += count;
    pull->credits += count;
}

static void drop_grant(struct exchange_link *link, uint32_t count)
{
    link->granted -= count;
    link->exchange->granted -= count;
}

uint32_t messages_grant(struct exchange_link *link, struct pull *pull, struct wire_window *windows)
{
    struct exchange *exchange = link->exchange;
    uint64_t room = chunk_bytes(exchange, pull);
    uint64_t chunks = (pull->content - pull->received + room - 1) / room;
    uint32_t free = free_of(link, 1);
    uint32_t most = EXCHANGE_STREAM;
    uint32_t count;

    most = chunks < most ? (uint32_t)chunks : most;
    count = most > pull->credits ? most - pull->credits : 0;
    exchange->is_short |= count > free && link->granted + free < exchange->config.bulk_receives;
    count = count < free ? count : free;
    take_grant(link, pull, count);
    if (pull->pushes) {
        push_grant(link, pull_tag(exchange, pull), count, windows);
    }
    return count;
}

void messages_offer(struct exchange_link *link, struct pull *pull, struct wire_window *windows)
{
    uint32_t spare = free_of(link, 2); /* the rest is for what is known */

    NIGH_ASSERT(pull->credits == 0 && pull->held == 0);
    take_grant(link, pull, spare < EXCHANGE_OFFER ? spare : EXCHANGE_OFFER);
    pull->last = false;
    pull->pushes = push_is_chosen(link);
    if (pull->pushes) {
        push_grant(link, pull_tag(link->exchange, pull), pull->credits, windows);
    }
}

uint32_t *messages_adrift(struct exchange_link *link, bool pushed)
{
    return pushed ? &link->adrift_windows : &link->adrift;
}

void messages_unoffer(struct exchange_link *link, struct pull *pull)
{
    push_release(link, pull_tag(link->exchange, pull));
    drop_grant(link, pull->credits);
    pull->credits = 0;
}

void messages_ask_more(struct exchange_link *link, struct pull *pull, uint64_t now_us)
{
    struct wire_more more = {.serve = pull->serve};
    struct wire_window windows[WIRE_WINDOWS];
    struct rpc_piece pieces[2] = {{.data = &more, .bytes = sizeof(more)}, {.data = windows}};

    more.credits = pull->wanted ? messages_grant(link, pull, windows) : 0;
    pieces[1].bytes = pull->pushes ? more.credits * (uint32_t)sizeof(*windows) : 0;
    if (more.credits > 0 &&
        rpc_one_way(link_rpc(link->link), WIRE_MORE, pieces, 2, now_us) != NIGH_OK) {
        push_take_back(link, windows, pull->pushes ? more.credits : 0);
        drop_grant(link, more.credits);
        pull->credits -= more.credits;
    }
    if (pull->credits == 0) {
        transfer_later(link->exchange, pull);
    }
}

static void grant_on(struct exchange_link *link, uint64_t now_us)
{
    LIST_FOREACH(node, &link->pulls)
    {
        struct pull *pull = container_of(node, struct pull, place);

        if (pull->state == PULL_STREAMING && pull->credits == 0) {
            messages_ask_more(link, pull, now_us);
        }
    }
}

/* Receives have become free: streams that stand still go on, those of other links too where they
 * waited for what is shared. */
static void grant_others(struct exchange_link *link, uint64_t now_us)
{
    struct exchange *exchange = link->exchange;

    grant_on(link, now_us);
    if (!exchange->is_short) {
        return;
    }
    exchange->is_short = false;
    LIST_FOREACH(node, &exchange->live)
    {
        grant_on(container_of(node, struct exchange_link, place), now_us);
    }
}

/* ---- what comes ---------------------------------------------------------- */

static void take_chunk(struct exchange *exchange, struct pull *pull, const struct wire_chunk *chunk,
                       const uint8_t *bytes)
{
    memcpy(transfer_place(exchange, pull, chunk->offset), bytes, chunk->bytes);
    transfer_sum(exchange, pull, chunk->offset, chunk->bytes);
    pull->received += chunk->bytes;
    tree_advanced(exchange, pull);
}

static void stream_over(struct exchange *exchange, struct pull *pull)
{
    pull->serve = 0;
    pull->credits = 0;
    if (pull->received != pull->content || pull->sums.known == 0) {
        pull_next_holder(exchange, pull);
        return;
    }
    if (pull->pushes) {
        exchange->counts.pulled_bytes_pushed += pull->content;
    } else {
        exchange->counts.pulled_bytes_two_sided += pull->content;
    }
    transfer_finish(exchange, pull);
}

/* What came was copied, or is for nobody: its receive may be granted again from here on. */
static void give_back(struct exchange_link *link, const struct bulk_message *message)
{
    if (message->window == NULL) {
        link_give_back(link->link, message->bytes);
    }
}

/* A message of a stream that is under way, or whose answer is still to come: that takes another
 * endpoint, and may be overtaken by all of them. */
static void stream_chunk(struct exchange_link *link, struct pull *pull,
                         const struct wire_chunk *chunk, const struct bulk_message *message,
                         uint64_t now_us)
{
    struct exchange *exchange = link->exchange;

    if (chunk->offset != pull->received || chunk->bytes > pull->content - pull->received) {
        link_break(link->link, NIGH_PROTOCOL, now_us);
        return;
    }
    pull->heard_us = now_us;
    take_chunk(exchange, pull, chunk, message->bytes + sizeof(*chunk));
    give_back(link, message);
    if ((chunk->flags & WIRE_LAST) != 0) {
        pull->last = true;
        pull->sums = chunk->sums;
    }
    if (pull->state == PULL_ASKING) {
        return;
    }
    if (pull->last) {
        stream_over(exchange, pull);
    } else if (pull->credits <= EXCHANGE_STREAM / 2) {
        messages_ask_more(link, pull, now_us);
    }
}

/* The pull that a message is for; NULL: it has gone on without. */
static struct pull *streaming_pull(struct exchange_link *link, uint64_t tag)
{
    struct pull *pull = pull_of_tag(link->exchange, tag);

    return pull != NULL && pull->link == link &&
                   (pull->state == PULL_STREAMING || (pull->state == PULL_ASKING && pull->streams))
               ? pull
               : NULL;
}

/* Whether a message came as it was to come: in a window of that pull, or in none. The last gives
 * back all windows that are left; so does an answer that is none, of the messages that waited for
 * it too: those are of no window any more. */
static bool is_where_granted(const struct exchange_link *link, const struct pull *pull,
                             const struct wire_chunk *chunk, const struct push_window *window)
{
    if (window != NULL && window->state != PUSH_FILLED) {
        return false;
    }
    if (window == NULL) {
        return pull == NULL || !pull->pushes;
    }
    return chunk->tag == window->tag && (pull == NULL || pull->pushes) &&
           ((chunk->flags & WIRE_LAST) == 0 || chunk->unused == push_count(link, chunk->tag) - 1);
}

/* What was granted for a message comes back, with the last all that is left of it. False: it was
 * not granted to that pull, nor to one that is gone. Windows may be granted again from here on:
 * what came is copied before anybody is told of that. */
static bool spend(struct exchange_link *link, struct pull *pull, const struct wire_chunk *chunk,
                  struct push_window *window)
{
    uint32_t *from = pull != NULL ? &pull->credits : messages_adrift(link, window != NULL);
    bool is_last = (chunk->flags & WIRE_LAST) != 0;

    if (!is_where_granted(link, pull, chunk, window)) {
        return false;
    }
    if (*from == 0 || (is_last && chunk->unused > *from - 1) ||
        (is_last && pull != NULL && chunk->unused != *from - 1)) {
        return false;
    }
    *from -= 1 + (is_last ? chunk->unused : 0);
    drop_grant(link, 1 + (is_last ? chunk->unused : 0));
    if (window != NULL && is_last) {
        push_release(link, chunk->tag);
    } else if (window != NULL) {
        push_taken(window);
    }
    return true;
}

static void take_probe(struct exchange_link *link, const struct bulk_message *message,
                       const struct wire_chunk *chunk, uint64_t now_us)
{
    if (chunk->bytes != message->count - sizeof(*chunk) ||
        !probe_on_message(link, chunk, message->bytes + sizeof(*chunk), now_us)) {
        link_break(link->link, NIGH_PROTOCOL, now_us);
        return;
    }
    give_back(link, message);
    grant_others(link, now_us);
}

static void take_message(struct exchange_link *link, const struct bulk_message *message,
                         uint64_t now_us)
{
    struct wire_chunk chunk;
    struct pull *pull;

    memcpy(&chunk, message->bytes, sizeof(chunk));
    if ((uint32_t)chunk.tag == EXCHANGE_PROBE_NUMBER && message->window == NULL) {
        take_probe(link, message, &chunk, now_us);
        return;
    }
    pull = streaming_pull(link, chunk.tag);
    if (chunk.bytes != message->count - sizeof(chunk) ||
        !spend(link, pull, &chunk, message->window)) {
        link_break(link->link, NIGH_PROTOCOL, now_us);
        return;
    }
    if (pull != NULL) {
        stream_chunk(link, pull, &chunk, message, now_us);
    } else {
        give_back(link, message);
    }
    grant_others(link, now_us);
}

/* The pull that waits for the answer to a LOCATE, which a message has overtaken: before it nothing
 * is known of the object, nor is there memory for it. NULL: there is none. */
static struct pull *locating_pull(struct exchange_link *link, const struct bulk_message *message)
{
    struct wire_chunk chunk;
    struct pull *pull;

    memcpy(&chunk, message->bytes, sizeof(chunk));
    /* What is written there may change: whom it was granted to does not. */
    pull = pull_of_tag(link->exchange, message->window != NULL ? message->window->tag : chunk.tag);
    return pull != NULL && pull->link == link && pull->state == PULL_LOCATING ? pull : NULL;
}

static void on_message(struct exchange_link *link, const struct bulk_message *message,
                       uint64_t now_us)
{
    struct pull *pull;

    if (message->count < sizeof(struct wire_chunk)) {
        link_break(link->link, NIGH_PROTOCOL, now_us);
        return;
    }
    if (message->window == NULL) {
        link_keep(link->link); /* until it is copied */
    }
    pull = locating_pull(link, message);
    if (pull == NULL) {
        take_message(link, message, now_us);
        return;
    }
    if (pull->held == pull->credits) {
        link_break(link->link, NIGH_PROTOCOL, now_us);
        return;
    }
    pull->held++;
    NIGH_ASSERT(link->held_count < link->exchange->config.bulk_receives);
    link->held[link->held_count++] = *message;
}

void messages_on_bulk(struct exchange_link *link, const uint8_t *bytes, uint32_t count,
                      uint64_t now_us)
{
    on_message(link, &(struct bulk_message){.bytes = bytes, .count = count}, now_us);
}

void messages_on_push(struct exchange_link *link, uint32_t imm, uint64_t count, uint64_t now_us)
{
    struct bulk_message message;

    if (count > UINT32_MAX || !push_arrived(link, imm, (uint32_t)count, &message)) {
        link_break(link->link, NIGH_PROTOCOL, now_us);
        return;
    }
    on_message(link, &message, now_us);
}

void messages_take_held(struct exchange_link *link, uint64_t now_us)
{
    uint32_t count = link->held_count;

    link->held_count = 0;
    for (uint32_t n = 0; n < count && !link_is_failing(link->link); n++) {
        struct bulk_message message = link->held[n];

        if (locating_pull(link, &message) != NULL) {
            link->held[link->held_count++] = message; /* another's: it waits on */
            continue;
        }
        take_message(link, &message, now_us);
    }
}

/* ---- what was granted in vain -------------------------------------------- */

void messages_unspent(struct pull *pull, nigh_status status, uint64_t now_us)
{
    struct exchange_link *link = pull->link;

    if (status == NIGH_TIMEOUT && pull->credits > 0) {
        /* It may send what it was granted, or not: only a new link tells. */
        link_break(link->link, NIGH_TIMEOUT, now_us);
        *messages_adrift(link, pull->pushes) += pull->credits;
        pull->credits = 0;
        return;
    }
    messages_unoffer(link, pull);
}

void messages_begin(struct exchange *exchange, struct pull *pull, struct exchange_link *link,
                    const struct wire_pulled *pulled, uint64_t now_us)
{
    if (pull->state == PULL_LOCATING) {
        pull->received = 0;
        pull->crc = 0;
    }
    pull_set_link(pull, link, PULL_STREAMING);
    pull->serve = pulled->serve;
    if (pull->last) {
        stream_over(exchange, pull);
    } else if (!pull->wanted) {
        transfer_stop(exchange, pull); /* who waited gave up while it was asked */
    } else if (pull->credits <= EXCHANGE_STREAM / 2) {
        messages_ask_more(link, pull, now_us);
    }
}

/* ---- what probes are granted ---------------------------------------------- */

bool messages_take(struct exchange_link *link, uint32_t count)
{
    if (count > free_of(link, 2)) {
        return false;
    }
    link->granted += count;
    link->exchange->granted += count;
    return true;
}

uint32_t messages_most(const struct exchange *exchange)
{
    const struct exchange_config *config = &exchange->config;

    return config->shared_bulk == 0 ? config->bulk_receives
                                    : min_u32(config->bulk_receives, config->shared_bulk);
}

void messages_drop(struct exchange_link *link, uint32_t count)
{
    drop_grant(link, count);
}
