/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From posts, answers and acknowledgements to the socket: as many frames in one call as are ready.
 *
 * A batch is built without changing the endpoint; what the socket took of it is then carried over.
 * So a socket that takes nothing, or half a header, leaves nothing to undo.
 */
#include "fabric/tcp/tcp_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

static const uint8_t kinds[FABRIC_OPS] = {
    [FABRIC_SEND] = TCP_FRAME_SEND,           [FABRIC_READ] = TCP_FRAME_READ,
    [FABRIC_WRITE] = TCP_FRAME_WRITE,         [FABRIC_WRITE_IMM] = TCP_FRAME_WRITE_IMM,
    [FABRIC_FETCH_ADD] = TCP_FRAME_FETCH_ADD, [FABRIC_COMPARE_SWAP] = TCP_FRAME_COMPARE_SWAP,
};

static struct tcp_work *work_at(const struct fabric_endpoint *endpoint, uint32_t index)
{
    return &endpoint->works[index & endpoint->work_mask];
}

static struct tcp_response *response_at(struct fabric_endpoint *endpoint, uint32_t index)
{
    return &endpoint->responses[(endpoint->response_first + index) % LIMIT_FABRIC_READS];
}

/* ---- bytes into a batch ---- */

static bool has_room(const struct tcp_batch *batch)
{
    return batch->count < TCP_BATCH_FRAMES && !batch->is_cut && batch->bytes < batch->room &&
           batch->vector_count + LIMIT_FABRIC_SLICES + 1 < TCP_BATCH_VECTORS;
}

/* By reference: the bytes stay where they are until sendmsg. Cut where the batch's room ends. */
static void add_bytes(struct tcp_batch *batch, const void *bytes, uint64_t count)
{
    uint64_t room = batch->room - min_u64(batch->room, batch->bytes);

    batch->is_cut |= count > room || (count > 0 && batch->vector_count == TCP_BATCH_VECTORS);
    count = min_u64(count, room);
    if (count == 0 || batch->vector_count == TCP_BATCH_VECTORS)
        return;
    batch->vectors[batch->vector_count++] =
        (struct iovec){.iov_base = (void *)(uintptr_t)bytes, .iov_len = count};
    batch->bytes += count;
}

/* Room next to what was staged before; together they are one vector. */
static uint8_t *stage(struct tcp_batch *batch, uint32_t count)
{
    uint8_t *bytes = batch->staging + batch->staged;
    struct iovec *last = &batch->vectors[batch->vector_count - (batch->vector_count > 0)];

    NIGH_ASSERT(count <= TCP_BATCH_BYTES - batch->staged);
    if (batch->vector_count > 0 && (uint8_t *)last->iov_base + last->iov_len == bytes)
        last->iov_len += count;
    else
        batch->vectors[batch->vector_count++] = (struct iovec){.iov_base = bytes, .iov_len = count};
    batch->staged += count;
    batch->bytes += count;
    return bytes;
}

static void add_frame(struct tcp_batch *batch, enum tcp_source source, uint32_t work,
                      const struct tcp_frame *frame)
{
    uint8_t *header = stage(batch, TCP_FRAME_BYTES);

    tcp_frame_write(frame, header);
    batch->pieces[batch->count++] =
        (struct tcp_piece){.source = source,
                           .work = work,
                           .length = TCP_FRAME_BYTES + (uint64_t)tcp_frame_payload(frame),
                           .header = header};
}

/* ---- posts ---- */

static void add_work_payload(const struct tcp_work *work, struct tcp_batch *batch, uint64_t offset)
{
    if (tcp_op_is_read(work->op)) {
        uint64_t operands = work->op == FABRIC_READ        ? 0
                            : work->op == FABRIC_FETCH_ADD ? TCP_OPERANDS_BYTES / 2
                                                           : TCP_OPERANDS_BYTES;

        add_bytes(batch, work->operands + offset, operands - offset);
        return;
    }
    for (uint32_t i = 0; i < work->slice_count; i++) {
        uint64_t length = work->slices[i].iov_len;

        if (offset < length)
            add_bytes(batch, (const uint8_t *)work->slices[i].iov_base + offset, length - offset);
        offset -= min_u64(offset, length);
    }
}

