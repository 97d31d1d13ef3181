/* SPDX-License-Identifier: Apache-2.0 */
/* See fake_verbs.h: rdma_cm. Identifiers, who listens where, and events in queues. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "fabric/fake_internal.h"

#define REQUEST_BYTES  56u /* what travels with a request, however much was given */
#define ANSWER_BYTES   196u
#define NOBODY_LISTENS 8
#define REJECTED       28
#define IWARP_REJECTED (-ECONNREFUSED) /* for either */
#define MILLION_PORTS  60000u

enum fake_state {
    IDLE = 0,
    LISTENING,
    RESOLVED,
    CONNECTING, /* both sides, from connect to establish */
    CONNECTED,
    PARTED, /* one side or both have said so */
};

struct fake_cm_channel {
    struct rdma_event_channel base;
    struct list events;
};

struct fake_id {
    struct rdma_cm_id base;
    struct list_node node;
    enum fake_state state;
    struct fake_id *peer; /* NULL: gone */
    uint32_t device;      /* the peer's, of who dials */
    uint16_t port;        /* ours when it listens, the peer's when it dials; network order */
    uint32_t qp_number, peer_qp;
    uint8_t depth, serves, tos, ack_timeout;
    uint8_t retries;           /* the dialler's, on both sides */
    bool is_dialler, is_asked; /* asked: it came with a request */
    uint32_t unacknowledged;
    bool has_parted;
    bool is_held; /* ESTABLISHED waits for a message */
};

struct fake_event {
    struct rdma_cm_event base;
    struct list_node node;
    struct fake_id *of;
    uint8_t data[ANSWER_BYTES];
};

static struct fake_id *id_of(struct rdma_cm_id *base)
{
    return container_of(base, struct fake_id, base);
}

/* ---- events ---- */

static struct fake_event *event_make(struct fake_id *of, enum rdma_cm_event_type type, int status,
                                     const void *data, uint32_t given, uint32_t bytes)
{
    struct fake_event *event = calloc(1, sizeof(*event));

    event->base.id = &of->base;
    event->base.event = type;
    event->base.status = status;
    event->of = of;
    if (given > 0)
        memcpy(event->data, data, given);
    event->base.param.conn.private_data = bytes > 0 ? event->data : NULL;
    event->base.param.conn.private_data_len = (uint8_t)bytes;
    return event;
}

static void event_push(struct fake_event *event)
{
    struct fake_cm_channel *channel =
        container_of(event->of->base.channel, struct fake_cm_channel, base);

    if (fake.faults.lost[event->base.event]) {
        if (event->base.event == RDMA_CM_EVENT_CONNECT_REQUEST) { /* nobody will ever own it */
            event->of->peer->peer = NULL;
            list_remove(&event->of->node);
            free(event->of);
        }
        free(event);
        return;
    }
    list_push_back(&channel->events, &event->node);
    (void)eventfd_write(channel->base.fd, 1);
}

static void tell(struct fake_id *of, enum rdma_cm_event_type type, int status)
{
    event_push(event_make(of, type, status, NULL, 0, 0));
}

/* The peer hears of something, if there is one and anything gets through. */
static void tell_peer(struct fake_id *id, enum rdma_cm_event_type type, int status)
{
    if (id->peer != NULL && !fake.faults.is_cut)
        tell(id->peer, type, status);
}

static bool is_iwarp(const struct fake_id *id)
{
    return id->base.verbs != NULL && fake_is_iwarp(id->base.verbs);
}

/* InfiniBand's messages are of one length, iWARP's are as long as what was given. */
static uint32_t length_of(const struct fake_id *id, uint32_t given, uint32_t bytes)
{
    return is_iwarp(id) ? given : bytes;
}

static int rejection(const struct fake_id *id, int reason)
{
    return is_iwarp(id) ? IWARP_REJECTED : reason;
}

static int fail(int error)
{
    errno = error;
    fake_unlock();
    return -1;
}

static int done(void)
{
    fake_unlock();
    return 0;
}

