/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node may die between any two stores to an index. Here the production functions run over a
 * seam that leaves by longjmp before the k-th store, for every k of every operation; then a new
 * writer rebuilds the index, and every object must be one of those that the operation's two sides
 * allow, whole, with the bytes' right place, and all others untouched.
 */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "memory/index.h"
#include "object/index_writer.h"
#include "support/support.h"

#ifndef SEAM_IS_SIMULATED
#error "this test is built over tests/model/memory/shared.h"
#endif

#define OBJECTS 24u
#define ENTRIES 32u /* and 64 slots */
#define NEVER   UINT64_MAX

/* ---- a seam that counts stores, and dies */

static jmp_buf death;
static uint64_t stores_left = NEVER; /* until the death */
static uint64_t stores;

static void store_happens(void)
{
    stores++;
    if (stores_left == 0) {
        longjmp(death, 1);
    }
    stores_left -= stores_left != NEVER;
}

uint64_t seam_load(const volatile void *word, uint32_t size, enum seam_order order)
{
    uint64_t value = 0;

    (void)order;
    memcpy(&value, (const void *)(uintptr_t)word, size);
    return value;
}

void seam_store(volatile void *word, uint32_t size, uint64_t value, enum seam_order order)
{
    (void)order;
    store_happens();
    memcpy((void *)(uintptr_t)word, &value, size);
}

void seam_fence(enum seam_order order)
{
    (void)order;
}

bool seam_compare_exchange(volatile void *word, uint32_t size, uint64_t *expected, uint64_t value)
{
    uint64_t was = seam_load(word, size, SEAM_FULL);
    bool same = was == *expected;

    if (same) {
        seam_store(word, size, value, SEAM_FULL);
    }
    *expected = was;
    return same;
}

uint64_t seam_exchange(volatile void *word, uint32_t size, uint64_t value, bool add)
{
    uint64_t was = seam_load(word, size, SEAM_FULL);

    seam_store(word, size, add ? was + value : value, SEAM_FULL);
    return was;
}

/* ---- objects and what is done to them */

struct object {
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t hash;
    enum index_state state; /* FREE: absent */
    bool claimed;
    bool has_crc;
    uint32_t number;
    uint32_t incarnation;
    uint64_t offset;
    uint64_t generation;
};

static _Alignas(4096) uint8_t memory[8 * INDEX_HEADER_BYTES];
static struct index_writer writer;
static struct object objects[OBJECTS];
static uint64_t next_offset;
static uint64_t generations; /* the highest that any reader can have seen */

/* Homes in seven slots at the end and the beginning: long chains that wrap. */
static void make_objects(void)
{
    for (uint32_t i = 0; i < OBJECTS; i++) {
        struct object *object = &objects[i];
        uint32_t salt = 0;

        memset(object, 0, sizeof(*object));
        object->id[0] = (uint8_t)i;
        do {
            salt++;
            memcpy(object->id + 4, &salt, sizeof(salt));
            object->hash = hash_id20(object->id);
        } while (((index_hash_slot(object->hash, 63) + 4) & 63) > 6);
    }
}

static uint64_t data_size_of(const struct object *object)
{
    return 1000 + (uint64_t)(object - objects);
}

static uint32_t crc_of(const struct object *object)
{
    return 7000 + (uint32_t)(object - objects);
}

static void fill(struct object *object, enum index_state state, uint16_t flags)
{
    struct index_fill with = {.id = object->id,
                              .incarnation = ++object->incarnation,
                              .meta_size = 3,
                              .offset = next_offset += 64,
                              .data_size = data_size_of(object),
                              .name_size = 5,
                              .flags = flags};

    object->offset = with.offset;
    object->has_crc = false;
    object->claimed = (flags & INDEX_FLAG_CLAIMED) != 0;
    assert_int_equal(index_take(&writer, &object->number), NIGH_OK);
    object->generation = index_entry_fill(&writer, object->number, &with, state);
}

static void put(struct object *object)
{
    fill(object, INDEX_SEALED, 0);
    index_insert(&writer, object->hash, object->number);
}

static void create(struct object *object)
{
    fill(object, INDEX_CREATED, 0);
}

