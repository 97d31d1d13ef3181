/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel keeps what docs/rpc.md promises: how calls end, what waits and in which order, what
 * credits count, what a peer may not send. Two channels are joined by a pipe each way; the last
 * test drives such pairs at random, with ends at any moment. All orders of a small pair are in
 * tests/model/rpc_explore.c.
 */
#include "support/support.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "rpc/rpc_internal.h"

#define PIPE       64
#define PAYLOAD    64
#define NEVER      UINT64_MAX
#define LOG        64
#define EPOCH      7
#define PENDING    NIGH_PENDING
#define RANDOM_MIN 400000 /* steps, however short the budget */

struct frame {
    struct rpc_header header;
    uint8_t payload[PAYLOAD];
};

/* How a call ended. */
struct call {
    nigh_status status; /* PENDING: it has not */
    uint32_t times;
    uint64_t number;
    uint32_t bytes;
    uint8_t payload[PAYLOAD];
    uint64_t now_us;
};

/* One side: a channel, what it was sent, what its handler saw. */
struct end {
    struct end *peer;
    struct rpc *rpc;
    struct rpc_config config;
    struct frame pipe[PIPE]; /* towards it */
    uint32_t frames;
    bool echo; /* the handler answers at once, with the payload */
    struct rpc_request seen[LOG];
    uint8_t seen_payload[LOG][PAYLOAD];
    uint32_t seen_count;
    uint64_t canceled[LOG];
    uint32_t canceled_count;
};

struct pair {
    struct end a, b;
};

/* ---- a pair */

static void end_send(void *context, const struct rpc_header *header, const struct rpc_piece *pieces,
                     uint32_t count)
{
    struct end *self = context, *to = self->peer;
    struct frame *frame = &to->pipe[to->frames];
    uint32_t bytes = 0;

    /* The receive in hand is not there. */
    assert_true(to->frames < rpc_receives(&to->config) - RPC_IN_HAND);
    assert_true(to->frames < rpc_max_sends(&self->config));
    assert_true(to->frames++ < PIPE);
    frame->header = *header;
    for (uint32_t i = 0; i < count; i++) {
        if (pieces[i].bytes > 0) {
            memcpy(frame->payload + bytes, pieces[i].data, pieces[i].bytes);
        }
        bytes += pieces[i].bytes;
    }
    assert_int_equal(bytes, le32toh(header->bytes));
}

static void reply_bytes(struct end *end, uint64_t call, nigh_status status, const void *data,
                        uint32_t bytes)
{
    struct rpc_piece piece = {.data = data, .bytes = bytes};

    rpc_reply(end->rpc, call, status, &piece, 1);
}

static void end_request(void *context, const struct rpc_request *request, uint64_t now_us)
{
    struct end *self = context;

    (void)now_us;
    if (self->seen_count < LOG) {
        self->seen[self->seen_count] = *request;
        memcpy(self->seen_payload[self->seen_count++], request->payload, request->bytes);
    }
    if (self->echo && request->call != 0) {
        reply_bytes(self, request->call, NIGH_OK, request->payload, request->bytes);
    }
}

static void end_canceled(void *context, uint64_t call)
{
    struct end *self = context;

    if (self->canceled_count < LOG) {
        self->canceled[self->canceled_count++] = call;
    }
}

static void end_init(struct end *end, struct end *peer, uint32_t requests, uint32_t calls,
                     uint32_t queue)
{
    *end = (struct end){
        .peer = peer,
        .config =
            {
                .requests = requests,
                .calls = calls,
                .queue = queue,
                .payload_bytes = PAYLOAD,
                .epoch = EPOCH,
                .shell = {end, end_send, end_request, end_canceled},
            },
    };
    assert_int_equal(rpc_create(&end->config, &end->rpc), NIGH_OK);
}

static void pair_init(struct pair *pair, uint32_t requests, uint32_t calls, uint32_t queue)
{
    end_init(&pair->a, &pair->b, requests, calls, queue);
    end_init(&pair->b, &pair->a, requests, calls, queue);
}

static void pair_fini(struct pair *pair)
{
    assert_true(rpc_is_valid(pair->a.rpc));
    assert_true(rpc_is_valid(pair->b.rpc));
    rpc_end(pair->a.rpc, NIGH_PEER_LOST, 0);
    rpc_end(pair->b.rpc, NIGH_PEER_LOST, 0);
    rpc_destroy(pair->a.rpc);
    rpc_destroy(pair->b.rpc);
}

static nigh_status end_feed(struct end *end, const struct frame *frame, uint64_t now_us)
{
    uint8_t bytes[sizeof(*frame)];

    memcpy(bytes, frame, sizeof(bytes));
    return rpc_receive(end->rpc, bytes,
                       (uint32_t)sizeof(frame->header) + le32toh(frame->header.bytes), now_us);
}

/* Takes the first frame of the pipe. */
static struct frame end_take(struct end *end)
{
    struct frame frame = end->pipe[0];

    assert_true(end->frames > 0);
    end->frames--;
    memmove(end->pipe, end->pipe + 1, end->frames * sizeof(frame));
    return frame;
}

static void deliver(struct end *end, uint64_t now_us)
{
    struct frame frame = end_take(end);

    assert_int_equal(end_feed(end, &frame, now_us), NIGH_OK);
}

static void deliver_all(struct pair *pair, uint64_t now_us)
{
    while (pair->a.frames + pair->b.frames > 0) {
        deliver(pair->a.frames > 0 ? &pair->a : &pair->b, now_us);
    }
}

static void call_done(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                      uint64_t now_us)
{
    struct call *call = context;

    call->status = status;
    call->times++;
    call->bytes = bytes;
    call->now_us = now_us;
    if (bytes > 0) {
        memcpy(call->payload, payload, bytes);
    }
}

static nigh_status start(struct end *end, struct call *call, const char *text, uint64_t deadline_us,
                         uint64_t now_us)
{
    struct rpc_piece piece = {.data = text, .bytes = (uint32_t)strlen(text)};

    *call = (struct call){.status = PENDING};
    return rpc_call(end->rpc, 5, &piece, 1, deadline_us, now_us, call_done, call, &call->number);
}

static void must_start(struct end *end, struct call *call, const char *text)
{
    assert_int_equal(start(end, call, text, NEVER, 0), NIGH_OK);
}

static nigh_status say(struct end *end, const char *text)
{
    struct rpc_piece piece = {.data = text, .bytes = (uint32_t)strlen(text)};

    return rpc_one_way(end->rpc, 6, &piece, 1, 0);
}

static uint8_t head_kind(const struct end *end)
{
    assert_true(end->frames > 0);
    return end->pipe[0].header.kind;
}

/* ---- a call and its reply */

