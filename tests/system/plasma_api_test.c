/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call of Plasma's client interface, on a node of its own, through the public API alone:
 * docs/from-plasma.md says which of Plasma's calls each of these tests stands for.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plasma_world.h"

enum {
    MANY = 300, /* more than a ring of a lane holds */
    SIZE = 3000
};

/* Two clients, as two processes would have them, of one node of two lanes. */
struct world {
    struct node_fixture node;
    nigh_client *one, *other;
};

static struct world world;

static int open_world(void **state)
{
    static const char *const flags[] = {"--lanes", "2", NULL};

    node_fixture_start(&world.node, "64M", flags);
    world.one = plasma_open(&world.node, "one", 0);
    world.other = plasma_open(&world.node, "other", 0);
    *state = &world;
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    nigh_client_close(world.one);
    nigh_client_close(world.other);
    node_fixture_stop(&world.node);
    return 0;
}

static void make_ids(nigh_id *ids, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = plasma_id(first + i);
    }
}

static void put_numbers(nigh_client *client, uint32_t first, uint32_t count, size_t size)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(plasma_put(client, first + i, size), NIGH_OK);
    }
}

static bool contains(nigh_client *client, uint32_t number)
{
    nigh_id id = plasma_id(number);
    bool found = false;

    assert_int_equal(nigh_contains(client, &id, &found), NIGH_OK);
    return found;
}

/* ---- connect and disconnect -------------------------------------------------------------------
 */

static void test_connect(void **state)
{
    nigh_client_options options = {.struct_size = sizeof(options),
                                   .socket_path = world.node.socket,
                                   .name = "the client",
                                   .timeout_us = 20000000,
                                   .flags = NIGH_OPEN_READ_ONLY};
    nigh_id id = plasma_id(1);
    nigh_holder holder;
    nigh_client *client;
    nigh_view view;
    size_t count;

    (void)state;
    assert_int_equal(plasma_put(world.one, 1, SIZE), NIGH_OK);
    assert_int_equal(nigh_client_open(&options, &client), NIGH_OK);
    assert_int_equal(plasma_put(client, 2, SIZE), NIGH_DENIED);
    assert_int_equal(nigh_get(client, &id, 1, 0, &view), NIGH_OK);
    assert_int_equal(nigh_who(world.one, &id, &holder, 1, &count), NIGH_OK);
    assert_int_equal(count, 1);
    assert_string_equal(holder.name, "the client");
    assert_int_equal(holder.pid, getpid());
    nigh_client_close(client);
}

static void test_connect_refused(void **state)
{
    nigh_client_options options = {.struct_size = sizeof(options)};
    nigh_client *client = NULL;
    char path[108];

    (void)state;
    support_path(path, sizeof(path), "nobody");
    options.socket_path = path;
    assert_int_equal(nigh_client_open(&options, &client), NIGH_UNREACHABLE);
    assert_null(client);
    assert_non_null(strstr(nigh_open_error(), path));
    options.socket_path = world.node.socket;
    options.pool = "nosuchpool";
    assert_int_equal(nigh_client_open(&options, &client), NIGH_NOT_FOUND);
    assert_non_null(strstr(nigh_open_error(), "nosuchpool"));
    options.pool = NULL;
    options.flags = 1u << 30;
    assert_int_equal(nigh_client_open(&options, &client), NIGH_INVALID);
    assert_null(client);
}

/* What a client had goes with it: its pins, its unsealed objects. What it sealed stays. */
static void test_disconnect(void **state)
{
    nigh_create_options options = {.data_size = 1 << 20};
    nigh_client *client = plasma_open(&world.node, "short", 0);
    nigh_id sealed = plasma_id(1), unsealed = plasma_id(2);
    nigh_holder holders[4];
    nigh_writer writer;
    nigh_view view;
    size_t count;

    (void)state;
    assert_int_equal(plasma_put(client, 1, SIZE), NIGH_OK);
    assert_int_equal(nigh_get(client, &sealed, 1, 0, &view), NIGH_OK);
    assert_int_equal(nigh_create(client, &unsealed, &options, &writer), NIGH_OK);
    nigh_client_close(client);
    assert_true(SUPPORT_WAIT(plasma_stats(world.one).sessions == 2, 10000));
    assert_int_equal(plasma_stats(world.one).objects_unsealed, 0);
    assert_int_equal(plasma_stats(world.one).unsealed_bytes, 0);
    assert_int_equal(nigh_who(world.one, &sealed, holders, 4, &count), NIGH_OK);
    assert_int_equal(count, 0);
    plasma_check(world.one, 1, SIZE);
}

/* A quota says what one session may keep: it first costs its own unused objects, then it is said.
 */
static void test_quota(void **state)
{
    nigh_client *client = plasma_open(&world.node, "small", 1 << 20);
    nigh_id first = plasma_id(1);
    nigh_view view;

    (void)state;
    assert_int_equal(plasma_put(world.other, 100, SIZE), NIGH_OK);
    assert_int_equal(plasma_put(client, 1, 600000), NIGH_OK);
    assert_int_equal(nigh_get(client, &first, 1, 0, &view), NIGH_OK);
    assert_int_equal(plasma_put(client, 2, 600000), NIGH_QUOTA);
    assert_false(contains(client, 2));
    assert_int_equal(nigh_release(client, &view), NIGH_OK);
    assert_int_equal(plasma_put(client, 2, 600000), NIGH_OK);
    assert_false(contains(client, 1));
    assert_int_equal(nigh_set_quota(client, 4 << 20), NIGH_OK);
    assert_int_equal(plasma_put(client, 1, 600000), NIGH_OK);
    assert_true(contains(client, 1) && contains(client, 2));
    /* Others are not touched by it. */
    assert_true(contains(client, 100));
    assert_int_equal(plasma_put(world.one, 3, 8 << 20), NIGH_OK);
    nigh_client_close(client);
}

