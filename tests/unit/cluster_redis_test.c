/* SPDX-License-Identifier: Apache-2.0 */
/* The directory on a Redis server: when it is connected to, what stands in its address, and what
 * its answers mean. */
#include <string.h>

#include "cluster/redis_session.h"
#include "cluster/redis_words.h"
#include "support/support.h"

/* ---- the session ---------------------------------------------------------- */

static uint64_t now = 1000000;

static void do_steps(struct redis_session *session, const enum redis_step *steps, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        assert_int_equal(redis_session_turn(session, now), steps[n]);
        assert_int_equal(redis_session_turn(session, now), REDIS_NOTHING);
        redis_session_done(session, now);
    }
}

static struct redis_session up(bool has_password, bool has_database)
{
    static const enum redis_step all[] = {REDIS_CONNECT, REDIS_AUTH,  REDIS_SELECT,
                                          REDIS_LOAD,    REDIS_EPOCH, REDIS_LISTEN};
    static const enum redis_step few[] = {REDIS_CONNECT, REDIS_LOAD, REDIS_EPOCH, REDIS_LISTEN};
    struct redis_session session;

    redis_session_init(&session, has_password, has_database);
    if (has_password && has_database) {
        do_steps(&session, all, 6);
    } else {
        do_steps(&session, few, 4);
    }
    assert_int_equal(redis_session_due_us(&session), 0);
    assert_int_equal(redis_session_turn(&session, now), REDIS_UP);
    assert_int_equal(redis_session_turn(&session, now), REDIS_NOTHING);
    return session;
}

static void the_steps_come_in_their_order(void **state)
{
    (void)state;
    (void)up(true, true);
    (void)up(false, false);
}

static void a_silent_server_is_asked_and_then_lost(void **state)
{
    struct redis_session session = up(false, false);
    uint64_t begun = now;

    (void)state;
    now = redis_session_due_us(&session);
    assert_int_equal(now - begun, REDIS_BEAT_US);
    assert_int_equal(redis_session_turn(&session, now), REDIS_BEAT);
    assert_int_equal(redis_session_turn(&session, now), REDIS_NOTHING);
    redis_session_heard(&session, now);
    begun = now;
    for (int beats = 0; beats < 3; beats++) {
        now = redis_session_due_us(&session);
        assert_int_equal(redis_session_turn(&session, now), REDIS_BEAT);
    }
    now = redis_session_due_us(&session);
    assert_int_equal(now - begun, REDIS_SILENT_US);
    assert_int_equal(redis_session_turn(&session, now), REDIS_CLOSE);
    assert_int_equal(redis_session_turn(&session, now), REDIS_NOTHING);
}

static void a_step_that_takes_too_long_ends_it(void **state)
{
    struct redis_session session;

    (void)state;
    redis_session_init(&session, false, false);
    assert_int_equal(redis_session_turn(&session, now), REDIS_CONNECT);
    now += REDIS_STEP_US;
    assert_int_equal(redis_session_turn(&session, now), REDIS_CLOSE);
    redis_session_done(&session, now); /* too late: it means nothing */
    assert_int_equal(redis_session_turn(&session, now), REDIS_NOTHING);
}

static void pauses_grow_to_a_bound_and_begin_anew(void **state)
{
    struct redis_session session;
    uint64_t wanted = REDIS_PAUSE_US;

    (void)state;
    redis_session_init(&session, false, false);
    for (int n = 0; n < 12; n++) {
        assert_int_equal(redis_session_turn(&session, now), REDIS_CONNECT);
        redis_session_lost(&session);
        assert_int_equal(redis_session_due_us(&session), 0);
        assert_int_equal(redis_session_turn(&session, now), REDIS_CLOSE);
        assert_int_equal(redis_session_due_us(&session) - now, wanted);
        now = redis_session_due_us(&session);
        wanted = 2 * wanted < REDIS_PAUSE_MAX ? 2 * wanted : REDIS_PAUSE_MAX;
    }
    session = up(false, false);
    redis_session_lost(&session);
    assert_int_equal(redis_session_turn(&session, now), REDIS_CLOSE);
    assert_int_equal(redis_session_due_us(&session) - now, REDIS_PAUSE_US);
    redis_session_lost(&session); /* it is down: nothing to lose */
    assert_int_equal(redis_session_turn(&session, now), REDIS_NOTHING);
}

/* ---- addresses ------------------------------------------------------------ */

