/* SPDX-License-Identifier: Apache-2.0 */
/* See link.h. The links of a lane together: peers, turns. How they come up is in links_dial.c, what
 * is always true of them in links_check.c. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/link_internal.h"

#define LINKS_BATCH  64u /* completions taken in one turn */
#define LINKS_EVENTS 64u /* events taken in one turn */

/* ---- create, destroy ------------------------------------------------------ */

static uint32_t round_up_64(uint64_t bytes)
{
    return (uint32_t)((bytes + 63) & ~UINT64_C(63));
}

static bool is_lane_count(uint32_t lanes)
{
    return lanes > 0 && lanes <= LIMIT_LANES && (lanes & (lanes - 1)) == 0;
}

/* Sends complete later than the answers to them arrive: more are kept than the channel counts. */
static uint32_t sends_kept(const struct rpc_config *rpc)
{
    uint32_t sends = rpc_max_sends(rpc);

    return sends + sends / 4 + LINK_SIGNAL_EVERY;
}

static bool is_channel_valid(const struct rpc_config *rpc)
{
    return rpc->pool == NULL && rpc->requests <= LIMIT_RPC_REQUESTS &&
           rpc->calls <= LIMIT_RPC_CALLS && rpc_receives(rpc) < LIMIT_FABRIC_DEPTH &&
           2 * sends_kept(rpc) <= LIMIT_FABRIC_DEPTH;
}

static bool has_calls(const struct links_config *config)
{
    return config->calls.payload_bytes > 0;
}

static void init_channel(struct link_channel *channel, const struct rpc_config *rpc)
{
    *channel = (struct link_channel){
        .rpc = *rpc,
        .receives = rpc_receives(rpc),
        .buffers = rpc_receives(rpc),
        .sends = sends_kept(rpc),
        .depth = 2 * sends_kept(rpc), /* with buffers, and inline */
        .stride = round_up_64(sizeof(struct rpc_header) + rpc->payload_bytes),
    };
}

/* Frames of calls may come through a ring, whose news take a receive: one, since two are never on
 * their way. */
static nigh_status init_rings(struct links *links)
{
    const struct links_config *config = &links->config;

    if ((config->fabric->caps.ops & FABRIC_CAN_WRITE_IMM) == 0) {
        return NIGH_OK;
    }
    links->calls.receives++;
    links->calls.buffers = config->calls_way == LINK_WRITE ? 0 : links->calls.receives;
    links->way = config->calls_way;
    if (!links_give_rings(links)) {
        return NIGH_OK;
    }
    links->frame = malloc(links->calls.stride);
    return links->frame == NULL ? NIGH_NO_RESOURCES : NIGH_OK;
}

static bool is_ring_valid(const struct links_config *config)
{
    return config->calls_way == LINK_SEND ||
           (config->calls_way <= LINK_WRITE && config->ring_bytes % RPC_RING_UNIT == 0 &&
            rpc_ring_is_enough(config->ring_bytes / RPC_RING_UNIT,
                               (uint32_t)sizeof(struct rpc_header) + config->calls.payload_bytes));
}

static bool is_config_valid(const struct links_config *config)
{
    return config->nodes > 0 && config->nodes <= LIMIT_NODES && config->rank < config->nodes &&
           is_lane_count(config->lanes) && config->lane < config->lanes &&
           config->bulk_receives > 0 && config->bulk_receives <= LIMIT_FABRIC_DEPTH &&
           config->writes <= LIMIT_LINK_WRITES && config->reads > 0 &&
           config->reads <= LIMIT_FABRIC_DEPTH &&
           config->reads + max_u32(config->writes, config->bulk_receives) <= LIMIT_FABRIC_DEPTH &&
           (!config->serves_spaces || config->shell.spaced != NULL) &&
           config->shared_bulk <= LIMIT_FABRIC_STOCK && config->bulk_bytes > 0 &&
           is_channel_valid(&config->rpc) &&
           (!has_calls(config) || (is_channel_valid(&config->calls) &&
                                   config->shell.called != NULL && is_ring_valid(config)));
}

/* What one link may have under way. */
static uint32_t count_ops(const struct links *links)
{
    uint32_t regions = links_carry_regions(links) ? LIMIT_REGION_ENDPOINTS : 0;

    return links_posts(links, LINK_BULK) + regions * links_posts(links, LINK_REGIONS);
}

