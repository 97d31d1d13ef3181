/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the get of an object from another node costs where RDMA joins the two: work requests,
 * doorbells, completions, registrations, bytes that a processor copies, wake-ups of the holder,
 * round trips; by size and by path.
 *
 * Two whole lanes' exchanges, with their stores and links, driven by one thread: the puller spins,
 * the holder sleeps on its fabric's descriptor and is driven only when that wakes it. So every
 * count is exact, on the stand-in for a device (fabric-verbs-counts) and on the machine's own
 * (rdma-verbs-counts).
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "fabric/verbs/verbs_internal.h"
#include "memory/extent_internal.h"
#include "memory/pin.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_pull.h"
#include "object/exchange_wire.h"
#include "support/lane_store.h"
#include "support/support.h"

#ifdef COUNTS_FAKE
#include "fabric/fake_verbs.h"
#endif

#define B   UINT64_C(1)
#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

#define PATIENCE_MS  60000
#define GET_US       UINT64_C(30000000)
#define KEEPALIVE_MS 3600000u /* nobody is asked whether he is there */
#define ENTRIES      256u
#define POOL         0u
#define CLUSTER      UINT64_C(0x706f6f6c)
#define GETS         16u /* that are counted, after two that are not */
#define SLOWER       100u
#define HEAD_BYTES   160u /* of a frame, at most: what is copied of a message besides the object */
#define WINDOWS_BYTES                                                          \
    (WIRE_WINDOWS * sizeof(struct wire_window)) /* and of one that grants them \
                                                 */

enum {
    HOLDER,
    PULLER,
    SIDES
};

/* ---- time ------------------------------------------------------------------- */

static bool is_slow;
static uint64_t fast_us, slow_us; /* that have passed at each pace */
static uint64_t looked_us;

/* While a get is under way time goes slowly: what is said once a second to show that one lives is
 * not said, however slow the machine is. */
static uint64_t now_us(void)
{
    uint64_t at_us = support_now_us(), passed_us = looked_us == 0 ? 0 : at_us - looked_us;

    looked_us = at_us;
    if (is_slow)
        slow_us += passed_us;
    else
        fast_us += passed_us;
    return UINT64_C(1000000) + fast_us + slow_us / SLOWER;
}

/* ---- two lanes ------------------------------------------------------------- */

struct side {
    struct members members;
    struct support_store lane;
    struct fabric *fabric;
    struct exchange *exchange;
    char address[FABRIC_ADDRESS_BYTES];
    bool has_ended;
    struct session_cqe cqe;
    bool is_asleep;
    uint64_t wakes;
};

static struct side sides[SIDES];

static void on_complete(void *context, uint32_t session, const struct session_cqe *cqe)
{
    struct side *side = context;

    (void)session;
    side->cqe = *cqe;
    side->has_ended = true;
}

static uint64_t on_wall(void *context)
{
    (void)context;
    return now_us() * 1000;
}

static void open_store(struct side *side, uint32_t rank)
{
    const struct support_store_options options = {.rank = rank,
                                                  .entries = ENTRIES,
                                                  .wall_ns = on_wall,
                                                  .complete = on_complete,
                                                  .context = side};

    support_store_open(&side->lane, &options);
}

/* The machine's two first hosts as tools/rdma-guest has them; or the stand-in, twice. */
static const char *address_of(uint32_t rank)
{
#ifdef COUNTS_FAKE
    (void)rank;
    return FAKE_VERBS_ADDRESS;
#else
    return rank == HOLDER ? "10.99.0.1" : "10.99.0.2";
#endif
}

static nigh_status open_fabric(struct side *side, uint32_t rank, char why[VERBS_WHY_BYTES])
{
    const struct verbs_options options = {
#ifdef COUNTS_FAKE
        .library = fake_verbs_library(),
#endif
        .address = address_of(rank),
        .keepalive_ms = KEEPALIVE_MS};
    char address[FABRIC_ADDRESS_BYTES];
    nigh_status status = verbs_create(&options, why, &side->fabric);

    if (status != NIGH_OK)
        return status;
    (void)snprintf(address, sizeof(address), "%s:0", address_of(rank));
    assert_int_equal(fabric_listen(side->fabric, address), NIGH_OK);
    fabric_address(side->fabric, side->address);
    return NIGH_OK;
}

