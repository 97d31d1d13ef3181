/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks in the middle of a client's work: the child is told NIGH_FORKED by every call, at once and
 * whatever the parent's other threads hold locked; nothing that the child does, its death included,
 * touches the parent's session; and nothing that it inherited outlives the parent's death.
 */
#include "crash/crash_world.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SETTLE_MS 20000
#define SOON_MS   20000 /* within which a child has made all its calls: none of them may wait */
#define THREADS   3u
#define FORKS     200u

static struct node_fixture node;

/* What a child inherits. */
struct parent {
    nigh_client *client;
    nigh_id id; /* sealed */
    nigh_view view;
    nigh_writer writer; /* created, not sealed */
    nigh_op op;         /* a get that waits */
    nigh_id later;      /* for this */
    nigh_view waiting;
    nigh_node_stats stats;
};

/* ---- every call ----------------------------------------------------------- */

/* Calls everything that takes a client; the number of the first call that did not say NIGH_FORKED,
 * 0 when all did. */
static int call_everything(struct parent *parent)
{
    nigh_client *client = parent->client;
    static nigh_put_item items[1];
    static nigh_object_info infos[1];
    nigh_create_options options = {.data_size = 10};
    nigh_holder holder;
    nigh_node_info info = {.struct_size = sizeof info};
    nigh_event event;
    nigh_view view;
    nigh_writer writer;
    nigh_id id = crash_id(5, 1, 10);
    uint64_t number = 0;
    uint32_t crc;
    size_t count;
    bool found;
    nigh_op op;
    char text[100];

    items[0] = (nigh_put_item){.id = id, .data = text, .data_size = 10};
    const nigh_status answers[] = {
        nigh_create(client, &id, &options, &writer),
        nigh_seal(client, &parent->writer),
        nigh_abort(client, &parent->writer),
        nigh_put(client, &id, text, 10, NULL),
        nigh_put_many(client, items, 1),
        nigh_get(client, &parent->id, 1, NIGH_FOREVER, &view),
        nigh_release(client, &parent->view),
        nigh_contains(client, &parent->id, &found),
        nigh_delete(client, &parent->id, 1, NULL),
        nigh_evict(client, 1, &number),
        nigh_refresh(client, &parent->id, 1),
        nigh_pin(client, &parent->id),
        nigh_unpin(client, &parent->id),
        nigh_stat(client, &parent->id, infos),
        nigh_list(client, &number, infos, 1, &count),
        nigh_who(client, &parent->id, &holder, 1, &count),
        nigh_holders(client, &holder, 1, &count),
        nigh_where(client, &parent->id, &crc, 1, &count),
        nigh_nodes(client, &info, 1, &count),
        nigh_checksum(client, &parent->id, &crc),
        nigh_set_quota(client, 1 << 20),
        nigh_subscribe(client, 0),
        nigh_unsubscribe(client),
        nigh_next_event(client, NIGH_FOREVER, &event),
        nigh_stats(client, &parent->stats),
        nigh_create_start(client, &id, &options, &writer, &op),
        nigh_seal_start(client, &parent->writer, &op),
        nigh_put_many_start(client, items, 1, &op),
        nigh_get_start(client, &parent->id, 1, NIGH_FOREVER, &view, &op),
        nigh_delete_start(client, &parent->id, 1, NULL, &op),
        nigh_evict_start(client, 1, &number, &op),
        nigh_refresh_start(client, &parent->id, 1, &op),
        nigh_stat_start(client, &parent->id, infos, &op),
        nigh_wait(client, &parent->op, NIGH_FOREVER),
        nigh_cancel(client, &parent->op),
        nigh_client_arm(client),
    };

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        if (answers[i] != NIGH_FORKED) {
            return (int)i + 1;
        }
    }
    if (nigh_client_fd(client) != -1 || nigh_poll(client) != 0) {
        return 100;
    }
    (void)nigh_client_error(client, text, sizeof(text));
    return 0;
}

static int calling_child(void *parent)
{
    return call_everything(parent);
}

static int closing_child(void *arg)
{
    struct parent *parent = arg;
    int failed = call_everything(parent);

    nigh_client_close(parent->client);
    return failed;
}

static int killed_child(void *arg)
{
    int failed = call_everything(arg);

    if (failed == 0) {
        raise(SIGKILL);
    }
    return failed;
}

/* The child has a client of its own, beside the one that it must not use. */
static int own_child(void *arg)
{
    struct parent *parent = arg;
    nigh_id id = crash_id(6, (uint64_t)getpid(), 5000);
    nigh_client *client = crash_open(&node, "child", 0);

    if (client == NULL || crash_check(client, &parent->id, 0) != NIGH_OK ||
        crash_put(client, &id, 0) != NIGH_OK || crash_check(client, &id, 0) != NIGH_OK ||
        nigh_delete(client, &id, 1, NULL) != NIGH_OK) {
        return 101;
    }
    if (call_everything(parent) != 0) {
        return 102;
    }
    return crash_check(client, &parent->id, 0) == NIGH_OK ? 0 : 103;
}

