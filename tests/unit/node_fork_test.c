/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that embed a node and fork: the children keep nothing of it alive. */
#include "support/support.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "nigh/node.h"

static nigh_node *start(const char *path)
{
    nigh_node_options options = {
        .struct_size = sizeof(options), .socket_path = path, .memory_bytes = 16 << 20, .lanes = 1};
    nigh_node *node = NULL;

    return nigh_node_start(&options, &node) == NIGH_OK ? node : NULL;
}

static bool answers(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    bool connected;

    memcpy(address.sun_path, path, strlen(path) + 1);
    connected = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return connected;
}

struct embedder {
    const char *path;
    int told; /* the grandchild's pid goes here */
};

static int sleep_on(void *argument)
{
    (void)argument;
    alarm(20); /* when the test fails, nobody else ends it */
    pause();
    return 0;
}

/* Starts a node and a worker, says so, and waits to be killed. */
static int embed_and_fork(void *argument)
{
    const struct embedder *embedder = argument;
    nigh_node *node = start(embedder->path);
    pid_t worker = fork();

    if (worker == 0)
        _exit(sleep_on(NULL));
    if (node == NULL || write(embedder->told, &worker, sizeof(worker)) != sizeof(worker))
        return 1;
    return sleep_on(NULL);
}

static void a_worker_of_a_killed_program_does_not_keep_the_socket(void **state)
{
    char path[108];
    int told[2];
    struct embedder embedder = {.path = path};
    pid_t program, worker = 0;
    nigh_node *node;

    (void)state;
    support_path(path, sizeof(path), "socket");
    assert_int_equal(pipe(told), 0);
    embedder.told = told[1];
    program = support_fork(embed_and_fork, &embedder);
    assert_int_equal(read(told[0], &worker, sizeof(worker)), sizeof(worker));
    assert_true(answers(path));
    kill(program, SIGKILL);
    assert_int_equal(support_join(program, 5000), -SIGKILL);
    assert_int_equal(kill(worker, 0), 0);
    assert_false(answers(path));
    node = start(path);
    if (node == NULL)
        fail_msg("%s", nigh_node_start_error());
    assert_true(answers(path));
    nigh_node_stop(node);
    kill(worker, SIGKILL);
    close(told[0]);
    close(told[1]);
}

static int stop_in_child(void *argument)
{
    nigh_node_stop(argument);
    return 0;
}

static void a_child_that_stops_its_parents_node_stops_nothing(void **state)
{
    char path[108];
    nigh_node *node;

    (void)state;
    support_path(path, sizeof(path), "socket");
    node = start(path);
    assert_non_null(node);
    assert_int_equal(support_join(support_fork(stop_in_child, node), 5000), 0);
    assert_true(answers(path));
    nigh_node_stop(node);
    assert_false(answers(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_of_a_killed_program_does_not_keep_the_socket),
        cmocka_unit_test(a_child_that_stops_its_parents_node_stops_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
