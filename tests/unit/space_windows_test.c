/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of a lane, on the engine of a node that is alone: what clients may, and what ends them.
 */
#include "support/support.h"

#include <string.h>

#include "base/check.h"
#include "memory/space_record.h"
#include "space/log.h"
#include "space/windows.h"

#define BYTES        64u
#define NUMBER       3u /* what sessions call the space, */
#define OTHER_NUMBER 5u /* and whose client says more as it is looked for */

static struct space_engine *engine;
static struct space_windows *windows;
static struct space_window memories[2];
static struct space_producer producers[2];
static struct space_mapped mapped;
static uint32_t numbers[2];
static bool may_write, is_open, has_lease, has_log, is_sync;
static struct space_log node_log;
static struct space_log_job *job; /* that is under way */
static uint32_t broken;
static nigh_status failed, may_fail;
static uint64_t block, now_us;
static _Alignas(4096) uint8_t home_memory[3 * 4096], cache_memory[3 * 4096];

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

static bool refills; /* as it is looked for */

/* Whole blocks, by both of its numbers by turns. */
static void fill_ring(void)
{
    static const uint64_t bytes[BYTES / 8];
    struct space_mapped other = mapped;
    uint64_t ticket;

    other.number = OTHER_NUMBER;
    do {
        (void)space_producer_look(&producers[0]);
        other.number ^= NUMBER ^ OTHER_NUMBER;
    } while (space_producer_write(&producers[0], &other, block, bytes, BYTES, &ticket));
}

static struct space_engine *find(void *context, uint32_t session, uint32_t space, bool *writes,
                                 nigh_status *why)
{
    *why = NIGH_CLOSED;
    (void)context;
    (void)session;
    *writes = may_write;
    if (refills) {
        fill_ring();
    }
    return (space == NUMBER || (refills && space == OTHER_NUMBER)) && is_open ? engine : NULL;
}

static bool is_current(void *context)
{
    (void)context;
    return has_lease;
}

static bool wanted(void *context, uint64_t address)
{
    (void)context;
    return space_windows_wanted(windows, engine, address);
}

static void note_broken(void *context, uint32_t session)
{
    (void)context;
    broken = session;
}

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
    if (why != may_fail) {
        fail_msg("the log failed: %s", nigh_status_name(why));
    }
}

static void run_job(void)
{
    struct space_log_job *done = job;

    assert_non_null(done);
    job = NULL;
    done->status = NIGH_OK;
    space_engine_logged(engine, now_us);
}

static void turn(void)
{
    for (uint32_t n = 0; n < 4; n++) {
        (void)space_engine_turn(engine, now_us);
        (void)space_windows_turn(windows, now_us);
    }
}

static void run_jobs(void)
{
    while (job != NULL) {
        run_job();
        turn();
    }
}

static void ask(uint32_t who, enum space_record_kind kind, uint64_t address, uint64_t timeout_us)
{
    uint64_t operands[2] = {8, 0};
    uint32_t length = kind == SPACE_RECORD_READ || space_kind_is_atomic(kind) ? 8 : 0;

    assert_true(
        space_producer_ask(&producers[who], kind, &mapped, address, length, operands, timeout_us));
    turn();
}

static nigh_status answer(uint32_t who, uint64_t *value)
{
    uint64_t bytes;

    assert_true(space_producer_is_answered(&producers[who]));
    return space_producer_answer(&producers[who], value, &bytes, 8);
}

static nigh_status ask_now(uint32_t who, enum space_record_kind kind, uint64_t address)
{
    uint64_t value;

    ask(who, kind, address, UINT64_MAX);
    return answer(who, &value);
}

