/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thirteen known defects of Plasma, each as a test that a node with the defect fails. The number is
 * the one in docs/from-plasma.md, which tells each story and where it was reported.
 *
 * Speaks the session protocol itself only where a well-made client would not do (a socket that
 * nobody reads).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/session.h"
#include "plasma_world.h"

enum {
    SIZE = 3000,
    EXIT_MEMORY = 3, /* of nighd: not enough memory */
    REFUSAL_MS = 10000
};

static const char *const two_lanes[] = {"--lanes", "2", NULL};

/* ---- what several tests need ------------------------------------------------------------------
 */

/* Others are served: one opens a client, puts, gets and waits for nothing. */
static void check_service(const struct node_fixture *node, uint32_t number)
{
    uint64_t begun_us = support_now_us();
    nigh_client *client = plasma_open(node, "served", 0);

    for (uint32_t i = 0; i < 50; i++) {
        assert_int_equal(plasma_put(client, number + i, SIZE), NIGH_OK);
        plasma_check(client, number + i, SIZE);
    }
    nigh_client_close(client);
    assert_true(node_fixture_lives(node));
    assert_true(support_now_us() - begun_us < 4000000); /* less than any patience of the node */
}

/* A number of a file in /proc: what follows `key`, in KiB or as it is. */
static uint64_t proc_number(const char *path, const char *key)
{
    unsigned long long value = UINT64_MAX;
    char line[256];
    FILE *file = fopen(path, "r");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            (void)sscanf(line + strlen(key), " %llu", &value);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    if (value == UINT64_MAX) {
        fail_msg("%s has no %s", path, key);
    }
    return value;
}

struct refusal {
    const char *memory, *huge;
    const char *enter; /* a control group's file of processes; NULL: none */
    int said;          /* where its messages go */
};

static int refusal_body(void *context)
{
    const struct refusal *refusal = context;
    char socket[108];
    int fd;

    (void)snprintf(socket, sizeof(socket), "%s/refused", getenv("NIGH_TEST_DIR"));
    if (refusal->enter != NULL) {
        fd = open(refusal->enter, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "0", 1) != 1) {
            return 126;
        }
        close(fd);
    }
    dup2(refusal->said, STDERR_FILENO);
    execl(getenv("NIGHD"), "nighd", "--memory", refusal->memory, "--huge", refusal->huge,
          "--socket", socket, "--log-level", "error", (char *)NULL);
    return 127;
}

/* Starts a nighd that must not start: exit code 3 and one line with these words. */
static void expect_refusal(struct refusal refusal, const char *word)
{
    char text[2048];
    size_t length = 0;
    ssize_t n;
    struct pollfd waits = {.events = POLLIN};
    pid_t child;
    int said[2];

    setenv("NIGH_TEST_DIR", support_dir(), 1);
    assert_int_equal(pipe(said), 0);
    waits.fd = said[0];
    refusal.said = said[1];
    child = support_fork(refusal_body, &refusal);
    close(said[1]);
    /* One that starts after all says nothing more, and does not end. */
    while (poll(&waits, 1, REFUSAL_MS) == 1 &&
           (n = read(said[0], text + length, sizeof(text) - 1 - length)) > 0) {
        length += (size_t)n;
    }
    text[length] = '\0';
    close(said[0]);
    assert_int_equal(support_join(child, 20000), EXIT_MEMORY);
    if (strncmp(text, "nighd: ", 7) != 0 || strchr(text, '\n') != text + length - 1 ||
        strstr(text, word) == NULL) {
        fail_msg("nighd said: %s", text);
    }
}

/* ---- 1: more memory than there is -------------------------------------------------------------
 */

