/* SPDX-License-Identifier: Apache-2.0 */
/* The spill file's header: what is written comes back, and nothing else is believed. */
#include <stdio.h>
#include <string.h>

#include "object/spill_file.h"
#include "support/support.h"

static struct spill_file_header sample(void)
{
    struct spill_file_header header = {.incarnation = 3,
                                       .generation = UINT64_C(0x123456789abcd),
                                       .pool = 2,
                                       .lane = 1,
                                       .data_size = 1000001,
                                       .meta_size = 17,
                                       .name_size = 9,
                                       .data_crc = 0xdeadbeef,
                                       .tail_crc = 0x12345678};

    memset(header.id, 0xa5, sizeof header.id);
    return header;
}

static void what_is_written_comes_back(void **state)
{
    (void)state;
    struct spill_file_header header = sample(), found;
    uint8_t bytes[SPILL_FILE_HEADER_BYTES];

    spill_file_encode(&header, bytes);
    assert_int_equal(spill_file_decode(bytes, &found), NIGH_OK);
    assert_true(spill_file_is_of(&found, &header));
    assert_int_equal(found.data_crc, header.data_crc);
    assert_int_equal(found.tail_crc, header.tail_crc);
    assert_true(spill_file_payload_bytes(&found) == 1000008 + 17 + 9);
}

static void any_flipped_bit_is_seen(void **state)
{
    (void)state;
    struct spill_file_header header = sample(), found;
    uint8_t bytes[SPILL_FILE_HEADER_BYTES];

    for (uint32_t bit = 0; bit < SPILL_FILE_HEADER_BYTES * 8; bit++) {
        spill_file_encode(&header, bytes);
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_int_equal(spill_file_decode(bytes, &found), NIGH_CORRUPT);
    }
}

static void sizes_out_of_range_are_not_believed(void **state)
{
    (void)state;
    struct spill_file_header found;
    uint8_t bytes[SPILL_FILE_HEADER_BYTES];
    struct spill_file_header wrong[5];

    for (int i = 0; i < 5; i++) {
        wrong[i] = sample();
    }
    wrong[0].data_size = LIMIT_OBJECT_BYTES + 1;
    wrong[1].meta_size = LIMIT_META_BYTES + 1;
    wrong[2].name_size = LIMIT_NAME_BYTES + 1;
    wrong[3].pool = LIMIT_POOLS;
    wrong[4].lane = LIMIT_LANES;
    for (int i = 0; i < 5; i++) {
        spill_file_encode(&wrong[i], bytes);
        assert_int_equal(spill_file_decode(bytes, &found), NIGH_CORRUPT);
    }
}

static void names_are_exact(void **state)
{
    (void)state;
    static const char *const others[] = {"",
                                         "lock",
                                         "p1-l0-i1-g1.object",
                                         "p1-l0-i1-g0000000000000001.objec",
                                         "p1-l0-i1-g0000000000000001.object.writing.x",
                                         "p01-l0-i1-g0000000000000001.object",
                                         "p-1-l0-i1-g0000000000000001.object"};
    char name[SPILL_FILE_NAME_BYTES], longer[SPILL_FILE_NAME_BYTES + 8];
    uint32_t pool, lane, incarnation;
    uint64_t generation;
    bool temporary;

    spill_file_name(63, 63, UINT32_MAX, UINT64_MAX >> 8, name);
    assert_true(spill_file_parse_name(name, &pool, &lane, &incarnation, &generation, &temporary));
    assert_true(pool == 63 && lane == 63 && incarnation == UINT32_MAX &&
                generation == UINT64_MAX >> 8 && !temporary);
    snprintf(longer, sizeof longer, "%s.writing", name);
    assert_true(spill_file_parse_name(longer, &pool, &lane, &incarnation, &generation, &temporary));
    assert_true(temporary);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(
            spill_file_parse_name(others[i], &pool, &lane, &incarnation, &generation, &temporary));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_comes_back),
        cmocka_unit_test(any_flipped_bit_is_seen),
        cmocka_unit_test(sizes_out_of_range_are_not_believed),
        cmocka_unit_test(names_are_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
