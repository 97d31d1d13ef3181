/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store among other nodes, which are a notebook here: wants, loans, copies, drops, deletes that
 * reach further. The exchange, whose part the test plays, has tests of its own.
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "object_store_fixture.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

#define A 1u
#define B 2u
#define C 3u

#define KEYS 64u /* keys that the notebook tells apart */

/* What the store said to the other nodes of one key. */
struct notes {
    uint32_t wants, unwants, seals, goes, erases;
    uint64_t deadline_us; /* of the last want */
    struct birth sealed;  /* of the last of each */
    struct birth gone;
    nigh_status local;
    bool wanted;
    bool keep;      /* of the last want */
    uint32_t asked; /* erases without an answer */
};

struct bed {
    struct fixture *fx;
    struct notes notes[KEYS + 1]; /* the last: of all others */
    bool answers;                 /* there is somebody to ask for a delete */
    uint32_t room;                /* for deletes at the other nodes */
};

/* ---- the notebook --------------------------------------------------------- */

static uint64_t key_of(const uint8_t *id)
{
    uint64_t key;
    uint8_t same[LIMIT_ID_BYTES];

    memcpy(&key, id + 8, sizeof(key));
    fixture_id(key, same);
    NIGH_ASSERT(memcmp(same, id, LIMIT_ID_BYTES) == 0);
    return key;
}

static struct notes *notes_of(struct bed *bed, uint32_t pool, const uint8_t *id, uint64_t hash)
{
    NIGH_ASSERT(pool == 0 && hash == hash_id20(id));
    return &bed->notes[min_u64(key_of(id), KEYS)];
}

static void on_want(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                    uint64_t deadline_us, bool keep)
{
    struct notes *notes = notes_of(context, pool, id, hash);

    notes->wants++;
    notes->wanted = true;
    notes->keep = keep;
    notes->deadline_us = deadline_us;
}

static void on_unwant(void *context, uint32_t pool, const uint8_t *id, uint64_t hash)
{
    struct notes *notes = notes_of(context, pool, id, hash);

    notes->unwants++;
    notes->wanted = false;
}

static void on_sealed(void *context, const struct store_sight *sight)
{
    struct notes *notes = notes_of(context, sight->pool, sight->id, sight->hash);

    NIGH_ASSERT(!sight->is_copy && sight->in_memory && sight->birth.rank == FIXTURE_RANK);
    notes->seals++;
    notes->sealed = sight->birth;
}

static void on_gone(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                    const struct birth *birth)
{
    struct notes *notes = notes_of(context, pool, id, hash);

    notes->goes++;
    notes->gone = *birth;
}

/* Of claims the test of their own tells. */
static nigh_status on_claim(void *context, const struct store_sight *sight, bool tell)
{
    (void)tell;
    (void)context;
    (void)sight;
    return NIGH_OK;
}

static bool on_erase(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                     nigh_status local)
{
    struct bed *bed = context;
    struct notes *notes = notes_of(bed, pool, id, hash);

    NIGH_ASSERT(local == NIGH_OK || local == NIGH_IN_USE || local == NIGH_NOT_FOUND);
    notes->erases += bed->answers;
    notes->asked += bed->answers;
    notes->local = local;
    return bed->answers;
}

static uint32_t on_erase_room(void *context)
{
    const struct bed *bed = context;
    uint32_t begun = 0;

    for (uint32_t key = 0; key <= KEYS; key++) {
        begun += bed->notes[key].asked;
    }
    return bed->room - begun;
}

static void join(struct bed *bed)
{
    store_set_remote(bed->fx->store, &(struct store_remote){.context = bed,
                                                            .want = on_want,
                                                            .unwant = on_unwant,
                                                            .sealed = on_sealed,
                                                            .gone = on_gone,
                                                            .claim = on_claim,
                                                            .erase = on_erase,
                                                            .erase_room = on_erase_room});
}

/* ---- setup ---------------------------------------------------------------- */

static struct bed *make_bed(const struct fixture_options *options, uint64_t quota_bytes)
{
    struct bed *bed = calloc(1, sizeof(*bed));

    assert_non_null(bed);
    bed->fx = fixture_create(options);
    bed->answers = true;
    bed->room = 1000;
    fixture_pool(bed->fx, 0, false, quota_bytes);
    join(bed);
    fixture_open(bed->fx, A, 0, 1000, true);
    fixture_open(bed->fx, B, 0, 1000, true);
    fixture_open(bed->fx, C, 0, 1000, true);
    return bed;
}

static int setup(void **state)
{
    *state = make_bed(&(struct fixture_options){0}, 0);
    return 0;
}

static int setup_spilling(void **state)
{
    *state = make_bed(&(struct fixture_options){.spills = true}, 0);
    return 0;
}

static int setup_quota(void **state)
{
    *state = make_bed(&(struct fixture_options){0}, 4 * MIB);
    return 0;
}

static int setup_narrow(void **state)
{
    *state = make_bed(&(struct fixture_options){.spills = true, .entries = 64}, 0);
    return 0;
}

static int teardown(void **state)
{
    struct bed *bed = *state;
    bool valid = store_is_valid(bed->fx->store);

    fixture_destroy(bed->fx);
    free(bed);
    return valid ? 0 : -1;
}

#define assert_valid(bed) assert_true(store_is_valid((bed)->fx->store))

/* ---- calls by key --------------------------------------------------------- */

static bool see(struct bed *bed, uint64_t key, struct store_sight *sight)
{
    uint8_t id[LIMIT_ID_BYTES];

    fixture_id(key, id);
    return store_see(bed->fx->store, 0, id, hash_id20(id), sight);
}

static struct birth birth_here(struct bed *bed, uint64_t key)
{
    struct store_sight sight;

    assert_true(see(bed, key, &sight));
    return sight.birth;
}

static nigh_status lend(struct bed *bed, uint64_t key, const struct birth *birth,
                        struct store_sight *sight)
{
    uint8_t id[LIMIT_ID_BYTES];

    fixture_id(key, id);
    return store_lend(bed->fx->store, 0, id, hash_id20(id), birth, bed->fx->now_us, sight);
}

static void lend_end(struct bed *bed, const struct store_sight *sight)
{
    store_lend_end(bed->fx->store, 0, sight->entry);
}

static nigh_status drop_as(struct bed *bed, uint64_t key, struct birth birth, bool came_second)
{
    uint8_t id[LIMIT_ID_BYTES];

    fixture_id(key, id);
    return store_drop(bed->fx->store, 0, id, hash_id20(id), &birth, came_second, bed->fx->now_us);
}

static nigh_status drop(struct bed *bed, uint64_t key, struct birth birth)
{
    return drop_as(bed, key, birth, false);
}

static void erased(struct bed *bed, uint64_t key, nigh_status status)
{
    uint8_t id[LIMIT_ID_BYTES];

    fixture_id(key, id);
    store_erased(bed->fx->store, 0, id, hash_id20(id), status, bed->fx->now_us);
}

static struct birth far_birth(uint64_t key)
{
    return (struct birth){.counter = 1000 + key, .incarnation = 9, .rank = 2};
}

static nigh_status pull_begin(struct bed *bed, uint64_t key, uint64_t bytes, uint32_t *entry,
                              uint64_t *offset)
{
    struct store_pull pull = {.birth = far_birth(key), .data_size = bytes};

    fixture_id(key, pull.id);
    pull.hash = hash_id20(pull.id);
    return store_pull_begin(bed->fx->store, &pull, bed->fx->now_us, entry, offset);
}

static nigh_status pull_seal(struct bed *bed, uint64_t key, uint64_t bytes, uint32_t entry,
                             uint64_t offset)
{
    uint32_t crc;

    fixture_fill(bed->fx, key, offset, bytes);
    crc = crc32c(0, extent_bytes_at(bed->fx->set, offset), bytes);
    return store_pull_seal(bed->fx->store, 0, entry, crc, true, bed->fx->now_us);
}

/* Asks until there is memory, or none to come. */
static nigh_status pull_begin_at_last(struct bed *bed, uint64_t key, uint64_t bytes,
                                      uint32_t *entry, uint64_t *offset)
{
    nigh_status status = NIGH_PENDING;

    for (uint32_t turn = 0; turn < 2000 && status == NIGH_PENDING; turn++) {
        status = pull_begin(bed, key, bytes, entry, offset);
        fixture_disk(bed->fx);
        fixture_pass(bed->fx, 1000);
    }
    return status;
}

static nigh_status pull(struct bed *bed, uint64_t key, uint64_t bytes)
{
    uint64_t offset = 0;
    uint32_t entry = 0;
    nigh_status status = pull_begin_at_last(bed, key, bytes, &entry, &offset);

    return status == NIGH_OK ? pull_seal(bed, key, bytes, entry, offset) : status;
}

static uint32_t submit(struct bed *bed, uint32_t session, uint8_t op, uint64_t key,
                       uint64_t timeout_us)
{
    struct session_sqe sqe = fixture_sqe(op, key);

    sqe.argument = timeout_us;
    return fixture_submit(bed->fx, session, sqe);
}

/* A get that is to leave no copy. */
static uint32_t pass_by(struct bed *bed, uint32_t session, uint64_t key, uint64_t timeout_us)
{
    struct session_sqe sqe = fixture_sqe(SESSION_OP_GET, key);

    sqe.argument = timeout_us;
    sqe.flags = SESSION_FLAG_NO_COPY;
    return fixture_submit(bed->fx, session, sqe);
}

static nigh_status reuse(struct bed *bed, uint64_t key, struct birth birth)
{
    struct store_pull pull = {.birth = birth};

    fixture_id(key, pull.id);
    pull.hash = hash_id20(pull.id);
    return store_pull_reuse(bed->fx->store, &pull, bed->fx->now_us);
}

static nigh_status cancel(struct bed *bed, uint32_t session, uint32_t cookie)
{
    struct session_sqe sqe = {.op = SESSION_OP_CANCEL, .argument = cookie};

    return (nigh_status)fixture_do(bed->fx, session, sqe).status;
}

#define assert_status(expected, got) \
    assert_string_equal(nigh_status_name(expected), nigh_status_name((nigh_status)(got)))

#define assert_birth(expected, got)                  \
    do {                                             \
        struct birth expected_ = (expected);         \
        struct birth got_ = (got);                   \
        assert_true(birth_equal(&expected_, &got_)); \
    } while (0)

/* The status of a submission that has ended. */
static nigh_status end_of(struct bed *bed, uint32_t cookie)
{
    return (nigh_status)fixture_completion(bed->fx, cookie).status;
}

/* Spills an object: everything that can leave goes. */
static void spill_all(struct bed *bed)
{
    struct session_sqe sqe = {.op = SESSION_OP_EVICT, .argument = UINT64_MAX};
    uint32_t cookie = fixture_submit(bed->fx, A, sqe);

    for (uint32_t turn = 0; turn < 1000 && !fixture_ended(bed->fx, cookie); turn++) {
        fixture_disk(bed->fx);
        fixture_pass(bed->fx, 1000);
    }
    assert_status(NIGH_OK, end_of(bed, cookie));
}

/* ---- wants ---------------------------------------------------------------- */

static void who_waits_wants_and_the_last_to_leave_unwants(void **state)
{
    struct bed *bed = *state;
    struct notes *notes = &bed->notes[7];
    uint32_t first = submit(bed, A, SESSION_OP_GET, 7, 5000);
    uint32_t second = submit(bed, B, SESSION_OP_GET, 7, 9000);

    assert_int_equal(notes->wants, 2);
    assert_int_equal(notes->deadline_us, bed->fx->now_us + 9000);
    assert_status(NIGH_OK, cancel(bed, A, first));
    assert_status(NIGH_CANCELED, end_of(bed, first));
    assert_int_equal(notes->unwants, 0);
    fixture_pass(bed->fx, 10000);
    assert_status(NIGH_TIMEOUT, end_of(bed, second));
    assert_int_equal(notes->unwants, 1);
    /* It is asked for anew. */
    first = submit(bed, A, SESSION_OP_GET, 7, NIGH_FOREVER);
    assert_int_equal(notes->wants, 3);
    assert_int_equal(notes->deadline_us, UINT64_MAX);
    assert_status(NIGH_OK, cancel(bed, A, first));
    assert_int_equal(notes->unwants, 2);
}

