/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lane's scan against a plain count over the same words, rubbish included; victims; who holds
 * what; hints. One thread: the rest is explored in tests/model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "memory/index.h"
#include "object/index_writer.h"
#include "object/pin_scan.h"
#include "support/support.h"

enum {
    SESSIONS = 12,
    ENTRIES = 64,
    LANE_PINS = 40,
    LANE = 3
};

struct session {
    struct pin_chunk chunks[LIMIT_PIN_CHUNKS];
    _Atomic uint64_t lane_pins[LIMIT_LANE_PINS];
    _Atomic uint32_t chunks_used;
};

static struct session *sessions;
static struct pin_table tables[SESSIONS];

static int set_up(void **state)
{
    (void)state;
    sessions = calloc(SESSIONS, sizeof(*sessions));
    for (uint32_t s = 0; s < SESSIONS; s++) {
        tables[s] = (struct pin_table){.chunks = sessions[s].chunks,
                                       .chunks_used = &sessions[s].chunks_used,
                                       .lane_pins = sessions[s].lane_pins,
                                       .lane_pins_used = 0};
    }
    return sessions == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    free(sessions);
    return 0;
}

/* Any word: no pin, a pin, one of another lane, an entry that is not there, rubbish. */
static uint64_t random_word(uint64_t *random)
{
    uint64_t entry = support_random(random) % ENTRIES;

    switch (support_random(random) % 8) {
    case 0:
    case 1:
    case 2: return pin_ref(LANE, (uint32_t)entry);
    case 3: return pin_ref((uint32_t)support_random(random) % 8, (uint32_t)entry);
    case 4: return pin_ref(LANE, (uint32_t)(support_random(random) % LIMIT_INDEX_ENTRIES));
    case 5: return support_random(random);
    default: return 0;
    }
}

static void randomise(uint64_t *random)
{
    for (uint32_t s = 0; s < SESSIONS; s++) {
        struct session *session = &sessions[s];

        memset(session, 0, sizeof(*session));
        session->chunks_used = support_random(random) % 4;
        for (uint32_t c = 0; c < 4; c++) {
            for (uint32_t i = 0; i < LIMIT_PINS_A_CHUNK; i++) {
                session->chunks[c].entry[i] = random_word(random);
            }
        }
        tables[s].lane_pins_used = support_random(random) % LANE_PINS;
        for (uint32_t i = 0; i < LANE_PINS; i++) {
            session->lane_pins[i] = random_word(random);
        }
    }
}

static uint32_t count_plainly(uint32_t first, uint32_t end, uint32_t entry)
{
    uint32_t count = 0;

    for (uint32_t s = first; s < end; s++) {
        uint32_t chunks = sessions[s].chunks_used;

        for (uint32_t c = 0; c < LIMIT_PIN_CHUNKS && c < chunks; c++) {
            for (uint32_t i = 0; i < LIMIT_PINS_A_CHUNK; i++) {
                count += sessions[s].chunks[c].entry[i] == pin_ref(LANE, entry);
            }
        }
        for (uint32_t i = 0; i < tables[s].lane_pins_used; i++) {
            count += sessions[s].lane_pins[i] == pin_ref(LANE, entry);
        }
    }
    return count;
}

static void scan_counts_what_is_there(void **state)
{
    uint64_t random = support_seed() | 1;
    struct pin_scan scan;

    (void)state;
    assert_int_equal(pin_scan_init(&scan, ENTRIES), NIGH_OK);
    for (int round = 0; round < 300; round++) {
        uint32_t asked = 1 + support_random(&random) % ENTRIES;
        uint32_t first = support_random(&random) % ENTRIES;

        randomise(&random);
        pin_scan_begin(&scan, LANE, asked);
        for (uint32_t i = 0; i < asked; i++) {
            pin_scan_add(&scan, (first + i) % ENTRIES);
            pin_scan_add(&scan, first);
        }
        pin_scan_run(&scan, tables, SESSIONS);
        for (uint32_t i = 0; i < asked; i++) {
            uint32_t entry = (first + i) % ENTRIES;

            assert_int_equal(pin_scan_holders(&scan, entry), count_plainly(0, SESSIONS, entry));
        }
    }
    pin_scan_fini(&scan);
}

/* A client may write any count of chunks. */
static void chunks_used_is_clamped(void **state)
{
    struct pin_scan scan;

    (void)state;
    memset(sessions, 0, SESSIONS * sizeof(*sessions));
    sessions[0].chunks_used = UINT32_MAX;
    sessions[0].chunks[LIMIT_PIN_CHUNKS - 1].entry[LIMIT_PINS_A_CHUNK - 1] = pin_ref(LANE, 5);
    assert_int_equal(pin_scan_init(&scan, 1), NIGH_OK);
    pin_scan_begin(&scan, LANE, 1);
    pin_scan_add(&scan, 5);
    pin_scan_run(&scan, tables, 1);
    assert_int_equal(pin_scan_holders(&scan, 5), 1);
    pin_scan_fini(&scan);
}

