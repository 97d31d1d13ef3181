/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two production channels (src/rpc) with a first-in-first-out pipe each way, through every order of
 * what can happen to them: calls with and without deadlines, one-way messages, frames that arrive,
 * receives that are posted again, replies at once, late or never, cancels, deadlines, the end of
 * either side. Not the wire, not payloads, not hostile peers: tests/unit/rpc_test.c and
 * tests/fuzz/rpc_fuzz.c have those.
 *
 * Breadth first, over all states that can be reached, however often anything happens (where they
 * are too many, the first of them, and says so): a state is what both channels and the pipes hold,
 * with call numbers relative to the newest of their slot and deadlines by their order only, so that
 * the set is finite. States are kept as 64-bit hashes; two that are each other's mirror image are
 * one.
 */
#include "support/support.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "rpc/rpc_internal.h"

#define SIDES      2
#define CALLS      2 /* most of a configuration, of each bound */
#define REQUESTS   3
#define FRAMES     (REQUESTS + CALLS + 4)
#define NOW_US     (UINT64_C(1) << 40)
#define SETTLE_MAX 64
#define NUMBER_OLD 7 /* calls of a slot that are at least so old are one */
#define CODE_BYTES 256
#define EVENTS_MAX 64
#define DEPTH_MAX  1024

#define STATES_DEFAULT  300000u  /* where an exploration without an end stops, */
#define STATES_WHOLE    1000000u /* and one that should have ended */
#define STATES_A_SECOND 50000u   /* of a budget */
#define STATES_MOST     (1u << 25)

struct frame {
    uint8_t kind;
    uint16_t credits;
    uint64_t call;
    int32_t status;
    uint32_t left_ms;
    uint32_t says; /* the payload */
    uint32_t bytes;
    uint16_t method;
};

/* What is around a channel. */
struct side {
    struct frame pipe[FRAMES]; /* towards it */
    uint32_t frames;
    bool in_hand;  /* inside rpc_receive: its receive is not posted again */
    uint32_t over; /* receives of earlier frames of the turn that are not posted again either */
    bool ended;
    bool open[CALLS];           /* calls that have not ended; the place is the context */
    uint64_t owes[CALLS];       /* by slot: the call that the handler has to answer */
    uint64_t owes_stale[CALLS]; /* the same of one that was cancelled */
};

struct world {
    struct side sides[SIDES];
    uint64_t now_us;
};

enum event_kind {
    EVENT_CALL,       /* without a deadline */
    EVENT_CALL_FIRST, /* with a deadline before all others */
    EVENT_CALL_LAST,
    EVENT_CALL_LATE, /* with one that has passed */
    EVENT_ONE_WAY,
    EVENT_DELIVER,       /* a handler answers later, an rpc_done does nothing */
    EVENT_DELIVER_REACT, /* a handler answers at once, an rpc_done calls again */
    EVENT_DELIVER_END,   /* a handler or rpc_done ends the channel */
    EVENT_POST,          /* receives again: the turn is at its end */
    EVENT_REPLY,         /* which: the slot */
    EVENT_REPLY_STALE,
    EVENT_CANCEL,
    EVENT_PASS, /* the next deadline comes, and nobody looks */
    EVENT_TICK,
    EVENT_END,
    EVENT_KINDS
};

static const char *const event_names[EVENT_KINDS] = {
    "calls",
    "calls, first deadline",
    "calls, last deadline",
    "calls, deadline over",
    "one-way",
    "receives",
    "receives, reacts",
    "receives, ends inside",
    "posts again",
    "replies",
    "replies to what was cancelled",
    "cancels",
    "deadline passes",
    "ticks",
    "ends",
};

struct event {
    uint8_t kind;
    uint8_t side;
    uint8_t which;
};

struct events {
    struct event all[EVENTS_MAX];
    uint32_t count;
};

/* Which events there are, besides calls of one side that are answered. */
#define WITH_BOTH      1u /* the other side calls too */
#define WITH_ONE_WAYS  2u
#define WITH_CANCELS   4u
#define WITH_STALE     8u /* replies to what was cancelled */
#define WITH_DEADLINES 16u
#define WITH_HANDS     32u /* time between rpc_receive and posting receives again */
#define WITH_ENDS      64u
#define WITH_REACTIONS 128u /* calls from inside an rpc_done, replies from inside a handler */
#define WITH_ALL       255u

/* What is explored. */
struct exploration {
    const char *name;
    uint32_t requests, calls, queue, pool;
    uint32_t with;  /* WITH_* */
    uint32_t floor; /* states there are at least; 0: more than there is time for */
};

struct node {
    uint32_t parent;
    struct event event;
};

