/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that calls bring (rpc/bulks.h, rpc/calls.h): two nodes with a channel, whose frames and
 * READs are carried out when the test says so. Whoever touches memory that was released fails the
 * test, in each of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "calls_frames.h"
#include "rpc/calls.h"
#include "support/support.h"

#define SERVICE  UINT64_C(77)
#define MANY     4096u
#define MEMORIES 4096u
#define BYTES    (UINT64_C(3) << 20)
#define OWNER    1u

/* A READ that is not carried out yet. */
struct pending_read {
    struct bulks_read *read;
    struct bulks_memory to;
    struct fabric_remote from;
};

struct side {
    struct side *other;
    struct calls *calls;
    struct rpc *rpc;
    bool up, breaks;
    uint32_t broken;            /* ever */
    struct frame *frames[MANY]; /* on their way to this side */
    uint32_t first, last;
    struct pending_read reads[MANY];
    uint32_t read_count;
    bool no_reads; /* the link takes none now */
    /* Its memory: which is released, and for whom it is. */
    bool released[MEMORIES];
    uint32_t memories;
    /* Its calls, by cookie: what they brought, and how they ended. */
    uint32_t brought[MANY];
    uint64_t deadline_us[MANY];
    bool cancelled[MANY];
    uint32_t ended[MANY];
    nigh_status status[MANY];
    uint32_t calls_begun, calls_ended;
    /* Its moves, likewise. */
    uint32_t moves_memory[MANY];
    uint32_t moved[MANY];
    nigh_status move_status[MANY];
    uint32_t moves_begun, moves_ended;
    /* Requests of its service. */
    uint64_t requests[MANY];
    uint32_t request_count;
    uint32_t last_bulks, last_bytes;
    struct bulks_info last_info;
};

/* A channel of the first side's whose other end says what it likes, and takes nothing. */
struct liar {
    struct rpc *rpc;
    uint32_t broken;
};

static struct side sides[2];
static struct liar liars[3];
static uint64_t now_us;
static uint8_t some_bytes[8], all_bytes[BYTES];

/* ---- memory --------------------------------------------------------------- */

static struct bulks_memory memory_of(struct side *side, uint64_t bytes)
{
    assert_true(side->memories < MEMORIES);
    side->released[side->memories] = false;
    return (struct bulks_memory){
        .tag = &side->released[side->memories++], .offset = 0, .bytes = bytes};
}

static uint32_t number_of(const struct side *side, const struct bulks_memory *memory)
{
    return (uint32_t)((bool *)memory->tag - side->released);
}

static uint8_t *on_address(void *context, const struct bulks_memory *memory)
{
    (void)context;
    assert_false(*(bool *)memory->tag);
    assert_true(memory->offset + memory->bytes <= BYTES);
    return all_bytes + memory->offset;
}

static struct fabric_remote on_remote(void *context, const struct bulks_memory *memory)
{
    assert_false(*(bool *)memory->tag);
    return (struct fabric_remote){.address = memory->offset, .key = number_of(context, memory)};
}

static nigh_status on_read(void *context, struct rpc *channel, const struct bulks_memory *to,
                           struct fabric_remote from, struct bulks_read *read)
{
    struct side *side = context;

    assert_ptr_equal(channel, side->rpc);
    assert_true(to->bytes > 0 && to->bytes <= LIMIT_BULK_CHUNK);
    if (side->no_reads || side->read_count == 12) {
        return NIGH_BUSY;
    }
    side->reads[side->read_count++] = (struct pending_read){.read = read, .to = *to, .from = from};
    return side->up ? NIGH_OK : NIGH_PEER_LOST;
}

static void on_release(void *context, const struct bulks_memory *memory)
{
    (void)context;
    assert_false(*(bool *)memory->tag);
    *(bool *)memory->tag = true;
}

static void on_moved(void *context, const struct bulks_mover *mover, nigh_status status)
{
    struct side *side = context;

    assert_true(side->released[side->moves_memory[mover->cookie]]);
    assert_int_equal(side->moved[mover->cookie]++, 0);
    side->move_status[mover->cookie] = status;
    side->moves_ended++;
}

static void on_breaks(void *context, struct rpc *channel)
{
    struct side *side = context;

    for (uint32_t n = 0; n < sizeof liars / sizeof *liars; n++) {
        if (channel == liars[n].rpc) {
            liars[n].broken++;
            return;
        }
    }
    assert_ptr_equal(channel, side->rpc);
    side->broken++;
    side->breaks = true;
}

/* One of the READs: both memories are nobody else's yet. */
static void carry_out(struct side *side, uint32_t number)
{
    struct pending_read read = side->reads[number];

    side->reads[number] = side->reads[--side->read_count];
    assert_false(*(bool *)read.to.tag);
    if (!side->other->up) {
        side->reads[side->read_count++] = read; /* it ends with the link */
        side->breaks = true;
        return;
    }
    assert_false(side->other->released[read.from.key]);
    bulks_read_done(read.read, NIGH_OK, now_us);
}

/* ---- nodes ---------------------------------------------------------------- */

static void on_send(void *context, const struct rpc_header *header, const struct rpc_piece *pieces,
                    uint32_t count)
{
    struct side *side = context;

    if (!side->other->up) {
        return;
    }
    assert_true(side->other->last - side->other->first < MANY);
    side->other->frames[side->other->last++ % MANY] = frame_of(header, pieces, count);
}

