/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See bulks.h: the loans of this node's callers, the requests of its services that bring memory,
 * and what the lanes say to each other of both. What moves is in bulks_flow.c.
 */
#include "rpc/bulks.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/bulks_internal.h"

_Static_assert(LIMIT_BULK_LOANS <= 1u << BULKS_SLOT_BITS, "a slot fits a loan's number");

nigh_status bulks_create(const struct bulks_shell *shell, struct bulks **out)
{
    struct bulks *bulks = calloc(1, sizeof(*bulks));

    if (bulks == NULL) {
        return NIGH_NO_RESOURCES;
    }
    bulks->flows = calloc(BULKS_FLOWS, sizeof(*bulks->flows));
    if (bulks->flows == NULL) {
        free(bulks);
        return NIGH_NO_RESOURCES;
    }
    bulks->shell = *shell;
    list_init(&bulks->serves);
    list_init(&bulks->free_flows);
    list_init(&bulks->turns);
    bulks->look_us = UINT64_MAX;
    *out = bulks;
    return NIGH_OK;
}

/* ---- loans ---------------------------------------------------------------- */

static void loan_free(struct bulks_loan *loan)
{
    struct bulks *bulks = loan->bulks;

    for (uint32_t n = 0; n < loan->count; n++) {
        bulks->shell.release(bulks->shell.context, &loan->parts[n].memory);
    }
    bulks->loans[loan->slot] = NULL;
    bulks->loan_count--;
    free(loan);
}

nigh_status bulks_open(struct bulks *bulks, const struct bulks_part *parts, uint32_t count,
                       struct bulks_loan **out)
{
    struct bulks_loan *loan;
    uint32_t slot = 0;

    NIGH_ASSERT(count > 0 && count <= LIMIT_CALL_BULKS);
    if (bulks->loan_count == LIMIT_BULK_LOANS) {
        return NIGH_OVERLOADED;
    }
    while (bulks->loans[slot] != NULL) {
        slot++;
    }
    loan = calloc(1, sizeof(*loan));
    if (loan == NULL) {
        return NIGH_NO_RESOURCES;
    }
    loan->bulks = bulks;
    loan->slot = slot;
    loan->count = count;
    memcpy(loan->parts, parts, count * sizeof(*parts));
    list_init(&loan->landings);
    bulks->loans[slot] = loan;
    bulks->loan_count++;
    *out = loan;
    return NIGH_OK;
}

void bulks_set_tag(struct bulks_loan *loan, void *tag)
{
    loan->tag = tag;
}

static void lend(struct bulks_loan *loan, struct rpc *channel)
{
    NIGH_ASSERT(!loan->lent && !loan->closed);
    loan->lent = true;
    loan->said = false;
    loan->channel = channel;
    loan->number = ++loan->bulks->serial << BULKS_SLOT_BITS | loan->slot;
}

static struct bulks_info info_of(const struct bulks_part *part)
{
    return (struct bulks_info){.bytes = part->memory.bytes, .access = part->access};
}

uint32_t bulks_lend(struct bulks_loan *loan, struct rpc *channel, uint8_t head[BULKS_HEAD])
{
    const struct bulks_shell *shell = &loan->bulks->shell;
    struct bulks_wire wire;
    uint32_t at = sizeof(wire);

    lend(loan, channel);
    wire.loan = loan->number;
    memcpy(head, &wire, sizeof(wire));
    for (uint32_t n = 0; n < loan->count; n++) {
        struct bulks_key key = {0};

        if ((loan->parts[n].access & BULKS_READ) != 0) {
            struct fabric_remote remote = shell->remote(shell->context, &loan->parts[n].memory);

            key = (struct bulks_key){.address = remote.address, .key = remote.key};
        }
        memcpy(head + at, &key, sizeof(key));
        at += sizeof(key);
    }
    for (uint32_t n = 0; n < loan->count; n++) {
        struct bulks_info info = info_of(&loan->parts[n]);

        memcpy(head + at, &info, sizeof(info));
        at += sizeof(info);
    }
    return at;
}

void loan_settle(struct bulks_loan *loan, uint64_t now_us)
{
    struct bulks *bulks = loan->bulks;

    if (!loan->lent || !loan->said || loan->landing_count > 0) {
        return;
    }
    loan->lent = false;
    loan->channel = NULL;
    if (loan->closed) {
        loan_free(loan);
    } else {
        bulks->shell.over(bulks->shell.context, loan->tag, now_us);
    }
}

