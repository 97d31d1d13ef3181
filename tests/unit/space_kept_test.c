/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks that a thread keeps (docs/spaces.md), by the windows of a lane, on the engine of a node
 * that is alone: what each state is good for; and two clients and the lane in every order of their
 * steps. What the words are worth under weak memory is explore-space-view's.
 */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "memory/space_record.h"
#include "space/windows.h"

#define BYTES    64u
#define BLOCKS   96u
#define NUMBER   3u /* what sessions call the space */
#define FOR_EVER UINT64_MAX

static struct space_engine *engine;
static struct space_windows *windows;
static struct space_window memories[2];
static struct space_producer producers[2];
static struct space_mapped mapped;
static uint32_t numbers[2];
static bool has_lease;
static uint64_t block, other, now_us;
static _Alignas(4096) uint8_t home_memory[8 * 4096], cache_memory[3 * 4096];

static bool no_send(void *context, const struct space_send *send)
{
    (void)context;
    (void)send;
    return false;
}

static void no_cut(void *context, uint8_t seat, nigh_status why)
{
    (void)context;
    (void)seat;
    (void)why;
}

static bool wanted(void *context, uint64_t address)
{
    (void)context;
    return space_windows_wanted(windows, engine, address);
}

static struct space_engine *find(void *context, uint32_t session, uint32_t space, bool *writes,
                                 nigh_status *why)
{
    (void)context;
    (void)session;
    *why = NIGH_CLOSED;
    *writes = true;
    return space == NUMBER ? engine : NULL;
}

static bool is_current(void *context)
{
    (void)context;
    return has_lease;
}

static void note_broken(void *context, uint32_t session)
{
    (void)context;
    fail_msg("session %u says what cannot be", session);
}

static void turn_once(void)
{
    (void)space_engine_turn(engine, now_us);
    (void)space_windows_turn(windows, now_us);
}

static void turn(void)
{
    for (uint32_t n = 0; n < 4; n++) {
        turn_once();
    }
}

static void ask(uint32_t who, enum space_record_kind kind, uint64_t address, uint64_t timeout_us)
{
    uint64_t operands[2] = {8, 0};
    uint32_t length = kind == SPACE_RECORD_READ || space_kind_is_atomic(kind) ? 8 : 0;

    assert_true(
        space_producer_ask(&producers[who], kind, &mapped, address, length, operands, timeout_us));
}

static bool is_answered(uint32_t who)
{
    return space_producer_is_answered(&producers[who]);
}

static nigh_status answer(uint32_t who, uint64_t *value)
{
    assert_true(is_answered(who));
    return space_producer_answer(&producers[who], value, NULL, 0);
}

static uint64_t read_answer(uint32_t who)
{
    uint64_t value, bytes = 0;

    assert_true(is_answered(who));
    assert_int_equal(space_producer_answer(&producers[who], &value, &bytes, 8), NIGH_OK);
    return bytes;
}

static nigh_status ask_now(uint32_t who, enum space_record_kind kind, uint64_t address)
{
    uint64_t value;

    ask(who, kind, address, FOR_EVER);
    turn();
    return answer(who, &value);
}

static void put(uint32_t who, uint64_t address, uint64_t value)
{
    uint64_t ticket;

    assert_true(space_producer_write(&producers[who], &mapped, address, &value, 8, &ticket));
}

static bool is_alone(enum space_record_kind kind)
{
    return kind == SPACE_RECORD_LOCK_WRITE || kind == SPACE_RECORD_TRY_LOCK_WRITE;
}

/* By a record. Which one is kept, or SPACE_NO_KEPT. */
static uint32_t lock(uint32_t who, enum space_record_kind kind, uint64_t address)
{
    uint64_t value = 0;

    ask(who, kind, address, FOR_EVER);
    turn();
    assert_int_equal(answer(who, &value), NIGH_OK);
    return space_producer_note_lock(&producers[who], &mapped, address, is_alone(kind), value);
}

static uint32_t lock_and_keep(uint32_t who, enum space_record_kind kind, uint64_t address)
{
    uint32_t kept = lock(who, kind, address);

    assert_int_not_equal(kept, SPACE_NO_KEPT);
    assert_true(space_producer_keep(&producers[who], kept));
    return kept;
}

static void unlock(uint32_t who, uint64_t address)
{
    assert_true(space_producer_say(&producers[who], SPACE_RECORD_UNLOCK, &mapped, address));
}

