/* SPDX-License-Identifier: Apache-2.0 */
/* nigh_nodes, nigh_where and nigh_locate: what is asked of whom, and what becomes of answers, wrong
 * ones too. */
#include <string.h>

#include "base/check.h"
#include "nigh/nigh.h"
#include "support/fake_node.h"
#include "support/support.h"

#define LANES 4

struct fixture {
    struct fake_node fake;
    nigh_client *client;
    /* Set by the test, read by the fake node's thread. */
    _Atomic nigh_status status; /* of every answer */
    _Atomic uint64_t said;      /* how many records, or ranks, it says there are */
    _Atomic uint32_t asked;     /* ops of ours that came */
    _Atomic uint32_t lane;      /* of the last */
    _Atomic uint32_t flags;
    _Atomic uint64_t argument;
    _Atomic uint32_t self; /* its rank, and one; 0: an older node */
    _Atomic bool is_older; /* and says nothing of calls */
    _Atomic uint32_t busy; /* so many answers more are NIGH_BUSY */
    _Atomic uint8_t ranks[SESSION_PLACES];
    _Atomic bool has_no_names; /* an older node */
};

/* Ranks 1 and 3 have names; 4 wants one that it has not. */
static enum fake_action tell_names(struct fixture *f, struct fake_node *fake, uint32_t number,
                                   struct session_cqe *cqe)
{
    static const struct session_name names[] = {
        {.rank = 1, .name = "one"},
        {.rank = 3, .name = "a-name-of-thirty-two-bytes-and--"},
        {.rank = 4, .refused = NIGH_EXISTS}};

    memcpy(session_lane_of(fake->memory, number)->reply, names, sizeof(names));
    cqe->data_size = sizeof(names) / sizeof(names[0]);
    if (f->has_no_names)
        cqe->status = NIGH_INVALID;
    return FAKE_ANSWER;
}

static enum fake_action answer(void *context, struct fake_node *fake, uint32_t number,
                               const struct session_sqe *sqe, struct session_cqe *cqe)
{
    struct fixture *f = context;

    if (sqe->op != SESSION_OP_NODES && sqe->op != SESSION_OP_WHERE && sqe->op != SESSION_OP_LINKS)
        return FAKE_SERVE;
    f->lane = number;
    f->flags = sqe->flags;
    f->argument = sqe->argument;
    atomic_fetch_add(&f->asked, 1);
    cqe->status = f->status;
    cqe->data_size = f->said;
    if (sqe->op == SESSION_OP_NODES && sqe->flags == SESSION_FLAG_NAMES)
        return tell_names(f, fake, number, cqe);
    if (sqe->op == SESSION_OP_WHERE) {
        for (uint32_t n = 0; n < SESSION_PLACES; n++)
            session_set_place(cqe, n, f->ranks[n]);
        /* The size is told by the id, so that a test knows it. */
        cqe->lease_offset = sqe->id[1];
        cqe->ref = f->self;
        if (f->busy > 0) {
            f->busy--;
            cqe->status = NIGH_BUSY;
        }
        return FAKE_ANSWER;
    }
    for (uint32_t n = 0; sqe->op == SESSION_OP_LINKS && n < SESSION_LINKS; n++) {
        struct session_link link = {.rank = n,
                                    .rail = number,
                                    .crossover_bytes = n == 1 ? NIGH_NO_CROSSOVER : n * 1024,
                                    .measured = n,
                                    .to_measure = 42};

        memcpy(session_lane_of(fake->memory, number)->reply + n * sizeof(link), &link,
               sizeof(link));
    }
    for (uint32_t n = 0;
         sqe->op == SESSION_OP_LINKS && !f->is_older && n < min_u64(f->said, SESSION_LINKS); n++) {
        struct session_link_calls calls = {
            .way = n + 1, .sent_us = n + 1, .written_us = 2 * (n + 1)};

        memcpy(session_lane_of(fake->memory, number)->reply +
                   min_u64(f->said, SESSION_LINKS) * sizeof(struct session_link) +
                   n * sizeof(calls),
               &calls, sizeof(calls));
        cqe->meta_size = sizeof(calls);
    }
    for (uint32_t n = 0; sqe->op == SESSION_OP_NODES && n < LIMIT_NODES; n++) {
        struct session_node node = {.rank = n,
                                    .state = (uint16_t)(n % 5),
                                    .refused = n == 2 ? NIGH_DENIED : NIGH_OK,
                                    .life = n == 3 ? NIGH_NODE_SUSPECTED | SESSION_NODE_LEAVES |
                                                         NIGH_NODE_IN_VIEW << SESSION_NODE_VIEW
                                                   : 0,
                                    .incarnation = n * 7,
                                    .is_self = n == 1};

        memset(node.address, 'a', sizeof(node.address)); /* no terminator */
        memcpy(session_lane_of(fake->memory, number)->reply + n * sizeof(node), &node,
               sizeof(node));
    }
    return FAKE_ANSWER;
}

