/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs provider's fabric: made, polled, armed, ended.
 *
 * The descriptor is an epoll over three: the channel of the completion queues, the channel of
 * rdma_cm and the device's own. A lane that spins looks at the completion queues, which costs no
 * system call, and at the three only now and then, or when somebody is being connected.
 */
#include "fabric/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/fd.h"
#include "fabric/verbs/verbs_internal.h"

#define LOG_MODULE "fabric"
#include "base/log.h"

#define KEEPALIVE_MS     5000u
#define KEEPALIVE_MS_MAX 3600000u
#define US_A_MS          UINT64_C(1000)
#define SOURCES          3

/* ---- looking for work ---- */

/* Takes what woke us. They are acknowledged many at once: each time takes a lock. */
static void take_wakes(struct verbs *verbs)
{
    struct ibv_cq *cq;
    void *context;

    while (verbs->library->get_cq_event(verbs->channel, &cq, &context) == 0) {
        struct verbs_cq *ours = context;

        verbs->fabric.is_armed = false;
        verbs->fabric.counts.wakes++;
        if (++ours->unacknowledged == VERBS_CQ_EVENTS) {
            verbs->library->ack_cq_events(cq, ours->unacknowledged);
            ours->unacknowledged = 0;
        }
    }
}

/* Asks the three. Whether they knew anything. */
static bool ask(struct verbs *verbs)
{
    struct epoll_event events[SOURCES];
    int count = epoll_wait(verbs->epoll_fd, events, SOURCES, 0);

    for (int i = 0; i < count; i++) {
        switch ((enum verbs_source)events[i].data.u32) {
        case VERBS_SOURCE_COMPLETIONS: take_wakes(verbs); break;
        case VERBS_SOURCE_CM: (void)verbs_event_cm(verbs); break;
        case VERBS_SOURCE_DEVICE: (void)verbs_event_device(verbs); break;
        }
    }
    return count > 0;
}

static void look(struct verbs *verbs)
{
    if (verbs->until_ask == 0 || verbs->connecting > 0) {
        verbs->until_ask = VERBS_ASK_EVERY;
        (void)ask(verbs);
    } else {
        verbs->until_ask--;
    }
}

static void work(struct verbs *verbs)
{
    struct list round;

    list_init(&round);
    list_append_all(&round, &verbs->working);
    while (!list_empty(&round)) {
        struct fabric_endpoint *endpoint =
            container_of(list_pop_front(&round), struct fabric_endpoint, working);

        if (endpoint->state == VERBS_OPEN)
            verbs_send(endpoint);
    }
}

/* ---- time ---- */

/* The first whose time is up; NULL: *due_us is when the next one's will be. */
static struct fabric_endpoint *find_late(struct verbs *verbs, uint64_t now_us, uint64_t *due_us)
{
    *due_us = UINT64_MAX;
    LIST_FOREACH(node, &verbs->timed)
    {
        struct fabric_endpoint *endpoint = container_of(node, struct fabric_endpoint, timed);

        if (endpoint->deadline_us == 0)
            endpoint->deadline_us = now_us + endpoint->patience_us;
        if (now_us >= endpoint->deadline_us)
            return endpoint;
        *due_us = min_u64(*due_us, endpoint->deadline_us);
    }
    return NULL;
}

/* From the first again each time: what one's end brings to light may end others. */
static void look_at_patience(struct verbs *verbs, uint64_t now_us)
{
    struct fabric_endpoint *late;
    uint64_t due_us;

    while ((late = find_late(verbs, now_us, &due_us)) != NULL)
        verbs_connect_expire(late);
    verbs->due_us = min_u64(due_us, verbs->due_us == 0 ? UINT64_MAX : verbs->due_us);
}

/* V12: who was silent for so long is asked, by a WRITE of nothing; the device finds out whether he
 * is there. */
