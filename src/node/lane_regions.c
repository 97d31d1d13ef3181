/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions (docs/regions.md), as lane 0 serves them for its node: what goes between it and other
 * members' lanes 0, which view it goes by, and its part of a turn.
 *
 * Frames of regions go over the channel for calls, one-way and in order. A node that is alone goes
 * by a view of itself, for ever. A cluster that agrees on no views has no regions: nobody would
 * tell a node that was taken for dead, and comes back, what was freed or revoked meanwhile.
 */
#include "node/lane_regions.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "region/letter.h"

#define LOG_MODULE "regions"
#include "base/log.h"

_Static_assert(REGION_LETTER_BYTES <= CALLS_PAYLOAD && REGION_ASK_BYTES <= CALLS_PAYLOAD &&
                   REGION_LIST_BYTES <= CALLS_PAYLOAD,
               "a channel for calls carries them");

#define REGION_TIMERS                                                                        \
    (LIMIT_REGION_IOS + LIMIT_REGION_ASKED + LIMIT_REGION_ASKED_PEERS + LIMIT_REGION_HOLDS + \
     LIMIT_REGION_COPIES + LIMIT_REGION_LISTS)

/* ---- members -------------------------------------------------------------- */

uint32_t lane_regions_home(const struct lane_regions *at, uint64_t hash)
{
    const struct lane *lane = at->lane;

    if (lane->config.fabric == NULL || agreed_size(&at->in) == 0)
        return lane_regions_self(lane);
    return members_home_in(lane->config.exchange.members, &at->in, hash);
}

static uint32_t on_home(void *context, uint64_t hash)
{
    return lane_regions_home(context, hash);
}

/* A rank that a peer said may be none. */
struct link *lane_regions_link(const struct lane_regions *at, uint32_t rank)
{
    struct exchange *exchange = at->is_ending ? NULL : at->lane->exchange;
    struct rpc *channel = NULL;

    if (exchange != NULL && rank < at->lane->config.exchange.members->count)
        channel = exchange_users_channel(exchange, rank, 0);
    return channel == NULL ? NULL : link_of_calls(channel);
}

/* Whoever is at the other end of a link to another incarnation has, or had, a key and an address of
 * its own like those: what is posted would land there. */
struct link *lane_regions_link_to(const struct lane_regions *at, const struct region_place *place)
{
    struct link *link = lane_regions_link(at, place->node);

    return link != NULL && link_peer_incarnation(link) == place->incarnation ? link : NULL;
}

static uint16_t method_of(enum regions_frame frame)
{
    switch (frame) {
    case REGIONS_VIEW: return CALLS_METHOD_REGION_VIEW;
    case REGIONS_LETTER: return CALLS_METHOD_REGION_LETTER;
    case REGIONS_TOLD: break;
    }
    return CALLS_METHOD_REGION_TOLD;
}

static bool on_send(void *context, uint32_t rank, enum regions_frame frame, const uint8_t *bytes,
                    uint32_t count)
{
    struct lane_regions *at = context;
    struct link *link = lane_regions_link(at, rank);
    struct rpc_piece piece = {.data = bytes, .bytes = count};

    if (link == NULL ||
        rpc_one_way(link_calls(link), method_of(frame), &piece, 1, at->lane->now_us) != NIGH_OK)
        return false;
    at->has_said = true;
    return true;
}

/* Whether a link joins the lanes 0 of two nodes. */
static bool is_ours(const struct lane *lane, struct link *link)
{
    return lane->regions != NULL && link_rail(link) == 0;
}

void lane_regions_link_up(struct lane *lane, struct link *link)
{
    struct lane_regions *at = lane->regions;
    uint32_t rank = link_rank(link);

    if (!is_ours(lane, link))
        return;
    agreed_put(&at->dead, rank, false);
    agreed_put(&at->list_silent, rank, false);
    regions_alive(at->regions, rank, link_peer_incarnation(link));
    regions_link(at->regions, rank, true);
    lane_regions_tell(at);
    lane_regions_again(at);
}

