/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that spills: nothing sealed is lost, whatever the disk does. The disk is the fixture's;
 * the files' own format is tested with spill_file.
 */
#include "support/support.h"

#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "object/store_internal.h"
#include "object/store_pool.h"
#include "object/store_memory.h"
#include "object_store_fixture.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

#define A 1u
#define B 2u

static int setup(void **state)
{
    struct fixture *fixture = fixture_create(&(struct fixture_options){.spills = true});

    fixture_pool(fixture, 0, false, 0);
    fixture_open(fixture, A, 0, 1000, true);
    fixture_open(fixture, B, 0, 1000, true);
    *state = fixture;
    return 0;
}

#define assert_valid(fixture) assert_true(store_is_valid((fixture)->store))

/* Takes turns, with the disk at work, until a submission ends. */
static struct session_cqe await(struct fixture *fx, uint32_t cookie)
{
    for (uint32_t turn = 0; turn < 20000 && !fixture_ended(fx, cookie); turn++) {
        fixture_disk(fx);
        fixture_tick(fx);
        if (turn % 4 == 3) {
            fx->now_us += turn < 1000 ? 100 : 1000;
        }
    }
    return fixture_completion(fx, cookie);
}

static uint32_t submit_create(struct fixture *fx, uint32_t session, uint64_t key, uint64_t bytes,
                              uint64_t timeout_us)
{
    struct session_sqe sqe = fixture_sqe(SESSION_OP_CREATE, key);

    sqe.data_size = bytes;
    sqe.argument = timeout_us;
    return fixture_submit(fx, session, sqe);
}

static uint32_t submit_get(struct fixture *fx, uint32_t session, uint64_t key, uint64_t timeout_us)
{
    struct session_sqe sqe = fixture_sqe(SESSION_OP_GET, key);

    sqe.argument = timeout_us;
    return fixture_submit(fx, session, sqe);
}

/* Puts a key, waiting for the disk. */
static nigh_status put(struct fixture *fx, uint32_t session, uint64_t key, uint64_t bytes)
{
    struct session_cqe made = await(fx, submit_create(fx, session, key, bytes, 1000000));

    if (made.status != NIGH_OK) {
        return (nigh_status)made.status;
    }
    fixture_fill(fx, key, made.offset, bytes);
    return fixture_seal(fx, session, made.ref);
}

/* Gets a key, checks its bytes, lets it go. */
static nigh_status look(struct fixture *fx, uint32_t session, uint64_t key, uint64_t bytes)
{
    struct session_cqe got = await(fx, submit_get(fx, session, key, 0));

    if (got.status != NIGH_OK) {
        return (nigh_status)got.status;
    }
    assert_int_equal(got.data_size, bytes);
    assert_true(fixture_holds(fx, key, got.offset, bytes));
    fixture_unpin(fx, session, got.pin);
    return NIGH_OK;
}

/* Puts keys from 0 on until the first one is on disk; returns how many. */
static uint64_t fill_until_spilled(struct fixture *fx, uint64_t bytes)
{
    uint64_t key = 0;

    while (fixture_stats(fx).objects_spilled == 0) {
        assert_int_equal(put(fx, A, key++, bytes), NIGH_OK);
        fixture_disk(fx);
        fixture_tick(fx);
    }
    return key;
}

static uint64_t find_spilled(struct fixture *fx, uint64_t n)
{
    for (uint64_t key = 0; key < n; key++) {
        struct session_cqe stat = fixture_do(fx, A, fixture_sqe(SESSION_OP_STAT, key));

        if (stat.flags == NIGH_OBJECT_SPILLED) {
            return key;
        }
    }
    fail_msg("nothing is spilled");
    return 0;
}

/* One object on disk, and empty memory. */
static void spill_one(struct fixture *fx, uint64_t key, uint64_t bytes)
{
    struct session_sqe evict = {.op = SESSION_OP_EVICT, .argument = UINT64_MAX};

    assert_int_equal(put(fx, A, key, bytes), NIGH_OK);
    assert_int_equal(await(fx, fixture_submit(fx, A, evict)).status, NIGH_OK);
    assert_int_equal(fixture_stats(fx).objects_spilled, 1);
    assert_int_equal(fixture_stats(fx).used_bytes, 0);
}