static void copy_work_payload(const struct tcp_work *work, struct tcp_batch *batch)
{
    for (uint32_t i = 0; i < work->slice_count; i++) {
        size_t length = work->slices[i].iov_len;

        if (length > 0)
            memcpy(stage(batch, (uint32_t)length), work->slices[i].iov_base, length);
    }
}

static bool may_start(const struct fabric_endpoint *endpoint, const struct tcp_batch *batch)
{
    const struct tcp_work *work = work_at(endpoint, batch->next);

    if (endpoint->state != TCP_OPEN || batch->next == endpoint->tail)
        return false;
    if ((work->flags & FABRIC_FENCE) != 0 && batch->reads > 0)
        return false;
    return !tcp_op_is_read(work->op) || batch->reads < LIMIT_FABRIC_READS;
}

/* A message that leaves alone, as the answer with a small object does, is one vector so: a second
 * one costs the kernel more than the copy costs here. */
static void add_work(const struct fabric_endpoint *endpoint, struct tcp_batch *batch)
{
    uint32_t most = batch->count == 0 ? TCP_COPY_FIRST : TCP_COPY_BYTES;
    uint32_t index = batch->next++;
    const struct tcp_work *work = work_at(endpoint, index);
    struct tcp_frame frame = {
        .kind = kinds[work->op],
        .ack = batch->ack,
        .bytes = (uint32_t)work->bytes,
        .key = work->key,
        .imm = work->imm,
        .address = work->address,
    };

    if (work->op == FABRIC_COMPARE_SWAP)
        frame.bytes = TCP_OPERANDS_BYTES;
    add_frame(batch, TCP_SOURCE_WORK, index, &frame);
    batch->reads += tcp_op_is_read(work->op);
    if (tcp_op_is_read(work->op) || work->bytes > most)
        add_work_payload(work, batch, 0);
    else
        copy_work_payload(work, batch);
}

/* ---- answers ---- */

/* False: the memory is not there any more. */
static bool add_response_payload(struct fabric_endpoint *endpoint, struct tcp_batch *batch,
                                 const struct tcp_response *response, uint64_t offset,
                                 uint64_t count)
{
    const uint8_t *bytes;

    if (count == 0)
        return true;
    if (response->is_value)
        bytes = response->value + offset;
    else
        bytes = tcp_memory_reach(endpoint->tcp, response->key, response->address + offset, count,
                                 FABRIC_REMOTE_READ);
    if (bytes == NULL)
        return false;
    add_bytes(batch, bytes, count);
    return true;
}

static void pass_response(struct fabric_endpoint *endpoint, struct tcp_batch *batch, uint64_t count)
{
    batch->response_done += count;
    if (batch->response_done == response_at(endpoint, batch->responses)->left) {
        batch->responses++;
        batch->response_done = 0;
    }
}

/* The memory was deregistered since it was asked for: what is in the batch of it, and of those
 * before it, is the last that is answered. */
static void cut_responses(struct fabric_endpoint *endpoint, struct tcp_batch *batch)
{
    endpoint->response_count = batch->responses;
    if (batch->response_done > 0) {
        response_at(endpoint, batch->responses)->left = batch->response_done;
        endpoint->response_count++;
        pass_response(endpoint, batch, 0);
    }
    tcp_endpoint_refuse(endpoint, NIGH_DENIED, true);
}

static bool add_response(struct fabric_endpoint *endpoint, struct tcp_batch *batch)
{
    const struct tcp_response *response = response_at(endpoint, batch->responses);
    uint64_t count = min_u64(response->left - batch->response_done, TCP_CHUNK_BYTES);
    struct tcp_frame frame = {
        .kind = TCP_FRAME_RESPONSE, .ack = batch->ack, .bytes = (uint32_t)count};

    if (!response->is_value && count > 0 &&
        tcp_memory_reach(endpoint->tcp, response->key, response->address + batch->response_done,
                         count, FABRIC_REMOTE_READ) == NULL) {
        cut_responses(endpoint, batch);
        return false;
    }
    add_frame(batch, TCP_SOURCE_RESPONSE, 0, &frame);
    NIGH_ASSERT(add_response_payload(endpoint, batch, response, batch->response_done, count));
    pass_response(endpoint, batch, count);
    return true;
}

