/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a lane (rpc/calls.h): two nodes with one channel, whose frames are handed over when
 * the test says so.
 */
#include <stdlib.h>
#include <string.h>

#include "calls_frames.h"
#include "rpc/calls.h"
#include "support/support.h"

#define SERVICE UINT64_C(77)
#define FRAMES  256
#define PLACES  4 /* calls of a channel */

struct side {
    struct side *other;
    struct calls *calls;
    struct rpc *rpc;
    bool up;
    struct frame *frames[FRAMES]; /* on their way to this side */
    uint32_t first, last;
    /* What its callers heard. */
    uint32_t ends;
    nigh_status status[64]; /* by cookie */
    uint32_t times[64];
    uint8_t reply[64][16];
    uint32_t reply_bytes[64];
    /* What its service was asked. */
    uint32_t asked;
    struct calls_request request[64];
    uint64_t call; /* the last, as its channel names it */
    bool answers;  /* at once, with what it was asked */
    uint8_t memory[64][LIMIT_CALL_BYTES];
    bool memory_is_gone;
};

static struct side sides[2];
static uint64_t now_us;
static uint8_t tags[6]; /* of services other than the one of both sides */

static void on_send(void *context, const struct rpc_header *header, const struct rpc_piece *pieces,
                    uint32_t count)
{
    struct side *side = context;

    assert_true(side->other->last - side->other->first < FRAMES);
    side->other->frames[side->other->last++ % FRAMES] = frame_of(header, pieces, count);
}

static void on_rpc_request(void *context, const struct rpc_request *request, uint64_t at_us)
{
    struct side *side = context;

    side->call = request->call;
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

    (void)hash;
    assert_ptr_equal(&sides[rank], side->other);
    return side->up ? side->rpc : NULL;
}

static const uint8_t *on_bytes(void *context, const struct calls_caller *caller)
{
    struct side *side = context;

    return side->memory_is_gone ? NULL : side->memory[caller->cookie];
}

static void on_ended(void *context, const struct calls_caller *caller, const struct calls_end *end)
{
    struct side *side = context;

    side->ends++;
    side->times[caller->cookie]++;
    side->status[caller->cookie] = end->status;
    side->reply_bytes[caller->cookie] = end->count;
    if (end->count > 0) {
        memcpy(side->reply[caller->cookie], end->bytes, end->count < 16 ? end->count : 16);
    }
}

static void on_request(void *context, void *tag, const struct calls_request *request)
{
    struct side *side = context;

    assert_true(tag == side || ((uint8_t *)tag >= tags && (uint8_t *)tag < tags + sizeof tags));
    side->request[side->asked++] = *request;
    if (side->answers && request->id != 0) {
        assert_true(
            calls_reply(side->calls, request->id, NIGH_OK, request->bytes, request->count, now_us));
    }
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
                                      .calls = 16,
                                      .requests = 8,
                                      .number = 3,
                                      .shell = {.context = side,
                                                .channel = on_channel,
                                                .bytes = on_bytes,
                                                .ended = on_ended,
                                                .request = on_request}};
        struct rpc_config rpc = {.requests = PLACES,
                                 .calls = PLACES,
                                 .payload_bytes = CALLS_PAYLOAD,
                                 .shell = {.context = side,
                                           .send = on_send,
                                           .request = on_rpc_request,
                                           .canceled = on_rpc_canceled}};

        side->other = &sides[1 - n];
        side->up = side->answers = true;
        assert_int_equal(calls_create(&config, &side->calls), NIGH_OK);
        assert_int_equal(rpc_create(&rpc, &side->rpc), NIGH_OK);
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
    frame = side->frames[side->first++ % FRAMES];
    assert_int_equal(rpc_receive(side->rpc, frame->data, frame->bytes, now_us), NIGH_OK);
    free(frame);
    return true;
}

/* Everything that is on its way arrives, and time stands still. */
static void settle(void)
{
    bool any;

    do {
        any = deliver(&sides[0]);
        any = deliver(&sides[1]) || any;
        any = calls_tick(sides[0].calls, now_us) || any;
        any = calls_tick(sides[1].calls, now_us) || any;
        assert_true(calls_is_valid(sides[0].calls) && calls_is_valid(sides[1].calls));
    } while (any);
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        rpc_end(sides[n].rpc, NIGH_PEER_LOST, now_us);
        calls_channel_down(sides[n].calls, sides[n].rpc, 1 - n, now_us);
        calls_destroy(sides[n].calls);
        rpc_destroy(sides[n].rpc);
        while (sides[n].first != sides[n].last) {
            free(sides[n].frames[sides[n].first++ % FRAMES]);
        }
    }
    return 0;
}

