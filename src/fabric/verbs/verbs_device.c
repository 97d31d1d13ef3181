/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the device: the one that was named, the one of an address, or the first that will do.
 * What is wrong with one that was looked at is said. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "fabric/verbs/verbs_internal.h"

#define LOG_MODULE "fabric"
#include "base/log.h"

#define MTU_LEAST  1024u
#define GIDS_MOST  64 /* looked at */
#define QP_ENTRIES 16u

/* What a device must have for the contract (docs/fabric.md). */
static const char *lacks(const struct verbs_device *device)
{
    if (device->attr.max_qp_wr <= (int)VERBS_RESERVED || device->attr.max_cqe < (int)QP_ENTRIES)
        return "its queues are too small";
    if (device->attr.max_sge < 1)
        return "it takes no slices";
    if (!device->is_iwarp &&
        (device->attr.max_qp_rd_atom < 1 || device->attr.max_qp_init_rd_atom < 1))
        return "it has no READs";
    return NULL;
}

enum gids {
    GIDS_NONE = 0,
    GIDS_OF_LINK, /* only such as every interface makes for itself */
    GIDS_FINE,
};

static enum gids gids_of(const struct verbs *verbs, uint8_t port, int count)
{
    static const union ibv_gid none;
    enum gids found = GIDS_NONE;
    union ibv_gid gid;

    for (int i = 0; i < count && i < GIDS_MOST && found != GIDS_FINE; i++) {
        if (verbs->library->query_gid(verbs->device.context, port, i, &gid) == 0 &&
            memcmp(&gid, &none, sizeof(gid)) != 0)
            found = gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80 ? GIDS_OF_LINK : GIDS_FINE;
    }
    return found;
}

/* RoCE is reached by the addresses of its interface; one that was named, `local`, is there. */
static bool needs_address(const struct verbs *verbs)
{
    return verbs->device.port.link_layer == IBV_LINK_LAYER_ETHERNET && !verbs->device.is_iwarp &&
           verbs->local.bytes == 0;
}

static const char *port_lacks(struct verbs *verbs, uint8_t number)
{
    struct ibv_port_attr *port = &verbs->device.port;

    memset(port, 0, sizeof(*port));
    if (verbs->library->query_port(verbs->device.context, number, port) != 0)
        return "cannot be asked";
    switch (port->state) {
    case IBV_PORT_ACTIVE:
    case IBV_PORT_ACTIVE_DEFER: break;
    case IBV_PORT_DOWN: return "is down";
    case IBV_PORT_INIT: return "waits for a subnet manager";
    case IBV_PORT_ARMED: return "is armed, not active";
    default: return "is in an unknown state";
    }
    switch (gids_of(verbs, number, port->gid_tbl_len)) {
    case GIDS_NONE: return "has no GID: its interface has no address";
    case GIDS_OF_LINK:
        return needs_address(verbs) ? "has only link-local GIDs: its interface has no address"
                                    : NULL;
    default: return NULL;
    }
}

/* The first port that will do, or `wanted` (not 0). */
static bool find_port(struct verbs *verbs, uint8_t wanted, char why[VERBS_WHY_BYTES])
{
    struct verbs_device *device = &verbs->device;
    uint8_t first = wanted != 0 ? wanted : 1;
    uint8_t last = wanted != 0 ? wanted : device->attr.phys_port_cnt;

    (void)snprintf(why, VERBS_WHY_BYTES, "%s has no port", device->name);
    for (unsigned number = first; number <= last; number++) {
        const char *lack = port_lacks(verbs, (uint8_t)number);

        if (lack == NULL) {
            device->port_number = (uint8_t)number;
            return true;
        }
        (void)snprintf(why, VERBS_WHY_BYTES, "port %u of %s %s", number, device->name, lack);
    }
    return false;
}

/* How many bytes of a post the device takes inline: it says so only of a queue pair. */
static uint32_t inline_of(struct verbs *verbs)
{
    const struct verbs_library *library = verbs->library;
    struct ibv_context *context = verbs->device.context;
    struct ibv_cq *cq = library->create_cq(context, (int)QP_ENTRIES, NULL, NULL, 0);
    uint32_t granted = 0;

    if (cq == NULL)
        return 0;
    for (uint32_t bytes = LIMIT_FABRIC_INLINE; bytes > 0 && granted == 0; bytes /= 2) {
        struct ibv_qp_init_attr init = {.send_cq = cq,
                                        .recv_cq = cq,
                                        .cap = {.max_send_wr = QP_ENTRIES / 2,
                                                .max_recv_wr = QP_ENTRIES / 2,
                                                .max_send_sge = verbs->fabric.caps.slices,
                                                .max_recv_sge = 1,
                                                .max_inline_data = bytes},
                                        .qp_type = IBV_QPT_RC};
        struct ibv_qp *qp = library->create_qp(verbs->pd, &init);

        if (qp == NULL)
            continue;
        granted = min_u32(init.cap.max_inline_data, LIMIT_FABRIC_INLINE);
        (void)library->destroy_qp(qp);
    }
    (void)library->destroy_cq(cq);
    return granted;
}

