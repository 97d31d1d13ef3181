/* SPDX-License-Identifier: Apache-2.0 */
/* See lane.h. Making and ending a lane, its sessions, its mail, its turn. */
#include "node/lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "node/lane_internal.h"

#define LOG_MODULE "lane"
#include "base/log.h"

static uint64_t lane_wall_ns(void *context)
{
    (void)context;
    return clock_wall_ns();
}

/* ---- descriptors ---------------------------------------------------------- */

nigh_status lane_watch(struct lane *lane, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event event = {.events = events, .data.u64 = data};

    if (epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return status_from_errno(errno);
    return NIGH_OK;
}

void lane_unwatch(struct lane *lane, int fd)
{
    (void)epoll_ctl(lane->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void lane_kick(struct lane *lane)
{
    uint64_t one = 1;

    /* A counter that is full has rung already. */
    (void)!write(lane->kick_fd, &one, sizeof(one));
}

static nigh_status lane_open_descriptors(struct lane *lane)
{
    lane->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    lane->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lane->epoll_fd < 0 || lane->kick_fd < 0)
        return NIGH_NO_RESOURCES;
    return lane_watch(lane, lane->kick_fd, EPOLLIN | EPOLLET, 0);
}

/* ---- disk ----------------------------------------------------------------- */

static bool lane_on_disk(void *context, const struct store_disk_job *job)
{
    struct lane *lane = context;

    return disk_submit(lane->disk, job);
}

static void lane_on_disk_forget(void *context, uint32_t pool, uint64_t generation,
                                uint32_t incarnation, bool again)
{
    struct lane *lane = context;

    disk_forget(lane->disk, pool, generation, incarnation, again);
}

/* Lanes share a disk: each counts on its part of what is free. */
static uint64_t lane_on_disk_free(void *context)
{
    struct lane *lane = context;

    return disk_free_bytes(lane->disk) / lane->config.lanes;
}

/* On the disk's thread: an end can be taken. */
static void lane_on_disk_end(void *context)
{
    struct lane *lane = context;

    atomic_store_explicit(&lane->disk_rang, true, memory_order_release);
    shared_fence(); /* said before the look at whether the lane sleeps */
    if (shared_load_relaxed(&lane->config.page->lane[lane->config.number].asleep) != 0)
        lane_kick(lane);
}

static nigh_status lane_open_disk(struct lane *lane)
{
    struct disk_config config = {
        .directory = lane->config.spill_dir,
        .lane = lane->config.number,
        .extents = lane->config.store.extents,
        .wake = lane_on_disk_end,
        .context = lane,
    };

    return lane->config.spill_dir == NULL ? NIGH_OK : disk_create(&config, &lane->disk);
}

static bool lane_read_disk(struct lane *lane)
{
    struct disk_end end;

    if (!atomic_load_explicit(&lane->disk_rang, memory_order_relaxed) ||
        !atomic_exchange_explicit(&lane->disk_rang, false, memory_order_acquire))
        return false;
    while (disk_take_end(lane->disk, &end))
        store_disk_done(lane->store, &end.job, end.status, end.data_crc, lane->now_us);
    return true;
}

/* ---- other nodes ---------------------------------------------------------- */

static nigh_status lane_open_exchange(struct lane *lane)
{
    struct exchange_config config = lane->config.exchange;
    struct exchange_calls users;
    struct exchange_spaces spaces;
    nigh_status status = lane_open_calls(lane, &users);

    if (status != NIGH_OK || lane->config.fabric == NULL)
        return status;
    config.users = &users;
    lane_hear_spaces(lane, &spaces);
    config.spaces = lane_serves_spaces(lane) ? &spaces : NULL;
    config.views = lane->config.views != NULL;
    config.fabric = lane->config.fabric;
    config.store = lane->store;
    config.extents = lane->config.store.extents;
    config.lane = lane->config.number;
    config.lanes = lane->config.lanes;
    config.incarnation = lane->config.store.incarnation;
    status = exchange_create(&config, &lane->exchange);
    if (status == NIGH_OK)
        status = lane_watch(lane, fabric_fd(lane->config.fabric), EPOLLIN, 0);
    lane->fabric_watched = status == NIGH_OK;
    return status;
}

void lane_watch_fabric(struct lane *lane, bool watched)
{
    struct epoll_event event = {.events = watched ? EPOLLIN : 0};

    if (lane->fabric_watched == watched)
        return;
    /* It is in the set, and a change takes no memory. */
    NIGH_ASSERT(epoll_ctl(lane->epoll_fd, EPOLL_CTL_MOD, fabric_fd(lane->config.fabric), &event) ==
                0);
    lane->fabric_watched = watched;
}

struct fabric *lane_fabric(struct lane *lane)
{
    return lane->config.fabric;
}

struct exchange *lane_exchange(struct lane *lane)
{
    return lane->exchange;
}

static nigh_status lane_pool_share(struct lane *lane, const struct store_pool_config *config)
{
    return lane->exchange == NULL
               ? NIGH_OK
               : exchange_pool_add(lane->exchange, config->pool, config->cluster_pool);
}

nigh_status lane_pool_add(struct lane *lane, const struct store_pool_config *config, bool adopted)
{
    nigh_status status =
        adopted ? store_pool_adopt(lane->store, config) : store_pool_add(lane->store, config);

    return status == NIGH_OK ? lane_pool_share(lane, config) : status;
}

static void lane_take_peer(struct lane *lane, enum lane_mail kind, uint32_t rank,
                           const struct link_peer *info)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);

    if (lane->exchange == NULL)
        return;
    lane->quiet_until_us = 0;
    calls_peer(lane->calls, rank, kind != LANE_PEER_UP, now_us);
    if (kind == LANE_PEER_DEAD) {
        exchange_peer_dead(lane->exchange, rank, now_us);
        lane_regions_dead(lane, rank);
    } else if (kind == LANE_PEER_LOST) {
        exchange_peer_lost(lane->exchange, rank, now_us);
    } else if (exchange_peer_up(lane->exchange, info, now_us) != NIGH_OK) {
        LOG_ERROR("cannot make links to a member yet: there is no memory",
                  "rank=%u do=\"free some on the machine, or in the node's control group\"", rank);
    }
}

