/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WRITEs and atomics of links, over the simulated fabric: where they land, in which order they act,
 * what is refused, and that each ends once whatever becomes of its link, and acts at most once. And
 * that their endpoints fail alone, and come back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/link_internal.h"
#include "fabric/sim/sim.h"
#include "support/links_side.h"
#include "support/support.h"

#define NODES      3u
#define DATA_BYTES 131072u
#define OPS        512u
#define SLOT       192u /* of an operation, in its node's own memory and at the target */
#define BULK       4u
#define READS      3u
#define WRITES     16u
#define NEVER      ((nigh_status)-9999) /* no end yet */

enum op_kind {
    OP_WRITE = 0,
    OP_ADD,
    OP_SWAP,
    OP_KINDS
};

struct op {
    struct node *node;
    enum op_kind kind; /* of begin_some */
    enum link_endpoint over;
    nigh_status status; /* NEVER: under way */
    uint64_t old;
    uint32_t ends;
};

struct node {
    struct world *world;
    uint32_t rank, incarnation;
    struct fabric *fabric;
    struct links *links; /* NULL: it is gone */
    struct fabric_memory *open, *own;
    _Alignas(64) uint8_t data[DATA_BYTES];  /* that peers may use */
    _Alignas(64) uint8_t slots[OPS * SLOT]; /* its own */
    struct op ops[OPS];
    uint32_t op_count;
    uint32_t ups, downs, messages;
    nigh_status reason;
    void (*after_turn)(struct node *node);
    struct fabric_provider provider; /* in the place of its fabric's, whose calls fail: refuse */
    const struct fabric_provider *real;
    uint32_t refusals; /* of dials, or of accepts, still to come */
};

struct world {
    struct sim *sim;
    struct node *nodes[NODES];
    uint32_t bulk_endpoints;
    uint32_t region_endpoints;
};

/* ---- operations ----------------------------------------------------------- */

static struct op *new_op(struct node *node)
{
    struct op *op = &node->ops[node->op_count++];

    assert_true(node->op_count <= OPS);
    *op = (struct op){.node = node, .status = NEVER};
    return op;
}

static void on_done(void *context, nigh_status status, uint64_t now_us)
{
    struct op *op = context;

    (void)now_us;
    op->ends++;
    op->status = status;
}

static void on_word(void *context, nigh_status status, uint64_t old, uint64_t now_us)
{
    struct op *op = context;

    on_done(op, status, now_us);
    op->old = old;
}

static struct link *link_to(struct node *node, uint32_t rank)
{
    return links_find(node->links, rank, 0);
}

static struct fabric_remote remote_of(const struct node *node, uint64_t offset)
{
    return fabric_memory_remote(node->fabric, node->open, node->data + offset);
}

static struct fabric_slice slice_of(struct node *node, uint64_t offset, uint64_t bytes)
{
    return (struct fabric_slice){node->slots + offset, bytes, node->own};
}

/* One slice of the node's own memory. */
static struct op *write_one(struct node *node, const struct node *to, uint64_t from,
                            uint64_t offset, uint64_t bytes)
{
    struct fabric_slice slice = slice_of(node, from, bytes);
    struct op *op = new_op(node);

    assert_int_equal(link_write(link_to(node, to->rank), LINK_REGIONS, &slice, 1,
                                remote_of(to, offset), on_done, op),
                     NIGH_OK);
    return op;
}

static struct op *add_to(struct node *node, const struct node *to, uint64_t offset, uint64_t added)
{
    struct op *op = new_op(node);

    assert_int_equal(link_fetch_add(link_to(node, to->rank), LINK_REGIONS, remote_of(to, offset),
                                    added, on_word, op),
                     NIGH_OK);
    return op;
}

static struct op *swap_at(struct node *node, const struct node *to, uint64_t offset,
                          uint64_t compare, uint64_t swap)
{
    struct op *op = new_op(node);

    assert_int_equal(link_compare_swap(link_to(node, to->rank), LINK_REGIONS, remote_of(to, offset),
                                       compare, swap, on_word, op),
                     NIGH_OK);
    return op;
}

static uint64_t word_at(const struct node *node, uint64_t offset)
{
    uint64_t word;

    memcpy(&word, node->data + offset, sizeof(word));
    return word;
}

/* ---- nodes ---------------------------------------------------------------- */

static void on_up(void *context, struct link *link, uint64_t now_us)
{
    struct node *node = context;

    (void)link;
    (void)now_us;
    node->ups++;
}

static void on_down(void *context, struct link *link, nigh_status reason, uint64_t now_us)
{
    struct node *node = context;

    (void)link;
    (void)now_us;
    node->downs++;
    node->reason = reason;
}

static void on_bulk(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                    uint64_t now_us)
{
    struct node *node = context;

    (void)link;
    (void)bytes;
    (void)count;
    (void)now_us;
    node->messages++;
}

/* It is never answered. */
static void on_request(void *context, struct link *link, const struct rpc_request *request,
                       uint64_t now_us)
{
    (void)context;
    (void)link;
    (void)request;
    (void)now_us;
}

static void on_reply(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                     uint64_t now_us)
{
    (void)payload;
    (void)bytes;
    on_done(context, status, now_us);
}

static struct links_config config_of(struct node *node, uint32_t writes)
{
    return (struct links_config){
        .fabric = node->fabric,
        .rank = node->rank,
        .incarnation = node->incarnation,
        .lanes = 1,
        .nodes = NODES,
        .rpc = {.requests = 4, .calls = 4, .queue = 1, .payload_bytes = 200},
        .waits = 4,
        .bulk_receives = BULK,
        .bulk_bytes = 1024,
        .reads = READS,
        .writes = writes,
        .seed = node->rank,
        .shell =
            {.context = node, .up = on_up, .down = on_down, .request = on_request, .bulk = on_bulk},
    };
}

