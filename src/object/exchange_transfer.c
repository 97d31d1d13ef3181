/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a pull: inline in a reply, in messages (sent, or written into windows) that are
 * copied into place, or READ straight into place. Everything is summed on the way; a copy is sealed
 * only when the sums are right.
 *
 * Memory that a READ may still write to is not given back: a pull that is given up drains first.
 */
#include <stdlib.h>
#include <string.h>

#include "object/exchange_internal.h"

#define LOG_MODULE "exchange"
#include "base/log.h"

static uint8_t *place_of(const struct exchange *exchange, const struct pull *pull, uint64_t offset)
{
    return exchange->arena + pull->offset + offset;
}

/* Sums data among the bytes that have just come, in order. */
static void sum(struct exchange *exchange, struct pull *pull, uint64_t offset, uint64_t bytes)
{
    uint64_t data_size = pull->answer.object.data_size;

    if (offset < data_size) {
        uint64_t count = data_size - offset < bytes ? data_size - offset : bytes;

        links_flush(exchange->links); /* READs that are asked for do not wait for it */
        pull->crc = exchange_crc(pull->crc, place_of(exchange, pull, offset), count);
    }
}

/* ---- the end of a transfer ------------------------------------------------ */

static bool sums_are_right(struct exchange *exchange, const struct pull *pull)
{
    const struct directory_object *object = &pull->answer.object;
    uint32_t tail = exchange_crc(0, place_of(exchange, pull, index_meta_offset(object->data_size)),
                                 exchange_tail_bytes(object));

    return pull->crc == pull->sums.data_crc && tail == pull->sums.tail_crc;
}

/* Says that a transfer is over: no more messages of a stream are wanted (what was granted for it is
 * adrift), or a loan is. False: the channel is full. */
static bool say_over(struct exchange_link *link, enum wire_method method, uint64_t serve,
                     uint64_t now_us)
{
    struct wire_more more = {.serve = serve};
    struct rpc_piece piece = {.data = &more, .bytes = sizeof(more)};

    return rpc_one_way(link_rpc(link->link), (uint16_t)method, &piece, 1, now_us) != NIGH_BUSY;
}

/* What the channel has no room for is said in a while; or its link ends, and takes the pull on. */
static void later(struct exchange *exchange, struct pull *pull)
{
    if (!timer_is_armed(&pull->timer)) {
        pull_set_timer(exchange, pull, EXCHANGE_PAUSE_US);
    }
}

/* What the link's crossover may learn from. */
static void note_time(const struct exchange *exchange, struct pull *pull)
{
    if (pull->asked_us != 0 && pull->link != NULL &&
        (pull->way == WIRE_LOAN || pull->way == WIRE_STREAM)) {
        crossover_note(&pull->link->crossovers[pull->located],
                       pull->way == WIRE_LOAN ? CROSSOVER_ONE_SIDED : CROSSOVER_TWO_SIDED,
                       pull->content, exchange->now_us - pull->asked_us);
    }
}

/* All bytes are there, nothing is under way, and the holder's sums are known. */
static void finish(struct exchange *exchange, struct pull *pull)
{
    nigh_status status;

    if (!sums_are_right(exchange, pull)) {
        exchange->counts.crc_failures++;
        LOG_WARN("an object came with a wrong checksum", "from=%u",
                 pull->answer.holders[pull->holder]);
        pull->received = 0;
        pull->crc = 0;
        if (++pull->bad_sums < EXCHANGE_BAD_SUMS) {
            pull_next_holder(exchange, pull);
            return;
        }
        store_fail_wanted(exchange->config.store, pull->pool, pull->key.id, pull->hash,
                          NIGH_CORRUPT, exchange->now_us);
        exchange->counts.pulls_failed++;
        pull_end(exchange, pull);
        return;
    }
    status = store_pull_seal(exchange->config.store, pull->pool, pull->entry, pull->crc, pull->keep,
                             exchange->now_us);
    pull->has_memory = false; /* the store's, either way */
    if (status == NIGH_OK) {
        pull_announce(exchange, pull);
    }
    exchange->counts.pulls_done++;
    note_time(exchange, pull);
    pull_end(exchange, pull);
}

static void on_summed(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                      uint64_t now_us)
{
    struct pull *pull = context;
    struct exchange *exchange = pull->exchange;

    NIGH_ASSERT(pull->state == PULL_SUMMING);
    exchange->now_us = now_us;
    pull->serve = 0;
    if (status != NIGH_OK || bytes != sizeof(pull->sums)) {
        pull->received = 0;
        pull->crc = 0;
        pull_next_holder(exchange, pull);
        return;
    }
    memcpy(&pull->sums, payload, sizeof(pull->sums));
    finish(exchange, pull);
}

