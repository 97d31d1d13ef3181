/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See calls.h. A call of another node is WAITING (its channel has no place) or SENT; one of this
 * node is SERVED from the start. Only those that wait, and those served here, have their deadlines
 * here: of what was sent the channel keeps them.
 */
#include "rpc/calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/heap_timer.h"
#include "base/list.h"

#define CALLS_NONE    UINT32_MAX
#define CALLS_BUCKETS 1024u

/* A request's id: generation, place, lane and 1, so that none is 0. */
#define CALLS_LANE_BITS  8
#define CALLS_PLACE_BITS 16
#define CALLS_PLACE_MASK ((1u << CALLS_PLACE_BITS) - 1)

_Static_assert(LIMIT_CALL_REQUESTS <= 1u << CALLS_PLACE_BITS, "a place fits an id");
_Static_assert(LIMIT_LANES < 1u << CALLS_LANE_BITS, "a lane fits an id");

enum pending_state {
    PENDING_FREE = 0,
    PENDING_WAITING, /* in `waiting` of its rank */
    PENDING_SENT,    /* `number` is the channel's */
    PENDING_SERVED   /* `number` is the request's place */
};

struct pending {
    struct calls *calls;
    enum pending_state state;
    struct calls_call call;
    struct list_node place; /* in `free`, or among its owner's */
    struct list_node queue; /* in `waiting` of its rank */
    struct timer timer;
    struct rpc *channel; /* SENT */
    uint64_t number;
};

struct owner {
    struct list calls;
    uint32_t count;
};

struct unanswered {
    struct rpc *channel; /* NULL: of this node, `local` */
    uint64_t call;
    uint32_t local; /* the pending's place */
    uint32_t generation;
    uint32_t next; /* of those that are free, or of its bucket */
    bool used;
    void *tag;
};

struct calls {
    struct calls_config config;
    struct pending *pending;
    struct list free;
    struct owner *owners;
    uint32_t under_way_count;
    struct list *waiting; /* of each rank */
    uint32_t waiting_count;
    struct timers timers;
    struct timer **timer_places;
    struct unanswered *requests;
    uint32_t free_request;
    uint32_t unanswered_count;
    uint32_t *buckets; /* of other nodes' requests: the first place of each */
    struct calls_service services[LIMIT_SERVICES];
    uint32_t service_count;
    uint8_t *copy; /* of a request of this node: its caller may write to the original */
};

/* ---- create, destroy ------------------------------------------------------ */

static bool make_tables(struct calls *calls)
{
    const struct calls_config *config = &calls->config;

    calls->pending = calloc(config->calls, sizeof(*calls->pending));
    calls->owners = calloc(config->owners, sizeof(*calls->owners));
    calls->waiting = calloc(config->nodes, sizeof(*calls->waiting));
    calls->timer_places = calloc(config->calls, sizeof(struct timer *));
    calls->requests = calloc(config->requests, sizeof(*calls->requests));
    calls->buckets = malloc(CALLS_BUCKETS * sizeof(*calls->buckets));
    calls->copy = malloc(LIMIT_CALL_BYTES);
    return calls->pending != NULL && calls->owners != NULL && calls->waiting != NULL &&
           calls->timer_places != NULL && calls->requests != NULL && calls->buckets != NULL &&
           calls->copy != NULL;
}

