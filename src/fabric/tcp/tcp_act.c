/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the peer's frames do here, once they are read.
 *
 * Two kinds of wrong are told apart: a request that cannot be granted (a key, a bound, no receive)
 * is refused, and the peer learns which it was; what no honest peer sends ends the connection.
 */
#include "fabric/tcp/tcp_internal.h"

#include <string.h>

#include "base/bytes.h"

static bool nonsense(struct fabric_endpoint *endpoint)
{
    tcp_endpoint_fail(endpoint, NIGH_PROTOCOL);
    return false;
}

static bool refuse(struct fabric_endpoint *endpoint, nigh_status status, bool of_read)
{
    tcp_endpoint_refuse(endpoint, status, of_read);
    return false;
}

/* ---- what is ours: acknowledged, answered, refused ---- */

static bool take_ack(struct fabric_endpoint *endpoint, uint32_t ack)
{
    uint32_t more = ack - endpoint->acked;

    if (more == 0)
        return true;
    /* More than was sent, or less than before, which looks like very much more. */
    if (more > endpoint->sent - endpoint->acked)
        return nonsense(endpoint);
    endpoint->acked = ack;
    tcp_complete_mark(endpoint);
    return true;
}

static struct tcp_work *oldest_read(const struct fabric_endpoint *endpoint)
{
    return &endpoint->works[endpoint->reads[endpoint->read_first] & endpoint->work_mask];
}

static bool begin_response(struct fabric_endpoint *endpoint)
{
    const struct tcp_frame *frame = &endpoint->in.frame;
    uint64_t left;

    if (endpoint->read_count == 0)
        return nonsense(endpoint);
    left = oldest_read(endpoint)->bytes - endpoint->read_done;
    if (frame->bytes > left || (frame->bytes == 0 && left != 0))
        return nonsense(endpoint);
    return true;
}

static void end_response(struct fabric_endpoint *endpoint)
{
    struct tcp_work *work = oldest_read(endpoint);

    endpoint->read_done += endpoint->in.frame.bytes;
    if (endpoint->read_done != work->bytes)
        return;
    if (work->op != FABRIC_READ) {
        uint64_t value = bytes_get_u64(work->slices[0].iov_base);

        memcpy(work->slices[0].iov_base, &value, sizeof(value)); /* in this machine's order */
    }
    if (work->bytes >= TCP_QUICK_BYTES)
        tcp_endpoint_quicken(endpoint);
    work->answered = true;
    endpoint->read_done = 0;
    endpoint->read_first = (endpoint->read_first + 1) % LIMIT_FABRIC_READS;
    endpoint->read_count--;
    tcp_complete_mark(endpoint);
}

/* The first post that started and is not acknowledged; endpoint->next when there is none. */
static uint32_t oldest_unacknowledged(const struct fabric_endpoint *endpoint)
{
    uint32_t i = endpoint->head;

    for (; i != endpoint->next; i++) {
        const struct tcp_work *work = &endpoint->works[i & endpoint->work_mask];

        if (!tcp_op_is_read(work->op) && (int32_t)(endpoint->acked - work->number) < 0)
            break;
    }
    return i;
}

static bool act_refused(struct fabric_endpoint *endpoint)
{
    const struct tcp_frame *frame = &endpoint->in.frame;

    if (frame->of_read ? endpoint->read_count == 0
                       : oldest_unacknowledged(endpoint) == endpoint->next)
        return nonsense(endpoint);
    endpoint->refused =
        frame->of_read ? endpoint->reads[endpoint->read_first] : oldest_unacknowledged(endpoint);
    endpoint->refusal = frame->status;
    tcp_endpoint_fail(endpoint, frame->status == NIGH_PROTOCOL ? NIGH_PEER_LOST : frame->status);
    return false;
}

/* ---- what the peer asks for ---- */

static bool has_receive(struct fabric_endpoint *endpoint)
{
    if (endpoint->stock != NULL && endpoint->receive_filled == endpoint->receive_tail)
        tcp_stock_take(endpoint);
    return endpoint->receive_filled != endpoint->receive_tail;
}

static struct tcp_receive *next_receive(const struct fabric_endpoint *endpoint)
{
    return &endpoint->receives[endpoint->receive_filled & endpoint->receive_mask];
}

