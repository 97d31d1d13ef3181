/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a space alone: peers that say anything, as the fuzz target space-wire has them, and
 * what is said when. */
#include "support/support.h"

#include <string.h>

#include "base/check.h"
#include "base/random.h"
#include "memory/space_window.h"
#include "space/engine_internal.h"

#define INPUT_BYTES 3000u
#define INPUTS      300u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void peers_say_anything(void **state)
{
    static uint8_t input[INPUT_BYTES];
    uint64_t seed = support_seed(), end_us = support_now_us() + support_budget_ms(0) * 1000;

    (void)state;
    for (uint64_t n = 0; n < INPUTS || support_now_us() < end_us; n++) {
        struct random random;

        random_init(&random, seed + n);
        random_fill(&random, input, sizeof(input));
        assert_int_equal(LLVMFuzzerTestOneInput(input, sizeof(input)), 0);
    }
}

static void what_is_no_message_is_known_by_its_parts(void **state)
{
    struct space_wire wire = {.kind = SPACE_WIRE_HELLO, .operands = {1, 0}};

    (void)state;
    assert_int_equal(space_wire_check(&wire), NIGH_OK);
    wire.term = SPACE_WIRE_TERMS; /* a home could have no term above it for ever */
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire = (struct space_wire){.kind = SPACE_WIRE_HELLO};
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    for (uint32_t kind = SPACE_WIRE_KINDS; kind < 256; kind++) {
        wire = (struct space_wire){.kind = (uint8_t)kind, .operands = {1, 0}};
        assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    }
    wire = (struct space_wire){.kind = SPACE_WIRE_TO_HOME, .event = SPACE_HOME_ASK_ATOMIC};
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire.atomic = SPACE_RECORD_SWAP;
    assert_int_equal(space_wire_check(&wire), NIGH_OK);
    wire.address = 4;
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire = (struct space_wire){.kind = SPACE_WIRE_TO_HOME, .event = SPACE_HOME_FREE};
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire = (struct space_wire){.kind = SPACE_WIRE_ANSWER, .event = SPACE_WIRE_FREE};
    wire.operands[0] = 1; /* no status */
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire.operands[0] = (uint64_t)(int64_t)NIGH_INVALID;
    assert_int_equal(space_wire_check(&wire), NIGH_OK);
}

/* ---- one engine, whose peers say what they are told to ------------------- */

#define SENDS 256u
#define BYTES 64u
#define SHIFT 6u

static struct space_engine *engine;
static struct space_send sends[SENDS];
static uint32_t sent;
static bool is_full;
static uint8_t liar = SPACE_NOBODY; /* whose link is to be cut, for what it says */
static _Alignas(4096) uint8_t home_memory[3 * 4096], cache_memory[3 * 4096];

static bool note_send(void *context, const struct space_send *send)
{
    (void)context;
    assert_true(sent < SENDS);
    if (!is_full) {
        sends[sent++] = *send;
    }
    return !is_full;
}

static void note_cut(void *context, uint8_t seat, nigh_status why)
{
    (void)context;
    if (seat != liar || why != NIGH_PROTOCOL) {
        fail_msg("seat %u is cut: %s", seat, nigh_status_name(why));
    }
    liar = SPACE_NOBODY;
}

static uint64_t wanted_block; /* the last that was asked for, of those that are held here */
static uint32_t wanted_count;
static bool gives_way; /* it is only kept */

static bool note_wanted(void *context, uint64_t block)
{
    (void)context;
    wanted_block = block;
    wanted_count++;
    return gives_way;
}

static bool is_awake;

static void note_wake(void *context)
{
    (void)context;
    is_awake = true;
}

static void op_bytes(struct space_op *op, void *bytes)
{
    if (op->kind == SPACE_OP_WRITE) {
        memset(bytes, 1, op->length);
    }
}

static void op_ended(struct space_op *op, uint64_t now_us)
{
    (void)now_us;
    op->operands[1] = 1; /* it has */
}

static void say(uint8_t seat, struct space_wire wire)
{
    wire.space = wire.birth = 1;
    assert_int_equal(space_wire_check(&wire), NIGH_OK);
    space_engine_message(engine, seat, &wire, sizeof(wire), 1);
}

static void say_term(uint8_t seat, uint8_t event, uint32_t term, uint64_t members)
{
    say(seat, (struct space_wire){
                  .kind = SPACE_WIRE_TERM, .event = event, .term = term, .operands = {members}});
}

/* It knows that term of this home, and is linked with those. */
static void meet_of_life(uint8_t seat, uint64_t life, uint32_t term, uint64_t links)
{
    space_engine_up(engine, seat, 1);
    say(seat, (struct space_wire){.kind = SPACE_WIRE_HELLO,
                                  .why = SPACE_WIRE_IS_ANSWER,
                                  .term = term,
                                  .operands = {life, links}});
}

static void meet_with(uint8_t seat, uint32_t term, uint64_t links)
{
    meet_of_life(seat, seat, term, links);
}

static void meet(uint8_t seat)
{
    meet_with(seat, 0, 7);
}

static struct space_op op_of(uint8_t kind, uint64_t address)
{
    return (struct space_op){.kind = kind,
                             .length = kind == SPACE_OP_ALLOC ? 0 : 8,
                             .address = address,
                             .operands = {8, 0},
                             .deadline_us = UINT64_MAX,
                             .bytes = op_bytes,
                             .ended = op_ended};
}

/* Seat 0, of three. */
static void create(void)
{
    struct space_engine_config config = {
        .space = 1,
        .birth = 1,
        .life = 9,
        .home_memory = home_memory,
        .cache_memory = cache_memory,
        .shell = {.send = note_send, .cut = note_cut, .wanted = note_wanted, .wake = note_wake},
    };

    memset(home_memory, 0, sizeof(home_memory));
    memset(cache_memory, 0, sizeof(cache_memory));
    sent = wanted_count = 0;
    wanted_block = 0;
    is_full = gives_way = false;
    space_view_make_home(home_memory, 8, BYTES, space_address_of_life(0, 1, 8 * BYTES),
                         &config.home);
    space_view_make_cache(cache_memory, 1, BYTES, &config.cache);
    assert_int_equal(space_engine_create(&config, &engine), NIGH_OK);
    space_engine_members(engine, 7, 1);
}

/* ... whose home is open in its third term. */
static void begin(void)
{
    create();
    meet(1);
    meet(2);
    (void)space_engine_turn(engine, 1);
    say_term(1, SPACE_TERM_CLAIMED, 1, 0);
    assert_false(space_engine_is_open(engine));
    say_term(2, SPACE_TERM_CLAIMED, 1, 0);
    assert_true(space_engine_is_open(engine));
    sent = 0;
}

static void end(void)
{
    assert_true(space_engine_is_valid(engine));
    space_engine_end(engine, NIGH_CLOSED);
    space_engine_destroy(engine);
}

/* How many of that kind and event were said to that seat. */
static uint32_t count_said(uint8_t seat, uint8_t kind, uint8_t event)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < sent; n++) {
        count +=
            sends[n].seat == seat && sends[n].wire.kind == kind && sends[n].wire.event == event;
    }
    return count;
}

static uint64_t allocate(void)
{
    struct space_op op = op_of(SPACE_OP_ALLOC, 0);

    assert_false(space_engine_begin(engine, &op, 1));
    (void)space_engine_turn(engine, 1);
    assert_int_equal(op.operands[1], 1);
    assert_int_equal(op.status, NIGH_OK);
    return op.value;
}

/* A home says nothing of its blocks over a link that came up since its term began. */
static void a_home_says_nothing_before_its_term(void **state)
{
    struct space_op write;
    uint64_t block;

    (void)state;
    begin();
    block = allocate();
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                               .event = SPACE_HOME_ASK_READ,
                               .whom = SPACE_NOBODY,
                               .term = 1,
                               .address = block,
                               .epoch = {1, 0}});
    assert_int_equal(count_said(1, SPACE_WIRE_TO_CACHE, SPACE_CACHE_SHARE), 1);
    space_engine_down(engine, 1, 1);
    meet(1);
    write = op_of(SPACE_OP_WRITE, block);
    assert_false(space_engine_begin(engine, &write, 1));
    assert_int_equal(count_said(1, SPACE_WIRE_TO_CACHE, SPACE_CACHE_INVALIDATE), 0);
    (void)space_engine_turn(engine, 1);
    assert_int_equal(count_said(1, SPACE_WIRE_TERM, SPACE_TERM_TERM), 1);
    end();
}

/* ... and opens only when its members are linked with each other. */
static void a_home_opens_when_all_are_linked(void **state)
{
    struct space_wire links = {.kind = SPACE_WIRE_LINKS, .operands = {0, 1}};

    (void)state;
    begin();
    say(1, links);
    assert_false(space_engine_is_open(engine));
    (void)space_engine_turn(engine, 1);
    say_term(1, SPACE_TERM_CLAIMED, 2, 0);
    say_term(2, SPACE_TERM_CLAIMED, 2, 0);
    assert_false(space_engine_is_open(engine));
    links.operands[1] = 7;
    say(1, links);
    assert_true(space_engine_is_open(engine));
    end();
}

/* A link of members that breaks before it is open: who lost it cannot know whether it was open by
 * then. */
static void a_home_begins_anew_when_a_link_breaks(void **state)
{
    struct space_wire links = {.kind = SPACE_WIRE_LINKS, .operands = {0, 1}};

    (void)state;
    begin();
    say(1, links);
    (void)space_engine_turn(engine, 1);
    say_term(1, SPACE_TERM_CLAIMED, 2, 0);
    links.operands[1] = 7;
    say(1, links);
    links.operands[1] = 1;
    say(1, links);
    links.operands[1] = 7;
    say(1, links);
    assert_int_equal(count_said(1, SPACE_WIRE_TERM, SPACE_TERM_TERM), 1);
    (void)space_engine_turn(engine, 1);
    assert_int_equal(count_said(1, SPACE_WIRE_TERM, SPACE_TERM_TERM), 2);
    say_term(2, SPACE_TERM_CLAIMED, 2, 0);
    assert_false(space_engine_is_open(engine));
    end();
}

/* Of a block of a home that remembers nothing one claims what it gave up in an earlier life,
 * another has it by an address of a later one. */
static void who_has_a_block_goes_before_who_gave_it_up(void **state)
{
    static const uint8_t events[] = {SPACE_HOME_CLAIM_LEFT, SPACE_HOME_CLAIM_DIRTY};

    (void)state;
    for (uint32_t first = 0; first < 2; first++) {
        create();
        meet_with(1, 5, 7);
        meet_with(2, 5, 7);
        (void)space_engine_turn(engine, 1);
        for (uint32_t n = 0; n < 2; n++) {
            uint8_t which = n == first;

            say((uint8_t)(1 + which),
                (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                                    .event = events[which],
                                    .whom = SPACE_NOBODY,
                                    .term = 6,
                                    .address =
                                        space_address_of_life(0, 3 + which, 8 * BYTES) + BYTES,
                                    .epoch = {4 + which, 1}});
        }
        assert_int_equal(count_said(1, SPACE_WIRE_TO_CACHE, SPACE_CACHE_RELEASE), 1);
        say_term(1, SPACE_TERM_CLAIMED, 6, 0);
        say_term(2, SPACE_TERM_CLAIMED, 6, 0);
        assert_true(space_engine_is_open(engine));
        end();
    }
}

/* A node has a block of seat 1 to write. */
static uint64_t own(void)
{
    uint64_t block = space_address_first(1);
    struct space_op write = op_of(SPACE_OP_WRITE, block);

    say_term(1, SPACE_TERM_TERM, 5, 7);
    assert_int_equal(count_said(1, SPACE_WIRE_TERM, SPACE_TERM_CLAIMED), 1);
    say_term(1, SPACE_TERM_OPENED, 5, 0);
    assert_false(space_engine_begin(engine, &write, 1));
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_WRITE), 1);
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_CACHE,
                               .event = SPACE_CACHE_OWN,
                               .whom = SPACE_NOBODY,
                               .term = 5,
                               .address = block,
                               .epoch = {5, 1}});
    assert_int_equal(write.operands[1], 1);
    assert_int_equal(write.status, NIGH_OK);
    return block;
}

static void forward_of(uint64_t block, struct space_epoch epoch)
{
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_CACHE,
                               .event = SPACE_CACHE_WRITE_FORWARD,
                               .whom = 2,
                               .term = epoch.term,
                               .address = block,
                               .epoch = epoch,
                               .frame = 3});
}

static void forward(uint64_t block)
{
    forward_of(block, (struct space_epoch){5, 1});
}

/* What a home told before is not done over a link that came up since: it is of a frame that may be
 * of a former life. */
static void what_was_told_goes_over_no_new_link(void **state)
{
    uint64_t block;

    (void)state;
    begin();
    block = own();
    space_engine_down(engine, 2, 1);
    meet(2);
    forward(block);
    assert_int_equal(count_said(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_OWN), 0);
    end();
    begin();
    block = own();
    forward(block);
    assert_int_equal(count_said(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_OWN), 1);
    assert_true(sends[sent - 1].count == BYTES && sends[sent - 1].wants_end);
    end();
}

/* ... also where that came up before one hears that the term is open, which it was by then. */
static void what_was_open_before_a_link_goes_over_no_new_one(void **state)
{
    uint64_t block;

    (void)state;
    for (uint32_t breaks = 0; breaks < 2; breaks++) {
        begin();
        block = own();
        say_term(1, SPACE_TERM_TERM, 6, 7);
        if (breaks != 0) {
            space_engine_down(engine, 2, 1);
            meet(2);
        }
        say_term(1, SPACE_TERM_OPENED, 6, 0);
        forward_of(block, (struct space_epoch){6, 0});
        assert_int_equal(count_said(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_OWN), 1 - breaks);
        end();
    }
}

/* A term is claimed when no bytes of an earlier one are under way. */
static void a_claim_waits_for_what_is_written(void **state)
{
    uint64_t block;

    (void)state;
    begin();
    block = own();
    forward(block);
    sent = 0;
    say_term(1, SPACE_TERM_TERM, 6, 7);
    (void)space_engine_turn(engine, 1);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_CLAIM_LEFT), 1);
    assert_int_equal(count_said(1, SPACE_WIRE_TERM, SPACE_TERM_CLAIMED), 0);
    space_engine_sent(engine, 1, 1);
    (void)space_engine_turn(engine, 1);
    assert_int_equal(count_said(1, SPACE_WIRE_TERM, SPACE_TERM_CLAIMED), 1);
    end();
}

/* Terms were open without it: what it had is nobody's. */
static void who_was_left_out_has_nothing(void **state)
{
    uint64_t block, bytes;
    struct space_view cache;
    uint32_t frame;

    (void)state;
    begin();
    block = own();
    assert_int_equal(space_view_open(cache_memory, sizeof(cache_memory), SPACE_VIEW_CACHE, &cache),
                     NIGH_OK);
    assert_int_equal(
        space_cache_read(&cache, space_hash(block, cache.shift), block, &bytes, 8, &frame),
        SPACE_READ);
    sent = 0;
    say(1, (struct space_wire){.kind = SPACE_WIRE_TERM,
                               .event = SPACE_TERM_TERM,
                               .why = SPACE_WIRE_ANEW,
                               .term = 8,
                               .operands = {7}});
    (void)space_engine_turn(engine, 1);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_CLAIM_DIRTY), 0);
    assert_int_equal(count_said(1, SPACE_WIRE_TERM, SPACE_TERM_CLAIMED), 1);
    assert_int_equal(
        space_cache_read(&cache, space_hash(block, cache.shift), block, &bytes, 8, &frame),
        SPACE_ASK);
    end();
}

