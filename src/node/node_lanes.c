/* SPDX-License-Identifier: Apache-2.0 */
/* A node's lanes: what each is made of, what they ask of the node, and who of this process drives
 * them. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "node/node_internal.h"

/* Blocks of one lane's heaps: two for each object (itself and a gap beside it) and room for leases.
 */
#define NODE_BLOCKS_SPARE 65536u

nigh_status node_make_mailboxes(struct nigh_node *node)
{
    size_t bytes = (node->settings.lanes - 1) * sizeof(struct mailbox);

    if (bytes == 0)
        return NIGH_OK;
    node->to_lanes = aligned_alloc(CACHE_LINE, bytes);
    node->from_lanes = aligned_alloc(CACHE_LINE, bytes);
    if (node->to_lanes == NULL || node->from_lanes == NULL)
        return NIGH_NO_RESOURCES;
    memset(node->to_lanes, 0, bytes);
    memset(node->from_lanes, 0, bytes);
    return NIGH_OK;
}

static void node_wake_zero(void *context)
{
    struct nigh_node *node = context;

    shared_fence(); /* the mail is there before the look at whether lane 0 sleeps */
    if (shared_load_relaxed(&node->page->lane[0].asleep) != 0)
        lane_kick(node->lanes[0]);
}

static void node_add_views(struct nigh_node *node, nigh_node_stats *stats)
{
    uint32_t seats = node->settings.members.count - node->settings.members.listed;
    struct agree_look look;

    views_look(node->views, &look);
    stats->view_epoch += look.agreed.epoch;
    stats->view_active_epoch += look.agreed.active;
    stats->view_members += agreed_size(&look.agreed.in);
    stats->view_quorum += look.has_lease ? 1 : 0;
    stats->view_elections += look.elections;
    stats->view_seats += look.seats;
    stats->view_seats_free += seats - min_u64(look.seats, seats);
    stats->view_votes += look.votes && !look.failed ? 1 : 0;
    stats->view_unkept += look.failed ? 1 : 0;
}

static void node_add_directory(struct nigh_node *node, nigh_node_stats *stats)
{
    char why[1]; /* the log has it */

    stats->directory_servers += 1;
    stats->directory_servers_up += redis_is_up(node->redis, why, sizeof(why)) ? 1 : 0;
    stats->directory_losses += redis_losses(node->redis);
}

static void node_add_stats(void *context, nigh_node_stats *stats)
{
    struct nigh_node *node = context;

    stats->sessions += node->sessions.count;
    stats->expelled += node->front.expelled;
    stats->sessions_died += node->front.died;
    stats->uptime_us += clock_now_us(&clock_monotonic) - node->started_us;
    stats->restarts += node->restarts;
    stats->memory_far_bytes += node->far_bytes;
    stats->services += services_count(node->services);
    stats->call_memory_bytes += bulk_memories_bytes(node->bulks);
    stats->call_memory_limit_bytes += node->settings.call_memory_bytes;
    stats->call_memory_refused += bulk_memories_refused(node->bulks);
    stats->pairs += front_pairs_count(&node->front);
    stats->pairs_made += node->front.pairs_made;
    stats->pairs_dropped += node->front.pairs_dropped;
    if (node->peers != NULL) {
        const struct peers_counters *peers = peers_counters(node->peers);

        stats->handshakes_refused += peers->refused_key + peers->refused_version +
                                     peers->refused_members + peers->refused_protocol;
        stats->node_deaths += peers->deaths;
        stats->nodes_suspected += peers->suspected;
        stats->nodes_found_dead += peers->found_dead;
        stats->suspicions_refuted += peers->refuted;
        stats->datagrams_refused += peers->datagrams_refused;
        stats->nodes_reached += peers_reached(node->peers);
    }
    if (node->views != NULL)
        node_add_views(node, stats);
    if (node->redis != NULL)
        node_add_directory(node, stats);
}

/* Whether a member is a home, as this node knows it. */
static nigh_node_view node_view_of(const struct nigh_node *node, uint32_t rank)
{
    struct agree_look look;

    if (node->views == NULL)
        return NIGH_NODE_NO_VIEW;
    views_look(node->views, &look);
    return look.agreed.epoch == 0              ? NIGH_NODE_NO_VIEW
           : agreed_has(&look.agreed.in, rank) ? NIGH_NODE_IN_VIEW
                                               : NIGH_NODE_OUT_OF_VIEW;
}

