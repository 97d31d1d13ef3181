/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads, writes and atomics of regions, from when a session has asked for one until it was told how
 * that ended. Each comes in parts, one a chunk, as its mapping posts them (region/mapping.h):
 * lane_region_posts.c carries these out.
 */
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "node/lane_regions.h"

static struct region_io *io_of(struct regions_op *op)
{
    return container_of(op, struct region_io, op);
}

/* ---- taken, given back ---------------------------------------------------- */

struct region_io *lane_region_io_take(struct lane_regions *at, uint32_t slot)
{
    struct session_place counts = {.is_taken = false};
    struct list_node *node;
    struct region_io *io;

    if (!lane_region_share(at, REGION_TABLE_IOS, slot, &counts))
        return NULL;
    node = region_unchain(&at->free_ios);
    io = node != NULL ? container_of(node, struct region_io, link) : malloc(sizeof(*io));
    if (io == NULL) {
        session_shares_give(&at->shares, REGION_TABLE_IOS, &counts);
        return NULL;
    }
    memset(io, 0, sizeof(*io));
    io->at = at;
    io->slot = slot;
    io->begun = at->lane->sessions[slot].begun;
    io->counts = counts;
    list_init(&io->landed);
    list_push_back(&at->ios[slot], &io->link);
    return io;
}

void lane_region_use_put(struct lane_regions *at, struct region_use *use)
{
    const struct region_guard *guard = use->guard;
    bool lets_go = use->is_closed || (guard != NULL && guard->is_lost && guard->is_asked);
    bool stays = guard != NULL && guard->is_leaving;

    if (lets_go && !stays && use->ios == 0 && !list_is_linked(&use->link))
        list_push_back(&at->closing, &use->link);
}

/* ---- how it ends ---------------------------------------------------------- */

void lane_region_io_say(struct lane_regions *at, struct region_io *io, nigh_status status,
                        uint64_t bytes)
{
    bool opens = io->what == SESSION_REGION_OPEN || io->what == SESSION_REGION_LOCK;
    bool maps = io->what == SESSION_REGION_MAP;
    struct session_cqe cqe = {.cookie = io->cookie,
                              .status = status,
                              .offset = io->place,
                              .data_size = bytes,
                              .generation = opens ? io->number : io->old,
                              .pin = SESSION_NO_PIN};

    if (status == NIGH_OK)
        cqe.flags = opens ? SESSION_CQE_OPENED : maps ? SESSION_CQE_MAPPED : 0;
    if (io->is_told)
        return;
    io->is_told = true;
    timers_cancel(&at->timers, &io->wait.timer);
    if (io->piece != NULL)
        return; /* its copy hears when it has ended */
    if (!lane_is_session(at->lane, io->slot, io->begun))
        return;
    ORDER_SAID();
    at->has_said = true;
    lane_on_complete(at->lane, io->slot, &cqe);
}

static void give_io(struct lane_regions *at, struct region_io *io)
{
    timers_cancel(&at->timers, &io->wait.timer);
    if (io->has_memory)
        lane_give_bulk(at->lane, &io->memory);
    lane_region_staging_give(at, io);
    lane_region_parts_forget(at, io);
    list_remove(&io->link);
    session_shares_give(&at->shares, REGION_TABLE_IOS, &io->counts);
    region_chain(&at->free_ios, &io->link);
}

void lane_region_io_drop(struct lane_regions *at, struct region_io *io, nigh_status status)
{
    lane_region_io_say(at, io, status, 0);
    give_io(at, io);
}

void lane_region_io_finish(struct lane_regions *at, struct region_io *io, bool is_open)
{
    bool opens = io->what == SESSION_REGION_OPEN || io->what == SESSION_REGION_LOCK;

    if (opens && !is_open)
        io->use->is_closed = true;
    io->use->ios--;
    lane_region_use_put(at, io->use);
    if (io->from_use != NULL) {
        io->from_use->ios--;
        lane_region_use_put(at, io->from_use);
    }
    give_io(at, io);
}

void lane_region_ended(void *context, struct regions_op *op, nigh_status status)
{
    struct lane_regions *at = context;
    struct region_io *io = io_of(op);
    bool has_bytes =
        io->what == SESSION_REGION_STAT || (io->what == SESSION_REGION_READ && !io->has_memory);

    if (io->what == SESSION_REGION_LOCK && status == NIGH_OK && !io->is_told) {
        lane_region_guard_begin(at, io);
        return;
    }
    if (io->what == SESSION_REGION_BARRIER && status == NIGH_OK && !io->is_told) {
        lane_region_arrive(at, io);
        return;
    }
    if (io->what == SESSION_REGION_MAP && (status != NIGH_OK || io->is_told))
        (void)lane_region_unmap(at, io->slot, io->old); /* nobody hears of it */
    if (io->piece != NULL)
        lane_region_copy_went_on(at, io, status);
    lane_region_io_say(at, io, status, status == NIGH_OK && has_bytes ? io->place_bytes : 0);
    lane_region_io_finish(at, io, status == NIGH_OK && io->what != SESSION_REGION_LOCK);
}

