/* SPDX-License-Identifier: Apache-2.0 */
/* See caller.h. Callers of a simulated cluster, and what their calls are promised. */
#include "collector.h"
#include "mover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "rpc/rpc_ring.h"

#define TICK_US     1000u /* a link looks at the deadlines of its calls so often */
#define BURST       24u   /* calls that are begun at once, at most */
#define TOLD_US     40000u
#define JUDGES_US   UINT64_C(2000000)
#define CALLER_SALT UINT64_C(0x6a09e667f3bcc909)
#define RING_SALT   UINT64_C(0xbb67ae8584caa73b)

/* ---- a world -------------------------------------------------------------- */

/* Drawn from a generator of its own: a world without calls is the same with them. */
/* Half of the worlds with calls have rings for them, each node as it likes: drawn apart, so that
 * the others are what they would be without. */
static void choose_rings(struct world *world, struct caller_world *calls)
{
    uint32_t frame = (uint32_t)sizeof(struct rpc_header) + calls->payload_bytes;
    uint32_t least = (frame / RPC_RING_UNIT + 1) * RPC_RING_UNIT * RPC_RING_FRAMES;
    struct random random;

    random_init(&random, world->options.seed ^ RING_SALT);
    if (random_below(&random, 2) == 0) {
        return;
    }
    calls->ring_bytes = least << random_below(&random, 3);
    for (uint32_t n = 0; n < world->node_count; n++) {
        calls->ways[n] = (enum link_way)random_below(&random, LINK_WRITE + 1);
    }
    world->totals->ring_worlds++;
}

void caller_choose(struct world *world)
{
    static const uint32_t places[] = {0, 2, 4, 8, 16};
    struct caller_world *calls;

    if (world->options.nodes != 0 || hash_u64(world->options.seed ^ CALLER_SALT) % 2 != 0) {
        return;
    }
    calls = calloc(1, sizeof(*calls));
    NIGH_ASSERT(calls != NULL && world->node_count <= CALLER_NODES);
    world->calls = calls;
    random_init(&calls->random, world->options.seed ^ CALLER_SALT);
    calls->names = 1 + (uint32_t)caller_below(calls, CALLER_NAMES);
    for (uint32_t n = 0; n < calls->names; n++) {
        calls->hash[n] = random_u64(&calls->random);
    }
    calls->places = places[caller_below(calls, ARRAY_LENGTH(places))];
    calls->payload_bytes = caller_dice(calls, 80) ? 1024 : CALLS_PAYLOAD;
    calls->most_bytes =
        calls->payload_bytes - (uint32_t)sizeof(struct calls_wire) - (uint32_t)BULKS_HEAD;
    calls->calls = 8 + (uint32_t)caller_below(calls, 120);
    calls->requests = 4 + (uint32_t)caller_below(calls, 60);
    calls->late_us = UINT64_C(1) << (6 + caller_below(calls, 14));
    calls->never_percent = (uint32_t)caller_below(calls, 3) * 10;
    calls->refuse_percent = (uint32_t)caller_below(calls, 3) * 10;
    calls->no_percent = (uint32_t)caller_below(calls, 3) * 10;
    calls->gap_us = 1 + world->gap_us * world->steps_of_session / 30;
    for (uint32_t fault = FAULT_ONE_WAY; fault < FAULTS; fault++) {
        world->fault_weight[fault] = (uint32_t)caller_below(calls, 4);
    }
    for (uint32_t n = 0; n < world->node_count; n++) {
        calls->steps[n] = 10 + (uint32_t)caller_below(calls, 40);
        world_at(world, caller_below(calls, calls->gap_us), EVENT_CALLS, n, 0, 0);
    }
    choose_rings(world, calls);
    world->totals->call_worlds++;
    collector_choose(world);
    mover_choose(world);
}

struct caller_sight *caller_sight_of(const struct world_lane *lane, uint32_t rank)
{
    return &lane->world->calls->sight[lane->node][lane->number][rank];
}

/* ---- the machine's shell -------------------------------------------------- */