void lane_regions_link_down(struct lane *lane, struct link *link)
{
    struct lane_regions *at = lane->regions;

    if (!is_ours(lane, link))
        return;
    regions_link(at->regions, link_rank(link), false);
    lane_region_asks_link_down(at, link);
    lane_region_pushes_link_down(at, link);
    lane_regions_tell(at);
}

void lane_regions_dead(struct lane *lane, uint32_t rank)
{
    struct lane_regions *at = lane->regions;

    if (at == NULL)
        return;
    agreed_put(&at->dead, rank, true); /* for good when it is in no view any more */
    lane_region_posts_dead(at, rank);
    lane_regions_tell(at);
    lane_regions_again(at);
}

void lane_regions_view(struct lane *lane, const struct agreed *agreed)
{
    struct lane_regions *at = lane->regions;
    struct region_set in;

    _Static_assert(sizeof(in) == sizeof(agreed->in), "a set is a set");
    if (at == NULL || agreed->epoch == 0)
        return;
    at->in = agreed->in;
    memcpy(&in, &agreed->in, sizeof(in));
    if (!agreed_has(&at->in, lane_regions_self(lane)))
        regions_drop(at->regions); /* the others take what is here for lost */
    regions_view(at->regions, agreed->epoch, &in);
    lane_region_lists_view(at);
    lane_regions_tell(at);
    lane_regions_again(at);
}

void lane_regions_lease(struct lane *lane, bool has_lease)
{
    if (lane->regions == NULL)
        return;
    regions_lease(lane->regions->regions, has_lease);
    lane_regions_tell(lane->regions);
}

bool lane_regions_hear(struct lane *lane, struct link *link, const struct rpc_request *request)
{
    struct lane_regions *at = lane->regions;
    uint32_t rank = link_rank(link);
    nigh_status status = NIGH_OK;

    if (request->method < CALLS_METHOD_REGION_VIEW || request->method > CALLS_METHOD_REGION_PUT)
        return false;
    if (!is_ours(lane, link) ||
        (request->call != 0) != (request->method >= CALLS_METHOD_REGION_ASK)) {
        link_break(link, NIGH_PROTOCOL, lane->now_us);
        return true;
    }
    switch (request->method) {
    case CALLS_METHOD_REGION_VIEW:
        status = regions_receive(at->regions, rank, REGIONS_VIEW, request->payload, request->bytes);
        break;
    case CALLS_METHOD_REGION_LETTER:
        status =
            regions_receive(at->regions, rank, REGIONS_LETTER, request->payload, request->bytes);
        break;
    case CALLS_METHOD_REGION_TOLD:
        status = regions_receive(at->regions, rank, REGIONS_TOLD, request->payload, request->bytes);
        break;
    case CALLS_METHOD_REGION_PUSH: lane_region_hear_push(at, link, request); break;
    case CALLS_METHOD_REGION_PUT: lane_region_hear_put(at, link, request); break;
    case CALLS_METHOD_REGION_LIST: lane_region_hear_list(at, link, request); break;
    default: lane_region_hear_ask(at, link, request); break;
    }
    if (status != NIGH_OK) {
        LOG_WARN("what a member said of regions was not taken: its link is broken",
                 "rank=%u status=%s do=\"nothing: the link is made anew; if it comes again, run "
                 "the same nighd at all nodes\"",
                 rank, nigh_status_name(status));
        link_break(link, status, lane->now_us);
    }
    lane_regions_tell(at);
    return true;
}

/* ---- turns ---------------------------------------------------------------- */

void lane_regions_again(struct lane_regions *at)
{
    at->again_us = min_u64(at->again_us, at->lane->now_us + LIMIT_REGION_AGAIN_US);
}

