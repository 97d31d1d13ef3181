/* SPDX-License-Identifier: Apache-2.0 */
/* See home.h: what comes to a home, from asks, members and their deaths. */
#include "region/home_internal.h"

void home_send(struct region_home *home, struct region_message *message)
{
    home->config.shell.send(home->config.shell.context, message);
}

void home_answer(struct region_home *home, struct region_ask *ask, nigh_status status)
{
    home->config.shell.answered(home->config.shell.context, ask, status);
}

/* All that live have told: what was committed is known. */
static void rebuild_if_told(struct region_home *home)
{
    if (home->state != REGION_HOME_REBUILDING || home_is_changing(home) ||
        !region_set_is_empty(&home->config.untold)) {
        return;
    }
    home->rebuilt_from = home->config.now->version;
    home->must_settle = !region_descriptor_is_none(home->config.now);
    home->state = home->must_settle ? REGION_HOME_OPEN : REGION_HOME_EMPTY;
}

void region_home_init(struct region_home *home, const struct region_home_config *config)
{
    NIGH_ASSERT(config->room <= LIMIT_REGION_CHUNKS);
    memset(home, 0, sizeof(*home));
    home->config = *config;
    list_init(&home->asks);
    region_descriptor_clear(config->now);
    region_descriptor_clear(config->next);
    rebuild_if_told(home);
}

/* ---- asks ----------------------------------------------------------------- */

void region_home_ask(struct region_home *home, struct region_ask *ask)
{
    if (home->ask_count == LIMIT_REGION_ASKS && !home_passes(home, ask)) {
        home_answer(home, ask, NIGH_OVERLOADED);
        return;
    }
    list_push_back(&home->asks, &ask->link);
    home->ask_count++;
    home_go_on(home);
}

void region_home_cancel(struct region_home *home, struct region_ask *ask, nigh_status status)
{
    if (home->change.ask == ask) {
        home->change.ask = NULL;
    } else {
        list_remove(&ask->link);
        home->ask_count--;
    }
    home_answer(home, ask, status);
}

void region_home_end(struct region_home *home, nigh_status status)
{
    struct region_ask *ask = home->change.ask;

    memset(&home->change, 0, sizeof(home->change));
    home->state = REGION_HOME_REBUILDING; /* what comes yet begins nothing */
    memset(&home->wants, 0, sizeof(home->wants));
    memset(&home->mappers, 0, sizeof(home->mappers));
    if (ask != NULL) {
        home_answer(home, ask, status);
    }
    while (!list_empty(&home->asks)) {
        ask = container_of(list_pop_front(&home->asks), struct region_ask, link);
        home->ask_count--;
        home_answer(home, ask, status);
    }
}

/* ---- members -------------------------------------------------------------- */

/* One that says that it keeps what a later home than this committed is believed by that one. */
static void take_held(struct region_home *home, const struct region_message *message)
{
    if (message->descriptor != NULL &&
        region_version_compare(&message->descriptor->version, &home->config.version) > 0) {
        return;
    }
    region_set_add(&home->held, message->peer);
    if (home->state == REGION_HOME_REBUILDING && message->descriptor != NULL &&
        region_version_compare(&message->descriptor->version, &home->config.now->version) > 0) {
        NIGH_ASSERT(message->descriptor->chunk_count <= home->config.room);
        region_descriptor_copy(home->config.now, message->descriptor);
    }
}

void region_home_take(struct region_home *home, const struct region_message *message)
{
    if (!home_is_alive(home, message->peer)) {
        return;
    }
    switch (message->kind) {
    case REGION_DONE: home_done(home, message); break;
    case REGION_HELD: take_held(home, message); break;
    case REGION_MAP: region_set_add(&home->wants, message->peer); break;
    case REGION_UNMAP:
        region_set_remove(&home->wants, message->peer);
        region_set_remove(&home->mappers, message->peer);
        if (region_home_is_holding(home)) {
            region_set_remove(&home->change.waits, message->peer);
        }
        break;
    default: return; /* not for a home */
    }
    home_go_on(home);
}

void region_home_told(struct region_home *home, uint32_t rank)
{
    region_set_remove(&home->config.untold, rank);
    rebuild_if_told(home);
    home_go_on(home);
}

/* Whether a change cannot be without a node: it was to give memory, or to be copied from. */
static bool needs(const struct region_home *home, uint32_t rank)
{
    const struct region_change *change = &home->change;

    for (uint32_t n = 0; n < home->config.next->chunk_count; n++) {
        if (region_chunks_has(&change->made, n) && home->config.next->chunks[n].node == rank) {
            return true;
        }
    }
    return change->is_move && home->config.now->chunks[change->chunk].node == rank;
}

/* Its chunks are lost now: it may be back before the next change looks at who lives. */
static void lose_chunks(struct region_descriptor *descriptor, uint32_t rank, bool *has_losses)
{
    for (uint32_t n = 0; n < descriptor->chunk_count; n++) {
        if (descriptor->chunks[n].node == rank) {
            region_chunk_lose(&descriptor->chunks[n]);
            *has_losses = true;
        }
    }
}

void region_home_dead(struct region_home *home, uint32_t rank)
{
    region_set_remove(&home->config.alive, rank);
    region_set_remove(&home->config.untold, rank);
    region_set_remove(&home->mappers, rank);
    region_set_remove(&home->wants, rank);
    region_set_remove(&home->held, rank);
    if (home_is_changing(home)) {
        region_set_remove(&home->change.waits, rank);
        if (home_may_abort(home) && needs(home, rank)) {
            home->change.status = NIGH_PEER_LOST;
        }
        lose_chunks(home->config.next, rank, &home->has_losses);
    }
    lose_chunks(home->config.now, rank, &home->has_losses);
    rebuild_if_told(home);
    home_go_on(home);
}

void region_home_lease(struct region_home *home, bool has_lease)
{
    home->config.has_lease = has_lease;
    home->change.had_lease = home->change.had_lease && has_lease;
    home_go_on(home);
}

void region_home_alive(struct region_home *home, uint32_t rank)
{
    region_set_add(&home->config.alive, rank);
    if (home->state == REGION_HOME_REBUILDING) {
        region_set_add(&home->config.untold, rank);
    }
}

void region_home_link(struct region_home *home, uint32_t rank)
{
    if (home_is_changing(home) && region_set_has(&home->change.waits, rank)) {
        home_send_round(home, rank);
    }
}

void region_home_held(struct region_home *home)
{
    if (region_home_is_holding(home)) {
        memset(&home->change.waits, 0, sizeof(home->change.waits));
        home_go_on(home);
    }
}

void region_home_fence(struct region_home *home)
{
    home->is_fenced = false;
    home->wants_fence = true;
    home_go_on(home);
}

bool region_home_is_idle(const struct region_home *home)
{
    return home->state == REGION_HOME_EMPTY && !home_is_changing(home) && list_empty(&home->asks) &&
           region_set_is_empty(&home->wants);
}

bool region_home_is_valid(const struct region_home *home)
{
    const struct region_descriptor *now = home->config.now;
    uint32_t count = 0;

    LIST_FOREACH(node, &home->asks)
    {
        count++;
    }
    if (count != home->ask_count || count > LIMIT_REGION_ASKS ||
        (home->state == REGION_HOME_EMPTY && !home_is_changing(home) &&
         !region_descriptor_is_none(now))) {
        return false;
    }
    REGION_SET_FOREACH(rank, &home->change.waits)
    {
        if (!home_is_alive(home, rank)) {
            return false;
        }
    }
    return region_descriptor_is_none(now) || region_descriptor_is_valid(now);
}
