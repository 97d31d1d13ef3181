/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers of spaces that lie: every message in every state, from whoever should not say it, of a term
 * or an epoch that is none, of itself, of seats that there are not. What is refused changes
 * nothing and says nothing; what is taken leaves what is valid.
 */
#include <string.h>

#include "base/random.h"
#include "space/home.h"
#include "space/term.h"
#include "support/support.h"

#define TERM  5u
#define COUNT 7u
#define SELF  2u
#define HOME  1u
#define OWNER 3u
#define ASKER 4u
#define OTHER 6u
#define ALIEN 9u /* no member */
#define ALL   (1u << HOME | 1u << SELF | 1u << OWNER | 1u << ASKER | 1u << OTHER)

static const struct space_cache cache = {.term = TERM, .self = SELF, .home = HOME, .is_open = true};
static const struct space_home home = {
    .term = TERM, .self = HOME, .members = ALL, .remembers = true};

/* ---- a cache -------------------------------------------------------------- */

static struct space_line line_in(uint8_t state)
{
    struct space_line line = {.state = state, .frame = 3, .epoch = {TERM, COUNT}};

    if (state == SPACE_CACHE_INVALID || state == SPACE_CACHE_TO_SHARED ||
        state == SPACE_CACHE_TO_DIRTY || state == SPACE_CACHE_AT_HOME ||
        state == SPACE_CACHE_LENT) {
        line.epoch = (struct space_epoch){0};
    }
    line.handed_to = state == SPACE_CACHE_HANDED ? OTHER : 0;
    return line;
}

static void claim_cache_refuses(uint8_t state, const struct space_message *message)
{
    struct space_line line = line_in(state), before = line;
    struct space_out out;
    enum space_result result = space_cache_step(&cache, &line, message, &out);

    if (result != SPACE_REFUSED && result != SPACE_STALE) {
        fail_msg("%s takes %s", space_cache_state_name(state),
                 space_cache_event_name(message->event));
    }
    assert_memory_equal(&line, &before, sizeof(line));
    assert_int_equal(out.count, 0);
    assert_false(out.wakes || out.refused || out.in_doubt);
}

static struct space_message to_cache(uint8_t event)
{
    return (struct space_message){
        .event = event, .seat = HOME, .whom = ASKER, .term = TERM, .epoch = {TERM, COUNT}};
}

static void a_cache_takes_nothing_in_a_hole(void **state)
{
    (void)state;
    for (uint8_t s = 0; s < SPACE_CACHE_STATES; s++) {
        for (uint8_t e = 0; e < SPACE_CACHE_EVENTS; e++) {
            struct space_message message = to_cache(e);

            message.seat = space_cache_event_from(e) == SPACE_HERE ? SELF : HOME;
            if (space_cache_row(s, e) == NULL) {
                claim_cache_refuses(s, &message);
            }
        }
    }
}

/* What only the home, or only the own node may say; and what a node says to itself. */
static void a_cache_takes_nothing_from_who_may_not_say_it(void **state)
{
    (void)state;
    for (uint8_t s = 0; s < SPACE_CACHE_STATES; s++) {
        for (uint8_t e = 0; e < SPACE_CACHE_EVENTS; e++) {
            static const uint8_t seats[] = {HOME, SELF, OWNER, SPACE_SEATS, SPACE_NOBODY};
            enum space_from from = space_cache_event_from(e);

            for (uint32_t n = 0; n < sizeof(seats); n++) {
                struct space_message message = to_cache(e);
                bool may = from == SPACE_HERE       ? seats[n] == SELF
                           : from == SPACE_THE_HOME ? seats[n] == HOME
                                                    : seats[n] == HOME || seats[n] == OWNER;

                message.seat = seats[n];
                if (!may) {
                    claim_cache_refuses(s, &message);
                }
            }
        }
    }
}

static void a_cache_takes_nothing_of_another_term(void **state)
{
    (void)state;
    for (uint8_t s = 0; s < SPACE_CACHE_STATES; s++) {
        for (uint8_t e = 0; e < SPACE_CACHE_EVENTS; e++) {
            struct space_message message = to_cache(e);

            for (message.term = TERM - 1; message.term <= TERM + 1; message.term += 2) {
                if (space_cache_event_from(e) != SPACE_HERE) {
                    claim_cache_refuses(s, &message);
                }
            }
        }
    }
}