static void put(uint32_t who, uint64_t address)
{
    uint64_t value = 5, ticket;

    assert_true(space_producer_write(&producers[who], &mapped, address, &value, 8, &ticket));
    turn();
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
        .is_sync = is_sync,
        .shell = {.send = no_send,
                  .cut = no_cut,
                  .wanted = wanted,
                  .log = note_log,
                  .failed = note_failed},
    };
    const struct space_log_geometry geometry = {
        .block_bytes = BYTES, .blocks = 8, .frames = SPACE_WAYS};
    const struct space_log_name name = {.identity = 1, .life = 2};

    memset(home_memory, 0, sizeof(home_memory));
    memset(cache_memory, 0, sizeof(cache_memory));
    memset(memories, 0, sizeof(memories));
    may_write = is_open = has_lease = true;
    broken = 0;
    now_us = 1;
    space_view_make_home(home_memory, 8, BYTES, space_address_of_life(0, 1, 8 * BYTES),
                         &config.home);
    space_view_make_cache(cache_memory, 1, BYTES, &config.cache);
    mapped = (struct space_mapped){config.cache, config.home, NUMBER};
    if (has_log) {
        assert_int_equal(space_log_init(&node_log, &name, &geometry, LIMIT_SPACE_LOG_BYTES_MIN, 1),
                         NIGH_OK);
        config.log = &node_log;
    }
    assert_int_equal(space_engine_create(&config, &engine), NIGH_OK);
    space_engine_members(engine, 1, now_us);
    assert_int_equal(space_windows_create(2, &shell, &windows), NIGH_OK);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(space_windows_add(windows, 10 + n, &memories[n], &numbers[n]), NIGH_OK);
        space_producer_init(&producers[n], &memories[n]);
    }
    ask(0, SPACE_RECORD_ALLOC, 0, UINT64_MAX);
    if (is_sync) {
        run_jobs();
    }
    assert_int_equal(answer(0, &block), NIGH_OK);
}

static void end(void)
{
    assert_true(space_engine_is_valid(engine));
    for (uint32_t n = 0; n < 2; n++) {
        space_windows_remove(windows, numbers[n], now_us);
    }
    space_windows_destroy(windows);
    space_engine_end(engine, NIGH_CLOSED);
    if (job != NULL) {
        run_job();
    }
    space_engine_destroy(engine);
    if (has_log) {
        space_log_fini(&node_log);
    }
}

static void who_may_only_read_writes_nothing(void **state)
{
    nigh_status status = NIGH_OK;
    uint64_t address = 0;

    (void)state;
    begin();
    may_write = false;
    assert_int_equal(ask_now(0, SPACE_RECORD_READ, block), NIGH_OK);
    assert_int_equal(ask_now(0, SPACE_RECORD_LOCK_READ, block), NIGH_OK);
    assert_int_equal(ask_now(0, SPACE_RECORD_ADD, block), NIGH_DENIED);
    assert_int_equal(ask_now(0, SPACE_RECORD_LOCK_WRITE, block), NIGH_DENIED);
    assert_int_equal(ask_now(0, SPACE_RECORD_ALLOC, 0), NIGH_DENIED);
    assert_int_equal(ask_now(0, SPACE_RECORD_FREE, block), NIGH_DENIED);
    put(0, block);
    assert_int_equal(ask_now(0, SPACE_RECORD_FLUSH, 0), NIGH_OK);
    assert_int_equal(space_producer_failures(&producers[0], &status, &address), 1);
    assert_int_equal(status, NIGH_DENIED);
    assert_int_equal(address, block);
    end();
}

static void addresses_of_nobody_are_told_so(void **state)
{
    (void)state;
    begin();
    assert_int_equal(ask_now(0, SPACE_RECORD_READ, 0), NIGH_INVALID);
    assert_int_equal(ask_now(0, SPACE_RECORD_READ, block + 60), NIGH_INVALID);
    assert_int_equal(ask_now(0, SPACE_RECORD_ADD, block + 4), NIGH_INVALID);
    assert_int_equal(ask_now(0, SPACE_RECORD_READ, block + 8 * BYTES), NIGH_PEER_LOST);
    assert_int_equal(ask_now(0, SPACE_RECORD_READ, block + BYTES), NIGH_NOT_FOUND);
    assert_int_equal(ask_now(0, SPACE_RECORD_READ, space_address_first(5)), NIGH_PEER_LOST);
    assert_int_equal(ask_now(0, SPACE_RECORD_READ, UINT64_MAX - 63), NIGH_INVALID);
    assert_int_equal(ask_now(0, SPACE_RECORD_FREE, block + 8), NIGH_INVALID);
    assert_int_equal(ask_now(0, SPACE_RECORD_FREE, block + BYTES), NIGH_INVALID);
    assert_int_equal(ask_now(0, SPACE_RECORD_FREE, block), NIGH_OK);
    assert_int_equal(ask_now(0, SPACE_RECORD_FREE, block), NIGH_INVALID);
    assert_int_equal(ask_now(0, SPACE_RECORD_READ, block), NIGH_NOT_FOUND);
    is_open = false;
    assert_int_equal(ask_now(0, SPACE_RECORD_READ, block), NIGH_CLOSED);
    end();
}

