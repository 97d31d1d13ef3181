/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of regions, for sessions: a page at a time, in the order of names, from behind the last one
 * that the session was told. All members are asked at once, each for what it is the home of; what
 * they tell is merged, and what the page has no room for is dropped, to be asked for again with the
 * next one. So a list takes one page of memory, however many regions there are.
 *
 * A member that cannot tell now (it goes by another view, or does not know all of its regions yet)
 * is asked again; one that is dead, or silent for LIMIT_REGION_LIST_US, is left out, and the page
 * says so. Who was silent is not waited for any more, until it has answered: one page after the
 * other would. With another view the page begins anew: homes are others.
 */
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "node/lane_regions.h"

#define LOG_MODULE "regions"
#include "base/log.h"

static void make_due(struct region_list *list)
{
    if (!list_is_linked(&list->due))
        list_push_back(&list->at->lists_due, &list->due);
}

/* ---- how it ends ---------------------------------------------------------- */

static void free_list(struct region_list *list)
{
    struct lane_regions *at = list->at;

    timers_cancel(&at->timers, &list->wait.timer);
    (void)lane_region_limit_end(at, &list->wait);
    if (list_is_linked(&list->due))
        list_remove(&list->due);
    list_remove(&list->link);
    session_shares_give(&list->at->shares, REGION_TABLE_LISTS, &list->counts);
    at->list_count--;
    free(list);
}

/* It has not told all, and is to. */
static bool is_waited_for(const struct region_list_side *side)
{
    return side->at != REGION_LIST_TOLD && side->at != REGION_LIST_NONE;
}

static bool is_under_way(const struct region_list_side *side)
{
    return side->at == REGION_LIST_ASKED || side->at == REGION_LIST_OTHERS;
}

static nigh_status put_page(struct lane_regions *at, struct region_list *list)
{
    uint8_t *to = lane_placed(at->lane, list->slot, list->place, sizeof(list->page));

    if (to == NULL)
        return NIGH_INVALID;
    for (uint32_t rank = 0; rank < list->ranks; rank++) {
        const struct region_list_side *side = &list->sides[rank];

        list->page.silent += side->is_silent || is_waited_for(side) ? 1 : 0;
    }
    memcpy(to, &list->page, sizeof(list->page));
    return NIGH_OK;
}

/* Once. It goes with the last call. */
static void finish(struct lane_regions *at, struct region_list *list, nigh_status status)
{
    struct session_cqe cqe = {.cookie = list->cookie, .pin = SESSION_NO_PIN};

    if (!list->is_told && lane_is_session(at->lane, list->slot, list->begun)) {
        cqe.status = status == NIGH_OK ? put_page(at, list) : status;
        cqe.offset = cqe.status == NIGH_OK ? list->place : 0;
        cqe.data_size = cqe.status == NIGH_OK ? sizeof(list->page) : 0;
        ORDER_SAID();
        at->has_said = true;
        lane_on_complete(at->lane, list->slot, &cqe);
    }
    list->is_told = true;
    timers_cancel(&at->timers, &list->wait.timer);
    if (list_is_linked(&list->due))
        list_remove(&list->due);
    if (list->calls == 0)
        free_list(list);
}

/* ---- merged --------------------------------------------------------------- */

static const struct session_region_entry *entry_at(const struct session_region_page *page,
                                                   uint32_t at)
{
    return (const void *)(page->entries + at);
}

static const char *name_of(const struct session_region_entry *entry)
{
    return (const char *)(entry + 1) + entry->user_count * sizeof(struct session_region_user) +
           entry->chunk_count * sizeof(uint16_t);
}

/* Of a page, so much room is left. */
static bool has_room(const struct session_region_page *page, uint32_t bytes)
{
    return bytes <= sizeof(page->entries) - page->bytes;
}

static bool put_entry(struct session_region_page *to, const struct session_region_entry *entry)
{
    if (!has_room(to, entry->bytes))
        return false;
    memcpy(to->entries + to->bytes, entry, entry->bytes);
    to->bytes += entry->bytes;
    to->count++;
    return true;
}

