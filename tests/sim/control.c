/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connections between nodes, played: production's src/cluster/peer.c decides when a
 * peer is up, lost or dead; what it sees of the network is told here. Handshakes succeed when both
 * can hear each other; session keys are drawn by the seed.
 */
#include "world.h"

#include <stdio.h>
#include <string.h>

#define CONNECT_US 200u /* a handshake takes up to so long */

static struct world_side *side_of(const struct world *world, uint32_t node, uint32_t other)
{
    return &world->nodes[node].sides[other];
}

bool control_reaches(const struct world *world, uint32_t a, uint32_t b)
{
    return world->nodes[a].alive && world->nodes[b].alive && !world->nodes[a].paused &&
           !world->nodes[b].paused && !world->cut[a * world->node_count + b] &&
           !world->cut[b * world->node_count + a];
}

static void tell_up(struct world *world, uint32_t node, uint32_t other,
                    const uint8_t key[AUTH_KEY_BYTES])
{
    const struct world_node *there = &world->nodes[other];
    struct link_peer info = {
        .rank = other,
        .incarnation = there->incarnation,
        .dials = side_of(world, node, other)->peer.dials,
        .lanes = there->lanes,
        .bulk_endpoints = world->bulk_endpoints,
        .region_endpoints = world->region_endpoints,
    };

    memcpy(info.session, key, AUTH_KEY_BYTES);
    for (uint32_t lane = 0; lane < there->lanes; lane++) {
        snprintf(info.addresses[lane], FABRIC_ADDRESS_BYTES, "%u:%u", other, lane);
    }
    world_say(world, "node %u: peer %u is up, incarnation %u", node, other, there->incarnation);
    world_moment(world, node, MOMENT_PEER_UP);
    for (uint32_t lane = 0; lane < world->nodes[node].lanes; lane++) {
        caller_peer(&world->nodes[node].lane[lane], other, false);
        NIGH_ASSERT(exchange_peer_up(world->nodes[node].lane[lane].exchange, &info,
                                     world->now_us) == NIGH_OK);
    }
}

/* Carries out what peer.c says; `key` is for `up`. */
static void act(struct world *world, uint32_t node, uint32_t other,
                const struct peer_actions *actions, const uint8_t *key)
{
    struct world_node *here = &world->nodes[node];

    here->due_us = world->now_us;
    if (actions->dead) {
        agreeing_dead(world, node, other);
        world_say(world, "node %u: peer %u is dead", node, other);
        world_moment(world, node, MOMENT_PEER_DEAD);
        if (world->nodes[other].alive &&
            world->nodes[other].incarnation == side_of(world, node, other)->peer.incarnation) {
            world->totals->dead_alive++;
            world->was_forgetful = true;
        }
    } else if (actions->lost) {
        world_say(world, "node %u: peer %u is lost", node, other);
        world_moment(world, node, MOMENT_PEER_LOST);
    }
    for (uint32_t lane = 0; lane < here->lanes; lane++) {
        struct exchange *exchange = here->lane[lane].exchange;

        here->lane[lane].quiet_until_us = 0;
        if (actions->dead || actions->lost) {
            caller_peer(&here->lane[lane], other, true);
        }
        if (actions->dead) {
            exchange_peer_dead(exchange, other, world->now_us);
        }
        if (actions->lost) {
            exchange_peer_lost(exchange, other, world->now_us);
        }
    }
    if (actions->up) {
        tell_up(world, node, other, key);
    }
    if (actions->dial) {
        world_at(world, 1 + world_below(world, CONNECT_US), EVENT_CONNECT, node, other, 0);
    }
}

void control_start(struct world *world, uint32_t node)
{
    for (uint32_t other = 0; other < world->node_count; other++) {
        struct world_side *side = side_of(world, node, other);

        memset(side, 0, sizeof(*side));
        if (other != node) {
            peer_init(&side->peer, node > other, world->dead_after_us, world->silence_us,
                      world->now_us);
        }
    }
}

