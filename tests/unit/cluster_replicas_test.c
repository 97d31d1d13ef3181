/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper of replicas by itself (cluster/replicas.h): whom it asks, when, and what it says; and
 * what members may tell it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/replicas.h"
#include "support/support.h"

#define NODES 6u
#define SELF  0u
#define KEYS  64u
#define ALL   UINT64_MAX

static struct members members;
static struct replicas *replicas;
static uint64_t now_us;
static bool dead[NODES], away[NODES];
static uint32_t asked[NODES], released[NODES], counted[NODES];
static struct replica_count last_count;

/* What each was asked for last. */
static struct wish {
    struct directory_key key;
    struct directory_object object;
    uint32_t wanted; /* 0: nothing */
} wishes[NODES];

static bool reaches(void *context, uint32_t rank, const struct directory_key *key)
{
    (void)context;
    (void)key;
    return rank == SELF || !away[rank];
}

static bool is_dead(void *context, uint32_t rank)
{
    (void)context;
    return dead[rank];
}

static void make(void *context, uint32_t rank, const struct directory_key *key,
                 const struct directory_object *object, uint32_t wanted)
{
    (void)context;
    assert_in_range(wanted, 1, LIMIT_REPLICAS);
    asked[rank]++;
    wishes[rank] = (struct wish){*key, *object, wanted};
}

static void release(void *context, uint32_t rank, const struct directory_key *key,
                    const struct birth *birth)
{
    (void)context;
    (void)key;
    (void)birth;
    released[rank]++;
}

static void count(void *context, uint32_t rank, const struct directory_key *key,
                  const struct birth *birth, const struct replica_count *count)
{
    (void)context;
    (void)key;
    (void)birth;
    counted[rank]++;
    last_count = *count;
}

static int set_up(void **state)
{
    char why[128];
    struct replicas_config config = {.members = &members,
                                     .max_keys = KEYS,
                                     .seed = 7,
                                     .shell = {.reaches = reaches,
                                               .is_dead = is_dead,
                                               .is_out = is_dead,
                                               .make = make,
                                               .release = release,
                                               .count = count}};

    (void)state;
    now_us = 1000000;
    memset(dead, 0, sizeof(dead));
    memset(away, 0, sizeof(away));
    memset(asked, 0, sizeof(asked));
    memset(released, 0, sizeof(released));
    memset(counted, 0, sizeof(counted));
    assert_int_equal(members_parse("a:1,b:1,c:1,d:1,e:1,f:1", "0", &members, why, sizeof(why)),
                     NIGH_OK);
    return replicas_create(&config, &replicas) == NIGH_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    assert_true(replicas_is_valid(replicas));
    replicas_destroy(replicas);
    return 0;
}

static void pass(uint64_t us)
{
    uint64_t end_us = now_us + us;

    while (replicas_turn(replicas, now_us)) {
    }
    while (replicas_due_us(replicas) <= end_us) {
        now_us = max_u64(now_us, replicas_due_us(replicas));
        (void)replicas_turn(replicas, now_us);
        assert_true(replicas_is_valid(replicas));
    }
    now_us = end_us;
}

/* The n-th key that this node keeps account of while all live. */
static struct directory_key key_of(uint32_t n)
{
    struct directory_key key = {.pool = 3};

    for (uint32_t i = 0;; i++) {
        memcpy(key.id, &i, sizeof(i));
        if (members_home(&members, directory_key_hash(&key)) == SELF && n-- == 0) {
            return key;
        }
    }
}

static struct directory_object object_of(uint32_t birth)
{
    return (struct directory_object){.birth = {.counter = birth, .rank = 1}, .data_size = 10};
}

static nigh_status tell(uint32_t rank, uint32_t key, uint32_t birth, uint32_t wanted, bool waits)
{
    struct directory_key name = key_of(key);
    struct directory_object object = object_of(birth);
    struct replica_count ignored;

    return replicas_told(replicas, rank, &name, &object, wanted, waits, now_us, &ignored);
}

static void made(uint32_t rank, uint32_t key, uint32_t birth, nigh_status status)
{
    struct directory_key name = key_of(key);
    struct directory_object object = object_of(birth);

    replicas_made(replicas, rank, &name, &object.birth, status, now_us);
}

static uint32_t sum(const uint32_t *numbers)
{
    uint32_t all = 0;

    for (uint32_t n = 0; n < NODES; n++) {
        all += numbers[n];
    }
    return all;
}