static struct rpc *on_channel(void *context, uint32_t rank, uint64_t hash)
{
    struct world_lane *lane = context;

    return exchange_users_channel(lane->exchange, rank, hash);
}

static const uint8_t *on_bytes(void *context, const struct calls_caller *caller)
{
    struct world_lane *lane = context;
    struct caller_world *calls = lane->world->calls;

    if (collect_edges_has(&lane->collect, caller)) {
        return collect_edges_bytes(&lane->collect, caller);
    }
    caller_fill_request(calls, calls->bytes, caller->cookie);
    return calls->bytes;
}

uint64_t caller_latest_us(const struct world *world, uint32_t rank, uint64_t deadline_us)
{
    const struct world_node *node = &world->nodes[rank];

    return deadline_us == WORLD_NEVER ? WORLD_NEVER
                                      : max_u64(deadline_us, node->awake_us) + TICK_US +
                                            4 * world->quantum_us + 2 * node->slow_us;
}

static uint64_t latest_us(const struct world *world, const struct caller_call *call)
{
    return caller_latest_us(world, call->node, call->deadline_us);
}

static void close_call(struct caller_world *calls, struct caller_call *call)
{
    uint32_t last = calls->open[--calls->open_count];

    calls->open[call->open] = last;
    calls->call[last - 1].open = call->open;
    call->ended = true;
}

/* An answer of the service is the answer to this call. */
static void check_answer(struct world *world, const struct caller_call *call, uint32_t serial,
                         const struct calls_end *end)
{
    uint32_t turn;

    if (call->one_way) {
        WORLD_CHECK(world, end->count == 0, "one-way call %u ends with an answer", serial);
        return;
    }
    turn = caller_read_reply(world->calls, end->bytes, end->count, serial, end->rank);
    WORLD_CHECK(world, turn > 0 && turn <= call->carried_out && call->answers > 0,
                "call %u of node %u ends with an answer to another, or of another than node %u",
                serial, call->node, end->rank);
}

/* Whether a service of its name was withdrawn at a node since it was begun. */
static bool was_withdrawn(const struct caller_world *calls, const struct caller_call *call,
                          uint32_t rank)
{
    return rank < CALLER_NODES && calls->withdrawn_us[rank][call->name] >= call->begun_us;
}

/* Whether a node has served its name all the time. */
static bool was_served(const struct caller_world *calls, const struct caller_call *call,
                       uint32_t rank)
{
    return rank < CALLER_NODES && calls->serving[rank][call->name] != NULL &&
           calls->registered_us[rank][call->name] < call->begun_us;
}

/* How it may end, besides in time. */
static void check_status(struct world *world, struct caller_call *call, uint32_t serial,
                         const struct calls_end *end)
{
    struct caller_world *calls = world->calls;
    bool fits = false;

    switch (end->status) {
    case NIGH_OK: check_answer(world, call, serial, end); return;
    case CALLER_NO: fits = call->said_no; break;
    case NIGH_TIMEOUT: fits = world->now_us >= call->deadline_us; break;
    case NIGH_CANCELED: fits = call->canceled; break;
    case NIGH_PEER_LOST:
        fits = !call->idempotent;
        if (call->rank != CALLS_ANY && !calls->sight[call->node][call->lane][call->rank].lost) {
            calls->lost[calls->lost_count++] = serial; /* it is just being lost */
        }
        break;
    case NIGH_CLOSED: fits = !call->idempotent && was_withdrawn(calls, call, end->rank); break;
    case NIGH_NOT_FOUND:
        fits = call->rank == CALLS_ANY || !was_served(calls, call, call->rank);
        break;
    case NIGH_OVERLOADED:
        fits = !end->taken && (!call->idempotent || world->now_us == call->begun_us);
        break;
    default: break;
    }
    WORLD_CHECK(world, fits, "call %u of node %u of service %u ends with %s", serial, call->node,
                call->name, nigh_status_name(end->status));
}

