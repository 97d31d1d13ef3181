/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of the store, each with its errors, and the known defects of Plasma that would
 * live here. A full memory, spilling and restarts have tests of their own.
 */
#include "support/support.h"

#include <string.h>

#include "base/crc32c.h"
#include "object_store_fixture.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

#define A 1u /* sessions */
#define B 2u
#define R 3u /* may only read */

static int setup(void **state)
{
    struct fixture *fixture = fixture_create(&(struct fixture_options){0});

    fixture_pool(fixture, 0, false, 0);
    fixture_pool(fixture, 1, false, 0);
    fixture_open(fixture, A, 0, 1000, true);
    fixture_open(fixture, B, 0, 1000, true);
    fixture_open(fixture, R, 0, 1003, false);
    *state = fixture;
    return 0;
}

#define assert_valid(fixture) assert_true(store_is_valid((fixture)->store))

/* ---- the thinnest path ---- */

static void leased_put_is_there_for_all(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe lease = fixture_lease(fx, A, 300 * KIB);
    struct session_cqe got;

    assert_int_equal(lease.status, NIGH_OK);
    assert_true(lease.lease_bytes >= LIMIT_LEASE_BYTES_MIN);
    assert_int_equal(fixture_put_leased(fx, A, 7, lease.lease_offset, 1000), NIGH_OK);
    got = fixture_get(fx, B, 7, 0);
    assert_int_equal(got.status, NIGH_OK);
    assert_int_equal(got.data_size, 1000);
    assert_int_equal(got.offset, lease.lease_offset);
    assert_true(fixture_holds(fx, 7, got.offset, 1000));
    assert_int_not_equal(got.pin, SESSION_NO_PIN);
    assert_valid(fx);
}

static void created_put_is_there_for_all(void **state)
{
    struct fixture *fx = *state;
    uint32_t entry;

    assert_int_equal(fixture_acquire(fx, B, 7, 0, &entry), INDEX_MISS);
    assert_int_equal(fixture_put(fx, A, 7, 3 * MIB), NIGH_OK);
    assert_int_equal(fixture_acquire(fx, B, 7, 0, &entry), INDEX_HIT);
    assert_true(fixture_holds(fx, 7, fx->pools[0].index.entries[entry].offset, 3 * MIB));
    fixture_release(fx, B, 0);
}

static void object_without_bytes_is_an_object(void **state)
{
    struct fixture *fx = *state;

    assert_int_equal(fixture_put(fx, A, 7, 0), NIGH_OK);
    assert_int_equal(fixture_get(fx, B, 7, 0).status, NIGH_OK);
    assert_int_equal(fixture_get(fx, B, 7, 0).data_size, 0);
}

static void get_waits_for_the_seal(void **state)
{
    struct fixture *fx = *state;
    struct session_sqe get = fixture_sqe(SESSION_OP_GET, 7);
    uint32_t cookie;

    get.argument = 5000;
    cookie = fixture_submit(fx, B, get);
    fixture_pass(fx, 4000);
    assert_false(fixture_ended(fx, cookie));
    assert_int_equal(fixture_put(fx, A, 7, 100), NIGH_OK);
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_OK);
    assert_true(fixture_holds(fx, 7, fixture_completion(fx, cookie).offset, 100));
}

static void get_ends_at_its_deadline_and_not_before(void **state)
{
    struct fixture *fx = *state;
    struct session_sqe get = fixture_sqe(SESSION_OP_GET, 7);
    uint32_t cookie;

    assert_int_equal(fixture_get(fx, B, 7, 0).status, NIGH_TIMEOUT);
    get.argument = 5000;
    cookie = fixture_submit(fx, B, get);
    fixture_pass(fx, 4999);
    assert_false(fixture_ended(fx, cookie));
    fixture_pass(fx, 1);
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_TIMEOUT);
    assert_int_equal(fixture_put(fx, A, 7, 100), NIGH_OK);
    assert_valid(fx);
}

static void get_without_end_waits_without_end(void **state)
{
    struct fixture *fx = *state;
    struct session_sqe get = fixture_sqe(SESSION_OP_GET, 7);
    uint32_t cookie;

    get.argument = NIGH_FOREVER;
    cookie = fixture_submit(fx, B, get);
    fx->now_us += UINT64_C(1) << 50;
    fixture_tick(fx);
    assert_false(fixture_ended(fx, cookie));
    assert_int_equal(store_tick(fx->store, fx->now_us), UINT64_MAX);
    assert_int_equal(fixture_put(fx, A, 7, 100), NIGH_OK);
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_OK);
}

static void abort_gives_the_memory_back(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe made = fixture_create_key(fx, A, 7, 100, 0, 0);
    struct session_sqe abort = {.op = SESSION_OP_ABORT, .ref = made.ref};

    assert_true(fixture_stats(fx).used_bytes > 0);
    assert_int_equal(fixture_do(fx, A, abort).status, NIGH_OK);
    assert_int_equal(fixture_do(fx, A, abort).status, NIGH_INVALID);
    assert_int_equal(fixture_seal(fx, A, made.ref), NIGH_INVALID);
    assert_int_equal(fixture_stats(fx).used_bytes, 0);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, 7), NIGH_NOT_FOUND);
}

static void closing_a_session_leaves_what_it_sealed_and_nothing_else(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe lease = fixture_lease(fx, A, 0);
    uint64_t sealed = 0;

    assert_int_equal(fixture_put(fx, A, 1, 5000), NIGH_OK);
    assert_int_equal(fixture_put_leased(fx, A, 2, lease.lease_offset + 640, 64), NIGH_OK);
    sealed = index_object_bytes(5000, 0, 0) + 64;
    assert_int_equal(fixture_create_key(fx, A, 3, 9000, 0, 0).status, NIGH_OK);
    assert_int_equal(fixture_create_key(fx, A, 4, 9000, SESSION_FLAG_EXCLUSIVE, 0).status, NIGH_OK);
    assert_int_equal(atomic_load(&fx->clients[A].quota_used), sealed + 2 * 9024);
    assert_valid(fx);
    fixture_close(fx, A);
    assert_valid(fx);
    assert_int_equal(fixture_stats(fx).used_bytes, sealed);
    assert_int_equal(fixture_stats(fx).leased_bytes, 0);
    assert_int_equal(fixture_stats(fx).unsealed_bytes, 0);
    assert_int_equal(fixture_stats(fx).objects_unsealed, 0);
    assert_int_equal(atomic_load(&fx->clients[A].quota_used), 0);
    assert_int_equal(fixture_status(fx, B, SESSION_OP_DELETE, 1), NIGH_OK);
    assert_int_equal(fixture_status(fx, B, SESSION_OP_DELETE, 2), NIGH_OK);
    assert_int_equal(fixture_stats(fx).used_bytes, 0);
    assert_int_equal(fixture_put(fx, B, 4, 100), NIGH_OK); /* the claim is gone too */
}

/* ---- leases ---- */

