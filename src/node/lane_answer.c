/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a lane answers by itself, before the store hears of it: numbers, of which the store knows
 * only a part, and questions about other nodes.
 *
 * An answer to WHERE may come when its session is long over, and another has its place: each says
 * whose it is by the place and by how often that was begun anew.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "node/lane_internal.h"

/* ---- STATS ---------------------------------------------------------------- */

static void add_fabric(const struct fabric_counts *own, nigh_node_stats *stats)
{
    stats->device_requests += own->requests;
    stats->device_doorbells += own->doorbells;
    stats->device_signalled += own->signalled;
    stats->device_messages += own->messages;
    stats->device_wakes += own->wakes;
    stats->device_stock_lows += own->stock_lows;
    stats->link_copied_bytes += own->copied_bytes;
}

static void add_exchange(const struct lane *lane, nigh_node_stats *stats)
{
    struct exchange_stats own;

    if (lane->exchange == NULL)
        return;
    exchange_stats(lane->exchange, &own);
    stats->pulls += own.pulls_done;
    stats->pulls_failed += own.pulls_failed;
    stats->pulled_bytes_two_sided += own.pulled_bytes_two_sided;
    stats->pulled_bytes_one_sided += own.pulled_bytes_one_sided;
    stats->pulled_bytes_pushed += own.pulled_bytes_pushed;
    stats->served_bytes += own.served_bytes;
    stats->loans += own.loans_now;
    stats->loans_overdue += own.loans_overdue;
    stats->loans_partial += own.served_partial;
    stats->pulls_sent_on += own.sent_on;
    stats->checksum_failures += own.crc_failures;
    stats->conflicts += own.conflicts;
    stats->shares_refused += own.shares_refused;
    stats->claims_refused += own.claims_refused;
    stats->announcements_refused += own.announcements_refused;
    stats->links_up += own.links_up;
    stats->directory_keys += own.directory.keys;
    stats->replicas_wanted += own.replicas.wanted;
    stats->replicas_missing += own.replicas.missing;
    stats->replicas_made += own.replicas_made;
    stats->replicas_repaired += own.replicas.repaired;
    stats->replica_failures += own.replicas.failures;
    stats->replica_bytes += own.replica_bytes;
    stats->registrations += own.registrations;
    stats->call_frames_sent += own.calls_sent;
    stats->call_frames_written += own.calls_written;
    stats->call_rings_full += own.rings_full;
    stats->region_posts += own.region_posts;
    stats->region_post_bytes += own.region_post_bytes;
    stats->region_posts_low += own.region_posts_low;
    stats->region_ends += own.region_ends;
    stats->links_writing_calls += own.links_writing;
    add_fabric(&lane->config.fabric->counts, stats);
    stats->rdma_lanes += strcmp(lane->config.fabric->caps.name, "verbs") == 0 ? 1 : 0;
}

static void add_calls(const struct lane *lane, nigh_node_stats *stats)
{
    const struct calls_counts *counts = calls_counts(lane->calls);
    const struct bulks_counts *moves = bulks_counts(calls_bulks(lane->calls));

    stats->calls_begun += counts->begun;
    stats->calls_taken += counts->taken;
    stats->calls_timed_out += counts->timed_out;
    stats->calls_busy += counts->busy;
    stats->calls_lost += counts->lost;
    stats->calls_under_way += calls_under_way(lane->calls);
    stats->requests_unanswered += calls_unanswered(lane->calls);
    stats->calls_retried += counts->retried;
    stats->bulk_moves += moves->moves;
    stats->bulk_moves_failed += moves->failed;
    stats->bulk_pulled_bytes += moves->pulled_bytes;
    stats->bulk_pushed_bytes += moves->pushed_bytes;
}

static void add_collectives(const struct lane *lane, nigh_node_stats *stats)
{
    const struct collects_counts *counts = collects_counts(lane->collect.collects);

    stats->collectives_begun += counts->begun;
    stats->collectives_taken += counts->taken;
    stats->collectives_under_way += collects_under_way(lane->collect.collects);
    stats->collectives_stale += counts->stale;
    stats->collectives_refused += counts->refused;
    stats->collective_answers += counts->answered;
    stats->collective_failures += counts->failed;
}

