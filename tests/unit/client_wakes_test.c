/* SPDX-License-Identifier: Apache-2.0 */
/* Wake-ups: whoever sleeps hears of what comes, whatever came between looking and lying down. Those
 * schedules are forced: what a client sleeps with and reads its socket with is the program's own.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/client_internal.h"
#include "client/pairs.h"
#include "client_fixture.h"
#include "client_pair.h"

#define SLOW_MS 20000

/* What happens before this thread sleeps next, or reads a socket; once. */
static _Thread_local struct between {
    void (*happens)(void *context);
    void *context;
} before_sleep, before_read;

/* What its last sleep came to; 0: only the time passed. */
static _Thread_local int slept;

static void happen(struct between *between)
{
    struct between now = *between;

    between->happens = NULL;
    if (now.happens != NULL) {
        now.happens(now.context);
    }
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    struct timespec left = {0}; /* the kernel writes there */

    if (timeout != NULL) {
        left = *timeout;
    }
    happen(&before_sleep);
    slept = (int)syscall(SYS_ppoll, fds, count, timeout != NULL ? &left : NULL, mask, NSIG / 8);
    return slept;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    happen(&before_read);
    return (ssize_t)syscall(SYS_recvmsg, fd, message, flags);
}

static bool is_readable(int fd, int wait_ms)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};

    return poll(&readable, 1, wait_ms) == 1;
}

/* ---- one thread sleeps for all ------------------------------------------------------------ */

struct looker {
    struct fixture *fixture;
    bool was_poked, was_taken;
};

static void *look_for_events(void *context)
{
    struct looker *looker = context;
    nigh_client *client = looker->fixture->client;
    nigh_event event;

    looker->was_taken = SUPPORT_WAIT(nigh_next_event(client, 0, &event) == NIGH_TIMEOUT &&
                                         !is_readable(client->socket_fd, 0),
                                     SLOW_MS);
    return NULL;
}

/* What the sleeper waits for comes, and the poke that says so is read by another thread, which has
 * no use for it. */
static void take_the_poke(void *context)
{
    struct looker *looker = context;
    pthread_t thread;

    seal(looker->fixture, 1, "one");
    looker->was_poked = is_readable(looker->fixture->client->socket_fd, SLOW_MS);
    if (pthread_create(&thread, NULL, look_for_events, looker) == 0) {
        (void)pthread_join(thread, NULL);
    }
}

static void test_a_poke_is_handed_on_to_who_sleeps(void **state)
{
    struct fixture f;
    struct looker looker = {.fixture = &f};
    nigh_id id = id_of(1);
    nigh_view view;

    (void)state;
    start(&f, &(struct fake_options){0});
    assert_int_equal(nigh_subscribe(f.client, 0), NIGH_OK);
    before_sleep = (struct between){take_the_poke, &looker};
    assert_int_equal(nigh_get(f.client, &id, 1, SLOW_MS * 1000, &view), NIGH_OK);
    assert_true(looker.was_poked);
    assert_true(looker.was_taken);
    assert_int_not_equal(slept, 0);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    stop(&f);
}

/* ---- the program sleeps on the descriptor ------------------------------------------------- */

/* The node has done with what it answered: a poke that it still owed would ring in the place of
 * what is tested. It holds the lock while it works. */
static void settle(struct fixture *f)
{
    fake_node_lock(&f->fake);
    fake_node_unlock(&f->fake);
}

static void send_event(struct fixture *f)
{
    const struct session_event event = {.kind_meta = NIGH_EVENT_SEALED};

    fake_node_lock(&f->fake);
    fake_node_event(&f->fake, 0, &event);
    fake_node_unlock(&f->fake);
}

/* A poll looks at the completions, of which there are none, and takes the poke of an event out of
 * the socket. */
static void test_a_poll_leaves_an_event_its_bell(void **state)
{
    struct fixture f;
    nigh_event event;
    int fd;

    (void)state;
    start(&f, &(struct fake_options){0});
    fd = nigh_client_fd(f.client);
    assert_int_equal(nigh_subscribe(f.client, 0), NIGH_OK);
    settle(&f);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
        assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_TIMEOUT);
        assert_false(is_readable(fd, 0));
        send_event(&f);
        assert_true(is_readable(fd, SLOW_MS));
        f.client->socket_seen_us = 0; /* it is time to look there */
        assert_int_equal(nigh_poll(f.client), 0);
        assert_true(is_readable(fd, 0));
        assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_OK);
        assert_int_equal(event.kind, NIGH_EVENT_SEALED);
    }
    stop(&f);
}

