/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the socket to frames: headers and small payloads through a staging buffer, many in one call;
 * large payloads straight to where they belong, but for WRITEs (tcp_words.c).
 */
#include "fabric/tcp/tcp_internal.h"

#include <errno.h>
#include <string.h>

static bool is_by_words(const struct fabric_endpoint *endpoint)
{
    return endpoint->in.frame.kind == TCP_FRAME_WRITE;
}

/* Ends the payload, if all of it is there. */
static bool finish(struct fabric_endpoint *endpoint)
{
    if (endpoint->in.left > 0)
        return true;
    endpoint->in.have = 0;
    return tcp_act_end(endpoint);
}

/* The next bytes of a header, and of operands behind it. *used: how many were taken. */
static bool take_head(struct fabric_endpoint *endpoint, const uint8_t *bytes, uint64_t count,
                      uint64_t *used)
{
    struct tcp_incoming *in = &endpoint->in;
    uint32_t wanted = TCP_FRAME_BYTES;

    if (in->have >= TCP_FRAME_BYTES)
        wanted += tcp_frame_payload(&in->frame);
    *used = min_u64(count, wanted - in->have);
    memcpy(in->head + in->have, bytes, *used);
    in->have += (uint32_t)*used;
    if (in->have < wanted)
        return true;
    if (in->have == TCP_FRAME_BYTES) {
        if (tcp_frame_read(in->head, &in->frame) != NIGH_OK) {
            tcp_endpoint_fail(endpoint, NIGH_PROTOCOL);
            return false;
        }
        if (tcp_frame_is_atomic(&in->frame))
            return true; /* its operands come first */
    }
    in->done = 0;
    in->held = 0;
    in->left = tcp_frame_is_atomic(&in->frame) ? 0 : tcp_frame_payload(&in->frame);
    return tcp_act_begin(endpoint) && finish(endpoint);
}

/* The place of a payload is not there any more. Where bytes of it are written already it is not
 * refused, as whoever asked would take it for not done: it breaks off. */
static void break_off(struct fabric_endpoint *endpoint)
{
    bool has_written = endpoint->in.done > endpoint->in.held;

    tcp_endpoint_refuse(endpoint, has_written ? NIGH_PEER_LOST : NIGH_DENIED, false);
}

/* Copies bytes of a payload to where they belong. False: that is not there any more. */
static bool put(struct fabric_endpoint *endpoint, const uint8_t *bytes, uint64_t count)
{
    struct iovec places[LIMIT_FABRIC_SLICES];
    int place_count;

    if (is_by_words(endpoint))
        return tcp_words_take(endpoint, bytes, count);
    place_count = tcp_act_place(endpoint, count, places);
    if (place_count < 0)
        return false;
    for (int i = 0; i < place_count; i++) {
        memcpy(places[i].iov_base, bytes, places[i].iov_len);
        bytes += places[i].iov_len;
    }
    endpoint->in.done += count;
    endpoint->in.left -= count;
    return true;
}

/* The next bytes of a payload. */
static bool take_payload(struct fabric_endpoint *endpoint, const uint8_t *bytes, uint64_t count)
{
    if (!put(endpoint, bytes, count)) {
        break_off(endpoint);
        return false;
    }
    return finish(endpoint);
}

/* False: the endpoint goes no further. */
static bool take_bytes(struct fabric_endpoint *endpoint, const uint8_t *bytes, uint64_t count)
{
    while (count > 0) {
        uint64_t used;

        if (endpoint->in.left > 0) {
            used = min_u64(count, endpoint->in.left);
            if (!take_payload(endpoint, bytes, used))
                return false;
        } else if (!take_head(endpoint, bytes, count, &used)) {
            return false;
        }
        bytes += used;
        count -= used;
    }
    return true;
}

/*
 * One call: the rest of a payload into its place, then whatever follows into the staging buffer.
 * *asked: how much there was room for; *direct: how much of it in place. -2: there is no place.
 */
static ssize_t receive_once(struct fabric_endpoint *endpoint, uint64_t room, uint64_t *asked,
                            uint64_t *direct)
{
    struct iovec vectors[LIMIT_FABRIC_SLICES + 1];
    struct msghdr message = {.msg_iov = vectors};
    uint64_t tail = is_by_words(endpoint) ? TCP_STAGING_BYTES : TCP_STAGING_FEW;
    int count = 0;

    *direct = is_by_words(endpoint) ? 0 : min_u64(room, endpoint->in.left);
    if (*direct > 0) {
        count = tcp_act_place(endpoint, *direct, vectors);
        if (count < 0)
            return -2;
        tail = endpoint->in.left > *direct ? 0 : TCP_TAIL_BYTES;
    }
    tail = min_u64(tail, room - *direct);
    *asked = *direct + tail;
    if (count == 0)
        return recv(endpoint->fd, endpoint->tcp->staging, tail, MSG_DONTWAIT);
    if (tail > 0)
        vectors[count++] = (struct iovec){.iov_base = endpoint->tcp->staging, .iov_len = tail};
    message.msg_iovlen = (size_t)count;
    return recvmsg(endpoint->fd, &message, MSG_DONTWAIT);
}

/* What was received. False: the endpoint goes no further. */
static bool take(struct fabric_endpoint *endpoint, uint64_t bytes, uint64_t direct)
{
    if (endpoint->state == TCP_REFUSING)
        return true; /* dropped: the peer does not know yet that it is not listened to */
    direct = min_u64(direct, bytes);
    if (direct > 0) {
        endpoint->in.done += direct;
        endpoint->in.left -= direct;
        if (!finish(endpoint))
            return false;
    }
    return take_bytes(endpoint, endpoint->tcp->staging, bytes - direct);
}

/* Nothing more comes. */
static void end(struct fabric_endpoint *endpoint, nigh_status status)
{
    if (endpoint->state == TCP_REFUSING)
        status = endpoint->refuse_status;
    else if (endpoint->send_errno != 0)
        status = tcp_status_of_errno(endpoint->send_errno);
    tcp_endpoint_fail(endpoint, status);
}

bool tcp_receive(struct fabric_endpoint *endpoint, uint64_t *moved)
{
    uint64_t room = endpoint->tcp->turn_bytes;

    while (room > 0 && endpoint->state != TCP_FAILED) {
        uint64_t asked = 0, direct = 0;
        ssize_t n = receive_once(endpoint, room, &asked, &direct);

        if (n == -2) {
            break_off(endpoint);
            continue;
        }
        if (n <= 0) {
            int error = n == 0 ? 0 : errno;

            if (error == EINTR)
                continue;
            if (error == EAGAIN) {
                if (endpoint->is_hot && ++endpoint->idle > TCP_HOT_IDLE)
                    tcp_endpoint_cool(endpoint);
                return false;
            }
            end(endpoint, tcp_status_of_errno(error));
            return false;
        }
        tcp_endpoint_heat(endpoint);
        *moved += (uint64_t)n;
        room -= (uint64_t)n;
        if (!take(endpoint, (uint64_t)n, direct))
            return endpoint->state != TCP_FAILED;
        if ((uint64_t)n < asked)
            return false;
    }
    return endpoint->state != TCP_FAILED;
}
