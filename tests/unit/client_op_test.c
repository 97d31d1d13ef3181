/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: once only, cancelled, waited for, told by the descriptor; full rings; a node that
 * writes rubbish, dies, comes back, says bye. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "client_fixture.h"

static uint32_t held(struct fixture *fixture)
{
    uint32_t count;

    fake_node_lock(&fixture->fake);
    count = fixture->fake.held_count;
    fake_node_unlock(&fixture->fake);
    return count;
}

/* ---- the life of an op ------------------------------------------------------------------------
 */

static void test_async_get_ends_once(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;
    nigh_op op = {{0}};

    (void)state;
    start(&f, &(struct fake_options){0});
    assert_int_equal(nigh_op_status(&op), NIGH_INVALID);
    assert_int_equal(nigh_wait(f.client, &op, 0), NIGH_INVALID);
    assert_int_equal(nigh_get_start(f.client, &id, 1, NIGH_FOREVER, &view, &op), NIGH_OK);
    assert_int_equal(nigh_op_status(&op), NIGH_PENDING);
    assert_int_equal(nigh_wait(f.client, &op, 1000), NIGH_TIMEOUT);
    assert_int_equal(nigh_op_status(&op), NIGH_PENDING);
    seal(&f, 1, "one");
    assert_int_equal(nigh_wait(f.client, &op, 20000000), NIGH_OK);
    assert_int_equal(nigh_op_status(&op), NIGH_OK);
    assert_int_equal(nigh_wait(f.client, &op, 0), NIGH_OK);
    assert_int_equal(nigh_cancel(f.client, &op), NIGH_OK); /* the result came first */
    assert_int_equal(nigh_poll(f.client), 0);
    assert_memory_equal(view.data, "one", 3);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);

    /* What is there ends at once. */
    assert_int_equal(nigh_get_start(f.client, &id, 1, 0, &view, &op), NIGH_OK);
    assert_int_equal(nigh_op_status(&op), NIGH_OK);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    stop(&f);
}

static void test_cancel_ends_at_once(void **state)
{
    struct fixture f;
    nigh_id ids[2] = {id_of(1), id_of(2)};
    nigh_view views[2];
    nigh_op op;

    (void)state;
    start(&f, &(struct fake_options){.lanes = 2});
    seal(&f, 2, "two");
    assert_int_equal(nigh_get_start(f.client, ids, 2, NIGH_FOREVER, views, &op), NIGH_OK);
    assert_true(SUPPORT_WAIT(held(&f) == 1, 20000));
    assert_int_equal(nigh_cancel(f.client, &op), NIGH_CANCELED);
    assert_int_equal(nigh_op_status(&op), NIGH_CANCELED);
    assert_int_equal(views[0].status, NIGH_CANCELED);
    assert_int_equal(views[1].status, NIGH_OK);
    assert_int_equal(nigh_release(f.client, &views[1]), NIGH_OK);
    assert_true(SUPPORT_WAIT(held(&f) == 0, 20000));
    assert_int_equal(atomic_load(&f.fake.cancels), 1);
    stop(&f);
}

static void test_close_ends_what_is_pending(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;
    nigh_op op;

    (void)state;
    start(&f, &(struct fake_options){0});
    assert_int_equal(nigh_get_start(f.client, &id, 1, NIGH_FOREVER, &view, &op), NIGH_OK);
    stop(&f);
    assert_int_equal(nigh_op_status(&op), NIGH_CLOSED);
    assert_int_equal(view.status, NIGH_CLOSED);
}

/* The descriptor: quiet until something ended, also if another thread took it in. */
static void test_descriptor_tells(void **state)
{
    struct fixture f;
    nigh_id ids[2] = {id_of(1), id_of(2)};
    nigh_view views[3];
    nigh_op op;
    struct pollfd readable;

    (void)state;
    start(&f, &(struct fake_options){0});
    readable = (struct pollfd){.fd = nigh_client_fd(f.client), .events = POLLIN};
    assert_true(readable.fd >= 0);
    for (int round = 0; round < 3; round++) {
        nigh_id id = id_of(10 + (uint32_t)round);

        assert_int_equal(nigh_get_start(f.client, &id, 1, NIGH_FOREVER, &views[0], &op), NIGH_OK);
        assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
        assert_int_equal(nigh_poll(f.client), 0);
        assert_int_equal(poll(&readable, 1, 0), 0);
        seal(&f, 10 + (uint32_t)round, "x");
        assert_int_equal(poll(&readable, 1, 5000), 1);
        assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
        (void)nigh_poll(f.client);
        assert_int_equal(nigh_op_status(&op), NIGH_OK);
        assert_int_equal(poll(&readable, 1, 0), 0);
        assert_int_equal(nigh_release(f.client, &views[0]), NIGH_OK);
    }
    /* A synchronous call takes in the completion of the asynchronous one. */
    assert_int_equal(nigh_get_start(f.client, &ids[0], 1, NIGH_FOREVER, &views[0], &op), NIGH_OK);
    assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
    seal(&f, 1, "one");
    while (nigh_op_status(&op) == NIGH_PENDING) {
        (void)nigh_get(f.client, &ids[1], 1, 1000, &views[1]);
    }
    assert_int_equal(poll(&readable, 1, 5000), 1);
    assert_int_equal(nigh_release(f.client, &views[0]), NIGH_OK);
    stop(&f);
}

