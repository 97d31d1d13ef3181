/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of spaces may be killed, or stopped, between any two stores. As client_deaths.c has it
 * for objects: libnigh over a seam that raises SIGKILL at the k-th store, fence or middle of a
 * copy, for every k of every operation. Two nodes share a space; the victim is the first one's
 * client, and a client of the other looks at what it leaves: each block can be locked, read and
 * written there at once, has the bytes of one write and no others, and no word that was added to is
 * more than one addition ahead. The same with SIGSTOP: what the stopped one does not hold is
 * locked, read and written meanwhile, and the operation ends well when it goes on.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crash/crash_world.h"
#include "nigh/space.h"

#define SETTLE_MS  20000
#define WAIT_US    UINT64_C(20000000)
#define PROBE_US   UINT64_C(10000000) /* how long others may wait */
#define TRY_US     UINT64_C(1000)
#define POINTS_MAX 5000 /* an operation that never ends is a failure */
#define BLOCK      512u
#define NODES      2u
#define EACH       16u /* blocks of each home */
#define MIB        (UINT64_C(1) << 20)

/* ---- the seam ------------------------------------------------------------- */

static uint64_t points;   /* passed since armed */
static uint64_t death_at; /* 0: never */
static int death_signal;
static bool armed;

void seam_point(void)
{
    if (armed && ++points == death_at) {
        syscall(SYS_kill, getpid(), death_signal);
    }
}

#undef memcpy
void *seam_copy(void *to, const void *from, size_t size_bytes)
{
    size_t half = size_bytes / 2;

    if (!armed || size_bytes < 64) {
        return memcpy(to, from, size_bytes);
    }
    memcpy(to, from, half);
    seam_point();
    memcpy((char *)to + half, (const char *)from + half, size_bytes - half);
    return to;
}

/* ---- two nodes, and a space ----------------------------------------------- */

static struct node_fixture nodes[NODES];
static nigh_client *checkers[NODES];
static nigh_space *checked[NODES];
static nigh_space_address homes[NODES], counters; /* EACH blocks of each; and one with words */
static nigh_node_stats before = {.struct_size = sizeof before}; /* without victims */

/* What a child has in hand. */
struct victim {
    nigh_client *client;
    nigh_space *space;
    uint8_t bytes[EACH * BLOCK];
};

static nigh_space_address block_at(uint32_t home, uint32_t n)
{
    return homes[home] + (uint64_t)n * BLOCK;
}

static bool is_ok(nigh_status status)
{
    return status == NIGH_OK;
}

/* ---- what is done --------------------------------------------------------- */

static bool nothing(struct victim *victim)
{
    (void)victim;
    return true;
}

static bool read_both(struct victim *victim)
{
    return is_ok(nigh_space_read(victim->space, block_at(0, 0), victim->bytes, BLOCK, WAIT_US)) &&
           is_ok(nigh_space_read(victim->space, block_at(1, 0), victim->bytes, BLOCK, WAIT_US));
}

static bool read_many(struct victim *victim)
{
    return is_ok(
        nigh_space_read(victim->space, block_at(1, 0), victim->bytes, EACH * BLOCK, WAIT_US));
}

static bool write_both(struct victim *victim)
{
    memset(victim->bytes, 0x51, sizeof victim->bytes);
    return is_ok(nigh_space_write(victim->space, block_at(0, 1), victim->bytes, BLOCK, WAIT_US)) &&
           is_ok(nigh_space_write(victim->space, block_at(1, 1), victim->bytes, BLOCK, WAIT_US)) &&
           is_ok(nigh_space_fence(victim->space, WAIT_US));
}

static bool write_many(struct victim *victim)
{
    nigh_space_address failed;

    memset(victim->bytes, 0x52, sizeof victim->bytes);
    return is_ok(nigh_space_write(victim->space, block_at(1, 2), victim->bytes, 4 * BLOCK,
                                  WAIT_US)) &&
           is_ok(nigh_space_store_fence(victim->space, WAIT_US)) &&
           is_ok(nigh_space_flush(victim->space, WAIT_US, &failed));
}

static bool change_words(struct victim *victim)
{
    uint64_t old, again;

    return is_ok(nigh_space_fetch_add(victim->space, counters, 1, WAIT_US, &old)) &&
           is_ok(nigh_space_compare_swap(victim->space, counters + 8, 1, 1, WAIT_US, &again)) &&
           is_ok(nigh_space_put(victim->space, counters + 16, old, WAIT_US)) &&
           is_ok(nigh_space_get(victim->space, counters + 16, WAIT_US, &again)) && again == old;
}