static struct rdma_event_channel *create_event_channel(void)
{
    struct fake_cm_channel *channel = calloc(1, sizeof(*channel));

    channel->base.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    list_init(&channel->events);
    fake_lock();
    fake.cm_channels++;
    fake_unlock();
    return &channel->base;
}

static void destroy_event_channel(struct rdma_event_channel *base)
{
    struct fake_cm_channel *channel = container_of(base, struct fake_cm_channel, base);

    fake_lock();
    NIGH_ASSERT(list_empty(&channel->events)); /* its identifiers are gone */
    fake.cm_channels--;
    fake_unlock();
    (void)close(base->fd);
    free(channel);
}

static int get_cm_event(struct rdma_event_channel *base, struct rdma_cm_event **out)
{
    struct fake_cm_channel *channel = container_of(base, struct fake_cm_channel, base);
    struct fake_event *event;
    eventfd_t value;

    fake_lock();
    if (list_empty(&channel->events)) {
        (void)eventfd_read(base->fd, &value);
        return fail(EAGAIN);
    }
    event = container_of(list_pop_front(&channel->events), struct fake_event, node);
    event->of->unacknowledged++;
    fake.cm_events++;
    *out = &event->base;
    return done();
}

static int ack_cm_event(struct rdma_cm_event *base)
{
    struct fake_event *event = container_of(base, struct fake_event, base);

    fake_lock();
    event->of->unacknowledged--;
    fake.cm_events--;
    memset(event->data, 0xdb, sizeof(event->data)); /* it is no longer the reader's */
    free(event);
    return done();
}

/* ---- identifiers ---- */

static struct fake_id *id_make(struct rdma_event_channel *channel, void *context)
{
    struct fake_id *id = calloc(1, sizeof(*id));

    id->base.channel = channel;
    id->base.context = context;
    id->base.ps = RDMA_PS_TCP;
    id->base.qp_type = IBV_QPT_RC;
    list_push_back(&fake.ids, &id->node);
    return id;
}

static int create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
                     enum rdma_port_space space)
{
    (void)space;
    if (fake_refusal(FAKE_VERBS_CREATE_ID) != 0)
        return -1;
    fake_lock();
    *out = &id_make(channel, context)->base;
    return done();
}

static void drop_events(struct fake_id *id)
{
    struct fake_cm_channel *channel = container_of(id->base.channel, struct fake_cm_channel, base);

    LIST_FOREACH_SAFE(node, &channel->events)
    {
        struct fake_event *event = container_of(node, struct fake_event, node);

        if (event->of == id) {
            list_remove(node);
            free(event);
        }
    }
}

/* A request that nobody has read yet goes with the one who listens, or with who dialled. */
static int destroy_id(struct rdma_cm_id *base)
{
    struct fake_id *id = id_of(base);

    fake_lock();
    NIGH_ASSERT(id->unacknowledged == 0); /* the real one would wait for ever */
    if (id->state == CONNECTING)
        tell_peer(id, RDMA_CM_EVENT_REJECTED, rejection(id, REJECTED));
    else if (id->state == CONNECTED && !id->has_parted)
        tell_peer(id, RDMA_CM_EVENT_DISCONNECTED, 0);
    if (id->peer != NULL)
        id->peer->peer = NULL;
    drop_events(id);
    list_remove(&id->node);
    free(id);
    return done();
}

static int set_option(struct rdma_cm_id *base, int level, int option, void *value, size_t bytes)
{
    struct fake_id *id = id_of(base);

    fake_lock();
    fake.counts.options_refused += fake.faults.no_options;
    if (fake.faults.no_options)
        return fail(ENOSYS);
    if (level != RDMA_OPTION_ID || bytes != sizeof(uint8_t))
        return fail(EINVAL);
    switch (option) {
    case RDMA_OPTION_ID_TOS: id->tos = *(const uint8_t *)value; break;
    case RDMA_OPTION_ID_ACK_TIMEOUT: id->ack_timeout = *(const uint8_t *)value; break;
    default: return fail(ENOSYS);
    }
    return done();
}