/* Another call finds the node dead: who sleeps on the descriptor must hear of it. */
static void test_descriptor_tells_of_death(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_event event;
    struct pollfd readable;

    (void)state;
    start(&f, &(struct fake_options){0});
    readable = (struct pollfd){.fd = nigh_client_fd(f.client), .events = POLLIN};
    assert_int_equal(nigh_subscribe(f.client, 0), NIGH_OK);
    /* The node has done with that completion before anybody arms: a poke that it still owed would
     * ring in the place of what is tested. It holds the lock while it works. */
    fake_node_lock(&f.fake);
    fake_node_unlock(&f.fake);
    assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
    assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_TIMEOUT);
    assert_int_equal(poll(&readable, 1, 0), 0);
    fake_node_die(&f.fake, true);
    assert_int_equal(nigh_pin(f.client, &id), NIGH_NODE_LOST);
    assert_int_equal(poll(&readable, 1, 0), 1);
    assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
    assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_NODE_LOST);
    assert_int_equal(poll(&readable, 1, 0), 0);
    stop(&f);
}

/* ---- full rings -------------------------------------------------------------------------------
 */

static void test_more_ids_than_the_ring_holds(void **state)
{
    enum {
        N = 2000
    };
    struct fixture f;
    nigh_id *ids = calloc(N, sizeof(*ids));
    nigh_status *statuses = calloc(N, sizeof(*statuses));
    nigh_op op;

    (void)state;
    start(&f, &(struct fake_options){.lanes = 2});
    for (uint32_t i = 0; i < N; i++) {
        ids[i] = id_of(i);
    }
    for (uint32_t i = 0; i < N; i += 2) {
        seal(&f, i, "even");
    }
    assert_int_equal(nigh_delete(f.client, ids, N, statuses), NIGH_NOT_FOUND);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(statuses[i], i % 2 == 0 ? NIGH_OK : NIGH_NOT_FOUND);
    }
    assert_int_equal(nigh_refresh_start(f.client, ids, N, &op), NIGH_OK);
    assert_int_equal(nigh_wait(f.client, &op, 10000000), NIGH_OK);
    free(ids);
    free(statuses);
    stop(&f);
}

/* Gets that wait must not keep out the put that they wait for, also where that may wait too. */
static void test_waiting_gets_leave_room(void **state)
{
    enum {
        N = 600
    };
    struct fixture f;
    nigh_create_options large = {.data_size = 1000000, .timeout_us = NIGH_FOREVER};
    nigh_writer writer;
    nigh_id *ids = calloc(N, sizeof(*ids));
    nigh_view *views = calloc(N, sizeof(*views));
    nigh_op op, create;

    (void)state;
    start(&f, &(struct fake_options){0});
    for (uint32_t i = 0; i < N; i++) {
        ids[i] = id_of(i);
    }
    assert_int_equal(nigh_get_start(f.client, ids, N, NIGH_FOREVER, views, &op), NIGH_OK);
    assert_true(SUPPORT_WAIT(held(&f) == LIMIT_RING_WAITERS, 20000));
    assert_int_equal(nigh_create_start(f.client, &ids[N - 1], &large, &writer, &create), NIGH_OK);
    assert_int_equal(nigh_wait(f.client, &create, 10000000), NIGH_OK);
    assert_int_equal(nigh_abort(f.client, &writer), NIGH_OK);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(nigh_put(f.client, &ids[i], "x", 1, NULL), NIGH_OK);
    }
    assert_int_equal(nigh_wait(f.client, &op, 10000000), NIGH_OK);
    assert_int_equal(fake_node_pins(&f.fake), N);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(nigh_release(f.client, &views[i]), NIGH_OK);
    }
    assert_int_equal(fake_node_pins(&f.fake), 0);
    free(ids);
    free(views);
    stop(&f);
}

/* Steps that never found room end in time too. */
static void test_steps_without_room_time_out(void **state)
{
    enum {
        N = 600
    };
    struct fixture f;
    nigh_id *ids = calloc(N, sizeof(*ids));
    nigh_view *views = calloc(N, sizeof(*views));

    (void)state;
    start(&f, &(struct fake_options){0});
    for (uint32_t i = 0; i < N; i++) {
        ids[i] = id_of(i);
    }
    assert_int_equal(nigh_get(f.client, ids, N, 20000, views), NIGH_TIMEOUT);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(views[i].status, NIGH_TIMEOUT);
    }
    free(ids);
    free(views);
    stop(&f);
}

/* Who polls until nothing comes may sleep behind it: a look that takes the node's poke out of the
 * socket asks for another. */
static void test_descriptor_tells_again_behind_polls(void **state)
{
    struct fixture f;
    nigh_id ids[2] = {id_of(1), id_of(2)};
    nigh_view views[2];
    nigh_op ops[2];
    struct pollfd readable;

    (void)state;
    start(&f, &(struct fake_options){0});
    readable = (struct pollfd){.fd = nigh_client_fd(f.client), .events = POLLIN};
    for (int n = 0; n < 2; n++) {
        assert_int_equal(nigh_get_start(f.client, &ids[n], 1, NIGH_FOREVER, &views[n], &ops[n]),
                         NIGH_OK);
    }
    assert_true(SUPPORT_WAIT(held(&f) == 2, 20000));
    assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
    seal(&f, 1, "one");
    assert_int_equal(poll(&readable, 1, 20000), 1);
    /* Not armed anew: it is looked until the descriptor has nothing to say. */
    assert_true(SUPPORT_WAIT(nigh_poll(f.client) == 0 && poll(&readable, 1, 0) == 0, 20000));
    assert_int_equal(nigh_op_status(&ops[0]), NIGH_OK);
    seal(&f, 2, "two");
    assert_int_equal(poll(&readable, 1, 20000), 1);
    assert_true(SUPPORT_WAIT(nigh_poll(f.client) == 0, 20000));
    assert_int_equal(nigh_op_status(&ops[1]), NIGH_OK);
    for (int n = 0; n < 2; n++) {
        assert_int_equal(nigh_release(f.client, &views[n]), NIGH_OK);
    }
    stop(&f);
}

