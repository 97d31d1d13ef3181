/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces, end to end: nighds that are each other's peers, over TCP, and clients of each. What one
 * writes all see; words that all add to are exact; locks exclude; a node that is killed costs what
 * it had, and nobody else anything; a client that dies or stands still, while it holds a lock,
 * costs the others no more than that.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nigh/space.h"
#include "support/node_fixture.h"

#define SECOND_US UINT64_C(1000000)
#define WAIT_US   (20 * SECOND_US * support_patience())
#define NODES     3u
#define MIB       (UINT64_C(1) << 20)

struct world {
    uint32_t count;
    struct node_fixture node[NODES];
    nigh_client *client[NODES];
    char members[128], key[108], state[NODES][108], rank[NODES][12];
};

static nigh_client *attach(const struct world *world, uint32_t n)
{
    nigh_client_options options = {.struct_size = sizeof options,
                                   .socket_path = world->node[n].socket};
    nigh_client *client = NULL;

    assert_int_equal(nigh_client_open(&options, &client), NIGH_OK);
    return client;
}

static void start_node(struct world *world, uint32_t n, bool again)
{
    const char *alone[] = {"--lanes", "1", "--space-memory", "16M", NULL};
    const char *flags[] = {"--lanes",
                           "1",
                           "--space-memory",
                           "16M",
                           "--join",
                           world->members,
                           "--member",
                           world->rank[n],
                           "--cluster-key",
                           world->key,
                           "--state",
                           world->state[n],
                           "--dead-ms",
                           node_fixture_dead_ms(),
                           "--fabric",
                           node_fixture_fabric(),
                           NULL};

    if (again) {
        node_fixture_start_again(&world->node[n], "32M", world->count > 1 ? flags : alone);
    } else {
        node_fixture_start(&world->node[n], "32M", world->count > 1 ? flags : alone);
    }
}

static void begin_world(struct world *world, uint32_t count)
{
    memset(world, 0, sizeof *world);
    world->count = count;
    node_fixture_members(world->members, sizeof world->members, count);
    support_path(world->key, sizeof world->key, "key");
    support_put_file(support_dir(), "/key",
                     "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n");
    assert_int_equal(chmod(world->key, 0600), 0);
    for (uint32_t n = 0; n < count; n++) {
        char name[32];

        snprintf(name, sizeof name, "state-%d", support_port());
        support_path(world->state[n], sizeof world->state[n], name);
        snprintf(world->rank[n], sizeof world->rank[n], "%u", n);
    }
    for (uint32_t n = 0; n < count; n++) {
        start_node(world, n, false);
    }
    for (uint32_t n = 0; n < count; n++) {
        world->client[n] = attach(world, n);
    }
}

static void end_world(struct world *world)
{
    for (uint32_t n = 0; n < world->count; n++) {
        nigh_client_close(world->client[n]);
    }
    for (uint32_t n = 0; n < world->count; n++) {
        node_fixture_stop(&world->node[n]);
    }
}

/* What a test does is to go well; else its client says why it did not. */
static void claim(nigh_client *client, nigh_status status)
{
    if (status != NIGH_OK) {
        char why[256];

        nigh_client_error(client, why, sizeof why);
        fail_msg("%s: %s", nigh_status_name(status), why);
    }
}

static nigh_space *create(nigh_client *client, const char *name)
{
    nigh_space_spec spec = {.struct_size = sizeof spec, .name = name, .home_size = MIB};
    nigh_space *space = NULL;

    claim(client, nigh_space_create(client, &spec, WAIT_US, &space));
    return space;
}

static nigh_space *open_space(nigh_client *client, const char *name, uint32_t access)
{
    nigh_space *space = NULL;

    claim(client, nigh_space_open(client, name, access, WAIT_US, &space));
    return space;
}

static void open_all(struct world *world, const char *name, nigh_space *spaces[NODES])
{
    spaces[0] = create(world->client[0], name);
    for (uint32_t n = 1; n < world->count; n++) {
        spaces[n] = open_space(world->client[n], name, NIGH_SPACE_ALL);
    }
}

static nigh_space_address alloc_at(const struct world *world, uint32_t n, nigh_space *space,
                                   uint64_t size, uint32_t rank)
{
    nigh_space_address address = 0;

    claim(world->client[n], nigh_space_alloc(space, size, NIGH_SPACE_ON(rank), WAIT_US, &address));
    assert_int_equal(address >> 48, rank);
    return address;
}

static void write_all(const struct world *world, uint32_t n, nigh_space *space,
                      nigh_space_address address, const void *bytes, uint64_t size)
{
    nigh_space_address failed = 0;

    claim(world->client[n], nigh_space_write(space, address, bytes, size, WAIT_US));
    claim(world->client[n], nigh_space_flush(space, WAIT_US, &failed));
}

static uint64_t get(const struct world *world, uint32_t n, nigh_space *space,
                    nigh_space_address address)
{
    uint64_t value = 0;

    claim(world->client[n], nigh_space_read(space, address, &value, sizeof value, WAIT_US));
    return value;
}

/* ---- one node ------------------------------------------------------------- */

static void one_node_alone_has_spaces(void **state)
{
    struct world world;
    nigh_space *space;
    nigh_space_address address = 0;
    uint8_t bytes[3000], read[3000];
    uint64_t old = 0, seed = 1;
    char why[256];

    (void)state;
    begin_world(&world, 1);
    space = create(world.client[0], "alone");
    claim(world.client[0], nigh_space_alloc(space, sizeof bytes, 0, WAIT_US, &address));
    for (size_t n = 0; n < sizeof bytes; n++) {
        bytes[n] = (uint8_t)support_random(&seed);
    }
    memset(read, 1, sizeof read);
    claim(world.client[0], nigh_space_read(space, address, read, sizeof read, WAIT_US));
    for (size_t n = 0; n < sizeof read; n++) {
        assert_int_equal(read[n], 0);
    }
    claim(world.client[0], nigh_space_write(space, address + 5, bytes, 2900, WAIT_US));
    claim(world.client[0], nigh_space_read(space, address + 5, read, 2900, WAIT_US));
    assert_memory_equal(read, bytes, 2900);
    claim(world.client[0], nigh_space_flush(space, WAIT_US, NULL));
    claim(world.client[0], nigh_space_read(space, address + 5, read, 2900, WAIT_US));
    assert_memory_equal(read, bytes, 2900);
    claim(world.client[0], nigh_space_fetch_add(space, address + 2992, 5, WAIT_US, &old));
    assert_int_equal(old, 0);
    assert_int_equal(get(&world, 0, space, address + 2992), 5);
    claim(world.client[0], nigh_space_free(space, address, WAIT_US));
    assert_int_equal(nigh_space_read(space, address, read, 1, WAIT_US), NIGH_NOT_FOUND);
    assert_int_equal(nigh_space_alloc(space, 1, NIGH_SPACE_ON(9), WAIT_US, &address),
                     NIGH_PEER_LOST);
    nigh_client_error(world.client[0], why, sizeof why);
    assert_non_null(strstr(why, "the node of rank 9 "));
    nigh_space_close(space);
    end_world(&world);
}