static void claim(struct object *object)
{
    fill(object, INDEX_CREATED, INDEX_FLAG_CLAIMED);
    index_insert(&writer, object->hash, object->number);
}

static void seal(struct object *object)
{
    index_seal(&writer, object->number, 1);
    if (object->claimed) {
        index_set_flags(&writer, object->number, 0, INDEX_FLAG_CLAIMED);
    } else {
        index_insert(&writer, object->hash, object->number);
    }
}

static void move(struct object *object)
{
    object->offset = next_offset += 64;
    index_entry_move(&writer, object->number, object->offset);
}

static void give_up(struct object *object)
{
    if (object->claimed) {
        index_remove(&writer, object->hash, object->number);
    }
    index_release(&writer, object->number);
}

static void evict(struct object *object)
{
    index_mark(&writer, object->number);
    index_remove(&writer, object->hash, object->number);
    index_release(&writer, object->number);
}

static void mark_and_unmark(struct object *object)
{
    index_mark(&writer, object->number);
    index_unmark(&writer, object->number);
}

static void delete_used(struct object *object)
{
    index_remove(&writer, object->hash, object->number);
    index_to_deleting(&writer, object->number);
}

static void last_pin_goes(struct object *object)
{
    index_release(&writer, object->number);
}

static void spill(struct object *object)
{
    index_mark(&writer, object->number);
    index_to_spilled(&writer, object->number);
}

static void read_back(struct object *object)
{
    object->offset = next_offset += 64;
    index_from_spilled(&writer, object->number, object->offset);
}

static void drop_spilled(struct object *object)
{
    index_remove(&writer, object->hash, object->number);
    index_release(&writer, object->number);
}

static void add_crc(struct object *object)
{
    object->has_crc = true;
    index_set_crc(&writer, object->number, crc_of(object));
}

static void rebuild(void);

static void rebuild_again(struct object *object)
{
    (void)object;
    rebuild();
}

/* What a death in the middle may leave of the object: bits of states, FREE for nothing. */
#define BIT(state) (1u << (state))

struct operation {
    const char *name;
    void (*perform)(struct object *object);
    enum index_state before;
    enum index_state after;
    uint32_t between;
};

static const struct operation operations[] = {
    {"put", put, INDEX_FREE, INDEX_SEALED, BIT(INDEX_FREE) | BIT(INDEX_SEALED)},
    {"create", create, INDEX_FREE, INDEX_CREATED, BIT(INDEX_FREE) | BIT(INDEX_CREATED)},
    {"claim", claim, INDEX_FREE, INDEX_CREATED, BIT(INDEX_FREE) | BIT(INDEX_CREATED)},
    {"seal", seal, INDEX_CREATED, INDEX_SEALED, BIT(INDEX_CREATED) | BIT(INDEX_SEALED)},
    {"move", move, INDEX_CREATED, INDEX_CREATED, BIT(INDEX_CREATED) | BIT(INDEX_FREE)},
    {"give up", give_up, INDEX_CREATED, INDEX_FREE, BIT(INDEX_CREATED) | BIT(INDEX_FREE)},
    {"evict", evict, INDEX_SEALED, INDEX_FREE, BIT(INDEX_SEALED) | BIT(INDEX_FREE)},
    {"mark and unmark", mark_and_unmark, INDEX_SEALED, INDEX_SEALED, BIT(INDEX_SEALED)},
    {"delete", delete_used, INDEX_SEALED, INDEX_DELETING, BIT(INDEX_SEALED) | BIT(INDEX_DELETING)},
    {"last pin", last_pin_goes, INDEX_DELETING, INDEX_FREE, BIT(INDEX_DELETING) | BIT(INDEX_FREE)},
    {"spill", spill, INDEX_SEALED, INDEX_SPILLED, BIT(INDEX_SEALED) | BIT(INDEX_SPILLED)},
    {"read back", read_back, INDEX_SPILLED, INDEX_SEALED, BIT(INDEX_SPILLED) | BIT(INDEX_SEALED)},
    {"drop", drop_spilled, INDEX_SPILLED, INDEX_FREE, BIT(INDEX_SPILLED) | BIT(INDEX_FREE)},
    {"crc", add_crc, INDEX_SEALED, INDEX_SEALED, BIT(INDEX_SEALED)},
    {"rebuild", rebuild_again, INDEX_SEALED, INDEX_SEALED, BIT(INDEX_SEALED)},
};