static void bounds_of_a_configuration(void **state)
{
    struct pair pair;
    struct rpc *rpc = NULL;
    struct rpc_config good, bad;

    (void)state;
    pair_init(&pair, 1, 1, 0);
    good = pair.a.config;
    pair_fini(&pair);
#define REFUSED(field, value) \
    bad = good;               \
    bad.field = (value);      \
    assert_int_equal(rpc_create(&bad, &rpc), NIGH_INVALID)
    REFUSED(requests, 0);
    REFUSED(requests, LIMIT_RPC_REQUESTS + 1);
    REFUSED(calls, 0);
    REFUSED(calls, LIMIT_RPC_CALLS + 1);
    REFUSED(queue, LIMIT_RPC_QUEUE + 1);
    REFUSED(payload_bytes, 0);
    REFUSED(payload_bytes, LIMIT_RPC_PAYLOAD + 1);
    REFUSED(shell.send, NULL);
    REFUSED(shell.request, NULL);
    assert_null(rpc);
    good.requests = LIMIT_RPC_REQUESTS;
    good.calls = LIMIT_RPC_CALLS;
    good.queue = LIMIT_RPC_QUEUE;
    assert_int_equal(rpc_create(&good, &rpc), NIGH_OK);
    assert_true(rpc_is_valid(rpc));
    assert_int_equal(rpc_receives(&good), LIMIT_RPC_REQUESTS + LIMIT_RPC_CALLS + 2);
    assert_int_equal(rpc_max_sends(&good), LIMIT_RPC_REQUESTS + LIMIT_RPC_CALLS + 1);
    rpc_destroy(rpc);
    rpc_destroy(NULL);
}

static void a_call_gets_its_reply(void **state)
{
    const struct rpc_piece pieces[] = {{"ab", 2}, {NULL, 0}, {"cde", 3}, {"f", 1}};
    struct pair pair;
    struct call call = {.status = PENDING};

    (void)state;
    pair_init(&pair, 2, 2, 1);
    assert_int_equal(rpc_call(pair.a.rpc, 9, pieces, 4, NEVER, 1, call_done, &call, NULL), NIGH_OK);
    assert_int_equal(call.times, 0);
    assert_int_equal(rpc_pending(pair.a.rpc), 1);
    deliver(&pair.b, 2);
    assert_int_equal(pair.b.seen_count, 1);
    assert_int_equal(pair.b.seen[0].method, 9);
    assert_int_equal(pair.b.seen[0].bytes, 6);
    assert_true(pair.b.seen[0].deadline_us == NEVER);
    assert_memory_equal(pair.b.seen_payload[0], "abcdef", 6);
    reply_bytes(&pair.b, pair.b.seen[0].call, NIGH_NOT_FOUND, "where?", 6);
    assert_int_equal(call.times, 0);
    deliver(&pair.a, 3);
    assert_int_equal(call.times, 1);
    assert_int_equal(call.status, NIGH_NOT_FOUND);
    assert_int_equal(call.bytes, 6);
    assert_memory_equal(call.payload, "where?", 6);
    assert_true(call.now_us == 3);
    assert_int_equal(rpc_pending(pair.a.rpc), 0);
    pair_fini(&pair);
}

static void replies_find_their_calls_in_any_order(void **state)
{
    struct pair pair;
    struct call calls[3];

    (void)state;
    pair_init(&pair, 3, 3, 0);
    must_start(&pair.a, &calls[0], "x");
    must_start(&pair.a, &calls[1], "y");
    must_start(&pair.a, &calls[2], "z");
    deliver_all(&pair, 0);
    for (uint32_t i = 3; i-- > 0;) {
        reply_bytes(&pair.b, pair.b.seen[i].call, NIGH_OK, pair.b.seen_payload[i], 1);
    }
    deliver_all(&pair, 0);
    assert_memory_equal(calls[0].payload, "x", 1);
    assert_memory_equal(calls[1].payload, "y", 1);
    assert_memory_equal(calls[2].payload, "z", 1);
    pair_fini(&pair);
}

static void what_is_too_long_is_refused(void **state)
{
    static const uint8_t long_bytes[PAYLOAD + 1];
    const struct rpc_piece longer[] = {{long_bytes, PAYLOAD}, {long_bytes, 1}};
    const struct rpc_piece many[RPC_PIECES + 1] = {{NULL, 0}};
    const struct rpc_piece huge[] = {{long_bytes, UINT32_MAX}, {long_bytes, UINT32_MAX}};
    struct pair pair;
    struct call call = {.status = PENDING};

    (void)state;
    pair_init(&pair, 2, 2, 1);
    assert_int_equal(rpc_call(pair.a.rpc, 1, longer, 2, NEVER, 0, call_done, &call, NULL),
                     NIGH_INVALID);
    assert_int_equal(
        rpc_call(pair.a.rpc, 1, many, RPC_PIECES + 1, NEVER, 0, call_done, &call, NULL),
        NIGH_INVALID);
    assert_int_equal(rpc_one_way(pair.a.rpc, 1, huge, 2, 0), NIGH_INVALID);
    assert_int_equal(pair.b.frames, 0);
    assert_int_equal(rpc_one_way(pair.a.rpc, 1, longer, 1, 0), NIGH_OK);
    pair_fini(&pair);
    assert_int_equal(call.times, 0);
}

/* ---- deadlines */

static void a_deadline_ends_a_call_and_not_before(void **state)
{
    struct pair pair;
    struct call call;

    (void)state;
    pair_init(&pair, 2, 2, 1);
    assert_int_equal(start(&pair.a, &call, "x", 5000, 1000), NIGH_OK);
    assert_true(rpc_due_us(pair.a.rpc) == 5000);
    assert_true(rpc_tick(pair.a.rpc, 4999) == 5000);
    assert_int_equal(call.times, 0);
    assert_true(rpc_tick(pair.a.rpc, 5000) == NEVER);
    assert_int_equal(call.status, NIGH_TIMEOUT);
    assert_int_equal(rpc_counters(pair.a.rpc)->timeouts, 1);
    pair_fini(&pair);
    assert_int_equal(call.times, 1);
}

static void the_server_learns_what_is_left_rounded_up(void **state)
{
    static const struct {
        uint64_t deadline_us;
        uint32_t left_ms;
    } cases[] = {
        {1001, 1},
        {2000, 1},
        {2001, 2},
        {NEVER, UINT32_MAX},
        {NEVER - 1, UINT32_MAX - 1},
        {1000 + UINT64_C(1000) * UINT32_MAX, UINT32_MAX - 1},
    };
    struct pair pair;
    struct call call;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        pair_init(&pair, 2, 2, 1);
        assert_int_equal(start(&pair.a, &call, "x", cases[i].deadline_us, 1000), NIGH_OK);
        assert_int_equal(le32toh(pair.b.pipe[0].header.left_ms), cases[i].left_ms);
        deliver(&pair.b, 70);
        if (cases[i].deadline_us == NEVER) {
            assert_true(pair.b.seen[0].deadline_us == NEVER);
        } else {
            assert_true(pair.b.seen[0].deadline_us == 70 + UINT64_C(1000) * cases[i].left_ms);
        }
        pair_fini(&pair);
    }
}

