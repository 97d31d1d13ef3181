/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a lane's peers cost where RDMA joins them: queue pairs, completion queues, registrations,
 * receives and bytes, by the number of peers, with the links' windows as the exchange makes them.
 * Counted on the stand-in for a device (fabric-verbs-peers), and in the guest by what its kernel
 * has of the lane's device (rdma-verbs-peers); holds, and prints, the figures of docs/tuning.md.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fabric/fake_verbs.h"
#include "fabric/verbs/verbs_internal.h"
#include "object/exchange.h"
#include "support/links_config.h"
#include "support/links_side.h"
#include "support/support.h"

#define PATIENCE_MS 150000

struct side {
    struct fabric *fabric;
    struct links *links;
    uint32_t up;
    char address[FABRIC_ADDRESS_BYTES];
};

/* ---- what a device has, of the first side alone ---- */

#ifdef PEERS_FAKE
#define FIRST_ADDRESS FAKE_VERBS_ADDRESS
#define OTHER_ADDRESS FAKE_VERBS_ADDRESS
#define is_on_fake    true

static const struct verbs_library *library_here(void)
{
    fake_verbs_start();
    return fake_verbs_library();
}

static struct fake_verbs_sum count(const struct side *side)
{
    (void)side;
    return fake_verbs_sum(0);
}

static void expect_nothing_left(void)
{
    assert_string_equal(fake_verbs_left(), "");
}
#else
#define FIRST_ADDRESS "10.99.0.1" /* rxe1: the kernel's of its own are counted before */
#define OTHER_ADDRESS "10.99.0.2"
#define DEVICE        "rxe1"
#define is_on_fake    false
#define SHOWN         (1u << 20)

static int (*query_qp)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);
static int (*query_srq)(struct ibv_srq *, struct ibv_srq_attr *);
static struct fake_verbs_sum own; /* the kernel's */

/* What the kernel has of one kind on the device: how many, and the sum of a number of each. */
static uint32_t ask(const char *kind, const char *number, uint64_t *sum)
{
    static const char name[] = "\"ifname\":\"";
    static char json[SHOWN];
    char command[64], wanted[32];
    uint32_t found = 0;
    FILE *pipe;

    (void)snprintf(command, sizeof(command), "rdma -j resource show %s", kind);
    (void)snprintf(wanted, sizeof(wanted), "\"%s\":", number);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    json[fread(json, 1, sizeof(json) - 1, pipe)] = '\0';
    assert_int_equal(pclose(pipe), 0);
    assert_true(strlen(json) < sizeof(json) - 1);
    for (const char *at = strstr(json, name); at != NULL; at = strstr(at + 1, name)) {
        const char *value = strstr(at, wanted);

        if (strncmp(at + sizeof(name) - 1, DEVICE "\"", sizeof(DEVICE)) != 0)
            continue;
        assert_non_null(value);
        *sum += strtoull(value + strlen(wanted), NULL, 10);
        found++;
    }
    return found;
}

static struct fake_verbs_sum ask_kernel(void)
{
    struct fake_verbs_sum sum = {0};
    uint64_t ignored = 0;

    sum.queue_pairs = ask("qp", "lqpn", &ignored);
    sum.completion_queues = ask("cq", "cqe", &sum.completion_entries);
    sum.registrations = ask("mr", "mrlen", &sum.registered_bytes);
    sum.shared_queues = ask("srq", "srqn", &ignored);
    return sum;
}

static const struct verbs_library *library_here(void)
{
    void *verbs = dlopen("libibverbs.so.1", RTLD_NOW);

    assert_non_null(verbs);
    *(void **)&query_qp = dlsym(verbs, "ibv_query_qp");
    *(void **)&query_srq = dlsym(verbs, "ibv_query_srq");
    assert_true(query_qp != NULL && query_srq != NULL);
    own = ask_kernel();
    return NULL; /* the system's */
}

/* What the device says of its queues, and the provider of what it posted: no device tells that. */
static struct fake_verbs_sum count(const struct side *side)
{
    const struct verbs *verbs = verbs_of(side->fabric);
    struct fake_verbs_sum sum = ask_kernel();

