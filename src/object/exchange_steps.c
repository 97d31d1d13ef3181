/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pull does next: it asks where its object is, chooses the nearest holder, gets memory, and
 * asks for the bytes; and what a turn does for all pulls, those of holders that say nothing among
 * them.
 */
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "object/exchange_admission.h"
#include "object/exchange_announce.h"
#include "object/exchange_figures.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_pull.h"
#include "object/exchange_replication.h"
#include "object/exchange_transfer.h"
#include "object/exchange_tree.h"
#include "object/exchange_wire.h"

#define LOG_MODULE "exchange"
#include "base/log.h"

/* ---- steps ---------------------------------------------------------------- */

/* The nearest holder that can be asked; false: none is left. */
static bool choose_holder(struct exchange *exchange, struct pull *pull)
{
    const struct exchange_link *nearest = NULL;

    for (uint32_t n = 0; n < pull->answer.holder_count; n++) {
        uint32_t rank = pull->answer.holders[n];

        const struct exchange_link *link;

        if ((pull->tried >> n & 1) != 0 || rank == exchange_self(exchange) ||
            rank >= exchange->config.members->count) {
            continue;
        }
        link = exchange_link_to(exchange, rank, pull->hash);
        if (link != NULL && (nearest == NULL || replication_is_nearer(exchange, link, nearest))) {
            pull->holder = n;
            nearest = link;
        }
    }
    return nearest != NULL;
}

/* False: it waits for its admission. */
static bool admit(struct exchange *exchange, struct pull *pull)
{
    if (admission_take(exchange, pull)) {
        return true;
    }
    pull_leave(exchange, pull);
    pull->state = PULL_MEMORY;
    pull->asked_us = pull->crossover = 0;
    admission_wait(exchange, pull);
    if (exchange->short_pulls > 0) {
        pull_note_memory(exchange, pull,
                         NIGH_OUT_OF_MEMORY); /* it stands behind one that has none */
    }
    return false;
}

/* What the store is asked for. */
static struct store_pull wanted_of(const struct pull *pull)
{
    const struct directory_object *object = &pull->answer.object;
    struct store_pull wanted = {
        .pool = pull->pool,
        .hash = pull->hash,
        .birth = object->birth,
        .data_size = object->data_size,
        .meta_size = object->meta_size,
        .name_size = object->name_size,
    };

    memcpy(wanted.id, pull->key.id, LIMIT_ID_BYTES);
    return wanted;
}

nigh_status pull_take_memory(struct exchange *exchange, struct pull *pull)
{
    struct store_pull wanted = wanted_of(pull);
    nigh_status status;

    if (pull->has_memory) {
        return NIGH_OK;
    }
    status = store_pull_begin(exchange->config.store, &wanted, exchange->now_us, &pull->entry,
                              &pull->offset);
    pull->has_memory = status == NIGH_OK;
    return status;
}

void pull_announce(struct exchange *exchange, struct pull *pull)
{
    if (!pull->noted || pull->doubted) {
        announce_object(exchange, pull->pool, pull->key.id, pull->hash, &pull->answer.object,
                        WIRE_COPY);
    }
    pull->noted = false;
}

/* Somebody here holds this very birth, and no copy of it was to stay: no byte need travel. Whether
 * the pull has ended. */
static bool reuse(struct exchange *exchange, struct pull *pull)
{
    struct store_pull wanted = wanted_of(pull);
    nigh_status status = store_pull_reuse(exchange->config.store, &wanted, exchange->now_us);

    if (status == NIGH_NOT_FOUND) {
        return false;
    }
    if (status == NIGH_OK) {
        pull_announce(exchange, pull);
    }
    exchange->counts.pulls_reused++;
    pull_end(exchange, pull);
    return true;
}

