/* SPDX-License-Identifier: Apache-2.0 */
/* What a report says, and what is taken out of it: names, addresses and paths, unless they are
 * kept; secrets always. */
#include "cli/redact.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "support/support.h"

static struct redact redact;
static char *written;

/* Knows these words of nigh's, and these names. */
static int begin(void **state)
{
    static const char says[] =
        "a member is lost\0session expelled: node names the space at host "
        "level module msg why address net.ipv4.port time pool name rank sys MiB\0x\0zz\0";

    (void)state;
    assert_true(redact_init(&redact, false));
    redact_learn(&redact, says, sizeof(says) - 1);
    redact_name(&redact, "member7");
    redact_name(&redact, "lost");
    return 0;
}

static int end(void **state)
{
    (void)state;
    free(written);
    written = NULL;
    return 0;
}

static const char *without(const char *text)
{
    size_t bytes;
    FILE *file;

    free(written);
    file = open_memstream(&written, &bytes);
    assert_non_null(file);
    redact_write(&redact, text, strlen(text), file);
    assert_int_equal(fclose(file), 0);
    return written;
}

static void expect_kept(const char *text)
{
    assert_string_equal(without(text), text);
}

/* Nothing of it but what is neither letter nor digit. */
static void expect_taken(const char *text)
{
    const char *shown = without(text);

    assert_non_null(strchr(shown, '~'));
    assert_null(strstr(shown, text));
}

static void what_nigh_says_stays(void **state)
{
    (void)state;
    expect_kept("a member is: session (expelled), \"the space\"");
    expect_kept("time=2026-11-30T00:36:44.000042Z level=module msg=\"a member is\" why=-12");
    expect_kept("12 0 64.0 MiB 5.3% 250ms -7 3/4 2026-11-30 1.2.3");
    expect_kept("net.ipv4.port");
    assert_int_equal(redact.hashed, 0);
}

static void what_it_does_not_say_goes(void **state)
{
    static const char *const cases[] = {"payroll",
                                        "a-payroll",
                                        "lost",
                                        "a-lost",
                                        "member:lost",
                                        "member7",
                                        "host7",
                                        "127.0.0.1",
                                        "10.0.0.1:7470",
                                        "fe80::1",
                                        "[::1]:7470",
                                        "/a/member",
                                        "/member",
                                        "@/a/member",
                                        "node/../member",
                                        "x",
                                        "zz",
                                        "m\xc3\xbcller",
                                        "123456789012345678901",
                                        "7a7b"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        expect_taken(cases[i]);
    }
    expect_kept("/sys/node/member");
}

/* ... the same for the same word, and another in another report. */
static void the_same_word_is_the_same_digits(void **state)
{
    char first[64], second[64];

    (void)state;
    (void)snprintf(first, sizeof(first), "%s", without("payroll"));
    assert_int_equal(strlen(first), 9);
    assert_string_equal(without("payroll"), first);
    assert_string_not_equal(without("payrolls"), first);
    (void)snprintf(second, sizeof(second), "%s", without("payroll."));
    assert_memory_equal(second, first, 9);
    assert_string_equal(second + 9, ".");
    assert_true(redact_init(&redact, false));
    assert_string_not_equal(without("payroll"), first);
}

/* The value of a field that has names goes, whatever it is made of. */
static void values_of_name_fields_go(void **state)
{
    static const char *const cases[] = {"name=node",
                                        "space=node x",
                                        "name=\"a member\" why=\"a member\"",
                                        "\"name\": \"node\"",
                                        "{rank=\"0\",address=\"node\"}",
                                        "pool=1234567",
                                        "spill=\"node\"",
                                        "name=\"the space\""};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_null(strstr(without(cases[i]), "=node"));
        assert_null(strstr(written, "\"node"));
        assert_non_null(strchr(written, '~'));
    }
    assert_null(strstr(without("name=\"a member\" why=\"a member\""), "name=\"a"));
    assert_null(strstr(without("name=\"a member\""), "member"));
    assert_non_null(strstr(without("name=\"a member\" why=\"a member\""), "why=\"a member\""));
    /* A quote with a backslash is one of the value. */
    assert_null(strstr(without("name=\"a \\\" member\" why=\"node\""), "member"));
    assert_non_null(strstr(written, "why=\"node\""));
    assert_non_null(strstr(without("name=\"a \\\\\" why=\"node\""), "why=\"node\""));
    expect_kept("pool=12 why=node");
    expect_kept("\"address\": \"\", \"msg\": \"node\"");
}

