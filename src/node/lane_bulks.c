/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that calls bring: between the submissions of this lane, the memory of the node's process
 * and of the files that it made for clients, the fabric, and the state machine that knows what is
 * lent and what moves (rpc/bulks.h).
 *
 * Only the session that memory belongs to can name it, by its number.
 * Addresses and keys stay between lanes: no submission says any.
 */
#include <string.h>

#include "base/hash.h"
#include "base/order.h"
#include "cluster/link.h"
#include "node/lane_internal.h"

#define LOG_MODULE "lane"
#include "base/log.h"

/* ---- the machine's shell -------------------------------------------------- */

static uint8_t *on_address(void *context, const struct bulks_memory *memory)
{
    const struct bulk_memory *piece = memory->tag;

    (void)context;
    return piece->memory.address + memory->offset;
}

static struct fabric_remote on_remote(void *context, const struct bulks_memory *memory)
{
    const struct lane *lane = context;
    const struct bulk_memory *piece = memory->tag;

    return fabric_memory_remote(lane->config.fabric, piece->at[lane->config.number],
                                piece->memory.address + memory->offset);
}

static void on_read_done(void *context, nigh_status status, uint64_t now_us)
{
    bulks_read_done(context, status, now_us);
}

static nigh_status on_read(void *context, struct rpc *channel, const struct bulks_memory *to,
                           struct fabric_remote from, struct bulks_read *read)
{
    struct lane *lane = context;
    const struct bulk_memory *piece = to->tag;
    struct fabric_slice slice = {.address = piece->memory.address + to->offset,
                                 .bytes = to->bytes,
                                 .memory = piece->at[lane->config.number]};

    return link_read(link_of_calls(channel), &slice, 1, from, on_read_done, read);
}

void lane_give_bulk(struct lane *lane, const struct bulks_memory *memory)
{
    bulk_memories_give(lane->config.bulks, memory->tag);
}

static void on_release(void *context, const struct bulks_memory *memory)
{
    lane_give_bulk(context, memory);
}

static void complete(struct lane *lane, uint32_t slot, uint32_t cookie, nigh_status status)
{
    ORDER_SAID();
    lane_complete(lane, slot, cookie, status);
}

static void on_moved(void *context, const struct bulks_mover *mover, nigh_status status)
{
    struct lane *lane = context;

    if (lane_is_session(lane, mover->owner, mover->begun))
        complete(lane, mover->owner, mover->cookie, status);
}

static void on_breaks(void *context, struct rpc *channel)
{
    const struct lane *lane = context;
    struct link *link = link_of_calls(channel);

    if (!link_is_failing(link))
        LOG_WARN("memory of a call is not given back, or was asked for wrongly: its link is broken",
                 "rank=%u do=\"nothing: the link is made anew; if it comes again, run the same "
                 "nighd at all nodes, and see to one that hangs\"",
                 link_rank(link));
    link_break(link, NIGH_PROTOCOL, lane->now_us);
}

struct bulks_shell lane_bulks_shell(struct lane *lane)
{
    return (struct bulks_shell){
        .context = lane,
        .address = on_address,
        .remote = on_remote,
        .read = on_read,
        .release = on_release,
        .moved = on_moved,
        .breaks = on_breaks,
    };
}

/* ---- memory --------------------------------------------------------------- */

nigh_status lane_take_bulk(struct lane *lane, uint32_t slot, const struct session_bulk *wanted,
                           struct bulks_memory *memory)
{
    struct bulk_memories *all = lane->config.bulks;
    struct bulk_memory *piece;
    nigh_status status = NIGH_OK;

    if (all == NULL)
        return NIGH_UNSUPPORTED;
    ORDER_HEARD();
    status = bulk_memories_take(all, wanted->number, lane->sessions[slot].seat->session_id, &piece);
    if (status != NIGH_OK)
        return status;
    if (wanted->offset > piece->memory.bytes ||
        wanted->bytes > piece->memory.bytes - wanted->offset)
        status = NIGH_INVALID;
    else if (wanted->access == 0 || (wanted->access & ~piece->memory.access) != 0)
        status = NIGH_DENIED;
    else
        status = bulk_memories_register(all, piece, lane->config.number, lane->config.fabric);
    if (status != NIGH_OK) {
        bulk_memories_give(all, piece);
        return status;
    }
    *memory = (struct bulks_memory){.tag = piece, .offset = wanted->offset, .bytes = wanted->bytes};
    return NIGH_OK;
}

static void give_parts(struct lane *lane, const struct bulks_part *parts, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++)
        on_release(lane, &parts[n].memory);
}

nigh_status lane_open_loan(struct lane *lane, uint32_t slot, uint64_t offset, uint32_t count,
                           struct bulks_loan **loan)
{
    struct bulks_part parts[LIMIT_CALL_BULKS];
    struct session_bulk wanted[LIMIT_CALL_BULKS];
    const uint8_t *bytes =
        count > LIMIT_CALL_BULKS ? NULL : lane_placed(lane, slot, offset, count * sizeof(*wanted));
    nigh_status status = NIGH_OK;
    uint32_t taken = 0;

