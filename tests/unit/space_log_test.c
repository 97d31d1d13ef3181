/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space's log on a disk that loses, tears and reorders what was not synced: a node appends what
 * it likes, its power goes at any operation of the disk, and it begins again from what there is,
 * several times. What was said to be durable is there, nothing is there that was not appended, and
 * it is all up to one record and none behind it. And images are made all the while.
 *
 * $NIGH_BUDGET_SECONDS: for so long at least the first part goes on.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "space/log_rules.h"
#include "space_log_disk.h"
#include "space_log_model.h"
#include "support/support.h"

#define SEEDS      1000u
#define LIVES      5u
#define COURSES    6u
#define STEPS      160u
#define APPENDED   4096u
#define FILE_BYTES LIMIT_SPACE_LOG_BYTES_MIN
#define IDENTITY   UINT64_C(0x5ace)

/* One node, over its lives. */
static struct node {
    struct disk disk;
    struct space_log_files files;
    struct random random;
    struct space_log log;
    struct space_log_state state;
    uint8_t home[MODEL_BLOCKS * MODEL_BYTES];
    struct model begin;    /* as it was at the beginning of this life */
    struct model appended; /* all that was appended; */
    struct model applied;  /* all that was applied: what an image has */
    struct model_record records[APPENDED];
    uint64_t from;    /* the number of the first of these */
    uint64_t is_done; /* applied up to this */
    bool is_sync;     /* applied once it is durable; else as it is appended */
    struct space_log_job job;
    bool has_job;
    uint32_t image_at; /* what is put next */
    struct model_record image_record;
    bool has_image_record;
    uint64_t life;
} node;

static struct {
    uint64_t records, images, stops, cuts, commits, in_commits, busy;
} seen;

/* ---- a life --------------------------------------------------------------- */

static nigh_status begin_life(uint64_t stops_at)
{
    struct space_log_found found;
    struct space_log_name name = {.identity = IDENTITY, .life = ++node.life};
    nigh_status status;

    memset(node.home, 0x77, sizeof(node.home));
    assert_int_equal(space_log_state_init(&node.state, &model_geometry, node.home, 1), NIGH_OK);
    status = space_log_recover(&node.files, IDENTITY, &node.state, &found);
    assert_int_equal(status, NIGH_OK);
    /* All up to one record, and that one is not before what was said to be durable. */
    if (node.life > 1) {
        uint64_t durable = node.log.durable == 0 ? node.from - 1 : node.log.durable;

        assert_true(found.next > durable);
        assert_true(found.next <= max_u64(node.log.next, node.from));
        node.applied = node.begin;
        for (uint64_t n = node.from; n < found.next; n++) {
            model_apply(&node.applied, &node.records[n - node.from]);
        }
        assert_true(model_equals(&node.applied, &node.state));
        seen.cuts += found.next < node.log.next;
    }
    node.begin = node.appended = node.applied;
    node.from = found.next;
    node.is_done = found.next - 1;
    node.has_job = node.has_image_record = false;
    space_log_fini(&node.log);
    node.disk.stops_at = stops_at;
    status = space_log_start(&node.log, &node.files, &name, FILE_BYTES, &node.state, &found);
    space_log_state_fini(&node.state);
    return status;
}

/* All that was appended is durable up to `number`. */
static void apply_up_to(uint64_t number)
{
    for (; node.is_done < number; node.is_done++) {
        model_apply(&node.applied, &node.records[node.is_done + 1 - node.from]);
    }
}

static void append(void)
{
    struct model_record record;
    uint64_t number;
    nigh_status status;

    if (node.log.next - node.from == APPENDED) {
        return;
    }
    model_choose(&node.appended, &node.random, &record);
    if (record.record.length > 0) {
        record.record.bytes = record.bytes;
    }
    status = space_log_append(&node.log, &record.record, &number);
    seen.busy += status == NIGH_BUSY;
    if (status != NIGH_OK) {
        return;
    }
    assert_int_equal(number, node.log.next - 1);
    node.records[number - node.from] = record;
    model_apply(&node.appended, &record);
    seen.records++;
    if (!node.is_sync) {
        apply_up_to(number);
    }
}

