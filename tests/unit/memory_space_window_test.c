/* SPDX-License-Identifier: Apache-2.0 */
/* A window between a client's thread and the lane: records, own writes, answers; and what a client
 * that writes anything there comes to. */
#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "memory/space_record.h"
#include "support/support.h"

#define HOME   (UINT64_C(2) << 48)
#define BLOCK  512u
#define BLOCKS 8u

static struct space_window *window;
static struct space_producer producer;
static struct space_consumer consumer;
static struct space_mapped space;
static void *memory;
static uint64_t ticket;

static int begin(void **state)
{
    (void)state;
    window = aligned_alloc(4096, sizeof *window);
    memory = aligned_alloc(4096, space_view_home_bytes(BLOCKS, BLOCK));
    if (window == NULL || memory == NULL)
        return 1;
    memset(window, 0, sizeof *window);
    memset(memory, 0, space_view_home_bytes(BLOCKS, BLOCK));
    space = (struct space_mapped){.number = 3};
    space_view_make_home(memory, BLOCKS, BLOCK, HOME, &space.home);
    space.cache.shift = space.home.shift;
    for (uint32_t n = 0; n < BLOCKS; n++)
        space_word_show(&space.home.words[n]);
    space_producer_init(&producer, window);
    space_consumer_init(&consumer, window);
    return 0;
}

static int end(void **state)
{
    (void)state;
    free(window);
    free(memory);
    return 0;
}

static bool put(uint64_t at, uint32_t length, uint8_t value)
{
    uint8_t bytes[BLOCK];

    memset(bytes, value, sizeof bytes);
    return space_producer_write(&producer, &space, HOME + at, bytes, length, &ticket);
}

static enum space_window_answer take(struct space_record *record)
{
    return space_consumer_take(&consumer, record);
}

static void apply(const struct space_record *record)
{
    uint8_t bytes[BLOCK];
    uint64_t at = record->address - HOME;

    space_consumer_bytes(&consumer, record, bytes);
    space_word_change(&space.home.words[at / BLOCK], space_bytes_of(&space.home, at / BLOCK),
                      at % BLOCK, bytes, record->length);
    space_consumer_done(&consumer, record->number);
}

static void get(uint64_t at, uint8_t *out, uint32_t length)
{
    assert_int_equal(space_producer_read(&producer, &space, HOME + at, out, length), SPACE_READ);
}

static void test_records_come_as_they_were_said(void **state)
{
    static const uint64_t operands[2] = {77, 88};
    struct space_record record;

    (void)state;
    for (uint32_t kind = SPACE_RECORD_WRITE; kind < SPACE_RECORD_KINDS; kind++) {
        uint32_t length = kind == SPACE_RECORD_READ ? 100 : space_kind_is_atomic(kind) ? 8 : 0;

        if (kind == SPACE_RECORD_WRITE)
            assert_true(put(8 * kind, 5, 9));
        else if (space_kind_is_asked(kind))
            assert_true(space_producer_ask(&producer, kind, &space, HOME + 8 * kind, length,
                                           operands, 1234567));
        else
            assert_true(space_producer_say(&producer, kind, &space, HOME + 8 * kind));
        assert_int_equal(take(&record), SPACE_WINDOW_TAKEN);
        assert_int_equal(record.kind, kind);
        assert_int_equal(record.space, 3);
        assert_int_equal(record.address, HOME + 8 * kind);
        assert_int_equal(record.length, kind == SPACE_RECORD_WRITE ? 5 : length);
        assert_true(space_record_fits(&record, BLOCK));
        if (space_kind_is_asked(kind)) {
            assert_int_equal(record.timeout_us, 1234567);
            assert_int_equal(record.sequence, producer.sequence);
            assert_int_equal(record.operands[1], space_kind_has_operands(kind) ? 88 : 0);
            assert_false(space_producer_is_answered(&producer));
            space_consumer_reply(&consumer, &record, NIGH_OK, 0, NULL, 0);
            assert_true(space_producer_is_answered(&producer));
        } else {
            space_consumer_done(&consumer, record.number);
        }
        assert_int_equal(take(&record), SPACE_WINDOW_NONE);
        assert_true(space_producer_is_empty(&producer));
    }
}

