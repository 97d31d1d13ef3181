/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explores the pin protocol: the functions of memory/pin.h, memory/index.h, object/index_writer.c,
 * object/index_rebuild.c and object/pin_scan.c, one lane against one or two readers, under total
 * store order and under weak memory. docs/pins.md says what this covers and what it does not.
 *
 * Each test prints one line; it fails on a violation (with the steps that lead there) and when it
 * explored fewer states than it did when its floor was set: a scenario that shrank proves less.
 */
#include "explorer.h"
#include "base/check.h"
#include "pins_world.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/support.h"

/* What a reader may have been told: bits of 1 << enum index_answer. */
#define MAY_HIT  (1u << INDEX_HIT)
#define MAY_MISS (1u << INDEX_MISS)
#define MAY_ASK  (1u << INDEX_ASK)

static uint32_t answers_seen; /* in one exploration, by any reader */

/* A reader's last act: keeps the answer, which has to be one of `may`. */
static void told(uint32_t reader, enum index_answer answer, uint32_t may)
{
    static const char *const names[] = {"HIT", "MISS", "ASK"};

    if ((may & (1u << answer)) == 0) {
        explorer_fail("a reader was told %s", names[answer]);
    }
    answers_seen |= 1u << answer;
    world.answer[reader] = answer;
    explorer_forget(reader * 16 + answer + 1);
}

static void reader_gets_k(void)
{
    told(0, world_get(0, 0, WORLD_K), MAY_HIT | MAY_MISS | MAY_ASK);
}

static void other_session_gets_k(void)
{
    told(1, world_get(1, 0, WORLD_K), MAY_HIT | MAY_MISS | MAY_ASK);
}

static void other_thread_gets_k(void)
{
    told(1, world_get(0, 1, WORLD_K), MAY_HIT | MAY_MISS | MAY_ASK);
}

static void other_session_gets_l(void)
{
    told(1, world_get(1, 0, WORLD_L), MAY_HIT | MAY_MISS | MAY_ASK);
}

static void reader_gets_k_that_is_there(void)
{
    told(0, world_get(0, 0, WORLD_K), MAY_HIT | MAY_ASK);
}

static void reader_gets_m_that_is_there(void)
{
    told(0, world_get(0, 0, WORLD_M), MAY_HIT | MAY_ASK);
}

static void reader_gets_k_twice(void)
{
    enum index_answer first = world_get(0, 0, WORLD_K);

    explorer_forget(100 + first);
    told(0, world_get(0, 0, WORLD_K), MAY_HIT | MAY_MISS | MAY_ASK);
}

static void index_stays_valid(void)
{
    if (!index_is_valid(&world.writer)) {
        explorer_fail("the index is not valid in the end");
    }
}

/* ---- eviction */

static void set_up_k(void)
{
    world_make();
    world_put(WORLD_K, 0);
}

/* The same entry and the same memory serve another object next. */
static void lane_evicts_k_and_reuses(void)
{
    if (world_evict(WORLD_K)) {
        world_put(WORLD_L, 0);
    }
}

static void lane_evicts_k_and_puts_it_again(void)
{
    if (world_evict(WORLD_K)) {
        world_put(WORLD_K, 0);
    }
}

static void lane_evicts_k(void)
{
    world_evict(WORLD_K);
}

static void set_up_k_l(void)
{
    world_make();
    world_put(WORLD_K, 0);
    world_put(WORLD_L, 1);
}

/* Two victims, one fence, one scan. */
static void lane_evicts_k_and_l(void)
{
    uint32_t numbers[2] = {world.number[WORLD_K], world.number[WORLD_L]};
    uint32_t k = numbers[0];
    uint32_t unpinned =
        pin_scan_victims(&world.scan, &world.writer, world.tables, WORLD_SESSIONS, numbers, 2);

    for (uint32_t i = 0; i < unpinned; i++) {
        enum world_object object = numbers[i] == k ? WORLD_K : WORLD_L;

        index_remove(&world.writer, world.hash[object], numbers[i]);
        index_release(&world.writer, numbers[i]);
        shared_store_plain(&world.blocks[object == WORLD_K ? 0 : 1], WORLD_POISON);
    }
}

static const struct explorer_scenario evict_reuse = {
    "get, evict and reuse", set_up_k, {lane_evicts_k_and_reuses, reader_gets_k}, index_stays_valid};

static const struct explorer_scenario evict_again = {
    "get, evict and put again",
    set_up_k,
    {lane_evicts_k_and_puts_it_again, reader_gets_k},
    index_stays_valid};