/* Of a right that this node does not have, or did not give up. */
static void a_cache_gives_up_no_other_right(void **state)
{
    static const uint8_t wants[] = {SPACE_CACHE_INVALIDATE,       SPACE_CACHE_FETCH_SHARED,
                                    SPACE_CACHE_FETCH_INVALIDATE, SPACE_CACHE_READ_FORWARD,
                                    SPACE_CACHE_WRITE_FORWARD,    SPACE_CACHE_RELEASE};
    static const struct space_epoch others[] = {
        {TERM, COUNT - 1}, {TERM, COUNT + 1}, {TERM - 1, COUNT}, {TERM, 0}};

    (void)state;
    for (uint8_t s = 0; s < SPACE_CACHE_STATES; s++) {
        for (uint32_t n = 0; n < sizeof(wants); n++) {
            for (uint32_t k = 0; k < sizeof(others) / sizeof(*others); k++) {
                struct space_message message = to_cache(wants[n]);

                message.epoch = others[k];
                claim_cache_refuses(s, &message);
            }
        }
    }
}

static void a_cache_hands_nothing_to_nobody(void **state)
{
    static const uint8_t whoms[] = {SELF, HOME, SPACE_SEATS, SPACE_NOBODY};

    (void)state;
    for (uint32_t n = 0; n < sizeof(whoms); n++) {
        struct space_message message = to_cache(SPACE_CACHE_READ_FORWARD);

        message.whom = whoms[n];
        claim_cache_refuses(SPACE_CACHE_DIRTY, &message);
        message.event = SPACE_CACHE_WRITE_FORWARD;
        claim_cache_refuses(SPACE_CACHE_DIRTY, &message);
    }
}

/* A home that wants two things of one right that is held. */
static void a_cache_owes_one_thing(void **state)
{
    struct space_line line = line_in(SPACE_CACHE_DIRTY), before;
    struct space_message message = to_cache(SPACE_CACHE_WRITE_FORWARD);
    struct space_out out;

    (void)state;
    line.holds = SPACE_HELD_ALONE;
    assert_int_equal(space_cache_step(&cache, &line, &message, &out), SPACE_DONE);
    assert_int_equal(line.owed, SPACE_CACHE_WRITE_FORWARD);
    before = line;
    message.event = SPACE_CACHE_FETCH_INVALIDATE;
    assert_int_equal(space_cache_step(&cache, &line, &message, &out), SPACE_REFUSED);
    assert_memory_equal(&line, &before, sizeof(line));
}

/* It writes nothing before its home has the bytes: others may be told to forget theirs then. */
static void who_has_again_what_it_gave_up_reads_it(void **state)
{
    static const uint8_t states[] = {SPACE_CACHE_EVICTING, SPACE_CACHE_WRITING_BACK,
                                     SPACE_CACHE_HANDED};

    (void)state;
    for (uint32_t n = 0; n < sizeof(states); n++) {
        struct space_line line = line_in(states[n]);
        struct space_message message = to_cache(SPACE_CACHE_RESTORE);
        struct space_out out;

        line.wants_write = true;
        line.epoch.term = TERM - 1;
        message.epoch.count = 0;
        assert_int_equal(space_cache_step(&cache, &line, &message, &out), SPACE_DONE);
        assert_true(space_line_is_readable(&line) && !space_line_is_writable(&line));
        assert_false(line.is_homes); /* that has them when these have come */
        assert_int_equal(line.handed_to, 0);
        assert_int_equal(out.count, 1);
        assert_int_equal(out.sends[0].event, SPACE_HOME_BYTES);
        assert_int_equal(out.sends[0].seat, HOME);
        assert_int_equal(out.sends[0].epoch.term, TERM);
        assert_int_equal(out.sends[0].epoch.count, 0);
        assert_true(out.wakes);
    }
}

/* ---- a home --------------------------------------------------------------- */

struct block {
    struct space_entry entry;
    struct space_work work;
};

static void set_busy(struct block *block, uint8_t ask, uint64_t seats, uint64_t waits)
{
    block->entry.seats = seats;
    block->work.waits = waits;
    block->work.asker = ASKER;
    block->work.ask = ask;
}

