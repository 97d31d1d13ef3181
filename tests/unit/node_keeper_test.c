/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's protocol, against a stand-in of the service manager: what is said, in which words,
 * and what is taken over at start. And the state file that makes sense of it. */
#include "support/support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "memory/memfd.h"
#include "node/keeper.h"
#include "node/node_internal.h"
#include "node/state.h"

static int manager; /* the stand-in's socket */
static char why[512];

/* In the place of libc's: of the messages from now on this one is lost, because the manager did not
 * read just then; 0: none. */
static int lost;

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (lost > 0 && --lost == 0) {
        errno = EAGAIN;
        return -1;
    }
    return syscall(SYS_sendmsg, fd, message, flags);
}

static void clear_environment(void)
{
    unsetenv("NOTIFY_SOCKET");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    unsetenv(KEEPER_HOLDER_VARIABLE);
}

static int set_up(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    (void)state;
    clear_environment();
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    support_path(address.sun_path, sizeof(address.sun_path), "notify");
    unlink(address.sun_path);
    assert_int_equal(bind(manager, (struct sockaddr *)&address, sizeof(address)), 0);
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    clear_environment();
    close(manager);
    return 0;
}

/* The next message and its descriptor (-1: none); false: there is none. */
static bool take_message(char *text, size_t size_bytes, int *fd)
{
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {.iov_base = text, .iov_len = size_bytes - 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    ssize_t size = recvmsg(manager, &message, 0);
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    if (size < 0)
        return false;
    text[size] = '\0';
    *fd = -1;
    if (header != NULL && header->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(header), sizeof(*fd));
    return true;
}

static void without_a_manager_nothing_is_said(void **state)
{
    struct keeper keeper;

    (void)state;
    clear_environment();
    assert_int_equal(keeper_open(&keeper, why, sizeof(why)), NIGH_OK);
    assert_false(keeper_is_there(&keeper));
    assert_int_equal(keeper_store(&keeper, "a", 0), NIGH_OK);
    keeper_remove(&keeper, "a");
    keeper_say_ready(&keeper);
    keeper_close(&keeper);
}

static void a_descriptor_is_stored_by_name(void **state)
{
    struct keeper keeper;
    char text[256];
    int pair[2], fd;
    char byte = 0;

    (void)state;
    assert_int_equal(keeper_open(&keeper, why, sizeof(why)), NIGH_OK);
    assert_true(keeper_is_there(&keeper));
    assert_null(getenv("NOTIFY_SOCKET"));
    assert_int_equal(pipe(pair), 0);
    assert_int_equal(keeper_store(&keeper, "extent-7", pair[0]), NIGH_OK);
    assert_true(take_message(text, sizeof(text), &fd));
    assert_string_equal(text, "FDSTORE=1\nFDNAME=extent-7\nFDPOLL=0\n");
    assert_int_equal(write(pair[1], "x", 1), 1);
    assert_int_equal(read(fd, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(fd);
    close(pair[0]);
    close(pair[1]);
    keeper_close(&keeper);
}

static void the_rest_of_the_words(void **state)
{
    struct keeper keeper;
    char text[256];
    int fd;

    (void)state;
    assert_int_equal(keeper_open(&keeper, why, sizeof(why)), NIGH_OK);
    keeper_remove(&keeper, "session-3");
    keeper_say_ready(&keeper);
    keeper_say_stopping(&keeper);
    assert_true(take_message(text, sizeof(text), &fd));
    assert_string_equal(text, "FDSTOREREMOVE=1\nFDNAME=session-3\n");
    assert_true(take_message(text, sizeof(text), &fd));
    assert_int_equal(strncmp(text, "READY=1\n", 8), 0);
    assert_true(take_message(text, sizeof(text), &fd));
    assert_int_equal(strncmp(text, "STOPPING=1\n", 11), 0);
    keeper_close(&keeper);
}

static void a_manager_that_does_not_read_is_not_waited_for_long(void **state)
{
    struct keeper keeper;
    nigh_status status = NIGH_OK;
    uint64_t start_us = support_now_us();
    char text[256];
    int fd;

    (void)state;
    assert_int_equal(keeper_open(&keeper, why, sizeof(why)), NIGH_OK);
    for (int i = 0; i < 100000 && status == NIGH_OK; i++)
        status = keeper_store(&keeper, "a", 0);
    assert_int_equal(status, NIGH_BUSY);
    assert_true(support_now_us() - start_us < 20 * 1000 * KEEPER_WAIT_MS);
    /* From now on it is not waited for at all, until it reads again. */
    start_us = support_now_us();
    for (int i = 0; i < 50; i++)
        assert_int_equal(keeper_store(&keeper, "a", 0), NIGH_BUSY);
    assert_true(support_now_us() - start_us < 20 * 1000 * KEEPER_WAIT_MS);
    while (take_message(text, sizeof(text), &fd))
        close(fd);
    assert_int_equal(keeper_store(&keeper, "b", 0), NIGH_OK);
    assert_true(take_message(text, sizeof(text), &fd));
    assert_non_null(strstr(text, "FDNAME=b"));
    close(fd);
    keeper_close(&keeper);
}

static void a_socket_that_nobody_listens_on_is_said(void **state)
{
    static const char *const paths[] = {"/nonexistent/notify", "relative", "@nobody-here", "/"};
    struct keeper keeper;

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        setenv("NOTIFY_SOCKET", paths[i], 1);
        assert_int_equal(keeper_open(&keeper, why, sizeof(why)), NIGH_INVALID);
        assert_non_null(strstr(why, paths[i]));
        keeper_close(&keeper);
    }
}

/* In a child, because descriptors from 3 on are the test program's own. */
static int take_over(void *argument)
{
    const char *names = argument;
    struct keeper keeper;
    char number[16];
    int first, second, ok;

    for (int fd = 3; fd < 6; fd++) {
        int file = open("/dev/null", O_RDONLY);

        if (file != fd && (dup2(file, fd) != fd || close(file) != 0))
            return 10;
    }
    snprintf(number, sizeof(number), "%d", (int)getpid());
    setenv("LISTEN_PID", number, 1);
    setenv("LISTEN_FDS", "3", 1);
    setenv("LISTEN_FDNAMES", names, 1);
    clear_environment();
    setenv("LISTEN_PID", number, 1);
    setenv("LISTEN_FDS", "3", 1);
    setenv("LISTEN_FDNAMES", names, 1);
    if (keeper_open(&keeper, why, sizeof(why)) != NIGH_OK || keeper.count != 3)
        return 11;
    if (getenv("LISTEN_FDS") != NULL || (fcntl(3, F_GETFD) & FD_CLOEXEC) == 0)
        return 12;
    first = keeper_take(&keeper, "state");
    second = keeper_take(&keeper, "state");
    ok = first == 4 && second == -1 && keeper_take(&keeper, "other") == -1;
    keeper_close(&keeper);
    return ok && fcntl(3, F_GETFD) < 0 && fcntl(4, F_GETFD) >= 0 ? 0 : 13;
}

/* Two of a name: nobody knows which is meant, and the other may be another pool's memory. */
static int take_twins(void *argument)
{
    struct keeper_item items[] = {{"extent-1", -1}, {"state", -1}, {"extent-1", -1}};
    struct keeper keeper = {.socket_fd = -1, .items = items, .count = 3};

    (void)argument;
    for (size_t i = 0; i < 3; i++)
        items[i].fd = open("/dev/null", O_RDONLY);
    if (keeper_take(&keeper, "extent-1") != KEEPER_TWICE || items[0].fd < 0 || items[2].fd < 0)
        return 10;
    return keeper_take(&keeper, "state") >= 0 && items[1].fd == -1 ? 0 : 11;
}

static void what_was_kept_twice_is_not_taken_over(void **state)
{
    (void)state;
    assert_int_equal(support_join(support_fork(take_twins, NULL), 20000), 0);
}

static void what_was_kept_is_taken_over_by_name(void **state)
{
    static char names[] = "extent-1:state:a-name-that-is-longer-than-any-of-ours-could-be";

    (void)state;
    assert_int_equal(support_join(support_fork(take_over, names), 20000), 0);
}

static void what_is_for_another_process_is_left_alone(void **state)
{
    struct keeper keeper;

    (void)state;
    setenv("LISTEN_PID", "1", 1);
    setenv("LISTEN_FDS", "3", 1);
    assert_int_equal(keeper_open(&keeper, why, sizeof(why)), NIGH_OK);
    assert_int_equal(keeper.count, 0);
    keeper_close(&keeper);
    setenv("LISTEN_PID", "rubbish", 1);
    setenv("LISTEN_FDS", "-5", 1);
    assert_int_equal(keeper_open(&keeper, why, sizeof(why)), NIGH_OK);
    assert_int_equal(keeper.count, 0);
    keeper_close(&keeper);
}

/* ---- extents that change while the keeper does not read ---- */

#define EXTENT LIMIT_EXTENT_BYTES_MIN
#define OWNER  extent_owner(0, 1000)

static struct nigh_node *node_begin(struct keeper *keeper)
{
    struct extent_options options = {
        .memory_bytes = 8 * EXTENT, .extent_bytes = EXTENT, .lanes = 1, .huge = EXTENT_HUGE_NEVER};
    struct nigh_node *node = calloc(1, sizeof(*node));

    int pair[2];

    assert_non_null(node);
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair), 0);
    close(manager);
    manager = pair[1];
    *keeper = (struct keeper){.socket_fd = pair[0]};
    node->keeper = keeper;
    node->settings.lanes = 1;
    if (extent_set_create(&options, &node->extents, why, sizeof(why)) != NIGH_OK)
        fail_msg("%s", why);
    assert_int_equal(memfd_create_sealed("page", 4096, 0, &node->page_fd), NIGH_OK);
    assert_int_equal(node_state_begin(node), NIGH_OK);
    return node;
}