/* What a user may do with one, by what its home says of it (region_descriptor_rights). */
static uint32_t rights_of(const struct region_list *list, const struct region_listed *listed)
{
    uint32_t rights = list->gid == listed->gid ? listed->group_rights : listed->other_rights;

    if (list->uid == REGION_ROOT || list->uid == listed->uid)
        return REGION_ALL;
    for (uint32_t n = 0; n < listed->grant_count; n++) {
        rights |= listed->grants[n].uid == list->uid ? listed->grants[n].rights : 0;
    }
    return rights;
}

static bool put_listed(const struct region_list *list, struct session_region_page *to,
                       const struct region_listed *listed, uint32_t home)
{
    struct session_region_entry entry = {.home = home,
                                         .size_bytes = listed->geometry.size_bytes,
                                         .chunk_bytes = listed->geometry.chunk_bytes,
                                         .uid = listed->uid,
                                         .gid = listed->gid,
                                         .rights = (uint8_t)rights_of(list, listed),
                                         .group_rights = (uint8_t)listed->group_rights,
                                         .other_rights = (uint8_t)listed->other_rights,
                                         .name_bytes = (uint8_t)listed->name_bytes,
                                         .chunk_count = (uint16_t)listed->chunk_count,
                                         .user_count = (uint8_t)listed->grant_count,
                                         .flags =
                                             (listed->is_mappable ? SESSION_ENTRY_MAPPABLE : 0) |
                                             (listed->is_donated ? SESSION_ENTRY_DONATED : 0)};
    uint8_t *at = to->entries + to->bytes + sizeof(entry);

    entry.bytes = (uint32_t)align_up_u64(
        sizeof(entry) + listed->grant_count * sizeof(struct session_region_user) +
            listed->chunk_count * sizeof(uint16_t) + listed->name_bytes,
        sizeof(uint64_t));
    if (!has_room(to, entry.bytes))
        return false;
    memset(to->entries + to->bytes, 0, entry.bytes);
    memcpy(to->entries + to->bytes, &entry, sizeof(entry));
    for (uint32_t n = 0; n < listed->grant_count; n++) {
        struct session_region_user user = {listed->grants[n].uid, listed->grants[n].rights};

        memcpy(at, &user, sizeof(user));
        at += sizeof(user);
    }
    for (uint32_t n = 0; n < listed->chunk_count; n++) {
        uint16_t rank = (uint16_t)min_u32(listed->nodes[n], SESSION_REGION_LOST);

        memcpy(at, &rank, sizeof(rank));
        at += sizeof(rank);
    }
    memcpy(at, listed->name, listed->name_bytes);
    to->bytes += entry.bytes;
    to->count++;
    return true;
}

/* Both in order; a name that both have is told as it was first. True: all have room. */
static nigh_status merge(const struct region_list *list, struct region_list_reader *from,
                         uint32_t home, struct session_region_page *to, bool *is_cut)
{
    const struct session_region_page *page = &list->page;
    struct region_listed listed;
    nigh_status status = region_list_next(from, &listed);
    uint32_t at = 0;

    while (!*is_cut && (status == NIGH_OK || at < page->bytes)) {
        const struct session_region_entry *entry = at < page->bytes ? entry_at(page, at) : NULL;
        int order = entry == NULL ? 1 : -1;

        if (entry != NULL && status == NIGH_OK)
            order = region_name_compare(name_of(entry), entry->name_bytes, listed.name,
                                        listed.name_bytes);
        if (status != NIGH_OK && status != NIGH_NOT_FOUND)
            return status;
        *is_cut = !(order <= 0 ? put_entry(to, entry) : put_listed(list, to, &listed, home));
        at += order <= 0 ? entry->bytes : 0;
        if (order >= 0)
            status = region_list_next(from, &listed);
    }
    return *is_cut || status == NIGH_NOT_FOUND ? NIGH_OK : status;
}

static void note_last(struct region_list *list)
{
    const struct session_region_entry *entry = NULL;

    for (uint32_t at = 0; at < list->page.bytes; at += entry->bytes)
        entry = entry_at(&list->page, at);
    list->last_bytes = entry == NULL ? 0 : entry->name_bytes;
    if (entry != NULL)
        memcpy(list->last, name_of(entry), entry->name_bytes);
}

