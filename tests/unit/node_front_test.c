/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front door over one lane and a store that echoes: from a connection to a session and back,
 * step by step on one thread, with what the daemon's own tests cannot make happen.
 */
#include "support/support.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "memory/memfd.h"
#include "node/front.h"
#include "node_echo_store.h"

#define SESSIONS 2

static struct session_node_page page;
static struct extent_set extents; /* nobody has any */
static struct sessions sessions;
static struct pools pools;
static struct front front;
static struct keeper keeper;
static struct lane *lanes[1];
static struct store *store;
static int door, page_fd;
static uint64_t now_us = 1000;

static int set_up(void **state)
{
    struct front_config config = {.lanes = 1,
                                  .own_uid = getuid(),
                                  .extents = &extents,
                                  .sessions = &sessions,
                                  .pools = &pools};
    struct lane_config lane = {
        .lanes = 1, .max_sessions = SESSIONS, .page = &page, .store = {.incarnation = 1}};

    (void)state;
    keeper.socket_fd = -1;
    config.keeper = &keeper;
    extents.extent_bytes = LIMIT_EXTENT_BYTES_MIN;
    assert_int_equal(memfd_create_sealed("page", 4096, 0, &page_fd), NIGH_OK);
    config.page_read_fd = page_fd;
    assert_int_equal(sessions_init(&sessions, SESSIONS, 1), NIGH_OK);
    pools_init(&pools, 1, 16);
    front_init(&front, &config);
    lane.front = &front.guest;
    assert_int_equal(lane_create(&lane, &lanes[0]), NIGH_OK);
    store = lane_store(lanes[0]);
    assert_int_equal(front_open(&front, lanes, -1), NIGH_OK);
    assert_int_equal(front_open_door(&front, &door), NIGH_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    front_say_bye(&front, NIGH_NODE_LOST, "the test ends");
    front_fini(&front);
    close(door);
    lane_destroy(lanes[0]);
    sessions_fini(&sessions);
    pools_fini(&pools);
    close(page_fd);
    return 0;
}

/* What the lane's thread does between two sleeps: it looks at its descriptors and takes a turn. */
static void step(void)
{
    for (int i = 0; i < 8; i++) {
        lane_poll(lanes[0]);
        (void)lane_turn(lanes[0], ++now_us);
    }
}

static int connect_client(void)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(front_attach(door, pair[0]), NIGH_OK);
    return pair[1];
}

static void say_hello(int fd)
{
    struct session_hello hello = {.header = {.magic = SESSION_MAGIC, .kind = SESSION_HELLO},
                                  .version_min = SESSION_VERSION_MIN,
                                  .version_max = SESSION_VERSION_MAX};

    assert_int_equal(send(fd, &hello, sizeof(hello), 0), sizeof(hello));
}

/* The node's answer, without its descriptors; fails the test when there is none. */
static struct session_welcome take_answer(int fd)
{
    struct session_welcome welcome;
    int fds[SESSION_WELCOME_FDS(1)];
    size_t size = 0, count = 0;

    assert_int_equal(
        fd_recv_message(fd, &welcome, sizeof(welcome), &size, fds, SESSION_WELCOME_FDS(1), &count),
        NIGH_OK);
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    return welcome;
}

static void a_hello_becomes_a_session_and_ends(void **state)
{
    int fd = connect_client();
    char byte;

    (void)state;
    step();
    assert_int_equal(sessions.count, 0);
    say_hello(fd);
    step();
    assert_int_equal(take_answer(fd).status, NIGH_OK);
    assert_int_equal(sessions.count, 1);
    close(fd);
    step();
    assert_int_equal(sessions.count, 0);
    fd = connect_client();
    close(fd);
    step();
    fd = connect_client();
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    close(fd);
}

/* A client need not write what can never be sealed: it is told what bounds one object. */
static void a_session_is_told_its_quotas(void **state)
{
    const struct session_front *told;
    int fd = connect_client();

    (void)state;
    say_hello(fd);
    step();
    close(fd);
    step();
    front.config.session_quota_bytes = 1 << 20;
    pools.pools[0]->rules.quota_bytes = 3 << 20;
    fd = connect_client();
    say_hello(fd);
    step();
    assert_int_equal(take_answer(fd).status, NIGH_OK);
    assert_int_equal(sessions.slots[0].state, NODE_SESSION_OPEN);
    told = session_front_of(sessions.slots[0].seat.memory);
    assert_int_equal(shared_load_relaxed(&told->session_quota_bytes), 1 << 20);
    assert_int_equal(shared_load_relaxed(&told->pool_quota_bytes), 3 << 20);
    close(fd);
    step();
}

static char last_line[LOG_LINE_BYTES];

