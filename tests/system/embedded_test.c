/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded node: the code of nighd in this process, with clients of this process and of others.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nigh/node.h"
#include "nigh/object.h"
#include "support/support.h"

static nigh_node *start(const char *socket_path)
{
    nigh_node_options options = {
        .struct_size = sizeof options, .memory_bytes = 32u << 20, .socket_path = socket_path};
    nigh_node *node = NULL;

    assert_int_equal(nigh_node_start(&options, &node), NIGH_OK);
    return node;
}

static nigh_client *attach(nigh_node *node)
{
    nigh_client *client = NULL;

    assert_int_equal(nigh_node_client(node, NULL, &client), NIGH_OK);
    return client;
}

static nigh_id named(const char *name)
{
    nigh_id id;

    assert_int_equal(nigh_id_from_name(name, &id), NIGH_OK);
    return id;
}

static void puts_and_gets_need_no_daemon(void **state)
{
    (void)state;
    nigh_node *node = start(NULL);
    nigh_client *client = attach(node);
    nigh_id id = named("a");
    nigh_view view;

    assert_int_equal(nigh_put(client, &id, "bytes", 5, NULL), NIGH_OK);
    assert_int_equal(nigh_get(client, &id, 1, 0, &view), NIGH_OK);
    assert_memory_equal(view.data, "bytes", 5);
    assert_int_equal(nigh_release(client, &view), NIGH_OK);
    nigh_client_close(client);
    nigh_node_stop(node);
}

/* A thousand puts, each waited for: the waiting thread drives the lane, so its thread is hardly
 * ever woken. */
static void waiting_threads_drive_their_lane(void **state)
{
    (void)state;
    nigh_node *node = start(NULL);
    nigh_client *client = attach(node);
    nigh_node_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};

    assert_int_equal(nigh_stats(client, &before), NIGH_OK);
    for (uint64_t i = 0; i < 1000; i++) {
        nigh_id id = {{0}};

        memcpy(id.bytes, &i, sizeof i);
        assert_int_equal(nigh_put(client, &id, &i, sizeof i, NULL), NIGH_OK);
    }
    assert_int_equal(nigh_stats(client, &after), NIGH_OK);
    assert_true(after.seals - before.seals == 1000);
    assert_true(after.wakes - before.wakes < 500);
    nigh_client_close(client);
    nigh_node_stop(node);
}

struct threaded {
    nigh_node *node;
    uint64_t first;
    _Atomic int failed;
};

static void *put_and_get_many(void *argument)
{
    struct threaded *threaded = argument;
    nigh_client *client;
    int failed = nigh_node_client(threaded->node, NULL, &client) != NIGH_OK;

    for (uint64_t i = 0; !failed && i < 2000; i++) {
        uint64_t value = threaded->first + i;
        nigh_id id = {{0}};
        nigh_view view;

        memcpy(id.bytes, &value, sizeof value);
        failed = nigh_put(client, &id, &value, sizeof value, NULL) != NIGH_OK ||
                 nigh_get(client, &id, 1, 0, &view) != NIGH_OK;
        if (!failed) {
            failed = memcmp(view.data, &value, sizeof value) != 0;
            nigh_release(client, &view);
        }
    }
    if (!failed) {
        nigh_client_close(client);
    }
    atomic_store(&threaded->failed, failed);
    return NULL;
}

