/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explores what clients and a node's lane share of a space: the functions of memory/space_view.h,
 * space_window.c, space_consumer.c and space/frames.c, under total store order and under weak
 * memory. docs/spaces.md says what this covers.
 *
 * The world is a cache of one set and home memory of two blocks, of which two words count, and a
 * window for each of two clients' threads. As elsewhere a scenario that is wrong on purpose must be
 * found wrong, and one that shrank fails.
 */
#include "explorer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "memory/space_window.h"
#include "space/frames.h"
#include "support/support.h"

#define BLOCK   64u
#define HOME    UINT64_C(0x3000000000000)
#define X       HOME
#define Y       (HOME + BLOCK)
#define A       UINT64_C(0x1000000000040)
#define B       UINT64_C(0x1000000000080)
#define CLIENTS 2

static struct world {
    struct space_view home;
    struct space_frames frames;
    struct space_mapped mapped;
    struct space_producer producers[CLIENTS];
    struct space_consumer consumers[CLIENTS];
    uint64_t got[EXPLORER_THREADS]; /* what a thread came to */
} world;

static _Alignas(4096) uint8_t home_memory[3 * 4096], cache_memory[3 * 4096];
static struct space_window windows[CLIENTS];
static uint8_t ages[SPACE_WAYS];
static _Atomic uint64_t told; /* from one thread to another, outside of all this */
static uint32_t seen;         /* bits of outcomes, over one exploration */

static void saw(uint32_t outcome)
{
    seen |= 1u << outcome;
}

/* A block's first two words, and whether they may be read. */
static void put(struct space_view *view, uint64_t n, _Atomic uint64_t *word, uint64_t value)
{
    uint64_t both[2] = {value, value};

    space_bytes_store(space_bytes_of(view, n), 0, both, sizeof both);
    space_word_show(word);
}

static void set_up(void)
{
    struct space_view cache;

    memset(&world, 0, sizeof world);
    memset(home_memory, 0, sizeof home_memory);
    memset(cache_memory, 0, sizeof cache_memory);
    memset(windows, 0, sizeof windows);
    memset(ages, 3, sizeof ages);
    shared_store_relaxed(&told, 0);
    NIGH_ASSERT(space_view_home_bytes(2, BLOCK) <= sizeof home_memory);
    NIGH_ASSERT(space_view_cache_bytes(1, BLOCK) <= sizeof cache_memory);
    space_view_make_home(home_memory, 2, BLOCK, HOME, &world.home);
    space_view_make_cache(cache_memory, 1, BLOCK, &cache);
    world.frames = (struct space_frames){.view = cache, .ages = ages};
    world.mapped = (struct space_mapped){.cache = cache, .home = world.home, .number = 7};
    for (uint32_t n = 0; n < CLIENTS; n++) {
        space_producer_init(&world.producers[n], &windows[n]);
        space_consumer_init(&world.consumers[n], &windows[n]);
        explorer_private(&world.producers[n], sizeof world.producers[n]);
        explorer_private(&world.consumers[n], sizeof world.consumers[n]);
        explorer_name(&windows[n].tail, "window%u.tail", n);
        explorer_name(&windows[n].head, "window%u.head", n);
        explorer_name(&windows[n].ring[0], "window%u.ring[0]", n);
        explorer_name(&windows[n].asleep, "window%u.asleep", n);
        explorer_name(&windows[n].news, "window%u.news", n);
        explorer_name(&windows[n].reply.sequence, "window%u.sequence", n);
    }
    explorer_private(&world.frames, sizeof world.frames);
    explorer_private(world.got, sizeof world.got);
    explorer_private(ages, sizeof ages);
    put(&world.home, 0, &world.home.words[0], 1);
    put(&world.home, 1, &world.home.words[1], 1);
    explorer_name(&world.home.words[0], "x.word");
    explorer_name(&world.home.words[1], "y.word");
    explorer_name(space_bytes_of(&world.home, 0), "x[0]");
    explorer_name(space_bytes_of(&world.home, 0) + 1, "x[1]");
    explorer_name(space_bytes_of(&world.home, 1), "y[0]");
    explorer_name(&told, "told");
}

/* ---- reads of home memory -------------------------------------------------- */

