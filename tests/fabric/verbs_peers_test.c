/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a lane's peers cost where RDMA joins them: queue pairs, completion queues, registrations,
 * receives and bytes, by the number of peers, with the links' windows as the exchange makes them.
 * Counted on the stand-in for a device; holds, and prints, the figures of docs/tuning.md.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fabric/fake_verbs.h"
#include "fabric/verbs/verbs_internal.h"
#include "support/links_config.h"
#include "support/support.h"

#define PATIENCE_MS 50000

struct side {
    struct fabric *fabric;
    struct links *links;
    uint32_t up;
    char address[FABRIC_ADDRESS_BYTES];
};

/* ---- links that nobody uses ---- */

static void on_up(void *context, struct link *link, uint64_t now_us)
{
    struct side *side = context;

    (void)link;
    (void)now_us;
    side->up++;
}

static void on_down(void *context, struct link *link, nigh_status reason, uint64_t now_us)
{
    struct side *side = context;

    (void)link;
    (void)reason;
    (void)now_us;
    side->up--;
}

static void on_request(void *context, struct link *link, const struct rpc_request *request,
                       uint64_t now_us)
{
    (void)context;
    (void)now_us;
    rpc_reply(link_rpc(link), request->call, NIGH_OK, NULL, 0);
}

static void on_bulk(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                    uint64_t now_us)
{
    (void)context;
    (void)link;
    (void)bytes;
    (void)count;
    (void)now_us;
}

/* ---- a lane, and the lanes of its peers ---- */

static void side_open(struct side *side, uint32_t rank, const struct members *members)
{
    const struct verbs_options options = {.library = fake_verbs_library(),
                                          .address = FAKE_VERBS_ADDRESS};
    const struct links_shell shell = {
        .context = side, .up = on_up, .down = on_down, .request = on_request, .bulk = on_bulk};
    struct links_config config;
    char why[VERBS_WHY_BYTES], address[FABRIC_ADDRESS_BYTES];

    memset(side, 0, sizeof(*side));
    (void)snprintf(address, sizeof(address), "%s:0", FAKE_VERBS_ADDRESS);
    assert_int_equal(verbs_create(&options, why, &side->fabric), NIGH_OK);
    assert_int_equal(fabric_listen(side->fabric, address), NIGH_OK);
    fabric_address(side->fabric, side->address);
    config = support_links_config(side->fabric, rank, members, &shell);
    assert_int_equal(links_create(&config, &side->links), NIGH_OK);
}

static void side_close(struct side *side)
{
    links_destroy(side->links);
    fabric_destroy(side->fabric);
}

static void say_up(struct side *side, const struct side *other, uint32_t rank, bool dials,
                   uint32_t bulk_endpoints)
{
    struct link_peer info = {.rank = rank,
                             .incarnation = 1,
                             .dials = dials,
                             .lanes = 1,
                             .bulk_endpoints = bulk_endpoints};

    memcpy(info.addresses[0], other->address, sizeof(other->address));
    assert_int_equal(links_peer_up(side->links, &info, support_now_us()), NIGH_OK);
}

static void turn_all(struct side *sides, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void)links_turn(sides[i].links, support_now_us());
}

/* ---- what it costs ---- */

/* The provider's own, of each endpoint. */
static uint64_t ring_bytes(struct fabric *fabric)
{
    const struct verbs *verbs = verbs_of(fabric);
    uint64_t bytes = 0;

    LIST_FOREACH(node, &verbs->every)
    {
        const struct fabric_endpoint *endpoint = container_of(node, struct fabric_endpoint, every);

        bytes += sizeof(*endpoint) + sizeof(*endpoint->id) +
                 (endpoint->work_mask + UINT64_C(1)) *
                     (sizeof(struct verbs_work) + endpoint->inline_most) +
                 (endpoint->slot_mask + UINT64_C(1)) * sizeof(struct verbs_slot) +
                 (endpoint->receive_mask + UINT64_C(1)) * sizeof(struct verbs_receive);
    }
    return bytes;
}

/* Of peers, not of the lane for all of them. */
static uint64_t own_bytes(const struct fake_verbs_sum *sum)
{
    return sum->registered_bytes -
           sum->shared_receives * ((EXCHANGE_BULK_BYTES + UINT64_C(63)) & ~UINT64_C(63));
}

