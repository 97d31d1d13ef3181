/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of the simulated fabric, from the dial to the end.
 *
 * An end that failed has told its caller, and its outstanding work completes; but what was on the
 * wire may go on until the end is destroyed, where the seed says so. An end that is destroyed (or
 * crashed) is off its wire: bytes that still travel are first taken out of its memory.
 */
#include "fabric/sim/sim_internal.h"

#include <string.h>

/* A peer that crashes is found out at once about as often as not. */
#define CRASH_RESET_PPM (SIM_PPM / 2)
/* A goodbye that overtakes what was sent before it. */
#define HASTY_PPM        (SIM_PPM / 2)
#define DIALLER_GRACE_US (LIMIT_FABRIC_HANDSHAKE_US / 4)

/* ---- addresses ------------------------------------------------------------ */

static const char *sim_parse_number(const char *text, uint32_t most, uint32_t *number)
{
    uint32_t value = 0;

    if (*text < '0' || *text > '9')
        return NULL;
    for (; *text >= '0' && *text <= '9'; text++) {
        value = 10 * value + (uint32_t)(*text - '0');
        if (value > most)
            return NULL;
    }
    *number = value;
    return text;
}

bool sim_parse_address(const char *address, uint32_t *node, uint32_t *lane)
{
    address = sim_parse_number(address, SIM_NODES - 1, node);
    if (address == NULL || *address != ':')
        return false;
    address = sim_parse_number(address + 1, LIMIT_LANES - 1, lane);
    return address != NULL && *address == '\0';
}

/* ---- wires and ends ------------------------------------------------------- */

static struct sim_wire *sim_wire_create(struct sim_fabric *fabric, struct sim_node *to,
                                        uint32_t lane, struct sim_link *link)
{
    struct sim *sim = fabric->sim;
    struct sim_wire *wire = sim_pool_take(&sim->wires);

    wire->sim = sim;
    wire->link = link;
    wire->nodes[0] = fabric->node;
    wire->nodes[1] = to;
    wire->lanes[0] = fabric->lane;
    wire->lanes[1] = lane;
    wire->id = ++sim->next_id;
    list_init(&wire->flight[0]);
    list_init(&wire->flight[1]);
    list_init(&wire->held);
    list_push_back(&link->wires, &wire->node);
    return wire;
}

void sim_wire_release(struct sim_wire *wire)
{
    if (wire->events > 0 || wire->ends[0] != NULL || wire->ends[1] != NULL)
        return;
    NIGH_ASSERT(list_empty(&wire->flight[0]) && list_empty(&wire->flight[1]));
    list_remove(&wire->node);
    sim_pool_give(&wire->sim->wires, wire);
}

static struct fabric_endpoint *sim_end_create(struct sim_fabric *fabric, struct sim_wire *wire,
                                              uint32_t side, enum sim_end_state state)
{
    struct fabric_endpoint *end = sim_pool_take(&fabric->sim->ends);

    end->fabric = fabric;
    end->wire = wire;
    end->side = (uint8_t)side;
    end->state = (uint8_t)state;
    end->id = ++fabric->sim->next_id;
    list_init(&end->posts);
    list_init(&end->receives);
    list_push_back(&fabric->ends, &end->node);
    fabric->end_count++;
    wire->ends[side] = end;
    /* The dialler gives the acceptor the time that it has, and the way. */
    end->handshake = sim_schedule(wire, SIM_HANDSHAKE, side,
                                  fabric->sim->now_us + LIMIT_FABRIC_HANDSHAKE_US +
                                      (side == 0 ? DIALLER_GRACE_US : 0));
    end->handshake->status = side == 0 ? NIGH_UNREACHABLE : NIGH_TIMEOUT;
    return end;
}

static void sim_end_leave_wire(struct fabric_endpoint *end);

/* A word over the wire that ends the other side, soon or behind what was sent before. */
static void sim_tell(struct sim_wire *wire, uint32_t from, nigh_status status)
{
    struct sim *sim = wire->sim;
    uint64_t time_us = sim->now_us + sim_latency_us(wire);

    if (!sim_dice(sim, HASTY_PPM))
        time_us = max_u64(time_us, wire->arrival_us[from]);
    sim_schedule(wire, SIM_FAIL, 1 - from, time_us)->status = status;
}

