/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Try-locks of what clients of other nodes hold: three engines, whose messages come in order, each
 * way of which may be stopped for a while.
 */
#include "support/support.h"

#include <string.h>

#include "base/check.h"
#include "memory/space_window.h"
#include "space/engine_internal.h"

#define NODES  3u
#define BLOCKS 256u
#define SETS   64u
#define BYTES  64u
#define DEPTH  8192u
#define MEMORY (UINT64_C(1) << 20)
#define LONG   UINT64_C(10000000)

struct node {
    struct space_engine *engine;
    uint8_t *home, *cache;
    bool gives_way; /* what is held here is only kept */
    bool is_gone;
};

static struct node nodes[NODES];
static struct channel {
    struct space_send sends[DEPTH];
    uint32_t first, count;
    bool is_stopped;
} channels[NODES][NODES];
static uint64_t now_us;
static uint32_t asked, answered; /* IS_HELD and HELD that were said */
static uint8_t liar;             /* whose link is to be cut */

static bool world_send(void *context, const struct space_send *send)
{
    struct channel *channel = &channels[(struct node *)context - nodes][send->seat];

    assert_true(channel->count < DEPTH);
    channel->sends[(channel->first + channel->count++) % DEPTH] = *send;
    asked += send->wire.kind == SPACE_WIRE_IS_HELD;
    answered += send->wire.kind == SPACE_WIRE_HELD;
    return true;
}

static void world_cut(void *context, uint8_t seat, nigh_status why)
{
    (void)context;
    if (seat != liar && !nodes[seat].is_gone) {
        fail_msg("seat %u is cut: %s", seat, nigh_status_name(why));
    }
    liar = SPACE_NOBODY;
}

static bool world_wanted(void *context, uint64_t block)
{
    (void)block;
    return ((struct node *)context)->gives_way;
}

static void deliver(uint32_t from, uint32_t to)
{
    struct channel *channel = &channels[from][to];
    struct space_send send = channel->sends[channel->first];

    channel->first = (channel->first + 1) % DEPTH;
    channel->count--;
    if (send.count > 0) {
        memcpy((send.to == SPACE_MEMORY_HOME ? nodes[to].home : nodes[to].cache) + send.to_offset,
               (send.from == SPACE_MEMORY_HOME ? nodes[from].home : nodes[from].cache) +
                   send.from_offset,
               send.count);
    }
    if (send.wants_end) {
        space_engine_sent(nodes[from].engine, send.cookie, now_us);
    }
    space_engine_message(nodes[to].engine, (uint8_t)from, &send.wire, sizeof(send.wire), now_us);
}

/* All that can come has come, and what follows from it is done. */
static void settle(void)
{
    bool any;

    do {
        any = false;
        for (uint32_t at = 0; at < NODES; at++) {
            any |= space_engine_turn(nodes[at].engine, now_us);
            for (uint32_t to = 0; to < NODES; to++) {
                while (channels[at][to].count > 0 && !channels[at][to].is_stopped) {
                    deliver(at, to);
                    any = true;
                }
            }
        }
    } while (any);
    for (uint32_t at = 0; at < NODES; at++) {
        assert_true(space_engine_is_valid(nodes[at].engine));
    }
}

static void pass(uint64_t us)
{
    now_us += us;
    settle();
}

static void link_all(uint32_t a, uint32_t b)
{
    space_engine_up(nodes[a].engine, (uint8_t)b, now_us);
    space_engine_up(nodes[b].engine, (uint8_t)a, now_us);
}

static void unlink_both(uint32_t a, uint32_t b)
{
    channels[a][b].count = channels[b][a].count = 0;
    space_engine_down(nodes[a].engine, (uint8_t)b, now_us);
    space_engine_down(nodes[b].engine, (uint8_t)a, now_us);
}