/* Both words, which are equal in all that is ever there; 0: the lane would have to be asked. */
static uint64_t read_both(uint64_t address)
{
    uint64_t both[2];

    if (space_home_read(&world.home, address, both, sizeof both) != SPACE_READ) {
        return 0;
    }
    if (both[0] != both[1]) {
        explorer_fail("torn: %llu and %llu", (unsigned long long)both[0],
                      (unsigned long long)both[1]);
    }
    return both[0];
}

static uint64_t read_one(uint64_t address)
{
    uint64_t one;

    return space_home_read(&world.home, address, &one, sizeof one) == SPACE_READ ? one : 0;
}

static void change_both(uint32_t block, uint64_t value)
{
    uint64_t both[2] = {value, value};

    space_word_change(&world.home.words[block], space_bytes_of(&world.home, block), 0, both,
                      sizeof both);
}

static void change_one(uint32_t block, uint64_t value)
{
    space_word_change(&world.home.words[block], space_bytes_of(&world.home, block), 0, &value,
                      sizeof value);
}

static void lane_changes_twice(void)
{
    change_both(0, 2);
    change_both(0, 3);
}

static void reads_twice(void)
{
    uint64_t first = read_both(X), second = read_both(X);

    saw((uint32_t)first);
    if (first != 0 && second != 0 && second < first) {
        explorer_fail("%llu after %llu", (unsigned long long)second, (unsigned long long)first);
    }
    explorer_forget(first * 10 + second);
}

static const struct explorer_scenario changes = {
    "a block changes twice", set_up, {lane_changes_twice, reads_twice}, NULL};

/* Who is told that it was given up reads it no more; what another writes there is not read as its.
 */
static void lane_gives_up(void)
{
    uint64_t foreign = 9;

    space_word_hide(&world.home.words[0]);
    space_view_fence();
    shared_store_relaxed(&told, 1);
    space_bytes_store(space_bytes_of(&world.home, 0), 0, &foreign, sizeof foreign);
}

static void reads_what_may_be_given_up(void)
{
    uint64_t was_told = shared_load_acquire(&told), value = read_both(X);

    if (was_told != 0 && value != 0) {
        explorer_fail("%llu is read, and was given up", (unsigned long long)value);
    }
    if (value > 1) {
        explorer_fail("%llu is another's", (unsigned long long)value);
    }
    saw((uint32_t)value);
    explorer_forget(value + 100);
}

static const struct explorer_scenario gives_up = {
    "a block is given up", set_up, {lane_gives_up, reads_what_may_be_given_up}, NULL};

/* It comes back with other bytes: a read that spans that is none. */
static void lane_gives_up_and_gets_back(void)
{
    uint64_t both[2] = {5, 5};

    space_word_hide(&world.home.words[0]);
    space_view_fence();
    space_bytes_store(space_bytes_of(&world.home, 0), 0, both, sizeof both);
    space_word_show(&world.home.words[0]);
}

static void reads_both(void)
{
    uint64_t value = read_both(X);

    saw((uint32_t)value);
    explorer_forget(value + 200);
}

static const struct explorer_scenario gets_back = {
    "a block is given up, and comes back", set_up, {lane_gives_up_and_gets_back, reads_both}, NULL};

/* MP: the lane writes x, then y; reads are in order. */
static void lane_changes_x_then_y(void)
{
    change_one(0, 2);
    change_one(1, 2);
}

static void reads_y_then_x(void)
{
    uint64_t y = read_one(Y), x = read_one(X);

    if (y == 2 && x == 1) {
        explorer_fail("y is new, and x is old");
    }
    saw((uint32_t)(y * 3 + x));
    explorer_forget(y * 3 + x + 300);
}

static const struct explorer_scenario message = {
    "MP", set_up, {lane_changes_x_then_y, reads_y_then_x, reads_y_then_x}, NULL};

/* ---- frames ---------------------------------------------------------------- */

static void set_up_a(void)
{
    uint32_t frame;

    set_up();
    frame = space_frames_take(&world.frames, A);
    put(&world.frames.view, frame, space_frames_word(&world.frames, frame), 1);
    explorer_name(space_frames_word(&world.frames, 0), "frame0.word");
    explorer_name(&world.frames.view.sets[0].heads[0].tag, "frame0.tag");
    explorer_name(&world.frames.view.sets[0].prints[0], "prints");
    explorer_name(space_bytes_of(&world.frames.view, 0), "frame0[0]");
    explorer_name(space_bytes_of(&world.frames.view, 0) + 1, "frame0[1]");
}

