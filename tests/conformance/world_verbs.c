/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance tests over RDMA verbs: on the machine's devices that will do, a node on each in
 * turn, or, built with WORLD_FAKE, on the stand-in of tests/fabric/fake_verbs.c. The machine's
 * clock, which a test may put forward.
 */
#include "conformance/world.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "fabric/verbs/verbs.h"

#ifdef WORLD_FAKE
#include "fabric/fake_verbs.h"
#endif

/* As a lane runs it, with posts that the device takes only in pieces, with one completion a poll;
 * with READs that are late; over iWARP, which has neither immediate data nor atomics. */
static const char *const variant_names[] = {
    "as it is",   "pieces", "one completion a poll",
#ifdef WORLD_FAKE
    "late reads", "iwarp",
#endif
};

enum variant {
    AS_IT_IS = 0,
    PIECES,
    ONE_COMPLETION,
    LATE_READS,
    IWARP,
};

/* Divides LIMIT_FABRIC_MESSAGE / VERBS_PIECES at least to what the tests move. */
#define PIECE_BYTES (UINT64_C(5) * 1024 * 1024 - 3)

/* Of this machine, each of an RDMA device. */
static char addresses[WORLD_FABRICS][INET_ADDRSTRLEN];
static uint32_t address_count;

static nigh_status make(uint32_t variant, const char *address, char why[VERBS_WHY_BYTES],
                        struct fabric **fabric)
{
    const struct verbs_options options = {
#ifdef WORLD_FAKE
        .library = fake_verbs_library(),
#endif
        .address = address,
        .piece_bytes = variant == PIECES ? PIECE_BYTES : 0};

    return verbs_create(&options, why, fabric);
}

static void try_address(const char *address, char why[VERBS_WHY_BYTES])
{
    struct fabric *fabric;

    if (address_count == WORLD_FABRICS || make(AS_IT_IS, address, why, &fabric) != NIGH_OK)
        return;
    fabric_destroy(fabric);
    (void)snprintf(addresses[address_count++], INET_ADDRSTRLEN, "%s", address);
}

static void find_addresses(char why[VERBS_WHY_BYTES])
{
#ifdef WORLD_FAKE
    try_address(FAKE_VERBS_ADDRESS, why);
#else
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        char text[INET_ADDRSTRLEN];

        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET ||
            (i->ifa_flags & (IFF_UP | IFF_LOOPBACK)) != IFF_UP)
            continue;
        (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)i->ifa_addr)->sin_addr, text,
                        sizeof(text));
        try_address(text, why);
    }
    freeifaddrs(all);
#endif
}

static const char *missing(void)
{
    static char why[VERBS_WHY_BYTES] = "no interface is up";

    if (address_count == 0)
        find_addresses(why);
    return address_count > 0 ? NULL : why;
}

static void open_world(struct world *world)
{
#ifdef WORLD_FAKE
    fake_verbs_start();
    fake_verbs_late_reads(world->variant == LATE_READS);
    fake_verbs_iwarp(world->variant == IWARP);
#endif
    if (world->variant == ONE_COMPLETION)
        world->poll_count = 1;
}

static void close_world(struct world *world)
{
    (void)world;
#ifdef WORLD_FAKE
    assert_string_equal(fake_verbs_left(), "");
    assert_int_equal(fake_verbs_counts().lost_receives, 0);
    assert_int_equal(fake_verbs_counts().overruns, 0);
#endif
}

static nigh_status make_fabric(struct world *world, uint32_t node, uint32_t lane,
                               struct fabric **fabric)
{
    char why[VERBS_WHY_BYTES];

    (void)lane;
    return make(world->variant, addresses[node % address_count], why, fabric);
}

static void listen_address(uint32_t node, uint32_t lane, char out[FABRIC_ADDRESS_BYTES])
{
    (void)lane;
    (void)snprintf(out, FABRIC_ADDRESS_BYTES, "%s:0", addresses[node % address_count]);
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

#ifdef WORLD_FAKE
static void cut(struct world *world)
{
    (void)world;
    fake_verbs_cut(true);
}
#endif

const struct world_provider world_provider = {
    .variants = ARRAY_LENGTH(variant_names),
    .variant_names = variant_names,
    .threads = true,
    .sleeps = true,
    .ends = false,
    .missing = missing,
    .open = open_world,
    .close = close_world,
    .fabric = make_fabric,
    .listen_address = listen_address,
    .now_us = now_us,
    .go_on = go_on,
    .go_to = go_to,
#ifdef WORLD_FAKE
    .cut = cut,
#endif
};
