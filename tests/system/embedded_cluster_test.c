/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two embedded nodes of one process, as each other's only peer: threads that wait are guests of
 * their lanes, spin there or rest, and are in nobody's way.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "nigh/node.h"
#include "nigh/object.h"
#include "support/support.h"

#define SECOND_US 1000000u
#define SPINS_US  SECOND_US

static const uint8_t key[32] = "of two nodes in one process";

struct pair {
    nigh_node *node[2];
    nigh_client *client[2];
};

static nigh_client *attach(nigh_node *node, uint32_t spin_us)
{
    nigh_client_options options = {.struct_size = sizeof options, .spin_us = spin_us};
    nigh_client *client = NULL;

    assert_int_equal(nigh_node_client(node, &options, &client), NIGH_OK);
    return client;
}

static nigh_id numbered(uint64_t number)
{
    nigh_id id = {{0}};

    memcpy(id.bytes, &number, sizeof number);
    id.bytes[19] = 7;
    return id;
}

/* Clients of spin_us 0 rest at once. */
static void begin(struct pair *pair, uint32_t spin_us)
{
    char members[64];
    nigh_id id = numbered(UINT64_MAX);
    nigh_view view;

    snprintf(members, sizeof members, "127.0.0.1:%d,127.0.0.1:%d", support_port(), support_port());
    for (int n = 0; n < 2; n++) {
        nigh_node_options options = {.struct_size = sizeof options,
                                     .memory_bytes = 32u << 20,
                                     .lanes = 1,
                                     .members = members,
                                     .member = n == 0 ? "0" : "1",
                                     .cluster_key = key};

        assert_int_equal(nigh_node_start(&options, &pair->node[n]), NIGH_OK);
        pair->client[n] = attach(pair->node[n], spin_us);
    }
    assert_int_equal(nigh_put(pair->client[0], &id, "x", 1, NULL), NIGH_OK);
    assert_int_equal(nigh_get(pair->client[1], &id, 1, 20 * SECOND_US, &view), NIGH_OK);
    nigh_release(pair->client[1], &view);
}

static void end(struct pair *pair)
{
    for (int n = 0; n < 2; n++) {
        nigh_client_close(pair->client[n]);
        nigh_node_stop(pair->node[n]);
    }
}

static void get_from(struct pair *pair, int holder, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        nigh_id id = numbered(i);
        nigh_view view;

        assert_int_equal(nigh_put(pair->client[holder], &id, &i, sizeof i, NULL), NIGH_OK);
        assert_int_equal(nigh_get(pair->client[1 - holder], &id, 1, 20 * SECOND_US, &view),
                         NIGH_OK);
        assert_int_equal(view.data_size, sizeof i);
        assert_memory_equal(view.data, &i, sizeof i);
        nigh_release(pair->client[1 - holder], &view);
    }
}

static void gets_bring_what_the_other_has(void **state)
{
    struct pair pair;

    (void)state;
    for (uint32_t spin_us = 0; spin_us <= SPINS_US; spin_us += SPINS_US) {
        begin(&pair, spin_us);
        get_from(&pair, 0, 0, 300);
        get_from(&pair, 1, 1000, 300);
        end(&pair);
    }
}

/* Deadlines are the lane's thread's while the guest rests. */
static void a_guest_that_rests_ends_in_time(void **state)
{
    struct pair pair;
    nigh_id id = numbered(1);

    (void)state;
    begin(&pair, 0);
    for (int i = 0; i < 5; i++) {
        uint64_t before_us = support_now_us(), took_us;
        nigh_view view;

        assert_int_equal(nigh_get(pair.client[1], &id, 1, 50000, &view), NIGH_TIMEOUT);
        took_us = support_now_us() - before_us;
        assert_true(took_us >= 50000 && took_us < 10 * SECOND_US);
    }
    end(&pair);
}

struct waiter {
    nigh_client *client;
    nigh_id id;
    uint64_t took_us;
    _Atomic int status;
};

