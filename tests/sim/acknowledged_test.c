/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views, replicas and puts that do not end, by seed: one node after the other crashes, stands still
 * or is cut off, is taken out, comes back and is taken in, or is back before a view comes of it;
 * the next begins when all is whole again. In every second world the members agree on that by
 * libraft: nobody tells them. What was said to be on two nodes is read at every node,
 * after each of them. NIGH_SIM_SEEDS changes how many worlds there are, NIGH_SIM_FIRST which is the
 * first; of one alone all is said that it does.
 */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "world.h"

#define NODES          5u
#define KEYS           2048u
#define FAULTS_A_WORLD 5u
#define WORLDS         12u
#define FIRST_WORLD    55u /* so that each mistake in tests/mutants shows in some of them */
#define COPIES         2u
#define DEAD           UINT64_C(1500000)
#define SECOND         UINT64_C(1000000)
#define BETWEEN        UINT64_C(50000) /* puts, at most */

enum state {
    NOT_PUT = 0,
    PUTTING,
    WAITING,
    ACKNOWLEDGED,
    NOT_SAID /* it may be there */
};

struct key {
    enum state state;
    uint32_t node, serial;
};

static struct world_totals totals;
static struct key keys[KEYS];
static uint32_t key_count;

/* ---- puts ----------------------------------------------------------------- */

static void on_copies(void *context, uint64_t token, nigh_status status, uint32_t copies)
{
    struct key *key = context;

    (void)token;
    if (key->state == WAITING) {
        key->state = status == NIGH_OK && copies >= COPIES ? ACKNOWLEDGED : NOT_SAID;
    }
}

static void replicate(struct world *world, uint32_t number)
{
    struct key *key = &keys[number];
    struct exchange_copies asked = {
        .wanted = COPIES, .deadline_us = world->now_us + SECOND, .done = on_copies, .context = key};
    uint8_t id[LIMIT_ID_BYTES];
    struct world_lane *lane;
    nigh_status status;

    bytes_id(world, number, id);
    lane = world_lane_of(world, key->node, hash_id20(id));
    key->state = WAITING;
    status = exchange_replicate(lane->exchange, world->nodes[key->node].pool_number[0], id, &asked,
                                world->now_us);
    if (status != NIGH_PENDING && key->state == WAITING) {
        key->state = status == NIGH_OK ? ACKNOWLEDGED : NOT_SAID;
    }
    lane->quiet_until_us = 0;
    world->nodes[key->node].due_us = world->now_us;
}

static void put_one(struct world *world)
{
    uint32_t node = (uint32_t)world_below(world, NODES);

    if (key_count == KEYS || !world->nodes[node].alive || world->nodes[node].paused) {
        return;
    }
    client_put(world, node, 0, key_count, 200, 0);
    keys[key_count] = (struct key){.state = PUTTING, .node = node, .serial = world->put_count};
    key_count++;
}

static void look_at_puts(struct world *world)
{
    for (uint32_t n = 0; n < key_count; n++) {
        const struct world_node *node = &world->nodes[keys[n].node];

        if (keys[n].state == PUTTING && node->alive && !node->paused &&
            world->puts[keys[n].serial].sealed) {
            replicate(world, n);
        }
    }
}

/* Who was at it is gone. */
static void give_up_puts(uint32_t node)
{
    for (uint32_t n = 0; n < key_count; n++) {
        if (keys[n].node == node && (keys[n].state == PUTTING || keys[n].state == WAITING)) {
            keys[n].state = NOT_SAID;
        }
    }
}

static void load(struct world *world, uint64_t us)
{
    uint64_t end_us = world->now_us + us;

    while (world->now_us < end_us) {
        put_one(world);
        world_run(world, min_u64(1 + world_below(world, BETWEEN), end_us - world->now_us));
        look_at_puts(world);
    }
}

/* ---- what must hold ------------------------------------------------------- */