static const struct explorer_scenario evict_two_sessions = {
    "two sessions get, evict",
    set_up_k,
    {lane_evicts_k, reader_gets_k, other_session_gets_k},
    index_stays_valid};

static const struct explorer_scenario evict_two_threads = {
    "two threads get, evict",
    set_up_k,
    {lane_evicts_k, reader_gets_k, other_thread_gets_k},
    index_stays_valid};

static const struct explorer_scenario evict_batch = {
    "two get, evict a batch",
    set_up_k_l,
    {lane_evicts_k_and_l, reader_gets_k, other_session_gets_l},
    index_stays_valid};

/* ---- delete */

static void lane_deletes_k(void)
{
    if (world_delete(WORLD_K, 2)) {
        world_put(WORLD_L, 0);
    }
}

static const struct explorer_scenario delete_reuse = {
    "get, delete and reuse", set_up_k, {lane_deletes_k, reader_gets_k}, index_stays_valid};

/* ---- mark and unmark */

static void lane_marks_and_unmarks(void)
{
    for (int i = 0; i < 2; i++) {
        uint32_t number = world.number[WORLD_K];

        if (pin_scan_victims(&world.scan, &world.writer, world.tables, WORLD_SESSIONS, &number,
                             1) == 1) {
            index_unmark(&world.writer, number);
        }
    }
}

static const struct explorer_scenario mark_unmark = {
    "get, mark and unmark",
    set_up_k,
    {lane_marks_and_unmarks, reader_gets_k_that_is_there},
    index_stays_valid};

/* A mark that finds a pin is taken back; the one after it must still be safe. */
static void lane_tries_twice(void)
{
    if (!world_evict(WORLD_K)) {
        world_evict(WORLD_K);
    }
}

static const struct explorer_scenario evict_twice = {
    "get twice, evict twice", set_up_k, {lane_tries_twice, reader_gets_k_twice}, index_stays_valid};

/* ---- a new object */

static void lane_puts_k(void)
{
    world_put(WORLD_K, 0);
}

static const struct explorer_scenario publish = {
    "get, put", world_make, {lane_puts_k, reader_gets_k_twice}, index_stays_valid};

/* ---- slots that shift */

static void set_up_chain(void)
{
    world_make();
    world_put(WORLD_K, 0);
    world_put(WORLD_L, 1);
    world_put(WORLD_M, 2);
}

/* The chain before M closes up; then it grows again behind M. */
static void lane_shifts(void)
{
    world_delete(WORLD_K, 1);
    world_put(WORLD_K, 0);
}

static void lane_shifts_twice(void)
{
    world_delete(WORLD_K, 1);
    world_delete(WORLD_L, 1);
}

static const struct explorer_scenario shift_grow = {"look-up, shift and insert",
                                                    set_up_chain,
                                                    {lane_shifts, reader_gets_m_that_is_there},
                                                    index_stays_valid};

static const struct explorer_scenario shift_twice = {
    "look-up, two shifts",
    set_up_chain,
    {lane_shifts_twice, reader_gets_m_that_is_there},
    index_stays_valid};

/* ---- release */

static void set_up_k_held(void)
{
    struct pin_chunk *chunk = &world.sessions[0].chunks[0];

    set_up_k();
    pin_publish(chunk, 0, pin_ref(0, world.number[WORLD_K]), 1);
}

static void holder_releases_and_gets(void)
{
    world_use(WORLD_K, 0, 1);
    pin_clear(&world.sessions[0].chunks[0].entry[0]);
    explorer_forget(50);
    told(0, world_get(0, 0, WORLD_K), MAY_HIT | MAY_MISS | MAY_ASK);
}

static const struct explorer_scenario release_reuse = {
    "release, evict and reuse",
    set_up_k_held,
    {lane_evicts_k_and_reuses, holder_releases_and_gets},
    index_stays_valid};

static void set_up_k_lane_pinned(void)
{
    set_up_k();
    shared_store_relaxed(&world.sessions[0].lane_pins[0], pin_ref(0, world.number[WORLD_K]));
}

static void lane_pin_is_released(void)
{
    world_use(WORLD_K, 0, 1);
    pin_clear(&world.sessions[0].lane_pins[0]);
    explorer_forget(60);
}

static const struct explorer_scenario release_lane_pin = {
    "release of a lane pin",
    set_up_k_lane_pinned,
    {lane_evicts_k_and_reuses, lane_pin_is_released},
    index_stays_valid};

/* ---- a chunk comes into use */

static void set_up_k_chunk_closed(void)
{
    set_up_k();
    shared_store_relaxed(&world.sessions[0].chunks_used, 0);
}

static void reader_opens_a_chunk(void)
{
    pin_open_chunk(&world.sessions[0].chunks_used, 0);
    reader_gets_k();
}