/* What a link has no room for is said later, in its order. */
static void what_waits_for_room_is_said_in_order(void **state)
{
    struct space_op reads[3];

    (void)state;
    begin();
    (void)own();
    sent = 0;
    is_full = true;
    for (uint32_t n = 0; n < 3; n++) {
        reads[n] = op_of(SPACE_OP_READ, space_address_first(1) + (n + 1) * BYTES);
        assert_false(space_engine_begin(engine, &reads[n], 1));
        is_full = n == 0; /* room comes when nobody has said so yet */
    }
    assert_int_equal(sent, 0);
    is_full = false;
    space_engine_room(engine, 1, 1);
    assert_int_equal(sent, 3);
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(sends[n].wire.address, reads[n].address);
    }
    end();
}

/* A holder reads what it holds, whoever waits for it to let go, and whatever its home is about. */
static void who_holds_waits_for_nobody(void **state)
{
    struct space_op hold, lock, read;
    uint64_t block;

    (void)state;
    begin();
    block = allocate();
    hold = op_of(SPACE_OP_LOCK_READ, block);
    assert_true(space_engine_begin(engine, &hold, 1));
    say(1, (struct space_wire){.kind = SPACE_WIRE_LINKS, .operands = {0, 1}});
    (void)space_engine_turn(engine, 1); /* a term, that nobody has claimed */
    lock = op_of(SPACE_OP_LOCK_WRITE, block);
    assert_false(space_engine_begin(engine, &lock, 1));
    read = op_of(SPACE_OP_READ, block);
    read.holds = SPACE_HOLDS_TO_READ;
    assert_true(space_engine_begin(engine, &read, 1));
    assert_int_equal(read.status, NIGH_OK);
    hold = op_of(SPACE_OP_UNLOCK, block);
    hold.holds = SPACE_HOLDS_TO_READ;
    assert_true(space_engine_begin(engine, &hold, 1));
    assert_int_equal(lock.operands[1], 0);
    end();
    assert_int_equal(lock.status, NIGH_CLOSED);
}

/* A try ends at once where it is held here, else when its time is up. */
static void a_try_waits_no_longer_than_it_may(void **state)
{
    uint64_t block;
    struct space_op lock, try_it;

    (void)state;
    begin();
    block = allocate();
    lock = op_of(SPACE_OP_LOCK_WRITE, block);
    assert_true(space_engine_begin(engine, &lock, 1));
    assert_int_equal(lock.status, NIGH_OK);
    try_it = op_of(SPACE_OP_LOCK_READ, block);
    try_it.is_try = true;
    assert_true(space_engine_begin(engine, &try_it, 1));
    assert_int_equal(try_it.status, NIGH_BUSY);
    (void)own();
    try_it = op_of(SPACE_OP_LOCK_READ, space_address_first(1) + BYTES);
    try_it.is_try = true;
    try_it.deadline_us = 100;
    assert_false(space_engine_begin(engine, &try_it, 1));
    assert_int_equal(space_engine_deadline(engine), 100);
    (void)space_engine_turn(engine, 99);
    assert_int_equal(try_it.operands[1], 0);
    (void)space_engine_turn(engine, 100);
    assert_int_equal(try_it.operands[1], 1);
    assert_int_equal(try_it.status, NIGH_BUSY);
    end();
}

static struct space_op lock_of(uint64_t block, uint8_t kind)
{
    struct space_op lock = op_of(kind, block);

    assert_true(space_engine_begin(engine, &lock, 1));
    assert_int_equal(lock.status, NIGH_OK);
    return lock;
}

static void unlock(uint64_t block, uint8_t holds)
{
    struct space_op op = op_of(SPACE_OP_UNLOCK, block);

    op.holds = holds;
    assert_true(space_engine_begin(engine, &op, 1));
    assert_int_equal(op.status, NIGH_OK);
}

/* What a holder keeps its home from is done when it lets go, and not at all if the home is gone: it
 * would come to somebody whom the next term knows otherwise. */
static void nothing_is_owed_to_a_home_that_is_gone(void **state)
{
    (void)state;
    for (uint32_t is_gone = 0; is_gone < 2; is_gone++) {
        uint64_t block;

        begin();
        block = own();
        (void)lock_of(block, SPACE_OP_LOCK_WRITE);
        forward(block);
        assert_int_equal(count_said(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_OWN), 0);
        if (is_gone == 1) {
            space_engine_down(engine, 1, 1);
            space_engine_members(engine, 5, 1);
        }
        sent = 0;
        unlock(block, SPACE_HOLDS_ALONE);
        assert_int_equal(count_said(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_OWN), 1 - is_gone);
        assert_true(is_gone == 0 || count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_ACK) == 0);
        end();
    }
}

static uint64_t count_taken(void)
{
    struct space_engine_stats stats;

    space_engine_stats(engine, &stats);
    return stats.invalidations;
}

/* A copy is taken as another wants it, or as its last holder lets go: the same is counted. */
static void what_is_taken_is_counted(void **state)
{
    uint64_t block;

    (void)state;
    begin();
    block = own();
    forward(block);
    assert_int_equal(count_taken(), 1);
    end();
    begin();
    block = own();
    (void)lock_of(block, SPACE_OP_LOCK_READ);
    (void)lock_of(block, SPACE_OP_LOCK_READ);
    forward(block);
    unlock(block, SPACE_HOLDS_TO_READ);
    assert_int_equal(count_taken(), 0);
    unlock(block, SPACE_HOLDS_TO_READ);
    assert_int_equal(count_taken(), 1);
    end();
    begin();
    block = own();
    (void)lock_of(block, SPACE_OP_LOCK_WRITE);
    unlock(block, SPACE_HOLDS_ALONE); /* nobody wants it */
    assert_int_equal(count_taken(), 0);
    end();
}

static uint64_t count_used(void)
{
    struct space_engine_stats stats;

    space_engine_stats(engine, &stats);
    return stats.home_used;
}

static uint32_t last_term(void)
{
    uint32_t term = 0;

    for (uint32_t n = 0; n < sent; n++) {
        if (sends[n].wire.kind == SPACE_WIRE_TERM && sends[n].wire.event == SPACE_TERM_TERM) {
            term = sends[n].wire.term;
        }
    }
    return term;
}

/* Who asked for memory and is gone meanwhile is not told of it when it is there again, as another;
 * nor is it kept for it. */
static void who_comes_back_has_asked_for_nothing(void **state)
{
    struct space_wire links = {.kind = SPACE_WIRE_LINKS, .operands = {0, 1}};

    (void)state;
    begin();
    say(1, links);
    (void)space_engine_turn(engine, 1); /* a term begins: what is asked for waits */
    say(1, (struct space_wire){.kind = SPACE_WIRE_ALLOC, .operands = {3 * BYTES, 77}});
    assert_int_equal(count_used(), 3);
    space_engine_down(engine, 1, 1);
    meet(1);
    links.operands[1] = 7;
    say(1, links);
    (void)space_engine_turn(engine, 1);
    for (uint8_t seat = 1; seat <= 2; seat++) {
        say_term(seat, SPACE_TERM_CLAIMED, last_term(), 0);
    }
    assert_true(space_engine_is_open(engine));
    for (uint32_t n = 0; n < 4; n++) {
        (void)space_engine_turn(engine, 1);
    }
    assert_int_equal(count_said(1, SPACE_WIRE_ANSWER, SPACE_WIRE_ALLOC), 0);
    assert_int_equal(count_used(), 0);
    end();
}

static struct space_op aligned(uint64_t align, uint64_t near)
{
    struct space_op op = op_of(SPACE_OP_ALLOC, near);

    op.operands[1] = align;
    if (!space_engine_begin(engine, &op, 1)) {
        (void)space_engine_turn(engine, 1);
    }
    return op;
}

/* Of this home, whose block 0 is nobody's: by clients here, and by another node. */
static void memory_is_given_at_multiples(void **state)
{
    struct space_op op;

    (void)state;
    begin();
    op = aligned(4 * BYTES, 0);
    assert_int_equal(op.status, NIGH_OK);
    assert_int_equal(op.value & (8 * BYTES - 1), 4 * BYTES);
    assert_int_equal(aligned(4 * BYTES, 0).status, NIGH_OUT_OF_MEMORY);
    assert_int_equal(aligned(8 * BYTES, 0).status, NIGH_OUT_OF_MEMORY);
    assert_int_equal(aligned(16 * BYTES, 0).status, NIGH_OUT_OF_MEMORY);
    assert_int_equal(aligned(UINT64_C(1) << LIMIT_SPACE_ALIGN_BITS, 0).status, NIGH_OUT_OF_MEMORY);
    op = aligned(BYTES / 2, 0);
    assert_int_equal(op.status, NIGH_OK);
    assert_int_equal(op.value % BYTES, 0);
    say(1,
        (struct space_wire){.kind = SPACE_WIRE_ALLOC, .why = SHIFT + 1, .operands = {BYTES, 77}});
    (void)space_engine_turn(engine, 1);
    assert_int_equal(count_said(1, SPACE_WIRE_ANSWER, SPACE_WIRE_ALLOC), 1);
    assert_int_equal(sends[sent - 1].wire.address & (4 * BYTES - 1), 2 * BYTES);
    say(1, (struct space_wire){
               .kind = SPACE_WIRE_ALLOC, .why = LIMIT_SPACE_ALIGN_BITS, .operands = {BYTES, 78}});
    assert_int_equal((nigh_status)sends[sent - 1].wire.operands[0], NIGH_OUT_OF_MEMORY);
    assert_int_equal(count_used(), 3);
    end();
}

static void no_other_multiples_are_asked_for(void **state)
{
    struct space_wire wire = {.kind = SPACE_WIRE_ALLOC,
                              .why = LIMIT_SPACE_ALIGN_BITS,
                              .space = 1,
                              .birth = 1,
                              .operands = {BYTES, 1}};

    (void)state;
    begin();
    assert_int_equal(aligned(3, 0).status, NIGH_INVALID);
    assert_int_equal(aligned(BYTES + 1, 0).status, NIGH_INVALID);
    assert_int_equal(aligned(UINT64_MAX, 0).status, NIGH_INVALID);
    assert_int_equal(aligned(UINT64_C(2) << LIMIT_SPACE_ALIGN_BITS, 0).status, NIGH_INVALID);
    assert_int_equal(aligned(UINT64_C(1) << 63, 0).status, NIGH_INVALID);
    assert_int_equal(space_wire_check(&wire), NIGH_OK);
    wire.why++;
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire = (struct space_wire){.kind = SPACE_WIRE_FREE, .why = 1, .operands = {0, 1}};
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    assert_int_equal(count_used(), 0);
    end();
}

/* ... of another home, which is to keep to it. */
static void what_another_home_gives_is_at_a_multiple(void **state)
{
    struct space_wire answer = {.kind = SPACE_WIRE_ANSWER, .event = SPACE_WIRE_ALLOC};
    struct space_op ops[2];

    (void)state;
    begin();
    say_term(1, SPACE_TERM_TERM, 5, 7);
    say_term(1, SPACE_TERM_OPENED, 5, 0);
    for (uint32_t n = 0; n < 2; n++) {
        ops[n] = op_of(SPACE_OP_ALLOC, space_address_first(1) + 1);
        ops[n].operands[1] = n == 0 ? 4 * BYTES : BYTES;
        assert_false(space_engine_begin(engine, &ops[n], 1));
        assert_int_equal(sends[sent - 1].wire.kind, SPACE_WIRE_ALLOC);
        assert_int_equal(sends[sent - 1].wire.why, n == 0 ? SHIFT + 2 : 0);
    }
    answer.operands[1] = sends[sent - 1].wire.operands[1];
    answer.address = space_address_first(1) + BYTES;
    say(1, answer);
    assert_int_equal(ops[1].status, NIGH_OK);
    answer.operands[1]--;
    answer.address += 4 * BYTES;
    liar = 1;
    say(1, answer);
    assert_int_equal(liar, SPACE_NOBODY);
    assert_int_equal(ops[0].operands[1], 4 * BYTES); /* it has not ended */
    space_engine_down(engine, 1, 1);
    assert_int_equal(ops[0].status, NIGH_PEER_LOST);
    end();
}

/* What was given and nobody heard of is freed where it is, here or elsewhere. */
static void what_is_given_back_is_free(void **state)
{
    uint64_t block;

    (void)state;
    begin();
    block = allocate();
    space_engine_give_back(engine, block, 1);
    assert_int_equal(count_used(), 0);
    space_engine_give_back(engine, block, 1); /* once */
    space_engine_give_back(engine, space_address_first(1) + BYTES, 1);
    assert_int_equal(count_said(1, SPACE_WIRE_FREE, 0), 1);
    assert_int_equal(sends[sent - 1].wire.address, space_address_first(1) + BYTES);
    space_engine_down(engine, 1, 1);
    sent = 0;
    space_engine_give_back(engine, space_address_first(1) + BYTES, 1);
    assert_int_equal(count_said(1, SPACE_WIRE_FREE, 0), 0);
    end();
}

static nigh_status free_for_seat_1(uint64_t address, uint64_t held)
{
    say(1,
        (struct space_wire){.kind = SPACE_WIRE_FREE, .address = address, .operands = {held, 77}});
    (void)space_engine_turn(engine, 1);
    assert_int_equal(sends[sent - 1].wire.kind, SPACE_WIRE_ANSWER);
    return (nigh_status)(int64_t)sends[sent - 1].wire.operands[0];
}

/* Who frees says which block behind the first it holds next: it would wait for itself, here or at
 * another home. */
static void what_its_client_holds_is_not_freed(void **state)
{
    struct space_op op;

    (void)state;
    begin();
    say_term(1, SPACE_TERM_TERM, 5, 7);
    say_term(1, SPACE_TERM_OPENED, 5, 0);
    op = op_of(SPACE_OP_FREE, space_address_first(1) + BYTES);
    op.operands[0] = op.address + 3 * BYTES;
    assert_false(space_engine_begin(engine, &op, 1));
    assert_int_equal(sends[sent - 1].wire.kind, SPACE_WIRE_FREE);
    assert_int_equal(sends[sent - 1].wire.operands[0], op.address + 3 * BYTES);
    space_engine_give_up(engine, &op);
    op = op_of(SPACE_OP_ALLOC, 0);
    op.operands[0] = 3 * BYTES;
    assert_false(space_engine_begin(engine, &op, 1));
    (void)space_engine_turn(engine, 1);
    assert_int_equal(free_for_seat_1(op.value, op.value + BYTES), NIGH_INVALID);
    assert_int_equal(free_for_seat_1(op.value, op.value + 2 * BYTES), NIGH_INVALID);
    assert_int_equal(count_used(), 3);
    assert_int_equal(free_for_seat_1(op.value, op.value + 3 * BYTES), NIGH_OK);
    assert_int_equal(count_used(), 0);
    end();
}

static struct space_op many[LIMIT_SPACE_PLACES];

/* What there is no room for is BUSY, and nobody has heard of it. */
static void what_is_too_much_is_not_begun(void **state)
{
    struct space_op read;
    uint64_t block;

    (void)state;
    begin();
    block = own();
    (void)lock_of(block, SPACE_OP_LOCK_WRITE);
    for (uint32_t n = 0; n < LIMIT_SPACE_PLACES; n++) {
        many[n] = op_of(SPACE_OP_LOCK_WRITE, block);
        many[n].deadline_us = 100;
        assert_false(space_engine_begin(engine, &many[n], 1));
    }
    sent = 0;
    read = op_of(SPACE_OP_READ, block + BYTES);
    read.deadline_us = 100;
    assert_true(space_engine_begin(engine, &read, 1));
    assert_int_equal(read.status, NIGH_BUSY);
    assert_int_equal(sent, 0);
    (void)space_engine_turn(engine, 100);
    assert_int_equal(many[0].status, NIGH_TIMEOUT);
    assert_false(space_engine_begin(engine, &read, 1));
    assert_int_equal(sent, 1);
    end();
}

/* So many blocks that somebody waits for: of a home that is not open yet. */
static void fill_places(uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        many[n] = op_of(SPACE_OP_READ,
                        space_address_of_life(1, n / 8 + 1, 8 * BYTES) + n % 8 * (uint64_t)BYTES);
        assert_false(space_engine_begin(engine, &many[n], 1));
    }
}