static void take_line(void *context, enum log_level level, const char *line, size_t length)
{
    (void)context;
    (void)level;
    memcpy(last_line, line, length + 1);
}

/* The sentence names the pool in quotes, and stands in quotes itself. */
static void a_refusal_is_logged_in_one_field(void **state)
{
    static const struct log_sink sink = {.write = take_line};
    struct session_hello hello = {.header = {.magic = SESSION_MAGIC, .kind = SESSION_HELLO},
                                  .version_min = SESSION_VERSION_MIN,
                                  .version_max = SESSION_VERSION_MAX,
                                  .pool = "none"};
    int fd = connect_client();

    (void)state;
    assert_int_equal(send(fd, &hello, sizeof(hello), 0), sizeof(hello));
    log_set_sink(&sink);
    step();
    log_set_sink(NULL);
    assert_int_equal(take_answer(fd).status, NIGH_NOT_FOUND);
    assert_non_null(strstr(last_line, " why=\"there is no pool \\\"none\\\"; declare it in"));
    close(fd);
}

static void a_pool_that_a_lane_could_not_add_is_tried_again(void **state)
{
    int fd = connect_client();

    (void)state;
    store->pools_to_fail = 1;
    say_hello(fd);
    step();
    assert_int_equal(take_answer(fd).status, NIGH_NOT_FOUND);
    assert_int_equal(sessions.count, 0);
    assert_int_equal(pools.count, 1);
    close(fd);
    fd = connect_client();
    say_hello(fd);
    step();
    assert_int_equal(take_answer(fd).status, NIGH_OK);
    assert_int_equal(pools.pools[0]->failed_lanes, 0);
    close(fd);
    step();
}

static void a_client_that_vanishes_before_its_welcome_leaves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        int fd = connect_client();

        say_hello(fd);
        close(fd);
        step();
        assert_int_equal(sessions.count, 0);
    }
}

static void one_more_than_may_be_is_refused(void **state)
{
    int fds[SESSIONS + 1];

    (void)state;
    for (int i = 0; i <= SESSIONS; i++) {
        fds[i] = connect_client();
        say_hello(fds[i]);
        step();
        assert_int_equal(take_answer(fds[i]).status, i < SESSIONS ? NIGH_OK : NIGH_LIMIT);
    }
    for (int i = 0; i <= SESSIONS; i++)
        close(fds[i]);
    step();
    assert_int_equal(sessions.count, 0);
}

static void a_silent_connection_is_closed_in_time(void **state)
{
    int fd = connect_client();
    char byte;

    (void)state;
    step();
    now_us += support_now_us(); /* the front door's deadlines are of the real clock */
    step();
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    now_us += 3 * LIMIT_FRONT_HELLO_US;
    step();
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
    close(fd);
}

/* The first message of a client that comes back, of what a welcome told it. */
static void say_hello_again(int fd, const struct session_welcome *welcome)
{
    struct session_hello hello = {.header = {.magic = SESSION_MAGIC, .kind = SESSION_HELLO},
                                  .version_min = SESSION_VERSION_MIN,
                                  .version_max = SESSION_VERSION_MAX,
                                  .flags = SESSION_HELLO_RESUME,
                                  .session = welcome->session};

    memcpy(hello.token, welcome->token, sizeof(hello.token));
    assert_int_equal(send(fd, &hello, sizeof(hello), 0), sizeof(hello));
}

static void say_bye(int fd)
{
    struct session_message_header bye = {.magic = SESSION_MAGIC, .kind = SESSION_BYE};

    assert_int_equal(send(fd, &bye, sizeof(bye), 0), sizeof(bye));
}

/* Sessions survive their connections from here on, as with a keeper. */
static struct state *begin_to_keep(int *state_fd)
{
    struct state *kept;

    assert_int_equal(state_create(state_fd, &kept), NIGH_OK);
    front.config.state = kept;
    return kept;
}

static void end_keeping(struct state *kept, int state_fd)
{
    front.config.state = NULL;
    state_unmap(kept);
    close(state_fd);
}

/* The node sees the end of another process. */
static void take_for_another_process(struct node_session *session)
{
    session->pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    assert_true(session->pidfd >= 0);
}

/* The kernel tells of a peer that left something unread before what that said last. */
static void a_bye_counts_of_who_left_something_unread(void **state)
{
    int state_fd, fd = connect_client();
    struct state *kept = begin_to_keep(&state_fd);

    (void)state;
    say_hello(fd);
    step();
    take_for_another_process(&sessions.slots[0]);
    assert_int_equal(sessions.count, 1);
    say_bye(fd);
    close(fd);
    step();
    assert_int_equal(sessions.count, 0);
    end_keeping(kept, state_fd);
}