static void *wait_for_it(void *argument)
{
    struct waiter *waiter = argument;
    uint64_t before_us = support_now_us();
    nigh_view view;
    nigh_status status = nigh_get(waiter->client, &waiter->id, 1, 20 * SECOND_US, &view);

    if (status == NIGH_OK) {
        nigh_release(waiter->client, &view);
    }
    waiter->took_us = support_now_us() - before_us;
    atomic_store(&waiter->status, status);
    return NULL;
}

static bool waits(nigh_client *client)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    return nigh_stats(client, &stats) == NIGH_OK && stats.waiting > 0;
}

/* One that waits for what is put at the other node, or by another client of its own. */
static void wait_while_somebody_puts(uint32_t spin_us, int where)
{
    struct waiter waiter = {.id = numbered(2), .status = NIGH_PENDING};
    struct pair pair;
    nigh_client *other, *looker;
    pthread_t thread;

    begin(&pair, spin_us);
    waiter.client = pair.client[1];
    other = attach(pair.node[where], 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &waiter), 0);
    looker = attach(pair.node[1], 0);
    assert_true(SUPPORT_WAIT(waits(looker), 20000)); /* and rests, or is about to */
    nigh_client_close(looker);
    assert_int_equal(nigh_put(other, &waiter.id, "y", 1, NULL), NIGH_OK);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&waiter.status), NIGH_OK);
    assert_true(waiter.took_us < 10 * SECOND_US);
    nigh_client_close(other);
    end(&pair);
}

static void a_guest_hears_of_what_is_put(void **state)
{
    (void)state;
    wait_while_somebody_puts(0, 0);
    wait_while_somebody_puts(0, 1);
    wait_while_somebody_puts(SPINS_US, 0);
    wait_while_somebody_puts(SPINS_US, 1);
}

/* A guest that rested until its deadline leaves without another turn: what the other node sends is
 * the business of the lane's thread again, at once and not at the lane's next deadline. */
static uint64_t gets_after_rests(struct pair *pair, uint64_t first)
{
    nigh_id none = numbered(1);
    uint64_t took_us = 0;

    for (uint64_t i = first; i < first + 10; i++) {
        nigh_id id = numbered(i);
        uint64_t before_us;
        nigh_view view;

        assert_int_equal(nigh_put(pair->client[1], &id, "y", 1, NULL), NIGH_OK);
        assert_int_equal(nigh_get(pair->client[1], &none, 1, 20000, &view), NIGH_TIMEOUT);
        before_us = support_now_us();
        assert_int_equal(nigh_get(pair->client[0], &id, 1, 10 * SECOND_US, &view), NIGH_OK);
        took_us += support_now_us() - before_us;
        nigh_release(pair->client[0], &view);
    }
    return took_us;
}

/* A busy machine may be late for some; ten of them never come soon where each waits for the lane's
 * next deadline. */
static void a_lane_whose_guest_rested_serves(void **state)
{
    struct pair pair;
    uint64_t first = 100;

    (void)state;
    begin(&pair, 0);
    assert_true(
        SUPPORT_WAIT(gets_after_rests(&pair, first += 10) < SECOND_US / 4, 30 * SECOND_US / 1000));
    end(&pair);
}

/* A submission that nobody waits for, while another client of the process rests on the lane. */
static void what_is_started_meanwhile_is_served(void **state)
{
    struct waiter waiter = {.id = numbered(3), .status = NIGH_PENDING};
    struct pair pair;
    nigh_client *other;
    pthread_t thread;

    (void)state;
    begin(&pair, 0);
    waiter.client = pair.client[1];
    other = attach(pair.node[1], 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &waiter), 0);
    for (uint64_t i = 0; i < 50; i++) {
        nigh_put_item item = {.id = numbered(100 + i), .data = &i, .data_size = sizeof i};
        nigh_view view;
        nigh_op op;

        /* The first gets the client a lease; then a put is one submission. */
        assert_int_equal(nigh_put_many_start(other, &item, 1, &op), NIGH_OK);
        if (i > 0) {
            assert_int_equal(nigh_get(pair.client[0], &item.id, 1, 10 * SECOND_US, &view), NIGH_OK);
            nigh_release(pair.client[0], &view);
        }
        assert_int_equal(nigh_wait(other, &op, 20 * SECOND_US), NIGH_OK);
    }
    assert_int_equal(nigh_put(other, &waiter.id, "y", 1, NULL), NIGH_OK);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&waiter.status), NIGH_OK);
    nigh_client_close(other);
    end(&pair);
}