/* Before it is said that the loan is over: else the last that ends here takes the loan along. */
static void stop_landings(struct bulks_loan *loan, uint64_t now_us)
{
    LIST_FOREACH_SAFE(node, &loan->landings)
    {
        struct flow *flow = container_of(node, struct flow, place);

        NIGH_ASSERT(!loan->said || flow->stopped);
        flow_stop(flow, NIGH_CANCELED, now_us);
    }
}

void bulks_unlend(struct bulks_loan *loan, uint64_t now_us)
{
    if (!loan->lent) {
        return;
    }
    stop_landings(loan, now_us);
    loan->said = true;
    loan->lent = loan->landing_count > 0;
}

uint32_t bulks_parts(const struct bulks_loan *loan)
{
    return loan->count;
}

bool bulks_is_lent(const struct bulks_loan *loan)
{
    return loan->lent;
}

void bulks_close(struct bulks_loan *loan, uint64_t now_us)
{
    struct bulks *bulks = loan->bulks;

    NIGH_ASSERT(!loan->closed);
    loan->tag = NULL;
    if (loan->lent) {
        stop_landings(loan, now_us);
    }
    loan->closed = true;
    loan->closed_us = now_us;
    if (!loan->lent) {
        loan_free(loan);
    } else if (bulks->look_us == UINT64_MAX) {
        bulks->look_us = now_us + BULKS_LOOK_US;
    }
}

/* What a peer calls a loan that it has now; NULL: it has none such. */
static struct bulks_loan *loan_find(const struct bulks *bulks, const struct rpc *channel,
                                    uint64_t number)
{
    uint32_t slot = number & ((1u << BULKS_SLOT_BITS) - 1);
    struct bulks_loan *loan = slot < LIMIT_BULK_LOANS ? bulks->loans[slot] : NULL;

    return loan != NULL && loan->lent && loan->channel == channel && loan->number == number ? loan
                                                                                            : NULL;
}

/* ---- requests ------------------------------------------------------------- */

static struct bulks_serve *serve_new(struct bulks *bulks, struct rpc *channel, uint32_t count)
{
    struct bulks_serve *serve = calloc(1, sizeof(*serve));

    if (serve == NULL) {
        return NULL;
    }
    serve->bulks = bulks;
    serve->channel = channel;
    serve->count = count;
    list_init(&serve->flows);
    list_push_back(&bulks->serves, &serve->place);
    return serve;
}

uint32_t bulks_serve(struct bulks *bulks, struct rpc *channel, uint32_t count, const uint8_t *bytes,
                     uint32_t size, struct bulks_serve **out)
{
    const uint32_t each = sizeof(struct bulks_key) + sizeof(struct bulks_info);
    struct bulks_wire wire;
    struct bulks_serve *serve;

    *out = NULL;
    if (count == 0 || count > LIMIT_CALL_BULKS || size < sizeof(wire) + count * each) {
        return 0;
    }
    memcpy(&wire, bytes, sizeof(wire));
    serve = serve_new(bulks, channel, count);
    if (serve != NULL) {
        bytes += sizeof(wire);
        memcpy(serve->keys, bytes, count * sizeof(*serve->keys));
        bytes += count * sizeof(*serve->keys);
        memcpy(serve->infos, bytes, count * sizeof(*serve->infos));
        serve->number = wire.loan;
    }
    *out = serve;
    return (uint32_t)sizeof(wire) + count * each;
}

struct bulks_serve *bulks_serve_here(struct bulks_loan *loan)
{
    struct bulks_serve *serve = serve_new(loan->bulks, NULL, loan->count);

    if (serve == NULL) {
        return NULL;
    }
    lend(loan, NULL);
    serve->loan = loan;
    serve->number = loan->number;
    for (uint32_t n = 0; n < loan->count; n++) {
        serve->infos[n] = info_of(&loan->parts[n]);
    }
    return serve;
}

uint32_t bulks_count(const struct bulks_serve *serve)
{
    return serve->count;
}

void bulks_infos(const struct bulks_serve *serve, struct bulks_info infos[LIMIT_CALL_BULKS])
{
    memcpy(infos, serve->infos, serve->count * sizeof(*infos));
}

static void serve_free(struct bulks_serve *serve)
{
    list_remove(&serve->place);
    free(serve);
}

