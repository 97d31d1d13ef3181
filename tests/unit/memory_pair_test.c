/* SPDX-License-Identifier: Apache-2.0 */
/* One half of a pair between its writer and its reader, and what either can do to the other. */
#include <stdlib.h>
#include <string.h>

#include "memory/pair.h"
#include "support/support.h"

static struct pair_half half;
static struct pair_writer writer;
static struct pair_reader reader;
static uint8_t out[LIMIT_CALL_BYTES], in[LIMIT_CALL_BYTES + 1];

static void begin(void)
{
    memset(&half, 0, sizeof half);
    memset(in, 0xee, sizeof in);
    pair_begin_writer(&writer, &half);
    pair_begin_reader(&reader, &half);
}

static enum pair_answer put(uint32_t bytes, uint32_t nonce, uint32_t *number)
{
    struct pair_record record = {.tag = 3, .nonce = nonce, .bytes = bytes, .value = -7};

    for (uint32_t n = 0; n < bytes; n++)
        out[n] = (uint8_t)(n + nonce);
    return pair_write(&writer, &record, out, number);
}

static void take(uint32_t bytes, uint32_t nonce)
{
    struct pair_record record;
    bool withdrawn = true;

    assert_int_equal(pair_read(&reader, &record, in, &withdrawn), PAIR_DONE);
    assert_false(withdrawn);
    assert_int_equal(record.bytes, bytes);
    assert_int_equal(record.nonce, nonce);
    assert_int_equal(record.tag, 3);
    assert_int_equal(record.value, -7);
    for (uint32_t n = 0; n < bytes; n++)
        assert_int_equal(in[n], (uint8_t)(n + nonce));
    assert_int_equal(in[LIMIT_CALL_BYTES], 0xee);
}

static void test_records_come_in_order_with_their_bytes(void **state)
{
    uint32_t number, seen = 0;

    (void)state;
    begin();
    srand(1);
    for (uint32_t nonce = 0; nonce < 20000; nonce++) {
        uint32_t bytes = (uint32_t)rand() % 3 == 0 ? (uint32_t)rand() % (LIMIT_CALL_BYTES + 1)
                                                   : (uint32_t)rand() % 200;

        static uint32_t sizes[20000];

        sizes[nonce] = bytes;
        while (put(bytes, nonce, &number) == PAIR_NONE) {
            take(sizes[seen], seen);
            seen++;
        }
        assert_int_equal(number, nonce);
        while (seen < nonce && rand() % 3 == 0) {
            take(sizes[seen], seen);
            seen++;
        }
    }
}

static void test_room_has_bounds(void **state)
{
    uint32_t number;

    (void)state;
    begin();
    for (uint32_t n = 0; n < LIMIT_PAIR_ENTRIES; n++)
        assert_int_equal(put(8, n, &number), PAIR_DONE);
    assert_int_equal(put(8, 0, &number), PAIR_NONE);
    take(8, 0);
    assert_int_equal(put(8, LIMIT_PAIR_ENTRIES, &number), PAIR_DONE);
    assert_int_equal(put(8, 0, &number), PAIR_NONE);
    begin();
    for (uint32_t n = 0; n < LIMIT_PAIR_DATA_BYTES / LIMIT_CALL_BYTES; n++)
        assert_int_equal(put(LIMIT_CALL_BYTES, n, &number), PAIR_DONE);
    assert_int_equal(put(PAIR_INLINE_BYTES + 1, 9, &number), PAIR_NONE);
    assert_int_equal(put(PAIR_INLINE_BYTES, 99, &number), PAIR_DONE);
}

static void test_a_reader_that_lies_is_found_out(void **state)
{
    static const uint32_t lies[] = {65, 1000, UINT32_MAX, 1u << 31};
    uint32_t number;

    (void)state;
    for (uint32_t n = 0; n < sizeof lies / sizeof lies[0]; n++) {
        begin();
        while (put(8, 0, &number) == PAIR_DONE) {
        }
        shared_store_relaxed(&half.head.value, lies[n]);
        assert_int_equal(put(8, 0, &number), PAIR_BROKEN);
    }
    begin();
    while (put(8, 0, &number) == PAIR_DONE) {
    }
    shared_store_relaxed(&half.head.value, 64);
    assert_int_equal(put(8, 0, &number), PAIR_DONE);
    while (put(8, 0, &number) == PAIR_DONE) {
    }
    shared_store_relaxed(&half.head.value, 63); /* back again */
    assert_int_equal(put(8, 0, &number), PAIR_BROKEN);
}

static void test_a_writer_that_lies_is_found_out(void **state)
{
    struct pair_record record;
    uint32_t number;
    bool withdrawn;

    (void)state;
    begin();
    assert_int_equal(pair_read(&reader, &record, in, &withdrawn), PAIR_NONE);
    assert_int_equal(put(8, 0, &number), PAIR_DONE);
    half.entries[0].record.bytes = LIMIT_CALL_BYTES + 1;
    assert_int_equal(pair_read(&reader, &record, in, &withdrawn), PAIR_BROKEN);
    half.entries[0].record.bytes = UINT32_MAX;
    assert_int_equal(pair_read(&reader, &record, in, &withdrawn), PAIR_BROKEN);
    assert_int_equal(in[LIMIT_CALL_BYTES], 0xee);
    /* What the reader said itself does not lead it. */
    begin();
    assert_int_equal(put(8, 5, &number), PAIR_DONE);
    shared_store_relaxed(&half.head.value, 77);
    take(8, 5);
    assert_int_equal(shared_load_relaxed(&half.head.value), 1);
}

static void test_withdrawing_hits_its_own_record(void **state)
{
    struct pair_record record;
    uint32_t first, second;
    bool withdrawn;

    (void)state;
    begin();
    assert_int_equal(put(8, 0, &first), PAIR_DONE);
    assert_int_equal(put(8, 1, &second), PAIR_DONE);
    pair_withdraw(&writer, second);
    take(8, 0);
    assert_int_equal(pair_read(&reader, &record, in, &withdrawn), PAIR_DONE);
    assert_true(withdrawn);
    for (uint32_t n = 2; n < LIMIT_PAIR_ENTRIES + 2; n++)
        assert_int_equal(put(8, n, &second), PAIR_DONE);
    pair_withdraw(&writer, first); /* another has its entry */
    for (uint32_t n = 2; n < LIMIT_PAIR_ENTRIES + 2; n++)
        take(8, n);
}

static void test_who_sleeps_is_rung_once(void **state)
{
    uint32_t number;

    (void)state;
    begin();
    assert_int_equal(put(8, 0, &number), PAIR_DONE);
    assert_false(pair_wants_bell(&writer));
    shared_store_relaxed(&half.asleep.value, 1);
    assert_true(pair_wants_bell(&writer));
    assert_false(pair_wants_bell(&writer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_come_in_order_with_their_bytes),
        cmocka_unit_test(test_room_has_bounds),
        cmocka_unit_test(test_a_reader_that_lies_is_found_out),
        cmocka_unit_test(test_a_writer_that_lies_is_found_out),
        cmocka_unit_test(test_withdrawing_hits_its_own_record),
        cmocka_unit_test(test_who_sleeps_is_rung_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