static void a_call_whose_deadline_has_passed_is_never_sent(void **state)
{
    struct pair pair;
    struct call call;

    (void)state;
    pair_init(&pair, 2, 2, 1);
    assert_int_equal(start(&pair.a, &call, "x", 1000, 1000), NIGH_OK);
    assert_int_equal(call.times, 0);
    assert_int_equal(pair.b.frames, 0);
    rpc_tick(pair.a.rpc, 1000);
    assert_int_equal(call.status, NIGH_TIMEOUT);
    assert_int_equal(pair.b.frames, 0); /* and no CANCEL either */
    pair_fini(&pair);
}

static void a_call_that_timed_out_keeps_its_place_until_the_reply(void **state)
{
    struct pair pair;
    struct call first, second;

    (void)state;
    pair_init(&pair, 2, 1, 1);
    assert_int_equal(start(&pair.a, &first, "x", 10, 0), NIGH_OK);
    deliver(&pair.b, 0);
    reply_bytes(&pair.b, pair.b.seen[0].call, NIGH_OK, "late", 4);
    rpc_tick(pair.a.rpc, 10);
    assert_int_equal(first.status, NIGH_TIMEOUT);
    assert_int_equal(rpc_pending(pair.a.rpc), 0);
    assert_int_equal(start(&pair.a, &second, "y", NEVER, 10), NIGH_BUSY);
    deliver(&pair.a, 20);
    assert_int_equal(first.times, 1);
    assert_int_equal(rpc_counters(pair.a.rpc)->late_replies, 1);
    must_start(&pair.a, &second, "y");
    pair.b.echo = true;
    deliver_all(&pair, 20); /* with the CANCEL that crossed the reply */
    assert_int_equal(second.status, NIGH_OK);
    assert_int_equal(pair.b.canceled_count, 0);
    pair_fini(&pair);
}

/* However long the handler takes, the caller has its place back after a round trip. */
static void a_timeout_is_answered_by_the_channel(void **state)
{
    struct pair pair;
    struct call first, second;

    (void)state;
    pair_init(&pair, 2, 1, 1);
    assert_int_equal(start(&pair.a, &first, "x", 10, 0), NIGH_OK);
    deliver(&pair.b, 0);
    rpc_tick(pair.a.rpc, 10);
    deliver_all(&pair, 10);
    assert_int_equal(pair.b.canceled_count, 1);
    assert_int_equal(pair.b.canceled[0], first.number);
    must_start(&pair.a, &second, "y");
    deliver_all(&pair, 10);
    reply_bytes(&pair.b, pair.b.seen[0].call, NIGH_OK, "old", 3); /* goes nowhere */
    assert_int_equal(pair.a.frames, 0);
    reply_bytes(&pair.b, pair.b.seen[1].call, NIGH_OK, "new", 3);
    deliver_all(&pair, 10);
    assert_int_equal(first.times, 1);
    assert_memory_equal(second.payload, "new", 3);
    pair_fini(&pair);
}

static void a_tick_does_a_bounded_number(void **state)
{
    enum {
        CALLS = LIMIT_TURN_TIMERS + 10
    };
    static struct call calls[CALLS];
    struct end end = {0};

    (void)state;
    end_init(&end, NULL, 1, CALLS, 1);
    for (uint32_t i = 0; i < CALLS; i++) {
        assert_int_equal(start(&end, &calls[i], "x", 5, 5), NIGH_OK);
    }
    assert_true(rpc_tick(end.rpc, 5) == 5);
    assert_int_equal(rpc_pending(end.rpc), 10);
    assert_true(rpc_tick(end.rpc, 5) == NEVER);
    assert_int_equal(rpc_pending(end.rpc), 0);
    rpc_destroy(end.rpc);
}

/* ---- cancel */

static void a_cancelled_call_ends_before_the_return(void **state)
{
    struct pair pair;
    struct call call;

    (void)state;
    pair_init(&pair, 2, 1, 1);
    must_start(&pair.a, &call, "x");
    assert_true(rpc_cancel(pair.a.rpc, call.number, 0));
    assert_int_equal(call.status, NIGH_CANCELED);
    assert_false(rpc_cancel(pair.a.rpc, call.number, 0));
    deliver_all(&pair, 0);
    assert_int_equal(pair.b.canceled_count, 1);
    assert_false(rpc_cancel(pair.a.rpc, call.number, 0));
    assert_false(rpc_cancel(pair.a.rpc, 0, 0));
    assert_false(rpc_cancel(pair.a.rpc, UINT32_MAX, 0));
    assert_int_equal(call.times, 1);
    pair_fini(&pair);
}

static void a_cancelled_call_that_waits_is_never_sent(void **state)
{
    struct pair pair;
    struct call first, second, third;

    (void)state;
    pair_init(&pair, 1, 3, 2);
    must_start(&pair.a, &first, "1");
    must_start(&pair.a, &second, "2");
    must_start(&pair.a, &third, "3");
    assert_true(rpc_cancel(pair.a.rpc, second.number, 0));
    pair.b.echo = true;
    deliver_all(&pair, 0);
    assert_int_equal(pair.b.seen_count, 2);
    assert_memory_equal(third.payload, "3", 1);
    assert_int_equal(first.status, NIGH_OK);
    pair_fini(&pair);
}

static void a_cancel_waits_for_a_credit_before_what_was_queued(void **state)
{
    struct pair pair;
    struct call first, second;

    (void)state;
    pair_init(&pair, 1, 2, 1);
    must_start(&pair.a, &first, "1");
    must_start(&pair.a, &second, "2");
    assert_true(rpc_cancel(pair.a.rpc, first.number, 0));
    assert_int_equal(pair.b.frames, 1);
    deliver(&pair.b, 0); /* the request */
    deliver(&pair.a, 0); /* its credit */
    assert_int_equal(head_kind(&pair.b), RPC_CANCEL);
    deliver_all(&pair, 0);
    assert_int_equal(pair.b.seen_count, 2);
    pair_fini(&pair);
}

static void a_reply_saves_a_cancel_that_waits(void **state)
{
    struct pair pair;
    struct call call;

    (void)state;
    pair_init(&pair, 1, 1, 1);
    must_start(&pair.a, &call, "1");
    assert_true(rpc_cancel(pair.a.rpc, call.number, 0));
    pair.b.echo = true;
    deliver(&pair.b, 0);
    assert_int_equal(head_kind(&pair.a), RPC_REPLY);
    pair.a.pipe[0].header.credits = 0; /* as if the credit came by another frame later */
    deliver(&pair.a, 0);
    assert_int_equal(pair.b.frames, 0);
    assert_int_equal(rpc_counters(pair.a.rpc)->late_replies, 1);
    assert_true(rpc_is_valid(pair.a.rpc));
    pair_fini(&pair);
}