/* Memory of what was deleted is given back in a while: who makes another space waits for it. */
static void a_space_is_made_where_one_was(void **state)
{
    nigh_space_spec spec = {
        .struct_size = sizeof spec, .name = "large", .home_size = 10 * MIB, .cache_size = MIB};
    struct world world;
    nigh_space *space;

    (void)state;
    begin_world(&world, 1);
    for (uint32_t n = 0; n < 10; n++) {
        claim(world.client[0], nigh_space_create(world.client[0], &spec, WAIT_US, &space));
        nigh_space_close(space);
        claim(world.client[0], nigh_space_delete(world.client[0], "large", WAIT_US));
    }
    end_world(&world);
}

#define SHORT_US (SECOND_US / 10)
#define TIMES    10u /* of which most do: a busy machine wakes some late, and others by chance */

/* A flush of what waits for a lock ends in its time, though nothing else happens at the node; not
 * when the client gives it up, a second later. */
static void a_flush_ends_in_its_time(void **state)
{
    struct world world;
    nigh_client *client;
    nigh_space *space, *other;
    nigh_space_address address = 0;
    uint64_t value = 7;
    uint32_t in_time = 0;

    (void)state;
    begin_world(&world, 1);
    space = create(world.client[0], "held");
    claim(world.client[0], nigh_space_alloc(space, 512, 0, WAIT_US, &address));
    claim(world.client[0], nigh_space_lock_write(space, address, 1, WAIT_US));
    client = attach(&world, 0);
    other = open_space(client, "held", NIGH_SPACE_ALL);
    claim(client, nigh_space_write(other, address, &value, sizeof value, WAIT_US));
    for (uint32_t n = 0; n < TIMES && in_time <= TIMES / 2; n++) {
        uint64_t begun_us = support_now_us(), took_us;

        assert_int_equal(nigh_space_flush(other, SHORT_US, NULL), NIGH_TIMEOUT);
        took_us = support_now_us() - begun_us;
        assert_true(took_us >= SHORT_US);
        in_time += took_us < SECOND_US;
    }
    assert_true(in_time > TIMES / 2);
    claim(world.client[0], nigh_space_unlock(space, address, 1, WAIT_US));
    claim(client, nigh_space_flush(other, WAIT_US, NULL));
    assert_int_equal(get(&world, 0, space, address), value);
    nigh_client_close(client);
    end_world(&world);
}

/* ---- three ---------------------------------------------------------------- */

static void what_one_writes_all_see(void **state)
{
    struct world world;
    nigh_space *spaces[NODES];

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "seen", spaces);
    for (uint32_t home = 0; home < NODES; home++) {
        nigh_space_address address = alloc_at(&world, 0, spaces[0], 4096, home);

        for (uint32_t round = 0; round < 20; round++) {
            uint32_t writer = round % NODES;
            uint64_t value = 1000 * home + round + 1;

            write_all(&world, writer, spaces[writer], address + 8 * (round % 512), &value, 8);
            for (uint32_t n = 0; n < NODES; n++) {
                assert_int_equal(get(&world, n, spaces[n], address + 8 * (round % 512)), value);
            }
        }
    }
    end_world(&world);
}

/* ---- words, locks --------------------------------------------------------- */

#define ADDS    120u
#define THREADS 2u /* of a node */

/* What a thread does; it tells how that ended. */
struct worker {
    pthread_t thread;
    nigh_space *space;
    nigh_space_address word, guarded;
    nigh_status status;
};

static void *add(void *argument)
{
    struct worker *worker = argument;

    for (uint32_t n = 0; n < ADDS && worker->status == NIGH_OK; n++) {
        worker->status = nigh_space_fetch_add(worker->space, worker->word, 1, WAIT_US, NULL);
    }
    return NULL;
}

/* To write, and to read: with nothing written between a thread keeps it until another wants it. */
static nigh_status lock_some_times(struct worker *worker, uint32_t count)
{
    nigh_status status = NIGH_OK;

    for (uint32_t n = 0; n < 3 * count && status == NIGH_OK; n++) {
        status = n % 3 == 0 ? nigh_space_lock_read(worker->space, worker->word, 1, WAIT_US)
                            : nigh_space_lock_write(worker->space, worker->word, 1, WAIT_US);
        if (status == NIGH_OK) {
            status = nigh_space_unlock(worker->space, worker->word, 1, WAIT_US);
        }
    }
    return status;
}

/* What is under the lock is read, and written one higher: who is not alone loses some. */
static void *add_under_lock(void *argument)
{
    struct worker *worker = argument;

    for (uint32_t n = 0; n < ADDS / 4 && worker->status == NIGH_OK; n++) {
        uint64_t value = 0;
        nigh_status unlocked;

        worker->status = lock_some_times(worker, n % 4);
        if (worker->status != NIGH_OK) {
            break;
        }
        worker->status = nigh_space_lock_write(worker->space, worker->word, 1, WAIT_US);
        if (worker->status != NIGH_OK) {
            break;
        }
        worker->status =
            nigh_space_read(worker->space, worker->guarded, &value, sizeof value, WAIT_US);
        value++;
        if (worker->status == NIGH_OK) {
            worker->status =
                nigh_space_write(worker->space, worker->guarded, &value, sizeof value, WAIT_US);
        }
        unlocked = nigh_space_unlock(worker->space, worker->word, 1, WAIT_US);
        worker->status = worker->status == NIGH_OK ? unlocked : worker->status;
    }
    if (worker->status == NIGH_OK) {
        worker->status = nigh_space_flush(worker->space, WAIT_US, NULL);
    }
    return NULL;
}