/* Every READ is in: the loan is over. */
static void all_read(struct exchange *exchange, struct pull *pull, uint64_t now_us)
{
    struct exchange_link *link = pull->link;
    struct wire_more more = {.serve = pull->serve};
    struct rpc_piece piece = {.data = &more, .bytes = sizeof(more)};

    if (pull->sums.known != 0) {
        if (!say_over(link, WIRE_DONE, pull->serve, now_us)) {
            later(exchange, pull);
            return;
        }
        exchange->counts.pulled_bytes_one_sided += pull->content;
        pull->serve = 0;
        finish(exchange, pull);
        return;
    }
    if (rpc_call(link_rpc(link->link), WIRE_DONE, &piece, 1, UINT64_MAX, now_us, on_summed, pull,
                 NULL) != NIGH_OK) {
        later(exchange, pull);
        return;
    }
    exchange->counts.pulled_bytes_one_sided += pull->content;
    pull->heard_us = now_us;
    pull->state = PULL_SUMMING;
}

/* ---- READs ---------------------------------------------------------------- */

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

/* A pull that was given up, or whose loan covers no more of it, and whose READs are over. */
static void drained(struct exchange *exchange, struct pull *pull, uint64_t now_us)
{
    if (!say_over(pull->link, WIRE_DONE, pull->serve, now_us)) {
        later(exchange, pull);
        return;
    }
    pull->serve = 0;
    if (pull->wanted) {
        pull_ready(exchange, pull);
    } else {
        pull_end(exchange, pull);
    }
}

/* What a READ brought is summed. They end in the order of their posts. */
static void advance(struct exchange *exchange, struct pull *pull, const struct pull_read *read)
{
    NIGH_ASSERT(read->offset == pull->received);
    sum(exchange, pull, pull->received, read->bytes);
    pull->received += read->bytes;
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
    struct pull_read read = *(struct pull_read *)context;
    struct pull *pull = read.pull;
    struct exchange *exchange = pull->exchange;

    exchange->now_us = now_us;
    give_read(exchange, context);
    NIGH_ASSERT(pull->reads > 0);
    pull->reads--;
    pull->heard_us = now_us;
    if (status != NIGH_OK) {
        return; /* the link is going down, and takes the pull on: pull_link_down */
    }
    if (pull->state == PULL_DRAINING) {
        if (pull->reads == 0) {
            drained(exchange, pull, now_us);
        }
        return;
    }
    if (link_is_failing(pull->link->link)) {
        return; /* READs before this one may have failed: the same */
    }
    advance(exchange, pull, &read);
    if (!pull->wanted) {
        transfer_stop(exchange, pull);
    } else if (pull->received == pull->content) {
        all_read(exchange, pull, now_us);
    } else {
        renew(pull, now_us);
        transfer_go_on(exchange, pull, now_us);
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
        .address = place_of(exchange, pull, pull->posted),
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
    pull->reads++;
    pull->posted += slice.bytes;
    return true;
}

void transfer_go_on(struct exchange *exchange, struct pull *pull, uint64_t now_us)
{
    bool has_piece = true;

    if (pull->received == pull->content) {
        all_read(exchange, pull, now_us);
        return;
    }
    while (pull->posted < pull->content && pull->reads < EXCHANGE_WINDOW) {
        has_piece = find_piece(pull);
        if (!has_piece || !read_chunk(exchange, pull)) {
            break;
        }
    }
    if (pull->reads == 0 && !has_piece) {
        drained(exchange, pull, now_us); /* the rest is another loan */
    } else if (pull->reads == 0) {
        later(exchange, pull);
    }
}

/* What a holder says of where its bytes lie, checked: pieces behind each other, within the object,
 * none shorter than an extent may be, but for the ends. */
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
        if (n > 0 && bytes < LIMIT_EXTENT_BYTES_MIN && at < pull->content) {
            return false;
        }
    }
    return pull->state != PULL_ASKING || at > pull->received || pull->received == pull->content;
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

void transfer_give_run(struct exchange *exchange, struct pull *pull)
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

void transfer_free_runs(struct exchange *exchange)
{
    while (exchange->free_runs != NULL) {
        free(take_run(exchange));
    }
}

