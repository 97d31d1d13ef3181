/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index, both sides in one thread: layout and what is refused of it, entries, slots against a
 * model, every answer of a look-up, and rebuilding. What happens between threads is explored in
 * tests/model, and so is what a death leaves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "memory/index.h"
#include "object/index_writer.h"
#include "support/support.h"

static void *memory;
static struct index_writer writer;
static struct pin_chunk chunk;

static void format(uint32_t entries)
{
    uint64_t size = index_size_bytes(entries);
    struct index index;

    memory = aligned_alloc(4096, size);
    assert_non_null(memory);
    memset(memory, 0, size);
    memset(&chunk, 0, sizeof(chunk));
    index_format(memory, 3, 1, 4, entries, &index);
    assert_int_equal(index_writer_init(&writer, &index), NIGH_OK);
}

static void drop(void)
{
    index_writer_fini(&writer);
    free(memory);
}

static void make_id(uint32_t n, uint8_t id[LIMIT_ID_BYTES])
{
    memset(id, 0x5a, LIMIT_ID_BYTES);
    memcpy(id, &n, sizeof(n));
}

/* A sealed object in the slots. */
static uint32_t put_as(const uint8_t *id, uint64_t hash)
{
    struct index_fill fill = {.id = id, .offset = 64, .data_size = 1};
    uint32_t number;

    assert_int_equal(index_take(&writer, &number), NIGH_OK);
    index_entry_fill(&writer, number, &fill, INDEX_SEALED);
    index_insert(&writer, hash, number);
    return number;
}

static uint32_t put(uint32_t n)
{
    uint8_t id[LIMIT_ID_BYTES];

    make_id(n, id);
    return put_as(id, hash_id20(id));
}

static enum index_answer acquire(uint32_t n, uint32_t *number)
{
    uint8_t id[LIMIT_ID_BYTES];

    make_id(n, id);
    return index_acquire(&writer.index, id, hash_id20(id), &chunk, 0, number);
}

static void sizes_keep_their_bound(void **state)
{
    uint32_t slots = index_slot_count(10000000);

    (void)state;
    assert_true(is_pow2(slots));
    assert_true((slots * 8 + UINT64_C(10000000) * 80) / 10000000.0 <= 96);
    assert_int_equal(index_size_bytes(0), 0);
    assert_int_equal(index_size_bytes(LIMIT_INDEX_ENTRIES + 1), 0);
    for (uint64_t n = 1; n <= LIMIT_INDEX_ENTRIES; n = n * 5 / 4 + 1) {
        assert_true((double)n <= 0.75 * index_slot_count((uint32_t)n));
        assert_true(index_size_bytes((uint32_t)n) % 4096 == 0);
        assert_true(index_size_bytes((uint32_t)n) >=
                    INDEX_HEADER_BYTES + index_slot_count((uint32_t)n) * UINT64_C(8) + n * 80);
    }
}

/* Whether some place has the name. */
static bool has_name(uint64_t hash, const char *name)
{
    char found[LIMIT_NAME_BYTES + 1];

    for (uint32_t way = 0; way <= INDEX_NAME_WAYS; way++) {
        if (index_name_copy(&writer.index, hash, way, (uint32_t)strlen(name), found) &&
            strcmp(found, name) == 0) {
            return true;
        }
    }
    return false;
}