static void lane_gives_the_frame_to_b(void)
{
    uint32_t frame = space_frames_find(&world.frames, A);

    space_word_hide(space_frames_word(&world.frames, frame));
    space_view_fence();
    space_frames_give(&world.frames, frame);
    frame = space_frames_take(&world.frames, B);
    put(&world.frames.view, frame, space_frames_word(&world.frames, frame), 2);
}

static void reads_cached(uint64_t address, uint64_t expected)
{
    uint64_t both[2], value = 0;
    uint32_t frame;

    if (space_cache_read(&world.frames.view, space_hash(address, 6), address, both, sizeof both,
                         &frame) == SPACE_READ) {
        value = both[0];
        if (both[0] != expected || both[1] != expected) {
            explorer_fail("%llu, %llu is another block's", (unsigned long long)both[0],
                          (unsigned long long)both[1]);
        }
    }
    saw((uint32_t)value);
    explorer_forget(value + 400);
}

static void reads_a(void)
{
    reads_cached(A, 1);
}

static void reads_b(void)
{
    reads_cached(B, 2);
}

static const struct explorer_scenario frame = {
    "a frame goes to another block", set_up_a, {lane_gives_the_frame_to_b, reads_a, reads_b}, NULL};

/* ---- own writes ------------------------------------------------------------ */

static void write_one(uint32_t client, uint64_t address, uint64_t value)
{
    uint64_t ticket;
    bool has_room = space_producer_write(&world.producers[client], &world.mapped, address, &value,
                                         sizeof value, &ticket);

    NIGH_ASSERT(has_room);
}

/* Threads do not wait: what one has not come to is the end of that way; others go on. Two looks. */
static bool take(uint32_t client, struct space_record *record)
{
    return space_consumer_take(&world.consumers[client], record) == SPACE_WINDOW_TAKEN ||
           space_consumer_take(&world.consumers[client], record) == SPACE_WINDOW_TAKEN;
}

/* One record of a client, if there is one by now: carried out, and told. */
static bool serve(uint32_t client)
{
    struct space_consumer *consumer = &world.consumers[client];
    struct space_record record;
    uint64_t value;

    if (!take(client, &record)) {
        return false;
    }
    space_consumer_bytes(consumer, &record, &value);
    change_one((uint32_t)(record.address - HOME) / BLOCK, value);
    space_consumer_done(consumer, record.number);
    return true;
}

/* The same of two records that were never taken: what both wrote is told at once. */
static void lane_carries_a_row(void)
{
    struct space_consumer *consumer = &world.consumers[0];
    struct space_write write;
    uint64_t value;

    for (uint32_t looks = 0; looks < 3; looks++) {
        if (space_consumer_peek(consumer, &write)) {
            space_consumer_peek_bytes(consumer, &write, &value);
            change_one((uint32_t)(write.address - HOME) / BLOCK, value);
            space_consumer_pass(consumer, &write);
        }
    }
    space_consumer_tell(consumer);
}

static uint64_t own_read(uint32_t client, uint64_t address, void *out, uint32_t length)
{
    return space_producer_read(&world.producers[client], &world.mapped, address, out, length) ==
           SPACE_READ;
}

static void lane_serves_twice(void)
{
    if (serve(0)) {
        serve(0);
    }
}

/* A write of one of two words; then the other is the space's, and that is its own. Twice. */
static void writes_and_reads(void)
{
    uint64_t both[2];

    for (uint64_t value = 5; value < 7; value++) {
        write_one(0, X, value);
        if (own_read(0, X, both, sizeof both) && (both[0] != value || both[1] != 1)) {
            explorer_fail("%llu, %llu after own %llu", (unsigned long long)both[0],
                          (unsigned long long)both[1], (unsigned long long)value);
        }
        if (own_read(0, X, both, 8)) {
            saw((uint32_t)both[0]);
            if (both[0] != value) {
                explorer_fail("%llu after own %llu", (unsigned long long)both[0],
                              (unsigned long long)value);
            }
        }
    }
    explorer_forget(500);
}

static const struct explorer_scenario own_writes = {
    "own writes are seen", set_up, {lane_serves_twice, writes_and_reads}, NULL};

static const struct explorer_scenario own_row = {
    "own writes of a row are seen", set_up, {lane_carries_a_row, writes_and_reads}, NULL};