static uint64_t alloc(void)
{
    uint64_t address = 0;

    ask(0, SPACE_RECORD_ALLOC, 0, FOR_EVER);
    turn();
    assert_int_equal(answer(0, &address), NIGH_OK);
    return address;
}

static void begin(void)
{
    struct space_windows_shell shell = {
        .find = find, .broken = note_broken, .is_current = is_current};
    struct space_engine_config config = {
        .space = 1,
        .birth = 1,
        .life = 9,
        .home_memory = home_memory,
        .cache_memory = cache_memory,
        .shell = {.send = no_send, .cut = no_cut, .wanted = wanted},
    };

    memset(home_memory, 0, sizeof(home_memory));
    memset(cache_memory, 0, sizeof(cache_memory));
    memset(memories, 0, sizeof(memories));
    has_lease = true;
    now_us = 1;
    space_view_make_home(home_memory, BLOCKS, BYTES, space_address_of_life(0, 1, BLOCKS * BYTES),
                         &config.home);
    space_view_make_cache(cache_memory, 1, BYTES, &config.cache);
    mapped = (struct space_mapped){config.cache, config.home, NUMBER};
    assert_int_equal(space_engine_create(&config, &engine), NIGH_OK);
    assert_int_equal(space_windows_create(2, &shell, &windows), NIGH_OK);
    space_engine_members(engine, 1, now_us);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(space_windows_add(windows, 10 + n, &memories[n], &numbers[n]), NIGH_OK);
        space_producer_init(&producers[n], &memories[n]);
    }
    block = alloc();
    other = alloc();
}

static void end(void)
{
    assert_true(space_engine_is_valid(engine));
    for (uint32_t n = 0; n < 2; n++) {
        space_windows_remove(windows, numbers[n], now_us);
    }
    space_windows_destroy(windows);
    space_engine_end(engine, NIGH_CLOSED);
    space_engine_destroy(engine);
}

static uint64_t state_of(uint32_t who, uint32_t kept)
{
    return shared_load_relaxed(&memories[who].kept[kept]) & SPACE_KEPT_STATE;
}

/* ---- one by one ----------------------------------------------------------- */

static void what_is_kept_is_had_again_without_the_lane(void **state)
{
    (void)state;
    begin();
    for (uint32_t n = 0; n < 2; n++) {
        enum space_record_kind kind = n == 0 ? SPACE_RECORD_LOCK_WRITE : SPACE_RECORD_LOCK_READ;
        uint64_t at = n == 0 ? block : other;
        uint32_t kept = lock_and_keep(0, kind, at);
        uint64_t tail = producers[0].tail;

        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(space_producer_find_kept(&producers[0], &mapped, at, n == 0), kept);
            assert_int_equal(space_producer_find_kept(&producers[0], &mapped, at, n != 0),
                             SPACE_NO_KEPT);
            assert_true(space_producer_is_empty(&producers[0]));
            assert_true(space_producer_take_kept(&producers[0], kept));
            assert_int_equal(space_producer_find_kept(&producers[0], &mapped, at, n == 0),
                             SPACE_NO_KEPT);
            assert_int_equal(state_of(0, kept), SPACE_KEPT_HELD);
            assert_int_equal(ask_now(1, SPACE_RECORD_READ, other), NIGH_OK);
            assert_true(space_producer_keep(&producers[0], kept));
        }
        assert_int_equal(producers[0].tail, tail);
        assert_false(space_windows_has_work(windows));
    }
    end();
}

/* Whoever wants it has it at once, and who kept it has it no more. */
static void what_is_kept_gives_way(void **state)
{
    static const enum space_record_kind kinds[] = {
        SPACE_RECORD_LOCK_READ,     SPACE_RECORD_LOCK_WRITE,
        SPACE_RECORD_TRY_LOCK_READ, SPACE_RECORD_TRY_LOCK_WRITE,
        SPACE_RECORD_READ,          SPACE_RECORD_ADD,
        SPACE_RECORD_FREE};

    (void)state;
    for (uint32_t n = 0; n < ARRAY_LENGTH(kinds); n++) {
        uint32_t kept;

        begin();
        kept = lock_and_keep(0, SPACE_RECORD_LOCK_WRITE, block);
        assert_int_equal(ask_now(1, kinds[n], block), NIGH_OK);
        assert_int_equal(state_of(0, kept), SPACE_KEPT_FREE);
        assert_false(space_producer_take_kept(&producers[0], kept));
        assert_int_equal(space_producer_find_kept(&producers[0], &mapped, block, true),
                         SPACE_NO_KEPT);
        end();
    }
    begin();
    (void)lock_and_keep(0, SPACE_RECORD_LOCK_READ, block);
    assert_int_not_equal(lock(1, SPACE_RECORD_LOCK_READ, block), SPACE_NO_KEPT);
    assert_int_equal(state_of(0, 0), SPACE_KEPT_KEPT); /* both read */
    end();
}

