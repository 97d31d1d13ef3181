/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Litmus tests of spaces: short programs of a few threads, each with an outcome of which it is said
 * whether it may be (docs/spaces.md, "The order of a thread"), and a machine that does what is
 * promised, and all that is not forbidden: by it every outcome that may be is known, not only the
 * one that a test asks for.
 *
 * Who runs them has a cell for each test, of each fences, in each place, and notes what came out.
 * Knows nothing of how they are run.
 */
#ifndef TESTS_SPACE_LITMUS_H
#define TESTS_SPACE_LITMUS_H

#include <stdbool.h>
#include <stdint.h>

#define LITMUS_THREADS   4u
#define LITMUS_VARIABLES 3u
#define LITMUS_OPS       5u /* of a thread, as the table has it */
#define LITMUS_CLAIMS    4u
#define LITMUS_STEPS     (2 * LITMUS_OPS - 1) /* with fences between */
#define LITMUS_OUTCOMES  512u

enum litmus_kind {
    LITMUS_NONE,
    LITMUS_WRITE,
    LITMUS_READ,
    LITMUS_STORE_FENCE,
    LITMUS_FENCE,
    LITMUS_FLUSH,
    LITMUS_PUT,
    LITMUS_GET,
    LITMUS_ADD,
    LITMUS_EXCHANGE,
    LITMUS_SWAP_ZERO, /* a compare-swap, of 0 */
    LITMUS_LOCK_READ,
    LITMUS_LOCK_WRITE,
    LITMUS_TRY_LOCK, /* to write: 1, or 0, where another has it, or might: then UNLOCK is nothing */
    LITMUS_UNLOCK,
    LITMUS_TELL, /* others, by memory that is no space's */
    LITMUS_HEAR  /* whether somebody told: 1 */
};

struct litmus_op {
    uint8_t kind;     /* enum litmus_kind */
    uint8_t variable; /* below LITMUS_VARIABLES */
    uint8_t value;    /* what is written or added: not 0 */
};

/* Of an outcome: what a read of a thread saw (its first is 0; reads are all that give a value), or
 * what a variable is at the end. */
struct litmus_claim {
    uint8_t is_of; /* 0: no claim; 1: a read; 2: a variable */
    uint8_t thread, at, value;
};

enum litmus_fences {
    LITMUS_BARE,
    LITMUS_STORE_FENCES, /* between each two ops of a thread */
    LITMUS_FULL_FENCES,
    LITMUS_FENCES
};

/* Of each fences, whether the outcome may be: "a" allowed, "f" forbidden, "-": is not tried. */
struct litmus_row {
    const char *name;
    const char *blocks;  /* where each variable is in a block of its own, */
    const char *a_block; /* and where they are in one */
    struct litmus_op threads[LITMUS_THREADS][LITMUS_OPS];
    struct litmus_claim outcome[LITMUS_CLAIMS];
};

extern const struct litmus_row litmus_rows[];
extern const uint32_t litmus_row_count;

/* ---- programs, outcomes --------------------------------------------------- */

struct litmus_program {
    uint32_t threads;
    struct litmus_op ops[LITMUS_THREADS][LITMUS_STEPS];
    uint32_t counts[LITMUS_THREADS]; /* ops */
    uint32_t reads[LITMUS_THREADS];  /* before this thread's, of an outcome */
};

void litmus_program(const struct litmus_row *row, enum litmus_fences fences,
                    struct litmus_program *program);

/* Whether it gives a value. */
bool litmus_is_read(uint8_t kind);

/* An outcome is a number: four bits for each read, thread by thread, and the last twelve for what
 * the variables are at the end. */
uint64_t litmus_saw(const struct litmus_program *program, uint32_t thread, uint32_t read,
                    uint64_t value);
uint64_t litmus_ends(uint32_t variable, uint64_t value);

/* Whether it is the one that the row asks for. */
bool litmus_is_asked(const struct litmus_row *row, const struct litmus_program *program,
                     uint64_t outcome);

/* As "1,0 0 x=1": reads, thread by thread, and the variables that the program has. */
void litmus_words(const struct litmus_program *program, uint64_t outcome, char *words,
                  uint32_t size);

/* ---- what may be ---------------------------------------------------------- */

struct litmus_outcomes {
    uint32_t count;
    uint64_t states; /* that were looked at */
    uint64_t outcomes[LITMUS_OUTCOMES];
};

/* All that may come out. false: the program may come to stand still, or there is too much. */
bool litmus_allowed(const struct litmus_program *program, bool in_a_block,
                    struct litmus_outcomes *outcomes);

bool litmus_may_be(const struct litmus_outcomes *outcomes, uint64_t outcome);

/* ---- cells ---------------------------------------------------------------- */

enum litmus_memory {
    LITMUS_A_BLOCK, /* all variables are in */
    LITMUS_A_HOME,  /* each in a block of its own, of one home */
    LITMUS_HOMES,   /* of one home each */
    LITMUS_MEMORIES
};

enum litmus_place {
    LITMUS_APART,   /* each thread on a node of its own, as far as there are nodes */
    LITMUS_AT_HOME, /* all on the node that is x's home, */
    LITMUS_AWAY,    /* or on one that is not */
    LITMUS_PLACES
};

struct litmus_cell {
    const struct litmus_row *row;
    enum litmus_fences fences;
    enum litmus_memory memory;
    enum litmus_place place;
    bool evicts; /* blocks are given up all the while */
    bool is_allowed;
    struct litmus_program program;
    const struct litmus_outcomes *allowed;
    uint64_t rounds, weak;      /* the outcome that the row asks for */
    bool seen[LITMUS_OUTCOMES]; /* of allowed */
};

struct litmus_table {
    uint32_t count;
    struct litmus_cell *cells;
    struct litmus_outcomes *outcomes;
};

/* What is printed has so many columns: threads apart, by memory; together; and what is evicted. */
#define LITMUS_COLUMNS (LITMUS_MEMORIES + 2u)

/* All cells, in the order of rows, fences, memories, places, and last whether it evicts; whoever
 * made it frees it. Fails the test where the machine and the table differ. */
void litmus_table_make(struct litmus_table *table);
void litmus_table_free(struct litmus_table *table);

/* Notes a round. false: that may not be. */
bool litmus_note(struct litmus_cell *cell, uint64_t outcome);

/* As "MP, store fences, in blocks of one home, threads apart, evicted". */
void litmus_cell_words(const struct litmus_cell *cell, char *words, uint32_t size);

/* The counts, as comments of TAP: a line for each row and fences. To the file that
 * $NIGH_LITMUS_CELLS names, too, a line for each cell. */
void litmus_print(const struct litmus_table *table);

#endif
