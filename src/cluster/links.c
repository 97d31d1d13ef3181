/* SPDX-License-Identifier: Apache-2.0 */
/* See link.h. The links of a lane together: peers, dials, tokens, turns. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "cluster/link_internal.h"

#define LOG_MODULE "link"
#include "base/log.h"

#define LINKS_BATCH 64u /* completions taken in one turn */

_Static_assert(sizeof(struct auth_token) <= FABRIC_PRIVATE_BYTES, "a token is private data");

/* ---- create, destroy ------------------------------------------------------ */

static uint32_t round_up_64(uint64_t bytes)
{
    return (uint32_t)((bytes + 63) & ~UINT64_C(63));
}

nigh_status links_create(const struct links_config *config, struct links **out)
{
    struct links *links;

    if (config->nodes == 0 || config->nodes > LIMIT_NODES || config->lanes > LIMIT_RAILS ||
        config->bulk_receives == 0 || config->reads == 0) {
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
    links->config = *config;
    random_init(&links->random, config->seed);
    links->control_receives = rpc_receives(&config->rpc);
    links->control_sends = rpc_max_sends(&config->rpc);
    links->control_inline = links->control_sends;
    links->frame_stride = round_up_64(sizeof(struct rpc_header) + config->rpc.payload_bytes);
    links->bulk_stride = round_up_64(config->bulk_bytes);
    links->max_ops = config->reads + config->bulk_receives;
    links->dial_us = UINT64_MAX;
    *out = links;
    return NIGH_OK;
}

static void drop_peer(struct links *links, uint32_t rank, nigh_status reason, uint64_t now_us)
{
    struct links_peer *peer = &links->peers[rank];

    peer->up = false;
    for (uint32_t n = 0; n < peer->count; n++) {
        link_down(&peer->links[n], reason, now_us);
    }
}

static void free_peer(struct links_peer *peer)
{
    for (uint32_t n = 0; n < peer->count; n++) {
        link_fini(&peer->links[n]);
    }
    free(peer->links);
    peer->links = NULL;
    peer->count = 0;
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
        free_peer(&links->peers[rank]);
    }
    free(links->peers);
    free(links);
}

/* ---- peers ---------------------------------------------------------------- */

static nigh_status make_peer_links(struct links *links, uint32_t rank, uint32_t rails)
{
    struct links_peer *peer = &links->peers[rank];
    uint32_t lanes = links->config.lanes;
    uint32_t wanted = rails / lanes; /* both are powers of two, and rails the greater */

    if (peer->links != NULL && peer->rails == rails) {
        return NIGH_OK;
    }
    free_peer(peer);
    peer->rails = rails;
    peer->links = calloc(wanted, sizeof(*peer->links));
    if (peer->links == NULL) {
        return NIGH_NO_RESOURCES;
    }
    while (peer->count < wanted) {
        nigh_status status = link_init(&peer->links[peer->count], links, rank,
                                       links->config.lane + peer->count * lanes);

        if (status != NIGH_OK) {
            free_peer(peer);
            return status;
        }
        peer->count++;
    }
    return NIGH_OK;
}

static bool is_lane_count(uint32_t lanes)
{
    return lanes > 0 && lanes <= LIMIT_LANES && (lanes & (lanes - 1)) == 0;
}

nigh_status links_peer_up(struct links *links, const struct link_peer *info, uint64_t now_us)
{
    struct links_peer *peer;
    uint32_t rails;
    nigh_status status;

    if (info->rank >= links->config.nodes || info->rank == links->config.rank ||
        !is_lane_count(info->lanes)) {
        return NIGH_INVALID;
    }
    peer = &links->peers[info->rank];
    drop_peer(links, info->rank, NIGH_PEER_LOST, now_us);
    rails = info->lanes > links->config.lanes ? info->lanes : links->config.lanes;
    status = make_peer_links(links, info->rank, rails);
    if (status != NIGH_OK) {
        return status;
    }
    peer->info = *info;
    peer->serial = 0;
    peer->up = true;
    for (uint32_t n = 0; n < peer->count; n++) {
        struct link *link = &peer->links[n];

        link->attempts = 0;
        link->dial_us = now_us;
        for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
            link->sides[kind].serial = 0;
        }
    }
    if (info->dials) {
        links->dial_us = now_us;
    }
    return NIGH_OK;
}

void links_peer_down(struct links *links, uint32_t rank, nigh_status reason, uint64_t now_us)
{
    if (rank < links->config.nodes) {
        drop_peer(links, rank, reason, now_us);
    }
}

/* ---- dialling ------------------------------------------------------------- */