static void threads_share_a_lane(void **state)
{
    (void)state;
    struct threaded threads[4];
    pthread_t ids[4];
    nigh_node *node = start(NULL);

    for (int i = 0; i < 4; i++) {
        threads[i] = (struct threaded){.node = node, .first = (uint64_t)i << 32};
        assert_int_equal(pthread_create(&ids[i], NULL, put_and_get_many, &threads[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(ids[i], NULL);
        assert_int_equal(atomic_load(&threads[i].failed), 0);
    }
    nigh_node_stop(node);
}

static int get_in_another_process(void *socket_path)
{
    nigh_client_options options = {.struct_size = sizeof options, .socket_path = socket_path};
    nigh_client *client;
    nigh_view view;
    nigh_id id;

    nigh_id_from_name("shared", &id);
    if (nigh_client_open(&options, &client) != NIGH_OK ||
        nigh_get(client, &id, 1, 10000000, &view) != NIGH_OK || view.data_size != 5 ||
        memcmp(view.data, "bytes", 5) != 0) {
        return 1;
    }
    nigh_release(client, &view);
    nigh_client_close(client);
    return 0;
}

static void other_processes_attach_to_its_socket(void **state)
{
    (void)state;
    char path[128];
    nigh_id id = named("shared");
    struct stat status;
    pid_t child;

    support_path(path, sizeof path, "embedded.sock");
    /* Forked before the node has threads. */
    nigh_node *node;
    nigh_client *client;
    int gate[2];

    assert_int_equal(pipe(gate), 0);
    child = fork();
    if (child == 0) {
        char byte;

        _exit(read(gate[0], &byte, 1) == 1 ? get_in_another_process(path) : 2);
    }
    node = start(path);
    client = attach(node);
    assert_int_equal(nigh_put(client, &id, "bytes", 5, NULL), NIGH_OK);
    assert_int_equal(write(gate[1], "", 1), 1);
    assert_int_equal(support_join(child, 20000), 0);
    nigh_client_close(client);
    nigh_node_stop(node);
    assert_int_equal(stat(path, &status), -1);
    close(gate[0]);
    close(gate[1]);
}

static void second_node_on_a_socket_is_refused(void **state)
{
    (void)state;
    char path[128];
    nigh_node *first, *second = NULL;
    nigh_node_options options = {
        .struct_size = sizeof options, .memory_bytes = 32u << 20, .socket_path = path};

    support_path(path, sizeof path, "twice.sock");
    first = start(path);
    assert_int_equal(nigh_node_start(&options, &second), NIGH_BUSY);
    assert_non_null(strstr(nigh_node_start_error(), path));
    assert_null(second);
    nigh_node_stop(first);
}

static void stopping_ends_what_waits(void **state)
{
    (void)state;
    char path[128];
    nigh_node *node;
    nigh_client *client;
    nigh_client_options options = {.struct_size = sizeof options, .socket_path = path};
    nigh_id id = named("never");
    nigh_view view;
    nigh_op op;

    support_path(path, sizeof path, "stops.sock");
    node = start(path);
    assert_int_equal(nigh_client_open(&options, &client), NIGH_OK);
    assert_int_equal(nigh_get_start(client, &id, 1, NIGH_FOREVER, &view, &op), NIGH_OK);
    nigh_node_stop(node);
    assert_int_equal(nigh_wait(client, &op, 10000000), NIGH_NODE_LOST);
    nigh_client_close(client);
}

static void stopping_ends_readers(void **state)
{
    (void)state;
    char path[128], text[256] = "";
    nigh_node *node;
    nigh_client *client, *another;
    nigh_client_options options = {.struct_size = sizeof options, .socket_path = path};
    nigh_id id = named("a");
    nigh_view view;
    bool found;

    support_path(path, sizeof path, "readers.sock");
    node = start(path);
    assert_int_equal(nigh_client_open(&options, &client), NIGH_OK);
    assert_int_equal(nigh_client_open(&options, &another), NIGH_OK);
    assert_int_equal(nigh_put(client, &id, "bytes", 5, NULL), NIGH_OK);
    assert_int_equal(nigh_get(client, &id, 1, 0, &view), NIGH_OK);
    nigh_node_stop(node);
    assert_int_equal(nigh_contains(another, &id, &found), NIGH_NODE_LOST);
    (void)nigh_client_error(another, text, sizeof text);
    assert_non_null(strstr(text, "stopping"));
    assert_memory_equal(view.data, "bytes", 5);
    assert_int_equal(nigh_get(client, &id, 1, 0, &view), NIGH_NODE_LOST);
    nigh_client_close(client);
    nigh_client_close(another);
}

struct embedder {
    const char *path;
    int ready_fd;
};

static int embed_and_wait(void *argument)
{
    const struct embedder *embedder = argument;
    nigh_node_options options = {
        .struct_size = sizeof options, .memory_bytes = 32u << 20, .socket_path = embedder->path};
    nigh_node *node = NULL;

    alarm(60);
    if (nigh_node_start(&options, &node) != NIGH_OK || write(embedder->ready_fd, "x", 1) != 1)
        return 1;
    (void)pause();
    return 0;
}

/* Clients of other processes hear at once that the program with their node was killed. */
static void a_killed_embedder_ends_readers(void **state)
{
    (void)state;
    char path[128], word;
    struct embedder embedder = {.path = path};
    nigh_client_options options = {.struct_size = sizeof options, .socket_path = path};
    nigh_client *client;
    nigh_id id = named("a");
    nigh_view view;
    int ready[2];
    pid_t child;

    support_path(path, sizeof path, "killed.sock");
    assert_int_equal(pipe(ready), 0);
    embedder.ready_fd = ready[1];
    child = support_fork(embed_and_wait, &embedder);
    assert_int_equal(read(ready[0], &word, 1), 1);
    assert_int_equal(nigh_client_open(&options, &client), NIGH_OK);
    assert_int_equal(nigh_put(client, &id, "bytes", 5, NULL), NIGH_OK);
    assert_int_equal(nigh_get(client, &id, 1, 0, &view), NIGH_OK);
    assert_int_equal(nigh_release(client, &view), NIGH_OK);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(support_join(child, 20000), -SIGKILL);
    assert_int_equal(nigh_get(client, &id, 1, 0, &view), NIGH_NODE_LOST);
    nigh_client_close(client);
    close(ready[0]);
    close(ready[1]);
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    nigh_node *node = NULL;
    nigh_node_options none = {.struct_size = sizeof none};
    nigh_node_options huge = {.struct_size = sizeof huge, .memory_bytes = UINT64_C(1) << 60};
    nigh_node_options lanes = {.struct_size = sizeof lanes, .memory_bytes = 32u << 20, .lanes = 3};

    assert_int_equal(nigh_node_start(NULL, &node), NIGH_INVALID);
    assert_int_equal(nigh_node_start(&none, &node), NIGH_INVALID);
    assert_int_not_equal(nigh_node_start(&huge, &node), NIGH_OK);
    assert_int_not_equal(strlen(nigh_node_start_error()), 0);
    assert_int_equal(nigh_node_start(&lanes, &node), NIGH_INVALID);
    assert_null(node);
}

static void several_lanes_serve_many_ids(void **state)
{
    (void)state;
    nigh_node_options options = {
        .struct_size = sizeof options, .memory_bytes = 64u << 20, .lanes = 4};
    nigh_put_item items[64];
    uint64_t values[64];
    nigh_id ids[64];
    nigh_view views[64];
    nigh_client *client;
    nigh_node *node;

    assert_int_equal(nigh_node_start(&options, &node), NIGH_OK);
    client = attach(node);
    for (uint64_t i = 0; i < 64; i++) {
        values[i] = i * 1000003;
        memset(&ids[i], 0, sizeof ids[i]);
        memcpy(ids[i].bytes, &values[i], sizeof values[i]);
        items[i] = (nigh_put_item){.id = ids[i], .data = &values[i], .data_size = sizeof values[i]};
    }
    assert_int_equal(nigh_put_many(client, items, 64), NIGH_OK);
    assert_int_equal(nigh_get(client, ids, 64, 1000000, views), NIGH_OK);
    for (int i = 0; i < 64; i++) {
        assert_memory_equal(views[i].data, &values[i], sizeof values[i]);
        assert_int_equal(nigh_release(client, &views[i]), NIGH_OK);
    }
    nigh_client_close(client);
    nigh_node_stop(node);
}

static int attach_in_child(void *node)
{
    nigh_client *client = NULL;

    return nigh_node_client(node, NULL, &client) == NIGH_FORKED && client == NULL ? 0 : 1;
}

static void a_child_opens_no_client_of_its_parents_node(void **state)
{
    (void)state;
    nigh_node *node = start(NULL);

    assert_int_equal(support_join(support_fork(attach_in_child, node), 20000), 0);
    nigh_client_close(attach(node));
    nigh_node_stop(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_and_gets_need_no_daemon),
        cmocka_unit_test(waiting_threads_drive_their_lane),
        cmocka_unit_test(threads_share_a_lane),
        cmocka_unit_test(other_processes_attach_to_its_socket),
        cmocka_unit_test(second_node_on_a_socket_is_refused),
        cmocka_unit_test(stopping_ends_what_waits),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(several_lanes_serve_many_ids),
        cmocka_unit_test(stopping_ends_readers),
        cmocka_unit_test(a_killed_embedder_ends_readers),
        cmocka_unit_test(a_child_opens_no_client_of_its_parents_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
