/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges over the simulated fabric that measure their links when these come up: each direction
 * for itself, before there is any object, in virtual time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fabric/sim/sim.h"
#include "memory/pin.h"
#include "object/crossover.h"
#include "object/exchange_figures.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "support/lane_store.h"
#include "support/support.h"

#define KIB        UINT64_C(1024)
#define ENTRIES    64u
#define CLUSTER    UINT64_C(0x70726f62)
#define ALL_US     UINT64_C(2000000) /* to measure both directions in */
#define SLOW_US    400u              /* that a message costs who takes it */
#define LATENCY_US 400u              /* one way: a READ takes one more than a message */
#define LATE_US    100000000u        /* that a READ may be late */
#define PROBES     42u               /* of a link: three sizes, two ways, seven times */

enum {
    CHEAP, /* takes messages at no cost: it is never faster to read */
    DEAR,
    SIDES
};

struct side {
    struct members members;
    struct support_store lane;
    struct fabric *fabric;
    struct exchange *exchange;
};

static struct sim *sim;
static struct side sides[SIDES];

static void on_complete(void *context, uint32_t session, const struct session_cqe *cqe)
{
    (void)context;
    (void)session;
    (void)cqe;
}

static uint64_t on_wall(void *context)
{
    (void)context;
    return sim_now_us(sim) * 1000;
}

static void open_store(struct side *side, uint32_t rank)
{
    const struct support_store_options options = {.rank = rank,
                                                  .entries = ENTRIES,
                                                  .wall_ns = on_wall,
                                                  .complete = on_complete,
                                                  .context = side};

    support_store_open(&side->lane, &options);
}

static void open_side(uint32_t rank, enum exchange_path path)
{
    struct side *side = &sides[rank];
    struct exchange_config config = {.members = &side->members,
                                     .lanes = 1,
                                     .incarnation = 1,
                                     .max_keys = 64,
                                     .path = path,
                                     .seed = 1 + rank};
    char why[256], text[8];

    memset(side, 0, sizeof(*side));
    (void)snprintf(text, sizeof(text), "%u", rank);
    assert_int_equal(members_parse("n0:1,n1:1", text, &side->members, why, sizeof(why)), NIGH_OK);
    open_store(side, rank);
    assert_int_equal(sim_fabric(sim, rank, 0, &side->fabric), NIGH_OK);
    (void)snprintf(text, sizeof(text), "%u:0", rank);
    assert_int_equal(fabric_listen(side->fabric, text), NIGH_OK);
    config.fabric = side->fabric;
    config.store = side->lane.store;
    config.extents = side->lane.set;
    assert_int_equal(exchange_create(&config, &side->exchange), NIGH_OK);
    assert_int_equal(exchange_pool_add(side->exchange, 0, CLUSTER), NIGH_OK);
}

static void close_side(struct side *side)
{
    exchange_destroy(side->exchange);
    fabric_destroy(side->fabric);
    support_store_close(&side->lane);
}

static void pass(uint64_t us)
{
    uint64_t end_us = sim_now_us(sim) + us;

    while (sim_now_us(sim) < end_us) {
        uint64_t next_us = min_u64(sim_next_us(sim), end_us);

        for (uint32_t rank = 0; rank < SIDES; rank++) {
            (void)exchange_turn(sides[rank].exchange, sim_now_us(sim));
            assert_true(exchange_is_valid(sides[rank].exchange));
            next_us = min_u64(next_us, exchange_due_us(sides[rank].exchange));
        }
        sim_advance(sim, max_u64(next_us, sim_now_us(sim) + 1));
    }
}

