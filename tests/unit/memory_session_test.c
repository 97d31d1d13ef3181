/* SPDX-License-Identifier: Apache-2.0 */
/* The shared memory of a session: where things lie, and sums over words that may be forged. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "memory/session.h"

static void test_ring_used(void **state)
{
    const uint32_t n = LIMIT_RING_ENTRIES;
    uint64_t random = 3;

    (void)state;
    assert_int_equal(session_ring_used(0, 0, n), 0);
    assert_int_equal(session_ring_used(1, 0, n), 1);
    assert_int_equal(session_ring_used(n, 0, n), n);
    assert_int_equal(session_ring_used(n + 1, 0, n), UINT32_MAX);
    /* Counting past 2^32. */
    assert_int_equal(session_ring_used(0, UINT32_MAX, n), 1);
    assert_int_equal(session_ring_used(5, UINT32_MAX - 2, n), 8);
    assert_int_equal(session_ring_used(n - 1, UINT32_MAX, n), n);
    assert_int_equal(session_ring_used(n, UINT32_MAX, n), UINT32_MAX);
    /* A head before its tail, and anything else: never more than the ring. */
    assert_int_equal(session_ring_used(0, 1, n), UINT32_MAX);
    assert_int_equal(session_ring_used(UINT32_MAX / 2, 0, n), UINT32_MAX);
    for (int i = 0; i < 100000; i++) {
        uint32_t tail = (uint32_t)support_random(&random), head = (uint32_t)(random >> 7);
        uint32_t used = session_ring_used(tail, head, n);

        assert_true(used <= n ? used == tail - head : used == UINT32_MAX);
    }
}

/* Positions that go on for ever stay slots of the ring, in order, across the end of 32 bits. */
static void test_ring_positions(void **state)
{
    (void)state;
    assert_int_equal(LIMIT_RING_ENTRIES & (LIMIT_RING_ENTRIES - 1), 0);
    assert_int_equal(LIMIT_EVENT_ENTRIES & (LIMIT_EVENT_ENTRIES - 1), 0);
    assert_int_equal(LIMIT_HINTS_A_CHUNK & (LIMIT_HINTS_A_CHUNK - 1), 0);
    for (uint32_t i = UINT32_MAX - 600, n = 0; n < 1200; i++, n++)
        assert_int_equal((i + 1) % LIMIT_RING_ENTRIES,
                         (i % LIMIT_RING_ENTRIES + 1) % LIMIT_RING_ENTRIES);
}

static void test_parts_do_not_overlap(void **state)
{
    (void)state;
    for (uint32_t lanes = 1; lanes <= 8; lanes *= 2) {
        uint64_t bytes = session_memory_bytes(lanes);
        uint8_t *memory = aligned_alloc(SESSION_PAGE, bytes);
        uint8_t *end = memory + SESSION_PAGE;

        assert_non_null(memory);
        assert_int_equal(bytes % SESSION_PAGE, 0);
        assert_ptr_equal(session_front_of(memory), memory);
        assert_true(sizeof(struct session_front) <= SESSION_PAGE);
        for (uint32_t lane = 0; lane < lanes; lane++) {
            assert_ptr_equal(session_lane_of(memory, lane), end);
            end += sizeof(struct session_lane);
        }
        assert_ptr_equal(session_chunks_of(memory, lanes), end);
        end += LIMIT_PIN_CHUNKS * sizeof(struct pin_chunk);
        assert_true(end <= memory + bytes);
        assert_true(end + SESSION_PAGE > memory + bytes);
        end = memory + bytes;
        for (uint32_t lane = 0; lane < lanes; lane++) {
            assert_ptr_equal(session_places_of(memory, lanes, lane), end);
            end += SESSION_PLACES_BYTES;
        }
        assert_ptr_equal(end, memory + session_file_bytes(lanes));
        free(memory);
    }
}

static void test_places_end_where_they_end(void **state)
{
    static uint8_t places[SESSION_PLACES_BYTES];
    const uint64_t all = SESSION_PLACES_BYTES;

    (void)state;
    assert_ptr_equal(session_place_at(places, SESSION_OWN_PLACE, all), places);
    assert_ptr_equal(session_place_at(places, SESSION_OWN_PLACE | (all - 1), 1), places + all - 1);
    assert_ptr_equal(session_place_at(places, SESSION_OWN_PLACE | all, 0), places + all);
    assert_null(session_place_at(places, SESSION_OWN_PLACE | (all - 1), 2));
    assert_null(session_place_at(places, SESSION_OWN_PLACE | (all + 1), 0));
    assert_null(session_place_at(places, SESSION_OWN_PLACE, all + 1));
    assert_null(session_place_at(places, SESSION_OWN_PLACE, UINT64_MAX));
    assert_null(session_place_at(places, UINT64_MAX, 2));
    assert_null(session_place_at(places, 0, 1));
}