/* False: there is no room to say it now. */
static bool say_over(struct bulks_serve *serve, uint64_t now_us)
{
    struct bulks_wire over = {.loan = serve->number};
    struct rpc_piece piece = {.data = &over, .bytes = sizeof(over)};

    if (serve->channel == NULL) {
        serve->loan->said = true;
        loan_settle(serve->loan, now_us);
        return true;
    }
    return rpc_one_way(serve->channel, BULKS_METHOD_OVER, &piece, 1, now_us) != NIGH_BUSY;
}

void serve_settle(struct bulks_serve *serve, uint64_t now_us)
{
    if (!serve->ended || serve->flow_count > 0) {
        return;
    }
    if (say_over(serve, now_us)) {
        serve_free(serve);
    } else {
        serve->bulks->unsaid++;
        serve->ended_us = now_us;
    }
}

void bulks_serve_end(struct bulks_serve *serve, uint64_t now_us)
{
    struct bulks *bulks = serve->bulks;

    LIST_FOREACH_SAFE(node, &serve->flows)
    {
        flow_stop(container_of(node, struct flow, place), NIGH_NOT_FOUND, now_us);
    }
    serve->ended = true;
    serve->ended_us = now_us;
    if (bulks->look_us == UINT64_MAX && serve->flow_count > 0) {
        bulks->look_us = now_us + BULKS_LOOK_US;
    }
    serve_settle(serve, now_us);
}

/* ---- moves ---------------------------------------------------------------- */

static nigh_status check_move(const struct bulks_serve *serve, const struct bulks_move *move)
{
    const struct bulks_info *info;

    if (serve->ended || move->part >= serve->count) {
        return NIGH_INVALID;
    }
    info = &serve->infos[move->part];
    if ((info->access & (move->push ? BULKS_WRITE : BULKS_READ)) == 0) {
        return NIGH_DENIED;
    }
    if (move->offset > info->bytes || move->memory.bytes > info->bytes - move->offset) {
        return NIGH_INVALID;
    }
    return serve->flow_count == LIMIT_REQUEST_FLOWS ? NIGH_BUSY : NIGH_OK;
}

/* Where the bytes are that are moved to or from here. */
static void aim(struct flow *flow, const struct bulks_serve *serve, const struct bulks_move *move)
{
    if (serve->channel == NULL) {
        flow->other = serve->loan->parts[move->part].memory;
        flow->other.offset += move->offset;
        flow->other.bytes = move->memory.bytes;
        flow->outward = move->push;
        return;
    }
    flow->channel = serve->channel;
    flow->part = move->part;
    flow->offset = move->offset;
    flow->remote = (struct fabric_remote){.address = serve->keys[move->part].address + move->offset,
                                          .key = serve->keys[move->part].key};
}

nigh_status bulks_begin(struct bulks_serve *serve, const struct bulks_move *move, uint64_t now_us)
{
    enum flow_kind kind = serve->channel == NULL ? FLOW_COPY : move->push ? FLOW_PUSH : FLOW_PULL;
    nigh_status status = check_move(serve, move);
    struct flow *flow = status == NIGH_OK ? flow_take(serve->bulks, kind) : NULL;

    if (flow == NULL) {
        return status == NIGH_OK ? NIGH_BUSY : status;
    }
    flow->serve = serve;
    flow->memory = move->memory;
    flow->mover = move->mover;
    aim(flow, serve, move);
    list_push_back(&serve->flows, &flow->place);
    serve->flow_count++;
    if (move->memory.bytes == 0) {
        flow_finish(flow, NIGH_OK, now_us);
    } else {
        flow_step(flow, now_us);
    }
    return NIGH_OK;
}

static bool is_move_of(const struct flow *flow, uint32_t owner)
{
    return flow->used && flow->kind != FLOW_LAND && flow->mover.owner == owner;
}

bool bulks_cancel(struct bulks *bulks, uint32_t owner, uint32_t cookie, uint64_t now_us)
{
    for (uint32_t n = 0; n < bulks->flows_used && bulks->move_count > 0; n++) {
        struct flow *flow = &bulks->flows[n];

        if (is_move_of(flow, owner) && flow->mover.cookie == cookie) {
            flow_stop(flow, NIGH_CANCELED, now_us);
            return true;
        }
    }
    return false;
}