/* ---- restart, and what must hold after it */

static uint32_t kept_of[OBJECTS]; /* entries kept of each object, in the last rebuild */

static bool keep(void *context, uint32_t number, enum index_state state)
{
    const struct index_entry *entry = &writer.index.entries[number];
    uint32_t i = entry->id[0];

    (void)context;
    (void)state;
    NIGH_ASSERT(i < OBJECTS && memcmp(entry->id, objects[i].id, LIMIT_ID_BYTES) == 0);
    kept_of[i]++;
    return true;
}

static void rebuild(void)
{
    struct index_rebuilt rebuilt;

    memset(kept_of, 0, sizeof(kept_of));
    index_rebuild(&writer, keep, NULL, &rebuilt);
    assert_int_equal(rebuilt.refused, 0);
    assert_int_equal(rebuilt.doubles, 0);
}

static void restart(void)
{
    struct index index;

    for (uint32_t n = 0; n < ENTRIES; n++) {
        generations = max_u64(generations, index_word_generation(index_word_at(&writer, n)));
    }
    index_writer_fini(&writer);
    assert_int_equal(index_attach(memory, sizeof(memory), &index), NIGH_OK);
    assert_int_equal(index_writer_init(&writer, &index), NIGH_OK);
    rebuild();
    assert_true(index_is_valid(&writer));
    assert_true(writer.next_generation > generations);
}

/* The entry of an object, by looking at all of them; false when there is none. */
static bool find_entry(const struct object *object, uint32_t *number)
{
    for (uint32_t n = 0; n < ENTRIES; n++) {
        if (index_word_state(index_word_at(&writer, n)) != INDEX_FREE &&
            index_entry_is(&writer.index.entries[n], object->id)) {
            *number = n;
            return true;
        }
    }
    return false;
}

/* Takes over what is there of an object, which has to be one of `states`, whole and right. */
static void check_object(struct object *object, uint32_t states, uint64_t old_offset)
{
    const struct index_entry *entry;
    uint32_t number, found;
    bool in_slots = index_find(&writer, object->id, object->hash, &found);

    if (!find_entry(object, &number)) {
        assert_true((states & BIT(INDEX_FREE)) != 0);
        assert_int_equal(kept_of[object - objects], 0);
        assert_false(in_slots);
        object->state = INDEX_FREE;
        return;
    }
    entry = &writer.index.entries[number];
    object->state = index_word_state(index_word_at(&writer, number));
    assert_true((states & BIT(object->state)) != 0);
    assert_int_equal(kept_of[object - objects], 1);
    assert_true(index_entry_is_whole(entry, index_word_at(&writer, number)));
    assert_int_equal(entry->data_size, data_size_of(object));
    assert_int_equal(entry->incarnation, object->incarnation);
    if (object->state != INDEX_SPILLED && entry->offset != object->offset) {
        assert_int_equal(entry->offset, old_offset);
    }
    if ((entry->flags & INDEX_FLAG_CHECKSUM) != 0) {
        assert_int_equal(entry->data_crc, crc_of(object));
        assert_true(object->has_crc);
    }
    object->offset = entry->offset;
    object->claimed = (entry->flags & INDEX_FLAG_CLAIMED) != 0;
    object->number = number;
    object->generation = index_word_generation(index_word_at(&writer, number));
    assert_int_equal(in_slots, object->state == INDEX_SEALED || object->state == INDEX_SPILLED ||
                                   (object->state == INDEX_CREATED && object->claimed));
    assert_true(!in_slots || found == number);
}

/* Does an operation, dying before store number `k`. True if it came to its end before that. */
static bool perform(const struct operation *operation, struct object *object, uint64_t k)
{
    if (setjmp(death) == 0) {
        stores_left = k;
        operation->perform(object);
        stores_left = NEVER;
        object->state = operation->after;
        return true;
    }
    stores_left = NEVER;
    return false;
}