static void print(const struct fake_verbs_sum *sum, uint32_t peers, uint64_t rings)
{
    printf("# %2u peers: %u queue pairs, %u completion queues of %llu entries, %u registrations; a "
           "peer: room for %llu posts and %llu receives, %llu posted, %llu KiB registered, %llu "
           "KiB of rings; for all %llu shared receives, %llu KiB\n",
           peers, sum->queue_pairs, sum->completion_queues,
           (unsigned long long)sum->completion_entries, sum->registrations,
           (unsigned long long)sum->sends / peers, (unsigned long long)sum->receives / peers,
           (unsigned long long)sum->posted_receives / peers,
           (unsigned long long)own_bytes(sum) / peers / 1024,
           (unsigned long long)rings / peers / 1024, (unsigned long long)sum->shared_receives,
           (unsigned long long)(sum->registered_bytes - own_bytes(sum)) / 1024);
}

struct cost {
    uint32_t peers;
    uint32_t completion_queues;
    /* of a peer */
    uint32_t sends, receives;
    uint32_t registered_kib, ring_kib;
    uint32_t shared;         /* receives of all together */
    uint32_t bulk_endpoints; /* 0: one */
};

static void expect(const struct cost *cost, const struct fake_verbs_sum *sum, uint64_t rings)
{
    uint32_t further = max_u32(cost->bulk_endpoints, 1) - 1;

    assert_int_equal(sum->queue_pairs, (2 + further) * cost->peers);
    assert_int_equal(sum->registrations, cost->peers + (cost->shared > 0));
    assert_int_equal(sum->shared_receives, cost->shared);
    assert_int_equal(sum->posted_shared, cost->shared);
    assert_int_equal(sum->completion_queues, cost->completion_queues);
    assert_int_equal(sum->sends, (uint64_t)cost->sends * cost->peers);
    assert_int_equal(sum->receives, (uint64_t)cost->receives * cost->peers);
    /* Where READs go alone there is room for a receive, and none. */
    assert_int_equal(sum->posted_receives, sum->receives - further * cost->peers);
    assert_int_equal(own_bytes(sum) / cost->peers / 1024, cost->registered_kib);
    assert_int_equal(rings / cost->peers / 1024, cost->ring_kib);
    /* V8: what the queue pairs may complete at once has room. */
    assert_true(sum->sends + sum->receives + sum->shared_receives <= sum->completion_entries);
}

static void hold(const struct cost *cost)
{
    struct side *sides = calloc(cost->peers + 1, sizeof(*sides));
    struct fake_verbs_sum sum;
    struct members members;
    uint64_t rings;

    fake_verbs_start();
    members_alone(&members);
    members.count = cost->peers + 1;
    for (uint32_t i = 0; i <= cost->peers; i++)
        side_open(&sides[i], i, &members);
    for (uint32_t i = 1; i <= cost->peers; i++) {
        say_up(&sides[0], &sides[i], i, false, cost->bulk_endpoints);
        say_up(&sides[i], &sides[0], 0, true, cost->bulk_endpoints);
    }
    assert_true(SUPPORT_WAIT(({
                                 turn_all(sides, cost->peers + 1);
                                 sides[0].up == cost->peers;
                             }),
                             PATIENCE_MS));
    sum = fake_verbs_sum(0);
    rings = ring_bytes(sides[0].fabric);
    print(&sum, cost->peers, rings);
    expect(cost, &sum, rings);
    for (uint32_t i = 0; i <= cost->peers; i++)
        side_close(&sides[i]);
    free(sides);
    assert_string_equal(fake_verbs_left(), "");
}

static void what_peers_cost(void **state)
{
    static const struct cost costs[] = {
        {.peers = 1, .completion_queues = 1, 318, 98, 1199, 157},
        {.peers = 8, .completion_queues = 1, 254, 70, 871, 154},
        {.peers = 31, .completion_queues = 1, 254, 70, 871, 154},
        {.peers = 32, .completion_queues = 1, 210, 42, 353, 153, LIMIT_SHARED_RECEIVES},
        {.peers = 64, .completion_queues = 1, 156, 22, 187, 94, LIMIT_SHARED_RECEIVES},
        {.peers = 8, .completion_queues = 1, 320, 71, 871, 173, .bulk_endpoints = 2},
        {.peers = 8, .completion_queues = 1, 452, 73, 871, 211, .bulk_endpoints = 4},
        {.peers = 64, .completion_queues = 2, 354, 25, 187, 151, LIMIT_SHARED_RECEIVES, 4},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(costs); i++)
        hold(&costs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_peers_cost)};

    return cmocka_run_group_tests_name("fabric-verbs-peers", tests, NULL, NULL);
}
