/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance tests in simulation: virtual time, several seeds, with and without the delays
 * that the contract allows. Nothing breaks by itself here.
 */
#include "conformance/world.h"

#include <stdio.h>

#include "base/check.h"
#include "fabric/sim/sim.h"

static const char *const variant_names[] = {"seed 1",
                                            "seed 2",
                                            "seed 3, late reads",
                                            "seed 4, late reads",
                                            "seed 5, stalls",
                                            "seed 6, one completion a poll",
                                            "seed 7, torn words"};

static struct sim_options options_of(uint32_t variant)
{
    struct sim_options options = {.seed = variant + 1};

    switch (variant) {
    case 2:
    case 3:
        options.late_read_ppm = 300000;
        options.late_landing_ppm = 500000;
        break;
    case 4:
        options.stall_ppm = 30000;
        options.late_read_ppm = 100000;
        break;
    case 6: options.torn_words = 1; break;
    default: break;
    }
    return options;
}

static void open_world(struct world *world)
{
    struct sim_options options = options_of(world->variant);
    struct sim *sim;

    if (world->variant == 5)
        world->poll_count = 1;
    assert_int_equal(sim_create(&options, &sim), NIGH_OK);
    world->own = sim;
}

static void close_world(struct world *world)
{
    sim_destroy(world->own);
}

static nigh_status make_fabric(struct world *world, uint32_t node, uint32_t lane,
                               struct fabric **fabric)
{
    return sim_fabric(world->own, node, lane, fabric);
}

static void listen_address(uint32_t node, uint32_t lane, char address[FABRIC_ADDRESS_BYTES])
{
    (void)snprintf(address, FABRIC_ADDRESS_BYTES, "%u:%u", node, lane);
}

static uint64_t now_us(struct world *world)
{
    return sim_now_us(world->own);
}

/* The next moment at which something happens by itself, or a fabric wants to be polled. */
static uint64_t next_us(const struct world *world)
{
    uint64_t next = sim_next_us(world->own);

    for (uint32_t i = 0; i < world->fabric_count; i++) {
        if (world->fabrics[i] != NULL && !world->asleep[i])
            next = min_u64(next, fabric_due_us(world->fabrics[i]));
    }
    return next;
}

static bool go_on(struct world *world)
{
    uint64_t next = next_us(world);

    if (next == UINT64_MAX)
        return false;
    sim_advance(world->own, max_u64(next, now_us(world)));
    return true;
}

static void go_to(struct world *world, uint64_t until_us)
{
    sim_advance(world->own, max_u64(min_u64(until_us, next_us(world)), now_us(world) + 1));
}

static void cut(struct world *world)
{
    sim_cut(world->own, 1, 2, true);
}

const struct world_provider world_provider = {
    .variants = ARRAY_LENGTH(variant_names),
    .variant_names = variant_names,
    .threads = false,
    .sleeps = false,
    .ends = true,
    .open = open_world,
    .close = close_world,
    .fabric = make_fabric,
    .listen_address = listen_address,
    .now_us = now_us,
    .go_on = go_on,
    .go_to = go_to,
    .cut = cut,
};
