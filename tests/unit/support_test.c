/* SPDX-License-Identifier: Apache-2.0 */
/* The tests' own helpers: a helper that lies would make every other test worthless. */
#include "support/support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int exits_with(void *arg)
{
    return *(int *)arg;
}

static int never_ends(void *arg)
{
    (void)arg;
    for (;;)
        pause();
    return 0;
}

static void join_gives_the_exit_status(void **state)
{
    int code = 42;

    (void)state;
    assert_int_equal(support_join(support_fork(exits_with, &code), 5000), 42);
}

static void join_gives_the_signal(void **state)
{
    pid_t child = support_fork(never_ends, NULL);

    (void)state;
    kill(child, SIGKILL);
    assert_int_equal(support_join(child, 5000), -SIGKILL);
}

static void join_ends_at_its_deadline(void **state)
{
    pid_t child = support_fork(never_ends, NULL);

    (void)state;
    assert_int_equal(support_join(child, 20), SUPPORT_TIMED_OUT);
    assert_int_equal(kill(child, 0), -1);
}

static void wait_sees_a_change_and_a_deadline(void **state)
{
    int calls = 0;

    (void)state;
    assert_true(SUPPORT_WAIT(++calls == 5, 5000));
    assert_false(SUPPORT_WAIT(false, 5));
}

static void dir_is_one_a_process(void **state)
{
    struct stat st;
    char path[128];

    (void)state;
    assert_int_equal(stat(support_dir(), &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_string_equal(support_dir(), support_dir());
    support_path(path, sizeof(path), "a");
    assert_memory_equal(path, support_dir(), strlen(support_dir()));
}

static void seed_is_taken_from_the_environment(void **state)
{
    (void)state;
    setenv("NIGH_SEED", "77", 1);
    setenv("NIGH_RUN_SEED", "78", 1);
    assert_int_equal(support_seed(), 77);
    unsetenv("NIGH_SEED");
    assert_int_equal(support_seed(), 78);
    unsetenv("NIGH_RUN_SEED");
    assert_int_not_equal(support_seed(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(join_gives_the_exit_status),
        cmocka_unit_test(join_gives_the_signal),
        cmocka_unit_test(join_ends_at_its_deadline),
        cmocka_unit_test(wait_sees_a_change_and_a_deadline),
        cmocka_unit_test(dir_is_one_a_process),
        cmocka_unit_test(seed_is_taken_from_the_environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
