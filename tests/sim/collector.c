/* SPDX-License-Identifier: Apache-2.0 */
/* See collector.h. Who begins collectives, hands them on, and serves them. */
#include "collector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cluster/link.h"
#include "rpc/collect_internal.h"

#define BURST          80u /* begun at once, at most: more than a lane has places for */
#define JUDGES_US      UINT64_C(200000)
#define JUDGES_LATE_US 1000u
#define COLLECTOR_SALT UINT64_C(0xbb67ae8584caa73b)

static uint32_t below(struct collector_world *many, uint64_t bound)
{
    return (uint32_t)random_below(&many->random, bound);
}

static bool dice(struct collector_world *many, uint32_t percent)
{
    return below(many, 100) < percent;
}

void collector_choose(struct world *world)
{
    struct collector_world *many = calloc(1, sizeof(*many));

    NIGH_ASSERT(many != NULL);
    world->many = many;
    if (world->options.no_collectives) {
        return; /* as it was before there were any */
    }
    random_init(&many->random, world->options.seed ^ COLLECTOR_SALT);
    many->late_us = UINT64_C(1) << (6 + below(many, 14));
    many->never_percent = below(many, 3) * 8;
    many->refuse_percent = below(many, 3) * 8;
    many->no_percent = below(many, 3) * 8;
    many->odd_percent = below(many, 3) * 8;
    for (uint32_t n = 0; n < world->node_count; n++) {
        many->steps[n] = 5 + below(many, 15);
        world_at(world, below(many, world->calls->gap_us), EVENT_COLLECTS, n, 0, 0);
    }
}

/* ---- words ---------------------------------------------------------------- */

static void say_begun(struct world *world, const struct collector_one *one, uint32_t serial)
{
    static const char *const what[COLLECT_REDUCES] = {
        "",           " for the sum",   " for the least", " for the most",
        " for a sum", " for the least", " for the most",  " for all replies"};
    char nodes[40], deadline[40] = "no deadline";

    if (one->deadline_us != WORLD_NEVER) {
        snprintf(deadline, sizeof(deadline), "within %llu us",
                 (unsigned long long)(one->deadline_us - world->now_us));
    }
    world_say(world, "node %u: client %u asks service %u at %s%s, %s, %u at a time: collective %u",
              one->node, one->session, one->name,
              collector_names(one->wanted, nodes, sizeof(nodes)), what[one->reduce], deadline,
              one->fan, serial);
}

/* ---- lanes and lives ------------------------------------------------------ */

static void set_group(struct world_lane *lane)
{
    const struct world_node *node = &lane->world->nodes[lane->node];
    struct ranks in = ranks_all(lane->world->node_count);
    uint64_t version = node->members.epoch;

    if (lane->world->views.some) {
        memcpy(&in, &node->adopted.in, sizeof(in));
        version = node->adopted.epoch;
    }
    collects_group(lane->collect.collects, version, &in);
}

void collector_lane_starts(struct world_lane *lane)
{
    lane->collect =
        (struct collect_edges){.first = WORLD_SESSIONS, .context = lane, .answer = collector_ended};
    NIGH_ASSERT(collect_edges_init(&lane->collect, lane->node, lane->world->node_count) == NIGH_OK);
    if (!lane->world->views.some) {
        set_group(lane);
    }
}

void collector_group(struct world_lane *lane)
{
    if (lane->world->many != NULL) {
        set_group(lane);
    }
}

static void give_up(struct world *world, uint32_t rank, uint32_t session)
{
    struct collector_world *many = world->many;

    for (uint32_t n = many->open_count; n > 0; n--) {
        struct collector_one *one = &many->one[many->open[n - 1] - 1];

        if (one->node == rank && (session == WORLD_SESSIONS || one->session == session)) {
            one->given_up = true;
            collector_close(many, one);
        }
    }
}

void collector_node_ends(struct world *world, uint32_t rank)
{
    struct collector_world *many = world->many;

    give_up(world, rank, WORLD_SESSIONS);
    for (uint32_t n = 0; n < COLLECTOR_REQUESTS; n++) {
        many->requests[n].used = many->requests[n].used && many->requests[n].node != rank;
    }
}