/* What no room could be made for is said before it is written, though a lease has memory for it. */
static void test_quota_of_one_object(void **state)
{
    nigh_client *client = plasma_open(&world.node, "small", 32 << 10);
    nigh_create_options options = {.data_size = 48 << 10};
    static const uint8_t bytes[48 << 10];
    nigh_id id = plasma_id(1), second = plasma_id(2), third = plasma_id(3);
    nigh_put_item item = {.id = id, .data = bytes, .data_size = sizeof(bytes)};
    nigh_writer writer, other;
    nigh_view view;
    nigh_op op;
    char text[512];

    (void)state;
    assert_int_equal(nigh_create(client, &id, &options, &writer), NIGH_QUOTA);
    (void)nigh_client_error(client, text, sizeof(text));
    assert_string_equal(text, "an object of 48.0 KiB is larger than the quota of this session, "
                              "32.0 KiB");
    assert_int_equal(nigh_put_many(client, &item, 1), NIGH_QUOTA);
    assert_int_equal(nigh_create_start(client, &id, &options, &writer, &op), NIGH_OK);
    assert_int_equal(nigh_wait(client, &op, NIGH_FOREVER), NIGH_QUOTA);
    /* What fits by itself is counted when it is sealed. */
    options.data_size = 20 << 10;
    assert_int_equal(nigh_create(client, &second, &options, &writer), NIGH_OK);
    assert_int_equal(nigh_create(client, &third, &options, &other), NIGH_OK);
    assert_int_equal(nigh_seal(client, &writer), NIGH_OK);
    assert_int_equal(nigh_get(client, &second, 1, 0, &view), NIGH_OK);
    assert_int_equal(nigh_seal(client, &other), NIGH_QUOTA);
    (void)nigh_client_error(client, text, sizeof(text));
    assert_string_equal(text, "the quota of this session, 32.0 KiB, is used up by what it made");
    assert_int_equal(nigh_release(client, &view), NIGH_OK);
    assert_int_equal(nigh_set_quota(client, 0), NIGH_OK);
    assert_int_equal(nigh_put(client, &id, bytes, sizeof(bytes), NULL), NIGH_OK);
    nigh_client_close(client);
}

/* ---- create, seal, abort ----------------------------------------------------------------------
 */

static void test_create_and_seal_in_two_steps(void **state)
{
    static const uint64_t sizes[] = {0, 1, 1000, 300000, 5 << 20};

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        nigh_create_options options = {.data_size = sizes[i], .meta = "of it", .meta_size = 5};
        nigh_id id = plasma_id(i);
        nigh_writer writer;
        nigh_view view;

        assert_int_equal(nigh_create(world.one, &id, &options, &writer), NIGH_OK);
        assert_int_equal(writer.data_size, sizes[i]);
        plasma_fill(writer.data, sizes[i], i);
        assert_int_equal(nigh_get(world.other, &id, 1, 0, &view), NIGH_TIMEOUT);
        assert_int_equal(nigh_seal(world.one, &writer), NIGH_OK);
        assert_int_equal(nigh_get(world.other, &id, 1, 0, &view), NIGH_OK);
        assert_int_equal(view.data_size, sizes[i]);
        assert_true(plasma_is_filled(view.data, sizes[i], i));
        assert_int_equal(view.meta_size, 5);
        assert_memory_equal(view.meta, "of it", 5);
        assert_int_equal(nigh_release(world.other, &view), NIGH_OK);
        /* Sealed is for good. */
        assert_int_equal(nigh_seal(world.one, &writer), NIGH_INVALID);
        assert_int_equal(nigh_create(world.other, &id, &options, &writer), NIGH_EXISTS);
    }
}

/* The first creator has the id; without the flag the first to seal has it. */
static void test_create_exclusive(void **state)
{
    nigh_create_options options = {.data_size = SIZE, .flags = NIGH_CREATE_EXCLUSIVE};
    nigh_id id = plasma_id(1), shared = plasma_id(2);
    nigh_writer writer, second;

    (void)state;
    assert_int_equal(nigh_create(world.one, &id, &options, &writer), NIGH_OK);
    assert_int_equal(nigh_create(world.other, &id, &options, &second), NIGH_EXISTS);
    assert_int_equal(plasma_put(world.other, 1, 5), NIGH_EXISTS);
    plasma_fill(writer.data, SIZE, 1);
    assert_int_equal(nigh_seal(world.one, &writer), NIGH_OK);
    plasma_check(world.other, 1, SIZE);

    options.flags = 0;
    assert_int_equal(nigh_create(world.one, &shared, &options, &writer), NIGH_OK);
    assert_int_equal(nigh_create(world.other, &shared, &options, &second), NIGH_OK);
    plasma_fill(second.data, SIZE, 2);
    assert_int_equal(nigh_seal(world.other, &second), NIGH_OK);
    assert_int_equal(nigh_seal(world.one, &writer), NIGH_EXISTS);
    plasma_check(world.one, 2, SIZE);
}

static void test_create_async(void **state)
{
    enum {
        N = 40
    };
    nigh_create_options options = {.data_size = SIZE};
    nigh_writer writers[N];
    nigh_op ops[N];

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        nigh_id id = plasma_id(i);

        options.flags = i % 2 == 0 ? NIGH_CREATE_EXCLUSIVE : 0;
        assert_int_equal(nigh_create_start(world.one, &id, &options, &writers[i], &ops[i]),
                         NIGH_OK);
    }
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(nigh_wait(world.one, &ops[i], 20000000), NIGH_OK);
        plasma_fill(writers[i].data, SIZE, i);
    }
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(nigh_seal_start(world.one, &writers[i], &ops[i]), NIGH_OK);
    }
    assert_true(
        SUPPORT_WAIT((nigh_poll(world.one), nigh_op_status(&ops[N - 1]) != NIGH_PENDING), 10000));
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(nigh_wait(world.one, &ops[i], 20000000), NIGH_OK);
        plasma_check(world.other, i, SIZE);
    }
}