static void node_end(struct nigh_node *node)
{
    extent_set_destroy(node->extents);
    state_unmap(node->state);
    close(node->state_fd);
    close(node->page_fd);
    keeper_close(node->keeper);
    free(node);
}

/* The manager acts on what was said; how many descriptors of a name it has more, or 0: none. */
static int act(const char *name, int stored)
{
    char text[256], line[64];
    int fd;

    snprintf(line, sizeof(line), "FDNAME=%s\n", name);
    while (take_message(text, sizeof(text), &fd)) {
        if (strstr(text, line) != NULL)
            stored = strncmp(text, "FDSTOREREMOVE", 13) == 0 ? 0 : stored + 1;
        if (fd >= 0)
            close(fd);
    }
    return stored;
}

static void stuff(struct keeper *keeper)
{
    for (int i = 0; i < 100000 && keeper_store(keeper, "stuffing", 0) == NIGH_OK; i++)
        ;
}

/* A removal is lost, and the number used again: the keeper must not hand two memories under one
 * name to the next node. */
static void a_number_that_is_used_again_is_kept_once(void **state)
{
    struct keeper keeper;
    struct nigh_node *node = node_begin(&keeper);
    const struct state_extent *record = &node->state->extents[0];
    uint32_t first;
    int stored = act("extent-0", 0);

    (void)state;
    assert_int_equal(stored, 1);
    assert_int_equal(extent_take(node->extents, 0, OWNER, 1, &first), NIGH_OK);
    assert_int_equal(extent_move(node->extents, 0, 8), NIGH_OK);
    stored = act("extent-0", stored);
    assert_int_equal(stored, 1);
    stuff(&keeper);
    assert_int_equal(keeper_remove(&keeper, "extent-0"), NIGH_BUSY);
    extent_forget(node->extents, 0, 0);
    assert_int_equal(record->absence, EXTENT_UNUSED);
    stored = act("extent-0", stored);
    assert_int_equal(stored, 1); /* still the old one */

    /* While it does not read, what comes to the number is not kept. */
    stuff(&keeper);
    assert_int_equal(extent_move(node->extents, 8, 0), NIGH_OK);
    assert_int_equal(record->present, 0);
    assert_int_equal(record->absence, EXTENT_SPENT);
    stored = act("extent-0", stored);
    assert_int_equal(stored, 1);

    /* Once it reads, it is, alone. */
    assert_int_equal(extent_move(node->extents, 0, 8), NIGH_OK);
    (void)act("extent-0", stored);
    assert_int_equal(extent_move(node->extents, 8, 0), NIGH_OK);
    assert_int_equal(record->present, 1);
    assert_int_equal(act("extent-0", stored), 1);
    node_end(node);
}

