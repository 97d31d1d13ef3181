/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session may have of regions in a second, where the node says so (docs/qos.md): bytes, and
 * operations. What is more is not refused: it is begun later, in the order in which it was asked
 * for, if its deadline is not over by then.
 */
#include "node/lane_regions.h"

void lane_region_limits_init(struct lane_regions *at)
{
    const struct lane_config *config = &at->lane->config;

    list_init(&at->limited);
    at->has_limits = config->session_rate_bytes != 0 || config->session_rate_ops != 0;
}

void lane_region_limits_session(const struct lane_regions *at, struct lane_region_session *session)
{
    const struct lane_config *config = &at->lane->config;

    list_init(&session->held);
    rate_init(&session->bytes, config->session_rate_bytes, LIMIT_RATE_BURST_US);
    rate_init(&session->operations, config->session_rate_ops, LIMIT_RATE_BURST_US);
}

static uint64_t due_us(const struct lane_region_session *session)
{
    return max_u64(rate_due_us(&session->bytes), rate_due_us(&session->operations));
}

static void take(struct lane_regions *at, struct lane_region_session *session,
                 const struct region_io *io)
{
    bool has_bytes = io->what == SESSION_REGION_READ || io->what == SESSION_REGION_WRITE ||
                     io->what == SESSION_REGION_FILL;

    rate_take(&session->operations, 1, at->lane->now_us);
    if (has_bytes)
        rate_take(&session->bytes, io->op.op.length_bytes, at->lane->now_us);
}

bool lane_region_limit(struct lane_regions *at, struct region_io *io)
{
    struct lane_region_session *session = at->sessions[io->slot];

    if (list_empty(&session->held) && due_us(session) <= at->lane->now_us) {
        take(at, session, io);
        return false;
    }
    list_push_back(&session->held, &io->held);
    if (!list_is_linked(&session->link))
        list_push_back(&at->limited, &session->link);
    at->counts.operations_held++;
    return true;
}

static void hold_no_more(struct lane_region_session *session, struct region_io *io)
{
    list_remove(&io->held);
    if (list_empty(&session->held))
        list_remove(&session->link);
}

bool lane_region_limit_end(struct lane_regions *at, struct region_io *io, nigh_status status)
{
    if (!list_is_linked(&io->held))
        return false;
    hold_no_more(at->sessions[io->slot], io);
    lane_region_ended(at, &io->op, status);
    return true;
}

bool lane_region_limits_turn(struct lane_regions *at)
{
    bool any = false;

    LIST_FOREACH_SAFE(node, &at->limited)
    {
        struct lane_region_session *session = container_of(node, struct lane_region_session, link);

        while (!list_empty(&session->held) && due_us(session) <= at->lane->now_us) {
            struct region_io *io = container_of(list_first(&session->held), struct region_io, held);

            hold_no_more(session, io);
            take(at, session, io);
            regions_begin(io->use->region, &io->op);
            any = true;
        }
    }
    return any;
}

uint64_t lane_region_limits_due_us(const struct lane_regions *at)
{
    uint64_t first_us = UINT64_MAX;

    LIST_FOREACH(node, &at->limited)
    {
        first_us = min_u64(first_us, due_us(container_of(node, struct lane_region_session, link)));
    }
    return first_us;
}
