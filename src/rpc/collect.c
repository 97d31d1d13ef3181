/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See collect.h. An edge is TO_ASK until the next turn, ASKED while its call is under way, and OVER
 * when what came of it is counted. A collective is due when an edge is to be asked, or all are
 * over.
 */
#include "rpc/collect.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/collect_internal.h"

/* ---- create, destroy ------------------------------------------------------ */

nigh_status collects_create(const struct collects_config *config, struct collects **out)
{
    struct collects *collects;

    if (config->nodes == 0 || config->nodes > LIMIT_NODES || config->rank >= config->nodes) {
        return NIGH_INVALID;
    }
    collects = calloc(1, sizeof(*collects));
    if (collects == NULL) {
        return NIGH_NO_RESOURCES;
    }
    collects->config = *config;
    collects->all_places = calloc(LIMIT_COLLECTS, sizeof(*collects->all_places));
    if (collects->all_places == NULL) {
        free(collects);
        return NIGH_NO_RESOURCES;
    }
    list_init(&collects->free);
    list_init(&collects->all);
    list_init(&collects->due);
    for (uint32_t n = 0; n < LIMIT_COLLECTS; n++) {
        list_push_back(&collects->free, &collects->all_places[n].place);
    }
    *out = collects;
    return NIGH_OK;
}

static void drop_memory(struct collect *collect)
{
    free(collect->request);
    free(collect->value);
    collect->request = collect->value = NULL;
}

void collects_destroy(struct collects *collects)
{
    if (collects == NULL) {
        return;
    }
    for (uint32_t n = 0; n < LIMIT_COLLECTS; n++) {
        drop_memory(&collects->all_places[n]);
    }
    free(collects->all_places);
    free(collects);
}

void collects_group(struct collects *collects, uint64_t version, const struct ranks *in)
{
    collects->version = version;
    collects->in = *in;
}

uint64_t collects_version(const struct collects *collects)
{
    return collects->version;
}

/* ---- places --------------------------------------------------------------- */

static uint32_t place_of(const struct collects *collects, const struct collect *collect)
{
    return (uint32_t)(collect - collects->all_places);
}

nigh_status collect_open(struct collects *collects, const struct collect_from *from,
                         const uint8_t *request, uint32_t request_bytes, uint32_t value_room,
                         struct collect **out)
{
    struct collect *collect;
    uint32_t generation;

    if (list_empty(&collects->free)) {
        return NIGH_OVERLOADED;
    }
    collect = container_of(list_first(&collects->free), struct collect, place);
    collect->request = malloc(request_bytes + 1u);
    collect->value = malloc(value_room + 1u);
    if (collect->request == NULL || collect->value == NULL) {
        drop_memory(collect);
        return NIGH_NO_RESOURCES;
    }
    if (request_bytes > 0) {
        memcpy(collect->request, request, request_bytes);
    }
    collect->request_bytes = request_bytes;
    generation = collect->generation;
    list_remove(&collect->place);
    list_push_back(&collects->all, &collect->place);
    collects->under_way++;
    collect->used = true;
    collect->generation = generation + 1;
    collect->from = *from;
    collect->asked = 0;
    memset(&collect->said, 0, sizeof(collect->said));
    for (uint32_t n = 0; n < COLLECT_EDGES; n++) {
        collect->edges[n].state = EDGE_NONE;
    }
    *out = collect;
    return NIGH_OK;
}

/* What comes of its calls from here on finds another generation. */
static void close_place(struct collects *collects, struct collect *collect)
{
    if (list_is_linked(&collect->due)) {
        list_remove(&collect->due);
    }
    list_remove(&collect->place);
    list_push_back(&collects->free, &collect->place);
    collects->under_way--;
    collect->used = false;
    collect->generation++;
}

void collect_make_due(struct collects *collects, struct collect *collect)
{
    if (!list_is_linked(&collect->due)) {
        list_push_back(&collects->due, &collect->due);
    }
}

/* ---- what came of an edge ------------------------------------------------- */

/* Of a run, whose head says nothing good, or nothing. */
static void fail_run(struct collect *collect, struct edge *edge, const struct calls_end *end)
{
    uint32_t count = ranks_count(&edge->wire.ranks);

    if (!end->taken && end->status == NIGH_PEER_LOST) {
        /* It has certainly not heard of it, so neither has anybody behind it: the next may. */
        collect->said.unasked++;
        collect_note_error(collect, edge->head, end->status, 1, false);
        ranks_drop(&edge->wire.ranks, edge->head);
        edge->head = ranks_next(&edge->wire.ranks, edge->head);
        edge->state = edge->head == RANKS_NONE ? EDGE_OVER : EDGE_TO_ASK;
        return;
    }
    if (end->taken) {
        collect->said.unknown += count;
    } else {
        collect->said.unasked += count;
    }
    collect_note_error(collect, edge->head, end->status, count, end->taken);
}