static void open_side(uint32_t rank, enum exchange_path path)
{
    struct side *side = &sides[rank];
    struct exchange_config config = {.members = &side->members,
                                     .lanes = 1,
                                     .incarnation = 1,
                                     .max_keys = 1024,
                                     .path = path,
                                     .seed = 1};
    char why[VERBS_WHY_BYTES], self[2] = {(char)('0' + rank), '\0'};

    memset(side, 0, sizeof(*side));
    assert_int_equal(members_parse("n0:1,n1:1", self, &side->members, why, sizeof(why)), NIGH_OK);
    open_store(side, rank);
    assert_int_equal(open_fabric(side, rank, why), NIGH_OK);
    config.fabric = side->fabric;
    config.store = side->lane.store;
    config.extents = side->lane.set;
    assert_int_equal(exchange_create(&config, &side->exchange), NIGH_OK);
    assert_int_equal(exchange_pool_add(side->exchange, POOL, CLUSTER), NIGH_OK);
}

static void close_side(struct side *side)
{
    exchange_destroy(side->exchange);
    fabric_destroy(side->fabric);
    support_store_close(&side->lane);
}

/* ---- driven ---------------------------------------------------------------- */

static bool turn(struct side *side)
{
    uint64_t at_us = now_us();
    bool any = exchange_turn(side->exchange, at_us);

    (void)store_tick(side->lane.store, at_us);
    return any;
}

/* The holder sleeps as a lane does, and its descriptor alone wakes it; its timers do not count. */
static void drive_holder(void)
{
    struct side *side = &sides[HOLDER];
    struct pollfd pollfd = {.fd = fabric_fd(side->fabric), .events = POLLIN};

    if (side->is_asleep && poll(&pollfd, 1, 0) > 0) {
        side->is_asleep = false;
        side->wakes++;
    } else if (side->is_asleep && now_us() < exchange_due_us(side->exchange)) {
        return;
    }
    while (turn(side)) {
    }
    side->is_asleep = fabric_arm(side->fabric);
}

static bool are_idle(void)
{
    (void)turn(&sides[PULLER]);
    drive_holder();
    for (uint32_t rank = 0; rank < SIDES; rank++) {
        const struct exchange *exchange = sides[rank].exchange;

        if (!exchange_is_idle(exchange) || exchange->prober.wanting > 0)
            return false; /* a link that is new is measured first */
    }
    return sides[HOLDER].is_asleep;
}

static bool are_joined(void)
{
    struct exchange_stats stats;

    (void)are_idle();
    exchange_stats(sides[HOLDER].exchange, &stats);
    if (stats.links_up == 0)
        return false;
    exchange_stats(sides[PULLER].exchange, &stats);
    return stats.links_up > 0;
}

static void open_both(enum exchange_path path)
{
#ifdef COUNTS_FAKE
    fake_verbs_start();
#endif
    for (uint32_t rank = 0; rank < SIDES; rank++)
        open_side(rank, path);
    for (uint32_t rank = 0; rank < SIDES; rank++) {
        struct link_peer peer = {
            .rank = 1 - rank, .incarnation = 1, .dials = rank == PULLER, .lanes = 1};

        memcpy(peer.addresses[0], sides[1 - rank].address, sizeof(peer.addresses[0]));
        assert_int_equal(exchange_peer_up(sides[rank].exchange, &peer, now_us()), NIGH_OK);
    }
    assert_true(SUPPORT_WAIT(are_joined() && are_idle(), PATIENCE_MS));
}

static void close_both(void)
{
    for (uint32_t rank = 0; rank < SIDES; rank++)
        close_side(&sides[rank]);
#ifdef COUNTS_FAKE
    assert_string_equal(fake_verbs_left(), "");
#endif
}

/* ---- objects ---------------------------------------------------------------- */