static void say_of(uint8_t seat, uint8_t event, uint64_t block, struct space_epoch epoch)
{
    say(seat, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                                  .event = event,
                                  .whom = SPACE_NOBODY,
                                  .term = 1,
                                  .address = block,
                                  .epoch = epoch});
}

/* A block that is freed waits for who has it, also while there is no room for one that waits. */
static void what_somebody_has_is_not_freed_for_want_of_room(void **state)
{
    struct space_op free;
    uint64_t block;

    (void)state;
    begin();
    block = allocate();
    (void)lock_of(block, SPACE_OP_LOCK_READ);
    free = op_of(SPACE_OP_FREE, block);
    assert_false(space_engine_begin(engine, &free, 1));
    (void)space_engine_turn(engine, 1);
    space_engine_pause(engine, true, 1);
    fill_places(LIMIT_SPACE_PLACES);
    unlock(block, SPACE_HOLDS_TO_READ);
    say_of(1, SPACE_HOME_ASK_READ, block, (struct space_epoch){1, 0});
    assert_int_equal(count_said(1, SPACE_WIRE_TO_CACHE, SPACE_CACHE_SHARE), 1);
    space_engine_pause(engine, false, 1);
    for (uint32_t n = 0; n < 4; n++) {
        (void)space_engine_turn(engine, 1);
    }
    assert_int_equal(count_said(1, SPACE_WIRE_TO_CACHE, SPACE_CACHE_INVALIDATE), 1);
    assert_int_equal(free.operands[1], 0);
    assert_int_equal(count_used(), 1);
    for (uint32_t n = 0; n < LIMIT_SPACE_PLACES; n++) {
        space_engine_give_up(engine, &many[n]);
    }
    (void)space_engine_turn(engine, 1);
    assert_int_equal(free.operands[1], 0);
    say_of(1, SPACE_HOME_ACK, block, sends[sent - 1].wire.epoch);
    (void)space_engine_turn(engine, 1);
    assert_int_equal(free.operands[1], 1);
    assert_int_equal(free.status, NIGH_OK);
    assert_int_equal(count_used(), 0);
    end();
}

/* Blocks side by side, each of which seat 1 has, to write. */
static uint64_t allocate_for_seat_1(uint32_t count)
{
    struct space_op op = op_of(SPACE_OP_ALLOC, 0);

    op.operands[0] = (uint64_t)count * BYTES;
    assert_false(space_engine_begin(engine, &op, 1));
    (void)space_engine_turn(engine, 1);
    assert_int_equal(op.status, NIGH_OK);
    for (uint32_t n = 0; n < count; n++) {
        say_of(1, SPACE_HOME_ASK_WRITE, op.value + (uint64_t)n * BYTES, (struct space_epoch){1, 0});
    }
    return op.value;
}

/* Seat 1 gives back what it was told last to. */
static void give_back(uint64_t block)
{
    for (uint32_t n = sent; n > 0; n--) {
        const struct space_wire *wire = &sends[n - 1].wire;

        if (wire->event == SPACE_CACHE_FETCH_INVALIDATE && wire->address == block) {
            say_of(1, SPACE_HOME_WRITE_BACK, block, wire->epoch);
            (void)space_engine_turn(engine, 1);
            return;
        }
    }
    fail_msg("it was not told to");
}

/* Whoever has blocks of what is freed is asked for them at once, but for the first; the order in
 * which they come is nobody's business. */
static void a_free_has_many_blocks_under_way(void **state)
{
    struct space_op free;
    uint64_t first;

    (void)state;
    begin();
    first = allocate_for_seat_1(5);
    free = op_of(SPACE_OP_FREE, first);
    assert_false(space_engine_begin(engine, &free, 1));
    (void)space_engine_turn(engine, 1);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_CACHE, SPACE_CACHE_FETCH_INVALIDATE), 1);
    give_back(first);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_CACHE, SPACE_CACHE_FETCH_INVALIDATE), 5);
    for (uint32_t n = 4; n > 0; n--) {
        assert_int_equal(free.operands[1], 0);
        assert_int_equal(count_used(), 5);
        assert_true(space_engine_is_valid(engine));
        give_back(first + (uint64_t)n * BYTES);
    }
    assert_int_equal(free.operands[1], 1);
    assert_int_equal(free.status, NIGH_OK);
    assert_int_equal(count_used(), 0);
    end();
}

/* ... and those that find no room to wait are all tried again. */
static void what_has_no_room_to_wait_is_freed_later(void **state)
{
    struct space_op free;
    uint64_t first;

    (void)state;
    begin();
    first = allocate_for_seat_1(4);
    free = op_of(SPACE_OP_FREE, first);
    assert_false(space_engine_begin(engine, &free, 1));
    (void)space_engine_turn(engine, 1);
    fill_places(LIMIT_SPACE_PLACES - 1);
    give_back(first);
    (void)space_engine_turn(engine, 1);
    assert_true(space_engine_is_valid(engine));
    is_awake = false;
    assert_false(space_engine_turn(engine, 1));
    assert_false(is_awake);
    for (uint32_t n = 0; n < LIMIT_SPACE_PLACES - 1; n++) {
        space_engine_give_up(engine, &many[n]);
    }
    assert_true(is_awake);
    (void)space_engine_turn(engine, 1);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_CACHE, SPACE_CACHE_FETCH_INVALIDATE), 4);
    for (uint32_t n = 1; n < 4; n++) {
        assert_int_equal(free.operands[1], 0);
        give_back(first + (uint64_t)n * BYTES);
    }
    assert_int_equal(free.operands[1], 1);
    assert_int_equal(count_used(), 0);
    end();
}

/* A block of seat 1 comes to be written. */
static void give(uint64_t block)
{
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_CACHE,
                               .event = SPACE_CACHE_OWN,
                               .whom = SPACE_NOBODY,
                               .term = 5,
                               .address = block,
                               .epoch = {5, 1}});
}

/* Not all frames of a set are held: other blocks of it can be had. */
static void who_holds_leaves_frames_to_others(void **state)
{
    uint64_t first = space_address_first(1);
    uint32_t most = SPACE_WAYS - LIMIT_SPACE_LEAVING;
    struct space_op op;

    (void)state;
    begin();
    (void)own();
    for (uint32_t n = 0; n < most; n++) {
        op = op_of(SPACE_OP_LOCK_WRITE, first + n * BYTES);
        if (n > 0) { /* the first is there */
            assert_false(space_engine_begin(engine, &op, 1));
            give(op.address);
            assert_int_equal(op.operands[1], 1);
        } else {
            assert_true(space_engine_begin(engine, &op, 1));
        }
        assert_int_equal(op.status, NIGH_OK);
    }
    op = op_of(SPACE_OP_LOCK_READ, first + most * BYTES);
    assert_true(space_engine_begin(engine, &op, 1));
    assert_int_equal(op.status, NIGH_LIMIT);
    /* Nor is one that is here. */
    op = op_of(SPACE_OP_WRITE, first + most * BYTES);
    assert_false(space_engine_begin(engine, &op, 1));
    give(op.address);
    assert_int_equal(op.operands[1], 1);
    assert_int_equal(op.status, NIGH_OK);
    op = op_of(SPACE_OP_LOCK_WRITE, first + most * BYTES);
    assert_true(space_engine_begin(engine, &op, 1));
    assert_int_equal(op.status, NIGH_LIMIT);
    op = op_of(SPACE_OP_UNLOCK, first);
    op.holds = SPACE_HOLDS_ALONE;
    assert_true(space_engine_begin(engine, &op, 1));
    op = op_of(SPACE_OP_LOCK_WRITE, first + most * BYTES);
    assert_true(space_engine_begin(engine, &op, 1));
    assert_int_equal(op.status, NIGH_OK);
    end();
}

/* Whoever wants what is held here is said to: of a block that is cached, and of the home's. */
static void what_is_held_is_asked_for(void **state)
{
    (void)state;
    for (uint32_t is_home = 0; is_home < 2; is_home++) {
        struct space_op op;
        uint64_t block;

        begin();
        block = is_home ? allocate() : own();
        (void)lock_of(block, SPACE_OP_LOCK_WRITE);
        assert_int_equal(wanted_count, 0);
        assert_false(space_engine_is_wanted(engine, block));
        op = op_of(SPACE_OP_LOCK_READ, block);
        op.is_try = true;
        assert_true(space_engine_begin(engine, &op, 1));
        assert_int_equal(op.status, NIGH_BUSY);
        assert_int_equal(wanted_block, block);
        gives_way = true; /* it is not there at once, but soon */
        assert_false(space_engine_begin(engine, &op, 1));
        assert_true(space_engine_is_wanted(engine, block));
        unlock(block, SPACE_HOLDS_ALONE);
        assert_int_equal(op.operands[1], 1);
        assert_int_equal(op.status, NIGH_OK);
        assert_false(space_engine_is_wanted(engine, block));
        wanted_block = 0;
        op = op_of(SPACE_OP_WRITE, block);
        assert_false(space_engine_begin(engine, &op, 1));
        assert_int_equal(wanted_block, block);
        unlock(block, SPACE_HOLDS_TO_READ);
        assert_int_equal(op.operands[1], 1);
        end();
    }
}

/* One more than may hold a block to read waits for one of them, be it the home's or not. */
static void what_as_many_hold_as_may_is_held_next(void **state)
{
    (void)state;
    for (uint32_t is_home = 0; is_home < 2; is_home++) {
        struct space_op op;
        uint64_t block;

        begin();
        block = is_home ? allocate() : own();
        for (uint32_t n = 0; n + 1 < SPACE_HELD_ALONE; n++) {
            (void)lock_of(block, SPACE_OP_LOCK_READ);
        }
        op = op_of(SPACE_OP_LOCK_READ, block);
        assert_false(space_engine_begin(engine, &op, 1));
        unlock(block, SPACE_HOLDS_TO_READ);
        assert_int_equal(op.operands[1], 1);
        assert_int_equal(op.status, NIGH_OK);
        end();
    }
}

/* A try-lock of what many only keep waits until the last of them has let go. */
static void what_many_keep_is_waited_for(void **state)
{
    (void)state;
    for (uint32_t is_home = 0; is_home < 2; is_home++) {
        struct space_op op;
        uint64_t block;

        begin();
        block = is_home ? allocate() : own();
        for (uint32_t n = 0; n < 3; n++) {
            (void)lock_of(block, SPACE_OP_LOCK_READ);
        }
        gives_way = true;
        op = op_of(SPACE_OP_LOCK_WRITE, block);
        op.is_try = true;
        assert_false(space_engine_begin(engine, &op, 1));
        for (uint32_t n = 0; n < 3; n++) {
            assert_int_equal(op.operands[1], 0);
            unlock(block, SPACE_HOLDS_TO_READ);
            (void)space_engine_turn(engine, 1);
        }
        assert_int_equal(op.operands[1], 1);
        assert_int_equal(op.status, NIGH_OK);
        unlock(block, SPACE_HOLDS_ALONE);
        end();
    }
}

/* A try-lock does not wait behind who waits already, though what it finds held is only kept. */
static void nobody_passes(uint64_t block)
{
    static const uint8_t kinds[] = {SPACE_OP_LOCK_WRITE, SPACE_OP_LOCK_READ};

    gives_way = true;
    for (uint32_t n = 0; n < ARRAY_LENGTH(kinds); n++) {
        struct space_op op = op_of(kinds[n], block);

        op.is_try = true;
        assert_true(space_engine_begin(engine, &op, 1));
        assert_int_equal(op.status, NIGH_BUSY);
    }
    gives_way = false;
}

/* The same of another node, and of who is no member any more: nobody here waits. */
static void what_others_want_is_asked_for(void **state)
{
    uint64_t block;

    (void)state;
    begin();
    block = own();
    (void)lock_of(block, SPACE_OP_LOCK_WRITE);
    forward(block);
    assert_int_equal(wanted_block, block);
    assert_true(space_engine_is_wanted(engine, block));
    nobody_passes(block);
    unlock(block, SPACE_HOLDS_ALONE);
    end();

    begin();
    block = allocate();
    (void)lock_of(block, SPACE_OP_LOCK_READ);
    assert_false(space_engine_is_wanted(engine, block));
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                               .event = SPACE_HOME_ASK_WRITE,
                               .whom = SPACE_NOBODY,
                               .term = 1,
                               .address = block});
    assert_int_equal(wanted_block, block);
    assert_true(space_engine_is_wanted(engine, block));
    nobody_passes(block);
    unlock(block, SPACE_HOLDS_TO_READ);
    end();

    begin();
    block = own();
    (void)lock_of(block, SPACE_OP_LOCK_READ);
    space_engine_down(engine, 1, 1);
    space_engine_members(engine, 5, 1);
    assert_int_equal(wanted_block, block);
    assert_true(space_engine_is_wanted(engine, block));
    unlock(block, SPACE_HOLDS_TO_READ);
    end();
}

/* As many as may be held are only kept: another waits until one is let go. */
static void what_is_kept_makes_room_for_what_is_held(void **state)
{
    uint64_t first = space_address_first(1);
    uint32_t most = SPACE_WAYS - LIMIT_SPACE_LEAVING;
    struct space_op op;

    (void)state;
    begin();
    (void)own();
    (void)lock_of(first, SPACE_OP_LOCK_WRITE);
    for (uint32_t n = 1; n < most; n++) {
        op = op_of(SPACE_OP_LOCK_WRITE, first + n * BYTES);
        assert_false(space_engine_begin(engine, &op, 1));
        give(op.address);
    }
    assert_int_equal(wanted_count, 0); /* there are frames */
    gives_way = true;
    op = op_of(SPACE_OP_LOCK_WRITE, first + most * BYTES);
    assert_false(space_engine_begin(engine, &op, 1));
    assert_int_equal(wanted_count, most);
    unlock(first, SPACE_HOLDS_ALONE);
    (void)space_engine_turn(engine, 1);
    give(op.address);
    assert_int_equal(op.operands[1], 1);
    assert_int_equal(op.status, NIGH_OK);
    end();
}

/* ---- frames of homes that are gone ---------------------------------------- */

static uint64_t block_of(uint8_t seat, uint32_t n)
{
    return space_address_first(seat) + n * (uint64_t)BYTES;
}

/* Those of seats 1 and 2 serve, too. */
static void open_homes(void)
{
    for (uint8_t seat = 1; seat <= 2; seat++) {
        say_term(seat, SPACE_TERM_TERM, 5, 7);
        say_term(seat, SPACE_TERM_OPENED, 5, 0);
    }
    sent = 0;
}

static void come(uint8_t seat, uint64_t block, uint8_t event)
{
    say(seat, (struct space_wire){.kind = SPACE_WIRE_TO_CACHE,
                                  .event = event,
                                  .whom = event == SPACE_CACHE_READ_FORWARD ? 2 : SPACE_NOBODY,
                                  .term = 5,
                                  .address = block,
                                  .epoch = {5, 1}});
}

/* What waits in a pause under a lock that goes meanwhile, and with it the block, asks for it again;
 * what stays under it is done, or is told that it lost it. */
static void what_loses_its_lock_asks_as_others_do(void **state)
{
    (void)state;
    for (uint32_t is_home = 0; is_home < 2; is_home++) {
        struct space_op bare, other;
        uint64_t block;

        begin();
        block = is_home ? allocate() : own();
        (void)lock_of(block, SPACE_OP_LOCK_WRITE);
        space_engine_pause(engine, true, 1);
        bare = op_of(SPACE_OP_WRITE, block);
        other = op_of(SPACE_OP_WRITE, block);
        bare.holds = other.holds = SPACE_HOLDS_ALONE;
        assert_false(space_engine_begin(engine, &bare, 1));
        assert_false(space_engine_begin(engine, &other, 1));
        if (!is_home) {
            forward(block);
        }
        bare.holds = SPACE_HOLDS_NOTHING; /* as who lets go makes it */
        unlock(block, SPACE_HOLDS_ALONE);
        assert_int_equal(count_said(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_OWN), !is_home);
        if (!is_home) {
            come(1, block, SPACE_CACHE_RELEASE);
        }
        sent = 0;
        space_engine_pause(engine, false, 1);
        (void)space_engine_turn(engine, 1);
        assert_int_equal(other.operands[1], 1);
        assert_int_equal(other.status, NIGH_LOCK_LOST);
        assert_int_equal(bare.operands[1], is_home);
        if (!is_home) {
            assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_WRITE), 1);
            say(1, (struct space_wire){.kind = SPACE_WIRE_TO_CACHE,
                                       .event = SPACE_CACHE_OWN,
                                       .whom = SPACE_NOBODY,
                                       .term = 5,
                                       .address = block,
                                       .epoch = {5, 3}});
        }
        assert_int_equal(bare.operands[1], 1);
        assert_int_equal(bare.status, NIGH_OK);
        end();
    }
}

