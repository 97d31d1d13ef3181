/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device is lost, and another is taken, or the same when it is there again (V14).
 *
 * A device that the system takes away is not gone until every program has let go of it: queue
 * pairs, registrations, and the descriptors of the device itself, those of librdmacm too. Whoever
 * removes it waits for that. What the fabric's caller has stays: endpoints, which have failed, and
 * registrations, which the next device gets to know.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "fabric/verbs/verbs_internal.h"

#define LOG_MODULE "fabric"
#include "base/log.h"

#define STANDARD_FDS 3

/* ---- lost ---- */

void verbs_loss_begin(struct verbs *verbs, bool is_removed)
{
    if (verbs->is_gone)
        return;
    LOG_ERROR("the RDMA device is lost: its connections end",
              "device=%s removed=%d do=\"see to the card and the kernel's log (dmesg)\"",
              verbs->device.name, is_removed);
    verbs->is_gone = verbs->is_held = true;
    verbs->has_told_lack = false;
    verbs->return_us = verbs->look_us;
    verbs->due_us = 0;
    LIST_FOREACH_SAFE(node, &verbs->every)
    {
        struct fabric_endpoint *endpoint = container_of(node, struct fabric_endpoint, every);

        if (endpoint->state < VERBS_FAILING)
            verbs_endpoint_fail(endpoint, NIGH_PEER_LOST);
    }
}

/* A descriptor of a library that keeps it to its own end: what it stands for is closed, the number
 * stays taken. */
static void blind(int fd)
{
    int nothing = fd < STANDARD_FDS ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);

    if (nothing >= 0)
        (void)dup3(nothing, fd, O_CLOEXEC);
    fd_close(&nothing);
}

/* librdmacm opens every device that an identifier was on, and does not close it again. Nothing is
 * done through that context but to make a protection domain that nobody uses. While the identifier
 * is there, so is the context: it is blinded first. */
void verbs_loss_removed(struct verbs *verbs, const struct rdma_cm_id *id)
{
    blind(id->verbs->cmd_fd);
    blind(id->verbs->async_fd);
    verbs_loss_begin(verbs, true);
}

bool verbs_loss_is_taken(struct verbs *verbs)
{
    struct pollfd last_word = {.fd = verbs->device.context->async_fd, .events = POLLIN};
    struct ibv_port_attr port;
    struct ibv_async_event event;

    if (verbs->library->query_port(verbs->device.context, verbs->device.port_number, &port) != EIO)
        return false;
    while (!verbs->is_gone && !verbs->is_held && poll(&last_word, 1, VERBS_TAKEN_MS) > 0 &&
           verbs->library->get_async_event(verbs->device.context, &event) == 0) {
        verbs->is_held = event.event_type == IBV_EVENT_DEVICE_FATAL; /* lost in the next poll */
        verbs->library->ack_async_event(&event);
    }
    verbs->due_us = 0;
    return true;
}

static void drop_id(struct verbs *verbs, struct rdma_cm_id **id)
{
    if (*id != NULL)
        (void)verbs->library->destroy_id(*id);
    *id = NULL;
}

/* One on all addresses is of no device. */
static void drop_listener(struct verbs *verbs)
{
    if (verbs->listens.bytes > 0)
        drop_id(verbs, &verbs->listener);
}

static void drop_ids(struct verbs *verbs)
{
    LIST_FOREACH(node, &verbs->every)
    {
        struct fabric_endpoint *endpoint = container_of(node, struct fabric_endpoint, every);

        drop_id(verbs, &endpoint->id->id);
    }
    while (!list_empty(&verbs->lingering))
        verbs_id_destroy(verbs,
                         container_of(list_first(&verbs->lingering), struct verbs_id, lingering));
    drop_listener(verbs);
}

static void leave_stocks(struct verbs *verbs)
{
    LIST_FOREACH(node, &verbs->stocks)
    {
        verbs_stock_leave(container_of(node, struct fabric_stock, node));
    }
}