static const struct explorer_scenario chunk_opens = {
    "chunk opens, evict and reuse",
    set_up_k_chunk_closed,
    {lane_evicts_k_and_reuses, reader_opens_a_chunk},
    index_stays_valid};

/* ---- spill */

static void lane_spills_and_reads_back(void)
{
    uint32_t number = world.number[WORLD_K];

    if (pin_scan_victims(&world.scan, &world.writer, world.tables, WORLD_SESSIONS, &number, 1) ==
        1) {
        index_to_spilled(&world.writer, number);
        shared_store_plain(&world.blocks[0], WORLD_POISON);
        shared_store_plain(&world.blocks[1], world_value(WORLD_K, 1));
        index_from_spilled(&world.writer, number, 64);
    }
}

static const struct explorer_scenario spill = {
    "get, spill and read back",
    set_up_k,
    {lane_spills_and_reads_back, reader_gets_k_that_is_there},
    index_stays_valid};

static void lane_reads_back_and_evicts(void)
{
    lane_spills_and_reads_back();
    lane_evicts_k();
}

static const struct explorer_scenario spill_evict = {"get, read back and evict",
                                                     set_up_k,
                                                     {lane_reads_back_and_evicts, reader_gets_k},
                                                     index_stays_valid};

/* ---- restart */

/* The former lane died while it evicted K, in the middle of closing L's hole: M stands twice. */
static void set_up_wreck(void)
{
    uint64_t m;

    set_up_chain();
    index_mark(&world.writer, world.number[WORLD_K]);
    m = shared_load_relaxed(&world.index.slots[0]);
    shared_store_relaxed(&world.index.slots[7], m);
    shared_store_relaxed(&world.index.header->version, 1);
}

static bool keep_all(void *context, uint32_t number, enum index_state state)
{
    (void)context;
    (void)number;
    (void)state;
    return true;
}

static void lane_rebuilds(void)
{
    struct index_rebuilt rebuilt;

    index_rebuild(&world.writer, keep_all, NULL, &rebuilt);
}

static void reader_gets_m_then_k_that_are_there(void)
{
    enum index_answer first = world_get(0, 0, WORLD_M);

    if (first == INDEX_MISS) {
        explorer_fail("a reader was told MISS");
    }
    explorer_forget(200 + first);
    told(0, world_get(0, 0, WORLD_K), MAY_HIT | MAY_ASK);
}

static const struct explorer_scenario rebuild = {
    "get, rebuild",
    set_up_wreck,
    {lane_rebuilds, reader_gets_m_then_k_that_are_there},
    index_stays_valid};

static void set_up_wreck_of_k(void)
{
    set_up_k();
    index_mark(&world.writer, world.number[WORLD_K]);
}

static const struct explorer_scenario rebuild_quiet = {"get, rebuild after a mark",
                                                       set_up_wreck_of_k,
                                                       {lane_rebuilds, reader_gets_k_that_is_there},
                                                       index_stays_valid};

static void lane_rebuilds_and_evicts(void)
{
    lane_rebuilds();
    lane_evicts_k_and_reuses();
}

static const struct explorer_scenario rebuild_evict = {"get, rebuild and evict",
                                                       set_up_wreck_of_k,
                                                       {lane_rebuilds_and_evicts, reader_gets_k},
                                                       index_stays_valid};

/* ---- a glance without a pin */

static void reader_glances(void)
{
    struct index_glance glance;

    if (index_glance_at(&world.index, 0, &glance)) {
        enum world_object object = index_word_generation(glance.word) == 1 ? WORLD_K : WORLD_L;

        if (glance.data_size != 100 + object || glance.id[0] != 'K' + object) {
            explorer_fail("a glance at two objects at once");
        }
    }
}

static const struct explorer_scenario glance = {"glance, evict and reuse",
                                                set_up_k,
                                                {lane_evicts_k_and_reuses, reader_glances},
                                                index_stays_valid};

/* ---- longer ones, of three threads */

/* K's entry and memory become L's, then K's again. */
static void lane_changes_k_to_l_and_back(void)
{
    if (world_evict(WORLD_K)) {
        world_put(WORLD_L, 0);
        if (world_evict(WORLD_L)) {
            world_put(WORLD_K, 0);
        }
    }
}

static const struct explorer_scenario long_reuse = {
    "two get, evict and reuse twice",
    set_up_k,
    {lane_changes_k_to_l_and_back, reader_gets_k, other_session_gets_l},
    index_stays_valid};

static void lane_shifts_and_evicts_m(void)
{
    world_delete(WORLD_K, 1);
    world_evict(WORLD_M);
}

