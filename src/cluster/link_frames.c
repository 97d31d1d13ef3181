/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a link's channels on their way out: small ones are taken by the fabric during the call,
 * those of calls several at once; others lie in a buffer until they are gone. Each is sent to a
 * receive of the peer, or written into its ring (link_ring.c), where it may have to wait for room.
 */
#include <string.h>

#include "base/check.h"
#include "cluster/link_internal.h"

static uint32_t gather(uint8_t *to, const struct fabric_slice *slices, uint32_t count)
{
    uint8_t *at = to;

    for (uint32_t n = 0; n < count; n++) {
        memcpy(at, slices[n].address, slices[n].bytes);
        at += slices[n].bytes;
    }
    return (uint32_t)(at - to);
}

/* One in LINK_SIGNAL_EVERY small frames tells that those before it are gone from the queue. */
static uint32_t inline_flags(struct link_side *side)
{
    if (++side->unsignalled < LINK_SIGNAL_EVERY) {
        return FABRIC_INLINE | FABRIC_SOLICITED;
    }
    side->unsignalled = 0;
    return FABRIC_INLINE | FABRIC_SOLICITED | FABRIC_SIGNALLED;
}

/* ---- together ------------------------------------------------------------- */

/* Frames of calls come in crowds: a system call, or a doorbell, for each costs more than they do.
 * `work` says where it goes. */
static void send_together(struct link_side *side, struct fabric_work work,
                          const struct fabric_slice *slices, uint32_t count)
{
    struct link_frames *frames = &side->link->links->frames;
    uint32_t n;

    if (frames->side != side) {
        links_flush_calls(side->link->links);
        frames->side = side;
    }
    n = frames->count++;
    frames->slices[n] = (struct fabric_slice){.address = frames->bytes[n],
                                              .bytes = gather(frames->bytes[n], slices, count)};
    work.flags = inline_flags(side);
    work.tag = LINK_INLINE_TAG;
    work.slices = &frames->slices[n];
    work.slice_count = count > 0;
    frames->works[n] = work;
    if (frames->count == LINK_FRAMES) {
        links_flush_calls(side->link->links);
    }
}

void links_flush_calls(struct links *links)
{
    struct link_frames *frames = &links->frames;
    uint32_t count = frames->count;

    if (count == 0) {
        return;
    }
    frames->count = 0;
    for (uint32_t n = 0; n + 1 < count; n++) {
        frames->works[n].next = &frames->works[n + 1];
    }
    if (!frames->side->link->failed &&
        fabric_post(links->config.fabric, frames->side->endpoint, frames->works, NULL) != NIGH_OK) {
        link_fail(frames->side->link, NIGH_PEER_LOST);
    }
}

/* ---- alone ---------------------------------------------------------------- */

/* Small frames are taken by the fabric during the call. */
static void send_inline(struct link_side *side, struct fabric_work work,
                        const struct fabric_slice *slices, uint32_t count)
{
    work.flags = inline_flags(side);
    work.tag = LINK_INLINE_TAG;
    work.slices = slices;
    work.slice_count = count;
    if (fabric_post(side->link->links->config.fabric, side->endpoint, &work, NULL) != NIGH_OK) {
        link_fail(side->link, NIGH_PEER_LOST); /* a frame that is lost would be missed for ever */
    }
}

void link_give_send(struct link_side *side, struct send *send)
{
    NIGH_ASSERT(side->send_count > 0);
    list_remove(&send->link);
    side->send_count--;
    sends_give(&side->link->links->sends, send);
}

/* A buffer with the frame in it, at the end of `list`; NULL: the link fails. */
static struct send *fill_send(struct link_side *side, struct list *list,
                              const struct fabric_slice *slices, uint32_t count)
{
    struct link *link = side->link;
    struct links *links = link->links;
    struct send *send;

    /* The channel bounds frames that did not arrive; the rest arrived, and the fabric has not said
     * so yet. It is far behind. */
    if (side->send_count == links_channel(links, side->kind)->sends) {
        link_fail(link, NIGH_BUSY);
        return NULL;
    }
    send = sends_take(&links->sends);
    if (send == NULL) {
        link_fail(link, NIGH_NO_RESOURCES);
        return NULL;
    }
    list_push_back(list, &send->link);
    side->send_count++;
    send->count = gather(send->bytes, slices, count);
    links->config.fabric->counts.copied_bytes += send->count;
    return send;
}

static void post_send(struct link_side *side, struct fabric_work work, struct send *send)
{
    struct link *link = side->link;
    struct fabric_slice slice = {
        .address = send->bytes, .bytes = send->count, .memory = send->memory};

    work.flags = FABRIC_SIGNALLED | FABRIC_SOLICITED;
    work.tag = (uintptr_t)send;
    work.slices = &slice;
    work.slice_count = 1;
    if (fabric_post(link->links->config.fabric, side->endpoint, &work, NULL) != NIGH_OK) {
        link_give_send(side, send);
        link_fail(link, NIGH_PEER_LOST);
    }
}

void link_send_frame(struct link_side *side, const struct fabric_slice *slices, uint32_t count,
                     uint64_t bytes)
{
    struct links *links = side->link->links;
    const struct fabric_caps *caps = &links->config.fabric->caps;
    bool is_call = side->kind == LINK_CALLS;
    struct fabric_work work = {.op = FABRIC_SEND};
    struct send *send;

    if (is_call && !link_ring_aim(side->link, (uint32_t)bytes, &work)) {
        (void)fill_send(side, &side->waiting, slices, count);
        return;
    }
    if (is_call && bytes <= min_u64(caps->inline_bytes, LINK_FRAME_BYTES)) {
        send_together(side, work, slices, count);
        return;
    }
    if (is_call) {
        links_flush_calls(links); /* they were first */
    }
    if (bytes <= caps->inline_bytes && count <= caps->slices) {
        send_inline(side, work, slices, count);
        return;
    }
    send = fill_send(side, &side->sends, slices, count);
    if (send != NULL) {
        post_send(side, work, send);
    }
}

/* ---- frames that wait for room -------------------------------------------- */

void link_send_waiting(struct link_side *side)
{
    struct link *link = side->link;

    while (!link->failed && !list_empty(&side->waiting)) {
        struct send *send = container_of(list_first(&side->waiting), struct send, link);
        struct fabric_work work;

        if (!link_ring_aim_waiting(link, send->count, &work)) {
            return;
        }
        links_flush_calls(link->links);
        link_post_receives(side);
        list_remove(&send->link);
        list_push_back(&side->sends, &send->link);
        post_send(side, work, send);
    }
}

void link_send_news(struct link_side *side)
{
    struct fabric_work work = {.op = FABRIC_WRITE_IMM,
                               .imm = rpc_ring_imm(&side->link->rings.reader, RPC_RING_NONE)};

    side->link->links->counters.ring_news++;
    send_together(side, work, NULL, 0);
}