static struct {
    const struct exploration *exploration;
    struct rpc_config config;
    struct world world;
    struct rpc_pool *pool;
    struct rpc *rpc[SIDES];
    uint8_t running;   /* the side whose code runs */
    uint8_t event;     /* event_kind that runs */
    bool reacted;      /* once an event is enough */
    const char *wrong; /* the first claim that does not hold */
    struct node *nodes;
    uint64_t *table;
    uint64_t table_size;
    uint32_t states_max;
    uint32_t states;
    uint64_t transitions;
    uint8_t *start; /* a snapshot */
} explorer;

#define CLAIM(condition, text)                        \
    do {                                              \
        if (!(condition) && explorer.wrong == NULL) { \
            explorer.wrong = (text);                  \
        }                                             \
    } while (0)

static bool with(uint32_t events)
{
    return (explorer.exploration->with & events) != 0;
}

/* ---- the shell of a channel */

static struct rpc_slot *slot_of(uint32_t side, uint64_t call)
{
    struct rpc_slot *slot = rpc_slot_named(explorer.rpc[side], call);

    return slot != NULL && rpc_slot_call(explorer.rpc[side], slot) == call ? slot : NULL;
}

static uint32_t place_of(uint64_t call)
{
    return (uint32_t)call & ((1u << explorer.rpc[0]->slot_bits) - 1);
}

static void shell_send(void *context, const struct rpc_header *header,
                       const struct rpc_piece *pieces, uint32_t count)
{
    uint32_t from = (uint32_t)(uintptr_t)context;
    struct side *self = &explorer.world.sides[from], *to = &explorer.world.sides[1 - from];
    struct frame frame = {
        .kind = header->kind,
        .credits = le16toh(header->credits),
        .call = le64toh(header->call),
        .status = (int32_t)le32toh((uint32_t)header->status),
        .left_ms = le32toh(header->left_ms),
        .method = le16toh(header->method),
        .bytes = le32toh(header->bytes),
    };

    if (frame.kind == RPC_REQUEST) {
        struct rpc_slot *slot = slot_of(from, frame.call);

        CLAIM(slot != NULL && slot->state == RPC_SLOT_SENT, "a request of no call is sent");
        CLAIM(slot == NULL || !timer_is_armed(&slot->timer) ||
                  slot->timer.deadline_us > explorer.world.now_us,
              "a request is sent after its deadline");
    }
    if (frame.bytes > 0) {
        CLAIM(count == 1 && pieces[0].bytes == 4 && frame.bytes == 4, "the payload is another");
        memcpy(&frame.says, pieces[0].data, 4);
    }
    self->over = 0; /* all but that in hand, before the frame leaves */
    if (to->ended) {
        return;
    }
    CLAIM(to->frames + 1 + to->over + to->in_hand <= rpc_receives(&explorer.config),
          "a frame is sent that the peer has no receive for");
    CLAIM(to->frames + 1 <= rpc_max_sends(&explorer.config), "more sends than there may be");
    if (to->frames < FRAMES) {
        to->pipe[to->frames++] = frame;
    } else {
        CLAIM(false, "the pipe overflows");
    }
}

static void on_done(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                    uint64_t now_us);

/* Calls, and checks that it is refused exactly when a bound is reached. */
static void act_call(uint32_t side, uint64_t deadline_us)
{
    struct side *self = &explorer.world.sides[side];
    struct rpc *rpc = explorer.rpc[side];
    bool free_slot = !list_empty(&rpc->free_slots);
    bool room = rpc->credits > 0 || rpc_has_place(rpc);
    uint32_t place = 0, method;
    uint64_t call = 0;
    struct rpc_piece piece = {.data = &method, .bytes = 4};
    nigh_status status;

    while (place < explorer.config.calls && self->open[place]) {
        place++;
    }
    CLAIM(!free_slot || place < explorer.config.calls, "more slots are free than calls ended");
    method = 1 + place;
    if (place < explorer.config.calls) {
        self->open[place] = true;
    }
    status = rpc_call(rpc, (uint16_t)method, &piece, 1, deadline_us, explorer.world.now_us, on_done,
                      (void *)(uintptr_t)(side * CALLS + place), &call);
    if (self->ended) {
        CLAIM(status == NIGH_CLOSED, "a call starts after the end");
    } else {
        CLAIM(status == (free_slot && room ? NIGH_OK : NIGH_BUSY), "a call is refused, or not");
    }
    if (status != NIGH_OK && place < explorer.config.calls) {
        self->open[place] = false;
    }
    CLAIM(status != NIGH_OK || slot_of(side, call) != NULL, "a call has a wrong number");
}

static void act_end(uint32_t side)
{
    struct side *self = &explorer.world.sides[side];

    self->ended = true;
    self->frames = 0;
    memset(self->owes, 0, sizeof(self->owes));
    memset(self->owes_stale, 0, sizeof(self->owes_stale));
    rpc_end(explorer.rpc[side], NIGH_PEER_LOST, explorer.world.now_us);
    CLAIM(rpc_pending(explorer.rpc[side]) == 0, "the end leaves calls pending");
}

