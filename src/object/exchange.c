/* SPDX-License-Identifier: Apache-2.0 */
/* See exchange.h. Making and ending an exchange, its pools and peers, its turn, and which part a
 * request of a peer goes to. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/hash.h"
#include "object/crossover.h"
#include "object/exchange_admission.h"
#include "object/exchange_announce.h"
#include "object/exchange_erase.h"
#include "object/exchange_figures.h"
#include "object/exchange_hear.h"
#include "object/exchange_home.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_memory.h"
#include "object/exchange_messages.h"
#include "object/exchange_outside.h"
#include "object/exchange_probe.h"
#include "object/exchange_pull.h"
#include "object/exchange_push.h"
#include "object/exchange_replication.h"
#include "object/exchange_serve.h"
#include "object/exchange_tree.h"
#include "object/exchange_view.h"
#include "object/exchange_wire.h"

#define LOG_MODULE "exchange"
#include "base/log.h"

/* ---- small things --------------------------------------------------------- */

uint32_t exchange_self(const struct exchange *exchange)
{
    return exchange->config.members->self;
}

void exchange_key(const struct exchange *exchange, uint32_t pool, const uint8_t *id,
                  struct directory_key *key, uint64_t *key_hash, uint32_t *home)
{
    memset(key, 0, sizeof(*key));
    key->pool = exchange->pools[pool].cluster_pool;
    memcpy(key->id, id, LIMIT_ID_BYTES);
    *key_hash = directory_key_hash(key);
    *home = views_home(exchange, *key_hash);
}

bool exchange_pool_of(const struct exchange *exchange, const struct directory_key *key,
                      uint32_t *pool)
{
    for (uint32_t n = 0; n < LIMIT_POOLS; n++) {
        if (exchange->pools[n].used && exchange->pools[n].cluster_pool == key->pool) {
            *pool = n;
            return true;
        }
    }
    return false;
}

nigh_status exchange_is_home(struct exchange_link *link, const struct directory_key *key)
{
    struct exchange *exchange = link->exchange;

    if (exchange->outside.used) {
        exchange->counts.claims_refused++;
        return NIGH_DENIED; /* nobody is a home */
    }
    if (!link->in_view) {
        return NIGH_BUSY;
    }
    if (views_home(exchange, directory_key_hash(key)) != exchange_self(exchange) ||
        (link->shards >> (hash_id20(key->id) >> 58) & 1) == 0) {
        exchange->counts.claims_refused++;
        return NIGH_DENIED;
    }
    return NIGH_OK;
}

struct exchange_link *exchange_link_to(struct exchange *exchange, uint32_t rank, uint64_t hash)
{
    struct link *link = links_find(exchange->links, rank, hash);

    return link == NULL ? NULL : link_data(link);
}

uint32_t exchange_crc(uint32_t crc, const void *bytes, uint64_t count)
{
    return crc32c(crc, bytes, count);
}

uint64_t exchange_tail_bytes(const struct directory_object *object)
{
    return (uint64_t)object->meta_size + object->name_size;
}

/* ---- links ---------------------------------------------------------------- */

/* The shards of a rail: those whose number ends like it. */
static uint64_t shards_of(uint32_t rail, uint32_t rails)
{
    uint64_t shards = 0;

    for (uint32_t shard = rail; shard < LIMIT_SHARDS; shard += rails) {
        shards |= UINT64_C(1) << shard;
    }
    return shards;
}

static bool init_live(const struct exchange *exchange, struct exchange_link *live)
{
    live->held = calloc(exchange->config.bulk_receives, sizeof(*live->held));
    live->replicas = replication_make_teller();
    if (live->held == NULL || live->replicas == NULL ||
        announcer_init(&live->announcer, exchange->config.announcements) != NIGH_OK) {
        free(live->held);
        free(live->replicas);
        return false;
    }
    return true;
}

