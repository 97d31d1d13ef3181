/* SPDX-License-Identifier: Apache-2.0 */
/* See caller.h. Services of a simulated cluster: what they are asked, and what they answer. */
#include "collector.h"
#include "mover.h"

#include <stddef.h>
#include <string.h>

#define JUDGES_US 1000u /* the judge's calls are answered by then */

/* ---- bytes ---------------------------------------------------------------- */

static uint8_t byte_at(const struct caller_told *told, uint32_t at)
{
    return (uint8_t)(told->serial * 31 + told->what * 7 + told->turn * 3 + at);
}

void caller_fill_told(uint8_t *to, const struct caller_told *told, uint32_t count)
{
    memcpy(to, told, sizeof(*told));
    for (uint32_t n = (uint32_t)sizeof(*told); n < count; n++) {
        to[n] = byte_at(told, n);
    }
}

bool caller_read_told(const uint8_t *bytes, uint32_t count, struct caller_told *told)
{
    if (count < sizeof(*told)) {
        return false;
    }
    memcpy(told, bytes, sizeof(*told));
    for (uint32_t n = (uint32_t)sizeof(*told); n < count; n++) {
        if (bytes[n] != byte_at(told, n)) {
            return false;
        }
    }
    return true;
}

void caller_fill_request(const struct caller_world *calls, uint8_t *to, uint32_t serial)
{
    const struct caller_call *call = &calls->call[serial - 1];
    struct caller_told told = {serial, call->node, call->name, 0};

    caller_fill_told(to, &told, call->bytes);
}

static uint32_t reply_bytes(const struct caller_world *calls, const struct caller_told *told)
{
    uint32_t room = calls->most_bytes - (uint32_t)sizeof(*told);

    return (uint32_t)sizeof(*told) + (told->serial * 97 + told->turn * 13) % (room + 1);
}

uint32_t caller_fill_reply(const struct caller_world *calls, uint8_t *to, uint32_t serial,
                           uint32_t server, uint32_t turn)
{
    struct caller_told told = {serial, calls->call[serial - 1].node, server, turn};
    uint32_t bytes = reply_bytes(calls, &told);

    caller_fill_told(to, &told, bytes);
    return bytes;
}

uint32_t caller_read_reply(const struct caller_world *calls, const uint8_t *bytes, uint32_t count,
                           uint32_t serial, uint32_t server)
{
    struct caller_told told;

    return caller_read_told(bytes, count, &told) && told.serial == serial &&
                   told.caller == calls->call[serial - 1].node && told.what == server &&
                   count == reply_bytes(calls, &told)
               ? told.turn
               : 0;
}

/* ---- requests ------------------------------------------------------------- */

static void check_request(const struct world_lane *lane, const struct caller_registration *of,
                          uint32_t serial, const struct calls_request *request)
{
    struct world *world = lane->world;
    const struct caller_call *call = &world->calls->call[serial - 1];

    WORLD_CHECK(world, of->node == lane->node && !of->gone,
                "node %u: call %u reaches a service that is gone", lane->node, serial);
    WORLD_CHECK(world,
                request->count == call->bytes && of->name == call->name &&
                    request->rank == call->node && request->uid == CALLER_UID + call->session &&
                    (call->rank == CALLS_ANY || call->rank == lane->node) &&
                    (request->id == 0) == call->one_way,
                "node %u: call %u is not as it was begun", lane->node, serial);
}

/* Whose it is; fails unless these are exactly the bytes of one call. */
static uint32_t read_request(const struct world_lane *lane, const struct calls_request *request)
{
    const struct caller_world *calls = lane->world->calls;
    struct caller_told told;

    WORLD_CHECK(lane->world,
                caller_read_told(request->bytes, request->count, &told) && told.serial > 0 &&
                    told.serial <= calls->call_count && told.turn == 0 &&
                    told.caller == calls->call[told.serial - 1].node &&
                    told.what == calls->call[told.serial - 1].name,
                "node %u: a request with the bytes of none", lane->node);
    return told.serial;
}

