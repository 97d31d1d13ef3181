/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at the pair with the client's lock held (client/pair_now.c): it gives way, it ends, and
 * what it finds counts once; and the deadlines of calls whose server is told them roughly. Linked
 * with the library's insides: some tests write what the other side would, when they want it there.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/calls.h"
#include "client/client_internal.h"
#include "client/pair_calls.h"
#include "client/services.h"
#include "pairs_fixture.h"
#include "support/support.h"

#define MS            UINT64_C(1000)
#define LATE_US       (10 * UINT64_C(1000000)) /* on a busy machine */
#define PATIENCE_MS   (PATIENCE / 1000)
#define THREADS       3
#define CALLS_OF_EACH 1500u

/* What the clock of the kernel's last tick shows this process, beside the truth. */
static _Atomic int64_t tick_seconds;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long result = syscall(SYS_clock_gettime, clock, now);

    if (clock == CLOCK_MONOTONIC_COARSE)
        now->tv_sec += atomic_load(&tick_seconds);
    return (int)result;
}

static uint64_t ends_of(nigh_client *client)
{
    uint64_t ends;

    client_lock(client);
    ends = client->ends;
    client_unlock(client);
    return ends;
}

/* The pair that a client has here, as who calls or as who serves. */
static struct client_pair *pair_of(nigh_client *client)
{
    struct client_pairs *pairs = atomic_load(&client->pairs);

    assert_non_null(pairs);
    assert_int_not_equal(atomic_load(&pairs->live), 0);
    return &pairs->all[__builtin_ctzll(atomic_load(&pairs->live))];
}

/* Another thread's call, without a deadline unless it has one. */
struct calling {
    nigh_client *client;
    const char *request;
    uint64_t timeout_us;
    uint32_t flags;
    nigh_status status;
    char reply[8];
    _Atomic bool is_done;
    pthread_t thread;
};

static void *call(void *context)
{
    struct calling *calling = context;
    nigh_call_spec spec =
        spec_of(calling->request, strlen(calling->request), calling->reply, sizeof calling->reply);

    spec.flags = calling->flags;
    calling->status = nigh_call(calling->client, &spec, calling->timeout_us);
    atomic_store(&calling->is_done, true);
    return NULL;
}

static void start_calling(struct calling *calling)
{
    assert_int_equal(pthread_create(&calling->thread, NULL, call, calling), 0);
}

static nigh_status join_calling(struct calling *calling)
{
    assert_true(SUPPORT_WAIT(atomic_load(&calling->is_done), PATIENCE_MS));
    assert_int_equal(pthread_join(calling->thread, NULL), 0);
    return calling->status;
}

/* ---- the lock ---- */

/* Another thread of a client, which takes its lock again and again. */
struct other {
    nigh_client *client;
    uint32_t wrong;
    _Atomic bool is_done;
    pthread_t thread;
};

static void *start_and_cancel(void *context)
{
    struct other *other = context;

    for (uint32_t n = 0; n < 200; n++) {
        nigh_call_spec spec = spec_of("hold", 4, NULL, 0);
        nigh_op op;

        if (nigh_call_start(other->client, &spec, NIGH_FOREVER, &op) != NIGH_OK ||
            nigh_cancel(other->client, &op) != NIGH_CANCELED)
            other->wrong++;
    }
    atomic_store(&other->is_done, true);
    return NULL;
}

static void *call_nobody(void *context)
{
    struct other *other = context;

    for (uint32_t n = 0; n < 100; n++) {
        nigh_call_spec spec = spec_of("call", 4, NULL, 0);

        spec.service = "nobody";
        if (nigh_call(other->client, &spec, PATIENCE) != NIGH_NOT_FOUND)
            other->wrong++;
    }
    atomic_store(&other->is_done, true);
    return NULL;
}

