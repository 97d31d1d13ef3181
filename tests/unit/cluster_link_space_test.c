/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of spaces over links, on the simulated fabric: that they come in order with the bytes
 * that go before them, that none is sent without a receive, that all ends once and
 * with its link, and what a peer that lies can do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/link_internal.h"
#include "fabric/sim/sim.h"
#include "support/links_side.h"
#include "support/support.h"

#define NODES     3u
#define PLACES    512u                 /* more than are on their way, or not looked at yet */
#define PLACE     256u                 /* bytes that go before a message, at most */
#define NEVER     ((nigh_status)-9999) /* no end yet */
#define WORD      sizeof(struct link_space_word)
#define HEAD      sizeof(struct link_space_head)
#define MAGIC     0x53u
#define MESSAGE   1u
#define NEWS      2u
#define ENDS_MOST 4096u

/* What a message says, and as many bytes behind it as make it as long as its number has it. */
struct said {
    uint64_t number;
    uint32_t bytes; /* that were written at the number's place */
};

struct op {
    nigh_status status;
    uint32_t ends;
};

struct node {
    struct world *world;
    uint32_t rank;
    struct fabric *fabric;
    struct links *links;
    struct fabric_memory *open, *own;
    _Alignas(64) uint8_t data[NODES][PLACES * PLACE]; /* by who writes there */
    _Alignas(64) uint8_t from[NODES][PLACES * PLACE]; /* by whom it is for */
    uint64_t said[NODES], got[NODES];
    struct op ops[ENDS_MOST];
    uint32_t op_count;
    uint32_t ups, downs;
    nigh_status reason;
    bool answers;                    /* each message with one, from inside its callback */
    uint64_t owes;                   /* of them, that there was no room for */
    bool says_at_up;                 /* as much as there is room for */
    bool is_still;                   /* it has no turns */
    struct fabric_provider provider; /* in the place of its fabric's */
    const struct fabric_provider *real;
    uint32_t refusals; /* of memory, still to come */
};

struct world {
    struct sim *sim;
    struct node *nodes[NODES];
    uint32_t serves;   /* bits: which nodes serve spaces */
    uint32_t is_there; /* bits: which nodes are there; 0: all */
};

/* ---- what is said ---------------------------------------------------------- */

static uint8_t pattern(uint32_t from, uint32_t to, uint64_t number, uint64_t at)
{
    return (uint8_t)(from * 91 + to * 57 + number * 13 + at * 7 + at / 64 + 1);
}

static uint32_t length_of(uint64_t number)
{
    return (uint32_t)(sizeof(struct said) +
                      number % (LIMIT_SPACE_MESSAGE - sizeof(struct said) + 1));
}

static struct fabric_remote place_of(const struct node *to, uint32_t from, uint64_t number)
{
    return fabric_memory_remote(to->fabric, to->open,
                                to->data[from] + number % PLACES * (uint64_t)PLACE);
}

static struct link *link_to(struct node *node, uint32_t rank)
{
    return links_find(node->links, rank, 0);
}

static void on_done(void *context, nigh_status status, uint64_t now_us)
{
    struct op *op = context;

    (void)now_us;
    op->ends++;
    op->status = status;
}

static struct op *new_op(struct node *node)
{
    struct op *op = &node->ops[node->op_count++];

    assert_true(node->op_count <= ENDS_MOST);
    *op = (struct op){.status = NEVER};
    return op;
}

/* The next to another node, with `bytes` at its place; `op` may be NULL. */
static nigh_status say_to(struct node *node, uint32_t to, uint32_t bytes, struct op *op)
{
    uint64_t number = node->said[to];
    uint8_t *from = node->from[to] + number % PLACES * PLACE;
    uint8_t text[LIMIT_SPACE_MESSAGE];
    struct said said = {.number = number, .bytes = bytes};
    struct fabric_slice slices[2] = {{from, bytes / 3, node->own},
                                     {from + bytes / 3, bytes - bytes / 3, node->own}};
    struct link_message message = {.bytes = text,
                                   .count = length_of(number),
                                   .slices = slices,
                                   .slice_count = bytes == 0 ? 0 : 2,
                                   .remote = place_of(node->world->nodes[to], node->rank, number)};
    nigh_status status;

    for (uint32_t at = 0; at < bytes; at++) {
        from[at] = pattern(node->rank, to, number, at);
    }
    for (uint32_t at = sizeof(said); at < message.count; at++) {
        text[at] = pattern(to, node->rank, number, at);
    }
    memcpy(text, &said, sizeof(said));
    status = link_space_send(link_to(node, to), &message, op == NULL ? NULL : on_done, op);
    memset(text, 0xee, sizeof(text)); /* it was taken during the call */
    node->said[to] += status == NIGH_OK;
    return status;
}

static void say(struct node *node, uint32_t to, uint32_t bytes)
{
    assert_int_equal(say_to(node, to, bytes, NULL), NIGH_OK);
}

/* Anything. */
static nigh_status say_some(struct node *node, uint32_t to)
{
    struct sim *sim = node->world->sim;
    uint32_t bytes = sim_random(sim, 2) == 0 ? 0 : (uint32_t)sim_random(sim, PLACE + 1);

    return say_to(node, to, bytes, NULL);
}

static void answer(struct node *node, uint32_t to)
{
    for (; node->owes > 0 && link_space_room(link_to(node, to)) > 0; node->owes--) {
        say(node, to, 32);
    }
}

static void on_spaced(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                      uint64_t now_us)
{
    struct node *node = context;
    uint32_t from = link_rank(link);
    uint64_t number = node->got[from]++;
    const uint8_t *written = node->data[from] + number % PLACES * PLACE;
    struct said said;

    (void)now_us;
    assert_true((uintptr_t)bytes % 8 == 0);
    assert_int_equal(count, length_of(number));
    memcpy(&said, bytes, sizeof(said));
    assert_true(said.number == number);
    for (uint32_t at = sizeof(said); at < count; at++) {
        assert_int_equal(bytes[at], pattern(node->rank, from, number, at));
    }
    for (uint32_t at = 0; at < said.bytes; at++) {
        assert_int_equal(written[at], pattern(from, node->rank, number, at));
    }
    if (node->answers) {
        node->owes++;
        answer(node, from);
    }
}

/* ---- nodes ----------------------------------------------------------------- */

static void on_up(void *context, struct link *link, uint64_t now_us)
{
    struct node *node = context;

    (void)now_us;
    node->ups++;
    while (node->says_at_up && link_space_room(link) > 0) {
        say(node, link_rank(link), 100);
    }
}