/* A lock that is held is not had, but is told that it is wanted: its end is a record. */
static void what_is_held_and_wanted_is_not_kept(void **state)
{
    uint32_t kept;
    uint64_t value = 0;

    (void)state;
    begin();
    kept = lock_and_keep(0, SPACE_RECORD_LOCK_WRITE, block);
    assert_true(space_producer_take_kept(&producers[0], kept));
    assert_int_equal(ask_now(1, SPACE_RECORD_TRY_LOCK_READ, block), NIGH_BUSY);
    assert_int_equal(state_of(0, kept), SPACE_KEPT_WANTED);
    assert_false(space_producer_keep(&producers[0], kept));
    unlock(0, block);
    turn();
    assert_int_equal(state_of(0, kept), SPACE_KEPT_FREE);
    /* Who is given a lock that others wait for does not keep it. */
    kept = lock_and_keep(0, SPACE_RECORD_LOCK_WRITE, block);
    assert_true(space_producer_take_kept(&producers[0], kept));
    ask(1, SPACE_RECORD_LOCK_WRITE, block, FOR_EVER);
    turn();
    unlock(0, block);
    ask(0, SPACE_RECORD_LOCK_WRITE, block, FOR_EVER);
    turn();
    assert_true(is_answered(1) && !is_answered(0));
    assert_int_equal(answer(1, &value), NIGH_OK);
    kept = space_producer_note_lock(&producers[1], &mapped, block, true, value);
    assert_true(kept == SPACE_NO_KEPT || !space_producer_keep(&producers[1], kept));
    unlock(1, block);
    turn();
    assert_int_equal(answer(0, &value), NIGH_OK);
    end();
}

static void no_bytes(struct space_op *op, void *bytes)
{
    memset(bytes, 0, op->length);
}

static void note_ended(struct space_op *op, uint64_t at_us)
{
    (void)at_us;
    op->operands[1] = 1;
}

/* Of nobody's window. */
static void begin_raw(struct space_op *op, uint8_t kind, bool is_try)
{
    *op = (struct space_op){.kind = kind,
                            .is_try = is_try,
                            .length = kind == SPACE_OP_WRITE ? 8 : 0,
                            .address = block,
                            .deadline_us = UINT64_MAX,
                            .bytes = no_bytes,
                            .ended = note_ended};
    assert_false(space_engine_begin(engine, op, now_us));
}

/* Who is given a lock while somebody waits already is told then that it is not to be kept. */
static void what_others_wait_for_is_given_back_by_a_record(void **state)
{
    struct space_op reads, writes, unlocks;
    uint64_t value = 7;

    (void)state;
    begin();
    assert_int_equal(ask_now(0, SPACE_RECORD_LOCK_WRITE, block), NIGH_OK);
    begin_raw(&reads, SPACE_OP_LOCK_READ, false);
    begin_raw(&writes, SPACE_OP_WRITE, false);
    ask(1, SPACE_RECORD_LOCK_READ, block, FOR_EVER);
    turn();
    unlock(0, block);
    turn();
    assert_int_equal(reads.operands[1], 1);
    assert_int_equal(writes.operands[1], 0);
    assert_int_equal(answer(1, &value), NIGH_OK);
    assert_int_equal(value, 0);
    unlocks = (struct space_op){.kind = SPACE_OP_UNLOCK,
                                .holds = SPACE_HOLDS_TO_READ,
                                .address = block,
                                .deadline_us = UINT64_MAX};
    assert_true(space_engine_begin(engine, &unlocks, now_us));
    unlock(1, block);
    turn();
    assert_int_equal(writes.operands[1], 1);
    assert_int_equal(writes.status, NIGH_OK);
    end();
}

/* What was written before a lock was given back is there before another has it; what is said behind
 * that keeps it from nobody. */
