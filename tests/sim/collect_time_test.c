/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a call of many takes, in virtual time: the collectives that ship (rpc/collect.h), of up
 * to 256 nodes, over links with a delay, where each message costs who sends it and who receives it
 * some time of a processor, of which a node has one. So what is seen is the tree, and no machine.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "rpc/collect.h"
#include "support/support.h"

#define NODES    LIMIT_NODES
#define COST_US  2u  /* of a message, at each end */
#define LINK_US  20u /* on its way */
#define WORDS    8u
#define MESSAGES (4u * NODES)

/* An edge: the request, and then its answer. */
struct edge {
    uint64_t at_us; /* when its message has been taken in; UINT64_MAX: none is on its way */
    uint64_t sequence;
    bool is_answer;
    uint32_t from, to;
    struct collect_ask ask;
    struct collect_said said;
    uint64_t value[WORDS];
};

struct node {
    struct collects *collects;
    uint64_t free_us; /* its processor */
    uint32_t messages;
};

static struct node nodes[NODES];
static struct edge edges[MESSAGES];
static uint32_t edge_count, depth;
static uint64_t now_us, end_us;
static struct collect_said said;
static uint64_t value[WORDS];

static uint64_t work(uint32_t rank, uint64_t from_us)
{
    nodes[rank].free_us = max_u64(nodes[rank].free_us, from_us) + COST_US;
    return nodes[rank].free_us;
}

/* It leaves when its sender has done with it; when its receiver has is known as it comes. */
static void send(struct edge *edge, uint32_t sender)
{
    static uint64_t sequence;

    edge->at_us = work(sender, now_us) + LINK_US;
    edge->sequence = ++sequence;
    nodes[sender].messages++;
}

static void on_ask(void *context, const struct collect_ask *ask, uint64_t at_us)
{
    struct node *node = context;
    uint32_t rank = (uint32_t)(node - nodes);
    struct edge *edge;

    (void)at_us;
    if (ask->wire == NULL) {
        uint64_t words[WORDS];
        struct calls_end end = {.status = NIGH_OK,
                                .bytes = (const uint8_t *)words,
                                .count = sizeof(words),
                                .rank = rank,
                                .taken = true};

        for (uint32_t n = 0; n < WORDS; n++) {
            words[n] = rank + n;
        }
        collect_ended(node->collects, ask->place, ask->number, ask->generation, &end);
        return;
    }
    assert_true(edge_count < MESSAGES);
    edge = &edges[edge_count++];
    *edge = (struct edge){.from = rank, .to = ask->rank, .ask = *ask};
    send(edge, rank);
}

static void on_forget(void *context, uint32_t place, uint64_t at_us)
{
    (void)context;
    (void)place;
    (void)at_us;
    fail();
}

static void on_answer(void *context, const struct collect_from *from, const struct collect_end *end)
{
    struct node *node = context;
    struct edge *edge = (struct edge *)(uintptr_t)from->channel;

    assert_int_equal(end->said->value_bytes, sizeof(value));
    if (edge == NULL) {
        end_us = nodes[node - nodes].free_us;
        said = *end->said;
        memcpy(value, end->value, sizeof(value));
        return;
    }
    edge->is_answer = true;
    edge->said = *end->said;
    memcpy(edge->value, end->value, sizeof(edge->value));
    send(edge, edge->to);
}

static void take_request(struct edge *edge)
{
    uint8_t bytes[sizeof(struct calls_wire) + sizeof(struct collect_wire) + 8];
    struct calls_wire called = {.service = edge->ask.service};
    struct collect_from from = {
        .channel = (struct rpc *)(uintptr_t)edge, .call = 1, .rank = edge->from};
    struct rpc_request came = {.method = CALLS_METHOD_COLLECT,
                               .call = 1,
                               .payload = bytes,
                               .bytes = sizeof(bytes),
                               .deadline_us = UINT64_MAX};

    memset(bytes, 0, sizeof(bytes));
    memcpy(bytes, &called, sizeof(called));
    memcpy(bytes + sizeof(called), edge->ask.wire, sizeof(*edge->ask.wire));
    depth = max_u32(depth, edge->ask.wire->depth);
    assert_int_equal(collect_take(nodes[edge->to].collects, &from, &came, now_us), NIGH_OK);
}

static void take_answer(struct edge *edge)
{
    uint8_t bytes[sizeof(edge->said) + sizeof(edge->value)];
    struct calls_end end = {
        .status = NIGH_OK, .bytes = bytes, .count = sizeof(bytes), .rank = edge->to, .taken = true};

    memcpy(bytes, &edge->said, sizeof(edge->said));
    memcpy(bytes + sizeof(edge->said), edge->value, sizeof(edge->value));
    collect_ended(nodes[edge->from].collects, edge->ask.place, edge->ask.number,
                  edge->ask.generation, &end);
}

