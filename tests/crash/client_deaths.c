/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client may be killed, or stopped, between any two stores. Here libnigh runs over a seam that
 * raises SIGKILL at the k-th store, fence or middle of a copy, for every k of every operation,
 * against a real node; after each death the node must serve others at once, get everything back
 * that the dead session held, and show of each object that it touched nothing or the whole. The
 * same with SIGSTOP: others are served meanwhile, and the operation ends well when it goes on.
 *
 * One child a death: it opens a client, prepares, arms the seam, runs the operation.
 */
#include "base/limits.h"
#include "crash/crash_world.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETTLE_MS  20000
#define PROBE_US   10000000 /* how long a put or get of a bystander may wait */
#define POINTS_MAX 5000     /* an operation that never ends is a failure */
#define MADE       8u       /* objects that an operation may make */
#define OWN_PINS   (LIMIT_THREAD_CHUNKS * LIMIT_PINS_A_CHUNK)
#define SMALL      3000u
#define LARGE      (700u << 10)

/* ---- the seam ------------------------------------------------------------- */

static uint64_t points;   /* passed since armed */
static uint64_t death_at; /* 0: never */
static int death_signal;
static bool armed;

void seam_point(void)
{
    if (armed && ++points == death_at) {
        syscall(SYS_kill, getpid(), death_signal);
    }
}

#undef memcpy
void *seam_copy(void *to, const void *from, size_t size_bytes)
{
    size_t half = size_bytes / 2;

    if (!armed || size_bytes < 64) {
        return memcpy(to, from, size_bytes);
    }
    memcpy(to, from, half);
    seam_point();
    memcpy((char *)to + half, (const char *)from + half, size_bytes - half);
    return to;
}

/* ---- what is done --------------------------------------------------------- */

static struct node_fixture node;

/* What a child has in hand. */
struct victim {
    nigh_client *client; /* NULL while it is the operation that opens it */
    uint32_t spin_us;
    nigh_id shared;     /* sealed, by another session */
    nigh_id made[MADE]; /* not there before */
    nigh_view views[OWN_PINS + 1];
    nigh_writer writer;
};

static bool get_shared(struct victim *victim, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (nigh_get(victim->client, &victim->shared, 1, 0, &victim->views[i]) != NIGH_OK) {
            return false;
        }
    }
    return true;
}

static bool get_one(struct victim *victim)
{
    return get_shared(victim, 1);
}

static bool get_and_release(struct victim *victim)
{
    return get_one(victim) && nigh_release(victim->client, &victim->views[0]) == NIGH_OK;
}

/* All words of the thread's own are taken: the lane has to pin for the next get. */
static bool get_all_words(struct victim *victim)
{
    return get_shared(victim, OWN_PINS);
}

static bool get_by_the_lane(struct victim *victim)
{
    nigh_view *view = &victim->views[OWN_PINS];

    return nigh_get(victim->client, &victim->shared, 1, PROBE_US, view) == NIGH_OK &&
           crash_is_right(&victim->shared, view);
}

static bool hold_by_the_lane(struct victim *victim)
{
    return get_all_words(victim) && get_by_the_lane(victim);
}

static bool release_of_the_lane(struct victim *victim)
{
    return nigh_release(victim->client, &victim->views[OWN_PINS]) == NIGH_OK;
}

static bool release_one(struct victim *victim)
{
    return crash_is_right(&victim->shared, &victim->views[0]) &&
           nigh_release(victim->client, &victim->views[0]) == NIGH_OK;
}

static bool get_many(struct victim *victim)
{
    nigh_id ids[4] = {victim->shared, victim->made[0], victim->shared, victim->made[1]};

    return nigh_get(victim->client, ids, 4, 3000, victim->views) == NIGH_TIMEOUT &&
           nigh_release(victim->client, &victim->views[0]) == NIGH_OK &&
           nigh_release(victim->client, &victim->views[2]) == NIGH_OK;
}