static void start(struct fixture *f)
{
    nigh_client_options open = {.struct_size = sizeof(open)};

    memset(f, 0, sizeof(*f));
    fake_node_start(&f->fake, &(struct fake_options){.lanes = LANES, .hook = answer, .context = f});
    open.socket_path = f->fake.path;
    assert_int_equal(nigh_client_open(&open, &f->client), NIGH_OK);
}

static void stop(struct fixture *f)
{
    nigh_client_close(f->client);
    fake_node_stop(&f->fake);
}

static void nodes_are_told_as_they_are(void **state)
{
    static nigh_node_info nodes[LIMIT_NODES];
    struct fixture f;
    size_t count = 99;

    (void)state;
    start(&f);
    f.said = 5;
    memset(nodes, 0x55, sizeof(nodes));
    nodes[0].struct_size = sizeof(nodes[0]);
    assert_int_equal(nigh_nodes(f.client, nodes, 5, &count), NIGH_OK);
    assert_int_equal(count, 5);
    assert_int_equal(f.lane, 0);
    for (uint32_t n = 0; n < 5; n++) {
        assert_int_equal(nodes[n].rank, n);
        assert_int_equal(nodes[n].state,
                         n < 4 ? n : NIGH_NODE_IS_AWAY); /* one of a later version */
        assert_int_equal(nodes[n].incarnation, n * 7);
        assert_int_equal(nodes[n].struct_size, sizeof(nodes[0]));
        assert_int_equal(nodes[n].is_self, n == 1);
        assert_int_equal(nodes[n].leaving, n == 3);
        assert_int_equal(nodes[n].life, n == 3 ? NIGH_NODE_SUSPECTED : NIGH_NODE_LIVES);
        assert_int_equal(nodes[n].view, n == 3 ? NIGH_NODE_IN_VIEW : NIGH_NODE_NO_VIEW);
        assert_int_equal(nodes[n].refused, n == 2 ? NIGH_DENIED : NIGH_OK);
        assert_int_equal(strlen(nodes[n].address), sizeof(nodes[n].address) - 1);
    }
    stop(&f);
}

/* A program of a later version knows more of each, and finds 0 there; of one that has not said what
 * it knows, nothing is written. */
static void nodes_are_as_long_as_the_caller_knows(void **state)
{
    struct later {
        nigh_node_info info;
        uint64_t more;
    } later[3];
    const size_t wrong[] = {0, 8, sizeof(nigh_node_info) + 1, UINT64_C(0x5555555555555555)};
    struct fixture f;
    size_t count;

    (void)state;
    start(&f);
    f.said = 3;
    memset(later, 0x55, sizeof(later));
    later[0].info.struct_size = sizeof(later[0]);
    assert_int_equal(nigh_nodes(f.client, &later[0].info, 3, &count), NIGH_OK);
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(later[n].info.struct_size, sizeof(later[0]));
        assert_int_equal(later[n].info.rank, n);
        assert_string_equal(later[n].info.name, n == 1 ? "one" : "");
        assert_int_equal(later[n].more, 0);
    }
    for (size_t n = 0; n < sizeof(wrong) / sizeof(wrong[0]); n++) {
        char why[128];

        memset(later, 0x55, sizeof(later));
        later[0].info.struct_size = wrong[n];
        assert_int_equal(nigh_nodes(f.client, &later[0].info, 3, &count), NIGH_INVALID);
        (void)nigh_client_error(f.client, why, sizeof(why));
        assert_non_null(strstr(why, "set it to sizeof(nigh_node_info)"));
        assert_int_equal(later[0].info.rank, 0x55555555);
    }
    stop(&f);
}