static int set_up(void **state)
{
    (void)state;
    now_us = 1;
    liar = SPACE_NOBODY;
    for (uint32_t n = 0; n < NODES; n++) {
        struct node *node = &nodes[n];
        struct space_engine_config config = {
            .space = 1,
            .birth = 1,
            .life = 9 + n,
            .self = (uint8_t)n,
            .shell = {node, world_send, world_cut, .wanted = world_wanted},
        };

        *node = (struct node){.home = aligned_alloc(4096, MEMORY),
                              .cache = aligned_alloc(4096, MEMORY)};
        memset(node->home, 0, MEMORY);
        memset(node->cache, 0, MEMORY);
        config.home_memory = node->home;
        config.cache_memory = node->cache;
        space_view_make_home(node->home, BLOCKS, BYTES,
                             space_address_of_life((uint8_t)n, 1, BLOCKS * BYTES), &config.home);
        space_view_make_cache(node->cache, SETS, BYTES, &config.cache);
        assert_int_equal(space_engine_create(&config, &node->engine), NIGH_OK);
        space_engine_members(node->engine, 7, now_us);
        for (uint32_t to = 0; to < NODES; to++) {
            channels[n][to].first = channels[n][to].count = 0;
            channels[n][to].is_stopped = false;
        }
    }
    link_all(0, 1);
    link_all(0, 2);
    link_all(1, 2);
    settle();
    asked = answered = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < NODES; n++) {
        space_engine_end(nodes[n].engine, NIGH_CLOSED);
        space_engine_destroy(nodes[n].engine);
        free(nodes[n].home);
        free(nodes[n].cache);
    }
    return 0;
}

/* ---- clients -------------------------------------------------------------- */

static void op_bytes(struct space_op *op, void *bytes)
{
    (void)op;
    (void)bytes;
}

static void op_ended(struct space_op *op, uint64_t at_us)
{
    (void)at_us;
    op->operands[1] = 1; /* it has */
}

static void begin(uint32_t node, struct space_op *op, uint8_t kind, uint64_t address, bool is_try)
{
    *op = (struct space_op){.kind = kind,
                            .is_try = is_try,
                            .address = address,
                            .operands = {BYTES, 0},
                            .deadline_us = now_us + LONG,
                            .bytes = op_bytes,
                            .ended = op_ended};
    op->operands[1] = space_engine_begin(nodes[node].engine, op, now_us);
    settle();
}

static void lock(uint32_t node, uint8_t kind, uint64_t block)
{
    struct space_op op;

    begin(node, &op, kind, block, false);
    assert_int_equal(op.operands[1], 1);
    assert_int_equal(op.status, NIGH_OK);
}

static void unlock(uint32_t node, uint8_t kind, uint64_t block)
{
    struct space_op op = {
        .kind = SPACE_OP_UNLOCK,
        .holds = kind == SPACE_OP_LOCK_READ ? SPACE_HOLDS_TO_READ : SPACE_HOLDS_ALONE,
        .address = block,
        .deadline_us = UINT64_MAX,
    };

    assert_true(space_engine_begin(nodes[node].engine, &op, now_us));
    assert_int_equal(op.status, NIGH_OK);
    settle();
}

static uint64_t allocate(uint32_t home)
{
    struct space_op op;

    begin(home, &op, SPACE_OP_ALLOC, 0, false);
    assert_int_equal(op.operands[1], 1);
    assert_int_equal(op.status, NIGH_OK);
    return op.value;
}

static void claim_waits(const struct space_op *op)
{
    assert_int_equal(op->operands[1], 0);
}

static void claim_ended(const struct space_op *op, nigh_status status)
{
    assert_int_equal(op->operands[1], 1);
    assert_string_equal(nigh_status_name(op->status), nigh_status_name(status));
}

/* A try, once it has been looked whether another holds it. */
static void claim_tried(uint32_t node, uint8_t kind, uint64_t block, nigh_status status)
{
    struct space_op op;

    begin(node, &op, kind, block, true);
    if (status == NIGH_BUSY) {
        claim_waits(&op);
        pass(LIMIT_SPACE_TRY_US - 1);
        claim_waits(&op);
        pass(1);
    }
    claim_ended(&op, status);
}

static void stop(uint32_t from, uint32_t to, bool is_stopped)
{
    channels[from][to].is_stopped = is_stopped;
    settle();
}

/* ---- what is held --------------------------------------------------------- */