bool lane_tell_peer(struct lane *lane, enum lane_mail kind, uint32_t rank, struct link_peer *info)
{
    struct mailbox_message message = {.kind = kind, .number = rank, .pointer = info};

    if (lane->config.from_zero == NULL) {
        lane_take_peer(lane, kind, rank, info);
        free(info);
        return true;
    }
    /* What is left is for those who cannot wait. */
    if (mailbox_count(lane->config.from_zero) + LANE_MAIL_SESSIONS >= LIMIT_MAILBOX)
        return false;
    lane_post(lane, &message);
    return true;
}

/* ---- create, destroy ------------------------------------------------------ */

nigh_status lane_create(const struct lane_config *config, struct lane **out)
{
    struct lane *lane = calloc(1, sizeof(*lane));
    struct store_config store;
    nigh_status status = NIGH_NO_RESOURCES;

    if (lane == NULL)
        return NIGH_NO_RESOURCES;
    lane->config = *config;
    lane->epoll_fd = lane->kick_fd = -1;
    lane->store_due_us = lane->front_due_us = 0;
    lane->sessions = calloc(config->max_sessions, sizeof(*lane->sessions));
    if (lane->sessions == NULL)
        goto free_lane;
    status = lane_open_descriptors(lane);
    if (status != NIGH_OK)
        goto close_descriptors;

    store = config->store;
    store.lane = config->number;
    store.lanes = config->lanes;
    store.wall_ns = lane_wall_ns;
    store.shell = (struct store_shell){
        .context = lane,
        .complete = lane_on_complete,
        .event = lane_on_event,
        .expel = lane_on_expel,
    };
    if (config->spill_dir != NULL) {
        store.shell.disk = lane_on_disk;
        store.shell.disk_forget = lane_on_disk_forget;
        store.shell.disk_free = lane_on_disk_free;
    }
    status = store_create(&store, &lane->store);
    if (status != NIGH_OK)
        goto close_descriptors;
    status = lane_open_disk(lane);
    if (status != NIGH_OK)
        goto destroy_store;
    status = lane_open_exchange(lane);
    if (status == NIGH_OK)
        status = lane_open_regions(lane);
    if (status == NIGH_OK)
        status = lane_open_spaces(lane);
    if (status != NIGH_OK)
        goto destroy_disk;
    *out = lane;
    return NIGH_OK;

destroy_disk:
    lane_end_spaces(lane);
    exchange_destroy(lane->exchange);
    lane_close_spaces(lane);
    lane_close_regions(lane);
    calls_destroy(lane->calls);
    collect_edges_fini(&lane->collect);
    disk_destroy(lane->disk);
destroy_store:
    store_destroy(lane->store);
close_descriptors:
    fd_close(&lane->kick_fd);
    fd_close(&lane->epoll_fd);
    free(lane->sessions);
free_lane:
    free(lane);
    return status;
}