static void count_end(struct world_totals *totals, nigh_status status)
{
    totals->calls_ok += status == NIGH_OK;
    totals->calls_no += status == CALLER_NO;
    totals->calls_late += status == NIGH_TIMEOUT;
    totals->calls_canceled += status == NIGH_CANCELED;
    totals->calls_lost += status == NIGH_PEER_LOST;
    totals->calls_closed += status == NIGH_CLOSED;
    totals->calls_not_found += status == NIGH_NOT_FOUND;
    totals->calls_busy += status == NIGH_OVERLOADED;
}

static void say_ended(struct world *world, const struct caller_call *call, uint32_t serial,
                      const struct calls_end *end)
{
    char where[24] = "at no node";

    if (end->rank != CALLS_ANY) {
        snprintf(where, sizeof(where), "at node %u", end->rank);
    }
    world_say(world, "node %u: call %u ends %s: %s%s", call->node, serial, where,
              nigh_status_name(end->status),
              end->status != NIGH_OK && !end->taken ? "; nobody has carried it out" : "");
}

static void on_ended(void *context, const struct calls_caller *caller, const struct calls_end *end)
{
    struct world_lane *lane = context;
    struct world *world = lane->world;
    struct caller_world *calls = world->calls;
    uint32_t serial = caller->cookie;
    struct caller_call *call;

    if (world->nodes[lane->node].ending) {
        return; /* nobody takes it any more */
    }
    if (collect_edges_has(&lane->collect, caller)) {
        collect_edges_ended(&lane->collect, caller, end);
        return;
    }
    call = &calls->call[serial > 0 ? serial - 1 : 0];
    WORLD_CHECK(world,
                serial > 0 && serial <= calls->call_count && call->node == lane->node &&
                    call->lane == lane->number && call->session == caller->owner &&
                    call->incarnation == caller->begun && !call->dropped && !call->ended,
                "node %u: call %u ends, which is not under way, or has ended", lane->node, serial);
    say_ended(world, call, serial, end);
    close_call(calls, call);
    call->status = end->status;
    if (call->loan != 0) {
        mover_call_ended(world, call->loan,
                         end->status == NIGH_TIMEOUT || call->canceled ||
                             world->now_us >= call->deadline_us);
    }
    WORLD_CHECK(world, world->now_us <= latest_us(world, call),
                "call %u of node %u ended %llu us after its deadline", serial, call->node,
                (unsigned long long)(world->now_us - call->deadline_us));
    WORLD_CHECK(world, call->rank == CALLS_ANY || end->rank == call->rank,
                "call %u of node %u is of node %u, and its end names node %u", serial, call->node,
                call->rank, end->rank);
    check_status(world, call, serial, end);
    call->untaken = end->status != NIGH_OK && !end->taken;
    WORLD_CHECK(world, !call->untaken || call->carried_out == 0,
                "call %u of node %u is told that nobody has carried it out", serial, call->node);
    count_end(world->totals, end->status);
    world_fold(world, (uint64_t)serial << 32 | (uint32_t)end->status);
    world_fold(world, world->now_us);
}

static void on_called(void *context, struct link *link, const struct rpc_request *request,
                      uint64_t now_us)
{
    struct world_lane *lane = context;

    if (request->method == CALLS_METHOD_COLLECT) {
        collector_hand(lane, link, request);
        return;
    }
    calls_take(lane->calls, link_calls(link), link_rank(link), request, now_us);
}

static void on_withdrawn(void *context, struct link *link, uint64_t call)
{
    struct world_lane *lane = context;

    calls_withdrawn(lane->calls, link_calls(link), call, lane->world->now_us);
    collect_withdrawn(lane->collect.collects, link_calls(link), call, lane->world->now_us);
}

static void on_link_up(void *context, struct link *link)
{
    struct world_lane *lane = context;

    caller_sight_of(lane, link_rank(link))->lost = false;
    calls_channel_up(lane->calls, link_calls(link), link_rank(link));
}

static void note_loss(struct world_lane *lane, uint32_t rank)
{
    struct caller_sight *sight = caller_sight_of(lane, rank);

    sight->lost = sight->was_lost = true;
    sight->lost_us = lane->world->now_us;
}