static void names_are_told(void **state)
{
    static nigh_node_info nodes[5] = {{.struct_size = sizeof(nodes[0])}};
    struct fixture f;
    uint32_t rank = 77;
    size_t count;

    (void)state;
    start(&f);
    f.said = 5;
    assert_int_equal(nigh_nodes(f.client, nodes, 5, &count), NIGH_OK);
    assert_string_equal(nodes[0].name, "");
    assert_string_equal(nodes[1].name, "one");
    assert_string_equal(nodes[3].name, "a-name-of-thirty-two-bytes-and-"); /* it ends */
    assert_int_equal(nodes[3].name_refused, NIGH_OK);
    assert_int_equal(nodes[4].name_refused, NIGH_EXISTS);
    assert_int_equal(nigh_rank_of_name(f.client, "one", &rank), NIGH_OK);
    assert_int_equal(rank, 1);
    assert_int_equal(nigh_rank_of_name(f.client, "two", &rank), NIGH_NOT_FOUND);
    assert_int_equal(nigh_rank_of_name(f.client, "", &rank), NIGH_NOT_FOUND);
    assert_int_equal(nigh_rank_of_name(f.client, NULL, &rank), NIGH_INVALID);
    assert_int_equal(nigh_rank_of_name(f.client, "one", NULL), NIGH_INVALID);
    assert_int_equal(nigh_rank_of_name(NULL, "one", &rank), NIGH_INVALID);
    assert_int_equal(rank, 1);
    f.has_no_names = true;
    assert_int_equal(nigh_nodes(f.client, nodes, 5, &count), NIGH_OK);
    assert_string_equal(nodes[1].name, "");
    assert_int_equal(nigh_rank_of_name(f.client, "one", &rank), NIGH_UNSUPPORTED);
    stop(&f);
}

static void nodes_beyond_the_room_are_only_counted(void **state)
{
    nigh_node_info nodes[3];
    struct fixture f;
    size_t count;

    (void)state;
    start(&f);
    f.said = 200;
    memset(nodes, 0x55, sizeof(nodes));
    nodes[0].struct_size = sizeof(nodes[0]);
    assert_int_equal(nigh_nodes(f.client, nodes, 2, &count), NIGH_OK);
    assert_int_equal(count, 200);
    assert_int_equal(nodes[1].rank, 1);
    assert_int_equal(nodes[2].rank, 0x55555555);
    assert_int_equal(nigh_nodes(f.client, NULL, 0, &count), NIGH_OK);
    assert_int_equal(count, 200);
    /* More than there can be. */
    f.said = UINT64_MAX;
    assert_int_equal(nigh_nodes(f.client, NULL, 0, &count), NIGH_OK);
    assert_int_equal(count, LIMIT_NODES);
    stop(&f);
}

/* Each lane tells its own. */
static void links_of_all_lanes_are_told(void **state)
{
    static nigh_link_info links[LANES * 3];
    struct fixture f;
    size_t count = 99;

    (void)state;
    start(&f);
    f.said = 2;
    memset(links, 0x55, sizeof(links));
    assert_int_equal(nigh_links(f.client, links, LANES * 2 - 1, &count), NIGH_OK);
    assert_int_equal(count, LANES * 2);
    for (uint32_t n = 0; n < LANES * 2 - 1; n++) {
        assert_int_equal(links[n].rank, n % 2);
        assert_int_equal(links[n].rail, n / 2);
        assert_true(links[n].crossover_bytes == (n % 2 == 1 ? NIGH_NO_CROSSOVER : 0));
        assert_int_equal(links[n].measured, n % 2);
        assert_int_equal(links[n].to_measure, 42);
        assert_int_equal(links[n].calls, n % 2 + 1);
        assert_int_equal(links[n].calls_sent_us, n % 2 + 1);
        assert_int_equal(links[n].calls_written_us, 2 * (n % 2 + 1));
    }
    f.is_older = true;
    assert_int_equal(nigh_links(f.client, links, 1, &count), NIGH_OK);
    assert_int_equal(links[0].calls, NIGH_LINK_CALLS_UNKNOWN);
    assert_int_equal(links[0].calls_sent_us, 0);
    f.is_older = false;
    assert_int_equal(links[LANES * 2 - 1].rank, 0x55555555);
    assert_int_equal(f.flags, 0);
    f.said = UINT64_MAX; /* more than there is room for */
    assert_int_equal(nigh_links(f.client, NULL, 0, &count), NIGH_OK);
    assert_int_equal(count, LANES * SESSION_LINKS);
    assert_int_equal(nigh_links(f.client, NULL, 1, &count), NIGH_INVALID);
    assert_int_equal(nigh_links(f.client, NULL, 0, NULL), NIGH_INVALID);
    f.status = NIGH_UNSUPPORTED;
    assert_int_equal(nigh_links(f.client, links, 1, &count), NIGH_UNSUPPORTED);
    stop(&f);
}