static void on_done(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                    uint64_t now_us)
{
    uint32_t side = (uint32_t)((uintptr_t)context / CALLS);
    uint32_t place = (uint32_t)((uintptr_t)context % CALLS);
    struct side *self = &explorer.world.sides[side];
    uint32_t says;

    (void)now_us;
    CLAIM(side == explorer.running, "a call ends on the other side");
    CLAIM(self->open[place], "a call ends twice");
    self->open[place] = false;
    switch ((int)status) {
    case NIGH_OK:
        CLAIM(bytes == 4, "a reply has lost its payload");
        if (bytes == 4) {
            memcpy(&says, payload, 4);
            CLAIM(says == 1 + place, "a reply is for another call");
        }
        break;
    case NIGH_TIMEOUT: CLAIM(explorer.event == EVENT_TICK, "a timeout without a tick"); break;
    case NIGH_CANCELED: CLAIM(explorer.event == EVENT_CANCEL, "cancelled by nobody"); break;
    case NIGH_PEER_LOST: CLAIM(self->ended, "lost without an end"); break;
    default: CLAIM(false, "a call ends with another status");
    }
    if (explorer.reacted) {
        return;
    }
    explorer.reacted = true;
    if (explorer.event == EVENT_DELIVER_REACT) {
        act_call(side, UINT64_MAX);
    } else if (explorer.event == EVENT_DELIVER_END) {
        act_end(side);
    }
}

static void act_reply(uint32_t side, uint64_t call, uint32_t method)
{
    struct rpc_piece piece = {.data = &method, .bytes = 4};

    rpc_reply(explorer.rpc[side], call, NIGH_OK, &piece, 1);
}

/* The method, and the payload, say which call it is; a reply gives that back. */
static void shell_request(void *context, const struct rpc_request *request, uint64_t now_us)
{
    uint32_t side = (uint32_t)(uintptr_t)context;
    struct side *self = &explorer.world.sides[side];
    uint32_t says = 0;

    (void)now_us;
    CLAIM(request->bytes == 4, "a request has lost its payload");
    if (request->bytes == 4) {
        memcpy(&says, request->payload, 4);
    }
    CLAIM(says == request->method, "a request has another's payload");
    if (explorer.event == EVENT_DELIVER_END) {
        explorer.reacted = true;
        act_end(side);
        return;
    }
    if (request->call == 0) {
        return;
    }
    CLAIM(self->owes[place_of(request->call)] == 0, "a slot has two requests");
    if (explorer.event == EVENT_DELIVER_REACT) {
        act_reply(side, request->call, request->method);
    } else {
        self->owes[place_of(request->call)] = request->call;
    }
}

static void shell_canceled(void *context, uint64_t call)
{
    struct side *self = &explorer.world.sides[(uintptr_t)context];

    CLAIM(self->owes[place_of(call)] == call, "what is not owed is cancelled");
    self->owes[place_of(call)] = 0;
    self->owes_stale[place_of(call)] = with(WITH_STALE) ? call : 0;
    if (explorer.event == EVENT_DELIVER_REACT) {
        act_reply((uint32_t)(uintptr_t)context, call, 99);
        self->owes_stale[place_of(call)] = 0;
    }
}

/* ---- deadlines: only their order matters */

static uint32_t armed(uint32_t side)
{
    return explorer.rpc[side]->timers.count;
}

static int before(const void *a, const void *b)
{
    const struct timer *const *first = a, *const *second = b;

    return (*first)->deadline_us < (*second)->deadline_us ? -1 : 1;
}

/* Spreads the deadlines of a side anew, in their order and as much over as they were. */
static void spread_deadlines(uint32_t side)
{
    struct timers *timers = &explorer.rpc[side]->timers;
    struct timer *sorted[CALLS];

    for (uint32_t i = 0; i < timers->count; i++) {
        sorted[i] = timers->heap[i];
    }
    qsort(sorted, timers->count, sizeof(*sorted), before);
    for (uint32_t i = 0; i < timers->count; i++) {
        bool late = sorted[i]->deadline_us <= explorer.world.now_us;

        sorted[i]->deadline_us = late ? NOW_US - 10000 + i * 1000 : NOW_US + 10000 + i * 1000;
    }
}

/* ---- events */

static void run_deliver(uint32_t side)
{
    struct side *self = &explorer.world.sides[side];
    struct frame frame = self->pipe[0];
    uint8_t bytes[sizeof(struct rpc_header) + 4];
    struct rpc_header header = {
        .magic = RPC_MAGIC,
        .kind = frame.kind,
        .method = htole16(frame.method),
        .call = htole64(frame.call),
        .status = (int32_t)htole32((uint32_t)frame.status),
        .bytes = htole32(frame.bytes),
        .credits = htole16(frame.credits),
        .left_ms = htole32(frame.left_ms),
        .epoch = htole32((uint32_t)explorer.config.epoch),
    };
    nigh_status status;

    memcpy(bytes, &header, sizeof(header));
    memcpy(bytes + sizeof(header), &frame.says, 4);
    self->frames--;
    memmove(self->pipe, self->pipe + 1, self->frames * sizeof(frame));
    self->in_hand = with(WITH_HANDS);
    status = rpc_receive(explorer.rpc[side], bytes, (uint32_t)sizeof(header) + frame.bytes,
                         explorer.world.now_us);
    CLAIM(status == NIGH_OK, "a channel refuses what the other sent");
    self->over += self->in_hand;
    self->in_hand = false;
}