static bool lock_both(struct victim *victim)
{
    for (uint32_t home = 0; home < NODES; home++) {
        nigh_space_address block = block_at(home, 6);

        if (!is_ok(nigh_space_lock_write(victim->space, block, 1, WAIT_US)) ||
            !is_ok(nigh_space_unlock(victim->space, block, 1, WAIT_US))) {
            return false;
        }
    }
    return true;
}

/* From the second time on it is kept. */
static bool lock_some_times(struct victim *victim)
{
    return lock_both(victim) && lock_both(victim) && lock_both(victim);
}

static bool try_both(struct victim *victim)
{
    for (uint32_t home = 0; home < NODES; home++) {
        nigh_space_address block = block_at(home, 7);
        nigh_status status = nigh_space_try_lock_read(victim->space, block, 1, WAIT_US);

        if (!is_ok(status) || !is_ok(nigh_space_unlock(victim->space, block, 1, WAIT_US))) {
            return false;
        }
    }
    return true;
}

static bool write_under_locks(struct victim *victim)
{
    memset(victim->bytes, 0x53, sizeof victim->bytes);
    return is_ok(nigh_space_lock_write(victim->space, block_at(1, 8), 4 * BLOCK, WAIT_US)) &&
           is_ok(nigh_space_write(victim->space, block_at(1, 8), victim->bytes, 4 * BLOCK,
                                  WAIT_US)) &&
           is_ok(nigh_space_unlock(victim->space, block_at(1, 8), 4 * BLOCK, WAIT_US));
}

/* What it allocated is nobody's, as what a process allocates that dies: there is room for that. */
static bool allocate(struct victim *victim)
{
    for (uint32_t home = 0; home < NODES; home++) {
        nigh_space_address made = 0;

        if (!is_ok(
                nigh_space_alloc(victim->space, 2 * BLOCK, NIGH_SPACE_ON(home), WAIT_US, &made)) ||
            !is_ok(nigh_space_write(victim->space, made + 300, victim->bytes, BLOCK, WAIT_US)) ||
            !is_ok(nigh_space_free(victim->space, made, WAIT_US))) {
            return false;
        }
    }
    return true;
}

static bool open_and_close(struct victim *victim)
{
    nigh_space *other = NULL;

    nigh_space_close(victim->space);
    victim->space = NULL;
    return is_ok(nigh_space_open(victim->client, "space", NIGH_SPACE_ALL, WAIT_US, &other)) &&
           is_ok(nigh_space_read(other, block_at(0, 0), victim->bytes, BLOCK, WAIT_US)) &&
           (nigh_space_close(other), true);
}

static bool close_with_locks(struct victim *victim)
{
    nigh_client_close(victim->client);
    return true;
}

static bool hold_and_write(struct victim *victim)
{
    memset(victim->bytes, 0x54, sizeof victim->bytes);
    return is_ok(nigh_space_lock_write(victim->space, block_at(0, 12), BLOCK, WAIT_US)) &&
           is_ok(nigh_space_lock_read(victim->space, block_at(1, 12), 2 * BLOCK, WAIT_US)) &&
           is_ok(nigh_space_write(victim->space, block_at(1, 14), victim->bytes, BLOCK, WAIT_US));
}

/* Floors are a little below what is there: fewer mean that the seam has come loose. */
static const struct operation {
    const char *name;
    bool (*prepare)(struct victim *victim);
    bool (*act)(struct victim *victim);
    uint32_t floor;
    uint32_t locked, locks; /* blocks of each home that it may hold */
} operations[] = {
    {"read", nothing, read_both, 14, 0, 0},
    {"read, here", read_both, read_both, 3, 0, 0},
    {"read of many", nothing, read_many, 55, 0, 0},
    {"write", nothing, write_both, 12, 0, 0},
    {"write, again", write_both, write_both, 2, 0, 0},
    {"write of many", nothing, write_many, 12, 0, 0},
    {"words", nothing, change_words, 13, 0, 0},
    {"lock", nothing, lock_both, 15, 6, 1},
    {"lock that was kept", lock_some_times, lock_both, 2, 6, 1},
    {"try-lock", nothing, try_both, 15, 7, 1},
    {"write under locks", nothing, write_under_locks, 20, 8, 4},
    {"alloc, free", nothing, allocate, 15, 0, 0},
    {"open, close", nothing, open_and_close, 35, 0, 0},
    {"close with locks", hold_and_write, close_with_locks, 7, 12, 2},
};

