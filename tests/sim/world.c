/* SPDX-License-Identifier: Apache-2.0 */
/* See world.h. Making a world, its nodes' lives, and how time passes. */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "fabric/sim/sim_internal.h"

#define TURNS       400u /* of a node in one step: more is a loop */
#define CHECK_EVERY 61u  /* steps between looks at every invariant, */
#define CHECK_ALL   16u  /* but for one seed of so many, of two nodes: after every step */
#define START_US    1000000u
#define LINES       40u /* of the trace that a failure is told with */
#define LINE_BYTES  200u

/* ---- saying --------------------------------------------------------------- */

/* What was said last, where a failure is told of. */
static char lines[LINES][LINE_BYTES];
static uint32_t line_count;

void world_say(struct world *world, const char *format, ...)
{
    char *line = lines[line_count % LINES];
    va_list args;
    int length;

    if (!world->options.trace && !world->options.keeps_lines && world->options.heard == NULL) {
        return;
    }
    length = snprintf(line, LINE_BYTES, "# %12.3f ms  ",
                      (double)(world->now_us - world->begin_us) / 1000);
    va_start(args, format);
    vsnprintf(line + length, LINE_BYTES - (size_t)length, format, args);
    va_end(args);
    line_count++;
    trace_add(world->options.heard, line + length);
    if (world->options.trace) {
        printf("%s\n", line);
    }
}

static void print_lines(void)
{
    for (uint32_t n = line_count > LINES ? line_count - LINES : 0; n < line_count; n++) {
        printf("%s\n", lines[n % LINES]);
    }
}

/* The same run once more, for the sake of what it says: nobody pays for that in runs that go well.
 */
static void say_what_led_to_it(const struct world *world)
{
    struct world_options options = world->options;
    struct world_totals totals = {0};

    options.keeps_lines = true;
    printf("# what led to it:\n");
    fflush(stdout);
    (void)judge_seed(&options, &totals); /* ends in world_fail */
    printf("# it did not come again\n");
}

void world_fail(struct world *world, const char *format, ...)
{
    va_list args;

    if (world->options.keeps_lines) {
        print_lines();
        fflush(stdout);
        exit(1);
    }
    fflush(stdout);
    printf("# seed %llu, %.3f ms: ", (unsigned long long)world->options.seed,
           (double)(world->now_us - world->begin_us) / 1000);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n# make sim SEED=%llu\n", (unsigned long long)world->options.seed);
    fflush(stdout);
    if (world->is_judged && !world->options.trace) {
        say_what_led_to_it(world);
        fflush(stdout);
    }
    exit(1);
}

uint64_t world_below(struct world *world, uint64_t bound)
{
    return random_below(&world->random, bound);
}

bool world_dice(struct world *world, uint32_t percent)
{
    return random_below(&world->random, 100) < percent;
}

uint64_t world_between(struct world *world, uint64_t least, uint64_t most)
{
    return least + world_below(world, most - least + 1);
}

void world_fold(struct world *world, uint64_t value)
{
    world->digest = hash_u64(world->digest + HASH_K0) ^ hash_u64(value + HASH_K1);
}

/* ---- a world -------------------------------------------------------------- */

static void make_members(struct world *world, uint32_t rank)
{
    struct members *members = &world->nodes[rank].members;
    char list[256 * 16], self[16], why[256];
    size_t length = 0;

    for (uint32_t n = 0; n < world->node_count; n++) {
        length +=
            (size_t)snprintf(list + length, sizeof(list) - length, "%sn%u:1", n == 0 ? "" : ",", n);
    }
    snprintf(self, sizeof(self), "%u", rank);
    NIGH_ASSERT(members_parse(list, self, members, why, sizeof(why)) == NIGH_OK);
}

