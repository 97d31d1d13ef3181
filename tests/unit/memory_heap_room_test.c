/* SPDX-License-Identifier: Apache-2.0 */
/* Room in one piece, whoever had the memory: extents that are joined, moved, and given to others.
 */
#include <string.h>

#include "memory_heap_fixture.h"

/* ---- reclaiming ---- */

static void test_reclaim(void **state)
{
    struct fixture f;
    uint32_t other, block, pin, last;

    (void)state;
    fixture_open(&f, 16 * MIB, 1, 0, BLOCKS);
    assert_int_equal(heaps_open(f.heaps, OTHER, &other), NIGH_OK);
    /* The other heap has all extents, a block in use in the fourth. */
    block = alloc_ok(&f, other, 8 * EXTENT);
    assert_int_equal(heap_carve(f.heaps, block, 3 * EXTENT + 64, 64, &pin, &last), NIGH_OK);
    free_ok(&f, block);
    free_ok(&f, last);
    assert_int_equal(heap_alloc(f.heaps, f.heap, 64, &block), NIGH_OUT_OF_MEMORY);
    assert_int_equal(heaps_reclaim(f.heaps, f.heap, 8 * EXTENT), NIGH_OUT_OF_MEMORY);
    assert_int_equal(heap_free_bytes(f.heaps, other), 8 * EXTENT - 64); /* nothing was touched */

    assert_int_equal(heaps_reclaim(f.heaps, f.heap, 2 * EXTENT), NIGH_OK);
    assert_true(heaps_are_valid(f.heaps));
    assert_int_equal(heap_free_bytes(f.heaps, f.heap), 2 * EXTENT);
    assert_int_equal(heap_free_bytes(f.heaps, other), 6 * EXTENT - 64);
    memset(extent_bytes_at(f.set, 8 * EXTENT), 1, 2 * EXTENT);
    block = alloc_ok(&f, f.heap, 2 * EXTENT);
    assert_int_equal(heap_block_offset(f.heaps, block), 8 * EXTENT); /* numbers never used */

    /* Five are left to move; what is in use is untouched. */
    assert_int_equal(heaps_reclaim(f.heaps, f.heap, 5 * EXTENT), NIGH_OK);
    assert_true(heaps_are_valid(f.heaps));
    assert_int_equal(heap_free_bytes(f.heaps, other), EXTENT - 64);
    assert_int_equal(heaps_reclaim(f.heaps, f.heap, 5 * EXTENT), NIGH_OK); /* they are there */
    assert_int_equal(heap_free_bytes(f.heaps, f.heap), 5 * EXTENT);
    assert_int_equal(heap_largest_bytes(f.heaps, f.heap), 5 * EXTENT);
    assert_int_equal(heap_block_offset(f.heaps, pin), 3 * EXTENT + 64);
    free_ok(&f, pin);

    /* What is missing and no more: the other's last one comes beside the seven that are there. */
    free_ok(&f, block);
    assert_int_equal(heaps_reclaim(f.heaps, f.heap, 8 * EXTENT), NIGH_OK);
    block = alloc_ok(&f, f.heap, 8 * EXTENT);
    assert_int_equal(heap_free_bytes(f.heaps, other), 0);
    free_ok(&f, block);
    fixture_close(&f);
}

/* Memory of others goes before the heap's own. */
static void test_reclaims_from_others_first(void **state)
{
    struct fixture f;
    uint32_t other, own, theirs;

    (void)state;
    fixture_open(&f, 16 * MIB, 1, 0, BLOCKS);
    assert_int_equal(heaps_open(f.heaps, OTHER, &other), NIGH_OK);
    own = alloc_ok(&f, f.heap, 4 * EXTENT);
    theirs = alloc_ok(&f, other, 4 * EXTENT);
    free_ok(&f, theirs);
    assert_int_equal(heaps_reclaim(f.heaps, f.heap, 3 * EXTENT), NIGH_OK);
    assert_int_equal(heap_free_bytes(f.heaps, f.heap), 3 * EXTENT);
    assert_int_equal(heap_free_bytes(f.heaps, other), EXTENT);
    free_ok(&f, own);
    assert_int_equal(heaps_reclaim(f.heaps, f.heap, 5 * EXTENT), NIGH_OK);
    assert_true(heaps_are_valid(f.heaps));
    assert_int_equal(heap_free_bytes(f.heaps, other), 0);
    assert_int_equal(heap_free_bytes(f.heaps, f.heap), 8 * EXTENT);
    (void)alloc_ok(&f, f.heap, 5 * EXTENT);
    fixture_close(&f);
}