static void node_open(struct world *world, uint32_t rank, uint32_t writes, bool is_open)
{
    struct node *node = calloc(1, sizeof(*node));
    struct links_config config;
    char address[FABRIC_ADDRESS_BYTES];

    *node = (struct node){.world = world, .rank = rank, .incarnation = 1};
    world->nodes[rank] = node;
    assert_int_equal(sim_fabric(world->sim, rank, 0, &node->fabric), NIGH_OK);
    (void)snprintf(address, sizeof(address), "%u:0", rank);
    assert_int_equal(fabric_listen(node->fabric, address), NIGH_OK);
    config = config_of(node, writes);
    assert_int_equal(fabric_memory_register(node->fabric, node->data, DATA_BYTES, FABRIC_HOST,
                                            is_open ? links_rights(&config) : FABRIC_REMOTE_READ,
                                            &node->open),
                     NIGH_OK);
    assert_int_equal(fabric_memory_register(node->fabric, node->slots, sizeof(node->slots),
                                            FABRIC_HOST, FABRIC_LOCAL_WRITE, &node->own),
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
    struct link_peer info = {.rank = rank,
                             .incarnation = 1,
                             .dials = node->rank > rank,
                             .lanes = 1,
                             .bulk_endpoints = node->world->bulk_endpoints,
                             .region_endpoints = node->world->region_endpoints,
                             .session = {(uint8_t)(node->rank + rank)}};

    (void)snprintf(info.addresses[0], FABRIC_ADDRESS_BYTES, "%u:0", rank);
    assert_int_equal(links_peer_up(node->links, &info, sim_now_us(node->world->sim)), NIGH_OK);
}

static void all_see_all(struct world *world)
{
    for (uint32_t a = 0; a < NODES; a++) {
        for (uint32_t b = 0; b < NODES; b++) {
            if (a != b) {
                say_up(world->nodes[a], b);
            }
        }
    }
}

/* Turns of all until nothing is to do now. */
static void turns(struct world *world)
{
    bool worked = true;

    while (worked) {
        worked = false;
        for (uint32_t n = 0; n < NODES; n++) {
            struct node *node = world->nodes[n];

            if (node != NULL && node->links != NULL) {
                worked = links_turn(node->links, sim_now_us(world->sim)) || worked;
                assert_true(links_is_valid(node->links));
                if (node->after_turn != NULL) {
                    node->after_turn(node);
                }
            }
        }
    }
}

static uint64_t next_us(struct world *world)
{
    uint64_t due_us = sim_next_us(world->sim);

    for (uint32_t n = 0; n < NODES; n++) {
        if (world->nodes[n] != NULL && world->nodes[n]->links != NULL) {
            due_us = min_u64(due_us, links_due_us(world->nodes[n]->links));
        }
    }
    return max_u64(due_us, sim_now_us(world->sim) + 1);
}

/* One thing more happens, before `end_us`. */
static bool step(struct world *world, uint64_t end_us)
{
    uint64_t at_us;

    turns(world);
    at_us = next_us(world);
    sim_advance(world->sim, min_u64(at_us, end_us));
    turns(world);
    return at_us < end_us;
}

static void pass(struct world *world, uint64_t us)
{
    uint64_t end_us = sim_now_us(world->sim) + us;

    while (step(world, end_us)) {
    }
}

/* Rank 0 lets peers write or not. */
static struct world *world_open_of(const struct sim_options *options, uint32_t bulk_endpoints,
                                   uint32_t writes, bool is_open)
{
    struct world *world = calloc(1, sizeof(*world));

    world->bulk_endpoints = bulk_endpoints;
    world->region_endpoints = 2;
    assert_int_equal(sim_create(options, &world->sim), NIGH_OK);
    for (uint32_t n = 0; n < NODES; n++) {
        node_open(world, n, writes, is_open || n > 0);
    }
    all_see_all(world);
    for (uint32_t n = 0; n < 1000 && options->break_ppm == 0 && world->nodes[0]->ups < 2; n++) {
        pass(world, 1000);
    }
    return world;
}

static struct world *world_open(const struct sim_options *options)
{
    return world_open_of(options, 1, WRITES, true);
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

static void fill(uint8_t *bytes, uint64_t count, uint64_t seed)
{
    for (uint64_t n = 0; n < count; n++) {
        bytes[n] = (uint8_t)(seed * 31 + n * 7 + n / 251 + 1);
    }
}

/* ---- where they land ------------------------------------------------------ */

static void writes_land_and_nothing_beside(void **state)
{
    static const uint64_t sizes[] = {1, 8, 64, 65, 4096, 70001};
    struct sim_options options = {.seed = 1};
    struct world *world = world_open(&options);
    struct node *node = world->nodes[0], *to = world->nodes[1];
    const struct links_counters *counters = links_counters(node->links);
    uint64_t bytes = 0;

    (void)state;
    for (uint32_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        struct op *op;

        fill(node->slots + 3, sizes[i], i);
        op = write_one(node, to, 3, 101 + i, sizes[i]);
        assert_int_equal(op->ends, 0);
        pass(world, 100000);
        assert_int_equal(op->status, NIGH_OK);
        assert_memory_equal(to->data + 101 + i, node->slots + 3, sizes[i]);
        assert_int_equal(to->data[100 + i], 0);
        assert_int_equal(to->data[101 + i + sizes[i]], 0);
        memset(to->data, 0, DATA_BYTES);
        bytes += sizes[i];
    }
    assert_int_equal(counters->writes, ARRAY_LENGTH(sizes));
    assert_int_equal(counters->write_bytes, bytes);
    assert_int_equal(node->downs, 0);
    world_close(world);
}

/* The first slice may be taken during the call, and slices are gathered in their order. */
static void the_first_bytes_are_taken_at_once(void **state)
{
    struct sim_options options = {.seed = 2};
    struct world *world = world_open(&options);
    struct node *node = world->nodes[0], *to = world->nodes[1];
    uint8_t head[LINK_HEAD_BYTES], kept[LINK_HEAD_BYTES];
    struct fabric_slice slices[3] = {{head, sizeof(head), NULL}};
    struct op *alone = new_op(node), *more = new_op(node);

    (void)state;
    fill(head, sizeof(head), 3);
    memcpy(kept, head, sizeof(head));
    fill(node->slots, 4096, 4);
    slices[1] = slice_of(node, 1000, 500);
    slices[2] = slice_of(node, 0, 700);
    assert_int_equal(
        link_write(link_to(node, 1), LINK_REGIONS, slices, 1, remote_of(to, 0), on_done, alone),
        NIGH_OK);
    assert_int_equal(
        link_write(link_to(node, 1), LINK_REGIONS, slices, 3, remote_of(to, 4096), on_done, more),
        NIGH_OK);
    memset(head, 0, sizeof(head));
    pass(world, 100000);
    assert_int_equal(alone->status, NIGH_OK);
    assert_int_equal(more->status, NIGH_OK);
    assert_memory_equal(to->data, kept, sizeof(kept));
    assert_memory_equal(to->data + 4096, kept, sizeof(kept));
    assert_memory_equal(to->data + 4096 + 64, node->slots + 1000, 500);
    assert_memory_equal(to->data + 4096 + 564, node->slots, 700);
    world_close(world);
}

/* Two nodes change words of a third: nobody's change is lost, and each is told what was there. */
static void atomics_of_many_are_exact(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sim_options options = {.seed = seed, .late_read_ppm = 300000};
        struct world *world = world_open(&options);
        bool given[200] = {false};
        struct op *ops[200], *swap;

        for (uint32_t n = 0; n < 200; n++) {
            ops[n] = add_to(world->nodes[1 + n % 2], world->nodes[0], 64, 1);
            if (n % 20 == 19) {
                pass(world, 100000);
            }
        }
        assert_int_equal(word_at(world->nodes[0], 64), 200);
        for (uint32_t n = 0; n < 200; n++) {
            assert_int_equal(ops[n]->status, NIGH_OK);
            assert_true(ops[n]->old < 200 && !given[ops[n]->old]);
            given[ops[n]->old] = true;
        }
        swap = swap_at(world->nodes[1], world->nodes[0], 64, 199, 7);
        pass(world, 100000);
        assert_int_equal(swap->old, 200);
        assert_int_equal(word_at(world->nodes[0], 64), 200);
        swap = swap_at(world->nodes[1], world->nodes[0], 64, 200, 7);
        pass(world, 100000);
        assert_int_equal(swap->old, 200);
        assert_int_equal(word_at(world->nodes[0], 64), 7);
        assert_int_equal(word_at(world->nodes[0], 56) + word_at(world->nodes[0], 72), 0);
        assert_int_equal(links_counters(world->nodes[1]->links)->atomics, 102);
        world_close(world);
    }
}

/* ---- order ---------------------------------------------------------------- */

/* An atomic acts after the WRITEs before it, and a READ brings what they wrote, over each of the
 * endpoints, also where READs of bulk have endpoints of their own. */
static void they_start_as_they_were_asked_for(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct sim_options options = {
            .seed = seed, .late_read_ppm = 300000, .stall_ppm = 200000, .stall_us = 3000};
        struct world *world = world_open_of(&options, 3, WRITES, true);
        struct node *node = world->nodes[1], *to = world->nodes[0];
        enum link_endpoint over = seed % 2 == 0 ? LINK_REGIONS : LINK_REGIONS_LOW;
        struct link *link = link_to(node, 0);

        for (uint64_t value = 1; value <= BULK; value++) {
            struct fabric_slice slice = {&value, sizeof(value), NULL};
            struct fabric_slice brought = slice_of(node, 65536, 8);
            struct op *ops[5];

            for (uint32_t n = 0; n < ARRAY_LENGTH(ops); n++) {
                ops[n] = new_op(node);
            }
            memcpy(node->slots + 4096, &value, sizeof(value));
            assert_int_equal(link_write(link, over, &slice, 1, remote_of(to, 0), on_done, ops[0]),
                             NIGH_OK);
            links_flush(node->links);
            assert_int_equal(
                link_fetch_add(link, over, remote_of(to, 0), value << 32, on_word, ops[1]),
                NIGH_OK);
            links_flush(node->links);
            assert_int_equal(link_write(link, over, &slice, 1, remote_of(to, 8), on_done, ops[2]),
                             NIGH_OK);
            links_flush(node->links);
            slice = slice_of(node, 4096, 40000);
            assert_int_equal(
                link_write(link, over, &slice, 1, remote_of(to, 65536), on_done, ops[3]), NIGH_OK);
            links_flush(node->links);
            assert_int_equal(
                link_region_read(link, over, &brought, 1, remote_of(to, 65536), on_done, ops[4]),
                NIGH_OK);
            pass(world, 100000);
            for (uint32_t n = 0; n < ARRAY_LENGTH(ops); n++) {
                assert_int_equal(ops[n]->status, NIGH_OK);
            }
            assert_int_equal(ops[1]->old, value);
            assert_int_equal(word_at(to, 0), value | value << 32);
            assert_memory_equal(node->slots + 65536, &value, sizeof(value));
        }
        assert_int_equal(links_counters(node->links)->region_posts[over - LINK_REGIONS], 5 * BULK);
        assert_int_equal(links_counters(node->links)->region_posts[LINK_REGIONS_LOW - over], 0);
        world_close(world);
    }
}