void lane_regions_tell(struct lane_regions *at)
{
    do {
        lane_region_chunks_tell(at);
        lane_region_ops_tell(at);
        lane_region_locks_tell(at);
        lane_region_barriers_tell(at);
    } while (!lane_region_chunks_are_over(at) || !lane_region_ops_are_over(at) ||
             !lane_region_locks_are_over(at) || !lane_region_barriers_are_over(at));
}

static void end_wait(struct lane_regions *at, struct region_wait *wait)
{
    switch (wait->kind) {
    case REGION_WAIT_IO:
        lane_region_io_end(at, container_of(wait, struct region_io, wait), NIGH_TIMEOUT);
        break;
    case REGION_WAIT_ASK:
        lane_region_ask_end(at, container_of(wait, struct region_asked, wait), NIGH_TIMEOUT);
        break;
    case REGION_WAIT_TERM:
        lane_region_guard_expire(at, container_of(wait, struct region_guard, term));
        break;
    case REGION_WAIT_COPY:
        lane_region_copy_end(at, container_of(wait, struct region_copy, wait), NIGH_TIMEOUT);
        break;
    case REGION_WAIT_LIST:
        lane_region_list_end(at, container_of(wait, struct region_list, wait), NIGH_TIMEOUT);
        break;
    }
}

static bool end_overdue(struct lane_regions *at)
{
    struct timer *timer;
    bool any = false;

    while ((timer = timers_pop_expired(&at->timers, at->lane->now_us)) != NULL) {
        struct region_wait *wait = container_of(timer, struct region_wait, timer);

        end_wait(at, wait);
        any = true;
    }
    return any;
}

static bool retry(struct lane_regions *at)
{
    if (at->lane->now_us < at->again_us)
        return false;
    at->again_us = UINT64_MAX;
    lane_region_chunks_retry(at);
    lane_region_posts_retry(at);
    lane_region_copies_retry(at);
    lane_region_pushes_retry(at);
    lane_region_asks_retry(at);
    lane_region_lists_retry(at);
    return true;
}

/* Homes wait between one and two times as long. */
static void hold(struct lane_regions *at)
{
    if (!regions_are_holding(at->regions)) {
        at->held_us = UINT64_MAX;
    } else if (at->held_us == UINT64_MAX) {
        at->held_us = at->lane->now_us + LIMIT_REGION_HOLD_US;
    } else if (at->lane->now_us >= at->held_us) {
        regions_held(at->regions);
        at->held_us = at->lane->now_us + LIMIT_REGION_HOLD_US;
    }
}

/* What is said in it leaves in it; letters that its end brings, in the next one. */
bool lane_turn_regions(struct lane *lane)
{
    struct lane_regions *at = lane->regions;
    const struct regions_counts *counts;
    uint64_t letters;
    bool any;

    if (at == NULL)
        return false;
    at->has_said = false;
    any = lane_region_chunks_turn(at);
    any = end_overdue(at) || any;
    any = retry(at) || any;
    any = lane_region_limits_turn(at) || any;
    any = lane_region_posts_turn(at) || any;
    any = lane_region_copies_turn(at) || any;
    any = lane_region_pushes_turn(at) || any;
    any = lane_region_news_turn(at) || any;
    any = lane_region_lists_turn(at) || any;
    hold(at);
    lane_regions_tell(at);
    counts = regions_counts(at->regions);
    letters = counts->letters;
    any = regions_turn(at->regions) || any;
    if (regions_are_short(at->regions))
        lane_regions_again(at);
    lane_regions_tell(at);
    if (lane->exchange != NULL)
        exchange_flush(lane->exchange);
    return any || at->has_said || counts->letters != letters;
}

uint64_t lane_regions_due_us(const struct lane *lane)
{
    const struct lane_regions *at = lane->regions;

    if (at == NULL)
        return UINT64_MAX;
    if (!list_empty(&at->copies_due) || !list_empty(&at->lists_due) || at->pushes_due ||
        !list_empty(&at->news) || lane_region_posts_wait_here(at))
        return at->lane->now_us;
    return min_u64(min_u64(timers_first_deadline(&at->timers), at->again_us),
                   min_u64(at->held_us, lane_region_limits_due_us(at)));
}

