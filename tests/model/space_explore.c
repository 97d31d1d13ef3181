/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving around one home (space_world.h), over the production steps of both sides,
 * breadth first, so that what leads to a fault is as short as can be.
 *
 * In every state: who may write is alone, whoever reads has what was written last, nobody's frame
 * is touched by what belongs to another, who holds a block is not beside who holds it alone, no
 * channel is fuller than its bound, and nobody says what the table calls impossible. From every
 * state, if clients want nothing new, all ends: nobody waits, nothing is under way. And every cell
 * of the tables that is not a hole was stepped into.
 *
 * $NIGH_BUDGET_SECONDS: for so long those go on, about, that are not looked at whole; with five
 * minutes or more those are looked at whole that take minutes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/hash.h"
#include "space_world.h"
#include "support/support.h"

#define STATES_FIRST    (1u << 16) /* tables have room for so many, and grow */
#define STATES_DEFAULT  400000u    /* where one that is not looked at whole stops */
#define STATES_A_SECOND 20000u     /* of a budget, of each of these */
#define STATES_MOST     (1u << 26) /* more than any exploration with an end has */
#define LONG_MS         300000u    /* of a budget: then those that take minutes are whole */

/* A state that was reached: how. */
struct reached {
    uint32_t parent;
    struct event event;
};

/* Where a state's hash lies is its number, plus one; there are at least twice as many places. */
static uint32_t *places;
static uint64_t places_mask;

/* By state. */
static uint64_t *hashes;
static struct reached *reached;
static uint64_t *ways_from; /* where its own begin */
static uint8_t *is_good;    /* all can end from here */
static uint32_t count, room;

static uint32_t most;  /* states: there it stops */
static uint32_t *ways; /* where each state leads by itself, one after the other */
static uint64_t ways_used, ways_room;

/* Those that are yet to be looked at. */
static struct {
    uint8_t *bytes;
    uint64_t size, from, to;
} frontier;

static uint32_t current;
static struct event doing;
static bool is_doing, is_replaying;

/* ---- what led to it ------------------------------------------------------- */

static void print_trace(void)
{
    uint32_t path[512], length = 0;

    for (uint32_t at = current; at != 0 && length < 512; at = reached[at].parent) {
        path[length++] = at;
    }
    is_replaying = true;
    world_begin();
    while (length > 0) {
        world_print(&reached[path[--length]].event);
    }
    if (is_doing) {
        print_message("# and then\n");
        world_print(&doing);
    }
}

void world_claim(bool holds, const char *what)
{
    if (holds || is_replaying) {
        return;
    }
    print_trace();
    fail_msg("%s", what);
}

static void on_failed_check(const char *file, int line, const char *expression)
{
    if (!is_replaying) {
        print_trace();
    }
    fail_msg("%s:%d: %s", file, line, expression);
}

/* ---- what was reached ----------------------------------------------------- */

static void *grown(void *bytes, uint64_t length, size_t each)
{
    bytes = realloc(bytes, length * each);
    assert_non_null(bytes);
    return bytes;
}

/* Where its number is, or would be. */
static uint32_t *place_of(uint64_t hash)
{
    uint64_t at = hash_u64(hash) & places_mask;

    while (places[at] != 0 && hashes[places[at] - 1] != hash) {
        at = (at + 1) & places_mask;
    }
    return &places[at];
}

static void grow(uint32_t to)
{
    room = to;
    hashes = grown(hashes, room, sizeof(*hashes));
    reached = grown(reached, room, sizeof(*reached));
    ways_from = grown(ways_from, room, sizeof(*ways_from));
    is_good = grown(is_good, room, sizeof(*is_good));
    free(places);
    places_mask = round_up_pow2_u64(room * UINT64_C(2)) - 1;
    places = calloc(places_mask + 1, sizeof(*places));
    assert_non_null(places);
    for (uint32_t n = 0; n < count; n++) {
        *place_of(hashes[n]) = n + 1;
    }
}

/* The number of a state; *is_new: it was not reached before. */
static uint32_t reach(uint64_t hash, bool *is_new)
{
    uint32_t *place = place_of(hash);

    *is_new = *place == 0;
    if (!*is_new) {
        return *place - 1;
    }
    if (count == room) {
        grow(room * 2);
        place = place_of(hash);
    }
    hashes[count] = hash;
    *place = ++count;
    return count - 1;
}