static uint32_t method_owed(uint32_t side, uint64_t call)
{
    const struct rpc_slot *slot = slot_of(1 - side, call);

    /* What the request said is what its caller's place is; see on_done. */
    return slot == NULL || slot->state != RPC_SLOT_SENT
               ? 98
               : 1 + (uint32_t)(uintptr_t)slot->context % CALLS;
}

static void run_reply(uint32_t side, uint64_t *owed)
{
    uint64_t call = *owed;

    *owed = 0;
    act_reply(side, call, method_owed(side, call));
}

static void run_pass(uint32_t side)
{
    struct timers *timers = &explorer.rpc[side]->timers;
    uint64_t next_us = UINT64_MAX;

    for (uint32_t i = 0; i < timers->count; i++) {
        uint64_t deadline_us = timers->heap[i]->deadline_us;
        if (deadline_us > explorer.world.now_us && deadline_us < next_us) {
            next_us = deadline_us;
        }
    }
    /* Only this side's: to the other it is as if its deadlines lay later. */
    for (uint32_t i = 0; i < timers->count; i++) {
        if (timers->heap[i]->deadline_us == next_us) {
            timers->heap[i]->deadline_us = explorer.world.now_us;
        }
    }
}

static void run_one_way(uint32_t side)
{
    const struct rpc *rpc = explorer.rpc[side];
    bool room = rpc->credits > 0 || rpc_has_place(rpc);
    uint32_t says = 77;
    struct rpc_piece piece = {.data = &says, .bytes = 4};
    nigh_status status = rpc_one_way(explorer.rpc[side], 77, &piece, 1, explorer.world.now_us);

    CLAIM(status == (room ? NIGH_OK : NIGH_BUSY), "a one-way message is refused, or not");
}

static void run(struct event event)
{
    struct side *self = &explorer.world.sides[event.side];
    struct rpc *rpc = explorer.rpc[event.side];

    explorer.running = event.side;
    explorer.event = event.kind;
    explorer.reacted = false;
    switch ((enum event_kind)event.kind) {
    case EVENT_CALL: act_call(event.side, UINT64_MAX); break;
    case EVENT_CALL_FIRST: act_call(event.side, NOW_US + 5000); break;
    case EVENT_CALL_LAST: act_call(event.side, NOW_US + 50000); break;
    case EVENT_CALL_LATE: act_call(event.side, NOW_US - 500); break;
    case EVENT_ONE_WAY: run_one_way(event.side); break;
    case EVENT_DELIVER:
    case EVENT_DELIVER_REACT:
    case EVENT_DELIVER_END: run_deliver(event.side); break;
    case EVENT_POST: self->over = 0; break;
    case EVENT_REPLY: run_reply(event.side, &self->owes[event.which]); break;
    case EVENT_REPLY_STALE: run_reply(event.side, &self->owes_stale[event.which]); break;
    case EVENT_CANCEL:
        CLAIM(rpc_cancel(rpc, rpc_slot_call(rpc, &rpc->slots[event.which]), explorer.world.now_us),
              "a call under way cannot be cancelled");
        break;
    case EVENT_PASS: run_pass(event.side); break;
    case EVENT_TICK: rpc_tick(rpc, explorer.world.now_us); break;
    case EVENT_END: act_end(event.side); break;
    case EVENT_KINDS: break;
    }
    spread_deadlines(event.side);
}

/* ---- which events there are */

static bool slot_is_pending(const struct rpc *rpc, uint32_t slot)
{
    return rpc->slots[slot].state == RPC_SLOT_WAITING || rpc->slots[slot].state == RPC_SLOT_SENT;
}

static uint32_t count_late(uint32_t side)
{
    const struct timers *timers = &explorer.rpc[side]->timers;
    uint32_t late = 0;

    for (uint32_t i = 0; i < timers->count; i++) {
        late += timers->heap[i]->deadline_us <= explorer.world.now_us;
    }
    return late;
}

static void add(struct events *events, enum event_kind kind, uint32_t side, uint32_t which)
{
    NIGH_ASSERT(events->count < EVENTS_MAX);
    events->all[events->count++] =
        (struct event){.kind = (uint8_t)kind, .side = (uint8_t)side, .which = (uint8_t)which};
}

