/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of regions: from whoever asks for one, a session here or a peer's lane, to the home of
 * its name. A session's goes to another node's as a call; what its home does not take, as it is
 * none any more, or cannot be reached, is asked for again until its deadline.
 */
#include <stdlib.h>
#include <string.h>

#include "node/lane_regions.h"

static struct region_asked *asked_of(struct region_ask *ask)
{
    struct region_asking *asking = container_of(ask, struct region_asking, ask);

    return container_of(asking, struct region_asked, asking);
}

static void give_share(struct lane_regions *at, struct region_asked *asked)
{
    if (asked->from != NULL)
        share_give(&at->peers_asked, asked->slot);
    else
        session_shares_give(&at->shares, REGION_TABLE_ASKED, &asked->counts);
}

struct region_asked *lane_region_asked_take(struct lane_regions *at, uint32_t slot,
                                            struct link *from)
{
    struct region_asked asks = {.wait.kind = REGION_WAIT_ASK, .owner = at, .from = from};
    struct region_asked *asked;

    asks.slot = from != NULL ? link_rank(from) : slot;
    if (from != NULL ? !share_take(&at->peers_asked, asks.slot)
                     : !lane_region_share(at, REGION_TABLE_ASKED, slot, &asks.counts))
        return NULL;
    asked = malloc(sizeof(*asked));
    if (asked == NULL) {
        give_share(at, &asks);
        return NULL;
    }
    *asked = asks;
    list_push_back(&at->asked, &asked->link);
    at->asked_count++;
    return asked;
}

void lane_region_asked_drop(struct lane_regions *at, struct region_asked *asked)
{
    timers_cancel(&at->timers, &asked->wait.timer);
    (void)lane_region_limit_end(at, &asked->wait);
    lane_region_donation_end(at, asked);
    list_remove(&asked->link);
    at->asked_count--;
    give_share(at, asked);
    free(asked);
}

/* Once. What is known here of the region is of before. */
static void say(struct lane_regions *at, struct region_asked *asked, nigh_status status)
{
    struct session_cqe cqe = {.cookie = asked->cookie, .status = status, .pin = SESSION_NO_PIN};

    if (asked->is_told)
        return;
    asked->is_told = true;
    timers_cancel(&at->timers, &asked->wait.timer);
    if (status != NIGH_OK)
        lane_region_donation_end(at, asked); /* what is not a chunk's by now is none any more */
    at->has_said = true;
    if (asked->from != NULL) {
        rpc_reply(link_calls(asked->from), asked->call, status, NULL, 0);
    } else if (lane_is_session(at->lane, asked->slot, asked->begun)) {
        lane_on_complete(at->lane, asked->slot, &cqe);
    }
}

static void finish(struct lane_regions *at, struct region_asked *asked, nigh_status status)
{
    if (asked->use != NULL && !list_is_linked(&asked->use->changed))
        list_push_back(&at->changed, &asked->use->changed);
    say(at, asked, status);
    if (asked->use != NULL) {
        asked->use->ios--;
        lane_region_use_put(at, asked->use);
    }
    lane_region_asked_drop(at, asked);
}

/* ---- asked for ------------------------------------------------------------ */

/* Nobody has it yet: it may be that the home is another in a moment. */
static void wait(struct lane_regions *at, struct region_asked *asked)
{
    asked->at = REGION_ASKED_NOWHERE;
    if (asked->is_told || at->lane->now_us >= asked->deadline_us)
        finish(at, asked, NIGH_TIMEOUT);
    else
        lane_regions_again(at);
}

static bool is_not_taken(nigh_status status)
{
    return status == NIGH_STALE || status == NIGH_UNSUPPORTED;
}

static void on_reply(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                     uint64_t now_us)
{
    struct region_asked *asked = context;
    struct lane_regions *at = asked->owner;

    (void)payload;
    (void)bytes;
    (void)now_us;
    if (is_not_taken(status))
        wait(at, asked);
    else
        finish(at, asked, status);
    lane_regions_tell(at);
}

static void ask_there(struct lane_regions *at, struct region_asked *asked, uint32_t home)
{
    struct link *link = lane_regions_link(at, home);
    uint8_t bytes[REGION_ASK_BYTES];
    struct rpc_piece piece = {.data = bytes,
                              .bytes = (uint32_t)region_ask_encode(&asked->asking.ask, bytes)};
    nigh_status status = NIGH_BUSY;

    if (link != NULL && !link_is_failing(link)) {
        asked->at = REGION_ASKED_THERE;
        status = rpc_call(link_calls(link), CALLS_METHOD_REGION_ASK, &piece, 1, asked->deadline_us,
                          at->lane->now_us, on_reply, asked, NULL);
    }
    if (status != NIGH_OK)
        wait(at, asked);
}

static void ask(struct lane_regions *at, struct region_asked *asked)
{
    uint32_t home =
        lane_regions_home(at, regions_hash(asked->asking.name, asked->asking.ask.name_bytes));

    if (home == lane_regions_self(at->lane)) {
        asked->at = REGION_ASKED_HERE;
        regions_ask(at->regions, asked->asking.name, asked->asking.ask.name_bytes,
                    &asked->asking.ask);
    } else {
        ask_there(at, asked, home);
    }
}