static void what_is_held_is_let_go_with_the_window(void **state)
{
    uint64_t value;

    (void)state;
    begin();
    assert_int_equal(ask_now(0, SPACE_RECORD_LOCK_WRITE, block), NIGH_OK);
    assert_int_equal(ask_now(0, SPACE_RECORD_LOCK_READ, block), NIGH_INVALID);
    assert_int_equal(ask_now(0, SPACE_RECORD_ADD, block), NIGH_OK);
    assert_int_equal(ask_now(0, SPACE_RECORD_FREE, block), NIGH_INVALID);
    assert_int_equal(ask_now(1, SPACE_RECORD_TRY_LOCK_READ, block), NIGH_BUSY);
    ask(1, SPACE_RECORD_READ, block, UINT64_MAX);
    assert_false(space_producer_is_answered(&producers[1]));
    space_windows_remove(windows, numbers[0], now_us);
    turn();
    assert_int_equal(answer(1, &value), NIGH_OK);
    memset(&memories[0], 0, sizeof(memories[0]));
    assert_int_equal(space_windows_add(windows, 10, &memories[0], &numbers[0]), NIGH_OK);
    end();
}

static void who_says_what_cannot_be_is_ended(void **state)
{
    (void)state;
    begin();
    shared_store_relaxed(&memories[1].tail.value, 3);
    assert_true(space_windows_has_work(windows));
    turn();
    assert_int_equal(broken, 11);
    assert_false(space_windows_has_work(windows));
    end();
}

static void what_is_held_back_has_its_time_too(void **state)
{
    uint64_t value;

    (void)state;
    begin();
    assert_int_equal(ask_now(0, SPACE_RECORD_LOCK_WRITE, block), NIGH_OK);
    put(1, block); /* waits, and what comes behind it, too */
    ask(1, SPACE_RECORD_FLUSH, 0, 50);
    assert_false(space_producer_is_answered(&producers[1]));
    assert_int_equal(space_windows_deadline(windows), 51);
    now_us = 51;
    turn();
    assert_int_equal(answer(1, &value), NIGH_TIMEOUT);
    space_windows_let_go(windows, UINT32_MAX, engine, NIGH_CLOSED, now_us);
    turn();
    assert_int_equal(ask_now(1, SPACE_RECORD_TRY_LOCK_WRITE, block), NIGH_OK);
    end();
}

static void write_row(uint32_t count)
{
    uint64_t value = 5, ticket;

    for (uint32_t n = 0; n < count; n++) {
        assert_true(
            space_producer_write(&producers[0], &mapped, block + n % 8 * 8, &value, 8, &ticket));
    }
}

/* However much one says, others have their turn. */
static void a_row_of_writes_is_carried_out_in_parts(void **state)
{
    uint64_t before;

    (void)state;
    begin();
    before = producers[0].tail;
    write_row(3 * LIMIT_SPACE_ROW / 2);
    assert_true(space_windows_turn(windows, now_us));
    assert_int_equal(shared_load_acquire(&memories[0].head.value) - before,
                     (producers[0].tail - before) / 3 * 2);
    turn();
    assert_true(space_producer_is_empty(&producers[0]));
    end();
}

/* Nor by bytes: a client that says more all the while is heard for no more than its ring has. */
static void a_row_is_no_longer_than_a_ring(void **state)
{
    uint64_t before;

    (void)state;
    begin();
    before = shared_load_acquire(&memories[0].head.value);
    refills = true;
    fill_ring();
    assert_true(space_windows_turn(windows, now_us));
    refills = false;
    assert_in_range(shared_load_acquire(&memories[0].head.value) - before,
                    LIMIT_SPACE_RING_BYTES - 2 * BYTES, LIMIT_SPACE_RING_BYTES + 2 * BYTES);
    assert_true(producers[0].tail - before > LIMIT_SPACE_RING_BYTES + 2 * BYTES);
    turn();
    end();
}