/* ---- room in one piece ---- */

/* Free memory, an own extent that is wholly free, and free memory again are one piece. */
static void test_joins_over_own_free_extents(void **state)
{
    struct fixture f;
    uint32_t block, again;

    (void)state;
    fixture_open(&f, 16 * MIB, 1, 0, BLOCKS);
    extent_take_at(f.set, 0, OWNER, 4, 1);
    assert_int_equal(heap_adopt_extent(f.heaps, f.heap, 4), NIGH_OK);
    assert_int_equal(heap_largest_bytes(f.heaps, f.heap), 16 * MIB);
    block = alloc_ok(&f, f.heap, 16 * MIB);
    free_ok(&f, block);

    /* No more than is needed on either side of it. */
    again = alloc_ok(&f, f.heap, 16 * MIB - 1);
    free_ok(&f, again);
    fixture_close(&f);
    fixture_open(&f, 16 * MIB, 1, 0, BLOCKS);
    extent_take_at(f.set, 0, OWNER, 2, 1);
    extent_take_at(f.set, 0, OWNER, 5, 1);
    assert_int_equal(heap_adopt_extent(f.heaps, f.heap, 2), NIGH_OK);
    assert_int_equal(heap_adopt_extent(f.heaps, f.heap, 5), NIGH_OK);
    block = alloc_ok(&f, f.heap, 4 * EXTENT);
    assert_int_equal(heap_block_offset(f.heaps, block), 2 * EXTENT);
    assert_int_equal(heaps_unowned_bytes(f.heaps), 4 * EXTENT);
    fixture_close(&f);
}

/* A block in use in the middle of the memory, the other's or its own: all the rest is had in one
 * piece, and nothing more is moved than lies on one side of it. */
static void test_what_stands_in_the_middle(void **state)
{
    (void)state;
    for (uint32_t own = 0; own < 2; own++) {
        struct fixture f;
        uint32_t stands, block;

        fixture_open(&f, 16 * MIB, 1, 0, BLOCKS);
        assert_int_equal(heaps_open(f.heaps, OTHER, &stands), NIGH_OK);
        stands = own ? f.heap : stands;
        extent_take_at(f.set, 0, own ? OWNER : OTHER, 3, 1);
        assert_int_equal(heap_adopt_extent(f.heaps, stands, 3), NIGH_OK);
        assert_int_equal(heap_claim(f.heaps, stands, 3 * EXTENT + MIB, 64, &stands), NIGH_OK);
        assert_int_equal(heap_alloc(f.heaps, f.heap, 7 * EXTENT, &block), NIGH_OUT_OF_MEMORY);
        memset(extent_bytes_at(f.set, 7 * EXTENT), 1, EXTENT);
        assert_int_equal(heaps_spare_extents(f.heaps), 7);
        assert_int_equal(heaps_reclaim(f.heaps, f.heap, 8 * EXTENT), NIGH_OUT_OF_MEMORY);
        assert_int_equal(heaps_reclaim(f.heaps, f.heap, 7 * EXTENT), NIGH_OK);
        block = alloc_ok(&f, f.heap, 7 * EXTENT);
        /* Its own free end is used; else it is the three before that moved behind. */
        assert_int_equal(heap_block_offset(f.heaps, block),
                         own ? 3 * EXTENT + MIB + 64 : 4 * EXTENT);
        assert_int_equal(((char *)extent_bytes_at(f.set, 8 * EXTENT - 1))[0], 1);
        memset(extent_bytes_at(f.set, 8 * EXTENT), 1, EXTENT);
        free_ok(&f, block);
        fixture_close(&f);
    }
}

