/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving of a small cluster around one region: two homes, the second of which takes
 * over when the first dies; two holders; and a mapper with a client that writes and reads. All but
 * the network and the memory is the production code.
 *
 * Messages of a link stay in order; a link that breaks loses them. Memory is made, copied, and
 * handles are withdrawn, at any later time; a piece that was posted lands at any later time, if
 * its handle is one then.
 *
 * True, everywhere: nothing lands in memory that a chunk had before an acknowledged move, or in a
 * region after an acknowledged free; nothing lands of who was revoked; of a chunk one memory at
 * most can be written; a read sees every write that had ended; all ends once; who is rebuilt from
 * holders knows all that was acknowledged. When nothing is under way: all has ended, holders have
 * what the home says and nothing else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "region_world.h"
#include "support/support.h"

#define DEPTH 160u

/* ---- what was reached ------------------------------------------------------ */

static uint64_t *seen;
static uint64_t seen_mask, seen_count, transitions, quiet_states;
static char trace[DEPTH][64];
static uint32_t depth, deepest;

void world_claim(bool holds, const char *what)
{
    if (!holds) {
        for (uint32_t n = 0; n < depth; n++) {
            print_message("# %2u %s\n", n, trace[n]);
        }
        fail_msg("%s", what);
    }
}

/* False: it was reached before. */
static bool reach(uint64_t hash)
{
    uint64_t at = hash_u64(hash) & seen_mask;

    while (seen[at] != 0) {
        if (seen[at] == hash) {
            return false;
        }
        at = (at + 1) & seen_mask;
    }
    seen[at] = hash;
    seen_count++;
    return true;
}

/* ---- what is claimed ------------------------------------------------------- */

/* Whether there is a region for sure: nobody has died who had it, and nobody asked to free it. */
static bool is_region_there(void)
{
    for (uint32_t n = 0; n < now.asked; n++) {
        if (now.asks[n].kind == REGION_ASK_FREE) {
            return false;
        }
    }
    return !now.is_dead[FIRST] && !now.is_dead[FIRST + 1];
}

static void check_rebuilt(void)
{
    const struct region_home *home = &now.homes[1];
    bool is_known;

    if (now.home != 1 || now.is_checked || home->state == REGION_HOME_REBUILDING) {
        return;
    }
    now.is_checked = true;
    is_known = is_region_there();
    /* Memory that was only prepared, or what is left of a change that nobody heard of, is no
     * holder's; nor what is on its way back. */
    for (uint32_t n = 0; n < HOLDERS * CHUNKS; n++) {
        const struct pending *pending = &now.pending[n / CHUNKS][n % CHUNKS];
        bool is_cut = pending->is_pending && pending->act.action == REGION_ACT_CUT;

        is_known = is_known || (now.memories[n / CHUNKS][n % CHUNKS].was_open && !is_cut);
    }
    world_claim((!is_known && region_version_is_none(&home->rebuilt_from)) ||
                    region_version_compare(&home->rebuilt_from, &now.acked) >= 0,
                "what was acknowledged is forgotten");
}

static void check_always(void)
{
    check_rebuilt();
    world_claim(now.is_dead[0] || region_home_is_valid(&now.homes[0]),
                "the first home is not valid");
    world_claim(now.home == 0 || region_home_is_valid(&now.homes[1]),
                "the second home is not valid");
    world_claim(region_mapping_is_valid(&now.mapping), "the mapping is not valid");
    for (uint32_t n = 0; n < CHUNKS; n++) {
        uint32_t writable = 0;

        for (uint32_t k = 0; k < HOLDERS; k++) {
            const struct memory *memory = &now.memories[k][n];

            writable += memory->handle != 0 && memory->is_writable;
            world_claim(now.pending[k][n].is_pending || now.holders[k].config.has_lease ||
                            memory->handle == 0 || !memory->is_writable,
                        "it is open without a lease");
        }
        world_claim(writable <= 1, "two copies of a chunk can be written");
    }
    for (uint32_t k = 0; k < HOLDERS; k++) {
        world_claim(now.is_dead[FIRST + k] || region_holder_is_valid(&now.holders[k]),
                    "a holder is not valid");
    }
}