static void a_session_that_ends_unwants(void **state)
{
    struct bed *bed = *state;

    submit(bed, C, SESSION_OP_GET, 1, 5000);
    submit(bed, C, SESSION_OP_GET, 1, 5000);
    submit(bed, C, SESSION_OP_GET, 2, 5000);
    submit(bed, A, SESSION_OP_GET, 2, 5000);
    fixture_close(bed->fx, C);
    assert_int_equal(bed->notes[1].unwants, 1);
    assert_int_equal(bed->notes[2].unwants, 0);
    store_session_reset(bed->fx->store, A);
    assert_int_equal(bed->notes[2].unwants, 1);
}

static void who_does_not_wait_wants_nothing(void **state)
{
    struct bed *bed = *state;

    assert_status(NIGH_TIMEOUT, fixture_get(bed->fx, A, 1, 0).status);
    assert_status(NIGH_NOT_FOUND, fixture_status(bed->fx, A, SESSION_OP_CONTAINS, 1));
    assert_int_equal(bed->notes[1].wants, 0);
    assert_int_equal(bed->notes[1].unwants, 0);
}

static void a_birth_serves_those_who_want(void **state)
{
    struct bed *bed = *state;
    uint32_t first = submit(bed, A, SESSION_OP_GET, 1, 5000);
    uint32_t second = submit(bed, B, SESSION_OP_GET, 1, 5000);

    assert_status(NIGH_OK, fixture_put(bed->fx, C, 1, 100));
    assert_status(NIGH_OK, end_of(bed, first));
    assert_status(NIGH_OK, end_of(bed, second));
    assert_int_equal(bed->notes[1].seals, 1);
    assert_int_equal(bed->notes[1].unwants, 1);
    assert_birth(birth_here(bed, 1), bed->notes[1].sealed);
    assert_status(NIGH_OK, fixture_put(bed->fx, C, 2, 100));
    assert_int_equal(bed->notes[2].unwants, 0);
}

static void wants_end_with_what_the_exchange_says(void **state)
{
    struct bed *bed = *state;
    uint32_t first = submit(bed, A, SESSION_OP_GET, 1, 5000);
    uint32_t second = submit(bed, B, SESSION_OP_GET, 1, 5000);
    uint32_t other = submit(bed, B, SESSION_OP_GET, 2, 5000);
    uint8_t id[LIMIT_ID_BYTES];

    fixture_id(1, id);
    store_fail_wanted(bed->fx->store, 0, id, hash_id20(id), NIGH_CORRUPT, bed->fx->now_us);
    assert_status(NIGH_CORRUPT, end_of(bed, first));
    assert_status(NIGH_CORRUPT, end_of(bed, second));
    assert_false(fixture_ended(bed->fx, other));
    assert_int_equal(bed->notes[1].unwants, 0); /* the exchange knows */
}

/* Waiting for the disk is not waiting for other nodes. */
static void reading_back_wants_nothing(void **state)
{
    struct bed *bed = *state;
    uint32_t get;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, 100));
    spill_all(bed);
    get = submit(bed, A, SESSION_OP_GET, 1, 5000);
    assert_int_equal(bed->notes[1].wants, 0);
    fixture_disk(bed->fx);
    assert_status(NIGH_OK, end_of(bed, get));
    assert_int_equal(bed->notes[1].unwants, 0);
    assert_int_equal(bed->notes[1].seals, 1); /* it was not born again */
}

/* ---- births --------------------------------------------------------------- */

static void a_birth_stays_through_disk_and_restart(void **state)
{
    struct bed *bed = *state;
    struct birth birth, other;
    struct store_sight sight;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, 100));
    assert_status(NIGH_OK, fixture_put(bed->fx, A, 2, 100));
    birth = birth_here(bed, 1);
    other = birth_here(bed, 2);
    assert_int_equal(birth.rank, FIXTURE_RANK);
    assert_false(birth_equal(&birth, &other));
    spill_all(bed);
    assert_true(see(bed, 1, &sight));
    assert_false(sight.in_memory);
    assert_int_equal(sight.offset, 0);
    assert_birth(birth, sight.birth);
    assert_int_equal(bed->notes[1].goes, 0); /* it can still be had */
    submit(bed, B, SESSION_OP_GET, 1, 5000);
    fixture_disk(bed->fx);
    assert_true(see(bed, 1, &sight));
    assert_true(sight.in_memory);
    assert_birth(birth, sight.birth);
    fixture_kill(bed->fx);
    fixture_restart(bed->fx);
    join(bed);
    fixture_reopen(bed->fx, A);
    fixture_tick(bed->fx);
    assert_birth(birth, birth_here(bed, 1));
    assert_birth(other, birth_here(bed, 2));
    fixture_forget(bed->fx, B);
    fixture_forget(bed->fx, C);
    /* The same id, born again. */
    assert_status(NIGH_OK, drop(bed, 1, birth));
    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, 100));
    other = birth_here(bed, 1);
    assert_false(birth_equal(&birth, &other));
}

static void what_is_evicted_is_gone(void **state)
{
    struct bed *bed = *state;
    struct birth birth;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, 100));
    birth = birth_here(bed, 1);
    spill_all(bed); /* there is no disk */
    assert_false(see(bed, 1, &(struct store_sight){0}));
    assert_int_equal(bed->notes[1].goes, 1);
    assert_birth(birth, bed->notes[1].gone);
}

static void a_walk_sees_what_is_sealed_once(void **state)
{
    struct bed *bed = *state;
    uint32_t seen[KEYS] = {0}, cursor = 0, calls = 0, copies = 0;
    struct store_sight sight;

    for (uint64_t key = 0; key < 20; key++) {
        assert_status(NIGH_OK, fixture_put(bed->fx, A, key, 100));
    }
    spill_all(bed);
    for (uint64_t key = 20; key < 40; key++) {
        assert_status(NIGH_OK,
                      key % 2 == 0 ? fixture_put(bed->fx, A, key, 100) : pull(bed, key, 100));
    }
    fixture_create_key(bed->fx, A, 50, 100, 0, 0);
    assert_status(NIGH_OK, pull_begin(bed, 51, 100, &(uint32_t){0}, &(uint64_t){0}));
    while (store_next(bed->fx->store, 0, &cursor, &sight)) {
        assert_true(++calls < 2 * KEYS);
        if (sight.entry != UINT32_MAX) {
            struct store_sight same;
            uint64_t key = key_of(sight.id);

            seen[key]++;
            copies += sight.is_copy;
            assert_true(see(bed, key, &same));
            assert_memory_equal(&same, &sight, sizeof(same));
        }
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        assert_int_equal(seen[key], key < 40);
    }
    assert_int_equal(copies, 10);
    assert_false(store_next(bed->fx->store, 3, &(uint32_t){0}, &sight));
}

/* A stretch without objects ends a call, not the walk. */
static void a_walk_looks_at_so_much_at_once(void **state)
{
    struct bed *bed = *state;
    uint32_t cursor = 0, calls = 0, found = 0;
    struct store_sight sight;

    for (uint32_t n = 0; n < 2 * LIMIT_EVICT_SCAN; n++) {
        assert_status(NIGH_OK, fixture_put(bed->fx, A, 1000 + n, 64));
    }
    for (uint32_t n = 0; n + 1 < 2 * LIMIT_EVICT_SCAN; n++) {
        assert_status(NIGH_NOT_FOUND, drop(bed, 1000 + n, (struct birth){0}));
        assert_status(NIGH_OK, drop(bed, 1000 + n, birth_here(bed, 1000 + n)));
    }
    while (store_next(bed->fx->store, 0, &cursor, &sight)) {
        calls++;
        found += sight.entry != UINT32_MAX;
    }
    assert_int_equal(found, 1);
    assert_in_range(calls, 2, 3);
}

/* ---- loans ---------------------------------------------------------------- */

/* Fills the memory with objects that can go, twice over. */
static void press(struct bed *bed, uint64_t first_key)
{
    for (uint64_t n = 0; n < 40; n++) {
        uint64_t key = first_key + n;
        struct session_cqe made = fixture_create_key(bed->fx, C, key, MIB, 0, 0);

        if (made.status == NIGH_OK) {
            assert_status(NIGH_OK, fixture_seal(bed->fx, C, made.ref));
        }
        fixture_disk(bed->fx);
        fixture_pass(bed->fx, 2000);
    }
}

static void a_loan_keeps_the_memory_under_pressure(void **state)
{
    struct bed *bed = *state;
    struct store_sight sight;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, MIB));
    assert_status(NIGH_OK, lend(bed, 1, NULL, &sight));
    assert_valid(bed);
    press(bed, 100);
    assert_true(fixture_holds(bed->fx, 1, sight.offset, MIB));
    assert_true(see(bed, 1, &(struct store_sight){0}));
    assert_int_equal(bed->notes[1].goes, 0);
    lend_end(bed, &sight);
    spill_all(bed);
    assert_false(see(bed, 1, &sight) && sight.in_memory);
}

static void a_loan_outlives_a_delete(void **state)
{
    struct bed *bed = *state;
    struct store_sight sight, again;
    uint64_t used;

    bed->answers = false;
    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, MIB));
    assert_status(NIGH_OK, lend(bed, 1, NULL, &sight));
    assert_status(NIGH_OK, lend(bed, 1, NULL, &again));
    used = fixture_stats(bed->fx).used_bytes;
    assert_status(NIGH_IN_USE, fixture_status(bed->fx, A, SESSION_OP_DELETE, 1));
    assert_int_equal(bed->notes[1].goes, 1); /* for new readers, at once */
    assert_status(NIGH_NOT_FOUND, lend(bed, 1, NULL, &again));
    fixture_pass(bed->fx, 20000);
    lend_end(bed, &sight);
    fixture_pass(bed->fx, 20000);
    assert_int_equal(fixture_stats(bed->fx).used_bytes, used);
    press(bed, 100);
    assert_true(fixture_holds(bed->fx, 1, sight.offset, MIB));
    lend_end(bed, &sight);
    fixture_tick(bed->fx);
    assert_int_equal(fixture_stats(bed->fx).objects_deleting, 0);
    assert_valid(bed);
}

/* The policy offered it, its file is there, and then it is lent: it stays, and is offered again. */
static void a_loan_keeps_what_was_just_written_out(void **state)
{
    struct bed *bed = *state;
    struct session_sqe evict = {.op = SESSION_OP_EVICT, .argument = UINT64_MAX};
    struct store_sight sight;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, MIB));
    fixture_submit(bed->fx, A, evict);
    fixture_tick(bed->fx);
    assert_int_equal(bed->fx->job_count, 1);
    assert_status(NIGH_OK, lend(bed, 1, NULL, &sight));
    fixture_disk(bed->fx);
    fixture_tick(bed->fx);
    assert_true(see(bed, 1, &sight));
    assert_true(sight.in_memory);
    assert_true(fixture_holds(bed->fx, 1, sight.offset, MIB));
    lend_end(bed, &sight);
    assert_valid(bed);
    spill_all(bed);
    assert_true(see(bed, 1, &sight));
    assert_false(sight.in_memory);
}

static void what_is_on_disk_is_read_back_to_be_lent(void **state)
{
    struct bed *bed = *state;
    struct store_sight sight;
    struct birth birth;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, MIB));
    birth = birth_here(bed, 1);
    spill_all(bed);
    assert_status(NIGH_NOT_FOUND, lend(bed, 1, &(struct birth){.rank = 9}, &sight));
    bed->fx->disk_full_queue = true;
    assert_status(NIGH_PENDING, lend(bed, 1, &birth, &sight));
    assert_int_equal(bed->fx->job_count, 0);
    assert_valid(bed);
    bed->fx->disk_full_queue = false;
    assert_status(NIGH_PENDING, lend(bed, 1, &birth, &sight));
    assert_status(NIGH_PENDING, lend(bed, 1, &birth, &sight));
    assert_int_equal(bed->fx->job_count, 1);
    assert_valid(bed);
    fixture_disk(bed->fx);
    assert_status(NIGH_OK, lend(bed, 1, &birth, &sight));
    assert_true(fixture_holds(bed->fx, 1, sight.offset, MIB));
    assert_true(sight.has_crc);
    lend_end(bed, &sight);
}

static int setup_spilling_quota(void **state)
{
    *state = make_bed(&(struct fixture_options){.spills = true}, 4 * MIB);
    return 0;
}