/* The lane hears of it in its own time. */
static void hear(void)
{
    uint64_t before = node.log.durable;

    node.has_job = false;
    space_log_ended(&node.log, &node.job);
    if (node.log.durable > before) {
        seen.commits++;
        seen.in_commits += node.log.durable - before;
    }
    apply_up_to(node.log.durable);
}

static void work(void)
{
    if (node.has_job) {
        hear();
    } else if (space_log_take_job(&node.log, &node.job)) {
        node.has_job = true;
        space_log_run(&node.files, &node.job);
    }
}

static void fill_image(void)
{
    nigh_status status;

    while (space_log_fills(&node.log) && random_below(&node.random, 8) != 0) {
        if (!node.has_image_record) {
            if (!model_next_of_image(&node.applied, &node.image_at, &node.image_record)) {
                (void)space_log_end_image(&node.log);
                return;
            }
            node.has_image_record = node.image_record.record.kind != SPACE_LOG_NOTHING;
        }
        if (node.has_image_record) {
            status = space_log_put(&node.log, &node.image_record.record);
            node.has_image_record = status != NIGH_OK;
        }
    }
}

static void live(void)
{
    for (uint32_t n = 0; n < STEPS && !node.disk.has_stopped; n++) {
        uint64_t what = random_below(&node.random, 8);

        if (what < 4) {
            for (uint64_t k = random_below(&node.random, 8); k > 0; k--) {
                append();
            }
        } else if (what < 6) {
            work();
        } else if (what < 7) {
            fill_image();
        } else if (space_log_wants_image(&node.log) || random_below(&node.random, 16) == 0) {
            if (space_log_begin_image(&node.log)) {
                node.image_at = 0;
                node.has_image_record = false;
            }
        }
    }
    seen.images += node.log.images;
    seen.stops += node.disk.has_stopped;
}

static void begin_node(uint64_t seed, bool is_sync)
{
    memset(&node, 0, sizeof(node));
    disk_init(&node.disk, seed);
    random_init(&node.random, seed * 2 + 1);
    node.files = disk_files(&node.disk);
    node.is_sync = is_sync;
    node.from = 1;
}

static void end_node(void)
{
    space_log_fini(&node.log);
    disk_fini(&node.disk);
}

/* Whether the power went. A start that the disk stopped has no log; what was there before it is
 * there. */
static bool live_once(uint64_t stops_at)
{
    bool has_stopped;

    if (begin_life(stops_at) == NIGH_OK) {
        live();
    } else {
        assert_true(node.disk.has_stopped);
    }
    has_stopped = node.disk.has_stopped;
    disk_start(&node.disk, UINT64_MAX);
    return has_stopped;
}

/* ---- tests ---------------------------------------------------------------- */

static void what_was_durable_is_there_whenever_the_power_goes(void **state)
{
    uint64_t seed = support_seed(), end_us = support_now_us() + support_budget_ms(0) * 1000;
    uint32_t seeds = getenv("NIGH_SANITIZED") != NULL ? SEEDS / 10 : SEEDS; /* minutes there */
    uint32_t n;

    (void)state;
    memset(&seen, 0, sizeof(seen));
    for (n = 0; n < seeds || support_now_us() < end_us; n++) {
        begin_node(seed + n, n % 2 == 0);
        for (uint32_t life = 0; life < LIVES; life++) {
            (void)live_once(random_below(&node.random, life == 0 ? 40 : 120));
        }
        assert_int_equal(begin_life(UINT64_MAX), NIGH_OK);
        end_node();
    }
    print_message("# %u nodes, %llu stops: %llu records, %llu commits of %llu, %llu images, %llu "
                  "times something was lost, %llu times there was no room\n",
                  n, (unsigned long long)seen.stops, (unsigned long long)seen.records,
                  (unsigned long long)seen.commits, (unsigned long long)seen.in_commits,
                  (unsigned long long)seen.images, (unsigned long long)seen.cuts,
                  (unsigned long long)seen.busy);
    assert_true(seen.images > seeds / 8 && seen.cuts > seeds / 2);
    assert_true(seen.busy > 0 || seeds < SEEDS);
}

