/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tcp provider's fabric: made, polled, armed, ended.
 *
 * Endpoints that were lately active are read from directly, and epoll is asked only now and then,
 * or when they had nothing after a sleep. Before a sleep nobody is asked at all: the descriptor is
 * watched by level, and a sleep over something that has come ends at once.
 */
#include "fabric/tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "fabric/tcp/tcp_internal.h"

#define KEEPALIVE_MS     5000u
#define KEEPALIVE_MS_MAX 3600000u

/* ---- looking for work ---- */

static void handle(struct fabric_endpoint *endpoint, uint32_t events)
{
    if (endpoint->state != TCP_OPEN && endpoint->state != TCP_REFUSING) {
        tcp_connect_progress(endpoint, events);
        return;
    }
    if ((events & EPOLLOUT) != 0) {
        endpoint->is_blocked = endpoint->send_errno != 0;
        tcp_endpoint_watch(endpoint, EPOLLIN);
    }
    tcp_endpoint_work(endpoint);
}

/* Asks epoll. Whether it knew anything. */
static bool ask(struct tcp *tcp, uint64_t now_us)
{
    struct epoll_event events[TCP_EPOLL_EVENTS];
    int count = epoll_wait(tcp->epoll_fd, events, TCP_EPOLL_EVENTS, 0);
    bool has_callers = false;

    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == tcp)
            has_callers = true;
        else
            handle(events[i].data.ptr, events[i].events);
    }
    if (has_callers) /* last: it may end endpoints that stand in `events`, too */
        tcp_listen_accept(tcp, now_us);
    return count > 0;
}

/* Whoever polls without sleeping reads from the hot ones anyway: that epoll is told of each packet
 * costs their senders time. */
static void hush(struct tcp *tcp)
{
    tcp->fabric.is_armed = tcp->fabric.is_armed && tcp->hot_count == 0;
    for (uint32_t i = 0; i < tcp->hot_count; i++)
        tcp_endpoint_hush(tcp->hot[i]);
}

static void look_at_epoll(struct tcp *tcp, uint64_t now_us)
{
    if (tcp->polls - tcp->armed_poll > TCP_HUSH_POLLS)
        hush(tcp);
    tcp->until_epoll = TCP_EPOLL_EVERY;
    (void)ask(tcp, now_us);
}

/* Whether epoll was asked. Who armed means to sleep: after the first poll that follows, a few do
 * not look, for what they would miss ends the sleep at once. *hot: the hot ones are to be read. */
static bool look(struct tcp *tcp, uint64_t now_us, bool *hot)
{
    uint64_t since = tcp->polls - tcp->armed_poll;
    bool asks = tcp->hot_count == 0 || tcp->is_crowded || tcp->until_epoll == 0;

    *hot = false;
    if (since > 1 && since <= TCP_DROWSY_POLLS)
        return true;
    if (asks) {
        look_at_epoll(tcp, now_us);
    } else {
        uint32_t step = since == 1 ? TCP_EPOLL_STEP : 1;

        tcp->until_epoll -= min_u32(step, tcp->until_epoll);
    }
    *hot = true;
    return asks || since != 1;
}

/* ---- time ---- */

static void look_at_clock(struct tcp *tcp, uint64_t now_us)
{
    uint64_t due_us = UINT64_MAX;

    if (now_us >= tcp->listen_due_us)
        tcp_listen_resume(tcp);
    if (now_us < tcp->due_us)
        return;
    LIST_FOREACH_SAFE(node, &tcp->timed)
    {
        struct fabric_endpoint *endpoint = container_of(node, struct fabric_endpoint, timed);

        if (endpoint->deadline_us == 0)
            endpoint->deadline_us = now_us + endpoint->patience_us;
        if (now_us < endpoint->deadline_us)
            due_us = min_u64(due_us, endpoint->deadline_us);
        else
            tcp_connect_expire(endpoint);
    }
    tcp->due_us = due_us;
}

/* ---- work ---- */

/* Sends acknowledgements that have waited long enough; all of them before a sleep. */
static void acknowledge(struct tcp *tcp, bool all)
{
    struct list late;
    uint64_t moved = 0;

    list_init(&late);
    while (!list_empty(&tcp->acking)) {
        struct fabric_endpoint *endpoint =
            container_of(list_first(&tcp->acking), struct fabric_endpoint, acking);

        if (!all && tcp->polls < endpoint->ack_poll)
            break;
        list_remove(&endpoint->acking);
        if (tcp_send(endpoint, true, &moved))
            tcp_endpoint_work(endpoint);
        if (endpoint->carried == endpoint->told || endpoint->state != TCP_OPEN)
            continue;
        endpoint->ack_poll =
            tcp->polls + TCP_ACK_POLLS; /* the socket is full: with the next frame */
        list_push_back(&late, &endpoint->acking);
    }
    list_append_all(&tcp->acking, &late);
}