/* ---- batches ---- */

/* What remains of the frame that was sent in part. False: it was to come from memory that was
 * deregistered since; the frame promised those bytes, so that nothing can follow it. */
static bool add_rest(struct fabric_endpoint *endpoint, struct tcp_batch *batch)
{
    const struct tcp_outgoing *out = &endpoint->out;
    uint64_t offset = out->sent - min_u64(out->sent, TCP_FRAME_BYTES);
    uint64_t payload = out->length - TCP_FRAME_BYTES;

    batch->pieces[batch->count++] = (struct tcp_piece){.source = out->source,
                                                       .work = out->work,
                                                       .already = out->sent,
                                                       .length = out->length,
                                                       .header = out->header};
    if (out->sent < TCP_FRAME_BYTES)
        add_bytes(batch, out->header + out->sent, TCP_FRAME_BYTES - out->sent);
    if (out->source == TCP_SOURCE_WORK) {
        add_work_payload(work_at(endpoint, out->work), batch, offset);
    } else if (out->source == TCP_SOURCE_RESPONSE) {
        if (!add_response_payload(endpoint, batch, response_at(endpoint, 0), offset,
                                  payload - offset))
            return false;
        pass_response(endpoint, batch, payload);
    }
    return true;
}

static void add_last_words(struct fabric_endpoint *endpoint, struct tcp_batch *batch)
{
    struct tcp_frame frame = {.kind = TCP_FRAME_REFUSED,
                              .ack = batch->ack,
                              .status = endpoint->refuse_status,
                              .of_read = endpoint->refuse_of_read};

    add_frame(batch, TCP_SOURCE_REFUSED, 0, &frame);
    batch->is_cut = true; /* nothing follows */
}

/* False: nothing can be sent any more. */
static bool build(struct fabric_endpoint *endpoint, struct tcp_batch *batch, bool ack)
{
    bool is_told = endpoint->refuse_told || endpoint->out.source == TCP_SOURCE_REFUSED;

    batch->count = batch->vector_count = batch->staged = 0;
    batch->bytes = batch->responses = 0;
    batch->response_done = 0;
    batch->is_cut = false;
    batch->ack = endpoint->carried;
    batch->next = endpoint->next;
    batch->reads = endpoint->read_count;
    if (endpoint->out.source != TCP_SOURCE_NONE && !add_rest(endpoint, batch))
        return false;
    while (has_room(batch)) {
        bool can_respond = batch->responses < endpoint->response_count;
        bool can_start = may_start(endpoint, batch);

        /* By turns, so that neither holds up the other. */
        if (can_respond && (endpoint->responses_next || !can_start)) {
            endpoint->responses_next = false;
            (void)add_response(endpoint, batch);
        } else if (can_start) {
            endpoint->responses_next = true;
            add_work(endpoint, batch);
        } else {
            break;
        }
    }
    if (endpoint->state == TCP_REFUSING && !is_told && has_room(batch) &&
        batch->responses == endpoint->response_count)
        add_last_words(endpoint, batch);
    if (batch->count == 0 && ack && endpoint->carried != endpoint->told &&
        endpoint->state == TCP_OPEN)
        add_frame(batch, TCP_SOURCE_ACK, 0,
                  &(struct tcp_frame){.kind = TCP_FRAME_ACK, .ack = batch->ack});
    return true;
}

/* ---- what was taken ---- */

static void start(struct fabric_endpoint *endpoint, const struct tcp_piece *piece, uint32_t ack)
{
    endpoint->told = ack;
    if (endpoint->carried == ack && list_is_linked(&endpoint->acking))
        list_remove(&endpoint->acking);
    if (piece->source != TCP_SOURCE_WORK)
        return;
    NIGH_ASSERT(piece->work == endpoint->next);
    endpoint->next++;
    if (tcp_op_is_read(work_at(endpoint, piece->work)->op)) {
        uint32_t i = (endpoint->read_first + endpoint->read_count++) % LIMIT_FABRIC_READS;

        endpoint->reads[i] = piece->work;
    }
}