/* News of peers that were not taken are not theirs who sent them any more. */
static void lane_drop_mail(struct lane *lane)
{
    struct mailbox_message message;

    while (lane->config.from_zero != NULL && mailbox_take(lane->config.from_zero, &message)) {
        if (message.kind == LANE_PEER_UP)
            free((void *)(uintptr_t)message.pointer);
    }
}

void lane_destroy(struct lane *lane)
{
    if (lane == NULL)
        return;
    NIGH_ASSERT(!lane->started);
    disk_destroy(lane->disk);
    lane_drop_mail(lane);
    for (uint32_t slot = 0; slot < lane->config.max_sessions; slot++)
        lane->sessions[slot].swept = false; /* what ends now is nobody's any more */
    lane_end_regions(lane);
    lane_end_spaces(lane);
    exchange_destroy(lane->exchange);
    lane_close_spaces(lane);
    lane_close_regions(lane);
    calls_destroy(lane->calls);
    collect_edges_fini(&lane->collect);
    lane_destroy_pulls(lane);
    fabric_destroy(lane->config.fabric);
    store_destroy(lane->store);
    fd_close(&lane->kick_fd);
    fd_close(&lane->epoll_fd);
    free(lane->sessions);
    free(lane);
}

struct store *lane_store(struct lane *lane)
{
    return lane->store;
}

const struct lane_counters *lane_counters(const struct lane *lane)
{
    return &lane->counters;
}

/* ---- sessions ------------------------------------------------------------- */

/* The sweep's arrays are dense: the last session takes the place of one that leaves. */
static void lane_sweep_add(struct lane *lane, uint32_t slot)
{
    struct lane_session *session = &lane->sessions[slot];

    session->swept = true;
    session->place = lane->open_count;
    lane->slots[lane->open_count] = slot;
    lane->ready[lane->open_count] = session_ready(session->shared, slot);
    lane->open_count++;
}

static void lane_sweep_remove(struct lane *lane, uint32_t slot)
{
    uint32_t place = lane->sessions[slot].place;
    uint32_t last;

    if (!lane->sessions[slot].swept)
        return;
    lane->sessions[slot].swept = false;
    last = --lane->open_count;
    lane->slots[place] = lane->slots[last];
    lane->ready[place] = lane->ready[last];
    lane->sessions[lane->slots[place]].place = place;
}

static nigh_status lane_watch_doorbell(struct lane *lane, const struct lane_seat *seat)
{
    if (seat->doorbell_fds == NULL)
        return NIGH_OK;
    return lane_watch(lane, seat->doorbell_fds[lane->config.number], EPOLLIN | EPOLLET, 0);
}

