/* SPDX-License-Identifier: Apache-2.0 */
/* How a change is carried out: its rounds, whom each asks, and what their answers bring. */
#include "region/home_internal.h"

/* ---- whom a round asks ---------------------------------------------------- */

/* Chunks of a set that a descriptor has at a node. */
static struct region_chunks chunks_at(const struct region_descriptor *descriptor,
                                      const struct region_chunks *of, uint32_t node)
{
    struct region_chunks chunks = {0};

    for (uint32_t n = 0; n < descriptor->chunk_count; n++) {
        if (region_chunks_has(of, n) && descriptor->chunks[n].node == node) {
            region_chunks_add(&chunks, n);
        }
    }
    return chunks;
}

/* Whether a round has something to ask of a member; the message, but for whom it is to. */
static bool make_message(const struct region_home *home, uint32_t rank,
                         struct region_message *message)
{
    const struct region_change *change = &home->change;
    const struct region_descriptor *now = home->config.now, *next = home->config.next;

    *message = (struct region_message){.change = change->version, .is_move = change->is_move};
    switch (change->round) {
    case REGION_ROUND_PREPARE:
        message->kind = REGION_PREPARE;
        message->geometry = next->geometry;
        message->is_mappable = (next->flags & REGION_MAPPABLE) != 0;
        message->donation = change->donation;
        message->chunks = chunks_at(next, &change->made, rank);
        return !region_chunks_is_empty(&message->chunks);
    case REGION_ROUND_HOLD:
        message->kind = REGION_HOLD;
        message->chunks = change->frozen;
        message->is_move = false;
        return !region_chunks_is_empty(&message->chunks) && region_set_has(&home->mappers, rank);
    case REGION_ROUND_FREEZE:
        message->kind = REGION_FREEZE;
        message->chunks = chunks_at(now, &change->frozen, rank);
        return !region_chunks_is_empty(&message->chunks);
    case REGION_ROUND_COPY:
        message->kind = REGION_COPY;
        message->source = change->source;
        message->chunks = chunks_at(next, &change->made, rank);
        return change->is_move && !region_chunks_is_empty(&message->chunks);
    case REGION_ROUND_COMMIT:
        message->kind = REGION_COMMIT;
        message->descriptor = next;
        return true;
    case REGION_ROUND_THAW:
        message->kind = REGION_THAW;
        message->base = now->version;
        return true;
    case REGION_ROUND_SETTLE:
        message->kind = REGION_SETTLE;
        message->descriptor = region_descriptor_is_none(now) ? NULL : now;
        return true;
    case REGION_ROUND_NONE:
    case REGION_ROUND_END: break;
    }
    return false;
}

void home_send_round(struct region_home *home, uint32_t rank)
{
    struct region_message message;

    if (make_message(home, rank, &message)) {
        message.peer = rank;
        home_send(home, &message);
    }
}

static void begin_round(struct region_home *home)
{
    struct region_change *change = &home->change;
    const struct region_set *asked =
        change->round == REGION_ROUND_HOLD ? &home->mappers : &change->nodes;
    struct region_message message;

    memset(&change->waits, 0, sizeof(change->waits));
    REGION_SET_FOREACH(rank, asked)
    {
        if (home_is_alive(home, rank) && make_message(home, rank, &message)) {
            region_set_add(&change->waits, rank);
            message.peer = rank;
            home_send(home, &message);
        }
    }
}

/* ---- answers -------------------------------------------------------------- */

/* Handles that a holder gave its chunks; and chunks that it should have and has not. */
static void take_handles(struct region_home *home, const struct region_message *message)
{
    struct region_descriptor *now = home->config.now;

    for (uint32_t n = 0; n < now->chunk_count; n++) {
        struct region_chunk *chunk = &now->chunks[n];

        if (chunk->node != message->peer) {
            continue;
        }
        chunk->handle = n < message->handle_count ? message->handles[n] : REGION_NO_WINDOW;
        if (!region_chunks_has(&message->chunks, n)) {
            region_chunk_lose(chunk);
            home->has_losses = true;
        }
    }
}