static void addresses_are_read(void **state)
{
    static const char *const bad[] = {"",
                                      "redis://",
                                      "redis://:6379",
                                      "redis://a:0",
                                      "redis://a:65536",
                                      "redis://a:x",
                                      "redis://a/x",
                                      "redis://a/123456",
                                      "redis://[::1",
                                      "redis://[::1]x",
                                      "http://a",
                                      "unix://relative",
                                      "unix:///",
                                      "redis://me:open sesame@a",
                                      "redis://m e:sesame@a",
                                      "redis://:open\tsesame@a",
                                      "unix://:open\nsesame@/run/redis.sock"};
    struct redis_address address;
    char shown[300];

    (void)state;
    for (size_t n = 0; n < sizeof(bad) / sizeof(bad[0]); n++) {
        assert_false(redis_address_parse(bad[n], &address));
    }
    assert_true(redis_address_parse("redis://me:p:@ss@[::1]:7000/3", &address));
    assert_string_equal(address.user, "me");
    assert_string_equal(address.password, "p:@ss");
    redis_address_show(&address, shown, sizeof(shown));
    assert_string_equal(shown, "redis://[::1]:7000/3");
    assert_true(redis_address_parse("redis://:word@host", &address));
    assert_string_equal(address.user, "");
    assert_string_equal(address.password, "word");
    assert_int_equal(address.port, 6379);
    assert_true(redis_address_parse("unix://:w@/run/redis.sock", &address));
    assert_string_equal(address.host, "/run/redis.sock");
    redis_address_show(&address, shown, sizeof(shown));
    assert_string_equal(shown, "unix:///run/redis.sock");
}

static void clusters_have_names_of_their_own(void **state)
{
    uint8_t one[AUTH_KEY_BYTES] = {1}, two[AUTH_KEY_BYTES] = {2};
    char name[REDIS_NAME_BYTES], same[REDIS_NAME_BYTES], other[REDIS_NAME_BYTES];

    (void)state;
    redis_name(one, name);
    redis_name(one, same);
    redis_name(two, other);
    assert_string_equal(name, same);
    assert_string_not_equal(name, other);
    assert_int_equal(strlen(name), 5 + 16 + 1);
}

static uint64_t digest_of(const char *text, uint8_t key_byte)
{
    uint8_t key[AUTH_KEY_BYTES] = {key_byte};
    struct redis_address address;

    assert_true(redis_address_parse(text, &address));
    return redis_digest(&address, key);
}

/* However its address is spelled, and whoever asks it. */
static void a_server_has_one_digest(void **state)
{
    static const char *const same[] = {"redis://127.0.0.1", "redis://127.1:6379/0",
                                       "redis://me:word@0x7f.1", "redis://[::ffff:127.0.0.1]:6379"};
    static const char *const others[] = {
        "redis://127.0.0.2", "redis://127.0.0.1:6380", "redis://127.0.0.1/1", "redis://localhost",
        "redis://[::1]",     "unix:///127.0.0.1",      "unix:///run/redis",   "unix:///RUN/redis"};

    (void)state;
    for (size_t n = 0; n < sizeof(same) / sizeof(same[0]); n++) {
        assert_true(digest_of(same[n], 1) == digest_of(same[0], 1));
        assert_false(digest_of(same[n], 2) == digest_of(same[0], 1));
    }
    for (size_t n = 0; n < sizeof(others) / sizeof(others[0]); n++) {
        assert_false(digest_of(others[n], 1) == digest_of(same[0], 1));
        for (size_t m = 0; m < n; m++) {
            assert_false(digest_of(others[n], 1) == digest_of(others[m], 1));
        }
    }
    assert_true(digest_of("redis://Host.Example", 1) == digest_of("redis://host.example", 1));
    assert_true(digest_of("redis://[0::1]", 1) == digest_of("redis://[::1]:6379", 1));
}

/* ---- answers -------------------------------------------------------------- */

static enum redis_verdict take(enum outside_op op, const char *bytes, size_t count,
                               struct outside_news *news)
{
    memset(news, 0, sizeof(*news));
    return redis_take_answer(op, bytes, count, news);
}

static void answers_mean_what_they_say(void **state)
{
    struct outside_news news;
    char located[2 + 32 + 4] = "0K";

    (void)state;
    assert_int_equal(take(OUTSIDE_TELL, "E", 1, &news), REDIS_FINE);
    assert_int_equal(news.status, NIGH_EXISTS);
    assert_int_equal(take(OUTSIDE_DELETE, "P", 1, &news), REDIS_FINE);
    assert_int_equal(news.status, NIGH_PENDING);
    assert_int_equal(take(OUTSIDE_LOCATE, "0Y", 2, &news), REDIS_FINE);
    assert_int_equal(news.answer.state, DIRECTORY_NOT_YET);
    located[34] = 7;
    located[37] = 1;
    assert_int_equal(take(OUTSIDE_LOCATE, located, sizeof(located), &news), REDIS_FINE);
    assert_int_equal(news.answer.holder_count, 2);
    assert_int_equal(news.answer.holders[0], 7);
    assert_int_equal(news.answer.holders[1], 256);
    assert_int_equal(take(OUTSIDE_END, "012", 3, &news), REDIS_FINE);
    assert_int_equal(news.cursor, 12);
    assert_int_equal(take(OUTSIDE_BEGIN, "S", 1, &news), REDIS_STALE);
    assert_int_equal(take(OUTSIDE_TELL, "G", 1, &news), REDIS_FORGOTTEN);
}