static void seals_from_a_lease_come_in_any_order(void **state)
{
    struct fixture *fx = *state;
    uint64_t offset = fixture_lease(fx, A, 0).lease_offset;
    static const uint32_t order[] = {5, 0, 9, 1, 8, 2, 7, 3, 6, 4};

    for (uint32_t i = 0; i < ARRAY_LENGTH(order); i++) {
        assert_int_equal(fixture_put_leased(fx, A, order[i], offset + order[i] * 1024, 1000),
                         NIGH_OK);
        assert_valid(fx);
    }
    for (uint32_t i = 0; i < ARRAY_LENGTH(order); i++) {
        struct session_cqe got = fixture_get(fx, B, i, 0);

        assert_int_equal(got.status, NIGH_OK);
        assert_true(fixture_holds(fx, i, got.offset, 1000));
    }
}

static void leased_bytes_are_sealed_once(void **state)
{
    struct fixture *fx = *state;
    uint64_t offset = fixture_lease(fx, A, 0).lease_offset;

    assert_int_equal(fixture_put_leased(fx, A, 1, offset + 1024, 1024), NIGH_OK);
    assert_int_equal(fixture_put_leased(fx, A, 2, offset + 1024, 1024), NIGH_INVALID);
    assert_int_equal(fixture_put_leased(fx, A, 2, offset + 1024 - 64, 128), NIGH_INVALID);
    assert_int_equal(fixture_put_leased(fx, A, 2, offset + 2048 - 64, 128), NIGH_INVALID);
    assert_int_equal(fixture_put_leased(fx, A, 2, offset, 4096), NIGH_INVALID);
    assert_int_equal(fixture_put_leased(fx, A, 2, offset, 1024), NIGH_OK);
    assert_valid(fx);
}

static void seal_outside_a_lease_is_refused(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe lease = fixture_lease(fx, A, 0);
    uint64_t end = lease.lease_offset + lease.lease_bytes;
    static const struct {
        uint64_t offset, bytes;
    } wild[] = {{0, UINT64_MAX},        {UINT64_MAX, 1},         {UINT64_MAX - 63, 64},
                {UINT64_C(1) << 63, 1}, {0, LIMIT_OBJECT_BYTES}, {64, LIMIT_OBJECT_BYTES + 1}};

    assert_int_equal(fixture_lease(fx, B, 0).status, NIGH_OK);
    for (uint32_t i = 0; i < ARRAY_LENGTH(wild); i++) {
        struct session_sqe sqe = fixture_sqe(SESSION_OP_SEAL, 9);

        sqe.flags = SESSION_FLAG_LEASED;
        sqe.offset = wild[i].offset;
        sqe.data_size = wild[i].bytes;
        assert_int_equal(fixture_do(fx, A, sqe).status, NIGH_INVALID);
        sqe.offset += lease.lease_offset;
        assert_int_equal(fixture_do(fx, B, sqe).status, NIGH_INVALID);
    }
    assert_int_equal(fixture_put_leased(fx, A, 9, end - 64, 65), NIGH_INVALID);
    assert_int_equal(fixture_put_leased(fx, A, 9, end, 64), NIGH_INVALID);
    assert_int_equal(fixture_put_leased(fx, A, 9, lease.lease_offset + 32, 64), NIGH_INVALID);
    assert_int_equal(fixture_put_leased(fx, B, 9, lease.lease_offset, 64), NIGH_INVALID);
    assert_int_equal(fixture_put_leased(fx, A, 9, end - 64, 64), NIGH_OK);
    assert_valid(fx);
}

static void closing_a_lease_returns_what_was_not_sealed(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe lease = fixture_lease(fx, A, 0);
    struct session_sqe close = {.op = SESSION_OP_LEASE_CLOSE, .offset = lease.lease_offset};

    assert_int_equal(fixture_stats(fx).leased_bytes, lease.lease_bytes);
    assert_int_equal(fixture_put_leased(fx, A, 1, lease.lease_offset + 6400, 640), NIGH_OK);
    assert_int_equal(fixture_put_leased(fx, A, 2, lease.lease_offset + 64000, 640), NIGH_OK);
    assert_int_equal(fixture_stats(fx).leased_bytes, lease.lease_bytes - 1280);
    assert_int_equal(fixture_do(fx, B, close).status, NIGH_NOT_FOUND);
    assert_int_equal(fixture_do(fx, A, close).status, NIGH_OK);
    assert_int_equal(fixture_do(fx, A, close).status, NIGH_NOT_FOUND);
    assert_int_equal(fixture_stats(fx).used_bytes, 1280);
    assert_true(fixture_holds(fx, 1, lease.lease_offset + 6400, 640));
    assert_int_equal(fixture_put_leased(fx, A, 3, lease.lease_offset, 64), NIGH_INVALID);
}

static void used_up_lease_ends_and_renews(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe lease = fixture_lease(fx, A, 0), sealed;
    struct session_sqe seal = fixture_sqe(SESSION_OP_SEAL, 1);

    for (uint32_t i = 1; i < LIMIT_LEASES_A_SESSION; i++) {
        assert_int_equal(fixture_lease(fx, A, 0).status, NIGH_OK);
    }
    assert_int_equal(fixture_lease(fx, A, 0).status, NIGH_LIMIT);
    seal.flags = SESSION_FLAG_LEASED | SESSION_FLAG_RENEW;
    seal.offset = lease.lease_offset;
    seal.data_size = lease.lease_bytes;
    seal.argument = 1;
    sealed = fixture_do(fx, A, seal);
    assert_int_equal(sealed.status, NIGH_OK);
    assert_int_equal(sealed.lease_bytes, LIMIT_LEASE_BYTES_MIN);
    assert_int_equal(fixture_put_leased(fx, A, 2, sealed.lease_offset, 64), NIGH_OK);
    assert_int_equal(fixture_lease(fx, A, 0).status, NIGH_LIMIT);
    /* A renewal that cannot be had is no failure of the seal. */
    seal = fixture_sqe(SESSION_OP_SEAL, 3);
    seal.flags = SESSION_FLAG_LEASED | SESSION_FLAG_RENEW;
    seal.offset = sealed.lease_offset + 64;
    seal.data_size = 64;
    sealed = fixture_do(fx, A, seal);
    assert_int_equal(sealed.status, NIGH_OK);
    assert_int_equal(sealed.lease_bytes, 0);
}

static void lease_in_too_many_pieces_says_so(void **state)
{
    struct fixture *fx = *state;
    uint64_t offset = fixture_lease(fx, A, 0).lease_offset;
    uint32_t n = 0;
    nigh_status status;

    do {
        n++;
        status = fixture_put_leased(fx, A, n, offset + n * 192, 64);
    } while (status == NIGH_OK && n < 1000);
    assert_int_equal(status, NIGH_LIMIT);
    assert_int_equal(n, LIMIT_LEASE_PIECES);
    assert_int_equal(fixture_put_leased(fx, A, 2000, offset, 192), NIGH_OK); /* fills a hole */
    assert_int_equal(fixture_put_leased(fx, A, n, offset + n * 192, 64), NIGH_OK);
    assert_valid(fx);
}