/* ---- bounds and nonsense -------------------------------------------------- */

/* WRITEs and atomics together; READs and messages have room all the same. */
static void writes_have_a_bound(void **state)
{
    struct sim_options options = {.seed = 3, .late_read_ppm = 1000000, .late_read_us = 50000};
    struct world *world = world_open(&options);
    struct node *node = world->nodes[0], *to = world->nodes[1];
    struct fabric_slice slice = slice_of(node, 0, 8), message = {node->slots, 8, NULL};
    struct link *link = link_to(node, 1);
    struct op *op;

    (void)state;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t n = 0; n < WRITES; n++) {
            op = n % 3 == 0   ? write_one(node, to, 0, 64, 8)
                 : n % 3 == 1 ? add_to(node, to, 8, 1)
                              : swap_at(node, to, 16, 0, 1);
        }
        op = new_op(node);
        assert_int_equal(link_write(link, LINK_REGIONS, &slice, 1, remote_of(to, 0), on_done, op),
                         NIGH_BUSY);
        assert_int_equal(link_fetch_add(link, LINK_REGIONS, remote_of(to, 0), 1, on_word, op),
                         NIGH_BUSY);
        assert_int_equal(link_compare_swap(link, LINK_REGIONS, remote_of(to, 0), 0, 1, on_word, op),
                         NIGH_BUSY);
        assert_int_equal(link_read(link, &slice, 1, remote_of(to, 0), on_done, op), NIGH_OK);
        op = new_op(node);
        assert_int_equal(link_send(link, &message, 1, on_done, op), NIGH_OK);
        pass(world, 500000);
        assert_int_equal(op->status, NIGH_OK);
        assert_int_equal(node->ops[node->op_count - 3].status, NIGH_OK);
    }
    assert_int_equal(node->downs, 0);
    world_close(world);
}

/* What the fabric or the peer would refuse is refused before it costs the endpoint. */
static void nonsense_costs_nothing(void **state)
{
    struct sim_options options = {.seed = 4};
    struct world *world = world_open(&options);
    struct node *node = world->nodes[0], *to = world->nodes[1];
    struct fabric_slice slices[LIMIT_FABRIC_SLICES + 1];
    struct fabric_remote remote = remote_of(to, 0), odd = remote_of(to, 4);
    struct link *link = link_to(node, 1);
    struct op *op = new_op(node);

    (void)state;
    for (uint32_t n = 0; n <= LIMIT_FABRIC_SLICES; n++) {
        slices[n] = slice_of(node, 0, 8);
    }
#define REFUSED(count)                                                                   \
    assert_int_equal(link_write(link, LINK_REGIONS, slices, count, remote, on_done, op), \
                     NIGH_INVALID)
    REFUSED(0);
    REFUSED(LIMIT_FABRIC_SLICES + 1);
    slices[1].memory = NULL;
    REFUSED(2);
    slices[1] = slice_of(node, 0, LIMIT_FABRIC_MESSAGE - 7);
    REFUSED(2);
    slices[1].bytes = UINT64_MAX - 7;
    REFUSED(2);
    slices[0] = (struct fabric_slice){node->slots, LINK_HEAD_BYTES + 1, NULL};
    REFUSED(1);
    assert_int_equal(link_fetch_add(link, LINK_REGIONS, odd, 1, on_word, op), NIGH_INVALID);
    assert_int_equal(link_compare_swap(link, LINK_REGIONS, odd, 0, 1, on_word, op), NIGH_INVALID);
    node->fabric->caps.ops &= ~FABRIC_CAN_ATOMICS;
    assert_int_equal(link_fetch_add(link, LINK_REGIONS, remote, 1, on_word, op), NIGH_UNSUPPORTED);
    assert_int_equal(link_compare_swap(link, LINK_REGIONS, remote, 0, 1, on_word, op),
                     NIGH_UNSUPPORTED);
    pass(world, 100000);
    assert_int_equal(op->ends + node->downs, 0);
    node->op_count--;
    slices[0] = slice_of(node, 0, 8);
    op = write_one(node, to, 0, 0, 8);
    link_break(link, NIGH_TIMEOUT, 0);
    assert_int_equal(link_write(link, LINK_REGIONS, slices, 1, remote, on_done, op),
                     NIGH_PEER_LOST);
    node->fabric->caps.ops |= FABRIC_CAN_ATOMICS;
    assert_int_equal(link_fetch_add(link, LINK_REGIONS, remote, 1, on_word, op), NIGH_PEER_LOST);
    world_close(world);
}