static struct calls_call call_of(uint32_t rank, uint32_t cookie)
{
    return (struct calls_call){
        .service = SERVICE,
        .deadline_us = UINT64_MAX,
        .rank = rank,
        .caller = {.owner = 5, .cookie = cookie, .uid = 42, .bytes = 3, .room = 16}};
}

static void begin(uint32_t rank, uint32_t cookie)
{
    struct calls_call call = call_of(rank, cookie);

    memcpy(sides[0].memory[cookie], "ask", 3);
    calls_begin(sides[0].calls, &call, now_us);
    assert_true(calls_is_valid(sides[0].calls));
}

static void calls_end_once_with_the_answer(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        begin(rank, rank);
        settle();
        assert_int_equal(sides[0].times[rank], 1);
        assert_int_equal(sides[0].status[rank], NIGH_OK);
        assert_int_equal(sides[0].reply_bytes[rank], 3);
        assert_memory_equal(sides[0].reply[rank], "ask", 3);
        assert_int_equal(sides[rank].request[0].uid, 42);
        assert_int_equal(sides[rank].request[0].rank, 0);
        assert_int_equal(calls_lane_of(sides[rank].request[0].id), 3);
    }
    assert_int_equal(calls_under_way(sides[0].calls), 0);
}

static uint64_t counted(const struct calls_times *times)
{
    uint64_t count = 0;

    for (uint32_t n = 0; n < CALLS_TIMES; n++) {
        count += times->buckets[n];
    }
    return count;
}

/* From the beginning of a call to its answer; of what its service did not answer nothing. */
static void answers_are_timed(void **state)
{
    const struct calls_counts *here = calls_counts(sides[0].calls);
    const struct calls_counts *there = calls_counts(sides[1].calls);

    (void)state;
    sides[0].answers = sides[1].answers = false;
    for (uint32_t rank = 0; rank < 2; rank++) {
        begin(rank, rank);
        now_us += 10;
        settle();
        now_us += 1014;
        assert_true(
            calls_reply(sides[rank].calls, sides[rank].request[0].id, NIGH_OK, NULL, 0, now_us));
        settle();
    }
    assert_true(counted(&here->here) == 1 && here->here.buckets[10] == 1); /* 1024 us: up to that */
    assert_true(counted(&here->there) == 1 && here->there.buckets[10] == 1);
    assert_true(here->here.sum_us == 1024 && here->there.sum_us == 1024);
    assert_true(counted(&here->served) == 1 && here->served.sum_us == 1024);
    assert_true(counted(&there->served) == 1 && there->served.sum_us == 1014);
    begin(1, 2);
    settle();
    assert_true(calls_cancel(sides[0].calls, 5, 2, now_us));
    settle();
    assert_true(counted(&here->there) == 1 && counted(&there->served) == 1);
    /* One that is answered in a turn that begins before the one that heard of it took no time. */
    begin(0, 3);
    settle();
    now_us -= 10;
    assert_true(calls_reply(sides[0].calls, sides[0].request[1].id, NIGH_OK, NULL, 0, now_us));
    settle();
    assert_true(counted(&here->here) == 2 && here->here.sum_us == 1024);
    assert_true(counted(&here->served) == 2 && here->served.sum_us == 1024);
}

static void times_have_a_bucket_each(void **state)
{
    struct calls_times times = {0};

    (void)state;
    calls_note_time(&times, 0);
    calls_note_time(&times, 1);
    calls_note_time(&times, 2);
    calls_note_time(&times, 3);
    calls_note_time(&times, UINT64_C(1) << 24);
    calls_note_time(&times, (UINT64_C(1) << 24) + 1);
    assert_true(times.buckets[0] == 2 && times.buckets[1] == 1 && times.buckets[2] == 1);
    assert_true(times.buckets[24] == 1 && times.buckets[25] == 1);
}

