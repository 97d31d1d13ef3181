/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: listening, connecting, accepting, refusing, private data. Numbers F1, F2, ... are
 * those of docs/fabric.md. */
#include "conformance/world.h"

#include <string.h>

#include "base/check.h"

/* F5 */
static void test_caps_are_within_the_limits(void **state)
{
    struct world *world = *state;

    for (uint32_t i = 0; i < world->fabric_count; i++) {
        const struct fabric_caps *caps = &world->fabrics[i]->caps;

        assert_non_null(caps->name);
        assert_in_range(caps->slices, 1, LIMIT_FABRIC_SLICES);
        assert_in_range(caps->reads, 1, LIMIT_FABRIC_READS);
        assert_in_range(caps->inline_bytes, 1, LIMIT_FABRIC_INLINE);
        assert_in_range(caps->message_bytes, 64 * MIB, LIMIT_FABRIC_MESSAGE);
    }
}

/* F6 F4 */
static void test_listening_once_at_a_known_address(void **state)
{
    struct world *world = *state;
    struct fabric *deaf;
    char address[FABRIC_ADDRESS_BYTES] = "x";

    assert_int_equal(world_provider.fabric(world, 7, 0, &deaf), NIGH_OK);
    fabric_address(deaf, address);
    assert_string_equal(address, "");
    assert_int_equal(fabric_listen(deaf, "nonsense"), NIGH_INVALID);
    assert_int_equal(fabric_listen(deaf, ""), NIGH_INVALID);
    fabric_address(deaf, address);
    assert_string_equal(address, "");
    fabric_destroy(deaf);

    world_provider.listen_address(1, 0, address);
    assert_int_not_equal(fabric_listen(world->fabrics[ALICE], address), NIGH_OK);
    assert_string_not_equal(world->addresses[ALICE], "");
    assert_string_not_equal(world->addresses[ALICE], world->addresses[BOB]);
}

/* F8 F9 */
static void test_private_data_goes_both_ways(void **state)
{
    static const uint32_t sizes[] = {0, 1, 31, FABRIC_PRIVATE_BYTES};
    struct world *world = *state;
    uint8_t there[FABRIC_PRIVATE_BYTES], back[FABRIC_PRIVATE_BYTES];

    for (uint32_t i = 0; i < FABRIC_PRIVATE_BYTES; i++) {
        there[i] = (uint8_t)(i + 1);
        back[i] = (uint8_t)(200 - i);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        for (size_t j = 0; j < ARRAY_LENGTH(sizes); j++) {
            struct world_end *alice =
                world_dial(world, ALICE, world->addresses[BOB], there, sizes[i]);
            struct world_request *request = world_next_request(world, BOB);
            struct world_end *bob;

            assert_int_equal(request->private_bytes, sizes[i]);
            assert_memory_equal(request->private_data, there, sizes[i]);
            bob = world_accept(world, request, back, sizes[j]);
            assert_comes(world, alice->established > 0 && bob->established > 0);
            assert_int_equal(alice->established, 1);
            assert_int_equal(bob->established, 1);
            assert_int_equal(alice->private_bytes, sizes[j]);
            assert_memory_equal(alice->private_data, back, sizes[j]);
        }
    }
}

/* F7 F4 */
static void test_too_much_private_data_is_refused(void **state)
{
    struct world *world = *state;
    struct world_end *end = world_end(world, ALICE);
    struct fabric_endpoint_options options = end_options(end, 4, 4);
    uint8_t data[FABRIC_PRIVATE_BYTES + 1] = {0};

    assert_int_equal(fabric_connect(world->fabrics[ALICE], world->addresses[BOB], &options, data,
                                    sizeof(data), &end->endpoint),
                     NIGH_INVALID);
    assert_null(end->endpoint);
}

/* F7 F4 */
static void test_only_numeric_addresses(void **state)
{
    static const char *const addresses[] = {"", "nonsense", "localhost:1", ":", "1.2.3.4"};
    struct world *world = *state;
    struct world_end *end = world_end(world, ALICE);
    struct fabric_endpoint_options options = end_options(end, 4, 4);

    for (size_t i = 0; i < ARRAY_LENGTH(addresses); i++) {
        assert_int_equal(
            fabric_connect(world->fabrics[ALICE], addresses[i], &options, NULL, 0, &end->endpoint),
            NIGH_INVALID);
        assert_null(end->endpoint);
    }
}

