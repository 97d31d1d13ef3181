/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a client: refusals with sentences, versions, bad welcomes, options, fork. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nigh/nigh.h"
#include "support/fake_node.h"
#include "support/support.h"

static nigh_status open_at(const char *path, nigh_client **client)
{
    nigh_client_options options = {.struct_size = sizeof(options), .socket_path = path};

    return nigh_client_open(&options, client);
}

static void test_nobody_listens(void **state)
{
    nigh_client *client = NULL;
    char path[108];

    (void)state;
    support_path(path, sizeof(path), "absent");
    assert_int_equal(open_at(path, &client), NIGH_UNREACHABLE);
    assert_null(client);
    assert_non_null(strstr(nigh_open_error(), "start nighd"));
    assert_non_null(strstr(nigh_open_error(), path));
}

static void test_path_is_too_long(void **state)
{
    nigh_client *client = NULL;
    char path[200];

    (void)state;
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(open_at(path, &client), NIGH_INVALID);
    assert_non_null(strstr(nigh_open_error(), "at most 107"));
    assert_int_equal(open_at("", &client), NIGH_INVALID);
}

/* As nobody where this is root, whom no mode keeps away. */
static nigh_status open_without_rights(const char *path)
{
    uid_t own = geteuid();
    nigh_client *client = NULL;
    nigh_status status;

    assert_int_equal(seteuid(own == 0 ? 65534 : own), 0);
    status = open_at(path, &client);
    assert_int_equal(seteuid(own), 0);
    return status;
}

/* What may not be written to, and the folder that may not be searched, are told from each other. */
static void test_whose_right_lacks_is_told(void **state)
{
    struct fake_options options = {0};
    char *before = getcwd(NULL, 0);
    struct fake_node fake;

    (void)state;
    assert_non_null(before);
    /* By paths from here on, as those above it may be closed, too. */
    assert_int_equal(chdir(support_dir()), 0);
    assert_int_equal(chmod(".", 0711), 0);
    fake_node_start(&fake, &options);
    assert_int_equal(chmod(fake.path, 0), 0);
    assert_int_equal(open_without_rights(strrchr(fake.path, '/') + 1), NIGH_DENIED);
    assert_non_null(strstr(nigh_open_error(), "write to it"));
    assert_null(strstr(nigh_open_error(), "folder"));
    fake_node_stop(&fake);
    assert_int_equal(mkdir("shut", 0), 0);
    assert_int_equal(open_without_rights("shut/within/node.sock"), NIGH_DENIED);
    assert_non_null(
        strstr(nigh_open_error(), "the folder shut, in which shut/within/node.sock would be"));
    assert_int_equal(rmdir("shut"), 0);
    assert_int_equal(chdir(before), 0);
    free(before);
}

static void test_environment_names_the_socket(void **state)
{
    nigh_client *client = NULL;
    char path[108];

    (void)state;
    support_path(path, sizeof(path), "elsewhere");
    assert_int_equal(setenv("NIGH_SOCKET", path, 1), 0);
    assert_int_equal(nigh_client_open(NULL, &client), NIGH_UNREACHABLE);
    assert_non_null(strstr(nigh_open_error(), path));
    unsetenv("NIGH_SOCKET");
}

static void test_refusals_tell_the_sentence(void **state)
{
    static const nigh_status refusals[] = {NIGH_VERSION, NIGH_DENIED, NIGH_LIMIT, NIGH_NOT_FOUND};
    nigh_client *client = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct fake_options options = {.refuse = refusals[i], .sentence = "go away, because"};
        struct fake_node fake;

        fake_node_start(&fake, &options);
        assert_int_equal(open_at(fake.path, &client), refusals[i]);
        assert_string_equal(nigh_open_error(), "go away, because");
        fake_node_stop(&fake);
    }
}

static void test_versions_that_do_not_fit(void **state)
{
    nigh_client *client = NULL;

    (void)state;
    for (uint16_t version = SESSION_VERSION_MAX + 1; version < SESSION_VERSION_MAX + 3; version++) {
        struct fake_options options = {.version = version};
        struct fake_node fake;

        fake_node_start(&fake, &options);
        assert_int_equal(open_at(fake.path, &client), NIGH_VERSION);
        assert_non_null(strstr(nigh_open_error(), "version"));
        fake_node_stop(&fake);
    }
}

