/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients stopped with SIGSTOP for long, in the middle of whatever they did, while memory is full:
 * the others are served all the time, what the stopped ones hold stays, and when they go on they
 * find their bytes right. Stops between two given stores are client_deaths.c's.
 */
#include "crash/crash_load.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS      4u
#define STOP_MS      2000u  /* without a budget */
#define STOP_SOAK_MS 60000u /* at most, with one */
#define SLOWEST_US   5000000u
#define SETTLE_MS    30000
#define HELD_SMALL   3000u
#define HELD_LARGE   (700u << 10)

static struct node_fixture node;
static struct load_board *board;
static struct load_report *reports;

/* ---- a client that holds and is stopped ----------------------------------- */

static nigh_id held_id(uint32_t i)
{
    return crash_id(20, i, i % 2 == 0 ? HELD_SMALL : HELD_LARGE);
}

#define HELD     4u
#define HALF_ID  crash_id(21, 0, HELD_LARGE)
#define AFTER_ID crash_id(22, 0, HELD_SMALL)

/* Holds what others put, and half an object of its own; stops; goes on. The exit code says where it
 * failed. */
static int holder_body(void *unused)
{
    nigh_client *client = crash_open(&node, "holder", 0);
    nigh_id half = HALF_ID, after = AFTER_ID;
    nigh_view views[HELD];
    nigh_create_options options;
    uint8_t meta[CRASH_META_BYTES];
    nigh_writer writer;

    (void)unused;
    for (uint32_t i = 0; i < HELD; i++) {
        nigh_id id = held_id(i);

        if (client == NULL || nigh_get(client, &id, 1, 0, &views[i]) != NIGH_OK) {
            return 2;
        }
    }
    crash_options(&half, NIGH_CREATE_EXCLUSIVE, meta, &options);
    if (nigh_create(client, &half, &options, &writer) != NIGH_OK) {
        return 3;
    }
    crash_fill(&half, writer.data, writer.data_size / 2);

    raise(SIGSTOP);

    for (uint32_t i = 0; i < HELD; i++) {
        nigh_id id = held_id(i);

        if (!crash_is_right(&id, &views[i]) || nigh_release(client, &views[i]) != NIGH_OK) {
            return 4;
        }
    }
    crash_fill(&half, writer.data, writer.data_size);
    if (nigh_seal(client, &writer) != NIGH_OK || crash_check(client, &half, 0) != NIGH_OK) {
        return 5;
    }
    if (crash_put(client, &after, 0) != NIGH_OK) {
        return 6;
    }
    nigh_client_close(client);
    return 0;
}

/* Waits until a child is stopped, all threads of it. */
static void await_stop(pid_t child)
{
    int status = 0;

    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
}

/* ---- clients that are stopped while they work ----------------------------- */

struct worker {
    uint32_t number;
    uint64_t seed;
};

static int worker_body(void *arg)
{
    const struct worker *worker = arg;
    nigh_client *client = crash_open(&node, "worker", 0);
    struct load *load =
        client != NULL ? load_create(client, board, &reports[worker->number], worker->seed) : NULL;

    if (load == NULL) {
        return 2;
    }
    while (atomic_load(&board->stop) == 0) {
        if (!load_step(load)) {
            return 3;
        }
    }
    load_release_all(load);
    nigh_client_close(client);
    return 0;
}

/* Stops each in the middle of something: after so many operations, and then at once. */
static void stop_workers(const pid_t workers[WORKERS], uint64_t *random)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        uint64_t steps = support_random(random) % 300;

        assert_true(SUPPORT_WAIT(atomic_load(&reports[i].steps) >= steps, SETTLE_MS));
        kill(workers[i], SIGSTOP);
        await_stop(workers[i]);
    }
}

/* ---- the others ----------------------------------------------------------- */

/* Whether memory was filled, and emptied, more than twice. */
static bool has_turned_over(nigh_client *client)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    return nigh_stats(client, &stats) == NIGH_OK && stats.evicted_bytes > 2 * stats.memory_bytes;
}

/* Fills memory over and over for stop_ms at least, and looks at what is held; returns the slowest
 * round. */