/* A control group with a limit, if this process may make one; its file of processes in `enter`. */
static bool make_group(char group[128], char enter[160])
{
    const char *root = "/sys/fs/cgroup", *limit = "memory.max", *processes = "cgroup.procs";
    char path[160];
    FILE *file;

    if (access("/sys/fs/cgroup/memory/memory.limit_in_bytes", F_OK) == 0) {
        root = "/sys/fs/cgroup/memory";
        limit = "memory.limit_in_bytes";
        processes = "tasks";
    }
    (void)snprintf(group, 128, "%s/nigh-test-%d", root, (int)getpid());
    if (geteuid() != 0 || mkdir(group, 0755) != 0) {
        return false;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", group, limit);
    (void)snprintf(enter, 160, "%s/%s", group, processes);
    file = fopen(path, "w");
    if (file == NULL || fprintf(file, "%d", 64 << 20) < 0 || fclose(file) != 0) {
        rmdir(group);
        return false;
    }
    return true;
}

/* Plasma warned, clamped another variable, and died of SIGBUS hours later. */
static void defect_01_memory_above_the_machine_or_its_group(void **state)
{
    char text[32], group[128], enter[160];
    uint64_t total = proc_number("/proc/meminfo", "MemTotal:") << 10;

    (void)state;
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)(total + (64 << 20)));
    expect_refusal((struct refusal){.memory = text, .huge = "never"}, "memory");
    if (!make_group(group, enter)) {
        print_message("no control group can be made here: that part is left out\n");
        return;
    }
    expect_refusal((struct refusal){.memory = "512M", .huge = "never", .enter = enter},
                   "control group");
    assert_int_equal(rmdir(group), 0);
}

/* ---- 2: pages that come later -----------------------------------------------------------------
 */

/* Bytes behind the node's memory files; each must have all of its pages. */
static uint64_t memory_of_node(pid_t pid)
{
    ino_t seen[512];
    size_t count = 0;
    uint64_t bytes = 0;
    char folder[64];
    DIR *fds;

    (void)snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)pid);
    fds = opendir(folder);
    assert_non_null(fds);
    for (struct dirent *entry; (entry = readdir(fds)) != NULL;) {
        char path[400], target[128] = "";
        struct stat at;
        size_t known = 0;

        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (readlink(path, target, sizeof(target) - 1) < 0 ||
            strncmp(target, "/memfd:nigh-", 12) != 0 || stat(path, &at) != 0) {
            continue;
        }
        while (known < count && seen[known] != at.st_ino) {
            known++;
        }
        if (known < count) {
            continue;
        }
        assert_true(count < 512);
        seen[count++] = at.st_ino;
        assert_true((uint64_t)at.st_blocks * 512 >= (uint64_t)at.st_size);
        bytes += (uint64_t)at.st_blocks * 512;
    }
    closedir(fds);
    return bytes;
}

static void defect_02_no_page_is_allocated_later(void **state)
{
    struct node_fixture node;
    nigh_client *client;
    uint64_t before;

    (void)state;
    node_fixture_start(&node, "64M", two_lanes);
    client = plasma_open(&node, "fills", 0);
    before = memory_of_node(node.pid);
    assert_true(before >= 64 << 20);
    for (uint32_t i = 0; i < 400; i++) {
        assert_int_equal(plasma_put(client, i, 300000), NIGH_OK);
    }
    assert_true(plasma_stats(client).evictions > 0);
    assert_int_equal(plasma_put(client, 1000, 24 << 20), NIGH_OK);
    plasma_check(client, 1000, 24 << 20);
    assert_int_equal(memory_of_node(node.pid), before);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

/* ---- 3 and 4: clients that do not do their part -----------------------------------------------
 */

static int connect_raw(const struct node_fixture *node)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    memcpy(address.sun_path, node->socket, sizeof(address.sun_path));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static struct session_hello good_hello(void)
{
    return (struct session_hello){.header = {.magic = SESSION_MAGIC, .kind = SESSION_HELLO},
                                  .version_min = SESSION_VERSION_MIN,
                                  .version_max = SESSION_VERSION_MAX,
                                  .name = "never reads"};
}

/* Plasma spun in the event loop until the descriptor could be sent. */
static void defect_03_a_client_that_does_not_read_its_socket(void **state)
{
    struct session_extent wish = {.header = {.magic = SESSION_MAGIC, .kind = SESSION_EXTENT}};
    struct session_hello hello = good_hello();
    struct node_fixture node;
    nigh_client *client;
    int fds[8];

    (void)state;
    node_fixture_start(&node, "64M", two_lanes);
    client = plasma_open(&node, "watches", 0);
    assert_int_equal(plasma_put(client, 1, SIZE), NIGH_OK);
    for (uint32_t i = 0; i < 8; i++) {
        fds[i] = connect_raw(&node);
        assert_int_equal(send(fds[i], &hello, sizeof(hello), 0), sizeof(hello));
    }
    assert_true(SUPPORT_WAIT(plasma_stats(client).sessions == 9, 10000));
    /* Each answer carries a descriptor or a refusal; nobody takes them. */
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < 8; i++) {
            for (uint32_t j = 0; j < 100; j++) {
                wish.extent = j % 4;
                (void)send(fds[i], &wish, sizeof(wish), MSG_DONTWAIT | MSG_NOSIGNAL);
            }
        }
        check_service(&node, 1000 + round * 100);
    }
    for (uint32_t i = 0; i < 8; i++) {
        close(fds[i]);
    }
    assert_true(SUPPORT_WAIT(plasma_stats(client).sessions == 1, 10000));
    nigh_client_close(client);
    node_fixture_stop(&node);
}

