/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views in a simulated cluster: a script in place of what would agree on them (that is simulated by
 * itself, views_world.h, and in agreeing.c), as docs/views.md has it. A view takes nodes out and
 * in; nodes hear of it late; it is active when all who run have adopted it or have no lease. No key
 * may have two homes that serve it.
 */
#include "world.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

#define GAP_US   UINT64_C(300000) /* between views, at most */
#define LATE_US  UINT64_C(60000)  /* a node hears of one, at most */
#define LEASE_US UINT64_C(40000)  /* one that was cut off has none after so long */
#define PROBES   24u              /* keys that are looked at */

/* One world in four. */
static bool agrees_by_seed(const struct world *world)
{
    return world->options.seed % 8 == 2 || world->options.seed % 8 == 7;
}

void view_choose(struct world *world)
{
    struct world_views *views = &world->views;

    random_init(&views->random, world->options.seed ^ HASH_K0);
    views->some = world->options.nodes == 0 ? world->options.seed % 8 == 3 : world->options.views;
    if (world->options.agrees || (world->options.nodes == 0 && agrees_by_seed(world))) {
        views->some = world->exchange.views = true;
        agreeing_choose(world);
        return;
    }
    if (!views->some) {
        return;
    }
    world->exchange.views = true;
    agreed_init(&views->agreed, world->node_count);
    if (world->options.nodes != 0) {
        return;
    }
    views->left = 1 + random_below(&views->random, 12);
    world_at(world, random_below(&views->random, GAP_US), EVENT_VIEW, 0, 0, 0);
}

/* ---- a node --------------------------------------------------------------- */

void view_adopt(struct world *world, uint32_t rank, const struct agreed *agreed)
{
    struct world_node *node = &world->nodes[rank];

    node->adopted = *agreed;
    for (uint32_t n = 0; n < node->lanes; n++) {
        node->lane[n].quiet_until_us = 0;
        exchange_view(node->lane[n].exchange, &node->adopted, world->now_us);
        collector_group(&node->lane[n]);
    }
    node->due_us = world->now_us;
}

void view_lease(struct world *world, uint32_t rank, bool lease)
{
    struct world_node *node = &world->nodes[rank];

    node->has_lease = lease;
    for (uint32_t n = 0; n < node->lanes; n++) {
        node->lane[n].quiet_until_us = 0;
        exchange_quorum(node->lane[n].exchange, lease, world->now_us);
    }
    node->due_us = world->now_us;
}

static void tell_later(struct world *world, uint32_t rank)
{
    world_at(world, random_below(&world->views.random, LATE_US), EVENT_VIEW_HEARD, rank, 0, 0);
}

void view_node_starts(struct world *world, uint32_t rank)
{
    world->nodes[rank].adopted = (struct agreed){0};
    world->nodes[rank].has_lease = false;
    if (world->agreeing != NULL) {
        agreeing_node_starts(world, rank);
    } else if (world->views.some) {
        tell_later(world, rank);
    }
}

/* ---- the script ----------------------------------------------------------- */

/* Who runs and may serve has adopted it; who does not run, or has no lease, serves nothing. */
static bool all_have_left(const struct world *world)
{
    const struct agreed *agreed = &world->views.agreed;

    for (uint32_t rank = 0; rank < world->node_count; rank++) {
        const struct world_node *node = &world->nodes[rank];

        if (agreed_has(&agreed->wary, rank) && node->alive && node->has_lease &&
            node->adopted.epoch < agreed->epoch) {
            return false;
        }
    }
    return true;
}

static void tell_all(struct world *world)
{
    for (uint32_t rank = 0; rank < world->node_count; rank++) {
        tell_later(world, rank);
    }
}

static void look_for_the_end(struct world *world)
{
    struct agreed_command command = {.kind = AGREED_ACTIVATE, .epoch = world->views.agreed.epoch};

    if (world->views.agreed.active < world->views.agreed.epoch && all_have_left(world)) {
        world_say(world, "view %llu is active", (unsigned long long)command.epoch);
        NIGH_ASSERT(agreed_apply(&world->views.agreed, world->node_count, &command) == NIGH_OK);
        tell_all(world);
    }
}

/* So many nodes have room in a line. */
static void say_view(struct world *world)
{
    const struct agreed *agreed = &world->views.agreed;
    char nodes[128] = "";
    size_t length = 0;

    for (uint32_t rank = 0; rank < world->node_count && length + 5 < sizeof(nodes); rank++) {
        if (agreed_has(&agreed->in, rank)) {
            length += (size_t)snprintf(nodes + length, sizeof(nodes) - length, " %u", rank);
        }
    }
    world_say(world, "view %llu is agreed on: nodes%s", (unsigned long long)agreed->epoch, nodes);
}