nigh_status calls_create(const struct calls_config *config, struct calls **out)
{
    struct calls *calls;

    if (config->calls == 0 || config->calls > LIMIT_CALLS || config->requests == 0 ||
        config->requests > LIMIT_CALL_REQUESTS || config->nodes == 0 || config->owners == 0 ||
        config->rank >= config->nodes || config->number >= LIMIT_LANES) {
        return NIGH_INVALID;
    }
    calls = calloc(1, sizeof(*calls));
    if (calls == NULL) {
        return NIGH_NO_RESOURCES;
    }
    calls->config = *config;
    if (!make_tables(calls)) {
        calls_destroy(calls);
        return NIGH_NO_RESOURCES;
    }
    list_init(&calls->free);
    timers_init(&calls->timers, calls->timer_places, config->calls);
    for (uint32_t n = 0; n < config->nodes; n++) {
        list_init(&calls->waiting[n]);
    }
    for (uint32_t n = 0; n < config->owners; n++) {
        list_init(&calls->owners[n].calls);
    }
    for (uint32_t n = 0; n < config->calls; n++) {
        calls->pending[n].calls = calls;
        list_push_back(&calls->free, &calls->pending[n].place);
    }
    for (uint32_t n = 0; n < config->requests; n++) {
        calls->requests[n].next = n + 1 < config->requests ? n + 1 : CALLS_NONE;
    }
    memset(calls->buckets, 0xff, CALLS_BUCKETS * sizeof(*calls->buckets)); /* CALLS_NONE */
    *out = calls;
    return NIGH_OK;
}

void calls_destroy(struct calls *calls)
{
    if (calls == NULL) {
        return;
    }
    free(calls->pending);
    free(calls->owners);
    free(calls->waiting);
    free(calls->timer_places);
    free(calls->requests);
    free(calls->buckets);
    free(calls->copy);
    free(calls);
}

/* ---- pending -------------------------------------------------------------- */

static struct pending *take_pending(struct calls *calls, const struct calls_call *call)
{
    struct owner *owner = &calls->owners[call->caller.owner];
    struct pending *pending;

    if (list_empty(&calls->free) || owner->count == LIMIT_CALL_PLACES) {
        return NULL;
    }
    pending = container_of(list_first(&calls->free), struct pending, place);
    list_remove(&pending->place);
    list_push_back(&owner->calls, &pending->place);
    owner->count++;
    calls->under_way_count++;
    pending->call = *call;
    return pending;
}

static void give_pending(struct calls *calls, struct pending *pending)
{
    if (pending->state == PENDING_WAITING) {
        list_remove(&pending->queue);
        calls->waiting_count--;
    }
    timers_cancel(&calls->timers, &pending->timer);
    pending->state = PENDING_FREE;
    list_remove(&pending->place);
    list_push_back(&calls->free, &pending->place);
    calls->owners[pending->call.caller.owner].count--;
    calls->under_way_count--;
}

static void say_ended(struct calls *calls, const struct calls_caller *caller,
                      const struct calls_end *end)
{
    calls->config.shell.ended(calls->config.shell.context, caller, end);
}

/* Its place is free before anybody hears of it. */
static void end_pending(struct calls *calls, struct pending *pending, const struct calls_end *end)
{
    struct calls_caller caller = pending->call.caller;

    give_pending(calls, pending);
    say_ended(calls, &caller, end);
}

static void fail_pending(struct calls *calls, struct pending *pending, nigh_status status)
{
    end_pending(calls, pending, &(struct calls_end){.status = status});
}

/* There are as many places as calls. */
static void arm(struct calls *calls, struct pending *pending)
{
    if (pending->call.deadline_us != UINT64_MAX) {
        NIGH_ASSERT(timers_add(&calls->timers, &pending->timer, pending->call.deadline_us) ==
                    NIGH_OK);
    }
}

/* ---- requests ------------------------------------------------------------- */

static uint64_t id_of(const struct calls *calls, uint32_t place)
{
    return (uint64_t)calls->requests[place].generation << (CALLS_LANE_BITS + CALLS_PLACE_BITS) |
           (uint64_t)place << CALLS_LANE_BITS | (calls->config.number + 1);
}

uint32_t calls_lane_of(uint64_t id)
{
    return (uint32_t)(id & ((1u << CALLS_LANE_BITS) - 1)) - 1;
}

static struct unanswered *find_request(const struct calls *calls, uint64_t id)
{
    uint32_t place = (uint32_t)(id >> CALLS_LANE_BITS) & CALLS_PLACE_MASK;