static void on_link_down(void *context, struct link *link, uint64_t now_us)
{
    struct world_lane *lane = context;

    note_loss(lane, link_rank(link));
    mover_loses(lane, link_rank(link) + 1);
    calls_channel_down(lane->calls, link_calls(link), link_rank(link), now_us);
    mover_loses(lane, 0);
    collects_channel_down(lane->collect.collects, link_calls(link), now_us);
}

/* ---- lanes and lives ------------------------------------------------------ */

static uint32_t places_of(const struct caller_world *calls, const struct members *members)
{
    return calls->places != 0 ? calls->places : exchange_users_places(members);
}

void caller_lane_starts(struct world_lane *lane, struct exchange_calls *users,
                        struct exchange_config *exchange)
{
    const struct caller_world *calls = lane->world->calls;
    const struct members *members = &lane->world->nodes[lane->node].members;
    struct calls_config config = {.rank = lane->node,
                                  .nodes = lane->world->node_count,
                                  .owners = WORLD_SESSIONS + LIMIT_COLLECTS,
                                  .calls = calls->calls,
                                  .requests = calls->requests,
                                  .channel_calls = places_of(calls, members),
                                  .number = lane->number,
                                  .shell = {.context = lane,
                                            .channel = on_channel,
                                            .bytes = on_bytes,
                                            .ended = on_ended,
                                            .request = server_take,
                                            .bulks = mover_shell(lane)}};

    *users = (struct exchange_calls){.context = lane,
                                     .called = on_called,
                                     .withdrawn = on_withdrawn,
                                     .up = on_link_up,
                                     .down = on_link_down,
                                     .payload_bytes = calls->payload_bytes,
                                     .places = calls->places};
    exchange->calls_way = calls->ways[lane->node];
    exchange->ring_bytes = calls->ring_bytes;
    collector_lane_starts(lane);
    mover_lane_starts(lane);
    NIGH_ASSERT(calls_create(&config, &lane->calls) == NIGH_OK);
    lane->collect.calls = lane->calls;
    memset(lane->world->calls->sight[lane->node][lane->number], 0,
           sizeof(lane->world->calls->sight[lane->node][lane->number]));
}

void caller_lane_ends(struct world_lane *lane)
{
    calls_destroy(lane->calls);
    lane->calls = NULL;
    collect_edges_fini(&lane->collect);
    mover_lane_ends(lane);
}

void caller_node_starts(struct world *world, uint32_t rank)
{
    if (world->calls != NULL) {
        server_node_starts(world, rank);
    }
}

/* Nobody hears how its calls end. */
void caller_node_ends(struct world *world, uint32_t rank)
{
    struct caller_world *calls = world->calls;

    for (uint32_t n = calls == NULL ? 0 : calls->open_count; n > 0; n--) {
        struct caller_call *call = &calls->call[calls->open[n - 1] - 1];

        if (call->node == rank) {
            call->dropped = true;
            close_call(calls, call);
        }
    }
    if (calls != NULL) {
        collector_node_ends(world, rank);
        mover_node_ends(world, rank);
        server_node_ends(world, rank);
    }
}

/* A client died: what it called ends with it, at once. */
void caller_forget(struct world *world, uint32_t rank, uint32_t session)
{
    struct caller_world *calls = world->calls;
    struct world_node *node = &world->nodes[rank];

    for (uint32_t n = 0; calls != NULL && n < calls->open_count; n++) {
        struct caller_call *call = &calls->call[calls->open[n] - 1];

        call->canceled = call->canceled || (call->node == rank && call->session == session);
    }
    if (calls != NULL) {
        collector_forget(world, rank, session);
        mover_forget(world, rank, session);
    }
    for (uint32_t n = 0; calls != NULL && n < node->lanes; n++) {
        calls_forget(node->lane[n].calls, session, world->now_us);
    }
    for (uint32_t n = 0; calls != NULL && n < calls->open_count && !node->ending; n++) {
        const struct caller_call *call = &calls->call[calls->open[n] - 1];

        WORLD_CHECK(world, call->node != rank || call->session != session,
                    "node %u: call %u outlives its client", rank, calls->open[n]);
    }
}

