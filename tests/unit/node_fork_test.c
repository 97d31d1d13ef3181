/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that embed a node and fork: the children keep nothing of it alive. */
#include "support/support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "lock_fault.h"
#include "nigh/node.h"

static nigh_node *start_with(nigh_node_options options)
{
    nigh_node *node = NULL;

    options.struct_size = sizeof(options);
    options.memory_bytes = 16 << 20;
    options.lanes = 1;
    return nigh_node_start(&options, &node) == NIGH_OK ? node : NULL;
}

static nigh_node *start(const char *path)
{
    return start_with((nigh_node_options){.socket_path = path});
}

static char state[108], spill[108]; /* directories of its own; "": none */

/* One of two nodes: it listens for the other, which is not there. */
static nigh_node *start_member(const char *members)
{
    static const uint8_t key[32] = {1};

    return start_with((nigh_node_options){.members = members,
                                          .member = "0",
                                          .cluster_key = key,
                                          .state_dir = state[0] != '\0' ? state : NULL,
                                          .spill_dir = spill[0] != '\0' ? spill : NULL});
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
    int told; /* the worker's pid goes here */
};

static int sleep_on(void *argument)
{
    (void)argument;
    alarm(20); /* when the test fails, nobody else ends it */
    pause();
    return 0;
}

/* A worker says who it is: what a child does after a fork it has done by then. Waits to be killed.
 */
static void fork_one(int told)
{
    pid_t worker;

    if (fork() == 0) {
        worker = getpid();
        if (write(told, &worker, sizeof(worker)) != sizeof(worker))
            _exit(1);
        _exit(sleep_on(NULL));
    }
}

static int fork_worker(const struct embedder *embedder, const nigh_node *node)
{
    if (node == NULL)
        return 1;
    fork_one(embedder->told);
    return sleep_on(NULL);
}

static int embed_and_fork(void *argument)
{
    const struct embedder *embedder = argument;

    return fork_worker(embedder, start(embedder->path));
}

static void a_worker_of_a_killed_program_does_not_keep_the_socket(void **unused)
{
    char path[108];
    int told[2];
    struct embedder embedder = {.path = path};
    pid_t program, worker = 0;
    nigh_node *node;

    (void)unused;
    support_path(path, sizeof(path), "socket");
    assert_int_equal(pipe(told), 0);
    embedder.told = told[1];
    program = support_fork(embed_and_fork, &embedder);
    assert_int_equal(read(told[0], &worker, sizeof(worker)), sizeof(worker));
    assert_true(answers(path));
    kill(program, SIGKILL);
    assert_int_equal(support_join(program, 20000), -SIGKILL);
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

/* Two addresses that nobody listens on now. */
static void free_members(char *members, size_t bytes)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    close(fd);
    snprintf(members, bytes, "127.0.0.1:%u,127.0.0.1:1", ntohs(address.sin_port));
}

static const char *forks_at; /* as this file is opened; NULL: at none */
static bool forks_full;      /* ... with no descriptor left */
static int forks_told;

/* Since the lowest that is free was `last`, it is the last. */
static void fork_full(int last)
{
    struct rlimit before, full;

    (void)getrlimit(RLIMIT_NOFILE, &before);
    full = before;
    full.rlim_cur = (rlim_t)last + 1;
    (void)setrlimit(RLIMIT_NOFILE, &full);
    fork_one(forks_told);
    (void)setrlimit(RLIMIT_NOFILE, &before);
}

/* ... a worker is forked, before anybody knows the descriptor. */
int openat(int directory, const char *path, int flags, ...)
{
    va_list args;
    mode_t mode = 0;
    int fd;

    va_start(args, flags);
    if ((flags & O_CREAT) != 0)
        mode = va_arg(args, mode_t);
    va_end(args);
    fd = (int)syscall(SYS_openat, directory, path, flags, mode);
    if (forks_at != NULL && strcmp(path, forks_at) == 0) {
        forks_at = NULL;
        if (forks_full)
            fork_full(fd);
        else
            fork_one(forks_told);
    }
    return fd;
}