/* Of this node alone is it known that it is one of them and can keep nothing that it says. */
static bool node_votes(const struct nigh_node *node, uint32_t rank)
{
    struct agree_look look;

    if (node->views == NULL)
        return false;
    views_look(node->views, &look);
    return agreed_has(&look.voters, rank) && !(look.failed && rank == node->settings.members.self);
}

/* Ranks that nobody has are not told of. */
static bool node_nth_rank(const struct nigh_node *self, uint32_t *n)
{
    uint32_t ranks = self->peers != NULL ? self->settings.members.count : 1, left = *n;

    for (uint32_t rank = 0; rank < ranks; rank++) {
        bool is_there = self->peers == NULL || peers_is_member(self->peers, rank);

        if (is_there && left-- == 0) {
            *n = rank;
            return true;
        }
    }
    return false;
}

static bool node_list(void *context, uint32_t n, struct session_node *node)
{
    const struct nigh_node *self = context;
    struct peers_view view = {.state = PEER_UP, .incarnation = self->incarnation, .address = ""};

    _Static_assert(
        (int)PEER_AWAY == (int)NIGH_NODE_IS_AWAY && (int)PEER_UP == (int)NIGH_NODE_IS_UP &&
            (int)PEER_LOST == (int)NIGH_NODE_IS_LOST && (int)PEER_DEAD == (int)NIGH_NODE_IS_DEAD,
        "states are told as they are");
    _Static_assert((int)SWIM_ALIVE == (int)NIGH_NODE_LIVES &&
                       (int)SWIM_SUSPECT == (int)NIGH_NODE_SUSPECTED &&
                       (int)SWIM_DEAD == (int)NIGH_NODE_FOUND_DEAD &&
                       (int)SWIM_LEFT == (int)NIGH_NODE_HAS_LEFT,
                   "what members say is told as it is");
    if (!node_nth_rank(self, &n))
        return false;
    if (self->peers != NULL)
        peers_look(self->peers, n, &view);
    *node = (struct session_node){
        .rank = n,
        .state = (uint8_t)view.state,
        .life = (uint8_t)(view.life | node_view_of(self, n) << SESSION_NODE_VIEW |
                          (view.leaves ? SESSION_NODE_LEAVES : 0)),
        .refused = (int16_t)view.refused,
        .incarnation = view.incarnation,
        .is_self = self->peers == NULL || n == self->settings.members.self,
        .votes = node_votes(self, n) ? 1 : 0,
    };
    memcpy(node->address, view.address, strnlen(view.address, sizeof(node->address)));
    return true;
}

static bool node_name(void *context, uint32_t n, struct session_name *name)
{
    const struct nigh_node *self = context;

    _Static_assert(sizeof(name->name) == AGREED_NAME_BYTES, "a name is told as it is");
    if (!node_nth_rank(self, &n))
        return false;
    *name = (struct session_name){.rank = n};
    if (self->views == NULL)
        return true;
    views_name_of(self->views, n, name->name);
    if (n == self->settings.members.self && views_name_is_taken(self->views))
        name->refused = NIGH_EXISTS;
    return true;
}

/* Pools are made by lane 0's driver, which asks. */
static void node_pool(void *context, uint32_t number, struct session_show_pool *shown)
{
    const struct nigh_node *self = context;
    const struct pool_rules *rules;

    _Static_assert(sizeof(shown->name) == sizeof(rules->name), "a name is told as it is");
    if (number >= self->pools.count)
        return;
    rules = &self->pools.pools[number]->rules;
    shown->uid = rules->owner_uid;
    shown->gid = rules->group_gid;
    shown->mode = rules->mode;
    memcpy(shown->name, rules->name, sizeof(shown->name));
}

/* One that this node speaks to lives, whatever the leader hears of it. */
static bool node_forget(void *context, uint32_t rank, nigh_status *status)
{
    const struct nigh_node *self = context;
    struct agree_look look;
    struct peers_view view;

    *status = self->views == NULL                    ? NIGH_UNSUPPORTED
              : rank >= self->settings.members.count ? NIGH_NOT_FOUND
              : rank == self->settings.members.self  ? NIGH_BUSY
              : peers_is_struck(self->peers)         ? NIGH_NO_QUORUM
                                                     : NIGH_OK;
    if (*status != NIGH_OK)
        return true;
    views_look(self->views, &look);
    peers_look(self->peers, rank, &view);
    *status = view.state == PEER_UP ? NIGH_BUSY : !look.has_lease ? NIGH_NO_QUORUM : NIGH_OK;
    return *status != NIGH_OK || views_forget(self->views, rank, status);
}

