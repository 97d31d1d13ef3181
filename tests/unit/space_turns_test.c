/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it is, at a block's home and at a node that has it: who came first, the clients of a
 * node as one; nobody who reads passes a writer that waits; what another node waits for goes
 * before what clients here want next. And what each access costs in messages.
 */
#include <string.h>

#include "space/home.h"
#include "support/support.h"

#define HOME 0u
#define SELF 1u
#define ALL  0xffu

static struct space_home home;
static struct space_entry entry;
static struct space_work work;
static struct space_cache cache;
static struct space_line line;
static struct space_out out;

static int set_up(void **state)
{
    (void)state;
    home = (struct space_home){.term = 1, .self = HOME, .members = ALL, .remembers = true};
    cache = (struct space_cache){.term = 1, .self = SELF, .home = HOME, .is_open = true};
    memset(&entry, 0, sizeof(entry));
    memset(&work, 0, sizeof(work));
    memset(&line, 0, sizeof(line));
    return 0;
}

static enum space_result at_home(uint8_t event, uint8_t seat)
{
    struct space_message message = {
        .event = event, .seat = seat, .whom = SPACE_NOBODY, .term = 1, .epoch = {1, entry.count}};

    return space_home_step(&home, &entry, &work, &message, &out);
}

static enum space_result at_node(uint8_t event, uint8_t seat)
{
    struct space_message message = {
        .event = event, .seat = seat, .whom = 3, .term = cache.term, .epoch = line.epoch};

    return space_cache_step(&cache, &line, &message, &out);
}

static void claim_says(uint32_t at, uint8_t event, uint8_t seat)
{
    assert_true(at < out.count);
    assert_int_equal(out.sends[at].event, event);
    assert_int_equal(out.sends[at].seat, seat);
}

/* ---- the home ------------------------------------------------------------- */

static void who_asked_first_is_first_and_the_home_is_one_of_them(void **state)
{
    (void)state;
    assert_int_equal(at_home(SPACE_HOME_LOCK_WRITE, HOME), SPACE_DONE);
    assert_int_equal(at_home(SPACE_HOME_ASK_WRITE, 1), SPACE_DONE);
    assert_int_equal(at_home(SPACE_HOME_LOCK_WRITE, HOME), SPACE_WAITS);
    assert_int_equal(at_home(SPACE_HOME_READ, HOME), SPACE_WAITS);
    assert_int_equal(at_home(SPACE_HOME_ASK_READ, 2), SPACE_DONE);
    assert_int_equal(out.count, 0);
    assert_int_equal(work.queued, 3);
    /* Node 1, */
    assert_int_equal(at_home(SPACE_HOME_UNLOCK, HOME), SPACE_DONE);
    assert_int_equal(out.count, 2);
    claim_says(0, SPACE_CACHE_OWN, 1);
    claim_says(1, SPACE_CACHE_FETCH_INVALIDATE, 1);
    /* then the home, once, */
    assert_int_equal(at_home(SPACE_HOME_WRITE_BACK, 1), SPACE_DONE);
    assert_true(out.wakes);
    assert_int_equal(out.count, 1);
    claim_says(0, SPACE_CACHE_RELEASE, 1);
    assert_int_equal(at_home(SPACE_HOME_LOCK_WRITE, HOME), SPACE_DONE);
    assert_int_equal(at_home(SPACE_HOME_READ, HOME), SPACE_WAITS);
    assert_int_equal(at_home(SPACE_HOME_YIELD, HOME), SPACE_DONE);
    assert_int_equal(out.count, 0);
    /* then node 2, and only then the home again. */
    assert_int_equal(at_home(SPACE_HOME_UNLOCK, HOME), SPACE_DONE);
    claim_says(0, SPACE_CACHE_SHARE, 2);
    assert_true(out.wakes);
    assert_int_equal(at_home(SPACE_HOME_YIELD, HOME), SPACE_DONE);
    assert_true(space_work_is_idle(&entry, &work));
}

static void nobody_reads_past_a_writer_that_waits_at_the_home(void **state)
{
    (void)state;
    assert_int_equal(at_home(SPACE_HOME_LOCK_READ, HOME), SPACE_DONE);
    assert_int_equal(at_home(SPACE_HOME_ASK_READ, 1), SPACE_DONE);
    claim_says(0, SPACE_CACHE_SHARE, 1);
    assert_int_equal(at_home(SPACE_HOME_ASK_WRITE, 2), SPACE_DONE);
    assert_int_equal(at_home(SPACE_HOME_ASK_READ, 3), SPACE_DONE);
    assert_int_equal(out.count, 0);
    assert_int_equal(at_home(SPACE_HOME_LOCK_READ, HOME), SPACE_WAITS);
    assert_int_equal(at_home(SPACE_HOME_UNLOCK, HOME), SPACE_DONE);
    claim_says(0, SPACE_CACHE_INVALIDATE, 1);
    assert_int_equal(out.count, 1);
}