static void secrets_go_in_any_case(void **state)
{
    static const char key[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    static const char url[] = "redis://user:sesame@host:6379/0";
    char text[256];

    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        redact.keeps_names = keeps == 1;
        (void)snprintf(text, sizeof(text), "why=\"%s\" %s x%sx", key, url, key);
        assert_null(strstr(without(text), "2233"));
        assert_null(strstr(written, "sesame"));
        assert_null(strstr(written, "user"));
        assert_non_null(strstr(written, "<removed>"));
        assert_true((strstr(written, "@host:6379") != NULL) == (keeps == 1));
    }
    assert_int_equal(redact.secrets, 6);
    expect_kept("payroll at 10.0.0.1:7470 of /a/member"); /* as names are kept */
}

/* Written in groups, as people read a key aloud, and programs print bytes. */
static void keys_in_groups_go(void **state)
{
    static const char *const keys[] = {
        "00112233445566ab 8899aabbccddeeff 00112233445566ab 8899aabbccddeeff",
        "00112233445566ab\t8899aabbccddeeff",
        "0011 2233 4455 66ab 0011 2233 4455 66AB",
        "00 11 22 33 44 55 66 77 88 99 aa 11 22 33 44 55",
    };
    static const char *const places[] = {
        "why: %s", "name=\"%s\" why=\"node\"", "why=%s", "why:%s.", "(%s)", "%s node"};
    char text[256], left[64];

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(keys) * ARRAY_LENGTH(places) * 2; i++) {
        redact.keeps_names = i % 2 == 1;
        (void)snprintf(text, sizeof(text), places[i / 2 % ARRAY_LENGTH(places)],
                       keys[i / 2 / ARRAY_LENGTH(places)]);
        (void)snprintf(left, sizeof(left), places[i / 2 % ARRAY_LENGTH(places)], "<removed>");
        assert_string_equal(without(text), left);
        assert_int_equal(redact.secrets, i + 1);
    }
    redact.keeps_names = false;
    /* Numbers of a table; too few digits; more than one blank; words. */
    expect_kept("1024 4096 0 0 163840 12 77777777 12345678 0 0 1");
    redact.keeps_names = true;
    expect_kept("00112233445566ab 8899aabbccddeef");
    expect_kept("00112233445566ab  8899aabbccddeeff");
    expect_kept("00112233445566ab 8899aabbccddeexx");
    expect_kept("a bad face added a dead bee 00 x");
}

static void what_moves_a_cursor_goes(void **state)
{
    static const char text[] = "a\x1b[2J member \r\x7f is\b\n\tm\xc3\xbcller\0 ";
    FILE *file;
    size_t bytes;

    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        redact.keeps_names = keeps == 1;
        free(written);
        file = open_memstream(&written, &bytes);
        assert_non_null(file);
        redact_write(&redact, text, sizeof(text) - 1, file);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(strlen(written), bytes);
        for (size_t at = 0; at < bytes; at++) {
            assert_true(strchr("\n\t", written[at]) != NULL || (unsigned char)written[at] >= ' ');
            assert_true(written[at] != 0x7f);
        }
        assert_non_null(strstr(written, "\n\t"));
    }
    assert_string_equal(written, "a?[2J member ?? is?\n\tm\xc3\xbcller? ");
}

static void what_is_said_to_be_a_secret_goes(void **state)
{
    static const char *const cases[] = {
        "password=sesame\nnode",
        "node Password = \"open sesame\" x\nnode",
        "directory-password = sesame\nnode",
        "{\"password\": \"sesame\"}\nnode",
        "requirepassword:sesame\nnode",
        "password: redis://sesame\nnode",
        "why=\"password=a sesame\" node\nnode",
        "-----BEGIN PRIVATE KEY-----\nMII/sesame+\nsesame=\n-----END PRIVATE KEY-----\nnode",
        "x=\"\\n-----BEGIN RSA PRIVATE KEY-----\\nsesame\\n-----END node\nnode",
        "node -----BEGIN EC PRIVATE KEY-----\nsesame\nsesame",
    };

    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        redact.keeps_names = keeps == 1;
        for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
            assert_null(strstr(without(cases[i]), "sesame"));
            assert_non_null(strstr(written, "<removed>"));
            assert_non_null(strstr(written, "node"));
        }
    }
    expect_kept("node password\nnode password=\nnode");
    expect_kept("-----BEGIN CERTIFICATE-----\nsesame");
}