static void on_rpc_request(void *context, const struct rpc_request *request, uint64_t at_us)
{
    struct side *side = context;

    calls_take(side->calls, side->rpc, (uint32_t)(side->other - sides), request, at_us);
}

static void on_rpc_canceled(void *context, uint64_t call)
{
    struct side *side = context;

    calls_withdrawn(side->calls, side->rpc, call, now_us);
}

static struct rpc *on_channel(void *context, uint32_t rank, uint64_t hash)
{
    struct side *side = context;

    (void)rank;
    (void)hash;
    return side->up ? side->rpc : NULL;
}

static const uint8_t *on_bytes(void *context, const struct calls_caller *caller)
{
    (void)context;
    (void)caller;
    return some_bytes;
}

/* Unless its caller gave up, nobody touches what it brought. */
static void on_ended(void *context, const struct calls_caller *caller, const struct calls_end *end)
{
    struct side *side = context;

    assert_int_equal(side->ended[caller->cookie]++, 0);
    side->status[caller->cookie] = end->status;
    side->calls_ended++;
    if (end->status != NIGH_TIMEOUT && end->status != NIGH_CANCELED &&
        now_us < side->deadline_us[caller->cookie] && !side->cancelled[caller->cookie]) {
        assert_true(side->released[side->brought[caller->cookie]]);
    }
}

static void on_request(void *context, void *tag, const struct calls_request *request)
{
    struct side *side = context;

    assert_ptr_equal(tag, side);
    side->requests[side->request_count++ % MANY] = request->id;
    side->last_bulks = request->bulks;
    side->last_bytes = request->count;
    memcpy(&side->last_info, request->bytes, sizeof side->last_info);
}

static void make_channel(struct side *side)
{
    struct rpc_config rpc = {.requests = 8,
                             .calls = 8,
                             .payload_bytes = CALLS_PAYLOAD,
                             .shell = {.context = side,
                                       .send = on_send,
                                       .request = on_rpc_request,
                                       .canceled = on_rpc_canceled}};

    assert_int_equal(rpc_create(&rpc, &side->rpc), NIGH_OK);
    side->up = true;
    side->breaks = false;
}

static int set_up(void **state)
{
    (void)state;
    memset(sides, 0, sizeof sides);
    now_us = 1000;
    for (uint32_t n = 0; n < 2; n++) {
        struct side *side = &sides[n];
        struct calls_service service = {.hash = SERVICE, .tag = side};
        struct calls_config config = {.rank = n,
                                      .nodes = 2,
                                      .owners = 8,
                                      .calls = 64,
                                      .requests = 64,
                                      .shell = {.context = side,
                                                .channel = on_channel,
                                                .bytes = on_bytes,
                                                .ended = on_ended,
                                                .request = on_request,
                                                .bulks = {.context = side,
                                                          .address = on_address,
                                                          .remote = on_remote,
                                                          .read = on_read,
                                                          .release = on_release,
                                                          .moved = on_moved,
                                                          .breaks = on_breaks}}};

        side->other = &sides[1 - n];
        assert_int_equal(calls_create(&config, &side->calls), NIGH_OK);
        make_channel(side);
        calls_set_services(side->calls, &service, 1, now_us);
    }
    return 0;
}

static bool deliver(struct side *side)
{
    struct frame *frame;

    if (side->first == side->last) {
        return false;
    }
    frame = side->frames[side->first++ % MANY];
    assert_int_equal(rpc_receive(side->rpc, frame->data, frame->bytes, now_us), NIGH_OK);
    free(frame);
    return true;
}

/* As a link does: endpoints, then calls, then READs, then who is told. */
static void go_down(struct side *side)
{
    struct pending_read reads[MANY];
    uint32_t count = side->read_count;

    side->up = false;
    while (side->first != side->last) {
        free(side->frames[side->first++ % MANY]);
    }
    rpc_end(side->rpc, NIGH_PEER_LOST, now_us);
    memcpy(reads, side->reads, sizeof reads);
    side->read_count = 0;
    for (uint32_t n = 0; n < count; n++) {
        bulks_read_done(reads[n].read, NIGH_PEER_LOST, now_us);
    }
    assert_int_equal(side->read_count, 0);
    calls_channel_down(side->calls, side->rpc, (uint32_t)(side->other - sides), now_us);
    rpc_destroy(side->rpc);
    side->rpc = NULL;
}

static bool tick(struct side *side)
{
    bool any = calls_tick(side->calls, now_us);

    assert_true(calls_is_valid(side->calls));
    return any;
}

/* Everything that is on its way arrives, but READs, and time stands still. */
static void settle_frames(void)
{
    bool any;

    do {
        any = deliver(&sides[0]);
        any = deliver(&sides[1]) || any;
        any = tick(&sides[0]) || any;
        any = tick(&sides[1]) || any;
    } while (any);
}

