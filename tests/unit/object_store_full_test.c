/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store whose memory is full, and does not spill: eviction around pins, waiting for memory and
 * its order, large objects among small ones, quotas, strict pools. Several heaps:
 * object_store_heaps_test.c.
 */
#include "support/support.h"

#include <string.h>

#include "base/check.h"
#include "base/random.h"
#include "object/store_create.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object_store_fixture.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

#define A     1u
#define B     2u
#define OTHER 3u /* of pool 1 */
#define S     4u /* of pool 2, which is strict */

#define assert_valid(fixture) assert_true(store_is_valid((fixture)->store))

static uint32_t submit_create(struct fixture *fx, uint32_t session, uint64_t key, uint64_t bytes,
                              uint64_t timeout_us)
{
    struct session_sqe sqe = fixture_sqe(SESSION_OP_CREATE, key);

    sqe.data_size = bytes;
    sqe.argument = timeout_us;
    return fixture_submit(fx, session, sqe);
}

/* Pins n keys from first on by the lane; pins[] may be NULL. */
static void pin_all(struct fixture *fx, uint32_t session, uint64_t first, uint64_t n,
                    uint32_t *pins)
{
    for (uint64_t i = 0; i < n; i++) {
        struct session_cqe got = fixture_get(fx, session, first + i, 0);

        assert_int_equal(got.status, NIGH_OK);
        if (pins != NULL) {
            pins[i] = got.pin;
        }
    }
}

/* ---- eviction ---- */

static void new_objects_take_the_place_of_old_ones(void **state)
{
    struct fixture *fx = *state;
    nigh_node_stats stats;

    for (uint64_t key = 0; key < 2000; key++) {
        assert_int_equal(fixture_put(fx, A, key, 30 * KIB), NIGH_OK);
    }
    stats = fixture_stats(fx);
    assert_true(stats.evictions > 1000);
    assert_int_equal(stats.objects + stats.evictions, 2000);
    assert_int_equal(stats.out_of_memory, 0);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, 1999), NIGH_OK);
    assert_valid(fx);
}

static void pinned_objects_stay_with_their_bytes(void **state)
{
    struct fixture *fx = *state;
    uint64_t offsets[60];
    uint32_t entries[60];

    for (uint64_t key = 0; key < 60; key++) {
        assert_int_equal(fixture_put(fx, A, key, 30 * KIB), NIGH_OK);
        assert_int_equal(fixture_acquire(fx, B, key, (uint32_t)key, &entries[key]), INDEX_HIT);
        offsets[key] = fx->pools[0].index.entries[entries[key]].offset;
    }
    for (uint64_t key = 1000; key < 3000; key++) {
        uint32_t entry;

        /* Others are used too, and later: it comes to those that are pinned. */
        assert_int_equal(fixture_put(fx, A, key, 30 * KIB), NIGH_OK);
        if (key >= 1040 && fixture_acquire(fx, A, key - 40, 0, &entry) == INDEX_HIT) {
            fixture_release(fx, A, 0);
        }
    }
    for (uint64_t key = 0; key < 60; key++) {
        uint32_t entry;

        assert_true(fixture_holds(fx, key, offsets[key], 30 * KIB));
        assert_int_equal(fixture_acquire(fx, A, key, 0, &entry), INDEX_HIT);
        assert_int_equal(entry, entries[key]);
        fixture_release(fx, A, 0);
        fixture_release(fx, B, (uint32_t)key);
    }
    assert_true(fixture_stats(fx).victims_kept > 0);
}

static void what_is_used_stays_longer(void **state)
{
    struct fixture *fx = *state;
    uint64_t there = 0, entries = 0;

    for (uint64_t key = 0; key < 4000; key++) {
        uint32_t entry;

        assert_int_equal(fixture_put(fx, A, key, 30 * KIB), NIGH_OK);
        for (uint64_t hot = 0; hot < 20; hot++) { /* no IPC: only hints tell of it */
            if (fixture_acquire(fx, B, hot, 0, &entry) == INDEX_HIT) {
                fixture_release(fx, B, 0);
                entries++;
            }
        }
    }
    for (uint64_t hot = 0; hot < 20; hot++) {
        there += fixture_status(fx, A, SESSION_OP_CONTAINS, hot) == NIGH_OK;
    }
    assert_true(fixture_stats(fx).hints > 0);
    assert_in_range(there, 18, 20);
}

/* What was put last is what somebody is about to read: without any use it stays, and what fills
 * memory first is nothing better. */
static void what_was_put_last_stays(void **state)
{
    struct fixture *fx = *state;
    uint64_t fit = fixture_fill_up(fx, A, 1000000, 30 * KIB);

    for (uint64_t key = 0; key < 2 * fit; key++) {
        assert_int_equal(fixture_put(fx, A, key, 30 * KIB), NIGH_OK);
    }
    for (uint64_t key = fit + fit / 4; key < 2 * fit; key++) {
        assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, key), NIGH_OK);
    }
}

/* Each object is read once, when as many others were put after it as fill 60 % of memory. Those
 * that are gone by then teach the store to keep the unread longer than the read. */
static void a_late_reader_is_waited_for(void **state)
{
    struct fixture *fx = *state;
    uint64_t lag = fixture_fill_up(fx, A, 1000000, 30 * KIB) * 6 / 10;
    uint64_t lost = 0;

    for (uint64_t key = 0; key < 6000; key++) {
        struct session_cqe got;

        assert_int_equal(fixture_put(fx, A, key, 30 * KIB), NIGH_OK);
        if (key < lag) {
            continue;
        }
        got = fixture_get(fx, B, key - lag, 0);
        if (got.status == NIGH_OK) {
            fixture_unpin(fx, B, got.pin);
        } else {
            assert_int_equal(got.status, NIGH_TIMEOUT);
            lost += key >= 3000;
        }
    }
    assert_in_range(lost, 0, 30);
    assert_valid(fx);
}

