/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posts and receives of the simulated fabric: what is taken, and when a post starts and its bytes
 * will move. What they do when they get there is sim_act.c's.
 *
 * Ordered posts (SEND, WRITE, WRITE_IMM) act one behind the other: each moves its bytes between the
 * arrival of the one before and its own. READs and atomics act behind all that was ordered before
 * them, at times of their own; nothing waits for them.
 */
#include "fabric/sim/sim_internal.h"

#include <stdlib.h>
#include <string.h>

#define ALL_FLAGS    (FABRIC_SIGNALLED | FABRIC_INLINE | FABRIC_FENCE | FABRIC_SOLICITED)
#define ATOMIC_BYTES 8u

/* ---- taking --------------------------------------------------------------- */

static bool sim_inline_is_valid(const struct fabric_endpoint *end, const struct fabric_work *work,
                                uint64_t bytes)
{
    return bytes <= fabric_inline_bytes(&end->fabric->fabric, &end->options) &&
           (work->op == FABRIC_SEND || work->op == FABRIC_WRITE || work->op == FABRIC_WRITE_IMM);
}

/* Whether the post makes sense; *bytes is how many it moves. */
static bool sim_work_is_valid(const struct fabric_endpoint *end, const struct fabric_work *work,
                              uint64_t *bytes)
{
    bool atomic = work->op == FABRIC_FETCH_ADD || work->op == FABRIC_COMPARE_SWAP;
    bool read = atomic || work->op == FABRIC_READ;
    bool is_inline = (work->flags & FABRIC_INLINE) != 0;

    if ((unsigned)work->op >= FABRIC_OPS || work->op == FABRIC_RECV ||
        (work->flags & ~ALL_FLAGS) != 0 || work->slice_count > LIMIT_FABRIC_SLICES)
        return false;
    *bytes = 0;
    for (uint32_t i = 0; i < work->slice_count; i++) {
        const struct fabric_slice *slice = &work->slices[i];

        if (slice->bytes > LIMIT_FABRIC_MESSAGE)
            return false;
        if (!is_inline && !sim_slice_is_valid(end->fabric, slice, read))
            return false;
        *bytes += slice->bytes;
    }
    if (*bytes > LIMIT_FABRIC_MESSAGE || (is_inline && !sim_inline_is_valid(end, work, *bytes)))
        return false;
    return !atomic || (work->slice_count == 1 && *bytes == ATOMIC_BYTES);
}

static struct sim_work *sim_work_create(struct fabric_endpoint *end, const struct fabric_work *from,
                                        uint64_t bytes)
{
    struct sim *sim = end->fabric->sim;
    struct sim_work *work = sim_pool_take(&sim->works);

    work->ending =
        (struct sim_ending){.end = end, .tag = from->tag, .bytes = bytes, .op = (uint8_t)from->op};
    work->wire = end->wire;
    work->id = ++sim->next_id;
    work->remote = from->remote;
    work->operand = from->operand;
    work->compare = from->compare;
    work->imm = from->imm;
    work->side = end->side;
    work->flags = (uint8_t)from->flags;
    work->owned = true;
    if (from->flags & FABRIC_INLINE) {
        uint8_t *to = work->kept = sim_pool_take(&sim->inlines);

        for (uint32_t i = 0; i < from->slice_count; i++) {
            if (from->slices[i].bytes > 0)
                memcpy(to, from->slices[i].address, from->slices[i].bytes);
            to += from->slices[i].bytes;
        }
        return work;
    }
    work->borrows = true;
    work->slice_count = (uint8_t)from->slice_count;
    for (uint32_t i = 0; i < from->slice_count; i++) {
        work->slices[i] = from->slices[i];
        if (from->slices[i].memory != NULL)
            from->slices[i].memory->uses++;
    }
    return work;
}

