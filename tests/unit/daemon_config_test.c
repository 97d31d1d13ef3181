/* SPDX-License-Identifier: Apache-2.0 */
/* nighd's configuration file and its options: what is read, and each fault with its line. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config.h"

static struct daemon_options options;
static char why[512];

static nigh_status parse(const char *text)
{
    unsetenv("NIGH_SOCKET");
    daemon_options_init(&options);
    why[0] = '\0';
    return config_parse(text, strlen(text), "f", &options, why, sizeof(why));
}

static void options_and_pools_are_read(void **state)
{
    (void)state;
    assert_int_equal(parse("# a comment\n"
                           "[node]\n"
                           "socket = /tmp/s\n"
                           "memory = 2G ; as much\n"
                           "spin-us=0\n"
                           "huge = never\n"
                           "transfer = register\n"
                           "calls = write\n"
                           "fabric = auto\n"
                           "fabric-addresses = 10.0.0.1,10.0.1.1\n"
                           "fabric-tos = 106\n"
                           "fabric-ack-timeout = 14\n"
                           "fabric-retries = 3\n"
                           "fabric-queue-pairs = 2\n"
                           "shared-receives = 64\n"
                           "fanout = 3\n"
                           "ranks = 12\n"
                           "name = db1\n"
                           "\n"
                           "[pool shared]\n"
                           "owner = root\n"
                           "mode = 0660\n"
                           "strict = yes\n"
                           "quota = 1M\n"
                           "[pool bare]\n"),
                     NIGH_OK);
    assert_string_equal(options.socket, "/tmp/s");
    assert_int_equal(options.memory_bytes, UINT64_C(2) << 30);
    assert_int_equal(options.spin_us, 0);
    assert_int_equal(options.huge_pages, 2);
    assert_int_equal(options.transfer_path, 4);
    assert_int_equal(options.calls_way, 2);
    assert_int_equal(options.fabric, 2);
    assert_string_equal(options.fabric_addresses, "10.0.0.1,10.0.1.1");
    assert_int_equal(options.fabric_tos, 106);
    assert_int_equal(options.fabric_ack_timeout, 14);
    assert_int_equal(options.fabric_retries, 3);
    assert_int_equal(options.fabric_queue_pairs, 2);
    assert_int_equal(options.shared_receives, 64);
    assert_int_equal(options.fanout, 3);
    assert_int_equal(options.ranks, 12);
    assert_string_equal(options.name, "db1");
    assert_int_equal(options.pool_count, 2);
    assert_string_equal(options.pools[0].name, "shared");
    assert_int_equal(options.pools[0].owner_uid, 0);
    assert_int_equal(options.pools[0].mode, 0660);
    assert_int_equal(options.pools[0].strict, 1);
    assert_int_equal(options.pools[0].quota_bytes, 1 << 20);
    assert_string_equal(options.pools[1].name, "bare");
    assert_int_equal(options.pools[1].mode, 0600);
}

static void an_empty_file_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(parse(""), NIGH_OK);
    assert_string_equal(options.socket, NIGH_DEFAULT_SOCKET);
    assert_int_equal(options.pool_count, 0);
}

static void what_stands_behind_blanks_may_be_nothing(void **state)
{
    (void)state;
    assert_int_equal(parse(" \t\n  # a comment\n[node]\nlanes = 2\t; too\n\t; one\n \r\n"
                           "spin-us = 3\n  "),
                     NIGH_OK);
    assert_int_equal(options.lanes, 2);
    assert_int_equal(options.spin_us, 3);
}

static void each_fault_names_its_line(void **state)
{
    static const struct {
        const char *text;
        const char *where; /* the sentence begins with it */
        const char *what;
    } cases[] = {
        {"[node]\nmemry = 1G\n", "f:2: ", "\"memry\""},
        {"[node]\nmemory = 1X\n", "f:2: memory: ", "not a size"},
        {"[node]\nmemory = 1G\n\nmemory = 2G\n", "f:4: ", "twice"},
        {"[node]\nlanes = -1\n", "f:2: lanes: ", "number"},
        {"[node]\nhuge = maybe\n", "f:2: huge: ", "auto, require or never"},
        {"[node]\nlog-level = loud\n", "f:2: ", "debug"},
        {"memory = 1G\n", "f:1: ", "[node]"},
        {"[nod]\n", "f:1: ", "[nod]"},
        {"[node\n", "f:1: ", "bracket"},
        {"[node]\nrubbish\n", "f:2: ", "key = value"},
        {"[pool a/b]\n", "f:1: ", "name"},
        {"[pool ]\n", "f:1: ", "name"},
        {"[pool a]\n[node]\n[pool a]\n", "f:3: ", "line 1"},
        {"[pool a]\nowner = nobody-of-this-name\n", "f:2: pool a: ", "user"},
        {"[pool a]\ngroup = nobody-of-this-name\n", "f:2: pool a: ", "group"},
        {"[pool a]\nmode = 999\n", "f:2: pool a: ", "octal"},
        {"[pool a]\nstrict = perhaps\n", "f:2: pool a: ", "yes or no"},
        {"[pool a]\ncolour = red\n", "f:2: pool a: ", "colour"},
        {"[pool a]\nmode = 0600\nmode = 0600\n", "f:3: ", "twice"},
        {"[node]\n  memory = 64M\n  lanes = 1\n", "f:2: ", "begins with a blank"},
        {"[node]\nmemory = 64M\n\tlanes = 1\n", "f:3: ", "begins with a blank"},
        {"[node]\nmemory = 64M\n [pool a]\n", "f:3: ", "begins with a blank"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(cases[i].text), NIGH_INVALID);
        if (strncmp(why, cases[i].where, strlen(cases[i].where)) != 0 ||
            strstr(why, cases[i].what) == NULL)
            fail_msg("case %zu: \"%s\"", i, why);
    }
}