static void answers_to_something_else_mean_nothing(void **state)
{
    static const struct {
        enum outside_op op;
        const char *bytes;
        size_t count;
    } bad[] = {
        {OUTSIDE_TELL, "", 0},       {OUTSIDE_TELL, "0x", 2},
        {OUTSIDE_TELL, "P", 1},      {OUTSIDE_TELL, "?", 1},
        {OUTSIDE_LOCATE, "0", 1},    {OUTSIDE_LOCATE, "BA", 2},
        {OUTSIDE_LOCATE, "0K", 2},   {OUTSIDE_LOCATE, "0AA", 3},
        {OUTSIDE_END, "0", 1},       {OUTSIDE_END, "0-1", 3},
        {OUTSIDE_OWED, "0short", 6}, {OUTSIDE_END, "018446744073709551616", 21},
    };
    struct outside_news news;
    char many[2 + 32 + 2 * 9] = "0K";

    (void)state;
    for (size_t n = 0; n < sizeof(bad) / sizeof(bad[0]); n++) {
        assert_int_equal(take(bad[n].op, bad[n].bytes, bad[n].count, &news), REDIS_NONSENSE);
    }
    assert_int_equal(take(OUTSIDE_LOCATE, many, sizeof(many), &news), REDIS_NONSENSE);
    assert_int_equal(take(OUTSIDE_LOCATE, many, sizeof(many) - 1, &news), REDIS_NONSENSE);
    assert_int_equal(take(OUTSIDE_LOCATE, many, sizeof(many) - 2, &news), REDIS_FINE);
}

static void errors_are_of_one_question_or_of_all(void **state)
{
    nigh_status status;

    (void)state;
    assert_int_equal(redis_take_error("OOM command not allowed", 23, &status), REDIS_FINE);
    assert_int_equal(status, NIGH_LIMIT);
    assert_int_equal(redis_take_error("WRONGTYPE x", 11, &status), REDIS_NONSENSE);
    assert_int_equal(redis_take_error("NOSCRIPT x", 10, &status), REDIS_STALE);
    assert_int_equal(redis_take_error("NOAUTH x", 8, &status), REDIS_STALE);
    assert_int_equal(redis_take_error("", 0, &status), REDIS_STALE);
}

static void messages_mean_what_they_say(void **state)
{
    struct outside_news news;
    char drop[1 + 32 + 16] = "D";

    (void)state;
    assert_true(redis_take_message(drop, sizeof(drop), &news));
    assert_int_equal(news.kind, OUTSIDE_DROP);
    assert_false(redis_take_message(drop, sizeof(drop) - 1, &news));
    assert_true(redis_take_message("XU17", 4, &news));
    assert_int_equal(news.kind, OUTSIDE_DELETED);
    assert_int_equal(news.status, NIGH_IN_USE);
    assert_int_equal(news.number, 17);
    assert_false(redis_take_message("XP17", 4, &news));
    assert_false(redis_take_message("X0", 2, &news));
    assert_false(redis_take_message("", 0, &news));
}

/* ---- questions ------------------------------------------------------------ */

static void a_question_is_what_the_script_takes(void **state)
{
    struct redis_caller caller = {
        .name = "nigh:x:", .epoch = "e", .rank = 3, .incarnation = 9, .lane = 1, .lanes = 4};
    struct outside_ask ask = {.op = OUTSIDE_DROPPED, .status = NIGH_IN_USE, .round = 5, .alive = 2};
    static const char *const head[] = {"dropped", "e", "3", "9", "1", "4", "5", "1", "2"};
    struct redis_call call;

    (void)state;
    redis_call_make(&call, &caller, &ask);
    assert_int_equal(call.count, 12);
    for (size_t n = 0; n < 9; n++) {
        assert_int_equal(call.bytes[n], strlen(head[n]));
        assert_memory_equal(call.arguments[n], head[n], call.bytes[n]);
    }
    assert_int_equal(call.bytes[9], sizeof(struct directory_key));
    assert_int_equal(call.bytes[10], sizeof(struct directory_object));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_steps_come_in_their_order),
        cmocka_unit_test(a_silent_server_is_asked_and_then_lost),
        cmocka_unit_test(a_step_that_takes_too_long_ends_it),
        cmocka_unit_test(pauses_grow_to_a_bound_and_begin_anew),
        cmocka_unit_test(addresses_are_read),
        cmocka_unit_test(clusters_have_names_of_their_own),
        cmocka_unit_test(a_server_has_one_digest),
        cmocka_unit_test(answers_mean_what_they_say),
        cmocka_unit_test(answers_to_something_else_mean_nothing),
        cmocka_unit_test(errors_are_of_one_question_or_of_all),
        cmocka_unit_test(messages_mean_what_they_say),
        cmocka_unit_test(a_question_is_what_the_script_takes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
