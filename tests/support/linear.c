/* SPDX-License-Identifier: Apache-2.0 */
/* See linear.h. The search of a word is linear_search.c's. */
#include "support/linear.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/linear_search.h"

/* ---- a history ------------------------------------------------------------ */

static bool make_room(struct linear_history *history, size_t count)
{
    size_t room = history->room == 0 ? 64 : history->room;
    struct linear_op *ops;

    while (room < count) {
        room *= 2;
    }
    if (room == history->room) {
        return true;
    }
    ops = realloc(history->ops, room * sizeof *ops);
    if (ops == NULL) {
        return false;
    }
    history->ops = ops;
    history->room = room;
    return true;
}

size_t linear_begin(struct linear_history *history, struct linear_op op, uint64_t now)
{
    if (!make_room(history, history->count + 1)) {
        return SIZE_MAX;
    }
    op.begun = now;
    op.ended = LINEAR_NEVER;
    history->ops[history->count] = op;
    return history->count++;
}

void linear_end(struct linear_history *history, size_t number, uint64_t found, uint64_t now)
{
    history->ops[number].found = found;
    atomic_signal_fence(memory_order_release); /* who is killed here has found what it has ended */
    history->ops[number].ended = now;
}

void linear_cancel(struct linear_history *history, size_t number)
{
    history->ops[number].kind = LINEAR_OUT;
}

bool linear_append(struct linear_history *history, const struct linear_history *more)
{
    if (!make_room(history, history->count + more->count)) {
        return false;
    }
    if (more->count > 0) {
        memcpy(history->ops + history->count, more->ops, more->count * sizeof *more->ops);
    }
    history->count += more->count;
    return true;
}

void linear_free(struct linear_history *history)
{
    free(history->ops);
    *history = (struct linear_history){.ops = NULL};
}

/* ---- models --------------------------------------------------------------- */

static bool can_find(const struct linear_op *op, uint64_t value)
{
    return op->ended == LINEAR_NEVER || op->found == value;
}

enum linear_step linear_register(const struct linear_op *op, uint64_t *state)
{
    uint64_t was = *state;

    if (op->kind == LINEAR_WRITE) {
        *state = op->given;
        return LINEAR_CHANGES; /* though it be what was there: another time it is not */
    }
    if (!can_find(op, was)) {
        return LINEAR_IMPOSSIBLE;
    }
    if (op->kind == LINEAR_ADD) {
        *state = was + op->given;
    } else if (op->kind == LINEAR_EXCHANGE || (op->kind == LINEAR_SWAP && was == op->compare)) {
        *state = op->given;
    }
    return *state == was ? LINEAR_LOOKS : LINEAR_CHANGES;
}

/* Below: whoever shares it, a bit each; above: one more than who has it alone. */
#define LOCK_ALONE(who)  ((uint64_t)((who) + 1) << 32)
#define LOCK_SHARED(who) (UINT64_C(1) << (who))

static enum linear_step unlock(uint64_t who, uint64_t *state)
{
    if (*state == LOCK_ALONE(who)) {
        *state = 0;
        return LINEAR_CHANGES;
    }
    if (*state >> 32 != 0 || (*state & LOCK_SHARED(who)) == 0) {
        return LINEAR_IMPOSSIBLE;
    }
    *state &= ~LOCK_SHARED(who);
    return LINEAR_CHANGES;
}

enum linear_step linear_lock(const struct linear_op *op, uint64_t *state)
{
    bool is_held = op->kind == LINEAR_LOCK ? *state != 0 : *state >> 32 != 0;
    bool is_refused = op->ended != LINEAR_NEVER && op->found == 0;

    if (op->kind == LINEAR_UNLOCK) {
        return unlock(op->given, state);
    }
    if (is_refused) {
        return is_held ? LINEAR_LOOKS : LINEAR_IMPOSSIBLE;
    }
    if (is_held || (*state & LOCK_SHARED(op->given)) != 0) {
        return LINEAR_IMPOSSIBLE;
    }
    *state |= op->kind == LINEAR_LOCK ? LOCK_ALONE(op->given) : LOCK_SHARED(op->given);
    return LINEAR_CHANGES;
}

/* ---- word by word --------------------------------------------------------- */

static int compare_places(const void *a, const void *b)
{
    const struct linear_op *one = *(const struct linear_op *const *)a;
    const struct linear_op *other = *(const struct linear_op *const *)b;

    if (one->word != other->word) {
        return one->word < other->word ? -1 : 1;
    }
    return one->begun != other->begun ? (one->begun < other->begun ? -1 : 1) : 0;
}

/* Those that are to be looked at, by word and beginning. */
static size_t sort(const struct linear_op *ops, size_t count, const struct linear_op **sorted)
{
    size_t used = 0;

    for (size_t n = 0; n < count; n++) {
        if (ops[n].kind != LINEAR_OUT) {
            sorted[used++] = &ops[n];
        }
    }
    qsort(sorted, used, sizeof *sorted, compare_places);
    return used;
}

