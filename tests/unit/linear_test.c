/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other tests look at histories with: it takes those that can be put in an order, and refuses
 * those that cannot. Small ones it judges as somebody does who tries every order of them.
 */
#include <stdio.h>
#include <string.h>

#include "support/linear.h"
#include "support/support.h"

#define N          LINEAR_NEVER
#define COUNT(ops) (sizeof(ops) / sizeof((ops)[0]))

#define READ(from, to, value)                                                 \
    {                                                                         \
        .begun = (from), .ended = (to), .kind = LINEAR_READ, .found = (value) \
    }
#define WRITE(from, to, value)                                                 \
    {                                                                          \
        .begun = (from), .ended = (to), .kind = LINEAR_WRITE, .given = (value) \
    }
#define ADD(from, to, value, old)                                                            \
    {                                                                                        \
        .begun = (from), .ended = (to), .kind = LINEAR_ADD, .given = (value), .found = (old) \
    }
#define SWAP(from, to, was, value, old)                                                          \
    {                                                                                            \
        .begun = (from), .ended = (to), .kind = LINEAR_SWAP, .given = (value), .compare = (was), \
        .found = (old)                                                                           \
    }
#define EXCHANGE(from, to, value, old)                                                            \
    {                                                                                             \
        .begun = (from), .ended = (to), .kind = LINEAR_EXCHANGE, .given = (value), .found = (old) \
    }
#define HOLD(from, to, which, whose, got)                                                 \
    {                                                                                     \
        .begun = (from), .ended = (to), .kind = (which), .given = (whose), .found = (got) \
    }

static enum linear_verdict verdict_of(const struct linear_op *ops, size_t count, linear_model model)
{
    return linear_check(ops, count, model, 0, LINEAR_STEPS).verdict;
}

#define YES(model, ...)                                                     \
    do {                                                                    \
        const struct linear_op ops[] = {__VA_ARGS__};                       \
        assert_int_equal(verdict_of(ops, COUNT(ops), (model)), LINEAR_YES); \
    } while (0)
#define NO(model, ...)                                                     \
    do {                                                                   \
        const struct linear_op ops[] = {__VA_ARGS__};                      \
        assert_int_equal(verdict_of(ops, COUNT(ops), (model)), LINEAR_NO); \
    } while (0)

/* ---- what can be ---------------------------------------------------------- */

static void what_can_have_happened_is_taken(void **state)
{
    (void)state;
    assert_int_equal(verdict_of(NULL, 0, linear_register), LINEAR_YES);
    YES(linear_register, READ(1, 2, 0), WRITE(3, 4, 5), READ(5, 6, 5));
    /* Beside a write either is found; and what ends as another begins is beside it. */
    YES(linear_register, WRITE(1, 9, 5), READ(2, 3, 0), READ(4, 5, 5), READ(10, 11, 5));
    YES(linear_register, WRITE(1, 4, 5), READ(4, 6, 0));
    /* Two writes beside each other, seen in the order that they did not begin in. */
    YES(linear_register, WRITE(1, 9, 5), WRITE(2, 8, 6), READ(10, 11, 5));
    YES(linear_register, WRITE(1, 9, 5), WRITE(2, 8, 6), READ(3, 4, 6), READ(5, 6, 5));
    YES(linear_register, ADD(1, 5, 1, 1), ADD(2, 6, 1, 0), READ(7, 8, 2));
    YES(linear_register, SWAP(1, 2, 0, 7, 0), SWAP(3, 4, 0, 8, 7), READ(5, 6, 7));
    YES(linear_register, SWAP(1, 9, 0, 7, 0), SWAP(2, 8, 0, 8, 7), ADD(10, 11, 1, 7));
    YES(linear_register, EXCHANGE(1, 9, 7, 8), EXCHANGE(2, 8, 8, 0), READ(10, 11, 7));
}

static void what_has_no_end_happened_or_not(void **state)
{
    (void)state;
    YES(linear_register, WRITE(1, N, 5), READ(2, 3, 0), READ(4, 5, 0));
    YES(linear_register, WRITE(1, N, 5), READ(2, 3, 0), READ(4, 5, 5), READ(6, 7, 5));
    YES(linear_register, WRITE(1, N, 5), WRITE(2, 3, 6), READ(4, 5, 6), READ(6, 7, 5)); /* late */
    YES(linear_register, ADD(1, N, 4, 0), ADD(2, 3, 1, 0), ADD(4, 5, 1, 5));
    YES(linear_register, ADD(1, N, 4, 0), ADD(1, N, 2, 0), ADD(1, N, 9, 0), READ(2, 3, 0),
        READ(4, 5, 11), READ(6, 7, 15));
    YES(linear_register, SWAP(1, N, 3, 4, 0), WRITE(2, 3, 3), READ(4, 5, 3), READ(6, 7, 4));
    /* What nobody finds was between two that nobody looked between. */
    YES(linear_register, WRITE(1, N, 5), SWAP(1, N, 5, 6, 0), READ(2, 3, 0), READ(4, 5, 6));
    YES(linear_register, WRITE(1, N, 5), ADD(1, N, 2, 0), READ(2, 3, 0), READ(4, 5, 7));
}