static void links_are_measured_by_all_lanes(void **state)
{
    char text[256];
    struct fixture f;

    (void)state;
    start(&f);
    assert_int_equal(nigh_measure(f.client, 7), NIGH_OK);
    assert_int_equal(atomic_load(&f.asked), LANES);
    assert_int_equal(f.flags, SESSION_FLAG_MEASURE);
    assert_int_equal(f.argument, 7);
    assert_int_equal(nigh_measure(f.client, NIGH_ALL_RANKS), NIGH_OK);
    assert_true(f.argument == SESSION_ALL_RANKS);
    f.status = NIGH_DENIED;
    assert_int_equal(nigh_measure(f.client, 0), NIGH_DENIED);
    (void)nigh_client_error(f.client, text, sizeof(text));
    assert_non_null(strstr(text, "read-only"));
    f.status = NIGH_UNSUPPORTED;
    assert_int_equal(nigh_measure(f.client, 0), NIGH_UNSUPPORTED);
    (void)nigh_client_error(f.client, text, sizeof(text));
    assert_non_null(strstr(text, "--transfer"));
    stop(&f);
}

static void places_come_lowest_first(void **state)
{
    struct fixture f;
    nigh_id id = {{7}};
    uint32_t ranks[SESSION_PLACES];
    size_t count;

    (void)state;
    start(&f);
    for (uint32_t n = 0; n < SESSION_PLACES; n++)
        f.ranks[n] = (uint8_t)(255 - 16 * n);
    f.said = SESSION_PLACES;
    assert_int_equal(nigh_where(f.client, &id, ranks, SESSION_PLACES, &count), NIGH_OK);
    assert_int_equal(count, SESSION_PLACES);
    for (uint32_t n = 0; n < SESSION_PLACES; n++)
        assert_int_equal(ranks[n], 15 + 16 * n);
    memset(ranks, 0x55, sizeof(ranks));
    assert_int_equal(nigh_where(f.client, &id, ranks, 1, &count), NIGH_OK);
    assert_int_equal(count, SESSION_PLACES);
    assert_int_equal(ranks[0], 15);
    assert_int_equal(ranks[1], 0x55555555);
    f.said = UINT64_MAX; /* more than are told */
    assert_int_equal(nigh_where(f.client, &id, ranks, SESSION_PLACES, &count), NIGH_OK);
    assert_int_equal(count, SESSION_PLACES);
    f.said = 0;
    assert_int_equal(nigh_where(f.client, &id, NULL, 0, &count), NIGH_OK);
    assert_int_equal(count, 0);
    stop(&f);
}

