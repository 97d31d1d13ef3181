/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an endpoint: made, sized, told about, refused, failed, destroyed; and its lists. */
#include "fabric/tcp/tcp_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/fd.h"

#define LOG_MODULE "fabric"
#include "base/log.h"

#define MS_A_SECOND          1000u
#define TCP_CONGESTION_BYTES 16u /* of a congestion control's name, at most */
#define PROBES               2 /* with the silence before the first: about three times keepalive_ms */

nigh_status tcp_status_of_errno(int error)
{
    return error == ETIMEDOUT ? NIGH_TIMEOUT : NIGH_PEER_LOST;
}

/* ---- made ---- */

/* What is sent is short bursts and silence, from which a congestion control that paces by the
 * bandwidth that it has seen (bbr) learns that there is little: it then lets a timer hold each
 * piece of an object back. The next best that does not pace: cubic is not allowed everywhere, reno
 * is. */
static void set_congestion(int fd)
{
    char name[TCP_CONGESTION_BYTES] = {0};
    socklen_t bytes = sizeof(name);

    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) != 0 ||
        strncmp(name, "bbr", 3) != 0)
        return;
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) != 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

/* The system takes who asks and is answered for a conversation, and lets an acknowledgement wait
 * for the next question. Until then it keeps what was sent, and frees it on the processor where the
 * question comes from: the sender then takes new memory for each answer, which is cold, and new to
 * a virtual machine that gives free memory back. */
void tcp_endpoint_quicken(const struct fabric_endpoint *endpoint)
{
    int on = 1;

    (void)setsockopt(endpoint->fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
}

/* None of these is needed to be correct: a socket that refuses one is slower, or learns later. */
static void set_options(const struct tcp *tcp, int fd)
{
    int on = 1, probes = PROBES;
    int seconds = (int)max_u32((tcp->keepalive_ms + MS_A_SECOND - 1) / MS_A_SECOND, 1);
    unsigned lost_ms = tcp->keepalive_ms * (PROBES + 1);

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost_ms, sizeof(lost_ms));
    set_congestion(fd);
}

struct fabric_endpoint *tcp_endpoint_make(struct tcp *tcp, int fd, enum tcp_state state)
{
    struct fabric_endpoint *endpoint = calloc(1, sizeof(*endpoint));
    struct epoll_event event = {.data.ptr = endpoint};

    if (endpoint == NULL)
        return NULL;
    if (epoll_ctl(tcp->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(endpoint);
        return NULL;
    }
    set_options(tcp, fd);
    endpoint->tcp = tcp;
    endpoint->fd = fd;
    endpoint->state = state;
    list_push_back(&tcp->every, &endpoint->every);
    tcp->endpoint_count++;
    if (state == TCP_INCOMING)
        tcp->half_open++;
    return endpoint;
}

nigh_status tcp_endpoint_size(struct fabric_endpoint *endpoint,
                              const struct fabric_endpoint_options *options)
{
    uint64_t works = round_up_pow2_u64(options->sends);
    /* What comes out of a stock lies in the ring until it is polled: all of it may. */
    uint64_t receives =
        round_up_pow2_u64(options->stock != NULL ? options->stock->depth : options->receives);

    if (options->sends > LIMIT_FABRIC_DEPTH || options->receives > LIMIT_FABRIC_DEPTH)
        return NIGH_INVALID;
    endpoint->works = calloc(works, sizeof(*endpoint->works));
    endpoint->inline_most = fabric_inline_bytes(&endpoint->tcp->fabric, options);
    endpoint->inline_bytes = calloc(works, endpoint->inline_most); /* touched as it is used */
    endpoint->receives = calloc(receives, sizeof(*endpoint->receives));
    if (endpoint->works == NULL || endpoint->inline_bytes == NULL || endpoint->receives == NULL) {
        free(endpoint->works);
        free(endpoint->inline_bytes);
        free(endpoint->receives);
        endpoint->works = NULL;
        endpoint->inline_bytes = NULL;
        endpoint->receives = NULL;
        return NIGH_NO_RESOURCES;
    }
    endpoint->work_mask = (uint32_t)works - 1;
    endpoint->work_depth = options->sends;
    endpoint->receive_mask = (uint32_t)receives - 1;
    endpoint->receive_depth = options->stock != NULL ? 0 : options->receives;
    endpoint->context = options->context;
    if (options->stock != NULL)
        tcp_stock_join(endpoint, options->stock);
    return NIGH_OK;
}

/* ---- what it waits for ---- */

static void unlink_node(struct list_node *node)
{
    if (list_is_linked(node))
        list_remove(node);
}

void tcp_endpoint_watch(struct fabric_endpoint *endpoint, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = endpoint};

    if (endpoint->epoll_events == events)
        return;
    NIGH_ASSERT(!endpoint->is_hushed);
    /* It is in the set, and a change takes no memory. */
    NIGH_ASSERT(epoll_ctl(endpoint->tcp->epoll_fd, EPOLL_CTL_MOD, endpoint->fd, &event) == 0);
    endpoint->epoll_events = events;
}

void tcp_endpoint_work(struct fabric_endpoint *endpoint)
{
    if (!list_is_linked(&endpoint->working))
        list_push_back(&endpoint->tcp->working, &endpoint->working);
}

/* One that stayed in the set, with no events, would still have each packet's sender come by there.
 */
void tcp_endpoint_hush(struct fabric_endpoint *endpoint)
{
    if (endpoint->epoll_events != EPOLLIN)
        return;
    NIGH_ASSERT(epoll_ctl(endpoint->tcp->epoll_fd, EPOLL_CTL_DEL, endpoint->fd, NULL) == 0);
    endpoint->epoll_events = 0;
    endpoint->is_hushed = true;
}