static void put_off(void)
{
    uint8_t bytes[STATE_BYTES];
    uint32_t length = world_save(bytes);

    if (frontier.to + length + 2 > frontier.size) {
        uint64_t left = frontier.to - frontier.from;

        if (frontier.from > frontier.size / 2) {
            memmove(frontier.bytes, frontier.bytes + frontier.from, left);
        } else {
            uint8_t *larger = malloc(frontier.size * 2);

            assert_non_null(larger);
            memcpy(larger, frontier.bytes + frontier.from, left);
            free(frontier.bytes);
            frontier.bytes = larger;
            frontier.size *= 2;
        }
        frontier.from = 0;
        frontier.to = left;
    }
    frontier.bytes[frontier.to] = (uint8_t)length;
    frontier.bytes[frontier.to + 1] = (uint8_t)(length >> 8);
    memcpy(frontier.bytes + frontier.to + 2, bytes, length);
    frontier.to += length + 2;
}

static void add_way(uint32_t to)
{
    if (ways_used == ways_room) {
        ways_room = ways_room * 2;
        ways = grown(ways, ways_room, sizeof(*ways));
    }
    ways[ways_used++] = to;
}

/* Looks at all that can happen in the current state, which lies in `bytes`. */
static void expand(const uint8_t *bytes)
{
    static struct world whole;
    struct event events[EVENTS_MAX];
    uint32_t progress, listed;

    world_load(bytes);
    whole = now;
    is_good[current] = world_is_quiet();
    listed = world_list(events, &progress);
    world_claim(progress < listed || is_good[current], "nothing more comes, and not all has ended");
    ways_from[current] = ways_used;
    for (uint32_t n = 0; n < listed && count < most; n++) {
        uint32_t number;
        bool is_new;

        doing = events[n];
        is_doing = true;
        world_do(&events[n]);
        world_check();
        is_doing = false;
        if (n < progress && memcmp(&now, &whole, sizeof(now)) == 0) {
            continue; /* what was there already, a client had at once */
        }
        number = reach(world_hash(), &is_new);
        if (is_new) {
            reached[number] = (struct reached){current, events[n]};
            put_off();
        }
        if (n >= progress) {
            add_way(number);
        }
        now = whole;
    }
}

static uint64_t end_of(uint32_t state)
{
    return state + 1 < count ? ways_from[state + 1] : ways_used;
}

/* From which states all can end, by what comes by itself: backwards from those where it has. */
static void find_ends(void)
{
    uint64_t *backs_from = calloc(count + 1u, sizeof(*backs_from));
    uint32_t *backs = malloc((ways_used + 1) * sizeof(*backs));
    uint32_t *queue = malloc(count * sizeof(*queue)), queued = 0;

    assert_true(backs_from && backs && queue);
    for (uint64_t k = 0; k < ways_used; k++) {
        backs_from[ways[k] + 1]++;
    }
    for (uint32_t n = 0; n < count; n++) {
        backs_from[n + 1] += backs_from[n];
    }
    for (uint32_t n = 0; n < count; n++) {
        for (uint64_t k = ways_from[n]; k < end_of(n); k++) {
            backs[backs_from[ways[k]]++] = n;
        }
        if (is_good[n]) {
            queue[queued++] = n;
        }
    }
    /* Each now ends where the next began. */
    for (uint32_t at = 0; at < queued; at++) {
        uint32_t n = queue[at];

        for (uint64_t k = n == 0 ? 0 : backs_from[n - 1]; k < backs_from[n]; k++) {
            if (!is_good[backs[k]]) {
                is_good[backs[k]] = 1;
                queue[queued++] = backs[k];
            }
        }
    }
    free(backs_from);
    free(backs);
    free(queue);
}

static void claim_ends(void)
{
    find_ends();
    for (uint32_t n = 0; n < count; n++) {
        if (!is_good[n]) {
            current = n;
            world_claim(false, "what has begun here never ends");
        }
    }
}

/* Of this process: what others have on the machine is no matter. */
static uint64_t cpu_ms(void)
{
    struct timespec now_is;

    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now_is), 0);
    return (uint64_t)now_is.tv_sec * 1000 + (uint64_t)now_is.tv_nsec / 1000000;
}