/* What is heard of a node, as a lane is told it before its links are. */
void caller_peer(struct world_lane *lane, uint32_t rank, bool is_lost)
{
    if (lane->calls != NULL) {
        if (is_lost) {
            note_loss(lane, rank);
        }
        caller_sight_of(lane, rank)->lost = is_lost;
        calls_peer(lane->calls, rank, is_lost, lane->world->now_us);
    }
}

bool caller_turn(struct world_lane *lane)
{
    bool any = lane->calls != NULL && calls_tick(lane->calls, lane->world->now_us);

    if (lane->calls != NULL) {
        any = collects_turn(lane->collect.collects, lane->world->now_us) || any;
    }

    if (any) {
        exchange_users_flush(lane->exchange);
    }
    return any;
}

uint64_t caller_due_us(const struct world_lane *lane)
{
    return lane->calls == NULL                        ? WORLD_NEVER
           : collects_are_due(lane->collect.collects) ? lane->world->now_us
                                                      : calls_due_us(lane->calls);
}

/* ---- calls ---------------------------------------------------------------- */

static struct world_lane *lane_for(struct world *world, uint32_t rank, uint32_t name)
{
    return world_lane_of(world, rank, world->calls->hash[name]);
}

static void wake(struct world *world, struct world_lane *lane)
{
    world->nodes[lane->node].due_us = world->now_us;
    lane->quiet_until_us = 0;
}

static void count_begun(struct world_totals *totals, const struct caller_call *call)
{
    totals->calls++;
    totals->calls_any += call->rank == CALLS_ANY;
    totals->calls_idempotent += call->idempotent;
    totals->calls_urgent += call->urgent;
    totals->calls_one_way += call->one_way;
}

static void say_begun(struct world *world, const struct caller_call *call, uint32_t serial)
{
    char to[24] = "any server", deadline[40] = "no deadline";

    if (call->rank != CALLS_ANY) {
        snprintf(to, sizeof(to), "node %u", call->rank);
    }
    if (call->deadline_us != WORLD_NEVER) {
        snprintf(deadline, sizeof(deadline), "within %llu us",
                 (unsigned long long)(call->deadline_us - world->now_us));
    }
    world_say(world, "node %u: client %u calls service %u at %s, %s%s%s%s: call %u", call->node,
              call->session, call->name, to, deadline, call->idempotent ? ", idempotent" : "",
              call->urgent ? ", urgent" : "", call->one_way ? ", one-way" : "", serial);
}

/* In some worlds. What the service sees of it counts in the request. */
static void bring_memory(struct world_lane *lane, struct caller_call *call, uint32_t serial,
                         struct calls_call *what)
{
    uint32_t most;

    if (call->one_way || call->idempotent) {
        return;
    }
    call->loan = mover_open(lane, serial, &what->loan);
    most = LIMIT_CALL_BYTES -
           mover_parts(lane->world, call->loan) * (uint32_t)sizeof(struct bulks_info);
    call->bytes = what->caller.bytes = min_u32(call->bytes, most);
}

/* Begins a call. 0: there is room for no more. */
static uint32_t begin(struct world *world, const struct caller_call *wanted)
{
    struct caller_world *calls = world->calls;
    struct world_lane *lane = lane_for(world, wanted->node, wanted->name);
    uint32_t serial = calls->call_count + 1;
    struct calls_call what = {.service = calls->hash[wanted->name],
                              .deadline_us = wanted->deadline_us,
                              .rank = wanted->rank,
                              .one_way = wanted->one_way,
                              .idempotent = wanted->idempotent,
                              .urgent = wanted->urgent,
                              .caller = {.owner = wanted->session,
                                         .begun = world->nodes[wanted->node].incarnation,
                                         .cookie = serial,
                                         .uid = CALLER_UID + wanted->session,
                                         .bytes = wanted->bytes,
                                         .room = LIMIT_CALL_BYTES}};
    struct caller_call *call = &calls->call[serial - 1];

    if (serial > CALLER_CALLS) {
        return 0;
    }
    *call = *wanted;
    call->lane = lane->number;
    call->incarnation = what.caller.begun;
    call->begun_us = world->now_us;
    call->open = calls->open_count;
    calls->open[calls->open_count++] = serial;
    calls->call_count++;
    for (uint32_t n = 0; call->rank == CALLS_ANY && n < 2 && caller_dice(calls, 30); n++) {
        what.near[what.near_count++] = (uint8_t)caller_below(calls, CALLER_NODES + 1);
    }
    bring_memory(lane, call, serial, &what);
    count_begun(world->totals, call);
    say_begun(world, call, serial);
    wake(world, lane);
    calls_begin(lane->calls, &what, world->now_us);
    return serial;
}