/* Of 20 objects that are used in turn, one every other put of something never used again: how often
 * one of them was gone. */
static uint32_t misses_beside_a_scan(struct fixture *fx, uint32_t session, uint32_t puts)
{
    uint32_t misses = 0, entry;

    for (uint32_t i = 0; i < puts; i++) {
        uint64_t hot = i % 20;

        assert_int_equal(fixture_put(fx, session, 1000000 + i, 8 * KIB), NIGH_OK);
        if (fixture_acquire(fx, session, hot, 0, &entry) == INDEX_HIT) {
            fixture_release(fx, session, 0);
        } else {
            assert_int_equal(fixture_put(fx, session, hot, 8 * KIB), NIGH_OK);
            misses++;
        }
    }
    assert_valid(fx);
    return misses;
}

/* A pool that has a small part of the memory is no worse a cache for that. */
static void a_quota_is_what_the_policy_has(void **state)
{
    struct fixture *fx = *state;

    fixture_pool(fx, 3, false, MIB);
    fixture_open(fx, 9, 3, 1003, true);
    assert_in_range(misses_beside_a_scan(fx, 9, 2000), 20, 60);
}

static void what_others_leave_is_what_the_policy_has(void **state)
{
    struct fixture *fx =
        fixture_create(&(struct fixture_options){.memory_bytes = 64 * MIB, .entries = 16384});

    (void)state;
    fixture_pool(fx, 0, false, 0);
    fixture_pool(fx, 1, false, 0);
    fixture_open(fx, A, 0, 1000, true);
    fixture_open(fx, OTHER, 1, 1001, true);
    for (uint64_t key = 0; key < 31; key++) {
        assert_int_equal(fixture_put(fx, A, key, 2 * MIB), NIGH_OK);
        assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, key), NIGH_OK);
    }
    assert_in_range(misses_beside_a_scan(fx, OTHER, 4000), 20, 100);
    fixture_destroy(fx);
}

static void memory_is_evicted_ahead_of_need(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fixture_fill_up(fx, A, 0, 30 * KIB);

    assert_true(store_wants_turn(fx->store));
    fixture_pass(fx, 20000);
    assert_true(fixture_stats(fx).used_bytes <= 15 * MIB);
    assert_true(fixture_stats(fx).objects > n * 9 / 10);
    assert_false(store_wants_turn(fx->store));
    assert_int_equal(store_tick(fx->store, fx->now_us), UINT64_MAX);
}

/* A put that was told OK is there until somebody needs its room: however little is free. */
static void what_was_put_is_not_evicted_ahead(void **state)
{
    struct fixture *fx = *state;

    for (uint64_t bytes = 15 * MIB; bytes < 16 * MIB; bytes += 256 * KIB) {
        assert_int_equal(fixture_put(fx, A, bytes, bytes + 100 * KIB), NIGH_OK);
        fixture_pass(fx, 100000);
        assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, bytes), NIGH_OK);
    }
    assert_valid(fx);
}

/* The same for one that finds little room beside what is kept, small or large, new or come back. */
static void what_is_put_beside_kept_ones_is_not_evicted_ahead(void **state)
{
    static const uint64_t sizes[] = {600 * KIB, 100 * KIB, 10 * KIB};
    struct fixture *fx = *state;

    assert_int_equal(fixture_put(fx, A, 1, 15 * MIB + 256 * KIB), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, 1), NIGH_OK);
    for (uint32_t i = 0; i < 9; i++) {
        uint64_t key = 10 + i % 3;

        assert_int_equal(fixture_put(fx, A, key, sizes[i % 3]), NIGH_OK);
        fixture_pass(fx, 100000);
        assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, key), NIGH_OK);
        if (i % 2 == 0) {
            assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, key), NIGH_OK);
        } else {
            struct session_sqe sqe = fixture_sqe(SESSION_OP_EVICT, 0);

            sqe.argument = MIB;
            (void)fixture_do(fx, A, sqe);
        }
    }
    assert_valid(fx);
}

/* A leased object is sealed where all else is kept, but for a little that could go. */
static void seal_beside_kept_ones(struct fixture *fx, uint64_t settled_bytes)
{
    struct session_cqe lease = fixture_lease(fx, A, 256 * KIB);
    struct session_sqe sqe = fixture_sqe(SESSION_OP_SEAL, 1);
    uint64_t n, m;

    assert_int_equal(lease.lease_bytes, 256 * KIB);
    if (settled_bytes != 0) {
        assert_int_equal(fixture_put(fx, A, 2, settled_bytes), NIGH_OK);
    }
    n = fixture_fill_up(fx, A, 1000, 100 * KIB);
    m = fixture_fill_up(fx, A, 5000, 4 * KIB);
    for (uint64_t key = 0; key < n + m; key++) {
        uint64_t kept = key < n ? 1000 + key : 5000 + key - n;

        assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, kept), NIGH_OK);
    }
    sqe.flags = SESSION_FLAG_LEASED | SESSION_FLAG_RENEW;
    sqe.data_size = 255 * KIB;
    sqe.offset = lease.lease_offset;
    sqe.argument = session_renew_argument(256 * KIB, 0);
    fixture_fill(fx, 1, sqe.offset, sqe.data_size);
    assert_int_equal(fixture_do(fx, A, sqe).status, NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, 1), NIGH_OK);
    assert_valid(fx);
}

/* Nor is it the price of the slab that its seal asks for. */
static void what_was_put_does_not_pay_for_the_next_lease(void **state)
{
    seal_beside_kept_ones(*state, 0);
}

static void nor_does_it_where_a_little_could_go(void **state)
{
    seal_beside_kept_ones(*state, 1000);
}