static void without_writes_there_are_none(void **state)
{
    struct sim_options options = {.seed = 5};
    struct world *world = world_open_of(&options, 1, 0, false);
    struct node *node = world->nodes[1];
    struct fabric_slice slice = slice_of(node, 0, 8);
    struct fabric_remote remote = remote_of(world->nodes[0], 0);
    struct link *link = link_to(node, 0);
    struct op op = {.status = NEVER};

    (void)state;
    assert_int_equal(link_write(link, LINK_REGIONS, &slice, 1, remote, on_done, &op),
                     NIGH_UNSUPPORTED);
    assert_int_equal(link_fetch_add(link, LINK_REGIONS, remote, 1, on_word, &op), NIGH_UNSUPPORTED);
    assert_int_equal(link_compare_swap(link, LINK_REGIONS, remote, 0, 1, on_word, &op),
                     NIGH_UNSUPPORTED);
    assert_int_equal(link_region_read(link, LINK_REGIONS, &slice, 1, remote, on_done, &op),
                     NIGH_PEER_LOST);
    assert_null(link->sides[LINK_REGIONS].endpoint);
    assert_int_equal(op.ends, 0);
    world_close(world);
}

static uint64_t ends_of(const struct node *node)
{
    return links_counters(node->links)->region_ends;
}

static void expect_nothing_else_ended(const struct world *world)
{
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(world->nodes[n]->ups, NODES - 1);
        assert_int_equal(world->nodes[n]->downs, 0);
    }
}

/* ---- words of the own memory ---------------------------------------------- */

static nigh_status ask_own(struct node *node, struct fabric_remote own, struct op *op)
{
    return links_fetch_add(node->links, own, 1, on_word, op, sim_now_us(node->world->sim));
}

static struct op *add_own(struct node *node, uint64_t offset)
{
    struct op *op = new_op(node);

    assert_int_equal(ask_own(node, remote_of(node, offset), op), NIGH_OK);
    return op;
}

/* The node whose word it is and the others lose nothing, of each other's neither. */
static void own_words_are_the_peers_too(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sim_options options = {.seed = seed, .late_read_ppm = 300000};
        struct world *world = world_open(&options);
        struct node *own = world->nodes[0];
        bool given[210] = {false};
        struct op *ops[210], *swap = new_op(own);

        for (uint32_t n = 0; n < ARRAY_LENGTH(ops); n++) {
            ops[n] = n % 3 == 0 ? add_own(own, 64) : add_to(world->nodes[n % 3], own, 64, 1);
            if (n % 21 == 20) {
                pass(world, 100000);
            }
        }
        assert_int_equal(word_at(own, 64), ARRAY_LENGTH(ops));
        for (uint32_t n = 0; n < ARRAY_LENGTH(ops); n++) {
            assert_int_equal(ops[n]->status, NIGH_OK);
            assert_true(ops[n]->old < ARRAY_LENGTH(ops) && !given[ops[n]->old]);
            given[ops[n]->old] = true;
        }
        assert_int_equal(links_compare_swap(own->links, remote_of(own, 64), ARRAY_LENGTH(ops), 7,
                                            on_word, swap, sim_now_us(world->sim)),
                         NIGH_OK);
        pass(world, 100000);
        assert_int_equal(swap->old, ARRAY_LENGTH(ops));
        assert_int_equal(word_at(own, 64), 7);
        assert_int_equal(links_counters(own->links)->atomics, 71);
        assert_int_equal(ends_of(own), 0);
        world_close(world);
    }
}

/* Memory that is not there any more costs what is under way over this endpoint, and nothing of any
 * peer's; the next one is made at once. */
static void a_stale_own_key_costs_its_endpoint_alone(void **state)
{
    uint32_t lost = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sim_options options = {.seed = seed};
        struct world *world = world_open(&options);
        struct node *own = world->nodes[0];
        struct fabric_remote gone = remote_of(own, 64);
        struct op *before = add_own(own, 64), *refused = new_op(own), *beside, *there, *after;

        pass(world, 100000);
        gone.key ^= 1u << 20;
        assert_int_equal(ask_own(own, gone, refused), NIGH_OK);
        beside = add_own(own, 64);
        there = add_to(own, world->nodes[1], 64, 1);
        pass(world, 100000);
        assert_int_equal(before->status, NIGH_OK);
        assert_int_equal(refused->status, NIGH_DENIED);
        /* What was under way beside it was done by then, or nobody knows whether it acted. */
        assert_true(beside->status == NIGH_OK || beside->status == NIGH_PEER_LOST);
        lost += beside->status == NIGH_PEER_LOST;
        assert_int_equal(there->status, NIGH_OK);
        assert_int_equal(ends_of(own), 1);
        after = add_own(own, 72);
        pass(world, 100000);
        assert_int_equal(after->status, NIGH_OK);
        assert_int_equal(word_at(own, 72), 1);
        assert_int_equal(ends_of(own), 1);
        after = add_own(own, 72); /* it ends before this has said how it ended */
        link_loop_fail(own->links, NIGH_DENIED);
        (void)links_turn(own->links, sim_now_us(world->sim));
        assert_int_equal(after->status, NIGH_PEER_LOST);
        expect_nothing_else_ended(world);
        world_close(world);
    }
    assert_true(lost > 0);
}

/* Asks for two more. */
static void on_word_and_more(void *context, nigh_status status, uint64_t old, uint64_t now_us)
{
    struct op *op = context;

    on_word(op, status, old, now_us);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(ask_own(op->node, remote_of(op->node, 72), new_op(op->node)), NIGH_OK);
    }
}

