/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a history is linearizable: whether each operation can have happened at one moment between
 * its beginning and its end, so that all found what a model says. Operations of different words do
 * not matter to each other: each word is checked alone, by the search of Wing and Gong with Lowe's
 * memory of what was tried.
 *
 *   struct linear_history history = {0};
 *   size_t n = linear_begin(&history, (struct linear_op){.kind = LINEAR_ADD, .given = 1}, now());
 *   ... the operation ...
 *   linear_end(&history, n, found, now());
 *   result = linear_check(history.ops, history.count, linear_register, 0, LINEAR_STEPS);
 *
 * What was begun and has no end may have happened at any time since, or not: so it is with what
 * ended without anybody knowing what it did. What has certainly not happened is taken out.
 */
#ifndef TESTS_LINEAR_H
#define TESTS_LINEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LINEAR_NEVER UINT64_MAX
#define LINEAR_STEPS UINT64_C(4000000) /* of a search; far more than those of a true history */

enum linear_kind {
    LINEAR_OUT, /* was taken out: it did nothing, and nothing is known from it */

    /* linear_register */
    LINEAR_READ,     /* found */
    LINEAR_WRITE,    /* given */
    LINEAR_ADD,      /* given is added; found: what was there before */
    LINEAR_SWAP,     /* given is put where compare is; found: what was there before */
    LINEAR_EXCHANGE, /* given is put, whatever is there; found: that */

    /* linear_lock; given: whose, below 32. found: 1, or 0 where it was refused */
    LINEAR_LOCK,
    LINEAR_SHARE,
    LINEAR_UNLOCK /* either */
};

struct linear_op {
    uint64_t begun, ended; /* of one clock. What ends as another begins is beside it */
    uint64_t word;         /* of which it is */
    uint64_t given, compare, found;
    enum linear_kind kind;
    uint32_t who; /* for whoever reads what is said */
};

struct linear_history {
    struct linear_op *ops;
    size_t count, room;
};

/* Appends an operation that has no end yet: its number. SIZE_MAX: no memory. */
size_t linear_begin(struct linear_history *history, struct linear_op op, uint64_t now);
void linear_end(struct linear_history *history, size_t number, uint64_t found, uint64_t now);
/* It has not happened. */
void linear_cancel(struct linear_history *history, size_t number);
bool linear_append(struct linear_history *history, const struct linear_history *more);
void linear_free(struct linear_history *history);

/* What a step would do to a word's state. */
enum linear_step {
    LINEAR_IMPOSSIBLE, /* it would have found something else */
    LINEAR_LOOKS,      /* changes nothing; one that has ended then never does, in any state in which
                          it is possible */
    LINEAR_CHANGES
};

/* An operation at a state, which it changes. What it would find is not looked at if it never ended.
 */
typedef enum linear_step (*linear_model)(const struct linear_op *op, uint64_t *state);

enum linear_step linear_register(const struct linear_op *op, uint64_t *state);
/* A lock that one has, or several share: 0 at first. */
enum linear_step linear_lock(const struct linear_op *op, uint64_t *state);

enum linear_verdict {
    LINEAR_YES,
    LINEAR_NO,
    LINEAR_UNDECIDED /* the steps did not suffice, or the memory */
};

struct linear_result {
    enum linear_verdict verdict;
    uint64_t steps; /* the most that a word took */
    uint64_t word;  /* of which it is not, or was not decided */
    size_t passed;  /* so many of its operations that ended were put in an order, at most */
    size_t stuck;   /* the number of one whose end was never got past */
};

struct linear_result linear_check(const struct linear_op *ops, size_t count, linear_model model,
                                  uint64_t initial, uint64_t budget_steps);

/* What is around the end that was not got past, a line each. */
void linear_say(FILE *to, const struct linear_op *ops, size_t count,
                const struct linear_result *result);

#endif