/* ---- out and back ---- */

static void twice_the_memory_and_nothing_is_lost(void **state)
{
    struct fixture *fx = *state;
    nigh_node_stats stats;

    assert_int_equal(fixture_put(fx, B, 9999, 100), NIGH_OK);
    fixture_do(fx, B, (struct session_sqe){.op = SESSION_OP_SUBSCRIBE});
    for (uint64_t key = 0; key < 700; key++) {
        assert_int_equal(put(fx, A, key, 50 * KIB), NIGH_OK);
    }
    assert_valid(fx);
    stats = fixture_stats(fx);
    assert_int_equal(stats.objects + stats.objects_spilled, 701);
    assert_true(stats.spilled_bytes > 16 * MIB);
    assert_int_equal(stats.evictions, 0);
    for (uint64_t key = 0; key < 700; key++) {
        assert_int_equal(look(fx, B, key, 50 * KIB), NIGH_OK);
    }
    assert_valid(fx);
    stats = fixture_stats(fx);
    assert_true(stats.unspills > 300);
    assert_int_equal(stats.out_of_memory, 0);
    assert_true(fixture_events(fx, B, NIGH_EVENT_SPILLED, 0) >= 1);
    assert_int_equal(fixture_events(fx, B, NIGH_EVENT_EVICTED, 0), 0);
}

static void object_comes_back_with_its_birth(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fill_until_spilled(fx, 100 * KIB), key = find_spilled(fx, n);
    struct session_cqe stat = fixture_do(fx, A, fixture_sqe(SESSION_OP_STAT, key)), got;
    uint32_t cookie, entry;

    assert_int_equal(fixture_acquire(fx, B, key, 0, &entry), INDEX_ASK);
    assert_int_equal(fixture_status(fx, B, SESSION_OP_CONTAINS, key), NIGH_OK);
    cookie = submit_get(fx, B, key, 0); /* the object is there: the disk is waited for */
    assert_false(fixture_ended(fx, cookie));
    got = await(fx, cookie);
    assert_int_equal(got.status, NIGH_OK);
    assert_int_equal(got.generation, stat.generation);
    assert_int_equal(got.ref, stat.ref);
    assert_int_equal(fx->set->extents[got.offset >> fx->set->extent_shift].owner,
                     extent_owner(0, EXTENT_NODE_UID));
    assert_true(fixture_holds(fx, key, got.offset, 100 * KIB));
    assert_int_equal(fixture_acquire(fx, B, key, 0, &entry), INDEX_HIT);
    assert_valid(fx);
}

static void many_gets_share_one_read(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fill_until_spilled(fx, 100 * KIB), key = find_spilled(fx, n);
    uint32_t cookies[10], reads = 0;

    for (uint32_t i = 0; i < ARRAY_LENGTH(cookies); i++) {
        cookies[i] = submit_get(fx, i % 2 == 0 ? A : B, key, 10000);
    }
    for (uint32_t i = 0; i < fx->job_count; i++) {
        reads += !fx->jobs[i].write;
    }
    assert_true(reads <= 1);
    for (uint32_t i = 0; i < ARRAY_LENGTH(cookies); i++) {
        assert_int_equal(await(fx, cookies[i]).status, NIGH_OK);
    }
    assert_int_equal(fixture_stats(fx).unspills, 1);
}

static void slow_disk_ends_a_get_in_time(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fill_until_spilled(fx, 100 * KIB), key = find_spilled(fx, n);
    uint32_t cookie = submit_get(fx, B, key, 0);

    fixture_pass(fx, LIMIT_UNSPILL_US - 1000);
    assert_false(fixture_ended(fx, cookie));
    fixture_pass(fx, 1000);
    assert_true(fixture_completion(fx, cookie).status == NIGH_TIMEOUT ||
                fixture_completion(fx, cookie).status == NIGH_OUT_OF_MEMORY);
    assert_int_equal(look(fx, B, key, 100 * KIB), NIGH_OK); /* and it comes back all the same */
}