bool tcp_endpoint_unhush(struct fabric_endpoint *endpoint)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = endpoint};

    if (!endpoint->is_hushed || endpoint->state == TCP_FAILED)
        return true;
    if (epoll_ctl(endpoint->tcp->epoll_fd, EPOLL_CTL_ADD, endpoint->fd, &event) != 0)
        return false;
    endpoint->epoll_events = EPOLLIN;
    endpoint->is_hushed = false;
    return true;
}

void tcp_endpoint_heat(struct fabric_endpoint *endpoint)
{
    struct tcp *tcp = endpoint->tcp;

    endpoint->idle = 0;
    if (endpoint->is_hot)
        return;
    tcp->is_crowded = tcp->hot_count == TCP_HOT;
    if (tcp->is_crowded)
        return;
    tcp->hot[tcp->hot_count++] = endpoint;
    endpoint->is_hot = true;
}

void tcp_endpoint_cool(struct fabric_endpoint *endpoint)
{
    struct tcp *tcp = endpoint->tcp;

    endpoint->idle = 0;
    if (!endpoint->is_hot || !tcp_endpoint_unhush(endpoint))
        return; /* read as before, if epoll would not tell of it */
    endpoint->is_hot = false;
    for (uint32_t i = 0; i < tcp->hot_count; i++) {
        if (tcp->hot[i] == endpoint) {
            tcp->hot[i] = tcp->hot[--tcp->hot_count];
            break;
        }
    }
    tcp->is_crowded = false;
    tcp->until_epoll = 0;
}

void tcp_endpoint_set_patience(struct fabric_endpoint *endpoint, uint64_t patience_us)
{
    endpoint->patience_us = patience_us;
    endpoint->deadline_us = 0; /* counted from the next poll, which knows what time it is */
    endpoint->tcp->due_us = 0;
    if (!list_is_linked(&endpoint->timed))
        list_push_back(&endpoint->tcp->timed, &endpoint->timed);
}

void tcp_endpoint_end_patience(struct fabric_endpoint *endpoint)
{
    unlink_node(&endpoint->timed);
}

void tcp_endpoint_tell(struct fabric_endpoint *endpoint, enum fabric_event_kind event)
{
    endpoint->event = event;
    if (!list_is_linked(&endpoint->eventful))
        list_push_back(&endpoint->tcp->eventful, &endpoint->eventful);
}

/* ---- ended ---- */

/* Closes the descriptor: from here on nothing of it touches anybody's memory. A child of the
 * program may have a copy of it, which would keep it in our epoll, and the peer from hearing of the
 * end. */
static void close_socket(struct fabric_endpoint *endpoint)
{
    if (endpoint->state == TCP_INCOMING || endpoint->state == TCP_REQUESTED)
        endpoint->tcp->half_open--;
    endpoint->state = TCP_FAILED;
    (void)epoll_ctl(endpoint->tcp->epoll_fd, EPOLL_CTL_DEL, endpoint->fd, NULL);
    (void)shutdown(endpoint->fd, SHUT_RDWR);
    fd_close(&endpoint->fd);
    unlink_node(&endpoint->working);
    unlink_node(&endpoint->acking);
    unlink_node(&endpoint->timed);
    tcp_endpoint_cool(endpoint);
}

void tcp_endpoint_destroy(struct fabric_endpoint *endpoint)
{
    if (endpoint->state != TCP_FAILED)
        close_socket(endpoint);
    unlink_node(&endpoint->completing);
    unlink_node(&endpoint->eventful);
    list_remove(&endpoint->every);
    endpoint->tcp->endpoint_count--;
    if (endpoint->stock != NULL)
        tcp_stock_leave(endpoint);
    free(endpoint->works);
    free(endpoint->inline_bytes);
    free(endpoint->receives);
    free(endpoint);
}

void tcp_endpoint_fail(struct fabric_endpoint *endpoint, nigh_status status)
{
    NIGH_ASSERT(endpoint->state != TCP_FAILED);
    if (status == NIGH_PROTOCOL) {
        char peer[FABRIC_ADDRESS_BYTES];

        address_peer(endpoint->fd, peer);
        LOG_WARN("connection ended: the peer broke the protocol",
                 "peer=%s do=\"nothing: nodes dial anew; if it comes again, run the same nighd at "
                 "all, and let nobody else reach the ports of lanes\"",
                 peer);
    }
    close_socket(endpoint);
    if (!endpoint->is_known) {
        tcp_endpoint_destroy(endpoint);
        return;
    }
    endpoint->status = status;
    endpoint->flush = status == NIGH_PROTOCOL ? NIGH_PROTOCOL : NIGH_PEER_LOST;
    tcp_endpoint_tell(endpoint, FABRIC_DISCONNECTED);
    tcp_complete_mark(endpoint);
}

void tcp_endpoint_disconnect(struct fabric_endpoint *endpoint)
{
    if (endpoint->state != TCP_FAILED)
        tcp_endpoint_fail(endpoint, NIGH_PEER_LOST);
}

void tcp_endpoint_refuse(struct fabric_endpoint *endpoint, nigh_status status, bool of_read)
{
    char peer[FABRIC_ADDRESS_BYTES];

    address_peer(endpoint->fd, peer);
    LOG_WARN("request refused, and its connection ended",
             "peer=%s status=%s do=\"nothing: nodes dial anew; if it comes again, run the same "
             "nighd at all nodes\"",
             peer, nigh_status_name(status));
    endpoint->state = TCP_REFUSING;
    endpoint->refuse_status = status;
    endpoint->refuse_of_read = of_read;
    endpoint->in.left = 0; /* what comes from here on goes nowhere */
    endpoint->in.have = 0;
    tcp_endpoint_set_patience(endpoint, TCP_LINGER_US);
    tcp_endpoint_work(endpoint);
}