/* What opening and keeping have in common: the store knows the session, and so do we. */
static nigh_status lane_session_add(struct lane *lane, const struct lane_seat *seat)
{
    struct lane_session *session = &lane->sessions[seat->slot];
    struct store_session_config config = {
        .session = seat->slot,
        .session_id = seat->session_id,
        .pool = seat->pool,
        .uid = seat->uid,
        .pid = seat->pid,
        .may_write = seat->may_write,
        .quota_bytes = seat->quota_bytes,
        .quota_used = seat->quota_used,
        .front = session_front_of(seat->memory),
        .lane = session_lane_of(seat->memory, lane->config.number),
        .chunks = session_chunks_of(seat->memory, lane->config.lanes),
    };
    nigh_status status;

    NIGH_ASSERT(seat->slot < lane->config.max_sessions && session->seat == NULL);
    memcpy(config.name, seat->name, sizeof(config.name));
    status = store_session_open(lane->store, &config);
    if (status != NIGH_OK)
        return status;
    session->seat = seat;
    session->front = config.front;
    session->shared = config.lane;
    session->places = seat->has_places
                          ? session_places_of(seat->memory, lane->config.lanes, lane->config.number)
                          : NULL;
    session->expelled = session->reported = false;
    return NIGH_OK;
}

nigh_status lane_session_open(struct lane *lane, const struct lane_seat *seat)
{
    nigh_status status = lane_watch_doorbell(lane, seat);

    if (status != NIGH_OK)
        return status;
    status = lane_session_add(lane, seat);
    if (status != NIGH_OK) {
        if (seat->doorbell_fds != NULL)
            lane_unwatch(lane, seat->doorbell_fds[lane->config.number]);
        return status;
    }
    lane_ring_zero(&lane->sessions[seat->slot], seat->slot);
    lane_sweep_add(lane, seat->slot);
    return NIGH_OK;
}

nigh_status lane_session_keep(struct lane *lane, const struct lane_seat *seat)
{
    return lane_session_add(lane, seat);
}

void lane_session_rest(struct lane *lane, uint32_t slot)
{
    struct lane_session *session = &lane->sessions[slot];

    if (session->seat == NULL || !session->swept)
        return;
    store_session_reset(lane->store, slot);
    if (session->seat->doorbell_fds != NULL)
        lane_unwatch(lane, session->seat->doorbell_fds[lane->config.number]);
    lane_sweep_remove(lane, slot);
    calls_forget(lane->calls, slot, lane->now_us);
    lane_end_services(lane, slot);
    bulks_forget(calls_bulks(lane->calls), slot, lane->now_us);
    collects_forget(lane->collect.collects, slot, lane->now_us);
    lane_regions_forget(lane, slot, false);
    lane_spaces_forget(lane, slot, false);
    if (session->events_unsaid != 0)
        lane->lossy_count--;
    session->events_unsaid = 0;
    session->in_flight = 0;
}

void lane_session_close(struct lane *lane, uint32_t slot)
{
    struct lane_session *session = &lane->sessions[slot];
    const struct lane_seat *seat = session->seat;

    if (seat == NULL)
        return;
    store_session_close(lane->store, slot);
    /* The client holds the same eventfd: closing ours would leave it in the epoll. */
    if (seat->doorbell_fds != NULL)
        lane_unwatch(lane, seat->doorbell_fds[lane->config.number]);
    lane_sweep_remove(lane, slot);
    calls_forget(lane->calls, slot, lane->now_us);
    lane_end_services(lane, slot);
    bulks_forget(calls_bulks(lane->calls), slot, lane->now_us);
    collects_forget(lane->collect.collects, slot, lane->now_us);
    lane_regions_forget(lane, slot, true);
    lane_spaces_forget(lane, slot, true);
    if (session->events_unsaid != 0)
        lane->lossy_count--;
    if (session->expelled && !session->reported)
        lane->expelled_count--;
    session->seat = NULL; /* lane.dirty may still name it: lane_flush looks */
    session->in_flight = 0;
    session->events_unsaid = 0;
    session->expelled = session->reported = false;
}