static void settle(void)
{
    do {
        settle_frames();
        for (uint32_t n = 0; n < 2; n++) {
            if (sides[n].read_count > 0) {
                carry_out(&sides[n], 0);
            }
        }
    } while (sides[0].read_count > 0 || sides[1].read_count > 0 ||
             sides[0].first != sides[0].last || sides[1].first != sides[1].last);
    settle_frames();
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        if (sides[n].rpc != NULL) {
            go_down(&sides[n]);
        }
        calls_destroy(sides[n].calls);
        for (uint32_t i = 0; i < sides[n].memories; i++) {
            assert_true(sides[n].released[i]);
        }
    }
    return 0;
}

/* ---- steps ---------------------------------------------------------------- */

static uint32_t call(struct side *side, uint32_t rank, uint64_t bytes, uint32_t access,
                     uint64_t timeout_us)
{
    uint32_t cookie = side->calls_begun++;
    struct bulks_part part = {.memory = memory_of(side, bytes), .access = access};
    struct calls_call wanted = {.service = SERVICE,
                                .rank = rank,
                                .deadline_us =
                                    timeout_us == UINT64_MAX ? UINT64_MAX : now_us + timeout_us,
                                .caller = {.owner = OWNER, .cookie = cookie, .bytes = 8}};

    side->brought[cookie] = number_of(side, &part.memory);
    side->deadline_us[cookie] = wanted.deadline_us;
    assert_int_equal(bulks_open(calls_bulks(side->calls), &part, 1, &wanted.loan), NIGH_OK);
    calls_begin(side->calls, &wanted, now_us);
    return cookie;
}

static uint64_t last_request(const struct side *side)
{
    assert_true(side->request_count > 0);
    return side->requests[(side->request_count - 1) % MANY];
}

static nigh_status begin_move(struct side *side, uint64_t request, bool push, uint64_t offset,
                              uint64_t bytes)
{
    struct bulks_serve *serve = calls_request_bulks(side->calls, request);
    uint32_t cookie = side->moves_begun;
    struct bulks_move move = {.push = push,
                              .offset = offset,
                              .memory = memory_of(side, bytes),
                              .mover = {.owner = OWNER, .cookie = cookie}};
    nigh_status status = NIGH_NOT_FOUND;

    if (serve != NULL) {
        side->moves_memory[cookie] = number_of(side, &move.memory);
        side->moves_begun++;
        status = bulks_begin(serve, &move, now_us);
    }
    if (status != NIGH_OK) {
        side->moves_begun -= serve != NULL;
        side->memories--; /* it is nobody's again */
    }
    return status;
}

static void reply(struct side *side, uint64_t request)
{
    assert_true(calls_reply(side->calls, request, NIGH_OK, some_bytes, 8, now_us));
}

static bool is_released(const struct side *side, uint32_t cookie)
{
    return side->released[side->brought[cookie]];
}

/* ---- tests ---------------------------------------------------------------- */

static void bytes_move_both_ways(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct side *server = &sides[rank];
        const struct bulks_counts *counts;
        uint32_t cookie = call(&sides[0], rank, BYTES, BULKS_READ | BULKS_WRITE, UINT64_MAX);

        settle();
        assert_int_equal(server->last_bulks, 1);
        assert_int_equal(server->last_bytes, sizeof(struct bulks_info) + 8);
        assert_int_equal(server->last_info.bytes, BYTES);
        assert_int_equal(begin_move(server, last_request(server), false, 0, BYTES), NIGH_OK);
        assert_int_equal(begin_move(server, last_request(server), true, 5, BYTES - 5), NIGH_OK);
        assert_int_equal(begin_move(server, last_request(server), true, BYTES, 0), NIGH_OK);
        settle();
        assert_int_equal(server->moves_ended, server->moves_begun);
        for (uint32_t n = 0; n < server->moves_begun; n++) {
            assert_int_equal(server->move_status[n], NIGH_OK);
        }
        counts = bulks_counts(calls_bulks(server->calls));
        assert_int_equal(counts->moves, 3);
        assert_int_equal(counts->failed, 0);
        assert_int_equal(counts->pulled_bytes, BYTES);
        assert_int_equal(counts->pushed_bytes, BYTES - 5);
        assert_false(is_released(&sides[0], cookie));
        reply(server, last_request(server));
        settle();
        assert_int_equal(sides[0].status[cookie], NIGH_OK);
        assert_true(is_released(&sides[0], cookie));
    }
}

static void bounds_and_access_are_checked(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct side *server = &sides[rank];
        uint64_t request;

        (void)call(&sides[0], rank, 1000, BULKS_READ, UINT64_MAX);
        settle();
        request = last_request(server);
        assert_int_equal(begin_move(server, request, false, 0, 1001), NIGH_INVALID);
        assert_int_equal(begin_move(server, request, false, 1001, 0), NIGH_INVALID);
        assert_int_equal(begin_move(server, request, false, UINT64_MAX, 2), NIGH_INVALID);
        assert_int_equal(begin_move(server, request, false, 1, UINT64_MAX), NIGH_INVALID);
        assert_int_equal(begin_move(server, request, true, 0, 1), NIGH_DENIED);
        for (uint32_t n = 0; n < LIMIT_REQUEST_FLOWS; n++) {
            assert_int_equal(begin_move(server, request, false, n, 1000 - n), NIGH_OK);
        }
        if (rank == 1) { /* so little is copied at once */
            assert_int_equal(begin_move(server, request, false, 0, 1), NIGH_BUSY);
        }
        settle();
        reply(server, request);
        assert_int_equal(begin_move(server, request, false, 0, 1), NIGH_NOT_FOUND);
    }
    settle();
}

