/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the exchange shows to who looks after the node (docs/page.md): transfers under way, the last
 * that ended, and what links were found to cost. What is told of those that ended is kept whether
 * anybody looks or not: a few words for each.
 */
#include <string.h>

#include "base/bytes.h"
#include "cluster/link.h"
#include "object/crossover.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_pull.h"
#include "object/exchange_serve.h"
#include "object/exchange_show.h"
#include "object/exchange_transfer.h"

/* ---- those that ended ----------------------------------------------------- */

static uint8_t way_of(enum wire_way way)
{
    switch (way) {
    case WIRE_INLINE: return SESSION_WAY_INLINE;
    case WIRE_STREAM: return SESSION_WAY_SENT;
    case WIRE_LOAN: return SESSION_WAY_READ;
    case WIRE_PUSH: return SESSION_WAY_PUSHED;
    default: return SESSION_WAY_NONE;
    }
}

#define CUT_HERE "\xe2\x80\xa6" /* an ellipsis */

/* As much of it as there is room for, from where it lies: whole characters. Who sealed the object
 * wrote it. */
static void copy_name(const struct exchange *exchange, const struct pull *pull,
                      char name[SESSION_SHOW_NAME])
{
    const struct directory_object *object = &pull->answer.object;
    bool is_cut = object->name_size >= SESSION_SHOW_NAME;
    uint32_t bytes = is_cut ? SESSION_SHOW_NAME - (uint32_t)sizeof(CUT_HERE) : object->name_size;
    const uint8_t *from =
        transfer_place(exchange, pull, index_meta_offset(object->data_size) + object->meta_size);

    while (is_cut && bytes > 0 && (from[bytes] & 0xc0) == 0x80) {
        bytes--;
    }
    memcpy(name, from, bytes);
    memcpy(name + bytes, is_cut ? CUT_HERE : "", is_cut ? sizeof(CUT_HERE) : 1);
}

void show_note_pulled(struct exchange *exchange, const struct pull *pull)
{
    struct shown_past *past = &exchange->past[exchange->past_next++ % SESSION_SHOW_TRANSFERS_PAST];
    struct session_show_transfer *at = &past->record;

    memset(at, 0, sizeof(*at));
    past->ended_us = exchange->now_us;
    at->pool = pull->pool;
    at->rank = pull->answer.holders[pull->holder];
    memcpy(at->id, pull->key.id, sizeof(at->id));
    at->way = way_of(pull->way);
    at->bytes = at->done_bytes = pull->content;
    /* What is asked for and comes in one turn, which has one time, is not timed. */
    if (pull->asked_us != 0 && exchange->now_us > pull->asked_us) {
        at->took_us = exchange->now_us - pull->asked_us;
    }
    copy_name(exchange, pull, at->name);
}

/* ---- those under way ------------------------------------------------------ */

static void show_pull(const struct pull *pull, uint32_t rank, uint64_t now_us,
                      struct session_show_transfer *at)
{
    bool has_begun =
        pull->state == PULL_STREAMING || pull->state == PULL_READING || pull->state == PULL_SUMMING;

    memset(at, 0, sizeof(*at));
    at->pool = pull->pool;
    at->rank = rank;
    memcpy(at->id, pull->key.id, sizeof(at->id));
    at->flags = SESSION_TRANSFER_NOW;
    at->state = (uint8_t)pull->state;
    at->way = has_begun ? way_of(pull->way) : SESSION_WAY_NONE;
    at->bytes = pull->content;
    at->done_bytes = pull->received;
    if (pull->asked_us != 0 && now_us > pull->asked_us) {
        at->took_us = now_us - pull->asked_us;
    }
}

/* Of a loan nobody says how much was read; of what is sent it is known. */
static void show_serve(const struct exchange *exchange, const struct serve *serve, uint32_t rank,
                       struct session_show_transfer *at)
{
    memset(at, 0, sizeof(*at));
    at->pool = serve->pool;
    at->rank = rank;
    at->flags = SESSION_TRANSFER_NOW | SESSION_TRANSFER_SERVES;
    at->way = way_of(serve->way);
    at->bytes = serve->content;
    at->done_bytes = serve->way == WIRE_LOAN ? 0 : serve->sent;
    store_copy_id(exchange->config.store, serve->pool, serve->entry, at->id);
}

static uint32_t show_link(const struct exchange *exchange, const struct exchange_link *link,
                          struct session_show_transfer *records, uint32_t room)
{
    uint32_t count = 0;

    LIST_FOREACH(node, &link->pulls)
    {
        if (count == room) {
            return count;
        }
        show_pull(container_of(node, struct pull, place), link->rank, exchange->now_us,
                  &records[count++]);
    }
    LIST_FOREACH(node, &link->serves)
    {
        if (count == room) {
            return count;
        }
        show_serve(exchange, container_of(node, struct serve, place), link->rank,
                   &records[count++]);
    }
    return count;
}

uint32_t exchange_show_transfers(struct exchange *exchange, uint64_t now_us,
                                 struct session_show_transfer *records, uint64_t *left)
{
    uint64_t all = exchange->counts.pulls_now + exchange->counts.loans_now;
    uint32_t count = 0;

    exchange->now_us = now_us;
    LIST_FOREACH(node, &exchange->live)
    {
        count += show_link(exchange, container_of(node, struct exchange_link, place),
                           &records[count], SESSION_SHOW_TRANSFERS_NOW - count);
    }
    *left = all > count ? all - count : 0;
    for (uint32_t n = 1; n <= SESSION_SHOW_TRANSFERS_PAST && n <= exchange->past_next; n++) {
        const struct shown_past *past =
            &exchange->past[(exchange->past_next - n) % SESSION_SHOW_TRANSFERS_PAST];

        records[count] = past->record;
        records[count++].ago_us = now_us > past->ended_us ? now_us - past->ended_us : 0;
    }
    return count;
}

/* ---- what links cost ------------------------------------------------------ */

static void show_curve(const struct exchange_link *link, struct session_show_curve *curve)
{
    const struct crossover *crossover = &link->crossovers[false];

    _Static_assert(SESSION_SHOW_CLASSES == CROSSOVER_CLASSES &&
                       (uint32_t)CROSSOVER_TWO_SIDED == 0 && (uint32_t)CROSSOVER_ONE_SIDED == 1,
                   "a curve has a point for each class, first what is sent");
    memset(curve, 0, sizeof(*curve));
    curve->rank = link->rank;
    curve->rail = link_rail(link->link);
    curve->crossover_bytes = crossover_is_known(crossover) ? crossover_bytes(crossover) : 0;
    for (uint32_t n = 0; n < CROSSOVER_CLASSES; n++) {
        struct session_show_point *point = &curve->points[n];

        for (uint32_t path = 0; path < CROSSOVER_PATHS; path++) {
            point->count[path] = crossover_point(crossover, (enum crossover_path)path, n,
                                                 &point->kib[path], &point->took_us[path]);
        }
    }
}

uint32_t exchange_show_curves(const struct exchange *exchange, uint64_t from,
                              struct session_show_curve *curves, uint64_t *next)
{
    uint64_t number = 0;
    uint32_t count = 0;

    *next = 0;
    LIST_FOREACH(node, &exchange->live)
    {
        if (number++ < from) {
            continue;
        }
        if (count == SESSION_SHOW_LINKS) {
            *next = from + count;
            break;
        }
        show_curve(container_of(node, struct exchange_link, place), &curves[count++]);
    }
    return count;
}