/* A program that sleeps on the descriptor alone, which nothing else wakes, hears in time of what
 * found no room: whether that began before it was armed, or since. */
static void test_descriptor_tells_of_what_found_no_room(void **state)
{
    enum {
        LATE_US = 500000, /* a busy machine is not that slow */
        WAIT_MS = 10000
    };
    uint64_t due_us;
    struct fixture f;
    struct pollfd readable;
    nigh_view *views = calloc(LIMIT_RING_WAITERS + 2, sizeof(*views));
    nigh_op *waiting = calloc(LIMIT_RING_WAITERS, sizeof(*waiting)), late[2];
    nigh_id id = id_of(1);

    (void)state;
    start(&f, &(struct fake_options){0});
    readable = (struct pollfd){.fd = nigh_client_fd(f.client), .events = POLLIN};
    for (uint32_t n = 0; n < LIMIT_RING_WAITERS; n++) {
        assert_int_equal(nigh_get_start(f.client, &id, 1, NIGH_FOREVER, &views[n + 2], &waiting[n]),
                         NIGH_OK);
    }
    for (uint32_t n = 0; n < 2; n++) {
        due_us = clock_now_us(&clock_monotonic) + LATE_US;
        if (n == 0) {
            assert_int_equal(nigh_get_start(f.client, &id, 1, LATE_US, &views[n], &late[n]),
                             NIGH_OK);
        }
        assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
        if (n == 1) { /* by nigh_poll it is timed, too: who looks for events alone calls none */
            assert_int_equal(nigh_poll(f.client), 0);
            assert_int_equal(nigh_get_start(f.client, &id, 1, LATE_US, &views[n], &late[n]),
                             NIGH_OK);
        }
        if (clock_now_us(&clock_monotonic) >= due_us) {
            (void)nigh_poll(f.client); /* a slow machine: what was overdue is for the next look */
        }
        while (nigh_op_status(&late[n]) == NIGH_PENDING) {
            assert_int_equal(poll(&readable, 1, WAIT_MS), 1);
            assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
            (void)nigh_poll(f.client);
        }
        assert_int_equal(nigh_op_status(&late[n]), NIGH_TIMEOUT);
    }
    /* A poke that came with the last look is taken out by a later one. */
    assert_true(SUPPORT_WAIT(nigh_poll(f.client) == 0 && poll(&readable, 1, 0) == 0, 20000));
    stop(&f);
    free(views);
    free(waiting);
}

/* A node that dies ends what has found no room: its deadline, at which the descriptor was to say
 * so, is nobody's any more, also where the program looks for events alone. */
static void test_death_ends_what_found_no_room(void **state)
{
    enum {
        LATE_US = 50000,
        LONGER_MS = 200 /* from then on nothing may come: no machine is too slow for that */
    };
    struct fixture f;
    struct pollfd readable;
    nigh_view *views = calloc(LIMIT_RING_WAITERS + 1, sizeof(*views));
    nigh_op *waiting = calloc(LIMIT_RING_WAITERS, sizeof(*waiting)), late;
    nigh_id id = id_of(1);
    nigh_event event;

    (void)state;
    start(&f, &(struct fake_options){0});
    readable = (struct pollfd){.fd = nigh_client_fd(f.client), .events = POLLIN};
    assert_int_equal(nigh_subscribe(f.client, 0), NIGH_OK);
    for (uint32_t n = 0; n < LIMIT_RING_WAITERS; n++) {
        assert_int_equal(nigh_get_start(f.client, &id, 1, NIGH_FOREVER, &views[n + 1], &waiting[n]),
                         NIGH_OK);
    }
    assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
    assert_int_equal(nigh_get_start(f.client, &id, 1, LATE_US, &views[0], &late), NIGH_OK);
    fake_node_die(&f.fake, true);
    assert_int_equal(nigh_pin(f.client, &id), NIGH_NODE_LOST);
    assert_int_equal(nigh_op_status(&late), NIGH_NODE_LOST);
    assert_int_equal(poll(&readable, 1, 0), 1);
    assert_int_equal(nigh_client_arm(f.client), NIGH_OK);
    assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_NODE_LOST);
    assert_int_equal(poll(&readable, 1, LONGER_MS), 0);
    stop(&f);
    free(views);
    free(waiting);
}

/* ---- rubbish from the node --------------------------------------------------------------------
 */

static enum fake_action answer_rubbish(void *context, struct fake_node *fake, uint32_t lane,
                                       const struct session_sqe *sqe, struct session_cqe *cqe)
{
    const struct session_cqe *rubbish = context;

    (void)fake;
    (void)lane;
    if (sqe->op != SESSION_OP_GET) {
        return FAKE_SERVE;
    }
    *cqe = *rubbish;
    if (rubbish->cookie == 0) {
        return FAKE_ANSWER;
    }
    cqe->cookie ^= sqe->cookie;
    return FAKE_RAW;
}