/* The answer overtakes what moves: its caller does not hear it before that is over. */
static void an_answer_waits_for_what_moves(void **state)
{
    struct side *server = &sides[1];
    uint32_t cookie = call(&sides[0], 1, BYTES, BULKS_READ | BULKS_WRITE, UINT64_MAX);

    (void)state;
    settle();
    assert_int_equal(begin_move(server, last_request(server), false, 0, BYTES), NIGH_OK);
    assert_int_equal(begin_move(server, last_request(server), true, 0, BYTES), NIGH_OK);
    settle_frames();
    assert_int_equal(server->read_count, 3);
    assert_int_equal(sides[0].read_count, 3);
    reply(server, last_request(server));
    settle_frames();
    assert_int_equal(sides[0].ended[cookie], 0);
    assert_false(is_released(&sides[0], cookie));
    settle();
    assert_int_equal(sides[0].ended[cookie], 1);
    assert_int_equal(server->moves_ended, 2);
}

static void a_deadline_ends_the_wait_alone(void **state)
{
    struct side *server = &sides[1];
    uint32_t cookie = call(&sides[0], 1, BYTES, BULKS_READ | BULKS_WRITE, 5000);

    (void)state;
    settle();
    assert_int_equal(begin_move(server, last_request(server), false, 0, BYTES), NIGH_OK);
    assert_int_equal(begin_move(server, last_request(server), true, 0, BYTES), NIGH_OK);
    settle_frames();
    now_us += 6000;
    (void)rpc_tick(sides[0].rpc, now_us);
    settle_frames();
    assert_int_equal(sides[0].status[cookie], NIGH_TIMEOUT);
    assert_false(is_released(&sides[0], cookie));
    assert_int_equal(server->moves_ended, 0);
    settle();
    assert_int_equal(server->moves_ended, 2);
    assert_true(is_released(&sides[0], cookie));
    assert_int_equal(bulks_loans(calls_bulks(sides[0].calls)), 0);
}

/* What is under way of a move is its last. */
static void what_is_given_up_goes_no_further(void **state)
{
    struct side *server = &sides[1];
    uint32_t cookie = call(&sides[0], 1, 10 * BYTES, BULKS_READ | BULKS_WRITE, UINT64_MAX);

    (void)state;
    settle();
    assert_int_equal(begin_move(server, last_request(server), false, 0, 10 * BYTES), NIGH_OK);
    assert_int_equal(begin_move(server, last_request(server), true, 0, 10 * BYTES), NIGH_OK);
    settle_frames();
    assert_int_equal(server->read_count, LIMIT_BULK_WINDOW);
    assert_int_equal(sides[0].read_count, LIMIT_BULK_WINDOW);
    carry_out(server, 0);
    assert_int_equal(server->read_count, LIMIT_BULK_WINDOW);
    assert_true(calls_cancel(sides[0].calls, OWNER, cookie, now_us));
    settle_frames();
    for (uint32_t n = LIMIT_BULK_WINDOW; n-- > 0;) {
        assert_false(is_released(&sides[0], cookie));
        carry_out(server, 0);
        carry_out(&sides[0], 0);
        assert_int_equal(server->read_count, n);
        assert_int_equal(sides[0].read_count, n);
    }
    settle();
    assert_true(is_released(&sides[0], cookie));
    assert_int_equal(server->move_status[0], NIGH_NOT_FOUND);
    assert_int_equal(server->move_status[1], NIGH_NOT_FOUND);
    assert_int_equal(bulks_counts(calls_bulks(server->calls))->moves, 2);
    assert_int_equal(bulks_counts(calls_bulks(server->calls))->failed, 2);
    assert_int_equal(bulks_counts(calls_bulks(server->calls))->pulled_bytes, 0);
    assert_int_equal(bulks_counts(calls_bulks(server->calls))->pushed_bytes, 0);
}

/* Says so much that there is room for nothing more. */
static void fill_channel(struct side *side)
{
    uint64_t hash = SERVICE;
    struct rpc_piece piece = {.data = &hash, .bytes = sizeof hash};

    while (rpc_one_way(side->rpc, CALLS_METHOD_OFFERS, &piece, 1, now_us) == NIGH_OK) {
    }
}

/* Whoever gave up need not be able to say so at once: its link stays. */
static void a_push_that_is_refused_waits_for_room(void **state)
{
    struct side *server = &sides[1];
    uint32_t cookie = call(&sides[0], 1, BYTES, BULKS_WRITE, UINT64_MAX);

    (void)state;
    settle();
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(begin_move(server, last_request(server), true, 0, BYTES), NIGH_OK);
    }
    assert_true(calls_cancel(sides[0].calls, OWNER, cookie, now_us));
    fill_channel(&sides[0]);
    for (uint32_t n = 0; n < 3; n++) {
        assert_true(deliver(&sides[0]));
    }
    assert_int_equal(sides[0].broken, 0);
    assert_true(bulks_is_valid(calls_bulks(sides[0].calls)));
    assert_true(bulks_moves(calls_bulks(sides[0].calls)) > 0);
    settle();
    now_us += 2000;
    settle();
    assert_int_equal(server->moves_ended, 3);
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(server->move_status[n], NIGH_NOT_FOUND);
    }
    assert_int_equal(bulks_moves(calls_bulks(sides[0].calls)), 0);
    assert_int_equal(sides[0].broken + server->broken, 0);
    assert_true(is_released(&sides[0], cookie));
}