    if (place >= calls->config.requests || !calls->requests[place].used ||
        id_of(calls, place) != id) {
        return NULL;
    }
    return &calls->requests[place];
}

static uint32_t take_request(struct calls *calls, void *tag)
{
    uint32_t place = calls->free_request;
    struct unanswered *request;

    if (place == CALLS_NONE) {
        return CALLS_NONE;
    }
    request = &calls->requests[place];
    calls->free_request = request->next;
    calls->unanswered_count++;
    request->used = true;
    request->tag = tag;
    request->generation++;
    return place;
}

/* Where the first is of those to which a request of another node belongs. A channel has few under
 * way, so whatever numbers its peer gives them, a bucket stays short. */
static uint32_t *bucket_of(const struct calls *calls, const struct rpc *channel, uint64_t call)
{
    uint64_t mixed = ((uint64_t)(uintptr_t)channel ^ call) * UINT64_C(0x9e3779b97f4a7c15);

    return &calls->buckets[mixed >> 32 & (CALLS_BUCKETS - 1)];
}

/* The link to a request of another node; to CALLS_NONE: it is answered, or nobody wants it to be.
 */
static uint32_t *find_came(const struct calls *calls, const struct rpc *channel, uint64_t call)
{
    uint32_t *at = bucket_of(calls, channel, call);

    while (*at != CALLS_NONE &&
           (calls->requests[*at].channel != channel || calls->requests[*at].call != call)) {
        at = &calls->requests[*at].next;
    }
    return at;
}

static void note_came(struct calls *calls, uint32_t place)
{
    struct unanswered *request = &calls->requests[place];
    uint32_t *bucket = bucket_of(calls, request->channel, request->call);

    request->next = *bucket;
    *bucket = place;
}

static void give_request(struct calls *calls, struct unanswered *request)
{
    if (request->channel != NULL) {
        *find_came(calls, request->channel, request->call) = request->next;
    }
    request->used = false;
    request->next = calls->free_request;
    calls->free_request = (uint32_t)(request - calls->requests);
    calls->unanswered_count--;
}

static const struct calls_service *find_service(const struct calls *calls, uint64_t hash)
{
    for (uint32_t n = 0; n < calls->service_count; n++) {
        if (calls->services[n].hash == hash) {
            return &calls->services[n];
        }
    }
    return NULL;
}

void *calls_request_tag(const struct calls *calls, uint64_t id)
{
    const struct unanswered *request = find_request(calls, id);

    return request == NULL ? NULL : request->tag;
}

static void answer(struct calls *calls, struct unanswered *request, const struct calls_end *end)
{
    struct unanswered was = *request;
    struct rpc_piece piece = {.data = end->bytes, .bytes = end->count};

    give_request(calls, request);
    if (was.channel != NULL) {
        rpc_reply(was.channel, was.call, end->status, &piece, end->count > 0 ? 1 : 0);
    } else {
        end_pending(calls, &calls->pending[was.local], end);
    }
}

bool calls_reply(struct calls *calls, uint64_t id, nigh_status status, const uint8_t *bytes,
                 uint32_t count, uint64_t now_us)
{
    struct unanswered *request = find_request(calls, id);

    (void)now_us;
    NIGH_ASSERT(count <= LIMIT_CALL_BYTES);
    if (request == NULL) {
        return false;
    }
    answer(calls, request, &(struct calls_end){.status = status, .bytes = bytes, .count = count});
    return true;
}

void calls_set_services(struct calls *calls, const struct calls_service *services, uint32_t count,
                        uint64_t now_us)
{
    (void)now_us;
    NIGH_ASSERT(count <= LIMIT_SERVICES);
    memcpy(calls->services, services, count * sizeof(*services));
    calls->service_count = count;
    for (uint32_t n = 0; n < calls->config.requests && calls->unanswered_count > 0; n++) {
        struct unanswered *request = &calls->requests[n];
        bool stays = !request->used;

        for (uint32_t s = 0; s < count && !stays; s++) {
            stays = services[s].tag == request->tag;
        }
        if (!stays) {
            answer(calls, request, &(struct calls_end){.status = NIGH_CLOSED});
        }
    }
}