static void a_full_index_evicts_too(void **state)
{
    struct fixture *fx = fixture_create(&(struct fixture_options){.entries = 64});

    (void)state;
    fixture_pool(fx, 0, false, 0);
    fixture_open(fx, A, 0, 1000, true);
    for (uint64_t key = 0; key < 500; key++) {
        assert_int_equal(fixture_put(fx, A, key, 64), NIGH_OK);
    }
    assert_valid(fx);
    pin_all(fx, A, 499, 1, NULL);
    for (uint32_t i = 0; i < 63; i++) {
        assert_int_equal(fixture_create_key(fx, A, 1000 + i, 64, 0, 0).status, NIGH_OK);
    }
    assert_int_equal(fixture_create_key(fx, A, 2000, 64, 0, 0).status, NIGH_LIMIT);
    assert_valid(fx);
    fixture_destroy(fx);
}

/* ---- out of memory ---- */

static void full_memory_is_said_at_the_deadline(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fixture_fill_up(fx, A, 0, 100 * KIB);
    const struct session_holder *holders = (const void *)fx->clients[A].lane->reply;
    uint32_t cookie;

    pin_all(fx, B, 0, n, NULL);
    assert_int_equal(fixture_create_key(fx, A, 9000, 100 * KIB, 0, 0).status, NIGH_OUT_OF_MEMORY);
    cookie = submit_create(fx, A, 9000, 100 * KIB, 50000);
    fixture_pass(fx, 49999);
    assert_false(fixture_ended(fx, cookie));
    fixture_pass(fx, 1);
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_OUT_OF_MEMORY);
    assert_int_equal(fixture_stats(fx).evictions, 0);
    assert_true(fixture_stats(fx).out_of_memory >= 2);
    assert_int_equal(fixture_do(fx, A, (struct session_sqe){.op = SESSION_OP_HOLDERS}).data_size,
                     1);
    assert_int_equal(holders[0].pid, 5000 + B);
    assert_int_equal(holders[0].views, n);
    assert_int_equal(holders[0].size_bytes, n * 100 * KIB);
}

static void waiting_create_gets_what_a_reader_releases(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fixture_fill_up(fx, A, 0, 100 * KIB);
    uint32_t pins[400], cookie;

    pin_all(fx, B, 0, n, pins);
    cookie = submit_create(fx, A, 9000, 100 * KIB, 1000000);
    fixture_pass(fx, 10000);
    assert_false(fixture_ended(fx, cookie));
    fixture_unpin(fx, B, pins[n / 2]); /* without a word to anyone */
    fixture_pass(fx, 20 * LIMIT_RETRY_US);
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, n / 2), NIGH_NOT_FOUND);
    assert_int_equal(fixture_stats(fx).evictions, 1);
}

static void waiting_create_gets_what_a_session_leaves(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fixture_fill_up(fx, A, 0, 100 * KIB);
    uint32_t cookie;

    pin_all(fx, B, 0, n, NULL);
    cookie = submit_create(fx, A, 9000, 100 * KIB, 1000000);
    fixture_tick(fx);
    assert_false(fixture_ended(fx, cookie));
    fixture_close(fx, B);
    fixture_tick(fx);
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_OK);
}

static void waiting_creates_are_served_in_order(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fixture_fill_up(fx, A, 0, 100 * KIB);
    uint32_t first, second, smaller;

    for (uint64_t key = 0; key < n; key++) {
        assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, key), NIGH_OK);
    }
    first = submit_create(fx, A, 9000, 150 * KIB, 1000000);
    second = submit_create(fx, B, 9001, 150 * KIB, 1000000);
    smaller = submit_create(fx, B, 9002, 90 * KIB, 1000000);
    fixture_pass(fx, 5000);
    assert_valid(fx);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 10), NIGH_OK);
    fixture_pass(fx, 5000);
    /* Not enough for the first two: the smaller one may pass, one of the same size may not. */
    assert_false(fixture_ended(fx, first));
    assert_false(fixture_ended(fx, second));
    assert_int_equal(fixture_completion(fx, smaller).status, NIGH_OK);
    for (uint64_t key = 20; key < 22; key++) {
        assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, key), NIGH_OK);
    }
    assert_int_equal(fixture_create_key(fx, B, 9003, 150 * KIB, 0, 0).status, NIGH_OUT_OF_MEMORY);
    fixture_pass(fx, 5000);
    assert_int_equal(fixture_completion(fx, first).status, NIGH_OK);
    assert_false(fixture_ended(fx, second));
    assert_valid(fx);
}

static void newcomer_does_not_pass_its_like(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe held = fixture_create_key(fx, A, 8000, 200 * KIB, 0, 0);
    uint64_t n = fixture_fill_up(fx, A, 0, 100 * KIB);
    uint32_t waits, newcomer, small;

    for (uint64_t key = 0; key < n; key++) {
        assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, key), NIGH_OK);
    }
    waits = submit_create(fx, A, 9000, 150 * KIB, 1000000);
    fixture_pass(fx, 5000);
    fixture_submit(fx, A, (struct session_sqe){.op = SESSION_OP_ABORT, .ref = held.ref});
    newcomer = submit_create(fx, B, 9001, 150 * KIB, 0); /* before the queue had its turn */
    assert_int_equal(fixture_completion(fx, newcomer).status, NIGH_OUT_OF_MEMORY);
    small = submit_create(fx, B, 9002, 10 * KIB, 0);
    assert_int_equal(fixture_completion(fx, small).status, NIGH_OK);
    fixture_tick(fx);
    assert_int_equal(fixture_completion(fx, waits).status, NIGH_OK);
}