/* Another's write comes behind an own one, and then says so in y: who sees y sees no own x. */
static void writes_x_reads_y_and_x(void)
{
    uint64_t y, x = 0;

    write_one(0, X, 5);
    y = read_one(Y);
    if (own_read(0, X, &x, sizeof x) && y == 2 && x != 7) {
        explorer_fail("x is %llu, behind which was written before y", (unsigned long long)x);
    }
    saw((uint32_t)(y == 2 ? 8 + (x == 7) : x));
    explorer_forget(y * 10 + x + 600);
}

static void lane_serves_and_another_writes(void)
{
    if (serve(0)) {
        change_one(0, 7);
        change_one(1, 2);
    }
}

static const struct explorer_scenario behind_own = {
    "another writes behind an own write",
    set_up,
    {lane_serves_and_another_writes, writes_x_reads_y_and_x},
    NULL};

static void lane_tells_too_late(void)
{
    struct space_record record;

    if (!take(0, &record)) {
        return;
    }
    change_one(0, 5);
    space_consumer_done_in_a_row(&world.consumers[0], record.number);
    change_one(0, 7);
    change_one(1, 2);
    space_consumer_tell(&world.consumers[0]);
}

static const struct explorer_scenario wrong_tell = {"wrong: what is done is told too late",
                                                    set_up,
                                                    {lane_tells_too_late, writes_x_reads_y_and_x},
                                                    NULL};

/* What is carried out is so for others. */
static void writes_until_it_is_done(void)
{
    uint64_t ticket, value = 5;
    bool has_room =
        space_producer_write(&world.producers[0], &world.mapped, X, &value, sizeof value, &ticket);

    NIGH_ASSERT(has_room);
    if (space_producer_is_done(&world.producers[0], ticket)) {
        shared_store_release(&told, 1);
    }
    explorer_forget(700);
}

static void reads_what_it_is_told_of(void)
{
    uint64_t was_told = shared_load_acquire(&told), x = read_one(X);

    if (was_told != 0 && x != 0 && x != 5) {
        explorer_fail("it is done, and not seen");
    }
    saw((uint32_t)(was_told * 8 + x));
    explorer_forget(x + was_told * 10 + 800);
}

static void lane_serves_once(void)
{
    serve(0);
}

static const struct explorer_scenario done = {
    "what is done is seen",
    set_up,
    {lane_serves_once, writes_until_it_is_done, reads_what_it_is_told_of},
    NULL};

/* The same behind a full fence, by which a thread may tell others in whatever way. */
static void writes_until_it_is_empty(void)
{
    write_one(0, X, 5);
    if (space_producer_is_empty(&world.producers[0])) {
        shared_store_release(&told, 1);
    }
    explorer_forget(750);
}

static const struct explorer_scenario fenced = {
    "what is fenced is seen",
    set_up,
    {lane_serves_once, writes_until_it_is_empty, reads_what_it_is_told_of},
    NULL};

/* SB, with a full fence: each writes, waits until all is carried out, and reads the other's. */
static void store_fence_load(uint32_t client, uint64_t mine, uint64_t other)
{
    write_one(client, mine, 2);
    if (space_producer_is_empty(&world.producers[client])) {
        world.got[client] = read_one(other);
    }
    explorer_forget(900 + client * 10 + world.got[client]);
}

static void fences_x(void)
{
    store_fence_load(0, X, Y);
}

static void fences_y(void)
{
    store_fence_load(1, Y, X);
}

static void without_x(void)
{
    write_one(0, X, 2);
    world.got[0] = read_one(Y);
    explorer_forget(920 + world.got[0]);
}

static void without_y(void)
{
    write_one(1, Y, 2);
    world.got[1] = read_one(X);
    explorer_forget(940 + world.got[1]);
}

static void lane_serves_both(void)
{
    uint32_t first = explorer_choose();

    serve(first);
    serve(1 - first);
    explorer_forget(960);
}

static void not_both_old(void)
{
    saw((uint32_t)(world.got[0] * 3 + world.got[1]));
    if (world.got[0] == 1 && world.got[1] == 1) {
        explorer_fail("neither saw the other's");
    }
}

static const struct explorer_scenario full_fence = {
    "SB, with full fences", set_up, {lane_serves_both, fences_x, fences_y}, not_both_old};

static const struct explorer_scenario wrong_fence = {
    "wrong: SB, without fences", set_up, {lane_serves_both, without_x, without_y}, not_both_old};

/* ---- asks and sleep -------------------------------------------------------- */