void bulks_forget(struct bulks *bulks, uint32_t owner, uint64_t now_us)
{
    for (uint32_t n = 0; n < bulks->flows_used && bulks->move_count > 0; n++) {
        if (is_move_of(&bulks->flows[n], owner)) {
            flow_stop(&bulks->flows[n], NIGH_CANCELED, now_us);
        }
    }
}

/* ---- what the peers say --------------------------------------------------- */

/* What a push may do here: the server's lane has checked it, too, and is not believed. */
static nigh_status check_push(const struct bulks_loan *loan, const struct bulks_push *push)
{
    const struct bulks_part *part;

    if (push->part >= loan->count) {
        return NIGH_INVALID;
    }
    part = &loan->parts[push->part];
    if ((part->access & BULKS_WRITE) == 0) {
        return NIGH_DENIED;
    }
    if (push->bytes == 0 || push->offset > part->memory.bytes ||
        push->bytes > part->memory.bytes - push->offset) {
        return NIGH_INVALID;
    }
    return loan->closed ? NIGH_CANCELED : NIGH_OK;
}

/* At once, or when there is room to say it. False: too much waits for that. */
static bool refuse_push(struct bulks *bulks, struct rpc *channel, const struct bulks_push *push,
                        nigh_status status, uint64_t now_us)
{
    struct bulks_landed said = {.move = push->move, .status = status};
    struct rpc_piece piece = {.data = &said, .bytes = sizeof(said)};
    struct flow *flow;

    if (rpc_one_way(channel, BULKS_METHOD_LANDED, &piece, 1, now_us) != NIGH_BUSY) {
        return true;
    }
    flow = flow_take_landing(bulks, channel);
    if (flow == NULL) {
        return false;
    }
    /* Of no loan: as one that has landed, and was not said to have. */
    flow->token = push->move;
    flow->status = status;
    flow_step(flow, now_us);
    return true;
}

/* False: the peer breaks the rules, or cannot be answered. */
static bool take_push(struct bulks *bulks, struct rpc *channel, const struct rpc_request *message,
                      uint64_t now_us)
{
    struct bulks_push push;
    struct bulks_loan *loan;
    struct flow *flow;
    nigh_status status;

    if (message->bytes != sizeof(push)) {
        return false;
    }
    memcpy(&push, message->payload, sizeof(push));
    loan = loan_find(bulks, channel, push.loan);
    if (loan == NULL || loan->said || loan->landing_count >= LIMIT_REQUEST_FLOWS) {
        return false; /* whoever said that the loan is over pushes no more */
    }
    status = check_push(loan, &push);
    flow = status == NIGH_OK ? flow_take_landing(bulks, channel) : NULL;
    if (flow == NULL) {
        return refuse_push(bulks, channel, &push, status == NIGH_OK ? NIGH_BUSY : status, now_us);
    }
    flow->loan = loan;
    flow->token = push.move;
    flow->remote = (struct fabric_remote){.address = push.address, .key = push.key};
    flow->memory = loan->parts[push.part].memory;
    flow->memory.offset += push.offset;
    flow->memory.bytes = push.bytes;
    list_push_back(&loan->landings, &flow->place);
    loan->landing_count++;
    flow_step(flow, now_us);
    return true;
}

static bool take_landed(struct bulks *bulks, const struct rpc *channel,
                        const struct rpc_request *message, uint64_t now_us)
{
    struct bulks_landed said;
    struct flow *flow;

    if (message->bytes != sizeof(said)) {
        return false;
    }
    memcpy(&said, message->payload, sizeof(said));
    flow = flow_find(bulks, said.move);
    if (flow == NULL || flow->kind != FLOW_PUSH || flow->channel != channel || !flow->told ||
        said.status > NIGH_OK || said.status < NIGH_STATUS_LOWEST || said.status == NIGH_PENDING) {
        return false;
    }
    /* Its caller's lane knows no more than that the call is over. */
    if (said.status != NIGH_OK && flow->stopped) {
        said.status = flow->status;
    } else if (said.status == NIGH_CANCELED) {
        said.status = NIGH_NOT_FOUND;
    }
    flow_finish(flow, (nigh_status)said.status, now_us);
    return true;
}

static bool take_over(struct bulks *bulks, const struct rpc *channel,
                      const struct rpc_request *message, uint64_t now_us)
{
    struct bulks_wire over;
    struct bulks_loan *loan;

    if (message->bytes != sizeof(over)) {
        return false;
    }
    memcpy(&over, message->payload, sizeof(over));
    loan = loan_find(bulks, channel, over.loan);
    if (loan == NULL || loan->said) {
        return true; /* it is over for another reason already */
    }
    stop_landings(loan, now_us);
    loan->said = true;
    loan_settle(loan, now_us); /* or the last of those that are under way does */
    return true;
}