/* Lends what may have to be read back. */
static nigh_status lend_at_last(struct bed *bed, uint64_t key, struct store_sight *sight)
{
    nigh_status status = lend(bed, key, NULL, sight);

    for (uint32_t turn = 0; turn < 1000 && status == NIGH_PENDING; turn++) {
        fixture_disk(bed->fx);
        fixture_pass(bed->fx, 1000);
        status = lend(bed, key, NULL, sight);
    }
    return status;
}

/* Nor do other nodes' wishes bring more of a pool into memory than it may have. */
static void what_is_read_back_to_be_lent_fits_the_quota(void **state)
{
    struct bed *bed = *state;
    struct store_sight sights[4];

    for (uint64_t key = 0; key < 8; key++) {
        assert_status(NIGH_OK, fixture_put(bed->fx, A, key, MIB));
        spill_all(bed);
    }
    for (uint64_t key = 0; key < 4; key++) {
        assert_status(NIGH_OK, lend_at_last(bed, key, &sights[key]));
    }
    assert_status(NIGH_OUT_OF_MEMORY, lend_at_last(bed, 5, &sights[0]));
    lend_end(bed, &sights[0]);
    assert_status(NIGH_OK, lend_at_last(bed, 5, &sights[0]));
    assert_true(fixture_stats(bed->fx).used_bytes <= 4 * MIB);
    for (uint64_t n = 0; n < 4; n++) {
        lend_end(bed, &sights[n]);
    }
    assert_valid(bed);
}

static void what_cannot_be_read_back_is_said_once(void **state)
{
    struct bed *bed = *state;
    struct store_sight sight;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, MIB));
    spill_all(bed);
    bed->fx->fail_reads = NIGH_CORRUPT;
    assert_status(NIGH_PENDING, lend(bed, 1, NULL, &sight));
    fixture_disk(bed->fx);
    assert_status(NIGH_CORRUPT, lend(bed, 1, NULL, &sight));
    bed->fx->fail_reads = NIGH_OK;
    assert_status(NIGH_PENDING, lend(bed, 1, NULL, &sight));
    fixture_disk(bed->fx);
    assert_status(NIGH_OK, lend(bed, 1, NULL, &sight));
    lend_end(bed, &sight);
}

/* Nobody asked then: who asks later has it read again. */
static void what_could_not_be_read_back_is_not_said_long_after(void **state)
{
    struct bed *bed = *state;
    struct store_sight sight;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, MIB));
    spill_all(bed);
    bed->fx->fail_reads = NIGH_DISK;
    assert_status(NIGH_PENDING, lend(bed, 1, NULL, &sight));
    fixture_disk(bed->fx);
    bed->fx->fail_reads = NIGH_OK;
    fixture_pass(bed->fx, LIMIT_UNSPILL_US + 1);
    assert_status(NIGH_PENDING, lend(bed, 1, NULL, &sight));
    fixture_disk(bed->fx);
    assert_status(NIGH_OK, lend(bed, 1, NULL, &sight));
    lend_end(bed, &sight);
}

/* What clients here were told is not said to who asks afterwards. */
static void what_clients_could_not_read_back_is_tried_again_for_others(void **state)
{
    struct bed *bed = *state;
    struct store_sight sight;
    uint32_t get;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, MIB));
    spill_all(bed);
    bed->fx->fail_reads = NIGH_DISK;
    get = submit(bed, A, SESSION_OP_GET, 1, 5000);
    fixture_disk(bed->fx);
    assert_status(NIGH_DISK, end_of(bed, get));
    bed->fx->fail_reads = NIGH_OK;
    assert_status(NIGH_PENDING, lend(bed, 1, NULL, &sight));
    fixture_disk(bed->fx);
    assert_status(NIGH_OK, lend(bed, 1, NULL, &sight));
    lend_end(bed, &sight);
}

static void loans_of_one_object_have_a_bound(void **state)
{
    struct bed *bed = *state;
    struct store_sight sight, more;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, 100));
    for (uint32_t n = 0; n < UINT8_MAX; n++) {
        assert_status(NIGH_OK, lend(bed, 1, NULL, &sight));
    }
    assert_status(NIGH_BUSY, lend(bed, 1, NULL, &more));
    for (uint32_t n = 0; n < UINT8_MAX; n++) {
        lend_end(bed, &sight);
    }
    assert_status(NIGH_OK, lend(bed, 1, NULL, &sight));
    lend_end(bed, &sight);
}

static void a_sum_is_kept(void **state)
{
    struct bed *bed = *state;
    struct store_sight sight;
    uint32_t crc;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, 4096));
    assert_status(NIGH_OK, lend(bed, 1, NULL, &sight));
    assert_false(sight.has_crc);
    crc = crc32c(0, extent_bytes_at(bed->fx->set, sight.offset), 4096);
    store_note_crc(bed->fx->store, 0, sight.entry, crc);
    store_note_crc(bed->fx->store, 0, sight.entry, crc + 1); /* the first stays */
    lend_end(bed, &sight);
    assert_true(see(bed, 1, &sight));
    assert_true(sight.has_crc);
    assert_int_equal(sight.data_crc, crc);
}

/* ---- copies --------------------------------------------------------------- */

static void a_sealed_copy_serves_all_who_wait(void **state)
{
    struct bed *bed = *state;
    struct session_sqe watch = {.op = SESSION_OP_SUBSCRIBE};
    uint32_t gets[3], entry = 0, found = 0;
    struct store_sight sight;
    uint64_t offset = 0;

    assert_status(NIGH_OK, fixture_do(bed->fx, B, watch).status);
    for (uint32_t n = 0; n < 3; n++) {
        gets[n] = submit(bed, A + n, SESSION_OP_GET, 1, 5000);
    }
    assert_status(NIGH_OK, pull_begin(bed, 1, 5000, &entry, &offset));
    assert_valid(bed);
    /* Nobody sees it before the seal. */
    assert_false(see(bed, 1, &sight));
    assert_status(NIGH_NOT_FOUND, fixture_status(bed->fx, A, SESSION_OP_STAT, 1));
    assert_status(NIGH_NOT_FOUND, fixture_status(bed->fx, A, SESSION_OP_CONTAINS, 1));
    assert_int_equal(fixture_acquire(bed->fx, A, 1, 0, &found), INDEX_MISS);
    assert_status(NIGH_INVALID, fixture_seal(bed->fx, A, entry));
    assert_status(NIGH_OK, pull_seal(bed, 1, 5000, entry, offset));
    assert_valid(bed);
    for (uint32_t n = 0; n < 3; n++) {
        struct session_cqe cqe = fixture_completion(bed->fx, gets[n]);

        assert_status(NIGH_OK, cqe.status);
        assert_int_not_equal(cqe.pin, SESSION_NO_PIN);
        assert_int_equal(cqe.ref, entry);
        assert_true(fixture_holds(bed->fx, 1, cqe.offset, 5000));
    }
    assert_int_equal(fixture_acquire(bed->fx, A, 1, 0, &found), INDEX_HIT);
    assert_int_equal(found, entry);
    assert_int_equal(fixture_events(bed->fx, B, NIGH_EVENT_SEALED, 1), 1);
    assert_true(see(bed, 1, &sight));
    assert_true(sight.is_copy && sight.has_crc && sight.in_memory);
    assert_birth(far_birth(1), sight.birth);
    assert_int_equal(bed->notes[1].seals, 0); /* it was not born here */
    assert_int_equal(bed->notes[1].unwants, 0);
}

/* A copy's pins count like others'; who held it through a delete keeps it. */
static void a_pinned_copy_stays(void **state)
{
    struct bed *bed = *state;
    struct session_cqe got;

    bed->answers = false;
    assert_status(NIGH_OK, pull(bed, 1, MIB));
    got = fixture_get(bed->fx, A, 1, 0);
    assert_status(NIGH_OK, got.status);
    press(bed, 100);
    assert_true(fixture_holds(bed->fx, 1, got.offset, MIB));
    assert_status(NIGH_IN_USE, fixture_status(bed->fx, B, SESSION_OP_DELETE, 1));
    press(bed, 200);
    assert_true(fixture_holds(bed->fx, 1, got.offset, MIB));
    fixture_unpin(bed->fx, A, got.pin);
    fixture_pass(bed->fx, 10000);
    assert_int_equal(fixture_stats(bed->fx).objects_deleting, 0);
    assert_birth(far_birth(1), bed->notes[1].gone);
}

/* Names and metadata lie behind the data, and sizes are checked: they are another node's word. */
static void sizes_that_cannot_be_are_refused(void **state)
{
    struct bed *bed = *state;
    struct store_pull pull = {.birth = far_birth(1), .data_size = 100};
    uint64_t offset = 0, used = fixture_stats(bed->fx).used_bytes;
    uint32_t entry = 0;
    struct store_sight sight;

    fixture_id(1, pull.id);
    pull.hash = hash_id20(pull.id);
#define BEGIN() store_pull_begin(bed->fx->store, &pull, bed->fx->now_us, &entry, &offset)
    pull.meta_size = LIMIT_META_BYTES + 1;
    assert_status(NIGH_INVALID, BEGIN());
    pull.meta_size = 10;
    pull.name_size = 65536 + 5;
    assert_status(NIGH_INVALID, BEGIN());
    pull.name_size = 5;
    pull.data_size = UINT64_MAX - 5;
    assert_status(NIGH_INVALID, BEGIN());
    pull.data_size = 1024 * MIB;
    assert_status(NIGH_OUT_OF_MEMORY, BEGIN());
    assert_int_equal(fixture_stats(bed->fx).used_bytes, used);
    pull.data_size = 101;
    assert_status(NIGH_OK, BEGIN());
#undef BEGIN
    assert_status(NIGH_OK, store_pull_seal(bed->fx->store, 0, entry, 77, true, bed->fx->now_us));
    assert_true(see(bed, 1, &sight));
    assert_int_equal(sight.data_size, 101);
    assert_int_equal(sight.meta_size, 10);
    assert_int_equal(sight.name_size, 5);
    assert_int_equal(sight.bytes, index_object_bytes(101, 10, 5));
    assert_int_equal(sight.data_crc, 77);
}

static void an_abort_gives_all_back(void **state)
{
    struct bed *bed = *state;
    nigh_node_stats before, after;
    uint32_t entries[8];
    uint64_t offset;

    assert_status(NIGH_OK, pull(bed, 30, 100)); /* the node has its heap */
    before = fixture_stats(bed->fx);
    for (uint32_t n = 0; n < 8; n++) {
        assert_status(NIGH_OK, pull_begin(bed, n, 300 * KIB, &entries[n], &offset));
    }
    assert_int_equal(fixture_stats(bed->fx).used_bytes, before.used_bytes + 8 * 300 * KIB);
    assert_valid(bed);
    for (uint32_t n = 0; n < 8; n++) {
        store_pull_abort(bed->fx->store, 0, entries[n], bed->fx->now_us);
    }
    after = fixture_stats(bed->fx);
    assert_int_equal(after.used_bytes, before.used_bytes);
    assert_int_equal(after.unsealed_bytes, 0);
    assert_int_equal(after.objects_unsealed, 0);
    assert_valid(bed);
}

/* What is being pulled stays where it is, whoever needs memory. */
static void a_pull_keeps_its_memory(void **state)
{
    struct bed *bed = *state;
    uint64_t offset = 0;
    uint32_t entry = 0;

    assert_status(NIGH_OK, pull_begin(bed, 1, MIB, &entry, &offset));
    fixture_fill(bed->fx, 1, offset, MIB);
    press(bed, 100);
    assert_true(fixture_holds(bed->fx, 1, offset, MIB));
    fixture_close(bed->fx, C);
    fixture_pass(bed->fx, 10000);
    assert_true(fixture_holds(bed->fx, 1, offset, MIB));
    assert_status(NIGH_OK, pull_seal(bed, 1, MIB, entry, offset));
}

static void a_pull_makes_room(void **state)
{
    struct bed *bed = *state;

    press(bed, 100);
    for (uint64_t key = 0; key < 30; key++) {
        assert_status(NIGH_OK, pull(bed, key, (1 + key % 3) * MIB));
        assert_valid(bed);
    }
}

/* Ahead of need copies go first; but those that are kept, or in use, must not keep the rest from
 * the disk. */