/* One asks, and sleeps only if somebody wakes it; the answer is whole. */
static void asks_and_sleeps(void)
{
    struct space_producer *producer = &world.producers[0];
    uint64_t value, bytes = 0;
    uint32_t news;
    bool has_room =
        space_producer_ask(producer, SPACE_RECORD_READ, &world.mapped, X, 8, NULL, 1000);

    NIGH_ASSERT(has_room);
    news = space_producer_begin_sleep(producer);
    if (!space_producer_is_answered(producer)) {
        world.got[0] = 100 + news; /* it sleeps until news is another */
        explorer_forget(1000 + news);
        return;
    }
    space_producer_end_sleep(producer);
    if (space_producer_answer(producer, &value, &bytes, 8) != NIGH_BUSY || value != 44 ||
        bytes != 55) {
        explorer_fail("the answer is not whole");
    }
    world.got[0] = 1;
    explorer_forget(1100);
}

static void lane_answers(void)
{
    struct space_record record;
    uint64_t bytes = 55;

    if (!take(0, &record)) {
        return;
    }
    space_consumer_reply(&world.consumers[0], &record, NIGH_BUSY, 44, &bytes, 8);
    space_consumer_wake(&world.consumers[0]);
    world.got[3] = 1;
    explorer_forget(1200);
}

static void woken(void)
{
    saw(world.got[0] == 1);
    if (world.got[0] >= 100 && world.got[3] == 1 &&
        shared_load_relaxed(&windows[0].news.value) == world.got[0] - 100) {
        explorer_fail("it sleeps, and is answered");
    }
}

static const struct explorer_scenario sleeps = {
    "one asks, and sleeps", set_up, {lane_answers, asks_and_sleeps}, woken};

/* An answer tells what was done before it: what is read next is not under an own write of before.
 */
static void writes_swaps_and_reads(void)
{
    uint64_t x = 0, value, operands[2] = {6, 0};

    write_one(0, X, 5);
    if (!space_producer_ask(&world.producers[0], SPACE_RECORD_EXCHANGE, &world.mapped, X, 8,
                            operands, 1000)) {
        explorer_fail("there is room");
    }
    if (!space_producer_is_answered(&world.producers[0])) {
        return;
    }
    (void)space_producer_answer(&world.producers[0], &value, NULL, 0);
    if (value != 5 || !own_read(0, X, &x, sizeof x) || x != 6) {
        explorer_fail("%llu was there, and %llu is", (unsigned long long)value,
                      (unsigned long long)x);
    }
    saw((uint32_t)x);
    explorer_forget(1300);
}

static void lane_swaps(void)
{
    struct space_record record;
    uint64_t value;

    if (!take(0, &record)) {
        return;
    }
    space_consumer_bytes(&world.consumers[0], &record, &value);
    change_one(0, value);
    space_consumer_done_in_a_row(&world.consumers[0], record.number);
    if (!take(0, &record)) {
        return;
    }
    change_one(0, record.operands[0]);
    space_consumer_reply(&world.consumers[0], &record, NIGH_OK, value, NULL, 0);
    explorer_forget(1400);
}

static const struct explorer_scenario swaps = {
    "a write, an exchange and a read", set_up, {lane_swaps, writes_swaps_and_reads}, NULL};

/* ---- kept locks ------------------------------------------------------------ */

#define REVOKED   1u /* what the lane found, in got[3] */
#define IS_HELD   2u
#define IS_UNLOCK 3u /* and heard of its end */

/* A lock of x, which y is under. */
static void set_up_held(void)
{
    set_up();
    space_consumer_grant(&world.consumers[0], 0, false);
    if (space_producer_note_lock(&world.producers[0], &world.mapped, X, true, 1) != 0) {
        explorer_fail("it is not to be kept");
    }
    explorer_name(&windows[0].kept[0], "window0.kept[0]");
}

static void set_up_kept(void)
{
    set_up_held();
    if (!space_producer_keep(&world.producers[0], 0)) {
        explorer_fail("it cannot be kept");
    }
}

/* Writes under the lock, and gives it back. */
static void writes_and_gives_back(void)
{
    write_one(0, Y, 2);
    world.got[0] = space_producer_keep(&world.producers[0], 0);
    if (world.got[0] == 0 &&
        !space_producer_say(&world.producers[0], SPACE_RECORD_UNLOCK, &world.mapped, X)) {
        explorer_fail("there is room");
    }
    explorer_forget(1500 + world.got[0]);
}