static void drop(void *context, const struct rpc_header *header, const struct rpc_piece *pieces,
                 uint32_t count)
{
    (void)context;
    (void)header;
    (void)pieces;
    (void)count;
}

/* Memory that a liar may only read, and pushes into until its link is to go. */
static void push_in_vain(struct liar *liar)
{
    struct rpc_config rpc = {.requests = 8,
                             .calls = 8,
                             .payload_bytes = CALLS_PAYLOAD,
                             .shell = {.context = &sides[0],
                                       .send = drop,
                                       .request = on_rpc_request,
                                       .canceled = on_rpc_canceled}};
    struct bulks *bulks = calls_bulks(sides[0].calls);
    struct bulks_part part = {.memory = memory_of(&sides[0], BYTES), .access = BULKS_READ};
    struct bulks_push push = {.bytes = 1};
    struct rpc_request message = {.method = BULKS_METHOD_PUSH, .bytes = sizeof push};
    struct bulks_loan *loan;
    uint8_t head[BULKS_HEAD];

    assert_int_equal(rpc_create(&rpc, &liar->rpc), NIGH_OK);
    assert_int_equal(bulks_open(bulks, &part, 1, &loan), NIGH_OK);
    (void)bulks_lend(loan, liar->rpc, head);
    memcpy(&push.loan, head, sizeof push.loan);
    message.payload = (const uint8_t *)&push;
    for (; liar->broken == 0; push.move++) {
        bulks_take(bulks, liar->rpc, &message, now_us);
        assert_true(push.move < 2 * LIMIT_BULK_LANDINGS);
    }
    assert_true(bulks_is_valid(bulks));
    bulks_close(loan, now_us);
}

static void end_liar(struct liar *liar)
{
    rpc_end(liar->rpc, NIGH_PEER_LOST, now_us);
    bulks_channel_down(calls_bulks(sides[0].calls), liar->rpc, now_us);
    rpc_destroy(liar->rpc);
    *liar = (struct liar){0};
}

/* Whoever takes no answers has places while it has fewer than are left to the others. */
static void who_takes_no_answers_leaves_places_to_others(void **state)
{
    struct bulks *bulks = calls_bulks(sides[0].calls);
    struct side *server = &sides[1];
    uint32_t left = LIMIT_BULK_LANDINGS;

    (void)state;
    (void)call(&sides[0], 1, BYTES, BULKS_WRITE, UINT64_MAX);
    settle();
    for (uint32_t n = 0; n < sizeof liars / sizeof *liars; n++) {
        push_in_vain(&liars[n]);
        left -= left / 2;
        assert_int_equal(bulks_moves(bulks), LIMIT_BULK_LANDINGS - left);
        for (uint32_t i = 0; i < LIMIT_REQUEST_FLOWS; i++) {
            assert_int_equal(begin_move(server, last_request(server), true, i, 1), NIGH_OK);
        }
        settle();
    }
    assert_int_equal(server->moves_ended, server->moves_begun);
    for (uint32_t n = 0; n < server->moves_begun; n++) {
        assert_int_equal(server->move_status[n], NIGH_OK);
    }
    for (uint32_t n = 0; n < sizeof liars / sizeof *liars; n++) {
        end_liar(&liars[n]);
    }
    assert_int_equal(bulks_moves(bulks), 0);
    assert_true(bulks_is_valid(bulks));
    assert_int_equal(sides[0].broken + server->broken, 0);
    reply(server, last_request(server));
    settle();
}

static void an_answer_is_held_to_the_deadline(void **state)
{
    struct side *server = &sides[1];
    uint32_t cookie = call(&sides[0], 1, BYTES, BULKS_READ, 5000);

    (void)state;
    settle();
    assert_int_equal(begin_move(server, last_request(server), false, 0, BYTES), NIGH_OK);
    reply(server, last_request(server));
    settle_frames();
    now_us += 6000;
    /* What it was answered is told; what is lent still is nobody's to reuse. */
    settle_frames();
    assert_false(is_released(&sides[0], cookie));
    assert_int_equal(sides[0].ended[cookie], 1);
    assert_int_equal(sides[0].status[cookie], NIGH_OK);
    settle();
    assert_true(is_released(&sides[0], cookie));
}