void collector_forget(struct world *world, uint32_t rank, uint32_t session)
{
    struct world_node *node = &world->nodes[rank];

    give_up(world, rank, session);
    for (uint32_t n = 0; n < node->lanes; n++) {
        collects_forget(node->lane[n].collect.collects, session, world->now_us);
    }
}

/* ---- the way down --------------------------------------------------------- */

/* It is of the group that it was reckoned with. Its service has it when that has its turn, and the
 * next version may be there by then. */
static void check_taken(const struct world_lane *lane, uint32_t serial)
{
    struct world *world = lane->world;

    WORLD_CHECK(world, serial > 0 && serial <= world->many->count,
                "node %u: a collective of nobody", lane->node);
    WORLD_CHECK(world,
                collects_version(lane->collect.collects) == world->many->one[serial - 1].version,
                "node %u takes collective %u of another version of the group", lane->node, serial);
}

void collector_hand(struct world_lane *lane, struct link *link, const struct rpc_request *request)
{
    const uint32_t head = (uint32_t)(sizeof(struct calls_wire) + sizeof(struct collect_wire));
    struct collects *collects = lane->collect.collects;
    uint32_t before = collects_under_way(collects);
    struct collect_wire wire;
    struct caller_told told;
    char nodes[40];

    memcpy(&wire, request->payload + sizeof(struct calls_wire), sizeof(wire));
    memcpy(&told, request->payload + head, sizeof(told));
    collect_edges_take(&lane->collect, link_calls(link), link_rank(link), request,
                       lane->world->now_us);
    if (collects_under_way(collects) > before) {
        check_taken(lane, told.serial & ~COLLECTOR_MARK);
    }
    world_say(lane->world, "node %u %s collective %u from node %u, for %s", lane->node,
              collects_under_way(collects) > before ? "takes" : "refuses",
              told.serial & ~COLLECTOR_MARK, link_rank(link),
              collector_names((uint32_t)wire.ranks.words[0], nodes, sizeof(nodes)));
    lane->world->totals->many_edges++;
}

/* ---- services ------------------------------------------------------------- */

static void answer(struct world_lane *lane, struct collector_request *request)
{
    struct world *world = lane->world;
    struct collector_world *many = world->many;
    struct collector_one *one = &many->one[request->serial - 1];
    const void *tag = calls_request_tag(lane->calls, request->id);
    uint32_t bit = 1u << lane->node, count;
    bool no = request->number % 100 < many->no_percent;
    bool odd = !no && request->number / 100 % 100 < many->odd_percent && one->room >= 8 &&
               one->reduce != COLLECT_CONCAT && !one->is_the_judges;
    bool said;

    request->used = false;
    WORLD_CHECK(world, tag == NULL || (tag == request->of && !request->of->gone),
                "node %u: collective %u is asked of one service and answered by another",
                lane->node, request->serial);
    if (request->is_refused) {
        world_say(world, "node %u: the service refuses collective %u", lane->node, request->serial);
        (void)calls_refuse(lane->calls, request->id, NIGH_OVERLOADED, world->now_us);
        return;
    }
    world_say(world, "node %u answers collective %u: %s%s", lane->node, request->serial,
              no    ? "no"
              : odd ? "what does not fit"
                    : "yes",
              tag == NULL ? ", and nobody waits for it" : "");
    count =
        no ? 0
           : collector_fill_reply(many->bytes, one, request->serial, lane->node) - (odd ? 8 : 0);
    if (tag != NULL) {
        one->no |= no ? bit : 0;
        one->odd |= odd ? bit : 0;
        one->ok |= !no && !odd ? bit : 0;
    }
    said = calls_reply(lane->calls, request->id, no ? CALLER_NO : NIGH_OK, many->bytes, count,
                       world->now_us);
    WORLD_CHECK(world, said == (tag != NULL), "node %u: an answer to collective %u went to %s",
                lane->node, request->serial, said ? "nobody that asked" : "nobody");
}

