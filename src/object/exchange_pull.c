/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange as a puller: which ids somebody here waits for, and what state their pulls are in.
 * All who wait for one id share one pull. Where it asks for a holder is in exchange_locate.c, what
 * it does next in exchange_steps.c, what becomes of the bytes in exchange_transfer.c.
 *
 * A pull that fails tries the next holder, then its home again, with pauses, for as long as
 * somebody waits: deadlines are the store's, which ends its waiters and says so (pull_unwant).
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "object/exchange_admission.h"
#include "object/exchange_announce.h"
#include "object/exchange_figures.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_messages.h"
#include "object/exchange_probe.h"
#include "object/exchange_pull.h"
#include "object/exchange_push.h"
#include "object/exchange_reads.h"
#include "object/exchange_tree.h"
#include "object/exchange_view.h"
#include "object/exchange_wire.h"

#define LOG_MODULE "exchange"
#include "base/log.h"

nigh_status pulls_init(struct exchange *exchange)
{
    list_init(&exchange->free_pulls);
    list_init(&exchange->ready);
    admission_init(exchange);
    list_init(&exchange->roused);
    for (uint32_t rank = 0; rank < LIMIT_NODES; rank++) {
        list_init(&exchange->resting[rank]);
    }
    exchange->pulls = calloc(LIMIT_PULLS, sizeof(*exchange->pulls));
    exchange->buckets = calloc(EXCHANGE_BUCKETS, sizeof(*exchange->buckets));
    exchange->timer_storage = calloc(LIMIT_PULLS, sizeof(*exchange->timer_storage));
    exchange->reads = calloc(LIMIT_PULL_READS, sizeof(*exchange->reads));
    if (exchange->pulls == NULL || exchange->buckets == NULL || exchange->timer_storage == NULL ||
        exchange->reads == NULL) {
        return NIGH_NO_RESOURCES;
    }
    for (uint32_t n = 0; n < EXCHANGE_BUCKETS; n++) {
        list_init(&exchange->buckets[n]);
    }
    timers_init(&exchange->timers, exchange->timer_storage, LIMIT_PULLS);
    exchange->free_read = UINT32_MAX;
    return NIGH_OK;
}

void pulls_fini(struct exchange *exchange)
{
    for (uint32_t n = 0; n < exchange->pulls_used; n++) {
        reads_give_run(exchange, &exchange->pulls[n]);
    }
    reads_free_runs(exchange);
    free(exchange->pulls);
    free(exchange->buckets);
    free(exchange->timer_storage);
    free(exchange->reads);
}

/* ---- finding -------------------------------------------------------------- */

static struct list *bucket_of(struct exchange *exchange, uint64_t key_hash)
{
    return &exchange->buckets[key_hash % EXCHANGE_BUCKETS];
}

static struct pull *find_pull(struct exchange *exchange, const struct directory_key *key,
                              uint64_t key_hash)
{
    LIST_FOREACH(node, bucket_of(exchange, key_hash))
    {
        struct pull *pull = container_of(node, struct pull, bucket);

        if (memcmp(&pull->key, key, sizeof(*key)) == 0) {
            return pull;
        }
    }
    return NULL;
}

bool pull_is_under_way(struct exchange *exchange, const struct directory_key *key)
{
    return find_pull(exchange, key, directory_key_hash(key)) != NULL;
}

void pull_doubt(struct exchange *exchange, const struct directory_key *key)
{
    struct pull *pull = find_pull(exchange, key, directory_key_hash(key));

    if (pull != NULL) {
        pull->doubted = true;
    }
}

void pull_doubt_all(struct exchange_link *link)
{
    LIST_FOREACH(node, &link->pulls)
    {
        container_of(node, struct pull, place)->doubted = true;
    }
}

struct pull *pull_of_key(struct exchange *exchange, const struct directory_key *key)
{
    return find_pull(exchange, key, directory_key_hash(key));
}

uint64_t pull_tag(const struct exchange *exchange, const struct pull *pull)
{
    return (uint64_t)pull->generation << 32 | (uint64_t)(pull - exchange->pulls);
}