/* The service does it: the turn. */
static uint32_t carry_out(const struct world_lane *lane, uint32_t serial)
{
    struct caller_call *call = &lane->world->calls->call[serial - 1];
    struct world_totals *totals = lane->world->totals;

    call->carried_out++;
    WORLD_CHECK(lane->world, call->idempotent || call->carried_out == 1,
                "node %u carries out call %u of node %u once more", lane->node, serial, call->node);
    WORLD_CHECK(lane->world, !call->untaken,
                "node %u carries out call %u of node %u, which was told that nobody has",
                lane->node, serial, call->node);
    totals->calls_carried_out++;
    totals->calls_again += call->carried_out > 1 ? 1 : 0;
    return call->carried_out;
}

static void answer(struct world_lane *lane, struct caller_request *request)
{
    struct world *world = lane->world;
    struct caller_world *calls = world->calls;
    struct caller_call *call = &calls->call[request->serial - 1];
    const void *tag = calls_request_tag(lane->calls, request->id);
    bool no = request->turn > 0 && request->number % 100 < calls->no_percent;
    uint64_t id = request->id;
    bool said;

    WORLD_CHECK(world, tag == NULL || (tag == request->of && !request->of->gone),
                "node %u: call %u is asked of one service and answered by another", lane->node,
                request->serial);
    request->used = false;
    if (request->turn == 0) {
        world_say(world, "node %u: the service refuses call %u", lane->node, request->serial);
        said = calls_refuse(lane->calls, id, NIGH_OVERLOADED, world->now_us);
    } else {
        uint32_t count =
            no ? 0
               : caller_fill_reply(calls, calls->reply, request->serial, lane->node, request->turn);

        world_say(world, "node %u answers call %u: %s%s", lane->node, request->serial,
                  no ? "no" : "yes", tag == NULL ? ", and nobody waits for it" : "");
        call->answers += tag != NULL && !no ? 1 : 0;
        call->said_no = call->said_no || (tag != NULL && no);
        said = calls_reply(lane->calls, id, no ? CALLER_NO : NIGH_OK, calls->reply, count,
                           world->now_us);
    }
    WORLD_CHECK(world, said == (tag != NULL), "node %u: an answer to call %u went to %s",
                lane->node, request->serial, said ? "nobody that asked" : "nobody");
    WORLD_CHECK(world, !calls_reply(lane->calls, id, NIGH_OK, NULL, 0, world->now_us),
                "node %u: call %u is answered twice", lane->node, request->serial);
}

static uint32_t take_place(const struct caller_world *calls)
{
    for (uint32_t n = 0; n < CALLER_REQUESTS; n++) {
        if (!calls->all[n].used) {
            return n;
        }
    }
    return CALLER_REQUESTS;
}

/* When the service answers; 0: at once. */
static uint64_t some_delay_us(struct caller_world *calls, const struct caller_call *call)
{
    uint64_t most_us = call->is_the_judges ? JUDGES_US : calls->late_us;

    return caller_dice(calls, 40) ? 0 : 1 + caller_below(calls, most_us);
}

/* Behind what it says of the memory that it brings. */
static struct calls_request without_infos(const struct calls_request *request)
{
    struct calls_request plain = *request;
    uint32_t infos = request->bulks * (uint32_t)sizeof(struct bulks_info);

    plain.bytes += infos;
    plain.count -= infos;
    return plain;
}

