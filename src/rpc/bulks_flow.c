/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What moves (bulks.h): READs of at most LIMIT_BULK_CHUNK, LIMIT_BULK_WINDOW under way, or copies
 * of LIMIT_BULK_COPY a turn. A flow that is stopped begins nothing more, and ends when nothing of
 * it is under way.
 */
#include <string.h>

#include "rpc/bulks_internal.h"

static uint64_t min_bytes(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t flow_number(const struct flow *flow)
{
    return (uint64_t)flow->generation << 32 | (uint64_t)(flow - flow->bulks->flows);
}

struct flow *flow_find(struct bulks *bulks, uint64_t number)
{
    uint32_t place = (uint32_t)number;

    if (place >= bulks->flows_used || !bulks->flows[place].used ||
        flow_number(&bulks->flows[place]) != number) {
        return NULL;
    }
    return &bulks->flows[place];
}

static struct flow *flow_new(struct bulks *bulks, enum flow_kind kind)
{
    struct list_node *node = list_pop_front(&bulks->free_flows);
    struct flow *flow =
        node != NULL ? container_of(node, struct flow, place) : &bulks->flows[bulks->flows_used++];
    uint32_t generation = flow->generation + 1;

    *flow = (struct flow){.bulks = bulks, .kind = kind, .used = true, .generation = generation};
    return flow;
}

struct flow *flow_take(struct bulks *bulks, enum flow_kind kind)
{
    NIGH_ASSERT(kind != FLOW_LAND);
    if (bulks->move_count == LIMIT_BULK_FLOWS) {
        return NULL;
    }
    bulks->move_count++;
    return flow_new(bulks, kind);
}

/* ---- whom it lands for ---------------------------------------------------- */

/* One that has none yet is the next of them, if there is a place for it. */
static struct bulks_lander *lander_of(struct bulks *bulks, const struct rpc *channel)
{
    uint32_t n = 0;

    while (n < bulks->lander_count && bulks->landers[n].channel != channel) {
        n++;
    }
    return &bulks->landers[n];
}

/* A peer that stands still, and is told nothing, leaves half of the places to the others. */
struct flow *flow_take_landing(struct bulks *bulks, struct rpc *channel)
{
    uint32_t free = LIMIT_BULK_LANDINGS - bulks->landing_count;
    struct bulks_lander *lander;
    struct flow *flow;

    if (free == 0) {
        return NULL;
    }
    lander = lander_of(bulks, channel);
    if (lander == &bulks->landers[bulks->lander_count]) {
        *lander = (struct bulks_lander){.channel = channel};
        bulks->lander_count++;
    }
    if (lander->landings >= free) {
        return NULL;
    }
    lander->landings++;
    bulks->landing_count++;
    flow = flow_new(bulks, FLOW_LAND);
    flow->channel = channel;
    return flow;
}

static void lander_give(struct bulks *bulks, const struct rpc *channel)
{
    struct bulks_lander *lander = lander_of(bulks, channel);

    NIGH_ASSERT(lander->channel == channel && lander->landings > 0);
    lander->landings--;
    bulks->landing_count--;
    if (lander->landings == 0) {
        *lander = bulks->landers[--bulks->lander_count];
    }
}

static void leave_turns(struct flow *flow)
{
    if (list_is_linked(&flow->turn)) {
        list_remove(&flow->turn);
        flow->bulks->copying -= flow->kind == FLOW_COPY;
    }
}

static void want_turn(struct flow *flow)
{
    if (!list_is_linked(&flow->turn)) {
        list_push_back(&flow->bulks->turns, &flow->turn);
        flow->bulks->copying += flow->kind == FLOW_COPY;
    }
}

static void flow_give(struct flow *flow)
{
    struct bulks *bulks = flow->bulks;

    leave_turns(flow);
    if (flow->kind == FLOW_LAND) {
        lander_give(bulks, flow->channel);
    } else {
        bulks->move_count--;
    }
    flow->used = false;
    list_push_front(&bulks->free_flows, &flow->place);
}

/* ---- the end -------------------------------------------------------------- */

/* Says to the server's lane that it is over. False: there is no room to. */
static bool say_landed(const struct flow *flow, uint64_t now_us)
{
    struct bulks_landed said = {.move = flow->token, .status = flow->status};
    struct rpc_piece piece = {.data = &said, .bytes = sizeof(said)};

    return rpc_one_way(flow->channel, BULKS_METHOD_LANDED, &piece, 1, now_us) != NIGH_BUSY;
}

/* Nothing lands any more, and its loan need not wait for the message. */
static void finish_landing(struct flow *flow, nigh_status status, uint64_t now_us)
{
    struct bulks_loan *loan = flow->loan;

    if (loan != NULL) {
        flow->status = status;
        flow->loan = NULL;
        list_remove(&flow->place);
        loan->landing_count--;
    }
    if (say_landed(flow, now_us)) {
        flow_give(flow);
    } else {
        want_turn(flow);
    }
    if (loan != NULL) {
        loan_settle(loan, now_us);
    }
}

static void count_move(const struct flow *flow, nigh_status status)
{
    struct bulks_counts *counts = &flow->bulks->counts;
    bool outward = flow->kind == FLOW_PUSH || flow->outward;

    counts->moves++;
    if (status != NIGH_OK) {
        counts->failed++;
    } else {
        *(outward ? &counts->pushed_bytes : &counts->pulled_bytes) += flow->memory.bytes;
    }
}

void flow_finish(struct flow *flow, nigh_status status, uint64_t now_us)
{
    struct bulks *bulks = flow->bulks;
    struct bulks_serve *serve = flow->serve;
    struct bulks_mover mover = flow->mover;
    struct bulks_memory memory = flow->memory;

    NIGH_ASSERT(flow->reads == 0);
    if (flow->kind == FLOW_LAND) {
        finish_landing(flow, status, now_us);
        return;
    }
    count_move(flow, status);
    list_remove(&flow->place);
    serve->flow_count--;
    flow_give(flow);
    bulks->shell.release(bulks->shell.context, &memory);
    bulks->shell.moved(bulks->shell.context, &mover, status);
    serve_settle(serve, now_us);
}

/* ---- READs ---------------------------------------------------------------- */

static struct bulks_read *free_read(struct flow *flow)
{
    for (uint32_t n = 0; n < LIMIT_BULK_WINDOW; n++) {
        if (flow->read[n].bytes == 0) {
            return &flow->read[n];
        }
    }
    return NULL;
}

/* False: not now. */
static bool read_more(struct flow *flow)
{
    const struct bulks_shell *shell = &flow->bulks->shell;
    struct bulks_read *read = free_read(flow);
    struct bulks_memory to = flow->memory;
    struct fabric_remote from = flow->remote;
    nigh_status status;

    if (read == NULL) {
        return false;
    }
    to.offset += flow->asked;
    to.bytes = min_bytes(flow->memory.bytes - flow->asked, LIMIT_BULK_CHUNK);
    from.address += flow->asked;
    *read = (struct bulks_read){.flow = flow, .bytes = to.bytes};
    status = shell->read(shell->context, flow->channel, &to, from, read);
    if (status != NIGH_OK) {
        read->bytes = 0;
        flow->stopped = flow->stopped || status != NIGH_BUSY;
        flow->status = status != NIGH_BUSY ? NIGH_PEER_LOST : flow->status;
        return false;
    }
    flow->asked += to.bytes;
    flow->reads++;
    return true;
}

static void step_reads(struct flow *flow, uint64_t now_us)
{
    while (!flow->stopped && flow->asked < flow->memory.bytes && read_more(flow)) {
    }
    if (flow->reads > 0) {
        return; /* its end goes on */
    }
    if (flow->landed == flow->memory.bytes) {
        flow_finish(flow, NIGH_OK, now_us);
    } else if (flow->stopped) {
        flow_finish(flow, flow->status, now_us);
    } else {
        want_turn(flow);
    }
}

void bulks_read_done(struct bulks_read *read, nigh_status status, uint64_t now_us)
{
    struct flow *flow = read->flow;

    NIGH_ASSERT(flow->reads > 0 && read->bytes > 0);
    flow->reads--;
    if (status == NIGH_OK) {
        flow->landed += read->bytes;
    } else if (!flow->stopped) {
        flow->stopped = true;
        flow->status = NIGH_PEER_LOST;
    }
    read->bytes = 0;
    step_reads(flow, now_us);
}

/* ---- the others ----------------------------------------------------------- */

static void step_push(struct flow *flow, uint64_t now_us)
{
    const struct bulks_shell *shell = &flow->bulks->shell;
    struct fabric_remote remote;
    struct bulks_push push = {.loan = flow->serve->number,
                              .move = flow_number(flow),
                              .part = flow->part,
                              .offset = flow->offset,
                              .bytes = flow->memory.bytes};
    struct rpc_piece piece = {.data = &push, .bytes = sizeof(push)};
    nigh_status status;

    if (flow->told) {
        return; /* the other node reads, and says when it is over */
    }
    if (flow->stopped) {
        flow_finish(flow, flow->status, now_us);
        return;
    }
    remote = shell->remote(shell->context, &flow->memory);
    push.address = remote.address;
    push.key = remote.key;
    status = rpc_one_way(flow->channel, BULKS_METHOD_PUSH, &piece, 1, now_us);
    if (status == NIGH_BUSY) {
        want_turn(flow);
    } else if (status == NIGH_OK) {
        flow->told = true;
    } else {
        flow_finish(flow, NIGH_PEER_LOST, now_us);
    }
}

/* A part: other flows and calls have turns, too. */
static void step_copy(struct flow *flow, uint64_t now_us)
{
    const struct bulks_shell *shell = &flow->bulks->shell;
    uint64_t part = min_bytes(flow->memory.bytes - flow->asked, LIMIT_BULK_COPY);
    const uint8_t *from;
    uint8_t *to;

    if (!flow->stopped && part > 0) {
        to = shell->address(shell->context, flow->outward ? &flow->other : &flow->memory);
        from = shell->address(shell->context, flow->outward ? &flow->memory : &flow->other);
        memmove(to + flow->asked, from + flow->asked, part);
        flow->asked += part;
    }
    if (flow->asked == flow->memory.bytes) {
        flow_finish(flow, NIGH_OK, now_us);
    } else if (flow->stopped) {
        flow_finish(flow, flow->status, now_us);
    } else {
        want_turn(flow);
    }
}

void flow_step(struct flow *flow, uint64_t now_us)
{
    switch (flow->kind) {
    case FLOW_PULL: step_reads(flow, now_us); return;
    case FLOW_PUSH: step_push(flow, now_us); return;
    case FLOW_COPY: step_copy(flow, now_us); return;
    case FLOW_LAND:
        if (flow->loan == NULL) {
            finish_landing(flow, flow->status, now_us); /* it was not said yet */
        } else {
            step_reads(flow, now_us);
        }
        return;
    }
}

void flow_stop(struct flow *flow, nigh_status status, uint64_t now_us)
{
    if (flow->stopped || (flow->kind == FLOW_LAND && flow->loan == NULL)) {
        return;
    }
    flow->stopped = true;
    flow->status = status;
    if (flow->reads == 0) {
        flow_step(flow, now_us);
    }
}

bool flow_turn(struct bulks *bulks, uint64_t now_us)
{
    struct list turns;
    struct list_node *node;
    bool worked = bulks->copying > 0;

    list_init(&turns);
    list_append_all(&turns, &bulks->turns);
    /* What ends meanwhile leaves the list by itself. */
    while ((node = list_first(&turns)) != NULL) {
        struct flow *flow = container_of(node, struct flow, turn);

        leave_turns(flow);
        flow_step(flow, now_us);
    }
    return worked;
}
