/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of small chunks: pieces that share a mapping have nothing in common, and are zero. */
#include "node/region_slabs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "support/support.h"

#define MOST  600u
#define STEPS 20000u

static struct region_slabs slabs;

struct taken {
    struct region_slab_piece piece;
    uint64_t bytes;
    uint8_t mark;
};

static bool is_all(const struct taken *taken, uint8_t byte)
{
    return taken->piece.address[0] == byte &&
           memcmp(taken->piece.address, taken->piece.address + 1, taken->bytes - 1) == 0;
}

static void take(struct taken *taken, uint64_t bytes, uint8_t mark)
{
    *taken = (struct taken){.bytes = bytes, .mark = mark};
    assert_int_equal(region_slabs_take(&slabs, bytes, &taken->piece), NIGH_OK);
    assert_true(is_all(taken, 0));
    memset(taken->piece.address, mark, bytes);
}

static void give(struct taken *taken)
{
    assert_true(is_all(taken, taken->mark));
    region_slabs_give(&slabs, taken->piece);
    *taken = (struct taken){0};
}

static void pieces_have_nothing_in_common(void **state)
{
    static struct taken taken[MOST];
    uint64_t random = support_seed();

    (void)state;
    region_slabs_init(&slabs);
    for (uint32_t n = 0; n < STEPS; n++) {
        struct taken *one = &taken[support_random(&random) % MOST];

        if (one->bytes != 0) {
            give(one);
        } else {
            take(one, (1 + support_random(&random) % 4) * LIMIT_REGION_UNIT_BYTES,
                 (uint8_t)(1 + n % 255));
        }
    }
    for (uint32_t n = 0; n < MOST; n++) {
        if (taken[n].bytes != 0) {
            give(&taken[n]);
        }
    }
    assert_int_equal(slabs.count, 0);
    region_slabs_fini(&slabs);
}

/* Who has a place next finds nothing of who had it before. */
static void a_place_that_is_given_again_is_zero(void **state)
{
    struct taken first, second;
    uint8_t *was;

    (void)state;
    region_slabs_init(&slabs);
    take(&first, 2 * LIMIT_REGION_UNIT_BYTES, 0xaa);
    take(&second, 2 * LIMIT_REGION_UNIT_BYTES, 0xbb); /* so that the mapping stays */
    was = first.piece.address;
    give(&first);
    take(&first, 2 * LIMIT_REGION_UNIT_BYTES, 0xcc);
    assert_ptr_equal(first.piece.address, was);
    give(&first);
    give(&second);
    assert_int_equal(slabs.count, 0);
    region_slabs_fini(&slabs);
}

/* Also where its pages cannot go, as somebody has locked them. */
static void what_was_locked_is_zero_too(void **state)
{
    struct taken first, second;
    uint8_t *was;

    (void)state;
    region_slabs_init(&slabs);
    take(&first, LIMIT_REGION_UNIT_BYTES, 0xaa);
    take(&second, LIMIT_REGION_UNIT_BYTES, 0xbb);
    was = first.piece.address;
    if (mlock(was, LIMIT_REGION_UNIT_BYTES) == 0) {
        give(&first);
        take(&first, LIMIT_REGION_UNIT_BYTES, 0xcc);
        assert_ptr_equal(first.piece.address, was);
    } else {
        print_message("nothing may be locked here\n");
    }
    give(&first);
    give(&second);
    region_slabs_fini(&slabs);
}

static bool is_there(uint8_t *page)
{
    unsigned char there = 0;

    return mincore(page, LIMIT_REGION_UNIT_BYTES, &there) == 0 && (there & 1) != 0;
}

/* What is accounted for is what is there, though the mapping stays for others. */
static void pages_go_with_a_piece(void **state)
{
    struct taken first, second;
    uint8_t *was;

    (void)state;
    region_slabs_init(&slabs);
    take(&first, LIMIT_REGION_UNIT_BYTES, 0xaa);
    take(&second, LIMIT_REGION_UNIT_BYTES, 0xbb);
    was = first.piece.address;
    assert_true(is_there(was));
    give(&first);
    assert_false(is_there(was));
    assert_int_equal(slabs.count, 1);
    give(&second);
    region_slabs_fini(&slabs);
}

static void as_many_share_a_mapping_as_fit(void **state)
{
    static struct taken taken[LIMIT_REGION_SLAB_BYTES / LIMIT_REGION_SLAB_PIECE + 1];
    const uint32_t fit = (uint32_t)(LIMIT_REGION_SLAB_BYTES / LIMIT_REGION_SLAB_PIECE);

    (void)state;
    region_slabs_init(&slabs);
    for (uint32_t n = 0; n <= fit; n++) {
        take(&taken[n], LIMIT_REGION_SLAB_PIECE, (uint8_t)(n + 1));
        assert_int_equal(slabs.count, n < fit ? 1 : 2);
    }
    for (uint32_t n = 0; n <= fit; n++) {
        give(&taken[n]);
    }
    assert_int_equal(slabs.count, 0);
    region_slabs_fini(&slabs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_have_nothing_in_common),
        cmocka_unit_test(a_place_that_is_given_again_is_zero),
        cmocka_unit_test(what_was_locked_is_zero_too),
        cmocka_unit_test(pages_go_with_a_piece),
        cmocka_unit_test(as_many_share_a_mapping_as_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