/* What a member says: NIGH_PROTOCOL: nonsense, of which nothing is taken. */
static nigh_status take(struct region_list *list, struct region_list_side *side,
                        const uint8_t *bytes, uint32_t count)
{
    uint32_t rank = (uint32_t)(side - list->sides);
    struct session_region_page to = {0};
    struct region_list_reader from;
    bool is_cut = false;
    nigh_status status =
        region_list_open(&from, bytes, count, side->ask.after, side->ask.after_bytes);

    if (status == NIGH_OK)
        status = merge(list, &from, rank, &to, &is_cut);
    if (status != NIGH_OK)
        return status;
    list->is_cut = list->is_cut || is_cut;
    to.more = list->is_cut ? 1 : 0;
    list->page = to;
    note_last(list);
    side->at = REGION_LIST_TOLD;
    if (from.has_more) {
        side->ask.after_bytes = (uint8_t)from.through_bytes;
        memcpy(side->ask.after, from.through, from.through_bytes);
        if (!list->is_cut ||
            region_name_compare(from.through, from.through_bytes, list->last, list->last_bytes) < 0)
            side->at = REGION_LIST_TO_ASK;
    }
    return NIGH_OK;
}

/* ---- asked ---------------------------------------------------------------- */

static void ask_later(struct region_list_side *side)
{
    side->at = REGION_LIST_LATER;
    lane_regions_again(side->list->at);
}

static void leave_out(struct region_list_side *side, bool is_silent)
{
    side->at = REGION_LIST_NONE;
    side->is_silent = is_silent;
}

static void hear(struct region_list_side *side, const uint8_t *bytes, uint32_t count)
{
    if (take(side->list, side, bytes, count) == NIGH_OK)
        return;
    LOG_WARN("what a member said of its regions was not taken",
             "rank=%u do=\"run the same nighd at all nodes; lists of regions are without that "
             "member's meanwhile\"",
             (uint32_t)(side - side->list->sides));
    leave_out(side, true);
}

static void on_reply(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                     uint64_t now_us)
{
    struct region_list_side *side = context;
    struct region_list *list = side->list;

    (void)now_us;
    list->calls--;
    if (status != NIGH_TIMEOUT && status != NIGH_PEER_LOST)
        agreed_put(&list->at->list_silent, (uint32_t)(side - list->sides), false);
    if (list->is_told) {
        side->at = REGION_LIST_NONE;
        if (list->calls == 0)
            free_list(list);
        return;
    }
    if (side->at == REGION_LIST_OTHERS)
        side->at = REGION_LIST_TO_ASK;
    else if (status == NIGH_OK)
        hear(side, payload, bytes);
    else if (status == NIGH_UNSUPPORTED) /* an older node */
        leave_out(side, true);
    else
        ask_later(side);
    make_due(list);
}

static void ask_there(struct region_list_side *side, uint32_t rank)
{
    struct region_list *list = side->list;
    struct lane_regions *at = list->at;
    struct link *link = lane_regions_link(at, rank);
    uint8_t bytes[REGION_LIST_ASK_BYTES];
    struct rpc_piece piece = {.data = bytes,
                              .bytes = (uint32_t)region_list_ask_encode(&side->ask, bytes)};
    nigh_status status = NIGH_BUSY;

    if (link != NULL && !link_is_failing(link))
        status = rpc_call(link_calls(link), CALLS_METHOD_REGION_LIST, &piece, 1, list->deadline_us,
                          at->lane->now_us, on_reply, side, NULL);
    if (status != NIGH_OK) {
        ask_later(side);
        return;
    }
    side->at = REGION_LIST_ASKED;
    list->calls++;
    at->has_said = true;
}

/* The status: the list cannot be. */
static nigh_status ask_here(struct region_list_side *side)
{
    const struct regions *regions = side->list->at->regions;
    nigh_status status = regions_may_list(regions, side->ask.epoch);
    uint8_t bytes[REGION_LIST_BYTES];

    if (status == NIGH_OK)
        hear(side, bytes, regions_list(regions, &side->ask, bytes));
    else
        ask_later(side);
    return status == NIGH_NO_QUORUM ? status : NIGH_OK;
}

