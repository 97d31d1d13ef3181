/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated fabric under a mixed random load of several nodes with every fault: equal seeds
 * give equal runs wherever memory lies, every operation ends once and in order, nothing is touched
 * after its endpoint was destroyed; and a hundred nodes, all connected.
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/hash.h"
#include "fabric/sim/sim.h"

#define NODES_MOST 8u
#define SLOT       16384u /* of a node's memory, for one peer */
#define HALF       (SLOT / 2)
#define DEPTH      32u
#define GONE       0xeeu /* what lies in a slot whose endpoint is destroyed */

#define ALL_RIGHTS \
    (FABRIC_LOCAL_WRITE | FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE | FABRIC_REMOTE_ATOMIC)

/* One node's side of its connection with one peer. */
struct side {
    struct node *node;
    uint32_t peer;
    struct fabric_endpoint *end; /* NULL: none */
    bool established;
    bool disconnected;
    uint64_t posted, received;          /* the tags given last */
    uint64_t done_posts, done_receives; /* the tags completed last */
};

struct node {
    struct load *load;
    uint32_t number;
    bool paused;
    struct fabric *fabric;
    struct fabric_memory *memory;
    uint8_t *bytes;
    struct side sides[NODES_MOST];
};

struct load {
    struct sim *sim;
    uint32_t count;
    struct node nodes[NODES_MOST];
    uint64_t history; /* of everything that the nodes saw */
    uint64_t completions, failures, losses, connections;
};

static const struct fabric_endpoint_options depths = {.sends = DEPTH, .receives = DEPTH};

static void note(struct load *load, uint64_t value)
{
    load->history = hash_mix(load->history ^ HASH_K0, value ^ HASH_K1);
}

static uint8_t *slot_of(const struct side *side)
{
    return side->node->bytes + (uint64_t)side->peer * SLOT;
}

/* Nothing was written since the last endpoint of this slot was destroyed. */
static void slot_begin(struct side *side)
{
    const uint8_t *slot = slot_of(side);

    for (uint32_t i = 0; i < SLOT; i++)
        assert_int_equal(slot[i], GONE);
    memset(slot_of(side), (int)side->node->number + 1, SLOT);
}

static void side_destroy(struct side *side)
{
    if (side->end == NULL)
        return;
    fabric_endpoint_destroy(side->node->fabric, side->end);
    memset(slot_of(side), GONE, SLOT);
    *side = (struct side){.node = side->node, .peer = side->peer};
}

static void side_receive(struct side *side)
{
    struct fabric_receive receive = {
        .tag = side->received + 1,
        .slice = {slot_of(side) + side->received % 8 * 256, 256, side->node->memory}};

    if (fabric_post_receive(side->node->fabric, side->end, &receive, NULL) == NIGH_OK)
        side->received++;
}

static void side_dial(struct side *side)
{
    static const char *const addresses[] = {"0:0", "1:0", "2:0", "3:0", "4:0", "5:0", "6:0", "7:0"};
    struct fabric_endpoint_options options = depths;

    slot_begin(side);
    options.context = side;
    assert_int_equal(fabric_connect(side->node->fabric, addresses[side->peer], &options,
                                    &side->node->number, sizeof(side->node->number), &side->end),
                     NIGH_OK);
    for (uint32_t i = 0; i < DEPTH; i++)
        side_receive(side);
}

static void node_accept(struct node *node, const struct fabric_event *event)
{
    struct fabric_endpoint_options options = depths;
    struct side *side;
    uint32_t from;

    assert_int_equal(event->private_bytes, sizeof(from));
    memcpy(&from, event->private_data, sizeof(from));
    side = &node->sides[from];
    /* The dialler has a new connection while we have not noticed the end of the old. */
    side_destroy(side);
    slot_begin(side);
    options.context = side;
    side->end = event->endpoint;
    assert_int_equal(fabric_accept(node->fabric, event->endpoint, &options, NULL, 0), NIGH_OK);
    for (uint32_t i = 0; i < DEPTH; i++)
        side_receive(side);
}