static struct block block_in(uint8_t state)
{
    struct block block = {.entry = {.state = state, .count = COUNT}};
    uint64_t owner = space_bit(OWNER), asker = space_bit(ASKER);

    switch ((enum space_home_state)state) {
    case SPACE_HOME_SHARED: block.entry.seats = owner | space_bit(OTHER); break;
    case SPACE_HOME_DIRTY:
    case SPACE_HOME_CLAIMED: block.entry.seats = owner; break;
    case SPACE_HOME_CLEARING: set_busy(&block, SPACE_HOME_ASK_ATOMIC, owner, owner); break;
    case SPACE_HOME_RECALLING: set_busy(&block, SPACE_HOME_ASK_ATOMIC, owner, owner); break;
    case SPACE_HOME_DEMOTING:
        set_busy(&block, SPACE_HOME_READ, owner, owner);
        block.work.asker = HOME;
        break;
    case SPACE_HOME_SHARING: set_busy(&block, SPACE_HOME_ASK_READ, owner, owner | asker); break;
    case SPACE_HOME_GRANTING: set_busy(&block, SPACE_HOME_ASK_WRITE, owner | asker, owner); break;
    case SPACE_HOME_PASSING: set_busy(&block, SPACE_HOME_ASK_WRITE, owner, asker); break;
    default: break;
    }
    if (state == SPACE_HOME_REBUILDING || state == SPACE_HOME_BARE || state == SPACE_HOME_CLAIMED ||
        state == SPACE_HOME_AWAY) {
        block.work.asker = block.work.owner = block.work.leaver = SPACE_NOBODY;
    }
    return block;
}

static void claim_home_refuses(uint8_t state, const struct space_message *message)
{
    struct block block = block_in(state), before = block;
    struct space_out out;
    enum space_result result = space_home_step(&home, &block.entry, &block.work, message, &out);

    if (result != SPACE_REFUSED && result != SPACE_STALE) {
        fail_msg("%s takes %s from seat %u", space_home_state_name(state),
                 space_home_event_name(message->event), message->seat);
    }
    assert_memory_equal(&block, &before, sizeof(block));
    assert_int_equal(out.count, 0);
    assert_false(out.wakes);
}

static struct space_message to_home(uint8_t event, uint8_t seat)
{
    return (struct space_message){
        .event = event, .seat = seat, .whom = SPACE_NOBODY, .term = TERM, .epoch = {TERM, COUNT}};
}

static void a_home_takes_nothing_in_a_hole(void **state)
{
    (void)state;
    for (uint8_t s = 0; s < SPACE_HOME_STATES; s++) {
        for (uint8_t e = 0; e < SPACE_HOME_EVENTS; e++) {
            struct space_message message =
                to_home(e, space_home_event_from(e) == SPACE_HERE ? HOME : OWNER);

            if (space_home_row(s, e) == NULL) {
                claim_home_refuses(s, &message);
            }
        }
    }
}

static void a_home_takes_nothing_from_who_may_not_say_it(void **state)
{
    static const uint8_t seats[] = {HOME, ALIEN, SPACE_SEATS, SPACE_NOBODY};

    (void)state;
    for (uint8_t s = 0; s < SPACE_HOME_STATES; s++) {
        for (uint8_t e = 0; e < SPACE_HOME_EVENTS; e++) {
            for (uint32_t n = 0; n < sizeof(seats); n++) {
                struct space_message message = to_home(e, seats[n]);

                if (space_home_event_from(e) == SPACE_HERE) {
                    message.seat = n == 0 ? (uint8_t)OWNER : seats[n];
                }
                claim_home_refuses(s, &message);
            }
        }
    }
}

static void a_home_takes_nothing_of_another_term(void **state)
{
    (void)state;
    for (uint8_t s = 0; s < SPACE_HOME_STATES; s++) {
        for (uint8_t e = 0; e < SPACE_HOME_EVENTS; e++) {
            struct space_message message = to_home(e, OWNER);

            for (message.term = TERM - 1; message.term <= TERM + 1; message.term += 2) {
                if (space_home_event_from(e) != SPACE_HERE) {
                    claim_home_refuses(s, &message);
                }
            }
        }
    }
}