/* What a put has put, a delete on the other node deletes, however fast it follows. */
static void a_delete_does_not_overtake_a_put(void **state)
{
    struct pair pair;

    (void)state;
    begin(&pair, SPINS_US);
    for (uint64_t i = 0; i < 400; i++) {
        nigh_id id = numbered(i);
        nigh_view view;

        assert_int_equal(nigh_put(pair.client[i % 2], &id, &i, sizeof i, NULL), NIGH_OK);
        assert_int_equal(nigh_delete(pair.client[1 - i % 2], &id, 1, NULL), NIGH_OK);
        assert_int_equal(nigh_get(pair.client[i % 2], &id, 1, 0, &view), NIGH_TIMEOUT);
        assert_int_equal(nigh_delete(pair.client[i % 2], &id, 1, NULL), NIGH_NOT_FOUND);
    }
    end(&pair);
}

/* The guest is gone: its lane's thread answers the other node. */
static void a_lane_whose_guest_left_serves(void **state)
{
    struct pair pair;

    (void)state;
    begin(&pair, SPINS_US);
    for (uint64_t i = 0; i < 50; i++) {
        nigh_id id = numbered(5000 + i);
        nigh_view view;

        get_from(&pair, 0, 4000 + i, 1); /* client 1 drove its lane just now */
        assert_int_equal(nigh_put(pair.client[1], &id, &i, sizeof i, NULL), NIGH_OK);
        assert_int_equal(nigh_get(pair.client[0], &id, 1, 20 * SECOND_US, &view), NIGH_OK);
        nigh_release(pair.client[0], &view);
    }
    end(&pair);
}

/* How often the thread of the lane woke who gets 500 objects. */
static uint64_t wakes_of_gets(struct pair *pair, uint64_t first)
{
    nigh_node_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};

    for (uint64_t i = first; i < first + 500; i++) {
        nigh_id id = numbered(i);

        assert_int_equal(nigh_put(pair->client[0], &id, &i, sizeof i, NULL), NIGH_OK);
    }
    assert_int_equal(nigh_stats(pair->client[1], &before), NIGH_OK);
    for (uint64_t i = first; i < first + 500; i++) {
        nigh_id id = numbered(i);
        nigh_view view;

        assert_int_equal(nigh_get(pair->client[1], &id, 1, 10 * SECOND_US, &view), NIGH_OK);
        nigh_release(pair->client[1], &view);
    }
    assert_int_equal(nigh_stats(pair->client[1], &after), NIGH_OK);
    return after.wakes - before.wakes;
}

/* While a thread gets and gets, the thread of its lane sleeps. It rightly takes the lane from a
 * guest that a busy machine leaves without a core for a while; one that sleeps so every time is
 * none. */
static void a_guest_keeps_the_lanes_thread_asleep(void **state)
{
    struct pair pair;
    uint64_t first = 0;

    (void)state;
    begin(&pair, 0);
    assert_true(SUPPORT_WAIT(wakes_of_gets(&pair, first += 500) < 250, 30 * SECOND_US / 1000));
    end(&pair);
}