static int embed_that_forks(const struct embedder *embedder, nigh_node *(*start_it)(const char *))
{
    pid_t worker = 0;
    int told[2];

    if (pipe(told) != 0)
        return 1;
    forks_told = told[1];
    if (start_it(embedder->path) == NULL ||
        read(told[0], &worker, sizeof(worker)) != sizeof(worker) ||
        write(embedder->told, &worker, sizeof(worker)) != sizeof(worker))
        return 1;
    return sleep_on(NULL);
}

static int embed_member_that_forks(void *argument)
{
    return embed_that_forks(argument, start_member);
}

static int embed_member_and_fork(void *argument)
{
    const struct embedder *embedder = argument;

    return fork_worker(embedder, start_member(embedder->path));
}

/* `again`: the same node, of the members that the program was told. */
static void worker_keeps_nothing(int (*embed)(void *argument),
                                 nigh_node *(*again)(const char *members))
{
    char members[64];
    int told[2];
    struct embedder embedder = {.path = members};
    pid_t program, worker = 0;
    nigh_node *node;

    free_members(members, sizeof(members));
    assert_int_equal(pipe(told), 0);
    embedder.told = told[1];
    program = support_fork(embed, &embedder);
    close(told[1]);
    forks_at = NULL;
    assert_int_equal(read(told[0], &worker, sizeof(worker)), sizeof(worker));
    kill(program, SIGKILL);
    assert_int_equal(support_join(program, 20000), -SIGKILL);
    assert_int_equal(kill(worker, 0), 0);
    node = again(members);
    if (node == NULL)
        fail_msg("%s", nigh_node_start_error());
    nigh_node_stop(node);
    kill(worker, SIGKILL);
    close(told[0]);
}

static void worker_keeps_nothing_of_a_member(void)
{
    worker_keeps_nothing(embed_member_and_fork, start_member);
}

static void a_worker_of_a_killed_program_does_not_keep_the_port(void **unused)
{
    (void)unused;
    worker_keeps_nothing_of_a_member();
}

static void a_worker_of_a_killed_program_does_not_keep_its_votes(void **unused)
{
    (void)unused;
    support_path(state, sizeof(state), "state");
    worker_keeps_nothing_of_a_member();
}

static void a_worker_of_a_node_that_opens_its_votes_does_not_keep_them(void **unused)
{
    (void)unused;
    support_path(state, sizeof(state), "opened");
    forks_at = "lock.views";
    worker_keeps_nothing(embed_member_that_forks, start_member);
}

static void a_worker_of_a_node_that_reads_its_votes_does_not_keep_them(void **unused)
{
    (void)unused;
    support_path(state, sizeof(state), "read");
    forks_at = "views";
    worker_keeps_nothing(embed_member_that_forks, start_member);
}

static void a_worker_of_a_killed_program_does_not_keep_its_spill(void **unused)
{
    (void)unused;
    state[0] = '\0';
    support_path(spill, sizeof(spill), "spill");
    assert_int_equal(mkdir(spill, 0700), 0);
    worker_keeps_nothing_of_a_member();
    spill[0] = '\0';
}

static nigh_node *start_alone(const char *unused)
{
    (void)unused;
    return start_with((nigh_node_options){.spill_dir = spill});
}

static int embed_alone_and_fork(void *argument)
{
    return fork_worker(argument, start_alone(NULL));
}

/* It has no socket and no port: nothing but the directory is anybody else's concern. */
static void a_worker_of_a_killed_program_without_a_socket_does_not_keep_its_spill(void **unused)
{
    (void)unused;
    support_path(spill, sizeof(spill), "spill-alone");
    worker_keeps_nothing(embed_alone_and_fork, start_alone);
    spill[0] = '\0';
}

static int embed_alone_that_forks(void *argument)
{
    return embed_that_forks(argument, start_alone);
}