static void a_revoked_lock_waits_for_what_was_before_it(void **state)
{
    uint32_t kept;

    (void)state;
    begin();
    assert_int_not_equal(lock(1, SPACE_RECORD_LOCK_WRITE, other), SPACE_NO_KEPT);
    kept = lock(0, SPACE_RECORD_LOCK_WRITE, block);
    put(0, other, 7); /* waits for the other's lock */
    assert_true(space_producer_keep(&producers[0], kept));
    ask(1, SPACE_RECORD_LOCK_WRITE, block, FOR_EVER);
    turn();
    assert_false(is_answered(1));
    space_windows_remove(windows, numbers[1], now_us); /* its lock is let go */
    memset(&memories[1], 0, sizeof(memories[1]));
    assert_int_equal(space_windows_add(windows, 11, &memories[1], &numbers[1]), NIGH_OK);
    space_producer_init(&producers[1], &memories[1]);
    assert_int_equal(ask_now(1, SPACE_RECORD_LOCK_WRITE, block), NIGH_OK);
    ask(1, SPACE_RECORD_READ, other, FOR_EVER);
    turn();
    assert_int_equal(read_answer(1), 7);
    end();

    begin(); /* two that wait for each other's locks would wait for ever */
    (void)lock_and_keep(0, SPACE_RECORD_LOCK_WRITE, block);
    assert_int_not_equal(lock(1, SPACE_RECORD_LOCK_WRITE, other), SPACE_NO_KEPT);
    ask(0, SPACE_RECORD_LOCK_WRITE, other, FOR_EVER);
    turn();
    assert_false(is_answered(0));
    assert_int_equal(ask_now(1, SPACE_RECORD_LOCK_WRITE, block), NIGH_OK);
    end();
}

/* A try-lock waits until all let go who only keep it, one after the other. */
static void what_many_keep_is_waited_for(void **state)
{
    struct space_op locks;

    (void)state;
    begin();
    (void)lock_and_keep(0, SPACE_RECORD_LOCK_READ, block);
    (void)lock_and_keep(1, SPACE_RECORD_LOCK_READ, block);
    begin_raw(&locks, SPACE_OP_LOCK_WRITE, true);
    turn();
    assert_int_equal(locks.operands[1], 1);
    assert_int_equal(locks.status, NIGH_OK);
    locks = (struct space_op){.kind = SPACE_OP_UNLOCK,
                              .holds = SPACE_HOLDS_ALONE,
                              .address = block,
                              .deadline_us = UINT64_MAX};
    assert_true(space_engine_begin(engine, &locks, now_us));
    end();
}

/* It is not let go soon: what is before its place may wait for who asks. */
static void what_does_not_leave_is_not_waited_for(void **state)
{
    (void)state;
    begin();
    assert_int_not_equal(lock(1, SPACE_RECORD_LOCK_WRITE, other), SPACE_NO_KEPT);
    (void)lock(0, SPACE_RECORD_LOCK_WRITE, block);
    put(0, other, 7);
    turn();
    assert_true(space_producer_keep(&producers[0], 0));
    assert_int_equal(ask_now(1, SPACE_RECORD_TRY_LOCK_WRITE, block), NIGH_BUSY);
    assert_false(space_windows_wanted(windows, engine, 0));
    unlock(1, other);
    turn();
    assert_int_equal(ask_now(1, SPACE_RECORD_TRY_LOCK_WRITE, block), NIGH_OK);
    end();
}

/* Of a space: what is only kept goes, the rest stays; and who asks is told of what goes. */
static void all_that_is_kept_of_a_space_gives_way(void **state)
{
    uint32_t kept[2], held;
    uint64_t third;

    (void)state;
    begin();
    third = alloc();
    assert_false(space_windows_wanted(windows, engine, 0));
    held = lock(1, SPACE_RECORD_LOCK_WRITE, third);
    assert_false(space_windows_wanted(windows, engine, 0));
    kept[0] = lock(0, SPACE_RECORD_LOCK_WRITE, block);
    put(0, third, 1); /* waits: so does what was given back behind it */
    assert_true(space_producer_keep(&producers[0], kept[0]));
    kept[1] = lock_and_keep(1, SPACE_RECORD_LOCK_READ, other);
    assert_true(space_windows_wanted(windows, engine, 0));
    assert_true(space_windows_wanted(windows, engine, 0));
    turn();
    assert_false(space_windows_wanted(windows, engine, 0));
    assert_false(space_windows_wanted(windows, engine, 0));
    assert_int_equal(state_of(1, kept[1]), SPACE_KEPT_FREE);
    assert_int_equal(state_of(1, held), SPACE_KEPT_WANTED);
    assert_int_equal(state_of(0, kept[0]), SPACE_KEPT_WANTED);
    unlock(1, third);
    turn();
    assert_int_equal(state_of(0, kept[0]), SPACE_KEPT_FREE);
    assert_int_equal(state_of(1, held), SPACE_KEPT_FREE);
    end();
}