/* Blocks of that home, from the n-th on, are here: SHARE, or OWN and written; that seat gave them.
 */
static void have_of(uint8_t giver, uint8_t seat, uint32_t n, uint32_t count, uint8_t event)
{
    for (uint32_t end = n + count; n < end; n++) {
        struct space_op op =
            op_of(event == SPACE_CACHE_OWN ? SPACE_OP_WRITE : SPACE_OP_READ, block_of(seat, n));

        assert_false(space_engine_begin(engine, &op, 1));
        come(giver, op.address, event);
        assert_int_equal(op.operands[1], 1);
        assert_int_equal(op.status, NIGH_OK);
    }
    sent = 0;
}

static void have(uint8_t seat, uint32_t n, uint32_t count, uint8_t event)
{
    have_of(seat, seat, n, count, event);
}

static void lose_seat_1(void)
{
    space_engine_down(engine, 1, 1);
    space_engine_members(engine, 5, 1);
    (void)space_engine_turn(engine, 1);
}

static bool is_shown(uint64_t block)
{
    struct space_view cache;
    uint64_t bytes;
    uint32_t frame;

    assert_int_equal(space_view_open(cache_memory, sizeof(cache_memory), SPACE_VIEW_CACHE, &cache),
                     NIGH_OK);
    return space_cache_read(&cache, space_hash(block, cache.shift), block, &bytes, 8, &frame) ==
           SPACE_READ;
}

/* What it shared, and what was on its way out, goes as frames are wanted. */
static void what_a_home_that_is_gone_left_makes_room(void **state)
{
    struct space_op reads[2];

    (void)state;
    begin();
    open_homes();
    have_of(2, 1, 0, SPACE_WAYS, SPACE_CACHE_SHARE);
    for (uint32_t n = 0; n < 2; n++) {
        reads[n] = op_of(SPACE_OP_READ, block_of(2, n));
        assert_false(space_engine_begin(engine, &reads[n], 1));
    }
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_EVICT), 2);
    assert_int_equal(count_said(2, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_READ), 0);
    lose_seat_1();
    assert_int_equal(count_said(2, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_READ), 2);
    for (uint32_t n = 0; n < 2; n++) {
        come(2, reads[n].address, SPACE_CACHE_SHARE);
        assert_int_equal(reads[n].operands[1], 1);
    }
    assert_true(is_shown(block_of(1, SPACE_WAYS - 1))); /* as long as nobody wants its frame */
    have(2, 2, SPACE_WAYS - 2, SPACE_CACHE_SHARE);
    for (uint32_t n = 0; n < SPACE_WAYS; n++) {
        assert_false(is_shown(block_of(1, n)));
        assert_true(is_shown(block_of(2, n)));
    }
    end();
}

/* ... but not before what others were given of it has left. */
static void what_is_read_for_another_is_not_dropped(void **state)
{
    struct space_op read;

    (void)state;
    begin();
    open_homes();
    have(1, 0, 1, SPACE_CACHE_OWN);
    come(1, block_of(1, 0), SPACE_CACHE_READ_FORWARD);
    assert_int_equal(count_said(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_SHARE), 1);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_BYTES), 1);
    have(1, 1, SPACE_WAYS - 1, SPACE_CACHE_OWN);
    space_engine_sent(engine, 1, 1); /* the home's */
    lose_seat_1();
    read = op_of(SPACE_OP_READ, block_of(2, 0));
    assert_false(space_engine_begin(engine, &read, 1));
    (void)space_engine_turn(engine, 1);
    assert_int_equal(count_said(2, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_READ), 0);
    space_engine_sent(engine, 1, 1);
    (void)space_engine_turn(engine, 1);
    assert_int_equal(count_said(2, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_READ), 1);
    end();
}

/* What was written is kept for it; of a set that has nothing else nobody waits for a frame. */
static void who_can_have_no_frame_is_told_so(void **state)
{
    struct space_op waits, read;

    (void)state;
    begin();
    open_homes();
    have(1, 0, SPACE_WAYS, SPACE_CACHE_OWN);
    space_engine_pause(engine, true, 1);
    waits = op_of(SPACE_OP_WRITE, block_of(2, 0));
    assert_false(space_engine_begin(engine, &waits, 1));
    lose_seat_1();
    assert_int_equal(waits.operands[1], 0);
    space_engine_pause(engine, false, 1);
    (void)space_engine_turn(engine, 1);
    assert_int_equal(waits.operands[1], 1);
    assert_int_equal(waits.status, NIGH_LIMIT);
    read = op_of(SPACE_OP_READ, block_of(2, 1));
    assert_true(space_engine_begin(engine, &read, 1));
    assert_int_equal(read.status, NIGH_LIMIT);
    assert_true(is_shown(block_of(1, 0)));
    end();
}

/* Nor are so many blocks of it held that there is no frame for others. */
static void what_is_kept_for_the_gone_is_as_held(void **state)
{
    uint32_t kept = SPACE_WAYS - LIMIT_SPACE_LEAVING - 1;
    struct space_op lock;

    (void)state;
    begin();
    open_homes();
    have(1, 0, kept, SPACE_CACHE_OWN);
    have(2, 0, 2, SPACE_CACHE_SHARE);
    lose_seat_1();
    (void)lock_of(block_of(2, 0), SPACE_OP_LOCK_READ);
    lock = op_of(SPACE_OP_LOCK_READ, block_of(2, 1));
    assert_true(space_engine_begin(engine, &lock, 1));
    assert_int_equal(lock.status, NIGH_LIMIT);
    unlock(block_of(2, 0), SPACE_HOLDS_TO_READ);
    (void)lock_of(block_of(2, 1), SPACE_OP_LOCK_READ);
    end();
}

/* Blocks of seat 1 that were given to another, which is gone with what may be the last bytes. */
static void have_away(uint32_t count)
{
    have(1, 0, count, SPACE_CACHE_OWN);
    for (uint32_t n = 0; n < count; n++) {
        forward(block_of(1, n));
        assert_int_equal(count_said(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_OWN), n + 1);
        say(1, (struct space_wire){.kind = SPACE_WIRE_TO_CACHE,
                                   .event = SPACE_CACHE_REFUSE,
                                   .why = SPACE_HOME_AWAY,
                                   .whom = SPACE_NOBODY,
                                   .term = 5,
                                   .address = block_of(1, n)});
    }
    sent = 0;
}

/* Nor while frames are kept for a node that is away, of a home that serves: nobody can say when it
 * is back. */
static void what_is_kept_for_a_node_that_is_away_is_as_held(void **state)
{
    struct space_op op;

    (void)state;
    begin();
    open_homes();
    have_away(SPACE_WAYS);
    op = op_of(SPACE_OP_READ, block_of(2, 0));
    assert_true(space_engine_begin(engine, &op, 1));
    assert_int_equal(op.status, NIGH_LIMIT);
    end();
    begin();
    open_homes();
    have_away(2);
    have(2, 0, SPACE_WAYS - 2, SPACE_CACHE_OWN);
    for (uint32_t n = 0; n < SPACE_WAYS - LIMIT_SPACE_LEAVING - 2; n++) {
        (void)lock_of(block_of(2, n), SPACE_OP_LOCK_WRITE);
    }
    op = op_of(SPACE_OP_LOCK_WRITE, block_of(2, SPACE_WAYS - 3));
    assert_true(space_engine_begin(engine, &op, 1));
    assert_int_equal(op.status, NIGH_LIMIT);
    end();
}

/* What was given up of one whose link is down does not leave before it serves again. */
static void a_home_that_does_not_serve_keeps_nobody_waiting(void **state)
{
    struct space_op reads[2];

    (void)state;
    begin();
    open_homes();
    have_of(2, 1, 0, 2, SPACE_CACHE_SHARE);
    have(2, 0, SPACE_WAYS - 2, SPACE_CACHE_SHARE);
    for (uint32_t frame = 2; frame < SPACE_WAYS; frame++) {
        space_engine_hint(engine, frame);
    }
    for (uint32_t n = 0; n < 2; n++) {
        reads[n] = op_of(SPACE_OP_READ, block_of(2, SPACE_WAYS + n));
        assert_false(space_engine_begin(engine, &reads[n], 1));
    }
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_EVICT), 2);
    space_engine_down(engine, 1, 1);
    (void)space_engine_turn(engine, 1);
    assert_int_equal(count_said(2, SPACE_WIRE_TO_HOME, SPACE_HOME_EVICT), 2);
    end();
    assert_int_equal(reads[0].status, NIGH_CLOSED);
}

/* ---- frames that are free at once ----------------------------------------- */

static uint64_t hidden_of_seat_1(void)
{
    uint64_t hidden = 0;

    for (uint32_t n = 0; n < SPACE_WAYS; n++) {
        if (!is_shown(block_of(1, n))) {
            assert_int_equal(hidden, 0);
            hidden = block_of(1, n);
        }
    }
    assert_int_not_equal(hidden, 0);
    return hidden;
}

/* Who misses does not wait for the home of what makes room to hear of it. What made room is asked
 * for again when that one has. */
static void what_the_home_gave_makes_room_at_once(void **state)
{
    struct space_op read, again;

    (void)state;
    begin();
    open_homes();
    have(1, 0, SPACE_WAYS, SPACE_CACHE_SHARE);
    read = op_of(SPACE_OP_READ, block_of(2, 0));
    assert_false(space_engine_begin(engine, &read, 1));
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_EVICT), 1);
    assert_int_equal(count_said(2, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_READ), 1);
    again = op_of(SPACE_OP_READ, hidden_of_seat_1());
    assert_false(space_engine_begin(engine, &again, 1));
    come(1, again.address, SPACE_CACHE_INVALIDATE); /* it crosses what was said */
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_ACK), 0);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_READ), 0);
    come(1, again.address, SPACE_CACHE_RELEASE);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_EVICT), 2);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_READ), 1);
    come(2, read.address, SPACE_CACHE_SHARE);
    assert_int_equal(read.operands[1], 1);
    come(1, again.address, SPACE_CACHE_SHARE);
    assert_int_equal(again.operands[1], 1);
    assert_true(space_engine_is_valid(engine));
    end();
}

/* ... but for who still reads from this node's frames what is of that home. */
static void what_is_read_for_another_keeps_its_frame(void **state)
{
    struct space_op read;

    (void)state;
    begin();
    open_homes();
    have(1, 0, 1, SPACE_CACHE_OWN);
    have(1, 1, SPACE_WAYS - 1, SPACE_CACHE_SHARE);
    come(1, block_of(1, 0), SPACE_CACHE_READ_FORWARD);
    assert_int_equal(count_said(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_SHARE), 1);
    space_engine_hint(engine, 0); /* the others are older */
    read = op_of(SPACE_OP_READ, block_of(2, 0));
    assert_false(space_engine_begin(engine, &read, 1));
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_EVICT), 1);
    assert_int_equal(count_said(2, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_READ), 0);
    come(1, hidden_of_seat_1(), SPACE_CACHE_RELEASE);
    (void)space_engine_turn(engine, 1);
    assert_int_equal(count_said(2, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_READ), 1);
    space_engine_sent(engine, 1, 1);
    space_engine_sent(engine, 1, 1);
    come(2, read.address, SPACE_CACHE_SHARE);
    read = op_of(SPACE_OP_READ, block_of(2, 1));
    assert_false(space_engine_begin(engine, &read, 1));
    assert_int_equal(count_said(2, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_READ), 2);
    end();
}

/* Nor of what was claimed in a term: its home may have been started anew, and have asked for the
 * bytes; until they are there this may be the last copy. */
static void what_was_claimed_keeps_its_frame(void **state)
{
    struct space_op read;

    (void)state;
    begin();
    open_homes();
    have(1, 0, SPACE_WAYS, SPACE_CACHE_SHARE);
    say_term(1, SPACE_TERM_TERM, 6, 7);
    (void)space_engine_turn(engine, 1);
    say_term(1, SPACE_TERM_OPENED, 6, 0);
    (void)space_engine_turn(engine, 1);
    sent = 0;
    read = op_of(SPACE_OP_READ, block_of(2, 0));
    assert_false(space_engine_begin(engine, &read, 1));
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_EVICT), 1);
    assert_int_equal(count_said(2, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_READ), 0);
    end();
}

/* ... and keeps no place for a home that is gone, whichever is known first: that it is no member,
 * or that its link is down. Nor does an atomic that was asked of it. */
static void what_left_its_frame_is_not_kept_for_the_gone(void **state)
{
    (void)state;
    for (uint32_t is_down_first = 0; is_down_first < 2; is_down_first++) {
        struct space_op read, add = op_of(SPACE_OP_ADD, block_of(1, SPACE_WAYS));
        uint64_t gone;

        begin();
        open_homes();
        have(1, 0, SPACE_WAYS, SPACE_CACHE_SHARE);
        read = op_of(SPACE_OP_READ, block_of(2, 0));
        assert_false(space_engine_begin(engine, &read, 1));
        gone = hidden_of_seat_1();
        assert_false(space_engine_begin(engine, &add, 1));
        assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_ATOMIC), 1);
        assert_int_equal(engine->seats[1].asks, 2);
        if (is_down_first != 0) {
            space_engine_down(engine, 1, 1);
            assert_int_equal(engine->seats[1].asks, 2); /* it may be there again */
        }
        space_engine_members(engine, 5, 1);
        assert_int_equal(add.operands[1], 1);
        assert_int_equal(add.status, NIGH_PEER_LOST);
        if (is_down_first == 0) {
            assert_int_equal(engine->seats[1].asks, 2); /* it may yet say something */
            space_engine_down(engine, 1, 1);
        }
        assert_int_equal(engine->seats[1].asks, 0);
        assert_null(engine_find_place(engine, gone));
        assert_null(engine_find_place(engine, add.address));
        assert_true(space_engine_is_valid(engine));
        end();
    }
}

/* An atomic that was asked for, and of which a new term has cut off the answer, may be done: it
 * ends so, and is not asked for again. */
static void an_atomic_in_doubt_is_not_asked_again(void **state)
{
    struct space_op add = op_of(SPACE_OP_ADD, block_of(1, 0));

    (void)state;
    begin();
    open_homes();
    assert_false(space_engine_begin(engine, &add, 1));
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_ATOMIC), 1);
    say_term(1, SPACE_TERM_TERM, 6, 7);
    (void)space_engine_turn(engine, 1);
    say_term(1, SPACE_TERM_OPENED, 6, 0);
    (void)space_engine_turn(engine, 1);
    assert_int_equal(add.operands[1], 1);
    assert_int_equal(add.status, NIGH_PEER_LOST);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_ATOMIC), 1);
    end();
}