    sum.queue_pairs -= own.queue_pairs;
    sum.completion_queues -= own.completion_queues;
    sum.completion_entries -= own.completion_entries;
    sum.registrations -= own.registrations;
    sum.registered_bytes -= own.registered_bytes;
    LIST_FOREACH(node, &verbs->every)
    {
        const struct fabric_endpoint *endpoint = container_of(node, struct fabric_endpoint, every);
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr made;

        assert_int_equal(query_qp(endpoint->qp, &attr, IBV_QP_CAP, &made), 0);
        sum.sends += made.cap.max_send_wr;
        sum.receives += made.srq == NULL ? made.cap.max_recv_wr : 0;
        sum.posted_receives += endpoint->receive_posted - endpoint->receive_filled;
    }
    LIST_FOREACH(node, &verbs->stocks)
    {
        const struct fabric_stock *stock = container_of(node, struct fabric_stock, node);
        struct ibv_srq_attr attr;

        assert_int_equal(query_srq(stock->srq, &attr), 0);
        sum.shared_receives += attr.max_wr;
        sum.posted_shared += stock->held;
    }
    return sum;
}

static void expect_nothing_left(void)
{
    const struct fake_verbs_sum left = ask_kernel();

    assert_int_equal(left.queue_pairs, own.queue_pairs);
    assert_int_equal(left.completion_queues, own.completion_queues);
    assert_int_equal(left.registrations, own.registrations);
    assert_int_equal(left.shared_queues, own.shared_queues);
}
#endif

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

static void on_called(void *context, struct link *link, const struct rpc_request *request,
                      uint64_t now_us)
{
    (void)context;
    (void)now_us;
    rpc_reply(link_calls(link), request->call, NIGH_OK, NULL, 0);
}

/* ---- a lane, and the lanes of its peers ---- */

/* Of a peer: a device rounds up what queues have room for, and grants more inline than another. */
struct room {
    uint32_t sends, receives;
    uint32_t ring_kib;
};

struct cost {
    uint32_t peers;
    uint32_t completion_queues;
    uint32_t posted, registered_kib; /* of a peer */
    struct room fake, rxe;
    uint32_t shared; /* receives of all together */
    uint32_t bulk_endpoints;
    uint32_t regions;  /* endpoints for them; 0: as lanes have that are not the first */
    enum link_way way; /* of calls */
};

static void side_open(struct side *side, uint32_t rank, const struct members *members,
                      const struct cost *cost, const struct verbs_library *library)
{
    const char *host = rank == 0 ? FIRST_ADDRESS : OTHER_ADDRESS;
    const struct verbs_options options = {.library = library, .address = host};
    const struct links_shell shell = {.context = side,
                                      .up = on_up,
                                      .down = on_down,
                                      .request = on_request,
                                      .bulk = support_no_bulk,
                                      .called = on_called};
    struct links_config config;
    char why[VERBS_WHY_BYTES], address[FABRIC_ADDRESS_BYTES];

    memset(side, 0, sizeof(*side));
    (void)snprintf(address, sizeof(address), "%s:0", host);
    assert_int_equal(verbs_create(&options, why, &side->fabric), NIGH_OK);
    assert_int_equal(fabric_listen(side->fabric, address), NIGH_OK);
    fabric_address(side->fabric, side->address);
    config = support_links_config(side->fabric, rank, members, &shell);
    support_links_users(&config, members, cost->way);
    config.writes = cost->regions > 0 ? EXCHANGE_WRITES : 0;
    assert_int_equal(links_create(&config, &side->links), NIGH_OK);
}

static void side_close(struct side *side)
{
    links_destroy(side->links);
    fabric_destroy(side->fabric);
}

static void say_up(struct side *side, const struct side *other, uint32_t rank, bool dials,
                   const struct cost *cost)
{
    struct link_peer info = {.rank = rank,
                             .incarnation = 1,
                             .dials = dials,
                             .lanes = 1,
                             .bulk_endpoints = cost->bulk_endpoints,
                             .region_endpoints = cost->regions};

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
           sum->posted_shared * ((EXCHANGE_BULK_BYTES + UINT64_C(63)) & ~UINT64_C(63));
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
           (unsigned long long)rings / peers / 1024, (unsigned long long)sum->posted_shared,
           (unsigned long long)(sum->registered_bytes - own_bytes(sum)) / 1024);
}

