/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the rings to the device: work requests in chains under one doorbell, as many as it has room
 * for, and READs only as many as the peer serves at once (V6).
 *
 * Few are signalled: those whose posts want it, READs (their ends admit others), and one in so
 * many, so that slots come back. When the device refuses a chain from somewhere on, everything is
 * as if the chain had ended there, and the rest is offered again (V5).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "fabric/verbs/verbs_internal.h"

#define LOG_MODULE "fabric"
#include "base/log.h"

#define ATOMIC_BYTES 8u

struct batch {
    struct ibv_send_wr requests[VERBS_BATCH];
    struct ibv_sge slices[VERBS_BATCH][LIMIT_FABRIC_SLICES];
    uint32_t count;
};

static struct verbs_slot *slot_at(const struct fabric_endpoint *endpoint, uint32_t position)
{
    return &endpoint->slots[position & endpoint->slot_mask];
}

static enum ibv_wr_opcode opcode_of(uint8_t op)
{
    switch (op) {
    case FABRIC_SEND: return IBV_WR_SEND;
    case FABRIC_READ: return IBV_WR_RDMA_READ;
    case FABRIC_WRITE: return IBV_WR_RDMA_WRITE;
    case FABRIC_WRITE_IMM: return IBV_WR_RDMA_WRITE_WITH_IMM;
    case FABRIC_FETCH_ADD: return IBV_WR_ATOMIC_FETCH_AND_ADD;
    default: return IBV_WR_ATOMIC_CMP_AND_SWP;
    }
}

/* The part [from, from + bytes) of what the slices of a post gather. */
static int cut(const struct verbs_work *work, uint64_t from, uint64_t bytes, struct ibv_sge *out)
{
    int count = 0;

    for (uint32_t i = 0; i < work->slice_count && bytes > 0; i++) {
        const struct ibv_sge *slice = &work->slices[i];
        uint64_t part;

        if (from >= slice->length) {
            from -= slice->length;
            continue;
        }
        part = min_u64(slice->length - from, bytes);
        out[count++] = (struct ibv_sge){
            .addr = slice->addr + from, .length = (uint32_t)part, .lkey = slice->lkey};
        bytes -= part;
        from = 0;
    }
    return count;
}

/* How much of a post its next work request takes: what the device does at most, and of a READ what
 * lands in as many slices as it takes for one (V7). */
static uint64_t piece_of(const struct verbs *verbs, const struct verbs_work *work, uint64_t from)
{
    uint64_t most = min_u64(work->bytes - from, verbs->piece_bytes);
    uint64_t end = 0, covered = 0;
    uint32_t count = 0;

    if (!verbs_op_is_read(work->op))
        return most;
    for (uint32_t i = 0; i < work->slice_count && count < verbs->read_slices; i++) {
        end += work->slices[i].length;
        count += end > from;
        covered = end > from ? end - from : 0;
    }
    return min_u64(most, covered);
}

static uint32_t flags_of(const struct verbs_work *work, const struct verbs_slot *slot)
{
    uint32_t flags = slot->is_signalled ? IBV_SEND_SIGNALED : 0;

    if ((work->flags & FABRIC_INLINE) != 0)
        flags |= IBV_SEND_INLINE;
    if ((work->flags & FABRIC_FENCE) != 0 && slot->done_before == 0)
        flags |= IBV_SEND_FENCE;
    if ((work->flags & FABRIC_SOLICITED) != 0 &&
        (work->op == FABRIC_SEND || work->op == FABRIC_WRITE_IMM))
        flags |= IBV_SEND_SOLICITED;
    return flags;
}

static void aim(const struct verbs_work *work, uint64_t done, struct ibv_send_wr *request)
{
    if (work->op == FABRIC_WRITE_IMM)
        request->imm_data = htonl(work->imm);
    if (work->op == FABRIC_FETCH_ADD || work->op == FABRIC_COMPARE_SWAP) {
        bool is_add = work->op == FABRIC_FETCH_ADD;

        request->wr.atomic.remote_addr = work->address;
        request->wr.atomic.rkey = work->key;
        request->wr.atomic.compare_add = is_add ? work->operand : work->compare;
        request->wr.atomic.swap = is_add ? 0 : work->operand;
    } else {
        request->wr.rdma.remote_addr = work->address + done;
        request->wr.rdma.rkey = work->key;
    }
}