static void node_event(struct node *node, const struct fabric_event *event)
{
    struct side *side = event->context;

    node->load->connections += event->kind == FABRIC_ESTABLISHED;
    note(node->load, (uint64_t)event->kind << 8 | (uint8_t)event->status);
    if (event->kind == FABRIC_REQUEST) {
        node_accept(node, event);
        return;
    }
    assert_non_null(side);
    assert_ptr_equal(side->end, event->endpoint);
    assert_false(side->disconnected);
    if (event->kind == FABRIC_ESTABLISHED)
        side->established = true;
    else
        side->disconnected = true;
}

/* Receives complete one by one; posts in order, the unsignalled ones only when they failed. */
static void node_completion(struct node *node, const struct fabric_completion *done)
{
    struct load *load = node->load;
    struct side *side = done->context;

    assert_ptr_equal(side->end, done->endpoint);
    load->completions++;
    load->failures += done->status != NIGH_OK;
    load->losses += done->status == NIGH_PEER_LOST;
    note(load, done->tag << 16 | (uint64_t)done->op << 8 | (uint8_t)done->status);
    note(load, done->bytes);
    if (done->op == FABRIC_RECV) {
        assert_int_equal(done->tag, side->done_receives + 1);
        side->done_receives++;
        if (done->status == NIGH_OK)
            side_receive(side);
    } else {
        assert_true(done->tag > side->done_posts && done->tag <= side->posted);
        side->done_posts = done->tag;
    }
}

static void node_take(struct node *node)
{
    struct fabric_completion completions[8];
    struct fabric_event event;
    uint32_t count;

    do {
        count = fabric_poll(node->fabric, completions, ARRAY_LENGTH(completions),
                            sim_now_us(node->load->sim));
        for (uint32_t i = 0; i < count; i++)
            node_completion(node, &completions[i]);
    } while (count > 0);
    while (fabric_next_event(node->fabric, &event))
        node_event(node, &event);
}

static void side_post(struct side *side)
{
    static const enum fabric_op ops[] = {FABRIC_SEND,      FABRIC_READ,        FABRIC_READ,
                                         FABRIC_WRITE,     FABRIC_WRITE,       FABRIC_WRITE_IMM,
                                         FABRIC_FETCH_ADD, FABRIC_COMPARE_SWAP};
    struct sim *sim = side->node->load->sim;
    struct node *peer = &side->node->load->nodes[side->peer];
    enum fabric_op op = ops[sim_random(sim, ARRAY_LENGTH(ops))];
    uint64_t bytes = op >= FABRIC_FETCH_ADD ? 8
                     : op == FABRIC_SEND    ? sim_random(sim, 257)
                                            : sim_random(sim, 2048);
    uint64_t offset = HALF + 8 * sim_random(sim, (HALF - 2048) / 8);
    struct fabric_slice slice = {slot_of(side) + offset, bytes, side->node->memory};
    struct fabric_work work = {
        .op = op,
        .flags = sim_random(sim, 3) > 0 ? FABRIC_SIGNALLED : 0,
        .tag = side->posted + 1,
        .slices = &slice,
        .slice_count = 1,
        .remote = fabric_memory_remote(peer->fabric, peer->memory,
                                       peer->bytes + (uint64_t)side->node->number * SLOT + offset),
        .operand = 1};

    if (op < FABRIC_READ && sim_random(sim, 4) == 0)
        work.flags |= FABRIC_INLINE;
    if (sim_random(sim, 10) == 0)
        work.flags |= FABRIC_FENCE;
    if (sim_random(sim, 2000) == 0)
        work.remote.key ^= 5; /* denied, unless it is a SEND */
    if (fabric_post(side->node->fabric, side->end, &work, NULL) == NIGH_OK)
        side->posted++;
}

/* ---- the load ------------------------------------------------------------- */

static void node_start(struct node *node)
{
    char address[FABRIC_ADDRESS_BYTES] = "*:0";

    memset(node->bytes, GONE, NODES_MOST * SLOT);
    assert_int_equal(sim_fabric(node->load->sim, node->number, 0, &node->fabric), NIGH_OK);
    assert_int_equal(fabric_memory_register(node->fabric, node->bytes, NODES_MOST * SLOT,
                                            FABRIC_HOST, ALL_RIGHTS, &node->memory),
                     NIGH_OK);
    assert_int_equal(fabric_listen(node->fabric, address), NIGH_OK);
    for (uint32_t i = 0; i < NODES_MOST; i++)
        node->sides[i] = (struct side){.node = node, .peer = i};
}