static void test_bytes_wrap(void **state)
{
    struct space_record record;

    (void)state;
    for (uint32_t n = 0; n < 5000; n++) {
        uint32_t length = 1 + n * 131 % BLOCK;
        uint8_t bytes[BLOCK + 8];

        assert_true(put(n % 8 * BLOCK, length, (uint8_t)n));
        assert_int_equal(take(&record), SPACE_WINDOW_TAKEN);
        assert_int_equal(record.length, length);
        space_consumer_bytes(&consumer, &record, bytes);
        for (uint32_t k = 0; k < length; k++)
            if (bytes[k] != (uint8_t)n)
                fail_msg("byte %u of write %u", k, n);
        space_consumer_done(&consumer, record.number);
    }
}

static void test_room_has_bounds(void **state)
{
    struct space_record record;
    uint32_t count = 0;

    (void)state;
    while (put(0, 8, 1))
        count++;
    assert_int_equal(count, LIMIT_SPACE_RING_BYTES / 32);
    for (uint32_t n = 0; n < LIMIT_SPACE_TAKEN; n++)
        assert_int_equal(take(&record), SPACE_WINDOW_TAKEN);
    assert_int_equal(take(&record), SPACE_WINDOW_FULL);
    assert_false(space_consumer_has_work(&consumer)); /* nothing that may be done now */
    assert_false(put(0, 8, 1));
    space_consumer_done(&consumer, 0);
    assert_true(space_consumer_has_work(&consumer));
    assert_true(put(0, 8, 1));
    assert_false(put(0, 8, 1));
    assert_int_equal(take(&record), SPACE_WINDOW_TAKEN);
    assert_int_equal(take(&record), SPACE_WINDOW_FULL);
}

static void test_records_are_done_in_any_order(void **state)
{
    struct space_record record[3];
    uint64_t tickets[3];

    (void)state;
    for (uint32_t n = 0; n < 3; n++) {
        assert_true(put(n * BLOCK, 8, 1));
        tickets[n] = ticket;
        assert_int_equal(take(&record[n]), SPACE_WINDOW_TAKEN);
    }
    apply(&record[2]);
    assert_true(space_producer_is_done(&producer, tickets[2]));
    assert_false(space_producer_is_done(&producer, tickets[1]));
    assert_false(space_producer_is_empty(&producer));
    apply(&record[0]);
    assert_true(space_producer_is_done(&producer, tickets[0]));
    assert_false(space_producer_is_done(&producer, tickets[1]));
    apply(&record[1]);
    assert_true(space_producer_is_done(&producer, tickets[1]));
    assert_true(space_producer_is_empty(&producer));
    assert_true(space_producer_look(&producer));
    assert_true(space_producer_is_done(&producer, tickets[0]));
}

/* All counts that have 32 bits come to their end and go on; those of 64 pass where 32 end. */
static void test_counts_come_round(void **state)
{
    static const uint64_t operands[2] = {1, 0};
    struct space_record record, last;
    uint64_t value, hints[LIMIT_SPACE_HINTS];
    nigh_status status;
    uint32_t news;

    (void)state;
    producer.tail = producer.head = (UINT64_C(1) << 32) - 32 * 10;
    consumer.taken = consumer.head = consumer.told = producer.tail;
    shared_store_relaxed(&window->tail.value, producer.tail);
    shared_store_relaxed(&window->head.value, producer.tail);
    producer.hints = consumer.hints = (UINT64_C(1) << 32) - 3;
    shared_store_relaxed(&window->hint_count.value, producer.hints);
    consumer.first = consumer.next = UINT32_MAX - 9;
    producer.sequence = producer.failures = consumer.failures = consumer.news = UINT32_MAX - 9;
    shared_store_relaxed(&window->reply.sequence, UINT32_MAX - 9);
    shared_store_relaxed(&window->failure.count, UINT32_MAX - 9);
    shared_store_relaxed(&window->news.value, UINT32_MAX - 9);
    for (uint32_t n = 0; n < 20; n++) {
        assert_true(put(0, 8, (uint8_t)n));
        assert_true(
            space_producer_ask(&producer, SPACE_RECORD_ADD, &space, HOME + BLOCK, 8, operands, 1));
        assert_false(space_producer_is_answered(&producer));
        assert_int_equal(take(&record), SPACE_WINDOW_TAKEN);
        assert_int_equal(take(&last), SPACE_WINDOW_TAKEN);
        news = space_producer_begin_sleep(&producer);
        space_consumer_reply(&consumer, &last, NIGH_OK, n, NULL, 0);
        assert_false(space_producer_is_empty(&producer));
        space_consumer_fail(&consumer, &record, NIGH_DENIED);
        space_consumer_done(&consumer, record.number);
        space_consumer_wake(&consumer);
        assert_int_equal(space_producer_sleep(&producer, news, FUTEX_FOREVER), NIGH_OK);
        space_producer_end_sleep(&producer);
        assert_true(space_producer_is_answered(&producer));
        assert_int_equal(space_producer_answer(&producer, &value, NULL, 0), NIGH_OK);
        assert_int_equal(value, n);
        assert_int_equal(space_producer_failures(&producer, &status, &value), 1);
        assert_true(space_producer_is_done(&producer, ticket));
        assert_true(space_producer_is_empty(&producer) && space_producer_look(&producer));
        space_producer_hint(&producer, 1, n);
        assert_int_equal(space_consumer_hints(&consumer, hints), 1);
        assert_int_equal((uint32_t)hints[0], n);
    }
    assert_true(consumer.next < 100 && producer.sequence < 100 && producer.failures < 100);
    assert_true(consumer.news < 100 && producer.tail > UINT64_C(1) << 32);
}