/* ---- explorations --------------------------------------------------------- */

static void set_up(uint32_t states)
{
    most = states;
    count = 0;
    grow(STATES_FIRST);
    ways_room = STATES_FIRST;
    ways_used = 0;
    ways = grown(NULL, ways_room, sizeof(*ways));
    frontier.size = 1u << 22;
    frontier.from = frontier.to = 0;
    frontier.bytes = grown(NULL, frontier.size, 1);
    is_doing = is_replaying = false;
}

static void tear_down(void)
{
    free(places);
    free(hashes);
    free(reached);
    free(ways_from);
    free(is_good);
    free(ways);
    free(frontier.bytes);
    places = NULL;
    hashes = NULL;
    reached = NULL;
    ways_from = NULL;
    is_good = NULL;
}

/* How many states an exploration without an end looks at. */
static uint32_t budget(void)
{
    uint64_t states = support_budget_ms(0) / 1000 * STATES_A_SECOND;

    return (uint32_t)min_u64(max_u64(states, STATES_DEFAULT), STATES_MOST);
}

/* `least`: states there are at least; 0: more than there is time for. */
static void explore(const char *name, const struct rules *with, uint32_t least)
{
    uint64_t from_ms = cpu_ms();
    uint32_t expanded = 0;
    bool is_whole, is_new;

    set_up(least != 0 ? STATES_MOST : budget());
    rules = *with;
    rules.clients = with->clients == 0 ? 1 : with->clients;
    world_begin();
    reach(world_hash(), &is_new);
    put_off();
    while (frontier.from < frontier.to && count < most) {
        uint32_t length = frontier.bytes[frontier.from] + 256u * frontier.bytes[frontier.from + 1];
        uint8_t bytes[STATE_BYTES];

        memcpy(bytes, frontier.bytes + frontier.from + 2, length);
        frontier.from += length + 2;
        current = expanded++;
        expand(bytes);
    }
    is_whole = frontier.from == frontier.to;
    if (is_whole) {
        claim_ends();
    }
    print_message("# %s: %u states, %llu ways on, %s, %llu ms of a processor\n", name, count,
                  (unsigned long long)ways_used, is_whole ? "all" : "budget spent",
                  (unsigned long long)(cpu_ms() - from_ms));
    tear_down();
    if (least != 0) {
        assert_true(is_whole);
        assert_in_range(count, least, STATES_MOST);
    }
}

/* One that takes minutes: all of it where there is time for that, as in a soak. */
static void explore_long(const char *name, const struct rules *with, uint32_t least)
{
    explore(name, with, support_budget_ms(0) >= LONG_MS ? least : 0);
}

#define ALL_ACCESS (WITH_READS | WITH_WRITES | WITH_EVICTIONS | WITH_HOME)
#define ALL_ASKS   (ALL_ACCESS | WITH_ATOMICS | WITH_LOCKS | WITH_HOME_LOCKS | WITH_FREES)

static void two_nodes_and_two_blocks_in_one_frame(void **state)
{
    const struct rules with = {
        .caches = 2, .blocks = 2, .frames = 1, .with = ALL_ACCESS | WITH_ATOMICS};

    (void)state;
    explore("2 nodes, 2 blocks, 1 frame each", &with, 1200000);
}

static void two_nodes_that_hold_two_blocks_in_one_frame(void **state)
{
    struct rules with = {.caches = 2, .blocks = 2, .frames = 1, .with = ALL_ACCESS | WITH_LOCKS};

    (void)state;
    explore("2 nodes that hold, 2 blocks, 1 frame each", &with, 800000);
    with.with |= WITH_HOME_LOCKS;
    explore_long("2 nodes and the home that hold, 2 blocks, 1 frame each", &with, 20000000);
}

/* Not all of it: as far as so many states go. */
static void two_nodes_and_two_blocks(void **state)
{
    const struct rules with = {.caches = 2, .blocks = 2, .frames = 2, .with = ALL_ASKS};

    (void)state;
    explore("2 nodes, 2 blocks", &with, 0);
}