/* Subscribes and goes to sleep for good, before it has read a word. */
static int subscribe_and_stop(void *context)
{
    nigh_client *client = plasma_try_open(context, "stops");

    if (client == NULL || nigh_subscribe(client, NIGH_SUBSCRIBE_REPLAY) != NIGH_OK ||
        nigh_client_arm(client) != NIGH_OK) {
        return 1;
    }
    raise(SIGSTOP);
    return 0;
}

/* Plasma waited in recvmsg for the descriptor that a subscriber was to send. */
static void defect_04_a_client_that_never_sends(void **state)
{
    struct session_hello hello = good_hello();
    struct node_fixture node;
    int fds[100];
    pid_t child;
    int status;

    (void)state;
    node_fixture_start(&node, "64M", two_lanes);
    for (uint32_t i = 0; i < 100; i++) {
        fds[i] = connect_raw(&node);
        if (i % 3 == 1) { /* half a hello */
            (void)send(fds[i], &hello, sizeof(hello) / 2, MSG_NOSIGNAL);
        }
    }
    check_service(&node, 0);
    child = support_fork(subscribe_and_stop, &node);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    for (uint32_t round = 1; round < 10; round++) {
        check_service(&node, round * 100);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(support_join(child, 10000), -SIGKILL);
    for (uint32_t i = 0; i < 100; i++) {
        close(fds[i]);
    }
    node_fixture_stop(&node);
}

/* ---- 5: a subscriber that never drains --------------------------------------------------------
 */

/* Two events each, of ids that come again and again, so that nothing else of the node grows. */
static void make_events(nigh_client *client, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++) {
        nigh_id id = plasma_id(i % 100);

        assert_int_equal(plasma_put(client, i % 100, 8), NIGH_OK);
        assert_int_equal(nigh_delete(client, &id, 1, NULL), NIGH_OK);
    }
}

static void defect_05_a_subscriber_that_never_drains(void **state)
{
    enum {
        WARM = 2000,
        PAIRS = 10000
    };
    struct node_fixture node;
    nigh_client *client, *subscriber;
    uint64_t memory_kib, seen = 0, lost = 0;
    nigh_event event;
    char path[64];

    (void)state;
    node_fixture_start(&node, "64M", two_lanes);
    client = plasma_open(&node, "puts", 0);
    subscriber = plasma_open(&node, "never drains", 0);
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)node.pid);
    assert_int_equal(nigh_subscribe(subscriber, 0), NIGH_OK);
    make_events(client, WARM);
    assert_true(plasma_stats(client).events_lost > 0);
    memory_kib = proc_number(path, "RssAnon:");
    make_events(client, PAIRS);
    assert_true(proc_number(path, "RssAnon:") <= memory_kib + 512); /* 26 bytes an event */
    check_service(&node, 1000);
    /* It is told how much it missed, and goes on from there. */
    while (seen + lost < 2 * (WARM + PAIRS) + 50) {
        assert_int_equal(nigh_next_event(subscriber, 10000000, &event), NIGH_OK);
        seen += event.kind != NIGH_EVENT_OVERFLOW;
        lost += event.kind == NIGH_EVENT_OVERFLOW ? event.data_size : 0;
    }
    assert_int_equal(seen + lost, 2 * (WARM + PAIRS) + 50);
    assert_int_equal(plasma_put(client, 5000, 8), NIGH_OK);
    assert_int_equal(nigh_next_event(subscriber, 10000000, &event), NIGH_OK);
    assert_int_equal(event.kind, NIGH_EVENT_SEALED);
    nigh_client_close(subscriber);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