static void test_rubbish_in_completions(void **state)
{
    static const struct {
        struct session_cqe cqe;
        bool breaks; /* the session; else only the call */
    } cases[] = {
        {{.cookie = 0x00000001, .pin = SESSION_NO_PIN}, true}, /* a place that is free */
        {{.cookie = 0x01000000, .pin = SESSION_NO_PIN}, true}, /* an old sequence */
        {{.status = 5, .pin = SESSION_NO_PIN}, true},
        {{.status = -1000, .pin = SESSION_NO_PIN}, true},
        {{.status = NIGH_PENDING, .pin = SESSION_NO_PIN}, true},
        {{.pin = SESSION_NO_PIN}, false},
        {{.pin = LIMIT_LANE_PINS}, false},
        {{.pin = 1, .offset = UINT64_MAX, .data_size = 10}, false},
        {{.pin = 1, .data_size = UINT64_MAX}, false},
        {{.pin = 1, .data_size = 1, .meta_size = UINT32_MAX}, false},
        {{.pin = 1, .offset = LIMIT_EXTENTS * FAKE_EXTENT_BYTES - 64, .data_size = 1000}, false},
        {{.pin = 1, .offset = (LIMIT_EXTENTS - 1) * FAKE_EXTENT_BYTES, .data_size = 10}, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct session_cqe cqe = cases[i].cqe;
        struct fixture f;
        nigh_id id = id_of(1);
        nigh_view view;
        nigh_status status;
        bool found;

        start(&f, &(struct fake_options){.hook = answer_rubbish, .context = &cqe});
        status = nigh_get(f.client, &id, 1, 1000000, &view);
        assert_int_not_equal(status, NIGH_OK);
        assert_int_not_equal(view.status, NIGH_OK);
        assert_null(view.data);
        assert_int_equal(fake_node_pins(&f.fake), 0);
        if (cases[i].breaks) {
            assert_int_equal(status, NIGH_PROTOCOL);
            assert_int_equal(nigh_contains(f.client, &id, &found), NIGH_PROTOCOL);
        } else {
            assert_int_equal(nigh_contains(f.client, &id, &found), NIGH_OK);
        }
        stop(&f);
    }
}

static void test_impossible_ring_indices(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;
    nigh_op op;

    (void)state;
    start(&f, &(struct fake_options){0});
    assert_int_equal(nigh_get_start(f.client, &id, 1, NIGH_FOREVER, &view, &op), NIGH_OK);
    shared_store_release(&session_lane_of(f.fake.memory, 0)->cq_tail.value, 100000);
    assert_int_equal(nigh_wait(f.client, &op, 20000000), NIGH_PROTOCOL);
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_PROTOCOL);
    stop(&f);
}

/* ---- the node dies ----------------------------------------------------------------------------
 */

struct waiter {
    struct fixture *fixture;
    pthread_t thread;
    uint32_t number;
    nigh_status status;
};

static void *wait_for_object(void *context)
{
    struct waiter *waiter = context;
    nigh_id id = id_of(waiter->number);
    nigh_view view;

    waiter->status = nigh_get(waiter->fixture->client, &id, 1, NIGH_FOREVER, &view);
    return NULL;
}

static void test_death_ends_what_is_pending(void **state)
{
    enum {
        WAITERS = 3
    };
    struct fixture f;
    struct waiter waiters[WAITERS];
    nigh_id id = id_of(1);
    nigh_view view;
    nigh_op op;
    uint64_t died_us;

    (void)state;
    start(&f, &(struct fake_options){0});
    seal(&f, 1, "one");
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
    for (uint32_t i = 0; i < WAITERS; i++) {
        waiters[i] = (struct waiter){.fixture = &f, .number = 50 + i};
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_for_object, &waiters[i]), 0);
    }
    assert_true(SUPPORT_WAIT(held(&f) == WAITERS, 20000));
    died_us = support_now_us();
    fake_node_die(&f.fake, true);
    for (uint32_t i = 0; i < WAITERS; i++) {
        assert_int_equal(pthread_join(waiters[i].thread, NULL), 0);
        assert_int_equal(waiters[i].status, NIGH_NODE_LOST);
    }
    assert_true(support_now_us() - died_us < 10000000);
    /* What needs no node goes on. */
    assert_memory_equal(view.data, "one", 3);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    assert_int_equal(nigh_refresh_start(f.client, &id, 1, &op), NIGH_NODE_LOST);
    assert_int_equal(nigh_op_status(&op), NIGH_NODE_LOST);
    stop(&f);
}

static void test_session_is_resumed(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1), other = id_of(2);
    nigh_create_options create = {.data_size = 100000};
    nigh_writer writer;
    nigh_view view;
    nigh_event event;
    bool found = true;
    char text[256];
    int fd;

    (void)state;
    start(&f, &(struct fake_options){.lanes = 2});
    fd = nigh_client_fd(f.client);
    seal(&f, 1, "one");
    assert_int_equal(nigh_subscribe(f.client, 0), NIGH_OK);
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
    assert_int_equal(nigh_create(f.client, &other, &create, &writer), NIGH_OK);
    fake_node_die(&f.fake, true);
    assert_int_equal(nigh_pin(f.client, &id), NIGH_NODE_LOST);
    assert_int_equal(nigh_pin(f.client, &id), NIGH_NODE_LOST);
    nigh_client_error(f.client, text, sizeof(text));
    assert_non_null(strstr(text, "not back"));
    fake_node_return(&f.fake);
    assert_int_equal(nigh_pin(f.client, &id), NIGH_OK);
    assert_int_equal(atomic_load(&f.fake.resumes), 1);
    assert_int_equal(nigh_client_fd(f.client), fd);
    assert_memory_equal(view.data, "one", 3);
    assert_int_equal(fake_node_pins(&f.fake), 1);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    memset(writer.data, 1, 100000);
    assert_int_equal(nigh_seal(f.client, &writer), NIGH_OK);
    assert_int_equal(nigh_contains(f.client, &other, &found), NIGH_OK);
    assert_true(found);
    /* Events may have been missed, and that is said. */
    assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_OK);
    assert_int_equal(event.kind, NIGH_EVENT_OVERFLOW);
    assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_TIMEOUT);
    /* A second death. */
    fake_node_die(&f.fake, false);
    assert_true(SUPPORT_WAIT(nigh_pin(f.client, &id) == NIGH_OK, 20000));
    assert_int_equal(atomic_load(&f.fake.resumes), 2);
    stop(&f);
}