static void test_create_refused_when_full(void **state)
{
    nigh_create_options options = {.data_size = 200 << 20}, small = {0};
    nigh_id id = plasma_id(1);
    nigh_writer writer;
    char text[256];

    (void)state;
    assert_int_equal(nigh_create(world.one, &id, &options, &writer), NIGH_OUT_OF_MEMORY);
    assert_true(nigh_client_error(world.one, text, sizeof(text)) > 0);
    /* evict_if_full=false: others are not evicted for it. */
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(plasma_put(world.other, 100 + i, 400000), NIGH_OK);
    }
    small.flags = NIGH_CREATE_NO_EVICT;
    small.data_size = 30 << 20;
    assert_int_equal(nigh_create(world.one, &id, &small, &writer), NIGH_OUT_OF_MEMORY);
    small.flags = 0;
    small.timeout_us = 20000000;
    assert_int_equal(nigh_create(world.one, &id, &small, &writer), NIGH_OK);
    assert_int_equal(nigh_abort(world.one, &writer), NIGH_OK);
}

static void test_create_and_seal(void **state)
{
    nigh_create_options options = {.meta = "with metadata", .meta_size = 13};
    nigh_id id = plasma_id(1);
    nigh_view view;

    (void)state;
    assert_int_equal(nigh_put(world.one, &id, "bytes", 5, &options), NIGH_OK);
    assert_int_equal(nigh_get(world.other, &id, 1, 0, &view), NIGH_OK);
    assert_memory_equal(view.data, "bytes", 5);
    assert_memory_equal(view.meta, "with metadata", 13);
    assert_int_equal(nigh_release(world.other, &view), NIGH_OK);
    assert_int_equal(nigh_put(world.other, &id, "other", 5, NULL), NIGH_EXISTS);
    assert_int_equal(plasma_put(world.one, 2, 7 << 20), NIGH_OK);
    plasma_check(world.other, 2, 7 << 20);
}

static void test_create_and_seal_batch(void **state)
{
    nigh_put_item *items = calloc(MANY, sizeof(*items));
    uint8_t *data = malloc(MANY * 100);
    nigh_op op;

    (void)state;
    for (uint32_t i = 0; i < MANY; i++) {
        plasma_fill(data + i * 100, 100, i);
        items[i] = (nigh_put_item){.id = plasma_id(i), .data = data + i * 100, .data_size = 100};
    }
    /* One of the ids is taken: it alone fails. */
    assert_int_equal(plasma_put(world.other, 7, 11), NIGH_OK);
    assert_int_equal(nigh_put_many(world.one, items, MANY), NIGH_EXISTS);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(items[i].status, i == 7 ? NIGH_EXISTS : NIGH_OK);
        plasma_check(world.other, i, i == 7 ? 11 : 100);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        items[i].id = plasma_id(1000 + i);
    }
    assert_int_equal(nigh_put_many_start(world.one, items, MANY, &op), NIGH_OK);
    assert_int_equal(nigh_wait(world.one, &op, 20000000), NIGH_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        nigh_id id = plasma_id(1000 + i);
        nigh_view view;

        assert_int_equal(nigh_get(world.other, &id, 1, 0, &view), NIGH_OK);
        assert_true(plasma_is_filled(view.data, 100, i));
        assert_int_equal(nigh_release(world.other, &view), NIGH_OK);
    }
    free(items);
    free(data);
}

static void test_abort(void **state)
{
    static const uint64_t sizes[] = {100, 3 << 20};

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        nigh_create_options options = {.data_size = sizes[i], .flags = NIGH_CREATE_EXCLUSIVE};
        nigh_id id = plasma_id(i);
        nigh_writer writer, used;

        assert_int_equal(nigh_create(world.one, &id, &options, &writer), NIGH_OK);
        used = writer;
        assert_int_equal(nigh_abort(world.one, &writer), NIGH_OK);
        assert_int_equal(nigh_abort(world.one, &writer), NIGH_INVALID);
        assert_int_equal(nigh_abort(world.one, &used), NIGH_INVALID);
        assert_false(plasma_is_listed(world.other, i, NULL));
        /* The id is free again, for anyone. */
        assert_int_equal(plasma_put(world.other, i, SIZE), NIGH_OK);
    }
    assert_int_equal(plasma_stats(world.one).objects_unsealed, 0);
}

/* ---- get, release, contains -------------------------------------------------------------------
 */

static void test_get_many(void **state)
{
    nigh_id ids[MANY];
    nigh_view views[MANY];

    (void)state;
    put_numbers(world.one, 0, MANY, SIZE);
    make_ids(ids, 0, MANY);
    assert_int_equal(nigh_get(world.other, ids, MANY, 0, views), NIGH_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(views[i].status, NIGH_OK);
        assert_true(plasma_is_filled(views[i].data, SIZE, i));
        assert_int_equal(nigh_release(world.other, &views[i]), NIGH_OK);
    }
}

static void test_get_waits_for_another_process(void **state)
{
    struct plasma_putter putter = {
        .node = &world.node, .first = 0, .count = MANY, .size = SIZE, .waiting = 1};
    nigh_id ids[MANY];
    nigh_view views[MANY];
    pid_t child;

    (void)state;
    make_ids(ids, 0, MANY);
    child = plasma_fork_putter(&putter);
    assert_int_equal(nigh_get(world.one, ids, MANY, 20000000, views), NIGH_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_true(plasma_is_filled(views[i].data, SIZE, i));
        assert_int_equal(nigh_release(world.one, &views[i]), NIGH_OK);
    }
    assert_int_equal(support_join(child, 20000), 0);
}

