/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of any server of a name, calls that are tried again, and urgent ones (rpc/calls.h): a node
 * with a channel to each of three others, which the test plays: it sees what they are asked, and
 * answers by hand.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "calls_frames.h"
#include "rpc/calls.h"
#include "support/support.h"

#define SERVICE UINT64_C(77)
#define BESIDE  UINT64_C(78) /* of another link to the same node */
#define SELF    0u
#define NODES   4u /* the first is the one that is tested */
#define FRAMES  512u
#define ASKED   64u
#define COOKIES 256u
#define PLACES  16u /* of a channel */
#define URGENT  2u  /* and those for the urgent alone */

/* One end of a channel. */
struct end {
    struct end *other;
    struct rpc *rpc;
    uint32_t rank; /* of the other node */
    bool is_ours;
    bool up;
    struct frame *frames[FRAMES]; /* on their way to it */
    uint32_t first, last;
    /* A node that the test plays: calls that it has not answered, oldest first. */
    uint64_t asked[ASKED];
    uint32_t asked_count;
    uint32_t calls;      /* that it ever was asked */
    uint32_t offers;     /* messages that told it what there is */
    uint32_t told_count; /* services, by the last of them */
    bool is_mute;        /* answers no such message */
};

static struct end ours[NODES], theirs[NODES];
static struct calls *calls;
static bool beside_is_down;
static uint64_t now_us;
static uint32_t ends, here; /* calls that ended; requests that our own service had */
static uint64_t here_id;
static nigh_status status_of[COOKIES];
static uint32_t times[COOKIES], rank_of[COOKIES];
static bool had_it[COOKIES];

static void on_send(void *context, const struct rpc_header *header, const struct rpc_piece *pieces,
                    uint32_t count)
{
    struct end *end = context;

    assert_true(end->other->last - end->other->first < FRAMES);
    end->other->frames[end->other->last++ % FRAMES] = frame_of(header, pieces, count);
}

static void on_rpc_request(void *context, const struct rpc_request *request, uint64_t at_us)
{
    struct end *end = context;

    if (end->is_ours) {
        calls_take(calls, end->rpc, end->rank, request, at_us);
    } else if (request->method == CALLS_METHOD_OFFERS) {
        end->offers++;
        end->told_count = request->bytes / 8;
        if (!end->is_mute) {
            rpc_reply(end->rpc, request->call, NIGH_OK, NULL, 0);
        }
    } else {
        end->calls++;
        if (request->call != 0) {
            assert_true(end->asked_count < ASKED);
            end->asked[end->asked_count++] = request->call;
        }
    }
}

static void on_rpc_canceled(void *context, uint64_t call)
{
    struct end *end = context;

    if (end->is_ours) {
        calls_withdrawn(calls, end->rpc, call, now_us);
        return;
    }
    for (uint32_t n = 0; n < end->asked_count; n++) {
        if (end->asked[n] == call) {
            end->asked_count--;
            memmove(&end->asked[n], &end->asked[n + 1], (end->asked_count - n) * sizeof(call));
        }
    }
}

static struct rpc *on_channel(void *context, uint32_t rank, uint64_t hash)
{
    (void)context;
    assert_in_range(rank, 1, NODES - 1);
    if (hash == BESIDE && beside_is_down) {
        return NULL;
    }
    return ours[rank].up ? ours[rank].rpc : NULL;
}

static const uint8_t *on_bytes(void *context, const struct calls_caller *caller)
{
    (void)context;
    (void)caller;
    return (const uint8_t *)"ask";
}

static void on_ended(void *context, const struct calls_caller *caller, const struct calls_end *end)
{
    (void)context;
    ends++;
    times[caller->cookie]++;
    status_of[caller->cookie] = end->status;
    rank_of[caller->cookie] = end->rank;
    had_it[caller->cookie] = end->taken;
}

static void on_request(void *context, void *tag, const struct calls_request *request)
{
    (void)context;
    (void)tag;
    here++;
    here_id = request->id;
}

static void connect_end(struct end *end, struct end *other, uint32_t rank, bool is_ours)
{
    struct rpc_config config = {.requests = PLACES,
                                .calls = PLACES + URGENT,
                                .payload_bytes = CALLS_PAYLOAD,
                                .shell = {.context = end,
                                          .send = on_send,
                                          .request = on_rpc_request,
                                          .canceled = on_rpc_canceled}};

    *end = (struct end){.other = other, .rank = rank, .is_ours = is_ours, .up = true};
    assert_int_equal(rpc_create(&config, &end->rpc), NIGH_OK);
}

static void link_up(uint32_t rank)
{
    connect_end(&ours[rank], &theirs[rank], rank, true);
    connect_end(&theirs[rank], &ours[rank], SELF, false);
    calls_channel_up(calls, ours[rank].rpc, rank);
}

static void drop_frames(struct end *end)
{
    while (end->first != end->last) {
        free(end->frames[end->first++ % FRAMES]);
    }
}

static void link_ends(uint32_t rank, nigh_status reason)
{
    ours[rank].up = false;
    rpc_end(ours[rank].rpc, reason, now_us);
    calls_channel_down(calls, ours[rank].rpc, rank, now_us);
    rpc_end(theirs[rank].rpc, NIGH_PEER_LOST, now_us);
    rpc_destroy(ours[rank].rpc);
    rpc_destroy(theirs[rank].rpc);
    drop_frames(&ours[rank]);
    drop_frames(&theirs[rank]);
    theirs[rank].asked_count = 0;
}