static void start(void)
{
    struct index index;

    index_writer_fini(&writer);
    memset(memory, 0, sizeof(memory));
    assert_true(index_size_bytes(ENTRIES) <= sizeof(memory));
    index_format(memory, 1, 2, 4, ENTRIES, &index);
    assert_int_equal(index_writer_init(&writer, &index), NIGH_OK);
    make_objects();
    next_offset = 0;
    generations = 0;
}

/* Brings an object from absent to a state. */
static void bring(struct object *object, enum index_state state, bool claimed)
{
    switch (state) {
    case INDEX_CREATED: claimed ? claim(object) : create(object); break;
    case INDEX_SEALED: put(object); break;
    case INDEX_SPILLED:
        put(object);
        spill(object);
        break;
    case INDEX_DELETING:
        put(object);
        delete_used(object);
        break;
    default: break;
    }
    object->state = state;
}

/* All objects but one sealed, spilled, created or absent, in chains that run through each other. */
static void bring_all(uint32_t subject, enum index_state state, bool claimed)
{
    static const enum index_state states[] = {INDEX_SEALED,  INDEX_SEALED, INDEX_SPILLED,
                                              INDEX_CREATED, INDEX_SEALED, INDEX_DELETING};

    start();
    for (uint32_t i = 0; i < OBJECTS; i++) {
        bring(&objects[i], i == subject ? state : states[i % ARRAY_LENGTH(states)],
              i == subject ? claimed : i % 2 == 0);
    }
}

/* One operation on one object: a death before each of its stores in turn. Returns how many. */
static uint64_t die_everywhere(const struct operation *operation, uint32_t subject, bool claimed)
{
    for (uint64_t k = 0;; k++) {
        struct object *object = &objects[subject];
        uint64_t old_offset;
        bool ended;

        bring_all(subject, operation->before, claimed);
        old_offset = object->offset;
        ended = perform(operation, object, k);
        restart();
        for (uint32_t i = 0; i < OBJECTS; i++) {
            check_object(&objects[i],
                         i != subject ? BIT(objects[i].state)
                         : ended      ? BIT(operation->after)
                                      : operation->between,
                         i == subject && !ended ? old_offset : objects[i].offset);
        }
        if (ended) {
            return k;
        }
    }
}

static void a_death_at_any_store_leaves_what_was_or_what_will_be(void **state)
{
    (void)state;
    for (size_t o = 0; o < ARRAY_LENGTH(operations); o++) {
        uint64_t deaths = 0;

        for (uint32_t subject = 0; subject < OBJECTS; subject++) {
            deaths += die_everywhere(&operations[o], subject, false);
            deaths += die_everywhere(&operations[o], subject, true);
        }
        printf("# %-16s %5llu deaths\n", operations[o].name, (unsigned long long)deaths);
        assert_true(deaths >= OBJECTS);
    }
    index_writer_fini(&writer);
}

/* Any operations in any order, with a death now and then, the rebuilding included. */
static void deaths_in_long_lives_add_up_to_nothing(void **state)
{
    uint64_t seed = support_seed();
    uint64_t random = seed | 1;
    uint32_t deaths = 0, done = 0;

    (void)state;
    start();
    while (done < 20000) {
        const struct operation *operation =
            &operations[support_random(&random) % ARRAY_LENGTH(operations)];
        struct object *object = &objects[support_random(&random) % OBJECTS];
        uint64_t old_offset = object->offset;
        uint64_t k = support_random(&random) % 8 == 0 ? support_random(&random) % 16 : NEVER;

        if (object->state != operation->before) {
            continue;
        }
        done++;
        if (perform(operation, object, k)) {
            continue;
        }
        deaths++;
        restart();
        for (uint32_t i = 0; i < OBJECTS; i++) {
            check_object(&objects[i],
                         &objects[i] == object ? operation->between : BIT(objects[i].state),
                         &objects[i] == object ? old_offset : objects[i].offset);
        }
    }
    printf("# %u operations, %u deaths\n", done, deaths);
    assert_true(deaths > 800);
    assert_true(index_is_valid(&writer));
    index_writer_fini(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_at_any_store_leaves_what_was_or_what_will_be),
        cmocka_unit_test(deaths_in_long_lives_add_up_to_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
