/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a post does at its target, piece by piece, and how it ends at its poster.
 *
 * Bytes are copied straight from the one memory to the other at the moment of each piece: the
 * latest that either may still be used, so that whoever lets go too early is found out. Key, bounds
 * and rights are those of that moment.
 */
#include "fabric/sim/sim_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory of a post ----------------------------------------------------- */

/* Copies bytes [offset, offset + bytes) of the slices from, or to, flat memory. */
static void sim_copy(const struct sim_work *work, uint64_t offset, uint64_t bytes, void *flat,
                     bool to_slices)
{
    char *other = flat;

    NIGH_ASSERT(work->borrows && work->owned);
    for (uint32_t i = 0; i < work->slice_count && bytes > 0; i++) {
        const struct fabric_slice *slice = &work->slices[i];

        if (offset >= slice->bytes) {
            offset -= slice->bytes;
            continue;
        }
        uint64_t part = min_u64(bytes, slice->bytes - offset);
        char *own = (char *)slice->address + offset;

        memmove(to_slices ? own : other, to_slices ? other : own, part);
        other += part;
        bytes -= part;
        offset = 0;
    }
    NIGH_ASSERT(bytes == 0);
}

/* Outgoing bytes, from where they are now. */
static void sim_copy_out(const struct sim_work *work, uint64_t offset, uint64_t bytes, void *flat)
{
    if (bytes == 0)
        return;
    if (work->kept != NULL)
        memcpy(flat, work->kept + offset, bytes);
    else
        sim_copy(work, offset, bytes, flat, false);
}

static void sim_let_go(struct sim_work *work)
{
    if (!work->borrows)
        return;
    work->borrows = false;
    for (uint32_t i = 0; i < work->slice_count; i++) {
        struct fabric_memory *memory = work->slices[i].memory;

        if (memory != NULL) {
            NIGH_ASSERT(memory->uses > 0);
            memory->uses--;
        }
    }
}

static uint32_t sim_right(const struct sim_work *work)
{
    return sim_is_atomic(work)              ? FABRIC_REMOTE_ATOMIC
           : work->ending.op == FABRIC_READ ? FABRIC_REMOTE_READ
                                            : FABRIC_REMOTE_WRITE;
}

static char *sim_target(const struct sim_work *work)
{
    const struct fabric_endpoint *target = work->wire->ends[1 - work->side];

    NIGH_ASSERT(target != NULL);
    if (sim_is_atomic(work) && (work->remote.address & (sizeof(uint64_t) - 1)) != 0)
        return NULL;
    return sim_memory_find(target->fabric, work->remote, work->ending.bytes, sim_right(work));
}

bool sim_work_keep(struct sim_work *work)
{
    uint64_t bytes = work->ending.bytes;
    char *source = NULL;

    if (work->kept != NULL)
        return true;
    if (sim_is_read(work)) {
        source = work->ending.op == FABRIC_READ ? sim_target(work) : NULL;
        if (source == NULL)
            return false;
    }
    uint8_t *kept = malloc(max_u64(bytes, 1));

    if (kept == NULL)
        return false;
    if (source != NULL)
        memcpy(kept, source, bytes);
    else
        sim_copy_out(work, 0, bytes, kept);
    work->kept = kept;
    if (!sim_is_read(work))
        sim_let_go(work);
    return true;
}

/* ---- how posts end -------------------------------------------------------- */

void sim_work_release(struct sim_work *work)
{
    struct sim *sim = work->wire->sim;

    if (work->owned || work->events > 0)
        return;
    NIGH_ASSERT(!list_is_linked(&work->flight) && !work->borrows);
    if (work->kept != NULL && (work->flags & FABRIC_INLINE))
        sim_pool_give(&sim->inlines, work->kept);
    else
        free(work->kept);
    sim_pool_give(&sim->works, work);
}

static void sim_leave_flight(struct sim_work *work)
{
    if (list_is_linked(&work->flight))
        list_remove(&work->flight);
}

void sim_work_end(struct sim_work *work, nigh_status status)
{
    NIGH_ASSERT(work->owned && !work->ended);
    work->ended = true;
    work->ending.status = status;
    sim_let_go(work);
    if (work->started && sim_is_read(work))
        work->ending.end->reads--;
}

void sim_work_kill(struct sim_work *work)
{
    work->dead = true;
    sim_leave_flight(work);
    /* One that was only still there because it was late: its end waits for nothing else. */
    if (work->late_here && work->owned && !work->ended) {
        sim_work_end(work, NIGH_PEER_LOST);
        sim_reap(work->ending.end);
    }
}

void sim_reap(struct fabric_endpoint *end)
{
    struct list_node *node;

    while ((node = list_first(&end->posts)) != NULL) {
        struct sim_work *work = container_of(node, struct sim_work, ending.node);

        if (!work->ended)
            return;
        list_remove(node);
        if (work->ending.status == NIGH_OK && (work->flags & FABRIC_SIGNALLED) == 0) {
            end->silent++;
            work->owned = false;
            sim_work_release(work);
            continue;
        }
        work->ending.released = end->silent + 1;
        work->ending.imm = 0;
        end->silent = 0;
        sim_complete(&work->ending);
    }
}

void sim_on_done(struct sim_work *work)
{
    if (work->dead || work->ended)
        return;
    struct fabric_endpoint *end = work->ending.end;

    if (sim_is_atomic(work))
        sim_copy(work, 0, sizeof(work->old), &work->old, true);
    sim_work_end(work, end->state == SIM_FAILED ? NIGH_PEER_LOST : NIGH_OK);
    sim_reap(end);
    if (end->state == SIM_CONNECTED)
        sim_start(end);
}

