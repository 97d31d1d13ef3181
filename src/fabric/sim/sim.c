/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated world: its clock, its nodes and the links between them, and what a test does to
 * them. What travels over the links is in the other files of this folder.
 */
#include "fabric/sim/sim_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define LATENCY_MIN_US 1u
#define LATENCY_MAX_US 20u
#define BYTES_A_US     1000u
#define LATE_READ_US   5000u
#define STALL_US       10000u

static uint32_t sim_default(uint32_t value, uint32_t otherwise)
{
    return value == 0 ? otherwise : value;
}

nigh_status sim_create(const struct sim_options *options, struct sim **out)
{
    struct sim *sim = calloc(1, sizeof(*sim));
    struct sim_options *own;

    if (sim == NULL)
        return NIGH_NO_RESOURCES;
    own = &sim->options;
    *own = *options;
    own->latency_min_us = sim_default(own->latency_min_us, LATENCY_MIN_US);
    own->latency_max_us =
        max_u32(sim_default(own->latency_max_us, LATENCY_MAX_US), own->latency_min_us);
    own->bytes_a_us = sim_default(own->bytes_a_us, BYTES_A_US);
    own->late_read_us = sim_default(own->late_read_us, LATE_READ_US);
    own->stall_us = sim_default(own->stall_us, STALL_US);
    random_init(&sim->random, own->seed);
    random_init(&sim->test_random, ~own->seed);
    sim_queue_init(&sim->queue);
    sim_pool_init(&sim->events, sizeof(struct sim_event));
    sim_pool_init(&sim->works, sizeof(struct sim_work));
    sim_pool_init(&sim->receives, sizeof(struct sim_receive));
    sim_pool_init(&sim->wires, sizeof(struct sim_wire));
    sim_pool_init(&sim->ends, sizeof(struct fabric_endpoint));
    sim_pool_init(&sim->notices, sizeof(struct sim_notice));
    sim_pool_init(&sim->inlines, SIM_INLINE_BYTES);
    *out = sim;
    return NIGH_OK;
}

static void sim_node_free(struct sim_node *node)
{
    for (uint32_t i = 0; i < node->peer_count; i++)
        free(node->peers[i]);
    free(node->peers);
    free(node);
}

void sim_destroy(struct sim *sim)
{
    if (sim == NULL)
        return;
    NIGH_ASSERT(sim->fabric_count == 0);
    while (sim->queue.count > 0)
        sim_event_free(sim, sim_queue_pop(&sim->queue));
    sim_queue_fini(&sim->queue);
    /* Everything was given back: each of these asserts it. */
    sim_pool_fini(&sim->events);
    sim_pool_fini(&sim->works);
    sim_pool_fini(&sim->receives);
    sim_pool_fini(&sim->wires);
    sim_pool_fini(&sim->ends);
    sim_pool_fini(&sim->notices);
    sim_pool_fini(&sim->inlines);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (sim->nodes[i] != NULL)
            sim_node_free(sim->nodes[i]);
    }
    free(sim->nodes);
    free(sim);
}

/* ---- nodes and links ------------------------------------------------------ */

/* An array of pointers with a place for `index`: the new places are NULL. */
static bool sim_reach(void ***array, uint32_t *count, uint32_t index)
{
    if (index < *count)
        return true;
    uint32_t wanted = max_u32(index + 1, min_u32(2 * *count, SIM_NODES));
    void **grown = realloc(*array, wanted * sizeof(*grown));

    if (grown == NULL)
        return false;
    memset(grown + *count, 0, (wanted - *count) * sizeof(*grown));
    *array = grown;
    *count = wanted;
    return true;
}

struct sim_node *sim_find_node(const struct sim *sim, uint32_t number)
{
    return number < sim->node_count ? sim->nodes[number] : NULL;
}

nigh_status sim_make_node(struct sim *sim, uint32_t number, struct sim_node **out)
{
    if (number >= SIM_NODES)
        return NIGH_LIMIT;
    if (!sim_reach((void ***)&sim->nodes, &sim->node_count, number))
        return NIGH_NO_RESOURCES;
    if (sim->nodes[number] == NULL) {
        struct sim_node *node = calloc(1, sizeof(*node));

        if (node == NULL)
            return NIGH_NO_RESOURCES;
        node->number = number;
        list_init(&node->links);
        sim->nodes[number] = node;
    }
    *out = sim->nodes[number];
    return NIGH_OK;
}