/* The n-th id whose home the holder is. */
static struct directory_key key_of(uint32_t n)
{
    struct directory_key key = {.pool = CLUSTER};

    for (uint32_t i = 0;; i++) {
        memset(key.id, (int)(i + 1), LIMIT_ID_BYTES);
        if (members_home(&sides[HOLDER].members, directory_key_hash(&key)) == HOLDER && n-- == 0)
            return key;
    }
}

static void submit(struct side *side, const struct directory_key *key, struct session_sqe sqe)
{
    memcpy(sqe.id, key->id, LIMIT_ID_BYTES);
    side->has_ended = false;
    store_submit(side->lane.store, 0, &sqe, now_us());
}

static void put(const struct directory_key *key, uint64_t bytes)
{
    struct side *side = &sides[HOLDER];
    struct session_sqe seal = {.op = SESSION_OP_SEAL};

    submit(side, key, (struct session_sqe){.op = SESSION_OP_CREATE, .data_size = bytes});
    assert_true(side->has_ended && side->cqe.status == NIGH_OK);
    memset(extent_bytes_at(side->lane.set, side->cqe.offset), key->id[0], bytes);
    seal.ref = side->cqe.ref;
    submit(side, key, seal);
    assert_true(side->has_ended && side->cqe.status == NIGH_OK);
    assert_true(SUPPORT_WAIT(are_idle(), PATIENCE_MS));
}

/* ---- counted ---------------------------------------------------------------- */

struct counts {
    struct fabric_counts device;
    uint64_t registrations;
    uint64_t copied_bytes; /* into place, too */
};

/* Of one transfer, or of many. */
struct cost {
    struct counts of[SIDES];
    uint64_t wakes;              /* of the holder */
    uint64_t messages_reading;   /* that came to it while READs were under way */
    uint64_t wakes_reading;      /* of them, those while READs were under way */
    uint64_t answers;            /* that the puller waited for */
    uint64_t reads, read_rounds; /* READs; and times that some began when those before were over */
};

static struct counts counts_of(const struct side *side)
{
    struct exchange_stats stats;

    exchange_stats(side->exchange, &stats);
    return (struct counts){.device = side->fabric->counts,
                           .registrations = side->fabric->registrations,
                           .copied_bytes = side->fabric->counts.copied_bytes +
                                           stats.pulled_bytes_two_sided +
                                           stats.pulled_bytes_pushed};
}

static uint64_t answers_of(const struct side *side)
{
    struct exchange_link *link =
        container_of(list_first(&side->exchange->live), struct exchange_link, place);

    return rpc_counters(link_rpc(link->link))->replies;
}

static uint64_t reads_of(const struct side *side)
{
    return links_counters(side->exchange->links)->reads;
}

static struct cost look(void)
{
    struct cost cost = {.wakes = sides[HOLDER].wakes,
                        .answers = answers_of(&sides[PULLER]),
                        .reads = reads_of(&sides[PULLER])};

    for (uint32_t rank = 0; rank < SIDES; rank++)
        cost.of[rank] = counts_of(&sides[rank]);
    return cost;
}

/* READs that the puller waits for. */
static uint32_t reads_now(void)
{
    const struct exchange *exchange = sides[PULLER].exchange;
    uint32_t reads = 0;

    for (uint32_t n = 0; n < exchange->pulls_used; n++)
        reads += exchange->pulls[n].state != PULL_FREE ? exchange->pulls[n].reads : 0;
    return reads;
}

/* One step of both sides while a get is under way. */
static bool step(struct cost *cost)
{
    const struct side *holder = &sides[HOLDER];
    uint64_t reads = reads_of(&sides[PULLER]), wakes = holder->wakes;
    uint64_t messages = holder->fabric->counts.messages;

    (void)turn(&sides[PULLER]);
    reads = reads_of(&sides[PULLER]) - reads;
    cost->read_rounds += reads > 0 && reads_now() <= reads; /* all before were over */
    if (reads_now() == 0) {
        drive_holder();
        return sides[PULLER].has_ended;
    }
    drive_holder();
    cost->wakes_reading += holder->wakes - wakes;
    cost->messages_reading += holder->fabric->counts.messages - messages;
    return false;
}

