/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does the explorer see what processors do? The known litmus tests: for each, whether the relaxed
 * outcome can come about, under total store order and under weak memory. An outcome that is allowed
 * has to be seen, or what the explorer finds clean would prove nothing; one that is forbidden must
 * not be seen, or it would report what cannot happen.
 */
#include "explorer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/shared.h"
#include "support/support.h"

static _Atomic uint64_t x, y;
static uint64_t data;
static uint32_t loaded[EXPLORER_THREADS][2];
static bool seen[16]; /* outcomes: bits of what was loaded */

static void set_up(void)
{
    shared_store_relaxed(&x, 0);
    shared_store_relaxed(&y, 0);
    shared_store_plain(&data, 0);
    memset(loaded, 0, sizeof(loaded));
    explorer_private(loaded, sizeof(loaded));
    explorer_name(&x, "x");
    explorer_name(&y, "y");
    explorer_name(&data, "data");
}

/* SB: each thread stores to one word and loads the other. */
static void sb_x(void)
{
    shared_store_release(&x, 1);
    loaded[0][0] = (uint32_t)shared_load_acquire(&y);
}

static void sb_y(void)
{
    shared_store_release(&y, 1);
    loaded[1][0] = (uint32_t)shared_load_acquire(&x);
}

static void sb_x_fenced(void)
{
    shared_store_relaxed(&x, 1);
    shared_fence();
    loaded[0][0] = (uint32_t)shared_load_relaxed(&y);
}

static void sb_y_fenced(void)
{
    shared_store_relaxed(&y, 1);
    shared_fence();
    loaded[1][0] = (uint32_t)shared_load_relaxed(&x);
}

static void sb_end(void)
{
    seen[loaded[0][0] * 2 + loaded[1][0]] = true;
}

/* MP: data is stored, then a flag; whoever sees the flag looks for the data. */
static void mp_relaxed(void)
{
    shared_store_plain(&data, 1);
    shared_store_relaxed(&x, 1);
}

static void mp_release(void)
{
    shared_store_plain(&data, 1);
    shared_store_release(&x, 1);
}

static void mp_release_fence(void)
{
    shared_store_plain(&data, 1);
    shared_fence_release();
    shared_store_relaxed(&x, 1);
}

static void mp_late_release(void)
{
    shared_store_release(&x, 1);
    shared_store_plain(&data, 1);
}

static void mp_reads_relaxed(void)
{
    loaded[1][0] = (uint32_t)shared_load_relaxed(&x);
    loaded[1][1] = (uint32_t)shared_load_plain(&data);
}

static void mp_reads_acquire(void)
{
    loaded[1][0] = (uint32_t)shared_load_acquire(&x);
    loaded[1][1] = (uint32_t)shared_load_plain(&data);
}

static void mp_reads_fence(void)
{
    loaded[1][0] = (uint32_t)shared_load_relaxed(&x);
    shared_fence_acquire();
    loaded[1][1] = (uint32_t)shared_load_plain(&data);
}

static void mp_reads_backwards(void)
{
    loaded[1][1] = (uint32_t)shared_load_plain(&data);
    shared_fence_acquire();
    loaded[1][0] = (uint32_t)shared_load_relaxed(&x);
}

static void mp_end(void)
{
    seen[loaded[1][0] * 2 + loaded[1][1]] = true;
}

/* CoRR: two loads of one word never go back in time. */
static void corr_writes(void)
{
    shared_store_relaxed(&x, 1);
}

static void corr_reads(void)
{
    loaded[1][0] = (uint32_t)shared_load_relaxed(&x);
    loaded[1][1] = (uint32_t)shared_load_relaxed(&x);
}

/* IRIW: two readers see two stores in different orders. */
static void iriw_x(void)
{
    shared_store_release(&x, 1);
}

static void iriw_y(void)
{
    shared_store_release(&y, 1);
}

static void iriw_xy(void)
{
    loaded[2][0] = (uint32_t)shared_load_acquire(&x);
    loaded[2][1] = (uint32_t)shared_load_acquire(&y);
}

static void iriw_yx(void)
{
    loaded[3][0] = (uint32_t)shared_load_acquire(&y);
    loaded[3][1] = (uint32_t)shared_load_acquire(&x);
}