void bulks_take(struct bulks *bulks, struct rpc *channel, const struct rpc_request *message,
                uint64_t now_us)
{
    bool is_right = false;

    switch (message->method) {
    case BULKS_METHOD_PUSH: is_right = take_push(bulks, channel, message, now_us); break;
    case BULKS_METHOD_LANDED: is_right = take_landed(bulks, channel, message, now_us); break;
    case BULKS_METHOD_OVER: is_right = take_over(bulks, channel, message, now_us); break;
    default: break;
    }
    if (!is_right) {
        bulks->shell.breaks(bulks->shell.context, channel);
    }
}

/* ---- channels that end ---------------------------------------------------- */

static void flow_lost(struct flow *flow, uint64_t now_us)
{
    flow->told = false;
    if (flow->kind == FLOW_LAND && flow->loan == NULL) {
        flow_step(flow, now_us); /* nobody is there to be told */
    } else {
        flow->stopped = true;
        flow_finish(flow, NIGH_PEER_LOST, now_us);
    }
}

void bulks_channel_down(struct bulks *bulks, const struct rpc *channel, uint64_t now_us)
{
    for (uint32_t n = 0; n < bulks->flows_used; n++) {
        if (bulks->flows[n].used && bulks->flows[n].channel == channel) {
            flow_lost(&bulks->flows[n], now_us);
        }
    }
    LIST_FOREACH_SAFE(node, &bulks->serves)
    {
        struct bulks_serve *serve = container_of(node, struct bulks_serve, place);

        if (serve->ended && serve->channel == channel) {
            bulks->unsaid--;
            serve_free(serve);
        }
    }
    for (uint32_t n = 0; n < LIMIT_BULK_LOANS && bulks->loan_count > 0; n++) {
        struct bulks_loan *loan = bulks->loans[n];

        if (loan != NULL && loan->lent && loan->channel == channel) {
            loan->said = true;
            loan_settle(loan, now_us);
        }
    }
}

static bool has_tag(const struct bulks_loan *loan, const void *tag)
{
    bool has = false;

    for (uint32_t n = 0; n < loan->count; n++) {
        has = has || loan->parts[n].memory.tag == tag;
    }
    return has;
}

void bulks_break(struct bulks *bulks, const void *tag, uint64_t now_us)
{
    const struct bulks_shell *shell = &bulks->shell;

    for (uint32_t n = 0; n < bulks->flows_used; n++) {
        struct flow *flow = &bulks->flows[n];
        bool is_of = flow->used && (flow->memory.tag == tag || flow->other.tag == tag);

        if (is_of && flow->channel != NULL) {
            shell->breaks(shell->context, flow->channel);
        } else if (is_of) {
            flow_stop(flow, NIGH_CANCELED, now_us);
        }
    }
    for (uint32_t n = 0; n < LIMIT_BULK_LOANS; n++) {
        const struct bulks_loan *loan = bulks->loans[n];

        if (loan != NULL && loan->lent && loan->channel != NULL && has_tag(loan, tag)) {
            shell->breaks(shell->context, loan->channel);
        }
    }
}

/* ---- time ----------------------------------------------------------------- */

static void say_unsaid(struct bulks *bulks, uint64_t now_us)
{
    LIST_FOREACH_SAFE(node, &bulks->serves)
    {
        struct bulks_serve *serve = container_of(node, struct bulks_serve, place);

        if (serve->ended && serve->flow_count == 0 && say_over(serve, now_us)) {
            bulks->unsaid--;
            serve_free(serve);
        }
    }
}

static bool is_overdue(uint64_t since_us, uint64_t now_us)
{
    return now_us >= since_us && now_us - since_us > LIMIT_BULK_LOAN_US;
}