/* One course, stopped at each of its operations, several ways. */
static void the_power_may_go_at_each_operation(void **state)
{
    uint64_t seed = support_seed(), boundaries = 0;

    (void)state;
    for (uint32_t course = 0; course < COURSES; course++) {
        bool is_over = false;

        for (uint32_t at = 0; !is_over; at++) {
            for (uint32_t way = 0; way < 4; way++) {
                begin_node(seed + course, course % 2 == 0);
                random_init(&node.disk.random, seed + at * 4 + way);
                is_over = !live_once(at);
                (void)live_once(UINT64_MAX);
                assert_int_equal(begin_life(UINT64_MAX), NIGH_OK);
                end_node();
            }
            boundaries++;
        }
    }
    print_message("# %u courses, %llu boundaries\n", COURSES, (unsigned long long)boundaries);
    assert_true(boundaries > 20 * COURSES);
}

/* ---- one thing at a time -------------------------------------------------- */

/* Appends, and makes it durable. */
static void commit(uint32_t records)
{
    uint64_t before = node.log.commits;

    while (records-- > 0) {
        append();
    }
    while (node.log.commits == before) {
        work();
    }
    assert_int_equal(node.log.durable, space_log_last(&node.log));
}

/* A node with a log of some batches, none of them under way. */
static void begin_quiet_of(uint64_t seed, uint32_t batches)
{
    begin_node(seed, false);
    assert_int_equal(begin_life(UINT64_MAX), NIGH_OK);
    for (uint32_t n = 0; n < batches; n++) {
        commit(3);
    }
}

static void begin_quiet(uint32_t batches)
{
    begin_quiet_of(7, batches);
}

static nigh_status recover(void)
{
    struct space_log_found found;
    nigh_status status;

    assert_int_equal(space_log_state_init(&node.state, &model_geometry, node.home, 1), NIGH_OK);
    status = space_log_recover(&node.files, IDENTITY, &node.state, &found);
    space_log_state_fini(&node.state);
    return status;
}

static enum space_log_file log_now(void)
{
    return node.log.name.generation % 2 == 0 ? SPACE_LOG_EVEN : SPACE_LOG_ODD;
}

/* What was durable, and is not any more, is noticed, wherever it is; but for the last batch, which
 * cannot be told from one that was never whole. */
static void damage_is_noticed(void **state)
{
    (void)state;
    for (uint32_t batch = 0; batch < 7; batch++) {
        begin_quiet(8);
        disk_spoil(&node.disk, log_now(), batch * SPACE_LOG_SECTOR + 80);
        assert_int_equal(recover(), NIGH_CORRUPT);
        end_node();
    }
    for (uint32_t at = 0; at < 2000; at += 16) {
        begin_quiet(8);
        disk_spoil(&node.disk, SPACE_LOG_IMAGE_NOW, at % 112);
        assert_true(recover() != NIGH_OK);
        end_node();
    }
}

/* The last batch of a generation, too: that of the next begins where it ends. */
static void damage_before_a_turn_is_noticed(void **state)
{
    enum space_log_file before;

    (void)state;
    for (uint64_t seed = 0; seed < 32; seed++) {
        uint64_t last;

        begin_quiet_of(seed, 3);
        before = log_now();
        last = node.log.offset - SPACE_LOG_SECTOR;
        assert_true(space_log_begin_image(&node.log));
        commit(3);
        assert_true(log_now() != before);
        assert_int_equal(recover(), NIGH_OK);
        disk_spoil(&node.disk, before, last + 80);
        assert_int_equal(recover(), NIGH_CORRUPT);
        end_node();
    }
}