#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

/* ---- one death ------------------------------------------------------------ */

/* Exit codes of a child that outlived its operation. */
#define CHILD_DONE    0
#define CHILD_FAILED  2
#define CHILD_UNREADY 3

/* What a child is told. */
struct errand {
    const struct operation *operation;
    uint32_t spin_us;
    uint64_t death_at;
    int death_signal;
};

static int child_body(void *arg)
{
    const struct errand *errand = arg;
    static struct victim victim;
    bool done;

    victim.client = crash_open(&nodes[0], "victim", errand->spin_us);
    if (victim.client == NULL ||
        !is_ok(nigh_space_open(victim.client, "space", NIGH_SPACE_ALL, WAIT_US, &victim.space)) ||
        !errand->operation->prepare(&victim)) {
        return CHILD_UNREADY;
    }
    death_at = errand->death_at;
    death_signal = errand->death_signal;
    armed = true;
    done = errand->operation->act(&victim);
    armed = false;
    return done ? CHILD_DONE : CHILD_FAILED;
}

/* ---- what must hold after it ---------------------------------------------- */

static uint64_t counted; /* additions that were seen */
static uint64_t slowest_us;
static uint8_t turn;

/* The other node's client locks it, finds one write's bytes, and writes its own. */
static const char *use_block(nigh_space_address block)
{
    uint8_t bytes[BLOCK];

    if (!is_ok(nigh_space_lock_write(checked[1], block, BLOCK, PROBE_US))) {
        return "cannot be locked";
    }
    if (!is_ok(nigh_space_read(checked[1], block, bytes, BLOCK, PROBE_US))) {
        return "cannot be read";
    }
    for (uint32_t n = 1; n < BLOCK; n++) {
        if (bytes[n] != bytes[0]) {
            return "has bytes of two writes";
        }
    }
    memset(bytes, ++turn, BLOCK);
    if (!is_ok(nigh_space_write(checked[1], block, bytes, BLOCK, PROBE_US)) ||
        !is_ok(nigh_space_unlock(checked[1], block, BLOCK, PROBE_US)) ||
        !is_ok(nigh_space_flush(checked[1], PROBE_US, NULL))) {
        return "cannot be written";
    }
    return NULL;
}

/* What `operation` may hold is left out, or NULL. */
static void use_all(const struct operation *without, const struct errand *errand)
{
    for (uint32_t n = 0; n < NODES * EACH; n++) {
        uint32_t home = n / EACH, at = n % EACH;
        uint64_t begin_us = support_now_us(), took_us;
        const char *why;

        if (without != NULL && at >= without->locked && at < without->locked + without->locks) {
            continue;
        }
        why = use_block(block_at(home, at));
        took_us = support_now_us() - begin_us;
        slowest_us = took_us > slowest_us ? took_us : slowest_us;
        if (why != NULL || took_us >= PROBE_US) {
            fail_msg("%s, %s at %" PRIu64 ": block %u of home %u %s", errand->operation->name,
                     without != NULL ? "stopped" : "dead", errand->death_at, at, home,
                     why != NULL ? why : "is had late");
        }
    }
}

static void check_after(const struct errand *errand)
{
    uint64_t value = 0;

    use_all(NULL, errand);
    assert_int_equal(nigh_space_get(checked[1], counters, PROBE_US, &value), NIGH_OK);
    if (value != counted && (value != counted + 1 || errand->operation->act != change_words)) {
        fail_msg("%s, dead at %" PRIu64 ": %" PRIu64 " additions, not %" PRIu64,
                 errand->operation->name, errand->death_at, value, counted);
    }
    counted = value;
    if (!SUPPORT_WAIT(crash_settled(checkers[0], &before, true), SETTLE_MS)) {
        crash_print_difference(checkers[0], &before);
        fail_msg("%s, dead at %" PRIu64 ": the session left something", errand->operation->name,
                 errand->death_at);
    }
}

/* Waits for a child that dies, stops or ends. How it ended, as support_join; *stopped: whether it
 * was, and went on. */
static int await_child(pid_t child, const struct errand *errand, bool *stopped)
{
    int status = 0;

    *stopped = false;
    if (errand->death_signal == SIGSTOP && waitpid(child, &status, WUNTRACED) == child) {
        if (!WIFSTOPPED(status)) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        }
        *stopped = true;
        use_all(errand->operation, errand);
        kill(child, SIGCONT);
    }
    return support_join(child, SETTLE_MS);
}