static void test_welcome_that_cannot_be(void **state)
{
    struct fake_options options = {.bad_welcome = true};
    struct fake_node fake;
    nigh_client *client = NULL;

    (void)state;
    fake_node_start(&fake, &options);
    assert_int_equal(open_at(fake.path, &client), NIGH_PROTOCOL);
    assert_non_null(strstr(nigh_open_error(), "not valid"));
    fake_node_stop(&fake);
}

static void test_node_that_says_nothing(void **state)
{
    struct fake_options options = {.silent = true};
    nigh_client_options open = {.struct_size = sizeof(open), .timeout_us = 50000};
    struct fake_node fake;
    nigh_client *client = NULL;
    uint64_t begun_us = support_now_us();

    (void)state;
    fake_node_start(&fake, &options);
    open.socket_path = fake.path;
    assert_int_equal(nigh_client_open(&open, &client), NIGH_TIMEOUT);
    assert_true(support_now_us() - begun_us < 5000000);
    assert_non_null(strstr(nigh_open_error(), "does not answer"));
    fake_node_stop(&fake);
}

/* A node that is killed takes a connection, and is gone. */
struct dying {
    int listen_fd;
    const char *path;
};

static void *die_when_asked(void *argument)
{
    const struct dying *dying = argument;
    int fd = accept(dying->listen_fd, NULL, NULL);

    close(dying->listen_fd);
    close(fd);
    return NULL;
}