static void finish(struct fabric_endpoint *endpoint, const struct tcp_piece *piece)
{
    struct tcp_response *response = response_at(endpoint, 0);

    switch (piece->source) {
    case TCP_SOURCE_WORK:
        endpoint->sent += !tcp_op_is_read(work_at(endpoint, piece->work)->op);
        break;
    case TCP_SOURCE_RESPONSE:
        response->address += piece->length - TCP_FRAME_BYTES;
        response->left -= piece->length - TCP_FRAME_BYTES;
        if (response->left == 0) {
            endpoint->response_first = (endpoint->response_first + 1) % LIMIT_FABRIC_READS;
            endpoint->response_count--;
        }
        break;
    case TCP_SOURCE_REFUSED:
        endpoint->refuse_told = true;
        (void)shutdown(endpoint->fd, SHUT_WR);
        break;
    default: break;
    }
}

static void carry_over(struct fabric_endpoint *endpoint, const struct tcp_batch *batch,
                       uint64_t sent)
{
    for (uint32_t i = 0; i < batch->count && sent > 0; i++) {
        const struct tcp_piece *piece = &batch->pieces[i];
        uint64_t taken = min_u64(sent, piece->length - piece->already);

        if (piece->already == 0)
            start(endpoint, piece, batch->ack);
        sent -= taken;
        if (piece->already + taken == piece->length) {
            endpoint->out.source = TCP_SOURCE_NONE;
            finish(endpoint, piece);
            continue;
        }
        endpoint->out.source = piece->source;
        endpoint->out.work = piece->work;
        endpoint->out.sent = piece->already + taken;
        endpoint->out.length = piece->length;
        memmove(endpoint->out.header, piece->header, TCP_FRAME_BYTES);
    }
}

/* The socket takes no more. Where epoll would not tell when it does, the next poll tries again, and
 * nobody sleeps meanwhile. */
static void wait_for_room(struct fabric_endpoint *endpoint)
{
    endpoint->is_blocked = tcp_endpoint_unhush(endpoint);
    if (endpoint->is_blocked)
        tcp_endpoint_watch(endpoint, EPOLLIN | EPOLLOUT);
    else
        tcp_endpoint_work(endpoint);
}

/* Nothing more leaves now. */
static void block(struct fabric_endpoint *endpoint, int error)
{
    if (error == EAGAIN || error == ENOBUFS || error == ENOMEM) {
        wait_for_room(endpoint);
        return;
    }
    /* The peer may have said why before it went: that is read first. Then comes the end. */
    endpoint->is_blocked = true;
    endpoint->send_errno = error;
    (void)shutdown(endpoint->fd, SHUT_RDWR);
    tcp_endpoint_work(endpoint);
}

/* A single vector, the small message, goes the shorter way through the kernel. */
static ssize_t hand_over(int fd, struct tcp_batch *batch)
{
    const struct msghdr message = {.msg_iov = batch->vectors, .msg_iovlen = batch->vector_count};

    if (batch->vector_count == 1)
        return send(fd, batch->vectors[0].iov_base, batch->vectors[0].iov_len,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Whether a batch would be empty: most are asked for in vain. */
static bool has_nothing(const struct fabric_endpoint *endpoint, bool ack)
{
    return endpoint->next == endpoint->tail && endpoint->response_count == 0 &&
           endpoint->out.source == TCP_SOURCE_NONE && endpoint->state == TCP_OPEN &&
           (!ack || endpoint->carried == endpoint->told);
}

bool tcp_send(struct fabric_endpoint *endpoint, bool ack, uint64_t *moved)
{
    struct tcp_batch *batch = &endpoint->tcp->batch;
    uint64_t room = endpoint->tcp->turn_bytes;

    while (room > 0 && !endpoint->is_blocked) {
        ssize_t n;

        if (has_nothing(endpoint, ack))
            return false;
        batch->room = room;
        if (!build(endpoint, batch, ack)) {
            block(endpoint, ECONNABORTED);
            return false;
        }
        if (batch->count == 0)
            return false;
        n = hand_over(endpoint->fd, batch);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            block(endpoint, errno);
            return false;
        }
        carry_over(endpoint, batch, (uint64_t)n);
        *moved += (uint64_t)n;
        if ((uint64_t)n < batch->bytes) {
            block(endpoint, EAGAIN);
            return false;
        }
        room -= min_u64(room, batch->bytes);
    }
    return !endpoint->is_blocked;
}