/* In a new term nothing is said of it, and who waits for it asks when that is open. */
static void what_left_its_frame_is_not_claimed(void **state)
{
    struct space_op read, again;
    uint64_t gone;

    (void)state;
    begin();
    open_homes();
    have(1, 0, SPACE_WAYS, SPACE_CACHE_SHARE);
    read = op_of(SPACE_OP_READ, block_of(2, 0));
    assert_false(space_engine_begin(engine, &read, 1));
    gone = hidden_of_seat_1();
    again = op_of(SPACE_OP_READ, gone);
    assert_false(space_engine_begin(engine, &again, 1));
    sent = 0;
    say_term(1, SPACE_TERM_TERM, 6, 7);
    (void)space_engine_turn(engine, 1);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_CLAIM_SHARED), SPACE_WAYS - 1);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_CLAIM_LEFT), 0);
    sent = 0;
    say_term(1, SPACE_TERM_OPENED, 6, 0);
    (void)space_engine_turn(engine, 1);
    assert_int_equal(sends[0].wire.event, SPACE_HOME_EVICT);
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_CACHE,
                               .event = SPACE_CACHE_RELEASE,
                               .whom = SPACE_NOBODY,
                               .term = 6,
                               .address = sends[0].wire.address,
                               .epoch = {.term = 6}});
    (void)space_engine_turn(engine, 1);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_READ), 1);
    assert_true(space_engine_is_valid(engine));
    end();
}

/* ---- what one malloc gave, over a home's loss ------------------------------ */

/* Addresses of the third life of this home, which begins its sixth term anew. */
static uint64_t of_life(uint64_t of, uint64_t number)
{
    return space_address_of_life(0, of, 8 * BYTES) + number * BYTES;
}

static struct space_wire claim_of(uint8_t event, uint64_t block, uint64_t before)
{
    return (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                               .event = event,
                               .whom = SPACE_NOBODY,
                               .term = 6,
                               .address = block,
                               .epoch = {4, 1},
                               .operands = {before}};
}

static void lose_home(void)
{
    create();
    meet_with(1, 5, 7);
    meet_with(2, 5, 7);
    (void)space_engine_turn(engine, 1);
}

static void open_again(void)
{
    say_term(1, SPACE_TERM_CLAIMED, 6, 0);
    say_term(2, SPACE_TERM_CLAIMED, 6, 0);
    assert_true(space_engine_is_open(engine));
}

/* Nodes do what this home asks them for from the n-th message on, until it asks for nothing more.
 */
static void obey(uint32_t n)
{
    for (; n < sent; n++) {
        const struct space_wire *asked = &sends[n].wire;
        struct space_wire answer = claim_of(SPACE_HOME_ACK, asked->address, 0);

        if (asked->kind != SPACE_WIRE_TO_CACHE ||
            (asked->event != SPACE_CACHE_INVALIDATE && asked->event != SPACE_CACHE_FETCH_SHARED &&
             asked->event != SPACE_CACHE_FETCH_INVALIDATE)) {
            continue;
        }
        answer.epoch = asked->epoch;
        answer.event = asked->event == SPACE_CACHE_INVALIDATE     ? SPACE_HOME_ACK
                       : asked->event == SPACE_CACHE_FETCH_SHARED ? SPACE_HOME_BYTES
                                                                  : SPACE_HOME_WRITE_BACK;
        say(sends[n].seat, answer);
        (void)space_engine_turn(engine, 1);
    }
}

static nigh_status free_obeyed(uint64_t address)
{
    struct space_op op = op_of(SPACE_OP_FREE, address);
    uint32_t before = sent;

    op.operands[0] = 0;
    if (!space_engine_begin(engine, &op, 1)) {
        (void)space_engine_turn(engine, 1);
        obey(before);
        assert_int_equal(op.operands[1], 1);
    }
    return op.status;
}

static nigh_status read_lost(uint64_t address)
{
    struct space_op op = op_of(SPACE_OP_READ, address);

    assert_true(space_engine_begin(engine, &op, 1));
    return op.status;
}

/* Of five blocks, and one, the third and the fourth, and that one, are claimed: what is before them
 * is lost, and theirs; what was behind is free. */
static void what_one_malloc_gave_is_freed_as_one(void **state)
{
    (void)state;
    lose_home();
    say(1, claim_of(SPACE_HOME_CLAIM_SHARED, of_life(3, 7), 0));
    say(2, claim_of(SPACE_HOME_CLAIM_DIRTY, of_life(3, 4), 3));
    say(1, claim_of(SPACE_HOME_CLAIM_SHARED, of_life(3, 3), 2));
    open_again();
    obey(0);
    assert_true(space_engine_is_valid(engine));
    assert_int_equal(count_used(), 5);
    assert_int_equal(read_lost(of_life(3, 1)), NIGH_NODE_LOST);
    for (uint32_t n = 2; n < 5; n++) {
        assert_int_equal(free_obeyed(of_life(3, n)), NIGH_INVALID);
    }
    assert_int_equal(free_obeyed(of_life(3, 5)), NIGH_NODE_LOST);
    assert_int_equal(free_obeyed(of_life(3, 1)), NIGH_OK);
    assert_int_equal(count_used(), 1);
    assert_int_equal(free_obeyed(of_life(3, 1)), NIGH_INVALID);
    assert_int_equal(free_obeyed(of_life(3, 7)), NIGH_OK);
    assert_int_equal(count_used(), 0);
    end();
}

/* ... also where a link breaks while the home opens, and where nobody has any of it then. */
static void what_one_malloc_gave_is_one_in_the_next_term(void **state)
{
    (void)state;
    lose_home();
    engine->config.opening = 1;
    for (uint32_t n = 2; n < 5; n++) {
        say(1, claim_of(SPACE_HOME_CLAIM_SHARED, of_life(3, n), n - 1));
    }
    say_term(1, SPACE_TERM_CLAIMED, 6, 0);
    say_term(2, SPACE_TERM_CLAIMED, 6, 0);
    assert_true(engine->is_opening);
    space_engine_down(engine, 1, 1);
    meet_with(1, 6, 7);
    (void)space_engine_turn(engine, 1);
    for (uint8_t seat = 1; seat <= 2; seat++) {
        say_term(seat, SPACE_TERM_CLAIMED, last_term(), 0);
    }
    assert_true(space_engine_is_open(engine));
    assert_true(space_engine_is_valid(engine));
    assert_int_equal(count_used(), 4);
    assert_int_equal(free_obeyed(of_life(3, 1)), NIGH_OK);
    assert_int_equal(count_used(), 0);
    end();
}

/* What lies between was given up by an address of an earlier life: who did hears so, by that. */
static void what_was_given_up_in_another_life_is_let_go(void **state)
{
    struct space_wire left = claim_of(SPACE_HOME_CLAIM_LEFT, of_life(2, 2), 0);

    (void)state;
    lose_home();
    say(1, left);
    say(2, claim_of(SPACE_HOME_CLAIM_DIRTY, of_life(3, 3), 2));
    open_again();
    assert_int_equal(count_said(1, SPACE_WIRE_TO_CACHE, SPACE_CACHE_RELEASE), 1);
    for (uint32_t n = 0; n < sent; n++) {
        assert_true(sends[n].wire.event != SPACE_CACHE_RELEASE ||
                    sends[n].wire.address == of_life(2, 2));
    }
    assert_int_equal(read_lost(of_life(3, 2)), NIGH_NODE_LOST);
    assert_int_equal(count_used(), 3);
    assert_int_equal(free_obeyed(of_life(3, 1)), NIGH_OK);
    assert_int_equal(count_used(), 0);
    end();
}

/* Of what cannot be of one malloc the later one has what nobody says anything of. */
static void claims_that_contradict_part_what_they_are_of(void **state)
{
    (void)state;
    lose_home();
    say(1, claim_of(SPACE_HOME_CLAIM_SHARED, of_life(3, 2), 0));
    say(2, claim_of(SPACE_HOME_CLAIM_SHARED, of_life(3, 2), 1));
    say(2, claim_of(SPACE_HOME_CLAIM_DIRTY, of_life(3, 4), 3));
    say(2, claim_of(SPACE_HOME_CLAIM_DIRTY, of_life(4, 6), 5));
    open_again();
    obey(0);
    assert_true(space_engine_is_valid(engine));
    assert_int_equal(count_used(), 5);
    assert_int_equal(free_obeyed(of_life(3, 2)), NIGH_OK);
    assert_int_equal(free_obeyed(of_life(3, 3)), NIGH_OK);
    assert_int_equal(free_obeyed(of_life(4, 5)), NIGH_OK);
    assert_int_equal(count_used(), 0);
    end();
}

/* Nothing is before the first block, which of seat 0 is nobody's. */
static void no_malloc_gave_what_is_before_all(void **state)
{
    struct space_wire wire = claim_of(SPACE_HOME_CLAIM_SHARED, of_life(3, 2), 2);

    (void)state;
    for (uint32_t n = 0; n < 2; n++) {
        lose_home();
        liar = 1;
        if (n == 0) {
            say(1, wire);
        } else {
            struct space_op read = op_of(SPACE_OP_READ, block_of(1, 2));

            open_homes();
            assert_false(space_engine_begin(engine, &read, 1));
            wire = (struct space_wire){.kind = SPACE_WIRE_TO_CACHE,
                                       .event = SPACE_CACHE_SHARE,
                                       .whom = SPACE_NOBODY,
                                       .term = 5,
                                       .address = read.address,
                                       .epoch = {5, 1},
                                       .operands = {3}};
            say(1, wire);
            space_engine_give_up(engine, &read);
        }
        assert_int_equal(liar, SPACE_NOBODY);
        end();
    }
    wire.operands[0] = LIMIT_SPACE_BLOCKS;
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire.operands[0] = LIMIT_SPACE_BLOCKS - 1;
    assert_int_equal(space_wire_check(&wire), NIGH_OK);
    wire.event = SPACE_CACHE_UPGRADE;
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
}

static uint64_t said_place(uint8_t seat, uint8_t kind, uint8_t event, uint64_t block)
{
    for (uint32_t n = sent; n > 0; n--) {
        const struct space_send *send = &sends[n - 1];

        if (send->seat == seat && send->wire.kind == kind && send->wire.event == event &&
            send->wire.address == block) {
            return send->wire.operands[0];
        }
    }
    fail_msg("it was not said");
    return 0;
}

/* A home says it of what it gives, ... */
static void what_a_home_gives_has_its_place(void **state)
{
    struct space_op op = op_of(SPACE_OP_ALLOC, 0);

    (void)state;
    begin();
    (void)allocate();
    op.operands[0] = 3 * BYTES;
    assert_false(space_engine_begin(engine, &op, 1));
    (void)space_engine_turn(engine, 1);
    for (uint32_t n = 0; n < 3; n++) {
        uint64_t block = op.value + (uint64_t)n * BYTES;

        say_of(1, n == 1 ? SPACE_HOME_ASK_WRITE : SPACE_HOME_ASK_READ, block,
               (struct space_epoch){1, 0});
        assert_int_equal(
            said_place(1, SPACE_WIRE_TO_CACHE, n == 1 ? SPACE_CACHE_OWN : SPACE_CACHE_SHARE, block),
            n);
    }
    end();
}

static void come_with_place(uint8_t kind, uint32_t n, uint8_t event, uint64_t before)
{
    struct space_op op = op_of(kind, block_of(1, n));

    assert_false(space_engine_begin(engine, &op, 1));
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_CACHE,
                               .event = event,
                               .whom = SPACE_NOBODY,
                               .term = 5,
                               .address = op.address,
                               .epoch = {5, 1},
                               .operands = {before}});
    assert_int_equal(op.operands[1], 1);
}

/* ... and who has it says it to whom it gives it, and when it claims it. */
static void what_a_node_has_keeps_its_place(void **state)
{
    (void)state;
    begin();
    open_homes();
    come_with_place(SPACE_OP_READ, 3, SPACE_CACHE_SHARE, 2);
    come_with_place(SPACE_OP_WRITE, 4, SPACE_CACHE_OWN, 3);
    come_with_place(SPACE_OP_WRITE, 6, SPACE_CACHE_OWN, 5);
    come_with_place(SPACE_OP_READ, 7, SPACE_CACHE_SHARE, 0);
    come(1, block_of(1, 4), SPACE_CACHE_READ_FORWARD);
    forward(block_of(1, 6));
    assert_int_equal(said_place(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_SHARE, block_of(1, 4)), 3);
    assert_int_equal(said_place(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_OWN, block_of(1, 6)), 5);
    come_with_place(SPACE_OP_WRITE, 5, SPACE_CACHE_OWN, 4);
    for (uint32_t n = 0; n < sent; n++) {
        if (sends[n].wants_end) {
            space_engine_sent(engine, sends[n].cookie, 1);
        }
    }
    sent = 0;
    say_term(1, SPACE_TERM_TERM, 6, 7);
    (void)space_engine_turn(engine, 1);
    for (uint32_t n = 3; n < 8; n++) {
        uint8_t event = n == 5   ? SPACE_HOME_CLAIM_DIRTY
                        : n == 6 ? SPACE_HOME_CLAIM_LEFT
                                 : SPACE_HOME_CLAIM_SHARED;

        assert_int_equal(said_place(1, SPACE_WIRE_TO_HOME, event, block_of(1, n)),
                         n == 6 || n == 7 ? 0 : n - 1);
    }
    /* What it gave up and has again has the place that the home says it has. */
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_CACHE,
                               .event = SPACE_CACHE_RESTORE,
                               .whom = SPACE_NOBODY,
                               .term = 6,
                               .address = block_of(1, 6),
                               .epoch = {.term = 6},
                               .operands = {4}});
    for (uint32_t n = 0; n < sent; n++) {
        if (sends[n].wants_end) {
            space_engine_sent(engine, sends[n].cookie, 1);
        }
    }
    say_term(1, SPACE_TERM_TERM, 7, 7);
    (void)space_engine_turn(engine, 1);
    assert_int_equal(said_place(1, SPACE_WIRE_TO_HOME, SPACE_HOME_CLAIM_SHARED, block_of(1, 6)), 4);
    end();
}

/* ---- one with a log, whose jobs end when they are told to ----------------- */

static struct space_log node_log;
static struct space_log_job *job; /* that is under way */
static nigh_status failed;

static void note_log(void *context, struct space_log_job *next)
{
    (void)context;
    assert_null(job);
    job = next;
}

static void note_failed(void *context, nigh_status why)
{
    (void)context;
    failed = why;
}

/* Turns as a lane has them: as long as there is something to do. */
static void drive(void)
{
    uint32_t turns = 0;
    bool more;

    do {
        is_awake = false;
        more = space_engine_turn(engine, 1);
        assert_true(turns++ < 1000);
    } while (more || is_awake);
}

/* What a start finds of what was written. */
static struct space_log_state *mirror;

static void mirror_job(const struct space_log_job *done)
{
    struct space_log_batch batch;
    struct space_log_record record;
    uint32_t at = 0;

    if (mirror == NULL || done->task != SPACE_LOG_COMMIT) {
        return;
    }
    assert_int_equal(space_log_open_batch(done->bytes, done->size_bytes, &batch), NIGH_OK);
    while (space_log_next_record(&batch, &at, &record)) {
        assert_int_equal(space_log_apply(mirror, &record, false), NIGH_OK);
    }
}

static void run_job(void)
{
    struct space_log_job *done = job;

    assert_non_null(done);
    mirror_job(done);
    job = NULL;
    done->status = NIGH_OK;
    space_engine_logged(engine, 1);
}

static void run_all(void)
{
    drive();
    while (job != NULL) {
        run_job();
        drive();
    }
}

static uint64_t life = 1; /* of its addresses */
/* What its log has besides; NULL: nothing. */
static void (*change_found)(struct space_log_state *found);

/* Seat 0, of these; `term`: the last of its log, in which it was open and has one block's bytes; 0:
 * that is new. */