static void test_own_writes_lie_over_what_is_there(void **state)
{
    struct space_record record[3];
    uint8_t out[BLOCK];

    (void)state;
    assert_true(put(10, 20, 1)); /* 10 .. 29 */
    assert_true(put(25, 10, 2)); /* 25 .. 34 */
    assert_true(put(BLOCK + 10, 20, 9));
    get(0, out, BLOCK);
    for (uint32_t n = 0; n < BLOCK; n++)
        assert_int_equal(out[n], n >= 25 && n < 35 ? 2 : n >= 10 && n < 30 ? 1 : 0);
    get(25, out, 10);
    assert_int_equal(out[9], 2);
    get(29, out, 1);
    assert_int_equal(out[0], 2);
    get(24, out, 1);
    assert_int_equal(out[0], 1);
    get(35, out, 3);
    assert_int_equal(out[0], 0);
    for (uint32_t n = 0; n < 3; n++)
        assert_int_equal(take(&record[n]), SPACE_WINDOW_TAKEN);
    apply(&record[2]); /* of another block: first */
    apply(&record[0]);
    get(0, out, 40);
    assert_int_equal(out[24], 1);
    assert_int_equal(out[34], 2);
    apply(&record[1]);
    for (uint32_t n = 0; n < SPACE_NOTES; n++)
        assert_int_equal(space_producer_look(&producer) ? producer.pending[n] : 1, 0);
    get(20, out, 10);
    assert_int_equal(out[4], 1);
    assert_int_equal(out[5], 2);
}

/* The space has no bytes to be read, but the thread's own newest write has all that it asks for. */
static void test_own_writes_are_read_where_nothing_is(void **state)
{
    struct space_mapped other = space;
    uint8_t out[16];

    (void)state;
    space_word_hide(&space.home.words[0]);
    assert_true(put(0, 16, 4));
    get(3, out, 8);
    assert_int_equal(out[0], 4);
    assert_int_equal(space_producer_read(&producer, &space, HOME + 8, out, 9), SPACE_ASK);
    assert_true(put(8, 8, 5)); /* it has not all of that, and is newer */
    assert_int_equal(space_producer_read(&producer, &space, HOME, out, 16), SPACE_ASK);
    other.number++; /* another space, same place */
    assert_int_equal(space_producer_read(&producer, &other, HOME, out, 8), SPACE_ASK);
}

static void test_answers_come_with_their_bytes(void **state)
{
    struct space_record record;
    uint8_t bytes[100], out[100];
    uint64_t value;

    (void)state;
    for (uint32_t n = 1; n <= 100; n++) {
        memset(bytes, (int)n, sizeof bytes);
        assert_true(
            space_producer_ask(&producer, SPACE_RECORD_READ, &space, HOME, n, NULL, UINT64_MAX));
        assert_int_equal(take(&record), SPACE_WINDOW_TAKEN);
        space_consumer_reply(&consumer, &record, NIGH_OK, n * 3, bytes, n);
        assert_true(space_producer_is_answered(&producer));
        memset(out, 0xee, sizeof out);
        assert_int_equal(space_producer_answer(&producer, &value, out, n), NIGH_OK);
        assert_int_equal(value, n * 3);
        assert_memory_equal(out, bytes, n);
        assert_true(n == 100 || out[n] == 0xee);
    }
    assert_true(space_producer_ask(&producer, SPACE_RECORD_FREE, &space, HOME, 0, NULL, 0));
    assert_int_equal(take(&record), SPACE_WINDOW_TAKEN);
    space_consumer_reply(&consumer, &record, NIGH_DENIED, 0, NULL, 0);
    assert_int_equal(space_producer_answer(&producer, &value, NULL, 0), NIGH_DENIED);
}