void server_take(void *context, void *tag, const struct calls_request *came)
{
    struct world_lane *lane = context;
    struct world *world = lane->world;
    struct caller_world *calls = world->calls;
    const struct calls_request plain = without_infos(came), *request = &plain;
    uint32_t serial, place = take_place(calls);
    const struct caller_call *call;
    struct caller_request *kept;
    uint64_t delay_us;
    bool refused, moves;

    if (world->nodes[lane->node].ending) {
        return; /* its process is gone */
    }
    if (collector_take(lane, tag, request)) {
        return;
    }
    serial = read_request(lane, request);
    call = &calls->call[serial - 1];
    mover_check_infos(lane, call->loan, came);
    refused = request->id != 0 && !call->is_the_judges && caller_dice(calls, calls->refuse_percent);
    check_request(lane, tag, serial, request);
    world_say(world, "node %u: the service has call %u of node %u", lane->node, serial, call->node);
    NIGH_ASSERT(place < CALLER_REQUESTS);
    kept = &calls->all[place];
    *kept = (struct caller_request){.used = true,
                                    .node = lane->node,
                                    .lane = lane->number,
                                    .serial = serial,
                                    .turn = refused ? 0 : carry_out(lane, serial),
                                    .number = ++calls->request_count,
                                    .id = request->id,
                                    .of = tag};
    delay_us = some_delay_us(calls, call);
    moves = !refused && call->loan != 0 && mover_take(lane, call->loan, place);
    if (request->id == 0 ||
        (!call->is_the_judges && !refused && caller_dice(calls, calls->never_percent))) {
        kept->used = false; /* whatever it does, it says nothing */
    } else if (moves) {
        return; /* it answers when all has been moved */
    } else if (delay_us == 0) {
        answer(lane, kept);
    } else {
        world_at(world, delay_us, EVENT_ANSWER, place, 0, kept->number);
    }
}

void server_answer(struct world *world, uint32_t place, uint64_t number)
{
    struct caller_request *request = &world->calls->all[place];
    struct world_node *node = &world->nodes[request->node];

    if (!request->used || request->number != number) {
        return; /* its node died */
    }
    if (node->paused) {
        world_at(world, 1000, EVENT_ANSWER, place, 0, number);
        return;
    }
    node->due_us = world->now_us;
    node->lane[request->lane].quiet_until_us = 0;
    answer(&node->lane[request->lane], request);
}

/* ---- services ------------------------------------------------------------- */

static void tell_lanes(struct world *world, uint32_t rank)
{
    struct caller_world *calls = world->calls;
    struct world_node *node = &world->nodes[rank];
    struct calls_service all[CALLER_NAMES];
    uint32_t count = 0;

    for (uint32_t name = 0; name < calls->names; name++) {
        if (calls->serving[rank][name] != NULL) {
            all[count++] = (struct calls_service){calls->hash[name], calls->serving[rank][name]};
        }
    }
    node->due_us = world->now_us;
    for (uint32_t n = 0; n < node->lanes; n++) {
        node->lane[n].quiet_until_us = 0;
        calls_set_services(node->lane[n].calls, all, count, world->now_us);
    }
}

static void enter(struct world *world, uint32_t rank, uint32_t name)
{
    struct caller_world *calls = world->calls;

    if (calls->registration_count < CALLER_REGISTRATIONS) {
        struct caller_registration *entry = &calls->registrations[calls->registration_count++];

        *entry = (struct caller_registration){.node = rank, .name = name};
        calls->serving[rank][name] = entry;
        calls->registered_us[rank][name] = world->now_us;
        world->totals->services++;
    }
}

void server_change(struct world *world, uint32_t rank, uint32_t name)
{
    struct caller_world *calls = world->calls;
    struct caller_registration *entry = calls->serving[rank][name];

    world_say(world, "node %u %s service %u", rank, entry == NULL ? "registers" : "withdraws",
              name);
    if (entry == NULL) {
        enter(world, rank, name);
    } else {
        entry->gone = true;
        calls->serving[rank][name] = NULL;
        calls->withdrawn_us[rank][name] = world->now_us;
    }
    tell_lanes(world, rank);
}

void server_node_starts(struct world *world, uint32_t rank)
{
    for (uint32_t name = 0; name < world->calls->names; name++) {
        if (caller_dice(world->calls, 65)) {
            enter(world, rank, name);
            world_say(world, "node %u registers service %u", rank, name);
        }
    }
    tell_lanes(world, rank);
}

void server_node_ends(struct world *world, uint32_t rank)
{
    struct caller_world *calls = world->calls;

    for (uint32_t name = 0; name < calls->names; name++) {
        if (calls->serving[rank][name] != NULL) {
            calls->serving[rank][name]->gone = true;
            calls->serving[rank][name] = NULL;
        }
    }
    for (uint32_t n = 0; n < CALLER_REQUESTS; n++) {
        calls->all[n].used = calls->all[n].used && calls->all[n].node != rank;
    }
}