static void on_down(void *context, struct link *link, nigh_status reason, uint64_t now_us)
{
    struct node *node = context;

    (void)link;
    (void)now_us;
    node->downs++;
    node->reason = reason;
}

static struct links_config config_of(struct node *node)
{
    return (struct links_config){
        .fabric = node->fabric,
        .rank = node->rank,
        .incarnation = 1,
        .lanes = 1,
        .nodes = NODES,
        .rpc = {.requests = 4, .calls = 4, .queue = 1, .payload_bytes = 200},
        .waits = 4,
        .bulk_receives = 2,
        .bulk_bytes = 1024,
        .reads = 2,
        .serves_spaces = (node->world->serves >> node->rank & 1u) == 1,
        .seed = node->rank,
        .shell = {.context = node,
                  .up = on_up,
                  .down = on_down,
                  .request = support_no_request,
                  .bulk = support_no_bulk,
                  .spaced = on_spaced},
    };
}

static void node_open(struct world *world, uint32_t rank)
{
    struct node *node = calloc(1, sizeof(*node));
    struct links_config config;
    char address[FABRIC_ADDRESS_BYTES];

    assert_non_null(node);
    node->world = world;
    node->rank = rank;
    world->nodes[rank] = node;
    assert_int_equal(sim_fabric(world->sim, rank, 0, &node->fabric), NIGH_OK);
    (void)snprintf(address, sizeof(address), "%u:0", rank);
    assert_int_equal(fabric_listen(node->fabric, address), NIGH_OK);
    config = config_of(node);
    assert_int_equal(fabric_memory_register(node->fabric, node->data, sizeof(node->data),
                                            FABRIC_HOST, FABRIC_LOCAL_WRITE | FABRIC_REMOTE_WRITE,
                                            &node->open),
                     NIGH_OK);
    assert_int_equal(fabric_memory_register(node->fabric, node->from, sizeof(node->from),
                                            FABRIC_HOST, 0, &node->own),
                     NIGH_OK);
    assert_int_equal(links_create(&config, &node->links), NIGH_OK);
}

static void links_end(struct node *node)
{
    links_destroy(node->links);
    node->links = NULL;
    for (uint32_t n = 0; n < node->op_count; n++) {
        assert_int_equal(node->ops[n].ends, 1);
        assert_int_not_equal(node->ops[n].status, NEVER);
    }
}

static void node_close(struct node *node)
{
    if (node->links != NULL) {
        links_end(node);
    }
    fabric_destroy(node->fabric);
    node->world->nodes[node->rank] = NULL;
    free(node);
}

static void say_up(struct node *node, uint32_t rank)
{
    uint32_t both = node->world->serves >> node->rank & node->world->serves >> rank & 1u;
    struct link_peer info = {.rank = rank,
                             .incarnation = 1,
                             .dials = node->rank > rank,
                             .lanes = 1,
                             .bulk_endpoints = 2,
                             .space_endpoints = both,
                             .session = {(uint8_t)(node->rank + rank)}};

    (void)snprintf(info.addresses[0], FABRIC_ADDRESS_BYTES, "%u:0", rank);
    (void)links_peer_up(node->links, &info, sim_now_us(node->world->sim));
}

/* Turns of all until nothing is to do now. */
static void turns(struct world *world)
{
    bool worked = true;

    while (worked) {
        worked = false;
        for (uint32_t n = 0; n < NODES; n++) {
            struct node *node = world->nodes[n];

            if (node != NULL && node->links != NULL && !node->is_still) {
                worked = links_turn(node->links, sim_now_us(world->sim)) || worked;
                assert_true(links_is_valid(node->links));
            }
        }
    }
}

static uint64_t next_us(struct world *world)
{
    uint64_t due_us = sim_next_us(world->sim);

    for (uint32_t n = 0; n < NODES; n++) {
        const struct node *node = world->nodes[n];

        if (node != NULL && node->links != NULL && !node->is_still) {
            due_us = min_u64(due_us, links_due_us(node->links));
        }
    }
    return max_u64(due_us, sim_now_us(world->sim) + 1);
}

static void pass(struct world *world, uint64_t us)
{
    uint64_t end_us = sim_now_us(world->sim) + us;

    while (sim_now_us(world->sim) < end_us) {
        turns(world);
        sim_advance(world->sim, min_u64(next_us(world), end_us));
    }
    turns(world);
}

static bool is_there(const struct world *world, uint32_t rank)
{
    return world->is_there == 0 || (world->is_there >> rank & 1u) == 1;
}

static uint32_t ups_of(const struct world *world)
{
    uint32_t ups = 0;

    for (uint32_t n = 0; n < NODES; n++) {
        ups += world->nodes[n] == NULL ? 0 : world->nodes[n]->ups;
    }
    return ups;
}

static void world_open(struct world *world, const struct sim_options *options)
{
    uint32_t there = 0;

    assert_int_equal(sim_create(options, &world->sim), NIGH_OK);
    for (uint32_t n = 0; n < NODES; n++) {
        if (is_there(world, n)) {
            node_open(world, n);
            there++;
        }
    }
    for (uint32_t a = 0; a < NODES; a++) {
        for (uint32_t b = 0; b < NODES; b++) {
            if (a != b && world->nodes[a] != NULL && world->nodes[b] != NULL) {
                say_up(world->nodes[a], b);
            }
        }
    }
    for (uint32_t n = 0; n < 1000 && ups_of(world) < there * (there - 1); n++) {
        pass(world, 1000);
    }
    assert_int_equal(ups_of(world), there * (there - 1));
}

static struct world *world_of(const struct sim_options *options)
{
    struct world *world = calloc(1, sizeof(*world));

    assert_non_null(world);
    world->serves = 7;
    world_open(world, options);
    return world;
}

static void world_close(struct world *world)
{
    for (uint32_t n = 0; n < NODES; n++) {
        if (world->nodes[n] != NULL) {
            node_close(world->nodes[n]);
        }
    }
    sim_destroy(world->sim);
    free(world);
}

static void expect_all_got(const struct world *world)
{
    for (uint32_t a = 0; a < NODES; a++) {
        for (uint32_t b = 0; b < NODES; b++) {
            if (a != b) {
                assert_int_equal(world->nodes[a]->got[b], world->nodes[b]->said[a]);
            }
        }
        assert_int_equal(world->nodes[a]->downs, 0);
    }
}

static const struct links_counters *counters_of(const struct node *node)
{
    return links_counters(node->links);
}