static void cluster_open_late(enum exchange_path of_cheap, enum exchange_path of_dear,
                              uint32_t late_us)
{
    struct sim_options options = {.seed = 7,
                                  .latency_min_us = LATENCY_US,
                                  .latency_max_us = LATENCY_US,
                                  .late_read_ppm = late_us > 0 ? 1000000 : 0,
                                  .late_read_us = late_us};

    assert_int_equal(sim_create(&options, &sim), NIGH_OK);
    sim_message_costs(sim, DEAR, SLOW_US);
    open_side(CHEAP, of_cheap);
    open_side(DEAR, of_dear);
    for (uint32_t rank = 0; rank < SIDES; rank++) {
        struct link_peer peer = {
            .rank = 1 - rank, .incarnation = 1, .dials = rank == DEAR, .lanes = 1};

        (void)snprintf(peer.addresses[0], sizeof(peer.addresses[0]), "%u:0", 1 - rank);
        assert_int_equal(exchange_peer_up(sides[rank].exchange, &peer, sim_now_us(sim)), NIGH_OK);
    }
}

static void cluster_open(enum exchange_path of_cheap, enum exchange_path of_dear)
{
    cluster_open_late(of_cheap, of_dear, 0);
}

static void cluster_close(void)
{
    for (uint32_t rank = 0; rank < SIDES; rank++) {
        close_side(&sides[rank]);
    }
    sim_destroy(sim);
}

static const struct exchange_link *link_of(uint32_t rank)
{
    struct list_node *node = sides[rank].exchange->live.head.next;

    assert_false(list_empty(&sides[rank].exchange->live));
    return container_of(node, struct exchange_link, place);
}

static uint64_t bytes_of(uint32_t rank)
{
    const struct exchange_link *link = link_of(rank);

    /* What is known of one way to begin is known of the other. */
    assert_int_equal(crossover_bytes(&link->crossovers[false]),
                     crossover_bytes(&link->crossovers[true]));
    return crossover_bytes(&link->crossovers[false]);
}

/* No object was ever there: one direction of the link reads, the other does not. */
static void each_direction_is_measured(void **state)
{
    (void)state;
    cluster_open(EXCHANGE_AUTO, EXCHANGE_AUTO);
    pass(ALL_US);
    for (uint32_t rank = 0; rank < SIDES; rank++) {
        assert_int_equal(sides[rank].exchange->counts.probes, PROBES);
        assert_int_equal(sides[rank].exchange->counts.pulls, 0);
        assert_true(exchange_is_idle(sides[rank].exchange));
        assert_int_equal(links_counters(sides[rank].exchange->links)->downs, 0);
    }
    assert_int_equal(bytes_of(CHEAP), 512 * KIB); /* as far as was measured */
    assert_true(bytes_of(DEAR) <= 128 * KIB);
    cluster_close();
}

/* A new link is measured anew. */
static void a_link_that_is_back_is_measured(void **state)
{
    struct link_peer peer = {.rank = DEAR, .incarnation = 1, .lanes = 1, .addresses = {"1:0"}};
    const struct exchange *exchange;

    (void)state;
    cluster_open(EXCHANGE_AUTO, EXCHANGE_AUTO);
    exchange = sides[CHEAP].exchange;
    pass(20000);
    assert_true(exchange->counts.probes > 0 && exchange->counts.probes < PROBES);
    assert_non_null(exchange->prober.link);
    exchange_peer_lost(sides[CHEAP].exchange, DEAR, sim_now_us(sim));
    assert_null(exchange->prober.link);
    assert_int_equal(exchange_peer_up(sides[CHEAP].exchange, &peer, sim_now_us(sim)), NIGH_OK);
    pass(10 * ALL_US);
    assert_int_equal(bytes_of(CHEAP), 512 * KIB); /* as far as was measured */
    assert_true(bytes_of(DEAR) <= 128 * KIB);
    assert_int_equal(exchange->prober.wanting, 0);
    cluster_close();
}

/* What is measured on demand is what a link costs now; the answer of before stays until then, and
 * who asks again and again has it measured once. */