/* Those that came in time are there; the others say so. */
static void test_get_timeout(void **state)
{
    nigh_id ids[4];
    nigh_view views[4];
    uint64_t begun_us;

    (void)state;
    make_ids(ids, 0, 4);
    put_numbers(world.one, 1, 2, SIZE);
    begun_us = support_now_us();
    assert_int_equal(nigh_get(world.other, ids, 4, 50000, views), NIGH_TIMEOUT);
    assert_true(support_now_us() - begun_us >= 50000);
    for (uint32_t i = 0; i < 4; i++) {
        bool there = i == 1 || i == 2;

        assert_int_equal(views[i].status, there ? NIGH_OK : NIGH_TIMEOUT);
        assert_true(!there || plasma_is_filled(views[i].data, SIZE, i));
        assert_int_equal(nigh_release(world.other, &views[i]), NIGH_OK);
    }
    assert_int_equal(nigh_get(world.other, ids, 1, 0, views), NIGH_TIMEOUT);
}

static void test_get_async(void **state)
{
    struct plasma_putter putter = {
        .node = &world.node, .first = 0, .count = MANY, .size = SIZE, .waiting = 1};
    nigh_id ids[MANY], never = plasma_id(99999);
    nigh_view views[MANY], none;
    nigh_op op, pending;
    pid_t child;

    (void)state;
    make_ids(ids, 0, MANY);
    assert_int_equal(nigh_get_start(world.one, ids, MANY, NIGH_FOREVER, views, &op), NIGH_OK);
    assert_int_equal(nigh_get_start(world.one, &never, 1, NIGH_FOREVER, &none, &pending), NIGH_OK);
    assert_int_equal(nigh_op_status(&op), NIGH_PENDING);
    assert_int_equal(nigh_wait(world.one, &op, 0), NIGH_TIMEOUT);
    child = plasma_fork_putter(&putter);
    assert_int_equal(nigh_wait(world.one, &op, 20000000), NIGH_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_true(plasma_is_filled(views[i].data, SIZE, i));
        assert_int_equal(nigh_release(world.one, &views[i]), NIGH_OK);
    }
    assert_int_equal(nigh_cancel(world.one, &pending), NIGH_CANCELED);
    assert_int_equal(nigh_op_status(&pending), NIGH_CANCELED);
    assert_int_equal(support_join(child, 20000), 0);
}

static void test_get_duplicate_ids(void **state)
{
    nigh_id ids[6] = {plasma_id(1), plasma_id(2), plasma_id(1),
                      plasma_id(1), plasma_id(2), plasma_id(3)};
    static const uint32_t numbers[6] = {1, 2, 1, 1, 2, 3};
    nigh_view views[6];
    nigh_object_info info;

    (void)state;
    put_numbers(world.one, 1, 3, SIZE);
    assert_int_equal(nigh_get(world.other, ids, 6, 0, views), NIGH_OK);
    assert_int_equal(nigh_stat(world.one, &ids[0], &info), NIGH_OK);
    assert_int_equal(info.holders, 3);
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(plasma_is_filled(views[i].data, SIZE, numbers[i]));
        assert_int_equal(nigh_release(world.other, &views[i]), NIGH_OK);
    }
    assert_int_equal(nigh_stat(world.one, &ids[0], &info), NIGH_OK);
    assert_int_equal(info.holders, 0);
}

static void test_release(void **state)
{
    nigh_id id = plasma_id(1);
    nigh_view view, copy;
    uint64_t freed;

    (void)state;
    assert_int_equal(plasma_put(world.one, 1, SIZE), NIGH_OK);
    assert_int_equal(nigh_get(world.other, &id, 1, 0, &view), NIGH_OK);
    /* What is held is not evicted, whoever asks and however much. */
    assert_int_equal(nigh_evict(world.one, 64 << 20, &freed), NIGH_OK);
    assert_int_equal(freed, 0);
    assert_true(plasma_is_filled(view.data, SIZE, 1));
    copy = view;
    assert_int_equal(nigh_release(world.other, &view), NIGH_OK);
    assert_null(view.data);
    assert_int_equal(nigh_release(world.other, &view), NIGH_OK);
    (void)nigh_release(world.other, &copy); /* used up: an error or nothing, no harm */
    assert_int_equal(nigh_evict(world.one, 64 << 20, &freed), NIGH_OK);
    assert_true(freed >= SIZE);
    assert_false(contains(world.other, 1));
}

static void test_contains(void **state)
{
    (void)state;
    assert_false(contains(world.other, 5));
    put_numbers(world.one, 0, MANY, 10);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_true(contains(world.other, i));
        assert_false(contains(world.other, 1000 + i));
    }
}

static void test_list(void **state)
{
    static nigh_object_info infos[7];
    nigh_create_options options = {.data_size = 50, .flags = NIGH_CREATE_EXCLUSIVE};
    nigh_id unsealed = plasma_id(500);
    bool seen[MANY] = {false};
    nigh_object_state listed;
    uint64_t cursor = 0;
    size_t count, all = 0;
    nigh_writer writer;

    (void)state;
    put_numbers(world.one, 0, MANY, 10);
    do {
        assert_int_equal(nigh_list(world.other, &cursor, infos, 7, &count), NIGH_OK);
        for (size_t i = 0; i < count; i++) {
            uint32_t number;

            memcpy(&number, infos[i].id.bytes + 1, sizeof(number));
            assert_true(number < MANY && !seen[number]);
            seen[number] = true;
            assert_int_equal(infos[i].state, NIGH_OBJECT_SEALED);
            assert_int_equal(infos[i].data_size, 10);
            assert_true(infos[i].created_ns > UINT64_C(1600000000000000000));
        }
        all += count;
    } while (count > 0);
    assert_int_equal(all, MANY);
    assert_int_equal(nigh_create(world.one, &unsealed, &options, &writer), NIGH_OK);
    assert_true(plasma_is_listed(world.other, 500, &listed));
    assert_int_equal(listed, NIGH_OBJECT_CREATED);
    assert_int_equal(nigh_abort(world.one, &writer), NIGH_OK);
}