static const struct link_space *space_of(struct node *node, uint32_t rank)
{
    return link_to(node, rank)->space;
}

/* ---- order ----------------------------------------------------------------- */

/* Of three nodes that all say as much as there is room for, by pieces of any number; one of them
 * has no writes with immediate data: messages need none. */
static void messages_come_in_order_with_their_bytes(void **state)
{
    uint64_t busy = 0, all = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct sim_options options = {
            .seed = seed, .stall_ppm = seed % 2 == 0 ? 20000 : 0, .stall_us = 3000};
        struct world *world = world_of(&options);

        world->nodes[seed % NODES]->fabric->caps.ops &= ~FABRIC_CAN_WRITE_IMM;
        for (uint32_t n = 0; n < 3000; n++) {
            uint32_t from = (uint32_t)sim_random(world->sim, NODES);
            uint32_t to = (from + 1 + (uint32_t)sim_random(world->sim, NODES - 1)) % NODES;

            busy += say_some(world->nodes[from], to) == NIGH_BUSY;
            if (sim_random(world->sim, 40) == 0) {
                pass(world, sim_random(world->sim, 100));
            }
        }
        pass(world, 1000000);
        expect_all_got(world);
        for (uint32_t n = 0; n < NODES; n++) {
            all += counters_of(world->nodes[n])->space_messages;
        }
        world_close(world);
    }
    print_message("# %llu messages, %llu found no room\n", (unsigned long long)all,
                  (unsigned long long)busy);
    assert_true(all > 12 * 2000);
}

/* What the end says is true: the slices are free, and all of it is there. */
static void an_end_says_that_it_is_there(void **state)
{
    struct sim_options options = {.seed = 5, .latency_min_us = 50, .latency_max_us = 60};
    struct world *world = world_of(&options);
    struct node *node = world->nodes[0];
    struct op *ops[4];

    (void)state;
    world->nodes[1]->is_still = true; /* nobody there needs to look */
    for (uint32_t n = 0; n < ARRAY_LENGTH(ops); n++) {
        ops[n] = new_op(node);
        assert_int_equal(say_to(node, 1, n % 2 * 100, ops[n]), NIGH_OK);
        assert_int_equal(ops[n]->ends, 0);
    }
    pass(world, 45);
    assert_int_equal(ops[0]->ends, 0);
    pass(world, 10000);
    for (uint32_t n = 0; n < ARRAY_LENGTH(ops); n++) {
        const uint8_t *there = world->nodes[1]->data[0] + n * PLACE;

        assert_int_equal(ops[n]->ends, 1);
        assert_int_equal(ops[n]->status, NIGH_OK);
        assert_int_equal(there[0], n % 2 == 1 ? pattern(0, 1, n, 0) : 0);
    }
    world->nodes[1]->is_still = false;
    pass(world, 10000);
    expect_all_got(world);
    world_close(world);
}

/* Those that nobody waits for free their places all the same. */
static void ends_that_nobody_waits_for_cost_no_places(void **state)
{
    struct sim_options options = {.seed = 6};
    struct world *world = world_of(&options);
    struct node *node = world->nodes[0];

    (void)state;
    for (uint32_t n = 0; n < 4 * LIMIT_SPACE_SENDS; n++) {
        say(node, 1, n % 2 * 50);
        if (n % 50 == 49) {
            pass(world, 1000);
        }
    }
    pass(world, 1000);
    expect_all_got(world);
    assert_true(link_space_room(link_to(node, 1)) > LIMIT_SPACE_SENDS - LINK_SIGNAL_EVERY);
    world_close(world);
}

/* ---- credits ---------------------------------------------------------------- */

/* To a node that stands still as many leave as it has receives; as many as there are places are
 * taken; and all comes when it goes on. */
static void who_stands_still_is_sent_no_more_than_it_has_room_for(void **state)
{
    struct sim_options options = {.seed = 7};
    struct world *world = world_of(&options);
    struct node *node = world->nodes[0], *to = world->nodes[1];
    uint64_t sent;

    (void)state;
    to->is_still = true;
    for (uint32_t round = 0; round < 3; round++) {
        while (link_space_room(link_to(node, 1)) > 0) {
            assert_int_equal(say_some(node, 1), NIGH_OK);
        }
        assert_int_equal(say_some(node, 1), NIGH_BUSY);
        pass(world, 100000);
        /* Half may be owed yet, as nothing was said. */
        sent = counters_of(node)->space_messages - to->got[0];
        assert_in_range(sent, LIMIT_SPACE_RECEIVES / 2, LIMIT_SPACE_RECEIVES);
        assert_true(round > 0 || sent == LIMIT_SPACE_RECEIVES);
        /* Those that arrived are no more than that; other nodes' places are others. */
        assert_true(link_space_room(link_to(node, 1)) <= LIMIT_SPACE_RECEIVES);
        assert_int_equal(link_space_room(link_to(node, 2)), LIMIT_SPACE_SENDS);
        to->is_still = false;
        pass(world, 100000);
        assert_int_equal(to->got[0], node->said[1]);
        to->is_still = true;
    }
    /* More than half each time. */
    assert_in_range(counters_of(to)->space_credits, 1, node->said[1] / (LIMIT_SPACE_RECEIVES / 2));
    expect_all_got(world);
    world_close(world);
}

/* Where each message is answered, credits go with the answers. */
static void credits_go_with_what_is_said(void **state)
{
    struct sim_options options = {.seed = 8};
    struct world *world = world_of(&options);
    struct node *node = world->nodes[0], *to = world->nodes[1];

    (void)state;
    node->fabric->caps.ops &= ~FABRIC_CAN_WRITE_IMM; /* a head goes with each */
    to->fabric->caps.ops &= ~FABRIC_CAN_WRITE_IMM;
    to->answers = true;
    for (uint32_t n = 0; n < 1000; n++) {
        say(node, 1, 0);
        pass(world, 100);
    }
    expect_all_got(world);
    assert_int_equal(node->got[1], 1000);
    assert_int_equal(counters_of(node)->space_credits + counters_of(to)->space_credits, 0);
    world_close(world);
}