/* Never FABRIC_CAN_WORDS: nothing that a device says of itself promises it, and rxe copies packets
 * as they come, in pieces that end in words. */
static void set_caps(struct verbs *verbs)
{
    const struct verbs_device *device = &verbs->device;
    struct fabric_caps *caps = &verbs->fabric.caps;
    int reads = device->attr.max_qp_rd_atom;

    if (device->attr.max_qp_init_rd_atom < reads)
        reads = device->attr.max_qp_init_rd_atom;
    caps->name = "verbs";
    caps->ops = FABRIC_CAN_OFFLOAD;
    if (!device->is_iwarp) {
        caps->ops |= FABRIC_CAN_WRITE_IMM | FABRIC_CAN_READ_PRIVATE | FABRIC_CAN_LOOP;
        if (device->attr.atomic_cap != IBV_ATOMIC_NONE)
            caps->ops |= FABRIC_CAN_ATOMICS;
        if (device->attr.atomic_cap == IBV_ATOMIC_GLOB)
            caps->ops |= FABRIC_CAN_ATOMICS_HERE;
    }
    if (device->attr.max_srq > 0 && device->attr.max_srq_wr > 0 && device->attr.max_srq_sge > 0)
        caps->ops |= FABRIC_CAN_SHARE;
    caps->slices = min_u32((uint32_t)device->attr.max_sge, LIMIT_FABRIC_SLICES);
    verbs->read_slices = caps->slices;
    if (device->is_iwarp && device->attr.max_sge_rd > 0)
        verbs->read_slices = min_u32((uint32_t)device->attr.max_sge_rd, caps->slices);
    caps->reads = max_u32(min_u32((uint32_t)max_u32((uint32_t)reads, 0), LIMIT_FABRIC_READS), 1);
    if (verbs->piece_bytes == 0 || verbs->piece_bytes > device->port.max_msg_sz)
        verbs->piece_bytes = device->port.max_msg_sz;
    caps->message_bytes = min_u64(verbs->piece_bytes * VERBS_PIECES, LIMIT_FABRIC_MESSAGE);
    caps->memories = LIMIT_FABRIC_MEMORIES;
    if (device->attr.max_mr > 0)
        caps->memories = min_u32((uint32_t)device->attr.max_mr, LIMIT_FABRIC_MEMORIES);
}

static bool open_one(struct verbs *verbs, struct ibv_device *candidate, uint8_t port,
                     char why[VERBS_WHY_BYTES])
{
    const struct verbs_library *library = verbs->library;
    struct verbs_device *device = &verbs->device;
    const char *lack;

    (void)snprintf(device->name, sizeof(device->name), "%s", library->get_device_name(candidate));
    device->is_iwarp = candidate->transport_type == IBV_TRANSPORT_IWARP;
    device->context = library->open_device(candidate);
    if (device->context == NULL || library->query_device(device->context, &device->attr) != 0) {
        (void)snprintf(why, VERBS_WHY_BYTES, "%s cannot be opened", device->name);
        return false;
    }
    lack = lacks(device);
    if (lack != NULL) {
        (void)snprintf(why, VERBS_WHY_BYTES, "%s will not do: %s", device->name, lack);
        return false;
    }
    if (!find_port(verbs, port, why))
        return false;
    verbs->pd = library->alloc_pd(device->context);
    set_caps(verbs);
    verbs->fabric.caps.inline_bytes = verbs->pd != NULL ? inline_of(verbs) : 0;
    if (verbs->fabric.caps.inline_bytes == 0) {
        (void)snprintf(why, VERBS_WHY_BYTES, "%s gives no queue pair (locked memory?)",
                       device->name);
        return false;
    }
    return true;
}

/* ---- what we have of it ---- */

static void release_cqs(struct verbs *verbs)
{
    for (uint32_t i = 0; i < verbs->cq_count; i++) {
        struct verbs_cq *cq = &verbs->cqs[i];

        if (cq->unacknowledged > 0)
            verbs->library->ack_cq_events(cq->cq, cq->unacknowledged);
        (void)verbs->library->destroy_cq(cq->cq);
    }
    verbs->cq_count = 0;
}

