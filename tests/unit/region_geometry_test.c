/* SPDX-License-Identifier: Apache-2.0 */
/* How regions are cut, and ranges with them. */
#include "region/geometry.h"

#include "support/support.h"

static nigh_status check(uint64_t size_bytes, uint64_t chunk_bytes)
{
    struct region_geometry geometry = {.size_bytes = size_bytes, .chunk_bytes = chunk_bytes};

    return region_geometry_check(&geometry);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    assert_int_equal(check(1, 4096), NIGH_OK);
    assert_int_equal(check(0, 4096), NIGH_INVALID);
    assert_int_equal(check(1, 0), NIGH_INVALID);
    assert_int_equal(check(1, 4095), NIGH_INVALID);
    assert_int_equal(check(1, LIMIT_REGION_CHUNK_BYTES), NIGH_OK);
    assert_int_equal(check(1, LIMIT_REGION_CHUNK_BYTES + 4096), NIGH_INVALID);
    assert_int_equal(check(UINT64_C(4096) * LIMIT_REGION_CHUNKS, 4096), NIGH_OK);
    assert_int_equal(check(UINT64_C(4096) * LIMIT_REGION_CHUNKS + 1, 4096), NIGH_LIMIT);
    assert_int_equal(check(UINT64_MAX, LIMIT_REGION_CHUNK_BYTES), NIGH_LIMIT);
}

static void the_last_chunk_may_be_short(void **state)
{
    struct region_geometry geometry = {.size_bytes = 10000, .chunk_bytes = 4096};

    (void)state;
    assert_int_equal(region_geometry_chunks(&geometry), 3);
    assert_int_equal(region_geometry_chunk_bytes(&geometry, 1), 4096);
    assert_int_equal(region_geometry_chunk_bytes(&geometry, 2), 10000 - 8192);
    geometry.size_bytes = 8192;
    assert_int_equal(region_geometry_chunks(&geometry), 2);
    assert_int_equal(region_geometry_chunk_bytes(&geometry, 1), 4096);
}

static void a_range_is_in_it_or_not(void **state)
{
    struct region_geometry geometry = {.size_bytes = 10000, .chunk_bytes = 4096};

    (void)state;
    assert_true(region_geometry_has(&geometry, 0, 10000));
    assert_true(region_geometry_has(&geometry, 10000, 0));
    assert_false(region_geometry_has(&geometry, 10001, 0));
    assert_false(region_geometry_has(&geometry, 9999, 2));
    assert_false(region_geometry_has(&geometry, 1, UINT64_MAX)); /* their sum is 0 */
    assert_false(region_geometry_has(&geometry, UINT64_MAX, 1));
}

/* Every range of a small region, byte by byte: pieces are in order, and all of the range. */
static void pieces_are_the_range(void **state)
{
    struct region_geometry geometry = {.size_bytes = 9000, .chunk_bytes = 4096};

    (void)state;
    for (uint64_t from = 0; from < 9000; from += 37) {
        for (uint64_t length = 1; length <= 9000 - from; length += 41) {
            uint64_t at = from, left = length;

            while (left > 0) {
                struct region_piece first = region_geometry_first(&geometry, at, left);
                struct region_piece piece =
                    region_geometry_piece(&geometry, from, length, first.chunk);

                assert_int_equal(first.chunk * 4096 + first.offset_bytes, at);
                assert_in_range(first.length_bytes, 1, left);
                assert_true(first.offset_bytes + first.length_bytes <= 4096);
                assert_int_equal(piece.offset_bytes, first.offset_bytes);
                assert_int_equal(piece.length_bytes, first.length_bytes);
                at += first.length_bytes;
                left -= first.length_bytes;
            }
            assert_int_equal(at, from + length);
        }
    }
    assert_int_equal(region_geometry_piece(&geometry, 0, 4096, 1).length_bytes, 0);
    assert_int_equal(region_geometry_piece(&geometry, 8192, 1, 1).length_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(the_last_chunk_may_be_short),
        cmocka_unit_test(a_range_is_in_it_or_not),
        cmocka_unit_test(pieces_are_the_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