#define ROW 5u /* blocks, of which three are locked at a time */

/* Of each block of the range one is added to what it has; ranges of others begin elsewhere. */
static void *add_under_ranges(void *argument)
{
    struct worker *worker = argument;

    for (uint32_t n = 0; n < ADDS / 4 && worker->status == NIGH_OK; n++) {
        uint64_t begin = worker->word + n % 3 * 512, values[3 * 512 / 8];
        nigh_status unlocked;

        worker->status = nigh_space_lock_write(worker->space, begin, sizeof values, WAIT_US);
        if (worker->status != NIGH_OK) {
            break;
        }
        worker->status = nigh_space_read(worker->space, begin, values, sizeof values, WAIT_US);
        for (uint32_t block = 0; block < 3; block++) {
            values[block * 64]++;
        }
        if (worker->status == NIGH_OK) {
            worker->status = nigh_space_write(worker->space, begin, values, sizeof values, WAIT_US);
        }
        unlocked = nigh_space_unlock(worker->space, begin, sizeof values, WAIT_US);
        worker->status = worker->status == NIGH_OK ? unlocked : worker->status;
    }
    if (worker->status == NIGH_OK) {
        worker->status = nigh_space_flush(worker->space, WAIT_US, NULL);
    }
    return NULL;
}

static void run_all(const struct world *world, void *(*body)(void *), nigh_space *spaces[NODES],
                    nigh_space_address word, nigh_space_address guarded)
{
    struct worker workers[NODES * THREADS];

    for (uint32_t n = 0; n < world->count * THREADS; n++) {
        workers[n] =
            (struct worker){.space = spaces[n % world->count], .word = word, .guarded = guarded};
        assert_int_equal(pthread_create(&workers[n].thread, NULL, body, &workers[n]), 0);
    }
    for (uint32_t n = 0; n < world->count * THREADS; n++) {
        assert_int_equal(pthread_join(workers[n].thread, NULL), 0);
    }
    for (uint32_t n = 0; n < world->count * THREADS; n++) {
        assert_int_equal(workers[n].status, NIGH_OK);
    }
}

#define VALUE_AT 37u
#define PUTS     300u

/* Puts values of one byte each, and gets what others have put: never some of two. */
static void *put_and_get(void *argument)
{
    struct worker *worker = argument;
    uint8_t value[203], got[sizeof value];

    for (uint32_t n = 0; n < PUTS && worker->status == NIGH_OK; n++) {
        memset(value, (int)(n + (uintptr_t)worker / sizeof *worker * 31), sizeof value);
        worker->status = nigh_space_put_bytes(worker->space, worker->word + VALUE_AT, value,
                                              sizeof value, WAIT_US);
        for (uint32_t gets = 0; gets < 4 && worker->status == NIGH_OK; gets++) {
            worker->status = nigh_space_get_bytes(worker->space, worker->word + VALUE_AT, got,
                                                  sizeof got, WAIT_US);
            if (worker->status == NIGH_OK && memcmp(got, got + 1, sizeof got - 1) != 0) {
                worker->status = NIGH_CORRUPT;
            }
        }
    }
    if (worker->status == NIGH_OK) {
        worker->status = nigh_space_flush(worker->space, WAIT_US, NULL);
    }
    return NULL;
}

/* Of a value within a block, wherever it begins and its home is. */
static void what_is_put_is_got_whole(void **state)
{
    struct world world;
    nigh_space *spaces[NODES];

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "whole", spaces);
    for (uint32_t home = 0; home < NODES; home++) {
        run_all(&world, put_and_get, spaces, alloc_at(&world, 0, spaces[0], 512, home), 0);
    }
    end_world(&world);
}

static void what_all_add_to_is_exact(void **state)
{
    struct world world;
    nigh_space *spaces[NODES];

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "sums", spaces);
    for (uint32_t home = 0; home < NODES; home++) {
        nigh_space_address word = alloc_at(&world, 1, spaces[1], 512, home);

        run_all(&world, add, spaces, word, 0);
        for (uint32_t n = 0; n < NODES; n++) {
            assert_int_equal(get(&world, n, spaces[n], word), ADDS * NODES * THREADS);
        }
    }
    end_world(&world);
}

static void locks_exclude(void **state)
{
    struct world world;
    nigh_space *spaces[NODES];

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "locks", spaces);
    for (uint32_t home = 0; home < NODES; home++) {
        nigh_space_address word = alloc_at(&world, 2, spaces[2], 512, home);
        nigh_space_address guarded = alloc_at(&world, 2, spaces[2], 512, (home + 1) % NODES);

        run_all(&world, add_under_lock, spaces, word, guarded);
        for (uint32_t n = 0; n < NODES; n++) {
            assert_int_equal(get(&world, n, spaces[n], guarded), ADDS / 4 * NODES * THREADS);
        }
    }
    end_world(&world);
}

static void ranges_exclude(void **state)
{
    static const uint32_t times[ROW] = {1, 2, 3, 2, 1}; /* of three ranges, a block is in so many */
    struct world world;
    nigh_space *spaces[NODES];

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "ranges", spaces);
    for (uint32_t home = 0; home < NODES; home++) {
        nigh_space_address row = alloc_at(&world, 2, spaces[2], ROW * 512, home);

        run_all(&world, add_under_ranges, spaces, row, 0);
        for (uint32_t n = 0; n < ROW; n++) {
            assert_int_equal(get(&world, 1, spaces[1], row + n * 512),
                             ADDS / 4 / 3 * times[n] * NODES * THREADS);
        }
    }
    end_world(&world);
}

/* ---- deaths --------------------------------------------------------------- */

static void kill_node(struct world *world, uint32_t n)
{
    assert_int_equal(kill(world->node[n].pid, SIGKILL), 0);
    assert_int_equal(waitpid(world->node[n].pid, NULL, 0), world->node[n].pid);
    nigh_client_close(world->client[n]);
}

/* A child. When this returns none of its threads runs: on a busy machine they do for a while. */
static void stop(pid_t pid)
{
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
}

static nigh_status read_word(nigh_space *space, nigh_space_address address, uint64_t *value)
{
    return nigh_space_read(space, address, value, sizeof *value, WAIT_US);
}