/* What is done with the frame at the head of the pipe: reacting makes no difference to most. */
static void add_deliveries(struct events *events, uint32_t side)
{
    const struct side *self = &explorer.world.sides[side];
    uint8_t kind = self->pipe[0].kind;
    bool done = kind == RPC_REPLY &&
                explorer.rpc[side]->slots[place_of(self->pipe[0].call)].state == RPC_SLOT_SENT;
    bool stale = kind == RPC_CANCEL && with(WITH_STALE);

    add(events, EVENT_DELIVER, side, 0);
    if (with(WITH_REACTIONS) && (kind == RPC_REQUEST || done || stale)) {
        add(events, EVENT_DELIVER_REACT, side, 0);
    }
    if (with(WITH_ENDS) && (kind == RPC_REQUEST || kind == RPC_ONE_WAY || done)) {
        add(events, EVENT_DELIVER_END, side, 0);
    }
}

/* What the user of a side may begin. */
static void add_starts(struct events *events, uint32_t side)
{
    const struct rpc *rpc = explorer.rpc[side];

    if (side == 0 || with(WITH_BOTH)) {
        add(events, EVENT_CALL, side, 0);
        if (with(WITH_DEADLINES)) {
            add(events, EVENT_CALL_LAST, side, 0);
            add(events, EVENT_CALL_LATE, side, 0);
            if (armed(side) > 0) {
                add(events, EVENT_CALL_FIRST, side, 0);
            }
        }
    }
    if (with(WITH_ONE_WAYS)) {
        add(events, EVENT_ONE_WAY, side, 0);
    }
    for (uint32_t i = 0; i < explorer.config.calls && with(WITH_CANCELS); i++) {
        if (slot_is_pending(rpc, i)) {
            add(events, EVENT_CANCEL, side, i);
        }
    }
}

static void add_replies(struct events *events, uint32_t side)
{
    const struct side *self = &explorer.world.sides[side];

    for (uint32_t i = 0; i < explorer.config.calls; i++) {
        if (self->owes[i] != 0) {
            add(events, EVENT_REPLY, side, i);
        }
        if (self->owes_stale[i] != 0) {
            add(events, EVENT_REPLY_STALE, side, i);
        }
    }
}

static void add_events(struct events *events, uint32_t side)
{
    const struct side *self = &explorer.world.sides[side];
    uint32_t late = count_late(side);

    if (self->ended) {
        return;
    }
    if (self->frames > 0) {
        add_deliveries(events, side);
    }
    if (self->over > 0) {
        /* What else the lane does it does before or after; what it did in rpc_receive the other
         * side may see already. */
        add(events, EVENT_POST, side, 0);
        return;
    }
    add_replies(events, side);
    if (armed(side) > late) {
        add(events, EVENT_PASS, side, 0);
    }
    if (late > 0) {
        add(events, EVENT_TICK, side, 0);
    }
    if (with(WITH_ENDS)) {
        add(events, EVENT_END, side, 0);
    }
    /* With the other side gone, nothing new is to be learnt from what begins. */
    if (!explorer.world.sides[1 - side].ended) {
        add_starts(events, side);
    }
}

/* ---- what must hold in every state */

static bool needs_credit(const struct frame *frame)
{
    return frame->kind == RPC_REQUEST || frame->kind == RPC_ONE_WAY || frame->kind == RPC_CANCEL;
}

/* The receives for requests at `to`: each is known to be free, used, or on its way back. */
static void check_credits(uint32_t to)
{
    const struct side *sides = explorer.world.sides;
    uint32_t sum = explorer.rpc[1 - to]->credits + explorer.rpc[to]->owed;
    uint32_t credit_frames = 0;

    for (uint32_t i = 0; i < sides[to].frames; i++) {
        sum += needs_credit(&sides[to].pipe[i]);
    }
    for (uint32_t i = 0; i < sides[1 - to].frames; i++) {
        sum += sides[1 - to].pipe[i].credits;
        credit_frames += sides[1 - to].pipe[i].kind == RPC_CREDIT;
    }
    CLAIM(sum == explorer.config.requests, "credits are lost or made");
    CLAIM(credit_frames <= RPC_CREDIT_RECEIVES, "two CREDIT frames are on their way");
}

/* A slot that waits for a reply will get one: it is on its way there, owed, or on its way back. */
static void check_slot(uint32_t side, uint32_t place)
{
    const struct rpc_slot *slot = &explorer.rpc[side]->slots[place];
    const struct side *self = &explorer.world.sides[side];
    const struct side *peer = &explorer.world.sides[1 - side];
    uint64_t call = rpc_slot_call(explorer.rpc[side], slot);
    uint32_t hopes = call != 0 && peer->owes[place] == call;

    for (uint32_t i = 0; i < peer->frames; i++) {
        hopes += peer->pipe[i].kind == RPC_REQUEST && peer->pipe[i].call == call;
    }
    for (uint32_t i = 0; i < self->frames; i++) {
        hopes += self->pipe[i].kind == RPC_REPLY && self->pipe[i].call == call;
    }
    if (slot->state == RPC_SLOT_SENT || slot->state == RPC_SLOT_HELD) {
        CLAIM(hopes == 1, "a call waits for a reply that will not come, or for two");
    } else {
        CLAIM(hopes == 0, "a reply is to come for a slot that is free");
    }
}

