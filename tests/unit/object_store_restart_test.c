/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that is killed and comes back: the store object is dropped without a word, the memories
 * stay, another store adopts them. What a death inside an index leaves is the index's own test;
 * here some of its results are made by hand.
 */
#include "support/support.h"

#include <string.h>

#include "object_store_fixture.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

#define A 1u
#define B 2u
#define C 3u

static struct fixture *make(bool spills)
{
    struct fixture *fixture = fixture_create(&(struct fixture_options){.spills = spills});

    fixture_pool(fixture, 0, false, 0);
    fixture_pool(fixture, 1, false, 0);
    fixture_open(fixture, A, 0, 1000, true);
    fixture_open(fixture, B, 0, 1000, true);
    fixture_open(fixture, C, 1, 1001, true);
    return fixture;
}

static int setup(void **state)
{
    *state = make(false);
    return 0;
}

static int setup_spill(void **state)
{
    *state = make(true);
    return 0;
}

#define assert_valid(fixture) assert_true(store_is_valid((fixture)->store))

/* Killed and started again; the sessions named come back. */
static void restart(struct fixture *fx, bool a, bool b, bool c)
{
    fixture_kill(fx);
    fixture_restart(fx);
    if (a) {
        fixture_reopen(fx, A);
    }
    if (b) {
        fixture_reopen(fx, B);
    }
    if (c) {
        fixture_reopen(fx, C);
    }
    fixture_tick(fx);
    assert_valid(fx);
}

static void every_sealed_object_is_there(void **state)
{
    struct fixture *fx = *state;
    uint64_t offsets[200], generations[200];
    struct session_cqe lease = fixture_lease(fx, A, 0);

    for (uint64_t key = 0; key < 200; key++) {
        struct session_cqe got;

        assert_int_equal(key % 2 == 0 ? fixture_put(fx, A, key, key * 300)
                                      : fixture_put_leased(
                                            fx, A, key, lease.lease_offset + key / 2 * 1024, 1000),
                         NIGH_OK);
        got = fixture_get(fx, B, key, 0);
        offsets[key] = got.offset;
        generations[key] = got.generation;
        fixture_unpin(fx, B, got.pin);
    }
    assert_int_equal(fixture_put(fx, C, 5, 777), NIGH_OK);
    restart(fx, true, true, true);
    for (uint64_t key = 0; key < 200; key++) {
        struct session_cqe got = fixture_get(fx, B, key, 0);

        assert_int_equal(got.status, NIGH_OK);
        assert_int_equal(got.offset, offsets[key]);
        assert_int_equal(got.generation, generations[key]);
        assert_true(fixture_holds(fx, key, got.offset, key % 2 == 0 ? key * 300 : 1000));
    }
    assert_int_equal(fixture_get(fx, C, 5, 0).data_size, 777);
    assert_int_equal(fixture_stats(fx).objects, 201);
    assert_int_equal(fixture_put(fx, A, 1000, 100), NIGH_OK);
    assert_true(fixture_get(fx, A, 1000, 0).generation > generations[199]);
}

static void readers_inside_an_object_stay_inside(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe got;
    uint32_t entry;

    assert_int_equal(fixture_put(fx, A, 1, 100 * KIB), NIGH_OK);
    assert_int_equal(fixture_put(fx, A, 2, 100 * KIB), NIGH_OK);
    assert_int_equal(fixture_acquire(fx, B, 1, 5, &entry), INDEX_HIT);
    got = fixture_get(fx, B, 2, 0); /* a pin of the lane, which it has forgotten */
    restart(fx, true, true, true);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 1), NIGH_IN_USE);
    for (uint64_t key = 100; key < 600; key++) {
        assert_int_equal(fixture_put(fx, A, key, 100 * KIB), NIGH_OK);
    }
    assert_true(fixture_holds(fx, 1, fx->pools[0].index.entries[entry].offset, 100 * KIB));
    assert_true(fixture_holds(fx, 2, got.offset, 100 * KIB));
    assert_int_not_equal(fixture_get(fx, B, 599, 0).pin, got.pin);
    assert_valid(fx);
    fixture_release(fx, B, 5);
    fixture_pass(fx, 5000);
    assert_int_equal(fixture_stats(fx).objects_deleting, 0);
}