static void on_up(void *context, struct link *link, uint64_t now_us)
{
    struct exchange *exchange = context;
    struct exchange_link *live = calloc(1, sizeof(*live));

    (void)now_us;
    if (live == NULL || !init_live(exchange, live)) {
        free(live);
        link_break(link, NIGH_NO_RESOURCES, now_us);
        return;
    }
    live->exchange = exchange;
    live->link = link;
    live->rank = link_rank(link);
    live->shards = shards_of(link_rail(link), link_rails(link));
    list_init(&live->pulls);
    crossover_init(&live->crossovers[false], exchange->inline_bytes + 1);
    crossover_init(&live->crossovers[true], exchange->inline_bytes + 1);
    list_init(&live->serves);
    list_init(&live->asked);
    list_init(&live->crowded);
    if (exchange->config.path == EXCHANGE_PUSH && push_init(live) != NIGH_OK) {
        LOG_WARN("nothing can be pushed here: objects are sent",
                 "rank=%u do=\"say --transfer auto where the device cannot push; else free memory, "
                 "or ulimit -l unlimited\"",
                 live->rank);
    }
    link_set_data(link, live);
    list_push_back(&exchange->live, &live->place);
    views_link_up(live);
    replication_link_up(live);
    probe_link_up(live);
    if (exchange->config.users != NULL) {
        exchange->users.up(exchange->users.context, link);
    }
}

static void on_down(void *context, struct link *link, nigh_status reason, uint64_t now_us)
{
    struct exchange *exchange = context;
    struct exchange_link *live = link_data(link);

    (void)reason;
    if (live == NULL) {
        return;
    }
    exchange->now_us = now_us;
    if (exchange->config.users != NULL) {
        exchange->users.down(exchange->users.context, link, now_us);
    }
    link_set_data(link, NULL);
    list_remove(&live->place);
    pull_link_down(live, now_us);
    serve_link_down(live);
    home_link_down(live);
    erase_link_down(live);
    probe_link_down(live);
    replication_link_down(live);
    announcer_fini(&live->announcer);
    push_fini(live);
    exchange->granted -= live->granted; /* what came is in its place again */
    free(live->held);
    free(live);
}

static void on_request(void *context, struct link *link, const struct rpc_request *request,
                       uint64_t now_us)
{
    struct exchange *exchange = context;
    struct exchange_link *live = link_data(link);

    if (live == NULL) {
        return; /* it is on its way down */
    }
    exchange->now_us = now_us;
    switch ((enum wire_method)request->method) {
    case WIRE_ANNOUNCE:
    case WIRE_ANNOUNCING:
    case WIRE_ANNOUNCED: announce_on_request(live, request, now_us); return;
    case WIRE_LOCATE: home_on_locate(live, request, now_us); return;
    case WIRE_UNWAIT: home_on_unwait(live, request); return;
    case WIRE_FOUND:
        if (request->bytes == sizeof(struct wire_found)) {
            struct wire_found found;
            struct directory_answer answer;

            memcpy(&found, request->payload, sizeof(found));
            answer = wire_to_answer(&found.located);
            pull_found(exchange, live->rank, &found.key, &answer);
        }
        return;
    case WIRE_DELETE: home_on_delete(live, request, now_us); return;
    case WIRE_DROP: erase_on_drop(live, request, now_us); return;
    case WIRE_PULL: serve_on_pull(live, request, now_us); return;
    case WIRE_MORE:
    case WIRE_STOP: serve_on_more(live, request, now_us); return;
    case WIRE_DONE: serve_on_done(live, request, now_us); return;
    case WIRE_HEAR: hear_on_request(live, request); return;
    case WIRE_PROBE: probe_on_request(live, request, now_us); return;
    case WIRE_VIEW: views_on_request(live, request); return;
    case WIRE_REPLICAS:
    case WIRE_REPLICAS_TOLD:
    case WIRE_REPLICATE:
    case WIRE_REPLICA_COUNT: replication_on_request(live, request, now_us); return;
    }
    if (request->call != 0) {
        rpc_reply(link_rpc(link), request->call, NIGH_UNSUPPORTED, NULL, 0);
    }
}

static void on_bulk(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                    uint64_t now_us)
{
    struct exchange *exchange = context;
    struct exchange_link *live = link_data(link);

    if (live != NULL) {
        exchange->now_us = now_us;
        messages_on_bulk(live, bytes, count, now_us);
    }
}