static void test_stat(void **state)
{
    nigh_create_options options = {.data_size = SIZE, .meta = "abc", .meta_size = 3};
    nigh_id id = plasma_id(1), absent = plasma_id(2);
    nigh_object_info info;
    nigh_writer writer;
    nigh_view view;
    nigh_op op;

    (void)state;
    assert_int_equal(nigh_stat(world.other, &absent, &info), NIGH_NOT_FOUND);
    options.flags = NIGH_CREATE_EXCLUSIVE;
    assert_int_equal(nigh_create(world.one, &id, &options, &writer), NIGH_OK);
    assert_int_equal(nigh_stat(world.other, &id, &info), NIGH_OK);
    assert_int_equal(info.state, NIGH_OBJECT_CREATED);
    assert_int_equal(nigh_seal(world.one, &writer), NIGH_OK);
    assert_int_equal(nigh_get(world.other, &id, 1, 0, &view), NIGH_OK);
    assert_int_equal(nigh_stat_start(world.one, &id, &info, &op), NIGH_OK);
    assert_int_equal(nigh_wait(world.one, &op, 20000000), NIGH_OK);
    assert_int_equal(info.state, NIGH_OBJECT_SEALED);
    assert_int_equal(info.data_size, SIZE);
    assert_int_equal(info.meta_size, 3);
    assert_int_equal(info.holders, 1);
    assert_true(info.build_ns > 0);
    assert_int_equal(nigh_release(world.other, &view), NIGH_OK);
}

/* ---- delete -----------------------------------------------------------------------------------
 */

static void test_delete_many(void **state)
{
    nigh_id ids[MANY];
    nigh_status statuses[MANY];
    nigh_op op;

    (void)state;
    make_ids(ids, 0, MANY);
    put_numbers(world.one, 0, MANY, SIZE);
    assert_int_equal(nigh_delete(world.other, &ids[0], 1, NULL), NIGH_OK);
    assert_int_equal(nigh_delete(world.other, ids, MANY, statuses), NIGH_NOT_FOUND);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(statuses[i], i == 0 ? NIGH_NOT_FOUND : NIGH_OK);
        assert_false(contains(world.one, i));
    }
    put_numbers(world.one, 0, MANY, SIZE);
    assert_int_equal(nigh_delete_start(world.other, ids, MANY, statuses, &op), NIGH_OK);
    assert_int_equal(nigh_wait(world.other, &op, 20000000), NIGH_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(statuses[i], NIGH_OK);
    }
    assert_int_equal(plasma_stats(world.one).objects, 0);
}

/* Gone for new readers at once, its bytes at the last release, and seen as such meanwhile. */
static void test_delete_in_use(void **state)
{
    nigh_id id = plasma_id(1);
    nigh_view first, second;
    nigh_object_info info;
    nigh_object_state listed;
    nigh_status status;
    uint64_t used;

    (void)state;
    assert_int_equal(plasma_put(world.one, 1, 1 << 20), NIGH_OK);
    assert_int_equal(nigh_get(world.other, &id, 1, 0, &first), NIGH_OK);
    assert_int_equal(nigh_get(world.one, &id, 1, 0, &second), NIGH_OK);
    used = plasma_stats(world.one).used_bytes;
    assert_int_equal(nigh_delete(world.one, &id, 1, &status), NIGH_OK);
    assert_int_equal(status, NIGH_IN_USE);
    assert_false(contains(world.other, 1));
    assert_int_equal(nigh_stat(world.other, &id, &info), NIGH_OK);
    assert_int_equal(info.state, NIGH_OBJECT_DELETING);
    assert_int_equal(info.holders, 2);
    assert_true(plasma_is_listed(world.other, 1, &listed));
    assert_int_equal(listed, NIGH_OBJECT_DELETING);
    assert_int_equal(nigh_release(world.one, &second), NIGH_OK);
    assert_true(plasma_is_filled(first.data, 1 << 20, 1));
    /* The id may be used again at once; the old reader keeps the old bytes. */
    assert_int_equal(nigh_put(world.one, &id, "new", 3, NULL), NIGH_OK);
    assert_true(plasma_is_filled(first.data, 1 << 20, 1));
    assert_int_equal(plasma_stats(world.one).objects_deleting, 1);
    assert_int_equal(nigh_release(world.other, &first), NIGH_OK);
    assert_true(SUPPORT_WAIT(plasma_stats(world.one).objects_deleting == 0, 10000));
    assert_true(plasma_stats(world.one).used_bytes < used);
}

static void test_delete_unsealed(void **state)
{
    nigh_create_options options = {.data_size = SIZE, .flags = NIGH_CREATE_EXCLUSIVE};
    nigh_id id = plasma_id(1);
    nigh_writer writer;

    (void)state;
    assert_int_equal(nigh_create(world.one, &id, &options, &writer), NIGH_OK);
    assert_int_equal(nigh_delete(world.other, &id, 1, NULL), NIGH_NOT_SEALED);
    assert_int_equal(nigh_delete(world.one, &id, 1, NULL), NIGH_NOT_SEALED);
    assert_int_equal(nigh_seal(world.one, &writer), NIGH_OK);
    assert_int_equal(nigh_delete(world.other, &id, 1, NULL), NIGH_OK);
}