void lane_region_ask_begin(struct lane_regions *at, struct region_asked *asked)
{
    if (asked->use != NULL)
        asked->use->ios++;
    if (asked->deadline_us != UINT64_MAX)
        NIGH_ASSERT(timers_add(&at->timers, &asked->wait.timer, asked->deadline_us) == NIGH_OK);
    if (at->has_limits && lane_region_limit(at, &asked->wait)) {
        asked->at = REGION_ASKED_HELD;
        return;
    }
    ask(at, asked);
    lane_regions_tell(at);
}

void lane_region_ask_go(struct lane_regions *at, struct region_asked *asked)
{
    ask(at, asked);
}

void lane_region_answered(void *context, struct region_ask *given, nigh_status status)
{
    struct lane_regions *at = context;
    struct region_asked *asked = asked_of(given);

    if (asked->from == NULL && !asked->is_told && is_not_taken(status))
        wait(at, asked);
    else
        finish(at, asked, status);
}

void lane_region_asks_retry(struct lane_regions *at)
{
    for (uint32_t left = at->asked_count; left > 0 && !list_empty(&at->asked); left--) {
        struct region_asked *asked =
            container_of(list_pop_front(&at->asked), struct region_asked, link);

        list_push_back(&at->asked, &asked->link);
        if (asked->at == REGION_ASKED_NOWHERE)
            ask(at, asked);
    }
}

/* ---- given up ------------------------------------------------------------- */

void lane_region_ask_end(struct lane_regions *at, struct region_asked *asked, nigh_status status)
{
    say(at, asked, status);
    switch (asked->at) {
    case REGION_ASKED_NOWHERE:
    case REGION_ASKED_HELD: finish(at, asked, status); break;
    case REGION_ASKED_HERE:
        regions_cancel(at->regions, asked->asking.name, asked->asking.ask.name_bytes,
                       &asked->asking.ask, status);
        break;
    case REGION_ASKED_THERE: break; /* its call ends at the same deadline */
    }
    lane_regions_tell(at);
}

void lane_region_asks_link_down(struct lane_regions *at, const struct link *link)
{
    LIST_FOREACH(node, &at->asked)
    {
        struct region_asked *asked = container_of(node, struct region_asked, link);

        if (asked->from == link)
            asked->is_told = true; /* there is nobody to tell; the change goes on */
    }
}

void lane_region_asks_forget(struct lane_regions *at, uint32_t slot)
{
    LIST_FOREACH_SAFE(node, &at->asked)
    {
        struct region_asked *asked = container_of(node, struct region_asked, link);

        if (asked->from != NULL || asked->slot != slot)
            continue;
        asked->is_told = true;
        if (asked->at == REGION_ASKED_HELD)
            finish(at, asked, NIGH_CANCELED);
    }
}

bool lane_region_asks_cancel(struct lane_regions *at, uint32_t slot, uint32_t cookie)
{
    LIST_FOREACH(node, &at->asked)
    {
        struct region_asked *asked = container_of(node, struct region_asked, link);

        if (asked->from != NULL || asked->is_told || asked->slot != slot ||
            asked->begun != at->lane->sessions[slot].begun || asked->cookie != cookie)
            continue;
        lane_region_ask_end(at, asked, NIGH_CANCELED);
        return true;
    }
    return false;
}

void lane_region_asks_fini(struct lane_regions *at)
{
    /* No home is left that has one, and no channel. */
    while (!list_empty(&at->asked)) {
        struct region_asked *asked =
            container_of(list_first(&at->asked), struct region_asked, link);

        asked->is_told = true;
        if (asked->at == REGION_ASKED_HERE)
            regions_cancel(at->regions, asked->asking.name, asked->asking.ask.name_bytes,
                           &asked->asking.ask, NIGH_CANCELED);
        else
            finish(at, asked, NIGH_CANCELED);
    }
    lane_regions_tell(at);
}

/* ---- of a peer ------------------------------------------------------------ */

void lane_region_hear_ask(struct lane_regions *at, struct link *link,
                          const struct rpc_request *request)
{
    struct region_asked *asked = lane_region_asked_take(at, 0, link);
    nigh_status status = NIGH_OVERLOADED;

    if (asked != NULL)
        status = region_ask_decode(request->payload, request->bytes, &asked->asking);
    if (status != NIGH_OK) {
        if (asked != NULL)
            lane_region_asked_drop(at, asked);
        rpc_reply(link_calls(link), request->call, status, NULL, 0);
        return;
    }
    asked->call = request->call;
    asked->deadline_us = request->deadline_us;
    if (asked->deadline_us != UINT64_MAX)
        NIGH_ASSERT(timers_add(&at->timers, &asked->wait.timer, asked->deadline_us) == NIGH_OK);
    asked->at = REGION_ASKED_HERE;
    regions_ask(at->regions, asked->asking.name, asked->asking.ask.name_bytes, &asked->asking.ask);
}