static void on_pushed(void *context, struct link *link, uint32_t imm, uint64_t count,
                      uint64_t now_us)
{
    struct exchange *exchange = context;
    struct exchange_link *live = link_data(link);

    if (live != NULL) {
        exchange->now_us = now_us;
        messages_on_push(live, imm, count, now_us);
    }
}

static void on_called(void *context, struct link *link, const struct rpc_request *request,
                      uint64_t now_us)
{
    struct exchange *exchange = context;

    exchange->users.called(exchange->users.context, link, request, now_us);
}

static void on_withdrawn(void *context, struct link *link, uint64_t call)
{
    struct exchange *exchange = context;

    exchange->users.withdrawn(exchange->users.context, link, call);
}

static void on_spaced(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                      uint64_t now_us)
{
    struct exchange *exchange = context;

    (void)now_us;
    exchange->spaces.spaced(exchange->spaces.context, link, bytes, count);
}

struct rpc *exchange_users_channel(struct exchange *exchange, uint32_t rank, uint64_t hash)
{
    struct link *link = links_find(exchange->links, rank, hash);

    return link == NULL ? NULL : link_calls(link);
}

struct links *exchange_lane_links(const struct exchange *exchange)
{
    return exchange->links;
}

uint32_t exchange_users_places(const struct members *members)
{
    return exchange_window_of(members)->users;
}

uint32_t exchange_users_slots(uint32_t places)
{
    return places + places / LIMIT_URGENT_SHARE;
}

uint32_t exchange_users_ring(const struct members *members)
{
    uint32_t wanted = exchange_users_places(members) / 2 * LIMIT_CALL_BYTES;

    return min_u32(LIMIT_RPC_RING, max_u32(LIMIT_RPC_RING_MIN, wanted));
}

void exchange_flush(struct exchange *exchange)
{
    links_flush(exchange->links);
}

void exchange_users_flush(struct exchange *exchange)
{
    links_flush_calls(exchange->links);
}

/* ---- create, destroy ------------------------------------------------------ */

const struct exchange_window *exchange_window_of(const struct members *members)
{
    static const struct exchange_window windows[] = {
        {8, 32, 48, 16, 1024, 64},
        {32, 24, 32, 12, 512, 32},
        {64, 16, 24, 8, 512, 16},
        {LIMIT_NODES, 8, 12, 4, 256, 8},
    };
    const struct exchange_window *window = windows;

    while (members->count > window->members) {
        window++;
    }
    return window;
}

static void set_defaults(struct exchange_config *config)
{
    const struct exchange_window *window = exchange_window_of(config->members);

    if (config->max_keys == 0) {
        config->max_keys = EXCHANGE_KEYS;
    }
    if (config->requests == 0) {
        config->requests = window->requests;
    }
    if (config->calls == 0) {
        config->calls = window->calls;
    }
    if (config->queue == 0) {
        config->queue = EXCHANGE_QUEUE;
    }
    if (config->waits == 0) {
        config->waits = EXCHANGE_WAITS;
    }
    if (config->announcements == 0) {
        config->announcements = window->announcements;
    }
    if (config->payload_bytes == 0) {
        config->payload_bytes = EXCHANGE_PAYLOAD;
    }
    if (config->bulk_receives == 0) {
        config->bulk_receives = window->bulk_receives;
    }
    if (config->bulk_bytes == 0) {
        config->bulk_bytes = EXCHANGE_BULK_BYTES;
    }
    if (config->shared_bulk == 0 && config->members->count > LIMIT_UNSHARED_MEMBERS) {
        config->shared_bulk = LIMIT_SHARED_RECEIVES;
    }
    if ((config->fabric->caps.ops & FABRIC_CAN_SHARE) == 0) {
        config->shared_bulk = 0;
    }
    if (config->window_bytes == 0) {
        config->window_bytes = EXCHANGE_WINDOW_BYTES;
    }
    if (config->chunk_bytes == 0) {
        config->chunk_bytes = EXCHANGE_CHUNK;
    }
    if (config->pull_bytes == 0) {
        config->pull_bytes = config->extents->memory_bytes / config->lanes / 4;
    }
    /* Without a device both ways are the same work of two processors, and one copy more. */
    if (config->calls_way == LINK_AUTO && (config->fabric->caps.ops & FABRIC_CAN_OFFLOAD) == 0) {
        config->calls_way = LINK_SEND;
    }
    if (config->ring_bytes == 0) {
        config->ring_bytes = exchange_users_ring(config->members);
    }
    if (config->loan_us == 0) {
        config->loan_us = EXCHANGE_LOAN_US;
    }
    if (config->fanout == 0) {
        config->fanout = LIMIT_TREE_CHILDREN;
    }
    if (config->tree_bytes == 0) {
        config->tree_bytes = LIMIT_TREE_BYTES;
    }
}