static void nodes_that_only_read(void **state)
{
    const struct rules with = {
        .caches = 3, .blocks = 1, .frames = 1, .with = WITH_READS | WITH_EVICTIONS | WITH_HOME};

    (void)state;
    explore("3 nodes that read, 1 block, and its home writes", &with, 1);
}

static void two_nodes_that_hold_a_block(void **state)
{
    const struct rules with = {.caches = 2, .blocks = 1, .frames = 1, .with = ALL_ASKS};

    (void)state;
    explore("2 nodes, 1 block, all that can be asked", &with, 250000);
}

static void three_nodes_and_a_block(void **state)
{
    const struct rules with = {
        .caches = 3, .blocks = 1, .frames = 1, .with = ALL_ACCESS | WITH_ATOMICS};

    (void)state;
    explore("3 nodes, 1 block", &with, 900000);
}

static void three_nodes_that_hold_a_block(void **state)
{
    const struct rules with = {
        .caches = 3, .blocks = 1, .frames = 1, .with = ALL_ACCESS | WITH_LOCKS | WITH_HOME_LOCKS};

    (void)state;
    explore_long("3 nodes and the home that hold, 1 block", &with, 10000000);
}

static void a_node_crashes(void **state)
{
    const struct rules with = {
        .caches = 2, .blocks = 1, .frames = 1, .crashes = 1, .with = ALL_ASKS | WITH_LANDINGS};

    (void)state;
    explore("2 nodes, 1 block, one crashes", &with, 330000);
}

static void the_home_crashes(void **state)
{
    const struct rules with = {.caches = 2,
                               .blocks = 1,
                               .frames = 1,
                               .home_crashes = 1,
                               .with = ALL_ACCESS | WITH_ATOMICS | WITH_LANDINGS};

    (void)state;
    explore("2 nodes, 1 block, the home crashes", &with, 480000);
}

static void a_link_breaks(void **state)
{
    const struct rules with = {.caches = 2,
                               .blocks = 1,
                               .frames = 1,
                               .breaks = 1,
                               .with = ALL_ACCESS | WITH_ATOMICS | WITH_LANDINGS};

    (void)state;
    explore("2 nodes, 1 block, a link breaks", &with, 450000);
}

static void one_of_three_nodes_crashes(void **state)
{
    const struct rules with = {
        .caches = 3, .blocks = 1, .frames = 1, .crashes = 1, .with = ALL_ASKS | WITH_LANDINGS};

    (void)state;
    explore("3 nodes, 1 block, one crashes", &with, 0);
}

static void all_may_crash(void **state)
{
    const struct rules with = {.caches = 2,
                               .blocks = 1,
                               .frames = 1,
                               .crashes = 2,
                               .home_crashes = 1,
                               .breaks = 1,
                               .with = ALL_ASKS | WITH_LANDINGS};

    (void)state;
    explore("2 nodes, 1 block, all crash", &with, 0);
}

/* Nodes and the home are started on their logs, or nodes without; and what a log forgets it forgot.
 */
static void a_node_crashes_and_has_a_log(void **state)
{
    const struct rules with = {.caches = 2,
                               .blocks = 1,
                               .frames = 1,
                               .crashes = 1,
                               .restarts = 1,
                               .logs = true,
                               .forgets = true,
                               .with = ALL_ACCESS | WITH_LANDINGS};

    (void)state;
    explore("2 nodes, 1 block, one crashes and has a log", &with, 1);
}

static void all_crash_and_have_logs(void **state)
{
    struct rules with = {.caches = 1,
                         .blocks = 1,
                         .frames = 1,
                         .crashes = 1,
                         .home_crashes = 1,
                         .restarts = 1,
                         .logs = true,
                         .forgets = true,
                         .with = ALL_ASKS | WITH_LANDINGS};

    (void)state;
    explore("1 node, 1 block, all crash and have logs", &with, 1);
    with.forgets = false;
    explore("1 node, 1 block, all crash, logs forget nothing", &with, 1);
    with.caches = 2;
    with.crashes = with.restarts = 2;
    with.with = ALL_ACCESS | WITH_LANDINGS;
    explore("2 nodes, 1 block, all crash, logs forget nothing", &with, 0);
    with.forgets = true;
    with.with = ALL_ASKS | WITH_LANDINGS;
    explore("2 nodes, 1 block, all crash and have logs", &with, 0);
}

