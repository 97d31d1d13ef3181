/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange around a keeper of replicas (cluster/replicas.h): what holders tell it, whom it asks
 * for copies, and where a key is whose home is dead.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "object/crossover.h"
#include "object/exchange_figures.h"
#include "object/exchange_home.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_replicas.h"
#include "object/exchange_replication.h"
#include "object/exchange_view.h"
#include "object/exchange_wire.h"

/* ---- what the keeper wants said ------------------------------------------- */

static bool reaches(void *context, uint32_t rank, const struct directory_key *key)
{
    struct exchange *exchange = context;

    return rank == exchange_self(exchange) ||
           exchange_link_to(exchange, rank, hash_id20(key->id)) != NULL;
}

static bool is_dead(void *context, uint32_t rank)
{
    const struct exchange *exchange = context;

    return directory_member_is_dead(exchange->directory, rank);
}

/* A question to a member, under way. */
struct question {
    struct exchange *exchange;
    uint32_t rank;
    struct directory_key key;
    struct birth birth;
};

static void on_made(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                    uint64_t now_us)
{
    struct question *question = context;

    (void)payload;
    (void)bytes;
    if (status == NIGH_PEER_LOST || status == NIGH_TIMEOUT || status == NIGH_CANCELED) {
        status = NIGH_BUSY; /* it is asked again, or its link is down */
    }
    replicas_made(question->exchange->replication->keeper, question->rank, &question->key,
                  &question->birth, status, now_us);
    free(question);
}

static void on_released(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                        uint64_t now_us)
{
    (void)status;
    (void)payload;
    (void)bytes;
    (void)now_us;
    free(context);
}

static void ask(struct exchange *exchange, uint32_t rank, const struct wire_replicate *asked)
{
    struct exchange_link *link = exchange_link_to(exchange, rank, hash_id20(asked->key.id));
    struct question *question = link == NULL ? NULL : calloc(1, sizeof(*question));
    struct rpc_piece piece = {.data = asked, .bytes = sizeof(*asked)};
    bool is_release = (asked->flags & WIRE_REPLICATE_RELEASE) != 0;

    if (question == NULL) {
        return; /* it is asked again */
    }
    *question = (struct question){
        .exchange = exchange, .rank = rank, .key = asked->key, .birth = asked->object.birth};
    if (rpc_call(link_rpc(link->link), WIRE_REPLICATE, &piece, 1,
                 clock_deadline_us(exchange->now_us, EXCHANGE_CALL_US), exchange->now_us,
                 is_release ? on_released : on_made, question, NULL) != NIGH_OK) {
        free(question);
    }
}

static void make(void *context, uint32_t rank, const struct directory_key *key,
                 const struct directory_object *object, uint32_t wanted)
{
    struct exchange *exchange = context;
    struct wire_replicate asked = {.key = *key, .object = *object, .wanted = wanted};

    if (rank != exchange_self(exchange)) {
        ask(exchange, rank, &asked);
        return;
    }
    replicas_made(exchange->replication->keeper, rank, &asked.key, &asked.object.birth,
                  make_asked(exchange, rank, &asked, exchange->now_us), exchange->now_us);
}

static void release(void *context, uint32_t rank, const struct directory_key *key,
                    const struct birth *birth)
{
    struct exchange *exchange = context;
    struct wire_replicate asked = {
        .key = *key, .object = {.birth = *birth}, .wanted = 2, .flags = WIRE_REPLICATE_RELEASE};

    if (rank == exchange_self(exchange)) {
        (void)make_asked(exchange, rank, &asked, exchange->now_us);
    } else {
        ask(exchange, rank, &asked);
    }
}

static uint32_t flags_of(const struct replica_count *count)
{
    return (count->is_short != 0 ? WIRE_COUNT_SHORT : 0) | (count->leaves ? WIRE_COUNT_LEAVES : 0);
}