nigh_status lane_session_reset(struct lane *lane, const struct lane_seat *seat)
{
    struct lane_session *session = &lane->sessions[seat->slot];
    nigh_status status;

    NIGH_ASSERT(session->seat == seat && !session->swept);
    status = lane_watch_doorbell(lane, seat);
    if (status != NIGH_OK)
        return status;
    store_session_reset(lane->store, seat->slot);
    lane_ring_zero(session, seat->slot);
    lane_sweep_add(lane, seat->slot);
    return NIGH_OK;
}

void lane_report_expelled(struct lane *lane)
{
    /* By slot: kept sessions, which are in no sweep, may be expelled too. */
    for (uint32_t slot = 0; slot < lane->config.max_sessions && lane->expelled_count > 0; slot++) {
        struct lane_session *session = &lane->sessions[slot];
        struct mailbox_message message = {.kind = LANE_EXPEL,
                                          .number = slot,
                                          .status = NIGH_EXPELLED,
                                          .lane = lane->config.number,
                                          .pointer = session->why};

        if (session->seat == NULL || !session->expelled || session->reported)
            continue;
        session->reported = true;
        lane->expelled_count--;
        if (lane->config.front != NULL) {
            lane->config.front->mail(lane->config.front->context, &message);
        } else if (lane->config.to_zero != NULL) {
            NIGH_ASSERT(mailbox_put(lane->config.to_zero, &message));
            lane->config.zero_wake(lane->config.zero_context);
        }
    }
}

/* ---- mail ----------------------------------------------------------------- */

static void lane_read_one(struct lane *lane, const struct mailbox_message *message)
{
    struct mailbox_message answer = {.number = message->number, .lane = lane->config.number};

    switch ((enum lane_mail)message->kind) {
    case LANE_PEER_UP:
    case LANE_PEER_LOST:
    case LANE_PEER_DEAD:
        lane_take_peer(lane, (enum lane_mail)message->kind, message->number, message->pointer);
        free((void *)(uintptr_t)message->pointer);
        return;
    case LANE_POOL_ADD:
        answer.kind = LANE_POOL_ADDED;
        answer.status = lane_pool_add(lane, message->pointer, false);
        break;
    case LANE_SESSION_OPEN:
        answer.kind = LANE_SESSION_OPENED;
        answer.status = lane_session_open(lane, message->pointer);
        break;
    case LANE_SESSION_CLOSE:
        lane_session_close(lane, message->number);
        answer.kind = LANE_SESSION_CLOSED;
        break;
    case LANE_SESSION_RESET:
        answer.kind = LANE_SESSION_RESET_DONE;
        answer.status = lane_session_reset(lane, message->pointer);
        break;
    case LANE_SESSION_REST:
        lane_session_rest(lane, message->number);
        answer.kind = LANE_SESSION_RESTED;
        break;
    case LANE_POOL_ADDED:
    case LANE_SESSION_RESTED:
    case LANE_SESSION_OPENED:
    case LANE_SESSION_CLOSED:
    case LANE_SESSION_RESET_DONE:
    case LANE_EXPEL: NIGH_ASSERT(!"mail for lane 0");
    }
    NIGH_ASSERT(mailbox_put(lane->config.to_zero, &answer));
    lane->config.zero_wake(lane->config.zero_context);
}

static bool lane_read_mail(struct lane *lane)
{
    struct mailbox_message message;
    bool any = false;

    if (lane->config.from_zero != NULL) {
        while (mailbox_take(lane->config.from_zero, &message)) {
            lane_read_one(lane, &message);
            any = true;
        }
    }
    if (lane->config.inboxes != NULL) {
        for (uint32_t i = 0; i + 1 < lane->config.lanes; i++) {
            while (mailbox_take(&lane->config.inboxes[i], &message)) {
                lane->config.front->mail(lane->config.front->context, &message);
                any = true;
            }
        }
    }
    return any;
}

void lane_post(struct lane *lane, const struct mailbox_message *message)
{
    NIGH_ASSERT(mailbox_put(lane->config.from_zero, message));
    shared_fence(); /* put before the look at whether it sleeps */
    if (shared_load_relaxed(&lane->config.page->lane[lane->config.number].asleep) != 0)
        lane_kick(lane);
}