static void a_worker_of_a_node_that_opens_its_spill_does_not_keep_it(void **unused)
{
    char lock[sizeof(spill) + 8];

    (void)unused;
    support_path(spill, sizeof(spill), "spill-opened");
    snprintf(lock, sizeof(lock), "%s/lock", spill);
    forks_at = lock;
    worker_keeps_nothing(embed_alone_that_forks, start_alone);
    spill[0] = '\0';
}

static void a_worker_without_descriptors_does_not_keep_a_lock(void **unused)
{
    char lock[sizeof(spill) + 8];

    (void)unused;
    support_path(spill, sizeof(spill), "spill-full");
    snprintf(lock, sizeof(lock), "%s/lock", spill);
    forks_at = lock;
    forks_full = true;
    worker_keeps_nothing(embed_alone_that_forks, start_alone);
    forks_full = false;
    spill[0] = '\0';
}

static char at_socket[108];

static nigh_node *start_at_socket(const char *unused)
{
    (void)unused;
    return start(at_socket);
}

static int embed_at_socket_that_forks(void *argument)
{
    return embed_that_forks(argument, start_at_socket);
}

static void a_worker_of_a_node_that_opens_its_sockets_lock_does_not_keep_it(void **unused)
{
    char lock[sizeof(at_socket) + 8];

    (void)unused;
    support_path(at_socket, sizeof(at_socket), "socket-opened");
    snprintf(lock, sizeof(lock), "%s.lock", at_socket);
    forks_at = lock;
    worker_keeps_nothing(embed_at_socket_that_forks, start_at_socket);
}

static void a_file_system_without_locks_is_no_other_node(void **unused)
{
    char path[108];

    (void)unused;
    support_path(path, sizeof(path), "unlocked");
    support_path(spill, sizeof(spill), "spill-unlocked");
    lock_fault = ENOLCK;
    assert_null(start(path));
    assert_non_null(strstr(nigh_node_start_error(), "No locks available"));
    assert_null(start_alone(NULL));
    assert_non_null(strstr(nigh_node_start_error(), "cannot be locked (No locks available)"));
    lock_fault = EWOULDBLOCK;
    assert_null(start(path));
    assert_non_null(strstr(nigh_node_start_error(), "another node is running"));
    assert_null(start_alone(NULL));
    assert_non_null(strstr(nigh_node_start_error(), "another node spills"));
    lock_fault = 0;
    spill[0] = '\0';
}

static int stop_in_child(void *argument)
{
    nigh_node_stop(argument);
    return 0;
}

static void a_child_that_stops_its_parents_node_stops_nothing(void **unused)
{
    char path[108];
    nigh_node *node;

    (void)unused;
    support_path(path, sizeof(path), "socket");
    node = start(path);
    assert_non_null(node);
    assert_int_equal(support_join(support_fork(stop_in_child, node), 20000), 0);
    assert_true(answers(path));
    nigh_node_stop(node);
    assert_false(answers(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_of_a_killed_program_does_not_keep_the_socket),
        cmocka_unit_test(a_worker_of_a_killed_program_does_not_keep_the_port),
        cmocka_unit_test(a_worker_of_a_killed_program_does_not_keep_its_votes),
        cmocka_unit_test(a_worker_of_a_node_that_opens_its_votes_does_not_keep_them),
        cmocka_unit_test(a_worker_of_a_node_that_reads_its_votes_does_not_keep_them),
        cmocka_unit_test(a_worker_of_a_killed_program_does_not_keep_its_spill),
        cmocka_unit_test(a_worker_of_a_killed_program_without_a_socket_does_not_keep_its_spill),
        cmocka_unit_test(a_worker_of_a_node_that_opens_its_spill_does_not_keep_it),
        cmocka_unit_test(a_worker_of_a_node_that_opens_its_sockets_lock_does_not_keep_it),
        cmocka_unit_test(a_worker_without_descriptors_does_not_keep_a_lock),
        cmocka_unit_test(a_file_system_without_locks_is_no_other_node),
        cmocka_unit_test(a_child_that_stops_its_parents_node_stops_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