static void lines_and_files_have_a_bound(void **state)
{
    static char text[LIMIT_CONFIG_BYTES + 2];

    (void)state;
    memset(text, 'x', 300);
    memcpy(text, "[node]\n", 7);
    text[300] = '\0';
    assert_int_equal(parse(text), NIGH_INVALID);
    assert_int_equal(strncmp(why, "f:2: ", 5), 0);
    assert_non_null(strstr(why, "join = @FILE"));
    memset(text, '\n', sizeof(text) - 1);
    assert_int_equal(parse(text), NIGH_INVALID);
    assert_non_null(strstr(why, "larger"));
}

static void a_zero_byte_is_no_end_of_the_file(void **state)
{
    static const char text[] = "[node]\n\0rubbish = 1\n";

    (void)state;
    daemon_options_init(&options);
    assert_int_equal(config_parse(text, sizeof(text) - 1, "f", &options, why, sizeof(why)),
                     NIGH_INVALID);
    assert_int_equal(strncmp(why, "f:2: ", 5), 0);
}

static void a_file_that_is_not_there_is_said(void **state)
{
    (void)state;
    daemon_options_init(&options);
    assert_int_equal(config_read("/nonexistent/nigh.ini", &options, why, sizeof(why)),
                     NIGH_INVALID);
    assert_non_null(strstr(why, "/nonexistent/nigh.ini"));
    assert_int_equal(config_read("/", &options, why, sizeof(why)), NIGH_INVALID);
    assert_non_null(strstr(why, "not a file"));
}

static void the_environment_names_the_socket(void **state)
{
    (void)state;
    setenv("NIGH_SOCKET", "/tmp/other", 1);
    daemon_options_init(&options);
    assert_string_equal(options.socket, "/tmp/other");
    unsetenv("NIGH_SOCKET");
}

static void memory_is_asked_for(void **state)
{
    static struct node_settings settings;

    (void)state;
    assert_int_equal(parse("[node]\n"), NIGH_OK);
    assert_int_equal(daemon_options_resolve(&options, 2, &settings, why, sizeof(why)),
                     NIGH_INVALID);
    assert_non_null(strstr(why, "--memory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_pools_are_read),
        cmocka_unit_test(an_empty_file_changes_nothing),
        cmocka_unit_test(what_stands_behind_blanks_may_be_nothing),
        cmocka_unit_test(each_fault_names_its_line),
        cmocka_unit_test(lines_and_files_have_a_bound),
        cmocka_unit_test(a_zero_byte_is_no_end_of_the_file),
        cmocka_unit_test(a_file_that_is_not_there_is_said),
        cmocka_unit_test(the_environment_names_the_socket),
        cmocka_unit_test(memory_is_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