/* What was pulled is gone: its memory comes back some time after its last view. */
static bool is_gone(void)
{
    nigh_node_stats stats = {0};
    bool idle = are_idle();

    store_stats(sides[PULLER].lane.store, &stats);
    return idle && stats.objects_deleting == 0;
}

/* No copy stays: the next get of it is another transfer. */
static void get(const struct directory_key *key, uint64_t bytes, struct cost *cost)
{
    struct side *side = &sides[PULLER];
    const uint8_t *data;

    submit(side, key,
           (struct session_sqe){
               .op = SESSION_OP_GET, .flags = SESSION_FLAG_NO_COPY, .argument = GET_US});
    is_slow = true;
    assert_true(SUPPORT_WAIT(step(cost), PATIENCE_MS));
    is_slow = false;
    assert_int_equal(side->cqe.status, NIGH_OK);
    assert_int_equal(side->cqe.data_size, bytes);
    data = extent_bytes_at(side->lane.set, side->cqe.offset);
    assert_true(data[0] == key->id[0] && data[bytes - 1] == key->id[0]);
    pin_clear(&session_lane_of(side->lane.session, 0)->pin_entry[side->cqe.pin]);
    assert_true(SUPPORT_WAIT(is_gone(), PATIENCE_MS));
}

#define SINCE(field) after.field -= before.field

/* What GETS gets of an object cost together. By the first the holder sums the object, and what
 * buffers a link has not yet had are made; registrations are counted from the second on. */
static struct cost measure(uint32_t n, uint64_t bytes)
{
    struct directory_key key = key_of(n);
    struct cost counted = {0}, first, before, after;

    put(&key, bytes);
    get(&key, bytes, &counted);
    first = look();
    get(&key, bytes, &counted);
    counted = (struct cost){0};
    before = look();
    for (uint32_t i = 0; i < GETS; i++)
        get(&key, bytes, &counted);
    after = look();
    for (uint32_t rank = 0; rank < SIDES; rank++) {
        SINCE(of[rank].device.requests);
        SINCE(of[rank].device.doorbells);
        SINCE(of[rank].device.signalled);
        SINCE(of[rank].device.receive_doorbells);
        SINCE(of[rank].device.messages);
        SINCE(of[rank].device.immediates);
        after.of[rank].registrations -= first.of[rank].registrations;
        SINCE(of[rank].copied_bytes);
    }
    SINCE(wakes);
    SINCE(answers);
    SINCE(reads);
    after.read_rounds = counted.read_rounds;
    after.wakes_reading = counted.wakes_reading;
    after.messages_reading = counted.messages_reading;
    return after;
}

static void print(const char *path, uint64_t bytes, const struct cost *cost)
{
    static const char *const names[SIDES] = {"holder", "puller"};

    printf("# %s, %" PRIu64 " bytes, a get:\n", path, bytes);
    for (uint32_t rank = 0; rank < SIDES; rank++) {
        const struct counts *of = &cost->of[rank];

        printf("#   %s: requests %.2f, doorbells %.2f, signalled %.2f, receives %.2f in %.2f "
               "doorbells, with immediate data %.2f, copied bytes %.0f, registrations %.2f\n",
               names[rank], (double)of->device.requests / GETS, (double)of->device.doorbells / GETS,
               (double)of->device.signalled / GETS, (double)of->device.messages / GETS,
               (double)of->device.receive_doorbells / GETS, (double)of->device.immediates / GETS,
               (double)of->copied_bytes / GETS, (double)of->registrations / (GETS + 1));
    }
    printf("#   the holder is woken %.2f times, while it is read %.2f; answers awaited %.2f, READs "
           "%.2f, awaited %.2f\n",
           (double)cost->wakes / GETS, (double)cost->wakes_reading / GETS,
           (double)cost->answers / GETS, (double)cost->reads / GETS,
           (double)cost->read_rounds / GETS);
}

/* ---- what it is ------------------------------------------------------------- */