/* What a channel, a transfer and a loan are like in this run. */
static void choose_exchange(struct world *world)
{
    static const uint32_t payloads[] = {512, 1024, 2048, 8448};
    struct exchange_config *config = &world->exchange;

    config->max_keys = world->options.max_keys != 0 ? world->options.max_keys : 256;
    config->requests = (uint32_t)world_between(world, 4, 16);
    config->calls = (uint32_t)world_between(world, 4, 16);
    config->queue = (uint32_t)world_between(world, 1, 8);
    config->waits = (uint32_t)world_between(world, 1, 48);
    config->announcements = (uint32_t)world_between(world, 4, 200);
    if (config->announcements < 100) {
        config->announcements = 2 + config->announcements % 8; /* so that news are lost */
    }
    config->payload_bytes = payloads[world_below(world, ARRAY_LENGTH(payloads))];
    config->bulk_receives = (uint32_t)world_between(world, 2, 12);
    config->bulk_bytes = (uint32_t)world_between(world, 512, 8192) & ~7u;
    config->chunk_bytes = UINT64_C(4096) << world_below(world, 5);
    config->path = (enum exchange_path)world_below(world, 3);
    config->loan_us = world_between(world, 300, 3000) * 1000;
    config->pull_bytes = world_dice(world, 30) ? world_between(world, 10000, 400000) : 0;
}

/* In some runs objects are pushed, or every loan is registered. Drawn from the seed alone, so that
 * all else is as it would be. */
static void choose_way(struct world *world)
{
    uint64_t lot = hash_u64(world->options.seed ^ HASH_K1);

    if (lot % 8 < 2) {
        world->exchange.path = EXCHANGE_PUSH;
        world->exchange.window_bytes = UINT32_C(640) << (lot >> 8) % 8;
    } else if (lot % 8 == 2) {
        world->exchange.path = EXCHANGE_REGISTER;
    }
}

/* In half of the runs all links of a lane share receives, few or many. Drawn from the seed alone,
 * too. */
static void choose_sharing(struct world *world)
{
    uint64_t lot = hash_u64(world->options.seed ^ HASH_K2);

    if (lot % 2 == 0) {
        world->exchange.shared_bulk = 2 + (uint32_t)(lot >> 8) % 30;
    }
}

/* In half of the runs objects are large from a few KiB on, so that who pulls serves others. Drawn
 * from the seed alone, too. */
static void choose_trees(struct world *world)
{
    uint64_t lot = hash_u64(world->options.seed ^ HASH_K0);

    world->exchange.tree_bytes = lot % 2 == 0 ? UINT64_C(1024) << (lot >> 8) % 6 : UINT64_MAX;
    world->exchange.fanout = 1 + (uint32_t)(lot >> 16) % 2;
}

/* Where there are many nodes, channels are narrow. */
static void large_exchange(struct world *world)
{
    world->dead_after_us =
        world->options.dead_after_us != 0 ? world->options.dead_after_us : 60000000;
    world->silence_us = world->dead_after_us / 3;
    world->exchange = (struct exchange_config){
        .max_keys = world->options.max_keys,
        .requests = 8,
        .calls = 8,
        .queue = 32,
        .payload_bytes = 1536,
        .bulk_receives = 4,
        .bulk_bytes = 2048,
        .fanout = world->options.fanout,
        .tree_bytes = world->options.tree_bytes,
        .chunk_bytes = world->options.chunk_bytes,
        .pull_bytes = world->options.pull_bytes,
    };
}

static void choose_sim(struct world *world, struct sim_options *options)
{
    bool faulty = world_dice(world, 75);

    *options = (struct sim_options){
        .seed = world->options.seed ^ HASH_K2,
        .latency_min_us = (uint32_t)world_between(world, 1, 10),
        .latency_max_us = (uint32_t)world_between(world, 10, 500),
        .bytes_a_us = (uint32_t)world_between(world, 20, 4000),
        .late_read_ppm = faulty ? (uint32_t)world_below(world, 400000) : 0,
        .late_read_us = (uint32_t)world_between(world, 1000, 100000),
        .break_ppm = faulty && world_dice(world, 60) ? (uint32_t)world_below(world, 8000) : 0,
        .stall_ppm = faulty && world_dice(world, 40) ? (uint32_t)world_below(world, 20000) : 0,
        .stall_us = (uint32_t)world_between(world, 1000, 200000),
        .refuse_ppm = faulty && world_dice(world, 30) ? (uint32_t)world_below(world, 300000) : 0,
        .late_landing_ppm = faulty ? 600000 : 0,
    };
}