static void deleting_objects_end_after_the_restart(void **state)
{
    struct fixture *fx = *state;
    uint32_t entry;

    assert_int_equal(fixture_put(fx, A, 1, 1000), NIGH_OK);
    assert_int_equal(fixture_acquire(fx, B, 1, 0, &entry), INDEX_HIT);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 1), NIGH_IN_USE);
    assert_int_equal(fixture_put(fx, A, 1, 2000), NIGH_OK);
    restart(fx, true, true, true);
    assert_int_equal(fixture_stats(fx).objects_deleting, 1);
    assert_int_equal(fixture_get(fx, A, 1, 0).data_size, 2000);
    fixture_release(fx, B, 0);
    fixture_pass(fx, 5000);
    assert_int_equal(fixture_stats(fx).objects_deleting, 0);
    assert_int_equal(atomic_load(&fx->clients[A].quota_used), 2048);
}

/* Else another lane of the node would let it have too much. */
static void what_came_back_counts_before_the_first_turn(void **state)
{
    struct fixture *fx = *state;

    assert_int_equal(fixture_put(fx, A, 1, 2048), NIGH_OK);
    assert_int_equal(fixture_create_key(fx, A, 2, 4096, 0, 0).status, NIGH_OK);
    fixture_kill(fx);
    fixture_restart(fx);
    fixture_reopen(fx, A);
    assert_true(store_is_adopting(fx->store));
    assert_int_equal(atomic_load(&fx->clients[A].quota_used), 0);
    store_adopt_finish(fx->store);
    assert_false(store_is_adopting(fx->store));
    assert_int_equal(atomic_load(&fx->clients[A].quota_used), 2048 + 4096);
    fixture_tick(fx);
    store_adopt_finish(fx->store);
    assert_int_equal(atomic_load(&fx->clients[A].quota_used), 2048 + 4096);
    fixture_close(fx, A);
}

static void who_came_back_goes_on(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe lease = fixture_lease(fx, A, 0);
    struct session_cqe made = fixture_create_key(fx, A, 1, 5000, 0, 0);
    struct session_cqe claim = fixture_create_key(fx, A, 2, 5000, SESSION_FLAG_EXCLUSIVE, 0);
    uint64_t used, counted, leased;

    assert_int_equal(fixture_put_leased(fx, A, 3, lease.lease_offset + 4096, 1000), NIGH_OK);
    assert_int_equal(fixture_put_leased(fx, A, 4, lease.lease_offset + 8192, 1000), NIGH_OK);
    used = fixture_stats(fx).used_bytes;
    leased = fixture_stats(fx).leased_bytes;
    counted = atomic_load(&fx->clients[A].quota_used);
    restart(fx, true, true, true);
    assert_int_equal(fixture_stats(fx).used_bytes, used);
    assert_int_equal(fixture_stats(fx).leased_bytes, leased);
    assert_int_equal(fixture_stats(fx).objects_unsealed, 2);
    assert_int_equal(atomic_load(&fx->clients[A].quota_used), counted);
    assert_int_equal(fixture_create_key(fx, B, 2, 1, 0, 0).status, NIGH_EXISTS);
    assert_int_equal(fixture_seal(fx, B, made.ref), NIGH_INVALID);
    assert_int_equal(fixture_seal(fx, A, made.ref), NIGH_OK);
    assert_int_equal(fixture_seal(fx, A, claim.ref), NIGH_OK);
    assert_int_equal(fixture_put_leased(fx, A, 5, lease.lease_offset + 4096, 1000), NIGH_INVALID);
    assert_int_equal(fixture_put_leased(fx, A, 5, lease.lease_offset + 5120, 1000), NIGH_OK);
    assert_int_equal(fixture_put_leased(fx, A, 6, lease.lease_offset, 4096), NIGH_OK);
    fixture_close(fx, A);
    assert_int_equal(fixture_stats(fx).leased_bytes, 0);
    assert_int_equal(fixture_stats(fx).objects, 6);
}

