/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See pairs.h. What goes through pairs: calls and their replies, requests and their answers. Each
 * call has a tag of its pair until its reply is there, also one that nobody waits for any more: so
 * there is always room for a reply, and a server that does not answer keeps new calls to the node.
 */
#include "client/client_internal.h"
#include "client/op.h"
#include "client/pair_calls.h"
#include "client/pairs.h"
#include "client/ring.h"

#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "client/calls.h"
#include "client/services.h"

/* A request's second word: the node's beginning above, and below this bit and the pair's place and
 * the tag. The first: the pair's serial and the call's nonce. */
#define REQUEST_PAIRED      UINT32_C(0x80000000)
#define REQUEST_TAG(word)   ((uint32_t)(word) & (LIMIT_PAIR_ENTRIES - 1))
#define REQUEST_PLACE(word) ((uint32_t)(word) / LIMIT_PAIR_ENTRIES & (LIMIT_SESSION_PAIRS - 1))

_Static_assert(LIMIT_LANES < REQUEST_PAIRED, "a lane's number has not the bit");

static struct client_pairs *pairs_of(const nigh_client *client)
{
    return atomic_load_explicit(&client->pairs, memory_order_relaxed);
}

static uint64_t bit_of(const struct client_pairs *pairs, const struct client_pair *pair)
{
    return UINT64_C(1) << (pair - pairs->all);
}

static void set_wanted(struct client_pairs *pairs, uint64_t bits, bool wanted)
{
    uint64_t was = atomic_load_explicit(&pairs->wanted, memory_order_relaxed);

    atomic_store_explicit(&pairs->wanted, wanted ? was | bits : was & ~bits, memory_order_release);
}

static void set_due(const nigh_client *client, struct client_pairs *pairs, uint64_t deadline_us)
{
    if (deadline_us < atomic_load_explicit(&pairs->due_us, memory_order_relaxed)) {
        atomic_store_explicit(&pairs->due_us, deadline_us, memory_order_relaxed);
        if (client->armed) {
            pairs_set_timer(pairs); /* the application may be asleep */
        }
    }
}

void pair_own_deadline(struct client_op *op)
{
    if ((op->flags & OP_ROUGH) == 0) {
        return;
    }
    op->flags &= ~OP_ROUGH;
    op->deadline_us = op_deadline_us(op->u.call.timeout_us);
    if ((op->flags & OP_PAIRED) != 0) {
        set_due(op->client, pairs_of(op->client), op->deadline_us);
    }
}