static void a_cancel_ends_what_moves(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct side *server = &sides[rank];
        uint32_t cookie = call(&sides[0], rank, BYTES, BULKS_READ, UINT64_MAX);
        uint32_t moves = server->moves_begun;

        settle();
        assert_int_equal(begin_move(server, last_request(server), false, 0, BYTES), NIGH_OK);
        assert_true(calls_cancel(sides[0].calls, OWNER, cookie, now_us));
        assert_int_equal(sides[0].status[cookie], NIGH_CANCELED);
        settle();
        assert_int_equal(server->moved[moves], 1);
        assert_true(is_released(&sides[0], cookie));
        /* And of a move. */
        cookie = call(&sides[0], rank, BYTES, BULKS_READ, UINT64_MAX);
        settle();
        moves = server->moves_begun;
        assert_int_equal(begin_move(server, last_request(server), false, 0, BYTES), NIGH_OK);
        assert_true(bulks_cancel(calls_bulks(server->calls), OWNER, moves, now_us));
        settle();
        assert_int_equal(server->moved[moves], 1);
        assert_false(bulks_cancel(calls_bulks(server->calls), OWNER, moves, now_us));
        reply(server, last_request(server));
        settle();
        assert_int_equal(sides[0].status[cookie], NIGH_OK);
    }
}

static void a_channel_that_ends_ends_loans(void **state)
{
    struct side *server = &sides[1];
    uint32_t cookie = call(&sides[0], 1, BYTES, BULKS_READ | BULKS_WRITE, UINT64_MAX);
    uint32_t late = call(&sides[0], 1, BYTES, BULKS_READ, 1000);

    (void)state;
    settle();
    assert_int_equal(begin_move(server, server->requests[0], false, 0, BYTES), NIGH_OK);
    assert_int_equal(begin_move(server, server->requests[0], true, 0, BYTES), NIGH_OK);
    assert_int_equal(begin_move(server, server->requests[1], false, 0, BYTES), NIGH_OK);
    now_us += 2000;
    (void)rpc_tick(sides[0].rpc, now_us);
    settle_frames();
    assert_int_equal(sides[0].status[late], NIGH_TIMEOUT);
    assert_false(is_released(&sides[0], late));
    go_down(&sides[0]);
    assert_int_equal(sides[0].status[cookie], NIGH_PEER_LOST);
    assert_true(is_released(&sides[0], late));
    go_down(&sides[1]);
    assert_int_equal(server->moves_ended, 3);
    assert_int_equal(server->move_status[0], NIGH_PEER_LOST);
}

static void nobody_is_waited_for_without_end(void **state)
{
    struct side *server = &sides[1];
    uint32_t cookie = call(&sides[0], 1, BYTES, BULKS_READ, 1000);

    (void)state;
    settle();
    assert_int_equal(begin_move(server, last_request(server), false, 0, BYTES), NIGH_OK);
    now_us += 2000;
    (void)rpc_tick(sides[0].rpc, now_us);
    settle_frames();
    for (uint32_t n = 0; n < 9; n++) {
        now_us += 1000000;
        settle_frames();
        assert_false(sides[0].breaks || server->breaks);
    }
    now_us += 2000000;
    settle_frames();
    /* Nothing is released by time: the link goes, and that ends it. */
    assert_true(sides[0].breaks && server->breaks);
    assert_false(is_released(&sides[0], cookie));
    go_down(&sides[0]);
    assert_true(is_released(&sides[0], cookie));
}

/* ---- who lies ------------------------------------------------------------- */

static void say(struct side *side, uint16_t method, const void *bytes, uint32_t count)
{
    struct rpc_piece piece = {.data = bytes, .bytes = count};

    assert_int_equal(rpc_one_way(side->rpc, method, &piece, 1, now_us), NIGH_OK);
    settle();
}

/* The number of the loan that the only call of side 0 has. */
static uint64_t loan_of(struct side *server)
{
    struct bulks_push push;
    const struct frame *frame;

    assert_int_equal(begin_move(server, last_request(server), true, 0, 1), NIGH_OK);
    frame = sides[0].frames[(sides[0].last - 1) % MANY];
    memcpy(&push, frame->data + sizeof(struct rpc_header), sizeof push);
    settle();
    return push.loan;
}

static void a_server_that_lies_gets_nothing(void **state)
{
    static const struct {
        uint32_t part;
        uint64_t offset, bytes;
    } wrong[] = {{1, 0, 1},          {0, 0, BYTES + 1}, {0, BYTES, 1},      {0, UINT64_MAX, 2},
                 {0, 1, UINT64_MAX}, {0, 0, 0},         {UINT32_MAX, 0, 1}, {0, BYTES - 1, 2}};
    struct side *server = &sides[1];
    uint32_t cookie = call(&sides[0], 1, BYTES, BULKS_WRITE, UINT64_MAX);
    uint32_t broken = 0;
    uint64_t loan;

    (void)state;
    settle();
    loan = loan_of(server);
    for (uint32_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        struct bulks_push push = {.loan = loan,
                                  .move = 12345,
                                  .part = wrong[n].part,
                                  .offset = wrong[n].offset,
                                  .bytes = wrong[n].bytes};

        say(server, BULKS_METHOD_PUSH, &push, sizeof push);
        assert_int_equal(sides[0].read_count, 0);
        assert_int_equal(sides[0].broken, 0);
        /* And he who is told of what he did not ask breaks off. */
        assert_int_equal(server->broken, ++broken);
    }
    say(server, BULKS_METHOD_PUSH, &(struct bulks_push){.loan = loan + 1, .bytes = 1},
        sizeof(struct bulks_push));
    assert_int_equal(sides[0].broken, 1);
    say(server, BULKS_METHOD_PUSH, &loan, sizeof loan);
    assert_int_equal(sides[0].broken, 2);
    say(server, BULKS_METHOD_OVER, &loan, 7);
    assert_int_equal(sides[0].broken, 3);
    /* Whoever says that it is over pushes no more. */
    say(server, BULKS_METHOD_OVER, &loan, sizeof loan);
    say(server, BULKS_METHOD_PUSH, &(struct bulks_push){.loan = loan, .bytes = 1},
        sizeof(struct bulks_push));
    assert_int_equal(sides[0].broken, 4);
    assert_int_equal(sides[0].read_count, 0);
    reply(server, last_request(server));
    settle();
    assert_int_equal(sides[0].status[cookie], NIGH_OK);
}

