/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rdma_cm and the device say. An event is copied and acknowledged before anything is done
 * about it (V2): an identifier that has unacknowledged events cannot be destroyed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/verbs/verbs_internal.h"

#define LOG_MODULE "fabric"
#include "base/log.h"

struct cm_event {
    enum rdma_cm_event_type type;
    int status;
    struct rdma_cm_id *id;
    uint8_t reads, depth; /* the most that we are to serve, and may have */
    uint32_t bytes;
    uint8_t data[VERBS_CM_DATA];
};

/* ---- the dialler's side ---- */

/* The route may lead through another device than ours. */
static bool is_ours(const struct verbs *verbs, const struct rdma_cm_id *id)
{
    return id->verbs != NULL &&
           strcmp(verbs->library->get_device_name(id->verbs->device), verbs->device.name) == 0;
}

static void on_address(struct fabric_endpoint *endpoint)
{
    struct verbs *verbs = endpoint->verbs;
    struct rdma_cm_id *id = endpoint->id->id;

    if (!is_ours(verbs, id)) {
        LOG_WARN("the peer is not reached through this device",
                 "device=%s do=\"have the route to the peer lead through this device, or name with "
                 "--fabric-addresses the one that it leads through\"",
                 verbs->device.name);
        verbs_endpoint_fail(endpoint, NIGH_UNREACHABLE);
    } else if (verbs->library->resolve_route(id, VERBS_RESOLVE_MS) != 0) {
        verbs_endpoint_fail(endpoint, NIGH_UNREACHABLE);
    }
}

static void on_route(struct fabric_endpoint *endpoint)
{
    struct verbs *verbs = endpoint->verbs;
    uint8_t data[VERBS_CM_DATA] = {(uint8_t)endpoint->private_bytes};
    struct rdma_conn_param param = {.private_data = data,
                                    .private_data_len = sizeof(data),
                                    .responder_resources = (uint8_t)verbs->fabric.caps.reads,
                                    .initiator_depth = (uint8_t)verbs->fabric.caps.reads,
                                    .retry_count = verbs->retries,
                                    .rnr_retry_count = 0,
                                    .srq = endpoint->stock != NULL,
                                    .qp_num = endpoint->qp->qp_num};

    memcpy(data + 1, endpoint->private_data, endpoint->private_bytes);
    if (!verbs_queue_init(endpoint)) {
        verbs_endpoint_fail(endpoint, NIGH_UNREACHABLE);
        return;
    }
    verbs_send_receives(endpoint);
    if (endpoint->state != VERBS_RESOLVING)
        return;
    if (verbs->library->connect(endpoint->id->id, &param) != 0) {
        verbs_endpoint_fail(endpoint, NIGH_UNREACHABLE);
        return;
    }
    verbs_endpoint_set_state(endpoint, VERBS_CONNECTING);
}

/* The private data of an event: a byte that says how many, and they. */
static bool take_private(struct fabric_endpoint *endpoint, const struct cm_event *event)
{
    if (event->bytes == 0 || event->data[0] > FABRIC_PRIVATE_BYTES ||
        event->data[0] >= event->bytes)
        return false;
    endpoint->private_bytes = event->data[0];
    memcpy(endpoint->private_data, event->data + 1, event->data[0]);
    return true;
}

/* iWARP's kernel has brought the queue pair up by itself, and says ESTABLISHED at once: to lead it
 * through its states once more some devices refuse. Which figure is whose its drivers do not agree
 * on; the smaller one serves both. */
static bool start(struct fabric_endpoint *endpoint, const struct cm_event *event)
{
    if (event->type == RDMA_CM_EVENT_CONNECT_RESPONSE)
        return verbs_queue_start(endpoint) &&
               endpoint->verbs->library->establish(endpoint->id->id) == 0;
    endpoint->asked_depth = (uint8_t)min_u32(event->reads, event->depth);
    verbs_queue_started(endpoint);
    return true;
}