void verbs_loss_let_go(struct verbs *verbs)
{
    verbs_loss_begin(verbs, false); /* unless it has */
    verbs->is_held = false;
    LIST_FOREACH_SAFE(node, &verbs->failing)
    {
        verbs_endpoint_finish(container_of(node, struct fabric_endpoint, failing));
    }
    drop_ids(verbs);
    leave_stocks(verbs);
    LIST_FOREACH(node, &verbs->memories)
    {
        verbs_memory_leave(verbs, container_of(node, struct fabric_memory, node));
    }
    verbs_device_close(verbs);
}

/* ---- found ---- */

/* What the caller was told of the fabric holds while it lives (F5). */
static bool can_as_much(const struct verbs *verbs, const struct fabric_caps *before)
{
    const struct fabric_caps *now = &verbs->fabric.caps;
    uint32_t ops = before->ops;

    if (list_empty(&verbs->stocks))
        ops &= ~(uint32_t)FABRIC_CAN_SHARE; /* who shares nothing misses nothing */
    return (now->ops & ops) == ops && now->slices >= before->slices &&
           now->reads >= before->reads && now->inline_bytes >= before->inline_bytes &&
           now->message_bytes >= before->message_bytes;
}

static bool enter_memories(struct verbs *verbs)
{
    LIST_FOREACH(node, &verbs->memories)
    {
        if (!verbs_memory_enter(verbs, container_of(node, struct fabric_memory, node)))
            return false;
    }
    return true;
}

/* After the memory that they are for. */
static bool enter_stocks(struct verbs *verbs)
{
    LIST_FOREACH(node, &verbs->stocks)
    {
        if (!verbs_stock_enter(container_of(node, struct fabric_stock, node)))
            return false;
    }
    return true;
}

static bool take(struct verbs *verbs, uint32_t host, char why[VERBS_WHY_BYTES])
{
    const struct fabric_caps before = verbs->fabric.caps;
    const uint64_t piece_bytes = verbs->piece_bytes;
    nigh_status status = verbs_device_open(verbs, verbs->hosts[host], why);
    bool is_enough = can_as_much(verbs, &before);

    verbs->fabric.caps = before; /* but the pieces are as long as this device takes them */
    if (status != NIGH_OK)
        goto keep_pieces;
    (void)snprintf(why, VERBS_WHY_BYTES, "%s can less than the device before", verbs->device.name);
    if (!is_enough)
        goto close;
    (void)snprintf(why, VERBS_WHY_BYTES, "nobody can listen on %s", verbs->device.name);
    if (verbs_listen_again(verbs) != NIGH_OK)
        goto close;
    (void)snprintf(why, VERBS_WHY_BYTES, "%s gives no descriptors, or takes not all memory",
                   verbs->device.name);
    /* Memory last: it takes long. Who dials meanwhile is heard in the next poll. */
    if (verbs_device_use(verbs) == NIGH_OK && enter_memories(verbs) && enter_stocks(verbs))
        return true;
    leave_stocks(verbs);
    LIST_FOREACH(node, &verbs->memories)
    {
        verbs_memory_leave(verbs, container_of(node, struct fabric_memory, node));
    }
    drop_listener(verbs);
close:
    verbs_device_close(verbs);
keep_pieces:
    verbs->piece_bytes = piece_bytes;
    return false;
}

/* The others first, and the lost one again at last. */
void verbs_loss_look(struct verbs *verbs, uint64_t now_us)
{
    uint32_t count = max_u32(verbs->host_count, 1);
    char why[VERBS_WHY_BYTES] = "";

    for (uint32_t i = 1; i <= count; i++) {
        uint32_t host = (verbs->host + i) % count;

        if (take(verbs, host, why)) {
            LOG_INFO("an RDMA device is there again", "device=%s address=%s", verbs->device.name,
                     verbs->address);
            verbs->host = host;
            verbs->is_gone = false;
            verbs->look_us = now_us + VERBS_RETURN_US; /* it may be lost again at once */
            verbs->return_us = UINT64_MAX;
            return;
        }
    }
    if (!verbs->has_told_lack)
        LOG_WARN("there is no RDMA device: one is looked for every second",
                 "why=\"%s\" do=\"see to the card, its driver and its interface (nigh doctor)\"",
                 LOG_QUOTE(why));
    verbs->has_told_lack = true;
    verbs->return_us = now_us + VERBS_RETURN_US;
}
