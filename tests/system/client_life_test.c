/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients see of the end of their node, above all clients that only read, and would never ask
 * it anything: nighd killed and stopped, with a holder and without, under clients that read, idle,
 * hold views and stand still themselves.
 */
#include "support/node_fixture.h"
#include "support/support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nigh/nigh.h"

#define DEADLINE 20000

static const char *const hold[] = {"--hold", NULL};

static nigh_id id_of(uint8_t number)
{
    return (nigh_id){{number}};
}

static nigh_client *open_client(const struct node_fixture *node)
{
    nigh_client_options options = {.struct_size = sizeof(options), .socket_path = node->socket};
    nigh_client *client = NULL;

    if (nigh_client_open(&options, &client) != NIGH_OK)
        fail_msg("%s", nigh_open_error());
    return client;
}

static nigh_status put(nigh_client *client, uint8_t number, const char *text)
{
    nigh_id id = id_of(number);

    return nigh_put(client, &id, text, strlen(text) + 1, NULL);
}

/* The status of a get, or NIGH_CORRUPT for other bytes. */
static nigh_status get(nigh_client *client, uint8_t number, uint64_t timeout_us, const char *text)
{
    nigh_id id = id_of(number);
    nigh_view view;
    nigh_status status = nigh_get(client, &id, 1, timeout_us, &view);

    if (status != NIGH_OK)
        return status;
    if (strcmp(view.data, text) != 0)
        status = NIGH_CORRUPT;
    (void)nigh_release(client, &view);
    return status;
}

static bool explains(nigh_client *client, const char *words)
{
    char text[512];

    (void)nigh_client_error(client, text, sizeof(text));
    if (strstr(text, words) == NULL)
        printf("# \"%s\" is not in \"%s\"\n", words, text);
    return strstr(text, words) != NULL;
}

/* A client that has got, and let go of, object 1. */
static nigh_client *open_reader(const struct node_fixture *node)
{
    nigh_client *writer = open_client(node), *reader = open_client(node);

    assert_int_equal(put(writer, 1, "OLD"), NIGH_OK);
    assert_int_equal(get(reader, 1, 0, "OLD"), NIGH_OK);
    nigh_client_close(writer);
    return reader;
}

/* Everything that a client can ask. */
static void all_is_lost(nigh_client *client, const char *words)
{
    nigh_create_options options = {.data_size = 10};
    nigh_put_item items[2] = {{.id = id_of(3), .data = "x", .data_size = 1},
                              {.id = id_of(4), .data = "y", .data_size = 1}};
    nigh_status statuses[2] = {NIGH_OK, NIGH_OK};
    nigh_id id = id_of(1), ids[2] = {id, id_of(2)};
    nigh_object_info info;
    nigh_node_stats stats = {.struct_size = sizeof stats};
    nigh_writer writer;
    nigh_event event;
    nigh_view views[2] = {0};
    nigh_op op;
    uint64_t cursor = 0;
    bool found;
    size_t count;

    assert_int_equal(nigh_contains(client, &id, &found), NIGH_NODE_LOST);
    assert_true(explains(client, words));
    assert_int_equal(get(client, 1, 0, "OLD"), NIGH_NODE_LOST);
    assert_int_equal(get(client, 1, 1000000, "OLD"), NIGH_NODE_LOST);
    assert_int_equal(get(client, 9, NIGH_FOREVER, ""), NIGH_NODE_LOST);
    assert_int_equal(nigh_list(client, &cursor, &info, 1, &count), NIGH_NODE_LOST);
    assert_int_equal(nigh_stat(client, &id, &info), NIGH_NODE_LOST);
    assert_int_equal(nigh_stats(client, &stats), NIGH_NODE_LOST);
    assert_int_equal(put(client, 2, "x"), NIGH_NODE_LOST);
    assert_int_equal(nigh_create(client, &id, &options, &writer), NIGH_NODE_LOST);
    assert_int_equal(nigh_delete(client, &id, 1, NULL), NIGH_NODE_LOST);
    /* Calls on many say of each how it ended, too. */
    assert_int_equal(nigh_delete(client, ids, 2, statuses), NIGH_NODE_LOST);
    assert_int_equal(nigh_put_many(client, items, 2), NIGH_NODE_LOST);
    assert_int_equal(nigh_get_start(client, ids, 2, 0, views, &op), NIGH_NODE_LOST);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(statuses[i], NIGH_NODE_LOST);
        assert_int_equal(items[i].status, NIGH_NODE_LOST);
        assert_int_equal(views[i].status, NIGH_NODE_LOST);
        items[i].status = statuses[i] = NIGH_OK;
    }
    assert_int_equal(nigh_delete_start(client, ids, 2, statuses, &op), NIGH_NODE_LOST);
    assert_int_equal(nigh_put_many_start(client, items, 2, &op), NIGH_NODE_LOST);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(statuses[i], NIGH_NODE_LOST);
        assert_int_equal(items[i].status, NIGH_NODE_LOST);
    }
    assert_int_equal(nigh_next_event(client, 0, &event), NIGH_NODE_LOST);
    assert_true(explains(client, words));
}

