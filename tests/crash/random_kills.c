/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients killed with SIGKILL at random moments under load, several at a time, while two steady
 * clients go on with theirs. Everyone verifies every byte of every object got. At the end nothing
 * is left of the dead.
 *
 * Points that chance does not reach are client_deaths.c's.
 */
#include "crash/crash_load.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEADY        2u
#define VICTIMS       4u   /* alive at a time */
#define KILLS         500u /* without a budget */
#define KILLS_SOAK    10000u
#define SOAK_MS       240000u
#define LIFE_SHORT_US 8000u /* the longest of a victim: half of them die young, while they open */
#define LIFE_LONG_US  80000u
#define SLOWEST_US    5000000u
#define SETTLE_MS     30000
#define FULL_US       30000000u

static struct node_fixture node;
static struct load_board *board;
static struct load_report *reports; /* of the steady ones; the last is all victims' */

/* A process of load; victims (steady == false) never end by themselves but for a few. */
struct part {
    uint32_t number;
    uint64_t seed;
    bool steady;
};

#define PART_FAILED 2
#define PART_CLOSED 3

static int part_body(void *arg)
{
    const struct part *part = arg;
    char name[16];
    nigh_client *client;
    struct load *load;
    uint64_t steps = part->steady ? UINT64_MAX : part->seed % 64;

    snprintf(name, sizeof(name), "%s%u", part->steady ? "steady" : "victim", part->number);
    client = crash_open(&node, name, 0);
    load = client != NULL ? load_create(client, board,
                                        &reports[part->steady ? part->number : STEADY], part->seed)
                          : NULL;
    if (load == NULL) {
        return PART_FAILED;
    }
    /* One in eight ends by itself, with a close or without. */
    while (atomic_load(&board->stop) == 0 && (part->seed % 8 != 0 || part->steady || steps-- > 0)) {
        if (!load_step(load)) {
            return PART_FAILED;
        }
    }
    if (part->steady) {
        load_release_all(load);
    }
    if (part->steady || part->seed % 16 == 0) {
        nigh_client_close(client);
    }
    return PART_CLOSED;
}

/* ---- victims -------------------------------------------------------------- */

struct victim {
    pid_t pid;
    uint64_t end_us;
};

static void print_failure(const struct load_report *report, const char *who)
{
    int32_t failure = atomic_load(&report->failure);

    if (failure != 0) {
        printf("# %s: %s in operation %u\n", who, nigh_status_name((nigh_status)failure),
               atomic_load(&report->failed_in));
    }
}

static void begin_victim(struct victim *victim, uint32_t number, uint64_t *random)
{
    struct part part = {.number = number, .seed = support_random(random) | 1};

    if (support_random(random) % 8 == 0) {
        part.seed &= ~UINT64_C(7);
        part.seed |= 8; /* not 0 */
    }
    victim->pid = support_fork(part_body, &part);
    victim->end_us = support_now_us() +
                     support_random(random) % (number % 2 == 0 ? LIFE_SHORT_US : LIFE_LONG_US);
}

/* Kills it and reaps it; false when it had failed. *killed counts those that lived until then. */
static bool end_victim(struct victim *victim, uint64_t *killed)
{
    int status = 0;

    kill(victim->pid, SIGKILL);
    if (waitpid(victim->pid, &status, 0) != victim->pid) {
        return false;
    }
    *killed += WIFSIGNALED(status);
    victim->pid = 0;
    return WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == PART_CLOSED;
}

/* Whether memory was full yet. */
static bool was_full(nigh_client *checker)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    return nigh_stats(checker, &stats) == NIGH_OK && stats.evictions > 0;
}

/* Kills until enough are dead, or the time is over; returns how many. A busy machine may let them
 * die faster than the steady ones fill memory: on until it is full. */