/* Both at once as much as they can, each of the one's answered by the other in the same turn. */
static void two_floods_do_not_stand_still(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct sim_options options = {.seed = seed, .stall_ppm = 10000, .stall_us = 2000};
        struct world *world = world_of(&options);
        struct node *a = world->nodes[0], *b = world->nodes[1];

        b->answers = true;
        for (uint32_t n = 0; n < 3000; n++) {
            (void)say_some(a, 1);
            if (sim_random(world->sim, 100) == 0) {
                pass(world, sim_random(world->sim, 50));
            }
            answer(b, 0);
        }
        for (uint32_t n = 0; n < 1000 && (a->got[1] < b->got[0] || b->got[0] < a->said[1]); n++) {
            pass(world, 1000);
            answer(b, 0);
        }
        assert_int_equal(b->got[0], a->said[1]);
        assert_int_equal(a->got[1], b->got[0]);
        expect_all_got(world);
        world_close(world);
    }
}

/* Of the endpoint of node 1 for spaces, as its fabric sees it. */
static struct {
    struct node *node;
    struct fabric_endpoint *endpoint;
    uint64_t receives, told, chains, posts;
} seen;

static nigh_status see_receive(struct fabric_endpoint *endpoint,
                               const struct fabric_receive *receive,
                               const struct fabric_receive **bad)
{
    for (const struct fabric_receive *at = receive; at != NULL; at = at->next) {
        seen.receives += endpoint == seen.endpoint;
    }
    return seen.node->real->post_receive(endpoint, receive, bad);
}

static nigh_status see_post(struct fabric_endpoint *endpoint, const struct fabric_work *work,
                            const struct fabric_work **bad)
{
    seen.chains += endpoint == seen.endpoint;
    for (const struct fabric_work *at = work; at != NULL && endpoint == seen.endpoint;
         at = at->next) {
        struct link_space_head head;

        seen.posts++;
        if (at->op == FABRIC_SEND) {
            memcpy(&head, at->slices[0].address, sizeof(head));
            seen.told += head.credits;
        }
        assert_true(seen.told <= seen.receives);
    }
    return seen.node->real->post(endpoint, work, bad);
}

static void see(struct node *node, struct link *link)
{
    memset(&seen, 0, sizeof(seen));
    seen.node = node;
    seen.endpoint = link->sides[LINK_SPACES].endpoint;
    node->real = node->fabric->provider;
    node->provider = *node->real;
    node->provider.post_receive = see_receive;
    node->provider.post = see_post;
    node->fabric->provider = &node->provider;
}

/* Also of answers that leave in the middle of a turn, as more than one chain is needed. */
static void receives_are_there_before_the_peer_is_told(void **state)
{
    struct sim_options options = {.seed = 9};
    struct world *world = world_of(&options);
    struct node *node = world->nodes[0], *to = world->nodes[1];

    (void)state;
    to->answers = true;
    see(to, link_to(to, 0));
    for (uint32_t round = 0; round < 20; round++) {
        to->is_still = true;
        for (uint32_t n = 0; n < 100; n++) {
            say(node, 1, 0);
        }
        pass(world, 1000);
        to->is_still = false;
        pass(world, 10000);
    }
    expect_all_got(world);
    assert_true(seen.told > 1000);
    to->fabric->provider = to->real;
    world_close(world);
}

/* A message and what is written before it are one chain, and one with others of a turn. */
static void bytes_and_their_message_are_one_chain(void **state)
{
    struct sim_options options = {.seed = 10};
    struct world *world = world_of(&options);
    struct node *node = world->nodes[0];

    (void)state;
    see(node, link_to(node, 1));
    say(node, 1, 100);
    links_flush(node->links);
    assert_int_equal(seen.chains, 1);
    assert_int_equal(seen.posts, 2);
    for (uint32_t n = 0; n < 5; n++) {
        say(node, 1, 100);
    }
    pass(world, 1000);
    assert_int_equal(seen.chains, 2);
    assert_int_equal(seen.posts, 12);
    /* One that does not fit a chain that was begun goes with the next, with its bytes. */
    for (uint32_t n = 0; n < LINK_CHAIN - 1; n++) {
        say(node, 1, 0);
    }
    say(node, 1, 100);
    assert_int_equal(seen.chains, 3);
    assert_int_equal(seen.posts, 12 + LINK_CHAIN - 1);
    pass(world, 1000);
    assert_int_equal(seen.chains, 4);
    assert_int_equal(seen.posts, 12 + LINK_CHAIN + 1);
    expect_all_got(world);
    assert_int_equal(counters_of(node)->space_messages, 6 + LINK_CHAIN);
    node->fabric->provider = node->real;
    world_close(world);
}

/* What is asked for of objects in the same turn goes over endpoints of its own. */
static void reads_of_objects_keep_to_their_endpoints(void **state)
{
    struct sim_options options = {.seed = 10};
    struct world *world = world_of(&options);
    struct node *node = world->nodes[0];
    struct fabric_memory *there, *here;
    uint8_t bytes[64] = {1, 2, 3}, read[64] = {0};

    (void)state;
    assert_int_equal(fabric_memory_register(world->nodes[1]->fabric, bytes, sizeof(bytes),
                                            FABRIC_HOST, FABRIC_REMOTE_READ, &there),
                     NIGH_OK);
    assert_int_equal(fabric_memory_register(node->fabric, read, sizeof(read), FABRIC_HOST,
                                            FABRIC_LOCAL_WRITE, &here),
                     NIGH_OK);
    for (uint32_t n = 0; n < 20; n++) {
        struct fabric_slice slice = {read, sizeof(read), here};
        struct op *op = new_op(node);

        memset(read, 0, sizeof(read));
        say(node, 1, n * 5);
        assert_int_equal(link_read(link_to(node, 1), &slice, 1,
                                   fabric_memory_remote(world->nodes[1]->fabric, there, bytes),
                                   on_done, op),
                         NIGH_OK);
        say(node, 1, n * 5);
        pass(world, 1000);
        assert_int_equal(op->ends, 1);
        assert_int_equal(op->status, NIGH_OK);
        assert_memory_equal(read, bytes, sizeof(read));
    }
    expect_all_got(world);
    fabric_memory_deregister(world->nodes[1]->fabric, there);
    fabric_memory_deregister(node->fabric, here);
    world_close(world);
}

/* Who dials is up first, and says what it can at once: the other keeps it until it is up, too. */
static void what_comes_early_is_kept(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sim_options options = {.seed = seed, .latency_max_us = 2000};
        struct world *world = calloc(1, sizeof(*world));

        assert_non_null(world);
        assert_int_equal(sim_create(&options, &world->sim), NIGH_OK);
        world->serves = 7;
        for (uint32_t n = 0; n < NODES; n++) {
            node_open(world, n);
            world->nodes[n]->says_at_up = true;
        }
        for (uint32_t n = 0; n < NODES * NODES; n++) {
            if (n / NODES != n % NODES) {
                say_up(world->nodes[n / NODES], n % NODES);
            }
        }
        pass(world, 1000000);
        expect_all_got(world);
        assert_int_equal(world->nodes[0]->got[2], LIMIT_SPACE_SENDS);
        world_close(world);
    }
}