static void fill_receive(struct fabric_endpoint *endpoint, nigh_status status, uint64_t bytes,
                         bool has_imm)
{
    struct tcp_receive *receive = next_receive(endpoint);

    receive->status = status;
    receive->bytes = bytes;
    receive->has_imm = has_imm;
    receive->imm = has_imm ? endpoint->in.frame.imm : 0;
    endpoint->receive_filled++;
    tcp_complete_mark(endpoint);
}

static bool begin_send(struct fabric_endpoint *endpoint)
{
    if (!has_receive(endpoint))
        return refuse(endpoint, NIGH_PROTOCOL, false);
    if (endpoint->in.frame.bytes > next_receive(endpoint)->room) {
        fill_receive(endpoint, NIGH_LIMIT, 0, false);
        return refuse(endpoint, NIGH_LIMIT, false);
    }
    return true;
}

/* Nothing is nowhere: an operation without bytes needs no key. */
static bool may_reach(struct fabric_endpoint *endpoint, uint32_t right)
{
    const struct tcp_frame *frame = &endpoint->in.frame;

    return frame->bytes == 0 ||
           tcp_memory_reach(endpoint->tcp, frame->key, frame->address, frame->bytes, right) != NULL;
}

static bool begin_write(struct fabric_endpoint *endpoint)
{
    if (!may_reach(endpoint, FABRIC_REMOTE_WRITE))
        return refuse(endpoint, NIGH_DENIED, false);
    if (endpoint->in.frame.kind == TCP_FRAME_WRITE_IMM && !has_receive(endpoint))
        return refuse(endpoint, NIGH_PROTOCOL, false);
    return true;
}

static struct tcp_response *add_response(struct fabric_endpoint *endpoint)
{
    uint32_t i = (endpoint->response_first + endpoint->response_count++) % LIMIT_FABRIC_READS;

    tcp_endpoint_work(endpoint);
    return &endpoint->responses[i];
}

static bool begin_read(struct fabric_endpoint *endpoint)
{
    const struct tcp_frame *frame = &endpoint->in.frame;
    struct tcp_response *response;
    uint64_t word;

    if (endpoint->response_count == LIMIT_FABRIC_READS)
        return nonsense(endpoint);
    if (!may_reach(endpoint, FABRIC_REMOTE_READ))
        return refuse(endpoint, NIGH_DENIED, true);
    response = add_response(endpoint);
    *response =
        (struct tcp_response){.address = frame->address, .left = frame->bytes, .key = frame->key};
    response->is_value = tcp_words_load(tcp_memory_reach(endpoint->tcp, frame->key, frame->address,
                                                         frame->bytes, FABRIC_REMOTE_READ),
                                        frame->bytes, &word);
    if (response->is_value)
        memcpy(response->value, &word, sizeof(word));
    return true;
}

