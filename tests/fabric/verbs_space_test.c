/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What messages of spaces cost over RDMA: work requests, doorbells, completions, and credits that
 * are told alone; and that they come with their bytes. Counted on the stand-in for a device
 * (fabric-verbs-space), also as an iWARP device, which has no immediates, and on two devices in the
 * guest (rdma-verbs-space). The same traffic goes over tcp.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/link_internal.h"
#include "fabric/tcp/tcp.h"
#include "fabric/verbs/verbs.h"
#include "support/links_config.h"
#include "support/links_side.h"
#include "support/support.h"

#ifdef SPACE_FAKE
#include "fabric/fake_verbs.h"
#define FIRST_ADDRESS FAKE_VERBS_ADDRESS
#define OTHER_ADDRESS FAKE_VERBS_ADDRESS
#else
#define FIRST_ADDRESS "10.99.0.1"
#define OTHER_ADDRESS "10.99.0.2"
#endif

#define PATIENCE_MS 50000
#define MESSAGES    256u /* that are counted */
#define BLOCK       512u

enum {
    FROM,
    TO,
    SIDES
};

enum over {
    OVER_TCP,
    OVER_VERBS,
    OVER_IWARP
};

struct side {
    struct support_side at;
    struct fabric_memory *memory;
    uint8_t bytes[MESSAGES * BLOCK]; /* a frame for each; of FROM what is written there */
    uint32_t got, ended;
    bool answers;
};

static struct side sides[SIDES];

/* ---- two lanes ------------------------------------------------------------- */

static void fill_text(uint8_t text[LIMIT_SPACE_MESSAGE], uint32_t number)
{
    for (uint32_t at = 0; at < LIMIT_SPACE_MESSAGE; at++)
        text[at] = (uint8_t)(number + at * 3);
    memcpy(text, &number, sizeof(number));
}

static void on_done(void *context, nigh_status status, uint64_t now_us)
{
    struct side *side = context;

    (void)now_us;
    assert_int_equal(status, NIGH_OK);
    side->ended++;
}

/* One of a number, with `bytes` of the frame's; and who hears it is to have them. */
static nigh_status say(struct side *side, uint32_t number, uint32_t bytes, bool is_awaited)
{
    struct side *to = &sides[1 - (side - sides)];
    uint8_t text[LIMIT_SPACE_MESSAGE], *frame = side->bytes + number % MESSAGES * BLOCK;
    struct fabric_slice slice = {frame, bytes, side->memory};
    struct link_message message = {
        .bytes = text,
        .count = sizeof(text),
        .slices = &slice,
        .slice_count = bytes > 0,
        .remote =
            fabric_memory_remote(to->at.fabric, to->memory, to->bytes + number % MESSAGES * BLOCK),
    };

    memset(frame, (int)number + 1, bytes);
    fill_text(text, number);
    return link_space_send(side->at.link, &message, is_awaited ? on_done : NULL, side);
}

static void expect_frame(const struct side *side, uint32_t number, uint32_t bytes)
{
    const uint8_t *frame = side->bytes + number % MESSAGES * BLOCK;

    for (uint32_t at = 0; at < bytes; at++)
        assert_int_equal(frame[at], (uint8_t)(number + 1));
}

static void on_spaced(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                      uint64_t now_us)
{
    struct side *side = context;
    uint8_t text[LIMIT_SPACE_MESSAGE];

    (void)link;
    (void)now_us;
    fill_text(text, side->got);
    assert_int_equal(count, sizeof(text));
    assert_memory_equal(bytes, text, sizeof(text));
    side->got++;
    if (side->answers)
        assert_int_equal(say(side, side->got - 1, 0, false), NIGH_OK);
}

static void make_fabric(enum over over, uint32_t rank, struct fabric **fabric,
                        char address[FABRIC_ADDRESS_BYTES])
{
    const char *host = rank == 0 ? FIRST_ADDRESS : OTHER_ADDRESS;
    struct verbs_options options = {.address = host, .keepalive_ms = 3600000};
    char why[VERBS_WHY_BYTES];

    if (over == OVER_TCP) {
        (void)snprintf(address, FABRIC_ADDRESS_BYTES, "127.0.0.1:0");
        assert_int_equal(tcp_create(NULL, fabric), NIGH_OK);
        return;
    }
#ifdef SPACE_FAKE
    options.library = fake_verbs_library();
#endif
    (void)snprintf(address, FABRIC_ADDRESS_BYTES, "%s:0", host);
    assert_int_equal(verbs_create(&options, why, fabric), NIGH_OK);
}