static void count(void *context, uint32_t rank, const struct directory_key *key,
                  const struct birth *birth, const struct replica_count *count)
{
    struct exchange *exchange = context;
    struct wire_replica_count said = {.key = *key,
                                      .birth = *birth,
                                      .wanted = count->wanted,
                                      .held = count->held,
                                      .flags = flags_of(count),
                                      .why = count->why};
    struct rpc_piece piece = {.data = &said, .bytes = sizeof(said)};
    struct held *held = replication_find(exchange->replication, key);
    struct exchange_link *link;

    if (rank == exchange_self(exchange)) {
        if (held != NULL && !held->gone && birth_equal(&held->object.birth, birth)) {
            replication_counted(exchange->replication, held, count);
        }
        return;
    }
    link = exchange_link_to(exchange, rank, hash_id20(key->id));
    if (link != NULL) { /* what cannot be said now it asks for, soon */
        (void)rpc_one_way(link_rpc(link->link), WIRE_REPLICA_COUNT, &piece, 1, exchange->now_us);
    }
}

nigh_status keeper_init(struct replication *replication)
{
    struct exchange *exchange = replication->exchange;
    struct replicas_config config = {
        .members = exchange->config.members,
        .max_keys = replication->held_max,
        .seed = exchange->config.seed,
        .shell = {.context = exchange,
                  .reaches = reaches,
                  .is_dead = is_dead,
                  .is_out = replication_is_out,
                  .make = make,
                  .release = release,
                  .count = count},
    };

    return replicas_create(&config, &replication->keeper);
}

/* ---- what holders say ----------------------------------------------------- */

struct wire_replica_state keeper_told(struct exchange *exchange, uint32_t from,
                                      const struct wire_replica *said, uint64_t now_us)
{
    struct replicas *keeper = exchange->replication->keeper;
    struct wire_replica_state state = {.status = NIGH_OK};
    struct replica_count count = {0};

    if (replication_keeper(exchange, directory_key_hash(&said->key)) != exchange_self(exchange)) {
        state.status = NIGH_BUSY; /* who lives may be seen differently for a while */
        return state;
    }
    if ((said->flags & WIRE_REPLICA_GONE) != 0) {
        replicas_gone(keeper, from, &said->key, &said->object.birth, now_us);
        return state;
    }
    state.status =
        replicas_told(keeper, from, &said->key, &said->object, said->wanted,
                      ((said->flags & WIRE_REPLICA_WAITS) != 0 ? REPLICAS_WAITS : 0) |
                          ((said->flags & WIRE_REPLICA_LEAVES) != 0 ? REPLICAS_LEAVES : 0),
                      now_us, &count);
    state.wanted = count.wanted;
    state.held = count.held;
    state.flags = flags_of(&count);
    state.why = count.why;
    return state;
}

static void on_replicas(struct exchange_link *link, const struct rpc_request *request,
                        uint64_t now_us)
{
    struct wire_replica_state states[LIMIT_RPC_PAYLOAD / sizeof(struct wire_replica)];
    uint32_t count = request->bytes / (uint32_t)sizeof(struct wire_replica);
    struct rpc_piece piece = {.data = states, .bytes = count * (uint32_t)sizeof(states[0])};

    if (request->call == 0) {
        return;
    }
    if (request->bytes % sizeof(struct wire_replica) != 0 || count > REPLICAS_BATCH) {
        rpc_reply(link_rpc(link->link), request->call, NIGH_PROTOCOL, NULL, 0);
        return;
    }
    for (uint32_t n = 0; n < count; n++) {
        struct wire_replica said;

        memcpy(&said, request->payload + n * sizeof(said), sizeof(said));
        if ((link->shards >> (hash_id20(said.key.id) >> 58) & 1) == 0) {
            states[n] = (struct wire_replica_state){.status = NIGH_DENIED};
        } else {
            states[n] = keeper_told(link->exchange, link->rank, &said, now_us);
        }
    }
    rpc_reply(link_rpc(link->link), request->call, NIGH_OK, &piece, 1);
}