/* The ids of every other one exist already: what is refused does not count as a piece, but stays
 * the lease's memory. */
static void refused_bytes_are_no_pieces(void **state)
{
    struct fixture *fx = *state;
    struct session_sqe close = {.op = SESSION_OP_LEASE_CLOSE};
    struct session_cqe lease;
    uint64_t used;

    for (uint32_t i = 1; i < 248; i += 2) {
        assert_int_equal(fixture_put(fx, B, i, 10), NIGH_OK);
    }
    used = fixture_stats(fx).used_bytes;
    lease = fixture_lease(fx, A, 0);
    for (uint32_t i = 0; i < 248; i++) {
        assert_int_equal(fixture_put_leased(fx, A, i, lease.lease_offset + i * 128, 128),
                         i % 2 == 0 ? NIGH_OK : NIGH_EXISTS);
    }
    assert_valid(fx);
    assert_int_equal(fixture_stats(fx).leased_bytes, lease.lease_bytes - 124 * 128);
    assert_int_equal(fixture_stats(fx).used_bytes, used + lease.lease_bytes);
    assert_int_equal(fixture_put_leased(fx, A, 1000, lease.lease_offset + 128, 128), NIGH_INVALID);
    close.offset = lease.lease_offset;
    assert_int_equal(fixture_do(fx, A, close).status, NIGH_OK);
    assert_valid(fx);
    assert_int_equal(fixture_stats(fx).leased_bytes, 0);
    assert_int_equal(fixture_stats(fx).used_bytes, used + 124 * 128);
}

/* Who was refused closes the lease: it must be there, and until then nothing else of its memory may
 * be its client's: that tells leases apart by where bytes lie. */
static void refused_lease_ends_when_it_is_closed(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe lease = fixture_lease(fx, A, 0), other;
    struct session_sqe close = {.op = SESSION_OP_LEASE_CLOSE, .offset = lease.lease_offset};
    uint64_t end = lease.lease_offset + lease.lease_bytes;

    assert_int_equal(fixture_put(fx, B, 1, 10), NIGH_OK);
    assert_int_equal(fixture_put_leased(fx, A, 1, lease.lease_offset, lease.lease_bytes),
                     NIGH_EXISTS);
    assert_valid(fx);
    other = fixture_lease(fx, A, 0);
    assert_int_equal(other.status, NIGH_OK);
    assert_true(other.lease_offset >= end ||
                other.lease_offset + other.lease_bytes <= lease.lease_offset);
    assert_int_equal(fixture_put_leased(fx, A, 2, other.lease_offset, 64), NIGH_OK);
    assert_int_equal(fixture_do(fx, A, close).status, NIGH_OK);
    assert_int_equal(fixture_do(fx, A, close).status, NIGH_NOT_FOUND);
    assert_int_equal(fixture_put_leased(fx, A, 3, other.lease_offset + 64, 64), NIGH_OK);
    assert_int_equal(fixture_stats(fx).leased_bytes, other.lease_bytes - 128);
    other = fixture_lease(fx, B, 0);
    assert_int_equal(other.lease_offset, lease.lease_offset); /* its memory is free */
    assert_int_equal(fixture_put_leased(fx, B, 4, other.lease_offset, 64), NIGH_OK);
}

/* What was sealed in a lease may be gone before the lease is: its memory is not another lease of
 * the same client. Here it is free together with what lies before it. */
static void leases_of_a_session_lie_apart(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe before = fixture_lease(fx, B, 0), lease = fixture_lease(fx, A, 0), next;
    struct session_sqe close = {.op = SESSION_OP_LEASE_CLOSE, .offset = before.lease_offset};
    uint64_t end = lease.lease_offset + lease.lease_bytes;

    assert_int_equal(before.lease_offset + before.lease_bytes, lease.lease_offset);
    assert_int_equal(fixture_put_leased(fx, B, 1, before.lease_offset, 128), NIGH_OK);
    assert_int_equal(fixture_do(fx, B, close).status, NIGH_OK);
    assert_int_equal(fixture_put_leased(fx, A, 2, lease.lease_offset, lease.lease_bytes - 64),
                     NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 2), NIGH_OK);
    next = fixture_lease(fx, A, 0);
    assert_int_equal(next.status, NIGH_OK);
    assert_true(next.lease_offset >= end);
    assert_valid(fx);
    assert_int_equal(fixture_put_leased(fx, A, 3, next.lease_offset, 64), NIGH_OK);
    assert_int_equal(fixture_put_leased(fx, A, 4, end - 64, 64), NIGH_OK);
    /* To others it may go. */
    next = fixture_lease(fx, B, 0);
    assert_int_equal(next.lease_offset, before.lease_offset + 128);
    assert_valid(fx);
}

static void reserve_makes_extents_the_sessions(void **state)
{
    struct fixture *fx = *state;
    struct session_sqe reserve = {.op = SESSION_OP_RESERVE, .argument = 5 * MIB};
    uint64_t owner = extent_owner(0, 1000);
    uint32_t owned = 0;

    assert_int_equal(fixture_do(fx, A, reserve).data_size, 6 * MIB);
    assert_int_equal(fixture_do(fx, A, reserve).data_size, 6 * MIB);
    for (uint32_t i = 0; i < fx->set->count; i++) {
        owned += fx->set->extents[i].owner == owner;
    }
    assert_int_equal(owned, 3);
    assert_int_equal(fixture_stats(fx).used_bytes, 0);
    reserve.argument = UINT64_MAX;
    assert_int_equal(fixture_do(fx, A, reserve).data_size, 8 * MIB); /* there are two pools */
    assert_int_equal(fixture_do(fx, R, reserve).status, NIGH_DENIED);
}

/* ---- who may do what ---- */

static void nobody_seals_or_aborts_what_another_made(void **state) /* Plasma's defect 8 */
{
    struct fixture *fx = *state;
    struct session_cqe made = fixture_create_key(fx, A, 7, 100, SESSION_FLAG_EXCLUSIVE, 0);
    struct session_sqe abort = fixture_sqe(SESSION_OP_ABORT, 7);

    abort.ref = made.ref;
    assert_int_equal(fixture_seal(fx, B, made.ref), NIGH_INVALID);
    assert_int_equal(fixture_do(fx, B, abort).status, NIGH_INVALID);
    fixture_close(fx, B); /* nor by ending */
    assert_int_equal(fixture_seal(fx, A, made.ref), NIGH_OK);
    assert_int_equal(fixture_get(fx, A, 7, 0).status, NIGH_OK);
}

