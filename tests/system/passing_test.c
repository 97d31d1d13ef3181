/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that passes from one pool to another, and to what the node writes itself, under clients
 * that stay: what is empty takes again what it took when it was new, whoever has used it meanwhile;
 * what a client mapped once is right for ever; and so it is when the node is killed in between.
 */
#include "support/node_fixture.h"
#include "support/support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nigh/nigh.h"

#define MIB      (UINT64_C(1) << 20)
#define MEMORY   (32 * MIB)
#define DEADLINE 20000
#define POOLS    2u
#define PIECES   64u

static struct node_fixture node;

/* A client that puts and one that only ever gets, for each pool; they stay. */
static nigh_client *writers[POOLS], *readers[POOLS];

static nigh_id id_of(uint32_t number)
{
    nigh_id id = {{0}};

    memcpy(id.bytes, &number, sizeof(number));
    memcpy(id.bytes + 8, "passing", 7);
    return id;
}

/* A word of an object: no two objects, and no two places, have the same. */
static uint64_t word_of(uint32_t number, uint32_t round, uint64_t at)
{
    return ((uint64_t)number << 40 | (uint64_t)round << 24) + at * 0x9e3779b1u + 1;
}

static nigh_status put(nigh_client *client, uint32_t number, uint32_t round, uint64_t bytes)
{
    nigh_create_options options = {.data_size = bytes, .timeout_us = DEADLINE * UINT64_C(1000)};
    nigh_id id = id_of(number);
    nigh_writer object;
    nigh_status status = nigh_create(client, &id, &options, &object);

    if (status != NIGH_OK)
        return status;
    for (uint64_t i = 0; i < bytes / sizeof(uint64_t); i++)
        ((uint64_t *)object.data)[i] = word_of(number, round, i);
    return nigh_seal(client, &object);
}

/* NIGH_CORRUPT for wrong bytes. */
static nigh_status look(nigh_client *client, uint32_t number, uint32_t round)
{
    nigh_id id = id_of(number);
    nigh_view view;
    nigh_status status = nigh_get(client, &id, 1, DEADLINE * UINT64_C(1000), &view);

    if (status != NIGH_OK)
        return status;
    for (uint64_t i = 0; i < view.data_size / sizeof(uint64_t) && status == NIGH_OK; i++) {
        if (((const uint64_t *)view.data)[i] != word_of(number, round, i))
            status = NIGH_CORRUPT;
    }
    (void)nigh_release(client, &view);
    return status;
}

static nigh_status drop(nigh_client *client, uint32_t number)
{
    nigh_id id = id_of(number);
    nigh_status status;

    return nigh_delete(client, &id, 1, &status) == NIGH_OK ? status : NIGH_CLOSED;
}

/* A client gives its leases back before it asks for so much, whether it gets it or not. */
static void give_leases_back(nigh_client *client)
{
    nigh_create_options options = {.data_size = 24 * MIB};
    nigh_id id = id_of(UINT32_MAX);
    nigh_writer object;

    if (nigh_create(client, &id, &options, &object) == NIGH_OK)
        (void)nigh_abort(client, &object);
}

static nigh_client *open_client(const char *pool, uint32_t flags)
{
    nigh_client_options options = {
        .struct_size = sizeof(options), .socket_path = node.socket, .pool = pool, .flags = flags};
    nigh_client *client = NULL;

    if (nigh_client_open(&options, &client) != NIGH_OK)
        fail_msg("%s", nigh_open_error());
    return client;
}

static void kill_node(void)
{
    pid_t child = node_fixture_child(node.pid);

    assert_true(child > 0);
    kill(child, SIGKILL);
    assert_true(SUPPORT_WAIT(
        node_fixture_child(node.pid) != child && node_fixture_child(node.pid) != 0, DEADLINE));
    for (uint32_t i = 0; i < POOLS; i++) {
        nigh_node_stats stats = {.struct_size = sizeof stats};

        assert_true(SUPPORT_WAIT(nigh_stats(writers[i], &stats) == NIGH_OK, DEADLINE));
        assert_true(SUPPORT_WAIT(nigh_stats(readers[i], &stats) == NIGH_OK, DEADLINE));
    }
}

static void begin(const char *memory, const char *spill)
{
    const char *flags[] = {"--hold", "--lanes", "1", "--config", NULL, NULL, NULL, NULL};
    char path[108];
    FILE *file;

    support_path(path, sizeof(path), "passing.conf");
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "[pool one]\nmode = 0600\n[pool two]\nmode = 0600\n");
    fclose(file);
    flags[4] = path;
    if (spill != NULL) {
        flags[5] = "--spill";
        flags[6] = spill;
    }
    node_fixture_start(&node, memory, flags);
    for (uint32_t i = 0; i < POOLS; i++) {
        writers[i] = open_client(i == 0 ? "one" : "two", 0);
        readers[i] = open_client(i == 0 ? "one" : "two", NIGH_OPEN_READ_ONLY);
    }
}

