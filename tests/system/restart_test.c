/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nighd is killed, again and again, under clients that use libnigh: what was sealed is served by
 * the next node, what is held in a reader's hands keeps its bytes, and nothing is ever wrong.
 */
#include "support/node_fixture.h"
#include "support/support.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nigh/nigh.h"

#define OBJECTS  200u
#define DEADLINE 20000
#define KILLS    8
#define GRACE_US 1000000 /* LIMIT_NODE_GRACE_US */

static struct node_fixture node;

static nigh_id id_of(uint32_t number)
{
    nigh_id id = {{0}};

    memcpy(id.bytes, &number, sizeof(number));
    memcpy(id.bytes + 8, "restart", 7);
    return id;
}

static uint64_t size_of(uint32_t number)
{
    return 100 + (uint64_t)number * 977 % 60000;
}

static uint8_t byte_of(uint32_t number, uint64_t at)
{
    return (uint8_t)(number * 31 + at * 7 + (at >> 8));
}

static bool is_right(const void *data, uint64_t size, uint32_t number)
{
    const uint8_t *bytes = data;

    if (size != size_of(number))
        return false;
    for (uint64_t i = 0; i < size; i++) {
        if (bytes[i] != byte_of(number, i))
            return false;
    }
    return true;
}

static nigh_status put(nigh_client *client, uint32_t number)
{
    nigh_create_options options = {.timeout_us = DEADLINE * UINT64_C(1000)};
    uint8_t *data = malloc(size_of(number));
    nigh_id id = id_of(number);
    nigh_status status;

    for (uint64_t i = 0; i < size_of(number); i++)
        data[i] = byte_of(number, i);
    status = nigh_put(client, &id, data, size_of(number), &options);
    free(data);
    return status;
}

/* NIGH_OK, the failure of the get, or NIGH_CORRUPT for wrong bytes. */
static nigh_status look_within(nigh_client *client, uint32_t number, uint64_t timeout_us)
{
    nigh_id id = id_of(number);
    nigh_view view;
    nigh_status status = nigh_get(client, &id, 1, timeout_us, &view);

    if (status != NIGH_OK)
        return status;
    if (!is_right(view.data, view.data_size, number))
        status = NIGH_CORRUPT;
    return nigh_release(client, &view) == NIGH_OK ? status : NIGH_INVALID;
}

/* What is here is found at once, or the lane is asked, which a busy machine may leave without a
 * core for longer than such a call gives a node: that says nothing of the object. */
static nigh_status look(nigh_client *client, uint32_t number)
{
    nigh_status status;
    uint64_t begun_us;

    do {
        begun_us = support_now_us();
        status = look_within(client, number, 0);
    } while (status == NIGH_TIMEOUT && support_now_us() - begun_us >= GRACE_US);
    return status;
}

static nigh_client *open_client(void)
{
    nigh_client_options options = {.struct_size = sizeof(options), .socket_path = node.socket};
    nigh_client *client = NULL;

    if (nigh_client_open(&options, &client) != NIGH_OK)
        fail_msg("%s", nigh_open_error());
    return client;
}

/* Kills the node and waits until another runs in its place. */
static void kill_node(void)
{
    pid_t child = node_fixture_child(node.pid);

    assert_true(child > 0);
    kill(child, SIGKILL);
    assert_true(SUPPORT_WAIT(
        node_fixture_child(node.pid) != child && node_fixture_child(node.pid) != 0, DEADLINE));
}

/* Until the client reaches the new node. */
static bool comes_back(nigh_client *client)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    return SUPPORT_WAIT(nigh_stats(client, &stats) == NIGH_OK, DEADLINE);
}

static void start(const char *memory, const char *more, const char *value)
{
    const char *flags[] = {"--hold", more, value, NULL};

    node_fixture_start(&node, memory, flags);
}

/* ---- tests ---- */