static void create_with_log(uint64_t members, uint32_t term)
{
    struct space_engine_config config = {
        .space = 1,
        .birth = 1,
        .life = 9,
        .home_memory = home_memory,
        .cache_memory = cache_memory,
        .log = &node_log,
        .shell = {.send = note_send,
                  .cut = note_cut,
                  .wake = note_wake,
                  .log = note_log,
                  .failed = note_failed},
    };
    const struct space_log_geometry geometry = {
        .block_bytes = BYTES, .blocks = 8, .frames = SPACE_WAYS};
    struct space_log_name name = {.identity = 1, .life = 2};
    struct space_log_state found;

    memset(home_memory, 0, sizeof(home_memory));
    memset(cache_memory, 0, sizeof(cache_memory));
    sent = 0;
    is_full = is_awake = false;
    job = NULL;
    failed = NIGH_OK;
    space_view_make_home(home_memory, 8, BYTES, space_address_of_life(0, life, 8 * BYTES),
                         &config.home);
    space_view_make_cache(cache_memory, 1, BYTES, &config.cache);
    assert_int_equal(space_log_init(&node_log, &name, &geometry, LIMIT_SPACE_LOG_BYTES_MIN, 1),
                     NIGH_OK);
    assert_int_equal(
        space_log_state_init(&found, &geometry, (uint8_t *)space_bytes_of(&config.home, 0), 1),
        NIGH_OK);
    found.term = term;
    if (term != 0) {
        found.blocks[1] = (struct space_log_block){.state = SPACE_LOG_IS_HERE, .life = 1, .run = 1};
    }
    for (uint8_t seat = 0; term != 0 && seat < SPACE_SEATS; seat++) {
        found.lives[seat] = seat == 0 ? 9 : seat;
        found.members = members;
    }
    if (change_found != NULL) {
        change_found(&found);
    }
    config.recovered = term != 0 ? &found : NULL;
    assert_int_equal(space_engine_create(&config, &engine), NIGH_OK);
    space_log_state_fini(&found);
    space_engine_members(engine, members, 1);
}

/* Its home is open in its first term, and all is durable. */
static void begin_with_log(uint64_t members)
{
    create_with_log(members, 0);
    for (uint64_t left = members & ~space_bit(0); left != 0; left &= left - 1) {
        meet_with(space_set_first(left), 0, members);
        sent = 0;
    }
    run_all();
    for (uint64_t left = members & ~space_bit(0); left != 0; left &= left - 1) {
        say_term(space_set_first(left), SPACE_TERM_CLAIMED, 1, 0);
    }
    run_all();
    assert_true(space_engine_is_open(engine));
    sent = 0;
}

static void end_with_log(void)
{
    assert_true(space_engine_is_valid(engine));
    space_engine_end(engine, NIGH_CLOSED);
    if (job != NULL) {
        run_job();
    }
    space_engine_destroy(engine);
    space_log_fini(&node_log);
}

static struct space_op last;

/* Writes a block again and again, until one waits or the log has room for less than that. */
static void write_until(uint64_t block, uint32_t room)
{
    do {
        last = op_of(SPACE_OP_WRITE, block);
        if (!space_engine_begin(engine, &last, 1)) {
            return;
        }
        assert_int_equal(last.status, NIGH_OK);
    } while (space_log_has_room(&node_log, room));
}

/* A log that is full until its image is whole has room as the next one begins: then no job ends,
 * and nobody comes; who waits for room has it all the same. */
static void who_waits_for_room_has_it(void **state)
{
    uint64_t block;

    (void)state;
    begin_with_log(7);
    block = allocate();
    while (job == NULL || job->task != SPACE_LOG_IMAGE_WRITE) {
        if (job != NULL) {
            run_job();
        } else {
            last = op_of(SPACE_OP_WRITE, block);
            assert_true(space_engine_begin(engine, &last, 1));
        }
        drive();
    }
    write_until(block, 0);
    assert_int_equal(last.operands[1], 0);
    while (last.operands[1] == 0 && job != NULL) {
        run_job();
        drive();
    }
    assert_int_equal(last.operands[1], 1);
    assert_int_equal(last.status, NIGH_OK);
    end_with_log();
}

/* Who lets go of a block serves all that wait for it at once: for an atomic of every seat a log has
 * room, or that waits until it has. */
static void all_seats_atomics_are_one_event(void **state)
{
    uint64_t block, other;

    (void)state;
    begin_with_log(UINT64_MAX);
    block = allocate();
    other = allocate();
    (void)lock_of(block, SPACE_OP_LOCK_WRITE);
    run_all();
    for (uint8_t seat = 1; seat < SPACE_SEATS; seat++) {
        say(seat, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                                      .event = SPACE_HOME_ASK_ATOMIC,
                                      .whom = SPACE_NOBODY,
                                      .term = 1,
                                      .address = block,
                                      .atomic = SPACE_RECORD_ADD,
                                      .operands = {1, 0}});
    }
    assert_int_equal(sent, 0);
    write_until(other, (SPACE_SEATS - 1) * (SPACE_LOG_RECORD_BYTES + 8));
    unlock(block, SPACE_HOLDS_ALONE);
    run_all();
    assert_int_equal(failed, NIGH_OK);
    for (uint8_t seat = 1; seat < SPACE_SEATS; seat++) {
        assert_int_equal(count_said(seat, SPACE_WIRE_TO_CACHE, SPACE_CACHE_ATOMIC_DONE), 1);
    }
    end_with_log();
}

/* What it has to read, and has asked to write, is the last there is, for all that it knows: terms
 * that were open without it take nothing of that from the log. */
static void who_asked_to_write_has_it_yet(void **state)
{
    uint64_t block;

    (void)state;
    begin_with_log(7);
    block = own();
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_CACHE,
                               .event = SPACE_CACHE_FETCH_SHARED,
                               .whom = SPACE_NOBODY,
                               .term = 5,
                               .address = block,
                               .epoch = {5, 1}});
    run_all();
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_BYTES), 1);
    space_engine_sent(engine, 1, 1);
    sent = 0;
    last = op_of(SPACE_OP_WRITE, block);
    assert_false(space_engine_begin(engine, &last, 1));
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_ASK_WRITE), 1);
    say(1, (struct space_wire){.kind = SPACE_WIRE_TERM,
                               .event = SPACE_TERM_TERM,
                               .why = SPACE_WIRE_ANEW,
                               .term = 8,
                               .operands = {7}});
    run_all();
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_CLAIM_LEFT), 1);
    assert_int_equal(count_said(1, SPACE_WIRE_TERM, SPACE_TERM_CLAIMED), 1);
    end_with_log();
}

/* What a log has of a home that is gone stays, though it was only shared last: on its own log that
 * home takes its bytes for the last where nobody claims the block. */
static void what_the_log_has_is_not_dropped(void **state)
{
    struct space_op read;

    (void)state;
    begin_with_log(7);
    open_homes();
    have(1, 0, SPACE_WAYS, SPACE_CACHE_OWN);
    for (uint32_t n = 0; n < SPACE_WAYS; n++) {
        come(1, block_of(1, n), SPACE_CACHE_FETCH_SHARED);
        run_all();
        assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_BYTES), 1);
        space_engine_sent(engine, 1, 1);
        sent = 0;
    }
    lose_seat_1();
    run_all();
    read = op_of(SPACE_OP_READ, block_of(2, 0));
    assert_true(space_engine_begin(engine, &read, 1));
    assert_int_equal(read.status, NIGH_LIMIT);
    for (uint32_t n = 0; n < SPACE_WAYS; n++) {
        assert_true(is_shown(block_of(1, n)));
    }
    end_with_log();
}

/* Of what is not under way to be durable. */
static struct space_log_record appended(uint32_t number)
{
    const struct space_log_buffer *buffer = &node_log.buffers[node_log.filling];
    const struct space_log_batch batch = {
        .bytes = buffer->bytes + SPACE_LOG_HEAD_BYTES,
        .size_bytes = buffer->used - SPACE_LOG_HEAD_BYTES,
        .records = buffer->records,
        .first = buffer->first,
    };
    struct space_log_record record = {0};
    uint32_t at = 0;

    assert_true(number < buffer->records);
    for (uint32_t n = 0; n <= number; n++) {
        assert_true(space_log_next_record(&batch, &at, &record));
    }
    return record;
}

/* What it passed on is given back to it, to read, as the home opens a term. */
static uint64_t have_again(void)
{
    uint64_t block;

    begin_with_log(7);
    block = own();
    run_all();
    forward_of(block, (struct space_epoch){5, 1});
    run_all();
    assert_int_equal(count_said(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_OWN), 1);
    space_engine_sent(engine, 1, 1);
    sent = 0;
    say_term(1, SPACE_TERM_TERM, 6, 7);
    run_all();
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_CLAIM_LEFT), 1);
    assert_int_equal(count_said(1, SPACE_WIRE_TERM, SPACE_TERM_CLAIMED), 1);
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_CACHE,
                               .event = SPACE_CACHE_RESTORE,
                               .whom = SPACE_NOBODY,
                               .term = 6,
                               .address = block,
                               .epoch = {6, 0}});
    assert_true(is_shown(block));
    return block;
}

/* What it passed on, and has again, its log has as its own before the home has the bytes, and gives
 * it the right to write. */
static void what_is_had_again_is_logged_before_its_bytes_leave(void **state)
{
    (void)state;
    (void)have_again();
    assert_int_equal(appended(0).kind, SPACE_LOG_RENEWED);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_BYTES), 0);
    run_all();
    assert_int_equal(count_said(1, SPACE_WIRE_TO_HOME, SPACE_HOME_BYTES), 1);
    space_engine_sent(engine, 1, 1);
    end_with_log();
}

/* Its home may be killed yet, and then know of no such member: what was held would not be. */
static void what_is_had_again_is_held_when_its_term_is_open(void **state)
{
    struct space_op lock, read;
    uint64_t block;

    (void)state;
    block = have_again();
    run_all();
    read = op_of(SPACE_OP_READ, block);
    assert_true(space_engine_begin(engine, &read, 1));
    assert_int_equal(read.status, NIGH_OK);
    lock = op_of(SPACE_OP_LOCK_READ, block);
    assert_false(space_engine_begin(engine, &lock, 1));
    say_term(1, SPACE_TERM_OPENED, 6, 0);
    run_all();
    assert_int_equal(lock.operands[1], 1);
    assert_int_equal(lock.status, NIGH_OK);
    space_engine_sent(engine, 1, 1);
    end_with_log();
}

static void claim_all(uint64_t members)
{
    uint32_t term = last_term();

    for (uint64_t left = members & ~space_bit(0); left != 0; left &= left - 1) {
        say_term(space_set_first(left), SPACE_TERM_CLAIMED, term, 0);
    }
    assert_true(space_engine_is_open(engine));
}

/* A home that is killed as it opens a term knows of nobody as a member that was none for some of
 * its blocks: neither who was left out, nor who came. */
static void who_is_left_out_is_known_before_the_blocks(void **state)
{
    struct space_log_record record;
    uint64_t block;

    (void)state;
    begin_with_log(7);
    block = allocate();
    say_of(2, SPACE_HOME_ASK_WRITE, block, (struct space_epoch){1, 0});
    run_all();
    assert_int_equal(count_said(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_OWN), 1);
    space_engine_down(engine, 2, 1);
    space_engine_members(engine, 3, 1);
    run_all();
    claim_all(3);
    record = appended(0);
    assert_int_equal(record.kind, SPACE_LOG_MEMBER);
    assert_true(record.seat == 2 && !record.is_ours);
    assert_int_equal(appended(1).kind, SPACE_LOG_OWNED); /* it is away */
    run_all();
    space_engine_members(engine, 7, 1);
    meet(2);
    run_all();
    claim_all(7);
    assert_int_equal(appended(0).kind, SPACE_LOG_BACK); /* it never took it */
    record = appended(1);
    assert_int_equal(record.kind, SPACE_LOG_MEMBER);
    assert_true(record.seat == 2 && record.is_ours);
    end_with_log();
}

/* A home with a log takes the bytes that it asks for while it opens, as any does: it holds no more
 * than it asked for, however many a node has that is back on its log. */
static void a_home_with_a_log_takes_bytes_as_it_opens(void **state)
{
    uint64_t blocks[2];
    uint32_t term;

    (void)state;
    begin_with_log(7);
    engine->config.opening = 1;
    for (uint32_t n = 0; n < 2; n++) {
        blocks[n] = allocate();
        say_of(2, SPACE_HOME_ASK_WRITE, blocks[n], (struct space_epoch){1, 0});
    }
    run_all();
    space_engine_down(engine, 2, 1);
    meet_with(2, 1, 7);
    run_all();
    term = last_term();
    for (uint32_t n = 0; n < 2; n++) {
        say(2, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                                   .event = SPACE_HOME_CLAIM_LEFT,
                                   .whom = SPACE_NOBODY,
                                   .term = term,
                                   .address = blocks[n],
                                   .epoch = {1, 2}});
    }
    say_term(1, SPACE_TERM_CLAIMED, term, 0);
    say_term(2, SPACE_TERM_CLAIMED, term, 0);
    for (uint32_t n = 0; n < 2; n++) {
        run_all();
        assert_int_equal(count_said(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_RESTORE), n + 1);
        assert_false(space_engine_is_open(engine));
        say(2, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                                   .event = SPACE_HOME_BYTES,
                                   .whom = SPACE_NOBODY,
                                   .term = term,
                                   .address = blocks[n],
                                   .epoch = {term, 0}});
        assert_int_equal(engine->log.held_count, 0);
    }
    run_all();
    assert_true(space_engine_is_open(engine));
    end_with_log();
}

/* What a log has of a first opening that did not come to its end no start believes: so nobody lets
 * go of what is asked for before it is open, as it is taken only then. */
static void a_first_opening_holds_what_it_asked_for(void **state)
{
    (void)state;
    create_with_log(7, 0);
    engine->config.letters = 2 * SPACE_SEATS;
    meet_with(1, 5, 7);
    meet_with(2, 5, 7);
    run_all();
    for (uint32_t n = 1; n <= 2; n++) {
        for (uint8_t seat = 1; seat <= 2; seat++) {
            say(seat, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                                          .event = SPACE_HOME_CLAIM_SHARED,
                                          .whom = SPACE_NOBODY,
                                          .term = 6,
                                          .address = space_address_of_life(0, 3, 8 * BYTES) +
                                                     (uint64_t)n * BYTES,
                                          .epoch = {4, 1}});
        }
    }
    is_full = true;
    say_term(1, SPACE_TERM_CLAIMED, 6, 0);
    say_term(2, SPACE_TERM_CLAIMED, 6, 0);
    run_all();
    assert_true(engine->is_opening);
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                               .event = SPACE_HOME_BYTES,
                               .whom = SPACE_NOBODY,
                               .term = 6,
                               .address = space_address_of_life(0, 3, 8 * BYTES) + BYTES,
                               .epoch = {6, 0}});
    assert_int_equal(engine->log.held_count, 1);
    is_full = false;
    run_all();
    assert_true(space_engine_is_open(engine));
    assert_int_equal(engine->log.held_count, 0);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_CACHE, SPACE_CACHE_FETCH_SHARED), 2);
    end_with_log();
}

static void leave_as_mirrored(struct space_log_state *found)
{
    memcpy(found->blocks, mirror->blocks, 8 * sizeof(*found->blocks));
}

