/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a node's lives: they grow, whatever the clock does, where something remembers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "node/incarnation.h"
#include "support/support.h"

#define EPOCH_NS UINT64_C(1700000000000000000)
#define TICK_NS  UINT64_C(125000000)
#define NOW_NS   (EPOCH_NS + 1000 * TICK_NS)

static char folder[] = "/tmp/nigh-incarnation-XXXXXX";
static char why[512];

static char logged[1024]; /* the last line */

static void note_line(void *context, enum log_level level, const char *line, size_t length)
{
    (void)context;
    (void)level;
    snprintf(logged, sizeof(logged), "%.*s", (int)length, line);
}

static const struct log_sink noting = {.write = note_line};

static uint32_t begin(const char *directory, uint32_t above, uint64_t wall_ns)
{
    uint32_t number = 0;

    assert_int_equal(incarnation_begin(directory, above, wall_ns, &number, why, sizeof(why)),
                     NIGH_OK);
    return number;
}

static void put_file(const char *text)
{
    char path[64];
    FILE *file;

    snprintf(path, sizeof(path), "%s/incarnation", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void the_clock_counts_eighths(void **state)
{
    (void)state;
    assert_int_equal(incarnation_of_clock(NOW_NS), 1000);
    assert_int_equal(incarnation_of_clock(NOW_NS + TICK_NS - 1), 1000);
    assert_int_equal(incarnation_of_clock(NOW_NS + TICK_NS), 1001);
    assert_int_equal(incarnation_of_clock(0), 1); /* a machine that does not know the time */
    assert_int_equal(incarnation_of_clock(EPOCH_NS), 1);
    assert_int_equal(incarnation_of_clock(UINT64_MAX), UINT32_MAX);
}

static void a_directory_remembers(void **state)
{
    uint32_t before;

    (void)state;
    before = begin(folder, 0, NOW_NS);
    assert_int_equal(before, 1000);
    assert_int_equal(begin(folder, 0, NOW_NS), 1001);     /* the clock stands still */
    assert_int_equal(begin(folder, 0, NOW_NS / 2), 1002); /* it went back */
    assert_int_equal(begin(folder, 5000, NOW_NS), 5001);  /* a keeper knows better */
    assert_int_equal(begin(folder, 0, NOW_NS), 5002);     /* which is remembered, too */
    assert_int_equal(begin(folder, 0, NOW_NS + 9000 * TICK_NS), 10000);
}

static void without_one_the_clock_says_it(void **state)
{
    (void)state;
    assert_int_equal(begin("", 0, NOW_NS), 1000);
    assert_int_equal(begin("", 0, NOW_NS), 1000);
    assert_int_equal(begin("", 1000, NOW_NS), 1001);
    assert_int_equal(begin("/nowhere/at/all", 3, 0), 4);
}

/* Until the number of the clock is above the one that was begun with. */
static void the_next_life_has_another(void **state)
{
    (void)state;
    for (uint64_t at_ns = NOW_NS; at_ns < NOW_NS + TICK_NS; at_ns += TICK_NS / 7) {
        uint32_t number = incarnation_of_clock(at_ns);
        uint64_t wait_ns = incarnation_wait_ns(number, at_ns);

        assert_true(wait_ns > 0 && wait_ns <= TICK_NS);
        assert_int_equal(incarnation_of_clock(at_ns + wait_ns), number + 1);
        assert_int_equal(incarnation_of_clock(at_ns + wait_ns - 1), number);
    }
    assert_int_equal(incarnation_wait_ns(1000, NOW_NS + TICK_NS), 0);
    assert_int_equal(incarnation_wait_ns(5000, NOW_NS), 0); /* remembered: not for years */
    assert_int_equal(incarnation_wait_ns(1, 0), 0);
}

static void rubbish_is_no_number(void **state)
{
    static const char *const texts[] = {"",
                                        "12\n",
                                        "00000x2000\n",
                                        "-000002000\n",
                                        "9999999999\n",
                                        "0000002000 ",
                                        "\n\n\n\n\n\n\n\n\n\n\n"};

    (void)state;
    for (size_t n = 0; n < ARRAY_LENGTH(texts); n++) {
        put_file(texts[n]);
        assert_int_equal(begin(folder, 0, NOW_NS), 1000);
        assert_int_equal(begin(folder, 0, NOW_NS), 1001);
    }
}

/* It is written over: what was lost, and with what consequence, is told first. */
static void a_number_that_is_damaged_is_told(void **state)
{
    (void)state;
    log_set_sink(&noting);
    put_file("");
    assert_int_equal(begin(folder, 0, NOW_NS), 1000); /* its node died before it wrote */
    assert_string_equal(logged, "");
    assert_int_equal(begin(folder, 0, NOW_NS), 1001);
    assert_string_equal(logged, "");
    put_file("00000x2000\n");
    assert_int_equal(begin(folder, 0, NOW_NS), 1000);
    log_set_sink(NULL);
    assert_non_null(strstr(logged, "level=warn"));
    assert_non_null(strstr(logged, "is damaged"));
    assert_non_null(strstr(logged, "--dead-ms"));
    assert_non_null(strstr(logged, folder));
    assert_non_null(strstr(logged, "/incarnation"));
}

static void numbers_may_end(void **state)
{
    uint32_t number = 7;

    (void)state;
    put_file("4294967295\n");
    assert_int_equal(incarnation_begin(folder, 0, NOW_NS, &number, why, sizeof(why)), NIGH_LIMIT);
    assert_non_null(strstr(why, "incarnation"));
    assert_int_equal(number, 7);
    put_file("4294967294\n");
    assert_int_equal(begin(folder, 0, NOW_NS), UINT32_MAX);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int tear_down(void **state)
{
    char path[64];

    (void)state;
    snprintf(path, sizeof(path), "%s/incarnation", folder);
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clock_counts_eighths),
        cmocka_unit_test(a_directory_remembers),
        cmocka_unit_test(without_one_the_clock_says_it),
        cmocka_unit_test(the_next_life_has_another),
        cmocka_unit_test(rubbish_is_no_number),
        cmocka_unit_test(a_number_that_is_damaged_is_told),
        cmocka_unit_test(numbers_may_end),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