/* F7 */
static void test_nobody_there_is_unreachable(void **state)
{
    struct world *world = *state;
    char nowhere[FABRIC_ADDRESS_BYTES];
    struct world_end *end;

    world_nowhere(world, nowhere);
    end = world_dial(world, ALICE, nowhere, "x", 1);
    assert_comes(world, end->disconnected > 0);
    assert_int_equal(end->status, NIGH_UNREACHABLE);
    assert_int_equal(end->established, 0);
    world_pass(world, 10000);
    assert_int_equal(end->disconnected, 1);
    end_destroy(end);
}

/* F12 F47: receives posted before there was a connection complete as all others. */
static void test_receives_of_a_dial_that_failed(void **state)
{
    struct world *world = *state;
    struct world_area *area = world_area(world, ALICE, 256, FABRIC_LOCAL_WRITE);
    char nowhere[FABRIC_ADDRESS_BYTES];
    struct world_end *end;

    world_nowhere(world, nowhere);
    end = world_dial(world, ALICE, nowhere, NULL, 0);
    end_receive(end, 1, area, 0, 64);
    end_receive(end, 2, area, 64, 64);
    assert_comes(world, end->disconnected > 0 && end->logged >= 2);
    world_pass(world, 10000);
    assert_int_equal(end->logged, 2);
    assert_int_equal(end_find_receive(end, 1)->status, NIGH_PEER_LOST);
    assert_int_equal(end_find_receive(end, 2)->status, NIGH_PEER_LOST);
}

/* F9 */
static void test_a_rejected_dial_is_denied(void **state)
{
    struct world *world = *state;
    struct world_end *alice = world_dial(world, ALICE, world->addresses[BOB], "please", 6);
    struct world_request *request = world_next_request(world, BOB);

    request->taken = true;
    fabric_reject(world->fabrics[BOB], request->endpoint);
    assert_comes(world, alice->disconnected > 0);
    assert_int_equal(alice->status, NIGH_DENIED);
    assert_int_equal(alice->established, 0);
    world_pass(world, 10000);
    assert_int_equal(alice->disconnected, 1);
}

/* F10: nobody answers the request, and nobody polls more often than he must. */
static void test_an_unanswered_request_ends(void **state)
{
    struct world *world = *state;
    struct world_end *alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
    struct world_request *request = world_next_request(world, BOB);
    uint64_t start_us = world_provider.now_us(world);

    while (!request->disconnected || alice->disconnected == 0) {
        uint64_t now_us = world_provider.now_us(world);

        assert_true(now_us < start_us + 2 * (uint64_t)LIMIT_FABRIC_HANDSHAKE_US);
        assert_true(!request->disconnected || now_us - start_us >= LIMIT_FABRIC_HANDSHAKE_US / 2);
        world_pass(world, 10000);
    }
    /* Ours, or the dialler's patience ended first. */
    assert_true(request->status == NIGH_TIMEOUT || request->status == NIGH_PEER_LOST);
    assert_int_equal(alice->established, 0);
    fabric_endpoint_destroy(world->fabrics[BOB], request->endpoint);
}

/* F9 F11 */
static void test_a_dialler_may_give_up(void **state)
{
    struct world *world = *state;
    struct world_end *alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
    struct world_end *bob = world_end(world, BOB);
    struct world_request *request = world_next_request(world, BOB);
    struct fabric_endpoint_options options = end_options(bob, 4, 4);

    end_destroy(alice);
    request->taken = true;
    bob->endpoint = request->endpoint;
    if (fabric_accept(world->fabrics[BOB], request->endpoint, &options, NULL, 0) == NIGH_OK)
        assert_comes(world, bob->disconnected == 1);
    end_destroy(bob);
    /* Nothing else suffers. */
    world_join(world, ALICE, BOB, &alice, &bob);
}

/* F11 */
static void test_a_dial_may_end_before_it_began(void **state)
{
    struct world *world = *state;
    struct world_request *request;
    struct world_end *alice, *bob;

    for (uint32_t steps = 0; steps < 6; steps++) {
        alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
        world_steps(world, steps);
        end_destroy(alice);
    }
    /* Requests of those that ended may come until this one has come, and behind it. */
    alice = world_dial(world, ALICE, world->addresses[BOB], "last", 4);
    for (request = world_next_request(world, BOB); request->private_bytes != 4;
         request = world_next_request(world, BOB)) {
        if (request->disconnected)
            fabric_endpoint_destroy(world->fabrics[BOB], request->endpoint);
        else
            fabric_reject(world->fabrics[BOB], request->endpoint);
        request->taken = true;
    }
    bob = world_accept(world, request, NULL, 0);
    assert_comes(world, alice->established == 1 && bob->established == 1);
}