/* Memory goes to and fro between owners for ever: each finds the numbers that it had. */
static void test_numbers_come_again(void **state)
{
    struct fixture f;
    uint32_t heaps[3], block;

    (void)state;
    fixture_open(&f, 64 * MIB, 16, 3, BLOCKS); /* two extents and 256 numbers */
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(heaps_open(f.heaps, extent_owner(i, 5), &heaps[i]), NIGH_OK);
    for (uint32_t turn = 0; turn < 1000; turn++) {
        uint32_t heap = heaps[turn % 3];

        if (heap_alloc(f.heaps, heap, 2 * EXTENT, &block) != NIGH_OK) {
            assert_int_equal(heaps_reclaim(f.heaps, heap, 2 * EXTENT), NIGH_OK);
            assert_int_equal(heap_alloc(f.heaps, heap, 2 * EXTENT, &block), NIGH_OK);
        }
        heap_free(f.heaps, block);
    }
    assert_true(heaps_are_valid(f.heaps));
    assert_int_equal(f.set->lane[3].used, 6);
    assert_int_equal(f.set->lane[3].dormant, 4);

    /* Who is seen by nobody any more leaves its numbers to others. */
    for (uint32_t i = 0; i < 3; i++)
        extent_forget(f.set, 3, i);
    assert_true(heaps_are_valid(f.heaps));
    assert_int_equal(f.set->lane[3].dormant, 0);
    fixture_close(&f);
}

/* Pieces of all sizes of many owners, which fill what is there and go again: whoever is alone gets
 * all of it, as long as there are numbers for it. */
static void test_alone_again(void **state)
{
    struct fixture f;
    uint64_t random = support_seed();
    uint32_t heaps[4], blocks[64], count = 0, block;

    (void)state;
    fixture_open(&f, 64 * MIB, 4, 1, BLOCKS);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(heaps_open(f.heaps, extent_owner(i, 5), &heaps[i]), NIGH_OK);
    for (uint32_t turn = 0; turn < 100; turn++) {
        for (uint32_t step = 0; step < 20; step++) {
            uint32_t heap = heaps[support_random(&random) >> 62];
            uint64_t bytes = (1 + (support_random(&random) >> 40) % 80) * (EXTENT / 16);

            if (count > 0 && support_random(&random) >> 63) {
                heap_free(f.heaps, blocks[--count]);
            } else if (count < 64 && (heap_alloc(f.heaps, heap, bytes, &block) == NIGH_OK ||
                                      (heaps_reclaim(f.heaps, heap, bytes) == NIGH_OK &&
                                       heap_alloc(f.heaps, heap, bytes, &block) == NIGH_OK))) {
                blocks[count++] = block;
            }
        }
        assert_true(heaps_are_valid(f.heaps));
        while (count > 0)
            heap_free(f.heaps, blocks[--count]);
        assert_int_equal(heaps_spare_extents(f.heaps), 8);
        if (heap_alloc(f.heaps, heaps[turn % 4], 8 * EXTENT, &block) != NIGH_OK) {
            assert_int_equal(heaps_reclaim(f.heaps, heaps[turn % 4], 8 * EXTENT), NIGH_OK);
            assert_int_equal(heap_alloc(f.heaps, heaps[turn % 4], 8 * EXTENT, &block), NIGH_OK);
        }
        heap_free(f.heaps, block);
    }
    assert_in_range(f.set->lane[1].used, 16, 96); /* it comes to rest at about 50 */
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reclaim),
        cmocka_unit_test(test_reclaims_from_others_first),
        cmocka_unit_test(test_joins_over_own_free_extents),
        cmocka_unit_test(test_what_stands_in_the_middle),
        cmocka_unit_test(test_numbers_come_again),
        cmocka_unit_test(test_alone_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