static void answer_stats(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    struct lane_session *session = &lane->sessions[slot];
    struct session_cqe cqe = {.cookie = sqe->cookie, .pin = SESSION_NO_PIN};
    nigh_node_stats stats = {0};

    store_stats(lane->store, &stats);
    stats.turns += atomic_load_explicit(&lane->counters.turns, memory_order_relaxed);
    stats.sleeps += atomic_load_explicit(&lane->counters.sleeps, memory_order_relaxed);
    stats.wakes += atomic_load_explicit(&lane->counters.wakes, memory_order_relaxed);
    stats.events_lost += atomic_load_explicit(&lane->counters.events_lost, memory_order_relaxed);
    stats.lanes++; /* the client adds the lanes' answers up */
    add_exchange(lane, &stats);
    add_calls(lane, &stats);
    add_collectives(lane, &stats);
    lane_regions_count(lane, &stats);
    lane_spaces_count(lane, &stats);
    if (lane->config.number == 0 && lane->config.node_stats != NULL)
        lane->config.node_stats(lane->config.node_context, &stats);
    _Static_assert(sizeof(stats) <= LIMIT_REPLY_BYTES, "the reply area holds the statistics");
    cqe.data_size = store_write_stats(&stats, session->shared->reply);
    lane_on_complete(lane, slot, &cqe);
}

/* ---- NODES ---------------------------------------------------------------- */

static void tell_names(struct lane *lane, uint8_t *reply, struct session_cqe *cqe)
{
    struct session_name name;

    for (uint32_t n = 0;
         n < LIMIT_NODES && lane->config.node_name(lane->config.node_context, n, &name); n++) {
        if (name.name[0] != '\0' || name.refused != NIGH_OK) {
            memcpy(reply + cqe->data_size * sizeof(name), &name, sizeof(name));
            cqe->data_size++;
        }
    }
}

/* Lane 0 shares its thread with who knows the others. */
static void answer_nodes(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    struct lane_session *session = &lane->sessions[slot];
    struct session_cqe cqe = {.cookie = sqe->cookie, .pin = SESSION_NO_PIN};

    if (lane->config.number != 0 || (sqe->flags & ~SESSION_FLAG_NAMES) != 0) {
        cqe.status = NIGH_INVALID;
    } else if (lane->config.node_list == NULL) {
        cqe.status = NIGH_UNSUPPORTED;
    } else if ((sqe->flags & SESSION_FLAG_NAMES) != 0) {
        tell_names(lane, session->shared->reply, &cqe);
    } else {
        struct session_node node;

        while (cqe.data_size < LIMIT_NODES &&
               lane->config.node_list(lane->config.node_context, (uint32_t)cqe.data_size, &node)) {
            memcpy(session->shared->reply + cqe.data_size * sizeof(node), &node, sizeof(node));
            cqe.data_size++;
        }
    }
    lane_on_complete(lane, slot, &cqe);
}

/* ---- LINKS ---------------------------------------------------------------- */

static void tell_calls(const struct exchange_link_cost *costs, uint32_t count, uint8_t *reply)
{
    for (uint32_t n = 0; n < count; n++) {
        struct session_link_calls calls = {
            .way =
                costs[n].calls_way == LINK_WRITE ? NIGH_LINK_CALLS_WRITTEN : NIGH_LINK_CALLS_SENT,
            .sent_us = (uint32_t)min_u64(costs[n].calls_sent_us, UINT32_MAX),
            .written_us = (uint32_t)min_u64(costs[n].calls_written_us, UINT32_MAX)};

        memcpy(reply + n * sizeof(calls), &calls, sizeof(calls));
    }
}

