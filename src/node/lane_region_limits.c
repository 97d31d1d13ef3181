/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session may have of regions in a second, where the node says so (docs/qos.md): bytes, and
 * operations, of which a change and a page of a list are one each. What is more is not refused: it
 * is begun later, in the order in which it was asked for, if its deadline is not over by then.
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

static struct region_io *io_of(struct region_wait *wait)
{
    return container_of(wait, struct region_io, wait);
}

static struct region_asked *asked_of(struct region_wait *wait)
{
    return container_of(wait, struct region_asked, wait);
}

static struct region_list *list_of(struct region_wait *wait)
{
    return container_of(wait, struct region_list, wait);
}

static struct lane_region_session *session_of(const struct lane_regions *at,
                                              struct region_wait *wait)
{
    switch (wait->kind) {
    case REGION_WAIT_ASK: return at->sessions[asked_of(wait)->slot];
    case REGION_WAIT_LIST: return at->sessions[list_of(wait)->slot];
    default: return at->sessions[io_of(wait)->slot];
    }
}

static uint64_t bytes_of(struct region_wait *wait)
{
    const struct region_io *io = wait->kind == REGION_WAIT_IO ? io_of(wait) : NULL;
    bool has_bytes =
        io != NULL && (io->what == SESSION_REGION_READ || io->what == SESSION_REGION_WRITE ||
                       io->what == SESSION_REGION_FILL);

    /* What is pushed is read and written. */
    return has_bytes ? io->op.op.length_bytes * (io->pushes ? 2 : 1) : 0;
}

static void take(struct lane_regions *at, struct lane_region_session *session,
                 struct region_wait *wait)
{
    rate_take(&session->operations, 1, at->lane->now_us);
    rate_take(&session->bytes, bytes_of(wait), at->lane->now_us);
}

bool lane_region_limit(struct lane_regions *at, struct region_wait *wait)
{
    struct lane_region_session *session = session_of(at, wait);

    if (list_empty(&session->held) && due_us(session) <= at->lane->now_us) {
        take(at, session, wait);
        return false;
    }
    list_push_back(&session->held, &wait->held);
    if (!list_is_linked(&session->link))
        list_push_back(&at->limited, &session->link);
    at->counts.operations_held++;
    return true;
}

static void hold_no_more(struct lane_region_session *session, struct region_wait *wait)
{
    list_remove(&wait->held);
    if (list_empty(&session->held))
        list_remove(&session->link);
}

bool lane_region_limit_end(struct lane_regions *at, struct region_wait *wait)
{
    if (!list_is_linked(&wait->held))
        return false;
    hold_no_more(session_of(at, wait), wait);
    return true;
}

static void begin(struct lane_regions *at, struct region_wait *wait)
{
    switch (wait->kind) {
    case REGION_WAIT_ASK: lane_region_ask_go(at, asked_of(wait)); break;
    case REGION_WAIT_LIST: lane_region_list_go(at, list_of(wait)); break;
    default: regions_begin(io_of(wait)->use->region, &io_of(wait)->op); break;
    }
}

bool lane_region_limits_turn(struct lane_regions *at)
{
    bool any = false;

    LIST_FOREACH_SAFE(node, &at->limited)
    {
        struct lane_region_session *session = container_of(node, struct lane_region_session, link);

        while (!list_empty(&session->held) && due_us(session) <= at->lane->now_us) {
            struct region_wait *wait =
                container_of(list_first(&session->held), struct region_wait, held);

            hold_no_more(session, wait);
            take(at, session, wait);
            begin(at, wait);
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