/* A status that its service gave ends no call for want of an answer. */
static void ends_are_counted_by_why(void **state)
{
    const struct calls_counts *counts = calls_counts(sides[0].calls);
    struct calls_call call = call_of(1, 1);

    (void)state;
    sides[0].answers = sides[1].answers = false;
    for (uint32_t rank = 0; rank < 2; rank++) {
        begin(rank, 0);
        settle();
        assert_true(calls_reply(sides[rank].calls, sides[rank].request[0].id,
                                rank == 0 ? NIGH_TIMEOUT : NIGH_OVERLOADED, NULL, 0, now_us));
        settle();
    }
    assert_int_equal(counts->begun, 2);
    assert_int_equal(counts->taken, 1);
    assert_int_equal(calls_counts(sides[1].calls)->taken, 1);
    assert_int_equal(counts->timed_out + counts->busy + counts->lost, 0);
    call.deadline_us = now_us + 100;
    calls_begin(sides[0].calls, &call, now_us);
    settle();
    now_us += 100;
    (void)rpc_tick(sides[0].rpc, now_us);
    settle();
    assert_int_equal(counts->timed_out, 1);
    for (uint32_t n = 0; n < 17; n++) {
        begin(1, n);
    }
    assert_int_equal(counts->busy, 1);
    sides[0].up = false;
    rpc_end(sides[0].rpc, NIGH_PEER_LOST, now_us);
    calls_channel_down(sides[0].calls, sides[0].rpc, 1, now_us);
    assert_int_equal(counts->lost, 16);
    assert_int_equal(counts->begun, 20);
    assert_int_equal(counts->timed_out, 1);
    assert_int_equal(calls_under_way(sides[0].calls), 0);
}

/* What a service of its own node is asked is a copy: the caller may write to the original. */
static void a_request_at_home_is_a_copy(void **state)
{
    (void)state;
    sides[0].answers = false;
    begin(0, 1);
    assert_int_equal(sides[0].asked, 1);
    assert_ptr_not_equal(sides[0].request[0].bytes, sides[0].memory[1]);
    assert_true(calls_reply(sides[0].calls, sides[0].request[0].id, NIGH_IN_USE, NULL, 0, now_us));
    assert_int_equal(sides[0].status[1], NIGH_IN_USE);
    assert_int_equal(sides[0].times[1], 1);
}

static void what_cannot_be_called_ends_at_once(void **state)
{
    struct calls_call call = call_of(1, 0);

    (void)state;
    call.service = 78;
    calls_begin(sides[0].calls, &call, now_us);
    settle();
    assert_int_equal(sides[0].status[0], NIGH_NOT_FOUND);
    call = call_of(2, 1);
    calls_begin(sides[0].calls, &call, now_us);
    assert_int_equal(sides[0].status[1], NIGH_INVALID);
    call = call_of(1, 2);
    call.caller.bytes = LIMIT_CALL_BYTES + 1;
    calls_begin(sides[0].calls, &call, now_us);
    assert_int_equal(sides[0].status[2], NIGH_INVALID);
    sides[0].memory_is_gone = true;
    begin(1, 3);
    begin(0, 4);
    assert_int_equal(sides[0].status[3], NIGH_INVALID);
    assert_int_equal(sides[0].status[4], NIGH_INVALID);
    sides[0].up = false;
    calls_peer(sides[0].calls, 1, true, now_us);
    begin(1, 5);
    assert_int_equal(sides[0].status[5], NIGH_PEER_LOST);
    assert_int_equal(sides[0].ends, 6);
}

/* More than the channel has places for wait, in their order; more than there are places here are
 * refused. */
static void calls_wait_for_places_and_are_bounded(void **state)
{
    (void)state;
    sides[1].answers = false;
    for (uint32_t n = 0; n < 17; n++) {
        begin(1, n);
    }
    assert_int_equal(sides[0].status[16], NIGH_OVERLOADED);
    assert_int_equal(sides[0].ends, 1);
    settle();
    assert_int_equal(sides[1].asked, PLACES);
    for (uint32_t n = 0; n < 16; n++) {
        assert_true(
            calls_reply(sides[1].calls, sides[1].request[n].id, NIGH_OK, (uint8_t *)&n, 1, now_us));
        settle();
        assert_int_equal(sides[0].times[n], 1);
        assert_int_equal(sides[0].reply[n][0], n);
    }
    assert_int_equal(calls_under_way(sides[0].calls), 0);
    assert_int_equal(calls_unanswered(sides[1].calls), 0);
}