static nigh_status sim_post_one(struct fabric_endpoint *end, const struct fabric_work *from)
{
    uint64_t bytes;

    if (end->state != SIM_CONNECTED)
        return NIGH_CLOSED;
    if (end->is_loop && !fabric_loop_can(&end->fabric->fabric, from->op))
        return NIGH_UNSUPPORTED;
    if (!sim_work_is_valid(end, from, &bytes))
        return NIGH_INVALID;
    if (end->posts_taken == end->options.sends)
        return NIGH_BUSY;
    struct sim_work *work = sim_work_create(end, from, bytes);

    end->posts_taken++;
    list_push_back(&end->posts, &work->ending.node);
    if (end->unstarted == NULL)
        end->unstarted = work;
    return NIGH_OK;
}

nigh_status sim_post(struct fabric_endpoint *end, const struct fabric_work *work,
                     const struct fabric_work **bad)
{
    nigh_status status = NIGH_OK;

    for (; work != NULL && status == NIGH_OK; work = work->next) {
        status = sim_post_one(end, work);
        if (status != NIGH_OK && bad != NULL)
            *bad = work;
    }
    sim_fold(end->fabric->sim, end->id << 8 ^ (uint8_t)status);
    if (end->state == SIM_CONNECTED)
        sim_start(end);
    return status;
}

nigh_status sim_receive_make(struct sim_fabric *fabric, const struct fabric_receive *from,
                             struct sim_receive **out)
{
    if (!sim_slice_is_valid(fabric, &from->slice, true))
        return NIGH_INVALID;
    struct sim_receive *receive = sim_pool_take(&fabric->sim->receives);

    receive->ending = (struct sim_ending){.tag = from->tag, .op = FABRIC_RECV, .released = 1};
    receive->slice = from->slice;
    receive->stock = NULL;
    if (from->slice.memory != NULL)
        from->slice.memory->uses++;
    *out = receive;
    return NIGH_OK;
}

static nigh_status sim_post_receive_one(struct fabric_endpoint *end,
                                        const struct fabric_receive *from)
{
    bool open =
        end->state == SIM_DIALLING || end->state == SIM_SAID_YES || end->state == SIM_CONNECTED;

    struct sim_receive *receive;

    if (!open)
        return NIGH_CLOSED;
    if (end->receives_taken == end->options.receives)
        return sim_slice_is_valid(end->fabric, &from->slice, true) ? NIGH_BUSY : NIGH_INVALID;
    nigh_status status = sim_receive_make(end->fabric, from, &receive);

    if (status != NIGH_OK)
        return status;
    receive->ending.end = end;
    end->receives_taken++;
    list_push_back(&end->receives, &receive->ending.node);
    return NIGH_OK;
}

nigh_status sim_post_receive(struct fabric_endpoint *end, const struct fabric_receive *receive,
                             const struct fabric_receive **bad)
{
    for (; receive != NULL; receive = receive->next) {
        nigh_status status = sim_post_receive_one(end, receive);

        if (status == NIGH_OK)
            continue;
        if (bad != NULL)
            *bad = receive;
        return status;
    }
    return NIGH_OK;
}

/* ---- starting ------------------------------------------------------------- */

/* A piece of a post's bytes. */
struct sim_span {
    uint64_t offset;
    uint64_t bytes;
};

/* Cuts at the seed's choice, between words of the target; which piece moves first, too. Where words
 * are torn, between any two bytes. */
static uint32_t sim_cut_up(struct sim *sim, const struct sim_work *work,
                           struct sim_span spans[SIM_PIECES])
{
    uint64_t left = work->ending.bytes, offset = 0;
    uint64_t step = sim->options.torn_words != 0 ? 1 : SIM_PIECE_STEP;
    uint64_t most = min_u64(SIM_PIECES, left / step);
    uint64_t lead = (0 - work->remote.address) % step; /* before the first word that is in it */
    bool whole = sim_is_atomic(work) || work->ending.op == FABRIC_SEND || most < 2;
    uint32_t count = whole ? 1 : 1 + (uint32_t)random_below(&sim->random, most);
    uint32_t first = count == 1 ? 0 : (uint32_t)random_below(&sim->random, count);