struct pull *pull_of_tag(struct exchange *exchange, uint64_t tag)
{
    uint32_t number = (uint32_t)tag;
    struct pull *pull;

    if (number >= exchange->pulls_used) {
        return NULL;
    }
    pull = &exchange->pulls[number];
    return pull->state != PULL_FREE && pull->generation == (uint32_t)(tag >> 32) ? pull : NULL;
}

static struct pull *take_pull(struct exchange *exchange)
{
    struct list_node *node = list_pop_front(&exchange->free_pulls);

    if (node != NULL) {
        return container_of(node, struct pull, bucket);
    }
    return exchange->pulls_used < LIMIT_PULLS ? &exchange->pulls[exchange->pulls_used++] : NULL;
}

/* ---- states --------------------------------------------------------------- */

void pull_leave(struct exchange *exchange, struct pull *pull)
{
    timers_cancel(&exchange->timers, &pull->timer);
    if (list_is_linked(&pull->place)) {
        list_remove(&pull->place);
    }
    admission_leave(exchange, pull);
    if (pull->link != NULL) {
        *messages_adrift(pull->link, pull->pushes) += pull->credits; /* the link's, from here on */
    }
    pull->link = NULL;
    pull->credits = 0;
    pull->held = 0;
}

void pull_ready(struct exchange *exchange, struct pull *pull)
{
    pull_leave(exchange, pull);
    pull->state = PULL_READY;
    list_push_back(&exchange->ready, &pull->place);
}

void pull_set_timer(struct exchange *exchange, struct pull *pull, uint64_t after_us)
{
    nigh_status status = timers_add(&exchange->timers, &pull->timer, exchange->now_us + after_us);

    NIGH_ASSERT(status == NIGH_OK); /* there is one for each */
}

void pull_note_memory(struct exchange *exchange, struct pull *pull, nigh_status late)
{
    bool short_of = late != NIGH_TIMEOUT;

    if (short_of || pull->short_of) {
        store_note_wanted(exchange->config.store, pull->pool, pull->key.id, pull->hash, late);
    }
    exchange->short_pulls += (short_of ? 1u : 0u) - (pull->short_of ? 1u : 0u);
    pull->short_of = short_of;
}

/* Whether no home may be asked, which those who wait for one end with. */
static void note_quorum(struct exchange *exchange, struct pull *pull)
{
    bool cut_off = !exchange->views.quorum;

    if (cut_off != pull->cut_off) {
        store_note_wanted(exchange->config.store, pull->pool, pull->key.id, pull->hash,
                          cut_off ? NIGH_NO_QUORUM : NIGH_TIMEOUT);
    }
    pull->cut_off = cut_off;
}

void pull_rest(struct exchange *exchange, struct pull *pull, enum pull_state state,
               uint64_t after_us)
{
    pull_leave(exchange, pull);
    pull_note_memory(exchange, pull, NIGH_TIMEOUT);
    note_quorum(exchange, pull);
    pull->state = state;
    list_push_back(&exchange->resting[pull->home], &pull->place);
    pull_set_timer(exchange, pull, after_us);
}

void pull_unnote(struct exchange *exchange, struct pull *pull)
{
    if (pull->noted) {
        pull->noted = false;
        announce_object(exchange, pull->pool, pull->key.id, pull->hash, &pull->answer.object,
                        WIRE_GONE);
    }
}

void pull_pause(struct exchange *exchange, struct pull *pull)
{
    uint64_t wait_us = EXCHANGE_PAUSE_US;

    for (uint32_t n = 0; n < pull->attempts && wait_us < EXCHANGE_PAUSE_MAX; n++) {
        wait_us *= 2;
    }
    pull->attempts++;
    pull->asked_us = pull->crossover = 0;
    exchange->counts.pulls_retried++;
    pull_unnote(exchange, pull);
    pull_rest(exchange, pull, PULL_PAUSED,
              wait_us / 2 + random_below(&exchange->random, wait_us / 2 + 1));
}