static void link_down(uint32_t rank)
{
    link_ends(rank, NIGH_PEER_LOST);
}

static int set_up(void **state)
{
    struct calls_config config = {
        .rank = SELF,
        .nodes = NODES,
        .owners = 2,
        .calls = 128,
        .requests = 8,
        .channel_calls = PLACES,
        .shell = {
            .channel = on_channel, .bytes = on_bytes, .ended = on_ended, .request = on_request}};

    (void)state;
    now_us = 1000000;
    ends = here = 0;
    beside_is_down = false;
    memset(times, 0, sizeof times);
    memset(ours, 0, sizeof ours);
    memset(theirs, 0, sizeof theirs);
    assert_int_equal(calls_create(&config, &calls), NIGH_OK);
    for (uint32_t rank = 1; rank < NODES; rank++) {
        link_up(rank);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t rank = 1; rank < NODES; rank++) {
        if (ours[rank].up) {
            link_down(rank);
        }
    }
    calls_destroy(calls);
    return 0;
}

static bool deliver(struct end *end)
{
    struct frame *frame;

    if (end->first == end->last) {
        return false;
    }
    frame = end->frames[end->first++ % FRAMES];
    assert_int_equal(rpc_receive(end->rpc, frame->data, frame->bytes, now_us), NIGH_OK);
    free(frame);
    return true;
}

/* Everything that is on its way arrives, and time stands still. */
static void settle(void)
{
    uint32_t rounds = 0;
    bool any;

    do {
        assert_true(rounds++ < 1000); /* it goes round and round */
        any = calls_tick(calls, now_us);
        for (uint32_t rank = 1; rank < NODES; rank++) {
            if (ours[rank].up) {
                (void)rpc_tick(ours[rank].rpc, now_us);
                any = deliver(&ours[rank]) || any;
                any = deliver(&theirs[rank]) || any;
            }
        }
        assert_true(calls_is_valid(calls));
    } while (any);
}

static void pass(uint64_t us)
{
    uint64_t end_us = now_us + us;

    while (now_us < end_us) {
        uint64_t due_us = calls_due_us(calls);

        now_us = due_us > now_us && due_us < end_us ? due_us : now_us + 500;
        settle();
    }
}

/* A node says what it serves. */
static void offer(uint32_t rank, const uint64_t *hashes, uint32_t count)
{
    struct rpc_piece piece = {.data = hashes, .bytes = count * 8};

    assert_int_equal(
        rpc_one_way(theirs[rank].rpc, CALLS_METHOD_OFFERS, &piece, count > 0 ? 1 : 0, now_us),
        NIGH_OK);
    settle();
}

static void offer_it(uint32_t rank)
{
    static const uint64_t all[] = {5, SERVICE, 6};

    offer(rank, all, 3);
}

static void serve_here(bool serves)
{
    struct calls_service service = {.hash = SERVICE, .tag = &here};

    calls_set_services(calls, &service, serves ? 1 : 0, now_us);
    settle();
}

static struct calls_call call_of(uint32_t rank, uint32_t cookie)
{
    return (struct calls_call){.service = SERVICE,
                               .deadline_us = now_us + 10000000,
                               .rank = rank,
                               .caller = {.owner = 1, .cookie = cookie, .bytes = 3, .room = 16}};
}

static void begin_call(struct calls_call call)
{
    calls_begin(calls, &call, now_us);
    settle();
}

static void begin_any(uint32_t cookie, bool idempotent)
{
    struct calls_call call = call_of(CALLS_ANY, cookie);

    call.idempotent = idempotent;
    begin_call(call);
}

static uint64_t take_asked(uint32_t rank)
{
    struct end *end = &theirs[rank];
    uint64_t call = end->asked[0];

    assert_true(end->asked_count > 0);
    end->asked_count--;
    memmove(&end->asked[0], &end->asked[1], end->asked_count * sizeof(call));
    return call;
}

static void answer(uint32_t rank, nigh_status status)
{
    struct rpc_piece piece = {.data = "said", .bytes = 4};

    rpc_reply(theirs[rank].rpc, take_asked(rank), status, &piece, 1);
    settle();
}

static void refuse(uint32_t rank, nigh_status status, bool taken)
{
    struct calls_refusal said = {.status = status, .taken = taken ? 1 : 0};
    struct rpc_piece piece = {.data = &said, .bytes = sizeof said};

    rpc_reply(theirs[rank].rpc, take_asked(rank), NIGH_PENDING, &piece, 1);
    settle();
}

static void ended_once(uint32_t cookie, nigh_status status, uint32_t rank)
{
    assert_int_equal(times[cookie], 1);
    assert_int_equal(status_of[cookie], status);
    assert_int_equal(rank_of[cookie], rank);
}

/* ---- who serves ----------------------------------------------------------- */

