/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance tests over TCP: the machine's clock, which a test may put forward; on loopback,
 * or on the addresses in $NIGH_TEST_ADDRESSES, which the nodes take in turns.
 */
#include "conformance/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "fabric/tcp/tcp.h"

/* As a lane runs it, and with turns and polls so small that every transfer comes in pieces. */
static const char *const variant_names[] = {"as it is", "small turns", "one completion a poll"};

#define SMALL_TURN_BYTES 4099u

static void open_world(struct world *world)
{
    if (world->variant == 1) {
        world->turn_bytes = SMALL_TURN_BYTES;
    }
    if (world->variant == 2) {
        world->poll_count = 1;
    }
}

static void close_world(struct world *world)
{
    (void)world;
}

static nigh_status make_fabric(struct world *world, uint32_t node, uint32_t lane,
                               struct fabric **fabric)
{
    const struct tcp_options options = {.turn_bytes = (uint32_t)world->turn_bytes};

    (void)node;
    (void)lane;
    return tcp_create(&options, fabric);
}

static void listen_address(uint32_t node, uint32_t lane, char address[FABRIC_ADDRESS_BYTES])
{
    const char *next = getenv("NIGH_TEST_ADDRESSES");
    const char *chosen = "127.0.0.1";
    size_t length = strlen(chosen);

    (void)lane;
    for (uint32_t i = 0; next != NULL && *next != '\0' && i <= node; i++) {
        chosen = next;
        length = strcspn(next, " ");
        next += length + strspn(next + length, " ");
        if (*next == '\0')
            next = getenv("NIGH_TEST_ADDRESSES");
    }
    (void)snprintf(address, FABRIC_ADDRESS_BYTES, "%.*s:0", (int)length, chosen);
}

static uint64_t now_us(struct world *world)
{
    return clock_now_us(&clock_monotonic) + world->skew_us;
}

static bool go_on(struct world *world)
{
    (void)world;
    return true;
}

static void go_to(struct world *world, uint64_t until_us)
{
    uint64_t at_us = now_us(world);

    world->skew_us += until_us > at_us ? until_us - at_us : 0;
}

const struct world_provider world_provider = {
    .variants = ARRAY_LENGTH(variant_names),
    .variant_names = variant_names,
    .threads = true,
    .sleeps = true,
    .ends = false,
    .open = open_world,
    .close = close_world,
    .fabric = make_fabric,
    .listen_address = listen_address,
    .now_us = now_us,
    .go_on = go_on,
    .go_to = go_to,
};