static void probe(struct verbs *verbs, uint64_t now_us)
{
    if (verbs->open_count == 0) {
        verbs->keepalive_due_us = UINT64_MAX;
        return;
    }
    LIST_FOREACH_SAFE(node, &verbs->every)
    {
        struct fabric_endpoint *endpoint = container_of(node, struct fabric_endpoint, every);

        if (endpoint->state != VERBS_OPEN)
            continue;
        if (endpoint->is_quiet && !endpoint->is_probed &&
            endpoint->slot_head == endpoint->slot_tail)
            endpoint->is_probed = verbs_send_empty(endpoint, VERBS_SLOT_PROBE);
        endpoint->is_quiet = true;
    }
    verbs->keepalive_due_us = now_us + verbs->keepalive_us;
}

static void look_at_clock(struct verbs *verbs, uint64_t now_us)
{
    if (now_us >= verbs->due_us) {
        verbs->due_us = UINT64_MAX;
        look_at_patience(verbs, now_us);
    }
    if (now_us >= verbs->keepalive_due_us)
        probe(verbs, now_us);
    if (now_us >= verbs->linger_due_us)
        verbs_id_destroy_late(verbs, now_us);
    if (now_us >= verbs->return_us)
        verbs_loss_look(verbs, now_us);
}

static uint64_t verbs_due_us(const struct fabric *fabric)
{
    const struct verbs *verbs = container_of(fabric, const struct verbs, fabric);

    return min_u64(min_u64(verbs->due_us, verbs->keepalive_due_us),
                   min_u64(verbs->linger_due_us, verbs->return_us));
}

/* ---- polled ---- */

static uint32_t verbs_poll(struct fabric *fabric, struct fabric_completion *completions,
                           uint32_t count, uint64_t now_us)
{
    struct verbs *verbs = verbs_of(fabric);

    if (!list_empty(&verbs->accepting))
        verbs_accept_all(verbs);
    look(verbs);
    (void)verbs_complete_reap(verbs);
    if (unlikely(verbs->is_held))
        verbs_loss_let_go(verbs);
    work(verbs);
    if (!list_empty(&verbs->failing))
        verbs_endpoint_finish_all(verbs);
    if (unlikely(now_us >= verbs_due_us(fabric)))
        look_at_clock(verbs, now_us);
    return verbs_complete_take(verbs, completions, count);
}

static bool notify(struct verbs *verbs)
{
    bool fine = true;

    for (uint32_t i = 0; i < verbs->cq_count; i++)
        fine = ibv_req_notify_cq(verbs->cqs[i].cq, 0) == 0 && fine;
    return fine;
}

/* V3: armed first, looked at then: what comes in between is seen either way. */
static bool verbs_arm(struct fabric *fabric)
{
    struct verbs *verbs = verbs_of(fabric);

    verbs->until_ask = 0;
    if (verbs_due_us(fabric) == 0 || !list_empty(&verbs->completing) ||
        !list_empty(&verbs->eventful) || !list_empty(&verbs->working) ||
        !list_empty(&verbs->accepting))
        return false;
    if (ask(verbs) || !notify(verbs) || verbs_complete_reap(verbs))
        return false;
    return list_empty(&verbs->eventful) && list_empty(&verbs->completing);
}

/* ---- events ---- */

static bool verbs_next_event(struct fabric *fabric, struct fabric_event *event)
{
    struct verbs *verbs = verbs_of(fabric);
    struct fabric_endpoint *endpoint;

    if (list_empty(&verbs->eventful))
        return false;
    endpoint = container_of(list_pop_front(&verbs->eventful), struct fabric_endpoint, eventful);
    *event = (struct fabric_event){
        .kind = endpoint->event, .endpoint = endpoint, .context = endpoint->context};
    if (endpoint->event == FABRIC_DISCONNECTED)
        event->status = endpoint->status;
    if (endpoint->event == FABRIC_REQUEST)
        endpoint->is_known = true;
    if (endpoint->event == FABRIC_REQUEST ||
        (endpoint->event == FABRIC_ESTABLISHED && endpoint->is_dialled)) {
        event->private_bytes = endpoint->private_bytes;
        memcpy(event->private_data, endpoint->private_data, endpoint->private_bytes);
    }
    if (endpoint->event == FABRIC_ESTABLISHED) {
        verbs_endpoint_set_state(endpoint, VERBS_OPEN);
        verbs_complete_mark(endpoint);
    }
    return true;
}