/* The death is found by a step that wants an extent: what the node had completed before, and
 * nobody took in yet, counts all the same. */
static void test_death_in_a_step_loses_nothing(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    static uint8_t bytes[120 << 10];
    nigh_put_item item = {.id = id_of(4), .data = bytes, .data_size = 20 << 10};
    nigh_view view;
    nigh_op get, put;

    (void)state;
    start(&f, &(struct fake_options){0});
    /* The lease after the first lies in an extent that is not mapped until something is cut. */
    fake_node_lock(&f.fake);
    f.fake.bump = FAKE_EXTENT_BYTES;
    fake_node_unlock(&f.fake);
    for (uint32_t i = 0; i < 2; i++) {
        nigh_id used = id_of(2 + i);

        assert_int_equal(nigh_put(f.client, &used, bytes, sizeof(bytes), NULL), NIGH_OK);
    }
    assert_int_equal(atomic_load(&f.fake.leases), 2);
    fake_node_lock(&f.fake);
    f.fake.bump = 0; /* what readers have mapped already */
    fake_node_unlock(&f.fake);
    assert_int_equal(nigh_get(f.client, &(nigh_id){{2}}, 1, 0, &view), NIGH_OK);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);

    assert_int_equal(nigh_get_start(f.client, &id, 1, NIGH_FOREVER, &view, &get), NIGH_OK);
    assert_true(SUPPORT_WAIT(held(&f) == 1, 20000));
    seal(&f, 1, "one");
    assert_true(SUPPORT_WAIT(held(&f) == 0, 20000));
    fake_node_die(&f.fake, true);
    (void)nigh_put_many_start(f.client, &item, 1, &put);
    assert_int_equal(nigh_op_status(&put), NIGH_NODE_LOST);
    assert_int_equal(item.status, NIGH_NODE_LOST);
    assert_int_equal(nigh_op_status(&get), NIGH_OK);
    assert_memory_equal(view.data, "one", 3);
    assert_int_equal(fake_node_pins(&f.fake), 1);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    assert_int_equal(fake_node_pins(&f.fake), 0);
    stop(&f);
}

/* Of the pins that a lane held for the session, those of its views stay, and the one whose
 * completion nobody ever read goes. */
static void test_resume_clears_pins_of_nobody(void **state)
{
    struct fixture f;
    nigh_id ids[] = {id_of(1), id_of(2)};
    nigh_view views[2];
    nigh_op ops[2];

    (void)state;
    start(&f, &(struct fake_options){0});
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(nigh_get_start(f.client, &ids[i], 1, NIGH_FOREVER, &views[i], &ops[i]),
                         NIGH_OK);
    }
    assert_true(SUPPORT_WAIT(held(&f) == 2, 20000));
    seal(&f, 1, "one");
    seal(&f, 2, "two");
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(nigh_wait(f.client, &ops[i], NIGH_FOREVER), NIGH_OK);
    }
    assert_int_equal(nigh_release(f.client, &views[1]), NIGH_OK);
    fake_node_die(&f.fake, true);
    assert_int_equal(nigh_pin(f.client, &ids[0]), NIGH_NODE_LOST);
    shared_store_relaxed(&session_lane_of(f.fake.memory, 0)->pin_entry[1], pin_ref(0, 7));
    shared_store_relaxed(&session_lane_of(f.fake.memory, 0)->pin_entry[LIMIT_LANE_PINS - 1],
                         pin_ref(0, 8));
    assert_int_equal(fake_node_pins(&f.fake), 3);
    fake_node_return(&f.fake);
    assert_int_equal(nigh_pin(f.client, &ids[0]), NIGH_OK);
    assert_int_equal(fake_node_pins(&f.fake), 1);
    assert_memory_equal(views[0].data, "one", 3);
    assert_int_equal(nigh_release(f.client, &views[0]), NIGH_OK);
    assert_int_equal(fake_node_pins(&f.fake), 0);
    stop(&f);
}

/* A node that kept nothing of what it was told to seal, though it knows the object. */
static enum fake_action keep_seals(void *context, struct fake_node *fake, uint32_t lane,
                                   const struct session_sqe *sqe, struct session_cqe *cqe)
{
    uint32_t *refs = context;

    (void)fake;
    (void)lane;
    (void)cqe;
    if (sqe->op == SESSION_OP_ABORT) {
        refs[1] = (uint32_t)sqe->ref;
    }
    if (sqe->op == SESSION_OP_SEAL && refs[0] == 0) {
        refs[0] = (uint32_t)sqe->ref + 1;
        return FAKE_KEEP;
    }
    return FAKE_SERVE;
}