static void what_was_sealed_is_served(void **state)
{
    nigh_client *client;
    nigh_node_stats stats = {.struct_size = sizeof stats};

    (void)state;
    start("64M", "--lanes", "2");
    client = open_client();
    for (uint32_t i = 0; i < OBJECTS; i++)
        assert_int_equal(put(client, i), NIGH_OK);
    for (uint32_t round = 1; round <= 3; round++) {
        nigh_client *newcomer;

        kill_node();
        assert_true(comes_back(client));
        newcomer = open_client();
        for (uint32_t i = 0; i < OBJECTS; i++) {
            assert_int_equal(look(client, i), NIGH_OK);
            assert_int_equal(look(newcomer, i), NIGH_OK);
        }
        assert_int_equal(put(client, OBJECTS + round), NIGH_OK);
        assert_int_equal(look(newcomer, OBJECTS + round), NIGH_OK);
        assert_int_equal(nigh_stats(client, &stats), NIGH_OK);
        assert_int_equal(stats.restarts, round);
        assert_int_equal(stats.objects, OBJECTS + round);
        nigh_client_close(newcomer);
    }
    nigh_client_close(client);
    node_fixture_stop(&node);
}

static void what_is_held_keeps_its_bytes(void **state)
{
    nigh_view views[16];
    nigh_client *reader, *writer;

    (void)state;
    start("32M", NULL, NULL);
    writer = open_client();
    reader = open_client();
    for (uint32_t i = 0; i < 16; i++) {
        nigh_id id = id_of(i);

        assert_int_equal(put(writer, i), NIGH_OK);
        assert_int_equal(nigh_get(reader, &id, 1, 0, &views[i]), NIGH_OK);
    }
    kill_node();
    /* The reader does nothing: it is inside its objects. The writer fills the memory many times. */
    assert_true(comes_back(writer));
    for (uint32_t i = 100; i < 3000; i++)
        assert_int_equal(put(writer, i), NIGH_OK);
    for (uint32_t i = 0; i < 16; i++)
        assert_true(is_right(views[i].data, views[i].data_size, i));
    kill_node();
    assert_true(comes_back(writer));
    for (uint32_t i = 3000; i < 6000; i++)
        assert_int_equal(put(writer, i), NIGH_OK);
    for (uint32_t i = 0; i < 16; i++) {
        assert_true(is_right(views[i].data, views[i].data_size, i));
        assert_int_equal(nigh_release(reader, &views[i]), NIGH_OK);
    }
    nigh_client_close(reader);
    nigh_client_close(writer);
    node_fixture_stop(&node);
}