nigh_status sim_make_link(struct sim *sim, struct sim_node *a, struct sim_node *b,
                          struct sim_link **out)
{
    struct sim_node *low = a->number < b->number ? a : b, *high = low == a ? b : a;
    uint32_t index = high->number - low->number;

    (void)sim;
    if (!sim_reach((void ***)&low->peers, &low->peer_count, index))
        return NIGH_NO_RESOURCES;
    if (low->peers[index] == NULL) {
        struct sim_link *link = calloc(1, sizeof(*link));

        if (link == NULL)
            return NIGH_NO_RESOURCES;
        link->nodes[0] = low;
        link->nodes[1] = high;
        link->factor = 1;
        list_init(&link->wires);
        for (uint32_t i = 0; i < (low == high ? 1u : 2u); i++) {
            link->in_node[i].link = link;
            list_push_back(&link->nodes[i]->links, &link->in_node[i].node);
        }
        low->peers[index] = link;
    }
    *out = low->peers[index];
    return NIGH_OK;
}

/* The link of a fault: its nodes need not be there yet. */
static struct sim_link *sim_link_between(struct sim *sim, uint32_t a, uint32_t b)
{
    struct sim_node *nodes[2];
    struct sim_link *link = NULL;

    NIGH_ASSERT(sim_make_node(sim, a, &nodes[0]) == NIGH_OK);
    NIGH_ASSERT(sim_make_node(sim, b, &nodes[1]) == NIGH_OK);
    NIGH_ASSERT(sim_make_link(sim, nodes[0], nodes[1], &link) == NIGH_OK);
    return link;
}

uint64_t sim_latency_us(struct sim_wire *wire)
{
    struct sim *sim = wire->sim;
    uint64_t spread = (uint64_t)sim->options.latency_max_us - sim->options.latency_min_us + 1;

    return (sim->options.latency_min_us + random_below(&sim->random, spread)) * wire->link->factor;
}

/* When the last of so many bytes, that would have left at a moment, has passed both nodes' own
 * links. */
static uint64_t pass_links(struct sim_node *from, struct sim_node *to, uint64_t left_ns,
                           uint64_t bytes)
{
    uint64_t now_ns = left_ns;

    if (bytes <= SIM_SMALL_BYTES) {
        return left_ns;
    }
    if (from->bytes_a_us > 0) {
        from->out_free_ns = max_u64(from->out_free_ns, now_ns) + bytes * 1000 / from->bytes_a_us;
        left_ns = from->out_free_ns;
    }
    if (to->bytes_a_us > 0) {
        /* It comes in as it leaves. */
        to->in_free_ns =
            max_u64(left_ns, max_u64(to->in_free_ns, now_ns) + bytes * 1000 / to->bytes_a_us);
        left_ns = to->in_free_ns;
    }
    return left_ns;
}

uint64_t sim_travel_us(struct sim_wire *wire, uint32_t side, uint64_t bytes)
{
    struct sim *sim = wire->sim;
    uint64_t *free_ns = &wire->free_ns[side];

    /* At most 2^30 bytes, a factor of 2^20: fits. */
    *free_ns = max_u64(*free_ns, sim->now_us * 1000) +
               bytes * 1000 / sim->options.bytes_a_us * wire->link->factor;
    uint64_t left_ns = pass_links(wire->nodes[side], wire->nodes[1 - side], *free_ns, bytes);
    uint64_t arrival_us = (left_ns + 999) / 1000 + sim_latency_us(wire);

    if (sim_dice(sim, sim->options.stall_ppm))
        arrival_us += 1 + random_below(&sim->random, sim->options.stall_us);
    return arrival_us;
}

/* ---- events --------------------------------------------------------------- */

void sim_fold(struct sim *sim, uint64_t value)
{
    sim->digest = hash_mix(sim->digest ^ HASH_K0, value ^ HASH_K1) + HASH_K2;
}