static void checksum_is_known_without_reading_back(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fill_until_spilled(fx, 100 * KIB), key = find_spilled(fx, n);
    struct session_cqe sum = fixture_do(fx, B, fixture_sqe(SESSION_OP_CHECKSUM, key));

    assert_int_equal(sum.status, NIGH_OK);
    assert_int_equal(fixture_stats(fx).unspills, 0);
    assert_int_equal(look(fx, B, key, 100 * KIB), NIGH_OK);
    assert_int_equal(fixture_do(fx, B, fixture_sqe(SESSION_OP_CHECKSUM, key)).data_size,
                     sum.data_size);
}

static void evict_spills_what_it_was_asked_to(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe end;

    for (uint64_t key = 0; key < 50; key++) {
        assert_int_equal(put(fx, A, key, 100 * KIB), NIGH_OK);
    }
    end = await(fx, fixture_submit(
                        fx, B, (struct session_sqe){.op = SESSION_OP_EVICT, .argument = 2 * MIB}));
    assert_int_equal(end.status, NIGH_OK);
    assert_in_range(end.data_size, 2 * MIB, 3 * MIB);
    assert_int_equal(fixture_stats(fx).used_bytes, 50 * 100 * KIB - end.data_size);
    end =
        await(fx, fixture_submit(
                      fx, B, (struct session_sqe){.op = SESSION_OP_EVICT, .argument = UINT64_MAX}));
    assert_int_equal(end.status, NIGH_OK);
    assert_int_equal(fixture_stats(fx).used_bytes, 0);
    assert_int_equal(fixture_stats(fx).objects_spilled, 50);
    for (uint64_t key = 0; key < 50; key++) {
        assert_int_equal(look(fx, B, key, 100 * KIB), NIGH_OK);
    }
}

/* ---- pins, keeps, quotas ---- */

static void pinned_object_is_written_once_and_stays(void **state)
{
    struct fixture *fx = *state;
    uint32_t entry;

    assert_int_equal(put(fx, A, 1, 100 * KIB), NIGH_OK);
    assert_int_equal(fixture_acquire(fx, B, 1, 0, &entry), INDEX_HIT);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(
            await(fx, fixture_submit(fx, A,
                                     (struct session_sqe){.op = SESSION_OP_EVICT, .argument = MIB}))
                .data_size,
            0);
        fixture_pass(fx, 2000);
    }
    assert_int_equal(fixture_stats(fx).spills, 1);
    assert_int_equal(fixture_stats(fx).objects, 1);
    assert_true(fixture_holds(fx, 1, fx->pools[0].index.entries[entry].offset, 100 * KIB));
    fixture_release(fx, B, 0);
    assert_true(await(fx, fixture_submit(
                              fx, A, (struct session_sqe){.op = SESSION_OP_EVICT, .argument = MIB}))
                    .data_size > 0);
    assert_int_equal(fixture_stats(fx).spills, 1);
    assert_int_equal(look(fx, B, 1, 100 * KIB), NIGH_OK);
}

static void kept_objects_are_not_spilled(void **state)
{
    struct fixture *fx = *state;

    assert_int_equal(put(fx, A, 5000, 100 * KIB), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, 5000), NIGH_OK);
    for (uint64_t key = 0; key < 300; key++) {
        assert_int_equal(put(fx, A, key, 100 * KIB), NIGH_OK);
    }
    assert_int_equal(fixture_do(fx, A, fixture_sqe(SESSION_OP_STAT, 5000)).flags,
                     NIGH_OBJECT_SEALED);
    /* One on disk that is kept stays when it comes back. */
    assert_int_equal(fixture_do(fx, A, fixture_sqe(SESSION_OP_STAT, 0)).flags, NIGH_OBJECT_SPILLED);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, 0), NIGH_OK);
    assert_int_equal(look(fx, A, 0, 100 * KIB), NIGH_OK);
    for (uint64_t key = 1000; key < 1300; key++) {
        assert_int_equal(put(fx, A, key, 100 * KIB), NIGH_OK);
    }
    assert_int_equal(fixture_do(fx, A, fixture_sqe(SESSION_OP_STAT, 0)).flags, NIGH_OBJECT_SEALED);
    assert_valid(fx);
}