static void node_crash(struct node *node)
{
    sim_crash(node->load->sim, node->number);
    node->paused = false;
    memset(node->bytes, GONE, NODES_MOST * SLOT);
    fabric_destroy(node->fabric);
    node_start(node);
}

static void load_fault(struct load *load)
{
    struct sim *sim = load->sim;
    uint32_t a = (uint32_t)sim_random(sim, load->count), b = (uint32_t)sim_random(sim, load->count);

    switch (sim_random(sim, 8)) {
    case 0: node_crash(&load->nodes[a]); break;
    case 1:
    case 2:
        load->nodes[a].paused = !load->nodes[a].paused;
        sim_pause(sim, a, load->nodes[a].paused);
        break;
    case 3: sim_cut(sim, a, b, true); break;
    case 4: sim_cut(sim, a, b, false); break;
    case 5: sim_cut_way(sim, a, b, true); break;
    case 6: sim_cut_way(sim, a, b, false); break;
    default: sim_slow(sim, a, b, 1 + (uint32_t)sim_random(sim, 20)); break;
    }
}

static void load_act(struct load *load)
{
    struct sim *sim = load->sim;
    struct node *node = &load->nodes[sim_random(sim, load->count)];
    struct side *side = &node->sides[sim_random(sim, load->count)];

    if (node->paused)
        return;
    if (side->end == NULL) {
        if (side->peer < node->number)
            side_dial(side);
    } else if (side->disconnected) {
        if (sim_random(sim, 4) == 0)
            side_destroy(side);
    } else if (sim_random(sim, 500) == 0) {
        if (sim_random(sim, 2) == 0)
            fabric_disconnect(node->fabric, side->end);
        else
            side_destroy(side);
    } else if (side->established) {
        side_post(side);
    }
}

struct outcome {
    uint64_t digest, history, events, now_us;
    uint64_t completions, failures, losses, connections;
};

static struct outcome load_run(uint64_t seed, uint32_t count, uint32_t steps)
{
    struct sim_options options = {.seed = seed,
                                  .late_read_ppm = 50000,
                                  .late_landing_ppm = 500000,
                                  .break_ppm = 300,
                                  .stall_ppm = 1000,
                                  .refuse_ppm = 50000};
    struct load *load = calloc(1, sizeof(*load));
    struct outcome outcome;

    assert_non_null(load);
    load->count = count;
    assert_int_equal(sim_create(&options, &load->sim), NIGH_OK);
    for (uint32_t i = 0; i < count; i++) {
        struct node *node = &load->nodes[i];

        node->load = load;
        node->number = i;
        node->bytes = malloc(NODES_MOST * SLOT);
        assert_non_null(node->bytes);
        node_start(node);
    }
    for (uint32_t step = 0; step < steps; step++) {
        load_act(load);
        if (sim_random(load->sim, 1500) == 0)
            load_fault(load);
        if (sim_random(load->sim, 3) == 0)
            sim_advance(load->sim, sim_now_us(load->sim) + sim_random(load->sim, 20));
        if (sim_random(load->sim, 4000) == 0)
            sim_advance(load->sim, sim_now_us(load->sim) + SIM_KEEPALIVE_US);
        node_take(&load->nodes[sim_random(load->sim, count)]);
    }
    outcome = (struct outcome){.digest = sim_digest(load->sim),
                               .history = load->history,
                               .events = sim_events(load->sim),
                               .now_us = sim_now_us(load->sim),
                               .completions = load->completions,
                               .failures = load->failures,
                               .losses = load->losses,
                               .connections = load->connections};
    for (uint32_t i = 0; i < count; i++) {
        fabric_destroy(load->nodes[i].fabric);
        free(load->nodes[i].bytes);
    }
    sim_destroy(load->sim);
    free(load);
    return outcome;
}