static void names_are_kept_until_others_need_the_place(void **state)
{
    char name[LIMIT_NAME_BYTES + 1], longest[LIMIT_NAME_BYTES + 1];
    uint64_t hash = hash_u64(7);

    (void)state;
    memset(longest, 'n', LIMIT_NAME_BYTES);
    longest[LIMIT_NAME_BYTES] = '\0';
    format(64 * 16);
    assert_int_equal(writer.index.name_count, 16);
    assert_false(has_name(hash, "dataset-0"));
    for (uint32_t round = 0; round < 2; round++) {
        /* Alike in their first words and as long as each other; a second time takes no place. */
        for (uint32_t i = 0; i < INDEX_NAME_WAYS - 1; i++) {
            snprintf(name, sizeof(name), "dataset-%u", i);
            index_keep_name(&writer, hash, name, (uint32_t)strlen(name));
        }
    }
    index_keep_name(&writer, hash, longest, LIMIT_NAME_BYTES);
    for (uint32_t i = 0; i < INDEX_NAME_WAYS - 1; i++) {
        snprintf(name, sizeof(name), "dataset-%u", i);
        assert_true(has_name(hash, name));
    }
    assert_true(has_name(hash, longest));
    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "other-%u", i);
        index_keep_name(&writer, hash_u64(i), name, (uint32_t)strlen(name));
        assert_true(has_name(hash_u64(i), name));
    }
    drop();
    format(64 * 15);
    assert_int_equal(writer.index.name_count, 0);
    index_keep_name(&writer, hash, "a", 1);
    assert_false(has_name(hash, "a"));
    drop();
}

/* What a node before names were kept has made is an index still. */
static void an_index_without_names_is_one(void **state)
{
    struct index index;

    (void)state;
    format(64 * 16);
    assert_int_equal(index_attach(memory, index_size_bytes(64 * 16) - 1, &index), NIGH_INVALID);
    writer.index.header->name_count = 8;
    assert_int_equal(index_attach(memory, index_size_bytes(64 * 16), &index), NIGH_INVALID);
    writer.index.header->name_count = 0;
    assert_int_equal(
        index_attach(memory, index_size_bytes(64 * 16) - 16 * sizeof(struct index_name), &index),
        NIGH_OK);
    assert_int_equal(index.name_count, 0);
    drop();
}

static void attach_refuses_what_it_does_not_know(void **state)
{
    struct index_header *header;
    struct index index;
    uint64_t size = index_size_bytes(100);
    uint8_t saved[sizeof(struct index_header)];

    (void)state;
    format(100);
    header = memory;
    memcpy(saved, header, sizeof(saved));
    assert_int_equal(index_attach(memory, size, &index), NIGH_OK);
    assert_ptr_equal(index.entries, writer.index.entries);
    assert_int_equal(index.lane, 1);
    assert_int_equal(index_attach(memory, size - 1, &index), NIGH_INVALID);
    assert_int_equal(index_attach(memory, 100, &index), NIGH_INVALID);
#define REFUSES(field, value, status)                               \
    header->field = (value);                                        \
    assert_int_equal(index_attach(memory, size, &index), (status)); \
    memcpy(header, saved, sizeof(saved))
    REFUSES(magic, 0, NIGH_VERSION);
    REFUSES(format, INDEX_FORMAT + 1, NIGH_VERSION);
    REFUSES(entry_count, 0, NIGH_INVALID);
    REFUSES(entry_count, 200, NIGH_INVALID);
    REFUSES(entry_count, UINT32_MAX, NIGH_INVALID);
    REFUSES(slot_count, header->slot_count * 2, NIGH_INVALID);
    REFUSES(slot_count, header->slot_count - 1, NIGH_INVALID);
    REFUSES(slots_offset, 0, NIGH_INVALID);
    REFUSES(entries_offset, UINT64_MAX - 63, NIGH_INVALID);
    REFUSES(cold_offset, size, NIGH_INVALID);
    REFUSES(size_bytes, size + 4096, NIGH_INVALID);
    REFUSES(lanes, 3, NIGH_INVALID);
    REFUSES(lanes, 0, NIGH_INVALID);
    REFUSES(lanes, 128, NIGH_INVALID);
    REFUSES(lane, 4, NIGH_INVALID);
    REFUSES(pool, LIMIT_POOLS, NIGH_INVALID);
    assert_int_equal(index_attach(memory, size, &index), NIGH_OK);
    drop();
}

static void entries_are_taken_in_order_and_used_again(void **state)
{
    uint32_t number;

    (void)state;
    format(4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(index_take(&writer, &number), NIGH_OK);
        assert_int_equal(number, i);
    }
    assert_int_equal(index_take(&writer, &number), NIGH_LIMIT);
    index_give_back(&writer, 2);
    assert_int_equal(index_take(&writer, &number), NIGH_OK);
    assert_int_equal(number, 2);
    assert_int_equal(shared_load_relaxed(&writer.index.header->entries_used), 4);
    drop();
}