static void session_above_its_quota_spills_its_own(void **state)
{
    struct fixture *fx = *state;

    fixture_do(fx, A, (struct session_sqe){.op = SESSION_OP_QUOTA, .argument = 1 * MIB});
    for (uint64_t key = 0; key < 30; key++) {
        assert_int_equal(put(fx, A, key, 100 * KIB), NIGH_OK);
    }
    assert_true(atomic_load(&fx->clients[A].quota_used) <= 1 * MIB);
    for (uint64_t key = 0; key < 30; key++) {
        assert_int_equal(look(fx, B, key, 100 * KIB), NIGH_OK);
    }
}

static int setup_quota(void **state)
{
    struct fixture *fixture = fixture_create(&(struct fixture_options){.spills = true});

    fixture_pool(fixture, 0, false, 1 * MIB);
    fixture_open(fixture, A, 0, 1000, true);
    fixture_open(fixture, B, 0, 1000, true);
    *state = fixture;
    return 0;
}

/* Who reads what is on disk brings no more of it back than the pool may have. */
static void what_is_read_back_fits_the_pools_quota(void **state)
{
    struct fixture *fx = *state;

    for (uint64_t key = 0; key < 30; key++) {
        assert_int_equal(put(fx, A, key, 100 * KIB), NIGH_OK);
    }
    for (uint64_t key = 0; key < 30; key++) {
        assert_int_equal(look(fx, B, key, 100 * KIB), NIGH_OK);
        assert_true(fixture_stats(fx).used_bytes <= 1 * MIB);
    }
    assert_valid(fx);
}

static void a_read_back_waits_for_room_in_the_quota(void **state)
{
    struct fixture *fx = *state;
    uint64_t key = 0, begun_us;
    uint32_t pins[32], get;
    struct session_cqe got;

    for (key = 0; key < 30; key++) {
        assert_int_equal(put(fx, A, key, 100 * KIB), NIGH_OK);
    }
    for (key = 0; key < 10; key++) { /* ten fit */
        got = await(fx, submit_get(fx, B, key, 0));
        assert_int_equal(got.status, NIGH_OK);
        pins[key] = got.pin;
    }
    begun_us = fx->now_us;
    assert_int_equal(await(fx, submit_get(fx, B, 20, 2000000)).status, NIGH_QUOTA);
    assert_true(fx->now_us - begun_us >= 2000000);
    get = submit_get(fx, B, 20, 2000000);
    fixture_pass(fx, 10000);
    assert_false(fixture_ended(fx, get));
    fixture_unpin(fx, B, pins[3]);
    got = await(fx, get);
    assert_int_equal(got.status, NIGH_OK);
    assert_true(fixture_holds(fx, 20, got.offset, 100 * KIB));
    assert_true(fixture_stats(fx).used_bytes <= 1 * MIB);
    assert_valid(fx);
}

/* ---- delete ---- */

static void delete_forgets_the_file(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fill_until_spilled(fx, 100 * KIB), key = find_spilled(fx, n);
    uint32_t forgotten = fx->forgotten;

    assert_int_equal(fixture_status(fx, B, SESSION_OP_DELETE, key), NIGH_OK);
    assert_int_equal(fx->forgotten, forgotten + 1);
    assert_int_equal(fixture_status(fx, B, SESSION_OP_CONTAINS, key), NIGH_NOT_FOUND);
    assert_valid(fx);
}