static void on_answer(struct fabric_endpoint *endpoint, const struct cm_event *event)
{
    if (!take_private(endpoint, event))
        verbs_endpoint_fail(endpoint, NIGH_PROTOCOL);
    else if (!start(endpoint, event))
        verbs_endpoint_fail(endpoint, NIGH_PEER_LOST);
    else
        verbs_endpoint_join(endpoint);
}

/* The status does not say whether a caller refused, or a provider that had no room or whose device
 * failed: both are the consumer to rdma_cm. */
static void on_refused(struct fabric_endpoint *endpoint, const struct cm_event *event)
{
    bool by_caller = event->bytes > 0 && event->data[0] == VERBS_REJECTED_DATA;
    nigh_status status = NIGH_PEER_LOST;

    if (endpoint->state == VERBS_RESOLVING || endpoint->state == VERBS_CONNECTING)
        status = by_caller ? NIGH_DENIED : NIGH_UNREACHABLE;
    verbs_endpoint_fail(endpoint, status);
}

/* ---- the acceptor's side ---- */

static bool may_request(const struct verbs *verbs, const struct cm_event *event)
{
    if (!is_ours(verbs, event->id)) {
        LOG_WARN("a peer came in through another device",
                 "ours=%s do=\"have the peer's route lead to this device, or name with "
                 "--fabric-addresses the one that it leads to\"",
                 verbs->device.name);
        return false;
    }
    return verbs->endpoint_count < LIMIT_FABRIC_ENDPOINTS &&
           verbs->half_open < LIMIT_FABRIC_HALF_OPEN && !verbs->is_gone;
}

static void on_request(struct verbs *verbs, const struct cm_event *event)
{
    struct fabric_endpoint *made =
        may_request(verbs, event) ? verbs_endpoint_make(verbs, VERBS_REQUESTED) : NULL;

    if (made == NULL) {
        (void)verbs->library->reject(event->id, NULL, 0);
        (void)verbs->library->destroy_id(event->id);
        return;
    }
    made->id->id = event->id;
    event->id->context = made->id;
    made->asked_reads = event->reads;
    made->asked_depth = event->depth;
    if (!take_private(made, event)) {
        verbs_endpoint_fail(made, NIGH_PROTOCOL); /* nobody has seen it: it is gone */
        return;
    }
    verbs_endpoint_set_patience(made, LIMIT_FABRIC_HANDSHAKE_US);
    verbs_endpoint_tell(made, FABRIC_REQUEST);
}

/* ---- both ---- */

/* Of another device there may be what a route led to. */
static void on_removal(struct verbs *verbs, const struct rdma_cm_id *id)
{
    if (is_ours(verbs, id))
        verbs_loss_removed(verbs, id);
}

static void on_event(struct fabric_endpoint *endpoint, const struct cm_event *event)
{
    enum verbs_state state = endpoint->state;

    if (state >= VERBS_FAILING)
        return; /* it knows */
    switch (event->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED: on_address(endpoint); break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: on_route(endpoint); break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_ESTABLISHED:
        if (state == VERBS_CONNECTING)
            on_answer(endpoint, event);
        else if (state == VERBS_ACCEPTING)
            verbs_endpoint_join(endpoint);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_REJECTED: on_refused(endpoint, event); break;
    case RDMA_CM_EVENT_UNREACHABLE: /* also of one that was established */
        verbs_endpoint_fail(endpoint, state < VERBS_REQUESTED ? NIGH_UNREACHABLE : NIGH_TIMEOUT);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT: verbs_endpoint_fail(endpoint, NIGH_PEER_LOST); break;
    default: break; /* of multicast, and changes of addresses: nothing of ours */
    }
}

static void act(struct verbs *verbs, const struct cm_event *event)
{
    struct verbs_id *id = event->id->context;

    if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST)
        on_request(verbs, event);
    else if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
        on_removal(verbs, event->id);
    else if (id == NULL)
        LOG_WARN("an event of the listener",
                 "event=%d status=%d do=\"nothing: the node listens on; if no peer comes in any "
                 "more, start the node again\"",
                 event->type, event->status);
    else if (id->endpoint != NULL)
        on_event(id->endpoint, event);
    else if (event->type == RDMA_CM_EVENT_DISCONNECTED ||
             event->type == RDMA_CM_EVENT_TIMEWAIT_EXIT || event->type == RDMA_CM_EVENT_REJECTED)
        verbs_id_destroy(verbs, id); /* the peer knows */
}