/* Answers, and what is given up: by who does not have it, or of another epoch. */
static void a_home_takes_no_answer_of_who_was_not_asked(void **state)
{
    static const uint8_t answers[] = {SPACE_HOME_ACK, SPACE_HOME_BYTES, SPACE_HOME_GOT,
                                      SPACE_HOME_EVICT, SPACE_HOME_WRITE_BACK};
    static const uint8_t seats[] = {OWNER, ASKER, OTHER};

    (void)state;
    for (uint8_t s = 0; s < SPACE_HOME_STATES; s++) {
        for (uint32_t n = 0; n < sizeof(answers); n++) {
            struct block block = block_in(s);
            uint64_t may = (block.entry.seats | block.work.waits) & ALL;

            for (uint32_t k = 0; k < sizeof(seats); k++) {
                struct space_message message = to_home(answers[n], seats[k]);

                message.epoch.count = COUNT + 2;
                claim_home_refuses(s, &message);
                message.epoch = (struct space_epoch){TERM - 1, COUNT};
                claim_home_refuses(s, &message);
                message.epoch = (struct space_epoch){TERM, COUNT};
                if (!space_set_has(may, seats[k])) {
                    claim_home_refuses(s, &message);
                }
            }
        }
    }
}

static void a_home_is_not_asked_twice(void **state)
{
    static const uint8_t asks[] = {SPACE_HOME_ASK_READ, SPACE_HOME_ASK_WRITE,
                                   SPACE_HOME_ASK_ATOMIC};

    (void)state;
    for (uint8_t s = SPACE_HOME_CLEARING; s <= SPACE_HOME_PASSING; s++) {
        for (uint32_t n = 0; n < sizeof(asks); n++) {
            struct block block = block_in(s), before;
            struct space_message message = to_home(asks[n], OTHER);
            struct space_out out;

            if (block.work.asker == ASKER) {
                struct space_message again = to_home(asks[n], ASKER);

                claim_home_refuses(s, &again);
            }
            assert_int_equal(space_home_step(&home, &block.entry, &block.work, &message, &out),
                             SPACE_DONE);
            before = block;
            assert_int_equal(space_home_step(&home, &block.entry, &block.work, &message, &out),
                             SPACE_REFUSED);
            assert_memory_equal(&block, &before, sizeof(block));
        }
    }
}

/* Who has it asks for it. */
static void a_home_gives_nobody_what_it_has(void **state)
{
    static const uint8_t asks[] = {SPACE_HOME_ASK_READ, SPACE_HOME_ASK_WRITE,
                                   SPACE_HOME_ASK_ATOMIC};

    (void)state;
    for (uint32_t n = 0; n < sizeof(asks); n++) {
        struct space_message message = to_home(asks[n], OWNER);

        if (asks[n] != SPACE_HOME_ASK_WRITE) {
            claim_home_refuses(SPACE_HOME_SHARED, &message);
            claim_home_refuses(SPACE_HOME_CLEARING, &message);
            claim_home_refuses(SPACE_HOME_GRANTING, &message);
        }
        claim_home_refuses(SPACE_HOME_DIRTY, &message);
        claim_home_refuses(SPACE_HOME_RECALLING, &message);
        claim_home_refuses(SPACE_HOME_DEMOTING, &message);
        claim_home_refuses(SPACE_HOME_SHARING, &message);
        claim_home_refuses(SPACE_HOME_PASSING, &message);
    }
}

static void two_do_not_claim_a_block_alone(void **state)
{
    struct space_message message = to_home(SPACE_HOME_CLAIM_DIRTY, OTHER);

    (void)state;
    message.epoch.term = TERM - 1;
    claim_home_refuses(SPACE_HOME_CLAIMED, &message);
    message.event = SPACE_HOME_CLAIM_SHARED;
    claim_home_refuses(SPACE_HOME_CLAIMED, &message);
    message = to_home(SPACE_HOME_CLAIM_LEFT, OWNER);
    message.epoch.term = TERM - 1;
    claim_home_refuses(SPACE_HOME_CLAIMED, &message);
}