static void delete_during_a_read_waits_for_it(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe got;
    uint32_t get, gone;

    spill_one(fx, 1, 100 * KIB);
    get = submit_get(fx, B, 1, 10000);
    assert_int_equal(fx->job_count, 1);
    gone = fixture_submit(fx, A, fixture_sqe(SESSION_OP_DELETE, 1));
    assert_false(fixture_ended(fx, gone));
    assert_valid(fx);
    got = await(fx, get);
    assert_int_equal(got.status, NIGH_OK);
    assert_int_equal(await(fx, gone).status, NIGH_IN_USE);
    assert_true(fixture_holds(fx, 1, got.offset, 100 * KIB));
    fixture_unpin(fx, B, got.pin);
    fixture_pass(fx, 5000);
    assert_int_equal(fixture_stats(fx).objects_deleting, 0);
}

static void delete_during_a_write_leaves_no_file(void **state)
{
    struct fixture *fx = *state;
    uint32_t evict;

    assert_int_equal(put(fx, A, 1, 100 * KIB), NIGH_OK);
    evict =
        fixture_submit(fx, A, (struct session_sqe){.op = SESSION_OP_EVICT, .argument = UINT64_MAX});
    fixture_tick(fx);
    assert_int_equal(fx->job_count, 1);
    assert_int_equal(fixture_status(fx, B, SESSION_OP_DELETE, 1),
                     NIGH_IN_USE); /* the disk reads it */
    assert_valid(fx);
    assert_int_equal(await(fx, evict).status, NIGH_OK);
    fixture_pass(fx, 5000);
    assert_int_equal(fixture_stats(fx).used_bytes, 0);
    assert_int_equal(fixture_stats(fx).spilled_bytes, 0);
    assert_int_equal(fx->forgotten, 1);
}

static void deleted_between_write_and_leaving(void **state)
{
    struct fixture *fx = *state;

    assert_int_equal(put(fx, A, 1, 100 * KIB), NIGH_OK);
    fixture_submit(fx, A, (struct session_sqe){.op = SESSION_OP_EVICT, .argument = UINT64_MAX});
    fixture_tick(fx);
    fixture_disk(fx);
    fixture_submit(fx, B, fixture_sqe(SESSION_OP_DELETE, 1));
    fixture_tick(fx);
    assert_int_equal(fixture_stats(fx).used_bytes, 0);
    assert_int_equal(fixture_stats(fx).spilled_bytes, 0);
    assert_int_equal(fixture_put(fx, A, 1, 100), NIGH_OK);
    fixture_pass(fx, 5000);
    assert_int_equal(fixture_status(fx, B, SESSION_OP_CONTAINS, 1), NIGH_OK);
}

/* ---- a disk that fails ---- */

static void failed_write_is_a_status(void **state) /* Plasma's defect 10 */
{
    struct fixture *fx = *state;
    uint64_t n = 0;
    nigh_status status;
    uint32_t jobs;

    fx->fail_writes = NIGH_DISK;
    do {
        status = put(fx, A, n, 100 * KIB);
        n += status == NIGH_OK;
    } while (status == NIGH_OK);
    assert_int_equal(status, NIGH_OUT_OF_MEMORY);
    assert_in_range(n, 150, 164);
    /* Each failure is told once, and the disk is left alone for a while: two batches at most. */
    assert_in_range(fixture_stats(fx).spill_failures, 1, 2 * LIMIT_EVICT_BATCH);
    assert_int_equal(fixture_stats(fx).objects, n);
    for (uint64_t key = 0; key < n; key++) {
        assert_int_equal(look(fx, B, key, 100 * KIB), NIGH_OK);
    }
    /* It rests, then tries again. */
    fx->now_us += LIMIT_DISK_REST_US;
    fixture_tick(fx);
    fixture_disk(fx);
    fixture_pass(fx, 20000);
    jobs = fx->job_count;
    assert_int_equal(jobs, 0);
    fx->fail_writes = NIGH_OK;
    fx->now_us += LIMIT_DISK_REST_US;
    assert_int_equal(put(fx, A, n, 100 * KIB), NIGH_OK);
    for (uint64_t key = 0; key <= n; key++) {
        assert_int_equal(look(fx, B, key, 100 * KIB), NIGH_OK);
    }
    assert_valid(fx);
}