/* Many transfers that break while their READs are late, and memory that is used again at once. */
static void make_storm(struct world *world, struct sim_options *sim)
{
    world->exchange.path = world_dice(world, 70) ? EXCHANGE_ONE_SIDED : EXCHANGE_AUTO;
    world->sizes = world_dice(world, 60) ? SIZES_SAME : SIZES_EDGE;
    world->size_max = world_between(world, 20000, 60000);
    world->keys = (uint32_t)world_between(world, 2, 6);
    world->gap_us = world_between(world, 200, 4000);
    world->hold_us = world_between(world, 10, 1000);
    sim->late_read_ppm = (uint32_t)world_between(world, 200000, 900000);
    sim->late_read_us = (uint32_t)world_between(world, 1000, 40000);
    sim->break_ppm = (uint32_t)world_between(world, 2000, 20000);
    sim->late_landing_ppm = 900000;
}

static void choose_load(struct world *world)
{
    static const uint64_t sizes[] = {600, 600, 6000, 6000, 40000, 40000, 200000, 700000};
    uint32_t weight = (uint32_t)world_below(world, 4);

    world->sizes = world_dice(world, 30) ? SIZES_SAME : SIZES_MIXED;
    world->keys = (uint32_t)world_between(world, 2, 16);
    world->size_max = sizes[world_below(world, ARRAY_LENGTH(sizes))];
    world->steps_of_session = (uint32_t)world_between(world, 8, world->size_max > 100000 ? 20 : 40);
    world->gap_us = UINT64_C(1) << world_between(world, 6, 14);
    world->hold_us = UINT64_C(1) << world_between(world, 4, 17);
    world->exclusive = world->options.nodes == 0 && world->options.seed % 4 == 1;
    world->passing_percent = world->options.seed % 2 == 0 ? 40 : 0;
    world->faults_left = weight == 0 ? 0 : world_between(world, 1, 4 * weight);
    world->fault_gap_us = world_between(world, 1000, 200000);
    for (uint32_t n = 0; n < FAULT_STOP; n++) {
        world->fault_weight[n] = (uint32_t)world_below(world, 4);
    }
    if (world->faults_left > 0) {
        world_at(world, world_below(world, world->fault_gap_us), EVENT_FAULT, 0, 0, 0);
    }
}

static void choose_nodes(struct world *world)
{
    bool uneven = world_dice(world, 15);
    uint32_t lot = (uint32_t)world_below(world, 100);

    world->node_count = world->options.nodes != 0 ? world->options.nodes
                        : lot < 45                ? 2
                        : lot < 85                ? 3
                                                  : 4;
    world->entries = world->options.entries != 0 ? world->options.entries : 128;
    world->extents =
        world->options.extents != 0 ? world->options.extents : (uint32_t)world_between(world, 2, 3);
    world->nodes = calloc(world->node_count, sizeof(*world->nodes));
    world->cut = calloc((size_t)world->node_count * world->node_count, sizeof(*world->cut));
    NIGH_ASSERT(world->nodes != NULL && world->cut != NULL);
    world->most_events = WORLD_EVENTS + 2 * world->node_count * world->node_count;
    world->events = calloc(world->most_events, sizeof(*world->events));
    NIGH_ASSERT(world->events != NULL);
    world->bulk_endpoints = world->options.nodes == 0 && world->options.seed % 3 == 0
                                ? 2 + (uint32_t)(world->options.seed / 3 % 3)
                                : 1;
    world->region_endpoints = 1 + (uint32_t)(world->options.seed / 2 % LIMIT_REGION_ENDPOINTS);
    for (uint32_t n = 0; n < world->node_count; n++) {
        struct world_node *node = &world->nodes[n];

        node->lanes = uneven ? 1u << world_below(world, 3) : 1;
        node->lanes = world->options.lanes != 0 ? world->options.lanes : node->lanes;
        node->pool_number[1] = WORLD_NO_POOL;
        node->incarnation = (uint32_t)world_below(world, 3);
        node->sides = calloc(world->node_count, sizeof(*node->sides));
        NIGH_ASSERT(node->sides != NULL);
        make_members(world, n);
    }
}

struct world *world_create(const struct world_options *options, struct world_totals *totals)
{
    struct world *world = calloc(1, sizeof(*world));
    struct sim_options sim;