static bool wait_in_vain(struct victim *victim)
{
    return crash_check(victim->client, &victim->made[0], 3000) == NIGH_TIMEOUT;
}

static bool wait_and_cancel(struct victim *victim)
{
    nigh_op op;

    return nigh_get_start(victim->client, &victim->made[0], 1, NIGH_FOREVER, victim->views, &op) ==
               NIGH_OK &&
           nigh_cancel(victim->client, &op) == NIGH_CANCELED;
}

static bool create(struct victim *victim, const nigh_id *id, uint32_t flags)
{
    uint8_t meta[CRASH_META_BYTES];
    nigh_create_options options;

    crash_options(id, flags, meta, &options);
    return nigh_create(victim->client, id, &options, &victim->writer) == NIGH_OK;
}

static bool create_small(struct victim *victim)
{
    return create(victim, &victim->made[0], 0);
}

static bool create_large(struct victim *victim)
{
    return create(victim, &victim->made[1], 0);
}

static bool create_exclusive(struct victim *victim)
{
    return create(victim, &victim->made[0], NIGH_CREATE_EXCLUSIVE);
}

static bool write_it(struct victim *victim)
{
    crash_fill(&victim->writer.id, victim->writer.data, victim->writer.data_size);
    return true;
}

static bool write_small(struct victim *victim)
{
    return create_small(victim) && write_it(victim);
}

static bool write_large(struct victim *victim)
{
    return create_large(victim) && write_it(victim);
}

static bool write_exclusive(struct victim *victim)
{
    return create_exclusive(victim) && write_it(victim);
}

/* Half of the bytes written, so that a seal by mistake would show. */
static bool write_half(struct victim *victim)
{
    if (!create_large(victim)) {
        return false;
    }
    crash_fill(&victim->writer.id, victim->writer.data, victim->writer.data_size / 2);
    return true;
}

/* The application's own stores, between create and seal. */
static bool write_in_pieces(struct victim *victim)
{
    for (uint64_t part = 0; part <= 4; part++) {
        crash_fill(&victim->writer.id, victim->writer.data, victim->writer.data_size * part / 4);
        seam_point();
    }
    return true;
}

static bool seal(struct victim *victim)
{
    return nigh_seal(victim->client, &victim->writer) == NIGH_OK;
}

static bool give_up(struct victim *victim)
{
    return nigh_abort(victim->client, &victim->writer) == NIGH_OK;
}

static bool put_small(struct victim *victim)
{
    return crash_put(victim->client, &victim->made[0], 0) == NIGH_OK;
}

static bool put_again(struct victim *victim)
{
    return crash_put(victim->client, &victim->made[2], 0) == NIGH_OK;
}

static bool put_large(struct victim *victim)
{
    return crash_put(victim->client, &victim->made[1], 0) == NIGH_OK;
}

static bool put_existing(struct victim *victim)
{
    return crash_put(victim->client, &victim->shared, 0) == NIGH_EXISTS;
}

/* All of the made ones with one call: leased and large ones together. */
static bool put_many(struct victim *victim)
{
    static uint8_t meta[MADE][CRASH_META_BYTES];
    static nigh_create_options options[MADE];
    static uint8_t data[MADE][LARGE];
    nigh_put_item items[MADE];

    for (size_t i = 0; i < MADE; i++) {
        crash_options(&victim->made[i], 0, meta[i], &options[i]);
        crash_fill(&victim->made[i], data[i], crash_size(&victim->made[i]));
        items[i] = (nigh_put_item){.id = victim->made[i],
                                   .data = data[i],
                                   .data_size = crash_size(&victim->made[i]),
                                   .options = &options[i]};
    }
    return nigh_put_many(victim->client, items, MADE) == NIGH_OK;
}

static bool delete_shared(struct victim *victim)
{
    return nigh_delete(victim->client, &victim->shared, 1, NULL) == NIGH_OK;
}