struct sim_event *sim_schedule(struct sim_wire *wire, enum sim_event_kind kind, uint32_t side,
                               uint64_t time_us)
{
    struct sim *sim = wire->sim;
    struct sim_event *event = sim_pool_take(&sim->events);

    event->wire = wire;
    event->kind = (uint8_t)kind;
    event->side = (uint8_t)side;
    wire->events++;
    sim_queue_add(&sim->queue, event, time_us);
    return event;
}

void sim_schedule_work(struct sim_work *work, enum sim_event_kind kind, uint64_t time_us,
                       uint64_t offset, uint64_t bytes)
{
    struct sim_event *event = sim_schedule(work->wire, kind, work->side, time_us);

    event->work = work;
    event->offset = offset;
    event->bytes = bytes;
    work->events++;
}

void sim_event_free(struct sim *sim, struct sim_event *event)
{
    struct sim_wire *wire = event->wire;
    struct sim_work *work = event->work;

    sim_pool_give(&sim->events, event);
    if (work != NULL) {
        work->events--;
        sim_work_release(work);
    }
    wire->events--;
    sim_wire_release(wire);
}

void sim_cancel(struct sim *sim, struct sim_event **event)
{
    if (*event == NULL)
        return;
    sim_queue_remove(&sim->queue, *event);
    sim_event_free(sim, *event);
    *event = NULL;
}

static void sim_carry_out(struct sim_event *event)
{
    struct sim_wire *wire = event->wire;
    struct fabric_endpoint *end = wire->ends[event->side];

    switch ((enum sim_event_kind)event->kind) {
    case SIM_PIECE: sim_on_piece(event); break;
    case SIM_DONE: sim_on_done(event->work); break;
    case SIM_REFUSED: sim_on_refused(event->work, event->status); break;
    case SIM_FAIL:
        if (end != NULL)
            sim_end_fail(end, event->status, false);
        break;
    case SIM_REQUEST: sim_on_request(wire); break;
    case SIM_ACCEPTED: sim_on_accepted(wire); break;
    case SIM_CONFIRMED: sim_on_confirmed(wire); break;
    case SIM_SILENCE:
        end->silence = NULL;
        sim_end_fail(end, NIGH_TIMEOUT, true);
        break;
    case SIM_HANDSHAKE:
        end->handshake = NULL;
        sim_end_fail(end, event->status, true);
        break;
    }
}

/* Timers are their end's own; everything else waits while its way is blocked, if for anybody. What
 * a READ brings has to be asked for, too. */
static bool sim_is_held_back(const struct sim_event *event)
{
    const struct sim_wire *wire = event->wire;
    bool is_piece = event->kind == SIM_PIECE;
    uint32_t from = is_piece ? event->side : 1u - event->side;

    return !sim_event_is_timer(event) && (wire->ends[0] != NULL || wire->ends[1] != NULL) &&
           (sim_way_is_blocked(wire, from) ||
            (is_piece && sim_is_read(event->work) && sim_way_is_blocked(wire, 1 - from)));
}

void sim_advance(struct sim *sim, uint64_t until_us)
{
    NIGH_ASSERT(until_us >= sim->now_us);
    while (sim_queue_next_us(&sim->queue) <= until_us) {
        sim->now_us = max_u64(sim->now_us, sim_queue_next_us(&sim->queue));
        struct sim_event *event = sim_queue_pop(&sim->queue);

        sim->carried_out++;
        sim_fold(sim, sim->now_us << 8 ^ event->kind);
        sim_fold(sim, event->work != NULL ? event->work->id : event->wire->id);
        sim_fold(sim, event->offset << 32 ^ event->bytes);
        if (sim_is_held_back(event)) {
            list_push_back(&event->wire->held, &event->node);
            continue;
        }
        sim_carry_out(event);
        sim_event_free(sim, event);
    }
    sim->now_us = until_us;
}

/* ---- what a test asks ----------------------------------------------------- */

uint64_t sim_now_us(const struct sim *sim)
{
    return sim->now_us;
}

uint64_t sim_next_us(const struct sim *sim)
{
    return sim_queue_next_us(&sim->queue);
}

uint64_t sim_random(struct sim *sim, uint64_t bound)
{
    return random_below(&sim->test_random, bound);
}