static void a_try_of(uint32_t home, uint32_t holder, uint32_t other, uint8_t held, uint8_t tried)
{
    uint64_t block = allocate(home);

    lock(holder, held, block);
    asked = answered = 0;
    claim_tried(other, tried, block, NIGH_BUSY);
    assert_true(asked <= 2);
    claim_tried(other, tried, block, NIGH_BUSY); /* what was asked for is under way yet */
    claim_tried(other, tried, block, NIGH_BUSY);
    assert_int_equal(asked, answered);
    assert_true(asked <= 6);
    unlock(holder, held, block);
    asked = 0;
    claim_tried(other, tried, block, NIGH_OK);
    unlock(other, tried, block);
    claim_tried(holder, held, block, NIGH_OK);
    unlock(holder, held, block);
    assert_int_equal(asked, 0);
}

/* ... ends as soon as that is known, whoever is the home; again, while what the first has asked for
 * is under way; and is had when it is held no more, for which nobody is asked. */
static void what_another_node_holds_is_busy_soon(void **state)
{
    static const uint8_t kinds[][2] = {{SPACE_OP_LOCK_WRITE, SPACE_OP_LOCK_WRITE},
                                       {SPACE_OP_LOCK_WRITE, SPACE_OP_LOCK_READ},
                                       {SPACE_OP_LOCK_READ, SPACE_OP_LOCK_WRITE}};

    (void)state;
    for (uint32_t n = 0; n < ARRAY_LENGTH(kinds) * NODES * NODES * NODES; n++) {
        uint32_t home = n % NODES, holder = n / NODES % NODES, other = n / (NODES * NODES) % NODES;
        const uint8_t *kind = kinds[n / (NODES * NODES * NODES)];

        if (holder != other) {
            a_try_of(home, holder, other, kind[0], kind[1]);
        }
    }
}

/* Who holds to read is beside others. */
static void what_is_held_to_read_is_read(void **state)
{
    uint64_t block = allocate(0);

    (void)state;
    for (uint32_t n = 0; n < NODES; n++) {
        lock(n, SPACE_OP_LOCK_READ, block);
    }
    claim_tried(1, SPACE_OP_LOCK_READ, block, NIGH_OK);
    assert_int_equal(asked, 0);
}

/* A try that waits for ever is told, too; and one whose time is up before anybody is asked. */
static void its_time_is_what_it_was(void **state)
{
    uint64_t block = allocate(0);
    struct space_op op;

    (void)state;
    lock(1, SPACE_OP_LOCK_WRITE, block);
    for (uint32_t n = 0; n < 2; n++) {
        op = (struct space_op){.kind = SPACE_OP_LOCK_READ,
                               .is_try = true,
                               .address = block,
                               .deadline_us = n == 0 ? now_us + LIMIT_SPACE_TRY_US : UINT64_MAX,
                               .ended = op_ended};
        assert_false(space_engine_begin(nodes[2].engine, &op, now_us));
        pass(LIMIT_SPACE_TRY_US);
        claim_ended(&op, NIGH_BUSY);
        assert_int_equal(asked, 2 * n);
    }
    begin(2, &op, SPACE_OP_LOCK_READ, block, false); /* who does not try waits */
    pass(LONG - 1);
    claim_waits(&op);
    assert_int_equal(asked, 2);
    pass(1);
    claim_ended(&op, NIGH_TIMEOUT);
}

static struct space_op many[LIMIT_SPACE_PLACES];

/* So many as may be: they wait for a block that is held. */
static void fill_times(uint32_t node, uint64_t block, uint32_t first, uint32_t count)
{
    for (uint32_t n = first; n < count; n++) {
        many[n] = (struct space_op){.kind = SPACE_OP_LOCK_READ,
                                    .address = block,
                                    .deadline_us = now_us + LONG,
                                    .ended = op_ended};
        assert_false(space_engine_begin(nodes[node].engine, &many[n], now_us));
    }
}

static uint64_t count_asks(uint32_t node)
{
    struct space_engine_stats stats;

    space_engine_stats(nodes[node].engine, &stats);
    return stats.asks;
}

