/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: sleeping on the descriptor of a fabric, and fabrics driven by a thread each. For
 * providers that have these. Numbers F1, F2, ... are those of docs/fabric.md. */
#include "conformance/world.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/check.h"

#define SLEEP_MS 3000 /* shorter than a keep-alive, which would wake a sleeper by chance */

static bool is_readable(struct fabric *fabric, int timeout_ms)
{
    struct pollfd fd = {.fd = fabric_fd(fabric), .events = POLLIN};

    return poll(&fd, 1, timeout_ms) == 1;
}

/* Until the fabric says that it may sleep, and would. */
static void fall_asleep(struct world *world, uint32_t fabric)
{
    struct world_bound bound = world_bound_start();

    world->asleep[fabric] = false;
    do
        assert_true(world_step(world, &bound));
    while (!fabric_arm(world->fabrics[fabric]) || is_readable(world->fabrics[fabric], 0));
    world->asleep[fabric] = true;
}

#define assert_wakes(world, number)                                    \
    do {                                                               \
        assert_comes(world, is_readable((world)->fabrics[number], 0)); \
        fall_asleep(world, number);                                    \
    } while (0)

/* F57: whatever arrives wakes. */
static void test_a_sleeper_is_woken_by_all_that_arrives(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 4096, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 4096, ALL_RIGHTS);
    const struct fabric_work send = {
        .op = FABRIC_SEND, .flags = FABRIC_SIGNALLED | FABRIC_SOLICITED, .tag = 1};
    struct world_end *alice, *bob;

    fall_asleep(world, BOB);
    alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
    assert_wakes(world, BOB);
    world->asleep[BOB] = false;
    bob = world_accept(world, world_next_request(world, BOB), NULL, 0);
    end_receive(bob, 1, there, 0, 64);
    assert_comes(world, alice->established == 1 && bob->established == 1);
    fall_asleep(world, BOB);
    assert_int_equal(end_post(alice, &send), NIGH_OK);
    assert_wakes(world, BOB);
    end_read(alice, 2, here, 0, area_remote(there, 0), 4096);
    if ((world->fabrics[BOB]->caps.ops & FABRIC_CAN_OFFLOAD) == 0)
        assert_wakes(world, BOB); /* else there is nothing for it to do */
    world->asleep[BOB] = false;
    assert_int_equal(end_wait(alice, 2), NIGH_OK);
    fall_asleep(world, BOB);
    end_disconnect(alice);
    assert_wakes(world, BOB);
    world->asleep[BOB] = false;
    assert_comes(world, bob->disconnected == 1);
}

/* F57: polls between arming and sleeping may take what wakes; then the fabric is armed no more. */
static void test_who_polls_knows_whether_it_is_armed(void **state)
{
    enum {
        POLLS = 600 /* enough for any provider to see that somebody spins */
    };
    struct world *world = *state;
    struct world_area *there = world_area(world, BOB, 4096, ALL_RIGHTS);
    const struct fabric_work send = {
        .op = FABRIC_SEND, .flags = FABRIC_SIGNALLED | FABRIC_SOLICITED, .tag = 1};
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    end_receive(bob, 1, there, 0, 64);
    end_receive(bob, 2, there, 64, 64);
    fall_asleep(world, BOB);
    assert_int_equal(end_post(alice, &send), NIGH_OK);
    assert_comes(world, is_readable(world->fabrics[BOB], 0));
    for (uint32_t i = 0; i < POLLS; i++)
        world_poll(world, BOB);
    assert_non_null(end_find_receive(bob, 1));
    while (!world->fabrics[BOB]->is_armed && !fabric_arm(world->fabrics[BOB]))
        world_poll(world, BOB);
    assert_int_equal(end_post(alice, &send), NIGH_OK);
    assert_comes(world, is_readable(world->fabrics[BOB], 0));
    world->asleep[BOB] = false;
    assert_int_equal(end_wait_receive(bob, 2), NIGH_OK);
}

/* F57: a completion that comes back wakes who posted. */
static void test_a_sleeper_is_woken_by_its_own_completions(void **state)
{
    enum {
        ROUNDS = 100
    };
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 4096, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 4096, ALL_RIGHTS);
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        if (i % 2 == 0)
            end_read(alice, i, here, 0, area_remote(there, 0), 4096);
        else
            end_write(alice, i, here, 0, area_remote(there, 0), 4096);
        world->asleep[ALICE] = true;
        while (end_find(alice, i) == NULL) {
            if (fabric_arm(world->fabrics[ALICE]))
                assert_comes(world, is_readable(world->fabrics[ALICE], 0));
            world_poll(world, ALICE);
        }
        world->asleep[ALICE] = false;
    }
}