/* ---- evict, refresh, pin ----------------------------------------------------------------------
 */

static void test_evict(void **state)
{
    uint64_t freed = 0, used;
    nigh_op op;

    (void)state;
    put_numbers(world.one, 0, 40, 250000);
    used = plasma_stats(world.one).used_bytes;
    assert_int_equal(nigh_evict(world.other, 1000000, &freed), NIGH_OK);
    assert_in_range(freed, 1000000, 3000000);
    assert_in_range(plasma_stats(world.one).objects, 28, 36);
    assert_true(plasma_stats(world.one).used_bytes <= used - 1000000);
    assert_int_equal(nigh_evict_start(world.other, UINT64_MAX, &freed, &op), NIGH_OK);
    assert_int_equal(nigh_wait(world.other, &op, 20000000), NIGH_OK);
    assert_int_equal(plasma_stats(world.one).objects, 0);
    assert_int_equal(plasma_stats(world.one).evictions, 40);
    assert_int_equal(nigh_evict(world.other, 1, &freed), NIGH_OK);
    assert_int_equal(freed, 0);
}

/* The same puts and the same eviction twice: what was evicted the first time stays the second,
 * because it is refreshed. */
static void test_refresh(void **state)
{
    enum {
        N = 80
    };
    bool gone[N] = {false};
    nigh_id refreshed[N], unknown = plasma_id(9999);
    size_t count = 0;
    uint64_t freed;
    nigh_op op;

    (void)state;
    put_numbers(world.one, 0, N, 250000);
    assert_int_equal(nigh_evict(world.one, 5000000, &freed), NIGH_OK);
    for (uint32_t i = 0; i < N; i++) {
        gone[i] = !contains(world.one, i);
        if (gone[i]) {
            refreshed[count++] = plasma_id(i);
        }
    }
    assert_in_range(count, 20, 30);
    close_world(state);
    open_world(state);
    put_numbers(world.one, 0, N, 250000);
    assert_int_equal(nigh_refresh(world.other, refreshed, count / 2), NIGH_OK);
    assert_int_equal(nigh_refresh_start(world.other, refreshed + count / 2, count - count / 2, &op),
                     NIGH_OK);
    assert_int_equal(nigh_wait(world.other, &op, 20000000), NIGH_OK);
    assert_int_equal(nigh_refresh(world.other, &unknown, 1), NIGH_OK);
    assert_int_equal(nigh_evict(world.one, 5000000, &freed), NIGH_OK);
    assert_true(freed >= 5000000);
    for (uint32_t i = 0; i < N; i++) {
        assert_true(!gone[i] || contains(world.one, i));
    }
}

static void test_pin_and_unpin(void **state)
{
    nigh_client *client = plasma_open(&world.node, "pins and goes", 0);
    nigh_id id = plasma_id(1), absent = plasma_id(2);
    nigh_object_info info;
    uint64_t freed;

    (void)state;
    assert_int_equal(plasma_put(world.one, 1, SIZE), NIGH_OK);
    assert_int_equal(nigh_pin(client, &absent), NIGH_NOT_FOUND);
    assert_int_equal(nigh_pin(client, &id), NIGH_OK);
    nigh_client_close(client);
    assert_int_equal(nigh_stat(world.one, &id, &info), NIGH_OK);
    assert_int_equal(info.pinned, 1);
    assert_int_equal(nigh_evict(world.one, UINT64_MAX, &freed), NIGH_OK);
    plasma_check(world.other, 1, SIZE);
    assert_int_equal(nigh_unpin(world.one, &id), NIGH_OK);
    assert_int_equal(nigh_evict(world.one, UINT64_MAX, &freed), NIGH_OK);
    assert_false(contains(world.other, 1));
}

/* ---- look -------------------------------------------------------------------------------------
 */

static void test_user_metadata(void **state)
{
    uint8_t *meta = malloc(65537);
    nigh_create_options options = {.meta = meta};
    static const uint32_t sizes[] = {0, 1, 4096, 65536};
    nigh_view view;
    nigh_id id;

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        id = plasma_id(i);
        plasma_fill(meta, sizes[i], 77);
        options.meta_size = sizes[i];
        assert_int_equal(nigh_put(world.one, &id, "data", 4, &options), NIGH_OK);
        assert_int_equal(nigh_get(world.other, &id, 1, 0, &view), NIGH_OK);
        assert_int_equal(view.meta_size, sizes[i]);
        assert_true(sizes[i] == 0 ? view.meta == NULL : plasma_is_filled(view.meta, sizes[i], 77));
        assert_memory_equal(view.data, "data", 4);
        assert_int_equal(nigh_release(world.other, &view), NIGH_OK);
    }
    options.meta_size = 65537;
    id = plasma_id(4);
    assert_int_equal(nigh_put(world.one, &id, "data", 4, &options), NIGH_INVALID);
    free(meta);
}

static void test_names(void **state)
{
    nigh_create_options options = {.name = "models/größe 7"};
    nigh_object_info info;
    char name[257];
    nigh_id id;

    (void)state;
    assert_int_equal(nigh_id_from_name(options.name, &id), NIGH_OK);
    assert_int_equal(nigh_put(world.one, &id, "x", 1, &options), NIGH_OK);
    assert_int_equal(nigh_stat(world.other, &id, &info), NIGH_OK);
    assert_string_equal(info.name, options.name);
    memset(name, 'n', 256);
    name[256] = '\0';
    assert_int_equal(nigh_id_from_name(name, &id), NIGH_INVALID);
    assert_int_equal(nigh_id_from_name("", &id), NIGH_INVALID);
    name[255] = '\0';
    options.name = name;
    assert_int_equal(nigh_id_from_name(name, &id), NIGH_OK);
    assert_int_equal(nigh_put(world.one, &id, "x", 1, &options), NIGH_OK);
    assert_int_equal(nigh_stat(world.other, &id, &info), NIGH_OK);
    assert_string_equal(info.name, name);
    /* A name that is not the id's is refused. */
    id = plasma_id(1);
    assert_int_equal(nigh_put(world.one, &id, "x", 1, &options), NIGH_INVALID);
}