/* What a node gave up, and did not hear that it was taken, is freed or lost meanwhile. */
static void links_break_of_what_is_freed(void **state)
{
    const struct rules with = {.caches = 1,
                               .blocks = 1,
                               .frames = 1,
                               .breaks = 2,
                               .with = ALL_ACCESS | WITH_FREES | WITH_LANDINGS};

    (void)state;
    explore("1 node, 1 block, its link breaks twice", &with, 1);
}

/* A term begins before what the last one said was heard: what is told to be somebody's again is
 * lost with its link. */
static void links_break_in_a_row(void **state)
{
    struct rules with = {.caches = 2,
                         .blocks = 1,
                         .frames = 1,
                         .breaks = 2,
                         .with = WITH_WRITES | WITH_EVICTIONS | WITH_LANDINGS};

    (void)state;
    explore("2 nodes that write and evict, 1 block, two links break", &with, 1);
    with.with = ALL_ACCESS | WITH_ATOMICS | WITH_LANDINGS;
    explore("2 nodes, 1 block, two links break", &with, 0);
}

/* What it gave up, and had never written, is told to be its own again, and it is killed before, or
 * after, it hears that; or its home is. */
static void a_link_breaks_and_nodes_crash_and_have_logs(void **state)
{
    const struct rules with = {.caches = 1,
                               .blocks = 1,
                               .frames = 1,
                               .crashes = 1,
                               .home_crashes = 1,
                               .breaks = 1,
                               .restarts = 1,
                               .logs = true,
                               .forgets = true,
                               .with = WITH_WRITES | WITH_EVICTIONS | WITH_LOCKS | WITH_IDLE_LOCKS |
                                       WITH_LANDINGS};

    (void)state;
    explore("1 node, 1 block, its link breaks, all crash and have logs", &with, 1);
}

/* What a node has again it gives up again, and its home has not heard of that either: its log may
 * have it by an earlier right than it claimed; or others gave it up, too. */
static void links_break_and_nodes_crash_and_have_logs(void **state)
{
    struct rules with = {.caches = 1,
                         .blocks = 1,
                         .frames = 1,
                         .crashes = 1,
                         .breaks = 2,
                         .restarts = 1,
                         .logs = true,
                         .forgets = true,
                         .with = ALL_ACCESS | WITH_LANDINGS};

    (void)state;
    explore("1 node, 1 block, its link breaks twice, it crashes and has a log", &with, 1);
    with.caches = 2;
    with.breaks = 1;
    with.with = WITH_READS | WITH_WRITES | WITH_EVICTIONS | WITH_LANDINGS;
    explore("2 nodes, 1 block, a link breaks, one crashes and has a log", &with, 1000000);
    with.breaks = 0;
    with.crashes = with.restarts = 2;
    explore_long("2 nodes, 1 block, both crash and have logs", &with, 1000000);
}

/* What is far from the beginning where more can happen. */
static void what_is_lost_and_away_is_asked_for(void **state)
{
    struct rules with = {.caches = 2,
                         .blocks = 1,
                         .frames = 1,
                         .crashes = 1,
                         .breaks = 1,
                         .with = WITH_WRITES | WITH_LANDINGS};

    (void)state;
    explore("2 nodes that write, one crashes, a link breaks", &with, 1);
    with.breaks = 0;
    with.restarts = 1;
    with.logs = with.forgets = true;
    with.with = WITH_WRITES | WITH_ATOMICS | WITH_LANDINGS;
    explore("2 nodes that write, one crashes and has a log", &with, 1);
    with.crashes = with.restarts = 2;
    with.with = WITH_WRITES | WITH_LANDINGS;
    explore("2 nodes that write, both crash and have logs", &with, 1);
    with.crashes = with.restarts = 1;
    with.with = WITH_WRITES | WITH_LOCKS | WITH_IDLE_LOCKS | WITH_LANDINGS;
    explore("2 nodes that write and hold, one crashes and has a log", &with, 1);
}

static void two_clients_of_each_node(void **state)
{
    const struct rules with = {
        .caches = 2, .blocks = 1, .frames = 1, .clients = 2, .crashes = 1, .with = ALL_ASKS};

    (void)state;
    explore("2 nodes, 1 block, 2 clients each", &with, 0);
}