/* ---- credits and the queue */

static void what_has_no_credit_waits_in_order(void **state)
{
    char text[] = "2";
    struct pair pair;
    struct call first, second, third;

    (void)state;
    pair_init(&pair, 1, 3, 3);
    must_start(&pair.a, &first, "1");
    must_start(&pair.a, &second, text);
    text[0] = 'x'; /* it was copied */
    assert_int_equal(say(&pair.a, "3"), NIGH_OK);
    must_start(&pair.a, &third, "4");
    assert_int_equal(pair.b.frames, 1);
    assert_int_equal(say(&pair.a, "5"), NIGH_BUSY);
    assert_int_equal(rpc_counters(pair.a.rpc)->queued, 3);
    pair.b.echo = true;
    deliver_all(&pair, 0);
    assert_int_equal(pair.b.seen_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(pair.b.seen_payload[i][0], '1' + i);
    }
    assert_int_equal(second.status, NIGH_OK);
    assert_int_equal(third.status, NIGH_OK);
    pair_fini(&pair);
}

/* All credits are used, the queue is full, and the peer takes nothing: what it had asked before is
 * answered all the same, ahead of all that waits. Each way has its own receives. */
static void a_reply_needs_no_credit(void **state)
{
    struct pair pair;
    struct call asked[2], waiting;
    uint32_t before;

    (void)state;
    pair_init(&pair, 2, 2, 1);
    must_start(&pair.b, &asked[0], "x");
    must_start(&pair.b, &asked[1], "y");
    deliver(&pair.a, 0);
    deliver(&pair.a, 0);
    assert_int_equal(say(&pair.a, "1"), NIGH_OK);
    assert_int_equal(say(&pair.a, "2"), NIGH_OK);
    must_start(&pair.a, &waiting, "3");
    assert_int_equal(say(&pair.a, "4"), NIGH_BUSY);
    before = pair.b.frames;
    for (uint32_t n = 0; n < 2; n++) {
        reply_bytes(&pair.a, pair.a.seen[n].call, NIGH_OK, pair.a.seen_payload[n], 1);
    }
    assert_int_equal(pair.b.frames, before + 2);
    assert_int_equal(pair.b.pipe[before].header.kind, RPC_REPLY);
    assert_int_equal(pair.b.pipe[before + 1].header.kind, RPC_REPLY);
    deliver_all(&pair, 0);
    assert_int_equal(asked[0].status, NIGH_OK);
    assert_int_equal(asked[1].status, NIGH_OK);
    assert_int_equal(pair.b.seen_count, 3);
    pair_fini(&pair);
}

static void calls_are_bounded_by_their_receives(void **state)
{
    struct pair pair;
    struct call calls[3];

    (void)state;
    pair_init(&pair, 5, 2, 5);
    must_start(&pair.a, &calls[0], "1");
    must_start(&pair.a, &calls[1], "2");
    assert_int_equal(start(&pair.a, &calls[2], "3", NEVER, 0), NIGH_BUSY);
    assert_int_equal(say(&pair.a, "3"), NIGH_OK); /* which needs none */
    pair_fini(&pair);
}

static void a_queued_call_that_times_out_is_never_sent(void **state)
{
    struct pair pair;
    struct call first, second, third;

    (void)state;
    for (int tick_first = 0; tick_first < 2; tick_first++) {
        pair_init(&pair, 1, 3, 2);
        must_start(&pair.a, &first, "1");
        assert_int_equal(start(&pair.a, &second, "2", 100, 0), NIGH_OK);
        assert_int_equal(start(&pair.a, &third, "3", 900, 0), NIGH_OK);
        if (tick_first) {
            rpc_tick(pair.a.rpc, 100);
            assert_int_equal(second.status, NIGH_TIMEOUT);
        }
        pair.b.echo = true;
        deliver_all(&pair, 100);
        assert_int_equal(pair.b.seen_count, 2);
        assert_int_equal(pair.b.seen_payload[1][0], '3');
        rpc_tick(pair.a.rpc, 100);
        assert_int_equal(second.status, NIGH_TIMEOUT);
        assert_int_equal(second.times, 1);
        assert_int_equal(third.status, NIGH_OK);
        pair_fini(&pair);
    }
}

static void a_reply_carries_the_credit_of_its_request(void **state)
{
    struct pair pair;
    struct call call;

    (void)state;
    pair_init(&pair, 1, 1, 0);
    pair.b.echo = true;
    for (uint32_t i = 0; i < 10; i++) {
        must_start(&pair.a, &call, "x");
        deliver(&pair.b, 0);
        assert_int_equal(pair.a.frames, 1);
        assert_int_equal(le16toh(pair.a.pipe[0].header.credits), 1);
        deliver(&pair.a, 0);
        assert_int_equal(call.status, NIGH_OK);
    }
    assert_int_equal(rpc_counters(pair.b.rpc)->credit_frames, 0);
    pair_fini(&pair);
}

static void credits_alone_go_when_more_than_half_are_owed(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair, 4, 1, 0);
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(say(&pair.a, "x"), NIGH_OK);
        }
        deliver(&pair.b, 0);
        deliver(&pair.b, 0);
        assert_int_equal(pair.a.frames, 0);
        deliver(&pair.b, 0);
        assert_int_equal(head_kind(&pair.a), RPC_CREDIT);
        assert_int_equal(le16toh(pair.a.pipe[0].header.credits), 3);
        deliver(&pair.a, 0);
        assert_int_equal(pair.a.rpc->credits, 4);
    }
    assert_int_equal(rpc_counters(pair.b.rpc)->credit_frames, 5);
    pair_fini(&pair);
}

/* ---- the end, and calls from inside */

static void the_end_ends_what_was_sent_and_what_waits(void **state)
{
    struct pair pair;
    struct call sent, waits, held;

    (void)state;
    pair_init(&pair, 2, 3, 2);
    must_start(&pair.a, &held, "0");
    must_start(&pair.a, &sent, "1");
    must_start(&pair.a, &waits, "2");
    assert_int_equal(say(&pair.a, "3"), NIGH_OK);
    assert_true(rpc_cancel(pair.a.rpc, held.number, 0));
    rpc_end(pair.a.rpc, NIGH_PROTOCOL, 50);
    assert_int_equal(sent.status, NIGH_PROTOCOL);
    assert_int_equal(waits.status, NIGH_PROTOCOL);
    assert_true(waits.now_us == 50);
    assert_int_equal(held.status, NIGH_CANCELED);
    assert_int_equal(rpc_pending(pair.a.rpc), 0);
    assert_int_equal(rpc_counters(pair.a.rpc)->lost, 2);
    rpc_end(pair.a.rpc, NIGH_PEER_LOST, 60);
    assert_int_equal(start(&pair.a, &held, "4", NEVER, 0), NIGH_CLOSED);
    assert_int_equal(say(&pair.a, "5"), NIGH_CLOSED);
    assert_int_equal(end_feed(&pair.a, &(struct frame){0}, 0), NIGH_CLOSED);
    assert_true(rpc_tick(pair.a.rpc, 1000) == NEVER);
    assert_int_equal(pair.b.frames, 2);
    pair_fini(&pair);
    assert_int_equal(sent.times, 1);
    assert_int_equal(waits.times, 1);
}

