/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a lane shows of itself to who looks after the node: SESSION_OP_SHOW (docs/page.md). Each
 * answer reads what is kept already, or walks what session_show.h bounds.
 *
 * Records tell of all pools, whoever may read them: so only root and the node's own uid may ask.
 */
#include <string.h>

#include "node/lane_internal.h"

static void put(const struct lane_session *session, uint32_t n, const void *record, size_t bytes)
{
    memcpy(session->shared->reply + n * bytes, record, bytes);
}

/* Lane 0 knows the rules of pools, too. */
static void show_pools(const struct lane *lane, const struct lane_session *session,
                       struct session_cqe *cqe)
{
    struct session_show_pool pools[LIMIT_POOLS];
    uint32_t count = store_show_pools(lane->store, pools);

    for (uint32_t n = 0; n < count; n++) {
        if (lane->config.number == 0 && lane->config.node_pool != NULL)
            lane->config.node_pool(lane->config.node_context, pools[n].pool, &pools[n]);
        put(session, n, &pools[n], sizeof(pools[n]));
    }
    cqe->data_size = count;
}

static void show_hottest(struct lane *lane, const struct lane_session *session,
                         struct session_cqe *cqe)
{
    struct session_show_object objects[SESSION_SHOW_OBJECTS];
    uint32_t count = 0;
    uint64_t seen = 0;

    cqe->status = store_show_hottest(lane->store, lane->now_us, objects, &count, &seen);
    for (uint32_t n = 0; n < count; n++)
        put(session, n, &objects[n], sizeof(objects[n]));
    cqe->data_size = count;
    cqe->lease_offset = seen;
}

static void show_transfers(struct lane *lane, const struct lane_session *session,
                           struct session_cqe *cqe)
{
    struct session_show_transfer
        transfers[SESSION_SHOW_TRANSFERS_NOW + SESSION_SHOW_TRANSFERS_PAST];
    uint32_t count = 0;
    uint64_t left = 0;

    if (lane->exchange != NULL)
        count = exchange_show_transfers(lane->exchange, lane->now_us, transfers, &left);
    for (uint32_t n = 0; n < count; n++)
        put(session, n, &transfers[n], sizeof(transfers[n]));
    cqe->data_size = count;
    cqe->lease_offset = left;
}

static void show_curves(const struct lane *lane, const struct lane_session *session, uint64_t from,
                        struct session_cqe *cqe)
{
    struct session_show_curve curves[SESSION_SHOW_LINKS];
    uint32_t count = 0;
    uint64_t next = 0;

    if (lane->exchange != NULL)
        count = exchange_show_curves(lane->exchange, from, curves, &next);
    for (uint32_t n = 0; n < count; n++)
        put(session, n, &curves[n], sizeof(curves[n]));
    cqe->data_size = count;
    cqe->generation = next;
}

static void show_calls(const struct lane *lane, const struct lane_session *session,
                       struct session_cqe *cqe)
{
    const struct calls_counts *counts = calls_counts(lane->calls);

    _Static_assert(sizeof(struct calls_times) == sizeof(struct session_show_times) &&
                       CALLS_TIMES == SESSION_TIMES_BUCKETS,
                   "times are shown as they are kept");
    put(session, SESSION_TIMES_HERE, &counts->here, sizeof(counts->here));
    put(session, SESSION_TIMES_THERE, &counts->there, sizeof(counts->there));
    put(session, SESSION_TIMES_SERVED, &counts->served, sizeof(counts->served));
    cqe->data_size = SESSION_TIMES;
}

void lane_show(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    const struct lane_session *session = &lane->sessions[slot];
    struct session_cqe cqe = {.cookie = sqe->cookie, .pin = SESSION_NO_PIN};
    uint32_t uid = session->seat->uid;

    if (sqe->flags != 0 || sqe->argument >= SESSION_SHOW_WHATS) {
        cqe.status = NIGH_INVALID;
    } else if (uid != 0 && uid != lane->config.own_uid) {
        cqe.status = NIGH_DENIED;
    } else {
        switch ((enum session_show_what)sqe->argument) {
        case SESSION_SHOW_POOLS: show_pools(lane, session, &cqe); break;
        case SESSION_SHOW_HOTTEST: show_hottest(lane, session, &cqe); break;
        case SESSION_SHOW_TRANSFERS: show_transfers(lane, session, &cqe); break;
        case SESSION_SHOW_CURVES: show_curves(lane, session, sqe->ref, &cqe); break;
        default: show_calls(lane, session, &cqe); break;
        }
    }
    lane_on_complete(lane, slot, &cqe);
}