/* A file is gone: nobody takes that for a space that is new. */
static void a_log_without_its_image_is_none(void **state)
{
    (void)state;
    begin_quiet(2);
    node.disk.names[SPACE_LOG_IMAGE_NOW] = -1;
    assert_int_equal(recover(), NIGH_CORRUPT);
    end_node();
    begin_quiet(2);
    node.disk.names[log_now()] = -1;
    assert_int_equal(recover(), NIGH_CORRUPT);
    end_node();
}

static void another_spaces_log_is_refused(void **state)
{
    struct space_log_geometry geometry = model_geometry;
    struct space_log_found found;
    static uint8_t home[2 * sizeof(node.home)];

    (void)state;
    begin_quiet(2);
    assert_int_equal(space_log_state_init(&node.state, &model_geometry, node.home, 1), NIGH_OK);
    assert_int_equal(space_log_recover(&node.files, IDENTITY + 1, &node.state, &found),
                     NIGH_CORRUPT);
    space_log_state_fini(&node.state);
    geometry.block_bytes *= 2;
    assert_int_equal(space_log_state_init(&node.state, &geometry, home, 1), NIGH_OK);
    assert_int_equal(space_log_recover(&node.files, IDENTITY, &node.state, &found), NIGH_INVALID);
    space_log_state_fini(&node.state);
    end_node();
}

/* Whoever gives a node a smaller cache is told so, and loses nothing by that; or one whose sets are
 * no parts of those that were. */
static void fewer_frames_are_no_damage(void **state)
{
    static const struct {
        uint32_t frames;
        nigh_status status;
    } tries[] = {{MODEL_FRAMES - 1, NIGH_INVALID},     {0, NIGH_INVALID},
                 {2 * MODEL_FRAMES, NIGH_OK},          {MODEL_FRAMES + 1, NIGH_INVALID},
                 {2 * MODEL_FRAMES + 1, NIGH_INVALID}, {3 * MODEL_FRAMES, NIGH_OK}};

    (void)state;
    begin_quiet(2);
    for (uint32_t n = 0; n < sizeof(tries) / sizeof(tries[0]); n++) {
        struct space_log_geometry geometry = model_geometry;
        struct space_log_found found;

        geometry.frames = tries[n].frames;
        assert_int_equal(space_log_state_init(&node.state, &geometry, node.home, 1), NIGH_OK);
        assert_int_equal(space_log_recover(&node.files, IDENTITY, &node.state, &found),
                         tries[n].status);
        space_log_state_fini(&node.state);
    }
    end_node();
}

/*
 * What a client has in a block may look like a batch of this log that comes next; where it is torn
 * so that it stands at the log's end it is none: it cannot know the life. And neither is one that
 * an earlier life left there.
 */
static void what_looks_like_a_batch_is_none(void **state)
{
    static uint8_t batch[SPACE_LOG_SECTOR];
    struct space_log_name name;
    struct model_record record = {.record = {.kind = SPACE_LOG_TERM, .epoch = {1000, 0}}};

    (void)state;
    begin_quiet(2);
    name = node.log.name;
    name.life++;
    space_log_put_record(batch + SPACE_LOG_HEAD_BYTES, &record.record);
    (void)space_log_seal_batch(batch, SPACE_LOG_HEAD_BYTES + SPACE_LOG_RECORD_BYTES, &name,
                               node.log.next, 1);
    assert_int_equal(node.files.write(&node.disk, log_now(), node.log.offset, batch, sizeof(batch)),
                     NIGH_OK);
    assert_int_equal(begin_life(UINT64_MAX), NIGH_OK);
    assert_true(node.applied.term < 1000);
    end_node();
}

/* After an error nothing is durable any more, and all who append hear so. */
static void an_error_is_for_good(void **state)
{
    struct space_log_record record = {.kind = SPACE_LOG_TERM, .epoch = {UINT32_MAX, 0}};
    uint64_t durable, number;

    (void)state;
    for (uint32_t at = 0; at < 2; at++) {
        begin_quiet(2);
        durable = node.log.durable;
        node.disk.fails_at = node.disk.operations + at;
        append();
        work();
        work();
        assert_int_equal(node.log.status, NIGH_DISK);
        node.disk.fails_at = UINT64_MAX;
        assert_int_equal(space_log_append(&node.log, &record, &number), NIGH_DISK);
        work();
        assert_false(node.has_job);
        assert_int_equal(node.log.durable, durable);
        assert_false(space_log_begin_image(&node.log));
        end_node();
    }
}