static void an_object_under_way_is_sealed_after_it(void **state)
{
    nigh_create_options options = {.data_size = size_of(7), .flags = NIGH_CREATE_EXCLUSIVE};
    nigh_id id = id_of(7);
    nigh_writer object;
    nigh_client *client;

    (void)state;
    start("32M", NULL, NULL);
    client = open_client();
    assert_int_equal(nigh_create(client, &id, &options, &object), NIGH_OK);
    for (uint64_t i = 0; i < size_of(7) / 2; i++)
        ((uint8_t *)object.data)[i] = byte_of(7, i);
    kill_node();
    assert_true(comes_back(client));
    for (uint64_t i = size_of(7) / 2; i < size_of(7); i++)
        ((uint8_t *)object.data)[i] = byte_of(7, i);
    assert_int_equal(nigh_seal(client, &object), NIGH_OK);
    assert_int_equal(look(client, 7), NIGH_OK);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

static void spilled_objects_come_back(void **state)
{
    char folder[108];
    nigh_client *client;
    nigh_node_stats stats = {.struct_size = sizeof stats};

    (void)state;
    support_path(folder, sizeof(folder), "spill");
    start("16M", "--spill", folder);
    client = open_client();
    for (uint32_t i = 0; i < 1200; i++)
        assert_int_equal(put(client, i), NIGH_OK);
    assert_int_equal(nigh_stats(client, &stats), NIGH_OK);
    assert_true(stats.objects_spilled > 100);
    kill_node();
    assert_true(comes_back(client));
    assert_int_equal(nigh_stats(client, &stats), NIGH_OK);
    assert_true(stats.objects_spilled > 100);
    for (uint32_t i = 0; i < 1200; i++) {
        /* A disk takes its time, for which a get that may not wait has a second. */
        nigh_status status = look_within(client, i, DEADLINE * UINT64_C(1000));

        if (status != NIGH_OK)
            fail_msg("object %u: %s", i, nigh_status_name(status));
    }
    nigh_client_close(client);
    node_fixture_stop(&node);
}

#define NAMED 100u

static void name_of(uint32_t number, char name[32])
{
    snprintf(name, 32, "set/part-%03u", number);
}

/* Lists: how many of the named objects are on disk, and how many of those still have their name. */
static uint32_t count_spilled(nigh_client *client, uint32_t *named)
{
    nigh_object_info infos[64];
    uint64_t cursor = 0;
    uint32_t spilled = 0;
    size_t count;

    *named = 0;
    do {
        assert_int_equal(nigh_list(client, &cursor, infos, 64, &count), NIGH_OK);
        for (size_t i = 0; i < count; i++) {
            if (infos[i].state != NIGH_OBJECT_SPILLED)
                continue;
            for (uint32_t n = 0; n < NAMED; n++) {
                char name[32];
                nigh_id id;

                name_of(n, name);
                assert_int_equal(nigh_id_from_name(name, &id), NIGH_OK);
                if (memcmp(&id, &infos[i].id, sizeof(id)) != 0)
                    continue;
                spilled++;
                *named += strcmp(infos[i].name, name) == 0;
                assert_true(infos[i].name[0] == 0 || strcmp(infos[i].name, name) == 0);
            }
        }
    } while (count > 0);
    return spilled;
}

static void spilled_objects_are_listed_by_name(void **state)
{
    char folder[108];
    const char *flags[] = {"--hold", "--spill", folder, "--max-objects", "65536", NULL};
    nigh_client *client;
    uint32_t spilled, named;

    (void)state;
    support_path(folder, sizeof(folder), "spill-names");
    node_fixture_start(&node, "16M", flags);
    client = open_client();
    for (uint32_t i = 0; i < NAMED; i++) {
        char name[32];
        nigh_create_options options = {.name = name, .timeout_us = DEADLINE * UINT64_C(1000)};
        nigh_id id;

        name_of(i, name);
        assert_int_equal(nigh_id_from_name(name, &id), NIGH_OK);
        assert_int_equal(nigh_put(client, &id, name, sizeof(name), &options), NIGH_OK);
    }
    for (uint32_t i = 0; i < 1200; i++)
        assert_int_equal(put(client, i), NIGH_OK);
    spilled = count_spilled(client, &named);
    assert_true(spilled > NAMED / 2);
    assert_int_equal(named, spilled);
    kill_node();
    assert_true(comes_back(client));
    assert_true(count_spilled(client, &named) >= spilled);
    assert_true(named >= spilled);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

struct worker {
    pthread_t thread;
    nigh_client *client;
    _Atomic bool *stop;
    uint32_t first;  /* of its own numbers */
    uint32_t sealed; /* puts that were answered with NIGH_OK */
    _Atomic uint64_t rounds;
    nigh_status bad; /* the first that is not one of a dying node */
};

static void *read_on(void *argument)
{
    struct worker *worker = argument;

    while (!atomic_load(worker->stop) && worker->bad == NIGH_OK) {
        nigh_status status = look(worker->client, (uint32_t)(worker->rounds++ % OBJECTS));

        if (status != NIGH_OK && status != NIGH_NODE_LOST)
            worker->bad = status;
    }
    return NULL;
}

static void *write_on(void *argument)
{
    struct worker *worker = argument;

    while (!atomic_load(worker->stop) && worker->bad == NIGH_OK && worker->sealed < 2000) {
        nigh_status status = put(worker->client, worker->first + worker->sealed);

        /* EXISTS: the node died after the seal, before its answer. */
        if (status == NIGH_OK || status == NIGH_EXISTS)
            worker->sealed++;
        else if (status != NIGH_NODE_LOST)
            worker->bad = status;
        worker->rounds++;
    }
    return NULL;
}

static void kills_under_load_lose_nothing(void **state)
{
    struct worker workers[4] = {{.first = 0}};
    _Atomic bool stop = false;
    nigh_client *client;

    (void)state;
    start("512M", "--lanes", "2");
    client = open_client();
    for (uint32_t i = 0; i < OBJECTS; i++)
        assert_int_equal(put(client, i), NIGH_OK);
    for (uint32_t i = 0; i < 4; i++) {
        workers[i].client = i < 2 ? client : open_client();
        workers[i].stop = &stop;
        workers[i].first = (i + 1) * 100000;
        assert_int_equal(
            pthread_create(&workers[i].thread, NULL, i % 2 == 0 ? read_on : write_on, &workers[i]),
            0);
    }
    for (uint32_t i = 0; i < KILLS; i++) {
        uint64_t rounds = workers[3].rounds;

        kill_node();
        (void)SUPPORT_WAIT(atomic_load(&workers[3].rounds) > rounds + 50, 2000);
    }
    atomic_store(&stop, true);
    for (uint32_t i = 0; i < 4; i++)
        pthread_join(workers[i].thread, NULL);
    assert_true(comes_back(client));
    for (uint32_t i = 0; i < 4; i++) {
        if (workers[i].bad != NIGH_OK)
            fail_msg("worker %u: %s", i, nigh_status_name(workers[i].bad));
        for (uint32_t j = 0; j < workers[i].sealed; j++)
            assert_int_equal(look(client, workers[i].first + j), NIGH_OK);
    }
    printf("# %u and %u objects sealed while the node was killed %d times\n", workers[1].sealed,
           workers[3].sealed, KILLS);
    nigh_client_close(workers[2].client);
    nigh_client_close(workers[3].client);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

static void a_waiting_get_ends_and_may_be_asked_again(void **state)
{
    nigh_id id = id_of(1);
    nigh_client *reader, *writer;
    nigh_view view;
    nigh_op op;

    (void)state;
    start("32M", NULL, NULL);
    reader = open_client();
    writer = open_client();
    assert_int_equal(nigh_get_start(reader, &id, 1, NIGH_FOREVER, &view, &op), NIGH_OK);
    kill_node();
    assert_int_equal(nigh_wait(reader, &op, DEADLINE * UINT64_C(1000)), NIGH_NODE_LOST);
    assert_true(comes_back(writer));
    assert_int_equal(put(writer, 1), NIGH_OK);
    assert_true(comes_back(reader));
    assert_int_equal(nigh_get(reader, &id, 1, NIGH_FOREVER, &view), NIGH_OK);
    assert_true(is_right(view.data, view.data_size, 1));
    nigh_release(reader, &view);
    nigh_client_close(reader);
    nigh_client_close(writer);
    node_fixture_stop(&node);
}

/* What the node before had of a service goes with it: who serves is told, registers the name again
 * with the same client, and is not mixed up with who served before. */
static void a_server_serves_on(void **state)
{
    static char buffer[2][NIGH_CALL_BYTES];
    char reply[8];
    nigh_call_spec spec = {.struct_size = sizeof spec,
                           .service = "served",
                           .request = "ask",
                           .request_bytes = 3,
                           .reply = reply,
                           .reply_room = sizeof reply};
    nigh_service *before = NULL, *now = NULL;
    nigh_client *server, *caller;
    nigh_request old, request;
    nigh_op call, receive;

    (void)state;
    start("32M", NULL, NULL);
    server = open_client();
    caller = open_client();
    assert_int_equal(nigh_service_register(server, "served", NULL, &before), NIGH_OK);
    assert_int_equal(nigh_call_start(caller, &spec, NIGH_FOREVER, &call), NIGH_OK);
    assert_true(SUPPORT_WAIT(
        nigh_poll(caller) == 0 && nigh_receive(before, &old, buffer[0], 0) == NIGH_OK, DEADLINE));
    assert_int_equal(nigh_receive_start(before, &request, buffer[1], NIGH_FOREVER, &receive),
                     NIGH_OK);
    kill_node();
    assert_int_equal(nigh_wait(caller, &call, DEADLINE * UINT64_C(1000)), NIGH_NODE_LOST);
    assert_int_equal(nigh_wait(server, &receive, DEADLINE * UINT64_C(1000)), NIGH_NODE_LOST);
    assert_true(comes_back(server));
    assert_true(comes_back(caller));
    assert_int_equal(nigh_receive(before, &request, buffer[1], NIGH_FOREVER), NIGH_CLOSED);
    assert_int_equal(nigh_call(caller, &spec, NIGH_FOREVER), NIGH_NOT_FOUND);

    assert_int_equal(nigh_service_register(server, "served", NULL, &now), NIGH_OK);
    assert_int_equal(nigh_call_start(caller, &spec, NIGH_FOREVER, &call), NIGH_OK);
    assert_int_equal(nigh_receive(now, &request, buffer[1], DEADLINE * UINT64_C(1000)), NIGH_OK);
    assert_int_equal(nigh_receive(before, &old, buffer[0], 0), NIGH_CLOSED);
    assert_int_equal(nigh_call_reply(&old, NIGH_OK, "late", 4), NIGH_NOT_FOUND);
    assert_int_equal(nigh_reply_receive(&old, NIGH_OK, "late", 4, buffer[0], 0), NIGH_CLOSED);
    nigh_service_unregister(before); /* closes nothing */
    assert_int_equal(nigh_reply_receive(&request, NIGH_OK, "told", 4, buffer[1], 0), NIGH_TIMEOUT);
    assert_int_equal(nigh_wait(caller, &call, DEADLINE * UINT64_C(1000)), NIGH_OK);
    assert_memory_equal(reply, "told", 4);

    /* The session goes with the node that nobody holds anything of. */
    assert_int_equal(nigh_call_start(caller, &spec, NIGH_FOREVER, &call), NIGH_OK);
    assert_int_equal(nigh_receive(now, &request, buffer[1], DEADLINE * UINT64_C(1000)), NIGH_OK);
    assert_int_equal(nigh_receive_start(now, &old, buffer[0], NIGH_FOREVER, &receive), NIGH_OK);
    node_fixture_stop(&node);
    assert_int_equal(nigh_wait(caller, &call, DEADLINE * UINT64_C(1000)), NIGH_NODE_LOST);
    assert_int_equal(nigh_wait(server, &receive, DEADLINE * UINT64_C(1000)), NIGH_NODE_LOST);
    assert_int_equal(nigh_call_reply(&request, NIGH_OK, "late", 4), NIGH_NODE_LOST);
    assert_int_equal(nigh_receive(now, &old, buffer[0], NIGH_FOREVER), NIGH_NODE_LOST);
    nigh_service_unregister(now);
    nigh_client_close(server);
    nigh_client_close(caller);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sealed_is_served),
        cmocka_unit_test(what_is_held_keeps_its_bytes),
        cmocka_unit_test(an_object_under_way_is_sealed_after_it),
        cmocka_unit_test(spilled_objects_come_back),
        cmocka_unit_test(spilled_objects_are_listed_by_name),
        cmocka_unit_test(kills_under_load_lose_nothing),
        cmocka_unit_test(a_waiting_get_ends_and_may_be_asked_again),
        cmocka_unit_test(a_server_serves_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