/* A disk that rests is not asked, so nothing counts as kept that was never tried: when it is well
 * again, the lane spills ahead of need as before. */
static void what_was_not_tried_is_spilled_ahead_later(void **state)
{
    struct fixture *fx = *state;
    uint64_t key = 0;

    fx->fail_writes = NIGH_DISK;
    while (fixture_stats(fx).used_bytes < 16 * MIB - 400 * KIB) {
        assert_int_equal(fixture_put(fx, A, key++, 100 * KIB), NIGH_OK);
    }
    for (uint32_t turn = 0; turn < 1000; turn++) {
        fixture_disk(fx);
        fixture_pass(fx, 10000);
    }
    assert_true(fixture_stats(fx).spill_failures > 0);
    assert_int_equal(fixture_stats(fx).objects, key);
    fx->fail_writes = NIGH_OK;
    for (uint32_t turn = 0; turn < 200; turn++) {
        fixture_disk(fx);
        fixture_pass(fx, 10000);
    }
    assert_true(fixture_stats(fx).used_bytes <= 15 * MIB);
    assert_valid(fx);
}

/* Spilling ahead of need gets no rarer as long as the disk takes what it is given; and it gives no
 * more than is taken, for what is refused would count as kept. */
static void work_ahead_of_need(uint64_t bytes, uint32_t rounds, uint32_t disk_every)
{
    struct fixture *fx =
        fixture_create(&(struct fixture_options){.spills = true, .entries = 65536});
    uint64_t key = 0;

    fixture_pool(fx, 0, false, 0);
    fixture_open(fx, A, 0, 1000, true);
    for (uint32_t round = 0; round < rounds; round++) {
        while (fixture_stats(fx).used_bytes < 16 * MIB - 400 * KIB) {
            assert_int_equal(fixture_put(fx, A, key++, bytes), NIGH_OK);
        }
        for (uint32_t turn = 0; turn < 50 * disk_every; turn++) {
            if (turn % disk_every == 0) {
                fixture_disk(fx);
            }
            fixture_pass(fx, 1000);
        }
        assert_true(fixture_stats(fx).used_bytes <= 15 * MIB);
        assert_int_equal(evict_bytes(&fx->store->pools[0]->evict, EVICT_PARKED), 0);
    }
    assert_valid(fx);
    fixture_destroy(fx);
}

static void a_disk_is_kept_at_work_ahead_of_need(void **state)
{
    (void)state;
    work_ahead_of_need(2 * KIB, 12, 1);
}

static void a_slow_disk_is_not_overrun_ahead_of_need(void **state)
{
    (void)state;
    work_ahead_of_need(512, 3, 40); /* as many files as the fixture has */
}

static void torn_file_is_never_served(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fill_until_spilled(fx, 100 * KIB), key = find_spilled(fx, n);
    uint32_t first, second, entry;

    for (uint32_t i = 0; i < FIXTURE_FILES; i++) {
        if (fx->files[i].used) {
            fx->files[i].bytes[17] ^= 1;
        }
    }
    first = submit_get(fx, A, key, 10000);
    second = submit_get(fx, B, key, NIGH_FOREVER);
    assert_int_equal(await(fx, first).status, NIGH_CORRUPT);
    assert_int_equal(await(fx, second).status, NIGH_CORRUPT);
    assert_int_not_equal(fixture_acquire(fx, B, key, 0, &entry), INDEX_HIT);
    assert_int_equal(fixture_do(fx, A, fixture_sqe(SESSION_OP_STAT, key)).flags,
                     NIGH_OBJECT_SPILLED);
    assert_valid(fx);
    for (uint32_t i = 0; i < FIXTURE_FILES; i++) {
        if (fx->files[i].used) {
            fx->files[i].bytes[17] ^= 1; /* whole again: the object is not lost */
        }
    }
    assert_int_equal(look(fx, B, key, 100 * KIB), NIGH_OK);
}