/*
 * A get, where the home holds the object and has summed it. Nothing is registered, but where it
 * says so; each message is one work request and takes one receive of the other side. READs of one
 * loan that are admitted at once, and messages of one object that the puller allowed at once, share
 * a doorbell; frames have their own. Receives that were taken in one turn are given back by one
 * call.
 */
struct expected {
    uint64_t bytes;
    uint32_t requests[SIDES];
    uint32_t doorbells[SIDES];
    uint32_t returns[SIDES];   /* of receives */
    uint32_t signalled[SIDES]; /* of GETS gets: of frames that travel inline, one in 16 */
    uint32_t copies[SIDES];    /* of the object, by a processor */
    uint32_t reads;
    uint32_t read_rounds;
    uint32_t wakes; /* of the holder */
};

static const struct expected two_sided_costs[] = {
    /* LOCATE, and its answer with the bytes in it: 64 of them go inline, with the work request...
     */
    {64 * B, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0, 0, 1},
    /* ...and more from a send buffer, which a completion gives back. */
    {KIB, {1, 1}, {1, 1}, {1, 1}, {16, 1}, {1, 1}, 0, 0, 1},
    {8 * KIB, {1, 1}, {1, 1}, {1, 1}, {16, 1}, {1, 1}, 0, 0, 1},
    /* The answer, and messages of 32 KiB out of the object's own memory: only the puller copies. */
    {32 * KIB, {2, 1}, {2, 1}, {1, 2}, {17, 1}, {0, 1}, 0, 0, 1},
    {128 * KIB, {5, 1}, {2, 1}, {1, 2}, {65, 1}, {0, 1}, 0, 0, 1},
    /* LOCATE allows four messages; each four that have come let it allow four more: what allows
     * them comes twice while the holder sends, and wakes it once. */
    {MIB, {33, 8}, {6, 8}, {5, 9}, {513, 8}, {0, 1}, 0, 0, 5},
    /* As many one-way frames need a frame back that says that they were taken. */
    {4 * MIB, {130, 32}, {19, 32}, {17, 34}, {2050, 32}, {0, 1}, 0, 0, 17},
};

static const struct expected one_sided_costs[] = {
    /* LOCATE, and the loan; a READ; DONE. Nobody copies anything. */
    {64 * B, {1, 3}, {1, 3}, {2, 1}, {1, 18}, {0, 0}, 1, 1, 2},
    {KIB, {1, 3}, {1, 3}, {2, 1}, {1, 18}, {0, 0}, 1, 1, 2},
    {8 * KIB, {1, 3}, {1, 3}, {2, 1}, {1, 18}, {0, 0}, 1, 1, 2},
    {32 * KIB, {1, 3}, {1, 3}, {2, 1}, {1, 18}, {0, 0}, 1, 1, 2},
    {128 * KIB, {1, 3}, {1, 3}, {2, 1}, {1, 18}, {0, 0}, 1, 1, 2},
    {MIB, {1, 3}, {1, 3}, {2, 1}, {1, 18}, {0, 0}, 1, 1, 2},
    /* READs of 1 MiB, all under way at once, and posted at once. */
    {4 * MIB, {1, 6}, {1, 3}, {2, 1}, {1, 66}, {0, 0}, 4, 1, 2},
};

static const struct expected pushed_costs[] = {
    /* Up to 8 KiB in the answer, as what is sent. */
    {64 * B, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0, 0, 1},
    {KIB, {1, 1}, {1, 1}, {1, 1}, {16, 1}, {1, 1}, 0, 0, 1},
    {8 * KIB, {1, 1}, {1, 1}, {1, 1}, {16, 1}, {1, 1}, 0, 0, 1},
    /* The answer, and a WRITE with immediate data into each window of 256 KiB, out of the object's
     * own memory: only the puller copies. */
    {32 * KIB, {2, 1}, {2, 1}, {1, 2}, {17, 1}, {0, 1}, 0, 0, 1},
    {128 * KIB, {2, 1}, {2, 1}, {1, 2}, {17, 1}, {0, 1}, 0, 0, 1},
    /* The question grants four windows; each four that were copied are granted again. */
    {MIB, {5, 1}, {2, 1}, {1, 2}, {65, 1}, {0, 1}, 0, 0, 1},
    {4 * MIB, {17, 4}, {4, 4}, {3, 6}, {257, 4}, {0, 1}, 0, 0, 2},
};