static void words_are_apart(void **state)
{
    const struct linear_op ops[] = {
        {.word = 1, .begun = 1, .ended = 2, .kind = LINEAR_WRITE, .given = 5},
        {.word = 2, .begun = 3, .ended = 4, .kind = LINEAR_READ, .found = 0},
        {.word = 1, .begun = 5, .ended = 6, .kind = LINEAR_READ, .found = 5},
        {.word = 2, .begun = 7, .ended = 8, .kind = LINEAR_READ, .found = 5},
    };
    struct linear_result result = linear_check(ops, COUNT(ops), linear_register, 0, LINEAR_STEPS);

    (void)state;
    assert_int_equal(verdict_of(ops, 3, linear_register), LINEAR_YES);
    assert_int_equal(result.verdict, LINEAR_NO);
    assert_int_equal(result.word, 2);
    assert_int_equal(result.passed, 1);
    assert_int_equal(result.stuck, 3);
}

/* ---- what cannot ---------------------------------------------------------- */

static void planted_violations_are_refused(void **state)
{
    (void)state;
    /* A stale read, also by another than the writer; and a value from nowhere, or the future. */
    NO(linear_register, WRITE(1, 2, 5), READ(3, 4, 0));
    NO(linear_register, WRITE(1, 2, 5), WRITE(3, 4, 6), READ(5, 6, 5));
    NO(linear_register, READ(1, 2, 5));
    NO(linear_register, READ(1, 2, 5), WRITE(3, 4, 5));
    /* New, then old again, though it is beside the write. */
    NO(linear_register, WRITE(1, 9, 5), READ(2, 3, 5), READ(4, 5, 0));
    NO(linear_register, WRITE(1, 9, 5), WRITE(2, 8, 6), READ(3, 4, 6), READ(5, 6, 5),
       READ(10, 11, 6));
    /* Two readers do not agree which of two came first. */
    NO(linear_register, WRITE(1, 2, 5), WRITE(1, 2, 6), READ(3, 4, 5), READ(5, 6, 6));
    /* A lost update; one old value twice; one that was done twice; that was not done. */
    NO(linear_register, ADD(1, 2, 1, 0), ADD(3, 4, 1, 1), READ(5, 6, 1));
    NO(linear_register, ADD(1, 5, 1, 0), ADD(2, 6, 1, 0));
    NO(linear_register, ADD(1, 2, 1, 0), READ(3, 4, 2));
    NO(linear_register, ADD(1, 2, 1, 0), ADD(3, 4, 1, 0));
    /* Two swaps from one value succeed; one that succeeded did nothing; one that did not, did. */
    NO(linear_register, SWAP(1, 5, 0, 7, 0), SWAP(2, 6, 0, 8, 0));
    NO(linear_register, SWAP(1, 2, 0, 7, 0), READ(3, 4, 0));
    NO(linear_register, SWAP(1, 2, 3, 7, 0), READ(3, 4, 7));
    /* Of two exchanges one has what the other put; and it stays. */
    NO(linear_register, EXCHANGE(1, 5, 7, 0), EXCHANGE(2, 6, 8, 0));
    NO(linear_register, EXCHANGE(1, 2, 7, 0), READ(3, 4, 0));
}

static void what_has_no_end_is_no_excuse(void **state)
{
    (void)state;
    NO(linear_register, WRITE(1, N, 5), READ(2, 3, 5), READ(4, 5, 0)); /* flips back */
    NO(linear_register, READ(1, 2, 5), WRITE(3, N, 5));                /* not begun yet */
    NO(linear_register, WRITE(1, N, 5), READ(2, 3, 5), WRITE(4, 5, 6), READ(6, 7, 5)); /* twice */
    NO(linear_register, ADD(1, N, 1, 0), READ(2, 3, 2)); /* done twice */
    NO(linear_register, ADD(1, N, 1, 0), READ(2, 3, 1), READ(4, 5, 2));
    NO(linear_register, ADD(5, N, 1, 0), ADD(1, 2, 1, 0), ADD(3, 4, 1, 2));
    NO(linear_register, SWAP(1, N, 3, 4, 0), READ(2, 3, 4));
    NO(linear_register, EXCHANGE(1, N, 4, 0), READ(2, 3, 4), WRITE(4, 5, 6), READ(6, 7, 4));
}