/* ---- the handshake -------------------------------------------------------- */

static bool sim_options_are_valid(const struct fabric_endpoint_options *options,
                                  uint32_t private_bytes)
{
    return options->sends <= LIMIT_FABRIC_DEPTH && options->receives <= LIMIT_FABRIC_DEPTH &&
           private_bytes <= FABRIC_PRIVATE_BYTES;
}

static void sim_set_private(struct sim_wire *wire, uint32_t side, const void *data, uint32_t bytes)
{
    wire->private_bytes[side] = bytes;
    if (bytes > 0)
        memcpy(wire->private_data[side], data, bytes);
}

nigh_status sim_connect(struct fabric *base, const char *address,
                        const struct fabric_endpoint_options *options, const void *private_data,
                        uint32_t private_bytes, struct fabric_endpoint **out)
{
    struct sim_fabric *fabric = sim_fabric_of(base);
    struct sim *sim = fabric->sim;
    struct sim_node *to;
    struct sim_link *link;
    uint32_t number, lane;

    if (!sim_options_are_valid(options, private_bytes) ||
        !sim_parse_address(address, &number, &lane))
        return NIGH_INVALID;
    if (fabric->crashed)
        return NIGH_CLOSED;
    if (fabric->end_count == LIMIT_FABRIC_ENDPOINTS)
        return NIGH_LIMIT;
    if (sim_make_node(sim, number, &to) != NIGH_OK ||
        sim_make_link(sim, fabric->node, to, &link) != NIGH_OK)
        return NIGH_NO_RESOURCES;
    struct sim_wire *wire = sim_wire_create(fabric, to, lane, link);
    struct fabric_endpoint *end = sim_end_create(fabric, wire, 0, SIM_DIALLING);

    end->options = *options;
    sim_stock_join(end);
    sim_set_private(wire, 0, private_data, private_bytes);
    if (sim_dice(sim, sim->options.refuse_ppm))
        sim_tell(wire, 1, NIGH_UNREACHABLE);
    else
        sim_schedule(wire, SIM_REQUEST, 1, sim_travel_us(wire, 0, private_bytes));
    *out = end;
    return NIGH_OK;
}

void sim_on_request(struct sim_wire *wire)
{
    struct sim_fabric *fabric = wire->nodes[1]->fabrics[wire->lanes[1]];

    if (wire->ends[0] == NULL || wire->ends[0]->state != SIM_DIALLING)
        return;
    if (fabric == NULL || !fabric->listening || fabric->half_open == LIMIT_FABRIC_HALF_OPEN ||
        fabric->end_count == LIMIT_FABRIC_ENDPOINTS) {
        sim_tell(wire, 1, NIGH_UNREACHABLE);
        return;
    }
    struct fabric_endpoint *end = sim_end_create(fabric, wire, 1, SIM_ASKED);

    end->half_open = true;
    fabric->half_open++;
    sim_notify(end, FABRIC_REQUEST, NIGH_OK);
}

static void sim_answered(struct fabric_endpoint *end)
{
    NIGH_ASSERT(end->half_open);
    end->half_open = false;
    end->fabric->half_open--;
}

/* A request whose dialler has gone is accepted like any other; DISCONNECTED follows. */
nigh_status sim_accept(struct fabric_endpoint *end, const struct fabric_endpoint_options *options,
                       const void *private_data, uint32_t private_bytes)
{
    if (end->state == SIM_CRASHED)
        return NIGH_CLOSED;
    if (!sim_options_are_valid(options, private_bytes) || !end->half_open)
        return NIGH_INVALID;
    sim_answered(end);
    end->options = *options;
    sim_stock_join(end);
    if (end->state != SIM_ASKED)
        return NIGH_OK;
    end->state = SIM_SAID_YES;
    sim_set_private(end->wire, 1, private_data, private_bytes);
    sim_schedule(end->wire, SIM_ACCEPTED, 0, sim_travel_us(end->wire, 1, private_bytes));
    return NIGH_OK;
}