static void copies_that_stay_do_not_stop_what_is_spilled_ahead(void **state)
{
    struct bed *bed = *state;
    struct session_cqe pin;
    uint64_t key = 1000;

    assert_status(NIGH_OK, pull(bed, 1, 1700 * KIB));
    assert_status(NIGH_OK, fixture_status(bed->fx, A, SESSION_OP_KEEP, 1));
    assert_status(NIGH_OK, pull(bed, 2, 100 * KIB));
    pin = fixture_get(bed->fx, A, 2, 0);
    assert_status(NIGH_OK, pin.status);
    while (fixture_stats(bed->fx).used_bytes < 16 * MIB - 400 * KIB) {
        assert_status(NIGH_OK, fixture_put(bed->fx, A, key++, 30 * KIB));
    }
    for (uint32_t turn = 0; turn < 20; turn++) {
        fixture_disk(bed->fx);
        fixture_pass(bed->fx, 10000);
    }
    assert_true(fixture_stats(bed->fx).used_bytes <= 15 * MIB);
    assert_true(fixture_stats(bed->fx).objects_spilled > 0);
    assert_status(NIGH_OK, fixture_status(bed->fx, A, SESSION_OP_CONTAINS, 2));
    fixture_unpin(bed->fx, A, pin.pin);
    assert_valid(bed);
}

static void a_pull_waits_for_pinned_memory(void **state)
{
    struct bed *bed = *state;
    struct session_cqe pins[64];
    uint64_t offset = 0;
    uint32_t entry = 0, count = 0;

    while (count < 64 && fixture_put(bed->fx, A, count, 512 * KIB) == NIGH_OK) {
        pins[count] = fixture_get(bed->fx, A, count, 0);
        assert_status(NIGH_OK, pins[count].status);
        count++;
    }
    assert_in_range(count, 8, 63);
    for (uint32_t n = 0; n < 20; n++) {
        assert_status(NIGH_PENDING, pull_begin(bed, 63, MIB, &entry, &offset));
        fixture_pass(bed->fx, 1000);
    }
    assert_valid(bed);
    for (uint32_t n = 0; n < count; n++) {
        fixture_unpin(bed->fx, A, pins[n].pin);
    }
    assert_status(NIGH_OK, pull(bed, 63, MIB));
}

static void a_pull_counts_in_the_pools_quota(void **state)
{
    struct bed *bed = *state;
    struct session_cqe pins[3];
    uint64_t offset = 0;
    uint32_t entry = 0, count = 0;

    assert_status(NIGH_QUOTA, pull_begin(bed, 1, 5 * MIB, &entry, &offset));
    for (uint64_t key = 0; key < 10; key++) {
        assert_status(NIGH_OK, pull(bed, key, MIB));
    }
    assert_int_equal(fixture_stats(bed->fx).objects, 4);
    for (uint64_t key = 0; key < 10 && count < 3; key++) {
        pins[count] = fixture_get(bed->fx, A, key, 0);
        count += pins[count].status == NIGH_OK;
    }
    assert_int_equal(count, 3);
    assert_status(NIGH_QUOTA, pull_begin(bed, 20, 2 * MIB, &entry, &offset));
    fixture_unpin(bed->fx, A, pins[0].pin);
    fixture_pass(bed->fx, 2000);
    assert_status(NIGH_OK, pull(bed, 20, 2 * MIB));
}

/* Four copies of a MiB: the pool's quota. All but one are lent. */
static void what_is_lent_does_not_hide_what_may_leave(void **state)
{
    struct bed *bed = *state;

    for (uint64_t spare = 0; spare < 4; spare++) {
        struct store_sight lent[4];
        uint64_t offset = 0;
        uint32_t entry = 0;

        for (uint64_t key = 0; key < 4; key++) {
            nigh_status status = pull(bed, key, MIB - KIB);

            assert_true(status == NIGH_OK || status == NIGH_EXISTS);
        }
        for (uint64_t key = 0; key < 4; key++) {
            assert_status(NIGH_OK, lend(bed, key, NULL, &lent[key]));
        }
        lend_end(bed, &lent[spare]);
        assert_status(NIGH_OK, pull_begin(bed, 20, MIB - KIB, &entry, &offset));
        assert_false(see(bed, spare, &lent[spare]));
        assert_valid(bed);
        store_pull_abort(bed->fx->store, 0, entry, bed->fx->now_us);
        for (uint64_t key = 0; key < 4; key++) {
            if (key != spare) {
                lend_end(bed, &lent[key]);
            }
        }
    }
}

/* What the lane itself holds goes by itself: who needs its room in the quota waits. */
static void a_pull_waits_for_room_that_the_lane_holds(void **state)
{
    struct bed *bed = *state;
    struct store_sight lent[2];
    struct session_cqe pin;
    uint64_t offset = 0;
    uint32_t entry = 0, pulled = 0;

    for (uint64_t key = 0; key < 3; key++) {
        assert_status(NIGH_OK, pull(bed, key, MIB - KIB));
    }
    assert_status(NIGH_OK, pull_begin(bed, 3, MIB - KIB, &pulled, &offset));
    assert_status(NIGH_OK, lend(bed, 0, NULL, &lent[0]));
    assert_status(NIGH_OK, lend(bed, 1, NULL, &lent[1]));
    pin = fixture_get(bed->fx, A, 2, 0);
    assert_status(NIGH_OK, pin.status);
    assert_status(NIGH_PENDING, pull_begin(bed, 20, MIB, &entry, &offset));
    assert_status(NIGH_PENDING, pull_begin(bed, 20, 3 * MIB, &entry, &offset));
    assert_status(NIGH_QUOTA, pull_begin(bed, 20, 4 * MIB - KIB, &entry, &offset));
    assert_valid(bed);
    store_pull_abort(bed->fx->store, 0, pulled, bed->fx->now_us);
    assert_status(NIGH_OK, pull_begin(bed, 20, MIB, &entry, &offset));
    store_pull_abort(bed->fx->store, 0, entry, bed->fx->now_us);
    assert_status(NIGH_PENDING, pull_begin(bed, 20, 3 * MIB, &entry, &offset));
    lend_end(bed, &lent[0]);
    lend_end(bed, &lent[1]);
    assert_status(NIGH_OK, pull(bed, 20, 3 * MIB));
    assert_status(NIGH_QUOTA, pull_begin(bed, 21, 4 * MIB - KIB, &entry, &offset));
    fixture_unpin(bed->fx, A, pin.pin);
}

static void what_is_here_is_not_pulled(void **state)
{
    struct bed *bed = *state;
    uint64_t offset = 0;
    uint32_t entry = 0;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, 100));
    assert_status(NIGH_EXISTS, pull_begin(bed, 1, 100, &entry, &offset));
    spill_all(bed);
    assert_status(NIGH_EXISTS, pull_begin(bed, 1, 100, &entry, &offset));
    assert_status(NIGH_OK, pull(bed, 2, 100));
    assert_status(NIGH_EXISTS, pull_begin(bed, 2, 100, &entry, &offset));
}

static void a_birth_meanwhile_ends_the_copy(void **state)
{
    struct bed *bed = *state;
    uint32_t get = submit(bed, A, SESSION_OP_GET, 1, 5000), entry = 0;
    uint64_t offset = 0, used;
    struct store_sight sight;

    assert_status(NIGH_OK, pull_begin(bed, 1, 100 * KIB, &entry, &offset));
    used = fixture_stats(bed->fx).used_bytes;
    assert_status(NIGH_OK, fixture_put(bed->fx, B, 1, 50));
    assert_status(NIGH_OK, end_of(bed, get));
    assert_status(NIGH_EXISTS, pull_seal(bed, 1, 100 * KIB, entry, offset));
    assert_true(see(bed, 1, &sight));
    assert_false(sight.is_copy);
    assert_int_equal(sight.data_size, 50);
    assert_true(fixture_holds(bed->fx, 1, sight.offset, 50));
    assert_int_equal(fixture_stats(bed->fx).used_bytes, used - 100 * KIB + 64);
    assert_int_equal(fixture_stats(bed->fx).objects_unsealed, 0);
}

/* Creating does not keep copies away; the seal then comes second. */
static void a_copy_meanwhile_ends_a_create(void **state)
{
    struct bed *bed = *state;
    struct session_cqe made = fixture_create_key(bed->fx, A, 1, 100, 0, 0);

    assert_status(NIGH_OK, pull(bed, 1, 200));
    assert_status(NIGH_EXISTS, fixture_seal(bed->fx, A, made.ref));
    assert_birth(far_birth(1), birth_here(bed, 1));
}

/* A claim does; if it comes to nothing, who waits is told of again. */
static void a_claim_given_up_is_wanted_again(void **state)
{
    struct bed *bed = *state;
    uint64_t offset = 0;
    uint32_t entry = 0, early, get;
    struct session_cqe made;

    assert_status(NIGH_OK, pull_begin(bed, 1, 100, &entry, &offset));
    made = fixture_create_key(bed->fx, C, 1, 100, SESSION_FLAG_EXCLUSIVE, 0);
    assert_status(NIGH_OK, made.status);
    early = submit(bed, A, SESSION_OP_GET, 1, 100000);
    get = submit(bed, B, SESSION_OP_GET, 1, 200000);
    assert_int_equal(bed->notes[1].wants, 2);
    assert_status(NIGH_EXISTS, pull_seal(bed, 1, 100, entry, offset));
    assert_status(NIGH_EXISTS, pull_begin(bed, 1, 100, &entry, &offset));
    fixture_close(bed->fx, C);
    assert_int_equal(bed->notes[1].wants, 4);
    assert_int_equal(bed->notes[1].deadline_us, bed->fx->now_us + 200000);
    assert_status(NIGH_OK, pull(bed, 1, 100));
    assert_status(NIGH_OK, end_of(bed, early));
    assert_status(NIGH_OK, end_of(bed, get));
}

/* ---- copies and the disk -------------------------------------------------- */

static void copies_go_before_anything_is_spilled(void **state)
{
    struct bed *bed = *state;
    struct store_sight sight;
    struct session_cqe got;
    uint64_t key = 0;

    /* Born, the oldest; copies, one of them pinned. */
    for (; key < 4; key++) {
        assert_status(NIGH_OK, fixture_put(bed->fx, A, key, MIB));
    }
    for (; key < 10; key++) {
        assert_status(NIGH_OK, pull(bed, key, MIB));
    }
    assert_int_equal(bed->fx->job_count, 0);
    got = fixture_get(bed->fx, A, 4, 0);
    assert_status(NIGH_OK, got.status);
    while (see(bed, 5, &sight) || see(bed, 6, &sight) || see(bed, 7, &sight) ||
           see(bed, 8, &sight) || see(bed, 9, &sight)) {
        struct session_sqe evict = {.op = SESSION_OP_EVICT, .argument = MIB};

        fixture_do(bed->fx, A, evict);
        assert_int_equal(bed->fx->job_count, 0);
        assert_valid(bed);
    }
    assert_int_equal(fixture_stats(bed->fx).evictions, 5);
    assert_true(see(bed, 4, &sight));
    assert_true(fixture_holds(bed->fx, 4, got.offset, MIB));
    assert_birth(far_birth(9), bed->notes[9].gone);
    assert_int_equal(bed->notes[4].goes, 0);
    spill_all(bed);
    for (key = 0; key < 4; key++) {
        assert_true(see(bed, key, &sight));
        assert_false(sight.in_memory);
    }
    assert_true(see(bed, 4, &sight));
    fixture_unpin(bed->fx, A, got.pin);
    fixture_pass(bed->fx, 5000);
    spill_all(bed);
    assert_false(see(bed, 4, &sight));
    assert_int_equal(fixture_stats(bed->fx).spills, 4);
}

/* Spilled objects keep their entries; copies make room for them there, too. */
static void copies_give_their_entries(void **state)
{
    struct bed *bed = *state;
    uint64_t key = 0;

    for (; key < 20; key++) {
        assert_status(NIGH_OK, pull(bed, key, 100));
    }
    for (; key < 64; key++) {
        assert_status(NIGH_OK, fixture_put(bed->fx, A, key, 100));
    }
    assert_status(NIGH_OK, fixture_put(bed->fx, A, 64, 100));
    assert_valid(bed);
    assert_status(NIGH_OK, fixture_put(bed->fx, A, 65, 100));
}

static void a_copy_leaves_where_nothing_is_spilled(void **state)
{
    struct bed *bed = *state;

    assert_status(NIGH_OK, pull(bed, 1, MIB));
    press(bed, 100);
    press(bed, 200);
    assert_false(see(bed, 1, &(struct store_sight){0}));
    assert_int_equal(bed->notes[1].goes, 1);
    assert_birth(far_birth(1), bed->notes[1].gone);
}