/* NIGH_OK: the service has it. */
static nigh_status serve(struct calls *calls, uint64_t hash, const struct unanswered *from,
                         struct calls_request *request)
{
    const struct calls_service *service = find_service(calls, hash);
    bool one_way = from == NULL;
    uint32_t place;

    if (service == NULL) {
        return NIGH_NOT_FOUND;
    }
    if (!one_way) {
        place = take_request(calls, service->tag);
        if (place == CALLS_NONE) {
            return NIGH_BUSY;
        }
        calls->requests[place].channel = from->channel;
        calls->requests[place].call = from->call;
        calls->requests[place].local = from->local;
        request->id = id_of(calls, place);
        if (from->channel == NULL) {
            calls->pending[from->local].number = place;
        } else {
            note_came(calls, place);
        }
    }
    calls->config.shell.request(calls->config.shell.context, service->tag, request);
    return NIGH_OK;
}

void calls_take(struct calls *calls, struct rpc *channel, uint32_t rank,
                const struct rpc_request *came, uint64_t now_us)
{
    struct calls_request request = {.rank = rank, .deadline_us = came->deadline_us};
    struct unanswered from = {.channel = channel, .call = came->call};
    struct calls_wire wire;
    nigh_status status = NIGH_INVALID;

    (void)now_us;
    if (came->method != CALLS_METHOD) {
        status = NIGH_UNSUPPORTED;
    } else if (came->bytes >= sizeof(wire) && came->bytes <= CALLS_PAYLOAD) {
        memcpy(&wire, came->payload, sizeof(wire));
        request.bytes = came->payload + sizeof(wire);
        request.count = came->bytes - (uint32_t)sizeof(wire);
        request.uid = wire.uid;
        status = serve(calls, wire.service, came->call != 0 ? &from : NULL, &request);
    }
    if (status != NIGH_OK && came->call != 0) {
        rpc_reply(channel, came->call, status, NULL, 0);
    }
}

/* ---- calls of this node's own services ------------------------------------ */

static void begin_here(struct calls *calls, struct pending *pending, uint64_t now_us)
{
    struct calls_call call = pending->call;
    struct calls_request request = {.deadline_us = call.deadline_us,
                                    .bytes = calls->copy,
                                    .count = call.caller.bytes,
                                    .rank = calls->config.rank,
                                    .uid = call.caller.uid};
    struct unanswered from = {.local = (uint32_t)(pending - calls->pending)};
    const uint8_t *bytes =
        calls->config.shell.bytes(calls->config.shell.context, &pending->call.caller);
    nigh_status status = NIGH_INVALID;

    pending->state = PENDING_SERVED;
    pending->number = CALLS_NONE;
    if (call.deadline_us <= now_us) {
        status = NIGH_TIMEOUT;
    } else if (bytes != NULL) {
        memcpy(calls->copy, bytes, call.caller.bytes);
        arm(calls, pending);
        status = serve(calls, call.service, call.one_way ? NULL : &from, &request);
    }
    /* What the service has may have ended already, and its place be another's. */
    if (status != NIGH_OK || call.one_way) {
        fail_pending(calls, pending, status);
    }
}

/* ---- calls of other nodes' ------------------------------------------------ */

static bool send_waiting(struct calls *calls, uint32_t rank, uint64_t now_us);

static void on_done(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                    uint64_t now_us)
{
    struct pending *pending = context;
    struct calls *calls = pending->calls;
    uint32_t rank = pending->call.rank;

    if (status == NIGH_PENDING) {
        status = NIGH_PROTOCOL; /* no call ends so, whatever another node says */
    }
    end_pending(calls, pending,
                &(struct calls_end){.status = status, .bytes = payload, .count = bytes});
    (void)send_waiting(calls, rank, now_us);
}

