/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange as a puller: from an id that somebody here waits for to a holder that is asked for
 * its bytes. All who wait for one id share one pull. What becomes of the bytes is in
 * exchange_transfer.c.
 *
 * A pull that fails tries the next holder, then its home again, with pauses, for as long as
 * somebody waits: deadlines are the store's, which ends its waiters and says so (pull_unwant).
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "object/exchange_internal.h"

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

/* Whether memory for it is missing, which its waiters end with at their deadlines. */
static void note_memory(struct exchange *exchange, struct pull *pull, nigh_status late)
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

/* It does nothing until its timer, or until there is news of its home. */
static void rest(struct exchange *exchange, struct pull *pull, enum pull_state state,
                 uint64_t after_us)
{
    pull_leave(exchange, pull);
    note_memory(exchange, pull, NIGH_TIMEOUT);
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
    rest(exchange, pull, PULL_PAUSED,
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
    note_memory(exchange, pull, NIGH_TIMEOUT);
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

/* ---- locating ------------------------------------------------------------- */

/* Where it is, or that the home will tell. */
static void located(struct exchange *exchange, struct pull *pull,
                    const struct directory_answer *answer)
{
    if (answer->state == DIRECTORY_KNOWN && answer->holder_count > 0) {
        pull->known = true;
        pull->answer = *answer;
        pull->tried = 0;
        pull->sent = false;
        pull_ready(exchange, pull);
        return;
    }
    pull->asked_us = pull->crossover = 0; /* what it waits for is no transfer */
    if (pull->asked_home != pull->home) {
        pull_ready(exchange, pull); /* the home moved meanwhile: it asks the new one */
        return;
    }
    rest(exchange, pull, PULL_WAITING, EXCHANGE_ASK_US);
}

void pull_found(struct exchange *exchange, uint32_t from, const struct directory_key *key,
                const struct directory_answer *answer)
{
    struct pull *pull = find_pull(exchange, key, directory_key_hash(key));

    if (pull != NULL && pull->home == from &&
        (pull->state == PULL_WAITING || pull->state == PULL_PAUSED) && !pull->known) {
        located(exchange, pull, answer);
    }
}

static void take_located(struct exchange *exchange, struct pull *pull, nigh_status status,
                         const uint8_t *payload, uint32_t bytes, uint64_t now_us)
{
    struct wire_located answer;
    struct directory_answer where;
    uint32_t state;

    if (status != NIGH_OK || bytes < sizeof(state)) {
        messages_unspent(pull, status, now_us);
        pull_pause(exchange, pull);
        return;
    }
    memcpy(&state, payload, sizeof(state));
    if (state == WIRE_PULLED) {
        transfer_pulled(exchange, pull, payload, bytes, now_us);
        return;
    }
    messages_unspent(pull, status, now_us);
    if (bytes != sizeof(answer)) {
        link_break(pull->link->link, NIGH_PROTOCOL, now_us);
        pull_pause(exchange, pull);
        return;
    }
    memcpy(&answer, payload, sizeof(answer));
    where = wire_to_answer(&answer);
    located(exchange, pull, &where);
}

static void on_located(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                       uint64_t now_us)
{
    struct pull *pull = context;
    struct exchange *exchange = pull->exchange;
    struct exchange_link *link = pull->link;
    bool held = pull->held > 0;

    NIGH_ASSERT(pull->state == PULL_LOCATING);
    exchange->now_us = now_us;
    take_located(exchange, pull, status, payload, bytes, now_us);
    if (held) {
        messages_take_held(link, now_us);
    }
}

uint64_t exchange_crossover(const struct exchange *exchange, struct exchange_link *link,
                            bool located)
{
    switch (exchange->config.path) {
    case EXCHANGE_TWO_SIDED:
    case EXCHANGE_PUSH: return UINT64_MAX;
    case EXCHANGE_ONE_SIDED:
    case EXCHANGE_REGISTER: return 0;
    case EXCHANGE_AUTO: break;
    }
    return crossover_next(&link->crossovers[located]);
}

static void locate_remote(struct exchange *exchange, struct pull *pull)
{
    struct exchange_link *link = exchange_link_to(exchange, pull->home, pull->hash);
    struct wire_locate locate = {
        .key = pull->key,
        .wait = pull->keep ? WIRE_WAIT_TELL : WIRE_WAIT_PASS,
        .tag = pull_tag(exchange, pull),
    };
    struct wire_window windows[WIRE_WINDOWS];
    struct rpc_piece pieces[2] = {{.data = &locate, .bytes = sizeof(locate)}, {.data = windows}};

    pull->asked_home = pull->home;
    if (link == NULL || !link->in_view) {
        pull_pause(exchange, pull);
        return;
    }
    pull->pushes = false;
    /* What is held here perhaps need not be sent. */
    locate.only = store_has_transient(exchange->config.store, pull->pool, pull->key.id, pull->hash);
    /* Nor what others read here so far, or begin to meanwhile, and would have written to again. */
    locate.only = locate.only != 0 || tree_is_lendable(exchange, pull) ? 1 : 0;
    if (locate.only == 0) {
        locate.crossover_bytes = exchange_crossover(exchange, link, true);
        if (locate.crossover_bytes > exchange->inline_bytes) {
            messages_offer(link, pull, windows);
        }
    }
    locate.credits = pull->credits;
    if (pull->pushes) {
        locate.way = WIRE_PUSH;
        pieces[1].bytes = locate.credits * (uint32_t)sizeof(*windows);
    }
    if (rpc_call(link_rpc(link->link), WIRE_LOCATE, pieces, 2, exchange->now_us + EXCHANGE_CALL_US,
                 exchange->now_us, on_located, pull, NULL) != NIGH_OK) {
        messages_unoffer(link, pull);
        pull_pause(exchange, pull);
        return;
    }
    pull->doubted = false;
    pull->located = true;
    pull->asked_us = locate.only == 0 ? exchange->now_us : 0; /* that is no transfer */
    pull->crossover = locate.crossover_bytes;
    pull_set_link(pull, link, PULL_LOCATING);
}

/* Its waiters are told at their deadlines what is missing. */
static void note_outside(struct exchange *exchange, const struct pull *pull, nigh_status late)
{
    store_note_wanted(exchange->config.store, pull->pool, pull->key.id, pull->hash, late);
}

static void locate_outside(struct exchange *exchange, struct pull *pull)
{
    struct outside_ask ask = {.op = OUTSIDE_LOCATE,
                              .use = OUTSIDE_FOR_PULL,
                              .token = pull_tag(exchange, pull),
                              .flag = true,
                              .key = pull->key};

    pull->doubted = false;
    if (outside_ask(exchange, &ask)) {
        pull->asked_us = pull->crossover = 0;
        rest(exchange, pull, PULL_WAITING, EXCHANGE_CALL_US);
        return;
    }
    pull_pause(exchange, pull);
    note_outside(exchange, pull, NIGH_PEER_LOST);
}

/* The directory outside has answered a LOCATE. */
void pull_told(struct exchange *exchange, const struct outside_news *news)
{
    struct pull *pull = pull_of_tag(exchange, news->token);

    if (pull == NULL || pull->state != PULL_WAITING || pull->known || !pull->wanted) {
        return;
    }
    if (news->status != NIGH_OK) {
        pull_pause(exchange, pull);
        note_outside(exchange, pull, NIGH_PEER_LOST);
        return;
    }
    note_outside(exchange, pull, NIGH_TIMEOUT);
    located(exchange, pull, &news->answer);
}

/* It has told that somebody has an object now: it is asked who. */
void pull_rouse(struct exchange *exchange, const struct directory_key *key)
{
    struct pull *pull = find_pull(exchange, key, directory_key_hash(key));

    if (pull != NULL && (pull->state == PULL_WAITING || pull->state == PULL_PAUSED) &&
        !pull->known) {
        pull_ready(exchange, pull);
    }
}

static void locate(struct exchange *exchange, struct pull *pull)
{
    struct directory_answer answer;

    if (exchange->outside.used) {
        locate_outside(exchange, pull);
        return;
    }
    pull->home = replication_home(exchange, pull->key_hash);
    if (pull->home != exchange_self(exchange)) {
        locate_remote(exchange, pull);
        return;
    }
    pull->asked_home = pull->home;
    if (replication_stands_in(exchange, &pull->key)) {
        replication_locate(exchange, pull->home, &pull->key, &answer);
        located(exchange, pull, &answer);
        return;
    }
    if (!exchange->views.quorum || directory_locate(exchange->directory, exchange_self(exchange),
                                                    &pull->key, true, &answer) != NIGH_OK) {
        pull_pause(exchange, pull);
        return;
    }
    located(exchange, pull, &answer);
}

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
        note_memory(exchange, pull, NIGH_OUT_OF_MEMORY); /* it stands behind one that has none */
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
        note_memory(exchange, pull, NIGH_TIMEOUT);
        return true;
    }
    if (status == NIGH_PENDING || status == NIGH_LIMIT) {
        note_memory(exchange, pull, status == NIGH_LIMIT ? NIGH_LIMIT : NIGH_OUT_OF_MEMORY);
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
        locate(exchange, pull);
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
            LOG_WARN("a holder does nothing for a transfer: its link is broken", "rank=%u",
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

        if (pull->state == PULL_FREE || pull->home == home) {
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