/* Nor what comes to nothing, or is not a row. */
static void a_row_that_fails_is_carried_out_in_parts(void **state)
{
    uint64_t before;

    (void)state;
    begin();
    before = producers[0].tail;
    is_open = false;
    write_row(3 * LIMIT_SPACE_RECORDS);
    assert_true(space_windows_turn(windows, now_us));
    assert_int_equal(shared_load_acquire(&memories[0].head.value) - before,
                     (producers[0].tail - before) / 3);
    turn();
    assert_true(space_producer_is_empty(&producers[0]));
    end();
}

/* What another holds to read stays as it is, in the midst of a row, too; and what comes behind the
 * write that waits for it waits, where it is of the same block. */
static void a_row_waits_for_who_holds_a_block(void **state)
{
    uint64_t value = 7, ticket, other, read = 0;

    (void)state;
    begin();
    ask(0, SPACE_RECORD_ALLOC, 0, UINT64_MAX);
    assert_int_equal(answer(0, &other), NIGH_OK);
    assert_int_equal(ask_now(1, SPACE_RECORD_LOCK_READ, other), NIGH_OK);
    assert_true(space_producer_write(&producers[0], &mapped, block, &value, 8, &ticket));
    assert_true(space_producer_write(&producers[0], &mapped, other, &value, 8, &ticket));
    assert_true(space_producer_write(&producers[0], &mapped, other + 8, &value, 8, &ticket));
    turn();
    assert_false(space_producer_is_done(&producers[0], ticket));
    assert_int_equal(space_producer_read(&producers[1], &mapped, block, &read, 8), SPACE_READ);
    assert_int_equal(read, 7);
    assert_int_equal(space_producer_read(&producers[1], &mapped, other, &read, 8), SPACE_READ);
    assert_int_equal(read, 0);
    assert_true(space_producer_say(&producers[1], SPACE_RECORD_UNLOCK, &mapped, other));
    turn();
    assert_true(space_producer_is_done(&producers[0], ticket));
    assert_int_equal(space_producer_read(&producers[1], &mapped, other + 8, &read, 8), SPACE_READ);
    assert_int_equal(read, 7);
    end();
}

/* Each write of a row is looked at by itself: of which space, block and bytes it is. */
static void a_row_is_of_what_each_write_says(void **state)
{
    struct space_mapped nobodys = mapped;
    uint64_t value = 9, ticket, read = 0, address = 0;
    nigh_status status = NIGH_OK;

    (void)state;
    begin();
    nobodys = mapped;
    nobodys.number = NUMBER + 1;
    assert_true(space_producer_write(&producers[0], &mapped, block, &value, 8, &ticket));
    assert_true(space_producer_write(&producers[0], &nobodys, block + 8, &value, 8, &ticket));
    assert_true(space_producer_write(&producers[0], &mapped, block + 16, &value, 8, &ticket));
    assert_true(space_producer_write(&producers[0], &mapped, block + 60, &value, 8, &ticket));
    assert_true(space_producer_write(&producers[0], &mapped, block + 33, &value, 3, &ticket));
    turn();
    assert_true(space_producer_is_empty(&producers[0]));
    assert_int_equal(space_producer_failures(&producers[0], &status, &address), 2);
    assert_int_equal(status, NIGH_INVALID);
    assert_int_equal(address, block + 60);
    for (uint32_t n = 0; n < BYTES / 8; n++) {
        assert_int_equal(space_producer_read(&producers[1], &mapped, block + n * 8, &read, 8),
                         SPACE_READ);
        assert_int_equal(read, n == 0 || n == 2 ? 9 : n == 4 ? 9u << 8 : 0);
    }
    may_write = false;
    put(0, block);
    assert_int_equal(space_producer_failures(&producers[0], &status, &address), 1);
    assert_int_equal(status, NIGH_DENIED);
    end();
}