static void test_node_that_dies_when_asked(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct dying dying = {.path = address.sun_path};
    nigh_client *client = NULL;
    pthread_t thread;

    (void)state;
    support_path(address.sun_path, sizeof(address.sun_path), "dying");
    dying.listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(dying.listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(dying.listen_fd, 5), 0);
    assert_int_equal(pthread_create(&thread, NULL, die_when_asked, &dying), 0);
    assert_int_equal(open_at(address.sun_path, &client), NIGH_UNREACHABLE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_non_null(strstr(nigh_open_error(), "died"));
    assert_non_null(strstr(nigh_open_error(), "start nighd"));
}

/* As one does to which many come at once. */
static void test_node_that_closes_is_asked_again(void **state)
{
    struct fake_node fake;
    nigh_client *client = NULL;

    (void)state;
    fake_node_start(&fake, &(struct fake_options){.closes_first = 5});
    assert_int_equal(open_at(fake.path, &client), NIGH_OK);
    nigh_client_close(client);
    fake_node_stop(&fake);
    fake_node_start(&fake, &(struct fake_options){.closes_first = UINT32_MAX});
    assert_int_equal(open_at(fake.path, &client), NIGH_UNREACHABLE);
    assert_non_null(strstr(nigh_open_error(), "closed the connection"));
    fake_node_stop(&fake);
}

static void test_options_are_checked(void **state)
{
    struct {
        nigh_client_options options;
        uint64_t later;
    } grown = {.options = {.struct_size = sizeof(grown)}};
    nigh_client_options options = {0};
    struct fake_node fake;
    nigh_client *client = NULL;

    (void)state;
    fake_node_start(&fake, &(struct fake_options){0});
    options.socket_path = grown.options.socket_path = fake.path;
    assert_int_equal(nigh_client_open(&options, &client), NIGH_INVALID); /* no struct_size */
    options.struct_size = sizeof(options);
    options.flags = 0x80;
    assert_int_equal(nigh_client_open(&options, &client), NIGH_INVALID);
    options.flags = 0;
    options.pool = "a name that is longer than thirty-one bytes";
    assert_int_equal(nigh_client_open(&options, &client), NIGH_INVALID);
    assert_non_null(strstr(nigh_open_error(), "pool's name"));
    options.pool = NULL;
    assert_int_equal(nigh_client_open(&options, NULL), NIGH_INVALID);

    /* A newer program: what is unknown must be zero. */
    assert_int_equal(nigh_client_open(&grown.options, &client), NIGH_OK);
    nigh_client_close(client);
    grown.later = 1;
    assert_int_equal(nigh_client_open(&grown.options, &client), NIGH_INVALID);
    /* An older one: what it does not have is zero. */
    options.struct_size = offsetof(nigh_client_options, name);
    options.name = (const char *)1;
    assert_int_equal(nigh_client_open(&options, &client), NIGH_OK);
    nigh_client_close(client);
    fake_node_stop(&fake);
}

static void test_read_only_is_asked_for(void **state)
{
    nigh_client_options options = {.struct_size = sizeof(options), .flags = NIGH_OPEN_READ_ONLY};
    struct fake_node fake;
    nigh_client *client = NULL;
    nigh_id id = {{1}};
    char text[256];

    (void)state;
    fake_node_start(&fake, &(struct fake_options){0});
    options.socket_path = fake.path;
    assert_int_equal(nigh_client_open(&options, &client), NIGH_OK);
    assert_int_equal(atomic_load(&fake.last_flags), SESSION_HELLO_READ_ONLY);
    assert_int_equal(atomic_load(&fake.extents_asked), 0);
    assert_int_equal(nigh_put(client, &id, "x", 1, NULL), NIGH_DENIED);
    nigh_client_error(client, text, sizeof(text));
    assert_non_null(strstr(text, "read-only"));
    nigh_client_close(client);
    fake_node_stop(&fake);
}

static size_t count_fds(void)
{
    size_t n = 0;

    for (int fd = 0; fd < 256; fd++) {
        char path[64], target[64];

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n += readlink(path, target, sizeof(target)) >= 0;
    }
    return n;
}

static size_t count_maps(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    size_t n = 0;

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        n += strstr(line, "fake-") != NULL;
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return n;
}

/* The node's thread closes its end when the client has closed its own. */
static bool is_disconnected(struct fake_node *fake)
{
    bool disconnected;

    fake_node_lock(fake);
    disconnected = fake->socket_fd == -1;
    fake_node_unlock(fake);
    return disconnected;
}

static void test_open_and_close_leave_nothing(void **state)
{
    struct fake_node fake;
    nigh_client *client = NULL;
    size_t fds, maps;
    uint8_t id[20] = {3};
    nigh_view view;

    (void)state;
    fake_node_start(&fake, &(struct fake_options){.lanes = 2});
    assert_int_equal(open_at(fake.path, &client), NIGH_OK);
    nigh_client_close(client);
    assert_true(SUPPORT_WAIT(is_disconnected(&fake), 20000));
    fake_node_seal(&fake, id, "abc", 3);
    fds = count_fds();
    maps = count_maps();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(open_at(fake.path, &client), NIGH_OK);
        assert_int_equal(nigh_get(client, (nigh_id *)id, 1, 0, &view), NIGH_OK);
        assert_int_equal(nigh_release(client, &view), NIGH_OK);
        nigh_client_close(client);
        assert_true(SUPPORT_WAIT(is_disconnected(&fake), 20000));
    }
    assert_int_equal(count_fds(), fds);
    assert_int_equal(count_maps(), maps);
    nigh_client_close(NULL);
    fake_node_stop(&fake);
}

/* ---- fork -------------------------------------------------------------------------------------
 */

struct forked {
    nigh_client *client;
    nigh_view *view;
    nigh_writer *writer;
    char *path;
};

/* Every call in a child says so, and closing there hurts nobody. */
static int child_uses_client(void *context)
{
    struct forked *forked = context;
    nigh_id id = {{9}};
    nigh_view view = {0};
    bool found;
    uint64_t freed;
    size_t count;
    nigh_op op;
    nigh_event event;
    nigh_object_info info;
    uint64_t cursor = 0;
    nigh_status statuses[] = {
        nigh_get(forked->client, &id, 1, 0, &view),
        nigh_release(forked->client, forked->view),
        nigh_put(forked->client, &id, "x", 1, NULL),
        nigh_seal(forked->client, forked->writer),
        nigh_abort(forked->client, forked->writer),
        nigh_contains(forked->client, &id, &found),
        nigh_delete(forked->client, &id, 1, NULL),
        nigh_evict(forked->client, 1, &freed),
        nigh_refresh(forked->client, &id, 1),
        nigh_pin(forked->client, &id),
        nigh_stat(forked->client, &id, &info),
        nigh_list(forked->client, &cursor, &info, 1, &count),
        nigh_holders(forked->client, NULL, 0, &count),
        nigh_get_start(forked->client, &id, 1, 0, &view, &op),
        nigh_subscribe(forked->client, 0),
        nigh_next_event(forked->client, 0, &event),
        nigh_client_arm(forked->client),
    };
    char text[128];
    nigh_client *own = NULL;

    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        if (statuses[i] != NIGH_FORKED) {
            fprintf(stderr, "call %zu: %s\n", i, nigh_status_name(statuses[i]));
            return 1;
        }
    }
    if (nigh_client_fd(forked->client) != -1 || nigh_poll(forked->client) != 0 ||
        nigh_client_error(forked->client, text, sizeof(text)) == 0) {
        return 2;
    }
    nigh_client_close(forked->client);
    /* It opens its own. */
    return forked->path != NULL && open_at(forked->path, &own) != NIGH_UNREACHABLE ? 3 : 0;
}