/* Bytes are added up by node; who is busy is asked again; what is nowhere is counted. */
static void bytes_are_summed_by_node(void **state)
{
    struct fixture f;
    nigh_id ids[100] = {0};
    nigh_location places[4];
    size_t count = 0, missing = 0;

    (void)state;
    start(&f);
    for (size_t n = 0; n < 100; n++) {
        ids[n].bytes[0] = (uint8_t)n;
        ids[n].bytes[1] = 3; /* its size, to the fake node */
    }
    f.self = 2 + 1;
    f.ranks[0] = 2;
    f.ranks[1] = 200;
    f.said = 2;
    f.busy = 40;
    assert_int_equal(nigh_locate(f.client, ids, 100, places, 4, &count, &missing), NIGH_OK);
    assert_int_equal(count, 2);
    assert_int_equal(missing, 0);
    assert_int_equal(atomic_load(&f.asked), 140);
    assert_int_equal(places[0].rank, 2); /* as much as the other, and its own */
    assert_int_equal(places[0].is_self, 1);
    assert_int_equal(places[1].rank, 200);
    for (size_t n = 0; n < 2; n++) {
        assert_int_equal(places[n].objects, 100);
        assert_int_equal(places[n].size_bytes, 300);
    }
    f.said = UINT64_MAX; /* more than are told */
    assert_int_equal(nigh_locate(f.client, ids, 1, places, 1, &count, NULL), NIGH_OK);
    f.said = 0;
    assert_int_equal(nigh_locate(f.client, ids, 7, NULL, 0, &count, &missing), NIGH_OK);
    assert_int_equal(count, 0);
    assert_int_equal(missing, 7);
    f.status = NIGH_PEER_LOST;
    assert_int_equal(nigh_locate(f.client, ids, 7, NULL, 0, &count, &missing), NIGH_PEER_LOST);
    assert_int_equal(missing, 7);
    f.status = NIGH_OK;
    f.self = 0;
    assert_int_equal(nigh_locate(f.client, ids, 1, places, 1, &count, NULL), NIGH_UNSUPPORTED);
    f.self = UINT32_MAX;
    assert_int_equal(nigh_locate(f.client, ids, 1, places, 1, &count, NULL), NIGH_UNSUPPORTED);
    assert_int_equal(nigh_locate(f.client, NULL, 1, places, 1, &count, NULL), NIGH_INVALID);
    assert_int_equal(nigh_locate(f.client, ids, 1, NULL, 1, &count, NULL), NIGH_INVALID);
    assert_int_equal(nigh_locate(f.client, ids, 1, places, 1, NULL, NULL), NIGH_INVALID);
    stop(&f);
}

/* What an older node says; and one that cannot tell. */
static void a_refusal_changes_nothing(void **state)
{
    static const nigh_status refusals[] = {NIGH_UNSUPPORTED, NIGH_BUSY, NIGH_PEER_LOST,
                                           NIGH_TIMEOUT};
    struct fixture f;
    nigh_id id = {{7}};
    nigh_node_info node = {.struct_size = sizeof(node), .rank = 42};
    uint32_t rank = 42;
    size_t count = 42;

    (void)state;
    start(&f);
    f.said = 1;
    for (size_t n = 0; n < sizeof(refusals) / sizeof(refusals[0]); n++) {
        f.status = refusals[n];
        assert_int_equal(nigh_nodes(f.client, &node, 1, &count), f.status);
        assert_int_equal(nigh_where(f.client, &id, &rank, 1, &count), f.status);
        assert_int_equal(count, 42);
        assert_int_equal(rank, 42);
        assert_int_equal(node.rank, 42);
    }
    stop(&f);
}

static void wrong_arguments_ask_nobody(void **state)
{
    struct fixture f;
    nigh_id id = {{7}};
    uint32_t rank;
    nigh_node_info node = {.struct_size = sizeof(node)};
    size_t count;

    (void)state;
    start(&f);
    assert_int_equal(nigh_nodes(f.client, &node, 1, NULL), NIGH_INVALID);
    assert_int_equal(nigh_nodes(f.client, NULL, 1, &count), NIGH_INVALID);
    assert_int_equal(nigh_nodes(NULL, &node, 1, &count), NIGH_INVALID);
    assert_int_equal(nigh_where(f.client, &id, &rank, 1, NULL), NIGH_INVALID);
    assert_int_equal(nigh_where(f.client, &id, NULL, 1, &count), NIGH_INVALID);
    assert_int_equal(nigh_where(f.client, NULL, &rank, 1, &count), NIGH_INVALID);
    assert_int_equal(nigh_where(NULL, &id, &rank, 1, &count), NIGH_INVALID);
    assert_int_equal(atomic_load(&f.asked), 0);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_told_as_they_are),
        cmocka_unit_test(nodes_are_as_long_as_the_caller_knows),
        cmocka_unit_test(names_are_told),
        cmocka_unit_test(nodes_beyond_the_room_are_only_counted),
        cmocka_unit_test(links_of_all_lanes_are_told),
        cmocka_unit_test(links_are_measured_by_all_lanes),
        cmocka_unit_test(places_come_lowest_first),
        cmocka_unit_test(bytes_are_summed_by_node),
        cmocka_unit_test(a_refusal_changes_nothing),
        cmocka_unit_test(wrong_arguments_ask_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
