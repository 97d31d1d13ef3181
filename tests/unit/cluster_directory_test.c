/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory: each sentence of its header, random runs against a model that does everything at
 * once and the long way, and what a million keys cost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "cluster/directory.h"
#include "support/support.h"

#define NODES   5u
#define NOBODY  UINT32_MAX
#define ALL     UINT64_MAX
#define TICKETS 64u

/* ---- a directory, and what it said ---------------------------------------- */

struct said {
    uint32_t rank;
    struct directory_key key;
    struct directory_answer answer;
    struct birth birth;
};

struct world {
    struct directory *directory;
    struct said found[64], drops[64];
    uint32_t found_count, drop_count, deleted_count;
    uint64_t tickets[TICKETS];
    nigh_status statuses[TICKETS];
    bool answer_drops; /* from inside */
    bool full;         /* no drop is taken */
    bool forget_found;
};

static void on_found(void *context, uint32_t rank, const struct directory_key *key,
                     const struct directory_answer *answer)
{
    struct world *world = context;

    assert_true(world->found_count < 64);
    world->found[world->found_count++] =
        (struct said){.rank = rank, .key = *key, .answer = *answer};
    if (world->forget_found) {
        directory_forget(world->directory, answer->holders[0], key, &answer->object.birth);
    }
}

static bool on_drop(void *context, uint32_t rank, const struct directory_key *key,
                    const struct birth *birth)
{
    struct world *world = context;

    if (world->full) {
        return false;
    }
    assert_true(world->drop_count < 64);
    world->drops[world->drop_count++] = (struct said){.rank = rank, .key = *key, .birth = *birth};
    if (world->answer_drops) {
        directory_dropped(world->directory, rank, key, birth, NIGH_OK);
    }
    return true;
}

static void on_deleted(void *context, uint64_t ticket, nigh_status status)
{
    struct world *world = context;

    assert_true(world->deleted_count < TICKETS);
    world->tickets[world->deleted_count] = ticket;
    world->statuses[world->deleted_count++] = status;
}

static void world_open(struct world *world, uint32_t nodes, uint32_t max_keys)
{
    struct directory_config config = {
        .nodes = nodes,
        .max_keys = max_keys,
        .seed = 5,
        .shell = {.context = world, .found = on_found, .drop = on_drop, .deleted = on_deleted}};

    memset(world, 0, sizeof(*world));
    assert_int_equal(directory_create(&config, &world->directory), NIGH_OK);
}

/* As above, and everybody has announced nothing. */
static void world_ready(struct world *world)
{
    world_open(world, NODES, 100);
    for (uint32_t rank = 0; rank < NODES; rank++) {
        directory_announced(world->directory, rank, ALL);
    }
}

static void world_close(struct world *world)
{
    assert_true(directory_is_valid(world->directory));
    directory_destroy(world->directory);
}

static struct directory_key key_of(uint32_t n)
{
    struct directory_key key = {.pool = 3};

    memcpy(key.id, &n, sizeof(n));
    return key;
}

static uint64_t shard(uint32_t n)
{
    return UINT64_C(1) << (hash_id20(key_of(n).id) >> 58);
}

static struct directory_object object_of(uint32_t counter)
{
    return (struct directory_object){.birth = {.counter = counter, .incarnation = 1, .rank = 2},
                                     .data_size = 7};
}

static nigh_status announce(struct world *world, uint32_t from, uint32_t key, uint32_t birth,
                            bool is_copy)
{
    struct directory_key k = key_of(key);
    struct directory_object object = object_of(birth);
    nigh_status status = directory_announce(world->directory, from, &k, &object, is_copy, 0);

    assert_true(directory_is_valid(world->directory));
    return status;
}

static nigh_status claim(struct world *world, uint32_t from, uint32_t key, uint32_t birth,
                         bool held)
{
    struct directory_key k = key_of(key);
    struct directory_object object = object_of(birth);
    nigh_status status = directory_claim(world->directory, from, &k, &object.birth, held);

    assert_true(directory_is_valid(world->directory));
    return status;
}

static struct directory_answer locate(struct world *world, uint32_t from, uint32_t key, bool wait)
{
    struct directory_key k = key_of(key);
    struct directory_answer answer = {.state = (enum directory_state)9};

    assert_int_equal(directory_locate(world->directory, from, &k, wait, &answer), NIGH_OK);
    assert_true(directory_is_valid(world->directory));
    return answer;
}

static void forget(struct world *world, uint32_t from, uint32_t key, uint32_t birth)
{
    struct directory_key k = key_of(key);
    struct directory_object object = object_of(birth);

    directory_forget(world->directory, from, &k, &object.birth);
    assert_true(directory_is_valid(world->directory));
}

static nigh_status erase(struct world *world, uint32_t except, uint32_t key, uint64_t ticket)
{
    struct directory_key k = key_of(key);
    nigh_status status = directory_delete(world->directory, except, &k, ticket, 0);

    assert_true(directory_is_valid(world->directory));
    return status;
}

static void dropped(struct world *world, uint32_t from, uint32_t key, uint32_t birth,
                    nigh_status status)
{
    struct directory_key k = key_of(key);
    struct directory_object object = object_of(birth);

    directory_dropped(world->directory, from, &k, &object.birth, status);
    assert_true(directory_is_valid(world->directory));
}

static struct directory_stats stats_of(const struct world *world)
{
    struct directory_stats stats;

    directory_stats(world->directory, &stats);
    return stats;
}

/* ---- sentences: known and absent ------------------------------------------ */

static void a_holder_is_found(void **state)
{
    (void)state;
    struct world world;
    struct directory_answer answer;

    world_ready(&world);
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_ABSENT);
    assert_int_equal(announce(&world, 2, 1, 10, false), NIGH_OK);
    assert_int_equal(announce(&world, 2, 1, 10, false), NIGH_OK); /* again changes nothing */
    answer = locate(&world, 0, 1, false);
    assert_int_equal(answer.state, DIRECTORY_KNOWN);
    assert_int_equal(answer.holder_count, 1);
    assert_int_equal(answer.holders[0], 2);
    assert_int_equal(answer.object.birth.counter, 10);
    assert_int_equal(answer.object.data_size, 7);
    assert_int_equal(locate(&world, 2, 1, false).state, DIRECTORY_ABSENT); /* besides at itself */
    assert_int_equal(locate(&world, 0, 2, false).state, DIRECTORY_ABSENT); /* another id */
    forget(&world, 2, 1, 11);                                              /* another birth */
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_KNOWN);
    forget(&world, 2, 1, 10);
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_ABSENT);
    world_close(&world);
}

static void a_pool_is_part_of_the_key(void **state)
{
    (void)state;
    struct world world;
    struct directory_key other = key_of(1);
    struct directory_answer answer;

    world_ready(&world);
    announce(&world, 2, 1, 10, false);
    other.pool++;
    assert_int_equal(directory_locate(world.directory, 0, &other, false, &answer), NIGH_OK);
    assert_int_equal(answer.state, DIRECTORY_ABSENT);
    world_close(&world);
}

static void askers_spread_over_holders(void **state)
{
    (void)state;
    struct world world;
    uint32_t firsts[20] = {0};

    world_open(&world, 20, 10);
    for (uint32_t rank = 0; rank < 20; rank++) {
        announce(&world, rank, 1, 10, rank != 0);
    }
    for (uint32_t rank = 0; rank < 20; rank++) {
        struct directory_answer answer = locate(&world, rank, 1, false);

        assert_int_equal(answer.holder_count, DIRECTORY_HOLDERS);
        for (uint32_t n = 0; n < DIRECTORY_HOLDERS; n++) {
            assert_int_equal(answer.holders[n], (rank + 1 + n) % 20);
        }
        firsts[answer.holders[0]]++;
    }
    for (uint32_t rank = 0; rank < 20; rank++) {
        assert_int_equal(firsts[rank], 1);
    }
    world_close(&world);
}