static void who_says_so_is_called(void **state)
{
    static const uint64_t others[] = {5, 6};

    (void)state;
    begin_any(0, true);
    ended_once(0, NIGH_NOT_FOUND, CALLS_ANY);
    offer(1, others, 2);
    begin_any(1, false);
    ended_once(1, NIGH_NOT_FOUND, CALLS_ANY);
    offer_it(2);
    begin_any(2, false);
    answer(2, NIGH_OK);
    ended_once(2, NIGH_OK, 2);
    /* What it says is all that it has; what it has said ends with its channel. */
    offer(2, others, 2);
    begin_any(3, false);
    ended_once(3, NIGH_NOT_FOUND, CALLS_ANY);
    offer_it(2);
    link_down(2);
    begin_any(4, false);
    ended_once(4, NIGH_NOT_FOUND, CALLS_ANY);
    assert_int_equal(calls_under_way(calls), 0);
}

static void the_own_node_is_first(void **state)
{
    (void)state;
    offer_it(1);
    serve_here(true);
    begin_any(0, false);
    assert_int_equal(here, 1);
    assert_true(calls_reply(calls, here_id, NIGH_OK, NULL, 0, now_us));
    ended_once(0, NIGH_OK, SELF);
    assert_int_equal(theirs[1].calls, 0);
}

static void who_has_least_to_do_is_next(void **state)
{
    (void)state;
    for (uint32_t rank = 1; rank < NODES; rank++) {
        offer_it(rank);
    }
    for (uint32_t n = 0; n < 9; n++) {
        begin_any(n, false);
    }
    for (uint32_t rank = 1; rank < NODES; rank++) {
        assert_int_equal(theirs[rank].calls, 3);
    }
    answer(2, NIGH_OK);
    answer(2, NIGH_OK);
    begin_any(10, false);
    begin_any(11, false);
    assert_int_equal(theirs[2].calls, 5);
    /* Answered at once, they take turns. */
    for (uint32_t rank = 1; rank < NODES; rank++) {
        while (theirs[rank].asked_count > 0) {
            answer(rank, NIGH_OK);
        }
        theirs[rank].calls = 0;
    }
    for (uint32_t n = 0; n < 30; n++) {
        begin_any(20 + n, false);
        for (uint32_t rank = 1; rank < NODES; rank++) {
            while (theirs[rank].asked_count > 0) {
                answer(rank, NIGH_OK);
            }
        }
    }
    for (uint32_t rank = 1; rank < NODES; rank++) {
        assert_in_range(theirs[rank].calls, 8, 12);
    }
}

/* Those that the call names go before the own node and before who has least to do, in their order;
 * one that does not serve it, or was tried, is passed by. */
static void who_holds_most_is_first(void **state)
{
    struct calls_call call = call_of(CALLS_ANY, 0);

    (void)state;
    offer_it(1);
    offer_it(3);
    serve_here(true);
    call.near_count = 3;
    memcpy(call.near, (const uint8_t[]){2, 3, 1}, 3);
    begin_call(call);
    assert_int_equal(theirs[3].calls, 1);
    answer(3, NIGH_OK);
    ended_once(0, NIGH_OK, 3);

    call.caller.cookie = 1;
    call.idempotent = true;
    begin_call(call);
    link_down(3);
    settle();
    assert_int_equal(theirs[1].calls, 1);
    answer(1, NIGH_OK);
    ended_once(1, NIGH_OK, 1);

    call.caller.cookie = 2;
    memcpy(call.near, (const uint8_t[]){2, SELF, 1}, 3);
    begin_call(call);
    assert_int_equal(here, 1);
    assert_true(calls_reply(calls, here_id, NIGH_OK, NULL, 0, now_us));
    ended_once(2, NIGH_OK, SELF);
}

static void rubbish_offers_are_refused(void **state)
{
    static const uint64_t many[LIMIT_SERVICES + 1] = {SERVICE};
    struct rpc_piece odd = {.data = many, .bytes = 9};

    (void)state;
    assert_int_equal(rpc_one_way(theirs[1].rpc, CALLS_METHOD_OFFERS, &odd, 1, now_us), NIGH_OK);
    offer(1, many, LIMIT_SERVICES + 1);
    begin_any(0, false);
    ended_once(0, NIGH_NOT_FOUND, CALLS_ANY);
    for (uint32_t n = 0; n < 3; n++) {
        offer(1, many, LIMIT_SERVICES);
    }
    begin_any(1, false);
    answer(1, NIGH_OK);
    ended_once(1, NIGH_OK, 1);
}

static void answer_all(void)
{
    for (uint32_t rank = 1; rank < NODES; rank++) {
        while (theirs[rank].asked_count > 0) {
            answer(rank, NIGH_OK);
        }
    }
}

/* Who came last has not been chosen yet; that is made up for by one call, not by as many as the
 * others ever had. */
static void who_comes_back_takes_turns(void **state)
{
    (void)state;
    offer_it(1);
    offer_it(2);
    for (uint32_t n = 0; n < 60; n++) {
        begin_any(n, false);
        answer_all();
    }
    link_down(2);
    link_up(2);
    offer_it(2);
    theirs[1].calls = 0;
    for (uint32_t n = 0; n < 20; n++) {
        begin_any(100 + n, false);
        answer_all();
    }
    assert_in_range(theirs[1].calls, 9, 11);
    assert_in_range(theirs[2].calls, 9, 11);
}

