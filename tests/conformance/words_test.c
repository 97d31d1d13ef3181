/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: words that move whole, and atomics beside the target's own processor. Numbers F68,
 * F69 are those of docs/fabric.md. */
#include "conformance/world.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/check.h"

#define WORD       8u
#define LONG_BYTES (64 * KIB)
#define ONES       UINT64_C(0x0101010101010101)

/* What is written here is all of one byte, again and again of another. */
static bool is_torn(const uint8_t *place)
{
    uint64_t word = __atomic_load_n((const uint64_t *)(const void *)place, __ATOMIC_RELAXED);

    return word != (word & 0xff) * ONES;
}

static uint64_t count_torn(const struct world_area *area)
{
    uint64_t torn = 0;

    for (uint64_t at = 0; at < LONG_BYTES; at += WORD)
        torn += is_torn(area->bytes + at);
    return torn;
}

/* One end writes, another reads a word at a time, of what is written. */
struct scene {
    struct world *world;
    struct world_area *from, *there, *word;
    struct world_end *writer, *reader, *peers[2];
    uint64_t reads;
};

static void scene_make(struct scene *scene, struct world *world)
{
    uint32_t carol = world_add(world, 10, 0);

    *scene = (struct scene){.world = world};
    scene->from = world_area(world, ALICE, LONG_BYTES + 64, 0);
    scene->there = world_area(world, BOB, LONG_BYTES + 64, ALL_RIGHTS);
    scene->word = world_area(world, carol, 64, FABRIC_LOCAL_WRITE);
    world_join(world, ALICE, BOB, &scene->writer, &scene->peers[0]);
    world_join(world, carol, BOB, &scene->reader, &scene->peers[1]);
}

/* The last word that was read is whole, and the next is asked for. */
static bool go_on_reading(struct scene *scene)
{
    uint64_t at = scene->reads * 4099 % LONG_BYTES / WORD * WORD;

    if (scene->reads > 0) {
        const struct fabric_completion *last = end_find(scene->reader, scene->reads);

        if (last == NULL)
            return true;
        if (last->status != NIGH_OK || is_torn(scene->word->bytes + 8))
            return false;
    }
    if (scene->reads < WORLD_LOG / 2)
        end_read(scene->reader, ++scene->reads, scene->word, 8, area_remote(scene->there, at),
                 WORD);
    return true;
}

/* F68: of a long WRITE, from and to anywhere, no part of a word can be seen. */
static void test_long_writes_store_whole_words(void **state)
{
    enum {
        ROUNDS = 40
    };
    struct world *world = *state;
    struct scene scene;

    if (!world_can(world, FABRIC_CAN_WORDS))
        return;
    scene_make(&scene, world);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        struct world_bound bound = world_bound_start();
        uint64_t to = i % 3 == 0 ? 0 : WORD - i % WORD; /* the first words are beside it */

        memset(scene.from->bytes, (int)i, scene.from->size);
        memset(scene.there->bytes, (int)i, 2 * WORD);
        end_write(scene.writer, i, scene.from, i % 5, area_remote(scene.there, to),
                  LONG_BYTES + 16);
        while (end_find(scene.writer, i) == NULL) {
            assert_true(world_step(world, &bound));
            assert_int_equal(count_torn(scene.there), 0);
            assert_true(go_on_reading(&scene));
        }
        assert_int_equal(end_find(scene.writer, i)->status, NIGH_OK);
        assert_true(area_is(scene.there, to, LONG_BYTES + 16, (uint8_t)i));
    }
    assert_true(scene.reads > 1);
}

/* F68: a word that is read alone is of one moment, whatever was asked for before it. */
static void test_a_word_is_read_at_once(void **state)
{
    struct world *world = *state;
    uint64_t turn = min_u64(world->turn_bytes, 4 * KIB + 3);
    struct world_area *here = world_area(world, ALICE, 4 * turn, FABRIC_LOCAL_WRITE);
    struct world_area *there = world_area(world, BOB, 4 * turn, ALL_RIGHTS);
    struct world_end *alice, *bob;

    if (!world_can(world, FABRIC_CAN_WORDS))
        return;
    world_join(world, ALICE, BOB, &alice, &bob);
    /* Where a provider moves so many bytes in a turn, the word lies across that, or two, too. */
    for (uint64_t i = 0; i < 300; i++) {
        struct world_bound bound = world_bound_start();

        end_read(alice, 2 * i, here, 64, area_remote(there, 64),
                 (i / 100 + 1) * turn - 200 + 2 * (i % 100));
        end_read(alice, 2 * i + 1, here, 0, area_remote(there, 0), WORD);
        for (uint8_t value = 1; end_find(alice, 2 * i + 1) == NULL; value++) {
            __atomic_store_n((uint64_t *)(void *)there->bytes, value * ONES, __ATOMIC_RELAXED);
            assert_true(world_step(world, &bound));
        }
        assert_int_equal(end_find(alice, 2 * i + 1)->status, NIGH_OK);
        assert_false(is_torn(here->bytes));
    }
}