/* ---- 6, 7: get and contains -------------------------------------------------------------------
 */

static void defect_06_get_of_duplicate_ids(void **state)
{
    static const uint32_t numbers[] = {1, 2, 1, 1, 2, 3};
    struct node_fixture node;
    struct plasma_putter putter = {
        .node = &node, .first = 1, .count = 2, .size = SIZE, .waiting = 1};
    nigh_client *client;
    nigh_view views[6];
    nigh_id ids[6];
    pid_t child;

    (void)state;
    node_fixture_start(&node, "32M", two_lanes);
    client = plasma_open(&node, "asks twice", 0);
    assert_int_equal(plasma_put(client, 3, SIZE), NIGH_OK);
    for (uint32_t i = 0; i < 6; i++) {
        ids[i] = plasma_id(numbers[i]);
    }
    assert_int_equal(nigh_get(client, ids, 6, 10000, views), NIGH_TIMEOUT);
    assert_int_equal(nigh_release(client, &views[5]), NIGH_OK);
    child = plasma_fork_putter(&putter);
    assert_int_equal(nigh_get(client, ids, 6, 20000000, views), NIGH_OK);
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(plasma_is_filled(views[i].data, SIZE, numbers[i]));
        assert_int_equal(nigh_release(client, &views[i]), NIGH_OK);
    }
    assert_int_equal(support_join(child, 20000), 0);
    assert_int_equal(plasma_stats(client).waiting, 0);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

static void defect_07_contains_before_seal(void **state)
{
    static const uint64_t sizes[] = {100, 2 << 20};
    struct node_fixture node;
    nigh_client *client, *other;

    (void)state;
    node_fixture_start(&node, "32M", two_lanes);
    client = plasma_open(&node, "creates", 0);
    other = plasma_open(&node, "looks", 0);
    for (uint32_t i = 0; i < 4; i++) {
        nigh_create_options options = {.data_size = sizes[i % 2],
                                       .flags = i < 2 ? 0 : NIGH_CREATE_EXCLUSIVE};
        nigh_id id = plasma_id(i);
        nigh_writer writer;
        nigh_view view;
        bool found = true;

        assert_int_equal(nigh_create(client, &id, &options, &writer), NIGH_OK);
        assert_int_equal(nigh_contains(client, &id, &found), NIGH_OK);
        assert_false(found);
        assert_int_equal(nigh_contains(other, &id, &found), NIGH_OK);
        assert_false(found);
        assert_int_equal(nigh_get(other, &id, 1, 0, &view), NIGH_TIMEOUT);
        assert_int_equal(nigh_seal(client, &writer), NIGH_OK);
        assert_int_equal(nigh_contains(other, &id, &found), NIGH_OK);
        assert_true(found);
    }
    nigh_client_close(client);
    nigh_client_close(other);
    node_fixture_stop(&node);
}

/* ---- 8: what is another client's --------------------------------------------------------------
 */

/* Creates objects of the same ids, and stops there until it is killed. */
static int create_and_stop(void *context)
{
    nigh_create_options options = {.data_size = SIZE};
    nigh_client *client = plasma_try_open(context, "dies");
    nigh_writer writer;
    nigh_id small = plasma_id(1), large = plasma_id(2);

    if (client == NULL || nigh_create(client, &small, &options, &writer) != NIGH_OK) {
        return 1;
    }
    options.data_size = 2 << 20;
    if (nigh_create(client, &large, &options, &writer) != NIGH_OK) {
        return 2;
    }
    raise(SIGSTOP);
    return 0;
}