void pull_set_link(struct pull *pull, struct exchange_link *link, enum pull_state state)
{
    if (list_is_linked(&pull->place)) {
        list_remove(&pull->place);
    }
    pull->link = link;
    pull->state = state;
    pull->heard_us = link->exchange->now_us;
    list_push_back(&link->pulls, &pull->place);
}

static void give_memory(struct exchange *exchange, struct pull *pull)
{
    if (pull->has_memory) {
        tree_cut(exchange, pull, NIGH_NOT_FOUND);
        store_pull_abort(exchange->config.store, pull->pool, pull->entry, exchange->now_us);
        pull->has_memory = false;
    }
    admission_give(exchange, pull);
}

void pull_drop_memory(struct exchange *exchange, struct pull *pull)
{
    give_memory(exchange, pull);
    pull->received = 0;
    pull->crc = 0;
    pull->mixed = false;
}

void pull_end(struct exchange *exchange, struct pull *pull)
{
    NIGH_ASSERT(pull->reads == 0);
    pull_note_memory(exchange, pull, NIGH_TIMEOUT);
    pull_unnote(exchange, pull);
    pull_leave(exchange, pull);
    give_memory(exchange, pull);
    reads_give_run(exchange, pull);
    list_remove(&pull->bucket);
    pull->state = PULL_FREE;
    exchange->counts.pulls_now--;
    list_push_front(&exchange->free_pulls, &pull->bucket);
}

void pull_next_holder(struct exchange *exchange, struct pull *pull)
{
    pull->tried |= 1u << pull->holder;
    if (pull->received == 0) {
        tree_cut(exchange, pull, NIGH_NOT_FOUND); /* or it might be sent to who waits for it */
    }
    pull_pause(exchange, pull);
}

/* ---- wants ---------------------------------------------------------------- */

/* Called by the store, from inside its own calls: only notes. */
void pull_want(void *context, uint32_t pool, const uint8_t *id, uint64_t hash, uint64_t deadline_us,
               bool keep)
{
    struct exchange *exchange = context;
    struct directory_key key;
    uint64_t key_hash;
    uint32_t home, generation;
    struct pull *pull;

    if (!exchange->pools[pool].used) {
        return;
    }
    exchange_key(exchange, pool, id, &key, &key_hash, &home);
    pull = find_pull(exchange, &key, key_hash);
    if (pull != NULL) {
        exchange->counts.pulls_merged += pull->wanted ? 1 : 0;
        pull->keep = keep || (pull->wanted && pull->keep);
        pull->wanted = true;
        pull->deadline_us = deadline_us > pull->deadline_us ? deadline_us : pull->deadline_us;
        return;
    }
    pull = take_pull(exchange);
    if (pull == NULL) {
        return; /* its waiters end at their deadlines */
    }
    generation = pull->generation + 1;
    memset(pull, 0, sizeof(*pull));
    pull->exchange = exchange;
    pull->generation = generation;
    pull->pool = pool;
    pull->key = key;
    pull->hash = hash;
    pull->key_hash = key_hash;
    pull->home = home;
    pull->wanted = true;
    pull->keep = keep;
    pull->deadline_us = deadline_us;
    list_push_back(bucket_of(exchange, key_hash), &pull->bucket);
    pull_ready(exchange, pull);
    exchange->counts.pulls++;
    exchange->counts.pulls_now++;
}

void pull_unwant(void *context, uint32_t pool, const uint8_t *id, uint64_t hash)
{
    struct exchange *exchange = context;
    struct directory_key key;
    uint64_t key_hash;
    uint32_t home;
    struct pull *pull;

    (void)hash;
    if (!exchange->pools[pool].used) {
        return;
    }
    exchange_key(exchange, pool, id, &key, &key_hash, &home);
    pull = find_pull(exchange, &key, key_hash);
    if (pull == NULL) {
        return;
    }
    pull->wanted = false;
    if (pull->state == PULL_PAUSED || pull->state == PULL_WAITING || pull->state == PULL_MEMORY) {
        pull_ready(exchange, pull);
    } else if (pull->state == PULL_STREAMING || pull->state == PULL_READING) {
        /* It is seen at its next message or READ, or in the turn's look at what is unwanted. */
        exchange->unwanted++;
    }
}

