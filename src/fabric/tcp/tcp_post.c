/* SPDX-License-Identifier: Apache-2.0 */
/* Posts: checked, put into the endpoint's rings, and sent at once as far as the socket takes them.
 */
#include "fabric/tcp/tcp_internal.h"

#include <string.h>

#include "base/bytes.h"

#define ALL_FLAGS   (FABRIC_SIGNALLED | FABRIC_INLINE | FABRIC_FENCE | FABRIC_SOLICITED)
#define VALUE_BYTES 8u

static bool slices_are_valid(const struct fabric_endpoint *endpoint, const struct fabric_work *work,
                             uint64_t *total_bytes)
{
    const struct tcp *tcp = endpoint->tcp;
    bool is_inline = (work->flags & FABRIC_INLINE) != 0;
    uint32_t right = tcp_op_is_read(work->op) ? FABRIC_LOCAL_WRITE : 0;
    uint64_t total = 0;

    if (work->slice_count > LIMIT_FABRIC_SLICES || (work->slice_count > 0 && work->slices == NULL))
        return false;
    for (uint32_t i = 0; i < work->slice_count; i++) {
        const struct fabric_slice *slice = &work->slices[i];

        if (slice->bytes > LIMIT_FABRIC_MESSAGE - total)
            return false;
        total += slice->bytes;
        if ((!is_inline || slice->memory != NULL) && !tcp_memory_covers(tcp, slice, right))
            return false;
    }
    *total_bytes = total;
    return !is_inline || total <= endpoint->inline_most;
}

static bool work_is_valid(const struct fabric_endpoint *endpoint, const struct fabric_work *work,
                          uint64_t *total_bytes)
{
    if ((work->flags & ~ALL_FLAGS) != 0 || !slices_are_valid(endpoint, work, total_bytes))
        return false;
    switch (work->op) {
    case FABRIC_SEND:
    case FABRIC_WRITE:
    case FABRIC_WRITE_IMM: return true;
    case FABRIC_READ: return (work->flags & FABRIC_INLINE) == 0;
    case FABRIC_FETCH_ADD:
    case FABRIC_COMPARE_SWAP:
        return (work->flags & FABRIC_INLINE) == 0 && work->slice_count == 1 &&
               *total_bytes == VALUE_BYTES;
    default: return false;
    }
}

static void take_inline(struct fabric_endpoint *endpoint, struct tcp_work *work)
{
    uint8_t *room = endpoint->inline_bytes +
                    (size_t)(endpoint->tail & endpoint->work_mask) * endpoint->inline_most;
    size_t used = 0;

    for (uint32_t i = 0; i < work->slice_count; i++) {
        if (work->slices[i].iov_len == 0)
            continue;
        memcpy(room + used, work->slices[i].iov_base, work->slices[i].iov_len);
        used += work->slices[i].iov_len;
    }
    work->slices[0] = (struct iovec){.iov_base = room, .iov_len = used};
    work->slice_count = 1;
}

static void take_work(struct fabric_endpoint *endpoint, const struct fabric_work *work,
                      uint64_t total_bytes)
{
    struct tcp_work *taken = &endpoint->works[endpoint->tail & endpoint->work_mask];

    taken->tag = work->tag;
    taken->address = work->remote.address;
    taken->key = work->remote.key;
    taken->bytes = total_bytes;
    taken->imm = work->imm;
    taken->op = (uint8_t)work->op;
    taken->flags = (uint8_t)work->flags;
    taken->slice_count = (uint8_t)work->slice_count;
    taken->answered = false;
    for (uint32_t i = 0; i < work->slice_count; i++)
        taken->slices[i] =
            (struct iovec){.iov_base = work->slices[i].address, .iov_len = work->slices[i].bytes};
    if (work->op == FABRIC_FETCH_ADD) {
        bytes_put_u64(taken->operands, work->operand);
    } else if (work->op == FABRIC_COMPARE_SWAP) {
        bytes_put_u64(taken->operands, work->compare);
        bytes_put_u64(taken->operands + VALUE_BYTES, work->operand);
    }
    if (!tcp_op_is_read(work->op))
        taken->number = ++endpoint->numbered;
    if ((work->flags & FABRIC_INLINE) != 0)
        take_inline(endpoint, taken);
    endpoint->tail++;
}

nigh_status tcp_post(struct fabric_endpoint *endpoint, const struct fabric_work *work,
                     const struct fabric_work **bad)
{
    nigh_status status = NIGH_OK;
    uint64_t moved = 0;

    for (; work != NULL; work = work->next) {
        uint64_t total_bytes;

        if (endpoint->state != TCP_OPEN)
            status = NIGH_CLOSED;
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
    if (endpoint->state == TCP_OPEN && tcp_send(endpoint, false, &moved))
        tcp_endpoint_work(endpoint);
    return status;
}

nigh_status tcp_post_receive(struct fabric_endpoint *endpoint, const struct fabric_receive *receive,
                             const struct fabric_receive **bad)
{
    nigh_status status = NIGH_OK;

    for (; receive != NULL; receive = receive->next) {
        if (endpoint->state >= TCP_REFUSING || endpoint->receives == NULL)
            status = NIGH_CLOSED;
        else if (!tcp_memory_covers(endpoint->tcp, &receive->slice, FABRIC_LOCAL_WRITE))
            status = NIGH_INVALID;
        else if (endpoint->receive_tail - endpoint->receive_head == endpoint->receive_depth)
            status = NIGH_BUSY;
        if (status != NIGH_OK) {
            if (bad != NULL)
                *bad = receive;
            break;
        }
        endpoint->receives[endpoint->receive_tail++ & endpoint->receive_mask] =
            (struct tcp_receive){.tag = receive->tag,
                                 .address = receive->slice.address,
                                 .room = receive->slice.bytes};
    }
    return status;
}
