/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong, by the seed, besides what the fabric does by itself. */
#include "world.h"

#define SLUGGISH_US 2000u /* between the turns of a slow node, at most */

static uint32_t choose_fault(struct world *world)
{
    uint32_t sum = 0, lot;

    for (uint32_t n = 0; n < FAULTS; n++) {
        sum += world->fault_weight[n];
    }
    if (sum == 0) {
        return FAULTS;
    }
    lot = (uint32_t)world_below(world, sum);
    for (uint32_t n = 0; n < FAULTS; n++) {
        if (lot < world->fault_weight[n]) {
            return n;
        }
        lot -= world->fault_weight[n];
    }
    return FAULTS;
}

/* Mostly short, sometimes longer than it takes to be thought dead. */
static uint64_t how_long_us(struct world *world)
{
    uint64_t most_us =
        world_dice(world, 25) ? 2 * world->dead_after_us + world->silence_us : world->silence_us;

    return 1 + world_below(world, world_dice(world, 40) ? 2000 : most_us);
}

static void cut(struct world *world, uint32_t a, uint32_t b)
{
    if (a == b || world->cut[a * world->node_count + b]) {
        return;
    }
    world_say(world, "nodes %u and %u do not hear each other", a, b);
    world->cut[a * world->node_count + b] = true;
    world->cut[b * world->node_count + a] = true;
    sim_cut(world->sim, a, b, true);
    world_at(world, how_long_us(world), EVENT_HEAL, a, b, 0);
}

/* What a node says does not reach another, whose words it hears. */
static void cut_way(struct world *world, uint32_t from, uint32_t to)
{
    if (from == to || world->cut[from * world->node_count + to]) {
        return;
    }
    world_say(world, "node %u does not hear node %u", to, from);
    world->cut[from * world->node_count + to] = true;
    sim_cut_way(world->sim, from, to, true);
    world_at(world, how_long_us(world), EVENT_HEAL_WAY, from, to, 0);
}

/* The first nodes, so many, and the others. */
static void divide(struct world *world, uint32_t first)
{
    for (uint32_t a = 0; a < first; a++) {
        for (uint32_t b = first; b < world->node_count; b++) {
            cut(world, a, b);
        }
    }
}

/* Its lanes come to nothing for a while, again and again. */
static void slow_down(struct world *world, uint32_t rank)
{
    struct world_node *node = &world->nodes[rank];

    if (node->slow_us == 0) {
        node->slow_us = 1 + (uint32_t)world_below(world, SLUGGISH_US);
        world_say(world, "node %u is slow: a turn every %u us", rank, node->slow_us);
        world_at(world, how_long_us(world), EVENT_SPEED_UP, rank, 0, 0);
    }
}

static void pause_node(struct world *world, uint32_t rank)
{
    if (world->nodes[rank].paused) {
        return;
    }
    world_say(world, "node %u pauses", rank);
    world_moment(world, rank, MOMENT_PAUSE);
    world->nodes[rank].paused = true;
    sim_pause(world->sim, rank, true);
    world_at(world, how_long_us(world), EVENT_RESUME, rank, 0, 0);
}

static void evict(struct world *world, uint32_t rank)
{
    struct world_node *node = &world->nodes[rank];

    world_moment(world, rank, MOMENT_EVICT);
    for (uint32_t lane = 0; lane < node->lanes; lane++) {
        uint64_t bytes = 1 + world_below(world, 4 * world->size_max);

        client_evict(world, rank, lane, bytes);
    }
}

void fault_happen(struct world *world)
{
    uint32_t fault = choose_fault(world);
    uint32_t a = (uint32_t)world_below(world, world->node_count);
    uint32_t b = (uint32_t)world_below(world, world->node_count);

    if (world->calm || fault == FAULTS) {
        return;
    }
    if (--world->faults_left > 0) {
        world_at(world, 1 + world_below(world, world->fault_gap_us), EVENT_FAULT, 0, 0, 0);
    }
    if (!world->nodes[a].alive || world->nodes[a].paused) {
        return;
    }
    world->totals->faults[fault]++;
    switch ((enum world_fault)fault) {
    case FAULT_CRASH:
        node_crash(world, a, !world->kind.plain && kind_dice(world, world->kind.warm_percent));
        world_at(world, how_long_us(world), EVENT_RESTART, a, 0, 0);
        break;
    case FAULT_STOP:
        node_stop(world, a, kind_dice(world, world->kind.warm_percent));
        world_at(world, how_long_us(world), EVENT_RESTART, a, 0, 0);
        break;
    case FAULT_PAUSE: pause_node(world, a); break;
    case FAULT_CUT: cut(world, a, b); break;
    case FAULT_ONE_WAY: cut_way(world, a, b); break;
    case FAULT_PARTITION: divide(world, 1 + b % (world->node_count - 1)); break;
    case FAULT_SLUGGISH: slow_down(world, a); break;
    case FAULT_SLOW:
        if (a != b) {
            sim_slow(world->sim, a, b, 2 + (uint32_t)world_below(world, 200));
            world_at(world, how_long_us(world), EVENT_QUICKEN, a, b, 0);
        }
        break;
    case FAULT_RESET:
        if (a != b) {
            control_break(world, a, b);
        }
        break;
    case FAULT_CLIENT: {
        uint32_t session = (uint32_t)world_below(world, WORLD_SESSIONS);

        world_say(world, "node %u: client %u dies", a, session);
        world_moment(world, a, MOMENT_CLIENT_DIES);
        client_detach(world, a, session);
        client_attach(world, a, session);
        break;
    }
    case FAULT_EVICT: evict(world, a); break;
    case FAULTS: break;
    }
}

/* What was begun ends by itself; this only ends what would last too long. */
void fault_heal_all(struct world *world)
{
    for (uint32_t a = 0; a < world->node_count; a++) {
        world_at(world, 0, EVENT_RESUME, a, 0, 0);
        world_at(world, 1, EVENT_RESTART, a, 0, 0);
        world_at(world, 0, EVENT_SPEED_UP, a, 0, 0);
        for (uint32_t b = 0; b < a; b++) {
            if (world->cut[a * world->node_count + b] || world->cut[b * world->node_count + a]) {
                world_at(world, 0, EVENT_HEAL, a, b, 0);
            }
            world_at(world, 0, EVENT_QUICKEN, a, b, 0);
        }
    }
}