static void readers_change_nothing(void **state)
{
    struct fixture *fx = *state;
    static const uint8_t writes[] = {SESSION_OP_LEASE,  SESSION_OP_CREATE, SESSION_OP_SEAL,
                                     SESSION_OP_DELETE, SESSION_OP_EVICT,  SESSION_OP_KEEP,
                                     SESSION_OP_UNKEEP};

    assert_int_equal(fixture_put(fx, A, 7, 100), NIGH_OK);
    for (uint32_t i = 0; i < ARRAY_LENGTH(writes); i++) {
        assert_int_equal(fixture_status(fx, R, writes[i], 7), NIGH_DENIED);
    }
    assert_int_equal(fixture_get(fx, R, 7, 0).status, NIGH_OK);
}

static void pools_are_name_spaces(void **state)
{
    struct fixture *fx = *state;

    fixture_open(fx, 9, 1, 1001, true);
    assert_int_equal(fixture_put(fx, A, 7, 100), NIGH_OK);
    assert_int_equal(fixture_status(fx, 9, SESSION_OP_CONTAINS, 7), NIGH_NOT_FOUND);
    assert_int_equal(fixture_put(fx, 9, 7, 200), NIGH_OK);
    assert_int_equal(fixture_get(fx, 9, 7, 0).data_size, 200);
    assert_int_equal(fixture_get(fx, A, 7, 0).data_size, 100);
    assert_int_equal(fixture_status(fx, 9, SESSION_OP_DELETE, 7), NIGH_IN_USE);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, 7), NIGH_OK);
}

static void uids_have_extents_of_their_own(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe mine, other;

    fixture_open(fx, 9, 0, 1009, true);
    mine = fixture_create_key(fx, A, 1, 100, 0, 0);
    other = fixture_create_key(fx, 9, 2, 100, 0, 0);
    assert_int_not_equal(mine.offset >> fx->set->extent_shift,
                         other.offset >> fx->set->extent_shift);
}

/* ---- one id ---- */

static void first_seal_wins(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe a = fixture_create_key(fx, A, 7, 100, 0, 0);
    struct session_cqe b = fixture_create_key(fx, B, 7, 200, 0, 0);
    uint64_t offset = fixture_lease(fx, A, 0).lease_offset;

    assert_int_equal(a.status, NIGH_OK);
    assert_int_equal(b.status, NIGH_OK);
    assert_int_equal(fixture_seal(fx, B, b.ref), NIGH_OK);
    assert_int_equal(fixture_seal(fx, A, a.ref), NIGH_EXISTS);
    assert_int_equal(fixture_seal(fx, A, a.ref), NIGH_INVALID); /* it is gone */
    assert_int_equal(fixture_put_leased(fx, A, 7, offset, 100), NIGH_EXISTS);
    assert_int_equal(fixture_create_key(fx, A, 7, 1, 0, 0).status, NIGH_EXISTS);
    assert_int_equal(fixture_get(fx, A, 7, 0).data_size, 200);
    assert_valid(fx);
}

static void claim_stands_until_sealed_or_given_up(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe before = fixture_create_key(fx, B, 7, 1, 0, 0);
    struct session_cqe claim = fixture_create_key(fx, A, 7, 100, SESSION_FLAG_EXCLUSIVE, 0);
    uint64_t offset = fixture_lease(fx, B, 0).lease_offset;
    uint32_t entry;

    assert_int_equal(claim.status, NIGH_OK);
    assert_int_equal(fixture_create_key(fx, B, 7, 1, SESSION_FLAG_EXCLUSIVE, 0).status,
                     NIGH_EXISTS);
    assert_int_equal(fixture_create_key(fx, B, 7, 1, 0, 0).status, NIGH_EXISTS);
    assert_int_equal(fixture_put_leased(fx, B, 7, offset, 64), NIGH_EXISTS);
    assert_int_equal(fixture_seal(fx, B, before.ref), NIGH_EXISTS);
    assert_int_equal(fixture_acquire(fx, B, 7, 0, &entry), INDEX_ASK);
    assert_int_equal(fixture_get(fx, B, 7, 0).status, NIGH_TIMEOUT);
    assert_int_equal(
        fixture_do(fx, A, (struct session_sqe){.op = SESSION_OP_ABORT, .ref = claim.ref}).status,
        NIGH_OK);
    claim = fixture_create_key(fx, A, 7, 100, SESSION_FLAG_EXCLUSIVE, 0);
    assert_int_equal(fixture_seal(fx, A, claim.ref), NIGH_OK);
    assert_int_equal(fixture_get(fx, B, 7, 0).status, NIGH_OK);
    assert_valid(fx);
}

static void many_gets_of_one_id_all_end(void **state) /* Plasma's defect 6 */
{
    struct fixture *fx = *state;
    struct session_sqe get = fixture_sqe(SESSION_OP_GET, 7);
    uint32_t cookies[64], pins = 0;

    get.argument = 1000000;
    for (uint32_t i = 0; i < ARRAY_LENGTH(cookies); i++) {
        cookies[i] = fixture_submit(fx, i % 2 == 0 ? A : B, get);
    }
    assert_int_equal(fixture_stats(fx).waiting, ARRAY_LENGTH(cookies));
    assert_int_equal(fixture_put(fx, A, 7, 100), NIGH_OK);
    for (uint32_t i = 0; i < ARRAY_LENGTH(cookies); i++) {
        assert_int_equal(fixture_completion(fx, cookies[i]).status, NIGH_OK);
        pins += fixture_completion(fx, cookies[i]).pin;
    }
    assert_int_equal(pins, 2 * (31 * 32 / 2)); /* each has a pin of its own */
    assert_int_equal(fixture_stats(fx).waiting, 0);
}

static void contains_says_no_before_the_seal(void **state) /* Plasma's defect 7 */
{
    struct fixture *fx = *state;
    struct session_cqe made;
    static const uint8_t flags[] = {0, SESSION_FLAG_EXCLUSIVE};

    for (uint32_t i = 0; i < ARRAY_LENGTH(flags); i++) {
        assert_int_equal(fixture_status(fx, B, SESSION_OP_CONTAINS, i), NIGH_NOT_FOUND);
        made = fixture_create_key(fx, A, i, 100, flags[i], 0);
        assert_int_equal(fixture_status(fx, B, SESSION_OP_CONTAINS, i), NIGH_NOT_SEALED);
        assert_int_equal(fixture_status(fx, B, SESSION_OP_DELETE, i), NIGH_NOT_SEALED);
        assert_int_equal(fixture_status(fx, B, SESSION_OP_KEEP, i), NIGH_NOT_SEALED);
        assert_int_equal(fixture_status(fx, B, SESSION_OP_CHECKSUM, i), NIGH_NOT_SEALED);
        assert_int_equal(fixture_seal(fx, A, made.ref), NIGH_OK);
        assert_int_equal(fixture_status(fx, B, SESSION_OP_CONTAINS, i), NIGH_OK);
        assert_int_equal(fixture_status(fx, B, SESSION_OP_DELETE, i), NIGH_OK);
        assert_int_equal(fixture_status(fx, B, SESSION_OP_CONTAINS, i), NIGH_NOT_FOUND);
    }
}