/* Whether a list that is over asks it still. */
static bool is_asked_already(const struct lane_regions *at, uint32_t rank)
{
    LIST_FOREACH(node, &at->lists)
    {
        const struct region_list *list = container_of(node, struct region_list, link);

        if (list->is_told && is_under_way(&list->sides[rank]))
            return true;
    }
    return false;
}

static nigh_status ask(struct region_list_side *side)
{
    const struct lane_regions *at = side->list->at;
    uint32_t rank = (uint32_t)(side - side->list->sides);

    if (!lane_regions_is_member(at, rank))
        leave_out(side, agreed_has(&at->in, rank));
    else if (agreed_has(&at->list_silent, rank) && is_asked_already(at, rank))
        leave_out(side, true);
    else if (rank == lane_regions_self(at->lane))
        return ask_here(side);
    else
        ask_there(side, rank);
    return NIGH_OK;
}

/* Asks whoever is to be asked, once. */
static void go_on(struct lane_regions *at, struct region_list *list)
{
    bool is_over = true;

    for (uint32_t rank = 0; rank < list->ranks; rank++) {
        struct region_list_side *side = &list->sides[rank];
        nigh_status status = side->at == REGION_LIST_TO_ASK ? ask(side) : NIGH_OK;

        if (status != NIGH_OK) {
            finish(at, list, status);
            return;
        }
        if (side->at == REGION_LIST_TO_ASK)
            make_due(list); /* in the next turn: each has a bounded part of one */
        is_over = is_over && (!is_waited_for(side) || (agreed_has(&at->list_silent, rank) &&
                                                       side->at != REGION_LIST_TO_ASK));
    }
    if (is_over)
        finish(at, list, NIGH_OK);
}

/* By the view that is. */
static void begin_anew(struct lane_regions *at, struct region_list *list)
{
    list->epoch = list->ask.epoch = regions_epoch(at->regions);
    memset(&list->page, 0, sizeof(list->page));
    list->is_cut = false;
    list->last_bytes = 0;
    for (uint32_t rank = 0; rank < list->ranks; rank++) {
        struct region_list_side *side = &list->sides[rank];
        bool is_asked = is_under_way(side);

        *side = (struct region_list_side){.list = list, .ask = list->ask};
        side->at = is_asked ? REGION_LIST_OTHERS : REGION_LIST_TO_ASK;
    }
    make_due(list);
}

void lane_region_list_go(struct lane_regions *at, struct region_list *list)
{
    if (agreed_size(&at->in) == 0)
        finish(at, list, NIGH_NO_QUORUM);
    else
        begin_anew(at, list);
}

static bool may_begin(struct lane_regions *at, uint32_t slot, struct session_place *counts)
{
    uint32_t own = 0;

    LIST_FOREACH(node, &at->lists)
    {
        own += container_of(node, struct region_list, link)->slot == slot ? 1 : 0;
    }
    return own < LIMIT_REGION_LISTS_EACH && lane_region_share(at, REGION_TABLE_LISTS, slot, counts);
}

nigh_status lane_region_list_begin(struct lane_regions *at, uint32_t slot, uint32_t cookie,
                                   uint64_t place, const struct region_list_ask *ask,
                                   uint64_t deadline_us)
{
    const struct lane *lane = at->lane;
    uint32_t ranks = lane_regions_ranks(lane);
    struct session_place counts = {.is_taken = false};
    struct region_list *list;

    if (agreed_size(&at->in) == 0)
        return NIGH_NO_QUORUM;
    if (!may_begin(at, slot, &counts))
        return NIGH_OVERLOADED;
    list = calloc(1, sizeof(*list) + ranks * sizeof(list->sides[0]));
    if (list == NULL) {
        session_shares_give(&at->shares, REGION_TABLE_LISTS, &counts);
        return NIGH_NO_RESOURCES;
    }
    list->counts = counts;
    list->wait.kind = REGION_WAIT_LIST;
    list->at = at;
    list->slot = slot;
    list->begun = lane->sessions[slot].begun;
    list->cookie = cookie;
    list->place = place;
    list->ask = *ask;
    list->uid = lane->sessions[slot].seat->uid;
    list->gid = lane->sessions[slot].seat->gid;
    list->ranks = ranks;
    list->deadline_us = min_u64(deadline_us, lane->now_us + LIMIT_REGION_LIST_US);
    list_push_back(&at->lists, &list->link);
    at->list_count++;
    NIGH_ASSERT(timers_add(&at->timers, &list->wait.timer, list->deadline_us) == NIGH_OK);
    if (!at->has_limits || !lane_region_limit(at, &list->wait))
        begin_anew(at, list);
    return NIGH_OK;
}