static nigh_status make_links(struct exchange *exchange)
{
    const struct exchange_config *config = &exchange->config;
    nigh_status status;
    struct links_config links = {
        .fabric = config->fabric,
        .rank = config->members->self,
        .incarnation = config->incarnation,
        .lane = config->lane,
        .lanes = config->lanes,
        .nodes = config->members->count,
        .rpc = {.requests = config->requests,
                .calls = config->calls,
                .queue = config->queue,
                .payload_bytes = config->payload_bytes,
                .epoch = config->members->epoch},
        .waits = config->waits,
        .bulk_receives = config->bulk_receives,
        .shared_bulk = config->shared_bulk,
        .bulk_bytes = config->bulk_bytes,
        .reads = EXCHANGE_READS,
        .writes = config->users != NULL ? EXCHANGE_WRITES : 0,
        .serves_spaces = config->spaces != NULL,
        .seed = config->seed,
        .shell = {.context = exchange,
                  .up = on_up,
                  .down = on_down,
                  .request = on_request,
                  .bulk = on_bulk,
                  .pushed = on_pushed,
                  .called = on_called,
                  .withdrawn = on_withdrawn,
                  .spaced = on_spaced},
    };

    if (config->spaces != NULL) {
        exchange->spaces = *config->spaces;
    }

    if (config->users != NULL) {
        uint32_t places = config->users->places != 0 ? config->users->places
                                                     : exchange_users_places(config->members);

        exchange->users = *config->users;
        links.calls_way = config->calls_way;
        links.ring_bytes = config->ring_bytes;
        /* A request gives its credit back as it comes, not as it is answered: who finds none waits
         * for no handler. So there are none beside for the urgent. */
        links.calls = (struct rpc_config){.requests = places,
                                          .calls = exchange_users_slots(places),
                                          .payload_bytes = exchange->users.payload_bytes,
                                          .epoch = config->members->epoch};
    }

    status = links_create(&links, &exchange->links);
    if (links.shared_bulk > 0 && status != NIGH_OK) {
        LOG_WARN("the device does not share so many receives: each link has its own",
                 "wanted=%u why=%s do=\"lower --shared-receives\"", links.shared_bulk,
                 nigh_status_name(status));
        exchange->config.shared_bulk = links.shared_bulk = 0;
        status = links_create(&links, &exchange->links);
    }
    return status;
}

static nigh_status make_parts(struct exchange *exchange, uint32_t own_announcements)
{
    nigh_status status = home_init(exchange);

    if (status == NIGH_OK) {
        status = announcer_init(&exchange->own, own_announcements);
    }
    if (status == NIGH_OK) {
        status = pulls_init(exchange);
    }
    if (status == NIGH_OK) {
        status = serves_init(exchange);
    }
    if (status == NIGH_OK) {
        status = erases_init(exchange);
    }
    if (status == NIGH_OK) {
        status = memory_init(exchange);
    }
    if (status == NIGH_OK) {
        status = probe_init(exchange);
    }
    if (status == NIGH_OK) {
        status = replication_init(exchange);
    }
    if (status == NIGH_OK) {
        status = make_links(exchange);
    }
    return status;
}