/* ---- what goes on --------------------------------------------------------- */

static void who_does_not_have_it_is_passed_by(void **state)
{
    (void)state;
    offer_it(1);
    offer_it(2);
    begin_any(0, false);
    refuse(theirs[1].asked_count > 0 ? 1 : 2, NIGH_NOT_FOUND, false);
    assert_int_equal(times[0], 0);
    answer(theirs[1].asked_count > 0 ? 1 : 2, NIGH_OK);
    assert_int_equal(times[0], 1);
    assert_int_equal(status_of[0], NIGH_OK);
    /* All of them: as they say. */
    begin_any(1, false);
    refuse(theirs[1].asked_count > 0 ? 1 : 2, NIGH_NOT_FOUND, false);
    refuse(theirs[1].asked_count > 0 ? 1 : 2, NIGH_OVERLOADED, false);
    assert_int_equal(times[1], 1);
    assert_int_equal(status_of[1], NIGH_OVERLOADED);
    assert_int_equal(theirs[1].calls + theirs[2].calls, 4);
}

static void what_a_service_says_is_the_end(void **state)
{
    static const nigh_status said[] = {NIGH_NOT_FOUND, NIGH_OVERLOADED, NIGH_CLOSED, NIGH_PEER_LOST,
                                       NIGH_TIMEOUT};

    (void)state;
    offer_it(1);
    offer_it(2);
    for (uint32_t n = 0; n < 5; n++) {
        uint32_t rank;

        begin_any(n, true);
        rank = theirs[1].asked_count > 0 ? 1 : 2;
        answer(rank, said[n]);
        ended_once(n, said[n], rank);
        assert_int_equal(theirs[1].asked_count + theirs[2].asked_count, 0);
    }
    assert_int_equal(calls_under_way(calls), 0);
}

static void what_may_have_been_done_is_not_done_again(void **state)
{
    uint32_t rank;

    (void)state;
    offer_it(1);
    offer_it(2);
    begin_any(0, false);
    rank = theirs[1].asked_count > 0 ? 1 : 2;
    link_down(rank);
    settle();
    ended_once(0, NIGH_PEER_LOST, rank);
    begin_any(1, false);
    refuse(3 - rank, NIGH_CLOSED, true);
    ended_once(1, NIGH_CLOSED, 3 - rank);
    pass(100000);
    assert_int_equal(theirs[3 - rank].calls, 1);
}

/* A link that hears nothing any more ends with a timeout, one that hears rubbish with the protocol:
 * that is the link's, and to a call it is lost. */
static void why_a_link_ended_is_not_how_a_call_does(void **state)
{
    static const nigh_status reasons[] = {NIGH_TIMEOUT, NIGH_PROTOCOL, NIGH_UNREACHABLE};

    (void)state;
    for (uint32_t n = 0; n < ARRAY_LENGTH(reasons); n++) {
        offer_it(1);
        begin_call(call_of(1, 2 * n));
        begin_any(2 * n + 1, true);
        link_ends(1, reasons[n]);
        settle();
        ended_once(2 * n, NIGH_PEER_LOST, 1);
        assert_true(had_it[2 * n]);
        assert_int_equal(times[2 * n + 1], 0); /* its time is not over: it goes on */
        link_up(1);
        offer_it(1);
        pass(2000);
        answer(1, NIGH_OK);
        ended_once(2 * n + 1, NIGH_OK, 1);
    }
}

static void what_may_be_done_twice_goes_on(void **state)
{
    uint32_t rank;

    (void)state;
    offer_it(1);
    offer_it(2);
    begin_any(0, true);
    rank = theirs[1].asked_count > 0 ? 1 : 2;
    link_down(rank);
    settle();
    assert_int_equal(times[0], 0);
    refuse(3 - rank, NIGH_CLOSED, true);
    /* Nobody is left: it rests, and is there when somebody is. */
    pass(100000);
    assert_int_equal(times[0], 0);
    while (theirs[3 - rank].asked_count > 0) {
        refuse(3 - rank, NIGH_OVERLOADED, false);
    }
    link_up(rank);
    offer(3 - rank, NULL, 0);
    offer_it(rank);
    pass(600000);
    assert_int_equal(times[0], 0);
    answer(rank, NIGH_OK);
    ended_once(0, NIGH_OK, rank);
}

/* Of one node: it rests longer each time, until its deadline. */
/* It comes back before its channel has looked at the time. */
static void what_comes_back_late_goes_nowhere(void **state)
{
    struct calls_refusal said = {.status = NIGH_OVERLOADED};
    struct rpc_piece piece = {.data = &said, .bytes = sizeof said};

    (void)state;
    offer_it(1);
    offer_it(2);
    for (uint32_t n = 0; n < 2; n++) {
        struct calls_call call = call_of(CALLS_ANY, n);
        uint32_t rank;

        call.idempotent = n == 1;
        call.deadline_us = now_us + 1000;
        begin_call(call);
        rank = theirs[1].asked_count > 0 ? 1 : 2;
        now_us += 2000;
        rpc_reply(theirs[rank].rpc, take_asked(rank), NIGH_PENDING, &piece, 1);
        while (deliver(&ours[rank])) {
        }
        ended_once(n, NIGH_TIMEOUT, rank);
        assert_false(had_it[n]);
    }
}