static void what_a_window_does_not_hold_it_does_not_let_go(void **state)
{
    nigh_status status = NIGH_OK;
    uint64_t address;

    (void)state;
    begin();
    assert_int_equal(ask_now(0, SPACE_RECORD_LOCK_READ, block), NIGH_OK);
    assert_true(space_producer_say(&producers[1], SPACE_RECORD_UNLOCK, &mapped, block));
    assert_int_equal(ask_now(1, SPACE_RECORD_FLUSH, 0), NIGH_OK);
    assert_int_equal(space_producer_failures(&producers[1], &status, &address), 1);
    assert_int_equal(status, NIGH_INVALID);
    assert_int_equal(ask_now(1, SPACE_RECORD_TRY_LOCK_WRITE, block), NIGH_BUSY);
    put(0, block); /* it holds it to read */
    assert_int_equal(ask_now(0, SPACE_RECORD_FLUSH, 0), NIGH_OK);
    assert_int_equal(space_producer_failures(&producers[0], &status, &address), 1);
    assert_true(space_producer_say(&producers[0], SPACE_RECORD_UNLOCK, &mapped, block));
    turn();
    assert_int_equal(ask_now(1, SPACE_RECORD_TRY_LOCK_WRITE, block), NIGH_OK);
    end();
}

static uint64_t allocate(uint32_t who, uint64_t bytes)
{
    uint64_t operands[2] = {bytes, 0}, address = 0;

    assert_true(space_producer_ask(&producers[who], SPACE_RECORD_ALLOC, &mapped, 0, 0, operands,
                                   UINT64_MAX));
    turn();
    assert_int_equal(answer(who, &address), NIGH_OK);
    return address;
}

static void unlock(uint32_t who, uint64_t address)
{
    assert_true(space_producer_say(&producers[who], SPACE_RECORD_UNLOCK, &mapped, address));
    turn();
}

/* Its unlock would stand behind that: told at once, and no block of it is freed. */
static void who_holds_a_block_of_it_frees_nothing(void **state)
{
    uint64_t many, behind;

    (void)state;
    begin();
    many = allocate(0, 3 * BYTES);
    behind = allocate(0, BYTES);
    assert_int_equal(behind, many + 3 * BYTES);
    assert_int_equal(ask_now(0, SPACE_RECORD_LOCK_WRITE, behind), NIGH_OK);
    for (uint32_t n = 0; n < 3; n++) {
        uint8_t kind = n == 1 ? SPACE_RECORD_LOCK_READ : SPACE_RECORD_LOCK_WRITE;

        assert_int_equal(ask_now(0, (enum space_record_kind)kind, many + n * BYTES), NIGH_OK);
        assert_int_equal(ask_now(0, SPACE_RECORD_FREE, many), NIGH_INVALID);
        unlock(0, many + n * BYTES);
        assert_int_equal(ask_now(1, SPACE_RECORD_READ, many), NIGH_OK);
    }
    assert_int_equal(ask_now(0, SPACE_RECORD_FREE, many), NIGH_OK);
    assert_int_equal(ask_now(1, SPACE_RECORD_READ, many), NIGH_NOT_FOUND);
    end();
}

/* ... but what another has locked is waited for, and what it only keeps is given back. */
static void what_is_not_its_own_is_waited_for(void **state)
{
    uint64_t many, value = 0;
    uint32_t kept;

    (void)state;
    begin();
    many = allocate(0, 3 * BYTES);
    assert_int_equal(ask_now(1, SPACE_RECORD_LOCK_READ, many + 2 * BYTES), NIGH_OK);
    ask(0, SPACE_RECORD_FREE, many, UINT64_MAX);
    assert_false(space_producer_is_answered(&producers[0]));
    unlock(1, many + 2 * BYTES);
    assert_int_equal(answer(0, &value), NIGH_OK);
    many = allocate(0, 3 * BYTES);
    ask(0, SPACE_RECORD_LOCK_WRITE, many + BYTES, UINT64_MAX);
    assert_int_equal(answer(0, &value), NIGH_OK);
    kept = space_producer_note_lock(&producers[0], &mapped, many + BYTES, true, value);
    assert_true(space_producer_keep(&producers[0], kept));
    assert_int_equal(ask_now(0, SPACE_RECORD_FREE, many), NIGH_OK);
    end();
}

static bool is_answered(uint32_t who)
{
    return space_producer_is_answered(&producers[who]);
}