/* NIGH_OK: sent, and its end follows. NIGH_BUSY: its channel has no place now. */
static nigh_status send_pending(struct pending *pending, uint64_t now_us)
{
    struct calls *calls = pending->calls;
    const struct calls_call *call = &pending->call;
    const struct calls_shell *shell = &calls->config.shell;
    struct calls_wire wire = {.service = call->service, .uid = call->caller.uid};
    struct rpc_piece pieces[2] = {{.data = &wire, .bytes = sizeof(wire)}};
    struct rpc *channel = shell->channel(shell->context, call->rank, call->service);
    uint32_t count = call->caller.bytes > 0 ? 2 : 1;
    nigh_status status;

    if (channel == NULL) {
        return NIGH_PEER_LOST;
    }
    pieces[1].data = shell->bytes(shell->context, &call->caller);
    pieces[1].bytes = call->caller.bytes;
    if (pieces[1].data == NULL) {
        return NIGH_INVALID;
    }
    if (call->one_way) {
        return rpc_one_way(channel, CALLS_METHOD, pieces, count, now_us);
    }
    status = rpc_call(channel, CALLS_METHOD, pieces, count, call->deadline_us, now_us, on_done,
                      pending, &pending->number);
    pending->channel = channel;
    return status;
}

/* False: its channel has no place now, and it waits. */
static bool try_pending(struct pending *pending, uint64_t now_us)
{
    struct calls *calls = pending->calls;
    nigh_status status = send_pending(pending, now_us);

    if (status == NIGH_BUSY) {
        return false;
    }
    list_remove(&pending->queue);
    timers_cancel(&calls->timers, &pending->timer);
    calls->waiting_count--;
    pending->state = PENDING_SENT;
    if (status != NIGH_OK || pending->call.one_way) {
        fail_pending(calls, pending, status == NIGH_CLOSED ? NIGH_PEER_LOST : status);
    }
    return true;
}

/* As many as its channels have places for. */
static bool send_waiting(struct calls *calls, uint32_t rank, uint64_t now_us)
{
    struct list *waiting = &calls->waiting[rank];
    bool any = false;

    while (!list_empty(waiting) &&
           try_pending(container_of(list_first(waiting), struct pending, queue), now_us)) {
        any = true;
    }
    return any;
}

static void begin_there(struct calls *calls, struct pending *pending, uint64_t now_us)
{
    struct list *waiting = &calls->waiting[pending->call.rank];
    bool is_first = list_empty(waiting);

    pending->state = PENDING_WAITING;
    list_push_back(waiting, &pending->queue);
    calls->waiting_count++;
    arm(calls, pending);
    if (is_first) {
        (void)try_pending(pending, now_us);
    }
}

/* ---- what is asked -------------------------------------------------------- */

void calls_begin(struct calls *calls, const struct calls_call *call, uint64_t now_us)
{
    struct calls_end end = {.status = NIGH_INVALID};
    struct pending *pending;

    NIGH_ASSERT(call->caller.owner < calls->config.owners);
    if (call->rank < calls->config.nodes && call->caller.bytes <= LIMIT_CALL_BYTES) {
        pending = take_pending(calls, call);
        if (pending != NULL && call->rank == calls->config.rank) {
            begin_here(calls, pending, now_us);
            return;
        }
        if (pending != NULL) {
            begin_there(calls, pending, now_us);
            return;
        }
        end.status = NIGH_BUSY;
    }
    say_ended(calls, &call->caller, &end);
}

/* Ends it as cancelled; what its service says later is for nobody. */
static void leave(struct calls *calls, struct pending *pending, uint64_t now_us)
{
    if (pending->state == PENDING_SERVED && pending->number != CALLS_NONE) {
        give_request(calls, &calls->requests[pending->number]);
    }
    if (pending->state == PENDING_SENT) {
        /* on_done gives its place back, and tells. */
        NIGH_ASSERT(rpc_cancel(pending->channel, pending->number, now_us));
        return;
    }
    fail_pending(calls, pending, NIGH_CANCELED);
}

