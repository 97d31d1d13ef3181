/* SPDX-License-Identifier: Apache-2.0 */
/* Programs, outcomes and cells of litmus tests; see space_litmus.h. */
#include "support/space_litmus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "support/support.h"

/* ---- programs ------------------------------------------------------------- */

bool litmus_is_read(uint8_t kind)
{
    return kind == LITMUS_READ || kind == LITMUS_GET || kind == LITMUS_ADD ||
           kind == LITMUS_EXCHANGE || kind == LITMUS_SWAP_ZERO || kind == LITMUS_TRY_LOCK ||
           kind == LITMUS_HEAR;
}

static void put_op(struct litmus_program *program, uint32_t thread, struct litmus_op op)
{
    program->ops[thread][program->counts[thread]++] = op;
}

void litmus_program(const struct litmus_row *row, enum litmus_fences fences,
                    struct litmus_program *program)
{
    static const uint8_t kinds[LITMUS_FENCES] = {LITMUS_NONE, LITMUS_STORE_FENCE, LITMUS_FENCE};
    uint32_t reads = 0;

    memset(program, 0, sizeof(*program));
    for (uint32_t t = 0; t < LITMUS_THREADS && row->threads[t][0].kind != LITMUS_NONE; t++) {
        program->threads++;
        program->reads[t] = reads;
        for (uint32_t n = 0; n < LITMUS_OPS && row->threads[t][n].kind != LITMUS_NONE; n++) {
            if (n > 0 && fences != LITMUS_BARE) {
                put_op(program, t, (struct litmus_op){.kind = kinds[fences]});
            }
            put_op(program, t, row->threads[t][n]);
            reads += litmus_is_read(row->threads[t][n].kind);
        }
    }
}

/* ---- outcomes ------------------------------------------------------------- */

uint64_t litmus_saw(const struct litmus_program *program, uint32_t thread, uint32_t read,
                    uint64_t value)
{
    return (value & 15) << 4 * (program->reads[thread] + read);
}

uint64_t litmus_ends(uint32_t variable, uint64_t value)
{
    return (value & 15) << (64 - 4 * (LITMUS_VARIABLES - variable));
}

bool litmus_is_asked(const struct litmus_row *row, const struct litmus_program *program,
                     uint64_t outcome)
{
    for (uint32_t n = 0; n < LITMUS_CLAIMS && row->outcome[n].is_of != 0; n++) {
        const struct litmus_claim *claim = &row->outcome[n];
        uint64_t all = claim->is_of == 1 ? litmus_saw(program, claim->thread, claim->at, 15)
                                         : litmus_ends(claim->at, 15);
        uint64_t value = claim->is_of == 1
                             ? litmus_saw(program, claim->thread, claim->at, claim->value)
                             : litmus_ends(claim->at, claim->value);

        if ((outcome & all) != value) {
            return false;
        }
    }
    return true;
}

void litmus_words(const struct litmus_program *program, uint64_t outcome, char *words,
                  uint32_t size)
{
    int length = 0;
    uint32_t read = 0;

    for (uint32_t t = 0; t < program->threads; t++) {
        for (uint32_t n = 0; n < program->counts[t]; n++) {
            if (litmus_is_read(program->ops[t][n].kind)) {
                length += snprintf(words + length, size - (uint32_t)length, "%u:%u ", t,
                                   (uint32_t)(outcome >> 4 * read++) & 15);
            }
        }
    }
    for (uint32_t n = 0; n < LITMUS_VARIABLES; n++) {
        length += snprintf(words + length, size - (uint32_t)length, "%c=%u ", (char)('x' + n),
                           (uint32_t)(outcome >> (64 - 4 * (LITMUS_VARIABLES - n))) & 15);
    }
    words[length - 1] = '\0';
}

bool litmus_may_be(const struct litmus_outcomes *outcomes, uint64_t outcome)
{
    for (uint32_t n = 0; n < outcomes->count; n++) {
        if (outcomes->outcomes[n] == outcome) {
            return true;
        }
    }
    return false;
}

/* ---- cells ---------------------------------------------------------------- */

static const char *const fence_words[LITMUS_FENCES] = {"no fences", "store fences", "full fences"};

/* What the table says of it: 'a', 'f' or '-'. */
static char verdict_of(const struct litmus_row *row, enum litmus_fences fences, bool in_a_block)
{
    return (in_a_block ? row->a_block : row->blocks)[fences];
}

/* The machine's verdict is to be the table's. */
static bool judge(const struct litmus_row *row, enum litmus_fences fences, bool in_a_block,
                  struct litmus_outcomes *outcomes)
{
    struct litmus_program program;
    bool is_allowed = false;

    litmus_program(row, fences, &program);
    if (!litmus_allowed(&program, in_a_block, outcomes)) {
        fail_msg("%s, %s: it may come to stand still", row->name, fence_words[fences]);
    }
    for (uint32_t n = 0; n < outcomes->count; n++) {
        is_allowed |= litmus_is_asked(row, &program, outcomes->outcomes[n]);
    }
    if (is_allowed != (verdict_of(row, fences, in_a_block) == 'a')) {
        fail_msg("%s, %s, %s: it is %s", row->name, fence_words[fences],
                 in_a_block ? "in a block" : "in blocks", is_allowed ? "allowed" : "forbidden");
    }
    return is_allowed;
}