static uint64_t read_answer(uint32_t who)
{
    uint64_t value, bytes = 0;

    assert_true(is_answered(who));
    assert_int_equal(space_producer_answer(&producers[who], &value, &bytes, 8), NIGH_OK);
    return bytes;
}

/* A lane that stood still may have read what others have gone on without: it is read again. */
static void what_was_read_without_a_lease_is_read_again(void **state)
{
    uint64_t value;

    (void)state;
    begin();
    has_lease = false;
    ask(0, SPACE_RECORD_READ, block, UINT64_MAX);
    assert_false(is_answered(0));
    put(1, block);
    assert_true(space_producer_is_empty(&producers[1])); /* what is written waits for nothing */
    assert_int_equal(ask_now(1, SPACE_RECORD_FLUSH, 0), NIGH_OK);
    assert_int_equal(ask_now(1, SPACE_RECORD_READ, 0), NIGH_INVALID);
    assert_false(is_answered(0));
    has_lease = true;
    turn();
    assert_int_equal(read_answer(0), 5);
    /* It has its time meanwhile. */
    has_lease = false;
    ask(0, SPACE_RECORD_READ, block, 50);
    assert_false(is_answered(0));
    assert_int_equal(space_windows_deadline(windows), now_us + 50);
    now_us += 50;
    turn();
    assert_int_equal(answer(0, &value), NIGH_TIMEOUT);
    end();
}

static void fetch(uint32_t who, uint64_t address)
{
    assert_true(space_producer_say(&producers[who], SPACE_RECORD_FETCH, &mapped, address));
    turn();
}

/* Nobody is told of a fetch, nor held up by one for long. */
static void a_fetch_has_its_time_and_no_more(void **state)
{
    nigh_status status = NIGH_OK;
    uint64_t value, address = 0;

    (void)state;
    begin();
    fetch(0, block);
    fetch(0, block + BYTES);          /* freed */
    fetch(0, space_address_first(5)); /* of a node that there is none */
    fetch(0, 0);
    assert_int_equal(broken, 0);
    assert_true(space_producer_is_empty(&producers[0]));
    assert_int_equal(space_producer_failures(&producers[0], &status, &address), 0);
    assert_int_equal(ask_now(1, SPACE_RECORD_LOCK_WRITE, block), NIGH_OK);
    fetch(0, block);
    ask(0, SPACE_RECORD_FLUSH, 0, UINT64_MAX);
    assert_false(space_producer_is_answered(&producers[0]));
    now_us += LIMIT_SPACE_FETCH_US - 1;
    turn();
    assert_false(space_producer_is_answered(&producers[0]));
    now_us++;
    turn();
    assert_int_equal(answer(0, &value), NIGH_OK);
    /* A try that has less time is refused as any other. */
    fetch(0, block);
    ask(0, SPACE_RECORD_TRY_LOCK_READ, block, 5);
    now_us += 5;
    turn();
    assert_int_equal(answer(0, &value), NIGH_BUSY);
    end();
}

/* What was done is, once, and told when it may be. */
static void what_was_done_without_a_lease_is_told_with_one(void **state)
{
    uint64_t value = 0, other;

    (void)state;
    begin();
    ask(1, SPACE_RECORD_ALLOC, 0, UINT64_MAX);
    assert_int_equal(answer(1, &other), NIGH_OK);
    has_lease = false;
    ask(0, SPACE_RECORD_ADD, block, UINT64_MAX);
    ask(1, SPACE_RECORD_LOCK_WRITE, other, UINT64_MAX);
    assert_false(is_answered(0) || is_answered(1));
    assert_int_equal(space_windows_deadline(windows), UINT64_MAX);
    assert_false(space_windows_has_work(windows));
    has_lease = true;
    turn();
    assert_int_equal(answer(0, &value), NIGH_OK);
    assert_int_equal(value, 0);
    assert_int_equal(answer(1, &value), NIGH_OK);
    assert_true(space_producer_is_empty(&producers[0]));
    assert_int_equal(ask_now(0, SPACE_RECORD_TRY_LOCK_READ, other), NIGH_BUSY);
    ask(0, SPACE_RECORD_READ, block, UINT64_MAX);
    assert_int_equal(read_answer(0), 8);
    end();
}