static void object_wanted_by_the_dead_may_appear(void **state) /* Plasma's defect 9 */
{
    struct fixture *fx = *state;
    struct session_sqe get = fixture_sqe(SESSION_OP_GET, 7);
    uint32_t dead, alive;

    get.argument = NIGH_FOREVER;
    dead = fixture_submit(fx, B, get);
    alive = fixture_submit(fx, A, get);
    fixture_close(fx, B);
    assert_int_equal(fixture_put(fx, A, 7, 100), NIGH_OK);
    assert_false(fixture_ended(fx, dead));
    assert_int_equal(fixture_completion(fx, alive).status, NIGH_OK);
    assert_int_equal(fixture_stats(fx).waiting, 0);
    fixture_open(fx, B, 0, 1000, true); /* the slot is another's now */
    fixture_pass(fx, 10000);
    assert_false(fixture_ended(fx, dead));
}

static void reset_forgets_waits_and_keeps_the_rest(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe made = fixture_create_key(fx, A, 1, 100, 0, 0);
    struct session_sqe get = fixture_sqe(SESSION_OP_GET, 7);
    uint32_t cookie;

    get.argument = 1000;
    cookie = fixture_submit(fx, A, get);
    store_session_reset(fx->store, A);
    fixture_pass(fx, 5000);
    assert_false(fixture_ended(fx, cookie));
    assert_int_equal(fixture_seal(fx, A, made.ref), NIGH_OK);
}

/* ---- cancel ---- */

static void cancel_ends_what_waits(void **state)
{
    struct fixture *fx = *state;
    struct session_sqe get = fixture_sqe(SESSION_OP_GET, 7);
    struct session_sqe cancel = {.op = SESSION_OP_CANCEL};
    uint32_t cookie;

    get.argument = NIGH_FOREVER;
    cookie = fixture_submit(fx, A, get);
    cancel.argument = cookie;
    assert_int_equal(fixture_do(fx, B, cancel).status, NIGH_NOT_FOUND); /* not another's */
    assert_false(fixture_ended(fx, cookie));
    assert_int_equal(fixture_do(fx, A, cancel).status, NIGH_OK);
    assert_int_equal(fixture_completion(fx, cookie).status, NIGH_CANCELED);
    assert_int_equal(fixture_do(fx, A, cancel).status, NIGH_NOT_FOUND);
    assert_int_equal(fixture_put(fx, A, 7, 100), NIGH_OK);
}

/* ---- delete ---- */

static void delete_of_an_object_in_use_is_deferred_and_seen(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe stat;
    uint32_t entry, again;
    uint64_t offset;

    assert_int_equal(fixture_put(fx, A, 7, 1000), NIGH_OK);
    assert_int_equal(fixture_acquire(fx, B, 7, 3, &entry), INDEX_HIT);
    offset = fx->pools[0].index.entries[entry].offset;
    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 7), NIGH_IN_USE);
    assert_int_equal(fixture_stats(fx).objects_deleting, 1);
    assert_int_equal(fixture_stats(fx).objects, 0);
    stat = fixture_do(fx, A, fixture_sqe(SESSION_OP_STAT, 7));
    assert_int_equal(stat.status, NIGH_OK);
    assert_int_equal(stat.flags, NIGH_OBJECT_DELETING);
    assert_int_equal(stat.data_size, 1);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, 7), NIGH_NOT_FOUND);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 7), NIGH_NOT_FOUND);
    assert_int_equal(fixture_acquire(fx, A, 7, 0, &again), INDEX_MISS);
    assert_valid(fx);

    /* The id is free for another object, and the old bytes stay for who holds them. */
    assert_int_equal(fixture_put(fx, A, 7, 2000), NIGH_OK);
    fixture_pass(fx, 10 * LIMIT_GRAVE_US);
    assert_true(fixture_holds(fx, 7, offset, 1000));
    assert_int_equal(fixture_stats(fx).objects_deleting, 1);
    assert_int_equal(fixture_get(fx, A, 7, 0).data_size, 2000);
    fixture_release(fx, B, 3);
    fixture_pass(fx, 2 * LIMIT_GRAVE_US);
    assert_int_equal(fixture_stats(fx).objects_deleting, 0);
    assert_int_equal(fixture_stats(fx).used_bytes, index_object_bytes(2000, 0, 0));
    assert_int_equal(store_tick(fx->store, fx->now_us), UINT64_MAX);
}

static void deletes_of_a_turn_share_a_look(void **state)
{
    struct fixture *fx = *state;
    uint32_t cookies[300], entry;

    for (uint32_t i = 0; i < ARRAY_LENGTH(cookies); i++) {
        assert_int_equal(fixture_put(fx, A, i, 64), NIGH_OK);
    }
    assert_int_equal(fixture_acquire(fx, B, 100, 0, &entry), INDEX_HIT);
    for (uint32_t i = 0; i < ARRAY_LENGTH(cookies); i++) {
        cookies[i] = fixture_submit(fx, A, fixture_sqe(SESSION_OP_DELETE, i));
        assert_false(fixture_ended(fx, cookies[i]));
    }
    assert_true(store_wants_turn(fx->store));
    assert_valid(fx);
    fixture_tick(fx);
    for (uint32_t i = 0; i < ARRAY_LENGTH(cookies); i++) {
        assert_int_equal(fixture_completion(fx, cookies[i]).status,
                         i == 100 ? NIGH_IN_USE : NIGH_OK);
    }
    assert_false(store_wants_turn(fx->store));
}

static void session_may_end_while_its_delete_waits(void **state)
{
    struct fixture *fx = *state;

    assert_int_equal(fixture_put(fx, A, 7, 64), NIGH_OK);
    fixture_submit(fx, B, fixture_sqe(SESSION_OP_DELETE, 7));
    fixture_close(fx, B);
    assert_valid(fx);
    fixture_pass(fx, 2 * LIMIT_GRAVE_US);
    assert_int_equal(fixture_stats(fx).used_bytes, 0);
}

static void lane_pins_hold_and_end(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe got, first;

    assert_int_equal(fixture_put(fx, A, 7, 64), NIGH_OK);
    first = fixture_get(fx, B, 7, 0);
    got = fixture_get(fx, B, 7, 0);
    assert_int_not_equal(first.pin, got.pin);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 7), NIGH_IN_USE);
    fixture_unpin(fx, B, first.pin);
    fixture_pass(fx, 3 * LIMIT_GRAVE_US);
    assert_int_equal(fixture_stats(fx).objects_deleting, 1);
    fixture_unpin(fx, B, got.pin);
    fixture_pass(fx, 3 * LIMIT_GRAVE_US);
    assert_int_equal(fixture_stats(fx).objects_deleting, 0);
}