/* What was begun under a lock that was kept, and waits for another cause until that is gone, is
 * under none: it neither fails nor is done inside another's lock. */
static void what_waits_under_it_is_under_nothing_without_it(void **state)
{
    nigh_status last;
    uint64_t at;

    (void)state;
    begin();
    (void)lock_and_keep(0, SPACE_RECORD_LOCK_WRITE, block);
    space_engine_pause(engine, true, now_us);
    put(0, block, 5);
    turn();
    assert_true(space_windows_wanted(windows, engine, block)); /* as its home would */
    turn();
    assert_false(space_producer_is_empty(&producers[0]));
    space_engine_pause(engine, false, now_us);
    ask(1, SPACE_RECORD_LOCK_WRITE, block, FOR_EVER);
    (void)space_windows_turn(windows, now_us);
    turn();
    assert_true(is_answered(1));
    assert_int_equal(space_producer_failures(&producers[0], &last, &at), 0);
    assert_false(space_producer_is_empty(&producers[0]));
    unlock(1, block);
    turn();
    assert_true(space_producer_is_empty(&producers[0]));
    assert_int_equal(space_producer_failures(&producers[0], &last, &at), 0);
    assert_int_equal(answer(1, &at), NIGH_OK);
    ask(1, SPACE_RECORD_READ, block, FOR_EVER);
    turn();
    assert_int_equal(read_answer(1), 5);
    end();

    begin();
    (void)lock_and_keep(0, SPACE_RECORD_LOCK_READ, block);
    space_engine_pause(engine, true, now_us);
    ask(0, SPACE_RECORD_READ, block, FOR_EVER);
    turn();
    assert_true(space_windows_wanted(windows, engine, block));
    turn();
    assert_false(is_answered(0));
    space_engine_pause(engine, false, now_us);
    turn();
    assert_int_equal(read_answer(0), 0);
    end();
}

/* Nothing is told without a lease: a kept lock that is asked for by a record stays kept, so that
 * others have it, and who asks hears in time. */
static void without_a_lease_it_stays_kept(void **state)
{
    uint64_t value;
    uint32_t kept;

    (void)state;
    begin();
    kept = lock_and_keep(0, SPACE_RECORD_LOCK_WRITE, block);
    has_lease = false;
    space_engine_pause(engine, true, now_us);
    ask(0, SPACE_RECORD_LOCK_WRITE, block, 50);
    turn();
    assert_false(is_answered(0));
    assert_int_equal(state_of(0, kept), SPACE_KEPT_KEPT);
    assert_int_equal(space_windows_deadline(windows), now_us + 50);
    now_us += 51;
    turn();
    assert_int_equal(answer(0, &value), NIGH_TIMEOUT);
    assert_int_equal(state_of(0, kept), SPACE_KEPT_KEPT);

    ask(0, SPACE_RECORD_LOCK_WRITE, block, FOR_EVER);
    turn();
    has_lease = true;
    space_engine_pause(engine, false, now_us);
    turn();
    assert_int_equal(answer(0, &value), NIGH_OK);
    assert_int_equal(value, kept + 1);
    assert_true(space_producer_keep(&producers[0], kept));

    has_lease = false;
    space_engine_pause(engine, true, now_us);
    ask(0, SPACE_RECORD_LOCK_WRITE, block, 50);
    turn();
    assert_true(space_windows_wanted(windows, engine, block));
    turn();
    assert_int_equal(state_of(0, kept), SPACE_KEPT_FREE);
    now_us += 51;
    turn();
    assert_int_equal(answer(0, &value), NIGH_TIMEOUT);
    space_engine_pause(engine, false, now_us);
    end();
}