static void who_did_not_come_back_leaves_nothing_behind(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe lease = fixture_lease(fx, A, 0);
    uint32_t entry;

    assert_int_equal(fixture_create_key(fx, A, 1, 5000, 0, 0).status, NIGH_OK);
    assert_int_equal(fixture_create_key(fx, A, 2, 5000, SESSION_FLAG_EXCLUSIVE, 0).status, NIGH_OK);
    assert_int_equal(fixture_put_leased(fx, A, 3, lease.lease_offset + 4096, 1000), NIGH_OK);
    assert_int_equal(fixture_put(fx, A, 4, 1000), NIGH_OK);
    assert_int_equal(fixture_acquire(fx, A, 4, 0, &entry), INDEX_HIT);
    restart(fx, false, true, true);
    assert_int_equal(fixture_stats(fx).used_bytes, 2048);
    assert_int_equal(fixture_stats(fx).leased_bytes, 0);
    assert_int_equal(fixture_stats(fx).objects_unsealed, 0);
    assert_int_equal(fixture_status(fx, B, SESSION_OP_CONTAINS, 3), NIGH_OK);
    assert_int_equal(fixture_put(fx, B, 2, 100), NIGH_OK); /* the claim went */
    assert_int_equal(fixture_status(fx, B, SESSION_OP_DELETE, 4), NIGH_OK);
}

static void sessions_come_back_in_other_slots_of_the_pool(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe made = fixture_create_key(fx, A, 1, 5000, 0, 0);
    struct fixture_client client = fx->clients[A];

    fixture_kill(fx);
    fixture_restart(fx);
    fx->clients[50] = client;
    fx->clients[A] = (struct fixture_client){0};
    fixture_reopen(fx, 50);
    fixture_tick(fx);
    assert_int_equal(fixture_seal(fx, 50, made.ref), NIGH_OK);
    assert_valid(fx);
}

static void youngest_lease_has_the_hole(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe first = fixture_lease(fx, A, 8 * MIB), second;
    uint64_t hole = first.lease_offset;

    /* The first slab is used up but for a granule, then emptied: the second begins in its hole. */
    assert_int_equal(fixture_put_leased(fx, A, 1, hole + 64, first.lease_bytes - 64), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 1), NIGH_OK);
    second = fixture_lease(fx, B, 0);
    assert_int_equal(second.lease_offset, hole + 64);
    restart(fx, true, true, true);
    assert_int_equal(fixture_put_leased(fx, B, 2, second.lease_offset, second.lease_bytes / 2),
                     NIGH_OK);
    assert_int_equal(fixture_put_leased(fx, B, 3, second.lease_offset + second.lease_bytes / 2,
                                        second.lease_bytes / 2),
                     NIGH_OK);
    assert_int_equal(fixture_put_leased(fx, A, 4, hole, 64), NIGH_OK);
    assert_valid(fx);
}

/* More holes of deleted objects than a lease has pieces: what the client goes on cutting from is
 * still the lease's. */
static void a_lease_full_of_holes_keeps_its_end(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe lease = fixture_lease(fx, A, 0);
    uint32_t count = 2 * LIMIT_LEASE_PIECES + 20;
    uint64_t end = lease.lease_offset + (uint64_t)count * 1024;

    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(
            fixture_put_leased(fx, A, i, lease.lease_offset + (uint64_t)i * 1024, 1000), NIGH_OK);
    for (uint32_t i = 0; i < count; i += 2)
        assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, i), NIGH_OK);
    restart(fx, true, true, true);
    assert_int_equal(fixture_put_leased(fx, A, 1000, end, 1000), NIGH_OK);
}

/* The same: whoever cut the bytes of a hole may still be writing to them, so they are nobody
 * else's before the lease ends. */
static void holes_of_a_lease_stay_its_own(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe lease = fixture_lease(fx, A, 0);
    struct session_sqe close = {.op = SESSION_OP_LEASE_CLOSE, .offset = lease.lease_offset};
    uint32_t objects = (uint32_t)(lease.lease_bytes / 1024) & ~1u;

    assert_true(objects / 2 > LIMIT_LEASE_PIECES);
    for (uint32_t i = 0; i < objects - 1; i++)
        assert_int_equal(
            fixture_put_leased(fx, A, 1000 + i, lease.lease_offset + (uint64_t)i * 1024, 1000),
            NIGH_OK);
    for (uint32_t i = 0; i < objects - 1; i += 2)
        assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 1000 + i), NIGH_OK);
    restart(fx, true, true, true);
    assert_int_equal(fixture_stats(fx).leased_bytes,
                     lease.lease_bytes - (uint64_t)(objects / 2 - 1) * 1024);
    for (uint64_t key = 5000; key < 5400; key++) {
        struct session_cqe made = fixture_create_key(fx, B, key, 1000, 0, 0);

        assert_int_equal(made.status, NIGH_OK);
        assert_true(made.offset < lease.lease_offset ||
                    made.offset >= lease.lease_offset + lease.lease_bytes);
    }
    assert_int_equal(fixture_do(fx, A, close).status, NIGH_OK);
    assert_int_equal(fixture_stats(fx).leased_bytes, 0);
}

