/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that tell of their end, between two links over the verbs provider, on the stand-in for a
 * device; and an iWARP device, which has none: nothing is pushed there, and no memory is kept for
 * it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "fabric/fake_verbs.h"
#include "fabric/verbs/verbs.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_memory.h"
#include "object/exchange_push.h"
#include "support/links_config.h"
#include "support/links_side.h"
#include "support/support.h"

#define PATIENCE_MS 50000
#define RECEIVES    4u
#define MESSAGE     "what the window holds"

struct side {
    struct support_side at;
    uint32_t ended, told, imm;
    uint64_t bytes;
};

static void on_bulk(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                    uint64_t now_us)
{
    (void)bytes;
    (void)count;
    support_side_down(context, link, NIGH_PROTOCOL, now_us); /* nothing is sent here */
}

static void on_pushed(void *context, struct link *link, uint32_t imm, uint64_t count,
                      uint64_t now_us)
{
    struct side *side = context;

    (void)link;
    (void)now_us;
    side->told++;
    side->imm = imm;
    side->bytes = count;
}

static void on_done(void *context, nigh_status status, uint64_t now_us)
{
    struct side *side = context;

    (void)now_us;
    side->ended += status == NIGH_OK ? 1 : 100;
}

static void open_fabric(struct side *side)
{
    const struct verbs_options options = {.library = fake_verbs_library(),
                                          .address = FAKE_VERBS_ADDRESS};
    char why[VERBS_WHY_BYTES], address[FABRIC_ADDRESS_BYTES];

    memset(side, 0, sizeof(*side));
    (void)snprintf(address, sizeof(address), "%s:0", FAKE_VERBS_ADDRESS);
    assert_int_equal(verbs_create(&options, why, &side->at.fabric), NIGH_OK);
    support_side_listen(&side->at, address);
}

static void open_links(struct side *side, uint32_t rank, bool shared)
{
    const struct links_shell shell = {.context = side,
                                      .up = support_side_up,
                                      .down = support_side_down,
                                      .request = support_no_request,
                                      .bulk = on_bulk,
                                      .pushed = on_pushed};
    struct members members;
    struct links_config config;

    members_alone(&members);
    members.count = 2;
    config = support_links_config(side->at.fabric, rank, &members, &shell);
    config.bulk_receives = RECEIVES;
    config.shared_bulk = shared ? RECEIVES : 0;
    assert_int_equal(links_create(&config, &side->at.links), NIGH_OK);
}

static void turn_both(struct side *sides)
{
    (void)links_turn(sides[0].at.links, support_now_us());
    (void)links_turn(sides[1].at.links, support_now_us());
}

/* More messages than there are receives, each told of once, with its bytes there. */
static void push_many(bool shared)
{
    static uint8_t window[256], source[256];
    struct fabric_memory *open, *memory;
    struct fabric_remote remote;
    struct side sides[2];

    fake_verbs_start();
    for (uint32_t n = 0; n < 2; n++) {
        open_fabric(&sides[n]);
        open_links(&sides[n], n, shared);
    }
    support_side_meet(&sides[0].at, &sides[1].at, 1, true);
    support_side_meet(&sides[1].at, &sides[0].at, 0, false);
    assert_true(SUPPORT_WAIT(({
                                 turn_both(sides);
                                 sides[0].at.link != NULL &&sides[1].at.link != NULL;
                             }),
                             PATIENCE_MS));
    assert_int_equal(fabric_memory_register(sides[1].at.fabric, window, sizeof(window), FABRIC_HOST,
                                            FABRIC_LOCAL_WRITE | FABRIC_REMOTE_WRITE, &open),
                     NIGH_OK);
    assert_int_equal(fabric_memory_register(sides[0].at.fabric, source, sizeof(source), FABRIC_HOST,
                                            FABRIC_REMOTE_READ, &memory),
                     NIGH_OK);
    remote = fabric_memory_remote(sides[1].at.fabric, open, window + 8);
    for (uint32_t n = 0; n < 10; n++) {
        char head[] = "head:";
        struct fabric_slice slices[2] = {
            {.address = head, .bytes = 5},
            {.address = source, .bytes = sizeof(MESSAGE), .memory = memory}};

        memcpy(source, MESSAGE, sizeof(MESSAGE));
        source[0] = (uint8_t)('a' + n);
        assert_int_equal(
            link_push(sides[0].at.link, slices, 2, remote, 1000 + n, on_done, &sides[0]), NIGH_OK);
        memset(head, 'x', 5); /* it was taken during the call */
        assert_true(SUPPORT_WAIT(({
                                     turn_both(sides);
                                     sides[1].told == n + 1 && sides[0].ended == n + 1;
                                 }),
                                 PATIENCE_MS));
        assert_int_equal(sides[1].imm, 1000 + n);
        assert_int_equal(sides[1].bytes, 5 + sizeof(MESSAGE));
        assert_memory_equal(window + 8, "head:", 5);
        assert_memory_equal(window + 13, source, sizeof(MESSAGE));
    }
    assert_int_equal(links_counters(sides[0].at.links)->pushes, 10);
    for (uint32_t n = 0; n < 2; n++) {
        links_destroy(sides[n].at.links);
    }
    fabric_memory_deregister(sides[1].at.fabric, open);
    fabric_memory_deregister(sides[0].at.fabric, memory);
    for (uint32_t n = 0; n < 2; n++) {
        fabric_destroy(sides[n].at.fabric);
    }
    assert_string_equal(fake_verbs_left(), "");
}