static void other_comes_by(nigh_client *client, void *(*does)(void *))
{
    static struct other other; /* it may be there for ever, where the test fails */

    other = (struct other){.client = client};
    assert_int_equal(pthread_create(&other.thread, NULL, does, &other), 0);
    assert_true(SUPPORT_WAIT(atomic_load(&other.is_done), PATIENCE_MS));
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    assert_int_equal(other.wrong, 0);
}

/* Whoever looks for an answer that does not come. */
static void a_call_that_looks_gives_way(void **state)
{
    static struct calling calling = {.request = "call", .timeout_us = NIGH_FOREVER};
    struct server server;
    nigh_client *caller;

    (void)state;
    caller = begin_paired(&server);
    go_on(node.pid);
    for (uint32_t round = 0; round < 20; round++) {
        atomic_store(&calling.is_done, false);
        calling.client = caller;
        stop(server.pid);
        start_calling(&calling);
        other_comes_by(caller, start_and_cancel);
        assert_false(atomic_load(&calling.is_done));
        go_on(server.pid);
        assert_int_equal(join_calling(&calling), NIGH_OK);
    }
    end_paired(&server, caller);
}

struct receiving {
    struct serving serving;
    nigh_status status;
    nigh_request request;
    uint8_t buffer[NIGH_CALL_BYTES];
    _Atomic bool is_done;
    pthread_t thread;
};

static void *receive_one(void *context)
{
    struct receiving *receiving = context;

    receiving->status = nigh_receive(receiving->serving.service, &receiving->request,
                                     receiving->buffer, NIGH_FOREVER);
    atomic_store(&receiving->is_done, true);
    return NULL;
}

/* A receive looks where a RECEIVE stays with the lane: behind one that a pair had nothing for. */
static void keep_a_receive(const struct serving *serving)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    nigh_request request;

    do {
        assert_int_equal(nigh_receive(serving->service, &request, buffer, MS), NIGH_TIMEOUT);
    } while (serving->service->kept_count == 0);
}

static bool is_locked(nigh_client *client)
{
    if (pthread_mutex_trylock(&client->lock) != 0)
        return true;
    (void)pthread_mutex_unlock(&client->lock);
    return false;
}

/* A look is short, so it need not be seen; one that does not end is. */
static void a_receive_that_looks_gives_way(void **state)
{
    static struct receiving receiving;
    nigh_client *caller;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    caller = open_caller();
    serve_here(&receiving.serving);
    pair_here(caller, &receiving.serving);
    go_on(node.pid);
    for (uint32_t round = 0; round < 20; round++) {
        nigh_call_spec spec = spec_of("call", 4, receiving.buffer, 8);
        nigh_op op;

        keep_a_receive(&receiving.serving);
        atomic_store(&receiving.is_done, false);
        assert_int_equal(pthread_create(&receiving.thread, NULL, receive_one, &receiving), 0);
        (void)SUPPORT_WAIT(is_locked(receiving.serving.client), 20);
        other_comes_by(receiving.serving.client, call_nobody);
        assert_int_equal(nigh_call_start(caller, &spec, PATIENCE, &op), NIGH_OK);
        assert_true(SUPPORT_WAIT(atomic_load(&receiving.is_done), PATIENCE_MS));
        assert_int_equal(pthread_join(receiving.thread, NULL), 0);
        assert_int_equal(receiving.status, NIGH_OK);
        assert_int_equal(nigh_call_reply(&receiving.request, NIGH_OK, "told", 4), NIGH_OK);
        assert_int_equal(nigh_wait(caller, &op, PATIENCE), NIGH_OK);
    }
    nigh_client_close(receiving.serving.client);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* What a hundred receives of a pair that has nothing take, at the least. */
static uint64_t looks_take(const struct serving *serving)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    uint64_t least_us = UINT64_MAX;
    nigh_request request;

    for (uint32_t turn = 0; turn < 100; turn++) {
        uint64_t before_us = support_now_us();

        for (uint32_t n = 0; n < 100; n++)
            assert_false(pairs_receive_now(serving->service, &request, buffer, true));
        least_us = min_u64(least_us, support_now_us() - before_us);
    }
    return least_us;
}

