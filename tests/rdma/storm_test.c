/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In the guest: a thousand connections between two software devices, some dozens at once, and every
 * way in which one may end: refused, cut by either side in the middle of the handshake, left
 * without an answer, ended after a message. Each says what it has to say once, and at the end the
 * kernel has nothing left of them: no queue pair, no identifier, no registration.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "fabric/verbs/verbs.h"
#include "support/support.h"

#define DIALS      1000u
#define AT_ONCE    48u
#define DEPTH      4u
#define BYTES      64u
#define PATIENCE_S UINT64_C(90)      /* times NIGH_TEST_PATIENCE */
#define LINGER_US  UINT64_C(2500000) /* identifiers outlive their connections by a second */
#define SHOWN      65536

enum fate {
    LIVES = 0, /* a message, then the dialler ends it */
    ENDED_BY_ACCEPTOR,
    REFUSED,
    CUT_BY_DIALLER,  /* before there is an answer */
    CUT_BY_ACCEPTOR, /* before it is established */
    UNANSWERED,
    FATES,
};

/* One side of a connection. */
struct end {
    struct fabric_endpoint *endpoint; /* NULL: free, or over */
    uint32_t dial;
    uint32_t turns; /* until it is cut */
    uint32_t established, disconnected, messages;
};

struct side {
    struct fabric *fabric;
    char address[FABRIC_ADDRESS_BYTES];
    struct fabric_memory *memory;
    uint8_t bytes[2 * BYTES];
    struct end ends[2 * AT_ONCE];
};

static struct side sides[2];
static uint32_t seen[FATES]; /* dials that ended as they should */
static uint32_t dialled, over;

static enum fate fate_of(uint32_t dial)
{
    static const enum fate fates[] = {LIVES,   CUT_BY_DIALLER,  LIVES, REFUSED,
                                      LIVES,   CUT_BY_ACCEPTOR, LIVES, ENDED_BY_ACCEPTOR,
                                      REFUSED, UNANSWERED};

    return fates[dial % ARRAY_LENGTH(fates)];
}

/* ---- what the kernel has ---- */

struct held {
    unsigned pd, cq, qp, cm_id, mr;
};

static unsigned sum_of(const char *json, const char *what)
{
    unsigned sum = 0, count;

    for (const char *at = strstr(json, what); at != NULL; at = strstr(at + 1, what)) {
        if (sscanf(at + strlen(what), "%u", &count) == 1)
            sum += count;
    }
    return sum;
}

static struct held held_now(void)
{
    static char json[SHOWN];
    FILE *pipe = popen("rdma -j resource show", "r");
    size_t bytes;

    assert_non_null(pipe);
    bytes = fread(json, 1, sizeof(json) - 1, pipe);
    json[bytes] = '\0';
    assert_int_equal(pclose(pipe), 0);
    assert_true(bytes > 0);
    return (struct held){.pd = sum_of(json, "\"pd\":"),
                         .cq = sum_of(json, "\"cq\":"),
                         .qp = sum_of(json, "\"qp\":"),
                         .cm_id = sum_of(json, "\"cm_id\":"),
                         .mr = sum_of(json, "\"mr\":")};
}

static void print_held(const char *when, const struct held *held)
{
    printf("# %s: pd %u cq %u qp %u cm_id %u mr %u\n", when, held->pd, held->cq, held->qp,
           held->cm_id, held->mr);
}

/* ---- ends ---- */

static struct end *free_end(struct side *side)
{
    for (size_t i = 0; i < ARRAY_LENGTH(side->ends); i++) {
        if (side->ends[i].endpoint == NULL)
            return &side->ends[i];
    }
    return NULL;
}

static struct fabric_endpoint_options options_of(struct end *end)
{
    return (struct fabric_endpoint_options){.sends = DEPTH, .receives = DEPTH, .context = end};
}

static void end_over(struct side *side, struct end *end)
{
    fabric_endpoint_destroy(side->fabric, end->endpoint);
    end->endpoint = NULL;
}

static void dial_over(struct side *side, struct end *end, bool was_right)
{
    seen[fate_of(end->dial)] += was_right;
    over++;
    end_over(side, end);
}

static void receive(struct side *side, struct end *end)
{
    const struct fabric_receive receive = {
        .slice = {.address = side->bytes, .bytes = BYTES, .memory = side->memory}};

    (void)fabric_post_receive(side->fabric, end->endpoint, &receive, NULL);
}