static bool delete_in_use(struct victim *victim)
{
    nigh_status status;

    return nigh_delete(victim->client, &victim->shared, 1, &status) == NIGH_OK &&
           status == NIGH_IN_USE;
}

static bool look(struct victim *victim)
{
    nigh_object_info info;
    nigh_holder holder;
    bool found;
    size_t count;

    return nigh_stat(victim->client, &victim->shared, &info) == NIGH_OK &&
           nigh_contains(victim->client, &victim->shared, &found) == NIGH_OK && found &&
           nigh_who(victim->client, &victim->shared, &holder, 1, &count) == NIGH_OK;
}

static bool watch(struct victim *victim)
{
    nigh_event event;

    return nigh_subscribe(victim->client, NIGH_SUBSCRIBE_REPLAY) == NIGH_OK &&
           nigh_next_event(victim->client, PROBE_US, &event) == NIGH_OK &&
           nigh_unsubscribe(victim->client) == NIGH_OK;
}

static bool open_it(struct victim *victim)
{
    victim->client = crash_open(&node, "victim", victim->spin_us);
    return victim->client != NULL;
}

static bool close_it(struct victim *victim)
{
    nigh_client_close(victim->client);
    return true;
}

static bool hold_everything(struct victim *victim)
{
    return get_one(victim) && create_small(victim) && create_large(victim);
}

static bool nothing(struct victim *victim)
{
    (void)victim;
    return true;
}

/* Floors are a little below what is there: fewer mean that the seam has come loose. */
static const struct operation {
    const char *name;
    bool (*prepare)(struct victim *victim);
    bool (*act)(struct victim *victim);
    uint32_t floor;
    bool opens; /* `act` opens the client */
} operations[] = {
    {"get, the first", nothing, get_one, 9, false},
    {"get", get_and_release, get_one, 5, false},
    {"release", get_one, release_one, 1, false},
    {"get, pinned by the lane", get_all_words, get_by_the_lane, 8, false},
    {"release, pinned by the lane", hold_by_the_lane, release_of_the_lane, 1, false},
    {"get of several", nothing, get_many, 28, false},
    {"get that waits", nothing, wait_in_vain, 11, false},
    {"get that is cancelled", nothing, wait_and_cancel, 12, false},
    {"create, the first", nothing, create_small, 4, false},
    {"create", put_again, create_small, 4, false},
    {"create, large", nothing, create_large, 12, false},
    {"create, exclusive", nothing, create_exclusive, 12, false},
    {"seal", write_small, seal, 8, false},
    {"seal, large", write_large, seal, 8, false},
    {"seal, exclusive", write_exclusive, seal, 8, false},
    {"write", create_small, write_in_pieces, 5, false},
    {"write, large", create_large, write_in_pieces, 5, false},
    {"abort", write_small, give_up, 0, false}, /* of leased bytes: private to the client */
    {"abort, large", write_half, give_up, 8, false},
    {"put, the first", nothing, put_small, 9, false},
    {"put", put_again, put_small, 9, false},
    {"put, large", nothing, put_large, 18, false},
    {"put of what exists", nothing, put_existing, 10, false},
    {"put of many", nothing, put_many, 60, false},
    {"delete", nothing, delete_shared, 8, false},
    {"delete, in use", get_one, delete_in_use, 8, false},
    {"stat, contains, who", nothing, look, 22, false},
    {"subscribe", nothing, watch, 30, false},
    {"open", nothing, open_it, 18, true},
    {"close", hold_everything, close_it, 6, false},
};

#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

/* ---- one death ------------------------------------------------------------ */

/* Exit codes of a child that outlived its operation. */
#define CHILD_DONE    0
#define CHILD_FAILED  2
#define CHILD_UNREADY 3

/* What a child is told. */
struct errand {
    const struct operation *operation;
    uint32_t spin_us;
    uint64_t death_at;
    int death_signal;
};

static nigh_id shared_id(void)
{
    return crash_id(1, 0, 40000);
}