/* At every point until the operation gets by three times in a row: how many points a run passes
 * depends a little on who is faster. Returns how many were hit. */
static uint64_t die_everywhere(const struct operation *operation, uint32_t spin_us, int number)
{
    uint64_t hits = 0, alive = 0;

    for (uint64_t at = 1; alive < 3; at++) {
        struct errand errand = {operation, spin_us, at, number};
        bool stopped;
        int ended;

        assert_true(at < POINTS_MAX);
        ended = await_child(support_fork(child_body, &errand), &errand, &stopped);
        if (ended != CHILD_DONE && (ended != -SIGKILL || number != SIGKILL)) {
            fail_msg("%s, at %" PRIu64 ": the child ended with %d", operation->name, at, ended);
        }
        alive = stopped || ended == -SIGKILL ? 0 : alive + 1;
        hits += alive == 0;
        check_after(&errand);
    }
    return hits;
}

static void die_in_all(uint32_t spin_us, int number, const char *how)
{
    uint64_t total = 0;

    slowest_us = 0;
    for (size_t i = 0; i < OPERATIONS; i++) {
        uint64_t hits = die_everywhere(&operations[i], spin_us, number);

        printf("# %-20s %4" PRIu64 " %s\n", operations[i].name, hits, how);
        fflush(stdout);
        assert_true(hits >= operations[i].floor);
        total += hits;
    }
    printf("# all: %" PRIu64 " %s; the other node's slowest lock, read and write of a block after "
           "one took %" PRIu64 " us\n",
           total, how, slowest_us);
}

/* A client that spins while it waits dies, and one that always sleeps stops. */
static void test_deaths_of_a_client_of_spaces(void **state)
{
    (void)state;
    die_in_all(20000, SIGKILL, "deaths");
}

static void test_stops_of_a_client_of_spaces(void **state)
{
    (void)state;
    die_in_all(1, SIGSTOP, "stops");
}

/* ---- set-up --------------------------------------------------------------- */

static void start_nodes(void)
{
    static char members[128], key[108], state[NODES][108];

    node_fixture_members(members, sizeof members, NODES);
    support_path(key, sizeof key, "key");
    support_put_file(support_dir(), "/key",
                     "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n");
    assert_int_equal(chmod(key, 0600), 0);
    for (uint32_t n = 0; n < NODES; n++) {
        char name[32], rank[12];
        const char *flags[] = {"--space-memory",
                               "32M",
                               "--join",
                               members,
                               "--member",
                               rank,
                               "--cluster-key",
                               key,
                               "--state",
                               state[n],
                               "--dead-ms",
                               node_fixture_dead_ms(),
                               NULL};

        snprintf(rank, sizeof rank, "%u", n);
        snprintf(name, sizeof name, "state-%d", support_port());
        support_path(state[n], sizeof state[n], name);
        node_fixture_start(&nodes[n], "64M", flags);
    }
}

static int set_up(void **state)
{
    nigh_space_spec spec = {.struct_size = sizeof spec, .name = "space", .home_size = 4 * MIB};

    (void)state;
    start_nodes();
    for (uint32_t n = 0; n < NODES; n++) {
        checkers[n] = crash_open(&nodes[n], "checker", 0);
        assert_non_null(checkers[n]);
    }
    assert_true(SUPPORT_WAIT(nigh_space_create(checkers[0], &spec, WAIT_US, &checked[0]) == NIGH_OK,
                             SETTLE_MS));
    assert_int_equal(nigh_space_open(checkers[1], "space", NIGH_SPACE_ALL, WAIT_US, &checked[1]),
                     NIGH_OK);
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(
            nigh_space_alloc(checked[0], EACH * BLOCK, NIGH_SPACE_ON(n), WAIT_US, &homes[n]),
            NIGH_OK);
    }
    assert_int_equal(nigh_space_alloc(checked[0], BLOCK, NIGH_SPACE_ON(1), WAIT_US, &counters),
                     NIGH_OK);
    counted = 0;
    assert_int_equal(nigh_stats(checkers[0], &before), NIGH_OK);
    assert_int_equal(before.sessions, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < NODES; n++) {
        assert_true(node_fixture_lives(&nodes[n]));
        nigh_client_close(checkers[n]);
    }
    for (uint32_t n = 0; n < NODES; n++) {
        node_fixture_stop(&nodes[n]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_deaths_of_a_client_of_spaces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stops_of_a_client_of_spaces, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("deaths of clients of spaces", tests, NULL, NULL);
}