static void defect_08_abort_of_another_clients_object(void **state)
{
    static const uint64_t sizes[] = {0, SIZE, 2 << 20};
    struct node_fixture node;
    nigh_client *client, *other;
    nigh_writer writers[3], forged;
    pid_t child;
    int status;

    (void)state;
    node_fixture_start(&node, "32M", two_lanes);
    client = plasma_open(&node, "creates", 0);
    other = plasma_open(&node, "meddles", 0);
    for (uint32_t i = 1; i < 3; i++) {
        nigh_create_options options = {.data_size = sizes[i]};
        nigh_id id = plasma_id(i);

        assert_int_equal(nigh_create(client, &id, &options, &writers[i]), NIGH_OK);
        plasma_fill(writers[i].data, sizes[i], i);
        forged = writers[i];
        assert_int_equal(nigh_abort(other, &forged), NIGH_INVALID);
        forged = writers[i];
        assert_int_equal(nigh_seal(other, &forged), NIGH_INVALID);
    }
    /* Clients that made objects of the same ids leave: one in order, one killed. */
    child = support_fork(create_and_stop, &node);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    nigh_client_close(other);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(support_join(child, 10000), -SIGKILL);
    assert_true(SUPPORT_WAIT(plasma_stats(client).sessions == 1, 10000));
    for (uint32_t i = 1; i < 3; i++) {
        assert_int_equal(nigh_seal(client, &writers[i]), NIGH_OK);
        plasma_check(client, i, sizes[i]);
    }
    nigh_client_close(client);
    node_fixture_stop(&node);
}

/* ---- 9: a getter that dies --------------------------------------------------------------------
 */

static int get_for_ever(void *context)
{
    nigh_client *client = plasma_try_open(context, "waits");
    nigh_id ids[2] = {plasma_id(1), plasma_id(2)};
    nigh_view views[2];

    return client != NULL && nigh_get(client, ids, 2, NIGH_FOREVER, views) == NIGH_OK ? 0 : 1;
}

/* Plasma answered a socket that was gone, and took the failure for a bug of its own. */
static void defect_09_death_of_a_waiting_getter(void **state)
{
    struct node_fixture node;
    nigh_id id = plasma_id(1);
    nigh_client *client;
    pid_t children[4];
    nigh_view view;
    nigh_op op;

    (void)state;
    node_fixture_start(&node, "32M", two_lanes);
    client = plasma_open(&node, "waits too", 0);
    assert_int_equal(nigh_get_start(client, &id, 1, NIGH_FOREVER, &view, &op), NIGH_OK);
    for (uint32_t i = 0; i < 4; i++) {
        children[i] = support_fork(get_for_ever, &node);
    }
    assert_true(SUPPORT_WAIT(plasma_stats(client).waiting == 1 + 4 * 2, 10000));
    /* Two are dead when the object comes, two are stopped and die with the answer unread. */
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(kill(children[i], i < 2 ? SIGKILL : SIGSTOP), 0);
    }
    assert_int_equal(plasma_put(client, 1, SIZE), NIGH_OK);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(kill(children[i], SIGKILL), 0);
        assert_int_equal(support_join(children[i], 10000), -SIGKILL);
    }
    assert_int_equal(nigh_wait(client, &op, 20000000), NIGH_OK);
    assert_true(plasma_is_filled(view.data, SIZE, 1));
    assert_int_equal(nigh_release(client, &view), NIGH_OK);
    assert_int_equal(plasma_put(client, 2, SIZE), NIGH_OK);
    assert_true(SUPPORT_WAIT(plasma_stats(client).sessions == 1, 10000));
    assert_int_equal(plasma_stats(client).waiting, 0);
    check_service(&node, 100);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

/* ---- 10: a spill directory that fails ---------------------------------------------------------
 */

/* Puts until memory and disk are full; how many there were. */
static uint32_t put_until_full(nigh_client *client, size_t size, uint32_t most)
{
    nigh_create_options options = {.timeout_us = 1000000};
    uint8_t *data = malloc(size);
    nigh_status status = NIGH_OK;
    uint32_t count = 0;

    while (status == NIGH_OK && count < most) {
        nigh_id id = plasma_id(count);

        plasma_fill(data, size, count);
        status = nigh_put(client, &id, data, size, &options);
        count += status == NIGH_OK;
    }
    free(data);
    assert_int_equal(status, NIGH_OUT_OF_MEMORY);
    return count;
}