/* What others went on without is not told at all, and what was held of it is let go. */
static void what_was_done_and_left_is_told_so(void **state)
{
    uint64_t value = 0, other;

    (void)state;
    begin();
    ask(1, SPACE_RECORD_ALLOC, 0, UINT64_MAX);
    assert_int_equal(answer(1, &other), NIGH_OK);
    has_lease = false;
    ask(0, SPACE_RECORD_ADD, block, UINT64_MAX);
    ask(1, SPACE_RECORD_LOCK_WRITE, other, UINT64_MAX);
    assert_false(is_answered(0) || is_answered(1));
    space_windows_let_go(windows, UINT32_MAX, engine, NIGH_CLOSED, now_us);
    has_lease = true;
    turn();
    assert_int_equal(answer(0, &value), NIGH_CLOSED);
    assert_int_equal(value, 0);
    assert_int_equal(answer(1, &value), NIGH_CLOSED);
    assert_int_equal(ask_now(0, SPACE_RECORD_TRY_LOCK_WRITE, other), NIGH_OK);
    has_lease = false; /* its window is gone before it is told */
    ask(1, SPACE_RECORD_LOCK_WRITE, block, UINT64_MAX);
    assert_false(is_answered(1));
    space_windows_remove(windows, numbers[1], now_us);
    has_lease = true;
    turn();
    assert_int_equal(ask_now(0, SPACE_RECORD_TRY_LOCK_WRITE, block), NIGH_OK);
    memset(&memories[1], 0, sizeof(memories[1]));
    assert_int_equal(space_windows_add(windows, 11, &memories[1], &numbers[1]), NIGH_OK);
    end();
}

/* All that waits when the others took the node for dead, a free, too. */
static void what_waits_is_closed_where_the_node_is_left_out(void **state)
{
    static const enum space_record_kind kinds[] = {SPACE_RECORD_FREE, SPACE_RECORD_READ,
                                                   SPACE_RECORD_ADD, SPACE_RECORD_LOCK_READ};

    (void)state;
    for (uint32_t n = 0; n < ARRAY_LENGTH(kinds); n++) {
        uint64_t value;

        begin();
        assert_int_equal(ask_now(0, SPACE_RECORD_LOCK_WRITE, block), NIGH_OK);
        ask(1, kinds[n], block, UINT64_MAX);
        assert_false(is_answered(1));
        space_engine_members(engine, 2, now_us);
        turn();
        assert_true(is_answered(1));
        assert_int_equal(answer(1, &value), NIGH_CLOSED);
        end();
    }
}

static uint64_t blocks_used(void)
{
    struct space_engine_stats stats;

    space_engine_stats(engine, &stats);
    return stats.home_used;
}

/* What was allocated without a lease, for one that is gone before it hears where, is free again. */
static void what_nobody_was_told_of_is_free_again(void **state)
{
    uint64_t value = 0, before;

    (void)state;
    for (uint32_t is_removed = 0; is_removed < 2; is_removed++) {
        begin();
        before = blocks_used();
        has_lease = false;
        ask(1, SPACE_RECORD_ALLOC, 0, UINT64_MAX);
        assert_false(is_answered(1));
        assert_int_equal(blocks_used(), before + 1);
        if (is_removed != 0) {
            space_windows_remove(windows, numbers[1], now_us);
            memset(&memories[1], 0, sizeof(memories[1]));
            assert_int_equal(space_windows_add(windows, 11, &memories[1], &numbers[1]), NIGH_OK);
        } else {
            space_windows_let_go(windows, 11, engine, NIGH_CLOSED, now_us);
        }
        has_lease = true;
        turn();
        assert_true(is_removed != 0 || answer(1, &value) == NIGH_CLOSED);
        assert_int_equal(blocks_used(), before);
        end();
    }
}

/* A flush is for all that a thread wrote, also to a space that its client has closed since. */
static void what_was_written_before_a_close_is_flushed(void **state)
{
    uint64_t value;

    (void)state;
    has_log = true;
    begin();
    run_jobs();
    put(0, block);
    space_windows_let_go(windows, 10, engine, NIGH_CLOSED, now_us);
    ask(0, SPACE_RECORD_FLUSH, 0, UINT64_MAX);
    assert_false(space_producer_is_answered(&producers[0]));
    run_job();
    turn();
    assert_int_equal(answer(0, &value), NIGH_OK);
    end();
    has_log = false;
}