/* An object whose seal the node took with it is nobody's: it is given up. What is still being
 * written is not. */
static void test_resume_gives_up_what_nobody_seals(void **state)
{
    struct fixture f;
    static uint8_t bytes[100000];
    nigh_create_options create = {.data_size = sizeof(bytes)};
    nigh_put_item item = {.id = id_of(1), .data = bytes, .data_size = sizeof(bytes)};
    nigh_id second = id_of(2);
    nigh_writer writer;
    nigh_op put;
    uint32_t refs[2] = {0, UINT32_MAX};

    (void)state;
    start(&f, &(struct fake_options){.hook = keep_seals, .context = refs, .lease_bytes = 1});
    assert_int_equal(nigh_create(f.client, &second, &create, &writer), NIGH_OK);
    assert_int_equal(nigh_put_many_start(f.client, &item, 1, &put), NIGH_OK);
    assert_int_equal(nigh_wait(f.client, &put, 0), NIGH_TIMEOUT);
    assert_true(SUPPORT_WAIT((nigh_poll(f.client), atomic_load(&f.fake.submissions) == 4), 20000));
    fake_node_die(&f.fake, true);
    assert_int_equal(nigh_wait(f.client, &put, NIGH_FOREVER), NIGH_NODE_LOST);
    assert_int_equal(atomic_load(&f.fake.aborts), 0);
    fake_node_return(&f.fake);
    assert_int_equal(nigh_seal(f.client, &writer), NIGH_OK);
    assert_int_equal(atomic_load(&f.fake.aborts), 1);
    assert_int_equal(refs[1] + 1, refs[0]);
    /* Once. */
    fake_node_die(&f.fake, false);
    assert_true(SUPPORT_WAIT(nigh_pin(f.client, &second) == NIGH_OK, 20000));
    assert_int_equal(atomic_load(&f.fake.aborts), 1);
    stop(&f);
}

/* A get that waits when the node dies, and comes back, is asked again. */
static void test_get_waits_over_a_restart(void **state)
{
    struct fixture f;
    struct waiter waiter = {.fixture = &f, .number = 9};

    (void)state;
    start(&f, &(struct fake_options){0});
    assert_int_equal(pthread_create(&waiter.thread, NULL, wait_for_object, &waiter), 0);
    assert_true(SUPPORT_WAIT(held(&f) == 1, 20000));
    fake_node_die(&f.fake, false);
    assert_true(SUPPORT_WAIT(atomic_load(&f.fake.resumes) == 1 && held(&f) == 1, 20000));
    seal(&f, 9, "nine");
    assert_int_equal(pthread_join(waiter.thread, NULL), 0);
    assert_int_equal(waiter.status, NIGH_OK);
    stop(&f);
}

static void test_forgotten_session_is_over(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;
    char text[256];

    (void)state;
    start(&f, &(struct fake_options){0});
    seal(&f, 1, "one");
    fake_node_lock(&f.fake);
    f.fake.options.forget_sessions = true;
    fake_node_unlock(&f.fake);
    fake_node_die(&f.fake, false);
    assert_true(
        SUPPORT_WAIT((nigh_pin(f.client, &id), nigh_client_error(f.client, text, sizeof(text)),
                      strstr(text, "open a new client") != NULL),
                     5000));
    /* Its memory is nobody's now: not even what is mapped is served. */
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_NODE_LOST);
    assert_int_equal(nigh_pin(f.client, &id), NIGH_NODE_LOST);
    stop(&f);
}

/* What the node page says, as the kernel and the node write it. */
static void say_life(struct fixture *f, uint32_t life, uint32_t kept)
{
    struct session_node_page *page = f->fake.page;

    shared_store_relaxed(&page->kept, kept);
    shared_store_relaxed(&page->life_of, shared_load_relaxed(&page->incarnation));
    shared_store_relaxed(&page->life, life);
}

static bool explains(struct fixture *f, const char *words)
{
    char text[512] = "";

    (void)nigh_client_error(f->client, text, sizeof(text));
    if (strstr(text, words) == NULL) {
        printf("# \"%s\" is not in \"%s\"\n", words, text);
    }
    return strstr(text, words) != NULL;
}

/* The word counts, also while the node's socket is still there: a process that was killed may take
 * its time to go. Nothing is kept: all is lost, from the next call on. */
static void test_the_word_says_dead(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;
    bool found;

    (void)state;
    start(&f, &(struct fake_options){.lanes = 2});
    seal(&f, 1, "one");
    say_life(&f, 4711, 0);
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
    say_life(&f, SESSION_LIFE_ENDED, 0);
    assert_int_equal(nigh_contains(f.client, &id, &found), NIGH_NODE_LOST);
    assert_true(explains(&f, "the node died"));
    assert_memory_equal(view.data, "one", 3);
    assert_int_equal(nigh_release(f.client, &view), NIGH_NODE_LOST);
    /* Whatever comes after it. */
    say_life(&f, 4712, 1);
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_NODE_LOST);
    assert_int_equal(view.status, NIGH_NODE_LOST);
    assert_int_equal(atomic_load(&f.fake.resumes), 0);
    stop(&f);
}

