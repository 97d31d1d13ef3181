/* SPDX-License-Identifier: Apache-2.0 */
/* See link.h. How the links of a lane come up: dials, and the tokens of those that come in. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cluster/link_internal.h"

#define LOG_MODULE "link"
#include "base/log.h"

_Static_assert(sizeof(struct auth_token) <= FABRIC_PRIVATE_BYTES, "a token is private data");

/* ---- dialling ------------------------------------------------------------- */

/* "a,b:1" and 1: "b:1". A peer that moved from one to another is at the next that is tried. */
static void choose_host(const char *offered, uint32_t turn, char out[FABRIC_ADDRESS_BYTES])
{
    const char *port = strrchr(offered, ':');
    const char *host = offered;
    uint32_t count = 1;

    for (const char *at = offered; (at = strchr(at, ',')) != NULL; at++)
        count++;
    for (turn %= count; turn > 0; turn--)
        host = strchr(host, ',') + 1;
    (void)snprintf(out, FABRIC_ADDRESS_BYTES, "%.*s%s", (int)strcspn(host, count > 1 ? ",:" : ""),
                   host, count > 1 && port != NULL ? port : "");
}

nigh_status links_dial(struct link *link, enum link_endpoint kind)
{
    struct links *links = link->links;
    struct links_peer *peer = &links->peers[link->rank];
    struct fabric_endpoint_options options = link_endpoint_options(link, kind);
    struct fabric_endpoint *endpoint;
    char address[FABRIC_ADDRESS_BYTES];
    struct auth_token token = {
        .kind = (uint8_t)kind,
        .rank = (uint16_t)links->config.rank,
        .rail = (uint16_t)link->rail,
        .incarnation = links->config.incarnation,
        .target_incarnation = peer->info.incarnation,
        .serial = ++peer->serial,
        .version = (uint16_t)peer->info.version,
    };
    uint8_t said[sizeof(token) + LINK_OFFER_BYTES];
    uint32_t bytes = sizeof(token);
    nigh_status status;

    auth_token_sign(&token, peer->info.session);
    memcpy(said, &token, sizeof(token));
    if (kind == LINK_CALLS) {
        bytes += link_ring_offer(link, said + sizeof(token));
    }
    choose_host(peer->info.addresses[link->rail & (peer->info.lanes - 1)], link->host, address);
    status = fabric_connect(links->config.fabric, address, &options, said, bytes, &endpoint);
    return status == NIGH_OK ? link_take_endpoint(link, kind, endpoint) : status;
}

static void dial(struct link *link, uint64_t now_us)
{
    link->links->counters.dials++;
    link->up_by_us = clock_deadline_us(now_us, LINK_UP_US);
    for (uint32_t kind = 0; kind < LINK_ENDPOINTS && !link->failed; kind++) {
        nigh_status status = link_has(link, kind) ? links_dial(link, kind) : NIGH_OK;

        if (status != NIGH_OK) {
            link_side_fail(&link->sides[kind], status);
        }
    }
}

uint64_t links_back_off_us(struct links *links, uint32_t attempts)
{
    uint64_t wait_us = LINK_BACKOFF_MIN_US;

    for (uint32_t n = 0; n < attempts && wait_us < LINK_BACKOFF_MAX_US; n++) {
        wait_us *= 2;
    }
    wait_us = min_u64(wait_us, LINK_BACKOFF_MAX_US);
    return wait_us / 2 + random_below(&links->random, wait_us / 2);
}

void links_back_off(struct link *link, uint64_t now_us)
{
    link->dial_us = now_us + links_back_off_us(link->links, link->attempts++);
    link->host++;
}

/* When to look at this link again. */
static uint64_t serve_link(struct link *link, bool *worked, uint64_t now_us)
{
    uint64_t due_us = UINT64_MAX;

    if (link_is_idle(link)) {
        if (!link->links->peers[link->rank].info.dials)
            return UINT64_MAX;
        if (link->dial_us > now_us)
            return link->dial_us;
        dial(link, now_us);
        *worked = true;
        return link->up_by_us;
    }
    if (!link->up) {
        due_us = link->up_by_us;
        if (due_us <= now_us) {
            link_fail(link, NIGH_TIMEOUT);
            *worked = true;
        }
    }
    return min_u64(due_us, link_serve_own(link, worked, now_us));
}