/* F12: the first message may follow the connection at once. */
static void test_receives_are_there_for_the_first_message(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 4096, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 4096, ALL_RIGHTS);
    struct world_end *alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
    struct world_end *bob;

    end_receive(alice, 1, here, 0, 1000);
    bob = world_accept(world, world_next_request(world, BOB), NULL, 0);
    end_receive(bob, 2, there, 0, 1000);
    area_fill(here, 2000, 1000, 5);
    area_fill(there, 2000, 1000, 6);
    assert_comes(world, alice->established == 1);
    end_send(alice, 3, here, 2000, 1000);
    assert_comes(world, bob->established == 1);
    end_send(bob, 4, there, 2000, 1000);
    assert_int_equal(end_wait_receive(bob, 2), NIGH_OK);
    assert_int_equal(end_wait_receive(alice, 1), NIGH_OK);
    assert_int_equal(end_wait(alice, 3), NIGH_OK);
    assert_int_equal(end_wait(bob, 4), NIGH_OK);
    assert_true(area_holds(there, 0, 1000, 5));
    assert_true(area_holds(here, 0, 1000, 6));
}

/* F13 */
static void test_posts_need_a_connection(void **state)
{
    struct world *world = *state;
    const struct fabric_work work = {.op = FABRIC_SEND, .flags = FABRIC_SIGNALLED, .tag = 1};
    const struct fabric_work *bad = NULL;
    struct world_end *alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
    struct world_end *bob;

    assert_int_equal(fabric_post(world->fabrics[ALICE], alice->endpoint, &work, &bad), NIGH_CLOSED);
    assert_ptr_equal(bad, &work);
    bob = world_accept(world, world_next_request(world, BOB), NULL, 0);
    assert_comes(world, alice->established == 1 && bob->established == 1);
    end_disconnect(bob);
    assert_comes(world, alice->disconnected == 1 && bob->disconnected == 1);
    assert_int_equal(end_post(alice, &work), NIGH_CLOSED);
    assert_int_equal(end_post(bob, &work), NIGH_CLOSED);
    world_pass(world, 10000);
    assert_int_equal(alice->logged + bob->logged, 0);
}

/* F13: a receive of an endpoint that failed is refused; it would never complete. */
static void test_receives_need_an_endpoint_that_lives(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, FABRIC_LOCAL_WRITE);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    end_destroy(bob);
    assert_comes(world, alice->disconnected == 1);
    assert_int_equal(end_post_receive(alice, 1, area_slice(here, 0, 64)), NIGH_CLOSED);
    world_pass(world, 10000);
    assert_int_equal(alice->logged, 0);
}

/* F15 F4 */
static void test_depths_beyond_the_limit_are_refused(void **state)
{
    struct world *world = *state;
    struct world_end *end = world_end(world, ALICE);
    struct fabric_endpoint_options options = end_options(end, LIMIT_FABRIC_DEPTH + 1, 4);

    assert_int_not_equal(fabric_connect(world->fabrics[ALICE], world->addresses[BOB], &options,
                                        NULL, 0, &end->endpoint),
                         NIGH_OK);
    options = end_options(end, 4, LIMIT_FABRIC_DEPTH + 1);
    assert_int_not_equal(fabric_connect(world->fabrics[ALICE], world->addresses[BOB], &options,
                                        NULL, 0, &end->endpoint),
                         NIGH_OK);
    assert_null(end->endpoint);
}

static const struct CMUnitTest tests[] = {
    WORLD_TEST(test_caps_are_within_the_limits),
    WORLD_TEST(test_listening_once_at_a_known_address),
    WORLD_TEST(test_private_data_goes_both_ways),
    WORLD_TEST(test_too_much_private_data_is_refused),
    WORLD_TEST(test_only_numeric_addresses),
    WORLD_TEST(test_nobody_there_is_unreachable),
    WORLD_TEST(test_receives_of_a_dial_that_failed),
    WORLD_TEST(test_a_rejected_dial_is_denied),
    WORLD_TEST(test_an_unanswered_request_ends),
    WORLD_TEST(test_a_dialler_may_give_up),
    WORLD_TEST(test_a_dial_may_end_before_it_began),
    WORLD_TEST(test_receives_are_there_for_the_first_message),
    WORLD_TEST(test_posts_need_a_connection),
    WORLD_TEST(test_receives_need_an_endpoint_that_lives),
    WORLD_TEST(test_depths_beyond_the_limit_are_refused),
};

const struct world_tests connect_tests = {tests, ARRAY_LENGTH(tests)};