static void check_request(const struct world_lane *lane, const struct caller_registration *of,
                          const struct calls_request *request, uint32_t serial)
{
    struct world *world = lane->world;
    struct collector_one *one = &world->many->one[serial - 1];
    uint32_t bit = 1u << lane->node;

    WORLD_CHECK(world, of->node == lane->node && !of->gone,
                "node %u: collective %u reaches a service that is gone", lane->node, serial);
    WORLD_CHECK(world,
                request->count == one->bytes && of->name == one->name &&
                    request->rank == one->node && request->uid == CALLER_UID + one->session &&
                    request->id != 0 && (one->wanted & bit) != 0,
                "node %u: collective %u is not as it was begun", lane->node, serial);
    WORLD_CHECK(world, (one->seen & bit) == 0, "node %u is asked twice for collective %u",
                lane->node, serial);
    one->seen |= bit;
}

static struct collector_request *take_place(struct collector_world *many)
{
    for (uint32_t n = 0; n < COLLECTOR_REQUESTS; n++) {
        if (!many->requests[n].used) {
            return &many->requests[n];
        }
    }
    NIGH_ASSERT(!"a place for a request");
    return NULL;
}

bool collector_take(struct world_lane *lane, const struct caller_registration *of,
                    const struct calls_request *request)
{
    struct world *world = lane->world;
    struct collector_world *many = world->many;
    struct caller_told told;
    struct collector_request *kept;
    struct collector_one *one;
    uint32_t serial;
    bool refused;

    if (!caller_read_told(request->bytes, request->count, &told) ||
        (told.serial & COLLECTOR_MARK) == 0) {
        return false;
    }
    serial = told.serial & ~COLLECTOR_MARK;
    WORLD_CHECK(world, serial > 0 && serial <= many->count, "node %u: a collective of nobody",
                lane->node);
    one = &many->one[serial - 1];
    check_request(lane, of, request, serial);
    world_say(world, "node %u: the service has collective %u of node %u", lane->node, serial,
              one->node);
    refused = !one->is_the_judges && dice(many, many->refuse_percent);
    one->carried_out |= refused ? 0 : 1u << lane->node;
    collector_check_unasked(world, one, serial);
    world->totals->many_carried_out += refused ? 0 : 1;
    kept = take_place(many);
    *kept = (struct collector_request){.used = true,
                                       .is_refused = refused,
                                       .node = lane->node,
                                       .lane = lane->number,
                                       .serial = serial,
                                       .number = hash_u64(++many->request_count) >> 32,
                                       .id = request->id,
                                       .of = of};
    if ((one->is_the_judges && one->silent == lane->node) ||
        (!one->is_the_judges && !refused && dice(many, many->never_percent))) {
        kept->used = false; /* whatever it does, it says nothing */
    } else if (dice(many, 40)) {
        answer(lane, kept);
    } else {
        world_at(world, 1 + below(many, one->is_the_judges ? JUDGES_LATE_US : many->late_us),
                 EVENT_COLLECT_ANSWER, (uint32_t)(kept - many->requests), 0, kept->number);
    }
    return true;
}

void collector_answer(struct world *world, uint32_t place, uint64_t number)
{
    struct collector_request *request = &world->many->requests[place];
    struct world_node *node = &world->nodes[request->node];

    if (!request->used || request->number != number) {
        return; /* its node died */
    }
    if (node->paused) {
        world_at(world, 1000, EVENT_COLLECT_ANSWER, place, 0, number);
        return;
    }
    node->due_us = world->now_us;
    node->lane[request->lane].quiet_until_us = 0;
    answer(&node->lane[request->lane], request);
}

/* ---- beginning ------------------------------------------------------------ */

static struct world_lane *lane_for(struct world *world, const struct collector_one *one)
{
    struct world_lane *lane = world_lane_of(world, one->node, world->calls->hash[one->name]);

    world->nodes[one->node].due_us = world->now_us;
    lane->quiet_until_us = 0;
    return lane;
}

/* What is said at once to who begins it. */
static nigh_status expected(const struct world *world, const struct world_lane *lane,
                            const struct collect_task *task)
{
    const struct collects *collects = lane->collect.collects;

    return collects->version == 0                                         ? NIGH_NO_QUORUM
           : task->version != 0 && task->version != collects->version     ? NIGH_STALE
           : !task->all && !ranks_are_within(&task->ranks, &collects->in) ? NIGH_INVALID
           : task->deadline_us <= world->now_us                           ? NIGH_TIMEOUT
           : collects_under_way(collects) == LIMIT_COLLECTS               ? NIGH_OVERLOADED
                                                                          : NIGH_OK;
}