static enum region_message_kind asked_in(enum region_round round)
{
    switch (round) {
    case REGION_ROUND_PREPARE: return REGION_PREPARE;
    case REGION_ROUND_HOLD: return REGION_HOLD;
    case REGION_ROUND_FREEZE: return REGION_FREEZE;
    case REGION_ROUND_COPY: return REGION_COPY;
    case REGION_ROUND_COMMIT: return REGION_COMMIT;
    case REGION_ROUND_THAW: return REGION_THAW;
    case REGION_ROUND_SETTLE: return REGION_SETTLE;
    case REGION_ROUND_NONE:
    case REGION_ROUND_END: break;
    }
    return REGION_DONE; /* which nobody asks for */
}

/* Whether who says that it made, or copied, a chunk says that it has it, too. What a move prepares
 * has no bytes of the chunk yet. */
static bool has_made(const struct region_home *home, const struct region_message *message)
{
    const struct region_change *change = &home->change;
    struct region_chunks made = chunks_at(home->config.next, &change->made, message->peer);
    bool counts = change->round == REGION_ROUND_COPY ||
                  (change->round == REGION_ROUND_PREPARE && !change->is_move);

    for (uint32_t n = 0; n < REGION_CHUNK_WORDS && counts; n++) {
        if ((made.words[n] & ~message->chunks.words[n]) != 0) {
            return false;
        }
    }
    return true;
}

/* Who says that it made chunks is the one that has them: until it has answered it might be started
 * again, and the next one be asked. */
static void note_makers(struct region_home *home, uint32_t rank)
{
    const struct region_home_shell *shell = &home->config.shell;
    struct region_descriptor *next = home->config.next;

    for (uint32_t n = 0; n < next->chunk_count; n++) {
        if (region_chunks_has(&home->change.made, n) && next->chunks[n].node == rank) {
            next->chunks[n].incarnation = shell->incarnation(shell->context, rank);
        }
    }
}

/* From where a move copies: who has the chunk says that it has lent it, and how it is read. */
static void take_source(struct region_home *home, const struct region_message *message)
{
    const struct region_home_shell *shell = &home->config.shell;
    struct region_change *change = &home->change;
    struct region_window handle =
        change->chunk < message->handle_count ? message->handles[change->chunk] : REGION_NO_WINDOW;

    if (region_window_is_none(handle)) {
        change->status = NIGH_BUSY;
    }
    change->source =
        (struct region_place){.node = message->peer,
                              .incarnation = shell->incarnation(shell->context, message->peer),
                              .handle = handle};
}

void home_done(struct region_home *home, const struct region_message *message)
{
    struct region_change *change = &home->change;

    if (message->of != asked_in(change->round) ||
        !region_version_equal(&message->change, &change->version) ||
        !region_set_has(&change->waits, message->peer)) {
        return;
    }
    region_set_remove(&change->waits, message->peer);
    if (change->round == REGION_ROUND_HOLD) {
        return; /* a mapper has no say in it */
    }
    if (home_may_abort(home) && message->status != NIGH_OK) {
        change->status = message->status;
    } else if (!has_made(home, message)) {
        change->status = NIGH_BUSY;
    } else if (change->round == REGION_ROUND_PREPARE) {
        note_makers(home, message->peer);
    } else if (change->round == REGION_ROUND_THAW && message->status != NIGH_OK) {
        region_set_add(&home->held, message->peer); /* it keeps something else: it is told */
    } else if (change->round == REGION_ROUND_FREEZE && change->is_move) {
        take_source(home, message);
    } else if (change->round >= REGION_ROUND_THAW) {
        take_handles(home, message);
    }
}

/* ---- one round after the other -------------------------------------------- */

static void tell_mappers(struct region_home *home)
{
    REGION_SET_FOREACH(rank, &home->mappers)
    {
        struct region_message message = {
            .kind = REGION_CHANGED, .peer = rank, .change = home->config.now->version};

        home_send(home, &message);
    }
}