static void tell_links(struct lane *lane, uint8_t *reply, struct session_cqe *cqe)
{
    struct exchange_link_cost *costs = calloc(SESSION_LINKS, sizeof(*costs));
    uint32_t count;

    if (costs == NULL) {
        cqe->status = NIGH_NO_RESOURCES;
        return;
    }
    count = exchange_links(lane->exchange, costs, SESSION_LINKS);
    for (uint32_t n = 0; n < count; n++) {
        struct session_link link = {.rank = costs[n].rank,
                                    .rail = costs[n].rail,
                                    .crossover_bytes = costs[n].crossover_bytes,
                                    .measured = costs[n].measured,
                                    .to_measure = costs[n].to_measure};

        memcpy(reply + n * sizeof(link), &link, sizeof(link));
    }
    tell_calls(costs, count, reply + count * sizeof(struct session_link));
    cqe->data_size = count;
    cqe->meta_size = sizeof(struct session_link_calls);
    free(costs);
}

static void answer_links(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    struct lane_session *session = &lane->sessions[slot];
    struct session_cqe cqe = {.cookie = sqe->cookie, .pin = SESSION_NO_PIN};
    bool measures = (sqe->flags & SESSION_FLAG_MEASURE) != 0;

    if ((sqe->flags & ~SESSION_FLAG_MEASURE) != 0) {
        cqe.status = NIGH_INVALID;
    } else if (measures && !session->seat->may_write) {
        cqe.status = NIGH_DENIED; /* it takes some of the network */
    } else if (lane->exchange == NULL) {
        cqe.status = NIGH_OK; /* a node that is alone has none */
    } else if (measures) {
        cqe.status = exchange_measure(lane->exchange, sqe->argument);
    } else {
        tell_links(lane, session->shared->reply, &cqe);
    }
    lane_on_complete(lane, slot, &cqe);
}

/* ---- WHERE ---------------------------------------------------------------- */

/* Whose question it is while it is under way, and whether the object is here. Nothing of it lies in
 * memory that a client can write. */
#define WHERE_SLOT_BITS 10
#define WHERE_HERE      (UINT64_C(1) << WHERE_SLOT_BITS)
#define WHERE_BEGUN     (WHERE_SLOT_BITS + 1)

_Static_assert(LIMIT_SESSIONS <= 1u << WHERE_SLOT_BITS, "the token has room for a slot");

static uint64_t where_token(const struct lane *lane, uint32_t slot, uint32_t cookie)
{
    uint32_t begun = lane->sessions[slot].begun << WHERE_BEGUN;

    return (uint64_t)cookie << 32 | begun | slot;
}

static void say_where(struct lane *lane, uint32_t slot, uint32_t cookie, bool here,
                      nigh_status status, const struct exchange_places *places)
{
    struct session_cqe cqe = {.cookie = cookie, .status = status, .pin = SESSION_NO_PIN};
    uint32_t self = lane->config.store.rank;
    uint32_t n = 0;

    _Static_assert(DIRECTORY_HOLDERS < SESSION_PLACES, "a completion names all that are told");
    if (status == NIGH_OK && here)
        session_set_place(&cqe, n++, self);
    for (uint32_t i = 0; status == NIGH_OK && i < places->count; i++) {
        if (places->ranks[i] != self)
            session_set_place(&cqe, n++, places->ranks[i]);
    }
    cqe.data_size = n;
    cqe.lease_offset = places->data_size;
    cqe.ref = self + 1;
    lane_on_complete(lane, slot, &cqe);
}

static void on_where(void *context, uint64_t token, nigh_status status,
                     const struct exchange_places *places)
{
    struct lane *lane = context;
    uint32_t slot = token & ((1u << WHERE_SLOT_BITS) - 1);
    uint32_t cookie = (uint32_t)(token >> 32);
    struct lane_session *session = &lane->sessions[slot];

    if (session->seat == NULL || !session->swept ||
        (token & ~WHERE_HERE) != where_token(lane, slot, cookie))
        return; /* who asked is gone */
    say_where(lane, slot, cookie, (token & WHERE_HERE) != 0, status, places);
}