uint64_t sim_digest(const struct sim *sim)
{
    return sim->digest;
}

uint64_t sim_events(const struct sim *sim)
{
    return sim->carried_out;
}

/* ---- what a test does to them --------------------------------------------- */

void sim_crash(struct sim *sim, uint32_t number)
{
    struct sim_node *node = sim_find_node(sim, number);

    if (node == NULL)
        return;
    sim_fold(sim, number);
    for (uint32_t lane = 0; lane < LIMIT_LANES; lane++) {
        struct sim_fabric *fabric = node->fabrics[lane];

        if (fabric == NULL)
            continue;
        node->fabrics[lane] = NULL;
        sim_fabric_crash(fabric);
    }
    sim_pause(sim, number, false); /* it may come back, and is not paused then */
}

/* What was blocked goes on, where it is not blocked by something else too. */
static void sim_link_unblock(struct sim_link *link)
{
    LIST_FOREACH(node, &link->wires)
    {
        sim_wire_unblock(container_of(node, struct sim_wire, node));
    }
}

/* Peers of a node that serves nothing hear nothing of it. */
static void sim_node_falls_silent(struct sim_node *node)
{
    LIST_FOREACH(in_node, &node->links)
    {
        struct sim_link *link = container_of(in_node, struct sim_node_link, node)->link;

        LIST_FOREACH(wire_node, &link->wires)
        {
            struct sim_wire *wire = container_of(wire_node, struct sim_wire, node);

            for (uint32_t side = 0; side < 2; side++) {
                if (wire->nodes[1 - side] == node && wire->nodes[side] != node)
                    sim_silence(wire, side, false);
            }
        }
    }
}

void sim_pause(struct sim *sim, uint32_t number, bool paused)
{
    struct sim_node *node = NULL;

    NIGH_ASSERT(sim_make_node(sim, number, &node) == NIGH_OK);
    if (node->paused == paused)
        return;
    sim_fold(sim, (uint64_t)number << 1 | paused);
    node->paused = paused;
    if (paused) {
        node->frozen = random_below(&sim->random, 2) == 0;
        if (node->frozen)
            sim_node_falls_silent(node);
        return;
    }
    node->frozen = false;
    LIST_FOREACH(in_node, &node->links)
    {
        sim_link_unblock(container_of(in_node, struct sim_node_link, node)->link);
    }
}

void sim_limit(struct sim *sim, uint32_t number, uint32_t bytes_a_us)
{
    struct sim_node *node = NULL;

    NIGH_ASSERT(sim_make_node(sim, number, &node) == NIGH_OK);
    sim_fold(sim, (uint64_t)number << 32 | bytes_a_us);
    node->bytes_a_us = bytes_a_us;
}

void sim_message_costs(struct sim *sim, uint32_t number, uint32_t us)
{
    struct sim_node *node = NULL;

    NIGH_ASSERT(sim_make_node(sim, number, &node) == NIGH_OK);
    sim_fold(sim, (uint64_t)number << 32 | us);
    node->message_us = us;
}

void sim_cut_way(struct sim *sim, uint32_t from, uint32_t to, bool cut)
{
    struct sim_link *link = sim_link_between(sim, from, to);
    bool *way = &link->cut[from <= to ? 0 : 1];

    if (*way == cut)
        return;
    sim_fold(sim, (uint64_t)from << 33 | (uint64_t)to << 1 | cut);
    *way = cut;
    if (!cut) {
        sim_link_unblock(link);
        return;
    }
    LIST_FOREACH(node, &link->wires)
    {
        struct sim_wire *wire = container_of(node, struct sim_wire, node);

        sim_silence(wire, wire->nodes[0]->number == to ? 0 : 1, false);
    }
}

void sim_cut(struct sim *sim, uint32_t a, uint32_t b, bool cut)
{
    sim_cut_way(sim, a, b, cut);
    sim_cut_way(sim, b, a, cut);
}

void sim_slow(struct sim *sim, uint32_t a, uint32_t b, uint32_t factor)
{
    sim_fold(sim, (uint64_t)a << 32 | b);
    sim_fold(sim, factor);
    sim_link_between(sim, a, b)->factor = min_u32(max_u32(factor, 1), SIM_FACTOR_MOST);
}