static uint64_t some_deadline_us(struct world *world)
{
    static const uint64_t most[] = {1, 1000, 20000, 200000, 2000000};
    struct caller_world *calls = world->calls;

    return caller_dice(calls, 5)
               ? WORLD_NEVER
               : world->now_us + caller_below(calls, most[caller_below(calls, ARRAY_LENGTH(most))]);
}

/* Mostly somebody who serves it. */
static uint32_t some_rank(struct world *world, uint32_t name)
{
    struct caller_world *calls = world->calls;
    uint32_t rank = (uint32_t)caller_below(calls, world->node_count);

    if (caller_dice(calls, 45)) {
        return CALLS_ANY;
    }
    for (uint32_t n = 0; n < world->node_count && calls->serving[rank][name] == NULL; n++) {
        rank = caller_dice(calls, 90) ? (rank + 1) % world->node_count : rank;
    }
    return rank;
}

static void some_calls(struct world *world, uint32_t rank, uint32_t session)
{
    struct caller_world *calls = world->calls;
    uint32_t count = caller_dice(calls, 15) ? 2 + (uint32_t)caller_below(calls, BURST) : 1;
    struct caller_call call = {
        .node = rank,
        .session = session,
        .name = (uint32_t)caller_below(calls, calls->names),
    };

    call.rank = some_rank(world, call.name);

    for (uint32_t n = 0; n < count; n++) {
        call.deadline_us = some_deadline_us(world);
        call.one_way = caller_dice(calls, 10);
        call.idempotent = !call.one_way && caller_dice(calls, 40);
        call.urgent = caller_dice(calls, 20);
        call.bytes = 16 + (uint32_t)caller_below(calls, calls->most_bytes - 15);
        (void)begin(world, &call);
    }
}

static void cancel(struct world *world, uint32_t serial)
{
    struct caller_call *call = &world->calls->call[serial - 1];
    struct world_lane *lane = lane_for(world, call->node, call->name);

    world_say(world, "node %u cancels call %u", call->node, serial);
    call->canceled = true;
    wake(world, lane);
    WORLD_CHECK(world, calls_cancel(lane->calls, call->session, serial, world->now_us),
                "node %u: call %u cannot be cancelled, and has not ended", call->node, serial);
    WORLD_CHECK(world, call->ended, "node %u: call %u is cancelled, and goes on", call->node,
                serial);
}

static void cancel_some(struct world *world, uint32_t rank)
{
    const struct caller_world *calls = world->calls;

    for (uint32_t n = 0; n < calls->open_count; n++) {
        if (calls->call[calls->open[n] - 1].node == rank) {
            cancel(world, calls->open[n]);
            return;
        }
    }
}

/* When all is calm nobody waits for ever for who never answers. */
static void cancel_endless(struct world *world, uint32_t rank)
{
    const struct caller_world *calls = world->calls;

    for (uint32_t n = calls->open_count; n > 0; n--) {
        const struct caller_call *call = &calls->call[calls->open[n - 1] - 1];

        if (call->node == rank && call->deadline_us == WORLD_NEVER) {
            cancel(world, calls->open[n - 1]);
        }
    }
}