/* A node whose spill directory fails: what was put is there, and the node goes on. */
static void check_failing_directory(const char *directory, bool vanishes)
{
    const char *flags[] = {"--spill", directory, "--lanes", "1", NULL};
    struct node_fixture node;
    nigh_client *client;
    char path[256];
    uint32_t count, spilled = 0;

    node_fixture_start(&node, "32M", flags);
    client = plasma_open(&node, "puts", 0);
    if (vanishes) {
        DIR *folder = opendir(directory);

        assert_non_null(folder);
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            (void)snprintf(path, sizeof(path), "%s/%.100s", directory, entry->d_name);
            unlink(path);
        }
        closedir(folder);
        assert_int_equal(rmdir(directory), 0);
    }
    count = put_until_full(client, 400000, 1000);
    assert_true(count > 50);
    /* A disk that is full is no failure: it was seen before. */
    assert_true((plasma_stats(client).spill_failures > 0) == vanishes);
    assert_int_equal(plasma_stats(client).evictions, 0);
    for (uint32_t i = 0; i < 2 * count && !vanishes; i++) {
        plasma_check(client, i % count, 400000);
    }
    /* Those in memory are read, and give way to those that were spilled before it failed. */
    for (uint32_t i = 0; i < count; i++) {
        nigh_id id = plasma_id(i);
        nigh_object_info info;

        assert_int_equal(nigh_stat(client, &id, &info), NIGH_OK);
        if (info.state == NIGH_OBJECT_SEALED) {
            plasma_check(client, i, 400000);
            assert_int_equal(nigh_delete(client, &id, 1, NULL), NIGH_OK);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        nigh_id id = plasma_id(i);
        bool found = false;

        assert_int_equal(nigh_contains(client, &id, &found), NIGH_OK);
        if (found) {
            plasma_check(client, i, 400000);
            spilled++;
        }
    }
    assert_true((spilled > 0) == !vanishes);
    assert_true(node_fixture_lives(&node));
    nigh_client_close(client);
    node_fixture_stop(&node);
}

/* Plasma ended itself when its external store refused a put. */
static void defect_10_a_failing_spill_directory(void **state)
{
    char directory[128];

    (void)state;
    support_path(directory, sizeof(directory), "spill");
    assert_int_equal(mkdir(directory, 0700), 0);
    check_failing_directory(directory, true);
    assert_int_equal(mkdir(directory, 0700), 0);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("nigh-test", directory, "tmpfs", 0, "size=12M") != 0) {
        print_message("nothing can be mounted here: the full disk is left out\n");
        return;
    }
    check_failing_directory(directory, false);
    assert_int_equal(umount2(directory, MNT_DETACH), 0);
}

/* ---- 11: misuse of the library ----------------------------------------------------------------
 */

/* Each wrong call fails or does nothing; the number of those that did otherwise. */
static int misuse_objects(nigh_client *client, nigh_client *other)
{
    nigh_create_options options = {.data_size = 100}, wrong = {.flags = 1u << 20},
                        huge = {.data_size = UINT64_MAX}, no_meta = {.meta_size = 5};
    nigh_id id = plasma_id(1), absent = plasma_id(2);
    nigh_writer writer = {0}, good = {0}, copy;
    nigh_view view = {0}, twice;
    int bad = 0;

    bad += nigh_abort(client, &writer) != NIGH_INVALID; /* abort without create */
    bad += nigh_seal(client, &writer) != NIGH_INVALID;
    memset(&writer, 0x5a, sizeof(writer));
    bad += nigh_abort(client, &writer) != NIGH_INVALID;
    bad += nigh_seal(client, &writer) != NIGH_INVALID;
    bad += nigh_create(client, &id, &wrong, &writer) != NIGH_INVALID;
    bad += nigh_create(client, &id, &huge, &writer) == NIGH_OK;
    bad += nigh_create(client, &id, &no_meta, &writer) != NIGH_INVALID;
    bad += nigh_create(client, NULL, &options, &writer) != NIGH_INVALID;
    bad += nigh_create(client, &id, NULL, &writer) != NIGH_INVALID;
    bad += nigh_create(client, &id, &options, NULL) != NIGH_INVALID;
    bad += nigh_create(client, &id, &options, &good) != NIGH_OK;
    copy = good;
    bad += nigh_seal(client, &good) != NIGH_OK;
    bad += nigh_seal(client, &good) != NIGH_INVALID;
    bad += nigh_seal(client, &copy) == NIGH_OK;
    bad += nigh_abort(client, &copy) == NIGH_OK; /* sealed already */
    bad += nigh_put(client, &absent, NULL, 10, NULL) != NIGH_INVALID;
    bad += nigh_release(client, &view) != NIGH_OK; /* zeroed: nothing to do */
    bad += nigh_release(client, NULL) == NIGH_OK;
    memset(&view, 0x5a, sizeof(view));
    (void)nigh_release(client, &view);
    view.status = NIGH_OK;
    (void)nigh_release(client, &view);
    bad += nigh_get(client, &id, 1, 0, &view) != NIGH_OK;
    twice = view;
    bad += nigh_release(other, &view) == NIGH_OK; /* another client's */
    view = twice;
    bad += nigh_release(client, &view) != NIGH_OK;
    (void)nigh_release(client, &twice);
    bad += nigh_get(client, NULL, 3, 0, &view) != NIGH_INVALID;
    bad += nigh_get(client, &id, 1, 0, NULL) != NIGH_INVALID;
    return bad;
}