static bool is_quiet(void)
{
    for (uint32_t from = 0; from < NODES; from++) {
        for (uint32_t to = 0; to < NODES; to++) {
            if (now.queues[from][to].count > 0) {
                return false;
            }
        }
        if (from >= FIRST && !now.is_dead[from] && now.home_of[from] != now.home) {
            return false;
        }
    }
    for (uint32_t k = 0; k < HOLDERS; k++) {
        if ((now.is_dead[FIRST + k] && !now.knows_dead[now.home][k]) ||
            !now.holders[k].config.has_lease) {
            return false;
        }
        for (uint32_t n = 0; n < CHUNKS; n++) {
            if (now.pending[k][n].is_pending || now.client.flights[n].is_posted) {
                return false;
            }
        }
    }
    return true;
}

static void check_chunk(const struct region_descriptor *descriptor, uint32_t k, uint32_t chunk)
{
    const struct memory *memory = &now.memories[k][chunk];
    bool is_here = region_descriptor_is_at(descriptor, chunk, FIRST + k);

    world_claim(memory->exists == is_here,
                "there is memory that is nowhere, or none that is somewhere");
    world_claim(!is_here || (memory->handle != 0 && memory->is_writable), "a chunk stays frozen");
    world_claim(!is_here || descriptor->chunks[chunk].handle.address == memory->handle,
                "the home knows another handle");
}

static void check_quiet(void)
{
    const struct region_home *home = &now.homes[now.home];
    const struct region_descriptor *descriptor = home->config.now;

    quiet_states++;
    world_claim(home->state != REGION_HOME_REBUILDING, "the home does not come up");
    world_claim(home->change.round == REGION_ROUND_NONE && home->ask_count == 0,
                "a change is stuck");
    for (uint32_t n = 0; n < now.asked; n++) {
        world_claim(now.ask_states[n] == ASK_ANSWERED, "an ask does not end");
    }
    world_claim(!now.client.is_busy, "an operation does not end");
    for (uint32_t k = 0; k < HOLDERS; k++) {
        const struct region_descriptor *kept = now.holders[k].config.kept;

        for (uint32_t n = 0; n < CHUNKS; n++) {
            check_chunk(descriptor, k, n);
        }
        world_claim(now.is_dead[FIRST + k] ||
                        (region_descriptor_names(descriptor, FIRST + k)
                             ? region_version_equal(&kept->version, &descriptor->version)
                             : region_descriptor_is_none(kept)),
                    "a holder keeps another descriptor");
    }
}

/* ---- exploring ------------------------------------------------------------- */

enum action {
    DELIVER = 0, /* from, to */
    ACT = NODES * NODES,
    FAIL = ACT + HOLDERS * CHUNKS,
    LAND = FAIL + HOLDERS * CHUNKS,
    WRITE = LAND + CHUNKS,
    READ,
    ASK,
    HOME_DIES,
    HOLDER_DIES,
    LEARN_DEATH = HOLDER_DIES + HOLDERS,
    LEARN_HOME = LEARN_DEATH + HOMES * HOLDERS,
    BREAK = LEARN_HOME + NODES - FIRST,
    LEASE = BREAK + NODES - FIRST,
    HOLD_OVER = LEASE + HOLDERS,
    ACTIONS
};