/* A keeper tells how many there are. */
static void on_count(struct exchange_link *link, const struct rpc_request *request)
{
    struct exchange *exchange = link->exchange;
    struct wire_replica_count said;
    struct replica_count count;
    struct held *held;

    if (request->bytes != sizeof(said)) {
        return;
    }
    memcpy(&said, request->payload, sizeof(said));
    held = replication_find(exchange->replication, &said.key);
    if (held == NULL || held->gone || !birth_equal(&held->object.birth, &said.birth) ||
        replication_keeper(exchange, held->key_hash) != link->rank) {
        return;
    }
    count = (struct replica_count){.wanted = said.wanted,
                                   .held = said.held,
                                   .is_short = (said.flags & WIRE_COUNT_SHORT) != 0,
                                   .leaves = (said.flags & WIRE_COUNT_LEAVES) != 0,
                                   .why = (nigh_status)said.why};
    replication_counted(exchange->replication, held, &count);
}

void replication_on_request(struct exchange_link *link, const struct rpc_request *request,
                            uint64_t now_us)
{
    switch (request->method) {
    case WIRE_REPLICAS: on_replicas(link, request, now_us); return;
    case WIRE_REPLICAS_TOLD:
        replicas_told_all(link->exchange->replication->keeper, link->rank, link->shards);
        return;
    case WIRE_REPLICATE: make_on_request(link, request, now_us); return;
    case WIRE_REPLICA_COUNT: on_count(link, request); return;
    default: return;
    }
}

/* ---- in a dead home's place ----------------------------------------------- */

uint32_t replication_home(const struct exchange *exchange, uint64_t key_hash)
{
    return replication_keeper(exchange, key_hash);
}

bool replication_stands_in(const struct exchange *exchange, const struct directory_key *key)
{
    uint64_t key_hash = directory_key_hash(key);

    return views_home(exchange, key_hash) != exchange_self(exchange) &&
           replication_keeper(exchange, key_hash) == exchange_self(exchange);
}

nigh_status replication_locate(struct exchange *exchange, uint32_t asker,
                               const struct directory_key *key, struct directory_answer *answer)
{
    *answer = (struct directory_answer){.state = DIRECTORY_NOT_YET};
    switch (replicas_locate(exchange->replication->keeper, asker, key, exchange->now_us, answer)) {
    case NIGH_OK: return NIGH_OK;
    case NIGH_BUSY: return NIGH_BUSY;
    default: return NIGH_PEER_LOST;
    }
}

bool replication_on_locate(struct exchange_link *link, const struct rpc_request *request,
                           const struct wire_locate *locate)
{
    struct directory_answer answer;
    struct wire_located located;
    struct rpc_piece piece = {.data = &located, .bytes = sizeof(located)};
    nigh_status status;

    if (!replication_stands_in(link->exchange, &locate->key) ||
        (link->shards >> (hash_id20(locate->key.id) >> 58) & 1) == 0) {
        return false;
    }
    status = replication_locate(link->exchange, link->rank, &locate->key, &answer);
    if (status == NIGH_BUSY && locate->wait == 0) { /* it would not be told later */
        rpc_reply(link_rpc(link->link), request->call, status, NULL, 0);
        return true;
    }
    located = wire_from_answer(&answer);
    rpc_reply(link_rpc(link->link), request->call, NIGH_OK, &piece, 1);
    return true;
}

/* ---- the nearest ---------------------------------------------------------- */

/* The shortest that anything took over a link, of what was measured; UINT32_MAX: nothing was. */
static uint32_t shortest_us(const struct exchange_link *link)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t size = 0; size < CROSSOVER_CLASSES && least == UINT32_MAX; size++) {
        for (uint32_t path = 0; path < CROSSOVER_PATHS; path++) {
            const struct crossover_class *class = &link->crossovers[false].classes[path][size];

            for (uint32_t n = 0; n < class->count; n++) {
                least = min_u32(least, class->took_us[n]);
            }
        }
    }
    return least;
}

bool replication_is_nearer(const struct exchange *exchange, const struct exchange_link *link,
                           const struct exchange_link *than)
{
    uint64_t now = exchange->admission.bytes[link->rank];
    uint64_t other = exchange->admission.bytes[than->rank];

    if (now != other) {
        return now < other;
    }
    /* What differs by less than half is the same: the order of the answer spreads those who ask. */
    return (uint64_t)shortest_us(link) * 3 / 2 < shortest_us(than);
}