/* What a poll waits for comes behind its look at the completions, and a thread that was about to
 * lead, and finds that it need not, has asked for the next poke. */
static void lead_in_passing(void *context)
{
    struct looker *looker = context;
    struct fixture *f = looker->fixture;

    seal(f, 1, "one");
    looker->was_poked = is_readable(f->client->socket_fd, SLOW_MS);
    shared_store_relaxed(&f->client->front->poke_wanted, 1);
}

static void test_a_poll_knows_what_it_has_read(void **state)
{
    struct fixture f;
    struct looker looker = {.fixture = &f};
    nigh_id id = id_of(1);
    nigh_view view;
    nigh_op op;
    int fd;

    (void)state;
    start(&f, &(struct fake_options){0});
    fd = nigh_client_fd(f.client);
    assert_int_equal(nigh_get_start(f.client, &id, 1, NIGH_FOREVER, &view, &op), NIGH_OK);
    settle(&f);
    assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
    assert_int_equal(nigh_poll(f.client), 0);
    assert_false(is_readable(fd, 0));
    f.client->socket_seen_us = 0;
    before_read = (struct between){lead_in_passing, &looker};
    assert_int_equal(nigh_poll(f.client), 1);
    assert_true(looker.was_poked);
    assert_int_equal(nigh_op_status(&op), NIGH_OK);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    stop(&f);
}

/* The end of file goes with whoever reads it: a poll or an arming, which counts nothing that ended,
 * leaves word. Once: the caller looks behind that. */
static void test_the_end_is_told_by_whoever_reads_it(void **state)
{
    struct fixture f;
    nigh_event event;
    int fd;

    (void)state;
    for (int by_arming = 0; by_arming < 2; by_arming++) {
        start(&f, &(struct fake_options){0});
        fd = nigh_client_fd(f.client);
        assert_int_equal(nigh_subscribe(f.client, 0), NIGH_OK);
        settle(&f);
        assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
        assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_TIMEOUT);
        assert_false(is_readable(fd, 0));
        fake_node_die(&f.fake, true);
        assert_true(is_readable(fd, SLOW_MS));
        f.client->socket_seen_us = 0;
        if (by_arming == 1) {
            assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
        } else {
            assert_int_equal(nigh_poll(f.client), 0);
        }
        assert_true(is_readable(fd, 0));
        assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
        assert_int_equal(nigh_poll(f.client), 0);
        assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_NODE_LOST);
        assert_false(is_readable(fd, 0));
        stop(&f);
    }
}

/* The node goes, for a call of this client to hear of. */
static void lose_node(struct fixture *f)
{
    nigh_id id = id_of(1);

    fake_node_die(&f->fake, true);
    assert_int_equal(nigh_pin(f->client, &id), NIGH_NODE_LOST);
}

/* It was armed while no node was there: the next one, which a later call finds, has been asked for
 * a poke all the same. */
static void test_the_next_node_is_asked_by_who_armed_before(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;
    nigh_op op;
    int fd;

    (void)state;
    start(&f, &(struct fake_options){0});
    fd = nigh_client_fd(f.client);
    lose_node(&f);
    shared_store_relaxed(&f.client->front->poke_wanted, 0); /* the last one did as it was asked */
    assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
    assert_int_equal(nigh_poll(f.client), 0);
    assert_false(is_readable(fd, 0));
    fake_node_return(&f.fake);
    assert_int_equal(nigh_get_start(f.client, &id, 1, NIGH_FOREVER, &view, &op), NIGH_OK);
    seal(&f, 1, "one");
    assert_true(is_readable(fd, SLOW_MS));
    assert_int_equal(nigh_wait(f.client, &op, SLOW_MS * 1000), NIGH_OK);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    stop(&f);
}

/* Another thread's call finds the next node: that events were missed is told, also where a poll
 * reads what that node pokes for its own sake. */