/* Numbers of entries are given again, so that their order is not that of the objects. */
static void the_oldest_go_first(void **state)
{
    struct fixture *fx = *state;
    struct session_sqe evict = {.op = SESSION_OP_EVICT, .argument = 1};

    for (uint64_t key = 0; key < 300; key++) {
        assert_int_equal(fixture_put(fx, A, key, 1000), NIGH_OK);
    }
    for (uint64_t key = 0; key < 200; key++) {
        assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, key), NIGH_OK);
    }
    for (uint64_t key = 300; key < 600; key++) {
        assert_int_equal(fixture_put(fx, A, key, 1000), NIGH_OK);
    }
    restart(fx, true, false, false);
    for (uint64_t key = 200; key < 600; key++) {
        assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, key), NIGH_OK);
        assert_int_equal(fixture_do(fx, A, evict).data_size, 1024);
        assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, key), NIGH_NOT_FOUND);
    }
}

static void kept_objects_stay_kept(void **state)
{
    struct fixture *fx = *state;

    assert_int_equal(fixture_put(fx, A, 1, 1000), NIGH_OK);
    assert_int_equal(fixture_put(fx, A, 2, 1000), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, 1), NIGH_OK);
    restart(fx, true, false, false);
    assert_int_equal(
        fixture_do(fx, A, (struct session_sqe){.op = SESSION_OP_EVICT, .argument = MIB}).data_size,
        1024);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, 1), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_UNKEEP, 1), NIGH_OK);
}

static void torn_entries_are_dropped_and_the_rest_stays(void **state)
{
    struct fixture *fx = *state;
    struct index_entry *entries = fx->pools[0].index.entries;
    uint32_t torn, marked, lost;

    for (uint64_t key = 0; key < 10; key++) {
        assert_int_equal(fixture_put(fx, A, key, 1000), NIGH_OK);
    }
    torn = fixture_get(fx, A, 3, 0).ref;
    marked = fixture_get(fx, A, 4, 0).ref;
    lost = fixture_get(fx, A, 5, 0).ref;
    entries[torn].data_size ^= 8;
    entries[marked].word = index_word(index_word_generation(entries[marked].word), INDEX_MARKED);
    entries[lost].offset = entries[torn].offset; /* fails its check just the same */
    restart(fx, true, true, true);
    for (uint64_t key = 0; key < 10; key++) {
        assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, key),
                         key == 3 || key == 5 ? NIGH_NOT_FOUND : NIGH_OK);
    }
    assert_int_equal(fixture_stats(fx).used_bytes, 8 * 1024);
}

static void killed_again_before_the_first_turn(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe made = fixture_create_key(fx, A, 1, 5000, 0, 0);

    assert_int_equal(fixture_put(fx, A, 2, 1000), NIGH_OK);
    for (uint32_t i = 0; i < 3; i++) {
        fixture_kill(fx);
        fixture_restart(fx);
    }
    fixture_reopen(fx, A);
    assert_int_equal(fixture_seal(fx, A, made.ref), NIGH_OK); /* a submission begins the first */
    assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, 2), NIGH_OK);
}