/* The same where only the removals are lost, and what is stored would not be. */
static void what_could_not_be_removed_has_nothing_stored_beside_it(void **state)
{
    struct keeper keeper;
    struct nigh_node *node = node_begin(&keeper);
    const struct state_extent *record = &node->state->extents[0];
    int stored = act("extent-0", 0);

    (void)state;
    lost = 1; /* of number 0, that its memory went */
    assert_int_equal(extent_move(node->extents, 0, 8), NIGH_OK);
    assert_int_equal(lost, 0);
    assert_int_equal(record->absence, EXTENT_UNUSED);
    stored = act("extent-0", stored);
    assert_int_equal(stored, 1);
    lost = 2; /* number 8 is removed, and number 0 is not */
    assert_int_equal(extent_move(node->extents, 8, 0), NIGH_OK);
    assert_int_equal(lost, 0);
    assert_int_equal(act("extent-0", stored), 1);
    assert_int_equal(record->present, 0);
    assert_int_equal(record->absence, EXTENT_SPENT);
    node_end(node);
}

static uint64_t pages_of(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

/* A node that was killed while memory moved: a number without memory has pages, and another is
 * known to the keeper only. The next node has no more memory than it may. */
static void memory_that_was_moving_is_not_there_twice(void **state)
{
    static struct keeper_item items[16];
    struct keeper keeper, again = {.socket_fd = -1, .items = items};
    struct nigh_node *node = node_begin(&keeper), *later = calloc(1, sizeof(*later));
    struct pool_rules rules = {.name = "a", .mode = 0600};
    uint32_t first;
    int orphan;

    (void)state;
    state_put_pool(node->state, 0, &rules);
    assert_int_equal(extent_take(node->extents, 0, OWNER, 1, &first), NIGH_OK);
    assert_int_equal(extent_move(node->extents, first, 8), NIGH_OK);
    assert_int_equal(memfd_populate(node->extents->extents[first].fd, EXTENT), NIGH_OK);
    for (uint32_t i = 0; i <= 8; i++) {
        snprintf(items[i].name, sizeof(items[i].name), "extent-%u", i);
        items[i].fd = dup(node->extents->extents[i].fd);
    }
    assert_int_equal(memfd_create_sealed("orphan", EXTENT, 0, &orphan), NIGH_OK);
    items[9] = (struct keeper_item){"extent-9", dup(orphan)};
    again.count = 10;
    assert_int_equal(pages_of(orphan), EXTENT);

    assert_non_null(later);
    later->keeper = &again;
    later->settings = node->settings;
    later->settings.extent_bytes = EXTENT;
    later->state = node->state;
    assert_int_equal(node_adopt_memory(later, why, sizeof(why)), NIGH_OK);
    assert_int_equal(later->extents->memory_bytes, 8 * EXTENT);
    assert_true(extent_is_dormant(later->extents, first, OWNER));
    assert_int_equal(pages_of(later->extents->extents[first].fd), 0);
    assert_int_equal(pages_of(later->extents->extents[8].fd), EXTENT);
    assert_int_equal(pages_of(orphan), 0);
    close(orphan);
    extent_set_destroy(later->extents);
    close(items[9].fd);
    free(later);
    node_end(node);
}

/* ---- the state file ---- */

static void fill_shape(struct state *state)
{
    state->shape = (struct state_shape){.memory_bytes = 64 << 20,
                                        .extent_bytes = 2 << 20,
                                        .max_objects = 1000,
                                        .lanes = 2,
                                        .entries_a_lane = 600,
                                        .max_sessions = 8};
}

static void records_count_only_when_they_are_whole(void **state)
{
    struct pool_rules rules = {.name = "a", .owner_uid = 5, .mode = 0640, .strict = true}, read;
    struct state_session session = {.session_id = 9, .pid = 77};
    struct state *file;
    int fd;

    (void)state;
    assert_int_equal(state_create(&fd, &file), NIGH_OK);
    assert_false(state_get_pool(file, 0, &read));
    state_put_pool(file, 0, &rules);
    assert_true(state_get_pool(file, 0, &read));
    assert_memory_equal(&read, &rules, sizeof(rules));
    memset(file->pools[0].name, 'x', sizeof(file->pools[0].name));
    assert_false(state_get_pool(file, 0, &read));
    state_put_session(file, 3, &session);
    assert_int_equal(file->sessions[3].valid, 1);
    assert_int_equal(file->sessions[3].pid, 77);
    state_drop_session(file, 3);
    assert_int_equal(file->sessions[3].valid, 0);
    state_unmap(file);
    close(fd);
}

static void a_state_is_adopted_only_when_it_makes_sense(void **state)
{
    struct state *file, *again;
    int fd;

    (void)state;
    assert_int_equal(state_create(&fd, &file), NIGH_OK);
    fill_shape(file);
    assert_int_equal(state_adopt(fd, &again, why, sizeof(why)), NIGH_PROTOCOL); /* not published */
    state_publish(file);
    assert_int_equal(state_adopt(fd, &again, why, sizeof(why)), NIGH_OK);
    assert_int_equal(again->shape.lanes, 2);
    state_unmap(again);
    file->format = STATE_FORMAT + 1;
    assert_int_equal(state_adopt(fd, &again, why, sizeof(why)), NIGH_VERSION);
    assert_non_null(strstr(why, "format 3"));
    file->format = 0;
    assert_int_equal(state_adopt(fd, &again, why, sizeof(why)), NIGH_VERSION);
    /* The format before, which says less: it stays so until all of it is taken over. */
    file->format = STATE_FORMAT_OLD;
    assert_int_equal(state_adopt(fd, &again, why, sizeof(why)), NIGH_OK);
    assert_int_equal(again->format, STATE_FORMAT_OLD);
    state_unmap(again);
    file->shape.lanes = 3;
    assert_int_equal(state_adopt(fd, &again, why, sizeof(why)), NIGH_PROTOCOL);
    assert_int_equal(state_adopt(0, &again, why, sizeof(why)), NIGH_PROTOCOL);
    state_unmap(file);
    close(fd);
}

#define MANAGED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MANAGED(without_a_manager_nothing_is_said),
        MANAGED(a_descriptor_is_stored_by_name),
        MANAGED(the_rest_of_the_words),
        MANAGED(a_manager_that_does_not_read_is_not_waited_for_long),
        MANAGED(a_socket_that_nobody_listens_on_is_said),
        MANAGED(what_was_kept_is_taken_over_by_name),
        MANAGED(what_was_kept_twice_is_not_taken_over),
        MANAGED(what_is_for_another_process_is_left_alone),
        MANAGED(a_number_that_is_used_again_is_kept_once),
        MANAGED(what_could_not_be_removed_has_nothing_stored_beside_it),
        MANAGED(memory_that_was_moving_is_not_there_twice),
        MANAGED(records_count_only_when_they_are_whole),
        MANAGED(a_state_is_adopted_only_when_it_makes_sense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