/* A try that may wait for ever is refused where nothing has room to know its time. */
static void what_has_no_end_has_a_time_to_ask(void **state)
{
    uint64_t held = allocate(0), block = allocate(0), before;
    struct space_op op = {.kind = SPACE_OP_LOCK_READ,
                          .is_try = true,
                          .address = block,
                          .deadline_us = UINT64_MAX,
                          .ended = op_ended};

    (void)state;
    lock(1, SPACE_OP_LOCK_WRITE, held);
    lock(1, SPACE_OP_LOCK_WRITE, block);
    fill_times(2, held, 0, LIMIT_SPACE_PLACES);
    settle();
    before = count_asks(2);
    asked = 0;
    assert_true(space_engine_begin(nodes[2].engine, &op, now_us));
    assert_int_equal(op.status, NIGH_BUSY);
    assert_int_equal(count_asks(2), before); /* nothing of it was said */
    space_engine_give_up(nodes[2].engine, &many[0]);
    assert_false(space_engine_begin(nodes[2].engine, &op, now_us));
    pass(LIMIT_SPACE_TRY_US);
    claim_ended(&op, NIGH_BUSY);
    assert_int_equal(asked, 2);
    pass(LONG);
    claim_ended(&many[1], NIGH_TIMEOUT);
}

/* ... also where it has waited for something else until then. */
static void what_waited_to_begin_has_a_time_to_ask(void **state)
{
    uint64_t held = allocate(0), block = allocate(0);
    struct space_op op = {.kind = SPACE_OP_LOCK_READ,
                          .is_try = true,
                          .address = block,
                          .deadline_us = UINT64_MAX,
                          .ended = op_ended};

    (void)state;
    lock(1, SPACE_OP_LOCK_WRITE, held);
    lock(1, SPACE_OP_LOCK_WRITE, block);
    fill_times(2, held, 0, LIMIT_SPACE_PLACES - 1);
    space_engine_pause(nodes[2].engine, true, now_us);
    assert_false(space_engine_begin(nodes[2].engine, &op, now_us));
    fill_times(2, held, LIMIT_SPACE_PLACES - 1, LIMIT_SPACE_PLACES);
    space_engine_pause(nodes[2].engine, false, now_us);
    settle();
    claim_ended(&op, NIGH_BUSY);
}

/* What is only kept is let go, and nobody is refused. */
static void what_another_node_keeps_is_waited_for(void **state)
{
    (void)state;
    for (uint32_t holder = 0; holder < 2; holder++) {
        uint64_t block = allocate(0);
        struct space_op op;

        lock(holder, SPACE_OP_LOCK_WRITE, block);
        nodes[holder].gives_way = true;
        begin(2, &op, SPACE_OP_LOCK_WRITE, block, true);
        pass(LIMIT_SPACE_TRY_US);
        pass(LIMIT_SPACE_TRY_US);
        claim_waits(&op);
        unlock(holder, SPACE_OP_LOCK_WRITE, block);
        claim_ended(&op, NIGH_OK);
        nodes[holder].gives_way = false;
    }
}

/* One who keeps it, and one who holds it. */
static void all_who_may_hold_it_are_asked(void **state)
{
    (void)state;
    for (uint32_t keeper = 0; keeper < 2; keeper++) {
        uint64_t block = allocate(2);
        struct space_op op;

        lock(0, SPACE_OP_LOCK_READ, block);
        lock(1, SPACE_OP_LOCK_READ, block);
        nodes[keeper].gives_way = true;
        begin(2, &op, SPACE_OP_LOCK_WRITE, block, true);
        pass(LIMIT_SPACE_TRY_US);
        claim_ended(&op, NIGH_BUSY);
        nodes[keeper].gives_way = false;
        unlock(0, SPACE_OP_LOCK_READ, block);
        unlock(1, SPACE_OP_LOCK_READ, block);
    }
}

/* Who has it next, before it is the turn of who tries, is asked, too: as often as it is another. */
static void who_has_it_next_is_asked(void **state)
{
    uint64_t block = allocate(0);
    struct space_op next, op;

    (void)state;
    lock(0, SPACE_OP_LOCK_WRITE, block);
    nodes[0].gives_way = true;
    begin(1, &next, SPACE_OP_LOCK_WRITE, block, false);
    begin(2, &op, SPACE_OP_LOCK_WRITE, block, true);
    pass(LIMIT_SPACE_TRY_US);
    claim_waits(&op);
    unlock(0, SPACE_OP_LOCK_WRITE, block);
    claim_ended(&next, NIGH_OK);
    claim_ended(&op, NIGH_BUSY);
    unlock(1, SPACE_OP_LOCK_WRITE, block);

    block = allocate(0);
    lock(1, SPACE_OP_LOCK_WRITE, block);
    nodes[1].gives_way = true;
    begin(2, &next, SPACE_OP_LOCK_WRITE, block, false);
    begin(0, &op, SPACE_OP_LOCK_READ, block, true);
    pass(LIMIT_SPACE_TRY_US);
    claim_waits(&op);
    unlock(1, SPACE_OP_LOCK_WRITE, block);
    claim_ended(&next, NIGH_OK);
    claim_ended(&op, NIGH_BUSY);
}

