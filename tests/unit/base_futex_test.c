/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping and waking: within a process, across processes, with and without a deadline. */
#include "base/check.h"
#include "base/clock.h"
#include "base/futex.h"
#include "support/support.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static void changed_word_does_not_sleep(void **state)
{
    (void)state;
    _Atomic uint32_t word = 1;
    assert_int_equal(futex_wait(&word, 2, FUTEX_FOREVER), NIGH_OK);
}

static void wait_ends_with_its_timeout(void **state)
{
    (void)state;
    _Atomic uint32_t word = 1;
    assert_int_equal(futex_wait(&word, 1, 0), NIGH_TIMEOUT);
    uint64_t before_us = clock_now_us(&clock_monotonic);
    assert_int_equal(futex_wait(&word, 1, 20000), NIGH_TIMEOUT);
    uint64_t passed_us = clock_now_us(&clock_monotonic) - before_us;
    assert_in_range(passed_us, 20000 - 1, 10000000);
}

static void word_that_cannot_be_read_is_refused(void **state)
{
    (void)state;
    void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    assert_int_equal(futex_wait(page, 1, 1000), NIGH_INVALID);
    assert_int_equal(futex_wake(page, 1), 0);
    munmap(page, 4096);
}

static void waking_nobody_wakes_nobody(void **state)
{
    (void)state;
    _Atomic uint32_t word = 1;
    assert_int_equal(futex_wake(&word, UINT32_MAX), 0);
}

/* A word shared with others, and what they saw. */
struct shared {
    _Atomic uint32_t word;
    _Atomic uint32_t awake;
    _Atomic uint32_t failed;
};

/* Sleeps, with the longest finite timeout there is, until the word is no longer 1. */
static void sleep_until_changed(struct shared *shared)
{
    while (atomic_load(&shared->word) == 1) {
        if (futex_wait(&shared->word, 1, FUTEX_FOREVER - 1) != NIGH_OK)
            atomic_store(&shared->failed, 1);
    }
    atomic_fetch_add(&shared->awake, 1);
}

static void *sleep_in_thread(void *shared)
{
    sleep_until_changed(shared);
    return NULL;
}

static void count_says_how_many_wake(void **state)
{
    (void)state;
    struct shared shared = {.word = 1};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sleep_in_thread, &shared), 0);
    /* One at a time, and none twice: a woken one sleeps again, since the word still says so. */
    bool one_woke = SUPPORT_WAIT(futex_wake(&shared.word, 1) == 1, 10000);
    /* All three are asleep when three are woken at once. */
    bool all_woke = SUPPORT_WAIT(futex_wake(&shared.word, 9) == 3, 10000);
    uint32_t awake = atomic_load(&shared.awake);
    atomic_store(&shared.word, 2);
    futex_wake(&shared.word, UINT32_MAX);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_true(one_woke);
    assert_true(all_woke);
    assert_int_equal(awake, 0);
    assert_int_equal(atomic_load(&shared.awake), 3);
    assert_int_equal(atomic_load(&shared.failed), 0);
}

static int sleep_in_child(void *argument)
{
    struct shared *shared = argument;
    sleep_until_changed(shared);
    return atomic_load(&shared->failed) == 0 ? 0 : 1;
}

static void other_process_is_woken(void **state)
{
    (void)state;
    struct shared *shared =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    atomic_store(&shared->word, 1);
    pid_t child = support_fork(sleep_in_child, shared);
    /* Woken once while the word says 1: it was asleep in this very futex, in the other process. */
    bool was_asleep = SUPPORT_WAIT(futex_wake(&shared->word, 1) == 1, 10000);
    atomic_store(&shared->word, 2);
    futex_wake(&shared->word, 1);
    assert_int_equal(support_join(child, 20000), 0);
    assert_true(was_asleep);
    munmap(shared, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_word_does_not_sleep),
        cmocka_unit_test(wait_ends_with_its_timeout),
        cmocka_unit_test(word_that_cannot_be_read_is_refused),
        cmocka_unit_test(waking_nobody_wakes_nobody),
        cmocka_unit_test(count_says_how_many_wake),
        cmocka_unit_test(other_process_is_woken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