/* False: it waits, or ended. */
bool pull_get_memory(struct exchange *exchange, struct pull *pull)
{
    const struct directory_object *object = &pull->answer.object;
    uint64_t bytes = index_object_bytes(object->data_size, object->meta_size, object->name_size);
    nigh_status status;

    admission_move(exchange, pull);
    if (pull->has_memory) {
        return true;
    }
    if (reuse(exchange, pull)) {
        return false;
    }
    if (bytes != pull->bytes) {
        admission_give(exchange, pull); /* it was for another birth */
    }
    pull->bytes = bytes;
    if (pull->bytes == 0) {
        pull_next_holder(exchange, pull);
        return false;
    }
    pull->content = index_meta_offset(object->data_size) + exchange_tail_bytes(object);
    if (!admit(exchange, pull)) {
        return false;
    }
    status = pull_take_memory(exchange, pull);
    if (status == NIGH_OK) {
        pull_note_memory(exchange, pull, NIGH_TIMEOUT);
        return true;
    }
    if (status == NIGH_PENDING || status == NIGH_LIMIT) {
        pull_note_memory(exchange, pull, status == NIGH_LIMIT ? NIGH_LIMIT : NIGH_OUT_OF_MEMORY);
        pull_leave(exchange, pull);
        pull->state = PULL_MEMORY;
        pull->asked_us = pull->crossover = 0;
        pull_set_timer(exchange, pull, EXCHANGE_PAUSE_US);
        return false;
    }
    if (status != NIGH_EXISTS) {
        store_fail_wanted(exchange->config.store, pull->pool, pull->key.id, pull->hash, status,
                          exchange->now_us);
        exchange->counts.pulls_failed++;
    }
    pull_end(exchange, pull);
    return false;
}

void pull_forget_memory(struct exchange *exchange, struct pull *pull)
{
    if (pull->has_memory && !directory_object_equal(&pull->begun, &pull->answer.object)) {
        pull_drop_memory(exchange, pull);
    }
}

static void step(struct exchange *exchange, struct pull *pull)
{
    if (!pull->wanted) {
        if (pull->home != exchange_self(exchange)) {
            struct exchange_link *link = exchange_link_to(exchange, pull->home, pull->hash);
            struct rpc_piece piece = {.data = &pull->key, .bytes = sizeof(pull->key)};

            if (link != NULL && link->in_view && !pull->known) {
                (void)rpc_one_way(link_rpc(link->link), WIRE_UNWAIT, &piece, 1, exchange->now_us);
            }
        } else {
            directory_unwait(exchange->directory, exchange_self(exchange), &pull->key);
        }
        pull_end(exchange, pull);
        return;
    }
    if (!pull->known) {
        pull_locate(exchange, pull);
        return;
    }
    pull_forget_memory(exchange, pull);
    if (!choose_holder(exchange, pull)) {
        /* All were tried, or are out of reach: the home may know more by now. */
        if (!tree_back(exchange, pull)) {
            pull->known = false;
            pull_pause(exchange, pull);
        }
        return;
    }
    if (!pull_get_memory(exchange, pull)) {
        return;
    }
    pull->begun = pull->answer.object;
    if (!transfer_ask(exchange, pull, exchange->now_us)) {
        pull_pause(exchange, pull);
    }
}

/* ---- turns ---------------------------------------------------------------- */

/* Transfers that nobody waits for any more stop. */
static void stop_unwanted(struct exchange *exchange)
{
    exchange->unwanted = 0;
    LIST_FOREACH(at, &exchange->live)
    {
        struct exchange_link *link = container_of(at, struct exchange_link, place);

        LIST_FOREACH_SAFE(node, &link->pulls)
        {
            struct pull *pull = container_of(node, struct pull, place);

            if (!pull->wanted && (pull->state == PULL_STREAMING || pull->state == PULL_READING)) {
                transfer_stop(exchange, pull);
            }
        }
    }
}

static bool is_transfer(const struct pull *pull)
{
    return pull->state == PULL_STREAMING || pull->state == PULL_READING ||
           pull->state == PULL_SUMMING || pull->state == PULL_DRAINING;
}

/* What waits for a holder, or its home, with memory that it has begun to fill, goes on there, if
 * nobody else needs what it was admitted with. */
static void give_way(struct exchange *exchange)
{
    for (uint32_t n = 0; n < exchange->pulls_used; n++) {
        struct pull *pull = &exchange->pulls[n];

        if ((pull->state == PULL_PAUSED || pull->state == PULL_WAITING) && pull->admitted) {
            pull_drop_memory(exchange, pull);
        }
    }
}

/* When the holder last did something for the transfer that it neglects most, and for any. False:
 * there is none. */