/* Another has the lock from here on, and says so in x. */
static void another_has_it(void)
{
    change_one(0, 9);
}

static void lane_hears_of_its_end(void)
{
    struct space_record record;

    world.got[3] = IS_HELD;
    while (take(0, &record)) {
        if (record.kind == SPACE_RECORD_UNLOCK) {
            space_consumer_done(&world.consumers[0], record.number);
            world.got[3] = IS_UNLOCK;
            another_has_it();
            return;
        }
        change_one(1, 2);
        space_consumer_done(&world.consumers[0], record.number);
    }
}

static void lane_revokes(void)
{
    uint64_t until = 0;

    if (!space_consumer_want(&world.consumers[0], 0, &until)) {
        lane_hears_of_its_end();
    } else {
        world.got[3] = REVOKED;
        while (world.consumers[0].head < until) {
            if (!serve(0)) {
                explorer_fail("what was said before it was given back is not there");
            }
        }
        another_has_it();
    }
    explorer_forget(1600 + world.got[3]);
}

static void reads_as_the_next_one(void)
{
    uint64_t x = read_one(X), y = read_one(Y);

    if (x == 9 && y == 1) {
        explorer_fail("who has the lock next does not see what was written under it");
    }
    explorer_forget(1700 + x * 10 + y);
}

static void it_is_let_go_once(void)
{
    saw((uint32_t)(world.got[0] * 4 + world.got[3]));
    if (world.got[0] != 0 && (world.got[3] == IS_HELD || world.got[3] == IS_UNLOCK)) {
        explorer_fail("it is wanted, and kept: nobody lets it go");
    }
    if (world.got[0] == 0 && world.got[3] == REVOKED) {
        explorer_fail("it is let go twice");
    }
}

static const struct explorer_scenario gives_back = {
    "a lock is given back, and wanted",
    set_up_held,
    {lane_revokes, writes_and_gives_back, reads_as_the_next_one},
    it_is_let_go_once};

/* One takes it, another has it: not both. Behind the lock it reads what is under it, twice. */
static void read_under_it(void)
{
    uint64_t first = read_one(Y), second = read_one(Y);

    if (first == 9 || second == 9) {
        explorer_fail("another writes what is under its lock");
    }
}

static void takes_what_it_kept(void)
{
    world.got[0] = space_producer_take_kept(&world.producers[0], 0);
    if (world.got[0] != 0) {
        read_under_it();
    }
    explorer_forget(1800 + world.got[0]);
}

static void lane_gives_it_to_another(void)
{
    uint64_t until = 0;

    if (space_consumer_want(&world.consumers[0], 0, &until)) {
        world.got[3] = REVOKED;
        change_one(1, 9);
    } else {
        world.got[3] = IS_HELD;
    }
    explorer_forget(1900 + world.got[3]);
}

static void one_has_it(void)
{
    saw((uint32_t)(world.got[0] * 4 + world.got[3]));
    if ((world.got[0] != 0) != (world.got[3] == IS_HELD)) {
        explorer_fail(world.got[0] != 0 ? "both have it" : "nobody has it, and nobody lets it go");
    }
}

static const struct explorer_scenario takes_again = {"a kept lock is taken, and wanted",
                                                     set_up_kept,
                                                     {lane_gives_it_to_another, takes_what_it_kept},
                                                     one_has_it};

static void takes_without_looking(void)
{
    (void)shared_exchange(&windows[0].kept[0], SPACE_KEPT_HELD);
    world.got[0] = 1;
    read_under_it();
    explorer_forget(2000);
}

static const struct explorer_scenario wrong_take = {
    "wrong: a kept lock is taken unseen",
    set_up_kept,
    {lane_gives_it_to_another, takes_without_looking},
    NULL};

static void gives_back_without_looking(void)
{
    write_one(0, Y, 2);
    (void)shared_exchange(&windows[0].kept[0], world.producers[0].tail | SPACE_KEPT_KEPT);
    world.got[0] = 1;
    explorer_forget(2100);
}

static const struct explorer_scenario wrong_back = {"wrong: a lock is given back unseen",
                                                    set_up_held,
                                                    {lane_revokes, gives_back_without_looking},
                                                    it_is_let_go_once};

/* ---- all of them ----------------------------------------------------------- */