/* Kept: gets go on, without a wait while nobody is there, and find the next node by the way. */
static void test_a_reader_finds_the_next_node(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;
    bool found;

    (void)state;
    start(&f, &(struct fake_options){0});
    seal(&f, 1, "one");
    /* Seen once: its extent is mapped. */
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    say_life(&f, SESSION_LIFE_ENDED, 1);
    fake_node_die(&f.fake, true);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
        assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    }
    assert_int_equal(nigh_pin(f.client, &id), NIGH_NODE_LOST);
    assert_true(explains(&f, "not back"));
    /* What succeeds leaves the sentence, and what it looked at beside changes nothing of it. */
    assert_int_equal(nigh_contains(f.client, &id, &found), NIGH_OK);
    assert_true(explains(&f, "not back"));
    shared_store_relaxed(&f.fake.page->incarnation, 2);
    say_life(&f, 4712, 1);
    fake_node_return(&f.fake);
    assert_int_equal(nigh_contains(f.client, &id, &found), NIGH_OK);
    assert_int_equal(nigh_pin(f.client, &id), NIGH_OK);
    assert_int_equal(atomic_load(&f.fake.resumes), 1);
    /* One that knows nothing of what was: its page is another, and the old one stays as it is. */
    fake_node_lock(&f.fake);
    f.fake.options.forget_sessions = true;
    fake_node_unlock(&f.fake);
    say_life(&f, SESSION_LIFE_ENDED, 1);
    fake_node_die(&f.fake, false);
    assert_true(SUPPORT_WAIT(nigh_contains(f.client, &id, &found) == NIGH_NODE_LOST, 20000));
    assert_true(explains(&f, "does not know this session"));
    stop(&f);
}

/* A node from before the word took over a page in which another's end stands. */
static void test_the_word_of_another_life(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;

    (void)state;
    start(&f, &(struct fake_options){0});
    seal(&f, 1, "one");
    shared_store_relaxed(&f.fake.page->life_of, 6);
    shared_store_relaxed(&f.fake.page->life, SESSION_LIFE_ENDED);
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    assert_int_equal(nigh_pin(f.client, &id), NIGH_OK);
    assert_int_equal(atomic_load(&f.fake.resumes), 0);
    stop(&f);
}

/* Another took the page over, which says no more that anybody ended, but not the session: a client
 * that only reads finds that out, whether it looked in between or not. */
static void test_a_page_without_the_session(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;

    (void)state;
    for (int looks = 0; looks < 2; looks++) {
        start(&f, &(struct fake_options){0});
        seal(&f, 1, "one");
        assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
        say_life(&f, SESSION_LIFE_ENDED, 1);
        fake_node_die(&f.fake, true);
        if (looks == 1) {
            assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
        }
        fake_node_lock(&f.fake);
        f.fake.options.forget_sessions = true;
        fake_node_unlock(&f.fake);
        shared_store_relaxed(&f.fake.page->incarnation, 2);
        say_life(&f, 4712, 1);
        fake_node_return(&f.fake);
        assert_true(SUPPORT_WAIT(nigh_get(f.client, &id, 1, 0, &view) == NIGH_NODE_LOST ||
                                     nigh_release(f.client, &view) == NIGH_NODE_LOST,
                                 5000));
        assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_NODE_LOST);
        assert_true(explains(&f, "does not know this session"));
        stop(&f);
    }
}

/* A node that lacks something is not one that lacks the session. */
static void test_what_may_pass_is_not_the_end(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;

    (void)state;
    start(&f, &(struct fake_options){0});
    seal(&f, 1, "one");
    /* Seen once: its extent is mapped. */
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    fake_node_lock(&f.fake);
    f.fake.options.refuse = NIGH_NO_RESOURCES;
    f.fake.options.sentence = "no descriptor left";
    fake_node_unlock(&f.fake);
    fake_node_die(&f.fake, false);
    assert_true(SUPPORT_WAIT(
        nigh_pin(f.client, &id) == NIGH_NODE_LOST && explains(&f, "no descriptor left"), 5000));
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
    fake_node_lock(&f.fake);
    f.fake.options.refuse = 0;
    fake_node_unlock(&f.fake);
    assert_int_equal(nigh_pin(f.client, &id), NIGH_OK);
    assert_int_equal(atomic_load(&f.fake.resumes), 1);
    stop(&f);
}

/* The node died and came back while the client did nothing: its next call is not one that was
 * under way. */
static void test_an_idle_client_resumes_first(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;
    nigh_op op;

    (void)state;
    start(&f, &(struct fake_options){0});
    seal(&f, 1, "one");
    for (uint32_t life = 1; life < 4; life++) {
        shared_store_relaxed(&f.fake.page->incarnation, life);
        fake_node_die(&f.fake, false);
        if (life == 1) {
            assert_int_equal(nigh_pin(f.client, &id), NIGH_OK);
        } else if (life == 2) {
            assert_int_equal(nigh_refresh_start(f.client, &id, 1, &op), NIGH_OK);
            assert_int_equal(nigh_wait(f.client, &op, NIGH_FOREVER), NIGH_OK);
        } else {
            id = id_of(9);
            assert_int_equal(nigh_get(f.client, &id, 1, 1000, &view), NIGH_TIMEOUT);
        }
        assert_int_equal(atomic_load(&f.fake.resumes), life);
    }
    stop(&f);
}