static void rests_grow(void **state)
{
    struct calls_call call = call_of(1, 0);
    uint32_t before;

    (void)state;
    call.idempotent = true;
    begin_call(call);
    for (uint64_t begin_us = now_us; now_us < begin_us + 500000; pass(500)) {
        while (theirs[1].asked_count > 0) {
            refuse(1, NIGH_OVERLOADED, false);
        }
    }
    /* 1, 2, 4 ... 256 ms, each between a half and one and a half of it. */
    assert_in_range(theirs[1].calls, 8, 11);
    assert_int_equal(calls_counts(calls)->retried, theirs[1].calls - 1);
    before = theirs[1].calls;
    for (uint64_t begin_us = now_us; now_us < begin_us + 10000000; pass(500)) {
        while (theirs[1].asked_count > 0) {
            refuse(1, NIGH_OVERLOADED, false);
        }
    }
    assert_in_range(theirs[1].calls - before, 20, 80);
    ended_once(0, NIGH_TIMEOUT, 1);
    assert_int_equal(calls_under_way(calls), 0);
}

static void what_rests_can_be_cancelled(void **state)
{
    struct calls_call call = call_of(1, 0);

    (void)state;
    call.idempotent = true;
    link_down(1);
    begin_call(call);
    call.caller.cookie = 1;
    begin_call(call);
    assert_int_equal(ends, 0);
    assert_true(calls_cancel(calls, 1, 0, now_us));
    ended_once(0, NIGH_CANCELED, 1);
    calls_forget(calls, 1, now_us);
    ended_once(1, NIGH_CANCELED, 1);
    assert_int_equal(calls_under_way(calls), 0);
    pass(1000000);
    assert_int_equal(ends, 2);
}

/* Its service ends, and comes again at the same node, or another comes. */
static void a_service_that_went_is_waited_for(void **state)
{
    struct calls_call call = call_of(1, 0);

    (void)state;
    call.idempotent = true;
    begin_call(call);
    refuse(1, NIGH_CLOSED, true);
    offer_it(2);
    begin_any(1, true);
    refuse(2, NIGH_CLOSED, true);
    for (uint32_t n = 0; n < 5; n++) {
        pass(50000);
        while (theirs[1].asked_count > 0) {
            refuse(1, NIGH_NOT_FOUND, false);
        }
        while (theirs[2].asked_count > 0) {
            refuse(2, NIGH_NOT_FOUND, false);
        }
    }
    assert_int_equal(ends, 0);
    pass(1000000);
    answer(1, NIGH_OK);
    answer(2, NIGH_OK);
    ended_once(0, NIGH_OK, 1);
    ended_once(1, NIGH_OK, 2);
    /* One that never was there is not. */
    call.caller.cookie = 2;
    begin_call(call);
    refuse(1, NIGH_NOT_FOUND, false);
    ended_once(2, NIGH_NOT_FOUND, 1);
}

/* Who served it does not come again. */
static void what_rests_has_its_deadline(void **state)
{
    (void)state;
    offer_it(1);
    begin_any(0, true);
    link_down(1);
    pass(9900000);
    assert_int_equal(times[0], 0);
    pass(200000);
    ended_once(0, NIGH_TIMEOUT, 1);
    assert_int_equal(calls_under_way(calls), 0);
}

/* A link that is not up yet. */
static void a_node_that_comes_is_called(void **state)
{
    struct calls_call call = call_of(1, 0);

    (void)state;
    call.idempotent = true;
    link_down(1);
    begin_call(call);
    pass(50000);
    link_up(1);
    pass(200000);
    answer(1, NIGH_OK);
    ended_once(0, NIGH_OK, 1);
}

/* Its own service ends, and another takes its name; what it had not answered is asked again. */
static void what_was_asked_at_home_goes_on(void **state)
{
    (void)state;
    offer_it(3);
    serve_here(true);
    begin_any(0, true);
    begin_any(1, false);
    assert_int_equal(here, 2);
    serve_here(false);
    ended_once(1, NIGH_CLOSED, SELF);
    assert_int_equal(times[0], 0);
    answer(3, NIGH_OK);
    ended_once(0, NIGH_OK, 3);
}

/* ---- links that have not come --------------------------------------------- */

static struct calls_call call_for(uint32_t rank, uint32_t cookie, uint64_t us)
{
    struct calls_call call = call_of(rank, cookie);

    call.deadline_us = now_us + us;
    return call;
}

static void a_link_that_comes_is_waited_for(void **state)
{
    (void)state;
    link_down(1);
    calls_peer(calls, 1, false, now_us); /* as at the start, and when the node is up again */
    begin_call(call_for(1, 0, 60000000));
    begin_call(call_for(1, 1, 60000000));
    pass(LIMIT_CALL_LINK_US / 2);
    assert_int_equal(ends, 0);
    link_up(1);
    settle();
    assert_int_equal(theirs[1].calls, 2);
    /* That it had waited for its link does not end it. */
    pass(LIMIT_CALL_LINK_US);
    assert_int_equal(ends, 0);
    answer(1, NIGH_OK);
    answer(1, NIGH_OK);
    ended_once(0, NIGH_OK, 1);
    ended_once(1, NIGH_OK, 1);
}

