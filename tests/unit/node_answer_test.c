/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a lane answers by itself (node/lane_answer.c): to whom, once, and to nobody when who asked
 * is gone. The store and the exchange behind it do as a test says.
 */
#include "support/support.h"

#include <string.h>
#include <sys/mman.h>

#include "node/lane_internal.h"
#include "node_echo_store.h"

#define SLOT 3u

static struct session_node_page page;
static struct lane *lane;
static struct lane_seat seat = {.slot = SLOT, .session_id = 9, .pool = 5, .socket_fd = -1};
static uint64_t now_us = 1000;
static uint32_t nodes;

static bool one_of_nodes(void *context, uint32_t n, struct session_node *node)
{
    (void)context;
    *node = (struct session_node){.rank = n, .incarnation = n + 100};
    return n < nodes;
}

static bool name_of_one(void *context, uint32_t n, struct session_name *name)
{
    (void)context;
    *name = (struct session_name){.rank = n};
    if (n == 1)
        name->name[0] = 'b';
    return n < nodes;
}

static int set_up(void **state)
{
    struct lane_config config = {.lanes = 1,
                                 .max_sessions = SLOT + 1,
                                 .page = &page,
                                 .store = {.rank = 7, .incarnation = 1},
                                 .node_list = one_of_nodes,
                                 .node_name = name_of_one};

    (void)state;
    memset(&page, 0, sizeof(page));
    memset(&echo_where, 0, sizeof(echo_where));
    nodes = 0;
    assert_int_equal(lane_create(&config, &lane), NIGH_OK);
    lane_store(lane)->pools = UINT64_MAX;
    lane->exchange = (struct exchange *)(void *)&page; /* never looked into */
    seat.memory = mmap(NULL, session_memory_bytes(1), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(lane_session_open(lane, &seat), NIGH_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lane->exchange = NULL;
    lane_destroy(lane);
    munmap(seat.memory, session_memory_bytes(1));
    return 0;
}

static struct session_lane *ring(void)
{
    return session_lane_of(seat.memory, 0);
}

static uint32_t completed(void)
{
    return atomic_load(&ring()->cq_tail.value);
}

static const struct session_cqe *last(void)
{
    return &ring()->cq[(completed() - 1) % LIMIT_RING_ENTRIES];
}

static void submit_with(enum session_op op, uint32_t cookie, uint64_t argument)
{
    uint32_t tail = atomic_load(&ring()->sq_tail.value);

    ring()->sq[tail % LIMIT_RING_ENTRIES] = (struct session_sqe){
        .op = (uint8_t)op, .cookie = cookie, .id = {1, 2, 3}, .argument = argument};
    atomic_store(&ring()->sq_tail.value, tail + 1);
    atomic_store(session_ready(ring(), SLOT), 1);
    (void)lane_turn(lane, ++now_us);
}

static void submit(enum session_op op, uint32_t cookie)
{
    submit_with(op, cookie, 0);
}

static void answer(nigh_status status, uint32_t count, uint32_t first)
{
    struct exchange_places places = {.count = count};

    for (uint32_t n = 0; n < count; n++)
        places.ranks[n] = first + n;
    echo_where.done(echo_where.context, echo_where.token, status, &places);
}

static void an_answer_comes_once_with_all_ranks(void **state)
{
    (void)state;
    echo_where.status = NIGH_PENDING;
    echo_where.here = true;
    submit(SESSION_OP_WHERE, 0xfffffffe);
    assert_int_equal(completed(), 0);
    assert_int_equal(echo_where.pool, 5);
    answer(NIGH_OK, DIRECTORY_HOLDERS, 248);
    assert_int_equal(completed(), 1);
    assert_int_equal(last()->cookie, 0xfffffffe);
    assert_int_equal(last()->status, NIGH_OK);
    assert_int_equal(last()->lease_bytes, 0);
    assert_int_equal(last()->data_size, DIRECTORY_HOLDERS + 1);
    assert_int_equal(session_place(last(), 0), 7);
    for (uint32_t n = 0; n < DIRECTORY_HOLDERS; n++)
        assert_int_equal(session_place(last(), n + 1), 248 + n);
    assert_int_equal(lane->sessions[SLOT].in_flight, 0);
}

static void a_question_takes_no_longer_than_it_may(void **state)
{
    (void)state;
    echo_where.status = NIGH_OK;
    submit_with(SESSION_OP_WHERE, 1, 1500);
    assert_int_equal(echo_where.within_us, 1500);
    submit(SESSION_OP_WHERE, 2);
    assert_int_equal(echo_where.within_us, 0);
}

static void an_answer_at_once_and_a_refusal(void **state)
{
    (void)state;
    echo_where.places = (struct exchange_places){.count = 2, .ranks = {7, 4}};
    submit(SESSION_OP_WHERE, 1);
    assert_int_equal(last()->data_size, 1); /* the home may think that we have it */
    assert_int_equal(session_place(last(), 0), 4);
    echo_where.here = true;
    submit(SESSION_OP_WHERE, 2);
    assert_int_equal(last()->data_size, 2);
    echo_where.status = NIGH_PEER_LOST;
    submit(SESSION_OP_WHERE, 3);
    assert_int_equal(last()->status, NIGH_PEER_LOST);
    assert_int_equal(last()->data_size, 0);
    assert_int_equal(last()->offset, 0);
    echo_where.status = NIGH_PENDING;
    submit(SESSION_OP_WHERE, 4);
    answer(NIGH_TIMEOUT, 3, 0);
    assert_int_equal(last()->status, NIGH_TIMEOUT);
    assert_int_equal(last()->data_size, 0);
    assert_int_equal(completed(), 4);
}

/* Whatever became of its session, another's is not told. */
static void nobody_gets_an_answer_of_before(void **state)
{
    (void)state;
    echo_where.status = NIGH_PENDING;
    submit(SESSION_OP_WHERE, 1);
    lane_session_close(lane, SLOT);
    answer(NIGH_OK, 1, 0);
    submit(SESSION_OP_WHERE, 2); /* nobody is there to take it */
    assert_int_equal(lane_session_open(lane, &seat), NIGH_OK);
    answer(NIGH_OK, 1, 0);
    assert_int_equal(completed(), 0);

    submit(SESSION_OP_WHERE, 1);
    lane_session_rest(lane, SLOT);
    answer(NIGH_OK, 1, 0);
    assert_int_equal(lane_session_reset(lane, &seat), NIGH_OK);
    answer(NIGH_OK, 1, 0);
    assert_int_equal(completed(), 0);

    /* And the one that is there now gets its own. */
    submit(SESSION_OP_WHERE, 1);
    answer(NIGH_OK, 1, 0);
    assert_int_equal(completed(), 1);
}

static void nodes_are_written_to_the_reply_area(void **state)
{
    struct session_node node;

    (void)state;
    nodes = 3;
    submit(SESSION_OP_NODES, 1);
    assert_int_equal(last()->data_size, 3);
    memcpy(&node, ring()->reply + 2 * sizeof(node), sizeof(node));
    assert_int_equal(node.rank, 2);
    assert_int_equal(node.incarnation, 102);
    nodes = UINT32_MAX; /* no more than there is room for */
    submit(SESSION_OP_NODES, 2);
    assert_int_equal(last()->data_size, LIMIT_NODES);
}

static void pool_of_one(void *context, uint32_t number, struct session_show_pool *pool)
{
    (void)context;
    pool->uid = number + 1000;
    pool->name[0] = 'p';
}

/* Root, and the node's own uid; nobody else, whatever he asks for. */
static void what_a_lane_shows_is_for_its_own(void **state)
{
    struct session_show_transfer transfer;
    struct session_show_pool pool;

    (void)state;
    lane->config.own_uid = 7;
    lane->config.node_pool = pool_of_one;
    seat.uid = 8;
    for (uint64_t what = 0; what < SESSION_SHOW_WHATS; what++) {
        submit_with(SESSION_OP_SHOW, 1, what);
        assert_int_equal(last()->status, NIGH_DENIED);
        assert_int_equal(last()->data_size, 0);
    }
    for (seat.uid = 0; seat.uid <= 7; seat.uid += 7) {
        submit_with(SESSION_OP_SHOW, 1, SESSION_SHOW_POOLS);
        assert_int_equal(last()->status, NIGH_OK);
        memcpy(&pool, ring()->reply, sizeof(pool));
        assert_true(last()->data_size == 1 && pool.bytes == 77 && pool.uid == 1005);
        assert_string_equal(pool.name, "p");
        submit_with(SESSION_OP_SHOW, 2, SESSION_SHOW_HOTTEST);
        assert_true(last()->data_size == SESSION_SHOW_OBJECTS && last()->lease_offset == 1000);
        submit_with(SESSION_OP_SHOW, 3, SESSION_SHOW_TRANSFERS);
        assert_int_equal(last()->lease_offset, 9);
        memcpy(&transfer, ring()->reply + (last()->data_size - 1) * sizeof(transfer),
               sizeof(transfer));
        assert_int_equal(transfer.bytes,
                         SESSION_SHOW_TRANSFERS_NOW + SESSION_SHOW_TRANSFERS_PAST - 1);
        submit_with(SESSION_OP_SHOW, 4, SESSION_SHOW_CURVES);
        assert_true(last()->data_size == 1 && last()->generation == 1);
        submit_with(SESSION_OP_SHOW, 5, SESSION_SHOW_CALLS);
        assert_int_equal(last()->data_size, SESSION_TIMES);
        submit_with(SESSION_OP_SHOW, 6, SESSION_SHOW_WHATS);
        assert_int_equal(last()->status, NIGH_INVALID);
    }
    seat.uid = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_comes_once_with_all_ranks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_question_takes_no_longer_than_it_may, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_answer_at_once_and_a_refusal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_gets_an_answer_of_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nodes_are_written_to_the_reply_area, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_lane_shows_is_for_its_own, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