/* All rights of this term are yet to be given; and who gave a block away gave it to somebody. */
static void nobody_claims_what_was_not_given(void **state)
{
    static const uint8_t claims[] = {SPACE_HOME_CLAIM_SHARED, SPACE_HOME_CLAIM_DIRTY,
                                     SPACE_HOME_CLAIM_LEFT};
    static const uint8_t nodes[] = {HOME, OTHER, SPACE_SEATS, SPACE_NOBODY - 1};
    struct space_message message;

    (void)state;
    for (uint32_t n = 0; n < sizeof(claims); n++) {
        message = to_home(claims[n], OTHER);
        message.whom = SPACE_NOBODY;
        claim_home_refuses(SPACE_HOME_BARE, &message);
        message.epoch.term = TERM + 1;
        claim_home_refuses(SPACE_HOME_BARE, &message);
    }
    for (uint32_t n = 0; n < sizeof(nodes); n++) {
        message = to_home(SPACE_HOME_CLAIM_LEFT, OTHER);
        message.epoch.term = TERM - 1;
        message.whom = nodes[n];
        claim_home_refuses(SPACE_HOME_BARE, &message);
    }
}

/* ---- anything ------------------------------------------------------------- */

static struct space_message anything(struct random *random, uint8_t events)
{
    static const uint8_t seats[] = {HOME, SELF, OWNER, ASKER, OTHER, ALIEN, SPACE_NOBODY};

    return (struct space_message){
        .event = (uint8_t)random_below(random, events + 1u),
        .seat = seats[random_below(random, sizeof(seats))],
        .whom = seats[random_below(random, sizeof(seats))],
        .why = (uint8_t)random_below(random, 256),
        .term = TERM - 1 + random_below(random, 3) / 2 + random_below(random, 2),
        .epoch = {TERM - random_below(random, 2), COUNT + random_below(random, 3)},
        .frame = random_below(random, 8),
    };
}

/* Whatever comes, in whatever order: bounds hold, and the home's words fit each other. */
static void a_home_is_valid_whatever_comes(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, support_seed());
    for (uint32_t n = 0; n < 2000; n++) {
        struct block block = block_in((uint8_t)random_below(&random, SPACE_HOME_STATES));

        for (uint32_t k = 0; k < 60; k++) {
            struct space_message message = anything(&random, SPACE_HOME_EVENTS), yield;
            struct space_out out;

            if (random_below(&random, 2) == 0) {
                message.epoch = (struct space_epoch){TERM, block.entry.count};
            }
            (void)space_home_step(&home, &block.entry, &block.work, &message, &out);
            yield = to_home(SPACE_HOME_YIELD, HOME);
            for (uint32_t y = 0; y < SPACE_SEATS && out.wakes; y++) {
                (void)space_home_step(&home, &block.entry, &block.work, &yield, &out);
            }
            assert_true(space_entry_is_valid(&home, &block.entry, &block.work));
        }
    }
}

static void a_cache_is_valid_whatever_comes(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, support_seed());
    for (uint32_t n = 0; n < 2000; n++) {
        struct space_line line = line_in((uint8_t)random_below(&random, SPACE_CACHE_STATES));

        for (uint32_t k = 0; k < 60; k++) {
            struct space_message message = anything(&random, SPACE_CACHE_EVENTS);
            struct space_out out;

            if (random_below(&random, 2) == 0) {
                message.epoch = line.epoch;
            }
            (void)space_cache_step(&cache, &line, &message, &out);
            assert_true(space_line_is_valid(&line));
            assert_true(out.count <= 2);
        }
    }
}

/* ---- terms ---------------------------------------------------------------- */