/* And what comes with it, one for each WRITE. */
static const uint32_t immediates[] = {0, 0, 0, 1, 1, 4, 16};

#define SIZES ARRAY_LENGTH(two_sided_costs)

_Static_assert(SIZES == ARRAY_LENGTH(one_sided_costs) && SIZES == ARRAY_LENGTH(pushed_costs) &&
                   SIZES == ARRAY_LENGTH(immediates),
               "the same sizes");

/* Each message of one side takes a receive of the other; READs take none. */
static void messages_are_received(const struct cost *cost)
{
    const struct fabric_counts *holder = &cost->of[HOLDER].device,
                               *puller = &cost->of[PULLER].device;

    assert_int_equal(holder->messages, puller->requests - cost->reads);
    assert_int_equal(puller->messages, holder->requests);
}

/* On a device messages that belong together may come one by one, and the puller may allow more
 * before the holder has heard that those before were taken. Where there is nothing to put together
 * it is the same there; not where some gets go one way and some the other. */
static void doorbells_are(uint32_t rank, const struct cost *cost, uint64_t sends, uint64_t returns)
{
    const struct fabric_counts *of = &cost->of[rank].device;

#ifdef COUNTS_FAKE
    assert_int_equal(of->doorbells, sends);
    assert_int_equal(of->receive_doorbells, returns);
#else
    assert_in_range(of->doorbells, sends,
                    sends <= 3 * GETS && sends % GETS == 0 ? sends : of->requests);
    assert_in_range(of->receive_doorbells, returns < of->messages ? GETS : returns, of->messages);
#endif
}

/* From the second transfer on: extents were when they were made, send buffers (16 at once) when the
 * first was needed, windows with the link. The second is not among those that are counted else. */
static void registrations_are(const struct cost *cost, uint32_t a_get)
{
    assert_int_equal(cost->of[HOLDER].registrations, a_get * (GETS + 1));
    assert_int_equal(cost->of[PULLER].registrations, 0);
}

/* Immediate data come to who is pushed to, and only then. */
static void immediates_are(const struct cost *cost, uint32_t a_get)
{
    assert_int_equal(cost->of[HOLDER].device.immediates, 0);
    assert_int_equal(cost->of[PULLER].device.immediates, a_get * GETS);
}

/* Between the grant of a loan and its DONE nothing comes to the holder, and nothing wakes it; but
 * that one in 16 answers has a completion of its own, which on a device may come that late. */
static void holder_sleeps(const struct cost *cost)
{
    assert_int_equal(cost->messages_reading, 0);
#ifdef COUNTS_FAKE
    assert_int_equal(cost->wakes_reading, 0);
#else
    assert_true(cost->wakes_reading <= cost->of[HOLDER].device.signalled);
#endif
}

/* Each question finds it asleep. On a device a completion of its own may come when it sleeps, and
 * wake it, or keep it from sleep until the next message is there; messages that belong together may
 * come one by one. */
static void wakes_are(const struct cost *cost, uint64_t wakes)
{
#ifdef COUNTS_FAKE
    assert_int_equal(cost->wakes, wakes);
#else
    const struct fabric_counts *holder = &cost->of[HOLDER].device;
    uint64_t spared = wakes - GETS < holder->signalled ? wakes - GETS : holder->signalled;
    uint64_t most = wakes <= UINT64_C(2) * GETS ? wakes : holder->messages;

    assert_in_range(cost->wakes, wakes - spared, most + holder->signalled);
#endif
}

static void copies_are(uint32_t rank, const struct cost *cost, const struct expected *expected,
                       uint64_t head_bytes)
{
    uint64_t objects = expected->bytes * expected->copies[rank] * GETS;
    uint64_t heads = head_bytes * expected->requests[rank] * GETS;

    assert_in_range(cost->of[rank].copied_bytes, objects, objects + heads);
}