/* Carries it out; false: it cannot happen now. */
static bool act(uint32_t action)
{
    if (action < ACT) {
        return world_deliver(action / NODES, action % NODES);
    }
    if (action < FAIL) {
        return world_finish_act((action - ACT) / CHUNKS, (action - ACT) % CHUNKS, false);
    }
    if (action < LAND) {
        return world_finish_act((action - FAIL) / CHUNKS, (action - FAIL) % CHUNKS, true);
    }
    if (action < WRITE) {
        return world_land(action - LAND);
    }
    switch (action) {
    case WRITE:
    case READ: return world_begin_op(action == WRITE);
    case ASK: return world_ask_next();
    case HOME_DIES: return world_home_dies();
    default: break;
    }
    if (action < LEARN_DEATH) {
        return world_holder_dies(action - HOLDER_DIES);
    }
    if (action < LEARN_HOME) {
        return world_learn_death((action - LEARN_DEATH) / HOLDERS,
                                 (action - LEARN_DEATH) % HOLDERS);
    }
    if (action < BREAK) {
        return world_learn_home(FIRST + action - LEARN_HOME);
    }
    if (action < LEASE) {
        return world_break_link(FIRST + action - BREAK);
    }
    return action == HOLD_OVER ? world_hold_over() : world_change_lease(action - LEASE);
}

static void describe(uint32_t action)
{
    static const char *const kinds[] = {"prepare", "freeze",  "copy", "commit", "thaw",
                                        "settle",  "done",    "held", "map",    "mapped",
                                        "unmap",   "changed", "hold"};
    static const struct {
        uint32_t from;
        const char *name;
    } names[] = {{HOLD_OVER, "hold is over"},
                 {LEASE, "lease"},
                 {BREAK, "break"},
                 {LEARN_HOME, "learns the home"},
                 {LEARN_DEATH, "home learns a death"},
                 {HOLDER_DIES, "holder dies"},
                 {HOME_DIES, "home dies"},
                 {ASK, "ask"},
                 {READ, "read"},
                 {WRITE, "write"},
                 {LAND, "lands"},
                 {FAIL, "fails"},
                 {ACT, "act done"}};

    if (action < ACT) {
        const struct queue *queue = &now.queues[action / NODES][action % NODES];
        uint32_t kind = queue->count > 0 ? (uint32_t)queue->letters[0].message.kind : 0;

        snprintf(trace[depth], sizeof(trace[0]), "%u to %u: %s", action / NODES, action % NODES,
                 kind == WORLD_TOLD ? "told" : kinds[kind]);
        return;
    }
    for (uint32_t n = 0; n < ARRAY_LENGTH(names); n++) {
        if (action >= names[n].from) {
            snprintf(trace[depth], sizeof(trace[0]), "%s %u", names[n].name,
                     action - names[n].from);
            return;
        }
    }
}

static void *saved[DEPTH + 1];

static void explore(uint64_t states)
{
    deepest = depth > deepest ? depth : deepest;
    if (saved[depth] == NULL) {
        saved[depth] = malloc(sizeof(now));
        assert_non_null(saved[depth]);
    }
    memcpy(saved[depth], &now, sizeof(now));
    for (uint32_t action = 0; action < ACTIONS && seen_count < states && depth < DEPTH; action++) {
        describe(action);
        if (!act(action)) {
            continue; /* nothing was changed */
        }
        depth++;
        transitions++;
        world_finish_quick_acts();
        if (!now.overflow) {
            check_always();
            if (is_quiet()) {
                check_quiet();
            }
            if (reach(world_hash())) {
                explore(states);
            }
        }
        depth--;
        memcpy(&now, saved[depth], sizeof(now));
    }
}

/* ---- worlds ---------------------------------------------------------------- */

static const uint32_t both_holders[] = {FIRST, FIRST + 1};

static const struct region_ask create = {.kind = REGION_ASK_CREATE,
                                         .uid = 1,
                                         .geometry = {.chunk_bytes = CHUNK},
                                         .name = "it",
                                         .name_bytes = 2,
                                         .other_rights = REGION_READ | REGION_WRITE,
                                         .nodes = both_holders};

/* What is on its way comes, in some order. */
static void run_until_quiet(void)
{
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (uint32_t action = 0; action < FAIL && !goes_on; action++) {
            goes_on = act(action);
            world_finish_quick_acts();
        }
    }
    check_always();
    world_claim(is_quiet(), "it does not come to an end");
}