/* NIGH_PROTOCOL: they are not what they should be; NIGH_NO_RESOURCES. */
static nigh_status take_pieces(struct pull *pull, const struct wire_pulled *pulled,
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

/* The pieces are there, and right. */
static void begin_reading(struct exchange *exchange, struct pull *pull, struct exchange_link *link,
                          const struct wire_pulled *pulled, uint64_t now_us)
{
    pull_set_link(pull, link, PULL_READING);
    pull->serve = pulled->serve;
    pull->sums = pulled->sums;
    if (pull->received == 0) {
        pull->crc = 0;
    }
    pull->posted = pull->received;
    pull->renew_us = now_us + EXCHANGE_RENEW_US;
    if (pull->wanted) {
        transfer_go_on(exchange, pull, now_us);
    } else {
        transfer_stop(exchange, pull); /* who waited gave up while it was asked */
    }
}

/* ---- messages ------------------------------------------------------------- */

static uint32_t chunk_bytes(const struct exchange *exchange, const struct pull *pull)
{
    return pull->pushes ? push_room(exchange)
                        : exchange->config.bulk_bytes - (uint32_t)sizeof(struct wire_chunk);
}

_Static_assert(EXCHANGE_STREAM <= WIRE_WINDOWS, "what is granted at once is said at once");

/* How many messages a pull may be sent on top: as its bytes need, and as receives are free; where
 * it is pushed, to which windows. */
static uint32_t grant(struct exchange_link *link, struct pull *pull, struct wire_window *windows)
{
    struct exchange *exchange = link->exchange;
    uint64_t room = chunk_bytes(exchange, pull);
    uint64_t chunks = (pull->content - pull->received + room - 1) / room;
    uint32_t free = exchange->config.bulk_receives - link->granted;
    uint32_t most = EXCHANGE_STREAM;
    uint32_t count;

    most = chunks < most ? (uint32_t)chunks : most;
    count = most > pull->credits ? most - pull->credits : 0;
    count = count < free ? count : free;
    link->granted += count;
    pull->credits += count;
    if (pull->pushes) {
        push_grant(link, pull_tag(exchange, pull), count, windows);
    }
    return count;
}

void transfer_offer(struct exchange_link *link, struct pull *pull, struct wire_window *windows)
{
    uint32_t most = link->exchange->config.bulk_receives / 2; /* the rest is for what is known */
    uint32_t spare = link->granted < most ? most - link->granted : 0;

    NIGH_ASSERT(pull->credits == 0 && pull->held == 0);
    pull->credits = spare < EXCHANGE_OFFER ? spare : EXCHANGE_OFFER;
    link->granted += pull->credits;
    pull->last = false;
    pull->pushes = push_is_chosen(link);
    if (pull->pushes) {
        push_grant(link, pull_tag(link->exchange, pull), pull->credits, windows);
    }
}

uint32_t *transfer_adrift(struct exchange_link *link, bool pushed)
{
    return pushed ? &link->adrift_windows : &link->adrift;
}

void transfer_unoffer(struct exchange_link *link, struct pull *pull)
{
    push_release(link, pull_tag(link->exchange, pull));
    link->granted -= pull->credits;
    pull->credits = 0;
}

/* Wants more messages of a stream. One that may send none looks again in a while: its channel is
 * full, or all receives are granted to others, who perhaps give them back unused. */
static void ask_more(struct exchange_link *link, struct pull *pull, uint64_t now_us)
{
    struct wire_more more = {.serve = pull->serve};
    struct wire_window windows[WIRE_WINDOWS];
    struct rpc_piece pieces[2] = {{.data = &more, .bytes = sizeof(more)}, {.data = windows}};

    more.credits = pull->wanted ? grant(link, pull, windows) : 0;
    pieces[1].bytes = pull->pushes ? more.credits * (uint32_t)sizeof(*windows) : 0;
    if (more.credits > 0 &&
        rpc_one_way(link_rpc(link->link), WIRE_MORE, pieces, 2, now_us) != NIGH_OK) {
        push_take_back(link, windows, pull->pushes ? more.credits : 0);
        link->granted -= more.credits;
        pull->credits -= more.credits;
    }
    if (pull->credits == 0) {
        later(link->exchange, pull);
    }
}

/* Receives have become free: streams that stand still go on. */
static void grant_others(struct exchange_link *link, uint64_t now_us)
{
    LIST_FOREACH(node, &link->pulls)
    {
        struct pull *pull = container_of(node, struct pull, place);

        if (pull->state == PULL_STREAMING && pull->credits == 0) {
            ask_more(link, pull, now_us);
        }
    }
}

void transfer_look_again(struct exchange *exchange, struct pull *pull, uint64_t now_us)
{
    if (pull->state == PULL_DRAINING) {
        drained(exchange, pull, now_us);
    } else if (!pull->wanted) {
        transfer_stop(exchange, pull);
    } else if (pull->state == PULL_READING) {
        transfer_go_on(exchange, pull, now_us);
    } else if (pull->credits == 0) {
        ask_more(pull->link, pull, now_us);
    }
}

static void take_chunk(struct exchange *exchange, struct pull *pull, const struct wire_chunk *chunk,
                       const uint8_t *bytes)
{
    memcpy(place_of(exchange, pull, chunk->offset), bytes, chunk->bytes);
    sum(exchange, pull, chunk->offset, chunk->bytes);
    pull->received += chunk->bytes;
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
    finish(exchange, pull);
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
        ask_more(link, pull, now_us);
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
    uint32_t *from = pull != NULL ? &pull->credits : transfer_adrift(link, window != NULL);
    bool is_last = (chunk->flags & WIRE_LAST) != 0;

    if (!is_where_granted(link, pull, chunk, window)) {
        return false;
    }
    if (*from == 0 || (is_last && chunk->unused > *from - 1) ||
        (is_last && pull != NULL && chunk->unused != *from - 1)) {
        return false;
    }
    *from -= 1 + (is_last ? chunk->unused : 0);
    link->granted -= 1 + (is_last ? chunk->unused : 0);
    if (window != NULL && is_last) {
        push_release(link, chunk->tag);
    } else if (window != NULL) {
        push_taken(window);
    }
    return true;
}

static void take_message(struct exchange_link *link, const struct bulk_message *message,
                         uint64_t now_us)
{
    struct wire_chunk chunk;
    struct pull *pull;

    memcpy(&chunk, message->bytes, sizeof(chunk));
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

void transfer_on_bulk(struct exchange_link *link, const uint8_t *bytes, uint32_t count,
                      uint64_t now_us)
{
    on_message(link, &(struct bulk_message){.bytes = bytes, .count = count}, now_us);
}

void transfer_on_push(struct exchange_link *link, uint32_t imm, uint64_t count, uint64_t now_us)
{
    struct bulk_message message;

    if (count > UINT32_MAX || !push_arrived(link, imm, (uint32_t)count, &message)) {
        link_break(link->link, NIGH_PROTOCOL, now_us);
        return;
    }
    on_message(link, &message, now_us);
}

void transfer_take_held(struct exchange_link *link, uint64_t now_us)
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

/* ---- asking --------------------------------------------------------------- */

void transfer_unspent(struct pull *pull, nigh_status status, uint64_t now_us)
{
    struct exchange_link *link = pull->link;

    if (status == NIGH_TIMEOUT && pull->credits > 0) {
        /* It may send what it was granted, or not: only a new link tells. */
        link_break(link->link, NIGH_TIMEOUT, now_us);
        *transfer_adrift(link, pull->pushes) += pull->credits;
        pull->credits = 0;
        return;
    }
    transfer_unoffer(link, pull);
}

static void on_pulled(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                      uint64_t now_us)
{
    struct pull *pull = context;
    struct exchange *exchange = pull->exchange;

    NIGH_ASSERT(pull->state == PULL_ASKING);
    exchange->now_us = now_us;
    if (status == NIGH_OK) {
        transfer_pulled(exchange, pull, payload, bytes, now_us);
        return;
    }
    pull->link->push_refused |= pull->pushes && status == NIGH_UNSUPPORTED;
    transfer_unspent(pull, status, now_us);
    if (status == NIGH_BUSY || (pull->pushes && status == NIGH_UNSUPPORTED)) {
        pull_pause(exchange, pull);
    } else {
        pull_next_holder(exchange, pull);
    }
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

/* What was read of one loan need not come again: the rest is read, too. */
static bool goes_on_by_loan(const struct pull *pull)
{
    return pull->way == WIRE_LOAN && pull->received > 0 &&
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

bool transfer_ask(struct exchange *exchange, struct pull *pull, uint64_t now_us)
{
    uint32_t rank = pull->answer.holders[pull->holder];
    struct exchange_link *link = exchange_link_to(exchange, rank, pull->hash);
    struct wire_pull wanted = {
        .key = pull->key,
        .birth = pull->answer.object.birth,
        .tag = pull_tag(exchange, pull),
    };
    struct wire_window windows[WIRE_WINDOWS];
    struct rpc_piece pieces[2] = {{.data = &wanted, .bytes = sizeof(wanted)}, {.data = windows}};

    pull->credits = 0;
    pull->last = false;
    if (link == NULL) {
        return false;
    }
    begin_timing(exchange, pull, link, rank);
    wanted.way = way_of(pull, link);
    pull->streams = wanted.way != WIRE_LOAN;
    pull->pushes = wanted.way == WIRE_PUSH;
    if (pull->streams) {
        pull->received = 0;
        pull->crc = 0;
    } else {
        wanted.tag = pull->received;
    }
    if (pull->streams && pull->content > exchange->inline_bytes) {
        wanted.credits = grant(link, pull, windows);
        if (wanted.credits == 0) {
            return false;
        }
    }
    pieces[1].bytes = pull->pushes ? wanted.credits * (uint32_t)sizeof(*windows) : 0;
    if (rpc_call(link_rpc(link->link), WIRE_PULL, pieces, 2, now_us + EXCHANGE_CALL_US, now_us,
                 on_pulled, pull, NULL) != NIGH_OK) {
        transfer_unoffer(link, pull);
        return false;
    }
    pull_set_link(pull, link, PULL_ASKING);
    return true;
}

/* ---- answers -------------------------------------------------------------- */

static void take_inline(struct exchange *exchange, struct pull *pull,
                        const struct wire_pulled *pulled, const uint8_t *bytes)
{
    memcpy(place_of(exchange, pull, 0), bytes, pull->content);
    pull->received = pull->content;
    pull->crc = exchange_crc(0, place_of(exchange, pull, 0), pull->answer.object.data_size);
    pull->sums = pulled->sums;
    exchange->counts.pulled_bytes_two_sided += pull->content;
    finish(exchange, pull);
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

/* Now, or in a while: the pull goes on without that. */
static void say_declined(struct exchange_link *link, enum wire_method method, uint64_t serve,
                         uint64_t now_us)
{
    struct exchange *exchange = link->exchange;

    if (say_over(link, method, serve, now_us)) {
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

            if (!say_over(link, last->method, last->serve, now_us)) {
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
        say_declined(link, WIRE_DONE, pulled->serve, now_us);
    } else if (pulled->way == WIRE_STREAM || pulled->way == WIRE_PUSH) {
        say_declined(link, WIRE_STOP, pulled->serve, now_us);
        pull->generation++; /* what comes of it all the same is for nobody */
    }
    pull_unnote(exchange, pull);
}

/* Messages are under way; some, or all, are here already. */
static void begin_streaming(struct exchange *exchange, struct pull *pull,
                            struct exchange_link *link, const struct wire_pulled *pulled,
                            uint64_t now_us)
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
        ask_more(link, pull, now_us);
    }
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
    if (pulled.state != WIRE_PULLED || !accept_served(pull, link, &pulled)) {
        goto breach;
    }
    if (pulled.way != WIRE_STREAM && pulled.way != WIRE_PUSH) {
        transfer_unoffer(link, pull); /* none of them is needed */
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
        status = take_pieces(pull, &pulled, payload + sizeof(pulled), bytes - sizeof(pulled));
        if (status == NIGH_PROTOCOL) {
            goto breach;
        }
        if (status != NIGH_OK) {
            decline(exchange, pull, link, &pulled, now_us);
            pull_pause(exchange, pull);
            return;
        }
        begin_reading(exchange, pull, link, &pulled, now_us);
        return;
    case WIRE_STREAM:
    case WIRE_PUSH:
        if (!pull->streams || pull->pushes != (pulled.way == WIRE_PUSH)) {
            goto breach;
        }
        begin_streaming(exchange, pull, link, &pulled, now_us);
        return;
    }

breach:
    link_break(link->link, NIGH_PROTOCOL, now_us);
    pull_next_holder(exchange, pull);
}

/* ---- giving up ------------------------------------------------------------ */

void transfer_stop(struct exchange *exchange, struct pull *pull)
{
    struct exchange_link *link = pull->link;

    if (pull->state == PULL_READING && pull->reads > 0) {
        timers_cancel(&exchange->timers, &pull->timer);
        pull->state = PULL_DRAINING;
        return;
    }
    if (!say_over(link, pull->state == PULL_READING ? WIRE_DONE : WIRE_STOP, pull->serve,
                  exchange->now_us)) {
        later(exchange, pull);
        return;
    }
    pull->serve = 0;
    pull_end(exchange, pull);
}