/* What was written is there to be seen. */
static void ring(const struct client_pair *pair)
{
    if (pair_wants_bell(&pair->out)) {
        (void)send(pair->bell_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

static enum pair_answer take(struct client_pairs *pairs, struct client_pair *pair,
                             struct pair_record *record, void *bytes, bool *withdrawn)
{
    enum pair_answer answer = pair_read(&pair->in, record, bytes, withdrawn);

    atomic_store_explicit(&pairs->look[pair - pairs->all].head, pair->in.head,
                          memory_order_relaxed);
    return answer;
}

/* ---- the caller ----------------------------------------------------------- */

struct client_pair *pair_find(struct client_pairs *pairs, uint64_t hash)
{
    uint64_t live = pairs != NULL ? atomic_load_explicit(&pairs->live, memory_order_relaxed) : 0;

    for (; live != 0; live &= live - 1) {
        struct client_pair *pair = &pairs->all[__builtin_ctzll(live)];

        if (pair->hash == hash && !pair->serves) {
            return pair;
        }
    }
    return NULL;
}

static bool is_open(struct client_pair *pair)
{
    if (!pair->is_open) {
        pair->is_open = shared_load_acquire(&pair->memory->requests.open.value) == PAIR_OPEN;
    }
    return pair->is_open;
}

/* Whether the node has said that the other side is gone. It says so before the name is free: who
 * knows that there is another server does not call the one before. */
static bool is_over(const nigh_client *client, const struct client_pair *pair)
{
    uint64_t place = (uint64_t)(pair - pairs_of(client)->all);

    return shared_load_acquire(&client->front->pair_ended[place]) == pair->serial;
}

/* The pair that this call may take. Its rank is the one that it would go to through the node. */
static struct client_pair *find_for(const struct client_op *op)
{
    struct client_pair *pair = pair_find(pairs_of(op->client), op->u.call.hash);
    const nigh_call_spec *spec = op->u.call.spec;
    bool is_near = spec->rank == NIGH_NEAREST && spec->near_count > 0;

    return pair != NULL && !is_near && calls_bulk_count(spec) == 0 &&
                   (op->u.call.rank == NIGH_ANY_RANK || op->u.call.rank == pair->rank) &&
                   !is_over(op->client, pair) && is_open(pair)
               ? pair
               : NULL;
}

/* The tag that a call would have. */
static uint32_t next_tag(const struct client_pair *pair)
{
    return pair->free[LIMIT_PAIR_ENTRIES - 1 - pair->under_way];
}

static void begin_call(struct client_op *op, struct client_pair *pair, uint32_t tag,
                       const struct pair_call *call)
{
    struct client_pairs *pairs = pairs_of(op->client);

    pair->calls[tag] = *call;
    pair->under_way++;
    pair->reply_bytes += pair_data_bytes(call->room);
    op->flags |= OP_PAIRED;
    op->u.place.offset = (uint64_t)(pair - pairs->all) * LIMIT_PAIR_ENTRIES + tag;
    set_wanted(pairs, bit_of(pairs, pair), true);
    set_due(op->client, pairs, op->deadline_us);
}

enum pairs_call pairs_call(struct client_op *op)
{
    struct client_pair *pair = find_for(op);
    bool one_way = (op->u.call.flags & NIGH_CALL_ONE_WAY) != 0;
    struct pair_call call = {.used = true, .op = op};
    struct pair_record record;
    enum pair_answer answer;

    if (pair == NULL || (!one_way && pair->under_way == LIMIT_PAIR_ENTRIES)) {
        return PAIRS_ELSEWHERE;
    }
    call.room = (uint32_t)min_u64(op->u.call.spec->reply_room, LIMIT_CALL_BYTES);
    if (!one_way && pair->reply_bytes + pair_data_bytes(call.room) > LIMIT_PAIR_DATA_BYTES) {
        return PAIRS_ELSEWHERE;
    }
    call.nonce = ++pair->nonce;
    record = (struct pair_record){.tag = (uint16_t)(one_way ? 0 : next_tag(pair)),
                                  .flags = one_way ? PAIR_ONE_WAY : 0,
                                  .nonce = call.nonce,
                                  .bytes = op->u.place.count,
                                  .value = (int32_t)call.room,
                                  .deadline_us = op->deadline_us};
    answer = pair_write(&pair->out, &record, op->u.place.bytes, &call.number);
    if (answer == PAIR_BROKEN) {
        pair_broken(op->client, pair);
    }
    if (answer != PAIR_DONE) {
        return PAIRS_ELSEWHERE;
    }
    op->u.call.spec->served_by = pair->rank;
    if (!one_way) {
        begin_call(op, pair, record.tag, &call);
    }
    ring(pair);
    return one_way ? PAIRS_ENDED : PAIRS_UNDER_WAY;
}

static bool is_status(int32_t status)
{
    return status <= NIGH_OK && status >= NIGH_STATUS_LOWEST && status != NIGH_PENDING;
}

/* The reply of a call that somebody waits for: *bytes are a copy of our own. */
static void end_call(struct client_op *op, const struct pair_record *reply, uint32_t room,
                     const uint8_t *bytes)
{
    nigh_call_spec *spec = op->u.call.spec;
    uint64_t wanted = reply->value == NIGH_LIMIT ? reply->deadline_us : reply->bytes;

    op->flags &= ~OP_PAIRED;
    op->u.call.wanted = min_u64(wanted, LIMIT_CALL_BYTES);
    if (reply->deadline_us == reply->bytes) { /* of what its library says these are not the same */
        calls_answered(op);
    }
    spec->reply_bytes = (size_t)op->u.call.wanted;
    if (reply->bytes > room) {
        op_fail(op, NIGH_LIMIT);
    } else if (reply->bytes > 0) {
        memcpy(spec->reply, bytes, reply->bytes);
    }
    if (reply->value != NIGH_OK) {
        op_fail(op, (nigh_status)reply->value);
    }
    op_step_ended(op);
}

bool pair_take_replies(nigh_client *client, struct client_pair *pair)
{
    struct client_pairs *pairs = pairs_of(client);
    struct pair_record record;
    bool withdrawn;

    for (uint32_t n = 0; n < LIMIT_PAIR_ENTRIES && pair->in.half != NULL; n++) {
        enum pair_answer answer = take(pairs, pair, &record, pairs->bytes, &withdrawn);
        struct pair_call was;

        if (answer == PAIR_NONE) {
            break;
        }
        if (answer == PAIR_BROKEN || record.tag >= LIMIT_PAIR_ENTRIES ||
            !pair->calls[record.tag].used || pair->calls[record.tag].nonce != record.nonce ||
            !is_status(record.value)) {
            pair_broken(client, pair);
            return false;
        }
        was = pair->calls[record.tag];
        pair->calls[record.tag] = (struct pair_call){0};
        pair->under_way--;
        pair->free[LIMIT_PAIR_ENTRIES - 1 - pair->under_way] = (uint8_t)record.tag;
        pair->reply_bytes -= pair_data_bytes(was.room);
        if (was.op != NULL) {
            end_call(was.op, &record, was.room, pairs->bytes);
        }
    }
    if (pair->under_way == 0) {
        set_wanted(pairs, bit_of(pairs, pair), false);
    }
    return true;
}

void pairs_forget(struct client_op *op)
{
    struct client_pairs *pairs = pairs_of(op->client);
    struct client_pair *pair = &pairs->all[op->u.place.offset / LIMIT_PAIR_ENTRIES];
    struct pair_call *call = &pair->calls[op->u.place.offset % LIMIT_PAIR_ENTRIES];

    op->flags &= ~OP_PAIRED;
    call->op = NULL;
    pair_withdraw(&pair->out, call->number);
}

/* As through the node: it may have been carried out, so only what may be twice is tried again. */
void pair_lost_call(struct client_op *op)
{
    op->flags &= ~OP_PAIRED;
    if ((op->u.call.flags & NIGH_CALL_IDEMPOTENT) != 0) {
        pair_own_deadline(op);
        op->next = 0;
        op_feed(op);
        return;
    }
    op_fail(op, NIGH_CLOSED);
    op_step_ended(op);
}

/* ---- the server ----------------------------------------------------------- */

static void answer(nigh_client *client, struct client_pair *pair, const struct pair_record *reply,
                   const void *bytes)
{
    uint32_t number;

    /* Who calls has kept room for each of its answers. */
    if (pair_write(&pair->out, reply, bytes, &number) != PAIR_DONE) {
        pair_broken(client, pair);
        return;
    }
    ring(pair);
}

/* What a request is shown as. */
static void show(const struct client_pair *pair, const struct client_pairs *pairs,
                 const struct pair_record *record, uint64_t now_us, nigh_request *request)
{
    uint32_t where =
        REQUEST_PAIRED | (uint32_t)(pair - pairs->all) * LIMIT_PAIR_ENTRIES | record->tag;

    *request = (nigh_request){
        .service = pair->service,
        .size = record->bytes,
        .rank = pair->rank,
        .uid = pair->uid,
        .is_one_way = (record->flags & PAIR_ONE_WAY) != 0,
        .timeout_us =
            record->deadline_us == UINT64_MAX ? NIGH_FOREVER : record->deadline_us - now_us,
        .opaque = {(uint64_t)pair->serial << 32 | record->nonce,
                   calls_where(pair->service->client, where)},
    };
}

/* Whether the caller can have written this, with what is under way. */
static bool is_possible(const struct client_pair *pair, const struct pair_record *record)
{
    return (record->flags & ~PAIR_ONE_WAY) == 0 && record->value >= 0 &&
           record->value <= (int32_t)LIMIT_CALL_BYTES && record->tag < LIMIT_PAIR_ENTRIES &&
           ((record->flags & PAIR_ONE_WAY) != 0 || !pair->calls[record->tag].used);
}

/* Now, as well as it has to be known for that. */
static uint64_t now_for(uint64_t deadline_us)
{
    uint64_t now_us = deadline_us != UINT64_MAX ? clock_rough_us() : 0;

    return deadline_us > now_us && deadline_us - now_us >= LIMIT_PAIR_ROUGH_US / 2
               ? now_us
               : clock_now_us(&clock_monotonic);
}

/* The next request of one pair that is worth it; the others are answered here. */
static bool receive_from(nigh_service *service, struct client_pair *pair, nigh_request *request,
                         void *buffer)
{
    struct client_pairs *pairs = pairs_of(service->client);
    struct pair_record record;
    bool withdrawn;

    for (uint32_t n = 0; n < LIMIT_PAIR_ENTRIES && pair->in.half != NULL; n++) {
        enum pair_answer got = take(pairs, pair, &record, buffer, &withdrawn);
        uint64_t now_us;

        if (got == PAIR_NONE) {
            return false;
        }
        if (got == PAIR_BROKEN || !is_possible(pair, &record)) {
            pair_broken(service->client, pair);
            return false;
        }
        now_us = now_for(record.deadline_us);
        if (!withdrawn && record.deadline_us > now_us) {
            if ((record.flags & PAIR_ONE_WAY) == 0) {
                pair->calls[record.tag] = (struct pair_call){
                    .used = true, .nonce = record.nonce, .room = (uint32_t)record.value};
            }
            show(pair, pairs, &record, now_us, request);
            request->bytes = buffer;
            return true;
        }
        if ((record.flags & PAIR_ONE_WAY) == 0) {
            record.bytes = 0;
            record.value = NIGH_TIMEOUT;
            answer(service->client, pair, &record, NULL);
        }
    }
    return false;
}

static bool receive_among(nigh_service *service, uint64_t mask, nigh_request *request, void *buffer)
{
    struct client_pairs *pairs = pairs_of(service->client);

    for (; mask != 0; mask &= mask - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(mask);
        if (receive_from(service, &pairs->all[place], request, buffer)) {
            pairs->next = (place + 1) % LIMIT_SESSION_PAIRS;
            return true;
        }
    }
    return false;
}

bool pairs_receive(nigh_service *service, nigh_request *request, void *buffer)
{
    struct client_pairs *pairs = pairs_of(service->client);
    uint64_t mask = service->pair_mask;

    if (mask == 0) {
        return false;
    }
    /* In turns, beginning behind who was served last. */
    return receive_among(service, mask & UINT64_MAX << pairs->next, request, buffer) ||
           receive_among(service, mask & ~(UINT64_MAX << pairs->next), request, buffer);
}

bool pairs_has_request(const nigh_request *request)
{
    return (request->opaque[1] & REQUEST_PAIRED) != 0;
}

nigh_status pairs_reply(nigh_client *client, const nigh_request *request, nigh_status status,
                        const void *bytes, uint32_t size)
{
    struct client_pairs *pairs = pairs_of(client);
    uint32_t tag = REQUEST_TAG(request->opaque[1]);
    struct pair_record reply = {.tag = (uint16_t)tag,
                                .nonce = (uint32_t)request->opaque[0],
                                .bytes = size,
                                .value = status,
                                .deadline_us = size};
    struct client_pair *pair;

    if (pairs == NULL || !calls_is_now(client, (uint32_t)(request->opaque[1] >> 32))) {
        return NIGH_NOT_FOUND;
    }
    pair = &pairs->all[REQUEST_PLACE(request->opaque[1])];
    if ((atomic_load_explicit(&pairs->live, memory_order_relaxed) & bit_of(pairs, pair)) == 0 ||
        !pair->serves || pair->serial != request->opaque[0] >> 32 || !pair->calls[tag].used ||
        pair->calls[tag].nonce != reply.nonce) {
        return NIGH_NOT_FOUND;
    }
    pair->calls[tag].used = false;
    if (size > pair->calls[tag].room) {
        reply.bytes = 0;
        reply.value = NIGH_LIMIT;
    }
    answer(client, pair, &reply, bytes);
    return NIGH_OK;
}

/* ---- receives that wait --------------------------------------------------- */

void pairs_want(nigh_service *service)
{
    struct client_pairs *pairs = pairs_of(service->client);

    if (pairs == NULL) {
        return;
    }
    if (service->pair_mask != 0) {
        set_wanted(pairs, service->pair_mask, service->waiting_count > 0);
    }
    if (service->waiting_count > 0) {
        set_due(service->client, pairs, service->waiting[service->waiting_count - 1]->deadline_us);
    }
}

void pair_feed_receives(nigh_service *service)
{
    while (service->waiting_count > 0) {
        struct client_op *op = service->waiting[0];

        if (!pairs_receive(service, op->u.call.into, op->u.call.buffer)) {
            return;
        }
        calls_release_receive(op);
        op_step_ended(op);
    }
}

/* ---- deadlines ------------------------------------------------------------ */

/* A receive's, whatever its lane was told; its RECEIVE stays there for the next. */
static uint64_t end_overdue_receives(nigh_service *service, uint64_t now_us, uint64_t due_us)
{
    uint32_t n = 0;

    while (n < service->waiting_count) {
        struct client_op *op = service->waiting[n];

        if (op->deadline_us > now_us) {
            due_us = min_u64(due_us, op->deadline_us);
            n++;
            continue;
        }
        calls_release_receive(op);
        op_fail(op, NIGH_TIMEOUT);
        op_step_ended(op);
    }
    return due_us;
}

static uint64_t end_overdue_calls(struct client_pair *pair, uint64_t now_us, uint64_t due_us)
{
    for (uint32_t tag = 0; tag < LIMIT_PAIR_ENTRIES; tag++) {
        struct client_op *op = pair->calls[tag].op;

        if (op == NULL) {
            continue;
        }
        if (op->deadline_us > now_us) {
            due_us = min_u64(due_us, op->deadline_us);
            continue;
        }
        pairs_forget(op);
        op_fail(op, NIGH_TIMEOUT);
        op_step_ended(op);
    }
    return due_us;
}

void pairs_end_overdue(nigh_client *client, uint64_t now_us)
{
    struct client_pairs *pairs = pairs_of(client);
    uint64_t due_us = UINT64_MAX;
    uint64_t ends = client->ends;

    for (uint32_t n = 0; n < LIMIT_SESSION_PAIRS; n++) {
        if ((atomic_load_explicit(&pairs->live, memory_order_relaxed) >> n & 1) != 0 &&
            !pairs->all[n].serves) {
            due_us = end_overdue_calls(&pairs->all[n], now_us, due_us);
        }
    }
    LIST_FOREACH_SAFE(node, &client->services)
    {
        due_us = end_overdue_receives(container_of(node, nigh_service, place), now_us, due_us);
    }
    atomic_store_explicit(&pairs->due_us, due_us, memory_order_relaxed);
    if (client->ends != ends) {
        ring_tell(client);
    }
}