/* The thread's own records go on as if it had unlocked. */
static void its_own_records_are_behind_it(void **state)
{
    uint64_t value = 0, address;
    uint32_t kept, again;
    nigh_status last;

    (void)state;
    begin();
    kept = lock_and_keep(0, SPACE_RECORD_LOCK_READ, block);
    put(0, block, 5);
    turn();
    assert_true(space_producer_is_empty(&producers[0]));
    assert_int_equal(space_producer_failures(&producers[0], &last, &address), 0);
    assert_false(space_producer_take_kept(&producers[0], kept));

    kept = lock_and_keep(0, SPACE_RECORD_LOCK_WRITE, block);
    put(0, block, 6); /* under it */
    turn();
    assert_int_equal(state_of(0, kept), SPACE_KEPT_KEPT);
    put(0, block, 7);
    ask(0, SPACE_RECORD_LOCK_WRITE, block, FOR_EVER); /* the same once more, by a record */
    turn();
    assert_int_equal(answer(0, &value), NIGH_OK);
    again = space_producer_note_lock(&producers[0], &mapped, block, true, value);
    assert_int_equal(again, kept);
    assert_true(space_producer_keep(&producers[0], again));
    assert_int_equal(ask_now(0, SPACE_RECORD_LOCK_READ, block), NIGH_OK);
    unlock(0, block);

    (void)lock_and_keep(0, SPACE_RECORD_LOCK_WRITE, block);
    ask(0, SPACE_RECORD_READ, block, FOR_EVER); /* who reads it would ask again and again */
    turn();
    assert_int_equal(read_answer(0), 7);
    assert_int_equal(space_producer_read(&producers[0], &mapped, block, &value, 8), SPACE_READ);
    (void)lock_and_keep(0, SPACE_RECORD_LOCK_WRITE, block);
    assert_int_equal(ask_now(0, SPACE_RECORD_FREE, block), NIGH_OK);
    end();
}

static void a_thread_that_keeps_all_it_may_has_room(void **state)
{
    uint64_t first = 0;

    (void)state;
    begin();
    for (uint32_t n = 0; n < LIMIT_SPACE_HOLDS + 8; n++) {
        uint64_t at = alloc();

        first = n == 0 ? at : first;
        (void)lock_and_keep(0, SPACE_RECORD_LOCK_WRITE, at);
    }
    assert_int_equal(ask_now(1, SPACE_RECORD_LOCK_WRITE, first), NIGH_OK);
    end();
}

static void what_is_kept_goes_with_its_window_and_its_space(void **state)
{
    uint32_t kept;

    (void)state;
    begin();
    (void)lock_and_keep(0, SPACE_RECORD_LOCK_WRITE, block);
    space_windows_remove(windows, numbers[0], now_us);
    assert_int_equal(ask_now(1, SPACE_RECORD_TRY_LOCK_WRITE, block), NIGH_OK);
    memset(&memories[0], 0, sizeof(memories[0]));
    assert_int_equal(space_windows_add(windows, 10, &memories[0], &numbers[0]), NIGH_OK);
    space_producer_init(&producers[0], &memories[0]);
    kept = lock_and_keep(0, SPACE_RECORD_LOCK_WRITE, other);
    space_windows_let_go(windows, 10, engine, NIGH_CLOSED, now_us);
    assert_false(space_producer_take_kept(&producers[0], kept));
    assert_int_equal(ask_now(1, SPACE_RECORD_TRY_LOCK_WRITE, other), NIGH_OK);
    end();
}

/* A client that puts anything there has no more than it was given, and costs nobody the lane. */
static void what_a_client_puts_there_is_its_own_harm(void **state)
{
    static const uint64_t lies[] = {SPACE_KEPT_FREE,
                                    SPACE_KEPT_HELD,
                                    SPACE_KEPT_KEPT,
                                    SPACE_KEPT_WANTED,
                                    UINT64_MAX,
                                    SPACE_KEPT_KEPT | (1 << 20),
                                    (UINT64_MAX & ~SPACE_KEPT_STATE) | SPACE_KEPT_KEPT};
    uint64_t value = 0;

    (void)state;
    for (uint32_t n = 0; n < ARRAY_LENGTH(lies); n++) {
        uint32_t kept;

        begin();
        kept = lock(0, SPACE_RECORD_LOCK_WRITE, block);
        for (uint32_t i = 0; i < LIMIT_SPACE_HOLDS; i++) {
            shared_store_relaxed(&memories[0].kept[i], lies[n]);
        }
        ask(1, SPACE_RECORD_LOCK_WRITE, block, FOR_EVER);
        turn();
        if ((lies[n] & SPACE_KEPT_STATE) == SPACE_KEPT_KEPT) {
            assert_int_equal(answer(1, &value), NIGH_OK); /* it gave it back */
        } else {
            assert_false(is_answered(1));
            shared_store_relaxed(&memories[0].kept[kept], SPACE_KEPT_HELD); /* not any more */
            assert_true(space_producer_keep(&producers[0], kept));
            turn();
            assert_false(is_answered(1)); /* as one that never unlocks */
            space_windows_remove(windows, numbers[0], now_us);
            turn();
            assert_int_equal(answer(1, &value), NIGH_OK);
            memset(&memories[0], 0, sizeof(memories[0]));
            assert_int_equal(space_windows_add(windows, 10, &memories[0], &numbers[0]), NIGH_OK);
            space_producer_init(&producers[0], &memories[0]);
        }
        /* What it takes for held it does not hold. */
        shared_store_relaxed(&memories[0].kept[kept], SPACE_KEPT_HELD);
        assert_int_equal(ask_now(0, SPACE_RECORD_TRY_LOCK_WRITE, block), NIGH_BUSY);
        unlock(1, block);
        turn();
        end();
    }
}