/* It may say that it has done: what lands here is this node's own to wait for. */
static void what_lands_is_waited_for_whatever_is_said(void **state)
{
    struct side *server = &sides[1];
    uint32_t cookie = call(&sides[0], 1, BYTES, BULKS_WRITE, UINT64_MAX);
    uint64_t loan;
    struct rpc_piece piece = {.data = &loan, .bytes = sizeof loan};

    (void)state;
    settle();
    loan = loan_of(server);
    assert_int_equal(begin_move(server, last_request(server), true, 0, BYTES), NIGH_OK);
    assert_int_equal(begin_move(server, last_request(server), true, 0, BYTES), NIGH_OK);
    settle_frames();
    assert_int_equal(sides[0].read_count, 6);
    assert_int_equal(rpc_one_way(server->rpc, BULKS_METHOD_OVER, &piece, 1, now_us), NIGH_OK);
    reply(server, last_request(server));
    settle_frames();
    assert_int_equal(sides[0].ended[cookie], 0);
    sides[0].cancelled[cookie] = true;
    assert_true(calls_cancel(sides[0].calls, OWNER, cookie, now_us));
    for (uint32_t n = 3; n-- > 0;) {
        carry_out(&sides[0], n); /* the first of both */
    }
    assert_false(is_released(&sides[0], cookie));
    settle();
    assert_true(is_released(&sides[0], cookie));
}

/* Nothing is under way of what it wants here, so all of that ends at once, and its call with it. */
static void what_is_over_before_it_was_read_ends_once(void **state)
{
    struct side *server = &sides[1];
    uint32_t cookie = call(&sides[0], 1, BYTES, BULKS_WRITE, UINT64_MAX);
    uint64_t loan;
    struct rpc_piece piece = {.data = &loan, .bytes = sizeof loan};

    (void)state;
    settle();
    loan = loan_of(server);
    sides[0].no_reads = true;
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(begin_move(server, last_request(server), true, 0, BYTES), NIGH_OK);
    }
    reply(server, last_request(server));
    settle_frames();
    assert_int_equal(sides[0].ended[cookie], 0);
    assert_int_equal(rpc_one_way(server->rpc, BULKS_METHOD_OVER, &piece, 1, now_us), NIGH_OK);
    settle_frames();
    assert_int_equal(sides[0].ended[cookie], 1);
    assert_true(is_released(&sides[0], cookie));
    assert_int_equal(server->moves_ended, server->moves_begun);
    assert_int_equal(bulks_loans(calls_bulks(sides[0].calls)), 0);
    sides[0].no_reads = false;
}

static void what_may_only_be_read_is_not_pushed_into(void **state)
{
    struct side *server = &sides[1];
    uint64_t loan;

    (void)state;
    (void)call(&sides[0], 1, BYTES, BULKS_WRITE, UINT64_MAX);
    settle();
    loan = loan_of(server);
    (void)call(&sides[0], 1, BYTES, BULKS_READ, UINT64_MAX);
    settle();
    /* The next number, in the next place. */
    loan += (UINT64_C(1) << 16) + 1;
    say(server, BULKS_METHOD_PUSH, &(struct bulks_push){.loan = loan, .bytes = 1},
        sizeof(struct bulks_push));
    assert_int_equal(sides[0].broken, 0);
    assert_int_equal(sides[0].reads[0].read == NULL ? 0 : sides[0].read_count, 0);
}

static void requests_that_are_nonsense_are_refused(void **state)
{
    struct calls_wire wire = {.service = SERVICE, .bulks = 1};
    uint8_t bytes[CALLS_PAYLOAD] = {0};

    (void)state;
    for (uint32_t n = 0; n < 600; n++) {
        struct rpc_request request = {.method = CALLS_METHOD, .payload = bytes, .deadline_us = 1};

        wire.bulks = n % 3 == 0 ? 1 : n % 3 == 1 ? LIMIT_CALL_BULKS + 1 : UINT32_MAX;
        memcpy(bytes, &wire, sizeof wire);
        request.bytes = wire.bulks == 1 ? sizeof wire + n % 40 : n + 16;
        calls_take(sides[1].calls, sides[1].rpc, 0, &request, now_us);
    }
    assert_int_equal(sides[1].request_count, 0);
}

/* ---- random lives --------------------------------------------------------- */

static void random_call(struct random *random)
{
    struct side *side = &sides[random_below(random, 2)];

    if (calls_under_way(side->calls) < 10 && side->calls_begun < MANY) {
        (void)call(side, (uint32_t)random_below(random, 2), random_below(random, BYTES),
                   1 + (uint32_t)random_below(random, 3),
                   random_below(random, 2) == 0 ? UINT64_MAX : random_below(random, 20000));
    }
}