/* ---- the turn ------------------------------------------------------------- */

static bool lane_sweep(struct lane *lane)
{
    bool worked = false;

    for (uint32_t i = 0; i < lane->open_count; i++) {
        if (unlikely(shared_load_relaxed(lane->ready[i]) != 0))
            worked |= lane_serve(lane, lane->slots[i]);
    }
    return worked;
}

/* *ticked: the front door had its time, and may have called anything. */
static bool lane_let_time_pass(struct lane *lane, bool worked, bool *ticked)
{
    bool any = false;

    if (worked || lane->now_us >= lane->store_due_us || store_wants_turn(lane->store)) {
        any = lane->now_us >= lane->store_due_us || store_wants_turn(lane->store);
        lane->store_due_us = store_tick(lane->store, lane->now_us);
    }
    if (unlikely(lane->lossy_count > 0) && lane->now_us >= lane->lossy_check_us) {
        lane_say_lost(lane);
        lane->lossy_check_us = lane->now_us + LANE_LOSSY_CHECK_US;
    }
    *ticked = lane->config.front != NULL && lane->now_us >= lane->front_due_us;
    if (*ticked)
        lane->front_due_us = lane->config.front->tick(lane->config.front->context, lane->now_us);
    return any;
}

/* The fabric's part of a turn. Before quiet_until_us, with nothing done in this turn, there can
 * only be what other nodes send. */
static bool lane_turn_exchange(struct lane *lane, bool worked)
{
    if (lane->exchange == NULL)
        return false;
    if (!worked && lane->now_us < lane->quiet_until_us)
        return exchange_look(lane->exchange, lane->now_us);
    return exchange_turn(lane->exchange, lane->now_us);
}

static bool lane_turn_calls_and_memories(struct lane *lane)
{
    bool any = lane_turn_calls(lane);

    any = lane_turn_regions(lane) || any;
    return lane_turn_spaces(lane) || any;
}

bool lane_turn(struct lane *lane, uint64_t now_us)
{
    bool worked, ticked;

    /* A guest looked at the clock before it came in, and another may have been here since. */
    now_us = max_u64(now_us, lane->now_us);
    lane->now_us = now_us;
    lane_count(&lane->counters.turns, 1);
    worked = lane_turn_views(lane);
    worked |= lane_sweep(lane);
    if (worked && lane->exchange != NULL)
        exchange_users_flush(lane->exchange);
    if (worked)
        lane_flush(lane);
    worked |= lane_read_mail(lane);
    worked |= lane_read_disk(lane);
    worked |= lane_turn_exchange(lane, worked);
    if (lane_turn_calls_and_memories(lane)) {
        worked = true;
        if (lane->exchange != NULL)
            exchange_users_flush(lane->exchange);
    }
    if (!worked && now_us < lane->quiet_until_us)
        return false;
    worked |= lane_let_time_pass(lane, worked, &ticked);
    lane_flush(lane);
    if (unlikely(lane->expelled_count > 0))
        lane_report_expelled(lane);
    lane->quiet_until_us = worked || ticked ? 0 : lane_due_us(lane);
    return worked;
}

uint64_t lane_due_us(const struct lane *lane)
{
    uint64_t due = lane->store_due_us;

    if (lane->lossy_count > 0)
        due = min_u64(due, lane->lossy_check_us);
    if (lane->config.front != NULL)
        due = min_u64(due, lane->front_due_us);
    if (lane->exchange != NULL)
        due = min_u64(due, exchange_due_us(lane->exchange));
    due = min_u64(due, calls_due_us(lane->calls));
    if (collects_are_due(lane->collect.collects))
        due = 0;
    due = min_u64(due, lane_pulls_due_us(lane));
    due = min_u64(due, lane_regions_due_us(lane));
    due = min_u64(due, lane_spaces_due_us(lane));
    if (lane->lease_us != 0)
        due = min_u64(due, lane->lease_us);
    return due;
}