static int verbs_fd(const struct fabric *fabric)
{
    return container_of(fabric, const struct verbs, fabric)->epoll_fd;
}

static void verbs_local_address(const struct fabric *fabric, char address[FABRIC_ADDRESS_BYTES])
{
    memcpy(address, container_of(fabric, const struct verbs, fabric)->address,
           FABRIC_ADDRESS_BYTES);
}

/* ---- ended ---- */

/* Undoes what was done, as far as it was. */
static void release(struct verbs *verbs)
{
    const struct verbs_library *library = verbs->library;

    verbs_device_close(verbs);
    if (verbs->cm_channel != NULL)
        library->destroy_event_channel(verbs->cm_channel);
    fd_close(&verbs->epoll_fd);
    free(verbs->table);
    free(verbs);
}

static void verbs_destroy(struct fabric *fabric)
{
    struct verbs *verbs = verbs_of(fabric);

    while (!list_empty(&verbs->every))
        verbs_endpoint_destroy(
            container_of(list_first(&verbs->every), struct fabric_endpoint, every));
    while (!list_empty(&verbs->stocks))
        verbs_stock_destroy(container_of(list_first(&verbs->stocks), struct fabric_stock, node));
    while (!list_empty(&verbs->lingering))
        verbs_id_destroy(verbs,
                         container_of(list_first(&verbs->lingering), struct verbs_id, lingering));
    if (verbs->listener != NULL)
        (void)verbs->library->destroy_id(verbs->listener);
    while (!list_empty(&verbs->memories))
        verbs_memory_deregister(
            fabric, container_of(list_first(&verbs->memories), struct fabric_memory, node));
    release(verbs);
}

/* ---- made ---- */

static const struct fabric_provider provider = {
    .destroy = verbs_destroy,
    .listen = verbs_listen,
    .address = verbs_local_address,
    .memory_register = verbs_memory_register,
    .memory_remote = verbs_memory_remote,
    .memory_deregister = verbs_memory_deregister,
    .connect = verbs_connect,
    .accept = verbs_accept,
    .reject = verbs_reject,
    .loop = verbs_loop,
    .post = verbs_post,
    .post_receive = verbs_post_receive,
    .stock_create = verbs_stock_create,
    .stock_destroy = verbs_stock_destroy,
    .stock_post = verbs_stock_post,
    .disconnect = verbs_endpoint_disconnect,
    .endpoint_destroy = verbs_endpoint_destroy,
    .poll = verbs_poll,
    .next_event = verbs_next_event,
    .fd = verbs_fd,
    .arm = verbs_arm,
    .due_us = verbs_due_us,
};

static void init(struct verbs *verbs, const struct verbs_options *options)
{
    verbs->fabric.provider = &provider;
    verbs->epoll_fd = -1;
    verbs->piece_bytes = options->piece_bytes;
    verbs->vector = options->vector;
    if (options->device != NULL)
        (void)snprintf(verbs->wanted, sizeof(verbs->wanted), "%s", options->device);
    verbs->keepalive_us =
        US_A_MS * (options->keepalive_ms == 0 ? KEEPALIVE_MS
                                              : min_u32(options->keepalive_ms, KEEPALIVE_MS_MAX));
    verbs->tos = (uint8_t)options->tos;
    verbs->ack_timeout = (uint8_t)options->ack_timeout;
    verbs->retries = (uint8_t)(options->retries == 0 ? LIMIT_FABRIC_RETRIES : options->retries);
    verbs->due_us = verbs->keepalive_due_us = verbs->linger_due_us = verbs->return_us = UINT64_MAX;
    verbs->free = UINT32_MAX;
    list_init(&verbs->every);
    list_init(&verbs->working);
    list_init(&verbs->completing);
    list_init(&verbs->eventful);
    list_init(&verbs->timed);
    list_init(&verbs->accepting);
    list_init(&verbs->failing);
    list_init(&verbs->lingering);
    list_init(&verbs->memories);
    list_init(&verbs->stocks);
}