nigh_status links_create(const struct links_config *config, struct links **out)
{
    struct links *links;
    nigh_status status;

    if (!is_config_valid(config)) {
        return NIGH_INVALID;
    }
    links = calloc(1, sizeof(*links));
    if (links == NULL) {
        return NIGH_NO_RESOURCES;
    }
    links->peers = calloc(config->nodes, sizeof(*links->peers));
    if (links->peers == NULL) {
        free(links);
        return NIGH_NO_RESOURCES;
    }
    status = config->waits == 0
                 ? NIGH_OK
                 : rpc_pool_create(config->waits, config->rpc.payload_bytes, &links->waits);
    if (status != NIGH_OK) {
        free(links->peers);
        free(links);
        return status;
    }
    links->config = *config;
    random_init(&links->random, config->seed);
    init_channel(&links->control, &config->rpc);
    if (has_calls(config)) {
        init_channel(&links->calls, &config->calls);
        status = init_rings(links);
    }
    links->bulk_stride = round_up_64(config->bulk_bytes);
    links->max_ops = count_ops(links);
    links->dial_us = UINT64_MAX;
    list_init(&links->returning);
    sends_init(&links->sends, config->fabric, max_u32(links->control.stride, links->calls.stride));
    links->told = LINK_NO_RECEIVE;
    links->loop.free_op = LINK_NO_OP;
    if (status == NIGH_OK && config->shared_bulk > 0) {
        status = bulk_init(&links->bulk, config->fabric, config->shared_bulk, config->bulk_bytes);
    }
    if (status != NIGH_OK) {
        links_destroy(links);
        return status;
    }
    *out = links;
    return NIGH_OK;
}

static void drop_peer(struct links *links, uint32_t rank, nigh_status reason, uint64_t now_us)
{
    struct links_peer *peer = &links->peers[rank];

    peer->up = peer->owed = false;
    for (uint32_t n = 0; n < peer->count; n++) {
        link_fail(&peer->links[n], reason); /* nothing more is begun on any of them */
    }
    for (uint32_t n = 0; n < peer->count; n++) {
        link_down(&peer->links[n], reason, now_us);
    }
}

static void free_peer(struct links *links, struct links_peer *peer)
{
    for (uint32_t n = 0; n < peer->count; n++) {
        link_fini(&peer->links[n]);
    }
    links->link_count -= peer->count;
    free(peer->links);
    peer->links = NULL;
    peer->count = 0;
}

uint32_t links_rights(const struct links_config *config)
{
    uint32_t rights = FABRIC_REMOTE_READ;

    if (config->writes > 0) {
        rights |= FABRIC_LOCAL_WRITE | FABRIC_REMOTE_WRITE | FABRIC_REMOTE_ATOMIC;
    }
    return rights;
}

static void quiet_down(void *context, struct link *link, nigh_status reason, uint64_t now_us)
{
    (void)context;
    (void)link;
    (void)reason;
    (void)now_us;
}

void links_destroy(struct links *links)
{
    if (links == NULL) {
        return;
    }
    links->config.shell.down = quiet_down;
    for (uint32_t rank = 0; rank < links->config.nodes; rank++) {
        drop_peer(links, rank, NIGH_CANCELED, 0);
        free_peer(links, &links->peers[rank]);
    }
    link_loop_fini(links);
    sends_fini(&links->sends);
    bulk_fini(&links->bulk);
    rpc_pool_destroy(links->waits);
    free(links->frame);
    free(links->peers);
    free(links->live);
    free(links);
}

/* ---- peers ---------------------------------------------------------------- */

/* Room to have them all up. */
static bool grow_live(struct links *links, uint32_t more)
{
    struct link **live = realloc(links->live, (links->link_count + more) * sizeof(*live));

    if (live == NULL) {
        return false;
    }
    links->live = live;
    return true;
}

static nigh_status make_peer_links(struct links *links, uint32_t rank, uint32_t rails)
{
    struct links_peer *peer = &links->peers[rank];
    uint32_t lanes = links->config.lanes;
    uint32_t wanted = rails / lanes; /* both are powers of two, and rails the greater */

    if (peer->links != NULL && peer->rails == rails) {
        return NIGH_OK;
    }
    free_peer(links, peer);
    peer->rails = rails;
    peer->links = calloc(wanted, sizeof(*peer->links));
    if (peer->links == NULL || !grow_live(links, wanted)) {
        free_peer(links, peer);
        return NIGH_NO_RESOURCES;
    }
    while (peer->count < wanted) {
        nigh_status status = link_init(&peer->links[peer->count], links, rank,
                                       links->config.lane + peer->count * lanes);

        if (status != NIGH_OK) {
            free_peer(links, peer);
            return status;
        }
        peer->count++;
        links->link_count++;
    }
    return NIGH_OK;
}

