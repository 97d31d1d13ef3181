/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exclusive creates of a store among other nodes: they wait for the home of their id, which the
 * test plays.
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "object_store_fixture.h"

#define A      1u
#define B      2u
#define STRICT 3u

struct bed {
    struct fixture *fx;
    nigh_status at_once; /* what a claim is told when it is asked for */
    bool stands;         /* one that was granted is sure */
    uint32_t looks, claims, goes, seals, wants;
    struct store_sight claimed; /* the last */
    struct birth gone, sealed;
};

static nigh_status on_claim(void *context, const struct store_sight *sight, bool tell)
{
    struct bed *bed = context;

    NIGH_ASSERT(sight->is_claim && !sight->is_copy);
    bed->claims += tell;
    bed->looks++;
    bed->claimed = *sight;
    return sight->is_granted && bed->stands ? NIGH_OK : bed->at_once;
}

static void on_sealed(void *context, const struct store_sight *sight)
{
    struct bed *bed = context;

    bed->seals++;
    bed->sealed = sight->birth;
}

static void on_gone(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                    const struct birth *birth)
{
    struct bed *bed = context;

    (void)pool;
    (void)id;
    (void)hash;
    bed->goes++;
    bed->gone = *birth;
}

static void on_want(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                    uint64_t deadline_us, bool keep)
{
    (void)pool;
    (void)id;
    (void)hash;
    (void)deadline_us;
    (void)keep;
    ((struct bed *)context)->wants++;
}

static void on_unwant(void *context, uint32_t pool, const uint8_t *id, uint64_t hash)
{
    (void)context;
    (void)pool;
    (void)id;
    (void)hash;
}

static bool on_erase(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                     nigh_status local)
{
    (void)context;
    (void)pool;
    (void)id;
    (void)hash;
    (void)local;
    return false;
}