static void unwatch(struct verbs *verbs, int fd)
{
    if (verbs->epoll_fd >= 0)
        (void)epoll_ctl(verbs->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void verbs_device_close(struct verbs *verbs)
{
    const struct verbs_library *library = verbs->library;

    release_cqs(verbs);
    if (verbs->channel != NULL) {
        unwatch(verbs, verbs->channel->fd);
        (void)library->destroy_comp_channel(verbs->channel);
    }
    if (verbs->pd != NULL)
        (void)library->dealloc_pd(verbs->pd);
    if (verbs->device.context != NULL) {
        unwatch(verbs, verbs->device.context->async_fd);
        (void)library->close_device(verbs->device.context);
    }
    verbs->channel = NULL;
    verbs->pd = NULL;
    verbs->device.context = NULL;
}

nigh_status verbs_device_use(struct verbs *verbs)
{
    verbs->channel = verbs->library->create_comp_channel(verbs->device.context);
    return verbs->channel != NULL &&
                   verbs_watch(verbs, verbs->channel->fd, VERBS_SOURCE_COMPLETIONS) &&
                   verbs_watch(verbs, verbs->device.context->async_fd, VERBS_SOURCE_DEVICE)
               ? NIGH_OK
               : NIGH_NO_RESOURCES;
}

/* ---- which one ---- */

/* The device and port that an address of ours belongs to. */
static bool find_address(struct verbs *verbs, const char *text, char name[VERBS_NAME_BYTES],
                         uint8_t *port, char why[VERBS_WHY_BYTES])
{
    const struct verbs_library *library = verbs->library;
    char with_port[FABRIC_ADDRESS_BYTES];
    struct rdma_cm_id *id;
    bool found = false;

    (void)snprintf(with_port, sizeof(with_port), strchr(text, ':') != NULL ? "[%s]:1" : "%s:1",
                   text);
    if (address_parse(with_port, &verbs->local) != NIGH_OK) {
        (void)snprintf(why, VERBS_WHY_BYTES, "%s is no address", text);
        return false;
    }
    /* Both families have their port at the same place. */
    ((struct sockaddr_in *)&verbs->local.storage)->sin_port = 0;
    if (library->create_id(verbs->cm_channel, &id, NULL, RDMA_PS_TCP) != 0) {
        (void)snprintf(why, VERBS_WHY_BYTES, "rdma_cm gives no identifier");
        return false;
    }
    if (library->bind_addr(id, (struct sockaddr *)&verbs->local.storage) == 0 &&
        id->verbs != NULL) {
        (void)snprintf(name, VERBS_NAME_BYTES, "%s", library->get_device_name(id->verbs->device));
        *port = id->port_num;
        found = true;
    } else {
        (void)snprintf(why, VERBS_WHY_BYTES, "no RDMA device has the address %s", text);
    }
    (void)library->destroy_id(id);
    return found;
}

const char *verbs_device_name(const struct fabric *fabric)
{
    return container_of(fabric, const struct verbs, fabric)->device.name;
}

static nigh_status search(struct verbs *verbs, const char *wanted, uint8_t port,
                          char why[VERBS_WHY_BYTES])
{
    int count = 0;
    struct ibv_device **list = verbs->library->get_device_list(&count);
    nigh_status status = NIGH_UNSUPPORTED;

    if (wanted != NULL)
        (void)snprintf(why, VERBS_WHY_BYTES, "there is no RDMA device %s", wanted);
    else
        (void)snprintf(why, VERBS_WHY_BYTES, "there is no RDMA device");
    for (int i = 0; list != NULL && i < count && status != NIGH_OK; i++) {
        if (wanted != NULL && strcmp(verbs->library->get_device_name(list[i]), wanted) != 0)
            continue;
        if (open_one(verbs, list[i], port, why))
            status = NIGH_OK;
        else
            verbs_device_close(verbs);
    }
    if (list != NULL)
        verbs->library->free_device_list(list);
    return status;
}

nigh_status verbs_device_open(struct verbs *verbs, const char *host, char why[VERBS_WHY_BYTES])
{
    char name[VERBS_NAME_BYTES] = "";
    uint8_t port = 0;
    nigh_status status;
    unsigned mtu;

    (void)snprintf(name, sizeof(name), "%s", verbs->wanted);
    if (host[0] != '\0') {
        char of_address[VERBS_NAME_BYTES];

        if (!find_address(verbs, host, of_address, &port, why))
            return NIGH_UNSUPPORTED;
        if (name[0] != '\0' && strcmp(name, of_address) != 0) {
            (void)snprintf(why, VERBS_WHY_BYTES, "the address %s is of %s, not of %s", host,
                           of_address, name);
            return NIGH_UNSUPPORTED;
        }
        memcpy(name, of_address, sizeof(name));
    }
    status = search(verbs, name[0] != '\0' ? name : NULL, port, why);
    if (status != NIGH_OK)
        return status;
    mtu = 128u << verbs->device.port.active_mtu;
    LOG_INFO("RDMA device",
             "device=%s port=%u mtu=%u inline=%u slices=%u reads=%u iwarp=%d tos=%u ack_timeout=%u "
             "retries=%u",
             verbs->device.name, verbs->device.port_number, mtu, verbs->fabric.caps.inline_bytes,
             verbs->fabric.caps.slices, verbs->fabric.caps.reads, verbs->device.is_iwarp,
             verbs->tos, verbs->ack_timeout, verbs->retries);
    if (mtu < MTU_LEAST)
        LOG_WARN("the MTU of the port is small",
                 "device=%s port=%u mtu=%u most=%u do=\"raise that of its interface\"",
                 verbs->device.name, verbs->device.port_number, mtu,
                 128u << verbs->device.port.max_mtu);
    return NIGH_OK;
}