/* Who said that it does not hold it, and was left a copy, may hold that by the time that it is
 * asked to give it up. */
static void who_may_hold_it_again_is_asked_again(void **state)
{
    uint64_t block = allocate(0);
    struct space_op read, op;

    (void)state;
    lock(1, SPACE_OP_LOCK_WRITE, block);
    nodes[0].gives_way = nodes[1].gives_way = true;
    begin(0, &read, SPACE_OP_LOCK_READ, block, false);
    begin(2, &op, SPACE_OP_LOCK_WRITE, block, true);
    pass(LIMIT_SPACE_TRY_US);
    claim_waits(&op);
    stop(0, 1, true);
    unlock(1, SPACE_OP_LOCK_WRITE, block);
    claim_ended(&read, NIGH_OK);
    lock(1, SPACE_OP_LOCK_READ, block);
    unlock(0, SPACE_OP_LOCK_READ, block);
    nodes[1].gives_way = false;
    claim_waits(&op);
    stop(0, 1, false);
    claim_ended(&op, NIGH_BUSY);
}

/* Several who try the same, of which one comes later; and who waits as long as it takes. */
static void all_who_try_are_told(void **state)
{
    uint64_t block = allocate(0);
    struct space_op tries[3], waits;

    (void)state;
    lock(1, SPACE_OP_LOCK_WRITE, block);
    begin(2, &waits, SPACE_OP_LOCK_WRITE, block, false);
    begin(2, &tries[0], SPACE_OP_LOCK_WRITE, block, true);
    begin(2, &tries[1], SPACE_OP_LOCK_READ, block, true);
    stop(0, 2, true);
    pass(LIMIT_SPACE_TRY_US);
    begin(2, &tries[2], SPACE_OP_LOCK_READ, block, true);
    pass(LIMIT_SPACE_TRY_US);
    stop(0, 2, false);
    for (uint32_t n = 0; n < 3; n++) {
        claim_ended(&tries[n], NIGH_BUSY);
    }
    assert_int_equal(asked, 4);
    claim_waits(&waits);
    unlock(1, SPACE_OP_LOCK_WRITE, block);
    claim_ended(&waits, NIGH_OK);
}

/* ---- what was held -------------------------------------------------------- */

/* That it was held is heard late: of a try that began since it is no cause to end. */
static void what_was_let_go_before_a_try_is_not_busy(void **state)
{
    uint64_t block = allocate(0);
    struct space_op first, later;

    (void)state;
    lock(1, SPACE_OP_LOCK_WRITE, block);
    begin(2, &first, SPACE_OP_LOCK_WRITE, block, true);
    stop(0, 2, true);
    stop(1, 2, true);
    pass(LIMIT_SPACE_TRY_US);
    assert_int_equal(answered, 2);
    claim_waits(&first);
    space_engine_give_up(nodes[2].engine, &first);
    unlock(1, SPACE_OP_LOCK_WRITE, block);
    begin(2, &later, SPACE_OP_LOCK_WRITE, block, true);
    stop(0, 2, false);
    claim_waits(&later);
    pass(LIMIT_SPACE_TRY_US);
    claim_waits(&later);
    stop(1, 2, false);
    claim_ended(&later, NIGH_OK);
}