static nigh_id made_id(uint32_t i)
{
    return crash_id(2, i, i % 4 == 1 ? LARGE : SMALL + i);
}

static int child_body(void *arg)
{
    const struct errand *errand = arg;
    static struct victim victim;
    bool done;

    victim.spin_us = errand->spin_us;
    victim.shared = shared_id();
    for (uint32_t i = 0; i < MADE; i++) {
        victim.made[i] = made_id(i);
    }
    if (!errand->operation->opens && (!open_it(&victim) || !errand->operation->prepare(&victim))) {
        return CHILD_UNREADY;
    }
    death_at = errand->death_at;
    death_signal = errand->death_signal;
    armed = true;
    done = errand->operation->act(&victim);
    armed = false;
    return done ? CHILD_DONE : CHILD_FAILED;
}

/* ---- what must hold after it ---------------------------------------------- */

static nigh_client *checker;
static nigh_node_stats before = {.struct_size = sizeof before}; /* without victims */
static uint64_t probes;
static uint64_t slowest_us;

/* Others are served at once, whether or not the node has noticed the death. */
static bool serves(void)
{
    nigh_id id = crash_id(3, probes++, 5000);
    uint64_t begin_us = support_now_us();
    uint64_t took_us;
    bool served = crash_put(checker, &id, NIGH_CREATE_EXCLUSIVE) == NIGH_OK &&
                  crash_check(checker, &id, PROBE_US) == NIGH_OK &&
                  nigh_delete(checker, &id, 1, NULL) == NIGH_OK;

    took_us = support_now_us() - begin_us;
    slowest_us = took_us > slowest_us ? took_us : slowest_us;
    return served && took_us < PROBE_US;
}

/* The object is absent or whole, and nobody pins it: its memory goes at once. */
static bool is_absent_or_whole(const nigh_id *id)
{
    nigh_status status = crash_check(checker, id, 0);
    nigh_status deleted;

    if (status != NIGH_OK && status != NIGH_TIMEOUT) {
        printf("# get: %s\n", nigh_status_name(status));
        return false;
    }
    (void)nigh_delete(checker, id, 1, &deleted);
    if (deleted != (status == NIGH_OK ? NIGH_OK : NIGH_NOT_FOUND)) {
        printf("# get: %s, delete: %s\n", nigh_status_name(status), nigh_status_name(deleted));
        return false;
    }
    return true;
}

/* The shared object is where it was, whole and unpinned; only a delete may have taken it. */
static bool shared_is_right(const struct operation *operation)
{
    nigh_id id = shared_id();
    bool may_be_gone = operation->act == delete_shared || operation->act == delete_in_use;
    nigh_status status = crash_check(checker, &id, 0);

    if (status != NIGH_OK && !(may_be_gone && status == NIGH_TIMEOUT)) {
        printf("# the shared object: %s\n", nigh_status_name(status));
        return false;
    }
    return is_absent_or_whole(&id) && crash_put(checker, &id, NIGH_CREATE_EXCLUSIVE) == NIGH_OK;
}

static void check_after(const struct operation *operation, uint64_t at)
{
    bool good = serves();

    if (!good) {
        fail_msg("%s, death at %" PRIu64 ": others are not served", operation->name, at);
    }
    if (!SUPPORT_WAIT(crash_settled(checker, &before, false), SETTLE_MS)) {
        crash_print_difference(checker, &before);
        fail_msg("%s, death at %" PRIu64 ": the session left something", operation->name, at);
    }
    for (uint32_t i = 0; i < MADE; i++) {
        nigh_id id = made_id(i);

        if (!is_absent_or_whole(&id)) {
            fail_msg("%s, death at %" PRIu64 ": object %u", operation->name, at, i);
        }
    }
    if (!shared_is_right(operation)) {
        fail_msg("%s, death at %" PRIu64 ": the shared object", operation->name, at);
    }
    if (!SUPPORT_WAIT(crash_settled(checker, &before, true), SETTLE_MS)) {
        crash_print_difference(checker, &before);
        fail_msg("%s, death at %" PRIu64 ": memory is lost", operation->name, at);
    }
}