static void random_service(struct random *random)
{
    struct side *side = &sides[random_below(random, 2)];
    uint64_t request;

    if (side->request_count == 0) {
        return;
    }
    request =
        side->requests[(side->request_count - 1 -
                        random_below(random, side->request_count < 12 ? side->request_count : 12)) %
                       MANY];
    if (random_below(random, 4) == 0) {
        (void)calls_reply(side->calls, request, NIGH_OK, some_bytes, 8, now_us);
    } else if (side->moves_begun < MANY && side->memories < MEMORIES - 1) {
        (void)begin_move(side, request, random_below(random, 2) == 0, random_below(random, 1000),
                         random_below(random, BYTES));
    }
}

static void random_end(struct random *random)
{
    struct side *side = &sides[random_below(random, 2)];
    uint32_t cookie = (uint32_t)random_below(random, side->calls_begun + 1);
    struct calls_service service = {.hash = SERVICE, .tag = side};

    switch (random_below(random, 5)) {
    case 0:
    case 1:
        side->cancelled[cookie] = true;
        (void)calls_cancel(side->calls, OWNER, cookie, now_us);
        break;
    case 2:
        (void)bulks_cancel(calls_bulks(side->calls), OWNER,
                           (uint32_t)random_below(random, side->moves_begun + 1), now_us);
        break;
    case 3:
        calls_set_services(side->calls, &service, 0, now_us);
        calls_set_services(side->calls, &service, 1, now_us);
        break;
    default:
        if (random_below(random, 8) == 0) {
            side->breaks = true;
        }
    }
}

/* Links of which one end is gone lose the other some time, and come up again. */
static void random_links(struct random *random)
{
    for (uint32_t n = 0; n < 2; n++) {
        struct side *side = &sides[n];

        if (side->up && side->breaks) {
            go_down(side);
            side->other->breaks = side->other->up;
        }
        if (random_below(random, 4) != 0) {
            break;
        }
    }
    if (!sides[0].up && !sides[1].up) {
        make_channel(&sides[0]);
        make_channel(&sides[1]);
    }
}

static void random_progress(struct random *random)
{
    struct side *side = &sides[random_below(random, 2)];

    side->no_reads = random_below(random, 16) == 0;
    if (side->up) {
        (void)deliver(side);
    }
    if (side->read_count > 0 && random_below(random, 2) == 0) {
        carry_out(side, (uint32_t)random_below(random, side->read_count));
    }
    now_us += random_below(random, 300);
    if (side->rpc != NULL) {
        (void)rpc_tick(side->rpc, now_us);
    }
    (void)tick(side);
}

static void come_to_rest(void)
{
    now_us += 100000;
    for (uint32_t n = 0; n < 2; n++) {
        sides[n].no_reads = false;
        if (sides[n].up) {
            go_down(&sides[n]);
        }
        while (tick(&sides[n])) {
        }
        memset(sides[n].cancelled, true, sizeof sides[n].cancelled);
        calls_forget(sides[n].calls, OWNER, now_us);
        assert_int_equal(sides[n].calls_ended, sides[n].calls_begun);
        calls_set_services(sides[n].calls, &(struct calls_service){0}, 0, now_us);
        assert_int_equal(sides[n].moves_ended, sides[n].moves_begun);
        assert_int_equal(bulks_loans(calls_bulks(sides[n].calls)), 0);
        assert_int_equal(bulks_moves(calls_bulks(sides[n].calls)), 0);
    }
}

static void random_lives(void **state)
{
    uint64_t end_us = support_now_us() + support_budget_ms(0) * 1000;
    struct random random;
    uint32_t life = 0;

    random_init(&random, support_seed());
    for (; life < 150 || support_now_us() < end_us; life++) {
        assert_int_equal(set_up(state), 0);
        for (uint32_t n = 0; n < 2500; n++) {
            switch (random_below(&random, 12)) {
            case 0: random_call(&random); break;
            case 1:
            case 2: random_service(&random); break;
            case 3:
                if (random_below(&random, 6) == 0) {
                    random_end(&random);
                }
                break;
            case 4: random_links(&random); break;
            default: random_progress(&random);
            }
        }
        come_to_rest();
        assert_int_equal(tear_down(state), 0);
    }
    printf("# %u lives\n", life);
}

#define part(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        part(bytes_move_both_ways),
        part(bounds_and_access_are_checked),
        part(an_answer_waits_for_what_moves),
        part(a_deadline_ends_the_wait_alone),
        part(what_is_given_up_goes_no_further),
        part(a_push_that_is_refused_waits_for_room),
        part(who_takes_no_answers_leaves_places_to_others),
        part(an_answer_is_held_to_the_deadline),
        part(a_cancel_ends_what_moves),
        part(a_channel_that_ends_ends_loans),
        part(nobody_is_waited_for_without_end),
        part(a_server_that_lies_gets_nothing),
        part(what_lands_is_waited_for_whatever_is_said),
        part(what_is_over_before_it_was_read_ends_once),
        part(what_may_only_be_read_is_not_pushed_into),
        part(requests_that_are_nonsense_are_refused),
        cmocka_unit_test(random_lives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