static int misuse_rest(nigh_client *client)
{
    nigh_client_options small = {.struct_size = 3};
    nigh_client *none = NULL;
    nigh_id id = plasma_id(3);
    nigh_object_info info;
    nigh_op op = {{0}};
    nigh_event event;
    uint64_t cursor = UINT64_MAX;
    nigh_view view;
    size_t count = 7;
    bool found;
    int bad = 0;

    bad += nigh_client_open(&small, &none) == NIGH_OK;
    bad += nigh_client_open(NULL, NULL) == NIGH_OK;
    bad += nigh_get(NULL, &id, 1, 0, &view) == NIGH_OK;
    bad += nigh_contains(NULL, &id, &found) == NIGH_OK;
    bad += nigh_contains(client, NULL, &found) != NIGH_INVALID;
    bad += nigh_contains(client, &id, NULL) != NIGH_INVALID;
    bad += nigh_delete(client, NULL, 2, NULL) != NIGH_INVALID;
    bad += nigh_refresh(client, NULL, 2) != NIGH_INVALID;
    bad += nigh_pin(client, NULL) != NIGH_INVALID;
    bad += nigh_stat(client, &id, NULL) != NIGH_INVALID;
    bad += nigh_checksum(client, &id, NULL) != NIGH_INVALID;
    bad += nigh_put_many(client, NULL, 2) != NIGH_INVALID;
    (void)nigh_list(client, &cursor, &info, 1, &count); /* a cursor of nobody's */
    bad += nigh_list(client, NULL, &info, 1, &count) != NIGH_INVALID;
    bad += nigh_subscribe(client, 1u << 9) != NIGH_INVALID;
    bad += nigh_next_event(client, 0, NULL) != NIGH_INVALID;
    bad += nigh_next_event(client, 0, &event) != NIGH_NOT_FOUND;
    bad += nigh_wait(client, &op, 0) == NIGH_OK; /* never started */
    bad += nigh_cancel(client, &op) == NIGH_OK;
    bad += nigh_wait(client, NULL, 0) == NIGH_OK;
    memset(&op, 0x5a, sizeof(op));
    bad += nigh_wait(client, &op, 0) == NIGH_OK;
    bad += nigh_get_start(client, &id, 1, 0, &view, NULL) == NIGH_OK;
    nigh_client_close(NULL);
    return bad;
}

static int misuse(void *context)
{
    nigh_client *client = plasma_try_open(context, "misuses"),
                *other = plasma_try_open(context, "other");
    int bad;

    if (client == NULL || other == NULL) {
        return 255;
    }
    bad = misuse_objects(client, other) + misuse_rest(client);
    /* And all of it left the client whole. */
    bad += plasma_put(client, 77, SIZE) != NIGH_OK;
    nigh_client_close(other);
    nigh_client_close(client);
    return bad;
}