static void every_rank_fits(void **state)
{
    (void)state;
    struct world world;

    world_open(&world, LIMIT_NODES, 10);
    for (uint32_t rank = 0; rank < LIMIT_NODES; rank++) {
        announce(&world, rank, 1, 10, false);
        assert_int_equal(locate(&world, (rank + 1) % LIMIT_NODES, 1, false).state, DIRECTORY_KNOWN);
        forget(&world, rank, 1, 10);
    }
    world_close(&world);
}

static void one_birth_is_admitted(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    assert_int_equal(announce(&world, 2, 1, 10, false), NIGH_OK);
    assert_int_equal(announce(&world, 3, 1, 11, false), NIGH_EXISTS);
    assert_int_equal(announce(&world, 3, 1, 11, true), NIGH_EXISTS);
    assert_int_equal(announce(&world, 3, 1, 10, true), NIGH_OK);
    forget(&world, 2, 1, 10);
    assert_int_equal(announce(&world, 2, 1, 11, false), NIGH_EXISTS); /* the copy lives */
    forget(&world, 3, 1, 10);
    assert_int_equal(announce(&world, 2, 1, 11, false), NIGH_OK);
    world_close(&world);
}

static void not_yet_is_not_absent(void **state)
{
    (void)state;
    struct world world;

    world_open(&world, NODES, 10);
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_NOT_YET);
    assert_int_equal(erase(&world, NOBODY, 1, 1), NIGH_BUSY);
    assert_int_equal(announce(&world, 2, 2, 10, false), NIGH_OK);
    assert_int_equal(locate(&world, 0, 2, false).state, DIRECTORY_KNOWN);
    for (uint32_t rank = 0; rank < NODES - 2; rank++) {
        directory_announced(world.directory, rank, ALL);
    }
    directory_announced(world.directory, NODES - 2, shard(1));
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_NOT_YET);
    assert_false(directory_is_complete(world.directory, shard(1)));
    directory_member_dead(world.directory, NODES - 1);
    assert_true(directory_is_complete(world.directory, shard(1)));
    assert_false(directory_is_complete(world.directory, ALL));
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_ABSENT);
    assert_int_equal(erase(&world, NOBODY, 1, 1), NIGH_NOT_FOUND);
    /* Back again: it may hold what nobody knows. */
    directory_member_up(world.directory, NODES - 1, shard(1));
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_NOT_YET);
    directory_announced(world.directory, NODES - 1, shard(1));
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_ABSENT);
    world_close(&world);
}

/* ---- sentences: waiting --------------------------------------------------- */

static void who_waits_is_told_once(void **state)
{
    (void)state;
    struct world world;
    struct directory_key key = key_of(1);

    world_ready(&world);
    locate(&world, 0, 1, true);
    locate(&world, 0, 1, true);
    locate(&world, 3, 1, true);
    locate(&world, 4, 1, true);
    directory_unwait(world.directory, 4, &key);
    assert_int_equal(stats_of(&world).waiting, 1);
    assert_int_equal(announce(&world, 2, 1, 10, false), NIGH_OK);
    assert_int_equal(world.found_count, 2);
    assert_int_equal(world.found[0].rank, 0);
    assert_int_equal(world.found[1].rank, 3);
    assert_memory_equal(&world.found[0].key, &key, sizeof(key));
    assert_int_equal(world.found[0].answer.holders[0], 2);
    assert_int_equal(stats_of(&world).waiting, 0);
    assert_int_equal(announce(&world, 3, 1, 10, true), NIGH_OK);
    assert_int_equal(world.found_count, 2);
    world_close(&world);
}

/* Itself is nobody to go to. */
static void a_sole_holder_waits_for_another(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    announce(&world, 2, 1, 10, false);
    assert_int_equal(locate(&world, 2, 1, true).state, DIRECTORY_ABSENT);
    announce(&world, 3, 1, 10, true);
    assert_int_equal(world.found_count, 1);
    assert_int_equal(world.found[0].rank, 2);
    assert_int_equal(world.found[0].answer.holders[0], 3);
    /* Whoever announces has it, and waits no more. */
    locate(&world, 4, 2, true);
    announce(&world, 4, 2, 20, false);
    assert_int_equal(stats_of(&world).waiting, 0);
    world_close(&world);
}

static void a_delete_does_not_forget_who_waits(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    announce(&world, 2, 1, 10, false);
    locate(&world, 2, 1, true);
    assert_int_equal(erase(&world, NOBODY, 1, 5), NIGH_PENDING);
    dropped(&world, 2, 1, 10, NIGH_OK);
    assert_int_equal(stats_of(&world).waiting, 1);
    assert_int_equal(announce(&world, 3, 1, 11, false), NIGH_OK);
    assert_int_equal(world.found_count, 1);
    assert_int_equal(world.found[0].rank, 2);
    world_close(&world);
}

/* ---- sentences: deletes --------------------------------------------------- */

static void a_delete_ends_when_all_have_answered(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    announce(&world, 2, 1, 10, false);
    announce(&world, 3, 1, 10, true);
    announce(&world, 4, 1, 10, true);
    assert_int_equal(erase(&world, 3, 1, 77), NIGH_PENDING);
    assert_int_equal(world.drop_count, 2);
    assert_int_equal(world.drops[0].rank, 2);
    assert_int_equal(world.drops[1].rank, 4);
    assert_int_equal(world.drops[0].birth.counter, 10);
    assert_int_equal(stats_of(&world).tombstones, 1);
    assert_int_equal(stats_of(&world).keys, 0);
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_ABSENT);
    assert_int_equal(erase(&world, NOBODY, 1, 78), NIGH_NOT_FOUND);
    /* Meanwhile: the birth is refused, another is admitted beside it. */
    assert_int_equal(announce(&world, 0, 1, 10, true), NIGH_IN_USE);
    assert_int_equal(announce(&world, 2, 1, 10, false), NIGH_IN_USE);
    assert_int_equal(world.drop_count, 4); /* both are told, and have to answer */
    assert_int_equal(announce(&world, 1, 1, 11, false), NIGH_OK);
    dropped(&world, 0, 1, 10, NIGH_OK);
    dropped(&world, 2, 1, 11, NIGH_OK); /* of another birth */
    dropped(&world, 3, 1, 10, NIGH_OK); /* was not asked */
    dropped(&world, 2, 1, 10, NIGH_IN_USE);
    dropped(&world, 2, 1, 10, NIGH_OK);
    assert_int_equal(world.deleted_count, 0);
    dropped(&world, 4, 1, 10, NIGH_NOT_FOUND);
    assert_int_equal(world.deleted_count, 1);
    assert_int_equal(world.tickets[0], 77);
    assert_int_equal(world.statuses[0], NIGH_IN_USE);
    assert_int_equal(locate(&world, 0, 1, false).object.birth.counter, 11);
    world_close(&world);
}

static void a_delete_of_what_only_the_asker_had_is_over(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    announce(&world, 2, 1, 10, false);
    assert_int_equal(erase(&world, 2, 1, 77), NIGH_OK);
    assert_int_equal(stats_of(&world).tombstones, 0);
    assert_int_equal(announce(&world, 3, 1, 10, true), NIGH_IN_USE); /* pulled meanwhile */
    assert_int_equal(announce(&world, 3, 1, 11, false), NIGH_OK);
    assert_int_equal(world.deleted_count, 0);
    world_close(&world);
}

static void a_dead_holder_owes_nothing(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    announce(&world, 2, 1, 10, false);
    announce(&world, 3, 1, 10, true);
    erase(&world, NOBODY, 1, 77);
    forget(&world, 3, 1, 10); /* evicted before it was told */
    assert_int_equal(world.deleted_count, 0);
    directory_member_dead(world.directory, 2);
    assert_int_equal(world.deleted_count, 1);
    assert_int_equal(world.statuses[0], NIGH_OK);
    directory_member_dead(world.directory, 3);
    assert_int_equal(world.deleted_count, 1);
    world_close(&world);
}