/* ---- every order ---------------------------------------------------------- */

/*
 * One keeps a lock; it takes it again, by the word or a record, writes, and gives it back, by the
 * word or a record: a swap, a store of the tail, or a record each is a step. The other asks for
 * something of the block, and for a lock lets go again. The lane has so many turns. All orders are
 * gone through, each from the beginning; then the lane has all the turns that it wants, and nobody
 * waits.
 */
#define ONE_STEPS   4u /* to take, to write, to give back; and to wait for a record's answer */
#define OTHER_STEPS 2u
#define LANE_TURNS  5u
#define STEPS       (ONE_STEPS + OTHER_STEPS + LANE_TURNS)

static struct {
    uint32_t kept, at, of_other;
    bool asked, holds, other_holds, fails;
    enum space_record_kind mine, others;
    uint64_t written;
    uint32_t by_word, by_record;
} run;

static void both_do_not_hold(void)
{
    bool may_both = run.mine == SPACE_RECORD_LOCK_READ && !is_alone(run.others);

    assert_true(!run.holds || !run.other_holds || may_both);
}

static void one_takes(void)
{
    if (space_producer_is_empty(&producers[0]) &&
        space_producer_take_kept(&producers[0], run.kept)) {
        run.holds = true;
        run.by_word++;
        both_do_not_hold();
    } else {
        ask(0, run.mine, block, FOR_EVER);
        run.asked = true;
        run.by_record++;
    }
}

static void one_hears(void)
{
    uint64_t value = 0;

    if (run.asked && is_answered(0)) {
        assert_int_equal(answer(0, &value), NIGH_OK);
        run.asked = false;
        run.holds = true;
        run.kept =
            space_producer_note_lock(&producers[0], &mapped, block, is_alone(run.mine), value);
        both_do_not_hold();
    }
}

static void one_gives_back(void)
{
    run.holds = false;
    if (run.kept == SPACE_NO_KEPT || !space_producer_keep(&producers[0], run.kept)) {
        unlock(0, block);
        run.by_record++;
    } else {
        run.by_word++;
    }
}

static void one_steps(void)
{
    one_hears();
    if (run.at == 0) {
        one_takes();
    } else if (run.asked) {
        return; /* it waits */
    } else if (run.at == 1) {
        /* Of another block, which the lock is for. */
        put(0, other, ++run.written);
    } else if (run.at == 2) {
        one_gives_back();
    }
    run.at += run.at < 3;
}

/* What was written under the lock is there for who has it next. */
static void other_hears(void)
{
    uint64_t value = 0;

    if (run.of_other != 1 || !is_answered(1)) {
        return;
    }
    run.of_other = 2;
    assert_int_equal(answer(1, &value), NIGH_OK);
    if (run.others < SPACE_RECORD_LOCK_READ || run.others > SPACE_RECORD_TRY_LOCK_WRITE) {
        return;
    }
    run.other_holds = true;
    both_do_not_hold();
    if (is_alone(run.others) && run.at >= 3) {
        assert_int_equal(space_producer_read(&producers[1], &mapped, other, &value, 8), SPACE_READ);
        assert_int_equal(value, run.written);
    }
}

static void other_steps(void)
{
    other_hears();
    if (run.of_other == 0) {
        ask(1, run.others, block, FOR_EVER);
        run.of_other = 1;
    } else if (run.of_other == 2) {
        if (run.other_holds) {
            unlock(1, block);
            run.other_holds = false;
        }
        run.of_other = 3;
    }
}