static void test_random_ids(void **state)
{
    nigh_id ids[64];

    (void)state;
    for (uint32_t i = 0; i < 64; i++) {
        assert_int_equal(nigh_id_random(&ids[i]), NIGH_OK);
        for (uint32_t j = 0; j < i; j++) {
            assert_memory_not_equal(&ids[i], &ids[j], sizeof(nigh_id));
        }
    }
}

static int hold_until_told(void *context)
{
    const struct world *here = context;
    nigh_client *client = plasma_try_open(&here->node, "holder");
    nigh_id id = plasma_id(1), end = plasma_id(2);
    nigh_view views[2], last;

    if (client == NULL || nigh_get(client, &id, 1, 0, &views[0]) != NIGH_OK ||
        nigh_get(client, &id, 1, 0, &views[1]) != NIGH_OK) {
        return 1;
    }
    return nigh_get(client, &end, 1, 20000000, &last) == NIGH_OK ? 0 : 2;
}

static bool is_held_by(const nigh_id *id, pid_t pid)
{
    nigh_holder holders[4];
    size_t count = 0;

    assert_int_equal(nigh_who(world.one, id, holders, 4, &count), NIGH_OK);
    return count == 1 && holders[0].pid == pid && holders[0].views == 2 &&
           strcmp(holders[0].name, "holder") == 0;
}

static void test_who_holds(void **state)
{
    nigh_id id = plasma_id(1), absent = plasma_id(3);
    nigh_holder holders[8];
    size_t count = 0;
    uint64_t bytes = 0;
    pid_t child;

    (void)state;
    assert_int_equal(plasma_put(world.one, 1, 1 << 20), NIGH_OK);
    child = support_fork(hold_until_told, &world);
    assert_true(SUPPORT_WAIT(is_held_by(&id, child), 10000));
    assert_int_equal(nigh_holders(world.one, holders, 8, &count), NIGH_OK);
    for (size_t i = 0; i < count; i++) {
        bytes += holders[i].pid == child ? holders[i].size_bytes : 0;
    }
    assert_true(bytes >= 1 << 20);
    assert_int_equal(plasma_put(world.one, 2, 1), NIGH_OK);
    assert_int_equal(support_join(child, 20000), 0);
    assert_true(
        SUPPORT_WAIT(nigh_who(world.one, &id, holders, 8, &count) == NIGH_OK && count == 0, 10000));
    assert_int_equal(nigh_who(world.one, &absent, holders, 8, &count), NIGH_NOT_FOUND);
}

/* CRC32C of "123456789": RFC 3720, B.4. */
static void test_hash(void **state)
{
    nigh_id id = plasma_id(1), same = plasma_id(2), large = plasma_id(3), absent = plasma_id(4);
    uint32_t one, two;

    (void)state;
    assert_int_equal(nigh_put(world.one, &id, "123456789", 9, NULL), NIGH_OK);
    assert_int_equal(nigh_put(world.other, &same, "123456789", 9, NULL), NIGH_OK);
    assert_int_equal(plasma_put(world.one, 3, 5 << 20), NIGH_OK);
    assert_int_equal(nigh_checksum(world.other, &id, &one), NIGH_OK);
    assert_int_equal(nigh_checksum(world.other, &same, &two), NIGH_OK);
    assert_int_equal(one, 0xe3069283);
    assert_int_equal(one, two);
    assert_int_equal(nigh_checksum(world.other, &large, &two), NIGH_OK);
    assert_int_not_equal(one, two);
    assert_int_equal(nigh_checksum(world.other, &absent, &two), NIGH_NOT_FOUND);
}

static void test_store_capacity_and_debug_string(void **state)
{
    nigh_node_stats before, after;

    (void)state;
    before = plasma_stats(world.one);
    assert_int_equal(before.memory_bytes, 64 << 20);
    assert_int_equal(before.sessions, 2);
    put_numbers(world.one, 0, 10, 100000);
    after = plasma_stats(world.other);
    assert_int_equal(after.objects, 10);
    assert_int_equal(after.seals - before.seals, 10);
    assert_true(after.used_bytes >= before.used_bytes + 1000000);
    assert_true(after.uptime_us > before.uptime_us);
}

/* ---- subscribe --------------------------------------------------------------------------------
 */

/* Takes events until one of this kind for this object comes; fails the test when none does. */
static nigh_event expect_event(nigh_client *client, nigh_event_kind kind, uint32_t number)
{
    nigh_id id = plasma_id(number);
    nigh_event event;

    do {
        assert_int_equal(nigh_next_event(client, 10000000, &event), NIGH_OK);
    } while (event.kind != kind || memcmp(&event.id, &id, sizeof(id)) != 0);
    return event;
}

