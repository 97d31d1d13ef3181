/* SPDX-License-Identifier: Apache-2.0 */
/* Posts: checked, put into the endpoint's rings, and handed to the device at once as far as it has
 * room. */
#include <string.h>

#include "fabric/verbs/verbs_internal.h"

#define ALL_FLAGS   (FABRIC_SIGNALLED | FABRIC_INLINE | FABRIC_FENCE | FABRIC_SOLICITED)
#define VALUE_BYTES 8u

static bool slices_are_valid(const struct fabric_endpoint *endpoint, const struct fabric_work *work,
                             uint64_t *total_bytes)
{
    const struct verbs *verbs = endpoint->verbs;
    const struct fabric_caps *caps = &verbs->fabric.caps;
    bool is_inline = (work->flags & FABRIC_INLINE) != 0;
    uint32_t right = verbs_op_is_read(work->op) ? FABRIC_LOCAL_WRITE : 0;
    uint64_t total = 0;

    if (work->slice_count > caps->slices || (work->slice_count > 0 && work->slices == NULL))
        return false;
    for (uint32_t i = 0; i < work->slice_count; i++) {
        const struct fabric_slice *slice = &work->slices[i];

        if (slice->bytes > caps->message_bytes - total)
            return false;
        total += slice->bytes;
        if ((!is_inline || slice->memory != NULL) && !verbs_memory_covers(verbs, slice, right))
            return false;
    }
    *total_bytes = total;
    return !is_inline || total <= endpoint->inline_most;
}

/* A message is one piece: only what goes to an address can be cut (V7). */
static bool work_is_valid(const struct fabric_endpoint *endpoint, const struct fabric_work *work,
                          uint64_t *total_bytes)
{
    if ((work->flags & ~ALL_FLAGS) != 0 || !slices_are_valid(endpoint, work, total_bytes))
        return false;
    switch (work->op) {
    case FABRIC_SEND:
    case FABRIC_WRITE_IMM: return *total_bytes <= endpoint->verbs->piece_bytes;
    case FABRIC_WRITE: return true;
    case FABRIC_READ: return (work->flags & FABRIC_INLINE) == 0;
    case FABRIC_FETCH_ADD:
    case FABRIC_COMPARE_SWAP:
        return (work->flags & FABRIC_INLINE) == 0 && work->slice_count == 1 &&
               *total_bytes == VALUE_BYTES;
    default: return false;
    }
}

static void take_inline(struct fabric_endpoint *endpoint, struct verbs_work *taken,
                        const struct fabric_work *work)
{
    uint8_t *room = endpoint->inline_bytes +
                    (size_t)(endpoint->tail & endpoint->work_mask) * endpoint->inline_most;
    size_t used = 0;

    for (uint32_t i = 0; i < work->slice_count; i++) {
        if (work->slices[i].bytes == 0)
            continue;
        memcpy(room + used, work->slices[i].address, work->slices[i].bytes);
        used += work->slices[i].bytes;
    }
    endpoint->verbs->fabric.counts.copied_bytes += used;
    taken->slices[0] = (struct ibv_sge){.addr = (uintptr_t)room, .length = (uint32_t)used};
    taken->slice_count = used > 0;
}

/* Empty slices stay out: some devices take a length of 0 for 2 GiB. */
static void take_slices(struct verbs_work *taken, const struct fabric_work *work)
{
    taken->slice_count = 0;
    for (uint32_t i = 0; i < work->slice_count; i++) {
        const struct fabric_slice *slice = &work->slices[i];

        if (slice->bytes == 0)
            continue;
        taken->slices[taken->slice_count++] = (struct ibv_sge){.addr = (uintptr_t)slice->address,
                                                               .length = (uint32_t)slice->bytes,
                                                               .lkey = slice->memory->mr->lkey};
    }
}

static void take_work(struct fabric_endpoint *endpoint, const struct fabric_work *work,
                      uint64_t total_bytes)
{
    struct verbs_work *taken = &endpoint->works[endpoint->tail & endpoint->work_mask];

    taken->tag = work->tag;
    taken->address = work->remote.address;
    taken->key = work->remote.key;
    taken->bytes = total_bytes;
    taken->operand = work->operand;
    taken->compare = work->compare;
    taken->imm = work->imm;
    taken->op = (uint8_t)work->op;
    taken->flags = (uint8_t)work->flags;
    taken->status = NIGH_OK;
    if ((work->flags & FABRIC_INLINE) != 0)
        take_inline(endpoint, taken, work);
    else
        take_slices(taken, work);
    endpoint->tail++;
}

static bool can(const struct fabric_endpoint *endpoint, enum fabric_op op)
{
    const struct fabric *fabric = &endpoint->verbs->fabric;

    return endpoint->is_loop ? fabric_loop_can(fabric, op) : fabric_can(fabric, op);
}

nigh_status verbs_post(struct fabric_endpoint *endpoint, const struct fabric_work *work,
                       const struct fabric_work **bad)
{
    nigh_status status = NIGH_OK;

    for (; work != NULL; work = work->next) {
        uint64_t total_bytes;

        if (endpoint->state != VERBS_OPEN)
            status = NIGH_CLOSED;
        else if (!can(endpoint, work->op))
            status = NIGH_UNSUPPORTED;
        else if (!work_is_valid(endpoint, work, &total_bytes))
            status = NIGH_INVALID;
        else if (endpoint->tail - endpoint->head == endpoint->work_depth)
            status = NIGH_BUSY;
        if (status != NIGH_OK)
            break;
        take_work(endpoint, work, total_bytes);
    }
    if (status != NIGH_OK && bad != NULL)
        *bad = work;
    if (endpoint->state == VERBS_OPEN)
        verbs_send(endpoint);
    return status;
}

static void take_receive(struct fabric_endpoint *endpoint, const struct fabric_receive *receive)
{
    struct verbs_receive *taken =
        &endpoint->receives[endpoint->receive_tail++ & endpoint->receive_mask];

    *taken = (struct verbs_receive){.tag = receive->tag};
    if (receive->slice.bytes > 0)
        taken->slice = (struct ibv_sge){
            .addr = (uintptr_t)receive->slice.address,
            .length = (uint32_t)min_u64(receive->slice.bytes, LIMIT_FABRIC_MESSAGE),
            .lkey = receive->slice.memory->mr->lkey};
}

nigh_status verbs_post_receive(struct fabric_endpoint *endpoint,
                               const struct fabric_receive *receive,
                               const struct fabric_receive **bad)
{
    nigh_status status = NIGH_OK;

    for (; receive != NULL; receive = receive->next) {
        if (endpoint->state >= VERBS_FAILING || endpoint->receives == NULL)
            status = NIGH_CLOSED;
        else if (!verbs_memory_covers(endpoint->verbs, &receive->slice, FABRIC_LOCAL_WRITE))
            status = NIGH_INVALID;
        else if (endpoint->receive_tail - endpoint->receive_head == endpoint->receive_depth)
            status = NIGH_BUSY;
        if (status != NIGH_OK) {
            if (bad != NULL)
                *bad = receive;
            break;
        }
        take_receive(endpoint, receive);
    }
    if (endpoint->has_receives && endpoint->state < VERBS_FAILING)
        verbs_send_receives(endpoint);
    return status;
}