/* Whatever a password is made of, and whether the text that has it was cut. */
static void passwords_of_all_characters_go(void **state)
{
    static const char *const cases[] = {"redis://user:pa,sesame@host:6379",
                                        "redis://user:a;b=c(sesame)@host:6379",
                                        "redis://user:p@x,sesame@host:6379/0",
                                        "redis://user:pa/sesame@host:6379",
                                        "redis://user:pa\"sesame@host:6379",
                                        "directory=\"redis://:sesame|@host:6379\"",
                                        "at=redis://user:sesame",
                                        "(redis://user:pa,sesame)",
                                        "redis://user:pa{sesame,/@",
                                        "a://redis://user:'sesame'@host:6379"};

    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        redact.keeps_names = keeps == 1;
        for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
            assert_null(strstr(without(cases[i]), "sesame"));
            assert_null(strstr(written, "user"));
            assert_non_null(strstr(written, "<removed>"));
            assert_true(strstr(cases[i], "@host") == NULL ||
                        (strstr(written, "@host:6379") != NULL) == (keeps == 1));
        }
    }
    /* What comes behind is as ever. */
    assert_string_equal(without("why=\"node://node\" a member"),
                        "why=\"node://<removed>\" a member");
    assert_string_equal(without("node:// a member"), "node:// a member");
}

/* A text may be all one word: a password is not looked for without end. */
static void passwords_are_looked_for_nearby(void **state)
{
    static const char begins[] = "redis://host/", ends[] = "@node";
    static char text[16384];

    (void)state;
    redact.keeps_names = true;
    for (int is_far = 0; is_far < 2; is_far++) {
        size_t between = is_far == 1 ? 8192 : 128;

        memset(text, 'z', sizeof(text));
        memcpy(text, begins, sizeof(begins) - 1);
        memcpy(text + sizeof(begins) - 1 + between, ends, sizeof(ends));
        assert_true((strstr(without(text), "/zzzz") != NULL) == (is_far == 1));
        assert_non_null(strstr(written, "redis://<removed>"));
        assert_non_null(strstr(written, "@node"));
    }
    /* Pieces of one word are words of their own. */
    assert_string_equal(without("(a://node/b://lost/c member)"),
                        "(a://<removed>/b://<removed>/c member)");
}

/* Where more is named than is known, no word is known not to be a name. */
static void of_too_many_names_all_words_go(void **state)
{
    char name[32];

    (void)state;
    for (unsigned n = 0; n < REDACT_NAMES / 4 * 3 - 2; n++) {
        (void)snprintf(name, sizeof(name), "host-%u", n);
        redact_name(&redact, name);
    }
    expect_kept("a member is");
    redact_name(&redact, "member7"); /* that is known */
    expect_kept("a member is");
    redact_name(&redact, "node");
    expect_taken("node");
    expect_taken("member");
    expect_kept("12 64.0");
}

/* This program's own constants are its words. */
static void a_program_says_its_constants(void **state)
{
    char path[64];
    FILE *file;

    (void)state;
    assert_true(redact_learn_program(&redact, "/proc/self/exe"));
    expect_kept("payroll");
    assert_false(redact_learn_program(&redact, "/no/such"));
    support_path(path, sizeof(path), "text");
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs("\177ELF and no more", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_false(redact_learn_program(&redact, path));
}

#define REDACT_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REDACT_TEST(what_nigh_says_stays),
        REDACT_TEST(what_it_does_not_say_goes),
        REDACT_TEST(the_same_word_is_the_same_digits),
        REDACT_TEST(values_of_name_fields_go),
        REDACT_TEST(secrets_go_in_any_case),
        REDACT_TEST(keys_in_groups_go),
        REDACT_TEST(what_moves_a_cursor_goes),
        REDACT_TEST(what_is_said_to_be_a_secret_goes),
        REDACT_TEST(passwords_of_all_characters_go),
        REDACT_TEST(passwords_are_looked_for_nearby),
        REDACT_TEST(of_too_many_names_all_words_go),
        REDACT_TEST(a_program_says_its_constants),
    };

    return cmocka_run_group_tests_name("cli-redact", tests, NULL, NULL);
}