/* Whether any of these found it, or what it did depends on it. */
static bool is_seen(const struct linear_op *const *ops, size_t count, uint64_t value)
{
    for (size_t n = 0; n < count; n++) {
        if (ops[n]->ended == LINEAR_NEVER
                ? ops[n]->kind == LINEAR_ADD ||
                      (ops[n]->kind == LINEAR_SWAP && ops[n]->compare == value)
                : ops[n]->kind != LINEAR_WRITE && ops[n]->found == value) {
            return true;
        }
    }
    return false;
}

/* Whether another write of the word lies within one: it is put right before that. */
static bool has_one_within(const struct linear_op *const *ops, size_t count, size_t number)
{
    for (size_t n = number + 1; n < count && ops[n]->begun < ops[number]->ended; n++) {
        if (ops[n]->kind == LINEAR_WRITE && ops[n]->begun > ops[number]->begun &&
            ops[n]->ended < ops[number]->ended) {
            return true;
        }
    }
    return false;
}

/* A write that nobody sees, over another one, fits into every order of the rest: many that are
 * under way for long would make as many sets of operations that are to be tried. */
static size_t without_unseen(const struct linear_op **ops, size_t count)
{
    size_t left = 0;

    for (size_t n = 0; n < count; n++) {
        const struct linear_op *op = ops[n];

        if (op->kind == LINEAR_WRITE && has_one_within(ops, count, n) &&
            !is_seen(ops, count, op->given)) {
            continue;
        }
        ops[left++] = op;
    }
    return left;
}

struct linear_result linear_check(const struct linear_op *ops, size_t count, linear_model model,
                                  uint64_t initial, uint64_t budget_steps)
{
    struct linear_result result = {.verdict = LINEAR_YES};
    const struct linear_op **sorted = malloc((count + 1) * sizeof(struct linear_op *));
    size_t used;

    if (sorted == NULL) {
        return (struct linear_result){.verdict = LINEAR_UNDECIDED};
    }
    used = sort(ops, count, sorted);
    for (size_t from = 0, to; from < used && result.verdict == LINEAR_YES; from = to) {
        const struct linear_op *stuck = NULL;
        uint64_t most = result.steps;
        size_t left;

        for (to = from; to < used && sorted[to]->word == sorted[from]->word; to++) {
        }
        left = model == linear_register ? without_unseen(sorted + from, to - from) : to - from;
        result = linear_search(sorted + from, left, model, initial, budget_steps, &stuck);
        result.word = sorted[from]->word;
        result.stuck = stuck == NULL ? 0 : (size_t)(stuck - ops);
        result.steps = result.steps > most ? result.steps : most;
    }
    free(sorted);
    return result;
}

/* ---- what is said --------------------------------------------------------- */

#define SAID 24 /* before and after */

static const char *const kinds[] = {"out",      "read", "write", "add",   "swap",
                                    "exchange", "lock", "share", "unlock"};

static void say_op(FILE *to, const struct linear_op *op, bool is_stuck)
{
    fprintf(to,
            "# %s %" PRIu64 "..%" PRId64 " by %u: %s given %#" PRIx64 " compare %#" PRIx64
            " found %#" PRIx64 "\n",
            is_stuck ? "=>" : "  ", op->begun, op->ended == LINEAR_NEVER ? -1 : (int64_t)op->ended,
            op->who, kinds[op->kind], op->given, op->compare, op->found);
}

void linear_say(FILE *to, const struct linear_op *ops, size_t count,
                const struct linear_result *result)
{
    static const char *const verdicts[] = {"linearizable", "NOT linearizable", "not decided"};
    const struct linear_op **sorted = malloc((count + 1) * sizeof(struct linear_op *));
    size_t used = 0, at = 0;

    fprintf(to, "# %s, %" PRIu64 " steps", verdicts[result->verdict], result->steps);
    if (result->verdict == LINEAR_YES || sorted == NULL) {
        fprintf(to, "\n");
        free(sorted);
        return;
    }
    fprintf(to, ": word %#" PRIx64 ", %zu passed\n", result->word, result->passed);
    for (size_t n = 0; n < count; n++) {
        if (ops[n].word == result->word && ops[n].kind != LINEAR_OUT) {
            sorted[used++] = &ops[n];
        }
    }
    qsort(sorted, used, sizeof *sorted, compare_places);
    for (size_t n = 0; n < used; n++) {
        at = sorted[n] == &ops[result->stuck] ? n : at;
    }
    for (size_t n = 0; n < used; n++) {
        if ((n + SAID >= at && n <= at + SAID) ||
            (sorted[n]->ended == LINEAR_NEVER && n < at && n + 2000 > at)) {
            say_op(to, sorted[n], n == at);
        }
    }
    free(sorted);
}