static uint64_t missing(struct world *world)
{
    uint64_t sum = 0;

    for (uint32_t n = 0; n < NODES; n++) {
        for (uint32_t lane = 0; world->nodes[n].alive && lane < world->nodes[n].lanes; lane++) {
            struct exchange_stats stats;

            exchange_stats(world->nodes[n].lane[lane].exchange, &stats);
            sum += stats.replicas.missing;
        }
    }
    return sum;
}

static void become_whole(struct world *world)
{
    uint64_t end_us = world->now_us + 60 * SECOND;

    while (!view_is_settled(world) || missing(world) > 0) {
        WORLD_CHECK(world, world->now_us < end_us, "it is never whole again: %llu are missing",
                    (unsigned long long)missing(world));
        load(world, BETWEEN);
    }
    load(world, world_below(world, SECOND));
}

static void check_acknowledged(struct world *world)
{
    for (uint32_t n = 0; n < key_count; n++) {
        struct store_sight sight;
        uint32_t held = 0;

        for (uint32_t rank = 0; rank < NODES; rank++) {
            held += world->nodes[rank].alive && client_see(world, rank, n, &sight) ? 1 : 0;
        }
        WORLD_CHECK(world, keys[n].state != ACKNOWLEDGED || held > 0,
                    "key %u of node %u was acknowledged, and is nowhere", n, keys[n].node);
    }
}

static void read_all(struct world *world)
{
    uint64_t ok = totals.gets_ok, gets = totals.gets;

    for (uint32_t rank = 0; rank < NODES; rank++) {
        for (uint32_t n = 0; n < key_count; n++) {
            uint64_t end_us = world->now_us + 30 * SECOND, before = totals.gets_ok;

            if (keys[n].state != ACKNOWLEDGED) {
                continue;
            }
            (void)client_get(world, rank, 0, n, 20 * SECOND, SESSION_FLAG_NO_COPY);
            while (client_pending(world) > 0) {
                WORLD_CHECK(world, world->now_us < end_us, "a get never ends");
                world_step(world, end_us);
            }
            client_release_all(world);
            WORLD_CHECK(world, totals.gets_ok > before, "node %u does not find key %u of node %u",
                        rank, n, keys[n].node);
        }
    }
    assert_int_equal(totals.gets_ok - ok, totals.gets - gets);
}

/* ---- faults --------------------------------------------------------------- */

static void cut_off(struct world *world, uint32_t rank, bool is_cut)
{
    for (uint32_t other = 0; other < NODES; other++) {
        if (other != rank) {
            world->cut[rank * NODES + other] = world->cut[other * NODES + rank] = is_cut;
            sim_cut(world->sim, rank, other, is_cut);
        }
    }
}

/* What happens to one, and its end. */
static void begin_fault(struct world *world, uint32_t fault, uint32_t rank)
{
    world_say(world, "fault %u of node %u", fault, rank);
    switch (fault) {
    case 0:
        give_up_puts(rank);
        node_crash(world, rank, false);
        break;
    case 1:
        world->nodes[rank].paused = true;
        sim_pause(world->sim, rank, true);
        break;
    default: cut_off(world, rank, true); break;
    }
}

static void end_fault(struct world *world, uint32_t fault, uint32_t rank)
{
    world_say(world, "fault %u of node %u ends", fault, rank);
    switch (fault) {
    case 0: node_start(world, rank); break;
    case 1: world_at(world, 0, EVENT_RESUME, rank, 0, 0); break;
    default: cut_off(world, rank, false); break;
    }
}

/* Cut off for a while, or for so long that it has no lease, and takes the others for dead; no view
 * comes of it. */
static void flap(struct world *world)
{
    uint32_t rank = (uint32_t)world_below(world, NODES);
    uint64_t us = world_below(world, 3 * DEAD);

    world_say(world, "node %u is cut off for %llu us", rank, (unsigned long long)us);
    cut_off(world, rank, true);
    load(world, us);
    if (us > DEAD / 2 && world->agreeing == NULL) {
        view_lease(world, rank, false);
    }
    cut_off(world, rank, false);
    load(world, world_below(world, DEAD));
    if (world->agreeing == NULL) {
        view_lease(world, rank, true);
    }
    become_whole(world);
    check_acknowledged(world);
}