static void side_open(enum over over, struct side *side, uint32_t rank,
                      const struct members *members)
{
    const struct links_shell shell = {.context = side,
                                      .up = support_side_up,
                                      .down = support_side_down,
                                      .request = support_no_request,
                                      .bulk = support_no_bulk,
                                      .spaced = on_spaced};
    struct links_config config;
    char address[FABRIC_ADDRESS_BYTES];

    memset(side, 0, sizeof(*side));
    make_fabric(over, rank, &side->at.fabric, address);
    support_side_listen(&side->at, address);
    assert_int_equal(fabric_memory_register(side->at.fabric, side->bytes, sizeof(side->bytes),
                                            FABRIC_HOST, FABRIC_LOCAL_WRITE | FABRIC_REMOTE_WRITE,
                                            &side->memory),
                     NIGH_OK);
    config = support_links_config(side->at.fabric, rank, members, &shell);
    config.serves_spaces = true;
    assert_int_equal(links_create(&config, &side->at.links), NIGH_OK);
}

static void turn(void)
{
    for (uint32_t i = 0; i < SIDES; i++)
        (void)links_turn(sides[i].at.links, support_now_us());
}

static void meet(struct support_side *side, const struct support_side *other, uint32_t rank)
{
    struct link_peer info = {.rank = rank,
                             .incarnation = 1,
                             .dials = rank == 0,
                             .lanes = 1,
                             .bulk_endpoints = 1,
                             .space_endpoints = 1};

    memcpy(info.addresses[0], other->address, sizeof(other->address));
    assert_int_equal(links_peer_up(side->links, &info, support_now_us()), NIGH_OK);
}

static void open_both(enum over over)
{
    struct members members;

#ifdef SPACE_FAKE
    fake_verbs_start();
    fake_verbs_iwarp(over == OVER_IWARP);
#endif
    members_alone(&members);
    members.count = SIDES;
    for (uint32_t i = 0; i < SIDES; i++)
        side_open(over, &sides[i], i, &members);
    meet(&sides[0].at, &sides[1].at, 1);
    meet(&sides[1].at, &sides[0].at, 0);
    assert_true(SUPPORT_WAIT(({
                                 turn();
                                 sides[FROM].at.link != NULL &&sides[TO].at.link != NULL;
                             }),
                             PATIENCE_MS));
}

static void close_both(void)
{
    for (uint32_t i = 0; i < SIDES; i++) {
        assert_int_equal(links_counters(sides[i].at.links)->downs, 0);
        links_destroy(sides[i].at.links);
        fabric_memory_deregister(sides[i].at.fabric, sides[i].memory);
        fabric_destroy(sides[i].at.fabric);
    }
#ifdef SPACE_FAKE
    assert_string_equal(fake_verbs_left(), "");
    fake_verbs_start();
#endif
}

/* ---- what is counted --------------------------------------------------------- */

struct counted {
    struct fabric_counts fabric[SIDES];
    uint64_t credits[SIDES];
};

static struct counted look(void)
{
    struct counted now;

    /* What is over here may not be over there. */
    for (uint32_t n = 0; n < 1000; n++)
        turn();
    for (uint32_t i = 0; i < SIDES; i++) {
        now.fabric[i] = sides[i].at.fabric->counts;
        now.credits[i] = links_counters(sides[i].at.links)->space_credits;
        sides[i].got = sides[i].ended = 0;
    }
    return now;
}

static void wait_for(uint32_t side, uint32_t got, uint32_t ended)
{
    uint64_t until_us = support_now_us() + PATIENCE_MS * UINT64_C(1000);

    while ((sides[side].got < got || sides[FROM].ended < ended) && support_now_us() < until_us)
        turn();
    assert_int_equal(sides[side].got, got);
    assert_int_equal(sides[FROM].ended, ended);
}