/* Nobody waits for what nobody has. */
static void all_end(void)
{
    for (uint32_t n = 0; n < 8; n++) {
        turn();
        one_steps();
        other_steps();
    }
    assert_int_equal(run.at, 3);
    assert_int_equal(run.of_other, 3);
    turn();
    assert_true(space_producer_is_empty(&producers[0]) && space_producer_is_empty(&producers[1]));
    assert_int_equal(ask_now(1, SPACE_RECORD_TRY_LOCK_WRITE, block), NIGH_OK);
}

/* On the same engine, which is as it was at the beginning. */
static void run_one(const uint8_t *order)
{
    for (uint32_t n = 0; n < 2; n++) {
        space_windows_remove(windows, numbers[n], now_us);
        memset(&memories[n], 0, sizeof(memories[n]));
        assert_int_equal(space_windows_add(windows, 10 + n, &memories[n], &numbers[n]), NIGH_OK);
        space_producer_init(&producers[n], &memories[n]);
    }
    run.at = run.of_other = 0;
    run.asked = run.holds = run.other_holds = false;
    run.kept = lock_and_keep(0, run.mine, block);
    for (uint32_t n = 0; n < STEPS; n++) {
        if (order[n] == 0) {
            one_steps();
        } else if (order[n] == 1) {
            other_steps();
        } else {
            turn_once();
        }
        one_hears();
        other_hears();
    }
    all_end();
}

static void swap(uint8_t *order, uint32_t a, uint32_t b)
{
    uint8_t was = order[a];

    order[a] = order[b];
    order[b] = was;
}

/* The next one of a row with so many of each. */
static bool next_order(uint8_t *order)
{
    uint32_t at = STEPS - 1, with = STEPS - 1;

    while (at > 0 && order[at - 1] >= order[at]) {
        at--;
    }
    if (at == 0) {
        return false;
    }
    while (order[with] <= order[at - 1]) {
        with--;
    }
    swap(order, at - 1, with);
    for (uint32_t first = at, last = STEPS - 1; first < last; first++, last--) {
        swap(order, first, last);
    }
    return true;
}

static void in_every_order_one_has_it_and_nobody_waits(void **state)
{
    static const enum space_record_kind mine[] = {SPACE_RECORD_LOCK_WRITE, SPACE_RECORD_LOCK_READ};
    static const enum space_record_kind others[] = {SPACE_RECORD_LOCK_WRITE, SPACE_RECORD_LOCK_READ,
                                                    SPACE_RECORD_READ, SPACE_RECORD_ADD};
    uint32_t orders = 0;

    (void)state;
    for (uint32_t n = 0; n < ARRAY_LENGTH(mine) * ARRAY_LENGTH(others); n++) {
        uint8_t order[STEPS];

        memset(order, 0, ONE_STEPS);
        memset(order + ONE_STEPS, 1, OTHER_STEPS);
        memset(order + ONE_STEPS + OTHER_STEPS, 2, LANE_TURNS);
        run.mine = mine[n % ARRAY_LENGTH(mine)];
        run.others = others[n / ARRAY_LENGTH(mine)];
        run.written = 0;
        begin();
        do {
            run_one(order);
            orders++;
        } while (next_order(order));
        end();
    }
    print_message("# %u orders; by the word %u times, by a record %u\n", orders, run.by_word,
                  run.by_record);
    assert_true(run.by_word > orders && run.by_record > orders / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_had_again_without_the_lane),
        cmocka_unit_test(what_is_kept_gives_way),
        cmocka_unit_test(what_is_held_and_wanted_is_not_kept),
        cmocka_unit_test(a_revoked_lock_waits_for_what_was_before_it),
        cmocka_unit_test(what_others_wait_for_is_given_back_by_a_record),
        cmocka_unit_test(what_many_keep_is_waited_for),
        cmocka_unit_test(what_does_not_leave_is_not_waited_for),
        cmocka_unit_test(all_that_is_kept_of_a_space_gives_way),
        cmocka_unit_test(what_waits_under_it_is_under_nothing_without_it),
        cmocka_unit_test(without_a_lease_it_stays_kept),
        cmocka_unit_test(its_own_records_are_behind_it),
        cmocka_unit_test(a_thread_that_keeps_all_it_may_has_room),
        cmocka_unit_test(what_is_kept_goes_with_its_window_and_its_space),
        cmocka_unit_test(what_a_client_puts_there_is_its_own_harm),
        cmocka_unit_test(in_every_order_one_has_it_and_nobody_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