/* What they need for spaces, where both nodes serve any. */
static nigh_status prepare_spaces(struct links *links, struct links_peer *peer)
{
    for (uint32_t n = 0; n < peer->count; n++) {
        nigh_status status = link_space_prepare(&peer->links[n]);

        if (status != NIGH_OK) {
            free_peer(links, peer);
            return status;
        }
    }
    return NIGH_OK;
}

nigh_status links_begin_peer(struct links *links, uint32_t rank, uint64_t now_us)
{
    struct links_peer *peer = &links->peers[rank];
    nigh_status status =
        make_peer_links(links, rank, max_u32(peer->info.lanes, links->config.lanes));

    if (status == NIGH_OK) {
        status = prepare_spaces(links, peer);
    }
    peer->up = status == NIGH_OK;
    peer->owed = !peer->up;
    if (peer->owed) {
        peer->owed_us = now_us + LINK_OWED_US;
        links->dial_us = min_u64(links->dial_us, peer->owed_us);
        return status;
    }
    peer->serial = 0;
    for (uint32_t n = 0; n < peer->count; n++) {
        struct link *link = &peer->links[n];

        link->attempts = 0;
        link->dial_us = now_us;
        for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
            link->sides[kind].serial = 0;
        }
    }
    if (peer->info.dials) {
        links->dial_us = now_us;
    }
    return NIGH_OK;
}

nigh_status links_peer_up(struct links *links, const struct link_peer *info, uint64_t now_us)
{
    struct links_peer *peer;

    if (info->rank >= links->config.nodes || info->rank == links->config.rank ||
        !is_lane_count(info->lanes) || info->bulk_endpoints > LIMIT_BULK_ENDPOINTS ||
        info->region_endpoints > LIMIT_REGION_ENDPOINTS || info->space_endpoints > 1) {
        return NIGH_INVALID;
    }
    peer = &links->peers[info->rank];
    if (peer->up && memcmp(&peer->info, info, sizeof(*info)) == 0) {
        return NIGH_OK;
    }
    drop_peer(links, info->rank, NIGH_PEER_LOST, now_us);
    peer->info = *info;
    return links_begin_peer(links, info->rank, now_us);
}

void links_peer_down(struct links *links, uint32_t rank, nigh_status reason, uint64_t now_us)
{
    if (rank < links->config.nodes) {
        drop_peer(links, rank, reason, now_us);
    }
}

void links_peer_dead(struct links *links, uint32_t rank, uint64_t now_us)
{
    if (rank < links->config.nodes) {
        drop_peer(links, rank, NIGH_PEER_LOST, now_us);
        free_peer(links, &links->peers[rank]);
    }
}

/* ---- turns ---------------------------------------------------------------- */

/* What failed in this turn goes down, now that nobody is inside it. */
static void settle(struct links *links, uint64_t now_us)
{
    while (links->any_failed) {
        links->any_failed = false;
        link_loop_settle(links, now_us);
        for (uint32_t rank = 0; rank < links->config.nodes; rank++) {
            struct links_peer *peer = &links->peers[rank];

            for (uint32_t n = 0; n < peer->count; n++) {
                struct link *link = &peer->links[n];

                if (!link->failed) {
                    link_settle_own(link, now_us);
                    continue;
                }
                link_down(link, link->reason, now_us);
                links_back_off(link, now_us);
                if (peer->up && link->dial_us < links->dial_us && peer->info.dials) {
                    links->dial_us = link->dial_us;
                }
            }
        }
    }
}

static void tick_channels(struct link *link, uint64_t now_us)
{
    for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
        if (link->sides[kind].rpc != NULL) {
            (void)rpc_tick(link->sides[kind].rpc, now_us);
        }
    }
}

static uint64_t channels_due_us(const struct link *link)
{
    uint64_t due_us = UINT64_MAX;

    for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
        if (link->sides[kind].rpc != NULL) {
            due_us = min_u64(due_us, rpc_due_us(link->sides[kind].rpc));
        }
    }
    return due_us;
}

static void tick(struct links *links, uint64_t now_us)
{
    if (now_us < links->tick_us) {
        return;
    }
    links->tick_us = now_us + LINK_TICK_US;
    for (uint32_t n = 0; n < links->live_count; n++) {
        if (!links->live[n]->failed) {
            tick_channels(links->live[n], now_us);
            link_measure(links->live[n], now_us);
        }
    }
}

/* Frames that went out first: their buffers are wanted by what those that came in cause. */
static void take_completions(struct links *links, const struct fabric_completion *completions,
                             uint32_t count, uint64_t now_us)
{
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t n = 0; n < count; n++) {
            struct link_side *side = completions[n].context;
            bool went_out = side != NULL && links_channel(links, side->kind) != NULL &&
                            completions[n].op != FABRIC_RECV;

            if (side != NULL && went_out == (pass == 0)) {
                link_complete(side, &completions[n], now_us);
            } else if (side == NULL && pass > 0) {
                link_loop_complete(links, &completions[n], now_us);
            }
        }
    }
}