/* ---- what the mapping says ------------------------------------------------ */

/* Parts that there was no memory for. The last that is told of may end the operation. */
static void tell_failed(struct region_io *io)
{
    struct region_chunks chunks = io->failed_chunks;

    memset(&io->failed_chunks, 0, sizeof(io->failed_chunks));
    for (uint32_t n = 0; n < LIMIT_REGION_CHUNKS; n++) {
        if (region_chunks_has(&chunks, n))
            regions_posted(&io->op, n, REGION_NO_WINDOW, NIGH_NO_RESOURCES);
    }
}

void lane_region_ops_tell(struct lane_regions *at)
{
    struct list_node *node;

    if (at->posts_due)
        lane_region_posts_go(at);
    while ((node = list_pop_front(&at->ended)) != NULL) {
        struct region_part *part = container_of(node, struct region_part, link);
        struct region_part was = *part;

        lane_region_part_put(at, part);
        regions_posted(&was.io->op, was.post.piece.chunk, was.post.place.handle, was.status);
    }
    while ((node = list_pop_front(&at->failed)) != NULL)
        tell_failed(container_of(node, struct region_io, failed));
    while ((node = list_pop_front(&at->changed)) != NULL)
        region_has_changed(container_of(node, struct region_use, changed)->region);
    while ((node = list_pop_front(&at->closing)) != NULL) {
        struct region_use *use = container_of(node, struct region_use, link);

        if (use->guard != NULL)
            lane_region_guard_let_go(at, use->guard);
        if (!use->is_closed)
            continue;
        lane_region_leave(use);
        if (use->guard != NULL)
            lane_region_guard_free(at, use->guard);
        lane_region_hear_no_more(use);
        regions_close(use->region);
        free(use);
    }
}

bool lane_region_ops_are_over(const struct lane_regions *at)
{
    return list_empty(&at->ended) && list_empty(&at->failed) && list_empty(&at->changed) &&
           list_empty(&at->closing) && !at->posts_due;
}

/* ---- begun, given up ------------------------------------------------------ */

void lane_region_io_begin(struct lane_regions *at, struct region_io *io, uint64_t deadline_us)
{
    io->use->ios++;
    if (io->from_use != NULL)
        io->from_use->ios++;
    at->counts.operations++;
    if (deadline_us != UINT64_MAX)
        NIGH_ASSERT(timers_add(&at->timers, &io->wait.timer, deadline_us) == NIGH_OK);
    if (at->has_limits && lane_region_limit(at, &io->wait))
        return;
    regions_begin(io->use->region, &io->op);
    lane_regions_tell(at);
}

void lane_region_io_end(struct lane_regions *at, struct region_io *io, nigh_status status)
{
    lane_region_io_say(at, io, status, 0);
    if (lane_region_limit_end(at, &io->wait)) {
        lane_region_ended(at, &io->op, status);
        return;
    }
    if (lane_region_guard_end(at, io) || lane_region_withdraw(at, io))
        return;
    lane_region_posts_end(at, io, status);
    regions_end_op(&io->op, status);
}

/* Of all of its session that is under way it looks for that only which is its: handles are many,
 * and mostly idle. */
void lane_region_use_end(struct lane_regions *at, struct region_use *use, nigh_status status)
{
    use->ios++; /* it stays until the return */
    LIST_FOREACH_SAFE(node, &at->ios[use->slot])
    {
        struct region_io *io = container_of(node, struct region_io, link);

        if (use->ios == 1)
            break;
        if (io->use == use || io->from_use == use)
            lane_region_io_end(at, io, status);
    }
    use->ios--;
}

void lane_region_ops_fini(struct lane_regions *at)
{
    struct list_node *node;

    for (uint32_t slot = 0; slot < at->lane->config.max_sessions; slot++) {
        while (!list_empty(&at->ios[slot])) {
            struct region_io *io = container_of(list_first(&at->ios[slot]), struct region_io, link);

            lane_region_io_end(at, io, NIGH_CANCELED); /* no link is up: nothing is under way */
            lane_regions_tell(at);
        }
    }
    while ((node = region_unchain(&at->free_ios)) != NULL)
        free(container_of(node, struct region_io, link));
}