static void a_term_is_claimed_once_by_each_member(void **state)
{
    struct space_term term = {.home = home, .is_open = true};

    (void)state;
    space_term_begin(&term, TERM + 1, space_bit(HOME) | space_bit(OWNER) | space_bit(ASKER), true);
    assert_int_equal(space_term_claimed(&term, OWNER, TERM), SPACE_STALE);
    assert_int_equal(space_term_claimed(&term, OWNER, TERM + 2), SPACE_REFUSED);
    assert_int_equal(space_term_claimed(&term, OTHER, TERM + 1), SPACE_REFUSED);
    assert_int_equal(space_term_claimed(&term, HOME, TERM + 1), SPACE_REFUSED);
    assert_int_equal(space_term_claimed(&term, SPACE_NOBODY, TERM + 1), SPACE_REFUSED);
    assert_int_equal(space_term_claimed(&term, OWNER, TERM + 1), SPACE_DONE);
    assert_int_equal(space_term_claimed(&term, OWNER, TERM + 1), SPACE_REFUSED);
    assert_false(space_term_is_heard(&term));
    assert_int_equal(space_term_claimed(&term, ASKER, TERM + 1), SPACE_DONE);
    assert_true(space_term_is_heard(&term));
    space_term_open(&term);
    assert_int_equal(space_term_claimed(&term, ASKER, TERM + 1), SPACE_REFUSED);
}

static void who_began_anew_stays_so_until_a_term_is_open_with_it(void **state)
{
    struct space_term term = {.home = home, .is_open = true};

    (void)state;
    term.home.anew = space_bit(OWNER) | space_bit(ASKER);
    space_term_begin(&term, TERM + 1, space_bit(HOME) | space_bit(OWNER), true);
    assert_int_equal(space_term_claimed(&term, OWNER, TERM + 1), SPACE_DONE);
    space_term_open(&term);
    assert_int_equal(term.home.anew, space_bit(ASKER));
    space_term_begin(&term, TERM + 2, space_bit(HOME) | space_bit(ASKER), true);
    assert_int_equal(space_term_claimed(&term, ASKER, TERM + 2), SPACE_DONE);
    space_term_open(&term);
    assert_int_equal(term.home.anew, 0);
}

/* A copy was handed to one that was started anew since, without its log, and is a member again:
 * that it says nothing of the block does not say that it never had it, and wrote it. */
static void who_began_anew_knows_nothing_of_earlier_rights(void **state)
{
    static const struct space_epoch right = {TERM - 2, COUNT};

    (void)state;
    for (uint32_t term = TERM - 3; term < TERM; term++) {
        uint32_t since[SPACE_SEATS] = {[OTHER] = term};
        struct space_home since_then = home;
        struct space_entry entry = {.state = SPACE_HOME_BARE};
        struct space_work work = {
            .asker = SPACE_NOBODY, .owner = OWNER, .owned = right, .leaver = SPACE_NOBODY};
        struct space_message left = to_home(SPACE_HOME_CLAIM_LEFT, OWNER);
        struct space_message rebuilt = to_home(SPACE_HOME_REBUILT, HOME);
        struct space_out out;

        since_then.since = since;
        left.epoch = right;
        left.whom = OTHER;
        assert_int_equal(space_home_step(&since_then, &entry, &work, &left, &out), SPACE_DONE);
        assert_int_equal(space_home_step(&since_then, &entry, &work, &rebuilt, &out), SPACE_DONE);
        assert_int_equal(entry.state, term > right.term ? SPACE_HOME_LOST : SPACE_HOME_DEMOTING);
    }
}

/* Who was given a copy by whom had it alone never wrote it: the last bytes are not that one's. */
static void who_was_given_a_copy_is_no_owner(void **state)
{
    struct space_home here = home;

    (void)state;
    here.before = TERM - 1;
    for (uint32_t n = 0; n < 2; n++) {
        uint8_t owner = n == 0 ? OWNER : OTHER; /* a seat below that of who asks, or above */
        struct space_entry entry = {.state = SPACE_HOME_SHARING,
                                    .seats = space_bit(owner) | space_bit(ASKER)};
        struct space_work work = {
            .asker = ASKER, .ask = SPACE_HOME_ASK_READ, .waits = space_bit(owner)};
        struct space_message rebuild = to_home(SPACE_HOME_REBUILD, HOME);
        struct space_out out;

        assert_int_equal(space_home_step(&here, &entry, &work, &rebuild, &out), SPACE_DONE);
        assert_int_equal(entry.state, SPACE_HOME_BARE);
        assert_int_equal(work.owner, owner);
    }
}

/* ---- what was given up is had again --------------------------------------- */

#define RIGHT ((struct space_epoch){TERM - 2, COUNT})

