/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests share: cmocka's headers in the order it wants, waiting on conditions, child processes,
 * temporary folders, seeds and budgets. $NIGH_TEST=pattern runs only the tests of a program whose
 * names match ("*restart*").
 *
 * No test sleeps to let something happen: it waits for the condition, with a deadline. Assertions
 * of cmocka are for the test's own thread only; threads and children report through a struct or an
 * exit status.
 */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

/* A program of which $NIGH_TEST names no test fails: else a name that was mistyped would pass. */
bool support_has_chosen(const struct CMUnitTest *tests, size_t count);
#undef cmocka_run_group_tests
#undef cmocka_run_group_tests_name
#define cmocka_run_group_tests(tests, setup, teardown) \
    cmocka_run_group_tests_name(#tests, tests, setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                          \
    (support_has_chosen(tests, sizeof(tests) / sizeof((tests)[0]))                         \
         ? _cmocka_run_group_tests(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, \
                                   teardown)                                               \
         : 1)

/* Ends a test that cannot run here, and says what is missing: cmocka's own skip() counts as a
 * failure under Meson. */
#define SUPPORT_SKIP(why)                                \
    do {                                                 \
        print_message("# SKIP %s: %s\n", __func__, why); \
        return;                                          \
    } while (0)

/* Monotonic time. */
uint64_t support_now_us(void);

/* Lets a poll loop give way for a moment; not a means to wait for anything by itself. */
void support_breathe(void);

/* How many times longer what is waited for may take here: NIGH_TEST_PATIENCE, or 1. */
unsigned support_patience(void);

/*
 * Evaluates `condition` again and again until it holds or timeout_ms has passed; is true when it
 * held. Use: assert_true(SUPPORT_WAIT(atomic_load(&done), 5000));
 */
#define SUPPORT_WAIT(condition, timeout_ms)                                        \
    ({                                                                             \
        uint64_t support_end_us = support_now_us() + (uint64_t)(timeout_ms)*1000u; \
        bool support_held;                                                         \
        while (!(support_held = (condition)) && support_now_us() < support_end_us) \
            support_breathe();                                                     \
        support_held || (condition);                                               \
    })

/*
 * A TCP port of 127.0.0.1 for a node to listen on. It stays bound here until the process ends, as
 * SO_REUSEADDR lets a node listen nevertheless, and nobody else is given it: not to bind, and not
 * for a connection. Fails the test when there is none.
 */
int support_port(void);

/* How a child ended. */
#define SUPPORT_TIMED_OUT (-1000)

/*
 * Forks a child that runs body(arg) and exits with its result (0 to 255) without running the
 * parent's exit handlers; the child dies with its parent. Fails the test when fork fails.
 */
pid_t support_fork(int (*body)(void *arg), void *arg);

/*
 * Waits for a child: its exit status, or minus the signal that ended it. After timeout_ms it is
 * killed, reaped, and SUPPORT_TIMED_OUT is returned.
 */
int support_join(pid_t child, uint64_t timeout_ms);

/*
 * A folder of this process of its own, made at the first call and removed with its contents at
 * exit. Short enough for a Unix socket's path within it.
 */
const char *support_dir(void);

/* "<support_dir>/<name>" in a buffer that the caller owns; fails the test when it does not fit. */
void support_path(char *path, size_t size_bytes, const char *name);

/* A file `<root><path>` with that text, and the folders above it; fails the test when it cannot be.
 */
void support_put_file(const char *root, const char *path, const char *text);

/* The seed of a randomised test: $NIGH_SEED, else a random one; printed as "# seed N" so that it
 * can be repeated. */
uint64_t support_seed(void);

/* How long a randomised test may run: $NIGH_BUDGET_SECONDS (see tools/ci-budget.ini), else
 * default_ms. */
uint64_t support_budget_ms(uint64_t default_ms);

/* A step of a small generator (xorshift64*); *state must not be 0. */
uint64_t support_random(uint64_t *state);

#endif