/* One-way messages have no end at the channel: credits alone let them go on. */
static void messages_wait_for_credits(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 16; n++) {
        struct calls_call call = call_of(1, n);

        call.one_way = true;
        calls_begin(sides[0].calls, &call, now_us);
    }
    assert_int_equal(sides[0].ends, PLACES);
    settle();
    assert_int_equal(sides[0].ends, 16);
    assert_int_equal(sides[1].asked, 16);
    assert_int_equal(sides[1].request[0].id, 0);
    assert_int_equal(calls_unanswered(sides[1].calls), 0);
}

static void deadlines_hold_wherever_a_call_is(void **state)
{
    (void)state;
    sides[0].answers = sides[1].answers = false;
    for (uint32_t n = 0; n < PLACES + 3; n++) { /* sent, waiting, at home */
        struct calls_call call = call_of(n < PLACES + 2, n);

        call.deadline_us = now_us + 100;
        calls_begin(sides[0].calls, &call, now_us);
    }
    settle();
    assert_int_equal(sides[0].ends, 0);
    assert_int_equal(calls_due_us(sides[0].calls), now_us + 100);
    now_us += 100;
    (void)rpc_tick(sides[0].rpc, now_us);
    settle();
    for (uint32_t n = 0; n < PLACES + 3; n++) {
        assert_int_equal(sides[0].times[n], 1);
        assert_int_equal(sides[0].status[n], NIGH_TIMEOUT);
    }
    assert_int_equal(calls_under_way(sides[0].calls), 0);
    /* What its services say now is for nobody. */
    assert_false(calls_reply(sides[0].calls, sides[0].request[0].id, NIGH_OK, NULL, 0, now_us));
    (void)calls_reply(sides[1].calls, sides[1].request[0].id, NIGH_OK, NULL, 0, now_us);
    settle();
    assert_int_equal(sides[0].ends, PLACES + 3);
}

static void cancels_end_calls_wherever_they_are(void **state)
{
    (void)state;
    sides[0].answers = sides[1].answers = false;
    for (uint32_t n = 0; n < PLACES + 2; n++) {
        begin(1, n);
    }
    begin(0, PLACES + 2);
    settle();
    assert_false(calls_cancel(sides[0].calls, 4, 0, now_us)); /* another's */
    for (uint32_t n = PLACES + 3; n-- > 0;) {
        assert_true(calls_cancel(sides[0].calls, 5, n, now_us));
        assert_false(calls_cancel(sides[0].calls, 5, n, now_us));
        assert_int_equal(sides[0].status[n], NIGH_CANCELED);
        assert_int_equal(sides[0].times[n], 1);
    }
    settle();
    assert_int_equal(calls_under_way(sides[0].calls), 0);
    assert_int_equal(calls_unanswered(sides[0].calls), 0);
}

static void an_owner_that_goes_takes_its_calls_along(void **state)
{
    struct calls_call other = call_of(1, 20);

    (void)state;
    sides[0].answers = sides[1].answers = false;
    other.caller.owner = 6;
    for (uint32_t n = 0; n < PLACES + 2; n++) {
        begin(1, n);
    }
    begin(0, PLACES + 2);
    calls_begin(sides[0].calls, &other, now_us);
    calls_forget(sides[0].calls, 5, now_us);
    assert_int_equal(calls_under_way(sides[0].calls), 1);
    assert_int_equal(sides[0].times[20], 0);
    settle();
    assert_true(calls_is_valid(sides[0].calls));
}

static void a_lost_node_ends_all_that_it_was_asked(void **state)
{
    (void)state;
    sides[1].answers = false;
    for (uint32_t n = 0; n < PLACES + 5; n++) {
        begin(1, n);
    }
    settle();
    sides[0].up = sides[1].up = false;
    for (uint32_t n = 0; n < 2; n++) {
        rpc_end(sides[n].rpc, NIGH_PEER_LOST, now_us);
        calls_channel_down(sides[n].calls, sides[n].rpc, 1 - n, now_us);
    }
    for (uint32_t n = 0; n < PLACES + 5; n++) {
        assert_int_equal(sides[0].times[n], 1);
        assert_int_equal(sides[0].status[n], NIGH_PEER_LOST);
    }
    assert_int_equal(calls_unanswered(sides[1].calls), 0);
    assert_false(calls_reply(sides[1].calls, sides[1].request[0].id, NIGH_OK, NULL, 0, now_us));
}