/* One that was away says that it does not come back, and does not wait for an answer. */
static void a_client_comes_back_to_say_bye(void **state)
{
    struct session_welcome welcome;
    int state_fd, fd = connect_client();
    struct state *kept = begin_to_keep(&state_fd);

    (void)state;
    say_hello(fd);
    step();
    take_for_another_process(&sessions.slots[0]);
    welcome = take_answer(fd);
    close(fd);
    step();
    assert_int_equal(sessions.count, 1); /* without a word: it may come back */
    fd = connect_client();
    say_hello_again(fd, &welcome);
    say_bye(fd);
    close(fd);
    step();
    assert_int_equal(sessions.count, 0);
    end_keeping(kept, state_fd);
}

/* A first message that brings a descriptor, which stays in the connection. *left becomes the end of
 * a pipe that is hung up when the kernel has let go of it. */
static int leave_one(int *left)
{
    int fd = connect_client(), ends[2];
    char byte = 1;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fd_send_message(fd, &byte, sizeof(byte), &ends[1], 1), NIGH_OK);
    close(ends[1]);
    *left = ends[0];
    return fd;
}

static bool is_let_go(int left, int timeout_ms)
{
    struct pollfd look = {.fd = left};

    return poll(&look, 1, timeout_ms) == 1;
}

/* No thread is to be had: none has a stack of that size. */
static void allow_threads(bool is_allowed)
{
    static pthread_attr_t before;
    pthread_attr_t attr;

    if (is_allowed) {
        assert_int_equal(pthread_setattr_default_np(&before), 0);
        return;
    }
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, (size_t)1 << 60), 0);
    assert_int_equal(pthread_setattr_default_np(&attr), 0);
    pthread_attr_destroy(&attr);
}

static void turn_until_let_go(int left)
{
    while (!is_let_go(left, 10)) {
        now_us += LIMIT_DISPOSAL_LOOK_US;
        step();
    }
}

/* The lane lets go of nothing itself, whatever that costs: it goes on, and tries again. Its door is
 * shut before its descriptors are used up. */
static void what_no_thread_can_be_had_for_waits(void **state)
{
    int fds[LIMIT_CLOSING_WAITS], left[LIMIT_CLOSING_WAITS], fd;
    struct session_welcome none;
    size_t size, count;

    (void)state;
    allow_threads(false);
    for (int i = 0; i < LIMIT_CLOSING_WAITS; i++) {
        fds[i] = leave_one(&left[i]);
        step();
        assert_int_equal(take_answer(fds[i]).status, NIGH_PROTOCOL);
        assert_int_equal(fd_recv_message(fds[i], &none, sizeof(none), &size, NULL, 0, &count),
                         NIGH_CLOSED);
        assert_false(is_let_go(left[i], 0));
    }
    fd = connect_client();
    say_hello(fd);
    now_us += LIMIT_DISPOSAL_LOOK_US;
    step();
    assert_int_equal(sessions.count, 0);
    allow_threads(true);
    for (int i = 0; i < LIMIT_CLOSING_WAITS; i++) {
        turn_until_let_go(left[i]);
        close(left[i]);
        close(fds[i]);
    }
    step();
    assert_int_equal(sessions.count, 1);
    assert_int_equal(take_answer(fd).status, NIGH_OK);
    close(fd);
    step();
}

/* Who closes a connection has nothing of the process, not for a moment. To close the descriptor of
 * a queue, in whatever table, is to hear of its messages no more. */
static void who_closes_has_had_nothing_else(void **state)
{
    static const char name[] = "/nigh-node-front";
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600, NULL);
    int fd, left;

    (void)state;
    assert_true(queue >= 0 && queue < 64);
    mq_unlink(name);
    assert_int_equal(mq_notify(queue, &event), 0);
    fd = leave_one(&left);
    step();
    turn_until_let_go(left);
    assert_int_equal(mq_notify(queue, &event), -1);
    assert_int_equal(errno, EBUSY);
    mq_close(queue);
    close(left);
    close(fd);
}

#define FRONT_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRONT_TEST(a_hello_becomes_a_session_and_ends),
        FRONT_TEST(a_session_is_told_its_quotas),
        FRONT_TEST(a_refusal_is_logged_in_one_field),
        FRONT_TEST(a_pool_that_a_lane_could_not_add_is_tried_again),
        FRONT_TEST(a_client_that_vanishes_before_its_welcome_leaves_nothing),
        FRONT_TEST(one_more_than_may_be_is_refused),
        FRONT_TEST(a_silent_connection_is_closed_in_time),
        FRONT_TEST(a_bye_counts_of_who_left_something_unread),
        FRONT_TEST(a_client_comes_back_to_say_bye),
        FRONT_TEST(what_no_thread_can_be_had_for_waits),
        FRONT_TEST(who_closes_has_had_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