static void dial(struct side *side, const struct side *to)
{
    struct end *end = free_end(side);
    struct fabric_endpoint_options options;

    if (end == NULL)
        return;
    *end = (struct end){.dial = dialled, .turns = 1 + dialled % 200};
    options = options_of(end);
    assert_int_equal(fabric_connect(side->fabric, to->address, &options, &end->dial,
                                    sizeof(end->dial), &end->endpoint),
                     NIGH_OK);
    dialled++;
}

static void on_request(struct side *side, const struct fabric_event *event)
{
    struct end *end = free_end(side);
    struct fabric_endpoint_options options;
    uint32_t number;

    assert_int_equal(event->private_bytes, sizeof(number));
    memcpy(&number, event->private_data, sizeof(number));
    if (end == NULL || fate_of(number) == REFUSED) {
        assert_non_null(end);
        fabric_reject(side->fabric, event->endpoint);
        return;
    }
    *end = (struct end){.endpoint = event->endpoint, .dial = number};
    options = options_of(end);
    switch (fate_of(number)) {
    case UNANSWERED: return; /* DISCONNECTED comes, without a context */
    case CUT_BY_ACCEPTOR: end->turns = 1 + number % 5; break;
    default: break;
    }
    assert_int_equal(fabric_accept(side->fabric, event->endpoint, &options, NULL, 0), NIGH_OK);
    receive(side, end);
}

static void send_one(struct side *side, struct end *end)
{
    const struct fabric_slice slice = {.address = side->bytes + BYTES, .bytes = BYTES};
    const struct fabric_work work = {.op = FABRIC_SEND,
                                     .flags = FABRIC_SIGNALLED | FABRIC_INLINE,
                                     .slices = &slice,
                                     .slice_count = 1};

    (void)fabric_post(side->fabric, end->endpoint, &work, NULL);
}

/* The dialler's end says how it went. */
static void on_disconnected(struct side *side, struct end *end, nigh_status status)
{
    end->disconnected++;
    assert_int_equal(end->disconnected, 1);
    if (side != &sides[0]) {
        end_over(side, end);
        return;
    }
    switch (fate_of(end->dial)) {
    case REFUSED: dial_over(side, end, status == NIGH_DENIED); break;
    case ENDED_BY_ACCEPTOR: dial_over(side, end, end->established == 1); break;
    case LIVES: dial_over(side, end, false); break;
    default: dial_over(side, end, true); break;
    }
}

static struct end *end_of(struct side *side, const struct fabric_event *event)
{
    for (size_t i = 0; i < ARRAY_LENGTH(side->ends); i++) {
        if (side->ends[i].endpoint == event->endpoint)
            return &side->ends[i];
    }
    fail_msg("an event of an endpoint that is over");
    return NULL;
}

static void on_event(struct side *side, const struct fabric_event *event)
{
    struct end *end;

    if (event->kind == FABRIC_REQUEST) {
        on_request(side, event);
        return;
    }
    end = end_of(side, event);
    if (event->kind == FABRIC_DISCONNECTED) {
        on_disconnected(side, end, event->status);
        return;
    }
    end->established++;
    assert_int_equal(end->established, 1);
    if (side == &sides[0])
        send_one(side, end);
}

static void on_completion(struct side *side, const struct fabric_completion *completion)
{
    struct end *end = completion->context;

    if (completion->status != NIGH_OK || end->endpoint != completion->endpoint)
        return;
    if (completion->op == FABRIC_RECV && fate_of(end->dial) == ENDED_BY_ACCEPTOR)
        fabric_disconnect(side->fabric, end->endpoint);
    if (completion->op == FABRIC_SEND && fate_of(end->dial) == LIVES)
        dial_over(side, end, true);
}

/* Those whose turn it is are cut, whatever their handshake has come to. */
static void cut(struct side *side)
{
    enum fate mine = side == &sides[0] ? CUT_BY_DIALLER : CUT_BY_ACCEPTOR;

    for (size_t i = 0; i < ARRAY_LENGTH(side->ends); i++) {
        struct end *end = &side->ends[i];

        if (end->endpoint == NULL || fate_of(end->dial) != mine || --end->turns > 0)
            continue;
        if (side == &sides[0])
            dial_over(side, end, true);
        else
            end_over(side, end);
    }
}

static void turn(struct side *side)
{
    struct fabric_completion completions[16];
    struct fabric_event event;
    uint64_t now_us = clock_now_us(&clock_monotonic);
    uint32_t count = fabric_poll(side->fabric, completions, ARRAY_LENGTH(completions), now_us);

    for (uint32_t i = 0; i < count; i++)
        on_completion(side, &completions[i]);
    while (fabric_next_event(side->fabric, &event))
        on_event(side, &event);
    cut(side);
}