static struct lane_config node_lane_config(struct nigh_node *node, uint32_t number)
{
    const struct node_settings *settings = &node->settings;
    uint64_t blocks = 2 * (uint64_t)node->entries_a_lane + NODE_BLOCKS_SPARE;
    struct lane_config config = {
        .number = number,
        .lanes = settings->lanes,
        .max_sessions = settings->max_sessions,
        .spin_us = settings->spin_us,
        .page = node->page,
        .zero_wake = node_wake_zero,
        .zero_context = node,
        .node_stats = node_add_stats,
        .node_list = node_list,
        .node_name = node_name,
        .node_pool = node_pool,
        .forget = node->peers == NULL ? NULL : node_forget,
        .node_context = node,
        .own_uid = geteuid(),
        .services = node->services,
        .views = node->views,
        .bulks = node->bulks,
        .region_memory_bytes = settings->region_memory_bytes,
        .space_memory_bytes =
            number == 0 && settings_serve_spaces(settings) ? settings->space_memory_bytes : 0,
        .space_logs = number == 0 && node->space_logs.fd >= 0 ? &node->space_logs : NULL,
        .region_qos = settings->region_qos,
        .session_rate_bytes = settings->session_rate_bytes,
        .session_rate_ops = settings->session_rate_ops,
        .spill_dir = settings->spill_dir[0] != '\0' ? settings->spill_dir : NULL,
        .cpus = node->is_placed && node->placements[number].is_bound
                    ? &node->placements[number].cpus
                    : NULL,
        .store =
            {
                .extents = node->extents,
                .incarnation = node->incarnation,
                .max_blocks = (uint32_t)min_u64(blocks, UINT32_MAX / 2),
                .spill_bytes = settings->spill_bytes != 0 ? settings->spill_bytes / settings->lanes
                                                          : UINT64_MAX,
                .max_lane_pins = settings->max_pins,
            },
    };

    if (settings->clustered) {
        config.fabric = node->fabrics[number];
        config.exchange.members = &node->settings.members;
        config.exchange.path = (enum exchange_path)settings->transfer_path;
        config.exchange.calls_way = settings->calls_way;
        config.exchange.shared_bulk = settings->shared_receives;
        config.exchange.outside = node->redis != NULL ? &node->outside : NULL;
        config.exchange.fanout = settings->fanout;
        /* A secret where the system has one, as it always does: with it, who chooses ids cannot
         * make them collide in the directory. */
        config.exchange.seed = (uint64_t)node->incarnation << 32 | number;
        (void)random_system_seed(&config.exchange.seed);
        config.store.rank = settings->members.self;
    }
    if (number == 0) {
        config.life = node->life;
        config.inboxes = node->from_lanes;
        config.front = &node->front.guest;
    } else {
        config.from_zero = &node->to_lanes[number - 1];
        config.to_zero = &node->from_lanes[number - 1];
    }
    return config;
}

static void node_kick(void *context, uint32_t lane)
{
    struct nigh_node *node = context;

    lane_kick(node->lanes[lane]);
}

/* The directory's thread, if it has one; it runs when there are lanes to tell. */
static nigh_status node_make_redis(struct nigh_node *node)
{
    struct redis_config config = {
        .address = node->settings.directory,
        .rank = node->settings.members.self,
        .incarnation = node->incarnation,
        .lanes = node->settings.lanes,
        .context = node,
        .kick = node_kick,
    };
    nigh_status status;

    redis_name(node->settings.cluster_key, config.name);
    status = redis_create(&config, &node->redis);
    if (status == NIGH_OK)
        node->outside = redis_outside(node->redis);
    return status;
}

static nigh_status node_make_bulks(struct nigh_node *node)
{
    struct bulk_memories_config config = {
        .lanes = node->settings.lanes,
        .incarnation = node->incarnation,
        .own_uid = (uint32_t)geteuid(),
        .most_bytes = node->settings.call_memory_bytes,
        .kick = node_kick,
        .context = node,
    };

    return bulk_memories_create(&config, &node->bulks);
}