/* The message that comes next; NULL: none is on its way. */
static struct edge *next_edge(void)
{
    struct edge *next = NULL;

    for (uint32_t n = 0; n < edge_count; n++) {
        struct edge *edge = &edges[n];

        if (edge->at_us != UINT64_MAX &&
            (next == NULL || edge->at_us < next->at_us ||
             (edge->at_us == next->at_us && edge->sequence < next->sequence))) {
            next = edge;
        }
    }
    return next;
}

/* One by one, in the order in which they come: each is taken in when the processor has time. */
static void run(void)
{
    struct edge *edge;

    while ((edge = next_edge()) != NULL) {
        uint32_t rank = edge->is_answer ? edge->from : edge->to;

        now_us = work(rank, edge->at_us);
        nodes[rank].messages++;
        edge->at_us = UINT64_MAX;
        if (edge->is_answer) {
            take_answer(edge);
        } else {
            take_request(edge);
        }
        (void)collects_turn(nodes[rank].collects, now_us);
    }
}

/* How long one of so many nodes takes that node 0 begins. */
static uint64_t time_of(uint32_t count, uint32_t fan)
{
    struct ranks all = ranks_all(count);
    struct collect_task task = {.service = 1,
                                .all = true,
                                .fan = fan,
                                .reduce = COLLECT_SUM_U64,
                                .value_room = sizeof(value),
                                .deadline_us = UINT64_MAX,
                                .request = (const uint8_t *)"eight...",
                                .request_bytes = 8};
    struct collect_from from = {.caller = {.owner = 0}};

    now_us = 1000;
    edge_count = depth = 0;
    for (uint32_t n = 0; n < count; n++) {
        struct collects_config config = {
            .rank = n,
            .nodes = count,
            .shell = {
                .context = &nodes[n], .ask = on_ask, .forget = on_forget, .answer = on_answer}};

        nodes[n] = (struct node){.free_us = now_us};
        assert_int_equal(collects_create(&config, &nodes[n].collects), NIGH_OK);
        collects_group(nodes[n].collects, 1, &all);
    }
    assert_int_equal(collect_begin(nodes[0].collects, &from, &task, now_us), NIGH_OK);
    (void)collects_turn(nodes[0].collects, now_us);
    run();
    for (uint32_t n = 0; n < count; n++) {
        assert_int_equal(collects_under_way(nodes[n].collects), 0);
        collects_destroy(nodes[n].collects);
    }
    assert_int_equal(said.answered, count);
    for (uint32_t n = 0; n < WORDS; n++) {
        assert_int_equal(value[n], count * (count - 1) / 2 + count * n);
    }
    return end_us - 1000;
}

/* Of one edge after the other: a way there and back, of two messages. */
static uint64_t one_by_one(uint32_t count)
{
    return (count - 1) * UINT64_C(2) * (LINK_US + 2 * COST_US);
}

/* Each edge down has its way, and waits for as many messages as its node sends; and each up
 * likewise. */
static uint64_t most_us(uint32_t levels, uint32_t fan)
{
    return levels * UINT64_C(2) * (LINK_US + (fan + 1) * COST_US);
}

static uint32_t depth_of(uint32_t count, uint32_t fan)
{
    uint32_t levels = 0;

    for (uint64_t whole = 1, level = 1; whole < count; levels++) {
        level *= fan;
        whole += level;
    }
    return levels;
}

static void time_grows_as_the_tree_is_deep(void **state)
{
    static const uint32_t fans[] = {2, 4, 16}, counts[] = {8, 32, 128, 256};

    (void)state;
    for (uint32_t f = 0; f < ARRAY_LENGTH(fans); f++) {
        uint32_t fan = fans[f];
        uint64_t of_eight = time_of(8, fan), took = 0;

        for (uint32_t n = 0; n < ARRAY_LENGTH(counts); n++) {
            uint32_t count = counts[n];

            took = time_of(count, fan);
            printf("# %u nodes, %u at a time: %llu us, %u levels, %u messages at the root; one "
                   "after the other %llu us\n",
                   count, fan, (unsigned long long)took, depth, nodes[0].messages,
                   (unsigned long long)one_by_one(count));
            assert_true(depth <= depth_of(count, fan));
            assert_true(took <= most_us(depth, fan));
            assert_int_equal(nodes[0].messages, 2 * min_u32(fan, count - 1));
            assert_true(2 * took < one_by_one(count));
        }
        /* 32 times the nodes: no more than the levels grow, each as dear as a level may be. */
        assert_true(took * 2 * (LINK_US + 2 * COST_US) * depth_of(8, fan) <=
                    of_eight * most_us(depth_of(256, fan), fan));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(time_grows_as_the_tree_is_deep)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