void caller_step(struct world *world, uint32_t rank)
{
    struct caller_world *calls = world->calls;
    uint32_t session = (uint32_t)caller_below(calls, WORLD_SESSIONS);
    const struct world_node *node = &world->nodes[rank];
    uint64_t lot;

    if (node->paused || (!node->alive && !world->calm)) {
        world_at(world, 1000, EVENT_CALLS, rank, 0, 0);
        return;
    }
    if (world->calm) {
        cancel_endless(world, rank);
        return;
    }
    if (calls->steps[rank]-- == 0) {
        calls->steps[rank] = 0;
        return;
    }
    lot = caller_below(calls, 100);
    session = node->sessions[session].may_write ? session : 0;
    if (lot < 75) {
        some_calls(world, rank, session);
    } else if (lot < 85) {
        cancel_some(world, rank);
    } else {
        server_change(world, rank, (uint32_t)caller_below(calls, calls->names));
    }
    world_at(world, 1 + caller_below(calls, calls->gap_us), EVENT_CALLS, rank, 0, 0);
}

void caller_calm(struct world *world)
{
    for (uint32_t n = 0; world->calls != NULL && n < world->node_count; n++) {
        world_at(world, 2, EVENT_CALLS, n, 0, 0);
    }
    if (world->calls != NULL) {
        collector_calm(world);
    }
}

/* ---- what must hold ------------------------------------------------------- */

/* Who ended so as its link went: that has been said by now. */
static void check_losses(struct world *world)
{
    struct caller_world *calls = world->calls;

    while (calls->lost_count > 0) {
        uint32_t serial = calls->lost[--calls->lost_count];
        const struct caller_call *call = &calls->call[serial - 1];
        const struct caller_sight *sight = &calls->sight[call->node][call->lane][call->rank];

        WORLD_CHECK(world,
                    !world->nodes[call->node].alive || sight->lost ||
                        (sight->was_lost && sight->lost_us >= call->begun_us),
                    "call %u of node %u ends as if node %u were lost, which it is not", serial,
                    call->node, call->rank);
    }
}

/* Nobody waits beyond a deadline, nor for who is lost. */
static void check_open(struct world *world, uint32_t serial)
{
    struct caller_world *calls = world->calls;
    const struct caller_call *call = &calls->call[serial - 1];
    const struct world_node *node = &world->nodes[call->node];
    const struct world_lane *lane = &node->lane[call->lane];

    if (node->paused) {
        return;
    }
    WORLD_CHECK(world, world->now_us <= latest_us(world, call),
                "call %u of node %u has not ended, %llu us after its deadline", serial, call->node,
                (unsigned long long)(world->now_us - call->deadline_us));
    WORLD_CHECK(
        world,
        call->rank == CALLS_ANY || call->rank == call->node || call->idempotent ||
            !caller_sight_of(lane, call->rank)->lost ||
            exchange_users_channel(lane->exchange, call->rank, calls->hash[call->name]) != NULL,
        "call %u of node %u waits for node %u, which is lost", serial, call->node, call->rank);
}

void caller_check(struct world *world)
{
    struct caller_world *calls = world->calls;

    if (calls == NULL) {
        return;
    }
    check_losses(world);
    for (uint32_t n = 0; n < calls->open_count; n++) {
        check_open(world, calls->open[n]);
    }
    collector_check(world);
}

/* The tables, and that no link has more under way than it has places. */
void caller_check_lane(struct world_lane *lane)
{
    struct world *world = lane->world;
    const struct caller_world *calls = world->calls;
    const struct members *members = &world->nodes[lane->node].members;

    if (calls == NULL) {
        return;
    }
    collector_check_lane(lane);
    mover_check_lane(lane);
    WORLD_CHECK(world, calls_is_valid(lane->calls), "the calls of node %u are wrong", lane->node);
    for (uint32_t n = 0; n < world->node_count * calls->names; n++) {
        uint32_t rank = n / calls->names;
        struct rpc *channel =
            rank == lane->node
                ? NULL
                : exchange_users_channel(lane->exchange, rank, calls->hash[n % calls->names]);

        WORLD_CHECK(world,
                    channel == NULL ||
                        (rpc_is_valid(channel) &&
                         rpc_pending(channel) <= exchange_users_slots(places_of(calls, members))),
                    "node %u has more calls under way to node %u than there are places", lane->node,
                    rank);
    }
}