/* ---- the parent ----------------------------------------------------------- */

static nigh_client *checker;
static nigh_node_stats before = {.struct_size = sizeof before};

/* Everything at once: a view, a writer, an op that waits. */
static void set_up_parent(struct parent *parent)
{
    uint8_t meta[CRASH_META_BYTES];
    nigh_create_options options;
    nigh_id unsealed = crash_id(8, 0, 100000);

    parent->client = crash_open(&node, "parent", 0);
    assert_non_null(parent->client);
    parent->id = crash_id(4, 0, 50000);
    assert_int_equal(crash_put(parent->client, &parent->id, NIGH_CREATE_EXCLUSIVE), NIGH_OK);
    assert_int_equal(nigh_get(parent->client, &parent->id, 1, 0, &parent->view), NIGH_OK);
    crash_options(&unsealed, 0, meta, &options);
    assert_int_equal(nigh_create(parent->client, &unsealed, &options, &parent->writer), NIGH_OK);
    crash_fill(&unsealed, parent->writer.data, 100000);
    parent->later = crash_id(7, 0, 100);
    assert_int_equal(nigh_get_start(parent->client, &parent->later, 1, NIGH_FOREVER,
                                    &parent->waiting, &parent->op),
                     NIGH_OK);
}

/* All of it still works, as if there had been no child. */
static void finish_parent(struct parent *parent)
{
    nigh_id unsealed = crash_id(8, 0, 100000);

    assert_int_equal(nigh_op_status(&parent->op), NIGH_PENDING);
    assert_int_equal(crash_put(checker, &parent->later, NIGH_CREATE_EXCLUSIVE), NIGH_OK);
    assert_int_equal(nigh_wait(parent->client, &parent->op, 20000000), NIGH_OK);
    assert_true(crash_is_right(&parent->later, &parent->waiting));
    assert_int_equal(nigh_release(parent->client, &parent->waiting), NIGH_OK);
    assert_int_equal(nigh_seal(parent->client, &parent->writer), NIGH_OK);
    assert_int_equal(crash_check(checker, &unsealed, 0), NIGH_OK);
    assert_true(crash_is_right(&parent->id, &parent->view));
    assert_int_equal(nigh_release(parent->client, &parent->view), NIGH_OK);
    nigh_client_close(parent->client);
}

static uint64_t count_sessions(void)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    assert_int_equal(nigh_stats(checker, &stats), NIGH_OK);
    return stats.sessions;
}

/* The parent's session is there, and its view holds the object. */
static void assert_parent_is_held(struct parent *parent)
{
    nigh_holder holder;
    size_t count = 0;

    assert_true(crash_is_right(&parent->id, &parent->view));
    assert_int_equal(nigh_who(checker, &parent->id, &holder, 1, &count), NIGH_OK);
    assert_int_equal(count, 1);
    assert_int_equal(holder.pid, getpid());
}

static void fork_and_check(int (*body)(void *arg), int wanted)
{
    struct parent parent = {0};

    set_up_parent(&parent);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(support_join(support_fork(body, &parent), SOON_MS), wanted);
        if (body != own_child) { /* whose session may still be on its way out */
            assert_parent_is_held(&parent);
            assert_int_equal(count_sessions(), before.sessions + 1);
        }
    }
    assert_true(SUPPORT_WAIT(count_sessions() == before.sessions + 1, SETTLE_MS));
    assert_parent_is_held(&parent);
    finish_parent(&parent);
}

static void test_every_call_says_forked(void **state)
{
    (void)state;
    fork_and_check(calling_child, 0);
}

static void test_a_child_that_is_killed(void **state)
{
    (void)state;
    fork_and_check(killed_child, -SIGKILL);
}

static void test_a_child_that_closes_its_parents_client(void **state)
{
    (void)state;
    fork_and_check(closing_child, 0);
}

static void test_a_child_with_a_client_of_its_own(void **state)
{
    (void)state;
    fork_and_check(own_child, 0);
}

/* ---- forks while threads work --------------------------------------------- */

struct thread {
    struct parent *parent;
    uint32_t number;
    _Atomic uint64_t rounds;
    _Atomic uint32_t failed;
    _Atomic uint32_t *stop;
};

static void *thread_body(void *arg)
{
    struct thread *thread = arg;
    nigh_client *client = thread->parent->client;

    for (uint64_t n = 0; atomic_load(thread->stop) == 0; n++) {
        nigh_id id = crash_id(9, n * THREADS + thread->number, (uint32_t)(n % 5) * 30000);

        if (crash_put(client, &id, 0) != NIGH_OK || crash_check(client, &id, 0) != NIGH_OK ||
            nigh_delete(client, &id, 1, NULL) != NIGH_OK ||
            crash_check(client, &thread->parent->id, 0) != NIGH_OK) {
            atomic_store(&thread->failed, 1);
            break;
        }
        atomic_fetch_add(&thread->rounds, 1);
    }
    return NULL;
}