/* ... also where it is had, and waited for once more, before that is heard. */
static void what_was_said_of_another_ask_is_nothing(void **state)
{
    uint64_t block = allocate(0);
    struct space_op first, later;

    (void)state;
    lock(1, SPACE_OP_LOCK_WRITE, block);
    begin(2, &first, SPACE_OP_LOCK_READ, block, true);
    stop(0, 2, true);
    pass(LIMIT_SPACE_TRY_US);
    unlock(1, SPACE_OP_LOCK_WRITE, block);
    claim_ended(&first, NIGH_OK);
    unlock(2, SPACE_OP_LOCK_READ, block);
    begin(2, &later, SPACE_OP_LOCK_WRITE, block, true);
    claim_waits(&later);
    stop(0, 2, false);
    claim_ended(&later, NIGH_OK);
}

/* ---- links, terms and ends ------------------------------------------------ */

/* What was asked is lost with a link: it is asked anew in the next term. */
static void try_over_a_term(uint32_t who)
{
    for (uint32_t stopped = 0; stopped < 4; stopped++) {
        static const uint8_t ways[][2] = {{2, 0}, {0, 1}, {1, 0}, {0, 2}};
        uint64_t block = allocate(0);
        struct space_op op;
        uint32_t from = ways[stopped][0], to = ways[stopped][1];

        lock(1, SPACE_OP_LOCK_READ, block);
        begin(who, &op, SPACE_OP_LOCK_WRITE, block, true);
        stop(from, to, true);
        pass(LIMIT_SPACE_TRY_US);
        if (who == 2 || stopped == 1 || stopped == 2) {
            claim_waits(&op);
            unlink_both(from, to);
            channels[from][to].is_stopped = false;
            settle();
            claim_waits(&op);
            link_all(from, to);
            settle();
            if (who == 2) {
                claim_waits(&op);
                pass(LIMIT_SPACE_TRY_US);
            }
        } else {
            channels[from][to].is_stopped = false;
            settle();
        }
        claim_ended(&op, NIGH_BUSY);
        unlock(1, SPACE_OP_LOCK_READ, block);
    }
}

/* Also of who is its home: its question waits until that is open. */
static void a_new_term_is_asked_anew(void **state)
{
    (void)state;
    try_over_a_term(2);
    try_over_a_term(0);
}

/* Who holds it dies while it is asked: the next term says what there is. */
static void the_dead_hold_nothing(void **state)
{
    (void)state;
    for (uint32_t is_alone = 0; is_alone < 2; is_alone++) {
        uint64_t block;
        struct space_op op;

        if (is_alone != 0) {
            (void)tear_down(NULL);
            (void)set_up(NULL);
        }
        block = allocate(0);
        lock(1, is_alone ? SPACE_OP_LOCK_WRITE : SPACE_OP_LOCK_READ, block);
        begin(2, &op, SPACE_OP_LOCK_WRITE, block, true);
        stop(0, 1, true);
        pass(LIMIT_SPACE_TRY_US);
        claim_waits(&op);
        nodes[1].is_gone = true;
        unlink_both(0, 1);
        unlink_both(2, 1);
        for (uint32_t n = 0; n < NODES; n++) {
            space_engine_members(nodes[n].engine, n == 1 ? 2 : 5, now_us);
        }
        settle();
        claim_ended(&op, is_alone ? NIGH_NODE_LOST : NIGH_OK);
    }
}

/* More than may be asked at once: each is told, some behind others. */
static void many_are_told_one_after_the_other(void **state)
{
    static struct space_op ops[LIMIT_SPACE_TRIES * 3 / 4];
    uint64_t blocks[ARRAY_LENGTH(ops)];

    (void)state;
    for (uint32_t n = 0; n < ARRAY_LENGTH(ops); n++) {
        blocks[n] = allocate(0);
        lock(0, SPACE_OP_LOCK_WRITE, blocks[n]);
    }
    for (uint32_t n = 0; n < ARRAY_LENGTH(ops); n++) {
        begin(1, &ops[n], SPACE_OP_LOCK_WRITE, blocks[n], true);
    }
    stop(0, 1, true);
    pass(LIMIT_SPACE_TRY_US);
    assert_true(asked > ARRAY_LENGTH(ops) / 4 && asked < ARRAY_LENGTH(ops));
    stop(0, 1, false);
    assert_int_equal(asked, ARRAY_LENGTH(ops));
    for (uint32_t n = 0; n < ARRAY_LENGTH(ops); n++) {
        claim_ended(&ops[n], NIGH_BUSY);
    }
}