/* ---- who has none ------------------------------------------------------------ */

/* Only where both nodes serve spaces there is an endpoint, and memory. */
static void who_serves_no_spaces_has_no_endpoint(void **state)
{
    (void)state;
    for (uint32_t serves = 0; serves < 8; serves++) {
        struct sim_options options = {.seed = 11};
        struct world *world = calloc(1, sizeof(*world));
        uint64_t without;

        assert_non_null(world);
        world->serves = serves;
        world_open(world, &options);
        for (uint32_t n = 0; n < NODES * NODES; n++) {
            uint32_t a = n / NODES, b = n % NODES;
            bool both = (serves >> a & serves >> b & 1u) == 1;
            struct link *link = a == b ? NULL : link_to(world->nodes[a], b);

            if (a == b) {
                continue;
            }
            assert_non_null(link);
            assert_int_equal(link->space != NULL, both);
            assert_int_equal(link->sides[LINK_SPACES].endpoint != NULL, both);
            assert_int_equal(link_space_room(link), both ? LIMIT_SPACE_SENDS : 0);
            assert_int_equal(say_some(world->nodes[a], b), both ? NIGH_OK : NIGH_UNSUPPORTED);
        }
        pass(world, 10000);
        expect_all_got(world);
        without = links_link_bytes(world->nodes[0]->links);
        if ((serves & 1u) == 1) {
            without -= link_space_bytes();
        }
        assert_true(without < 20000); /* of the others */
        world_close(world);
    }
    print_message("# %llu bytes of a link, %zu of them receives\n",
                  (unsigned long long)link_space_bytes(), link_space_receives() * WORD);
}

/* A peer that comes back and serves none any more, and then again. */
static void memory_comes_and_goes_with_the_peer(void **state)
{
    struct sim_options options = {.seed = 12};
    struct world *world = world_of(&options);
    struct node *node = world->nodes[0];

    (void)state;
    for (uint32_t round = 0; round < 3; round++) {
        world->serves = round % 2 == 0 ? 5 : 7; /* node 1 is told, and says so */
        say_up(node, 1);
        say_up(world->nodes[1], 0);
        pass(world, 3000000);
        assert_non_null(link_to(node, 1));
        assert_int_equal(space_of(node, 1) != NULL, round % 2 == 1);
        assert_int_equal(say_some(node, 1), round % 2 == 1 ? NIGH_OK : NIGH_UNSUPPORTED);
    }
    world_close(world);
}

static struct node *refuser;

static nigh_status refuse_memory(struct fabric *fabric, void *address, uint64_t bytes,
                                 enum fabric_kind kind, uint32_t rights,
                                 struct fabric_memory **memory)
{
    if (refuser->refusals > 0) {
        refuser->refusals--;
        return NIGH_NO_RESOURCES;
    }
    return refuser->real->memory_register(fabric, address, bytes, kind, rights, memory);
}

/* A link whose memory for spaces may not be registered is made later. */
static void without_memory_it_comes_later(void **state)
{
    struct sim_options options = {.seed = 13};
    struct world *world = world_of(&options);
    struct node *node = world->nodes[0];

    (void)state;
    world->serves = 5;
    say_up(node, 1);
    say_up(world->nodes[1], 0);
    pass(world, 1000000);
    refuser = node;
    node->real = node->fabric->provider;
    node->provider = *node->real;
    node->provider.memory_register = refuse_memory;
    node->fabric->provider = &node->provider;
    node->refusals = 2;
    world->serves = 7;
    say_up(world->nodes[1], 0);
    say_up(node, 1);
    assert_true(links_is_valid(node->links));
    assert_null(link_to(node, 1));
    pass(world, 5 * LINK_OWED_US);
    assert_int_equal(node->refusals, 0);
    assert_non_null(link_to(node, 1));
    say(node, 1, 100);
    node->fabric->provider = node->real;
    pass(world, 1000);
    assert_int_equal(world->nodes[1]->got[0], 1);
    world_close(world);
}

/* A lane that does not serve rail 0 has none, and a link of another rail has none. */
static void only_rail_0_has_one(void **state)
{
    struct sim_options options = {.seed = 14};
    struct world *world = world_of(&options);
    struct node *node = world->nodes[0];
    struct links_config config = config_of(node);
    struct link_peer info = {
        .rank = 1, .incarnation = 1, .lanes = 4, .bulk_endpoints = 1, .space_endpoints = 1};
    struct links *links;

    (void)state;
    assert_int_equal(links_create(&config, &links), NIGH_OK);
    assert_int_equal(links_peer_up(links, &info, 0), NIGH_OK);
    for (uint32_t n = 0; n < 4; n++) {
        assert_int_equal(links->peers[1].links[n].space != NULL, n == 0);
        assert_int_equal(link_has(&links->peers[1].links[n], LINK_SPACES), n == 0);
    }
    links_destroy(links);
    config.lanes = 2;
    config.lane = 1;
    assert_int_equal(links_create(&config, &links), NIGH_OK);
    assert_int_equal(links_peer_up(links, &info, 0), NIGH_OK);
    assert_null(links->peers[1].links[0].space);
    assert_true(links_link_bytes(links) < links_link_bytes(node->links));
    info.space_endpoints = 2;
    assert_int_equal(links_peer_up(links, &info, 0), NIGH_INVALID);
    links_destroy(links);
    config.shell.spaced = NULL;
    assert_int_equal(links_create(&config, &links), NIGH_INVALID);
    config.serves_spaces = false;
    assert_int_equal(links_create(&config, &links), NIGH_OK);
    links_destroy(links);
    world_close(world);
}

/* ---- nonsense that is asked for ---------------------------------------------- */