static void a_lock_is_one_holders(void **state)
{
    (void)state;
    YES(linear_lock, HOLD(1, 4, LINEAR_LOCK, 0, 1), HOLD(2, 8, LINEAR_LOCK, 1, 1),
        HOLD(5, 6, LINEAR_UNLOCK, 0, 1));
    YES(linear_lock, HOLD(1, 2, LINEAR_SHARE, 0, 1), HOLD(3, 4, LINEAR_SHARE, 1, 1),
        HOLD(5, 6, LINEAR_LOCK, 2, 0), HOLD(7, 8, LINEAR_UNLOCK, 0, 1),
        HOLD(9, 10, LINEAR_UNLOCK, 1, 1), HOLD(11, 12, LINEAR_LOCK, 2, 1));
    YES(linear_lock, HOLD(1, 2, LINEAR_LOCK, 0, 1), HOLD(3, N, LINEAR_UNLOCK, 0, 1),
        HOLD(4, 5, LINEAR_LOCK, 1, 1)); /* it let go, or died */
    YES(linear_lock, HOLD(1, N, LINEAR_LOCK, 0, 1), HOLD(2, 3, LINEAR_LOCK, 1, 0));
    NO(linear_lock, HOLD(1, 4, LINEAR_LOCK, 0, 1), HOLD(2, 5, LINEAR_LOCK, 1, 1));
    NO(linear_lock, HOLD(1, 2, LINEAR_LOCK, 0, 1), HOLD(3, 6, LINEAR_LOCK, 1, 1),
       HOLD(7, 8, LINEAR_UNLOCK, 0, 1)); /* while the other had it */
    NO(linear_lock, HOLD(1, 2, LINEAR_SHARE, 0, 1), HOLD(3, 4, LINEAR_LOCK, 1, 1));
    NO(linear_lock, HOLD(1, 2, LINEAR_LOCK, 0, 1), HOLD(3, 4, LINEAR_SHARE, 1, 1));
    NO(linear_lock, HOLD(1, 2, LINEAR_LOCK, 0, 0));   /* nobody had it */
    NO(linear_lock, HOLD(1, 2, LINEAR_UNLOCK, 0, 1)); /* it had nothing */
    NO(linear_lock, HOLD(1, 2, LINEAR_LOCK, 0, 1), HOLD(3, 4, LINEAR_UNLOCK, 1, 1));
    NO(linear_lock, HOLD(1, N, LINEAR_LOCK, 0, 1), HOLD(2, 3, LINEAR_LOCK, 1, 0),
       HOLD(4, 5, LINEAR_LOCK, 1, 1)); /* who was refused knows that it is held */
}

/* ---- recorded ------------------------------------------------------------- */

static void a_history_is_what_was_recorded(void **state)
{
    struct linear_history history = {0}, more = {0};
    size_t n;

    (void)state;
    for (uint64_t time = 1; time <= 200; time += 2) {
        n = linear_begin(&history, (struct linear_op){.kind = LINEAR_ADD, .given = 1}, time);
        linear_end(&history, n, time / 2, time + 1);
    }
    n = linear_begin(&more, (struct linear_op){.kind = LINEAR_WRITE, .given = 9}, 201);
    linear_cancel(&more, n);
    (void)linear_begin(&more, (struct linear_op){.kind = LINEAR_ADD, .given = 5}, 202);
    n = linear_begin(&more, (struct linear_op){.kind = LINEAR_READ}, 203);
    linear_end(&more, n, 105, 204);
    assert_true(linear_append(&history, &more));
    assert_int_equal(history.count, 103);
    assert_int_equal(verdict_of(history.ops, history.count, linear_register), LINEAR_YES);
    history.ops[102].found = 9; /* of what did not happen */
    assert_int_equal(verdict_of(history.ops, history.count, linear_register), LINEAR_NO);
    linear_free(&more);
    linear_free(&history);
}

/* ---- long ones ------------------------------------------------------------ */

enum {
    THREADS = 8,
    LONG = 20000,
    MOST = 6
};

/* What each thread has under way, in a word that does each operation at one moment. */
struct doing {
    size_t number;
    bool is_begun, is_done;
    uint64_t found;
};