static uint64_t kill_many(nigh_client *checker, uint64_t *random, uint64_t kills, uint64_t end_us)
{
    struct victim victims[VICTIMS] = {{0}};
    uint64_t killed = 0, full_us = support_now_us() + FULL_US;
    bool good = true;

    while (good && (killed < kills || support_now_us() < end_us ||
                    (!was_full(checker) && support_now_us() < full_us))) {
        for (uint32_t i = 0; i < VICTIMS && good; i++) {
            if (victims[i].pid == 0) {
                begin_victim(&victims[i], i, random);
            } else if (support_now_us() >= victims[i].end_us) {
                good = end_victim(&victims[i], &killed);
            }
        }
        for (uint32_t i = 0; i < STEADY; i++) {
            good = good && atomic_load(&reports[i].failure) == 0;
        }
        support_breathe();
    }
    for (uint32_t i = 0; i < VICTIMS; i++) {
        if (victims[i].pid != 0) {
            good = end_victim(&victims[i], &killed) && good;
        }
    }
    for (uint32_t i = 0; i <= STEADY; i++) {
        print_failure(&reports[i], i < STEADY ? "a steady client" : "a victim");
    }
    assert_true(good);
    return killed;
}

/* ---- the end -------------------------------------------------------------- */

static void end_steady(const pid_t steady[STEADY])
{
    atomic_store(&board->stop, 1);
    for (uint32_t i = 0; i < STEADY; i++) {
        int ended = support_join(steady[i], SETTLE_MS);

        print_failure(&reports[i], "a steady client");
        assert_int_equal(ended, PART_CLOSED);
        printf("# steady client %u: %" PRIu64 " operations, %" PRIu64 " objects verified, %" PRIu64
               " put, the slowest took %" PRIu64 " us\n",
               i, atomic_load(&reports[i].steps), atomic_load(&reports[i].verified),
               atomic_load(&reports[i].puts), atomic_load(&reports[i].slowest_us));
        assert_true(atomic_load(&reports[i].verified) > 0);
        assert_true(atomic_load(&reports[i].slowest_us) < SLOWEST_US);
    }
}

static void test_random_kills_under_load(void **state)
{
    static const char *const flags[] = {"--lanes", "2", NULL};
    uint64_t random = support_seed();
    uint64_t budget_ms = support_budget_ms(0);
    uint64_t kills = budget_ms == 0 ? KILLS : budget_ms >= SOAK_MS ? KILLS_SOAK : 1;
    uint64_t begin_us, killed;
    pid_t steady[STEADY];
    nigh_client *checker;
    nigh_node_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};

    (void)state;
    board = load_shared(sizeof(*board));
    reports = load_shared(sizeof(*reports) * (STEADY + 1));
    node_fixture_start(&node, "32M", flags);
    checker = crash_open(&node, "checker", 0);
    assert_non_null(checker);
    assert_int_equal(nigh_stats(checker, &before), NIGH_OK);
    for (uint32_t i = 0; i < STEADY; i++) {
        struct part part = {.number = i, .seed = support_random(&random) | 1, .steady = true};

        steady[i] = support_fork(part_body, &part);
    }
    begin_us = support_now_us();
    killed = kill_many(checker, &random, kills, begin_us + budget_ms * 1000);
    end_steady(steady);
    printf("# %" PRIu64 " killed in %" PRIu64 " ms; they had verified %" PRIu64
           " objects and put %" PRIu64 "\n",
           killed, (support_now_us() - begin_us) / 1000, atomic_load(&reports[STEADY].verified),
           atomic_load(&reports[STEADY].puts));

    if (!SUPPORT_WAIT(crash_settled(checker, &before, false), SETTLE_MS)) {
        crash_print_difference(checker, &before);
        fail_msg("the dead left something");
    }
    crash_delete_all(checker);
    if (!SUPPORT_WAIT(crash_settled(checker, &before, true), SETTLE_MS)) {
        crash_print_difference(checker, &before);
        fail_msg("memory is lost");
    }
    assert_int_equal(nigh_stats(checker, &after), NIGH_OK);
    assert_true(after.evictions > 0); /* memory was full */
    assert_true(atomic_load(&reports[STEADY].verified) > 0);
    printf("# evictions: %" PRIu64 ", sessions that died: %" PRIu64 "\n", after.evictions,
           after.sessions_died);
    nigh_client_close(checker);
    node_fixture_stop(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_kills_under_load)};

    return cmocka_run_group_tests_name("random kills", tests, NULL, NULL);
}