/* Returns whether all of it was explored within so many states. */
static bool explore_world(const char *name, const struct budget *left, uint32_t chunks,
                          const struct region_ask *asks, uint32_t count, uint64_t states)
{
    struct region_ask made = create;
    uint64_t from_us = support_now_us();
    bool whole;

    world_init(left);
    world_chunks = chunks;
    made.geometry.size_bytes = chunks * CHUNK;
    made.node_count = chunks;
    depth = deepest = 0;
    now.asks[0] = made;
    now.ask_states[0] = ASK_ASKED;
    region_home_ask(&now.homes[0], &now.asks[0]);
    run_until_quiet();
    world_claim(now.ask_states[0] == ASK_ANSWERED, "it was not created");
    now.ask_states[0] = ASK_NOT_YET;
    memset(&now.asks[0], 0, sizeof(now.asks[0]));
    region_mapping_home(&now.mapping, 0);
    run_until_quiet();
    world_asks = asks;
    world_ask_count = count;
    seen_mask = round_up_pow2_u64(states * 2) - 1;
    seen = calloc(seen_mask + 1, sizeof(*seen));
    assert_non_null(seen);
    seen_count = transitions = quiet_states = world_landed = world_refused = 0;
    explore(states);
    whole = seen_count < states;
    print_message("# %s: %llu states, %llu steps, %llu quiet, %llu landed, %llu refused, depth %u, "
                  "%s, %llu ms\n",
                  name, (unsigned long long)seen_count, (unsigned long long)transitions,
                  (unsigned long long)quiet_states, (unsigned long long)world_landed,
                  (unsigned long long)world_refused, deepest, whole ? "all" : "budget spent",
                  (unsigned long long)((support_now_us() - from_us) / 1000));
    free(seen);
    assert_true(quiet_states > 0);
    return whole;
}

static const struct region_ask move_first = {
    .kind = REGION_ASK_MOVE, .uid = 1, .chunk = 0, .node = FIRST + 1};
static const struct region_ask move_back = {
    .kind = REGION_ASK_MOVE, .uid = 1, .chunk = 0, .node = FIRST};
static const struct region_ask revoke = {
    .kind = REGION_ASK_GRANT, .uid = 1, .whose = REGION_OF_OTHERS, .take = REGION_ALL};
static const struct region_ask grant = {.kind = REGION_ASK_GRANT,
                                        .uid = 1,
                                        .whose = REGION_OF_OTHERS,
                                        .give = REGION_READ | REGION_WRITE};
static const struct region_ask set_free = {.kind = REGION_ASK_FREE, .uid = 1};

static void a_move_under_a_writer(void **state)
{
    const struct region_ask asks[] = {move_first, move_back};
    struct budget left = {.writes = 2, .reads = 1};

    (void)state;
    assert_true(explore_world("moves, writes and reads", &left, 1, asks, 2, 1000000));
}

static void a_move_that_fails(void **state)
{
    struct budget left = {.writes = 1, .reads = 1, .fails = 1, .breaks = 1};

    (void)state;
    assert_true(explore_world("a move that fails", &left, 1, &move_first, 1, 1000000));
}

static void a_move_and_a_death_of_its_home(void **state)
{
    struct budget left = {.writes = 1, .reads = 1, .home_deaths = 1};

    (void)state;
    assert_true(explore_world("a move, and the home dies", &left, 1, &move_first, 1, 1000000));
}

static void a_move_and_deaths(void **state)
{
    struct budget left = {.writes = 1, .reads = 1, .home_deaths = 1, .deaths = 1};

    (void)state;
    assert_true(
        explore_world("a move, the home dies, and a holder", &left, 1, &move_first, 1, 1000000));
}

static void a_revoke_under_a_writer(void **state)
{
    const struct region_ask asks[] = {revoke, grant};
    struct budget left = {.writes = 2, .breaks = 1};

    (void)state;
    assert_true(explore_world("a revoke and a grant", &left, 2, asks, 2, 1000000));
}

