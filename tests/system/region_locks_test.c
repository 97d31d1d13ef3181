/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks of regions, end to end: embedded nodes of one process, and clients of each. What is counted
 * under a lock is counted right, readers see what belongs together, a lock is handed on when its
 * holder lets go, ends, takes too long or dies with its node; and then nothing is written under it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "region_world.h"

#define THREADS 2u /* of each node */
#define ROUNDS  60u

/* ---- counted -------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    struct world *world;
    nigh_client *client;
    uint64_t salt;
    uint32_t done, torn;
    nigh_status status;
};

static nigh_status add_one(nigh_region *region)
{
    nigh_region *held = NULL;
    uint64_t value = 0;
    nigh_status status =
        AGREED(nigh_region_lock(region, 7, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held));

    if (status != NIGH_OK) {
        return status;
    }
    status = AGREED(nigh_region_read(held, 16, &value, sizeof value, WAIT_US));
    value++;
    if (status == NIGH_OK) {
        status = AGREED(nigh_region_write(held, 16, &value, sizeof value, WAIT_US));
    }
    if (status == NIGH_OK) { /* in another chunk */
        status = AGREED(nigh_region_write(held, 64 * KIB, &value, sizeof value, WAIT_US));
    }
    return status == NIGH_OK ? nigh_region_unlock(held) : status;
}

static nigh_status look(struct worker *worker, nigh_region *region)
{
    nigh_region *held = NULL;
    uint64_t here = 0, there = 1;
    nigh_status status = AGREED(nigh_region_lock(region, 7, NIGH_REGION_SHARED, 0, WAIT_US, &held));

    if (status != NIGH_OK) {
        return status;
    }
    status = AGREED(nigh_region_read(held, 16, &here, sizeof here, WAIT_US));
    if (status == NIGH_OK) {
        status = AGREED(nigh_region_read(held, 64 * KIB, &there, sizeof there, WAIT_US));
    }
    worker->torn += status == NIGH_OK && here != there;
    return status == NIGH_OK ? nigh_region_unlock(held) : status;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    nigh_region *region = NULL;

    worker->status =
        AGREED(nigh_region_open(worker->client, "count", NIGH_REGION_ALL, WAIT_US, &region));
    for (uint32_t n = 0; worker->status == NIGH_OK && n < ROUNDS; n++) {
        worker->status = add_one(region);
        worker->done += worker->status == NIGH_OK;
        if (worker->status == NIGH_OK && support_random(&worker->salt) % 2 == 0) {
            worker->status = look(worker, region);
        }
    }
    return NULL;
}

static void run(struct world *world, struct worker *workers, uint32_t count, void *(*job)(void *))
{
    for (uint32_t n = 0; n < count; n++) {
        workers[n] = (struct worker){
            .world = world, .client = attach(world->node[n % world->count]), .salt = n + 1};
        assert_int_equal(pthread_create(&workers[n].thread, NULL, job, &workers[n]), 0);
    }
    for (uint32_t n = 0; n < count; n++) {
        assert_int_equal(pthread_join(workers[n].thread, NULL), 0);
        assert_int_equal(workers[n].status, NIGH_OK);
        assert_int_equal(workers[n].torn, 0);
        nigh_client_close(workers[n].client);
    }
}

static void what_is_counted_under_a_lock_is_counted_right(void **state)
{
    struct worker workers[NODES * THREADS];
    struct world world;
    nigh_region *region;
    uint64_t value = 0;

    (void)state;
    begin_world(&world, NODES);
    region = create(world.client[1], &(nigh_region_spec){.name = "count",
                                                         .size = 128 * KIB,
                                                         .chunk_size = 64 * KIB,
                                                         .where = NIGH_REGION_SPREAD});
    run(&world, workers, NODES * THREADS, work);
    assert_int_equal(AGREED(nigh_region_read(region, 16, &value, sizeof value, WAIT_US)), NIGH_OK);
    assert_int_equal(value, NODES * THREADS * ROUNDS);
    nigh_region_close(region);
    end_world(&world);
}