static void assert_same(struct outcome a, struct outcome b)
{
    assert_true(a.digest == b.digest);
    assert_true(a.history == b.history);
    assert_true(a.events == b.events);
    assert_true(a.now_us == b.now_us);
}

/* Pieces of memory that lie between what the next run takes. */
#define JUNK 500u

static void test_equal_seeds_give_equal_runs(void **state)
{
    uint64_t seed = support_seed(), junk_state = seed | 1;
    static void *junk[JUNK];

    (void)state;
    for (uint64_t i = 0; i < 6; i++) {
        uint32_t count = 2 + (uint32_t)i;
        struct outcome first = load_run(seed + i, count, 20000), again, other;

        for (uint32_t j = 0; j < JUNK; j++)
            junk[j] = malloc(1 + support_random(&junk_state) % 5000);
        for (uint32_t j = 0; j < JUNK; j += 2) {
            free(junk[j]);
            junk[j] = NULL;
        }
        again = load_run(seed + i, count, 20000);
        for (uint32_t j = 0; j < JUNK; j++)
            free(junk[j]);
        assert_same(first, again);
        other = load_run(seed + 1000 + i, count, 20000);
        assert_true(first.digest != other.digest);
        print_message("# %u nodes: %llu events, %llu us, digest %016llx\n", count,
                      (unsigned long long)first.events, (unsigned long long)first.now_us,
                      (unsigned long long)first.digest);
    }
}

#define RUNS_LEAST 14u

/* As many runs as the budget allows. */
static void test_the_load_goes_on(void **state)
{
    uint64_t seed = support_seed(), end_us = support_now_us() + support_budget_ms(3000) * 1000;
    struct outcome sum = {0};
    uint64_t runs = 0;

    (void)state;
    do {
        struct outcome run = load_run(seed + runs, 2 + (uint32_t)(runs % (NODES_MOST - 1)), 10000);

        runs++;
        sum.events += run.events;
        sum.completions += run.completions;
        sum.failures += run.failures;
        sum.losses += run.losses;
        sum.connections += run.connections;
    } while (runs < RUNS_LEAST || support_now_us() < end_us);
    print_message("# %llu runs: %llu events, %llu completions, of them %llu failed, %llu for a "
                  "lost peer; %llu ends connected\n",
                  (unsigned long long)runs, (unsigned long long)sum.events,
                  (unsigned long long)sum.completions, (unsigned long long)sum.failures,
                  (unsigned long long)sum.losses, (unsigned long long)sum.connections);
    assert_true(sum.completions > 1000 * runs && sum.completions > 2 * sum.failures);
    assert_true(sum.losses > 100 * runs && sum.failures > sum.losses);
    assert_true(sum.connections > 10 * runs);
}

/* ---- a hundred nodes ------------------------------------------------------ */

#define MANY       100u
#define MANY_BYTES 4096u

struct many {
    struct sim *sim;
    struct fabric *fabrics[MANY];
    struct fabric_memory *memories[MANY];
    uint8_t *bytes;
    struct fabric_endpoint **ends;
    uint32_t end_count, established;
    uint64_t posts, completions;
};

static void many_post(struct many *many, struct fabric *fabric, struct fabric_memory *memory,
                      struct fabric_endpoint *end, uint64_t index)
{
    static const enum fabric_op ops[] = {FABRIC_WRITE, FABRIC_READ, FABRIC_FETCH_ADD};
    enum fabric_op op = ops[index % 3];
    uint32_t target = (uint32_t)(index % MANY);
    struct fabric_slice slice = {many->bytes, op == FABRIC_FETCH_ADD ? 8 : 64, memory};
    struct fabric_work work = {
        .op = op, .flags = FABRIC_SIGNALLED, .slices = &slice, .slice_count = 1, .tag = target};

    work.remote = fabric_memory_remote(many->fabrics[target], many->memories[target], many->bytes);
    many->posts += fabric_post(fabric, end, &work, NULL) == NIGH_OK;
}