static void answer_where(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    struct exchange_places places = {0};
    uint64_t token = where_token(lane, slot, sqe->cookie);
    uint64_t hash = hash_id20(sqe->id);
    uint32_t pool = lane->sessions[slot].seat->pool;
    struct store_sight sight;
    nigh_status status = NIGH_OK;
    bool here;

    if (sqe->flags != 0 || index_hash_lane(hash, lane->config.lanes) != lane->config.number) {
        say_where(lane, slot, sqe->cookie, false, NIGH_INVALID, &places);
        return;
    }
    here = store_see(lane->store, pool, sqe->id, hash, &sight);
    places.data_size = here ? sight.data_size : 0;
    if (lane->exchange != NULL)
        status = exchange_where(lane->exchange, pool, sqe->id, sqe->argument, lane->now_us, &places,
                                on_where, lane, token | (here ? WHERE_HERE : 0));
    if (status != NIGH_PENDING)
        say_where(lane, slot, sqe->cookie, here, status, &places);
}

/* ---- REPLICATE ------------------------------------------------------------ */

static void say_copies(struct lane *lane, uint32_t slot, uint32_t cookie, nigh_status status,
                       uint32_t copies)
{
    struct session_cqe cqe = {
        .cookie = cookie, .status = status, .data_size = copies, .pin = SESSION_NO_PIN};

    lane_on_complete(lane, slot, &cqe);
}

static void on_copies(void *context, uint64_t token, nigh_status status, uint32_t copies)
{
    struct lane *lane = context;
    uint32_t slot = token & ((1u << WHERE_SLOT_BITS) - 1);
    uint32_t cookie = (uint32_t)(token >> 32);
    const struct lane_session *session = &lane->sessions[slot];

    if (session->seat == NULL || !session->swept || token != where_token(lane, slot, cookie))
        return; /* who asked is gone */
    say_copies(lane, slot, cookie, status, copies);
}

static void answer_replicate(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    const struct lane_session *session = &lane->sessions[slot];
    struct exchange_copies asked = {
        .wanted = (uint32_t)sqe->ref,
        .deadline_us = clock_deadline_us(lane->now_us, sqe->argument),
        .done = on_copies,
        .context = lane,
        .token = where_token(lane, slot, sqe->cookie),
    };
    uint64_t hash = hash_id20(sqe->id);
    struct store_sight sight;
    nigh_status status;
    bool here;

    if (sqe->flags != 0 || sqe->ref < 2 || sqe->ref > LIMIT_REPLICAS ||
        index_hash_lane(hash, lane->config.lanes) != lane->config.number) {
        say_copies(lane, slot, sqe->cookie, NIGH_INVALID, 0);
        return;
    }
    if (!session->seat->may_write) {
        say_copies(lane, slot, sqe->cookie, NIGH_DENIED, 0);
        return;
    }
    here = store_see(lane->store, session->seat->pool, sqe->id, hash, &sight);
    status = here ? NIGH_TOO_FEW : NIGH_NOT_FOUND; /* where there are no other nodes */
    if (here && lane->exchange != NULL)
        status =
            exchange_replicate(lane->exchange, session->seat->pool, sqe->id, &asked, lane->now_us);
    if (status != NIGH_PENDING)
        say_copies(lane, slot, sqe->cookie, status, here ? 1 : 0);
}

/* ---- LEAVE ---------------------------------------------------------------- */

bool lane_leaves(const struct lane *lane)
{
    struct exchange_leaving now = {0};

    if (lane->exchange != NULL)
        exchange_leaving(lane->exchange, &now);
    return now.leaves;
}

static void tell_leaving(struct lane *lane, uint8_t *reply)
{
    struct exchange_leaving now;
    struct session_leaving said;

    _Static_assert(SESSION_LEAVE_WHYS == (uint32_t)EXCHANGE_LEAVE_WHYS &&
                       (uint32_t)NIGH_LEAVE_FAILED == (uint32_t)EXCHANGE_LEAVE_FAILED,
                   "reasons are the public ones");
    exchange_leaving(lane->exchange, &now);
    said = (struct session_leaving){
        .leaves = now.leaves,
        .looks = now.looks,
        .waiting = {now.waiting.objects, now.waiting.bytes},
        .safe = {now.safe.objects, now.safe.bytes},
        .stuck = {now.stuck.objects, now.stuck.bytes},
        .alone = {now.alone.objects, now.alone.bytes},
        .unsealed = store_unsealed(lane->store),
    };
    if (lane->config.views != NULL && views_is_leaving(lane->config.views)) {
        said.looks = true;
    }
    memcpy(said.why, now.why, sizeof(said.why));
    memcpy(reply, &said, sizeof(said));
}

