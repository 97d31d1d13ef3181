/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of ranks, and the trees over them (rpc/ranks.h). */
#include <string.h>

#include "rpc/ranks.h"
#include "support/support.h"

/* Goes through a whole tree as its nodes would; the depth of it. */
static uint32_t walk(const struct ranks *set, uint32_t root, uint32_t fan, uint32_t *visits)
{
    struct ranks runs[LIMIT_NODES];
    uint32_t count = ranks_split(set, root, fan, runs), deepest = 0;

    assert_true(count <= fan);
    for (uint32_t n = 0; n < count; n++) {
        uint32_t child = ranks_next(&runs[n], root), depth;

        assert_true(ranks_are_within(&runs[n], set));
        assert_false(ranks_has(&runs[n], root));
        assert_true(ranks_has(&runs[n], child));
        visits[child]++;
        depth = 1 + walk(&runs[n], child, fan, visits);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

static void every_rank_is_in_the_tree_once(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= LIMIT_NODES; count += count < 40 ? 1 : 27) {
        for (uint32_t fan = 2; fan <= LIMIT_COLLECT_FAN; fan += 7) {
            uint32_t visits[LIMIT_NODES] = {0};
            uint32_t root = count * 7 % count;
            struct ranks all = ranks_all(count);

            assert_true(walk(&all, root, fan, visits) <= LIMIT_COLLECT_DEPTH / 2);
            for (uint32_t rank = 0; rank < count; rank++) {
                assert_int_equal(visits[rank], rank != root);
            }
        }
    }
}

static void a_root_that_is_not_of_the_set_has_a_tree_too(void **state)
{
    struct ranks set = {{0}}, runs[2];

    (void)state;
    ranks_put(&set, 3);
    ranks_put(&set, 70);
    ranks_put(&set, 255);
    assert_int_equal(ranks_count(&set), 3);
    /* Behind 100 come 255, then 3 and 70. */
    assert_int_equal(ranks_split(&set, 100, 2, runs), 2);
    assert_true(ranks_has(&runs[0], 255) && ranks_has(&runs[0], 3) && ranks_count(&runs[0]) == 2);
    assert_true(ranks_has(&runs[1], 70) && ranks_count(&runs[1]) == 1);
    assert_int_equal(ranks_next(&runs[0], 100), 255);
    assert_int_equal(ranks_next(&runs[0], 255), 3);
    ranks_drop(&runs[1], 70);
    assert_int_equal(ranks_next(&runs[1], 100), RANKS_NONE);
    assert_int_equal(ranks_split(&runs[1], 100, 2, runs), 0);
}

static void all_are_a_full_set(void **state)
{
    struct ranks all = ranks_all(LIMIT_NODES), some = ranks_all(65);

    (void)state;
    assert_int_equal(ranks_count(&all), LIMIT_NODES);
    assert_int_equal(ranks_count(&some), 65);
    assert_true(ranks_are_within(&some, &all));
    assert_false(ranks_are_within(&all, &some));
    assert_false(ranks_has(&all, LIMIT_NODES)); /* whatever a peer may ask for */
    assert_false(ranks_has(&all, UINT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_is_in_the_tree_once),
        cmocka_unit_test(a_root_that_is_not_of_the_set_has_a_tree_too),
        cmocka_unit_test(all_are_a_full_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