bool calls_cancel(struct calls *calls, uint32_t owner, uint32_t cookie, uint64_t now_us)
{
    LIST_FOREACH(node, &calls->owners[owner].calls)
    {
        struct pending *pending = container_of(node, struct pending, place);

        if (pending->call.caller.cookie == cookie) {
            leave(calls, pending, now_us);
            return true;
        }
    }
    return false;
}

void calls_forget(struct calls *calls, uint32_t owner, uint64_t now_us)
{
    struct list *own = &calls->owners[owner].calls;

    while (!list_empty(own)) {
        leave(calls, container_of(list_first(own), struct pending, place), now_us);
    }
}

void calls_withdrawn(struct calls *calls, const struct rpc *channel, uint64_t call)
{
    uint32_t place = *find_came(calls, channel, call);

    if (place != CALLS_NONE) {
        give_request(calls, &calls->requests[place]);
    }
}

void calls_channel_down(struct calls *calls, const struct rpc *channel, uint32_t rank,
                        uint64_t now_us)
{
    for (uint32_t n = 0; n < calls->config.requests && calls->unanswered_count > 0; n++) {
        if (calls->requests[n].used && calls->requests[n].channel == channel) {
            give_request(calls, &calls->requests[n]);
        }
    }
    /* Those that waited for it end; those of another channel of the rank go on. */
    (void)send_waiting(calls, rank, now_us);
}

/* ---- time ----------------------------------------------------------------- */

bool calls_tick(struct calls *calls, uint64_t now_us)
{
    uint32_t ended = 0;
    bool any = false;

    /* A channel has places again when credits came, too, which nobody tells. */
    for (uint32_t rank = 0; rank < calls->config.nodes && calls->waiting_count > 0; rank++) {
        any = send_waiting(calls, rank, now_us) || any;
    }
    while (ended < LIMIT_TURN_TIMERS) {
        struct timer *timer = timers_pop_expired(&calls->timers, now_us);
        struct pending *pending;

        if (timer == NULL) {
            break;
        }
        pending = container_of(timer, struct pending, timer);
        if (pending->state == PENDING_SERVED) {
            give_request(calls, &calls->requests[pending->number]);
        }
        fail_pending(calls, pending, NIGH_TIMEOUT);
        ended++;
    }
    return any || ended > 0;
}

uint64_t calls_due_us(const struct calls *calls)
{
    return timers_first_deadline(&calls->timers);
}

/* ---- numbers -------------------------------------------------------------- */

uint32_t calls_under_way(const struct calls *calls)
{
    return calls->under_way_count;
}

uint32_t calls_unanswered(const struct calls *calls)
{
    return calls->unanswered_count;
}

bool calls_is_valid(const struct calls *calls)
{
    uint32_t used = 0, answers = 0, waiting = 0, owned = 0;

    for (uint32_t n = 0; n < calls->config.calls; n++) {
        const struct pending *pending = &calls->pending[n];
        bool is_served = pending->state == PENDING_SERVED;

        used += pending->state != PENDING_FREE;
        waiting += pending->state == PENDING_WAITING;
        if ((pending->state == PENDING_WAITING) != list_is_linked(&pending->queue) ||
            (is_served && !calls->requests[pending->number].used)) {
            return false;
        }
    }
    for (uint32_t n = 0; n < calls->config.requests; n++) {
        answers += calls->requests[n].used;
    }
    for (uint32_t n = 0; n < calls->config.owners; n++) {
        owned += calls->owners[n].count;
    }
    return used == calls->under_way_count && owned == used && waiting == calls->waiting_count &&
           answers == calls->unanswered_count && timers_is_valid(&calls->timers);
}