static void one_node_alone_has_locks(void **state)
{
    struct worker workers[THREADS];
    struct world world;
    nigh_region *region;

    (void)state;
    begin_world(&world, 1);
    region =
        create(world.client[0],
               &(nigh_region_spec){.name = "count", .size = 128 * KIB, .chunk_size = 64 * KIB});
    run(&world, workers, THREADS, work);
    nigh_region_close(region);
    end_world(&world);
}

/* ---- who has it ----------------------------------------------------------- */

static nigh_status lock(nigh_region *region, uint64_t number, nigh_region_mode mode,
                        uint64_t term_us, uint64_t timeout_us, nigh_region **held)
{
    *held = NULL;
    return AGREED(nigh_region_lock(region, number, mode, term_us, timeout_us, held));
}

static void rights_and_modes(void **state)
{
    struct world world;
    nigh_region *region, *reader, *held, *other;
    uint64_t word = 5;
    nigh_op op;

    (void)state;
    begin_world(&world, 2);
    region = create(world.client[0], &(nigh_region_spec){.name = "modes", .size = 4096});
    reader = open_region(world.client[1], "modes", NIGH_REGION_READ);
    assert_int_equal(lock(reader, 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held), NIGH_DENIED);
    assert_int_equal(lock(region, 1, (nigh_region_mode)3, 0, WAIT_US, &held), NIGH_INVALID);
    assert_int_equal(lock(reader, 1, NIGH_REGION_SHARED, 0, WAIT_US, &held), NIGH_OK);
    assert_int_equal(lock(region, 1, NIGH_REGION_SHARED, 0, WAIT_US, &other), NIGH_OK);
    assert_int_equal(nigh_region_write(other, 0, &word, sizeof word, WAIT_US), NIGH_DENIED);
    assert_int_equal(nigh_region_free(other, WAIT_US), NIGH_DENIED);
    assert_int_equal(nigh_region_unlock(other), NIGH_OK);
    assert_int_equal(lock(region, 1, NIGH_REGION_EXCLUSIVE, 0, SECOND_US / 20, &other),
                     NIGH_TIMEOUT);
    assert_int_equal(lock(region, 2, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &other), NIGH_OK);
    assert_int_equal(nigh_region_write(other, 0, &word, sizeof word, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_region_unlock(other), NIGH_OK);
    assert_int_equal(nigh_region_unlock(region), NIGH_INVALID); /* it holds none, and stays */
    assert_int_equal(nigh_region_unlock_start(region, &op), NIGH_INVALID);
    assert_int_equal(nigh_region_write(region, 0, &word, sizeof word, WAIT_US), NIGH_OK);
    nigh_region_close(held); /* lets go, too */
    assert_int_equal(lock(region, 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &other), NIGH_OK);
    nigh_region_close(reader);
    nigh_region_close(region); /* what is held is a handle of its own */
    assert_int_equal(nigh_region_write(other, 0, &word, sizeof word, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_region_unlock(other), NIGH_OK);
    assert_int_equal(nigh_region_unlock(NULL), NIGH_INVALID);
    end_world(&world);
}

static void who_takes_too_long_writes_no_more(void **state)
{
    struct world world;
    nigh_region *region, *other, *held, *next;
    uint64_t word = 5;

    (void)state;
    begin_world(&world, 2);
    region = create(
        world.client[0],
        &(nigh_region_spec){.name = "term", .size = 4096, .where = NIGH_REGION_ON, .rank = 1});
    other = open_region(world.client[1], "term", NIGH_REGION_ALL);
    assert_int_equal(lock(region, 1, NIGH_REGION_EXCLUSIVE, SECOND_US / 100, WAIT_US, &held),
                     NIGH_OK);
    assert_int_equal(nigh_region_write(held, 0, &word, sizeof word, WAIT_US), NIGH_OK);
    assert_int_equal(lock(other, 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &next), NIGH_OK);
    assert_int_equal(nigh_region_write(held, 0, &word, sizeof word, WAIT_US), NIGH_LOCK_LOST);
    assert_int_equal(nigh_region_read(held, 0, &word, sizeof word, WAIT_US), NIGH_LOCK_LOST);
    assert_int_equal(nigh_region_unlock(held), NIGH_LOCK_LOST);
    assert_int_equal(nigh_region_unlock(next), NIGH_OK);
    nigh_region_close(region);
    nigh_region_close(other);
    end_world(&world);
}

static bool is_lost(nigh_region *held)
{
    uint64_t word;

    return nigh_region_read(held, 0, &word, sizeof word, WAIT_US) == NIGH_LOCK_LOST;
}

/* What was asked for once is not taken back; where it has come to the home at all in that time. */
static void a_term_ends_though_nobody_waits_any_more(void **state)
{
    struct world world;
    nigh_region *region, *other, *held, *next;
    bool is_over = false;
    char said[256];

    (void)state;
    begin_world(&world, 2);
    region = create(world.client[0], &(nigh_region_spec){.name = "given up", .size = 4096});
    other = open_region(world.client[1], "given up", NIGH_REGION_ALL);
    assert_int_equal(lock(region, 1, NIGH_REGION_EXCLUSIVE, SECOND_US, WAIT_US, &held), NIGH_OK);
    for (uint32_t n = 0; n < 10 && !is_over; n++) {
        assert_int_equal(lock(other, 1, NIGH_REGION_EXCLUSIVE, 0, SECOND_US / 50, &next),
                         NIGH_TIMEOUT);
        is_over = SUPPORT_WAIT(is_lost(held), 2000);
    }
    assert_true(is_over);
    assert_int_equal(nigh_region_unlock(held), NIGH_LOCK_LOST);
    nigh_client_error(world.client[0], said, sizeof(said));
    assert_non_null(strstr(said, "its term was over"));
    nigh_region_close(region);
    nigh_region_close(other);
    end_world(&world);
}

static void a_client_that_ends_lets_go(void **state)
{
    struct world world;
    nigh_client *client;
    nigh_region *region, *other, *held, *next;

    (void)state;
    begin_world(&world, 2);
    region = create(world.client[0], &(nigh_region_spec){.name = "ends", .size = 4096});
    client = attach(world.node[1]);
    other = open_region(client, "ends", NIGH_REGION_ALL);
    assert_int_equal(lock(other, 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held), NIGH_OK);
    assert_int_equal(lock(region, 1, NIGH_REGION_SHARED, 0, SECOND_US / 50, &next), NIGH_TIMEOUT);
    nigh_client_close(client);
    assert_int_equal(lock(region, 1, NIGH_REGION_SHARED, 0, WAIT_US, &next), NIGH_OK);
    assert_int_equal(nigh_region_unlock(next), NIGH_OK);
    nigh_region_close(region);
    end_world(&world);
}

static void a_node_that_ends_lets_go(void **state)
{
    struct world world;
    nigh_region *region, *other, *held, *next;
    uint64_t word = 1;

    (void)state;
    begin_world(&world, NODES);
    region = create(world.client[0], &(nigh_region_spec){.name = "node", .size = 4096});
    other = open_region(world.client[2], "node", NIGH_REGION_ALL);
    assert_int_equal(lock(other, 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held), NIGH_OK);
    assert_int_equal(nigh_region_write(held, 0, &word, sizeof word, WAIT_US), NIGH_OK);
    stop_node(&world, 2);
    assert_int_equal(lock(region, 1, NIGH_REGION_EXCLUSIVE, 0, 3 * WAIT_US, &next), NIGH_OK);
    assert_int_equal(AGREED(nigh_region_write(next, 0, &word, sizeof word, WAIT_US)), NIGH_OK);
    assert_int_equal(nigh_region_unlock(next), NIGH_OK);
    nigh_region_close(region);
    end_world(&world);
}

static void a_region_that_is_freed_has_no_locks(void **state)
{
    struct world world;
    nigh_region *region, *other, *held, *next;
    nigh_status status;
    uint64_t word = 1;
    char said[256];

    (void)state;
    begin_world(&world, 2);
    region = create(world.client[0], &(nigh_region_spec){.name = "freed", .size = 4096});
    other = open_region(world.client[1], "freed", NIGH_REGION_ALL);
    assert_int_equal(lock(other, 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held), NIGH_OK);
    assert_int_equal(AGREED(nigh_region_free(region, WAIT_US)), NIGH_OK);
    status = nigh_region_write(held, 0, &word, sizeof word, WAIT_US);
    assert_true(status == NIGH_NOT_FOUND || status == NIGH_LOCK_LOST); /* as its node hears of it */
    assert_int_equal(nigh_region_write(held, 0, &word, sizeof word, WAIT_US), NIGH_NOT_FOUND);
    assert_int_equal(lock(other, 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &next), NIGH_NOT_FOUND);
    if (nigh_region_unlock(held) != NIGH_OK) {
        nigh_client_error(world.client[1], said, sizeof(said));
        assert_non_null(strstr(said, "the region was freed"));
    }
    nigh_region_close(region);
    region = create(world.client[0], &(nigh_region_spec){.name = "freed", .size = 8192});
    assert_int_equal(lock(region, 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &next), NIGH_OK);
    assert_int_equal(lock(other, 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held), NIGH_NOT_FOUND);
    assert_int_equal(nigh_region_unlock(next), NIGH_OK);
    nigh_region_close(region);
    nigh_region_close(other);
    end_world(&world);
}

/* ---- barriers ------------------------------------------------------------- */

#define MEETINGS 40u

/* Each says in a word of its own how often it has come; whoever goes on sees that all have. */
static nigh_status meet(struct worker *worker, nigh_region *region, uint64_t round)
{
    uint64_t words[NODES * THREADS] = {0};
    nigh_status status =
        AGREED(nigh_region_write(region, 8 * worker->salt, &round, sizeof round, WAIT_US));

    if (status == NIGH_OK) {
        status = AGREED(nigh_region_barrier(region, 3, NODES * THREADS, WAIT_US));
    }
    if (status == NIGH_OK) {
        status = AGREED(nigh_region_read(region, 8, words, sizeof words, WAIT_US));
    }
    for (uint32_t n = 0; status == NIGH_OK && n < NODES * THREADS; n++) {
        worker->torn += words[n] < round;
    }
    return status;
}

static void *work_together(void *arg)
{
    struct worker *worker = arg;
    nigh_region *region = NULL;

    worker->status =
        AGREED(nigh_region_open(worker->client, "count", NIGH_REGION_ALL, WAIT_US, &region));
    for (uint64_t n = 1; worker->status == NIGH_OK && n <= MEETINGS; n++) {
        worker->status = meet(worker, region, n);
        worker->done += worker->status == NIGH_OK;
    }
    return NULL;
}

static void all_go_on_together(void **state)
{
    struct worker workers[NODES * THREADS];
    struct world world;
    nigh_region *region;

    (void)state;
    begin_world(&world, NODES);
    region = create(world.client[1], &(nigh_region_spec){.name = "count", .size = 4096});
    run(&world, workers, NODES * THREADS, work_together);
    for (uint32_t n = 0; n < NODES * THREADS; n++) {
        assert_int_equal(workers[n].done, MEETINGS);
    }
    nigh_region_close(region);
    end_world(&world);
}

struct guest {
    pthread_t thread;
    nigh_region *region;
    uint32_t parties;
    nigh_status status;
};

static void *wait_there(void *arg)
{
    struct guest *guest = arg;

    guest->status = AGREED(nigh_region_barrier(guest->region, 3, guest->parties, WAIT_US));
    return NULL;
}

static void begin_guest(struct guest *guest, nigh_region *region, uint32_t parties)
{
    *guest = (struct guest){.region = region, .parties = parties};
    assert_int_equal(pthread_create(&guest->thread, NULL, wait_there, guest), 0);
}

static nigh_status end_guest(struct guest *guest)
{
    assert_int_equal(pthread_join(guest->thread, NULL), 0);
    return guest->status;
}

static void a_party_that_ends_is_waited_for_by_nobody(void **state)
{
    struct world world;
    struct guest guest;
    nigh_client *client;
    nigh_region *region, *other, *third;

    (void)state;
    begin_world(&world, NODES);
    region = create(world.client[0], &(nigh_region_spec){.name = "ends", .size = 4096});
    client = attach(world.node[1]);
    other = open_region(client, "ends", NIGH_REGION_READ);
    third = open_region(world.client[2], "ends", NIGH_REGION_READ);
    begin_guest(&guest, region, 2);
    assert_int_equal(AGREED(nigh_region_barrier(other, 3, 2, WAIT_US)), NIGH_OK);
    assert_int_equal(end_guest(&guest), NIGH_OK);
    begin_guest(&guest, region, 2);
    nigh_client_close(client); /* it took part */
    assert_int_equal(end_guest(&guest), NIGH_PEER_LOST);
    assert_int_equal(AGREED(nigh_region_barrier(region, 3, 2, WAIT_US)), NIGH_PEER_LOST);
    assert_int_equal(AGREED(nigh_region_barrier(region, 4, 1, WAIT_US)), NIGH_OK);
    begin_guest(&guest, region, 2); /* nobody is left of those that were */
    assert_int_equal(AGREED(nigh_region_barrier(third, 3, 2, WAIT_US)), NIGH_OK);
    assert_int_equal(end_guest(&guest), NIGH_OK);
    nigh_region_close(third);
    nigh_region_close(region);
    end_world(&world);
}

static void a_node_that_ends_is_waited_for_by_nobody(void **state)
{
    struct world world;
    struct guest guest;
    nigh_region *region, *other;

    (void)state;
    begin_world(&world, NODES);
    region = create(world.client[0], &(nigh_region_spec){.name = "node", .size = 4096});
    other = open_region(world.client[2], "node", NIGH_REGION_READ);
    begin_guest(&guest, region, 2);
    assert_int_equal(AGREED(nigh_region_barrier(other, 3, 2, WAIT_US)), NIGH_OK);
    assert_int_equal(end_guest(&guest), NIGH_OK);
    begin_guest(&guest, region, 2);
    stop_node(&world, 2);
    assert_int_equal(end_guest(&guest), NIGH_PEER_LOST);
    nigh_region_close(region);
    end_world(&world);
}

static void who_waits_at_a_barrier_in_vain(void **state)
{
    struct world world;
    struct guest guest;
    nigh_region *region, *other;

    (void)state;
    begin_world(&world, 2);
    region = create(world.client[0], &(nigh_region_spec){.name = "vain", .size = 4096});
    other = open_region(world.client[1], "vain", NIGH_REGION_READ);
    assert_int_equal(nigh_region_barrier(region, 1, 0, WAIT_US), NIGH_INVALID);
    assert_int_equal(AGREED(nigh_region_barrier(region, 1, 2, SECOND_US / 20)), NIGH_TIMEOUT);
    assert_int_equal(AGREED(nigh_region_barrier(other, 1, 2, SECOND_US / 20)), NIGH_TIMEOUT);
    begin_guest(&guest, region, 2);
    assert_int_equal(AGREED(nigh_region_barrier(other, 3, 3, WAIT_US)), NIGH_INVALID);
    assert_int_equal(end_guest(&guest), NIGH_INVALID);
    begin_guest(&guest, region, 2);
    assert_int_equal(AGREED(nigh_region_free(region, WAIT_US)), NIGH_OK);
    assert_int_equal(end_guest(&guest), NIGH_NOT_FOUND);
    nigh_region_close(other);
    nigh_region_close(region);
    end_world(&world);
}

/* ---- by one thread -------------------------------------------------------- */

#define MANY 120u /* more than a client waits for at once */

/* A lock that is asked for, and not waited for yet. */
struct wish {
    nigh_region *region;
    uint64_t number;
    nigh_region *held;
    nigh_op op;
};

static void begin_wish(struct wish *wish, nigh_region *region, uint64_t number, uint64_t timeout_us)
{
    *wish = (struct wish){.region = region, .number = number};
    assert_int_equal(nigh_region_lock_start(region, number, NIGH_REGION_EXCLUSIVE, 0, timeout_us,
                                            &wish->held, &wish->op),
                     NIGH_OK);
}

static nigh_status end_wish(struct wish *wish, nigh_client *client)
{
    uint64_t until_us = support_now_us() + WAIT_US;
    nigh_status status;

    while ((status = nigh_wait(client, &wish->op, WAIT_US)) == NIGH_NO_QUORUM &&
           support_now_us() < until_us) {
        support_breathe();
        begin_wish(wish, wish->region, wish->number, WAIT_US);
    }
    return status;
}

static void one_thread_waits_for_many_locks(void **state)
{
    static struct wish wishes[MANY];
    static nigh_op ops[MANY];
    nigh_region *held[MANY];
    struct world world;
    nigh_region *region, *other;

    (void)state;
    begin_world(&world, 2);
    region = create(world.client[0], &(nigh_region_spec){.name = "many", .size = 4096});
    other = open_region(world.client[1], "many", NIGH_REGION_ALL);
    for (uint32_t n = 0; n < MANY; n++) {
        assert_int_equal(lock(region, n, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held[n]), NIGH_OK);
    }
    for (uint32_t n = 0; n < MANY; n++) {
        begin_wish(&wishes[n], other, n, NIGH_FOREVER);
    }
    nigh_poll(world.client[1]);
    for (uint32_t n = 0; n < MANY; n++) {
        assert_int_not_equal(nigh_op_status(&wishes[n].op), NIGH_OK);
        assert_null(wishes[n].held);
        assert_int_equal(nigh_region_unlock_start(held[n], &ops[n]), NIGH_OK);
    }
    for (uint32_t n = 0; n < MANY; n++) {
        uint64_t word = n;

        assert_int_equal(nigh_wait(world.client[0], &ops[n], WAIT_US), NIGH_OK);
        assert_int_equal(end_wish(&wishes[n], world.client[1]), NIGH_OK);
        assert_non_null(wishes[n].held);
        assert_int_equal(
            AGREED(nigh_region_write(wishes[n].held, 8 * n, &word, sizeof word, WAIT_US)), NIGH_OK);
    }
    for (uint32_t n = 0; n < MANY; n++) {
        assert_int_equal(nigh_region_unlock_start(wishes[n].held, &ops[n]), NIGH_OK);
    }
    for (uint32_t n = 0; n < MANY; n++) {
        assert_int_equal(nigh_wait(world.client[1], &ops[n], WAIT_US), NIGH_OK);
    }
    assert_int_equal(lock(region, MANY - 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held[0]), NIGH_OK);
    assert_int_equal(nigh_region_unlock(held[0]), NIGH_OK);
    end_world(&world);
}

/* Whenever it was given up: it is held, or goes back. */
static void a_lock_that_nobody_waits_for_goes_back(void **state)
{
    struct world world;
    struct wish wish;
    nigh_region *region, *other, *held;
    nigh_status status;
    nigh_op op;

    (void)state;
    begin_world(&world, 2);
    region = create(world.client[0], &(nigh_region_spec){.name = "back", .size = 4096});
    other = open_region(world.client[1], "back", NIGH_REGION_ALL);
    assert_int_equal(lock(region, 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held), NIGH_OK);
    begin_wish(&wish, other, 1, SECOND_US / 50);
    status = nigh_wait(world.client[1], &wish.op, WAIT_US);
    assert_true(status == NIGH_TIMEOUT || status == NIGH_NO_QUORUM);
    assert_null(wish.held);
    assert_int_equal(nigh_region_unlock(held), NIGH_OK);
    for (uint32_t n = 0; n < 100; n++) {
        assert_int_equal(lock(region, 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held), NIGH_OK);
        begin_wish(&wish, other, 1, NIGH_FOREVER);
        assert_int_equal(nigh_region_unlock_start(held, &op), NIGH_OK);
        for (uint32_t turn = 0; turn < n; turn++) {
            nigh_poll(world.client[n % 2]);
        }
        status = nigh_cancel(world.client[1], &wish.op);
        assert_true((status == NIGH_OK) == (wish.held != NULL));
        if (status == NIGH_OK) {
            assert_int_equal(nigh_region_unlock(wish.held), NIGH_OK);
        }
        assert_int_equal(nigh_wait(world.client[0], &op, WAIT_US), NIGH_OK);
    }
    assert_int_equal(lock(region, 1, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held), NIGH_OK);
    assert_int_equal(nigh_region_unlock(held), NIGH_OK);
    end_world(&world);
}

static void a_client_that_ends_has_nothing_under_way(void **state)
{
    enum {
        WISHES = 3
    };
    struct wish wishes[WISHES], had;
    struct world world;
    nigh_client *client;
    nigh_region *region, *other, *held[WISHES];
    nigh_op barrier;

    (void)state;
    begin_world(&world, 2);
    region = create(world.client[0], &(nigh_region_spec){.name = "ends", .size = 4096});
    client = attach(world.node[1]);
    other = open_region(client, "ends", NIGH_REGION_ALL);
    for (uint32_t n = 0; n < WISHES; n++) {
        assert_int_equal(lock(region, n, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held[n]), NIGH_OK);
        begin_wish(&wishes[n], other, n, NIGH_FOREVER);
    }
    begin_wish(&had, other, WISHES, WAIT_US);
    assert_int_equal(end_wish(&had, client), NIGH_OK);
    assert_int_equal(nigh_region_barrier_start(other, 3, 2, NIGH_FOREVER, &barrier), NIGH_OK);
    nigh_client_close(client);
    for (uint32_t n = 0; n < WISHES; n++) {
        nigh_status status = nigh_op_status(&wishes[n].op);

        assert_true(status == NIGH_CLOSED || status == NIGH_NO_QUORUM);
        assert_null(wishes[n].held);
    }
    assert_int_not_equal(nigh_op_status(&barrier), NIGH_PENDING);
    for (uint32_t n = 0; n < WISHES; n++) {
        assert_int_equal(nigh_region_unlock(held[n]), NIGH_OK);
    }
    for (uint32_t n = 0; n <= WISHES; n++) {
        assert_int_equal(lock(region, n, NIGH_REGION_EXCLUSIVE, 0, WAIT_US, &held[0]), NIGH_OK);
        assert_int_equal(nigh_region_unlock(held[0]), NIGH_OK);
    }
    end_world(&world);
}

/* A handle that is to arrive at a barrier. */
struct party {
    nigh_client *client;
    nigh_region *region;
    uint64_t number;
    uint32_t parties;
    nigh_op op;
};

static void arrive(struct party *party, uint64_t number, uint32_t parties)
{
    party->number = number;
    party->parties = parties;
    assert_int_equal(
        nigh_region_barrier_start(party->region, number, parties, NIGH_FOREVER, &party->op),
        NIGH_OK);
}

static void go_on(struct party *party)
{
    uint64_t until_us = support_now_us() + WAIT_US;
    nigh_status status;

    while ((status = nigh_wait(party->client, &party->op, WAIT_US)) == NIGH_NO_QUORUM &&
           support_now_us() < until_us) {
        support_breathe();
        arrive(party, party->number, party->parties);
    }
    assert_int_equal(status, NIGH_OK);
}

static void one_thread_is_all_parties(void **state)
{
    enum {
        PARTIES = 2 * NODES
    };
    struct party parties[PARTIES];
    struct world world;
    nigh_region *region;
    nigh_status status;

    (void)state;
    begin_world(&world, NODES);
    region = create(world.client[0], &(nigh_region_spec){.name = "meet", .size = 4096});
    for (uint32_t n = 0; n < PARTIES; n++) {
        parties[n] = (struct party){.client = world.client[n % NODES]};
        parties[n].region = open_region(parties[n].client, "meet", NIGH_REGION_READ);
    }
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t n = 0; n < PARTIES; n++) {
            arrive(&parties[(n + round) % PARTIES], 3, PARTIES);
            nigh_poll(parties[0].client);
            assert_true(n + 1 == PARTIES ||
                        nigh_op_status(&parties[round % PARTIES].op) != NIGH_OK);
        }
        for (uint32_t n = 0; n < PARTIES; n++) {
            go_on(&parties[n]);
        }
    }
    /* Of one node: what it takes back it says before what it says next. */
    arrive(&parties[0], 4, 2);
    status = nigh_cancel(parties[0].client, &parties[0].op);
    assert_true(status == NIGH_CANCELED || status == NIGH_NO_QUORUM);
    arrive(&parties[NODES], 4, 2);
    status = nigh_wait(parties[NODES].client, &parties[NODES].op, SECOND_US / 10);
    assert_true(status == NIGH_TIMEOUT || status == NIGH_NO_QUORUM);
    arrive(&parties[0], 4, 2);
    go_on(&parties[0]);
    go_on(&parties[NODES]);
    assert_int_equal(nigh_region_barrier_start(region, 3, 0, WAIT_US, &parties[0].op),
                     NIGH_INVALID);
    assert_int_equal(nigh_region_barrier_start(region, 3, 2, WAIT_US, NULL), NIGH_INVALID);
    end_world(&world);
}