static void test_forks_while_threads_work(void **state)
{
    /* Not on a stack that a failed assertion leaves to the threads. */
    static struct parent parent;
    static struct thread threads[THREADS];
    static _Atomic uint32_t stop;
    pthread_t handles[THREADS];

    (void)state;
    set_up_parent(&parent);
    for (uint32_t i = 0; i < THREADS; i++) {
        threads[i].parent = &parent;
        threads[i].number = i;
        threads[i].stop = &stop;
        assert_int_equal(pthread_create(&handles[i], NULL, thread_body, &threads[i]), 0);
    }
    for (uint32_t n = 0; n < FORKS; n++) {
        int (*body)(void *) = n % 3 == 0 ? killed_child : calling_child;

        assert_int_equal(support_join(support_fork(body, &parent), SOON_MS),
                         n % 3 == 0 ? -SIGKILL : 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        uint64_t rounds = atomic_load(&threads[i].rounds);

        assert_true(SUPPORT_WAIT(atomic_load(&threads[i].rounds) > rounds ||
                                     atomic_load(&threads[i].failed) != 0,
                                 SETTLE_MS));
    }
    atomic_store(&stop, 1);
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(handles[i], NULL);
        assert_int_equal(atomic_load(&threads[i].failed), 0);
    }
    assert_parent_is_held(&parent);
    finish_parent(&parent);
}

/* ---- what a child inherits keeps nothing alive ---------------------------- */

/* A parent that is to be killed: says through the pipe that its child is there. */
struct inheritance {
    int ready;     /* to write to */
    int child_end; /* the child reads from it until the test lets it go, or dies */
    int other_end;
};

static int doomed_parent(void *arg)
{
    const struct inheritance *pipes = arg;
    struct parent parent = {0};
    char byte = 0;

    set_up_parent(&parent);
    if (fork() == 0) {
        close(pipes->other_end);
        (void)!write(pipes->ready, "r", 1);
        (void)!read(pipes->child_end, &byte, 1); /* the socket and all stay open in it */
        byte = (char)call_everything(&parent);
        (void)!write(pipes->ready, &byte, 1);
        _exit(0);
    }
    close(pipes->other_end);
    for (;;) {
        pause();
    }
}

static void test_nothing_inherited_outlives_the_parent(void **state)
{
    nigh_id id = crash_id(4, 0, 50000);
    int ready[2], hold[2];
    nigh_status status;
    char byte = 0;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(ready) | pipe(hold), 0);
    child = support_fork(doomed_parent, &(struct inheritance){ready[1], hold[0], hold[1]});
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_false(crash_settled(checker, &before, false));
    assert_int_equal(crash_check(checker, &id, 0), NIGH_OK);

    kill(child, SIGKILL);
    assert_int_equal(support_join(child, SETTLE_MS), -SIGKILL);
    if (!SUPPORT_WAIT(crash_settled(checker, &before, false), SETTLE_MS)) {
        crash_print_difference(checker, &before);
        fail_msg("the child keeps something alive");
    }
    assert_int_equal(nigh_delete(checker, &id, 1, &status), NIGH_OK);
    assert_int_equal(status, NIGH_OK); /* not NIGH_IN_USE */

    /* The child was there all the time, and its calls still say what they said. */
    assert_int_equal(write(hold[1], "g", 1), 1);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 0);
    close(ready[0]);
    close(ready[1]);
    close(hold[0]);
    close(hold[1]);
}

/* ---- set-up --------------------------------------------------------------- */

static int set_up(void **state)
{
    static const char *const flags[] = {"--lanes", "2", NULL};

    (void)state;
    node_fixture_start(&node, "64M", flags);
    checker = crash_open(&node, "checker", 0);
    assert_non_null(checker);
    assert_int_equal(nigh_stats(checker, &before), NIGH_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (!SUPPORT_WAIT(crash_settled(checker, &before, false), SETTLE_MS)) {
        crash_print_difference(checker, &before);
        fail_msg("something was left");
    }
    nigh_client_close(checker);
    node_fixture_stop(&node);
    return 0;
}

int main(void)
{
#define FORK_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        FORK_TEST(test_every_call_says_forked),
        FORK_TEST(test_a_child_that_is_killed),
        FORK_TEST(test_a_child_that_closes_its_parents_client),
        FORK_TEST(test_a_child_with_a_client_of_its_own),
        FORK_TEST(test_forks_while_threads_work),
        FORK_TEST(test_nothing_inherited_outlives_the_parent),
    };

    return cmocka_run_group_tests_name("client forks", tests, NULL, NULL);
}
