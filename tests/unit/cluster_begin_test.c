/* SPDX-License-Identifier: Apache-2.0 */
/* Who kept nothing: when a list begins, and when it does not. */
#include <string.h>

#include "cluster/agree_begin.h"
#include "support/support.h"

#define START_US UINT64_C(5000000)
#define LATER_US (START_US + BEGIN_WAIT_US)

static struct begin begin_of(uint32_t self, uint32_t listed, uint32_t voters, bool joins)
{
    struct begin begin;

    begin_init(&begin, self, listed, voters, joins, false, 100 + self);
    begin_open(&begin, START_US);
    return begin;
}

static struct begin_word word_of(bool is_bare, uint64_t a, uint64_t b, uint64_t c)
{
    return (struct begin_word){.is_bare = is_bare, .tokens = {a, b, c}};
}

static bool hear(struct begin *begin, uint32_t rank, bool is_bare, uint64_t a, uint64_t b,
                 uint64_t c)
{
    struct begin_word word = word_of(is_bare, a, b, c);

    return begin_hear(begin, rank, &word);
}

static void one_alone_waits_for_who_knows(void **state)
{
    struct begin begin = begin_of(0, 1, 1, false);

    (void)state;
    assert_false(begin_may(&begin, LATER_US - 1));
    assert_true(begin_may(&begin, LATER_US));
    assert_true(hear(&begin, 2, true, 0, 0, 0)); /* it has a rank that somebody gave it */
    assert_true(begin_is_late(&begin));
    assert_false(begin_may(&begin, LATER_US * 1000));
}

/* Its memory may take longer than that: who knows of a cluster cannot say so meanwhile. */
static void nobody_begins_whom_others_cannot_reach(void **state)
{
    struct begin begin;

    (void)state;
    begin_init(&begin, 0, 1, 1, false, false, 100);
    assert_false(begin_may(&begin, LATER_US * 1000));
    begin_open(&begin, LATER_US * 1000);
    assert_false(begin_may(&begin, LATER_US * 1000 + BEGIN_WAIT_US - 1));
    assert_true(begin_may(&begin, LATER_US * 1000 + BEGIN_WAIT_US));
}

static void who_was_let_in_once_begins_nothing(void **state)
{
    struct begin begin;

    (void)state;
    begin_init(&begin, 0, 1, 1, false, true, 100);
    begin_open(&begin, START_US);
    assert_false(begin_may(&begin, LATER_US * 1000));
    begin_init(&begin, 0, 3, 3, false, true, 100);
    begin_open(&begin, START_US);
    assert_true(hear(&begin, 1, true, 100, 101, 102));
    assert_true(hear(&begin, 2, true, 100, 101, 102));
    assert_false(begin_may(&begin, LATER_US * 1000));
    assert_true(hear(&begin, 1, false, 100, 101, 102));
    assert_false(begin_may(&begin, LATER_US * 1000));
}

static void one_alone_that_was_told_its_rank_is_not(void **state)
{
    struct begin begin = begin_of(0, 1, 1, true);

    (void)state;
    assert_false(begin_may(&begin, LATER_US * 1000));
    begin = begin_of(0, 2, 1, true); /* of two, who are both new */
    assert_false(begin_may(&begin, LATER_US * 1000));
    assert_true(hear(&begin, 1, true, 0, 0, 0));
    assert_true(begin_may(&begin, LATER_US));
}

static void all_that_vote_must_have_kept_nothing(void **state)
{
    struct begin begin = begin_of(0, 4, 3, false);

    (void)state;
    assert_true(hear(&begin, 1, true, 100, 101, 102));
    assert_false(begin_may(&begin, LATER_US));
    assert_true(hear(&begin, 2, false, 7, 8, 102)); /* it began with others */
    assert_false(begin_may(&begin, LATER_US));
    assert_true(begin_is_late(&begin));
    assert_true(hear(&begin, 2, true, 100, 101, 102)); /* its directory was emptied, too */
    assert_false(begin_is_late(&begin));
    assert_false(begin_may(&begin, LATER_US - 1));
    assert_true(begin_may(&begin, LATER_US));
    assert_true(hear(&begin, 3, false, 0, 0, 0)); /* who does not vote at first knows, too */
    assert_false(begin_may(&begin, LATER_US));
}

/* One of them may have begun with what it was told before. */
static void all_must_know_the_same(void **state)
{
    struct begin begin = begin_of(0, 3, 3, false);

    (void)state;
    assert_true(hear(&begin, 1, true, 100, 101, 0));
    assert_true(hear(&begin, 2, true, 100, 101, 102));
    assert_false(begin_may(&begin, LATER_US));
    assert_true(hear(&begin, 1, true, 100, 101, 102));
    assert_true(begin_may(&begin, LATER_US));
    assert_true(hear(&begin, 2, true, 100, 101, 202)); /* its directory was lost meanwhile */
    assert_false(begin_may(&begin, LATER_US));
    assert_true(hear(&begin, 1, true, 100, 101, 202));
    assert_true(begin_may(&begin, LATER_US));
}

/* Who was counted may begin at once, however late it is. */
static void who_was_counted_begins(void **state)
{
    struct begin begin = begin_of(2, 3, 3, true);

    (void)state;
    assert_true(hear(&begin, 4, false, 100, 101, 102)); /* of a seat, which has no say in this */
    assert_false(begin_may(&begin, START_US));
    assert_true(hear(&begin, 0, false, 100, 101, 102));
    assert_true(begin_may(&begin, START_US));
    assert_false(begin_is_late(&begin));
    assert_int_equal(begin.tokens[0], 100);
    assert_true(hear(&begin, 1, true, 0, 201, 0)); /* what comes after that changes nothing */
    assert_int_equal(begin.tokens[1], 101);
    begin = begin_of(2, 3, 3, false);
    assert_true(hear(&begin, 0, false, 100, 101, 99)); /* with the directory that it had before */
    assert_false(begin_may(&begin, LATER_US));
    assert_true(begin_is_late(&begin));
}

static void what_cannot_be_is_refused(void **state)
{
    struct begin begin = begin_of(0, 3, 3, false);

    (void)state;
    assert_false(hear(&begin, 0, true, 100, 101, 102));
    assert_false(hear(&begin, 1, true, 100, 0, 102));
    assert_false(hear(&begin, 1, false, 100, 0, 102));
    assert_int_equal(agreed_size(&begin.heard), 0);
    assert_false(begin.is_counted);
    assert_true(hear(&begin, 5, false, 100, 101, 102));
    assert_false(begin.is_counted);
    begin = begin_of(3, 4, 3, false); /* who does not vote at first begins nothing */
    assert_false(begin_may(&begin, LATER_US));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_alone_waits_for_who_knows),
        cmocka_unit_test(nobody_begins_whom_others_cannot_reach),
        cmocka_unit_test(who_was_let_in_once_begins_nothing),
        cmocka_unit_test(one_alone_that_was_told_its_rank_is_not),
        cmocka_unit_test(all_that_vote_must_have_kept_nothing),
        cmocka_unit_test(all_must_know_the_same),
        cmocka_unit_test(who_was_counted_begins),
        cmocka_unit_test(what_cannot_be_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