static void one_fault(struct world *world)
{
    uint32_t fault = world_dice(world, 70) ? 0 : 1 + (uint32_t)world_below(world, 2),
             rank = (uint32_t)world_below(world, NODES);

    begin_fault(world, fault, rank);
    load(world, world_below(world, 2 * DEAD));
    view_without(world, rank, fault != 0);
    load(world, world_below(world, 4 * DEAD));
    end_fault(world, fault, rank);
    load(world, world_below(world, DEAD));
    view_all(world);
    become_whole(world);
    check_acknowledged(world);
}

static struct world *begin(uint64_t seed, bool trace)
{
    struct world_options options = {
        .seed = seed,
        .trace = trace,
        .nodes = NODES,
        .lanes = 1,
        .extents = 8,
        .entries = 2 * KEYS,
        .max_keys = 2 * KEYS,
        .max_puts = KEYS,
        .quantum_us = 50,
        .dead_after_us = DEAD,
        .views = true,
        .agrees = seed % 2 == 0,
    };
    struct world *world = world_create(&options, &totals);

    key_count = 0;
    become_whole(world);
    return world;
}

static void run_seed(uint64_t seed, bool trace)
{
    struct world *world = begin(seed, trace);
    uint32_t acknowledged = 0;

    for (uint32_t n = 0; n < FAULTS_A_WORLD; n++) {
        if (world_dice(world, 30)) {
            flap(world);
        } else {
            one_fault(world);
        }
    }
    world_run(world, 2 * SECOND);
    read_all(world);
    for (uint32_t n = 0; n < key_count; n++) {
        acknowledged += keys[n].state == ACKNOWLEDGED;
    }
    assert_true(acknowledged > key_count / 2);
    world_destroy(world);
}

/* Gets of what nobody has wait at its home; that lives on, and is the home no more. */
static void who_waits_asks_the_new_home(void **state)
{
    struct world *world = begin(7, false);
    uint32_t first = key_count, waiting = 16;
    uint64_t ok = totals.gets_ok, end_us;

    (void)state;
    for (uint32_t n = 0; n < waiting; n++) {
        (void)client_get(world, n % NODES, 0, first + n, 20 * SECOND, SESSION_FLAG_NO_COPY);
    }
    world_run(world, SECOND / 10);
    view_without(world, 2, false);
    end_us = world->now_us + 5 * SECOND;
    while (!view_is_settled(world)) {
        WORLD_CHECK(world, world->now_us < end_us, "the view is never active");
        world_run(world, BETWEEN);
    }
    for (uint32_t n = 0; n < waiting; n++) {
        client_put(world, (n + 1) % NODES, 0, first + n, 200, 0);
    }
    world_run(world, SECOND / 10); /* sooner than anybody asks again by itself */
    client_release_all(world);
    assert_int_equal(totals.gets_ok - ok, waiting);
    world_destroy(world);
    node_forget_memory();
}

static void what_was_acknowledged_outlives_one_at_a_time(void **state)
{
    const char *text = getenv("NIGH_SIM_SEEDS"), *first = getenv("NIGH_SIM_FIRST");
    uint64_t from = first != NULL ? strtoull(first, NULL, 0) : FIRST_WORLD;
    uint64_t count = text != NULL && *text != '\0' ? strtoull(text, NULL, 0) : 20 * WORLDS;

    (void)state;
    count = count > 1 ? (count + 19) / 20 : 1; /* one is as long as many of others */
    for (uint64_t seed = from; seed < from + count; seed++) {
        run_seed(seed, count == 1);
    }
    node_forget_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_asks_the_new_home),
        cmocka_unit_test(what_was_acknowledged_outlives_one_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