nigh_status node_make_lanes(struct nigh_node *node, char *why, size_t why_bytes)
{
    if (node->settings.has_directory && node_make_redis(node) != NIGH_OK) {
        snprintf(why, why_bytes, "no memory for what talks with the directory");
        return NIGH_NO_RESOURCES;
    }
    if (services_create(node->settings.lanes, node_kick, node, &node->services) != NIGH_OK ||
        node_make_bulks(node) != NIGH_OK) {
        snprintf(why, why_bytes, "no memory for the node's own books");
        return NIGH_NO_RESOURCES;
    }
    for (uint32_t i = 0; i < node->settings.lanes; i++) {
        struct lane_config config = node_lane_config(node, i);
        nigh_status status = lane_create(&config, &node->lanes[i]);

        if (status != NIGH_OK) {
            snprintf(why, why_bytes, "cannot make lane %u: %s; ask for less memory or fewer lanes",
                     i, nigh_status_string(status));
            return status;
        }
        node->fabrics[i] = NULL; /* the lane's now */
        node->lane_count = i + 1;
    }
    return NIGH_OK;
}

/* Pools made before the lanes run are given to them directly. */
nigh_status node_give_pools(struct nigh_node *node, char *why, size_t why_bytes)
{
    for (uint32_t p = 0; p < node->pools.count; p++) {
        for (uint32_t i = 0; i < node->lane_count; i++) {
            struct pool *pool = node->pools.pools[p];
            const struct store_pool_config *config = &pool->indexes[i].config;
            nigh_status status = lane_pool_add(node->lanes[i], config, pool->adopted);

            if (status != NIGH_OK) {
                snprintf(why, why_bytes, "lane %u cannot serve pool %s: %s", i, pool->rules.name,
                         nigh_status_string(status));
                return status;
            }
        }
    }
    return NIGH_OK;
}

nigh_status node_start_lanes(struct nigh_node *node, char *why, size_t why_bytes)
{
    if (node->redis != NULL && redis_start(node->redis) != NIGH_OK) {
        snprintf(why, why_bytes, "cannot start the directory's thread; raise the limit of threads");
        return NIGH_NO_RESOURCES;
    }
    for (uint32_t i = 0; i < node->lane_count; i++) {
        nigh_status status;

        NIGH_ASSERT(!store_is_adopting(lane_store(node->lanes[i])));
        status = lane_start(node->lanes[i]);

        if (status != NIGH_OK) {
            snprintf(why, why_bytes,
                     "cannot start a thread for lane %u; raise the limit of threads", i);
            return status;
        }
    }
    return NIGH_OK;
}

static bool node_drive(void *context, uint32_t lane, uint64_t now_us, bool stays)
{
    struct nigh_node *node = context;

    return lane < node->lane_count && lane_drive(node->lanes[lane], now_us, stays);
}

static int node_rest(void *context, uint32_t lane, uint64_t now_us)
{
    struct nigh_node *node = context;

    return lane < node->lane_count ? lane_rest(node->lanes[lane], now_us) : SESSION_REST_ELSEWHERE;
}

static uint64_t node_rise(void *context, uint32_t lane)
{
    struct nigh_node *node = context;

    return lane_rise(node->lanes[lane]);
}

static int node_serve(void *context, const struct session_service *service)
{
    struct nigh_node *node = context;

    return services_add(node->services, service);
}

static void node_unserve(void *context, const struct session_service *service)
{
    struct nigh_node *node = context;

    services_remove(node->services, service);
}

static int node_reply(void *context, uint32_t lane, uint64_t id, int status, const void *bytes,
                      uint32_t count)
{
    struct nigh_node *node = context;
    nigh_status answered = NIGH_NOT_FOUND;

    if (lane < node->lane_count)
        answered = lane_reply_now(node->lanes[lane], id, (nigh_status)status, bytes, count);
    return answered == NIGH_PENDING ? SESSION_REPLY_ELSEWHERE : (int)answered;
}

static int node_memory_add(void *context, const struct session_memory *memory, uint64_t *number)
{
    struct nigh_node *node = context;

    return bulk_memories_add(node->bulks, memory, number);
}

static int node_memory_remove(void *context, uint64_t number, uint64_t timeout_us, bool force)
{
    struct nigh_node *node = context;

    return bulk_memories_remove(node->bulks, number, timeout_us, force);
}

static int node_memory_wait(void *context, uint64_t number, uint64_t timeout_us)
{
    struct nigh_node *node = context;

    return bulk_memories_wait(node->bulks, number, timeout_us);
}

void node_init_driver(struct nigh_node *node)
{
    node->driver.memory_wait = node_memory_wait;
    node->driver.memory_add = node_memory_add;
    node->driver.memory_remove = node_memory_remove;
    node->driver.serve = node_serve;
    node->driver.unserve = node_unserve;
    node->driver.reply = node_reply;
    node->driver.context = node;
    node->driver.drive = node_drive;
    node->driver.rest = node_rest;
    node->driver.rise = node_rise;
}