/* What was done and did not become durable the next flush tells, also where the node has left the
 * space by then; and no other. `is_told`: before that. */
static void lose_and_flush(uint32_t is_told)
{
    struct space_log_job *done;

    has_log = true;
    begin();
    run_jobs();
    put(0, block);
    done = job;
    job = NULL;
    done->status = may_fail = NIGH_DISK;
    space_engine_logged(engine, now_us);
    turn();
    assert_int_equal(failed, NIGH_DISK);
    if (is_told != 0) {
        assert_int_equal(ask_now(0, SPACE_RECORD_FLUSH, 0), NIGH_DISK);
    }
    space_windows_let_go(windows, UINT32_MAX, engine, failed, now_us);
    assert_int_equal(ask_now(1, SPACE_RECORD_FLUSH, 0), NIGH_OK); /* all that it wrote is */
    if (is_told == 0) {
        assert_int_equal(ask_now(0, SPACE_RECORD_FLUSH, 0), NIGH_DISK);
    }
    assert_int_equal(ask_now(0, SPACE_RECORD_FLUSH, 0), NIGH_OK);
    end();
    has_log = false;
    may_fail = NIGH_OK;
}

static void what_was_lost_with_the_log_is_flushed_once(void **state)
{
    (void)state;
    lose_and_flush(0);
    lose_and_flush(1);
}

/* sync: who keeps a lock, and reads what another has written and is not durable yet, waits for
 * that, and neither loses the lock by it nor fails. */
static void a_read_under_a_kept_lock_waits_for_the_log(void **state)
{
    uint64_t value = 0;
    uint32_t kept;

    (void)state;
    has_log = is_sync = true;
    begin();
    run_jobs();
    put(1, block);
    assert_non_null(job);
    ask(0, SPACE_RECORD_LOCK_READ, block, UINT64_MAX);
    assert_int_equal(answer(0, &value), NIGH_OK);
    kept = space_producer_note_lock(&producers[0], &mapped, block, false, value);
    assert_true(space_producer_keep(&producers[0], kept));
    ask(0, SPACE_RECORD_READ, block, UINT64_MAX);
    assert_false(space_producer_is_answered(&producers[0]));
    run_jobs();
    assert_int_equal(answer(0, &value), NIGH_OK);
    assert_true(space_producer_take_kept(&producers[0], kept));
    end();
    has_log = is_sync = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_may_only_read_writes_nothing),
        cmocka_unit_test(addresses_of_nobody_are_told_so),
        cmocka_unit_test(what_is_held_is_let_go_with_the_window),
        cmocka_unit_test(who_says_what_cannot_be_is_ended),
        cmocka_unit_test(what_is_held_back_has_its_time_too),
        cmocka_unit_test(a_row_of_writes_is_carried_out_in_parts),
        cmocka_unit_test(a_row_is_no_longer_than_a_ring),
        cmocka_unit_test(a_row_that_fails_is_carried_out_in_parts),
        cmocka_unit_test(a_row_waits_for_who_holds_a_block),
        cmocka_unit_test(a_row_is_of_what_each_write_says),
        cmocka_unit_test(what_a_window_does_not_hold_it_does_not_let_go),
        cmocka_unit_test(who_holds_a_block_of_it_frees_nothing),
        cmocka_unit_test(what_is_not_its_own_is_waited_for),
        cmocka_unit_test(what_was_read_without_a_lease_is_read_again),
        cmocka_unit_test(a_fetch_has_its_time_and_no_more),
        cmocka_unit_test(what_was_done_without_a_lease_is_told_with_one),
        cmocka_unit_test(what_was_done_and_left_is_told_so),
        cmocka_unit_test(what_waits_is_closed_where_the_node_is_left_out),
        cmocka_unit_test(what_nobody_was_told_of_is_free_again),
        cmocka_unit_test(what_was_written_before_a_close_is_flushed),
        cmocka_unit_test(what_was_lost_with_the_log_is_flushed_once),
        cmocka_unit_test(a_read_under_a_kept_lock_waits_for_the_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