static void a_service_that_goes_answers_closed(void **state)
{
    struct calls_service another = {.hash = 99, .tag = &now_us};

    (void)state;
    sides[0].answers = sides[1].answers = false;
    begin(1, 0);
    settle();
    begin(0, 1);
    for (uint32_t n = 0; n < 2; n++) {
        calls_set_services(sides[n].calls, &another, 1, now_us);
    }
    settle();
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(sides[0].status[n], NIGH_CLOSED);
        assert_int_equal(sides[0].times[n], 1);
        assert_null(calls_request_tag(sides[1 - n].calls, sides[1 - n].request[0].id));
    }
}

/* The services of side 0 whose bits are set. */
static void serve_some(uint32_t some)
{
    struct calls_service services[sizeof tags];
    uint32_t count = 0;

    for (uint32_t n = 0; n < sizeof tags; n++) {
        if ((some & 1u << n) != 0) {
            services[count++] = (struct calls_service){.hash = 100 + n, .tag = &tags[n]};
        }
    }
    calls_set_services(sides[0].calls, services, count, now_us);
    assert_true(calls_is_valid(sides[0].calls));
}

/* What the others were asked stays, wherever they come and go between. */
static void a_service_that_goes_ends_what_is_its_own(void **state)
{
    static const struct {
        uint32_t some, ended; /* of those whose bits are set */
    } steps[] = {{0x1f, 0x00}, {0x15, 0x0a}, {0x35, 0x0a}, {0x3d, 0x0a},
                 {0x3c, 0x0b}, {0x0d, 0x1b}, {0x00, 0x1f}};

    (void)state;
    sides[0].answers = false;
    for (uint32_t step = 0; step < sizeof steps / sizeof steps[0]; step++) {
        serve_some(steps[step].some);
        for (uint32_t n = 0; n < 5 && step == 0; n++) {
            struct calls_call call = {
                .service = 100 + n, .deadline_us = UINT64_MAX, .caller = {.owner = 1, .cookie = n}};

            calls_begin(sides[0].calls, &call, now_us);
        }
        for (uint32_t n = 0; n < 5; n++) {
            assert_int_equal(sides[0].times[n], steps[step].ended >> n & 1);
            assert_int_equal(sides[0].status[n],
                             (steps[step].ended >> n & 1) != 0 ? NIGH_CLOSED : NIGH_OK);
        }
    }
    assert_int_equal(calls_unanswered(sides[0].calls), 0);
}

/* A request is answered once, and an id never comes again for another. */
static void an_id_names_one_request_only(void **state)
{
    uint64_t id;

    (void)state;
    sides[1].answers = false;
    begin(1, 0);
    settle();
    id = sides[1].request[0].id;
    assert_ptr_equal(calls_request_tag(sides[1].calls, id), &sides[1]);
    assert_true(calls_reply(sides[1].calls, id, NIGH_OK, NULL, 0, now_us));
    assert_false(calls_reply(sides[1].calls, id, NIGH_OK, NULL, 0, now_us));
    settle();
    begin(1, 1);
    settle();
    assert_int_not_equal(sides[1].request[1].id, id);
    assert_false(calls_reply(sides[1].calls, id, NIGH_OK, NULL, 0, now_us));
    for (uint64_t bit = 1; bit != 0; bit <<= 1) {
        assert_false(
            calls_reply(sides[1].calls, sides[1].request[1].id ^ bit, NIGH_OK, NULL, 0, now_us));
    }
    assert_int_equal(sides[0].times[1], 0);
}

/* Requests that services have not answered are bounded; one more is refused to its caller. */
static void services_have_a_bound(void **state)
{
    (void)state;
    sides[0].answers = false;
    for (uint32_t n = 0; n < 9; n++) {
        begin(0, n);
    }
    assert_int_equal(sides[0].asked, 8);
    assert_int_equal(sides[0].status[8], NIGH_OVERLOADED);
    assert_int_equal(sides[0].ends, 1);
}

/* A service that never answers keeps nothing of a caller that has given up: what it would keep for
 * ever is of all services. */