static void end_run(struct collect *collect, struct edge *edge, const struct calls_end *end)
{
    struct calls_end broken = {.status = NIGH_PROTOCOL, .taken = true};

    if (end->status != NIGH_OK) {
        fail_run(collect, edge, end);
    } else if (!collect_add_said(collect, &edge->wire.ranks, end->bytes, end->count)) {
        fail_run(collect, edge, &broken);
    }
}

static void end_own(struct collect *collect, uint32_t rank, const struct calls_end *end)
{
    if (end->status == NIGH_OK) {
        collect_add_reply(collect, rank, end->bytes, end->count);
        return;
    }
    if (!end->taken) {
        collect->said.unasked++;
    } else if (end->status == NIGH_TIMEOUT || end->status == NIGH_CLOSED) {
        collect->said.unknown++;
    } else {
        collect->said.failed++;
    }
    collect_note_error(collect, rank, end->status, 1, end->taken);
}

void collect_ended(struct collects *collects, uint32_t place, uint32_t number, uint32_t generation,
                   const struct calls_end *end)
{
    struct collect *collect = &collects->all_places[place];
    struct edge *edge = &collect->edges[number];

    NIGH_ASSERT(place < LIMIT_COLLECTS && number < COLLECT_EDGES);
    if (!collect->used || collect->generation != generation || edge->state != EDGE_ASKED) {
        return;
    }
    edge->state = EDGE_OVER;
    collect->asked--;
    if (number == COLLECT_OWN) {
        end_own(collect, collects->config.rank, end);
    } else {
        end_run(collect, edge, end);
    }
    if (collect->asked == 0 || edge->state == EDGE_TO_ASK) {
        collect_make_due(collects, collect);
    }
}

const uint8_t *collect_bytes(const struct collects *collects, uint32_t place, uint32_t generation)
{
    const struct collect *collect = &collects->all_places[place];

    NIGH_ASSERT(place < LIMIT_COLLECTS);
    return collect->used && collect->generation == generation ? collect->request : NULL;
}

/* ---- the turn ------------------------------------------------------------- */

static void ask_edge(struct collects *collects, struct collect *collect, uint32_t number,
                     uint64_t now_us)
{
    struct edge *edge = &collect->edges[number];
    struct collect_ask ask = {
        .place = place_of(collects, collect),
        .number = number,
        .generation = collect->generation,
        .rank = edge->head,
        .service = collect->service,
        .deadline_us = collect->deadline_us,
        .uid = collect->uid,
        .origin = collect->wire.origin,
        .request_bytes = collect->request_bytes,
        .wire = number == COLLECT_OWN ? NULL : &edge->wire,
    };

    edge->state = EDGE_ASKED;
    collect->asked++;
    collects->config.shell.ask(collects->config.shell.context, &ask, now_us);
}

static bool has_to_ask(const struct collect *collect)
{
    for (uint32_t n = 0; n < COLLECT_EDGES; n++) {
        if (collect->edges[n].state == EDGE_TO_ASK) {
            return true;
        }
    }
    return false;
}

static void say_end(struct collects *collects, struct collect *collect)
{
    struct collect_from from = collect->from;
    struct collect_end end = {.said = &collect->said, .value = collect->value};

    if (from.channel == NULL) {
        /* Those of other nodes are counted where they began. */
        collects->counts.answered += collect->said.answered;
        collects->counts.failed += ranks_count(&collect->whole) - collect->said.answered;
    }
    collects->config.shell.answer(collects->config.shell.context, &from, &end);
    close_place(collects, collect);
    drop_memory(collect);
}

/* The children first: their answers take longest. */
static void step(struct collects *collects, struct collect *collect, uint64_t now_us)
{
    for (uint32_t n = 0; n < COLLECT_EDGES; n++) {
        if (collect->edges[n].state == EDGE_TO_ASK) {
            ask_edge(collects, collect, n, now_us);
        }
    }
    if (collect->asked == 0 && !has_to_ask(collect)) {
        say_end(collects, collect);
    }
}