/* One in so many, and whatever takes the last slot: else none would come back. */
static bool must_signal(const struct fabric_endpoint *endpoint, const struct verbs_work *work,
                        const struct verbs_slot *slot)
{
    uint32_t room = endpoint->slot_depth - VERBS_RESERVED;
    uint32_t every = max_u32(min_u32(VERBS_SIGNAL_EVERY, room / 2), 1);

    return (slot->is_final && (work->flags & FABRIC_SIGNALLED) != 0) || slot->is_read ||
           endpoint->unsignalled + 1 >= every ||
           endpoint->slot_tail - endpoint->slot_head + 1 >= room;
}

/* What no target would carry out, and some devices do not even take (V5). */
static bool is_crooked(const struct verbs_work *work)
{
    return (work->op == FABRIC_FETCH_ADD || work->op == FABRIC_COMPARE_SWAP) &&
           work->address % ATOMIC_BYTES != 0;
}

static bool has_room(const struct fabric_endpoint *endpoint)
{
    const struct verbs_work *work;

    if (endpoint->next == endpoint->tail ||
        endpoint->slot_tail - endpoint->slot_head >= endpoint->slot_depth - VERBS_RESERVED)
        return false;
    work = &endpoint->works[endpoint->next & endpoint->work_mask];
    return !is_crooked(work) &&
           (!verbs_op_is_read(work->op) || endpoint->reads < endpoint->reads_most);
}

/* The next piece becomes a slot and a work request. */
static void add_piece(struct fabric_endpoint *endpoint, struct batch *batch)
{
    const struct verbs_work *work = &endpoint->works[endpoint->next & endpoint->work_mask];
    struct verbs_slot *slot = slot_at(endpoint, endpoint->slot_tail);
    struct ibv_send_wr *request = &batch->requests[batch->count];
    uint64_t bytes = piece_of(endpoint->verbs, work, endpoint->next_done);

    *slot = (struct verbs_slot){.done_before = endpoint->next_done,
                                .work = endpoint->next,
                                .kind = VERBS_SLOT_WORK,
                                .is_final = endpoint->next_done + bytes == work->bytes,
                                .is_read = verbs_op_is_read(work->op)};
    slot->is_signalled = must_signal(endpoint, work, slot);
    *request = (struct ibv_send_wr){
        .wr_id = verbs_complete_id(endpoint, false, endpoint->slot_tail),
        .sg_list = batch->slices[batch->count],
        .num_sge = cut(work, endpoint->next_done, bytes, batch->slices[batch->count]),
        .opcode = opcode_of(work->op),
        .send_flags = flags_of(work, slot)};
    aim(work, endpoint->next_done, request);
    if (batch->count > 0)
        batch->requests[batch->count - 1].next = request;
    batch->count++;
    endpoint->slot_tail++;
    endpoint->unsignalled = slot->is_signalled ? 0 : endpoint->unsignalled + 1;
    endpoint->reads += slot->is_read;
    endpoint->next_done += bytes;
    if (slot->is_final) {
        endpoint->next++;
        endpoint->next_done = 0;
    }
}

/* The last `count` slots were never there. */
static void take_back(struct fabric_endpoint *endpoint, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct verbs_slot *slot = slot_at(endpoint, --endpoint->slot_tail);

        endpoint->reads -= slot->is_read;
        endpoint->next = slot->work;
        endpoint->next_done = slot->done_before;
    }
    endpoint->unsignalled = 0;
    for (uint32_t i = endpoint->slot_tail; i != endpoint->slot_head; i--) {
        if (slot_at(endpoint, i - 1)->is_signalled)
            break;
        endpoint->unsignalled++;
    }
}

/* A doorbell, and what the device took under it. */
static void count(struct fabric_endpoint *endpoint, const struct ibv_send_wr *requests,
                  uint32_t taken)
{
    struct fabric_counts *counts = &endpoint->verbs->fabric.counts;

    counts->doorbells += taken > 0 ? 1 : 0;
    counts->requests += taken;
    for (uint32_t i = 0; i < taken; i++)
        counts->signalled += (requests[i].send_flags & IBV_SEND_SIGNALED) != 0;
}