static void lease_does_not_wait_and_does_not_push_in(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fixture_fill_up(fx, A, 0, 100 * KIB);
    uint32_t cookie;

    for (uint64_t key = 0; key < n; key++) {
        assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, key), NIGH_OK);
    }
    assert_int_equal(fixture_lease(fx, A, 1 * MIB).status, NIGH_OUT_OF_MEMORY);
    cookie = submit_create(fx, A, 9000, 250 * KIB, 1000000);
    for (uint64_t key = 30; key < 36; key++) {
        assert_int_equal(fixture_status(fx, A, SESSION_OP_UNKEEP, key), NIGH_OK);
    }
    assert_int_equal(fixture_lease(fx, B, 1 * MIB).status, NIGH_OUT_OF_MEMORY);
    fixture_pass(fx, 5000);
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_OK);
    assert_int_equal(fixture_lease(fx, B, 1 * MIB).status, NIGH_OK);
}

static void cancelled_and_dead_creates_leave_the_queue(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fixture_fill_up(fx, A, 0, 100 * KIB);
    uint32_t canceled, dead, alive;

    pin_all(fx, A, 0, n, NULL);
    canceled = submit_create(fx, A, 9000, 100 * KIB, NIGH_FOREVER);
    dead = submit_create(fx, B, 9001, 100 * KIB, NIGH_FOREVER);
    alive = submit_create(fx, A, 9002, 100 * KIB, NIGH_FOREVER);
    fixture_do(fx, A, (struct session_sqe){.op = SESSION_OP_CANCEL, .argument = canceled});
    assert_int_equal(fixture_completion(fx, canceled).status, NIGH_CANCELED);
    fixture_close(fx, B);
    assert_valid(fx);
    fixture_unpin(fx, A, 5);
    fixture_pass(fx, 20000);
    assert_false(fixture_ended(fx, dead));
    assert_int_equal(fixture_completion(fx, alive).status, NIGH_OK);
}

static void no_evict_means_it(void **state)
{
    struct fixture *fx = *state;

    (void)fixture_fill_up(fx, A, 0, 100 * KIB);
    assert_int_equal(fixture_create_key(fx, A, 9000, 100 * KIB, SESSION_FLAG_NO_EVICT, 0).status,
                     NIGH_OUT_OF_MEMORY);
    assert_int_equal(fixture_stats(fx).evictions, 0);
    assert_int_equal(fixture_create_key(fx, A, 9000, 100 * KIB, 0, 0).status, NIGH_OK);
}

static void who_pins_too_much_is_expelled_when_memory_is_full(void **state)
{
    struct fixture *fx = fixture_create(&(struct fixture_options){.max_pins = 20});
    uint64_t n;
    uint32_t entry;

    (void)state;
    fixture_pool(fx, 0, false, 0);
    fixture_open(fx, A, 0, 1000, true);
    fixture_open(fx, B, 0, 1000, true);
    n = fixture_fill_up(fx, A, 0, 800 * KIB);
    for (uint32_t slot = 0; slot < 21; slot++) {
        assert_int_equal(fixture_acquire(fx, B, slot % n, slot, &entry), INDEX_HIT);
    }
    for (uint32_t slot = 0; slot < 20; slot++) {
        assert_int_equal(fixture_acquire(fx, A, slot % n, slot, &entry), INDEX_HIT);
    }
    assert_int_equal(fx->expelled, 0);
    fixture_pass(fx, LIMIT_JUDGE_US); /* the one that found memory full looked, too */
    assert_int_equal(fixture_create_key(fx, A, 9000, MIB, 0, 0).status, NIGH_OUT_OF_MEMORY);
    assert_int_equal(fx->expelled, 1);
    assert_int_equal(fx->expelled_last, B);
    fixture_pass(fx, 2 * LIMIT_JUDGE_US);
    assert_int_equal(fixture_create_key(fx, A, 9000, MIB, 0, 0).status, NIGH_OUT_OF_MEMORY);
    assert_int_equal(fx->expelled, 1);
    fixture_destroy(fx);
}

/* ---- large among small ---- */

static void large_object_evicts_what_lies_in_its_way(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fixture_fill_up(fx, A, 0, 4 * KIB);
    nigh_node_stats stats;

    assert_int_equal(fixture_create_key(fx, A, 9999, 5 * MIB, 0, 0).status, NIGH_OK);
    stats = fixture_stats(fx);
    /* Three extents of 2 MiB of the eight had to go, and no more. */
    assert_true(stats.evicted_bytes <= 6 * MIB + 64 * KIB);
    assert_true(stats.objects >= n / 2);
    assert_valid(fx);
}

static void one_pinned_object_does_not_stop_a_large_one(void **state)
{
    struct fixture *fx = *state;
    uint32_t entry;

    (void)fixture_fill_up(fx, A, 0, 4 * KIB);
    assert_int_equal(fixture_acquire(fx, B, 100, 0, &entry), INDEX_HIT);
    assert_int_equal(fixture_acquire(fx, B, 3900, 1, &entry), INDEX_HIT);
    assert_int_equal(fixture_create_key(fx, A, 9999, 6 * MIB, 0, 0).status, NIGH_OK);
    assert_int_equal(fixture_acquire(fx, B, 100, 2, &entry), INDEX_HIT);
    assert_int_equal(fixture_acquire(fx, B, 3900, 3, &entry), INDEX_HIT);
    assert_valid(fx);
}

static void what_can_never_fit_leaves_the_cache_alone(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fixture_fill_up(fx, A, 0, 4 * KIB), step = n / 16;
    uint32_t cookie;

    for (uint64_t key = 0; key < n; key += step) {
        assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, key), NIGH_OK);
    }
    assert_int_equal(fixture_create_key(fx, A, 9999, 17 * MIB, 0, 1000000).status,
                     NIGH_OUT_OF_MEMORY);
    assert_int_equal(fixture_stats(fx).evictions, 0);
    cookie = submit_create(fx, A, 9999, 3 * MIB / 2, 1000000);
    for (uint32_t i = 0; i < 1000; i++) {
        fx->now_us += 1000;
        fixture_tick(fx);
    }
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_OUT_OF_MEMORY);
    /* Four times its size, and what is evicted ahead anyway. */
    assert_true(fixture_stats(fx).evicted_bytes <= 6 * MIB + 2 * MIB);
}