static void sim_establish(struct fabric_endpoint *end)
{
    sim_cancel(end->fabric->sim, &end->handshake);
    end->state = SIM_CONNECTED;
    sim_notify(end, FABRIC_ESTABLISHED, NIGH_OK);
}

void sim_on_accepted(struct sim_wire *wire)
{
    struct fabric_endpoint *end = wire->ends[0];

    if (end == NULL || end->state != SIM_DIALLING)
        return;
    sim_establish(end);
    sim_schedule(wire, SIM_CONFIRMED, 1, sim_travel_us(wire, 0, 0));
}

void sim_on_confirmed(struct sim_wire *wire)
{
    struct fabric_endpoint *end = wire->ends[1];

    if (end != NULL && end->state == SIM_SAID_YES)
        sim_establish(end);
}

/* ---- what leads back ------------------------------------------------------ */

nigh_status sim_loop(struct fabric *base, const struct fabric_endpoint_options *options,
                     struct fabric_endpoint **out)
{
    struct sim_fabric *fabric = sim_fabric_of(base);
    struct sim *sim = fabric->sim;
    struct fabric_endpoint *ends[2];
    struct sim_link *link;
    struct sim_wire *wire;

    if (fabric->crashed)
        return NIGH_UNREACHABLE;
    if (fabric->end_count == LIMIT_FABRIC_ENDPOINTS)
        return NIGH_LIMIT;
    if (sim_make_link(sim, fabric->node, fabric->node, &link) != NIGH_OK)
        return NIGH_NO_RESOURCES;
    wire = sim_wire_create(fabric, fabric->node, fabric->lane, link);
    for (uint32_t side = 0; side < 2; side++) {
        ends[side] = sim_end_create(fabric, wire, side, SIM_CONNECTED);
        sim_cancel(sim, &ends[side]->handshake);
    }
    ends[0]->options = *options;
    ends[0]->is_loop = true;
    ends[1]->is_hidden = true;
    list_remove(&ends[1]->node);
    fabric->end_count--;
    *out = ends[0];
    return NIGH_OK;
}

/* The end that only answers goes with the one that it answers: nothing is acted on behind that. */
static void sim_end_hidden(struct fabric_endpoint *end)
{
    struct fabric_endpoint *hidden = end->is_loop ? sim_peer(end) : NULL;
    struct sim *sim = end->fabric->sim;

    if (hidden == NULL)
        return;
    if (hidden->state != SIM_FAILED)
        sim_end_fail(hidden, NIGH_PEER_LOST, false);
    sim_end_leave_wire(hidden);
    sim_pool_give(&sim->ends, hidden);
}

/* ---- silence -------------------------------------------------------------- */

void sim_silence(struct sim_wire *wire, uint32_t side, bool for_ever)
{
    struct fabric_endpoint *end = wire->ends[side];

    if (end == NULL || end->state == SIM_FAILED)
        return;
    if (end->silence == NULL)
        end->silence = sim_schedule(wire, SIM_SILENCE, side, wire->sim->now_us + SIM_KEEPALIVE_US);
    if (for_ever)
        end->silence->offset = 1;
}

void sim_wire_unblock(struct sim_wire *wire)
{
    struct sim *sim = wire->sim;
    struct list_node *node;

    if (sim_way_is_blocked(wire, 0) && sim_way_is_blocked(wire, 1))
        return;
    /* What the other way holds back still is held back again, in the same order. */
    while ((node = list_pop_front(&wire->held)) != NULL)
        sim_queue_add(&sim->queue, container_of(node, struct sim_event, node), sim->now_us);
    for (uint32_t side = 0; side < 2; side++) {
        struct fabric_endpoint *end = wire->ends[side];

        if (end == NULL)
            continue;
        if (end->silence != NULL && end->silence->offset == 0 &&
            !sim_way_is_blocked(wire, 1 - side))
            sim_cancel(sim, &end->silence);
        sim_start(end);
    }
}

void sim_wire_break(struct sim_wire *wire)
{
    struct sim *sim = wire->sim;

    if (wire->broken)
        return;
    wire->broken = true;
    for (uint32_t side = 0; side < 2; side++) {
        uint64_t delay_us = 1 + random_below(&sim->random, 2 * sim_latency_us(wire));

        sim_schedule(wire, SIM_FAIL, side, sim->now_us + delay_us)->status = NIGH_PEER_LOST;
    }
}