/* What one malloc gave before a home lost its log the next one has as one, and a start on that. */
static void what_one_malloc_gave_is_logged_as_one(void **state)
{
    const struct space_log_geometry geometry = {
        .block_bytes = BYTES, .blocks = 8, .frames = SPACE_WAYS};
    static uint8_t home_bytes[8 * BYTES];
    struct space_log_state found;

    (void)state;
    assert_int_equal(space_log_state_init(&found, &geometry, home_bytes, 1), NIGH_OK);
    create_with_log(7, 0);
    mirror = &found;
    meet_with(1, 5, 7);
    meet_with(2, 5, 7);
    run_all();
    say(1, claim_of(SPACE_HOME_CLAIM_SHARED, of_life(3, 7), 0));
    say(2, claim_of(SPACE_HOME_CLAIM_DIRTY, of_life(3, 4), 3));
    say(1, claim_of(SPACE_HOME_CLAIM_SHARED, of_life(3, 3), 2));
    say(1, claim_of(SPACE_HOME_CLAIM_LEFT, of_life(3, 2), 0));
    say_term(1, SPACE_TERM_CLAIMED, 6, 0);
    say_term(2, SPACE_TERM_CLAIMED, 6, 0);
    run_all();
    assert_true(space_engine_is_open(engine));
    end_with_log();
    for (uint32_t n = 1; n < 8; n++) {
        assert_int_equal(found.blocks[n].run, n == 1 ? 4 : n == 7);
        assert_int_equal(found.blocks[n].life, n == 5 || n == 6 ? 0 : 3);
        assert_int_equal(found.blocks[n].state, n == 5 || n == 6 ? SPACE_LOG_IS_FREE
                                                : n < 3          ? SPACE_LOG_IS_LOST
                                                                 : SPACE_LOG_IS_OWNED);
    }
    change_found = leave_as_mirrored;
    create_with_log(7, 6);
    change_found = NULL;
    mirror = NULL;
    space_log_state_fini(&found);
    meet_with(1, 6, 7);
    meet_with(2, 6, 7);
    run_all();
    claim_all(7);
    run_all();
    assert_int_equal(count_used(), 5);
    assert_int_equal(free_obeyed(of_life(3, 3)), NIGH_INVALID);
    say(1, (struct space_wire){
               .kind = SPACE_WIRE_FREE, .address = of_life(3, 1), .operands = {0, 77}});
    run_all();
    assert_int_equal(count_said(1, SPACE_WIRE_ANSWER, SPACE_WIRE_FREE), 1);
    assert_int_equal(count_used(), 1);
    end_with_log();
}

/* A home that was claimed, and ended before it was open: blocks 1 to 4 were of one malloc, and what
 * is behind them of another, as far as it had heard. */
static void leave_unopened(struct space_log_state *found)
{
    found->members &= ~space_bit(0);
    for (uint32_t n = 1; n < 8; n++) {
        found->blocks[n] = (struct space_log_block){.state = SPACE_LOG_IS_OWNED,
                                                    .life = 3,
                                                    .owner = n == 3 ? 2 : 1,
                                                    .run = n == 1   ? 4u
                                                           : n == 5 ? 3u
                                                                    : 0u};
    }
}

/* By the next start some of it is gone, and is had by nobody: its log says so, too. */
static void what_a_start_claimed_in_vain_is_put_right(void **state)
{
    static const uint32_t runs[8] = {[1] = 3, [5] = 1, [7] = 1};

    (void)state;
    change_found = leave_unopened;
    create_with_log(7, 5);
    change_found = NULL;
    meet_with(1, 5, 7);
    meet_with(2, 5, 7);
    run_all();
    say(2, claim_of(SPACE_HOME_CLAIM_DIRTY, of_life(3, 3), 2));
    say(1, claim_of(SPACE_HOME_CLAIM_SHARED, of_life(3, 5), 0));
    say(1, claim_of(SPACE_HOME_CLAIM_SHARED, of_life(3, 7), 0));
    say_term(1, SPACE_TERM_CLAIMED, 6, 0);
    say_term(2, SPACE_TERM_CLAIMED, 6, 0);
    run_all();
    assert_true(space_engine_is_open(engine));
    for (uint32_t n = 1; n < 8; n++) {
        assert_int_equal(engine->log.home[n].run, runs[n]);
        assert_int_equal(engine->log.home[n].state, n == 4 || n == 6 ? SPACE_LOG_IS_FREE
                                                    : n < 3          ? SPACE_LOG_IS_LOST
                                                                     : SPACE_LOG_IS_OWNED);
    }
    end_with_log();
}

/* What a client that is gone had allocated is freed also where its home is only just coming back.
 */
static void what_is_freed_as_a_home_comes_back_waits_for_it(void **state)
{
    const uint64_t block = space_address_of_life(0, 1, 8 * BYTES) + BYTES;

    (void)state;
    create_with_log(7, 5);
    meet_with(1, 5, 7);
    meet_with(2, 5, 7);
    run_all();
    assert_int_equal(engine->entries[1].state, SPACE_HOME_REBUILDING);
    say(1, (struct space_wire){.kind = SPACE_WIRE_FREE, .address = block, .operands = {0, 77}});
    run_all();
    assert_int_equal(count_said(1, SPACE_WIRE_ANSWER, SPACE_WIRE_FREE), 0);
    claim_all(7);
    run_all();
    assert_int_equal(count_said(1, SPACE_WIRE_ANSWER, SPACE_WIRE_FREE), 1);
    assert_int_equal(engine->entries[1].state, SPACE_HOME_FREED);
    end_with_log();
}

static void leave_of_frees(struct space_log_state *found)
{
    static const struct space_log_block left[8] = {
        [2] = {.state = SPACE_LOG_IS_HERE, .life = 1},
        [3] = {.state = SPACE_LOG_IS_HERE, .life = 1},
        [4] = {.state = SPACE_LOG_IS_HERE, .life = 1, .run = 2},
        [5] = {.state = SPACE_LOG_IS_HERE, .life = 1},
        [7] = {.state = SPACE_LOG_IS_LOST, .life = 1},
    };

    memcpy(found->blocks, left, sizeof(left));
}

/* Of a malloc whose first block is free its home was killed as it freed the rest: a start goes on
 * with that, and with nothing else. What some client frees yet is freed once. */
static void what_a_free_has_left_is_freed_at_a_start(void **state)
{
    const uint64_t home = space_address_of_life(0, 1, 8 * BYTES);

    (void)state;
    change_found = leave_of_frees;
    create_with_log(7, 5);
    change_found = NULL;
    meet_with(1, 5, 7);
    meet_with(2, 5, 7);
    run_all();
    say(1, (struct space_wire){
               .kind = SPACE_WIRE_FREE, .address = home + 2 * BYTES, .operands = {0, 77}});
    run_all();
    assert_int_equal(count_used(), 5);
    claim_all(7);
    run_all();
    assert_int_equal(count_said(1, SPACE_WIRE_ANSWER, SPACE_WIRE_FREE), 1);
    for (uint32_t n = 1; n < 8; n++) {
        assert_int_equal(engine->entries[n].state == SPACE_HOME_FREED, n != 4 && n != 5);
        assert_int_equal(engine->log.home[n].state == SPACE_LOG_IS_FREE, n != 4 && n != 5);
    }
    assert_int_equal(count_used(), 2);
    end_with_log();
}

/* ... and no free that is under way has a first block that is not free, and others that are. */
static void a_free_begins_with_its_first_block(void **state)
{
    struct space_op free;
    uint64_t first;
    uint32_t number;

    (void)state;
    begin_with_log(7);
    first = allocate_for_seat_1(3);
    number = (uint32_t)engine_number(engine, first);
    free = op_of(SPACE_OP_FREE, first);
    assert_false(space_engine_begin(engine, &free, 1));
    run_all();
    assert_int_equal(engine->log.home[number + 1].state, SPACE_LOG_IS_OWNED);
    assert_int_equal(count_said(1, SPACE_WIRE_TO_CACHE, SPACE_CACHE_FETCH_INVALIDATE), 1);
    give_back(first);
    run_all();
    give_back(first + 2 * BYTES);
    run_all();
    assert_int_equal(engine->log.home[number].state, SPACE_LOG_IS_FREE);
    assert_int_equal(engine->log.home[number + 1].state, SPACE_LOG_IS_OWNED);
    assert_int_equal(engine->log.home[number + 1].run, 0);
    assert_int_equal(engine->log.home[number + 2].state, SPACE_LOG_IS_FREE);
    give_back(first + BYTES);
    run_all();
    assert_int_equal(free.status, NIGH_OK);
    assert_int_equal(free.operands[1], 1);
    end_with_log();
}

static uint8_t refused_for(uint64_t block)
{
    sent = 0;
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                               .event = SPACE_HOME_ASK_READ,
                               .whom = SPACE_NOBODY,
                               .term = engine->term.home.term,
                               .address = block,
                               .epoch = {engine->term.home.term, 0}});
    run_all();
    assert_int_equal(sent, 1);
    assert_int_equal(sends[0].wire.event, SPACE_CACHE_REFUSE);
    return sends[0].wire.why;
}

static nigh_status status_of(uint8_t kind, uint64_t block)
{
    struct space_op op = op_of(kind, block);

    assert_true(space_engine_begin(engine, &op, 1));
    return op.status;
}

static void leave_freed(struct space_log_state *found)
{
    found->blocks[5].life = 2;
}

/* By the last address that a block was given, it was freed; by older ones, and of what no log has,
 * it may be lost. */
static void what_was_freed_before_a_start_is_known(void **state)
{
    const uint64_t number[] = {5, 6};

    (void)state;
    life = 4;
    change_found = leave_freed;
    create_with_log(7, 5);
    life = 1;
    change_found = NULL;
    meet_with(1, 5, 7);
    meet_with(2, 5, 7);
    run_all();
    claim_all(7);
    run_all();
    for (uint32_t n = 0; n < 2; n++) {
        for (uint64_t of = 1; of < 6; of++) {
            bool is_known = of == (number[n] == 5 ? 2 : 4);
            uint64_t block = space_address_of_life(0, of, 8 * BYTES) + number[n] * BYTES;

            assert_int_equal(refused_for(block), is_known ? SPACE_HOME_FREED : SPACE_HOME_LOST);
            assert_int_equal(status_of(SPACE_OP_READ, block),
                             is_known ? NIGH_NOT_FOUND : NIGH_NODE_LOST);
            assert_int_equal(status_of(SPACE_OP_FREE, block),
                             is_known ? NIGH_INVALID : NIGH_NODE_LOST);
        }
    }
    end_with_log();
}

/* What the next image says was freed. */
static struct space_log_record freed_of_image(void)
{
    struct space_log_record record = {0};
    struct space_log_batch batch;
    uint32_t at = 0;

    assert_true(space_log_begin_image(&node_log));
    drive();
    while (job->task != SPACE_LOG_IMAGE_WRITE) {
        run_job();
        drive();
        assert_non_null(job);
    }
    assert_int_equal(space_log_open_batch(job->bytes, job->size_bytes, &batch), NIGH_OK);
    while (record.kind != SPACE_LOG_FREE) {
        assert_true(space_log_next_record(&batch, &at, &record));
    }
    return record;
}

static void an_image_has_what_was_freed(void **state)
{
    struct space_log_record record;
    struct space_op op = op_of(SPACE_OP_ALLOC, 0);
    uint64_t first;

    (void)state;
    begin_with_log(7);
    op.operands[0] = 3 * BYTES;
    (void)space_engine_begin(engine, &op, 1);
    run_all();
    assert_int_equal(op.status, NIGH_OK);
    first = op.value;
    op = op_of(SPACE_OP_FREE, first);
    assert_false(space_engine_begin(engine, &op, 1));
    run_all();
    assert_int_equal(op.status, NIGH_OK);
    record = freed_of_image();
    assert_int_equal(record.address, first);
    assert_int_equal(record.blocks, 3);
    run_all();
    end_with_log();
}

/* What went with a node, as a home begins anew, was not freed: no address of it is known. */
static void what_was_lost_is_not_known_as_freed(void **state)
{
    (void)state;
    life = 7;
    create_with_log(7, 0);
    life = 1;
    meet_with(1, 5, 7);
    meet_with(2, 5, 7);
    run_all();
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                               .event = SPACE_HOME_CLAIM_LEFT,
                               .whom = SPACE_NOBODY,
                               .term = last_term(),
                               .address = space_address_of_life(0, 3, 8 * BYTES) + BYTES,
                               .epoch = {3, 1}});
    run_all();
    assert_int_equal(engine->log.home[1].life, 3);
    claim_all(7);
    run_all();
    assert_true(space_engine_is_open(engine));
    assert_int_equal(engine->entries[1].state, SPACE_HOME_FREED);
    assert_int_equal(engine->log.home[1].state, SPACE_LOG_IS_FREE);
    assert_int_equal(engine->log.home[1].life, 7);
    end_with_log();
}

/* Who was met without its log in a term that began to open, and is there on it again, knows nothing
 * of what was before; but the log says since when that is so. */
static void since_when_a_member_is_known_is_logged(void **state)
{
    uint64_t block;
    uint32_t term;

    (void)state;
    begin_with_log(7);
    engine->config.opening = 1;
    block = allocate();
    say_of(1, SPACE_HOME_ASK_WRITE, block, (struct space_epoch){1, 0});
    run_all();
    space_engine_down(engine, 2, 1);
    meet_of_life(2, 99, 0, 7);
    run_all();
    term = last_term();
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                               .event = SPACE_HOME_CLAIM_LEFT,
                               .whom = SPACE_NOBODY,
                               .term = term,
                               .address = block,
                               .epoch = {1, 2}});
    say_term(1, SPACE_TERM_CLAIMED, term, 0);
    say_term(2, SPACE_TERM_CLAIMED, term, 0);
    run_all();
    assert_true(engine->is_opening && engine->since[2] == term);
    engine->config.opening = LIMIT_SPACE_OPENING;
    space_engine_down(engine, 2, 1);
    meet(2);
    run_all();
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                               .event = SPACE_HOME_CLAIM_SHARED,
                               .whom = SPACE_NOBODY,
                               .term = term + 1,
                               .address = block,
                               .epoch = {term, 0}});
    claim_all(7);
    assert_int_equal(engine->since[2], term + 1);
    assert_int_equal(engine->log.since[2], term + 1);
    end_with_log();
}

/* Who was met without its log, and is there on it again, has all that it had, unless a term was
 * open with it without: what it was given, and claims nothing of, it never took. */
static void who_is_there_on_its_log_again_knows_what_it_had(void **state)
{
    (void)state;
    for (uint32_t is_open = 0; is_open < 2; is_open++) {
        uint64_t block;
        uint8_t found;

        begin_with_log(7);
        block = allocate();
        say_of(2, SPACE_HOME_ASK_WRITE, block, (struct space_epoch){1, 0});
        run_all();
        assert_int_equal(count_said(2, SPACE_WIRE_TO_CACHE, SPACE_CACHE_OWN), 1);
        space_engine_down(engine, 2, 1);
        meet_of_life(2, 99, 0, 7);
        run_all();
        if (is_open != 0) {
            claim_all(7);
            run_all();
        }
        space_engine_down(engine, 2, 1);
        meet(2);
        run_all();
        claim_all(7);
        found = engine->entries[engine_number(engine, block)].state;
        assert_int_equal(found, is_open != 0 ? SPACE_HOME_LOST : SPACE_HOME_UNSHARED);
        assert_true(engine->since[2] == (is_open != 0 ? last_term() : 1));
        end_with_log();
    }
}

/* Who was a member, and knows a term that the log does not, was told of it by this home as it had
 * another log: nothing is begun on an old one, and who waits is told that it cannot be used. */
static void an_old_log_is_not_believed(void **state)
{
    (void)state;
    for (uint32_t is_old = 0; is_old < 2; is_old++) {
        uint64_t block = space_address_of_life(0, 1, 8 * BYTES) + BYTES;
        struct space_op waits = op_of(SPACE_OP_READ, block), late = waits;

        create_with_log(7, 5);
        assert_false(space_engine_begin(engine, &waits, 1));
        meet_with(1, 5, 7);
        run_all();
        assert_int_equal(space_log_last(&node_log), 0); /* the other may know better */
        sent = 0;
        meet_with(2, 5 + is_old, 7);
        run_all();
        assert_int_equal(failed, is_old != 0 ? NIGH_CORRUPT : NIGH_OK);
        if (is_old != 0) {
            assert_int_equal(waits.status, NIGH_CORRUPT);
            assert_true(space_engine_begin(engine, &late, 1));
            assert_int_equal(late.status, NIGH_CORRUPT);
            assert_int_equal(space_engine_durable(engine, 1), NIGH_CORRUPT);
        }
        assert_int_equal(space_log_last(&node_log), is_old != 0 ? 0 : 1);
        assert_int_equal(count_said(1, SPACE_WIRE_TERM, SPACE_TERM_TERM), 1 - is_old);
        end_with_log();
    }
}

/* ... but not once this home has begun on it: then who says so lies, and costs its own link alone.
 */