static void count_begun(struct world_totals *totals, const struct collector_one *one,
                        nigh_status status)
{
    totals->many += status == NIGH_OK;
    totals->many_reduces += status == NIGH_OK && one->reduce != COLLECT_NONE;
    totals->many_refused_stale += status == NIGH_STALE;
    totals->many_busy += status == NIGH_OVERLOADED;
}

/* Its serial; 0: it was refused, or there is room for no more. `version` and ranks: what is asked
 * for; 0 and 0: whatever there is. */
static uint32_t begin(struct world *world, const struct collector_one *wanted)
{
    struct collector_world *many = world->many;
    uint32_t serial = many->count + 1;
    struct world_lane *lane = lane_for(world, wanted);
    struct caller_told told = {serial | COLLECTOR_MARK, wanted->node, wanted->name, 0};
    struct collect_from from = {.caller = {.owner = wanted->session,
                                           .begun = world->nodes[wanted->node].incarnation,
                                           .cookie = serial}};
    struct collect_task task = {.service = world->calls->hash[wanted->name],
                                .version = wanted->version,
                                .ranks = {.words = {wanted->wanted}},
                                .all = wanted->wanted == 0,
                                .fan = wanted->fan,
                                .reduce = wanted->reduce,
                                .value_room = wanted->room,
                                .uid = CALLER_UID + wanted->session,
                                .deadline_us = wanted->deadline_us,
                                .request = many->bytes,
                                .request_bytes = wanted->bytes};
    nigh_status status = expected(world, lane, &task), said;
    struct collector_one *one = &many->one[serial - 1];

    if (serial > COLLECTOR_MANY) {
        return 0;
    }
    caller_fill_told(many->bytes, &told, wanted->bytes);
    said = collect_begin(lane->collect.collects, &from, &task, world->now_us);
    WORLD_CHECK(world, said == status, "node %u: a collective begins with %s, and not with %s",
                wanted->node, nigh_status_name(said), nigh_status_name(status));
    count_begun(world->totals, wanted, status);
    if (status != NIGH_OK) {
        world_say(world, "node %u: a collective of service %u does not begin: %s", wanted->node,
                  wanted->name, nigh_status_name(status));
        return 0;
    }
    *one = *wanted;
    one->wanted = (uint32_t)(task.all ? lane->collect.collects->in.words[0] : wanted->wanted);
    one->version = collects_version(lane->collect.collects);
    one->lane = lane->number;
    one->incarnation = from.caller.begun;
    one->begun_us = world->now_us;
    one->open = many->open_count;
    many->open[many->open_count++] = serial;
    many->count++;
    say_begun(world, one, serial);
    return serial;
}

static void choose_value(struct world *world, struct collector_one *one)
{
    struct collector_world *many = world->many;
    uint32_t most = (world->calls->payload_bytes - (uint32_t)sizeof(struct collect_said)) / 8;

    one->reduce = below(many, COLLECT_REDUCES);
    one->room = one->reduce == COLLECT_NONE     ? 0
                : one->reduce == COLLECT_CONCAT ? below(many, dice(many, 30) ? 150 : 8 * 80)
                                                : 8 * (1 + below(many, min_u32(most, 12)));
}

static uint64_t some_deadline_us(struct world *world)
{
    static const uint64_t most[] = {1, 1000, 20000, 200000, 2000000};
    struct collector_world *many = world->many;

    return dice(many, 10) ? WORLD_NEVER
                          : world->now_us + below(many, most[below(many, ARRAY_LENGTH(most))]);
}

static void some_of_them(struct world *world, uint32_t rank, uint32_t session)
{
    struct collector_world *many = world->many;
    uint32_t lot = below(many, 100);
    uint32_t count = lot < 2 ? BURST : lot < 15 ? 1 + below(many, 12) : 1;
    uint32_t most = world->calls->payload_bytes - (uint32_t)sizeof(struct calls_wire) -
                    (uint32_t)sizeof(struct collect_wire);
    struct collector_one one = {
        .node = rank, .session = session, .name = below(many, world->calls->names)};

    choose_value(world, &one);
    for (uint32_t n = 0; n < count; n++) {
        one.fan = 2 + below(many, dice(many, 80) ? 2 : LIMIT_COLLECT_FAN - 1);
        one.wanted = dice(many, 60) ? 0 : 1 + below(many, (1u << world->node_count) - 1);
        one.version = dice(many, 90) ? 0 : 1 + below(many, 8);
        one.deadline_us = some_deadline_us(world);
        one.bytes = 16 + below(many, min_u32(most, LIMIT_COLLECT_BYTES) - 15);
        (void)begin(world, &one);
    }
}