static void generations_are_never_used_twice(void **state)
{
    uint64_t last = 0;

    (void)state;
    format(2);
    for (int i = 0; i < 100; i++) {
        struct index_fill fill = {.data_size = 1};
        uint32_t number;
        uint64_t generation;

        assert_int_equal(index_take(&writer, &number), NIGH_OK);
        generation = index_entry_fill(&writer, number, &fill, INDEX_LEASE);
        assert_true(generation > last);
        last = generation;
        index_release(&writer, number);
        assert_int_equal(index_word_generation(index_word_at(&writer, number)), generation);
    }
    drop();
}

static void look_up_answers_by_state(void **state)
{
    uint32_t number = 99, entry;
    uint8_t id[LIMIT_ID_BYTES];

    (void)state;
    format(8);
    make_id(7, id);
    assert_int_equal(acquire(7, &number), INDEX_MISS);
    entry = put(7);
    assert_int_equal(acquire(7, &number), INDEX_HIT);
    assert_int_equal(number, entry);
    assert_int_equal(chunk.entry[0], pin_ref(1, entry));
    assert_int_equal(pin_ref_lane(chunk.entry[0]), 1);
    assert_int_equal(pin_ref_entry(chunk.entry[0]), entry);
    assert_int_equal(chunk.generation[0], 1);
    pin_clear(&chunk.entry[0]);
    assert_int_equal(acquire(8, &number), INDEX_MISS);
    index_mark(&writer, entry);
    assert_int_equal(acquire(7, &number), INDEX_ASK);
    index_to_spilled(&writer, entry);
    assert_int_equal(acquire(7, &number), INDEX_ASK);
    index_from_spilled(&writer, entry, 128);
    assert_int_equal(acquire(7, &number), INDEX_HIT);
    assert_int_equal(writer.index.entries[number].offset, 128);
    pin_clear(&chunk.entry[0]);
    index_remove(&writer, hash_id20(id), entry);
    assert_int_equal(acquire(7, &number), INDEX_MISS);
    index_to_deleting(&writer, entry);
    index_release(&writer, entry);
    assert_int_equal(chunk.entry[0], 0);
    drop();
}

/* Slots that name nothing that is there, as a reader may meet them in passing. */
static void look_up_asks_when_it_cannot_know(void **state)
{
    uint8_t id[LIMIT_ID_BYTES];
    uint32_t number, place;
    uint64_t hash;

    (void)state;
    format(1000);
    make_id(7, id);
    hash = hash_id20(id);
    place = index_hash_slot(hash, writer.index.slot_mask);
    writer.index.slots[place] = (uint64_t)index_hash_tag(hash) << 32 | 1001;
    assert_int_equal(acquire(7, &number), INDEX_ASK);
    writer.index.slots[place] = (uint64_t)index_hash_tag(hash) << 32;
    assert_int_equal(acquire(7, &number), INDEX_ASK);
    writer.index.slots[place] = (uint64_t)index_hash_tag(hash) << 32 | 5;
    assert_int_equal(acquire(7, &number), INDEX_ASK); /* entry 4 is free */
    writer.index.slots[place] = 0;
    writer.index.header->version = 1;
    assert_int_equal(acquire(7, &number), INDEX_ASK);
    writer.index.header->version = 2;
    assert_int_equal(acquire(7, &number), INDEX_MISS);
    for (uint32_t i = 0; i <= LIMIT_PROBES; i++) {
        writer.index.slots[(place + i) & writer.index.slot_mask] = 1; /* of another tag */
    }
    assert_int_equal(acquire(7, &number), INDEX_ASK);
    assert_int_equal(chunk.entry[0], 0);
    drop();
}