/* The other side of a connection hears of its end, after a while, unless it cannot. */
static void reset_other(struct world *world, uint32_t node, uint32_t other, uint64_t connection)
{
    if (connection != 0 && world->nodes[other].alive &&
        !world->cut[node * world->node_count + other]) {
        world_at(world, 1 + world_below(world, CONNECT_US), EVENT_RESET, other, node, connection);
    }
}

void control_crash(struct world *world, uint32_t node)
{
    for (uint32_t other = 0; other < world->node_count; other++) {
        if (other != node) {
            uint64_t connection = side_of(world, node, other)->connection;

            side_of(world, node, other)->connection = 0;
            if (world_dice(world, 70)) { /* else its machine went with it: silence */
                reset_other(world, node, other, connection);
            }
        }
    }
}

void control_goodbye(struct world *world, uint32_t node)
{
    for (uint32_t other = 0; other < world->node_count; other++) {
        uint64_t connection = other == node ? 0 : side_of(world, node, other)->connection;

        side_of(world, node, other)->connection = 0;
        if (connection != 0 && world->nodes[other].alive &&
            !world->cut[node * world->node_count + other]) {
            world_at(world, 1 + kind_below(world, CONNECT_US), EVENT_GOODBYE, other, node,
                     connection);
        }
    }
}

void control_connect(struct world *world, uint32_t dialler, uint32_t other)
{
    struct world_side *near, *far;
    struct peer_actions here, there;
    uint8_t key[AUTH_KEY_BYTES];

    if (!world->nodes[dialler].alive || !side_of(world, dialler, other)->peer.dialling) {
        return;
    }
    near = side_of(world, dialler, other);
    far = side_of(world, other, dialler);
    near->tick_us = far->tick_us = world->now_us;
    if (!control_reaches(world, dialler, other)) {
        peer_dial_failed(&near->peer, (uint32_t)world_below(world, UINT32_MAX), world->now_us);
        world->nodes[dialler].due_us = world->now_us;
        return;
    }
    random_fill(&world->random, key, sizeof(key));
    if (peer_connected(&far->peer, world->nodes[dialler].incarnation, 0, world->now_us, &there) !=
        NIGH_OK) {
        world_fail(world, "node %u refused a peer that lives", other);
    }
    if (peer_connected(&near->peer, world->nodes[other].incarnation, 0, world->now_us, &here) !=
        NIGH_OK) {
        world_fail(world, "node %u refused a peer that lives", dialler);
    }
    near->connection = far->connection = ++world->next_connection;
    act(world, other, dialler, &there, key);
    act(world, dialler, other, &here, key);
}

static void disconnected(struct world *world, uint32_t node, uint32_t other)
{
    struct world_side *side = side_of(world, node, other);
    struct peer_actions actions;

    side->connection = 0;
    side->tick_us = world->now_us;
    peer_disconnected(&side->peer, false, (uint32_t)world_below(world, UINT32_MAX), world->now_us,
                      &actions);
    act(world, node, other, &actions, NULL);
}

void control_condemn(struct world *world, uint32_t node, uint32_t other, uint32_t incarnation,
                     uint32_t jitter)
{
    struct world_side *side = side_of(world, node, other);
    uint64_t connection = side->connection;
    struct peer_actions actions;

    peer_condemned(&side->peer, incarnation, jitter, world->now_us, &actions);
    if (actions.dead && connection != 0) {
        side->connection = 0;
        reset_other(world, node, other, connection);
    }
    side->tick_us = world->now_us;
    act(world, node, other, &actions, NULL);
}