static void test_failures_are_counted(void **state)
{
    struct space_record record;
    nigh_status status;
    uint64_t address;

    (void)state;
    assert_int_equal(space_producer_failures(&producer, &status, &address), 0);
    assert_int_equal(status, NIGH_OK);
    for (uint32_t n = 0; n < 2; n++) {
        assert_true(put(n * 64, 8, 1));
        assert_int_equal(take(&record), SPACE_WINDOW_TAKEN);
        space_consumer_fail(&consumer, &record, n == 0 ? NIGH_DENIED : NIGH_NOT_FOUND);
        space_consumer_done(&consumer, record.number);
    }
    assert_int_equal(space_producer_failures(&producer, &status, &address), 2);
    assert_int_equal(status, NIGH_NOT_FOUND);
    assert_int_equal(address, HOME + 64);
    assert_int_equal(space_producer_failures(&producer, &status, &address), 0);
}

static void test_who_sleeps_is_woken_once(void **state)
{
    uint32_t news;

    (void)state;
    space_consumer_wake(&consumer);
    assert_int_equal(shared_load_relaxed(&window->news.value), 0);
    news = space_producer_begin_sleep(&producer);
    assert_int_equal(space_producer_sleep(&producer, news, 1), NIGH_TIMEOUT);
    space_consumer_wake(&consumer);
    assert_int_not_equal(shared_load_relaxed(&window->news.value), news);
    assert_int_equal(space_producer_sleep(&producer, news, FUTEX_FOREVER), NIGH_OK);
    news = shared_load_relaxed(&window->news.value);
    space_consumer_wake(&consumer); /* it is awake, and only has not said so */
    assert_int_equal(shared_load_relaxed(&window->news.value), news);
    space_producer_end_sleep(&producer);
    (void)space_producer_begin_sleep(&producer);
    space_producer_end_sleep(&producer);
    space_consumer_wake(&consumer);
    assert_int_equal(shared_load_relaxed(&window->news.value), news);
}

static void test_hints_are_the_last_ones(void **state)
{
    uint64_t hints[LIMIT_SPACE_HINTS];

    (void)state;
    assert_int_equal(space_consumer_hints(&consumer, hints), 0);
    for (uint32_t n = 0; n < 3; n++)
        space_producer_hint(&producer, 7, n / 2); /* the same again is none */
    assert_int_equal(space_consumer_hints(&consumer, hints), 2);
    assert_int_equal(hints[1], UINT64_C(7) << 32 | 1);
    assert_int_equal(space_consumer_hints(&consumer, hints), 0);
    for (uint32_t n = 0; n < 1000; n++)
        space_producer_hint(&producer, 7, 100 + n);
    assert_int_equal(space_consumer_hints(&consumer, hints), LIMIT_SPACE_HINTS);
    assert_int_equal((uint32_t)hints[LIMIT_SPACE_HINTS - 1], 1099);
    assert_int_equal((uint32_t)hints[0], 1100 - LIMIT_SPACE_HINTS);
    shared_store_relaxed(&window->hint_count.value, 5); /* a lie: it went back */
    assert_int_equal(space_consumer_hints(&consumer, hints), LIMIT_SPACE_HINTS);
    assert_int_equal(space_consumer_hints(&consumer, hints), 0);
}

/* ---- a client that lies ---------------------------------------------------- */

static void test_a_tail_that_lies_is_found_out(void **state)
{
    static const uint64_t lies[] = {
        1, 8, LIMIT_SPACE_RING_BYTES + 16, UINT64_MAX, UINT64_MAX - 15, UINT64_C(1) << 32};
    struct space_record record;

    (void)state;
    for (uint32_t n = 0; n < sizeof lies / sizeof lies[0]; n++) {
        shared_store_relaxed(&window->tail.value, lies[n]);
        assert_int_equal(take(&record), SPACE_WINDOW_BROKEN);
    }
    /* Over what is not done, and back. */
    shared_store_relaxed(&window->tail.value, 0);
    assert_true(put(0, 8, 1));
    assert_true(put(0, 8, 1));
    assert_int_equal(take(&record), SPACE_WINDOW_TAKEN);
    shared_store_relaxed(&window->tail.value, LIMIT_SPACE_RING_BYTES + 32);
    assert_int_equal(take(&record), SPACE_WINDOW_BROKEN);
    shared_store_relaxed(&window->tail.value, 16);
    assert_int_equal(take(&record), SPACE_WINDOW_BROKEN);
    shared_store_relaxed(&window->tail.value, 64);
    assert_int_equal(take(&record), SPACE_WINDOW_TAKEN);
}

