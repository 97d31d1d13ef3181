/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two endpoints come together: connect(2), a preamble from the dialler, one in answer.
 *
 * The dialler waits longer than the other side may take, so that the one who did not answer is the
 * one who gives up.
 */
#include "fabric/tcp/tcp_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/fd.h"

#define LOG_MODULE "fabric"
#include "base/log.h"

#define DIAL_PATIENCE_US (LIMIT_FABRIC_HANDSHAKE_US + LIMIT_FABRIC_HANDSHAKE_US / 2)

static void set_private(struct tcp_preamble *preamble, const void *data, uint32_t bytes)
{
    preamble->private_bytes = bytes;
    if (bytes > 0)
        memcpy(preamble->private_data, data, bytes);
}

/* A socket that nothing was sent on has room for a preamble. */
static bool send_preamble(int fd, const struct tcp_preamble *preamble)
{
    uint8_t bytes[TCP_PREAMBLE_BYTES];

    tcp_preamble_write(preamble, bytes);
    return send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(bytes);
}

/* ---- the dialler's side ---- */

static nigh_status dial(struct tcp *tcp, const struct address *address,
                        struct fabric_endpoint **endpoint)
{
    struct fabric_endpoint *made;
    int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return NIGH_NO_RESOURCES;
    made = tcp_endpoint_make(tcp, fd, TCP_DIALLING);
    if (made == NULL) {
        fd_close(&fd);
        return NIGH_NO_RESOURCES;
    }
    made->is_dialled = made->is_known = true;
    *endpoint = made;
    return NIGH_OK;
}

nigh_status tcp_connect(struct fabric *fabric, const char *address,
                        const struct fabric_endpoint_options *options, const void *private_data,
                        uint32_t private_bytes, struct fabric_endpoint **endpoint)
{
    struct tcp *tcp = tcp_of(fabric);
    struct fabric_endpoint *made;
    struct address parsed;
    nigh_status status;

    if (private_bytes > FABRIC_PRIVATE_BYTES || address_parse(address, &parsed) != NIGH_OK)
        return NIGH_INVALID;
    if (tcp->endpoint_count == LIMIT_FABRIC_ENDPOINTS)
        return NIGH_LIMIT;
    status = dial(tcp, &parsed, &made);
    if (status != NIGH_OK)
        return status;
    status = tcp_endpoint_size(made, options);
    if (status != NIGH_OK) {
        tcp_endpoint_destroy(made);
        return status;
    }
    made->preamble.kind = TCP_PREAMBLE_CONNECT;
    set_private(&made->preamble, private_data, private_bytes);
    if (connect(made->fd, (const struct sockaddr *)&parsed.storage, parsed.bytes) == 0 ||
        errno == EINPROGRESS) {
        tcp_endpoint_watch(made, EPOLLOUT);
        tcp_endpoint_set_patience(made, DIAL_PATIENCE_US);
    } else {
        tcp_endpoint_fail(made, NIGH_UNREACHABLE);
    }
    *endpoint = made;
    return NIGH_OK;
}