/* Twelve objects of 1 MiB in 16 MiB, of which some are pinned or kept. */
static void a_put_that_cannot_fit_evicts_nothing(void **state)
{
    struct fixture *fx = *state;
    uint32_t cookie, entry;

    for (uint64_t key = 0; key < 12; key++) {
        assert_int_equal(fixture_put(fx, A, key, MIB - 4 * KIB), NIGH_OK);
    }
    assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, 1), NIGH_OK);
    assert_int_equal(fixture_acquire(fx, B, 7, 0, &entry), INDEX_HIT);
    /* Neither all of it nor what would be left, but not in one piece: six extents could be brought
     * together, beside the half of one that what is pinned leaves. */
    cookie = submit_create(fx, A, 100, 15 * MIB, 100000);
    fixture_pass(fx, 100001);
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_OUT_OF_MEMORY);
    cookie = submit_create(fx, A, 101, 27 * MIB / 2, 100000);
    fixture_pass(fx, 50000);
    assert_int_equal(fixture_stats(fx).evictions, 0);
    /* A smaller one is served meanwhile. */
    assert_int_equal(fixture_put(fx, B, 102, 100 * KIB), NIGH_OK);
    assert_int_equal(fixture_stats(fx).evictions, 0);
    /* When it can fit it is served. */
    fixture_release(fx, B, 0);
    fixture_pass(fx, 2000);
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, 1), NIGH_OK);
    assert_valid(fx);
}

/* Who asks is told of others' leases, not of its own, how much is kept, and what is possible. */
static void holders_and_what_is_possible(void **state)
{
    struct fixture *fx = *state;
    const struct session_holder *holders = (const void *)fx->clients[A].lane->reply;
    struct session_cqe told;

    assert_int_equal(fixture_put(fx, A, 1, 4 * MIB - KIB), NIGH_OK);
    assert_int_equal(fixture_put(fx, A, 2, 2 * MIB - KIB), NIGH_OK);
    assert_int_equal(fixture_lease(fx, A, 256 * KIB).status, NIGH_OK);
    told = fixture_do(fx, A, fixture_sqe(SESSION_OP_HOLDERS, 0));
    assert_int_equal(told.data_size, 0);
    assert_int_equal(fixture_stats(fx).pinned_bytes, 0);

    assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, 1), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, 1), NIGH_OK);
    assert_int_equal(fixture_lease(fx, B, 256 * KIB).status, NIGH_OK);
    told = fixture_do(fx, A, fixture_sqe(SESSION_OP_HOLDERS, 0));
    assert_int_equal(told.data_size, 1);
    assert_int_equal(holders[0].session, fx->clients[B].session_id);
    assert_in_range(fixture_stats(fx).pinned_bytes, 4 * MIB - KIB, 4 * MIB);
    assert_in_range(told.generation, 4 * MIB, 11 * MIB);
    assert_int_equal(fixture_create_key(fx, B, 3, told.generation + 64, 0, 0).status,
                     NIGH_OUT_OF_MEMORY);
    assert_int_equal(fixture_stats(fx).evictions, 0);
    assert_int_equal(fixture_create_key(fx, B, 3, told.generation, 0, 0).status, NIGH_OK);

    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 1), NIGH_OK);
    assert_int_equal(fixture_stats(fx).pinned_bytes, 0);
    assert_valid(fx);
}

#define OTHER_UID 5u /* a session of A's pool, with a heap of its own */
#define FIT_SEEDS 60u

/* Objects, kept, pinned, unsealed and deleted ones, and leases, of three heaps. */
static void scatter(struct fixture *fx, struct random *random)
{
    static const uint32_t sessions[] = {A, B, OTHER, OTHER_UID};
    uint64_t n = 20 + random_below(random, 150);
    uint32_t slot = 0, entry;

    for (uint64_t key = 1; key <= n; key++) {
        uint32_t session = sessions[random_below(random, 4)];
        uint64_t most = random_below(random, 10) == 0 ? 3 * MIB : 300 * KIB;
        uint64_t bytes = 1 + random_below(random, most), what = random_below(random, 40);

        if (what == 0) {
            (void)fixture_lease(fx, session, bytes);
        } else if (what == 1) {
            (void)fixture_create_key(fx, session, key, bytes, 0, 0);
        } else if (fixture_put(fx, session, key, bytes) != NIGH_OK) {
            continue;
        } else if (what < 5) {
            assert_int_equal(fixture_status(fx, session, SESSION_OP_KEEP, key), NIGH_OK);
        } else if (what < 9 && slot < LIMIT_PINS_A_CHUNK) {
            assert_int_equal(fixture_acquire(fx, session, key, slot++, &entry), INDEX_HIT);
        } else if (what < 11) {
            assert_int_equal(fixture_get(fx, session, key, 0).status, NIGH_OK);
        } else if (what < 14) {
            (void)fixture_status(fx, session, SESSION_OP_DELETE, 1 + random_below(random, key));
        }
    }
    fixture_pass(fx, 3000);
}