static void test_a_record_that_lies_is_found_out(void **state)
{
    struct space_record record;

    (void)state;
    for (uint32_t kind = 0; kind < 256; kind++) {
        for (uint32_t length = 0; length < 65536; length += length < 20 ? 1 : 4067) {
            bool may = kind == SPACE_RECORD_WRITE || kind == SPACE_RECORD_READ
                           ? length > 0 && length <= LIMIT_SPACE_BLOCK_BYTES
                           : length == (space_kind_is_atomic(kind) ? 8 : 0);

            space_consumer_init(&consumer, window);
            shared_store_relaxed(&window->ring[0], space_word_of(kind, 0, (uint16_t)length, 1));
            shared_store_relaxed(&window->tail.value, LIMIT_SPACE_RING_BYTES);
            may = may && kind > 0 && kind < SPACE_RECORD_KINDS;
            if (take(&record) != (may ? SPACE_WINDOW_TAKEN : SPACE_WINDOW_BROKEN))
                fail_msg("kind %u, length %u", kind, length);
        }
    }
    /* Its end is behind what was said to be there. */
    space_consumer_init(&consumer, window);
    shared_store_relaxed(&window->ring[0], space_word_of(SPACE_RECORD_WRITE, 0, 100, 1));
    shared_store_relaxed(&window->tail.value, 112);
    assert_int_equal(take(&record), SPACE_WINDOW_BROKEN);
    shared_store_relaxed(&window->tail.value, 128);
    assert_int_equal(take(&record), SPACE_WINDOW_TAKEN);
}

/* What is looked at before it is taken is as little believed; a row is of WRITEs alone, and there
 * is none while something that was taken waits. */
static void test_a_row_is_of_writes_that_are_there(void **state)
{
    struct space_write write;
    struct space_record record;
    uint8_t bytes[24];

    (void)state;
    for (uint32_t kind = 0; kind < 256; kind++) {
        for (uint32_t length = 0; length < 65536; length += length < 20 ? 1 : 4067) {
            bool may =
                kind == SPACE_RECORD_WRITE && length > 0 && length <= LIMIT_SPACE_BLOCK_BYTES;

            space_consumer_init(&consumer, window);
            shared_store_relaxed(&window->ring[0], space_word_of(kind, 0, (uint16_t)length, 1));
            shared_store_relaxed(&window->tail.value, LIMIT_SPACE_RING_BYTES);
            if (space_consumer_peek(&consumer, &write) != may)
                fail_msg("kind %u, length %u", kind, length);
        }
    }
    space_consumer_init(&consumer, window);
    shared_store_relaxed(&window->ring[0], space_word_of(SPACE_RECORD_WRITE, 0, 100, 1));
    shared_store_relaxed(&window->tail.value, 112); /* its end is behind that */
    assert_false(space_consumer_peek(&consumer, &write));
    space_consumer_init(&consumer, window);
    shared_store_relaxed(&window->tail.value, LIMIT_SPACE_RING_BYTES + 16);
    assert_false(space_consumer_peek(&consumer, &write));
    shared_store_relaxed(&window->tail.value, 8);
    assert_false(space_consumer_peek(&consumer, &write));
    space_consumer_init(&consumer, window);
    shared_store_relaxed(&window->tail.value, 0);
    assert_true(put(0, 20, 1));
    assert_true(put(0, 8, 2));
    assert_true(put(0, 8, 3));
    assert_true(space_consumer_peek(&consumer, &write));
    space_consumer_peek_bytes(&consumer, &write, bytes);
    assert_int_equal(bytes[19], 1);
    space_consumer_pass(&consumer, &write);
    assert_int_equal(take(&record), SPACE_WINDOW_TAKEN);
    assert_int_equal(record.at, 48);
    assert_false(space_consumer_peek(&consumer, &write));
    space_consumer_done(&consumer, record.number);
    assert_int_equal(shared_load_relaxed(&window->head.value), 48 + 32);
    assert_true(space_consumer_peek(&consumer, &write));
    assert_int_equal(write.at, 48 + 32);
    space_consumer_pass(&consumer, &write);
    space_consumer_tell(&consumer);
    assert_true(space_producer_is_empty(&producer));
    assert_false(space_consumer_peek(&consumer, &write));
}