void lane_regions_count(const struct lane *lane, nigh_node_stats *stats)
{
    const struct lane_regions *at = lane->regions;
    const struct regions_counts *counts = at == NULL ? NULL : regions_counts(at->regions);

    if (at == NULL)
        return;
    stats->region_chunks += at->here_count;
    stats->region_memory_bytes += region_memories_bytes(at->memories);
    stats->region_memory_limit_bytes += lane->config.region_memory_bytes;
    stats->region_homes += counts->homes;
    stats->regions_mapped += counts->mappings;
    stats->region_operations += at->counts.operations;
    stats->region_parts_here += at->counts.parts_here;
    stats->region_parts_there += at->counts.parts_there;
    stats->region_parts_refused += at->counts.parts_refused;
    stats->region_bytes_read += at->counts.bytes_read;
    stats->region_bytes_written += at->counts.bytes_written;
    stats->region_parts_waited += at->counts.parts_waited;
    stats->region_operations_held += at->counts.operations_held;
    stats->region_low_limit_bytes += qos_low_limit(&at->qos);
    stats->region_maps += at->map_count;
    stats->region_kept_bytes += at->kept_bytes;
    stats->region_bytes_pushed += at->counts.bytes_pushed;
}

/* ---- create, destroy ------------------------------------------------------ */

/* By the memory's thread: a piece can be taken. */
static void on_memory(void *context)
{
    struct lane *lane = context;

    shared_fence(); /* said before the look at whether the lane sleeps */
    if (shared_load_relaxed(&lane->config.page->lane[lane->config.number].asleep) != 0)
        lane_kick(lane);
}

static nigh_status make_machines(struct lane_regions *at)
{
    const struct lane *lane = at->lane;
    struct regions_config config = {
        .self = lane_regions_self(lane),
        .incarnation = lane->config.store.incarnation,
        .nodes = lane_regions_ranks(lane),
        .names = LIMIT_REGION_NAMES,
        .shell = {.context = at,
                  .home = on_home,
                  .send = on_send,
                  .act = lane_region_act,
                  .post = lane_region_post,
                  .judge = lane_region_judge,
                  .ended = lane_region_ended,
                  .answered = lane_region_answered,
                  .locked = lane_region_locked,
                  .wanted = lane_region_wanted,
                  .passed = lane_region_passed,
                  .told = lane_region_told},
    };

    (void)random_system_seed(&config.seed);
    return regions_create(&config, &at->regions);
}

/* A view of this node, for ever. */
static void begin_alone(struct lane *lane)
{
    struct agreed agreed = {.epoch = 1};

    agreed.in = agreed_all(1);
    lane_regions_view(lane, &agreed);
    lane_regions_lease(lane, true);
}

static void init_shares(struct lane_regions *at)
{
    struct session_shares *shares = &at->shares;

    session_shares_init(shares, at->lane->config.max_sessions);
    session_shares_table(shares, REGION_TABLE_IOS, LIMIT_REGION_IOS, LIMIT_REGION_IOS_OWN);
    session_shares_table(shares, REGION_TABLE_HOLDS, LIMIT_REGION_HOLDS, LIMIT_REGION_HOLDS_OWN);
    session_shares_table(shares, REGION_TABLE_ASKED, LIMIT_REGION_ASKED, LIMIT_REGION_ASKED_OWN);
    session_shares_table(shares, REGION_TABLE_LISTS, LIMIT_REGION_LISTS, 0);
    session_shares_table(shares, REGION_TABLE_MAPS, LIMIT_REGION_MAPS, LIMIT_REGION_MAPS_OWN);
    session_shares_table(shares, REGION_TABLE_COPIES, LIMIT_REGION_COPIES, LIMIT_REGION_COPIES_OWN);
    session_shares_table(shares, REGION_TABLE_BUFFERS,
                         LIMIT_REGION_BUFFERS + 2 * LIMIT_REGION_BUFFERS_OWN * shares->sessions,
                         LIMIT_REGION_BUFFERS_OWN);
    share_init(&at->peers_asked, LIMIT_REGION_ASKED_PEERS, lane_regions_ranks(at->lane));
    share_init(&at->peers_pushing, LIMIT_REGION_PUSHES, lane_regions_ranks(at->lane));
}