static void a_link_is_measured_when_asked_for(void **state)
{
    struct exchange_link_cost cost;
    struct exchange *exchange;

    (void)state;
    cluster_open(EXCHANGE_AUTO, EXCHANGE_AUTO);
    exchange = sides[CHEAP].exchange;
    assert_int_equal(exchange_links(exchange, &cost, 1), 0);
    pass(ALL_US);
    assert_int_equal(exchange_links(exchange, &cost, 0), 0);
    assert_int_equal(exchange_links(exchange, &cost, 1), 1);
    assert_int_equal(cost.rank, DEAR);
    assert_int_equal(cost.rail, 0);
    assert_int_equal(cost.crossover_bytes, 512 * KIB);
    assert_int_equal(cost.measured, PROBES);
    assert_int_equal(cost.to_measure, PROBES);
    sim_message_costs(sim, CHEAP, SLOW_US);
    pass(ALL_US);
    assert_int_equal(bytes_of(CHEAP), 512 * KIB);
    assert_int_equal(exchange_measure(exchange, CHEAP), NIGH_OK); /* no link to that */
    assert_int_equal(exchange->prober.wanting, 0);
    assert_int_equal(exchange_measure(exchange, DEAR), NIGH_OK);
    assert_int_equal(bytes_of(CHEAP), 512 * KIB);
    assert_int_equal(exchange_links(exchange, &cost, 1), 1);
    assert_int_equal(cost.crossover_bytes, 0);
    for (uint32_t n = 0; n < 10 * PROBES; n++) {
        assert_int_equal(exchange_measure(exchange, UINT64_MAX), NIGH_OK);
        pass(exchange->prober.wanting > 0 ? ALL_US / PROBES / 8 : 0);
        if (exchange->counts.probes == UINT64_C(2) * PROBES) {
            break;
        }
    }
    pass(ALL_US);
    assert_true(exchange->counts.probes >= UINT64_C(2) * PROBES);
    assert_true(bytes_of(CHEAP) <= 128 * KIB);
    assert_int_equal(exchange_links(exchange, &cost, 1), 1);
    assert_int_equal(cost.crossover_bytes, bytes_of(CHEAP));
    cluster_close();
}

/* Who was told which way to go neither measures nor is measured: what is not known stays so. */
static void a_peer_that_does_not_is_let_be(void **state)
{
    (void)state;
    cluster_open(EXCHANGE_AUTO, EXCHANGE_TWO_SIDED);
    pass(ALL_US);
    for (uint32_t rank = 0; rank < SIDES; rank++) {
        assert_int_equal(sides[rank].exchange->counts.probes, 0);
        assert_int_equal(bytes_of(rank), CROSSOVER_FIRST_BYTES);
        assert_int_equal(sides[rank].exchange->prober.wanting, 0);
        assert_int_equal(links_counters(sides[rank].exchange->links)->downs, 0);
    }
    assert_int_equal(exchange_measure(sides[DEAR].exchange, UINT64_MAX), NIGH_UNSUPPORTED);
    cluster_close();
}

/* A READ that is over long after its probe was given up: until then no other probe is begun, which
 * it would have ended. */
static void a_read_that_is_late_ends_no_other_probe(void **state)
{
    struct exchange *exchange;
    uint32_t generation;

    (void)state;
    cluster_open_late(EXCHANGE_AUTO, EXCHANGE_AUTO, LATE_US);
    exchange = sides[CHEAP].exchange;
    for (uint32_t n = 0; n < 10 && (n == 0 || exchange->prober.wanting > 0); n++) {
        pass(2 * EXCHANGE_CALL_US);
    }
    assert_int_equal(exchange->prober.wanting, 0); /* given up, and: */
    assert_true(link_of(CHEAP)->probe_reads);
    generation = exchange->prober.generation;
    assert_int_equal(exchange_measure(exchange, DEAR), NIGH_OK);
    while (link_of(CHEAP)->probe_reads) {
        assert_int_equal(exchange->prober.generation, generation);
        assert_null(exchange->prober.link);
        pass(1000);
    }
    pass(2 * ALL_US);
    assert_true(exchange->prober.generation > generation);
    assert_int_equal(links_counters(exchange->links)->downs, 0);
    cluster_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_direction_is_measured),
        cmocka_unit_test(a_link_that_is_back_is_measured),
        cmocka_unit_test(a_link_is_measured_when_asked_for),
        cmocka_unit_test(a_peer_that_does_not_is_let_be),
        cmocka_unit_test(a_read_that_is_late_ends_no_other_probe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
