/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening, dialling, accepting and rejecting: our own steps of rdma_cm's set-up. What it answers
 * is in verbs_event.c.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/verbs/verbs_internal.h"

#define LOG_MODULE "fabric"
#include "base/log.h"

#define ANY "*"

/* ---- options of identifiers ---- */

static void set_option(struct verbs *verbs, struct rdma_cm_id *id, int option, uint8_t value,
                       const char *name, bool *has_told)
{
    if (value == 0 || verbs->library->set_option(id, RDMA_OPTION_ID, option, &value, 1) == 0 ||
        *has_told)
        return;
    *has_told = true;
    LOG_WARN("rdma_cm does not take an option: connections go without it",
             "option=%s value=%u errno=%d do=\"leave that option away, or run a kernel that knows "
             "it (the timeout: Linux 5.1)\"",
             name, value, errno);
}

/* V15 */
void verbs_connect_mark(struct verbs *verbs, struct rdma_cm_id *id)
{
    set_option(verbs, id, RDMA_OPTION_ID_TOS, verbs->tos, "tos", &verbs->has_told_tos);
    set_option(verbs, id, RDMA_OPTION_ID_ACK_TIMEOUT, verbs->ack_timeout, "ack_timeout",
               &verbs->has_told_ack);
}

/* ---- listening ---- */

static nigh_status status_of_bind(int error)
{
    switch (error) {
    case EADDRINUSE: return NIGH_BUSY;
    case EADDRNOTAVAIL:
    case ENODEV:
    case EINVAL: return NIGH_INVALID;
    default: return NIGH_NO_RESOURCES;
    }
}

static nigh_status listen_at(struct verbs *verbs, struct sockaddr *address)
{
    const struct verbs_library *library = verbs->library;
    struct rdma_cm_id *id;
    nigh_status status;

    if (library->create_id(verbs->cm_channel, &id, NULL, RDMA_PS_TCP) != 0)
        return NIGH_NO_RESOURCES;
    verbs_connect_mark(verbs, id);
    if (library->bind_addr(id, address) != 0 || library->listen(id, VERBS_BACKLOG) != 0) {
        status = status_of_bind(errno);
        (void)library->destroy_id(id);
        return status;
    }
    verbs->listener = id;
    return NIGH_OK;
}

/* Both families have their port at the same place. */
static in_port_t *port_of(struct address *address)
{
    return &((struct sockaddr_in *)&address->storage)->sin_port;
}

nigh_status verbs_listen_again(struct verbs *verbs)
{
    in_port_t port = *port_of(&verbs->listens);
    struct address address = verbs->host_count > 1 ? verbs->local : verbs->listens;
    nigh_status status;

    if (verbs->listens.bytes == 0)
        return NIGH_OK;
    *port_of(&address) = port;
    status = listen_at(verbs, (struct sockaddr *)&address.storage);
    if (status == NIGH_OK) {
        verbs->listens = address;
        address_format(&address, verbs->address);
    }
    return status;
}

static nigh_status listen_on_host(struct verbs *verbs, const char *host, const char *port,
                                  struct address *bound)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICSERV | AI_PASSIVE,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    nigh_status status = NIGH_INVALID;

    if (getaddrinfo(strcmp(host, ANY) == 0 ? NULL : host, port, &hints, &found) != 0)
        return NIGH_INVALID;
    for (const struct addrinfo *i = found; i != NULL && status != NIGH_OK; i = i->ai_next) {
        status = listen_at(verbs, i->ai_addr);
        memcpy(&bound->storage, i->ai_addr, i->ai_addrlen);
        bound->bytes = i->ai_addrlen;
    }
    freeaddrinfo(found);
    return status;
}

nigh_status verbs_listen(struct fabric *fabric, const char *address)
{
    struct verbs *verbs = verbs_of(fabric);
    char host[FABRIC_ADDRESS_BYTES], port[8], text[FABRIC_ADDRESS_BYTES];
    struct address bound = {.bytes = 0};
    nigh_status status;

    if (verbs->listener != NULL)
        return NIGH_BUSY;
    if (!address_split(address, host, port))
        return NIGH_INVALID;
    if (verbs->host_count > 1)
        memcpy(host, verbs->hosts[verbs->host], sizeof(host));
    status = listen_on_host(verbs, host, port, &bound);
    if (status != NIGH_OK)
        return status;
    *port_of(&bound) = verbs->library->get_src_port(verbs->listener);
    address_format(&bound, text);
    if (strcmp(host, ANY) == 0)
        (void)snprintf(verbs->address, sizeof(verbs->address), ANY "%s", strrchr(text, ':'));
    else
        memcpy(verbs->address, text, sizeof(text));
    if (verbs->listener->verbs != NULL) /* else it is of all devices, and outlives ours */
        verbs->listens = bound;
    return NIGH_OK;
}

/* ---- the dialler's side ---- */

static void keep_private(struct fabric_endpoint *endpoint, const void *data, uint32_t bytes)
{
    endpoint->private_bytes = bytes;
    if (bytes > 0)
        memcpy(endpoint->private_data, data, bytes);
}

static bool resolve(struct fabric_endpoint *endpoint, struct address *address)
{
    struct verbs *verbs = endpoint->verbs;
    struct address local = verbs->local;
    bool is_ours = local.bytes > 0 && local.storage.ss_family == address->storage.ss_family;

    return verbs->library->resolve_addr(
               endpoint->id->id, is_ours ? (struct sockaddr *)&local.storage : NULL,
               (struct sockaddr *)&address->storage, VERBS_RESOLVE_MS) == 0;
}