/* ---- turns ---------------------------------------------------------------- */

bool lane_region_lists_turn(struct lane_regions *at)
{
    uint32_t left = at->list_count;
    bool any = false;

    for (; left > 0 && !list_empty(&at->lists_due); left--) {
        go_on(at, container_of(list_pop_front(&at->lists_due), struct region_list, due));
        any = true;
    }
    return any;
}

void lane_region_lists_retry(struct lane_regions *at)
{
    LIST_FOREACH(node, &at->lists)
    {
        struct region_list *list = container_of(node, struct region_list, link);

        for (uint32_t rank = 0; rank < list->ranks && !list->is_told; rank++) {
            if (list->sides[rank].at == REGION_LIST_LATER) {
                list->sides[rank].at = REGION_LIST_TO_ASK;
                make_due(list);
            }
        }
    }
}

void lane_region_lists_view(struct lane_regions *at)
{
    LIST_FOREACH(node, &at->lists)
    {
        struct region_list *list = container_of(node, struct region_list, link);

        if (!list->is_told && !list_is_linked(&list->wait.held) &&
            list->epoch != regions_epoch(at->regions))
            begin_anew(at, list);
    }
}

/* ---- given up ------------------------------------------------------------- */

/* Where nobody has told anything there is no page. */
static nigh_status give_up(struct region_list *list)
{
    bool any = false;

    if (list_is_linked(&list->wait.held))
        return NIGH_TIMEOUT; /* nobody was asked */
    for (uint32_t rank = 0; rank < list->ranks; rank++) {
        any = any || list->sides[rank].at == REGION_LIST_TOLD;
        if (is_waited_for(&list->sides[rank]) && rank != lane_regions_self(list->at->lane))
            agreed_put(&list->at->list_silent, rank, true);
    }
    return any ? NIGH_OK : NIGH_TIMEOUT;
}

void lane_region_list_end(struct lane_regions *at, struct region_list *list, nigh_status status)
{
    finish(at, list, status == NIGH_TIMEOUT ? give_up(list) : status);
}

void lane_region_lists_forget(struct lane_regions *at, uint32_t slot)
{
    LIST_FOREACH_SAFE(node, &at->lists)
    {
        struct region_list *list = container_of(node, struct region_list, link);

        if (list->slot == slot && !list->is_told) {
            list->is_told = true;
            finish(at, list, NIGH_CANCELED);
        }
    }
}

bool lane_region_lists_cancel(struct lane_regions *at, uint32_t slot, uint32_t cookie)
{
    LIST_FOREACH(node, &at->lists)
    {
        struct region_list *list = container_of(node, struct region_list, link);

        if (list->slot != slot || list->is_told || list->begun != at->lane->sessions[slot].begun ||
            list->cookie != cookie)
            continue;
        finish(at, list, NIGH_CANCELED);
        return true;
    }
    return false;
}

void lane_region_lists_fini(struct lane_regions *at)
{
    while (!list_empty(&at->lists)) /* no channel is left that has a call of one */
        free_list(container_of(list_first(&at->lists), struct region_list, link));
}

/* ---- of a peer ------------------------------------------------------------ */

void lane_region_hear_list(struct lane_regions *at, struct link *link,
                           const struct rpc_request *request)
{
    uint8_t bytes[REGION_LIST_BYTES];
    struct rpc_piece piece = {.data = bytes};
    struct region_list_ask ask;
    nigh_status status = region_list_ask_decode(request->payload, request->bytes, &ask);

    if (status == NIGH_OK)
        status = regions_may_list(at->regions, ask.epoch);
    if (status == NIGH_OK)
        piece.bytes = regions_list(at->regions, &ask, bytes);
    at->has_said = true;
    rpc_reply(link_calls(link), request->call, status, &piece, status == NIGH_OK ? 1 : 0);
}