/* Told to drop when its link was down: what it announces says whether it has it. */
static void a_holder_that_came_back_says_whether_it_has_it(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    announce(&world, 2, 1, 10, false);
    announce(&world, 3, 1, 10, true);
    erase(&world, NOBODY, 1, 77);
    directory_member_up(world.directory, 2, shard(1));
    directory_member_up(world.directory, 3, shard(1));
    assert_int_equal(announce(&world, 2, 1, 10, false), NIGH_IN_USE);
    assert_int_equal(world.drop_count, 3); /* told again: the answer may be lost with the link */
    directory_announced(world.directory, 3, ~shard(1));
    directory_announced(world.directory, 2, shard(1));
    dropped(&world, 2, 1, 10, NIGH_OK);
    assert_int_equal(world.deleted_count, 0);
    directory_announced(world.directory, 3, shard(1));
    assert_int_equal(world.deleted_count, 1);
    assert_int_equal(stats_of(&world).tombstones, 0);
    world_close(&world);
}

/* A new home that deletes what it knows before it knows all. */
static void what_was_deleted_early_does_not_come_back(void **state)
{
    (void)state;
    struct world world;

    world_open(&world, 4, 10);
    announce(&world, 1, 1, 10, false);
    announce(&world, 1, 2, 20, false);
    directory_announced(world.directory, 1, ALL);
    assert_int_equal(erase(&world, NOBODY, 1, 77), NIGH_PENDING);
    assert_int_equal(erase(&world, 1, 2, 78), NIGH_OK);
    dropped(&world, 1, 1, 10, NIGH_OK);
    assert_int_equal(world.deleted_count, 1);
    assert_int_equal(stats_of(&world).tombstones, 2);
    assert_int_equal(announce(&world, 2, 1, 10, true), NIGH_IN_USE);
    assert_int_equal(announce(&world, 2, 2, 20, true), NIGH_IN_USE);
    directory_announced(world.directory, 2, ALL);
    directory_announced(world.directory, 0, ALL);
    assert_int_equal(announce(&world, 3, 1, 10, true), NIGH_IN_USE);
    dropped(&world, 2, 2, 20, NIGH_OK);
    assert_int_equal(stats_of(&world).tombstones, 2);
    directory_member_dead(world.directory, 3);
    assert_int_equal(stats_of(&world).tombstones, 1); /* 2 has yet to answer */
    dropped(&world, 2, 1, 10, NIGH_OK);
    assert_int_equal(stats_of(&world).tombstones, 0);
    assert_int_equal(world.deleted_count, 1);
    world_close(&world);
}

/* ---- sentences: copies ---------------------------------------------------- */

static void a_copy_does_not_bring_an_absent_key_back(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    assert_int_equal(announce(&world, 2, 1, 10, true), NIGH_IN_USE);
    locate(&world, 3, 1, true);
    assert_int_equal(announce(&world, 2, 1, 10, true), NIGH_IN_USE);
    assert_int_equal(world.found_count, 0);
    /* Nor when its link was away: what it announced before would be known. */
    directory_member_up(world.directory, 2, ALL);
    assert_int_equal(announce(&world, 2, 1, 10, true), NIGH_IN_USE);
    world_close(&world);
    /* But a directory that is built anew. */
    world_open(&world, 2, 10);
    assert_int_equal(announce(&world, 1, 1, 10, true), NIGH_OK);
    directory_announced(world.directory, 1, ALL);
    assert_int_equal(announce(&world, 1, 2, 20, true), NIGH_IN_USE);
    directory_member_dead(world.directory, 1);
    directory_member_up(world.directory, 1, ALL);
    assert_int_equal(announce(&world, 1, 1, 10, true), NIGH_OK);
    world_close(&world);
}

/* ---- sentences: members --------------------------------------------------- */

static void what_is_not_announced_again_is_forgotten(void **state)
{
    (void)state;
    struct world world;
    struct directory_answer answer;

    world_ready(&world);
    announce(&world, 2, 1, 10, false);
    announce(&world, 2, 2, 20, false);
    announce(&world, 3, 2, 20, true);
    locate(&world, 2, 3, true);
    directory_member_up(world.directory, 2, ALL);
    assert_int_equal(stats_of(&world).waiting, 0); /* it asks again */
    /* Still there, and named last. */
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_KNOWN);
    answer = locate(&world, 1, 2, false);
    assert_int_equal(answer.holder_count, 2);
    assert_int_equal(answer.holders[0], 3);
    assert_int_equal(answer.holders[1], 2);
    announce(&world, 2, 1, 10, false);
    directory_announced(world.directory, 2, ALL);
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_KNOWN);
    answer = locate(&world, 1, 2, false);
    assert_int_equal(answer.holder_count, 1);
    assert_int_equal(answer.holders[0], 3);
    world_close(&world);
}

/* As when its link comes up, but nobody has to wait for it, and it goes on waiting. */
static void what_is_announced_once_more_is_what_is_held(void **state)
{
    (void)state;
    struct world world;
    struct directory_answer answer;

    world_ready(&world);
    announce(&world, 2, 1, 10, false);
    announce(&world, 2, 2, 20, false);
    announce(&world, 3, 2, 20, true);
    announce(&world, 2, 4, 40, false);
    locate(&world, 2, 3, true);
    directory_announcing(world.directory, 2, ALL & ~shard(4));
    assert_int_equal(stats_of(&world).waiting, 1);
    assert_true(directory_is_complete(world.directory, ALL));
    assert_int_equal(locate(&world, 0, 5, false).state, DIRECTORY_ABSENT);
    assert_int_equal(announce(&world, 2, 5, 50, true), NIGH_IN_USE);
    answer = locate(&world, 1, 2, false);
    assert_int_equal(answer.holder_count, 2);
    assert_int_equal(answer.holders[0], 3); /* the other is named last */
    announce(&world, 2, 1, 10, false);
    announce(&world, 1, 3, 30, false);
    assert_int_equal(world.found_count, 1);
    directory_announced(world.directory, 2, ALL);
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_KNOWN);
    assert_int_equal(locate(&world, 0, 4, false).state, DIRECTORY_KNOWN); /* of another link */
    answer = locate(&world, 1, 2, false);
    assert_int_equal(answer.holder_count, 1);
    assert_int_equal(answer.holders[0], 3);
    /* What it held alone, and does not announce, is absent: another may seal it. */
    directory_announcing(world.directory, 2, ALL);
    directory_announced(world.directory, 2, ALL);
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_ABSENT);
    assert_int_equal(announce(&world, 1, 1, 11, false), NIGH_OK);
    world_close(&world);
}

static void a_drop_is_owed_while_all_is_announced_once_more(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    for (uint32_t key = 1; key < 3; key++) {
        announce(&world, 1, key, key, false);
        announce(&world, 2, key, key, true);
    }
    world.full = true;
    assert_int_equal(erase(&world, 1, 1, 1), NIGH_PENDING);
    assert_int_equal(erase(&world, 1, 2, 2), NIGH_PENDING);
    directory_announcing(world.directory, 2, ALL);
    assert_true(directory_owes(world.directory));
    assert_int_equal(announce(&world, 2, 1, 1, true), NIGH_IN_USE);
    directory_announced(world.directory, 2, ALL);
    assert_int_equal(world.deleted_count, 1); /* it has no birth of the second */
    assert_int_equal(world.tickets[0], 2);
    world.full = false;
    assert_true(directory_tell_owed(world.directory, 100));
    assert_int_equal(world.drop_count, 1);
    dropped(&world, 2, 1, 1, NIGH_OK);
    assert_int_equal(world.deleted_count, 2);
    world_close(&world);
}

/* What is sealed again where it went from is not refused for what its own member held, whose end
 * was to be said while there was no link, or no room for it. */