/* ---- addresses ---- */

/* Both families have their port at the same place. */
static uint16_t *port_of(struct sockaddr *address)
{
    return &((struct sockaddr_in *)address)->sin_port;
}

static struct fake_id *listener_at(uint32_t device, uint16_t port)
{
    LIST_FOREACH(node, &fake.ids)
    {
        struct fake_id *id = container_of(node, struct fake_id, node);

        if (id->state == LISTENING && id->port == port &&
            (id->base.verbs == NULL || id->base.verbs == &fake.cm_contexts[device]))
            return id;
    }
    return NULL;
}

/* Who listens there is of no device; what comes in is of the one that it came through. */
static bool is_any_address(const struct sockaddr *address)
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;

    return address->sa_family == AF_INET6
               ? memcmp(&six->sin6_addr, &in6addr_any, sizeof(in6addr_any)) == 0
               : ((const struct sockaddr_in *)address)->sin_addr.s_addr == htonl(INADDR_ANY);
}

static int bind_addr(struct rdma_cm_id *base, struct sockaddr *address)
{
    struct fake_id *id = id_of(base);
    bool is_any = is_any_address(address);
    uint32_t device;

    fake_lock();
    device = is_any ? 0 : fake_device_of(address);
    if (device == FAKE_DEVICES)
        return fail(ENODEV);
    if (*port_of(address) != 0 && listener_at(device, *port_of(address)) != NULL)
        return fail(EADDRINUSE);
    if (fake.next_port > MILLION_PORTS)
        fake.next_port = 20000;
    id->port = *port_of(address) != 0 ? *port_of(address) : htons(fake.next_port++);
    base->verbs = is_any ? NULL : &fake.cm_contexts[device];
    base->port_num = is_any ? 0 : 1;
    return done();
}

static int start_listening(struct rdma_cm_id *base, int backlog)
{
    (void)backlog;
    fake_lock();
    id_of(base)->state = LISTENING;
    fake.given.listen_tos = id_of(base)->tos;
    return done();
}

static uint16_t get_src_port(struct rdma_cm_id *base)
{
    return id_of(base)->port;
}

static int resolve_addr(struct rdma_cm_id *base, struct sockaddr *source, struct sockaddr *address,
                        int timeout_ms)
{
    struct fake_id *id = id_of(base);
    uint32_t device;

    (void)timeout_ms;
    if (fake_refusal(FAKE_VERBS_RESOLVE_ADDR) != 0)
        return -1;
    fake_lock();
    device = source != NULL ? fake_device_of(source) : 0;
    if (device == FAKE_DEVICES)
        return fail(ENODEV);
    id->port = *port_of(address);
    id->device = fake_device_of(address);
    if (fake.faults.lead != 0)
        device = fake.faults.lead - 1;
    base->verbs = &fake.cm_contexts[device];
    base->port_num = 1;
    tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    return done();
}

