/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a pull that are lent: READ straight into place, piece by piece of what the holder
 * says of where they lie. Its word is checked; what it lent is given back when the last READ is in,
 * never before.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "object/exchange_figures.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_memory.h"
#include "object/exchange_pull.h"
#include "object/exchange_reads.h"
#include "object/exchange_transfer.h"
#include "object/exchange_tree.h"
#include "object/exchange_wire.h"

/* ---- the end of a loan --------------------------------------------------- */

static void on_summed(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                      uint64_t now_us)
{
    struct pull *pull = context;
    struct exchange *exchange = pull->exchange;

    NIGH_ASSERT(pull->state == PULL_SUMMING);
    exchange->now_us = now_us;
    pull->serve = 0;
    if (status == NIGH_NOT_FOUND && pull->mixed) {
        pull_next_holder(exchange, pull); /* the bytes may be right: another holder says */
        return;
    }
    if (status != NIGH_OK || bytes != sizeof(pull->sums)) {
        tree_spoil(exchange, pull);
        pull_next_holder(exchange, pull);
        return;
    }
    memcpy(&pull->sums, payload, sizeof(pull->sums));
    transfer_finish(exchange, pull);
}

/* Every READ is in: the loan is over. */
static void all_read(struct exchange *exchange, struct pull *pull, uint64_t now_us)
{
    struct exchange_link *link = pull->link;
    struct wire_more more = {.serve = pull->serve};
    struct rpc_piece piece = {.data = &more, .bytes = sizeof(more)};

    if (pull->sums.known != 0) {
        if (!transfer_say_over(link, WIRE_DONE, pull->serve, now_us)) {
            transfer_later(exchange, pull);
            return;
        }
        exchange->counts.pulled_bytes_one_sided += pull->content;
        pull->serve = 0;
        transfer_finish(exchange, pull);
        return;
    }
    if (rpc_call(link_rpc(link->link), WIRE_DONE, &piece, 1, UINT64_MAX, now_us, on_summed, pull,
                 NULL) != NIGH_OK) {
        transfer_later(exchange, pull);
        return;
    }
    exchange->counts.pulled_bytes_one_sided += pull->content;
    pull->heard_us = now_us;
    pull->state = PULL_SUMMING;
}

/* ---- READs --------------------------------------------------------------- */

static struct pull_read *take_read(struct exchange *exchange)
{
    struct pull_read *read;

    if (exchange->free_read != UINT32_MAX) {
        read = &exchange->reads[exchange->free_read];
        exchange->free_read = read->next;
        return read;
    }
    return exchange->reads_used < LIMIT_PULL_READS ? &exchange->reads[exchange->reads_used++]
                                                   : NULL;
}

static void give_read(struct exchange *exchange, struct pull_read *read)
{
    read->next = exchange->free_read;
    exchange->free_read = (uint32_t)(read - exchange->reads);
}

void reads_drained(struct exchange *exchange, struct pull *pull, uint64_t now_us)
{
    if (!transfer_say_over(pull->link, WIRE_DONE, pull->serve, now_us)) {
        transfer_later(exchange, pull);
        return;
    }
    pull->serve = 0;
    if (pull->wanted) {
        pull_ready(exchange, pull);
    } else {
        pull_end(exchange, pull);
    }
}

static void queue_read(struct exchange *exchange, struct pull *pull, struct pull_read *read)
{
    uint32_t number = (uint32_t)(read - exchange->reads);

    if (pull->in_order++ == 0) {
        pull->first_read = number;
    } else {
        exchange->reads[pull->last_read].next = number;
    }
    pull->last_read = number;
    pull->reads++;
}

/* READs over several endpoints end in any order, and what they brought is summed in the order of
 * their posts: those at whose end everything before has come. Not `counts`: it is of no use. */