static void cancel(struct world *world, uint32_t serial)
{
    struct collector_one *one = &world->many->one[serial - 1];
    struct world_lane *lane = lane_for(world, one);

    world_say(world, "node %u cancels collective %u", one->node, serial);
    one->given_up = true;
    collector_close(world->many, one);
    world->totals->many_canceled++;
    WORLD_CHECK(world,
                collect_cancel(lane->collect.collects, one->session, serial, world->now_us) &&
                    !collect_cancel(lane->collect.collects, one->session, serial, world->now_us),
                "node %u: collective %u cannot be cancelled, and has not ended", one->node, serial);
}

/* The oldest of a node; or, in calm, all that would wait for ever. */
static void cancel_some(struct world *world, uint32_t rank, bool is_calm)
{
    const struct collector_world *many = world->many;

    for (uint32_t n = many->open_count; n > 0; n--) {
        const struct collector_one *one = &many->one[many->open[n - 1] - 1];

        if (one->node == rank && (!is_calm || one->deadline_us == WORLD_NEVER)) {
            cancel(world, many->open[n - 1]);
            if (!is_calm) {
                return;
            }
        }
    }
}

void collector_step(struct world *world, uint32_t rank)
{
    struct collector_world *many = world->many;
    const struct world_node *node = &world->nodes[rank];
    uint32_t session = below(many, WORLD_SESSIONS);

    if (node->paused || (!node->alive && !world->calm)) {
        world_at(world, 1000, EVENT_COLLECTS, rank, 0, 0);
        return;
    }
    if (world->calm) {
        cancel_some(world, rank, true);
        return;
    }
    if (many->steps[rank] == 0) {
        return;
    }
    many->steps[rank]--;
    if (dice(many, 85)) {
        some_of_them(world, rank, node->sessions[session].may_write ? session : 0);
    } else {
        cancel_some(world, rank, false);
    }
    world_at(world, 1 + below(many, 3 * world->calls->gap_us), EVENT_COLLECTS, rank, 0, 0);
}

void collector_calm(struct world *world)
{
    for (uint32_t n = 0; n < world->node_count && !world->options.no_collectives; n++) {
        world_at(world, 2, EVENT_COLLECTS, n, 0, 0);
    }
}

/* ---- what must hold ------------------------------------------------------- */

/* A part of a tree waits for nobody who is lost, and goes on for nobody who is. */
static void check_part(struct world_lane *lane, const struct collect *part)
{
    struct world *world = lane->world;

    for (uint32_t n = 0; n < LIMIT_COLLECT_FAN; n++) {
        uint32_t rank = part->edges[n].head;

        WORLD_CHECK(world,
                    part->edges[n].state != EDGE_ASKED || !caller_sight_of(lane, rank)->lost ||
                        exchange_users_channel(lane->exchange, rank, part->service) != NULL,
                    "node %u: a collective waits for node %u, which is lost", lane->node, rank);
    }
    /* A link that was given up in this turn has its channel until the end of the next. */
    WORLD_CHECK(world,
                part->from.channel == NULL ||
                    part->from.channel ==
                        exchange_users_channel(lane->exchange, part->from.rank, part->service) ||
                    link_is_failing(link_of_calls(part->from.channel)),
                "node %u has a part of a collective for node %u, which has gone", lane->node,
                part->from.rank);
}

void collector_check_lane(struct world_lane *lane)
{
    WORLD_CHECK(lane->world, collects_is_valid(lane->collect.collects),
                "the collectives of node %u are wrong", lane->node);
}