static void propose(struct world *world, struct agreed_set in)
{
    struct world_views *views = &world->views;
    struct agreed_command command = {.kind = AGREED_SET, .epoch = views->agreed.epoch, .in = in};

    NIGH_ASSERT(agreed_apply(&views->agreed, world->node_count, &command) == NIGH_OK);
    world->totals->views++;
    say_view(world);
    tell_all(world);
}

static struct agreed_set some_of(struct world *world)
{
    struct agreed_set in = agreed_all(world->node_count);

    in.words[0] &= random_u64(&world->views.random);
    agreed_put(&in, (uint32_t)random_below(&world->views.random, world->node_count), true);
    return in;
}

void view_without(struct world *world, uint32_t rank, bool is_deaf)
{
    struct agreed_set in = agreed_all(world->node_count);

    if (world->agreeing != NULL) {
        return; /* the others find out */
    }
    agreed_put(&in, rank, false);
    if (is_deaf) {
        world->views.deaf = rank + 1;
        view_lease(world, rank, false);
    }
    propose(world, in);
    look_for_the_end(world);
}

void view_all(struct world *world)
{
    if (world->agreeing != NULL) {
        return;
    }
    world->views.deaf = 0;
    propose(world, agreed_all(world->node_count));
    look_for_the_end(world);
}

/* Nobody who is told may be in the dark for ever; one of those that are out may lose its lease. */
void view_happen(struct world *world)
{
    struct world_views *views = &world->views;
    uint32_t rank = (uint32_t)random_below(&views->random, world->node_count);

    if (views->left == 0) {
        return;
    }
    views->left--;
    if (random_below(&views->random, 4) == 0 && world->nodes[rank].alive) {
        world_say(world, "node %u has no lease", rank);
        view_lease(world, rank, false);
        world_at(world, random_below(&views->random, LEASE_US), EVENT_VIEW_HEARD, rank, 0, 0);
    } else {
        propose(world, some_of(world));
    }
    look_for_the_end(world);
    world_at(world, random_below(&views->random, GAP_US), EVENT_VIEW, 0, 0, 0);
}

void view_heard(struct world *world, uint32_t rank)
{
    struct world_node *node = &world->nodes[rank];

    if (!node->alive) {
        return; /* it hears when it starts */
    }
    if (node->paused || world->views.deaf == rank + 1) {
        tell_later(world, rank);
        return;
    }
    if (agreed_is_older(&node->adopted, &world->views.agreed)) {
        view_adopt(world, rank, &world->views.agreed);
    }
    if (!node->has_lease) {
        view_lease(world, rank, true);
    }
    look_for_the_end(world);
}

void view_end(struct world *world)
{
    if (world->agreeing != NULL) {
        agreeing_end(world);
    } else if (world->views.some) {
        world->views.left = 0;
        propose(world, agreed_all(world->node_count));
        look_for_the_end(world);
    }
}

bool view_is_settled(const struct world *world)
{
    const struct agreed *agreed = &world->views.agreed;

    if (world->agreeing != NULL) {
        return agreeing_is_settled(world);
    }
    for (uint32_t rank = 0; world->views.some && rank < world->node_count; rank++) {
        const struct world_node *node = &world->nodes[rank];

        for (uint32_t n = 0; n < node->lanes; n++) {
            if (!node->alive || !node->has_lease || !node->lane[n].exchange->views.is_settled ||
                node->adopted.active != agreed->epoch) {
                return false;
            }
        }
    }
    return true;
}

/* ---- the invariant -------------------------------------------------------- */

static bool serves(struct world *world, uint32_t rank, const struct directory_key *key)
{
    struct world_node *node = &world->nodes[rank];
    struct exchange *exchange;

    if (!node->alive || node->paused ||
        (world->agreeing != NULL && !agreeing_has_lease(world, rank))) {
        return false;
    }
    exchange = world_lane_of(world, rank, hash_id20(key->id))->exchange;
    return exchange->views.quorum && views_home(exchange, directory_key_hash(key)) == rank &&
           !views_is_early(exchange, key);
}

void view_check(struct world *world)
{
    for (uint32_t n = 0; world->views.some && n < PROBES; n++) {
        struct directory_key key = {.pool = 7};
        uint64_t mixed = hash_u64(n + 1);
        uint32_t homes = 0;

        memcpy(key.id, &mixed, sizeof(mixed));
        for (uint32_t rank = 0; rank < world->node_count; rank++) {
            homes += serves(world, rank, &key) ? 1 : 0;
        }
        WORLD_CHECK(world, homes <= 1, "a key has %u homes that serve it", homes);
    }
}