static void expect(const struct cost *cost, const struct fake_verbs_sum *sum, uint64_t rings)
{
    const struct room *room = is_on_fake ? &cost->fake : &cost->rxe;
    uint32_t further = cost->bulk_endpoints - 1 + cost->regions;

    assert_int_equal(sum->queue_pairs, (3 + further) * cost->peers);
    assert_int_equal(sum->registrations,
                     (cost->way == LINK_SEND ? 1 : 2) * cost->peers + (cost->shared > 0));
    assert_int_equal(sum->shared_queues, cost->shared > 0);
    assert_in_range(sum->shared_receives, cost->shared, 2 * cost->shared);
    assert_int_equal(sum->posted_shared, cost->shared);
    assert_int_equal(sum->completion_queues, cost->completion_queues);
    assert_int_equal(sum->sends, (uint64_t)room->sends * cost->peers);
    assert_int_equal(sum->receives, (uint64_t)room->receives * cost->peers);
    assert_int_equal(sum->posted_receives, (uint64_t)cost->posted * cost->peers);
    assert_int_equal(own_bytes(sum) / cost->peers / 1024, cost->registered_kib);
    assert_int_equal(rings / cost->peers / 1024, room->ring_kib);
    if (is_on_fake) /* where nothing is received there is room for one, and none */
        assert_int_equal(sum->receives, sum->posted_receives + further * cost->peers);
    /* V8: what the queue pairs may complete at once has room. */
    assert_true(sum->sends + sum->receives + sum->shared_receives <= sum->completion_entries);
}

static void hold(const struct cost *cost)
{
    struct side *sides = calloc(cost->peers + 1, sizeof(*sides));
    const struct verbs_library *library = library_here();
    struct fake_verbs_sum sum;
    struct members members;
    uint64_t rings;

    members_alone(&members);
    members.count = cost->peers + 1;
    for (uint32_t i = 0; i <= cost->peers; i++)
        side_open(&sides[i], i, &members, cost, library);
    for (uint32_t i = 1; i <= cost->peers; i++) {
        say_up(&sides[0], &sides[i], i, false, cost);
        say_up(&sides[i], &sides[0], 0, true, cost);
    }
    assert_true(SUPPORT_WAIT(({
                                 turn_all(sides, cost->peers + 1);
                                 sides[0].up == cost->peers;
                             }),
                             PATIENCE_MS));
    sum = count(&sides[0]);
    rings = ring_bytes(sides[0].fabric);
    print(&sum, cost->peers, rings);
    expect(cost, &sum, rings);
    for (uint32_t i = 0; i <= cost->peers; i++)
        side_close(&sides[i]);
    free(sides);
    expect_nothing_left();
}

static void what_peers_cost(void **state)
{
    static const struct cost costs[] = {
        {1, 1, 237, 2371, {824, 238, 439}, {1148, 414, 631}, 0, 1, 1, LINK_SEND},
        {8, 1, 141, 1477, {590, 142, 314}, {892, 206, 442}, 0, 1, 1, LINK_SEND},
        {8, 1, 141, 1461, {460, 141, 277}, {637, 205, 405}, 0, 1, 0, LINK_SEND},
        {8, 1, 141, 1477, {720, 143, 352}, {1147, 207, 480}, 0, 1, 2, LINK_SEND},
        {31, 2, 141, 1477, {590, 142, 314}, {892, 206, 442}, 0, 1, 1, LINK_SEND},
        {32, 2, 79, 677, {460, 80, 252}, {764, 127, 348}, LIMIT_SHARED_RECEIVES, 1, 1, LINK_SEND},
        {64, 2, 42, 369, {364, 43, 191}, {636, 63, 255}, LIMIT_SHARED_RECEIVES, 1, 1, LINK_SEND},
        {64, 2, 42, 353, {234, 42, 154}, {381, 62, 218}, LIMIT_SHARED_RECEIVES, 1, 0, LINK_SEND},
        {8, 1, 141, 1477, {656, 143, 333}, {1019, 207, 461}, 0, 2, 1, LINK_SEND},
        {8, 1, 141, 1477, {788, 145, 371}, {1273, 209, 499}, 0, 4, 1, LINK_SEND},
        {64, 3, 42, 369, {562, 46, 248}, {1017, 66, 312}, LIMIT_SHARED_RECEIVES, 4, 1, LINK_SEND},
        /* Calls that are written: one ring in place of a buffer for each receive. */
        {1, 1, 237, 1471, {824, 238, 439}, {1148, 414, 631}, 0, 1, 1, LINK_WRITE},
        {8, 1, 141, 1015, {590, 142, 314}, {892, 206, 442}, 0, 1, 1, LINK_WRITE},
        {32, 2, 79, 433, {460, 80, 252}, {764, 127, 348}, LIMIT_SHARED_RECEIVES, 1, 1, LINK_WRITE},
        {64, 2, 42, 267, {364, 43, 191}, {636, 63, 255}, LIMIT_SHARED_RECEIVES, 1, 1, LINK_WRITE},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(costs); i++)
        hold(&costs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_peers_cost)};

    return cmocka_run_group_tests_name("verbs-peers", tests, NULL, NULL);
}