/* The largest that A could get once all is gone that may go, empty extents of others too. */
static uint64_t find_largest(struct fixture *fx, uint32_t heap)
{
    struct store *store = fx->store;
    struct session_sqe evict = {.op = SESSION_OP_EVICT, .argument = UINT64_MAX};
    uint64_t largest;

    for (uint32_t n = 0; n < 4; n++) {
        (void)fixture_do(fx, A, evict);
        (void)fixture_do(fx, OTHER, evict);
        fixture_pass(fx, 3000); /* what was found pinned is looked at again */
    }
    largest = heap_largest_bytes(store->heaps, heap);
    for (uint64_t bytes = store->memory_bytes; bytes > largest; bytes -= 256 * KIB) {
        if (heaps_reclaim(store->heaps, heap, bytes) == NIGH_OK) {
            break;
        }
    }
    return max_u64(largest, heap_largest_bytes(store->heaps, heap));
}

/* A look that says no must be right: who waits for its yes would wait for ever. */
static void what_the_look_refuses_could_not_be_had(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= FIT_SEEDS; seed++) {
        struct fixture *fx = NULL;
        struct random random;
        uint64_t owner, most, between, largest;
        uint32_t heap;

        random_init(&random, seed);
        assert_int_equal(fixture_setup_pools((void **)&fx), 0);
        fixture_open(fx, OTHER_UID, 0, 1005, true);
        scatter(fx, &random);
        owner = store_session_owner(fx->store->sessions[A]);
        assert_int_equal(store_session_heap(fx->store, fx->store->sessions[A], &heap), NIGH_OK);
        most = store_most_bytes(fx->store, owner, &between);
        assert_valid(fx);
        largest = find_largest(fx, heap);
        if (largest > max_u64(most, between)) {
            fail_msg("seed %llu: %llu could be had, and %llu was said", (unsigned long long)seed,
                     (unsigned long long)largest, (unsigned long long)max_u64(most, between));
        }
        fixture_destroy(fx);
    }
}

/* ---- quotas ---- */

static void session_above_its_quota_evicts_its_own(void **state)
{
    struct fixture *fx = *state;

    assert_int_equal(
        fixture_do(fx, A, (struct session_sqe){.op = SESSION_OP_QUOTA, .argument = 1 * MIB}).status,
        NIGH_OK);
    assert_int_equal(fixture_put(fx, B, 5000, 100 * KIB), NIGH_OK);
    for (uint64_t key = 0; key < 100; key++) {
        assert_int_equal(fixture_put(fx, A, key, 100 * KIB), NIGH_OK);
        assert_true(atomic_load(&fx->clients[A].quota_used) <= 1 * MIB);
    }
    assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, 5000), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, 99), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, 80), NIGH_NOT_FOUND);
    assert_int_equal(fixture_create_key(fx, A, 9000, 1 * MIB + 1, 0, 1000000).status, NIGH_QUOTA);
    pin_all(fx, B, 90, 10, NULL);
    assert_int_equal(fixture_create_key(fx, A, 9000, 100 * KIB, 0, 0).status, NIGH_QUOTA);
    assert_int_equal(
        fixture_put_leased(fx, A, 9001, fixture_lease(fx, A, 0).lease_offset, 100 * KIB),
        NIGH_QUOTA);
    assert_int_equal(
        fixture_do(fx, A, (struct session_sqe){.op = SESSION_OP_QUOTA, .argument = 0}).status,
        NIGH_OK);
    assert_int_equal(fixture_create_key(fx, A, 9000, 100 * KIB, 0, 0).status, NIGH_OK);
}

static void deleted_object_counts_until_its_memory_is_free(void **state)
{
    struct fixture *fx = *state;
    uint32_t entry;

    assert_int_equal(fixture_put(fx, A, 1, 100 * KIB), NIGH_OK);
    assert_int_equal(fixture_acquire(fx, B, 1, 0, &entry), INDEX_HIT);
    assert_int_equal(fixture_status(fx, B, SESSION_OP_DELETE, 1), NIGH_IN_USE);
    assert_int_equal(atomic_load(&fx->clients[A].quota_used), 100 * KIB);
    fixture_release(fx, B, 0);
    fixture_pass(fx, 5000);
    assert_int_equal(atomic_load(&fx->clients[A].quota_used), 0);
}

static void deleted_object_goes_before_the_quota_is_used_up(void **state)
{
    struct fixture *fx = *state;
    uint32_t entry;

    assert_int_equal(
        fixture_do(fx, A, (struct session_sqe){.op = SESSION_OP_QUOTA, .argument = 1 * MIB}).status,
        NIGH_OK);
    assert_int_equal(fixture_put(fx, A, 1, 900 * KIB), NIGH_OK);
    assert_int_equal(fixture_acquire(fx, B, 1, 0, &entry), INDEX_HIT);
    assert_int_equal(fixture_status(fx, B, SESSION_OP_DELETE, 1), NIGH_IN_USE);
    assert_int_equal(fixture_create_key(fx, A, 2, 900 * KIB, 0, 0).status, NIGH_QUOTA);
    fixture_release(fx, B, 0);
    assert_int_equal(fixture_create_key(fx, A, 2, 900 * KIB, 0, 0).status, NIGH_OK);
    assert_valid(fx);
}

static void what_a_dead_session_made_counts_for_nobody(void **state)
{
    struct fixture *fx = *state;

    for (uint64_t key = 0; key < 50; key++) {
        assert_int_equal(fixture_put(fx, A, key, 10 * KIB), NIGH_OK);
    }
    fixture_close(fx, A);
    fixture_open(fx, A, 0, 1000, true); /* the same slot, another session */
    for (uint64_t key = 0; key < 50; key += 2) {
        assert_int_equal(fixture_status(fx, B, SESSION_OP_DELETE, key), NIGH_OK);
    }
    assert_int_equal(atomic_load(&fx->clients[A].quota_used), 0);
    assert_int_equal(fixture_put(fx, A, 100, 10 * KIB), NIGH_OK);
    assert_int_equal(atomic_load(&fx->clients[A].quota_used), 10 * KIB);
    assert_valid(fx);
}