/* A file that is full makes who appends wait until an image is whole, and then it goes on. */
static void a_full_file_waits_for_an_image(void **state)
{
    struct space_log_record record = {.kind = SPACE_LOG_TERM};
    uint64_t number;

    (void)state;
    begin_quiet(0);
    for (uint32_t n = 0; n < FILE_BYTES / SPACE_LOG_SECTOR; n++) {
        assert_true(space_log_wants_image(&node.log) == (n > FILE_BYTES / SPACE_LOG_SECTOR / 2));
        commit(1);
    }
    record.epoch.term = UINT32_MAX;
    assert_int_equal(space_log_append(&node.log, &record, &number), NIGH_BUSY);
    assert_true(space_log_begin_image(&node.log));
    node.image_at = 0;
    /* The other file is free already. */
    commit(2);
    while (node.log.images == 0) {
        fill_image();
        work();
    }
    commit(2);
    assert_int_equal(begin_life(UINT64_MAX), NIGH_OK);
    end_node();
}

/* What an image may know of that the log does not have is not there: then it is no image. */
static void an_image_waits_for_its_log(void **state)
{
    (void)state;
    begin_quiet(1);
    assert_true(space_log_begin_image(&node.log));
    node.image_at = 0;
    work(); /* its turn */
    append();
    while (node.log.image.state != SPACE_LOG_IS_FULL) {
        fill_image();
    }
    while (node.log.images == 0) {
        assert_true(node.log.image.state != SPACE_LOG_NO_IMAGE);
        if (node.has_job && node.job.task == SPACE_LOG_IMAGE_SYNC) {
            assert_true(node.log.durable >= node.log.image.to);
        }
        work();
    }
    assert_int_equal(begin_life(UINT64_MAX), NIGH_OK);
    end_node();
}

/* ---- who was there, runs, and lives --------------------------------------- */

#define LIFE UINT64_C(5) /* of the home's addresses */

static uint64_t address_of(uint32_t block)
{
    return model_home_address(block) | LIFE << space_log_place_bits(&model_geometry);
}

static void make_durable(const struct space_log_record *record)
{
    uint64_t number;

    assert_int_equal(space_log_append(&node.log, record, &number), NIGH_OK);
    while (node.log.durable < number) {
        work();
    }
}

static void say_member(uint8_t seat, uint64_t life, bool is_member)
{
    make_durable(&(struct space_log_record){.kind = SPACE_LOG_MEMBER,
                                            .seat = seat,
                                            .address = life,
                                            .epoch.term = (uint32_t)life + 1,
                                            .is_ours = is_member});
}

static void say_range(enum space_log_kind kind, uint32_t first, uint32_t blocks, uint32_t before)
{
    make_durable(&(struct space_log_record){
        .kind = (uint8_t)kind, .address = address_of(first), .blocks = blocks, .offset = before});
}

/* Three blocks of one malloc, in two records, then one that was of it and is given anew. */
static void check_records(const struct space_log_state *state)
{
    assert_int_equal(state->lives[MODEL_RANK], 77);
    assert_int_equal(state->lives[9], 100);
    assert_int_equal(state->since[9], 101);
    assert_int_equal(state->lives[11], 102);
    assert_int_equal(state->members, space_bit(MODEL_RANK) | space_bit(11));
    assert_int_equal(state->blocks[4].run, 3);
    assert_int_equal(state->blocks[5].run, 0);
    assert_int_equal(state->blocks[6].state, SPACE_LOG_IS_OWNED);
    assert_int_equal(state->blocks[6].life, LIFE);
    assert_int_equal(state->blocks[10].run, 1);
    assert_int_equal(state->blocks[10].state, SPACE_LOG_IS_LOST);
    assert_int_equal(state->blocks[11].state, SPACE_LOG_IS_FREE);
    assert_int_equal(state->blocks[11].life, LIFE);
    assert_int_equal(state->blocks[3].run + state->blocks[7].run, 0);
}