static struct replicas_stats stats(void)
{
    struct replicas_stats now;

    replicas_stats(replicas, &now);
    return now;
}

/* Tells for all that were asked and did not tell. */
static void all_that_were_asked_hold_it(uint32_t key, uint32_t birth, uint32_t wanted)
{
    for (uint32_t n = 0; n < NODES; n++) {
        if (asked[n] > 0) {
            assert_int_equal(tell(n, key, birth, wanted, false), NIGH_OK);
        }
        asked[n] = 0;
    }
}

static void as_many_are_asked_as_are_lacking(void **state)
{
    (void)state;
    assert_int_equal(tell(1, 0, 1, 3, true), NIGH_OK);
    pass(1);
    assert_int_equal(sum(asked), 2);
    assert_int_equal(asked[1], 0);
    assert_int_equal(asked[SELF], 1); /* the heaviest: its home */
    assert_int_equal(stats().missing, 2);
    assert_int_equal(sum(counted), 0);
    all_that_were_asked_hold_it(0, 1, 3);
    pass(1);
    assert_int_equal(counted[1], 1);
    assert_int_equal(last_count.held, 3);
    assert_int_equal(last_count.is_short, 0);
    assert_int_equal(stats().missing, 0);
    assert_int_equal(stats().wanted, 3);
    pass(100000000);
    assert_int_equal(sum(asked), 0); /* and nobody any more */
}

static void a_death_is_made_good_at_once(void **state)
{
    uint64_t begun_us;

    (void)state;
    assert_int_equal(tell(1, 0, 1, 3, true), NIGH_OK);
    pass(1);
    all_that_were_asked_hold_it(0, 1, 3);
    pass(1000000);
    begun_us = now_us;
    dead[1] = true;
    replicas_member_dead(replicas, 1, now_us);
    pass(1000);
    assert_int_equal(sum(asked), 1);
    assert_int_equal(asked[1], 0);
    assert_int_equal(stats().missing, 1);
    all_that_were_asked_hold_it(0, 1, 3);
    pass(1000);
    assert_true(now_us - begun_us < LIMIT_REPAIR_US);
    assert_int_equal(stats().missing, 0);
    assert_int_equal(stats().repaired, 1);
}

/* A keeper that hears of a key for the first time does not know who else is about to say so. */
static void who_is_new_to_a_key_hears_all_first(void **state)
{
    (void)state;
    assert_int_equal(tell(1, 0, 1, 3, false), NIGH_OK);
    pass(REPLICAS_SETTLE_US / 2);
    assert_int_equal(sum(asked), 0);
    assert_int_equal(tell(2, 0, 1, 3, false), NIGH_OK);
    assert_int_equal(tell(3, 0, 1, 3, false), NIGH_OK);
    pass(REPLICAS_SETTLE_US);
    assert_int_equal(sum(asked), 0);
    assert_int_equal(stats().repaired, 0);
    /* One that went with the former keeper is made good, and counted, as any. */
    assert_int_equal(tell(1, 1, 1, 3, false), NIGH_OK);
    assert_int_equal(tell(2, 1, 1, 3, false), NIGH_OK);
    pass(REPLICAS_SETTLE_US + 1000);
    assert_int_equal(sum(asked), 1);
    all_that_were_asked_hold_it(1, 1, 3);
    pass(1000);
    assert_int_equal(stats().repaired, 1);
    assert_int_equal(stats().missing, 0);
}

static void die(uint32_t rank)
{
    dead[rank] = true;
    replicas_member_dead(replicas, rank, now_us);
}

/* What others hear of where a key is. */
static nigh_status where(uint32_t asker, const struct directory_key *key)
{
    struct directory_answer answer;

    return replicas_locate(replicas, asker, key, now_us, &answer);
}

/* A key of which this node keeps account when two others are dead, the first of which is its home
 * and the second comes next. */
static struct directory_key key_after(uint32_t first, uint32_t second)
{
    struct directory_key key = {.pool = 3};

    for (uint32_t i = 0;; i++) {
        uint64_t key_hash;

        memcpy(key.id, &i, sizeof(i));
        key_hash = directory_key_hash(&key);
        dead[first] = dead[second] = true;
        if (members_home(&members, key_hash) == first &&
            replicas_keeper(&members, key_hash, is_dead, NULL) == SELF) {
            dead[second] = false;
            if (replicas_keeper(&members, key_hash, is_dead, NULL) == second) {
                dead[first] = false;
                return key;
            }
        }
        dead[first] = dead[second] = false;
    }
}