/* Ids of one hash: told apart by comparing. */
static void ids_of_one_hash_are_told_apart(void **state)
{
    uint8_t a[LIMIT_ID_BYTES], b[LIMIT_ID_BYTES], c[LIMIT_ID_BYTES];
    uint32_t number, of_a, of_b;

    (void)state;
    format(8);
    make_id(1, a);
    make_id(2, b);
    make_id(3, c);
    of_a = put_as(a, 42);
    of_b = put_as(b, 42);
    assert_int_equal(index_acquire(&writer.index, a, 42, &chunk, 0, &number), INDEX_HIT);
    assert_int_equal(number, of_a);
    pin_clear(&chunk.entry[0]);
    assert_int_equal(index_acquire(&writer.index, b, 42, &chunk, 0, &number), INDEX_HIT);
    assert_int_equal(number, of_b);
    pin_clear(&chunk.entry[0]);
    assert_int_equal(index_acquire(&writer.index, c, 42, &chunk, 0, &number), INDEX_MISS);
    assert_true(index_find(&writer, b, 42, &number));
    assert_int_equal(number, of_b);
    assert_false(index_find(&writer, c, 42, &number));
    drop();
}

static void a_glance_shows_what_is_there(void **state)
{
    struct index_glance glance;
    uint8_t id[LIMIT_ID_BYTES];
    uint32_t entry;

    (void)state;
    format(2);
    assert_false(index_glance_at(&writer.index, 0, &glance));
    entry = put(9);
    make_id(9, id);
    index_set_crc(&writer, entry, 77);
    assert_true(index_glance_at(&writer.index, entry, &glance));
    assert_memory_equal(glance.id, id, LIMIT_ID_BYTES);
    assert_int_equal(glance.data_size, 1);
    assert_int_equal(glance.flags, INDEX_FLAG_CHECKSUM);
    assert_int_equal(glance.data_crc, 77);
    assert_int_equal(index_word_state(glance.word), INDEX_SEALED);
    index_set_flags(&writer, entry, INDEX_FLAG_KEPT, INDEX_FLAG_CHECKSUM);
    assert_true(index_glance_at(&writer.index, entry, &glance));
    assert_int_equal(glance.flags, INDEX_FLAG_KEPT);
    drop();
}

/* Random puts, removals and look-ups in a table that is nearly full, against an array. */
static void slots_hold_what_the_model_holds(void **state)
{
    enum {
        ENTRIES = 96,
        KEYS = 160
    }; /* 256 slots */
    uint64_t random = support_seed() | 1;
    uint32_t where[KEYS];
    bool there[KEYS] = {false};

    (void)state;
    format(ENTRIES);
    for (int step = 0; step < 100000; step++) {
        uint32_t key = support_random(&random) % KEYS;
        uint8_t id[LIMIT_ID_BYTES];
        uint64_t hash;
        uint32_t number;

        make_id(key, id);
        hash = hash_id20(id);
        if (there[key]) {
            assert_true(index_find(&writer, id, hash, &number));
            assert_int_equal(number, where[key]);
            assert_int_equal(acquire(key, &number), INDEX_HIT);
            assert_int_equal(number, where[key]);
            pin_clear(&chunk.entry[0]);
            index_remove(&writer, hash, number);
            index_release(&writer, number);
            there[key] = false;
        } else {
            assert_false(index_find(&writer, id, hash, &number));
            assert_int_equal(acquire(key, &number), INDEX_MISS);
            if (writer.taken < ENTRIES) {
                where[key] = put(key);
                there[key] = true;
            }
        }
        if (step % 1000 == 0) {
            assert_true(index_is_valid(&writer));
        }
    }
    assert_true(index_is_valid(&writer));
    drop();
}