static void add_cells(struct litmus_table *table, const struct litmus_cell *like)
{
    for (uint32_t n = 0; n < LITMUS_PLACES * 2; n++) {
        struct litmus_cell *cell = &table->cells[table->count++];

        *cell = *like;
        cell->place = (enum litmus_place)(n / 2);
        cell->evicts = n % 2 == 1;
    }
}

void litmus_table_make(struct litmus_table *table)
{
    uint32_t kinds = litmus_row_count * LITMUS_FENCES * LITMUS_MEMORIES;

    table->count = 0;
    table->cells = calloc((size_t)kinds * LITMUS_PLACES * 2, sizeof(struct litmus_cell));
    table->outcomes = calloc((size_t)kinds, sizeof(struct litmus_outcomes));
    assert_true(table->cells != NULL && table->outcomes != NULL);
    for (uint32_t n = 0; n < kinds; n++) {
        struct litmus_cell like = {
            .row = &litmus_rows[n / LITMUS_FENCES / LITMUS_MEMORIES],
            .fences = (enum litmus_fences)(n / LITMUS_MEMORIES % LITMUS_FENCES),
            .memory = (enum litmus_memory)(n % LITMUS_MEMORIES),
        };
        bool in_a_block = like.memory == LITMUS_A_BLOCK;

        if (verdict_of(like.row, like.fences, in_a_block) == '-') {
            continue;
        }
        like.is_allowed = judge(like.row, like.fences, in_a_block, &table->outcomes[n]);
        like.allowed = &table->outcomes[n];
        litmus_program(like.row, like.fences, &like.program);
        add_cells(table, &like);
    }
}

void litmus_table_free(struct litmus_table *table)
{
    free(table->cells);
    free(table->outcomes);
}

bool litmus_note(struct litmus_cell *cell, uint64_t outcome)
{
    cell->rounds++;
    cell->weak += litmus_is_asked(cell->row, &cell->program, outcome);
    for (uint32_t n = 0; n < cell->allowed->count; n++) {
        if (cell->allowed->outcomes[n] == outcome) {
            cell->seen[n] = true;
            return true;
        }
    }
    return false;
}

void litmus_cell_words(const struct litmus_cell *cell, char *words, uint32_t size)
{
    static const char *const memories[LITMUS_MEMORIES] = {"in a block", "in blocks of one home",
                                                          "in blocks of several homes"};
    static const char *const places[LITMUS_PLACES] = {"threads apart", "threads at the home",
                                                      "threads on another node"};

    (void)snprintf(words, size, "%s, %s, %s, %s%s", cell->row->name, fence_words[cell->fences],
                   memories[cell->memory], places[cell->place], cell->evicts ? ", evicted" : "");
}

/* ---- counts --------------------------------------------------------------- */

/* A column of what is printed: where a cell is counted. */
static uint32_t column_of(const struct litmus_cell *cell)
{
    return cell->evicts                  ? LITMUS_MEMORIES + 1u
           : cell->place != LITMUS_APART ? LITMUS_MEMORIES
                                         : (uint32_t)cell->memory;
}

/* A line for each cell: its words, then a tab and weak/rounds. */
static void write_cells(const struct litmus_table *table, const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    for (uint32_t n = 0; n < table->count; n++) {
        const struct litmus_cell *cell = &table->cells[n];
        char words[128];

        litmus_cell_words(cell, words, sizeof(words));
        (void)fprintf(file, "%s\t%s\t%llu/%llu\n", words, cell->is_allowed ? "allowed" : "no",
                      (unsigned long long)cell->weak, (unsigned long long)cell->rounds);
    }
    assert_int_equal(fclose(file), 0);
}

void litmus_print(const struct litmus_table *table)
{
    const char *path = getenv("NIGH_LITMUS_CELLS");
    uint64_t rounds = 0, seen = 0, may_be = 0;
    uint32_t tried = 0;

    printf("# test, fences (as it is in blocks, in a block): outcome asked for of rounds, threads "
           "apart: in a block, of one home, of several; threads together; evicted\n");
    for (uint32_t n = 0; n < table->count;) {
        const struct litmus_row *row = table->cells[n].row;
        enum litmus_fences fences = table->cells[n].fences;
        uint64_t sums[LITMUS_COLUMNS][2] = {{0}};

        for (; n < table->count && table->cells[n].row == row && table->cells[n].fences == fences;
             n++) {
            const struct litmus_cell *cell = &table->cells[n];

            sums[column_of(cell)][0] += cell->weak;
            sums[column_of(cell)][1] += cell->rounds;
            rounds += cell->rounds;
            tried += cell->rounds > 0;
            may_be += cell->allowed->count;
            for (uint32_t outcome = 0; outcome < cell->allowed->count; outcome++) {
                seen += cell->seen[outcome];
            }
        }
        printf("# %-18s %-12s %c %c", row->name, fence_words[fences], row->blocks[fences],
               row->a_block[fences]);
        for (uint32_t column = 0; column < LITMUS_COLUMNS; column++) {
            printf("  %6llu/%-7llu", (unsigned long long)sums[column][0],
                   (unsigned long long)sums[column][1]);
        }
        printf("\n");
    }
    printf("# %u of %u cells, %llu rounds; of %llu outcomes that may be, cell by cell, %llu were "
           "seen\n",
           tried, table->count, (unsigned long long)rounds, (unsigned long long)may_be,
           (unsigned long long)seen);
    if (path != NULL) {
        write_cells(table, path);
    }
}