static void answer_leave(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    struct lane_session *session = &lane->sessions[slot];
    struct session_cqe cqe = {.cookie = sqe->cookie, .pin = SESSION_NO_PIN};
    uint32_t uid = session->seat->uid;

    if (sqe->flags != 0 || sqe->argument > NIGH_LEAVE_UNDO) {
        cqe.status = NIGH_INVALID;
    } else if (sqe->argument != NIGH_LEAVE_LOOK && uid != 0 && uid != lane->config.own_uid) {
        cqe.status = NIGH_DENIED;
    } else if (lane->exchange == NULL) {
        cqe.status = NIGH_TOO_FEW; /* a node that is alone */
    } else {
        if (sqe->argument != NIGH_LEAVE_LOOK) {
            exchange_leave(lane->exchange, sqe->argument == NIGH_LEAVE_BEGIN, lane->now_us);
            if (lane->config.views != NULL) {
                views_leave(lane->config.views, sqe->argument == NIGH_LEAVE_BEGIN);
            }
        }
        tell_leaving(lane, session->shared->reply);
    }
    lane_on_complete(lane, slot, &cqe);
}

/* ---- FORGET --------------------------------------------------------------- */

/* It is decided by others, and asked for until it is: who goes meanwhile leaves nothing. */
static void answer_forget(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    struct session_cqe cqe = {.cookie = sqe->cookie, .pin = SESSION_NO_PIN};
    uint32_t uid = lane->sessions[slot].seat->uid;
    nigh_status status = NIGH_OK;

    if (lane->config.number != 0 || sqe->flags != 0 || sqe->argument > UINT32_MAX) {
        status = NIGH_INVALID;
    } else if (uid != 0 && uid != lane->config.own_uid) {
        status = NIGH_DENIED;
    } else if (lane->config.forget == NULL) {
        status = NIGH_UNSUPPORTED;
    } else if (lane->config.forget(lane->config.node_context, (uint32_t)sqe->argument, &status)) {
        cqe.data_size = 1;
    }
    cqe.status = status;
    lane_on_complete(lane, slot, &cqe);
}

/* ---- all of them ---------------------------------------------------------- */

bool lane_answer(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    switch (sqe->op) {
    case SESSION_OP_STATS: answer_stats(lane, slot, sqe); return true;
    case SESSION_OP_NODES: answer_nodes(lane, slot, sqe); return true;
    case SESSION_OP_LINKS: answer_links(lane, slot, sqe); return true;
    case SESSION_OP_WHERE: answer_where(lane, slot, sqe); return true;
    case SESSION_OP_REPLICATE: answer_replicate(lane, slot, sqe); return true;
    case SESSION_OP_LEAVE: answer_leave(lane, slot, sqe); return true;
    case SESSION_OP_FORGET: answer_forget(lane, slot, sqe); return true;
    case SESSION_OP_CALL: lane_call(lane, slot, sqe); return true;
    case SESSION_OP_BULK: lane_bulk(lane, slot, sqe); return true;
    case SESSION_OP_BULK_MAKE: lane_bulk_make(lane, slot, sqe); return true;
    case SESSION_OP_BULK_WAIT: lane_bulk_wait(lane, slot, sqe); return true;
    case SESSION_OP_COLLECT: lane_collect(lane, slot, sqe); return true;
    case SESSION_OP_REPLY: lane_reply(lane, slot, sqe); return true;
    case SESSION_OP_SERVICE_OPEN:
    case SESSION_OP_SERVICE_CLOSE: lane_service(lane, slot, sqe); return true;
    case SESSION_OP_RECEIVE: lane_receive(lane, slot, sqe); return true;
    case SESSION_OP_REGION: lane_region(lane, slot, sqe); return true;
    case SESSION_OP_SPACE: lane_space(lane, slot, sqe); return true;
    case SESSION_OP_SHOW: lane_show(lane, slot, sqe); return true;
    case SESSION_OP_CANCEL: return lane_cancel_call(lane, slot, sqe);
    default: return false;
    }
}