bool links_serve_dials(struct links *links, uint64_t now_us)
{
    bool worked = false;

    if (now_us < links->dial_us) {
        return false;
    }
    links->dial_us = UINT64_MAX;
    for (uint32_t rank = 0; rank < links->config.nodes; rank++) {
        struct links_peer *peer = &links->peers[rank];

        if (peer->owed && peer->owed_us <= now_us) {
            worked = links_begin_peer(links, rank, now_us) == NIGH_OK || worked;
        }
        if (peer->owed) {
            links->dial_us = min_u64(links->dial_us, peer->owed_us);
        }
        for (uint32_t n = 0; peer->up && n < peer->count; n++) {
            links->dial_us = min_u64(links->dial_us, serve_link(&peer->links[n], &worked, now_us));
        }
    }
    return worked;
}

/* ---- requests ------------------------------------------------------------- */

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
        token.version != peer->info.version || !auth_token_check(&token, peer->info.session)) {
        return NULL;
    }
    link = links_find_rail(links, token.rank, token.rail);
    if (link == NULL || !link_has(link, token.kind) ||
        token.serial <= link->sides[token.kind].serial) {
        return NULL;
    }
    link->sides[token.kind].serial = token.serial;
    return &link->sides[token.kind];
}

/* What stands behind a token, or in the answer to it: of rings, on the endpoint for calls. */
static void take_offer(struct link_side *side, const uint8_t *offer, uint32_t bytes)
{
    nigh_status status = NIGH_OK;

    if (side->kind == LINK_CALLS && !side->link->failed) {
        status = link_ring_take_offer(side->link, offer, bytes);
    }
    if (status != NIGH_OK) {
        LOG_WARN("the peer's ring for calls is no good",
                 "rank=%u rail=%u why=%s do=\"nothing: the link is made anew; if it comes again, "
                 "run the same nighd at all nodes\"",
                 side->link->rank, side->link->rail, nigh_status_name(status));
        link_fail(side->link, status);
    }
}

/* For a new connection of that side: the peer lost what we have not seen fail yet, or not to the
 * end. False: it comes too early, and is tried again. */
static bool make_way(struct link_side *side, uint64_t now_us)
{
    struct link *link = side->link;

    if (link_is_own(side->kind)) {
        if (!link->failed && side->endpoint != NULL) {
            link_side_down(side, NIGH_PEER_LOST, now_us);
        }
        return !link->failed;
    }
    if (side->endpoint != NULL || link->up || link->failed) {
        link_down(link, NIGH_PEER_LOST, now_us);
    }
    return true;
}

static void on_connect_request(struct links *links, const struct fabric_event *event,
                               uint64_t now_us)
{
    struct link_side *side = check_token(links, event);
    struct fabric_endpoint_options options;
    uint8_t offer[LINK_OFFER_BYTES];
    uint32_t bytes = 0;
    nigh_status status;

    if (side == NULL) {
        /* Whoever reaches the port can cause it: said ever more rarely. */
        if (is_pow2(++links->counters.refused)) {
            LOG_WARN("refused a connection: its token is not good",
                     "lane=%u refused=%llu do=\"let nobody but the nodes reach the ports of lanes; "
                     "a few as a node begins anew are nothing\"",
                     links->config.lane, (unsigned long long)links->counters.refused);
        }
        fabric_reject(links->config.fabric, event->endpoint);
        return;
    }
    if (!make_way(side, now_us)) {
        fabric_reject(links->config.fabric, event->endpoint);
        return;
    }
    options = link_endpoint_options(side->link, side->kind);
    if (side->kind == LINK_CALLS) {
        bytes = link_ring_offer(side->link, offer);
    }
    status = fabric_accept(links->config.fabric, event->endpoint, &options, offer, bytes);
    if (status != NIGH_OK) {
        fabric_reject(links->config.fabric, event->endpoint);
        return;
    }
    side->link->up_by_us = clock_deadline_us(now_us, LINK_UP_US);
    if (side->link->up_by_us < links->dial_us) {
        links->dial_us = side->link->up_by_us;
    }
    if (link_take_endpoint(side->link, side->kind, event->endpoint) == NIGH_OK) {
        take_offer(side, event->private_data + sizeof(struct auth_token),
                   event->private_bytes - (uint32_t)sizeof(struct auth_token));
    }
}

void links_on_event(struct links *links, const struct fabric_event *event, uint64_t now_us)
{
    struct link_side *side = event->context;

    if (event->kind == FABRIC_REQUEST) {
        on_connect_request(links, event, now_us);
        return;
    }
    if (event->endpoint == links->loop.endpoint) {
        link_loop_fail(links, event->status);
        return;
    }
    if (side == NULL || side->endpoint != event->endpoint) {
        return;
    }
    if (event->kind == FABRIC_ESTABLISHED) {
        if (links->peers[side->link->rank].info.dials) {
            take_offer(side, event->private_data, event->private_bytes);
        }
        link_established(side->link, side->kind, now_us);
    } else {
        link_side_fail(side, event->status);
    }
}