static void test_a_child_is_told(void **state)
{
    struct fake_node fake;
    nigh_client *client = NULL;
    nigh_create_options create = {.data_size = 10};
    nigh_writer writer;
    nigh_view view;
    uint8_t id[20] = {7}, other[20] = {8};
    char absent[108];
    struct forked forked = {.view = &view, .writer = &writer, .path = absent};

    (void)state;
    support_path(absent, sizeof(absent), "absent");
    fake_node_start(&fake, &(struct fake_options){0});
    fake_node_seal(&fake, id, "hello", 5);
    assert_int_equal(open_at(fake.path, &client), NIGH_OK);
    assert_int_equal(nigh_get(client, (nigh_id *)id, 1, 0, &view), NIGH_OK);
    assert_int_equal(nigh_create(client, (nigh_id *)other, &create, &writer), NIGH_OK);
    forked.client = client;
    assert_int_equal(support_join(support_fork(child_uses_client, &forked), 20000), 0);

    /* The parent goes on. */
    assert_memory_equal(view.data, "hello", 5);
    assert_int_equal(fake_node_pins(&fake), 1);
    assert_int_equal(nigh_release(client, &view), NIGH_OK);
    memset(writer.data, 1, 10);
    assert_int_equal(nigh_seal(client, &writer), NIGH_OK);
    nigh_client_close(client);
    fake_node_stop(&fake);
}

/* A clone that runs no atfork handler, and touches what was mapped: it is not there. */
static void test_a_raw_clone_is_told(void **state)
{
    struct fake_node fake;
    nigh_client *client = NULL;
    nigh_view view;
    uint8_t id[20] = {7};
    int status = 0;
    pid_t child;

    (void)state;
    fake_node_start(&fake, &(struct fake_options){0});
    fake_node_seal(&fake, id, "hello", 5);
    assert_int_equal(open_at(fake.path, &client), NIGH_OK);
    assert_int_equal(nigh_get(client, (nigh_id *)id, 1, 0, &view), NIGH_OK);
    child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
    if (child == 0) {
        unsigned char here;

        if (nigh_release(client, &view) != NIGH_FORKED) {
            _exit(1);
        }
        /* mincore says ENOMEM of what is not mapped. */
        _exit(syscall(SYS_mincore, (uintptr_t)view.data & ~(uintptr_t)4095, 4096, &here) == 0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(nigh_release(client, &view), NIGH_OK);
    nigh_client_close(client);
    fake_node_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_path_is_too_long),
        cmocka_unit_test(test_whose_right_lacks_is_told),
        cmocka_unit_test(test_environment_names_the_socket),
        cmocka_unit_test(test_refusals_tell_the_sentence),
        cmocka_unit_test(test_versions_that_do_not_fit),
        cmocka_unit_test(test_welcome_that_cannot_be),
        cmocka_unit_test(test_node_that_says_nothing),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_read_only_is_asked_for),
        cmocka_unit_test(test_open_and_close_leave_nothing),
        cmocka_unit_test(test_a_child_is_told),
        cmocka_unit_test(test_a_raw_clone_is_told),
        cmocka_unit_test(test_node_that_dies_when_asked),
        cmocka_unit_test(test_node_that_closes_is_asked_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