static void test_subscribe(void **state)
{
    nigh_create_options options = {.meta = "abc", .meta_size = 3};
    nigh_id id = plasma_id(1);
    nigh_event event;
    uint64_t freed;

    (void)state;
    assert_int_equal(nigh_next_event(world.other, 0, &event), NIGH_NOT_FOUND);
    assert_int_equal(plasma_put(world.one, 50, 10), NIGH_OK);
    assert_int_equal(nigh_subscribe(world.other, 0), NIGH_OK);
    assert_int_equal(nigh_next_event(world.other, 0, &event), NIGH_TIMEOUT);
    assert_int_equal(nigh_put(world.one, &id, "12345", 5, &options), NIGH_OK);
    event = expect_event(world.other, NIGH_EVENT_SEALED, 1);
    assert_int_equal(event.data_size, 5);
    assert_int_equal(event.meta_size, 3);
    assert_int_equal(nigh_delete(world.one, &id, 1, NULL), NIGH_OK);
    expect_event(world.other, NIGH_EVENT_DELETED, 1);
    assert_int_equal(nigh_evict(world.one, UINT64_MAX, &freed), NIGH_OK);
    expect_event(world.other, NIGH_EVENT_EVICTED, 50);
    assert_int_equal(nigh_unsubscribe(world.other), NIGH_OK);
    assert_int_equal(plasma_put(world.one, 51, 10), NIGH_OK);
    assert_int_equal(nigh_next_event(world.other, 0, &event), NIGH_NOT_FOUND);
}

static void test_subscribe_replay(void **state)
{
    bool seen[MANY + 10] = {false};
    uint32_t count = 0;
    nigh_event event;

    (void)state;
    put_numbers(world.one, 0, MANY, 10);
    assert_int_equal(nigh_subscribe(world.other, NIGH_SUBSCRIBE_REPLAY), NIGH_OK);
    put_numbers(world.one, MANY, 10, 10);
    while (count < MANY + 10) {
        uint32_t number;

        assert_int_equal(nigh_next_event(world.other, 10000000, &event), NIGH_OK);
        assert_int_equal(event.kind, NIGH_EVENT_SEALED);
        memcpy(&number, event.id.bytes + 1, sizeof(number));
        assert_true(number < MANY + 10 && !seen[number]);
        seen[number] = true;
        count++;
    }
    assert_int_equal(nigh_next_event(world.other, 1000, &event), NIGH_TIMEOUT);
}

/* Plasma's descriptor: to sleep on in a loop of one's own. */
static void test_subscribe_descriptor(void **state)
{
    struct plasma_putter putter = {.node = &world.node, .first = 1, .count = 1, .size = 10};
    struct pollfd waits = {.fd = nigh_client_fd(world.other), .events = POLLIN};
    nigh_event event = {0};
    nigh_status status = NIGH_TIMEOUT;
    pid_t child;

    (void)state;
    assert_true(waits.fd >= 0);
    assert_int_equal(nigh_subscribe(world.other, 0), NIGH_OK);
    child = plasma_fork_putter(&putter);
    for (uint32_t i = 0; i < 100 && status == NIGH_TIMEOUT; i++) {
        assert_int_equal(nigh_client_arm(world.other), NIGH_OK);
        nigh_poll(world.other);
        status = nigh_next_event(world.other, 0, &event);
        if (status == NIGH_TIMEOUT) {
            assert_int_equal(poll(&waits, 1, 10000), 1);
        }
    }
    assert_int_equal(status, NIGH_OK);
    assert_int_equal(event.kind, NIGH_EVENT_SEALED);
    assert_int_equal(support_join(child, 20000), 0);
}

/* The queue is bounded: what does not fit is counted, and the reader is told how many. */
static void test_subscribe_overflow(void **state)
{
    uint64_t seen = 0, lost = 0;
    nigh_event event;

    (void)state;
    assert_int_equal(nigh_subscribe(world.other, 0), NIGH_OK);
    put_numbers(world.one, 0, 4000, 8);
    while (seen + lost < 4000) {
        assert_int_equal(nigh_next_event(world.other, 10000000, &event), NIGH_OK);
        if (event.kind == NIGH_EVENT_OVERFLOW) {
            lost += event.data_size;
        } else {
            assert_int_equal(event.kind, NIGH_EVENT_SEALED);
            seen++;
        }
    }
    assert_int_equal(seen + lost, 4000);
    assert_true(lost > 0 && seen > 0);
    assert_int_equal(plasma_stats(world.one).events_lost, lost);
}

#define WORLD_TEST(function) cmocka_unit_test_setup_teardown(function, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_connect),
        WORLD_TEST(test_connect_refused),
        WORLD_TEST(test_disconnect),
        WORLD_TEST(test_quota),
        WORLD_TEST(test_quota_of_one_object),
        WORLD_TEST(test_create_and_seal_in_two_steps),
        WORLD_TEST(test_create_exclusive),
        WORLD_TEST(test_create_async),
        WORLD_TEST(test_create_refused_when_full),
        WORLD_TEST(test_create_and_seal),
        WORLD_TEST(test_create_and_seal_batch),
        WORLD_TEST(test_abort),
        WORLD_TEST(test_get_many),
        WORLD_TEST(test_get_waits_for_another_process),
        WORLD_TEST(test_get_timeout),
        WORLD_TEST(test_get_async),
        WORLD_TEST(test_get_duplicate_ids),
        WORLD_TEST(test_release),
        WORLD_TEST(test_contains),
        WORLD_TEST(test_list),
        WORLD_TEST(test_stat),
        WORLD_TEST(test_delete_many),
        WORLD_TEST(test_delete_in_use),
        WORLD_TEST(test_delete_unsealed),
        WORLD_TEST(test_evict),
        WORLD_TEST(test_refresh),
        WORLD_TEST(test_pin_and_unpin),
        WORLD_TEST(test_user_metadata),
        WORLD_TEST(test_names),
        WORLD_TEST(test_random_ids),
        WORLD_TEST(test_who_holds),
        WORLD_TEST(test_hash),
        WORLD_TEST(test_store_capacity_and_debug_string),
        WORLD_TEST(test_subscribe),
        WORLD_TEST(test_subscribe_replay),
        WORLD_TEST(test_subscribe_descriptor),
        WORLD_TEST(test_subscribe_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