static void a_member_holds_one_birth_of_a_key(void **state)
{
    (void)state;
    struct world world;
    struct directory_answer answer;

    world_ready(&world);
    announce(&world, 2, 1, 10, false);
    announce(&world, 2, 2, 20, false);
    announce(&world, 3, 2, 20, true);
    announce(&world, 2, 3, 30, false);
    locate(&world, 2, 3, true);
    directory_member_up(world.directory, 2, ALL);
    assert_int_equal(announce(&world, 2, 1, 11, false), NIGH_OK);
    directory_announced(world.directory, 2, ALL);
    answer = locate(&world, 0, 1, false);
    assert_int_equal(answer.state, DIRECTORY_KNOWN);
    assert_int_equal(answer.object.birth.counter, 11);
    directory_announcing(world.directory, 2, ALL);
    assert_int_equal(announce(&world, 2, 1, 12, false), NIGH_OK);
    assert_int_equal(announce(&world, 2, 1, 13, false), NIGH_OK);
    assert_int_equal(announce(&world, 2, 1, 14, true), NIGH_IN_USE); /* a copy, of nothing */
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_ABSENT);
    /* Another holds the former: it stays, and is held by that one alone. */
    assert_int_equal(announce(&world, 2, 2, 21, false), NIGH_EXISTS);
    answer = locate(&world, 0, 2, false);
    assert_int_equal(answer.holder_count, 1);
    assert_int_equal(answer.holders[0], 3);
    forget(&world, 3, 2, 20);
    assert_int_equal(locate(&world, 0, 2, false).state, DIRECTORY_ABSENT);
    assert_true(directory_is_valid(world.directory));
    world_close(&world);
}

static void a_link_speaks_for_its_shards(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    announce(&world, 2, 1, 10, false);
    directory_member_up(world.directory, 2, ~shard(1));
    directory_announced(world.directory, 2, ~shard(1));
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_KNOWN);
    directory_member_up(world.directory, 2, shard(1));
    directory_announced(world.directory, 2, ~shard(1));
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_KNOWN);
    directory_announced(world.directory, 2, shard(1));
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_ABSENT);
    world_close(&world);
}

static void the_dead_hold_nothing_and_wait_for_nothing(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    announce(&world, 2, 1, 10, false);
    announce(&world, 3, 1, 10, true);
    announce(&world, 2, 2, 20, false);
    locate(&world, 2, 3, true);
    locate(&world, 4, 2, true);
    directory_member_dead(world.directory, 2);
    assert_int_equal(locate(&world, 0, 1, false).holder_count, 1);
    assert_int_equal(locate(&world, 0, 2, false).state, DIRECTORY_ABSENT);
    assert_int_equal(stats_of(&world).waiting, 0);
    assert_int_equal(stats_of(&world).keys, 1);
    world_close(&world);
}

/* ---- bounds, callbacks that call back -------------------------------------- */

static void keys_have_a_bound(void **state)
{
    (void)state;
    struct world world;
    struct directory_key key;
    struct directory_answer answer;
    struct directory *none = NULL;
    struct directory_config wrong = {.nodes = 0, .max_keys = 1};

    assert_int_equal(directory_create(&wrong, &none), NIGH_INVALID);
    wrong.nodes = LIMIT_NODES + 1;
    assert_int_equal(directory_create(&wrong, &none), NIGH_INVALID);
    wrong = (struct directory_config){.nodes = 1, .self = 1, .max_keys = 1};
    assert_int_equal(directory_create(&wrong, &none), NIGH_INVALID);
    wrong = (struct directory_config){.nodes = 1, .max_keys = LIMIT_DIRECTORY_KEYS + 1};
    assert_int_equal(directory_create(&wrong, &none), NIGH_INVALID);
    assert_null(none);

    world_open(&world, NODES, 3);
    for (uint32_t rank = 0; rank < NODES; rank++) {
        directory_announced(world.directory, rank, ALL);
    }
    assert_int_equal(announce(&world, 2, 1, 10, false), NIGH_OK);
    locate(&world, 3, 2, true);
    assert_int_equal(announce(&world, 2, 3, 30, false), NIGH_OK);
    assert_int_equal(announce(&world, 2, 4, 40, false), NIGH_LIMIT);
    key = key_of(4);
    assert_int_equal(directory_locate(world.directory, 0, &key, true, &answer), NIGH_LIMIT);
    assert_int_equal(locate(&world, 0, 4, false).state, DIRECTORY_ABSENT);
    assert_int_equal(announce(&world, 3, 1, 10, true), NIGH_OK); /* it is there */
    /* A tombstone that must keep who waits needs room of its own. */
    locate(&world, 2, 3, true);
    assert_int_equal(erase(&world, NOBODY, 3, 5), NIGH_LIMIT);
    assert_int_equal(locate(&world, 0, 3, false).state, DIRECTORY_KNOWN);
    forget(&world, 2, 1, 10);
    forget(&world, 3, 1, 10);
    assert_int_equal(erase(&world, NOBODY, 3, 5), NIGH_PENDING);
    assert_int_equal(announce(&world, 2, 4, 40, false), NIGH_LIMIT);
    dropped(&world, 2, 3, 30, NIGH_OK);
    assert_int_equal(announce(&world, 2, 4, 40, false), NIGH_OK);
    world_close(&world);
}

/* One member that announces, waits and deletes without end leaves keys to the others. */
static void a_member_takes_its_share_of_keys(void **state)
{
    (void)state;
    struct world world;
    struct directory_answer answer;
    struct directory_key key;
    uint32_t count = 0, others = 0;

    world_open(&world, NODES, 64);
    for (uint32_t rank = 0; rank < NODES; rank++) {
        directory_announced(world.directory, rank, ALL);
    }
    while (announce(&world, 2, count, count + 1, false) == NIGH_OK) {
        count++;
    }
    assert_in_range(count, 64 / 2, 64 * 7 / 8);
    assert_int_equal(stats_of(&world).refused, 1);
    key = key_of(1000);
    assert_int_equal(directory_locate(world.directory, 2, &key, true, &answer), NIGH_LIMIT);
    /* Its tombstones stay its own: it does not answer what it is told to drop. */
    world.drop_count = 0;
    for (uint32_t n = 0; n < 8; n++) {
        assert_int_equal(erase(&world, NOBODY, n, n), NIGH_PENDING);
    }
    assert_int_equal(announce(&world, 2, 1000, 1, false), NIGH_LIMIT);
    while (announce(&world, 3, 2000 + others, 1, false) == NIGH_OK) {
        others++;
    }
    assert_true(others >= 64 / LIMIT_SHARE_OWN / NODES);
    for (uint32_t rank = 0; rank < 2; rank++) {
        for (uint32_t n = 0; n < 64 / LIMIT_SHARE_OWN / NODES; n++) {
            assert_int_equal(announce(&world, rank, 3000 + 100 * rank + n, 1, false), NIGH_OK);
        }
    }
    /* Who lets go has room again, and who takes over what another announced pays for it. */
    assert_int_equal(announce(&world, 3, 20, 21, true), NIGH_OK);
    forget(&world, 2, 21, 22);
    assert_int_equal(announce(&world, 2, 1000, 1, false), NIGH_OK);
    world_close(&world);
}

static void a_key_is_in_the_share_of_who_holds_it(void **state)
{
    (void)state;
    struct world world;
    uint32_t count = 0;

    world_open(&world, NODES, 64);
    for (uint32_t rank = 0; rank < NODES; rank++) {
        directory_announced(world.directory, rank, ALL);
    }
    while (announce(&world, 2, count, count + 1, false) == NIGH_OK) {
        count++;
    }
    for (uint32_t n = 0; n < 4; n++) {
        assert_int_equal(announce(&world, 1, n, n + 1, true), NIGH_OK);
        forget(&world, 2, n, n + 1);
    }
    for (uint32_t n = 0; n < 4; n++) {
        assert_int_equal(announce(&world, 2, 500 + n, 1, false), NIGH_OK);
    }
    assert_int_equal(announce(&world, 2, 600, 1, false), NIGH_LIMIT);
    world_close(&world);
}