void sim_on_refused(struct sim_work *work, nigh_status status)
{
    struct fabric_endpoint *end = work->wire->ends[work->side];

    if (work->ended || end == NULL || end->state == SIM_FAILED)
        return;
    /* The refusal says that what was ordered before it was not refused. */
    LIST_FOREACH(node, &end->posts)
    {
        struct sim_work *before = container_of(node, struct sim_work, ending.node);

        if (before == work)
            break;
        if (!sim_is_read(before) && before->acted && !before->ended)
            sim_work_end(before, NIGH_OK);
    }
    sim_work_end(work, status);
    sim_end_fail(end, status, false);
}

/* ---- receives ------------------------------------------------------------- */

void sim_receive_end(struct sim_receive *receive, nigh_status status)
{
    receive->ending.status = status;
    list_remove(&receive->ending.node);
    if (receive->slice.memory != NULL)
        receive->slice.memory->uses--;
    sim_complete(&receive->ending);
}

void sim_receive_free(struct sim *sim, struct sim_receive *receive)
{
    sim_pool_give(&sim->receives, receive);
}

/* ---- at the target -------------------------------------------------------- */

/* A post that is refused takes along those that were started behind it. */
static void sim_work_kill_from(struct sim_work *work)
{
    struct list *flight = &work->wire->flight[work->side];
    struct list_node *node;

    while ((node = list_last(flight)) != NULL) {
        struct sim_work *last = container_of(node, struct sim_work, flight);

        sim_work_kill(last);
        if (last == work)
            return;
    }
}

/* Both ends fail; the poster learns with which status when the word has come back. */
static void sim_refuse(struct sim_work *work, nigh_status status)
{
    struct sim_wire *wire = work->wire;
    struct fabric_endpoint *target = wire->ends[1 - work->side];
    struct sim_event *event;

    sim_work_kill_from(work);
    if (target->state == SIM_FAILED)
        return;
    event = sim_schedule(wire, SIM_REFUSED, work->side, wire->sim->now_us + sim_latency_us(wire));
    event->status = status;
    event->work = work;
    work->events++;
    sim_end_fail(target, NIGH_PROTOCOL, false);
}

static struct sim_receive *sim_receive_next(struct fabric_endpoint *target)
{
    struct list_node *node = list_first(&target->receives);

    if (target->options.stock != NULL)
        return sim_stock_next(target);
    return node != NULL ? container_of(node, struct sim_receive, ending.node) : NULL;
}

/* A SEND or a WRITE_IMM has come: the first receive is for it. */
static bool sim_deliver(struct sim_work *work, struct fabric_endpoint *target)
{
    struct sim_receive *receive = sim_receive_next(target);
    uint64_t bytes = work->ending.bytes;

    if (receive == NULL) {
        sim_refuse(work, NIGH_PROTOCOL);
        return false;
    }
    if (work->ending.op == FABRIC_SEND) {
        if (bytes > receive->slice.bytes) {
            sim_receive_end(receive, NIGH_LIMIT);
            sim_refuse(work, NIGH_LIMIT);
            return false;
        }
        sim_copy_out(work, 0, bytes, receive->slice.address);
    } else {
        receive->ending.has_imm = true;
        receive->ending.imm = work->imm;
    }
    receive->ending.bytes = bytes;
    sim_receive_end(receive, NIGH_OK);
    return true;
}

static void sim_act_atomic(struct sim_work *work, char *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    work->old = value;
    if (work->ending.op == FABRIC_FETCH_ADD)
        value += work->operand;
    else if (value == work->compare)
        value = work->operand;
    memcpy(at, &value, sizeof(value));
}

/* One piece of a one-sided operation. False: it was refused. */
static bool sim_move(struct sim_work *work, const struct sim_event *event)
{
    char *at = NULL;

    if (work->ending.op == FABRIC_READ && work->kept != NULL) {
        sim_copy(work, event->offset, event->bytes, work->kept + event->offset, true);
        return true;
    }
    if (work->ending.op == FABRIC_WRITE_IMM && work->ending.bytes == 0)
        return true; /* it says its imm, and goes nowhere */
    at = sim_target(work);
    if (at == NULL) {
        sim_refuse(work, work->has_written ? NIGH_PEER_LOST : NIGH_DENIED);
        return false;
    }
    if (sim_is_atomic(work)) {
        sim_act_atomic(work, at);
    } else if (work->ending.op == FABRIC_READ) {
        sim_copy(work, event->offset, event->bytes, at + event->offset, true);
    } else {
        sim_copy_out(work, event->offset, event->bytes, at + event->offset);
        work->has_written = true;
    }
    return true;
}

void sim_on_piece(struct sim_event *event)
{
    struct sim_work *work = event->work;
    struct sim_wire *wire = work->wire;
    struct fabric_endpoint *target = wire->ends[1 - work->side];

    if (work->dead)
        return;
    /* Whatever was to stop with an end was killed when it failed or went. */
    NIGH_ASSERT(sim_end_is_open(target) || work->late_there || work->kept != NULL);
    NIGH_ASSERT(target != NULL || work->ending.op == FABRIC_READ);
    if (work->ending.op != FABRIC_SEND && !sim_move(work, event))
        return;
    if (--work->pieces_left > 0)
        return;
    if ((work->ending.op == FABRIC_SEND || work->ending.op == FABRIC_WRITE_IMM) &&
        !sim_deliver(work, target))
        return;
    work->acted = true;
    sim_leave_flight(work);
    /* READs have brought their bytes along; the others' word must come back. */
    if (!work->ended)
        sim_schedule_work(
            work, SIM_DONE,
            wire->sim->now_us + (work->ending.op == FABRIC_READ ? 1 : sim_latency_us(wire)), 0, 0);
}