static void file_of_other_bytes_is_never_served(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fill_until_spilled(fx, 100 * KIB), key = find_spilled(fx, n);

    for (uint32_t i = 0; i < FIXTURE_FILES; i++) {
        struct fixture_file *file = &fx->files[i];

        if (file->used) {
            file->bytes[17] ^= 1;
            file->crc = crc32c(0, file->bytes, 100 * KIB); /* the file's own checksum holds */
        }
    }
    assert_int_equal(await(fx, submit_get(fx, A, key, 10000)).status, NIGH_CORRUPT);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, key), NIGH_OK);
    assert_valid(fx);
}

static void failed_read_is_a_status_and_may_be_tried_again(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = fill_until_spilled(fx, 100 * KIB), key = find_spilled(fx, n);

    fx->fail_reads = NIGH_DISK;
    assert_int_equal(await(fx, submit_get(fx, A, key, 10000)).status, NIGH_DISK);
    fx->fail_reads = NIGH_OK;
    assert_int_equal(look(fx, B, key, 100 * KIB), NIGH_OK);
    assert_valid(fx);
}

static void delete_that_waited_for_a_failed_read(void **state)
{
    struct fixture *fx = *state;
    uint32_t get, gone;

    spill_one(fx, 1, 100 * KIB);
    fx->fail_reads = NIGH_DISK;
    get = submit_get(fx, A, 1, 10000);
    gone = fixture_submit(fx, B, fixture_sqe(SESSION_OP_DELETE, 1));
    assert_int_equal(await(fx, get).status, NIGH_DISK);
    assert_int_equal(await(fx, gone).status, NIGH_OK);
    assert_int_equal(fixture_status(fx, B, SESSION_OP_CONTAINS, 1), NIGH_NOT_FOUND);
    assert_int_equal(fixture_stats(fx).spilled_bytes, 0);
}

static void full_queue_of_the_disk_is_waited_for(void **state)
{
    struct fixture *fx = *state;
    uint32_t cookie;

    spill_one(fx, 9000, 100 * KIB);
    fx->disk_full_queue = true;
    assert_int_equal(await(fx, submit_get(fx, A, 9000, 10000)).status, NIGH_DISK);
    cookie = submit_get(fx, A, 9000, 10000);
    fixture_pass(fx, 5000);
    assert_false(fixture_ended(fx, cookie));
    assert_valid(fx);
    fx->disk_full_queue = false;
    assert_int_equal(await(fx, cookie).status, NIGH_OK);
    (void)fill_until_spilled(fx, 100 * KIB);
    fx->disk_full_queue = true;
    cookie = submit_create(fx, A, 9001, 3 * MIB, 100000);
    fixture_pass(fx, 50000);
    assert_false(fixture_ended(fx, cookie));
    fx->disk_full_queue = false;
    assert_int_equal(await(fx, cookie).status, NIGH_OK);
    assert_valid(fx);
}

static void disk_has_a_bound(void **state)
{
    struct fixture *fx =
        fixture_create(&(struct fixture_options){.spills = true, .spill_bytes = 8 * MIB});
    nigh_status status;
    uint64_t n = 0;

    (void)state;
    fixture_pool(fx, 0, false, 0);
    fixture_open(fx, A, 0, 1000, true);
    fixture_open(fx, B, 0, 1000, true);
    do {
        status = put(fx, A, n, 100 * KIB);
        assert_true(fixture_stats(fx).spilled_bytes <= 8 * MIB);
        n += status == NIGH_OK;
    } while (status == NIGH_OK);
    assert_int_equal(status, NIGH_OUT_OF_MEMORY);
    assert_in_range(n, 190, 204); /* some of it is for reading back */
    assert_valid(fx);
    fixture_destroy(fx);
}

/* 0: of all sizes up to 3 MiB. */
static uint64_t size_of(uint64_t key, uint64_t bytes)
{
    return bytes != 0 ? bytes + key % 7 * 640
                      : ((key * 7919) % 64 + 1) * ((key * 31) % 48 + 1) * KIB;
}