nigh_status exchange_create(const struct exchange_config *config, struct exchange **out)
{
    struct exchange *exchange = calloc(1, sizeof(*exchange));
    nigh_status status;

    if (exchange == NULL) {
        return NIGH_NO_RESOURCES;
    }
    exchange->config = *config;
    set_defaults(&exchange->config);
    random_init(&exchange->random, config->seed);
    list_init(&exchange->live);
    views_init(exchange);
    outside_init(exchange);
    exchange->inline_bytes = exchange->config.payload_bytes - sizeof(struct wire_pulled);
    status = make_parts(exchange,
                        config->announcements == 0 ? LIMIT_ANNOUNCE_QUEUE : config->announcements);
    if (status != NIGH_OK) {
        exchange_destroy(exchange);
        return status;
    }
    store_set_remote(config->store, &(struct store_remote){
                                        .context = exchange,
                                        .want = pull_want,
                                        .unwant = pull_unwant,
                                        .sealed = announce_sealed,
                                        .gone = announce_gone,
                                        .claim = announce_claim,
                                        .erase = erase_begin,
                                        .erase_room = erase_room,
                                    });
    /* What the store took over from a former node is not yet announced. */
    announcer_walk(&exchange->own, true);
    *out = exchange;
    return NIGH_OK;
}

void exchange_destroy(struct exchange *exchange)
{
    if (exchange == NULL) {
        return;
    }
    if (exchange->links != NULL) {
        /* Each link that is up goes down through on_down, so that what it lends ends. */
        for (uint32_t rank = 0; rank < exchange->config.members->count; rank++) {
            links_peer_down(exchange->links, rank, NIGH_CANCELED, exchange->now_us);
        }
        links_destroy(exchange->links);
    }
    probe_fini(exchange);
    memory_fini(exchange);
    pulls_fini(exchange);
    serves_fini(exchange);
    erases_fini(exchange);
    announcer_fini(&exchange->own);
    replication_fini(exchange);
    home_fini(exchange);
    free(exchange);
}

nigh_status exchange_pool_add(struct exchange *exchange, uint32_t pool, uint64_t cluster_pool)
{
    uint32_t other;
    struct directory_key key = {.pool = cluster_pool};

    if (pool >= LIMIT_POOLS || exchange->pools[pool].used ||
        exchange_pool_of(exchange, &key, &other)) {
        return NIGH_EXISTS;
    }
    exchange->pools[pool] = (struct exchange_pool){.used = true, .cluster_pool = cluster_pool};
    replication_pool_add(exchange, pool);
    return NIGH_OK;
}

/* ---- peers ---------------------------------------------------------------- */

nigh_status exchange_peer_up(struct exchange *exchange, const struct link_peer *peer,
                             uint64_t now_us)
{
    exchange->now_us = now_us;
    admission_member(exchange, peer->rank, false);
    outside_peer_up(exchange, peer);
    return links_peer_up(exchange->links, peer, now_us);
}

void exchange_peer_lost(struct exchange *exchange, uint32_t rank, uint64_t now_us)
{
    exchange->now_us = now_us;
    links_peer_down(exchange->links, rank, NIGH_PEER_LOST, now_us);
}

void exchange_peer_dead(struct exchange *exchange, uint32_t rank, uint64_t now_us)
{
    exchange->now_us = now_us;
    links_peer_dead(exchange->links, rank, now_us);
    directory_member_dead(exchange->directory, rank);
    admission_member(exchange, rank, true);
    exchange->views.announced[rank] = 0;
    views_find_told(exchange);
    replication_member_dead(exchange, rank);
    outside_peer_dead(exchange, rank);
}

/* ---- turns ---------------------------------------------------------------- */

/* What follows from what came. */
static bool finish_turn(struct exchange *exchange, uint64_t now_us)
{
    bool worked = outside_turn(exchange);

    worked = pull_turn(exchange, now_us) || worked;
    worked = serve_turn(exchange, now_us) || worked;
    worked = tree_turn(exchange, now_us) || worked;
    links_flush(exchange->links);
    worked = erase_turn(exchange, now_us) || worked;
    worked = home_turn(exchange, now_us) || worked;
    worked = views_turn(exchange) || worked;
    worked = announce_turn(exchange, now_us) || worked;
    worked = hear_turn(exchange, now_us) || worked;
    worked = replication_turn(exchange, now_us) || worked;
    worked = probe_turn(exchange, now_us) || worked;
    worked = directory_turn(exchange->directory) || worked;
    return worked;
}

bool exchange_turn(struct exchange *exchange, uint64_t now_us)
{
    bool worked;

    exchange->now_us = now_us;
    /* What the store just asked for leaves first. */
    worked = !list_empty(&exchange->ready) && pull_turn(exchange, now_us);
    worked = links_turn(exchange->links, now_us) || worked;
    return finish_turn(exchange, now_us) || worked;
}