static void nonsense_costs_nothing(void **state)
{
    struct sim_options options = {.seed = 15};
    struct world *world = world_of(&options);
    struct node *node = world->nodes[0];
    struct link *link = link_to(node, 1);
    struct fabric_slice slices[3];
    uint8_t text[LIMIT_SPACE_MESSAGE + 1] = {0};
    struct link_message good = {.bytes = text,
                                .count = 1,
                                .slices = slices,
                                .slice_count = 2,
                                .remote = place_of(world->nodes[1], 0, 0)};
    struct link_message bad;

    (void)state;
    for (uint32_t n = 0; n < ARRAY_LENGTH(slices); n++) {
        slices[n] = (struct fabric_slice){node->from[1], 8, node->own};
    }
#define REFUSED(change)                                                          \
    do {                                                                         \
        bad = good;                                                              \
        change;                                                                  \
        assert_int_equal(link_space_send(link, &bad, NULL, NULL), NIGH_INVALID); \
    } while (0)
    REFUSED(bad.count = 0);
    REFUSED(bad.count = LIMIT_SPACE_MESSAGE + 1);
    REFUSED(bad.slice_count = LINK_SPACE_SLICES + 1);
    REFUSED(slices[1].memory = NULL);
    slices[1].memory = node->own;
    REFUSED(slices[1].bytes = LIMIT_FABRIC_MESSAGE);
    REFUSED(slices[1].bytes = UINT64_MAX);
    slices[1].bytes = 8;
    pass(world, 1000);
    assert_int_equal(node->downs + world->nodes[1]->downs, 0);
    assert_int_equal(link_space_room(link), LIMIT_SPACE_SENDS);
    link_break(link, NIGH_TIMEOUT, 0);
    assert_int_equal(link_space_send(link, &good, NULL, NULL), NIGH_PEER_LOST);
    assert_int_equal(link_space_room(link), 0);
    world_close(world);
}

/* ---- ends --------------------------------------------------------------------- */

static const struct op *borrower; /* of memory, until the endpoint is gone */
static uint32_t destroyed;

static void destroy_before_the_end(struct fabric_endpoint *endpoint)
{
    destroyed += endpoint == seen.endpoint;
    assert_int_equal(borrower->ends, 0);
    assert_int_equal(seen.node->downs, 0);
    seen.node->real->endpoint_destroy(endpoint);
}

/* Whoever gets an end, or hears that the link is down, may use the memory for something else: the
 * link's endpoints are all gone. */
static void nothing_ends_before_the_endpoints_are_gone(void **state)
{
    (void)state;
    for (uint32_t waits = 0; waits < 2; waits++) {
        struct sim_options options = {.seed = 16};
        struct world *world = world_of(&options);
        struct node *node = world->nodes[1];
        struct link *link = link_to(node, 0);
        struct op *op = new_op(node);

        world->nodes[0]->is_still = true;
        for (uint32_t n = 0; n < waits * LIMIT_SPACE_RECEIVES; n++) {
            say(node, 0, 0);
        }
        assert_int_equal(say_to(node, 0, 100, op), NIGH_OK);
        borrower = op;
        see(node, link);
        node->provider.endpoint_destroy = destroy_before_the_end;
        destroyed = 0;
        fabric_disconnect(node->fabric, link->sides[LINK_SPACES].endpoint);
        turns(world);
        node->fabric->provider = node->real;
        assert_int_equal(destroyed, 1);
        assert_int_equal(op->ends, 1);
        assert_int_equal(op->status, NIGH_PEER_LOST);
        assert_int_equal(node->downs, 1);
        world_close(world);
    }
}

/* Memory that is not open to the peer: the link goes down, on both sides, and comes up again with
 * all its credits. */
static void what_is_refused_takes_the_link_down(void **state)
{
    const uint32_t all = LIMIT_SPACE_SENDS - LINK_SIGNAL_EVERY;

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct sim_options options = {.seed = seed};
        struct world *world = world_of(&options);
        struct node *node = world->nodes[seed % 2], *to = world->nodes[1 - seed % 2];
        struct link_message message = {.bytes = "x", .count = 1};
        struct op *before = new_op(node), *op = new_op(node), *behind = new_op(node);

        assert_int_equal(say_to(node, to->rank, 0, before), NIGH_OK);
        message.remote = place_of(to, node->rank, 0);
        message.remote.key ^= 0x55aa;
        message.slices = &(struct fabric_slice){node->from[0], 8, node->own};
        message.slice_count = 1;
        assert_int_equal(link_space_send(link_to(node, to->rank), &message, on_done, op), NIGH_OK);
        assert_int_equal(say_to(node, to->rank, 0, behind), NIGH_OK);
        pass(world, 2000);
        assert_true(before->status == NIGH_OK || before->status == NIGH_PEER_LOST);
        assert_int_equal(op->status, NIGH_PEER_LOST);
        assert_int_equal(behind->status, NIGH_PEER_LOST);
        assert_int_equal(node->downs, 1);
        assert_int_equal(world->nodes[2]->downs, 0);
        pass(world, 3000000);
        node->said[to->rank] = to->got[node->rank] = 0;
        to->said[node->rank] = node->got[to->rank] = 0;
        say(to, node->rank, 10); /* which gives back what came over this link alone */
        pass(world, 1000);
        assert_int_equal(node->got[to->rank], 1);
        for (uint32_t n = 0; n < all; n++) {
            say(node, to->rank, 10);
            say(to, node->rank, 10);
        }
        pass(world, 100000);
        assert_int_equal(to->got[node->rank], all);
        assert_int_equal(node->got[to->rank], 1 + all);
        assert_int_equal(node->downs, 1);
        world_close(world);
    }
}

enum fate {
    FATE_BREAK = 0,
    FATE_BREAK_THERE,
    FATE_PEER_DOWN,
    FATE_CRASH,
    FATE_DESTROY,
    FATE_ENDPOINT, /* that for spaces ends here */
    FATES
};

static void meet(struct world *world, struct node *node, struct node *to, enum fate fate)
{
    switch (fate) {
    case FATE_BREAK: link_break(link_to(node, to->rank), NIGH_TIMEOUT, 0); break;
    case FATE_BREAK_THERE: link_break(link_to(to, node->rank), NIGH_TIMEOUT, 0); break;
    case FATE_PEER_DOWN:
        links_peer_down(node->links, to->rank, NIGH_PEER_LOST, sim_now_us(world->sim));
        break;
    case FATE_CRASH:
        sim_crash(world->sim, to->rank);
        node_close(to);
        break;
    case FATE_ENDPOINT:
        fabric_disconnect(node->fabric, link_to(node, to->rank)->sides[LINK_SPACES].endpoint);
        break;
    default: links_end(node); break;
    }
}

/* Posted, behind credits, or in a chain that is not posted yet: each ends once, with the reason
 * that the link ended for, and those that ended well are a beginning of all. */