    NIGH_ASSERT(world != NULL);
    world->options = *options;
    world->totals = totals;
    random_init(&world->random, options->seed);
    world->max_puts = options->max_puts != 0 ? options->max_puts : WORLD_PUTS;
    world->puts = calloc(world->max_puts + 1, sizeof(*world->puts));
    NIGH_ASSERT(world->puts != NULL);
    world->now_us = world->begin_us = START_US;
    world->dead_after_us = world_between(world, 200, 2000) * 1000;
    world->silence_us = world_between(world, 100, 500) * 1000;
    world->quantum_us = UINT64_C(1) << world_below(world, 6);
    world->quantum_us = options->quantum_us != 0 ? options->quantum_us : world->quantum_us;
    choose_nodes(world);
    if (options->nodes == 0) {
        choose_exchange(world);
        choose_sim(world, &sim);
        choose_load(world);
        world->storm = world_dice(world, 20);
        if (world->storm) {
            make_storm(world, &sim);
        }
        kind_choose(world);
        choose_way(world);
        choose_sharing(world);
        choose_trees(world);
        kind_make_keys(world);
        view_choose(world);
        caller_choose(world);
        detect_choose(world);
    } else {
        world->kind = (struct world_kind){.plain = true, .pools = 1};
        world->calm = true; /* what is done is the caller's */
        large_exchange(world);
        view_choose(world);
        sim = (struct sim_options){.seed = options->seed};
    }
    NIGH_ASSERT(sim_create(&sim, &world->sim) == NIGH_OK);
    sim_advance(world->sim, START_US);
    world->checks_all =
        options->nodes == 0 && world->node_count == 2 && hash_u64(options->seed) % CHECK_ALL == 0;
    for (uint32_t n = 0; n < world->node_count && options->bytes_a_us > 0; n++) {
        sim_limit(world->sim, n, options->bytes_a_us);
    }
    for (uint32_t n = 0; n < world->node_count; n++) {
        if (agreeing_may_start(world, n)) {
            node_start(world, n);
        }
    }
    return world;
}

void world_destroy(struct world *world)
{
    world->totals->events += sim_events(world->sim);
    for (uint32_t n = 0; n < world->node_count; n++) {
        node_fini(world, n);
    }
    sim_destroy(world->sim);
    agreeing_fini(world);
    free(world->nodes);
    free(world->calls);
    free(world->many);
    free(world->moves);
    free(world->detect);
    free(world->cut);
    free(world->events);
    free(world->puts);
    free(world);
}

/* ---- things to come ------------------------------------------------------- */

static bool is_before(const struct world_event *a, const struct world_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->sequence < b->sequence;
}

void world_at(struct world *world, uint64_t after_us, enum world_event_kind kind, uint32_t a,
              uint32_t b, uint64_t value)
{
    struct world_event event = {
        world->now_us + after_us, world->next_sequence++, kind, a, b, value};
    uint32_t at = world->event_count++;

    NIGH_ASSERT(world->event_count <= world->most_events);
    while (at > 0 && is_before(&event, &world->events[(at - 1) / 2])) {
        world->events[at] = world->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world->events[at] = event;
}

static struct world_event pop_event(struct world *world)
{
    struct world_event first = world->events[0], last = world->events[--world->event_count];
    uint32_t at = 0;

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= world->event_count) {
            break;
        }
        if (child + 1 < world->event_count &&
            is_before(&world->events[child + 1], &world->events[child])) {
            child++;
        }
        if (!is_before(&world->events[child], &last)) {
            break;
        }
        world->events[at] = world->events[child];
        at = child;
    }
    world->events[at] = last;
    return first;
}

static void resume(struct world *world, uint32_t rank)
{
    struct world_node *node = &world->nodes[rank];

    if (node->alive && node->paused) {
        world_say(world, "node %u goes on", rank);
        node->paused = false;
        node->awake_us = world->now_us;
        node->due_us = world->now_us;
        sim_pause(world->sim, rank, false);
    }
}

static void speed_up(struct world *world, uint32_t rank)
{
    struct world_node *node = &world->nodes[rank];

    if (node->slow_us > 0) {
        world_say(world, "node %u is slow no more", rank);
        node->slow_us = 0;
        node->turn_us = 0;
        node->awake_us = world->now_us;
        node->due_us = world->now_us;
    }
}