/* ---- while chunks move ---------------------------------------------------- */

struct mover {
    struct world *world;
    atomic_bool stop;
    uint32_t moves;
};

static void *move_chunks(void *arg)
{
    struct mover *mover = arg;
    nigh_client *client = attach(mover->world->node[0]);
    nigh_region *region = NULL;

    if (AGREED(nigh_region_open(client, "count", NIGH_REGION_ALL, WAIT_US, &region)) == NIGH_OK) {
        for (uint32_t n = 0; !atomic_load(&mover->stop); n++) {
            mover->moves += nigh_region_move(region, n % 2, n % NODES, WAIT_US) == NIGH_OK;
        }
    }
    nigh_client_close(client);
    return NULL;
}

static void locks_are_held_while_chunks_move(void **state)
{
    struct worker workers[NODES * THREADS];
    struct world world;
    struct mover mover = {.world = &world};
    nigh_region *region;
    pthread_t thread;
    uint64_t value = 0;

    (void)state;
    begin_world(&world, NODES);
    region = create(world.client[1], &(nigh_region_spec){.name = "count",
                                                         .size = 128 * KIB,
                                                         .chunk_size = 64 * KIB,
                                                         .where = NIGH_REGION_SPREAD});
    assert_int_equal(pthread_create(&thread, NULL, move_chunks, &mover), 0);
    run(&world, workers, NODES * THREADS, work);
    atomic_store(&mover.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(mover.moves > 0);
    assert_int_equal(AGREED(nigh_region_read(region, 16, &value, sizeof value, WAIT_US)), NIGH_OK);
    assert_int_equal(value, NODES * THREADS * ROUNDS);
    nigh_region_close(region);
    end_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_node_alone_has_locks),
        cmocka_unit_test(what_is_counted_under_a_lock_is_counted_right),
        cmocka_unit_test(rights_and_modes),
        cmocka_unit_test(who_takes_too_long_writes_no_more),
        cmocka_unit_test(a_term_ends_though_nobody_waits_any_more),
        cmocka_unit_test(a_client_that_ends_lets_go),
        cmocka_unit_test(a_node_that_ends_lets_go),
        cmocka_unit_test(a_region_that_is_freed_has_no_locks),
        cmocka_unit_test(all_go_on_together),
        cmocka_unit_test(a_party_that_ends_is_waited_for_by_nobody),
        cmocka_unit_test(a_node_that_ends_is_waited_for_by_nobody),
        cmocka_unit_test(who_waits_at_a_barrier_in_vain),
        cmocka_unit_test(one_thread_waits_for_many_locks),
        cmocka_unit_test(a_lock_that_nobody_waits_for_goes_back),
        cmocka_unit_test(a_client_that_ends_has_nothing_under_way),
        cmocka_unit_test(one_thread_is_all_parties),
        cmocka_unit_test(locks_are_held_while_chunks_move),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