/* ---- failure -------------------------------------------------------------- */

static bool sim_is_on_its_way(const struct sim_work *work)
{
    return work->started && !work->acted && !work->dead && !work->ended;
}

/* A post of the end that fails. *keep: how many more ordered ones the wire already has. */
static void sim_fail_post(struct sim_work *work, uint32_t *keep)
{
    struct sim *sim = work->wire->sim;
    bool late = sim_dice(sim, sim->options.late_landing_ppm);

    if (sim_is_on_its_way(work) && !sim_is_read(work)) {
        if (*keep == 0) {
            sim_work_kill(work);
        } else {
            (*keep)--;
            /* Its source is borrowed until it has acted, or is not needed any more. */
            if (late || !sim_work_keep(work)) {
                work->late_here = true;
                return;
            }
        }
    } else if (work->started && !work->dead && sim_is_read(work)) {
        if (late && !(work->acted && !sim_is_atomic(work))) {
            work->late_here = true;
            return;
        }
        sim_work_kill(work);
    }
    if (!work->ended)
        sim_work_end(work, NIGH_PEER_LOST);
}

static void sim_fail_posts(struct fabric_endpoint *end)
{
    uint32_t ordered = 0;

    LIST_FOREACH(node, &end->posts)
    {
        struct sim_work *work = container_of(node, struct sim_work, ending.node);

        if (sim_is_on_its_way(work) && !sim_is_read(work))
            ordered++;
    }
    uint32_t keep = (uint32_t)random_below(&end->fabric->sim->random, (uint64_t)ordered + 1);

    LIST_FOREACH(node, &end->posts)
    {
        struct sim_work *work = container_of(node, struct sim_work, ending.node);

        if (!work->ended)
            sim_fail_post(work, &keep);
    }
    end->unstarted = NULL;
}

/* What the peer has under way towards the end that fails: SENDs find nobody, and nothing ordered
 * passes them; the rest may be late. */
static void sim_fail_flight(struct fabric_endpoint *end)
{
    struct sim *sim = end->fabric->sim;
    bool stopped = false;

    LIST_FOREACH_SAFE(node, &end->wire->flight[1 - end->side])
    {
        struct sim_work *work = container_of(node, struct sim_work, flight);
        bool late = sim_dice(sim, sim->options.late_landing_ppm);

        if (!sim_is_read(work)) {
            stopped = stopped || work->ending.op != FABRIC_WRITE || !late;
            late = !stopped;
        }
        if (late)
            work->late_there = true;
        else
            sim_work_kill(work);
    }
}

void sim_end_fail(struct fabric_endpoint *end, nigh_status status, bool tell)
{
    struct sim *sim = end->fabric->sim;
    struct list_node *node;

    if (end->state == SIM_FAILED)
        return;
    end->state = SIM_FAILED;
    sim_cancel(sim, &end->handshake);
    sim_cancel(sim, &end->silence);
    sim_notify(end, FABRIC_DISCONNECTED, status);
    sim_fail_posts(end);
    sim_fail_flight(end);
    while ((node = list_first(&end->receives)) != NULL)
        sim_receive_end(container_of(node, struct sim_receive, ending.node), NIGH_PEER_LOST);
    sim_reap(end);
    if (tell)
        sim_tell(end->wire, end->side, NIGH_PEER_LOST);
}

void sim_disconnect(struct fabric_endpoint *end)
{
    if (end->state != SIM_FAILED && end->state != SIM_CRASHED)
        sim_end_fail(end, NIGH_PEER_LOST, true);
}

/* ---- off the wire --------------------------------------------------------- */

/* Nothing of this wire touches the end's memory from here on. */
static void sim_end_leave_flight(struct fabric_endpoint *end)
{
    struct sim_wire *wire = end->wire;

    LIST_FOREACH_SAFE(node, &wire->flight[end->side])
    {
        struct sim_work *work = container_of(node, struct sim_work, flight);

        if (sim_is_read(work) || !sim_work_keep(work))
            sim_work_kill(work);
    }
    LIST_FOREACH_SAFE(node, &wire->flight[1 - end->side])
    {
        struct sim_work *work = container_of(node, struct sim_work, flight);

        if (!sim_is_read(work) || !sim_work_keep(work))
            sim_work_kill(work);
    }
}