static void check_side(uint32_t side)
{
    const struct side *self = &explorer.world.sides[side];
    const struct rpc *rpc = explorer.rpc[side];
    uint32_t open = 0;

    for (uint32_t i = 0; i < explorer.config.calls; i++) {
        open += self->open[i];
    }
    CLAIM(rpc_is_valid(rpc), "a channel is not whole");
    CLAIM(rpc_pending(rpc) == open, "a call was forgotten");
    if (!self->ended) {
        CLAIM(rpc->owed <= rpc->config.requests / 2, "too much is owed");
    }
}

static void check_state(void)
{
    bool ended = explorer.world.sides[0].ended || explorer.world.sides[1].ended;

    for (uint32_t side = 0; side < SIDES; side++) {
        check_side(side);
        if (!ended) {
            check_credits(side);
            for (uint32_t i = 0; i < explorer.config.calls; i++) {
                check_slot(side, i);
            }
        }
    }
}

/* Nothing is on its way and no reply is owed: then nothing waits either. */
static void check_quiet(void)
{
    CLAIM(rpc_pool_used(explorer.pool) == 0, "a shared place is lost");
    for (uint32_t side = 0; side < SIDES; side++) {
        const struct rpc *rpc = explorer.rpc[side];

        CLAIM(list_empty(&rpc->queue), "a request waits for ever");
        CLAIM(list_empty(&rpc->cancels), "a cancel waits for ever");
        for (uint32_t i = 0; i < explorer.config.calls; i++) {
            CLAIM(rpc->slots[i].state == RPC_SLOT_FREE || count_late(side) > 0,
                  "a slot stays taken for ever");
        }
    }
}

/* From any state, if both lanes only receive and answer, all comes to rest. */
static void settle(void)
{
    for (uint32_t step = 0; step < SETTLE_MAX; step++) {
        struct events events;
        uint32_t i = 0;

        events.count = 0;
        for (uint32_t side = 0; side < SIDES; side++) {
            add_events(&events, side);
        }
        while (i < events.count && events.all[i].kind != EVENT_DELIVER &&
               events.all[i].kind != EVENT_POST && events.all[i].kind != EVENT_REPLY) {
            i++;
        }
        if (i == events.count) {
            check_quiet();
            return;
        }
        run(events.all[i]);
        check_state();
    }
    CLAIM(false, "it does not come to rest");
}

/* ---- states */

struct code {
    uint8_t bytes[CODE_BYTES];
    uint32_t length;
};

static void put(struct code *code, uint32_t value)
{
    NIGH_ASSERT(code->length < CODE_BYTES && value <= UINT8_MAX);
    code->bytes[code->length++] = (uint8_t)value;
}

/* A number by its slot and by how many calls of that slot came after it. */
static void put_call(struct code *code, uint32_t caller, uint64_t call)
{
    const struct rpc *rpc = explorer.rpc[caller];
    uint64_t newest = rpc->slots[place_of(call)].generation;

    if (call == 0) {
        put(code, UINT8_MAX);
        return;
    }
    put(code,
        place_of(call) * 8 + (uint32_t)min_u64(newest - (call >> rpc->slot_bits), NUMBER_OLD));
}

static void put_slots(struct code *code, const struct rpc *rpc, const struct list *list)
{
    LIST_FOREACH(node, list)
    {
        put(code, (uint32_t)(container_of(node, struct rpc_slot, link) - rpc->slots));
    }
    put(code, UINT8_MAX);
}

static void put_channel(struct code *code, uint32_t side)
{
    const struct rpc *rpc = explorer.rpc[side];

    put(code, rpc->credits);
    put(code, rpc->owed);
    for (uint32_t i = 0; i < rpc->config.calls; i++) {
        const struct rpc_slot *slot = &rpc->slots[i];
        bool is_armed = timer_is_armed(&slot->timer);

        put(code, slot->state);
        /* After spread_deadlines it says its rank, and whether it is over. */
        put(code, is_armed ? (uint32_t)((slot->timer.deadline_us + 20000 - NOW_US) / 1000) : 0);
        put(code, rpc->answers[i].state);
        put_call(code, 1 - side, rpc->answers[i].call);
    }
    put_slots(code, rpc, &rpc->free_slots);
    put_slots(code, rpc, &rpc->cancels);
    LIST_FOREACH(node, &rpc->queue)
    {
        put_call(code, side, container_of(node, struct rpc_waiter, link)->call);
        put(code, container_of(node, struct rpc_waiter, link)->is_shared);
    }
    put(code, UINT8_MAX - 1);
}