/* ---- restart -------------------------------------------------------------- */

static void a_restart_drops_copies(void **state)
{
    struct bed *bed = *state;
    uint32_t entry = 0, held = 0;
    uint64_t offset = 0, place;
    struct store_sight sight;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, 100));
    assert_status(NIGH_OK, pull(bed, 2, MIB));
    assert_status(NIGH_OK, pull(bed, 3, MIB));
    assert_status(NIGH_OK, pull_begin(bed, 4, MIB, &entry, &offset));
    assert_int_equal(fixture_acquire(bed->fx, A, 3, 0, &held), INDEX_HIT);
    assert_true(see(bed, 3, &sight));
    place = sight.offset;
    fixture_kill(bed->fx);
    memset(bed->notes, 0, sizeof(bed->notes));
    fixture_restart(bed->fx);
    join(bed);
    fixture_reopen(bed->fx, A);
    fixture_forget(bed->fx, B);
    fixture_forget(bed->fx, C);
    fixture_pass(bed->fx, 5000);
    assert_valid(bed);
    assert_true(see(bed, 1, &sight));
    assert_false(see(bed, 2, &sight));
    assert_false(see(bed, 3, &sight));
    /* A reader keeps what it has. */
    assert_int_equal(fixture_stats(bed->fx).objects_deleting, 1);
    assert_int_equal(fixture_stats(bed->fx).objects_unsealed, 0);
    assert_true(fixture_holds(bed->fx, 3, place, MIB));
    assert_status(NIGH_OK, pull(bed, 3, 100));
    fixture_release(bed->fx, A, 0);
    fixture_pass(bed->fx, 5000);
    assert_int_equal(fixture_stats(bed->fx).objects_deleting, 0);
    assert_int_equal(fixture_stats(bed->fx).objects, 2);
    assert_int_equal(bed->notes[2].goes + bed->notes[3].goes + bed->notes[4].goes, 0);
}

/* ---- drops ---------------------------------------------------------------- */

static void a_drop_deletes_one_birth(void **state)
{
    struct bed *bed = *state;
    struct birth birth;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, 100));
    birth = birth_here(bed, 1);
    assert_status(NIGH_NOT_FOUND, drop(bed, 1, (struct birth){.rank = FIXTURE_RANK}));
    assert_status(NIGH_NOT_FOUND, drop(bed, 2, birth));
    assert_status(NIGH_OK, drop(bed, 1, birth));
    assert_status(NIGH_NOT_FOUND, drop(bed, 1, birth));
    assert_int_equal(bed->notes[1].goes, 1);
    assert_int_equal(bed->notes[1].erases, 0);
    assert_int_equal(fixture_stats(bed->fx).objects, 0);
    assert_int_equal(fixture_stats(bed->fx).objects_deleting, 0);
    assert_status(NIGH_OK, pull(bed, 1, 100));
    assert_status(NIGH_OK, drop(bed, 1, far_birth(1)));
    assert_status(NIGH_NOT_FOUND, fixture_status(bed->fx, A, SESSION_OP_STAT, 1));
}

static void a_drop_leaves_readers_what_they_have(void **state)
{
    struct bed *bed = *state;
    struct birth birth = far_birth(1);
    struct store_sight sight;
    struct session_cqe got;

    assert_status(NIGH_OK, pull(bed, 1, 100));
    got = fixture_get(bed->fx, A, 1, 0);
    assert_status(NIGH_OK, lend(bed, 1, &birth, &sight));
    assert_status(NIGH_IN_USE, drop(bed, 1, birth));
    assert_status(NIGH_IN_USE, drop(bed, 1, birth));
    assert_int_equal(bed->notes[1].goes, 1);
    fixture_unpin(bed->fx, A, got.pin);
    fixture_pass(bed->fx, 5000);
    assert_status(NIGH_IN_USE, drop(bed, 1, birth));
    assert_true(fixture_holds(bed->fx, 1, got.offset, 100));
    lend_end(bed, &sight);
    fixture_tick(bed->fx);
    assert_status(NIGH_NOT_FOUND, drop(bed, 1, birth));
}

static void a_drop_forgets_the_file(void **state)
{
    struct bed *bed = *state;
    struct store_sight sight;
    struct birth birth;
    uint32_t get;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, 100));
    assert_status(NIGH_OK, fixture_put(bed->fx, A, 2, 100));
    spill_all(bed);
    birth = birth_here(bed, 1);
    assert_status(NIGH_OK, drop(bed, 1, birth));
    assert_int_equal(bed->fx->forgotten, 1);
    assert_int_equal(bed->notes[1].goes, 1);
    /* One that is being read: who waits for it wants it from elsewhere then. */
    birth = birth_here(bed, 2);
    get = submit(bed, A, SESSION_OP_GET, 2, NIGH_FOREVER);
    assert_int_equal(bed->fx->job_count, 1);
    assert_status(NIGH_IN_USE, drop(bed, 2, birth));
    assert_false(see(bed, 2, &sight));
    assert_status(NIGH_NOT_FOUND, lend(bed, 2, NULL, &sight));
    assert_int_equal(bed->notes[2].wants, 0);
    assert_valid(bed);
    fixture_disk(bed->fx);
    assert_valid(bed);
    assert_int_equal(bed->notes[2].goes, 1);
    assert_int_equal(bed->notes[2].wants, 1);
    assert_int_equal(bed->fx->forgotten, 2);
    assert_false(fixture_ended(bed->fx, get));
    assert_status(NIGH_OK, pull(bed, 2, 100));
    assert_status(NIGH_OK, end_of(bed, get));
}

/* What came second is told as a conflict, also when it was being read back, and whatever is said of
 * it afterwards; and what was deleted as deleted. */
static void why_it_was_dropped_outlasts_its_read(void **state)
{
    struct bed *bed = *state;
    struct session_sqe watch = {.op = SESSION_OP_SUBSCRIBE, .argument = NIGH_SUBSCRIBE_CONFLICTS};
    struct birth births[5];

    assert_status(NIGH_OK, fixture_do(bed->fx, B, watch).status);
    for (uint64_t key = 1; key <= 4; key++) {
        assert_status(NIGH_OK, fixture_put(bed->fx, A, key, 100));
    }
    spill_all(bed);
    for (uint64_t key = 1; key <= 4; key++) {
        births[key] = birth_here(bed, key);
        (void)submit(bed, A, SESSION_OP_GET, key, NIGH_FOREVER);
        assert_status(NIGH_IN_USE, drop_as(bed, key, births[key], key % 2 == 1));
        assert_valid(bed);
    }
    assert_int_equal(bed->fx->job_count, 4);
    assert_status(NIGH_IN_USE, drop_as(bed, 3, births[3], false));
    assert_status(NIGH_IN_USE, drop_as(bed, 4, births[4], true));
    fixture_disk(bed->fx);
    assert_valid(bed);
    for (uint64_t key = 1; key <= 4; key++) {
        assert_int_equal(fixture_events(bed->fx, B, NIGH_EVENT_CONFLICT, key), key % 2);
        assert_int_equal(fixture_events(bed->fx, B, NIGH_EVENT_DELETED, key), 1 - key % 2);
    }
}

/* ---- deletes -------------------------------------------------------------- */

enum here {
    ABSENT,
    IN_MEMORY,
    PINNED,
    ON_DISK,
    UNSEALED
};

#define NO_ANSWER NIGH_PENDING /* there is nobody to ask */

static const struct {
    enum here here;
    nigh_status remote;
    nigh_status said; /* to the other nodes */
    nigh_status end;
} erases[] = {
    {ABSENT, NO_ANSWER, NIGH_NOT_FOUND, NIGH_NOT_FOUND},
    {ABSENT, NIGH_NOT_FOUND, NIGH_NOT_FOUND, NIGH_NOT_FOUND},
    {ABSENT, NIGH_OK, NIGH_NOT_FOUND, NIGH_OK},
    {ABSENT, NIGH_IN_USE, NIGH_NOT_FOUND, NIGH_IN_USE},
    {ABSENT, NIGH_TIMEOUT, NIGH_NOT_FOUND, NIGH_TIMEOUT},
    {ABSENT, NIGH_PEER_LOST, NIGH_NOT_FOUND, NIGH_PEER_LOST},
    {IN_MEMORY, NO_ANSWER, NIGH_OK, NIGH_OK},
    {IN_MEMORY, NIGH_NOT_FOUND, NIGH_OK, NIGH_OK},
    {IN_MEMORY, NIGH_OK, NIGH_OK, NIGH_OK},
    {IN_MEMORY, NIGH_IN_USE, NIGH_OK, NIGH_IN_USE},
    {IN_MEMORY, NIGH_TIMEOUT, NIGH_OK, NIGH_TIMEOUT},
    {PINNED, NO_ANSWER, NIGH_IN_USE, NIGH_IN_USE},
    {PINNED, NIGH_NOT_FOUND, NIGH_IN_USE, NIGH_IN_USE},
    {PINNED, NIGH_OK, NIGH_IN_USE, NIGH_IN_USE},
    {PINNED, NIGH_TIMEOUT, NIGH_IN_USE, NIGH_TIMEOUT},
    {ON_DISK, NO_ANSWER, NIGH_OK, NIGH_OK},
    {ON_DISK, NIGH_NOT_FOUND, NIGH_OK, NIGH_OK},
    {ON_DISK, NIGH_IN_USE, NIGH_OK, NIGH_IN_USE},
    {UNSEALED, NO_ANSWER, NIGH_NOT_FOUND, NIGH_NOT_SEALED},
    {UNSEALED, NIGH_NOT_FOUND, NIGH_NOT_FOUND, NIGH_NOT_SEALED},
    {UNSEALED, NIGH_OK, NIGH_NOT_FOUND, NIGH_OK},
    {UNSEALED, NIGH_TIMEOUT, NIGH_NOT_FOUND, NIGH_TIMEOUT},
};

static void bring_here(struct bed *bed, uint64_t key, enum here here)
{
    if (here == ABSENT) {
        return;
    }
    if (here == UNSEALED) {
        assert_status(NIGH_OK, fixture_create_key(bed->fx, A, key, 100, 0, 0).status);
        return;
    }
    assert_status(NIGH_OK, fixture_put(bed->fx, A, key, 100));
    if (here == PINNED) {
        assert_status(NIGH_OK, fixture_get(bed->fx, B, key, 0).status);
    } else if (here == ON_DISK) {
        spill_all(bed);
    }
}

static void a_delete_ends_with_both_halves(void **state)
{
    struct bed *bed = *state;

    for (uint64_t n = 0; n < sizeof(erases) / sizeof(erases[0]); n++) {
        const struct notes *notes = &bed->notes[n];
        uint32_t cookie;

        bring_here(bed, n, erases[n].here);
        bed->answers = erases[n].remote != NO_ANSWER;
        cookie = submit(bed, A, SESSION_OP_DELETE, n, 0);
        fixture_tick(bed->fx);
        assert_status(erases[n].said, notes->local);
        if (bed->answers) {
            fixture_pass(bed->fx, 3000);
            assert_false(fixture_ended(bed->fx, cookie));
            assert_int_equal(notes->erases, 1);
            assert_valid(bed);
            erased(bed, n, erases[n].remote);
        }
        assert_status(erases[n].end, end_of(bed, cookie));
        assert_int_equal(notes->goes, erases[n].here != ABSENT && erases[n].here != UNSEALED);
        assert_valid(bed);
    }
}