/* ---- who lies ------------------------------------------------------------- */

static void say(uint32_t from, uint32_t to, struct space_wire wire)
{
    wire.space = wire.birth = 1;
    assert_int_equal(space_wire_check(&wire), NIGH_OK);
    space_engine_message(nodes[to].engine, (uint8_t)from, &wire, sizeof(wire), now_us);
}

/* Answers to nothing change nothing, whatever they are of. */
static void answers_that_nobody_asked_for_are_nothing(void **state)
{
    uint64_t block = allocate(0);
    uint32_t term = nodes[0].engine->term.home.term;
    struct space_op op;

    (void)state;
    lock(1, SPACE_OP_LOCK_WRITE, block);
    begin(2, &op, SPACE_OP_LOCK_WRITE, block, true);
    stop(1, 0, true);
    pass(LIMIT_SPACE_TRY_US);
    for (uint64_t number = 1; number < 5 * ENGINE_ASKED; number++) {
        struct space_wire held = {.kind = SPACE_WIRE_HELD,
                                  .event = 1,
                                  .term = term,
                                  .address = block,
                                  .operands = {0, number}};

        if (nodes[2].engine->tries[number % LIMIT_SPACE_TRIES].number != number) {
            say(0, 2, held);
        }
        say(2, 0, held); /* it is not the one who was asked */
    }
    settle();
    claim_waits(&op);
    stop(1, 0, false);
    claim_ended(&op, NIGH_BUSY);
}

/* Who asks for what it does not wait for hears that nobody holds it, once. */
static void who_asks_out_of_turn_is_told_nothing(void **state)
{
    uint64_t block = allocate(0), other = allocate(1);
    struct space_wire ask = {.kind = SPACE_WIRE_IS_HELD,
                             .term = nodes[0].engine->term.home.term,
                             .address = block,
                             .operands = {0, 77}};

    (void)state;
    lock(0, SPACE_OP_LOCK_WRITE, block);
    say(2, 0, ask);
    settle();
    assert_int_equal(answered, 1);
    say(2, 0, ask);
    liar = 2;
    say(2, 0, ask); /* before it is answered */
    assert_int_equal(liar, SPACE_NOBODY);
    settle();

    (void)tear_down(NULL);
    (void)set_up(NULL);
    liar = 2;
    ask.address = other; /* neither's */
    say(2, 0, ask);
    assert_int_equal(liar, SPACE_NOBODY);
}

static void what_is_asked_is_known_by_its_parts(void **state)
{
    struct space_wire wire = {.kind = SPACE_WIRE_HELD, .event = 1, .term = 1, .operands = {0, 1}};

    (void)state;
    assert_int_equal(space_wire_check(&wire), NIGH_OK);
    wire.event = 2;
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire.event = 1;
    wire.kind = SPACE_WIRE_IS_HELD;
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire.event = 0;
    assert_int_equal(space_wire_check(&wire), NIGH_OK);
    wire.operands[1] = 0;
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire.operands[1] = 1;
    wire.operands[0] = 1;
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire.operands[0] = 0;
    wire.term = 0;
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire.term = 1;
    wire.frame = 1;
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(what_another_node_holds_is_busy_soon),
        TEST(what_is_held_to_read_is_read),
        TEST(its_time_is_what_it_was),
        TEST(what_has_no_end_has_a_time_to_ask),
        TEST(what_waited_to_begin_has_a_time_to_ask),
        TEST(what_another_node_keeps_is_waited_for),
        TEST(all_who_may_hold_it_are_asked),
        TEST(who_has_it_next_is_asked),
        TEST(who_may_hold_it_again_is_asked_again),
        TEST(all_who_try_are_told),
        TEST(what_was_let_go_before_a_try_is_not_busy),
        TEST(what_was_said_of_another_ask_is_nothing),
        TEST(a_new_term_is_asked_anew),
        TEST(the_dead_hold_nothing),
        TEST(many_are_told_one_after_the_other),
        TEST(answers_that_nobody_asked_for_are_nothing),
        TEST(who_asks_out_of_turn_is_told_nothing),
        cmocka_unit_test(what_is_asked_is_known_by_its_parts),
#undef TEST
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
