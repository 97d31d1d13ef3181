/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: who may do what, which names and modes there are, and indexes that nobody else can write.
 */
#include "support/support.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/index.h"
#include "node/pool.h"

static uint32_t rights_of(uint32_t mode, uint32_t uid, uint32_t gid, const uint32_t *groups,
                          size_t group_count)
{
    struct pool_rules rules = {.owner_uid = 10, .group_gid = 20, .mode = mode};
    struct pool_peer peer = {.uid = uid, .gid = gid, .groups = groups, .group_count = group_count};

    return pool_rights(&rules, &peer);
}

static void rights_are_those_of_files(void **state)
{
    const uint32_t member[] = {5, 20};

    (void)state;
    assert_int_equal(rights_of(0600, 10, 1, NULL, 0), POOL_READ | POOL_WRITE);
    assert_int_equal(rights_of(0600, 11, 20, NULL, 0), 0);
    assert_int_equal(rights_of(0640, 11, 20, NULL, 0), POOL_READ);
    assert_int_equal(rights_of(0640, 11, 21, member, 2), POOL_READ);
    assert_int_equal(rights_of(0640, 11, 21, member, 1), 0);
    assert_int_equal(rights_of(0660, 11, 21, member, 2), POOL_READ | POOL_WRITE);
    assert_int_equal(rights_of(0604, 11, 21, NULL, 0), POOL_READ);
    assert_int_equal(rights_of(0666, 11, 21, NULL, 0), POOL_READ | POOL_WRITE);
    assert_int_equal(rights_of(0, 11, 21, NULL, 0), 0);
}

static void the_first_class_that_fits_decides(void **state)
{
    (void)state;
    /* As for files: an owner who may not is not saved by the others' bits. */
    assert_int_equal(rights_of(0066, 10, 20, NULL, 0), 0);
    assert_int_equal(rights_of(0606, 11, 20, NULL, 0), 0);
}

static void writing_needs_reading_and_root_may_everything(void **state)
{
    (void)state;
    assert_int_equal(rights_of(0200, 10, 1, NULL, 0), 0);
    assert_int_equal(rights_of(0, 0, 0, NULL, 0), POOL_READ | POOL_WRITE);
}

static void names_have_an_alphabet(void **state)
{
    (void)state;
    assert_true(pool_name_is_valid("uid-1000"));
    assert_true(pool_name_is_valid("a.B_c-9"));
    assert_true(pool_name_is_valid("0123456789012345678901234567890"));
    assert_false(pool_name_is_valid("01234567890123456789012345678901"));
    assert_false(pool_name_is_valid(""));
    assert_false(pool_name_is_valid(".hidden"));
    assert_false(pool_name_is_valid("a b"));
    assert_false(pool_name_is_valid("a/b"));
    assert_false(pool_name_is_valid("\xc3\xa4"));
}

static void options_that_are_wrong_are_refused_with_a_reason(void **state)
{
    const struct {
        nigh_pool_options options;
        const char *reason;
    } cases[] = {
        {{.name = NULL, .mode = 0600}, "name"},
        {{.name = "a/b", .mode = 0600}, "name"},
        {{.name = "uid-8", .owner_uid = 7, .mode = 0600}, "uid-"},
        {{.name = "a", .mode = 01777}, "mode"},
        {{.name = "a", .mode = 0620}, "without reading"},
    };
    nigh_pool_options good = {
        .name = "uid-7", .owner_uid = 7, .group_gid = 3, .mode = 0640, .strict = 1};
    struct pool_rules rules;
    char why[256];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        why[0] = '\0';
        assert_int_equal(pool_rules_from_options(&cases[i].options, &rules, why, sizeof(why)),
                         NIGH_INVALID);
        assert_non_null(strstr(why, cases[i].reason));
    }
    assert_int_equal(pool_rules_from_options(&good, &rules, why, sizeof(why)), NIGH_OK);
    assert_string_equal(rules.name, "uid-7");
    assert_true(rules.strict);
}

static void a_pool_has_an_index_in_each_lane(void **state)
{
    struct pool_rules rules = {.name = "a", .owner_uid = 7, .mode = 0600, .quota_bytes = 1001};
    struct pools pools;
    struct pool *pool = NULL;

    (void)state;
    pools_init(&pools, 2, 1000);
    assert_null(pools_find(&pools, "a"));
    assert_int_equal(pools_add(&pools, &rules, &pool), NIGH_OK);
    assert_ptr_equal(pools_find(&pools, "a"), pool);
    for (uint32_t lane = 0; lane < 2; lane++) {
        const struct store_pool_config *config = &pool->indexes[lane].config;

        assert_int_equal(config->index.header->lane, lane);
        assert_int_equal(config->index.header->lanes, 2);
        assert_int_equal(config->index.entry_count, 1000);
        assert_int_equal(config->owner_uid, 7);
        assert_int_equal(config->quota_bytes, 501);
    }
    pools_fini(&pools);
}

static void an_index_cannot_be_written_through_what_clients_get(void **state)
{
    struct pool_rules rules = {.name = "a", .mode = 0600};
    struct pools pools;
    struct pool *pool = NULL;
    void *map;

    (void)state;
    pools_init(&pools, 1, 100);
    assert_int_equal(pools_add(&pools, &rules, &pool), NIGH_OK);
    map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, pool->indexes[0].read_fd, 0);
    assert_ptr_equal(map, MAP_FAILED);
    assert_int_equal(errno, EACCES);
    assert_int_equal(write(pool->indexes[0].read_fd, "x", 1), -1);
    pools_fini(&pools);
}

static void pools_have_a_bound(void **state)
{
    struct pools pools;
    struct pool *pool = NULL;

    (void)state;
    pools_init(&pools, 1, 16);
    for (uint32_t i = 0; i < LIMIT_POOLS; i++) {
        struct pool_rules rules = {.mode = 0600};

        pool_own_name(i, rules.name);
        assert_int_equal(pools_add(&pools, &rules, &pool), NIGH_OK);
        assert_int_equal(pool->number, i);
    }
    assert_int_equal(pools_add(&pools, &(struct pool_rules){.name = "more"}, &pool), NIGH_LIMIT);
    pools_fini(&pools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rights_are_those_of_files),
        cmocka_unit_test(the_first_class_that_fits_decides),
        cmocka_unit_test(writing_needs_reading_and_root_may_everything),
        cmocka_unit_test(names_have_an_alphabet),
        cmocka_unit_test(options_that_are_wrong_are_refused_with_a_reason),
        cmocka_unit_test(a_pool_has_an_index_in_each_lane),
        cmocka_unit_test(an_index_cannot_be_written_through_what_clients_get),
        cmocka_unit_test(pools_have_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