static void advance(struct exchange *exchange, struct pull *pull, bool counts)
{
    while (pull->in_order > 0 && exchange->reads[pull->first_read].is_over) {
        struct pull_read *read = &exchange->reads[pull->first_read];

        if (counts) {
            NIGH_ASSERT(read->offset == pull->received);
            transfer_sum(exchange, pull, pull->received, read->bytes);
            pull->received += read->bytes;
            tree_advanced(exchange, pull);
        }
        pull->in_order--;
        pull->first_read = read->next;
        give_read(exchange, read);
    }
}

static void renew(struct pull *pull, uint64_t now_us)
{
    struct wire_more more = {.serve = pull->serve};
    struct rpc_piece piece = {.data = &more, .bytes = sizeof(more)};

    if (now_us >= pull->renew_us) {
        pull->renew_us = now_us + EXCHANGE_RENEW_US;
        (void)rpc_one_way(link_rpc(pull->link->link), WIRE_MORE, &piece, 1, now_us);
    }
}

static void on_read(void *context, nigh_status status, uint64_t now_us)
{
    struct pull_read *read = context;
    struct pull *pull = read->pull;
    struct exchange *exchange = pull->exchange;
    /* Of a link that is going down one that failed may have been before this one; pull_link_down
     * takes the pull on. */
    bool counts =
        status == NIGH_OK && pull->state != PULL_DRAINING && !link_is_failing(pull->link->link);

    exchange->now_us = now_us;
    NIGH_ASSERT(pull->reads > 0);
    pull->reads--;
    pull->heard_us = now_us;
    read->is_over = true;
    advance(exchange, pull, counts);
    if (status != NIGH_OK) {
        return;
    }
    if (pull->state == PULL_DRAINING) {
        if (pull->reads == 0) {
            reads_drained(exchange, pull, now_us);
        }
        return;
    }
    if (!counts) {
        return;
    }
    if (!pull->wanted) {
        transfer_stop(exchange, pull);
    } else if (pull->received == pull->content) {
        all_read(exchange, pull, now_us);
    } else {
        renew(pull, now_us);
        reads_go_on(exchange, pull, now_us);
    }
}

/* The piece that the next READ is of. False: the loan goes no further. */
static bool find_piece(struct pull *pull)
{
    while (pull->piece < pull->piece_count &&
           pull->posted - pull->piece_at >= pull->run->pieces[pull->piece].bytes) {
        pull->piece_at += pull->run->pieces[pull->piece++].bytes;
    }
    return pull->piece < pull->piece_count;
}

/* One more READ, of a piece there and of an extent here; false: not now. */
static bool read_chunk(struct exchange *exchange, struct pull *pull)
{
    const struct wire_piece *piece = &pull->run->pieces[pull->piece];
    uint64_t skipped = pull->posted - pull->piece_at, left;
    struct fabric_slice slice = {
        .address = transfer_place(exchange, pull, pull->posted),
        .memory = memory_at(exchange, pull->offset + pull->posted, &left),
    };
    struct fabric_remote remote = {.address = piece->address + skipped, .key = piece->key};
    struct pull_read *read = take_read(exchange);

    if (read == NULL) {
        return false;
    }
    left = min_u64(left, piece->bytes - skipped);
    slice.bytes = min_u64(left, exchange->config.chunk_bytes);
    *read = (struct pull_read){.pull = pull, .offset = pull->posted, .bytes = slice.bytes};
    if (link_read(pull->link->link, &slice, 1, remote, on_read, read) != NIGH_OK) {
        give_read(exchange, read);
        return false;
    }
    queue_read(exchange, pull, read);
    pull->posted += slice.bytes;
    return true;
}