static void do_it(struct linear_history *history, struct doing *doing, uint64_t *word)
{
    struct linear_op *op = &history->ops[doing->number];

    doing->found = *word;
    doing->is_done = true;
    if (op->kind == LINEAR_WRITE || op->kind == LINEAR_EXCHANGE ||
        (op->kind == LINEAR_SWAP && op->compare == *word)) {
        *word = op->given;
    } else if (op->kind == LINEAR_ADD) {
        *word += op->given;
    }
}

/* Of a true word: threads begin, do and end in any order; some never hear of an end. */
static void make_true(struct linear_history *history, size_t count, uint32_t threads,
                      uint32_t values, uint32_t rare, uint64_t *random)
{
    struct doing doing[THREADS] = {{0}};
    uint64_t word = 0;
    size_t over = 0;

    history->count = 0;
    for (uint64_t time = 1; over < count; time++) {
        struct doing *one = &doing[(support_random(random) >> 20) % threads];
        uint64_t r = support_random(random) >> 16;
        struct linear_op op = {.kind = LINEAR_READ + r % 5, .given = 1 + r / 16 % values};

        op.compare = r >> 40 & 1 ? word : r / 16 % values;
        if (!one->is_begun && history->count < count) {
            *one = (struct doing){.is_begun = true, .number = linear_begin(history, op, time)};
        } else if (one->is_begun && (r >> 12) % (4 * rare) == 0) { /* done or not */
            one->is_begun = false;
            over++;
        } else if (one->is_begun && !one->is_done && r % 3 != 0) {
            do_it(history, one, &word);
        } else if (one->is_done && r >> 8 & 1) {
            linear_end(history, one->number, one->found, time);
            *one = (struct doing){.is_begun = false};
            over++;
        }
    }
}

static void long_ones_are_judged(void **state)
{
    uint64_t random = support_seed(), most = 0;
    struct linear_history history = {0};

    (void)state;
    for (uint32_t n = 0; n < 5; n++) {
        struct linear_result result;
        size_t at;

        make_true(&history, LONG, THREADS, 1u << 30, 20000, &random);
        result = linear_check(history.ops, history.count, linear_register, 0, LINEAR_STEPS);
        if (result.verdict != LINEAR_YES) {
            linear_say(stdout, history.ops, history.count, &result);
        }
        assert_int_equal(result.verdict, LINEAR_YES);
        most = result.steps > most ? result.steps : most;
        for (at = LONG / 2;
             history.ops[at].kind != LINEAR_READ || history.ops[at].ended == LINEAR_NEVER; at++) {
        }
        history.ops[at].found ^= 1;
        result = linear_check(history.ops, history.count, linear_register, 0, LINEAR_STEPS);
        assert_int_equal(result.verdict, LINEAR_NO);
    }
    print_message("# most steps of %u: %llu\n", LONG, (unsigned long long)most);
    linear_free(&history);
}

/* Writes that nobody can tell the order of, and a read of none of them. */
static void what_takes_too_long_is_not_decided(void **state)
{
    struct linear_op ops[40];
    struct linear_result result;

    (void)state;
    for (uint32_t n = 0; n < 39; n++) {
        ops[n] = (struct linear_op)ADD(1, N, UINT64_C(1) << n, 0);
    }
    ops[39] = (struct linear_op)READ(2, 3, UINT64_C(1) << 40);
    result = linear_check(ops, 40, linear_register, 0, 100000);
    assert_int_equal(result.verdict, LINEAR_UNDECIDED);
    assert_int_equal(result.steps, 100000);
    ops[39].found = 5;
    assert_int_equal(linear_check(ops, 3, linear_register, 0, 100000).verdict, LINEAR_YES);
}

/* Who writes for long beside many others, and is not seen, is put anywhere. */
static void what_nobody_sees_takes_no_time(void **state)
{
    enum {
        WIDE = 30,
        NARROW = 40
    };
    struct linear_op ops[WIDE + 2 * NARROW];
    uint32_t count = 0;

    (void)state;
    for (uint32_t n = 0; n < WIDE; n++) {
        ops[count++] = (struct linear_op)WRITE(1 + n, 10000 + n, 1000 + n);
    }
    for (uint32_t n = 0; n < NARROW; n++) {
        ops[count++] = (struct linear_op)WRITE(100 + 10 * n, 103 + 10 * n, 1 + n);
        ops[count++] = (struct linear_op)READ(104 + 10 * n, 106 + 10 * n, 1 + n);
    }
    assert_int_equal(linear_check(ops, count, linear_register, 0, 10000).verdict, LINEAR_YES);
    ops[count - 1].found = NARROW - 1;
    assert_int_equal(linear_check(ops, count, linear_register, 0, 10000).verdict, LINEAR_NO);
    ops[count - 1].found = 1000; /* that one is seen: it is behind all the others */
    assert_int_equal(linear_check(ops, count, linear_register, 0, 10000).verdict, LINEAR_YES);
}