    if (bytes == NULL)
        return NIGH_INVALID;
    memcpy(wanted, bytes, count * sizeof(*wanted));
    while (taken < count && status == NIGH_OK) {
        status = lane_take_bulk(lane, slot, &wanted[taken], &parts[taken].memory);
        parts[taken].access = wanted[taken].access;
        taken += status == NIGH_OK;
    }
    if (status == NIGH_OK)
        status = bulks_open(calls_bulks(lane->calls), parts, count, loan);
    if (status != NIGH_OK)
        give_parts(lane, parts, taken);
    return status;
}

/* ---- submissions ---------------------------------------------------------- */

/* What one of the session's services asks to be moved. */
static nigh_status begin_move(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    const struct session_service *service = calls_request_tag(lane->calls, sqe->argument);
    struct bulks_serve *serve = calls_request_bulks(lane->calls, sqe->argument);
    bool push = (sqe->flags & SESSION_FLAG_PUSH) != 0;
    struct session_bulk here = {.number = hash_load64(sqe->id),
                                .offset = sqe->offset,
                                .bytes = sqe->data_size,
                                .access = push ? SESSION_MEMORY_READ : SESSION_MEMORY_WRITE};
    struct bulks_move move = {
        .push = push,
        .part = sqe->meta_size,
        .offset = sqe->ref,
        .mover = {.owner = slot, .begun = lane->sessions[slot].begun, .cookie = sqe->cookie}};
    nigh_status status;

    if ((sqe->flags & ~SESSION_FLAG_PUSH) != 0)
        return NIGH_INVALID;
    if (service == NULL || service->slot != slot)
        return NIGH_NOT_FOUND;
    if (serve == NULL)
        return NIGH_INVALID;
    status = lane_take_bulk(lane, slot, &here, &move.memory);
    if (status != NIGH_OK)
        return status;
    status = bulks_begin(serve, &move, lane->now_us);
    if (status != NIGH_OK)
        on_release(lane, &move.memory);
    return status;
}

void lane_bulk(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    nigh_status status = begin_move(lane, slot, sqe);

    if (status != NIGH_OK)
        complete(lane, slot, sqe->cookie, status);
}

/* ---- files ---------------------------------------------------------------- */

static struct bulk_asker asker_of(const struct lane *lane, uint32_t slot, uint32_t cookie)
{
    const struct lane_session *session = &lane->sessions[slot];

    return (struct bulk_asker){.session = session->seat->session_id,
                               .lane = lane->config.number,
                               .slot = slot,
                               .begun = session->begun,
                               .cookie = cookie};
}

/* Lane 0 alone: it hears of a session's end before it takes anything of the next connection. */
void lane_bulk_make(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    const struct lane_seat *seat = lane->sessions[slot].seat;
    struct bulk_asker asker = asker_of(lane, slot, sqe->cookie);
    struct bulk_wish wish = {.bytes = sqe->data_size,
                             .access = sqe->meta_size,
                             .uid = seat->uid,
                             .session_bytes = seat->quota_max_bytes};
    nigh_status status;

    if (sqe->flags != 0 || lane->config.number != 0)
        status = NIGH_INVALID;
    else if (!seat->may_write)
        status = NIGH_DENIED;
    else if (lane->config.bulks == NULL)
        status = NIGH_UNSUPPORTED;
    else
        status = bulk_memories_make(lane->config.bulks, &asker, &wish);
    if (status != NIGH_PENDING)
        complete(lane, slot, sqe->cookie, status);
}

void lane_bulk_wait(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    struct bulk_asker asker = asker_of(lane, slot, sqe->cookie);
    bool ends = (sqe->flags & SESSION_FLAG_END) != 0;
    nigh_status status;

    if ((sqe->flags & ~SESSION_FLAG_END) != 0 || (ends && lane->config.number != 0))
        status = NIGH_INVALID;
    else if (lane->config.bulks == NULL)
        status = NIGH_UNSUPPORTED;
    else
        status = bulk_memories_await(lane->config.bulks, &asker, hash_load64(sqe->id),
                                     sqe->argument, ends);
    if (status != NIGH_PENDING)
        complete(lane, slot, sqe->cookie, status);
}

bool lane_cancel_bulk_wait(struct lane *lane, uint32_t slot, uint32_t cookie)
{
    struct bulk_memories *all = lane->config.bulks;

    return all != NULL && bulk_memories_cancel(all, lane->config.number, slot, cookie);
}

static void say_ends(struct lane *lane)
{
    struct bulk_end end;

    while (bulk_memories_take_end(lane->config.bulks, lane->config.number, &end)) {
        struct session_cqe cqe = {.cookie = end.asker.cookie,
                                  .status = end.status,
                                  .generation = end.number,
                                  .pin = SESSION_NO_PIN};

        ORDER_SAID();
        if (lane_is_session(lane, end.asker.slot, end.asker.begun))
            lane_on_complete(lane, end.asker.slot, &cqe);
    }
}

/* ---- turns ---------------------------------------------------------------- */

static void on_forced(void *context, const struct bulk_memory *piece)
{
    struct lane *lane = context;

    bulks_break(calls_bulks(lane->calls), piece, lane->now_us);
}

bool lane_turn_bulks(struct lane *lane)
{
    struct bulk_memories *all = lane->config.bulks;

    if (all == NULL || likely(!bulk_memories_have_news(all, lane->config.number)))
        return false;
    bulk_memories_turn(all, lane->config.number, lane->config.fabric, on_forced, lane);
    say_ends(lane);
    return true;
}