nigh_status lane_open_regions(struct lane *lane)
{
    struct lane_regions *at;
    nigh_status status = NIGH_NO_RESOURCES;

    if (lane->config.number != 0)
        return NIGH_OK;
    at = calloc(1, sizeof(*at));
    if (at == NULL)
        return NIGH_NO_RESOURCES;
    at->lane = lane;
    at->again_us = at->held_us = UINT64_MAX;
    list_init(&at->here);
    list_init(&at->did);
    list_init(&at->opening);
    list_init(&at->free_maps);
    list_init(&at->failed);
    list_init(&at->ended);
    list_init(&at->closing);
    list_init(&at->copies);
    list_init(&at->copies_due);
    list_init(&at->copies_short);
    turns_init(&at->copy_turns, 1);
    list_init(&at->news);
    list_init(&at->pushes);
    list_init(&at->lists);
    list_init(&at->lists_due);
    list_init(&at->locking);
    list_init(&at->locked);
    list_init(&at->unsure);
    list_init(&at->arriving);
    list_init(&at->passed);
    list_init(&at->asked);
    list_init(&at->changed);
    lane->regions = at;
    at->unmade = calloc(REGION_UNMADES, sizeof(*at->unmade));
    at->sessions = calloc(lane->config.max_sessions, sizeof(*at->sessions));
    at->heap = calloc(REGION_TIMERS, sizeof(*at->heap));
    at->ios = calloc(lane->config.max_sessions, sizeof(*at->ios));
    if (at->unmade == NULL || at->sessions == NULL || at->heap == NULL || at->ios == NULL)
        return status;
    for (uint32_t slot = 0; slot < lane->config.max_sessions; slot++)
        list_init(&at->ios[slot]);
    init_shares(at);
    timers_init(&at->timers, at->heap, REGION_TIMERS);
    lane_region_limits_init(at);
    status = lane_region_buffers_init(at);
    if (status == NIGH_OK)
        status = lane_region_posts_init(at);
    if (status != NIGH_OK)
        return status;
    status =
        region_memories_create(lane->config.region_memory_bytes, on_memory, lane, &at->memories);
    if (status == NIGH_OK)
        status = make_machines(at);
    if (status == NIGH_OK && lane->config.fabric == NULL)
        begin_alone(lane);
    return status;
}

void lane_end_regions(struct lane *lane)
{
    if (lane->regions != NULL)
        lane->regions->is_ending = true;
}

void lane_close_regions(struct lane *lane)
{
    struct lane_regions *at = lane->regions;

    if (at == NULL)
        return;
    if (at->regions != NULL) {
        for (uint32_t slot = 0; slot < lane->config.max_sessions; slot++)
            lane_regions_forget(lane, slot, true);
        lane_region_ops_fini(at);
        lane_region_copies_fini(at);
        lane_region_pushes_fini(at);
        lane_region_asks_fini(at);
        lane_region_lists_fini(at);
        regions_destroy(at->regions);
    }
    lane_region_bytes_fini(at);
    lane_region_buffers_fini(at);
    lane_region_posts_fini(at);
    lane_region_chunks_fini(at);
    region_memories_destroy(at->memories);
    free(at->maps);
    free(at->sessions);
    free(at->unmade);
    free(at->heap);
    free(at->ios);
    free(at);
    lane->regions = NULL;
}