static void a_caller_that_gives_up_is_forgotten(void **state)
{
    struct calls_call call = call_of(1, 0);

    (void)state;
    sides[1].answers = false;
    for (uint32_t n = 0; n < 20; n++) {
        call.caller.cookie = n;
        call.deadline_us = now_us + 1000;
        calls_begin(sides[0].calls, &call, now_us);
        settle();
        assert_int_equal(calls_unanswered(sides[1].calls), 1);
        assert_int_equal(sides[1].asked, n + 1);
        now_us += 2000;
        (void)rpc_tick(sides[0].rpc, now_us);
        settle();
        assert_int_equal(sides[0].status[n], NIGH_TIMEOUT);
        assert_int_equal(calls_unanswered(sides[1].calls), 0);
        assert_false(calls_reply(sides[1].calls, sides[1].request[n].id, NIGH_OK, NULL, 0, now_us));
    }
    for (uint32_t n = 20; n < 20 + PLACES; n++) {
        begin(1, n);
    }
    settle();
    for (uint32_t n = 20; n < 20 + PLACES; n++) {
        assert_true(calls_cancel(sides[0].calls, 5, n ^ 1, now_us)); /* not in their order */
        settle();
        assert_int_equal(calls_unanswered(sides[1].calls), 20 + PLACES - 1 - n);
    }
}

/* One owner is refused more than its share, while there is room for others. */
static void an_owner_has_a_bound(void **state)
{
    struct calls_config config = {
        .nodes = 2,
        .owners = 2,
        .calls = LIMIT_CALL_PLACES + 1,
        .requests = 1,
        .shell = {
            .context = &sides[0], .channel = on_channel, .bytes = on_bytes, .ended = on_ended}};
    struct calls_call call = call_of(1, 0);
    struct calls *calls;

    (void)state;
    assert_int_equal(calls_create(&config, &calls), NIGH_OK);
    call.caller.owner = 0;
    for (uint32_t n = 0; n < LIMIT_CALL_PLACES; n++) {
        calls_begin(calls, &call, now_us);
    }
    assert_int_equal(sides[0].ends, 0);
    call.caller.cookie = 1;
    calls_begin(calls, &call, now_us);
    assert_int_equal(sides[0].status[1], NIGH_OVERLOADED);
    call.caller.cookie = 2;
    call.caller.owner = 1;
    calls_begin(calls, &call, now_us);
    assert_int_equal(sides[0].times[2], 0);
    calls_forget(calls, 0, now_us);
    assert_int_equal(sides[0].times[0], LIMIT_CALL_PLACES);
    assert_int_equal(calls_under_way(calls), 1);
    assert_true(calls_is_valid(calls));
    calls_forget(calls, 1, now_us);
    calls_destroy(calls);
}

/* Whatever another node sends, its call is refused, or its status is. */
static void rubbish_is_refused(void **state)
{
    static const uint8_t rubbish[CALLS_PAYLOAD] = {1, 2, 3};
    struct rpc_piece piece = {.data = rubbish, .bytes = sizeof(struct calls_wire) - 1};
    struct rpc_request request = {
        .method = CALLS_METHOD, .payload = rubbish, .bytes = sizeof(struct calls_wire) - 1};

    (void)state;
    assert_int_equal(rpc_one_way(sides[0].rpc, CALLS_METHOD, &piece, 1, now_us), NIGH_OK);
    assert_int_equal(rpc_one_way(sides[0].rpc, 9, &piece, 1, now_us), NIGH_OK);
    settle();
    calls_take(sides[1].calls, sides[1].rpc, 0, &request, now_us);
    assert_int_equal(sides[1].asked, 0);
    sides[1].answers = false;
    begin(1, 0);
    settle();
    rpc_reply(sides[1].rpc, sides[1].call, NIGH_PENDING, &piece, 1);
    settle();
    assert_int_equal(sides[0].status[0], NIGH_PROTOCOL);
    calls_withdrawn(sides[1].calls, sides[1].rpc, sides[1].call, now_us);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(calls_end_once_with_the_answer),
        TEST(ends_are_counted_by_why),
        TEST(answers_are_timed),
        cmocka_unit_test(times_have_a_bucket_each),
        TEST(a_request_at_home_is_a_copy),
        TEST(what_cannot_be_called_ends_at_once),
        TEST(calls_wait_for_places_and_are_bounded),
        TEST(messages_wait_for_credits),
        TEST(deadlines_hold_wherever_a_call_is),
        TEST(cancels_end_calls_wherever_they_are),
        TEST(an_owner_that_goes_takes_its_calls_along),
        TEST(a_lost_node_ends_all_that_it_was_asked),
        TEST(a_service_that_goes_answers_closed),
        TEST(a_service_that_goes_ends_what_is_its_own),
        TEST(an_id_names_one_request_only),
        TEST(services_have_a_bound),
        TEST(a_caller_that_gives_up_is_forgotten),
        TEST(an_owner_has_a_bound),
        TEST(rubbish_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