void collector_check(struct world *world)
{
    const struct collector_world *many = world->many;

    for (uint32_t n = 0; n < many->open_count; n++) {
        const struct collector_one *one = &many->one[many->open[n] - 1];

        WORLD_CHECK(world,
                    world->nodes[one->node].paused ||
                        world->now_us <= caller_latest_us(world, one->node, one->deadline_us),
                    "collective %u of node %u has not ended, %llu us after its deadline",
                    many->open[n], one->node,
                    (unsigned long long)(world->now_us - one->deadline_us));
    }
    for (uint32_t rank = 0; rank < world->node_count; rank++) {
        struct world_node *node = &world->nodes[rank];

        /* A slow one has seen what there is when it has had its turn. */
        bool had_turn = node->turn_us == world->now_us + node->slow_us;

        for (uint32_t n = 0; node->alive && !node->paused && had_turn && n < node->lanes; n++) {
            LIST_FOREACH(place, &node->lane[n].collect.collects->all)
            {
                check_part(&node->lane[n], container_of(place, struct collect, place));
            }
        }
    }
}

bool collector_is_idle(const struct world *world)
{
    bool idle = world->many->open_count == 0;

    for (uint32_t rank = 0; idle && rank < world->node_count; rank++) {
        const struct world_node *node = &world->nodes[rank];

        for (uint32_t n = 0; n < node->lanes && node->alive; n++) {
            idle = idle && collects_under_way(node->lane[n].collect.collects) == 0;
        }
    }
    return idle;
}

void collector_why_not_idle(struct world *world)
{
    WORLD_CHECK(world, world->many->open_count == 0, "collective %u never ends",
                world->many->open[0]);
    for (uint32_t rank = 0; rank < world->node_count; rank++) {
        for (uint32_t n = 0; n < world->nodes[rank].lanes; n++) {
            uint32_t left = collects_under_way(world->nodes[rank].lane[n].collect.collects);

            WORLD_CHECK(world, left == 0,
                        "node %u: %u parts of collectives are left, and nobody waits for them",
                        rank, left);
        }
    }
}

/* ---- in calm -------------------------------------------------------------- */

static void judge_one(struct world *world, struct collector_one wanted, uint32_t serving)
{
    uint64_t end_us = world->now_us + 2 * JUDGES_US;
    uint32_t serial = begin(world, &wanted), asked = serving;
    const struct collector_one *one = &world->many->one[serial - 1];
    const struct collect_said *said = &one->said;

    if (world->many->count == COLLECTOR_MANY) {
        return;
    }
    WORLD_CHECK(world, serial != 0, "in calm, node %u begins no collective", wanted.node);
    while (!one->ended && world->now_us < end_us) {
        world_step(world, end_us);
    }
    if (wanted.silent < CALLER_NODES) {
        asked &= ~(1u << wanted.silent);
    }
    WORLD_CHECK(world,
                one->ended &&
                    said->answered + said->failed == (uint32_t)__builtin_popcount(asked) &&
                    said->unknown == (uint32_t)__builtin_popcount(serving ^ asked) &&
                    one->carried_out == serving && (one->ok | one->no) == asked,
                "in calm, collective %u of node %u ends with %u answers, %u failures and %u "
                "unknown, where %d serve it",
                serial, one->node, said->answered, said->failed, said->unknown,
                __builtin_popcount(serving));
    world->totals->many_in_calm++;
}

/* Each service is asked of all: who serves it answers, and only they; and who is silent is missed
 * alone. */
void collector_judge(struct world *world)
{
    uint32_t names = world->options.no_collectives ? 0 : world->calls->names;

    for (uint32_t name = 0; name < names; name++) {
        struct collector_one one = {.node = below(world->many, world->node_count),
                                    .name = name,
                                    .fan = 2 + below(world->many, 2),
                                    .reduce = COLLECT_SUM_U64,
                                    .room = 24,
                                    .bytes = 16 + name,
                                    .silent = UINT32_MAX,
                                    .is_the_judges = true};
        uint32_t serving = 0;

        for (uint32_t n = 0; n < world->node_count; n++) {
            serving |= world->calls->serving[n][name] != NULL ? 1u << n : 0;
        }
        one.deadline_us = world->now_us + JUDGES_US;
        judge_one(world, one, serving);
        if (name == 0 && serving != 0) {
            one.silent = (uint32_t)__builtin_ctz(serving);
            one.node = (one.silent + 1) % world->node_count;
            one.deadline_us = world->now_us + JUDGES_US;
            judge_one(world, one, serving);
        }
    }
}