static void each_ends_once(void **state)
{
    static const nigh_status reasons[FATES] = {NIGH_TIMEOUT,   NIGH_PEER_LOST, NIGH_PEER_LOST,
                                               NIGH_PEER_LOST, NIGH_CANCELED,  NIGH_PEER_LOST};
    uint32_t lost = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 20ull * FATES; seed++) {
        struct sim_options options = {.seed = seed};
        struct world *world = world_of(&options);
        struct node *node = world->nodes[seed % 2], *to = world->nodes[1 - seed % 2];
        enum fate fate = (enum fate)(seed % FATES);
        bool all_good = true;

        to->is_still = seed % 3 == 0;
        for (uint32_t n = 0; n < 200; n++) {
            struct op *op = new_op(node);

            assert_int_equal(say_to(node, to->rank, n % 3 * 50, op), NIGH_OK);
            if (sim_random(world->sim, 10) == 0) {
                pass(world, sim_random(world->sim, 20));
            }
        }
        to->is_still = false;
        meet(world, node, to, fate);
        pass(world, SIM_KEEPALIVE_US + 1000000);
        for (uint32_t n = 0; n < node->op_count; n++) {
            const struct op *op = &node->ops[n];

            assert_int_equal(op->ends, 1);
            if (op->status == NIGH_OK) {
                assert_true(all_good);
                continue;
            }
            all_good = false;
            lost++;
            assert_true(op->status == reasons[fate] ||
                        (fate == FATE_CRASH && op->status == NIGH_TIMEOUT));
        }
        world_close(world);
    }
    print_message("# %u were lost\n", lost);
    assert_true(lost > 1000);
}

/* ---- peers that lie ------------------------------------------------------------ */

/* Rank 1 by hand, with rank 0 and rank 2 as they are. */
struct liar {
    struct world *world;
    struct fabric *fabric;
    struct fabric_endpoint *endpoints[LINK_ENDPOINTS];
    struct fabric_memory *memory;
    uint8_t receives[256][WORD];
};

static struct fabric_endpoint *dial(struct liar *liar, enum link_endpoint kind)
{
    struct fabric_endpoint_options options = {.sends = 300, .receives = 256};
    struct auth_token token = {
        .kind = (uint8_t)kind, .rank = 1, .incarnation = 1, .target_incarnation = 1, .serial = 1};
    static const uint8_t session[AUTH_KEY_BYTES] = {1};
    struct fabric_endpoint *endpoint;
    struct fabric_event event;

    auth_token_sign(&token, session);
    assert_int_equal(
        fabric_connect(liar->fabric, "0:0", &options, &token, (uint32_t)sizeof(token), &endpoint),
        NIGH_OK);
    for (uint32_t n = 0; n < sizeof(liar->receives) / WORD; n++) {
        struct fabric_receive receive = {
            .tag = n,
            .slice = {.address = liar->receives[n], .bytes = WORD, .memory = liar->memory}};

        assert_int_equal(fabric_post_receive(liar->fabric, endpoint, &receive, NULL), NIGH_OK);
    }
    pass(liar->world, 2000);
    assert_true(fabric_next_event(liar->fabric, &event));
    assert_int_equal(event.kind, FABRIC_ESTABLISHED);
    return endpoint;
}

static void liar_open(struct liar *liar, uint64_t seed)
{
    struct sim_options options = {.seed = seed};
    struct world *world = calloc(1, sizeof(*world));

    assert_non_null(world);
    memset(liar, 0, sizeof(*liar));
    liar->world = world;
    world->serves = 7;
    world->is_there = 5;
    world_open(world, &options);
    assert_int_equal(sim_fabric(world->sim, 1, 0, &liar->fabric), NIGH_OK);
    assert_int_equal(fabric_memory_register(liar->fabric, liar->receives, sizeof(liar->receives),
                                            FABRIC_HOST, FABRIC_LOCAL_WRITE, &liar->memory),
                     NIGH_OK);
    say_up(world->nodes[0], 1);
    for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
        if (kind == LINK_CONTROL || kind == LINK_BULK || kind == LINK_READS ||
            kind == LINK_SPACES) {
            liar->endpoints[kind] = dial(liar, kind);
        }
    }
    assert_non_null(link_to(world->nodes[0], 1));
}

static void liar_close(struct liar *liar)
{
    fabric_destroy(liar->fabric);
    world_close(liar->world);
}

static void liar_says(struct liar *liar, const void *bytes, uint32_t count)
{
    struct fabric_slice slice = {.address = (void *)(uintptr_t)bytes, .bytes = count};
    struct fabric_work work = {
        .op = FABRIC_SEND, .flags = FABRIC_INLINE, .slices = &slice, .slice_count = count > 0};

    (void)fabric_post(liar->fabric, liar->endpoints[LINK_SPACES], &work, NULL);
}

static void liar_passes(struct liar *liar, uint64_t us)
{
    struct fabric_completion completions[64];

    pass(liar->world, us);
    (void)fabric_poll(liar->fabric, completions, 64, sim_now_us(liar->world->sim));
}

static struct link_space_word word_for(uint64_t number)
{
    struct link_space_word word = {.head = {.magic = MAGIC, .kind = MESSAGE, .bytes = 16}};
    struct said said = {.number = number};

    memcpy(word.bytes, &said, sizeof(said));
    return word;
}

/* It ends the link, and nothing else; what came before it was told, and of itself nothing. */
static void expect_the_end(struct liar *liar, uint64_t told)
{
    struct node *node = liar->world->nodes[0];

    liar_passes(liar, 5000);
    assert_int_equal(node->got[1], told);
    assert_int_equal(node->downs, 1);
    assert_int_equal(node->reason, NIGH_PROTOCOL);
    assert_int_equal(liar->world->nodes[2]->downs, 0);
    say(node, 2, 10);
    pass(liar->world, 1000);
    assert_int_equal(liar->world->nodes[2]->got[0], 1);
}

struct lie {
    const char *what;
    struct link_space_head head;
    uint32_t bytes; /* behind the head */
};