/* Whoever does not say that a loan is over, or that a push is, loses the channel. */
static void look_for_overdue(struct bulks *bulks, uint64_t now_us)
{
    const struct bulks_shell *shell = &bulks->shell;
    bool any = false;

    for (uint32_t n = 0; n < LIMIT_BULK_LOANS && bulks->loan_count > 0; n++) {
        struct bulks_loan *loan = bulks->loans[n];
        bool waits = loan != NULL && loan->closed && loan->channel != NULL;

        any = any || waits;
        if (waits && is_overdue(loan->closed_us, now_us)) {
            loan->closed_us = now_us;
            shell->breaks(shell->context, loan->channel);
        }
    }
    LIST_FOREACH(node, &bulks->serves)
    {
        struct bulks_serve *serve = container_of(node, struct bulks_serve, place);
        bool waits = serve->ended && serve->channel != NULL;

        any = any || waits;
        if (waits && is_overdue(serve->ended_us, now_us)) {
            serve->ended_us = now_us;
            shell->breaks(shell->context, serve->channel);
        }
    }
    bulks->look_us = any ? now_us + BULKS_LOOK_US : UINT64_MAX;
}

bool bulks_tick(struct bulks *bulks, uint64_t now_us)
{
    bool worked = flow_turn(bulks, now_us);

    if (bulks->unsaid > 0) {
        say_unsaid(bulks, now_us);
    }
    bulks->again_us = now_us + BULKS_AGAIN_US;
    if (now_us >= bulks->look_us) {
        look_for_overdue(bulks, now_us);
    }
    return worked;
}

uint64_t bulks_due_us(const struct bulks *bulks)
{
    uint64_t due_us = bulks->look_us;

    if (bulks->copying > 0) {
        return 0;
    }
    if ((!list_empty(&bulks->turns) || bulks->unsaid > 0) && bulks->again_us < due_us) {
        due_us = bulks->again_us;
    }
    return due_us;
}

/* ---- the end, numbers ----------------------------------------------------- */

void bulks_destroy(struct bulks *bulks)
{
    const struct bulks_shell *shell;

    if (bulks == NULL) {
        return;
    }
    shell = &bulks->shell;
    for (uint32_t n = 0; n < bulks->flows_used; n++) {
        if (bulks->flows[n].used && bulks->flows[n].kind != FLOW_LAND) {
            shell->release(shell->context, &bulks->flows[n].memory);
        }
    }
    while (!list_empty(&bulks->serves)) {
        serve_free(container_of(list_first(&bulks->serves), struct bulks_serve, place));
    }
    for (uint32_t n = 0; n < LIMIT_BULK_LOANS; n++) {
        if (bulks->loans[n] != NULL) {
            loan_free(bulks->loans[n]);
        }
    }
    free(bulks->flows);
    free(bulks);
}

const struct bulks_counts *bulks_counts(const struct bulks *bulks)
{
    return &bulks->counts;
}

uint32_t bulks_loans(const struct bulks *bulks)
{
    return bulks->loan_count;
}

uint32_t bulks_moves(const struct bulks *bulks)
{
    return bulks->move_count + bulks->landing_count;
}

static bool is_flow_valid(const struct flow *flow)
{
    uint32_t reads = 0;

    for (uint32_t n = 0; n < LIMIT_BULK_WINDOW; n++) {
        reads += flow->read[n].bytes > 0;
    }
    return reads == flow->reads && flow->landed <= flow->asked + flow->memory.bytes &&
           (flow->kind == FLOW_LAND) == (flow->serve == NULL) &&
           (flow->reads == 0 || !list_is_linked(&flow->turn));
}

static bool are_landers_valid(const struct bulks *bulks)
{
    uint32_t landings = 0;

    for (uint32_t n = 0; n < bulks->lander_count; n++) {
        landings += bulks->landers[n].landings;
        if (bulks->landers[n].landings == 0) {
            return false;
        }
    }
    return landings == bulks->landing_count;
}

bool bulks_is_valid(const struct bulks *bulks)
{
    uint32_t moves = 0, landings = 0, loans = 0;

    for (uint32_t n = 0; n < bulks->flows_used; n++) {
        const struct flow *flow = &bulks->flows[n];

        moves += flow->used && flow->kind != FLOW_LAND;
        landings += flow->used && flow->kind == FLOW_LAND;
        if (flow->used && !is_flow_valid(flow)) {
            return false;
        }
    }
    for (uint32_t n = 0; n < LIMIT_BULK_LOANS; n++) {
        loans += bulks->loans[n] != NULL;
        if (bulks->loans[n] != NULL && bulks->loans[n]->closed && !bulks->loans[n]->lent) {
            return false;
        }
    }
    return moves == bulks->move_count && landings == bulks->landing_count &&
           loans == bulks->loan_count && are_landers_valid(bulks);
}