static void a_revoke_and_deaths(void **state)
{
    struct budget left = {.writes = 1, .home_deaths = 1, .deaths = 1};

    (void)state;
    assert_true(explore_world("a revoke and deaths", &left, 2, &revoke, 1, 1000000));
}

static void a_free_under_a_writer(void **state)
{
    struct budget left = {.writes = 2, .breaks = 1};

    (void)state;
    assert_true(explore_world("a free", &left, 2, &set_free, 1, 1000000));
}

static void a_free_and_a_death_of_its_home(void **state)
{
    struct budget left = {.writes = 1, .home_deaths = 1};

    (void)state;
    assert_true(explore_world("a free, and the home dies", &left, 2, &set_free, 1, 1000000));
}

/* What the revoke waits for may never be. */
static void a_free_beside_a_revoke(void **state)
{
    const struct region_ask asks[] = {revoke, set_free};
    struct budget left = {.writes = 1, .home_deaths = 1, .opens_slowly = true};

    (void)state;
    assert_true(explore_world("a revoke, and a free beside it", &left, 1, asks, 2, 1000000));
}

static void a_free_beside_a_move(void **state)
{
    const struct region_ask asks[] = {move_first, set_free};
    struct budget left = {.breaks = 1, .home_deaths = 1, .opens_slowly = true};

    (void)state;
    assert_true(explore_world("a move, and a free beside it", &left, 1, asks, 2, 1000000));
}

static void sizes(void **state)
{
    static const uint32_t where[] = {FIRST};
    const struct region_ask asks[] = {
        {.kind = REGION_ASK_RESIZE, .uid = 1, .geometry = {.size_bytes = CHUNK}},
        {.kind = REGION_ASK_RESIZE,
         .uid = 1,
         .geometry = {.size_bytes = 2 * CHUNK},
         .nodes = where,
         .node_count = 1}};
    struct budget left = {.writes = 1, .fails = 1, .home_deaths = 1};

    (void)state;
    assert_true(explore_world("a shrink and a grow", &left, 2, asks, 2, 1000000));
}

static void leases_that_are_lost(void **state)
{
    struct budget left = {.writes = 1, .reads = 1, .leases = 1, .breaks = 1};

    (void)state;
    assert_true(explore_world("a move, and a lease is lost", &left, 1, &move_first, 1, 1000000));
}

static void a_name_that_is_used_again(void **state)
{
    struct region_ask asks[] = {set_free, create};
    struct budget left = {.writes = 2, .home_deaths = 1};

    (void)state;
    asks[1].geometry.size_bytes = CHUNK;
    asks[1].node_count = 1;
    assert_true(explore_world("a free and a create", &left, 1, asks, 2, 1000000));
}

/* Not all of it: as far as so many states go. */
static void all_of_it(void **state)
{
    const struct region_ask asks[] = {move_first, revoke, set_free};
    struct budget left = {.writes = 2,
                          .reads = 1,
                          .fails = 1,
                          .breaks = 1,
                          .home_deaths = 1,
                          .deaths = 1,
                          .leases = 1};

    (void)state;
    explore_world("all of it", &left, 2, asks, 3, 300000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_move_under_a_writer),
        cmocka_unit_test(a_move_that_fails),
        cmocka_unit_test(a_move_and_a_death_of_its_home),
        cmocka_unit_test(a_move_and_deaths),
        cmocka_unit_test(a_revoke_under_a_writer),
        cmocka_unit_test(a_revoke_and_deaths),
        cmocka_unit_test(a_free_under_a_writer),
        cmocka_unit_test(a_free_and_a_death_of_its_home),
        cmocka_unit_test(a_free_beside_a_revoke),
        cmocka_unit_test(a_free_beside_a_move),
        cmocka_unit_test(sizes),
        cmocka_unit_test(leases_that_are_lost),
        cmocka_unit_test(a_name_that_is_used_again),
        cmocka_unit_test(all_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