static void a_link_that_does_not_come_has_its_time(void **state)
{
    (void)state;
    link_down(1);
    calls_peer(calls, 1, false, now_us);
    begin_call(call_for(1, 0, 1000000));
    begin_call(call_for(1, 1, 60000000));
    pass(1001000);
    ended_once(0, NIGH_TIMEOUT, 1);
    assert_int_equal(times[1], 0);
    pass(LIMIT_CALL_LINK_US - 1000000);
    ended_once(1, NIGH_PEER_LOST, 1);
    assert_false(had_it[0] || had_it[1]);
    /* Any server is one that is there. */
    begin_any(2, false);
    ended_once(2, NIGH_NOT_FOUND, CALLS_ANY);
}

static void a_node_that_is_lost_is_not_waited_for(void **state)
{
    (void)state;
    link_down(1);
    begin_call(call_for(1, 0, 60000000));
    ended_once(0, NIGH_PEER_LOST, 1);
    assert_false(had_it[0]);
    calls_peer(calls, 1, false, now_us);
    begin_call(call_for(1, 1, 60000000));
    assert_int_equal(times[1], 0);
    calls_peer(calls, 1, true, now_us);
    ended_once(1, NIGH_PEER_LOST, 1);
    link_up(1);
    begin_call(call_for(1, 2, 60000000));
    link_down(1);
    ended_once(2, NIGH_PEER_LOST, 1);
    assert_true(had_it[2]); /* it may have been */
}

/* ---- what others are told ------------------------------------------------- */

/* Two links lead to a node: who waits for one that is lost does so behind nobody who waits for a
 * place of the other. */
static void a_lost_link_beside_a_full_one_is_not_waited_for(void **state)
{
    struct calls_call late = call_of(1, 100), beside = call_of(1, 101);
    uint32_t cookie = 0;

    (void)state;
    while (theirs[1].calls == cookie) {
        begin_call(call_of(1, cookie++)); /* the last waits for a place */
    }
    late.service = beside.service = BESIDE;
    beside_is_down = true;
    begin_call(late);
    assert_int_equal(times[100], 0); /* it may come */
    calls_channel_down(calls, theirs[2].rpc, 1, now_us);
    ended_once(100, NIGH_PEER_LOST, 1);
    begin_call(beside);
    ended_once(101, NIGH_PEER_LOST, 1);
    assert_int_equal(times[cookie - 1], 0);
    answer(1, NIGH_OK);
    assert_int_equal(theirs[1].calls, cookie);
}

/* The same, where it only does not come in its time. */
static void a_late_link_beside_a_full_one_has_its_time(void **state)
{
    struct calls_call late = call_of(1, 100);
    uint32_t cookie = 0;

    (void)state;
    while (theirs[1].calls == cookie) {
        struct calls_call call = call_of(1, cookie++);

        call.deadline_us = UINT64_MAX;
        begin_call(call);
    }
    late.service = BESIDE;
    late.deadline_us = now_us + 2 * LIMIT_CALL_LINK_US;
    beside_is_down = true;
    begin_call(late);
    pass(LIMIT_CALL_LINK_US + 1000);
    ended_once(100, NIGH_PEER_LOST, 1);
}

static void others_are_told(void **state)
{
    (void)state;
    settle();
    assert_int_equal(theirs[1].offers, 0); /* of nothing */
    serve_here(true);
    for (uint32_t rank = 1; rank < NODES; rank++) {
        assert_int_equal(theirs[rank].offers, 1);
        assert_int_equal(theirs[rank].told_count, 1);
    }
    serve_here(false);
    assert_int_equal(theirs[1].offers, 2);
    assert_int_equal(theirs[1].told_count, 0);
    serve_here(true);
    link_down(1);
    link_up(1);
    settle();
    assert_int_equal(theirs[1].offers, 1);
    assert_int_equal(theirs[1].told_count, 1);
    assert_int_equal(theirs[2].offers, 3);
}

/* One message at a time, and the newest until it has arrived. */
static void who_does_not_hear_is_told_again(void **state)
{
    struct calls_service services[2] = {{.hash = SERVICE, .tag = &here}, {.hash = 9, .tag = &here}};

    (void)state;
    theirs[1].is_mute = true;
    serve_here(true);
    assert_int_equal(theirs[1].offers, 1);
    for (uint32_t n = 0; n < 10; n++) {
        calls_set_services(calls, services, 1 + n % 2, now_us);
        settle();
    }
    assert_int_equal(theirs[1].offers, 1);
    assert_in_range(theirs[2].offers, 2, 11);
    pass(3000000);
    assert_int_equal(theirs[1].offers, 2);
    theirs[1].is_mute = false;
    pass(3000000);
    assert_int_equal(theirs[1].told_count, 2);
    assert_in_range(theirs[1].offers, 3, 4);
    pass(9000000);
    assert_in_range(theirs[1].offers, 3, 4);
}

/* ---- urgent --------------------------------------------------------------- */

static void begin_many(uint32_t first, uint32_t count, bool urgent)
{
    for (uint32_t n = 0; n < count; n++) {
        struct calls_call call = call_of(1, first + n);

        call.urgent = urgent;
        begin_call(call);
    }
}