static uint64_t press(nigh_client *client, uint64_t stop_ms)
{
    uint64_t end_us = support_now_us() + stop_ms * 1000;
    uint64_t slowest_us = 0;

    for (uint64_t n = 0; support_now_us() < end_us || n % 64 != 0 || !has_turned_over(client);
         n++) {
        nigh_id id = crash_id(23, n, (uint32_t)(n % 16) * 10000);
        nigh_id held = held_id((uint32_t)(n % HELD));
        uint64_t begin_us = support_now_us();

        assert_int_equal(crash_put(client, &id, 0), NIGH_OK);
        assert_int_equal(crash_check(client, &id, 0), NIGH_OK);
        assert_int_equal(crash_check(client, &held, 0), NIGH_OK);
        begin_us = support_now_us() - begin_us;
        slowest_us = begin_us > slowest_us ? begin_us : slowest_us;
    }
    return slowest_us;
}

static void let_go_on(pid_t holder, const pid_t workers[WORKERS], nigh_client *client)
{
    nigh_id half = HALF_ID, after = AFTER_ID;
    uint64_t verified[WORKERS];

    kill(holder, SIGCONT);
    assert_int_equal(support_join(holder, SETTLE_MS), 0);
    assert_int_equal(crash_check(client, &half, 0), NIGH_OK);
    assert_int_equal(crash_check(client, &after, 0), NIGH_OK);
    for (uint32_t i = 0; i < WORKERS; i++) {
        verified[i] = atomic_load(&reports[i].verified);
        kill(workers[i], SIGCONT);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_true(SUPPORT_WAIT(atomic_load(&reports[i].verified) > verified[i] + 10 ||
                                     atomic_load(&reports[i].failure) != 0,
                                 SETTLE_MS));
    }
    atomic_store(&board->stop, 1);
    for (uint32_t i = 0; i < WORKERS; i++) {
        int ended = support_join(workers[i], SETTLE_MS);

        if (ended != 0) {
            fail_msg("a worker ended with %d: %s in operation %u", ended,
                     nigh_status_name((nigh_status)atomic_load(&reports[i].failure)),
                     atomic_load(&reports[i].failed_in));
        }
    }
}

static void test_stopped_clients(void **state)
{
    static const char *const flags[] = {"--lanes", "2", NULL};
    uint64_t random = support_seed();
    uint64_t stop_ms = support_budget_ms(STOP_MS);
    nigh_node_stats before = {.struct_size = sizeof before},
                    during = {.struct_size = sizeof during};
    pid_t workers[WORKERS], holder;
    nigh_client *client;
    nigh_id half = HALF_ID;
    nigh_object_info info;
    uint64_t slowest_us;

    (void)state;
    stop_ms = stop_ms < STOP_SOAK_MS ? stop_ms : STOP_SOAK_MS;
    board = load_shared(sizeof(*board));
    reports = load_shared(sizeof(*reports) * WORKERS);
    node_fixture_start(&node, "48M", flags);
    client = crash_open(&node, "bystander", 0);
    assert_non_null(client);
    assert_int_equal(nigh_stats(client, &before), NIGH_OK);
    for (uint32_t i = 0; i < HELD; i++) {
        nigh_id id = held_id(i);

        assert_int_equal(crash_put(client, &id, NIGH_CREATE_EXCLUSIVE), NIGH_OK);
    }
    holder = support_fork(holder_body, NULL);
    await_stop(holder);
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct worker worker = {i, support_random(&random) | 1};

        workers[i] = support_fork(worker_body, &worker);
    }
    stop_workers(workers, &random);

    slowest_us = press(client, stop_ms);
    assert_int_equal(nigh_stat(client, &half, &info), NIGH_OK);
    assert_int_equal(info.state, NIGH_OBJECT_CREATED);
    assert_int_equal(nigh_stats(client, &during), NIGH_OK);
    printf("# stopped for %" PRIu64 " ms: the slowest of the others' calls took %" PRIu64
           " us; %" PRIu64 " MiB evicted meanwhile\n",
           stop_ms, slowest_us, during.evicted_bytes >> 20);
    assert_true(slowest_us < SLOWEST_US);

    let_go_on(holder, workers, client);
    crash_delete_all(client);
    nigh_client_close(client);

    client = crash_open(&node, "afterwards", 0);
    assert_non_null(client);
    if (!SUPPORT_WAIT(crash_settled(client, &before, true), SETTLE_MS)) {
        crash_print_difference(client, &before);
        fail_msg("something was left");
    }
    nigh_client_close(client);
    node_fixture_stop(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stopped_clients)};

    return cmocka_run_group_tests_name("client stops", tests, NULL, NULL);
}