void reads_go_on(struct exchange *exchange, struct pull *pull, uint64_t now_us)
{
    bool has_piece = true;

    if (pull->received == pull->content) {
        all_read(exchange, pull, now_us);
        return;
    }
    while (pull->posted < pull->content && pull->in_order < EXCHANGE_WINDOW) {
        has_piece = find_piece(pull);
        if (!has_piece || !read_chunk(exchange, pull)) {
            break;
        }
    }
    if (pull->reads == 0 && !has_piece && pull->partial) {
        tree_go_on(exchange, pull, now_us);
    } else if (pull->reads == 0 && !has_piece) {
        reads_drained(exchange, pull, now_us); /* the rest is another loan */
    } else if (pull->reads == 0) {
        transfer_later(exchange, pull);
    }
}

/* ---- pieces -------------------------------------------------------------- */

/* What a holder says of where its bytes lie, checked: pieces behind each other, within the object,
 * none shorter than an extent may be, but for the ends. What is partial may end anywhere. */
static bool are_pieces_right(const struct pull *pull, const struct wire_pulled *pulled)
{
    uint64_t at = pulled->from;

    if (pulled->from > pull->received) {
        return false;
    }
    for (uint32_t n = 0; n < pulled->pieces; n++) {
        uint64_t bytes = pull->run->pieces[n].bytes;

        if (bytes == 0 || bytes > pull->content - at) {
            return false;
        }
        at += bytes;
        if (n > 0 && bytes < LIMIT_EXTENT_BYTES_MIN && at < pull->content &&
            (n + 1 < pulled->pieces || pulled->partial != 1)) {
            return false;
        }
    }
    return pull->state != PULL_ASKING || at > pull->received || pull->received == pull->content ||
           pulled->partial == 1;
}

static union piece_run *take_run(struct exchange *exchange)
{
    union piece_run *run = exchange->free_runs;

    if (run == NULL) {
        return malloc(sizeof(*run));
    }
    exchange->free_runs = run->next;
    exchange->free_run_count--;
    return run;
}

void reads_give_run(struct exchange *exchange, struct pull *pull)
{
    union piece_run *run = pull->run;

    pull->run = NULL;
    pull->piece_count = pull->piece = 0;
    if (run == NULL || exchange->free_run_count == EXCHANGE_RUNS) {
        free(run);
        return;
    }
    run->next = exchange->free_runs;
    exchange->free_runs = run;
    exchange->free_run_count++;
}

void reads_free_runs(struct exchange *exchange)
{
    while (exchange->free_runs != NULL) {
        free(take_run(exchange));
    }
}

nigh_status reads_take_pieces(struct pull *pull, const struct wire_pulled *pulled,
                              const uint8_t *pieces, uint32_t bytes)
{
    pull->piece_count = pull->piece = 0;
    pull->piece_at = pulled->from;
    if (pulled->pieces > EXCHANGE_PIECES || bytes != pulled->pieces * sizeof(struct wire_piece)) {
        return NIGH_PROTOCOL;
    }
    if (pull->run == NULL) {
        pull->run = take_run(pull->exchange);
    }
    if (pull->run == NULL) {
        return NIGH_NO_RESOURCES;
    }
    memcpy(pull->run->pieces, pieces, bytes);
    pull->piece_count = pulled->pieces;
    return are_pieces_right(pull, pulled) ? NIGH_OK : NIGH_PROTOCOL;
}

void reads_begin(struct exchange *exchange, struct pull *pull, struct exchange_link *link,
                 const struct wire_pulled *pulled, uint64_t now_us)
{
    pull_set_link(pull, link, PULL_READING);
    pull->serve = pulled->serve;
    pull->sums = pulled->sums;
    pull->partial = pulled->partial == 1;
    pull->mixed = pull->mixed || (pull->partial && pulled->sums.known == 0);
    if (pull->received == 0) {
        pull->crc = 0;
    }
    pull->posted = pull->received;
    pull->renew_us = now_us + EXCHANGE_RENEW_US;
    if (pull->wanted) {
        reads_go_on(exchange, pull, now_us);
    } else {
        transfer_stop(exchange, pull); /* who waited gave up while it was asked */
    }
}
