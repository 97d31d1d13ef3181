/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a link takes of a node's memory, over tcp, by the number of members: what is asked of the
 * system when it comes up, and what is touched once every receive was used. Prints the figures of
 * docs/operations.md.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "fabric/tcp/tcp.h"
#include "support/links_config.h"
#include "support/links_side.h"
#include "support/support.h"

#define PATIENCE_MS 20000
#define CALLS_MOST  400u

struct side {
    struct support_side at;
    uint32_t begun, ended;
    bool is_wrong;
};

static uint8_t payload[EXCHANGE_PAYLOAD];

static void on_down(void *context, struct link *link, nigh_status reason, uint64_t now_us)
{
    struct side *side = context;

    side->is_wrong = side->is_wrong || reason != NIGH_CANCELED;
    support_side_down(context, link, reason, now_us);
}

static void on_request(void *context, struct link *link, const struct rpc_request *request,
                       uint64_t now_us)
{
    struct rpc_piece piece = {.data = request->payload, .bytes = request->bytes};

    (void)context;
    (void)now_us;
    rpc_reply(link_rpc(link), request->call, NIGH_OK, &piece, 1);
}

static void on_bulk(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                    uint64_t now_us)
{
    struct side *side = context;

    (void)link;
    (void)bytes;
    (void)count;
    (void)now_us;
    side->is_wrong = true;
}

static void on_called(void *context, nigh_status status, const uint8_t *bytes, uint32_t count,
                      uint64_t now_us)
{
    struct side *side = context;

    (void)bytes;
    (void)now_us;
    side->is_wrong = side->is_wrong || status != NIGH_OK || count != sizeof(payload);
    side->ended++;
}

static struct members members_of(uint32_t count)
{
    static struct members members;

    members_alone(&members);
    members.count = count;
    return members;
}

static void side_open(struct side *side, uint32_t rank, uint32_t members)
{
    struct members list = members_of(members);
    const struct links_shell shell = {.context = side,
                                      .up = support_side_up,
                                      .down = on_down,
                                      .request = on_request,
                                      .bulk = on_bulk,
                                      .called = on_request};
    struct links_config config;

    memset(side, 0, sizeof(*side));
    assert_int_equal(tcp_create(NULL, &side->at.fabric), NIGH_OK);
    support_side_listen(&side->at, "127.0.0.1:0");
    config = support_links_config(side->at.fabric, rank, &list, &shell);
    support_links_users(&config, &list, LINK_SEND);
    assert_int_equal(links_create(&config, &side->at.links), NIGH_OK);
}

/* As many calls as go. */
static void work(struct side *side)
{
    struct rpc_piece piece = {.data = payload, .bytes = sizeof(payload)};

    (void)links_turn(side->at.links, support_now_us());
    while (side->at.link != NULL && side->begun < CALLS_MOST &&
           rpc_call(link_rpc(side->at.link), 1, &piece, 1, UINT64_MAX, support_now_us(), on_called,
                    side, NULL) == NIGH_OK) {
        side->begun++;
    }
    assert_false(side->is_wrong);
    assert_true(links_is_valid(side->at.links));
}

static uint64_t asked_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

static uint64_t touched_bytes(void)
{
    unsigned long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu %llu", &pages, &resident), 2);
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Of one end. What the lane shares is not in it. */
static uint64_t measure(uint32_t members)
{
    struct side a, b;
    uint64_t asked, touched, shared, news;
    struct members list = members_of(members);
    /* Receives of all links. */
    uint64_t common = members > LIMIT_UNSHARED_MEMBERS
                          ? LIMIT_SHARED_RECEIVES * (EXCHANGE_BULK_BYTES + UINT64_C(64))
                          : 0;

    side_open(&a, 0, members);
    side_open(&b, 1, members);
    asked = asked_bytes();
    touched = touched_bytes();
    support_side_meet(&b.at, &a.at, 0, true);
    support_side_meet(&a.at, &b.at, 1, false);
    assert_true(SUPPORT_WAIT(({
                                 (void)links_turn(a.at.links, support_now_us());
                                 (void)links_turn(b.at.links, support_now_us());
                                 a.at.link != NULL &&b.at.link != NULL;
                             }),
                             PATIENCE_MS));
    asked = (asked_bytes() - asked) / 2;
    /* A sanitizer's allocator does not count. */
    assert_true(asked >= links_link_bytes(a.at.links) || asked_bytes() == 0);
    assert_true(SUPPORT_WAIT(({
                                 work(&a);
                                 work(&b);
                                 a.ended == CALLS_MOST &&b.ended == CALLS_MOST;
                             }),
                             PATIENCE_MS));
    touched = (max_u64(touched_bytes(), touched) - touched) / 2;
    /* What a burst needed goes back, once the last is acknowledged. */
    assert_true(SUPPORT_WAIT(({
                                 (void)links_turn(a.at.links, support_now_us());
                                 (void)links_turn(b.at.links, support_now_us());
                                 shared = links_shared_bytes(a.at.links);
                                 shared <= 300000 + common;
                             }),
                             PATIENCE_MS));
    news = exchange_window_of(&list)->announcements * sizeof(struct wire_announce);
    printf(
        "# %3u members: a link asks for %llu KiB and %llu KiB of news, %llu KiB touched by calls; "
        "%u links: %llu MiB; the lane's own %llu KiB at rest\n",
        members, (unsigned long long)asked / 1024, (unsigned long long)news / 1024,
        (unsigned long long)touched / 1024, members - 1,
        (unsigned long long)((members - 1) * (asked + news) >> 20),
        (unsigned long long)shared / 1024);
    support_side_close(&a.at);
    support_side_close(&b.at);
    return asked + news;
}

static void what_a_link_takes(void **state)
{
    static const uint32_t members[] = {2, 8, 64, 256};
    static const uint64_t most_kib[] = {3400, 3400, 1280, 820};

    (void)state;
    for (size_t n = 0; n < ARRAY_LENGTH(members); n++) {
        assert_true(measure(members[n]) <= most_kib[n] * 1024);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_link_takes)};

    /* What is freed goes back, so that what is touched is seen each time. */
    (void)mallopt(M_MMAP_THRESHOLD, 32768);
    (void)mallopt(M_TRIM_THRESHOLD, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