static void lies_end_the_link_and_nothing_else(void **state)
{
    static const struct lie lies[] = {
        {"another magic", {MAGIC + 1, MESSAGE, 0, 16}, 16},
        {"no kind", {MAGIC, 0, 0, 16}, 16},
        {"an unknown kind", {MAGIC, NEWS + 1, 0, 16}, 16},
        {"empty", {MAGIC, MESSAGE, 0, 0}, 0},
        {"shorter than it says", {MAGIC, MESSAGE, 0, 17}, 16},
        {"longer than it says", {MAGIC, MESSAGE, 0, 15}, 16},
        {"credits that were not used", {MAGIC, MESSAGE, 1, 16}, 16},
        {"no news", {MAGIC, NEWS, 0, 0}, 0},
        {"news that were not used", {MAGIC, NEWS, LIMIT_SPACE_RECEIVES, 0}, 0},
    };

    (void)state;
    for (uint32_t n = 0; n < ARRAY_LENGTH(lies); n++) {
        struct link_space_word word = word_for(1), good = word_for(0);
        struct liar liar;

        liar_open(&liar, n);
        liar_says(&liar, &good, HEAD + 16);
        word.head = lies[n].head;
        liar_says(&liar, &word, (uint32_t)HEAD + lies[n].bytes);
        expect_the_end(&liar, 1);
        liar_close(&liar);
    }
    for (uint32_t bytes = 0; bytes < HEAD; bytes++) {
        struct link_space_word word = word_for(0);
        struct liar liar;

        liar_open(&liar, bytes);
        liar_says(&liar, &word, bytes);
        expect_the_end(&liar, 0);
        liar_close(&liar);
    }
}

/* As the fabric has it, which refuses what does not fit a receive. */
static void one_that_is_too_long_ends_the_link(void **state)
{
    uint8_t bytes[WORD + 1] = {MAGIC, MESSAGE};
    struct liar liar;

    (void)state;
    liar_open(&liar, 1);
    liar_says(&liar, bytes, sizeof(bytes));
    liar_passes(&liar, 5000);
    assert_int_equal(liar.world->nodes[0]->downs, 1);
    assert_int_equal(liar.world->nodes[2]->downs, 0);
    assert_int_equal(liar.world->nodes[0]->got[1], 0);
    liar_close(&liar);
}

/* News of half, or of more than is owed; of what is owed they are right. */
static void news_are_looked_at(void **state)
{
    (void)state;
    for (uint32_t credits = LIMIT_SPACE_RECEIVES / 2; credits <= 101; credits++) {
        struct link_space_head head = {.magic = MAGIC, .kind = NEWS, .credits = (uint16_t)credits};
        bool is_right = credits > LIMIT_SPACE_RECEIVES / 2 && credits <= 100;
        struct liar liar;
        struct node *node;

        liar_open(&liar, credits);
        node = liar.world->nodes[0];
        liar.world->nodes[1] = node; /* whose memory does not matter */
        for (uint32_t n = 0; n < 100; n++) {
            say(node, 1, 0);
        }
        liar.world->nodes[1] = NULL;
        liar_passes(&liar, 5000);
        liar_says(&liar, &head, sizeof(head));
        liar_passes(&liar, 5000);
        assert_int_equal(node->downs, is_right ? 0 : 1);
        if (is_right) {
            assert_int_equal(space_of(node, 1)->credits, LIMIT_SPACE_RECEIVES - 100 + credits);
        }
        liar_close(&liar);
    }
}

/* The first one more takes the receive that is there for its own news; then there is none. */
static void who_sends_without_a_credit_is_found_out(void **state)
{
    struct liar liar;

    (void)state;
    liar_open(&liar, 3);
    liar.world->nodes[0]->is_still = true;
    for (uint32_t n = 0; n < LIMIT_SPACE_RECEIVES + 2; n++) {
        struct link_space_word word = word_for(n);

        word.head.bytes = length_of(n);
        for (uint32_t at = sizeof(struct said); at < word.head.bytes; at++) {
            word.bytes[at] = pattern(0, 1, n, at);
        }
        liar_says(&liar, &word, (uint32_t)HEAD + word.head.bytes);
    }
    pass(liar.world, 5000);
    liar.world->nodes[0]->is_still = false;
    liar_passes(&liar, 5000);
    assert_true(liar.world->nodes[0]->got[1] <= LIMIT_SPACE_RECEIVES + 1);
    assert_int_equal(liar.world->nodes[0]->downs, 1);
    assert_int_equal(liar.world->nodes[2]->downs, 0);
    liar_close(&liar);
}

/* A write with an immediate, of nothing and of what a message would be: nobody is told of any, also
 * where a message lies in the receive that it takes. */
static void writes_with_immediates_end_the_link(void **state)
{
    static const enum link_endpoint over[] = {LINK_SPACES, LINK_SPACES, LINK_CONTROL};

    (void)state;
    for (uint32_t n = 0; n < ARRAY_LENGTH(over); n++) {
        struct link_space_word word = word_for(0);
        struct fabric_slice slice = {.address = &word, .bytes = HEAD + 16};
        struct fabric_work work = {
            .op = FABRIC_WRITE_IMM, .flags = FABRIC_INLINE, .slices = &slice, .slice_count = n > 0};
        struct liar liar;

        liar_open(&liar, n);
        for (uint32_t at = 0; at < LIMIT_SPACE_RECEIVES + 1; at++) {
            space_of(liar.world->nodes[0], 1)->words[at] = word;
        }
        work.remote = place_of(liar.world->nodes[0], 1, 0);
        (void)fabric_post(liar.fabric, liar.endpoints[over[n]], &work, NULL);
        expect_the_end(&liar, 0);
        liar_close(&liar);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_in_order_with_their_bytes),
        cmocka_unit_test(an_end_says_that_it_is_there),
        cmocka_unit_test(ends_that_nobody_waits_for_cost_no_places),
        cmocka_unit_test(who_stands_still_is_sent_no_more_than_it_has_room_for),
        cmocka_unit_test(credits_go_with_what_is_said),
        cmocka_unit_test(two_floods_do_not_stand_still),
        cmocka_unit_test(receives_are_there_before_the_peer_is_told),
        cmocka_unit_test(bytes_and_their_message_are_one_chain),
        cmocka_unit_test(reads_of_objects_keep_to_their_endpoints),
        cmocka_unit_test(what_comes_early_is_kept),
        cmocka_unit_test(who_serves_no_spaces_has_no_endpoint),
        cmocka_unit_test(memory_comes_and_goes_with_the_peer),
        cmocka_unit_test(without_memory_it_comes_later),
        cmocka_unit_test(only_rail_0_has_one),
        cmocka_unit_test(nonsense_costs_nothing),
        cmocka_unit_test(nothing_ends_before_the_endpoints_are_gone),
        cmocka_unit_test(what_is_refused_takes_the_link_down),
        cmocka_unit_test(each_ends_once),
        cmocka_unit_test(lies_end_the_link_and_nothing_else),
        cmocka_unit_test(one_that_is_too_long_ends_the_link),
        cmocka_unit_test(news_are_looked_at),
        cmocka_unit_test(who_sends_without_a_credit_is_found_out),
        cmocka_unit_test(writes_with_immediates_end_the_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