/* Until the dead one is no member others wait for it. */
static void a_node_that_is_killed_costs_what_it_had(void **state)
{
    struct world world;
    nigh_space *spaces[NODES];
    nigh_space_address word[NODES], alone, again;
    uint64_t value = 7;

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "deaths", spaces);
    for (uint32_t n = 0; n < NODES; n++) {
        word[n] = alloc_at(&world, n, spaces[n], 512, n);
        write_all(&world, n, spaces[n], word[n], &value, sizeof value);
    }
    alone = alloc_at(&world, 0, spaces[0], 512, 0);
    write_all(&world, 2, spaces[2], alone, &value, sizeof value);
    assert_int_equal(get(&world, 1, spaces[1], word[0]), 7);
    kill_node(&world, 2);
    /* What was there, and what it alone had written, is lost; the rest goes on. */
    assert_int_equal(read_word(spaces[0], word[2], &value), NIGH_PEER_LOST);
    assert_int_equal(read_word(spaces[0], alone, &value), NIGH_PEER_LOST);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(get(&world, 1 - n, spaces[1 - n], word[n]), 7);
        value = 8 + n;
        write_all(&world, 1 - n, spaces[1 - n], word[n], &value, sizeof value);
        assert_int_equal(get(&world, n, spaces[n], word[n]), 8 + n);
    }
    /* It takes part anew, with nothing. */
    start_node(&world, 2, true);
    world.client[2] = attach(&world, 2);
    spaces[2] = NULL;
    assert_true(SUPPORT_WAIT(
        nigh_space_open(world.client[2], "deaths", NIGH_SPACE_ALL, WAIT_US, &spaces[2]) == NIGH_OK,
        20000));
    assert_int_equal(get(&world, 2, spaces[2], word[0]), 8);
    assert_int_equal(read_word(spaces[2], word[2], &value), NIGH_PEER_LOST);
    again = alloc_at(&world, 0, spaces[0], 512, 2);
    value = 99;
    write_all(&world, 1, spaces[1], again, &value, sizeof value);
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(get(&world, n, spaces[n], again), 99);
    }
    end_world(&world);
}

#define MANY_BLOCKS 70000u /* more than letters that may wait at a node for its links */
#define BLOCK       UINT64_C(64)

/* What others share of a home that is started again it asks for as far as there is room for that.
 */
static void a_home_comes_back_of_which_much_is_shared(void **state)
{
    struct world world;
    nigh_space_spec spec = {
        .struct_size = sizeof spec, .name = "much", .home_size = 5 * MIB, .block_size = BLOCK};
    nigh_space *space = NULL;
    nigh_space_address much = 0, more = 0;
    uint8_t *bytes = calloc(MANY_BLOCKS, BLOCK), *seen = malloc(MANY_BLOCKS * BLOCK);

    (void)state;
    assert_true(bytes != NULL && seen != NULL);
    begin_world(&world, NODES);
    claim(world.client[0], nigh_space_create(world.client[0], &spec, WAIT_US, &space));
    much = alloc_at(&world, 0, space, MANY_BLOCKS * BLOCK, 2);
    claim(world.client[0], nigh_space_read(space, much, seen, MANY_BLOCKS * BLOCK, WAIT_US));
    assert_memory_equal(seen, bytes, MANY_BLOCKS * BLOCK);
    kill_node(&world, 2);
    start_node(&world, 2, true);
    world.client[2] = attach(&world, 2);
    assert_true(
        SUPPORT_WAIT(nigh_space_alloc(space, BLOCK, NIGH_SPACE_ON(2), SECOND_US, &more) == NIGH_OK,
                     20000 * support_patience()));
    memset(seen, 1, MANY_BLOCKS * BLOCK);
    claim(world.client[0], nigh_space_read(space, much, seen, MANY_BLOCKS * BLOCK, WAIT_US));
    assert_memory_equal(seen, bytes, MANY_BLOCKS * BLOCK);
    free(bytes);
    free(seen);
    end_world(&world);
}

/* A thread that has read a word once, and reads it again when it is told to. */
struct reader {
    pthread_t thread;
    pthread_barrier_t turns;
    nigh_space *space;
    nigh_space_address word;
    nigh_status first, status;
    uint64_t value;
};

static void *read_twice(void *argument)
{
    struct reader *reader = argument;

    reader->first = read_word(reader->space, reader->word, &reader->value);
    (void)pthread_barrier_wait(&reader->turns);
    (void)pthread_barrier_wait(&reader->turns);
    reader->status = read_word(reader->space, reader->word, &reader->value);
    return NULL;
}

static void begin_reader(struct reader *reader, nigh_space *space, nigh_space_address word)
{
    *reader = (struct reader){.space = space, .word = word};
    assert_int_equal(pthread_barrier_init(&reader->turns, NULL, 2), 0);
    assert_int_equal(pthread_create(&reader->thread, NULL, read_twice, reader), 0);
    (void)pthread_barrier_wait(&reader->turns);
    assert_int_equal(reader->first, NIGH_OK);
}

static void end_reader(struct reader *reader)
{
    assert_int_equal(pthread_join(reader->thread, NULL), 0);
    assert_int_equal(pthread_barrier_destroy(&reader->turns), 0);
}