/* Holders tell the next keeper when the former one is dead: until then it does not say that there
 * are none. That has an end, whether or not the dead come back. */
static void who_is_new_to_a_key_does_not_say_that_it_is_lost(void **state)
{
    struct directory_key key = key_after(1, 2), own = key_of(0);
    struct directory_object object = object_of(1);
    struct replica_count ignored;

    (void)state;
    assert_int_equal(where(3, &key), NIGH_NOT_FOUND);
    die(1);
    assert_int_equal(where(3, &key), NIGH_BUSY); /* it keeps account of it next */
    pass(REPLICAS_NEW_US - 1);
    die(1); /* which was known */
    assert_int_equal(where(3, &key), NIGH_BUSY);
    assert_int_equal(where(3, &own), NIGH_NOT_FOUND); /* of that it always has */
    pass(1);
    assert_int_equal(where(3, &key), NIGH_NOT_FOUND);
    die(2);
    assert_int_equal(where(3, &key), NIGH_BUSY);
    assert_int_equal(replicas_told(replicas, 4, &key, &object, 3, 0, now_us, &ignored), NIGH_OK);
    assert_int_equal(where(3, &key), NIGH_OK);
    assert_int_equal(where(4, &key), NIGH_BUSY); /* of others nothing is known yet */
    die(4);                                      /* who would never be the keeper of `own` */
    assert_int_equal(where(3, &own), NIGH_NOT_FOUND);
    pass(REPLICAS_NEW_US);
    assert_int_equal(where(3, &key), NIGH_NOT_FOUND);
    dead[2] = false;
    replicas_moved(replicas, now_us);
    die(2); /* once more */
    assert_int_equal(where(3, &key), NIGH_BUSY);
    pass(REPLICAS_NEW_US);
    assert_int_equal(where(3, &key), NIGH_NOT_FOUND);
}

static void who_refuses_is_passed_by(void **state)
{
    (void)state;
    assert_int_equal(tell(1, 0, 1, 2, true), NIGH_OK);
    for (uint32_t n = 0; n < NODES - 1; n++) {
        uint32_t rank = 0;

        memset(asked, 0, sizeof(asked));
        pass(1000);
        assert_int_equal(sum(asked), 1);
        while (asked[rank] == 0) {
            rank++;
        }
        made(rank, 0, 1, NIGH_OUT_OF_MEMORY);
    }
    assert_int_equal(sum(counted), 0);
    pass(1000);
    assert_int_equal(counted[1], 1); /* nobody is left: it is said */
    assert_int_equal(last_count.is_short, 1);
    assert_int_equal(last_count.held, 1);
    assert_int_equal(stats().failures, NODES - 1);
    memset(asked, 0, sizeof(asked));
    pass(2 * REPLICAS_PAUSE_US);
    assert_int_equal(sum(asked) > 0, 1); /* and tried again */
}

/* Who is at it is asked again how far it is, and is not given up for that. */
static void who_is_at_it_is_waited_for(void **state)
{
    (void)state;
    assert_int_equal(tell(1, 0, 1, 2, true), NIGH_OK);
    pass(5000000);
    assert_int_equal(sum(asked), asked[SELF]);
    assert_in_range(asked[SELF], 5000000 / REPLICAS_ASK_US - 2, 5000000 / REPLICAS_ASK_US + 2);
    made(SELF, 0, 1, NIGH_PENDING);
    pass(REPLICAS_MAKE_US); /* but not for ever */
    assert_true(sum(asked) > asked[SELF]);
}

static void a_delete_is_not_made_good(void **state)
{
    struct directory_key key = key_of(0);
    struct directory_object object = object_of(1);

    (void)state;
    for (uint32_t n = 1; n < 4; n++) {
        assert_int_equal(tell(n, 0, 1, 3, false), NIGH_OK);
    }
    pass(1000000);
    replicas_gone(replicas, 2, &key, &object.birth, now_us);
    pass(REPLICAS_DELETE_US / 2);
    assert_int_equal(sum(asked), 0);
    replicas_gone(replicas, 1, &key, &object.birth, now_us);
    replicas_gone(replicas, 3, &key, &object.birth, now_us);
    pass(REPLICAS_DELETE_US * 2);
    assert_int_equal(sum(asked), 0);
    assert_int_equal(stats().keys, 0);
    /* One that was not followed by others is made good, later. */
    for (uint32_t n = 1; n < 4; n++) {
        assert_int_equal(tell(n, 0, 2, 3, false), NIGH_OK);
    }
    object = object_of(2);
    replicas_gone(replicas, 2, &key, &object.birth, now_us);
    pass(REPLICAS_DELETE_US + 1000);
    assert_int_equal(sum(asked) > 0, 1);
}