static void test_missed_events_are_told_to_who_sleeps(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_event event;
    int fd;

    (void)state;
    start(&f, &(struct fake_options){0});
    fd = nigh_client_fd(f.client);
    seal(&f, 1, "one");
    assert_int_equal(nigh_subscribe(f.client, 0), NIGH_OK);
    lose_node(&f);
    assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
    assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_NODE_LOST);
    assert_false(is_readable(fd, 0));
    fake_node_return(&f.fake);
    assert_int_equal(nigh_pin(f.client, &id), NIGH_OK);
    for (int round = 0; round < 2; round++) {
        settle(&f);
        f.client->socket_seen_us = 0;
        assert_int_equal(nigh_poll(f.client), 0);
    }
    assert_true(is_readable(fd, 0));
    assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
    assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_OK);
    assert_int_equal(event.kind, NIGH_EVENT_OVERFLOW);
    assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_TIMEOUT);
    assert_false(is_readable(fd, 0));
    stop(&f);
}

/* Calls that a pair has end by the client's own clock: each deadline is told, also of who does not
 * arm anew behind the first. */
static void test_each_deadline_of_a_pair_is_told(void **state)
{
    enum {
        CALLS = 3,
        APART_US = 100000
    };
    struct fixture f;
    nigh_call_spec specs[CALLS];
    nigh_op ops[CALLS];
    int fds[2], fd;

    (void)state;
    start(&f, &(struct fake_options){.rights = SESSION_HAS_PLACES});
    fd = nigh_client_fd(f.client);
    give_pair(&f.fake, f.client, "any", 0, fds);
    for (uint32_t n = 0; n < CALLS; n++) {
        specs[n] = (nigh_call_spec){
            .struct_size = sizeof specs[n], .service = "any", .rank = NIGH_ANY_RANK};
        assert_int_equal(nigh_call_start(f.client, &specs[n], (n + 1) * APART_US, &ops[n]),
                         NIGH_OK);
    }
    assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
    while (nigh_op_status(&ops[CALLS - 1]) == NIGH_PENDING) {
        assert_true(is_readable(fd, SLOW_MS));
        (void)nigh_poll(f.client);
    }
    for (uint32_t n = 0; n < CALLS; n++) {
        assert_int_equal(nigh_op_status(&ops[n]), NIGH_TIMEOUT);
    }
    stop(&f);
    fd_close(&fds[0]);
    fd_close(&fds[1]);
}

static void await_the_timer(void *context)
{
    const nigh_client *client = context;

    (void)is_readable(atomic_load(&client->pairs)->timer_fd, SLOW_MS);
}

/* Who leads reads the timer that was set for who sleeps on the descriptor: and its own call's
 * deadline, which comes first, is what it was set for. */
static void test_a_deadline_that_the_leader_hears_is_handed_on(void **state)
{
    enum {
        FIRST_US = 100000
    };
    struct fixture f;
    nigh_call_spec spec = {.struct_size = sizeof spec, .service = "any", .rank = NIGH_ANY_RANK},
                   other = spec;
    int fds[2], fd;
    nigh_op op;

    (void)state;
    start(&f, &(struct fake_options){.rights = SESSION_HAS_PLACES});
    fd = nigh_client_fd(f.client);
    give_pair(&f.fake, f.client, "any", 0, fds);
    assert_int_equal(nigh_call_start(f.client, &spec, 2 * FIRST_US, &op), NIGH_OK);
    assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
    before_sleep = (struct between){await_the_timer, f.client};
    assert_int_equal(nigh_call(f.client, &other, FIRST_US), NIGH_TIMEOUT);
    assert_null(before_sleep.happens);
    while (nigh_op_status(&op) == NIGH_PENDING) {
        assert_true(is_readable(fd, SLOW_MS));
        (void)nigh_poll(f.client);
    }
    assert_int_equal(nigh_op_status(&op), NIGH_TIMEOUT);
    stop(&f);
    fd_close(&fds[0]);
    fd_close(&fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_poke_is_handed_on_to_who_sleeps),
        cmocka_unit_test(test_a_poll_leaves_an_event_its_bell),
        cmocka_unit_test(test_a_poll_knows_what_it_has_read),
        cmocka_unit_test(test_the_end_is_told_by_whoever_reads_it),
        cmocka_unit_test(test_the_next_node_is_asked_by_who_armed_before),
        cmocka_unit_test(test_missed_events_are_told_to_who_sleeps),
        cmocka_unit_test(test_each_deadline_of_a_pair_is_told),
        cmocka_unit_test(test_a_deadline_that_the_leader_hears_is_handed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
