/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call between two nodes costs over RDMA, sent and written: work requests, doorbells,
 * completions, receives, bytes that a processor copies, and immediates that only tell of room.
 * Counted on the stand-in for a device (fabric-verbs-calls) and on two devices in the guest
 * (rdma-verbs-calls), where the times of both ways are printed, too; nothing depends on those.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/link_internal.h"
#include "fabric/verbs/verbs.h"
#include "object/exchange.h"
#include "rpc/calls.h"
#include "support/links_config.h"
#include "support/links_side.h"
#include "support/support.h"

#ifdef CALLS_FAKE
#include "fabric/fake_verbs.h"
#define FIRST_ADDRESS FAKE_VERBS_ADDRESS
#define OTHER_ADDRESS FAKE_VERBS_ADDRESS
#else
#define FIRST_ADDRESS "10.99.0.1"
#define OTHER_ADDRESS "10.99.0.2"
#endif

#define PATIENCE_MS 50000
#define ECHO        1u
#define CALLS       64u /* that are counted: one in 16 small frames is signalled */
#define CROWD       48u /* calls at once: more than a ring has room for */

enum {
    CALLER,
    SERVER,
    SIDES
};

static struct support_side sides[SIDES];
static uint32_t answers;
static uint8_t payload[CALLS_PAYLOAD];

/* ---- two lanes ------------------------------------------------------------- */

static void on_request(void *context, struct link *link, const struct rpc_request *request,
                       uint64_t now_us)
{
    (void)context;
    (void)now_us;
    rpc_reply(link_rpc(link), request->call, NIGH_OK, NULL, 0);
}

static void on_called(void *context, struct link *link, const struct rpc_request *request,
                      uint64_t now_us)
{
    struct rpc_piece piece = {.data = request->payload, .bytes = request->bytes};

    (void)context;
    (void)now_us;
    rpc_reply(link_calls(link), request->call, NIGH_OK, &piece, 1);
}

static void side_open(struct support_side *side, uint32_t rank, const struct members *members,
                      enum link_way way)
{
    uint32_t users = exchange_window_of(members)->users;
    const char *host = rank == 0 ? FIRST_ADDRESS : OTHER_ADDRESS;
    struct verbs_options options = {.address = host, .keepalive_ms = 3600000};
    const struct links_shell shell = {.context = side,
                                      .up = support_side_up,
                                      .down = support_side_down,
                                      .request = on_request,
                                      .bulk = support_no_bulk,
                                      .called = on_called};
    struct links_config config;
    char why[VERBS_WHY_BYTES], address[FABRIC_ADDRESS_BYTES];

#ifdef CALLS_FAKE
    options.library = fake_verbs_library();
#endif
    memset(side, 0, sizeof(*side));
    (void)snprintf(address, sizeof(address), "%s:0", host);
    assert_int_equal(verbs_create(&options, why, &side->fabric), NIGH_OK);
    support_side_listen(side, address);
    config = support_links_config(side->fabric, rank, members, &shell);
    config.calls = (struct rpc_config){
        .requests = users, .calls = exchange_users_slots(users), .payload_bytes = CALLS_PAYLOAD};
    config.calls_way = way;
    config.ring_bytes = exchange_users_ring(members);
    assert_int_equal(links_create(&config, &side->links), NIGH_OK);
}

static void turn(void)
{
    for (uint32_t i = 0; i < SIDES; i++)
        (void)links_turn(sides[i].links, support_now_us());
}

static void open_both(enum link_way way)
{
    struct members members;

#ifdef CALLS_FAKE
    fake_verbs_start();
#endif
    members_alone(&members);
    members.count = SIDES;
    for (uint32_t i = 0; i < SIDES; i++)
        side_open(&sides[i], i, &members, way);
    support_side_meet(&sides[0], &sides[1], 1, false);
    support_side_meet(&sides[1], &sides[0], 0, true);
    assert_true(SUPPORT_WAIT(({
                                 turn();
                                 sides[CALLER].link != NULL &&sides[SERVER].link != NULL &&
                                     !sides[CALLER].link->rings.measures &&
                                     !sides[SERVER].link->rings.measures;
                             }),
                             PATIENCE_MS));
}

static void close_both(void)
{
    for (uint32_t i = 0; i < SIDES; i++)
        support_side_close(&sides[i]);
}

/* ---- calls ------------------------------------------------------------------ */

static void on_answer(void *context, nigh_status status, const uint8_t *bytes, uint32_t count,
                      uint64_t now_us)
{
    uint32_t wanted = (uint32_t)(uintptr_t)context;

    (void)now_us;
    assert_int_equal(status, NIGH_OK);
    assert_int_equal(count, wanted);
    assert_memory_equal(bytes, payload, count);
    answers++;
}

/* So many at once, and their answers. */
static uint64_t call(uint32_t count, uint32_t bytes)
{
    struct rpc_piece piece = {.data = payload, .bytes = bytes};
    uint64_t begun_us = support_now_us();

    answers = 0;
    for (uint32_t n = 0; n < count; n++)
        assert_int_equal(rpc_call(link_calls(sides[CALLER].link), ECHO, &piece, 1, UINT64_MAX,
                                  begun_us, on_answer, (void *)(uintptr_t)bytes, NULL),
                         NIGH_OK);
    links_flush_calls(sides[CALLER].links);
    while (answers < count && support_now_us() < begun_us + PATIENCE_MS * UINT64_C(1000))
        turn();
    assert_int_equal(answers, count);
    return support_now_us() - begun_us;
}

struct counted {
    struct fabric_counts fabric[SIDES];
    struct links_counters links[SIDES];
};

static struct counted look(void)
{
    struct counted now;