/* Not at the end of its turns: at the next. */
static void who_wants_the_lock_is_not_kept_waiting(void **state)
{
    struct serving serving;
    uint64_t alone_us, wanted_us;
    nigh_client *caller;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    caller = open_caller();
    serve_here(&serving);
    pair_here(caller, &serving);
    go_on(node.pid);
    keep_a_receive(&serving);
    client_lock(serving.client);
    alone_us = looks_take(&serving);
    atomic_fetch_add(&serving.client->lock_wanted, 1);
    wanted_us = looks_take(&serving);
    atomic_fetch_sub(&serving.client->lock_wanted, 1);
    client_unlock(serving.client);
    assert_true(wanted_us * 4 < alone_us);
    nigh_client_close(serving.client);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* ---- deadlines ---- */

static void check_times_out(nigh_client *caller, uint64_t timeout_us)
{
    char reply[8];
    nigh_call_spec spec = spec_of("call", 4, reply, sizeof reply);
    uint64_t before_us = support_now_us(), after_us;

    assert_int_equal(nigh_call(caller, &spec, timeout_us), NIGH_TIMEOUT);
    after_us = support_now_us();
    assert_true(after_us - before_us >= timeout_us);
    assert_true(after_us - before_us < timeout_us + LATE_US);
}

/* Whatever the rough clock says. */
static void a_call_that_nobody_answers_ends_in_its_own_time(void **state)
{
    static const int64_t ticks[] = {0, 30, -1};
    struct server server;
    nigh_client *caller;

    (void)state;
    caller = begin_paired(&server);
    go_on(node.pid);
    stop(server.pid);
    for (uint32_t n = 0; n < sizeof ticks / sizeof ticks[0]; n++) {
        atomic_store(&tick_seconds, ticks[n]);
        check_times_out(caller, 0);
        check_times_out(caller, 1);
        check_times_out(caller, 20 * MS);
        check_times_out(caller, 999 * MS);
        check_times_out(caller, 1000 * MS);
        check_times_out(caller, 1100 * MS);
    }
    atomic_store(&tick_seconds, 0);
    go_on(server.pid);
    end_paired(&server, caller);
}

static void a_receive_that_looks_ends_in_its_own_time(void **state)
{
    static const uint64_t timeouts_us[] = {0, 1, 20 * MS, 1100 * MS};
    static uint8_t buffer[NIGH_CALL_BYTES];
    struct serving serving;
    nigh_client *caller;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    caller = open_caller();
    serve_here(&serving);
    pair_here(caller, &serving);
    go_on(node.pid);
    keep_a_receive(&serving);
    for (int64_t tick = -30; tick <= 30; tick += 30) {
        atomic_store(&tick_seconds, tick);
        for (uint32_t n = 0; n < sizeof timeouts_us / sizeof timeouts_us[0]; n++) {
            uint64_t before_us = support_now_us(), after_us;
            nigh_request request;

            assert_int_equal(nigh_receive(serving.service, &request, buffer, timeouts_us[n]),
                             NIGH_TIMEOUT);
            after_us = support_now_us();
            assert_true(after_us - before_us >= timeouts_us[n]);
            assert_true(after_us - before_us < timeouts_us[n] + LATE_US);
        }
    }
    atomic_store(&tick_seconds, 0);
    nigh_client_close(serving.client);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* Near its deadline a request is refused by the clock alone, not by its tick. */
static void a_tick_that_is_ahead_refuses_no_request(void **state)
{
    char reply[8];
    nigh_call_spec spec = spec_of("call", 4, reply, sizeof reply);
    struct server server;
    nigh_client *caller;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    atomic_store(&tick_seconds, 2 * (int64_t)(PATIENCE / SECOND_US));
    server = start_server(); /* it has this tick, and goes on with it */
    atomic_store(&tick_seconds, 0);
    caller = open_client();
    wait_paired(caller);
    for (uint32_t n = 0; n < 100; n++)
        assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK);
    go_on(node.pid);
    end_paired(&server, caller);
}

/* ---- ends ---- */

/* Writes an answer as who serves would, and rings nobody. */
static void write_answer(const struct serving *serving, uint16_t tag, uint32_t nonce,
                         nigh_status status)
{
    struct pair_record record = {
        .tag = tag, .nonce = nonce, .bytes = 4, .deadline_us = 4, .value = status};
    uint32_t number;

    client_lock(serving->client);
    assert_int_equal(pair_write(&pair_of(serving->client)->out, &record, "told", &number),
                     PAIR_DONE);
    client_unlock(serving->client);
}

static void write_reply(const struct serving *serving, uint16_t tag, uint32_t nonce)
{
    write_answer(serving, tag, nonce, NIGH_OK);
}

/* The answer lies there already: whichever it is, it is told as the service's. */
static void what_a_look_finds_is_the_services_answer(void **state)
{
    static const nigh_status answers[] = {NIGH_OUT_OF_MEMORY, NIGH_TIMEOUT, NIGH_LIMIT};
    struct serving serving;
    nigh_client *caller;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    caller = open_caller();
    serve_here(&serving);
    pair_here(caller, &serving);
    go_on(node.pid);
    for (uint32_t n = 0; n < sizeof answers / sizeof answers[0]; n++) {
        struct client_pair *pair = pair_of(caller);
        char reply[8], why[256] = "";
        nigh_call_spec spec = spec_of("call", 4, reply, sizeof reply);

        write_answer(&serving, pair->free[LIMIT_PAIR_ENTRIES - 1 - pair->under_way],
                     pair->nonce + 1, answers[n]);
        assert_int_equal(nigh_call(caller, &spec, PATIENCE), answers[n]);
        assert_true(spec.answered);
        (void)nigh_client_error(caller, why, sizeof why);
        if (strstr(why, "the service answered") == NULL)
            fail_msg("%s", why);
    }
    nigh_client_close(serving.client);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* What cannot be lies there already, and is found by the first look: the call ends there and then,
 * or goes to the node, with the time that it has, not what the other side was told. */
static void rubbish_ends_the_call_that_looks(void **state)
{
    static uint8_t buffer[NIGH_CALL_BYTES];
    struct serving serving;
    nigh_request request;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    serve_here(&serving);
    for (uint32_t round = 0; round < 10; round++) {
        nigh_client *caller = open_client();
        struct calling calling = {
            .client = caller,
            .request = "call",
            .timeout_us = round % 2 == 0 ? NIGH_FOREVER : PATIENCE,
            .flags = round % 2 == 0 ? 0 : NIGH_CALL_IDEMPOTENT,
        };
        uint64_t ends;

        call_once(caller, &serving);
        pair_here(caller, &serving);
        go_on(node.pid);
        ends = ends_of(caller);
        write_reply(&serving, 3, pair_of(caller)->nonce + 77);
        atomic_store(&tick_seconds, 60);
        if (round % 2 == 0) {
            (void)call(&calling);
            assert_int_equal(calling.status, NIGH_CLOSED);
        } else {
            start_calling(&calling);
            do { /* the first that comes by the pair is nobody's any more */
                assert_int_equal(nigh_receive(serving.service, &request, buffer, PATIENCE),
                                 NIGH_OK);
                (void)nigh_call_reply(&request, NIGH_OK, "told", 4);
            } while (pairs_has_request(&request));
            assert_true(request.timeout_us <= PATIENCE);
            assert_int_equal(join_calling(&calling), NIGH_OK);
        }
        atomic_store(&tick_seconds, 0);
        assert_int_equal(ends_of(caller) - ends, 1);
        assert_int_equal(atomic_load(&atomic_load(&caller->pairs)->live), 0);
        nigh_client_close(caller);
        while (atomic_load(&atomic_load(&serving.client->pairs)->live) != 0)
            (void)nigh_receive(serving.service, &request, buffer, MS); /* it hears of the end */
    }
    nigh_client_close(serving.client);
    node_fixture_stop(&node);
}

/* Of what it was asked, while its caller looks: that call and the one that is held end, once. */
static void a_server_that_dies_in_a_look_ends_calls_once(void **state)
{
    (void)state;
    node_fixture_start(&node, "32M", NULL);
    for (uint32_t round = 0; round < 20; round++) {
        struct server server = start_server();
        nigh_client *caller = open_client();
        nigh_call_spec held = spec_of("hold", 4, NULL, 0), kills = spec_of("kill", 4, NULL, 0);
        uint64_t ends;
        nigh_op op;

        wait_paired(caller);
        go_on(node.pid);
        ends = ends_of(caller);
        assert_int_equal(nigh_call_start(caller, &held, NIGH_FOREVER, &op), NIGH_OK);
        wait_said(&server, 'h');
        assert_int_equal(nigh_call(caller, &kills, NIGH_FOREVER), NIGH_CLOSED);
        assert_int_equal(nigh_wait(caller, &op, PATIENCE), NIGH_CLOSED);
        assert_int_equal(ends_of(caller) - ends, 2);
        kill_server(&server);
        nigh_client_close(caller);
    }
    node_fixture_stop(&node);
}

/* The answers of two others lie beside that of who looks: one of them leads, one sleeps for it. */
static void what_a_look_finds_for_others_wakes_them(void **state)
{
    struct serving serving;
    nigh_client *caller;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    caller = open_caller();
    serve_here(&serving);
    pair_here(caller, &serving);
    go_on(node.pid);
    for (uint32_t round = 0; round < 20; round++) {
        struct calling others[2] = {
            {.client = caller, .request = "one", .timeout_us = NIGH_FOREVER},
            {.client = caller, .request = "two", .timeout_us = NIGH_FOREVER},
        };
        struct client_pair *pair = pair_of(caller);
        char reply[8];
        nigh_call_spec spec = spec_of("call", 4, reply, sizeof reply);
        uint32_t first = pair->nonce + 1;

        for (uint32_t n = 0; n < 2; n++)
            start_calling(&others[n]);
        assert_true(
            SUPPORT_WAIT(atomic_load(&caller->leading) && atomic_load(&caller->front->waiting) == 1,
                         PATIENCE_MS));
        client_lock(caller);
        for (uint16_t tag = 0; tag < LIMIT_PAIR_ENTRIES; tag++) {
            if (pair->calls[tag].used)
                write_reply(&serving, tag, pair->calls[tag].nonce);
        }
        write_reply(&serving, pair->free[LIMIT_PAIR_ENTRIES - 1 - pair->under_way], first + 2);
        client_unlock(caller);
        assert_int_equal(nigh_call(caller, &spec, PATIENCE), NIGH_OK);
        for (uint32_t n = 0; n < 2; n++)
            assert_int_equal(join_calling(&others[n]), NIGH_OK);
    }
    nigh_client_close(serving.client);
    nigh_client_close(caller);
    node_fixture_stop(&node);
}

/* ---- threads ---- */

struct crowd {
    nigh_client *client;
    uint32_t number;
    uint32_t wrong;
    _Atomic uint32_t *under_way;
    pthread_t thread;
};

/* Calls, of its own bytes, waits for some, and cancels some, which then end either way. */
static void *call_many(void *context)
{
    struct crowd *crowd = context;
    uint8_t request[300], reply[300], other[300];

    for (uint32_t n = 0; n < CALLS_OF_EACH; n++) {
        size_t bytes = 1 + (n * 7 + crowd->number) % (sizeof request - 1);
        nigh_call_spec spec = spec_of(request, bytes, reply, sizeof reply);
        nigh_call_spec more = spec_of(request, bytes, other, sizeof other);
        nigh_status status;
        nigh_op op;

        memset(request, (int)(128 + (n * THREADS + crowd->number) % 100), sizeof request);
        if (nigh_call_start(crowd->client, &more, PATIENCE, &op) != NIGH_OK ||
            nigh_call(crowd->client, &spec, PATIENCE) != NIGH_OK || spec.reply_bytes != bytes ||
            memcmp(request, reply, bytes) != 0)
            crowd->wrong++;
        status =
            n % 3 == 0 ? nigh_cancel(crowd->client, &op) : nigh_wait(crowd->client, &op, PATIENCE);
        if (status != NIGH_OK && (n % 3 != 0 || status != NIGH_CANCELED))
            crowd->wrong++;
        if (status == NIGH_OK && memcmp(request, other, bytes) != 0)
            crowd->wrong++;
    }
    atomic_fetch_sub(crowd->under_way, 1);
    return NULL;
}

static void threads_of_a_client_call_beside_each_other(void **state)
{
    _Atomic uint32_t under_way = THREADS;
    struct crowd crowd[THREADS];
    struct server server;
    nigh_client *caller;
    uint64_t ends;

    (void)state;
    caller = begin_paired(&server);
    go_on(node.pid);
    ends = ends_of(caller);
    for (uint32_t n = 0; n < THREADS; n++) {
        crowd[n] = (struct crowd){.client = caller, .number = n, .under_way = &under_way};
        assert_int_equal(pthread_create(&crowd[n].thread, NULL, call_many, &crowd[n]), 0);
    }
    assert_true(SUPPORT_WAIT(atomic_load(&under_way) == 0, 5 * PATIENCE_MS));
    for (uint32_t n = 0; n < THREADS; n++) {
        assert_int_equal(pthread_join(crowd[n].thread, NULL), 0);
        assert_int_equal(crowd[n].wrong, 0);
    }
    assert_int_equal(ends_of(caller) - ends, 2 * THREADS * CALLS_OF_EACH);
    wait_paired(caller); /* still its own */
    go_on(node.pid);
    end_paired(&server, caller);
}

/* ---- names ---- */

/* The name that a thread called last is not taken for one that begins with it, or as it does. */
static void a_name_is_what_it_is_after_any_other(void **state)
{
    static char long_name[LIMIT_NAME_BYTES + 1];
    const char *names[] = {"paired", "paire", "pairedx", "p", long_name, "paired", "qaired"};
    uint64_t hashes[sizeof names / sizeof names[0]], hash;

    (void)state;
    memset(long_name, 'p', LIMIT_NAME_BYTES);
    for (uint32_t n = 0; n < sizeof names / sizeof names[0]; n++)
        assert_int_equal(calls_hash(names[n], &hashes[n]), NIGH_OK);
    for (uint32_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        for (uint32_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            assert_int_equal(calls_hash(names[n], &hash), NIGH_OK);
            assert_int_equal(hash, hashes[n]);
            assert_int_equal(calls_hash(names[k], &hash), NIGH_OK);
            assert_int_equal(hash, hashes[k]);
            assert_int_equal(hashes[n] == hashes[k], strcmp(names[n], names[k]) == 0);
        }
    }
    assert_int_equal(calls_hash("", &hash), NIGH_INVALID);
    assert_int_equal(calls_hash(NULL, &hash), NIGH_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_looks_gives_way),
        cmocka_unit_test(a_receive_that_looks_gives_way),
        cmocka_unit_test(who_wants_the_lock_is_not_kept_waiting),
        cmocka_unit_test(a_call_that_nobody_answers_ends_in_its_own_time),
        cmocka_unit_test(a_receive_that_looks_ends_in_its_own_time),
        cmocka_unit_test(a_tick_that_is_ahead_refuses_no_request),
        cmocka_unit_test(what_a_look_finds_is_the_services_answer),
        cmocka_unit_test(rubbish_ends_the_call_that_looks),
        cmocka_unit_test(a_server_that_dies_in_a_look_ends_calls_once),
        cmocka_unit_test(what_a_look_finds_for_others_wakes_them),
        cmocka_unit_test(threads_of_a_client_call_beside_each_other),
        cmocka_unit_test(a_name_is_what_it_is_after_any_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
