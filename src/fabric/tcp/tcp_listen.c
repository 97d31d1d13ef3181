/* SPDX-License-Identifier: Apache-2.0 */
/* Listening, and taking connections in: as many that nobody has accepted yet as are allowed. */
#include "fabric/tcp/tcp_internal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/fd.h"

#define LOG_MODULE "fabric"
#include "base/log.h"

#define BACKLOG      128
#define ACCEPTS      8 /* in one poll */
#define ANY          "*"
#define BACKLOG_NEXT 1 /* what accept_one says */
#define BACKLOG_DONE 0

static nigh_status status_of_bind(int error)
{
    switch (error) {
    case EADDRINUSE: return NIGH_BUSY;
    case EADDRNOTAVAIL:
    case EINVAL: return NIGH_INVALID;
    default: return NIGH_NO_RESOURCES;
    }
}

static nigh_status listen_at(const struct sockaddr *address, socklen_t bytes, int *listen_fd)
{
    int on = 1, off = 0;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return NIGH_NO_RESOURCES;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, address, bytes) != 0 || listen(fd, BACKLOG) != 0) {
        nigh_status status = status_of_bind(errno);

        fd_close(&fd);
        return status;
    }
    *listen_fd = fd;
    return NIGH_OK;
}

/* Every address of the machine: of both families where it has both. */
static nigh_status listen_anywhere(const char *port, int *listen_fd)
{
    uint16_t number = 0;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};
    nigh_status status;

    for (; *port != '\0'; port++)
        number = (uint16_t)(number * 10 + (*port - '0'));
    six.sin6_port = four.sin_port = htons(number);
    status = listen_at((const struct sockaddr *)&six, sizeof(six), listen_fd);
    if (status == NIGH_OK || status == NIGH_BUSY)
        return status;
    return listen_at((const struct sockaddr *)&four, sizeof(four), listen_fd);
}

static nigh_status listen_on_host(const char *host, const char *port, int *listen_fd)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICSERV | AI_PASSIVE,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    nigh_status status = NIGH_INVALID;

    if (getaddrinfo(host, port, &hints, &found) != 0)
        return NIGH_INVALID;
    for (const struct addrinfo *i = found; i != NULL && status != NIGH_OK; i = i->ai_next)
        status = listen_at(i->ai_addr, i->ai_addrlen, listen_fd);
    freeaddrinfo(found);
    return status;
}

static void remember_address(struct tcp *tcp, bool is_anywhere)
{
    struct address address = {.bytes = sizeof(address.storage)};
    char text[FABRIC_ADDRESS_BYTES] = "";

    if (getsockname(tcp->listen_fd, (struct sockaddr *)&address.storage, &address.bytes) == 0)
        address_format(&address, text);
    if (is_anywhere)
        (void)snprintf(tcp->address, sizeof(tcp->address), ANY "%s", strrchr(text, ':'));
    else
        memcpy(tcp->address, text, sizeof(text));
}

nigh_status tcp_listen(struct fabric *fabric, const char *address)
{
    struct tcp *tcp = tcp_of(fabric);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = tcp};
    char host[FABRIC_ADDRESS_BYTES], port[8];
    bool is_anywhere;
    nigh_status status;
    int fd;

    if (tcp->listen_fd >= 0)
        return NIGH_BUSY;
    if (!address_split(address, host, port))
        return NIGH_INVALID;
    is_anywhere = strcmp(host, ANY) == 0;
    status = is_anywhere ? listen_anywhere(port, &fd) : listen_on_host(host, port, &fd);
    if (status != NIGH_OK)
        return status;
    if (epoll_ctl(tcp->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        fd_close(&fd);
        return NIGH_NO_RESOURCES;
    }
    tcp->listen_fd = fd;
    remember_address(tcp, is_anywhere);
    return NIGH_OK;
}

/* ---- taking in ---- */

static void watch_listener(struct tcp *tcp, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = tcp};

    NIGH_ASSERT(epoll_ctl(tcp->epoll_fd, EPOLL_CTL_MOD, tcp->listen_fd, &event) == 0);
}

/* Out of descriptors: the queue would keep us awake, so it is left alone for a while. */
static void rest(struct tcp *tcp, int error, uint64_t now_us)
{
    LOG_WARN("cannot take connections in",
             "error=%d do=\"raise RLIMIT_NOFILE if error is 24, free memory if it is 12 or 105\"",
             error);
    watch_listener(tcp, 0);
    tcp->listen_due_us = now_us + TCP_LISTEN_REST_US;
}

void tcp_listen_resume(struct tcp *tcp)
{
    tcp->listen_due_us = UINT64_MAX;
    watch_listener(tcp, EPOLLIN);
}

/* Makes room among those that nobody has accepted yet: the one that has said nothing for longest
 * goes. An honest dialler speaks at once, so a crowd of silent ones does not keep it out. */
static bool make_room(struct tcp *tcp)
{
    if (tcp->half_open < LIMIT_FABRIC_HALF_OPEN)
        return true;
    LIST_FOREACH(node, &tcp->timed)
    {
        struct fabric_endpoint *endpoint = container_of(node, struct fabric_endpoint, timed);

        if (endpoint->state == TCP_INCOMING) {
            tcp_endpoint_destroy(endpoint);
            return true;
        }
    }
    return false;
}

static int accept_one(struct tcp *tcp, uint64_t now_us)
{
    struct fabric_endpoint *endpoint = NULL;
    int fd = accept4(tcp->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        if (errno == EAGAIN)
            return BACKLOG_DONE;
        if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
            return BACKLOG_NEXT; /* one that went before we came */
        rest(tcp, errno, now_us);
        return BACKLOG_DONE;
    }
    if (tcp->endpoint_count < LIMIT_FABRIC_ENDPOINTS && make_room(tcp))
        endpoint = tcp_endpoint_make(tcp, fd, TCP_INCOMING);
    if (endpoint == NULL) {
        fd_close(&fd);
        return BACKLOG_NEXT;
    }
    tcp_endpoint_watch(endpoint, EPOLLIN);
    tcp_endpoint_set_patience(endpoint, LIMIT_FABRIC_HANDSHAKE_US);
    return BACKLOG_NEXT;
}

void tcp_listen_accept(struct tcp *tcp, uint64_t now_us)
{
    for (int i = 0; i < ACCEPTS && accept_one(tcp, now_us) == BACKLOG_NEXT; i++)
        ;
}