bool collects_turn(struct collects *collects, uint64_t now_us)
{
    bool any = false;

    while (!list_empty(&collects->due)) {
        step(collects, container_of(list_pop_front(&collects->due), struct collect, due), now_us);
        any = true;
    }
    return any;
}

bool collects_are_due(const struct collects *collects)
{
    return !list_empty(&collects->due);
}

/* ---- giving up ------------------------------------------------------------ */

static void give_up(struct collects *collects, struct collect *collect, uint64_t now_us)
{
    close_place(collects, collect);
    /* Its bytes are asked for no more once its calls have ended. */
    collects->config.shell.forget(collects->config.shell.context, place_of(collects, collect),
                                  now_us);
    drop_memory(collect);
}

/* Whose: of a channel (NULL: of sessions), and of one call or owner of it. */
static struct collect *find_first(struct collects *collects, const struct rpc *channel,
                                  bool (*matches)(const struct collect *collect, uint64_t number),
                                  uint64_t number)
{
    LIST_FOREACH(node, &collects->all)
    {
        struct collect *collect = container_of(node, struct collect, place);

        if (collect->from.channel == channel && matches(collect, number)) {
            return collect;
        }
    }
    return NULL;
}

static bool is_owners(const struct collect *collect, uint64_t number)
{
    return collect->from.caller.owner == number;
}

static bool is_callers(const struct collect *collect, uint64_t number)
{
    return ((uint64_t)collect->from.caller.owner << 32 | collect->from.caller.cookie) == number;
}

static bool is_calls(const struct collect *collect, uint64_t number)
{
    return collect->from.call == number;
}

static bool is_any(const struct collect *collect, uint64_t number)
{
    (void)collect;
    (void)number;
    return true;
}

bool collect_cancel(struct collects *collects, uint32_t owner, uint32_t cookie, uint64_t now_us)
{
    struct collect *collect =
        find_first(collects, NULL, is_callers, (uint64_t)owner << 32 | cookie);

    if (collect == NULL) {
        return false;
    }
    give_up(collects, collect, now_us);
    return true;
}

static void give_up_all(struct collects *collects, const struct rpc *channel,
                        bool (*matches)(const struct collect *collect, uint64_t number),
                        uint64_t number, uint64_t now_us)
{
    struct collect *collect;

    while ((collect = find_first(collects, channel, matches, number)) != NULL) {
        give_up(collects, collect, now_us);
    }
}

void collects_forget(struct collects *collects, uint32_t owner, uint64_t now_us)
{
    give_up_all(collects, NULL, is_owners, owner, now_us);
}

void collect_withdrawn(struct collects *collects, const struct rpc *channel, uint64_t call,
                       uint64_t now_us)
{
    give_up_all(collects, channel, is_calls, call, now_us);
}

void collects_channel_down(struct collects *collects, const struct rpc *channel, uint64_t now_us)
{
    give_up_all(collects, channel, is_any, 0, now_us);
}

/* ---- numbers -------------------------------------------------------------- */

const struct collects_counts *collects_counts(const struct collects *collects)
{
    return &collects->counts;
}

uint32_t collects_under_way(const struct collects *collects)
{
    return collects->under_way;
}

/* Ranks that are counted, and those whose edges are not over. */
static bool adds_up(const struct collect *collect)
{
    const struct collect_said *said = &collect->said;
    uint32_t sum = said->answered + said->failed + said->unknown + said->unasked;
    uint32_t asked = 0;

    for (uint32_t n = 0; n < COLLECT_EDGES; n++) {
        const struct edge *edge = &collect->edges[n];
        bool is_open = edge->state == EDGE_ASKED || edge->state == EDGE_TO_ASK;

        asked += edge->state == EDGE_ASKED;
        sum += !is_open ? 0 : n == COLLECT_OWN ? 1 : ranks_count(&edge->wire.ranks);
    }
    return asked == collect->asked && sum == ranks_count(&collect->whole);
}

bool collects_is_valid(const struct collects *collects)
{
    uint32_t used = 0;

    for (uint32_t n = 0; n < LIMIT_COLLECTS; n++) {
        const struct collect *collect = &collects->all_places[n];
        bool is_due = collect->used && (collect->asked == 0 || has_to_ask(collect));

        used += collect->used;
        if (collect->used != (collect->value != NULL) || is_due != list_is_linked(&collect->due) ||
            (collect->used && !adds_up(collect))) {
            return false;
        }
    }
    return used == collects->under_way;
}