static int resolve_route(struct rdma_cm_id *base, int timeout_ms)
{
    (void)timeout_ms;
    if (fake_refusal(FAKE_VERBS_RESOLVE_ROUTE) != 0)
        return -1;
    fake_lock();
    id_of(base)->state = RESOLVED;
    fake.given.route_tos = id_of(base)->tos;
    fake.given.route_ack_timeout = id_of(base)->ack_timeout;
    tell(id_of(base), RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    return done();
}

/* What a queue pair needs beyond its first state the kernel knows, and it does it, too. */
static void init_iwarp_attr(struct ibv_qp_attr *attr, int *mask)
{
    *mask = IBV_QP_PORT;
    if (attr->qp_state == IBV_QPS_RTS)
        return;
    *mask |= IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
    attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
}

static int init_qp_attr(struct rdma_cm_id *base, struct ibv_qp_attr *attr, int *mask)
{
    const struct fake_id *id = id_of(base);

    if (fake_refusal(FAKE_VERBS_INIT_QP_ATTR) != 0)
        return -1;
    if (is_iwarp(id)) {
        init_iwarp_attr(attr, mask);
        return 0;
    }
    switch (attr->qp_state) {
    case IBV_QPS_INIT:
        *mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        break;
    case IBV_QPS_RTR:
        *mask = IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC;
        attr->dest_qp_num = id->peer_qp;
        attr->max_dest_rd_atomic = id->serves;
        break;
    default:
        *mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                IBV_QP_MAX_QP_RD_ATOMIC;
        attr->rnr_retry = 7;
        attr->retry_cnt = id->retries;
        attr->timeout = id->ack_timeout != 0 ? id->ack_timeout : 19;
        attr->max_rd_atomic = id->depth;
        break;
    }
    return 0;
}

/* ---- connections ---- */

static int start_connecting(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
    struct fake_id *id = id_of(base), *listener, *child;
    struct fake_event *event;

    if (fake_refusal(FAKE_VERBS_CONNECT) != 0)
        return -1;
    fake_lock();
    if (param->private_data_len > REQUEST_BYTES || id->state != RESOLVED)
        return fail(EINVAL);
    if (fake.faults.is_cut)
        return done();
    listener = id->device < FAKE_DEVICES ? listener_at(id->device, id->port) : NULL;
    if (listener == NULL) {
        tell(id, RDMA_CM_EVENT_REJECTED, rejection(id, NOBODY_LISTENS));
        return done();
    }
    child = id_make(listener->base.channel, listener->base.context);
    child->base.verbs = &fake.cm_contexts[id->device];
    child->base.port_num = 1;
    child->is_asked = true;
    child->state = id->state = CONNECTING;
    child->peer = id;
    id->peer = child;
    child->peer_qp = param->qp_num;
    id->qp_number = param->qp_num;
    id->depth = child->serves = param->initiator_depth;
    id->serves = child->depth = param->responder_resources;
    id->is_dialler = true;
    id->retries = child->retries = param->retry_count;
    fake.given.connect_retries = param->retry_count;
    event =
        event_make(child, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param->private_data,
                   param->private_data_len, length_of(id, param->private_data_len, REQUEST_BYTES));
    event->base.listen_id = &listener->base;
    event->base.param.conn.responder_resources = param->initiator_depth;
    event->base.param.conn.initiator_depth = param->responder_resources;
    event_push(event);
    return done();
}

/* Both kernels bring up their queue pairs, and say so. */
static void join_iwarp(struct fake_id *id, const struct rdma_conn_param *param)
{
    struct fake_event *event =
        event_make(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0, param->private_data,
                   param->private_data_len, param->private_data_len);

    event->base.param.conn.responder_resources = param->initiator_depth;
    event->base.param.conn.initiator_depth = id->peer->depth;
    id->state = id->peer->state = CONNECTED;
    fake_queue_join(id->qp_number, id->peer_qp);
    fake_queue_join(id->peer->qp_number, id->qp_number);
    event_push(event);
    if (fake.faults.late_established)
        id->is_held = true;
    else
        tell(id, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static int answer(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
    struct fake_id *id = id_of(base);

    if (fake_refusal(FAKE_VERBS_ACCEPT) != 0)
        return -1;
    fake_lock();
    if (id->peer == NULL || id->state != CONNECTING)
        return fail(EINVAL);
    id->qp_number = param->qp_num;
    id->peer->peer_qp = param->qp_num;
    id->depth = id->peer->serves = param->initiator_depth; /* as it says: that it is less, too, */
    id->serves = id->peer->depth = param->responder_resources; /* is for who accepts to see to */
    fake.given.answer_serves = param->responder_resources;
    fake.given.answer_asks = param->initiator_depth;
    if (!fake.faults.is_cut && is_iwarp(id))
        join_iwarp(id, param);
    else if (!fake.faults.is_cut)
        event_push(event_make(id->peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, param->private_data,
                              param->private_data_len, ANSWER_BYTES));
    return done();
}

static int establish(struct rdma_cm_id *base)
{
    struct fake_id *id = id_of(base);

    if (fake_refusal(FAKE_VERBS_ESTABLISH) != 0)
        return -1;
    fake_lock();
    if (id->peer == NULL || id->state != CONNECTING || is_iwarp(id))
        return fail(EINVAL);
    id->state = id->peer->state = CONNECTED;
    if (fake.faults.late_established)
        id->peer->is_held = true;
    else
        tell_peer(id, RDMA_CM_EVENT_ESTABLISHED, 0);
    return done();
}

bool fake_cm_dialled(uint32_t qp_number)
{
    LIST_FOREACH(node, &fake.ids)
    {
        const struct fake_id *id = container_of(node, struct fake_id, node);

        if (id->is_dialler && id->qp_number == qp_number)
            return true;
    }
    return false;
}

void fake_cm_heard(uint32_t qp_number)
{
    LIST_FOREACH(node, &fake.ids)
    {
        struct fake_id *id = container_of(node, struct fake_id, node);

        if (id->is_held && id->qp_number == qp_number) {
            id->is_held = false;
            tell(id, RDMA_CM_EVENT_ESTABLISHED, 0);
        }
    }
}

static int reject(struct rdma_cm_id *base, const void *data, uint8_t bytes)
{
    struct fake_id *id = id_of(base);

    fake_lock();
    if (id->state != CONNECTING)
        return fail(EINVAL);
    if (id->peer != NULL && !fake.faults.is_cut)
        event_push(event_make(id->peer, RDMA_CM_EVENT_REJECTED, rejection(id, REJECTED), data,
                              bytes, length_of(id, bytes, ANSWER_BYTES)));
    if (id->peer != NULL)
        id->peer->peer = NULL;
    id->peer = NULL;
    id->state = IDLE;
    return done();
}

/* The second to say so lets the first know. */
static int disconnect(struct rdma_cm_id *base)
{
    struct fake_id *id = id_of(base);

    fake_lock();
    if ((id->state != CONNECTED && id->state != CONNECTING) || id->has_parted)
        return fail(EINVAL);
    id->has_parted = true;
    tell_peer(id, RDMA_CM_EVENT_DISCONNECTED, 0);
    return done();
}

static bool is_on(const struct fake_id *id, uint32_t device)
{
    return id->base.verbs == &fake.cm_contexts[device];
}

uint32_t fake_cm_held(uint32_t device)
{
    uint32_t count = 0;

    LIST_FOREACH(node, &fake.ids)
    {
        count += is_on(container_of(node, struct fake_id, node), device);
    }
    return count;
}

void fake_verbs_say(enum fake_verbs_side side, enum rdma_cm_event_type type, int status)
{
    fake_lock();
    LIST_FOREACH(node, &fake.ids)
    {
        struct fake_id *id = container_of(node, struct fake_id, node);

        if (id->state != LISTENING && id->is_asked == (side == FAKE_VERBS_ACCEPTOR))
            tell(id, type, status);
    }
    fake_unlock();
}

void fake_verbs_remove(uint32_t device)
{
    fake_lock();
    fake.is_absent[device] = true;
    LIST_FOREACH(node, &fake.ids)
    {
        struct fake_id *id = container_of(node, struct fake_id, node);

        if (is_on(id, device))
            tell(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
    }
    fake_unlock();
}

const struct verbs_library fake_cm_calls = {
    .create_event_channel = create_event_channel,
    .destroy_event_channel = destroy_event_channel,
    .create_id = create_id,
    .destroy_id = destroy_id,
    .set_option = set_option,
    .bind_addr = bind_addr,
    .listen = start_listening,
    .get_src_port = get_src_port,
    .resolve_addr = resolve_addr,
    .resolve_route = resolve_route,
    .init_qp_attr = init_qp_attr,
    .connect = start_connecting,
    .establish = establish,
    .accept = answer,
    .reject = reject,
    .disconnect = disconnect,
    .get_cm_event = get_cm_event,
    .ack_cm_event = ack_cm_event,
};