/* It is over. Who waits for it has its answer last, as that may come with more. */
static void end_change(struct region_home *home)
{
    struct region_descriptor *now = home->config.now;
    struct region_ask *ask = home->change.ask;
    nigh_status status = home->change.status;

    if (status == NIGH_OK && !home->change.had_lease) {
        status = NIGH_NO_QUORUM;
    }
    if (region_descriptor_is_freed(now)) {
        region_descriptor_clear(now);
    }
    if (home->change.is_fence) {
        home->is_fenced = home->change.status == NIGH_OK && !home->wants_fence;
        home->wants_fence = !home->is_fenced;
    }
    home->state = region_descriptor_is_none(now) ? REGION_HOME_EMPTY : REGION_HOME_OPEN;
    memset(&home->change, 0, sizeof(home->change));
    tell_mappers(home);
    if (home->state == REGION_HOME_EMPTY) {
        memset(&home->mappers, 0, sizeof(home->mappers));
    }
    if (ask != NULL) {
        home_answer(home, ask, status);
    }
}

/* What is frozen, or was, has no handle any more. */
static void forget_handles(struct region_home *home)
{
    struct region_descriptor *now = home->config.now, *next = home->config.next;

    for (uint32_t n = 0; n < now->chunk_count; n++) {
        if (!region_chunks_has(&home->change.frozen, n)) {
            continue;
        }
        now->chunks[n].handle = REGION_NO_WINDOW;
        if (n < next->chunk_count) {
            next->chunks[n].handle = REGION_NO_WINDOW;
        }
    }
}

static bool needs_thaw(const struct region_change *change)
{
    return !region_chunks_is_empty(&change->made) || !region_chunks_is_empty(&change->frozen);
}

/* A round has all its answers. */
static void end_round(struct region_home *home)
{
    struct region_change *change = &home->change;
    enum region_round next = change->round + 1;

    if (change->round == REGION_ROUND_FREEZE) {
        forget_handles(home);
    }
    if (home_may_abort(home) && change->status != NIGH_OK) {
        change->is_aborted = true;
        next = REGION_ROUND_THAW;
    } else if (change->round == REGION_ROUND_COMMIT) {
        region_descriptor_copy(home->config.now, home->config.next);
        next = needs_thaw(change) ? REGION_ROUND_THAW : REGION_ROUND_END;
    } else if (change->round >= REGION_ROUND_THAW) {
        next = REGION_ROUND_END;
    }
    change->round = next;
    if (next == REGION_ROUND_END) {
        end_change(home);
    } else {
        begin_round(home);
    }
}

/* Who has no lease may not be the home any more. */
static void answer_wants(struct region_home *home)
{
    if (!home->config.has_lease) {
        return;
    }
    REGION_SET_FOREACH(rank, &home->wants)
    {
        struct region_message message = {.kind = REGION_MAPPED,
                                         .peer = rank,
                                         .change = home->config.now->version,
                                         .status = NIGH_NOT_FOUND};

        if (home->state == REGION_HOME_OPEN) {
            message.status = NIGH_OK;
            message.descriptor = home->config.now;
            region_set_add(&home->mappers, rank);
        }
        home_send(home, &message);
    }
    memset(&home->wants, 0, sizeof(home->wants));
}

/* Makes up the next change, if there is one to make. What asks cannot have is answered at once. */
static bool begin_next(struct region_home *home)
{
    if (home->must_settle || !region_set_is_empty(&home->held)) {
        home_plan_settle(home);
        return true;
    }
    if (home_plan_losses(home)) {
        return true;
    }
    if (home->wants_fence && home->config.has_lease && home->state == REGION_HOME_OPEN) {
        home_plan_fence(home);
        return true;
    }
    answer_wants(home);
    while (!list_empty(&home->asks)) {
        struct region_ask *ask = container_of(list_pop_front(&home->asks), struct region_ask, link);
        nigh_status status = home_plan(home, ask);

        home->ask_count--;
        if (status == NIGH_OK) {
            return true;
        }
        memset(&home->change, 0, sizeof(home->change));
        home_answer(home, ask, status);
    }
    return false;
}

void home_go_on(struct region_home *home)
{
    while (home->state != REGION_HOME_REBUILDING) {
        if (!home_is_changing(home)) {
            if (!begin_next(home)) {
                return;
            }
            begin_round(home);
        }
        if (region_set_is_empty(&home->change.waits)) {
            end_round(home);
        } else if (home_give_way(home)) {
            begin_round(home);
        } else {
            return;
        }
    }
}