bool exchange_look(struct exchange *exchange, uint64_t now_us)
{
    exchange->now_us = now_us;
    if (!links_look(exchange->links, now_us) && outside_due_us(exchange) != 0) {
        return false;
    }
    (void)finish_turn(exchange, now_us);
    return true;
}

uint64_t exchange_due_us(const struct exchange *exchange)
{
    uint64_t due_us = links_due_us(exchange->links);
    uint64_t other_us = pull_due_us(exchange);

    due_us = other_us < due_us ? other_us : due_us;
    other_us = serve_due_us(exchange);
    due_us = other_us < due_us ? other_us : due_us;
    due_us = exchange->tree_us < due_us ? exchange->tree_us : due_us;
    other_us = erase_due_us(exchange);
    due_us = other_us < due_us ? other_us : due_us;
    if (directory_owes(exchange->directory)) {
        due_us = exchange->drop_us < due_us ? exchange->drop_us : due_us;
    }
    other_us = announce_due_us(exchange);
    due_us = other_us < due_us ? other_us : due_us;
    other_us = hear_due_us(exchange);
    due_us = other_us < due_us ? other_us : due_us;
    other_us = replication_due_us(exchange);
    due_us = other_us < due_us ? other_us : due_us;
    other_us = outside_due_us(exchange);
    due_us = other_us < due_us ? other_us : due_us;
    other_us = probe_due_us(exchange);
    due_us = other_us < due_us ? other_us : due_us;
    return list_empty(&exchange->local_drops) && !directory_is_sweeping(exchange->directory)
               ? due_us
               : 0;
}

/* ---- numbers -------------------------------------------------------------- */

void exchange_stats(const struct exchange *exchange, struct exchange_stats *stats)
{
    const struct links_counters *links = links_counters(exchange->links);

    *stats = exchange->counts;
    stats->links_up = stats->links_writing = 0;
    stats->calls_sent = links->calls_sent;
    stats->calls_written = links->calls_written;
    stats->rings_full = links->ring_full;
    stats->region_posts = links->region_posts[0] + links->region_posts[1];
    stats->region_post_bytes = links->region_bytes;
    stats->region_posts_low = links->region_posts[1];
    stats->region_ends = links->region_ends;
    LIST_FOREACH(node, &exchange->live)
    {
        const struct exchange_link *link = container_of(node, struct exchange_link, place);
        uint64_t sent_us, written_us;

        stats->links_up++;
        stats->links_writing += link_calls_way(link->link, &sent_us, &written_us) == LINK_WRITE;
    }
    directory_stats(exchange->directory, &stats->directory);
    replication_stats(exchange, stats);
    stats->shares_refused += stats->directory.refused + stats->replicas.refused;
    stats->registrations = exchange->config.fabric->registrations;
}

static bool announcer_is_idle(const struct announcer *announcer)
{
    return announcer->count == 0 && !announcer->walking && !announcer->repeat;
}

bool exchange_is_idle(const struct exchange *exchange)
{
    LIST_FOREACH(node, &exchange->live)
    {
        const struct exchange_link *link = container_of(node, struct exchange_link, place);

        if (rpc_pending(link_rpc(link->link)) > 0 || !announcer_is_idle(&link->announcer)) {
            return false;
        }
    }
    return exchange->counts.pulls_now == 0 && exchange->declines == 0 &&
           exchange->prober.link == NULL && exchange->prober.sending == 0 &&
           exchange->counts.loans_now == 0 && exchange->counts.pull_bytes_now == 0 &&
           list_empty(&exchange->local_drops) && !directory_owes(exchange->directory) &&
           announcer_is_idle(&exchange->own) && erases_are_idle(exchange) &&
           replication_is_idle(exchange);
}

bool exchange_is_valid(const struct exchange *exchange)
{
    return links_is_valid(exchange->links) && directory_is_valid(exchange->directory) &&
           pulls_are_valid(exchange) && share_is_valid(&exchange->serve_shares) &&
           replication_is_valid(exchange) && share_is_valid(&exchange->asked_shares) &&
           share_is_valid(&exchange->drop_shares);
}