/* A home that remembers that OWNER had it last, by that right, of bytes that are not here. */
static struct block forgotten(void)
{
    return (struct block){
        .entry = {.state = SPACE_HOME_BARE},
        .work = {.asker = SPACE_NOBODY, .owner = OWNER, .owned = RIGHT, .leaver = SPACE_NOBODY}};
}

/* Of the home's term. What is said is in `out`. */
static void step_in(uint32_t term, struct block *block, uint8_t event, uint8_t seat,
                    struct space_epoch epoch, struct space_out *out)
{
    struct space_home then = home;
    struct space_message message = to_home(event, seat);

    then.term = message.term = term;
    then.before = term - 1;
    message.epoch = epoch;
    assert_int_equal(space_home_step(&then, &block->entry, &block->work, &message, out),
                     SPACE_DONE);
    assert_true(space_entry_is_valid(&then, &block->entry, &block->work));
}

static uint32_t count_said(const struct space_out *out, uint8_t event, uint8_t seat)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < out->count; n++) {
        count += out->sends[n].event == event && out->sends[n].seat == seat;
    }
    return count;
}

/* Two gave it up, by one right: OTHER said so first, and has it again. */
static struct block given_back(struct space_out *out)
{
    struct block block = forgotten();

    step_in(TERM, &block, SPACE_HOME_CLAIM_LEFT, OTHER, RIGHT, out);
    step_in(TERM, &block, SPACE_HOME_CLAIM_LEFT, OWNER, RIGHT, out);
    step_in(TERM, &block, SPACE_HOME_REBUILT, HOME, RIGHT, out);
    return block;
}

/* The one that has it again may be killed with the only bytes that are left. */
static void others_keep_what_one_has_again_until_it_is_here(void **state)
{
    struct space_out out;
    struct block block = given_back(&out);

    (void)state;
    assert_int_equal(count_said(&out, SPACE_CACHE_RESTORE, OTHER), 1);
    assert_int_equal(out.count, 1);
    assert_false(space_entry_is_readable(&block.entry));
    step_in(TERM, &block, SPACE_HOME_BYTES, OTHER, (struct space_epoch){TERM, 0}, &out);
    assert_int_equal(count_said(&out, SPACE_CACHE_RELEASE, OWNER), 1);
    assert_int_equal(out.count, 1);
    assert_int_equal(block.entry.state, SPACE_HOME_SHARED);
    assert_true(block.entry.seats == space_bit(OTHER));
}

static void what_one_had_again_is_had_by_others_when_it_is_killed(void **state)
{
    struct space_out out;
    struct block block = given_back(&out);

    (void)state;
    step_in(TERM + 1, &block, SPACE_HOME_REBUILD, HOME, RIGHT, &out);
    step_in(TERM + 1, &block, SPACE_HOME_CLAIM_LEFT, OWNER, RIGHT, &out);
    step_in(TERM + 1, &block, SPACE_HOME_REBUILT, HOME, RIGHT, &out);
    assert_int_equal(count_said(&out, SPACE_CACHE_RESTORE, OWNER), 1);
}

/* What it claimed, and was given back, since may be more than its log knows: by that it comes back
 * when it is killed. */
static void what_was_had_again_is_known_by_the_right_that_a_log_has(void **state)
{
    struct block block = forgotten();
    struct space_out out;

    (void)state;
    step_in(TERM, &block, SPACE_HOME_CLAIM_SHARED, OWNER, RIGHT, &out);
    step_in(TERM, &block, SPACE_HOME_REBUILT, HOME, RIGHT, &out);
    assert_int_equal(count_said(&out, SPACE_CACHE_FETCH_SHARED, OWNER), 1);
    step_in(TERM + 1, &block, SPACE_HOME_REBUILD, HOME, RIGHT, &out);
    step_in(TERM + 1, &block, SPACE_HOME_CLAIM_LEFT, OWNER, (struct space_epoch){TERM, 0}, &out);
    step_in(TERM + 1, &block, SPACE_HOME_REBUILT, HOME, RIGHT, &out);
    assert_int_equal(count_said(&out, SPACE_CACHE_RESTORE, OWNER), 1);
    step_in(TERM + 2, &block, SPACE_HOME_REBUILD, HOME, RIGHT, &out);
    step_in(TERM + 2, &block, SPACE_HOME_CLAIM_LEFT, OWNER, RIGHT, &out);
    step_in(TERM + 2, &block, SPACE_HOME_REBUILT, HOME, RIGHT, &out);
    assert_int_equal(count_said(&out, SPACE_CACHE_RESTORE, OWNER), 1);
}