static void finish(void)
{
    for (uint32_t i = 0; i < POOLS; i++) {
        nigh_client_close(readers[i]);
        nigh_client_close(writers[i]);
    }
    node_fixture_stop(&node);
}

/* ---- tests ---- */

/* Pieces of all sizes of both pools, read by who stays, and gone again; then one object of all but
 * an extent, now of this pool, now of that. */
static void what_is_empty_takes_what_it_took(void **state)
{
    uint64_t random = support_seed();

    (void)state;
    begin("32M", NULL);
    for (uint32_t round = 1; round <= 9; round++) {
        uint32_t last = round % POOLS, whose[PIECES] = {0};
        nigh_status status;

        for (uint32_t n = 0; n < PIECES; n++) {
            whose[n] = (uint32_t)(support_random(&random) >> 63);
            status = put(writers[whose[n]], n, round, 8 + (support_random(&random) >> 44));
            if (status != NIGH_OK)
                fail_msg("round %u, piece %u: %s", round, n, nigh_status_name(status));
            if (look(readers[whose[n]], n, round) != NIGH_OK)
                fail_msg("round %u, piece %u is not what was put", round, n);
        }
        if (round % 3 == 2)
            kill_node();
        for (uint32_t n = 0; n < PIECES; n++)
            (void)drop(writers[whose[n]], n); /* it may have been evicted */
        give_leases_back(writers[1 - last]);
        status = put(writers[last], PIECES, round, MEMORY - 2 * MIB);
        if (status != NIGH_OK)
            fail_msg("round %u: %s", round, nigh_status_name(status));
        assert_int_equal(look(readers[last], PIECES, round), NIGH_OK);
        assert_int_equal(drop(writers[last], PIECES), NIGH_OK);
    }
    finish();
}

/* An object of more than half the memory goes to disk when others need the room, and comes back
 * into memory that the node alone writes. */
static void what_is_larger_than_half_comes_back(void **state)
{
    char folder[108];

    (void)state;
    support_path(folder, sizeof(folder), "passing-spill");
    begin("32M", folder);
    for (uint32_t round = 1; round <= 4; round++) {
        uint32_t large = round % POOLS, others = 1 - large;
        nigh_status status;

        assert_int_equal(put(writers[large], 100, round, 20 * MIB), NIGH_OK);
        for (uint32_t n = 0; n < 24; n++)
            assert_int_equal(put(writers[others], n, round, MIB), NIGH_OK);
        if (round == 2)
            kill_node();
        status = look(readers[large], 100, round);
        if (status != NIGH_OK)
            fail_msg("round %u: %s", round, nigh_status_name(status));
        for (uint32_t n = 0; n < 24; n++) {
            assert_int_equal(look(readers[others], n, round), NIGH_OK);
            assert_int_equal(drop(writers[others], n), NIGH_OK);
        }
        assert_int_equal(look(readers[large], 100, round), NIGH_OK);
        assert_int_equal(drop(writers[large], 100), NIGH_OK);
    }
    finish();
}

/* One extent goes from pool to pool more often than there are numbers: the other seven are kept. */
static void numbers_do_not_run_out(void **state)
{
    nigh_create_options options = {.data_size = 3 * MIB / 2,
                                   .timeout_us = DEADLINE * UINT64_C(1000)};
    uint32_t turns = 4300;

    (void)state;
    begin("16M", NULL);
    give_leases_back(writers[0]);
    give_leases_back(writers[1]);
    for (uint32_t n = 0; n < 7; n++) {
        nigh_id id = id_of(n);

        assert_int_equal(put(writers[0], n, 1, 2 * MIB - 4096), NIGH_OK);
        assert_int_equal(nigh_pin(writers[0], &id), NIGH_OK);
    }
    for (uint32_t turn = 0; turn < turns; turn++) {
        nigh_id id = id_of(1000 + turn);
        nigh_writer object;
        nigh_status status = nigh_create(writers[turn % POOLS], &id, &options, &object);

        if (status != NIGH_OK)
            fail_msg("turn %u: %s", turn, nigh_status_name(status));
        assert_int_equal(nigh_abort(writers[turn % POOLS], &object), NIGH_OK);
        if (turn % 64 == 0) {
            assert_int_equal(put(writers[turn / 64 % POOLS], 500, turn, MIB), NIGH_OK);
            assert_int_equal(look(readers[turn / 64 % POOLS], 500, turn), NIGH_OK);
            assert_int_equal(drop(writers[turn / 64 % POOLS], 500), NIGH_OK);
        }
        if (turn == turns / 2)
            kill_node();
    }
    for (uint32_t n = 0; n < 7; n++)
        assert_int_equal(look(readers[0], n, 1), NIGH_OK);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_empty_takes_what_it_took),
        cmocka_unit_test(what_is_larger_than_half_comes_back),
        cmocka_unit_test(numbers_do_not_run_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