/* Who is told of an end begins more at once: that is of the next endpoint, and ends with it. */
static void what_begins_as_others_end_goes_on(void **state)
{
    enum {
        FIRST = 4
    };
    struct sim_options options = {.seed = 3};
    struct world *world = world_open(&options);
    struct node *own = world->nodes[0];
    struct op *served = add_own(own, 64);

    (void)state;
    pass(world, 100000); /* the next one is made at once */
    assert_int_equal(served->status, NIGH_OK);
    for (uint32_t n = 0; n < FIRST; n++) {
        assert_int_equal(links_fetch_add(own->links, remote_of(own, 64), 1, on_word_and_more,
                                         new_op(own), sim_now_us(world->sim)),
                         NIGH_OK);
    }
    link_loop_fail(own->links, NIGH_DENIED);
    pass(world, 100000);
    assert_int_equal(own->op_count, 1 + 3 * FIRST);
    for (uint32_t n = 1; n < own->op_count; n++) {
        assert_int_equal(own->ops[n].ends, 1);
        assert_int_equal(own->ops[n].status, n <= FIRST ? NIGH_PEER_LOST : NIGH_OK);
    }
    assert_int_equal(word_at(own, 72), 2 * FIRST);
    world_close(world);
}

/* One that never serves is not made at each use. */
static void in_vain_it_is_made_ever_later(void **state)
{
    struct sim_options options = {.seed = 9};
    struct world *world = world_open(&options);
    struct node *own = world->nodes[0];
    struct fabric_remote gone = remote_of(own, 64);
    uint32_t tries = 0, made = 0;
    struct op *op;

    (void)state;
    gone.key ^= 1u << 20;
    for (; tries < 400; tries++) {
        op = new_op(own);
        if (ask_own(own, gone, op) == NIGH_BUSY) {
            own->op_count--;
        } else {
            made++;
        }
        pass(world, 5000);
    }
    assert_in_range(made, 4, 40);
    assert_int_equal(ends_of(own), made);
    pass(world, 2 * LINK_BACKOFF_MAX_US);
    op = add_own(own, 64);
    pass(world, 100000);
    assert_int_equal(op->status, NIGH_OK);
    world_close(world);
}

static void own_words_have_a_bound(void **state)
{
    struct sim_options options = {.seed = 3, .late_read_ppm = 1000000, .late_read_us = 50000};
    struct world *world = world_open(&options);
    struct node *own = world->nodes[0];
    struct fabric_remote odd = remote_of(own, 4);
    struct op *op = new_op(own);

    (void)state;
    assert_int_equal(ask_own(own, odd, op), NIGH_INVALID);
    own->fabric->caps.ops &= ~FABRIC_CAN_LOOP;
    assert_int_equal(ask_own(own, remote_of(own, 0), op), NIGH_UNSUPPORTED);
    own->fabric->caps.ops |= FABRIC_CAN_LOOP;
    own->op_count--;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t n = 0; n < WRITES; n++) {
            (void)add_own(own, 8);
        }
        op = new_op(own);
        assert_int_equal(ask_own(own, remote_of(own, 8), op), NIGH_BUSY);
        own->op_count--;
        op = add_to(own, world->nodes[1], 8, 1); /* a peer's are others */
        pass(world, 500000);
        assert_int_equal(op->status, NIGH_OK);
        assert_int_equal(word_at(own, 8), (round + 1) * WRITES);
    }
    for (uint32_t n = 0; n < WRITES; n++) {
        (void)add_own(own, 8); /* under way as it all ends: once each */
    }
    world_close(world);
}

/* ---- endpoints that fail alone -------------------------------------------- */

/* What peers try there costs them the endpoint, and they hear why unless the other side is quicker
 * in ending it; the link goes on, and others do. */
static void who_does_not_let_peers_write(void **state)
{
    uint32_t denied = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct sim_options options = {.seed = seed};
        struct world *world = world_open_of(&options, 1, WRITES, false);
        struct node *node = world->nodes[1], *to = world->nodes[0];
        struct op *op, *other;

        memset(node->slots, 0x77, 64);
        op = seed % 3 == 0   ? write_one(node, to, 0, 64, 64)
             : seed % 3 == 1 ? add_to(node, to, 64, 1)
                             : swap_at(node, to, 64, 0, 1);
        other = write_one(node, world->nodes[2], 0, 64, 64);
        pass(world, 100000);
        assert_true(op->status == NIGH_DENIED || op->status == NIGH_PEER_LOST);
        denied += op->status == NIGH_DENIED;
        assert_int_equal(other->status, NIGH_OK);
        assert_int_equal(word_at(to, 64), 0);
        assert_int_equal(ends_of(node), 1);
        assert_true(link_carries(link_to(node, 0), LINK_REGIONS)); /* it is there again */
        expect_nothing_else_ended(world);
        world_close(world);
    }
    assert_true(denied > 3);
}

/* Memory that is not there any more: what is under way over the endpoint ends with it. A call, a
 * READ of bulk, a message and what goes over the other endpoint do not. */
static void a_stale_key_costs_its_endpoint_alone(void **state)
{
    uint32_t denied = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        struct sim_options options = {.seed = seed};
        struct world *world = world_open(&options);
        struct node *node = world->nodes[1 - seed % 2], *to = world->nodes[seed % 2];
        struct fabric_slice slice = slice_of(node, 8192, 4096), word = slice_of(node, 0, 8);
        struct fabric_memory *kept;
        struct fabric_remote other;
        struct link *link = link_to(node, to->rank);
        struct op *before, *op, *behind, *others[3];

        assert_int_equal(fabric_memory_register(
                             to->fabric, to->slots, sizeof(to->slots), FABRIC_HOST,
                             FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE | FABRIC_LOCAL_WRITE, &kept),
                         NIGH_OK);
        other = fabric_memory_remote(to->fabric, kept, to->slots);
        before = write_one(node, to, 0, 0, 8);
        pass(world, 100000);
        op = write_one(node, to, 0, 0, 4096);
        behind = add_to(node, to, 8, 1);
        for (uint32_t n = 0; n < ARRAY_LENGTH(others); n++) {
            others[n] = new_op(node);
        }
        assert_int_equal(link_read(link, &slice, 1, other, on_done, others[0]), NIGH_OK);
        assert_int_equal(link_write(link, LINK_REGIONS_LOW, &word, 1, other, on_done, others[1]),
                         NIGH_OK);
        assert_int_equal(link_send(link, &word, 1, on_done, others[2]), NIGH_OK);
        fabric_memory_deregister(to->fabric, to->open);
        pass(world, 100000);
        assert_int_equal(before->status, NIGH_OK);
        assert_true(op->status == NIGH_PEER_LOST || op->status == NIGH_DENIED);
        denied += op->status == NIGH_DENIED;
        /* Of what was under way beside it nobody knows whether it acted. */
        assert_int_equal(behind->status, NIGH_PEER_LOST);
        assert_int_equal(word_at(to, 8), 0);
        for (uint32_t n = 0; n < ARRAY_LENGTH(others); n++) {
            assert_int_equal(others[n]->status, NIGH_OK);
        }
        assert_int_equal(to->messages, 1);
        assert_int_equal(ends_of(node), 1);
        assert_true(link_carries(link, LINK_REGIONS));
        op = new_op(node);
        assert_int_equal(link_write(link, LINK_REGIONS, &word, 1, other, on_done, op), NIGH_OK);
        pass(world, 100000);
        assert_int_equal(op->status, NIGH_OK);
        expect_nothing_else_ended(world);
        world_close(world);
    }
    assert_true(denied > 0);
}