static void a_reply_after_the_end_goes_nowhere(void **state)
{
    struct pair pair;
    struct call call;

    (void)state;
    pair_init(&pair, 2, 1, 0);
    must_start(&pair.a, &call, "x");
    deliver(&pair.b, 0);
    rpc_end(pair.b.rpc, NIGH_PEER_LOST, 0);
    reply_bytes(&pair.b, pair.b.seen[0].call, NIGH_OK, "y", 1);
    assert_int_equal(pair.a.frames, 0);
    pair_fini(&pair);
}

struct chain {
    struct end *end;
    struct call last;
    uint32_t left;
};

static void chain_done(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                       uint64_t now_us)
{
    struct chain *chain = context;

    (void)payload;
    (void)bytes;
    if (status != NIGH_OK) {
        assert_int_equal(
            rpc_call(chain->end->rpc, 1, NULL, 0, NEVER, now_us, chain_done, chain, NULL),
            NIGH_CLOSED);
    } else if (chain->left-- > 0) {
        assert_int_equal(
            rpc_call(chain->end->rpc, 1, NULL, 0, NEVER, now_us, chain_done, chain, NULL), NIGH_OK);
    } else {
        must_start(chain->end, &chain->last, "last");
        rpc_end(chain->end->rpc, NIGH_PEER_LOST, now_us);
    }
}

static void a_done_may_call_again_and_end_the_channel(void **state)
{
    struct pair pair;
    struct chain chain = {.end = &pair.a, .left = 5};

    (void)state;
    pair_init(&pair, 1, 1, 0);
    pair.b.echo = true;
    assert_int_equal(rpc_call(pair.a.rpc, 1, NULL, 0, NEVER, 0, chain_done, &chain, NULL), NIGH_OK);
    while (chain.last.times == 0) {
        deliver(pair.a.frames > 0 ? &pair.a : &pair.b, 0);
    }
    assert_int_equal(pair.b.seen_count, 6);
    assert_int_equal(chain.last.status, NIGH_PEER_LOST);
    assert_int_equal(rpc_counters(pair.a.rpc)->calls, 7);
    pair_fini(&pair);
}

/* After 2^32 calls of a channel, too. */
static void numbers_do_not_come_again(void **state)
{
    struct pair pair;
    struct call first, second;
    uint64_t given_up;

    (void)state;
    pair_init(&pair, 4, 1, 0);
    must_start(&pair.a, &first, "x");
    deliver_all(&pair, 0);
    given_up = first.number;
    assert_true(rpc_cancel(pair.a.rpc, first.number, 0));
    deliver_all(&pair, 0);
    pair.a.rpc->slots[0].generation += UINT32_MAX; /* as many calls later */
    must_start(&pair.a, &second, "y");
    assert_true(second.number > UINT32_MAX);
    assert_int_equal((uint32_t)second.number, (uint32_t)given_up);
    deliver_all(&pair, 0);
    reply_bytes(&pair.b, given_up, NIGH_OK, "x", 1); /* its handler took its time */
    deliver_all(&pair, 0);
    assert_int_equal(second.status, PENDING);
    reply_bytes(&pair.b, second.number, NIGH_OK, "y", 1);
    deliver_all(&pair, 0);
    assert_int_equal(second.status, NIGH_OK);
    assert_int_equal(second.payload[0], 'y');
    pair_fini(&pair);
}

/* ---- places that channels share */

/* A channel with one credit and one place of its own, which are used; all on one pool. */
static void share_init(struct pair *pair, struct rpc_pool *pool, struct call calls[2])
{
    end_init(&pair->a, &pair->b, 1, 16, 1);
    end_init(&pair->b, &pair->a, 1, 16, 1);
    rpc_destroy(pair->a.rpc);
    pair->a.config.pool = pool;
    assert_int_equal(rpc_create(&pair->a.config, &pair->a.rpc), NIGH_OK);
    must_start(&pair->a, &calls[0], "0");
    must_start(&pair->a, &calls[1], "1");
}

static void who_stands_still_leaves_places_to_others(void **state)
{
    static struct call stuck[8], second[8], third[8];
    struct pair pairs[3];
    struct rpc_pool *pool;

    (void)state;
    assert_int_equal(rpc_pool_create(6, PAYLOAD, &pool), NIGH_OK);
    share_init(&pairs[0], pool, stuck);
    for (uint32_t i = 2; i < 5; i++) {
        must_start(&pairs[0].a, &stuck[i], "s");
    }
    assert_int_equal(start(&pairs[0].a, &stuck[5], "s", NEVER, 0), NIGH_BUSY);
    assert_int_equal(rpc_pool_used(pool), 3);
    share_init(&pairs[1], pool, second);
    must_start(&pairs[1].a, &second[2], "s");
    must_start(&pairs[1].a, &second[3], "s");
    assert_int_equal(start(&pairs[1].a, &second[4], "s", NEVER, 0), NIGH_BUSY);
    share_init(&pairs[2], pool, third);
    must_start(&pairs[2].a, &third[2], "s");
    assert_int_equal(rpc_pool_used(pool), 6);
    /* Nothing is left: a call is refused, and what waits goes on once there are credits. */
    assert_int_equal(start(&pairs[2].a, &third[3], "s", NEVER, 0), NIGH_BUSY);
    assert_int_equal(say(&pairs[1].a, "s"), NIGH_BUSY);
    for (uint32_t n = 0; n < 3; n++) {
        assert_true(rpc_is_valid(pairs[n].a.rpc));
        pairs[n].b.echo = true;
        deliver_all(&pairs[n], 0);
    }
    assert_int_equal(rpc_pool_used(pool), 0);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(stuck[i].status, NIGH_OK);
        assert_int_equal(stuck[i].payload[0], i < 2 ? '0' + (int)i : 's');
    }
    assert_int_equal(third[2].status, NIGH_OK);
    for (uint32_t n = 0; n < 3; n++) {
        pair_fini(&pairs[n]);
    }
    rpc_pool_destroy(pool);
}