/* Words that different sides write lie on lines of their own. */
static void test_lines(void **state)
{
    const size_t words[] = {
        offsetof(struct session_lane, sq_tail),    offsetof(struct session_lane, sq_head),
        offsetof(struct session_lane, cq_tail),    offsetof(struct session_lane, cq_head),
        offsetof(struct session_lane, event_tail), offsetof(struct session_lane, event_head),
        offsetof(struct session_lane, events_lost)};

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        assert_int_equal(words[i], SESSION_PAGE + i * 64);
    assert_int_equal(offsetof(struct session_lane, sq) % SESSION_PAGE, 0);
    assert_int_equal(offsetof(struct session_lane, cq) % SESSION_PAGE, 0);
    assert_int_equal(offsetof(struct session_front, chunks_used), 64);
    assert_int_equal(offsetof(struct session_front, waiting), 128);
    assert_int_equal(offsetof(struct session_front, wake), 192);
    assert_int_equal(offsetof(struct session_node_page, lane), 64);
    assert_int_equal(offsetof(struct session_lane, pin_entry) % 64, 0);
    assert_int_equal(sizeof(struct pin_chunk) % 64, 0);
    assert_true(SESSION_WELCOME_FDS(LIMIT_LANES) <= LIMIT_SESSION_FDS);
}

static void test_ready_words(void **state)
{
    struct session_lane *lane = aligned_alloc(SESSION_PAGE, sizeof(*lane));
    uint8_t *page = (uint8_t *)lane;

    (void)state;
    assert_non_null(lane);
    for (uint32_t slot = 0; slot < LIMIT_SESSIONS; slot++) {
        uint8_t *word = (uint8_t *)session_ready(lane, slot);

        assert_true(word >= page && word + 4 <= page + SESSION_PAGE);
        assert_int_equal((word - page) % 64, 0);
        if (slot > 0) /* neighbours have different sets of the cache */
            assert_ptr_not_equal(word, session_ready(lane, slot - 1));
    }
    assert_ptr_equal(session_ready(lane, UINT32_MAX), page + 63 * 64);
    free(lane);
}

static void test_pin_words(void **state)
{
    static struct pin_chunk chunk;
    uint64_t ref = pin_ref(LIMIT_LANES - 1, LIMIT_INDEX_ENTRIES - 1);

    (void)state;
    assert_true(pin_ref(0, 0) != 0);
    assert_int_equal(pin_ref_lane(pin_ref(0, 0)), 0);
    assert_int_equal(pin_ref_entry(pin_ref(0, 0)), 0);
    assert_int_equal(pin_ref_lane(ref), LIMIT_LANES - 1);
    assert_int_equal(pin_ref_entry(ref), LIMIT_INDEX_ENTRIES - 1);
    /* Rubbish names no entry of any index. */
    assert_int_equal(pin_ref_entry(UINT64_C(7) << 32), UINT32_MAX);
    assert_true(pin_ref_entry(UINT64_MAX) >= LIMIT_INDEX_ENTRIES);

    pin_publish(&chunk, 31, ref, 99);
    assert_int_equal(atomic_load(&chunk.entry[31]), ref);
    assert_int_equal(atomic_load(&chunk.generation[31]), 99);
    assert_int_equal(atomic_load(&chunk.entry[30]), 0);
    pin_clear(&chunk.entry[31]);
    assert_int_equal(atomic_load(&chunk.entry[31]), 0);
}

static void test_hints(void **state)
{
    static struct pin_chunk chunk;

    (void)state;
    assert_int_equal(pin_hint(0, 5), 5);
    assert_int_equal(pin_hint(3, 5) >> 26, 3);
    assert_int_equal(pin_hint(LIMIT_LANES - 1, LIMIT_INDEX_ENTRIES - 1), UINT32_MAX);
    assert_int_equal(pin_hint(1, LIMIT_INDEX_ENTRIES), UINT32_C(1) << 26); /* cut, not spilt */
    atomic_store(&chunk.hint_count, UINT32_MAX);
    pin_leave_hint(&chunk, 1, 2);
    pin_leave_hint(&chunk, 1, 3);
    assert_int_equal(atomic_load(&chunk.hint_count), 1);
    assert_int_equal(atomic_load(&chunk.hint[LIMIT_HINTS_A_CHUNK - 1]), pin_hint(1, 2));
    assert_int_equal(atomic_load(&chunk.hint[0]), pin_hint(1, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_used),
        cmocka_unit_test(test_ring_positions),
        cmocka_unit_test(test_parts_do_not_overlap),
        cmocka_unit_test(test_places_end_where_they_end),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_ready_words),
        cmocka_unit_test(test_pin_words),
        cmocka_unit_test(test_hints),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