/* Nothing waits for a peer that said goodbye. */
static void check_farewell(struct world *world, uint32_t node, uint32_t gone)
{
    for (uint32_t n = 0; n < world->nodes[node].lanes; n++) {
        const struct exchange *exchange = world->nodes[node].lane[n].exchange;

        LIST_FOREACH(place, &exchange->live)
        {
            WORLD_CHECK(world, container_of(place, struct exchange_link, place)->rank != gone,
                        "node %u: a link to node %u outlives its goodbye", node, gone);
        }
        for (uint32_t i = 0; i < exchange->pulls_used; i++) {
            const struct pull *pull = &exchange->pulls[i];

            WORLD_CHECK(world,
                        pull->state == PULL_FREE || pull->link == NULL || pull->link->rank != gone,
                        "node %u: a pull waits for node %u, which said goodbye", node, gone);
        }
    }
    world->totals->farewells++;
}

void control_hear_goodbye(struct world *world, uint32_t node, uint32_t other, uint64_t connection)
{
    struct world_side *side = side_of(world, node, other);
    struct peer_actions actions;

    if (!world->nodes[node].alive || side->connection != connection) {
        return;
    }
    if (world->nodes[node].paused) { /* it hears it when it goes on */
        world_at(world, 1000, EVENT_GOODBYE, node, other, connection);
        return;
    }
    side->connection = 0;
    side->tick_us = world->now_us;
    peer_disconnected(&side->peer, true, (uint32_t)kind_below(world, UINT32_MAX), world->now_us,
                      &actions);
    act(world, node, other, &actions, NULL);
    check_farewell(world, node, other);
}

void control_reset(struct world *world, uint32_t node, uint32_t other, uint64_t connection)
{
    struct world_side *side = side_of(world, node, other);

    if (!world->nodes[node].alive || side->connection != connection) {
        return;
    }
    if (world->nodes[node].paused) { /* it finds out when it goes on */
        world_at(world, 1000, EVENT_RESET, node, other, connection);
        return;
    }
    disconnected(world, node, other);
}

void control_break(struct world *world, uint32_t a, uint32_t b)
{
    uint64_t connection = side_of(world, a, b)->connection;

    if (connection != 0 && world->nodes[a].alive && world->nodes[b].alive &&
        side_of(world, b, a)->connection == connection) {
        world_at(world, 0, EVENT_RESET, a, b, connection);
        reset_other(world, a, b, connection);
    }
}

/* Pings are not played one by one: who can be heard was heard, though it may not hear us. */
static void hear(struct world *world, uint32_t node, uint32_t other)
{
    struct world_side *side = side_of(world, node, other);

    if (side->connection != 0 && side->connection == side_of(world, other, node)->connection &&
        world->nodes[other].alive && !world->nodes[other].paused &&
        !world->cut[other * world->node_count + node]) {
        peer_heard(&side->peer, world->now_us);
    }
}

void control_tick(struct world *world, uint32_t node)
{
    for (uint32_t other = 0; other < world->node_count; other++) {
        struct world_side *side = side_of(world, node, other);
        uint64_t connection = side->connection;
        struct peer_actions actions;

        if (other == node || side->tick_us > world->now_us) {
            continue;
        }
        hear(world, node, other);
        side->tick_us = peer_tick(&side->peer, world->now_us, &actions);
        if (side->peer.connected) {
            side->tick_us = min_u64(side->tick_us, world->now_us + world->silence_us / 3);
        } else if (connection != 0) {
            side->connection = 0;
            reset_other(world, node, other, connection);
        }
        WORLD_CHECK(world, peer_is_valid(&side->peer), "node %u: its peer %u is wrong", node,
                    other);
        if (actions.dead || actions.lost || actions.dial) {
            act(world, node, other, &actions, NULL);
            side->tick_us = min_u64(side->tick_us, world->now_us);
        }
    }
}

uint64_t control_due_us(const struct world *world, uint32_t node)
{
    uint64_t due_us = WORLD_NEVER;

    for (uint32_t other = 0; other < world->node_count; other++) {
        if (other != node) {
            due_us = min_u64(due_us, side_of(world, node, other)->tick_us);
        }
    }
    return due_us;
}