static void the_end_gives_shared_places_back(void **state)
{
    struct call calls[3];
    struct pair pair;
    struct rpc_pool *pool;

    (void)state;
    assert_int_equal(rpc_pool_create(4, PAYLOAD, &pool), NIGH_OK);
    share_init(&pair, pool, calls);
    must_start(&pair.a, &calls[2], "s");
    assert_int_equal(say(&pair.a, "s"), NIGH_OK);
    assert_int_equal(rpc_pool_used(pool), 2);
    pair_fini(&pair);
    assert_int_equal(rpc_pool_used(pool), 0);
    assert_int_equal(calls[2].status, NIGH_PEER_LOST);
    rpc_pool_destroy(pool);
    assert_int_equal(rpc_pool_create(1, 0, &pool), NIGH_INVALID);
    assert_int_equal(rpc_pool_create(LIMIT_RPC_QUEUE + 1, 1, &pool), NIGH_INVALID);
}

/* ---- what a peer may not send */

/* A channel with one call sent, one request to answer, and one credit of two left. */
static void set_up_hostile(struct pair *pair, struct call *call)
{
    static struct call other;

    pair_init(pair, 2, 2, 1);
    must_start(&pair->a, call, "x");
    must_start(&pair->b, &other, "y");
    deliver(&pair->a, 0);
    assert_int_equal(pair->a.seen_count, 1);
}

static struct frame frame_of(uint8_t kind, uint64_t call)
{
    return (struct frame){.header = {
                              .magic = RPC_MAGIC,
                              .kind = kind,
                              .call = htole64(call),
                              .epoch = htole32(EPOCH),
                          }};
}

static void refuse_as(struct pair *pair, const struct frame *frame, nigh_status status)
{
    struct rpc *rpc = pair->a.rpc;
    size_t bytes = rpc->block_bytes;
    uint8_t *before = malloc(bytes);

    assert_non_null(before);
    memcpy(before, rpc, bytes);
    assert_int_equal(end_feed(&pair->a, frame, 0), status);
    assert_memory_equal(before, rpc, bytes);
    free(before);
}

static void refuse(struct pair *pair, const struct frame *frame)
{
    refuse_as(pair, frame, NIGH_PROTOCOL);
}

/* Refuses a frame of this kind and call with one field changed. */
#define REFUSE(kind_, call_, field, value)               \
    do {                                                 \
        struct frame frame = frame_of((kind_), (call_)); \
        frame.header.field = (value);                    \
        refuse(&pair, &frame);                           \
    } while (0)

static void frames_against_the_rules_are_refused_and_do_nothing(void **state)
{
    struct pair pair;
    struct call call;
    uint64_t theirs, next = 2 << 1 | 1;

    (void)state;
    set_up_hostile(&pair, &call);
    theirs = pair.a.seen[0].call;
    for (uint32_t bytes = 0; bytes < sizeof(struct rpc_header); bytes++) {
        struct frame frame = frame_of(RPC_REPLY, call.number);
        assert_int_equal(rpc_receive(pair.a.rpc, &frame, bytes, 0), NIGH_PROTOCOL);
    }
    REFUSE(RPC_REPLY, call.number, magic, 'n');
    REFUSE(RPC_REPLY, call.number, kind, 0);
    REFUSE(RPC_REPLY, call.number, kind, RPC_CREDIT + 1);
    REFUSE(RPC_REPLY, call.number, reserved, 1);
    REFUSE(RPC_REPLY, call.number, method, htole16(1));
    REFUSE(RPC_REPLY, call.number, left_ms, htole32(1));
    REFUSE(RPC_REPLY, call.number, status, (int32_t)htole32(1));
    REFUSE(RPC_REPLY, call.number, status, (int32_t)htole32((uint32_t)(NIGH_STATUS_LOWEST - 1)));
    REFUSE(RPC_REPLY, call.number, credits, htole16(2)); /* one was used */
    REFUSE(RPC_REPLY, call.number, call, 0);
    REFUSE(RPC_REPLY, call.number, call, htole64(call.number + 1)); /* another slot */
    REFUSE(RPC_REPLY, call.number, call, htole64(call.number + 2)); /* another generation */
    REFUSE(RPC_REQUEST, next, status, (int32_t)htole32((uint32_t)-1));
    REFUSE(RPC_REQUEST, next, call, htole64(theirs));     /* again */
    REFUSE(RPC_REQUEST, next, call, htole64(theirs + 2)); /* its slot is taken */
    REFUSE(RPC_REQUEST, next, call, 0);
    REFUSE(RPC_REQUEST, next, call, htole64(1)); /* a generation of 0 */
    REFUSE(RPC_ONE_WAY, 0, call, htole64(next));
    REFUSE(RPC_ONE_WAY, 0, left_ms, htole32(1));
    REFUSE(RPC_ONE_WAY, 0, status, (int32_t)htole32((uint32_t)-1));
    REFUSE(RPC_CANCEL, theirs, call, htole64(theirs + 2));
    REFUSE(RPC_CANCEL, theirs, call, htole64(theirs + 1));
    REFUSE(RPC_CANCEL, theirs, method, htole16(1));
    REFUSE(RPC_CANCEL, theirs, bytes, htole32(1));
    REFUSE(RPC_CREDIT, 0, credits, htole16(1)); /* not more than half */
    REFUSE(RPC_CREDIT, 0, credits, 0);
    REFUSE(RPC_CREDIT, 0, call, htole64(theirs));
    REFUSE(RPC_CREDIT, 0, bytes, htole32(1));
    pair_fini(&pair);
    assert_int_equal(call.times, 1);
    assert_int_equal(call.status, NIGH_PEER_LOST);
}

/* Whatever else it says: its peer is of another cluster, not a liar. */
static void another_epoch_is_no_lie(void **state)
{
    struct pair pair;
    struct call call;
    struct frame frame;

    (void)state;
    set_up_hostile(&pair, &call);
    frame = frame_of(RPC_REPLY, call.number);
    frame.header.epoch = htole32(EPOCH + 1);
    refuse_as(&pair, &frame, NIGH_VERSION);
    frame.header.reserved = 1;
    refuse_as(&pair, &frame, NIGH_VERSION);
    frame.header.magic = 'n';
    refuse_as(&pair, &frame, NIGH_PROTOCOL);
    pair_fini(&pair);
}