static void who_was_there_is_known_and_what_one_malloc_gave(void **state)
{
    struct space_log_name name = {.identity = IDENTITY, .life = 1234};
    struct space_log_found found;

    (void)state;
    begin_quiet(0);
    say_member(MODEL_RANK, 77, true);
    say_member(9, 100, true);
    say_member(11, 101, true);
    say_member(11, 102, true); /* another life */
    say_member(9, 100, false);
    say_range(SPACE_LOG_ALLOC, 4, 2, 0);
    say_range(SPACE_LOG_ALLOC, 6, 1, 2);
    say_range(SPACE_LOG_ALLOC, 10, 2, 0);
    say_range(SPACE_LOG_FREE, 10, 2, 0);
    say_range(SPACE_LOG_ALLOC, 10, 1, 0);
    make_durable(&(struct space_log_record){
        .kind = SPACE_LOG_OWNED, .address = address_of(6), .seat = 9, .epoch = {1, 1}});
    make_durable(&(struct space_log_record){.kind = SPACE_LOG_LOST, .address = address_of(10)});
    for (uint32_t times = 0; times < 2; times++) {
        assert_int_equal(space_log_state_init(&node.state, &model_geometry, node.home, 1), NIGH_OK);
        assert_int_equal(space_log_recover(&node.files, IDENTITY, &node.state, &found), NIGH_OK);
        check_records(&node.state);
        /* The second time of an image of that. */
        space_log_fini(&node.log);
        assert_int_equal(
            space_log_start(&node.log, &node.files, &name, FILE_BYTES, &node.state, &found),
            NIGH_OK);
        space_log_state_fini(&node.state);
        name.life++;
    }
    end_node();
}

/* A record that is of no seat, or of more blocks than there are, is none. */
static void records_of_nobody_are_refused(void **state)
{
    const struct space_log_record none[] = {
        {.kind = SPACE_LOG_MEMBER, .seat = SPACE_SEATS, .address = 1, .is_ours = true},
        {.kind = SPACE_LOG_ALLOC, .address = model_home_address(4), .blocks = 1, .offset = 5},
        {.kind = SPACE_LOG_ALLOC, .address = model_home_address(23), .blocks = 2},
        {.kind = SPACE_LOG_FREE, .address = model_home_address(4), .blocks = 1},
        {.kind = SPACE_LOG_ALLOC, .address = model_home_address(24), .blocks = 1},
    };

    (void)state;
    for (uint32_t n = 0; n < sizeof(none) / sizeof(none[0]); n++) {
        begin_quiet(0);
        make_durable(&none[n]);
        assert_int_equal(recover(), NIGH_CORRUPT);
        end_node();
    }
}

/* Who came back first is told not to keep what it had, as another may have more: by then the log
 * says who that is. */
static void what_is_away_is_logged(void **state)
{
    const struct space_home home = {.self = MODEL_RANK, .term = 4};
    const struct space_message event = {.event = SPACE_HOME_REBUILT, .whom = SPACE_NOBODY};
    const struct space_entry before = {.state = SPACE_HOME_BARE},
                             after = {.state = SPACE_HOME_AWAY};
    struct space_work work = {.asker = SPACE_NOBODY,
                              .leaver = SPACE_NOBODY,
                              .owner = 9,
                              .is_ours = true,
                              .owned = {3, 17}};
    struct space_log_needs needs;

    (void)state;
    space_log_of_home(&home, &before, &work, &after, &work, &event, &needs);
    assert_int_equal(needs.count, 1);
    assert_int_equal(needs.records[0].kind, SPACE_LOG_OWNED);
    assert_int_equal(needs.records[0].seat, 9);
    assert_true(needs.records[0].is_ours);
    assert_true(space_epoch_equal(needs.records[0].epoch, work.owned));
    space_log_of_home(&home, &after, &work, &after, &work, &event, &needs);
    assert_int_equal(needs.count, 0);
    work.owner = SPACE_NOBODY;
    space_log_of_home(&home, &before, &work, &after, &work, &event, &needs);
    assert_int_equal(needs.count, 0);
}