/* What a member said counts until it has told all again by another link, or is dead. */
static void what_is_not_told_again_is_let_go(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 4; n++) {
        assert_int_equal(tell(n, 0, 1, 3, false), NIGH_OK);
    }
    pass(1000000);
    replicas_member_up(replicas, 2, ALL);
    pass(10000000);
    assert_int_equal(sum(asked), 0);
    replicas_told_all(replicas, 2, ALL);
    pass(1000);
    assert_int_equal(sum(asked) > 0, 1);
    /* Told again it is one. */
    memset(asked, 0, sizeof(asked));
    assert_int_equal(tell(2, 0, 1, 3, false), NIGH_OK);
    pass(10000000);
    assert_int_equal(stats().missing, 0);
}

static void who_died_and_came_back_holds_nothing(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 4; n++) {
        assert_int_equal(tell(n, 0, 1, 3, false), NIGH_OK);
    }
    pass(1000000);
    replicas_member_dead(replicas, 2, now_us);
    replicas_member_up(replicas, 2, ALL); /* before anybody looked */
    pass(1000);
    assert_int_equal(sum(asked), 1);
    assert_int_equal(stats().missing, 1);
}

/* Who has a link, and counts as dead still, tells it again: what it says now would not stand. */
static void the_dead_are_asked_to_tell_again(void **state)
{
    (void)state;
    dead[2] = true;
    assert_int_equal(tell(2, 0, 1, 3, false), NIGH_BUSY);
    assert_int_equal(stats().keys, 0);
    dead[2] = false;
    assert_int_equal(tell(2, 0, 1, 3, false), NIGH_OK);
    assert_int_equal(stats().keys, 1);
}

static void too_many_are_let_off(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 6; n++) {
        assert_int_equal(tell(n, 0, 1, 3, false), NIGH_OK);
    }
    pass(10000000);
    assert_int_equal(sum(released), 2);
    assert_int_equal(released[1], 0); /* whose object it is */
    assert_int_equal(sum(asked), 0);
}

static void another_birth_waits_for_the_first(void **state)
{
    struct directory_key key = key_of(0);
    struct directory_object object = object_of(1);

    (void)state;
    assert_int_equal(tell(1, 0, 1, 2, false), NIGH_OK);
    assert_int_equal(tell(2, 0, 2, 2, false), NIGH_EXISTS);
    replicas_gone(replicas, 1, &key, &object.birth, now_us);
    assert_int_equal(tell(2, 0, 2, 2, false), NIGH_OK);
    assert_int_equal(tell(2, 0, 3, 2, false), NIGH_OK); /* its own, put anew */
}

static void rubbish_is_refused(void **state)
{
    uint32_t taken = 0;

    (void)state;
    assert_int_equal(tell(1, 0, 1, 0, true), NIGH_INVALID);
    assert_int_equal(tell(1, 0, 1, LIMIT_REPLICAS + 1, true), NIGH_INVALID);
    /* One member leaves room for the others. */
    for (uint32_t n = 0; n < KEYS; n++) {
        taken += tell(1, n, 1, 8, true) == NIGH_OK ? 1 : 0;
    }
    assert_in_range(taken, KEYS / 2, KEYS - 2 * NODES / LIMIT_SHARE_OWN);
    assert_int_equal(tell(2, KEYS, 1, 2, false), NIGH_OK);
    pass(1);
    assert_true(stats().asked <= LIMIT_REPLICA_ASKED);
    assert_true(stats().refused > 0);
}

/* Some do what they were asked. */
static void grant_wishes(uint64_t lot)
{
    for (uint32_t n = 0; n < NODES; n++) {
        struct replica_count ignored;

        if (wishes[n].wanted != 0 && !dead[n] && (lot >> n & 1) != 0) {
            (void)replicas_told(replicas, n, &wishes[n].key, &wishes[n].object, wishes[n].wanted,
                                false, now_us, &ignored);
        }
        wishes[n].wanted = 0;
    }
}