struct exploration {
    const struct explorer_scenario *scenario;
    uint32_t outcomes[2]; /* that are seen, by enum explorer_memory */
    uint64_t floor[2]; /* states, likewise: compilers leave more or less on the stacks that count */
};

static struct explorer_report total;
static bool violated; /* one is enough: the others are skipped */

static void report(const char *name, const char *memory, const struct explorer_report *r)
{
    printf("# %-38s %-9s %8llu states %9llu transitions %6llu endings %6llu ms\n", name, memory,
           (unsigned long long)r->states, (unsigned long long)r->transitions,
           (unsigned long long)r->endings, (unsigned long long)r->microseconds / 1000);
}

static void explore_one(const struct explorer_scenario *scenario, int memory, int steps,
                        struct explorer_report *r)
{
    static const char *const names[2][2] = {{"TSO, few", "TSO, all"}, {"weak, few", "weak, all"}};

    seen = 0;
    explorer_run(scenario, (enum explorer_memory)memory, (enum explorer_steps)steps, r);
    report(scenario->name, names[memory][steps], r);
    if (r->violated) {
        printf("# violated: %s\n%s", r->message, r->trace);
        free(r->trace);
        violated = true;
    }
    assert_false(r->violated);
}

static void explore(void **state)
{
    const struct exploration *exploration = *state;

    if (violated) {
        skip();
    }
    for (int memory = EXPLORER_TSO; memory <= EXPLORER_WEAK; memory++) {
        struct explorer_report few, all;

        explore_one(exploration->scenario, memory, EXPLORER_FEW_STEPS, &few);
        explore_one(exploration->scenario, memory, EXPLORER_ALL_STEPS, &all);
        assert_int_equal(seen, exploration->outcomes[memory]);
        /* Fewer steps, but nothing less can come of them. */
        assert_int_equal(few.endings, all.endings);
        assert_true(all.states >= exploration->floor[memory]);
        total.states += all.states;
        total.transitions += all.transitions;
        total.endings += all.endings;
        total.microseconds += few.microseconds + all.microseconds;
    }
}

/* A wrong scenario has to be found wrong in both memories. */
static void find(void **state)
{
    const struct explorer_scenario *scenario = *state;

    for (int memory = EXPLORER_TSO; memory <= EXPLORER_WEAK; memory++) {
        struct explorer_report r;

        explorer_run(scenario, memory, EXPLORER_FEW_STEPS, &r);
        assert_true(r.violated);
        printf("# %-38s found: %s\n", scenario->name, r.message);
        free(r.trace);
    }
}

static const struct exploration explorations[] = {
    {&changes, {0xf, 0xf}, {7500, 4000}},         {&gives_up, {0x3, 0x3}, {70, 42}},
    {&gets_back, {0x23, 0x23}, {170, 100}},       {&message, {0x13c, 0x13d}, {26000, 14000}},
    {&frame, {0x7, 0x7}, {1500, 3300}},           {&own_writes, {0x60, 0x60}, {350000, 160000}},
    {&own_row, {0x60, 0x60}, {150000, 50000}},    {&behind_own, {0x2a1, 0x2a1}, {3900, 1100}},
    {&done, {0x2023, 0x2023}, {1500, 750}},       {&fenced, {0x2023, 0x2023}, {900, 400}},
    {&full_fence, {0x1ef, 0x1ef}, {13000, 2800}}, {&sleeps, {0x3, 0x3}, {330, 140}},
    {&swaps, {0x40, 0x40}, {2800, 370}},          {&gives_back, {0x2c, 0x2c}, {7000, 2300}},
    {&takes_again, {0x42, 0x42}, {25, 16}},
};

static const struct explorer_scenario *const wrong[] = {&wrong_tell, &wrong_fence, &wrong_take,
                                                        &wrong_back};

int main(void)
{
    struct CMUnitTest tests[ARRAY_LENGTH(explorations) + ARRAY_LENGTH(wrong)];
    size_t count = 0;
    int failed;

    for (size_t i = 0; i < ARRAY_LENGTH(explorations); i++) {
        tests[count++] = (struct CMUnitTest){explorations[i].scenario->name, explore, NULL, NULL,
                                             (void *)(uintptr_t)&explorations[i]};
    }
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        tests[count++] =
            (struct CMUnitTest){wrong[i]->name, find, NULL, NULL, (void *)(uintptr_t)wrong[i]};
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    report("all", "both", &total);
    return failed;
}