/* Nothing is under way, and nobody is owed an answer. */
bool caller_is_idle(const struct world *world)
{
    bool idle = world->calls == NULL || world->calls->open_count == 0;

    for (uint32_t rank = 0; idle && world->calls != NULL && rank < world->node_count; rank++) {
        const struct world_node *node = &world->nodes[rank];

        for (uint32_t n = 0; n < node->lanes && node->alive; n++) {
            idle = idle && calls_under_way(node->lane[n].calls) == 0 &&
                   calls_unanswered(node->lane[n].calls) == 0;
        }
    }
    return idle && (world->calls == NULL || (collector_is_idle(world) && mover_is_idle(world)));
}

void caller_why_not_idle(struct world *world)
{
    if (world->calls == NULL) {
        return;
    }
    for (uint32_t n = 0; n < world->calls->open_count; n++) {
        world_fail(world, "call %u never ends", world->calls->open[n]);
    }
    collector_why_not_idle(world);
    mover_why_not_idle(world);
    for (uint32_t rank = 0; rank < world->node_count; rank++) {
        for (uint32_t n = 0; n < world->nodes[rank].lanes; n++) {
            const struct calls *calls = world->nodes[rank].lane[n].calls;

            WORLD_CHECK(world, calls_under_way(calls) == 0 && calls_unanswered(calls) == 0,
                        "node %u: %u calls and %u requests are left, and nobody waits for them",
                        rank, calls_under_way(calls), calls_unanswered(calls));
        }
    }
}

/* ---- in calm -------------------------------------------------------------- */

static bool is_served(const struct world *world, uint32_t rank, uint32_t name)
{
    bool served = rank != CALLS_ANY && world->calls->serving[rank][name] != NULL;

    for (uint32_t n = 0; rank == CALLS_ANY && n < world->node_count; n++) {
        served = served || world->calls->serving[n][name] != NULL;
    }
    return served;
}

/* Each node calls each service, of each node and of any: who serves it answers, and only they. */
void caller_judge(struct world *world)
{
    struct caller_world *calls = world->calls;
    uint64_t quiet_us;
    uint32_t first, asked = 0;

    if (calls == NULL) {
        return;
    }
    /* Who serves what is known by then, and nobody is taken for dead. */
    quiet_us = max_u64(world->stalls_until_us, detect_calm_us(world));
    world_run(world, TOLD_US + (quiet_us > world->now_us ? quiet_us - world->now_us : 0));
    first = calls->call_count;
    for (uint32_t n = 0; n < world->node_count * calls->names * (world->node_count + 1); n++) {
        uint32_t rank = n % (world->node_count + 1);
        struct caller_call call = {
            .node = n / (world->node_count + 1) / calls->names,
            .name = n / (world->node_count + 1) % calls->names,
            .rank = rank == world->node_count ? CALLS_ANY : rank,
            .deadline_us = world->now_us + JUDGES_US,
            .bytes = 16 + n,
            .is_the_judges = true,
        };

        if (calls->open_count == calls->calls / 2 || calls->open_count == calls->requests / 2) {
            world_run(world, 2 * TOLD_US); /* no table is to be full */
        }
        asked += begin(world, &call) != 0 ? 1 : 0;
    }
    world_run(world, JUDGES_US / 10);
    for (uint32_t serial = first + 1; serial <= first + asked; serial++) {
        const struct caller_call *call = &calls->call[serial - 1];
        nigh_status wanted = is_served(world, call->rank, call->name) ? NIGH_OK : NIGH_NOT_FOUND;

        WORLD_CHECK(world,
                    call->ended && (call->status == wanted ||
                                    (wanted == NIGH_OK && call->status == CALLER_NO)),
                    "in calm, call %u of node %u of service %u at node %d ends with %s", serial,
                    call->node, call->name, (int)call->rank,
                    call->ended ? nigh_status_name(call->status) : "nothing");
    }
    world->totals->calls_in_calm += asked;
    collector_judge(world);
}