/* Two that ask at once are answered by one; who comes while one is under way has another. */
static void deletes_of_one_id_end_once_each(void **state)
{
    struct bed *bed = *state;
    uint32_t first, second, third, fourth, other;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, 100));
    first = submit(bed, A, SESSION_OP_DELETE, 1, 0);
    fixture_tick(bed->fx);
    assert_int_equal(bed->notes[1].erases, 1);
    assert_status(NIGH_OK, fixture_put(bed->fx, C, 1, 100));
    second = submit(bed, B, SESSION_OP_DELETE, 1, 0);
    third = submit(bed, C, SESSION_OP_DELETE, 1, 0);
    other = submit(bed, C, SESSION_OP_DELETE, 2, 0);
    fixture_tick(bed->fx);
    assert_int_equal(bed->notes[1].erases, 1);
    erased(bed, 1, NIGH_NOT_FOUND);
    assert_status(NIGH_OK, end_of(bed, first));
    assert_false(fixture_ended(bed->fx, second) || fixture_ended(bed->fx, third));
    assert_int_equal(bed->notes[1].erases, 2);
    fourth = submit(bed, A, SESSION_OP_DELETE, 1, 0);
    erased(bed, 1, NIGH_TIMEOUT);
    assert_status(NIGH_TIMEOUT, end_of(bed, second));
    assert_status(NIGH_TIMEOUT, end_of(bed, third));
    assert_false(fixture_ended(bed->fx, fourth) || fixture_ended(bed->fx, other));
    assert_int_equal(bed->notes[1].erases, 3);
    /* Nobody is there to ask when its turn comes. */
    third = submit(bed, C, SESSION_OP_DELETE, 1, 0);
    bed->answers = false;
    erased(bed, 1, NIGH_OK);
    assert_status(NIGH_OK, end_of(bed, fourth));
    assert_status(NIGH_NOT_FOUND, end_of(bed, third));
    erased(bed, 2, NIGH_IN_USE);
    assert_status(NIGH_IN_USE, end_of(bed, other));
    erased(bed, 2, NIGH_OK); /* nobody */
}

static void assert_refused(struct bed *bed, uint64_t key)
{
    uint32_t cookie = submit(bed, B, SESSION_OP_DELETE, key, 0);

    assert_true(fixture_ended(bed->fx, cookie));
    assert_status(NIGH_LIMIT, end_of(bed, cookie));
}

/* A delete that could not be told to the other nodes does not begin: nothing changes. */
static void a_delete_without_room_elsewhere_changes_nothing(void **state)
{
    struct bed *bed = *state;
    uint32_t cookies[3];

    bed->room = 3;
    for (uint64_t key = 1; key <= 4; key++) {
        assert_status(NIGH_OK, fixture_put(bed->fx, A, key, 100));
    }
    /* Those that wait for their look at the pins have theirs, though they have not begun. */
    for (uint32_t n = 0; n < 3; n++) {
        cookies[n] = submit(bed, A, SESSION_OP_DELETE, n + 1, 0);
    }
    assert_valid(bed);
    assert_refused(bed, 4);
    assert_refused(bed, 60);
    fixture_tick(bed->fx);
    assert_int_equal(bed->notes[3].erases, 1);
    assert_refused(bed, 4);
    assert_int_equal(bed->notes[4].goes + bed->notes[4].erases, 0);
    assert_status(NIGH_OK, fixture_get(bed->fx, B, 4, 0).status);
    bed->notes[2].asked--; /* before it is told */
    erased(bed, 2, NIGH_OK);
    assert_status(NIGH_OK, end_of(bed, cookies[1]));
    cookies[1] = submit(bed, B, SESSION_OP_DELETE, 4, 0);
    fixture_tick(bed->fx);
    erased(bed, 4, NIGH_OK);
    assert_status(NIGH_IN_USE, end_of(bed, cookies[1]));
    erased(bed, 1, NIGH_OK);
    erased(bed, 3, NIGH_OK);
    assert_valid(bed);
}

/* Why a get waits is what it ends with, for as long as that is so. */
static void a_get_ends_with_why_it_waited(void **state)
{
    struct bed *bed = *state;
    uint8_t id[LIMIT_ID_BYTES];
    uint32_t first = submit(bed, A, SESSION_OP_GET, 1, 5000);
    uint32_t second = submit(bed, B, SESSION_OP_GET, 1, 20000);
    uint32_t other = submit(bed, B, SESSION_OP_GET, 2, 5000);

    fixture_id(1, id);
    store_note_wanted(bed->fx->store, 0, id, hash_id20(id), NIGH_OUT_OF_MEMORY);
    fixture_pass(bed->fx, 6000);
    assert_status(NIGH_OUT_OF_MEMORY, end_of(bed, first));
    assert_status(NIGH_TIMEOUT, end_of(bed, other));
    assert_int_equal(fixture_stats(bed->fx).out_of_memory, 1);
    store_note_wanted(bed->fx->store, 0, id, hash_id20(id), NIGH_TIMEOUT);
    fixture_pass(bed->fx, 20000);
    assert_status(NIGH_TIMEOUT, end_of(bed, second));
}

static void a_delete_at_other_nodes_cannot_be_canceled(void **state)
{
    struct bed *bed = *state;
    uint32_t cookie = submit(bed, A, SESSION_OP_DELETE, 1, 0);

    assert_status(NIGH_NOT_FOUND, cancel(bed, A, cookie));
    assert_false(fixture_ended(bed->fx, cookie));
    erased(bed, 1, NIGH_OK);
    assert_status(NIGH_OK, end_of(bed, cookie));
}

/* A client that dies does not leave elsewhere what it had deleted here. */
static void the_end_of_a_session_ends_no_delete_halfway(void **state)
{
    struct bed *bed = *state;
    uint32_t cookie;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, 100));
    submit(bed, C, SESSION_OP_DELETE, 1, 0);
    submit(bed, C, SESSION_OP_DELETE, 2, 0);
    submit(bed, C, SESSION_OP_DELETE, 2, 0);
    assert_int_equal(bed->notes[1].erases, 0);
    assert_int_equal(bed->notes[2].erases, 1);
    fixture_close(bed->fx, C);
    assert_int_equal(bed->notes[1].erases, 1);
    assert_int_equal(bed->notes[2].erases, 2);
    erased(bed, 1, NIGH_OK);
    cookie = submit(bed, A, SESSION_OP_DELETE, 2, 0);
    erased(bed, 2, NIGH_NOT_FOUND);
    assert_status(NIGH_NOT_FOUND, end_of(bed, cookie));
    erased(bed, 2, NIGH_NOT_FOUND);
    fixture_tick(bed->fx);
    assert_int_equal(fixture_stats(bed->fx).waiting, 0);
}

/* A get of an id whose delete is under way waits for the next one of the id. */
static void a_seal_does_not_end_a_delete(void **state)
{
    struct bed *bed = *state;
    uint32_t delete_cookie = submit(bed, A, SESSION_OP_DELETE, 1, 0);
    uint32_t get = submit(bed, B, SESSION_OP_GET, 1, 5000);

    assert_int_equal(bed->notes[1].wants, 1);
    assert_status(NIGH_OK, pull(bed, 1, 100));
    assert_status(NIGH_OK, end_of(bed, get));
    assert_false(fixture_ended(bed->fx, delete_cookie));
    erased(bed, 1, NIGH_OK);
    assert_status(NIGH_OK, end_of(bed, delete_cookie));
}

/* ---- copies that do not stay ---------------------------------------------- */

#define PASSING_BYTES (100 * KIB)

static uint64_t used_bytes(struct bed *bed)
{
    return fixture_stats(bed->fx).used_bytes;
}

/* Whether nobody finds an object of a key here. */
static bool is_in_nobodys_sight(struct bed *bed, uint64_t key)
{
    uint32_t cursor = 0, entry;
    struct store_sight sight;

    while (store_next(bed->fx->store, 0, &cursor, &sight)) {
        if (sight.entry != UINT32_MAX && key_of(sight.id) == key) {
            return false;
        }
    }
    return !see(bed, key, &sight) && lend(bed, key, NULL, &sight) == NIGH_NOT_FOUND &&
           fixture_acquire(bed->fx, C, key, 0, &entry) == INDEX_MISS &&
           fixture_status(bed->fx, C, SESSION_OP_CONTAINS, key) == NIGH_NOT_FOUND &&
           fixture_status(bed->fx, C, SESSION_OP_KEEP, key) == NIGH_NOT_FOUND &&
           fixture_status(bed->fx, C, SESSION_OP_CHECKSUM, key) == NIGH_NOT_FOUND;
}

/* A view of `session` of what was pulled for it alone. */
static struct session_cqe passing(struct bed *bed, uint32_t session, uint64_t key)
{
    uint32_t get = pass_by(bed, session, key, 5000);

    assert_status(NIGH_IN_USE, pull(bed, key, PASSING_BYTES));
    assert_status(NIGH_OK, end_of(bed, get));
    return fixture_completion(bed->fx, get);
}

static void a_copy_that_nobody_wants_goes_with_its_last_view(void **state)
{
    struct bed *bed = *state;
    uint64_t before = used_bytes(bed);
    uint32_t first, second;
    struct session_cqe views[2];

    (void)fixture_status(bed->fx, C, SESSION_OP_SUBSCRIBE, 0);
    first = pass_by(bed, A, 1, 5000);
    assert_false(bed->notes[1].keep);
    second = pass_by(bed, B, 1, 5000);
    assert_status(NIGH_IN_USE, pull(bed, 1, PASSING_BYTES));
    views[0] = fixture_completion(bed->fx, first);
    views[1] = fixture_completion(bed->fx, second);
    for (uint32_t n = 0; n < 2; n++) {
        assert_status(NIGH_OK, views[n].status);
        assert_int_equal(views[n].data_size, PASSING_BYTES);
        assert_true(fixture_holds(bed->fx, 1, views[n].offset, PASSING_BYTES));
    }
    assert_true(is_in_nobodys_sight(bed, 1));
    assert_int_equal(fixture_do(bed->fx, C, fixture_sqe(SESSION_OP_STAT, 1)).data_size, 2);
    assert_valid(bed);
    fixture_unpin(bed->fx, A, views[0].pin);
    fixture_pass(bed->fx, 5000);
    assert_true(used_bytes(bed) > before);
    assert_true(fixture_holds(bed->fx, 1, views[1].offset, PASSING_BYTES));
    fixture_unpin(bed->fx, B, views[1].pin);
    fixture_pass(bed->fx, 5000);
    assert_int_equal(used_bytes(bed), before);
    assert_status(NIGH_NOT_FOUND, fixture_do(bed->fx, C, fixture_sqe(SESSION_OP_STAT, 1)).status);
    assert_int_equal(bed->notes[1].goes, 0); /* nobody was told that it came */
    assert_int_equal(fixture_events(bed->fx, C, NIGH_EVENT_SEALED, 1), 0);
    assert_int_equal(fixture_events(bed->fx, C, NIGH_EVENT_DELETED, 1), 0);
}

static void what_is_here_stays_as_it_is(void **state)
{
    struct bed *bed = *state;
    uint32_t get;

    assert_status(NIGH_OK, fixture_put(bed->fx, A, 1, 100));
    assert_status(NIGH_OK, pull(bed, 2, 100));
    for (uint64_t key = 1; key <= 2; key++) {
        get = pass_by(bed, B, key, 0);
        assert_status(NIGH_OK, end_of(bed, get));
        fixture_unpin(bed->fx, B, fixture_completion(bed->fx, get).pin);
        fixture_pass(bed->fx, 5000);
        assert_true(see(bed, key, &(struct store_sight){0}));
        assert_int_equal(bed->notes[key].wants, 0);
    }
    assert_status(NIGH_TIMEOUT, end_of(bed, pass_by(bed, B, 3, 0)));
}

static void one_of_a_pull_who_wants_a_copy_has_it(void **state)
{
    struct bed *bed = *state;

    for (uint64_t key = 1; key <= 2; key++) {
        uint32_t plain = key == 1 ? submit(bed, A, SESSION_OP_GET, key, 5000) : 0;
        uint32_t passes = pass_by(bed, B, key, 5000);

        plain = key == 2 ? submit(bed, A, SESSION_OP_GET, key, 5000) : plain;
        assert_status(NIGH_OK, pull(bed, key, 100));
        fixture_unpin(bed->fx, A, fixture_completion(bed->fx, plain).pin);
        fixture_unpin(bed->fx, B, fixture_completion(bed->fx, passes).pin);
        fixture_pass(bed->fx, 5000);
        assert_birth(far_birth(key), birth_here(bed, key));
    }
    /* One who has left wants nothing. */
    assert_status(NIGH_OK, cancel(bed, A, submit(bed, A, SESSION_OP_GET, 3, 5000)));
    (void)passing(bed, A, 3);
    assert_true(is_in_nobodys_sight(bed, 3));
}