/* Whether something came. */
static bool take_in(struct links *links, uint64_t now_us)
{
    struct fabric_completion completions[LINKS_BATCH];
    struct fabric_event event;
    uint32_t count = fabric_poll(links->config.fabric, completions, LINKS_BATCH, now_us);
    bool worked = count > 0;

    take_completions(links, completions, count, now_us);
    for (uint32_t n = 0; n < LINKS_EVENTS && fabric_next_event(links->config.fabric, &event); n++) {
        links_on_event(links, &event, now_us);
        worked = true;
    }
    return worked;
}

/* What time brings, and what follows from what came. True if there was something to do. */
static bool finish_turn(struct links *links, uint64_t now_us)
{
    bool worked;

    tick(links, now_us);
    worked = links_serve_dials(links, now_us);
    links_give_back(links);
    links_flush(links);
    links_flush_calls(links);
    settle(links, now_us);
    return worked;
}

bool links_turn(struct links *links, uint64_t now_us)
{
    bool worked = take_in(links, now_us);

    return finish_turn(links, now_us) || worked;
}

bool links_look(struct links *links, uint64_t now_us)
{
    if (!take_in(links, now_us)) {
        return false;
    }
    (void)finish_turn(links, now_us);
    return true;
}

uint64_t links_due_us(const struct links *links)
{
    uint64_t due_us = fabric_due_us(links->config.fabric);

    due_us = links->dial_us < due_us ? links->dial_us : due_us;
    if (links->any_failed || links->chain.count > 0 || links->frames.count > 0 ||
        !list_empty(&links->returning)) {
        return 0;
    }
    for (uint32_t n = 0; n < links->live_count && due_us > links->tick_us; n++) {
        uint64_t call_us = channels_due_us(links->live[n]);

        call_us = call_us > links->tick_us ? call_us : links->tick_us;
        due_us = call_us < due_us ? call_us : due_us;
    }
    return due_us;
}

/* ---- looking -------------------------------------------------------------- */

struct link *links_find_rail(struct links *links, uint32_t rank, uint32_t rail)
{
    struct links_peer *peer = &links->peers[rank];
    uint32_t lanes = links->config.lanes;

    if (!peer->up || rail >= peer->rails || (rail & (lanes - 1)) != links->config.lane) {
        return NULL;
    }
    return &peer->links[rail / lanes];
}

struct link *links_find(struct links *links, uint32_t rank, uint64_t hash)
{
    struct links_peer *peer = &links->peers[rank];
    uint32_t shard = (uint32_t)(hash >> 58);
    struct link *link;

    NIGH_ASSERT(rank < links->config.nodes);
    if (!peer->up) {
        return NULL;
    }
    link = links_find_rail(links, rank, shard & (peer->rails - 1));
    return link != NULL && link->up && !link->failed ? link : NULL;
}

uint32_t link_rails(const struct link *link)
{
    return link->links->peers[link->rank].rails;
}

uint32_t link_peer_incarnation(const struct link *link)
{
    return link->links->peers[link->rank].info.incarnation;
}

/* What is visited may fail, and goes down later: the order stays. */
void links_each(struct links *links, void (*visit)(void *context, struct link *link), void *context)
{
    for (uint32_t n = 0; n < links->live_count; n++) {
        if (!links->live[n]->failed) {
            visit(context, links->live[n]);
        }
    }
}

const struct links_counters *links_counters(const struct links *links)
{
    return &links->counters;
}

uint64_t links_link_bytes(const struct links *links)
{
    uint64_t channels = rpc_memory_bytes(&links->control.rpc);

    if (links->calls.receives > 0) {
        channels += rpc_memory_bytes(&links->calls.rpc);
    }
    if (links_carry_spaces(links)) {
        channels += link_space_bytes();
    }
    return sizeof(struct link) + link_memory_bytes(links) + channels +
           links->max_ops * sizeof(struct link_op) +
           (links->control.receives + links->calls.receives) * sizeof(struct link_early) +
           links_own_receives(links) * sizeof(uint32_t);
}

uint64_t links_shared_bytes(const struct links *links)
{
    uint64_t waits = links->waits == NULL ? 0 : rpc_pool_used(links->waits);

    return sends_memory_bytes(&links->sends) + bulk_memory_bytes(&links->bulk) +
           waits * links->config.rpc.payload_bytes;
}