static void the_urgent_go_first(void **state)
{
    (void)state;
    begin_many(0, 30, false);
    assert_int_equal(theirs[1].calls, PLACES);
    begin_many(100, 12, true);
    assert_int_equal(theirs[1].calls, PLACES + URGENT);
    for (uint32_t n = 0; n < 4; n++) {
        answer(1, NIGH_OK);
    }
    /* 100 and 101 went, and now four more of them. */
    assert_int_equal(theirs[1].calls, PLACES + URGENT + 4);
    while (theirs[1].asked_count > 0) {
        answer(1, NIGH_OK);
    }
    assert_int_equal(ends, 42);
}

/* However many urgent ones come, the others go on. */
static void the_others_have_their_turn(void **state)
{
    (void)state;
    begin_many(0, 20, false);
    begin_many(100, 20, true);
    for (uint32_t n = 0; n < 90; n++) {
        answer(1, NIGH_OK);
        begin_many(120 + n, 1, true);
    }
    for (uint32_t n = 0; n < 20; n++) {
        assert_int_equal(times[n], 1);
    }
}

/* ---- shares of a link ------------------------------------------------------ */

static void begin_for(uint64_t service, uint32_t first, uint32_t count, uint64_t timeout_us)
{
    for (uint32_t n = 0; n < count; n++) {
        struct calls_call call = call_of(1, first + n);

        call.service = service;
        call.deadline_us = now_us + timeout_us;
        begin_call(call);
    }
}

/* The one that came last. */
static void answer_last(uint32_t rank)
{
    struct end *end = &theirs[rank];

    assert_true(end->asked_count > 0);
    rpc_reply(end->rpc, end->asked[--end->asked_count], NIGH_OK, NULL, 0);
    settle();
}

/* Whether it answers or not: there is nobody to leave places to. */
static void who_is_called_alone_has_all_places(void **state)
{
    (void)state;
    begin_for(SERVICE, 0, PLACES, 100000);
    begin_for(SERVICE, 100, 20, 10000000);
    pass(99000);
    assert_int_equal(theirs[1].calls, PLACES);
    pass(2000);
    assert_int_equal(theirs[1].calls, 2 * PLACES);
}

/* All go at once; but when they end without an answer, their places are for others, too. */
static void who_does_not_answer_has_half_of_the_places(void **state)
{
    (void)state;
    begin_for(BESIDE, 90, 1, 10000000);
    answer(1, NIGH_OK);
    begin_for(SERVICE, 0, PLACES, 100000);
    begin_for(SERVICE, 100, 20, 10000000);
    assert_int_equal(theirs[1].calls, 1 + PLACES);
    pass(101000);
    assert_int_equal(theirs[1].asked_count, PLACES / 2);
    begin_for(BESIDE, 200, PLACES, 10000000);
    assert_int_equal(theirs[1].asked_count, PLACES);
    for (uint32_t n = 0; n < PLACES; n++) {
        answer_last(1);
    }
    assert_int_equal(theirs[1].asked_count, PLACES / 2);
    for (uint32_t n = 0; n < PLACES; n++) {
        assert_int_equal(times[200 + n], 1);
    }
    answer(1, NIGH_OK); /* it answers: the others go */
    assert_int_equal(theirs[1].asked_count, PLACES);
}

/* However long it takes, as long as something comes. */
static void who_answers_has_all_places(void **state)
{
    (void)state;
    begin_for(SERVICE, 0, 40, 10000000);
    for (uint32_t n = 0; n < 20; n++) {
        pass(LIMIT_CALL_SILENT_US - 2000);
        begin_for(BESIDE, 100 + n, 1, 10000000);
        answer(1, NIGH_OK);
        assert_true(theirs[1].asked_count >= PLACES);
    }
}

/* One that took all before it stood still: the others go on, over places of the urgent. */
static void who_stands_still_stops_nobody(void **state)
{
    (void)state;
    begin_for(SERVICE, 0, 30, 10000000);
    begin_for(BESIDE, 100, 3, 10000000);
    assert_int_equal(theirs[1].calls, PLACES);
    assert_true(calls_due_us(calls) <= now_us + LIMIT_CALL_SILENT_US);
    pass(LIMIT_CALL_SILENT_US + 1000);
    assert_int_equal(theirs[1].calls, PLACES + 1); /* and one is left for the urgent */
    for (uint32_t n = 0; n < 50; n++) {
        answer_last(1);
        assert_int_equal(times[100 + n], 1);
        begin_for(BESIDE, 103 + n, 1, 10000000);
        assert_int_equal(theirs[1].asked_count, PLACES + 1);
    }
    begin_many(200, 3, true); /* of the one that stands still, which has its share */
    assert_int_equal(theirs[1].asked_count, PLACES + 1);
    for (uint32_t n = 0; n < PLACES; n++) {
        answer(1, NIGH_OK);
    }
    assert_true(times[29] == 0 && times[15] == 1);
}

/* One that has answered all is not silent, however long it waits for a place: and none of the time
 * that it waited is held against it when it has one. */