static void what_is_held_serves_others_when_its_birth_is_the_one(void **state)
{
    struct bed *bed = *state;
    struct session_cqe view = passing(bed, A, 1), other;
    uint32_t get;

    assert_status(NIGH_NOT_FOUND, reuse(bed, 1, far_birth(1))); /* for nobody */
    get = pass_by(bed, B, 1, 5000);
    assert_status(NIGH_NOT_FOUND, reuse(bed, 1, far_birth(2)));
    assert_false(fixture_ended(bed->fx, get));
    assert_status(NIGH_IN_USE, reuse(bed, 1, far_birth(1)));
    other = fixture_completion(bed->fx, get);
    assert_int_equal(other.offset, view.offset);
    fixture_unpin(bed->fx, A, view.pin);
    fixture_pass(bed->fx, 5000);
    assert_true(is_in_nobodys_sight(bed, 1));
    /* And now somebody wants it to stay. */
    get = submit(bed, C, SESSION_OP_GET, 1, 5000);
    assert_status(NIGH_OK, reuse(bed, 1, far_birth(1)));
    assert_int_equal(fixture_completion(bed->fx, get).offset, other.offset);
    assert_valid(bed);
    fixture_unpin(bed->fx, B, other.pin);
    fixture_unpin(bed->fx, C, fixture_completion(bed->fx, get).pin);
    fixture_pass(bed->fx, 5000);
    assert_birth(far_birth(1), birth_here(bed, 1));
    assert_status(NIGH_OK, drop(bed, 1, far_birth(1)));
    assert_int_equal(bed->notes[1].goes, 1);
    assert_int_equal(used_bytes(bed), 0);
}

static void what_was_deleted_serves_nobody_else(void **state)
{
    struct bed *bed = *state;
    struct session_cqe view = passing(bed, A, 1);
    uint32_t erase = submit(bed, B, SESSION_OP_DELETE, 1, 0);

    assert_int_equal(bed->notes[1].local, NIGH_IN_USE);
    bed->notes[1].asked--;
    erased(bed, 1, NIGH_OK);
    assert_status(NIGH_IN_USE, end_of(bed, erase));
    submit(bed, B, SESSION_OP_GET, 1, 5000);
    assert_status(NIGH_NOT_FOUND, reuse(bed, 1, far_birth(1)));
    fixture_pass(bed->fx, 10000);
    assert_true(fixture_holds(bed->fx, 1, view.offset, PASSING_BYTES));
    fixture_unpin(bed->fx, A, view.pin);
    fixture_pass(bed->fx, 5000);
    assert_int_equal(used_bytes(bed), 0);
    /* The same for another node's sake. */
    view = passing(bed, A, 2);
    assert_status(NIGH_IN_USE, drop(bed, 2, far_birth(2)));
    submit(bed, B, SESSION_OP_GET, 2, 5000);
    assert_status(NIGH_NOT_FOUND, reuse(bed, 2, far_birth(2)));
    fixture_unpin(bed->fx, A, view.pin);
    /* What nobody holds any more is not in use. */
    erase = submit(bed, B, SESSION_OP_DELETE, 2, 0);
    assert_int_equal(bed->notes[2].local, NIGH_NOT_FOUND);
    erased(bed, 2, NIGH_NOT_FOUND);
    assert_status(NIGH_NOT_FOUND, end_of(bed, erase));
    fixture_pass(bed->fx, 5000);
    assert_int_equal(used_bytes(bed), 0);
}

static void a_pull_that_nobody_waits_for_leaves_what_was_asked_for(void **state)
{
    struct bed *bed = *state;
    uint64_t offset;
    uint32_t entry;

    assert_status(NIGH_OK, pull_begin(bed, 1, 100, &entry, &offset));
    assert_status(NIGH_NOT_FOUND,
                  store_pull_seal(bed->fx->store, 0, entry, 77, false, bed->fx->now_us));
    assert_int_equal(used_bytes(bed), 0);
    assert_status(NIGH_OK, pull(bed, 1, 100));
    assert_true(see(bed, 1, &(struct store_sight){0}));
}

static void a_death_takes_along_what_was_not_to_stay(void **state)
{
    struct bed *bed = *state;
    struct session_cqe view;

    (void)passing(bed, A, 1);
    fixture_close(bed->fx, A);
    fixture_tick(bed->fx);
    assert_int_equal(used_bytes(bed), 0);
    /* A node that comes back keeps it for who holds it, and for nobody else. */
    view = passing(bed, B, 2);
    (void)passing(bed, C, 3);
    fixture_kill(bed->fx);
    fixture_restart(bed->fx);
    join(bed);
    fixture_reopen(bed->fx, B);
    fixture_forget(bed->fx, C);
    fixture_pass(bed->fx, 5000);
    assert_true(fixture_holds(bed->fx, 2, view.offset, PASSING_BYTES));
    assert_int_equal(fixture_stats(bed->fx).objects_deleting, 1);
    submit(bed, B, SESSION_OP_GET, 2, 5000);
    assert_status(NIGH_NOT_FOUND, reuse(bed, 2, far_birth(2)));
    fixture_unpin(bed->fx, B, view.pin);
    fixture_pass(bed->fx, 5000);
    assert_int_equal(used_bytes(bed), 0);
}

static void what_is_not_to_stay_is_neither_evicted_nor_free(void **state)
{
    struct bed *bed = *state;
    struct session_cqe view = passing(bed, A, 1);
    uint32_t entry = 0;
    uint64_t offset;

    spill_all(bed);
    assert_true(fixture_holds(bed->fx, 1, view.offset, PASSING_BYTES));
    assert_int_equal(fixture_stats(bed->fx).objects_spilled, 0);
    /* The pool pays, no session. */
    assert_int_equal(bed->fx->clients[A].quota_used, 0);
    assert_status(NIGH_QUOTA, pull_begin(bed, 2, 4 * MIB - KIB, &entry, &offset));
    fixture_unpin(bed->fx, A, view.pin);
    fixture_pass(bed->fx, 5000);
    assert_status(NIGH_OK, pull_begin_at_last(bed, 2, 4 * MIB - KIB, &entry, &offset));
    store_pull_abort(bed->fx->store, 0, entry, bed->fx->now_us);
}

/* The graves are looked at before anybody is told that the quota is used up. */
static void what_was_let_go_is_no_quota(void **state)
{
    struct bed *bed = *state;
    struct session_cqe view = passing(bed, A, 1), other = passing(bed, A, 2);
    uint64_t offset;
    uint32_t entry = 0;

    fixture_unpin(bed->fx, A, view.pin);
    assert_status(NIGH_QUOTA, pull_begin(bed, 3, 4 * MIB - KIB, &entry, &offset));
    fixture_unpin(bed->fx, A, other.pin);
    assert_status(NIGH_OK, pull_begin(bed, 3, 4 * MIB - KIB, &entry, &offset));
    store_pull_abort(bed->fx->store, 0, entry, bed->fx->now_us);
    view = passing(bed, A, 4);
    fixture_unpin(bed->fx, A, view.pin);
    assert_status(NIGH_OK, fixture_put(bed->fx, B, 5, 4 * MIB - KIB));
}

/* ---- at random ------------------------------------------------------------ */

#define SOME_KEYS   24u
#define SOME_LOANS  16u
#define SOME_PULLS  6u
#define SOME_WAITS  64u
#define SOME_PINS   8u
#define SOME_STEPS  4000u
#define SOME_RUNS   100u /* at most, to see every kind of step */
#define CHECK_EVERY 16u

struct some_pull {
    bool used;
    uint64_t key, bytes, offset;
    uint32_t entry;
};

struct some_wait {
    uint32_t cookie; /* 0: none */
    uint32_t session;
    uint64_t key;
    bool gets;
};

/* What a run has under way. */
struct run {
    struct bed *bed;
    uint64_t random;
    struct store_sight loans[SOME_LOANS];
    bool lent[SOME_LOANS];
    struct some_pull pulls[SOME_PULLS];
    struct some_wait waits[SOME_WAITS];
    struct session_cqe pins[SOME_PINS];
    uint32_t pinned[SOME_PINS]; /* session; 0: none */
    uint32_t done[16];          /* of each step, how often it came to something */
};

static uint64_t below(struct run *run, uint64_t bound)
{
    return (support_random(&run->random) >> 16) % bound;
}

static void remember(struct run *run, uint32_t cookie, uint32_t session, uint64_t key, bool gets)
{
    for (uint32_t n = 0; n < SOME_WAITS; n++) {
        if (run->waits[n].cookie == 0 || fixture_ended(run->bed->fx, run->waits[n].cookie)) {
            run->waits[n] = (struct some_wait){cookie, session, key, gets};
            return;
        }
    }
}

static bool waits_left(const struct run *run)
{
    uint32_t left = 0;

    for (uint32_t n = 0; n < SOME_WAITS; n++) {
        left += run->waits[n].cookie != 0 && !fixture_ended(run->bed->fx, run->waits[n].cookie);
    }
    return left < SOME_WAITS;
}

static void some_get(struct run *run, uint64_t key)
{
    uint32_t session = A + (uint32_t)below(run, 3), place = (uint32_t)below(run, SOME_PINS);
    uint32_t cookie;

    if (run->pinned[place] != 0) {
        fixture_unpin(run->bed->fx, run->pinned[place], run->pins[place].pin);
        run->pinned[place] = 0;
        return;
    }
    cookie = below(run, 2) == 0 ? pass_by(run->bed, session, key, below(run, 20000))
                                : submit(run->bed, session, SESSION_OP_GET, key, below(run, 20000));
    if (!fixture_ended(run->bed->fx, cookie)) {
        remember(run, cookie, session, key, true);
    } else if (end_of(run->bed, cookie) == NIGH_OK) {
        run->pins[place] = fixture_completion(run->bed->fx, cookie);
        run->pinned[place] = session;
        assert_true(
            fixture_holds(run->bed->fx, key, run->pins[place].offset, run->pins[place].data_size));
    }
}

static void some_put(struct run *run, uint64_t key)
{
    uint8_t flags = below(run, 4) == 0 ? SESSION_FLAG_EXCLUSIVE : 0;
    uint64_t bytes = 1 + below(run, MIB);
    struct session_cqe made =
        fixture_create_key(run->bed->fx, A + (uint32_t)below(run, 2), key, bytes, flags, 0);
    uint32_t session;

    if (made.status != NIGH_OK) {
        return;
    }
    fixture_fill(run->bed->fx, key, made.offset, bytes);
    fixture_pass(run->bed->fx, below(run, 2) * 1000);
    /* Whoever made it seals it, or gives it up. */
    for (session = A; session <= B; session++) {
        struct session_sqe end = {.op = SESSION_OP_ABORT, .ref = made.ref};

        end.op = below(run, 4) == 0 ? SESSION_OP_ABORT : SESSION_OP_SEAL;
        if (fixture_do(run->bed->fx, session, end).status != NIGH_INVALID) {
            return;
        }
    }
}

static void some_loan(struct run *run, uint64_t key)
{
    uint32_t n = (uint32_t)below(run, SOME_LOANS);

    if (run->lent[n]) {
        lend_end(run->bed, &run->loans[n]);
        run->lent[n] = false;
    } else if (lend(run->bed, key, NULL, &run->loans[n]) == NIGH_OK) {
        run->lent[n] = true;
        run->done[0]++;
    }
}

static void some_pull(struct run *run, uint64_t key)
{
    struct some_pull *at = &run->pulls[below(run, SOME_PULLS)];
    struct bed *bed = run->bed;
    nigh_status status;

    if (!at->used) {
        at->key = key;
        at->bytes = 1 + below(run, MIB);
        status = pull_begin(bed, key, at->bytes, &at->entry, &at->offset);
        at->used = status == NIGH_OK;
        bed->notes[key].wanted = bed->notes[key].wanted && status != NIGH_EXISTS;
        fixture_fill(bed->fx, key, at->offset, at->used ? at->bytes : 0);
        run->done[1] += at->used;
        return;
    }
    at->used = false;
    if (below(run, 4) == 0) {
        store_pull_abort(bed->fx->store, 0, at->entry, bed->fx->now_us);
        return;
    }
    assert_true(fixture_holds(bed->fx, at->key, at->offset, at->bytes));
    status = pull_seal(bed, at->key, at->bytes, at->entry, at->offset);
    assert_true(status == NIGH_OK || status == NIGH_IN_USE || status == NIGH_EXISTS);
    bed->notes[at->key].wanted = false; /* the pull is over, either way */
    run->done[2] += status == NIGH_OK;
    run->done[3] += status == NIGH_EXISTS;
    run->done[7] += status == NIGH_IN_USE;
}