static void lane_pins_have_a_bound(void **state)
{
    struct fixture *fx = *state;
    struct session_cqe got;
    uint32_t last = 0;

    assert_int_equal(fixture_put(fx, A, 7, 64), NIGH_OK);
    for (uint32_t i = 0; i < LIMIT_LANE_PINS; i++) {
        got = fixture_get(fx, B, 7, 0);
        assert_int_equal(got.status, NIGH_OK);
        last = got.pin;
    }
    assert_int_equal(fixture_get(fx, B, 7, 0).status, NIGH_LIMIT);
    assert_int_equal(fixture_get(fx, A, 7, 0).status, NIGH_OK);
    fixture_unpin(fx, B, last);
    assert_int_equal(fixture_get(fx, B, 7, 0).pin, last);
}

static void pins_of_a_dead_session_hold_nothing(void **state)
{
    struct fixture *fx = *state;
    uint32_t entry;

    assert_int_equal(fixture_put(fx, A, 7, 64), NIGH_OK);
    assert_int_equal(fixture_acquire(fx, B, 7, 40, &entry), INDEX_HIT);
    assert_int_equal(fixture_get(fx, B, 7, 0).status, NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 7), NIGH_IN_USE);
    fixture_close(fx, B);
    fixture_tick(fx); /* at once, without time passing */
    assert_int_equal(fixture_stats(fx).objects_deleting, 0);
}

static void rubbish_in_shared_memory_harms_nobody(void **state)
{
    struct fixture *fx = *state;
    uint64_t random = 88172645463325252u;
    uint32_t *words = fx->clients[B].memory;

    assert_int_equal(fixture_put(fx, A, 7, 64), NIGH_OK);
    for (uint64_t i = 0; i < session_memory_bytes(1) / 4; i++) {
        words[i] = (uint32_t)support_random(&random);
    }
    assert_int_equal(fixture_get(fx, A, 7, 0).status, NIGH_OK);
    (void)fixture_get(fx, B, 7, 0);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_WHO, 7), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_HOLDERS, 0), NIGH_OK);
    assert_int_equal(
        fixture_do(fx, B, (struct session_sqe){.op = SESSION_OP_SUBSCRIBE, .argument = 1}).status,
        NIGH_OK);
    fixture_pass(fx, 10000);
    assert_int_equal(
        fixture_do(fx, A, (struct session_sqe){.op = SESSION_OP_EVICT, .argument = 1}).status,
        NIGH_OK);
    assert_valid(fx);
}

/* ---- keep, refresh, checksum ---- */

static void kept_objects_are_not_evicted(void **state)
{
    struct fixture *fx = *state;
    struct session_sqe evict = {.op = SESSION_OP_EVICT, .argument = 100 * MIB};

    assert_int_equal(fixture_put(fx, A, 1, 1000), NIGH_OK);
    assert_int_equal(fixture_put(fx, A, 2, 1000), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, 1), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, 1), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, 3), NIGH_NOT_FOUND);
    assert_int_equal(fixture_do(fx, A, evict).data_size, 1024);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, 1), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_CONTAINS, 2), NIGH_NOT_FOUND);
    assert_valid(fx);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_UNKEEP, 1), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_UNKEEP, 1), NIGH_OK);
    assert_int_equal(fixture_do(fx, A, evict).data_size, 1024);
    assert_int_equal(fixture_do(fx, A, evict).data_size, 0);
    assert_int_equal(fixture_put(fx, A, 1, 1000), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_KEEP, 1), NIGH_OK);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 1), NIGH_OK);
    assert_int_equal(fixture_stats(fx).used_bytes, 0);
}

static void refresh_passes_over_what_is_not_there(void **state)
{
    struct fixture *fx = *state;

    assert_int_equal(fixture_put(fx, A, 1, 1000), NIGH_OK);
    assert_int_equal(fixture_status(fx, R, SESSION_OP_REFRESH, 1), NIGH_OK);
    assert_int_equal(fixture_status(fx, R, SESSION_OP_REFRESH, 2), NIGH_OK);
    assert_int_equal(fixture_create_key(fx, A, 3, 10, 0, 0).status, NIGH_OK);
    assert_int_equal(fixture_status(fx, R, SESSION_OP_REFRESH, 3), NIGH_OK);
}

static void checksum_is_of_the_data_and_is_kept(void **state)
{
    struct fixture *fx = *state;
    static const uint64_t sizes[] = {0, 1, 1000, LIMIT_TURN_CHECKSUM_BYTES, 5 * MIB + 3};

    for (uint32_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        struct session_cqe sum, got;

        assert_int_equal(fixture_put(fx, A, i, sizes[i]), NIGH_OK);
        got = fixture_get(fx, A, i, 0);
        sum = fixture_do(fx, R, fixture_sqe(SESSION_OP_CHECKSUM, i));
        assert_int_equal(sum.status, NIGH_OK);
        assert_int_equal(sum.data_size, crc32c(0, extent_bytes_at(fx->set, got.offset), sizes[i]));
        assert_int_equal(fx->pools[0].index.entries[got.ref].data_crc, sum.data_size);
        assert_int_equal(fixture_do(fx, R, fixture_sqe(SESSION_OP_CHECKSUM, i)).data_size,
                         sum.data_size);
    }
}

static void object_being_summed_stays_until_it_is(void **state)
{
    struct fixture *fx = *state;
    struct session_sqe evict = {.op = SESSION_OP_EVICT, .argument = 100 * MIB};
    uint32_t sum, gone;

    assert_int_equal(fixture_put(fx, A, 1, 5 * MIB), NIGH_OK);
    sum = fixture_submit(fx, R, fixture_sqe(SESSION_OP_CHECKSUM, 1));
    gone = fixture_submit(fx, R, fixture_sqe(SESSION_OP_CHECKSUM, 1));
    fixture_tick(fx);
    assert_false(fixture_ended(fx, sum));
    assert_valid(fx);
    fixture_do(fx, R, (struct session_sqe){.op = SESSION_OP_CANCEL, .argument = gone});
    assert_int_equal(fixture_completion(fx, gone).status, NIGH_CANCELED);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 1), NIGH_IN_USE);
    (void)evict;
    fixture_pass(fx, 20000);
    assert_int_equal(fixture_completion(fx, sum).status, NIGH_OK);
    assert_int_equal(fixture_stats(fx).used_bytes, 0);
}

/* ---- who ---- */