/* Waits for a child that dies, stops or ends. While it is stopped the others are served; then it
 * goes on. How it ended, as support_join; *stopped: whether it was. */
static int await_child(pid_t child, const struct errand *errand, bool *stopped)
{
    int status = 0;

    *stopped = false;
    if (errand->death_signal == SIGSTOP && waitpid(child, &status, WUNTRACED) == child) {
        if (!WIFSTOPPED(status)) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        }
        *stopped = true;
        if (!serves()) {
            fail_msg("%s, stopped at %" PRIu64 ": others are not served", errand->operation->name,
                     errand->death_at);
        }
        kill(child, SIGCONT);
    }
    return support_join(child, SETTLE_MS);
}

/*
 * Kills or stops at every point until the operation gets by three times in a row: how many points a
 * run passes depends a little on who is faster. Returns how many were hit.
 */
static uint64_t die_everywhere(const struct operation *operation, uint32_t spin_us, int number)
{
    uint64_t hits = 0, alive = 0;

    for (uint64_t at = 1; alive < 3; at++) {
        struct errand errand = {operation, spin_us, at, number};
        bool stopped;
        int ended;

        assert_true(at < POINTS_MAX);
        ended = await_child(support_fork(child_body, &errand), &errand, &stopped);
        if (ended != CHILD_DONE && (ended != -SIGKILL || number != SIGKILL)) {
            fail_msg("%s, death at %" PRIu64 ": the child ended with %d", operation->name, at,
                     ended);
        }
        alive = stopped || ended == -SIGKILL ? 0 : alive + 1;
        hits += alive == 0;
        check_after(operation, at);
    }
    return hits;
}

static void die_in_all(uint32_t spin_us, int number, const char *how)
{
    uint64_t total = 0;

    for (size_t i = 0; i < OPERATIONS; i++) {
        uint64_t hits = die_everywhere(&operations[i], spin_us, number);

        printf("# %-28s %4" PRIu64 " %s\n", operations[i].name, hits, how);
        fflush(stdout);
        assert_true(hits >= operations[i].floor);
        total += hits;
    }
    printf("# all: %" PRIu64 " %s; the slowest put, get and delete of others after one took "
           "%" PRIu64 " us\n",
           total, how, slowest_us);
}

/* A client that takes its completions in without sleeping, and one that always sleeps. */
static void test_deaths_of_a_client_that_spins(void **state)
{
    (void)state;
    die_in_all(20000, SIGKILL, "deaths, spinning");
}

static void test_deaths_of_a_client_that_sleeps(void **state)
{
    (void)state;
    die_in_all(1, SIGKILL, "deaths, sleeping");
}

static void test_stops_of_a_client(void **state)
{
    (void)state;
    die_in_all(1, SIGSTOP, "stops");
}

/* ---- set-up --------------------------------------------------------------- */

static int set_up(void **state)
{
    static const char *const flags[] = {"--lanes", "2", NULL};
    nigh_id id = shared_id();

    (void)state;
    node_fixture_start(&node, "64M", flags);
    checker = crash_open(&node, "checker", 0);
    assert_non_null(checker);
    assert_int_equal(crash_put(checker, &id, NIGH_CREATE_EXCLUSIVE), NIGH_OK);
    assert_true(serves());
    assert_int_equal(nigh_stats(checker, &before), NIGH_OK);
    assert_int_equal(before.sessions, 1);
    assert_int_equal(before.objects, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_true(node_fixture_lives(&node));
    nigh_client_close(checker);
    node_fixture_stop(&node);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_deaths_of_a_client_that_spins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deaths_of_a_client_that_sleeps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stops_of_a_client, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("client deaths", tests, NULL, NULL);
}