/* ---- the target's own processor ---- */

struct processor {
    struct world_area *area;
    atomic_bool stop;
    uint64_t torn;
    atomic_uint_fast64_t rounds, added;
};

static void *watch(void *argument)
{
    struct processor *processor = argument;

    while (!atomic_load(&processor->stop)) {
        processor->torn += count_torn(processor->area);
        processor->rounds++;
    }
    return NULL;
}

/* F68: the processor sees whole words, too, while they are written. */
static void test_processors_see_whole_words(void **state)
{
    enum {
        ROUNDS = 200
    };
    struct world *world = *state;
    struct processor processor = {.stop = false};
    struct scene scene;
    pthread_t thread;
    bool fine = true;

    if (!world_can(world, FABRIC_CAN_WORDS))
        return;
    scene_make(&scene, world);
    processor.area = scene.there;
    assert_int_equal(pthread_create(&thread, NULL, watch, &processor), 0);
    /* A busy machine would have all written before it lets that look once. */
    fine = SUPPORT_WAIT(atomic_load(&processor.rounds) > 0, 60000);
    for (uint64_t i = 1; fine && i <= ROUNDS; i++) {
        memset(scene.from->bytes, (int)i, scene.from->size);
        end_write(scene.writer, i, scene.from, 3, area_remote(scene.there, 0), LONG_BYTES);
        fine = WORLD_UNTIL(world, end_find(scene.writer, i) != NULL) &&
               end_find(scene.writer, i)->status == NIGH_OK;
    }
    atomic_store(&processor.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(fine);
    assert_true(processor.rounds > 0);
    assert_int_equal(processor.torn, 0);
}

static void add_one(struct processor *processor)
{
    (void)__atomic_fetch_add((uint64_t *)(void *)processor->area->bytes, 1, __ATOMIC_RELAXED);
    atomic_fetch_add(&processor->added, 1);
}

static void *add(void *argument)
{
    struct processor *processor = argument;

    while (!atomic_load(&processor->stop))
        add_one(processor);
    return NULL;
}

#define ADDS (WORLD_LOG - 64)

/* So many FETCH_ADDs of a peer; false: one did not come or was refused. */
static bool add_from_afar(struct world_end *end, struct fabric_work *work,
                          struct processor *processor)
{
    struct world_bound bound = world_bound_start();
    bool fine = true;

    end->logged = 0;
    for (work->tag = 0; fine && end->logged < ADDS;) {
        for (; work->tag < ADDS && work->tag - end->logged < 16; work->tag++)
            fine = fine && end_post(end, work) == NIGH_OK;
        if (!world_provider.threads)
            add_one(processor);
        fine = fine && world_step(end->world, &bound);
    }
    for (uint32_t i = 0; i < end->logged; i++)
        fine = fine && end->log[i].status == NIGH_OK;
    return fine;
}

/* F69: what the target adds itself, and what a peer adds, is all there. */
static void test_atomics_beside_the_processor(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, FABRIC_LOCAL_WRITE);
    struct processor processor = {.stop = false};
    struct fabric_slice slice = area_slice(here, 0, WORD);
    struct fabric_work work = {.op = FABRIC_FETCH_ADD,
                               .flags = FABRIC_SIGNALLED,
                               .slices = &slice,
                               .slice_count = 1,
                               .operand = UINT64_C(1) << 32};
    uint32_t rounds = world_provider.threads ? 16 : 1; /* they may be at it by turns, for long */
    struct world_end *alice, *bob;
    pthread_t thread;
    bool fine = true;

    if (!world_can(world, FABRIC_CAN_ATOMICS_HERE))
        return;
    processor.area = world_area(world, BOB, 64, ALL_RIGHTS);
    world_join(world, ALICE, BOB, &alice, &bob);
    work.remote = area_remote(processor.area, 0);
    if (world_provider.threads) {
        assert_int_equal(pthread_create(&thread, NULL, add, &processor), 0);
        fine = WORLD_UNTIL(world, atomic_load(&processor.added) > 0);
    }
    for (uint32_t i = 0; fine && i < rounds; i++)
        fine = add_from_afar(alice, &work, &processor);
    if (world_provider.threads) {
        atomic_store(&processor.stop, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    assert_true(fine);
    assert_int_equal(area_u64(processor.area, 0),
                     atomic_load(&processor.added) + ((uint64_t)ADDS * rounds << 32));
}

static const struct CMUnitTest tests[] = {
    WORLD_TEST(test_long_writes_store_whole_words),
    WORLD_TEST(test_a_word_is_read_at_once),
    WORLD_TEST(test_atomics_beside_the_processor),
};

const struct world_tests words_tests = {tests, ARRAY_LENGTH(tests)};

static const struct CMUnitTest threaded[] = {
    WORLD_TEST(test_processors_see_whole_words),
};

const struct world_tests words_thread_tests = {threaded, ARRAY_LENGTH(threaded)};