static void who_names_the_holders(void **state)
{
    struct fixture *fx = *state;
    const struct session_holder *holders = (const void *)fx->clients[A].lane->reply;
    uint32_t entry;

    assert_int_equal(fixture_put(fx, A, 7, 1000), NIGH_OK);
    assert_int_equal(fixture_do(fx, A, fixture_sqe(SESSION_OP_WHO, 7)).data_size, 0);
    assert_int_equal(fixture_acquire(fx, B, 7, 0, &entry), INDEX_HIT);
    assert_int_equal(fixture_acquire(fx, B, 7, 70, &entry), INDEX_HIT);
    assert_int_equal(fixture_get(fx, B, 7, 0).status, NIGH_OK);
    assert_int_equal(fixture_do(fx, A, fixture_sqe(SESSION_OP_WHO, 7)).data_size, 1);
    assert_int_equal(holders[0].session, fx->clients[B].session_id);
    assert_int_equal(holders[0].pid, 5000 + B);
    assert_int_equal(holders[0].uid, 1000);
    assert_int_equal(holders[0].views, 3);
    assert_int_equal(holders[0].size_bytes, 1024);
    assert_string_equal(holders[0].name, "client-2");
    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 7), NIGH_IN_USE);
    assert_int_equal(fixture_do(fx, A, fixture_sqe(SESSION_OP_WHO, 7)).data_size, 1);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_WHO, 8), NIGH_NOT_FOUND);
}

static void holders_come_largest_first(void **state)
{
    struct fixture *fx = *state;
    const struct session_holder *holders = (const void *)fx->clients[R].lane->reply;
    uint32_t entry;

    assert_int_equal(fixture_put(fx, A, 1, 1000), NIGH_OK);
    assert_int_equal(fixture_put(fx, A, 2, 100000), NIGH_OK);
    assert_int_equal(fixture_acquire(fx, A, 1, 0, &entry), INDEX_HIT);
    assert_int_equal(fixture_acquire(fx, B, 2, 0, &entry), INDEX_HIT);
    assert_int_equal(fixture_acquire(fx, B, 2, 1, &entry), INDEX_HIT);
    assert_int_equal(fixture_acquire(fx, B, 1, 2, &entry), INDEX_HIT);
    assert_int_equal(fixture_status(fx, R, SESSION_OP_HOLDERS, 0), NIGH_OK);
    assert_int_equal(fixture_do(fx, R, fixture_sqe(SESSION_OP_HOLDERS, 0)).data_size, 2);
    assert_int_equal(holders[0].session, fx->clients[B].session_id);
    assert_int_equal(holders[0].views, 2);
    assert_int_equal(holders[0].size_bytes, 1024 + index_object_bytes(100000, 0, 0));
    assert_int_equal(holders[1].session, fx->clients[A].session_id);
    assert_int_equal(holders[1].size_bytes, 1024);
    assert_int_equal(fixture_lease(fx, A, 0).status, NIGH_OK); /* a lease keeps memory too */
    assert_int_equal(fixture_do(fx, R, fixture_sqe(SESSION_OP_HOLDERS, 0)).data_size, 2);
    assert_int_equal(holders[0].session, fx->clients[A].session_id);
}

static void stats_come_in_the_reply(void **state)
{
    struct fixture *fx = *state;
    nigh_node_stats stats = {0};
    struct session_cqe cqe;

    assert_int_equal(fixture_put(fx, A, 1, 1000), NIGH_OK);
    cqe = fixture_do(fx, R, (struct session_sqe){.op = SESSION_OP_STATS});
    assert_int_equal(cqe.data_size, STORE_STATS_BYTES);
    memcpy((uint8_t *)&stats + offsetof(nigh_node_stats, memory_bytes), fx->clients[R].lane->reply,
           STORE_STATS_BYTES);
    assert_int_equal(stats.memory_bytes, 16 * MIB);
    assert_int_equal(stats.used_bytes, 1024);
    assert_int_equal(stats.objects, 1);
    assert_int_equal(stats.seals, 1);
    assert_int_equal(stats.index_entries, 2 * 4096);
}

/* ---- watching ---- */

static void subscriber_hears_of_seals_and_deletes(void **state)
{
    struct fixture *fx = *state;
    struct session_sqe subscribe = {.op = SESSION_OP_SUBSCRIBE};

    assert_int_equal(fixture_put(fx, A, 1, 100), NIGH_OK);
    assert_int_equal(fixture_do(fx, R, subscribe).status, NIGH_OK);
    assert_int_equal(fixture_do(fx, R, subscribe).status, NIGH_OK);
    assert_int_equal(fixture_put(fx, A, 2, 100), NIGH_OK);
    assert_int_equal(fixture_events(fx, R, NIGH_EVENT_SEALED, 1), 0);
    assert_int_equal(fixture_events(fx, R, NIGH_EVENT_SEALED, 2), 1);
    assert_int_equal(fixture_status(fx, A, SESSION_OP_DELETE, 1), NIGH_OK);
    assert_int_equal(fixture_events(fx, R, NIGH_EVENT_DELETED, 1), 1);
    fixture_do(fx, A, (struct session_sqe){.op = SESSION_OP_EVICT, .argument = 1});
    assert_int_equal(fixture_events(fx, R, NIGH_EVENT_EVICTED, 2), 1);
    assert_int_equal(fixture_do(fx, R, (struct session_sqe){.op = SESSION_OP_UNSUBSCRIBE}).status,
                     NIGH_OK);
    assert_int_equal(fixture_do(fx, R, (struct session_sqe){.op = SESSION_OP_UNSUBSCRIBE}).status,
                     NIGH_NOT_FOUND);
    assert_int_equal(fixture_put(fx, A, 3, 100), NIGH_OK);
    assert_int_equal(fixture_events(fx, R, NIGH_EVENT_SEALED, 3), 0);
}

static void replay_tells_each_object_once_and_waits_for_room(void **state)
{
    struct fixture *fx = *state;
    struct session_sqe subscribe = {.op = SESSION_OP_SUBSCRIBE, .argument = NIGH_SUBSCRIBE_REPLAY};
    struct session_lane *lane = fx->clients[R].lane;

    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(fixture_put(fx, A, i, 64), NIGH_OK);
    }
    atomic_store(&lane->event_tail.value, LIMIT_EVENT_ENTRIES); /* full: nothing was read */
    assert_int_equal(fixture_do(fx, R, subscribe).status, NIGH_OK);
    fixture_pass(fx, 10000);
    assert_int_equal(fx->event_count, 0);
    assert_valid(fx);
    atomic_store(&lane->event_head.value, LIMIT_EVENT_ENTRIES);
    fixture_pass(fx, 1000);
    assert_int_equal(fx->event_count, LIMIT_TURN_REPLAY);
    assert_int_equal(fixture_put(fx, A, 1000, 64), NIGH_OK);
    fixture_pass(fx, 20000);
    for (uint32_t i = 0; i <= 1000; i++) {
        assert_int_equal(fixture_events(fx, R, NIGH_EVENT_SEALED, i), 1);
    }
    assert_int_equal(store_tick(fx->store, fx->now_us), UINT64_MAX);
}

/* ---- hostile submissions ---- */