/* As when the peer dials it anew before its end was seen here. */
static void what_is_not_posted_yet_ends_with_its_endpoint(void **state)
{
    struct sim_options options = {.seed = 6};
    struct world *world = world_open(&options);
    struct node *node = world->nodes[1], *to = world->nodes[0];
    struct link *link = link_to(node, 0);
    struct op *op = write_one(node, to, 0, 0, 8);

    (void)state;
    link_side_down(&link->sides[LINK_REGIONS], NIGH_PEER_LOST, sim_now_us(world->sim));
    assert_true(links_is_valid(node->links));
    assert_int_equal(op->status, NIGH_PEER_LOST);
    pass(world, 100000);
    assert_int_equal(op->ends, 1);
    assert_int_equal(links_counters(node->links)->region_ends, 1);
    assert_true(link_carries(link, LINK_REGIONS));
    expect_nothing_else_ended(world);
    world_close(world);
}

static const struct op *borrower; /* of memory, until its endpoint is gone */
static uint32_t destroyed;

static void destroy_before_the_end(struct fabric_endpoint *endpoint)
{
    assert_int_equal(borrower->ends, 0);
    destroyed++;
    borrower->node->real->endpoint_destroy(endpoint);
}

/* Whoever gets an end may use the memory for something else. */
static void nothing_ends_before_its_endpoint_is_gone(void **state)
{
    struct sim_options options = {.seed = 7, .late_read_ppm = 1000000, .late_read_us = 50000};
    struct world *world = world_open(&options);
    struct node *node = world->nodes[1], *to = world->nodes[0];
    struct link *link = link_to(node, 0);

    (void)state;
    borrower = add_to(node, to, 0, 1);
    pass(world, 100);
    node->real = node->fabric->provider;
    node->provider = *node->real;
    node->provider.endpoint_destroy = destroy_before_the_end;
    node->fabric->provider = &node->provider;
    destroyed = 0;
    fabric_disconnect(node->fabric, link->sides[LINK_REGIONS].endpoint);
    turns(world);
    node->fabric->provider = node->real;
    assert_int_equal(destroyed, 1);
    assert_int_equal(borrower->ends, 1);
    assert_int_equal(borrower->status, NIGH_PEER_LOST);
    world_close(world);
}

static struct node *refuser; /* whose dials, or accepts, fail */

static nigh_status refuse_connect(struct fabric *fabric, const char *address,
                                  const struct fabric_endpoint_options *options,
                                  const void *private_data, uint32_t private_bytes,
                                  struct fabric_endpoint **endpoint)
{
    if (refuser->refusals == 0) {
        return refuser->real->connect(fabric, address, options, private_data, private_bytes,
                                      endpoint);
    }
    refuser->refusals--;
    return NIGH_NO_RESOURCES;
}

static nigh_status refuse_accept(struct fabric_endpoint *endpoint,
                                 const struct fabric_endpoint_options *options,
                                 const void *private_data, uint32_t private_bytes)
{
    if (refuser->refusals == 0) {
        return refuser->real->accept(endpoint, options, private_data, private_bytes);
    }
    refuser->refusals--;
    return NIGH_NO_RESOURCES;
}

static void refuse(struct node *node, uint32_t times)
{
    refuser = node;
    node->refusals = times;
    node->real = node->fabric->provider;
    node->provider = *node->real;
    node->provider.connect = refuse_connect;
    node->provider.accept = refuse_accept;
    node->fabric->provider = &node->provider;
}

/* By the side that dials and by the other, dials and answers that fail some times: it is back in
 * the end, and nothing else is hurt; meanwhile what is asked for is refused at once. */
static void who_does_not_come_back_at_once_is_dialled_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        struct sim_options options = {.seed = seed};
        struct world *world = world_open(&options);
        struct node *node = world->nodes[seed % 2], *to = world->nodes[1 - seed % 2];
        struct link *link = link_to(node, to->rank);
        struct fabric_slice word = slice_of(node, 0, 8);
        struct op *op = write_one(node, to, 0, 0, 8);

        refuse(world->nodes[seed / 2 % 2], 4);
        fabric_disconnect(node->fabric, link->sides[LINK_REGIONS].endpoint);
        pass(world, 5000);
        assert_int_equal(op->ends, 1);
        assert_false(link_carries(link, LINK_REGIONS));
        assert_true(link_carries(link, LINK_REGIONS_LOW));
        assert_int_equal(link_write(link, LINK_REGIONS, &word, 1, remote_of(to, 0), on_done, op),
                         NIGH_PEER_LOST);
        pass(world, 1000000);
        assert_int_equal(refuser->refusals, 0);
        assert_true(link_carries(link, LINK_REGIONS));
        op = write_one(node, to, 0, 0, 8);
        pass(world, 100000);
        assert_int_equal(op->status, NIGH_OK);
        expect_nothing_else_ended(world);
        refuser->fabric->provider = refuser->real;
        world_close(world);
    }
}

/* One that stays away takes its link with it, and both come up again when they can. */
static void who_stays_away_takes_the_link_along(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct sim_options options = {.seed = seed};
        struct world *world = world_open(&options);
        struct node *node = world->nodes[1], *to = world->nodes[0];

        refuse(world->nodes[seed % 2], UINT32_MAX);
        fabric_disconnect(node->fabric, link_to(node, 0)->sides[LINK_REGIONS].endpoint);
        pass(world, LINK_UP_US - 100000);
        assert_int_equal(node->downs + to->downs, 0);
        pass(world, 200000);
        assert_int_equal(node->downs, 1);
        assert_int_equal(to->downs, 1);
        assert_null(link_to(node, 0));
        refuser->refusals = 0;
        pass(world, 10000000);
        assert_true(link_carries(link_to(node, 0), LINK_REGIONS));
        assert_int_equal(world->nodes[2]->downs, 0);
        refuser->fabric->provider = refuser->real;
        world_close(world);
    }
}

/* Where the completion of what was refused comes before the end of the connection, as over TCP. */
static void a_refused_key_is_not_why_calls_end(void **state)
{
    struct sim_options options = {.seed = 1};
    struct world *world = world_open(&options);
    struct node *node = world->nodes[1];
    struct op *call = new_op(node);

    (void)state;
    assert_int_equal(rpc_call(link_rpc(link_to(node, 0)), 1, NULL, 0, UINT64_MAX,
                              sim_now_us(world->sim), on_reply, call, NULL),
                     NIGH_OK);
    link_break(link_to(node, 0), NIGH_DENIED, sim_now_us(world->sim));
    pass(world, 100000);
    assert_int_equal(call->status, NIGH_PEER_LOST);
    world_close(world);
}