/* All nodes there can be ask at once, and each has what it asked for. */
static void as_many_wait_as_there_are(void **state)
{
    uint32_t served = 0;

    (void)state;
    home.members = UINT64_MAX;
    assert_int_equal(at_home(SPACE_HOME_LOCK_WRITE, HOME), SPACE_DONE);
    for (uint8_t seat = 1; seat < SPACE_SEATS; seat++) {
        assert_int_equal(at_home(SPACE_HOME_ASK_READ, seat), SPACE_DONE);
    }
    assert_int_equal(at_home(SPACE_HOME_WRITE, HOME), SPACE_WAITS);
    assert_int_equal(at_home(SPACE_HOME_UNLOCK, HOME), SPACE_DONE);
    for (uint32_t n = 0; n < out.count; n++) {
        served += out.sends[n].event == SPACE_CACHE_SHARE;
    }
    assert_int_equal(served, SPACE_SEATS - 1);
    assert_int_equal(out.count, 2 * (SPACE_SEATS - 1)); /* and INVALIDATE, for the home's writer */
    for (uint8_t seat = 1; seat < SPACE_SEATS; seat++) {
        assert_false(out.wakes);
        assert_int_equal(at_home(SPACE_HOME_ACK, seat), SPACE_DONE);
    }
    assert_true(out.wakes);
}

/* ---- a node --------------------------------------------------------------- */

static void have(uint8_t state)
{
    line = (struct space_line){.state = state, .epoch = {1, 1}};
}

static void nobody_reads_past_who_waits_at_a_node(void **state)
{
    (void)state;
    have(SPACE_CACHE_SHARED);
    assert_int_equal(at_node(SPACE_CACHE_LOCK_READ, SELF), SPACE_DONE);
    assert_int_equal(at_node(SPACE_CACHE_INVALIDATE, HOME), SPACE_DONE);
    assert_int_equal(at_node(SPACE_CACHE_LOCK_READ, SELF), SPACE_WAITS);
    have(SPACE_CACHE_SHARED);
    assert_int_equal(at_node(SPACE_CACHE_LOCK_READ, SELF), SPACE_DONE);
    assert_int_equal(at_node(SPACE_CACHE_LOCK_WRITE, SELF), SPACE_WAITS);
    assert_int_equal(at_node(SPACE_CACHE_LOCK_READ, SELF), SPACE_WAITS);
}

static void what_another_node_waits_for_goes_first(void **state)
{
    (void)state;
    have(SPACE_CACHE_DIRTY);
    assert_int_equal(at_node(SPACE_CACHE_LOCK_WRITE, SELF), SPACE_DONE);
    assert_int_equal(at_node(SPACE_CACHE_LOCK_WRITE, SELF), SPACE_WAITS);
    assert_int_equal(at_node(SPACE_CACHE_WRITE_FORWARD, HOME), SPACE_DONE);
    assert_int_equal(out.count, 0);
    assert_int_equal(at_node(SPACE_CACHE_UNLOCK, SELF), SPACE_DONE);
    claim_says(0, SPACE_CACHE_OWN, 3);
    assert_int_equal(line.state, SPACE_CACHE_HANDED);
    assert_true(out.wakes);
    assert_int_equal(at_node(SPACE_CACHE_LOCK_WRITE, SELF), SPACE_WAITS);
}

/* A lock that nobody else wants is taken again without a word to anybody. */
static void what_is_held_stays_here(void **state)
{
    (void)state;
    have(SPACE_CACHE_DIRTY);
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(at_node(SPACE_CACHE_LOCK_WRITE, SELF), SPACE_DONE);
        assert_int_equal(out.count, 0);
        assert_int_equal(at_node(SPACE_CACHE_READ, SELF), SPACE_WAITS);
        assert_int_equal(at_node(SPACE_CACHE_UNLOCK, SELF), SPACE_DONE);
        assert_int_equal(out.count, 0);
    }
    assert_int_equal(at_node(SPACE_CACHE_EVICT, SELF), SPACE_DONE);
    claim_says(0, SPACE_HOME_WRITE_BACK, HOME);
}

/* Readers that share a lock are as many as one byte counts, and no more: one that waits for room
 * has it as soon as one lets go. */