/* ---- a directory ---------------------------------------------------------- */

static void a_directory_is_such_a_disk(void **state)
{
    struct space_log_directory directory;
    char path[256];
    int fd;

    (void)state;
    support_path(path, sizeof(path), "log");
    assert_int_equal(mkdir(path, 0700), 0);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    begin_node(11, false);
    for (uint32_t life = 0; life < 4; life++) {
        space_log_directory_init(&directory, fd);
        node.files = space_log_directory_files(&directory);
        assert_int_equal(begin_life(UINT64_MAX), NIGH_OK);
        for (uint32_t n = 0; n < 40; n++) {
            commit(4);
            if (space_log_wants_image(&node.log) && space_log_begin_image(&node.log)) {
                node.image_at = 0;
            }
            fill_image();
        }
        assert_true(node.log.images > 1);
        space_log_directory_fini(&directory);
    }
    /* What is not a file is not written to. */
    assert_int_equal(unlinkat(fd, "image", 0), 0);
    assert_int_equal(symlinkat("/dev/null", fd, "image"), 0);
    space_log_directory_init(&directory, fd);
    node.files = space_log_directory_files(&directory);
    assert_int_equal(recover(), NIGH_DISK);
    space_log_directory_fini(&directory);
    end_node();
    close(fd);
}

/* What a start would not find is not durable. */
static void a_directory_that_is_removed_is_an_error(void **state)
{
    static const char *const files[] = {"log.0", "log.1", "image"};
    struct space_log_directory directory;
    uint8_t byte = 1;
    char path[256];
    int fd;

    (void)state;
    support_path(path, sizeof(path), "removed");
    assert_int_equal(mkdir(path, 0700), 0);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    begin_node(12, false);
    space_log_directory_init(&directory, fd);
    node.files = space_log_directory_files(&directory);
    assert_int_equal(begin_life(UINT64_MAX), NIGH_OK);
    assert_int_equal(node.files.write(&directory, SPACE_LOG_EVEN, 0, &byte, 1), NIGH_OK);
    assert_int_equal(node.files.sync(&directory, SPACE_LOG_EVEN), NIGH_OK);
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(unlinkat(fd, files[n], 0), 0);
    }
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(node.files.write(&directory, SPACE_LOG_EVEN, 0, &byte, 1), NIGH_OK);
    assert_int_equal(node.files.sync(&directory, SPACE_LOG_EVEN), NIGH_DISK);
    assert_int_equal(node.files.size(&directory, SPACE_LOG_IMAGE_NEW, 0), NIGH_DISK);
    space_log_directory_fini(&directory);
    end_node();
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_durable_is_there_whenever_the_power_goes),
        cmocka_unit_test(the_power_may_go_at_each_operation),
        cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(damage_before_a_turn_is_noticed),
        cmocka_unit_test(a_log_without_its_image_is_none),
        cmocka_unit_test(another_spaces_log_is_refused),
        cmocka_unit_test(fewer_frames_are_no_damage),
        cmocka_unit_test(what_looks_like_a_batch_is_none),
        cmocka_unit_test(an_error_is_for_good),
        cmocka_unit_test(a_full_file_waits_for_an_image),
        cmocka_unit_test(an_image_waits_for_its_log),
        cmocka_unit_test(who_was_there_is_known_and_what_one_malloc_gave),
        cmocka_unit_test(records_of_nobody_are_refused),
        cmocka_unit_test(what_is_away_is_logged),
        cmocka_unit_test(a_directory_is_such_a_disk),
        cmocka_unit_test(a_directory_that_is_removed_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