static void put_side(struct code *code, uint32_t side)
{
    const struct side *self = &explorer.world.sides[side];

    put(code, self->ended);
    put(code, self->over);
    put_channel(code, side);
    for (uint32_t i = 0; i < explorer.config.calls; i++) {
        put_call(code, 1 - side, self->owes[i]);
        put_call(code, 1 - side, self->owes_stale[i]);
    }
    put(code, self->frames);
    for (uint32_t i = 0; i < self->frames; i++) {
        const struct frame *frame = &self->pipe[i];

        put(code, frame->kind);
        put(code, frame->credits);
        put(code, (uint32_t)-frame->status);
        put_call(code, frame->kind == RPC_REPLY ? side : 1 - side, frame->call);
    }
}

static uint64_t hash_code(const struct code *code)
{
    uint64_t hash = HASH_K0 ^ code->length;

    for (uint32_t i = 0; i < code->length; i += 8) {
        hash = hash_mix(hash ^ hash_load64(code->bytes + i), HASH_K1 + i);
    }
    return hash_mix(hash, HASH_K2);
}

/* Of the state and of its mirror image, which are one where both sides may do the same. */
static uint64_t hash_state(void)
{
    struct code ab = {.length = 0}, ba = {.length = 0};
    uint64_t hash;

    put_side(&ab, 0);
    put_side(&ab, 1);
    hash = hash_code(&ab);
    if (with(WITH_BOTH)) {
        put_side(&ba, 1);
        put_side(&ba, 0);
        hash = min_u64(hash, hash_code(&ba));
    }
    return hash == 0 ? 1 : hash;
}

/* True when it is new. */
static bool remember(uint64_t hash)
{
    uint64_t at = hash & (explorer.table_size - 1);

    while (explorer.table[at] != 0) {
        if (explorer.table[at] == hash) {
            return false;
        }
        at = (at + 1) & (explorer.table_size - 1);
    }
    explorer.table[at] = hash;
    return true;
}

/* All that an event can change. */
static size_t snapshot_bytes(void)
{
    return sizeof(struct world) + SIDES * explorer.rpc[0]->block_bytes + explorer.pool->block_bytes;
}

static void save(uint8_t *to)
{
    memcpy(to, &explorer.world, sizeof(struct world));
    to += sizeof(struct world);
    for (uint32_t side = 0; side < SIDES; side++) {
        memcpy(to, explorer.rpc[side], explorer.rpc[side]->block_bytes);
        to += explorer.rpc[side]->block_bytes;
    }
    memcpy(to, explorer.pool, explorer.pool->block_bytes);
}

static void restore(const uint8_t *from)
{
    size_t block_bytes = explorer.rpc[0]->block_bytes;

    memcpy(&explorer.world, from, sizeof(struct world));
    from += sizeof(struct world);
    for (uint32_t side = 0; side < SIDES; side++) {
        memcpy(explorer.rpc[side], from, block_bytes);
        from += block_bytes;
    }
    memcpy(explorer.pool, from, explorer.pool->block_bytes);
}

/* ---- the search */

static void print_way(uint32_t number)
{
    const struct node *node = &explorer.nodes[number];

    if (number == 0) {
        return;
    }
    print_way(node->parent);
    printf("#   %c %s", 'A' + node->event.side, event_names[node->event.kind]);
    switch (node->event.kind) {
    case EVENT_REPLY:
    case EVENT_REPLY_STALE:
    case EVENT_CANCEL: printf(" (slot %u)", node->event.which); break;
    default: break;
    }
    printf("\n");
}

/* Counts the state that stands, if it is new, and tries whether it settles. */
static void arrive(uint32_t parent, struct event event)
{
    explorer.transitions++;
    check_state();
    if (explorer.wrong == NULL && !remember(hash_state())) {
        return;
    }
    explorer.nodes[explorer.states++] = (struct node){parent, event};
    if (explorer.wrong == NULL && !explorer.world.sides[0].ended &&
        !explorer.world.sides[1].ended) {
        settle();
    }
    if (explorer.wrong != NULL) {
        printf("# wrong: %s\n", explorer.wrong);
        print_way(explorer.states - 1);
    }
}

/* Makes a state again, from the start: that is cheaper than to keep them all. */
static void go_to(uint32_t number)
{
    struct event way[DEPTH_MAX];
    uint32_t depth = 0;

    while (number != 0) {
        NIGH_ASSERT(depth < DEPTH_MAX);
        way[depth++] = explorer.nodes[number].event;
        number = explorer.nodes[number].parent;
    }
    restore(explorer.start);
    while (depth > 0) {
        run(way[--depth]);
    }
}