/* Also where the links of a lane share their receives. */
static void what_is_pushed_is_there_when_it_is_told(void **state)
{
    (void)state;
    push_many(false);
    push_many(true);
}

/* A link of an exchange that is configured to be pushed to. */
static void an_iwarp_device_is_not_pushed_to(void **state)
{
    (void)state;
    for (uint32_t iwarp = 0; iwarp < 2; iwarp++) {
        struct exchange *exchange = calloc(1, sizeof(*exchange));
        struct exchange_link link = {.exchange = exchange};
        struct side side;

        assert_non_null(exchange);
        fake_verbs_start();
        fake_verbs_iwarp(iwarp == 1);
        open_fabric(&side);
        exchange->config = (struct exchange_config){.fabric = side.at.fabric,
                                                    .bulk_receives = 4,
                                                    .window_bytes = 4096,
                                                    .path = EXCHANGE_PUSH};
        assert_int_equal(push_init(&link), iwarp == 1 ? NIGH_UNSUPPORTED : NIGH_OK);
        assert_int_equal(push_is_chosen(&link), iwarp == 0);
        assert_int_equal(side.at.fabric->registrations, iwarp == 0 ? 1 : 0);
        push_fini(&link);
        fabric_destroy(side.at.fabric);
        assert_string_equal(fake_verbs_left(), "");
        free(exchange);
    }
    fake_verbs_start(); /* whoever comes next has what was there */
}

static uint32_t warnings;

static void count_warning(void *context, enum log_level level, const char *line, size_t length)
{
    (void)context;
    (void)length;
    warnings += level == LOG_LEVEL_WARN && strstr(line, "peers can write") != NULL;
}

/* Where READs fill only memory that is open to remote writes it is said once a node. */
static void an_iwarp_device_opens_what_it_reads_into(void **state)
{
    static const struct log_sink sink = {.write = count_warning};
    struct extent_set *extents = calloc(1, sizeof(*extents));

    (void)state;
    assert_non_null(extents);
    extents->lanes = 2;
    log_set_sink(&sink);
    for (uint32_t iwarp = 0; iwarp < 2; iwarp++) {
        struct exchange *exchange = calloc(1, sizeof(*exchange));
        struct side side;

        assert_non_null(exchange);
        fake_verbs_start();
        fake_verbs_iwarp(iwarp == 1);
        open_fabric(&side);
        for (uint32_t lane = 0; lane < extents->lanes; lane++) {
            exchange->config = (struct exchange_config){.fabric = side.at.fabric,
                                                        .extents = extents,
                                                        .lane = lane,
                                                        .lanes = extents->lanes};
            assert_int_equal(memory_init(exchange), NIGH_OK);
            memory_fini(exchange);
        }
        assert_int_equal(warnings, iwarp);
        fabric_destroy(side.at.fabric);
        free(exchange);
    }
    log_set_sink(NULL);
    free(extents);
    fake_verbs_start();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_pushed_is_there_when_it_is_told),
        cmocka_unit_test(an_iwarp_device_is_not_pushed_to),
        cmocka_unit_test(an_iwarp_device_opens_what_it_reads_into),
    };

    return cmocka_run_group_tests_name("fabric-verbs-push", tests, NULL, NULL);
}