static nigh_status dial_side(struct link *link, enum link_endpoint kind)
{
    struct links *links = link->links;
    struct links_peer *peer = &links->peers[link->rank];
    struct fabric_endpoint_options options = link_endpoint_options(link, kind);
    struct fabric_endpoint *endpoint;
    struct auth_token token = {
        .kind = (uint8_t)kind,
        .rank = (uint16_t)links->config.rank,
        .rail = (uint16_t)link->rail,
        .incarnation = links->config.incarnation,
        .target_incarnation = peer->info.incarnation,
        .serial = ++peer->serial,
    };
    nigh_status status;

    auth_token_sign(&token, peer->info.session);
    status = fabric_connect(links->config.fabric,
                            peer->info.addresses[link->rail & (peer->info.lanes - 1)], &options,
                            &token, sizeof(token), &endpoint);
    if (status != NIGH_OK) {
        link_fail(link, status);
        return status;
    }
    return link_take_endpoint(link, kind, endpoint);
}

static void dial(struct link *link, uint64_t now_us)
{
    link->links->counters.dials++;
    link->up_by_us = clock_deadline_us(now_us, LINK_UP_US);
    if (dial_side(link, LINK_CONTROL) == NIGH_OK) {
        (void)dial_side(link, LINK_BULK);
    }
}

/* When to dial again: twice as late each time, half of it at random. */
static void back_off(struct link *link, uint64_t now_us)
{
    uint64_t wait_us = LINK_BACKOFF_MIN_US;

    for (uint32_t n = 0; n < link->attempts && wait_us < LINK_BACKOFF_MAX_US; n++) {
        wait_us *= 2;
    }
    link->attempts++;
    link->dial_us = now_us + wait_us / 2 + random_below(&link->links->random, wait_us / 2);
}

static bool is_idle(const struct link *link)
{
    return link->sides[LINK_CONTROL].endpoint == NULL && link->sides[LINK_BULK].endpoint == NULL;
}

/* Dials what is due, gives up what does not come up; says when to look again. */
static bool serve_dials(struct links *links, uint64_t now_us)
{
    bool worked = false;

    if (now_us < links->dial_us) {
        return false;
    }
    links->dial_us = UINT64_MAX;
    for (uint32_t rank = 0; rank < links->config.nodes; rank++) {
        struct links_peer *peer = &links->peers[rank];

        for (uint32_t n = 0; peer->up && n < peer->count; n++) {
            struct link *link = &peer->links[n];
            uint64_t due_us = UINT64_MAX;

            if (is_idle(link) && peer->info.dials) {
                if (link->dial_us <= now_us) {
                    dial(link, now_us);
                    worked = true;
                    due_us = link->up_by_us;
                } else {
                    due_us = link->dial_us;
                }
            } else if (!is_idle(link) && !link->up) {
                due_us = link->up_by_us;
                if (due_us <= now_us) {
                    link_fail(link, NIGH_TIMEOUT);
                    worked = true;
                }
            }
            links->dial_us = due_us < links->dial_us ? due_us : links->dial_us;
        }
    }
    return worked;
}

/* ---- requests ------------------------------------------------------------- */

static struct link *find_rail(struct links *links, uint32_t rank, uint32_t rail)
{
    struct links_peer *peer = &links->peers[rank];
    uint32_t lanes = links->config.lanes;

    if (!peer->up || rail >= peer->rails || (rail & (lanes - 1)) != links->config.lane) {
        return NULL;
    }
    return &peer->links[rail / lanes];
}

/* The link and side that a token is for; NULL: it is not good, or not any more. */
static struct link_side *check_token(struct links *links, const struct fabric_event *event)
{
    struct auth_token token;
    struct links_peer *peer;
    struct link *link;

    if (event->private_bytes < sizeof(token)) {
        return NULL;
    }
    memcpy(&token, event->private_data, sizeof(token));
    if (token.rank >= links->config.nodes || token.rank == links->config.rank ||
        token.kind >= LINK_ENDPOINTS) {
        return NULL;
    }
    peer = &links->peers[token.rank];
    if (!peer->up || peer->info.dials || token.incarnation != peer->info.incarnation ||
        token.target_incarnation != links->config.incarnation ||
        !auth_token_check(&token, peer->info.session)) {
        return NULL;
    }
    link = find_rail(links, token.rank, token.rail);
    if (link == NULL || token.serial <= link->sides[token.kind].serial) {
        return NULL;
    }
    link->sides[token.kind].serial = token.serial;
    return &link->sides[token.kind];
}

static void on_connect_request(struct links *links, const struct fabric_event *event,
                               uint64_t now_us)
{
    struct link_side *side = check_token(links, event);
    struct fabric_endpoint_options options;
    nigh_status status;

    if (side == NULL) {
        links->counters.refused++;
        LOG_WARN("refused a connection: its token is not good", "lane=%u", links->config.lane);
        fabric_reject(links->config.fabric, event->endpoint);
        return;
    }
    if (side->endpoint != NULL || side->link->up) {
        /* It lost what we have not seen fail yet. */
        link_down(side->link, NIGH_PEER_LOST, now_us);
    }
    options = link_endpoint_options(side->link, side->kind);
    status = fabric_accept(links->config.fabric, event->endpoint, &options, NULL, 0);
    if (status != NIGH_OK) {
        fabric_reject(links->config.fabric, event->endpoint);
        return;
    }
    side->link->up_by_us = clock_deadline_us(now_us, LINK_UP_US);
    if (side->link->up_by_us < links->dial_us) {
        links->dial_us = side->link->up_by_us;
    }
    (void)link_take_endpoint(side->link, side->kind, event->endpoint);
}