bool verbs_watch(struct verbs *verbs, int fd, enum verbs_source source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = source};

    return fd_set_nonblock(fd) == NIGH_OK &&
           epoll_ctl(verbs->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* "a,b,c" */
static bool take_hosts(struct verbs *verbs, const char *text, char why[VERBS_WHY_BYTES])
{
    while (text != NULL) {
        size_t length = strcspn(text, ",");

        if (verbs->host_count == VERBS_ADDRESSES || length >= FABRIC_ADDRESS_BYTES) {
            (void)snprintf(why, VERBS_WHY_BYTES,
                           "there may be %u addresses of devices, of %u bytes", VERBS_ADDRESSES,
                           FABRIC_ADDRESS_BYTES - 1);
            return false;
        }
        memcpy(verbs->hosts[verbs->host_count++], text, length);
        text = text[length] == ',' ? text + length + 1 : NULL;
    }
    return true;
}

static nigh_status open_all(struct verbs *verbs, char why[VERBS_WHY_BYTES])
{
    nigh_status status;

    verbs->cm_channel = verbs->library->create_event_channel();
    if (verbs->cm_channel == NULL) {
        (void)snprintf(why, VERBS_WHY_BYTES, "rdma_cm does not answer (rdma_ucm loaded?)");
        return NIGH_UNSUPPORTED;
    }
    do {
        status = verbs_device_open(verbs, verbs->hosts[verbs->host], why);
    } while (status != NIGH_OK && ++verbs->host < verbs->host_count);
    if (status != NIGH_OK)
        return status;
    (void)snprintf(why, VERBS_WHY_BYTES, "%s gives no descriptors", verbs->device.name);
    verbs->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    verbs->table = calloc(LIMIT_FABRIC_ENDPOINTS, sizeof(*verbs->table));
    if (verbs->epoll_fd < 0 || verbs->table == NULL ||
        !verbs_watch(verbs, verbs->cm_channel->fd, VERBS_SOURCE_CM) ||
        verbs_device_use(verbs) != NIGH_OK)
        return NIGH_NO_RESOURCES;
    why[0] = '\0';
    return NIGH_OK;
}

static bool is_in(const char *name, uint32_t value, uint32_t least, uint32_t most,
                  char why[VERBS_WHY_BYTES])
{
    if (value == 0 || (value >= least && value <= most))
        return true;
    (void)snprintf(why, VERBS_WHY_BYTES, "%s %u is not within %u to %u", name, value, least, most);
    return false;
}

static bool are_within_bounds(const struct verbs_options *options, char why[VERBS_WHY_BYTES])
{
    return is_in("tos", options->tos, 1, LIMIT_FABRIC_TOS, why) &&
           is_in("ack_timeout", options->ack_timeout, LIMIT_FABRIC_ACK_MIN, LIMIT_FABRIC_ACK_MAX,
                 why) &&
           is_in("retries", options->retries, 1, LIMIT_FABRIC_RETRIES, why);
}

nigh_status verbs_create(const struct verbs_options *options, char why[VERBS_WHY_BYTES],
                         struct fabric **fabric)
{
    static const struct verbs_options none;
    const char *missing;
    struct verbs *verbs;
    nigh_status status;

    options = options != NULL ? options : &none;
    if (!are_within_bounds(options, why))
        return NIGH_INVALID;
    verbs = calloc(1, sizeof(*verbs));
    if (verbs == NULL)
        return NIGH_NO_RESOURCES;
    init(verbs, options);
    if (!take_hosts(verbs, options->address, why)) {
        free(verbs);
        return NIGH_INVALID;
    }
    verbs->library = options->library != NULL ? options->library : verbs_library_open(&missing);
    if (verbs->library == NULL) {
        (void)snprintf(why, VERBS_WHY_BYTES, "there is no %s", missing);
        free(verbs);
        return NIGH_UNSUPPORTED;
    }
    status = open_all(verbs, why);
    if (status != NIGH_OK) {
        release(verbs);
        return status;
    }
    *fabric = &verbs->fabric;
    return NIGH_OK;
}