static void three_nodes_and_two_blocks(void **state)
{
    const struct rules with = {.caches = 3, .blocks = 2, .frames = 2, .with = ALL_ASKS};

    (void)state;
    explore("3 nodes, 2 blocks", &with, 0);
}

/* What never came of a row that is not a hole: of the states that it says, bits. */
static uint32_t missing_of(const struct space_row *row, uint8_t state, uint8_t states, uint32_t had)
{
    uint32_t said = row->becomes & ((1u << states) - 1);

    if ((row->becomes & 1u << states) != 0) {
        said |= 1u << state;
    }
    return said & ~had;
}

static uint32_t count_missing(void)
{
    uint32_t missing = 0;

    for (uint8_t s = 0; s < SPACE_CACHE_STATES; s++) {
        for (uint8_t e = 0; e < SPACE_CACHE_EVENTS; e++) {
            const struct space_row *row = space_cache_row(s, e);

            for (uint8_t to = 0; row != NULL && to < SPACE_CACHE_STATES; to++) {
                if (missing_of(row, s, SPACE_CACHE_STATES, world_cache_rows[s][e]) & 1u << to) {
                    missing++;
                    print_message("# at a cache %s in %s never becomes %s\n",
                                  space_cache_event_name(e), space_cache_state_name(s),
                                  space_cache_state_name(to));
                }
            }
        }
    }
    for (uint8_t s = 0; s < SPACE_HOME_STATES; s++) {
        for (uint8_t e = 0; e < SPACE_HOME_EVENTS; e++) {
            const struct space_row *row = space_home_row(s, e);

            for (uint8_t to = 0; row != NULL && to < SPACE_HOME_STATES; to++) {
                if (missing_of(row, s, SPACE_HOME_STATES, world_home_rows[s][e]) & 1u << to) {
                    missing++;
                    print_message("# at a home %s in %s never becomes %s\n",
                                  space_home_event_name(e), space_home_state_name(s),
                                  space_home_state_name(to));
                }
            }
        }
    }
    return missing;
}

/* Of all that was explored before. */
static void no_row_is_unreachable(void **state)
{
    uint32_t rows = 0, missing = count_missing();

    (void)state;
    for (uint8_t s = 0; s < SPACE_CACHE_STATES; s++) {
        for (uint8_t e = 0; e < SPACE_CACHE_EVENTS; e++) {
            rows += space_cache_row(s, e) != NULL;
        }
    }
    for (uint8_t s = 0; s < SPACE_HOME_STATES; s++) {
        for (uint8_t e = 0; e < SPACE_HOME_EVENTS; e++) {
            rows += space_home_row(s, e) != NULL;
        }
    }
    print_message("# %u rows, %u of their outcomes never; %u messages in a channel at most\n", rows,
                  missing, world_deepest);
    assert_int_equal(missing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_that_only_read),
        cmocka_unit_test(two_nodes_that_hold_a_block),
        cmocka_unit_test(two_nodes_and_two_blocks_in_one_frame),
        cmocka_unit_test(two_nodes_that_hold_two_blocks_in_one_frame),
        cmocka_unit_test(two_nodes_and_two_blocks),
        cmocka_unit_test(three_nodes_and_a_block),
        cmocka_unit_test(three_nodes_that_hold_a_block),
        cmocka_unit_test(a_node_crashes),
        cmocka_unit_test(the_home_crashes),
        cmocka_unit_test(a_link_breaks),
        cmocka_unit_test(one_of_three_nodes_crashes),
        cmocka_unit_test(all_may_crash),
        cmocka_unit_test(links_break_of_what_is_freed),
        cmocka_unit_test(links_break_in_a_row),
        cmocka_unit_test(a_node_crashes_and_has_a_log),
        cmocka_unit_test(all_crash_and_have_logs),
        cmocka_unit_test(a_link_breaks_and_nodes_crash_and_have_logs),
        cmocka_unit_test(links_break_and_nodes_crash_and_have_logs),
        cmocka_unit_test(what_is_lost_and_away_is_asked_for),
        cmocka_unit_test(two_clients_of_each_node),
        cmocka_unit_test(three_nodes_and_two_blocks),
        cmocka_unit_test(no_row_is_unreachable),
    };

    check_set_hook(on_failed_check);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
