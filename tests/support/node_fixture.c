/* SPDX-License-Identifier: Apache-2.0 */
/* See node_fixture.h. */
#include "support/node_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NODE_FLAGS_MAX  32
#define NODE_READY_MS   60000
#define NODE_STOPPED_MS 60000

static unsigned int node_number;

static void node_print_log(const struct node_fixture *node)
{
    char path[sizeof(node->socket) + 8], line[512];
    FILE *log;

    snprintf(path, sizeof(path), "%s.log", node->socket);
    log = fopen(path, "r");
    while (log != NULL && fgets(line, sizeof(line), log) != NULL) {
        printf("# nighd: %s", line);
    }
    if (log != NULL) {
        fclose(log);
    }
    fflush(stdout);
}

/* In the child: becomes nighd. */
static void node_exec(const struct node_fixture *node, pid_t parent, int ready_fd,
                      const char *memory, const char *const *flags)
{
    const char *program = getenv("NIGHD");
    const char *argv[NODE_FLAGS_MAX + 1] = {program, "--memory", memory, "--socket", node->socket};
    char path[sizeof(node->socket) + 8], number[16];
    size_t n = 5;
    int log_fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || program == NULL) {
        _exit(127);
    }
    snprintf(path, sizeof(path), "%s.log", node->socket);
    log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (log_fd >= 0) {
        dup2(log_fd, STDERR_FILENO);
        dup2(log_fd, STDOUT_FILENO);
    }
    snprintf(number, sizeof(number), "%d", ready_fd);
    argv[n++] = "--ready-fd";
    argv[n++] = number;
    for (size_t i = 0; flags != NULL && flags[i] != NULL && n < NODE_FLAGS_MAX; i++) {
        argv[n++] = flags[i];
    }
    argv[n] = NULL;
    execv(program, (char *const *)(uintptr_t)argv);
    _exit(127);
}

void node_fixture_start(struct node_fixture *node, const char *memory, const char *const *flags)
{
    char name[32];

    snprintf(name, sizeof(name), "node%u", node_number++);
    support_path(node->socket, sizeof(node->socket), name);
    node_fixture_start_again(node, memory, flags);
}

void node_fixture_start_again(struct node_fixture *node, const char *memory,
                              const char *const *flags)
{
    pid_t parent = getpid();
    char word[8] = "";
    int ready[2];

    if (pipe(ready) != 0) {
        fail_msg("pipe: %s", strerror(errno));
    }
    fflush(NULL);
    node->pid = fork();
    if (node->pid < 0) {
        fail_msg("fork: %s", strerror(errno));
    }
    if (node->pid == 0) {
        close(ready[0]);
        node_exec(node, parent, ready[1], memory, flags);
    }
    close(ready[1]);
    /* End of file, when it dies, ends the waiting too. */
    if (read(ready[0], word, sizeof(word)) <= 0 || strncmp(word, "ready\n", 6) != 0) {
        node_print_log(node);
        (void)support_join(node->pid, NODE_READY_MS);
        close(ready[0]);
        fail_msg("nighd did not become ready ($NIGHD is %s)", getenv("NIGHD"));
    }
    close(ready[0]);
}

void node_fixture_stop(struct node_fixture *node)
{
    int ended;

    kill(node->pid, SIGTERM);
    ended = support_join(node->pid, NODE_STOPPED_MS);
    node->pid = -1;
    if (ended != 0) {
        node_print_log(node);
        fail_msg("nighd ended with %d", ended);
    }
}

pid_t node_fixture_child(pid_t holder)
{
    char path[64];
    int child = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)holder, (int)holder);
    file = fopen(path, "r");
    if (file != NULL) {
        if (fscanf(file, "%d", &child) != 1)
            child = 0;
        fclose(file);
    }
    return child;
}

bool node_fixture_lives(const struct node_fixture *node)
{
    return waitpid(node->pid, NULL, WNOHANG) == 0;
}

void node_fixture_members(char *members, size_t size, uint32_t count)
{
    const char *hosts = getenv("RDMA_GUEST_HOSTS");
    size_t length = 0;

    for (uint32_t n = 0; n < count; n++) {
        const char *host = hosts != NULL ? hosts : "127.0.0.1";

        length += (size_t)snprintf(members + length, size - length, "%s%.*s:%d", n > 0 ? "," : "",
                                   (int)strcspn(host, " "), host, support_port());
        assert_true(length < size);
        if (hosts != NULL) {
            hosts += strcspn(hosts, " ");
            hosts += *hosts == ' ';
        }
    }
}

const char *node_fixture_fabric(void)
{
    return getenv("RDMA_GUEST_HOSTS") != NULL ? "verbs" : "tcp";
}

const char *node_fixture_dead_ms(void)
{
    static char text[16];

    snprintf(text, sizeof text, "%u", 2000 * support_patience());
    return text;
}