/* All that may be under way over an endpoint for regions: READs, and WRITEs and atomics. */
static void fill_endpoint(struct node *node, const struct node *to, enum link_endpoint over)
{
    struct link *link = link_to(node, to->rank);
    struct fabric_slice slice = slice_of(node, 0, 8);
    struct fabric_remote remote = remote_of(to, 0);

    for (uint32_t n = 0; n < READS; n++) {
        assert_int_equal(link_region_read(link, over, &slice, 1, remote, on_done, new_op(node)),
                         NIGH_OK);
    }
    for (uint32_t n = 0; n < WRITES; n++) {
        assert_int_equal(n % 2 == 0
                             ? link_write(link, over, &slice, 1, remote, on_done, new_op(node))
                             : link_fetch_add(link, over, remote, 1, on_word, new_op(node)),
                         NIGH_OK);
    }
    assert_int_equal(link_region_read(link, over, &slice, 1, remote, on_done, NULL), NIGH_BUSY);
    assert_int_equal(link_write(link, over, &slice, 1, remote, on_done, NULL), NIGH_BUSY);
    assert_int_equal(link_fetch_add(link, over, remote, 1, on_word, NULL), NIGH_BUSY);
}

/* However much is under way over one endpoint, what goes over another has its places: neither of
 * two priorities waits for the other, nor do objects for regions. */
static void each_endpoint_has_places_of_its_own(void **state)
{
    struct sim_options options = {.seed = 3, .late_read_ppm = 1000000, .late_read_us = 50000};
    struct world *world = world_open(&options);
    struct node *node = world->nodes[0], *to = world->nodes[1];
    struct fabric_slice slice = slice_of(node, 0, 8), message = {node->slots, 8, NULL};
    struct link *link = link_to(node, 1);

    (void)state;
    for (uint32_t round = 0; round < 4; round++) {
        fill_endpoint(node, to, round % 2 == 0 ? LINK_REGIONS : LINK_REGIONS_LOW);
        for (uint32_t n = 0; n < READS; n++) {
            assert_int_equal(link_read(link, &slice, 1, remote_of(to, 0), on_done, new_op(node)),
                             NIGH_OK);
        }
        assert_int_equal(link_read(link, &slice, 1, remote_of(to, 0), on_done, NULL), NIGH_BUSY);
        for (uint32_t n = 0; n < BULK; n++) {
            assert_int_equal(link_send(link, &message, 1, on_done, new_op(node)), NIGH_OK);
        }
        assert_int_equal(link_send(link, &message, 1, on_done, NULL), NIGH_BUSY);
        fill_endpoint(node, to, round % 2 == 0 ? LINK_REGIONS_LOW : LINK_REGIONS);
        assert_true(links_is_valid(node->links));
        pass(world, 1000000);
        for (uint32_t n = 0; n < node->op_count; n++) {
            assert_int_equal(node->ops[n].status, NIGH_OK);
        }
        assert_int_equal(to->messages, (round + 1) * BULK);
    }
    assert_int_equal(node->downs, 0);
    world_close(world);
}

static void wrong_configurations_are_refused(void **state)
{
    struct sim_options options = {.seed = 7};
    struct world *world = world_open(&options);
    struct links_config config = config_of(world->nodes[0], LIMIT_LINK_WRITES + 1);
    struct links *links = NULL;

    (void)state;
    assert_int_equal(links_create(&config, &links), NIGH_INVALID);
    config.writes = LIMIT_LINK_WRITES;
    config.reads = LIMIT_FABRIC_DEPTH - LIMIT_LINK_WRITES + 1;
    assert_int_equal(links_create(&config, &links), NIGH_INVALID);
    config.reads--;
    assert_int_equal(links_create(&config, &links), NIGH_OK);
    links_destroy(links);
    config.writes = BULK;
    config.reads = LIMIT_FABRIC_DEPTH - BULK;
    assert_int_equal(links_create(&config, &links), NIGH_OK);
    links_destroy(links);
    config.bulk_receives++;
    assert_int_equal(links_create(&config, &links), NIGH_INVALID);
    config.writes = 0;
    assert_int_equal(links_rights(&config), FABRIC_REMOTE_READ);
    world_close(world);
}

/* ---- ends ----------------------------------------------------------------- */

/* A WRITE to a place of its own, or an atomic. */
static void begin_some(struct node *node, const struct node *to)
{
    struct link *link = link_to(node, to->rank);
    enum op_kind kind = (enum op_kind)sim_random(node->world->sim, OP_KINDS);
    enum link_endpoint over = LINK_REGIONS + (uint32_t)sim_random(node->world->sim, 2);
    uint64_t at = (uint64_t)node->op_count * SLOT;
    struct fabric_slice slice = slice_of(node, at, SLOT);
    struct op *op;
    nigh_status status;

    if (link == NULL || node->op_count == OPS) {
        return;
    }
    op = new_op(node);
    op->kind = kind;
    op->over = over;
    memset(node->slots + at, 0x40 + (int)(node->op_count % 32), SLOT);
    if (kind == OP_WRITE) {
        status = link_write(link, over, &slice, 1, remote_of(to, 1024 + at), on_done, op);
    } else if (kind == OP_ADD) {
        status = link_fetch_add(link, over, remote_of(to, 0), 1, on_word, op);
        op->old = UINT64_MAX;
    } else {
        status = link_compare_swap(link, over, remote_of(to, 8), sim_random(node->world->sim, 2), 1,
                                   on_word, op);
    }
    if (status != NIGH_OK) {
        assert_int_equal(status, link_carries(link, over) ? NIGH_BUSY : NIGH_PEER_LOST);
        node->op_count--;
    }
}

/* Which of a link's ends the operations meet. */
enum fate {
    FATE_BREAK = 0, /* link_break here */
    FATE_BREAK_THERE,
    FATE_PEER_DOWN,
    FATE_CRASH, /* of the peer */
    FATE_DESTROY,
    FATE_ENDPOINTS, /* those for regions end here */
    FATE_ENDPOINTS_THERE,
    FATES
};

static void end_endpoints(struct node *node, struct link *link)
{
    for (uint32_t kind = LINK_REGIONS; link != NULL && kind <= LINK_REGIONS_LOW; kind++) {
        if (link->sides[kind].endpoint != NULL) {
            fabric_disconnect(node->fabric, link->sides[kind].endpoint);
        }
    }
}

