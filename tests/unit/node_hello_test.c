/* SPDX-License-Identifier: Apache-2.0 */
/* Hellos: what is taken, what is refused, and in which words. */
#include "support/support.h"

#include <string.h>

#include "node/hello.h"

static struct session_hello good_hello(void)
{
    return (struct session_hello){
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_HELLO},
        .version_min = SESSION_VERSION_MIN,
        .version_max = SESSION_VERSION_MAX,
        .name = "test",
    };
}

static nigh_status read_hello(const void *bytes, size_t size, char *sentence)
{
    struct session_hello out;
    uint16_t version = 0;

    sentence[0] = '\0';
    return hello_read(bytes, size, &out, &version, sentence);
}

static void a_good_hello_is_taken(void **state)
{
    struct session_hello hello = good_hello(), out;
    char sentence[HELLO_SENTENCE_BYTES];
    uint16_t version = 0;

    (void)state;
    hello.quota_bytes = 77;
    memcpy(hello.pool, "shared", 7);
    assert_int_equal(hello_read(&hello, sizeof(hello), &out, &version, sentence), NIGH_OK);
    assert_int_equal(version, SESSION_VERSION_MAX);
    assert_int_equal(out.quota_bytes, 77);
    assert_string_equal(out.pool, "shared");
}

static void a_newer_client_that_speaks_ours_too_is_served(void **state)
{
    struct {
        struct session_hello hello;
        uint8_t more[40];
    } newer = {.hello = good_hello()};
    char sentence[HELLO_SENTENCE_BYTES];
    struct session_hello out;
    uint16_t version = 0;

    (void)state;
    newer.hello.version_max = SESSION_VERSION_MAX + 5;
    memset(newer.more, 0xff, sizeof(newer.more));
    assert_int_equal(hello_read(&newer, sizeof(newer), &out, &version, sentence), NIGH_OK);
    assert_int_equal(version, SESSION_VERSION_MAX);
}

static void strangers_are_told_both_ranges(void **state)
{
    struct session_hello hello = good_hello();
    char sentence[HELLO_SENTENCE_BYTES];

    (void)state;
    hello.version_min = SESSION_VERSION_MAX + 1;
    hello.version_max = SESSION_VERSION_MAX + 3;
    assert_int_equal(read_hello(&hello, sizeof(hello), sentence), NIGH_VERSION);
    assert_non_null(strstr(sentence, "versions 1 to 2"));
    assert_non_null(strstr(sentence, "client 3 to 5"));
    assert_non_null(strstr(sentence, "install the same release"));

    hello.version_min = hello.version_max = 0; /* older than ours */
    assert_int_equal(read_hello(&hello, sizeof(hello), sentence), NIGH_VERSION);
    assert_non_null(strstr(sentence, "client 0 to 0"));
}

static void a_version_is_refused_even_when_nothing_else_is_understood(void **state)
{
    struct session_hello hello = good_hello();
    char sentence[HELLO_SENTENCE_BYTES];

    (void)state;
    hello.version_min = hello.version_max = 9;
    assert_int_equal(read_hello(&hello, offsetof(struct session_hello, version_max) + 2, sentence),
                     NIGH_VERSION);
}

static void rubbish_is_refused_in_words(void **state)
{
    struct session_hello hello = good_hello();
    char sentence[HELLO_SENTENCE_BYTES];
    uint8_t noise[512];

    (void)state;
    memset(noise, 0xa5, sizeof(noise));
    assert_int_equal(read_hello(noise, sizeof(noise), sentence), NIGH_PROTOCOL);
    assert_non_null(strstr(sentence, "libnigh"));
    assert_int_equal(read_hello(noise, 0, sentence), NIGH_PROTOCOL);
    assert_int_equal(read_hello(&hello, 1, sentence), NIGH_PROTOCOL);
    assert_int_equal(read_hello(&hello, sizeof(hello) - 1, sentence), NIGH_PROTOCOL);
    assert_non_null(strstr(sentence, "too short"));
    hello.header.kind = SESSION_EXTENT;
    assert_int_equal(read_hello(&hello, sizeof(hello), sentence), NIGH_PROTOCOL);
    hello = good_hello();
    hello.version_min = 2;
    hello.version_max = 1;
    assert_int_equal(read_hello(&hello, sizeof(hello), sentence), NIGH_PROTOCOL);
}

static void fields_are_checked(void **state)
{
    struct session_hello hello = good_hello();
    char sentence[HELLO_SENTENCE_BYTES];

    (void)state;
    hello.flags = 0x80;
    assert_int_equal(read_hello(&hello, sizeof(hello), sentence), NIGH_INVALID);
    assert_non_null(strstr(sentence, "0x80"));
    hello = good_hello();
    memset(hello.pool, 'x', sizeof(hello.pool));
    assert_int_equal(read_hello(&hello, sizeof(hello), sentence), NIGH_INVALID);
    hello = good_hello();
    memset(hello.name, 'x', sizeof(hello.name));
    assert_int_equal(read_hello(&hello, sizeof(hello), sentence), NIGH_INVALID);
    hello = good_hello();
    memcpy(hello.pool, "a/b", 4);
    assert_int_equal(read_hello(&hello, sizeof(hello), sentence), NIGH_INVALID);
}

static void a_name_is_made_fit_for_a_terminal(void **state)
{
    struct session_hello hello = good_hello(), out;
    char sentence[HELLO_SENTENCE_BYTES];
    uint16_t version;

    (void)state;
    memcpy(hello.name, "a\x1b[31m\"b", 9);
    assert_int_equal(hello_read(&hello, sizeof(hello), &out, &version, sentence), NIGH_OK);
    assert_null(strchr(out.name, 0x1b));
    assert_non_null(strstr(out.name, "\\x1b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_hello_is_taken),
        cmocka_unit_test(a_newer_client_that_speaks_ours_too_is_served),
        cmocka_unit_test(strangers_are_told_both_ranges),
        cmocka_unit_test(a_version_is_refused_even_when_nothing_else_is_understood),
        cmocka_unit_test(rubbish_is_refused_in_words),
        cmocka_unit_test(fields_are_checked),
        cmocka_unit_test(a_name_is_made_fit_for_a_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