static uint32_t on_erase_room(void *context)
{
    (void)context;
    return UINT32_MAX;
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

static int setup(void **state)
{
    struct bed *bed = calloc(1, sizeof(*bed));

    assert_non_null(bed);
    bed->fx = fixture_create(&(struct fixture_options){0});
    bed->at_once = NIGH_PENDING;
    bed->stands = true;
    fixture_pool(bed->fx, 0, false, 0);
    join(bed);
    fixture_open(bed->fx, A, 0, 1000, true);
    fixture_open(bed->fx, B, 0, 1000, true);
    *state = bed;
    return 0;
}

static int teardown(void **state)
{
    struct bed *bed = *state;

    assert_true(store_is_valid(bed->fx->store));
    fixture_destroy(bed->fx);
    free(bed);
    return 0;
}

/* ---- asking --------------------------------------------------------------- */

static uint32_t create(struct bed *bed, uint32_t session, uint64_t key, uint64_t timeout_us)
{
    struct session_sqe sqe = fixture_sqe(SESSION_OP_CREATE, key);

    sqe.flags = SESSION_FLAG_EXCLUSIVE;
    sqe.data_size = 1000;
    sqe.argument = timeout_us;
    return fixture_submit(bed->fx, session, sqe);
}

static uint32_t seal(struct bed *bed, uint32_t session, uint32_t ref)
{
    return fixture_submit(bed->fx, session,
                          (struct session_sqe){.op = SESSION_OP_SEAL, .ref = ref});
}

static nigh_status end_of(struct bed *bed, uint32_t cookie)
{
    assert_true(store_is_valid(bed->fx->store));
    return (nigh_status)fixture_completion(bed->fx, cookie).status;
}

static void answer(struct bed *bed, nigh_status status)
{
    store_claimed(bed->fx->store, bed->claimed.pool, bed->claimed.id, bed->claimed.hash,
                  &bed->claimed.birth, status, bed->fx->now_us);
    assert_true(store_is_valid(bed->fx->store));
}

/* One that is granted, and its entry. */
static uint32_t granted(struct bed *bed, uint32_t session, uint64_t key)
{
    uint32_t cookie = create(bed, session, key, 0);

    answer(bed, NIGH_OK);
    assert_int_equal(end_of(bed, cookie), NIGH_OK);
    return fixture_completion(bed->fx, cookie).ref;
}

/* ---- creates -------------------------------------------------------------- */

static void a_create_waits_for_the_home(void **state)
{
    struct bed *bed = *state;
    uint32_t cookie = create(bed, A, 1, 1000000), ref = bed->claimed.entry;

    assert_int_equal(bed->claims, 1);
    assert_false(bed->claimed.is_granted);
    assert_false(fixture_ended(bed->fx, cookie));
    /* Meanwhile it has the id on this node, and nobody seals it or gives it up. */
    assert_int_equal(end_of(bed, create(bed, B, 1, 0)), NIGH_EXISTS);
    assert_int_equal(end_of(bed, seal(bed, A, ref)), NIGH_INVALID);
    assert_int_equal(
        fixture_do(bed->fx, A, (struct session_sqe){.op = SESSION_OP_ABORT, .ref = ref}).status,
        NIGH_INVALID);
    answer(bed, NIGH_OK);
    assert_int_equal(end_of(bed, cookie), NIGH_OK);
    assert_int_equal(fixture_completion(bed->fx, cookie).ref, ref);
    assert_int_equal(fixture_completion(bed->fx, cookie).data_size, 1000);
    assert_int_equal(end_of(bed, seal(bed, A, ref)), NIGH_OK);
    assert_int_equal(bed->claims, 2);
    assert_true(bed->claimed.is_granted);
    assert_memory_equal(&bed->sealed, &bed->claimed.birth, sizeof(bed->sealed));
    assert_int_equal(bed->goes, 0);
}

static void a_create_of_what_is_elsewhere_fails(void **state)
{
    struct bed *bed = *state;
    uint64_t used = fixture_stats(bed->fx).used_bytes;
    struct session_sqe sqe = fixture_sqe(SESSION_OP_GET, 1);
    uint32_t cookie = create(bed, A, 1, 0), get;

    sqe.argument = 1000000;
    get = fixture_submit(bed->fx, B, sqe);
    answer(bed, NIGH_EXISTS);
    assert_int_equal(end_of(bed, cookie), NIGH_EXISTS);
    assert_int_equal(fixture_stats(bed->fx).used_bytes, used);
    assert_int_equal(bed->wants, 2); /* who waits here may have it from there now */
    assert_false(fixture_ended(bed->fx, get));
    answer(bed, NIGH_OK); /* too late: of nothing */
    cookie = create(bed, A, 2, 0);
    answer(bed, NIGH_LIMIT);
    assert_int_equal(end_of(bed, cookie), NIGH_LIMIT);
}

static void a_home_that_does_not_know_is_asked_again(void **state)
{
    struct bed *bed = *state;
    uint32_t cookie = create(bed, A, 1, 2000000);

    for (uint32_t n = 2; n < 5; n++) {
        answer(bed, NIGH_BUSY);
        fixture_pass(bed->fx, 100000);
        assert_int_equal(bed->claims, n); /* once an answer, however long one takes */
        assert_false(fixture_ended(bed->fx, cookie));
    }
    assert_in_range(bed->looks, 12, 20);
    answer(bed, NIGH_OK);
    assert_int_equal(end_of(bed, cookie), NIGH_OK);
    fixture_pass(bed->fx, 100000);
    assert_int_equal(bed->claims, 4);
}

static void a_home_that_says_nothing_is_told_once(void **state)
{
    struct bed *bed = *state;
    uint32_t cookie = create(bed, A, 1, 2000000);

    fixture_pass(bed->fx, 1000000);
    assert_int_equal(bed->claims, 1);
    assert_false(fixture_ended(bed->fx, cookie));
    answer(bed, NIGH_OK); /* of a walk that told it again, perhaps */
    assert_int_equal(end_of(bed, cookie), NIGH_OK);
}

static void a_create_ends_at_its_deadline(void **state)
{
    struct bed *bed = *state;
    uint64_t used = fixture_stats(bed->fx).used_bytes;
    uint32_t cookie = create(bed, A, 1, 0), late;

    fixture_pass(bed->fx, LIMIT_CLAIM_US - 10000); /* it has to ask, whatever its timeout */
    assert_false(fixture_ended(bed->fx, cookie));
    fixture_pass(bed->fx, 20000);
    assert_int_equal(end_of(bed, cookie), NIGH_TIMEOUT);
    assert_int_equal(bed->goes, 1); /* the home may have granted it */
    assert_memory_equal(&bed->gone, &bed->claimed.birth, sizeof(bed->gone));
    bed->at_once = NIGH_PEER_LOST;
    late = create(bed, A, 1, 2000000);
    fixture_pass(bed->fx, 1990000);
    assert_false(fixture_ended(bed->fx, late));
    fixture_pass(bed->fx, 20000);
    assert_int_equal(end_of(bed, late), NIGH_PEER_LOST);
    assert_int_equal(fixture_stats(bed->fx).used_bytes, used);
}

/* A create that a home has not answered ends when that is dead, and one of a dead home's at once; a
 * seal, whose bytes are there, waits. */
static void nobody_creates_what_a_dead_home_would_grant(void **state)
{
    struct bed *bed = *state;
    uint64_t used = fixture_stats(bed->fx).used_bytes;
    uint32_t ref = granted(bed, A, 1), waits, seals;

    bed->at_once = NIGH_PEER_LOST;
    waits = create(bed, A, 2, 60000000);
    fixture_pass(bed->fx, 100000);
    assert_false(fixture_ended(bed->fx, waits));
    bed->at_once = NIGH_UNREACHABLE;
    fixture_pass(bed->fx, 50000);
    assert_int_equal(end_of(bed, waits), NIGH_PEER_LOST);
    assert_int_equal(end_of(bed, create(bed, A, 3, 60000000)), NIGH_PEER_LOST);
    bed->stands = false;
    seals = seal(bed, A, ref);
    fixture_pass(bed->fx, 100000);
    assert_false(fixture_ended(bed->fx, seals));
    answer(bed, NIGH_OK);
    assert_int_equal(end_of(bed, seals), NIGH_OK);
    assert_int_equal(fixture_stats(bed->fx).objects_unsealed, 0);
    assert_true(fixture_stats(bed->fx).used_bytes > used);
    bed->at_once = NIGH_PENDING;
    (void)granted(bed, B, 2); /* nothing of it is left */
    (void)granted(bed, B, 3);
}

static void a_claim_ends_with_what_it_is_for(void **state)
{
    struct bed *bed = *state;
    uint32_t ref = granted(bed, A, 1), cookie;

    fixture_do(bed->fx, A, (struct session_sqe){.op = SESSION_OP_ABORT, .ref = ref});
    assert_int_equal(bed->goes, 1);
    cookie = create(bed, A, 2, 1000000);
    assert_int_equal(
        fixture_do(bed->fx, A, (struct session_sqe){.op = SESSION_OP_CANCEL, .argument = cookie})
            .status,
        NIGH_OK);
    assert_int_equal(end_of(bed, cookie), NIGH_CANCELED);
    assert_int_equal(bed->goes, 2);
    (void)granted(bed, B, 3);
    (void)create(bed, B, 4, 1000000);
    fixture_close(bed->fx, B);
    assert_int_equal(bed->goes, 4);
    assert_int_equal(fixture_stats(bed->fx).objects_unsealed, 0);
}

/* ---- seals ---------------------------------------------------------------- */

static void a_claim_that_is_lost_is_not_sealed(void **state)
{
    struct bed *bed = *state;
    uint32_t ref = granted(bed, A, 1);

    answer(bed, NIGH_OK); /* told again, and granted again */
    answer(bed, NIGH_EXISTS);
    assert_int_equal(fixture_status(bed->fx, B, SESSION_OP_CONTAINS, 1), NIGH_NOT_SEALED);
    assert_int_equal(end_of(bed, seal(bed, A, ref)), NIGH_EXISTS);
    ref = granted(bed, A, 2);
    answer(bed, NIGH_LIMIT); /* of a home that forgot it, and has no room for it now */
    assert_int_equal(end_of(bed, seal(bed, A, ref)), NIGH_EXISTS);
    assert_int_equal(bed->seals, 0);
    assert_int_equal(fixture_stats(bed->fx).objects_unsealed, 0);
}

static void a_seal_waits_while_its_claim_is_not_sure(void **state)
{
    struct bed *bed = *state;
    uint32_t ref = granted(bed, A, 1), cookie;

    bed->stands = false;
    bed->at_once = NIGH_PEER_LOST;
    cookie = seal(bed, A, ref);
    assert_false(fixture_ended(bed->fx, cookie));
    assert_int_equal(end_of(bed, seal(bed, A, ref)), NIGH_INVALID);
    answer(bed, NIGH_OK);
    assert_int_equal(end_of(bed, cookie), NIGH_OK);
    assert_int_equal(bed->seals, 1);
    /* Another has it; nobody says; it is found to stand after all. */
    ref = granted(bed, A, 2);
    cookie = seal(bed, A, ref);
    answer(bed, NIGH_EXISTS);
    assert_int_equal(end_of(bed, cookie), NIGH_EXISTS);
    ref = granted(bed, A, 3);
    cookie = seal(bed, A, ref);
    fixture_pass(bed->fx, LIMIT_CLAIM_US + 20000);
    assert_int_equal(end_of(bed, cookie), NIGH_PEER_LOST);
    assert_int_equal(fixture_stats(bed->fx).objects_unsealed, 0);
    ref = granted(bed, A, 4);
    cookie = seal(bed, A, ref);
    bed->stands = true;
    fixture_pass(bed->fx, 50000);
    assert_int_equal(end_of(bed, cookie), NIGH_OK);
    assert_int_equal(bed->seals, 2);
}

/* All memory is used, and stays so. */
static void fill_and_keep(struct bed *bed)
{
    for (uint64_t key = 0; fixture_put(bed->fx, A, key, 100000) == NIGH_OK; key++) {
        assert_int_equal(fixture_status(bed->fx, A, SESSION_OP_KEEP, key), NIGH_OK);
    }
    for (uint64_t key = 2000; fixture_put(bed->fx, A, key, 1000) == NIGH_OK; key++) {
        assert_int_equal(fixture_status(bed->fx, A, SESSION_OP_KEEP, key), NIGH_OK);
    }
}

/* Its client has used the writer up: nobody could give the object up, nor the id to others. */
static void a_seal_that_fails_for_memory_ends_its_claim(void **state)
{
    struct bed *bed = *state;
    struct session_sqe sqe = {.op = SESSION_OP_SEAL, .argument = 20000};
    uint32_t cookie, second;

    fixture_pool(bed->fx, 1, true, 0);
    fixture_open(bed->fx, STRICT, 1, 1000, true);
    sqe.ref = granted(bed, STRICT, 1000);
    second = granted(bed, STRICT, 1001);
    fill_and_keep(bed);
    cookie = fixture_submit(bed->fx, STRICT, sqe);
    assert_false(fixture_ended(bed->fx, cookie));
    fixture_pass(bed->fx, 20000);
    assert_int_equal(end_of(bed, cookie), NIGH_OUT_OF_MEMORY);
    assert_int_equal(bed->goes, 1); /* the home hears of it */
    assert_int_equal(fixture_status(bed->fx, STRICT, SESSION_OP_CONTAINS, 1000), NIGH_NOT_FOUND);
    assert_int_equal(end_of(bed, seal(bed, STRICT, second)), NIGH_OUT_OF_MEMORY);
    assert_int_equal(bed->goes, 2);
    assert_int_equal(fixture_stats(bed->fx).objects_unsealed, 0);
}

/* What the claim was in the way of is next: the turn that finds it stands says when that goes on.
 */
static void a_seal_that_waited_for_its_home_waits_for_memory(void **state)
{
    struct bed *bed = *state;
    uint32_t ref, cookie;
    uint64_t next;

    fixture_pool(bed->fx, 1, true, 0);
    fixture_open(bed->fx, STRICT, 1, 1000, true);
    ref = granted(bed, STRICT, 1000);
    fill_and_keep(bed);
    bed->stands = false;
    cookie = seal(bed, STRICT, ref);
    bed->stands = true;
    bed->fx->now_us += 20000;
    next = store_tick(bed->fx->store, bed->fx->now_us);
    assert_false(fixture_ended(bed->fx, cookie));
    assert_in_range(next, bed->fx->now_us, bed->fx->now_us + LIMIT_RETRY_US);
    fixture_pass(bed->fx, LIMIT_CLAIM_US);
    assert_int_equal(end_of(bed, cookie), NIGH_OUT_OF_MEMORY);
    assert_int_equal(fixture_stats(bed->fx).objects_unsealed, 0);
}

static void a_seal_that_is_cancelled_ends_its_claim(void **state)
{
    struct bed *bed = *state;
    uint32_t ref = granted(bed, A, 1), cookie;

    bed->stands = false;
    cookie = seal(bed, A, ref);
    assert_false(fixture_ended(bed->fx, cookie));
    assert_int_equal(
        fixture_do(bed->fx, A, (struct session_sqe){.op = SESSION_OP_CANCEL, .argument = cookie})
            .status,
        NIGH_OK);
    assert_int_equal(end_of(bed, cookie), NIGH_CANCELED);
    assert_int_equal(bed->goes, 1);
    answer(bed, NIGH_OK); /* too late */
    assert_int_equal(bed->seals, 0);
    assert_int_equal(fixture_stats(bed->fx).objects_unsealed, 0);
}

static void what_was_not_granted_does_not_outlive_its_node(void **state)
{
    struct bed *bed = *state;
    uint32_t ref = granted(bed, A, 1);

    (void)create(bed, A, 2, 1000000);
    fixture_kill(bed->fx);
    fixture_restart(bed->fx);
    join(bed);
    fixture_reopen(bed->fx, A);
    fixture_reopen(bed->fx, B);
    fixture_tick(bed->fx);
    assert_int_equal(fixture_stats(bed->fx).objects_unsealed, 1);
    assert_int_equal(fixture_status(bed->fx, B, SESSION_OP_CONTAINS, 2), NIGH_NOT_FOUND);
    assert_int_equal(end_of(bed, seal(bed, A, ref)), NIGH_OK);
}

static void a_walk_names_claims(void **state)
{
    struct bed *bed = *state;
    struct store_sight sight;
    uint32_t cursor = 0, found = 0, sure = 0;

    (void)granted(bed, A, 1);
    (void)create(bed, A, 2, 1000000);
    (void)fixture_create_key(bed->fx, A, 3, 100, 0, 0);
    while (store_next(bed->fx->store, 0, &cursor, &sight)) {
        found += sight.entry != UINT32_MAX && sight.is_claim;
        sure += sight.entry != UINT32_MAX && sight.is_granted;
    }
    assert_int_equal(found, 2);
    assert_int_equal(sure, 1);
}

/* ---- what is dropped ------------------------------------------------------ */

static void who_asked_hears_of_conflicts(void **state)
{
    struct bed *bed = *state;
    struct session_sqe sqe = {.op = SESSION_OP_SUBSCRIBE, .argument = NIGH_SUBSCRIBE_CONFLICTS};
    uint8_t id[LIMIT_ID_BYTES];

    assert_int_equal(fixture_do(bed->fx, A, sqe).status, NIGH_OK);
    sqe.argument = 0;
    assert_int_equal(fixture_do(bed->fx, B, sqe).status, NIGH_OK);
    assert_int_equal(fixture_put(bed->fx, A, 1, 100), NIGH_OK);
    fixture_id(1, id);
    assert_int_equal(
        store_drop(bed->fx->store, 0, id, hash_id20(id), &bed->sealed, true, bed->fx->now_us),
        NIGH_OK);
    assert_int_equal(fixture_events(bed->fx, A, NIGH_EVENT_CONFLICT, 1), 1);
    assert_int_equal(fixture_events(bed->fx, A, NIGH_EVENT_DELETED, 1), 0);
    assert_int_equal(fixture_events(bed->fx, B, NIGH_EVENT_CONFLICT, 1), 0);
    assert_int_equal(fixture_events(bed->fx, B, NIGH_EVENT_DELETED, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_create_waits_for_the_home, setup, teardown),
        cmocka_unit_test_setup_teardown(a_create_of_what_is_elsewhere_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(a_home_that_does_not_know_is_asked_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_home_that_says_nothing_is_told_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_create_ends_at_its_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_creates_what_a_dead_home_would_grant, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_claim_ends_with_what_it_is_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_claim_that_is_lost_is_not_sealed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_seal_waits_while_its_claim_is_not_sure, setup, teardown),
        cmocka_unit_test_setup_teardown(a_seal_that_fails_for_memory_ends_its_claim, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_seal_that_waited_for_its_home_waits_for_memory, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_seal_that_is_cancelled_ends_its_claim, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_not_granted_does_not_outlive_its_node, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_walk_names_claims, setup, teardown),
        cmocka_unit_test_setup_teardown(who_asked_hears_of_conflicts, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