/* What cannot be said at once is kept with the tombstone, and said when there is room. */
static void no_drop_is_lost(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    for (uint32_t key = 0; key < 5; key++) {
        announce(&world, 1, key, key + 1, false);
        announce(&world, 2, key, key + 1, true);
        announce(&world, 3, key, key + 1, true);
    }
    world.full = true;
    for (uint32_t key = 0; key < 5; key++) {
        assert_int_equal(erase(&world, 1, key, key), NIGH_PENDING);
    }
    assert_true(directory_owes(world.directory));
    assert_false(directory_tell_owed(world.directory, 100));
    assert_true(directory_is_valid(world.directory));
    assert_int_equal(world.drop_count, 0);
    /* Who is dead, or comes back, or has let go need not be told. */
    directory_member_dead(world.directory, 3);
    forget(&world, 2, 4, 5);
    assert_int_equal(world.deleted_count, 1);
    world.full = false;
    assert_true(directory_tell_owed(world.directory, 1));
    assert_int_equal(world.drop_count, 1);
    assert_true(directory_tell_owed(world.directory, 100));
    assert_int_equal(world.drop_count, 4);
    assert_false(directory_owes(world.directory));
    for (uint32_t n = 0; n < 4; n++) {
        assert_int_equal(world.drops[n].rank, 2);
        dropped(&world, 2, n, n + 1, NIGH_OK);
    }
    assert_int_equal(world.deleted_count, 5);
    /* Nor is the one that an announcement asks for, while the first is not answered. */
    announce(&world, 1, 7, 8, false);
    announce(&world, 2, 7, 8, true);
    assert_int_equal(erase(&world, 1, 7, 7), NIGH_PENDING);
    world.full = true;
    assert_int_equal(announce(&world, 0, 7, 8, true), NIGH_IN_USE);
    dropped(&world, 2, 7, 8, NIGH_OK);
    assert_int_equal(world.deleted_count, 5);
    world.full = false;
    assert_true(directory_tell_owed(world.directory, 100));
    assert_int_equal(world.drops[world.drop_count - 1].rank, 0);
    dropped(&world, 0, 7, 8, NIGH_OK);
    assert_int_equal(world.deleted_count, 6);
    world_close(&world);
}

/* ---- claims --------------------------------------------------------------- */

static void a_claim_keeps_a_key_for_one_member(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    locate(&world, 0, 1, true);
    assert_int_equal(claim(&world, 2, 1, 10, false), NIGH_OK);
    assert_int_equal(claim(&world, 2, 1, 10, false), NIGH_OK); /* said twice */
    assert_int_equal(stats_of(&world).claims, 1);
    assert_int_equal(claim(&world, 3, 1, 11, false), NIGH_EXISTS);
    assert_int_equal(claim(&world, 3, 1, 11, true), NIGH_EXISTS);
    assert_int_equal(announce(&world, 3, 1, 12, false), NIGH_EXISTS);
    assert_int_equal(locate(&world, 4, 1, false).state, DIRECTORY_ABSENT);
    assert_int_equal(erase(&world, NOBODY, 1, 77), NIGH_NOT_FOUND);
    /* It becomes the birth: who waits is told, and others are refused as ever. */
    assert_int_equal(announce(&world, 2, 1, 10, false), NIGH_OK);
    assert_int_equal(world.found_count, 1);
    assert_int_equal(stats_of(&world).claims, 0);
    assert_int_equal(stats_of(&world).keys, 1);
    assert_int_equal(claim(&world, 3, 1, 11, false), NIGH_EXISTS);
    assert_int_equal(claim(&world, 2, 1, 10, true), NIGH_OK); /* said late */
    assert_int_equal(stats_of(&world).claims, 0);
    /* What is deleted may be claimed while its tombstone stands. */
    announce(&world, 4, 1, 10, true);
    assert_int_equal(erase(&world, 2, 1, 78), NIGH_PENDING);
    assert_int_equal(claim(&world, 3, 1, 11, false), NIGH_OK);
    dropped(&world, 4, 1, 10, NIGH_OK);
    assert_int_equal(world.deleted_count, 1);
    assert_int_equal(announce(&world, 3, 1, 11, false), NIGH_OK);
    world_close(&world);
}

static void a_claim_is_given_up(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    assert_int_equal(claim(&world, 2, 1, 10, false), NIGH_OK);
    forget(&world, 2, 1, 9);  /* of another birth */
    forget(&world, 3, 1, 10); /* another's */
    assert_int_equal(claim(&world, 3, 1, 11, false), NIGH_EXISTS);
    forget(&world, 2, 1, 10);
    assert_int_equal(stats_of(&world).claims, 0);
    assert_int_equal(claim(&world, 3, 1, 11, false), NIGH_OK);
    /* That it was given up is lost: a new one, or another birth, stands in its place. */
    assert_int_equal(claim(&world, 3, 1, 12, false), NIGH_OK);
    forget(&world, 3, 1, 11);
    assert_int_equal(stats_of(&world).claims, 1);
    assert_int_equal(announce(&world, 3, 1, 13, false), NIGH_OK);
    assert_int_equal(stats_of(&world).claims, 0);
    assert_int_equal(locate(&world, 0, 1, false).object.birth.counter, 13);
    assert_int_equal(claim(&world, 3, 1, 14, false), NIGH_OK); /* so is that what it held is gone */
    assert_int_equal(locate(&world, 0, 1, false).state, DIRECTORY_ABSENT);
    world_close(&world);
}

static void a_claim_does_not_outlive_its_member(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    assert_int_equal(claim(&world, 2, 1, 10, false), NIGH_OK);
    locate(&world, 0, 1, true);
    directory_member_dead(world.directory, 2);
    assert_int_equal(claim(&world, 3, 1, 11, false), NIGH_OK);
    assert_int_equal(stats_of(&world).waiting, 1);
    /* Its link came up: it claims again what it has, and the rest is over. */
    assert_int_equal(claim(&world, 3, 2, 20, false), NIGH_OK);
    directory_member_up(world.directory, 3, ALL);
    assert_int_equal(announce(&world, 4, 1, 12, false), NIGH_EXISTS);
    assert_int_equal(claim(&world, 3, 1, 11, true), NIGH_OK);
    directory_announced(world.directory, 3, ALL);
    assert_int_equal(announce(&world, 4, 1, 12, false), NIGH_EXISTS);
    assert_int_equal(announce(&world, 4, 2, 21, false), NIGH_OK);
    directory_announcing(world.directory, 3, ALL);
    directory_announced(world.directory, 3, ALL);
    assert_int_equal(announce(&world, 4, 1, 12, false), NIGH_OK);
    world_close(&world);
}

static void what_is_not_known_yet_is_claimed_later(void **state)
{
    (void)state;
    struct world world;

    world_open(&world, 3, 100);
    directory_announced(world.directory, 0, ALL);
    directory_announced(world.directory, 1, ALL);
    assert_int_equal(claim(&world, 1, 1, 10, false), NIGH_BUSY);
    assert_int_equal(stats_of(&world).claims, 0);
    assert_int_equal(claim(&world, 1, 2, 20, true), NIGH_OK); /* a former directory granted it */
    assert_int_equal(announce(&world, 2, 1, 11, false), NIGH_OK);
    directory_announced(world.directory, 2, ALL);
    assert_int_equal(claim(&world, 1, 1, 10, false), NIGH_EXISTS);
    assert_int_equal(claim(&world, 0, 2, 21, false), NIGH_EXISTS);
    world_close(&world);
}

static void a_member_takes_its_share_of_claims(void **state)
{
    (void)state;
    struct world world;
    uint32_t count = 0;

    world_open(&world, 2, 2 * LIMIT_CLAIMS);
    directory_announced(world.directory, 0, ALL);
    directory_announced(world.directory, 1, ALL);
    for (;; count++) {
        struct directory_key key = key_of(count);
        struct directory_object object = object_of(count);
        nigh_status status = directory_claim(world.directory, 0, &key, &object.birth, false);

        if (status != NIGH_OK) {
            assert_int_equal(status, NIGH_LIMIT);
            break;
        }
    }
    assert_true(count > LIMIT_CLAIMS / 2 && count < LIMIT_CLAIMS * 3 / 4);
    assert_int_equal(stats_of(&world).refused, 1);
    assert_int_equal(claim(&world, 1, count, 1, false), NIGH_OK);
    forget(&world, 0, 0, 0);
    assert_int_equal(claim(&world, 0, count + 1, 1, false), NIGH_OK);
    world_close(&world);
}