static void iriw_xy_fenced(void)
{
    loaded[2][0] = (uint32_t)shared_load_relaxed(&x);
    shared_fence();
    loaded[2][1] = (uint32_t)shared_load_relaxed(&y);
}

static void iriw_yx_fenced(void)
{
    loaded[3][0] = (uint32_t)shared_load_relaxed(&y);
    shared_fence();
    loaded[3][1] = (uint32_t)shared_load_relaxed(&x);
}

static void iriw_end(void)
{
    seen[loaded[2][0] * 8 + loaded[2][1] * 4 + loaded[3][0] * 2 + loaded[3][1]] = true;
}

/* LB, the one way it concerns us: bytes are used, then let go; whoever sees that overwrites. */
static void use_then_release(void)
{
    explorer_use(&data, 0, "the data");
    shared_store_release(&x, 1);
}

static void use_then_relaxed(void)
{
    explorer_use(&data, 0, "the data");
    shared_store_relaxed(&x, 1);
}

static void overwrites(void)
{
    if (shared_load_acquire(&x) == 1) {
        shared_store_plain(&data, 1);
    }
}

struct litmus {
    struct explorer_scenario scenario;
    uint32_t outcome;
    bool allowed[2]; /* TSO, weak */
    bool violates;   /* not an outcome but explorer_use decides */
};

static const struct litmus litmuses[] = {
    {{"SB", set_up, {sb_x, sb_y}, sb_end}, 0, {true, true}, false},
    {{"SB, one fence", set_up, {sb_x_fenced, sb_y}, sb_end}, 0, {true, true}, false},
    {{"SB, both fences", set_up, {sb_x_fenced, sb_y_fenced}, sb_end}, 0, {false, false}, false},
    {{"MP", set_up, {mp_relaxed, mp_reads_relaxed}, mp_end}, 2, {false, true}, false},
    {{"MP, release only", set_up, {mp_release, mp_reads_relaxed}, mp_end}, 2, {false, true}, false},
    {{"MP, acquire only", set_up, {mp_relaxed, mp_reads_acquire}, mp_end}, 2, {false, true}, false},
    {{"MP, both", set_up, {mp_release, mp_reads_acquire}, mp_end}, 2, {false, false}, false},
    {{"MP, fences", set_up, {mp_release_fence, mp_reads_fence}, mp_end}, 2, {false, false}, false},
    {{"MP, release then data", set_up, {mp_late_release, mp_reads_backwards}, mp_end},
     1,
     {false, true},
     false},
    {{"CoRR", set_up, {corr_writes, corr_reads}, mp_end}, 2, {false, false}, false},
    {{"IRIW", set_up, {iriw_x, iriw_y, iriw_xy, iriw_yx}, iriw_end}, 10, {false, true}, false},
    {{"IRIW, fences", set_up, {iriw_x, iriw_y, iriw_xy_fenced, iriw_yx_fenced}, iriw_end},
     10,
     {false, false},
     false},
    {{"LB, relaxed", set_up, {use_then_relaxed, overwrites}, NULL}, 0, {false, true}, true},
    {{"LB, release", set_up, {use_then_release, overwrites}, NULL}, 0, {false, false}, true},
};

static void outcomes_are_those_of_the_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(litmuses) / sizeof(litmuses[0]); i++) {
        const struct litmus *litmus = &litmuses[i];

        for (int run = 0; run < 4; run++) {
            enum explorer_memory memory = run & 1 ? EXPLORER_WEAK : EXPLORER_TSO;
            struct explorer_report report;
            bool found;

            memset(seen, 0, sizeof(seen));
            explorer_run(&litmus->scenario, memory,
                         run & 2 ? EXPLORER_ALL_STEPS : EXPLORER_FEW_STEPS, &report);
            free(report.trace);
            found = litmus->violates ? report.violated : seen[litmus->outcome];
            printf("# %-22s %-4s %4u states: %s\n", litmus->scenario.name,
                   memory == EXPLORER_WEAK ? "weak" : "TSO", (unsigned)report.states,
                   found ? "seen" : "not seen");
            assert_int_equal(found, litmus->allowed[memory]);
            assert_true(litmus->violates || !report.violated);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outcomes_are_those_of_the_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
