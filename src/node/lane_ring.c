/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane's end of the rings that it shares with clients: submissions in, completions and events
 * out, and the wake-ups. docs/session.md has the table of who writes which word.
 *
 * Everything a client can write is read once, into a local copy, and checked there. The lane's own
 * words in shared memory are never read back.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/futex.h"
#include "node/lane_internal.h"

#define LOG_MODULE "lane"
#include "base/log.h"

void lane_mark_dirty(struct lane *lane, uint32_t slot)
{
    struct lane_session *session = &lane->sessions[slot];

    if (!session->dirty) {
        session->dirty = true;
        lane->dirty[lane->dirty_count++] = slot;
    }
}

void lane_expel(struct lane *lane, uint32_t slot, const char *why)
{
    struct lane_session *session = &lane->sessions[slot];

    if (session->seat == NULL || session->expelled)
        return;
    session->expelled = true;
    snprintf(session->why, sizeof(session->why), "%s", why);
    lane->expelled_count++;
    LOG_WARN(
        "session expelled",
        "session=%llu pid=%d lane=%u why=\"%s\" do=\"have the process release what it has read, or "
        "raise --max-pins, if it pins too much; else see what writes over its memory\"",
        (unsigned long long)session->seat->session_id, session->seat->pid, lane->config.number,
        LOG_QUOTE(session->why));
}

void lane_ring_zero(struct lane_session *session, uint32_t slot)
{
    struct session_lane *shared = session->shared;

    session->sq_head = session->cq_tail = session->event_tail = 0;
    session->in_flight = 0;
    session->begun++;
    session->events_unsaid = 0;
    session->events_lost = 0;
    shared_store_relaxed(&shared->sq_tail.value, 0);
    shared_store_relaxed(&shared->sq_head.value, 0);
    shared_store_relaxed(&shared->cq_tail.value, 0);
    shared_store_relaxed(&shared->cq_head.value, 0);
    shared_store_relaxed(&shared->event_tail.value, 0);
    shared_store_relaxed(&shared->event_head.value, 0);
    shared_store_relaxed(&shared->events_lost.value, 0);
    shared_store_release(session_ready(shared, slot), 0);
}

int32_t lane_status_for(const struct lane_session *session, int32_t status)
{
    return status == NIGH_OVERLOADED && session->seat->version < SESSION_VERSION_OVERLOADED
               ? NIGH_BUSY
               : status;
}

void lane_on_complete(void *context, uint32_t slot, const struct session_cqe *cqe)
{
    struct lane *lane = context;
    struct lane_session *session = &lane->sessions[slot];
    struct session_cqe *place = &session->shared->cq[session->cq_tail % LIMIT_RING_ENTRIES];

    NIGH_ASSERT(session->seat != NULL && session->in_flight > 0);
    session->in_flight--;
    *place = *cqe;
    place->status = lane_status_for(session, cqe->status);
    session->cq_tail++;
    shared_store_release(&session->shared->cq_tail.value, session->cq_tail);
    lane_mark_dirty(lane, slot);
}

void lane_complete(struct lane *lane, uint32_t slot, uint32_t cookie, nigh_status status)
{
    struct session_cqe cqe = {.cookie = cookie, .status = status, .pin = SESSION_NO_PIN};

    lane_on_complete(lane, slot, &cqe);
}

static void lane_put_event(struct lane_session *session, const struct session_event *event)
{
    session->shared->events[session->event_tail % LIMIT_EVENT_ENTRIES] = *event;
    session->event_tail++;
    shared_store_release(&session->shared->event_tail.value, session->event_tail);
}

static void lane_put_overflow(struct lane *lane, struct lane_session *session)
{
    struct session_event overflow = {.kind_meta = NIGH_EVENT_OVERFLOW,
                                     .data_size = session->events_unsaid};

    lane_put_event(session, &overflow);
    session->events_unsaid = 0;
    lane->lossy_count--;
}

/* Free places of a session's event ring; UINT32_MAX when its client forged the head. */
static uint32_t lane_event_room(const struct lane_session *session)
{
    uint32_t used = session_ring_used(session->event_tail,
                                      shared_load_acquire(&session->shared->event_head.value),
                                      LIMIT_EVENT_ENTRIES);

    return used == UINT32_MAX ? UINT32_MAX : LIMIT_EVENT_ENTRIES - used;
}

void lane_on_event(void *context, uint32_t slot, const struct session_event *event)
{
    struct lane *lane = context;
    struct lane_session *session = &lane->sessions[slot];
    uint32_t room;

    NIGH_ASSERT(session->seat != NULL);
    if (session->expelled || !session->swept)
        return;
    room = lane_event_room(session);
    if (room == UINT32_MAX) {
        lane_expel(lane, slot, "the head of its event ring is impossible");
        return;
    }
    if (room < (session->events_unsaid != 0 ? 2u : 1u)) {
        if (session->events_unsaid++ == 0)
            lane->lossy_count++;
        session->events_lost++;
        shared_store_relaxed(&session->shared->events_lost.value, session->events_lost);
        lane_count(&lane->counters.events_lost, 1);
        return;
    }
    if (session->events_unsaid != 0)
        lane_put_overflow(lane, session);
    lane_put_event(session, event);
    lane_mark_dirty(lane, slot);
}