static uint32_t held_without(uint32_t leaver, uint32_t key, uint32_t birth)
{
    struct directory_key name = key_of(key);
    struct directory_object object = object_of(birth);
    struct replica_count now;

    assert_int_equal(
        replicas_told(replicas, leaver, &name, &object, 1, REPLICAS_LEAVES, now_us, &now), NIGH_OK);
    assert_true(now.leaves);
    return now.held;
}

/* Who leaves is not told that others hold what they were asked for, before they say so. */
static void what_was_asked_for_is_not_held_yet(void **state)
{
    uint32_t rank = 0;

    (void)state;
    assert_int_equal(held_without(1, 0, 1), 0);
    pass(REPLICAS_SETTLE_US + 1000);
    assert_int_equal(sum(asked), 1);
    while (asked[rank] == 0) {
        rank++;
    }
    assert_int_not_equal(rank, 1);
    assert_int_equal(held_without(1, 0, 1), 0);
    made(rank, 0, 1, NIGH_PENDING);
    made(rank, 0, 1, NIGH_OK);
    pass(1000);
    assert_int_equal(sum(counted), 0);
    assert_int_equal(held_without(1, 0, 1), 0);
    assert_int_equal(tell(rank, 0, 1, 1, false), NIGH_OK);
    pass(1000);
    assert_int_equal(counted[1], 1);
    assert_int_equal(last_count.held, 1);
    assert_int_equal(held_without(1, 0, 1), 1);
}

/* Members that live, die, tell and refuse at random: the books are right, and in the end, when all
 * do what they are asked, nothing is missing. */
static void books_are_right_whatever_is_said(void **state)
{
    uint64_t random = support_seed(), end_us = support_now_us() + support_budget_ms(300) * 1000;
    uint32_t rounds = 0;

    (void)state;
    for (; support_now_us() < end_us || rounds < 20000; rounds++) {
        uint64_t lot = support_random(&random) >> 16;
        uint32_t rank = 1 + (uint32_t)(lot % (NODES - 1)), key = (uint32_t)(lot >> 8) % 8;
        struct directory_key name = key_of(key);
        struct directory_object object = object_of(1 + (uint32_t)(lot >> 16) % 2);

        switch ((lot >> 24) % 8) {
        case 0:
        case 1:
        case 2:
            if (!dead[rank]) {
                (void)tell(rank, key, 1 + (uint32_t)(lot >> 16) % 2, (uint32_t)(lot >> 32) % 4,
                           (lot >> 40) % 2 == 0);
            }
            break;
        case 3: replicas_gone(replicas, rank, &name, &object.birth, now_us); break;
        case 4: made(rank, key, 1, (nigh_status)(-(int)((lot >> 32) % 20))); break;
        case 5:
            dead[rank] = true;
            replicas_member_dead(replicas, rank, now_us);
            break;
        case 6:
            dead[rank] = false;
            replicas_member_up(replicas, rank, ALL);
            break;
        default: replicas_told_all(replicas, rank, ALL); break;
        }
        away[rank] = (lot >> 48) % 4 == 0;
        grant_wishes(lot >> 54);
        pass((lot >> 50) % 4 == 0 ? 2000000 : 100);
    }
    printf("# %u rounds, %llu repaired, %llu failures\n", rounds,
           (unsigned long long)stats().repaired, (unsigned long long)stats().failures);
    assert_true(stats().repaired > 0 && stats().failures > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_is_new_to_a_key_does_not_say_that_it_is_lost),
        TEST(as_many_are_asked_as_are_lacking),
        TEST(a_death_is_made_good_at_once),
        TEST(who_is_new_to_a_key_hears_all_first),
        TEST(who_refuses_is_passed_by),
        TEST(who_is_at_it_is_waited_for),
        TEST(a_delete_is_not_made_good),
        TEST(what_is_not_told_again_is_let_go),
        TEST(who_died_and_came_back_holds_nothing),
        TEST(the_dead_are_asked_to_tell_again),
        TEST(too_many_are_let_off),
        TEST(another_birth_waits_for_the_first),
        TEST(rubbish_is_refused),
        TEST(what_was_asked_for_is_not_held_yet),
        TEST(books_are_right_whatever_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