static bool act_atomic(struct fabric_endpoint *endpoint)
{
    const struct tcp_frame *frame = &endpoint->in.frame;
    const uint8_t *operands = endpoint->in.head + TCP_FRAME_BYTES;
    uint64_t first = bytes_get_u64(operands);
    struct tcp_response *response;
    uint64_t *word;

    if (endpoint->response_count == LIMIT_FABRIC_READS)
        return nonsense(endpoint);
    word = tcp_memory_reach(endpoint->tcp, frame->key, frame->address, TCP_WORD_BYTES,
                            FABRIC_REMOTE_ATOMIC);
    if (word == NULL || (uintptr_t)word % TCP_WORD_BYTES != 0)
        return refuse(endpoint, NIGH_DENIED, true);
    /* Atomic for other lanes of this machine, too, that may have the same memory. */
    if (frame->kind == TCP_FRAME_FETCH_ADD)
        first = __atomic_fetch_add(word, first, __ATOMIC_SEQ_CST);
    else
        (void)__atomic_compare_exchange_n(word, &first, bytes_get_u64(operands + TCP_WORD_BYTES),
                                          false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    response = add_response(endpoint);
    *response = (struct tcp_response){.left = TCP_WORD_BYTES, .is_value = true};
    bytes_put_u64(response->value, first);
    return true;
}

/* What follows a message here is an answer, or a receive that is given back: its acknowledgement
 * waits for that. Nobody here knows of a WRITE that came last, so nothing follows. */
static void carry_out(struct fabric_endpoint *endpoint)
{
    struct tcp *tcp = endpoint->tcp;
    uint32_t untold = ++endpoint->carried - endpoint->told;

    endpoint->acks_now = endpoint->in.frame.kind == TCP_FRAME_WRITE;
    if (untold < TCP_ACK_FEW && !list_is_linked(&endpoint->acking)) {
        endpoint->ack_poll = tcp->polls + TCP_ACK_FEW_POLLS;
        list_push_back(&tcp->acking, &endpoint->acking);
    } else if (untold == TCP_ACK_FEW) {
        if (list_is_linked(&endpoint->acking))
            list_remove(&endpoint->acking);
        endpoint->ack_poll = tcp->polls + TCP_ACK_POLLS;
        list_push_front(&tcp->acking, &endpoint->acking);
    }
}

/* ---- frames ---- */

bool tcp_act_begin(struct fabric_endpoint *endpoint)
{
    if (!take_ack(endpoint, endpoint->in.frame.ack))
        return false;
    switch (endpoint->in.frame.kind) {
    case TCP_FRAME_SEND: return begin_send(endpoint);
    case TCP_FRAME_WRITE:
    case TCP_FRAME_WRITE_IMM: return begin_write(endpoint);
    case TCP_FRAME_READ: return begin_read(endpoint);
    case TCP_FRAME_FETCH_ADD:
    case TCP_FRAME_COMPARE_SWAP: return act_atomic(endpoint);
    case TCP_FRAME_RESPONSE: return begin_response(endpoint);
    case TCP_FRAME_ACK: return true;
    case TCP_FRAME_REFUSED: return act_refused(endpoint);
    default: return nonsense(endpoint);
    }
}

bool tcp_act_end(struct fabric_endpoint *endpoint)
{
    const struct tcp_frame *frame = &endpoint->in.frame;

    switch (frame->kind) {
    case TCP_FRAME_SEND:
        fill_receive(endpoint, NIGH_OK, frame->bytes, false);
        carry_out(endpoint);
        break;
    case TCP_FRAME_WRITE_IMM:
        fill_receive(endpoint, NIGH_OK, frame->bytes, true);
        carry_out(endpoint);
        break;
    case TCP_FRAME_WRITE: carry_out(endpoint); break;
    case TCP_FRAME_RESPONSE: end_response(endpoint); break;
    default: break;
    }
    return true;
}

/* Of some slices, what lies between the offset and `bytes` behind it. */
static int place_in_slices(const struct tcp_work *work, uint64_t offset, uint64_t bytes,
                           struct iovec vectors[LIMIT_FABRIC_SLICES])
{
    int count = 0;

    for (uint32_t i = 0; i < work->slice_count && bytes > 0; i++) {
        uint64_t length = work->slices[i].iov_len;

        if (offset >= length) {
            offset -= length;
            continue;
        }
        length = min_u64(length - offset, bytes);
        vectors[count++] = (struct iovec){.iov_base = (uint8_t *)work->slices[i].iov_base + offset,
                                          .iov_len = length};
        bytes -= length;
        offset = 0;
    }
    return count;
}

int tcp_act_place(struct fabric_endpoint *endpoint, uint64_t bytes,
                  struct iovec vectors[LIMIT_FABRIC_SLICES])
{
    const struct tcp_incoming *in = &endpoint->in;
    uint8_t *start;

    bytes = min_u64(bytes, in->left);
    switch (in->frame.kind) {
    case TCP_FRAME_RESPONSE:
        return place_in_slices(oldest_read(endpoint), endpoint->read_done + in->done, bytes,
                               vectors);
    case TCP_FRAME_SEND: start = next_receive(endpoint)->address + in->done; break;
    default: /* Again for each piece: the memory may have been deregistered since the last. */
        start = tcp_memory_reach(endpoint->tcp, in->frame.key, in->frame.address + in->done, bytes,
                                 FABRIC_REMOTE_WRITE);
        if (start == NULL)
            return -1;
        break;
    }
    vectors[0] = (struct iovec){.iov_base = start, .iov_len = bytes};
    return 1;
}