/* Each failing call leaves its own sentence. */
static void test_each_failure_has_its_sentence(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_event event;
    nigh_status status;
    nigh_view view;
    nigh_op op;

    (void)state;
    start(&f, &(struct fake_options){0});
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_TIMEOUT);
    assert_true(explains(&f, "deadline"));
    assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_NOT_FOUND);
    assert_true(explains(&f, "nigh_subscribe"));
    /* What went on beside it, and fails alike. */
    assert_int_equal(nigh_delete_start(f.client, &id, 1, &status, &op), NIGH_OK);
    assert_int_equal(nigh_wait(f.client, &op, NIGH_FOREVER), NIGH_NOT_FOUND);
    assert_true(explains(&f, nigh_status_string(NIGH_NOT_FOUND)));
    assert_int_equal(nigh_get(f.client, &id, 1, 1000, &view), NIGH_TIMEOUT);
    assert_true(explains(&f, "deadline"));
    assert_int_equal(nigh_release(f.client, NULL), NIGH_INVALID);
    assert_true(explains(&f, "nigh_release"));
    assert_int_equal(nigh_get_start(f.client, &id, 1, NIGH_FOREVER, &view, &op), NIGH_OK);
    assert_int_equal(nigh_wait(f.client, &op, 1000), NIGH_TIMEOUT);
    assert_true(explains(&f, "deadline"));
    assert_int_equal(nigh_cancel(f.client, &op), NIGH_CANCELED);
    seal(&f, 1, "one");
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
    assert_true(explains(&f, "deadline"));
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    fake_node_say_bye(&f.fake, NIGH_EXPELLED, "it pins too much");
    assert_true(SUPPORT_WAIT(nigh_get(f.client, &id, 1, 0, &view) == NIGH_EXPELLED &&
                                 explains(&f, "it pins too much"),
                             5000));
    stop(&f);
}

static void test_expelled(void **state)
{
    struct fixture f;
    struct waiter waiter = {.fixture = &f, .number = 9};
    nigh_id id = id_of(1);
    nigh_view view, held_view;

    (void)state;
    start(&f, &(struct fake_options){0});
    seal(&f, 1, "one");
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &held_view), NIGH_OK);
    assert_int_equal(pthread_create(&waiter.thread, NULL, wait_for_object, &waiter), 0);
    assert_true(SUPPORT_WAIT(held(&f) == 1, 20000));
    fake_node_say_bye(&f.fake, NIGH_EXPELLED, "it pins too much");
    assert_int_equal(pthread_join(waiter.thread, NULL), 0);
    assert_int_equal(waiter.status, NIGH_EXPELLED);
    /* Its pins count no more, so no get may say otherwise. */
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_EXPELLED);
    assert_int_equal(nigh_release(f.client, &held_view), NIGH_EXPELLED);
    assert_int_equal(nigh_put(f.client, &id, "x", 1, NULL), NIGH_EXPELLED);
    stop(&f);
}

/* A node that is killed over a get: it says so, and its socket stays, as while the kernel takes its
 * memory apart. */
static enum fake_action die_over_a_get(void *context, struct fake_node *fake, uint32_t lane,
                                       const struct session_sqe *sqe, struct session_cqe *cqe)
{
    (void)context;
    (void)lane;
    (void)cqe;
    if (sqe->op != SESSION_OP_GET) {
        return FAKE_SERVE;
    }
    shared_store_relaxed(&fake->page->life_of, shared_load_relaxed(&fake->page->incarnation));
    shared_store_relaxed(&fake->page->life, SESSION_LIFE_ENDED);
    return FAKE_KEEP;
}

/* That its deadline passed meanwhile says nothing of the object. */
static void test_a_dead_node_is_no_timeout(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;

    (void)state;
    start(&f, &(struct fake_options){.hook = die_over_a_get});
    assert_int_equal(nigh_get(f.client, &id, 1, 1, &view), NIGH_NODE_LOST);
    assert_int_equal(view.status, NIGH_NODE_LOST);
    assert_true(explains(&f, "the node died"));
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_async_get_ends_once),
        cmocka_unit_test(test_cancel_ends_at_once),
        cmocka_unit_test(test_close_ends_what_is_pending),
        cmocka_unit_test(test_descriptor_tells),
        cmocka_unit_test(test_descriptor_tells_of_death),
        cmocka_unit_test(test_more_ids_than_the_ring_holds),
        cmocka_unit_test(test_waiting_gets_leave_room),
        cmocka_unit_test(test_steps_without_room_time_out),
        cmocka_unit_test(test_descriptor_tells_again_behind_polls),
        cmocka_unit_test(test_descriptor_tells_of_what_found_no_room),
        cmocka_unit_test(test_death_ends_what_found_no_room),
        cmocka_unit_test(test_rubbish_in_completions),
        cmocka_unit_test(test_impossible_ring_indices),
        cmocka_unit_test(test_death_ends_what_is_pending),
        cmocka_unit_test(test_session_is_resumed),
        cmocka_unit_test(test_death_in_a_step_loses_nothing),
        cmocka_unit_test(test_resume_clears_pins_of_nobody),
        cmocka_unit_test(test_resume_gives_up_what_nobody_seals),
        cmocka_unit_test(test_get_waits_over_a_restart),
        cmocka_unit_test(test_forgotten_session_is_over),
        cmocka_unit_test(test_expelled),
        cmocka_unit_test(test_the_word_says_dead),
        cmocka_unit_test(test_a_reader_finds_the_next_node),
        cmocka_unit_test(test_the_word_of_another_life),
        cmocka_unit_test(test_an_idle_client_resumes_first),
        cmocka_unit_test(test_each_failure_has_its_sentence),
        cmocka_unit_test(test_a_page_without_the_session),
        cmocka_unit_test(test_what_may_pass_is_not_the_end),
        cmocka_unit_test(test_a_dead_node_is_no_timeout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