/* F58: what lies there already forbids to sleep. */
static void test_arm_refuses_when_something_is_there(void **state)
{
    enum {
        MESSAGES = 5
    };
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct fabric_completion one;
    struct fabric_event event;
    struct world_bound bound = world_bound_start();
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint64_t i = 0; i < MESSAGES; i++)
        end_receive(bob, i, there, 0, 8);
    for (uint64_t i = 0; i < MESSAGES; i++)
        end_send(alice, i, here, 0, 8);
    world->asleep[BOB] = true;
    end_disconnect(bob); /* completes all receives in one poll, and makes an event */
    for (uint64_t i = 0; i < MESSAGES;) {
        assert_false(fabric_arm(world->fabrics[BOB]));
        i += fabric_poll(world->fabrics[BOB], &one, 1, world_provider.now_us(world));
        assert_true(world_step(world, &bound));
    }
    assert_false(fabric_arm(world->fabrics[BOB]));
    assert_true(fabric_next_event(world->fabrics[BOB], &event));
    assert_int_equal(event.kind, FABRIC_DISCONNECTED);
    end_destroy(bob);
    fall_asleep(world, BOB);
}

/* F57: news beside an endpoint that is busy, for one who sleeps on several descriptors at once. */
static void test_news_beside_busy_endpoints_are_heard(void **state)
{
    enum {
        ROUNDS = 20
    };
    struct world *world = *state;
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    const struct fabric_work send = {.op = FABRIC_SEND, .flags = FABRIC_SIGNALLED};
    struct epoll_event event = {.events = EPOLLIN};
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct world_end *alice, *bob;

    assert_int_equal(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fabric_fd(world->fabrics[BOB]), &event), 0);
    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t requests = world->request_count;

        end_receive(bob, i, there, 0, 0);
        world->asleep[BOB] = false;
        assert_int_equal(end_post(alice, &send), NIGH_OK);
        assert_int_equal(end_wait_receive(bob, i), NIGH_OK);
        fall_asleep(world, BOB);
        world_poll(world, BOB);
        (void)world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
        assert_comes(world, epoll_wait(epoll_fd, &event, 1, 0) == 1);
        world_steps(world, 200);
        while (world->request_count == requests) {
            if (fabric_arm(world->fabrics[BOB]))
                assert_comes(world, epoll_wait(epoll_fd, &event, 1, 0) == 1);
            world_poll(world, BOB);
        }
    }
    (void)close(epoll_fd);
}

/* All fabrics asleep at once, or polled when the descriptor says so. */
struct sleepers {
    struct world *world;
    int epoll_fd; /* -1: poll(2) */
    bool armed[WORLD_FABRICS];
};

static int sleepers_wait(struct sleepers *sleepers, int timeout_ms)
{
    struct world *world = sleepers->world;
    struct epoll_event events[WORLD_FABRICS];
    struct pollfd fds[WORLD_FABRICS];
    int count;

    if (sleepers->epoll_fd >= 0) {
        count = epoll_wait(sleepers->epoll_fd, events, WORLD_FABRICS, timeout_ms);
        for (int i = 0; i < count; i++)
            sleepers->armed[events[i].data.u32] = false;
        return count;
    }
    for (uint32_t i = 0; i < world->fabric_count; i++)
        fds[i] = (struct pollfd){.fd = fabric_fd(world->fabrics[i]), .events = POLLIN};
    count = poll(fds, world->fabric_count, timeout_ms);
    for (uint32_t i = 0; i < world->fabric_count; i++)
        sleepers->armed[i] = sleepers->armed[i] && !(fds[i].revents & POLLIN);
    return count;
}