static bool owes_ack(const struct fabric_endpoint *endpoint)
{
    return endpoint->acks_now || endpoint->carried - endpoint->told >= TCP_ACK_COUNT;
}

static void serve(struct fabric_endpoint *endpoint, uint64_t *moved, bool sends)
{
    uint64_t before = *moved;
    bool is_more = tcp_receive(endpoint, moved);

    if (endpoint->state == TCP_FAILED || (!sends && !is_more && *moved == before))
        return;
    is_more |= tcp_send(endpoint, owes_ack(endpoint), moved);
    if (is_more)
        tcp_endpoint_work(endpoint);
}

/* Those that are read without being asked for, which mostly have nothing: whoever spins comes by
 * here all the time. Backwards, as one that fails leaves its place to the last. */
static void read_hot(struct tcp *tcp, uint64_t *moved)
{
    for (uint32_t i = tcp->hot_count; i-- > 0;) {
        if (!list_is_linked(&tcp->hot[i]->working))
            serve(tcp->hot[i], moved, false);
    }
}

/* One turn of each that has work, in turn, as long as the poll's share of bytes lasts, of which
 * `moved` are used. Whether any moved. */
static bool work(struct tcp *tcp, uint64_t moved)
{
    uint64_t budget = (uint64_t)tcp->turn_bytes * TCP_POLL_TURNS;
    struct list round;

    if (list_empty(&tcp->working))
        return moved > 0;
    list_init(&round);
    list_append_all(&round, &tcp->working);
    while (moved < budget && !list_empty(&round))
        serve(container_of(list_pop_front(&round), struct fabric_endpoint, working), &moved, true);
    list_append_all(&round, &tcp->working);
    list_append_all(&tcp->working, &round);
    return moved > 0;
}

static uint32_t tcp_poll(struct fabric *fabric, struct fabric_completion *completions,
                         uint32_t count, uint64_t now_us)
{
    struct tcp *tcp = tcp_of(fabric);
    uint64_t bytes = 0;
    bool asked, moved, hot;

    tcp->polls++;
    if (unlikely(now_us >= tcp->due_us || now_us >= tcp->listen_due_us))
        look_at_clock(tcp, now_us);
    if (!list_empty(&tcp->acking))
        acknowledge(tcp, false);
    asked = look(tcp, now_us, &hot);
    if (hot)
        read_hot(tcp, &bytes);
    moved = work(tcp, bytes);
    if (!asked && !moved) { /* it was woken by somebody else */
        look_at_epoll(tcp, now_us);
        (void)work(tcp, 0);
    }
    return list_empty(&tcp->completing) ? 0 : tcp_complete_take(tcp, completions, count);
}

static bool tcp_arm(struct fabric *fabric)
{
    struct tcp *tcp = tcp_of(fabric);
    bool is_told = true;

    tcp->armed_poll = tcp->polls;
    for (uint32_t i = 0; i < tcp->hot_count; i++)
        is_told = tcp_endpoint_unhush(tcp->hot[i]) && is_told;
    if (!is_told || tcp->due_us == 0 || !list_empty(&tcp->completing) ||
        !list_empty(&tcp->eventful) || !list_empty(&tcp->working))
        return false;
    acknowledge(tcp, true);
    return list_empty(&tcp->working);
}

/* ---- events ---- */

static void open_endpoint(struct fabric_endpoint *endpoint)
{
    endpoint->state = TCP_OPEN;
    tcp_endpoint_watch(endpoint, EPOLLIN);
    tcp_endpoint_work(endpoint);
}

static bool tcp_next_event(struct fabric *fabric, struct fabric_event *event)
{
    struct tcp *tcp = tcp_of(fabric);
    struct fabric_endpoint *endpoint;

    if (list_empty(&tcp->eventful))
        return false;
    endpoint = container_of(list_pop_front(&tcp->eventful), struct fabric_endpoint, eventful);
    *event = (struct fabric_event){
        .kind = endpoint->event, .endpoint = endpoint, .context = endpoint->context};
    if (endpoint->event == FABRIC_DISCONNECTED)
        event->status = endpoint->status;
    if (endpoint->event == FABRIC_REQUEST)
        endpoint->is_known = true;
    if (endpoint->event == FABRIC_REQUEST ||
        (endpoint->event == FABRIC_ESTABLISHED && endpoint->is_dialled)) {
        event->private_bytes = endpoint->preamble.private_bytes;
        memcpy(event->private_data, endpoint->preamble.private_data,
               endpoint->preamble.private_bytes);
    }
    if (endpoint->event == FABRIC_ESTABLISHED)
        open_endpoint(endpoint);
    return true;
}