static void callbacks_may_call_back(void **state)
{
    (void)state;
    struct world world;

    world_ready(&world);
    world.answer_drops = true;
    announce(&world, 2, 1, 10, false);
    announce(&world, 3, 1, 10, true);
    assert_int_equal(erase(&world, NOBODY, 1, 77), NIGH_PENDING);
    assert_int_equal(world.drop_count, 2);
    assert_int_equal(world.deleted_count, 1);
    /* The first that is told finds nothing there: the others wait on. */
    world.forget_found = true;
    locate(&world, 0, 1, true);
    locate(&world, 1, 1, true);
    assert_int_equal(announce(&world, 2, 1, 11, false), NIGH_OK);
    assert_int_equal(world.found_count, 1);
    assert_int_equal(stats_of(&world).waiting, 1);
    assert_int_equal(announce(&world, 2, 1, 11, false), NIGH_OK);
    assert_int_equal(world.found_count, 2);
    assert_int_equal(stats_of(&world).waiting, 0);
    world_close(&world);
}

/* ---- random runs against a model ------------------------------------------ */

#define MODEL_KEYS       20000u
#define MODEL_TOMBSTONES 4u
#define MODEL_BIRTHS     4u
#define MODEL_TICKETS    (1u << 20)

struct model_tombstone {
    bool used, in_use, told;
    uint32_t birth, holders, unconfirmed, ticket;
};

struct model_key {
    uint32_t birth, holders, unconfirmed, waiters;
    uint32_t claimer, claimed; /* a rank and one, and the birth that is to come */
    bool claim_doubted;
    struct model_tombstone tombstones[MODEL_TOMBSTONES];
    uint64_t deleted[MODEL_BIRTHS]; /* step of the last delete */
};

/* How deletes ended, by ticket. */
struct ends {
    int8_t *status; /* 0: not yet; 1: OK; 2: IN_USE */
    uint32_t count;
};

struct model {
    struct model_key keys[MODEL_KEYS];
    uint64_t announced[NODES], ever[NODES];
    bool dead[NODES];
    uint64_t died[NODES]; /* last step at which it was */
    struct ends wanted, got;
    uint32_t tickets, key_count;
    uint64_t step;
    struct directory *directory;
    /* What the call under way has to say. */
    uint32_t found_ranks, drop_ranks, key;
};

static void model_end(struct ends *ends, uint64_t ticket, bool in_use)
{
    assert_int_equal(ends->status[ticket], 0); /* once */
    ends->status[ticket] = in_use ? 2 : 1;
    ends->count++;
}

static uint64_t model_all(const struct model *model, const uint64_t *shards)
{
    uint64_t all = UINT64_MAX;

    for (uint32_t rank = 0; rank < NODES; rank++) {
        all &= model->dead[rank] ? UINT64_MAX : shards[rank];
    }
    return all;
}

static void model_settle(struct model *model, struct model_tombstone *tombstone, uint32_t key)
{
    if (!tombstone->used || tombstone->holders != 0) {
        return;
    }
    if (!tombstone->told) {
        model_end(&model->wanted, tombstone->ticket, tombstone->in_use);
    }
    tombstone->told = true;
    tombstone->used = (model_all(model, model->ever) & shard(key)) == 0;
}

static void model_let_go(struct model *model, uint32_t key, uint32_t birth, uint32_t rank)
{
    struct model_key *k = &model->keys[key];

    if (k->claimer == rank + 1 && k->claimed == birth) {
        k->claimer = 0;
        return;
    }
    if (k->holders != 0 && k->birth == birth) {
        k->holders &= ~(1u << rank);
        k->unconfirmed &= ~(1u << rank);
        return;
    }
    for (uint32_t n = 0; n < MODEL_TOMBSTONES; n++) {
        if (k->tombstones[n].used && k->tombstones[n].birth == birth) {
            k->tombstones[n].holders &= ~(1u << rank);
            k->tombstones[n].unconfirmed &= ~(1u << rank);
            model_settle(model, &k->tombstones[n], key);
        }
    }
}

/* What: it is up, begins to announce again, has announced, is dead. */
static void model_member(struct model *model, uint32_t rank, uint64_t shards, char what)
{
    uint32_t bit = 1u << rank;

    for (uint32_t key = 0; key < model->key_count; key++) {
        struct model_key *k = &model->keys[key];

        if ((shard(key) & shards) == 0) {
            continue;
        }
        if (what == 'u' || what == 'd') {
            k->waiters &= ~bit;
        }
        if (k->claimer == rank + 1) {
            k->claim_doubted = k->claim_doubted || what == 'u' || what == 'b';
            k->claimer = what == 'd' || (what == 'a' && k->claim_doubted) ? 0 : k->claimer;
        }
        if (what == 'u' || what == 'b') {
            k->unconfirmed |= k->holders & bit;
        } else {
            k->holders &= what == 'd' ? ~bit : ~(bit & k->unconfirmed);
            k->unconfirmed &= ~bit;
        }
        for (uint32_t n = 0; n < MODEL_TOMBSTONES; n++) {
            struct model_tombstone *t = &k->tombstones[n];

            if (what == 'u' || what == 'b') {
                t->unconfirmed |= t->holders & bit;
                continue;
            }
            t->holders &= what == 'd' ? ~bit : ~(bit & t->unconfirmed);
            t->unconfirmed &= ~bit;
            model_settle(model, t, key);
        }
    }
}

static struct model_tombstone *model_tombstone(struct model_key *k, uint32_t birth)
{
    for (uint32_t n = 0; n < MODEL_TOMBSTONES; n++) {
        if (k->tombstones[n].used && k->tombstones[n].birth == birth) {
            return &k->tombstones[n];
        }
    }
    return NULL;
}

static uint32_t key_number(const struct directory_key *key)
{
    uint32_t n;

    memcpy(&n, key->id, sizeof(n));
    return n;
}

static void check_answer(const struct model *model, uint32_t key, uint32_t asker,
                         const struct directory_answer *answer)
{
    const struct model_key *k = &model->keys[key];
    uint32_t count = 0;

    assert_int_equal(answer->state, DIRECTORY_KNOWN);
    assert_int_equal(answer->object.birth.counter, k->birth);
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t n = 1; n < NODES; n++) {
            uint32_t bit = 1u << (asker + n) % NODES;

            if ((k->holders & bit) != 0 && ((k->unconfirmed & bit) != 0) == (pass == 1)) {
                assert_true(count < answer->holder_count);
                assert_int_equal(answer->holders[count], (asker + n) % NODES);
                count++;
            }
        }
    }
    assert_int_equal(answer->holder_count, count);
}

static void model_on_found(void *context, uint32_t rank, const struct directory_key *key,
                           const struct directory_answer *answer)
{
    struct model *model = context;

    assert_int_equal(key_number(key), model->key);
    assert_true((model->found_ranks & 1u << rank) != 0);
    model->found_ranks &= ~(1u << rank);
    check_answer(model, model->key, rank, answer);
}

static bool model_on_drop(void *context, uint32_t rank, const struct directory_key *key,
                          const struct birth *birth)
{
    struct model *model = context;

    (void)birth;
    assert_int_equal(key_number(key), model->key);
    assert_true((model->drop_ranks & 1u << rank) != 0);
    model->drop_ranks &= ~(1u << rank);
    return true;
}

static void model_on_deleted(void *context, uint64_t ticket, nigh_status status)
{
    struct model *model = context;

    assert_true(status == NIGH_OK || status == NIGH_IN_USE);
    model_end(&model->got, ticket, status == NIGH_IN_USE);
}