/* What is held here leaves no room for what the other has: the get says so, and whose it is. */
static void a_get_without_memory_names_the_holders(void **state)
{
    enum {
        HELD = 24
    };
    static char bytes[12 << 20];
    nigh_id id = numbered(1000);
    nigh_status status = NIGH_TIMEOUT;
    nigh_view views[HELD], view;
    struct pair pair;
    char text[512];

    (void)state;
    begin(&pair, 0);
    for (uint64_t i = 0; i < HELD; i++) {
        nigh_id held = numbered(i);

        assert_int_equal(nigh_put(pair.client[1], &held, bytes, 1 << 20, NULL), NIGH_OK);
        assert_int_equal(nigh_get(pair.client[1], &held, 1, 0, &views[i]), NIGH_OK);
    }
    assert_int_equal(nigh_put(pair.client[0], &id, bytes, sizeof bytes, NULL), NIGH_OK);
    /* A deadline that passes before the other node was asked says less. */
    for (uint64_t us = SECOND_US / 4; status == NIGH_TIMEOUT && us <= 16 * SECOND_US; us *= 2) {
        status = nigh_get(pair.client[1], &id, 1, us, &view);
    }
    assert_int_equal(status, NIGH_OUT_OF_MEMORY);
    assert_true(nigh_client_error(pair.client[1], text, sizeof text) > 0);
    assert_non_null(strstr(text, "out of memory: "));
    assert_non_null(strstr(text, "in 24 objects"));
    id = numbered(2000);
    assert_int_equal(nigh_get(pair.client[1], &id, 1, 50000, &view), NIGH_TIMEOUT);
    for (uint64_t i = 0; i < HELD; i++) {
        nigh_release(pair.client[1], &views[i]);
    }
    id = numbered(1000);
    assert_int_equal(nigh_get(pair.client[1], &id, 1, 20 * SECOND_US, &view), NIGH_OK);
    nigh_release(pair.client[1], &view);
    end(&pair);
}

/* An exclusive create, at whichever home, ends with what both nodes know. */
static void who_creates_exclusively_is_the_only_one(void **state)
{
    nigh_create_options options = {
        .data_size = 8, .flags = NIGH_CREATE_EXCLUSIVE, .timeout_us = 20 * SECOND_US};
    struct pair pair;

    (void)state;
    begin(&pair, 0);
    for (uint64_t i = 0; i < 40; i++) {
        nigh_id id = numbered(i);
        nigh_client *first = pair.client[i % 2], *second = pair.client[1 - i % 2];
        nigh_writer writer, other;
        nigh_view view;

        assert_int_equal(nigh_create(first, &id, &options, &writer), NIGH_OK);
        assert_int_equal(nigh_create(second, &id, &options, &other), NIGH_EXISTS);
        assert_int_equal(nigh_put(second, &id, "another", 8, &options), NIGH_EXISTS);
        if (i % 4 < 2) {
            assert_int_equal(nigh_abort(first, &writer), NIGH_OK);
            assert_true(
                SUPPORT_WAIT(nigh_put(second, &id, "another", 8, &options) == NIGH_OK, 20000));
            assert_int_equal(nigh_create(first, &id, &options, &writer), NIGH_EXISTS);
            continue;
        }
        memcpy(writer.data, "thefirst", 8);
        assert_int_equal(nigh_seal(first, &writer), NIGH_OK);
        assert_int_equal(nigh_create(second, &id, &options, &other), NIGH_EXISTS);
        assert_int_equal(nigh_get(second, &id, 1, 20 * SECOND_US, &view), NIGH_OK);
        assert_memory_equal(view.data, "thefirst", 8);
        nigh_release(second, &view);
    }
    end(&pair);
}

/* The same without waiting for each, and with a client that ends. */
static void claims_are_operations_and_end_with_their_client(void **state)
{
    nigh_create_options options = {.data_size = 8, .flags = NIGH_CREATE_EXCLUSIVE};
    nigh_writer writers[20], again;
    nigh_op ops[20];
    struct pair pair;
    nigh_client *leaver;

    (void)state;
    begin(&pair, 0);
    leaver = attach(pair.node[0], 0);
    for (uint64_t i = 0; i < 20; i++) {
        nigh_id id = numbered(i);

        assert_int_equal(nigh_create_start(leaver, &id, &options, &writers[i], &ops[i]), NIGH_OK);
    }
    for (uint64_t i = 0; i < 20; i++) {
        nigh_id id = numbered(i);

        assert_int_equal(nigh_wait(leaver, &ops[i], 20 * SECOND_US), NIGH_OK);
        assert_int_equal(nigh_create(pair.client[1], &id, &options, &again), NIGH_EXISTS);
    }
    nigh_client_close(leaver);
    for (uint64_t i = 0; i < 20; i++) {
        nigh_id id = numbered(i);

        assert_true(
            SUPPORT_WAIT(nigh_create(pair.client[1], &id, &options, &again) == NIGH_OK, 20000));
        assert_int_equal(nigh_abort(pair.client[1], &again), NIGH_OK);
    }
    end(&pair);
}