/* Others went on without it: it has nothing of what it had, and takes part all the same. */
static void a_node_that_stood_still_comes_back_with_nothing(void **state)
{
    struct world world;
    struct reader reader;
    nigh_space *spaces[NODES];
    nigh_space_address word, lost, given = 0;
    nigh_status status = NIGH_OK;
    uint64_t value = 7;

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "still", spaces);
    word = alloc_at(&world, 0, spaces[0], 512, 0);
    lost = alloc_at(&world, 0, spaces[0], 512, 2);
    write_all(&world, 0, spaces[0], word, &value, sizeof value);
    write_all(&world, 2, spaces[2], lost, &value, sizeof value);
    assert_int_equal(get(&world, 2, spaces[2], word), 7);
    begin_reader(&reader, spaces[2], word);
    stop(world.node[2].pid);
    value = 8;
    write_all(&world, 1, spaces[1], word, &value, sizeof value);
    assert_int_equal(read_word(spaces[0], lost, &value), NIGH_PEER_LOST);
    /* Its own clients read nothing of what it had, though all of it is mapped; and what they ask
     * for meanwhile it does not answer by that when it goes on. */
    (void)pthread_barrier_wait(&reader.turns);
    assert_int_equal(nigh_space_read(spaces[2], word, &value, sizeof value, 0), NIGH_TIMEOUT);
    assert_int_equal(kill(world.node[2].pid, SIGCONT), 0);
    end_reader(&reader);
    assert_true(reader.status == NIGH_CLOSED || (reader.status == NIGH_OK && reader.value == 8));
    /* Nor do others meet it as what it was: what it gives them stays. */
    assert_true(SUPPORT_WAIT(
        nigh_space_alloc(spaces[0], 512, NIGH_SPACE_ON(2), 1000, &given) == NIGH_OK, 20000));
    /* What it had is nobody's, and so are locks of its clients: they open it anew. */
    assert_true(SUPPORT_WAIT((status = read_word(spaces[2], word, &value)) == NIGH_CLOSED, 20000));
    nigh_space_close(spaces[2]);
    spaces[2] = open_space(world.client[2], "still", NIGH_SPACE_ALL);
    assert_int_equal(get(&world, 2, spaces[2], word), 8);
    assert_int_equal(read_word(spaces[2], lost, &value), NIGH_PEER_LOST);
    assert_int_equal(get(&world, 1, spaces[1], given), 0);
    lost = alloc_at(&world, 0, spaces[0], 512, 2);
    value = 9;
    write_all(&world, 2, spaces[2], lost, &value, sizeof value);
    assert_int_equal(get(&world, 1, spaces[1], lost), 9);
    end_world(&world);
}

/* Node 2 is lost, and there again: killed and started anew, or as it stands still until others have
 * noted that. */
static void lose_node_2(struct world *world, nigh_space *const spaces[NODES],
                        nigh_space_address its, bool is_killed)
{
    uint64_t value;

    if (is_killed) {
        kill_node(world, 2);
        start_node(world, 2, true);
        world->client[2] = attach(world, 2);
        return;
    }
    stop(world->node[2].pid);
    assert_true(SUPPORT_WAIT(read_word(spaces[0], its, &value) == NIGH_PEER_LOST, 20000));
    assert_int_equal(kill(world->node[2].pid, SIGCONT), 0);
    /* Until it knows it may serve what it had. */
    assert_true(SUPPORT_WAIT(read_word(spaces[2], its, &value) == NIGH_CLOSED, 20000));
}

static uint64_t used_at(const struct world *world, uint32_t n, const char *name)
{
    nigh_space_info info = {.struct_size = sizeof info};

    return nigh_space_stat(world->client[n], name, WAIT_US, &info) == NIGH_OK ? info.used_size
                                                                              : UINT64_MAX;
}

#define ARRAY 8u

/* Of one array all blocks are at another node, of one two in the middle, at one each, of one none.
 */
static void what_one_malloc_gave_is_one_over_its_homes_loss(void **state)
{
    static const char *const names[] = {"stood", "killed"};
    struct world world;

    (void)state;
    begin_world(&world, NODES);
    for (uint32_t is_killed = 0; is_killed < 2; is_killed++) {
        nigh_space_address whole, middle, none, again = 0;
        uint64_t values[ARRAY * 64] = {7}, value, used;
        nigh_space *spaces[NODES];

        open_all(&world, names[is_killed], spaces);
        whole = alloc_at(&world, 0, spaces[0], ARRAY * 512, 2);
        middle = alloc_at(&world, 1, spaces[1], ARRAY * 512, 2);
        none = alloc_at(&world, 1, spaces[1], ARRAY * 512, 2);
        write_all(&world, 1, spaces[1], whole, values, sizeof values);
        claim(world.client[0], nigh_space_read(spaces[0], whole, values, sizeof values, WAIT_US));
        write_all(&world, 1, spaces[1], middle + 3 * 512, values, sizeof values[0]);
        assert_int_equal(get(&world, 0, spaces[0], middle + 5 * 512), 0);
        lose_node_2(&world, spaces, none, is_killed);
        assert_true(SUPPORT_WAIT(
            nigh_space_alloc(spaces[0], 512, NIGH_SPACE_ON(2), SECOND_US, &again) == NIGH_OK,
            20000 * support_patience()));
        used = used_at(&world, 2, names[is_killed]);
        assert_int_equal(get(&world, 1, spaces[1], whole), 7);
        assert_int_equal(get(&world, 0, spaces[0], middle + 3 * 512), 7);
        assert_int_equal(read_word(spaces[0], middle, &value), NIGH_PEER_LOST);
        for (uint32_t n = 1; n < ARRAY; n++) {
            assert_int_equal(nigh_space_free(spaces[0], whole + n * 512, WAIT_US), NIGH_INVALID);
        }
        assert_int_equal(nigh_space_free(spaces[0], middle + 3 * 512, WAIT_US), NIGH_INVALID);
        assert_int_equal(nigh_space_free(spaces[1], none, WAIT_US), NIGH_PEER_LOST);
        claim(world.client[0], nigh_space_free(spaces[0], whole, WAIT_US));
        claim(world.client[1], nigh_space_free(spaces[1], middle, WAIT_US));
        claim(world.client[0], nigh_space_free(spaces[0], again, WAIT_US));
        for (uint32_t n = 0; n < ARRAY; n++) {
            assert_int_equal(read_word(spaces[0], whole + n * 512, &value), NIGH_NOT_FOUND);
        }
        assert_int_equal(used_at(&world, 2, names[is_killed]), used - (ARRAY + 6 + 1) * 512);
        for (uint32_t n = 0; n < 2; n++) {
            nigh_space_close(spaces[n]);
        }
    }
    end_world(&world);
}

struct holder {
    const struct world *world;
    nigh_space_address word;
    bool keeps;
    int ready, go;
};

/* So that the thread keeps it: what it locks once it does not. */
static nigh_status give_back(nigh_space *space, nigh_space_address word)
{
    nigh_status status = nigh_space_unlock(space, word, 1, WAIT_US);

    if (status == NIGH_OK) {
        status = nigh_space_lock_write(space, word, 1, WAIT_US);
    }
    return status == NIGH_OK ? nigh_space_unlock(space, word, 1, WAIT_US) : status;
}