void lane_say_lost(struct lane *lane)
{
    for (uint32_t i = 0; i < lane->open_count && lane->lossy_count > 0; i++) {
        struct lane_session *session = &lane->sessions[lane->slots[i]];
        uint32_t room;

        if (session->events_unsaid == 0 || session->expelled)
            continue;
        room = lane_event_room(session);
        if (room == UINT32_MAX) {
            lane_expel(lane, lane->slots[i], "the head of its event ring is impossible");
        } else if (room > 0) {
            lane_put_overflow(lane, session);
            lane_mark_dirty(lane, lane->slots[i]);
        }
    }
}

void lane_on_expel(void *context, uint32_t slot, const char *why)
{
    lane_expel(context, slot, why);
}

/* Copies one submission out, once: what the client writes meanwhile is no longer seen. */
static void lane_copy_sqe(const struct lane_session *session, struct session_sqe *sqe)
{
    memcpy(sqe, &session->shared->sq[session->sq_head % LIMIT_RING_ENTRIES], sizeof(*sqe));
    __asm__ __volatile__("" ::: "memory"); /* the compiler must not read the original again */
}

static void lane_take_one(struct lane *lane, uint32_t slot)
{
    struct lane_session *session = &lane->sessions[slot];
    uint64_t quota_max = session->seat->quota_max_bytes;
    struct session_sqe sqe;

    lane_copy_sqe(session, &sqe);
    session->sq_head++;
    session->in_flight++;
    lane->taken++;
    if (lane_answer(lane, slot, &sqe))
        return;
    if (unlikely(sqe.op == SESSION_OP_QUOTA) && quota_max != 0)
        sqe.argument = sqe.argument == 0 ? quota_max : min_u64(sqe.argument, quota_max);
    store_submit(lane->store, slot, &sqe, lane->now_us);
}

/*
 * How many submissions may be taken now: no more than there are, no more than there is room for
 * their completions, no more than a turn's share. False: the client broke the protocol.
 */
static bool lane_admit(const struct lane_session *session, uint32_t *admitted, bool *more)
{
    uint32_t waiting = session_ring_used(shared_load_acquire(&session->shared->sq_tail.value),
                                         session->sq_head, LIMIT_RING_ENTRIES);
    uint32_t unread = session_ring_used(
        session->cq_tail, shared_load_acquire(&session->shared->cq_head.value), LIMIT_RING_ENTRIES);
    uint32_t may;

    if (waiting == UINT32_MAX || unread == UINT32_MAX ||
        unread > LIMIT_RING_ENTRIES - session->in_flight)
        return false;
    may = min_u32(waiting, LIMIT_RING_ENTRIES - unread - session->in_flight);
    *admitted = min_u32(may, LIMIT_TURN_SUBMISSIONS);
    *more = may > *admitted;
    return true;
}

bool lane_serve(struct lane *lane, uint32_t slot)
{
    struct lane_session *session = &lane->sessions[slot];
    uint32_t admitted;
    bool more;

    if (session->expelled)
        return false;
    shared_store_relaxed(session_ready(session->shared, slot), 0);
    shared_fence(); /* cleared before the tail is read: what comes later sets it again */
    if (!lane_admit(session, &admitted, &more)) {
        lane_expel(lane, slot, "the indices of its rings are impossible");
        return true;
    }
    for (uint32_t i = 0; i < admitted && !session->expelled; i++)
        lane_take_one(lane, slot);
    shared_store_release(&session->shared->sq_head.value, session->sq_head);
    if (more)
        shared_store_release(session_ready(session->shared, slot), 1);
    return admitted > 0;
}

/* A message that says "look"; a full queue says it already. */
static void lane_poke(const struct lane_session *session)
{
    struct session_message_header poke = {.magic = SESSION_MAGIC, .kind = SESSION_POKE};

    if (session->seat->socket_fd >= 0)
        (void)fd_send_message(session->seat->socket_fd, &poke, sizeof(poke), NULL, 0);
}

void lane_flush(struct lane *lane)
{
    if (lane->dirty_count == 0)
        return;
    shared_fence(); /* what was published comes before the look at who sleeps */
    for (uint32_t i = 0; i < lane->dirty_count; i++) {
        struct lane_session *session = &lane->sessions[lane->dirty[i]];

        session->dirty = false;
        if (session->seat == NULL)
            continue;
        if (shared_load_relaxed(&session->front->waiting) != 0) {
            atomic_fetch_add_explicit(&session->front->wake, 1, memory_order_release);
            futex_wake(&session->front->wake, INT_MAX);
            lane_count(&lane->counters.wakes, 1);
        }
        if (shared_load_relaxed(&session->front->poke_wanted) != 0 &&
            atomic_exchange_explicit(&session->front->poke_wanted, 0, memory_order_acq_rel) != 0) {
            lane_poke(session);
            lane_count(&lane->counters.wakes, 1);
        }
    }
    lane->dirty_count = 0;
}