static void greet(struct fabric_endpoint *endpoint)
{
    int error = 0;
    socklen_t bytes = sizeof(error);

    if (getsockopt(endpoint->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0 || error != 0) {
        tcp_endpoint_fail(endpoint, NIGH_UNREACHABLE);
        return;
    }
    if (!send_preamble(endpoint->fd, &endpoint->preamble)) {
        tcp_endpoint_fail(endpoint, NIGH_PEER_LOST);
        return;
    }
    endpoint->state = TCP_GREETED;
    tcp_endpoint_watch(endpoint, EPOLLIN);
}

static void join(struct fabric_endpoint *endpoint)
{
    endpoint->state = TCP_JOINED;
    endpoint->in.have = 0;
    tcp_endpoint_end_patience(endpoint);
    tcp_endpoint_watch(endpoint, 0); /* nothing is read before the caller knows */
    tcp_endpoint_tell(endpoint, FABRIC_ESTABLISHED);
}

/* ---- the acceptor's side ---- */

nigh_status tcp_accept(struct fabric_endpoint *endpoint,
                       const struct fabric_endpoint_options *options, const void *private_data,
                       uint32_t private_bytes)
{
    struct tcp_preamble answer = {.kind = TCP_PREAMBLE_ACCEPT};
    nigh_status status;

    if (private_bytes > FABRIC_PRIVATE_BYTES)
        return NIGH_INVALID;
    if (endpoint->state != TCP_REQUESTED)
        return NIGH_CLOSED;
    status = tcp_endpoint_size(endpoint, options);
    if (status != NIGH_OK)
        return status;
    set_private(&answer, private_data, private_bytes);
    if (!send_preamble(endpoint->fd, &answer)) {
        tcp_endpoint_fail(endpoint, NIGH_PEER_LOST);
        return NIGH_OK;
    }
    endpoint->tcp->half_open--;
    join(endpoint);
    return NIGH_OK;
}

void tcp_reject(struct fabric_endpoint *endpoint)
{
    struct tcp_preamble answer = {.kind = TCP_PREAMBLE_REJECT};

    if (endpoint->state == TCP_REQUESTED)
        (void)send_preamble(endpoint->fd, &answer);
    tcp_endpoint_destroy(endpoint);
}

/* ---- preambles ---- */

static void answered(struct fabric_endpoint *endpoint)
{
    if (endpoint->preamble.kind == TCP_PREAMBLE_ACCEPT)
        join(endpoint);
    else if (endpoint->preamble.kind == TCP_PREAMBLE_REJECT)
        tcp_endpoint_fail(endpoint, NIGH_DENIED);
    else
        tcp_endpoint_fail(endpoint, NIGH_PROTOCOL);
}

static void requested(struct fabric_endpoint *endpoint)
{
    if (endpoint->preamble.kind != TCP_PREAMBLE_CONNECT) {
        tcp_endpoint_fail(endpoint, NIGH_PROTOCOL);
        return;
    }
    endpoint->state = TCP_REQUESTED;
    endpoint->in.have = 0;
    tcp_endpoint_set_patience(endpoint, LIMIT_FABRIC_HANDSHAKE_US);
    tcp_endpoint_watch(endpoint, EPOLLRDHUP); /* whether he gives up */
    tcp_endpoint_tell(endpoint, FABRIC_REQUEST);
}

/* Not one byte beyond the preamble: what follows waits in the socket until the endpoint is open. */
static void read_preamble(struct fabric_endpoint *endpoint)
{
    struct tcp_incoming *in = &endpoint->in;
    ssize_t n =
        recv(endpoint->fd, in->head + in->have, TCP_PREAMBLE_BYTES - in->have, MSG_DONTWAIT);
    nigh_status status;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        tcp_endpoint_fail(endpoint, NIGH_PEER_LOST);
        return;
    }
    in->have += (uint32_t)n;
    if (in->have < TCP_PREAMBLE_BYTES)
        return;
    status = tcp_preamble_read(in->head, &endpoint->preamble);
    if (status == NIGH_VERSION)
        LOG_WARN("a peer speaks another version of the protocol",
                 "ours=%u do=\"run the same release of nighd at all nodes, and let nobody else "
                 "reach the ports of lanes\"",
                 TCP_VERSION);
    if (status != NIGH_OK)
        tcp_endpoint_fail(endpoint, NIGH_PROTOCOL);
    else if (endpoint->is_dialled)
        answered(endpoint);
    else
        requested(endpoint);
}

void tcp_connect_progress(struct fabric_endpoint *endpoint, uint32_t events)
{
    switch (endpoint->state) {
    case TCP_DIALLING: greet(endpoint); break;
    case TCP_GREETED:
    case TCP_INCOMING: read_preamble(endpoint); break;
    case TCP_REQUESTED:
        if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
            tcp_endpoint_fail(endpoint, NIGH_PEER_LOST);
        break;
    default: break; /* joined: what happened is seen when it is open */
    }
}

void tcp_connect_expire(struct fabric_endpoint *endpoint)
{
    nigh_status status = NIGH_TIMEOUT;

    if (endpoint->state == TCP_DIALLING)
        status = NIGH_UNREACHABLE;
    else if (endpoint->state == TCP_REFUSING)
        status = endpoint->refuse_status;
    tcp_endpoint_fail(endpoint, status);
}