static void carry_out(struct world *world, const struct world_event *event)
{
    switch (event->kind) {
    case EVENT_CONNECT: control_connect(world, event->a, event->b); break;
    case EVENT_RESET: control_reset(world, event->a, event->b, event->value); break;
    case EVENT_FAULT: fault_happen(world); break;
    case EVENT_RESTART:
        if (!world->nodes[event->a].alive && agreeing_may_start(world, event->a)) {
            node_start(world, event->a);
        }
        break;
    case EVENT_RESUME: resume(world, event->a); break;
    case EVENT_HEAL:
        world_say(world, "nodes %u and %u hear each other again", event->a, event->b);
        world->cut[event->a * world->node_count + event->b] = false;
        world->cut[event->b * world->node_count + event->a] = false;
        sim_cut(world->sim, event->a, event->b, false);
        break;
    case EVENT_HEAL_WAY:
        world_say(world, "node %u hears node %u again", event->b, event->a);
        world->cut[event->a * world->node_count + event->b] = false;
        sim_cut_way(world->sim, event->a, event->b, false);
        break;
    case EVENT_SPEED_UP: speed_up(world, event->a); break;
    case EVENT_CALLS: caller_step(world, event->a); break;
    case EVENT_ANSWER: server_answer(world, event->a, event->value); break;
    case EVENT_MOVE: mover_step(world, event->a, event->value); break;
    case EVENT_COLLECTS: collector_step(world, event->a); break;
    case EVENT_COLLECT_ANSWER: collector_answer(world, event->a, event->value); break;
    case EVENT_QUICKEN: sim_slow(world->sim, event->a, event->b, 1); break;
    case EVENT_SEAL: client_seal(world, event->a, (uint32_t)event->value); break;
    case EVENT_GOODBYE: control_hear_goodbye(world, event->a, event->b, event->value); break;
    case EVENT_DATAGRAM: detect_arrive(world, event->a); break;
    case EVENT_AGREE: agreeing_happen(world); break;
    case EVENT_AGREE_MESSAGE: agreeing_arrive(world, event->a); break;
    case EVENT_VIEW: view_happen(world); break;
    case EVENT_VIEW_HEARD: view_heard(world, event->a); break;
    case EVENT_DISK:
        disk_step(world->nodes[event->a].lane[event->b].disk, (uint32_t)event->value);
        break;
    }
}

/* ---- time ----------------------------------------------------------------- */

/* As a lane does it: one that found nothing, and that nobody called since, only looks at what other
 * nodes send until it is due. Whether it found something. */
static bool give_turn(struct world *world, struct world_lane *lane, uint64_t *due_us)
{
    uint64_t lane_us;
    bool worked = false;

    if (world->now_us < lane->quiet_until_us) {
        worked = exchange_look(lane->exchange, world->now_us);
        worked = caller_turn(lane) || worked;
        if (!worked) {
            *due_us = min_u64(*due_us, lane->quiet_until_us);
            return false;
        }
    }
    lane_us = store_tick(lane->store, world->now_us);
    worked = worked || exchange_turn(lane->exchange, world->now_us);
    worked = caller_turn(lane) || worked;
    lane_us = min_u64(lane_us, exchange_due_us(lane->exchange));
    lane_us = min_u64(lane_us, caller_due_us(lane));
    if (store_wants_turn(lane->store)) {
        lane_us = world->now_us;
    }
    lane->quiet_until_us = worked ? 0 : lane_us;
    *due_us = min_u64(*due_us, lane_us);
    return worked;
}

static void give_turns(struct world *world, uint32_t rank)
{
    struct world_node *node = &world->nodes[rank];
    uint64_t due_us = WORLD_NEVER;
    bool worked = true;

    detect_tick(world, rank);
    agreeing_tick(world, rank);
    control_tick(world, rank);
    for (uint32_t turn = 0; worked; turn++) {
        WORLD_CHECK(world, turn < TURNS, "node %u finds work for ever", rank);
        worked = false;
        due_us = WORLD_NEVER;
        for (uint32_t n = 0; n < node->lanes; n++) {
            worked = give_turn(world, &node->lane[n], &due_us) || worked;
        }
        if (world->ended_count > 0) {
            client_settle(world);
            worked = true;
        }
    }
    due_us = min_u64(due_us, control_due_us(world, rank));
    due_us = min_u64(due_us, detect_due_us(world, rank));
    due_us = min_u64(due_us, agreeing_due_us(world, rank));
    node->due_us = max_u64(due_us, world->now_us + world->quantum_us);
    node->turn_us = world->now_us + node->slow_us;
}

static bool may_have_turns(const struct world *world, const struct world_node *node)
{
    return node->alive && !node->paused && node->turn_us <= world->now_us;
}