static void meet(struct world *world, struct node *node, struct node *to, enum fate fate)
{
    struct link *link = link_to(node, to->rank);

    switch (fate) {
    case FATE_BREAK:
        if (link != NULL) {
            link_break(link, NIGH_TIMEOUT, 0);
        }
        break;
    case FATE_BREAK_THERE:
        if (link_to(to, node->rank) != NULL) {
            link_break(link_to(to, node->rank), NIGH_TIMEOUT, 0);
        }
        break;
    case FATE_PEER_DOWN:
        links_peer_down(node->links, to->rank, NIGH_PEER_LOST, sim_now_us(world->sim));
        break;
    case FATE_CRASH: sim_crash(world->sim, to->rank); break;
    case FATE_ENDPOINTS: end_endpoints(node, link); break;
    case FATE_ENDPOINTS_THERE: end_endpoints(to, link_to(to, node->rank)); break;
    default: links_end(node); break;
    }
}

/* Begun at any moment before the link ends, posted or not: each ends once, with the reason that the
 * link ended for, and what an atomic found is said with NIGH_OK alone. */
static void each_ends_once(void **state)
{
    static const nigh_status reasons[FATES] = {NIGH_TIMEOUT,   NIGH_PEER_LOST, NIGH_PEER_LOST,
                                               NIGH_PEER_LOST, NIGH_CANCELED,  NIGH_PEER_LOST,
                                               NIGH_PEER_LOST};
    uint32_t lost = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 40ull * FATES; seed++) {
        struct sim_options options = {.seed = seed, .late_read_ppm = 300000};
        struct world *world = world_open(&options);
        struct node *node = world->nodes[seed % 2], *to = world->nodes[1 - seed % 2];
        enum fate fate = (enum fate)(seed % FATES);

        for (uint32_t n = 0; n < 30; n++) {
            begin_some(node, to);
            if (sim_random(world->sim, 3) == 0) {
                pass(world, sim_random(world->sim, 40));
            }
        }
        meet(world, node, to, fate);
        if (fate == FATE_CRASH) {
            node_close(to);
        }
        pass(world, SIM_KEEPALIVE_US + 1000000);
        for (uint32_t n = 0; n < node->op_count; n++) {
            const struct op *op = &node->ops[n];

            assert_int_equal(op->ends, 1);
            if (op->status == NIGH_OK) {
                continue;
            }
            lost++;
            assert_true(op->status == reasons[fate] ||
                        (fate == FATE_CRASH && op->status == NIGH_TIMEOUT));
            assert_true(op->old == 0);
        }
        if (fate >= FATE_ENDPOINTS) {
            expect_nothing_else_ended(world);
            assert_true(link_carries(link_to(node, to->rank), LINK_REGIONS));
            assert_true(link_carries(link_to(node, to->rank), LINK_REGIONS_LOW));
        }
        world_close(world);
    }
    assert_true(lost > 100);
}

/* What was lost is cleared once its endpoint is there again: it stays so. */
static bool is_cleared[OPS];

static void clear_lost(struct node *node)
{
    struct node *to = node->world->nodes[0];
    struct link *link = links_find(node->links, 0, 0);

    for (uint32_t n = 0; link != NULL && n < node->op_count; n++) {
        struct op *op = &node->ops[n];

        if (op->ends == 1 && op->status != NIGH_OK && op->kind == OP_WRITE && !is_cleared[n] &&
            link_carries(link, op->over)) {
            memset(to->data + 1024 + (size_t)n * SLOT, 0, SLOT);
            is_cleared[n] = true;
        }
    }
}

static void expect_slot(const struct node *node, uint32_t number, uint8_t byte)
{
    for (uint32_t at = 0; at < SLOT; at++) {
        assert_int_equal(node->data[1024 + (size_t)number * SLOT + at], byte);
    }
}

/* Over connections that break: nothing acts twice, what ended well is there, and nothing of a
 * connection of before acts once the link is up again. */
static void nothing_acts_twice(void **state)
{
    uint32_t cleared = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct sim_options options = {.seed = seed,
                                      .late_read_ppm = 200000,
                                      .stall_ppm = 50000,
                                      .stall_us = 2000,
                                      .break_ppm = 4000};
        struct world *world = world_open(&options);
        struct node *node = world->nodes[1], *to = world->nodes[0];
        uint64_t good = 0, all = 0;

        memset(is_cleared, 0, sizeof(is_cleared));
        node->after_turn = clear_lost;
        for (uint32_t n = 0; n < OPS; n++) {
            begin_some(node, to);
            if (sim_random(world->sim, 4) == 0) {
                pass(world, sim_random(world->sim, 200));
            }
            if (sim_random(world->sim, 100) == 0) {
                meet(world, node, to, FATE_BREAK);
            } else if (sim_random(world->sim, 50) == 0) {
                meet(world, node, to, FATE_ENDPOINTS + (n % 2));
            }
        }
        pass(world, SIM_KEEPALIVE_US + 1000000);
        for (uint32_t n = 0; n < node->op_count; n++) {
            const struct op *op = &node->ops[n];

            assert_int_equal(op->ends, 1);
            good += op->kind == OP_ADD && op->status == NIGH_OK;
            all += op->kind == OP_ADD;
            cleared += is_cleared[n];
            if (op->kind == OP_WRITE && (op->status == NIGH_OK || is_cleared[n])) {
                expect_slot(to, n, is_cleared[n] ? 0 : (uint8_t)(0x40 + (n + 1) % 32));
            }
        }
        assert_in_range(word_at(to, 0), good, all);
        world_close(world);
    }
    print_message("# %u were lost\n", cleared);
    assert_true(cleared > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_land_and_nothing_beside),
        cmocka_unit_test(the_first_bytes_are_taken_at_once),
        cmocka_unit_test(atomics_of_many_are_exact),
        cmocka_unit_test(they_start_as_they_were_asked_for),
        cmocka_unit_test(writes_have_a_bound),
        cmocka_unit_test(nonsense_costs_nothing),
        cmocka_unit_test(without_writes_there_are_none),
        cmocka_unit_test(own_words_are_the_peers_too),
        cmocka_unit_test(a_stale_own_key_costs_its_endpoint_alone),
        cmocka_unit_test(in_vain_it_is_made_ever_later),
        cmocka_unit_test(what_begins_as_others_end_goes_on),
        cmocka_unit_test(own_words_have_a_bound),
        cmocka_unit_test(who_does_not_let_peers_write),
        cmocka_unit_test(a_stale_key_costs_its_endpoint_alone),
        cmocka_unit_test(what_is_not_posted_yet_ends_with_its_endpoint),
        cmocka_unit_test(nothing_ends_before_its_endpoint_is_gone),
        cmocka_unit_test(who_does_not_come_back_at_once_is_dialled_again),
        cmocka_unit_test(who_stays_away_takes_the_link_along),
        cmocka_unit_test(a_refused_key_is_not_why_calls_end),
        cmocka_unit_test(each_endpoint_has_places_of_its_own),
        cmocka_unit_test(wrong_configurations_are_refused),
        cmocka_unit_test(each_ends_once),
        cmocka_unit_test(nothing_acts_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