/* ---- links ---------------------------------------------------------------- */

/* Calls and READs of the link have ended through their own callbacks; what is left are the streams.
 * Who waits for its home to tell asks again in EXCHANGE_ASK_US, or when the link is back. */
void pull_link_down(struct exchange_link *link, uint64_t now_us)
{
    struct exchange *exchange = link->exchange;

    exchange->now_us = now_us;
    exchange->declines -= link->declined_count; /* its end says it */
    link->declined_count = 0;
    LIST_FOREACH_SAFE(node, &link->pulls)
    {
        struct pull *pull = container_of(node, struct pull, place);

        NIGH_ASSERT(pull->reads == 0);
        pull->serve = 0;
        pull_next_holder(exchange, pull);
    }
}

void pull_home_up(struct exchange *exchange, uint32_t rank)
{
    list_append_all(&exchange->roused, &exchange->resting[rank]);
}

void pull_homes_moved(struct exchange *exchange)
{
    for (uint32_t n = 0; n < exchange->pulls_used; n++) {
        struct pull *pull = &exchange->pulls[n];
        uint32_t home = views_home(exchange, pull->key_hash);

        if (pull->state == PULL_FREE) {
            continue;
        }
        pull->doubted = true; /* whoever counts this node as a holder may be its home no more */
        if (pull->home == home) {
            continue;
        }
        pull->home = home;
        if (pull->state == PULL_PAUSED || pull->state == PULL_WAITING) {
            pull_ready(exchange, pull);
        }
    }
}

/* Receives that were granted are with pulls, or adrift, and so are windows. A link that fails
 * counts no more. */
static bool are_grants_valid(const struct exchange_link *link)
{
    uint32_t receives = link->exchange->config.bulk_receives;
    const struct prober *prober = &link->exchange->prober;
    uint32_t granted =
        link->adrift + link->probe_owed + (prober->link == link ? prober->credits : 0);
    uint32_t windows = link->adrift_windows;

    LIST_FOREACH(node, &link->pulls)
    {
        const struct pull *pull = container_of(node, struct pull, place);

        granted += pull->pushes ? 0 : pull->credits;
        windows += pull->pushes ? pull->credits : 0;
    }
    return granted + windows == link->granted && link->granted <= receives &&
           (link->staging == NULL ? windows == 0 : windows == receives - push_free(link));
}

bool pulls_are_valid(const struct exchange *exchange)
{
    uint64_t now = 0, bytes = 0, short_of = 0, declines = 0, granted = 0;

    for (uint32_t n = 0; n < exchange->pulls_used; n++) {
        const struct pull *pull = &exchange->pulls[n];

        if (pull->state == PULL_FREE) {
            continue;
        }
        now++;
        bytes += pull->admitted ? pull->bytes : 0;
        if ((pull->has_memory && !pull->admitted) || (pull->reads > 0 && !pull->has_memory) ||
            (pull->reads > 0 && pull->state != PULL_READING && pull->state != PULL_DRAINING) ||
            ((pull->state == PULL_PAUSED || pull->state == PULL_WAITING) &&
             !list_is_linked(&pull->place))) {
            return false;
        }
        short_of += pull->short_of ? 1 : 0;
    }
    LIST_FOREACH(node, &exchange->live)
    {
        const struct exchange_link *link = container_of(node, struct exchange_link, place);

        if (!are_grants_valid(link)) {
            return false;
        }
        declines += link->declined_count;
        granted += link->granted;
    }
    if (granted != exchange->granted ||
        (exchange->config.shared_bulk > 0 && granted > exchange->config.shared_bulk)) {
        return false;
    }
    return admission_is_valid(exchange) && exchange->free_run_count <= EXCHANGE_RUNS &&
           (exchange->free_run_count == 0) == (exchange->free_runs == NULL) &&
           declines == exchange->declines && now == exchange->counts.pulls_now &&
           bytes == exchange->counts.pull_bytes_now && short_of == exchange->short_pulls;
}