/* Kills the node of a holder, and waits until another serves in its place. */
static void kill_held(const struct node_fixture *node)
{
    pid_t child = node_fixture_child(node->pid);
    nigh_client *client;

    assert_true(child > 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_true(SUPPORT_WAIT(
        node_fixture_child(node->pid) != child && node_fixture_child(node->pid) != 0, DEADLINE));
    client = open_client(node);
    nigh_client_close(client);
}

/* ---- without a holder ---- */

static void a_reader_hears_of_a_killed_node(void **state)
{
    struct node_fixture node;
    nigh_client *reader, *another, *writer;
    nigh_id id = id_of(1);
    nigh_view view;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    reader = open_reader(&node);
    another = open_client(&node);
    assert_int_equal(nigh_get(reader, &id, 1, 0, &view), NIGH_OK);
    assert_int_equal(get(another, 1, 0, "OLD"), NIGH_OK);
    assert_int_equal(kill(node.pid, SIGKILL), 0);
    assert_int_equal(support_join(node.pid, DEADLINE), -SIGKILL);
    /* The very first call after it, of either kind. */
    assert_int_equal(get(another, 1, 0, "OLD"), NIGH_NODE_LOST);
    assert_true(explains(another, "the node died"));
    all_is_lost(reader, "the node died");
    assert_string_equal(view.data, "OLD");
    node_fixture_start_again(&node, "32M", NULL);
    writer = open_client(&node);
    assert_int_equal(put(writer, 1, "NEW"), NIGH_OK);
    all_is_lost(reader, "open a new client");
    assert_string_equal(view.data, "OLD");
    assert_int_equal(nigh_release(reader, &view), NIGH_NODE_LOST);
    nigh_client_close(reader);
    nigh_client_close(another);
    reader = open_client(&node);
    assert_int_equal(get(reader, 1, 0, "NEW"), NIGH_OK);
    nigh_client_close(reader);
    nigh_client_close(writer);
    node_fixture_stop(&node);
}

static void a_reader_hears_of_a_stopped_node(void **state)
{
    struct node_fixture node;
    nigh_client *reader;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    reader = open_reader(&node);
    node_fixture_stop(&node);
    all_is_lost(reader, "stopping");
    nigh_client_close(reader);
}

/* ---- a client that stands still ---- */

struct still {
    const struct node_fixture *node;
    int ready_fd;
};

static int read_and_stand_still(void *argument)
{
    const struct still *still = argument;
    nigh_client_options options = {.struct_size = sizeof(options),
                                   .socket_path = still->node->socket};
    nigh_client *client = NULL;
    nigh_id id = id_of(1);
    bool found;

    alarm(60);
    if (nigh_client_open(&options, &client) != NIGH_OK || get(client, 1, 0, "OLD") != NIGH_OK ||
        write(still->ready_fd, "x", 1) != 1)
        return 1;
    (void)raise(SIGSTOP);
    if (nigh_contains(client, &id, &found) != NIGH_NODE_LOST)
        return 2;
    return get(client, 1, 0, "OLD") == NIGH_NODE_LOST ? 0 : 3;
}

static void a_stopped_client_hears_of_it_when_it_goes_on(void **state)
{
    struct node_fixture node;
    struct still still = {.node = &node};
    nigh_client *reader;
    int ready[2], status;
    pid_t child;
    char word;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    reader = open_reader(&node);
    assert_int_equal(pipe(ready), 0);
    still.ready_fd = ready[1];
    child = support_fork(read_and_stand_still, &still);
    assert_int_equal(read(ready[0], &word, 1), 1);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(kill(node.pid, SIGKILL), 0);
    assert_int_equal(support_join(node.pid, DEADLINE), -SIGKILL);
    node_fixture_start_again(&node, "32M", NULL);
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(support_join(child, DEADLINE), 0);
    close(ready[0]);
    close(ready[1]);
    nigh_client_close(reader);
    node_fixture_stop(&node);
}

/* ---- with a holder ---- */

static void a_reader_of_a_held_node_goes_on(void **state)
{
    struct node_fixture node;
    nigh_client *reader, *writer;
    nigh_id id = id_of(1);
    bool found = false;
    pid_t child;

    (void)state;
    node_fixture_start(&node, "32M", hold);
    reader = open_reader(&node);
    child = node_fixture_child(node.pid);
    assert_int_equal(kill(child, SIGKILL), 0);
    /* Before, while and after another is there. */
    do {
        assert_int_equal(get(reader, 1, 0, "OLD"), NIGH_OK);
        assert_int_equal(nigh_contains(reader, &id, &found), NIGH_OK);
        assert_true(found);
    } while (node_fixture_child(node.pid) == child || node_fixture_child(node.pid) == 0);
    writer = open_client(&node);
    for (int i = 0; i < 100; i++)
        assert_int_equal(get(reader, 1, 0, "OLD"), NIGH_OK);
    /* It still hears of what others do. */
    assert_int_equal(nigh_delete(writer, &id, 1, NULL), NIGH_OK);
    assert_int_equal(put(writer, 1, "NEW"), NIGH_OK);
    assert_int_equal(get(reader, 1, 0, "NEW"), NIGH_OK);
    assert_int_equal(put(reader, 2, "x"), NIGH_OK);
    nigh_client_close(writer);
    nigh_client_close(reader);
    node_fixture_stop(&node);
}

/* Nothing was under way: nothing is lost, whatever is asked first. */
static void an_idle_client_finds_the_next_node(void **state)
{
    struct node_fixture node;
    nigh_client *clients[5];
    nigh_object_info info;
    nigh_id id = id_of(1);
    nigh_op op;

    (void)state;
    node_fixture_start(&node, "32M", hold);
    for (size_t i = 0; i < 5; i++)
        clients[i] = open_client(&node);
    assert_int_equal(put(clients[0], 1, "OLD"), NIGH_OK);
    for (uint8_t round = 0; round < 3; round++) {
        kill_held(&node);
        assert_int_equal(put(clients[0], 10 + round, "x"), NIGH_OK);
        assert_int_equal(nigh_stat(clients[1], &id, &info), NIGH_OK);
        assert_int_equal(nigh_refresh_start(clients[2], &id, 1, &op), NIGH_OK);
        assert_int_equal(nigh_wait(clients[2], &op, NIGH_FOREVER), NIGH_OK);
        assert_int_equal(get(clients[3], 9, 1000, ""), NIGH_TIMEOUT);
        assert_int_equal(nigh_pin(clients[4], &id), NIGH_OK);
        assert_int_equal(nigh_unpin(clients[4], &id), NIGH_OK);
    }
    for (size_t i = 0; i < 5; i++)
        nigh_client_close(clients[i]);
    node_fixture_stop(&node);
}

/* The holder is killed too, and what it held is gone; the next node on the socket is a stranger. */
static void a_reader_hears_of_a_stranger(void **state)
{
    struct node_fixture node;
    nigh_client *reader, *writer;
    pid_t child;

    (void)state;
    node_fixture_start(&node, "32M", hold);
    reader = open_reader(&node);
    child = node_fixture_child(node.pid);
    /* Else it would see that its holder is gone, and stop in good order. */
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(kill(node.pid, SIGKILL), 0);
    (void)kill(child, SIGKILL);
    assert_int_equal(support_join(node.pid, DEADLINE), -SIGKILL);
    assert_true(SUPPORT_WAIT(kill(child, 0) != 0, DEADLINE));
    node_fixture_start_again(&node, "32M", NULL);
    writer = open_client(&node);
    assert_int_equal(put(writer, 1, "NEW"), NIGH_OK);
    assert_true(SUPPORT_WAIT(get(reader, 1, 0, "OLD") == NIGH_NODE_LOST, DEADLINE));
    all_is_lost(reader, "does not know this session");
    nigh_client_close(writer);
    nigh_client_close(reader);
    node_fixture_stop(&node);
}

/* What was held by a client that is closed while there is no node is held no more. */
static void a_client_that_is_closed_meanwhile_holds_nothing(void **state)
{
    struct node_fixture node;
    nigh_client *reader, *writer;
    nigh_id id = id_of(1);
    nigh_node_stats stats = {.struct_size = sizeof stats};
    nigh_view view;
    pid_t child;

    (void)state;
    node_fixture_start(&node, "32M", hold);
    reader = open_reader(&node);
    /* A word that its node did not live to hear is not said again. */
    assert_true(
        SUPPORT_WAIT(nigh_stats(reader, &stats) == NIGH_OK && stats.sessions == 1, DEADLINE));
    assert_int_equal(nigh_get(reader, &id, 1, 0, &view), NIGH_OK);
    child = node_fixture_child(node.pid);
    assert_int_equal(kill(node.pid, SIGSTOP), 0); /* no other is started */
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_true(SUPPORT_WAIT(put(reader, 2, "x") == NIGH_NODE_LOST, DEADLINE));
    nigh_client_close(reader);
    assert_int_equal(kill(node.pid, SIGCONT), 0);
    assert_true(SUPPORT_WAIT(
        node_fixture_child(node.pid) != child && node_fixture_child(node.pid) != 0, DEADLINE));
    writer = open_client(&node);
    assert_true(
        SUPPORT_WAIT(nigh_stats(writer, &stats) == NIGH_OK && stats.sessions == 1, DEADLINE));
    nigh_client_close(writer);
    node_fixture_stop(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_hears_of_a_killed_node),
        cmocka_unit_test(a_reader_hears_of_a_stopped_node),
        cmocka_unit_test(a_stopped_client_hears_of_it_when_it_goes_on),
        cmocka_unit_test(a_reader_of_a_held_node_goes_on),
        cmocka_unit_test(an_idle_client_finds_the_next_node),
        cmocka_unit_test(a_reader_hears_of_a_stranger),
        cmocka_unit_test(a_client_that_is_closed_meanwhile_holds_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