/* ---- the test ---- */

static void print_under_way(const struct side *side, const char *name)
{
    for (size_t i = 0; i < ARRAY_LENGTH(side->ends); i++) {
        const struct end *end = &side->ends[i];

        if (end->endpoint != NULL)
            printf("# %s has dial %u of fate %u, established %u\n", name, end->dial,
                   fate_of(end->dial), end->established);
    }
}

static bool is_late(uint64_t begun_us)
{
    if (clock_now_us(&clock_monotonic) - begun_us <
        PATIENCE_S * UINT64_C(1000000) * support_patience())
        return false;
    print_under_way(&sides[0], "the dialler");
    print_under_way(&sides[1], "the acceptor");
    return true;
}

static void side_open(struct side *side, const char *host)
{
    const struct verbs_options options = {.address = host};
    char why[VERBS_WHY_BYTES], address[FABRIC_ADDRESS_BYTES];

    memset(side, 0, sizeof(*side));
    if (verbs_create(&options, why, &side->fabric) != NIGH_OK)
        fail_msg("%s: %s", host, why);
    (void)snprintf(address, sizeof(address), "%s:0", host);
    assert_int_equal(fabric_listen(side->fabric, address), NIGH_OK);
    fabric_address(side->fabric, side->address);
    assert_int_equal(fabric_memory_register(side->fabric, side->bytes, sizeof(side->bytes),
                                            FABRIC_HOST, FABRIC_LOCAL_WRITE, &side->memory),
                     NIGH_OK);
}

static void run_for(uint64_t us)
{
    uint64_t until_us = clock_now_us(&clock_monotonic) + us;

    while (clock_now_us(&clock_monotonic) < until_us) {
        turn(&sides[0]);
        turn(&sides[1]);
    }
}

static void side_close(struct side *side)
{
    for (size_t i = 0; i < ARRAY_LENGTH(side->ends); i++) {
        if (side->ends[i].endpoint != NULL)
            end_over(side, &side->ends[i]);
    }
}

static void test_a_storm_leaves_nothing(void **state)
{
    char hosts[256], *first, *second, *rest = hosts;
    struct held before, open, after;
    uint64_t begun_us;

    (void)state;
    (void)snprintf(hosts, sizeof(hosts), "%s", getenv("RDMA_GUEST_HOSTS"));
    first = strsep(&rest, " ");
    second = strsep(&rest, " ");
    before = held_now();
    side_open(&sides[0], first);
    side_open(&sides[1], second);
    open = held_now();
    begun_us = clock_now_us(&clock_monotonic);
    while (over < DIALS) {
        if (dialled < DIALS && dialled - over < AT_ONCE)
            dial(&sides[0], &sides[1]);
        turn(&sides[0]);
        turn(&sides[1]);
        if (is_late(begun_us))
            fail_msg("%u of %u dials are over after so long", over, DIALS);
    }
    printf("# %u dials in %llu ms\n", DIALS,
           (unsigned long long)(clock_now_us(&clock_monotonic) - begun_us) / 1000);
    side_close(&sides[0]);
    side_close(&sides[1]);
    run_for(LINGER_US);
    after = held_now();
    print_held("before", &before);
    print_held("open", &open);
    print_held("after the storm", &after);
    for (uint32_t fate = 0; fate < FATES; fate++)
        printf("# fate %u: %u\n", fate, seen[fate]);
    assert_int_equal(after.qp, open.qp);
    assert_int_equal(after.cm_id, open.cm_id);
    assert_int_equal(after.mr, open.mr);
    assert_in_range(after.cq, open.cq, open.cq + 2); /* one of each fabric, for all its endpoints */
    assert_int_equal(seen[LIVES], DIALS * 4 / 10);
    assert_int_equal(seen[REFUSED], DIALS * 2 / 10);
    assert_int_equal(seen[ENDED_BY_ACCEPTOR], DIALS / 10);
    assert_int_equal(seen[CUT_BY_DIALLER] + seen[CUT_BY_ACCEPTOR] + seen[UNANSWERED],
                     DIALS * 3 / 10);
    fabric_destroy(sides[0].fabric);
    fabric_destroy(sides[1].fabric);
    after = held_now();
    print_held("closed", &after);
    assert_int_equal(after.qp, before.qp);
    assert_int_equal(after.cm_id, before.cm_id);
    assert_int_equal(after.mr, before.mr);
    assert_int_equal(after.cq, before.cq);
    assert_int_equal(after.pd, before.pd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_storm_leaves_nothing)};

    return cmocka_run_group_tests_name("rdma-storm", tests, NULL, NULL);
}