static void defect_11_misuse_never_ends_the_process(void **state)
{
    struct node_fixture node;
    nigh_client *client;

    (void)state;
    node_fixture_start(&node, "32M", two_lanes);
    client = plasma_open(&node, "looks", 0);
    assert_int_equal(support_join(support_fork(misuse, &node), 20000), 0);
    plasma_check(client, 77, SIZE);
    assert_int_equal(plasma_stats(client).expelled, 0);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

/* ---- 12: huge pages ---------------------------------------------------------------------------
 */

/* Plasma with huge pages and less than 1 GiB died of SIGBUS at the first touch. */
static void defect_12_huge_pages_that_are_not_there(void **state)
{
    static const char *const flags[] = {"--huge", "auto", NULL};
    uint64_t free_bytes = (proc_number("/proc/meminfo", "HugePages_Free:") *
                           proc_number("/proc/meminfo", "Hugepagesize:"))
                          << 10;
    struct node_fixture node;
    nigh_client *client;
    char text[32];

    (void)state;
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)(free_bytes + (64 << 20)));
    expect_refusal((struct refusal){.memory = text, .huge = "require"}, "huge");
    node_fixture_start(&node, "32M", flags);
    client = plasma_open(&node, "small", 0);
    assert_int_equal(plasma_put(client, 1, 24 << 20), NIGH_OK);
    plasma_check(client, 1, 24 << 20);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

/* ---- 13: deleted and still there --------------------------------------------------------------
 */

static void defect_13_released_and_deleted_ids_disappear(void **state)
{
    struct node_fixture node;
    nigh_client *client, *other;
    nigh_view views[2];
    nigh_id id;

    (void)state;
    node_fixture_start(&node, "32M", two_lanes);
    client = plasma_open(&node, "deletes", 0);
    other = plasma_open(&node, "looks", 0);
    for (uint32_t i = 0; i < 200; i++) {
        bool deleted_first = i % 2 == 1;
        nigh_status status;

        id = plasma_id(i);
        assert_int_equal(plasma_put(client, i, SIZE), NIGH_OK);
        assert_int_equal(nigh_get(client, &id, 1, 0, &views[0]), NIGH_OK);
        assert_int_equal(nigh_get(other, &id, 1, 0, &views[1]), NIGH_OK);
        if (deleted_first) {
            assert_int_equal(nigh_delete(client, &id, 1, &status), NIGH_OK);
            assert_int_equal(status, NIGH_IN_USE);
        }
        assert_int_equal(nigh_release(client, &views[0]), NIGH_OK);
        assert_int_equal(nigh_release(other, &views[1]), NIGH_OK);
        if (!deleted_first) {
            assert_int_equal(nigh_delete(client, &id, 1, &status), NIGH_OK);
            assert_int_equal(status, NIGH_OK);
            assert_false(plasma_is_listed(other, i, NULL));
        }
    }
    assert_true(SUPPORT_WAIT(plasma_stats(client).objects_deleting == 0, 10000));
    for (uint32_t i = 0; i < 200; i++) {
        assert_false(plasma_is_listed(other, i, NULL));
    }
    assert_int_equal(plasma_stats(client).objects, 0);
    nigh_client_close(client);
    nigh_client_close(other);
    node_fixture_stop(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defect_01_memory_above_the_machine_or_its_group),
        cmocka_unit_test(defect_02_no_page_is_allocated_later),
        cmocka_unit_test(defect_03_a_client_that_does_not_read_its_socket),
        cmocka_unit_test(defect_04_a_client_that_never_sends),
        cmocka_unit_test(defect_05_a_subscriber_that_never_drains),
        cmocka_unit_test(defect_06_get_of_duplicate_ids),
        cmocka_unit_test(defect_07_contains_before_seal),
        cmocka_unit_test(defect_08_abort_of_another_clients_object),
        cmocka_unit_test(defect_09_death_of_a_waiting_getter),
        cmocka_unit_test(defect_10_a_failing_spill_directory),
        cmocka_unit_test(defect_11_misuse_never_ends_the_process),
        cmocka_unit_test(defect_12_huge_pages_that_are_not_there),
        cmocka_unit_test(defect_13_released_and_deleted_ids_disappear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