static void test_what_lies_over_an_end_does_not_fit(void **state)
{
    struct space_record record = {.kind = SPACE_RECORD_WRITE, .length = 8};

    (void)state;
    record.address = HOME + BLOCK - 8;
    assert_true(space_record_fits(&record, BLOCK));
    record.address++;
    assert_false(space_record_fits(&record, BLOCK));
    record.length = 7;
    assert_true(space_record_fits(&record, BLOCK));
    record.kind = SPACE_RECORD_ADD;
    assert_false(space_record_fits(&record, BLOCK));
    record.address = UINT64_MAX;
    record.length = 8;
    assert_false(space_record_fits(&record, BLOCK));
    record.kind = SPACE_RECORD_WRITE;
    record.length = 1;
    assert_true(space_record_fits(&record, BLOCK));
    record.length = LIMIT_SPACE_BLOCK_BYTES;
    record.address = HOME;
    assert_false(space_record_fits(&record, BLOCK));
}

/* What the lane wrote there leads it nowhere; what the client changes in a record that was taken
 * changes its bytes at most. */
static void test_the_lane_does_not_read_its_own_words(void **state)
{
    struct space_record record, second;
    uint8_t bytes[24];

    (void)state;
    assert_true(put(0, 20, 1));
    assert_true(put(0, 8, 2));
    assert_int_equal(take(&record), SPACE_WINDOW_TAKEN);
    shared_store_relaxed(&window->ring[0], space_word_of(SPACE_RECORD_WRITE, 0, 4000, 1));
    shared_store_relaxed(&window->head.value, 12345);
    shared_store_relaxed(&window->reply.sequence, 99);
    shared_store_relaxed(&window->news.value, 99);
    shared_store_relaxed(&window->failure.count, 99);
    space_consumer_bytes(&consumer, &record, bytes);
    assert_int_equal(bytes[19], 1);
    assert_int_equal(take(&second), SPACE_WINDOW_TAKEN);
    assert_int_equal(second.length, 8);
    space_consumer_done(&consumer, second.number);
    assert_int_equal(shared_load_relaxed(&window->head.value), 12345);
    space_consumer_done(&consumer, record.number);
    assert_int_equal(shared_load_relaxed(&window->head.value), 48 + 32);
    space_consumer_fail(&consumer, &record, NIGH_DENIED);
    assert_int_equal(shared_load_relaxed(&window->failure.count), 1);
    shared_store_relaxed(&window->asleep.value, 1);
    space_consumer_wake(&consumer);
    assert_int_equal(shared_load_relaxed(&window->news.value), 2);
}

/* The node is believed, but leads nobody out of its memory. */
static void test_a_head_that_cannot_be_is_not_followed(void **state)
{
    uint8_t out[8];

    (void)state;
    assert_true(put(0, 8, 1));
    shared_store_relaxed(&window->head.value, 64);
    assert_false(space_producer_look(&producer));
    assert_int_equal(space_producer_read(&producer, &space, HOME, out, 8), SPACE_ASK);
    shared_store_relaxed(&window->head.value, UINT64_MAX);
    assert_false(space_producer_look(&producer));
    shared_store_relaxed(&window->head.value, 16); /* inside a record */
    assert_false(space_producer_look(&producer));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_records_come_as_they_were_said),
        TEST(test_bytes_wrap),
        TEST(test_room_has_bounds),
        TEST(test_records_are_done_in_any_order),
        TEST(test_counts_come_round),
        TEST(test_own_writes_lie_over_what_is_there),
        TEST(test_own_writes_are_read_where_nothing_is),
        TEST(test_answers_come_with_their_bytes),
        TEST(test_failures_are_counted),
        TEST(test_who_sleeps_is_woken_once),
        TEST(test_hints_are_the_last_ones),
        TEST(test_a_tail_that_lies_is_found_out),
        TEST(test_a_record_that_lies_is_found_out),
        TEST(test_a_row_is_of_writes_that_are_there),
        TEST(test_what_lies_over_an_end_does_not_fit),
        TEST(test_the_lane_does_not_read_its_own_words),
        TEST(test_a_head_that_cannot_be_is_not_followed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