static void step_announce(struct model *model, uint32_t from, uint32_t key, uint32_t birth,
                          bool is_copy)
{
    struct model_key *k = &model->keys[key];
    struct directory_key real = key_of(key);
    struct directory_object object = object_of(birth);
    nigh_status wanted = NIGH_OK;
    bool was_absent;

    model->drop_ranks = 0;
    if (model_tombstone(k, birth) == NULL && k->birth != birth) {
        k->holders &= ~(1u << from);
        k->unconfirmed &= ~(1u << from);
    }
    if (model_tombstone(k, birth) == NULL && k->claimer == from + 1) {
        k->claimer = 0;
    }
    was_absent = k->holders == 0;
    if (model_tombstone(k, birth) != NULL) {
        wanted = NIGH_IN_USE;
        model_tombstone(k, birth)->holders |= 1u << from;
        model_tombstone(k, birth)->unconfirmed &= ~(1u << from);
        model->drop_ranks = 1u << from;
    } else if (k->holders != 0) {
        wanted = k->birth == birth ? NIGH_OK : NIGH_EXISTS;
    } else if (k->claimer != 0) {
        wanted = NIGH_EXISTS;
    } else if (is_copy && (model->ever[from] & shard(key)) != 0) {
        wanted = NIGH_IN_USE;
    }
    model->key = key;
    model->found_ranks = 0;
    if (wanted == NIGH_OK) {
        k->birth = birth;
        k->holders |= 1u << from;
        k->unconfirmed &= ~(1u << from);
        k->waiters &= ~(1u << from);
        for (uint32_t rank = 0; rank < NODES; rank++) {
            if ((k->waiters & 1u << rank) != 0 && (k->holders & ~(1u << rank)) != 0) {
                model->found_ranks |= 1u << rank;
            }
        }
        k->waiters &= ~model->found_ranks;
        /* What was deleted comes back by a copy only of a member that was dead then or since. */
        assert_true(!is_copy || !was_absent || k->deleted[birth] == 0 || model->dead[from] ||
                    model->died[from] > k->deleted[birth]);
    }
    assert_int_equal(directory_announce(model->directory, from, &real, &object, is_copy, 0),
                     wanted);
    assert_int_equal(model->found_ranks, 0);
    assert_int_equal(model->drop_ranks, 0);
}

static void step_claim(struct model *model, uint32_t from, uint32_t key, uint32_t birth, bool held)
{
    struct model_key *k = &model->keys[key];
    struct directory_key real = key_of(key);
    struct directory_object object = object_of(birth);
    nigh_status wanted = NIGH_OK;

    if ((k->holders & 1u << from) != 0 && k->birth == birth) {
        assert_int_equal(directory_claim(model->directory, from, &real, &object.birth, held),
                         NIGH_OK);
        return;
    }
    k->holders &= ~(1u << from);
    k->unconfirmed &= ~(1u << from);
    if (k->holders != 0 || (k->claimer != 0 && k->claimer != from + 1)) {
        wanted = NIGH_EXISTS;
    } else if (k->claimer == 0 && !held && (model_all(model, model->announced) & shard(key)) == 0) {
        wanted = NIGH_BUSY;
    }
    if (wanted == NIGH_OK) {
        k->claimer = from + 1;
        k->claimed = birth;
        k->claim_doubted = false;
    }
    assert_int_equal(directory_claim(model->directory, from, &real, &object.birth, held), wanted);
}

static void step_locate(struct model *model, uint32_t from, uint32_t key, bool wait)
{
    struct model_key *k = &model->keys[key];
    struct directory_key real = key_of(key);
    struct directory_answer answer;

    assert_int_equal(directory_locate(model->directory, from, &real, wait, &answer), NIGH_OK);
    if ((k->holders & ~(1u << from)) != 0) {
        check_answer(model, key, from, &answer);
        return;
    }
    assert_int_equal(answer.state, (model_all(model, model->announced) & shard(key)) != 0
                                       ? DIRECTORY_ABSENT
                                       : DIRECTORY_NOT_YET);
    k->waiters |= wait ? 1u << from : 0;
}

static void step_delete(struct model *model, uint32_t except, uint32_t key)
{
    struct model_key *k = &model->keys[key];
    struct directory_key real = key_of(key);
    struct model_tombstone *tombstone = NULL;
    uint32_t others = k->holders & ~(except < NODES ? 1u << except : 0);
    nigh_status wanted = others != 0 ? NIGH_PENDING : NIGH_OK;

    for (uint32_t n = 0; n < MODEL_TOMBSTONES; n++) {
        tombstone = k->tombstones[n].used ? tombstone : &k->tombstones[n];
    }
    if (tombstone == NULL || model->tickets == MODEL_TICKETS) {
        return;
    }
    model->key = key;
    model->drop_ranks = 0;
    if (k->holders == 0) {
        wanted =
            (model_all(model, model->announced) & shard(key)) != 0 ? NIGH_NOT_FOUND : NIGH_BUSY;
    } else {
        *tombstone = (struct model_tombstone){
            .used = others != 0 || (model_all(model, model->ever) & shard(key)) == 0,
            .told = others == 0,
            .birth = k->birth,
            .holders = others,
            .unconfirmed = k->unconfirmed & others,
            .ticket = model->tickets,
        };
        model->drop_ranks = others;
        k->deleted[k->birth] = model->step;
        k->holders = k->unconfirmed = 0;
    }
    assert_int_equal(directory_delete(model->directory, except, &real, model->tickets, 0), wanted);
    assert_int_equal(model->drop_ranks, 0);
    model->tickets++;
}

static void step_dropped(struct model *model, uint32_t from, uint32_t key, uint32_t birth,
                         nigh_status status)
{
    struct directory_key real = key_of(key);
    struct directory_object object = object_of(birth);
    struct model_tombstone *tombstone = model_tombstone(&model->keys[key], birth);

    if (tombstone != NULL && (tombstone->holders & 1u << from) != 0) {
        tombstone->in_use = tombstone->in_use || status == NIGH_IN_USE;
        tombstone->holders &= ~(1u << from);
        tombstone->unconfirmed &= ~(1u << from);
        model_settle(model, tombstone, key);
    }
    directory_dropped(model->directory, from, &real, &object.birth, status);
}

static void step_member(struct model *model, uint32_t rank, uint64_t shards, uint64_t what)
{
    if (what == 0) {
        model->dead[rank] = true;
        model->announced[rank] = model->ever[rank] = 0;
        model->died[rank] = model->step;
        model_member(model, rank, ALL, 'd');
        directory_member_dead(model->directory, rank);
    } else if (what < 3) {
        model->died[rank] = model->dead[rank] ? model->step : model->died[rank];
        model->dead[rank] = false;
        model->announced[rank] &= ~shards;
        model_member(model, rank, shards, 'u');
        directory_member_up(model->directory, rank, shards);
    } else if (what == 3) {
        model_member(model, rank, shards, 'b');
        directory_announcing(model->directory, rank, shards);
    } else {
        model->announced[rank] |= shards;
        model->ever[rank] |= shards;
        model_member(model, rank, shards, 'a');
        directory_announced(model->directory, rank, shards);
    }
}

static void one_step(struct model *model, uint64_t *random, uint32_t member_one_in)
{
    uint32_t key = (uint32_t)(support_random(random) % model->key_count);
    uint32_t from = (uint32_t)(support_random(random) % NODES);
    uint32_t birth = (uint32_t)(support_random(random) % MODEL_BIRTHS);
    struct directory_key real = key_of(key);
    struct directory_object object = object_of(birth);

    model->step++;
    if (support_random(random) % member_one_in == 0) {
        step_member(model, from, support_random(random) | support_random(random),
                    support_random(random) % 8);
        return;
    }
    switch (support_random(random) % 11) {
    case 10: step_claim(model, from, key, birth, support_random(random) % 4 == 0); break;
    case 0:
    case 1:
    case 2: step_announce(model, from, key, birth, support_random(random) % 2 == 0); break;
    case 3:
    case 4: step_locate(model, from, key, support_random(random) % 2 == 0); break;
    case 5:
        model_let_go(model, key, birth, from);
        directory_forget(model->directory, from, &real, &object.birth);
        break;
    case 6:
        model->keys[key].waiters &= ~(1u << from);
        directory_unwait(model->directory, from, &real);
        break;
    case 7: step_delete(model, support_random(random) % 2 == 0 ? from : NOBODY, key); break;
    default:
        step_dropped(model, from, key, birth,
                     support_random(random) % 4 == 0 ? NIGH_IN_USE : NIGH_OK);
        break;
    }
    /* Nobody is forgotten who could go somewhere. */
    for (uint32_t rank = 0; rank < NODES; rank++) {
        assert_true((model->keys[key].waiters & 1u << rank) == 0 ||
                    (model->keys[key].holders & ~(1u << rank)) == 0);
    }
}