static void sim_drop_work(struct sim_work *work)
{
    if (!work->ended)
        sim_work_end(work, NIGH_PEER_LOST);
    list_remove(&work->ending.node);
    work->owned = false;
    sim_work_release(work);
}

/* What its caller has not polled, and never will. */
static void sim_end_drop_results(struct fabric_endpoint *end)
{
    struct sim_fabric *fabric = end->fabric;
    struct sim *sim = fabric->sim;

    LIST_FOREACH_SAFE(node, &fabric->completions)
    {
        struct sim_ending *ending = container_of(node, struct sim_ending, node);

        if (ending->end != end)
            continue;
        if (ending->op == FABRIC_RECV) {
            struct sim_receive *receive = container_of(ending, struct sim_receive, ending);

            list_remove(&ending->node);
            if (receive->stock != NULL)
                sim_stock_put_back(receive);
            else
                sim_receive_free(sim, receive);
        } else {
            sim_drop_work(container_of(ending, struct sim_work, ending));
        }
    }
    LIST_FOREACH_SAFE(node, &fabric->notices)
    {
        struct sim_notice *notice = container_of(node, struct sim_notice, node);

        if (notice->end != end)
            continue;
        list_remove(&notice->node);
        sim_pool_give(&sim->notices, notice);
    }
}

static void sim_end_leave_wire(struct fabric_endpoint *end)
{
    struct sim_wire *wire = end->wire;
    struct sim *sim = wire->sim;
    struct list_node *node;

    if (end->half_open)
        sim_answered(end);
    sim_end_leave_flight(end);
    while ((node = list_first(&end->posts)) != NULL)
        sim_drop_work(container_of(node, struct sim_work, ending.node));
    sim_end_drop_results(end);
    NIGH_ASSERT(end->reads == 0 && list_empty(&end->receives));
    wire->ends[end->side] = NULL;
    end->wire = NULL;
    if (wire->ends[1 - end->side] != NULL)
        return;
    wire->events++; /* stays while it lets go of what nobody waits for */
    while ((node = list_pop_front(&wire->held)) != NULL)
        sim_event_free(sim, container_of(node, struct sim_event, node));
    wire->events--;
    sim_wire_release(wire);
}

void sim_end_crash(struct fabric_endpoint *end)
{
    struct sim_wire *wire = end->wire;
    struct sim *sim = wire->sim;
    uint32_t side = end->side;

    sim_end_fail(end, NIGH_PEER_LOST, false);
    if (end->is_loop) {
        sim_end_hidden(end);
        end->state = SIM_CRASHED;
        sim_end_leave_wire(end);
        return;
    }
    if (sim_dice(sim, CRASH_RESET_PPM))
        sim_schedule(wire, SIM_FAIL, 1 - side, sim->now_us + sim_latency_us(wire))->status =
            NIGH_PEER_LOST;
    sim_silence(wire, 1 - side, true);
    end->state = SIM_CRASHED;
    sim_end_leave_wire(end);
}

void sim_endpoint_destroy(struct fabric_endpoint *end)
{
    struct sim_fabric *fabric = end->fabric;

    if (end->wire != NULL) {
        sim_disconnect(end);
        sim_end_hidden(end);
        sim_end_leave_wire(end);
    }
    sim_stock_leave(end);
    list_remove(&end->node);
    fabric->end_count--;
    sim_pool_give(&fabric->sim->ends, end);
}

/* The dialler is told why, which another end could not say. */
void sim_reject(struct fabric_endpoint *end)
{
    NIGH_ASSERT(end->half_open || end->state == SIM_CRASHED);
    if (end->state == SIM_ASKED) {
        sim_tell(end->wire, end->side, NIGH_DENIED);
        sim_end_fail(end, NIGH_DENIED, false);
    }
    sim_endpoint_destroy(end);
}