/* ---- small ones, by all orders -------------------------------------------- */

/* Whether these, in this order, are a history of a register, and each began before those ended
 * that are put behind it. */
static bool is_order(const struct linear_op *ops, const uint32_t *order, uint32_t count)
{
    uint64_t value = 0;

    for (uint32_t n = 0; n < count; n++) {
        const struct linear_op *op = &ops[order[n]];

        for (uint32_t m = n + 1; m < count; m++) {
            if (ops[order[m]].ended < op->begun) {
                return false;
            }
        }
        if (op->kind != LINEAR_WRITE && op->ended != LINEAR_NEVER && op->found != value) {
            return false;
        }
        value = op->kind == LINEAR_WRITE || op->kind == LINEAR_EXCHANGE ? op->given
                : op->kind == LINEAR_ADD                                ? value + op->given
                : op->kind == LINEAR_SWAP && value == op->compare       ? op->given
                                                                        : value;
    }
    return true;
}

static bool any_order(const struct linear_op *ops, uint32_t *order, uint32_t fixed, uint32_t count)
{
    if (fixed == count) {
        return is_order(ops, order, count);
    }
    for (uint32_t n = fixed; n < count; n++) {
        uint32_t kept = order[fixed];
        bool is_one;

        order[fixed] = order[n];
        order[n] = kept;
        is_one = any_order(ops, order, fixed + 1, count);
        order[n] = order[fixed];
        order[fixed] = kept;
        if (is_one) {
            return true;
        }
    }
    return false;
}

/* All that ended, with any of what did not, in any order. */
static bool brute_force(const struct linear_op *ops, uint32_t count)
{
    for (uint32_t with = 0; with < 1u << count; with++) {
        uint32_t order[MOST], used = 0;
        bool has_all = true;

        for (uint32_t n = 0; n < count; n++) {
            has_all = has_all && ((with >> n & 1) != 0 || ops[n].ended == LINEAR_NEVER);
            if ((with >> n & 1) != 0) {
                order[used++] = n;
            }
        }
        if (has_all && any_order(ops, order, 0, used)) {
            return true;
        }
    }
    return false;
}

static void small_ones_are_judged_as_by_all_orders(void **state)
{
    uint64_t random = support_seed();
    uint32_t counts[3] = {0}, open = 0;
    struct linear_history history = {0};

    (void)state;
    for (uint32_t n = 0; n < 20000; n++) {
        uint32_t count = 1 + (uint32_t)(support_random(&random) >> 20) % MOST;
        bool is_one;
        enum linear_verdict verdict;

        make_true(&history, count, 4, 3, 4, &random);
        if (n % 2 != 0) { /* another than it was */
            history.ops[(support_random(&random) >> 20) % count].found =
                (support_random(&random) >> 20) % 4;
        }
        for (uint32_t m = 0; m < count; m++) {
            open += history.ops[m].ended == LINEAR_NEVER;
        }
        is_one = brute_force(history.ops, count);
        verdict = verdict_of(history.ops, count, linear_register);
        assert_true(n % 2 != 0 || is_one);
        assert_int_equal(verdict, is_one ? LINEAR_YES : LINEAR_NO);
        counts[verdict]++;
    }
    print_message("# %u yes, %u no, %u operations without an end\n", counts[LINEAR_YES],
                  counts[LINEAR_NO], open);
    assert_true(counts[LINEAR_NO] > 1000 && open > 1000);
    linear_free(&history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_have_happened_is_taken),
        cmocka_unit_test(what_has_no_end_happened_or_not),
        cmocka_unit_test(words_are_apart),
        cmocka_unit_test(planted_violations_are_refused),
        cmocka_unit_test(what_has_no_end_is_no_excuse),
        cmocka_unit_test(a_lock_is_one_holders),
        cmocka_unit_test(a_history_is_what_was_recorded),
        cmocka_unit_test(long_ones_are_judged),
        cmocka_unit_test(what_takes_too_long_is_not_decided),
        cmocka_unit_test(what_nobody_sees_takes_no_time),
        cmocka_unit_test(small_ones_are_judged_as_by_all_orders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