static void victims_are_parted(void **state)
{
    uint64_t random = support_seed() | 1;
    void *memory = aligned_alloc(4096, index_size_bytes(ENTRIES));
    struct index_writer writer;
    struct pin_scan scan;
    struct index index;
    uint32_t numbers[ENTRIES], unpinned, number;

    (void)state;
    memset(memory, 0, index_size_bytes(ENTRIES));
    index_format(memory, 0, LANE, 8, ENTRIES, &index);
    assert_int_equal(index_writer_init(&writer, &index), NIGH_OK);
    assert_int_equal(pin_scan_init(&scan, ENTRIES), NIGH_OK);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        struct index_fill fill = {.data_size = i};

        assert_int_equal(index_take(&writer, &number), NIGH_OK);
        index_entry_fill(&writer, number, &fill, INDEX_SEALED);
    }
    for (int round = 0; round < 100; round++) {
        bool met[ENTRIES] = {false};

        randomise(&random);
        for (uint32_t s = 1; s < SESSIONS; s++) {
            sessions[s].chunks_used = 0;
            tables[s].lane_pins_used = 0;
        }
        for (uint32_t i = 0; i < ENTRIES; i++) {
            numbers[i] = (i * 5 + (uint32_t)round) % ENTRIES;
        }
        unpinned = pin_scan_victims(&scan, &writer, tables, SESSIONS, numbers, ENTRIES);
        for (uint32_t i = 0; i < ENTRIES; i++) {
            enum index_state now = index_word_state(index_word_at(&writer, numbers[i]));

            assert_false(met[numbers[i]]);
            met[numbers[i]] = true;
            assert_int_equal(count_plainly(0, SESSIONS, numbers[i]) == 0, i < unpinned);
            assert_int_equal(now, i < unpinned ? INDEX_MARKED : INDEX_SEALED);
            if (i < unpinned) {
                index_unmark(&writer, numbers[i]);
            }
        }
    }
    pin_scan_fini(&scan);
    index_writer_fini(&writer);
    free(memory);
}

struct tally {
    uint32_t of[ENTRIES];
    uint32_t last;
};

static void tally(void *context, uint32_t entry)
{
    struct tally *t = context;

    assert_true(entry < ENTRIES);
    t->of[entry]++;
    t->last = entry;
}

static void visit_tells_who_holds_what(void **state)
{
    uint64_t random = support_seed() | 1;

    (void)state;
    randomise(&random);
    for (uint32_t s = 0; s < SESSIONS; s++) {
        struct tally t = {{0}, 0};

        pin_table_visit(&tables[s], LANE, ENTRIES, tally, &t);
        for (uint32_t entry = 0; entry < ENTRIES; entry++) {
            assert_int_equal(t.of[entry], count_plainly(s, s + 1, entry));
        }
    }
}

static void hints_are_taken_once_and_the_oldest_lost(void **state)
{
    struct pin_chunk *chunk = &sessions[0].chunks[0];
    struct tally t = {{0}, 0};
    uint32_t seen = 0;

    (void)state;
    memset(chunk, 0, sizeof(*chunk));
    assert_int_equal(pin_take_hints(chunk, &seen, LANE, ENTRIES, tally, &t), 0);
    pin_leave_hint(chunk, LANE, 5);
    pin_leave_hint(chunk, LANE + 1, 6);
    pin_leave_hint(chunk, LANE, ENTRIES);
    pin_leave_hint(chunk, LANE, 7);
    assert_int_equal(pin_take_hints(chunk, &seen, LANE, ENTRIES, tally, &t), 2);
    assert_int_equal(t.of[5], 1);
    assert_int_equal(t.last, 7);
    assert_int_equal(pin_take_hints(chunk, &seen, LANE, ENTRIES, tally, &t), 0);
    for (uint32_t i = 0; i < LIMIT_HINTS_A_CHUNK + 10; i++) {
        pin_leave_hint(chunk, LANE, i < 10 ? 9 : 11);
    }
    assert_int_equal(pin_take_hints(chunk, &seen, LANE, ENTRIES, tally, &t), LIMIT_HINTS_A_CHUNK);
    assert_int_equal(t.of[9], 0);
    assert_int_equal(t.of[11], LIMIT_HINTS_A_CHUNK);
    chunk->hint_count = seen - 1; /* a client that counts backwards */
    assert_in_range(pin_take_hints(chunk, &seen, LANE, ENTRIES, tally, &t), 0, LIMIT_HINTS_A_CHUNK);
}

static void a_chunk_opens_once(void **state)
{
    _Atomic uint32_t used = 0;

    (void)state;
    pin_open_chunk(&used, 2);
    assert_int_equal(used, 3);
    pin_open_chunk(&used, 0);
    assert_int_equal(used, 3);
    pin_open_chunk(&used, 3);
    assert_int_equal(used, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scan_counts_what_is_there),
        cmocka_unit_test(chunks_used_is_clamped),
        cmocka_unit_test(victims_are_parted),
        cmocka_unit_test(visit_tells_who_holds_what),
        cmocka_unit_test(hints_are_taken_once_and_the_oldest_lost),
        cmocka_unit_test(a_chunk_opens_once),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