static void spilled_objects_are_still_on_disk(void **state)
{
    struct fixture *fx = *state;
    struct session_sqe evict = {.op = SESSION_OP_EVICT, .argument = UINT64_MAX};
    struct session_sqe get = fixture_sqe(SESSION_OP_GET, 2);
    struct session_cqe before, got;
    uint32_t cookie;

    for (uint64_t key = 0; key < 5; key++) {
        assert_int_equal(fixture_put(fx, A, key, 100 * KIB), NIGH_OK);
    }
    before = fixture_do(fx, A, fixture_sqe(SESSION_OP_STAT, 2));
    cookie = fixture_submit(fx, A, evict);
    while (!fixture_ended(fx, cookie)) {
        fixture_tick(fx);
        fixture_disk(fx);
    }
    assert_int_equal(fixture_stats(fx).objects_spilled, 5);
    cookie = fixture_submit(fx, A, get); /* killed while it is read back */
    assert_int_equal(fx->job_count, 1);
    restart(fx, true, true, true);
    assert_int_equal(fixture_stats(fx).objects_spilled, 5);
    assert_int_equal(fixture_stats(fx).spilled_bytes, 5 * 100 * KIB);
    get.argument = 1000;
    cookie = fixture_submit(fx, A, get);
    fixture_disk(fx);
    got = fixture_completion(fx, cookie);
    assert_int_equal(got.status, NIGH_OK);
    assert_int_equal(got.generation, before.generation);
    assert_true(fixture_holds(fx, 2, got.offset, 100 * KIB));
    restart(fx, true, true, true); /* in the node's own memory now */
    assert_true(fixture_holds(fx, 2, fixture_get(fx, B, 2, 0).offset, 100 * KIB));
}

static void random_life_with_many_deaths(void **state)
{
    struct fixture *fx = *state;
    uint64_t random = 424242;
    uint8_t sealed[300] = {0}; /* of a key: 1 if it must be there */

    for (uint32_t step = 0; step < 6000; step++) {
        uint64_t key = support_random(&random) % 300;
        uint32_t session = support_random(&random) % 2 == 0 ? A : B;
        nigh_status status;

        switch (support_random(&random) % 8) {
        case 0:
        case 1:
        case 2:
            status = fixture_put(fx, session, key, support_random(&random) % 20000);
            assert_int_equal(status, sealed[key] ? NIGH_EXISTS : NIGH_OK);
            sealed[key] = 1;
            break;
        case 3:
            status = fixture_status(fx, session, SESSION_OP_DELETE, key);
            assert_int_equal(status, sealed[key] ? NIGH_OK : NIGH_NOT_FOUND);
            sealed[key] = 0;
            break;
        case 4: {
            struct session_cqe lease = fixture_lease(fx, session, 0);

            if (lease.status == NIGH_OK && !sealed[key] &&
                fixture_put_leased(fx, session, key, lease.lease_offset + 640, 3000) == NIGH_OK) {
                sealed[key] = 1;
            }
            if (support_random(&random) % 2 == 0) {
                fixture_do(fx, session,
                           (struct session_sqe){.op = SESSION_OP_LEASE_CLOSE,
                                                .offset = lease.lease_offset});
            }
            break;
        }
        case 5: (void)fixture_create_key(fx, session, 1000 + key, 500, 0, 0); break;
        default: {
            struct session_cqe got = fixture_get(fx, session, key, 0);

            assert_int_equal(got.status, sealed[key] ? NIGH_OK : NIGH_TIMEOUT);
            if (got.status == NIGH_OK) {
                assert_true(fixture_holds(fx, key, got.offset, got.data_size));
                fixture_unpin(fx, session, got.pin);
            }
        }
        }
        if (step % 200 == 199) {
            bool a = support_random(&random) % 4 != 0;

            restart(fx, a, true, true);
            if (!a) {
                fixture_reopen(fx, A);
            }
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(every_sealed_object_is_there),
        TEST(readers_inside_an_object_stay_inside),
        TEST(deleting_objects_end_after_the_restart),
        TEST(what_came_back_counts_before_the_first_turn),
        TEST(who_came_back_goes_on),
        TEST(who_did_not_come_back_leaves_nothing_behind),
        TEST(sessions_come_back_in_other_slots_of_the_pool),
        TEST(youngest_lease_has_the_hole),
        TEST(a_lease_full_of_holes_keeps_its_end),
        TEST(holes_of_a_lease_stay_its_own),
        TEST(the_oldest_go_first),
        TEST(kept_objects_stay_kept),
        TEST(torn_entries_are_dropped_and_the_rest_stays),
        TEST(killed_again_before_the_first_turn),
        cmocka_unit_test_setup_teardown(spilled_objects_are_still_on_disk, setup_spill,
                                        fixture_teardown),
        TEST(random_life_with_many_deaths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