/* A client of its own, on node 1, that holds a lock for ever, or keeps it. */
static int hold(void *argument)
{
    const struct holder *holder = argument;
    nigh_client_options options = {.struct_size = sizeof options,
                                   .socket_path = holder->world->node[1].socket};
    nigh_client *client = NULL;
    nigh_space *space = NULL;

    if (nigh_client_open(&options, &client) != NIGH_OK ||
        nigh_space_open(client, "held", NIGH_SPACE_ALL, WAIT_US, &space) != NIGH_OK ||
        nigh_space_lock_write(space, holder->word, 1, WAIT_US) != NIGH_OK ||
        (holder->keeps && give_back(space, holder->word) != NIGH_OK) ||
        write(holder->ready, "x", 1) != 1) {
        return 1;
    }
    for (;;) {
        (void)pause();
    }
}

static pid_t begin_holder(const struct world *world, nigh_space_address word, bool keeps)
{
    int ready[2];
    char byte = 0;
    struct holder holder = {.world = world, .word = word, .keeps = keeps};
    pid_t child;

    assert_int_equal(pipe(ready), 0);
    holder.ready = ready[1];
    child = support_fork(hold, &holder);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

static void a_client_that_holds_a_lock_lets_go_when_it_is_killed(void **state)
{
    struct world world;
    nigh_space *spaces[NODES];
    nigh_space_address word, other;
    pid_t child;
    uint64_t value = 5;

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "held", spaces);
    word = alloc_at(&world, 0, spaces[0], 512, 0);
    other = alloc_at(&world, 0, spaces[0], 512, 1);
    child = begin_holder(&world, word, false);
    stop(child);
    /* It stands still: who wants that lock waits, and nobody else. */
    assert_int_equal(nigh_space_lock_write(spaces[2], word, 1, SECOND_US / 2), NIGH_TIMEOUT);
    assert_int_equal(nigh_space_try_lock_write(spaces[0], word, 1, SECOND_US / 2), NIGH_BUSY);
    for (uint32_t n = 0; n < NODES; n++) {
        write_all(&world, n, spaces[n], other, &value, sizeof value);
        assert_int_equal(get(&world, n, spaces[n], other), 5);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    claim(world.client[2], nigh_space_lock_write(spaces[2], word, 1, WAIT_US));
    claim(world.client[2], nigh_space_unlock(spaces[2], word, 1, WAIT_US));
    assert_int_equal(waitpid(child, NULL, 0), child);
    end_world(&world);
}

/* Who stands still, and has given it back, is not waited for; nor who is killed then. */
static void a_kept_lock_is_anybodys(void **state)
{
    struct world world;
    nigh_space *spaces[NODES];
    nigh_space_address words[2];
    pid_t child;

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "held", spaces);
    for (uint32_t home = 0; home < 2; home++) {
        words[home] = alloc_at(&world, 0, spaces[0], 512, home);
        child = begin_holder(&world, words[home], true);
        stop(child);
        claim(world.client[2], nigh_space_try_lock_write(spaces[2], words[home], 1, WAIT_US));
        claim(world.client[2], nigh_space_unlock(spaces[2], words[home], 1, WAIT_US));
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        child = begin_holder(&world, words[home], true);
        assert_int_equal(kill(child, SIGKILL), 0);
        claim(world.client[1], nigh_space_lock_write(spaces[1], words[home], 1, WAIT_US));
        claim(world.client[1], nigh_space_unlock(spaces[1], words[home], 1, WAIT_US));
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    end_world(&world);
}

/* ---- tries ---------------------------------------------------------------- */

#define TRY_US (60 * SECOND_US) /* nobody waits for that long */

/* How it ends, and that it is soon. */
static nigh_status try_soon(nigh_space *space, nigh_space_address address, uint64_t length,
                            bool is_alone)
{
    uint64_t begin_us = support_now_us();
    nigh_status status = is_alone ? nigh_space_try_lock_write(space, address, length, TRY_US)
                                  : nigh_space_try_lock_read(space, address, length, TRY_US);

    assert_true(support_now_us() - begin_us < TRY_US / 6);
    return status;
}

/* ... and that it is carried out. */
static void let_go(const struct world *world, uint32_t n, nigh_space *space,
                   nigh_space_address address, uint64_t length)
{
    claim(world->client[n], nigh_space_unlock(space, address, length, WAIT_US));
    claim(world->client[n], nigh_space_flush(space, WAIT_US, NULL));
}

static void try_what_is_held_alone(const struct world *world, nigh_space *spaces[NODES],
                                   uint32_t home)
{
    nigh_space_address word = alloc_at(world, 0, spaces[0], 512, home);

    for (uint32_t holder = 0; holder < NODES; holder++) {
        claim(world->client[holder], nigh_space_lock_write(spaces[holder], word, 1, WAIT_US));
        for (uint32_t n = 0; n < 4 * NODES; n++) {
            if (n % NODES != holder) {
                assert_int_equal(try_soon(spaces[n % NODES], word, 1, n % 2 == 0), NIGH_BUSY);
            }
        }
        let_go(world, holder, spaces[holder], word, 1);
        for (uint32_t n = 0; n < NODES; n++) {
            assert_int_equal(try_soon(spaces[n], word, 1, n % 2 == 0), NIGH_OK);
            let_go(world, n, spaces[n], word, 1);
        }
    }
}

static void try_what_is_held_to_read(const struct world *world, nigh_space *spaces[NODES],
                                     uint32_t home)
{
    nigh_space_address word = alloc_at(world, 0, spaces[0], 512, home);

    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(try_soon(spaces[n], word, 1, false), NIGH_OK);
    }
    let_go(world, 2, spaces[2], word, 1);
    assert_int_equal(try_soon(spaces[2], word, 1, true), NIGH_BUSY);
    let_go(world, 0, spaces[0], word, 1);
    assert_int_equal(try_soon(spaces[2], word, 1, true), NIGH_BUSY);
    let_go(world, 1, spaces[1], word, 1);
    assert_int_equal(try_soon(spaces[2], word, 1, true), NIGH_OK);
    let_go(world, 2, spaces[2], word, 1);
}