/* Homes say that what is held here is still the one. */
static void some_reuse(struct run *run)
{
    for (uint64_t key = 0; key < SOME_KEYS; key++) {
        nigh_status status = reuse(run->bed, key, far_birth(key));

        if (status != NIGH_NOT_FOUND) {
            run->bed->notes[key].wanted = false;
            run->done[8] += status == NIGH_OK;
            run->done[9] += status == NIGH_IN_USE;
        }
    }
}

static void some_answer(struct run *run, uint64_t key)
{
    static const nigh_status ends[] = {NIGH_OK, NIGH_IN_USE, NIGH_NOT_FOUND, NIGH_TIMEOUT};

    if (run->bed->notes[key].asked > 0) {
        run->bed->notes[key].asked--;
        erased(run->bed, key, ends[below(run, 4)]);
        run->done[4]++;
    }
}

static void some_drop(struct run *run, uint64_t key)
{
    struct store_sight sight;

    if (see(run->bed, key, &sight)) {
        nigh_status status = drop(run->bed, key, sight.birth);

        assert_true(status == NIGH_OK || status == NIGH_IN_USE);
        assert_false(see(run->bed, key, &sight));
        run->done[5]++;
    }
}

static void some_end(struct run *run)
{
    const struct some_wait *wait = &run->waits[below(run, SOME_WAITS)];

    if (wait->cookie != 0 && !fixture_ended(run->bed->fx, wait->cookie)) {
        (void)cancel(run->bed, wait->session, wait->cookie);
        run->done[6]++;
    }
}

static void some_step(struct run *run)
{
    struct bed *bed = run->bed;
    uint64_t key = below(run, SOME_KEYS);
    uint32_t session = A + (uint32_t)below(run, 3);

    switch (below(run, 14)) {
    case 0:
    case 1: some_put(run, key); return;
    case 2:
    case 3: some_pull(run, key); return;
    case 4: some_loan(run, key); return;
    case 5:
        if (waits_left(run)) {
            some_get(run, key);
        }
        return;
    case 6:
        if (waits_left(run)) {
            bed->answers = below(run, 4) != 0;
            remember(run, submit(bed, session, SESSION_OP_DELETE, key, 0), session, key, false);
        }
        return;
    case 7: some_answer(run, key); return;
    case 8: some_drop(run, key); return;
    case 9: fixture_pass(bed->fx, below(run, 3) * 1000); return;
    case 10: fixture_disk(bed->fx); return;
    case 11:
    case 12: some_reuse(run); return;
    default:
        some_end(run);
        if (below(run, 8) == 0) {
            (void)fixture_status(bed->fx, session,
                                 below(run, 2) == 0 ? SESSION_OP_KEEP : SESSION_OP_UNKEEP, key);
        }
        return;
    }
}

static bool somebody_gets(const struct run *run, uint64_t key)
{
    for (uint32_t n = 0; n < SOME_WAITS; n++) {
        const struct some_wait *wait = &run->waits[n];

        if (wait->cookie != 0 && wait->gets && wait->key == key &&
            !fixture_ended(run->bed->fx, wait->cookie)) {
            return true;
        }
    }
    return false;
}

/* Whether somebody waits for what only other nodes may have, and they were not asked. */
static bool is_overlooked(struct run *run, uint64_t key)
{
    return somebody_gets(run, key) && !run->bed->notes[key].wanted &&
           fixture_status(run->bed->fx, A, SESSION_OP_CONTAINS, key) == NIGH_NOT_FOUND;
}

/* What is lent, or is being pulled, has its bytes; what is wanted is what somebody waits for. */
static void check_run(struct run *run)
{
    struct bed *bed = run->bed;

    for (uint32_t n = 0; n < SOME_LOANS; n++) {
        assert_true(!run->lent[n] || fixture_holds(bed->fx, key_of(run->loans[n].id),
                                                   run->loans[n].offset, run->loans[n].data_size));
    }
    for (uint32_t n = 0; n < SOME_PULLS; n++) {
        assert_true(
            !run->pulls[n].used ||
            fixture_holds(bed->fx, run->pulls[n].key, run->pulls[n].offset, run->pulls[n].bytes));
    }
    for (uint64_t key = 0; key < SOME_KEYS; key++) {
        assert_true(somebody_gets(run, key) || !bed->notes[key].wanted);
        /* Where there is a disk, it may wait for memory to be read back to, and look again then. */
        assert_true(bed->fx->spills || !is_overlooked(run, key));
    }
}

/* Everything ends, and everything is given back. */
static void end_run(struct run *run)
{
    struct bed *bed = run->bed;

    for (uint32_t n = 0; n < SOME_PINS; n++) {
        if (run->pinned[n] != 0) {
            fixture_unpin(bed->fx, run->pinned[n], run->pins[n].pin);
        }
    }
    for (uint32_t n = 0; n < SOME_LOANS; n++) {
        if (run->lent[n]) {
            lend_end(bed, &run->loans[n]);
        }
    }
    for (uint32_t n = 0; n < SOME_PULLS; n++) {
        if (run->pulls[n].used) {
            store_pull_abort(bed->fx->store, 0, run->pulls[n].entry, bed->fx->now_us);
        }
    }
    for (uint32_t turn = 0; turn < 100; turn++) {
        fixture_disk(bed->fx);
        fixture_pass(bed->fx, 1000);
    }
    bed->fx->now_us += LIMIT_UNSPILL_US; /* which gets that met the disk wait longer */
    fixture_tick(bed->fx);
    for (uint64_t key = 0; key < SOME_KEYS; key++) {
        while (bed->notes[key].asked > 0) {
            bed->notes[key].asked--;
            erased(bed, key, NIGH_OK);
        }
    }
    for (uint32_t n = 0; n < SOME_WAITS; n++) {
        assert_true(run->waits[n].cookie == 0 || fixture_ended(bed->fx, run->waits[n].cookie));
    }
    fixture_close(bed->fx, A);
    fixture_close(bed->fx, B);
    fixture_close(bed->fx, C);
    for (uint64_t key = 0; key < SOME_KEYS; key++) {
        struct store_sight sight;

        if (see(bed, key, &sight)) {
            assert_status(NIGH_OK, drop(bed, key, sight.birth));
        }
    }
    fixture_pass(bed->fx, 5000);
    assert_int_equal(fixture_stats(bed->fx).used_bytes, 0);
    assert_int_equal(fixture_stats(bed->fx).spilled_bytes, 0);
    assert_int_equal(fixture_stats(bed->fx).waiting, 0);
}

static void run_at_random(uint64_t seed, bool spills, struct run *run)
{
    uint32_t done[16];

    memcpy(done, run->done, sizeof(done));
    memset(run, 0, sizeof(*run));
    memcpy(run->done, done, sizeof(done));
    run->bed = make_bed(&(struct fixture_options){.spills = spills, .entries = 64}, 0);
    run->random = seed;
    for (uint32_t step = 0; step < SOME_STEPS; step++) {
        some_step(run);
        assert_valid(run->bed);
        if (step % CHECK_EVERY == 0) {
            check_run(run);
        }
    }
    end_run(run);
    assert_valid(run->bed);
    fixture_destroy(run->bed->fx);
    free(run->bed);
}

/* Whether each kind of step was taken: the rare ones once, the others often. */
static bool all_happened(const struct run *run)
{
    for (uint32_t n = 0; n <= 9; n++) {
        if (run->done[n] <= (n < 8 ? 10 : 0)) {
            return false;
        }
    }
    return true;
}

static void at_random_all_is_kept_and_given_back(void **state)
{
    uint64_t end_us = support_now_us() + support_budget_ms(2000) * 1000;
    struct run *run = calloc(1, sizeof(*run));
    uint64_t seed = support_seed();
    uint32_t runs = 0;

    (void)state;
    assert_non_null(run);
    do {
        run_at_random(seed * 2 + 1, false, run);
        run_at_random(seed * 2 + 1, true, run);
        seed++;
        runs++;
    } while (support_now_us() < end_us || (!all_happened(run) && runs < SOME_RUNS));
    assert_true(all_happened(run));
    free(run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define DISK(name) cmocka_unit_test_setup_teardown(name, setup_spilling, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_waits_wants_and_the_last_to_leave_unwants),
        TEST(a_session_that_ends_unwants),
        TEST(who_does_not_wait_wants_nothing),
        TEST(a_birth_serves_those_who_want),
        TEST(wants_end_with_what_the_exchange_says),
        DISK(reading_back_wants_nothing),
        DISK(a_birth_stays_through_disk_and_restart),
        TEST(what_is_evicted_is_gone),
        DISK(a_walk_sees_what_is_sealed_once),
        TEST(a_walk_looks_at_so_much_at_once),
        TEST(a_loan_keeps_the_memory_under_pressure),
        DISK(a_loan_keeps_the_memory_under_pressure),
        TEST(a_loan_outlives_a_delete),
        DISK(a_loan_keeps_what_was_just_written_out),
        DISK(what_is_on_disk_is_read_back_to_be_lent),
        cmocka_unit_test_setup_teardown(what_is_read_back_to_be_lent_fits_the_quota,
                                        setup_spilling_quota, teardown),
        DISK(what_cannot_be_read_back_is_said_once),
        DISK(what_could_not_be_read_back_is_not_said_long_after),
        DISK(what_clients_could_not_read_back_is_tried_again_for_others),
        TEST(loans_of_one_object_have_a_bound),
        TEST(a_sum_is_kept),
        TEST(a_sealed_copy_serves_all_who_wait),
        TEST(a_pinned_copy_stays),
        DISK(a_pinned_copy_stays),
        TEST(sizes_that_cannot_be_are_refused),
        TEST(an_abort_gives_all_back),
        TEST(a_pull_keeps_its_memory),
        DISK(a_pull_keeps_its_memory),
        TEST(a_pull_makes_room),
        DISK(a_pull_makes_room),
        TEST(a_pull_waits_for_pinned_memory),
        DISK(copies_that_stay_do_not_stop_what_is_spilled_ahead),
        cmocka_unit_test_setup_teardown(a_pull_counts_in_the_pools_quota, setup_quota, teardown),
        cmocka_unit_test_setup_teardown(what_is_lent_does_not_hide_what_may_leave, setup_quota,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_pull_waits_for_room_that_the_lane_holds, setup_quota,
                                        teardown),
        DISK(what_is_here_is_not_pulled),
        TEST(a_birth_meanwhile_ends_the_copy),
        TEST(a_copy_meanwhile_ends_a_create),
        TEST(a_claim_given_up_is_wanted_again),
        DISK(copies_go_before_anything_is_spilled),
        cmocka_unit_test_setup_teardown(copies_give_their_entries, setup_narrow, teardown),
        TEST(a_copy_leaves_where_nothing_is_spilled),
        TEST(a_restart_drops_copies),
        DISK(a_restart_drops_copies),
        TEST(a_copy_that_nobody_wants_goes_with_its_last_view),
        DISK(a_copy_that_nobody_wants_goes_with_its_last_view),
        TEST(what_is_here_stays_as_it_is),
        TEST(one_of_a_pull_who_wants_a_copy_has_it),
        TEST(what_is_held_serves_others_when_its_birth_is_the_one),
        TEST(what_was_deleted_serves_nobody_else),
        TEST(a_pull_that_nobody_waits_for_leaves_what_was_asked_for),
        TEST(a_death_takes_along_what_was_not_to_stay),
        cmocka_unit_test_setup_teardown(what_is_not_to_stay_is_neither_evicted_nor_free,
                                        setup_quota, teardown),
        cmocka_unit_test_setup_teardown(what_was_let_go_is_no_quota, setup_quota, teardown),
        TEST(a_drop_deletes_one_birth),
        TEST(a_drop_leaves_readers_what_they_have),
        DISK(a_drop_forgets_the_file),
        DISK(why_it_was_dropped_outlasts_its_read),
        DISK(a_delete_ends_with_both_halves),
        TEST(deletes_of_one_id_end_once_each),
        TEST(a_delete_without_room_elsewhere_changes_nothing),
        TEST(a_get_ends_with_why_it_waited),
        TEST(a_delete_at_other_nodes_cannot_be_canceled),
        TEST(the_end_of_a_session_ends_no_delete_halfway),
        TEST(a_seal_does_not_end_a_delete),
        cmocka_unit_test(at_random_all_is_kept_and_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