    for (uint32_t i = 0; i < count; i++) {
        uint64_t later = count - 1 - i; /* each of these wants a step at least */
        uint64_t steps = left / step - later;
        uint64_t bytes =
            later == 0
                ? left
                : step *
                      (1 + random_below(&sim->random, min_u64(steps, 2 * steps / (later + 1) + 1)));

        spans[(i + first) % count] = (struct sim_span){
            offset + (i > 0 ? lead : 0), bytes + (i == 0 ? lead : 0) - (later == 0 ? lead : 0)};
        offset += bytes;
        left -= bytes;
    }
    return count;
}

static void sim_start_ordered(struct sim_work *work)
{
    struct sim_wire *wire = work->wire;
    struct sim *sim = wire->sim;
    struct sim_span spans[SIM_PIECES];
    uint32_t count = sim_cut_up(sim, work, spans);
    uint64_t from_us = max_u64(wire->arrival_us[work->side], sim->now_us + 1);
    uint64_t arrival_us = max_u64(from_us, sim_travel_us(wire, work->side, work->ending.bytes)) +
                          wire->nodes[1 - work->side]->message_us;

    wire->arrival_us[work->side] = arrival_us;
    work->pieces_left = (uint8_t)count;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t time_us = i == count - 1
                               ? arrival_us
                               : from_us + random_below(&sim->random, arrival_us - from_us + 1);

        /* The last one is added last and is not before the others: with it the post has acted. */
        sim_schedule_work(work, SIM_PIECE, time_us, spans[i].offset, spans[i].bytes);
    }
}

static void sim_start_read(struct sim_work *work)
{
    struct sim_wire *wire = work->wire;
    struct sim *sim = wire->sim;
    struct sim_span spans[SIM_PIECES];
    uint32_t count = sim_cut_up(sim, work, spans);
    uint64_t from_us = max_u64(wire->arrival_us[work->side], sim->now_us + sim_latency_us(wire));
    uint64_t end_us = max_u64(from_us, sim_travel_us(wire, 1 - work->side, work->ending.bytes));

    if (sim_dice(sim, sim->options.late_read_ppm))
        end_us += 1 + random_below(&sim->random, sim->options.late_read_us);
    work->pieces_left = (uint8_t)count;
    for (uint32_t i = 0; i < count; i++)
        sim_schedule_work(work, SIM_PIECE,
                          from_us + random_below(&sim->random, end_us - from_us + 1),
                          spans[i].offset, spans[i].bytes);
}

static void sim_start_one(struct fabric_endpoint *end, struct sim_work *work)
{
    struct sim *sim = end->fabric->sim;
    const struct fabric_endpoint *peer = sim_peer(end);

    work->started = true;
    if (sim_is_read(work))
        end->reads++;
    if (sim_dice(sim, sim->options.break_ppm))
        sim_wire_break(end->wire);
    if (peer == NULL || peer->state == SIM_FAILED) {
        work->dead = true; /* nobody is there; we are about to be told */
        return;
    }
    list_push_back(&end->wire->flight[end->side], &work->flight);
    if (sim_is_read(work))
        sim_start_read(work);
    else
        sim_start_ordered(work);
}

void sim_start(struct fabric_endpoint *end)
{
    if (end->fabric->node->frozen)
        return;
    while (end->unstarted != NULL) {
        struct sim_work *work = end->unstarted;
        struct list_node *next = work->ending.node.next;

        if ((work->flags & FABRIC_FENCE) != 0 && end->reads > 0)
            return;
        if (sim_is_read(work) && end->reads == LIMIT_FABRIC_READS)
            return;
        end->unstarted =
            next == &end->posts.head ? NULL : container_of(next, struct sim_work, ending.node);
        sim_start_one(end, work);
    }
}