/* One turn: who is awake is polled, and sleeps if it may; all asleep: somebody must be woken. */
static void sleepers_turn(struct sleepers *sleepers)
{
    struct world *world = sleepers->world;
    uint64_t seen = world->seen;
    bool all = true;

    for (uint32_t i = 0; i < world->fabric_count; i++) {
        if (sleepers->armed[i])
            continue;
        world_poll(world, i);
        sleepers->armed[i] = fabric_arm(world->fabrics[i]);
        all = all && sleepers->armed[i];
    }
    if (!all || world->seen != seen) { /* what came may be what the test waits for */
        (void)sleepers_wait(sleepers, 0);
        return;
    }
    if (sleepers_wait(sleepers, SLEEP_MS) == 0) {
        uint64_t now_us = world_provider.now_us(world);

        /* Only what is due by the clock excuses it. */
        for (uint32_t i = 0; i < world->fabric_count; i++) {
            if (fabric_due_us(world->fabrics[i]) <= now_us)
                sleepers->armed[i] = all = false;
        }
        assert_false(all);
    }
}

static void sleepers_move(struct world *world, bool nested)
{
    enum {
        MESSAGES = 60
    };
    struct sleepers sleepers = {.world = world, .epoll_fd = -1};
    uint64_t size = 16 * MIB;
    struct world_area *here = world_area(world, ALICE, 2 * size, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 2 * size, ALL_RIGHTS);
    struct world_end *alice, *bob;

    if (nested) {
        sleepers.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        for (uint32_t i = 0; i < world->fabric_count; i++) {
            struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};

            assert_int_equal(
                epoll_ctl(sleepers.epoll_fd, EPOLL_CTL_ADD, fabric_fd(world->fabrics[i]), &event),
                0);
        }
    }
    world_join(world, ALICE, BOB, &alice, &bob);
    area_fill(here, 0, size, 1);
    area_fill(there, 0, size, 2);
    end_write(alice, 1, here, 0, area_remote(there, size), size);
    end_read(alice, 2, here, size, area_remote(there, 0), size);
    while (alice->logged < 2)
        sleepers_turn(&sleepers);
    assert_true(area_holds(here, size, size, 2));
    assert_true(area_holds(there, size, size, 1));
    for (uint64_t i = 0; i < MESSAGES; i++) { /* what answers is the sleeping target */
        sleepers.armed[ALICE] = false;
        end_write(alice, 1000 + i, here, 0, area_remote(there, 0), 1 + i * 100);
        while (end_find(alice, 1000 + i) == NULL)
            sleepers_turn(&sleepers);
    }
    for (uint64_t i = 0; i < MESSAGES; i++) {
        const struct fabric_work work = {
            .op = FABRIC_SEND, .flags = FABRIC_SIGNALLED | FABRIC_SOLICITED, .tag = 100 + i};

        end_receive(bob, i, there, 0, 0);
        end_receive(alice, i, here, 0, 0);
        sleepers.armed[ALICE] = sleepers.armed[BOB] = false;
        assert_int_equal(end_post(alice, &work), NIGH_OK);
        while (end_find_receive(bob, i) == NULL)
            sleepers_turn(&sleepers);
        sleepers.armed[BOB] = false;
        assert_int_equal(end_post(bob, &work), NIGH_OK);
        while (end_find_receive(alice, i) == NULL)
            sleepers_turn(&sleepers);
    }
    if (nested)
        (void)close(sleepers.epoll_fd);
}

/* F57 F60 */
static void test_sleepers_move_everything(void **state)
{
    sleepers_move(*state, false);
}

/* F57 F60 */
static void test_sleepers_on_several_move_everything(void **state)
{
    sleepers_move(*state, true);
}

/* ---- a fabric on a thread of its own ---- */

#define SERVER_RECEIVES 16u
#define SERVER_BYTES    1024u

/* Echoes every message; sleeps when there is nothing. Reports, and does not assert. */
struct server {
    struct world *world;
    struct fabric *fabric;
    struct world_area *area;
    _Atomic bool stop;
    uint32_t faults;
    uint32_t echoed;
};

static void server_receive(struct server *server, struct fabric_endpoint *endpoint, uint64_t tag)
{
    const struct fabric_receive receive = {
        .tag = tag, .slice = area_slice(server->area, tag * SERVER_BYTES, SERVER_BYTES)};

    if (fabric_post_receive(server->fabric, endpoint, &receive, NULL) != NIGH_OK)
        server->faults++;
}

static void server_serve(struct server *server, const struct fabric_completion *done)
{
    struct fabric_slice slice = area_slice(server->area, done->tag * SERVER_BYTES, done->bytes);
    const struct fabric_work work = {.op = FABRIC_SEND,
                                     .flags = FABRIC_SIGNALLED | FABRIC_SOLICITED,
                                     .tag = done->tag,
                                     .slices = &slice,
                                     .slice_count = 1};

    if (done->status != NIGH_OK)
        return;
    if (done->op == FABRIC_SEND) {
        server_receive(server, done->endpoint, done->tag);
        return;
    }
    server->echoed++;
    if (fabric_post(server->fabric, done->endpoint, &work, NULL) != NIGH_OK)
        server->faults++;
}

