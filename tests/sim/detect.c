/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Membership in a simulated cluster: production's src/cluster/swim.c on every node, datagrams that
 * are lost and late, and what follows from its verdicts, wrong ones too. Of some worlds, drawn from
 * a generator of its own; sim-swim has SWIM by itself, and what it promises.
 */
#include "world.h"

#include <stdlib.h>

#include "base/hash.h"
#include "cluster/swim.h"

#define FLIGHTS      256u
#define TRAVEL_US    400u /* of a datagram, at most; some take up to LATE_US */
#define LATE_US      50000u
#define LATE_PERCENT 3u
#define PAUSED_US    1000u /* a paused node's socket keeps them: looked at again */
#define CALM_PERIODS 40u   /* after everything healed, and a suspicion's time: no wrong verdict */

struct flight {
    bool used;
    struct swim_message message;
};

struct detect {
    struct random random;
    uint32_t loss_percent;
    uint64_t period_us, suspicion_us;
    uint64_t calm_us; /* from then on no verdict is wrong; NEVER: it is not calm */
    struct flight flights[FLIGHTS];
    struct swim_actions actions;
    struct {
        struct swim *swim;
        uint64_t due_us;
    } nodes[];
};

static uint64_t below(struct detect *detect, uint64_t bound)
{
    return random_below(&detect->random, bound);
}

void detect_choose(struct world *world)
{
    struct detect *detect;

    if (world->options.seed % 5 != 1 && world->options.seed % 5 != 2) {
        return;
    }
    detect = calloc(1, sizeof(*detect) + world->node_count * sizeof(detect->nodes[0]));
    NIGH_ASSERT(detect != NULL);
    random_init(&detect->random, world->options.seed ^ HASH_K1 ^ HASH_K3);
    detect->calm_us = WORLD_NEVER;
    detect->loss_percent = below(detect, 2) == 0 ? 0 : (uint32_t)below(detect, 40);
    /* Mostly much hastier than a node's are: verdicts come while connections stand. */
    detect->period_us = UINT64_C(500) << below(detect, 6);
    detect->suspicion_us = below(detect, 4) == 0 ? world->dead_after_us + world->silence_us
                                                 : 1000 + below(detect, world->silence_us / 8);
    world->detect = detect;
    world->totals->swim_worlds++;
}

/* ---- datagrams ------------------------------------------------------------ */

static void send(struct world *world, const struct swim_message *message)
{
    struct detect *detect = world->detect;
    uint64_t most_us = below(detect, 100) < LATE_PERCENT ? LATE_US : TRAVEL_US;

    world->totals->swim_datagrams++;
    if (world->calm) {
        /* To SWIM, what comes after its timeouts is lost: a ping and its ack come before. */
        most_us = min_u64(TRAVEL_US, (SWIM_TIMEOUT_US(detect->period_us) - 1) / 2);
    } else if (below(detect, 100) < detect->loss_percent) {
        return;
    }
    for (uint32_t n = 0; n < FLIGHTS; n++) {
        if (!detect->flights[n].used) {
            detect->flights[n] = (struct flight){.used = true, .message = *message};
            world_at(world, 1 + below(detect, most_us), EVENT_DATAGRAM, n, 0, 0);
            return;
        }
    }
}

static bool is_wrong(const struct world *world, const struct swim_update *update)
{
    const struct world_node *node = &world->nodes[update->rank];

    return node->alive && node->incarnation == SWIM_NODE_INCARNATION(update->incarnation);
}

static void on_dead(struct world *world, uint32_t rank, const struct swim_update *update)
{
    struct detect *detect = world->detect;
    bool wrong = is_wrong(world, update);

    world_say(world, "node %u: node %u is declared dead, by %u", rank, update->rank, update->from);
    WORLD_CHECK(world, !wrong || world->now_us < detect->calm_us,
                "node %u: node %u lives, all is calm, and it is declared dead", rank, update->rank);
    world->totals->swim_deaths++;
    world->totals->swim_wrong += wrong ? 1 : 0;
    control_condemn(world, rank, update->rank, SWIM_NODE_INCARNATION(update->incarnation),
                    (uint32_t)below(detect, UINT32_MAX));
}