    /* What is over here may not be over there. */
    for (uint32_t n = 0; n < 1000; n++)
        turn();
    for (uint32_t i = 0; i < SIDES; i++) {
        now.fabric[i] = sides[i].fabric->counts;
        now.links[i] = *links_counters(sides[i].links);
    }
    return now;
}

static int by_size(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, two = *(const uint64_t *)b;

    return (one > two) - (one < two);
}

/* CALLS calls one behind the other, of so many bytes, with answers of as many. */
static void hold_one_by_one(enum link_way way, uint32_t bytes)
{
    uint64_t times[CALLS], inline_most = sides[0].fabric->caps.inline_bytes;
    uint32_t frame = bytes + (uint32_t)sizeof(struct rpc_header);
    bool is_small = frame <= inline_most && frame <= LINK_FRAME_BYTES;
    struct counted before, after;

    for (uint32_t n = 0; n < 2; n++)
        (void)call(1, bytes); /* buffers are made */
    before = look();
    for (uint32_t n = 0; n < CALLS; n++)
        times[n] = call(1, bytes);
    after = look();
    qsort(times, CALLS, sizeof(times[0]), by_size);
    print_message("# %s, %u B: %" PRIu64 " us a call in the middle, %" PRIu64 " at best\n",
                  way == LINK_WRITE ? "written" : "sent", bytes, times[CALLS / 2], times[0]);
    for (uint32_t i = 0; i < SIDES; i++) {
        const struct fabric_counts *was = &before.fabric[i], *is = &after.fabric[i];

        assert_int_equal(is->requests - was->requests, CALLS);
        assert_int_equal(is->doorbells - was->doorbells, CALLS);
        assert_int_equal(is->signalled - was->signalled, is_small ? CALLS / 16 : CALLS);
        assert_int_equal(is->messages - was->messages, CALLS);
        assert_int_equal(is->receive_doorbells - was->receive_doorbells, CALLS);
        assert_int_equal(is->immediates - was->immediates, way == LINK_WRITE ? CALLS : 0);
        assert_int_equal(is->copied_bytes - was->copied_bytes, (uint64_t)CALLS * frame);
        /* Room is told of by the next frame of the other direction. */
        assert_int_equal(after.links[i].ring_news, before.links[i].ring_news);
        assert_int_equal(after.links[i].ring_full, before.links[i].ring_full);
    }
}

/* A crowd of them, of 8 KiB each, several times: those that a ring has no room for wait. What that
 * takes besides is immediates, one for more than half of a ring. */
static void hold_crowds(enum link_way way)
{
    uint64_t begun_us, best_us = UINT64_MAX;
    struct counted before = look(), after;

    for (uint32_t n = 0; n < CALLS; n++) {
        begun_us = call(CROWD, CALLS_PAYLOAD);
        best_us = begun_us < best_us ? begun_us : best_us;
    }
    after = look();
    print_message("# %s, %u of 8 KiB at once: %" PRIu64 " us at best; the caller's %" PRIu64
                  " and the server's %" PRIu64 " immediates only tell of room\n",
                  way == LINK_WRITE ? "written" : "sent", CROWD, best_us,
                  after.links[CALLER].ring_news - before.links[CALLER].ring_news,
                  after.links[SERVER].ring_news - before.links[SERVER].ring_news);
    for (uint32_t i = 0; i < SIDES; i++) {
        uint64_t news = after.links[i].ring_news - before.links[i].ring_news;

        assert_int_equal(after.fabric[i].requests - before.fabric[i].requests,
                         CALLS * CROWD + news);
        if (way != LINK_WRITE)
            assert_int_equal(news, 0);
        /* 129 units are a frame, and one tells of more than 2048 units. */
        assert_true(news <= CALLS * CROWD / 15);
    }
    if (way == LINK_WRITE)
        assert_true(after.links[CALLER].ring_full > before.links[CALLER].ring_full);
}

static void what_calls_cost(void **state)
{
    static const enum link_way ways[] = {LINK_SEND, LINK_WRITE};
    static const uint32_t sizes[] = {8, 64, 1024, 8192};

    (void)state;
    for (uint32_t n = 0; n < sizeof(payload); n++)
        payload[n] = (uint8_t)(n * 7);
    for (size_t n = 0; n < ARRAY_LENGTH(ways); n++) {
        open_both(ways[n]);
        for (size_t size = 0; size < ARRAY_LENGTH(sizes); size++)
            hold_one_by_one(ways[n], sizes[size]);
        hold_crowds(ways[n]);
        assert_int_equal(links_counters(sides[CALLER].links)->downs, 0);
        close_both();
    }
}

/* Each side asks as often as it must, both ways, and goes by the answers. */
static void both_ways_are_measured(void **state)
{
    (void)state;
    open_both(LINK_AUTO);
    for (uint32_t i = 0; i < SIDES; i++) {
        const struct links_counters *counters = links_counters(sides[i].links);
        uint64_t sent_us, written_us;
        enum link_way way = link_calls_way(sides[i].link, &sent_us, &written_us);

        print_message("# measured: sent in %" PRIu64 " us, written in %" PRIu64 " us: %s\n",
                      sent_us, written_us, way == LINK_WRITE ? "written" : "sent");
        assert_int_equal(counters->calls_sent, 2 * (1 + RPC_WAY_CALLS));
        assert_int_equal(counters->calls_written, 2 * (1 + RPC_WAY_CALLS));
        assert_int_equal(way, written_us < sent_us - sent_us / 16 ? LINK_WRITE : LINK_SEND);
    }
    (void)call(CROWD, CALLS_PAYLOAD);
    close_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_calls_cost),
        cmocka_unit_test(both_ways_are_measured),
    };

    return cmocka_run_group_tests_name("verbs-calls", tests, NULL, NULL);
}