static uint64_t next_us(const struct world *world)
{
    uint64_t next = sim_next_us(world->sim);

    next = world->event_count > 0 ? min_u64(next, world->events[0].at_us) : next;
    next = min_u64(next, client_due_us(world));
    for (uint32_t n = 0; n < world->node_count; n++) {
        const struct world_node *node = &world->nodes[n];

        if (node->alive && !node->paused) {
            next = min_u64(next, max_u64(node->due_us, node->slow_us > 0 ? node->turn_us : 0));
        }
    }
    return next;
}

void world_step(struct world *world, uint64_t until_us)
{
    uint64_t next = min_u64(next_us(world), until_us);
    uint32_t first;

    world->now_us = min_u64(until_us, max_u64(next, world->now_us + world->quantum_us));
    sim_advance(world->sim, max_u64(world->now_us, sim_now_us(world->sim)));
    while (world->event_count > 0 && world->events[0].at_us <= world->now_us) {
        struct world_event event = pop_event(world);

        carry_out(world, &event);
    }
    for (uint32_t n = 0; n < world->node_count; n++) {
        for (uint32_t s = 0; s < WORLD_SESSIONS && world->nodes[n].alive; s++) {
            if (world->nodes[n].sessions[s].next_us <= world->now_us) {
                client_step(world, n, s);
            }
        }
    }
    client_release_due(world);
    client_settle(world);
    first = (uint32_t)(world->steps++ % world->node_count);
    world->totals->steps++;
    for (uint32_t n = 0; n < world->node_count; n++) {
        uint32_t rank = (first + n) % world->node_count;

        if (may_have_turns(world, &world->nodes[rank])) {
            give_turns(world, rank);
        }
    }
    caller_check(world);
    if (world->checks_all || world->steps % CHECK_EVERY == 0) {
        world_check_all(world);
    }
}

void world_run(struct world *world, uint64_t us)
{
    uint64_t end_us = world->now_us + us;

    while (world->now_us < end_us) {
        world_step(world, end_us);
    }
}

/* ---- looking -------------------------------------------------------------- */

uint32_t world_pool_of(const struct world *world, uint32_t key)
{
    return world->keys_a_pool == 0 ? 0 : key / world->keys_a_pool;
}

struct world_lane *world_lane_of(struct world *world, uint32_t node, uint64_t hash)
{
    return &world->nodes[node].lane[index_hash_lane(hash, world->nodes[node].lanes)];
}

void world_moment(struct world *world, uint32_t rank, enum world_moment moment)
{
    const struct world_node *node = &world->nodes[rank];

    for (uint32_t n = 0; n < node->lanes; n++) {
        const struct exchange *exchange = node->lane[n].exchange;

        for (uint32_t i = 0; i < exchange->pulls_used; i++) {
            world->totals->seen[exchange->pulls[i].state][moment]++;
        }
    }
}

bool world_is_idle(struct world *world)
{
    for (uint32_t n = 0; n < world->node_count; n++) {
        for (uint32_t i = 0; world->nodes[n].alive && i < world->nodes[n].lanes; i++) {
            struct world_lane *lane = &world->nodes[n].lane[i];
            nigh_node_stats stats = {0};

            store_stats(lane->store, &stats);
            if (!exchange_is_idle(lane->exchange) || stats.waiting > 0 ||
                stats.objects_deleting > 0 || !disk_is_idle(lane->disk)) {
                return false;
            }
        }
    }
    return true;
}

void world_check_all(struct world *world)
{
    for (uint32_t n = 0; n < world->node_count; n++) {
        for (uint32_t i = 0; world->nodes[n].alive && i < world->nodes[n].lanes; i++) {
            struct world_lane *lane = &world->nodes[n].lane[i];
            struct exchange_stats stats;

            WORLD_CHECK(world, store_is_valid(lane->store), "the store of node %u is wrong", n);
            WORLD_CHECK(world, exchange_is_valid(lane->exchange),
                        "the exchange of node %u is wrong", n);
            caller_check_lane(lane);
            exchange_stats(lane->exchange, &stats);
            WORLD_CHECK(world, stats.crc_failures == 0 || world->is_spoiling,
                        "node %u took bytes with a wrong checksum: a loan's memory was used again",
                        n);
        }
    }
    client_check_quotas(world);
    view_check(world);
}