bool verbs_event_cm(struct verbs *verbs)
{
    struct rdma_cm_event *event;
    uint32_t count = 0;

    for (; count < VERBS_CM_EVENTS && verbs->library->get_cm_event(verbs->cm_channel, &event) == 0;
         count++) {
        struct cm_event copy = {.type = event->event, .status = event->status, .id = event->id};
        bool has_data = event->event == RDMA_CM_EVENT_CONNECT_REQUEST ||
                        event->event == RDMA_CM_EVENT_CONNECT_RESPONSE ||
                        event->event == RDMA_CM_EVENT_ESTABLISHED ||
                        event->event == RDMA_CM_EVENT_REJECTED;

        if (has_data && event->param.conn.private_data != NULL) {
            copy.bytes = min_u32(event->param.conn.private_data_len, sizeof(copy.data));
            memcpy(copy.data, event->param.conn.private_data, copy.bytes);
            copy.reads = event->param.conn.responder_resources;
            copy.depth = event->param.conn.initiator_depth;
        }
        (void)verbs->library->ack_cm_event(event);
        act(verbs, &copy);
    }
    return count > 0;
}

/* ---- the device ---- */

/* A queue pair that is in its error state takes nothing more of its stock. */
static void on_last(struct verbs *verbs, uint32_t qp_number)
{
    struct fabric_endpoint *endpoint = verbs_stock_endpoint(verbs, qp_number);

    if (endpoint != NULL)
        endpoint->has_let_go = true;
}

/* Whose queue pair failed; NULL: nobody's. */
static struct fabric_endpoint *failed_of(const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR: return event->element.qp->qp_context;
    default: return NULL;
    }
}

/* Its completions say it, too, when there are any; one that has nothing posted says it only so. */
static void on_queue_failed(struct fabric_endpoint *endpoint, enum ibv_event_type type)
{
    if (endpoint->state >= VERBS_FAILING)
        return;
    LOG_WARN("a queue pair failed: its connection ends",
             "device=%s event=%d do=\"nothing: the connection is made anew; if it comes again, see "
             "the kernel's log (dmesg) and the card\"",
             endpoint->verbs->device.name, (int)type);
    verbs_endpoint_fail(endpoint, NIGH_PEER_LOST);
}

static void on_device(struct verbs *verbs, enum ibv_event_type type)
{
    switch (type) {
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_CQ_ERR: verbs_loss_begin(verbs, false); break; /* it ran over: never (V8) */
    case IBV_EVENT_PORT_ERR:
        LOG_WARN(
            "the port of the RDMA device went down",
            "device=%s port=%u do=\"see to the cable, the switch and the interface (ip link)\"",
            verbs->device.name, verbs->device.port_number);
        break;
    case IBV_EVENT_PORT_ACTIVE:
        LOG_INFO("the port of the RDMA device is active", "device=%s port=%u", verbs->device.name,
                 verbs->device.port_number);
        break;
    default: break;
    }
}

bool verbs_event_device(struct verbs *verbs)
{
    struct ibv_async_event event;
    uint32_t count = 0;

    for (; count < VERBS_CM_EVENTS &&
           verbs->library->get_async_event(verbs->device.context, &event) == 0;
         count++) {
        enum ibv_event_type type = event.event_type;

        struct fabric_endpoint *failed = failed_of(&event);

        if (type == IBV_EVENT_QP_LAST_WQE_REACHED)
            on_last(verbs, event.element.qp->qp_num);
        else if (type == IBV_EVENT_SRQ_LIMIT_REACHED)
            verbs_stock_is_low(verbs, event.element.srq);
        verbs->library->ack_async_event(
            &event); /* whose queue pair could not be destroyed before */
        if (failed != NULL)
            on_queue_failed(failed, type);
        on_device(verbs, type);
    }
    return count > 0;
}