static void so_many_hold_a_block_to_read(void **state)
{
    (void)state;
    have(SPACE_CACHE_SHARED);
    for (uint32_t n = 0; n + 1 < SPACE_HELD_ALONE; n++) {
        assert_int_equal(at_node(SPACE_CACHE_LOCK_READ, SELF), SPACE_DONE);
        assert_int_equal(at_home(SPACE_HOME_LOCK_READ, HOME), SPACE_DONE);
    }
    assert_int_equal(at_node(SPACE_CACHE_LOCK_READ, SELF), SPACE_WAITS);
    assert_int_equal(at_home(SPACE_HOME_LOCK_READ, HOME), SPACE_WAITS);
    assert_int_equal(line.holds, SPACE_HELD_ALONE - 1);
    assert_int_equal(entry.holds, SPACE_HELD_ALONE - 1);
    assert_int_equal(at_home(SPACE_HOME_YIELD, HOME), SPACE_DONE); /* in vain */
    assert_int_equal(at_home(SPACE_HOME_ASK_READ, 3), SPACE_DONE);
    claim_says(0, SPACE_CACHE_SHARE, 3);
    assert_int_equal(at_home(SPACE_HOME_READ, HOME), SPACE_DONE);
    assert_false(out.wakes);
    assert_int_equal(at_node(SPACE_CACHE_UNLOCK, SELF), SPACE_DONE);
    assert_true(out.wakes);
    assert_int_equal(at_node(SPACE_CACHE_LOCK_READ, SELF), SPACE_DONE);
    assert_int_equal(at_home(SPACE_HOME_UNLOCK, HOME), SPACE_DONE);
    assert_true(out.wakes);
    assert_int_equal(at_home(SPACE_HOME_LOCK_READ, HOME), SPACE_DONE);
    assert_int_equal(at_home(SPACE_HOME_UNLOCK, HOME), SPACE_DONE);
    assert_int_equal(at_home(SPACE_HOME_UNLOCK, HOME), SPACE_DONE);
    assert_false(out.wakes);
}

static void begin_term(uint32_t term)
{
    cache.term = term;
    cache.is_open = false;
    assert_int_equal(at_node(SPACE_CACHE_ADOPT, SELF), SPACE_DONE);
}

static void open_term(void)
{
    cache.is_open = true;
    assert_int_equal(at_node(SPACE_CACHE_OPEN, SELF), SPACE_DONE);
}

/* What was given in a term that was open is held while the next one begins, too. */
static void what_was_given_is_held_as_a_term_begins(void **state)
{
    static const uint8_t given[] = {SPACE_CACHE_SHARED, SPACE_CACHE_DIRTY};

    (void)state;
    for (uint32_t n = 0; n < sizeof(given); n++) {
        (void)set_up(NULL);
        have(given[n]);
        cache.is_open = false; /* its home is gone */
        assert_int_equal(at_node(SPACE_CACHE_LOCK_READ, SELF), SPACE_DONE);
        begin_term(2);
        assert_int_equal(at_node(SPACE_CACHE_LOCK_READ, SELF), SPACE_DONE);
        open_term();
        assert_int_equal(line.holds, 2);
    }
}

/* What was given back as a term began is held when one is open, be it a later one: a home that is
 * killed before may come back and know nothing of it. */
static void what_was_given_back_is_held_when_a_term_is_open(void **state)
{
    (void)state;
    have(SPACE_CACHE_SHARED);
    assert_int_equal(at_node(SPACE_CACHE_EVICT, SELF), SPACE_DONE);
    begin_term(2);
    assert_int_equal(at_node(SPACE_CACHE_RESTORE, HOME), SPACE_DONE);
    assert_int_equal(at_node(SPACE_CACHE_READ, SELF), SPACE_DONE);
    assert_int_equal(at_node(SPACE_CACHE_LOCK_READ, SELF), SPACE_WAITS);
    cache.term = 3; /* of which this line is not yet */
    assert_int_equal(at_node(SPACE_CACHE_LOCK_READ, SELF), SPACE_WAITS);
    begin_term(3);
    assert_int_equal(at_node(SPACE_CACHE_LOCK_READ, SELF), SPACE_WAITS);
    open_term();
    assert_true(out.wakes);
    begin_term(4);
    assert_int_equal(at_node(SPACE_CACHE_LOCK_READ, SELF), SPACE_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_asked_first_is_first_and_the_home_is_one_of_them, set_up),
        cmocka_unit_test_setup(nobody_reads_past_a_writer_that_waits_at_the_home, set_up),
        cmocka_unit_test_setup(as_many_wait_as_there_are, set_up),
        cmocka_unit_test_setup(nobody_reads_past_who_waits_at_a_node, set_up),
        cmocka_unit_test_setup(what_another_node_waits_for_goes_first, set_up),
        cmocka_unit_test_setup(what_is_held_stays_here, set_up),
        cmocka_unit_test_setup(so_many_hold_a_block_to_read, set_up),
        cmocka_unit_test_setup(what_was_given_is_held_as_a_term_begins, set_up),
        cmocka_unit_test_setup(what_was_given_back_is_held_when_a_term_is_open, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