static void other_session_gets_l_that_is_there(void)
{
    told(1, world_get(1, 0, WORLD_L), MAY_HIT | MAY_ASK);
}

static void reader_gets_m(void)
{
    told(0, world_get(0, 0, WORLD_M), MAY_HIT | MAY_MISS | MAY_ASK);
}

static const struct explorer_scenario long_shift = {
    "two look up, shift and evict",
    set_up_chain,
    {lane_shifts_and_evicts_m, reader_gets_m, other_session_gets_l_that_is_there},
    index_stays_valid};

static const struct explorer_scenario long_spill = {
    "two get, read back and evict",
    set_up_k,
    {lane_reads_back_and_evicts, reader_gets_k, other_session_gets_k},
    index_stays_valid};

static const struct explorer_scenario long_rebuild = {
    "two get, rebuild and evict",
    set_up_wreck_of_k,
    {lane_rebuilds_and_evicts, reader_gets_k, other_session_gets_k},
    index_stays_valid};

static const struct explorer_scenario long_chunk = {
    "chunk opens, another gets",
    set_up_k_chunk_closed,
    {lane_evicts_k_and_reuses, reader_opens_a_chunk, other_session_gets_k},
    index_stays_valid};

/* ---- wrong uses of right functions: the explorer must find them */

static void reader_opens_its_chunk_late(void)
{
    struct pin_chunk *chunk = &world.sessions[0].chunks[0];
    uint32_t number;

    if (index_acquire(&world.index, world.id[WORLD_K], world.hash[WORLD_K], chunk, 0, &number) ==
        INDEX_HIT) {
        pin_open_chunk(&world.sessions[0].chunks_used, 0);
        world_use(WORLD_K, number, 1);
        pin_clear(&chunk->entry[0]);
    }
}

static const struct explorer_scenario wrong_chunk = {
    "WRONG: a chunk opens after its pin",
    set_up_k_chunk_closed,
    {lane_evicts_k_and_reuses, reader_opens_its_chunk_late},
    NULL};

static void reader_clears_before_use(void)
{
    struct pin_chunk *chunk = &world.sessions[0].chunks[0];
    uint32_t number;

    if (index_acquire(&world.index, world.id[WORLD_K], world.hash[WORLD_K], chunk, 0, &number) ==
        INDEX_HIT) {
        pin_clear(&chunk->entry[0]);
        world_use(WORLD_K, number, 1);
    }
}

static const struct explorer_scenario wrong_clear = {
    "WRONG: use after release",
    set_up_k,
    {lane_evicts_k_and_reuses, reader_clears_before_use},
    NULL};

/* An eviction that looks first and marks then. */
static void lane_scans_then_marks(void)
{
    uint32_t number = world.number[WORLD_K];

    pin_scan_begin(&world.scan, 0, 1);
    pin_scan_add(&world.scan, number);
    pin_scan_run(&world.scan, world.tables, WORLD_SESSIONS);
    if (pin_scan_holders(&world.scan, number) == 0) {
        index_mark(&world.writer, number);
        index_remove(&world.writer, world.hash[WORLD_K], number);
        index_release(&world.writer, number);
        shared_store_plain(&world.blocks[0], WORLD_POISON);
    }
}

static const struct explorer_scenario wrong_order = {
    "WRONG: scan, then mark", set_up_k, {lane_scans_then_marks, reader_gets_k}, NULL};

/* ---- running them */

/* A scenario, the answers that its readers must have come to in some way or other, and the fewest
 * states under each memory that count as having explored it. */
struct exploration {
    const struct explorer_scenario *scenario;
    uint32_t answers;
    uint64_t floor[2];
};

static struct explorer_report total;
static bool violated; /* one is enough: the others are skipped */

static void report(const char *name, const char *memory, const struct explorer_report *r)
{
    printf("# %-30s %-9s %9llu states %10llu transitions %7llu endings %8.1e ways %6llu ms\n", name,
           memory, (unsigned long long)r->states, (unsigned long long)r->transitions,
           (unsigned long long)r->endings, r->ways, (unsigned long long)r->microseconds / 1000);
}

static void explore_one(const struct explorer_scenario *scenario, int memory, int steps,
                        struct explorer_report *r)
{
    static const char *const names[2][2] = {{"TSO, few", "TSO, all"}, {"weak, few", "weak, all"}};

    answers_seen = 0;
    explorer_run(scenario, (enum explorer_memory)memory, (enum explorer_steps)steps, r);
    report(scenario->name, names[memory][steps], r);
    if (r->violated) {
        printf("# violated: %s\n%s", r->message, r->trace);
        free(r->trace);
        violated = true;
    }
    assert_false(r->violated);
}