static void a_lie_makes_no_log_an_old_one(void **state)
{
    (void)state;
    create_with_log(7, 5);
    meet_with(1, 5, 7);
    meet_with(2, 5, 7);
    run_all();
    space_engine_down(engine, 2, 1);
    liar = 2;
    meet_with(2, 1000, 7); /* who was told of a term that is not open yet */
    assert_int_equal(liar, SPACE_NOBODY);
    run_all();
    assert_int_equal(failed, NIGH_OK);
    space_engine_down(engine, 2, 1);
    meet_with(2, 6, 7);
    run_all();
    claim_all(7);
    run_all();
    space_engine_down(engine, 1, 1);
    liar = 1;
    meet_with(1, 1000, 7);
    assert_int_equal(liar, SPACE_NOBODY);
    run_all();
    assert_int_equal(failed, NIGH_OK);
    space_engine_down(engine, 1, 1);
    meet_with(1, 7, 7);
    run_all();
    assert_int_equal(last_term(), 10);
    claim_all(7);
    end_with_log();
}

/* Who was none may know what was before this log. */
static void who_was_no_member_knows_nothing_of_it(void **state)
{
    (void)state;
    create_with_log(3, 5);
    meet_with(1, 5, 7);
    meet_with(2, 9, 7);
    space_engine_members(engine, 7, 1);
    run_all();
    assert_int_equal(failed, NIGH_OK);
    assert_int_equal(last_term(), 10);
    end_with_log();
}

/* All that is held may be let go while a log has no room: no more is held than there is a place for
 * until it has. */
static void no_more_is_held_than_is_let_go_at_once(void **state)
{
    struct space_op lock;
    uint64_t block;

    (void)state;
    begin_with_log(1);
    block = allocate();
    run_all();
    engine->log.holds = LIMIT_SPACE_PLACES - 1;
    (void)lock_of(block, SPACE_OP_LOCK_READ);
    lock = op_of(SPACE_OP_LOCK_READ, block);
    assert_true(space_engine_begin(engine, &lock, 1));
    assert_int_equal(lock.status, NIGH_LIMIT);
    unlock(block, SPACE_HOLDS_TO_READ);
    (void)lock_of(block, SPACE_OP_LOCK_READ);
    end_with_log();
}

/* ---- a home that opens over turns ----------------------------------------- */

#define MANY 700u /* blocks, all shared */

static uint8_t *large_memory;
static struct space_wire asked_of[MANY]; /* those that asked for bytes */
static struct space_wire recalls[2 * LIMIT_SPACE_STEPS];
static uint32_t asked, opened, recalled;

static bool count_send(void *context, const struct space_send *send)
{
    (void)context;
    if (is_full) {
        return false;
    }
    if (send->wire.kind == SPACE_WIRE_TO_CACHE && send->wire.event == SPACE_CACHE_FETCH_SHARED) {
        assert_true(asked < MANY);
        asked_of[asked++] = send->wire;
    }
    if (send->wire.kind == SPACE_WIRE_TO_CACHE &&
        send->wire.event == SPACE_CACHE_FETCH_INVALIDATE) {
        assert_true(recalled < 2 * LIMIT_SPACE_STEPS);
        recalls[recalled++] = send->wire;
    }
    opened += send->wire.kind == SPACE_WIRE_TERM && send->wire.event == SPACE_TERM_OPENED;
    return true;
}

/* A home of `count` blocks that is started anew, and members that share `shared` of them. */
static void begin_large(uint64_t count, uint32_t shared, uint32_t letters)
{
    size_t bytes = space_view_home_bytes(count, BYTES);
    struct space_engine_config config = {
        .space = 1,
        .birth = 1,
        .life = 9,
        .letters = letters,
        .cache_memory = cache_memory,
        .shell = {.send = count_send, .cut = note_cut, .wake = note_wake},
    };

    large_memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    assert_non_null(large_memory);
    memset(large_memory, 0, bytes);
    config.home_memory = large_memory;
    asked = opened = recalled = 0;
    is_full = is_awake = false;
    space_view_make_home(large_memory, count, BYTES, space_address_of_life(0, 1, count * BYTES),
                         &config.home);
    space_view_make_cache(cache_memory, 1, BYTES, &config.cache);
    assert_int_equal(space_engine_create(&config, &engine), NIGH_OK);
    space_engine_members(engine, 7, 1);
    meet_with(1, 5, 7);
    meet_with(2, 5, 7);
    (void)space_engine_turn(engine, 1);
    for (uint32_t n = 1; n < shared; n++) {
        for (uint8_t seat = 1; seat <= 2; seat++) {
            say(seat, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                                          .event = SPACE_HOME_CLAIM_SHARED,
                                          .whom = SPACE_NOBODY,
                                          .term = 6,
                                          .address = space_address_of_life(0, 3, count * BYTES) +
                                                     n * BYTES,
                                          .epoch = {4, 1}});
        }
    }
}

static void end_large(void)
{
    end();
    free(large_memory);
}

static void claimed(void)
{
    say_term(1, SPACE_TERM_CLAIMED, 6, 0);
    say_term(2, SPACE_TERM_CLAIMED, 6, 0);
    (void)space_engine_turn(engine, 1);
}

/* Who is asked for bytes by a home that opens needs room for them, as others do: it is not asked
 * for all at once. */
static void a_home_asks_for_some_bytes_at_a_time(void **state)
{
    (void)state;
    begin_large(MANY, MANY, 0);
    claimed();
    assert_int_equal(asked, LIMIT_SPACE_OPENING);
    assert_false(space_engine_is_open(engine));
    for (uint32_t n = 0; n < MANY - 1; n++) {
        assert_true(n < asked && asked <= n + LIMIT_SPACE_OPENING);
        say(1, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                                   .event = SPACE_HOME_BYTES,
                                   .whom = SPACE_NOBODY,
                                   .term = 6,
                                   .address = asked_of[n].address,
                                   .epoch = {6, 0}});
        (void)space_engine_turn(engine, 1);
    }
    assert_int_equal(asked, MANY - 1);
    assert_true(space_engine_is_open(engine));
    assert_int_equal(opened, 2);
    end_large();
}

/* What it has to say takes no more room than there is: nobody's link is cut for it. */
static void a_home_opens_as_far_as_there_is_room(void **state)
{
    (void)state;
    begin_large(MANY, MANY, 3 * SPACE_SEATS);
    is_full = true;
    claimed();
    assert_int_equal(asked, 0);
    for (uint32_t n = 0; n < 10; n++) {
        (void)space_engine_turn(engine, 1);
    }
    is_full = false;
    (void)space_engine_turn(engine, 1);
    (void)space_engine_turn(engine, 1);
    assert_true(asked > SPACE_SEATS / 4);
    assert_false(space_engine_is_open(engine));
    end_large();
}

/* Others want their turn meanwhile. */
static void a_large_home_opens_over_turns(void **state)
{
    (void)state;
    begin_large(LIMIT_SPACE_OPEN_BLOCKS + 1, 0, 0);
    say_term(1, SPACE_TERM_CLAIMED, 6, 0);
    is_awake = false;
    say_term(2, SPACE_TERM_CLAIMED, 6, 0);
    assert_false(space_engine_is_open(engine));
    assert_true(is_awake);
    (void)space_engine_turn(engine, 1);
    assert_true(space_engine_is_open(engine));
    end_large();
}

#define FREES  20u
#define BLOCKS (2 * LIMIT_SPACE_STEPS / FREES)

/* Mallocs that seat 1 has all of, to write. */
static void give_large(struct space_op frees[FREES])
{
    for (uint32_t n = 0; n < FREES; n++) {
        struct space_op op = op_of(SPACE_OP_ALLOC, 0);

        op.operands[0] = (uint64_t)BLOCKS * BYTES;
        assert_false(space_engine_begin(engine, &op, 1));
        drive();
        assert_int_equal(op.status, NIGH_OK);
        frees[n] = op_of(SPACE_OP_FREE, op.value);
        for (uint64_t block = op.value; block < op.value + op.operands[0]; block += BYTES) {
            say(1, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                                       .event = SPACE_HOME_ASK_WRITE,
                                       .whom = SPACE_NOBODY,
                                       .term = 6,
                                       .address = block,
                                       .epoch = {6, 0}});
        }
    }
}

static void give_back_large(uint32_t n)
{
    say(1, (struct space_wire){.kind = SPACE_WIRE_TO_HOME,
                               .event = SPACE_HOME_WRITE_BACK,
                               .whom = SPACE_NOBODY,
                               .term = 6,
                               .address = recalls[n].address,
                               .epoch = recalls[n].epoch});
}

/* Blocks that wait for who has them are bounded, of one free and of all, and each has one. */
static void frees_leave_room_to_others(void **state)
{
    struct space_op frees[FREES];

    (void)state;
    begin_large(1 + 2 * LIMIT_SPACE_STEPS, 0, 0);
    claimed();
    give_large(frees);
    assert_false(space_engine_begin(engine, &frees[0], 1));
    drive();
    give_back_large(0);
    drive();
    assert_int_equal(engine->steps_used, LIMIT_SPACE_JOB_STEPS);
    for (uint32_t n = 1; n < FREES; n++) {
        assert_false(space_engine_begin(engine, &frees[n], 1));
    }
    drive();
    assert_int_equal(recalled, 1 + LIMIT_SPACE_JOB_STEPS + FREES - 1);
    for (uint32_t n = recalled - (FREES - 1); n < 1 + LIMIT_SPACE_JOB_STEPS + FREES - 1; n++) {
        give_back_large(n);
    }
    drive();
    assert_int_equal(engine->steps_used,
                     LIMIT_SPACE_STEPS - LIMIT_SPACE_JOBS +
                         (FREES - (LIMIT_SPACE_STEPS - LIMIT_SPACE_JOBS) / LIMIT_SPACE_JOB_STEPS));
    assert_true(space_engine_is_valid(engine));
    for (uint32_t n = 1; n < recalled; n++) {
        if (n <= LIMIT_SPACE_JOB_STEPS || n > LIMIT_SPACE_JOB_STEPS + FREES - 1) {
            give_back_large(n);
            drive();
        }
    }
    for (uint32_t n = 0; n < FREES; n++) {
        assert_int_equal(frees[n].operands[1], 1);
        assert_int_equal(frees[n].status, NIGH_OK);
    }
    assert_int_equal(recalled, FREES * BLOCKS);
    assert_int_equal(count_used(), 0);
    end_large();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_say_anything),
        cmocka_unit_test(what_is_no_message_is_known_by_its_parts),
        cmocka_unit_test(a_home_says_nothing_before_its_term),
        cmocka_unit_test(a_home_opens_when_all_are_linked),
        cmocka_unit_test(a_home_begins_anew_when_a_link_breaks),
        cmocka_unit_test(who_has_a_block_goes_before_who_gave_it_up),
        cmocka_unit_test(what_was_told_goes_over_no_new_link),
        cmocka_unit_test(what_was_open_before_a_link_goes_over_no_new_one),
        cmocka_unit_test(a_claim_waits_for_what_is_written),
        cmocka_unit_test(who_was_left_out_has_nothing),
        cmocka_unit_test(what_waits_for_room_is_said_in_order),
        cmocka_unit_test(who_holds_waits_for_nobody),
        cmocka_unit_test(a_try_waits_no_longer_than_it_may),
        cmocka_unit_test(nothing_is_owed_to_a_home_that_is_gone),
        cmocka_unit_test(what_is_taken_is_counted),
        cmocka_unit_test(who_comes_back_has_asked_for_nothing),
        cmocka_unit_test(memory_is_given_at_multiples),
        cmocka_unit_test(no_other_multiples_are_asked_for),
        cmocka_unit_test(what_another_home_gives_is_at_a_multiple),
        cmocka_unit_test(what_is_given_back_is_free),
        cmocka_unit_test(what_its_client_holds_is_not_freed),
        cmocka_unit_test(what_is_too_much_is_not_begun),
        cmocka_unit_test(what_somebody_has_is_not_freed_for_want_of_room),
        cmocka_unit_test(a_free_has_many_blocks_under_way),
        cmocka_unit_test(what_has_no_room_to_wait_is_freed_later),
        cmocka_unit_test(who_holds_leaves_frames_to_others),
        cmocka_unit_test(what_is_held_is_asked_for),
        cmocka_unit_test(what_loses_its_lock_asks_as_others_do),
        cmocka_unit_test(what_as_many_hold_as_may_is_held_next),
        cmocka_unit_test(what_many_keep_is_waited_for),
        cmocka_unit_test(what_others_want_is_asked_for),
        cmocka_unit_test(what_is_kept_makes_room_for_what_is_held),
        cmocka_unit_test(what_a_home_that_is_gone_left_makes_room),
        cmocka_unit_test(what_is_read_for_another_is_not_dropped),
        cmocka_unit_test(who_can_have_no_frame_is_told_so),
        cmocka_unit_test(what_is_kept_for_the_gone_is_as_held),
        cmocka_unit_test(what_is_kept_for_a_node_that_is_away_is_as_held),
        cmocka_unit_test(a_home_that_does_not_serve_keeps_nobody_waiting),
        cmocka_unit_test(what_the_home_gave_makes_room_at_once),
        cmocka_unit_test(what_is_read_for_another_keeps_its_frame),
        cmocka_unit_test(what_was_claimed_keeps_its_frame),
        cmocka_unit_test(what_left_its_frame_is_not_kept_for_the_gone),
        cmocka_unit_test(an_atomic_in_doubt_is_not_asked_again),
        cmocka_unit_test(what_left_its_frame_is_not_claimed),
        cmocka_unit_test(what_one_malloc_gave_is_freed_as_one),
        cmocka_unit_test(what_one_malloc_gave_is_one_in_the_next_term),
        cmocka_unit_test(what_was_given_up_in_another_life_is_let_go),
        cmocka_unit_test(claims_that_contradict_part_what_they_are_of),
        cmocka_unit_test(no_malloc_gave_what_is_before_all),
        cmocka_unit_test(what_a_home_gives_has_its_place),
        cmocka_unit_test(what_a_node_has_keeps_its_place),
        cmocka_unit_test(who_waits_for_room_has_it),
        cmocka_unit_test(all_seats_atomics_are_one_event),
        cmocka_unit_test(who_asked_to_write_has_it_yet),
        cmocka_unit_test(what_is_had_again_is_logged_before_its_bytes_leave),
        cmocka_unit_test(what_is_had_again_is_held_when_its_term_is_open),
        cmocka_unit_test(what_the_log_has_is_not_dropped),
        cmocka_unit_test(who_is_left_out_is_known_before_the_blocks),
        cmocka_unit_test(a_home_with_a_log_takes_bytes_as_it_opens),
        cmocka_unit_test(a_first_opening_holds_what_it_asked_for),
        cmocka_unit_test(what_one_malloc_gave_is_logged_as_one),
        cmocka_unit_test(what_a_start_claimed_in_vain_is_put_right),
        cmocka_unit_test(what_is_freed_as_a_home_comes_back_waits_for_it),
        cmocka_unit_test(what_a_free_has_left_is_freed_at_a_start),
        cmocka_unit_test(a_free_begins_with_its_first_block),
        cmocka_unit_test(what_was_freed_before_a_start_is_known),
        cmocka_unit_test(an_image_has_what_was_freed),
        cmocka_unit_test(what_was_lost_is_not_known_as_freed),
        cmocka_unit_test(since_when_a_member_is_known_is_logged),
        cmocka_unit_test(who_is_there_on_its_log_again_knows_what_it_had),
        cmocka_unit_test(an_old_log_is_not_believed),
        cmocka_unit_test(a_lie_makes_no_log_an_old_one),
        cmocka_unit_test(who_was_no_member_knows_nothing_of_it),
        cmocka_unit_test(no_more_is_held_than_is_let_go_at_once),
        cmocka_unit_test(a_home_asks_for_some_bytes_at_a_time),
        cmocka_unit_test(a_home_opens_as_far_as_there_is_room),
        cmocka_unit_test(a_large_home_opens_over_turns),
        cmocka_unit_test(frees_leave_room_to_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