static void many_take(struct many *many, uint32_t i)
{
    struct fabric_completion done[32];
    struct fabric_event event;
    uint32_t count = fabric_poll(many->fabrics[i], done, ARRAY_LENGTH(done), 0);

    for (uint32_t j = 0; j < count; j++)
        assert_int_equal(done[j].status, NIGH_OK);
    many->completions += count;
    while (fabric_next_event(many->fabrics[i], &event)) {
        if (event.kind == FABRIC_REQUEST)
            assert_int_equal(fabric_accept(many->fabrics[i], event.endpoint, &depths, NULL, 0),
                             NIGH_OK);
        else
            assert_int_equal(event.kind, FABRIC_ESTABLISHED);
        many->established += event.kind == FABRIC_ESTABLISHED;
    }
}

static void many_connect(struct many *many)
{
    struct fabric_endpoint_options options = depths;
    char address[FABRIC_ADDRESS_BYTES];

    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(sim_fabric(many->sim, i, 0, &many->fabrics[i]), NIGH_OK);
        assert_int_equal(fabric_memory_register(many->fabrics[i], many->bytes, MANY_BYTES,
                                                FABRIC_HOST, ALL_RIGHTS, &many->memories[i]),
                         NIGH_OK);
        assert_int_equal(fabric_listen(many->fabrics[i], "*:0"), NIGH_OK);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        fabric_address(many->fabrics[i], address);
        for (uint32_t j = 0; j < MANY; j++) {
            if (i != j)
                assert_int_equal(fabric_connect(many->fabrics[j], address, &options, NULL, 0,
                                                &many->ends[many->end_count++]),
                                 NIGH_OK);
        }
        sim_advance(many->sim, sim_now_us(many->sim) + 100);
        for (uint32_t j = 0; j < MANY; j++)
            many_take(many, j);
    }
}

/* What this process has used: the machine may have other work. */
static uint64_t cpu_now_us(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void test_a_hundred_nodes_all_connected(void **state)
{
    struct sim_options options = {.seed = 1};
    struct many many = {.bytes = calloc(1, MANY_BYTES)};
    uint64_t spent_us = 0, events;

    (void)state;
    many.ends = calloc((size_t)MANY * MANY, sizeof(*many.ends));
    assert_non_null(many.ends);
    assert_int_equal(sim_create(&options, &many.sim), NIGH_OK);
    many_connect(&many);
    for (uint32_t turn = 0; turn < 3; turn++) {
        sim_advance(many.sim, sim_now_us(many.sim) + 100);
        for (uint32_t i = 0; i < MANY; i++)
            many_take(&many, i);
    }
    assert_int_equal(many.established, 2 * MANY * (MANY - 1));
    assert_int_equal(sim_next_us(many.sim), UINT64_MAX);
    events = sim_events(many.sim);
    for (uint32_t turn = 0; turn < 30; turn++) {
        /* ends[k] was dialled to node k / (MANY - 1). */
        for (uint32_t k = 0; k < many.end_count; k++) {
            uint32_t target = k / (MANY - 1), from = k % (MANY - 1);

            from += from >= target;
            many_post(&many, many.fabrics[from], many.memories[from], many.ends[k],
                      target + (uint64_t)MANY * (turn + k));
        }
        spent_us -= cpu_now_us();
        sim_advance(many.sim, sim_now_us(many.sim) + 100);
        spent_us += cpu_now_us();
        for (uint32_t i = 0; i < MANY; i++) {
            for (uint32_t j = 0; j < 4; j++)
                many_take(&many, i);
        }
    }
    events = sim_events(many.sim) - events;
    print_message("# %llu posts, %llu events, %.1f million of them a second\n",
                  (unsigned long long)many.posts, (unsigned long long)events,
                  (double)events / (double)max_u64(spent_us, 1));
    assert_int_equal(many.posts, 30 * MANY * (MANY - 1));
    assert_int_equal(many.completions, many.posts);
    for (uint32_t i = 0; i < MANY; i++)
        fabric_destroy(many.fabrics[i]);
    sim_destroy(many.sim);
    free(many.ends);
    free(many.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_seeds_give_equal_runs),
        cmocka_unit_test(test_the_load_goes_on),
        cmocka_unit_test(test_a_hundred_nodes_all_connected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