static bool last_heard(const struct exchange_link *link, uint64_t *first_us, uint64_t *last_us)
{
    *first_us = UINT64_MAX;
    *last_us = 0;
    LIST_FOREACH(node, &link->pulls)
    {
        const struct pull *pull = container_of(node, struct pull, place);

        if (is_transfer(pull)) {
            *first_us = min_u64(*first_us, pull->heard_us);
            *last_us = *last_us > pull->heard_us ? *last_us : pull->heard_us;
        }
    }
    return *first_us != UINT64_MAX;
}

/* A holder that answers, and then does nothing more for a transfer, would hold memory for ever: the
 * end of its link ends that, and those who still wait try elsewhere. While other pulls wait for
 * what its transfers were admitted with, one that does nothing at all has less time. */
static void look_for_silent(struct exchange *exchange, uint64_t now_us)
{
    uint64_t most_us = EXCHANGE_SILENCE * exchange->config.loan_us;
    uint64_t crowded_us =
        exchange->admission.count == 0 ? most_us : exchange->config.loan_us / EXCHANGE_CROWDED;

    if (now_us < exchange->silent_us) {
        return;
    }
    exchange->silent_us = clock_deadline_us(now_us, exchange->config.loan_us / EXCHANGE_LOOKS);
    if (exchange->admission.count > 0) {
        give_way(exchange);
    }
    LIST_FOREACH(at, &exchange->live)
    {
        struct exchange_link *link = container_of(at, struct exchange_link, place);
        uint64_t first_us, last_us;

        if (last_heard(link, &first_us, &last_us) &&
            (now_us > clock_deadline_us(first_us, most_us) ||
             now_us > clock_deadline_us(last_us, crowded_us))) {
            LOG_WARN("a holder does nothing for a transfer: its link is broken",
                     "rank=%u do=\"nothing: other holders are asked, and the link is made anew; if "
                     "it comes again, see to that node: it hangs, or lies\"",
                     link->rank);
            link_break(link->link, NIGH_TIMEOUT, now_us);
        }
    }
}

/* Some of those whose home can be asked again. */
static void rouse(struct exchange *exchange)
{
    for (uint32_t n = 0; n < EXCHANGE_TURN_PULLS && !list_empty(&exchange->roused); n++) {
        pull_ready(exchange, container_of(list_first(&exchange->roused), struct pull, place));
    }
}

bool pull_turn(struct exchange *exchange, uint64_t now_us)
{
    struct timer *timer;
    struct pull *next;
    uint32_t steps = 0;

    exchange->now_us = now_us;
    transfer_say_declined(exchange, now_us);
    if (exchange->unwanted > 0) {
        stop_unwanted(exchange);
    }
    look_for_silent(exchange, now_us);
    for (uint32_t n = 0;
         n < LIMIT_TURN_TIMERS && (timer = timers_pop_expired(&exchange->timers, now_us)) != NULL;
         n++) {
        struct pull *pull = container_of(timer, struct pull, timer);

        if (is_transfer(pull)) {
            transfer_look_again(exchange, pull, now_us);
        } else {
            pull_ready(exchange, pull);
        }
    }
    rouse(exchange);
    next = admission_next(exchange);
    if (next != NULL) {
        /* One in a turn: what it takes, or leaves, the one behind it finds in the next. */
        pull_ready(exchange, next);
        next->is_next = true;
    }
    for (; steps < EXCHANGE_TURN_PULLS && !list_empty(&exchange->ready); steps++) {
        step(exchange, container_of(list_first(&exchange->ready), struct pull, place));
    }
    return steps > 0;
}

uint64_t pull_due_us(const struct exchange *exchange)
{
    uint64_t due_us = timers_first_deadline(&exchange->timers);

    if (!list_empty(&exchange->ready) || !list_empty(&exchange->roused) || exchange->unwanted > 0 ||
        admission_next(exchange) != NULL) {
        return 0;
    }
    if (exchange->declines > 0) {
        due_us = min_u64(due_us, exchange->decline_us);
    }
    /* Only what is admitted is transferred. */
    return exchange->counts.pull_bytes_now > 0 ? min_u64(due_us, exchange->silent_us) : due_us;
}