/* All that was put off is done, and all deletes ended that had to. */
static void check_all(struct model *model)
{
    struct directory_stats wanted = {0}, got;

    while (directory_turn(model->directory)) {
    }
    assert_true(directory_is_valid(model->directory));
    assert_int_equal(model->wanted.count, model->got.count);
    assert_memory_equal(model->wanted.status, model->got.status, model->tickets);
    for (uint32_t key = 0; key < model->key_count; key++) {
        wanted.keys += model->keys[key].holders != 0;
        wanted.waiting += model->keys[key].waiters != 0;
        wanted.claims += model->keys[key].claimer != 0;
        for (uint32_t n = 0; n < MODEL_TOMBSTONES; n++) {
            wanted.tombstones += model->keys[key].tombstones[n].used;
        }
    }
    directory_stats(model->directory, &got);
    assert_int_equal(wanted.keys, got.keys);
    assert_int_equal(wanted.waiting, got.waiting);
    assert_int_equal(wanted.claims, got.claims);
    assert_int_equal(wanted.tombstones, got.tombstones);
}

static void run_model(uint32_t keys, uint32_t steps, uint32_t member_one_in, uint32_t check_every,
                      uint64_t *random)
{
    struct model *model = calloc(1, sizeof(*model));
    struct directory_config config = {.nodes = NODES,
                                      .max_keys = 4 * keys * (MODEL_TOMBSTONES + 1),
                                      .seed = *random,
                                      .shell = {.context = model,
                                                .found = model_on_found,
                                                .drop = model_on_drop,
                                                .deleted = model_on_deleted}};

    model->key_count = keys;
    model->wanted.status = calloc(MODEL_TICKETS, 1);
    model->got.status = calloc(MODEL_TICKETS, 1);
    assert_int_equal(directory_create(&config, &model->directory), NIGH_OK);
    for (uint32_t step = 0; step < steps; step++) {
        one_step(model, random, member_one_in);
        if (step % check_every == 0) {
            check_all(model);
        }
    }
    check_all(model);
    print_message("# %u keys: %u steps, %u deletes ended\n", keys, steps, model->got.count);
    assert_true(model->got.count > steps / 1000);
    directory_destroy(model->directory);
    free(model->wanted.status);
    free(model->got.status);
    free(model);
}

static void few_keys_do_as_the_model_does(void **state)
{
    (void)state;
    uint64_t random = support_seed() | 1;

    run_model(4, 1000000, 12, 100, &random);
    run_model(60, 200000, 40, 1000, &random);
}

/* More keys than one turn passes: much is put off, and no answer shows it. */
static void what_is_put_off_does_not_show(void **state)
{
    (void)state;
    uint64_t random = support_seed() | 1;

    assert_true(MODEL_KEYS > 2 * LIMIT_DIRECTORY_TURN);
    run_model(MODEL_KEYS, 400000, 2000, 20000, &random);
    run_model(MODEL_KEYS, 100000, 300, 50000, &random);
}

/* More changes than are remembered while keys wait for the sweep. */
static void changes_have_a_bound(void **state)
{
    (void)state;
    struct world world;

    world_open(&world, NODES, 2 * LIMIT_DIRECTORY_TURN * 2);
    for (uint32_t key = 0; key < LIMIT_DIRECTORY_TURN * 3; key++) {
        struct directory_key k = key_of(key);
        struct directory_object object = object_of(1);

        directory_announce(world.directory, 2, &k, &object, false, 0);
    }
    for (uint32_t n = 0; n < 3 * LIMIT_DIRECTORY_CHANGES; n++) {
        directory_member_up(world.directory, n % NODES, ALL);
    }
    assert_true(directory_is_valid(world.directory));
    directory_member_dead(world.directory, 2);
    while (directory_turn(world.directory)) {
    }
    assert_int_equal(stats_of(&world).keys, 0);
    world_close(&world);
}

/* ---- what it costs -------------------------------------------------------- */

#define MANY UINT32_C(1000000)

static void what_a_million_keys_cost(void **state)
{
    (void)state;
    struct world world;
    uint64_t from_us, longest_us = 0, sum_us = 0;
    struct directory_answer answer;
    struct directory_stats stats;
    uint32_t turns = 0;
    bool more = true;

    world_open(&world, 3, MANY);
    from_us = support_now_us();
    for (uint32_t n = 0; n < MANY; n++) {
        struct directory_key key = key_of(n);
        struct directory_object object = object_of(n);

        assert_int_equal(directory_announce(world.directory, n % 3, &key, &object, false, 0),
                         NIGH_OK);
    }
    print_message("# announce: %.0f ns\n",
                  1000.0 * (double)(support_now_us() - from_us) / (double)MANY);
    from_us = support_now_us();
    for (uint32_t n = 0; n < MANY; n++) {
        struct directory_key key = key_of((uint32_t)(n * UINT64_C(7919) % MANY));

        directory_locate(world.directory, 1, &key, false, &answer);
    }
    print_message("# locate: %.0f ns\n",
                  1000.0 * (double)(support_now_us() - from_us) / (double)MANY);
    directory_stats(world.directory, &stats);
    assert_int_equal(stats.keys, MANY);
    print_message("# memory: %.0f bytes a key\n", (double)stats.bytes / (double)MANY);

    while (more) {
        uint64_t turn_us = support_now_us();

        if (turns++ == 0) {
            directory_member_dead(world.directory, 1);
        } else {
            more = directory_turn(world.directory);
        }
        assert_int_equal(directory_is_sweeping(world.directory), more);
        turn_us = support_now_us() - turn_us;
        longest_us = turn_us > longest_us ? turn_us : longest_us;
        sum_us += turn_us;
    }
    print_message("# a member's death: %u turns, %llu us together, the longest %llu us\n", turns,
                  (unsigned long long)sum_us, (unsigned long long)longest_us);
    assert_true(turns >= MANY / LIMIT_DIRECTORY_TURN); /* bounded work each */
    directory_stats(world.directory, &stats);
    assert_int_equal(stats.keys, MANY - MANY / 3);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_holder_is_found),
        cmocka_unit_test(a_pool_is_part_of_the_key),
        cmocka_unit_test(askers_spread_over_holders),
        cmocka_unit_test(every_rank_fits),
        cmocka_unit_test(one_birth_is_admitted),
        cmocka_unit_test(not_yet_is_not_absent),
        cmocka_unit_test(who_waits_is_told_once),
        cmocka_unit_test(a_sole_holder_waits_for_another),
        cmocka_unit_test(a_delete_does_not_forget_who_waits),
        cmocka_unit_test(a_delete_ends_when_all_have_answered),
        cmocka_unit_test(a_delete_of_what_only_the_asker_had_is_over),
        cmocka_unit_test(a_dead_holder_owes_nothing),
        cmocka_unit_test(a_holder_that_came_back_says_whether_it_has_it),
        cmocka_unit_test(what_was_deleted_early_does_not_come_back),
        cmocka_unit_test(a_copy_does_not_bring_an_absent_key_back),
        cmocka_unit_test(what_is_not_announced_again_is_forgotten),
        cmocka_unit_test(what_is_announced_once_more_is_what_is_held),
        cmocka_unit_test(a_drop_is_owed_while_all_is_announced_once_more),
        cmocka_unit_test(a_link_speaks_for_its_shards),
        cmocka_unit_test(the_dead_hold_nothing_and_wait_for_nothing),
        cmocka_unit_test(keys_have_a_bound),
        cmocka_unit_test(a_member_takes_its_share_of_keys),
        cmocka_unit_test(a_key_is_in_the_share_of_who_holds_it),
        cmocka_unit_test(no_drop_is_lost),
        cmocka_unit_test(a_claim_keeps_a_key_for_one_member),
        cmocka_unit_test(a_claim_is_given_up),
        cmocka_unit_test(a_claim_does_not_outlive_its_member),
        cmocka_unit_test(what_is_not_known_yet_is_claimed_later),
        cmocka_unit_test(a_member_takes_its_share_of_claims),
        cmocka_unit_test(callbacks_may_call_back),
        cmocka_unit_test(few_keys_do_as_the_model_does),
        cmocka_unit_test(what_is_put_off_does_not_show),
        cmocka_unit_test(changes_have_a_bound),
        cmocka_unit_test(what_a_million_keys_cost),
        cmocka_unit_test(a_member_holds_one_birth_of_a_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