nigh_status verbs_connect(struct fabric *fabric, const char *address,
                          const struct fabric_endpoint_options *options, const void *private_data,
                          uint32_t private_bytes, struct fabric_endpoint **endpoint)
{
    struct verbs *verbs = verbs_of(fabric);
    struct fabric_endpoint *made;
    struct address parsed;
    nigh_status status;

    if (private_bytes > FABRIC_PRIVATE_BYTES || address_parse(address, &parsed) != NIGH_OK)
        return NIGH_INVALID;
    if (verbs->endpoint_count == LIMIT_FABRIC_ENDPOINTS)
        return NIGH_LIMIT;
    made = verbs_endpoint_make(verbs, VERBS_RESOLVING);
    if (made == NULL)
        return NIGH_NO_RESOURCES;
    made->is_dialled = made->is_known = true;
    status = verbs_endpoint_size(made, options);
    if (status == NIGH_OK && !verbs->is_gone)
        status = verbs_queue_make(made);
    if (status == NIGH_OK &&
        verbs->library->create_id(verbs->cm_channel, &made->id->id, made->id, RDMA_PS_TCP) != 0)
        status = NIGH_NO_RESOURCES;
    if (status != NIGH_OK) {
        made->id->id = NULL;
        verbs_endpoint_destroy(made);
        return status;
    }
    keep_private(made, private_data, private_bytes);
    verbs_connect_mark(verbs, made->id->id);
    if (!verbs->is_gone && resolve(made, &parsed))
        verbs_endpoint_set_patience(made, VERBS_DIAL_US);
    else
        verbs_endpoint_fail(made, NIGH_UNREACHABLE);
    *endpoint = made;
    return NIGH_OK;
}

/* ---- the acceptor's side ---- */

nigh_status verbs_accept(struct fabric_endpoint *endpoint,
                         const struct fabric_endpoint_options *options, const void *private_data,
                         uint32_t private_bytes)
{
    nigh_status status;

    if (private_bytes > FABRIC_PRIVATE_BYTES)
        return NIGH_INVALID;
    if (endpoint->state != VERBS_REQUESTED)
        return NIGH_CLOSED;
    status = verbs_endpoint_size(endpoint, options);
    if (status != NIGH_OK)
        return status;
    status = verbs_queue_make(endpoint);
    if (status != NIGH_OK) {
        verbs_endpoint_unsize(endpoint);
        return status;
    }
    keep_private(endpoint, private_data, private_bytes);
    verbs_endpoint_set_state(endpoint, VERBS_ACCEPTED);
    verbs_endpoint_set_patience(endpoint, LIMIT_FABRIC_HANDSHAKE_US);
    list_push_back(&endpoint->verbs->accepting, &endpoint->accepting);
    return NIGH_OK;
}

void verbs_reject(struct fabric_endpoint *endpoint)
{
    static const uint8_t data = VERBS_REJECTED_DATA;

    if (endpoint->state == VERBS_REQUESTED) {
        (void)endpoint->verbs->library->reject(endpoint->id->id, &data, sizeof(data));
        verbs_endpoint_set_state(endpoint, VERBS_FAILED);
    }
    verbs_endpoint_destroy(endpoint);
}

static bool accept_one(struct fabric_endpoint *endpoint)
{
    const struct fabric_caps *caps = &endpoint->verbs->fabric.caps;
    uint8_t data[VERBS_CM_DATA] = {(uint8_t)endpoint->private_bytes};
    struct rdma_conn_param param = {
        .private_data = data,
        .private_data_len = sizeof(data),
        .responder_resources = (uint8_t)min_u32(endpoint->asked_reads, caps->reads),
        .initiator_depth = (uint8_t)min_u32(endpoint->asked_depth, caps->reads),
        .rnr_retry_count = 0,
        .srq = endpoint->stock != NULL,
        .qp_num = endpoint->qp->qp_num};

    memcpy(data + 1, endpoint->private_data, endpoint->private_bytes);
    verbs_connect_mark(endpoint->verbs, endpoint->id->id);
    if (!verbs_queue_init(endpoint))
        return false;
    verbs_send_receives(endpoint);
    if (endpoint->state != VERBS_ACCEPTED || !verbs_queue_start(endpoint))
        return false;
    if (endpoint->verbs->library->accept(endpoint->id->id, &param) != 0)
        return false;
    verbs_endpoint_set_state(endpoint, VERBS_ACCEPTING);
    return true;
}

/* V4: receives that were posted since are there before the peer knows that it may send. */
void verbs_accept_all(struct verbs *verbs)
{
    while (!list_empty(&verbs->accepting)) {
        struct fabric_endpoint *endpoint =
            container_of(list_pop_front(&verbs->accepting), struct fabric_endpoint, accepting);

        if (!accept_one(endpoint) && endpoint->state < VERBS_FAILING)
            verbs_endpoint_fail(endpoint, NIGH_PEER_LOST);
    }
}

void verbs_connect_expire(struct fabric_endpoint *endpoint)
{
    switch (endpoint->state) {
    case VERBS_FAILING: verbs_endpoint_finish(endpoint); break;
    case VERBS_RESOLVING: verbs_endpoint_fail(endpoint, NIGH_UNREACHABLE); break;
    default: verbs_endpoint_fail(endpoint, NIGH_TIMEOUT); break;
    }
}
