/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Litmus tests of spaces over real engines, windows and views, by seed (docs/spaces.md, "The order
 * of a thread"): what comes out is what may, always; and each outcome that is allowed, and that a
 * test asks for, is seen.
 *
 * A seed is a world, and some rounds there, of cells that follow from it: NIGH_SEED=N with
 * NIGH_SIM_SEEDS=1 plays it again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "litmus_world.h"
#include "support/support.h"

#define ROUNDS       48u                 /* of a world */
#define PLACES       (LITMUS_PLACES * 2) /* cells of one test, fences and memory, side by side */
#define LEAST_WORLDS 2u                  /* of each of these */
#define MOST_WORLDS  1000u               /* until what is allowed is seen */

static struct litmus_world world;
static struct litmus_table table;
static uint64_t evictions;

static void fail_at(const struct litmus_cell *cell, uint64_t seed, uint64_t outcome)
{
    char words[128], came[128];

    litmus_cell_words(cell, words, sizeof(words));
    litmus_words(&cell->program, outcome, came, sizeof(came));
    fail_msg("%s: %s: %s: seed %llu", words, world.broken != NULL ? world.broken : "forbidden",
             came, (unsigned long long)seed);
}

static struct litmus_cell *cells_of(uint64_t seed)
{
    return &table.cells[seed % (table.count / PLACES) * PLACES];
}

static void run(uint64_t seed)
{
    litmus_world_init(&world, seed);
    for (uint32_t n = 0; n < ROUNDS; n++) {
        struct litmus_cell *cell = &cells_of(seed)[n % PLACES];
        uint64_t outcome;

        if (!litmus_world_round(&world, cell, &outcome) || !litmus_note(cell, outcome)) {
            fail_at(cell, seed, outcome);
        }
    }
    evictions += litmus_world_evictions(&world);
    litmus_world_fini(&world);
}

/* Whether what is allowed was seen, in any of the places. */
static bool is_shown(const struct litmus_cell *cells)
{
    uint64_t weak = 0;

    for (uint32_t n = 0; n < PLACES; n++) {
        weak += cells[n].weak;
    }
    return weak > 0 || !cells[0].is_allowed;
}

/* Goes on with what was not seen, from a seed on. */
static void show_all(uint64_t seed)
{
    uint64_t kinds = table.count / PLACES;

    for (uint64_t n = 0; n < kinds * MOST_WORLDS; n++) {
        if (!is_shown(cells_of(seed + n))) {
            run(seed + n);
        }
    }
    for (uint64_t n = 0; n < kinds; n++) {
        const struct litmus_cell *cells = cells_of(n);
        char words[128];

        litmus_cell_words(cells, words, sizeof(words));
        if (!is_shown(cells)) {
            fail_msg("%s: allowed, and never seen", words);
        }
    }
}

static void what_comes_out_may_and_what_may_does(void **state)
{
    uint64_t first = support_seed(), end_us = support_now_us() + support_budget_ms(0) * 1000;
    const char *most = getenv("NIGH_SIM_SEEDS");
    uint64_t done = 0, least;
    bool is_cut;

    (void)state;
    litmus_table_make(&table);
    least = LEAST_WORLDS * table.count / PLACES;
    is_cut = most != NULL && strtoull(most, NULL, 10) < least;
    least = is_cut ? strtoull(most, NULL, 10) : least;
    while (done < least || (!is_cut && support_now_us() < end_us)) {
        run(first + done++);
    }
    if (!is_cut) {
        show_all(first + done);
    }
    litmus_print(&table);
    printf("# %llu evictions\n", (unsigned long long)evictions);
    assert_true(evictions > 0 || is_cut);
    litmus_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_out_may_and_what_may_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