static void pool_has_a_quota(void **state)
{
    struct fixture *fx = *state;

    fixture_pool(fx, 3, false, 2 * MIB);
    fixture_open(fx, 9, 3, 1003, true);
    for (uint64_t key = 0; key < 100; key++) {
        assert_int_equal(fixture_put(fx, 9, key, 100 * KIB), NIGH_OK);
        assert_true(fixture_stats(fx).used_bytes <= 2 * MIB);
    }
    for (uint64_t key = 0; key < 100; key++) {
        (void)fixture_get(fx, 9, key, 0);
    }
    assert_int_equal(fixture_create_key(fx, 9, 1000, 100 * KIB, 0, 0).status, NIGH_QUOTA);
    assert_int_equal(fixture_create_key(fx, 9, 1000, 2 * MIB + 1, 0, 9).status, NIGH_QUOTA);
    assert_valid(fx);
}

/* ---- strict pools ---- */

static void strict_pool_copies_at_seal(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe made = fixture_create_key(fx, S, 1, 1000, 0, 0), got;
    struct session_cqe lease = fixture_lease(fx, S, 0);
    uint64_t node = extent_owner(2, EXTENT_NODE_UID);

    fixture_fill(fx, 1, made.offset, 1000);
    assert_int_equal(fixture_seal(fx, S, made.ref), NIGH_OK);
    fixture_fill(fx, 666, made.offset, 1000); /* the writer still has the old memory */
    assert_int_equal(fixture_put_leased(fx, S, 2, lease.lease_offset, 1000), NIGH_OK);
    fixture_fill(fx, 666, lease.lease_offset, 1000);
    for (uint64_t key = 1; key <= 2; key++) {
        got = fixture_get(fx, S, key, 0);
        assert_true(fixture_holds(fx, key, got.offset, 1000));
        assert_int_equal(fx->set->extents[got.offset >> fx->set->extent_shift].owner, node);
        assert_int_equal(got.flags, INDEX_FLAG_NODE_OWNED);
    }
    assert_int_equal(fixture_stats(fx).used_bytes, 2 * 1024 + lease.lease_bytes - 1024);
    assert_valid(fx);
}

static void large_strict_copy_is_made_in_pieces(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe made = fixture_create_key(fx, S, 1, 5 * MIB, 0, 0);
    struct session_cqe again = fixture_create_key(fx, S, 2, 3 * MIB, 0, 0);
    struct session_sqe seal = {.op = SESSION_OP_SEAL, .ref = made.ref};
    struct session_sqe abort = {.op = SESSION_OP_ABORT, .ref = made.ref};
    uint32_t cookie, second;

    fixture_fill(fx, 1, made.offset, 5 * MIB);
    cookie = fixture_submit(fx, S, seal);
    fixture_tick(fx);
    assert_false(fixture_ended(fx, cookie));
    assert_valid(fx);
    second = fixture_submit(fx, S, seal); /* while it is being copied */
    assert_int_equal(fixture_completion(fx, second).status, NIGH_INVALID);
    second = fixture_submit(fx, S, abort);
    assert_int_equal(fixture_completion(fx, second).status, NIGH_INVALID);
    assert_true(store_wants_turn(fx->store));
    fixture_pass(fx, 10000);
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_OK);
    assert_true(fixture_holds(fx, 1, fixture_get(fx, S, 1, 0).offset, 5 * MIB));
    assert_int_equal(fixture_stats(fx).used_bytes, 8 * MIB);

    /* Cancelled, or its session dead, it leaves nothing. */
    seal.ref = again.ref;
    cookie = fixture_submit(fx, S, seal);
    fixture_tick(fx);
    assert_int_equal(fixture_stats(fx).used_bytes, 11 * MIB);
    fixture_do(fx, S, (struct session_sqe){.op = SESSION_OP_CANCEL, .argument = cookie});
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_CANCELED);
    assert_int_equal(fixture_stats(fx).used_bytes, 5 * MIB);
    assert_int_equal(fixture_stats(fx).objects_unsealed, 0);
    seal.ref = fixture_create_key(fx, S, 2, 3 * MIB, 0, 0).ref;
    fixture_submit(fx, S, seal);
    fixture_tick(fx);
    fixture_close(fx, S);
    assert_valid(fx);
    assert_int_equal(fixture_stats(fx).used_bytes, 5 * MIB);
}

static void strict_seal_waits_for_memory(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe now = fixture_create_key(fx, S, 2, 100 * KIB, 0, 0);
    struct session_cqe late = fixture_create_key(fx, S, 3, 100 * KIB, 0, 0);
    struct session_cqe small = fixture_create_key(fx, S, 1, 100 * KIB, 0, 0);
    struct session_sqe seal = {.op = SESSION_OP_SEAL, .ref = late.ref, .argument = 20000};
    uint64_t n = fixture_fill_up(fx, A, 0, 100 * KIB);
    uint32_t cookie;

    for (uint64_t key = 0; key < n; key++) {
        assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, key), NIGH_OK);
    }
    assert_int_equal(fixture_seal(fx, S, now.ref), NIGH_OUT_OF_MEMORY);
    assert_int_equal(fixture_seal(fx, S, now.ref), NIGH_INVALID); /* it is gone */
    cookie = fixture_submit(fx, S, seal);
    fixture_pass(fx, 19999);
    assert_false(fixture_ended(fx, cookie));
    fixture_pass(fx, 1);
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_OUT_OF_MEMORY);
    assert_int_equal(fixture_seal(fx, S, late.ref), NIGH_INVALID);
    seal.ref = small.ref;
    seal.flags = SESSION_FLAG_RENEW; /* asks for a lease too, and waits all the same */
    seal.argument = session_renew_argument(MIB, 19999);
    cookie = fixture_submit(fx, S, seal);
    fixture_fill(fx, 1, small.offset, 100 * KIB);
    for (uint64_t key = 0; key < n; key++) {
        assert_int_equal(fixture_status(fx, A, SESSION_OP_UNKEEP, key), NIGH_OK);
    }
    assert_false(fixture_ended(fx, cookie));
    fixture_pass(fx, 19000);
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_OK);
    assert_int_equal(fixture_completion(fx, cookie).lease_bytes, LIMIT_LEASE_BYTES_MIN);
    assert_true(fixture_holds(fx, 1, fixture_get(fx, S, 1, 0).offset, 100 * KIB));
}