/* A range is had whole, or nothing of it. */
static void try_what_is_held_in_part(const struct world *world, nigh_space *spaces[NODES],
                                     uint32_t home)
{
    uint64_t block = nigh_space_block_size(spaces[0]);
    nigh_space_address range = alloc_at(world, 0, spaces[0], 3 * block, home);

    claim(world->client[1], nigh_space_lock_write(spaces[1], range + 2 * block, 1, WAIT_US));
    assert_int_equal(try_soon(spaces[0], range, 3 * block, true), NIGH_BUSY);
    claim(world->client[0], nigh_space_flush(spaces[0], WAIT_US, NULL));
    assert_int_equal(try_soon(spaces[2], range, 2 * block, true), NIGH_OK);
    let_go(world, 2, spaces[2], range, 2 * block);
    let_go(world, 1, spaces[1], range + 2 * block, 1);
    assert_int_equal(try_soon(spaces[0], range, 3 * block, true), NIGH_OK);
    let_go(world, 0, spaces[0], range, 3 * block);
}

/* A try-lock of what another node's thread holds does not wait for it. */
static void what_another_node_holds_is_busy_soon(void **state)
{
    struct world world;
    nigh_space *spaces[NODES];
    nigh_space_address word;
    pid_t child;

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "held", spaces);
    for (uint32_t home = 0; home < NODES; home++) {
        try_what_is_held_alone(&world, spaces, home);
        try_what_is_held_to_read(&world, spaces, home);
        try_what_is_held_in_part(&world, spaces, home);
    }
    word = alloc_at(&world, 0, spaces[0], 512, 0);
    child = begin_holder(&world, word, false);
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(try_soon(spaces[2], word, 1, true), NIGH_BUSY);
    assert_int_equal(try_soon(spaces[0], word, 1, false), NIGH_BUSY);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(SUPPORT_WAIT(try_soon(spaces[2], word, 1, true) == NIGH_OK, 20000));
    /* Its node goes with who holds it: what it had is lost, and nobody waits for it. */
    claim(world.client[2], nigh_space_unlock(spaces[2], word, 1, WAIT_US));
    claim(world.client[1], nigh_space_lock_write(spaces[1], word, 1, WAIT_US));
    assert_int_equal(try_soon(spaces[2], word, 1, true), NIGH_BUSY);
    kill_node(&world, 1);
    assert_int_equal(nigh_space_try_lock_write(spaces[2], word, 1, TRY_US), NIGH_PEER_LOST);
    start_node(&world, 1, true);
    world.client[1] = attach(&world, 1);
    end_world(&world);
}

/* Who holds a lock of a space that is deleted, and unlocks it, gives back none that it was given
 * since, though that may have the word of the other. */
static void a_lock_of_what_was_deleted_is_no_other(void **state)
{
    struct world world;
    nigh_space *one, *two, *others;
    nigh_space_address gone, word;
    nigh_client *other;
    uint64_t value;

    (void)state;
    begin_world(&world, 1);
    one = create(world.client[0], "one");
    two = create(world.client[0], "two");
    gone = alloc_at(&world, 0, one, 512, 0);
    word = alloc_at(&world, 0, two, 512, 0);
    other = attach(&world, 0);
    others = open_space(other, "two", NIGH_SPACE_ALL);
    claim(world.client[0], nigh_space_lock_write(one, gone, 1, WAIT_US));
    claim(world.client[0], nigh_space_unlock(one, gone, 1, WAIT_US));
    claim(world.client[0], nigh_space_lock_write(one, gone, 1, WAIT_US));
    claim(other, nigh_space_delete(other, "one", WAIT_US));
    assert_true(SUPPORT_WAIT(read_word(one, gone, &value) == NIGH_NOT_FOUND, 20000));
    claim(world.client[0], nigh_space_lock_write(two, word, 1, WAIT_US));
    claim(world.client[0], nigh_space_unlock(one, gone, 1, WAIT_US));
    assert_int_equal(nigh_space_try_lock_write(others, word, 1, SECOND_US / 10), NIGH_BUSY);
    claim(world.client[0], nigh_space_unlock(two, word, 1, WAIT_US));
    claim(other, nigh_space_lock_write(others, word, 1, WAIT_US));
    nigh_client_close(other);
    end_world(&world);
}

/* ---- which there are ------------------------------------------------------ */

static void what_is_deleted_is_gone_everywhere(void **state)
{
    struct world world;
    nigh_space *spaces[NODES], *none = NULL;
    nigh_space_address word;
    nigh_space_info infos[4] = {{.struct_size = sizeof infos[0]}};
    uint64_t value = 1;
    size_t count = 0;
    uint32_t more = 0;

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "first", spaces);
    nigh_space_close(create(world.client[1], "second"));
    word = alloc_at(&world, 0, spaces[0], 512, 1);
    write_all(&world, 0, spaces[0], word, &value, sizeof value);
    for (uint32_t n = 0; n < NODES; n++) {
        claim(world.client[n],
              nigh_space_list(world.client[n], NULL, infos, 4, WAIT_US, &count, &more));
        assert_int_equal(count, 2);
        assert_int_equal(more, 0);
        assert_string_equal(infos[0].name, "first");
        assert_string_equal(infos[1].name, "second");
        assert_int_equal(infos[0].ranks, 7);
        assert_int_equal(infos[0].rank, n);
    }
    assert_int_equal(nigh_space_create(world.client[2],
                                       &(nigh_space_spec){.struct_size = sizeof(nigh_space_spec),
                                                          .name = "first",
                                                          .home_size = MIB},
                                       WAIT_US, &none),
                     NIGH_EXISTS);
    claim(world.client[2], nigh_space_delete(world.client[2], "first", WAIT_US));
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(nigh_space_open(world.client[n], "first", NIGH_SPACE_READ, WAIT_US, &none),
                         NIGH_NOT_FOUND);
        assert_int_equal(read_word(spaces[n], word, &value), NIGH_NOT_FOUND);
        nigh_space_close(spaces[n]);
    }
    /* Its name is free, and of another space. */
    open_all(&world, "first", spaces);
    assert_int_equal(read_word(spaces[1], word, &value), NIGH_NOT_FOUND);
    end_world(&world);
}