static void wrong_submissions_are_refused(void **state)
{
    struct fixture *fx = *state;
    struct session_sqe sqe;

    for (uint32_t op = SESSION_OPS; op < 256; op++) {
        assert_int_equal(fixture_do(fx, A, (struct session_sqe){.op = (uint8_t)op}).status,
                         NIGH_UNSUPPORTED);
    }
    for (uint32_t op = 0; op < SESSION_OPS; op++) {
        sqe = fixture_sqe((uint8_t)op, 1);
        sqe.flags = op == SESSION_OP_LINKS ? 1 : 0x80;
        assert_int_equal(fixture_do(fx, A, sqe).status, NIGH_INVALID);
    }
    sqe = fixture_sqe(SESSION_OP_CREATE, 1);
    sqe.data_size = UINT64_MAX;
    assert_int_equal(fixture_do(fx, A, sqe).status, NIGH_INVALID);
    sqe.data_size = LIMIT_OBJECT_BYTES;
    sqe.argument = NIGH_FOREVER; /* larger than all memory: no wait could help */
    assert_int_equal(fixture_do(fx, A, sqe).status, NIGH_OUT_OF_MEMORY);
    sqe.data_size = 1;
    sqe.meta_size = LIMIT_META_BYTES + 1;
    assert_int_equal(fixture_do(fx, A, sqe).status, NIGH_INVALID);
    sqe.meta_size = 0;
    sqe.name_size = LIMIT_NAME_BYTES + 1;
    assert_int_equal(fixture_do(fx, A, sqe).status, NIGH_INVALID);
    for (uint32_t shift = 0; shift < 64; shift++) {
        uint64_t ref = UINT64_C(1) << shift;

        assert_int_equal(
            fixture_do(fx, A, (struct session_sqe){.op = SESSION_OP_ABORT, .ref = ref}).status,
            NIGH_INVALID);
        assert_int_equal(
            fixture_do(fx, A, (struct session_sqe){.op = SESSION_OP_SEAL, .ref = ref}).status,
            NIGH_INVALID);
    }
    assert_int_equal(
        fixture_do(fx, A, (struct session_sqe){.op = SESSION_OP_SUBSCRIBE, .argument = 8}).status,
        NIGH_INVALID);
}

static void refs_of_what_is_no_created_object_are_refused(void **state)
{
    struct fixture *fx = *state;
    uint32_t sealed, lease;

    assert_int_equal(fixture_lease(fx, A, 0).status, NIGH_OK);
    assert_int_equal(fixture_put(fx, A, 7, 64), NIGH_OK);
    sealed = fixture_get(fx, A, 7, 0).ref;
    lease = sealed == 0 ? 1 : 0;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t ref = i == 0 ? sealed : lease;

        assert_int_equal(fixture_seal(fx, A, ref), NIGH_INVALID);
        assert_int_equal(
            fixture_do(fx, A, (struct session_sqe){.op = SESSION_OP_ABORT, .ref = ref}).status,
            NIGH_INVALID);
    }
    assert_int_equal(fixture_get(fx, B, 7, 0).status, NIGH_OK);
}

static void unsealed_objects_have_a_bound(void **state)
{
    struct fixture *fx = *state;

    for (uint32_t i = 0; i < LIMIT_UNSEALED_A_SESSION; i++) {
        assert_int_equal(fixture_create_key(fx, A, i, 64, 0, 0).status, NIGH_OK);
    }
    assert_int_equal(fixture_create_key(fx, A, 5000, 64, 0, 0).status, NIGH_LIMIT);
    assert_int_equal(fixture_create_key(fx, B, 5000, 64, 0, 0).status, NIGH_OK);
    fixture_close(fx, A);
    assert_int_equal(fixture_stats(fx).objects_unsealed, 1);
}

static void ids_of_other_lanes_are_refused(void **state)
{
    struct fixture *fx = fixture_create(&(struct fixture_options){.lanes = 2});
    uint32_t mine = 0, refused = 0;

    (void)state;
    fixture_pool(fx, 0, false, 0);
    fixture_open(fx, A, 0, 1000, true);
    for (uint32_t i = 0; i < 64; i++) {
        uint8_t id[LIMIT_ID_BYTES];
        nigh_status status = fixture_put(fx, A, i, 64);

        fixture_id(i, id);
        assert_int_equal(status, index_hash_lane(hash_id20(id), 2) == 0 ? NIGH_OK : NIGH_INVALID);
        mine += status == NIGH_OK;
        refused += fixture_get(fx, A, i, 0).status == NIGH_INVALID;
    }
    assert_int_equal(mine + refused, 64);
    assert_in_range(mine, 10, 54);
    fixture_destroy(fx);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(leased_put_is_there_for_all),
        TEST(created_put_is_there_for_all),
        TEST(object_without_bytes_is_an_object),
        TEST(get_waits_for_the_seal),
        TEST(get_ends_at_its_deadline_and_not_before),
        TEST(get_without_end_waits_without_end),
        TEST(abort_gives_the_memory_back),
        TEST(closing_a_session_leaves_what_it_sealed_and_nothing_else),
        TEST(seals_from_a_lease_come_in_any_order),
        TEST(leased_bytes_are_sealed_once),
        TEST(seal_outside_a_lease_is_refused),
        TEST(closing_a_lease_returns_what_was_not_sealed),
        TEST(used_up_lease_ends_and_renews),
        TEST(lease_in_too_many_pieces_says_so),
        TEST(refused_bytes_are_no_pieces),
        TEST(refused_lease_ends_when_it_is_closed),
        TEST(leases_of_a_session_lie_apart),
        TEST(reserve_makes_extents_the_sessions),
        TEST(nobody_seals_or_aborts_what_another_made),
        TEST(readers_change_nothing),
        TEST(pools_are_name_spaces),
        TEST(uids_have_extents_of_their_own),
        TEST(first_seal_wins),
        TEST(claim_stands_until_sealed_or_given_up),
        TEST(many_gets_of_one_id_all_end),
        TEST(contains_says_no_before_the_seal),
        TEST(object_wanted_by_the_dead_may_appear),
        TEST(reset_forgets_waits_and_keeps_the_rest),
        TEST(cancel_ends_what_waits),
        TEST(delete_of_an_object_in_use_is_deferred_and_seen),
        TEST(deletes_of_a_turn_share_a_look),
        TEST(session_may_end_while_its_delete_waits),
        TEST(lane_pins_hold_and_end),
        TEST(lane_pins_have_a_bound),
        TEST(pins_of_a_dead_session_hold_nothing),
        TEST(rubbish_in_shared_memory_harms_nobody),
        TEST(kept_objects_are_not_evicted),
        TEST(refresh_passes_over_what_is_not_there),
        TEST(checksum_is_of_the_data_and_is_kept),
        TEST(object_being_summed_stays_until_it_is),
        TEST(who_names_the_holders),
        TEST(holders_come_largest_first),
        TEST(stats_come_in_the_reply),
        TEST(subscriber_hears_of_seals_and_deletes),
        TEST(replay_tells_each_object_once_and_waits_for_room),
        TEST(wrong_submissions_are_refused),
        TEST(refs_of_what_is_no_created_object_are_refused),
        TEST(unsealed_objects_have_a_bound),
        cmocka_unit_test(ids_of_other_lanes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