static void strict_seal_that_waits_trusts_nothing(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe made = fixture_create_key(fx, S, 1, 100 * KIB, 0, 0);
    struct session_cqe lease = fixture_lease(fx, S, 0);
    struct session_sqe seal = {.op = SESSION_OP_SEAL, .ref = made.ref, .argument = NIGH_FOREVER};
    struct session_sqe leased = fixture_sqe(SESSION_OP_SEAL, 2);
    uint64_t n = fixture_fill_up(fx, A, 0, 100 * KIB);
    uint32_t first, second;

    for (uint64_t key = 0; key < n; key++) {
        assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, key), NIGH_OK);
    }
    leased.flags = SESSION_FLAG_LEASED;
    leased.offset = lease.lease_offset;
    leased.data_size = 100 * KIB;
    leased.argument = NIGH_FOREVER;
    first = fixture_submit(fx, S, seal);
    second = fixture_submit(fx, S, leased);
    fixture_pass(fx, 2000);
    assert_false(fixture_ended(fx, first));
    assert_false(fixture_ended(fx, second));
    assert_int_equal(
        fixture_do(fx, S, (struct session_sqe){.op = SESSION_OP_ABORT, .ref = made.ref}).status,
        NIGH_OK);
    assert_int_equal(
        fixture_do(fx, S,
                   (struct session_sqe){.op = SESSION_OP_LEASE_CLOSE, .offset = lease.lease_offset})
            .status,
        NIGH_OK);
    fixture_pass(fx, 5000);
    assert_int_equal(fixture_completion(fx, first).status, NIGH_INVALID);
    assert_int_equal(fixture_completion(fx, second).status, NIGH_INVALID);
    assert_valid(fx);
}

/* ---- many sessions ---- */

static void hundred_pinning_sessions_and_eviction(void **state)
{
    struct fixture *fx = *state;
    uint64_t random = 7;

    for (uint32_t s = 10; s < 110; s++) {
        fixture_open(fx, s, 0, 1000, true);
    }
    for (uint64_t key = 0; key < 3000; key++) {
        assert_int_equal(fixture_put(fx, A, key, 20 * KIB), NIGH_OK);
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t s = 10 + (uint32_t)(support_random(&random) % 100), entry;

            fixture_release(fx, s, 0);
            (void)fixture_acquire(fx, s, key - support_random(&random) % 500, 0, &entry);
        }
    }
    for (uint32_t s = 10; s < 110; s++) {
        uint64_t ref = atomic_load(&fx->clients[s].chunks[0].entry[0]);

        if (ref != 0) {
            const struct index_entry *entry = &fx->pools[0].index.entries[pin_ref_entry(ref)];
            uint64_t key;

            memcpy(&key, entry->id + 8, sizeof(key));
            assert_int_equal(index_word_generation(atomic_load(&entry->word)),
                             atomic_load(&fx->clients[s].chunks[0].generation[0]));
            assert_true(fixture_holds(fx, key, entry->offset, 20 * KIB));
        }
    }
    assert_valid(fx);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup_pools, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(new_objects_take_the_place_of_old_ones),
        TEST(pinned_objects_stay_with_their_bytes),
        TEST(what_is_used_stays_longer),
        TEST(what_was_put_last_stays),
        TEST(a_late_reader_is_waited_for),
        TEST(a_quota_is_what_the_policy_has),
        cmocka_unit_test(what_others_leave_is_what_the_policy_has),
        TEST(memory_is_evicted_ahead_of_need),
        TEST(what_was_put_is_not_evicted_ahead),
        TEST(what_was_put_does_not_pay_for_the_next_lease),
        TEST(nor_does_it_where_a_little_could_go),
        TEST(what_is_put_beside_kept_ones_is_not_evicted_ahead),
        cmocka_unit_test(a_full_index_evicts_too),
        TEST(full_memory_is_said_at_the_deadline),
        TEST(waiting_create_gets_what_a_reader_releases),
        TEST(waiting_create_gets_what_a_session_leaves),
        TEST(waiting_creates_are_served_in_order),
        TEST(newcomer_does_not_pass_its_like),
        TEST(lease_does_not_wait_and_does_not_push_in),
        TEST(cancelled_and_dead_creates_leave_the_queue),
        TEST(no_evict_means_it),
        cmocka_unit_test(who_pins_too_much_is_expelled_when_memory_is_full),
        TEST(large_object_evicts_what_lies_in_its_way),
        TEST(one_pinned_object_does_not_stop_a_large_one),
        TEST(what_can_never_fit_leaves_the_cache_alone),
        TEST(a_put_that_cannot_fit_evicts_nothing),
        TEST(holders_and_what_is_possible),
        cmocka_unit_test(what_the_look_refuses_could_not_be_had),
        TEST(session_above_its_quota_evicts_its_own),
        TEST(deleted_object_counts_until_its_memory_is_free),
        TEST(deleted_object_goes_before_the_quota_is_used_up),
        TEST(what_a_dead_session_made_counts_for_nobody),
        TEST(pool_has_a_quota),
        TEST(strict_pool_copies_at_seal),
        TEST(large_strict_copy_is_made_in_pieces),
        TEST(strict_seal_waits_for_memory),
        TEST(strict_seal_that_waits_trusts_nothing),
        TEST(hundred_pinning_sessions_and_eviction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