/* Who puts without asking hears that another was first. */
static void who_comes_second_is_told(void **state)
{
    nigh_create_options options = {.data_size = 8, .flags = NIGH_CREATE_EXCLUSIVE};
    struct pair pair;

    (void)state;
    begin(&pair, 0);
    assert_int_equal(nigh_subscribe(pair.client[1], NIGH_SUBSCRIBE_CONFLICTS), NIGH_OK);
    for (uint64_t i = 0; i < 10; i++) {
        nigh_id id = numbered(i);
        nigh_writer writer;
        nigh_event event;

        assert_int_equal(nigh_create(pair.client[0], &id, &options, &writer), NIGH_OK);
        assert_int_equal(nigh_put(pair.client[1], &id, "another", 8, NULL), NIGH_OK);
        assert_int_equal(nigh_next_event(pair.client[1], 20 * SECOND_US, &event), NIGH_OK);
        assert_int_equal(event.kind, NIGH_EVENT_SEALED);
        assert_int_equal(nigh_next_event(pair.client[1], 20 * SECOND_US, &event), NIGH_OK);
        assert_int_equal(event.kind, NIGH_EVENT_CONFLICT);
        assert_memory_equal(&event.id, &id, sizeof id);
        assert_int_equal(nigh_seal(pair.client[0], &writer), NIGH_OK);
    }
    end(&pair);
}

static bool is_dead(nigh_client *client, uint32_t rank)
{
    nigh_node_info nodes[2] = {{.struct_size = sizeof nodes[0]}};
    size_t count;

    assert_int_equal(nigh_nodes(client, nodes, 2, &count), NIGH_OK);
    return nodes[rank].state == NIGH_NODE_IS_DEAD;
}

/* Whatever the timeout of an exclusive create: a home that is dead is not waited for. */
static void nobody_waits_for_a_home_that_is_dead(void **state)
{
    nigh_create_options options = {
        .data_size = 8, .flags = NIGH_CREATE_EXCLUSIVE, .timeout_us = 60 * SECOND_US};
    struct pair pair;
    uint64_t begun_us;
    int refused = 0;

    (void)state;
    begin(&pair, 0);
    nigh_client_close(pair.client[0]);
    nigh_node_stop(pair.node[0]);
    assert_true(SUPPORT_WAIT(is_dead(pair.client[1], 0), 20000));
    begun_us = support_now_us();
    for (uint64_t i = 0; i < 40; i++) {
        nigh_id id = numbered(i);
        nigh_status status = nigh_put(pair.client[1], &id, "a thing", 8, &options);

        assert_true(status == NIGH_OK || status == NIGH_PEER_LOST);
        refused += status == NIGH_PEER_LOST;
    }
    assert_true(refused > 0 && refused < 40);
    assert_true(support_now_us() - begun_us < 20 * SECOND_US);
    nigh_client_close(pair.client[1]);
    nigh_node_stop(pair.node[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gets_bring_what_the_other_has),
        cmocka_unit_test(a_guest_that_rests_ends_in_time),
        cmocka_unit_test(a_guest_hears_of_what_is_put),
        cmocka_unit_test(a_lane_whose_guest_rested_serves),
        cmocka_unit_test(what_is_started_meanwhile_is_served),
        cmocka_unit_test(a_delete_does_not_overtake_a_put),
        cmocka_unit_test(a_lane_whose_guest_left_serves),
        cmocka_unit_test(a_guest_keeps_the_lanes_thread_asleep),
        cmocka_unit_test(a_get_without_memory_names_the_holders),
        cmocka_unit_test(who_creates_exclusively_is_the_only_one),
        cmocka_unit_test(claims_are_operations_and_end_with_their_client),
        cmocka_unit_test(who_comes_second_is_told),
        cmocka_unit_test(nobody_waits_for_a_home_that_is_dead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