/* False: nothing more in this turn. */
static bool hand_over(struct fabric_endpoint *endpoint, struct batch *batch)
{
    struct ibv_send_wr *bad = NULL;
    int error = ibv_post_send(endpoint->qp, batch->requests, &bad);
    uint32_t taken = batch->count;

    if (error != 0 && bad >= batch->requests && bad < batch->requests + batch->count)
        taken = (uint32_t)(bad - batch->requests);
    count(endpoint, batch->requests, taken);
    if (error == 0)
        return true;
    take_back(endpoint, batch->count - taken);
    if (error == ENOMEM || error == EAGAIN) {
        verbs_endpoint_work(endpoint); /* it is full, against our count: later */
    } else {
        LOG_WARN("the device takes no work",
                 "errno=%d do=\"nothing: the connection is made anew; if it comes again, see the "
                 "kernel's log (dmesg) and the card\"",
                 error);
        verbs_endpoint_fail(endpoint, NIGH_PEER_LOST);
    }
    return false;
}

/* Refused here in the target's place, when its turn has come. */
static void refuse_crooked(struct fabric_endpoint *endpoint)
{
    if (endpoint->next == endpoint->tail || endpoint->slot_head != endpoint->slot_tail ||
        !is_crooked(&endpoint->works[endpoint->next & endpoint->work_mask]))
        return;
    endpoint->has_refused = true;
    verbs_endpoint_fail(endpoint, NIGH_DENIED);
}

void verbs_send(struct fabric_endpoint *endpoint)
{
    struct batch batch;

    do {
        batch.count = 0;
        while (batch.count < VERBS_BATCH && has_room(endpoint))
            add_piece(endpoint, &batch);
    } while (batch.count > 0 && hand_over(endpoint, &batch));
    if (endpoint->state == VERBS_OPEN)
        refuse_crooked(endpoint);
}

bool verbs_send_empty(struct fabric_endpoint *endpoint, enum verbs_slot_kind kind)
{
    uint32_t limit = endpoint->slot_depth - (kind == VERBS_SLOT_PROBE ? 1 : 0);
    struct ibv_send_wr request = {.wr_id = verbs_complete_id(endpoint, false, endpoint->slot_tail),
                                  .opcode = IBV_WR_RDMA_WRITE,
                                  .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;

    if (endpoint->slot_tail - endpoint->slot_head >= limit)
        return false;
    if (ibv_post_send(endpoint->qp, &request, &bad) != 0)
        return false;
    count(endpoint, &request, 1);
    *slot_at(endpoint, endpoint->slot_tail++) =
        (struct verbs_slot){.kind = (uint8_t)kind, .work = endpoint->next, .is_signalled = true};
    endpoint->unsignalled = 0;
    return true;
}

/* ---- receives ---- */

void verbs_send_receives(struct fabric_endpoint *endpoint)
{
    while (endpoint->receive_posted != endpoint->receive_tail) {
        struct ibv_recv_wr requests[VERBS_BATCH], *bad = NULL;
        uint32_t count = min_u32(endpoint->receive_tail - endpoint->receive_posted, VERBS_BATCH);
        int error;

        for (uint32_t i = 0; i < count; i++) {
            uint32_t position = endpoint->receive_posted + i;
            struct verbs_receive *receive = &endpoint->receives[position & endpoint->receive_mask];

            requests[i] = (struct ibv_recv_wr){.wr_id = verbs_complete_id(endpoint, true, position),
                                               .next = i + 1 < count ? &requests[i + 1] : NULL,
                                               .sg_list = &receive->slice,
                                               .num_sge = receive->slice.length > 0};
        }
        error = ibv_post_recv(endpoint->qp, requests, &bad);
        endpoint->verbs->fabric.counts.receive_doorbells++;
        if (error == 0) {
            endpoint->receive_posted += count;
            continue;
        }
        if (bad >= requests && bad < requests + count)
            endpoint->receive_posted += (uint32_t)(bad - requests);
        LOG_WARN("the device takes no receives",
                 "errno=%d do=\"nothing: the connection is made anew; if it comes again, see the "
                 "kernel's log (dmesg) and the card\"",
                 error);
        verbs_endpoint_fail(endpoint, NIGH_PEER_LOST);
        return;
    }
}