static void expect(const struct cost *cost, const struct expected *expected, uint64_t head_bytes)
{
    messages_are_received(cost);
    holder_sleeps(cost);
    wakes_are(cost, (uint64_t)expected->wakes * GETS);
    assert_int_equal(cost->answers, GETS);
    for (uint32_t rank = 0; rank < SIDES; rank++) {
        assert_int_equal(cost->of[rank].device.requests, expected->requests[rank] * GETS);
        doorbells_are(rank, cost, (uint64_t)expected->doorbells[rank] * GETS,
                      (uint64_t)expected->returns[rank] * GETS);
        assert_int_equal(cost->of[rank].device.signalled, expected->signalled[rank]);
        copies_are(rank, cost, expected, head_bytes);
    }
    assert_int_equal(cost->reads, expected->reads * GETS);
    assert_int_equal(cost->read_rounds, expected->read_rounds * GETS);
}

static void what_gets_cost(enum exchange_path path, const char *name,
                           const struct expected *expected)
{
    uint64_t head_bytes = HEAD_BYTES + (path == EXCHANGE_PUSH ? WINDOWS_BYTES : 0);

    open_both(path);
    for (uint32_t n = 0; n < SIZES; n++) {
        struct cost cost = measure(n, expected[n].bytes);

        print(name, expected[n].bytes, &cost);
        expect(&cost, &expected[n], head_bytes);
        registrations_are(&cost, path == EXCHANGE_REGISTER ? 1 : 0);
        immediates_are(&cost, path == EXCHANGE_PUSH ? immediates[n] : 0);
    }
    close_both();
}

static void what_is_sent(void **state)
{
    (void)state;
    what_gets_cost(EXCHANGE_TWO_SIDED, "two-sided", two_sided_costs);
}

static void what_is_read(void **state)
{
    (void)state;
    what_gets_cost(EXCHANGE_ONE_SIDED, "one-sided", one_sided_costs);
}

/* As any loan, and one registration of the holder's more, however large it is. */
static void what_is_registered_each_time(void **state)
{
    (void)state;
    what_gets_cost(EXCHANGE_REGISTER, "register", one_sided_costs);
}

static void what_is_pushed(void **state)
{
    (void)state;
    what_gets_cost(EXCHANGE_PUSH, "push", pushed_costs);
}

/* Left to itself each get goes one of the two ways, and costs no more than that: small ones are
 * sent, large ones read. */
static void each_way_of_the_hybrid(void **state)
{
    (void)state;
    open_both(EXCHANGE_AUTO);
    for (uint32_t n = 0; n < SIZES; n++) {
        const struct expected *sent = &two_sided_costs[n], *read = &one_sided_costs[n];
        struct cost cost = measure(n, sent->bytes);
        uint64_t lent = cost.reads / read->reads;

        print("hybrid", sent->bytes, &cost);
        registrations_are(&cost, 0);
        messages_are_received(&cost);
        holder_sleeps(&cost);
        wakes_are(&cost, lent * read->wakes + (GETS - lent) * sent->wakes);
        for (uint32_t rank = 0; rank < SIDES; rank++) {
            assert_int_equal(cost.of[rank].device.requests,
                             lent * read->requests[rank] + (GETS - lent) * sent->requests[rank]);
            doorbells_are(rank, &cost,
                          lent * read->doorbells[rank] + (GETS - lent) * sent->doorbells[rank],
                          lent * read->returns[rank] + (GETS - lent) * sent->returns[rank]);
        }
        assert_int_equal(cost.answers, GETS);
        assert_true(sent->bytes > 8 * KIB || lent == 0);
        assert_true(sent->bytes < 4 * MIB || lent == GETS);
    }
    close_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent),
        cmocka_unit_test(what_is_read),
        cmocka_unit_test(what_is_registered_each_time),
        cmocka_unit_test(what_is_pushed),
        cmocka_unit_test(each_way_of_the_hybrid),
    };

    return cmocka_run_group_tests_name("verbs-counts", tests, NULL, NULL);
}