static void carry_on(struct world *world, uint32_t rank, const struct swim_event *event)
{
    struct detect *detect = world->detect;
    struct swim *swim = detect->nodes[rank].swim;
    struct swim_actions *actions = &detect->actions;

    swim_step(swim, event, world->now_us, actions);
    WORLD_CHECK(world, swim_is_valid(swim), "node %u: what it knows of the members is wrong", rank);
    detect->nodes[rank].due_us = actions->due_us;
    for (uint32_t n = 0; n < actions->sends; n++) {
        send(world, &actions->send[n]);
    }
    world->totals->swim_refuted += actions->refuted ? 1 : 0;
    for (uint32_t n = 0; n < actions->changes; n++) {
        if (actions->changed[n].state == SWIM_DEAD) {
            on_dead(world, rank, &actions->changed[n]);
        }
    }
}

void detect_arrive(struct world *world, uint32_t flight)
{
    struct detect *detect = world->detect;
    const struct swim_message message = detect->flights[flight].message;
    const struct world_node *to = &world->nodes[message.to];

    if (to->alive && to->paused) {
        world_at(world, PAUSED_US, EVENT_DATAGRAM, flight, 0, 0);
        return;
    }
    detect->flights[flight].used = false;
    if (to->alive && !world->cut[message.from * world->node_count + message.to]) {
        carry_on(world, message.to,
                 &(struct swim_event){.kind = SWIM_RECEIVE, .message = &message});
        world->nodes[message.to].due_us = world->now_us;
    }
}

/* ---- lives, time ---------------------------------------------------------- */

void detect_node_starts(struct world *world, uint32_t rank)
{
    struct detect *detect = world->detect;
    struct swim_config config;

    if (detect == NULL) {
        return;
    }
    config = (struct swim_config){
        .self = rank,
        .count = world->node_count,
        .incarnation = world->nodes[rank].incarnation,
        .period_us = detect->period_us,
        .timeout_us = SWIM_TIMEOUT_US(detect->period_us),
        .suspicion_us = detect->suspicion_us,
        .seed = random_u64(&detect->random),
    };
    detect->nodes[rank].swim = swim_create(&config, world->now_us);
    NIGH_ASSERT(detect->nodes[rank].swim != NULL);
    detect->nodes[rank].due_us = world->now_us;
}

void detect_node_ends(struct world *world, uint32_t rank, bool in_order)
{
    struct detect *detect = world->detect;

    if (detect == NULL || detect->nodes[rank].swim == NULL) {
        return;
    }
    if (in_order) {
        carry_on(world, rank, &(struct swim_event){.kind = SWIM_LEAVE});
    }
    swim_destroy(detect->nodes[rank].swim);
    detect->nodes[rank].swim = NULL;
}

void detect_tick(struct world *world, uint32_t rank)
{
    struct detect *detect = world->detect;

    if (detect != NULL && world->now_us >= detect->nodes[rank].due_us) {
        carry_on(world, rank, &(struct swim_event){.kind = SWIM_TICK});
    }
}

uint64_t detect_due_us(const struct world *world, uint32_t rank)
{
    return world->detect == NULL ? WORLD_NEVER : world->detect->nodes[rank].due_us;
}

void detect_calm(struct world *world)
{
    struct detect *detect = world->detect;

    if (detect != NULL) {
        detect->calm_us = world->now_us + CALM_PERIODS * detect->period_us + LATE_US;
        for (uint32_t rank = 0; rank < world->node_count; rank++) {
            if (detect->nodes[rank].swim != NULL) {
                detect->calm_us =
                    max_u64(detect->calm_us, world->now_us + CALM_PERIODS * detect->period_us +
                                                 swim_suspicion_us(detect->nodes[rank].swim, 0));
            }
        }
    }
}

uint64_t detect_calm_us(const struct world *world)
{
    return world->detect == NULL ? 0 : world->detect->calm_us;
}