static void more_than_a_node_has_room_for_is_made_nowhere(void **state)
{
    struct world world;
    nigh_space *none = NULL;
    nigh_space_spec spec = {
        .struct_size = sizeof spec, .name = "large", .home_size = 10 * MIB, .cache_size = MIB};
    nigh_space_info info = {.struct_size = sizeof info};

    (void)state;
    begin_world(&world, NODES);
    nigh_space_close(create(world.client[0], "small"));
    spec.home_size = 20 * MIB;
    assert_int_equal(nigh_space_create(world.client[1], &spec, WAIT_US, &none), NIGH_OUT_OF_MEMORY);
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(nigh_space_stat(world.client[n], "large", WAIT_US, &info), NIGH_NOT_FOUND);
    }
    spec.home_size = 10 * MIB;
    claim(world.client[1], nigh_space_create(world.client[1], &spec, WAIT_US, &none));
    end_world(&world);
}

/* ---- who may what --------------------------------------------------------- */

#define OWNER    61001u
#define STRANGER 61003u

struct user {
    const struct world *world;
    uint32_t node, uid;
    nigh_status (*body)(nigh_client *client);
};

/* A process of another user, which tells how what it did ended. */
static int be_user(void *argument)
{
    const struct user *user = argument;
    nigh_client_options options = {.struct_size = sizeof options,
                                   .socket_path = user->world->node[user->node].socket};
    nigh_client *client = NULL;
    nigh_status status;

    if (setgid(user->uid) != 0 || setuid(user->uid) != 0) {
        return 1;
    }
    status = nigh_client_open(&options, &client);
    if (status == NIGH_OK) {
        status = user->body(client);
        nigh_client_close(client);
    }
    return -(int)status;
}

static nigh_status as_user(const struct world *world, uint32_t node, uint32_t uid,
                           nigh_status (*body)(nigh_client *client))
{
    struct user user = {.world = world, .node = node, .uid = uid, .body = body};

    return (nigh_status)-support_join(support_fork(be_user, &user), 60000);
}

static nigh_status open_and_close(nigh_client *client, const char *name, uint32_t access)
{
    nigh_space *space = NULL;
    nigh_status status = nigh_space_open(client, name, access, WAIT_US, &space);

    nigh_space_close(space);
    return status;
}

static nigh_status create_two(nigh_client *client)
{
    nigh_space_spec spec = {.struct_size = sizeof spec, .name = "own", .home_size = MIB};
    nigh_space *space = NULL;
    nigh_status status = nigh_space_create(client, &spec, WAIT_US, &space);

    nigh_space_close(space);
    if (status != NIGH_OK) {
        return status;
    }
    space = NULL;
    spec.name = "open";
    spec.other_access = NIGH_SPACE_READ;
    status = nigh_space_create(client, &spec, WAIT_US, &space);
    nigh_space_close(space);
    return status;
}

static nigh_status read_own(nigh_client *client)
{
    return open_and_close(client, "own", NIGH_SPACE_READ);
}

static nigh_status write_own(nigh_client *client)
{
    return open_and_close(client, "own", NIGH_SPACE_ALL);
}

static nigh_status read_open(nigh_client *client)
{
    return open_and_close(client, "open", NIGH_SPACE_READ);
}

static nigh_status write_open(nigh_client *client)
{
    return open_and_close(client, "open", NIGH_SPACE_WRITE);
}

/* What a handle to read says of bytes to write is not believed. */
static nigh_status alloc_open(nigh_client *client)
{
    nigh_space_address address;
    nigh_space *space = NULL;
    nigh_status status = nigh_space_open(client, "open", NIGH_SPACE_READ, WAIT_US, &space);

    if (status == NIGH_OK) {
        status = nigh_space_alloc(space, 64, 0, WAIT_US, &address);
    }
    nigh_space_close(space);
    return status;
}

static nigh_status delete_open(nigh_client *client)
{
    return nigh_space_delete(client, "open", WAIT_US);
}

static void who_may_what_is_so_on_all_nodes(void **state)
{
    struct world world;

    (void)state;
    if (geteuid() != 0) {
        SUPPORT_SKIP("needs root, to become somebody else");
    }
    assert_int_equal(chmod(support_dir(), 0711), 0);
    begin_world(&world, NODES);
    assert_int_equal(as_user(&world, 0, OWNER, create_two), NIGH_OK);
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(as_user(&world, n, OWNER, write_own), NIGH_OK);
        assert_int_equal(as_user(&world, n, STRANGER, read_own), NIGH_DENIED);
        assert_int_equal(as_user(&world, n, STRANGER, read_open), NIGH_OK);
        assert_int_equal(as_user(&world, n, STRANGER, write_open), NIGH_DENIED);
        assert_int_equal(as_user(&world, n, STRANGER, alloc_open), NIGH_DENIED);
        assert_int_equal(as_user(&world, n, STRANGER, delete_open), NIGH_DENIED);
        assert_int_equal(open_and_close(world.client[n], "own", NIGH_SPACE_ALL), NIGH_OK);
    }
    assert_int_equal(as_user(&world, 1, OWNER, delete_open), NIGH_OK);
    assert_int_equal(as_user(&world, 2, STRANGER, read_open), NIGH_NOT_FOUND);
    end_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_node_alone_has_spaces),
        cmocka_unit_test(a_space_is_made_where_one_was),
        cmocka_unit_test(a_flush_ends_in_its_time),
        cmocka_unit_test(what_one_writes_all_see),
        cmocka_unit_test(what_is_put_is_got_whole),
        cmocka_unit_test(what_all_add_to_is_exact),
        cmocka_unit_test(locks_exclude),
        cmocka_unit_test(ranges_exclude),
        cmocka_unit_test(a_node_that_is_killed_costs_what_it_had),
        cmocka_unit_test(a_home_comes_back_of_which_much_is_shared),
        cmocka_unit_test(a_node_that_stood_still_comes_back_with_nothing),
        cmocka_unit_test(what_one_malloc_gave_is_one_over_its_homes_loss),
        cmocka_unit_test(a_client_that_holds_a_lock_lets_go_when_it_is_killed),
        cmocka_unit_test(a_kept_lock_is_anybodys),
        cmocka_unit_test(what_another_node_holds_is_busy_soon),
        cmocka_unit_test(a_lock_of_what_was_deleted_is_no_other),
        cmocka_unit_test(what_is_deleted_is_gone_everywhere),
        cmocka_unit_test(more_than_a_node_has_room_for_is_made_nowhere),
        cmocka_unit_test(who_may_what_is_so_on_all_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