/* MESSAGES one by one, each heard before the next. */
static void say_one_by_one(uint32_t bytes, bool is_awaited)
{
    for (uint32_t n = 0; n < MESSAGES; n++) {
        assert_int_equal(say(&sides[FROM], n, bytes, is_awaited), NIGH_OK);
        wait_for(TO, n + 1, is_awaited ? n + 1 : 0);
        expect_frame(&sides[TO], n, bytes);
    }
}

/* In one direction: all that comes back is credits, once in more than half of the receives. */
static void count(const char *what, enum over over, uint32_t bytes, bool is_awaited)
{
    uint64_t posts = MESSAGES * (bytes > 0 ? 2 : 1), credits;
    struct counted before = look(), after;
    const struct fabric_counts *was = &before.fabric[FROM], *is = &after.fabric[FROM];

    say_one_by_one(bytes, is_awaited);
    after = look();
    credits = after.credits[TO] - before.credits[TO];
    print_message("# %s: %" PRIu64 " requests, %" PRIu64 " doorbells, %" PRIu64
                  " signalled, %" PRIu64 " copied bytes of %u; %" PRIu64 " credits alone\n",
                  what, is->requests - was->requests, is->doorbells - was->doorbells,
                  is->signalled - was->signalled, is->copied_bytes - was->copied_bytes, MESSAGES,
                  credits);
    assert_in_range(credits, 1, MESSAGES / (LIMIT_SPACE_RECEIVES / 2));
    assert_int_equal(after.credits[FROM], before.credits[FROM]);
    if (over == OVER_TCP)
        return;
    assert_int_equal(is->requests - was->requests, posts);
    assert_int_equal(is->doorbells - was->doorbells, MESSAGES);
    assert_int_equal(is->signalled - was->signalled,
                     is_awaited ? MESSAGES : MESSAGES / LINK_SIGNAL_EVERY);
    was = &before.fabric[TO];
    is = &after.fabric[TO];
    assert_int_equal(is->messages - was->messages, MESSAGES);
    assert_int_equal(is->immediates - was->immediates, 0);
    assert_int_equal(is->requests - was->requests, credits);
}

/* Each answered: nothing is said but messages. */
static void count_answered(enum over over)
{
    struct counted before = look(), after;

    sides[TO].answers = true;
    for (uint32_t n = 0; n < MESSAGES; n++) {
        assert_int_equal(say(&sides[FROM], n, 0, false), NIGH_OK);
        wait_for(FROM, n + 1, 0);
    }
    sides[TO].answers = false;
    after = look();
    for (uint32_t i = 0; i < SIDES; i++) {
        assert_int_equal(after.credits[i], before.credits[i]);
        if (over != OVER_TCP)
            assert_int_equal(after.fabric[i].requests - before.fabric[i].requests, MESSAGES);
    }
}

/* As many at once as there is room for: messages of one turn share doorbells. */
static void count_crowds(enum over over)
{
    struct counted before = look(), after;
    uint32_t said = 0;

    while (said < 8 * MESSAGES) {
        while (said < 8 * MESSAGES && said < sides[TO].got + MESSAGES &&
               link_space_room(sides[FROM].at.link) > 0) {
            assert_int_equal(say(&sides[FROM], said, BLOCK, false), NIGH_OK);
            said++;
        }
        turn();
    }
    wait_for(TO, said, 0);
    after = look();
    if (over != OVER_TCP)
        assert_true(after.fabric[FROM].doorbells - before.fabric[FROM].doorbells < said / 2);
}

static void go(enum over over)
{
    open_both(over);
    (void)say(&sides[FROM], 0, 0, true);
    count("a message", over, 0, false);
    count("a message that is awaited", over, 0, true);
    count("a message and a block", over, BLOCK, false);
    count_answered(over);
    count_crowds(over);
    close_both();
}

static void over_a_device(void **state)
{
    (void)state;
    go(OVER_VERBS);
}

#ifdef SPACE_FAKE
static void over_a_device_without_immediates(void **state)
{
    (void)state;
    go(OVER_IWARP);
}

static void over_tcp(void **state)
{
    (void)state;
    go(OVER_TCP);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_a_device),
#ifdef SPACE_FAKE
        cmocka_unit_test(over_a_device_without_immediates),
        cmocka_unit_test(over_tcp),
#endif
    };

    return cmocka_run_group_tests_name("verbs-space", tests, NULL, NULL);
}