/* Every bit that the check covers. */
static void the_check_notices_every_bit(void **state)
{
    struct index_entry *entry;
    uint32_t number;
    uint64_t word;

    (void)state;
    format(2);
    number = put(1);
    entry = &writer.index.entries[number];
    word = index_word_at(&writer, number);
    assert_true(index_entry_is_whole(entry, word));
    for (size_t bit = 8; bit < sizeof(*entry) * 8; bit++) {
        uint8_t *byte = (uint8_t *)entry + bit / 8;
        bool covered = !(bit / 8 >= offsetof(struct index_entry, flags) &&
                         bit / 8 < offsetof(struct index_entry, check));

        *byte ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(index_entry_is_whole(entry, index_word_at(&writer, number)), !covered);
        *byte ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(index_entry_is_whole(entry, word));
    assert_false(index_entry_is_whole(entry, (word & ~UINT64_C(0xff)) | INDEX_STATES));
    assert_false(index_entry_is_whole(entry, (word & ~UINT64_C(0xff)) | INDEX_FREE));
    drop();
}

struct keeper {
    uint32_t refuse; /* a number */
    uint32_t calls;
    enum index_state states[8];
};

static bool keep(void *context, uint32_t number, enum index_state state)
{
    struct keeper *keeper = context;

    keeper->calls++;
    keeper->states[number] = state;
    return number != keeper->refuse;
}

static void rebuild_keeps_what_is_whole_and_wanted(void **state)
{
    struct keeper keeper = {.refuse = 3};
    struct index_rebuilt rebuilt;
    struct index_fill fill = {.data_size = 64};
    struct index index;
    uint8_t id[LIMIT_ID_BYTES];
    uint32_t number, twin;

    (void)state;
    format(8);
    for (uint32_t n = 0; n < 5; n++) {
        assert_int_equal(put(n), n);
    }
    index_mark(&writer, 1);                 /* comes back as sealed */
    writer.index.entries[2].data_size ^= 1; /* is not whole */
    assert_int_equal(index_take(&writer, &number), NIGH_OK);
    index_entry_fill(&writer, number, &fill, INDEX_LEASE);
    make_id(0, id); /* a second one of an id that stands in the slots */
    fill.id = id;
    assert_int_equal(index_take(&writer, &twin), NIGH_OK);
    index_entry_fill(&writer, twin, &fill, INDEX_SEALED);
    index_writer_fini(&writer);

    assert_int_equal(index_attach(memory, index_size_bytes(8), &index), NIGH_OK);
    assert_int_equal(index_writer_init(&writer, &index), NIGH_OK);
    index_rebuild(&writer, keep, &keeper, &rebuilt);
    assert_true(index_is_valid(&writer));
    assert_int_equal(keeper.calls, 6);
    assert_int_equal(rebuilt.kept, 5);
    assert_int_equal(rebuilt.bad, 1);
    assert_int_equal(rebuilt.refused, 1);
    assert_int_equal(rebuilt.doubles, 1);
    assert_int_equal(keeper.states[1], INDEX_SEALED);
    assert_int_equal(keeper.states[number], INDEX_LEASE);
    /* Readers may be inside either of the twins, so both stay; one is visible. */
    assert_int_equal((keeper.states[0] == INDEX_DELETING) + (keeper.states[twin] == INDEX_DELETING),
                     1);
    assert_int_equal(acquire(0, &number), INDEX_HIT);
    pin_clear(&chunk.entry[0]);
    assert_int_equal(acquire(1, &number), INDEX_HIT);
    pin_clear(&chunk.entry[0]);
    assert_int_equal(acquire(2, &number), INDEX_MISS);
    assert_int_equal(acquire(3, &number), INDEX_MISS);
    /* The dropped ones are used again, the lowest first. */
    assert_int_equal(index_take(&writer, &number), NIGH_OK);
    assert_int_equal(number, 2);
    assert_true(writer.next_generation > 7);
    drop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_keep_their_bound),
        cmocka_unit_test(names_are_kept_until_others_need_the_place),
        cmocka_unit_test(an_index_without_names_is_one),
        cmocka_unit_test(attach_refuses_what_it_does_not_know),
        cmocka_unit_test(entries_are_taken_in_order_and_used_again),
        cmocka_unit_test(generations_are_never_used_twice),
        cmocka_unit_test(look_up_answers_by_state),
        cmocka_unit_test(look_up_asks_when_it_cannot_know),
        cmocka_unit_test(ids_of_one_hash_are_told_apart),
        cmocka_unit_test(a_glance_shows_what_is_there),
        cmocka_unit_test(slots_hold_what_the_model_holds),
        cmocka_unit_test(the_check_notices_every_bit),
        cmocka_unit_test(rebuild_keeps_what_is_whole_and_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