static void explore(void **state)
{
    const struct exploration *exploration = *state;

    if (violated) {
        skip();
    }
    for (int memory = EXPLORER_TSO; memory <= EXPLORER_WEAK; memory++) {
        struct explorer_report few, all;

        explore_one(exploration->scenario, memory, EXPLORER_FEW_STEPS, &few);
        explore_one(exploration->scenario, memory, EXPLORER_ALL_STEPS, &all);
        assert_int_equal(answers_seen, exploration->answers);
        /* Fewer steps, but nothing less can come of them. */
        assert_int_equal(few.endings, all.endings);
        assert_true(all.states >= exploration->floor[memory]);
        total.states += all.states;
        total.transitions += all.transitions;
        total.endings += all.endings;
        total.ways += all.ways;
        total.microseconds += few.microseconds + all.microseconds;
    }
}

/* A wrong scenario has to be found wrong in both memories. */
static void find(void **state)
{
    const struct explorer_scenario *scenario = *state;

    for (int memory = EXPLORER_TSO; memory <= EXPLORER_WEAK; memory++) {
        struct explorer_report r;

        explorer_run(scenario, memory, EXPLORER_FEW_STEPS, &r);
        assert_true(r.violated);
        printf("# %-34s found: %s\n", scenario->name, r.message);
        free(r.trace);
    }
}

static const struct exploration explorations[] = {
    {&evict_reuse, MAY_HIT | MAY_MISS | MAY_ASK, {2300, 490}},
    {&evict_again, MAY_HIT | MAY_MISS | MAY_ASK, {2400, 580}},
    {&evict_two_sessions, MAY_HIT | MAY_MISS | MAY_ASK, {5000, 4800}},
    {&evict_two_threads, MAY_HIT | MAY_MISS | MAY_ASK, {5000, 4800}},
    {&evict_batch, MAY_HIT | MAY_MISS | MAY_ASK, {56000, 21000}},
    {&evict_twice, MAY_HIT | MAY_MISS | MAY_ASK, {1500, 1000}},
    {&delete_reuse, MAY_HIT | MAY_MISS | MAY_ASK, {2500, 560}},
    {&mark_unmark, MAY_HIT | MAY_ASK, {560, 480}},
    {&publish, MAY_HIT | MAY_MISS, {410, 93}},
    {&shift_grow, MAY_HIT | MAY_ASK, {1100, 740}},
    {&shift_twice, MAY_HIT | MAY_ASK, {2600, 1400}},
    {&release_reuse, MAY_HIT | MAY_MISS | MAY_ASK, {2400, 530}},
    {&release_lane_pin, 0, {81, 33}},
    {&chunk_opens, MAY_HIT | MAY_MISS | MAY_ASK, {3200, 860}},
    {&spill, MAY_HIT | MAY_ASK, {560, 190}},
    {&spill_evict, MAY_HIT | MAY_MISS | MAY_ASK, {1700, 870}},
    {&rebuild, MAY_HIT | MAY_ASK, {1600, 630}},
    {&rebuild_quiet, MAY_HIT | MAY_ASK, {100, 50}},
    {&rebuild_evict, MAY_HIT | MAY_MISS | MAY_ASK, {7200, 1900}},
    {&glance, 0, {7300, 27000}},
    {&long_reuse, MAY_HIT | MAY_MISS | MAY_ASK, {310000, 240000}},
    {&long_shift, MAY_HIT | MAY_MISS | MAY_ASK, {230000, 290000}},
    {&long_spill, MAY_HIT | MAY_MISS | MAY_ASK, {82000, 190000}},
    {&long_rebuild, MAY_HIT | MAY_MISS | MAY_ASK, {490000, 420000}},
    {&long_chunk, MAY_HIT | MAY_MISS | MAY_ASK, {72000, 52000}},
};

static const struct explorer_scenario *const wrong[] = {&wrong_chunk, &wrong_clear, &wrong_order};

int main(void)
{
    struct CMUnitTest tests[ARRAY_LENGTH(explorations) + ARRAY_LENGTH(wrong)];
    size_t count = 0;
    int failed;

    for (size_t i = 0; i < ARRAY_LENGTH(explorations); i++) {
        tests[count++] = (struct CMUnitTest){explorations[i].scenario->name, explore, NULL, NULL,
                                             (void *)(uintptr_t)&explorations[i]};
    }
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        tests[count++] =
            (struct CMUnitTest){wrong[i]->name, find, NULL, NULL, (void *)(uintptr_t)wrong[i]};
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    report("all", "both", &total);
    return failed;
}