static void on_event(struct links *links, const struct fabric_event *event, uint64_t now_us)
{
    struct link_side *side = event->context;

    if (event->kind == FABRIC_REQUEST) {
        on_connect_request(links, event, now_us);
        return;
    }
    if (side == NULL || side->endpoint != event->endpoint) {
        return;
    }
    if (event->kind == FABRIC_ESTABLISHED) {
        link_established(side->link, side->kind, now_us);
    } else {
        link_fail(side->link, event->status);
    }
}

/* ---- turns ---------------------------------------------------------------- */

/* What failed in this turn goes down, now that nobody is inside it. */
static void settle(struct links *links, uint64_t now_us)
{
    while (links->any_failed) {
        links->any_failed = false;
        for (uint32_t rank = 0; rank < links->config.nodes; rank++) {
            struct links_peer *peer = &links->peers[rank];

            for (uint32_t n = 0; n < peer->count; n++) {
                struct link *link = &peer->links[n];

                if (!link->failed) {
                    continue;
                }
                link_down(link, link->reason, now_us);
                back_off(link, now_us);
                if (peer->up && link->dial_us < links->dial_us && peer->info.dials) {
                    links->dial_us = link->dial_us;
                }
            }
        }
    }
}

static void tick(struct links *links, uint64_t now_us)
{
    if (now_us < links->tick_us) {
        return;
    }
    links->tick_us = now_us + LINK_TICK_US;
    for (uint32_t rank = 0; rank < links->config.nodes; rank++) {
        struct links_peer *peer = &links->peers[rank];

        for (uint32_t n = 0; n < peer->count; n++) {
            if (peer->links[n].up && !peer->links[n].failed) {
                (void)rpc_tick(peer->links[n].rpc, now_us);
            }
        }
    }
}

bool links_turn(struct links *links, uint64_t now_us)
{
    struct fabric_completion completions[LINKS_BATCH];
    struct fabric_event event;
    uint32_t count = fabric_poll(links->config.fabric, completions, LINKS_BATCH, now_us);
    bool worked = count > 0;

    for (uint32_t n = 0; n < count; n++) {
        if (completions[n].context != NULL) {
            link_complete(completions[n].context, &completions[n], now_us);
        }
    }
    while (fabric_next_event(links->config.fabric, &event)) {
        on_event(links, &event, now_us);
        worked = true;
    }
    tick(links, now_us);
    worked = serve_dials(links, now_us) || worked;
    settle(links, now_us);
    return worked;
}

static bool has_calls(const struct links *links)
{
    for (uint32_t rank = 0; rank < links->config.nodes; rank++) {
        const struct links_peer *peer = &links->peers[rank];

        for (uint32_t n = 0; n < peer->count; n++) {
            if (peer->links[n].up && rpc_pending(peer->links[n].rpc) > 0) {
                return true;
            }
        }
    }
    return false;
}

uint64_t links_due_us(const struct links *links)
{
    uint64_t due_us = fabric_due_us(links->config.fabric);

    due_us = links->dial_us < due_us ? links->dial_us : due_us;
    if (links->any_failed) {
        return 0;
    }
    if (links->tick_us < due_us && has_calls(links)) {
        due_us = links->tick_us;
    }
    return due_us;
}

/* ---- looking -------------------------------------------------------------- */

struct link *links_find(struct links *links, uint32_t rank, uint64_t hash)
{
    struct links_peer *peer = &links->peers[rank];
    uint32_t shard = (uint32_t)(hash >> 58);
    struct link *link;

    NIGH_ASSERT(rank < links->config.nodes);
    if (!peer->up) {
        return NULL;
    }
    link = find_rail(links, rank, shard & (peer->rails - 1));
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

void links_each(struct links *links, void (*visit)(void *context, struct link *link), void *context)
{
    for (uint32_t rank = 0; rank < links->config.nodes; rank++) {
        struct links_peer *peer = &links->peers[rank];

        for (uint32_t n = 0; n < peer->count; n++) {
            if (peer->links[n].up && !peer->links[n].failed) {
                visit(context, &peer->links[n]);
            }
        }
    }
}

const struct links_counters *links_counters(const struct links *links)
{
    return &links->counters;
}

bool links_is_valid(const struct links *links)
{
    for (uint32_t rank = 0; rank < links->config.nodes; rank++) {
        const struct links_peer *peer = &links->peers[rank];

        for (uint32_t n = 0; n < peer->count; n++) {
            const struct link *link = &peer->links[n];
            uint32_t under_way = 0;

            for (uint32_t i = 0; i < link->ops_used; i++) {
                under_way += link->ops[i].done != NULL;
            }
            if (under_way != link->op_count || (link->up && link->rpc == NULL) ||
                (link->up && !peer->up) ||
                (link->up &&
                 (link->sides[0].endpoint == NULL || link->sides[1].endpoint == NULL))) {
                return false;
            }
        }
    }
    return true;
}