static void lengths_that_do_not_agree_are_refused(void **state)
{
    struct pair pair;
    struct call call;
    uint8_t bytes[sizeof(struct rpc_header) + PAYLOAD + 1] = {0};
    struct frame frame;

    (void)state;
    set_up_hostile(&pair, &call);
    frame = frame_of(RPC_REPLY, call.number);
    frame.header.bytes = htole32(PAYLOAD + 1);
    memcpy(bytes, &frame.header, sizeof(frame.header));
    assert_int_equal(rpc_receive(pair.a.rpc, bytes, sizeof(bytes), 0), NIGH_PROTOCOL);
    assert_int_equal(rpc_receive(pair.a.rpc, bytes, sizeof(bytes) - 1, 0), NIGH_PROTOCOL);
    frame.header.bytes = htole32(UINT32_MAX);
    memcpy(bytes, &frame.header, sizeof(frame.header));
    assert_int_equal(rpc_receive(pair.a.rpc, bytes, sizeof(frame.header) - 1, 0), NIGH_PROTOCOL);
    assert_int_equal(rpc_receive(pair.a.rpc, bytes, sizeof(frame.header), 0), NIGH_PROTOCOL);
    pair_fini(&pair);
}

static void a_second_reply_is_refused(void **state)
{
    struct pair pair;
    struct call call;
    struct frame reply;

    (void)state;
    set_up_hostile(&pair, &call);
    reply = frame_of(RPC_REPLY, call.number);
    assert_int_equal(end_feed(&pair.a, &reply, 0), NIGH_OK);
    refuse(&pair, &reply);
    must_start(&pair.a, &call, "z");
    refuse(&pair, &reply);
    assert_int_equal(call.times, 0);
    pair_fini(&pair);
}

static void more_requests_than_credits_are_refused(void **state)
{
    struct pair pair;
    struct frame one_way = frame_of(RPC_ONE_WAY, 0);

    (void)state;
    pair_init(&pair, 4, 1, 0);
    for (uint32_t i = 0; i < 100; i++) {
        /* They are given back as they come, so it is never too many. */
        assert_int_equal(end_feed(&pair.a, &one_way, 0), NIGH_OK);
        pair.b.frames = 0;
    }
    pair.a.rpc->owed = 4; /* as if none had been */
    refuse(&pair, &one_way);
    pair.a.rpc->owed = 0;
    pair_fini(&pair);
}

static void a_second_cancel_is_refused(void **state)
{
    struct pair pair;
    struct call call;
    struct frame cancel;

    (void)state;
    set_up_hostile(&pair, &call);
    cancel = frame_of(RPC_CANCEL, pair.a.seen[0].call);
    assert_int_equal(end_feed(&pair.a, &cancel, 0), NIGH_OK);
    assert_int_equal(pair.a.canceled_count, 1);
    refuse(&pair, &cancel);
    pair_fini(&pair);
}

/* ---- at random */

#define RANDOM_CALLS 8

struct random_call {
    struct random_end *end;
    uint64_t id; /* what it says; 0: ended */
    uint64_t deadline_us;
    uint64_t number;
    bool by_cancel;
};

struct random_end {
    struct end end;
    uint64_t *seed;
    uint64_t *now_us;
    struct random_call calls[RANDOM_CALLS];
    uint32_t open;
    uint64_t next_id;
    uint64_t seen_id; /* the last that came from the peer */
    uint32_t owes[2 * RANDOM_CALLS];
    uint64_t owes_id[2 * RANDOM_CALLS];
    uint32_t owes_count;
    bool ended;
    uint64_t done[5]; /* by reply, timeout, cancel, loss; late replies */
};

static uint64_t pick(struct random_end *end, uint64_t bound)
{
    return support_random(end->seed) % bound;
}

static void random_call(struct random_end *end);

static void random_done(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                        uint64_t now_us)
{
    struct random_call *call = context;
    struct random_end *end = call->end;
    uint64_t id;

    assert_true(call->id != 0);
    assert_true(now_us == *end->now_us);
    if (status == NIGH_OK) {
        assert_true(bytes >= sizeof(id));
        memcpy(&id, payload, sizeof(id));
        assert_true(id == call->id);
        end->done[0]++;
    } else if (status == NIGH_TIMEOUT) {
        assert_true(now_us >= call->deadline_us);
        end->done[1]++;
    } else if (status == NIGH_CANCELED) {
        assert_true(call->by_cancel);
        end->done[2]++;
    } else {
        assert_int_equal(status, NIGH_PEER_LOST);
        assert_true(end->ended);
        end->done[3]++;
    }
    call->id = 0;
    end->open--;
    if (!end->ended && pick(end, 4) == 0) {
        random_call(end);
    }
}

static void random_call(struct random_end *end)
{
    uint8_t payload[PAYLOAD] = {0};
    struct rpc_piece pieces[2] = {{payload, 8}, {payload + 8, (uint32_t)pick(end, PAYLOAD - 7)}};
    struct random_call *call = end->calls;
    uint64_t now_us = *end->now_us;
    nigh_status status;

    while (call < end->calls + RANDOM_CALLS && call->id != 0) {
        call++;
    }
    if (call == end->calls + RANDOM_CALLS) {
        return;
    }
    *call = (struct random_call){.end = end, .id = ++end->next_id, .deadline_us = NEVER};
    if (pick(end, 3) > 0) {
        call->deadline_us = now_us + pick(end, 60);
    }
    memcpy(payload, &call->id, 8);
    end->open++;
    status = rpc_call(end->end.rpc, 1, pieces, 2, call->deadline_us, now_us, random_done, call,
                      &call->number);
    if (status != NIGH_OK) {
        assert_int_equal(status, NIGH_BUSY);
        call->id = 0;
        end->open--;
    }
}

static void random_request(void *context, const struct rpc_request *request, uint64_t now_us)
{
    struct random_end *end = context;
    uint64_t id;

    (void)now_us;
    assert_true(request->bytes >= sizeof(id));
    memcpy(&id, request->payload, sizeof(id));
    assert_true(id > end->seen_id); /* in the order in which they began */
    end->seen_id = id;
    if (request->call == 0) {
        return;
    }
    if (pick(end, 3) == 0) {
        reply_bytes(&end->end, request->call, NIGH_OK, request->payload, request->bytes);
    } else if (end->owes_count < ARRAY_LENGTH(end->owes)) {
        end->owes[end->owes_count] = request->call;
        end->owes_id[end->owes_count++] = id;
    } else {
        reply_bytes(&end->end, request->call, NIGH_OK, &id, sizeof(id));
    }
    if (pick(end, 8) == 0) {
        random_call(end);
    }
}

static void random_canceled(void *context, uint64_t call)
{
    struct random_end *end = context;

    for (uint32_t i = 0; i < end->owes_count; i++) {
        if (end->owes[i] == call && pick(end, 2) == 0) {
            end->owes[i] = end->owes[--end->owes_count];
            end->owes_id[i] = end->owes_id[end->owes_count];
            return;
        }
    }
}

static void random_reply(struct random_end *end)
{
    uint32_t i;

    if (end->owes_count == 0) {
        return;
    }
    i = (uint32_t)pick(end, end->owes_count);
    reply_bytes(&end->end, end->owes[i], NIGH_OK, &end->owes_id[i], sizeof(uint64_t));
    end->owes[i] = end->owes[--end->owes_count];
    end->owes_id[i] = end->owes_id[end->owes_count];
}