static void who_waits_is_not_silent(void **state)
{
    (void)state;
    begin_for(BESIDE, 100, 1, 10000000);
    begin_for(SERVICE, 0, 30, 10000000);
    begin_for(BESIDE, 101, 1, 10000000);
    answer(1, NIGH_OK);
    assert_int_equal(times[100], 1);
    assert_int_equal(theirs[1].asked_count, PLACES); /* all of the other's */
    pass(3 * LIMIT_CALL_SILENT_US);
    assert_int_equal(theirs[1].asked_count, PLACES + 1);
    answer_last(1);
    assert_int_equal(times[101], 1);
}

/* Those that wait for one service are not before those that wait for another. */
static void services_take_turns(void **state)
{
    (void)state;
    begin_for(SERVICE, 0, 40, 10000000);
    begin_for(BESIDE, 100, 1, 10000000);
    answer(1, NIGH_OK);
    answer(1, NIGH_OK);
    assert_int_equal(theirs[1].calls, PLACES + 2);
    answer_last(1);
    assert_int_equal(times[100], 1);
}

/* ---- anything ------------------------------------------------------------- */

static void random_step(uint64_t *random, uint32_t *cookie)
{
    uint32_t rank = 1 + (uint32_t)(support_random(random) >> 33) % (NODES - 1);
    uint32_t what = (uint32_t)(support_random(random) >> 33) % 16;
    struct calls_call call = call_of(what % 2 == 0 ? CALLS_ANY : rank, *cookie);

    if (what < 7 && *cookie < COOKIES && calls_under_way(calls) < 100) {
        call.idempotent = (support_random(random) >> 40) % 2 == 0;
        call.urgent = (support_random(random) >> 40) % 2 == 0;
        call.one_way = (support_random(random) >> 40) % 8 == 0;
        call.deadline_us = now_us + (support_random(random) >> 44) % 2000000;
        (*cookie)++;
        begin_call(call);
    } else if (what < 9 && theirs[rank].asked_count > 0) {
        answer(rank, NIGH_OK);
    } else if (what < 11 && theirs[rank].asked_count > 0) {
        refuse(rank, what == 9 ? NIGH_OVERLOADED : NIGH_NOT_FOUND,
               (support_random(random) >> 40) % 2);
    } else if (what == 11 && ours[rank].up) {
        link_down(rank);
    } else if (what == 12 && !ours[rank].up) {
        link_up(rank);
    } else if (what == 13 && ours[rank].up) {
        offer_it(rank);
    } else if (what == 14) {
        serve_here((support_random(random) >> 40) % 2 == 0);
    } else if (what == 15 && *cookie > 0) {
        (void)calls_cancel(calls, 1, (uint32_t)(support_random(random) >> 33) % *cookie, now_us);
    }
    settle();
    pass((support_random(random) >> 50) % 3000);
}

static void each_call_ends_once_whatever_happens(void **state)
{
    uint64_t seed = support_seed(), end_us = support_now_us() + support_budget_ms(1500) * 1000;
    uint32_t lives = 0;

    for (; lives < 20 || support_now_us() < end_us; lives++) {
        uint64_t random = seed + lives * UINT64_C(0x9e3779b97f4a7c15) + 1;
        uint32_t cookie = 0;

        for (uint32_t n = 0; n < 400; n++) {
            random_step(&random, &cookie);
        }
        serve_here(false);
        pass(2100000);
        assert_int_equal(calls_under_way(calls), 0);
        for (uint32_t n = 0; n < cookie; n++) {
            assert_int_equal(times[n], 1);
        }
        (void)tear_down(state);
        (void)set_up(state);
    }
    printf("# %u lives\n", lives);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_says_so_is_called),
        TEST(the_own_node_is_first),
        TEST(who_has_least_to_do_is_next),
        TEST(who_holds_most_is_first),
        TEST(who_comes_back_takes_turns),
        TEST(rubbish_offers_are_refused),
        TEST(who_does_not_have_it_is_passed_by),
        TEST(what_a_service_says_is_the_end),
        TEST(what_may_have_been_done_is_not_done_again),
        TEST(why_a_link_ended_is_not_how_a_call_does),
        TEST(what_may_be_done_twice_goes_on),
        TEST(what_comes_back_late_goes_nowhere),
        TEST(rests_grow),
        TEST(what_rests_can_be_cancelled),
        TEST(what_rests_has_its_deadline),
        TEST(a_service_that_went_is_waited_for),
        TEST(a_node_that_comes_is_called),
        TEST(what_was_asked_at_home_goes_on),
        TEST(a_link_that_comes_is_waited_for),
        TEST(a_link_that_does_not_come_has_its_time),
        TEST(a_node_that_is_lost_is_not_waited_for),
        TEST(a_lost_link_beside_a_full_one_is_not_waited_for),
        TEST(a_late_link_beside_a_full_one_has_its_time),
        TEST(others_are_told),
        TEST(who_does_not_hear_is_told_again),
        TEST(the_urgent_go_first),
        TEST(the_others_have_their_turn),
        TEST(who_is_called_alone_has_all_places),
        TEST(who_does_not_answer_has_half_of_the_places),
        TEST(who_answers_has_all_places),
        TEST(who_stands_still_stops_nobody),
        TEST(who_waits_is_not_silent),
        TEST(services_take_turns),
        TEST(each_call_ends_once_whatever_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