/* True when every state was found. */
static bool search(uint8_t *snapshot)
{
    uint32_t number = 0;

    save(explorer.start);
    arrive(0, (struct event){0});
    while (number < explorer.states && explorer.wrong == NULL &&
           explorer.states + EVENTS_MAX < explorer.states_max) {
        struct events events;

        events.count = 0;
        go_to(number);
        save(snapshot);
        for (uint32_t side = 0; side < SIDES; side++) {
            add_events(&events, side);
        }
        for (uint32_t i = 0; i < events.count && explorer.wrong == NULL; i++) {
            restore(snapshot);
            run(events.all[i]);
            arrive(number, events.all[i]);
        }
        number++;
    }
    printf("# %s: %s%u states, %llu transitions\n", explorer.exploration->name,
           number == explorer.states ? "all " : "the first ", explorer.states,
           (unsigned long long)explorer.transitions);
    return number == explorer.states;
}

static void set_up(const struct exploration *e)
{
    uint64_t budget = support_budget_ms(0) / 1000 * STATES_A_SECOND;

    memset(&explorer, 0, sizeof(explorer));
    explorer.exploration = e;
    explorer.world.now_us = NOW_US;
    assert_int_equal(rpc_pool_create(e->pool, 4, &explorer.pool), NIGH_OK);
    explorer.config = (struct rpc_config){
        .requests = e->requests,
        .calls = e->calls,
        .queue = e->queue,
        .pool = explorer.pool,
        .payload_bytes = 4,
        .epoch = 3,
        .shell = {.send = shell_send, .request = shell_request, .canceled = shell_canceled},
    };
    for (uint32_t side = 0; side < SIDES; side++) {
        explorer.config.shell.context = (void *)(uintptr_t)side;
        assert_int_equal(rpc_create(&explorer.config, &explorer.rpc[side]), NIGH_OK);
    }
    explorer.states_max = (uint32_t)min_u64(
        max_u64(budget, e->floor > 0 ? STATES_WHOLE : STATES_DEFAULT), STATES_MOST);
    explorer.table_size = round_up_pow2_u64(2 * (uint64_t)explorer.states_max);
    explorer.nodes = malloc(sizeof(struct node) * explorer.states_max);
    explorer.table = calloc(explorer.table_size, sizeof(uint64_t));
    explorer.start = malloc(snapshot_bytes());
    assert_non_null(explorer.nodes);
    assert_non_null(explorer.table);
    assert_non_null(explorer.start);
}

static void explore(void **state)
{
    const struct exploration *e = *state;
    static bool violated;
    uint8_t *snapshot;
    bool all;

    if (violated) {
        skip(); /* the others would say the same */
    }
    set_up(e);
    snapshot = malloc(snapshot_bytes());
    assert_non_null(snapshot);
    all = search(snapshot);
    free(snapshot);
    free(explorer.start);
    free(explorer.nodes);
    free(explorer.table);
    for (uint32_t side = 0; side < SIDES; side++) {
        free(explorer.rpc[side]); /* in whatever state the search left them */
    }
    free(explorer.pool);
    violated = explorer.wrong != NULL;
    assert_false(violated);
    if (e->floor != 0) {
        assert_true(all);
        assert_true(explorer.states >= e->floor);
    }
}

/* Name; requests, calls, queue, places that both sides share; with; how many states there are at
 * least. */
static const struct exploration explorations[] = {
    {"one slot, one calls", 1, 1, 1, 0, WITH_ALL & ~WITH_BOTH, 46000},
    {"one slot, both call", 1, 1, 1, 0, WITH_ALL & ~WITH_STALE, 550000},
    {"one slot, three credits", 3, 1, 1, 0,
     WITH_ONE_WAYS | WITH_CANCELS | WITH_HANDS | WITH_REACTIONS, 387000},
    {"one slot, both call, one place for both", 1, 1, 0, 1, WITH_ALL & ~WITH_STALE, 429000},
    {"two slots, one place and a shared one", 1, 2, 1, 1,
     WITH_ALL & ~(WITH_BOTH | WITH_ONE_WAYS | WITH_STALE), 194000},
    {"two slots, nobody waits", 1, 2, 0, 0, WITH_ALL & ~(WITH_BOTH | WITH_ONE_WAYS | WITH_STALE),
     35000},
    {"two slots, one waits", 1, 2, 1, 0, WITH_ALL & ~(WITH_BOTH | WITH_ONE_WAYS), 799000},
    {"two slots, two wait", 1, 2, 2, 0, WITH_ALL & ~(WITH_BOTH | WITH_ONE_WAYS | WITH_STALE),
     130000},
    {"two slots, two credits", 2, 2, 1, 0, WITH_ALL & ~(WITH_BOTH | WITH_ONE_WAYS | WITH_STALE),
     201000},
    {"two slots, two credits, both call, all", 2, 2, 1, 0, WITH_ALL, 0},
};

int main(void)
{
    struct CMUnitTest tests[ARRAY_LENGTH(explorations)];

    for (size_t i = 0; i < ARRAY_LENGTH(explorations); i++) {
        tests[i] = (struct CMUnitTest){explorations[i].name, explore, NULL, NULL,
                                       (void *)(uintptr_t)&explorations[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