static void random_say(struct random_end *end)
{
    uint64_t id = end->next_id + 1;
    struct rpc_piece piece = {&id, sizeof(id)};
    nigh_status status = rpc_one_way(end->end.rpc, 2, &piece, 1, *end->now_us);

    assert_true(status == NIGH_OK || status == NIGH_BUSY);
    end->next_id += status == NIGH_OK;
}

static void random_cancel(struct random_end *end)
{
    struct random_call *call = &end->calls[pick(end, RANDOM_CALLS)];

    if (call->id != 0) {
        call->by_cancel = true;
        assert_true(rpc_cancel(end->end.rpc, call->number, *end->now_us));
    }
}

static void random_finish(struct random_end *end)
{
    end->ended = true;
    rpc_end(end->end.rpc, NIGH_PEER_LOST, *end->now_us);
    assert_int_equal(end->open, 0);
    assert_int_equal(rpc_pending(end->end.rpc), 0);
    end->end.frames = 0;
}

static void random_step(struct random_end *end)
{
    struct random_end *peer = container_of(end->end.peer, struct random_end, end);

    if (end->ended) {
        return;
    }
    switch (pick(end, 16)) {
    case 0:
    case 1:
    case 2: random_call(end); break;
    case 3:
    case 4: random_say(end); break;
    case 5: random_cancel(end); break;
    case 6:
    case 7:
    case 8: random_reply(end); break;
    case 9: *end->now_us += pick(end, 10); break;
    case 10: rpc_tick(end->end.rpc, *end->now_us); break;
    case 11:
        if (pick(end, 100) == 0 || peer->ended) {
            random_finish(end);
        }
        break;
    default:
        if (end->end.frames > 0) {
            deliver(&end->end, *end->now_us);
        }
        break;
    }
    /* What goes to an end that is over is lost. */
    if (peer->ended) {
        peer->end.frames = 0;
    }
    assert_true(rpc_is_valid(end->end.rpc));
    assert_int_equal(rpc_pending(end->end.rpc), end->open);
    assert_int_equal(rpc_counters(end->end.rpc)->timeouts, end->done[1]);
}

/* One pair, from its making to both ends; the number of steps. */
static uint64_t random_run(uint64_t *seed, uint64_t totals[5])
{
    static struct random_end ends[2];
    uint64_t now_us = 1000, steps = 0;
    uint32_t requests = 1 + (uint32_t)(support_random(seed) % 6);
    uint32_t calls = 1 + (uint32_t)(support_random(seed) % RANDOM_CALLS);
    uint32_t queue = (uint32_t)(support_random(seed) % 5);

    for (uint32_t i = 0; i < 2; i++) {
        struct rpc_config *config = &ends[i].end.config;

        memset(&ends[i], 0, sizeof(ends[i]));
        ends[i].seed = seed;
        ends[i].now_us = &now_us;
        end_init(&ends[i].end, &ends[1 - i].end, requests, calls, queue);
        rpc_destroy(ends[i].end.rpc);
        config->shell = (struct rpc_shell){&ends[i], end_send, random_request, random_canceled};
        assert_int_equal(rpc_create(config, &ends[i].end.rpc), NIGH_OK);
    }
    while (!ends[0].ended || !ends[1].ended) {
        random_step(&ends[support_random(seed) % 2]);
        steps++;
    }
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t kind = 0; kind < 4; kind++) {
            totals[kind] += ends[i].done[kind];
        }
        totals[4] += rpc_counters(ends[i].end.rpc)->late_replies;
        rpc_destroy(ends[i].end.rpc);
    }
    return steps;
}

static void pairs_at_random(void **state)
{
    uint64_t seed = support_seed() | 1, steps = 0, runs = 0, totals[5] = {0};
    uint64_t end_us = support_now_us() + support_budget_ms(500) * 1000;

    (void)state;
    while (steps < RANDOM_MIN || support_now_us() < end_us) {
        steps += random_run(&seed, totals);
        runs++;
    }
    printf("# %llu steps in %llu pairs; ended by reply %llu, timeout %llu, cancel %llu, end %llu; "
           "late replies %llu\n",
           (unsigned long long)steps, (unsigned long long)runs, (unsigned long long)totals[0],
           (unsigned long long)totals[1], (unsigned long long)totals[2],
           (unsigned long long)totals[3], (unsigned long long)totals[4]);
    for (uint32_t kind = 0; kind < 5; kind++) {
        assert_true(totals[kind] > 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_of_a_configuration),
        cmocka_unit_test(a_call_gets_its_reply),
        cmocka_unit_test(replies_find_their_calls_in_any_order),
        cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(a_deadline_ends_a_call_and_not_before),
        cmocka_unit_test(the_server_learns_what_is_left_rounded_up),
        cmocka_unit_test(a_call_whose_deadline_has_passed_is_never_sent),
        cmocka_unit_test(a_call_that_timed_out_keeps_its_place_until_the_reply),
        cmocka_unit_test(a_timeout_is_answered_by_the_channel),
        cmocka_unit_test(a_tick_does_a_bounded_number),
        cmocka_unit_test(a_cancelled_call_ends_before_the_return),
        cmocka_unit_test(a_cancelled_call_that_waits_is_never_sent),
        cmocka_unit_test(a_cancel_waits_for_a_credit_before_what_was_queued),
        cmocka_unit_test(a_reply_saves_a_cancel_that_waits),
        cmocka_unit_test(what_has_no_credit_waits_in_order),
        cmocka_unit_test(a_reply_needs_no_credit),
        cmocka_unit_test(calls_are_bounded_by_their_receives),
        cmocka_unit_test(a_queued_call_that_times_out_is_never_sent),
        cmocka_unit_test(a_reply_carries_the_credit_of_its_request),
        cmocka_unit_test(credits_alone_go_when_more_than_half_are_owed),
        cmocka_unit_test(the_end_ends_what_was_sent_and_what_waits),
        cmocka_unit_test(a_reply_after_the_end_goes_nowhere),
        cmocka_unit_test(a_done_may_call_again_and_end_the_channel),
        cmocka_unit_test(numbers_do_not_come_again),
        cmocka_unit_test(who_stands_still_leaves_places_to_others),
        cmocka_unit_test(the_end_gives_shared_places_back),
        cmocka_unit_test(another_epoch_is_no_lie),
        cmocka_unit_test(frames_against_the_rules_are_refused_and_do_nothing),
        cmocka_unit_test(lengths_that_do_not_agree_are_refused),
        cmocka_unit_test(a_second_reply_is_refused),
        cmocka_unit_test(more_requests_than_credits_are_refused),
        cmocka_unit_test(a_second_cancel_is_refused),
        cmocka_unit_test(pairs_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