/* Puts objects of `bytes` and a little until one is refused; returns how many went in. */
static uint64_t fill_for_good(struct fixture *fx, uint64_t bytes)
{
    uint64_t n = 0;

    while (put(fx, A, n, size_of(n, bytes)) == NIGH_OK) {
        n++;
    }
    assert_true(fixture_stats(fx).objects_spilled > 0);
    return n;
}

static void read_all(struct fixture *fx, uint64_t n, uint64_t bytes, uint32_t rounds)
{
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint64_t i = 0; i < n; i++) {
            uint64_t key = round % 2 == 0 ? i : i * 7 % n;

            assert_int_equal(look(fx, B, key, size_of(key, bytes)), NIGH_OK);
            assert_true(fixture_stats(fx).spilled_bytes <= fx->spill_bytes);
        }
        assert_valid(fx);
    }
}

static void fill_and_read(uint64_t spill_bytes, uint64_t disk_bytes, uint64_t bytes)
{
    struct fixture *fx = fixture_create(&(struct fixture_options){.spills = true,
                                                                  .memory_bytes = 64 * MIB,
                                                                  .spill_bytes = spill_bytes,
                                                                  .disk_bytes = disk_bytes});
    uint64_t n;

    fixture_pool(fx, 0, false, 0);
    fixture_open(fx, A, 0, 1000, true);
    fixture_open(fx, B, 0, 1000, true);
    n = fill_for_good(fx, bytes);
    read_all(fx, n, bytes, 3);
    /* Who waits for memory takes none of what makes the way. */
    (void)submit_create(fx, A, 100000, bytes, NIGH_FOREVER);
    read_all(fx, n, bytes, 2);
    assert_int_equal(fixture_stats(fx).spill_failures, 0);
    for (uint64_t key = 0; key < n / 2; key++) {
        assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, key), NIGH_OK);
    }
    assert_int_equal(await(fx, submit_create(fx, A, 100001, bytes, 1000000)).status, NIGH_OK);
    assert_valid(fx);
    fixture_destroy(fx);
}

/* Memory and the room on disk are both used up: what went in can be read all the same. */
static void what_a_full_store_took_can_be_read(void **state)
{
    static const uint64_t sizes[] = {0, 60 * KIB, 700 * KIB, 3000000, 5 * MIB};

    (void)state;
    for (uint32_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        fill_and_read(32 * MIB, 0, sizes[i]);
        fill_and_read(0, 32 * MIB, sizes[i]); /* the disk is full before the bound */
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(twice_the_memory_and_nothing_is_lost),
        TEST(object_comes_back_with_its_birth),
        TEST(many_gets_share_one_read),
        TEST(slow_disk_ends_a_get_in_time),
        TEST(checksum_is_known_without_reading_back),
        TEST(evict_spills_what_it_was_asked_to),
        TEST(pinned_object_is_written_once_and_stays),
        TEST(kept_objects_are_not_spilled),
        TEST(session_above_its_quota_spills_its_own),
        cmocka_unit_test_setup_teardown(what_is_read_back_fits_the_pools_quota, setup_quota,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_read_back_waits_for_room_in_the_quota, setup_quota,
                                        fixture_teardown),
        TEST(delete_forgets_the_file),
        TEST(delete_during_a_read_waits_for_it),
        TEST(delete_during_a_write_leaves_no_file),
        TEST(deleted_between_write_and_leaving),
        TEST(failed_write_is_a_status),
        TEST(what_was_not_tried_is_spilled_ahead_later),
        cmocka_unit_test(a_disk_is_kept_at_work_ahead_of_need),
        cmocka_unit_test(a_slow_disk_is_not_overrun_ahead_of_need),
        TEST(torn_file_is_never_served),
        TEST(file_of_other_bytes_is_never_served),
        TEST(failed_read_is_a_status_and_may_be_tried_again),
        TEST(delete_that_waited_for_a_failed_read),
        TEST(full_queue_of_the_disk_is_waited_for),
        cmocka_unit_test(disk_has_a_bound),
        cmocka_unit_test(what_a_full_store_took_can_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