static int tcp_fd(const struct fabric *fabric)
{
    return container_of(fabric, const struct tcp, fabric)->epoll_fd;
}

static uint64_t tcp_due_us(const struct fabric *fabric)
{
    const struct tcp *tcp = container_of(fabric, const struct tcp, fabric);

    return min_u64(tcp->due_us, tcp->listen_due_us);
}

static void tcp_local_address(const struct fabric *fabric, char address[FABRIC_ADDRESS_BYTES])
{
    memcpy(address, container_of(fabric, const struct tcp, fabric)->address, FABRIC_ADDRESS_BYTES);
}

/* ---- made and ended ---- */

static void tcp_destroy(struct fabric *fabric)
{
    struct tcp *tcp = tcp_of(fabric);

    while (!list_empty(&tcp->every))
        tcp_endpoint_destroy(container_of(list_first(&tcp->every), struct fabric_endpoint, every));
    while (!list_empty(&tcp->stocks))
        tcp_stock_destroy(container_of(list_first(&tcp->stocks), struct fabric_stock, node));
    if (tcp->listen_fd >= 0)
        (void)shutdown(tcp->listen_fd, SHUT_RDWR); /* also where a child has a copy of it */
    fd_close(&tcp->listen_fd);
    fd_close(&tcp->epoll_fd);
    tcp_memories_fini(tcp);
    free(tcp);
}

static const struct fabric_provider provider = {
    .destroy = tcp_destroy,
    .listen = tcp_listen,
    .address = tcp_local_address,
    .memory_register = tcp_memory_register,
    .memory_remote = tcp_memory_remote,
    .memory_deregister = tcp_memory_deregister,
    .connect = tcp_connect,
    .accept = tcp_accept,
    .reject = tcp_reject,
    .post = tcp_post,
    .post_receive = tcp_post_receive,
    .stock_create = tcp_stock_create,
    .stock_destroy = tcp_stock_destroy,
    .stock_post = tcp_stock_post,
    .disconnect = tcp_endpoint_disconnect,
    .endpoint_destroy = tcp_endpoint_destroy,
    .poll = tcp_poll,
    .next_event = tcp_next_event,
    .fd = tcp_fd,
    .arm = tcp_arm,
    .due_us = tcp_due_us,
};

static const struct fabric_caps caps = {
    .name = "tcp",
    .ops = FABRIC_CAN_WRITE_IMM | FABRIC_CAN_ATOMICS | FABRIC_CAN_READ_PRIVATE | FABRIC_CAN_SHARE |
           FABRIC_CAN_WORDS | FABRIC_CAN_ATOMICS_HERE,
    .inline_bytes = LIMIT_FABRIC_INLINE,
    .slices = LIMIT_FABRIC_SLICES,
    .reads = LIMIT_FABRIC_READS,
    .message_bytes = LIMIT_FABRIC_MESSAGE,
    .memories = LIMIT_FABRIC_MEMORIES,
};

static void init(struct tcp *tcp, const struct tcp_options *options, uint64_t seed)
{
    tcp->fabric = (struct fabric){.provider = &provider, .caps = caps};
    tcp->listen_fd = -1;
    tcp->keepalive_ms = KEEPALIVE_MS;
    tcp->turn_bytes = LIMIT_FABRIC_TURN_BYTES;
    if (options != NULL && options->keepalive_ms > 0)
        tcp->keepalive_ms = min_u32(options->keepalive_ms, KEEPALIVE_MS_MAX);
    if (options != NULL && options->turn_bytes > 0)
        tcp->turn_bytes = options->turn_bytes;
    tcp->due_us = tcp->listen_due_us = UINT64_MAX;
    list_init(&tcp->every);
    list_init(&tcp->working);
    list_init(&tcp->completing);
    list_init(&tcp->eventful);
    list_init(&tcp->acking);
    list_init(&tcp->timed);
    list_init(&tcp->stocks);
    random_init(&tcp->random, seed);
}

nigh_status tcp_create(const struct tcp_options *options, struct fabric **fabric)
{
    struct tcp *tcp = calloc(1, sizeof(*tcp));
    uint64_t seed;

    if (tcp == NULL)
        return NIGH_NO_RESOURCES;
    tcp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (tcp->epoll_fd < 0 || random_system_seed(&seed) != NIGH_OK ||
        tcp_memories_init(tcp) != NIGH_OK) {
        fd_close(&tcp->epoll_fd);
        free(tcp);
        return NIGH_NO_RESOURCES;
    }
    init(tcp, options, seed);
    *fabric = &tcp->fabric;
    return NIGH_OK;
}