/* ... and who reads it gives up nothing that only it had: those who wait would never hear. */
static void who_has_it_again_has_it_not_alone(void **state)
{
    struct space_out out;
    struct block block = given_back(&out), before = block;
    struct space_message back = to_home(SPACE_HOME_WRITE_BACK, OTHER);

    (void)state;
    back.epoch.count = 0;
    assert_int_equal(space_home_step(&home, &block.entry, &block.work, &back, &out), SPACE_REFUSED);
    assert_memory_equal(&block, &before, sizeof(block));
}

static void a_member_hears_of_later_terms_from_their_home_alone(void **state)
{
    struct space_member member = {.cache = cache};

    (void)state;
    assert_int_equal(space_member_adopt(&member, OWNER, TERM + 1), SPACE_REFUSED);
    assert_int_equal(space_member_adopt(&member, HOME, TERM), SPACE_REFUSED);
    assert_int_equal(space_member_opened(&member, HOME, TERM), SPACE_REFUSED);
    assert_int_equal(space_member_adopt(&member, HOME, TERM + 1), SPACE_DONE);
    assert_int_equal(space_member_opened(&member, HOME, TERM + 1), SPACE_REFUSED);
    member.writes = 1;
    assert_false(space_member_may_claim(&member));
    member.writes = 0;
    assert_true(space_member_may_claim(&member));
    space_member_claimed(&member);
    assert_false(space_member_may_claim(&member));
    assert_int_equal(space_member_opened(&member, OWNER, TERM + 1), SPACE_REFUSED);
    assert_int_equal(space_member_opened(&member, HOME, TERM), SPACE_STALE);
    assert_int_equal(space_member_opened(&member, HOME, TERM + 2), SPACE_REFUSED);
    assert_int_equal(space_member_opened(&member, HOME, TERM + 1), SPACE_DONE);
    assert_int_equal(space_member_opened(&member, HOME, TERM + 1), SPACE_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_takes_nothing_in_a_hole),
        cmocka_unit_test(a_cache_takes_nothing_from_who_may_not_say_it),
        cmocka_unit_test(a_cache_takes_nothing_of_another_term),
        cmocka_unit_test(a_cache_gives_up_no_other_right),
        cmocka_unit_test(a_cache_hands_nothing_to_nobody),
        cmocka_unit_test(a_cache_owes_one_thing),
        cmocka_unit_test(who_has_again_what_it_gave_up_reads_it),
        cmocka_unit_test(a_home_takes_nothing_in_a_hole),
        cmocka_unit_test(a_home_takes_nothing_from_who_may_not_say_it),
        cmocka_unit_test(a_home_takes_nothing_of_another_term),
        cmocka_unit_test(a_home_takes_no_answer_of_who_was_not_asked),
        cmocka_unit_test(a_home_is_not_asked_twice),
        cmocka_unit_test(a_home_gives_nobody_what_it_has),
        cmocka_unit_test(two_do_not_claim_a_block_alone),
        cmocka_unit_test(nobody_claims_what_was_not_given),
        cmocka_unit_test(a_home_is_valid_whatever_comes),
        cmocka_unit_test(a_cache_is_valid_whatever_comes),
        cmocka_unit_test(a_term_is_claimed_once_by_each_member),
        cmocka_unit_test(who_began_anew_stays_so_until_a_term_is_open_with_it),
        cmocka_unit_test(who_began_anew_knows_nothing_of_earlier_rights),
        cmocka_unit_test(who_was_given_a_copy_is_no_owner),
        cmocka_unit_test(others_keep_what_one_has_again_until_it_is_here),
        cmocka_unit_test(what_one_had_again_is_had_by_others_when_it_is_killed),
        cmocka_unit_test(what_was_had_again_is_known_by_the_right_that_a_log_has),
        cmocka_unit_test(who_has_it_again_has_it_not_alone),
        cmocka_unit_test(a_member_hears_of_later_terms_from_their_home_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