static void server_event(struct server *server, const struct fabric_event *event)
{
    const struct fabric_endpoint_options options = {.sends = 2 * SERVER_RECEIVES,
                                                    .receives = SERVER_RECEIVES};

    if (event->kind == FABRIC_DISCONNECTED)
        fabric_endpoint_destroy(server->fabric, event->endpoint);
    if (event->kind != FABRIC_REQUEST)
        return;
    if (fabric_accept(server->fabric, event->endpoint, &options, NULL, 0) != NIGH_OK)
        server->faults++;
    for (uint64_t i = 0; i < SERVER_RECEIVES; i++)
        server_receive(server, event->endpoint, i);
}

static void *server_run(void *argument)
{
    struct server *server = argument;

    while (!atomic_load(&server->stop)) {
        struct fabric_completion done[8];
        struct fabric_event event;
        uint32_t count = fabric_poll(server->fabric, done, ARRAY_LENGTH(done),
                                     world_provider.now_us(server->world));

        for (uint32_t i = 0; i < count; i++)
            server_serve(server, &done[i]);
        while (fabric_next_event(server->fabric, &event))
            server_event(server, &event);
        if (fabric_arm(server->fabric))
            (void)is_readable(server->fabric, 50); /* to look at stop again */
    }
    return NULL;
}

/* F1 F57: two threads, a fabric each, share nothing. */
static void test_a_thread_each(void **state)
{
    enum {
        ROUNDS = 500
    };
    struct world *world = *state;
    static struct server server;
    struct world_area *here = world_area(world, ALICE, 8 * KIB, ALL_RIGHTS);
    struct world_end *alice;
    pthread_t thread;

    memset(&server, 0, sizeof(server));
    server.world = world;
    server.fabric = world->fabrics[BOB];
    server.area = world_area(world, BOB, 128 * KIB, ALL_RIGHTS);
    area_fill(server.area, 64 * KIB, 4 * KIB, 7);
    struct fabric_remote remote = area_remote(server.area, 64 * KIB);

    world->asleep[BOB] = true; /* it is the thread's */
    assert_int_equal(pthread_create(&thread, NULL, server_run, &server), 0);
    alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
    bool fine = WORLD_UNTIL(world, alice->established == 1);

    for (uint64_t i = 0; fine && i < ROUNDS; i++) {
        uint64_t bytes = 1 + i % SERVER_BYTES;

        area_fill(here, 0, bytes, i);
        end_receive(alice, i, here, 1024, 1024);
        end_send(alice, i, here, 0, bytes);
        fine = WORLD_UNTIL(world, end_find_receive(alice, i) != NULL && end_find(alice, i) != NULL);
        fine = fine && area_holds(here, 1024, bytes, i);
        if (i % 50 == 0) {
            end_read(alice, ROUNDS + i, here, 4 * KIB, remote, 4 * KIB);
            fine = fine && WORLD_UNTIL(world, end_find(alice, ROUNDS + i) != NULL) &&
                   area_holds(here, 4 * KIB, 4 * KIB, 7);
        }
    }
    atomic_store(&server.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(fine);
    assert_int_equal(server.faults, 0);
    assert_int_equal(server.echoed, ROUNDS);
}

static const struct CMUnitTest tests[] = {
    WORLD_TEST(test_a_sleeper_is_woken_by_all_that_arrives),
    WORLD_TEST(test_who_polls_knows_whether_it_is_armed),
    WORLD_TEST(test_a_sleeper_is_woken_by_its_own_completions),
    WORLD_TEST(test_arm_refuses_when_something_is_there),
    WORLD_TEST(test_news_beside_busy_endpoints_are_heard),
    WORLD_TEST(test_sleepers_move_everything),
    WORLD_TEST(test_sleepers_on_several_move_everything),
};

const struct world_tests sleep_tests = {tests, ARRAY_LENGTH(tests)};

static const struct CMUnitTest threaded[] = {
    WORLD_TEST(test_a_thread_each),
};

const struct world_tests thread_tests = {threaded, ARRAY_LENGTH(threaded)};
